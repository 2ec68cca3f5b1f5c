/*
 * it_sql_plans.c - all queries of the service read few pages when the tables are large.
 *
 * A session with the settings of the service plans the queries while the tables are empty, and
 * never again, which is the worst case for a plan. Then each table gets ROWS rows. A scan of the
 * smallest index would read 500 pages, a scan of a table thousands.
 */
#include "app/store/store_impl.h"
#include "app/test/sql/it_sql.h"

#include <inttypes.h>

#define ROWS     "200000"
#define FEW      50
#define MANY     1000 /* half of the index voucher_end_begin, see sql/migrations */
#define SEGMENTS 800

#define VOUCHER_MAX INT64_C(8796093022207)

static struct sandbox *sandbox;

/* Applies the settings of sql/queries/session.sql. */
static void be_a_service(void)
{
    static const char *const settings[] = {"plan_cache_mode = force_generic_plan",
                                           "enable_seqscan = off",
                                           "enable_bitmapscan = off",
                                           "enable_sort = off",
                                           "enable_hashjoin = off",
                                           "enable_mergejoin = off",
                                           "jit = off"};

    for (size_t i = 0; i < COUNT_OF(settings); i++)
        sandbox_do(sandbox, "set %s", settings[i]);
}

static const struct question {
    enum statement statement;
    const char *arguments;
    int64_t pages; /* at most */
} questions[] = {
    {STATEMENT_READ_ORDER, "100000 * 1048576::bigint + 1, 0", FEW},
    {STATEMENT_LIST_ORDERS, "777, 0, 9223372036854775807, 21", FEW},
    {STATEMENT_LIST_ORDERS, "200500, 0, 9223372036854775807, 21", FEW}, /* has 100 */
    {STATEMENT_READ_VOUCHER, "100000", FEW},
    {STATEMENT_READ_VOUCHERS, "'{1,100000,199999,7777777}'", FEW},
    {STATEMENT_LIST_ANY, "9223372036854775807, 21", FEW},
    {STATEMENT_LIST_ANY, "100000, 21", FEW},
    {STATEMENT_LIST_UPCOMING, "'-infinity', -9223372036854775808, 21", FEW},
    {STATEMENT_LIST_UPCOMING, "now() + interval '80000 min', 5, 21", FEW},
    {STATEMENT_LIST_OPEN, "'-infinity', -9223372036854775808, 21", FEW},
    {STATEMENT_LIST_OPEN, "now() + interval '300 min', 5, 21", FEW},
    {STATEMENT_LIST_OPEN, "now() + interval '501 min', 5, 21", MANY}, /* after the last */
    {STATEMENT_LIST_ENDED, "'infinity', 9223372036854775807, 21", FEW},
    {STATEMENT_LIST_ENDED, "now() - interval '80000 min', 5, 21", FEW},
    {STATEMENT_VOUCHER_EVENTS, "1, 0, 21", FEW},
    {STATEMENT_VOUCHER_EVENTS, "1, 240000 * 1048576::bigint, 21", FEW},
    {STATEMENT_VOUCHER_EVENTS, "1, 9000000 * 1048576::bigint, 21", FEW},
    {STATEMENT_ORDER_EVENTS, "1, 0, 21, 100000 * 1048576::bigint + 1", FEW},
    {STATEMENT_DUE_BATCHES, "500, '{}'", FEW},
};

static int setup(void **state)
{
    *state = fixture_open();
    sandbox = sandbox_open(*state, "plans");
    return 0;
}

static int teardown(void **state)
{
    sandbox_close(sandbox);
    return fixture_close(*state);
}

