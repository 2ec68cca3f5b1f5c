/* test_store_conn_open.c - how a connection is made: names, hosts, the session, time limits. */
#include "app/test/store/conn_fixture.h"

#define PREPARE                                                                          \
    "poll R;nonblocking 1;pipeline;session '1000' '200' '9000';prepare place;"           \
    "prepare webhook_remove;"
#define PREPARED(rest) PREPARE rest "sync;flush;"

/* -- connecting -- */

CONN_CASE(test_connect__prepares_a_session)
{
    const struct store_session *session;

    options.listen = "vouchers";
    open_conn();
    ASSERT_SAID(CONNECT(ONE_HOST, "10.0.0.1", "5001"));
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
    pass_ms(100);
    fake_next = PGRES_POLLING_READING;
    fake_ready(UV_WRITABLE);
    ASSERT_SAID("poll R;");
    fake_next = PGRES_POLLING_WRITING;
    fake_ready(UV_READABLE);
    ASSERT_SAID("poll W;");
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS - 100);
    fake_next = PGRES_POLLING_OK;
    fake_ready(UV_READABLE);
    ASSERT_SAID("nonblocking 1;pipeline;session '1000' '200' '9000';prepare place;"
                "prepare webhook_remove;proof;listen vouchers;sync;flush;poll R;");
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
    fake_read(SESSION "ok;ok;" PROOF);
    assert_false(store_conn_is_up(conn));
    ASSERT_SAID("");
    fake_read("sync;");
    ASSERT_SAID("up;");
    assert_true(store_conn_is_up(conn));
    ASSERT_NUMBER(fake_due_ms(), ==, -1);
    session = store_conn_session(conn);
    ASSERT_NUMBER(session->backend.pid, ==, 7);
    ASSERT_NUMBER(session->backend.start_us, ==, INT64_C(946684800000008));
    ASSERT_NUMBER(session->server_start_us, ==, INT64_C(946684800000009));
    ASSERT_NUMBER(session->configured_us, ==, INT64_C(946684800000005));
    ASSERT_NUMBER(session->durability, ==, DURABILITY_LOCAL);
    ASSERT_NUMBER(session->cell, ==, 1);
    ASSERT_NUMBER(session->cells, ==, 2);
    ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
}

CONN_CASE(test_connect__a_reader_needs_no_proof)
{
    options.is_reader = true;
    open_conn();
    fake_ready(UV_WRITABLE);
    ASSERT_SAID(CONNECT(
        ONE_HOST, "10.0.0.1",
        "5001") "nonblocking 1;pipeline;session '1000' '200' '9000';prepare place;"
                "prepare webhook_remove;sync;flush;poll R;");
    fake_encoding = NULL;
    /* The server is an aggregate, in which no orders are placed. */
    fake_read("7 8 0 9;sync;");
    ASSERT_SAID("up;");
}

