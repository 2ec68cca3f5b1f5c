/* it_sql_queries.c - queries of sql/queries, on rows at the bounds of their conditions. */
#include "app/test/sql/it_sql.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

SHARE_SANDBOX("queries")

/* @query  a file of sql/queries */
static void prepare(const char *query)
{
    char path[64];

    snprintf(path, sizeof(path), "sql/queries/%s.sql", query);
    sandbox_do(sandbox, "prepare %s as %s", query, embedded_find(path)->bytes);
}

/* The id of an order or an event as its number. */
static const char *readable(const char *value)
{
    static char number[32];
    char *rest;
    int64_t id = strtoll(value, &rest, 10);

    if (*rest != '\0' || id < 1 << 20)
        return value;
    snprintf(number, sizeof(number), "%" PRId64, id >> 20);
    return number;
}

/* Executes a prepared query. Returns the first `columns` values of each row, as "A:B A:B". */
static const char *answer(const char *call, int columns)
{
    static char text[512];
    char statement[256];
    PGresult *result;
    size_t len = 0;

    snprintf(statement, sizeof(statement), "execute %s", call);
    result = PQexec(sandbox->conn, statement);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", call, PQerrorMessage(sandbox->conn));
    text[0] = '\0';
    for (int row = 0; row < PQntuples(result); row++)
        for (int column = 0; column < columns; column++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
                                    column > 0 ? ":"
                                    : row > 0  ? " "
                                               : "",
                                    readable(PQgetvalue(result, row, column)));
    PQclear(result);
    return text;
}

static void assert_answer(const char *call, int columns, const char *wanted)
{
    const char *found = answer(call, columns);

    if (strcmp(found, wanted) != 0)
        fail_msg("%s: expected \"%s\", got \"%s\"", call, wanted, found);
}

/* -- lists -- */

/* Vouchers 1 and 2 begin in an hour, 3 begins now, 5 ends now. The others are far from 1: in other
   segments (of 65,536) and blocks (of 64 segments), the last one at the begin of its block. */
static const char vouchers[] =
    "insert into voucher (id, begin_at, end_at, price_cents, face_value_cents, "
    "stock_total,"
    " stock_left, per_user_limit, pay_within_s, title) select id, now() + begins * "
    "interval '1 h',"
    " now() + ends * interval '1 h', 1, 1, 1, 0, 1, 60, 'x' from (values (1, 1, 2), (2, "
    "1, 2),"
    " (3, 0, 1), (4, -1, 1), (5, -1, 0), (6, -2, -1), (16 << 16 | 3, -9, -8),"
    " (1 << 16, -9, -8), (63 << 16, -9, -8), (1 << 22 | 5, -9, -8), (2 << 22 | 9, -9, "
    "-8),"
    " (3 << 22, -9, -8)) v (id, begins, ends)";

/* Numbered against the order of the vouchers. */
static const char orders[] =
    "insert into voucher_order (voucher_id, id, user_id, price_cents, created_at, "
    "expires_at,"
    " slot) select voucher, number << 20 | (voucher & 1048575), shopper, 1, now(),"
    " now() + interval '1 h', 1 from (values (3::bigint, 10::bigint, 7), (16 << 16 | 3, "
    "11, 7),"
    " (1 << 16, 12, 7), (1 << 22 | 5, 13, 7), (3 << 22, 14, 7), (4, 15, 7), (2 << 22 | "
    "9, 16, 7),"
    " (63 << 16, 17, 7), (3, 21, 8)) o (voucher, number, shopper)";

static const char events[] =
    "insert into order_event (voucher_id, id, order_id, at, actor, from_status, "
    "to_status)"
    " select voucher, number << 20 | 3, of << 20 | 3, now(), 'x', 'unpaid', 'paid'"
    " from (values (3, 30::bigint, 10::bigint), (3, 31, 10), (3, 32, 21), (16 << 16 | 3, "
    "33, 10))"
    " e (voucher, number, of)";

