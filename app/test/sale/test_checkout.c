/*
 * test_checkout.c - the checkout with a scripted store, scripted locks and simulated time.
 *
 * The fakes keep each call until the test answers it. Everything else is real.
 */
#include "app/sale/checkout.h"

#include "app/test/sale/simulated_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define CALLS_MAX      80
#define TIMEOUT_MS     20000
#define TICK_MS        20
#define QUEUE_MAX      72
#define CLOCK_ERROR_US 1000

/* -- the fakes -- */

static struct {
    unsigned room, slow_room;
    int64_t created_us; /* of the orders in the answers */
    int64_t commit_us;
    size_t count;
    struct call {
        int64_t voucher_id;
        struct placement *const *placements;
        size_t count;
        store_batch_cb callback;
        void *arg;
        bool is_lookup, is_slow;
        bool is_behind; /* in the transaction of the call before it */
        void (*released)(void *arg);
    } calls[CALLS_MAX];
} fake_store;

static struct {
    size_t count; /* requested and not yet answered */
    struct rlock *requested[CALLS_MAX];
    uint32_t wait_ms; /* of the last request */
    int64_t fence;
    size_t held;
    size_t released;
    bool is_slow; /* keep releases until answer_releases() */
    size_t releasing_count;
    struct rlock *releasing[CALLS_MAX];
    int64_t raised_above; /* 0: not yet */
} fake_locks;

enum { LOCK_FREE, LOCK_REQUESTED, LOCK_HELD };

unsigned store_batch_room(const struct store *store UNUSED, bool is_slow)
{
    return is_slow ? fake_store.slow_room : fake_store.room;
}

static void keep_call(const struct store_batch *batch, store_batch_cb callback,
                      bool is_lookup, bool is_behind)
{
    assert_true(fake_store.count < CALLS_MAX);
    fake_store.calls[fake_store.count++] = (struct call){
        batch->voucher_id, batch->placements, batch->count, callback,       batch->arg,
        is_lookup,         batch->is_slow,    is_behind,    batch->released};
}

int64_t store_commit_us(const struct store *store UNUSED)
{
    return fake_store.commit_us;
}

void store_place_orders(struct store *store UNUSED, struct list *batches,
                        store_batch_cb callback)
{
    struct store_batch *batch = LIST_SHIFT(struct store_batch, batches, link);
    unsigned *room = batch->is_slow ? &fake_store.slow_room : &fake_store.room;

    assert_true(*room > 0);
    (*room)--;
    keep_call(batch, callback, false, false);
    LIST_DRAIN(struct store_batch, behind, batches, link)
        keep_call(behind, callback, false, true);
}

void store_resolve_orders(struct store *store UNUSED, struct store_batch *batch,
                          store_batch_cb callback)
{
    keep_call(batch, callback, true, false);
}

void catalogue_update(struct catalogue *catalogue UNUSED,
                      const struct voucher_snapshot *snapshot UNUSED)
{
}

int64_t catalogue_now_us(const struct catalogue *catalogue UNUSED, int64_t *ret_error_us)
{
    *ret_error_us = CLOCK_ERROR_US;
    return clock_real_us();
}

// NOLINTNEXTLINE(readability-function-size): as in rlock.h
void rlock_acquire(struct rlock_client *client UNUSED, struct rlock *lock,
                   const char *name, size_t name_len,
                   const struct rlock_acquire_options *options, rlock_cb callback,
                   void *arg)
{
    assert_memory_equal(name, "lock:order:", strlen("lock:order:"));
    assert_true(name_len > strlen("lock:order:"));
    assert_int_equal(lock->state, LOCK_FREE);
    lock->state = LOCK_REQUESTED;
    lock->callback = callback;
    lock->arg = arg;
    lock->on_lost = options->on_lost;
    fake_locks.wait_ms = options->wait_ms;
    assert_true(fake_locks.count < CALLS_MAX);
    fake_locks.requested[fake_locks.count++] = lock;
}

static void answer_release(struct rlock *lock)
{
    lock->state = LOCK_FREE;
    fake_locks.held--;
    fake_locks.released++;
    lock->callback(lock, STATUS_OK, lock->arg);
}

void rlock_release(struct rlock_client *client UNUSED, struct rlock *lock,
                   rlock_cb callback, void *arg)
{
    assert_int_equal(lock->state, LOCK_HELD);
    lock->callback = callback;
    lock->arg = arg;
    if (fake_locks.is_slow)
        fake_locks.releasing[fake_locks.releasing_count++] = lock;
    else
        answer_release(lock);
}

void rlock_raise_fences(struct rlock_client *client UNUSED, int64_t above)
{
    fake_locks.raised_above = above;
}

static void answer_releases(void)
{
    while (fake_locks.releasing_count > 0)
        answer_release(fake_locks.releasing[--fake_locks.releasing_count]);
}

bool rlock_is_held(const struct rlock *lock)
{
    return lock->state == LOCK_HELD;
}

int64_t rlock_fence(const struct rlock *lock)
{
    return lock->fence;
}

int64_t rlock_safe_for_us(const struct rlock *lock, int64_t now_us)
{
    return lock->safe_until_us - now_us;
}

bool rlock_client_is_up(const struct rlock_client *client UNUSED)
{
    return true;
}

void rlock_flush(struct rlock_client *client UNUSED)
{
}

/* -- the fixture -- */

