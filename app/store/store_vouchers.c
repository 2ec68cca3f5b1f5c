/* store_vouchers.c - reading, listing and changing vouchers. */
#include "app/store/store_impl.h"

#include <stdlib.h>
#include <string.h>

enum voucher_column {
    COLUMN_ID,
    COLUMN_VERSION,
    COLUMN_TITLE,
    COLUMN_DESCRIPTION,
    COLUMN_PRICE,
    COLUMN_FACE_VALUE,
    COLUMN_STOCK_TOTAL,
    COLUMN_STOCK_LEFT,
    COLUMN_PER_USER_LIMIT,
    COLUMN_PAY_WITHIN,
    COLUMN_BEGIN,
    COLUMN_END,
    COLUMN_REQUIRES_TICKET,
    COLUMN_POW_BITS,
    COLUMN_COMMITMENT,
    COLUMN_SEED,
    COLUMN_DRAWN,
    COLUMN_NOW,
};

static struct voucher decode_voucher(const PGresult *result, int row)
{
    return (struct voucher){
        .id = result_int64(result, row, COLUMN_ID),
        .version = result_int64(result, row, COLUMN_VERSION),
        .title = result_text(result, row, COLUMN_TITLE),
        .description = result_text(result, row, COLUMN_DESCRIPTION),
        .price_cents = result_int64(result, row, COLUMN_PRICE),
        .face_value_cents = result_int64(result, row, COLUMN_FACE_VALUE),
        .stock_total = result_int64(result, row, COLUMN_STOCK_TOTAL),
        .stock_left = result_int64(result, row, COLUMN_STOCK_LEFT),
        .per_user_limit = result_int64(result, row, COLUMN_PER_USER_LIMIT),
        .pay_within_s = result_int64(result, row, COLUMN_PAY_WITHIN),
        .begin_us = result_time(result, row, COLUMN_BEGIN),
        .end_us = result_time(result, row, COLUMN_END),
        .requires_ticket = result_int64(result, row, COLUMN_REQUIRES_TICKET),
        .pow_bits = result_int64(result, row, COLUMN_POW_BITS),
        .is_lottery = !PQgetisnull(result, row, COLUMN_COMMITMENT),
        .commitment = result_text(result, row, COLUMN_COMMITMENT),
        .seed = result_text(result, row, COLUMN_SEED),
        .drawn_us = result_time(result, row, COLUMN_DRAWN),
    };
}

/* If there are no vouchers, the result is one row that has only the clock of the database. */
static void store_on_vouchers(struct store_query *query, enum rlock_status status,
                              const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct rows_call *call = list_item(query, struct rows_call, call.query);
    int rows = PQntuples(result);
    struct voucher *vouchers = rows > 0 ? calloc((size_t)rows, sizeof(*vouchers)) : NULL;
    size_t count = 0;
    int64_t now_us = 0;

    if (status == RLOCK_OK && vouchers == NULL)
        status = RLOCK_IO;
    if (status == RLOCK_OK)
        now_us = result_time(result, 0, COLUMN_NOW);
    for (int row = 0; status == RLOCK_OK && row < rows; row++) {
        if (!PQgetisnull(result, row, COLUMN_ID))
            vouchers[count++] = decode_voucher(result, row);
    }
    call->callback.vouchers(status, count > 0 ? vouchers : NULL, count, now_us,
                            call->arg);
    free(vouchers);
    store_call_free(&call->call);
}

/* Whether each row has a voucher. If a row has none, the voucher does not exist. */
static bool has_all(const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        if (PQgetisnull(result, row, COLUMN_ID))
            return false;
    }
    return true;
}

/* Answers with the vouchers that were read or changed, if all exist. */
static void answer_one(struct store_query *query, enum rlock_status status,
                       const PGresult *result, const struct rlock_err *why,
                       bool is_rule_violated)
{
    if (status == RLOCK_REFUSED && is_rule_violated)
        status = RLOCK_INVALID;
    else if (result_violates(result, "used_key_pkey"))
        status = RLOCK_NOT_OWNER;
    else if (status == RLOCK_OK && !has_all(result))
        status = RLOCK_NOT_FOUND;
    store_on_vouchers(query, status, result, why);
}

static void store_on_voucher(struct store_query *query, enum rlock_status status,
                             const PGresult *result, const struct rlock_err *why)
{
    answer_one(query, status, result, why, result_violates(result, "voucher_window"));
}

/* A restock changes only the stock. So if it violates a CHECK (23514) or overflows (22003), the new
   stock is invalid. */
static void store_on_restocked(struct store_query *query, enum rlock_status status,
                               const PGresult *result, const struct rlock_err *why)
{
    const char *sqlstate = result_sqlstate(result);

    answer_one(query, status, result, why,
               strcmp(sqlstate, "23514") == 0 || strcmp(sqlstate, "22003") == 0);
}

static struct call *begin(struct store *store, store_query_cb done,
                          store_vouchers_cb callback, void *arg)
{
    struct rows_call *call = store_rows_call_new(store, done, arg);

    call->callback.vouchers = callback;
    return &call->call;
}

void store_read_voucher(struct store *store, int64_t voucher_id,
                        store_vouchers_cb callback, void *arg)
{
    struct call *call = begin(store, store_on_voucher, callback, arg);

    params_int64(&store->params, voucher_id);
    store_read(call, STATEMENT_READ_VOUCHER, 1);
}

