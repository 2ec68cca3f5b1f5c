/*
 * checkout_items.c - a request of the checkout, from its acceptance to its answer.
 *
 * checkout_submit() accepts an order request, or refuses it at once when too many are in
 * flight, so waiting is bounded. An accepted request is an item. It passes through these states:
 *
 *   LOCKING    the item has requested its lock; the loop sends all lock requests of a
 *              turn in one write
 *   QUEUED     the item holds its lock, or needs none, and waits in the queue of
 *              its voucher, in order of arrival
 *   SENT       the item is in a transaction, or in the look-up after a lost connection
 *   UNLOCKING  the lock is being released; the answer follows
 *
 * Guarantee: every accepted request is answered exactly once, at the latest at its
 * deadline. The answer at the deadline is "unavailable" in LOCKING and QUEUED, where no
 * order was placed, and "unknown" in SENT. An item that is answered at its deadline still
 * passes through the remaining states, so its lock and its memory are always released.
 */
#include "app/core/log.h"
#include "app/core/probes.h"
#include "app/sale/checkout_impl.h"
#include "base/clock.h"
#include "base/random.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX      5 /* after this number of quick failures the order is given up */
#define UNLOCK_WAIT_US 20000 /* an answer waits at most this time for its unlock */

/* -- memory: free lists, so that a running sale allocates nothing -- */

static struct item *item_create(struct checkout *checkout)
{
    struct item *item = LIST_SHIFT(struct item, &checkout->free_items, link);

    if (item == NULL)
        item = malloc(sizeof(*item));
    if (item == NULL)
        return NULL;
    *item = (struct item){.checkout = checkout};
    list_init(&item->link);
    checkout->items++;
    return item;
}

static void item_free(struct item *item)
{
    struct checkout *checkout = item->checkout;

    list_remove(&item->link);
    list_append(&checkout->free_items, &item->link);
    checkout->items--;
    atomic_fetch_sub(&checkout->in_flight, 1);
}

int64_t checkout_timeout_us(const struct checkout *checkout)
{
    return checkout->options.timeout_ms * INT64_C(1000);
}

int64_t item_deadline_us(const struct item *item)
{
    return item->arrived_us + checkout_timeout_us(item->checkout);
}

/* -- answer and unlock -- */

void item_log_unknown(const struct item *item)
{
    log_event(LOG_WARN, "outcome_unknown",
              "%svoucher_id=%" PRId64 " user_id=%" PRId64 " fence=%" PRId64, item->trace,
              item->voucher_id, item->placement.user_id, item->placement.fence);
}

int64_t item_end_stage(struct item *item, enum metrics_stage stage, int64_t began_us)
{
    int64_t now_us = clock_mono_us();

    metrics_observe_stage_us(item->checkout->options.metrics, stage, now_us - began_us);
    PROBE(stage, metrics_stage_names[stage], now_us - began_us, item->voucher_id);
    span_log(&item->span, stage == STAGE_TOTAL ? NULL : metrics_stage_names[stage],
             began_us, now_us - began_us);
    return now_us;
}

static void item_answer(struct item *item, enum outcome outcome)
{
    struct checkout *checkout = item->checkout;
    bool has_order = outcome == OUTCOME_PLACED || outcome == OUTCOME_REPEATED ||
                     outcome == OUTCOME_ALREADY_ORDERED;

    if (item->is_answered)
        return;
    item->is_answered = true;
    list_remove(&item->deadline);
    metrics_add(&checkout->options.metrics->outcomes[outcome], 1);
    item_end_stage(item, STAGE_TOTAL, item->arrived_us);
    item->callback(outcome, has_order ? &item->placement.order : NULL, item->arg);
}

void item_advance(struct item *item, enum item_state state, enum metrics_stage ended)
{
    item->state_since_us = item_end_stage(item, ended, item->state_since_us);
    item->state = state;
}

static void checkout_on_unlocked(struct rlock *lock UNUSED, enum rlock_status status,
                                 void *arg)
{
    struct item *item = arg;

    if (status == RLOCK_LOST) {
        metrics_add(&item->checkout->options.metrics->lock_lost, 1);
        PROBE(lock_lost, item->placement.user_id);
    }
    item_end_stage(item, STAGE_UNLOCK, item->state_since_us);
    item_answer(item, item->outcome);
    item_free(item);
}

