/* sim_sql_script.c - prints a statement as text for psql, and runs it in the model. */
#include "app/test/sim/sim_sql_script.h"

#include "app/store/store_codec.h"
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_sql_place.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define VOUCHERS  3
#define SHOPPERS  4
#define KEYS      4
#define BATCH_MAX 8
#define PAID      100 /* cents that are paid for an order: its price */
#define OVERDUE   "2001-01-01"

/* Postgres and the model draw different ids. So an order is identified by its place among the
   orders of its shopper and voucher. */
#define PLACE_OF                                                                         \
    "create or replace function pg_temp.place_of(bigint) returns bigint language sql as" \
    " 'select count(*) from voucher_order a join voucher_order b"                        \
    " using (voucher_id, user_id) where b.id = $1 and a.id <= b.id'"

static struct store_params params;
static int64_t last_fence;

/* -- statements -- */

static struct sim_statement statement_of(enum sim_statement_kind kind)
{
    struct sim_statement statement = {.kind = kind, .params.count = params.count};

    for (int i = 0; i < params.count; i++) {
        if (!params.is_null[i])
            statement.params.values[i] = params.bytes + params.offsets[i];
        statement.params.lengths[i] = (int)(params.offsets[i + 1] - params.offsets[i]);
    }
    return statement;
}

static PGresult *run(enum sim_statement_kind kind)
{
    struct sim_statement statement = statement_of(kind);
    struct sim_txn *txn = sim_calloc(sizeof(*txn));
    PGresult *result;

    txn->rows = sim_sql_rows_if_free(&statement);
    result = sim_sql_write(&statement, txn);
    sim_sql_commit(txn);
    sim_sql_end(txn);
    return result;
}

struct row {
    int64_t user_id, fence; /* 0: no fence */
    unsigned key;           /* 0: no key */
};

static bool is_alone(const struct row *rows, size_t count, size_t at)
{
    size_t same = 0;

    for (size_t i = 0; i < count; i++)
        same += rows[i].user_id == rows[at].user_id;
    return same == 1;
}

/* A shopper with several requests in the batch gets only new fences, see place_batch() in
   sim_sql_place.c. */
static void make_rows(struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rows[i] =
            (struct row){.user_id = sim_between(1, SHOPPERS),
                         .key = sim_chance(40) ? (unsigned)sim_between(1, KEYS) : 0};
    for (size_t i = 0; i < count; i++) {
        if (sim_chance(5))
            continue;
        rows[i].fence = is_alone(rows, count, i) && sim_chance(40)
                            ? sim_between(0, last_fence)
                            : ++last_fence;
        if (rows[i].fence != 0)
            sim_check_granted(rows[i].user_id, 0, rows[i].fence);
    }
}

static void put_key(const struct row *row)
{
    char key[16];
    struct text text = {NULL, 0};

    if (row->key != 0)
        text = (struct text){key, (size_t)snprintf(key, sizeof(key), "key-%u", row->key)};
    params_element_text(&params, &text);
}