void store_read_vouchers(struct store *store, const int64_t *ids, size_t count,
                         store_vouchers_cb callback, void *arg)
{
    struct call *call = begin(store, store_on_vouchers, callback, arg);

    params_int64s(&store->params, ids, count);
    store_send(ROLE_MAIN, call, STATEMENT_READ_VOUCHERS, &store->params);
}

void store_list_vouchers(struct store *store, const struct voucher_filter *filter,
                         store_vouchers_cb callback, void *arg)
{
    struct call *call = begin(store, store_on_vouchers, callback, arg);
    bool is_falling = filter->state == VOUCHER_ANY || filter->state == VOUCHER_ENDED;
    int64_t start = is_falling ? INT64_MAX : INT64_MIN;

    if (filter->state != VOUCHER_ANY)
        params_time(&store->params, filter->after_id == 0 ? start : filter->after_us);
    params_int64(&store->params, filter->after_id == 0 ? start : filter->after_id);
    params_int64(&store->params, filter->limit);
    store_read(call, STATEMENT_LIST_ANY + (unsigned)filter->state, filter->limit);
}

static void put_texts(struct store_params *params, const struct voucher *vouchers,
                      size_t count, size_t offset)
{
    static const struct text empty = {"", 0};

    params_array_begin(params, PARAMS_TEXT, count);
    for (size_t i = 0; i < count; i++) {
        const struct text *text =
            (const struct text *)((const char *)&vouchers[i] + offset);

        params_element_text(params, text->bytes != NULL ? text : &empty);
    }
}

static void put_int64s(struct store_params *params, const struct voucher *vouchers,
                       size_t count, size_t offset)
{
    params_array_begin(params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(params,
                             *(const int64_t *)((const char *)&vouchers[i] + offset));
}

static void put_times(struct store_params *params, const struct voucher *vouchers,
                      size_t count, size_t offset)
{
    params_array_begin(params, PARAMS_TIME, count);
    for (size_t i = 0; i < count; i++)
        params_element_time(params,
                            *(const int64_t *)((const char *)&vouchers[i] + offset));
}

void store_create_vouchers(struct store *store, const struct voucher *vouchers,
                           size_t count, const struct author *author,
                           store_vouchers_cb callback, void *arg)
{
    struct call *call = begin(store, store_on_voucher, callback, arg);
    struct store_params *params = &store->params;

    put_texts(params, vouchers, count, offsetof(struct voucher, title));
    put_texts(params, vouchers, count, offsetof(struct voucher, description));
    put_int64s(params, vouchers, count, offsetof(struct voucher, price_cents));
    put_int64s(params, vouchers, count, offsetof(struct voucher, face_value_cents));
    put_int64s(params, vouchers, count, offsetof(struct voucher, stock_total));
    put_int64s(params, vouchers, count, offsetof(struct voucher, per_user_limit));
    put_times(params, vouchers, count, offsetof(struct voucher, begin_us));
    put_times(params, vouchers, count, offsetof(struct voucher, end_us));
    put_int64s(params, vouchers, count, offsetof(struct voucher, pay_within_s));
    params_text(params, &(struct text){author->actor, strlen(author->actor)});
    put_int64s(params, vouchers, count, offsetof(struct voucher, requires_ticket));
    put_int64s(params, vouchers, count, offsetof(struct voucher, pow_bits));
    params_text(params, &author->key);
    put_int64s(params, vouchers, count, offsetof(struct voucher, is_lottery));
    store_change_voucher(call, STATEMENT_CREATE_VOUCHERS, 0);
}

static void optional_int64(struct store_params *params, int64_t value, int64_t unset)
{
    if (value == unset)
        params_null(params);
    else
        params_int64(params, value);
}

static void optional_time(struct store_params *params, int64_t unix_us)
{
    if (unix_us == 0)
        params_null(params);
    else
        params_time(params, unix_us);
}

void store_patch_voucher(struct store *store, int64_t voucher_id,
                         const struct voucher *changes, const char *actor,
                         store_vouchers_cb callback, void *arg)
{
    struct call *call = begin(store, store_on_voucher, callback, arg);
    struct store_params *params = &store->params;

    params_int64(params, voucher_id);
    params_text(params, &changes->title);
    params_text(params, &changes->description);
    optional_time(params, changes->begin_us);
    optional_time(params, changes->end_us);
    optional_int64(params, changes->pay_within_s, 0);
    optional_int64(params, changes->requires_ticket, -1);
    optional_int64(params, changes->pow_bits, -1);
    params_text(params, &(struct text){actor, strlen(actor)});
    store_change_voucher(call, STATEMENT_PATCH_VOUCHER, voucher_id);
}

void store_restock_voucher(struct store *store, int64_t voucher_id, int64_t add,
                           const struct author *author, store_vouchers_cb callback,
                           void *arg)
{
    struct call *call = begin(store, store_on_restocked, callback, arg);

    params_int64(&store->params, voucher_id);
    params_int64(&store->params, add);
    params_text(&store->params, &(struct text){author->actor, strlen(author->actor)});
    params_text(&store->params, &author->key);
    store_change_voucher(call, STATEMENT_RESTOCK_VOUCHER, voucher_id);
}
