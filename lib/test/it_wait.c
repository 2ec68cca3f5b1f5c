/* it_wait.c - waiting for a lock that another client holds, against a real Redis. */
#include "base/clock.h"
#include "test/waits.h"

#include <string.h>

#define HOUR_MS 3600000

/* -- the end of a wait -- */

/** By pub/sub with both kinds, and by spinning, all at once. */
FIXTURE_CASE(test_wait__is_busy_when_its_time_is_up)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    static const char *const names[] = {"plain", "reentrant", "spun"};
    struct rlock_acquire_options options[3];
    struct call held[3] = {0}, calls[3] = {0};
    struct rlock_stats stats;

    for (int i = 0; i < 3; i++) {
        options[i] = waiting(i == 1 ? &rlock_reentrant : &rlock_plain, 0, HOUR_MS);
        ASSERT_STATUS(acquire_with(fixture, alice, &held[i], names[i], &options[i]),
                      STATUS_OK);
    }
    options[2].spin_max_ms = 50;
    for (int i = 0; i < 3; i++)
        call_wait(bob, &calls[i], names[i], &options[i]);
    for (int i = 0; i < 3; i++)
        call_rest(fixture, &calls[i]);
    fixture_pass_ms(fixture, HOUR_MS - 2 * WITHIN_MS);
    for (int i = 0; i < 3; i++) {
        call_rest(fixture, &calls[i]);
        assert_int_equal(calls[i].answers, 0);
    }
    fixture_pass_ms(fixture, 2 * WITHIN_MS);
    for (int i = 0; i < 3; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_BUSY);
        assert_int_equal(calls[i].answers, 1);
    }
    rlock_client_stats(bob, &stats);
    assert_int_equal(stats.busy, 3);
    assert_no_channels(fixture);
}

/* -- being woken -- */

FIXTURE_CASE(test_release__wakes_a_waiter_long_before_the_lease_ends)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, call = {0};
    long long before;

    ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK); /* scripts are known */
    ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    fixture_hold_timers(fixture);
    before = script_calls(fixture);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, STATUS_OK);
    assert_int_equal(script_calls(fixture) - before, 2); /* the release, one try */
    ASSERT_NUMBER(rlock_fence(&call.lock), >, rlock_fence(&held.lock));
    ASSERT_NUMBER(rlock_safe_for_us(&call.lock, clock_mono_us()), >, 0);
    assert_no_channels(fixture);
    ASSERT_STATUS(release(fixture, bob, &call), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));
}

FIXTURE_CASE(test_force_release__wakes_a_waiter)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, call = {0};
    struct answer answer = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(force(fixture, alice, &answer, NAME), STATUS_OK);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, rlock_fence(&held.lock));
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_LOST);
    ASSERT_STATUS(force(fixture, alice, &answer, NAME), STATUS_OK);
    ASSERT_STATUS(force(fixture, alice, &answer, NAME), STATUS_NOT_FOUND);
    ASSERT_STATUS(release(fixture, bob, &call), STATUS_LOST);
}

/** An owner that died: the waiter tries within 20 ms of the end of the lease. */
FIXTURE_CASE(test_wait__is_granted_within_20_ms_of_the_expiry)
{
    enum { LEFT_MS = 1500 }; /* less than to the next check */
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, call = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    server_pass_ms(fixture->server, LEASE_MS - LEFT_MS);
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    server_pass_ms(fixture->server, LEFT_MS);
    fixture_pass_ms(fixture, LEFT_MS + 20);
    assert_tries(&call);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, rlock_fence(&held.lock));
}

static bool begins_to_wait(void *arg)
{
    const struct call *call = arg;

    return call->lock.waiter != NULL;
}

/**
 * Released between the failed try and the subscription: nobody gets the message, and the
 * try after the subscription finds the lock free.
 */
FIXTURE_CASE(test_release__before_the_waiter_has_subscribed_is_not_missed)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, call = {0};

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait(bob, &call, NAME, &options);
    FIXTURE_AWAIT(fixture, begins_to_wait, &call);
    server_pause(fixture->server);
    for (int i = 0; i < 10; i++) /* its connection for messages is opened */
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    fixture_hold_timers(fixture);
    server_resume(fixture->server);
    (void)server_int(fixture->server, "DEL " NAME);
    assert_int_equal(server_int(fixture->server, "PUBLISH rlock:" NAME " x"), 0);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, STATUS_OK);
}

struct tries {
    struct fixture *fixture;
    long long wanted;
};

static bool has_tried(void *arg)
{
    const struct tries *tries = arg;

    return script_calls(tries->fixture) >= tries->wanted;
}

/** A message that comes during a try leads to another try. */
FIXTURE_CASE(test_wait__message_during_a_try_is_not_missed)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, call = {0};
    struct tries tries = {.fixture = fixture};

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    fixture_hold_timers(fixture);
    tries.wanted = script_calls(fixture) + 2;
    server_do(fixture->server, "MULTI");
    for (int i = 0; i < 3; i++) /* one try may do for the two messages behind it */
        server_do(fixture->server, "PUBLISH rlock:" NAME " x");
    server_do(fixture->server, "EXEC");
    FIXTURE_AWAIT(fixture, has_tried, &tries);
    call_rest(fixture, &call);
    ASSERT_NUMBER(script_calls(fixture), <=, tries.wanted + 1);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, STATUS_OK);
}

/* -- names -- */

/** A callback of its own: call_acquire_with() takes no names with a NUL. */
static void on_named(struct rlock *lock, enum status status, void *arg)
{
    struct call *call = arg;

    assert_ptr_equal(lock, &call->lock);
    call->status = status;
    call->answers++;
}

FIXTURE_CASE(test_wait__names_are_binary_safe_up_to_the_longest)
{
    enum { NAMES = 7 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
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
    fixture_hold_timers(fixture);
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(calls[i].answers, 0); /* by the message of another lock */
        rlock_release(alice, &held[i].lock, NULL, NULL);
        rlock_flush(alice);
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_OK);
    }
    assert_no_channels(fixture);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
