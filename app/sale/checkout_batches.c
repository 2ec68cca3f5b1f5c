/*
 * checkout_batches.c - batches many small orders into one transaction.
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
 * next batch. Small batches of different vouchers share a transaction. On a slow disk a
 * transaction releases the voucher's row before it is durable: then the next batch is sent,
 * and the orders of the first are answered when a barrier behind it is durable. A slow
 * voucher, for example one whose row is held, gets a bounded share of the connections, so the
 * others keep selling.
 *
 * Guarantee: every accepted request is answered exactly once, at the latest at its
 * deadline: "unavailable" in LOCKING and QUEUED, where nothing was placed, and
 * "unknown" in SENT. After its deadline a request still passes through the remaining
 * states, so its lock and its memory are always released.
 *
 * When a transaction was rolled back for a transient reason, its orders return to the head
 * of their queue: a bounded number of times if it failed at once, and otherwise as long as
 * they have time for another that takes as long. A shared transaction that Postgres refuses is
 * sent again voucher by voucher, and a voucher whose row was held several times is sent alone,
 * because it then waits for the row. When Postgres refuses a row, the batch is split until
 * that row is alone. When the connection was lost, the outcome is looked up
 * before any answer, and the orders that did not commit return to the queue.
 */
#include "app/core/log.h"
#include "app/core/probes.h"
#include "app/sale/checkout_impl.h"
#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS           20 /* between checks of deadlines and unknown batches */
#define TRIES_MAX         5  /* transactions of an order that may fail at once */
#define PRINT_QUEUES_MAX  20
#define GATHER_MAX_US     2000  /* a batch is delayed this long to become larger */
#define GATHER_MIN_ORDERS 16    /* orders of a batch after which the next is delayed */
#define BUNDLE_GATHER_US  10000 /* their orders wait this long for the one under way */
#define BUNDLED_MAX       63    /* orders of a voucher in it */
#define BUNDLE_TRIES_MAX  2     /* bundles that may leave out an order */

static struct batch *batch_create(struct checkout *checkout, struct queue *queue)
{
    struct batch *batch = LIST_SHIFT(struct batch, &checkout->free_batches, link);

