/* sim_sql_script.c - a statement as parameters for the model, and as text for psql. */
#include "app/test/sim/sim_sql_script.h"

#include "app/store/store_codec.h"
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_check.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_sql.h"

#include <inttypes.h>
#include <stdio.h>

#define VOUCHERS  3
#define SHOPPERS  4
#define KEYS      4
#define BATCH_MAX 8
#define PAID      100 /* cents: the price */
#define OVERDUE   "2001-01-01"

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

/* Run a statement with the parameters in the model, in a transaction. */
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
    unsigned key;           /* 0: none */
    bool has_ticket;
};

static struct row random_row(void)
{
    struct row row = {.user_id = sim_between(1, SHOPPERS),
                      .key = sim_chance(40) ? (unsigned)sim_between(1, KEYS) : 0,
                      .has_ticket = sim_chance(70)};

    if (!sim_chance(5))
        row.fence = sim_chance(80) ? ++last_fence : sim_between(0, last_fence);
    if (row.fence != 0)
        sim_check_granted(row.user_id, 0, row.fence);
    return row;
}

static void put_key(const struct row *row)
{
    char key[16];
    struct text text = {NULL, 0};

    if (row->key != 0)
        text = (struct text){key, (size_t)snprintf(key, sizeof(key), "key-%u", row->key)};
    params_element_text(&params, &text);
}

/* The separator before an element of an array. */
static const char *comma(size_t at)
{
    return at > 0 ? ", " : "";
}

static void print_key(const struct row *row)
{
    if (row->key != 0)
        printf("'key-%u'", row->key);
    else
        printf("null");
}

static void put_tickets(const struct row *rows, size_t count)
{
    printf(", array[");
    params_array_begin(&params, PARAMS_BOOL, count);
    for (size_t i = 0; i < count; i++) {
        params_element_bool(&params, rows[i].has_ticket);
        printf("%s%s", comma(i), rows[i].has_ticket ? "true" : "false");
    }
    printf("]");
}

/* Adds and prints the parameters for users, fences and keys, and for tickets to place orders. */
static void put_rows(const struct row *rows, size_t count, bool has_fences,
                     bool has_tickets)
{
    printf("array[");
    params_array_begin(&params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++) {
        params_element_int64(&params, rows[i].user_id);
        printf("%s%" PRId64, comma(i), rows[i].user_id);
    }
    printf("]::bigint[], array[");
    if (has_fences) {
        params_array_begin(&params, PARAMS_INT64, count);
        for (size_t i = 0; i < count; i++) {
            params_element_int64(&params, rows[i].fence);
            printf("%s%" PRId64, comma(i), rows[i].fence);
        }
        printf("]::bigint[], array[");
    }
    params_array_begin(&params, PARAMS_TEXT, count);
    for (size_t i = 0; i < count; i++) {
        put_key(&rows[i]);
        printf("%s", comma(i));
        print_key(&rows[i]);
    }
    printf("]::text[]");
    if (has_tickets)
        put_tickets(rows, count);
    printf(")");
}

/* Adds and prints the parameters of a batch: $1 voucher, $2 users, $3 fences, $4 keys,
   $5 tickets. */
static void make_batch(bool has_fences, bool has_tickets)
{
    int64_t voucher_id = sim_between(1, VOUCHERS + 1);
    size_t count = (size_t)sim_between(1, BATCH_MAX);
    struct row rows[BATCH_MAX];

    for (size_t i = 0; i < count; i++)
        rows[i] = random_row();
    params_begin(&params);
    params_int64(&params, voucher_id);
    printf("(%" PRId64 ", ", voucher_id);
    put_rows(rows, count, has_fences, has_tickets);
}

/* -- results -- */

static void print_ints(const PGresult *result, int row, int column)
{
    struct result_array array = result_array(result, row, column);
    const char *separator = "";

    putchar('{');
    while (array.count > 0) {
        int64_t number = result_array_next(&array);

        if (number == 0)
            printf("%sNULL", separator);
        else
            printf("%s%" PRId64, separator, number);
        separator = ",";
    }
    putchar('}');
}

static void print_place(void)
{
    PGresult *result;

    printf("select verdicts, order_ids, new_stock, new_version from place_orders");
    make_batch(true, true);
    result = run(SQL_PLACE);
    putchar('\t');
    print_ints(result, 0, 0);
    putchar('|');
    print_ints(result, 0, 1);
    if (PQgetisnull(result, 0, 7))
        printf("||\n");
    else
        printf("|%" PRId64 "|%" PRId64 "\n", result_int64(result, 0, 6),
               result_int64(result, 0, 7));
    PQclear(result);
}

/* Adds and prints an array of integers. */
static void put_ints(const int64_t *values, size_t count)
{
    params_int64s(&params, values, count);
    printf("array[");
    for (size_t i = 0; i < count; i++)
        printf("%s%" PRId64, comma(i), values[i]);
    printf("]::bigint[], ");
}

