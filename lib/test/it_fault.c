/*
 * it_fault.c - every reply of every command is lost, cut, late or doubled, once.
 *
 * Alice speaks to the server through a proxy that does it, Bob directly. Whatever
 * happens to Alice, she is answered once, in time and no better than the truth; Bob gets
 * the lock long before its lease ends; and soon all is as if nothing had happened.
 */
#include "base/clock.h"
#include "test/fixture.h"
#include "test/proxy.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME       "item:7"
#define PATIENT_MS 3000 /* where the answer must not come from the timeout */
#define HASTY_MS   250  /* where it must */
#define LATE_MS    1000 /* that it may come after the timeout, on a busy machine */
#define SOON_MS    3000 /* after which a lock that nobody has is free */
#define RENEWED_MS 900  /* a lease that is renewed */
#define TESTS_MAX  128

struct fault {
    const char *words;
    enum proxy_fault fault;
    enum status status; /* what the caller is told */
};

static const struct fault faults[] = {
    {"cut before the command", PROXY_CUT_UNSENT, STATUS_IO},
    {"cut, the command arrives later", PROXY_CUT_ASTRAY, STATUS_IO},
    {"cut before the reply", PROXY_CUT_BEFORE, STATUS_IO},
    {"cut inside the reply", PROXY_CUT_INSIDE, STATUS_IO},
    {"command too late", PROXY_HOLD_UNSENT, STATUS_TIMEOUT},
    {"reply too late", PROXY_HOLD, STATUS_TIMEOUT},
    {"reply dropped", PROXY_DROP, STATUS_TIMEOUT},
    {"reply doubled", PROXY_DUPLICATE, STATUS_OK},
};

#define FAULTS (sizeof(faults) / sizeof(*faults))

struct trial {
    struct fixture *fixture;
    struct proxy *proxy;
    const struct fault *fault;
    struct rlock_client *alice, *bob;
    struct call hers, his;
    struct rlock_stats answered; /* what Alice's statistics must be */
};

/* -- around each trial ------------------------------------------------------------------
 */

static void *group_server;

static int group_setup(void **state)
{
    *state = NULL; /* each test has a state of its own */
    return fixture_start_server(&group_server);
}

static int group_teardown(void **state)
{
    (void)state;
    return fixture_stop_server(&group_server);
}

/** The server knows the scripts, so that the first reply is not NOSCRIPT. */
static void load_scripts(struct trial *trial)
{
    for (int i = 0; i < RLOCK_SCRIPT_COUNT; i++)
        freeReplyObject(server_ask(trial->fixture->server, "SCRIPT LOAD %s",
                                   trial->proxy->scripts[i].body));
}

static int setup(void **state)
{
    struct trial *trial = calloc(1, sizeof(*trial));
    void *fixture = group_server;

    trial->fault = *state;
    fixture_setup(&fixture);
    trial->fixture = fixture;
    trial->proxy = proxy_start(&trial->fixture->loop, trial->fixture->server->unix_url);
    load_scripts(trial);
    trial->bob = fixture_client(fixture);
    *state = trial;
    return 0;
}

static int teardown(void **state)
{
    struct trial *trial = *state;
    void *fixture = trial->fixture;

    fixture_close(trial->fixture, trial->alice);
    proxy_stop(trial->proxy);
    fixture_teardown(&fixture);
    free(trial);
    return 0;
}

/* -- what the trials are made of --------------------------------------------------------
 */

static int64_t us(uint32_t ms)
{
    return (int64_t)ms * 1000;
}

static uint32_t timeout_ms(const struct trial *trial)
{
    return trial->fault->status == STATUS_TIMEOUT ? HASTY_MS : PATIENT_MS;
}

static void open_alice(struct trial *trial)
{
    trial->alice = fixture_open(
        trial->fixture, (struct rlock_client_options){.redis_url = trial->proxy->url,
                                                      .timeout_ms = timeout_ms(trial)});
    fixture_wait_up(trial->fixture, trial->alice);
}

static bool is_unknown(enum status status)
{
    return status == STATUS_IO || status == STATUS_TIMEOUT || status == STATUS_DOWN;
}

static struct rlock_stats stats_of(const struct rlock_client *client)
{
    struct rlock_stats stats;

    rlock_client_stats(client, &stats);
    return stats;
}

/** One answer to Alice, in time. */
static enum status answer(struct trial *trial, struct call *call)
{
    unsigned answers = call->answers;
    int64_t begin_us = clock_mono_us();

    rlock_flush(trial->alice);
    fixture_wait_answers(trial->fixture, call, answers + 1);
    assert_int_equal(call->answers, answers + 1);
    assert_true(clock_mono_us() - begin_us < us(timeout_ms(trial) + LATE_MS));
    if (is_unknown(call->status))
        trial->answered.failed++;
    return call->status;
}

static enum status alice_acquires(struct trial *trial, struct call *call,
                                  const char *name, uint32_t lease_ms)
{
    call_acquire(trial->alice, call, name, lease_ms);
    trial->answered.granted += answer(trial, call) == STATUS_OK;
    assert_int_equal(rlock_is_held(&call->lock), call->status == STATUS_OK);
    return call->status;
}

