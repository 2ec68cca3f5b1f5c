/*
 * store_life.c - changes of placed orders, their expiry and their history.
 *
 * Changes that wait while others are committed share the next transaction, one per voucher
 * and kind of change. Expiry first reads which batches have overdue orders, a few hundred
 * at once, then expires them voucher by voucher, each call under the voucher's row lock.
 */
#include "app/store/store_impl.h"

#include <stdlib.h>
#include <string.h>

#define DUE_MAX       500 /* batches per read */
#define CHANGES_BATCH 500 /* per transaction, during which the voucher's sale waits */

/* -- changes -- */

enum changed_column { CHANGED_POS, CHANGED_VERDICT, CHANGED_ORDER };

static void answer_change(const struct order_change *change, enum status status,
                          const PGresult *result, int row)
{
    int64_t verdict = CHANGE_NO_ORDER;
    struct order order;
    bool has_order;

    if (status == STATUS_OK)
        verdict = result_int64(result, row, CHANGED_VERDICT);
    has_order = verdict != CHANGE_NO_ORDER;
    /* an answer that is not understood leaves the outcome unknown */
    if (verdict < CHANGE_DONE || verdict > CHANGE_REF_USED ||
        (has_order && !store_decode_order(result, row, CHANGED_ORDER, &order))) {
        status = STATUS_IO;
        has_order = false;
    }
    change->callback(status, (enum change_verdict)verdict, has_order ? &order : NULL,
                     change->arg);
}

/* One row per change, in their order. */
static bool is_well_formed(const struct changes_call *call, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        if (result_int64(result, row, CHANGED_POS) != row + 1)
            return false;
    }
    return (size_t)PQntuples(result) == call->count;
}

static void store_on_changed(struct store_query *query, enum status status,
                             const PGresult *result, const struct err *why UNUSED)
{
    struct changes_call *call = list_item(query, struct changes_call, call.query);
    int row = 0;

    if (status == STATUS_OK && !is_well_formed(call, result))
        status = STATUS_IO;
    LIST_DRAIN(struct order_change, change, &call->changes, link)
        answer_change(change, status, result, row++);
    free(call);
}

/* Changes that wait to be sent share a transaction. */
static struct changes_call *changes_call_of(struct store *store,
                                            const struct order_change *change)
{
    struct changes_call *call;

    LIST_EACH(struct changes_call, waiting, &store->changes_calls, call.query.link) {
        if (waiting->voucher_id == change->voucher_id &&
            waiting->change == change->change && waiting->count < CHANGES_BATCH)
            return waiting;
    }
    call = store_call_new(store, sizeof(*call), store_on_changed);
    call->voucher_id = change->voucher_id;
    call->change = change->change;
    list_init(&call->changes);
    list_append(&store->changes_calls, &call->call.query.link);
    return call;
}

void store_change_order(struct store *store, struct order_change *change,
                        store_change_cb callback, void *arg)
{
    struct changes_call *call = changes_call_of(store, change);

    change->callback = callback;
    change->arg = arg;
    list_append(&call->changes, &change->link);
    call->count++;
}

static void put_payments(struct store_params *params, const struct changes_call *call)
{
    params_array_begin(params, PARAMS_TEXT, call->count);
    LIST_EACH(struct order_change, change, &call->changes, link)
        params_element_text(params, &change->payment_ref);
    params_array_end(params);
    params_array_begin(params, PARAMS_INT64, call->count);
    LIST_EACH(struct order_change, change, &call->changes, link)
        params_element_int64(params, change->amount_cents);
    params_array_end(params);
}

static void put_changes(struct store_params *params, const struct changes_call *call)
{
    params_begin(params);
    params_int64(params, call->voucher_id);
    params_array_begin(params, PARAMS_INT64, call->count);
    LIST_EACH(struct order_change, change, &call->changes, link)
        params_element_int64(params, change->order_id);
    params_array_end(params);
    params_array_begin(params, PARAMS_TEXT, call->count);
    LIST_EACH(struct order_change, change, &call->changes, link)
        params_element_text(params, &(struct text){change->actor, strlen(change->actor)});
    params_array_end(params);
    if (call->change == CHANGE_PAY)
        put_payments(params, call);
}

void store_send_changes(struct store *store)
{
    while (!list_is_empty(&store->changes_calls) &&
           store_conn_pending(store->changes) < STORE_CONN_DEPTH) {
        struct changes_call *call =
            LIST_SHIFT(struct changes_call, &store->changes_calls, call.query.link);

        put_changes(&store->params, call);
        store_send(store->changes, &call->call, STATEMENT_PAY_ORDER + call->change);
    }
}