/* Batches of any number of vouchers, one of which may not exist. */
static void print_place_many(void)
{
    int64_t vouchers[VOUCHERS + 1], firsts[VOUCHERS + 1], lasts[VOUCHERS + 1];
    struct row rows[BATCH_MAX * (VOUCHERS + 1)];
    size_t batches = 0, count = 0;
    PGresult *result;

    for (int64_t id = 1; id <= VOUCHERS + 1; id++) {
        if (!sim_chance(70))
            continue;
        vouchers[batches] = id;
        firsts[batches] = (int64_t)count + 1;
        count += (size_t)sim_between(1, BATCH_MAX);
        lasts[batches++] = (int64_t)count;
    }
    if (batches == 0)
        return;
    for (size_t i = 0; i < count; i++)
        rows[i] = random_row();
    printf("select string_agg(format('%%s %%s %%s %%s', batch, verdicts, new_stock,"
           " new_version), ' ' order by batch) from place_many(");
    params_begin(&params);
    put_ints(vouchers, batches);
    put_ints(firsts, batches);
    put_ints(lasts, batches);
    put_rows(rows, count, true, true);
    result = run(SQL_PLACE_MANY);
    putchar('\t');
    for (int row = 0; row < PQntuples(result); row++) {
        printf("%s%" PRId64 " ", row == 0 ? "" : " ", result_int64(result, row, 10));
        print_ints(result, row, 0);
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

    printf("select string_agg(verdict || ':' || coalesce(order_id, 0), ',' order by pos) "
           "from %s",
           function);
    make_batch(kind == SQL_RESOLVE, false);
    statement = statement_of(kind);
    result = sim_sql_read(&statement);
    for (int row = 0; row < PQntuples(result); row++)
        printf("%c%" PRId64 ":%" PRId64, row == 0 ? '\t' : ',',
               result_int64(result, row, 1), result_int64(result, row, 2));
    putchar('\n');
    PQclear(result);
}

static const struct sim_order *random_order(void)
{
    return &sim_tables.orders[sim_below(sim_tables.order_count)];
}

static void put_change(const struct sim_order *order)
{
    params_begin(&params);
    params_int64(&params, sim_tables.vouchers[order->voucher].id);
    params_array_begin(&params, PARAMS_INT64, 1);
    params_element_int64(&params, order->id);
}

static void print_change(enum sim_statement_kind kind, const char *function)
{
    const struct sim_order *order = random_order();
    PGresult *result;

    put_change(order);
    printf("select verdict from %s(%" PRId64 ", %" PRId64 ", 'admin:1'", function,
           sim_tables.vouchers[order->voucher].id, order->id);
    if (kind == SQL_PAY_ORDER)
        printf(", 'payment-%" PRId64 "', %d", order->id, PAID);
    putchar(')');
    result = run(kind);
    printf("\t%" PRId64 "\n", result_int64(result, 0, 1));
    PQclear(result);
}

static void print_expire(void)
{
    struct sim_order *order = sim_sql_order(random_order()->id);
    PGresult *result;

    if (sim_chance(70)) {
        order->expires_us = 0;
        printf("update voucher_order set expires_at = '" OVERDUE "' where id = %" PRId64
               "\t\n",
               order->id);
    }
    put_change(order);
    printf("select expired, ended from expire_batches(%" PRId64 ", array[%" PRId64
           "]::bigint[])",
           sim_tables.vouchers[order->voucher].id, order->id);
    result = run(SQL_EXPIRE_BATCHES);
    printf("\t%" PRId64 "|%" PRId64 "\n", result_int64(result, 0, 0),
           result_int64(result, 0, 1));
    PQclear(result);
}

static void print_tables(void)
{
    static const char *const words[] = {"unpaid",    "paid",    "redeemed",
                                        "cancelled", "expired", "refunded"};
    const char *separator = "\t";

    printf("select string_agg(concat_ws(':', id, version, stock_total, stock_left, "
           "ended_fence), ',' order by id) from voucher");
    for (int i = 0; i < VOUCHERS; i++) {
        const struct sim_voucher *voucher = &sim_tables.vouchers[i];

        printf("%s%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64,
               i == 0 ? "\t" : ",", voucher->id, voucher->version, voucher->stock_total,
               voucher->stock_left, voucher->ended_fence);
    }
    printf(
        "\nselect string_agg(concat_ws(':', id, user_id, coalesce(fence, 0), status, "
        "coalesce(slot, 0), request_key, (due_to_id is not null)::int), ',' order by id) "
        "from voucher_order");
    for (size_t i = 0; i < sim_tables.order_count; i++) {
        const struct sim_order *order = &sim_tables.orders[i];

        printf("%s%" PRId64 ":%" PRId64 ":%" PRId64 ":%s:%" PRId64 ":%.*s%s%d", separator,
               order->id, order->user_id, order->fence, words[order->status], order->slot,
               (int)order->key_len, order->key, order->key_len > 0 ? ":" : "",
               order->due_to_id != 0);
        separator = ",";
    }
    puts(sim_tables.order_count == 0 ? "\t" : "");
}

/* -- the script -- */

static void begin_tables(void)
{
    int64_t now_us = sim_sql_now_us();

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
                                        .pay_within_us = 900 * S,
                                        .requires_ticket = sim_chance(30)};
        voucher->stock_total = voucher->stock_left;
        printf("select version from create_voucher(%d, 'title', '', %d, %d, %" PRId64
               ", %" PRId64
               ", now() + '%s', now() + '%s', 900, p_requires_ticket => %s)\t1\n",
               i + 1, PAID, PAID, voucher->stock_total, voucher->per_user_limit,
               is_later ? "1 hour" : "-1 hour", is_over ? "-1 second" : "2 hours",
               voucher->requires_ticket ? "true" : "false");
    }
    printf("select setval('voucher_order_id_seq', %" PRId64 ")\t%" PRId64 "\n",
           sim_sql_number(), sim_sql_number());
}

static void print_random(void)
{
    uint64_t choice = sim_below(sim_tables.order_count > 0 ? 12 : 5);

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
    else if (choice == 7)
        print_change(SQL_REFUND_ORDER, "refund_order");
    else if (choice < 10)
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
