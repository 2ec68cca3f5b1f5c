/*
 * it_fault.c - each reply of each command is lost, cut, late or doubled, once.
 *
 * Alice is connected by a proxy that does this, Bob directly. Whatever happens, each call
 * of Alice is answered once, in time, and never OK without the lock; Bob gets the lock
 * long before its lease ends; and soon no trace of the fault is left.
 *
 * Time is simulated: see fixture_simulate().
 */
#include "base/clock.h"
#include "lock/channel.h"
#include "test/child.h"
#include "test/fixture.h"
#include "test/proxy.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME      "item:7"
#define CHANNEL   "rlock:" NAME
#define SOON_MS   20000 /* after which a lock without an owner is free */
#define HOUR_US   INT64_C(3600000000)
#define TESTS_MAX 256
#define TEAMS     2

struct fault {
    const char *words;
    enum proxy_fault fault;
    enum status status; /* of the call */
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

#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))
#define BIT(fault)      (1u << (fault))
#define CUTS            (BIT(PROXY_CUT_UNSENT) | BIT(PROXY_CUT_ASTRAY) | BIT(PROXY_CUT_INSIDE))
#define ALL_BUT_SHIFTS  (~(BIT(PROXY_DROP) | BIT(PROXY_DUPLICATE)))
#define OF_COMMANDS                                                                      \
    (BIT(PROXY_CUT_UNSENT) | BIT(PROXY_CUT_ASTRAY) | BIT(PROXY_HOLD_UNSENT))

struct trial;

struct test {
    const char *words;
    void (*run)(struct trial *trial);
    const char *command; /* whose reply has the fault */
    const struct rlock_kind *kind;
    bool waits;
    enum status doubled; /* of the call when the reply comes twice */
    unsigned without;    /* faults that have no effect here, as bits */
};

struct row {
    const struct test *test;
    const struct fault *fault;
    char words[96];
};

struct trial {
    struct fixture *fixture;
    struct proxy *proxy;
    const struct test *test;
    const struct fault *fault;
    struct rlock_client *alice, *bob;
    struct call hers, inner, his;
    struct rlock_stats expected; /* of Alice */
};

/* -- around each trial -- */

/** Load the scripts, so that the first reply is not NOSCRIPT. */
static void load_scripts(struct trial *trial)
{
    for (int i = 0; i < RLOCK_SCRIPT_COUNT; i++)
        server_do(trial->fixture->server, "SCRIPT LOAD %s",
                  trial->proxy->scripts[i].body);
}

static int setup(void **state)
{
    const struct row *row = *state;
    struct trial *trial = calloc(1, sizeof(*trial));
    void *fixture = NULL;

    trial->test = row->test;
    trial->fault = row->fault;
    fixture_setup(&fixture);
    clock_shift_us(HOUR_US); /* it goes back by less in strike() */
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

    proxy_stop(trial->proxy);
    fixture_teardown(&fixture);
    free(trial);
    return 0;
}

static void run_trial(void **state)
{
    struct trial *trial = *state;

    trial->test->run(trial);
    fixture_close(trial->fixture, trial->alice); /* while the proxy works */
}

static void run(void **state)
{
    case_call(run_trial, state);
}

/* -- what the trials are made of -- */

#define AWAIT(trial, holds, arg) FIXTURE_SIMULATE((trial)->fixture, holds, arg)

struct count {
    const unsigned *at;
    unsigned wanted;
};

static bool has_count(void *arg)
{
    const struct count *count = arg;

    return *count->at >= count->wanted;
}

/** Returns the ms that this took in simulated time. */
static unsigned await_count(struct trial *trial, const unsigned *at, unsigned wanted)
{
    struct count count = {at, wanted};

    return AWAIT(trial, has_count, &count);
}

static bool is_up(void *arg)
{
    return rlock_client_is_up(arg);
}

static void open_alice(struct trial *trial)
{
    trial->alice = fixture_open(
        trial->fixture, (struct rlock_client_options){.redis_url = trial->proxy->url,
                                                      .timeout_ms = TIMEOUT_MS});
    AWAIT(trial, is_up, trial->alice);
}

static struct rlock_stats stats_of(const struct rlock_client *client)
{
    struct rlock_stats stats;

