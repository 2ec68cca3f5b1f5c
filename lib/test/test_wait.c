/*
 * test_wait.c - how long waiters sleep, and what wakes them. Only the test moves the clock, and the
 * server never replies.
 */
#include "base/clock.h"
#include "lock/batch.h"
#include "lock/channel.h"
#include "lock/keys.h"
#include "lock/state.h"
#include "lock/wait.h"
#include "test/cases.h"
#include "test/fake.h"
#include "test/frozen_clock.h"
#include "test/torture.h"

#include <stdlib.h>

#define NAME     "item:7"
#define NOW_US   5000000
#define LEASE_MS 1000
#define LOCKS    3

struct wait_test {
    uv_loop_t loop;
    long blocks; /* number of allocated blocks before the test */
    struct rlock_client *client;
    struct fake *fake;
    struct rlock locks[LOCKS];
    struct rlock_kind kind; /* a kind whose cancelled waits are counted */
    unsigned answers;
    enum rlock_status status;
};

static unsigned cancelled;

static void wait_on_cancelled(struct rlock_client *client, struct rlock *lock)
{
    (void)client;
    (void)lock;
    cancelled++;
}

static void wait_on_answer(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct wait_test *test = arg;

    (void)lock;
    test->answers++;
    test->status = status;
}

static int set_up(void **state)
{
    struct wait_test *test = calloc(1, sizeof(*test));
    struct rlock_client_options options = {.loop = &test->loop, .timeout_ms = 60000};

    test->blocks = torture_blocks();
    frozen_us = NOW_US;
    cancelled = 0;
    assert_int_equal(uv_loop_init(&test->loop), 0);
    test->fake = fake_start(&test->loop, NULL);
    options.redis_url = test->fake->url;
    ASSERT_STATUS(rlock_client_open(&options, &test->client, NULL), RLOCK_OK);
    while (!redis_conn_is_up(test->client->servers[0].conn))
        uv_run(&test->loop, UV_RUN_ONCE);
    *state = test;
    return 0;
}

static int tear_down(void **state)
{
    struct wait_test *test = *state;

    fake_stop(test->fake);
    if (test->client != NULL)
        rlock_client_close(test->client, NULL, NULL);
    while (uv_run(&test->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&test->loop), 0);
    torture_expect_blocks(test->blocks);
    free(test);
    return 0;
}

/** Return a lock with these options whose first try has ended with `result`. It waits from now
 *  on. */
static struct rlock *begin(struct wait_test *test, int at, const struct rlock_kind *kind,
                           uint32_t wait_ms, struct rlock_result result)
{
    struct rlock *lock = &test->locks[at];

    *lock = (struct rlock){.kind = kind,
                           .wait_ms = wait_ms,
                           .lease_ms = LEASE_MS,
                           .began_us = frozen_us,
                           .state = RLOCK_STATE_ACQUIRING,
                           .callback = wait_on_answer,
                           .arg = test};
    list_init(&lock->link);
    assert_null(rlock_keys_set_name(test->client, lock, NAME, strlen(NAME)));
    ASSERT_STATUS(rlock_wait_on(test->client, lock, &result), RLOCK_OK);
    return lock;
}

static struct rlock *begin_busy(struct wait_test *test, int at,
                                const struct rlock_kind *kind)
{
    return begin(test, at, kind, 60000,
                 (struct rlock_result){.status = RLOCK_BUSY, .remaining_ms = -1});
}

static void end(struct wait_test *test, struct rlock *lock)
{
    rlock_batch_leave(lock);
    rlock_wait_end(test->client, lock, false);
}

struct search {
    const void *waiter;
    uv_timer_t *timer;
};

static void find_timer(uv_handle_t *handle, void *arg)
{
    struct search *search = arg;

    if (handle->data == search->waiter && handle->type == UV_TIMER)
        search->timer = (uv_timer_t *)handle;
}

static uv_timer_t *timer_of(struct wait_test *test, const struct rlock *lock)
{
    struct search search = {.waiter = lock->waiter};

    assert_non_null(lock->waiter);
    uv_walk(&test->loop, find_timer, &search);
    assert_non_null(search.timer);
    return search.timer;
}

