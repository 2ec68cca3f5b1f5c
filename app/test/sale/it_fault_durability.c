/*
 * it_fault_durability.c - an administrator makes Postgres less durable during a sale. From then on
 * no order is acknowledged; no acknowledged order is lost in a crash; the sale continues when the
 * setting is restored.
 *
 * A commit takes 10 ms. The WAL writer is so slow that a crash loses a commit that does not wait
 * for the flush.
 */
#include "app/test/load_clients.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define REQUESTS     4000
#define CONNECTIONS  64
#define VOUCHERS_MAX 20

/* With early release, without it, and with a synchronous standby. */
static struct service *early, *plain, *replicated;

/* The process that receives the WAL as a standby does, until the test ends it. */
static pid_t standby;

static void administer_all(struct fixture *fixture, const char *const *statements)
{
    for (; *statements != NULL; statements++)
        (void)sql_administer(fixture, *statements);
}

static void end_standby(void)
{
    if (standby > 0) {
        kill(standby, SIGKILL);
        waitpid(standby, NULL, 0);
    }
    standby = 0;
}

static int setup(void **state)
{
    /* pg_read_all_stats lets the service see which WAL sender is a synchronous standby. */
    static const char *const statements[] = {
        "grant pg_read_all_stats to seckill_service",
        "alter system set commit_delay = 10000",
        "alter system set commit_siblings = 0",
        "alter system set wal_writer_delay = '10s'",
        "alter system set wal_writer_flush_after = '1GB'",
        "select pg_reload_conf()",
        NULL};
    struct fixture *fixture = fixture_open();

    *state = fixture;
    administer_all(fixture, statements);
    early = fixture_serve(fixture,
                          (const char *const[]){"SECKILL_WORKERS=1",
                                                "SECKILL_ORDER_TIMEOUT_MS=2000", NULL});
    plain =
        fixture_serve(fixture, (const char *const[]){"SECKILL_WORKERS=1",
                                                     "SECKILL_ORDER_TIMEOUT_MS=2000",
                                                     "SECKILL_EARLY_RELEASE=off", NULL});
    replicated = fixture_spawn(
        fixture,
        (const char *const[]){"SECKILL_WORKERS=1", "SECKILL_ORDER_TIMEOUT_MS=2000",
                              "SECKILL_REQUIRE_DURABILITY=remote", NULL});
    fixture_share_services(fixture);
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

/* Restores the settings after each test, also if it failed. */
static int mend(void **state)
{
    static const char *const raise[] = {
        "alter system reset synchronous_commit",
        "alter system reset fsync",
        "alter system reset full_page_writes",
        "alter system reset synchronous_standby_names",
        "alter role seckill_service reset synchronous_commit",
        "alter database seckill reset synchronous_commit",
        "select pg_reload_conf()",
        NULL};

    end_standby();
    fixture_mend(*state, "postgres");
    administer_all(*state, raise);
    return fixture_end_test(state);
}

#define DURABILITY_CASE(test) cmocka_unit_test_teardown(test, mend)

/* -- lowering -- */

/** A statement that makes the server less durable for all sessions. */
struct lowering {
    const char *statement;
    const char *setting, *value; /* what a session then sees */
};

static const struct lowering lazy = {"alter system set synchronous_commit = off",
                                     "synchronous_commit", "off"};
static const struct lowering unsynced = {"alter system set fsync = off", "fsync", "off"};
static const struct lowering torn = {"alter system set full_page_writes = off",
                                     "full_page_writes", "off"};
static const struct lowering alone = {"alter system set synchronous_standby_names = ''",
                                      "synchronous_standby_names", ""};
static const struct lowering asynchronous = {
    "alter system set synchronous_standby_names = 'another'", "synchronous_standby_names",
    "another"};

struct seen {
    struct fixture *fixture;
    const char *setting, *value;
};

static bool is_seen(void *arg)
{
    const struct seen *seen = arg;
    char *now = sql_text(seen->fixture, "show %s", seen->setting);
    bool is_so = strcmp(now, seen->value) == 0;

    free(now);
    return is_so;
}

static void lower(struct fixture *fixture, const struct lowering *lowering)
{
    struct seen seen = {fixture, lowering->setting, lowering->value};

    (void)sql_administer(fixture, lowering->statement);
    (void)sql_administer(fixture, "select pg_reload_conf()");
    AWAIT(is_seen, &seen);
}

/* -- a sale during which the server becomes less durable -- */

static bool is_not_durable(void *arg)
{
    const struct client_reply *reply = request(arg, NULL, NULL, "GET /readyz");

    return reply->status == 503 && strstr(reply->body, "not_durable") != NULL;
}

struct sale_run {
    struct order_burst burst;
    struct fixture *fixture;
    const struct lowering *lowering;
    size_t vouchers;
    char voucher_ids[VOUCHERS_MAX][ID_SIZE];
    char *lowered_at; /* time by the clock of the database */
};

static size_t run_write(size_t k, char *buf, size_t size, void *arg)
{
    struct sale_run *run = arg;

    memcpy(run->burst.voucher_id, run->voucher_ids[k % run->vouchers], ID_SIZE);
    return burst_write(k, buf, size, &run->burst);
}

static void run_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct sale_run *run = arg;

    burst_answer(k, reply, &run->burst);
}