static struct fixture {
    uv_loop_t loop;
    struct checkout *checkout;
    struct metrics metrics;
    struct shopper {
        int answers;
        enum outcome outcome;
        int64_t order_id;
        int64_t submitted_us, answered_us;
    } shoppers[CALLS_MAX];
} fixture;

static void on_answer(enum outcome outcome, const struct order *order, void *arg)
{
    struct shopper *shopper = arg;

    shopper->answers++;
    shopper->outcome = outcome;
    shopper->order_id = order != NULL ? order->id : 0;
    shopper->answered_us = clock_mono_us();
}

static int open_with(void **state, bool bypass, size_t batch_max, bool early_release)
{
    struct checkout_options options = {.loop = &fixture.loop,
                                       .metrics = &fixture.metrics,
                                       .lease_ms = 30000,
                                       .lock_wait_ms = UINT32_MAX,
                                       .timeout_ms = TIMEOUT_MS,
                                       .batch_max = batch_max,
                                       .vouchers_max = 3,
                                       .queue_max = QUEUE_MAX,
                                       .bypass_locks = bypass,
                                       .early_release = early_release};

    memset(&fixture, 0, sizeof(fixture));
    memset(&fake_store, 0, sizeof(fake_store));
    memset(&fake_locks, 0, sizeof(fake_locks));
    fake_store.room = 1;
    fake_store.slow_room = 1;
    fake_locks.fence = 100;
    simulated_time_reset();
    uv_loop_init(&fixture.loop);
    fixture.checkout = checkout_create(&options);
    *state = &fixture;
    return fixture.checkout != NULL ? 0 : -1;
}

static int open_checkout(void **state)
{
    return open_with(state, false, 8, false);
}

static int open_bypassing_checkout(void **state)
{
    return open_with(state, true, 8, false);
}

static int open_checkout_of_large_batches(void **state)
{
    return open_with(state, false, QUEUE_MAX, false);
}

/* A batch of this size needs more memory than there is. */
static int open_checkout_of_impossible_batches(void **state)
{
    return open_with(state, false, (size_t)1 << 57, false);
}

/* With two lanes. */
static int open_releasing_checkout(void **state)
{
    int status = open_with(state, false, 8, true);

    fake_store.commit_us = 3000;
    fake_store.room = 2;
    return status;
}

/* Every test ends with nothing in flight and no lock held: checked here for all. */
static int close_checkout(void **state)
{
    struct fixture *f = *state;

    if (checkout_in_flight(f->checkout) != 0 || fake_locks.held != 0) {
        print_error("%zu in flight, %zu locks held, expected none\n",
                    checkout_in_flight(f->checkout), fake_locks.held);
        return -1;
    }
    checkout_close(f->checkout);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&f->loop);
}

static void turn(void)
{
    checkout_turn(fixture.checkout);
}

static void pass_us(int64_t us)
{
    simulated_time_pass_us(us, turn);
}

static void pass_ms(int64_t ms)
{
    pass_us(ms * 1000);
}

/* Shopper `user`, also the index of the answer, orders voucher `voucher_id`. */
static bool submit_with_key(int user, int64_t voucher_id, struct text key)
{
    struct checkout_request request = {.voucher_id = voucher_id,
                                       .user_id = user,
                                       .key = key,
                                       .arrived_us = clock_mono_us()};

    fixture.shoppers[user].submitted_us = clock_mono_us();
    return checkout_submit(fixture.checkout, &request, on_answer,
                           &fixture.shoppers[user]);
}

static bool submit(int user, int64_t voucher_id)
{
    return submit_with_key(user, voucher_id, (struct text){0});
}

static void answer_locks(enum status status)
{
    size_t count = fake_locks.count;
    struct rlock *requested[CALLS_MAX];

    memcpy(requested, fake_locks.requested, sizeof(requested));
    fake_locks.count = 0;
    for (size_t i = 0; i < count; i++) {
        struct rlock *lock = requested[i];

        lock->state = status == STATUS_OK ? LOCK_HELD : LOCK_FREE;
        fake_locks.held += status == STATUS_OK;
        lock->fence = ++fake_locks.fence;
        lock->safe_until_us = clock_mono_us() + 30000000;
        lock->callback(lock, status, lock->arg);
    }
    turn();
}

static void submit_locked(int user, int64_t voucher_id)
{
    assert_true(submit(user, voucher_id));
    answer_locks(STATUS_OK);
}

/* Orders of these shoppers that are queued together, so that they form one batch. */
static void submit_batch(int first_user, int last_user)
{
    fake_store.room = 0;
    for (int user = first_user; user <= last_user; user++)
        submit_locked(user, 7);
    fake_store.room = 1;
    turn();
}

/* Answers the oldest call. */
static void answer_store(enum status status, enum verdict verdict)
{
    const struct err why = {.status = status, .text = "scripted"};
    struct call call = fake_store.calls[0];

    assert_true(fake_store.count > 0);
    fake_store.count--;
    memmove(fake_store.calls, fake_store.calls + 1, fake_store.count * sizeof(call));
    if (!call.is_lookup && (fake_store.count == 0 || !fake_store.calls[0].is_behind))
        (*(call.is_slow ? &fake_store.slow_room : &fake_store.room))++;
    for (size_t i = 0; i < call.count && status == STATUS_OK; i++) {
        call.placements[i]->verdict = verdict;
        call.placements[i]->order.id = 1000 + call.placements[i]->user_id;
        call.placements[i]->order.created_us = fake_store.created_us;
    }
    call.callback(status, NULL, &why, call.arg);
    turn();
}

