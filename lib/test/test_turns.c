/*
 * test_turns.c - the turns that a client takes with other clients at a name. Only the test moves
 * the clock.
 */
#include "base/clock.h"
#include "lock/batch.h"
#include "lock/channel.h"
#include "lock/keys.h"
#include "lock/state.h"
#include "lock/wait.h"
#include "test/cases.h"
#include "test/frozen_clock.h"

#include <stdlib.h>

#define NAME      "item:7"
#define TURNS_MAX 16

/** A client without a server, the lock that it releases, and another lock that waits. */
struct turns_test {
    uv_loop_t loop;
    struct rlock_client *client;
    struct rlock lock, waiting;
    struct rlock_channel *channel; /* of `waiting` */
    unsigned answers;
};

static int set_up(void **state)
{
    struct turns_test *test = calloc(1, sizeof(*test));
    struct rlock_client_options options = {
        .loop = &test->loop, .redis_url = "unix:/tmp/rlock-nobody", .timeout_ms = 1000};

    frozen_us = 5000000;
    assert_int_equal(uv_loop_init(&test->loop), 0);
    ASSERT_STATUS(rlock_client_open(&options, &test->client, NULL), RLOCK_OK);
    test->lock.kind = &rlock_plain;
    test->lock.wait_ms = 1;
    assert_null(rlock_keys_set_name(test->client, &test->lock, NAME, strlen(NAME)));
    *state = test;
    return 0;
}

static int tear_down(void **state)
{
    struct turns_test *test = *state;

    rlock_client_close(test->client, NULL, NULL);
    while (uv_run(&test->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&test->loop), 0);
    free(test);
    return 0;
}

static void count_answer(struct rlock *lock, enum rlock_status status, void *arg)
{
    (void)lock;
    (void)status;
    ((struct turns_test *)arg)->answers++;
}

/** Let `waiting` begin to wait. Its channel then counts as subscribed. */
static void let_wait(struct turns_test *test, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = {
        .kind = kind, .lease_ms = 1000, .wait_ms = 60000};

    rlock_acquire(test->client, &test->waiting, NAME, strlen(NAME), &options,
                  count_answer, test);
    while (test->waiting.waiter == NULL || test->waiting.batch != NULL)
        uv_run(&test->loop, UV_RUN_NOWAIT);
    test->channel = rlock_channel_find(test->client, &test->waiting);
    assert_non_null(test->channel);
    test->channel->is_subscribed = true;
}

/** Begin to release a lock that may be passed on. Returns the waiter that inherits it. */
static struct rlock *pass_on(struct turns_test *test, struct rlock *lock)
{
    bool is_silent;

    return rlock_wait_releasing(test->client, lock, true, &is_silent);
}

/** Begin to release the lock, which was granted `held_us` ago. Returns whether the release is
 *  silent. */
static bool start_release(struct turns_test *test, int64_t held_us)
{
    bool is_silent = true;

    test->lock.began_us = frozen_us - held_us;
    assert_null(rlock_wait_releasing(test->client, &test->lock, false, &is_silent));
    return is_silent;
}

/** Release the lock. `receivers` is the number of clients that get the message; 0 means that no
 *  other client waits. */
static void release(struct turns_test *test, unsigned receivers)
{
    (void)start_release(test, 0);
    rlock_wait_released(test->client, &test->lock, receivers);
}

static bool must_yield(const struct turns_test *test)
{
    return rlock_wait_must_yield(test->client, &test->lock);
}

static struct rlock_turns *turns_of(const struct turns_test *test)
{
    return &test->client->waits.turns[rlock_keys_hash(NAME, strlen(NAME)) % RLOCK_TURNS];
}

/** Release the lock until the client yields, and assert that this takes TURNS_MAX + 1 releases. */
static void release_until_yield(struct turns_test *test)
{
    for (unsigned i = 0; i < TURNS_MAX; i++)
        release(test, 1);
    if (must_yield(test))
        fail_msg("it yields after %d releases", TURNS_MAX);
    release(test, 1);
    if (!must_yield(test))
        fail_msg("it does not yield after %d releases", TURNS_MAX + 1);
}

