/*
 * it_store_durable.c - the store reports nothing that a crash or a failover can undo.
 *
 * Each commit that waits to be durable waits for a synchronous standby that does not exist, until
 * the setting is reset.
 */
#include "app/test/store/it_store.h"

#include <signal.h>
#include <sys/wait.h>

static struct sandbox *sandbox;
static struct fixture *fixture;

static int setup(void **state)
{
    *state = fixture = fixture_open();
    sandbox = sandbox_open(fixture, "durable");
    return 0;
}

static int teardown(void **state)
{
    sandbox_close(sandbox);
    return fixture_close(*state);
}

static int64_t administer(const char *sql)
{
    return sql_administer(fixture, sql);
}

/* A reload takes effect some time after the call. */
static void set_standby(const char *name)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "alter system set synchronous_standby_names = '%s'", name);
    administer(sql);
    administer("select pg_reload_conf()");
}

static int mend(void **state UNUSED)
{
    set_standby("");
    return sandbox_audit(sandbox) == 0 ? 0 : 1;
}

#define DURABLE_CASE(test) cmocka_unit_test_teardown(test, mend)

static int64_t commits_held_back(void)
{
    return administer(
        "select count(*) from pg_stat_activity where wait_event = 'SyncRep'");
}

/* Run the loop until `count` commits wait for the standby. */
static void await_held_back(struct shop *shop, int64_t count)
{
    int64_t deadline_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);

    while (commits_held_back() < count) {
        assert_true(clock_mono_us() < deadline_us);
        store_flush(shop->store);
        uv_run(&shop->loop, UV_RUN_ONCE);
    }
}

static void cancel_waits(void)
{
    administer("select pg_cancel_backend(pid) from pg_stat_activity"
               " where wait_event = 'SyncRep'");
}

/* Name a standby that does not exist. Wait until it holds back a commit of a new connection, which
   shows that the reload has taken effect. */
static void name_standby(void)
{
    PGconn *probe = sandbox_connect(sandbox);
    int64_t before = commits_held_back();
    int64_t deadline_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);
    char sql[80];

    set_standby("absent");
    while (commits_held_back() == before) {
        assert_true(clock_mono_us() < deadline_us);
        if (PQtransactionStatus(probe) == PQTRANS_IDLE)
            assert_int_equal(
                PQsendQuery(probe, "select pg_logical_emit_message(true, '', '')"), 1);
        PQconsumeInput(probe);
        while (!PQisBusy(probe) && PQtransactionStatus(probe) == PQTRANS_ACTIVE)
            PQclear(PQgetResult(probe));
    }
    snprintf(sql, sizeof(sql), "select pg_terminate_backend(%d)", PQbackendPID(probe));
    administer(sql);
    while (commits_held_back() > before)
        assert_true(clock_mono_us() < deadline_us);
    PQfinish(probe);
}

static void on_released(void *arg)
{
    struct basket *basket = arg;

    assert_false(basket->is_answered || basket->is_released);
    basket->is_released = true;
}

static void send_early(struct shop *shop, int64_t voucher, struct basket *basket)
{
    struct list batches;

    list_init(&batches);
    list_append(&batches, &basket_batch(shop, voucher, basket)->link);
    basket->batch.released = on_released;
    store_place_orders(shop->store, &batches, basket_on_answer);
    store_flush(shop->store);
}

struct reading {
    bool is_answered;
    enum status status;
    size_t count;
};

static void on_orders(enum status status, const struct order *orders UNUSED, size_t count,
                      void *arg)
{
    struct reading *reading = arg;

    *reading = (struct reading){true, status, count};
}

