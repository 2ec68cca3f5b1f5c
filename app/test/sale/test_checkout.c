/*
 * test_checkout.c - the order queue against a store and locks that fail on command.
 *
 * The fakes keep what they were asked; a test answers it as it likes, in its order, and
 * moves the clock. Everything else is the real thing.
 */
#include "app/sale/checkout.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALLS_MAX  64
#define TIMEOUT_MS 20000 /* far beyond what a slow machine needs for a test */

/* -- the fakes -- */

static struct {
    unsigned room;
    size_t count;
    struct call {
        int64_t voucher_id;
        struct placement *const *placements;
        size_t count;
        store_batch_cb callback;
        void *arg;
        bool is_lookup;
    } calls[CALLS_MAX];
} fake_store;

static struct {
    size_t count; /* locks asked for and not answered */
    struct rlock *asked[CALLS_MAX];
    int64_t fence;
    size_t held;
    size_t released;
} fake_locks;

enum { LOCK_FREE, LOCK_ASKED, LOCK_HELD };

unsigned store_batch_room(const struct store *store UNUSED)
{
    return fake_store.room;
}

static void keep_call(int64_t voucher_id, struct placement *const *placements,
                      size_t count, store_batch_cb callback, void *arg, bool is_lookup)
{
    assert_true(fake_store.count < CALLS_MAX);
    fake_store.calls[fake_store.count++] =
        (struct call){voucher_id, placements, count, callback, arg, is_lookup};
}

void store_place_orders(struct store *store UNUSED, int64_t voucher_id,
                        struct placement *const *placements, size_t count,
                        store_batch_cb callback, void *arg)
{
    assert_true(fake_store.room > 0);
    fake_store.room--;
    keep_call(voucher_id, placements, count, callback, arg, false);
}

void store_resolve_orders(struct store *store UNUSED, int64_t voucher_id,
                          struct placement *const *placements, size_t count,
                          store_batch_cb callback, void *arg)
{
    keep_call(voucher_id, placements, count, callback, arg, true);
}

// NOLINTNEXTLINE(readability-function-size): as in rlock.h
void rlock_acquire(struct rlock_client *client UNUSED, struct rlock *lock,
                   const char *name, size_t name_len,
                   const struct rlock_acquire_options *options UNUSED, rlock_cb callback,
                   void *arg)
{
    assert_memory_equal(name, "lock:order:", strlen("lock:order:"));
    assert_true(name_len > strlen("lock:order:"));
    assert_int_equal(lock->state, LOCK_FREE);
    lock->state = LOCK_ASKED;
    lock->callback = callback;
    lock->arg = arg;
    lock->on_lost = options->on_lost;
    assert_true(fake_locks.count < CALLS_MAX);
    fake_locks.asked[fake_locks.count++] = lock;
}

