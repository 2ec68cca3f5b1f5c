/* it_unknown.c - calls whose outcome is unknown: no name stays locked without an owner. */
#include "base/clock.h"
#include "lock/internal.h"
#include "test/proxy.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>

#define HOUR_US   INT64_C(3600000000)
#define SECOND_MS 1001 /* after which an orphan is released once more */

struct absence {
    struct server *server;
    const char *key;
};

static bool is_absent(void *arg)
{
    const struct absence *absence = arg;

    return !server_has(absence->server, absence->key);
}

static void wait_absent(struct fixture *fixture, const char *key)
{
    struct absence absence = {fixture->server, key};

    if (!fixture_run_until(fixture, is_absent, &absence, WITHIN_MS))
        fail_msg("%s is still locked after %d ms, expected free", key, WITHIN_MS);
}

/**
 * A client for which the clock of the server goes forward by more than the timeout: it
 * learns that clock, and then its own clock goes back.
 */
static struct rlock_client *client_of_late_server(struct fixture *fixture)
{
    struct rlock_client *client;
    struct call warm = {0};

    clock_shift_us(HOUR_US); /* so that it does not go below zero */
    client = fixture_client(fixture);
    ASSERT_STATUS(acquire(fixture, client, &warm, "warm", LEASE_MS), STATUS_OK);
    clock_shift_us(-2000LL * TIMEOUT_MS);
    return client;
}

/** Acquire from a server that hangs: the call times out. */
static void acquire_hung(struct fixture *fixture, struct rlock_client *client,
                         struct call *call, const char *name)
{
    server_pause(fixture->server);
    call_acquire(client, call, name, RLOCK_LEASE_MS_MAX);
    rlock_flush(client);
    fixture_pass_ms(fixture, TIMEOUT_MS / 2); /* the other half is for a busy machine */
    assert_int_equal(call->answers, 0);
    fixture_pass_ms(fixture, TIMEOUT_MS / 2 + 1);
    fixture_wait_answers(fixture, call, 1);
    ASSERT_STATUS(call->status, STATUS_TIMEOUT);
    assert_false(rlock_is_held(&call->lock));
}

/** A server that wakes after the timeout does not grant the lock. */
FIXTURE_CASE(test_acquire__timed_out_is_not_granted_later)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = client_of_late_server(fixture);
    struct call call = {0};
    long long before = server_calls(fixture->server, "incrby");

    acquire_hung(fixture, client, &call, "item:7");
    server_resume(fixture->server);
    fixture_wait_up(fixture, client);
    server_settle();
    assert_int_equal(server_calls(fixture->server, "incrby"), before);
    assert_false(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    fixture_pass_ms(fixture, SECOND_MS); /* the second release leaves the new owner */
    fixture_run_for(fixture, 20);
    assert_true(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

struct progress {
    struct server *server;
    long long wanted;
};

static bool has_executed(void *arg)
{
    const struct progress *progress = arg;

    return server_calls(progress->server, "evalsha") >= progress->wanted;
}

/** Nobody is left to release it, so it must not be granted. */
FIXTURE_CASE(test_acquire__of_a_closed_client_is_not_granted)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = client_of_late_server(fixture);
    struct progress progress = {fixture->server,
                                server_calls(fixture->server, "evalsha") + 1};
    long long grants = server_calls(fixture->server, "incrby");
    struct call call = {0};

    server_pause(fixture->server);
    call_acquire(client, &call, "item:7", RLOCK_LEASE_MS_MAX);
    rlock_flush(client);
    fixture_close_hung(fixture, client);
    ASSERT_STATUS(call.status, STATUS_CANCELLED);
    server_resume(fixture->server);
    FIXTURE_AWAIT(fixture, has_executed, &progress);
    assert_int_equal(server_calls(fixture->server, "incrby"), grants);
    assert_false(server_has(fixture->server, "item:7"));
}

static bool is_in_doubt(void *arg)
{
    const struct call *call = arg;

    return call->lock.in_doubt;
}

static bool has_key(void *arg)
{
    const struct absence *absence = arg;

    return server_has(absence->server, absence->key);
}

/** Bob pauses between two tries; the server executes the one whose reply was lost. */
FIXTURE_CASE(test_rlock_client_close__releases_a_grant_of_an_earlier_try)
{
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct fixture *fixture = *state;
    struct proxy *proxy = proxy_start(&fixture->loop, fixture->server->unix_url);
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = proxy->url,
                                                            .timeout_ms = 2 * WITHIN_MS});
    struct call held = {0}, call = {0};

    fixture_wait_up(fixture, bob);
    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    options.spin_min_ms = options.spin_max_ms =
        UINT16_MAX; /* it does not try a third time */
    proxy_at(proxy, "acquire_wait", 1, PROXY_CUT_ASTRAY);
    call_wait(bob, &call, NAME, &options);
    FIXTURE_AWAIT(fixture, is_in_doubt, &call);
    fixture_wait_up(fixture, bob);
    call_rest(fixture, &call); /* the second try was busy */
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    proxy_let_go(proxy);
    FIXTURE_AWAIT(fixture, has_key, (&(struct absence){fixture->server, NAME}));
    ASSERT_NUMBER(call.answers, ==, 0);
    fixture_close(fixture, bob);
    ASSERT_STATUS(call.status, STATUS_CANCELLED);
    if (server_has(fixture->server, NAME))
        fail_msg("%s is locked after the client of its owner was closed, expected free",
                 NAME);
    proxy_stop(proxy);
}