static void
test_store_place_orders__releases_the_row_before_it_answers(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 2, UNHURRIED_MS);
    struct order_filter filter = {.user_id = 1, .limit = 10};
    struct basket first = {0}, next = {0};
    struct reading reading = {0};

    name_standby();
    basket_add(&first, 1, 1, NULL);
    basket_add(&next, 2, 2, NULL);
    send_early(shop, voucher, &first);
    shop_await(shop, &first.is_released);
    send_early(shop, voucher, &next);
    shop_await(shop, &next.is_released); /* the row of the voucher is free */
    await_held_back(shop, 2);
    store_list_orders(shop->store, &filter, on_orders, &reading);
    await_held_back(shop, 3); /* the read has seen an order that may be lost */
    assert_false(first.is_answered || next.is_answered || reading.is_answered);

    set_standby("");
    shop_await(shop, &first.is_answered);
    shop_await(shop, &next.is_answered);
    shop_await(shop, &reading.is_answered);
    assert_int_equal(first.status, STATUS_OK);
    assert_int_equal(next.status, STATUS_OK);
    assert_int_equal(first.placements[0].verdict, VERDICT_PLACED);
    assert_int_equal(next.snapshot.stock_left, 8);
    assert_int_equal(reading.status, STATUS_OK);
    assert_int_equal(reading.count, 1);
    shop_close(shop);
}

static void test_store_place_orders__releases_all_rows_of_a_bundle(void **state UNUSED)
{
    int64_t held = sandbox_voucher(sandbox, 10, 1);
    int64_t vouchers[3] = {sandbox_voucher(sandbox, 10, 1), held,
                           sandbox_voucher(sandbox, 10, 1)};
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket baskets[3] = {0};
    struct list batches;

    name_standby();
    sandbox_do(sandbox, "begin");
    sandbox_do(sandbox, "select from voucher where id = %" PRId64 " for update", held);
    list_init(&batches);
    for (int i = 0; i < 3; i++) {
        basket_add(&baskets[i], 1, 1, NULL);
        list_append(&batches, &basket_batch(shop, vouchers[i], &baskets[i])->link);
        baskets[i].batch.released = on_released;
    }
    store_place_orders(shop->store, &batches, basket_on_answer);
    store_flush(shop->store);
    shop_await(shop, &baskets[0].is_released);
    shop_await(shop, &baskets[2].is_released);
    assert_true(baskets[1].is_answered); /* needs no barrier */
    assert_int_equal(baskets[1].status, STATUS_BUSY);
    await_held_back(shop, 1);
    assert_false(baskets[0].is_answered || baskets[2].is_answered);

    sandbox_do(sandbox, "rollback");
    set_standby("");
    shop_await(shop, &baskets[0].is_answered);
    shop_await(shop, &baskets[2].is_answered);
    assert_int_equal(baskets[2].status, STATUS_OK);
    assert_int_equal(baskets[2].placements[0].verdict, VERDICT_PLACED);
    shop_close(shop);
}

/* Without the barrier the outcome is unknown, although the rows have been returned. */
static void test_store_place_orders__without_its_barrier_is_unknown(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket basket = {0};

    name_standby();
    basket_add(&basket, 1, 1, NULL);
    send_early(shop, voucher, &basket);
    shop_await(shop, &basket.is_released);
    await_held_back(shop, 1);
    fixture_servers(fixture, "kill", "postgres");
    shop_await(shop, &basket.is_answered);
    assert_int_equal(basket.status, STATUS_IO);
    assert_false(basket.has_snapshot);
    fixture_servers(fixture, "start", "postgres");
    set_standby("");
    PQreset(sandbox->conn);
    basket_resolve(shop, voucher, &basket);
    shop_close(shop);
}

/* When no standby is named, the orders become visible. */
static void assert_placed_without_standby(struct shop *shop, int64_t voucher,
                                          struct basket *basket)
{
    set_standby("");
    basket_resolve(shop, voucher, basket);
    assert_int_equal(basket->placements[0].verdict, VERDICT_PLACED);
    shop_close(shop);
}

/* A commit that waits for its standby is not terminated, because it would become visible
   without having been replicated. */
