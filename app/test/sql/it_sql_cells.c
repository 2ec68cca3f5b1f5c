/* it_sql_cells.c - splitting a cell moves all its data, whatever other sessions do. */
#include "app/test/sql/it_sql.h"

#include <inttypes.h>

static struct sandbox *sandbox;
static PGconn *other; /* a second session of the owner */

static int open_servers(void **state)
{
    *state = fixture_open();
    return 0;
}

/* Each test splits a new cell. */
static int setup(void **state)
{
    static int schemas;
    char schema[32];

    snprintf(schema, sizeof(schema), "cells_%d", ++schemas);
    sandbox = sandbox_open(*state, schema);
    other = sandbox_connect(sandbox);
    return 0;
}

static int teardown(void **state UNUSED)
{
    PQfinish(other);
    sandbox_close(sandbox);
    return 0;
}

static int close_servers(void **state)
{
    return fixture_close(*state);
}

#define CELL_CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* Creates a voucher that cell 0/2 does not keep. */
static int64_t odd_voucher(void)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);

    return voucher % 2 == 1 ? voucher : sandbox_voucher(sandbox, 10, 1);
}

static const char *order(int64_t voucher, int shopper)
{
    static char sql[128];

    snprintf(sql, sizeof(sql),
             "select verdicts[1] from place_orders(%" PRId64 ", '{%d}', '{0}', null)",
             voucher, shopper);
    return sql;
}

/* Sends a statement. Returns when it waits for a lock or is answered. */
static void send(const char *sql)
{
    assert_int_equal(PQsendQuery(other, sql), 1);
    while (PQisBusy(other) &&
           sandbox_number(sandbox, "select count(*) from pg_locks where not granted") ==
               0)
        assert_int_equal(PQconsumeInput(other), 1);
}

static const char *answer(void)
{
    static char value[32];
    PGresult *result = PQgetResult(other);

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(other));
    snprintf(value, sizeof(value), "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    assert_null(PQgetResult(other));
    return value;
}

static void test_split_cell__deletes_an_order_that_is_under_way(void **state UNUSED)
{
    int64_t voucher = odd_voucher();

    sandbox_do(sandbox, "begin");
    assert_int_equal(sandbox_number(sandbox, "%s", order(voucher, 1)), 1);
    send("select split_cell(0, 2)");
    sandbox_do(sandbox, "commit");
    assert_true(strtoll(answer(), NULL, 10) > 0);
    assert_int_equal(sandbox_number(sandbox, "select count(*) from voucher_order"), 0);
    assert_int_equal(sandbox_audit(sandbox), 0);
}

static void test_split_cell__lets_no_order_in_behind_it(void **state UNUSED)
{
    int64_t voucher = odd_voucher();

    sandbox_do(sandbox, "begin");
    assert_true(sandbox_number(sandbox, "select split_cell(0, 2)") > 0);
    send(order(voucher, 1));
    sandbox_do(sandbox, "commit");
    assert_string_equal(answer(), "8"); /* no such voucher */
    assert_int_equal(sandbox_number(sandbox, "select count(*) from voucher_order"), 0);
    assert_int_equal(sandbox_audit(sandbox), 0);
}

static void assert_refused(const char *why)
{
    PGresult *result = PQexec(sandbox->conn, "select split_cell(0, 2)");

    if (strstr(PQresultErrorMessage(result), why) == NULL)
        fail_msg("expected \"%s\", not \"%s\"", why, PQresultErrorMessage(result));
    PQclear(result);
    assert_int_equal(sandbox_number(sandbox, "select min(cells) from cell"), 1);
}

/* split_cell() recognises a session of the service by its role, and one with the role of the owner
   by its application_name. */
static void
test_split_cell__is_refused_while_the_service_is_connected(void **state UNUSED)
{
    PGconn *service = PQconnectdb(sandbox->service_url);
    char why[80];

    assert_int_equal(PQstatus(service), CONNECTION_OK);
    odd_voucher();
    snprintf(why, sizeof(why),
             "are connected: %d of " SERVICE_ROLE ". Stop all instances",
             PQbackendPID(service));
    assert_refused(why);
    PQfinish(service);
    PQclear(PQexec(other, "set application_name = 'seckill'"));
    assert_refused("sessions of the service are connected");
    PQclear(PQexec(other, "reset application_name"));
    while (sandbox_number(sandbox, "select count(*) from pg_stat_activity where usename ="
                                   " '" SERVICE_ROLE "'") > 0)
        continue; /* its process ends after its connection */
    assert_int_equal(sandbox_number(sandbox, "select split_cell(0, 2)"), 1);
}

/* A new session reads the cell while it is split; it must not see the old cell. */
static void test_split_cell__lets_no_session_read_the_old_cell(void **state UNUSED)
{
    odd_voucher();
    sandbox_do(sandbox, "begin");
    assert_true(sandbox_number(sandbox, "select split_cell(0, 2)") > 0);
    send("select min(cells) from cell");
    sandbox_do(sandbox, "commit");
    assert_string_equal(answer(), "2");
}

