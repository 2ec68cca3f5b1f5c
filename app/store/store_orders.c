/*
 * store_orders.c - placing, resolving, finding, reading and listing orders.
 *
 * If the connection of a batch has failed, the batch may have been committed. A server process that
 * has not noticed the failure may even commit it later. So store_resolve_orders() ends this
 * process, which is identified by pid and start, and waits until it is gone. Only then is the
 * result of a look-up final. After a failover the process is on the old server, and is not found.
 * If it commits there, the commit is lost, because the promoted standby no longer receives it.
 */
#include "app/store/store_impl.h"
#include "base/clock.h"

#include <stdlib.h>

#define MALFORMED        "malformed answer of the database"
#define RETIRE_AGAIN_MS  5
#define LOOKUP_MAX       1000
#define LOOKUPS_SENT_MAX 2 /* with this many unanswered queries no look-up is sent */

/* The columns of "place", whose result has one row per batch. Below are the columns of "find" and
   "resolve", whose results have one row per placement. */
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
    COLUMN_BATCH,
};
enum found_column { FOUND_POS, FOUND_VERDICT, FOUND_ORDER_ID, FOUND_DETAIL };

static struct store_batch *first_batch(const struct batch_call *call)
{
    return list_item(call->batches.next, struct store_batch, link);
}

static bool is_bundle(const struct batch_call *call)
{
    return call->batches.next != call->batches.prev;
}

static void put_placements(struct store_params *params, const struct rlock_link *batches)
{
    size_t count = 0;
    bool has_key = false;

    LIST_EACH(struct store_batch, batch, batches, link) {
        count += batch->count;
        for (size_t i = 0; i < batch->count; i++) {
            if (batch->placements[i]->key.bytes != NULL)
                has_key = true;
        }
    }
    params_array_begin(params, PARAMS_INT64, count);
    LIST_EACH(struct store_batch, batch, batches, link)
        for (size_t i = 0; i < batch->count; i++)
            params_element_int64(params, batch->placements[i]->user_id);
    params_array_begin(params, PARAMS_INT64, count);
    LIST_EACH(struct store_batch, batch, batches, link)
        for (size_t i = 0; i < batch->count; i++)
            params_element_int64(params, batch->placements[i]->fence);
    if (!has_key) {
        params_null(params); /* without keys, the server looks up no keys */
        return;
    }
    params_array_begin(params, PARAMS_TEXT, count);
    LIST_EACH(struct store_batch, batch, batches, link)
        for (size_t i = 0; i < batch->count; i++)
            params_element_text(params, &batch->placements[i]->key);
}

static void put_batch(struct store_params *params, const struct batch_call *call)
{
    params_begin(params);
    params_int64(params, first_batch(call)->voucher_id);
    put_placements(params, &call->batches);
}

static void put_tickets(struct store_params *params, const struct rlock_link *batches)
{
    size_t count = 0;

    LIST_EACH(struct store_batch, batch, batches, link)
        count += batch->count;
    params_array_begin(params, PARAMS_BOOL, count);
    LIST_EACH(struct store_batch, batch, batches, link)
        for (size_t i = 0; i < batch->count; i++)
            params_element_bool(params, batch->placements[i]->has_ticket);
}

static void put_bundle(struct store_params *params, const struct batch_call *call)
{
    size_t count = list_count(&call->batches);
    int64_t firsts = 1, lasts = 0;

    params_begin(params);
    params_array_begin(params, PARAMS_INT64, count);
    LIST_EACH(struct store_batch, batch, &call->batches, link)
        params_element_int64(params, batch->voucher_id);
    params_array_begin(params, PARAMS_INT64, count);
    LIST_EACH(struct store_batch, batch, &call->batches, link) {
        params_element_int64(params, firsts);
        firsts += (int64_t)batch->count;
    }
    params_array_begin(params, PARAMS_INT64, count);
    LIST_EACH(struct store_batch, batch, &call->batches, link) {
        lasts += (int64_t)batch->count;
        params_element_int64(params, lasts);
    }
    put_placements(params, &call->batches);
}