static void run_halfway(void *arg)
{
    struct sale_run *run = arg;

    lower(run->fixture, run->lowering);
    run->lowered_at = sql_text(run->fixture, "select clock_timestamp()::text");
}

/* `rows` has a digit for each shopper. 0: no order, 1: an order created before the lowering, 2: an
   order created after it. */
static void check_acknowledged(const struct sale_run *run)
{
    char *rows =
        sql_text(run->fixture,
                 "select string_agg(coalesce((select case when created_at > '%s' "
                 "then '2' else '1' end from voucher_order where user_id = u), "
                 "'0'), '' order by u) from generate_series(%lld, %lld) u",
                 run->lowered_at, (long long)run->burst.first_user,
                 (long long)run->burst.first_user + REQUESTS - 1);
    size_t lost = 0, late = 0;

    for (size_t k = 0; k < REQUESTS; k++) {
        if (run->burst.each[k] != TALLY_PLACED)
            continue;
        lost += rows[k] == '0';
        late += rows[k] == '2';
    }
    free(rows);
    if (lost > 0 || late > CONNECTIONS)
        fail_msg(
            "of %zu acknowledged orders %zu are lost, and %zu were decided after the "
            "server was less durable; expected 0 and at most %d",
            run->burst.tally[TALLY_PLACED], lost, late, CONNECTIONS);
}

static void sell_and_lower(void **state, struct service *service,
                           const struct lowering *lowering, size_t vouchers)
{
    static enum tally each[REQUESTS];
    static int64_t next_user = 1000000;
    struct sale_run run = {.burst = {.first_user = next_user, .each = each},
                           .fixture = *state,
                           .lowering = lowering,
                           .vouchers = vouchers};
    struct load_plan plan = {{service},
                             .connections = CONNECTIONS,
                             .requests = REQUESTS,
                             .write = run_write,
                             .answer = run_answer,
                             .halfway = run_halfway,
                             .halfway_at = REQUESTS / 4,
                             .arg = &run};

    next_user += REQUESTS;
    for (size_t i = 0; i < vouchers; i++)
        make_voucher(service, &(struct sale){.stock = REQUESTS}, run.voucher_ids[i]);
    assert_int_equal(load_run(&plan), REQUESTS);
    AWAIT(is_not_durable, service);
    fixture_servers(*state, "kill", "postgres");
    fixture_servers(*state, "start", "postgres");
    check_acknowledged(&run);
    free(run.lowered_at);
    assert_int_equal(run.burst.tally[TALLY_LOST] + run.burst.tally[TALLY_OTHER], 0);
    assert_int_equal(sql_broken_guarantees(*state), 0);
}

/* -- the cases -- */

