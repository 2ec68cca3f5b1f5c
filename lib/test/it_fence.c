/* it_fence.c - a fence counter that was lowered under a living connection. */
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

        assert_int_equal(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
        before = rlock_fence(&call.lock);
        assert_int_equal(release(fixture, client, &call), STATUS_OK);
        lower(fixture);
        assert_int_equal(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
        ASSERT_NUMBER(rlock_fence(&call.lock), >, before);
        assert_int_equal(release(fixture, client, &call), STATUS_OK);
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
    assert_int_equal(acquire(fixture, client, &calls[0], "a", LEASE_MS), STATUS_OK);
    before = rlock_fence(&calls[0].lock);
    assert_int_equal(release(fixture, client, &calls[0]), STATUS_OK);
    lower(fixture);
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        calls[i].answers = 0;
        call_acquire(client, &calls[i], name, LEASE_MS);
    }
    rlock_flush(client);
    for (int i = 0; i < LOCKS; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        assert_int_equal(calls[i].status, STATUS_OK);
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
        assert_int_equal(acquire_with(fixture, client, &held, NAME, &options), STATUS_OK);
        options.holder = 1;
        call_wait(client, &waiter, NAME, &options);
        call_rest(fixture, &waiter);
        lower(fixture);
        assert_int_equal(release(fixture, client, &held), STATUS_OK);
        fixture_wait_answers(fixture, &waiter, 1);
        assert_int_equal(waiter.status, STATUS_OK);
        ASSERT_NUMBER(rlock_fence(&waiter.lock), >, rlock_fence(&held.lock));
        assert_int_equal(release(fixture, client, &waiter), STATUS_OK);
    }
}

/** Only the first grant of a holder draws a fence. */
static void test_rlock_acquire__nested_keeps_the_fence_of_the_first(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = {.kind = &rlock_reentrant};
    struct call outer = {0}, inner = {0};

    assert_int_equal(acquire_with(fixture, client, &outer, NAME, &options), STATUS_OK);
    lower(fixture);
    assert_int_equal(acquire_with(fixture, client, &inner, NAME, &options), STATUS_OK);
    assert_int_equal(rlock_fence(&inner.lock), rlock_fence(&outer.lock));
    assert_int_equal(release(fixture, client, &inner), STATUS_OK);
    assert_int_equal(release(fixture, client, &outer), STATUS_OK);
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
    assert_int_equal(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, newest);
    assert_int_equal(release(fixture, client, &call), STATUS_OK);
    lower(fixture);
    rlock_raise_fences(client, 0);
    assert_int_equal(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, newest);
    assert_int_equal(release(fixture, client, &call), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_rlock_acquire__never_hands_out_a_smaller_fence),
        FIXTURE_TEST(test_rlock_acquire__of_many_locks_after_the_counter_was_lowered),
        FIXTURE_TEST(test_rlock_acquire__of_a_waiter_after_the_counter_was_lowered),
        FIXTURE_TEST(test_rlock_acquire__nested_keeps_the_fence_of_the_first),
        FIXTURE_TEST(test_rlock_raise_fences__raises_above_a_fence_of_another),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
