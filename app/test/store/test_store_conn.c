/* test_store_conn.c - one connection: every call of libpq, in order, with what arrives and when. */
#include "app/test/store/fake_libpq.h"
#include "base/backoff.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define TIMEOUT_MS   5000
#define STATEMENT_MS 1000
#define ONE_HOST     "postgresql://10.0.0.1:5001/seckill"
#define THREE_HOSTS  "postgresql://10.0.0.1:5001,10.0.0.2:5002,10.0.0.3:5003/seckill"
#define CONNECT(url, address, port)                                                      \
    "connect fallback_application_name=seckill dbname=" url " host=" address             \
    " hostaddr= port=" port " client_encoding=UTF8 target_session_attrs=any 1;poll W;"
#define PREPARE                                                                          \
    "poll R;nonblocking 1;pipeline;session '1000' '200' '9000';prepare place;"           \
    "prepare restock_voucher;"
#define PREPARED(rest) PREPARE rest "sync;flush;"

/* The session: pid 7, started at 8, may place orders, server of 9, cell 1 of 2. Its proof: local,
   writable, configured at 5. */
#define SESSION "7 8 1 9 1 2;"
#define PROOF   "2 0 5;"
#define PLACED  "place 42;barrier;sync;proof;sync;"

static uv_loop_t loop;
static struct store_conn *conn;
static struct store_conn_options options;
static struct closing owner;
static bool is_closed;
static void (*in_answer)(void); /* called by the next answer */

uint32_t backoff_ms(unsigned attempt, uint32_t min_ms, uint32_t max_ms,
                    uint64_t random UNUSED)
{
    say("backoff %u %u %u;", attempt, (unsigned)min_ms, (unsigned)max_ms);
    return 10 * (attempt + 1);
}

/* -- callbacks say what they got -- */

static void on_up(struct store_conn *of, void *arg)
{
    assert_ptr_equal(of, conn);
    assert_ptr_equal(arg, &loop);
    say("up;");
}

static void on_down(struct store_conn *of, bool was_up, const struct err *why, void *arg)
{
    assert_ptr_equal(of, conn);
    assert_ptr_equal(arg, &loop);
    say("down %d %s '%s';", was_up, status_name(why->status), why->text);
}

static void on_notify(const char *payload, void *arg)
{
    assert_ptr_equal(arg, &loop);
    say("notify %s;", payload);
}

struct query {
    struct store_query query;
    const char *name;
};

static void on_done(struct store_query *query, enum status status, const PGresult *result,
                    const struct err *why)
{
    void (*then)(void) = in_answer;

    assert_null(query->result);
    say("%s %s", ((struct query *)query)->name, status_name(status));
    assert_true((why == NULL) == (status == STATUS_OK));
    if (why != NULL)
        say(" '%s'", why->text);
    if (result != NULL && PQntuples(result) > 0)
        say(" %lld", (long long)result_int64(result, 0, 0));
    else if (result == NULL)
        say(" no result");
    say(";");
    in_answer = NULL;
    if (then != NULL)
        then();
}

static struct query query_named(const char *name)
{
    return (struct query){.name = name,
                          .query = {.statement_ms = STATEMENT_MS,
                                    .timeout_ms = TIMEOUT_MS,
                                    .done = on_done}};
}

static void on_owner_closed(void *arg UNUSED)
{
    is_closed = true;
}

/* -- fixture -- */

static int reset(void **state UNUSED)
{
    fake_reset();
    in_answer = NULL;
    fake_notify = NULL;
    options = (struct store_conn_options){.loop = &loop,
                                          .database_url = ONE_HOST,
                                          .required = DURABILITY_LOCAL,
                                          .timeout_ms = TIMEOUT_MS,
                                          .statement_ms = STATEMENT_MS,
                                          .lock_ms = 200,
                                          .idle_ms = 9000,
                                          .on_up = on_up,
                                          .on_down = on_down,
                                          .on_notify = on_notify,
                                          .arg = &loop};
    conn = NULL;
    return 0;
}

static void open_conn(void)
{
    ASSERT_STATUS(store_conn_open(&options, &conn), STATUS_OK);
    assert_false(store_conn_is_up(conn));
    ASSERT_NUMBER(fake_due_ms(), ==, 0);
    simulated_time_pass_us(0, fake_turn);
}