/** Let the yield pass, and assert that it lasts `yield_us`. */
static void pass_yield(struct turns_test *test, int64_t yield_us)
{
    frozen_us += yield_us - 1;
    if (!must_yield(test))
        fail_msg("a yield is over before %lld us", (long long)yield_us);
    frozen_us++;
    if (must_yield(test))
        fail_msg("a yield is not over after %lld us", (long long)yield_us);
}

#define TURNS_CASE(name) DEFINE_CASE(name, name, set_up, tear_down, NULL)

TURNS_CASE(test_release__without_another_client_never_yields)
{
    struct turns_test *test = *state;

    for (unsigned i = 0; i < 4 * TURNS_MAX; i++)
        release(test, 0);
    assert_false(must_yield(test));
    assert_int_equal(turns_of(test)->count, 0); /* not even counted */
}

TURNS_CASE(test_release__yields_after_16_turns)
{
    static const struct {
        const char *name;
        const struct rlock_kind *kind;
        uint32_t wait_ms;
        uint16_t spin_max_ms;
        bool yields;
    } cases[] = {
        {NAME, &rlock_plain, 1, 0, true},      {NAME, &rlock_reentrant, 1, 0, true},
        {NAME, &rlock_plain, 0, 0, false},     {NAME, &rlock_plain, 1, 1, false},
        {NAME, &rlock_fair, 1, 0, false},      {NAME, &rlock_getset, 1, 0, false},
        {"item:8", &rlock_plain, 1, 0, false},
    };
    struct turns_test *test = *state;

    release(test, 1); /* this release shows that there is another client */
    release_until_yield(test);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock lock = {.kind = cases[i].kind,
                             .wait_ms = cases[i].wait_ms,
                             .spin_max_ms = cases[i].spin_max_ms};

        (void)rlock_keys_set_name(test->client, &lock, cases[i].name,
                                  strlen(cases[i].name));
        if (rlock_wait_must_yield(test->client, &lock) != cases[i].yields)
            fail_msg("case %zu: expected yield %d", i, cases[i].yields);
    }
    release(test, 0); /* the other client has gone */
    for (unsigned i = 0; i < 2 * TURNS_MAX; i++)
        release(test, 0);
    assert_false(must_yield(test));
}

TURNS_CASE(test_release__of_a_client_that_is_closing_counts_no_turns)
{
    struct turns_test *test = *state;

    release(test, 1);
    test->client->is_closing = true;
    release(test, 1);
    test->client->is_closing = false;
    assert_int_equal(turns_of(test)->count, 0);
    assert_null(pass_on(test, &test->lock)); /* to nobody */
    assert_int_equal(turns_of(test)->count, 1);
}

TURNS_CASE(test_release__yields_after_10_ms_of_turns)
{
    struct turns_test *test = *state;

    release(test, 1);
    release(test, 1);
    frozen_us += 9999;
    release(test, 1);
    assert_false(must_yield(test));
    frozen_us += 1;
    release(test, 1);
    assert_true(must_yield(test));
    pass_yield(test, 2000);
}

TURNS_CASE(test_release__yields_twice_as_long_while_nobody_takes_it)
{
    static const int64_t wanted_us[] = {2000,  4000,  8000,  16000,
                                        32000, 64000, 64000, 64000};
    struct turns_test *test = *state;

    release(test, 1);
    for (size_t i = 0; i < sizeof(wanted_us) / sizeof(*wanted_us); i++) {
        release_until_yield(test);
        pass_yield(test, wanted_us[i]);
    }
    turns_of(test)->was_taken = true;
    release_until_yield(test);
    pass_yield(test, 64000);
    release(test, 0);
    release(test, 1);
    frozen_us += 1000000;
    release(test, 1);
    pass_yield(test, 2000); /* from the beginning */
}

TURNS_CASE(test_release__of_a_lock_that_was_taken_keeps_the_yield_short)
{
    struct turns_test *test = *state;

    release(test, 1);
    for (int i = 0; i < 3; i++) {
        release_until_yield(test);
        pass_yield(test, 2000);
        turns_of(test)->was_taken = true;
    }
    release_until_yield(test);
    pass_yield(test, 2000);
    release_until_yield(test); /* nobody has taken the lock during the last yield */
    pass_yield(test, 4000);
}