void rlock_release(struct rlock_client *client UNUSED, struct rlock *lock,
                   rlock_cb callback, void *arg)
{
    assert_int_equal(lock->state, LOCK_HELD);
    lock->state = LOCK_FREE;
    fake_locks.held--;
    fake_locks.released++;
    callback(lock, STATUS_OK, arg);
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

void rlock_flush(struct rlock_client *client UNUSED)
{
}

/* -- the fixture -- */

static struct fixture {
    uv_loop_t loop;
    struct checkout *checkout;
    struct metrics metrics;
    struct heard {
        int answers;
        enum outcome outcome;
        int64_t order_id;
    } heard[CALLS_MAX];
} fixture;

static void on_snapshot(const struct voucher_snapshot *snapshot UNUSED, void *arg UNUSED)
{
}

static void on_answer(enum outcome outcome, const struct order *order, void *arg)
{
    struct heard *heard = arg;

    heard->answers++;
    heard->outcome = outcome;
    heard->order_id = order != NULL ? order->id : 0;
}

static int open_with(void **state, bool bypass, size_t batch_max)
{
    struct checkout_options options = {.loop = &fixture.loop,
                                       .metrics = &fixture.metrics,
                                       .lease_ms = 30000,
                                       .timeout_ms = TIMEOUT_MS,
                                       .batch_max = batch_max,
                                       .queue_max = 32,
                                       .bypass_locks = bypass,
                                       .on_snapshot = on_snapshot};

    memset(&fixture, 0, sizeof(fixture));
    memset(&fake_store, 0, sizeof(fake_store));
    memset(&fake_locks, 0, sizeof(fake_locks));
    fake_store.room = 1;
    fake_locks.fence = 100;
    uv_loop_init(&fixture.loop);
    fixture.checkout = checkout_create(&options);
    *state = &fixture;
    return fixture.checkout != NULL ? 0 : -1;
}

static int open_checkout(void **state)
{
    return open_with(state, false, 8);
}

static int open_bypassing_checkout(void **state)
{
    return open_with(state, true, 8);
}

static int open_checkout_of_large_batches(void **state)
{
    return open_with(state, false, 32);
}

/* Every test ends with nothing in flight and no lock held: checked here for all. */
static int close_checkout(void **state)
{
    struct fixture *f = *state;
    bool is_clean = checkout_in_flight(f->checkout) == 0 && fake_locks.held == 0;

    if (!is_clean)
        return -1;
    checkout_close(f->checkout);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&f->loop);
}

/* Shopper `user` (also the index of what it hears) orders voucher `voucher_id`. */
static bool submit(int user, int64_t voucher_id)
{
    struct checkout_request request = {
        .voucher_id = voucher_id, .user_id = user, .arrived_us = clock_mono_us()};

    return checkout_submit(fixture.checkout, &request, on_answer, &fixture.heard[user]);
}

static void answer_locks(enum status status)
{
    size_t count = fake_locks.count;
    struct rlock *asked[CALLS_MAX];

    memcpy(asked, fake_locks.asked, sizeof(asked));
    fake_locks.count = 0;
    for (size_t i = 0; i < count; i++) {
        struct rlock *lock = asked[i];

        lock->state = status == STATUS_OK ? LOCK_HELD : LOCK_FREE;
        fake_locks.held += status == STATUS_OK;
        lock->fence = ++fake_locks.fence;
        lock->safe_until_us = clock_mono_us() + 30000000;
        lock->callback(lock, status, lock->arg);
    }
    checkout_turn(fixture.checkout);
}

static void submit_locked(int user, int64_t voucher_id)
{
    assert_true(submit(user, voucher_id));
    answer_locks(STATUS_OK);
}

/* Answer the oldest call. A verdict of 0 leaves the placements alone. */
static void answer_store(enum status status, enum verdict verdict)
{
    const struct err why = {.status = status, .text = "as the test wants it"};
    struct call call = fake_store.calls[0];

    assert_true(fake_store.count > 0);
    fake_store.count--;
    memmove(fake_store.calls, fake_store.calls + 1, fake_store.count * sizeof(call));
    if (!call.is_lookup)
        fake_store.room++;
    for (size_t i = 0; i < call.count && verdict != 0; i++) {
        call.placements[i]->verdict = verdict;
        call.placements[i]->order.id = 1000 + call.placements[i]->user_id;
    }
    call.callback(status, NULL, &why, call.arg);
    checkout_turn(fixture.checkout);
}

/* Let `ms` pass, and the timer see it. */
static void pass_ms(int64_t ms)
{
    uint64_t ticked = uv_now(&fixture.loop);

    clock_shift_us(ms * 1000);
    while (uv_now(&fixture.loop) < ticked + 30)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    checkout_turn(fixture.checkout);
}

static void assert_heard(int user, enum outcome outcome)
{
    if (fixture.heard[user].answers != 1 || fixture.heard[user].outcome != outcome)
        fail_msg("shopper %d heard %d answers, the last %s instead of one %s", user,
                 fixture.heard[user].answers, outcome_name(fixture.heard[user].outcome),
                 outcome_name(outcome));
}

static void assert_silent(int user)
{
    assert_int_equal(fixture.heard[user].answers, 0);
}