static const char due[] =
    "update voucher_order o set due_to_id = case when due then id end, expires_at = "
    "now() + ends"
    " from (values (10, true, interval '0'), (21, true, '-1 h'), (15, true, '-2 h'),"
    " (12, false, '-3 h'), (13, true, '1 us')) d (number, due, ends) where id >> 20 = "
    "number";

static void test_queries__include_the_rows_at_their_bounds(void **state UNUSED)
{
#define MAX  "9223372036854775807"
#define LAST "'infinity', " MAX
    static const char *const queries[] = {
        "list_any",      "list_upcoming",  "list_open",  "list_ended",
        "list_orders",   "order_events",   "read_order", "read_voucher",
        "read_vouchers", "voucher_events", "due_batches"};
    static const struct {
        const char *call;
        int columns;
        const char *wanted;
    } rows[] = {
        {"list_any(7, 9)", 1, "6 5 4 3 2 1"},
        {"list_any(3, 9)", 1, "2 1"},
        {"list_any(7, 2)", 1, "6 5"},
        {"list_upcoming('-infinity', 0, 9)", 1, "1 2"},
        {"list_upcoming(now() + interval '1 h', 1, 9)", 1, "2"},
        {"list_open('-infinity', 0, 9)", 1, "3 4"},
        {"list_open(now() + interval '1 h', 3, 9)", 1, "4"},
        {"list_ended(" LAST ", 2)", 1, "5 6"},
        {"list_ended(now(), 5, 1)", 1, "6"},
        {"list_orders(7, 0, " MAX ", 99)", 1, "17 16 15 14 13 12 11 10"},
        {"list_orders(7, 0, " MAX ", 2)", 1, "17 16"},
        {"list_orders(7, 0, 13::bigint << 20 | 5, 9)", 1, "12 11 10"},
        {"list_orders(7, 3, " MAX ", 9)", 1, "10"},
        {"list_orders(7, 1, " MAX ", 9)", 1, ""},
        {"read_order(15::bigint << 20 | 4, 0)", 2, "15:4"},
        {"read_order(10::bigint << 20 | 3, 0)", 2, "10:3"},
        {"read_order(11::bigint << 20 | 3, 0)", 2, "11:1"}, /* voucher 16 << 16 | 3 */
        {"read_order(11::bigint << 20 | 3, 7)", 1, "11"},
        {"read_order(11::bigint << 20 | 3, 8)", 1, ""},
        {"read_voucher(3)", 1, "3"},
        {"read_voucher(99)", 1, ""},
        {"read_vouchers('{3,99}')", 1, "3"},
        {"order_events(3, 0, 9, 10::bigint << 20 | 3)", 1, "10 30 31"},
        {"order_events(3, 0, 2, 10::bigint << 20 | 3)", 1, "10 30"},
        {"order_events(3, 10::bigint << 20 | 3, 9, 10::bigint << 20 | 3)", 1, "30 31"},
        {"order_events(4, 0, 9, 10::bigint << 20 | 3)", 1, ""},
        {"voucher_events(3, 0, 9)", 1, "10 21 30 31 32"},
        {"voucher_events(3, 21::bigint << 20 | 3, 2)", 1, "30 31"},
        {"due_batches(9, '{4}')", 2, "3:{22020099,10485763}"}, /* orders 21 and 10 */
        {"due_batches(9, '{3,9}')", 2, "4:{15728644}"},
        {"due_batches(1, '{}')", 2, "4:{15728644}"},
    };

    for (size_t i = 0; i < COUNT_OF(queries); i++)
        prepare(queries[i]);
    sandbox_do(sandbox, "begin"); /* now() stands still */
    sandbox_do(sandbox, vouchers);
    sandbox_do(sandbox, orders);
    sandbox_do(sandbox, events);
    sandbox_do(sandbox, due);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_answer(rows[i].call, rows[i].columns, rows[i].wanted);
    sandbox_do(sandbox, "rollback");
}

