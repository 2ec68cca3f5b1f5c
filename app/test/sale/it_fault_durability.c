/*
 * it_fault_durability.c - an administrator makes Postgres less durable during a sale.
 *
 * After the change no order may be acknowledged. Then Postgres crashes, and no acknowledged order
 * may be missing afterwards. When the setting is restored, the sale must continue.
 *
 * The setup makes a commit take 10 ms. It also makes the WAL writer so slow that a crash loses
 * every commit that did not wait for the flush.
 */
#include "app/test/sale/fault_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#define REQUESTS     4000
#define CONNECTIONS  64
#define VOUCHERS_MAX 20

static struct service *early, *plain, *replicated;

static pid_t standby;

static void administer(const char *const *statements)
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
    static const char *const slow_down[] = {
        "grant pg_read_all_stats to seckill_service",
        "alter system set commit_delay = 10000",
        "alter system set commit_siblings = 0",
        "alter system set wal_writer_delay = '10s'",
        "alter system set wal_writer_flush_after = '1GB'",
        "select pg_reload_conf()",
        NULL};
    const char *env[] = {"SECKILL_WORKERS=1", "SECKILL_ORDER_TIMEOUT_MS=2000", NULL,
                         NULL};

    open_fixture(state);
    administer(slow_down);
    early = fixture_serve(fixture, env);
    env[2] = "SECKILL_EARLY_RELEASE=off";
    plain = fixture_serve(fixture, env);
    env[2] = "SECKILL_REQUIRE_DURABILITY=remote";
    replicated = fixture_spawn(fixture, env);
    fixture_share_services(fixture);
    return 0;
}

static int mend(void **state)
{
    static const char *const raise[] = {"alter system reset synchronous_commit",
                                        "alter system reset synchronous_standby_names",
                                        "select pg_reload_conf()", NULL};

    end_standby();
    fixture_mend(fixture, "postgres");
    administer(raise);
    return fixture_end_test(state);
}

#define DURABILITY_CASE(name) DEFINE_CASE(name, name, NULL, mend, NULL)

/* -- a sale during which the server becomes less durable -- */

static struct sale_run {
    const char *setting, *value;
    size_t vouchers;
    char voucher_ids[VOUCHERS_MAX][ID_SIZE];
    char *lowered_at;
    struct order_burst orders;
    enum tally each[REQUESTS];
} run;

static bool is_lowered(void *arg UNUSED)
{
    char *now = sql_text(fixture, "show %s", run.setting);
    bool is_so = strcmp(now, run.value) == 0;

    free(now);
    return is_so;
}

static void lower(void *arg UNUSED)
{
    char statement[80];

    snprintf(statement, sizeof(statement), "alter system set %s = '%s'", run.setting,
             run.value);
    administer((const char *const[]){statement, "select pg_reload_conf()", NULL});
    AWAIT(is_lowered, NULL);
    run.lowered_at = sql_text(fixture, "select clock_timestamp()::text");
}

static size_t run_write(size_t k, char *buf, size_t size, void *arg UNUSED)
{
    memcpy(run.orders.voucher_id, run.voucher_ids[k % run.vouchers], ID_SIZE);
    return burst_write(k, buf, size, &run.orders);
}

static bool is_not_durable(void *service)
{
    const struct client_reply *reply = request(service, NULL, NULL, "GET /readyz");

    return reply->status == 503 && strstr(reply->body, "not_durable") != NULL;
}

/* `rows` has one digit for each shopper. 0: the shopper has no order. 1: the order was created
   before the setting was lowered. 2: the order was created later. */
static void check_acknowledged(void)
{
    char *rows = sql_text(fixture,
                          "select string_agg(coalesce((select case when created_at > '%s'"
                          " then '2' else '1' end from voucher_order where user_id = u),"
                          " case when e.user_id = u then '1' end, '0'), '' order by u)"
                          " from generate_series(%lld, %lld) u"
                          " left join lottery_entry e on e.user_id = u",
                          run.lowered_at, (long long)run.orders.first_user,
                          (long long)run.orders.first_user + REQUESTS - 1);
    size_t lost = 0, late = 0;

    for (size_t k = 0; k < REQUESTS; k++) {
        if (run.each[k] == TALLY_PLACED && rows[k] == '0')
            lost++;
        if (run.each[k] == TALLY_PLACED && rows[k] == '2')
            late++;
    }
    free(rows);
    free(run.lowered_at);
    if (lost > 0 || late > CONNECTIONS)
        fail_msg(
            "of %zu acknowledged orders %zu are lost, and %zu were decided after the "
            "server was less durable; expected 0 and at most %d",
            run.orders.tally[TALLY_PLACED], lost, late, CONNECTIONS);
}

static void sell_and_lower(struct service *service, const char *setting,
                           const char *value, size_t vouchers, bool is_lottery)
{
    static int64_t next_user = 1000000;
    struct load_plan plan = {{service},
                             .connections = CONNECTIONS,
                             .requests = REQUESTS,
                             .write = run_write,
                             .answer = burst_answer,
                             .halfway = lower,
                             .halfway_at = REQUESTS / 4,
                             .arg = &run.orders};

    run = (struct sale_run){.setting = setting, .value = value, .vouchers = vouchers};
    run.orders.first_user = next_user;
    run.orders.each = run.each;
    next_user += REQUESTS;
    service_await(service, "/readyz", 200);
    for (size_t i = 0; i < vouchers; i++)
        make_voucher(service, &(struct sale){.stock = REQUESTS, .is_lottery = is_lottery},
                     run.voucher_ids[i]);
    assert_int_equal(load_run(&plan), REQUESTS);
    AWAIT(is_not_durable, service);
    fixture_servers(fixture, "kill", "postgres");
    fixture_servers(fixture, "start", "postgres");
    check_acknowledged();
    assert_int_equal(run.orders.tally[TALLY_LOST] + run.orders.tally[TALLY_OTHER], 0);
    assert_int_equal(sql_broken_guarantees(fixture), 0);
}