static void assert_answered(int user, enum outcome outcome)
{
    const struct shopper *shopper = &fixture.shoppers[user];

    if (shopper->answers != 1 || shopper->outcome != outcome)
        fail_msg("shopper %d: %d answers, the last %s; expected one %s", user,
                 shopper->answers, metrics_outcome_names[shopper->outcome],
                 metrics_outcome_names[outcome]);
}

static void assert_unanswered(int user)
{
    assert_int_equal(fixture.shoppers[user].answers, 0);
}

/* -- batches -- */

/* The orders of shoppers 1 and 2 are one batch. */
static struct call *submit_pair(void)
{
    assert_true(submit(1, 7) && submit(2, 7));
    answer_locks(STATUS_OK);
    assert_int_equal(fake_store.calls[0].count, 2);
    return &fake_store.calls[0];
}

static void
test_checkout_turn__sends_the_next_batch_when_the_row_is_free(void **state UNUSED)
{
    const struct call *pair = submit_pair();

    submit_locked(3, 7);
    assert_int_equal(fake_store.count, 1);
    pair->released(pair->arg);
    turn();
    pass_us(1999);
    assert_int_equal(fake_store.count,
                     1); /* more may come while the first is not durable */
    pass_us(1);
    assert_int_equal(fake_store.count, 2);
    assert_unanswered(1);
    assert_int_equal(fake_locks.held, 3);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_answered(2, OUTCOME_PLACED);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(3, OUTCOME_PLACED);
}

static void test_checkout_turn__looks_up_what_was_released_and_lost(void **state UNUSED)
{
    const struct call *pair = submit_pair();

    pair->released(pair->arg);
    answer_store(STATUS_IO, 0);
    submit_locked(3, 7);
    pass_ms(TICK_MS);
    assert_int_equal(fake_store.count, 2);
    assert_int_equal(fake_store.calls[0].is_lookup + fake_store.calls[1].is_lookup, 1);
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_OK, VERDICT_PLACED);
    for (int user = 1; user <= 3; user++)
        assert_answered(user, OUTCOME_PLACED);
}

static bool is_early(void)
{
    bool is_early = submit_pair()->released != NULL;

    answer_store(STATUS_OK, VERDICT_PLACED);
    memset(fixture.shoppers, 0, sizeof(fixture.shoppers));
    return is_early;
}

static void
test_checkout_turn__releases_early_where_commits_take_3_ms(void **state UNUSED)
{
    assert_true(is_early());
    fake_store.commit_us = 2999;
    assert_false(is_early());
    fake_store.commit_us = 0; /* not known: this batch tells */
    assert_true(is_early());
    submit_locked(1, 7); /* nobody waits for it */
    assert_null(fake_store.calls[0].released);
    answer_store(STATUS_OK, VERDICT_PLACED);
}

static void test_checkout_turn__releases_early_only_if_it_may(void **state UNUSED)
{
    fake_store.commit_us = 1000000;
    assert_false(is_early());
}

static void test_checkout_turn__batches_grow_while_one_commits(void **state UNUSED)
{
    submit_locked(1, 7);
    assert_int_equal(fake_store.calls[0].count, 1);
    for (int user = 2; user <= 6; user++)
        submit_locked(user, 7);
    assert_int_equal(fake_store.count, 1);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_int_equal(fixture.shoppers[1].order_id, 1001);
    assert_int_equal(fake_store.calls[0].count, 5);
    for (size_t i = 0; i < 5; i++) /* in order of arrival */
        assert_int_equal(fake_store.calls[0].placements[i]->user_id, 2 + i);
    answer_store(STATUS_OK, VERDICT_SOLD_OUT);
    assert_answered(6, OUTCOME_SOLD_OUT);
    assert_int_equal(fake_locks.released, 6);
}

static void test_checkout_turn__serves_vouchers_in_turns(void **state UNUSED)
{
    for (int user = 1; user <= 20; user++)
        submit_locked(user, 7);
    submit_locked(21, 8);
    answer_store(STATUS_OK, VERDICT_PLACED); /* the first of 7 */
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(21, OUTCOME_PLACED);
    assert_int_equal(fake_store.calls[0].voucher_id, 7);
    assert_int_equal(fake_store.calls[0].count, 8); /* batch_max */
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(20, OUTCOME_PLACED);
}

static void test_checkout_turn__delays_after_a_large_batch(void **state UNUSED)
{
    submit_batch(1, 16);
    submit_locked(21, 7);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_int_equal(fake_store.count, 0);
    for (int user = 22; user <= 36; user++) {
        submit_locked(user, 7);
        assert_int_equal(fake_store.count, 0);
    }
    submit_locked(37, 7); /* 16 have come again, beside the one that was queued */
    assert_int_equal(fake_store.calls[0].count, 17);
    answer_store(STATUS_OK, VERDICT_PLACED);
}

static void test_checkout_turn__does_not_delay_after_a_small_batch(void **state UNUSED)
{
    submit_batch(1, 15);
    submit_locked(21, 7);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_int_equal(fake_store.count, 1);
    answer_store(STATUS_OK, VERDICT_PLACED);
}

static void test_checkout_turn__ends_the_delay_after_2_ms(void **state UNUSED)
{
    submit_batch(1, 20);
    answer_store(STATUS_OK, VERDICT_PLACED);
    submit_locked(21, 7);
    pass_us(1999);
    assert_int_equal(fake_store.count, 0);
    pass_us(1);
    assert_int_equal(fake_store.calls[0].count, 1);
    answer_store(STATUS_OK, VERDICT_PLACED);
}

