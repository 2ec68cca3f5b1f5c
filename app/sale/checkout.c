/*
 * checkout.c - batches many small orders into one transaction.
 *
 * checkout_submit() accepts an order request, or refuses it at once when too many are in
 * flight, so waiting is bounded. An accepted request passes through these states:
 *
 *   LOCKING    it has requested its lock; the requests of one turn of the loop leave in
 *              one write
 *   QUEUED     it holds its lock and waits in the queue of its voucher, in order of
 *              arrival
 *   SENT       it is in a transaction, or in the look-up after a lost connection
 *   UNLOCKING  its lock is being released; the answer follows
 *
 * A voucher has at most one transaction under way; the orders queued meanwhile form the
 * next batch. On a slow disk a transaction releases the voucher's row before it is durable:
 * then the next batch is sent, and the orders of the first are answered when a barrier
 * behind it is durable. A slow voucher, for example one whose row is held, gets a bounded share of the
 * connections, so the others keep selling.
 *
 * Guarantee: every accepted request is answered exactly once, at the latest at its
 * deadline: "unavailable" in LOCKING and QUEUED, where nothing was placed, and
 * "unknown" in SENT. After its deadline a request still passes through the remaining
 * states, so its lock and its memory are always released.
 *
 * When a transaction was rolled back for a transient reason, its orders return to the head
 * of their queue: a bounded number of times if it failed at once, and otherwise as long as
 * they have time for another that takes as long. When Postgres refuses a row, the batch is
 * split until that row is alone. When the connection was lost, the outcome is looked up
 * before any answer, and the orders that did not commit return to the queue.
 *
 * Threads: the owning loop's only.
 */
#include "app/sale/checkout.h"

#include "app/core/log.h"
#include "app/core/queues.h"
#include "base/clock.h"
#include "base/closing.h"
#include "base/random.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS           20    /* between checks of deadlines and unknown batches */
#define UNLOCK_WAIT_US    20000 /* an answer waits this long for the release of its lock */
#define TRIES_MAX         5     /* transactions of an order that may fail at once */
#define KEY_BYTES         80
#define GATHER_MAX_US     2000 /* a batch is delayed this long to become larger */
#define EARLY_COMMIT_US   1000 /* commits that take as long are worth an early release */
#define GATHER_MIN_ORDERS 16   /* orders of a batch after which the next is delayed */

enum item_state { ITEM_LOCKING, ITEM_QUEUED, ITEM_SENT, ITEM_UNLOCKING };

/* An accepted request. */
struct item {
    struct list link;     /* in the list of its state */
    struct list deadline; /* in checkout->deadlines until it is answered */
    struct rlock lock;
    struct placement placement;
    struct checkout *checkout;
    checkout_cb callback;
    void *arg;
    int64_t voucher_id;
    int64_t arrived_us;
    int64_t state_since_us;
    enum item_state state;
    enum outcome outcome; /* set in UNLOCKING */
    unsigned tries;       /* transactions that failed at once */
    bool is_answered;
    bool was_stale; /* its fence was refused once */
    char key[KEY_BYTES];
    char trace[CHECKOUT_TRACE_BYTES + 1]; /* "", or ends with a space */
};

struct batch {
    struct list link; /* in queue->split_batches, checkout->unknown or ->free_batches */
    struct checkout *checkout;
    struct queue *queue;
    struct store_batch orders; /* placements: of the items, in the same order */
    struct item **items;       /* as the placements, with room for batch_max */
    bool is_released; /* its voucher's row is free, its commit is not durable yet */
    int64_t sent_us;
    int64_t sent_at_us; /* the same, not too late, by the database's clock */
};

struct checkout {
    struct checkout_options options;
    struct closing closing;
    uv_timer_t timer;
    uv_timer_t gather_timer; /* wakes the loop for checkout_turn() */
    struct {
        int64_t voucher_id; /* of the last large batch */
        int64_t until_us;
        size_t count; /* queued orders that end the delay */
    } gather;
    struct queues queues;
    struct list unlocking; /* items, by state_since_us */
    struct list deadlines; /* items, by arrived_us */
    struct list unknown;   /* batches whose outcome must be looked up */
    struct list free_items;
    struct list free_batches;
    size_t in_flight; /* items that exist */
    size_t queued;    /* items in QUEUED */
    uint64_t generated_keys;
    char key_prefix[65]; /* of the generated keys */
};

