/* test_store_state.c - what a store reports about its connections, which are fakes, and the
 * parameters that it sends. */
#include "app/core/embed.h"
#include "app/store/store_impl.h"
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONNS (ROLE_LANE + 1)

struct store_conn {
    struct store_conn_options options;
    bool is_up, is_left;
    unsigned pending;
};

static struct store_conn conns[CONNS];
static const struct store_session session = {.cells = 1};
static size_t opened;

enum status store_conn_open(const struct store_conn_options *options,
                            struct store_conn **ret_conn)
{
    conns[opened].options = *options;
    *ret_conn = &conns[opened++];
    return STATUS_OK;
}

void store_conn_close(struct store_conn *conn UNUSED, struct closing *owner UNUSED)
{
}

bool store_conn_is_up(const struct store_conn *conn)
{
    return conn->is_up;
}

const struct store_session *store_conn_session(const struct store_conn *conn UNUSED)
{
    return &session;
}

void store_conn_check(struct store_conn *conn UNUSED)
{
}

unsigned store_conn_pending(const struct store_conn *conn)
{
    return conn->pending;
}

void store_conn_rest(struct store_conn *conn UNUSED)
{
}

void store_conn_leave(struct store_conn *conn, const struct err *why)
{
    assert_int_equal(why->status, STATUS_UNSAFE);
    conn->is_left = true;
}

/* The real function breaks a connection to another server than that of `leader`. */
void store_conn_follow(struct store_conn *conn UNUSED,
                       const struct store_conn *leader UNUSED)
{
}

static struct {
    bool is_accepted; /* the connection accepts queries */
    struct store_query *query;
    enum statement statement;
} sent; /* the last query */

/* The number of parameters in the SQL of a statement. */
static int param_count(enum statement statement)
{
    const char *at = embedded_find(store_statements[statement].path)->bytes;
    int count = 0;

    while ((at = strchr(at, '$')) != NULL) {
        int number = (int)strtol(++at, NULL, 10);

        count = number > count ? number : count;
    }
    return count;
}

bool store_conn_send(struct store_conn *conn UNUSED, struct store_query *query,
                     enum statement statement, const struct store_params *params)
{
    if (params->count != param_count(statement))
        fail_msg("%s: expected %d parameters, got %d", store_statements[statement].name,
                 param_count(statement), params->count);
    sent.query = query;
    sent.statement = statement;
    return sent.is_accepted;
}

bool store_conn_abandon(struct store_conn *conn UNUSED, struct store_query *query UNUSED)
{
    return false;
}

void store_conn_flush(struct store_conn *conn UNUSED)
{
}

/* -- reports -- */

static unsigned ups, downs;

static void on_state(bool is_up, const struct err *why, void *arg UNUSED)
{
    assert_true(is_up || why != NULL);
    ups += is_up;
    downs += !is_up;
}

static void on_voucher_changed(int64_t voucher_id UNUSED, void *arg UNUSED)
{
}

static void come_up(struct store_conn *conn)
{
    conn->is_up = true;
    conn->options.on_up(conn, conn->options.arg);
}

/* -- tests -- */

static uv_loop_t loop;

/** All connections are up. */
static struct store *open_store(void)
{
    static struct metrics metrics;
    struct store_options options = {.loop = &loop,
                                    .database_url = "postgresql:///seckill",
                                    .timeout_ms = 1000,
                                    .lanes = 1,
                                    .expires_orders = true,
                                    .metrics = &metrics,
                                    .on_voucher_changed = on_voucher_changed,
                                    .on_state = on_state};
    struct store *store;
    struct err err;

    memset(conns, 0, sizeof(conns));
    memset(&sent, 0, sizeof(sent));
    ups = downs = 0;
    opened = 0;
    uv_loop_init(&loop);
    assert_int_equal(store_open(&options, &store, &err), STATUS_OK);
    for (size_t i = 0; i < opened; i++)
        come_up(&conns[i]);
    assert_int_equal(ups, 1);
    return store;
}