CONN_CASE(test_connect__fails)
{
    /* clang-format off */
    static const struct {
        const char *call;
        unsigned at;
        const char *encoding, *arrives, *why;
    } rows[] = {
        {"connect",     0, "UTF8",   NULL, "io 'connect: no connection'"},
        {"parse",       1, "UTF8",   NULL, "io 'connect: out of memory'"},
        {"refuse",      0, "UTF8",   NULL, "io 'connect: words of libpq'"},
        {"poll_init",   0, "UTF8",   NULL, "io 'connect: no event handle'"},
        {"poll_init",   1, "UTF8",   NULL, "io 'connect: no event handle'"},
        {"nonblocking", 0, "UTF8",   NULL, "io 'prepare: words of libpq'"},
        {"pipeline",    0, "UTF8",   NULL, "io 'prepare: words of libpq'"},
        {"session",     0, "UTF8",   NULL, "io 'prepare: words of libpq'"},
        {"listen news", 0, "UTF8",   NULL, "io 'prepare: words of libpq'"},
        {"prepare",     0, "UTF8",   NULL, "io 'prepare: words of libpq'"},
        {"prepare",     9, "UTF8",   NULL, "io 'prepare: words of libpq'"},
        {"proof",       0, "UTF8",   NULL, "io 'prepare: words of libpq'"},
        {"sync",        0, "UTF8",   NULL, "io 'prepare: words of libpq'"},
        {"",            0, "LATIN1", "ok;", "invalid 'the encoding of the database is LATIN1"},
        {"",            0, "UTF8",   "!42601;", "io 'prepare: words of the server'"},
        {"",            0, "UTF8",   SESSION "2 0 5 7 -1 2;", "refused 'the database is an aggregate of cells, or receives"},
        {"",            0, "UTF8",   "7 8 0 9;", "refused 'this role may not call"},
        {"",            0, "UTF8",   SESSION "2 1 5 7 1 2;", "busy 'the server is read-only'"},
        {"",            0, "UTF8",   SESSION "1 0 5 7 1 2;", "unsafe 'durability is none, see"},
        {"",            0, "UTF8",   SESSION "2 0 5 6 1 2;", "not_owner 'a pooler gives each"},
        {"consume",     0, "UTF8",   "ok;", "io 'connection lost: words of libpq'"},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char wanted[200];

        options.listen = "news";
        fake_fail(rows[i].call, rows[i].at);
        fake_encoding = rows[i].encoding;
        open_conn();
        if (fake_poll != NULL)
            fake_ready(UV_WRITABLE);
        if (rows[i].arrives != NULL)
            fake_read(rows[i].arrives);
        snprintf(wanted, sizeof(wanted), "backoff 0 40 250;%sdown 0 %s",
                 i <= 1 ? "" : "finish;", rows[i].why);
        ASSERT_CONTAINS(said, wanted);
        assert_null(fake_pg);
        assert_null(fake_poll);
        ASSERT_NUMBER(fake_due_ms(), ==, 10);
        start_again();
    }
}

CONN_CASE(test_connect__takes_the_hosts_in_turn)
{
    options.database_url = THREE_HOSTS;
    open_conn();
    ASSERT_SAID(CONNECT(THREE_HOSTS, "10.0.0.1", "5001"));
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS / 5);
    pass_ms(TIMEOUT_MS / 5 - 1);
    ASSERT_SAID("");
    pass_ms(1);
    ASSERT_SAID("finish;" CONNECT(THREE_HOSTS, "10.0.0.2", "5002"));
    fake_next = PGRES_POLLING_FAILED;
    fake_ready(UV_WRITABLE);
    ASSERT_SAID("finish;");
    ASSERT_NUMBER(fake_due_ms(), ==, 0);
    pass_ms(0);
    ASSERT_SAID(CONNECT(THREE_HOSTS, "10.0.0.3", "5003"));
    fake_ready(UV_WRITABLE);
    ASSERT_SAID("backoff 0 40 250;finish;down 0 io 'connect: words of libpq';");
    ASSERT_NUMBER(fake_due_ms(), ==, 10);
    for (unsigned i = 0; i < 3; i++) {
        pass_ms(10);
        said[0] = '\0';
        fake_ready(UV_WRITABLE);
    }
    ASSERT_SAID("backoff 1 40 250;finish;down 0 io 'connect: words of libpq';");
    ASSERT_NUMBER(fake_due_ms(), ==, 20);
}

CONN_CASE(test_connect__reports_a_host_that_answered)
{
    options.database_url = THREE_HOSTS;
    for (unsigned refusing = 0; refusing < 3; refusing++) {
        open_conn();
        for (unsigned i = 0; i < 3; i++) {
            said[0] = '\0';
            fake_next = i == refusing ? PGRES_POLLING_OK : PGRES_POLLING_FAILED;
            fake_ready(UV_WRITABLE);
            if (i == refusing)
                fake_read(SESSION "2 1 5 7 1 2;");
            if (i < 2)
                pass_ms(0);
        }
        ASSERT_CONTAINS(said, "down 0 busy 'the server is read-only';");
        fake_next = PGRES_POLLING_FAILED;
        for (unsigned i = 0; i < 3; i++) {
            pass_ms(10);
            said[0] = '\0';
            fake_ready(UV_WRITABLE);
        }
        ASSERT_CONTAINS(said, "down 0 io 'connect: words of libpq';");
        end(NULL);
        fake_reset();
    }
    conn = NULL;
}