static void item_enqueue(struct item *item);

/* -- memory: free lists, so that a sale allocates nothing once it runs -- */

static struct item *item_create(struct checkout *checkout)
{
    struct item *item = LIST_SHIFT(struct item, &checkout->free_items, link);

    if (item == NULL)
        item = calloc(1, sizeof(*item));
    if (item == NULL)
        return NULL;
    list_init(&item->link);
    list_init(&item->deadline);
    item->checkout = checkout;
    item->tries = 0;
    item->is_answered = item->was_stale = false;
    checkout->in_flight++;
    return item;
}

static void item_free(struct item *item)
{
    struct checkout *checkout = item->checkout;

    list_remove(&item->link);
    list_append(&checkout->free_items, &item->link);
    checkout->in_flight--;
}

static int64_t timeout_us(const struct checkout *checkout)
{
    return checkout->options.timeout_ms * INT64_C(1000);
}

static int64_t item_deadline_us(const struct item *item)
{
    return item->arrived_us + timeout_us(item->checkout);
}

static struct batch *batch_create(struct checkout *checkout, struct queue *queue)
{
    struct batch *batch = LIST_SHIFT(struct batch, &checkout->free_batches, link);

    if (batch == NULL) {
        size_t size = checkout->options.batch_max * sizeof(void *);

        batch = calloc(1, sizeof(*batch) + 2 * size);
        if (batch == NULL)
            return NULL;
        batch->items = (struct item **)(void *)(batch + 1);
        batch->orders.placements =
            (struct placement **)(void *)((char *)(batch + 1) + size);
        list_init(&batch->link);
    }
    batch->checkout = checkout;
    batch->queue = queue;
    batch->orders.voucher_id = queue->voucher_id;
    batch->orders.count = 0;
    batch->orders.deadline_us = INT64_MAX;
    batch->is_released = false;
    return batch;
}

static void batch_free(struct batch *batch)
{
    list_remove(&batch->link);
    list_append(&batch->checkout->free_batches, &batch->link);
}

static void batch_add(struct batch *batch, struct item *item)
{
    int64_t deadline_us = item_deadline_us(item);

    batch->items[batch->orders.count] = item;
    batch->orders.placements[batch->orders.count++] = &item->placement;
    if (deadline_us < batch->orders.deadline_us)
        batch->orders.deadline_us = deadline_us;
}

/* -- answer and unlock -- */

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
    metrics_observe_stage_us(checkout->options.metrics, STAGE_TOTAL,
                             clock_mono_us() - item->arrived_us);
    item->callback(outcome, has_order ? &item->placement.order : NULL, item->arg);
}

static void item_advance(struct item *item, enum item_state state,
                         enum metrics_stage ended)
{
    int64_t now_us = clock_mono_us();

    metrics_observe_stage_us(item->checkout->options.metrics, ended,
                             now_us - item->state_since_us);
    item->state = state;
    item->state_since_us = now_us;
}

static void checkout_on_unlocked(struct rlock *lock UNUSED, enum status status, void *arg)
{
    struct item *item = arg;

    if (status == STATUS_LOST)
        metrics_add(&item->checkout->options.metrics->lock_lost, 1);
    metrics_observe_stage_us(item->checkout->options.metrics, STAGE_UNLOCK,
                             clock_mono_us() - item->state_since_us);
    item_answer(item, item->outcome);
    item_free(item);
}

/* Releases the lock, then answers, so that the shopper's next request finds the lock free
   on any loop or instance. */
static void item_finish(struct item *item, enum outcome outcome)
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

/* A slow Redis must not delay an answer that Postgres has given. */
static void answer_overdue_unlocks(struct checkout *checkout, int64_t now_us)
{
    LIST_EACH_SAFE(struct item, item, &checkout->unlocking, link) {
        if (now_us - item->state_since_us < UNLOCK_WAIT_US)
            return;
        list_remove(&item->link);
        item_answer(item, item->outcome);
    }
}

/* -- lock -- */

/* An order without a lock has no fence by which its outcome could be looked up; a
   generated request key replaces the fence. It is longer than a key of a shopper can be,
   so it is never equal to one. */