static void raise_and_sell(void **state, struct service *service)
{
    char voucher_id[ID_SIZE];

    mend(state);
    service_await(service, "/readyz", 200);
    make_voucher(service, &(struct sale){.stock = 1}, voucher_id);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
}

static void test_lowered__synchronous_commit(void **state)
{
    service_await(early, "/readyz", 200);
    sell_and_lower(state, early, &lazy, 1);
    raise_and_sell(state, early);
    sell_and_lower(state, early, &lazy, VOUCHERS_MAX);
    raise_and_sell(state, early);
    service_await(plain, "/readyz", 200);
    sell_and_lower(state, plain, &lazy, 1);
    raise_and_sell(state, plain);
    sell_and_lower(state, plain, &lazy, VOUCHERS_MAX);
    raise_and_sell(state, plain);
}

static void test_lowered__fsync(void **state)
{
    service_await(early, "/readyz", 200);
    sell_and_lower(state, early, &unsynced, 1);
    raise_and_sell(state, early);
}

static void test_lowered__full_page_writes(void **state)
{
    service_await(plain, "/readyz", 200);
    sell_and_lower(state, plain, &torn, VOUCHERS_MAX);
    raise_and_sell(state, plain);
}

/* `statement` applies to new sessions only. Existing sessions go on; new ones are refused. */
static void lower_new_sessions(void **state, const char *statement)
{
    char voucher_id[ID_SIZE];

    service_await(early, "/readyz", 200);
    make_voucher(early, &(struct sale){.stock = 1}, voucher_id);
    (void)sql_administer(*state, statement);
    (void)sql_administer(*state, "select count(pg_terminate_backend(pid)) from"
                                 " pg_stat_activity where usename = '" SERVICE_ROLE "'");
    AWAIT(is_not_durable, early);
    EXPECT(place_order(early, 1, voucher_id, NULL), 503, "unavailable");
    raise_and_sell(state, early);
}

static void test_lowered__by_role(void **state)
{
    lower_new_sessions(state, "alter role " SERVICE_ROLE " set synchronous_commit = off");
}

static void test_lowered__by_database(void **state)
{
    lower_new_sessions(state, "alter database seckill set synchronous_commit = off");
}

/* There are no orders, so only the periodic check of the service can notice the change. */
static void test_lowered__while_idle(void **state)
{
    char voucher_id[ID_SIZE];

    service_await(plain, "/readyz", 200);
    make_voucher(plain, &(struct sale){.stock = 1}, voucher_id);
    lower(*state, &lazy);
    AWAIT(is_not_durable, plain);
    EXPECT(place_order(plain, 1, voucher_id, NULL), 503, "unavailable");
    assert_int_equal(sql_live_orders(*state, voucher_id), 0);
    raise_and_sell(state, plain);
}

static void sell_replicated(void **state, const struct lowering *lowering,
                            size_t vouchers)
{
    static const char *const name_it[] = {
        "alter system set synchronous_standby_names = 'pg_receivewal'",
        "select pg_reload_conf()", NULL};

    administer_all(*state, name_it);
    standby = fixture_receive_wal(*state);
    service_await(replicated, "/readyz", 200);
    sell_and_lower(state, replicated, lowering, vouchers);
    end_standby();
}

/* An operator, or Patroni, drops a standby that has failed. */
static void test_lowered__the_standby_is_dropped(void **state)
{
    sell_replicated(state, &alone, 1);
    sell_replicated(state, &alone, VOUCHERS_MAX);
}

static void test_lowered__the_standby_becomes_asynchronous(void **state)
{
    sell_replicated(state, &asynchronous, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DURABILITY_CASE(test_lowered__synchronous_commit),
        DURABILITY_CASE(test_lowered__fsync),
        DURABILITY_CASE(test_lowered__full_page_writes),
        DURABILITY_CASE(test_lowered__by_role),
        DURABILITY_CASE(test_lowered__by_database),
        DURABILITY_CASE(test_lowered__while_idle),
        DURABILITY_CASE(test_lowered__the_standby_is_dropped),
        DURABILITY_CASE(test_lowered__the_standby_becomes_asynchronous),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