/* -- batches -- */

static void test_checkout__batches_grow_while_one_commits(void **state UNUSED)
{
    submit_locked(1, 7);
    assert_int_equal(fake_store.calls[0].count, 1);
    for (int user = 2; user <= 6; user++)
        submit_locked(user, 7);
    assert_int_equal(fake_store.count, 1);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_heard(1, OUTCOME_PLACED);
    assert_int_equal(fixture.heard[1].order_id, 1001);
    assert_int_equal(fake_store.calls[0].count, 5);
    for (size_t i = 0; i < 5; i++) /* in order of arrival */
        assert_int_equal(fake_store.calls[0].placements[i]->user_id, 2 + i);
    answer_store(STATUS_OK, VERDICT_SOLD_OUT);
    assert_heard(6, OUTCOME_SOLD_OUT);
    assert_int_equal(fake_locks.released, 6);
}

static void test_checkout__a_hot_voucher_does_not_starve_a_quiet_one(void **state UNUSED)
{
    for (int user = 1; user <= 20; user++)
        submit_locked(user, 7);
    submit_locked(21, 8);
    answer_store(STATUS_OK, VERDICT_PLACED); /* the first of 7 */
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_heard(21, OUTCOME_PLACED);
    assert_int_equal(fake_store.calls[0].voucher_id, 7);
    assert_int_equal(fake_store.calls[0].count, 8); /* batch_max */
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_heard(20, OUTCOME_PLACED);
}

static void place_by_load(int first_user, int last_user)
{
    fake_store.room = 0;
    for (int user = first_user; user <= last_user; user++)
        submit_locked(user, 7);
    fake_store.room = 1;
    checkout_turn(fixture.checkout);
}

static void test_checkout__gathers_after_a_large_batch(void **state UNUSED)
{
    place_by_load(1, 20);
    assert_int_equal(fake_store.calls[0].count, 20);
    submit_locked(21, 7);
    answer_store(STATUS_OK, VERDICT_PLACED);
    clock_shift_us(-10000000);             /* the wait of 2 ms is longer than this test */
    assert_int_equal(fake_store.count, 0); /* 20 more may come */
    for (int user = 22; user <= 40; user++) {
        submit_locked(user, 7);
        assert_int_equal(fake_store.count, 0);
    }
    submit_locked(41, 7); /* as many as were answered: nobody else is waited for */
    assert_int_equal(fake_store.calls[0].count, 21);
    answer_store(STATUS_OK, VERDICT_PLACED);
}

static void test_checkout__stops_gathering_after_its_limit(void **state UNUSED)
{
    place_by_load(1, 20);
    answer_store(STATUS_OK, VERDICT_PLACED);
    clock_shift_us(-10000000);
    submit_locked(21, 7);
    assert_int_equal(fake_store.count, 0);
    pass_ms(10000);
    assert_int_equal(fake_store.calls[0].count, 1);
    answer_store(STATUS_OK, VERDICT_PLACED);
    submit_locked(22, 7); /* after a small batch nobody is awaited */
    assert_int_equal(fake_store.calls[0].count, 1);
    answer_store(STATUS_OK, VERDICT_PLACED);
}

static void test_checkout__verdicts(void **state UNUSED)
{
    static const struct {
        enum verdict verdict;
        enum outcome outcome;
    } rows[] = {
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
        assert_heard(i + 1, rows[i].outcome);
    }
}

static void test_checkout_submit__a_full_queue_refuses(void **state UNUSED)
{
    for (int user = 1; user <= 32; user++)
        assert_true(submit(user, 7));
    assert_false(submit(33, 7));
    answer_locks(STATUS_BUSY);
    assert_true(submit(34, 7));
    answer_locks(STATUS_BUSY);
    assert_heard(34, OUTCOME_IN_PROGRESS);
    assert_silent(33);
}

/* -- locks -- */