static void item_bypass_lock(struct item *item)
{
    struct checkout *checkout = item->checkout;

    item->placement.fence = 0;
    if (item->placement.key.bytes == NULL) {
        int len =
            snprintf(item->key, sizeof(item->key), "%s%015" PRIu64, checkout->key_prefix,
                     checkout->generated_keys++ % 1000000000000000u);

        item->placement.key = (struct text){item->key, (size_t)len};
    }
    item_enqueue(item);
}

static void checkout_on_lock_lost(struct rlock *lock UNUSED, enum status status UNUSED,
                                  void *arg)
{
    struct item *item = arg;

    metrics_add(&item->checkout->options.metrics->lock_lost, 1);
    if (item->state == ITEM_QUEUED) {
        item->checkout->queued--;
        item_finish(item, OUTCOME_UNAVAILABLE);
    }
    /* in SENT the fence and the constraints decide */
}

static void checkout_on_locked(struct rlock *lock, enum status status, void *arg)
{
    struct item *item = arg;

    switch (status) {
    case STATUS_OK:
        item->placement.fence = rlock_fence(lock);
        if (item->is_answered)
            item_finish(item, OUTCOME_UNAVAILABLE);
        else
            item_enqueue(item);
        break;
    case STATUS_BUSY:
        item_finish(item, OUTCOME_IN_PROGRESS);
        break;
    default:
        if (item->checkout->options.bypass_locks && !item->is_answered &&
            status != STATUS_CANCELLED)
            item_bypass_lock(item);
        else
            item_finish(item, OUTCOME_UNAVAILABLE);
    }
}

