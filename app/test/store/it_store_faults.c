/*
 * it_store_faults.c - the store while the server refuses, hangs or crashes.
 *
 * To lose an answer, a test reads it from the store's socket before the store can, and shuts the
 * socket down.
 */
#include "app/store/store_conn.h"
#include "app/test/store/it_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sandbox *sandbox;
static struct fixture *fixture;

static int setup(void **state)
{
    *state = fixture = fixture_open();
    sandbox = sandbox_open(fixture, "faults");
    return 0;
}

static int teardown(void **state)
{
    sandbox_close(sandbox);
    return fixture_close(*state);
}

/* The server may have been killed and the sandbox's session with it. */
static int mend(void **state UNUSED)
{
    fixture_mend(fixture, "postgres");
    PQreset(sandbox->conn);
    return sandbox_audit(sandbox) == 0 ? 0 : 1;
}

#define FAULT_CASE(test) cmocka_unit_test_teardown(test, mend)

static int64_t orders_of(int64_t voucher)
{
    return sandbox_number(
        sandbox, "select count(*) from voucher_order where voucher_id = %" PRId64,
        voucher);
}

/* Lock the row until the sandbox's session executes `commit` or `rollback`. */
static void hold_row(int64_t voucher)
{
    sandbox_do(sandbox, "begin");
    sandbox_do(sandbox, "select from voucher where id = %" PRId64 " for update", voucher);
}

/* Run the loop until the server executes a batch. */
static void await_at_work(struct shop *shop)
{
    int64_t deadline_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);

    while (sql_number(fixture, "select count(*) from pg_stat_activity where"
                               " query ~ 'from place_orders|set_config' and"
                               " state = 'active' and pid <> pg_backend_pid()"
                               " and wait_event_type is not null") == 0) {
        assert_true(clock_mono_us() < deadline_us);
        store_flush(shop->store);
        uv_run(&shop->loop, UV_RUN_ONCE);
    }
}

/* -- refusals -- */

static void
test_store_place_orders__one_poisoned_row_refuses_the_batch(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket basket = {0}, good = {0};

    sandbox_do(sandbox, "alter table voucher_order add constraint poison"
                        " check (user_id <> 666)");
    basket_add(&basket, 1, 1, NULL);
    basket_add(&basket, 666, 2, NULL);
    basket_add(&good, 1, 3, NULL);
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_REFUSED);
    ASSERT_CONTAINS(basket.why.text, "poison");
    assert_int_equal(orders_of(voucher), 0);
    assert_int_equal(basket_place(shop, voucher, &good), STATUS_OK);
    assert_int_equal(good.placements[0].verdict, VERDICT_PLACED);
    assert_int_equal(shop->metrics.postgres_reconnects, 0);
    sandbox_do(sandbox, "alter table voucher_order drop constraint poison");
    shop_close(shop);
}

/* The rows of the answer arrive before the commit fails. */
static void test_store_place_orders__a_failing_commit_is_a_refusal(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket basket = {0};

    sandbox_do(sandbox, "create function refuse() returns trigger language plpgsql as"
                        " $$ begin raise 'not at commit'; end $$");
    sandbox_do(sandbox, "create constraint trigger late after insert on voucher_order"
                        " deferrable initially deferred"
                        " for each row execute function refuse()");
    basket_add(&basket, 1, 1, NULL);
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_REFUSED);
    ASSERT_CONTAINS(basket.why.text, "not at commit");
    sandbox_do(sandbox, "drop function refuse cascade");
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_OK);
    shop_close(shop);
}

static void test_store_place_orders__a_row_lock_held_too_long_is_busy(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, 6000);
    struct basket basket = {0};

    hold_row(voucher);
    basket_add(&basket, 1, 1, NULL);
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_BUSY);
    sandbox_do(sandbox, "rollback");
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_OK);
    assert_int_equal(shop->metrics.postgres_reconnects, 0);
    shop_close(shop);
}