static void test_checkout__without_redis_orders_are_refused(void **state UNUSED)
{
    static const enum status failures[] = {STATUS_DOWN, STATUS_IO, STATUS_TIMEOUT,
                                           STATUS_REFUSED};

    for (int i = 0; i < 4; i++) {
        assert_true(submit(i + 1, 7));
        answer_locks(failures[i]);
        assert_heard(i + 1, OUTCOME_UNAVAILABLE);
    }
    assert_int_equal(fake_store.count, 0);
}

static void test_checkout__bypass_sells_without_fence_but_with_a_key(void **state UNUSED)
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
    assert_heard(2, OUTCOME_PLACED);
}

static void test_checkout__a_stale_fence_is_taken_anew_once(void **state UNUSED)
{
    int64_t fence;

    submit_locked(1, 7);
    fence = fake_store.calls[0].placements[0]->fence;
    answer_store(STATUS_OK, VERDICT_STALE_FENCE);
    assert_silent(1);
    answer_locks(STATUS_OK);
    assert_true(fake_store.calls[0].placements[0]->fence > fence);
    answer_store(STATUS_OK, VERDICT_STALE_FENCE);
    assert_heard(1, OUTCOME_UNAVAILABLE);
}

static void test_checkout__a_lock_lost_in_the_queue_orders_nothing(void **state UNUSED)
{
    struct rlock *lock;

    fake_store.room = 0;
    assert_true(submit(1, 7));
    lock = fake_locks.asked[0];
    answer_locks(STATUS_OK);
    lock->state = LOCK_FREE;
    fake_locks.held--;
    lock->on_lost(lock, STATUS_LOST, lock->arg);
    assert_heard(1, OUTCOME_UNAVAILABLE);
    fake_store.room = 1;
    checkout_turn(fixture.checkout);
    assert_int_equal(fake_store.count, 0);
}

static void test_checkout__a_lease_that_may_have_lapsed_is_not_sent(void **state UNUSED)
{
    fake_store.room = 0;
    submit_locked(1, 7);
    fake_locks.asked[0]->safe_until_us = clock_mono_us() - 1;
    fake_store.room = 1;
    checkout_turn(fixture.checkout);
    assert_int_equal(fake_store.count, 0);
    assert_heard(1, OUTCOME_UNAVAILABLE);
}

/* -- transactions that fail -- */

static void test_checkout__a_refused_row_stands_alone(void **state UNUSED)
{
    fake_store.room = 0;
    for (int user = 1; user <= 8; user++)
        submit_locked(user, 7);
    fake_store.room = 1;
    checkout_turn(fixture.checkout);
    while (fake_store.count > 0) {
        bool has_poison = false;

        for (size_t i = 0; i < fake_store.calls[0].count; i++)
            has_poison |= fake_store.calls[0].placements[i]->user_id == 6;
        answer_store(has_poison ? STATUS_REFUSED : STATUS_OK,
                     has_poison ? 0 : VERDICT_PLACED);
    }
    for (int user = 1; user <= 8; user++)
        assert_heard(user, user == 6 ? OUTCOME_INTERNAL : OUTCOME_PLACED);
}

static void test_checkout__what_was_rolled_back_is_tried_again(void **state UNUSED)
{
    submit_locked(1, 7);
    submit_locked(2, 7);
    answer_store(STATUS_BUSY, 0);
    assert_silent(1);
    assert_int_equal(fake_store.calls[0].count, 2);
    assert_int_equal(fake_store.calls[0].placements[0]->user_id, 1); /* still the first */
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_heard(1, OUTCOME_PLACED);
    assert_heard(2, OUTCOME_PLACED);
}

static void test_checkout__trying_again_has_an_end(void **state UNUSED)
{
    int tries = 0;

    submit_locked(1, 7);
    while (fake_store.count > 0) {
        assert_true(++tries < 20);
        answer_store(STATUS_BUSY, 0);
    }
    assert_heard(1, OUTCOME_UNAVAILABLE);
}