static void come_up(void)
{
    if (conn == NULL)
        open_conn();
    fake_ready(UV_WRITABLE);
    fake_read(SESSION);
    for (int i = 0; i < STATEMENT_COUNT; i++)
        fake_read("ok;");
    fake_read(options.is_reader ? "sync;" : PROOF "sync;");
    assert_true(store_conn_is_up(conn));
    said[0] = '\0';
}

static int end(void **state UNUSED)
{
    if (conn == NULL)
        return 0;
    is_closed = false;
    closing_start(&owner, on_owner_closed, NULL);
    store_conn_close(conn, &owner);
    assert_false(is_closed);
    closing_done(&owner);
    if (fake_resolve != NULL)
        fake_resolve_ends(UV_EAI_NONAME, NULL);
    fake_end();
    assert_true(is_closed);
    return 0;
}

/* Send place(42). */
static void place(struct query *query)
{
    struct store_params params = {0};

    params_begin(&params);
    params_int64(&params, 42);
    assert_true(store_conn_send(conn, &query->query, STATEMENT_PLACE, &params));
    params_clear(&params);
}

static void send_bare(struct query *query, enum statement statement)
{
    struct store_params params = {0};

    assert_true(store_conn_send(conn, &query->query, statement, &params));
}

static void pass_ms(int64_t ms)
{
    simulated_time_pass_us(ms * 1000, fake_turn);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, reset, end)

/* -- connecting -- */

static void test_connect__prepares_a_session(void **state UNUSED)
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
    ASSERT_SAID("nonblocking 1;pipeline;session '1000' '200' '9000';listen vouchers;"
                "prepare place;prepare restock_voucher;proof;sync;flush;poll R;");
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

static void test_connect__a_reader_needs_no_proof(void **state UNUSED)
{
    options.is_reader = true;
    open_conn();
    fake_ready(UV_WRITABLE);
    ASSERT_SAID(CONNECT(
        ONE_HOST, "10.0.0.1",
        "5001") "nonblocking 1;pipeline;session '1000' '200' '9000';prepare place;"
                "prepare restock_voucher;sync;flush;poll R;");
    fake_encoding = NULL;            /* a pooler does not say it */
    fake_read("7 8 0 9 -1 0;sync;"); /* of an aggregate, where it may not place */
    ASSERT_SAID("up;");
}

/* What fails, and what is said then. */
static void test_connect__fails(void **state UNUSED)
{
    /* clang-format off */
    static const struct {
        const char *call;
        unsigned at;
        const char *encoding, *arrives, *why;
    } rows[] = {
        {"connect",     0, "UTF8",   NULL, "io 'connect: no connection'"},
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
        {"",            0, "UTF8",   "7 8 1 9 -1 0;", "refused 'the database is an aggregate"},
        {"",            0, "UTF8",   "7 8 0 9 0 1;", "refused 'this role may not call"},
        {"",            0, "UTF8",   "2 1 5;", "busy 'the server is read-only'"},
        {"",            0, "UTF8",   "1 0 5;", "unsafe 'durability is none, see"},
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
                 i == 0 ? "" : "finish;", rows[i].why);
        ASSERT_CONTAINS(said, wanted);
        assert_null(fake_pg);
        assert_null(fake_poll);
        ASSERT_NUMBER(fake_due_ms(), ==, 10);
        end(NULL);
        reset(NULL);
    }
}

static void test_connect__takes_the_hosts_in_turn(void **state UNUSED)
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

