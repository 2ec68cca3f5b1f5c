/*
 * store_expiry.c - expires overdue orders: a read of the batches that are due, then one call
 * after the other, each for a voucher and under the lock of its row.
 *
 * It has a connection of its own with one statement under way, so payments and orders wait
 * for one such call at most. An advisory lock of the session makes one store the only one
 * that expires orders. Postgres ends the session, and so releases the lock, when the process
 * ends, and also when it sends nothing for a while.
 *
 * A voucher whose row is held, or whose batches do not get fewer, is left out until a call
 * finds nothing else to do: it must not keep the others from expiring.
 */
#include "app/store/store_impl.h"

/* With store->params. */
static void send_expiry(struct store *store, enum statement statement,
                        store_query_cb done)
{
    store_send(ROLE_EXPIRY, store_call_new(store, sizeof(struct call), done), statement,
               &store->params);
}

static void end_expiry(struct expiry *expiry, enum status status, bool is_progress)
{
    if (!is_progress)
        expiry->skipped_count = 0;
    expiry->callback(status, expiry->expired, is_progress, expiry->arg);
}

static void store_on_expired(struct store_query *query, enum status status,
                             const PGresult *result, const struct err *why UNUSED);

/* Expires the next voucher that the last read returned. */
static void expire_next(struct store *store)
{
    struct expiry *expiry = store->expiry;
    const struct due *due = &expiry->due[expiry->due_at];

    if (expiry->due_at == expiry->due_count) {
        end_expiry(expiry, expiry->was_refused ? STATUS_REFUSED : STATUS_OK,
                   expiry->due_count > 0 && expiry->skipped_count < EXPIRY_SKIPPED_MAX);
        return;
    }
    params_begin(&store->params);
    params_int64(&store->params, due->voucher_id);
    params_int64s(&store->params, expiry->firsts + due->first, due->count);
    send_expiry(store, STATEMENT_EXPIRE_BATCHES, store_on_expired);
}

static void store_on_expired(struct store_query *query, enum status status,
                             const PGresult *result, const struct err *why UNUSED)
{
    struct call *call = list_item(query, struct call, query);
    struct store *store = call->store;
    struct expiry *expiry = store->expiry;
    int64_t expired = 0, ended = 0;

    store_call_free(call);
    if (status == STATUS_OK) {
        expired = result_int64(result, 0, 0);
        ended = result_int64(result, 0, 1);
    } else if (status != STATUS_BUSY && status != STATUS_REFUSED) {
        end_expiry(expiry, status, false);
        return;
    }
    if (expired + ended == 0 && expiry->skipped_count < EXPIRY_SKIPPED_MAX)
        expiry->skipped[expiry->skipped_count++] = expiry->due[expiry->due_at].voucher_id;
    expiry->expired += (uint64_t)expired;
    expiry->was_refused |= status == STATUS_REFUSED;
    expiry->due_at++;
    expire_next(store);
}

/* A row: a voucher, and the first orders of its batches that are due. */
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

static void store_on_due(struct store_query *query, enum status status,
                         const PGresult *result, const struct err *why UNUSED)
{
    struct call *call = list_item(query, struct call, query);
    struct store *store = call->store;

    store_call_free(call);
    if (status != STATUS_OK) {
        end_expiry(store->expiry, status, false);
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

static void store_on_lead(struct store_query *query, enum status status,
                          const PGresult *result, const struct err *why UNUSED)
{
    struct call *call = list_item(query, struct call, query);
    struct store *store = call->store;

    store_call_free(call);
    store->expiry->is_leader = status == STATUS_OK && result_int64(result, 0, 0) == 1;
    if (store->expiry->is_leader)
        read_due(store);
    else
        end_expiry(store->expiry, status, false);
}

void store_expire_orders(struct store *store, store_expired_cb callback, void *arg)
{
    store->expiry->callback = callback;
    store->expiry->arg = arg;
    store->expiry->expired = 0;
    store->expiry->was_refused = false;
    if (store->expiry->is_leader) {
        read_due(store);
        return;
    }
    params_begin(&store->params);
    send_expiry(store, STATEMENT_LEAD_EXPIRY, store_on_lead);
}