static void test_checkout__an_unknown_commit_is_looked_up(void **state UNUSED)
{
    submit_locked(1, 7);
    answer_store(STATUS_IO, 0);
    submit_locked(2, 7);
    assert_int_equal(fake_store.count, 0); /* the queue waits until it is known */
    pass_ms(0);
    assert_true(fake_store.calls[0].is_lookup);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_heard(1, OUTCOME_PLACED);
    assert_int_equal(fixture.heard[1].order_id, 1001);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_heard(2, OUTCOME_PLACED);
}

static void test_checkout__what_was_not_committed_is_tried_again(void **state UNUSED)
{
    submit_locked(1, 7);
    answer_store(STATUS_TIMEOUT, 0);
    pass_ms(0);
    answer_store(STATUS_OK, VERDICT_NONE); /* the look-up found no row */
    assert_silent(1);
    assert_false(fake_store.calls[0].is_lookup);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_heard(1, OUTCOME_PLACED);
}

static void test_checkout__what_cannot_be_known_is_said_so(void **state UNUSED)
{
    submit_locked(1, 7);
    answer_store(STATUS_IO, 0);
    pass_ms(0);
    answer_store(STATUS_DOWN, 0); /* the look-up failed too */
    assert_silent(1);
    pass_ms(TIMEOUT_MS);
    assert_heard(1, OUTCOME_UNKNOWN);
    assert_int_equal(fake_locks.held, 1); /* until nobody can commit it any more */
    answer_store(STATUS_DOWN, 0);
}

/* -- deadlines -- */

static void test_checkout__deadline_in_each_stage(void **state UNUSED)
{
    assert_true(submit(1, 7)); /* its lock is asked for */
    pass_ms(TIMEOUT_MS);
    assert_heard(1, OUTCOME_UNAVAILABLE);
    answer_locks(STATUS_OK); /* too late: given back */
    assert_int_equal(fake_locks.held, 0);

    submit_locked(2, 7); /* in a transaction */
    submit_locked(3, 7); /* in the queue */
    pass_ms(TIMEOUT_MS);
    assert_heard(2, OUTCOME_UNKNOWN);
    assert_heard(3, OUTCOME_UNAVAILABLE);
    assert_int_equal(fake_locks.held, 1); /* the lock of 2, until its commit ends */
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_heard(2, OUTCOME_UNKNOWN);
}

int main(void)
{
#define LINE_TEST(name)                                                                  \
    cmocka_unit_test_setup_teardown(name, open_checkout, close_checkout)
    const struct CMUnitTest tests[] = {
        LINE_TEST(test_checkout__batches_grow_while_one_commits),
        LINE_TEST(test_checkout__a_hot_voucher_does_not_starve_a_quiet_one),
        cmocka_unit_test_setup_teardown(test_checkout__gathers_after_a_large_batch,
                                        open_checkout_of_large_batches, close_checkout),
        cmocka_unit_test_setup_teardown(test_checkout__stops_gathering_after_its_limit,
                                        open_checkout_of_large_batches, close_checkout),
        LINE_TEST(test_checkout__verdicts),
        LINE_TEST(test_checkout_submit__a_full_queue_refuses),
        LINE_TEST(test_checkout__without_redis_orders_are_refused),
        cmocka_unit_test_setup_teardown(
            test_checkout__bypass_sells_without_fence_but_with_a_key,
            open_bypassing_checkout, close_checkout),
        LINE_TEST(test_checkout__a_stale_fence_is_taken_anew_once),
        LINE_TEST(test_checkout__a_lock_lost_in_the_queue_orders_nothing),
        LINE_TEST(test_checkout__a_lease_that_may_have_lapsed_is_not_sent),
        LINE_TEST(test_checkout__a_refused_row_stands_alone),
        LINE_TEST(test_checkout__what_was_rolled_back_is_tried_again),
        LINE_TEST(test_checkout__trying_again_has_an_end),
        LINE_TEST(test_checkout__an_unknown_commit_is_looked_up),
        LINE_TEST(test_checkout__what_was_not_committed_is_tried_again),
        LINE_TEST(test_checkout__what_cannot_be_known_is_said_so),
        LINE_TEST(test_checkout__deadline_in_each_stage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
