/* it_wait_faults.c - waits that are cancelled, cut off or refused. */
#include "test/waits.h"

#include <stdio.h>
#include <string.h>

/** Wait for the plain lock NAME. */
static void call_wait_ms(struct rlock_client *client, struct call *call, uint32_t wait_ms)
{
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, wait_ms);

    call_wait(client, call, NAME, &options);
}

static bool begins_to_wait(void *arg)
{
    const struct call *call = arg;

    return call->lock.waiter != NULL;
}

static bool is_free_again(void *arg)
{
    return !server_has(((struct fixture *)arg)->server, NAME);
}

/* -- cancelled -- */

/** Cancel it: answered without the server, which is stopped, and without a timer. */
static void cancel(struct fixture *fixture, struct rlock_client *client,
                   struct call *call)
{
    unsigned answers = call->answers;

    server_pause(fixture->server);
    fixture_hold_timers(fixture);
    rlock_cancel(client, &call->lock);
    assert_int_equal(call->answers, answers); /* not from inside the call */
    fixture_wait_answers(fixture, call, answers + 1);
    ASSERT_STATUS(call->status, STATUS_CANCELLED);
    assert_false(rlock_is_held(&call->lock));
    memset(&call->lock, 0, sizeof(call->lock)); /* the caller's again */
    rlock_cancel(client, &call->lock);          /* of an idle lock: nothing */
    server_resume(fixture->server);
}

FIXTURE_CASE(test_rlock_cancel__of_a_sleeping_waiter)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call held = {0}, call = {0};
    struct rlock_stats stats;

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait_ms(bob, &call, RLOCK_WAIT_FOREVER);
    fixture_wait_asleep(fixture, bob, &call);
    cancel(fixture, bob, &call);
    assert_no_channels(fixture);
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 3);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL lock:fence:waiting"), 0, 6000);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    fixture_run_for(fixture, 50);
    assert_int_equal(call.answers, 1);
    assert_false(server_has(fixture->server, NAME));
    rlock_client_stats(bob, &stats);
    assert_int_equal(stats.granted + stats.busy + stats.failed, 0);
}

/** Granted after it was cancelled, it is released. */
FIXTURE_CASE(test_rlock_cancel__of_a_try_under_way)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0}, warm = {0};

    ASSERT_STATUS(acquire(fixture, client, &warm, "warm", LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    call_wait_ms(client, &call, RLOCK_WAIT_FOREVER);
    cancel(fixture, client, &call);
    FIXTURE_AWAIT(fixture, is_free_again, fixture);
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    fixture_pass_ms(fixture, 1001); /* the second release of the cancelled one */
    fixture_run_for(fixture, 20);
    assert_true(server_has(fixture->server, NAME));
}

/** Its connection for messages is not open yet; the next wait is not disturbed. */
FIXTURE_CASE(test_rlock_cancel__before_it_has_subscribed)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call held = {0}, call = {0};

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    for (unsigned i = 0; i < 2; i++) { /* the second with the SUBSCRIBE on its way */
        call_wait_ms(bob, &call, RLOCK_WAIT_FOREVER);
        FIXTURE_AWAIT(fixture, begins_to_wait, &call);
        cancel(fixture, bob, &call);
        fixture_run_for(fixture, 20);
        assert_no_channels(fixture);
    }
    call_wait_ms(bob, &call, RLOCK_WAIT_FOREVER);
    fixture_wait_asleep(fixture, bob, &call);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &call, 3);
    ASSERT_STATUS(call.status, STATUS_OK);
}

/** A wait that begins while the UNSUBSCRIBE of the last is on its way subscribes anew. */
FIXTURE_CASE(test_wait__begun_while_the_channel_is_being_left)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call held = {0}, calls[2] = {0};
    long long before = server_calls(fixture->server, "unsubscribe");

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait_ms(bob, &calls[0], RLOCK_WAIT_FOREVER);
    fixture_wait_asleep(fixture, bob, &calls[0]);
    server_pause(fixture->server);
    call_wait_ms(bob, &calls[1], RLOCK_WAIT_FOREVER);
    rlock_cancel(bob, &calls[0].lock);
    fixture_wait_answers(fixture, &calls[0], 1);
    server_resume(fixture->server);
    fixture_wait_asleep(fixture, bob, &calls[1]);
    assert_int_equal(server_calls(fixture->server, "unsubscribe") - before, 1);
    assert_int_equal(channels_in_use(fixture), 1);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &calls[1], 1);
    ASSERT_STATUS(calls[1].status, STATUS_OK);
}

/* -- cut off -- */

/** The message is published while the connection is down. */
FIXTURE_CASE(test_wait__message_lost_with_the_connection_is_made_up_for)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call held = {0}, calls[2] = {0};

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        call_wait_ms(bob, &calls[i], RLOCK_WAIT_FOREVER);
        fixture_wait_asleep(fixture, bob, &calls[i]);
    }
    fixture_hold_timers(fixture);
    assert_int_equal(server_int(fixture->server, "CLIENT KILL TYPE pubsub"), 1);
    (void)server_int(fixture->server, "DEL " NAME);
    assert_int_equal(server_int(fixture->server, "PUBLISH rlock:" NAME " x"), 0);
    fixture_wait_answers(fixture, &calls[0], 1);
    ASSERT_STATUS(calls[0].status, STATUS_OK);

    fixture_wait_asleep(fixture, bob, &calls[1]); /* it is subscribed again */
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release(fixture, bob, &calls[0]), STATUS_OK);
    fixture_wait_answers(fixture, &calls[1], 1);
    ASSERT_STATUS(calls[1].status, STATUS_OK);
    assert_no_channels(fixture);
}