static void on_input(uv_async_t *input UNUSED)
{
}

static void test_checkout_turn__delays_2_ms_while_input_waits(void **state UNUSED)
{
    uv_async_t input;

    uv_async_init(&fixture.loop, &input, on_input);
    uv_run(&fixture.loop, UV_RUN_NOWAIT); /* watches the descriptor from now on */
    uv_async_send(&input);
    submit_locked(1, 7);
    assert_int_equal(fake_store.count, 0);
    pass_us(1999);
    assert_int_equal(fake_store.count, 0);
    pass_us(1);
    assert_int_equal(fake_store.count, 1);
    answer_store(STATUS_OK, VERDICT_PLACED);
    uv_close((uv_handle_t *)&input, NULL);
    uv_run(&fixture.loop, UV_RUN_DEFAULT);
}

static void test_checkout_turn__keeps_orders_without_memory(void **state UNUSED)
{
    submit_locked(1, 7);
    assert_int_equal(fake_store.count, 0);
    assert_unanswered(1);
    pass_ms(TIMEOUT_MS);
    assert_answered(1, OUTCOME_UNAVAILABLE);
}

static void test_checkout__outcome_of_each_verdict(void **state UNUSED)
{
    static const struct {
        enum verdict verdict;
        enum outcome outcome;
    } rows[] = {
        {VERDICT_NONE, OUTCOME_UNKNOWN}, /* the store did not understand the answer */
        {VERDICT_PLACED, OUTCOME_PLACED},
        {VERDICT_REPEATED, OUTCOME_REPEATED},
        {VERDICT_ALREADY_ORDERED, OUTCOME_ALREADY_ORDERED},
        {VERDICT_SOLD_OUT, OUTCOME_SOLD_OUT},
        {VERDICT_NOT_STARTED, OUTCOME_NOT_STARTED},
        {VERDICT_SALE_ENDED, OUTCOME_SALE_ENDED},
        {VERDICT_NO_VOUCHER, OUTCOME_NO_VOUCHER},
    };

    for (int i = 0; i < (int)(sizeof(rows) / sizeof(rows[0])); i++) {
        submit_locked(i + 1, 7);
        answer_store(STATUS_OK, rows[i].verdict);
        assert_answered(i + 1, rows[i].outcome);
    }
}

static void test_checkout_submit__refuses_above_queue_max(void **state UNUSED)
{
    for (int user = 1; user <= QUEUE_MAX; user++)
        assert_true(submit(user, 7));
    assert_false(submit(QUEUE_MAX + 1, 7));
    answer_locks(STATUS_BUSY);
    assert_true(submit(QUEUE_MAX + 2, 7));
    answer_locks(STATUS_BUSY);
    assert_answered(QUEUE_MAX + 2, OUTCOME_IN_PROGRESS);
    assert_unanswered(QUEUE_MAX + 1);
}

/* -- locks -- */

static void test_checkout__without_redis_orders_are_refused(void **state UNUSED)
{
    static const enum status failures[] = {STATUS_DOWN, STATUS_IO, STATUS_TIMEOUT,
                                           STATUS_REFUSED};

    for (int i = 0; i < 4; i++) {
        assert_true(submit(i + 1, 7));
        answer_locks(failures[i]);
        assert_answered(i + 1, OUTCOME_UNAVAILABLE);
    }
    assert_int_equal(fake_store.count, 0);
}

/* So that a lock held elsewhere is answered "in progress", not "unavailable". */
static void test_checkout__lock_wait_ends_before_the_deadline(void **state UNUSED)
{
    assert_true(submit(1, 7));
    assert_in_range(fake_locks.wait_ms, TIMEOUT_MS / 2, TIMEOUT_MS - TICK_MS - 1);
    answer_locks(STATUS_BUSY);
    assert_answered(1, OUTCOME_IN_PROGRESS);
}