CONN_CASE(test_connect__reports_the_last_host_that_answered)
{
    options.database_url = THREE_HOSTS;
    open_conn();
    fake_ready(UV_WRITABLE);
    fake_read(SESSION "2 1 5 7 1 2;");
    pass_ms(0);
    fake_ready(UV_WRITABLE);
    fake_read(SESSION "1 0 5 7 1 2;");
    pass_ms(0);
    said[0] = '\0';
    fake_next = PGRES_POLLING_FAILED;
    fake_ready(UV_WRITABLE);
    ASSERT_CONTAINS(said, "down 0 unsafe 'durability is none, see");
}

/* The new primary has no standby yet, and another host is read-only. The round reports the reason
   of the primary, in whichever order the two hosts answer. */
CONN_CASE(test_connect__prefers_the_reason_of_a_primary)
{
    static const char *const proofs[] = {SESSION "2 1 5 7 1 2;", SESSION "2 0 5 7 1 2;",
                                         SESSION "2 1 5 7 1 2;"};

    options.database_url = THREE_HOSTS;
    options.required = DURABILITY_REMOTE;
    open_conn();
    for (size_t i = 0; i < COUNT_OF(proofs); i++) {
        said[0] = '\0';
        fake_ready(UV_WRITABLE);
        fake_read(proofs[i]);
        if (i < 2)
            pass_ms(0);
    }
    ASSERT_CONTAINS(said, "down 0 unsafe 'durability is local, see");
}

CONN_CASE(test_connect__has_a_time_limit)
{
    open_conn();
    pass_ms(TIMEOUT_MS);
    ASSERT_CONTAINS(said, "down 0 timeout 'connect: no answer within 5000 ms';");
    pass_ms(10);
    fake_ready(UV_WRITABLE);
    pass_ms(TIMEOUT_MS - 1);
    ASSERT_NUMBER(fake_due_ms(), ==, 1);
    said[0] = '\0';
    pass_ms(1);
    ASSERT_SAID("backoff 1 40 250;finish;"
                "down 0 timeout 'connect: no answer within 5000 ms';");
}

static const struct {
    uint32_t timeout_ms, part_ms;
} parts[] = {{5000, 1000}, {1010, 202}, {1005, 201}, {1000, 1000}, {500, 500}};

/* With several hosts, an attempt to connect must end within a part of the timeout. The start of the
   session, which follows, may take the whole timeout. */
CONN_CASE(test_connect_ms__is_a_part_of_several_hosts)
{
    options.database_url = THREE_HOSTS;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        options.timeout_ms = parts[i].timeout_ms;
        open_conn();
        ASSERT_NUMBER(fake_due_ms(), ==, parts[i].part_ms);
        fake_ready(UV_WRITABLE);
        ASSERT_NUMBER(fake_due_ms(), ==, parts[i].timeout_ms);
        said[0] = '\0';
        pass_ms(parts[i].timeout_ms);
        end(NULL);
        fake_reset();
    }
    conn = NULL;
}

/* -- poolers -- */

#define ASK "select pg_backend_pid()::bigint;sync;flush;poll R;"

static void begin_to_ask(void)
{
    options.finds_poolers = true;
    if (conn == NULL)
        open_conn();
    said[0] = '\0';
    fake_ready(UV_WRITABLE);
    ASSERT_SAID("nonblocking 1;pipeline;" ASK);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
}

static void begin_to_check(void)
{
    begin_to_ask();
    fake_read("8;sync;");
    ASSERT_SAID("select pg_backend_pid()::bigint;sync;flush;");
    fake_read("8;sync;");
    ASSERT_SAID("check 8 2500 5001;");
}

CONN_CASE(test_pooler__there_is_none)
{
    begin_to_ask();
    fake_read("7;sync;");
    ASSERT_SAID("session '1000' '200' '9000';prepare place;prepare webhook_remove;"
                "proof;sync;flush;");
}