/* Shoppers 1 and 2 order each of three vouchers. */
static void send_bundle(struct shop *shop, int64_t vouchers[3], struct basket baskets[3])
{
    memset(baskets, 0, 3 * sizeof(baskets[0]));
    for (int i = 0; i < 3; i++) {
        basket_add(&baskets[i], 1, 10 + i, "a key");
        basket_add(&baskets[i], 2, 20 + i, NULL);
    }
    baskets_send(shop, vouchers, baskets, 3);
    for (int i = 0; i < 3; i++)
        shop_await(shop, &baskets[i].is_answered);
}

static void
test_store_place_orders__a_bundle_leaves_out_a_held_voucher(void **state UNUSED)
{
    int64_t vouchers[3] = {sandbox_voucher(sandbox, 10, 1),
                           sandbox_voucher(sandbox, 10, 1),
                           sandbox_voucher(sandbox, 1, 1)};
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket baskets[3];

    hold_row(vouchers[0]);
    send_bundle(shop, vouchers, baskets);
    sandbox_do(sandbox, "rollback");
    assert_int_equal(baskets[0].status, STATUS_BUSY);
    assert_false(baskets[0].has_snapshot);
    assert_int_equal(baskets[1].status, STATUS_OK);
    assert_int_equal(baskets[1].snapshot.voucher_id, vouchers[1]);
    assert_int_equal(baskets[1].snapshot.stock_left, 8);
    assert_int_equal(baskets[2].placements[0].verdict, VERDICT_PLACED);
    assert_int_equal(baskets[2].placements[1].verdict, VERDICT_SOLD_OUT);
    for (int i = 0; i < 3; i++)
        assert_int_equal(orders_of(vouchers[i]), i == 0 ? 0 : 3 - i);

    send_bundle(shop, vouchers, baskets);
    assert_int_equal(baskets[0].placements[1].verdict, VERDICT_PLACED);
    assert_int_equal(baskets[1].placements[0].verdict, VERDICT_REPEATED);
    assert_int_equal(baskets[1].placements[0].order.voucher_id, vouchers[1]);
    assert_int_equal(baskets[1].placements[0].order.price_cents, 100);
    assert_int_equal(baskets[1].placements[1].verdict, VERDICT_ALREADY_ORDERED);
    shop_close(shop);
}

/* Each insert fails with this SQLSTATE. */
static void fail_inserts(const char *sqlstate)
{
    sandbox_do(sandbox,
               "create function refuse() returns trigger language plpgsql as"
               " $$ begin raise 'refused' using errcode = '%s'; end $$",
               sqlstate);
    sandbox_do(sandbox, "create trigger refusal before insert on voucher_order"
                        " for each row execute function refuse()");
}

static void place_in_4_s(struct shop *shop, int64_t voucher, struct basket *basket)
{
    struct list batches;

    list_init(&batches);
    basket_batch(shop, voucher, basket)->deadline_us = clock_mono_us() + 4000000;
    list_append(&batches, &basket->batch.link);
    store_place_orders(shop->store, &batches, basket_on_answer);
    shop_await(shop, &basket->is_answered);
}

/* The limits of the sessions are much later than the deadline. */
static void
test_store_place_orders__its_deadline_limits_the_statement(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket basket = {0};

    basket_add(&basket, 1, 1, NULL);
    for (unsigned i = 0; i < 2; i++) {
        hold_row(voucher);
        place_in_4_s(shop, voucher, &basket);
        sandbox_do(sandbox, "rollback");
        if (basket.status != STATUS_BUSY ||
            strstr(basket.why.text, "statement timeout") == NULL)
            fail_msg("session %u: expected %s by the statement timeout, got %s: %s",
                     i + 1, status_name(STATUS_BUSY), status_name(basket.status),
                     basket.why.text);
        if (i > 0)
            break;
        fail_inserts("08006");
        place_in_4_s(shop, voucher, &basket);
        assert_int_equal(basket.status, STATUS_IO);
        sandbox_do(sandbox, "drop function refuse cascade");
        shop_await(shop, &shop->is_up);
    }
    shop_close(shop);
}