/** Return in how many ms the waiter tries again; -1: its timer does not run. */
static int64_t due_ms(struct wait_test *test, const struct rlock *lock)
{
    uv_timer_t *timer = timer_of(test, lock);

    if (!uv_is_active((uv_handle_t *)timer))
        return -1;
    ASSERT_NUMBER(uv_timer_get_repeat(timer), ==, 0);
    return (int64_t)uv_timer_get_due_in(timer);
}

static bool tries(const struct rlock *lock)
{
    return lock->batch != NULL;
}

#define WAIT_CASE(name) DEFINE_CASE(name, name, set_up, tear_down, NULL)

WAIT_CASE(test_waiter__sleeps_until_the_lock_may_be_free)
{
    static const struct {
        const struct rlock_kind *kind;
        bool is_subscribed, is_second;
        uint32_t wait_ms;
        enum rlock_status status;
        /* bounds of the sleep; a timer adds 1 ms for rounding up */
        int64_t remaining_ms, least_ms, most_ms;
    } cases[] = {
        {&rlock_plain, true, false, 60000, RLOCK_BUSY, -1, 60001, 60001},
        {&rlock_plain, true, false, 60000, RLOCK_BUSY, 100, 102, 102},
        {&rlock_plain, true, false, 60000, RLOCK_BUSY, 0, 2, 2},
        {&rlock_plain, true, false, 60000, RLOCK_BUSY, 9999, 10001, 10001},
        {&rlock_plain, true, false, 50, RLOCK_BUSY, 100, 51, 51},
        {&rlock_plain, true, false, RLOCK_WAIT_FOREVER, RLOCK_BUSY, 99, 101, 101},
        {&rlock_plain, true, false, RLOCK_WAIT_FOREVER, RLOCK_BUSY, -1, 5000000000,
         INT64_MAX},
        {&rlock_plain, true, false, 60000, RLOCK_DOWN, 5, 1, 501},
        {&rlock_plain, false, false, 60000, RLOCK_BUSY, -1, 1, 101},
        {&rlock_plain, true, true, 60000, RLOCK_BUSY, 5, 60001, 60001},
        {&rlock_plain, false, true, 60000, RLOCK_BUSY, 5, 60001, 60001},
        {&rlock_fair, true, false, 60000, RLOCK_BUSY, 2000, 501, 501},
        {&rlock_fair, false, true, 60000, RLOCK_BUSY, 100, 1, 102},
        {&rlock_fair, false, true, 60000, RLOCK_BUSY, -1, 1, 101},
        {&rlock_fair, true, false, 60000, RLOCK_BUSY, 100, 102, 102},
    };
    struct wait_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock_result result = {.status = cases[i].status,
                                      .remaining_ms = cases[i].remaining_ms};
        struct rlock *first = begin_busy(test, 0, cases[i].kind);
        struct rlock *lock = first;
        int64_t found_ms;

        if (cases[i].is_second)
            lock = begin(test, 1, cases[i].kind, cases[i].wait_ms, result);
        lock->wait_ms = cases[i].wait_ms;
        rlock_channel_find(test->client, lock)->is_subscribed = cases[i].is_subscribed;
        rlock_batch_leave(lock);
        ASSERT_STATUS(rlock_wait_on(test->client, lock, &result), RLOCK_OK);
        found_ms = due_ms(test, lock);
        if (found_ms < cases[i].least_ms || found_ms > cases[i].most_ms)
            fail_msg("case %zu: expected %lld to %lld ms, got %lld", i,
                     (long long)cases[i].least_ms, (long long)cases[i].most_ms,
                     (long long)found_ms);
        if (cases[i].is_second)
            end(test, lock);
        end(test, first);
    }
}

WAIT_CASE(test_waiter__is_used_again)
{
    struct wait_test *test = *state;
    struct rlock *lock = begin_busy(test, 0, &rlock_plain);
    const struct rlock_waiter *waiter = lock->waiter;

    end(test, lock);
    lock = begin_busy(test, 1, &rlock_plain);
    assert_ptr_equal(lock->waiter, waiter);
    end(test, lock);
}