    rlock_client_stats(client, &stats);
    return stats;
}

static bool is_unknown(enum status status)
{
    return status == STATUS_IO || status == STATUS_TIMEOUT || status == STATUS_DOWN;
}

/** The `wanted`-th answer to Alice, not more, in time. */
static enum status await_answer(struct trial *trial, struct call *call, unsigned wanted)
{
    unsigned reconnect_ms =
        trial->test->waits ? 2000 : 1; /* a waiter outlives the fault */

    rlock_flush(trial->alice);
    ASSERT_NUMBER(await_count(trial, &call->answers, wanted), <=,
                  TIMEOUT_MS + reconnect_ms);
    assert_int_equal(call->answers, wanted);
    return call->status;
}

/** The next one. */
static enum status answer(struct trial *trial, struct call *call)
{
    return await_answer(trial, call, call->answers + 1);
}

static struct rlock_acquire_options options_of(const struct trial *trial)
{
    return (struct rlock_acquire_options){
        .kind = trial->test->kind,
        .lease_ms = RLOCK_LEASE_MS_MAX,
        .holder = 1,
        .wait_ms = trial->test->waits ? RLOCK_WAIT_FOREVER : 0,
    };
}

static enum status count(struct trial *trial, const struct call *call)
{
    if (call->status == STATUS_OK)
        trial->expected.granted++;
    else
        trial->expected.failed++;
    assert_int_equal(rlock_is_held(&call->lock), call->status == STATUS_OK);
    return call->status;
}

static enum status acquired(struct trial *trial, struct call *call)
{
    (void)answer(trial, call);
    return count(trial, call);
}

static enum status alice_acquires(struct trial *trial, struct call *call,
                                  const char *name)
{
    struct rlock_acquire_options options = options_of(trial);

    call_acquire_with(trial->alice, call, name, &options);
    return acquired(trial, call);
}

static enum status alice_releases(struct trial *trial, struct call *call)
{
    call_release(trial->alice, call);
    if (is_unknown(answer(trial, call)))
        trial->expected.failed++;
    return call->status;
}

/** All calls work again, on a new connection. */
static void alice_recovers(struct trial *trial)
{
    struct call call = {0};
    unsigned passed_ms = await_count(trial, &trial->proxy->connections, 2);

    while (alice_acquires(trial, &call, "another") != STATUS_OK) {
        assert_true(is_unknown(call.status));
        passed_ms += fixture_step(trial->fixture);
        ASSERT_NUMBER(passed_ms, <=, 2 * TIMEOUT_MS);
    }
    assert_int_equal(alice_releases(trial, &call), STATUS_OK);
    assert_int_equal(trial->proxy->faults, 1);
}

/** Alice learns the server's clock: a command that comes too late does nothing. */
static void alice_warms_up(struct trial *trial)
{
    struct call call = {0};

    assert_int_equal(alice_acquires(trial, &call, "another"), STATUS_OK);
    assert_int_equal(alice_releases(trial, &call), STATUS_OK);
}

static enum status bob_tries(struct trial *trial, uint32_t lease_ms)
{
    struct rlock_acquire_options options = options_of(trial);