/* A migration under a running service invalidates prepared statements. */
static void test_store__a_stale_session_is_replaced(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket basket = {0};

    basket_add(&basket, 1, 1, NULL);
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_OK);
    assert_int_equal(basket_resolve_once(shop, voucher, &basket), STATUS_OK);
    sandbox_do(sandbox, "drop function resolve_orders");
    sandbox_do(sandbox, "create function resolve_orders(p_voucher bigint, u bigint[],"
                        " f bigint[], k text[]) returns table (pos integer,"
                        " verdict integer, order_id bigint, detail bigint[])"
                        " language sql as 'select 1, 0, null::bigint, null::bigint[]'");
    assert_int_equal(basket_resolve_once(shop, voucher, &basket), STATUS_BUSY);
    basket_resolve(shop, voucher, &basket);
    assert_int_equal(basket.placements[0].verdict, VERDICT_NONE);
    assert_int_equal(shop->metrics.postgres_reconnects, 1);
    shop_close(shop);
    sandbox_close(sandbox);
    sandbox = sandbox_open(fixture, "faults_again");
}

/* -- without a server -- */

static void test_store__waits_for_the_migration(void **state UNUSED)
{
    struct sandbox *empty = sandbox_new(fixture, "faults_empty");
    struct shop *shop = shop_open_at(empty->url, 1, UNHURRIED_MS, false);
    const struct db_migration options = {0};
    struct err err = {0};
    struct db *db;

    while (shop->downs == 0)
        uv_run(&shop->loop, UV_RUN_ONCE);
    ASSERT_CONTAINS(shop->down_why.text, "does not exist");
    assert_int_equal(db_open(empty->url, &db, &err), STATUS_OK);
    assert_int_equal(db_migrate(db, &options, &err), STATUS_OK);
    db_close(db);
    shop_await(shop, &shop->is_up);
    shop_close(shop);
    sandbox_close(empty);
}

static void test_store__waits_for_its_rights(void **state UNUSED)
{
    struct sandbox *strict = sandbox_open(fixture, "faults_rights");
    struct shop *shop;

    sandbox_do(strict, "revoke execute on function place_orders from " SERVICE_ROLE);
    shop = shop_open_at(strict->service_url, 1, UNHURRIED_MS, false);
    while (shop->downs == 0)
        uv_run(&shop->loop, UV_RUN_ONCE);
    ASSERT_CONTAINS(shop->down_why.text, "--service-role");
    sandbox_do(strict, "select grant_service('" SERVICE_ROLE "')");
    shop_await(shop, &shop->is_up);
    shop_close(shop);
    sandbox_close(strict);
}

static void test_store__reconnects_after_a_restart(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 2, UNHURRIED_MS);
    struct basket basket = {0};

    fixture_servers(fixture, "kill", "postgres");
    while (shop->downs == 0)
        uv_run(&shop->loop, UV_RUN_ONCE);
    basket_add(&basket, 1, 1, NULL);
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_DOWN);
    fixture_servers(fixture, "start", "postgres");
    shop_await(shop, &shop->is_up);
    assert_int_equal(shop->refreshes, 2); /* notifications may have been missed */
    assert_int_equal(shop->metrics.postgres_reconnects, 6); /* two of them lanes */
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_OK);
    assert_int_equal(basket.placements[0].verdict, VERDICT_PLACED);
    shop_close(shop);
}

/* -- hung -- */

