/* it_fence.c - a fence counter that was lowered, or set to what no counter can be. */
#include "test/waits.h"

static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS, &rlock_getset};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void lower(struct fixture *fixture)
{
    server_do(fixture->server, "SET lock:fence 7");
}

FIXTURE_CASE(test_rlock_acquire__never_hands_out_a_smaller_fence)
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

FIXTURE_CASE(test_rlock_acquire__of_a_waiter_after_the_counter_was_lowered)
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
FIXTURE_CASE(test_rlock_acquire__nested_keeps_the_fence_of_the_first)
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

FIXTURE_CASE(test_rlock_raise_fences__raises_above_a_fence_of_another)
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

static long long server_clock_us(struct fixture *fixture)
{
    return server_int(fixture->server, "EVAL %s 0",
                      "local t = redis.call('TIME') return t[1] * 1000000 + t[2]");
}

/** The next fence is greater than those before, and not ahead of the clock. */
FIXTURE_CASE(test_rlock_acquire__begins_an_unusable_counter_anew)
{
    static const char *const unusable[] = {"8999999999999998",
                                           "9223372036854775807",
                                           "9007199254740993",
                                           "words",
                                           "1.5",
                                           "1e3",
                                           "nan",
                                           " 1",
                                           "",
                                           "-1"};
    enum { UNUSABLE = sizeof(unusable) / sizeof(unusable[0]) };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_stats stats;

    for (int i = 0; i < UNUSABLE * KINDS; i++) {
        struct rlock_acquire_options options = waiting(kinds[i % KINDS], 0, 0);
        struct call call = {0};
        int64_t before = server_clock_us(fixture);

        server_do(fixture->server, "SET lock:fence %s", unusable[i / KINDS]);
        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
        ASSERT_NUMBER(rlock_fence(&call.lock), >, before);
        ASSERT_NUMBER(rlock_fence(&call.lock), <=, server_clock_us(fixture));
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    }
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.fence_restarts, UNUSABLE * KINDS);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
