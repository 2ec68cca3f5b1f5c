/*
 * it_fault.c - each reply of each command is once lost, cut, late or doubled.
 *
 * Alice is connected by a proxy that causes this fault; Bob is connected directly. Whatever the
 * fault, each call of Alice is answered once, in time, and never OK without the lock. Bob gets the
 * lock long before its lease ends. Soon no trace of the fault is left.
 *
 * Time is simulated, see fixture_simulate().
 */
#include "base/clock.h"
#include "lock/channel.h"
#include "test/child.h"
#include "test/trial.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNEL   "rlock:" NAME
#define TESTS_MAX 512
#define TEAMS     2

static const struct fault faults[] = {
    {"cut before the command", PROXY_CUT_UNSENT, RLOCK_IO},
    {"cut, the command arrives later", PROXY_CUT_ASTRAY, RLOCK_IO},
    {"cut before the reply", PROXY_CUT_BEFORE, RLOCK_IO},
    {"cut inside the reply", PROXY_CUT_INSIDE, RLOCK_IO},
    {"command too late", PROXY_HOLD_UNSENT, RLOCK_TIMEOUT},
    {"reply too late", PROXY_HOLD, RLOCK_TIMEOUT},
    {"reply dropped", PROXY_DROP, RLOCK_TIMEOUT},
    {"reply doubled", PROXY_DUPLICATE, RLOCK_OK},
};

#define BIT(fault)     (1u << (fault))
#define CUTS           (BIT(PROXY_CUT_UNSENT) | BIT(PROXY_CUT_ASTRAY) | BIT(PROXY_CUT_INSIDE))
#define ALL_BUT_SHIFTS (~(BIT(PROXY_DROP) | BIT(PROXY_DUPLICATE)))
#define OF_COMMANDS                                                                      \
    (BIT(PROXY_CUT_UNSENT) | BIT(PROXY_CUT_ASTRAY) | BIT(PROXY_HOLD_UNSENT))

struct row {
    const struct test *test;
    const struct fault *fault;
    char words[96];
};

static int setup(void **state)
{
    const struct row *row = *state;

    *state = trial_begin(row->test, row->fault);
    return 0;
}

static int teardown(void **state)
{
    trial_end(*state);
    return 0;
}

static void run_trial(void **state)
{
    struct trial *trial = *state;

    trial->test->run(trial);
    /* the client is closed while the proxy still works */
    fixture_close(trial->fixture, trial->alice);
}

static void run(void **state)
{
    case_call(run_trial, state);
}

/* -- acquire and release -- */

static enum rlock_status wanted_status(const struct trial *trial)
{
    if (trial->test->waits)
        return RLOCK_OK;
    return trial->fault->fault == PROXY_DUPLICATE ? trial->test->doubled
                                                  : trial->fault->status;
}

static void acquire_with_fault(struct trial *trial)
{
    ASSERT_STATUS(alice_acquires(trial, &trial->hers, NAME), wanted_status(trial));
    alice_recovers(trial);
    trial_let_go(trial);
    /* nobody owns the lock, and the library releases it */
    if (trial->fault->fault == PROXY_CUT_ASTRAY)
        AWAIT(trial, trial_is_locked, trial);
    if (trial->fault->fault == PROXY_HOLD_UNSENT)
        assert_int_equal(trial_has_lock(trial), trial->test->waits);
    if (wanted_status(trial) == RLOCK_OK)
        ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_OK);
    bob_gets_it(trial);
    trial_assert_stats(trial);
}

static void trial_acquire(struct trial *trial)
{
    alice_opens(trial);
    alice_warms_up(trial);
    trial_strike(trial);
    acquire_with_fault(trial);
}

static void forget_scripts(struct trial *trial)
{
    server_do(trial->fixture->server, "SCRIPT FLUSH");
}

/** The fault hits the reply "NOSCRIPT". */
static void trial_acquire_unknown_script(struct trial *trial)
{
    alice_opens(trial);
    alice_warms_up(trial);
    forget_scripts(trial);
    trial_strike(trial);
    acquire_with_fault(trial);
}