/* The second host refuses: that is said of the round, whichever failure is the last. */
static void test_connect__reports_a_host_that_answered(void **state UNUSED)
{
    options.database_url = THREE_HOSTS;
    for (unsigned refusing = 0; refusing < 3; refusing++) {
        open_conn();
        for (unsigned i = 0; i < 3; i++) {
            said[0] = '\0';
            fake_next = i == refusing ? PGRES_POLLING_OK : PGRES_POLLING_FAILED;
            fake_ready(UV_WRITABLE);
            if (i == refusing)
                fake_read("2 1 5;");
            if (i < 2)
                pass_ms(0);
        }
        ASSERT_CONTAINS(said, "down 0 busy 'the server is read-only';");
        /* the next round begins anew */
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

/* Of several that answered, the last one. */
static void test_connect__reports_the_last_host_that_answered(void **state UNUSED)
{
    options.database_url = THREE_HOSTS;
    open_conn();
    fake_ready(UV_WRITABLE);
    fake_read("2 1 5;");
    pass_ms(0);
    fake_ready(UV_WRITABLE);
    fake_read("1 0 5;");
    pass_ms(0);
    said[0] = '\0';
    fake_next = PGRES_POLLING_FAILED;
    fake_ready(UV_WRITABLE);
    ASSERT_CONTAINS(said, "down 0 unsafe 'durability is none, see");
}

static void test_connect__has_a_time_limit(void **state UNUSED)
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

/* One host of several has a part of the time, but the session all of it. */
static void test_connect_ms__is_a_part_of_several_hosts(void **state UNUSED)
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

/* -- names -- */

#define NAMED "postgresql://one:5001,two:5002/seckill"
#define CONNECT_NAMED(name, address, port)                                               \
    "connect fallback_application_name=seckill dbname=" NAMED " host=" name              \
    " hostaddr=" address " port=" port                                                   \
    " client_encoding=UTF8 target_session_attrs=any 1;poll W;"

static void test_resolve__takes_the_addresses_in_turn(void **state UNUSED)
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

static void test_resolve__fails(void **state UNUSED)
{
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
    ASSERT_SAID("resolve one;"); /* the failed request is not waited for */
}

/* One request at a time: its late answer is not that of the next host. */
static void test_resolve__an_answer_may_be_late(void **state UNUSED)
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
    pass_ms(10); /* one, unanswered */
    pass_ms(TIMEOUT_MS / 5);
    pass_ms(TIMEOUT_MS / 5);
    ASSERT_CONTAINS(said, "resolve one;backoff 1 40 250;down 0 timeout");
    fake_resolve_ends(UV_EAI_NONAME, NULL); /* while it waits for the next attempt */
    said[0] = '\0';
    pass_ms(20);
    ASSERT_CONTAINS(said, "resolve one;");
}

static void test_close__cancels_what_is_under_way(void **state UNUSED)
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

/* -- queries -- */

static void test_send__ends_with_the_proof(void **state UNUSED)
{
    struct query first = query_named("first"), second = query_named("second");

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
    place(&first);
    fake_read("14;12;sync;" PROOF "sync;");
    ASSERT_SAID(PLACED "first ok 14;");
    ASSERT_NUMBER(store_conn_session(conn)->age_s, ==, 0);
}

static void test_send__follows_the_table_of_statements(void **state UNUSED)
{
    struct query query = query_named("q");

    come_up();
    send_bare(&query, STATEMENT_BARRIER);
    ASSERT_SAID("barrier;sync;proof;sync;");
    fake_read("1;sync;" PROOF "sync;");
    ASSERT_SAID("q ok 1;");
    send_bare(&query, STATEMENT_PLACE_EARLY);
    fake_read("2;sync;");
    ASSERT_SAID("place_early;sync;q ok 2;");
}

static void test_send__a_reader_asks_for_the_age(void **state UNUSED)
{
    struct query query = query_named("q");

    options.is_reader = true;
    come_up();
    send_bare(&query, STATEMENT_READ_VOUCHERS);
    ASSERT_SAID("read_vouchers;age;sync;");
    fake_read("5;17;");
    ASSERT_SAID("");
    fake_read("sync;");
    ASSERT_SAID("q ok 5;");
    ASSERT_NUMBER(store_conn_session(conn)->age_s, ==, 17);
}

static void test_send__needs_a_connection_and_memory(void **state UNUSED)
{
    struct query query = query_named("q");
    struct store_params params = {.has_failed = true};

    open_conn();
    assert_false(
        store_conn_send(conn, &query.query, STATEMENT_RETIRE, &(struct store_params){0}));
    come_up();
    assert_false(store_conn_send(conn, &query.query, STATEMENT_RETIRE, &params));
    ASSERT_SAID("");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
}

/* Each call of libpq that may fail: the query is answered by the timer. */
static void test_send__fails_later(void **state UNUSED)
{
    static const struct {
        const char *call;
        unsigned at;
    } rows[] = {{"place", 0}, {"barrier", 0}, {"sync", 0}, {"proof", 0}, {"sync", 1}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct query query = query_named("q"), other = query_named("other");

        come_up();
        fake_fail(rows[i].call, rows[i].at);
        place(&query);
        said[0] = '\0';
        assert_false(store_conn_is_up(conn));
        assert_false(store_conn_send(conn, &other.query, STATEMENT_RETIRE,
                                     &(struct store_params){0}));
        ASSERT_NUMBER(fake_due_ms(), ==, 0);
        store_conn_flush(conn);
        ASSERT_SAID("");
        pass_ms(0);
        ASSERT_SAID("backoff 0 40 250;finish;down 1 io 'send: words of libpq';"
                    "q io 'send: words of libpq' no result;");
        ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
        end(NULL);
        reset(NULL);
    }
}

static void test_send__sets_the_time_limit(void **state UNUSED)
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
        struct query query = query_named("q");
        bool is_set = rows[i].said[0] != '\0';

        query.query.statement_ms = rows[i].statement_ms;
        send_bare(&query, STATEMENT_RETIRE);
        snprintf(wanted, sizeof(wanted), "%sretire;sync;", rows[i].said);
        ASSERT_SAID(wanted);
        ASSERT_NUMBER(store_conn_pending(conn), ==, is_set ? 2 : 1);
        fake_read(is_set ? "ok;sync;1;sync;" : "1;sync;");
        ASSERT_SAID("q ok 1;");
        ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
    }
}