    options.wait_ms = 0;
    options.lease_ms = lease_ms;
    return acquire_with(trial->fixture, trial->bob, &trial->his, NAME, &options);
}

static void bob_releases(struct trial *trial)
{
    assert_int_equal(release(trial->fixture, trial->bob, &trial->his), STATUS_OK);
}

/** Nobody has the lock, and soon Bob has it. */
static void bob_gets_it(struct trial *trial)
{
    unsigned passed_ms = 0;

    while (bob_tries(trial, LEASE_MS) != STATUS_OK) {
        assert_int_equal(trial->his.status, STATUS_BUSY);
        passed_ms += fixture_step(trial->fixture);
        ASSERT_NUMBER(passed_ms, <=, SOON_MS);
    }
    bob_releases(trial);
}

static bool has_lock(const struct trial *trial)
{
    return server_has(trial->fixture->server, NAME);
}

static bool is_locked(void *arg)
{
    return has_lock(arg);
}

/** The proxy passes on what it has held; the server executes it. */
static void let_go(struct trial *trial)
{
    proxy_let_go(trial->proxy);
    for (int i = 0; i < 4; i++) {
        uv_run(&trial->fixture->loop, UV_RUN_NOWAIT);
        server_settle();
    }
}

static void assert_stats(const struct trial *trial)
{
    struct rlock_stats stats = stats_of(trial->alice);

    assert_int_equal(stats.granted, trial->expected.granted);
    assert_int_equal(stats.busy, 0);
    assert_int_equal(stats.failed, trial->expected.failed);
    assert_int_equal(stats.lost, trial->expected.lost);
}

/**
 * The fault happens at the next command or reply. Before a command that is to come too
 * late the server's clock goes forward, seen from here, by more than the timeout.
 */
static void strike(struct trial *trial)
{
    if (trial->fault->fault == PROXY_HOLD_UNSENT)
        clock_shift_us(-2000LL * TIMEOUT_MS);
    proxy_at(trial->proxy, trial->test->command, 1, trial->fault->fault);
}

/* -- acquire and release -- */

static enum status wanted_status(const struct trial *trial)
{
    if (trial->test->waits)
        return STATUS_OK;
    return trial->fault->fault == PROXY_DUPLICATE ? trial->test->doubled
                                                  : trial->fault->status;
}

static void acquire_with_fault(struct trial *trial)
{
    assert_int_equal(alice_acquires(trial, &trial->hers, NAME), wanted_status(trial));
    alice_recovers(trial);
    let_go(trial);
    if (trial->fault->fault == PROXY_CUT_ASTRAY)
        AWAIT(trial, is_locked, trial); /* for nobody; it is released */
    if (trial->fault->fault == PROXY_HOLD_UNSENT)
        assert_int_equal(has_lock(trial), trial->test->waits);
    if (wanted_status(trial) == STATUS_OK)
        assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    bob_gets_it(trial);
    assert_stats(trial);
}

static void trial_acquire(struct trial *trial)
{
    open_alice(trial);
    alice_warms_up(trial);
    strike(trial);
    acquire_with_fault(trial);
}

static void forget_scripts(struct trial *trial)
{
    server_do(trial->fixture->server, "SCRIPT FLUSH");
}

/** The reply with the fault is "NOSCRIPT". */
static void trial_acquire_unknown_script(struct trial *trial)
{
    open_alice(trial);
    alice_warms_up(trial);
    forget_scripts(trial);
    strike(trial);
    acquire_with_fault(trial);
}

/** The reply with the fault is that to the call with the body. */
static void trial_acquire_with_body(struct trial *trial)
{
    open_alice(trial);
    alice_warms_up(trial);
    forget_scripts(trial);
    strike(trial);
    trial->proxy->plan.passing = 1; /* the call without the body */
    acquire_with_fault(trial);
}

static void trial_release(struct trial *trial)
{
    open_alice(trial);
    assert_int_equal(alice_acquires(trial, &trial->hers, NAME), STATUS_OK);
    strike(trial);
    assert_int_equal(alice_releases(trial, &trial->hers), trial->fault->status);
    alice_recovers(trial);
    bob_gets_it(trial);
    let_go(trial);
    bob_gets_it(trial);
    assert_stats(trial);
}

/** Alice's first grant of two is left, counted once, and its release frees the lock. */
static void one_grant_is_left(struct trial *trial)
{
    redisReply *count =
        server_command(trial->fixture->server, "HGET " NAME " %s:1", trial->alice->id);

    assert_string_equal(count->str, "1");
    freeReplyObject(count);
    assert_int_equal(bob_tries(trial, LEASE_MS), STATUS_BUSY);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    assert_false(has_lock(trial));
    bob_gets_it(trial);
    assert_stats(trial);
}

static void trial_nested_release(struct trial *trial)
{
    open_alice(trial);
    assert_int_equal(alice_acquires(trial, &trial->hers, NAME), STATUS_OK);
    assert_int_equal(alice_acquires(trial, &trial->inner, NAME), STATUS_OK);
    strike(trial);
    assert_int_equal(alice_releases(trial, &trial->inner), trial->fault->status);
    alice_recovers(trial);
    let_go(trial);
    one_grant_is_left(trial);
}

static bool has_one_grant(void *arg)
{
    struct trial *trial = arg;

    return server_int(trial->fixture->server, "HLEN " NAME) ==
           3; /* count, grant, fence */
}

static bool has_two_grants(void *arg)
{
    struct trial *trial = arg;

    return server_int(trial->fixture->server, "HLEN " NAME) == 4;
}

static void trial_nested_acquire(struct trial *trial)
{
    open_alice(trial);
    assert_int_equal(alice_acquires(trial, &trial->hers, NAME), STATUS_OK);
    strike(trial);
    assert_int_equal(alice_acquires(trial, &trial->inner, NAME), trial->fault->status);
    alice_recovers(trial);
    let_go(trial);
    if (trial->fault->fault == PROXY_CUT_ASTRAY)
        AWAIT(trial, has_two_grants, trial);
    if (trial->fault->status == STATUS_OK)
        assert_int_equal(alice_releases(trial, &trial->inner), STATUS_OK);
    AWAIT(trial, has_one_grant, trial);
    one_grant_is_left(trial);
}

/* -- renew and extend -- */

static void alice_acquires_watched(struct trial *trial)
{
    struct rlock_acquire_options options = options_of(trial);

    options.watchdog = true;
    options.lease_ms = LEASE_MS;
    call_acquire_with(trial->alice, &trial->hers, NAME, &options);
    assert_int_equal(acquired(trial, &trial->hers), STATUS_OK);
}

static bool has_renewed_thrice(void *arg)
{
    return stats_of(arg).renewed >= 3;
}

static void trial_renew(struct trial *trial)
{
    open_alice(trial);
    alice_acquires_watched(trial);
    strike(trial);
    await_count(trial, &trial->proxy->faults, 1);
    AWAIT(trial, has_renewed_thrice, trial->alice);
    assert_int_equal(trial->hers.losses, 0);
    ASSERT_NUMBER(rlock_safe_for_us(&trial->hers.lock, clock_mono_us()), >, 0);
    assert_int_equal(bob_tries(trial, LEASE_MS), STATUS_BUSY);
    alice_recovers(trial);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    let_go(trial);
    assert_false(has_lock(trial));
    bob_gets_it(trial);
    assert_stats(trial);
}

static int64_t safe_until_us(const struct trial *trial)
{
    int64_t now_us = clock_mono_us();

    return now_us + rlock_safe_for_us(&trial->hers.lock, now_us);
}

/** No renewal is ever answered: the lock is lost when its lease ends here, not before. */
static void trial_renew_in_vain(struct trial *trial)
{
    int64_t safe_us, begin_us, passed_us;

    open_alice(trial);
    alice_acquires_watched(trial);
    begin_us = clock_mono_us();
    safe_us = rlock_safe_for_us(&trial->hers.lock, begin_us);
    proxy_always(trial->proxy, trial->test->command, trial->fault->fault);
    passed_us = await_count(trial, &trial->hers.losses, 1) * INT64_C(1000);
    ASSERT_NUMBER(clock_mono_us() - begin_us, >=, safe_us);
    ASSERT_NUMBER(passed_us, <=, safe_us + 1000);
    trial->expected.lost++;
    ASSERT_NUMBER(trial->proxy->faults, >=, 2);
    let_go(trial);
    bob_gets_it(trial);
    assert_int_equal(trial->hers.losses, 1);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_LOST);
    assert_stats(trial);
}