/** The fault hits the EVAL that has the text of the script, or the reply to it. */
static void trial_acquire_with_body(struct trial *trial)
{
    alice_opens(trial);
    alice_warms_up(trial);
    forget_scripts(trial);
    trial_strike(trial);
    trial->proxy->plan.passing = 1;
    acquire_with_fault(trial);
}

static void trial_release(struct trial *trial)
{
    alice_opens(trial);
    ASSERT_STATUS(alice_acquires(trial, &trial->hers, NAME), RLOCK_OK);
    trial_strike(trial);
    ASSERT_STATUS(alice_releases(trial, &trial->hers), trial->fault->status);
    alice_recovers(trial);
    bob_gets_it(trial);
    trial_let_go(trial);
    bob_gets_it(trial);
    trial_assert_stats(trial);
}

/** Assert that Alice has only the first of her two grants. The grant is counted once, and its
 *  release frees the lock. */
static void one_grant_is_left(struct trial *trial)
{
    redisReply *count =
        server_command(trial->fixture->server, "HGET " NAME " %s:1", trial->alice->id);

    assert_string_equal(count->str, "1");
    freeReplyObject(count);
    ASSERT_STATUS(bob_tries(trial, LEASE_MS), RLOCK_BUSY);
    ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_OK);
    assert_false(trial_has_lock(trial));
    bob_gets_it(trial);
    trial_assert_stats(trial);
}

static void trial_nested_release(struct trial *trial)
{
    alice_opens(trial);
    ASSERT_STATUS(alice_acquires(trial, &trial->hers, NAME), RLOCK_OK);
    ASSERT_STATUS(alice_acquires(trial, &trial->inner, NAME), RLOCK_OK);
    trial_strike(trial);
    ASSERT_STATUS(alice_releases(trial, &trial->inner), trial->fault->status);
    alice_recovers(trial);
    trial_let_go(trial);
    one_grant_is_left(trial);
}

static bool has_one_grant(void *arg)
{
    struct trial *trial = arg;

    return server_int(trial->fixture->server, "HLEN " NAME) ==
           3; /* the fields are the count, the grant and the fence */
}

static bool has_two_grants(void *arg)
{
    struct trial *trial = arg;

    return server_int(trial->fixture->server, "HLEN " NAME) == 4;
}

static void trial_nested_acquire(struct trial *trial)
{
    alice_opens(trial);
    ASSERT_STATUS(alice_acquires(trial, &trial->hers, NAME), RLOCK_OK);
    trial_strike(trial);
    ASSERT_STATUS(alice_acquires(trial, &trial->inner, NAME), trial->fault->status);
    alice_recovers(trial);
    trial_let_go(trial);
    if (trial->fault->fault == PROXY_CUT_ASTRAY)
        AWAIT(trial, has_two_grants, trial);
    if (trial->fault->status == RLOCK_OK)
        ASSERT_STATUS(alice_releases(trial, &trial->inner), RLOCK_OK);
    AWAIT(trial, has_one_grant, trial);
    one_grant_is_left(trial);
}

/* -- renew and extend -- */

static void alice_acquires_watched(struct trial *trial)
{
    struct rlock_acquire_options options = trial_options(trial);

    options.watchdog = true;
    options.lease_ms = LEASE_MS;
    call_acquire_with(trial->alice, &trial->hers, NAME, &options);
    ASSERT_STATUS(alice_tried(trial, &trial->hers), RLOCK_OK);
}

static bool has_renewed_thrice(void *arg)
{
    return trial_stats(arg).renewed >= 3;
}

static void trial_renew(struct trial *trial)
{
    alice_opens(trial);
    alice_acquires_watched(trial);
    trial_strike(trial);
    trial_await(trial, &trial->proxy->faults, 1);
    AWAIT(trial, has_renewed_thrice, trial->alice);
    assert_int_equal(trial->hers.losses, 0);
    ASSERT_NUMBER(rlock_safe_for_us(&trial->hers.lock, clock_mono_us()), >, 0);
    ASSERT_STATUS(bob_tries(trial, LEASE_MS), RLOCK_BUSY);
    alice_recovers(trial);
    ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_OK);
    trial_let_go(trial);
    assert_false(trial_has_lock(trial));
    bob_gets_it(trial);
    trial_assert_stats(trial);
}