static enum status alice_releases(struct trial *trial, struct call *call)
{
    call_release(trial->alice, call);
    return answer(trial, call);
}

/** The fault has come, once; then all that was asked for works again. */
static void alice_recovers(struct trial *trial)
{
    int64_t end_us = clock_mono_us() + us(WITHIN_MS);
    struct call call = {0};

    fixture_wait_count(trial->fixture, &trial->proxy->connections, 2);
    while (alice_acquires(trial, &call, "another", LEASE_MS) != STATUS_OK) {
        assert_true(is_unknown(call.status));
        assert_true(clock_mono_us() < end_us);
        fixture_run_for(trial->fixture, 5);
    }
    assert_int_equal(alice_releases(trial, &call), STATUS_OK);
    assert_int_equal(trial->proxy->faults, 1);
}

/** Nobody has the lock, and soon Bob has it. */
static void bob_gets_it(struct trial *trial)
{
    int64_t end_us = clock_mono_us() + us(SOON_MS);

    while (acquire(trial->fixture, trial->bob, &trial->his, NAME, LEASE_MS) !=
           STATUS_OK) {
        assert_int_equal(trial->his.status, STATUS_BUSY);
        assert_true(clock_mono_us() < end_us);
        fixture_run_for(trial->fixture, 5);
    }
    assert_int_equal(release(trial->fixture, trial->bob, &trial->his), STATUS_OK);
}

static bool has_key(void *arg)
{
    return server_has(arg, NAME);
}

struct progress {
    struct server *server;
    long long calls;
};

/** How many commands it has carried out, those of the tests themselves aside. */
static long long calls(struct server *server)
{
    return server_calls(server, "evalsha") + server_calls(server, "eval") +
           server_calls(server, "ping");
}

static bool has_called(void *arg)
{
    const struct progress *progress = arg;

    return calls(progress->server) > progress->calls;
}

/** What was held comes at last; a command that was held is carried out now. */
static void let_go(struct trial *trial)
{
    struct server *server = trial->fixture->server;
    struct progress progress = {server, calls(server)};

    proxy_let_go(trial->proxy);
    if (trial->fault->fault == PROXY_CUT_ASTRAY ||
        trial->fault->fault == PROXY_HOLD_UNSENT)
        assert_true(fixture_run_until(trial->fixture, has_called, &progress, WITHIN_MS));
}

static void assert_stats(const struct trial *trial)
{
    struct rlock_stats stats = stats_of(trial->alice);

    assert_int_equal(stats.granted, trial->answered.granted);
    assert_int_equal(stats.busy, 0);
    assert_int_equal(stats.failed, trial->answered.failed);
    assert_int_equal(stats.lost, trial->answered.lost);
}

/* -- the trials -------------------------------------------------------------------------
 */

static void acquire_with_fault(struct trial *trial, unsigned nth)
{
    open_alice(trial);
    proxy_at(trial->proxy, "acquire", nth, trial->fault->fault);
    assert_int_equal(alice_acquires(trial, &trial->hers, NAME, RLOCK_LEASE_MS_MAX),
                     trial->fault->status);
    alice_recovers(trial);
    let_go(trial);
    if (trial->fault->fault == PROXY_CUT_ASTRAY) /* granted to nobody; given back again */
        assert_true(fixture_run_until(trial->fixture, has_key, trial->fixture->server,
                                      WITHIN_MS));
    if (trial->fault->status == STATUS_OK)
        assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    bob_gets_it(trial);
    assert_stats(trial);
}

static void trial_acquire(void **state)
{
    acquire_with_fault(*state, 1);
}

static void trial_release(void **state)
{
    struct trial *trial = *state;

    open_alice(trial);
    assert_int_equal(alice_acquires(trial, &trial->hers, NAME, RLOCK_LEASE_MS_MAX),
                     STATUS_OK);
    proxy_at(trial->proxy, "release", 1, trial->fault->fault);
    assert_int_equal(alice_releases(trial, &trial->hers), trial->fault->status);
    alice_recovers(trial);
    bob_gets_it(trial);
    let_go(trial);
    bob_gets_it(trial);
    assert_stats(trial);
}

static void alice_acquires_watched(struct trial *trial)
{
    call_acquire_watched(trial->alice, &trial->hers, NAME, RENEWED_MS);
    assert_int_equal(answer(trial, &trial->hers), STATUS_OK);
    trial->answered.granted++;
}

struct renewals {
    struct rlock_client *client;
    uint64_t wanted;
};

static bool has_renewed(void *arg)
{
    const struct renewals *renewals = arg;

    return stats_of(renewals->client).renewed >= renewals->wanted;
}