/** The next lock that uses the waiter pauses as shortly as the first one did. */
WAIT_CASE(test_waiter__begins_with_the_shortest_pause)
{
    struct rlock_result busy = {.status = RLOCK_BUSY, .remaining_ms = -1};
    struct wait_test *test = *state;

    for (int i = 0; i < 2; i++) {
        struct rlock *lock = begin_busy(test, 0, &rlock_getset);

        assert_int_equal(due_ms(test, lock), 2);
        for (int n = 0; n < 10; n++)
            ASSERT_STATUS(rlock_wait_on(test->client, lock, &busy), RLOCK_OK);
        ASSERT_NUMBER(due_ms(test, lock), >, 2);
        end(test, lock);
    }
}

/** Return the longest of many pauses of a lock that spins. */
static int64_t longest_pause_ms(struct wait_test *test, struct rlock *lock)
{
    struct rlock_result result = {.status = RLOCK_BUSY, .remaining_ms = 0};
    int64_t longest_ms = 0;

    for (int n = 0; n < 60; n++) {
        ASSERT_STATUS(rlock_wait_on(test->client, lock, &result), RLOCK_OK);
        if (due_ms(test, lock) - 1 > longest_ms)
            longest_ms = due_ms(test, lock) - 1;
    }
    return longest_ms;
}

WAIT_CASE(test_waiter__that_spins_pauses_longer_and_longer)
{
    static const struct {
        uint16_t min_ms, max_ms;
        int64_t bound_ms;
    } cases[] = {{1, 0, 100}, {1, 7, 7}, {3, 40, 40}, {5, 5, 5}};
    struct wait_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock *lock = begin_busy(test, 0, &rlock_getset);
        int64_t found_ms;

        lock->spin_min_ms = cases[i].min_ms;
        lock->spin_max_ms = cases[i].max_ms;
        found_ms = longest_pause_ms(test, lock);
        ASSERT_BETWEEN(found_ms, cases[i].bound_ms / 2 + 1, cases[i].bound_ms);
        end(test, lock);
    }
}

/** The first waiter tries at the end of a yield, even if something wakes it before. A yield that has
 *  just ended delays no try. */
WAIT_CASE(test_waiter__sleeps_until_its_turn)
{
    static const struct {
        int64_t yield_us, due_ms;
        bool is_second;
    } cases[] = {{5000, 6, false}, {1, 1, false}, {0, 60001, false}, {5000, 60001, true}};
    struct wait_test *test = *state;
    struct rlock *first = begin_busy(test, 0, &rlock_plain);
    struct rlock *second = begin_busy(test, 1, &rlock_plain);
    struct rlock_turns *turns =
        &test->client->waits.turns[rlock_keys_hash(NAME, strlen(NAME)) % RLOCK_TURNS];

    rlock_channel_find(test->client, first)->is_subscribed = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock_result busy = {.status = RLOCK_BUSY, .remaining_ms = -1};
        struct rlock *lock = cases[i].is_second ? second : first;
        int64_t found_ms;

        turns->yield_until_us = NOW_US + cases[i].yield_us;
        ASSERT_STATUS(rlock_wait_on(test->client, lock, &busy), RLOCK_OK);
        found_ms = due_ms(test, lock);
        if (found_ms != cases[i].due_ms)
            fail_msg("case %zu: expected %lld ms, got %lld", i,
                     (long long)cases[i].due_ms, (long long)found_ms);
    }
    ASSERT_STATUS(
        rlock_wait_on(test->client, first, &(struct rlock_result){.status = RLOCK_DOWN}),
        RLOCK_OK);
    for (int is_over = 0; is_over <= 1; is_over++) {
        turns->yield_until_us = NOW_US + !is_over;
        rlock_waits_resume(test->client);
        assert_int_equal(tries(first), is_over);
    }
    end(test, second);
    end(test, first);
}

WAIT_CASE(test_rlock_wait_on__ends_at_the_deadline)
{
    struct wait_test *test = *state;
    struct rlock *lock = begin_busy(test, 0, &rlock_plain);
    struct rlock_result result = {.status = RLOCK_DOWN};

    frozen_us += INT64_C(60000) * 1000 - 1;
    ASSERT_STATUS(rlock_wait_on(test->client, lock, &result), RLOCK_OK);
    frozen_us++;
    ASSERT_STATUS(rlock_wait_on(test->client, lock, &result), RLOCK_DOWN);
    timer_of(test, lock)->timer_cb(timer_of(test, lock));
    assert_int_equal(test->answers, 1);
    ASSERT_STATUS(test->status, RLOCK_DOWN); /* the status of the last try */
    assert_int_equal(test->client->stats.waiters, 0);
    assert_null(rlock_channel_find(test->client, lock));
}

