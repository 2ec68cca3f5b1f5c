/* it_watchdog.c - renewals of leases, and reports of lost locks. */
#include "base/clock.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#define DUE_MS (LEASE_MS / 3 + 1) /* after which a renewal is due */

FIXTURE_CASE(test_watchdog__holds_a_lock_for_ten_leases)
{
    enum { RENEWALS = 30 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call held = {0}, other = {0};
    int64_t begin_us = clock_mono_us();

    ASSERT_STATUS(acquire_watched(fixture, alice, &held, "item:7", LEASE_MS), STATUS_OK);
    for (int i = 0; i < RENEWALS; i++) {
        fixture_pass_renewal(fixture, alice, LEASE_MS, 1);
        ASSERT_STATUS(acquire(fixture, bob, &other, "item:7", LEASE_MS), STATUS_BUSY);
        ASSERT_NUMBER(rlock_safe_for_us(&held.lock, clock_mono_us()), >, 0);
    }
    assert_true(rlock_is_held(&held.lock));
    assert_int_equal(held.losses, 0);
    ASSERT_BETWEEN(fixture_renewed(alice), RENEWALS,
                   (clock_mono_us() - begin_us) / 1000 / (LEASE_MS / 3));
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
}

/** It is renewed at 1/3 and at 2/3 of the lease, and lost at 3/3; nothing is sent then. */
FIXTURE_CASE(test_watchdog__renews_no_longer_than_hold_max_ms)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = {
        .lease_ms = LEASE_MS, .watchdog = true, .hold_max_ms = LEASE_MS * 9 / 10};
    struct rlock_stats stats;
    struct call call = {0};
    long long before;

    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options), STATUS_OK);
    for (int i = 0; i < 2; i++)
        fixture_pass_renewal(fixture, client, LEASE_MS, 1);
    assert_int_equal(call.losses, 0);
    fixture_pass_ms(fixture, DUE_MS);
    fixture_wait_losses(fixture, &call, 1);
    before = server_calls(fixture->server, "evalsha");
    fixture_run_for(fixture, 20);
    assert_int_equal(server_calls(fixture->server, "evalsha"), before);
    assert_true(server_has(fixture->server, "item:7")); /* the lease goes on */
    assert_false(rlock_is_held(&call.lock));
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.renewed, 2);
    assert_int_equal(stats.lost, 1);
    assert_int_equal(stats.held, 0);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
    assert_int_equal(call.losses, 1);
}

FIXTURE_CASE(test_rlock_acquire__refuses_hold_max_ms_without_the_watchdog)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS,
                                            .hold_max_ms = LEASE_MS};
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                  STATUS_INVALID);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "hold_max_ms");
}

FIXTURE_CASE(test_watchdog__stops_with_the_release)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    long long before;

    ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    before = server_calls(fixture->server, "evalsha");
    fixture_pass_ms(fixture, LEASE_MS);
    fixture_run_for(fixture, 20);
    assert_int_equal(server_calls(fixture->server, "evalsha"), before);
    assert_int_equal(fixture_renewed(client), 0);
    assert_int_equal(call.losses, 0);
}

/** Release a lock while its renewal and those of two others are on their way. */
static void overtake(struct fixture *fixture, bool flush_scripts)
{
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[3] = {0};

    for (int i = 0; i < 3; i++) {
        char name[24];

        snprintf(name, sizeof(name), "item:%d", i);
        ASSERT_STATUS(acquire_watched(fixture, client, &calls[i], name, LEASE_MS),
                      STATUS_OK);
    }
    if (flush_scripts)
        server_do(fixture->server, "SCRIPT FLUSH");
    server_pause(fixture->server);
    fixture_pass_ms(fixture, DUE_MS);
    assert_non_null(calls[1].lock.batch); /* its renewal */
    call_release(client, &calls[1]);
    rlock_flush(client);
    server_resume(fixture->server);
    fixture_wait_answers(fixture, &calls[1], 2);
    ASSERT_STATUS(calls[1].status, STATUS_OK);
    assert_false(server_has(fixture->server, "item:1"));
    fixture_wait_renewed(fixture, client, 2);
    fixture_pass_renewal(fixture, client, LEASE_MS, 2);
    assert_false(server_has(fixture->server, "item:1"));
    assert_true(rlock_is_held(&calls[0].lock));
    assert_true(rlock_is_held(&calls[2].lock));
    assert_true(server_has(fixture->server, "item:0"));
    assert_true(server_has(fixture->server, "item:2"));
    fixture_close(fixture, client); /* before the held locks go out of scope */
}