static void test_store_resolve_orders__waits_for_the_standby(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, 3000);
    struct basket basket = {0};

    name_standby();
    basket_add(&basket, 1, 1, NULL);
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_TIMEOUT);
    assert_int_not_equal(basket_resolve_once(shop, voucher, &basket), STATUS_OK);
    assert_int_equal(commits_held_back(), 1);
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(*) from voucher_order"
                                    " where voucher_id = %" PRId64,
                                    voucher),
                     0); /* it is not visible */
    assert_placed_without_standby(shop, voucher, &basket);
}

/* The server reports a commit whose wait was cancelled as successful, with a warning. */
static void
test_store_place_orders__is_unknown_if_its_wait_is_cancelled(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket early = {0}, basket = {0};

    name_standby();
    basket_add(&early, 1, 1, NULL);
    send_early(shop, voucher, &early);
    await_held_back(shop, 1);
    cancel_waits();
    shop_await(shop, &early.is_answered);
    assert_int_equal(early.status, STATUS_IO);
    ASSERT_CONTAINS(early.why.text, "cancelled");
    shop_await(shop, &shop->is_up);
    basket_add(&basket, 2, 2, NULL);
    basket_send(shop, voucher, &basket);
    await_held_back(shop, 1);
    cancel_waits();
    shop_await(shop, &basket.is_answered);
    assert_int_equal(basket.status, STATUS_IO);

    assert_placed_without_standby(shop, voucher, &basket);
}

/* The commit returns while no standby is named. When the session reads the configuration, a standby
   is named again. */
static void test_store_place_orders__waits_again_after_a_reload(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    struct basket basket = {0};
    pid_t lane;

    name_standby();
    basket_add(&basket, 1, 1, NULL);
    basket_send(shop, voucher, &basket);
    await_held_back(shop, 1);
    lane = (pid_t)administer("select pid from pg_stat_activity"
                             " where wait_event = 'SyncRep'");
    kill(lane, SIGSTOP);
    set_standby("");
    /* This commit waits until the reload has taken effect. */
    sandbox_do(sandbox, "select pg_logical_emit_message(true, '', '')");
    name_standby();
    kill(lane, SIGCONT);
    await_held_back(shop, 1);
    assert_false(basket.is_answered);

    set_standby("");
    shop_await(shop, &basket.is_answered);
    assert_int_equal(basket.status, STATUS_OK);
    assert_int_equal(basket.placements[0].verdict, VERDICT_PLACED);
    shop_close(shop);
}

/* -- what the server promises -- */

static struct shop *shop_requiring(enum durability required)
{
    return shop_open_with((struct store_options){.database_url = sandbox->service_url,
                                                 .timeout_ms = UNHURRIED_MS,
                                                 .lanes = 1,
                                                 .required = required});
}

/* Run the loop and make the store check the server, until it is down because of this level. */
static void await_unsafe(struct shop *shop, enum durability wanted)
{
    int64_t deadline_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);

    while (shop->is_up || shop->downs == 0 || store_durability(shop->store) != wanted) {
        assert_true(clock_mono_us() < deadline_us);
        store_check(shop->store);
        store_flush(shop->store);
        uv_run(&shop->loop, UV_RUN_ONCE);
    }
    assert_int_equal(shop->down_why.status, STATUS_UNSAFE);
}

static void test_store__refuses_a_role_whose_commits_are_lazy(void **state UNUSED)
{
    struct shop *shop;

    administer("alter role " SERVICE_ROLE " set synchronous_commit = off");
    shop = shop_requiring(DURABILITY_LOCAL);
    await_unsafe(shop, DURABILITY_NONE);
    ASSERT_CONTAINS(shop->down_why.text, "durability is none");
    administer("alter role " SERVICE_ROLE " reset synchronous_commit");
    shop_await(shop, &shop->is_up);
    assert_int_equal(store_durability(shop->store), DURABILITY_LOCAL);
    shop_close(shop);
}

