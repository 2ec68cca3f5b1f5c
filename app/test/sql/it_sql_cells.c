/* it_sql_cells.c - a cell is divided completely, whatever other sessions do. */
#include "app/test/sql/it_sql.h"

#include <inttypes.h>

static struct sandbox *sandbox;
static PGconn *other; /* of the owner */

static int open_servers(void **state)
{
    *state = fixture_open();
    return 0;
}

/* Each test divides a cell of its own. */
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

/* A voucher that cell 0/2 does not keep. */
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

/* Sends a statement; until it waits for a lock, or is answered. */
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

/* By its role, or with the role of the owner by the name of its program. */
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

/* Read by a session that begins, so it does not believe in the old cell. */
static void test_split_cell__lets_no_session_read_the_old_cell(void **state UNUSED)
{
    odd_voucher();
    sandbox_do(sandbox, "begin");
    assert_true(sandbox_number(sandbox, "select split_cell(0, 2)") > 0);
    send("select min(cells) from cell");
    sandbox_do(sandbox, "commit");
    assert_string_equal(answer(), "2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CELL_CASE(test_split_cell__deletes_an_order_that_is_under_way),
        CELL_CASE(test_split_cell__lets_no_order_in_behind_it),
        CELL_CASE(test_split_cell__is_refused_while_the_service_is_connected),
        CELL_CASE(test_split_cell__lets_no_session_read_the_old_cell),
    };

    return cmocka_run_group_tests(tests, open_servers, close_servers);
}
