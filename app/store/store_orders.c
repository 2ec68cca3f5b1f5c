/*
 * store_orders.c - placing orders, and finding them again.
 *
 * A batch whose connection failed may have been committed, or may be committed any moment
 * by a server process that has not noticed. So store_resolve_orders() first ends that
 * very process, known by pid and start, and waits until it is gone; only then is what a
 * look-up finds the truth.
 */
#include "app/store/store_impl.h"
#include "base/clock.h"

#include <stdlib.h>

#define RETIRE_AGAIN_MS 5
#define LOOKUP_MAX      1000 /* asks in one query */

/* Of "place": one row; of the others: a row for each placement. */
enum batch_column {
    COLUMN_VERDICTS,
    COLUMN_ORDER_IDS,
    COLUMN_DETAILS,
    COLUMN_PRICE,
    COLUMN_DECIDED,
    COLUMN_EXPIRY,
    COLUMN_STOCK,
    COLUMN_VERSION,
    COLUMN_OPENS,
    COLUMN_CLOSES,
};
enum found_column { FOUND_POS, FOUND_VERDICT, FOUND_ORDER_ID, FOUND_DETAIL };
enum order_column { ORDER_ID, ORDER_VOUCHER_ID, ORDER_USER_ID, ORDER_DETAIL };

/* As order_detail() in sql/ puts them. */
static void take_detail(struct result_array *detail, struct order *ret_order)
{
    ret_order->price_cents = result_array_next(detail);
    ret_order->created_us = result_array_next(detail);
    ret_order->expires_us = result_array_next(detail);
    ret_order->paid_us = result_array_next(detail);
    ret_order->status = (enum order_status)result_array_next(detail);
}

static void put_keys(struct store_params *params, struct placement *const *placements,
                     size_t count)
{
    size_t with_key = 0;

    for (size_t i = 0; i < count; i++)
        with_key += placements[i]->key.bytes != NULL;
    if (with_key == 0) {
        params_null(params); /* spares the server an index */
        return;
    }
    params_array_begin(params, PARAMS_TEXT, count);
    for (size_t i = 0; i < count; i++)
        params_element_text(params, &placements[i]->key);
    params_array_end(params);
}

static void put_batch(struct store *store, int64_t voucher_id,
                      struct placement *const *placements, size_t count)
{
    struct store_params *params = &store->params;

