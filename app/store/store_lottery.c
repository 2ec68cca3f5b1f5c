/* store_lottery.c - reading the entries of lotteries. */
#include "app/store/store_impl.h"

#include <stdlib.h>

static void store_on_entries(struct store_query *query, enum rlock_status status,
                             const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    size_t count = (size_t)PQntuples(result);
    struct lottery_entry *entries = count > 0 ? calloc(count, sizeof(*entries)) : NULL;

    if (count > 0 && entries == NULL)
        status = RLOCK_NO_MEMORY;
    for (size_t i = 0; status == RLOCK_OK && i < count; i++)
        entries[i] = (struct lottery_entry){result_text(result, (int)i, 0).bytes,
                                            result_int64(result, (int)i, 1) == 1};
    call->callback.entries(status, entries, status == RLOCK_OK ? count : 0, call->arg);
    free(entries);
    store_call_free(&call->call);
}

void store_read_entry(struct store *store, int64_t voucher_id, int64_t user_id,
                      store_entries_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_entries, arg);

    call->callback.entries = callback;
    params_int64(&store->params, voucher_id);
    params_int64(&store->params, user_id);
    store_read(&call->call, STATEMENT_READ_ENTRY, 1);
}

void store_list_entries(struct store *store, int64_t voucher_id, struct text from,
                        unsigned limit, store_entries_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, store_on_entries, arg);

    call->callback.entries = callback;
    params_int64(&store->params, voucher_id);
    params_text(&store->params, &from);
    params_int64(&store->params, limit);
    store_read(&call->call, STATEMENT_READ_ENTRIES, 1 + limit / SMALL_ROWS);
}