static void put_rows(const struct row *rows, size_t count, bool has_fences)
{
    params_array_begin(&params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(&params, rows[i].user_id);
    if (has_fences)
        params_array_begin(&params, PARAMS_INT64, count);
    for (size_t i = 0; has_fences && i < count; i++)
        params_element_int64(&params, rows[i].fence);
    params_array_begin(&params, PARAMS_TEXT, count);
    for (size_t i = 0; i < count; i++)
        put_key(&rows[i]);
}

static const char *comma(size_t at)
{
    return at > 0 ? ", " : "";
}

static void print_array(const struct sim_params *from, int at)
{
    bool is_text;

    assert(from->values[at] != NULL);
    is_text = from->values[at][11] == PARAMS_TEXT;
    printf("array[");
    for (size_t i = 0; i < sim_param_count(from, at); i++) {
        struct text text = sim_param_text_element(from, at, i);

        if (!is_text)
            printf("%s%" PRId64, comma(i), sim_param_element(from, at, i));
        else if (text.bytes == NULL)
            printf("%snull", comma(i));
        else
            printf("%s'%.*s'", comma(i), (int)text.len, text.bytes);
    }
    printf("]::%s[]", is_text ? "text" : "bigint");
}

static void print_call(const char *function)
{
    struct sim_statement statement = statement_of(SQL_PREPARE);

    printf("%s(", function);
    for (int at = 0; at < params.count; at++) {
        printf("%s", comma((size_t)at));
        if (statement.params.lengths[at] == 8)
            printf("%" PRId64, sim_param_int(&statement.params, at));
        else
            print_array(&statement.params, at);
    }
    putchar(')');
}

static void make_batch(bool has_fences)
{
    size_t count = (size_t)sim_between(1, BATCH_MAX);
    struct row rows[BATCH_MAX];

    make_rows(rows, count);
    params_begin(&params);
    params_int64(&params, sim_between(1, VOUCHERS + 1));
    put_rows(rows, count, has_fences);
}

static int64_t place_of(const struct sim_order *order)
{
    int64_t place = 0;

    for (const struct sim_order *at = sim_tables.orders; order != NULL && at <= order;
         at++)
        place += sim_sql_is_of(at, order->voucher, order->user_id);
    return place;
}

/* -- results -- */

static void print_verdicts(const PGresult *result, int row)
{
    struct result_array verdicts = result_array(result, row, 0);

    for (size_t i = 0; verdicts.count > 0; i++)
        printf("%s%" PRId64, i > 0 ? "," : "{", result_array_next(&verdicts));
    putchar('}');
}

static void print_places(const PGresult *result)
{
    struct result_array ids = result_array(result, 0, 1);

    for (size_t i = 0; ids.count > 0; i++)
        printf("%s%" PRId64, i > 0 ? "," : "{",
               place_of(sim_sql_order(result_array_next(&ids))));
    putchar('}');
}

static void print_place(void)
{
    PGresult *result;

    make_batch(true);
    printf("select verdicts, array(select pg_temp.place_of(id) from unnest(order_ids)"
           " with ordinality o (id, at) order by at), new_stock, new_version from ");
    print_call("place_orders");
    result = run(SQL_PLACE);
    putchar('\t');
    print_verdicts(result, 0);
    putchar('|');
    print_places(result);
    if (PQgetisnull(result, 0, 7))
        printf("||\n");
    else
        printf("|%" PRId64 "|%" PRId64 "\n", result_int64(result, 0, 6),
               result_int64(result, 0, 7));
    PQclear(result);
}

static void print_place_many(void)
{
    int64_t vouchers[VOUCHERS + 1], firsts[VOUCHERS + 1], lasts[VOUCHERS + 1];
    struct row rows[BATCH_MAX * (VOUCHERS + 1)];
    size_t batches = 0, count = 0;
    PGresult *result;

    for (int64_t id = 1; id <= VOUCHERS + 1; id++) {
        size_t more = (size_t)sim_between(1, BATCH_MAX);

        if (!sim_chance(70))
            continue;
        make_rows(&rows[count], more);
        vouchers[batches] = id;
        firsts[batches] = (int64_t)count + 1;
        count += more;
        lasts[batches++] = (int64_t)count;
    }
    if (batches == 0)
        return;
    params_begin(&params);
    params_int64s(&params, vouchers, batches);
    params_int64s(&params, firsts, batches);
    params_int64s(&params, lasts, batches);
    put_rows(rows, count, true);
    printf("select string_agg(format('%%s %%s %%s %%s', batch, verdicts, new_stock,"
           " new_version), ' ' order by batch) from ");
    print_call("place_many");
    result = run(SQL_PLACE_MANY);
    putchar('\t');
    for (int row = 0; row < PQntuples(result); row++) {
        printf("%s%" PRId64 " ", row == 0 ? "" : " ", result_int64(result, row, 10));
        print_verdicts(result, row);
        printf(" %" PRId64 " %" PRId64, result_int64(result, row, 6),
               result_int64(result, row, 7));
    }
    putchar('\n');
    PQclear(result);
}

static void print_found(const char *function, enum sim_statement_kind kind)
{
    struct sim_statement statement;
    PGresult *result;

    make_batch(kind == SQL_RESOLVE);
    printf("select string_agg(verdict || ':' || pg_temp.place_of(order_id), ',' order by "
           "pos)"
           " from ");
    print_call(function);
    statement = statement_of(kind);
    result = sim_sql_read(&statement);
    for (int row = 0; row < PQntuples(result); row++)
        printf("%c%" PRId64 ":%" PRId64, row == 0 ? '\t' : ',',
               result_int64(result, row, 1),
               place_of(sim_sql_order(result_int64(result, row, 2))));
    putchar('\n');
    PQclear(result);
}

static const struct sim_order *random_order(void)
{
    return &sim_tables.orders[sim_below(sim_tables.order_count)];
}

static int64_t voucher_of(const struct sim_order *order)
{
    return sim_tables.vouchers[order->voucher].id;
}

static void put_change(const struct sim_order *order)
{
    params_begin(&params);
    params_int64(&params, voucher_of(order));
    params_int64s(&params, &order->id, 1);
}

static void print_id(const struct sim_order *order)
{
    printf("(select id from voucher_order where voucher_id = %" PRId64
           " and user_id = %" PRId64 " order by id offset %" PRId64 " limit 1)",
           voucher_of(order), order->user_id, place_of(order) - 1);
}

static void print_change(enum sim_statement_kind kind, const char *function)
{
    const struct sim_order *order = random_order();
    PGresult *result;

    put_change(order);
    printf("select verdict from %s(%" PRId64 ", ", function, voucher_of(order));
    print_id(order);
    printf(", 'admin:1'");
    if (kind == SQL_PAY_ORDER)
        printf(", 'payment-%" PRId64 "', %d", order->id, PAID);
    result = run(kind);
    printf(")\t%" PRId64 "\n", result_int64(result, 0, 1));
    PQclear(result);
}

static void print_expire(void)
{
    struct sim_order *order = sim_sql_order(random_order()->id);
    PGresult *result;

    if (sim_chance(70)) {
        order->expires_us = 0;
        printf("update voucher_order set expires_at = '" OVERDUE "' where id = ");
        print_id(order);
        printf("\t\n");
    }
    put_change(order);
    printf("select expired, ended from expire_batches(%" PRId64 ", array[",
           voucher_of(order));
    print_id(order);
    result = run(SQL_EXPIRE_BATCHES);
    printf("])\t%" PRId64 "|%" PRId64 "\n", result_int64(result, 0, 0),
           result_int64(result, 0, 1));
    PQclear(result);
}

static void print_vouchers(void)
{
    printf("select string_agg(concat_ws(':', id, version, stock_total, stock_left), ','"
           " order by id) from voucher");
    for (int i = 0; i < VOUCHERS; i++) {
        const struct sim_voucher *voucher = &sim_tables.vouchers[i];

        printf("%c%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64, i == 0 ? '\t' : ',',
               voucher->id, voucher->version, voucher->stock_total, voucher->stock_left);
    }
    putchar('\n');
}

static void print_orders_of(size_t voucher, int64_t user_id)
{
    static const char *const words[] = {"unpaid", "paid", "redeemed", "cancelled",
                                        "expired"};

    for (size_t i = 0; i < sim_tables.order_count; i++) {
        const struct sim_order *order = &sim_tables.orders[i];

        if (sim_sql_is_of(order, voucher, user_id))
            printf("%" PRId64 ":%" PRId64 ":%" PRId64 ":%s:%" PRId64 ":%.*s%s%d,",
                   voucher_of(order), user_id, order->fence, words[order->status],
                   order->slot, (int)order->key_len, order->key,
                   order->key_len > 0 ? ":" : "", order->due_to_id != 0);
    }
}

static void print_tables(void)
{
    print_vouchers();
    printf("select string_agg(concat_ws(':', voucher_id, user_id, coalesce(fence, 0), "
           "status,"
           " coalesce(slot, 0), request_key, (due_to_id is not null)::int) || ',', ''"
           " order by voucher_id, user_id, id) from voucher_order\t");
    for (size_t voucher = 0; voucher < VOUCHERS; voucher++) {
        for (int64_t user_id = 1; user_id <= SHOPPERS; user_id++)
            print_orders_of(voucher, user_id);
    }
    putchar('\n');
}

/* -- the script -- */

static void begin_tables(void)
{
    int64_t now_us = sim_sql_now_us();

    puts(PLACE_OF "\t");
    puts("truncate voucher, voucher_order, payment, order_event, stock_event\t");
    sim_tables.voucher_count = VOUCHERS;
    for (int i = 0; i < VOUCHERS; i++) {
        struct sim_voucher *voucher = &sim_tables.vouchers[i];
        bool is_later = sim_chance(10), is_over = !is_later && sim_chance(10);

        *voucher = (struct sim_voucher){.id = i + 1,
                                        .exists = true,
                                        .version = 1,
                                        .price_cents = PAID,
                                        .stock_left = sim_between(0, 12),
                                        .per_user_limit = sim_between(1, 3),
                                        .begin_us = now_us + (is_later ? S : -S),
                                        .end_us = now_us + (is_over ? 0 : 3600 * S),
                                        .pay_within_us = 900 * S};
        voucher->stock_total = voucher->stock_left;
        printf("select version from create_voucher(%d, 'title', '', %d, %d, %" PRId64
               ", %" PRId64 ", now() + '%s', now() + '%s', 900)\t1\n",
               i + 1, PAID, PAID, voucher->stock_total, voucher->per_user_limit,
               is_later ? "1 hour" : "-1 hour", is_over ? "-1 second" : "2 hours");
    }
}

static void print_random(void)
{
    uint64_t choice = sim_below(sim_tables.order_count > 0 ? 11 : 5);

    if (choice < 2)
        print_place();
    else if (choice < 4)
        print_place_many();
    else if (choice == 4)
        print_found("find_orders", SQL_FIND);
    else if (choice == 5)
        print_found("resolve_orders", SQL_RESOLVE);
    else if (choice == 6)
        print_change(SQL_PAY_ORDER, "pay_order");
    else if (choice < 9)
        print_change(SQL_CANCEL_ORDER, "cancel_order");
    else
        print_expire();
    print_tables();
}

void sim_sql_script_print(uint64_t seed, uint64_t count)
{
    struct sim_check_options options = {.may_bypass_locks = true};

    for (uint64_t i = 0; i < count; i++) {
        sim_memory_reset();
        params = (struct store_params){0};
        sim_begin(seed + i);
        sim_check_begin(&options);
        sim_sql_begin();
        last_fence = 0;
        begin_tables();
        for (int step = 0; step < 30; step++)
            print_random();
    }
}