/* The oldest cell counts, and the row of an aggregate does not. */
static void test_age__is_that_of_the_oldest_cell(void **state UNUSED)
{
    static const struct {
        const char *cells;
        int64_t min_s, max_s;
    } rows[] = {
        {"(-1, 2, 'infinity')", 0, 0},
        {"(0, 1, now() + interval '1 h')", 0, 0}, /* by the clock of another server */
        {"(0, 1, now() - interval '1 h')", 3600, 7200},
        {"(-1, 2, 'infinity'), (0, 2, now()), (1, 2, now() - interval '1 h')", 3600,
         7200},
    };

    prepare("age");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t found_s;

        sandbox_do(sandbox, "begin");
        sandbox_do(sandbox, "delete from cell");
        sandbox_do(sandbox, "insert into cell values %s", rows[i].cells);
        found_s = number_of(answer("age", 1));
        if (found_s < rows[i].min_s || found_s > rows[i].max_s)
            fail_msg("cells %s: expected an age of %" PRId64 " to %" PRId64
                     " s, got %" PRId64,
                     rows[i].cells, rows[i].min_s, rows[i].max_s, found_s);
        sandbox_do(sandbox, "rollback");
    }
}

/* -- sessions -- */

#define TRIES 1000 /* other processes write and flush WAL, too */

/* Begins a transaction by `statement`, and then executes the query. Returns the level of its
   commit, whether the query wrote a message, and whether the transaction has an id. */
static const char *barrier_behind(const char *statement)
{
    static char text[128];
    const char *message;
    size_t len;

    sandbox_do(sandbox, "begin");
    sandbox_do(sandbox, "%s", statement);
    message = strchr(answer("barrier", 2), ':');
    len = (size_t)snprintf(text, sizeof(text), "%s%s",
                           sandbox_text(sandbox, "show synchronous_commit"),
                           strlen(message) > 1 ? " message" : "");
    if (sandbox_text(sandbox, "select pg_current_xact_id_if_assigned()")[0] != '\0')
        snprintf(text + len, sizeof(text) - len, " id");
    sandbox_do(sandbox, "commit");
    return text;
}

static void test_barrier__writes_unless_all_is_on_disk(void **state UNUSED)
{
    static const struct {
        const char *statement, *others, *wanted;
    } rows[] = {
        {"select 1", "", "on"},
        {"set local synchronous_commit = remote_apply", "", "remote_apply"},
        {"update cell set alive_at = now()", "", "on id"},
        {"select 1",
         "insert into cell values (1, 2) on conflict (number) do update set cells = 2",
         "on message id"},
    };
    PGconn *other = sandbox_connect(sandbox);

    prepare("barrier");
    sandbox_do(sandbox, "set synchronous_commit = off");
    PQclear(PQexec(other, "begin"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *found = "";

        for (int tried = 0; tried < TRIES && strcmp(found, rows[i].wanted) != 0;
             tried++) {
            PQclear(PQexec(other, rows[i].others));
            found = barrier_behind(rows[i].statement);
        }
        if (strcmp(found, rows[i].wanted) != 0)
            fail_msg("%s: expected \"%s\", got \"%s\"", rows[i].statement, rows[i].wanted,
                     found);
        assert_string_equal(sandbox_text(sandbox, "show synchronous_commit"), "off");
    }
    sandbox_do(sandbox, "reset synchronous_commit");
    PQfinish(other);
}

/* @standby  the name of the standby that commits wait for */
static void require_standby(struct fixture *fixture, const char *standby)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "alter system set synchronous_standby_names = '%s'",
             standby);
    (void)sql_administer(fixture, sql);
    (void)sql_administer(fixture, "select pg_reload_conf()");
    while (strcmp(sandbox_text(sandbox, "show synchronous_standby_names"), standby) != 0)
        continue;
}