static void test_checkout__bypass_replaces_the_fence_by_a_key(void **state UNUSED)
{
    struct placement *first, *second;

    assert_true(submit(1, 7));
    assert_true(submit(2, 7));
    answer_locks(STATUS_DOWN);
    first = fake_store.calls[0].placements[0];
    second = fake_store.calls[0].placements[1];
    assert_int_equal(first->fence, 0);
    assert_in_range(first->key.len, REQUEST_KEY_MAX + 1, 80);
    assert_true(first->key.len != second->key.len ||
                memcmp(first->key.bytes, second->key.bytes, first->key.len) != 0);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

static void test_checkout__stale_fence_is_renewed_once(void **state UNUSED)
{
    int64_t fence;

    submit_locked(1, 7);
    fence = fake_store.calls[0].placements[0]->fence;
    answer_store(STATUS_OK, VERDICT_STALE_FENCE);
    assert_unanswered(1);
    assert_int_equal(fake_locks.raised_above, fence); /* before it asks for the lock */
    answer_locks(STATUS_OK);
    assert_true(fake_store.calls[0].placements[0]->fence > fence);
    answer_store(STATUS_OK, VERDICT_STALE_FENCE);
    assert_answered(1, OUTCOME_UNAVAILABLE);
}

/* Nothing was placed, so the outcome is not unknown. */
static void test_checkout__deadline_while_a_stale_lock_is_released(void **state UNUSED)
{
    submit_locked(1, 7);
    fake_locks.is_slow = true;
    answer_store(STATUS_OK, VERDICT_STALE_FENCE);
    pass_ms(TIMEOUT_MS);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    answer_releases();
    assert_int_equal(fake_locks.count, 0); /* a retry of the shopper needs it */
}

static void test_checkout__deadline_while_a_new_fence_is_awaited(void **state UNUSED)
{
    submit_locked(1, 7);
    answer_store(STATUS_OK, VERDICT_STALE_FENCE);
    assert_int_equal(fake_locks.count, 1);
    pass_ms(TIMEOUT_MS);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    answer_locks(STATUS_OK);
    assert_int_equal(fake_store.count, 0);
}

static void test_checkout__lock_lost_in_the_queue_places_nothing(void **state UNUSED)
{
    struct rlock *lock;

    fake_store.room = 0;
    assert_true(submit(1, 7));
    lock = fake_locks.requested[0];
    answer_locks(STATUS_OK);
    lock->state = LOCK_FREE;
    fake_locks.held--;
    lock->on_lost(lock, STATUS_LOST, lock->arg);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    fake_store.room = 1;
    turn();
    assert_int_equal(fake_store.count, 0);
}

static void test_checkout__expired_lease_is_not_sent(void **state UNUSED)
{
    fake_store.room = 0;
    submit_locked(1, 7);
    submit_locked(2, 7);
    fake_locks.requested[0]->safe_until_us = clock_mono_us() + 1; /* of shopper 2 */
    fake_store.room = 1;
    turn();
    assert_int_equal(fake_store.calls[0].count, 2);
    answer_store(STATUS_OK, VERDICT_PLACED);

    fake_store.room = 0;
    submit_locked(3, 7);
    fake_locks.requested[0]->safe_until_us = clock_mono_us();
    fake_store.room = 1;
    turn();
    assert_int_equal(fake_store.count, 0);
    assert_answered(3, OUTCOME_UNAVAILABLE);
}

/* Checked by the tick, so a tick more at most. */
static void test_checkout__slow_release_delays_the_answer_20_ms(void **state UNUSED)
{
    fake_locks.is_slow = true;
    pass_ms(TICK_MS);
    submit_locked(1, 7);
    answer_store(STATUS_OK, VERDICT_PLACED);
    pass_us(1);
    submit_locked(2, 7);
    answer_store(STATUS_OK, VERDICT_PLACED);
    pass_us(TICK_MS * 1000 - 2);
    assert_unanswered(1);
    pass_us(1); /* the next tick */
    assert_answered(1, OUTCOME_PLACED);
    assert_unanswered(2);
    pass_ms(TICK_MS);
    assert_answered(2, OUTCOME_PLACED);
    answer_releases();
    assert_answered(1, OUTCOME_PLACED); /* still one answer */
}

/* -- transactions that fail -- */

static void test_checkout__refused_row_is_isolated(void **state UNUSED)
{
    submit_batch(1, 8);
    while (fake_store.count > 0) {
        bool has_refused = false;

        for (size_t i = 0; i < fake_store.calls[0].count; i++)
            has_refused |= fake_store.calls[0].placements[i]->user_id == 6;
        answer_store(has_refused ? STATUS_REFUSED : STATUS_OK, VERDICT_PLACED);
    }
    for (int user = 1; user <= 8; user++)
        assert_answered(user, user == 6 ? OUTCOME_INTERNAL : OUTCOME_PLACED);
}

static void test_checkout__rolled_back_orders_are_tried_again(void **state UNUSED)
{
    submit_locked(1, 7);
    submit_locked(2, 7);
    answer_store(STATUS_BUSY, 0);
    assert_unanswered(1);
    assert_int_equal(fake_store.calls[0].count, 2);
    assert_int_equal(fake_store.calls[0].placements[0]->user_id, 1); /* still first */
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

static void test_checkout__fails_after_5_transactions(void **state UNUSED)
{
    int transactions = 0;

    submit_locked(1, 7);
    for (; fake_store.count > 0 && transactions < 20; transactions++)
        answer_store(STATUS_BUSY, 0);
    assert_int_equal(transactions, 5);
    assert_answered(1, OUTCOME_UNAVAILABLE);
}

/* The memory of a completed order is used again; its counts are not. */
static void test_checkout__counts_tries_per_order(void **state UNUSED)
{
    for (int user = 1; user <= 2; user++) {
        submit_locked(user, 7);
        for (int i = 0; i < 4; i++)
            answer_store(STATUS_BUSY, 0);
        answer_store(STATUS_OK, VERDICT_STALE_FENCE);
        answer_locks(STATUS_OK);
        answer_store(STATUS_OK, VERDICT_PLACED);
        assert_answered(user, OUTCOME_PLACED);
    }
}

/* It has waited for a lock that somebody holds. */
static void fail_slowly(void)
{
    pass_ms(TIMEOUT_MS / 100);
    answer_store(STATUS_BUSY, 0);
}

static void test_checkout__slow_voucher_leaves_room_for_others(void **state UNUSED)
{
    submit_locked(1, 7);
    fake_store.slow_room = 0;
    fail_slowly();
    assert_int_equal(fake_store.count, 0); /* though there is room for fast ones */
    submit_locked(2, 8);
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    answer_store(STATUS_OK, VERDICT_PLACED);
    fake_store.slow_room = 1;
    turn();
    assert_true(fake_store.calls[0].is_slow);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
}

/* -- bundles -- */

#define LONG 64 /* orders of a voucher that share no transaction */

/* Shoppers 1, 2 and 3 order vouchers 7, 8 and 9 at the same time. */
static void submit_bundle(void)
{
    fake_store.room = 0;
    for (int user = 1; user <= 3; user++)
        submit_locked(user, 6 + user);
    fake_store.room = 1;
    turn();
}

static void test_checkout__short_queues_share_a_transaction(void **state UNUSED)
{
    submit_bundle();
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_store.calls[i].voucher_id, 7 + i);
        assert_int_equal(fake_store.calls[i].is_behind, i > 0);
    }
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_OK, VERDICT_SOLD_OUT);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_answered(2, OUTCOME_SOLD_OUT);
    assert_answered(3, OUTCOME_PLACED);
}

