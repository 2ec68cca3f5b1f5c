/*
 * store_life.c - what becomes of orders after they were placed, and their history.
 *
 * Orders that are overdue are found by reading, a few hundred at once, and then expired
 * voucher by voucher: a call takes the voucher's lock, and tells what it found to do.
 */
#include "app/store_impl.h"

#include <stdlib.h>
#include <string.h>

#define DUE_MAX                                                                          \
    500 /* orders in one transaction: the sale of their voucher waits for it */

/* -- changes ----------------------------------------------------------------------- */

enum changed_column { CHANGED_VERDICT, CHANGED_ORDER };

static void on_changed(struct store_call *base, enum status status,
                       const PGresult *result, const struct err *why UNUSED)
{
    struct call *call = call_of(base);
    store_change_cb callback = call->callback.change;
    void *arg = call->arg;
    enum change_verdict verdict = CHANGE_NO_ORDER;
    struct order order;

    store_call_end(call);
    if (status == STATUS_OK && PQntuples(result) != 1)
        status = STATUS_IO;
    if (status == STATUS_OK)
        verdict = (enum change_verdict)result_int64(result, 0, CHANGED_VERDICT);
    if (verdict != CHANGE_NO_ORDER)
        order = store_decode_order(result, 0, CHANGED_ORDER);
    callback(status, verdict, verdict != CHANGE_NO_ORDER ? &order : NULL, arg);
}

void store_change_order(struct store *store, const struct order_change *change,
                        store_change_cb callback, void *arg)
{
    struct call *call = store_call_new(store, on_changed);
    struct store_params *params = &store->params;

    call->callback.change = callback;
    call->arg = arg;
    params_begin(params);
    params_int64(params, change->voucher_id);
    params_int64(params, change->order_id);
    params_text(params, &(struct text){change->actor, strlen(change->actor)});
    if (change->change == CHANGE_PAY) {
        params_text(params, &change->payment_ref);
        params_int64(params, change->amount_cents);
    }
    store_ask_change(call, STATEMENT_PAY_ORDER + change->change);
}

/* -- expiry ------------------------------------------------------------------------ */

/* One look for orders that are due, and the calls that it led to. */
struct expiry {
    store_expired_cb callback;
    void *arg;
    size_t calls; /* not answered yet */
    uint64_t expired;
    enum status status; /* the last that was not STATUS_OK */
};

static void expiry_leave(struct expiry *expiry)
{
    if (--expiry->calls > 0)
        return;
    expiry->callback(expiry->status, expiry->expired, expiry->arg);
    free(expiry);
}

static void on_expired(struct store_call *base, enum status status,
                       const PGresult *result, const struct err *why UNUSED)
{
    struct call *call = call_of(base);
    struct expiry *expiry = call->arg;

    store_call_end(call);
    if (status == STATUS_OK)
        expiry->expired += (uint64_t)result_int64(result, 0, 0);
    else
        expiry->status = status;
    expiry_leave(expiry);
}

/* A row: a voucher and its orders that are due. */
static void expire(struct store *store, struct expiry *expiry, const PGresult *due,
                   int row)
{
    struct call *call = store_call_new(store, on_expired);
    struct store_params *params = &store->params;
    struct result_array orders = result_array(due, row, 1);
    size_t count = orders.count;

    call->arg = expiry;
    expiry->calls++;
    params_begin(params);
    params_int64(params, result_int64(due, row, 0));
    params_array_begin(params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(params, result_array_next(&orders));
    params_array_end(params);
    store_ask_change(call, STATEMENT_EXPIRE_ORDERS);
}

static void on_due(struct store_call *base, enum status status, const PGresult *result,
                   const struct err *why UNUSED)
{
    struct call *call = call_of(base);
    struct store *store = call->store;
    struct expiry *expiry = call->arg;

    store_call_end(call);
    expiry->status = status;
    for (int row = 0; status == STATUS_OK && row < PQntuples(result); row++)
        expire(store, expiry, result, row);
    expiry_leave(expiry);
}

void store_expire_orders(struct store *store,
                         void (*callback)(enum status status, uint64_t expired,
                                          void *arg),
                         void *arg)
{
    struct call *call = store_call_new(store, on_due);
    struct expiry *expiry = malloc(sizeof(*expiry));

    if (expiry == NULL)
        abort(); /* as store_call_new() */
    *expiry = (struct expiry){.callback = callback, .arg = arg, .calls = 1};
    call->arg = expiry;
    params_begin(&store->params);
    params_int64(&store->params, DUE_MAX);
    store_ask(store->main, call, STATEMENT_DUE_ORDERS);
}

/* -- history ----------------------------------------------------------------------- */

enum event_column {
    EVENT_ID,
    EVENT_VOUCHER_ID,
    EVENT_ORDER_ID,
    EVENT_AT,
    EVENT_STOCK_CHANGE,
    EVENT_ACTOR,
    EVENT_FROM,
    EVENT_TO,
    EVENT_DETAIL,
};

static struct event decode_event(const PGresult *result, int row)
{
    return (struct event){
        .id = result_int64(result, row, EVENT_ID),
        .voucher_id = result_int64(result, row, EVENT_VOUCHER_ID),
        .order_id = result_int64(result, row, EVENT_ORDER_ID),
        .at_us = result_time(result, row, EVENT_AT),
        .stock_change = result_int64(result, row, EVENT_STOCK_CHANGE),
        .actor = result_text(result, row, EVENT_ACTOR),
        .from_status = result_text(result, row, EVENT_FROM),
        .to_status = result_text(result, row, EVENT_TO),
        .detail = result_text(result, row, EVENT_DETAIL),
    };
}

static void on_events(struct store_call *base, enum status status, const PGresult *result,
                      const struct err *why UNUSED)
{
    struct call *call = call_of(base);
    store_events_cb callback = call->callback.events;
    void *arg = call->arg;
    size_t count = status == STATUS_OK ? (size_t)PQntuples(result) : 0;
    struct event *events = count > 0 ? calloc(count, sizeof(*events)) : NULL;

    store_call_end(call);
    if (count > 0 && events == NULL)
        status = STATUS_NO_MEMORY;
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        events[i] = decode_event(result, (int)i);
    callback(status, events, status == STATUS_OK ? count : 0, arg);
    free(events);
}

void store_list_events(struct store *store, const struct event_filter *filter,
                       void (*callback)(enum status status, const struct event *events,
                                        size_t count, void *arg),
                       void *arg)
{
    struct call *call = store_call_new(store, on_events);
    struct store_params *params = &store->params;

    call->callback.events = callback;
    call->arg = arg;
    params_begin(params);
    params_int64(params, filter->voucher_id);
    params_int64(params, filter->after_id);
    params_int64(params, filter->limit);
    if (filter->order_id != 0)
        params_int64(params, filter->order_id);
    store_ask(store->main, call,
              filter->order_id != 0 ? STATEMENT_ORDER_EVENTS : STATEMENT_VOUCHER_EVENTS);
}