void item_finish(struct item *item, enum outcome outcome)
{
    list_remove(&item->link);
    item->state = ITEM_UNLOCKING;
    item->state_since_us = clock_mono_us();
    item->outcome = outcome;
    if (rlock_is_held(&item->lock)) {
        list_append(&item->checkout->unlocking, &item->link);
        rlock_release(item->checkout->options.locks, &item->lock, checkout_on_unlocked,
                      item);
    } else {
        item_answer(item, outcome);
        item_free(item);
    }
}

void checkout_answer_overdue_unlocks(struct checkout *checkout, int64_t now_us)
{
    LIST_EACH_SAFE(struct item, item, &checkout->unlocking, link) {
        if (now_us - item->state_since_us < UNLOCK_WAIT_US)
            return;
        list_remove(&item->link);
        item_answer(item, item->outcome);
    }
}

void item_time_out(struct item *item)
{
    switch (item->state) {
    case ITEM_LOCKING: /* checkout_on_locked() releases the lock */
        item_answer(item, OUTCOME_UNAVAILABLE);
        break;
    case ITEM_QUEUED:
        item->checkout->queued--;
        item_finish(item, OUTCOME_UNAVAILABLE);
        break;
    case ITEM_UNLOCKING:
        item_answer(item, item->outcome);
        break;
    case ITEM_SENT:
        item_log_unknown(item);
        item_answer(item, OUTCOME_UNKNOWN);
    }
}

/* -- queue -- */

static void item_enqueue(struct item *item)
{
    struct checkout *checkout = item->checkout;
    struct queue *queue = queues_get(&checkout->queues, item->voucher_id);

    if (queue == NULL) {
        item_finish(item, OUTCOME_OVERLOADED);
        return;
    }
    item_advance(item, ITEM_QUEUED, STAGE_LOCK);
    checkout->queued++;
    list_append(&queue->items, &item->link);
    queues_update(&checkout->queues, queue);
}

bool item_may_be_sent(const struct item *item, const struct queue *queue, int64_t now_us)
{
    return (item->placement.fence == 0 || rlock_safe_for_us(&item->lock, now_us) > 0) &&
           item_deadline_us(item) - now_us >
               queue_needs_us(queue, checkout_timeout_us(item->checkout));
}

void item_requeue(struct item *item, struct queue *queue)
{
    if (!queue->is_slow)
        item->tries++;
    if (item->tries >= TRIES_MAX || !item_may_be_sent(item, queue, clock_mono_us())) {
        item_finish(item, OUTCOME_UNAVAILABLE);
        return;
    }
    item_advance(item, ITEM_QUEUED, STAGE_COMMIT);
    item->checkout->queued++;
    list_insert_after(&queue->items, &item->link);
}

/* -- lock -- */

/* An order without a lock has no fence, so its outcome is looked up by its request key. If the
   shopper has sent no key, the checkout generates a key. A generated key is longer than the keys
   that shoppers can send, so it never equals a key of a shopper. */
static void item_bypass_lock(struct item *item)
{
    uint64_t random[4];

    if (item->placement.key.bytes == NULL && !random_fill(random, sizeof(random))) {
        item_finish(item, OUTCOME_UNAVAILABLE);
        return;
    }
    item->placement.fence = 0;
    if (item->placement.key.bytes == NULL) {
        int len = snprintf(item->key, sizeof(item->key),
                           "-%016" PRIx64 "%016" PRIx64 "%016" PRIx64 "%016" PRIx64,
                           random[0], random[1], random[2], random[3]);

        item->placement.key = (struct text){item->key, (size_t)len};
    }
    item_enqueue(item);
}

static void checkout_on_lock_lost(struct rlock *lock UNUSED,
                                  enum rlock_status status UNUSED, void *arg)
{
    struct item *item = arg;

    metrics_add(&item->checkout->options.metrics->lock_lost, 1);
    PROBE(lock_lost, item->placement.user_id);
    if (item->state == ITEM_QUEUED) {
        item->checkout->queued--;
        item_finish(item, OUTCOME_UNAVAILABLE);
    }
    /* in SENT, Postgres decides by the fence and the constraints */
}

static void checkout_on_locked(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct item *item = arg;
    bool is_wanted = !item->is_answered && status != RLOCK_CANCELLED;

    if (status == RLOCK_OK) {
        item->placement.fence = rlock_fence(lock);
        PROBE(lock_granted, item->placement.user_id, item->placement.fence);
    }
    if (status == RLOCK_BUSY)
        item_finish(item, OUTCOME_IN_PROGRESS);
    else if (status == RLOCK_OK && is_wanted)
        item_enqueue(item);
    else if (is_wanted && item->checkout->options.bypass_locks)
        item_bypass_lock(item);
    else
        item_finish(item, OUTCOME_UNAVAILABLE);
}

