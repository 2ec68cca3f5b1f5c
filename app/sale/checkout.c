/*
 * checkout.c - many small orders become one transaction.
 *
 * An order passes these stages; the lists it is in say where it is:
 *
 *   LOCKING    its lock was asked for, and perhaps is waited for; all locks of a turn
 *              leave in one write
 *   QUEUED     it holds its lock and stands in the queue of its voucher, in order of
 *              arrival
 *   SENT       it is in a transaction, or in the look-up of one whose connection died
 *   UNLOCKING  its lock is being given back; then it is answered
 *
 * A voucher has one transaction under way at most: while it commits the next one grows.
 *
 * Promise: every order taken in is answered exactly once. Its deadline answers it if
 * nothing else does: nothing was done (LOCKING, QUEUED), or unknown (SENT). It then goes
 * its way to the end unseen, so that its lock and its memory are always given back.
 *
 * A transaction that was rolled back for a passing reason puts its orders back to the
 * head of their queue, a bounded number of times; one with a row that Postgres refuses is
 * cut in halves until the row stands alone; one whose connection died is looked up before
 * anyone is told, and what was not committed goes back to the queue.
 */
#include "app/sale/checkout.h"

#include "app/core/log.h"
#include "app/sale/queues.h"
#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TICK_MS            20
#define UNLOCK_PATIENCE_US 20000
#define TRIES_MAX          5 /* of one order, transactions that were rolled back */
#define KEY_BYTES          80
#define GATHER_MAX_US      2000
#define GATHER_MIN_ORDERS  16 /* orders in a batch */

enum stage { LOCKING, QUEUED, SENT, UNLOCKING };

struct item {
    struct list link;     /* in the list of its stage */
    struct list deadline; /* in order of arrival; in none once answered */
    struct rlock lock;
    struct placement placement;
    struct checkout *checkout;
    checkout_cb callback;
    void *arg;
    int64_t voucher_id;
    int64_t arrived_us;
    int64_t stage_us; /* when its stage began */
    enum stage stage;
    enum outcome outcome; /* once UNLOCKING */
    unsigned tries;
    bool is_answered;
    bool was_stale; /* its fence was refused once */
    char key[KEY_BYTES];
    char trace[CHECKOUT_TRACE_BYTES + 1]; /* "", or with a space at its end */
};

struct batch {
    struct list link; /* among queue->split_batches, checkout->unknown, or the free */
    struct checkout *checkout;
    struct queue *queue;
    size_t count;
    struct item **items;           /* both arrays have room for batch_max */
    struct placement **placements; /* those of the items, in the same order */
};

struct checkout {
    struct checkout_options options;
    uv_timer_t timer;
    uv_timer_t gather_timer; /* an early tick: the turn behind it does the rest */
    struct {
        int64_t voucher_id; /* of the last large batch */
        int64_t until_us;
        size_t count; /* of orders in the queue that are waited for */
    } gather;
    struct queues queues;  /* of orders that hold their lock */
    struct list unlocking; /* in order of time */
    struct list deadlines;
    struct list unknown; /* batches to be looked up */
    struct list free_items;
    struct list free_batches;
    size_t in_flight;
    size_t queued;
    uint64_t serial;
    char key_prefix[65]; /* of the keys of orders that have no lock */
};

static void queue_join(struct item *item);

/* -- memory: free lists, so that a running sale allocates nothing -- */

static struct item *item_create(struct checkout *checkout)
{
    struct list *link = list_shift(&checkout->free_items);
    struct item *item =
        link != NULL ? list_item(link, struct item, link) : calloc(1, sizeof(*item));

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

static struct batch *batch_create(struct checkout *checkout, struct queue *queue)
{
    struct list *link = list_shift(&checkout->free_batches);
    struct batch *batch;

