/*
 * store_expiry.c - expires overdue orders, and draws lotteries.
 *
 * A run starts every INTERVAL_MS. It reads the batches that are due, the oldest first. Then it
 * makes one call per voucher, one after the other, each under the lock of the voucher's row. If a
 * call made progress, the next read follows at once. Otherwise no order is overdue, and the run draws
 * a batch of winners of a lottery. If a lottery was due, the next read follows, so that expiry does
 * not wait for a long draw. Otherwise the run ends. It also ends if another store expires orders.
 *
 * Expiry has a connection of its own, with one statement under way. So payments and orders wait for
 * at most one call. An advisory lock of the session ensures that only one store expires orders. If
 * the process ends, or sends nothing for a while, Postgres ends the session and thus releases the
 * lock.
 *
 * If the row of a voucher is held, or the call does not reduce its due batches, the voucher is left
 * out for the rest of the run, so that the orders of other vouchers still expire. draw_lotteries()
 * leaves out a lottery whose draw fails. Such a lottery is logged once.
 */
#include "app/core/log.h"
#include "app/store/store_impl.h"

#include <inttypes.h>

#define INTERVAL_MS 600

enum draw_column {
    DRAW_VOUCHER,
    DRAW_WINNERS,
    DRAW_HAS_ENDED,
    DRAW_REFUSED,
    DRAW_REASON
};

static void send_expiry(struct store *store, enum statement statement,
                        store_query_cb done)
{
    store_send(ROLE_EXPIRY, store_call_new(store, sizeof(struct call), done), statement,
               &store->params);
}

static void expire_some(struct store *store);

static void end_run(struct store *store)
{
    struct expiry *expiry = store->expiry;

    if (expiry->is_refused && !expiry->was_refused)
        log_event(LOG_ERROR, "expiry_refused", "expired=%" PRIu64, expiry->expired);
    if (expiry->expired > 0)
        log_event(LOG_INFO, "orders_expired", "count=%" PRIu64, expiry->expired);
    expiry->was_refused = expiry->is_refused;
    expiry->is_refused = expiry->is_running = false;
    expiry->expired = 0;
    expiry->skipped_count = 0;
}

static void log_draw(const PGresult *result)
{
    if (result_int64(result, 0, DRAW_HAS_ENDED) == 1)
        log_event(LOG_INFO, "lottery_drawn", "voucher_id=%" PRId64 " winners=%" PRId64,
                  result_int64(result, 0, DRAW_VOUCHER),
                  result_int64(result, 0, DRAW_WINNERS));
}

/* Called when all lotteries that are due were tried. */
static void log_refused_draw(struct expiry *expiry, const PGresult *result)
{
    int64_t voucher_id = result_int64(result, 0, DRAW_REFUSED);

    if (voucher_id != 0 && voucher_id != expiry->refused_draw)
        log_event(LOG_ERROR, "draw_refused", "voucher_id=%" PRId64 " why=\"%s\"",
                  voucher_id, LOG_PLAIN(PQgetvalue(result, 0, DRAW_REASON)));
    expiry->refused_draw = voucher_id;
}

static void store_on_drawn(struct store_query *query, enum rlock_status status,
                           const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct call *call = list_item(query, struct call, query);
    struct store *store = call->store;

    store_call_free(call);
    if (status == RLOCK_OK && !PQgetisnull(result, 0, DRAW_VOUCHER)) {
        log_draw(result);
        expire_some(store);
        return;
    }
    if (status == RLOCK_OK)
        log_refused_draw(store->expiry, result);
    if (status == RLOCK_REFUSED)
        store->expiry->is_refused = true;
    end_run(store);
}

/* Called when all due batches were read and handled. */
static void end_calls(struct store *store, bool is_progress)
{
    if (is_progress) {
        expire_some(store);
        return;
    }
    params_begin(&store->params);
    send_expiry(store, STATEMENT_DRAW_LOTTERIES, store_on_drawn);
}

static void store_on_expired(struct store_query *query, enum rlock_status status,
                             const PGresult *result, const struct rlock_err *why UNUSED);

