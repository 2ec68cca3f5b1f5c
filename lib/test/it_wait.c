/* it_wait.c - waiting for a lock that another holds, against a real Redis. */
#include "base/clock.h"
#include "lock/internal.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <string.h>

/* -- the end of a wait -- */

/** By pub/sub with both kinds, and by spinning, all at once. */
static void test_wait__of_three_seconds_is_busy_at_its_end(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    static const char *const names[] = {"plain", "reentrant", "spun"};
    struct rlock_acquire_options options[3];
    struct call held[3] = {0}, calls[3] = {0};
    struct rlock_stats stats;
    int64_t begin_us;

    for (int i = 0; i < 3; i++) {
        options[i] = waiting(i == 1 ? &rlock_reentrant : &rlock_plain, 0, 3000);
        assert_int_equal(acquire_with(fixture, alice, &held[i], names[i], &options[i]),
                         STATUS_OK);
    }
    options[2].spin_max_ms = 50;
    begin_us = clock_mono_us();
    for (int i = 0; i < 3; i++)
        call_acquire_with(bob, &calls[i], names[i], &options[i]);
    rlock_flush(bob);
    fixture_run_for(fixture, 2950);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls[i].answers, 0);
    }
    for (int i = 0; i < 3; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        assert_int_equal(calls[i].status, STATUS_BUSY);
        assert_int_equal(calls[i].answers, 1);
    }
    ASSERT_BETWEEN(clock_mono_us() - begin_us, 3000000, 3350000);
    rlock_client_stats(bob, &stats);
    assert_int_equal(stats.busy, 3);
    assert_no_channels(fixture);
}

static void test_wait__of_nothing_is_one_try(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, 0);
    struct call held = {0}, call = {0};
    long long before, connections;

    assert_int_equal(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    before = script_calls(fixture);
    connections = server_calls(fixture->server, "subscribe");
    assert_int_equal(acquire_with(fixture, bob, &call, NAME, &options), STATUS_BUSY);
    fixture_run_for(fixture, 100);
    assert_int_equal(script_calls(fixture) - before, 1);
    assert_int_equal(server_calls(fixture->server, "subscribe"), connections);
    assert_null(bob->channels.conn);
    assert_false(server_has(fixture->server, "lock:fence:waiting"));
}

/** A lock that is free costs one call however long its taker would wait. */
static void test_wait__on_a_free_lock_is_granted_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call call = {0};

    assert_int_equal(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
    assert_null(client->channels.conn);
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 2); /* and the counter */
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL " NAME), 1, LEASE_MS);
}

/** Not reentrant: its own holder finds it busy, and a wait for itself ends. */
static void test_wait__for_a_lock_of_ones_own_ends(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, 200);
    struct call held = {0}, call = {0};
    int64_t begin_us;

    assert_int_equal(acquire(fixture, client, &held, NAME, LEASE_MS), STATUS_OK);
    begin_us = clock_mono_us();
    assert_int_equal(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_BUSY);
    ASSERT_NUMBER(clock_mono_us() - begin_us, <, 200000);
    begin_us = clock_mono_us();
    assert_int_equal(acquire_with(fixture, client, &call, NAME, &options), STATUS_BUSY);
    ASSERT_BETWEEN(clock_mono_us() - begin_us, 200000, PROMPTLY_US);
    assert_true(rlock_is_held(&held.lock));
    assert_int_equal(release(fixture, client, &held), STATUS_OK);
}

static void test_wait__ends_though_the_watchdog_renews_for_the_owner(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, 1200);
    struct call held = {0}, call = {0};
    struct rlock_stats before, after;

    assert_int_equal(acquire_watched(fixture, alice, &held, NAME, 500), STATUS_OK);
    rlock_client_stats(alice, &before);
    assert_int_equal(acquire_with(fixture, bob, &call, NAME, &options), STATUS_BUSY);
    rlock_client_stats(alice, &after);
    ASSERT_NUMBER(after.renewed, >, before.renewed + 2);
    assert_int_equal(release(fixture, alice, &held), STATUS_OK);
}

/* -- being woken -- */