/** The second call has queued without a try. */
WAIT_CASE(test_waiter__without_a_try_fails_like_the_first_one)
{
    struct wait_test *test = *state;
    struct rlock *first =
        begin(test, 0, &rlock_plain, 60000, (struct rlock_result){.status = RLOCK_DOWN});
    struct rlock *second = begin_busy(test, 1, &rlock_plain);

    end(test, first);
    rlock_batch_leave(second);
    frozen_us += INT64_C(60000) * 1000;
    timer_of(test, second)->timer_cb(timer_of(test, second));
    ASSERT_STATUS(test->status, RLOCK_DOWN);
}

WAIT_CASE(test_waiter__tries_when_its_timer_runs)
{
    struct wait_test *test = *state;
    struct rlock *lock = begin_busy(test, 0, &rlock_plain);

    torture_fail(1, 0);
    timer_of(test, lock)->timer_cb(timer_of(test, lock));
    assert_true(torture_stop());
    assert_false(tries(lock));
    /* the pause after a try that got no memory */
    assert_int_equal(due_ms(test, lock), 500);
    frozen_us += INT64_C(60000) * 1000 - 1;
    timer_of(test, lock)->timer_cb(timer_of(test, lock));
    assert_true(tries(lock));
    assert_int_equal(due_ms(test, lock), -1);
    end(test, lock);
}

WAIT_CASE(test_rlock_wait_on__of_a_queued_kind_tries_once_more)
{
    static const struct {
        const struct rlock_kind *kind;
        bool is_subscribed, tries;
    } cases[] = {
        {&rlock_fair, true, true},
        {&rlock_fair, false, false},
        {&rlock_plain, true, false},
        {&rlock_plain, false, false},
    };
    struct wait_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock *first = begin_busy(test, 0, cases[i].kind), *second;

        rlock_channel_find(test->client, first)->is_subscribed = cases[i].is_subscribed;
        second = begin_busy(test, 1, cases[i].kind);
        if (tries(second) != cases[i].tries)
            fail_msg("case %zu: expected a try %d", i, cases[i].tries);
        assert_int_equal(test->client->stats.waiters, 2);
        end(test, second);
        end(test, first);
        assert_int_equal(test->client->stats.waiters, 0);
    }
}

/** Let all locks wait. Then their channel is subscribed, and no lock tries. */
static void begin_all(struct wait_test *test, const struct rlock_kind *kind)
{
    struct rlock_result busy = {.status = RLOCK_BUSY, .remaining_ms = -1};

    for (int at = 0; at < LOCKS; at++) {
        struct rlock *lock = begin_busy(test, at, kind);

        rlock_channel_find(test->client, lock)->is_subscribed = true;
        if (!tries(lock))
            continue;
        /* a queued kind tries once more, and finds the lock busy again */
        rlock_batch_leave(lock);
        ASSERT_STATUS(rlock_wait_on(test->client, lock, &busy), RLOCK_OK);
    }
}

WAIT_CASE(test_rlock_wait_end__lets_the_next_waiter_try)
{
    static const struct {
        const struct rlock_kind *kind;
        int leaves; /* of three */
        bool is_granted, is_closing;
        bool tries; /* the next one */
        int64_t due_ms;
    } cases[] = {
        {&rlock_plain, 0, false, false, true, -1},
        {&rlock_plain, 0, true, false, false, LEASE_MS + 2},
        {&rlock_plain, 0, false, true, false, 60001},
        {&rlock_plain, 1, false, false, false, 60001},
        {&rlock_semaphore, 0, true, false, true, -1}, /* there may be more permits */
        {&rlock_fair, 0, false, false, false, 501},
    };
    struct wait_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock *next = &test->locks[cases[i].leaves + 1];
        int64_t found_ms;

        begin_all(test, cases[i].kind);
        test->client->is_closing = cases[i].is_closing;
        rlock_wait_end(test->client, &test->locks[cases[i].leaves], cases[i].is_granted);
        test->client->is_closing = false;
        found_ms = due_ms(test, next);
        if (tries(next) != cases[i].tries || found_ms != cases[i].due_ms)
            fail_msg("case %zu: expected a try %d or %lld ms, got %d and %lld", i,
                     cases[i].tries, (long long)cases[i].due_ms, tries(next),
                     (long long)found_ms);
        for (int at = 0; at < LOCKS; at++)
            end(test, &test->locks[at]);
    }
}