/* Three vouchers at most, in this test. */
static void
test_checkout__a_transaction_has_a_bounded_number_of_vouchers(void **state UNUSED)
{
    fake_store.room = 0;
    for (int user = 1; user <= 6; user++)
        submit_locked(user, 6 + user);
    fake_store.room = 2;
    turn();
    for (int bundle = 0; bundle < 2; bundle++) {
        assert_int_equal(fake_store.count, 3);
        for (int i = 0; i < 3; i++)
            assert_int_equal(fake_store.calls[i].is_behind, i != 0);
        for (int i = 0; bundle == 0 && i < 3; i++)
            answer_store(STATUS_OK, VERDICT_PLACED);
    }
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(6, OUTCOME_PLACED);
}

static void test_checkout__long_queue_shares_no_transaction(void **state UNUSED)
{
    fake_store.room = 0;
    submit_locked(1, 8);
    for (int user = 2; user <= 1 + LONG; user++)
        submit_locked(user, 7);
    fake_store.room = 2;
    turn();
    assert_int_equal(fake_store.count, 2);
    assert_false(fake_store.calls[0].is_behind || fake_store.calls[1].is_behind);
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1 + LONG, OUTCOME_PLACED);
}

static void test_checkout__bundle_leaves_the_last_lane_to_itself(void **state UNUSED)
{
    fake_store.room = 0;
    submit_locked(1, 8);
    for (int user = 2; user <= 1 + LONG; user++)
        submit_locked(user, 7);
    fake_store.room = 1;
    turn();
    assert_int_equal(fake_store.count, 1);
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1 + LONG, OUTCOME_PLACED);
}

static void test_checkout__orders_gather_while_a_bundle_is_under_way(void **state UNUSED)
{
    submit_bundle();
    fake_store.room = 1;
    submit_locked(4, 10);
    submit_locked(5, 11);
    turn();
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_int_equal(fake_store.count, 2);
    assert_true(fake_store.calls[1].is_behind);
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(5, OUTCOME_PLACED);
}

/* The next one is sent while the first commits only if commits are slow. */
static void test_checkout__second_bundle_is_sent_on_a_slow_disk(void **state UNUSED)
{
    for (fake_store.commit_us = 2999; fake_store.commit_us <= 3000;
         fake_store.commit_us++) {
        submit_bundle();
        fake_store.room = 1;
        for (int user = 4; user <= 6; user++)
            submit_locked(user, 6 + user);
        turn();
        pass_ms(1);
        assert_int_equal(fake_store.count, fake_store.commit_us < 3000 ? 3 : 6);
        while (fake_store.count > 0)
            answer_store(STATUS_OK, VERDICT_PLACED);
        assert_answered(6, OUTCOME_PLACED);
        memset(fixture.shoppers, 0, sizeof(fixture.shoppers));
    }
}

/* Its commit may take long, and no shopper waits for it longer than that. */
static void test_checkout__gathers_for_10_ms_at_most(void **state UNUSED)
{
    submit_bundle();
    fake_store.room = 1;
    submit_locked(4, 10);
    pass_ms(9);
    assert_int_equal(fake_store.count, 3);
    pass_ms(2);
    assert_int_equal(fake_store.count, 4);
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(4, OUTCOME_PLACED);
}

/* It waits for the row then, and the others do not wait with it. */
static void test_checkout__voucher_left_out_three_times_is_sent_alone(void **state UNUSED)
{
    fake_store.room = 0;
    submit_locked(1, 7);
    submit_locked(2, 8);
    fake_store.room = 1;
    turn();
    for (int user = 3; user <= 5; user++) {
        assert_true(fake_store.calls[1].is_behind);
        assert_int_equal(fake_store.calls[1].voucher_id, 8);
        submit_locked(user, 6 + user);
        answer_store(STATUS_OK, VERDICT_PLACED);
        answer_store(STATUS_BUSY, 0);
        assert_unanswered(2);
    }
    assert_int_equal(fake_store.count, 2);
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    assert_true(fake_store.calls[0].is_slow);
    assert_false(fake_store.calls[1].is_behind);
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_OK, VERDICT_PLACED);
    for (int user = 1; user <= 5; user++)
        assert_answered(user, OUTCOME_PLACED);
}

/* It waited for another instance's transaction; one by one they would wait longer. */
static void test_checkout__vouchers_of_a_late_bundle_remain_together(void **state UNUSED)
{
    submit_bundle();
    pass_ms(TIMEOUT_MS / 25);
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_BUSY, 0);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_store.calls[i].is_behind, i > 0);
        assert_false(fake_store.calls[i].is_slow);
    }
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(3, OUTCOME_PLACED);
}