    if (link != NULL) {
        batch = list_item(link, struct batch, link);
    } else {
        size_t size = checkout->options.batch_max * sizeof(void *);

        batch = calloc(1, sizeof(*batch) + 2 * size);
        if (batch == NULL)
            return NULL;
        batch->items = (struct item **)(void *)(batch + 1);
        batch->placements = (struct placement **)(void *)((char *)(batch + 1) + size);
        list_init(&batch->link);
    }
    batch->checkout = checkout;
    batch->queue = queue;
    batch->count = 0;
    return batch;
}

static void batch_free(struct batch *batch)
{
    list_remove(&batch->link);
    list_append(&batch->checkout->free_batches, &batch->link);
}

static void batch_add(struct batch *batch, struct item *item)
{
    batch->items[batch->count] = item;
    batch->placements[batch->count++] = &item->placement;
}

/* -- answer and unlock -- */

static void answer(struct item *item, enum outcome outcome)
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

static void enter(struct item *item, enum stage stage, enum metrics_stage done)
{
    int64_t now_us = clock_mono_us();

    metrics_observe_stage_us(item->checkout->options.metrics, done,
                             now_us - item->stage_us);
    item->stage = stage;
    item->stage_us = now_us;
}

static void on_unlocked(struct rlock *lock, enum status status, void *arg)
{
    struct item *item = arg;

    (void)lock;
    if (status == STATUS_LOST)
        metrics_add(&item->checkout->options.metrics->lock_lost, 1);
    metrics_observe_stage_us(item->checkout->options.metrics, STAGE_UNLOCK,
                             clock_mono_us() - item->stage_us);
    answer(item, item->outcome);
    item_free(item);
}

/* Ends the order: its lock goes back, then it is answered, so that a shopper who comes
   back at once, by whatever loop or instance, finds the lock free. */
static void finish(struct item *item, enum outcome outcome)
{
    list_remove(&item->link);
    item->stage = UNLOCKING;
    item->stage_us = clock_mono_us();
    item->outcome = outcome;
    if (rlock_is_held(&item->lock)) {
        list_append(&item->checkout->unlocking, &item->link);
        rlock_release(item->checkout->options.locks, &item->lock, on_unlocked, item);
    } else {
        answer(item, outcome);
        item_free(item);
    }
}

/* A Redis that does not answer must not keep back what Postgres has told. */
static void answer_unlocking(struct checkout *checkout, int64_t now_us)
{
    struct list *link = checkout->unlocking.next;

    while (link != &checkout->unlocking) {
        struct item *item = list_item(link, struct item, link);

        if (now_us - item->stage_us < UNLOCK_PATIENCE_US)
            return;
        link = link->next;
        list_remove(&item->link);
        answer(item, item->outcome);
    }
}

/* -- lock -- */

/* Without a lock there is no fence by which a lost commit could be looked up: an own
   request key takes its place. Longer than a shopper's key can be, so never the same. */
static void go_without_lock(struct item *item)
{
    struct checkout *checkout = item->checkout;

    item->placement.fence = 0;
    if (item->placement.key.bytes == NULL) {
        int len = snprintf(item->key, sizeof(item->key), "%s%015" PRIu64,
                           checkout->key_prefix, checkout->serial++ % 1000000000000000u);

        item->placement.key = (struct text){item->key, (size_t)len};
    }
    queue_join(item);
}

static void on_lock_lost(struct rlock *lock, enum status status, void *arg)
{
    struct item *item = arg;

    (void)lock;
    (void)status;
    metrics_add(&item->checkout->options.metrics->lock_lost, 1);
    if (item->stage == QUEUED) {
        item->checkout->queued--;
        finish(item, OUTCOME_UNAVAILABLE);
    }
    /* SENT: the fence and the constraints decide */
}

static void on_locked(struct rlock *lock, enum status status, void *arg)
{
    struct item *item = arg;

    switch (status) {
    case STATUS_OK:
        item->placement.fence = rlock_fence(lock);
        if (item->is_answered)
            finish(item, OUTCOME_UNAVAILABLE);
        else
            queue_join(item);
        break;
    case STATUS_BUSY:
        finish(item, OUTCOME_IN_PROGRESS);
        break;
    default:
        if (item->checkout->options.bypass_locks && !item->is_answered &&
            status != STATUS_CANCELLED)
            go_without_lock(item);
        else
            finish(item, OUTCOME_UNAVAILABLE);
    }
}

/* A busy lock is told before the order's own deadline, whose answer says less. */
static uint32_t lock_wait_ms(const struct checkout_options *options)
{
    uint32_t most_ms = options->timeout_ms / 10 * 9;

    return options->lock_wait_ms < most_ms ? options->lock_wait_ms : most_ms;
}

static void lock_item(struct item *item)
{
    const struct checkout_options *options = &item->checkout->options;
    struct rlock_acquire_options acquire = {.lease_ms = options->lease_ms,
                                            .watchdog = true,
                                            .on_lost = on_lock_lost,
                                            .wait_ms = lock_wait_ms(options)};
    char name[40];
    int len =
        snprintf(name, sizeof(name), "lock:order:%" PRId64, item->placement.user_id);

    item->stage = LOCKING;
    rlock_acquire(options->locks, &item->lock, name, (size_t)len, &acquire, on_locked,
                  item);
}

/* Kept in order of arrival: one that waited elsewhere first may be older than the last.
 */
static void await_deadline(struct item *item)
{
    struct list *deadlines = &item->checkout->deadlines;
    struct list *last = deadlines->prev;

    while (last != deadlines &&
           list_item(last, struct item, deadline)->arrived_us > item->arrived_us)
        last = last->prev;
    list_append(last->next, &item->deadline); /* behind `last` */
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
    item->stage_us = clock_mono_us();
    item->placement = (struct placement){.user_id = request->user_id};
    if (request->key.bytes != NULL) {
        memcpy(item->key, request->key.bytes, request->key.len);
        item->placement.key = (struct text){item->key, request->key.len};
    }
    item->trace[0] = '\0';
    if (request->trace != NULL)
        snprintf(item->trace, sizeof(item->trace), "%s ", request->trace);
    await_deadline(item);
    lock_item(item);
    return true;
}

/* -- queues -- */

static void queue_join(struct item *item)
{
    struct checkout *checkout = item->checkout;
    struct queue *queue = queues_get(&checkout->queues, item->voucher_id);

    if (queue == NULL) {
        finish(item, OUTCOME_OVERLOADED);
        return;
    }
    enter(item, QUEUED, STAGE_LOCK);
    checkout->queued++;
    list_append(&queue->items, &item->link);
    queues_update(&checkout->queues, queue);
}

/* Back to the head of the queue, if trying again may help and the lock still holds. */
static void queue_rejoin(struct queue *queue, struct item *item)
{
    bool is_safe = item->placement.fence == 0 || rlock_is_held(&item->lock);

    if (item->is_answered || !is_safe || ++item->tries >= TRIES_MAX) {
        finish(item, OUTCOME_UNAVAILABLE);
        return;
    }
    enter(item, QUEUED, STAGE_COMMIT);
    item->checkout->queued++;
    list_append(queue->items.next, &item->link); /* before the first */
}

/* -- batches -- */

static void send_batch(struct batch *batch);
static void on_tick(uv_timer_t *timer);

static bool may_be_sent(const struct item *item, int64_t now_us)
{
    return item->placement.fence == 0 ||
           (rlock_is_held(&item->lock) && rlock_safe_for_us(&item->lock, now_us) > 0);
}

static struct batch *batch_form(struct checkout *checkout, struct queue *queue)
{
    int64_t now_us = clock_mono_us();
    struct batch *batch = batch_create(checkout, queue);
    struct list *link;

