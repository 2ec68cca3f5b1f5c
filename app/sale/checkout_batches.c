/*
 * checkout_batches.c - a batch of orders, from its forming to its end.
 *
 * A voucher has at most one transaction under way; the orders queued meanwhile form the
 * next batch. Small batches of different vouchers share a transaction, as a bundle. On a slow
 * disk a transaction releases the voucher's row before its commit is durable, so the next batch
 * is sent earlier. The orders of a released batch are answered when the commit is durable.
 *
 * When a transaction was rolled back for a transient reason, its orders return to the head
 * of their queue. An order that has too little time left for another transaction is answered
 * instead, and so is an order whose transactions have failed quickly several times. A voucher
 * whose row is held is slow: it gets a bounded share of the connections, so that other vouchers
 * keep selling.
 *
 * Other failures:
 *
 *   a bundle is refused        each batch of the bundle is sent in a transaction of its own
 *   the voucher's row is held  bundles leave the batch out. After several bundles the batch is
 *                              sent alone, and waits for the row
 *   a single batch is refused  the batch is split into halves, until the refused order is alone.
 *                              This order is answered as an internal error
 *   the connection is lost     the outcome is looked up before any answer. The orders that did not
 *                              commit return to the queue
 */
#include "app/core/log.h"
#include "app/core/probes.h"
#include "app/sale/checkout_impl.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>

#define BUNDLE_TRIES_MAX 2 /* number of bundles that may leave an order out */

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

struct batch *batch_form(struct checkout *checkout, struct queue *queue)
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