static void wake(struct fixture *fixture, const struct rlock_kind *kind)
{
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(kind, 0, LONG_MS);
    struct call held = {0}, call = {0};
    long long before;
    int64_t begin_us;

    assert_int_equal(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    assert_int_equal(release(fixture, alice, &held), STATUS_OK); /* scripts are known */
    assert_int_equal(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    before = script_calls(fixture);
    begin_us = clock_mono_us();
    assert_int_equal(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_NUMBER(clock_mono_us() - begin_us, <, PROMPTLY_US);
    assert_int_equal(call.status, STATUS_OK);
    assert_int_equal(script_calls(fixture) - before, 2); /* the release, one try */
    ASSERT_NUMBER(rlock_fence(&call.lock), >, rlock_fence(&held.lock));
    ASSERT_NUMBER(rlock_safe_for_us(&call.lock, clock_mono_us()), >, 0);
    assert_no_channels(fixture);
    assert_int_equal(release(fixture, bob, &call), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));
}

static void test_release__wakes_a_waiter_long_before_the_lease_ends(void **state)
{
    wake(*state, &rlock_plain);
}

static void test_release__wakes_a_reentrant_waiter(void **state)
{
    wake(*state, &rlock_reentrant);
}

static void force_wake(struct fixture *fixture, const struct rlock_kind *kind)
{
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(kind, 0, LONG_MS);
    struct call held = {0}, call = {0};
    struct answer answer = {0};
    int64_t begin_us;

    assert_int_equal(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    begin_us = clock_mono_us();
    assert_int_equal(force(fixture, alice, &answer, NAME), STATUS_OK);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_NUMBER(clock_mono_us() - begin_us, <, PROMPTLY_US);
    assert_int_equal(call.status, STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, rlock_fence(&held.lock));
    assert_int_equal(release(fixture, alice, &held), STATUS_LOST);
    assert_int_equal(force(fixture, alice, &answer, NAME), STATUS_OK);
    assert_int_equal(force(fixture, alice, &answer, NAME), STATUS_NOT_FOUND);
    assert_int_equal(release(fixture, bob, &call), STATUS_LOST);
}

static void test_force_release__wakes_a_waiter(void **state)
{
    force_wake(*state, &rlock_plain);
}

static void test_force_release__wakes_a_reentrant_waiter(void **state)
{
    force_wake(*state, &rlock_reentrant);
}

/**
 * Holders that die, five of each kind: each time the waiter gets it, never before the
 * lease ended. How soon after that is judged by the best, for the machine may be busy.
 */
static void test_expiry__lets_a_waiter_in_within_20_ms(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int kind = 0; kind < 2; kind++) {
        const struct rlock_kind *kinds[] = {&rlock_plain, &rlock_reentrant};
        struct rlock_acquire_options options = waiting(kinds[kind], 0, LONG_MS);
        int64_t best_us = INT64_MAX;

        options.lease_ms = 100;
        for (int i = 0; i < 5; i++) {
            struct call held = {0}, call = {0};
            int64_t begin_us = clock_mono_us(), took_us;

            freeReplyObject(server_command(fixture->server, "DEL " NAME));
            assert_int_equal(acquire_with(fixture, alice, &held, NAME, &options),
                             STATUS_OK);
            assert_int_equal(acquire_with(fixture, bob, &call, NAME, &options),
                             STATUS_OK);
            took_us = clock_mono_us() - begin_us;
            ASSERT_NUMBER(took_us, >=, 99000);
            best_us = took_us < best_us ? took_us : best_us;
        }
        ASSERT_NUMBER(best_us, <=, 100000 + 20000);
    }
}

static bool begins_to_wait(void *arg)
{
    const struct call *call = arg;

    return call->lock.waiter != NULL;
}

/**
 * Released between the failed try and the subscription: the message goes to nobody, and
 * the last try, after the subscription, finds the lock free.
 */
static void test_release__before_the_waiter_has_subscribed_is_not_missed(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, LONG_MS);
    struct call held = {0}, call = {0};
    int64_t begin_us;

    assert_int_equal(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait(bob, &call, NAME, &options);
    /* its connection for messages is not open yet */
    FIXTURE_AWAIT(fixture, begins_to_wait, &call);
    (void)server_int(fixture->server, "DEL " NAME);
    assert_int_equal(server_int(fixture->server, "PUBLISH rlock:" NAME " x"), 0);
    begin_us = clock_mono_us();
    fixture_wait_answers(fixture, &call, 1);
    assert_int_equal(call.status, STATUS_OK);
    ASSERT_NUMBER(clock_mono_us() - begin_us, <, PROMPTLY_US);
}

/** Who is called again while its try is under way tries once more. */
static void test_wait__message_during_a_try_is_not_missed(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, LONG_MS);
    struct call held = {0}, call = {0};
    long long before;

    assert_int_equal(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    before = server_calls(fixture->server, "evalsha");
    freeReplyObject(server_command(fixture->server, "MULTI"));
    for (int i = 0; i < 3; i++) /* three of them: one may do for the two behind it */
        freeReplyObject(server_command(fixture->server, "PUBLISH rlock:" NAME " x"));
    freeReplyObject(server_command(fixture->server, "EXEC"));
    fixture_run_for(fixture, 100);
    ASSERT_BETWEEN(server_calls(fixture->server, "evalsha") - before, 2, 3);
    assert_int_equal(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &call, 1);
    assert_int_equal(call.status, STATUS_OK);
}

/** Deleted by hand, or the message was lost: it is found out, and not by the lease. */
static void test_wait__looks_without_a_message_too(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, call = {0};
    int64_t begin_us = clock_mono_us();

    assert_int_equal(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    /* who never comes back to renew it keeps it for no longer */
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL lock:fence:waiting"), 4000, 6000);
    freeReplyObject(server_command(fixture->server, "FLUSHALL"));
    fixture_wait_answers(fixture, &call, 1);
    assert_int_equal(call.status, STATUS_OK);
    ASSERT_NUMBER(clock_mono_us() - begin_us, <, 4000000);
}

/* -- spinning -- */

static void test_spin__asks_within_its_bounds_and_listens_to_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, 400);
    struct call held = {0}, call = {0};
    long long before;

    options.spin_min_ms = options.spin_max_ms = 20;
    assert_int_equal(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    before = script_calls(fixture);
    assert_int_equal(acquire_with(fixture, bob, &call, NAME, &options), STATUS_BUSY);
    ASSERT_BETWEEN(script_calls(fixture) - before, 400 / 20 / 3, 400 / 10 + 1);
    assert_null(bob->channels.conn);

    options.wait_ms = LONG_MS;
    call_wait(bob, &call, NAME, &options);
    fixture_run_for(fixture, 50);
    assert_int_equal(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &call, 2);
    assert_int_equal(call.status, STATUS_OK);
    options.spin_min_ms = 30; /* more than the most */
    assert_int_equal(acquire_with(fixture, alice, &held, "b", &options), STATUS_INVALID);
}

/* -- names, types, statistics -- */

/** Their own callbacks: call_acquire_with() takes no names with a NUL. */
static void on_named(struct rlock *lock, enum status status, void *arg)
{
    struct call *call = arg;

    assert_ptr_equal(lock, &call->lock);
    call->status = status;
    call->answers++;
}

static void wait_with_names(struct fixture *fixture, const struct rlock_kind *kind)
{
    enum { NAMES = 7 };
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(kind, 0, LONG_MS);
    struct call held[NAMES] = {0}, calls[NAMES] = {0};
    char longest[RLOCK_NAME_MAX];
    const char *names[NAMES] = {longest, "a\0b", "a\r\nb", "\xff\xfe", " ", "{a}b", "}"};
    size_t lens[NAMES] = {RLOCK_NAME_MAX, 3, 4, 2, 1, 4, 1};

    memset(longest, 'n', RLOCK_NAME_MAX);
    for (int i = 0; i < NAMES; i++)
        rlock_acquire(alice, &held[i].lock, names[i], lens[i], &options, on_named,
                      &held[i]);
    rlock_flush(alice);
    for (int i = 0; i < NAMES; i++) {
        fixture_wait_answers(fixture, &held[i], 1);
        rlock_acquire(bob, &calls[i].lock, names[i], lens[i], &options, on_named,
                      &calls[i]);
    }
    rlock_flush(bob);
    for (int i = 0; i < NAMES; i++)
        fixture_wait_asleep(fixture, bob, &calls[i]);
    assert_int_equal(channels_in_use(fixture), NAMES);
    for (int i = 0; i < NAMES; i++) {
        int64_t begin_us = clock_mono_us();

        assert_int_equal(calls[i].answers, 0); /* the others' messages are not its */
        rlock_release(alice, &held[i].lock, NULL, NULL);
        rlock_flush(alice);
        fixture_wait_answers(fixture, &calls[i], 1);
        assert_int_equal(calls[i].status, STATUS_OK);
        ASSERT_NUMBER(clock_mono_us() - begin_us, <, PROMPTLY_US);
    }
    assert_no_channels(fixture);
}

static void test_wait__names_are_binary_safe_up_to_the_longest(void **state)
{
    wait_with_names(*state, &rlock_plain);
}

static void test_wait__reentrant_names_are_binary_safe_up_to_the_longest(void **state)
{
    wait_with_names(*state, &rlock_reentrant);
}

/** For a plain lock whatever stands at the key is another's. */
static void test_wait__for_a_key_of_another_type_leaves_it_alone(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, 150);
    struct call call = {0};

    (void)server_int(fixture->server, "HSET " NAME " field value");
    assert_int_equal(acquire_with(fixture, client, &call, NAME, &options), STATUS_BUSY);
    assert_int_equal(server_int(fixture->server, "HLEN " NAME), 1);
    assert_int_equal(server_int(fixture->server, "PTTL " NAME), -1);
    options.wait_ms = LONG_MS;
    call_wait(client, &call, NAME, &options);
    fixture_wait_asleep(fixture, client, &call);
    (void)server_int(fixture->server, "DEL " NAME);
    (void)server_int(fixture->server, "PUBLISH rlock:" NAME " x");
    fixture_wait_answers(fixture, &call, 2);
    assert_int_equal(call.status, STATUS_OK);
}

static void test_stats__tell_how_long_grants_took(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, LONG_MS);
    struct call held = {0}, calls[2] = {0};
    struct rlock_stats stats;
    uint64_t sum = 0;

    options.lease_ms = 300;
    assert_int_equal(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    assert_int_equal(acquire_with(fixture, bob, &calls[0], "free", &options), STATUS_OK);
    assert_int_equal(acquire_with(fixture, bob, &calls[1], NAME, &options), STATUS_OK);
    rlock_client_stats(bob, &stats);
    for (int i = 0; i < RLOCK_WAIT_BUCKETS; i++)
        sum += stats.waits[i];
    assert_int_equal(stats.granted, 2);
    assert_int_equal(sum, 2);
    assert_int_equal(stats.waits[9], 1); /* 256..511 ms */
    for (int i = 7; i < RLOCK_WAIT_BUCKETS; i++)
        assert_int_equal(stats.waits[i], i == 9);
    assert_int_equal(stats.busy + stats.failed,
                     0); /* that it had to wait is no failure */
}

static void test_scripts__flushed_while_waiting_are_taught_again(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, LONG_MS);
    struct call held = {0}, call = {0};
    long long before;

    assert_int_equal(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    freeReplyObject(server_command(fixture->server, "SCRIPT FLUSH"));
    before = server_calls(fixture->server, "eval");
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    assert_int_equal(server_calls(fixture->server, "eval") - before, 1);
    freeReplyObject(server_command(fixture->server, "SCRIPT FLUSH"));
    assert_int_equal(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &call, 1);
    assert_int_equal(call.status, STATUS_OK);
    assert_int_equal(server_calls(fixture->server, "eval") - before, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_wait__of_three_seconds_is_busy_at_its_end),
        FIXTURE_TEST(test_wait__of_nothing_is_one_try),
        FIXTURE_TEST(test_wait__on_a_free_lock_is_granted_at_once),
        FIXTURE_TEST(test_wait__for_a_lock_of_ones_own_ends),
        FIXTURE_TEST(test_wait__ends_though_the_watchdog_renews_for_the_owner),
        FIXTURE_TEST(test_release__wakes_a_waiter_long_before_the_lease_ends),
        FIXTURE_TEST(test_release__wakes_a_reentrant_waiter),
        FIXTURE_TEST(test_force_release__wakes_a_waiter),
        FIXTURE_TEST(test_force_release__wakes_a_reentrant_waiter),
        FIXTURE_TEST(test_expiry__lets_a_waiter_in_within_20_ms),
        FIXTURE_TEST(test_release__before_the_waiter_has_subscribed_is_not_missed),
        FIXTURE_TEST(test_wait__message_during_a_try_is_not_missed),
        FIXTURE_TEST(test_wait__looks_without_a_message_too),
        FIXTURE_TEST(test_spin__asks_within_its_bounds_and_listens_to_nothing),
        FIXTURE_TEST(test_wait__names_are_binary_safe_up_to_the_longest),
        FIXTURE_TEST(test_wait__reentrant_names_are_binary_safe_up_to_the_longest),
        FIXTURE_TEST(test_wait__for_a_key_of_another_type_leaves_it_alone),
        FIXTURE_TEST(test_stats__tell_how_long_grants_took),
        FIXTURE_TEST(test_scripts__flushed_while_waiting_are_taught_again),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