static int64_t safe_until_us(const struct trial *trial)
{
    int64_t now_us = clock_mono_us();

    return now_us + rlock_safe_for_us(&trial->hers.lock, now_us);
}

/** No renewal is answered. The lock is lost when its lease ends by the local clock, and not
 *  before. */
static void trial_renew_in_vain(struct trial *trial)
{
    int64_t safe_us, begin_us, passed_us;

    alice_opens(trial);
    alice_acquires_watched(trial);
    begin_us = clock_mono_us();
    safe_us = rlock_safe_for_us(&trial->hers.lock, begin_us);
    proxy_always(trial->proxy, trial->test->command, trial->fault->fault);
    passed_us = trial_await(trial, &trial->hers.losses, 1) * INT64_C(1000);
    ASSERT_NUMBER(clock_mono_us() - begin_us, >=, safe_us);
    ASSERT_NUMBER(passed_us, <=, safe_us + 1000);
    trial->expected.lost++;
    ASSERT_NUMBER(trial->proxy->faults, >=, 2);
    trial_let_go(trial);
    bob_gets_it(trial);
    assert_int_equal(trial->hers.losses, 1);
    ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_LOST);
    trial_assert_stats(trial);
}

/** A lease whose extension is in doubt does not count as extended. */
static void trial_extend(struct trial *trial)
{
    bool is_ok = trial->fault->status == RLOCK_OK;
    int64_t before_us;

    alice_opens(trial);
    alice_acquires_watched(trial);
    before_us = safe_until_us(trial);
    trial_strike(trial);
    call_extend(trial->alice, &trial->hers, 3 * LEASE_MS);
    ASSERT_STATUS(alice_next_answer(trial, &trial->hers), trial->fault->status);
    assert_true(rlock_is_held(&trial->hers.lock));
    assert_int_equal(safe_until_us(trial) > before_us + LEASE_MS * 1000LL, is_ok);
    alice_recovers(trial);
    trial_let_go(trial);
    ASSERT_STATUS(bob_tries(trial, LEASE_MS), RLOCK_BUSY);
    ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_OK);
    bob_gets_it(trial);
    trial_assert_stats(trial);
}

/* -- connecting -- */

/** The fence counter is from an old snapshot. Alice nevertheless gets a greater fence than
 *  before. */
static void alice_draws_a_new_fence(struct trial *trial)
{
    alice_recovers(trial);
    ASSERT_STATUS(alice_acquires(trial, &trial->hers, NAME), RLOCK_OK);
    ASSERT_NUMBER(rlock_fence(&trial->hers.lock), >, INT64_C(1000000000000000));
    ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_OK);
    trial_let_go(trial);
    bob_gets_it(trial);
    trial_assert_stats(trial);
}

static void trial_connect(struct trial *trial)
{
    server_do(trial->fixture->server, "SET lock:fence 5");
    trial_strike(trial);
    alice_opens(trial);
    alice_draws_a_new_fence(trial);
}

static void trial_idle_probe(struct trial *trial)
{
    alice_opens(trial);
    trial_strike(trial);
    trial_await(trial, &trial->proxy->faults, 1);
    alice_draws_a_new_fence(trial);
}

/* -- waiting -- */

/** Whether Alice has subscribed, and has no try in progress. */
static bool is_asleep(void *arg)
{
    struct trial *trial = arg;
    const struct rlock_channels *channels = &trial->alice->channels;

    for (int i = 0; i < RLOCK_CHANNEL_BUCKETS; i++) {
        const struct rlock_link *bucket = &channels->buckets[i];

        if (!list_is_empty(bucket))
            return list_item(bucket->next, struct rlock_channel, link)->is_subscribed &&
                   trial->hers.lock.batch == NULL;
    }
    return false;
}

static void alice_begins_to_wait(struct trial *trial)
{
    struct rlock_acquire_options options = trial_options(trial);

    ASSERT_STATUS(bob_tries(trial, RLOCK_LEASE_MS_MAX), RLOCK_OK);
    call_acquire_with(trial->alice, &trial->hers, NAME, &options);
    rlock_flush(trial->alice);
}

static void alice_waits(struct trial *trial)
{
    alice_begins_to_wait(trial);
    AWAIT(trial, is_asleep, trial);
}

