/* test_store_conn.c - queries on a connection: what is called in libpq, in order, and what is
   answered. */
#include "app/test/store/conn_fixture.h"

/* -- queries -- */

CONN_CASE(test_send__ends_with_the_proof)
{
    come_up();
    place(&first);
    ASSERT_SAID(PLACED);
    ASSERT_NUMBER(store_conn_pending(conn), ==, 1);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
    pass_ms(100);
    send_bare(&second, STATEMENT_RETIRE);
    ASSERT_SAID("retire;sync;");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 2);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS - 100);
    fake_read("11;12;sync;");
    ASSERT_SAID("");
    fake_read(PROOF);
    ASSERT_SAID("");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 2);
    fake_read("sync;");
    ASSERT_SAID("first ok 11;");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 1);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
    fake_read("13;sync;");
    ASSERT_SAID("second ok 13;");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
    ASSERT_NUMBER(store_conn_session(conn)->age_s, ==, 0);
}

CONN_CASE(test_send__follows_the_table_of_statements)
{
    come_up();
    send_bare(&first, STATEMENT_BARRIER);
    ASSERT_SAID("barrier;sync;proof;sync;");
    fake_read("1;sync;" PROOF "sync;");
    ASSERT_SAID("first ok 1;");
    send_bare(&first, STATEMENT_PLACE_EARLY);
    fake_read("2;sync;");
    ASSERT_SAID("place_early;sync;first ok 2;");
}

CONN_CASE(test_send__a_reader_asks_for_the_age)
{
    options.is_reader = true;
    come_up();
    send_bare(&first, STATEMENT_READ_VOUCHERS);
    ASSERT_SAID("read_vouchers;age;sync;");
    fake_read("5;17;");
    ASSERT_SAID("");
    fake_read("sync;");
    ASSERT_SAID("first ok 5;");
    send_bare(&first, STATEMENT_READ_VOUCHERS);
    fake_read("!40001;ok;sync;");
    ASSERT_SAID("read_vouchers;age;sync;first busy 'words of the server (40001)';");
    ASSERT_NUMBER(store_conn_session(conn)->age_s, ==, 17);
}

static bool accepts(bool has_memory)
{
    struct store_params params = {.has_failed = !has_memory};

    return store_conn_send(conn, &second.query, STATEMENT_RETIRE, &params);
}

CONN_CASE(test_send__needs_a_connection_and_memory)
{
    open_conn();
    assert_false(accepts(true));
    come_up();
    assert_false(accepts(false));
    ASSERT_SAID("");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
    second.query.statement_ms = 9000;
    torture_fail(1, 0);
    assert_true(accepts(true));
    assert_true(torture_stop());
    pass_ms(0);
    ASSERT_CONTAINS(said, "second io");
}

CONN_CASE(test_send__sets_the_time_limit)
{
    static const struct {
        uint32_t statement_ms;
        const char *said;
    } rows[] = {
        {1000, ""},
        {2000, ""},
        {2001, ""},
        {2002, "set statement_timeout = 2002;sync;"},
        {2001, "set statement_timeout = 2001;sync;"},
        {4002, ""},
        {0, "set statement_timeout = 0;sync;"},
    };
    char wanted[200];

    come_up();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool is_set = rows[i].said[0] != '\0';

        first.query.statement_ms = rows[i].statement_ms;
        send_bare(&first, STATEMENT_RETIRE);
        snprintf(wanted, sizeof(wanted), "%sretire;sync;", rows[i].said);
        ASSERT_SAID(wanted);
        ASSERT_NUMBER(store_conn_pending(conn), ==, is_set ? 2 : 1);
        fake_read(is_set ? "ok;sync;1;sync;" : "1;sync;");
        ASSERT_SAID("first ok 1;");
        ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
    }
}

/* clang-format off */
static void place_first(void)    { place(&first); }
static void check(void)          { store_conn_check(conn); }
static void read_new_proof(void) { fake_read("11;12;sync;2 0 6 7 1 2;sync;"); }
/* clang-format on */

static void place_with_limit(void)
{
    first.query.statement_ms = 9000;
    place(&first);
}

/* In each row one call of libpq fails while a query is sent. store_conn_send() does not report the
   failure itself. It sets the timer to 0 ms, and the timer closes the connection and answers the
   query. */