    if (batch == NULL)
        return NULL;
    while (batch->count < checkout->options.batch_max &&
           (link = list_shift(&queue->items)) != NULL) {
        struct item *item = list_item(link, struct item, link);

        checkout->queued--;
        if (!may_be_sent(item, now_us)) {
            finish(item, OUTCOME_UNAVAILABLE);
            continue;
        }
        enter(item, SENT, STAGE_QUEUE);
        batch_add(batch, item);
    }
    if (batch->count > 0)
        return batch;
    batch_free(batch);
    return NULL;
}

static void queue_send(struct checkout *checkout, struct queue *queue)
{
    struct list *half = list_shift(&queue->split_batches);
    struct batch *batch =
        half != NULL ? list_item(half, struct batch, link) : batch_form(checkout, queue);

    if (batch != NULL)
        send_batch(batch);
    else
        queues_update(&checkout->queues, queue);
}

/* Does the loop have something to read? Asks without waiting. */
static bool has_input(const struct checkout *checkout)
{
    struct pollfd loop = {.fd = uv_backend_fd(checkout->options.loop), .events = POLLIN};

    return poll(&loop, 1, 0) > 0;
}

/* The shoppers of a large batch are being answered: in a crowd, as many come again. */
static void begin_gathering(struct checkout *checkout, const struct batch *batch)
{
    if (batch->count < GATHER_MIN_ORDERS)
        return;
    checkout->gather.voucher_id = batch->queue->voucher_id;
    checkout->gather.count = checkout->queued + batch->count;
    checkout->gather.until_us = clock_mono_us() + GATHER_MAX_US;
}

static bool is_gathering(const struct checkout *checkout, const struct queue *queue)
{
    return queue->voucher_id == checkout->gather.voucher_id &&
           checkout->queued < checkout->gather.count &&
           clock_mono_us() < checkout->gather.until_us;
}

static bool is_young(const struct queue *queue)
{
    const struct item *first;

    if (list_is_empty(&queue->items) || !list_is_empty(&queue->split_batches))
        return false;
    first = list_item(queue->items.next, struct item, link);
    return clock_mono_us() - first->stage_us < GATHER_MAX_US;
}

/* What a transaction costs beyond its rows is worth some thirty rows, so on a busy
   machine it is better shared. Two things are waited for, both for GATHER_MAX_US at most:
   what has reached the loop already and is only to be read, and, after a large batch, as
   many orders as that one had. A single shopper waits for neither. */
void checkout_turn(struct checkout *checkout)
{
    bool is_busy = !list_is_empty(&checkout->queues.ring) && has_input(checkout);
    struct list gathering;
    struct queue *queue;

    list_init(&gathering);
    while (store_batch_room(checkout->options.store) > 0 &&
           (queue = queues_next(&checkout->queues)) != NULL) {
        if ((is_busy && is_young(queue)) || is_gathering(checkout, queue))
            list_append(&gathering, &queue->ring);
        else
            queue_send(checkout, queue);
    }
    if (!list_is_empty(&gathering) &&
        !uv_is_active((uv_handle_t *)&checkout->gather_timer))
        uv_timer_start(&checkout->gather_timer, on_tick, 1, 0);
    list_append_all(&checkout->queues.ring, &gathering);
    metrics_set(&checkout->options.metrics->queue_depth, checkout->queued);
    metrics_set(&checkout->options.metrics->in_flight, checkout->in_flight);
}

static void on_verdict(struct item *item)
{
    static const enum outcome outcomes[] = {
        [VERDICT_NONE] = OUTCOME_UNKNOWN, /* not an answer of place_orders() */
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
                             clock_mono_us() - item->stage_us);
    finish(item, outcomes[item->placement.verdict]);
}

static void on_relock(struct rlock *lock, enum status status, void *arg)
{
    struct item *item = arg;

    (void)lock;
    (void)status;
    item->stage_us = clock_mono_us();
    lock_item(item);
}

/* The fence was behind that of the shopper's newest order: once more with a new one. */
static void take_new_fence(struct item *item)
{
    item->was_stale = true;
    if (rlock_is_held(&item->lock))
        rlock_release(item->checkout->options.locks, &item->lock, on_relock, item);
    else
        on_relock(&item->lock, STATUS_OK, item);
}

static void batch_answer(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct item *item = batch->items[i];

        if (item->placement.verdict == VERDICT_STALE_FENCE && !item->was_stale &&
            !item->is_answered)
            take_new_fence(item);
        else
            on_verdict(item);
    }
}

