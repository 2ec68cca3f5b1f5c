/*
 * conn_fixture.h - one connection of the store, whose callbacks record what they got in `said`.
 *
 * A test program includes this file in one source only, because fake_libpq.h defines functions of
 * libpq and libuv.
 */
#ifndef TEST_CONN_FIXTURE_H
#define TEST_CONN_FIXTURE_H

#include "app/test/store/fake_libpq.h"
#include "base/backoff.h"

#define TIMEOUT_MS   5000
#define STATEMENT_MS 1000
#define ONE_HOST     "postgresql://10.0.0.1:5001/seckill"
#define THREE_HOSTS  "postgresql://10.0.0.1:5001,10.0.0.2:5002,10.0.0.3:5003/seckill"
#define CONNECT(url, address, port)                                                      \
    "connect fallback_application_name=seckill dbname=" url " host=" address             \
    " hostaddr= port=" port " client_encoding=UTF8 target_session_attrs=any 1;poll W;"
/* The rows that the server returns at the start of a session. SESSION: the pid is 7, the process
   started at 8, the role may place orders, the server started at 9. PROOF: the durability is
   DURABILITY_LOCAL, the server is not read-only, its configuration was read at 5, the pid is 7, the
   server is cell 1 of 2. */
#define SESSION "7 8 1 9;"
#define PROOF   "2 0 5 7 1 2;"
#define PLACED  "place 42;barrier;sync;proof;sync;"

static uv_loop_t loop;
static struct store_conn *conn;
static struct store_conn_options options;
static struct closing owner;
static bool is_closed;
static void (*in_answer)(void);
static struct query {
    struct store_query query;
    const char *name;
} first, second;

uint32_t backoff_ms(unsigned attempt, uint32_t min_ms, uint32_t max_ms,
                    uint64_t random UNUSED)
{
    SAY("backoff %u %u %u;", attempt, (unsigned)min_ms, (unsigned)max_ms);
    return 10 * (attempt + 1);
}

/* -- callbacks say what they got -- */

static inline void on_up(struct store_conn *of, void *arg)
{
    assert_ptr_equal(of, conn);
    assert_ptr_equal(arg, &loop);
    SAY("up;");
}

static inline void on_down(struct store_conn *of, bool was_up,
                           const struct rlock_err *why, void *arg)
{
    assert_ptr_equal(of, conn);
    assert_ptr_equal(arg, &loop);
    SAY("down %d %s '%s';", was_up, rlock_status_name(why->status), why->text);
}

static inline void on_notify(const char *payload, void *arg)
{
    assert_ptr_equal(arg, &loop);
    SAY("notify %s;", payload);
}

static inline void on_done(struct store_query *query, enum rlock_status status,
                           const PGresult *result, const struct rlock_err *why)
{
    void (*then)(void) = in_answer;

    assert_null(query->result);
    SAY("%s %s", ((struct query *)query)->name, rlock_status_name(status));
    assert_true((why == NULL) == (status == RLOCK_OK));
    if (why != NULL)
        SAY(" '%s'", why->text);
    if (result != NULL && PQntuples(result) > 0)
        SAY(" %lld", (long long)result_int64(result, 0, 0));
    else if (result == NULL)
        SAY(" no result");
    SAY(";");
    in_answer = NULL;
    if (then != NULL)
        then();
}

static inline void on_owner_closed(void *arg UNUSED)
{
    is_closed = true;
}

/* -- fixture -- */

static inline int reset(void **state UNUSED)
{
    static const struct store_query query = {
        .statement_ms = STATEMENT_MS, .timeout_ms = TIMEOUT_MS, .done = on_done};

    fake_reset();
    in_answer = NULL;
    fake_notify = NULL;
    first = (struct query){query, "first"};
    second = (struct query){query, "second"};
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

static inline void open_conn(void)
{
    ASSERT_STATUS(store_conn_open(&options, &conn), RLOCK_OK);
    assert_false(store_conn_is_up(conn));
    ASSERT_NUMBER(fake_due_ms(), ==, 0);
    simulated_time_pass_us(0, fake_turn);
}

static inline void come_up(void)
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

static inline int end(void **state UNUSED)
{
    if (conn == NULL || asserts_failed)
        return 0;
    is_closed = false;
    closing_start(&owner, on_owner_closed, NULL);
    store_conn_close(conn, &owner);
    assert_false(is_closed);
    closing_done(&owner);
    if (fake_resolve != NULL)
        fake_resolve_ends(UV_EAI_NONAME, NULL);
    if (fake_pooler != NULL)
        fake_pooler_ends(false);
    fake_end();
    assert_true(is_closed);
    return 0;
}

static inline void place(struct query *query)
{
    struct store_params params = {0};

    params_begin(&params);
    params_int64(&params, 42);
    assert_true(store_conn_send(conn, &query->query, STATEMENT_PLACE, &params));
    params_clear(&params);
}

static inline void send_bare(struct query *query, enum statement statement)
{
    struct store_params params = {0};

    assert_true(store_conn_send(conn, &query->query, statement, &params));
}

static inline void pass_ms(int64_t ms)
{
    simulated_time_pass_us(ms * 1000, fake_turn);
}

static inline void come_up_and_place(unsigned count)
{
    come_up();
    place(&first);
    if (count > 1)
        place(&second);
    said[0] = '\0';
}

static inline void start_again(void)
{
    end(NULL);
    reset(NULL);
}

#define CONN_CASE(name) DEFINE_CASE(name, name, reset, end, NULL)

#endif
