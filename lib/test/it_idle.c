/*
 * it_idle.c - waiters that sleep: their cost for the server, and what they notice without a
 * message.
 */
#include "test/proxy.h"
#include "test/waits.h"

#include <stdio.h>
#include <stdlib.h>

#define NOTICE_MS 2500 /* a lost message is noticed within this time */

static void begin_many(struct rlock_client *client, struct call *calls, unsigned count,
                       uint32_t wait_ms)
{
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, wait_ms);
    char name[24];

    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "item:%u", i);
        call_acquire_with(client, &calls[i], name, &options);
    }
    rlock_flush(client);
}

/** A try follows each subscription. The commands are counted only after these tries. */
FIXTURE_CASE(test_wait__for_20000_names_costs_less_than_500_commands_a_second)
{
    enum { NAMES = 20000, SECONDS = 10 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call *held = calloc(NAMES, sizeof(*held));
    struct call *calls = calloc(NAMES, sizeof(*calls));
    long long before;

    begin_many(alice, held, NAMES, 0);
    for (unsigned i = 0; i < NAMES; i++)
        fixture_wait_answers(fixture, &held[i], 1);
    begin_many(bob, calls, NAMES, RLOCK_WAIT_FOREVER);
    for (unsigned i = 0; i < NAMES; i++)
        call_rest(fixture, &calls[i]);
    fixture_wait_asleep(fixture, bob, &calls[0]);
    for (unsigned i = 0; i < NAMES; i++)
        call_rest(fixture, &calls[i]);
    fixture_settle(fixture);
    before = commands_executed(fixture);
    for (unsigned ms = 0; ms < SECONDS * 1000; ms += 1000)
        fixture_pass_ms(fixture, 1000);
    fixture_settle(fixture);
    ASSERT_NUMBER(commands_executed(fixture) - before, <, 500 * SECONDS);
    fixture_close(fixture, bob);
    fixture_close(fixture, alice);
    free(calls);
    free(held);
}

/** Let time pass until the call is answered. Returns the ms that passed, or a number above
 *  NOTICE_MS. */
static unsigned ms_until_answered(struct fixture *fixture, struct call *call)
{
    unsigned passed_ms = 0;

    fixture_settle(fixture);
    while (call->answers == 0 && passed_ms <= NOTICE_MS) {
        passed_ms += fixture_step(fixture);
        fixture_settle(fixture);
        call_rest(fixture, call); /* a check or a try may have begun in the last turn */
    }
    return passed_ms;
}

/** Open a client that gets no messages, although its connections work. */
static struct rlock_client *deaf_client(struct fixture *fixture, struct proxy **ret_proxy)
{
    struct rlock_client *client;

    *ret_proxy = proxy_start(&fixture->loop, fixture->server->unix_url);
    client = fixture_open(fixture,
                          (struct rlock_client_options){.redis_url = (*ret_proxy)->url,
                                                        .timeout_ms = TIMEOUT_MS});
    fixture_wait_up(fixture, client);
    proxy_always(*ret_proxy, "message", PROXY_DROP);
    return client;
}

FIXTURE_CASE(test_wait__notices_a_lost_message)
{
    static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS};
    struct fixture *fixture = *state;
    struct proxy *proxy;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = deaf_client(fixture, &proxy);

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct rlock_acquire_options options = waiting(kinds[i], 0, RLOCK_WAIT_FOREVER);
        struct call held = {0}, calls[2] = {0};
        unsigned faults = proxy->faults;

        ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), RLOCK_OK);
        for (int n = 0; n < 2; n++) {
            call_wait(bob, &calls[n], NAME, &options);
            fixture_wait_asleep(fixture, bob, &calls[n]);
        }
        ASSERT_STATUS(release(fixture, alice, &held), RLOCK_OK);
        fixture_settle(fixture);
        ASSERT_NUMBER(proxy->faults, >, faults);
        ASSERT_NUMBER(ms_until_answered(fixture, &calls[0]), <=, NOTICE_MS);
        ASSERT_STATUS(calls[0].status, RLOCK_OK);
        ASSERT_STATUS(release(fixture, bob, &calls[0]), RLOCK_OK);
        fixture_wait_answers(fixture, &calls[1], 1);
        ASSERT_STATUS(calls[1].status, RLOCK_OK);
        ASSERT_STATUS(release(fixture, bob, &calls[1]), RLOCK_OK);
    }
    fixture_close(fixture, bob);
    proxy_stop(proxy);
}

/** If no check sets the waiting key again, the key expires after the time of three checks. Without
 *  the key a release publishes no message. */
FIXTURE_CASE(test_wait__keeps_the_waiting_key_alive)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, call = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), RLOCK_OK);
    call_wait(bob, &call, NAME, &options);
    fixture_wait_asleep(fixture, bob, &call);
    for (int i = 0; i < 5; i++) {
        server_pass_ms(fixture->server, WAIT_LOOK_MS);
        fixture_pass_ms(fixture, WAIT_LOOK_MS);
        fixture_settle(fixture);
        ASSERT_BETWEEN(server_int(fixture->server, "PTTL lock:fence:waiting"),
                       WAIT_LOOK_MS, 6000);
    }
    fixture_close(fixture, bob);
}

FIXTURE_CASE(test_wait__of_the_same_holder_ends_with_its_grant)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options =
        waiting(&rlock_reentrant, 7, RLOCK_WAIT_FOREVER);
    struct rlock_acquire_options other = waiting(&rlock_reentrant, 8, RLOCK_WAIT_FOREVER);
    struct call held = {0}, calls[3] = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &other), RLOCK_OK);
    for (int n = 0; n < 3; n++) {
        call_wait(bob, &calls[n], NAME, n == 1 ? &other : &options);
        fixture_wait_asleep(fixture, bob, &calls[n]);
    }
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release(fixture, alice, &held), RLOCK_OK);
    fixture_wait_answers(fixture, &calls[0], 1);
    fixture_wait_answers(fixture, &calls[2], 1);
    ASSERT_STATUS(calls[0].status, RLOCK_OK);
    ASSERT_STATUS(calls[2].status, RLOCK_OK);
    ASSERT_NUMBER(rlock_fence(&calls[2].lock), ==, rlock_fence(&calls[0].lock));
    assert_int_equal(calls[1].answers, 0);
    fixture_close(fixture, bob);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