/* -- rules -- */

/* Executes a statement and rolls it back. @wanted  its result, or a part of its error */
static void assert_answers(const char *sql, const char *wanted)
{
    PGresult *result;
    const char *found;

    sandbox_do(sandbox, "savepoint rule");
    result = PQexec(sandbox->conn, sql);
    found = PQresultStatus(result) == PGRES_TUPLES_OK ? PQgetvalue(result, 0, 0)
                                                      : PQresultErrorMessage(result);
    if (PQresultStatus(result) == PGRES_TUPLES_OK ? strcmp(found, wanted) != 0
                                                  : strstr(found, wanted) == NULL)
        fail_msg("%s: expected \"%s\", got \"%s\"", sql, wanted, found);
    PQclear(result);
    sandbox_do(sandbox, "rollback to rule");
}

struct rule {
    const char *cell; /* "NUMBER, CELLS" before the call */
    const char *call, *wanted;
};

static void assert_rules(const struct rule *rules, size_t count)
{
    sandbox_do(sandbox, "begin");
    for (size_t i = 0; i < count; i++) {
        sandbox_do(sandbox, "update cell set (number, cells) = (%s)", rules[i].cell);
        assert_answers(rules[i].call, rules[i].wanted);
    }
    sandbox_do(sandbox, "rollback");
}

#define ASSERT_RULES(rules) assert_rules(rules, sizeof(rules) / sizeof((rules)[0]))
#define SET(cell)                                                                        \
    "with done as materialized (select set_cell('" cell "') done)"                       \
    " select min(done::text) || 'done' from done"
#define NO_CELL "ERROR:  there is no cell "

static void test_set_cell__accepts_powers_of_two_only(void **state UNUSED)
{
    static const struct rule rules[] = {
        {"0, 1", SET("0/1"), "done"},
        {"0, 1", SET("0/2"), "done"},
        {"0, 1", SET("1/2"), "done"},
        {"0, 1", SET("1023/1024"), "done"},
        {"0, 1", SET("2/2"), NO_CELL "2/2"},
        {"0, 1", SET("0/3"), NO_CELL "0/3"},
        {"0, 1", SET("0/0"), NO_CELL "0/0"},
        {"0, 1", SET("0/2048"), NO_CELL "0/2048"},
        {"0, 1", SET("00001/2"), NO_CELL "00001/2"},
        {"0, 1", SET("-1/2"), NO_CELL "-1/2"},
        {"0, 1", SET("x"), NO_CELL "x"},
        {"-1, 2", SET("0/2"), "ERROR:  this database is an aggregate of cells: a cell"},
    };
    static const struct rule with_voucher[] = {
        {"1, 2", SET("1/2"), "done"},
        {"1, 2", SET("0/2"), "ERROR:  this database holds vouchers of cell 1/2,"},
        {"1, 2", SET("1/4"), "ERROR:  this database holds vouchers of cell 1/2,"},
    };

    ASSERT_RULES(rules);
    sandbox_do(sandbox, "select set_cell('3/4')");
    assert_int_equal(sandbox_number(sandbox, "select number * 10 + cells from cell"), 34);
    sandbox_do(sandbox, "update cell set (number, cells) = (0, 1)");
    sandbox_voucher(sandbox, 10, 1);
    ASSERT_RULES(with_voucher);
}

static void test_split_cell__needs_a_part_of_the_cell(void **state UNUSED)
{
#define NOT_PART "ERROR:  cell 1/2 cannot become "
    static const struct rule rules[] = {
        {"1, 2", "select split_cell(1, 4)", "0"},
        {"1, 2", "select split_cell(3, 4)", "0"},
        {"1, 2", "select split_cell(1023, 1024)", "0"},
        {"1, 2", "select split_cell(0, 4)", NOT_PART "0/4"},
        {"1, 2", "select split_cell(2, 4)", NOT_PART "2/4"},
        {"1, 2", "select split_cell(5, 4)", NOT_PART "5/4"},
        {"1, 2", "select split_cell(-1, 4)", NOT_PART "-1/4"},
        {"1, 2", "select split_cell(1, 2)", NOT_PART "1/2"},
        {"1, 2", "select split_cell(1, 1)", NOT_PART "1/1"},
        {"1, 2", "select split_cell(1, 6)", NOT_PART "1/6"},
        {"1, 2", "select split_cell(1, 2048)", NOT_PART "1/2048"},
        {"0, 1", "select split_cell(0, 2)", "0"},
        {"0, 1", "select split_cell(2, 2)", "ERROR:  cell 0/1 cannot become 2/2"},
    };

    ASSERT_RULES(rules);
}

/* @number  0: count the rows of even vouchers, 1: of odd vouchers */
static int64_t rows_of(int number)
{
    return sandbox_number(
        sandbox,
        "select (select count(*) from payment p join voucher_order o on o.id = p.order_id"
        "        where o.voucher_id %% 2 = %d)"
        " + (select count(*) from voucher_order where voucher_id %% 2 = %d) * 10"
        " + (select count(*) from order_event where voucher_id %% 2 = %d) * 100"
        " + (select count(*) from stock_event where voucher_id %% 2 = %d) * 1000"
        " + (select count(*) from voucher where id %% 2 = %d) * 10000",
        number, number, number, number, number);
}