CONN_CASE(test_send__fails_later)
{
    static const struct {
        void (*send)(void);
        const char *call;
        unsigned at;
    } rows[] = {
        {place_first, "place", 0},
        {place_first, "barrier", 0},
        {place_first, "sync", 0},
        {place_first, "proof", 0},
        {place_first, "sync", 1},
        {place_with_limit, "set statement_timeout = 9000", 0},
        {place_with_limit, "sync", 0},
        {read_new_proof, "barrier", 0},
        {read_new_proof, "proof", 0},
        {read_new_proof, "sync", 0},
        {check, "proof", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        come_up();
        if (rows[i].send == read_new_proof)
            place(&first);
        fake_fail(rows[i].call, rows[i].at);
        rows[i].send();
        said[0] = '\0';
        assert_false(store_conn_is_up(conn));
        assert_false(accepts(true));
        ASSERT_NUMBER(fake_due_ms(), ==, 0);
        store_conn_flush(conn);
        ASSERT_SAID("");
        pass_ms(0);
        ASSERT_SAID(rows[i].send == check
                        ? "backoff 0 40 250;finish;down 1 io 'send: words of libpq';"
                        : "backoff 0 40 250;finish;down 1 io 'send: words of libpq';"
                          "first io 'send: words of libpq' no result;");
        ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
        start_again();
    }
}

/* -- answers -- */

#define ERROR(sqlstate)        "!" sqlstate ";sync;" PROOF "sync;"
#define SAYS(status, sqlstate) "first " status " 'words of the server (" sqlstate ")';"
#define ENDS(status, sqlstate)                                                           \
    "down 1 " status " 'session: words of the server (" sqlstate ")';"

CONN_CASE(test_answer__of_one_query)
{
    /* clang-format off */
    static const struct {
        const char *arrives, *said, *ends; /* "": the session goes on */
    } rows[] = {
        {ERROR("0A000"), SAYS("busy", "0A000"), ENDS("io", "0A000")},
        {ERROR("0A001"), SAYS("refused", "0A001"), ""},
        {ERROR("25006"), SAYS("busy", "25006"), ENDS("busy", "25006")},
        {ERROR("25007"), SAYS("refused", "25007"), ""},
        {ERROR("26000"), SAYS("busy", "26000"), ENDS("io", "26000")},
        {ERROR("40001"), SAYS("busy", "40001"), ""},
        {ERROR("53300"), SAYS("busy", "53300"), ""},
        {ERROR("55P03"), SAYS("busy", "55P03"), ""},
        {ERROR("57014"), SAYS("busy", "57014"), ""},
        {ERROR("58030"), SAYS("busy", "58030"), ""},
        {ERROR("23505"), SAYS("refused", "23505"), ""},
        /* the commit fails, so its error replaces the rows */
        {"11;12;" ERROR("40001"), SAYS("busy", "40001"), ""},
        /* A refused transaction was rolled back. This outcome is known, whatever the proof says. */
        {"!23505;sync;1 0 5 7 1 2;sync;", SAYS("refused", "23505"), "down 1 unsafe 'session: durability is none, see"},
        {"!23505;sync;2 0 6 7 1 2;sync;", SAYS("refused", "23505"), ""},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        come_up_and_place(1);
        fake_read(rows[i].arrives);
        ASSERT_SAID(rows[i].said);
        assert_true(store_conn_is_up(conn) == (rows[i].ends[0] == '\0'));
        if (!store_conn_is_up(conn)) {
            ASSERT_NUMBER(fake_due_ms(), ==, 0);
            pass_ms(0);
            ASSERT_CONTAINS(said, rows[i].ends);
        }
        start_again();
    }
}

/* Either a pooler has lost its server, or the store leaves the server because of its proof. In both
   cases all outcomes are unknown. */
CONN_CASE(test_answer__is_unknown)
{
    static const struct {
        const char *arrives, *down;
    } rows[] = {
        {"!08006;sync;", "down 1 io 'words of the server';"},
        {"1 0 5 7 1 2;", "down 1 unsafe 'durability is none, see"},
        {"2 1 5 7 1 2;", "down 1 busy 'the server is read-only';"},
        {"!57014;", "down 1 io 'proof: words of the server';"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        come_up_and_place(2);
        if (i > 0)
            fake_read("11;12;sync;");
        fake_read(rows[i].arrives);
        ASSERT_CONTAINS(said, rows[i].down);
        ASSERT_CONTAINS(said, ";first io '");
        ASSERT_CONTAINS(said, "no result;second io '");
        ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
        pass_ms(10);
        come_up_and_place(1);
        fake_read("11;12;sync;" PROOF "sync;");
        ASSERT_SAID("first ok 11;");
        start_again();
    }
}

static void notice(bool is_of_standby)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_NONFATAL_ERROR);

    fake_notice = is_of_standby ? result : NULL;
    fake_pg->notice(fake_pg->notice_arg, result);
    PQclear(result);
}