TURNS_CASE(test_release__of_a_cohort_yields_each_time)
{
    struct turns_test *test = *state;

    test->lock.kind = &rlock_cohort;
    release(test, 1);
    assert_false(must_yield(test));
    release(test, 1);
    assert_true(must_yield(test));
}

TURNS_CASE(test_acquire__queues_behind_a_waiter)
{
    static const struct {
        const struct rlock_kind *kind;
        bool queues;
    } cases[] = {
        {&rlock_plain, true},
        {&rlock_cohort, true},
        {&rlock_semaphore, false},
    };
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    for (int i = 0; i < 2; i++) {
        test->client->waits.has_turns = i == 1;
        for (size_t j = 0; j < sizeof(cases) / sizeof(*cases); j++) {
            test->lock.kind = cases[j].kind;
            if (must_yield(test) != cases[j].queues)
                fail_msg("case %zu: expected %d", j, cases[j].queues);
        }
    }
}

TURNS_CASE(test_release__is_silent_until_the_turn_ends)
{
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    turns_of(test)->name_hash = rlock_keys_hash(NAME, strlen(NAME));
    for (int turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i <= TURNS_MAX; i++) {
            if (start_release(test, 0) != (i < TURNS_MAX))
                fail_msg("release %u of turn %d", i, turn);
            assert_non_null(test->waiting.batch); /* it tries */
            rlock_batch_leave(&test->waiting);
            rlock_wait_released(test->client, &test->lock, i == TURNS_MAX);
        }
    }
    assert_true(start_release(test, 9999));
    rlock_batch_leave(&test->waiting);
    turns_of(test)->count = 0;
    assert_false(start_release(test, 10000)); /* its turn has taken 10 ms */
}

/** Names with the same hash share the turns. Without the message at each change of the name, one of
 *  them might never end a turn. */
TURNS_CASE(test_release__of_another_name_with_the_same_hash_is_not_silent)
{
    static const char *const names[] = {NAME, "item:21", NAME, NAME};
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *name = names[i];

        assert_null(rlock_keys_set_name(test->client, &test->lock, name, strlen(name)));
        assert_int_equal(start_release(test, 0), i == 3);
        assert_int_equal(turns_of(test)->count, i + 1);
        rlock_batch_leave(&test->waiting);
    }
}

TURNS_CASE(test_release__sends_a_message_unless_a_try_follows)
{
    static const struct rlock_kind *const others[] = {&rlock_reentrant, &rlock_cohort};
    struct turns_test *test = *state;

    turns_of(test)->name_hash = rlock_keys_hash(NAME, strlen(NAME));
    assert_false(start_release(test, 0)); /* nobody waits */
    let_wait(test, &rlock_plain);
    assert_true(start_release(test, 0));
    assert_int_equal(test->channel->unreplied, 0); /* no message is expected */
    assert_false(start_release(test, 0)); /* the waiter has begun to try before */
    rlock_batch_leave(&test->waiting);
    turns_of(test)->yield_until_us = frozen_us + 1;
    assert_false(start_release(test, 0)); /* the waiter yields */
    turns_of(test)->yield_until_us = 0;
    for (int i = 0; i < 2; i++) {
        test->lock.kind = others[i];
        assert_false(start_release(test, 0));
        rlock_batch_leave(&test->waiting);
    }
}

TURNS_CASE(test_release__of_a_queued_kind_counts_no_turns)
{
    static const struct rlock_kind *const kinds[] = {&rlock_fair, &rlock_getset};
    struct turns_test *test = *state;

    release(test, 1);
    for (size_t i = 0; i < 2; i++) {
        test->lock.kind = kinds[i];
        release(test, 2);
        assert_int_equal(turns_of(test)->count, 0);
    }
}