static void raise_and_sell(void **state, struct service *service)
{
    char voucher_id[ID_SIZE];

    mend(state);
    service_await(service, "/readyz", 200);
    make_voucher(service, &(struct sale){.stock = 1}, voucher_id);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
}

/* -- the cases -- */

DURABILITY_CASE(test_lowered__with_early_release)
{
    sell_and_lower(early, "synchronous_commit", "off", 1, false);
    raise_and_sell(state, early);
    sell_and_lower(early, "synchronous_commit", "off", VOUCHERS_MAX, false);
    raise_and_sell(state, early);
}

DURABILITY_CASE(test_lowered__while_shoppers_enter_a_lottery)
{
    sell_and_lower(early, "synchronous_commit", "off", 1, true);
    raise_and_sell(state, early);
}

DURABILITY_CASE(test_lowered__without_early_release)
{
    sell_and_lower(plain, "synchronous_commit", "off", VOUCHERS_MAX, false);
    raise_and_sell(state, plain);
}

/* No orders are placed, so only the periodic check of the service can notice the change. */
DURABILITY_CASE(test_lowered__while_idle)
{
    char voucher_id[ID_SIZE], lottery_id[ID_SIZE];

    service_await(plain, "/readyz", 200);
    make_voucher(plain, &(struct sale){.stock = 1}, voucher_id);
    make_voucher(plain, &(struct sale){.stock = 1, .is_lottery = true}, lottery_id);
    run = (struct sale_run){.setting = "synchronous_commit", .value = "off"};
    lower(NULL);
    free(run.lowered_at);
    AWAIT(is_not_durable, plain);
    EXPECT(place_order(plain, 1, voucher_id, NULL), 503, "unavailable");
    EXPECT(place_order(plain, 1, lottery_id, NULL), 503, "unavailable");
    assert_int_equal(sql_live_orders(fixture, voucher_id), 0);
    assert_int_equal(
        sql_number(fixture, "select count(*) from lottery_entry where voucher_id = %s",
                   lottery_id),
        0);
    raise_and_sell(state, plain);
}

static bool is_drawn(void *voucher_id)
{
    return sql_number(fixture, "select count(drawn_at) from voucher where id = %s",
                      (const char *)voucher_id) == 1;
}

static int64_t count_logins(void)
{
    return sql_number(fixture, "select sessions from pg_stat_database"
                               " where datname = current_database()");
}

static bool have_logged_in(void *logins)
{
    return count_logins() >= *(int64_t *)logins;
}

/* The draw is due while each service tries again and again to use the server. */
DURABILITY_CASE(test_lowered__when_a_lottery_is_to_be_drawn)
{
    char voucher_id[ID_SIZE];
    int64_t logins;

    service_await(early, "/readyz", 200);
    service_await(plain, "/readyz", 200);
    make_voucher(plain, &(struct sale){.stock = 1, .is_lottery = true}, voucher_id);
    EXPECT(place_order(plain, 1, voucher_id, NULL), 202, NULL);
    run = (struct sale_run){.setting = "synchronous_commit", .value = "off"};
    lower(NULL);
    free(run.lowered_at);
    AWAIT(is_not_durable, early);
    AWAIT(is_not_durable, plain);
    assert_int_equal(sql_number(fixture,
                                "select count(id) from patch_voucher(%s, null, null,"
                                " null, now(), null)",
                                voucher_id),
                     1);
    logins = count_logins() + 30;
    AWAIT(have_logged_in, &logins);
    assert_int_equal(sql_live_orders(fixture, voucher_id), 0);
    raise_and_sell(state, plain);
    AWAIT(is_drawn, voucher_id);
    assert_int_equal(sql_live_orders(fixture, voucher_id), 1);
}

static void name_standby(void)
{
    static const char *const name_it[] = {
        "alter system set synchronous_standby_names = 'pg_receivewal'",
        "select pg_reload_conf()", NULL};

    administer(name_it);
    standby = fixture_receive_wal(fixture);
}

static bool commits_wait(void *service)
{
    const struct client_reply *reply = request(service, NULL, NULL, "GET /readyz");

    return reply->status == 503 && strstr(reply->body, "commits_wait") != NULL;
}

/* The standby hangs, and then dies. The service requires local durability only, but commits wait
   for the standby. The first order shows this wait to the service, which does not send later
   orders. */
DURABILITY_CASE(test_standby__does_not_confirm)
{
    char voucher_id[ID_SIZE];

    name_standby();
    make_voucher(plain, &(struct sale){.stock = 10}, voucher_id);
    EXPECT(place_order(plain, 1, voucher_id, NULL), 201, NULL);
    kill(standby, SIGSTOP);
    EXPECT(place_order(plain, 2, voucher_id, NULL), 503, "outcome_unknown");
    AWAIT(commits_wait, plain);
    EXPECT(place_order(plain, 3, voucher_id, NULL), 503, "unavailable");
    assert_true(commits_wait(plain));
    kill(standby, SIGCONT);
    service_await(plain, "/readyz", 200);
    EXPECT(place_order(plain, 3, voucher_id, NULL), 201, NULL);
    end_standby();
    AWAIT(commits_wait, plain);
    raise_and_sell(state, plain);
}

DURABILITY_CASE(test_lowered__the_standby_is_dropped)
{
    name_standby();
    sell_and_lower(replicated, "synchronous_standby_names", "", VOUCHERS_MAX, false);
}

int main(void)
{
    return cases_run(setup, close_fixture);
}