/** Bob releases the lock, and Alice gets it. She may be answered before he is. */
static enum rlock_status bob_hands_over(struct trial *trial)
{
    unsigned wanted = trial->hers.answers + 1;

    bob_releases(trial);
    (void)alice_answer(trial, &trial->hers, wanted);
    return trial_count(trial, &trial->hers);
}

static void alice_waits_and_gets_it(struct trial *trial)
{
    alice_waits(trial);
    ASSERT_STATUS(bob_hands_over(trial), RLOCK_OK);
    ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_OK);
}

static bool has_no_subscriber(void *arg)
{
    struct trial *trial = arg;
    redisReply *reply = server_command(trial->fixture->server, "PUBSUB NUMSUB " CHANNEL);
    bool is_so = reply->element[1]->integer == 0;

    freeReplyObject(reply);
    return is_so;
}

static void subscription_recovers(struct trial *trial)
{
    trial_await(trial, &trial->proxy->faults, 1);
    trial_let_go(trial);
    alice_waits_and_gets_it(trial);
    AWAIT(trial, has_no_subscriber, trial);
    assert_int_equal(trial->proxy->faults, 1);
    bob_gets_it(trial);
    trial_assert_stats(trial);
}

static void trial_subscribe(struct trial *trial)
{
    alice_opens(trial);
    trial_strike(trial);
    alice_begins_to_wait(trial);
    trial_await(trial, &trial->proxy->faults, 1);
    ASSERT_STATUS(bob_hands_over(trial), RLOCK_OK);
    ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_OK);
    subscription_recovers(trial);
}

static void trial_unsubscribe(struct trial *trial)
{
    alice_opens(trial);
    trial_strike(trial);
    alice_waits_and_gets_it(trial);
    subscription_recovers(trial);
}

/** If the message does not arrive, Alice notices at her next check that the name is free. */
static void trial_message(struct trial *trial)
{
    alice_opens(trial);
    alice_waits(trial);
    trial_strike(trial);
    ASSERT_STATUS(bob_hands_over(trial), RLOCK_OK);
    ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_OK);
    subscription_recovers(trial);
}

/** The fault hits the try that the message has started. */
static void trial_woken(struct trial *trial)
{
    alice_opens(trial);
    alice_waits(trial);
    trial_strike(trial);
    ASSERT_STATUS(bob_hands_over(trial), RLOCK_OK);
    alice_recovers(trial);
    ASSERT_STATUS(alice_releases(trial, &trial->hers), RLOCK_OK);
    trial_let_go(trial);
    bob_gets_it(trial);
    AWAIT(trial, has_no_subscriber, trial);
    trial_assert_stats(trial);
}

/* -- two calls under way -- */

#define OTHER "item:8"

/** Return the call that would get a wrong reply. If a reply is dropped or doubled, later replies
 *  seem to belong to other calls. A lock must not take the reply to another lock for its own. */
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
    trial_await(trial, &trial->hers.answers, answers);
    trial_await(trial, &trial->inner.answers, answers);
    trial_await(trial, &trial->proxy->connections, 2);
    assert_int_equal(trial->proxy->faults, 1);
    assert_int_equal(trial->hers.answers, answers);
    assert_int_equal(trial->inner.answers, answers);
}

static void trial_acquire_two(struct trial *trial)
{
    alice_opens(trial);
    alice_warms_up(trial);
    steal(trial);
    trial_strike(trial);
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
    alice_opens(trial);
    ASSERT_STATUS(alice_acquires(trial, &trial->hers, NAME), RLOCK_OK);
    ASSERT_STATUS(alice_acquires(trial, &trial->inner, OTHER), RLOCK_OK);
    steal(trial);
    trial_strike(trial);
    call_release(trial->alice, &trial->hers);
    rlock_flush(trial->alice);
    call_release(trial->alice, &trial->inner);
    rlock_flush(trial->alice);
    both_are_answered(trial, 2);
    assert_int_not_equal(unlucky(trial)->status, RLOCK_OK);
    assert_thief_has_it(trial);
}