CONN_CASE(test_answer__a_cancelled_wait_is_unknown)
{
    come_up_and_place(1);
    notice(false);
    fake_read("11;12;sync;" PROOF "sync;");
    ASSERT_SAID("first ok 11;");
    place(&first);
    notice(true);
    fake_read("11;12;sync;");
    ASSERT_CONTAINS(said, "down 1 io 'the commit's wait for the standby was cancelled';"
                          "first io 'the commit's wait for the standby was cancelled'");
    pass_ms(10);
    come_up_and_place(1);
    fake_read("11;12;sync;" PROOF "sync;");
    ASSERT_SAID("first ok 11;");
}

/* -- proofs -- */

/* The proof shows that the server has read its configuration again. So the barrier and the proof
   are sent again, behind the queries that were already sent. */
CONN_CASE(test_proof__is_repeated_after_a_new_configuration)
{
    come_up();
    place(&first);
    pass_ms(100);
    place(&second);
    said[0] = '\0';
    fake_read("11;12;sync;2 0 6 7 1 2;sync;");
    ASSERT_SAID("barrier;sync;proof;sync;");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 2);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
    fake_read("21;22;sync;2 0 6 7 1 2;sync;");
    ASSERT_SAID("second ok 21;");
    fake_read("12;sync;2 0 6 7 1 2;sync;");
    ASSERT_SAID("first ok 11;");
    place(&first);
    said[0] = '\0';
    fake_read("11;12;sync;2 0 7 7;sync;");
    fake_read("!40001;sync;");
    ASSERT_CONTAINS(said, "first io 'words of the server' no result;");
}

CONN_CASE(test_check__asks_for_a_proof)
{
    open_conn();
    said[0] = '\0';
    store_conn_check(conn);
    ASSERT_SAID("");
    come_up();
    store_conn_check(conn);
    ASSERT_SAID("proof;sync;");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 1);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
    store_conn_check(conn);
    ASSERT_SAID("");
    fake_read("3 0 5 7 0 4;sync;");
    ASSERT_NUMBER(store_conn_session(conn)->durability, ==, DURABILITY_REMOTE);
    ASSERT_NUMBER(store_conn_session(conn)->cell, ==, 0);
    ASSERT_NUMBER(store_conn_session(conn)->cells, ==, 4);
    assert_true(store_conn_is_up(conn));
    send_bare(&first, STATEMENT_RETIRE);
    fake_read("1;sync;");
    ASSERT_SAID("retire;sync;first ok 1;");
    store_conn_check(conn);
    fake_read("!40001;sync;");
    assert_true(store_conn_is_up(conn));
    store_conn_check(conn);
    said[0] = '\0';
    fake_read("1 0 5 7 1 2;sync;");
    assert_false(store_conn_is_up(conn));
    pass_ms(0);
    ASSERT_CONTAINS(said, "down 1 unsafe 'session: durability is none, see");
    pass_ms(10);
    come_up();
}

/* -- time -- */

CONN_CASE(test_deadline__starts_when_a_query_is_the_oldest)
{
    come_up();
    place(&first);
    pass_ms(TIMEOUT_MS - 1);
    place(&second);
    said[0] = '\0';
    fake_read("11;12;sync;" PROOF "sync;");
    ASSERT_SAID("first ok 11;");
    pass_ms(TIMEOUT_MS - 1);
    ASSERT_SAID("");
    pass_ms(1);
    ASSERT_SAID("backoff 0 40 250;finish;down 1 timeout 'no answer within 5000 ms';"
                "second timeout 'no answer within 5000 ms' no result;");
}

CONN_CASE(test_deadline__delays_no_failure)
{
    come_up();
    place(&first);
    fake_fail("place", 0);
    place(&second);
    said[0] = '\0';
    fake_read("11;12;sync;" PROOF "sync;");
    ASSERT_SAID("first ok 11;");
    ASSERT_NUMBER(fake_due_ms(), ==, 0);
}