static void test_send__time_limit_may_fail(void **state UNUSED)
{
    static const char *const calls[] = {"set statement_timeout = 9000", "sync"};

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct query query = query_named("q");

        come_up();
        query.query.statement_ms = 9000;
        fake_fail(calls[i], 0);
        place(&query);
        said[0] = '\0';
        pass_ms(0);
        ASSERT_SAID("backoff 0 40 250;finish;down 1 io 'send: words of libpq';"
                    "q io 'send: words of libpq' no result;");
        end(NULL);
        reset(NULL);
    }
}

/* -- errors -- */

static void test_answer__an_error_by_its_sqlstate(void **state UNUSED)
{
    /* clang-format off */
    static const struct {
        const char *sqlstate, *status, *session; /* why it ends, or "" */
    } rows[] = {
        {"0A000", "busy",    "io"},
        {"0A001", "refused", ""},
        {"25006", "busy",    "busy"},
        {"25007", "refused", ""},
        {"26000", "busy",    "io"},
        {"40001", "busy",    ""},
        {"53300", "busy",    ""},
        {"55P03", "busy",    ""},
        {"57014", "busy",    ""},
        {"58030", "busy",    ""},
        {"23505", "refused", ""},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct query query = query_named("q");
        char arrives[40], wanted[300];

        come_up();
        place(&query);
        said[0] = '\0';
        snprintf(arrives, sizeof(arrives), "!%s;sync;" PROOF "sync;", rows[i].sqlstate);
        fake_read(arrives);
        snprintf(wanted, sizeof(wanted), "q %s 'words of the server (%s)';",
                 rows[i].status, rows[i].sqlstate);
        ASSERT_SAID(wanted);
        assert_true(store_conn_is_up(conn) == (rows[i].session[0] == '\0'));
        if (!store_conn_is_up(conn)) {
            ASSERT_NUMBER(fake_due_ms(), ==, 0);
            pass_ms(0);
            snprintf(wanted, sizeof(wanted),
                     "down 1 %s 'session: words of the server (%s)';", rows[i].session,
                     rows[i].sqlstate);
            ASSERT_CONTAINS(said, wanted);
        }
        end(NULL);
        reset(NULL);
    }
}

/* An error of the commit replaces the rows. */
static void test_answer__the_commit_may_fail(void **state UNUSED)
{
    struct query query = query_named("q");

    come_up();
    place(&query);
    said[0] = '\0';
    fake_read("11;12;!40001;sync;" PROOF "sync;");
    ASSERT_SAID("q busy 'words of the server (40001)';");
}