FIXTURE_CASE(test_release__overtakes_a_renewal_under_way)
{
    overtake(*state, false);
}

/** The renewal is sent again, without the released lock. */
FIXTURE_CASE(test_release__overtakes_a_renewal_of_an_unknown_script)
{
    overtake(*state, true);
}

FIXTURE_CASE(test_watchdog__stolen_lock_is_told_once_and_left_alone)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_stats stats;
    redisReply *owner;

    ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    server_do(fixture->server, "SET item:7 thief");
    fixture_pass_ms(fixture, DUE_MS);
    fixture_wait_losses(fixture, &call, 1);
    assert_false(rlock_is_held(&call.lock));
    fixture_pass_ms(fixture, LEASE_MS);
    fixture_run_for(fixture, 20);
    assert_int_equal(call.losses, 1);
    assert_int_equal(call.answers, 1);
    owner = server_command(fixture->server, "GET item:7");
    assert_string_equal(owner->str, "thief");
    freeReplyObject(owner);
    assert_int_equal(server_int(fixture->server, "PTTL item:7"), -1);
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.lost, 1);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_NOT_OWNER);
}

/**
 * No reply at all: the deadline, which is the lease less 1 % for drift, comes while the
 * renewal is under way.
 */
FIXTURE_CASE(test_watchdog__hung_server_loses_the_lock_at_the_deadline)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = fixture->server->unix_url,
                                               .timeout_ms = 2 * LEASE_MS});
    struct call call = {0};

    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    fixture_pass_ms(fixture, LEASE_MS * 3 / 4);
    fixture_run_for(fixture, 20);
    assert_int_equal(call.losses, 0);
    fixture_pass_ms(fixture, LEASE_MS * 99 / 100 - LEASE_MS * 3 / 4);
    assert_int_equal(call.losses, 1);
    assert_false(rlock_is_held(&call.lock));
    server_resume(fixture->server);
    server_settle(); /* the renewal is executed */
    server_pass_ms(fixture->server, LEASE_MS);
    fixture_run_for(fixture, 20);
    assert_int_equal(call.losses, 1);
    assert_false(rlock_is_held(&call.lock));
    assert_false(server_has(fixture->server, "item:7"));
}

FIXTURE_CASE(test_watchdog__short_outage_costs_no_lock)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    fixture_pass_ms(fixture, 1001); /* the idle connection sends a PING */
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    fixture_wait_down(fixture, client);
    server_resume(fixture->server);
    fixture_wait_up(fixture, client);
    for (int i = 0; i < 4; i++) /* beyond the lease of before */
        fixture_pass_renewal(fixture, client, LEASE_MS, 1);
    assert_true(rlock_is_held(&call.lock));
    assert_int_equal(call.losses, 0);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

static void on_held(struct rlock *lock, enum status status, void *arg)
{
    (void)lock;
    (void)arg;
    ASSERT_STATUS(status, STATUS_OK);
}

/** A callback frees its own lock and releases another. */
struct nest {
    struct rlock_client *client;
    struct call *other;
    struct rlock *own;
    unsigned losses;
};

static void on_lost_free(struct rlock *lock, enum status status, void *arg)
{
    struct nest *nest = arg;

    ASSERT_STATUS(status, STATUS_LOST);
    nest->losses++;
    free(lock);
    call_release(nest->client, nest->other);
    rlock_flush(nest->client);
}

FIXTURE_CASE(test_on_lost__may_free_its_lock_and_release_others)
{
    struct fixture *fixture = *state;
    struct call other = {0};
    struct nest nest = {fixture_client(fixture), &other, calloc(1, sizeof(struct rlock)),
                        0};
    struct rlock_acquire_options options = {
        .lease_ms = LEASE_MS, .watchdog = true, .on_lost = on_lost_free};

    rlock_acquire(nest.client, nest.own, "item:7", 6, &options, on_held, &nest);
    call_acquire_watched(nest.client, &other, "item:8", LEASE_MS);
    rlock_flush(nest.client);
    fixture_wait_answers(fixture, &other, 1);
    (void)server_int(fixture->server, "DEL item:7");
    fixture_pass_ms(fixture, DUE_MS);
    fixture_wait_count(fixture, &nest.losses, 1);
    fixture_wait_answers(fixture, &other, 2);
    ASSERT_STATUS(other.status, STATUS_OK);
    assert_int_equal(nest.losses, 1);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