static struct batch_call *batch_call_new(struct store *store, struct rlock_link *batches,
                                         store_query_cb done, store_batch_cb callback)
{
    struct batch_call *call = store_call_new(store, sizeof(*call), done);

    list_init(&call->batches);
    list_append_all(&call->batches, batches);
    call->callback = callback;
    return call;
}

static void answer_batch(const struct batch_call *call, struct store_batch *batch,
                         enum rlock_status status)
{
    const struct voucher_snapshot *snapshot = NULL;

    if (status == RLOCK_OK && batch->snapshot.voucher_id != 0)
        snapshot = &batch->snapshot;
    list_remove(&batch->link);
    call->callback(status, snapshot, status == RLOCK_OK ? NULL : &call->why, batch->arg);
}

static void answer_batches(struct batch_call *call, enum rlock_status status)
{
    while (!list_is_empty(&call->batches))
        answer_batch(call, first_batch(call), status);
    store_call_free(&call->call);
}

/* -- placing -- */

static void decode_placed(const struct store_batch *batch, const PGresult *result,
                          int row)
{
    struct result_array verdicts = result_array(result, row, COLUMN_VERDICTS);
    struct result_array order_ids = result_array(result, row, COLUMN_ORDER_IDS);
    const struct order placed = {
        .voucher_id = batch->voucher_id,
        .price_cents = result_int64(result, row, COLUMN_PRICE),
        .created_us = result_time(result, row, COLUMN_DECIDED),
        .expires_us = result_time(result, row, COLUMN_EXPIRY),
        .status = ORDER_UNPAID,
    };

    for (size_t i = 0; i < batch->count; i++) {
        struct placement *placement = batch->placements[i];
        int64_t verdict = result_array_next(&verdicts);
        bool is_known = verdict > VERDICT_NONE && verdict <= VERDICT_ENTERED;

        placement->verdict = is_known ? (enum verdict)verdict : VERDICT_NONE;
        placement->order = placed;
        placement->order.id = result_array_next(&order_ids);
        placement->order.user_id = placement->user_id;
    }
}

/* Decodes the orders of repeated keys. For each of these orders, the column has the position of its
   request in the batch, and then the detail of the order. */
static void decode_repeated(const struct store_batch *batch, const PGresult *result,
                            int row)
{
    struct result_array details = result_array(result, row, COLUMN_DETAILS);

    while (details.count > 0) {
        size_t position = (size_t)result_array_next(&details) - 1;

        if (position >= batch->count)
            return;
        if (!store_decode_detail(&details, &batch->placements[position]->order))
            batch->placements[position]->verdict = VERDICT_NONE;
    }
}

static void take_placed(struct store_batch *batch, const PGresult *result, int row)
{
    decode_placed(batch, result, row);
    decode_repeated(batch, result, row);
    batch->status = RLOCK_OK;
    batch->snapshot = (struct voucher_snapshot){
        .voucher_id = PQgetisnull(result, row, COLUMN_VERSION) ? 0 : batch->voucher_id,
        .version = result_int64(result, row, COLUMN_VERSION),
        .stock_left = result_int64(result, row, COLUMN_STOCK),
        .begin_us = result_time(result, row, COLUMN_OPENS),
        .end_us = result_time(result, row, COLUMN_CLOSES),
    };
}

/* Takes the rows, which have the sequence of the batches. A batch without a row was not decided. */
static enum rlock_status take_rows(struct batch_call *call, const PGresult *result)
{
    int row = 0, rows = PQntuples(result);
    int64_t number = 0;
    bool is_good = rows == 1 || is_bundle(call);

    LIST_EACH(struct store_batch, batch, &call->batches, link) {
        batch->status = RLOCK_BUSY;
        if (row == rows || result_int64(result, row, COLUMN_BATCH) != ++number)
            continue;
        if (result_array(result, row, COLUMN_VERDICTS).count != batch->count)
            is_good = false;
        take_placed(batch, result, row++);
    }
    return is_good && row == rows ? RLOCK_OK : err_set(&call->why, RLOCK_IO, MALFORMED);
}

