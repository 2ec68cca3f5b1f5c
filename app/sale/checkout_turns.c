/*
 * checkout_turns.c - the turns of the checkout: sends the queued orders in batches.
 *
 * At the end of each turn of the loop, checkout_turn() forms batches of the queued orders.
 * dispatch.c decides when a batch is sent, and checkout_batches.c handles the batch from then on.
 * One timer wakes the loop for delayed batches. Another timer checks the deadlines.
 */
#include "app/sale/checkout_impl.h"
#include "app/sale/dispatch.h"
#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK_MS          20 /* interval of the checks for deadlines and for unknown outcomes */
#define PRINT_QUEUES_MAX 20
#define FORM_AGAIN_US    1000 /* pause after a batch could not be formed */

/* -- turns -- */

/* Batches of different vouchers that will share a transaction. */
struct bundle {
    struct rlock_link batches;
    size_t vouchers;
    size_t orders;
};

static void bundle_send(struct checkout *checkout, struct bundle *bundle)
{
    if (bundle->vouchers == 0)
        return;
    checkout_send(checkout, &bundle->batches);
    bundle->vouchers = bundle->orders = 0;
}

static void bundle_add(struct bundle *bundle, struct batch *batch)
{
    list_append(&bundle->batches, &batch->orders.link);
    bundle->vouchers++;
    bundle->orders += batch->orders.count;
}

static bool bundle_is_full(const struct checkout *checkout, const struct bundle *bundle)
{
    return bundle->vouchers >= checkout->options.vouchers_max ||
           bundle->orders >= checkout->options.batch_max;
}

static void send_alone(struct checkout *checkout, struct batch *batch)
{
    struct rlock_link batches;

    list_init(&batches);
    list_append(&batches, &batch->orders.link);
    checkout_send(checkout, &batches);
}

/* Returns the next queue for which a lane is free, or NULL. */
static struct queue *next_queue(struct checkout *checkout)
{
    struct queue *queue = NULL;

    if (store_batch_room(checkout->options.store, true) > 0)
        queue = queues_next(&checkout->queues, true);
    if (queue == NULL && store_batch_room(checkout->options.store, false) > 0)
        queue = queues_next(&checkout->queues, false);
    return queue;
}

/* Whether the loop has input to read, or another loop is handing a request over. */
static bool has_input(const struct checkout *checkout)
{
    struct pollfd loop = {.fd = uv_backend_fd(checkout->options.loop), .events = POLLIN};

    return checkout_in_flight(checkout) > checkout->items || poll(&loop, 1, 0) > 0;
}

static struct dispatch observe(const struct checkout *checkout)
{
    return (struct dispatch){
        .now_us = clock_mono_us(),
        .has_input = !list_is_empty(&checkout->queues.ring) && has_input(checkout),
        .is_early = checkout_releases_early(checkout),
        .waiting = checkout->queued,
        .bundled = checkout->bundled,
        .transaction_max = checkout->options.batch_max,
    };
}

static struct dispatch_queue observe_queue(const struct queue *queue)
{
    struct dispatch_queue seen = {.is_slow = queue->is_slow,
                                  .has_half = !list_is_empty(&queue->split_batches)};

    LIST_EACH(struct item, item, &queue->items, link) {
        if (seen.orders++ == 0)
            seen.since_us = item->state_since_us;
        if (seen.orders > DISPATCH_BUNDLED_MAX)
            break;
    }
    return seen;
}

struct turn {
    struct dispatch dispatch;
    struct bundle bundle;
    struct rlock_link delayed; /* queues */
    int64_t delay_us;          /* time until the first delayed queue may send */
};

/* Sends the next batch of the queue, or adds it to the bundle, or delays the queue. */
static void turn_serve(struct checkout *checkout, struct turn *turn, struct queue *queue)
{
    struct dispatch_queue seen = observe_queue(queue);
    struct dispatch_choice choice;
    struct batch *batch = NULL;

    turn->dispatch.lanes = store_batch_room(checkout->options.store, false);
    turn->dispatch.has_bundle = turn->bundle.vouchers > 0;
    choice = dispatch_choose(&turn->dispatch, &seen);
    if (choice.delay_us == 0) {
        batch = batch_form(checkout, queue);
        choice.delay_us = FORM_AGAIN_US;
    }
    if (batch == NULL) {
        list_append(&turn->delayed, &queue->ring);
        if (choice.delay_us < turn->delay_us)
            turn->delay_us = choice.delay_us;
    } else if (choice.is_bundled) {
        bundle_add(&turn->bundle, batch);
    } else {
        send_alone(checkout, batch);
    }
    if (bundle_is_full(checkout, &turn->bundle)) {
        bundle_send(checkout, &turn->bundle);
        turn->dispatch = observe(checkout);
    }
}

static void checkout_on_tick(uv_timer_t *timer);

static void wake_in(struct checkout *checkout, int64_t delay_us)
{
    if (delay_us != DISPATCH_LATER)
        uv_timer_start(&checkout->turn_timer, checkout_on_tick,
                       (uint64_t)(delay_us + 999) / 1000, 0);
}

void checkout_turn(struct checkout *checkout)
{
    struct turn turn = {.dispatch = observe(checkout), .delay_us = DISPATCH_LATER};
    struct queue *queue;

    list_init(&turn.bundle.batches);
    list_init(&turn.delayed);
    while ((queue = next_queue(checkout)) != NULL)
        turn_serve(checkout, &turn, queue);
    bundle_send(checkout, &turn.bundle);
    LIST_DRAIN(struct queue, delayed, &turn.delayed, ring)
        queues_update(&checkout->queues, delayed);
    wake_in(checkout, turn.delay_us);
    metrics_set(&checkout->options.metrics->queue_depth, checkout->queued);
    metrics_set(&checkout->options.metrics->in_flight, checkout_in_flight(checkout));
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
    checkout_look_up_unknown(checkout);
}

/* -- interface -- */

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
    uv_timer_init(options->loop, &checkout->turn_timer);
    checkout->turn_timer.data = checkout;
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
    assert(checkout_in_flight(checkout) == 0);
    closing_start(&checkout->closing, checkout_on_closed, checkout);
    closing_handle(&checkout->closing, (uv_handle_t *)&checkout->turn_timer);
    closing_handle(&checkout->closing, (uv_handle_t *)&checkout->timer);
    closing_done(&checkout->closing);
}