static void alice_acquires_watched_beside(struct trial *trial)
{
    struct rlock_acquire_options options = trial_options(trial);

    options.watchdog = true;
    /* another lease, so the locks are renewed by different calls */
    options.lease_ms = LEASE_MS + 1;
    call_acquire_with(trial->alice, &trial->inner, OTHER, &options);
    ASSERT_STATUS(alice_tried(trial, &trial->inner), RLOCK_OK);
}

/** A lock must not count as renewed because another lock was renewed. */
static void trial_renew_two(struct trial *trial)
{
    int64_t safe_before_us;

    alice_opens(trial);
    alice_acquires_watched(trial);
    alice_acquires_watched_beside(trial);
    safe_before_us = safe_until_us(trial);
    steal(trial);
    trial_strike(trial);
    trial_await(trial, &trial->proxy->connections, 2);
    assert_int_equal(trial->proxy->faults, 1);
    assert_true(trial->hers.losses == 1 || safe_until_us(trial) == safe_before_us);
    trial_await(trial, &trial->hers.losses, 1);
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
    {"acquire, semaphore", trial_acquire, "semaphore_acquire", .kind = &rlock_semaphore},
    {"acquire, fair semaphore", trial_acquire, "semaphore_acquire",
     .kind = &rlock_fair_semaphore},
    {"acquire, read", trial_acquire, "read_acquire", .kind = &rlock_read,
     .his_kind = &rlock_write},
    {"acquire, write", trial_acquire, "write_acquire", .kind = &rlock_write},
    {"acquire, would wait", trial_acquire, "acquire_wait", .kind = &rlock_plain,
     .waits = true},
    {"acquire, script unknown", trial_acquire_unknown_script, "acquire",
     .kind = &rlock_plain, .doubled = RLOCK_IO},
    {"acquire, with its body", trial_acquire_with_body, "acquire", .kind = &rlock_plain},
    {"release, plain", trial_release, "release", .kind = &rlock_plain},
    {"release, reentrant", trial_release, "reentrant_release", .kind = &rlock_reentrant},
    {"release, nested", trial_nested_release, "reentrant_release",
     .kind = &rlock_reentrant},
    {"release, fair", trial_release, "fair_release", .kind = &rlock_fair},
    {"release, getset", trial_release, "release", .kind = &rlock_getset},
    {"release, semaphore", trial_release, "semaphore_release", .kind = &rlock_semaphore},
    {"release, fair semaphore", trial_release, "fair_semaphore_release",
     .kind = &rlock_fair_semaphore},
    {"release, read", trial_release, "rw_release", .kind = &rlock_read,
     .his_kind = &rlock_write},
    {"release, write", trial_release, "rw_release", .kind = &rlock_write},
    {"renew, semaphore", trial_renew, "permit_renew", .kind = &rlock_semaphore},
    {"renew, write", trial_renew, "permit_renew", .kind = &rlock_write},
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
    {"woken, plain", trial_woken, "acquire_again", .kind = &rlock_plain, .waits = true},
    {"woken, cohort", trial_woken, "acquire_again", .kind = &rlock_cohort, .waits = true},
    {"woken, reentrant", trial_woken, "reentrant_acquire", .kind = &rlock_reentrant,
     .waits = true},
    {"woken, fair", trial_woken, "fair_acquire", .kind = &rlock_fair, .waits = true},
    {"woken, semaphore", trial_woken, "semaphore_acquire", .kind = &rlock_semaphore,
     .waits = true},
    {"woken, fair semaphore", trial_woken, "semaphore_acquire",
     .kind = &rlock_fair_semaphore, .waits = true},
    {"woken, read", trial_woken, "read_acquire", .kind = &rlock_read,
     .his_kind = &rlock_write, .waits = true},
    {"woken, write", trial_woken, "write_acquire", .kind = &rlock_write, .waits = true},
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

/** Add the rows of this team whose names begin with `only`. The teams take these rows in turn. */
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
    /* write whole lines, because the other processes write, too */
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stderr, NULL, _IOLBF, 0);
    add_rows(team, only);
    return cases_run_all(tests, test_count, fixture_start_server, fixture_stop_server);
}

/**
 * The tests mostly wait, so several processes run them at the same time.
 *
 * @argv  may have the beginning of the names of the tests to run
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