/* -- expiry -- */

/* One run of store_expire_orders(): a read of the due batches, and a call per voucher. */
struct expiry {
    store_expired_cb callback;
    void *arg;
    size_t calls; /* not answered yet */
    uint64_t expired;
    uint64_t finished;  /* batches without further due orders */
    enum status status; /* the last that was not STATUS_OK */
};

struct expiry_call {
    struct call call;
    struct expiry *expiry;
};

static struct expiry_call *expiry_call_new(struct store *store, struct expiry *expiry,
                                           store_query_cb done)
{
    struct expiry_call *call = store_call_new(store, sizeof(*call), done);

    call->expiry = expiry;
    expiry->calls++;
    return call;
}

static void expiry_call_end(struct expiry_call *call)
{
    struct expiry *expiry = call->expiry;

    free(call);
    if (--expiry->calls > 0)
        return;
    expiry->callback(expiry->status, expiry->expired,
                     expiry->expired + expiry->finished > 0, expiry->arg);
    free(expiry);
}

static void store_on_expired(struct store_query *query, enum status status,
                             const PGresult *result, const struct err *why UNUSED)
{
    struct expiry_call *call = list_item(query, struct expiry_call, call.query);
    struct expiry *expiry = call->expiry;

    if (status == STATUS_OK) {
        expiry->expired += (uint64_t)result_int64(result, 0, 0);
        expiry->finished += (uint64_t)result_int64(result, 0, 1);
    } else {
        expiry->status = status;
    }
    expiry_call_end(call);
}

/* A row: a voucher, and the first orders of its batches that are due. */
static void expire(struct store *store, struct expiry *expiry, const PGresult *due,
                   int row)
{
    struct expiry_call *call = expiry_call_new(store, expiry, store_on_expired);
    struct store_params *params = &store->params;
    struct result_array firsts = result_array(due, row, 1);
    size_t count = firsts.count;

    params_begin(params);
    params_int64(params, result_int64(due, row, 0));
    params_array_begin(params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(params, result_array_next(&firsts));
    params_array_end(params);
    store_send_change(&call->call, STATEMENT_EXPIRE_BATCHES);
}

static void store_on_due(struct store_query *query, enum status status,
                         const PGresult *result, const struct err *why UNUSED)
{
    struct expiry_call *call = list_item(query, struct expiry_call, call.query);

    call->expiry->status = status;
    for (int row = 0; status == STATUS_OK && row < PQntuples(result); row++)
        expire(call->call.store, call->expiry, result, row);
    expiry_call_end(call);
}

void store_expire_orders(struct store *store, store_expired_cb callback, void *arg)
{
    struct expiry *expiry = calloc(1, sizeof(*expiry));

    if (expiry == NULL)
        abort(); /* as store_call_new() */
    expiry->callback = callback;
    expiry->arg = arg;
    params_begin(&store->params);
    params_int64(&store->params, DUE_MAX);
    store_send(store->reads, &expiry_call_new(store, expiry, store_on_due)->call,
               STATEMENT_DUE_BATCHES);
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

struct events_call {
    struct call call;
    store_events_cb callback;
    void *arg;
};

static void store_on_events(struct store_query *query, enum status status,
                            const PGresult *result, const struct err *why UNUSED)
{
    struct events_call *call = list_item(query, struct events_call, call.query);
    size_t count = status == STATUS_OK ? (size_t)PQntuples(result) : 0;
    struct event *events = count > 0 ? calloc(count, sizeof(*events)) : NULL;

    if (count > 0 && events == NULL)
        status = STATUS_NO_MEMORY;
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        events[i] = decode_event(result, (int)i);
    call->callback(status, events, status == STATUS_OK ? count : 0, call->arg);
    free(events);
    free(call);
}

void store_list_events(struct store *store, const struct event_filter *filter,
                       store_events_cb callback, void *arg)
{
    struct events_call *call = store_call_new(store, sizeof(*call), store_on_events);
    struct store_params *params = &store->params;

    call->callback = callback;
    call->arg = arg;
    params_begin(params);
    params_int64(params, filter->voucher_id);
    params_int64(params, filter->after_id);
    params_int64(params, filter->limit);
    if (filter->order_id != 0)
        params_int64(params, filter->order_id);
    store_send(store->reads, &call->call,
               filter->order_id != 0 ? STATEMENT_ORDER_EVENTS : STATEMENT_VOUCHER_EVENTS);
}
