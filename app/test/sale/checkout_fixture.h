/*
 * checkout_fixture.h - a checkout with a scripted store, scripted locks and simulated time.
 *
 * The fakes keep each call until the test answers it. All other code is real. Each test program
 * includes this file once.
 */
#ifndef CHECKOUT_FIXTURE_H
#define CHECKOUT_FIXTURE_H

#include "app/core/log.h"
#include "app/sale/checkout.h"

#include "app/test/simulated_time.h"
#include "test/case_list.h"

#include <stdio.h>
#include <stdlib.h>

#define CALLS_MAX      80
#define TIMEOUT_MS     20000
#define TICK_MS        20
#define QUEUE_MAX      72
#define CLOCK_ERROR_US 1000

/* -- the fakes -- */

static struct {
    unsigned room, slow_room;
    int64_t created_us;
    size_t count;
    struct call {
        int64_t voucher_id;
        struct placement *const *placements;
        size_t count;
        store_batch_cb callback;
        void *arg;
        bool is_lookup, is_slow;
        /* whether the call is in the transaction of the call before it in `calls` */
        bool is_behind;
        void (*released)(void *arg);
        int64_t deadline_us;
    } calls[CALLS_MAX];
    bool has_snapshot;
    size_t snapshots;
} fake_store;

static struct {
    size_t count;
    struct rlock *requested[CALLS_MAX];
    char name[40];
    struct rlock_acquire_options options;
    bool is_down;
    int64_t fence;
    size_t held;
    size_t released;
    size_t flushes;
    bool is_slow;
    enum rlock_status release_status;
    size_t releasing_count;
    struct rlock *releasing[CALLS_MAX];
    int64_t raised_above;
} fake_locks;

enum { LOCK_FREE, LOCK_REQUESTED, LOCK_HELD };

/* -- the log -- */

static struct {
    size_t unknown;
    char fields[400];
    char spans[1000]; /* the name, the times and a ";" for each line of the event span */
} fake_log;

void log_event(enum log_level level UNUSED, const char *event, const char *format, ...)
{
    size_t len = strlen(fake_log.spans);
    va_list arguments;

    if (strcmp(event, "outcome_unknown") == 0)
        fake_log.unknown++;
    va_start(arguments, format);
    vsnprintf(fake_log.fields, sizeof(fake_log.fields), format, arguments);
    va_end(arguments);
    if (strcmp(event, "span") == 0)
        snprintf(fake_log.spans + len, sizeof(fake_log.spans) - len, "%s;",
                 strstr(fake_log.fields, " name=") + 1);
}

const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES] UNUSED)
{
    return text;
}

unsigned store_batch_room(const struct store *store UNUSED, bool is_slow)
{
    return is_slow ? fake_store.slow_room : fake_store.room;
}

static inline void keep_call(const struct store_batch *batch, store_batch_cb callback,
                             bool is_lookup, bool is_behind)
{
    assert_true(fake_store.count < CALLS_MAX);
    fake_store.calls[fake_store.count++] =
        (struct call){batch->voucher_id, batch->placements, batch->count,   callback,
                      batch->arg,        is_lookup,         batch->is_slow, is_behind,
                      batch->released,   batch->deadline_us};
}

void store_place_orders(struct store *store UNUSED, struct rlock_link *batches,
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
                      const struct voucher_snapshot *snapshot, int64_t taken_us)
{
    assert_int_equal(snapshot->voucher_id, 7);
    assert_int_equal(taken_us, clock_mono_us());
    fake_store.snapshots++;
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
    snprintf(fake_locks.name, sizeof(fake_locks.name), "%.*s", (int)name_len, name);
    assert_int_equal(lock->state, LOCK_FREE);
    lock->state = LOCK_REQUESTED;
    lock->callback = callback;
    lock->arg = arg;
    lock->on_lost = options->on_lost;
    fake_locks.options = *options;
    assert_true(fake_locks.count < CALLS_MAX);
    fake_locks.requested[fake_locks.count++] = lock;
}

static inline void answer_release(struct rlock *lock)
{
    lock->state = LOCK_FREE;
    fake_locks.held--;
    fake_locks.released++;
    lock->callback(lock, fake_locks.release_status, lock->arg);
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

static inline void answer_releases(void)
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
    return !fake_locks.is_down;
}

void rlock_flush(struct rlock_client *client UNUSED)
{
    fake_locks.flushes++;
}

/* -- the fixture -- */

