/* trial.c - a fault at one command or reply of Alice, and what it may change. */
#include "test/trial.h"
#include "base/clock.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

/*
 * The longest time after which a lock without an owner is free: the longest pause before the client
 * connects again (conn_state.c), plus the time until the second release of the lock (orphan.c),
 * plus one more jump of the time, at most to the next PING of an idle connection.
 */
#define SOON_MS (500 + 1000 + 1001)

#define HOUR_US INT64_C(3600000000)

/** Load the scripts into the server, so that no reply is NOSCRIPT. */
static void load_scripts(struct trial *trial)
{
    for (int i = 0; i < RLOCK_SCRIPT_COUNT; i++)
        server_do(trial->fixture->server, "SCRIPT LOAD %s",
                  trial->proxy->scripts[i].body);
}

struct trial *trial_begin(const struct test *test, const struct fault *fault)
{
    struct trial *trial = calloc(1, sizeof(*trial));
    void *fixture = NULL;

    trial->test = test;
    trial->fault = fault;
    fixture_setup(&fixture);
    clock_shift_us(HOUR_US); /* trial_strike() moves it back by less */
    trial->fixture = fixture;
    trial->proxy = proxy_start(&trial->fixture->loop, trial->fixture->server->unix_url);
    load_scripts(trial);
    trial->bob = fixture_client(fixture);
    return trial;
}

void trial_end(struct trial *trial)
{
    void *fixture = trial->fixture;

    proxy_stop(trial->proxy);
    fixture_teardown(&fixture);
    free(trial);
}

struct count {
    const unsigned *at;
    unsigned wanted;
};

static bool has_count(void *arg)
{
    const struct count *count = arg;

    return *count->at >= count->wanted;
}

unsigned trial_await(struct trial *trial, const unsigned *at, unsigned wanted)
{
    struct count count = {at, wanted};

    return AWAIT(trial, has_count, &count);
}

static bool is_up(void *arg)
{
    return rlock_client_is_up(arg);
}

void alice_opens(struct trial *trial)
{
    trial->alice = fixture_open(
        trial->fixture, (struct rlock_client_options){.redis_url = trial->proxy->url,
                                                      .timeout_ms = TIMEOUT_MS});
    AWAIT(trial, is_up, trial->alice);
}

struct rlock_stats trial_stats(const struct rlock_client *client)
{
    struct rlock_stats stats;

    rlock_client_stats(client, &stats);
    return stats;
}

static bool is_unknown(enum rlock_status status)
{
    return status == RLOCK_IO || status == RLOCK_TIMEOUT || status == RLOCK_DOWN;
}

enum rlock_status alice_answer(struct trial *trial, struct call *call, unsigned wanted)
{
    /* A waiter gets its answer after the client has connected again. */
    unsigned reconnect_ms = trial->test->waits ? 2000 : 1;

    rlock_flush(trial->alice);
    ASSERT_NUMBER(trial_await(trial, &call->answers, wanted), <=,
                  TIMEOUT_MS + reconnect_ms);
    assert_int_equal(call->answers, wanted);
    return call->status;
}

enum rlock_status alice_next_answer(struct trial *trial, struct call *call)
{
    return alice_answer(trial, call, call->answers + 1);
}

struct rlock_acquire_options trial_options(const struct trial *trial)
{
    return (struct rlock_acquire_options){
        .kind = trial->test->kind,
        .permits = permits_of(trial->test->kind),
        .lease_ms = RLOCK_LEASE_MS_MAX,
        .holder = 1,
        .wait_ms = trial->test->waits ? RLOCK_WAIT_FOREVER : 0,
    };
}

enum rlock_status trial_count(struct trial *trial, const struct call *call)
{
    if (call->status == RLOCK_OK)
        trial->expected.granted++;
    else
        trial->expected.failed++;
    ASSERT_STATUS(rlock_is_held(&call->lock), call->status == RLOCK_OK);
    return call->status;
}

enum rlock_status alice_tried(struct trial *trial, struct call *call)
{
    (void)alice_next_answer(trial, call);
    return trial_count(trial, call);
}

enum rlock_status alice_acquires(struct trial *trial, struct call *call, const char *name)
{
    struct rlock_acquire_options options = trial_options(trial);

    call_acquire_with(trial->alice, call, name, &options);
    return alice_tried(trial, call);
}

enum rlock_status alice_releases(struct trial *trial, struct call *call)
{
    call_release(trial->alice, call);
    if (is_unknown(alice_next_answer(trial, call)))
        trial->expected.failed++;
    return call->status;
}

void alice_recovers(struct trial *trial)
{
    struct call call = {0};
    unsigned passed_ms = trial_await(trial, &trial->proxy->connections, 2);

    while (alice_acquires(trial, &call, "another") != RLOCK_OK) {
        assert_true(is_unknown(call.status));
        passed_ms += fixture_step(trial->fixture);
        fixture_settle(trial->fixture);
        ASSERT_NUMBER(passed_ms, <=, 2 * TIMEOUT_MS);
    }
    ASSERT_STATUS(alice_releases(trial, &call), RLOCK_OK);
    assert_int_equal(trial->proxy->faults, 1);
}

void alice_warms_up(struct trial *trial)
{
    struct call call = {0};

    ASSERT_STATUS(alice_acquires(trial, &call, "another"), RLOCK_OK);
    ASSERT_STATUS(alice_releases(trial, &call), RLOCK_OK);
}

enum rlock_status bob_tries(struct trial *trial, uint32_t lease_ms)
{
    struct rlock_acquire_options options = trial_options(trial);

    options.wait_ms = 0;
    options.lease_ms = lease_ms;
    if (trial->test->his_kind != NULL)
        options.kind = trial->test->his_kind;
    return acquire_with(trial->fixture, trial->bob, &trial->his, NAME, &options);
}

void bob_releases(struct trial *trial)
{
    ASSERT_STATUS(release(trial->fixture, trial->bob, &trial->his), RLOCK_OK);
}

void bob_gets_it(struct trial *trial)
{
    unsigned passed_ms = 0;

    fixture_settle(trial->fixture);
    while (bob_tries(trial, LEASE_MS) != RLOCK_OK) {
        ASSERT_STATUS(trial->his.status, RLOCK_BUSY);
        passed_ms += fixture_step(trial->fixture);
        /* the effects of the step take no simulated time */
        fixture_settle(trial->fixture);
        ASSERT_NUMBER(passed_ms, <=, SOON_MS);
    }
    bob_releases(trial);
}

bool trial_has_lock(const struct trial *trial)
{
    return server_has(trial->fixture->server, NAME);
}

bool trial_is_locked(void *arg)
{
    return trial_has_lock(arg);
}

void trial_let_go(struct trial *trial)
{
    proxy_let_go(trial->proxy);
    for (int i = 0; i < 4; i++) {
        uv_run(&trial->fixture->loop, UV_RUN_NOWAIT);
        server_settle();
    }
}

void trial_assert_stats(const struct trial *trial)
{
    struct rlock_stats stats = trial_stats(trial->alice);

    assert_int_equal(stats.granted, trial->expected.granted);
    assert_int_equal(stats.busy, 0);
    assert_int_equal(stats.failed, trial->expected.failed);
    assert_int_equal(stats.lost, trial->expected.lost);
}

void trial_strike(struct trial *trial)
{
    if (trial->fault->fault == PROXY_HOLD_UNSENT)
        clock_shift_us(-2000LL * TIMEOUT_MS);
    proxy_at(trial->proxy, trial->test->command, 1, trial->fault->fault);
}