static void store_on_placed(struct store_query *query, enum rlock_status status,
                            const PGresult *result, const struct rlock_err *why)
{
    struct batch_call *call = list_item(query, struct batch_call, call.query);

    if (status == RLOCK_OK)
        status = take_rows(call, result);
    else
        call->why = *why;
    call->call.status = status;
    LIST_EACH_SAFE(struct store_batch, batch, &call->batches, link) {
        if (status == RLOCK_OK && batch->status == RLOCK_BUSY)
            answer_batch(call, batch, RLOCK_BUSY);
        else if (status == RLOCK_OK && call->has_barrier)
            batch->released(batch->arg);
    }
    if (!call->has_barrier)
        answer_batches(call, status);
}

/* The batches are answered only here, because a crash may lose the orders until the barrier is
   answered. */
static void store_on_barrier(struct store_query *query, enum rlock_status status,
                             const PGresult *result UNUSED, const struct rlock_err *why)
{
    struct batch_call *call = list_item(query, struct batch_call, barrier);

    if (call->call.status == RLOCK_OK && status != RLOCK_OK) {
        call->call.status = status == RLOCK_CANCELLED ? status : RLOCK_IO;
        call->why = *why;
    }
    answer_batches(call, call->call.status);
}

/* Slow vouchers may use only the first half of the lanes, so that they never occupy all lanes.
   Other batches take the last idle lane, which is mostly in the second half. */
static unsigned lanes_for(const struct store *store, bool is_slow)
{
    unsigned lanes = store->options.lanes;

    return is_slow && lanes > 1 ? lanes / 2 : lanes;
}

static bool is_idle(const struct store_conn *conn)
{
    return store_conn_is_up(conn) && store_conn_pending(conn) == 0;
}

unsigned store_batch_room(const struct store *store, bool is_slow)
{
    unsigned room = 0;

    if (store->probe.failure == RLOCK_LOST)
        return 0;
    for (unsigned i = 0; i < lanes_for(store, is_slow); i++) {
        if (is_idle(store->conns[ROLE_LANE + i]))
            room++;
    }
    return room;
}

/* Sends the transaction that releases the row early, and then the barrier as another transaction.
   Both need the same session: another session may have begun after a crash that lost the orders. */
static void send_early(struct store_conn *lane, struct batch_call *call,
                       enum statement statement)
{
    static const struct store_params none;

    if (!store_conn_send(lane, &call->call.query, statement, &call->call.store->params)) {
        store_answer_later(&call->call, RLOCK_DOWN);
        return;
    }
    call->barrier = (struct store_query){.statement_ms = call->call.query.statement_ms,
                                         .timeout_ms = call->call.query.timeout_ms,
                                         .done = store_on_barrier};
    list_init(&call->barrier.link);
    call->has_barrier = store_conn_send(lane, &call->barrier, STATEMENT_BARRIER, &none);
}

void store_place_orders(struct store *store, struct rlock_link *batches,
                        store_batch_cb callback)
{
    struct batch_call *call = batch_call_new(store, batches, store_on_placed, callback);
    enum statement statement = is_bundle(call) ? STATEMENT_PLACE_MANY : STATEMENT_PLACE;
    unsigned lane = lanes_for(store, first_batch(call)->is_slow);
    int64_t deadline_us = INT64_MAX;

    while (lane > 0 && !is_idle(store->conns[ROLE_LANE + lane - 1]))
        lane--;
    if (lane == 0) {
        store_answer_later(&call->call, RLOCK_DOWN);
        return;
    }
    if (is_bundle(call))
        put_bundle(&store->params, call);
    else
        put_batch(&store->params, call);
    put_tickets(&store->params, &call->batches);
    LIST_EACH(struct store_batch, batch, &call->batches, link)
        deadline_us = batch->deadline_us < deadline_us ? batch->deadline_us : deadline_us;
    store_limit(&call->call, deadline_us - clock_mono_us());
    if (first_batch(call)->released == NULL)
        store_send(ROLE_LANE + lane - 1, &call->call, statement, &store->params);
    else
        send_early(store->conns[ROLE_LANE + lane - 1], call, statement + 1);
}