/* The server hangs until all three calls are answered, so a call ends by its timeout. */
static void test_store__a_hung_server_is_a_timeout(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, 2000);
    struct basket basket = {0}, later = {0};

    basket_add(&basket, 1, 1, NULL);
    basket_add(&later, 2, 2, NULL);
    fixture_servers(fixture, "pause", "postgres");
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_TIMEOUT);
    assert_true(basket.took_us >= 2000000);
    /* while the store tries to connect, it refuses calls and does not let them wait */
    assert_int_equal(basket_place(shop, voucher, &later), STATUS_DOWN);
    assert_true(later.took_us < basket.took_us);
    /* the connection for look-ups hangs too */
    assert_int_not_equal(basket_resolve_once(shop, voucher, &basket), STATUS_OK);
    fixture_servers(fixture, "resume", "postgres");
    basket_resolve(shop, voucher, &basket);
    assert_int_equal(orders_of(voucher), basket.placements[0].verdict == VERDICT_PLACED);
    shop_await(shop, &shop->is_up);
    shop_close(shop);
}

/* -- look-ups -- */

static bool is_to_server(int fd)
{
    const char *port = strrchr(fixture->database_url, ':') + 1;
    struct sockaddr_in peer = {0};
    socklen_t len = sizeof(peer);

    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
           peer.sin_family == AF_INET && ntohs(peer.sin_port) == strtol(port, NULL, 10);
}

/* Read what the server has sent from all sockets from `first_fd` on, and shut them down. */
static void lose_answers(int first_fd)
{
    for (int fd = first_fd; fd < 1024; fd++) {
        char bytes[65536];

        if (!is_to_server(fd))
            continue;
        while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            ;
        shutdown(fd, SHUT_RDWR);
    }
}

/* The batch is committed, and the answer is lost. */
static void test_store_resolve_orders__finds_what_was_committed(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 2, 1);
    int first_fd = dup(0);
    struct shop *shop;
    struct basket basket = {0};

    close(first_fd); /* all later descriptors are at least first_fd */
    shop = shop_open(sandbox, 2, UNHURRIED_MS);
    basket_add(&basket, 1, 41, NULL);
    basket_add(&basket, 2, 0, "a-key-of-an-attempt-without-a-lock");
    basket_add(&basket, 3, 43, NULL);
    basket_send(shop, voucher, &basket);
    while (orders_of(voucher) == 0)
        assert_false(basket.is_answered);
    lose_answers(first_fd);
    shop_await(shop, &basket.is_answered);
    assert_int_equal(basket.status, STATUS_IO);

    basket_resolve(shop, voucher, &basket);
    assert_int_equal(basket.placements[0].verdict, VERDICT_PLACED);
    assert_int_equal(basket.placements[1].verdict, VERDICT_PLACED);
    assert_int_equal(basket.placements[2].verdict, VERDICT_NONE);
    assert_false(basket.has_snapshot);
    assert_int_equal(basket.placements[0].order.id,
                     sandbox_number(sandbox,
                                    "select id from voucher_order where user_id = 1 and"
                                    " voucher_id = %" PRId64,
                                    voucher));
    assert_int_equal(basket.placements[0].order.price_cents, 100);
    assert_int_equal(basket.placements[1].order.user_id, 2);
    shop_close(shop);
}

/* Commits of orders take a minute. */
static void make_commits_slow(void)
{
    sandbox_do(sandbox, "create function dawdle() returns trigger language plpgsql as"
                        " $$ begin perform pg_sleep(60); return null; end $$");
    sandbox_do(sandbox, "create constraint trigger late after insert on voucher_order"
                        " deferrable initially deferred"
                        " for each row execute function dawdle()");
}

static void make_commits_fast(void)
{
    sandbox_do(sandbox, "drop function dawdle cascade"); /* waits for its users */
}

/* The server process would commit after its client has given up. The look-up must end the process
   first; otherwise its answer may soon be false. */
static void test_store_resolve_orders__ends_the_process_first(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, 5000);
    struct basket basket = {0};

    make_commits_slow();
    basket_add(&basket, 1, 1, NULL);
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_TIMEOUT);
    assert_int_equal(basket_resolve_once(shop, voucher, &basket), STATUS_OK);
    assert_int_equal(basket.placements[0].verdict, VERDICT_NONE);
    assert_int_equal(sandbox_number(sandbox, "select count(*) from pg_stat_activity"
                                             " where wait_event = 'PgSleep'"),
                     0);
    make_commits_fast();
    assert_int_equal(orders_of(voucher), 0);
    shop_close(shop);
}