static struct fixture {
    void (*test)(void **state);
    bool has_passed;
    uv_loop_t loop;
    struct checkout *checkout;
    struct metrics metrics;
    uint64_t answers[OUTCOME_COUNT];
    struct shopper {
        int answers;
        enum outcome outcome;
        int64_t order_id;
        int64_t submitted_us, answered_us;
    } shoppers[CALLS_MAX];
} fixture;

static inline void on_answer(enum outcome outcome, const struct order *order, void *arg)
{
    bool has_order = outcome == OUTCOME_PLACED || outcome == OUTCOME_REPEATED ||
                     outcome == OUTCOME_ALREADY_ORDERED;
    struct shopper *shopper = arg;

    if ((order != NULL) != has_order)
        fail_msg("expected %s with the outcome %s", has_order ? "an order" : "no order",
                 metrics_outcome_names[outcome]);
    fixture.answers[outcome]++;
    shopper->answers++;
    shopper->outcome = outcome;
    shopper->order_id = order != NULL ? order->id : 0;
    shopper->answered_us = clock_mono_us();
}

struct opening {
    void (*test)(void **state);
    bool bypass, is_early;
    size_t batch_max;      /* 0: 8 */
    uint32_t lock_wait_ms; /* 0: no limit */
};

static inline int open_checkout(void **state)
{
    const struct opening *opening = *state;
    struct checkout_options options = {
        .loop = &fixture.loop,
        .metrics = &fixture.metrics,
        .lease_ms = 30000,
        .lock_wait_ms = opening->lock_wait_ms == 0 ? UINT32_MAX : opening->lock_wait_ms,
        .timeout_ms = TIMEOUT_MS,
        .batch_max = opening->batch_max == 0 ? 8 : opening->batch_max,
        .vouchers_max = 3,
        .queue_max = QUEUE_MAX,
        .bypass_locks = opening->bypass,
        .early_release = opening->is_early};

    fixture = (struct fixture){.test = opening->test};
    memset(&fake_store, 0, sizeof(fake_store));
    memset(&fake_locks, 0, sizeof(fake_locks));
    memset(&fake_log, 0, sizeof(fake_log));
    fake_store.room = opening->is_early ? 2 : 1;
    fake_store.slow_room = 1;
    fake_locks.fence = 100;
    simulated_time_reset();
    uv_loop_init(&fixture.loop);
    fixture.checkout = checkout_create(&options);
    *state = &fixture;
    return fixture.checkout != NULL ? 0 : -1;
}

static inline void turn(void)
{
    checkout_turn(fixture.checkout);
}

static inline void run_and_check(void **state)
{
    fixture.test(state);
    turn();
    if (checkout_in_flight(fixture.checkout) != 0 || fake_locks.held != 0 ||
        fixture.metrics.queue_depth != 0)
        fail_msg("at the end of the test: expected no order in flight, no lock held and "
                 "none queued, got %zu orders, %zu locks and %jd queued",
                 checkout_in_flight(fixture.checkout), fake_locks.held,
                 (intmax_t)fixture.metrics.queue_depth);
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        if (fixture.metrics.outcomes[i] != fixture.answers[i])
            fail_msg("expected %ju answers %s in the metrics, got %ju",
                     (uintmax_t)fixture.answers[i], metrics_outcome_names[i],
                     (uintmax_t)fixture.metrics.outcomes[i]);
    }
    fixture.has_passed = true;
}

static inline int close_checkout(void **state UNUSED)
{
    if (!fixture.has_passed)
        return 0;
    checkout_close(fixture.checkout);
    uv_run(&fixture.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&fixture.loop);
}

static inline void pass_us(int64_t us)
{
    simulated_time_pass_us(us, turn);
}

static inline void pass_ms(int64_t ms)
{
    pass_us(ms * 1000);
}

static inline bool submit_request(const struct checkout_request *request)
{
    struct shopper *shopper = &fixture.shoppers[request->user_id];

    shopper->submitted_us = clock_mono_us();
    return checkout_submit(fixture.checkout, request, on_answer, shopper);
}

static inline bool submit_with_key(int user, int64_t voucher_id, struct text key)
{
    struct checkout_request request = {.voucher_id = voucher_id,
                                       .user_id = user,
                                       .key = key,
                                       .arrived_us = clock_mono_us()};

    return submit_request(&request);
}

static inline bool submit(int user, int64_t voucher_id)
{
    return submit_with_key(user, voucher_id, (struct text){0});
}