/* -- resolving -- */

static bool decode_found(const PGresult *result, int row, int64_t voucher_id,
                         struct placement *placement)
{
    struct result_array detail = result_array(result, row, FOUND_DETAIL);
    int64_t verdict = result_int64(result, row, FOUND_VERDICT);

    placement->verdict = (enum verdict)verdict;
    placement->order = (struct order){
        .id = result_int64(result, row, FOUND_ORDER_ID),
        .voucher_id = voucher_id,
        .user_id = placement->user_id,
    };
    return verdict >= VERDICT_NONE && verdict <= VERDICT_ALREADY_ORDERED &&
           result_int64(result, row, FOUND_POS) == row + 1 &&
           (detail.count == 0 || store_decode_detail(&detail, &placement->order));
}

static void store_on_resolved(struct store_query *query, enum rlock_status status,
                              const PGresult *result, const struct rlock_err *why)
{
    struct batch_call *call = list_item(query, struct batch_call, call.query);
    const struct store_batch *batch = first_batch(call);
    bool is_good = status != RLOCK_OK || (size_t)PQntuples(result) == batch->count;

    if (status != RLOCK_OK)
        call->why = *why;
    for (size_t i = 0; status == RLOCK_OK && is_good && i < batch->count; i++)
        is_good = decode_found(result, (int)i, batch->voucher_id, batch->placements[i]);
    answer_batches(call, is_good ? status : err_set(&call->why, RLOCK_IO, MALFORMED));
}

void store_suspect(struct store *store, struct store_backend backend)
{
    /* If the process were forgotten, it could commit orders that were answered as not placed. So
       the memory comes from the reserve if no other memory is left. */
    struct suspect *suspect = store_alloc(store, sizeof(*suspect));

    suspect->backend = backend;
    list_append(&store->suspects, &suspect->link);
}

static void answer_waiting(struct rlock_link *calls, enum rlock_status status,
                           int64_t until_us)
{
    LIST_EACH_SAFE(struct call, call, calls, query.link) {
        if (call->deadline_us > until_us)
            continue;
        list_remove(&call->query.link);
        store_answer_later(call, status);
    }
}

static void store_on_retire_timer(uv_timer_t *timer)
{
    struct store *store = timer->data;

    store_resolve_step(store);
    store_conn_flush(store->conns[ROLE_MAIN]);
}

static void store_on_retired(struct store_query *query, enum rlock_status status,
                             const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct store *store = list_item(query, struct store, retire_query);
    bool is_done = status == RLOCK_OK && result_int64(result, 0, 0) == 0;

    for (; is_done && store->retiring > 0; store->retiring--)
        store_free(store, LIST_SHIFT(struct suspect, &store->suspects, link));
    store->retiring = 0;
    if (status == RLOCK_CANCELLED)
        return;
    if (status != RLOCK_OK)
        answer_waiting(&store->resolving, status, INT64_MAX);
    answer_waiting(&store->resolving, RLOCK_TIMEOUT, clock_mono_us());
    uv_timer_start(&store->retire_timer, store_on_retire_timer,
                   is_done ? 0 : RETIRE_AGAIN_MS, 0);
}