static void batch_rejoin(struct batch *batch)
{
    for (size_t i = batch->count; i > 0; i--) /* from the last, each to the head */
        queue_rejoin(batch->queue, batch->items[i - 1]);
}

static void batch_fail(struct batch *batch, enum outcome outcome)
{
    for (size_t i = 0; i < batch->count; i++)
        finish(batch->items[i], outcome);
}

/* The queue was busy with this batch; now the next may go. */
static void batch_end(struct batch *batch)
{
    struct checkout *checkout = batch->checkout;
    struct queue *queue = batch->queue;

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

/* One row is refused: find it by halving. */
static void batch_split(struct batch *batch, const struct err *why)
{
    struct checkout *checkout = batch->checkout;
    struct batch *tail = NULL;

    if (batch->count > 1)
        tail = batch_create(checkout, batch->queue);
    if (tail == NULL) {
        log_refused(batch->items[0], why);
        batch_fail(batch, OUTCOME_INTERNAL);
        batch_end(batch);
        return;
    }
    for (size_t i = batch->count / 2; i < batch->count; i++)
        batch_add(tail, batch->items[i]);
    batch->count /= 2;
    metrics_add(&checkout->options.metrics->batch_splits, 1);
    list_append(batch->queue->split_batches.next, &tail->link); /* before the first ... */
    list_append(batch->queue->split_batches.next, &batch->link);
    batch->queue->is_busy = false;
    queues_update(&checkout->queues, batch->queue);
}

static void on_placed(enum status status, const struct voucher_snapshot *snapshot,
                      const struct err *why, void *arg)
{
    struct batch *batch = arg;
    struct checkout *checkout = batch->checkout;

    if (snapshot != NULL)
        checkout->options.report(snapshot, checkout->options.arg);
    switch (status) {
    case STATUS_OK:
        begin_gathering(checkout, batch);
        batch_answer(batch);
        batch_end(batch);
        break;
    case STATUS_DOWN:
    case STATUS_BUSY:
        batch_rejoin(batch);
        batch_end(batch);
        break;
    case STATUS_REFUSED:
        batch_split(batch, why);
        break;
    case STATUS_CANCELLED:
        batch_fail(batch, OUTCOME_UNKNOWN);
        batch_end(batch);
        break;
    default: /* the queue stays busy until it is known */
        metrics_add(&checkout->options.metrics->outcome_lookups, 1);
        list_append(&checkout->unknown, &batch->link);
    }
}

static void send_batch(struct batch *batch)
{
    struct checkout *checkout = batch->checkout;

    batch->queue->is_busy = true;
    metrics_observe_batch(checkout->options.metrics, batch->count);
    store_place_orders(checkout->options.store, batch->queue->voucher_id,
                       batch->placements, batch->count, on_placed, batch);
}

/* -- looking up what became of a batch -- */

static void on_resolved(enum status status, const struct voucher_snapshot *snapshot,
                        const struct err *why, void *arg)
{
    struct batch *batch = arg;
    struct checkout *checkout = batch->checkout;
    bool is_wanted = false;

    (void)snapshot;
    (void)why;
    for (size_t i = 0; i < batch->count; i++)
        is_wanted |= !batch->items[i]->is_answered;
    if (status == STATUS_OK) {
        for (size_t i = batch->count; i > 0; i--) {
            struct item *item = batch->items[i - 1];

            if (item->placement.verdict == VERDICT_PLACED)
                on_verdict(item);
            else
                queue_rejoin(batch->queue, item);
        }
    } else if (is_wanted && status != STATUS_CANCELLED) {
        list_append(&checkout->unknown, &batch->link); /* on_tick() asks again */
        return;
    } else {
        batch_fail(batch, OUTCOME_UNKNOWN);
    }
    batch_end(batch);
}

static void resolve_unknown(struct checkout *checkout)
{
    struct list asking;
    struct list *link;

    list_init(&asking);
    list_append_all(&asking, &checkout->unknown);
    while ((link = list_shift(&asking)) != NULL) {
        struct batch *batch = list_item(link, struct batch, link);

        store_resolve_orders(checkout->options.store, batch->queue->voucher_id,
                             batch->placements, batch->count, on_resolved, batch);
    }
}

/* -- time -- */

static void expire(struct item *item)
{
    switch (item->stage) {
    case LOCKING: /* on_locked() gives back what comes */
        answer(item, OUTCOME_UNAVAILABLE);
        break;
    case QUEUED:
        item->checkout->queued--;
        finish(item, OUTCOME_UNAVAILABLE);
        break;
    case UNLOCKING:
        answer(item, item->outcome);
        break;
    case SENT:
        log_event(LOG_WARN, "outcome_unknown",
                  "%svoucher_id=%" PRId64 " user_id=%" PRId64 " fence=%" PRId64,
                  item->trace, item->voucher_id, item->placement.user_id,
                  item->placement.fence);
        answer(item, OUTCOME_UNKNOWN);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct checkout *checkout = timer->data;
    int64_t timeout_us = (int64_t)checkout->options.timeout_ms * 1000;
    int64_t now_us = clock_mono_us();
    struct list *link;

    while ((link = checkout->deadlines.next) != &checkout->deadlines) {
        struct item *item = list_item(link, struct item, deadline);

        if (now_us - item->arrived_us < timeout_us)
            break;
        expire(item);
    }
    answer_unlocking(checkout, now_us);
    resolve_unknown(checkout);
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
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
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
    uv_timer_start(&checkout->timer, on_tick, TICK_MS, TICK_MS);
    return checkout;
}

static void on_closed(uv_handle_t *handle)
{
    struct checkout *checkout = handle->data;
    struct list *link;

    while ((link = list_shift(&checkout->free_items)) != NULL)
        free(list_item(link, struct item, link));
    while ((link = list_shift(&checkout->free_batches)) != NULL)
        free(list_item(link, struct batch, link));
    queues_clear(&checkout->queues);
    free(checkout);
}

void checkout_close(struct checkout *checkout)
{
    if (checkout == NULL)
        return;
    assert(checkout->in_flight == 0);
    uv_close((uv_handle_t *)&checkout->gather_timer, NULL);
    uv_close((uv_handle_t *)&checkout->timer, on_closed);
}