static void drop_policy(void)
{
    sandbox_do(sandbox, "alter table voucher disable row level security");
    sandbox_do(sandbox, "drop policy lazy on voucher");
}

/* Another user of a pooled session sets synchronous_commit = off. The store sets it for its own
   commits, but still leaves such a session. */
static void test_store__leaves_a_session_that_somebody_has_set(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct shop *shop = shop_requiring(DURABILITY_LOCAL);
    struct basket basket = {0};

    shop_await(shop, &shop->is_up);
    sandbox_do(sandbox,
               "create function become_lazy() returns boolean language sql as"
               " $$select set_config('synchronous_commit', 'off', false) = 'off'$$");
    sandbox_do(sandbox, "create policy lazy on voucher using (become_lazy())");
    sandbox_do(sandbox, "alter table voucher enable row level security,"
                        " force row level security");
    basket_add(&basket, 1, 1, NULL);
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_IO);
    ASSERT_CONTAINS(basket.why.text, "durability is none");
    assert_int_equal(shop->down_why.status, STATUS_UNSAFE);
    drop_policy();
    shop_await(shop, &shop->is_up);
    basket_resolve(shop, voucher, &basket);
    assert_int_equal(basket.placements[0].verdict, VERDICT_PLACED);
    shop_close(shop);
}

/* A reload takes effect on a session with its next statement. */
static void test_store_durability__notices_a_change(void **state UNUSED)
{
    static const char *const settings[] = {"full_page_writes", "fsync",
                                           "synchronous_commit"};
    struct shop *shop = shop_requiring(DURABILITY_LOCAL);
    char sql[80];

    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        shop_await(shop, &shop->is_up);
        snprintf(sql, sizeof(sql), "alter system set %s = off", settings[i]);
        administer(sql);
        administer("select pg_reload_conf()");
        await_unsafe(shop, DURABILITY_NONE);
        snprintf(sql, sizeof(sql), "alter system reset %s", settings[i]);
        administer(sql);
        administer("select pg_reload_conf()");
    }
    shop_await(shop, &shop->is_up);
    shop_close(shop);
}

static void test_store__waits_for_the_standby_that_is_required(void **state UNUSED)
{
    struct shop *shop = shop_requiring(DURABILITY_REMOTE);
    pid_t standby;

    await_unsafe(shop, DURABILITY_LOCAL);
    ASSERT_CONTAINS(shop->down_why.text, "durability is local");
    name_standby(); /* none with this name is attached */
    set_standby("pg_receivewal");
    standby = fixture_receive_wal(fixture);
    shop_await(shop, &shop->is_up);
    assert_int_equal(store_durability(shop->store), DURABILITY_REMOTE);
    /* without this right the service cannot see that the attached one becomes asynchronous */
    administer("grant pg_read_all_stats to " SERVICE_ROLE);
    set_standby("another");
    await_unsafe(shop, DURABILITY_LOCAL);
    set_standby("pg_receivewal");
    shop_await(shop, &shop->is_up);
    administer("revoke pg_read_all_stats from " SERVICE_ROLE);
    kill(standby, SIGKILL);
    waitpid(standby, NULL, 0);
    await_unsafe(shop, DURABILITY_LOCAL);
    shop_close(shop);
}

/* -- the statements -- */

static bool is_named(void *standby)
{
    return strcmp(sandbox_text(sandbox, "show synchronous_standby_names"), standby) == 0;
}

static void await_named(const char *standby)
{
    char name[16];

    set_standby(standby);
    snprintf(name, sizeof(name), "%s", standby);
    AWAIT(is_named, name);
}

static void prepare(const char *query)
{
    char path[64];

    snprintf(path, sizeof(path), "sql/queries/%s.sql", query);
    sandbox_do(sandbox, "prepare %s as %s", query, embedded_find(path)->bytes);
}