/* The process was paused. It reads the answer that has arrived during the pause before the server
   counts as hung. */
CONN_CASE(test_deadline__reads_what_has_arrived)
{
    come_up_and_place(1);
    fake_arrive("11;12;sync;" PROOF "sync;");
    pass_ms(TIMEOUT_MS);
    ASSERT_SAID("first ok 11;");
    ASSERT_NUMBER(fake_due_ms(), ==, -1);
    fake_drop_arrivals();
    pass_ms(TIMEOUT_MS);
    assert_true(store_conn_is_up(conn));
    ASSERT_SAID("");
}

/* The clock of libuv may be ahead of ours. */
CONN_CASE(test_deadline__the_timer_may_be_early)
{
    come_up_and_place(1);
    pass_ms(100);
    simulated_timers[0].callback(simulated_timers[0].timer);
    assert_true(store_conn_is_up(conn));
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS - 100);
    ASSERT_SAID("");
    fake_fail("consume", 0);
    pass_ms(TIMEOUT_MS - 100);
    ASSERT_SAID("backoff 0 40 250;finish;down 1 io 'connection lost: words of libpq';"
                "first io 'connection lost: words of libpq' no result;");
}

/* A large answer is arriving. The timer looks again in the next turn of the loop. */
CONN_CASE(test_deadline__waits_for_an_answer_that_is_arriving)
{
    char byte;

    come_up_and_place(1);
    ASSERT_NUMBER(write(fake_socket[1], "x", 1), ==, 1);
    simulated_us += TIMEOUT_MS * INT64_C(1000);
    simulated_timers[0].callback(simulated_timers[0].timer);
    ASSERT_SAID("");
    ASSERT_NUMBER(fake_due_ms(), ==, 0);
    ASSERT_NUMBER(read(fake_socket[0], &byte, 1), ==, 1);
    pass_ms(0);
    ASSERT_CONTAINS(said, "first timeout 'no answer within 5000 ms' no result;");
}

/* -- input -- */

CONN_CASE(test_input__answers_before_the_end_of_the_stream)
{
    come_up_and_place(2);
    fake_fail("consume", 0);
    fake_read("11;12;sync;" PROOF "sync;");
    ASSERT_SAID("first ok 11;backoff 0 40 250;finish;"
                "down 1 io 'connection lost: words of libpq';"
                "second io 'connection lost: words of libpq' no result;");
    pass_ms(10);
    come_up();
    fake_pg->status = CONNECTION_BAD;
    fake_read("");
    ASSERT_SAID("backoff 0 40 250;finish;down 1 io 'connection lost: words of libpq';");
}

CONN_CASE(test_input__passes_notifications_on)
{
    static char payload[] = "17";

    open_conn();
    fake_ready(UV_WRITABLE);
    said[0] = '\0';
    fake_notify_of(payload);
    fake_ready(UV_READABLE);
    ASSERT_SAID("");
    fake_read(SESSION PROOF "sync;");
    ASSERT_SAID("up;notify 17;");
    fake_notify_of(payload);
    fake_ready(UV_WRITABLE); /* only writable: the notification is not read */
    ASSERT_SAID("flush;");
    fake_ready(UV_READABLE | UV_WRITABLE);
    ASSERT_SAID("flush;notify 17;");
}

/* If the connection is dead, libpq is not busy but has no result. */
CONN_CASE(test_input__ends_at_a_dead_connection)
{
    come_up_and_place(1);
    fake_nulls = 2;
    fake_fail("consume", 0);
    fake_ready(UV_READABLE);
    ASSERT_NUMBER(fake_nulls, ==, 0);
    ASSERT_CONTAINS(said, "first io 'connection lost: words of libpq' no result;");
}

CONN_CASE(test_input__ignores_a_socket_that_is_closed)
{
    uv_poll_t closed = {0};

    come_up();
    closed.data = conn;
    fake_fail("consume", 0);
    fake_on_poll(&closed, 0, UV_READABLE | UV_WRITABLE);
    ASSERT_SAID("");
}