static void test_checkout__refused_bundle_is_sent_voucher_by_voucher(void **state UNUSED)
{
    submit_bundle();
    fake_store.slow_room = 3;
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_REFUSED, 0);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++)
        assert_false(fake_store.calls[i].is_behind);
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_REFUSED, 0);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_answered(2, OUTCOME_INTERNAL);
    assert_answered(3, OUTCOME_PLACED);
}

static void test_checkout__lost_bundle_is_looked_up(void **state UNUSED)
{
    submit_bundle();
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_IO, 0);
    pass_ms(20);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++)
        assert_true(fake_store.calls[i].is_lookup);
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

static void test_checkout__delayed_slow_voucher_remains_slow(void **state UNUSED)
{
    submit_batch(1, 16);
    submit_locked(21, 7);
    pass_ms(TIMEOUT_MS / 10);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_int_equal(fake_store.count, 0); /* delayed, because the last batch was large */
    fake_store.slow_room = 0;
    pass_ms(TICK_MS);
    assert_int_equal(fake_store.count, 0);
    fake_store.slow_room = 1;
    turn();
    assert_true(fake_store.calls[0].is_slow);
    answer_store(STATUS_OK, VERDICT_PLACED);
}

static void test_checkout__slow_voucher_becomes_fast_again(void **state UNUSED)
{
    submit_locked(1, 7);
    submit_locked(2, 7);
    fail_slowly();
    submit_locked(3, 7);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
    assert_int_equal(fake_store.calls[0].count, 1);
    assert_false(fake_store.calls[0].is_slow);
    pass_ms(TIMEOUT_MS / 10); /* slow, although it succeeds */
    submit_locked(4, 7);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_true(fake_store.calls[0].is_slow);
    answer_store(STATUS_OK, VERDICT_PLACED);
}

static void test_checkout__waits_for_a_row_until_the_deadline(void **state UNUSED)
{
    int transactions = 0;

    submit_locked(1, 7);
    for (; fake_store.count > 0; transactions++)
        fail_slowly();
    assert_answered(1, OUTCOME_UNAVAILABLE);
    assert_in_range(transactions, 90, 100);
}