TURNS_CASE(test_release__wakes_the_first_waiter_of_this_client)
{
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    (void)start_release(test, 0);
    assert_non_null(test->waiting.batch); /* it tries */
    assert_true(test->lock.is_counted);
    assert_int_equal(test->channel->unreplied, 1);
    rlock_wait_released(test->client, &test->lock, 1); /* this client heard it */
    assert_false(test->lock.is_counted);
    assert_int_equal(test->channel->unreplied, 0);
    assert_int_equal(test->channel->expected_messages, 1);
    assert_false(turns_of(test)->is_contended);
    assert_false(test->client->waits.has_turns);
    (void)start_release(test, 0);
    rlock_wait_released(test->client, &test->lock, 2); /* another one, too */
    assert_int_equal(test->channel->expected_messages, 2);
    assert_true(turns_of(test)->is_contended);
    (void)start_release(test, 0);
    rlock_wait_released(test->client, &test->lock, 0); /* it failed */
    assert_int_equal(test->channel->expected_messages, 2);
    assert_int_equal(test->channel->unreplied, 0);
    assert_true(turns_of(test)->is_contended); /* as before */
    (void)start_release(test, 0);
    rlock_wait_released(test->client, &test->lock, 1); /* only this client heard it */
    assert_false(turns_of(test)->is_contended);
}

static void hear(struct turns_test *test)
{
    test->client->channels.events->on_message(test->channel, "", 0);
}

TURNS_CASE(test_message__of_an_own_release_wakes_nobody)
{
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    test->channel->expected_messages = 1;
    turns_of(test)->yield_until_us = frozen_us + 1;
    hear(test);
    assert_null(test->waiting.batch);
    assert_int_equal(test->channel->expected_messages, 0);
    assert_false(turns_of(test)->was_taken);
    hear(test); /* of another client */
    assert_non_null(test->waiting.batch);
    assert_true(turns_of(test)->was_taken);
    assert_int_equal(turns_of(test)->yield_until_us, frozen_us);
}

/** After its turn, this client yields to three other clients. Each message says that one of them
 *  has released the lock, and shortens the yield. The third message ends it. */
TURNS_CASE(test_message__of_another_client_brings_the_next_turn_nearer)
{
    static const int64_t wanted_us[] = {4000, 2000, 0, 0};
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    turns_of(test)->is_contended = true;
    (void)start_release(test, 0);
    rlock_batch_leave(&test->waiting);
    rlock_wait_released(test->client, &test->lock, 3); /* not the end of a turn */
    test->channel->expected_messages = 0;
    hear(test);
    assert_int_equal(turns_of(test)->yield_until_us, frozen_us);
    rlock_batch_leave(&test->waiting);

    turns_of(test)->count = TURNS_MAX;
    assert_false(start_release(test, 0));
    rlock_wait_released(test->client, &test->lock, 4);
    test->channel->expected_messages = 0;
    for (size_t i = 0; i < sizeof(wanted_us) / sizeof(*wanted_us); i++) {
        hear(test);
        assert_int_equal(turns_of(test)->yield_until_us, frozen_us + wanted_us[i]);
        assert_int_equal(test->waiting.batch != NULL, wanted_us[i] == 0);
        rlock_batch_leave(&test->waiting);
    }
}

TURNS_CASE(test_message__before_the_reply_to_its_release)
{
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    test->lock.is_counted = true;
    test->channel->unreplied = 1;
    hear(test);
    assert_int_equal(test->channel->early_messages, 1);
    assert_null(test->waiting.batch);
    rlock_wait_released(test->client, &test->lock, 1);
    assert_int_equal(test->channel->early_messages, 0);
    assert_int_equal(test->channel->expected_messages, 0);
    assert_null(test->waiting.batch);

    test->channel->unreplied = 1;
    rlock_wait_released(test->client, &test->lock, 1); /* it is not counted */
    assert_int_equal(test->channel->unreplied, 1);

    /* The messages of two releases come. The second message comes after both replies. */
    test->channel->unreplied = 2;
    hear(test);
    for (int i = 0; i < 2; i++) {
        test->lock.is_counted = true;
        rlock_wait_released(test->client, &test->lock, 1);
    }
    assert_int_equal(test->channel->early_messages, 0);
    assert_int_equal(test->channel->expected_messages, 1);
    hear(test);
    assert_int_equal(test->channel->expected_messages, 0);
    assert_null(test->waiting.batch);

    test->channel->unreplied = 2;
    hear(test); /* only the reply to the second release shows whose message this is */
    for (unsigned receivers = 0; receivers < 2; receivers++) {
        test->lock.is_counted = true;
        rlock_wait_released(test->client, &test->lock, receivers);
        assert_null(test->waiting.batch);
    }

    test->lock.is_counted = true;
    test->channel->unreplied = 1;
    hear(test);
    /* the message was from another client */
    rlock_wait_released(test->client, &test->lock, 0);
    assert_int_equal(test->channel->early_messages, 0);
    assert_non_null(test->waiting.batch);
}

