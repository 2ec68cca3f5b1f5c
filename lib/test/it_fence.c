/* it_fence.c - a fence counter that was lowered, or set to what no counter can be. */
#include "test/waits.h"

#include <stdio.h>
#include <string.h>

static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS, &rlock_getset};

#define KINDS 7

static void lower(struct fixture *fixture)
{
    server_do(fixture->server, "SET lock:fence 7");
}

static void test_rlock_acquire__never_hands_out_a_smaller_fence(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = waiting(kinds[i], 0, 0);
        struct call call = {0};
        int64_t before;

        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
        before = rlock_fence(&call.lock);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        lower(fixture);
        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
        ASSERT_NUMBER(rlock_fence(&call.lock), >, before);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        assert_false(server_has(fixture->server, NAME)); /* nor an earlier grant */
    }
}

static void test_rlock_acquire__of_many_locks_after_the_counter_was_lowered(void **state)
{
    enum { LOCKS = 300 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    static struct call calls[LOCKS];
    int64_t before;
    char name[24];

    memset(calls, 0, sizeof(calls));
    ASSERT_STATUS(acquire(fixture, client, &calls[0], "a", LEASE_MS), STATUS_OK);
    before = rlock_fence(&calls[0].lock);
    ASSERT_STATUS(release(fixture, client, &calls[0]), STATUS_OK);
    lower(fixture);
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        calls[i].answers = 0;
        call_acquire(client, &calls[i], name, LEASE_MS);
    }
    rlock_flush(client);
    for (int i = 0; i < LOCKS; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_OK);
        ASSERT_NUMBER(rlock_fence(&calls[i].lock), >, before);
    }
    assert_int_equal(server_int(fixture->server, "DBSIZE"), LOCKS + 1);
}

static void test_rlock_acquire__of_a_waiter_after_the_counter_was_lowered(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = waiting(kinds[i], 1, WITHIN_MS);
        struct call held = {0}, waiter = {0};

        options.holder = 0;
        ASSERT_STATUS(acquire_with(fixture, client, &held, NAME, &options), STATUS_OK);
        options.holder = 1;
        call_wait(client, &waiter, NAME, &options);
        call_rest(fixture, &waiter);
        lower(fixture);
        ASSERT_STATUS(release(fixture, client, &held), STATUS_OK);
        fixture_wait_answers(fixture, &waiter, 1);
        ASSERT_STATUS(waiter.status, STATUS_OK);
        ASSERT_NUMBER(rlock_fence(&waiter.lock), >, rlock_fence(&held.lock));
        ASSERT_STATUS(release(fixture, client, &waiter), STATUS_OK);
    }
}

/** Only the first grant of a holder draws a fence. */
static void test_rlock_acquire__nested_keeps_the_fence_of_the_first(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = {.kind = &rlock_reentrant};
    struct call outer = {0}, inner = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &outer, NAME, &options), STATUS_OK);
    lower(fixture);
    ASSERT_STATUS(acquire_with(fixture, client, &inner, NAME, &options), STATUS_OK);
    assert_int_equal(rlock_fence(&inner.lock), rlock_fence(&outer.lock));
    ASSERT_STATUS(release(fixture, client, &inner), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &outer), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));
}

static long long counter(struct fixture *fixture)
{
    return server_int(fixture->server, "INCRBY lock:fence 0");
}

static void test_rlock_raise_fences__raises_above_a_fence_of_another(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    int64_t newest = counter(fixture) + 1000000;
    struct call call = {0};

    rlock_raise_fences(client, newest);
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, newest);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    lower(fixture);
    rlock_raise_fences(client, 0);
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, newest);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

/* -- a counter that is unusable -- */

static const char *const unusable[] = {"8999999999999998",
                                       "9223372036854775807",
                                       "words",
                                       "1.5",
                                       "1e3",
                                       "nan",
                                       " 1",
                                       "",
                                       "9007199254740993",
                                       "-1"};

#define UNUSABLE (sizeof(unusable) / sizeof(unusable[0]))

static void set_counter(struct fixture *fixture, const char *value)
{
    server_do(fixture->server, "SET lock:fence %s", value);
}