CONN_CASE(test_pooler__gives_the_process_to_no_other_client)
{
    begin_to_check();
    fake_pooler_ends(false);
    ASSERT_SAID("select pg_backend_pid()::bigint;sync;flush;");
    fake_read("8;sync;");
    ASSERT_CONTAINS(said, "session '1000' '200' '9000';prepare place;");
    said[0] = '\0';
    fake_read("8 8 1 9;2 0 5 8 1 2;sync;");
    ASSERT_SAID("up;");
}

#define SHARED                                                                           \
    "backoff 0 40 250;finish;down 0 not_owner 'a pooler gives each transaction another " \
    "server process: set its pool_mode to session, or connect directly';"

CONN_CASE(test_pooler__gives_the_process_to_another_client)
{
    begin_to_check();
    fake_pooler_ends(true);
    ASSERT_SAID(SHARED);
    ASSERT_NUMBER(fake_due_ms(), ==, 10);
}

CONN_CASE(test_pooler__gives_another_process)
{
    begin_to_ask();
    fake_read("8;sync;");
    said[0] = '\0';
    fake_read("9;");
    ASSERT_SAID(SHARED);
    start_again();
    begin_to_check();
    fake_pooler_ends(false);
    said[0] = '\0';
    fake_read("9;");
    ASSERT_SAID(SHARED);
}

CONN_CASE(test_pooler__cannot_be_asked)
{
    begin_to_ask();
    fake_fail("check", 0);
    fake_read("8;sync;8;sync;");
    ASSERT_CONTAINS(said, "down 0 io 'connect: no thread';");
    pass_ms(10);
    begin_to_ask();
    fake_read("!08P01;");
    ASSERT_CONTAINS(said, "down 0 io 'ask for the process: words of the server';");
    pass_ms(20);
    begin_to_ask();
    pass_ms(TIMEOUT_MS);
    ASSERT_CONTAINS(said, "down 0 timeout 'connect: no answer within 5000 ms';");
    fake_fail("select pg_backend_pid()::bigint", 0);
    pass_ms(30);
    fake_ready(UV_WRITABLE);
    ASSERT_CONTAINS(said, "down 0 io 'ask for the process: words of libpq';");
}

/* Only one check runs at a time. A late answer must not be taken for the answer about the next
   attempt. */
CONN_CASE(test_pooler__an_answer_may_be_late)
{
    begin_to_check();
    pass_ms(TIMEOUT_MS);
    ASSERT_CONTAINS(said, "down 0 timeout");
    pass_ms(10);
    begin_to_ask();
    fake_read("8;sync;8;sync;");
    assert_null(strstr(said, "check"));
    said[0] = '\0';
    fake_pooler_ends(true);
    ASSERT_SAID("check 8 2500 5001;");
    fake_pooler_ends(false);
    fake_read("8;sync;");
    ASSERT_CONTAINS(said, "session '1000' '200' '9000';");
}

CONN_CASE(test_pooler__the_check_is_cancelled)
{
    begin_to_check();
    closing_start(&owner, on_owner_closed, NULL);
    is_closed = false;
    store_conn_close(conn, &owner);
    closing_done(&owner);
    ASSERT_CONTAINS(said, "cancel;");
    fake_turn();
    assert_false(is_closed);
    fake_pooler_ends(false);
    assert_true(is_closed);
    conn = NULL;
    fake_end();
}

/* -- names -- */

#define NAMED "postgresql://one:5001,two:5002/seckill"
#define CONNECT_NAMED(name, address, port)                                               \
    "connect fallback_application_name=seckill dbname=" NAMED " host=" name              \
    " hostaddr=" address " port=" port                                                   \
    " client_encoding=UTF8 target_session_attrs=any 1;poll W;"