static void retire_suspects(struct store *store)
{
    struct store_params *params = &store->params;
    size_t count = list_count(&store->suspects);

    params_begin(params);
    params_array_begin(params, PARAMS_INT64, count);
    LIST_EACH(struct suspect, suspect, &store->suspects, link)
        params_element_int64(params, suspect->backend.pid);
    params_array_begin(params, PARAMS_INT64, count);
    LIST_EACH(struct suspect, suspect, &store->suspects, link)
        params_element_int64(params, suspect->backend.start_us);
    store->retire_query.done = store_on_retired;
    store->retire_query.timeout_ms = store->options.timeout_ms;
    if (store_conn_send(store->conns[ROLE_MAIN], &store->retire_query, STATEMENT_RETIRE,
                        params))
        store->retiring = count;
    else
        answer_waiting(&store->resolving, RLOCK_DOWN, INT64_MAX);
}

void store_resolve_step(struct store *store)
{
    if (store->retiring > 0 || list_is_empty(&store->resolving))
        return;
    if (!list_is_empty(&store->suspects)) {
        retire_suspects(store);
        return;
    }
    LIST_DRAIN(struct batch_call, call, &store->resolving, call.query.link) {
        put_batch(&store->params, call);
        store_send(ROLE_MAIN, &call->call, STATEMENT_RESOLVE, &store->params);
    }
}

void store_resolve_orders(struct store *store, struct store_batch *batch,
                          store_batch_cb callback)
{
    struct rlock_link batches;
    struct batch_call *call;

    list_init(&batches);
    list_append(&batches, &batch->link);
    batch->snapshot.voucher_id = 0;
    call = batch_call_new(store, &batches, store_on_resolved, callback);
    call->call.deadline_us = store_deadline_us(store, 0);
    list_append(&store->resolving, &call->call.query.link);
    store_resolve_step(store);
}

/* -- finding by key -- */

static void store_on_found(struct store_query *query, enum rlock_status status,
                           const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct lookup_call *call = list_item(query, struct lookup_call, call.query);
    int row = 0;

    list_remove(&call->call.sent);
    if (status == RLOCK_OK && (size_t)PQntuples(result) != call->count)
        status = RLOCK_IO;
    LIST_DRAIN(struct key_lookup, lookup, &call->lookups, link) {
        if (status == RLOCK_OK &&
            !decode_found(result, row++, call->voucher_id, &lookup->placement))
            status = RLOCK_IO; /* the look-ups that follow get this status, too */
        lookup->callback(status, &lookup->placement, lookup->arg);
    }
    store_call_free(&call->call);
}

static struct lookup_call *lookup_call_of(struct store *store, int64_t voucher_id)
{
    struct lookup_call *call;

    LIST_EACH(struct lookup_call, waiting, &store->lookup_calls, call.query.link) {
        if (waiting->voucher_id == voucher_id && waiting->count < LOOKUP_MAX)
            return waiting;
    }
    call = store_call_new(store, sizeof(*call), store_on_found);
    call->voucher_id = voucher_id;
    list_init(&call->lookups);
    list_append(&store->lookup_calls, &call->call.query.link);
    return call;
}

void store_find_by_key(struct store *store, int64_t voucher_id, struct key_lookup *lookup,
                       store_key_cb callback, void *arg)
{
    struct lookup_call *call = lookup_call_of(store, voucher_id);
    int64_t deadline_us = store_deadline_us(store, lookup->deadline_us);

    lookup->callback = callback;
    lookup->arg = arg;
    list_append(&call->lookups, &lookup->link);
    if (call->count++ == 0 || deadline_us < call->call.deadline_us)
        call->call.deadline_us = deadline_us;
    store_watch_deadlines(store);
}

static void put_lookups(struct store_params *params, const struct lookup_call *call)
{
    params_begin(params);
    params_int64(params, call->voucher_id);
    params_array_begin(params, PARAMS_INT64, call->count);
    LIST_EACH(struct key_lookup, lookup, &call->lookups, link)
        params_element_int64(params, lookup->placement.user_id);
    params_array_begin(params, PARAMS_TEXT, call->count);
    LIST_EACH(struct key_lookup, lookup, &call->lookups, link)
        params_element_text(params, &lookup->placement.key);
}