/* The statement was cancelled, and would be again. */
static void test_checkout__repeats_nothing_that_takes_too_long(void **state UNUSED)
{
    submit_locked(1, 7);
    pass_ms(TIMEOUT_MS * 2 / 5);
    submit_locked(2, 7);
    answer_store(STATUS_BUSY, 0);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    assert_int_equal(fake_store.calls[0].count, 1); /* the other one has time */
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

static void test_checkout__unknown_commit_is_looked_up(void **state UNUSED)
{
    submit_locked(1, 7);
    answer_store(STATUS_IO, 0);
    submit_locked(2, 7);
    assert_int_equal(fake_store.count, 0); /* the queue waits for the look-up */
    pass_ms(TICK_MS);
    assert_int_equal(fake_store.count, 1);
    assert_true(fake_store.calls[0].is_lookup);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_int_equal(fixture.shoppers[1].order_id, 1001);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

/* An order without a lock whose commit is looked up; the row is `age_us` older than it. */
static void bypass_and_look_up(int user, struct text key, int64_t age_us)
{
    assert_true(submit_with_key(user, 7, key));
    answer_locks(STATUS_DOWN);
    answer_store(STATUS_IO, 0);
    pass_ms(TICK_MS);
    fake_store.created_us =
        clock_real_us() - TICK_MS * INT64_C(1000) - CLOCK_ERROR_US - age_us;
    answer_store(STATUS_OK, VERDICT_PLACED);
}

/* Without a fence the key finds an order, which an earlier request may have placed. */
static void test_checkout__bypassed_order_of_earlier_is_repeated(void **state UNUSED)
{
    const struct text key = {"key", 3}, none = {0};

    bypass_and_look_up(1, key, 1);
    assert_answered(1, OUTCOME_REPEATED);
    bypass_and_look_up(2, key, 0);
    assert_answered(2, OUTCOME_PLACED);
    bypass_and_look_up(3, none, 1000000); /* the clock was set; nobody else has its key */
    assert_answered(3, OUTCOME_PLACED);
}

static void test_checkout__uncommitted_orders_are_tried_again(void **state UNUSED)
{
    submit_locked(1, 7);
    answer_store(STATUS_TIMEOUT, 0);
    pass_ms(TICK_MS);
    answer_store(STATUS_OK, VERDICT_NONE); /* the look-up found no row */
    assert_unanswered(1);
    assert_false(fake_store.calls[0].is_lookup);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
}

static void test_checkout__unknown_outcome_is_answered_unknown(void **state UNUSED)
{
    submit_locked(1, 7);
    answer_store(STATUS_IO, 0);
    pass_ms(TICK_MS);
    answer_store(STATUS_DOWN, 0); /* the look-up failed too */
    assert_unanswered(1);
    pass_ms(TIMEOUT_MS);
    assert_answered(1, OUTCOME_UNKNOWN);
    assert_int_equal(fake_locks.held, 1); /* until the look-up has ended */
    answer_store(STATUS_DOWN, 0);
}

/* -- deadlines -- */

static void test_checkout__deadline_in_each_state(void **state UNUSED)
{
    assert_true(submit(1, 7)); /* LOCKING */
    pass_ms(TIMEOUT_MS + TICK_MS);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    answer_locks(STATUS_OK); /* too late: released */
    assert_int_equal(fake_locks.held, 0);

    submit_locked(2, 7); /* SENT */
    submit_locked(3, 7); /* QUEUED */
    pass_ms(TIMEOUT_MS + TICK_MS);
    assert_answered(2, OUTCOME_UNKNOWN);
    assert_answered(3, OUTCOME_UNAVAILABLE);
    assert_int_equal(fake_locks.held, 1); /* the lock of 2, until its commit ends */
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_UNKNOWN);
}

/* Not before the deadline, and at most a tick of 20 ms after it. */
static void test_checkout__deadline_is_met_within_a_tick(void **state UNUSED)
{
    for (int user = 1; user <= QUEUE_MAX; user++) {
        assert_true(submit(user, 7));
        pass_us(1000);
    }
    pass_ms(TIMEOUT_MS + TICK_MS);
    for (int user = 1; user <= QUEUE_MAX; user++) {
        const struct shopper *shopper = &fixture.shoppers[user];

        assert_answered(user, OUTCOME_UNAVAILABLE);
        assert_in_range(shopper->answered_us - shopper->submitted_us,
                        (int64_t)TIMEOUT_MS * 1000,
                        (int64_t)(TIMEOUT_MS + TICK_MS) * 1000);
    }
    answer_locks(STATUS_BUSY);
}

/* Read by AddressSanitizer: calloc() returns NULL for an impossible batch. */
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

int main(void)
{
#define TEST_WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_checkout)
#define TEST(test)            TEST_WITH(open_checkout, test)
#define TEST_EARLY(test)      TEST_WITH(open_releasing_checkout, test)
#define TEST_LARGE(test)      TEST_WITH(open_checkout_of_large_batches, test)
    const struct CMUnitTest tests[] = {
        TEST(test_checkout_turn__batches_grow_while_one_commits),
        TEST_EARLY(test_checkout_turn__sends_the_next_batch_when_the_row_is_free),
        TEST_EARLY(test_checkout_turn__looks_up_what_was_released_and_lost),
        TEST_EARLY(test_checkout_turn__releases_early_where_commits_take_3_ms),
        TEST(test_checkout_turn__releases_early_only_if_it_may),
        TEST(test_checkout_turn__serves_vouchers_in_turns),
        TEST_LARGE(test_checkout_turn__delays_after_a_large_batch),
        TEST_LARGE(test_checkout_turn__does_not_delay_after_a_small_batch),
        TEST_LARGE(test_checkout_turn__ends_the_delay_after_2_ms),
        TEST(test_checkout_turn__delays_2_ms_while_input_waits),
        TEST_WITH(open_checkout_of_impossible_batches,
                  test_checkout_turn__keeps_orders_without_memory),
        TEST(test_checkout__outcome_of_each_verdict),
        TEST(test_checkout_submit__refuses_above_queue_max),
        TEST(test_checkout__without_redis_orders_are_refused),
        TEST(test_checkout__lock_wait_ends_before_the_deadline),
        TEST_WITH(open_bypassing_checkout,
                  test_checkout__bypass_replaces_the_fence_by_a_key),
        TEST(test_checkout__stale_fence_is_renewed_once),
        TEST(test_checkout__deadline_while_a_stale_lock_is_released),
        TEST(test_checkout__deadline_while_a_new_fence_is_awaited),
        TEST(test_checkout__lock_lost_in_the_queue_places_nothing),
        TEST(test_checkout__expired_lease_is_not_sent),
        TEST(test_checkout__slow_release_delays_the_answer_20_ms),
        TEST(test_checkout__refused_row_is_isolated),
        TEST(test_checkout__rolled_back_orders_are_tried_again),
        TEST(test_checkout__fails_after_5_transactions),
        TEST(test_checkout__counts_tries_per_order),
        TEST(test_checkout__slow_voucher_leaves_room_for_others),
        TEST(test_checkout__short_queues_share_a_transaction),
        TEST(test_checkout__a_transaction_has_a_bounded_number_of_vouchers),
        TEST_LARGE(test_checkout__long_queue_shares_no_transaction),
        TEST_LARGE(test_checkout__bundle_leaves_the_last_lane_to_itself),
        TEST(test_checkout__orders_gather_while_a_bundle_is_under_way),
        TEST_EARLY(test_checkout__second_bundle_is_sent_on_a_slow_disk),
        TEST(test_checkout__gathers_for_10_ms_at_most),
        TEST(test_checkout__voucher_left_out_three_times_is_sent_alone),
        TEST(test_checkout__vouchers_of_a_late_bundle_remain_together),
        TEST(test_checkout__refused_bundle_is_sent_voucher_by_voucher),
        TEST(test_checkout__lost_bundle_is_looked_up),
        TEST_LARGE(test_checkout__delayed_slow_voucher_remains_slow),
        TEST(test_checkout__slow_voucher_becomes_fast_again),
        TEST(test_checkout__waits_for_a_row_until_the_deadline),
        TEST(test_checkout__repeats_nothing_that_takes_too_long),
        TEST(test_checkout__unknown_commit_is_looked_up),
        TEST_WITH(open_bypassing_checkout,
                  test_checkout__bypassed_order_of_earlier_is_repeated),
        TEST(test_checkout__uncommitted_orders_are_tried_again),
        TEST(test_checkout__unknown_outcome_is_answered_unknown),
        TEST(test_checkout__deadline_in_each_state),
        TEST(test_checkout__deadline_is_met_within_a_tick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