static void make_plans(void)
{
    static const char *const tables[] = {"voucher", "voucher_order", "order_event",
                                         "stock_event"};
    bool is_made[STATEMENT_COUNT] = {false};

    for (size_t i = 0; i < COUNT_OF(tables); i++)
        sandbox_do(sandbox, "alter table %s set (autovacuum_enabled = off)", tables[i]);
    sandbox_do(sandbox, "alter table voucher set (fillfactor = 100)"); /* less to write */
    sandbox_do(sandbox, "analyze voucher, voucher_order, order_event, stock_event");
    be_a_service();
    for (size_t i = 0; i < COUNT_OF(questions); i++) {
        const struct store_statement *statement =
            &store_statements[questions[i].statement];

        if (!is_made[questions[i].statement])
            sandbox_do(sandbox, "prepare %s as %s", statement->name,
                       embedded_find(statement->path)->bytes);
        is_made[questions[i].statement] = true;
        sandbox_do(sandbox, "execute %s(%s)", statement->name, questions[i].arguments);
    }
}

/* Vouchers 1 to 500 are open; voucher 1 has all orders and events. Half of the others are upcoming
   and end later than the open ones; half have ended. Shopper 200500 also has an order for each of
   100 other vouchers. */
static void fill_tables(void)
{
    sandbox_do(sandbox,
               "insert into voucher (id, price_cents, face_value_cents, stock_total,"
               " stock_left, per_user_limit, pay_within_s, title, begin_at, end_at)"
               " select n, 1, 1, 0, 0, 1, 60, 'voucher',"
               " now() + case when n <= 500 then -1 when n %% 2 = 0 then n else -2 * n"
               "  end * interval '1 min',"
               " now() + case when n <= 500 then n when n %% 2 = 0 then 2 * n else -n"
               "  end * interval '1 min' from generate_series(1, " ROWS ") n");
    sandbox_do(sandbox, "insert into voucher_order (voucher_id, id, user_id, price_cents,"
                        " created_at, expires_at, slot, due_to_id)"
                        " select 1, n * 1048576::bigint + 1, n, 1, now(),"
                        " now() + n * interval '1 us', 1, n * 1048576::bigint + 1"
                        " from generate_series(1, " ROWS ") n");
    sandbox_do(sandbox,
               "insert into voucher_order (voucher_id, id, user_id, price_cents,"
               " created_at, expires_at, slot) select n, n * 1048576::bigint + n,"
               " 200500, 1, now(), now() + interval '1 h', 1"
               " from generate_series(1001, 1100) n");
    sandbox_do(
        sandbox,
        "insert into order_event (voucher_id, id, order_id, at, actor, from_status,"
        " to_status) select 1, (n + " ROWS ") * 1048576::bigint + 1,"
        " n * 1048576::bigint + 1, now(), 'x', 'unpaid', 'paid'"
        " from generate_series(1, " ROWS ") n");
}

static void show_plan(const struct question *question)
{
    char sql[512];
    PGresult *plan;

    snprintf(sql, sizeof(sql), "explain (costs off) execute %s(%s)",
             store_statements[question->statement].name, question->arguments);
    plan = PQexec(sandbox->conn, sql);
    if (PQresultStatus(plan) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(sandbox->conn));
    for (int row = 0; row < PQntuples(plan); row++) {
        print_message("    %s\n", PQgetvalue(plan, row, 0));
        assert_null(strstr(PQgetvalue(plan, row, 0), "Seq Scan"));
    }
    PQclear(plan);
}

static void answer(const struct question *question)
{
    char sql[512];
    int64_t pages;

    snprintf(sql, sizeof(sql), "execute %s(%s)",
             store_statements[question->statement].name, question->arguments);
    pages = sandbox_pages(sandbox->conn, sql, NULL);
    print_message("%s: %" PRId64 " pages\n", sql, pages);
    show_plan(question);
    assert_in_range(pages, 1, question->pages);
}

static void test_store_statements__read_few_pages_of_large_tables(void **state UNUSED)
{
    make_plans();
    fill_tables();
    for (size_t i = 0; i < COUNT_OF(questions); i++)
        answer(&questions[i]);
}

/* -- segments -- */

/* Creates the first voucher of a segment, with stock 1, and if `number` > 0 an order of shopper 7
   with this number. */