    if (batch == NULL) {
        batch = calloc(1, sizeof(*batch) + checkout->options.batch_max * sizeof(void *));
        if (batch == NULL)
            return NULL;
        batch->orders.placements = (struct placement **)(void *)(batch + 1);
        batch->orders.arg = batch;
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

static struct item *batch_item(const struct batch *batch, size_t at)
{
    return list_item(batch->orders.placements[at], struct item, placement);
}

static void batch_add(struct batch *batch, struct item *item)
{
    int64_t deadline_us = item_deadline_us(item);

    batch->orders.placements[batch->orders.count++] = &item->placement;
    if (deadline_us < batch->orders.deadline_us)
        batch->orders.deadline_us = deadline_us;
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
    item->placement = (struct placement){.user_id = request->user_id,
                                         .has_ticket = request->has_ticket};
    if (request->key.bytes != NULL) {
        memcpy(item->key, request->key.bytes, request->key.len);
        item->placement.key = (struct text){item->key, request->key.len};
    }
    item->trace[0] = '\0';
    item->span_id = 0;
    if (request->trace != NULL)
        snprintf(item->trace, sizeof(item->trace), "%s ", request->trace);
    insert_deadline(item);
    item_lock(item);
    return true;
}

/* -- queues -- */

void item_enqueue(struct item *item)
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

/* Whether its lock and its time suffice for another transaction of this queue. */
static bool item_may_be_sent(const struct item *item, const struct queue *queue,
                             int64_t now_us)
{
    return (item->placement.fence == 0 || rlock_safe_for_us(&item->lock, now_us) > 0) &&
           item_deadline_us(item) - now_us >
               queue_needs_us(queue, checkout_timeout_us(item->checkout));
}

/* Returns the item to the head of its queue if it may still be placed. */
static void item_requeue(struct item *item, struct queue *queue)
{
    item->tries += !queue->is_slow;
    if (item->is_answered || item->tries >= TRIES_MAX ||
        !item_may_be_sent(item, queue, clock_mono_us())) {
        item_finish(item, OUTCOME_UNAVAILABLE);
        return;
    }
    item_advance(item, ITEM_QUEUED, STAGE_COMMIT);
    item->checkout->queued++;
    list_insert_after(&queue->items, &item->link);
}

/* -- batches -- */

static void bundle_send(struct checkout *checkout, struct list *bundle);
static bool may_release_early(const struct checkout *checkout);
static void checkout_on_tick(uv_timer_t *timer);

/* NULL: nothing is left to be sent, or memory is out and the orders stay in the queue. */
static struct batch *batch_form(struct checkout *checkout, struct queue *queue)
{
    int64_t now_us = clock_mono_us();
    struct batch *batch = LIST_SHIFT(struct batch, &queue->split_batches, link);
    struct item *item;

    if (batch != NULL)
        return batch;
    batch = batch_create(checkout, queue);
    if (batch == NULL)
        return NULL;
    while (batch->orders.count < checkout->options.batch_max &&
           (item = LIST_SHIFT(struct item, &queue->items, link)) != NULL) {
        checkout->queued--;
        if (!item_may_be_sent(item, queue, now_us)) {
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

/* Whether its next batch may share a transaction. A larger one gains little. */
static bool queue_is_short(const struct queue *queue)
{
    size_t count = 0;

    LIST_EACH(struct item, item, &queue->items, link)
        if (++count > BUNDLED_MAX)
            return false;
    return !queue->is_slow && list_is_empty(&queue->split_batches);
}

/* Does the loop have input to read? Does not wait. */
static bool has_input(const struct checkout *checkout)
{
    struct pollfd loop = {.fd = uv_backend_fd(checkout->options.loop), .events = POLLIN};

    return poll(&loop, 1, 0) > 0;
}

/* After a large transaction, expect as many orders again. */
static void gather_begin(struct checkout *checkout, const struct batch *batch)
{
    size_t count = batch->bundled > 0 ? batch->bundled : batch->orders.count;

    if (count < GATHER_MIN_ORDERS)
        return;
    checkout->gather.voucher_id = batch->bundled > 0 ? 0 : batch->queue->voucher_id;
    checkout->gather.count = checkout->queued + count;
    checkout->gather.until_us = clock_mono_us() + GATHER_MAX_US;
}

static bool queue_is_gathering(const struct checkout *checkout, const struct queue *queue)
{
    bool is_part = checkout->gather.voucher_id == 0
                       ? queue_is_short(queue)
                       : checkout->gather.voucher_id == queue->voucher_id;

    return is_part && checkout->queued < checkout->gather.count &&
           clock_mono_us() < checkout->gather.until_us;
}

static bool queue_is_young(const struct queue *queue, int64_t age_max_us)
{
    const struct item *first = LIST_FIRST(struct item, &queue->items, link);

    return first != NULL && list_is_empty(&queue->split_batches) &&
           clock_mono_us() - first->state_since_us < age_max_us;
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

/* Another shared transaction gains from waiting for the one under way: until that ends, or if
   rows are released early until as many orders wait as are under way. */
static bool bundle_is_small(const struct checkout *checkout)
{
    size_t enough =
        may_release_early(checkout) ? checkout->bundled : checkout->options.batch_max;

    return checkout->bundled > 0 && checkout->queued < enough;
}

static bool queue_is_delayed(const struct checkout *checkout, const struct queue *queue,
                             bool is_busy, bool is_small)
{
    return ((is_busy || queue->unflushed > 0) && queue_is_young(queue, GATHER_MAX_US)) ||
           (is_small && queue_is_short(queue) &&
            queue_is_young(queue, BUNDLE_GATHER_US)) ||
           queue_is_gathering(checkout, queue);
}

/* A transaction costs as much as about thirty rows on top of its own, so a busy machine
   gains from larger batches, and from batches that share it. A batch is delayed, for
   GATHER_MAX_US at most, while the loop has input to read, while the voucher's last batch is
   not durable, and after a large transaction until as many orders have come again; and a
   small one, for BUNDLE_GATHER_US at most, while a shared transaction is under way, see
   bundle_is_small(). The order of a single shopper is not delayed. */
void checkout_turn(struct checkout *checkout)
{
    bool is_busy = !list_is_empty(&checkout->queues.ring) && has_input(checkout);
    struct list bundle, alone; /* the bundle needs a lane */
    bool is_small = bundle_is_small(checkout);
    size_t vouchers = 0, orders = 0;
    struct list delayed;
    struct queue *queue;

    list_init(&bundle);
    list_init(&alone);
    list_init(&delayed);
    while ((queue = next_queue(checkout)) != NULL) {
        bool is_short = queue_is_short(queue);
        bool has_lane = is_short || list_is_empty(&bundle) ||
                        store_batch_room(checkout->options.store, false) > 1;
        struct batch *batch = NULL;

        if (has_lane && !queue_is_delayed(checkout, queue, is_busy, is_small))
            batch = batch_form(checkout, queue);
        if (batch == NULL) {
            list_append(&delayed, &queue->ring);
            continue;
        }
        list_append(is_short ? &bundle : &alone, &batch->orders.link);
        bundle_send(checkout, &alone);
        vouchers += is_short;
        orders += is_short ? batch->orders.count : 0;
        if (vouchers >= checkout->options.vouchers_max ||
            orders >= checkout->options.batch_max) {
            bundle_send(checkout, &bundle);
            vouchers = orders = 0;
            is_small = bundle_is_small(checkout);
        }
    }
    bundle_send(checkout, &bundle);
    if (!list_is_empty(&delayed) && !uv_is_active((uv_handle_t *)&checkout->gather_timer))
        uv_timer_start(&checkout->gather_timer, checkout_on_tick, 1, 0);
    LIST_DRAIN(struct queue, waiting, &delayed, ring)
        queues_update(&checkout->queues, waiting);
    metrics_set(&checkout->options.metrics->queue_depth, checkout->queued);
    metrics_set(&checkout->options.metrics->in_flight, checkout->in_flight);
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
        [VERDICT_TICKET_REQUIRED] = OUTCOME_TICKET_REQUIRED,
    };

    item_end_stage(item, STAGE_COMMIT, item->state_since_us);
    if (item->placement.verdict == VERDICT_NONE && !item->is_answered)
        item_log_unknown(item);
    item_finish(item, outcomes[item->placement.verdict]);
}

static void batch_apply_verdicts(struct batch *batch)
{
    for (size_t i = 0; i < batch->orders.count; i++) {
        struct item *item = batch_item(batch, i);

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
        item_requeue(batch_item(batch, i - 1), batch->queue);
}

static void batch_finish(struct batch *batch, enum outcome outcome)
{
    for (size_t i = 0; i < batch->orders.count; i++)
        item_finish(batch_item(batch, i), outcome);
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

/* Finds the row that Postgres refuses: sends both halves of the batch on their own. */
static void batch_split(struct batch *batch, const struct err *why)
{
    struct checkout *checkout = batch->checkout;
    const struct item *first = batch_item(batch, 0);
    struct batch *tail = NULL;

    if (batch->orders.count > 1)
        tail = batch_create(checkout, batch->queue);
    if (tail == NULL) {
        log_event(LOG_ERROR, "order_refused",
                  "%svoucher_id=%" PRId64 " user_id=%" PRId64 " why=\"%s\"", first->trace,
                  first->voucher_id, first->placement.user_id, LOG_PLAIN(why->text));
        batch_finish(batch, OUTCOME_INTERNAL);
        batch_end(batch);
        return;
    }
    for (size_t i = batch->orders.count / 2; i < batch->orders.count; i++)
        batch_add(tail, batch_item(batch, i));
    batch->orders.count /= 2;
    metrics_add(&checkout->options.metrics->batch_splits, 1);
    list_insert_after(&batch->queue->split_batches, &tail->link);
    list_insert_after(&batch->queue->split_batches, &batch->link);
    batch->queue->is_busy = false;
    queues_update(&checkout->queues, batch->queue);
}

/* The batch is no longer under way in a shared transaction. */
static void batch_leave_bundle(struct batch *batch)
{
    if (batch->bundled > 0)
        batch->checkout->bundled -= batch->orders.count;
}

/* The voucher's next batch may be sent; this one is answered when it is durable. */
static void checkout_on_released(void *arg)
{
    struct batch *batch = arg;
    struct checkout *checkout = batch->checkout;
    struct queue *queue = batch->queue;

    queue_note_time(queue, clock_mono_us() - batch->sent_us, false,
                    checkout_timeout_us(checkout));
    batch->is_released = true;
    batch_leave_bundle(batch);
    queue->unflushed++;
    queue->is_busy = false;
    queues_update(&checkout->queues, queue);
}

static void note_waits(const struct checkout *checkout, const struct batch *batch)
{
    int64_t now_us = clock_mono_us();
    int64_t waited_us = 0;

    for (size_t i = 0; i < batch->orders.count; i++)
        waited_us += now_us - batch_item(batch, i)->arrived_us;
    early_release_note(checkout->options.early_release, batch->orders.count, waited_us,
                       batch->sent_us, now_us);
}

static void checkout_on_placed(enum status status,
                               const struct voucher_snapshot *snapshot,
                               const struct err *why, void *arg)
{
    struct batch *batch = arg;
    struct checkout *checkout = batch->checkout;
    int64_t took_us = clock_mono_us() - batch->sent_us;

    if (!batch->is_released)
        batch_leave_bundle(batch);
    if (snapshot != NULL)
        catalogue_update(checkout->options.catalogue, snapshot);
    if (batch->bundled > 0 && /* it was refused, or has left this out for too often */
        (status == STATUS_REFUSED ||
         (status == STATUS_BUSY && batch_item(batch, 0)->tries >= BUNDLE_TRIES_MAX))) {
        batch->queue->is_slow = true; /* it is placed alone: others may be the cause */
        batch_requeue(batch);
        batch_end(batch);
        return;
    }
    switch (status) {
    case STATUS_OK:
        PROBE(batch_committed, batch->orders.voucher_id, batch->orders.count, took_us);
        if (!batch->is_released)
            queue_note_time(batch->queue, took_us, false, checkout_timeout_us(checkout));
        gather_begin(checkout, batch);
        if (checkout->options.early_release != NULL)
            note_waits(checkout, batch);
        batch_apply_verdicts(batch);
        batch_end(batch);
        break;
    case STATUS_BUSY:
    case STATUS_DOWN:
        if (status == STATUS_BUSY && batch->bundled == 0) /* else another waited */
            queue_note_time(batch->queue, took_us, true, checkout_timeout_us(checkout));
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

/* A batch that nobody waits for gains nothing from an early release. */
static bool may_release_early(const struct checkout *checkout)
{
    return checkout->options.early_release != NULL && checkout->in_flight > 1 &&
           early_release_is_on(checkout->options.early_release);
}

/* Batches of different vouchers, in one transaction. Empties the bundle. */
static void bundle_send(struct checkout *checkout, struct list *bundle)
{
    bool is_early = may_release_early(checkout);
    bool is_alone = bundle->next == bundle->prev;
    size_t orders = 0;
    int64_t now_us = clock_mono_us();
    int64_t error_us;
    int64_t sent_at_us = catalogue_now_us(checkout->options.catalogue, &error_us);

    LIST_EACH(struct batch, batch, bundle, orders.link)
        orders += batch->orders.count;
    LIST_EACH(struct batch, batch, bundle, orders.link) {
        batch->queue->is_busy = true;
        batch->bundled = is_alone ? 0 : orders;
        checkout->bundled += is_alone ? 0 : batch->orders.count;
        batch->sent_us = now_us;
        batch->sent_at_us = sent_at_us - error_us;
        batch->orders.is_slow = batch->queue->is_slow;
        batch->orders.released = is_early ? checkout_on_released : NULL;
        metrics_observe_batch(checkout->options.metrics, batch->orders.count);
        PROBE(batch_sent, batch->orders.voucher_id, batch->orders.count);
    }
    if (!list_is_empty(bundle))
        store_place_orders(checkout->options.store, bundle, checkout_on_placed);
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
        is_awaited |= !batch_item(batch, i)->is_answered;
    if (status == STATUS_OK) {
        for (size_t i = batch->orders.count; i > 0; i--) {
            struct item *item = batch_item(batch, i - 1);

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

/* -- deadlines -- */

static void checkout_on_tick(uv_timer_t *timer)
{
    struct checkout *checkout = timer->data;
    int64_t now_us = clock_mono_us();
    struct item *first;

    while ((first = LIST_FIRST(struct item, &checkout->deadlines, deadline)) != NULL &&
           now_us >= item_deadline_us(first))
        item_time_out(first);
    checkout_answer_overdue_unlocks(checkout, now_us);
    LIST_DRAIN_PRESENT(struct batch, batch, &checkout->unknown, link)
        store_resolve_orders(checkout->options.store, &batch->orders,
                             checkout_on_resolved);
}

size_t checkout_in_flight(const struct checkout *checkout)
{
    return checkout->in_flight;
}

void checkout_print_queues(const struct checkout *checkout, FILE *out)
{
    const struct queue *queue;
    size_t printed = 0, at = 0;

    while (printed < PRINT_QUEUES_MAX &&
           (queue = idmap_next(&checkout->queues.map, &at)) != NULL) {
        const struct item *first = LIST_FIRST(struct item, &queue->items, link);

        if (first == NULL)
            continue;
        fprintf(out,
                "%s{\"voucher_id\":\"%" PRId64 "\",\"depth\":%zu,\"oldest_us\":%" PRId64
                ",\"is_busy\":%d,\"is_slow\":%d}",
                printed++ > 0 ? "," : "", queue->voucher_id, list_count(&queue->items),
                clock_mono_us() - first->arrived_us, queue->is_busy, queue->is_slow);
    }
}

struct checkout *checkout_create(const struct checkout_options *options)
{
    struct checkout *checkout = calloc(1, sizeof(*checkout));

    if (checkout == NULL)
        return NULL;
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