/* A pooler has lost its server: the outcome is unknown. */
static void test_answer__a_connection_error_is_unknown(void **state UNUSED)
{
    struct query query = query_named("q");

    come_up();
    place(&query);
    said[0] = '\0';
    fake_read("!08006;sync;");
    ASSERT_SAID("backoff 0 40 250;finish;down 1 io 'words of the server';"
                "q io 'words of the server' no result;");
}

static void notice(bool is_of_standby)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_NONFATAL_ERROR);

    fake_notice = is_of_standby ? result : NULL;
    fake_pg->notice(fake_pg->notice_arg, result);
    PQclear(result);
}

static void test_answer__a_cancelled_wait_is_unknown(void **state UNUSED)
{
    struct query query = query_named("q");

    come_up();
    place(&query);
    said[0] = '\0';
    notice(false);
    fake_read("11;12;sync;" PROOF "sync;");
    ASSERT_SAID("q ok 11;");
    place(&query);
    said[0] = '\0';
    notice(true);
    fake_read("11;12;sync;");
    ASSERT_CONTAINS(said, "q io 'the commit's wait for the standby was cancelled'");
    pass_ms(10);
    come_up();
    place(&query); /* the next session is not affected */
    said[0] = '\0';
    fake_read("11;12;sync;" PROOF "sync;");
    ASSERT_SAID("q ok 11;");
}

/* -- proofs -- */

static void test_proof__a_server_that_is_unsafe_is_left(void **state UNUSED)
{
    static const struct {
        const char *proof, *down;
    } rows[] = {{"1 0 5;", "down 1 unsafe 'durability is none, see"},
                {"2 1 5;", "down 1 busy 'the server is read-only';"},
                {"!57014;", "down 1 io 'proof: words of the server';"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct query query = query_named("q"), behind = query_named("behind");

        come_up();
        place(&query);
        place(&behind);
        said[0] = '\0';
        fake_read("11;12;sync;");
        fake_read(rows[i].proof);
        ASSERT_CONTAINS(said, rows[i].down);
        ASSERT_CONTAINS(said, ";q io '");
        ASSERT_CONTAINS(said, "no result;behind io '");
        ASSERT_NUMBER(store_conn_pending(conn), ==, 0);
        pass_ms(10);
        come_up();
        place(&query); /* on the next server, nothing of the first one is left */
        fake_read("11;12;sync;" PROOF "sync;");
        ASSERT_SAID(PLACED "q ok 11;");
        end(NULL);
        reset(NULL);
    }
}

/* The outcome of what was rolled back is known. */
static void test_proof__an_error_needs_none(void **state UNUSED)
{
    struct query query = query_named("q");

    come_up();
    place(&query);
    said[0] = '\0';
    fake_read("!23505;sync;1 0 5;sync;");
    ASSERT_SAID("q refused 'words of the server (23505)';");
    assert_false(store_conn_is_up(conn));
    pass_ms(0);
    ASSERT_CONTAINS(said, "down 1 unsafe 'session: durability is none, see");
}

/* The server was reconfigured: barrier and proof again, behind what was sent. */
static void test_proof__is_repeated_after_a_new_configuration(void **state UNUSED)
{
    struct query query = query_named("q"), behind = query_named("behind");

    come_up();
    place(&query);
    pass_ms(100);
    place(&behind);
    said[0] = '\0';
    fake_read("11;12;sync;2 0 6;sync;");
    ASSERT_SAID("barrier;sync;proof;sync;");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 2);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
    fake_read("21;22;sync;2 0 6;sync;");
    ASSERT_SAID("behind ok 21;");
    fake_read("12;sync;2 0 6;sync;");
    ASSERT_SAID("q ok 11;");
    place(&query);
    said[0] = '\0';
    fake_read("!23505;sync;2 0 7;sync;"); /* rolled back: not repeated */
    ASSERT_SAID("q refused 'words of the server (23505)';");
}