static inline void answer_locks(enum rlock_status status)
{
    size_t count = fake_locks.count;
    struct rlock *requested[CALLS_MAX];

    memcpy(requested, fake_locks.requested, sizeof(requested));
    fake_locks.count = 0;
    for (size_t i = 0; i < count; i++) {
        struct rlock *lock = requested[i];

        lock->state = status == RLOCK_OK ? LOCK_HELD : LOCK_FREE;
        if (status == RLOCK_OK) {
            fake_locks.held++;
            lock->fence = ++fake_locks.fence;
            lock->safe_until_us = clock_mono_us() + 30000000;
        }
        lock->callback(lock, status, lock->arg);
    }
    turn();
}

static inline void submit_locked(int user, int64_t voucher_id)
{
    assert_true(submit(user, voucher_id));
    answer_locks(RLOCK_OK);
}

static inline void set_room(unsigned room)
{
    fake_store.room = room;
    turn();
}

static inline void answer_store(enum rlock_status status, enum verdict verdict)
{
    const struct rlock_err why = {.status = status, .text = "scripted"};
    const struct voucher_snapshot snapshot = {.voucher_id = 7};
    struct call call = fake_store.calls[0];

    if (fake_store.count == 0)
        fail_msg("expected a call of the store to answer, but the checkout sent none");
    fake_store.count--;
    memmove(fake_store.calls, fake_store.calls + 1, fake_store.count * sizeof(call));
    if (!call.is_lookup && (fake_store.count == 0 || !fake_store.calls[0].is_behind))
        (*(call.is_slow ? &fake_store.slow_room : &fake_store.room))++;
    for (size_t i = 0; i < call.count && status == RLOCK_OK; i++) {
        call.placements[i]->verdict = verdict;
        call.placements[i]->order.id = 1000 + call.placements[i]->user_id;
        call.placements[i]->order.created_us = fake_store.created_us;
    }
    call.callback(status, fake_store.has_snapshot ? &snapshot : NULL, &why, call.arg);
    turn();
}

static inline void answer_all(void)
{
    while (fake_store.count > 0)
        answer_store(RLOCK_OK, VERDICT_PLACED);
}

static inline void place(int user, int64_t voucher_id, enum verdict verdict)
{
    submit_locked(user, voucher_id);
    answer_store(RLOCK_OK, verdict);
}

static inline void lose_lock(struct rlock *lock)
{
    lock->state = LOCK_FREE;
    fake_locks.held--;
    lock->on_lost(lock, RLOCK_LOST, lock->arg);
}

static inline void assert_answered(int user, enum outcome outcome)
{
    const struct shopper *shopper = &fixture.shoppers[user];

    if (shopper->answers == 0)
        fail_msg("shopper %d: expected the answer %s, got none", user,
                 metrics_outcome_names[outcome]);
    if (shopper->answers > 1 || shopper->outcome != outcome)
        fail_msg("shopper %d: expected the answer %s, got %d, the last %s", user,
                 metrics_outcome_names[outcome], shopper->answers,
                 metrics_outcome_names[shopper->outcome]);
}

static inline void assert_all_answered(int first_user, int last_user,
                                       enum outcome outcome)
{
    for (int user = first_user; user <= last_user; user++)
        assert_answered(user, outcome);
}

static inline void assert_unanswered(int user)
{
    if (fixture.shoppers[user].answers != 0)
        fail_msg("shopper %d: expected no answer yet, got %d, the last %s", user,
                 fixture.shoppers[user].answers,
                 metrics_outcome_names[fixture.shoppers[user].outcome]);
}

static inline void assert_sent(int first_user, int last_user)
{
    const struct call *call = &fake_store.calls[0];
    bool is_same = fake_store.count > 0 && (int)call->count == last_user - first_user + 1;
    char sent[CALLS_MAX * 4] = "";
    size_t len = 0;

    for (size_t i = 0; fake_store.count > 0 && i < call->count; i++) {
        len += (size_t)snprintf(sent + len, sizeof(sent) - len, " %d",
                                (int)call->placements[i]->user_id);
        is_same = is_same && call->placements[i]->user_id == first_user + (int)i;
    }
    if (!is_same)
        fail_msg("expected a batch of the orders of shoppers %d to %d in this order, "
                 "got%s",
                 first_user, last_user, len > 0 ? sent : " none");
}

#define TEST_WITH(name, ...)                                                             \
    static void name(void **state);                                                      \
    static struct opening name##_opening = {.test = (name), __VA_ARGS__};                \
    DEFINE_CASE(name, run_and_check, open_checkout, close_checkout, &name##_opening)
#define TEST(name) TEST_WITH(name, .bypass = false)

#endif