/** A lease that is not known to be extended does not count as extended. */
static void trial_extend(struct trial *trial)
{
    bool is_ok = trial->fault->status == STATUS_OK;
    int64_t before_us;

    open_alice(trial);
    alice_acquires_watched(trial);
    before_us = safe_until_us(trial);
    strike(trial);
    call_extend(trial->alice, &trial->hers, 3 * LEASE_MS);
    assert_int_equal(answer(trial, &trial->hers), trial->fault->status);
    assert_true(rlock_is_held(&trial->hers.lock));
    assert_int_equal(safe_until_us(trial) > before_us + LEASE_MS * 1000LL, is_ok);
    alice_recovers(trial);
    let_go(trial);
    assert_int_equal(bob_tries(trial, LEASE_MS), STATUS_BUSY);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    bob_gets_it(trial);
    assert_stats(trial);
}

/* -- connecting -- */

/** The counter is of an old snapshot: fences are greater than before all the same. */
static void alice_draws_a_new_fence(struct trial *trial)
{
    alice_recovers(trial);
    assert_int_equal(alice_acquires(trial, &trial->hers, NAME), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&trial->hers.lock), >, INT64_C(1000000000000000));
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    let_go(trial);
    bob_gets_it(trial);
    assert_stats(trial);
}

static void trial_connect(struct trial *trial)
{
    server_do(trial->fixture->server, "SET lock:fence 5");
    strike(trial);
    open_alice(trial);
    alice_draws_a_new_fence(trial);
}