/* Ends before the request's deadline: "in progress" says more than "unavailable". */
static uint32_t lock_wait_ms(const struct checkout_options *options)
{
    uint32_t most_ms = options->timeout_ms / 10 * 9;

    if (options->bypass_locks && !rlock_client_is_up(options->locks))
        return 0; /* it sells without the lock instead */
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

/* A request that waited elsewhere first may be older than the last one. */
static void insert_deadline(struct item *item)
{
    struct list *deadlines = &item->checkout->deadlines;
    struct list *last = deadlines->prev;

    while (last != deadlines &&
           list_item(last, struct item, deadline)->arrived_us > item->arrived_us)
        last = last->prev;
    list_insert_after(last, &item->deadline);
}

bool checkout_submit(struct checkout *checkout, const struct checkout_request *request,
                     checkout_cb callback, void *arg)
{
    struct item *item = NULL;

    assert(request->key.len <= REQUEST_KEY_MAX);
    if (checkout->in_flight < checkout->options.queue_max)
        item = item_create(checkout);
    if (item == NULL)
        return false;
    item->callback = callback;
    item->arg = arg;
    item->voucher_id = request->voucher_id;
    item->arrived_us = request->arrived_us;
    item->state_since_us = clock_mono_us();
    item->placement = (struct placement){.user_id = request->user_id};
    if (request->key.bytes != NULL) {
        memcpy(item->key, request->key.bytes, request->key.len);
        item->placement.key = (struct text){item->key, request->key.len};
    }
    item->trace[0] = '\0';
    if (request->trace != NULL)
        snprintf(item->trace, sizeof(item->trace), "%s ", request->trace);
    insert_deadline(item);
    item_lock(item);
    return true;
}

/* -- queues -- */

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

/* Whether its time suffices for another transaction of this queue. */
static bool item_has_time(const struct item *item, const struct queue *queue,
                          int64_t now_us)
{
    return item_deadline_us(item) - now_us >
           queue_needs_us(queue, timeout_us(item->checkout));
}

/* Returns the item to the head of its queue if it may still be placed. */
static void item_requeue(struct item *item, struct queue *queue)
{
    bool is_safe = item->placement.fence == 0 || rlock_is_held(&item->lock);

    item->tries += !queue->is_slow;
    if (item->is_answered || !is_safe || item->tries >= TRIES_MAX ||
        !item_has_time(item, queue, clock_mono_us())) {
        item_finish(item, OUTCOME_UNAVAILABLE);
        return;
    }
    item_advance(item, ITEM_QUEUED, STAGE_COMMIT);
    item->checkout->queued++;
    list_insert_after(&queue->items, &item->link);
}

/* -- batches -- */

static void batch_send(struct batch *batch);
static void checkout_on_tick(uv_timer_t *timer);

static bool item_may_be_sent(const struct item *item, int64_t now_us)
{
    return item->placement.fence == 0 ||
           (rlock_is_held(&item->lock) && rlock_safe_for_us(&item->lock, now_us) > 0);
}

static struct batch *batch_form(struct checkout *checkout, struct queue *queue)
{
    int64_t now_us = clock_mono_us();
    struct batch *batch = batch_create(checkout, queue);
    struct item *item;

    if (batch == NULL)
        return NULL;
    while (batch->orders.count < checkout->options.batch_max &&
           (item = LIST_SHIFT(struct item, &queue->items, link)) != NULL) {
        checkout->queued--;
        if (!item_may_be_sent(item, now_us) || !item_has_time(item, queue, now_us)) {
            item_finish(item, OUTCOME_UNAVAILABLE);
            continue;
        }
        item_advance(item, ITEM_SENT, STAGE_QUEUE);
        batch_add(batch, item);
    }
    if (batch->orders.count > 0)
        return batch;
    batch_free(batch);
    return NULL;
}

/* Returns  false: out of memory, the orders stay in the queue */
static bool queue_send(struct checkout *checkout, struct queue *queue)
{
    struct batch *batch = LIST_SHIFT(struct batch, &queue->split_batches, link);

    if (batch == NULL)
        batch = batch_form(checkout, queue);
    if (batch == NULL && !list_is_empty(&queue->items))
        return false;
    if (batch != NULL)
        batch_send(batch);
    else
        queues_update(&checkout->queues, queue);
    return true;
}

/* Does the loop have input to read? Does not wait. */
static bool has_input(const struct checkout *checkout)
{
    struct pollfd loop = {.fd = uv_backend_fd(checkout->options.loop), .events = POLLIN};

    return poll(&loop, 1, 0) > 0;
}

/* After a large batch, expect as many orders again. */
static void gather_begin(struct checkout *checkout, const struct batch *batch)
{
    if (batch->orders.count < GATHER_MIN_ORDERS)
        return;
    checkout->gather.voucher_id = batch->queue->voucher_id;
    checkout->gather.count = checkout->queued + batch->orders.count;
    checkout->gather.until_us = clock_mono_us() + GATHER_MAX_US;
}

static bool queue_is_gathering(const struct checkout *checkout, const struct queue *queue)
{
    return queue->voucher_id == checkout->gather.voucher_id &&
           checkout->queued < checkout->gather.count &&
           clock_mono_us() < checkout->gather.until_us;
}

static bool queue_is_young(const struct queue *queue)
{
    const struct item *first;

    if (list_is_empty(&queue->items) || !list_is_empty(&queue->split_batches))
        return false;
    first = list_item(queue->items.next, struct item, link);
    return clock_mono_us() - first->state_since_us < GATHER_MAX_US;
}

/* The queue to be served next, if there is a lane for it; NULL: none. */
static struct queue *next_queue(struct checkout *checkout)
{
    struct queue *queue = NULL;

    if (store_batch_room(checkout->options.store, true) > 0)
        queue = queues_next(&checkout->queues, true);
    if (queue == NULL && store_batch_room(checkout->options.store, false) > 0)
        queue = queues_next(&checkout->queues, false);
    return queue;
}

/* A transaction costs as much as about thirty rows on top of its own, so a busy machine
   gains from larger batches. A batch is delayed, for GATHER_MAX_US at most, while the loop
   has input to read, while the voucher's last batch is not durable, and after a large batch
   until as many orders have come again. The order of a single shopper is not delayed. */
void checkout_turn(struct checkout *checkout)
{
    bool is_busy = !list_is_empty(&checkout->queues.ring) && has_input(checkout);
    struct list delayed;
    struct queue *queue;

    list_init(&delayed);
    while ((queue = next_queue(checkout)) != NULL) {
        if (((is_busy || queue->unflushed > 0) && queue_is_young(queue)) ||
            queue_is_gathering(checkout, queue) || !queue_send(checkout, queue))
            list_append(&delayed, &queue->ring);
    }
    if (!list_is_empty(&delayed) && !uv_is_active((uv_handle_t *)&checkout->gather_timer))
        uv_timer_start(&checkout->gather_timer, checkout_on_tick, 1, 0);
    LIST_DRAIN(struct queue, waiting, &delayed, ring)
        queues_update(&checkout->queues, waiting);
    metrics_set(&checkout->options.metrics->queue_depth, checkout->queued);
    metrics_set(&checkout->options.metrics->in_flight, checkout->in_flight);
}

static void log_unknown(const struct item *item)
{
    log_event(LOG_WARN, "outcome_unknown",
              "%svoucher_id=%" PRId64 " user_id=%" PRId64 " fence=%" PRId64, item->trace,
              item->voucher_id, item->placement.user_id, item->placement.fence);
}

static void item_apply_verdict(struct item *item)
{
    static const enum outcome outcomes[] = {
        [VERDICT_NONE] = OUTCOME_UNKNOWN, /* an answer that is not understood */
        [VERDICT_PLACED] = OUTCOME_PLACED,
        [VERDICT_REPEATED] = OUTCOME_REPEATED,
        [VERDICT_ALREADY_ORDERED] = OUTCOME_ALREADY_ORDERED,
        [VERDICT_SOLD_OUT] = OUTCOME_SOLD_OUT,
        [VERDICT_NOT_STARTED] = OUTCOME_NOT_STARTED,
        [VERDICT_SALE_ENDED] = OUTCOME_SALE_ENDED,
        [VERDICT_STALE_FENCE] = OUTCOME_UNAVAILABLE,
        [VERDICT_NO_VOUCHER] = OUTCOME_NO_VOUCHER,
    };

    metrics_observe_stage_us(item->checkout->options.metrics, STAGE_COMMIT,
                             clock_mono_us() - item->state_since_us);
    if (item->placement.verdict == VERDICT_NONE && !item->is_answered)
        log_unknown(item);
    item_finish(item, outcomes[item->placement.verdict]);
}

static void checkout_on_stale_unlocked(struct rlock *lock UNUSED,
                                       enum status status UNUSED, void *arg)
{
    struct item *item = arg;

    if (item->is_answered)
        item_free(item);
    else
        item_lock(item);
}

/*
 * The shopper's newest order has an equal or greater fence. Another instance got that one,
 * and a failover of Redis has lowered the counter since: raise it, and lock again, once.
 */
static void item_renew_fence(struct item *item)
{
    item->was_stale = true;
    item_advance(item, ITEM_LOCKING, STAGE_COMMIT);
    rlock_raise_fences(item->checkout->options.locks, item->placement.fence);
    if (rlock_is_held(&item->lock))
        rlock_release(item->checkout->options.locks, &item->lock,
                      checkout_on_stale_unlocked, item);
    else
        checkout_on_stale_unlocked(&item->lock, STATUS_OK, item);
}

static void batch_apply_verdicts(struct batch *batch)
{
    for (size_t i = 0; i < batch->orders.count; i++) {
        struct item *item = batch->items[i];

        if (item->placement.verdict == VERDICT_STALE_FENCE && !item->was_stale &&
            !item->is_answered)
            item_renew_fence(item);
        else
            item_apply_verdict(item);
    }
}

static void batch_requeue(struct batch *batch)
{
    for (size_t i = batch->orders.count; i > 0; i--) /* from the last, each to the head */
        item_requeue(batch->items[i - 1], batch->queue);
}

static void batch_finish(struct batch *batch, enum outcome outcome)
{
    for (size_t i = 0; i < batch->orders.count; i++)
        item_finish(batch->items[i], outcome);
}

/* The voucher's transaction is complete; its next batch may be sent. */
static void batch_end(struct batch *batch)
{
    struct checkout *checkout = batch->checkout;
    struct queue *queue = batch->queue;

    if (batch->is_released)
        queue->unflushed--;
    else
        queue->is_busy = false;
    batch_free(batch);
    queues_update(&checkout->queues, queue);
    rlock_flush(checkout->options.locks);
}

static void log_refused(const struct item *item, const struct err *why)
{
    struct err plain = *why;

    log_event(LOG_ERROR, "order_refused",
              "%svoucher_id=%" PRId64 " user_id=%" PRId64 " why=\"%s\"", item->trace,
              item->voucher_id, item->placement.user_id, log_plain(plain.text));
}

/* Finds the row that Postgres refuses: sends both halves of the batch on their own. */
static void batch_split(struct batch *batch, const struct err *why)
{
    struct checkout *checkout = batch->checkout;
    struct batch *tail = NULL;

    if (batch->orders.count > 1)
        tail = batch_create(checkout, batch->queue);
    if (tail == NULL) {
        log_refused(batch->items[0], why);
        batch_finish(batch, OUTCOME_INTERNAL);
        batch_end(batch);
        return;
    }
    for (size_t i = batch->orders.count / 2; i < batch->orders.count; i++)
        batch_add(tail, batch->items[i]);
    batch->orders.count /= 2;
    metrics_add(&checkout->options.metrics->batch_splits, 1);
    list_insert_after(&batch->queue->split_batches, &tail->link);
    list_insert_after(&batch->queue->split_batches, &batch->link);
    batch->queue->is_busy = false;
    queues_update(&checkout->queues, batch->queue);
}

/* The voucher's next batch may be sent; this one is answered when it is durable. */
static void checkout_on_released(void *arg)
{
    struct batch *batch = arg;
    struct checkout *checkout = batch->checkout;
    struct queue *queue = batch->queue;

    queue_note_time(queue, clock_mono_us() - batch->sent_us, false, timeout_us(checkout));
    batch->is_released = true;
    queue->unflushed++;
    queue->is_busy = false;
    queues_update(&checkout->queues, queue);
}

static void checkout_on_placed(enum status status,
                               const struct voucher_snapshot *snapshot,
                               const struct err *why, void *arg)
{
    struct batch *batch = arg;
    struct checkout *checkout = batch->checkout;
    int64_t took_us = clock_mono_us() - batch->sent_us;

    if (snapshot != NULL)
        catalogue_update(checkout->options.catalogue, snapshot);
    switch (status) {
    case STATUS_OK:
        if (!batch->is_released)
            queue_note_time(batch->queue, took_us, false, timeout_us(checkout));
        gather_begin(checkout, batch);
        batch_apply_verdicts(batch);
        batch_end(batch);
        break;
    case STATUS_BUSY:
        queue_note_time(batch->queue, took_us, true, timeout_us(checkout));
        batch_requeue(batch);
        batch_end(batch);
        break;
    case STATUS_DOWN:
        batch_requeue(batch);
        batch_end(batch);
        break;
    case STATUS_REFUSED:
        batch_split(batch, why);
        break;
    case STATUS_CANCELLED:
        batch_finish(batch, OUTCOME_UNKNOWN);
        batch_end(batch);
        break;
    default: /* the outcome is unknown; the queue stays busy */
        metrics_add(&checkout->options.metrics->outcome_lookups, 1);
        list_append(&checkout->unknown, &batch->link);
    }
}

/* A batch that nobody waits for gains nothing from an early release, nor does one on a fast
   disk. A commit is timed by an early batch from time to time. */
static bool batch_is_early(const struct batch *batch)
{
    const struct checkout *checkout = batch->checkout;
    int64_t commit_us = store_commit_us(checkout->options.store);

    return checkout->options.early_release && checkout->in_flight > 1 &&
           (commit_us == 0 || commit_us >= EARLY_COMMIT_US);
}

static void batch_send(struct batch *batch)
{
    struct checkout *checkout = batch->checkout;
    int64_t error_us;

    batch->queue->is_busy = true;
    batch->orders.is_slow = batch->queue->is_slow;
    batch->orders.released = batch_is_early(batch) ? checkout_on_released : NULL;
    batch->sent_us = clock_mono_us();
    batch->sent_at_us = catalogue_now_us(checkout->options.catalogue, &error_us);
    batch->sent_at_us -= error_us;
    metrics_observe_batch(checkout->options.metrics, batch->orders.count);
    store_place_orders(checkout->options.store, &batch->orders, checkout_on_placed,
                       batch);
}

/* -- look-up of unknown batches -- */

/* Without a lock an order is looked up by its key, which may be that of an earlier one unless
   it was generated. */
static bool was_placed_before(const struct item *item, const struct batch *batch)
{
    return item->placement.verdict == VERDICT_PLACED && item->placement.fence == 0 &&
           item->placement.key.len <= REQUEST_KEY_MAX &&
           item->placement.order.created_us < batch->sent_at_us;
}

static void checkout_on_resolved(enum status status,
                                 const struct voucher_snapshot *snapshot UNUSED,
                                 const struct err *why UNUSED, void *arg)
{
    struct batch *batch = arg;
    struct checkout *checkout = batch->checkout;
    bool is_awaited = false;

    for (size_t i = 0; i < batch->orders.count; i++)
        is_awaited |= !batch->items[i]->is_answered;
    if (status == STATUS_OK) {
        for (size_t i = batch->orders.count; i > 0; i--) {
            struct item *item = batch->items[i - 1];

            if (was_placed_before(item, batch))
                item->placement.verdict = VERDICT_REPEATED;
            if (item->placement.verdict != VERDICT_NONE)
                item_apply_verdict(item);
            else
                item_requeue(item, batch->queue);
        }
    } else if (is_awaited && status != STATUS_CANCELLED) {
        list_append(&checkout->unknown, &batch->link); /* tried again at the next tick */
        return;
    } else {
        batch_finish(batch, OUTCOME_UNKNOWN);
    }
    batch_end(batch);
}

static void look_up_unknown(struct checkout *checkout)
{
    struct list unknown;

    list_init(&unknown);
    list_append_all(&unknown, &checkout->unknown);
    LIST_DRAIN(struct batch, batch, &unknown, link)
        store_resolve_orders(checkout->options.store, &batch->orders,
                             checkout_on_resolved, batch);
}

/* -- deadlines -- */

static void item_time_out(struct item *item)
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
        log_unknown(item);
        item_answer(item, OUTCOME_UNKNOWN);
    }
}