WAIT_CASE(test_rlock_waits_resume__tries_again_what_failed)
{
    struct wait_test *test = *state;
    struct rlock_result down = {.status = RLOCK_DOWN};
    struct rlock *failed = begin(test, 0, &rlock_plain, 60000, down);
    struct rlock *busy = begin_busy(test, 1, &rlock_plain);
    struct rlock *ended = begin(test, 2, &rlock_plain, 60000, down);

    end(test, ended);
    rlock_waits_resume(test->client);
    assert_true(tries(failed));
    assert_false(tries(busy));
    end(test, busy);
    end(test, failed);
}

WAIT_CASE(test_channel__wakes_those_that_missed_messages)
{
    static const struct {
        const struct rlock_kind *kind;
        bool second_tries;
    } cases[] = {{&rlock_plain, false}, {&rlock_fair, true}};
    struct wait_test *test = *state;
    const struct rlock_channel_events *events = test->client->channels.events;

    for (size_t i = 0; i < 2; i++) {
        struct rlock *first = begin_busy(test, 0, cases[i].kind);
        struct rlock *second = begin_busy(test, 1, cases[i].kind);
        struct rlock_channel *channel = rlock_channel_find(test->client, first);

        channel->unreplied = 5;
        channel->expected_messages = channel->early_messages = 5;
        channel->was_overtaken = true;
        channel->is_subscribed = true;
        events->on_subscribed(channel);
        assert_int_equal(channel->unreplied, 0);
        assert_int_equal(channel->expected_messages, 0);
        assert_int_equal(channel->early_messages, 0);
        assert_false(channel->was_overtaken);
        assert_true(tries(first));
        assert_int_equal(tries(second), cases[i].second_tries);

        rlock_batch_leave(second);
        channel->unreplied = 5;
        channel->expected_messages = channel->early_messages = 5;
        channel->was_overtaken = true;
        channel->is_subscribed = false;
        events->on_cut_off(channel);
        assert_int_equal(channel->unreplied, 0);
        assert_int_equal(channel->expected_messages, 0);
        assert_int_equal(channel->early_messages, 0);
        assert_false(channel->was_overtaken);
        assert_int_equal(due_ms(test, first), -1); /* it tries */
        assert_int_equal(due_ms(test, second) > 0, 1);
        end(test, second);
        end(test, first);
    }
}

WAIT_CASE(test_channel__that_is_cut_off_again_begins_with_the_shortest_pause)
{
    struct rlock_result busy = {.status = RLOCK_BUSY, .remaining_ms = -1};
    struct wait_test *test = *state;
    const struct rlock_channel_events *events = test->client->channels.events;
    struct rlock *lock = begin_busy(test, 0, &rlock_plain);
    struct rlock_channel *channel = rlock_channel_find(test->client, lock);

    for (int n = 0; n < 10; n++)
        ASSERT_STATUS(rlock_wait_on(test->client, lock, &busy), RLOCK_OK);
    ASSERT_NUMBER(due_ms(test, lock), >, 51);
    channel->is_subscribed = true;
    events->on_subscribed(channel);
    rlock_batch_leave(lock);
    channel->is_subscribed = false;
    events->on_cut_off(channel);
    ASSERT_NUMBER(due_ms(test, lock), <=, 51);
    end(test, lock);
}