static void trial_renew(void **state)
{
    struct trial *trial = *state;
    struct renewals renewals;

    open_alice(trial);
    alice_acquires_watched(trial);
    proxy_at(trial->proxy, "renew", 1, trial->fault->fault);
    fixture_wait_count(trial->fixture, &trial->proxy->faults, 1);
    renewals = (struct renewals){trial->alice, 3};
    assert_true(fixture_run_until(trial->fixture, has_renewed, &renewals, WITHIN_MS));
    assert_int_equal(trial->hers.losses, 0);
    assert_true(rlock_safe_for_us(&trial->hers.lock, clock_mono_us()) > 0);
    assert_int_equal(acquire(trial->fixture, trial->bob, &trial->his, NAME, LEASE_MS),
                     STATUS_BUSY);
    alice_recovers(trial);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    let_go(trial);
    assert_false(server_has(trial->fixture->server, NAME));
    bob_gets_it(trial);
    assert_stats(trial);
}

static int64_t safe_until_us(const struct trial *trial)
{
    int64_t now_us = clock_mono_us();

    return now_us + rlock_safe_for_us(&trial->hers.lock, now_us);
}

/** No renewal is ever answered: the lock is lost when its lease ends here, not before. */
static void trial_renew_in_vain(void **state)
{
    struct trial *trial = *state;
    int64_t lost_at_us;

    open_alice(trial);
    alice_acquires_watched(trial);
    lost_at_us = safe_until_us(trial);
    proxy_always(trial->proxy, "renew", trial->fault->fault);
    fixture_wait_losses(trial->fixture, &trial->hers, 1);
    assert_in_range(clock_mono_us(), lost_at_us, lost_at_us + us(LATE_MS));
    trial->answered.lost++;
    assert_true(trial->proxy->faults >= 2);
    let_go(trial);
    bob_gets_it(trial);
    assert_int_equal(trial->hers.losses, 1);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_LOST);
    assert_stats(trial);
}

/** The counter came back old: whoever gets a lock has a fence of today. */
static void alice_draws_a_new_fence(struct trial *trial)
{
    alice_recovers(trial);
    assert_int_equal(alice_acquires(trial, &trial->hers, NAME, LEASE_MS), STATUS_OK);
    assert_true(rlock_fence(&trial->hers.lock) > INT64_C(1000000000000000));
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    let_go(trial);
    bob_gets_it(trial);
    assert_stats(trial);
}

static void trial_raise(void **state)
{
    struct trial *trial = *state;

    freeReplyObject(server_ask(trial->fixture->server, "SET lock:fence 5"));
    proxy_at(trial->proxy, "raise", 1, trial->fault->fault);
    open_alice(trial);
    alice_draws_a_new_fence(trial);
}

static void trial_greeting(void **state)
{
    struct trial *trial = *state;

    freeReplyObject(server_ask(trial->fixture->server, "SET lock:fence 5"));
    proxy_at(trial->proxy, "ping", 1, trial->fault->fault);
    open_alice(trial);
    alice_draws_a_new_fence(trial);
}

static void trial_idle_probe(void **state)
{
    struct trial *trial = *state;

    open_alice(trial);
    proxy_at(trial->proxy, "ping", 1, trial->fault->fault);
    fixture_wait_count(trial->fixture, &trial->proxy->faults, 1);
    alice_draws_a_new_fence(trial);
}

static void forget_scripts(struct trial *trial)
{
    freeReplyObject(server_ask(trial->fixture->server, "SCRIPT FLUSH"));
}

/** The reply with the fault is "NOSCRIPT". */
static void trial_acquire_unknown_script(void **state)
{
    forget_scripts(*state);
    acquire_with_fault(*state, 1);
}

static void trial_acquire_with_body(void **state)
{
    forget_scripts(*state);
    acquire_with_fault(*state, 2);
}

struct test {
    const char *words;
    CMUnitTestFunction run;
    enum proxy_fault but; /* which would show nothing */
};

static const struct test matrix[] = {
    {.words = "acquire", .run = trial_acquire},
    {.words = "acquire, script unknown",
     .run = trial_acquire_unknown_script,
     .but = PROXY_DUPLICATE},
    {.words = "acquire, with its body", .run = trial_acquire_with_body},
    {.words = "release", .run = trial_release},
    {.words = "renew", .run = trial_renew},
    {.words = "renew, in vain", .run = trial_renew_in_vain, .but = PROXY_DUPLICATE},
    {.words = "raise", .run = trial_raise},
    {.words = "greeting", .run = trial_greeting},
    {.words = "idle probe", .run = trial_idle_probe},
};

static struct CMUnitTest tests[TESTS_MAX];
static char names[TESTS_MAX][96];
static size_t test_count;

static void add(const struct test *test, const struct fault *fault)
{
    snprintf(names[test_count], sizeof(*names), "%s: %s", test->words, fault->words);
    tests[test_count] = (struct CMUnitTest){
        .name = names[test_count],
        .test_func = test->run,
        .setup_func = setup,
        .teardown_func = teardown,
        .initial_state = (void *)fault,
    };
    test_count++;
}

int main(void)
{
    for (size_t i = 0; i < sizeof(matrix) / sizeof(*matrix); i++) {
        for (size_t k = 0; k < FAULTS; k++) {
            if (faults[k].fault != matrix[i].but)
                add(&matrix[i], &faults[k]);
        }
    }
    return _cmocka_run_group_tests("it_fault", tests, test_count, group_setup,
                                   group_teardown);
}