static void trial_idle_probe(struct trial *trial)
{
    open_alice(trial);
    strike(trial);
    await_count(trial, &trial->proxy->faults, 1);
    alice_draws_a_new_fence(trial);
}

/* -- waiting -- */

/** Subscribed, and no try is under way. */
static bool is_asleep(void *arg)
{
    struct trial *trial = arg;
    const struct rlock_channels *channels = &trial->alice->channels;

    for (int i = 0; i < RLOCK_CHANNEL_BUCKETS; i++) {
        const struct list *bucket = &channels->buckets[i];

        if (!list_is_empty(bucket))
            return list_item(bucket->next, struct rlock_channel, link)->is_subscribed &&
                   trial->hers.lock.batch == NULL;
    }
    return false;
}

static void alice_begins_to_wait(struct trial *trial)
{
    struct rlock_acquire_options options = options_of(trial);

    assert_int_equal(bob_tries(trial, RLOCK_LEASE_MS_MAX), STATUS_OK);
    call_acquire_with(trial->alice, &trial->hers, NAME, &options);
    rlock_flush(trial->alice);
}

static void alice_waits(struct trial *trial)
{
    alice_begins_to_wait(trial);
    AWAIT(trial, is_asleep, trial);
}

/** Bob releases, and Alice gets the lock; she may be answered before he is. */
static enum status bob_hands_over(struct trial *trial)
{
    unsigned wanted = trial->hers.answers + 1;

    bob_releases(trial);
    (void)await_answer(trial, &trial->hers, wanted);
    return count(trial, &trial->hers);
}

/** Another wait, with its message, and with its channel left. */
static void alice_waits_and_gets_it(struct trial *trial)
{
    alice_waits(trial);
    assert_int_equal(bob_hands_over(trial), STATUS_OK);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
}

static bool has_no_subscriber(void *arg)
{
    struct trial *trial = arg;
    redisReply *reply = server_command(trial->fixture->server, "PUBSUB NUMSUB " CHANNEL);
    bool is_so = reply->element[1]->integer == 0;

    freeReplyObject(reply);
    return is_so;
}

/** The fault concerned her subscription: it does not last and leaves nothing. */
static void subscription_recovers(struct trial *trial)
{
    await_count(trial, &trial->proxy->faults, 1);
    let_go(trial);
    alice_waits_and_gets_it(trial);
    AWAIT(trial, has_no_subscriber, trial);
    assert_int_equal(trial->proxy->faults, 1);
    bob_gets_it(trial);
    assert_stats(trial);
}

static void trial_subscribe(struct trial *trial)
{
    open_alice(trial);
    strike(trial);
    alice_begins_to_wait(trial);
    await_count(trial, &trial->proxy->faults, 1);
    assert_int_equal(bob_hands_over(trial), STATUS_OK);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    subscription_recovers(trial);
}

static void trial_unsubscribe(struct trial *trial)
{
    open_alice(trial);
    strike(trial);
    alice_waits_and_gets_it(trial);
    subscription_recovers(trial);
}

/** A message that does not come is made up for by the next look. */
static void trial_message(struct trial *trial)
{
    open_alice(trial);
    alice_waits(trial);
    strike(trial);
    assert_int_equal(bob_hands_over(trial), STATUS_OK);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    subscription_recovers(trial);
}

/** The try that the message starts is the one with the fault. */
static void trial_woken(struct trial *trial)
{
    open_alice(trial);
    alice_waits(trial);
    strike(trial);
    assert_int_equal(bob_hands_over(trial), STATUS_OK);
    alice_recovers(trial);
    assert_int_equal(alice_releases(trial, &trial->hers), STATUS_OK);
    let_go(trial);
    bob_gets_it(trial);
    AWAIT(trial, has_no_subscriber, trial);
    assert_stats(trial);
}