/* The wait for a lock ends before the deadline of the request, because the answer "in progress"
   says more than "unavailable". */
static uint32_t lock_wait_ms(const struct checkout_options *options)
{
    uint32_t most_ms = options->timeout_ms / 10 * 9;

    if (options->bypass_locks && !rlock_client_is_up(options->locks))
        return 0;
    return options->lock_wait_ms < most_ms ? options->lock_wait_ms : most_ms;
}

static void item_lock(struct item *item)
{
    const struct checkout_options *options = &item->checkout->options;
    struct rlock_acquire_options acquire = {.lease_ms = options->lease_ms,
                                            .watchdog = true,
                                            .on_lost = checkout_on_lock_lost,
                                            .wait_ms = lock_wait_ms(options)};
    char name[40];
    int len =
        snprintf(name, sizeof(name), "lock:order:%" PRId64, item->placement.user_id);

    item->state = ITEM_LOCKING;
    rlock_acquire(options->locks, &item->lock, name, (size_t)len, &acquire,
                  checkout_on_locked, item);
}

static void checkout_on_stale_unlocked(struct rlock *lock UNUSED,
                                       enum rlock_status status UNUSED, void *arg)
{
    struct item *item = arg;

    if (item->is_answered)
        item_free(item);
    else
        item_lock(item);
}

void item_renew_fence(struct item *item)
{
    item->was_stale = true;
    item_advance(item, ITEM_LOCKING, STAGE_COMMIT);
    rlock_raise_fences(item->checkout->options.locks, item->placement.fence);
    if (rlock_is_held(&item->lock))
        rlock_release(item->checkout->options.locks, &item->lock,
                      checkout_on_stale_unlocked, item);
    else
        checkout_on_stale_unlocked(&item->lock, RLOCK_OK, item);
}

/* -- acceptance -- */

/* Keeps the list in the sequence of arrival. The new item may belong before other items, because
   its request may have waited before it reached the checkout. */
static void insert_deadline(struct item *item)
{
    struct rlock_link *deadlines = &item->checkout->deadlines;
    struct rlock_link *last = deadlines->prev;

    while (last != deadlines &&
           list_item(last, struct item, deadline)->arrived_us > item->arrived_us)
        last = last->prev;
    list_insert_after(last, &item->deadline);
}

size_t checkout_in_flight(const struct checkout *checkout)
{
    return atomic_load(&checkout->in_flight);
}

bool checkout_reserve(struct checkout *checkout)
{
    if (atomic_fetch_add(&checkout->in_flight, 1) < checkout->options.queue_max)
        return true;
    atomic_fetch_sub(&checkout->in_flight, 1);
    return false;
}

bool checkout_submit(struct checkout *checkout, const struct checkout_request *request,
                     checkout_cb callback, void *arg)
{
    return checkout_reserve(checkout) &&
           checkout_submit_reserved(checkout, request, callback, arg);
}

bool checkout_submit_reserved(struct checkout *checkout,
                              const struct checkout_request *request,
                              checkout_cb callback, void *arg)
{
    struct item *item = item_create(checkout);

    assert(request->key.len <= REQUEST_KEY_MAX);
    if (item == NULL) {
        atomic_fetch_sub(&checkout->in_flight, 1);
        return false;
    }
    /* item_enqueue() then finds the queue, and so does not answer */
    if (request->is_entry && queues_get(&checkout->queues, request->voucher_id) == NULL) {
        item_free(item);
        return false;
    }
    item->callback = callback;
    item->arg = arg;
    item->voucher_id = request->voucher_id;
    item->arrived_us = request->arrived_us;
    item->state_since_us = clock_mono_us();
    item->placement = (struct placement){.user_id = request->user_id,
                                         .has_ticket = request->has_ticket};
    if (request->key.bytes != NULL) {
        memcpy(item->key, request->key.bytes, request->key.len);
        item->placement.key = (struct text){item->key, request->key.len};
    }
    if (request->trace != NULL) {
        snprintf(item->trace, sizeof(item->trace), "%s ", request->trace);
        item->span = span_begin(request->trace);
    }
    if (request->handed_us != 0)
        item_end_stage(item, STAGE_HANDOVER, request->handed_us);
    insert_deadline(item);
    if (request->is_entry)
        item_enqueue(item);
    else
        item_lock(item);
    return true;
}
