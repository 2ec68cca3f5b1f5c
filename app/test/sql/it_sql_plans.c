/*
 * it_sql_plans.c - the plans of all that requests read, shown and measured at a million
 * vouchers, a million orders and a million events.
 *
 * They are made in a session like the service's while the tables are empty, and never
 * again: the worst that can happen to a plan. What counts is how many pages are looked
 * at; a scan, or a sort of much, needs thousands. Takes about 30 s.
 */
#include "app/store/store_impl.h"
#include "app/test/sql/it_sql.h"

#include <inttypes.h>

#define ROWS       "1000000"
#define PAGES_MANY 5000 /* index pages, see voucher_end_begin */

static struct sandbox *sandbox;

/* As store_conn.c does. */
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

/* What is asked of a million rows, and how many pages it may look at. */
static const struct question {
    enum statement statement;
    const char *arguments;
    int64_t pages;
} questions[] = {
    {STATEMENT_READ_ORDER, "500000 * 1048576::bigint + 1, 0", 30},
    {STATEMENT_LIST_ORDERS, "777, 0, 9223372036854775807, 21", 200},
    {STATEMENT_LIST_ORDERS, "1000500, 0, 9223372036854775807, 21", 200}, /* has 100 */
    {STATEMENT_READ_VOUCHERS, "'{1,500000,999999,7777777}'", 40},
    {STATEMENT_LIST_ANY, "9223372036854775807, 21", 100},
    {STATEMENT_LIST_ANY, "500000, 21", 100},
    {STATEMENT_LIST_UPCOMING, "'-infinity', -9223372036854775808, 21", 100},
    {STATEMENT_LIST_UPCOMING, "now() + interval '400000 s', 5, 21", 100},
    {STATEMENT_LIST_OPEN, "'-infinity', -9223372036854775808, 21", 200},
    {STATEMENT_LIST_OPEN, "now() + interval '300 s', 5, 21", 200},
    {STATEMENT_LIST_OPEN, "now() + interval '501 s', 5, 21", PAGES_MANY}, /* the last */
    {STATEMENT_LIST_ENDED, "'infinity', 9223372036854775807, 21", 100},
    {STATEMENT_LIST_ENDED, "now() - interval '400000 s', 5, 21", 100},
    {STATEMENT_VOUCHER_EVENTS, "1, 0, 21", 100},
    {STATEMENT_VOUCHER_EVENTS, "1, 1200000 * 1048576::bigint, 21", 100},
    {STATEMENT_VOUCHER_EVENTS, "1, 9000000 * 1048576::bigint, 21", 100},
    {STATEMENT_ORDER_EVENTS, "1, 0, 21, 500000 * 1048576::bigint + 1", 60},
    {STATEMENT_DUE_BATCHES, "500", 1500}, /* a page and an entry for each */
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
            sandbox_do(sandbox, "prepare %s as %s", statement->name, statement->sql);
        is_made[questions[i].statement] = true;
        sandbox_do(sandbox, "execute %s(%s)", statement->name, questions[i].arguments);
    }
}

/* Vouchers 1 to 500 are open, the first with all orders and events; then half are
   upcoming, all of which end later, and half have ended. Shopper 1000500 has an order of
   each of 100 vouchers more. */
static void fill_tables(void)
{
    sandbox_do(sandbox,
               "insert into voucher (id, price_cents, face_value_cents, stock_total,"
               " stock_left, per_user_limit, pay_within_s, title, begin_at, end_at)"
               " select n, 1, 1, 0, 0, 1, 60, 'voucher',"
               " now() + case when n <= 500 then -1 when n %% 2 = 0 then n else -2 * n"
               "  end * interval '1 s',"
               " now() + case when n <= 500 then n when n %% 2 = 0 then 2 * n else -n"
               "  end * interval '1 s' from generate_series(1, " ROWS ") n");
    sandbox_do(sandbox, "insert into voucher_order (voucher_id, id, user_id, price_cents,"
                        " created_at, expires_at, slot, due_to_id)"
                        " select 1, n * 1048576::bigint + 1, n, 1, now(),"
                        " now() + n * interval '1 us', 1, n * 1048576::bigint + 1"
                        " from generate_series(1, " ROWS ") n");
    sandbox_do(sandbox,
               "insert into voucher_order (voucher_id, id, user_id, price_cents,"
               " created_at, expires_at, slot) select n, n * 1048576::bigint + n,"
               " 1000500, 1, now(), now() + interval '1 h', 1"
               " from generate_series(1001, 1100) n");
    sandbox_do(
        sandbox,
        "insert into order_event (voucher_id, id, order_id, at, actor, from_status,"
        " to_status) select 1, (n + 1000000) * 1048576::bigint + 1,"
        " n * 1048576::bigint + 1, now(), 'x', 'unpaid', 'paid'"
        " from generate_series(1, " ROWS ") n");
}

/* A line of the plan by its beginning; "" where there is none. */
static const char *line_of(const PGresult *plan, const char *beginning)
{
    for (int row = 0; row < PQntuples(plan); row++) {
        const char *line = strstr(PQgetvalue(plan, row, 0), beginning);

        if (line != NULL)
            return line;
    }
    return "";
}

static int64_t number_behind(const char *line, const char *word)
{
    const char *at = strstr(line, word);

    return at != NULL ? strtoll(at + strlen(word), NULL, 10) : 0;
}

static void answer(const struct question *question)
{
    const char *name = store_statements[question->statement].name;
    char sql[512];
    PGresult *plan;
    int64_t pages;

    snprintf(sql, sizeof(sql),
             "explain (analyze, buffers, costs off, timing off, summary off)"
             " execute %s(%s)",
             name, question->arguments);
    plan = PQexec(sandbox->conn, sql);
    if (PQresultStatus(plan) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(sandbox->conn));
    /* the first such line is that of the whole */
    pages = number_behind(line_of(plan, "Buffers:"), "hit=") +
            number_behind(line_of(plan, "Buffers:"), "read=");
    print_message("%s(%s): %" PRId64 " pages\n", name, question->arguments, pages);
    for (int row = 0; row < PQntuples(plan); row++)
        if (strstr(PQgetvalue(plan, row, 0), "Buffers:") == NULL)
            print_message("    %s\n", PQgetvalue(plan, row, 0));
    assert_string_equal(line_of(plan, "Seq Scan"), "");
    assert_in_range(pages, 1, question->pages);
    PQclear(plan);
}

static void
test_store_statements__look_at_few_pages_of_a_million_rows(void **state UNUSED)
{
    make_plans();
    fill_tables();
    for (size_t i = 0; i < COUNT_OF(questions); i++)
        answer(&questions[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_statements__look_at_few_pages_of_a_million_rows),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
