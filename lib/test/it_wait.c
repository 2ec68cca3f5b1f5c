/* it_wait.c - waiting for a lock that another client holds, against a real Redis. */
#include "test/waits.h"

#include <string.h>

static bool begins_to_wait(void *arg)
{
    const struct call *call = arg;

    return call->lock.waiter != NULL;
}

/** The lock is released between the failed try and the subscription. Nobody gets the message, but
 *  the try after the subscription finds the lock free. */
FIXTURE_CASE(test_release__before_the_waiter_has_subscribed_is_not_missed)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, call = {0};

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), RLOCK_OK);
    call_wait(bob, &call, NAME, &options);
    FIXTURE_AWAIT(fixture, begins_to_wait, &call);
    server_pause(fixture->server);
    for (int i = 0; i < 10; i++) /* the client opens its connection for messages */
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    fixture_hold_timers(fixture);
    server_resume(fixture->server);
    (void)server_int(fixture->server, "DEL " NAME);
    assert_int_equal(server_int(fixture->server, "PUBLISH rlock:" NAME " x"), 0);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, RLOCK_OK);
}

static unsigned count_answers(const struct call *calls, unsigned count)
{
    unsigned answers = 0;

    for (unsigned i = 0; i < count; i++)
        answers += calls[i].answers;
    return answers;
}

FIXTURE_CASE(test_release__has_one_winner_among_200_of_eight_clients)
{
    enum { MANY = 200, CLIENTS = 8 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[CLIENTS], *owner = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0};
    struct call calls[MANY] = {0};
    long long scripts, commands;

    for (unsigned i = 0; i < CLIENTS; i++)
        clients[i] = fixture_client(fixture);
    ASSERT_STATUS(acquire(fixture, owner, &held, NAME, LEASE_MS), RLOCK_OK);
    /* now the server knows the scripts */
    ASSERT_STATUS(release(fixture, owner, &held), RLOCK_OK);
    ASSERT_STATUS(acquire(fixture, owner, &held, NAME, LEASE_MS), RLOCK_OK);
    for (unsigned i = 0; i < MANY; i++)
        call_acquire_with(clients[i % CLIENTS], &calls[i], NAME, &options);
    for (unsigned i = 0; i < CLIENTS; i++)
        rlock_flush(clients[i]);
    for (unsigned i = 0; i < MANY; i++)
        fixture_wait_asleep(fixture, clients[i % CLIENTS], &calls[i]);
    assert_int_equal(channels_in_use(fixture), 1);
    fixture_hold_timers(fixture);
    fixture_settle(fixture);
    scripts = script_calls(fixture);
    commands = commands_executed(fixture);
    ASSERT_STATUS(release(fixture, owner, &held), RLOCK_OK);
    fixture_settle(fixture);
    assert_int_equal(count_answers(calls, MANY), 1);
    /* These are the release, and one try of each client. */
    ASSERT_NUMBER(script_calls(fixture) - scripts, ==, 1 + CLIENTS);
    ASSERT_NUMBER(commands_executed(fixture) - commands, <=, 3 * CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++)
        fixture_close(fixture, clients[i]); /* before the calls go out of scope */
}

/** This test has its own callback, because call_acquire_with() takes no names with a NUL. */
static void on_named(struct rlock *lock, enum rlock_status status, void *arg)
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
        assert_int_equal(calls[i].answers, 0);
        rlock_release(alice, &held[i].lock, NULL, NULL);
        rlock_flush(alice);
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, RLOCK_OK);
    }
    assert_no_channels(fixture);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