CONN_CASE(test_resolve__takes_the_addresses_in_turn)
{
    static const char *const ones[] = {"10.1.0.1", "10.1.0.2"};
    static const char *const twos[] = {"::1"};

    options.database_url = NAMED;
    open_conn();
    ASSERT_SAID("resolve one;");
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS / 5);
    fake_resolved(ones, 2);
    ASSERT_SAID(CONNECT_NAMED("one", "10.1.0.1", "5001"));
    fake_next = PGRES_POLLING_FAILED;
    fake_ready(UV_WRITABLE);
    pass_ms(0);
    ASSERT_SAID("finish;resolve two;");
    fake_resolved(twos, 1);
    ASSERT_SAID(CONNECT_NAMED("two", "::1", "5002"));
    fake_ready(UV_WRITABLE);
    pass_ms(10);
    said[0] = '\0';
    fake_resolved(ones, 2);
    ASSERT_SAID(CONNECT_NAMED("one", "10.1.0.2", "5001"));
    fake_ready(UV_WRITABLE);
    pass_ms(0);
    fake_resolved(twos, 1);
    fake_ready(UV_WRITABLE);
    pass_ms(20);
    said[0] = '\0';
    fake_resolved(ones, 2);
    ASSERT_SAID(CONNECT_NAMED("one", "10.1.0.1", "5001"));
}

CONN_CASE(test_resolve__fails)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;

    options.database_url = "postgresql://one:5001/seckill";
    open_conn();
    said[0] = '\0';
    fake_resolve_ends(UV_EAI_NONAME, NULL);
    ASSERT_SAID("backoff 0 40 250;down 0 io 'check the database URL: no address of one:"
                " unknown node or service';");
    fake_fail("resolve", 0);
    pass_ms(10);
    ASSERT_SAID("resolve one;backoff 1 40 250;down 0 io 'one: not enough memory';");
    pass_ms(20);
    ASSERT_SAID("resolve one;");
    assert_int_equal(getaddrinfo("10.1.0.1", NULL, &hints, &found), 0);
    found->ai_addrlen = 0;
    fake_resolve_ends(0, found);
    ASSERT_SAID("backoff 2 40 250;down 0 io 'one: ai_family not supported';");
}

/* Only one name is resolved at a time. A late answer must not be taken for the answer about the
   next host. */
CONN_CASE(test_resolve__an_answer_may_be_late)
{
    static const char *const ones[] = {"10.1.0.1"};
    static const char *const twos[] = {"10.2.0.1"};

    options.database_url = NAMED;
    open_conn();
    pass_ms(TIMEOUT_MS / 5);
    ASSERT_SAID("resolve one;");
    fake_resolved(ones, 1);
    ASSERT_SAID("resolve two;");
    fake_resolved(twos, 1);
    ASSERT_SAID(CONNECT_NAMED("two", "10.2.0.1", "5002"));
    fake_next = PGRES_POLLING_FAILED;
    fake_ready(UV_WRITABLE);
    said[0] = '\0';
    pass_ms(10);
    pass_ms(TIMEOUT_MS / 5);
    pass_ms(TIMEOUT_MS / 5);
    ASSERT_CONTAINS(said, "resolve one;backoff 1 40 250;down 0 timeout");
    fake_resolve_ends(UV_EAI_NONAME, NULL);
    said[0] = '\0';
    pass_ms(20);
    ASSERT_CONTAINS(said, "resolve one;");
}

CONN_CASE(test_close__cancels_what_is_under_way)
{
    options.database_url = NAMED;
    open_conn();
    said[0] = '\0';
    closing_start(&owner, on_owner_closed, NULL);
    is_closed = false;
    store_conn_close(conn, &owner);
    closing_done(&owner);
    ASSERT_SAID("cancel;");
    fake_turn();
    assert_false(is_closed);
    fake_resolve_ends(UV_EAI_NONAME, NULL);
    assert_true(is_closed);
    conn = NULL;
    close(fake_socket[0]);
    close(fake_socket[1]);
}

CONN_CASE(test_open__needs_a_valid_url_and_memory)
{
    torture_fail(1, 0);
    ASSERT_STATUS(store_conn_open(&options, &conn), RLOCK_NO_MEMORY);
    assert_true(torture_stop());
    options.database_url = "postgresql://10.0.0.1:x/";
    ASSERT_STATUS(store_conn_open(&options, &conn), RLOCK_NO_MEMORY);
    assert_null(conn);
    close(fake_socket[0]);
    close(fake_socket[1]);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