WAIT_CASE(test_message__during_a_try_leads_to_another_one)
{
    struct rlock_result busy = {.status = RLOCK_BUSY, .remaining_ms = -1};
    struct wait_test *test = *state;
    struct rlock *lock = begin_busy(test, 0, &rlock_plain);
    struct rlock_channel *channel = rlock_channel_find(test->client, lock);

    channel->is_subscribed = true;
    timer_of(test, lock)->timer_cb(timer_of(test, lock));
    assert_true(tries(lock));
    test->client->channels.events->on_message(channel, "", 0);
    for (int i = 0; i < 2; i++) {
        rlock_batch_leave(lock);
        ASSERT_STATUS(rlock_wait_on(test->client, lock, &busy), RLOCK_OK);
        assert_int_equal(tries(lock), i == 0);
    }
    end(test, lock);
}

/** The second waiter tries when the first one has got a permit. */
WAIT_CASE(test_message__of_a_semaphore_wakes_the_first_waiter_only)
{
    struct wait_test *test = *state;
    struct rlock *first = begin_busy(test, 0, &rlock_semaphore);
    struct rlock *second = begin_busy(test, 1, &rlock_semaphore);

    test->client->channels.events->on_message(rlock_channel_find(test->client, first), "",
                                              0);
    assert_true(tries(first));
    assert_false(tries(second));
    end(test, second);
    end(test, first);
}

WAIT_CASE(test_message__of_a_queued_kind_wakes_its_owner)
{
    struct wait_test *test = *state;
    const struct rlock_channel_events *events = test->client->channels.events;
    struct rlock_channel *channel;
    char owner[RLOCK_OWNER_MAX];
    size_t owner_len = rlock_keys_owner(test->client, 12, owner);

    for (int at = 0; at < LOCKS; at++)
        begin_busy(test, at, &rlock_read)->serial = 11 + (uint64_t)at;
    channel = rlock_channel_find(test->client, &test->locks[0]);
    for (int is_longer = 0; is_longer <= 1; is_longer++) {
        owner[owner_len] = '1';
        events->on_message(channel, owner, is_longer ? owner_len + 1 : owner_len - 1);
        for (int at = 0; at < LOCKS; at++)
            assert_false(tries(&test->locks[at]));
    }
    events->on_message(channel, owner, owner_len);
    assert_false(tries(&test->locks[0]));
    assert_true(tries(&test->locks[1]));
    assert_false(tries(&test->locks[2]));
    events->on_message(channel, "", 0); /* all readers */
    for (int at = 0; at < LOCKS; at++) {
        assert_true(tries(&test->locks[at]));
        end(test, &test->locks[at]);
    }
    for (int at = 0; at < 2; at++)
        begin_busy(test, at, &rlock_write);
    events->on_message(rlock_channel_find(test->client, &test->locks[0]), "", 0);
    for (int at = 0; at < 2; at++) {
        assert_false(tries(&test->locks[at])); /* writers are woken by name */
        end(test, &test->locks[at]);
    }
}

/** Run the checks, as if two seconds had passed. Returns whether they will run again. */
static bool run_checks(struct wait_test *test)
{
    uv_timer_t *checks = &test->client->waits.checks;

    ASSERT_NUMBER(uv_timer_get_repeat(checks), ==, 2000);
    checks->timer_cb(checks);
    return uv_is_active((uv_handle_t *)checks);
}

static bool is_checked(const struct rlock *lock)
{
    return lock->batch != NULL && !rlock_batch_may_grant(lock);
}

WAIT_CASE(test_check__of_names_whose_release_may_have_been_missed)
{
    static const struct {
        const struct rlock_kind *kind;
        enum rlock_status status;
        /* whether the first of two waiters checks, or tries */
        bool checks, tries;
    } cases[] = {
        {&rlock_plain, RLOCK_BUSY, true, false},
        {&rlock_cohort, RLOCK_BUSY, true, false},
        {&rlock_reentrant, RLOCK_BUSY, true, false},
        {&rlock_plain, RLOCK_DOWN, false, false}, /* it tries again soon */
        {&rlock_semaphore, RLOCK_BUSY, false, true},
        {&rlock_fair, RLOCK_BUSY, false, false}, /* a waiter tries twice a second */
        {&rlock_getset, RLOCK_BUSY, false, false},
    };
    struct wait_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock_result result = {.status = cases[i].status, .remaining_ms = 9000};
        struct rlock *first = begin(test, 0, cases[i].kind, 60000, result);
        struct rlock *second = begin_busy(test, 1, cases[i].kind);
        bool goes_on = run_checks(test);

        assert_int_equal(goes_on, i < 5); /* the last two kinds need no checks */
        if (is_checked(first) != cases[i].checks ||
            rlock_batch_may_grant(first) != cases[i].tries)
            fail_msg("case %zu: expected a check %d, a try %d", i, cases[i].checks,
                     cases[i].tries);
        assert_null(second->batch);
        assert_int_equal(run_checks(test), goes_on); /* nothing is added twice */
        end(test, second);
        end(test, first);
        assert_false(run_checks(test));
    }
}