/* -- two calls under way -- */

#define OTHER "item:8"

/** Replies move up or back: a lock must not take the reply of another for its own. */
static struct call *unlucky(struct trial *trial)
{
    return trial->fault->fault == PROXY_DROP ? &trial->hers : &trial->inner;
}

static void steal(struct trial *trial)
{
    server_do(trial->fixture->server, "SET %s thief",
              unlucky(trial) == &trial->hers ? NAME : OTHER);
}

static void assert_thief_has_it(struct trial *trial)
{
    redisReply *owner = server_command(trial->fixture->server, "GET %s",
                                       unlucky(trial) == &trial->hers ? NAME : OTHER);

    assert_string_equal(owner->str, "thief");
    freeReplyObject(owner);
}

static void both_are_answered(struct trial *trial, unsigned answers)
{
    await_count(trial, &trial->hers.answers, answers);
    await_count(trial, &trial->inner.answers, answers);
    await_count(trial, &trial->proxy->connections, 2);
    assert_int_equal(trial->proxy->faults, 1);
    assert_int_equal(trial->hers.answers, answers);
    assert_int_equal(trial->inner.answers, answers);
}

static void trial_acquire_two(struct trial *trial)
{
    open_alice(trial);
    alice_warms_up(trial);
    steal(trial);
    strike(trial);
    call_acquire(trial->alice, &trial->hers, NAME, LEASE_MS);
    rlock_flush(trial->alice);
    call_acquire(trial->alice, &trial->inner, OTHER, LEASE_MS);
    rlock_flush(trial->alice);
    both_are_answered(trial, 1);
    assert_false(rlock_is_held(&unlucky(trial)->lock));
    assert_thief_has_it(trial);
}

static void trial_release_two(struct trial *trial)
{
    open_alice(trial);
    assert_int_equal(alice_acquires(trial, &trial->hers, NAME), STATUS_OK);
    assert_int_equal(alice_acquires(trial, &trial->inner, OTHER), STATUS_OK);
    steal(trial);
    strike(trial);
    call_release(trial->alice, &trial->hers);
    rlock_flush(trial->alice);
    call_release(trial->alice, &trial->inner);
    rlock_flush(trial->alice);
    both_are_answered(trial, 2);
    assert_int_not_equal(unlucky(trial)->status, STATUS_OK);
    assert_thief_has_it(trial);
}

static void alice_acquires_watched_beside(struct trial *trial)
{
    struct rlock_acquire_options options = options_of(trial);

    options.watchdog = true;
    options.lease_ms = LEASE_MS + 1; /* renewed by another call */
    call_acquire_with(trial->alice, &trial->inner, OTHER, &options);
    assert_int_equal(acquired(trial, &trial->inner), STATUS_OK);
}

/** A lock does not count as renewed because another was. */
static void trial_renew_two(struct trial *trial)
{
    int64_t safe_before_us;

    open_alice(trial);
    alice_acquires_watched(trial);
    alice_acquires_watched_beside(trial);
    safe_before_us = safe_until_us(trial);
    steal(trial);
    strike(trial);
    await_count(trial, &trial->proxy->connections, 2);
    assert_int_equal(trial->proxy->faults, 1);
    assert_true(trial->hers.losses == 1 || safe_until_us(trial) == safe_before_us);
    await_count(trial, &trial->hers.losses, 1);
    assert_int_equal(trial->inner.losses, 0);
    assert_thief_has_it(trial);
}

/* -- the matrix -- */

