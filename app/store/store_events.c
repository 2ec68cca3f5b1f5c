/* store_events.c - reading the history of orders and vouchers, and the feed of all vouchers. */
#include "app/store/store_impl.h"

#include <stdlib.h>

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
    EVENT_FIRST, /* columns of the feed only */
};

enum feed_column { FEED_UNTIL, FEED_LAST_NUMBER, FEED_XID };

static struct event decode_event(const PGresult *result, int row)
{
    return (struct event){
        .id = result_int64(result, row, EVENT_ID),
        .voucher_id = result_int64(result, row, EVENT_VOUCHER_ID),
        .order_id = result_int64(result, row, EVENT_ORDER_ID),
        .at_us = result_time(result, row, EVENT_AT),
        .stock_change = result_int64(result, row, EVENT_STOCK_CHANGE),
        .actor = result_text(result, row, EVENT_ACTOR).bytes,
        .from_status = result_text(result, row, EVENT_FROM).bytes,
        .to_status = result_text(result, row, EVENT_TO).bytes,
        .detail = result_text(result, row, EVENT_DETAIL).bytes,
        .first =
            PQnfields(result) > EVENT_FIRST ? result_int64(result, row, EVENT_FIRST) : 0,
    };
}

static void store_on_events(struct store_query *query, enum rlock_status status,
                            const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    size_t count = (size_t)PQntuples(result);
    struct event *events = count > 0 ? calloc(count, sizeof(*events)) : NULL;

    if (count > 0 && events == NULL)
        status = RLOCK_NO_MEMORY;
    for (size_t i = 0; status == RLOCK_OK && i < count; i++)
        events[i] = decode_event(result, (int)i);
    call->callback.events(status, events, status == RLOCK_OK ? count : 0, call->arg);
    free(events);
    store_call_free(&call->call);
}

static enum statement events_statement(const struct event_filter *filter)
{
    if (filter->order_id != 0)
        return STATEMENT_ORDER_EVENTS;
    return filter->without_orders ? STATEMENT_STOCK_EVENTS : STATEMENT_VOUCHER_EVENTS;
}

void store_list_events(struct store *store, const struct event_filter *filter,
                       store_events_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_events, arg);
    struct store_params *params = &store->params;

    call->callback.events = callback;
    params_int64(params, filter->voucher_id);
    params_int64(params, filter->after_id);
    params_int64(params, filter->limit);
    if (filter->order_id != 0)
        params_int64(params, filter->order_id);
    call->call.deadline_us = filter->deadline_us;
    store_read(&call->call, events_statement(filter), 1 + filter->limit / SMALL_ROWS);
}

/* -- the feed -- */

static bool is_known(const struct store *store)
{
    const struct store_session *session = store_conn_session(store->conns[ROLE_READS]);

    return store->feed.backend.pid == session->backend.pid &&
           store->feed.backend.start_us == session->backend.start_us;
}

int64_t store_feed_until(const struct store *store)
{
    return is_known(store) ? store->feed.until : 0;
}

static void store_on_advanced(struct store_query *query, enum rlock_status status,
                              const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    struct store *store = call->call.store;
    bool is_complete = false;

    if (status == RLOCK_OK) {
        store->feed.backend = store_conn_session(store->conns[ROLE_READS])->backend;
        store->feed.until = result_int64(result, 0, FEED_UNTIL);
        store->feed.last_number = result_int64(result, 0, FEED_LAST_NUMBER);
        store->feed.xid = result_int64(result, 0, FEED_XID);
        is_complete = store->feed.xid == 0;
    }
    call->callback.feed(status, is_complete, call->arg);
    store_call_free(&call->call);
}

/* The result of another connection is not used. After a failover, the new server may have lost the
   numbers that the old server has given. */
void store_advance_feed(struct store *store, store_feed_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_advanced, arg);
    struct store_params *params = &store->params;

    call->callback.feed = callback;
    params_int64(params, is_known(store) ? store->feed.last_number : 0);
    params_int64(params, is_known(store) ? store->feed.xid : 0);
    params_int64(params, store_feed_until(store));
    store_read(&call->call, STATEMENT_ADVANCE_FEED, 1);
}

void store_list_feed(struct store *store, const struct feed_filter *filter,
                     store_events_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_events, arg);
    struct store_params *params = &store->params;

    call->callback.events = callback;
    params_int64(params, filter->after.first);
    params_int64(params, filter->after.number);
    params_int64(params, store_feed_until(store));
    params_int64(params, filter->limit);
    store_read(&call->call, STATEMENT_FEED_EVENTS, 1 + filter->limit / SMALL_ROWS);
}
