/* test_store_state.c - what a store reports of its connections, which are faked. */
#include "app/store/store_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define CONNS (ROLE_LANE + 1)

struct store_conn {
    struct store_conn_options options;
    bool is_up, is_left;
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

unsigned store_conn_pending(const struct store_conn *conn UNUSED)
{
    return 0;
}

void store_conn_rest(struct store_conn *conn UNUSED)
{
}

void store_conn_leave(struct store_conn *conn, const struct err *why)
{
    assert_int_equal(why->status, STATUS_UNSAFE);
    conn->is_left = true;
}

/* A connection to another server than that of `leader` would be broken now. */
void store_conn_follow(struct store_conn *conn UNUSED,
                       const struct store_conn *leader UNUSED)
{
}

bool store_conn_send(struct store_conn *conn UNUSED, struct store_query *query UNUSED,
                     enum statement statement UNUSED,
                     const struct store_params *params UNUSED)
{
    return false;
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

/* A connection that breaks while another one comes up says why a moment later. */
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

/* What one session has seen is true for all of them, since they are at one server. */
static void test_store__leaves_an_unsafe_server_at_once(void **state UNUSED)
{
    const struct err unsafe = {.status = STATUS_UNSAFE, .text = "durability is none"};
    const struct err lost = {.status = STATUS_IO, .text = "lost"};
    struct store *store = open_store();
    struct store_conn *lane = &conns[opened - 1];

    lane->options.on_down(lane, true, &lost, store);
    assert_left(false);
    lane->options.on_down(lane, false, &unsafe, store); /* a server it has just tried */
    assert_left(false);
    lane->options.on_down(lane, true, &unsafe, store);
    assert_left(true);
    close_store(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store__reports_no_loss_without_its_reason),
        cmocka_unit_test(test_store__leaves_an_unsafe_server_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