static bool has_one_second_release(void *arg)
{
    const struct rlock_client *client = arg;

    return list_count(&client->orphans.second) == 1;
}

/** The command of the old connection is executed after the release of the new one. */
FIXTURE_CASE(test_acquire__executed_late_is_released_by_the_second_release)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call first = {0}, second = {0};
    redisReply *owner;

    ASSERT_STATUS(acquire(fixture, client, &first, "item:1", LEASE_MS), STATUS_OK);
    owner = server_command(fixture->server, "GET item:1");
    assert_string_equal(owner->str + UUID_LEN, ":1");
    owner->str[UUID_LEN + 1] = '2'; /* the value of the next grant */
    acquire_hung(fixture, client, &second, "item:2");
    server_kill(fixture->server); /* it never executes the command */
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
    FIXTURE_AWAIT(fixture, has_one_second_release, client); /* the first found nothing */
    server_do(fixture->server, "SET item:2 %s", owner->str);
    fixture_pass_ms(fixture, SECOND_MS);
    wait_absent(fixture, "item:2");
    server_do(fixture->server, "SET item:2 %s", owner->str);
    fixture_pass_ms(fixture, 10 * SECOND_MS);
    fixture_run_for(fixture, 20); /* there is no third release */
    assert_true(server_has(fixture->server, "item:2"));
    assert_true(list_is_empty(&client->orphans.due));
    assert_true(list_is_empty(&client->orphans.second));
    freeReplyObject(owner);
}

/** The first try of this acquire is executed after the grant of the second has ended. */
FIXTURE_CASE(test_release__of_a_grant_in_doubt_is_repeated_later)
{
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct fixture *fixture = *state;

    for (int i = 0; i < 2; i++) {
        struct proxy *proxy = proxy_start(&fixture->loop, fixture->server->unix_url);
        struct rlock_client *client = fixture_open(
            fixture, (struct rlock_client_options){.redis_url = proxy->url,
                                                   .timeout_ms = 2 * WITHIN_MS});
        struct call call = {0};

        fixture_wait_up(fixture, client);
        proxy_at(proxy, "acquire_wait", 1, PROXY_CUT_ASTRAY);
        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
        if (i == 0)
            ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        else
            rlock_release(client, &call.lock, NULL, NULL);
        wait_absent(fixture, NAME);
        proxy_let_go(proxy);
        FIXTURE_AWAIT(fixture, has_key, (&(struct absence){fixture->server, NAME}));
        fixture_pass_ms(fixture, SECOND_MS);
        wait_absent(fixture, NAME);
        fixture_close(fixture, client);
        proxy_stop(proxy);
    }
}

FIXTURE_CASE(test_release__timed_out_is_finished_by_the_library)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call answered = {0}, silent = {0}, late = {0};

    ASSERT_STATUS(acquire(fixture, client, &answered, "answered", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &silent, "silent", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &late, "late", LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    rlock_release(client, &silent.lock, NULL, NULL);
    call_release(client, &answered);
    rlock_flush(client);
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    fixture_wait_answers(fixture, &answered, 2);
    ASSERT_STATUS(answered.status, STATUS_TIMEOUT);
    ASSERT_STATUS(release(fixture, client, &late), STATUS_DOWN);
    assert_false(rlock_is_held(&answered.lock));
    assert_false(rlock_is_held(&late.lock));
    server_resume(fixture->server);
    fixture_wait_up(fixture, client);
    wait_absent(fixture, "answered");
    wait_absent(fixture, "silent");
    wait_absent(fixture, "late");
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