static void checkout_on_tick(uv_timer_t *timer)
{
    struct checkout *checkout = timer->data;
    int64_t now_us = clock_mono_us();

    while (!list_is_empty(&checkout->deadlines)) {
        struct item *first = list_item(checkout->deadlines.next, struct item, deadline);

        if (now_us < item_deadline_us(first))
            break;
        item_time_out(first);
    }
    answer_overdue_unlocks(checkout, now_us);
    look_up_unknown(checkout);
}

size_t checkout_in_flight(const struct checkout *checkout)
{
    return checkout->in_flight;
}

struct checkout *checkout_create(const struct checkout_options *options)
{
    struct checkout *checkout = calloc(1, sizeof(*checkout));
    uint64_t random[4];

    if (checkout == NULL)
        return NULL;
    if (!random_fill(random, sizeof(random))) {
        free(checkout);
        return NULL;
    }
    snprintf(checkout->key_prefix, sizeof(checkout->key_prefix),
             "%016" PRIx64 "%016" PRIx64 "%016" PRIx64 "%016" PRIx64, random[0],
             random[1], random[2], random[3]);
    checkout->options = *options;
    queues_init(&checkout->queues);
    list_init(&checkout->unlocking);
    list_init(&checkout->deadlines);
    list_init(&checkout->unknown);
    list_init(&checkout->free_items);
    list_init(&checkout->free_batches);
    uv_timer_init(options->loop, &checkout->gather_timer);
    checkout->gather_timer.data = checkout;
    uv_timer_init(options->loop, &checkout->timer);
    checkout->timer.data = checkout;
    uv_timer_start(&checkout->timer, checkout_on_tick, TICK_MS, TICK_MS);
    return checkout;
}

static void checkout_on_closed(void *arg)
{
    struct checkout *checkout = arg;

    LIST_DRAIN(struct item, item, &checkout->free_items, link)
        free(item);
    LIST_DRAIN(struct batch, batch, &checkout->free_batches, link)
        free(batch);
    queues_clear(&checkout->queues);
    free(checkout);
}

void checkout_close(struct checkout *checkout)
{
    if (checkout == NULL)
        return;
    assert(checkout->in_flight == 0);
    closing_start(&checkout->closing, checkout_on_closed, checkout);
    closing_handle(&checkout->closing, (uv_handle_t *)&checkout->gather_timer);
    closing_handle(&checkout->closing, (uv_handle_t *)&checkout->timer);
    closing_done(&checkout->closing);
}