static void test_split_cell__keeps_what_belongs_to_its_number(void **state UNUSED)
{
    for (int i = 0; i < 2; i++) {
        int64_t voucher = sandbox_voucher(sandbox, 10, 1);

        assert_int_equal(sandbox_number(sandbox, "%s", order(voucher, 1)), 1);
        sandbox_do(sandbox,
                   "select pay_order(voucher_id, id, 'payment:1', id::text, price_cents)"
                   " from voucher_order where voucher_id = %" PRId64,
                   voucher);
    }
    assert_int_equal(rows_of(0), 11111);
    assert_int_equal(rows_of(1), 11111);
    assert_int_equal(sandbox_number(sandbox, "select split_cell(1, 2)"), 1);
    assert_int_equal(rows_of(0), 0);
    assert_int_equal(rows_of(1), 11111);
    assert_int_equal(sandbox_number(sandbox, "select count(*) from payment"), 1);
    assert_int_equal(sandbox_number(sandbox, "select number * 10 + cells from cell"), 12);
}

#define JOIN(number, cells, url)                                                         \
    "select coalesce(join_aggregate('{\"number\":" number ",\"cells\":" cells            \
    ",\"url\":\"" url "\"}'), 'known')"
#define SUBSCRIPTION(number, url)                                                        \
    "create subscription seckill_cell_" number " connection '" url                       \
    "' publication seckill_cell"

/* The test runs as superuser, because others cannot read the subscriptions. */
static void test_join_aggregate__needs_a_new_database_and_cells_of_one_size(void **state)
{
    static const struct rule known[] = {
        {"-1, 2", JOIN("0", "2", "dbname=a"), "known"},
        {"-1, 2", JOIN("0", "2", "dbname=b"), "as cell 0/2: each cell needs a number"},
        {"-1, 2", JOIN("1", "2", "dbname=b"), SUBSCRIPTION("1", "dbname=b")},
        {"-1, 2", JOIN("1", "4", "dbname=b"), "which has cell -1/2: all cells need"},
    };
    static const struct rule holds_vouchers[] = {
        {"0, 1", JOIN("0", "2", "dbname=a"), "this database holds vouchers of its own"},
    };
    const struct fixture *fixture = *state;
    PGconn *owner = sandbox->conn;
    char schema[64];

    snprintf(schema, sizeof(schema), "%s",
             sandbox_text(sandbox, "select current_schema"));
    sandbox->conn = PQconnectdb(fixture->superuser_url);
    sandbox_do(sandbox, "set search_path = %s", schema);
    sandbox_do(sandbox, "set client_min_messages = error");
    assert_string_equal(sandbox_text(sandbox, JOIN("0", "2", "dbname=a")),
                        SUBSCRIPTION("0", "dbname=a"));
    assert_string_equal(sandbox_text(sandbox, "select number || '/' || cells || ' ' ||"
                                              " alive_at from cell"),
                        "-1/2 infinity");
    sandbox_do(sandbox, SUBSCRIPTION("0", "dbname=a") " with (connect = false)");
    ASSERT_RULES(known);
    sandbox_do(sandbox, "alter subscription seckill_cell_0 set (slot_name = none)");
    sandbox_do(sandbox, "drop subscription seckill_cell_0");
    sandbox_do(sandbox, "update cell set (number, cells) = (0, 1)");
    sandbox_voucher(sandbox, 10, 1);
    ASSERT_RULES(holds_vouchers);
    PQfinish(sandbox->conn);
    sandbox->conn = owner;
}

static void test_publish_cell__describes_the_cell(void **state UNUSED)
{
    static const struct rule rules[] = {
        {"0, 1", "select publish_cell('u')",
         "{\"number\" : 0, \"cells\" : 1, \"url\" : \"u\"}"},
        {"-1, 2", "select publish_cell('u')", "ERROR:  this database is an aggregate"},
    };

    sandbox_do(sandbox, "set client_min_messages = error"); /* about wal_level */
    ASSERT_RULES(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CELL_CASE(test_split_cell__deletes_an_order_that_is_under_way),
        CELL_CASE(test_split_cell__lets_no_order_in_behind_it),
        CELL_CASE(test_split_cell__is_refused_while_the_service_is_connected),
        CELL_CASE(test_split_cell__lets_no_session_read_the_old_cell),
        CELL_CASE(test_set_cell__accepts_powers_of_two_only),
        CELL_CASE(test_split_cell__needs_a_part_of_the_cell),
        CELL_CASE(test_split_cell__keeps_what_belongs_to_its_number),
        CELL_CASE(test_join_aggregate__needs_a_new_database_and_cells_of_one_size),
        CELL_CASE(test_publish_cell__describes_the_cell),
    };

    return cmocka_run_group_tests(tests, open_servers, close_servers);
}