/* While LOOKUPS_SENT_MAX queries are unanswered, new look-ups wait and join the next query. */
void store_send_lookups(struct store *store)
{
    while (!list_is_empty(&store->lookup_calls) &&
           store_conn_pending(store->conns[ROLE_MAIN]) < LOOKUPS_SENT_MAX) {
        struct lookup_call *call =
            LIST_SHIFT(struct lookup_call, &store->lookup_calls, call.query.link);

        put_lookups(&store->params, call);
        list_append(&store->lookups_sent, &call->call.sent);
        store_send(ROLE_MAIN, &call->call, STATEMENT_FIND, &store->params);
    }
}

void store_time_out_lookups(struct store *store, int64_t now_us)
{
    answer_waiting(&store->lookup_calls, RLOCK_BUSY, now_us);
    store_abandon_late(ROLE_MAIN, &store->lookups_sent, now_us);
}

/* -- reading -- */

static void store_on_order(struct store_query *query, enum rlock_status status,
                           const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    struct order order;

    if (status == RLOCK_OK && PQntuples(result) == 0)
        status = RLOCK_NOT_FOUND;
    if (status == RLOCK_OK && !store_decode_order(result, 0, 0, &order))
        status = RLOCK_IO;
    call->callback.order(status, status == RLOCK_OK ? &order : NULL, call->arg);
    store_call_free(&call->call);
}

void store_read_order(struct store *store, int64_t order_id, int64_t user_id,
                      store_order_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_order, arg);

    call->callback.order = callback;
    params_int64(&store->params, order_id);
    params_int64(&store->params, user_id);
    store_read(&call->call, STATEMENT_READ_ORDER, 1);
}

/* -- listing -- */

/* Decodes the rows. Another page follows if there is one row more than a page has, or a row that
   has only an id (see list_voucher_orders.sql). */
static enum rlock_status decode_page(const PGresult *result, unsigned limit,
                                     struct order *orders, struct order_page *page)
{
    int rows = PQntuples(result);

    for (int row = 0; row < rows; row++) {
        if (PQgetisnull(result, row, 1))
            page->next_id = result_int64(result, row, 0);
        else if (!store_decode_order(result, row, 0, &orders[page->count++]))
            return RLOCK_IO;
    }
    if (page->count > limit) {
        page->count = limit;
        page->next_id = orders[limit - 1].id;
    }
    return RLOCK_OK;
}

static void store_on_orders(struct store_query *query, enum rlock_status status,
                            const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    struct order *orders = calloc((size_t)PQntuples(result) + 1, sizeof(*orders));
    struct order_page page = {.orders = orders};

    if (status == RLOCK_OK)
        status = orders != NULL ? decode_page(result, call->limit, orders, &page)
                                : RLOCK_NO_MEMORY;
    call->callback.orders(status, status == RLOCK_OK ? &page : NULL, call->arg);
    free(orders);
    store_call_free(&call->call);
}

void store_list_orders(struct store *store, const struct order_filter *filter,
                       store_orders_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_orders, arg);
    struct store_params *params = &store->params;
    enum statement statement = STATEMENT_LIST_VOUCHER_ORDERS;

    call->callback.orders = callback;
    call->limit = filter->limit;
    params_int64(params, filter->voucher_id);
    params_int64(params, filter->before_id == 0 ? INT64_MAX : filter->before_id);
    /* one row more than a page has, to see whether a page follows */
    params_int64(params, filter->limit + 1);
    params_text(params, &filter->status);
    params_time(params, filter->from_us);
    params_time(params, filter->until_us);
    if (filter->order_id != 0 || filter->payment_ref.bytes != NULL) {
        statement = STATEMENT_SEARCH_ORDER;
        params_int64(params, filter->user_id);
        if (filter->order_id != 0)
            params_int64(params, filter->order_id);
        else
            params_null(params);
        params_text(params, &filter->payment_ref);
    } else if (filter->user_id != 0) {
        statement = STATEMENT_LIST_ORDERS;
        params_int64(params, filter->user_id);
    }
    store_read(&call->call, statement, 1 + filter->limit / SMALL_ROWS);
}