static const struct test matrix[] = {
    {"acquire, plain", trial_acquire, "acquire", .kind = &rlock_plain},
    {"acquire, reentrant", trial_acquire, "reentrant_acquire", .kind = &rlock_reentrant},
    {"acquire, nested", trial_nested_acquire, "reentrant_acquire",
     .kind = &rlock_reentrant},
    {"acquire, fair", trial_acquire, "fair_acquire", .kind = &rlock_fair},
    {"acquire, getset", trial_acquire, "getset_acquire", .kind = &rlock_getset},
    {"acquire, would wait", trial_acquire, "acquire_wait", .kind = &rlock_plain,
     .waits = true},
    {"acquire, script unknown", trial_acquire_unknown_script, "acquire",
     .kind = &rlock_plain, .doubled = STATUS_IO},
    {"acquire, with its body", trial_acquire_with_body, "acquire", .kind = &rlock_plain},
    {"release, plain", trial_release, "release", .kind = &rlock_plain},
    {"release, reentrant", trial_release, "reentrant_release", .kind = &rlock_reentrant},
    {"release, nested", trial_nested_release, "reentrant_release",
     .kind = &rlock_reentrant},
    {"release, fair", trial_release, "fair_release", .kind = &rlock_fair},
    {"release, getset", trial_release, "release", .kind = &rlock_getset},
    {"renew, plain", trial_renew, "renew", .kind = &rlock_plain},
    {"renew, reentrant", trial_renew, "reentrant_renew", .kind = &rlock_reentrant},
    {"renew, in vain", trial_renew_in_vain, "renew", .kind = &rlock_plain,
     .without = BIT(PROXY_DUPLICATE) | BIT(PROXY_CUT_ASTRAY) | BIT(PROXY_CUT_INSIDE)},
    {"extend", trial_extend, "renew", .kind = &rlock_plain},
    {"raise", trial_connect, "raise_fence", .kind = &rlock_plain},
    {"greeting", trial_connect, "ping", .kind = &rlock_plain},
    {"idle probe", trial_idle_probe, "ping", .kind = &rlock_plain, .without = CUTS},
    {"subscribe", trial_subscribe, "subscribe", .kind = &rlock_plain, .waits = true},
    {"unsubscribe", trial_unsubscribe, "unsubscribe", .kind = &rlock_plain,
     .waits = true},
    {"message", trial_message, "message", .kind = &rlock_plain, .waits = true,
     .without = OF_COMMANDS},
    {"woken, plain", trial_woken, "acquire_wait", .kind = &rlock_plain, .waits = true},
    {"woken, reentrant", trial_woken, "reentrant_acquire", .kind = &rlock_reentrant,
     .waits = true},
    {"woken, fair", trial_woken, "fair_acquire", .kind = &rlock_fair, .waits = true},
    {"acquire, two at once", trial_acquire_two, "acquire", .without = ALL_BUT_SHIFTS},
    {"release, two at once", trial_release_two, "release", .without = ALL_BUT_SHIFTS},
    {"renew, two at once", trial_renew_two, "renew", .without = ~BIT(PROXY_DROP)},
};

static struct row rows[TESTS_MAX];
static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;

static void add(const struct test *test, const struct fault *fault)
{
    struct row *row = &rows[test_count];

    *row = (struct row){.test = test, .fault = fault};
    snprintf(row->words, sizeof(row->words), "%s: %s", test->words, fault->words);
    tests[test_count++] = (struct CMUnitTest){.name = row->words,
                                              .test_func = run,
                                              .setup_func = setup,
                                              .teardown_func = teardown,
                                              .initial_state = row};
}

/** Add each `TEAMS`-th from the `team`-th of those whose names begin with `only`. */
static void add_rows(size_t team, const char *only)
{
    size_t count = 0;

    for (size_t i = 0; i < COUNT_OF(matrix) * COUNT_OF(faults); i++) {
        const struct test *test = &matrix[i / COUNT_OF(faults)];
        const struct fault *fault = &faults[i % COUNT_OF(faults)];

        if ((test->without & BIT(fault->fault)) == 0 &&
            strncmp(test->words, only, strlen(only)) == 0 && count++ % TEAMS == team)
            add(test, fault);
    }
}

static int run_team(size_t team, const char *only)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* whole lines, for the others write, too */
    setvbuf(stderr, NULL, _IOLBF, 0);
    add_rows(team, only);
    return _cmocka_run_group_tests("it_fault", tests, test_count, fixture_start_server,
                                   fixture_stop_server);
}

/**
 * Most of the time is spent waiting, so it is spent by several processes at once.
 *
 * @argv  the beginning of the names of those to run
 */
int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    pid_t teams[TEAMS];
    bool is_failed = false;

    for (size_t team = 0; team < TEAMS; team++) {
        teams[team] = child_fork();
        if (teams[team] == 0)
            return run_team(team, only);
    }
    for (size_t team = 0; team < TEAMS; team++)
        is_failed = child_wait(teams[team]) != 0 || is_failed;
    return is_failed;
}