    params_begin(params);
    params_int64(params, voucher_id);
    params_array_begin(params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(params, placements[i]->user_id);
    params_array_end(params);
    params_array_begin(params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(params, placements[i]->fence);
    params_array_end(params);
    put_keys(params, placements, count);
}

static struct call *batch_call(struct store *store, int64_t voucher_id,
                               struct placement *const *placements, size_t count,
                               void (*done)(struct store_call *call, enum status status,
                                            const PGresult *result,
                                            const struct err *why))
{
    struct call *call = store_call_new(store, done);

    call->voucher_id = voucher_id;
    call->placements = placements;
    call->count = count;
    return call;
}

static void answer_batch(struct call *call, enum status status,
                         const struct voucher_snapshot *snapshot, const struct err *why)
{
    store_batch_cb callback = call->callback.batch;
    void *arg = call->arg;

    store_call_end(call);
    callback(status, snapshot, status == STATUS_OK ? NULL : why, arg);
}

/* An answer that makes no sense tells nothing of what was done. */
static void answer_nonsense(struct call *call)
{
    struct err why;

    err_set(&why, STATUS_IO, "the database's answer is not understood");
    answer_batch(call, STATUS_IO, NULL, &why);
}

/* -- placing -- */

static void take_placed(const struct call *call, const PGresult *result)
{
    struct result_array verdicts = result_array(result, 0, COLUMN_VERDICTS);
    struct result_array order_ids = result_array(result, 0, COLUMN_ORDER_IDS);
    const struct order placed = {
        .voucher_id = call->voucher_id,
        .price_cents = result_int64(result, 0, COLUMN_PRICE),
        .created_us = result_time(result, 0, COLUMN_DECIDED),
        .expires_us = result_time(result, 0, COLUMN_EXPIRY),
        .status = ORDER_UNPAID,
    };

    for (size_t i = 0; i < call->count; i++) {
        struct placement *placement = call->placements[i];

        placement->verdict = (enum verdict)result_array_next(&verdicts);
        placement->order = placed;
        placement->order.id = result_array_next(&order_ids);
        placement->order.user_id = placement->user_id;
    }
}

/* Those whose key was used before: their position, then the order as it is now. */
static void take_repeated(const struct call *call, const PGresult *result)
{
    struct result_array details = result_array(result, 0, COLUMN_DETAILS);

    while (details.count > 0) {
        size_t position = (size_t)result_array_next(&details) - 1;

        if (position >= call->count)
            return;
        take_detail(&details, &call->placements[position]->order);
    }
}

static void on_placed(struct store_call *base, enum status status, const PGresult *result,
                      const struct err *why)
{
    struct call *call = call_of(base);
    struct voucher_snapshot snapshot = {.voucher_id = call->voucher_id};

    if (status != STATUS_OK) {
        answer_batch(call, status, NULL, why);
        return;
    }
    if (PQntuples(result) != 1 ||
        result_array(result, 0, COLUMN_VERDICTS).count != call->count) {
        answer_nonsense(call);
        return;
    }
    take_placed(call, result);
    take_repeated(call, result);
    snapshot.now_us = result_time(result, 0, COLUMN_DECIDED);
    snapshot.stock_left = result_int64(result, 0, COLUMN_STOCK);
    snapshot.version = result_int64(result, 0, COLUMN_VERSION);
    snapshot.begin_us = result_time(result, 0, COLUMN_OPENS);
    snapshot.end_us = result_time(result, 0, COLUMN_CLOSES);
    answer_batch(call, STATUS_OK,
                 PQgetisnull(result, 0, COLUMN_VERSION) ? NULL : &snapshot, NULL);
}

/* The lane with the fewest batches under way; NULL when none takes one. */
static struct store_conn *free_lane(const struct store *store)
{
    struct store_conn *best = NULL;

    for (unsigned i = 0; i < store->options.lanes; i++) {
        struct store_conn *conn = store->lanes[i].conn;

        if (store_conn_is_up(conn) && store_conn_pending(conn) < STORE_CONN_DEPTH &&
            (best == NULL || store_conn_pending(conn) < store_conn_pending(best)))
            best = conn;
    }
    return best;
}

void store_place_orders(struct store *store, int64_t voucher_id,
                        struct placement *const *placements, size_t count,
                        store_batch_cb callback, void *arg)
{
    struct call *call = batch_call(store, voucher_id, placements, count, on_placed);
    struct store_conn *lane = free_lane(store);

    call->callback.batch = callback;
    call->arg = arg;
    if (lane == NULL) {
        store_answer_later(call, STATUS_DOWN);
        return;
    }
    put_batch(store, voucher_id, placements, count);
    store_ask(lane, call, STATEMENT_PLACE);
}

/* -- what has become of a batch? -- */

/* Rows in the order of the placements they are about. */
static void take_found(const PGresult *result, int row, int64_t voucher_id,
                       struct placement *placement)
{
    struct result_array detail = result_array(result, row, FOUND_DETAIL);

    placement->verdict = (enum verdict)result_int64(result, row, FOUND_VERDICT);
    placement->order = (struct order){
        .id = result_int64(result, row, FOUND_ORDER_ID),
        .voucher_id = voucher_id,
        .user_id = placement->user_id,
    };
    if (detail.count > 0)
        take_detail(&detail, &placement->order);
}

static void on_resolved(struct store_call *base, enum status status,
                        const PGresult *result, const struct err *why)
{
    struct call *call = call_of(base);

    if (status != STATUS_OK) {
        answer_batch(call, status, NULL, why);
        return;
    }
    if ((size_t)PQntuples(result) != call->count) {
        answer_nonsense(call);
        return;
    }
    for (size_t i = 0; i < call->count; i++)
        take_found(result, (int)i, call->voucher_id, call->placements[i]);
    answer_batch(call, STATUS_OK, NULL, NULL);
}

void store_suspect(struct store *store, struct store_backend backend)
{
    struct suspect *suspect = malloc(sizeof(*suspect));

    if (suspect == NULL)
        abort(); /* forgotten, it could commit after we said that it did not */
    suspect->backend = backend;
    list_append(&store->suspects, &suspect->link);
}

static void answer_resolving(struct store *store, enum status status, bool only_late)
{
    int64_t now_us = clock_mono_us();
    struct list *next;

    for (struct list *link = store->resolving.next; link != &store->resolving;
         link = next) {
        struct call *call = list_item(link, struct call, link);

        next = link->next;
        if (only_late && call->deadline_us > now_us)
            continue;
        list_remove(link);
        store_answer_later(call, status);
    }
}

static void look_up_resolving(struct store *store)
{
    for (struct list *link; (link = list_shift(&store->resolving)) != NULL;) {
        struct call *call = list_item(link, struct call, link);

        put_batch(store, call->voucher_id, call->placements, call->count);
        store_ask(store->main, call, STATEMENT_RESOLVE);
    }
}

static void on_retire_again(uv_timer_t *timer)
{
    struct store *store = timer->data;

    store_resolve_step(store);
    store_flush(store);
}

static void forget_retired(struct store *store)
{
    for (; store->retiring > 0; store->retiring--)
        free(list_item(list_shift(&store->suspects), struct suspect, link));
}

static void on_retired(struct store_call *base, enum status status,
                       const PGresult *result, const struct err *why UNUSED)
{
    struct store *store = list_item(base, struct store, retire_call);
    bool is_done = status == STATUS_OK && result_int64(result, 0, 0) == 0;

    if (is_done)
        forget_retired(store);
    store->retiring = 0;
    if (status == STATUS_CANCELLED)
        return; /* store_close() answers those that wait */
    if (status != STATUS_OK)
        answer_resolving(store, status, false);
    answer_resolving(store, STATUS_TIMEOUT, true);
    uv_timer_start(&store->retire_again, on_retire_again, is_done ? 0 : RETIRE_AGAIN_MS,
                   0);
}

static void ask_to_retire(struct store *store)
{
    struct store_params *params = &store->params;
    size_t count = 0;

    for (struct list *link = store->suspects.next; link != &store->suspects;
         link = link->next)
        count++;
    params_begin(params);
    params_array_begin(params, PARAMS_INT64, count);
    for (struct list *link = store->suspects.next; link != &store->suspects;
         link = link->next)
        params_element_int64(params, list_item(link, struct suspect, link)->backend.pid);
    params_array_end(params);
    params_array_begin(params, PARAMS_TIME, count);
    for (struct list *link = store->suspects.next; link != &store->suspects;
         link = link->next)
        params_element_time(params,
                            list_item(link, struct suspect, link)->backend.start_us);
    params_array_end(params);
    store->retire_call.done = on_retired;
    if (store_conn_send(store->main, &store->retire_call, STATEMENT_RETIRE, params))
        store->retiring = count;
    else
        answer_resolving(store, STATUS_DOWN, false);
}

void store_resolve_step(struct store *store)
{
    if (store->retiring > 0 || list_is_empty(&store->resolving))
        return;
    if (list_is_empty(&store->suspects))
        look_up_resolving(store);
    else
        ask_to_retire(store);
}

void store_resolve_orders(struct store *store, int64_t voucher_id,
                          struct placement *const *placements, size_t count,
                          store_batch_cb callback, void *arg)
{
    struct call *call = batch_call(store, voucher_id, placements, count, on_resolved);

    call->callback.batch = callback;
    call->arg = arg;
    call->deadline_us = clock_mono_us() + (int64_t)store->options.timeout_ms * 1000;
    list_append(&store->resolving, &call->link);
    store_resolve_step(store);
}

/* -- looking up by key -- */

static void answer_asks(struct call *call, enum status status, const PGresult *result)
{
    struct store *store = call->store;
    int64_t voucher_id = call->voucher_id;
    struct list asks;
    int row = 0;

    list_init(&asks);
    list_append_all(&asks, &call->asks);
    store_call_end(call);
    for (struct list *link; (link = list_shift(&asks)) != NULL; row++) {
        struct ask ask = *list_item(link, struct ask, link);

        list_append(&store->free_asks, link);
        if (status == STATUS_OK)
            take_found(result, row, voucher_id, ask.placement);
        ask.callback(status, ask.placement, ask.arg);
    }
}

static void on_found(struct store_call *base, enum status status, const PGresult *result,
                     const struct err *why UNUSED)
{
    struct call *call = call_of(base);

    if (status == STATUS_OK && (size_t)PQntuples(result) != call->count)
        status = STATUS_IO;
    answer_asks(call, status, result);
}

/* Those of this turn for the same voucher travel together. */
static struct call *lookup_of(struct store *store, int64_t voucher_id)
{
    struct call *call;

    for (struct list *link = store->lookups.prev; link != &store->lookups;
         link = link->prev) {
        call = list_item(link, struct call, link);
        if (call->voucher_id == voucher_id && call->count < LOOKUP_MAX)
            return call;
    }
    call = store_call_new(store, on_found);
    call->voucher_id = voucher_id;
    list_append(&store->lookups, &call->link);
    return call;
}

void store_find_by_key(struct store *store, int64_t voucher_id,
                       struct placement *placement,
                       void (*callback)(enum status status, struct placement *placement,
                                        void *arg),
                       void *arg)
{
    struct ask *ask = store_ask_new(store, arg);
    struct call *call = lookup_of(store, voucher_id);

    ask->placement = placement;
    ask->callback = callback;
    list_append(&call->asks, &ask->link);
    call->count++;
}

static void put_asks(struct store_params *params, const struct call *call)
{
    const struct list *link;

    params_begin(params);
    params_int64(params, call->voucher_id);
    params_array_begin(params, PARAMS_INT64, call->count);
    for (link = call->asks.next; link != &call->asks; link = link->next)
        params_element_int64(params,
                             list_item(link, struct ask, link)->placement->user_id);
    params_array_end(params);
    params_array_begin(params, PARAMS_TEXT, call->count);
    for (link = call->asks.next; link != &call->asks; link = link->next)
        params_element_text(params, &list_item(link, struct ask, link)->placement->key);
    params_array_end(params);
}

/* Two at most are under way: the next one grows meanwhile, as batches do. */
void store_send_lookups(struct store *store)
{
    struct list *link;

    while (store_conn_pending(store->main) < STORE_CONN_DEPTH &&
           (link = list_shift(&store->lookups)) != NULL) {
        struct call *call = list_item(link, struct call, link);

        put_asks(&store->params, call);
        store_ask(store->main, call, STATEMENT_FIND);
    }
}

/* -- reading -- */

struct order store_decode_order(const PGresult *result, int row, int first)
{
    struct result_array detail = result_array(result, row, first + ORDER_DETAIL);
    struct order order = {
        .id = result_int64(result, row, first + ORDER_ID),
        .voucher_id = result_int64(result, row, first + ORDER_VOUCHER_ID),
        .user_id = result_int64(result, row, first + ORDER_USER_ID),
    };

    take_detail(&detail, &order);
    return order;
}

static void on_order(struct store_call *base, enum status status, const PGresult *result,
                     const struct err *why UNUSED)
{
    struct call *call = call_of(base);
    store_order_cb callback = call->callback.order;
    void *arg = call->arg;
    struct order order;

    store_call_end(call);
    if (status == STATUS_OK && PQntuples(result) == 0)
        status = STATUS_NOT_FOUND;
    if (status == STATUS_OK)
        order = store_decode_order(result, 0, 0);
    callback(status, status == STATUS_OK ? &order : NULL, arg);
}

void store_read_order(struct store *store, int64_t order_id, int64_t user_id,
                      store_order_cb callback, void *arg)
{
    struct call *call = store_call_new(store, on_order);

    call->callback.order = callback;
    call->arg = arg;
    params_begin(&store->params);
    params_int64(&store->params, order_id);
    params_int64(&store->params, user_id);
    store_ask(store->main, call, STATEMENT_READ_ORDER);
}

static void on_orders(struct store_call *base, enum status status, const PGresult *result,
                      const struct err *why UNUSED)
{
    struct call *call = call_of(base);
    store_orders_cb callback = call->callback.orders;
    void *arg = call->arg;
    size_t count = status == STATUS_OK ? (size_t)PQntuples(result) : 0;
    struct order *orders = count > 0 ? calloc(count, sizeof(*orders)) : NULL;

    store_call_end(call);
    if (count > 0 && orders == NULL)
        status = STATUS_NO_MEMORY;
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        orders[i] = store_decode_order(result, (int)i, 0);
    callback(status, orders, status == STATUS_OK ? count : 0, arg);
    free(orders);
}

void store_list_orders(struct store *store, const struct order_filter *filter,
                       void (*callback)(enum status status, const struct order *orders,
                                        size_t count, void *arg),
                       void *arg)
{
    struct call *call = store_call_new(store, on_orders);

    call->callback.orders = callback;
    call->arg = arg;
    params_begin(&store->params);
    params_int64(&store->params, filter->user_id);
    params_int64(&store->params, filter->voucher_id);
    params_int64(&store->params, filter->before_id == 0 ? INT64_MAX : filter->before_id);
    params_int64(&store->params, filter->limit);
    store_ask(store->main, call, STATEMENT_LIST_ORDERS);
}
