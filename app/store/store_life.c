/*
 * store_life.c - what becomes of orders after they were placed, and their history.
 *
 * Changes that wait while others are committed go together into the next transaction, one
 * for each voucher and kind of change. Batches of orders that are overdue are found by
 * reading, a few hundred at once, and then looked at voucher by voucher: a call takes the
 * voucher's lock, and tells what it found to do.
 */
#include "app/store/store_impl.h"

#include <stdlib.h>
#include <string.h>

#define DUE_MAX        500 /* batches in one look */
#define CHANGES_IN_ONE 500 /* a transaction: the sale of the voucher waits for it */

/* -- changes -- */

enum changed_column { CHANGED_POS, CHANGED_VERDICT, CHANGED_ORDER };

static void answer_change(const struct ask *ask, enum status status,
                          const PGresult *result, int row)
{
    enum change_verdict verdict = CHANGE_NO_ORDER;
    struct order order;

    if (status == STATUS_OK)
        verdict = (enum change_verdict)result_int64(result, row, CHANGED_VERDICT);
    if (verdict != CHANGE_NO_ORDER)
        order = store_decode_order(result, row, CHANGED_ORDER);
    ask->changed(status, verdict, verdict != CHANGE_NO_ORDER ? &order : NULL, ask->arg);
}

/* A row for each, in their order. */
static bool is_understood(const struct call *call, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        if (result_int64(result, row, CHANGED_POS) != row + 1)
            return false;
    }
    return (size_t)PQntuples(result) == call->count;
}

static void on_changed(struct store_call *base, enum status status,
                       const PGresult *result, const struct err *why UNUSED)
{
    struct call *call = call_of(base);
    struct store *store = call->store;
    struct list asks;
    int row = 0;

    if (status == STATUS_OK && !is_understood(call, result))
        status = STATUS_IO;
    list_init(&asks);
    list_append_all(&asks, &call->asks);
    store_call_end(call);
    for (struct list *link; (link = list_shift(&asks)) != NULL; row++) {
        struct ask ask = *list_item(link, struct ask, link);

        list_append(&store->free_asks, link);
        answer_change(&ask, status, result, row);
    }
}

/* Those that wait for the connection travel together. */
static struct call *changes_of(struct store *store, const struct order_change *change)
{
    struct call *call;

    for (struct list *link = store->changing.prev; link != &store->changing;
         link = link->prev) {
        call = list_item(link, struct call, link);
        if (call->voucher_id == change->voucher_id && call->change == change->change &&
            call->count < CHANGES_IN_ONE)
            return call;
    }
    call = store_call_new(store, on_changed);
    call->voucher_id = change->voucher_id;
    call->change = change->change;
    list_append(&store->changing, &call->link);
    return call;
}

void store_change_order(struct store *store, const struct order_change *change,
                        store_change_cb callback, void *arg)
{
    struct ask *ask = store_ask_new(store, arg);
    struct call *call = changes_of(store, change);

    ask->change = change;
    ask->changed = callback;
    list_append(&call->asks, &ask->link);
    call->count++;
}

static void put_payments(struct store_params *params, const struct call *call)
{
    const struct list *link;

    params_array_begin(params, PARAMS_TEXT, call->count);
    for (link = call->asks.next; link != &call->asks; link = link->next)
        params_element_text(params,
                            &list_item(link, struct ask, link)->change->payment_ref);
    params_array_end(params);
    params_array_begin(params, PARAMS_INT64, call->count);
    for (link = call->asks.next; link != &call->asks; link = link->next)
        params_element_int64(params,
                             list_item(link, struct ask, link)->change->amount_cents);
    params_array_end(params);
}

static void put_changes(struct store_params *params, const struct call *call)
{
    const struct list *link;

    params_begin(params);
    params_int64(params, call->voucher_id);
    params_array_begin(params, PARAMS_INT64, call->count);
    for (link = call->asks.next; link != &call->asks; link = link->next)
        params_element_int64(params, list_item(link, struct ask, link)->change->order_id);
    params_array_end(params);
    params_array_begin(params, PARAMS_TEXT, call->count);
    for (link = call->asks.next; link != &call->asks; link = link->next) {
        const char *actor = list_item(link, struct ask, link)->change->actor;

        params_element_text(params, &(struct text){actor, strlen(actor)});
    }
    params_array_end(params);
    if (call->change == CHANGE_PAY)
        put_payments(params, call);
}

void store_send_changes(struct store *store)
{
    while (!list_is_empty(&store->changing) &&
           store_conn_pending(store->changes) < STORE_CONN_DEPTH) {
        struct call *call = list_item(list_shift(&store->changing), struct call, link);

        put_changes(&store->params, call);
        store_ask(store->changes, call, STATEMENT_PAY_ORDER + call->change);
    }
}

/* -- expiry -- */

/* One look for orders that are due, and the calls that it led to. */
struct expiry {
    store_expired_cb callback;
    void *arg;
    size_t calls; /* not answered yet */
    uint64_t expired;
    uint64_t ended;     /* batches that need no further look */
    enum status status; /* the last that was not STATUS_OK */
};

static void expiry_leave(struct expiry *expiry)
{
    if (--expiry->calls > 0)
        return;
    expiry->callback(expiry->status, expiry->expired, expiry->expired + expiry->ended > 0,
                     expiry->arg);
    free(expiry);
}

static void on_expired(struct store_call *base, enum status status,
                       const PGresult *result, const struct err *why UNUSED)
{
    struct call *call = call_of(base);
    struct expiry *expiry = call->arg;

    store_call_end(call);
    if (status == STATUS_OK) {
        expiry->expired += (uint64_t)result_int64(result, 0, 0);
        expiry->ended += (uint64_t)result_int64(result, 0, 1);
    } else {
        expiry->status = status;
    }
    expiry_leave(expiry);
}

/* A row: a voucher and the first orders of its batches that are due. */
static void expire(struct store *store, struct expiry *expiry, const PGresult *due,
                   int row)
{
    struct call *call = store_call_new(store, on_expired);
    struct store_params *params = &store->params;
    struct result_array firsts = result_array(due, row, 1);
    size_t count = firsts.count;

    call->arg = expiry;
    expiry->calls++;
    params_begin(params);
    params_int64(params, result_int64(due, row, 0));
    params_array_begin(params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(params, result_array_next(&firsts));
    params_array_end(params);
    store_ask_change(call, STATEMENT_EXPIRE_BATCHES);
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
                                          bool is_progress, void *arg),
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
    store_ask(store->main, call, STATEMENT_DUE_BATCHES);
}

/* -- history -- */

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