static void test_proof__fails_when_repeated(void **state UNUSED)
{
    static const char *const arrives[] = {"!40001;sync;", NULL, NULL, NULL};
    static const char *const calls[] = {"", "barrier", "proof", "sync"};

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct query query = query_named("q");

        come_up();
        place(&query);
        said[0] = '\0';
        fake_fail(calls[i], 0);
        fake_read("11;12;sync;2 0 6;sync;");
        if (arrives[i] != NULL)
            fake_read(arrives[i]);
        else
            pass_ms(0);
        ASSERT_CONTAINS(said, i == 0 ? "q io 'words of the server' no result;"
                                     : "q io 'send: words of libpq' no result;");
        end(NULL);
        reset(NULL);
    }
}

static void test_check__asks_for_a_proof(void **state UNUSED)
{
    struct query query = query_named("q");

    options.idle_ms = 9000;
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
    fake_read("3 0 5;sync;");
    ASSERT_NUMBER(store_conn_session(conn)->durability, ==, DURABILITY_REMOTE);
    assert_true(store_conn_is_up(conn));
    send_bare(&query, STATEMENT_RETIRE);
    fake_read("1;sync;");
    ASSERT_SAID("retire;sync;q ok 1;");
    store_conn_check(conn);
    fake_read("!40001;sync;"); /* an error says nothing of the server */
    assert_true(store_conn_is_up(conn));
    store_conn_check(conn);
    said[0] = '\0';
    fake_read("1 0 5;sync;");
    assert_false(store_conn_is_up(conn));
    pass_ms(0);
    ASSERT_CONTAINS(said, "down 1 unsafe 'session: durability is none, see");
}

static void test_check__fails_later(void **state UNUSED)
{
    come_up();
    fake_fail("proof", 0);
    store_conn_check(conn);
    assert_false(store_conn_is_up(conn));
    said[0] = '\0';
    pass_ms(0);
    ASSERT_SAID("backoff 0 40 250;finish;down 1 io 'send: words of libpq';");
    pass_ms(10);
    come_up();
}

/* -- time -- */

static void test_deadline__starts_when_a_query_is_the_oldest(void **state UNUSED)
{
    struct query first = query_named("first"), second = query_named("second");

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

/* The process was paused: what has arrived is read before a server counts as hung. */
static void test_deadline__reads_what_has_arrived(void **state UNUSED)
{
    struct query query = query_named("q");

    come_up();
    place(&query);
    said[0] = '\0';
    fake_arrive("11;12;sync;" PROOF "sync;");
    pass_ms(TIMEOUT_MS);
    ASSERT_SAID("q ok 11;");
    ASSERT_NUMBER(fake_due_ms(), ==, -1);
    fake_drop_arrivals();
    pass_ms(TIMEOUT_MS);
    assert_true(store_conn_is_up(conn));
    ASSERT_SAID("");
}

/* The clock of libuv may be ahead. */
static void test_deadline__the_timer_may_be_early(void **state UNUSED)
{
    struct query query = query_named("q");

    come_up();
    place(&query);
    said[0] = '\0';
    pass_ms(100);
    simulated_timers[0].callback(simulated_timers[0].timer);
    assert_true(store_conn_is_up(conn));
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS - 100);
    ASSERT_SAID("");
    fake_fail("consume", 0); /* when it is read at the deadline */
    pass_ms(TIMEOUT_MS - 100);
    ASSERT_SAID("backoff 0 40 250;finish;down 1 io 'connection lost: words of libpq';"
                "q io 'connection lost: words of libpq' no result;");
}

/* A large answer is arriving: the timer looks again in the next turn. */
static void test_deadline__waits_for_an_answer_that_is_arriving(void **state UNUSED)
{
    struct query query = query_named("q");
    char byte;

    come_up();
    place(&query);
    said[0] = '\0';
    ASSERT_NUMBER(write(fake_socket[1], "x", 1), ==, 1);
    simulated_us += TIMEOUT_MS * INT64_C(1000);
    simulated_timers[0].callback(simulated_timers[0].timer);
    ASSERT_SAID("");
    ASSERT_NUMBER(fake_due_ms(), ==, 0);
    ASSERT_NUMBER(read(fake_socket[0], &byte, 1), ==, 1);
    pass_ms(0);
    ASSERT_CONTAINS(said, "q timeout 'no answer within 5000 ms' no result;");
}

/* -- input -- */