static void expire_next(struct store *store)
{
    struct expiry *expiry = store->expiry;
    const struct due *due = &expiry->due[expiry->due_at];

    if (expiry->due_at == expiry->due_count) {
        end_calls(store,
                  expiry->due_count > 0 && expiry->skipped_count < EXPIRY_SKIPPED_MAX);
        return;
    }
    params_begin(&store->params);
    params_int64(&store->params, due->voucher_id);
    params_int64s(&store->params, expiry->firsts + due->first, due->count);
    send_expiry(store, STATEMENT_EXPIRE_BATCHES, store_on_expired);
}

static void store_on_expired(struct store_query *query, enum rlock_status status,
                             const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct call *call = list_item(query, struct call, query);
    struct store *store = call->store;
    struct expiry *expiry = store->expiry;
    int64_t expired = 0, ended = 0;

    store_call_free(call);
    if (status == RLOCK_OK) {
        expired = result_int64(result, 0, 0);
        ended = result_int64(result, 0, 1);
    } else if (status != RLOCK_BUSY && status != RLOCK_REFUSED) {
        end_run(store);
        return;
    }
    if (expired + ended == 0 && expiry->skipped_count < EXPIRY_SKIPPED_MAX)
        expiry->skipped[expiry->skipped_count++] = expiry->due[expiry->due_at].voucher_id;
    expiry->expired += (uint64_t)expired;
    if (status == RLOCK_REFUSED)
        expiry->is_refused = true;
    expiry->due_at++;
    expire_next(store);
}

/* Each row has a voucher, and the id of the first order of each due batch. */
static void keep_due(struct expiry *expiry, const PGresult *result)
{
    size_t used = 0;

    expiry->due_count = expiry->due_at = 0;
    for (int row = 0; row < PQntuples(result) && row < EXPIRY_DUE_MAX; row++) {
        struct result_array firsts = result_array(result, row, 1);
        struct due *due = &expiry->due[expiry->due_count++];

        *due = (struct due){.voucher_id = result_int64(result, row, 0), .first = used};
        while (firsts.count > 0 && used < EXPIRY_DUE_MAX)
            expiry->firsts[used++] = result_array_next(&firsts);
        due->count = used - due->first;
    }
}

static void store_on_due(struct store_query *query, enum rlock_status status,
                         const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct call *call = list_item(query, struct call, query);
    struct store *store = call->store;

    store_call_free(call);
    if (status != RLOCK_OK) {
        end_run(store);
        return;
    }
    keep_due(store->expiry, result);
    expire_next(store);
}

static void read_due(struct store *store)
{
    params_begin(&store->params);
    params_int64(&store->params, EXPIRY_DUE_MAX);
    params_int64s(&store->params, store->expiry->skipped, store->expiry->skipped_count);
    send_expiry(store, STATEMENT_DUE_BATCHES, store_on_due);
}

void store_set_expiry_leader(struct store *store, bool is_leader)
{
    store->expiry->is_leader = is_leader;
    metrics_set(&store->options.metrics->expiry_leader, is_leader);
}

static void store_on_lead(struct store_query *query, enum rlock_status status,
                          const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct call *call = list_item(query, struct call, query);
    struct store *store = call->store;

    store_call_free(call);
    store_set_expiry_leader(store, status == RLOCK_OK && result_int64(result, 0, 0) == 1);
    if (store->expiry->is_leader)
        read_due(store);
    else
        end_run(store);
}

static void expire_some(struct store *store)
{
    if (store->expiry->is_leader) {
        read_due(store);
        return;
    }
    params_begin(&store->params);
    send_expiry(store, STATEMENT_LEAD_EXPIRY, store_on_lead);
}

static void store_on_expiry_timer(uv_timer_t *timer)
{
    struct store *store = timer->data;

    if (store->expiry->is_running)
        return;
    store->expiry->is_running = true;
    expire_some(store);
}

void store_start_expiry(struct store *store)
{
    struct expiry *expiry = store->expiry;

    uv_timer_init(store->options.loop, &expiry->timer);
    expiry->timer.data = store;
    uv_timer_start(&expiry->timer, store_on_expiry_timer, INTERVAL_MS, INTERVAL_MS);
}