static void item_apply_verdict(struct item *item)
{
    static const enum outcome outcomes[] = {
        [VERDICT_NONE] = OUTCOME_UNKNOWN, /* the answer was malformed */
        [VERDICT_PLACED] = OUTCOME_PLACED,
        [VERDICT_REPEATED] = OUTCOME_REPEATED,
        [VERDICT_ALREADY_ORDERED] = OUTCOME_ALREADY_ORDERED,
        [VERDICT_SOLD_OUT] = OUTCOME_SOLD_OUT,
        [VERDICT_NOT_STARTED] = OUTCOME_NOT_STARTED,
        [VERDICT_SALE_ENDED] = OUTCOME_SALE_ENDED,
        [VERDICT_STALE_FENCE] = OUTCOME_UNAVAILABLE,
        [VERDICT_NO_VOUCHER] = OUTCOME_NO_VOUCHER,
        [VERDICT_TICKET_REQUIRED] = OUTCOME_TICKET_REQUIRED,
        [VERDICT_MISDIRECTED] = OUTCOME_MISDIRECTED,
        [VERDICT_ENTERED] = OUTCOME_ENTERED,
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
    /* The last item goes first, because each item goes to the head of the queue. */
    for (size_t i = batch->orders.count; i > 0; i--)
        item_requeue(batch_item(batch, i - 1), batch->queue);
}

static void batch_finish(struct batch *batch, enum outcome outcome)
{
    for (size_t i = 0; i < batch->orders.count; i++)
        item_finish(batch_item(batch, i), outcome);
}

/* Ends the batch after its transaction, so the voucher's next batch may be sent. The unlocks of the
   transaction are sent together. */
static void batch_end(struct batch *batch)
{
    struct checkout *checkout = batch->checkout;
    struct queue *queue = batch->queue;

    if (batch->is_released)
        queue->unflushed--;
    else
        queue->is_busy = false;
    if (batch->is_last)
        rlock_flush(checkout->options.locks);
    batch_free(batch);
    queues_update(&checkout->queues, queue);
}

static void batch_split(struct batch *batch, const struct rlock_err *why)
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

static void batch_leave_bundle(struct batch *batch)
{
    if (batch->is_bundled)
        batch->checkout->bundled -= batch->orders.count;
}

/* The voucher's row is free, so its next batch may be sent. The released batch is answered when its
   commit is durable. */
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

static void note_waits(struct checkout *checkout, const struct batch *batch)
{
    int64_t now_us = clock_mono_us();
    int64_t waited_us = 0;

    for (size_t i = 0; i < batch->orders.count; i++)
        waited_us += now_us - batch_item(batch, i)->arrived_us;
    early_release_note(&checkout->early_release, batch->orders.count, waited_us,
                       batch->sent_us, now_us);
}

/* Whether the batch must be sent without a bundle. Either Postgres has refused its bundle,
   perhaps because of another voucher. Or several bundles have left the batch out, because the
   row was held. */
static bool must_be_alone(const struct batch *batch, enum rlock_status status)
{
    return status == RLOCK_REFUSED ||
           (status == RLOCK_BUSY && batch_item(batch, 0)->tries >= BUNDLE_TRIES_MAX);
}

static void checkout_on_placed(enum rlock_status status,
                               const struct voucher_snapshot *snapshot,
                               const struct rlock_err *why, void *arg)
{
    struct batch *batch = arg;
    struct checkout *checkout = batch->checkout;
    int64_t took_us = clock_mono_us() - batch->sent_us;

    if (!batch->is_released)
        batch_leave_bundle(batch);
    if (snapshot != NULL)
        catalogue_update(checkout->options.catalogue, snapshot, clock_mono_us());
    if (batch->is_bundled && must_be_alone(batch, status)) {
        batch->queue->is_slow = true;
        batch_requeue(batch);
        batch_end(batch);
        return;
    }
    switch (status) {
    case RLOCK_OK:
        PROBE(batch_committed, batch->orders.voucher_id, batch->orders.count, took_us);
        if (!batch->is_released)
            queue_note_time(batch->queue, took_us, false, checkout_timeout_us(checkout));
        if (checkout->options.early_release)
            note_waits(checkout, batch);
        batch_apply_verdicts(batch);
        batch_end(batch);
        break;
    case RLOCK_BUSY:
    case RLOCK_DOWN:
        /* A bundle waits for no row, so its time does not show whether the row is held. */
        if (status == RLOCK_BUSY && !batch->is_bundled)
            queue_note_time(batch->queue, took_us, true, checkout_timeout_us(checkout));
        batch_requeue(batch);
        batch_end(batch);
        break;
    case RLOCK_REFUSED:
        batch_split(batch, why);
        break;
    case RLOCK_CANCELLED:
        batch_finish(batch, OUTCOME_UNKNOWN);
        batch_end(batch);
        break;
    default: /* the outcome is unknown, so the queue stays busy */
        metrics_add(&checkout->options.metrics->outcome_lookups, 1);
        list_append(&checkout->unknown, &batch->link);
    }
}

bool checkout_releases_early(const struct checkout *checkout)
{
    return checkout->options.early_release && checkout_in_flight(checkout) > 1 &&
           early_release_is_on(&checkout->early_release);
}

void checkout_send(struct checkout *checkout, struct rlock_link *batches)
{
    bool is_early = checkout_releases_early(checkout);
    bool is_alone = batches->next == batches->prev;
    int64_t now_us = clock_mono_us();
    int64_t error_us;
    int64_t sent_at_us = catalogue_now_us(checkout->options.catalogue, &error_us);

    LIST_EACH(struct batch, batch, batches, orders.link) {
        batch->queue->is_busy = true;
        batch->is_bundled = !is_alone;
        batch->is_last = batch->orders.link.next == batches;
        if (!is_alone)
            checkout->bundled += batch->orders.count;
        batch->sent_us = now_us;
        batch->sent_at_us = sent_at_us - error_us;
        batch->orders.is_slow = batch->queue->is_slow;
        batch->orders.released = is_early ? checkout_on_released : NULL;
        metrics_observe_batch(checkout->options.metrics, batch->orders.count);
        PROBE(batch_sent, batch->orders.voucher_id, batch->orders.count);
    }
    store_place_orders(checkout->options.store, batches, checkout_on_placed);
}

/* -- look-up of unknown batches -- */

/* Whether a look-up has found the order of an earlier request. An order without a lock is looked up
   by its key, and the shopper may have used the key before. */
static bool was_placed_before(const struct item *item, const struct batch *batch)
{
    return item->placement.verdict == VERDICT_PLACED && item->placement.fence == 0 &&
           item->placement.key.len <= REQUEST_KEY_MAX &&
           item->placement.order.created_us < batch->sent_at_us;
}

static bool batch_is_awaited(const struct batch *batch)
{
    for (size_t i = 0; i < batch->orders.count; i++) {
        if (!batch_item(batch, i)->is_answered)
            return true;
    }
    return false;
}

static void checkout_on_resolved(enum rlock_status status,
                                 const struct voucher_snapshot *snapshot UNUSED,
                                 const struct rlock_err *why UNUSED, void *arg)
{
    struct batch *batch = arg;
    struct checkout *checkout = batch->checkout;

    if (status == RLOCK_OK) {
        for (size_t i = batch->orders.count; i > 0; i--) {
            struct item *item = batch_item(batch, i - 1);

            if (was_placed_before(item, batch))
                item->placement.verdict = VERDICT_REPEATED;
            if (item->placement.verdict != VERDICT_NONE)
                item_apply_verdict(item);
            else
                item_requeue(item, batch->queue);
        }
    } else if (status != RLOCK_CANCELLED && batch_is_awaited(batch)) {
        list_append(&checkout->unknown, &batch->link); /* the next tick tries again */
        return;
    } else {
        batch_finish(batch, OUTCOME_UNKNOWN);
    }
    batch_end(batch);
}

void checkout_look_up_unknown(struct checkout *checkout)
{
    LIST_DRAIN_PRESENT(struct batch, batch, &checkout->unknown, link)
        store_resolve_orders(checkout->options.store, &batch->orders,
                             checkout_on_resolved);
}