/** The lock is lost with the data: each waiter gets it in turn. */
FIXTURE_CASE(test_wait__outlives_a_restart_of_the_server)
{
    enum { WAITERS = 20 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call held = {0}, calls[WAITERS] = {0};

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    for (int i = 0; i < WAITERS; i++)
        call_wait_ms(bob, &calls[i], RLOCK_WAIT_FOREVER);
    for (int i = 0; i < WAITERS; i++)
        fixture_wait_asleep(fixture, bob, &calls[i]);
    server_kill(fixture->server);
    fixture_wait_down(fixture, bob);
    fixture_wait_down(fixture, alice);
    server_restart(fixture->server);
    for (int i = 0; i < WAITERS; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_OK);
        ASSERT_STATUS(release(fixture, bob, &calls[i]), STATUS_OK);
    }
    fixture_wait_up(fixture, alice);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_LOST);
    assert_no_channels(fixture);
}

/** Whether the try in progress was granted is unknown, so its end says so. */
FIXTURE_CASE(test_wait__on_a_hung_server_is_unknown_at_its_end)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call held = {0}, sleeping = {0}, trying = {0}, ending = {0};

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait_ms(bob, &sleeping, RLOCK_WAIT_FOREVER);
    fixture_wait_asleep(fixture, bob, &sleeping);
    server_pause(fixture->server);
    call_wait_ms(bob, &trying, RLOCK_WAIT_FOREVER);
    call_wait_ms(bob, &ending, 2 * TIMEOUT_MS);
    fixture_run_for(fixture, 20);
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    fixture_wait_down(fixture, bob);
    assert_int_equal(ending.answers, 0);
    fixture_pass_ms(fixture, TIMEOUT_MS);
    fixture_wait_answers(fixture, &ending, 1);
    ASSERT_STATUS(ending.status, STATUS_TIMEOUT);
    assert_int_equal(trying.answers + sleeping.answers, 0);
    server_resume(fixture->server);
    fixture_wait_up(fixture, bob);
    fixture_wait_up(fixture, alice);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &sleeping, 1);
    ASSERT_STATUS(release(fixture, bob, &sleeping), STATUS_OK);
    fixture_wait_answers(fixture, &trying, 1);
    ASSERT_STATUS(release(fixture, bob, &trying), STATUS_OK);
    FIXTURE_AWAIT(fixture, is_free_again, fixture);
}

/* -- refused -- */

/** A client of a user who may neither subscribe nor publish. */
static struct rlock_client *deaf_client(struct fixture *fixture)
{
    struct rlock_client *client;
    char url[128];

    server_do(fixture->server, "ACL SETUSER deaf on >secret ~* +@all resetchannels");
    snprintf(url, sizeof(url), "redis://deaf:secret@127.0.0.1:%u", fixture->server->port);
    client = fixture_open(fixture, (struct rlock_client_options){
                                       .redis_url = url, .timeout_ms = TIMEOUT_MS});
    fixture_wait_up(fixture, client);
    return client;
}

/** Only the first waiter of a client tries, with pauses of 50 to 500 ms. */
FIXTURE_CASE(test_wait__without_permission_to_subscribe_tries_again_and_again)
{
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = deaf_client(fixture);
    struct call held = {0}, calls[2] = {0};

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    assert_spins(fixture, bob, &options, 25, 500);
    for (int i = 0; i < 2; i++) {
        call_wait_ms(bob, &calls[i], RLOCK_WAIT_FOREVER);
        call_rest(fixture, &calls[i]);
    }
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    fixture_pass_ms(fixture, 501);
    assert_tries(&calls[0]);
    fixture_wait_answers(fixture, &calls[0], 1);
    ASSERT_STATUS(calls[0].status, STATUS_OK);
    assert_int_equal(calls[1].answers, 0);
    rlock_cancel(bob, &calls[1].lock);
    fixture_wait_answers(fixture, &calls[1], 1);
    fixture_close(fixture, bob);
    server_do(fixture->server, "ACL DELUSER deaf");
}

/** A release that cannot be published is no failure. */
FIXTURE_CASE(test_release__without_permission_to_publish_is_done)
{
    static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS};
    struct fixture *fixture = *state;
    struct rlock_client *alice = deaf_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct answer answer = {0};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct rlock_acquire_options options = waiting(kinds[i], 0, RLOCK_WAIT_FOREVER);
        struct call held = {0}, call = {0};

        ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
        call_acquire_with(bob, &call, NAME, &options);
        rlock_flush(bob);
        fixture_wait_asleep(fixture, bob, &call);
        ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
        fixture_pass_ms(fixture, WAIT_LOOK_MS);
        fixture_wait_answers(fixture, &call, 1);
        ASSERT_STATUS(call.status, STATUS_OK);
        ASSERT_STATUS(force(fixture, alice, &answer, NAME), STATUS_OK);
    }
    fixture_close(fixture, alice);
    server_do(fixture->server, "ACL DELUSER deaf");
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