WAIT_CASE(test_check__leads_to_a_try_if_the_name_is_free)
{
    static const struct {
        enum rlock_status status;
        bool tries;
    } cases[] = {{RLOCK_OK, true}, {RLOCK_BUSY, false}, {RLOCK_IO, true}};
    struct rlock_result busy = {.status = RLOCK_BUSY, .remaining_ms = -1};
    struct wait_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock_result result = {.status = cases[i].status};
        struct rlock *lock = begin_busy(test, 0, &rlock_plain);

        rlock_channel_find(test->client, lock)->is_subscribed = true;
        ASSERT_STATUS(rlock_wait_on(test->client, lock, &busy), RLOCK_OK);
        assert_true(run_checks(test));
        assert_true(is_checked(lock));
        ASSERT_NUMBER(due_ms(test, lock), ==, 60001); /* it sleeps on */
        rlock_batch_leave(lock);
        lock->kind->check.on_result(test->client, lock, &result);
        assert_int_equal(tries(lock), cases[i].tries);
        end(test, lock);
    }
}

WAIT_CASE(test_check__ends_with_a_message_or_with_the_wait)
{
    struct wait_test *test = *state;
    struct rlock *lock = begin_busy(test, 0, &rlock_plain);
    struct rlock_channel *channel = rlock_channel_find(test->client, lock);

    channel->is_subscribed = true;
    assert_true(run_checks(test));
    assert_true(is_checked(lock));
    test->client->channels.events->on_message(channel, "", 0);
    assert_true(rlock_batch_may_grant(lock));
    end(test, lock);

    lock = begin_busy(test, 0, &rlock_plain);
    assert_true(run_checks(test));
    frozen_us += INT64_C(60000) * 1000;
    timer_of(test, lock)->timer_cb(timer_of(test, lock));
    assert_int_equal(test->answers, 1);
    ASSERT_STATUS(test->status, RLOCK_BUSY);
    assert_null(lock->batch);

    lock = begin_busy(test, 0, &rlock_plain);
    assert_true(run_checks(test));
    rlock_batch_flush(test->client);
    lock->client = test->client;
    rlock_cancel(test->client, lock);
    assert_null(lock->batch);
    assert_true(list_is_empty(&test->client->orphans.due));
    for (int i = 0; i < RLOCK_CLASSES; i++)
        assert_true(list_is_empty(&test->client->batches.classes[i]));
    rlock_state_call_back(test->client);
    ASSERT_STATUS(test->status, RLOCK_CANCELLED);
}

WAIT_CASE(test_rlock_waits_close__cancels_each_waiter)
{
    struct wait_test *test = *state;

    test->kind = rlock_plain;
    test->kind.acquire_wait.on_cancel = wait_on_cancelled;
    for (int at = 0; at < LOCKS; at++)
        begin_busy(test, at, &test->kind);
    end(test, &test->locks[1]);
    rlock_client_close(test->client, NULL, NULL);
    test->client = NULL;
    assert_int_equal(cancelled, 2);
}

WAIT_CASE(test_rlock_wait_on__without_memory_fails)
{
    struct rlock_result busy = {.status = RLOCK_BUSY, .remaining_ms = -1};
    struct wait_test *test = *state;
    struct rlock *lock = begin_busy(test, 0, &rlock_plain);

    end(test, lock);
    for (unsigned n = 1; n <= 2; n++) {
        struct rlock other = *lock;

        other.name[0] = (char)n; /* of another channel */
        torture_fail(1, 0);
        ASSERT_STATUS(rlock_wait_on(test->client, &other, &busy), RLOCK_NO_MEMORY);
        assert_true(torture_stop());
        assert_null(other.waiter);
        assert_int_equal(test->client->stats.waiters, 0);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