/* The transactions are rolled back, because a commit would wait for a standby that is missing. */
static void test_barrier__writes_for_a_standby_even_if_all_is_on_disk(void **state)
{
    require_standby(*state, "nobody");
    for (int i = 0; i < 20; i++) {
        sandbox_do(sandbox, "begin");
        sandbox_do(sandbox, "set local synchronous_commit = local");
        sandbox_do(sandbox, "update cell set alive_at = now()");
        sandbox_do(sandbox, "commit"); /* with all WAL */
        sandbox_do(sandbox, "begin");
        if (strlen(strchr(answer("barrier", 2), ':')) == 1)
            fail_msg("expected a message");
        sandbox_do(sandbox, "rollback");
    }
    require_standby(*state, "");
}

/* The client of the test is a standby that receives WAL, but is not one to wait for. Only a superuser
   sees its state. */
static void test_proof__tells_what_a_commit_survives(void **state)
{
    static const struct {
        const char *standby, *setting;
        bool is_superuser;
        const char *wanted;
    } rows[] = {
        {"", "synchronous_commit = off", false, "1:0"},
        {"", "synchronous_commit = local", false, "2:0"},
        {"", "synchronous_commit = on", false, "2:0"},
        {"", "transaction_read_only = on", false, "2:1"},
        {"nobody", "synchronous_commit = local", false, "2:0"},
        {"nobody", "synchronous_commit = on", false, "3:0"},
        {"nobody", "synchronous_commit = remote_apply", false, "3:0"},
        {"nobody", "synchronous_commit = on", true, "2:0"},
        {"*", "synchronous_commit = on", true, "3:0"},
    };
    struct fixture *fixture = *state;
    pid_t receiver = fixture_receive_wal(fixture);
    PGconn *conns[] = {sandbox->conn, PQconnectdb(fixture->superuser_url)};

    while (sandbox_number(sandbox, "select count(*) from pg_stat_get_wal_senders()") == 0)
        continue;
    for (int i = 1; i >= 0; i--) {
        sandbox->conn = conns[i];
        prepare("proof");
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        require_standby(fixture, rows[i].standby);
        sandbox->conn = conns[rows[i].is_superuser];
        sandbox_do(sandbox, "begin");
        sandbox_do(sandbox, "set local %s", rows[i].setting);
        assert_answer("proof", 2, rows[i].wanted);
        sandbox_do(sandbox, "rollback");
        sandbox->conn = conns[0];
    }
    require_standby(fixture, "");
    PQfinish(conns[1]);
    kill(receiver, SIGKILL);
    waitpid(receiver, NULL, 0);
}

/* The settings outlive the transaction. */
static void test_session__sets_what_statements_need(void **state UNUSED)
{
    static const char settings[] =
        "select string_agg(setting, ' ' order by name) from pg_settings where name in"
        " ('default_transaction_isolation', 'enable_bitmapscan', 'enable_hashjoin',"
        "  'enable_mergejoin', 'enable_seqscan', 'enable_sort', 'idle_session_timeout', "
        "'jit',"
        "  'lock_timeout', 'plan_cache_mode', 'statement_timeout')";
    PGconn *usual = sandbox->conn;

    sandbox->conn = sandbox_connect(sandbox);
    sandbox_do(sandbox, "set default_transaction_isolation = serializable");
    prepare("session");
    assert_null(strchr(answer("session(10001, 10002, 10003)", 1), ' ')); /* one row */
    assert_string_equal(sandbox_text(sandbox, settings),
                        "read committed off off off off off 10003 off 10002"
                        " force_generic_plan 10001");
    PQfinish(sandbox->conn);
    sandbox->conn = usual;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AUDITED_CASE(test_queries__include_the_rows_at_their_bounds),
        AUDITED_CASE(test_age__is_that_of_the_oldest_cell),
        AUDITED_CASE(test_barrier__writes_unless_all_is_on_disk),
        AUDITED_CASE(test_barrier__writes_for_a_standby_even_if_all_is_on_disk),
        AUDITED_CASE(test_proof__tells_what_a_commit_survives),
        AUDITED_CASE(test_session__sets_what_statements_need),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