CONN_CASE(test_flush__waits_until_all_is_written)
{
    come_up();
    fake_unsent = 1;
    store_conn_flush(conn);
    ASSERT_SAID("flush;poll R W;");
    store_conn_flush(conn);
    ASSERT_SAID("flush;");
    fake_unsent = 0;
    fake_ready(UV_WRITABLE);
    ASSERT_SAID("flush;poll R;");
    fake_unsent = -1;
    store_conn_flush(conn);
    ASSERT_SAID("flush;");
    ASSERT_NUMBER(fake_due_ms(), ==, 0);
    pass_ms(0);
    ASSERT_CONTAINS(said, "down 1 io 'send: words of libpq';");
    said[0] = '\0';
    store_conn_flush(conn); /* not connected */
    pass_ms(10);
    store_conn_flush(conn); /* connecting */
    ASSERT_SAID(CONNECT(ONE_HOST, "10.0.0.1", "5001"));
}

/* -- abandoned, left, closed -- */

CONN_CASE(test_abandon__nobody_is_answered)
{
    come_up_and_place(2);
    fake_read("11;12;");
    torture_fail(1, 0);
    assert_false(store_conn_abandon(conn, &first.query));
    assert_true(torture_stop());
    assert_true(store_conn_abandon(conn, &first.query));
    assert_null(first.query.result);
    ASSERT_NUMBER(store_conn_pending(conn), ==, 2);
    fake_read("sync;" PROOF "sync;");
    ASSERT_SAID("");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 1);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
    fake_read("21;22;sync;2 0 6 7 1 2;sync;");
    ASSERT_SAID("barrier;sync;proof;sync;");
    assert_true(store_conn_abandon(conn, &second.query));
    fake_read("!40001;sync;");
    ASSERT_CONTAINS(said, "down 1 io 'words of the server';");
    assert_null(strstr(said, "second"));
}

CONN_CASE(test_leave__breaks_a_connection_that_is_up)
{
    const struct rlock_err why = {.status = RLOCK_UNSAFE,
                                  .text = "another one is unsafe"};

    open_conn();
    store_conn_leave(conn, &why);
    come_up_and_place(1);
    store_conn_leave(conn, &why);
    assert_false(store_conn_is_up(conn));
    store_conn_leave(conn, &(struct rlock_err){.status = RLOCK_IO, .text = "later"});
    pass_ms(0);
    ASSERT_SAID("backoff 0 40 250;finish;"
                "down 1 unsafe 'connection left: another one is unsafe';"
                "first io 'connection left: another one is unsafe' no result;");
}

CONN_CASE(test_rest__waits_for_the_leader)
{
    struct store_conn leader = {.host = 2, .session = {.server_start_us = 5}};

    options.database_url = THREE_HOSTS;
    open_conn();
    store_conn_rest(conn);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS / 5); /* the connection attempt goes on */
    fake_next = PGRES_POLLING_FAILED;
    fake_ready(UV_WRITABLE);
    store_conn_rest(conn);
    ASSERT_NUMBER(fake_due_ms(), ==, -1);
    said[0] = '\0';
    store_conn_follow(conn, &leader);
    ASSERT_NUMBER(fake_due_ms(), ==, 0);
    pass_ms(0);
    ASSERT_SAID(CONNECT(THREE_HOSTS, "10.0.0.3", "5003"));
    store_conn_follow(conn, &leader); /* the connection is already connecting */
    ASSERT_SAID("");
}

CONN_CASE(test_follow__leaves_another_server)
{
    struct store_conn leader = {.host = 1};

    options.database_url = THREE_HOSTS;
    come_up();
    leader.session.server_start_us = store_conn_session(conn)->server_start_us;
    store_conn_follow(conn, &leader);
    assert_true(store_conn_is_up(conn));
    leader.session.server_start_us++;
    store_conn_follow(conn, &leader);
    assert_false(store_conn_is_up(conn));
    said[0] = '\0';
    pass_ms(0);
    ASSERT_SAID(
        "finish;down 1 io 'connection left: another server accepts writes';" CONNECT(
            THREE_HOSTS, "10.0.0.2", "5002"));
}

static void send_to_closed(void)
{
    assert_false(store_conn_is_up(conn));
    assert_false(accepts(true));
    SAY("refused;");
}

CONN_CASE(test_close__answers_all_queries)
{
    come_up_and_place(2);
    fake_read("11;");
    in_answer = send_to_closed;
    end(NULL);
    ASSERT_SAID("finish;first cancelled 'closed' no result;refused;"
                "second cancelled 'closed' no result;");
    conn = NULL;
}

int main(void)
{
    return cases_run(NULL, NULL);
}