/* The first transaction of a round leaves all WAL on disk. */
static void test_barrier__writes_for_a_standby_even_if_all_is_on_disk(void **state UNUSED)
{
    prepare("barrier");
    await_named("absent");
    for (int i = 0; i < 20; i++) {
        sandbox_do(sandbox, "begin");
        sandbox_do(sandbox, "set local synchronous_commit = local");
        sandbox_do(sandbox, "update cell set alive_at = now()");
        sandbox_do(sandbox, "commit");
        sandbox_do(sandbox, "begin");
        sandbox_do(sandbox, "execute barrier");
        assert_string_not_equal(
            sandbox_text(sandbox, "select pg_current_xact_id_if_assigned()"), "");
        sandbox_do(sandbox, "rollback"); /* a commit would wait */
    }
}

static bool receives(void *arg UNUSED)
{
    return administer("select count(*) from pg_stat_replication"
                      " where state = 'streaming'") > 0;
}

/** Whether the receiver's sender of WAL has read the setting, too. */
static bool has_read_names(void *standby)
{
    int64_t is_sync = administer("select count(*) from pg_stat_replication"
                                 " where sync_state in ('sync', 'quorum')");

    return is_sync == (strcmp(standby, "*") == 0);
}

/* A receiver of WAL counts if commits wait for it. Only a superuser sees whether they do; to others
   each one counts. */
static void test_proof__counts_a_standby_that_commits_wait_for(void **state UNUSED)
{
    static const struct {
        char *standby;
        const char *level;
        bool is_superuser;
        const char *wanted;
    } rows[] = {
        {"", "on", false, "2"},       {"absent", "local", false, "2"},
        {"absent", "on", false, "3"}, {"absent", "remote_apply", false, "3"},
        {"absent", "on", true, "2"},  {"*", "on", true, "3"},
    };
    pid_t receiver = fixture_receive_wal(fixture);
    PGconn *conns[] = {PQconnectdb(fixture->superuser_url), sandbox->conn};

    AWAIT(receives, NULL);
    for (size_t i = 0; i < COUNT_OF(conns); i++) {
        sandbox->conn = conns[i];
        prepare("proof");
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *found;

        sandbox->conn = conns[!rows[i].is_superuser];
        await_named(rows[i].standby);
        AWAIT(has_read_names, rows[i].standby);
        sandbox_do(sandbox, "set synchronous_commit = %s", rows[i].level);
        found = sandbox_text(sandbox, "execute proof");
        if (strcmp(found, rows[i].wanted) != 0)
            fail_msg("standby \"%s\", commits %s: expected %s, got %s", rows[i].standby,
                     rows[i].level, rows[i].wanted, found);
    }
    sandbox->conn = conns[1];
    sandbox_do(sandbox, "reset synchronous_commit");
    PQfinish(conns[0]);
    kill(receiver, SIGKILL);
    waitpid(receiver, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DURABLE_CASE(test_store_place_orders__releases_the_row_before_it_answers),
        DURABLE_CASE(test_store_place_orders__releases_all_rows_of_a_bundle),
        DURABLE_CASE(test_store_place_orders__without_its_barrier_is_unknown),
        DURABLE_CASE(test_store_resolve_orders__waits_for_the_standby),
        DURABLE_CASE(test_store_place_orders__is_unknown_if_its_wait_is_cancelled),
        DURABLE_CASE(test_store_place_orders__waits_again_after_a_reload),
        DURABLE_CASE(test_store__refuses_a_role_whose_commits_are_lazy),
        DURABLE_CASE(test_store__leaves_a_session_that_somebody_has_set),
        DURABLE_CASE(test_store_durability__notices_a_change),
        DURABLE_CASE(test_store__waits_for_the_standby_that_is_required),
        DURABLE_CASE(test_barrier__writes_for_a_standby_even_if_all_is_on_disk),
        DURABLE_CASE(test_proof__counts_a_standby_that_commits_wait_for),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