static long long server_clock_us(struct fixture *fixture)
{
    return server_int(fixture->server, "EVAL %s 0",
                      "local t = redis.call('TIME') return t[1] * 1000000 + t[2]");
}

/** The fence is greater than `before`, and not ahead of the clock. */
static void assert_acquires(struct fixture *fixture, struct rlock_client *client,
                            const struct rlock_kind *kind, int64_t before)
{
    struct rlock_acquire_options options = waiting(kind, 0, 0);
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, before);
    ASSERT_NUMBER(rlock_fence(&call.lock), <=, server_clock_us(fixture));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

static void test_rlock_acquire__begins_an_unusable_counter_anew(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_stats stats;

    for (size_t i = 0; i < UNUSABLE; i++) {
        for (int kind = 0; kind < KINDS; kind++) {
            int64_t before = server_clock_us(fixture);

            set_counter(fixture, unusable[i]);
            assert_acquires(fixture, client, kinds[kind], before);
        }
    }
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.fence_restarts, UNUSABLE * KINDS);
}

static void test_rlock_client_open__while_the_counter_is_unusable(void **state)
{
    struct fixture *fixture = *state;

    for (size_t i = 0; i < UNUSABLE; i++) {
        int64_t before = server_clock_us(fixture);
        struct rlock_client *client;

        set_counter(fixture, unusable[i]);
        client = fixture_client(fixture);
        assert_acquires(fixture, client, &rlock_plain, before);
    }
}

static void
test_rlock_acquire__a_counter_that_was_deleted_begins_at_the_clock(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_stats stats;

    set_counter(fixture, unusable[0]);
    assert_acquires(fixture, client, &rlock_plain, 0);
    server_do(fixture->server, "DEL lock:fence");
    assert_acquires(fixture, client, &rlock_plain, 0);
    ASSERT_NUMBER(counter(fixture), <=, server_clock_us(fixture));
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.fence_restarts, 2);
}

/** As after the clock of the server was set back. */
static void test_rlock_acquire__keeps_a_counter_that_is_decades_ahead(void **state)
{
    const long long ahead_us = 99LL * 365 * 86400 * 1000000;
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    long long newest = server_clock_us(fixture) + ahead_us;
    struct call call = {0};

    server_do(fixture->server, "SET lock:fence %lld", newest);
    for (int i = 0; i < 3; i++) {
        ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
        assert_int_equal(rlock_fence(&call.lock), newest + 1 + i);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    }
    client = fixture_client(fixture);
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    assert_int_equal(rlock_fence(&call.lock), newest + 4);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

static void test_rlock_raise_fences__ignores_a_fence_that_no_counter_reaches(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_stats stats;

    assert_acquires(fixture, client, &rlock_plain, 0); /* so it has connected */
    for (int i = 0; i < 3; i++) {
        rlock_raise_fences(client, 8999999999999999);
        assert_acquires(fixture, client, &rlock_plain, 0);
        server_do(fixture->server, "DEL lock:fence");
        assert_acquires(fixture, client, &rlock_plain, 0);
    }
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.fence_restarts, 3); /* of the deletions */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_rlock_acquire__never_hands_out_a_smaller_fence),
        FIXTURE_TEST(test_rlock_acquire__of_many_locks_after_the_counter_was_lowered),
        FIXTURE_TEST(test_rlock_acquire__of_a_waiter_after_the_counter_was_lowered),
        FIXTURE_TEST(test_rlock_acquire__nested_keeps_the_fence_of_the_first),
        FIXTURE_TEST(test_rlock_raise_fences__raises_above_a_fence_of_another),
        FIXTURE_TEST(test_rlock_acquire__begins_an_unusable_counter_anew),
        FIXTURE_TEST(test_rlock_client_open__while_the_counter_is_unusable),
        FIXTURE_TEST(test_rlock_acquire__a_counter_that_was_deleted_begins_at_the_clock),
        FIXTURE_TEST(test_rlock_acquire__keeps_a_counter_that_is_decades_ahead),
        FIXTURE_TEST(test_rlock_raise_fences__ignores_a_fence_that_no_counter_reaches),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