/** The reply to the release comes after the channel was subscribed again. */
TURNS_CASE(test_message__after_a_new_subscription_wakes_the_waiter)
{
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    (void)start_release(test, 0);
    rlock_batch_leave(&test->waiting);
    test->client->channels.events->on_subscribed(test->channel);
    rlock_batch_leave(&test->waiting);
    rlock_wait_released(test->client, &test->lock, 1);
    hear(test); /* of another client */
    assert_non_null(test->waiting.batch);
}

/* The release was sent again, because the server did not know its script. So the try came before
   it, and found the lock busy. */
TURNS_CASE(test_release__after_the_try_that_it_has_woken_wakes_again)
{
    static const struct rlock_result busy = {.status = RLOCK_BUSY, .remaining_ms = 500};
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    for (int i = 0; i < 2; i++) {
        bool is_overtaken = i == 0;

        (void)start_release(test, 0);
        assert_non_null(test->waiting.batch); /* it tries */
        if (!is_overtaken)
            rlock_wait_released(test->client, &test->lock, 1);
        rlock_batch_leave(&test->waiting);
        ASSERT_STATUS(rlock_wait_on(test->client, &test->waiting, &busy), RLOCK_OK);
        assert_null(test->waiting.batch); /* it sleeps */
        if (is_overtaken)
            rlock_wait_released(test->client, &test->lock, 1);
        assert_int_equal(test->waiting.batch != NULL, is_overtaken);
        assert_false(test->channel->was_overtaken);
        rlock_batch_leave(&test->waiting);
    }
}

TURNS_CASE(test_message__while_the_first_yields_ends_the_yield)
{
    struct turns_test *test = *state;

    let_wait(test, &rlock_plain);
    turns_of(test)->yield_until_us = frozen_us + 1000;
    (void)start_release(test, 0);
    assert_null(test->waiting.batch); /* it waits for its turn */
    rlock_wait_released(test->client, &test->lock, 2);
    test->channel->expected_messages = 0;
    hear(test);
    assert_non_null(test->waiting.batch);
}

TURNS_CASE(test_release__passes_a_lock_on_to_its_like_only)
{
    struct turns_test *test = *state;
    struct rlock *waiting = &test->waiting;

    let_wait(test, &rlock_cohort);
    test->lock.kind = &rlock_cohort;
    test->lock.lease_ms = 1000;
    waiting->in_doubt = false; /* its tries found no connection */
    for (int i = 0; i < 4; i++) {
        struct rlock other = test->lock;

        other.kind = i == 0 ? &rlock_plain : other.kind;
        other.lease_ms += i == 1;
        other.replicas = i == 2;
        waiting->in_doubt = i == 3;
        if (pass_on(test, &other) != NULL)
            fail_msg("case %d: a lock is passed on", i);
        rlock_batch_leave(waiting);
    }
    waiting->in_doubt = false;
    (void)start_release(test, 0);
    assert_null(pass_on(test, &test->lock)); /* it tries */
    rlock_batch_leave(waiting);
    assert_int_equal(test->client->stats.waiters, 1);
    assert_ptr_equal(pass_on(test, &test->lock), waiting);
    assert_null(waiting->waiter);
    assert_int_equal(test->client->stats.waiters, 0);
    rlock_state_answer(test->client, waiting, RLOCK_CANCELLED);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