static void test_store_resolve_orders__after_a_crash_in_mid_batch(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket basket = {0};

    make_commits_slow();
    basket_add(&basket, 1, 1, NULL);
    basket_send(shop, voucher, &basket);
    await_at_work(shop);
    fixture_servers(fixture, "kill", "postgres");
    shop_await(shop, &basket.is_answered);
    assert_int_equal(basket.status, STATUS_IO);
    fixture_servers(fixture, "start", "postgres");
    basket_resolve(shop, voucher, &basket);
    assert_int_equal(basket.placements[0].verdict, VERDICT_NONE);
    PQreset(sandbox->conn);
    make_commits_fast();
    assert_int_equal(orders_of(voucher), 0);
    shop_close(shop);
}

/* -- closing -- */

static void test_store_close__answers_calls_in_flight(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket held = {0}, looked_up = {0}, refused = {0};

    hold_row(voucher);
    basket_add(&held, 1, 1, NULL);
    basket_send(shop, voucher, &held);
    await_at_work(shop);
    basket_add(&looked_up, 1, 1, NULL);
    store_resolve_orders(shop->store, basket_batch(shop, voucher, &looked_up),
                         basket_on_answer);
    basket_add(&refused, 1, 1, NULL);
    basket_send(shop, voucher, &refused); /* no room, so it is answered later */
    store_close(shop->store, shop_on_closed, shop);
    assert_int_equal(held.status, STATUS_CANCELLED);
    assert_int_equal(looked_up.status, STATUS_CANCELLED);
    assert_int_equal(refused.status, STATUS_CANCELLED);
    shop->store = NULL;
    sandbox_do(sandbox, "rollback");
    shop_close(shop);
}

static void close_in_callback(enum status status UNUSED, const struct order *order UNUSED,
                              void *arg)
{
    struct shop *shop = arg;

    store_close(shop->store, shop_on_closed, shop);
    shop->store = NULL;
}

static void count_cancelled(enum status status, const struct order *order UNUSED,
                            void *arg)
{
    unsigned *cancelled = arg;

    assert_int_equal(status, STATUS_CANCELLED);
    (*cancelled)++;
}

static void test_store_close__from_inside_a_callback(void **state UNUSED)
{
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    unsigned cancelled = 0;

    store_read_order(shop->store, 1, 0, close_in_callback, shop);
    for (int i = 0; i < 10; i++)
        store_read_order(shop->store, 1, 0, count_cancelled, &cancelled);
    while (shop->store != NULL) {
        store_flush(shop->store);
        uv_run(&shop->loop, UV_RUN_ONCE);
    }
    assert_int_equal(cancelled, 10);
    shop_close(shop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_CASE(test_store_place_orders__one_poisoned_row_refuses_the_batch),
        FAULT_CASE(test_store_place_orders__a_failing_commit_is_a_refusal),
        FAULT_CASE(test_store_place_orders__a_row_lock_held_too_long_is_busy),
        FAULT_CASE(test_store_place_orders__its_deadline_limits_the_statement),
        FAULT_CASE(test_store_place_orders__a_bundle_leaves_out_a_held_voucher),
        FAULT_CASE(test_store__a_stale_session_is_replaced),
        FAULT_CASE(test_store__waits_for_the_migration),
        FAULT_CASE(test_store__waits_for_its_rights),
        FAULT_CASE(test_store__reconnects_after_a_restart),
        FAULT_CASE(test_store__a_hung_server_is_a_timeout),
        FAULT_CASE(test_store_resolve_orders__finds_what_was_committed),
        FAULT_CASE(test_store_resolve_orders__ends_the_process_first),
        FAULT_CASE(test_store_resolve_orders__after_a_crash_in_mid_batch),
        FAULT_CASE(test_store_close__answers_calls_in_flight),
        FAULT_CASE(test_store_close__from_inside_a_callback),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