static void test_input__answers_before_the_end_of_the_stream(void **state UNUSED)
{
    struct query first = query_named("first"), second = query_named("second");

    come_up();
    place(&first);
    place(&second);
    said[0] = '\0';
    fake_fail("consume", 0);
    fake_read("11;12;sync;" PROOF "sync;");
    ASSERT_SAID("first ok 11;backoff 0 40 250;finish;"
                "down 1 io 'connection lost: words of libpq';"
                "second io 'connection lost: words of libpq' no result;");
    pass_ms(10);
    come_up();
    fake_pg->status = CONNECTION_BAD;
    fake_read("");
    /* a new round, since it was up */
    ASSERT_SAID("backoff 0 40 250;finish;down 1 io 'connection lost: words of libpq';");
}

static void test_input__passes_notifications_on(void **state UNUSED)
{
    static char payload[] = "17";

    open_conn();
    fake_ready(UV_WRITABLE);
    said[0] = '\0';
    fake_notify_of(payload);
    fake_ready(UV_READABLE); /* before the connection is up */
    ASSERT_SAID("");
    fake_read(SESSION PROOF "sync;");
    ASSERT_SAID("up;notify 17;");
    fake_notify_of(payload);
    fake_ready(UV_WRITABLE); /* nothing to read */
    ASSERT_SAID("flush;");
    fake_ready(UV_READABLE | UV_WRITABLE);
    ASSERT_SAID("flush;notify 17;");
}

/* libpq says that it is not busy, and has no result. */
static void test_input__ends_at_a_dead_connection(void **state UNUSED)
{
    struct query query = query_named("q");

    come_up();
    place(&query);
    said[0] = '\0';
    fake_nulls = 2;
    fake_fail("consume", 0);
    fake_ready(UV_READABLE);
    ASSERT_NUMBER(fake_nulls, ==, 0);
    ASSERT_CONTAINS(said, "q io 'connection lost: words of libpq' no result;");
}

static void test_input__ignores_a_socket_that_is_closed(void **state UNUSED)
{
    uv_poll_t closed = {0};

    come_up();
    closed.data = conn;
    fake_fail("consume", 0);
    fake_on_poll(&closed, 0, UV_READABLE | UV_WRITABLE);
    ASSERT_SAID("");
}

static void test_flush__waits_until_all_is_written(void **state UNUSED)
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

static void test_abandon__nobody_is_answered(void **state UNUSED)
{
    struct query first = query_named("first"), second = query_named("second");

    come_up();
    place(&first);
    place(&second);
    said[0] = '\0';
    fake_read("11;12;");
    assert_true(store_conn_abandon(conn, &first.query));
    assert_null(first.query.result);
    ASSERT_NUMBER(store_conn_pending(conn), ==, 2);
    fake_read("sync;" PROOF "sync;");
    ASSERT_SAID("");
    ASSERT_NUMBER(store_conn_pending(conn), ==, 1);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS);
    fake_read("21;22;sync;2 0 6;sync;");
    ASSERT_SAID("barrier;sync;proof;sync;");
    assert_true(store_conn_abandon(conn, &second.query));
    fake_read("!40001;sync;"); /* still in doubt */
    ASSERT_CONTAINS(said, "down 1 io 'words of the server';");
    assert_null(strstr(said, "second"));
}

static void test_leave__breaks_a_connection_that_is_up(void **state UNUSED)
{
    const struct err why = {.status = STATUS_UNSAFE, .text = "another one is unsafe"};
    struct query query = query_named("q");

    open_conn();
    store_conn_leave(conn, &why);
    come_up();
    place(&query);
    said[0] = '\0';
    store_conn_leave(conn, &why);
    assert_false(store_conn_is_up(conn));
    store_conn_leave(conn, &(struct err){.status = STATUS_IO, .text = "later"});
    pass_ms(0);
    ASSERT_SAID("backoff 0 40 250;finish;"
                "down 1 unsafe 'connection left: another one is unsafe';"
                "q io 'connection left: another one is unsafe' no result;");
}