static void close_store(struct store *store)
{
    store_close(store, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* A connection that breaks while another one comes up reports the reason a moment later. */
static void test_store__reports_no_loss_without_its_reason(void **state UNUSED)
{
    const struct err why = {.status = STATUS_IO, .text = "lost"};
    struct store *store = open_store();

    conns[ROLE_MAIN].is_up = false;
    come_up(&conns[ROLE_EXPIRY]);
    assert_int_equal(downs, 0);
    conns[ROLE_MAIN].options.on_down(&conns[ROLE_MAIN], true, &why, store);
    assert_int_equal(downs, 1);
    assert_int_equal(ups, 1);
    close_store(store);
}

static void assert_left(bool is_left)
{
    for (size_t i = 0; i < opened; i++) {
        if (conns[i].is_left != is_left)
            fail_msg("connection %zu of %zu: left %d, expected %d", i, opened,
                     conns[i].is_left, is_left);
    }
}

/* All sessions are at one server, so all leave it if one finds it unsafe. */
static void test_store__leaves_an_unsafe_server_at_once(void **state UNUSED)
{
    const struct err unsafe = {.status = STATUS_UNSAFE, .text = "durability is none"};
    const struct err lost = {.status = STATUS_IO, .text = "lost"};
    struct store *store = open_store();
    struct store_conn *lane = &conns[opened - 1];

    lane->options.on_down(lane, true, &lost, store);
    assert_left(false);
    lane->options.on_down(lane, false, &unsafe, store); /* it only tried another server */
    assert_left(false);
    lane->options.on_down(lane, true, &unsafe, store);
    assert_left(true);
    close_store(store);
}

/* -- parameters -- */

static void assert_sent(enum statement statement)
{
    if (sent.query == NULL || sent.statement != statement)
        fail_msg("expected the statement %s, got %s", store_statements[statement].name,
                 sent.query != NULL ? store_statements[sent.statement].name : "none");
}

/* Answers the last query: its connection is lost. */
static void answer_sent(void)
{
    const struct err why = {.status = STATUS_IO, .text = "lost"};
    struct store_query *query = sent.query;

    sent.query = NULL;
    query->done(query, why.status, NULL, &why);
}

static void on_batch(enum status status, const struct voucher_snapshot *snapshot UNUSED,
                     const struct err *why UNUSED, void *arg)
{
    *(enum status *)arg = status;
}

/* Loses a lane with an order under way. */
static void lose_lane(struct store *store)
{
    const struct err lost = {.status = STATUS_IO, .text = "lost"};
    struct store_conn *lane = &conns[opened - 1];

    lane->pending = 1;
    lane->options.on_down(lane, true, &lost, store);
}

static void assert_lost(const enum status *answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (answers[i] != STATUS_IO)
            fail_msg("batch %zu: expected the answer %s, got %s", i,
                     status_name(STATUS_IO), status_name(answers[i]));
    }
}

static void test_store_orders__have_each_parameter(void **state UNUSED)
{
    struct placement orders[] = {{.user_id = 1, .key = {"k", 1}}, {.user_id = 2}};
    struct placement *both[] = {&orders[0], &orders[1]};
    static const struct row {
        size_t batches, first; /* the first order of each batch has a key */
        bool is_lookup, has_suspect;
        enum statement statement;
    } rows[] = {
        {1, 0, false, false, STATEMENT_PLACE},
        {1, 1, false, false, STATEMENT_PLACE},
        {2, 0, false, false, STATEMENT_PLACE_MANY},
        {2, 1, false, false, STATEMENT_PLACE_MANY},
        {1, 0, true, false, STATEMENT_RESOLVE},
        {1, 0, true, true, STATEMENT_RETIRE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct store *store = open_store();
        struct store_batch batches[2];
        enum status answers[2] = {STATUS_OK, STATUS_OK};
        struct list list;

        list_init(&list);
        sent.is_accepted = true;
        if (rows[i].has_suspect)
            lose_lane(store);
        for (size_t j = 0; j < rows[i].batches; j++) {
            batches[j] = (struct store_batch){.voucher_id = 7 + (int64_t)j,
                                              .placements = both + rows[i].first,
                                              .count = 2 - rows[i].first,
                                              .deadline_us = clock_mono_us() + 1000000,
                                              .arg = &answers[j]};
            list_append(&list, &batches[j].link);
        }
        if (rows[i].is_lookup)
            store_resolve_orders(store, &batches[0], on_batch);
        else
            store_place_orders(store, &list, on_batch);
        assert_sent(rows[i].statement);
        answer_sent();
        uv_run(&loop, UV_RUN_NOWAIT);
        close_store(store);
        assert_lost(answers, rows[i].batches);
    }
}

static void on_key(enum status status, const struct placement *placement UNUSED,
                   void *arg)
{
    *(enum status *)arg = status;
}

static void test_store_find_by_key__has_each_parameter(void **state UNUSED)
{
    struct store *store = open_store();
    struct key_lookup lookup = {.placement = {.user_id = 1, .key = {"k", 1}}};
    enum status answer = STATUS_OK;

    sent.is_accepted = true;
    store_find_by_key(store, 7, &lookup, on_key, &answer);
    store_flush(store);
    assert_sent(STATEMENT_FIND);
    answer_sent();
    if (answer != STATUS_IO)
        fail_msg("expected the answer %s, got %s", status_name(STATUS_IO),
                 status_name(answer));
    close_store(store);
}

/* The connection has no room for a query, so the look-up waits until its deadline. */
static void test_store_find_by_key__too_late_to_be_sent_is_busy(void **state UNUSED)
{
    int64_t end_us = clock_mono_us() + 20 * INT64_C(1000000);
    struct store *store = open_store();
    struct key_lookup lookup = {.placement = {.user_id = 1, .key = {"k", 1}}};
    enum status answer = STATUS_OK;

    conns[ROLE_MAIN].pending = 2;
    lookup.deadline_us = clock_mono_us() + 1000;
    store_find_by_key(store, 7, &lookup, on_key, &answer);
    while (answer == STATUS_OK && clock_mono_us() < end_us) {
        store_flush(store);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    if (answer != STATUS_BUSY)
        fail_msg("a look-up after its deadline: expected the answer %s, got %s",
                 status_name(STATUS_BUSY), status_name(answer));
    close_store(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store__reports_no_loss_without_its_reason),
        cmocka_unit_test(test_store__leaves_an_unsafe_server_at_once),
        cmocka_unit_test(test_store_orders__have_each_parameter),
        cmocka_unit_test(test_store_find_by_key__has_each_parameter),
        cmocka_unit_test(test_store_find_by_key__too_late_to_be_sent_is_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