static void fill_segment(int64_t segment, int number)
{
    sandbox_do(sandbox,
               "insert into voucher (id, price_cents, face_value_cents, stock_total,"
               " stock_left, per_user_limit, pay_within_s, title, begin_at, end_at)"
               " values (%" PRId64 "::bigint << 16, 1, 1, 1, 0, 1, 60, 'voucher', now(),"
               "  now() + interval '1 h')",
               segment);
    if (number > 0)
        sandbox_do(sandbox,
                   "insert into voucher_order (voucher_id, id, user_id, price_cents,"
                   " created_at, expires_at, slot) select %" PRId64
                   "::bigint << 16, %d * 1048576::bigint + (%" PRId64
                   "::bigint << 16) %% 1048576, 7, 1, now(), now() + interval '1 h', 1",
                   segment, number, segment);
}

/* The numbers of shopper 7's orders with ids below `before`. @voucher  0: of all vouchers */
static const char *list(int64_t voucher, int64_t before, int limit)
{
    static char numbers[64];
    PGresult *result;
    char sql[128];

    snprintf(sql, sizeof(sql), "execute list_orders(7, %" PRId64 ", %" PRId64 ", %d)",
             voucher, before, limit);
    result = PQexec(sandbox->conn, sql);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    numbers[0] = '\0';
    for (int row = 0; row < PQntuples(result); row++)
        sprintf(numbers + strlen(numbers), "%" PRId64 " ",
                number_of(PQgetvalue(result, row, 0)) >> 20);
    PQclear(result);
    return numbers;
}

/* The order of shopper 7 in segment 0 has number 7. */
static void test_list_orders__looks_into_each_segment_once(void **state UNUSED)
{
    int64_t pages;

    fill_segment(4, 900001);
    fill_segment(400, 900003); /* newer than the order in a later segment */
    fill_segment(SEGMENTS, 900002);
    assert_string_equal(list(0, INT64_MAX, 21), "900003 900002 900001 7 ");
    assert_string_equal(list(0, INT64_C(900003) << 20, 2), "900002 900001 ");
    assert_string_equal(list(400 << 16, INT64_MAX, 21), "900003 ");
    assert_string_equal(list(401 << 16, INT64_MAX, 21), "");
    pages = sandbox_pages(sandbox->conn,
                          "execute list_orders(7, 0, 9223372036854775807, 21)", NULL);
    print_message("%" PRId64 " pages for %d segments\n", pages, SEGMENTS);
    assert_in_range(pages, 1, SEGMENTS * 3 + FEW); /* a look-up reads three */
}

/* Voucher ids that next_voucher_id() does not generate. */
static void test_statements__cost_the_same_with_huge_voucher_ids(void **state UNUSED)
{
    static const int64_t segments[] = {2200000000 >> 16, VOUCHER_MAX >> 16};
    static const char list_all[] = "execute list_orders(7, 0, 9223372036854775807, 21)";
    int64_t before = sandbox_pages(sandbox->conn, list_all, NULL), after;

    for (size_t i = 0; i < COUNT_OF(segments); i++)
        fill_segment(segments[i], 900010 + (int)i);
    for (size_t i = 0; i < COUNT_OF(segments); i++) {
        char sql[100];
        PGresult *order;

        snprintf(sql, sizeof(sql), "execute read_order(%" PRId64 ", 7)",
                 (INT64_C(900010) + (int)i) << 20 | (segments[i] << 16 & 1048575));
        after = sandbox_pages(sandbox->conn, sql, &order);
        print_message("%s: %" PRId64 " pages\n", sql, after);
        assert_int_equal(PQntuples(order), 1);
        assert_int_equal(number_of(PQgetvalue(order, 0, 1)), segments[i] << 16);
        PQclear(order);
        assert_in_range(after, 1, FEW);
    }
    assert_string_equal(list(0, INT64_MAX, 3), "900011 900010 900003 ");
    after = sandbox_pages(sandbox->conn, list_all, NULL);
    print_message("%" PRId64 " pages for a list, %" PRId64 " before\n", after, before);
    assert_in_range(after, 1, before + INT64_C(2) * (64 * 4 + FEW)); /* a block */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_statements__read_few_pages_of_large_tables),
        cmocka_unit_test(test_list_orders__looks_into_each_segment_once),
        cmocka_unit_test(test_statements__cost_the_same_with_huge_voucher_ids),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