static void test_rest__waits_for_the_leader(void **state UNUSED)
{
    struct store_conn leader = {.host = 2, .session = {.server_start_us = 5}};

    options.database_url = THREE_HOSTS;
    open_conn();
    store_conn_rest(conn);
    ASSERT_NUMBER(fake_due_ms(), ==, TIMEOUT_MS / 5); /* it is connecting */
    fake_next = PGRES_POLLING_FAILED;
    fake_ready(UV_WRITABLE);
    store_conn_rest(conn);
    ASSERT_NUMBER(fake_due_ms(), ==, -1);
    said[0] = '\0';
    store_conn_follow(conn, &leader);
    ASSERT_NUMBER(fake_due_ms(), ==, 0);
    pass_ms(0);
    ASSERT_SAID(CONNECT(THREE_HOSTS, "10.0.0.3", "5003"));
    store_conn_follow(conn, &leader); /* while it is connecting */
    ASSERT_SAID("");
}

static void test_follow__leaves_another_server(void **state UNUSED)
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
    struct query query = query_named("late");

    assert_false(store_conn_is_up(conn));
    assert_false(
        store_conn_send(conn, &query.query, STATEMENT_RETIRE, &(struct store_params){0}));
    say("refused;");
}

static void test_close__answers_all_queries(void **state UNUSED)
{
    struct query first = query_named("first"), second = query_named("second");

    come_up();
    place(&first);
    place(&second);
    said[0] = '\0';
    fake_read("11;");
    in_answer = send_to_closed;
    end(NULL);
    ASSERT_SAID("finish;first cancelled 'closed' no result;refused;"
                "second cancelled 'closed' no result;");
    conn = NULL;
}

static void test_open__checks_the_url(void **state UNUSED)
{
    options.database_url = "postgresql://10.0.0.1:x/";
    ASSERT_STATUS(store_conn_open(&options, &conn), STATUS_NO_MEMORY);
    assert_null(conn);
    close(fake_socket[0]);
    close(fake_socket[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_connect__prepares_a_session),
        CASE(test_connect__a_reader_needs_no_proof),
        CASE(test_connect__fails),
        CASE(test_connect__takes_the_hosts_in_turn),
        CASE(test_connect__reports_a_host_that_answered),
        CASE(test_connect__reports_the_last_host_that_answered),
        CASE(test_connect__has_a_time_limit),
        CASE(test_connect_ms__is_a_part_of_several_hosts),
        CASE(test_resolve__takes_the_addresses_in_turn),
        CASE(test_resolve__fails),
        CASE(test_resolve__an_answer_may_be_late),
        CASE(test_close__cancels_what_is_under_way),
        CASE(test_send__ends_with_the_proof),
        CASE(test_send__follows_the_table_of_statements),
        CASE(test_send__a_reader_asks_for_the_age),
        CASE(test_send__needs_a_connection_and_memory),
        CASE(test_send__fails_later),
        CASE(test_send__sets_the_time_limit),
        CASE(test_send__time_limit_may_fail),
        CASE(test_answer__an_error_by_its_sqlstate),
        CASE(test_answer__the_commit_may_fail),
        CASE(test_answer__a_connection_error_is_unknown),
        CASE(test_answer__a_cancelled_wait_is_unknown),
        CASE(test_proof__a_server_that_is_unsafe_is_left),
        CASE(test_proof__an_error_needs_none),
        CASE(test_proof__is_repeated_after_a_new_configuration),
        CASE(test_proof__fails_when_repeated),
        CASE(test_check__asks_for_a_proof),
        CASE(test_check__fails_later),
        CASE(test_deadline__starts_when_a_query_is_the_oldest),
        CASE(test_deadline__reads_what_has_arrived),
        CASE(test_deadline__the_timer_may_be_early),
        CASE(test_deadline__waits_for_an_answer_that_is_arriving),
        CASE(test_input__answers_before_the_end_of_the_stream),
        CASE(test_input__passes_notifications_on),
        CASE(test_input__ends_at_a_dead_connection),
        CASE(test_input__ignores_a_socket_that_is_closed),
        CASE(test_flush__waits_until_all_is_written),
        CASE(test_abandon__nobody_is_answered),
        CASE(test_leave__breaks_a_connection_that_is_up),
        CASE(test_rest__waits_for_the_leader),
        CASE(test_follow__leaves_another_server),
        CASE(test_close__answers_all_queries),
        CASE(test_open__checks_the_url),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
