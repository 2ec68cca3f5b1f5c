/*
 * it_fault_postgres.c - Postgres killed, stopped, hung, or its connections cut, during a
 * sale: no acknowledged order is lost, no answer is false, and the sale continues.
 */
#include "app/test/load_clients.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 2000
#define BURST      4000

/* `impatient` has a short timeout; the timeout of `patient` is longer than any outage here. */
static struct service *impatient, *patient;

static int setup(void **state)
{
    const char *const env[] = {"SECKILL_ORDER_TIMEOUT_MS=2000", NULL};
    struct fixture *fixture = fixture_open();

    *state = fixture;
    impatient = fixture_serve(fixture, env);
    patient = fixture_serve(fixture, NULL);
    fixture_share_services(fixture);
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

static void await_both(const char *target)
{
    service_await(impatient, target, 200);
    service_await(patient, target, 200);
}

/* Makes Postgres run again, also after a failed test. */
static int mend(void **state)
{
    fixture_mend(*state, "postgres");
    await_both("/readyz");
    return fixture_end_test(state);
}

#define FAULT(test) cmocka_unit_test_teardown(test, mend)

/* -- Postgres is down -- */

static void make_known(int64_t stock, char *ret_id)
{
    char target[64];

    make_voucher(patient, &(struct sale){.stock = stock}, ret_id);
    snprintf(target, sizeof(target), "/v1/vouchers/%s", ret_id);
    await_both(target);
}

/* Asserts how requests are answered while Postgres is down. */
static void assert_refused(int64_t user_id, const char *voucher_id, const char *key)
{
    const struct client_reply *reply = place_order(impatient, user_id, voucher_id, key);

    if (!reply_is(reply, 503, "outcome_unknown"))
        EXPECT(reply, 503, "unavailable");
    ASSERT_BETWEEN(reply_retry_after(reply), 1, 60);
}

static void assert_reads_refused(void)
{
    static const char *const lines[] = {"GET /v1/orders", "GET /v1/orders/1048577",
                                        "GET /v1/vouchers?state=ended"};

    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        const struct client_reply *reply = EXPECT(
            request(impatient, shopper(1), NULL, "%s", lines[i]), 503, "unavailable");

        ASSERT_NUMBER(reply_retry_after(reply), >=, 1);
    }
}

struct attempt {
    const char *voucher_id;
    int64_t user_id;
};

static bool is_complete(void *arg)
{
    const struct attempt *attempt = arg;
    const struct client_reply *reply =
        place_order(impatient, attempt->user_id, attempt->voucher_id, NULL);

    return reply->status == 201 || reply_is(reply, 409, "already_ordered");
}

static void test_down__killed(void **state)
{
    char voucher_id[ID_SIZE];
    struct attempt attempt = {voucher_id, 1};
    const struct client_reply *reply;

    make_known(100, voucher_id);
    fixture_servers(*state, "kill", "postgres");
    for (int64_t user = 1; user <= 6; user++)
        assert_refused(user, voucher_id, user % 2 ? NULL : "k");
    assert_reads_refused();
    service_await(impatient, "/readyz", 503);
    reply = request(impatient, NULL, NULL, "GET /readyz");
    ASSERT_CONTAINS(reply->body, "postgres");
    EXPECT(request(impatient, NULL, NULL, "GET /healthz"), 200, NULL);
    reply = EXPECT(request(impatient, NULL, NULL, "GET /metrics"), 200, NULL);
    ASSERT_CONTAINS(reply->body, "seckill_dependency_up{dependency=\"postgres\"} 0");
    assert_int_equal(redis_order_locks(*state), 0);
    fixture_servers(*state, "start", "postgres");
    service_await(impatient, "/readyz", 200);
    assert_int_equal(sql_live_orders(*state, voucher_id), 0);
    for (; attempt.user_id <= 6; attempt.user_id++)
        AWAIT(is_complete, &attempt);
}

static void test_down__hung(void **state)
{
    char voucher_id[ID_SIZE];
    struct attempt attempt = {voucher_id, 1};

    make_known(100, voucher_id);
    fixture_servers(*state, "pause", "postgres");
    for (int64_t user = 1; user <= 3; user++)
        assert_refused(user, voucher_id, user % 2 ? NULL : "k");
    fixture_servers(*state, "resume", "postgres");
    service_await(impatient, "/readyz", 200);
    AWAIT(is_complete, &attempt);
    assert_int_equal(sql_broken_guarantees(*state), 0);
}

/* -- in a burst -- */

static bool no_locks(void *arg)
{
    return redis_order_locks(arg) == 0;
}

static void kill_and_start(void *arg)
{
    struct order_burst *burst = arg;

    fixture_servers(burst->fixture, "kill", "postgres");
    fixture_servers(burst->fixture, "start", "postgres");
}

static void stop_and_start(void *arg)
{
    struct order_burst *burst = arg;

    fixture_servers(burst->fixture, "stop", "postgres");
    fixture_servers(burst->fixture, "start", "postgres");
}

static void pause_and_resume(void *arg)
{
    struct order_burst *burst = arg;

    fixture_servers(burst->fixture, "pause", "postgres");
    fixture_servers(burst->fixture, "resume", "postgres");
}

static bool time_is_over(void *arg)
{
    return clock_mono_us() > *(int64_t *)arg;
}

/* Longer than the order timeout. */
static void pause_for_long(void *arg)
{
    struct order_burst *burst = arg;
    int64_t until_us = clock_mono_us() + INT64_C(1000) * (TIMEOUT_MS + 1500);

    fixture_servers(burst->fixture, "pause", "postgres");
    becomes_true(time_is_over, &until_us);
    fixture_servers(burst->fixture, "resume", "postgres");
}

static void run_burst(void **state, struct service *service, void (*halfway)(void *arg))
{
    static enum tally each[BURST];
    struct order_burst burst = {.first_user = 1, .each = each, .fixture = *state};
    struct load_plan plan = {{service},
                             .connections = 64,
                             .requests = BURST,
                             .write = burst_write,
                             .answer = burst_answer,
                             .halfway = halfway,
                             .halfway_at = BURST / 10,
                             .arg = &burst};

    make_known(BURST, burst.voucher_id);
    assert_int_equal(load_run(&plan), BURST);
    assert_int_equal(burst.tally[TALLY_LOST], 0);
    assert_true(burst.tally[TALLY_PLACED] >= BURST / 10);
    if (halfway == pause_and_resume)
        assert_int_equal(burst.tally[TALLY_PLACED], BURST);
    await_both("/readyz");
    AWAIT(no_locks, *state);
    burst_check(*state, &burst, BURST);
    burst_finish(patient, &burst, BURST);
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), BURST);
    assert_int_equal(sql_broken_guarantees(*state), 0);
}

static void test_burst__killed(void **state)
{
    run_burst(state, patient, kill_and_start);
}

static void test_burst__stopped(void **state)
{
    run_burst(state, patient, stop_and_start);
}

static void test_burst__hung_for_a_moment(void **state)
{
    run_burst(state, patient, pause_and_resume);
}

static void test_burst__hung_for_long(void **state)
{
    run_burst(state, impatient, pause_for_long);
}

/* Cut the connections again and again, at any point of the transactions. */
struct cutter {
    struct order_burst burst;
    struct fixture *fixture;
    const char *function;
};

static void cutter_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct cutter *cutter = arg;

    burst_answer(k, reply, &cutter->burst);
    if (k % 150 == 100)
        sql_do(cutter->fixture,
               "select count(%s(pid)) from pg_stat_activity where usename = current_user "
               "and pid <> pg_backend_pid()",
               cutter->function);
}

static void run_cutter(void **state, const char *function)
{
    static enum tally each[BURST];
    struct cutter cutter = {.burst = {.first_user = 1, .each = each},
                            .fixture = *state,
                            .function = function};
    struct load_plan plan = {{patient},
                             .connections = 64,
                             .requests = BURST,
                             .write = burst_write,
                             .answer = cutter_answer,
                             .arg = &cutter};

    make_known(BURST, cutter.burst.voucher_id);
    assert_int_equal(load_run(&plan), BURST);
    assert_int_equal(cutter.burst.tally[TALLY_LOST], 0);
    assert_int_equal(cutter.burst.tally[TALLY_UNKNOWN],
                     0); /* look-ups are possible at once */
    await_both("/readyz");
    burst_check(*state, &cutter.burst, BURST);
    burst_finish(patient, &cutter.burst, BURST);
    assert_int_equal(sql_live_orders(*state, cutter.burst.voucher_id), BURST);
}

static void test_burst__connections_cut(void **state)
{
    run_cutter(state, "pg_terminate_backend");
}

static void test_burst__statements_cancelled(void **state)
{
    run_cutter(state, "pg_cancel_backend");
}

/* -- a row that the database refuses -- */

#define NEIGHBOURS 60

static int drop_poison(void **state)
{
    sql_do(*state, "alter table voucher_order drop constraint if exists poison");
    return mend(state);
}

/* While the voucher's row is locked, the orders queue up, so they share batches. */
static void test_poison__fails_alone(void **state)
{
    struct client *clients[NEIGHBOURS];
    struct client_wait wait = {.timeout_ms = CLIENT_TIMEOUT_MS};
    struct order_burst burst = {.first_user = 666000};
    char bytes[1024], statement[80];

    sql_do(*state,
           "alter table voucher_order add constraint poison check (user_id not in "
           "(666007, 666031, 666032)) not valid");
    make_known(NEIGHBOURS, burst.voucher_id);
    snprintf(statement, sizeof(statement),
             "select 1 from voucher where id = %s for update", burst.voucher_id);
    sql_session(*state, statement);
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        clients[i] = client_open(&patient->address);
        assert_true(client_write(clients[i], bytes,
                                 burst_write(i, bytes, sizeof(bytes), &burst)));
    }
    EXPECT(request(patient, NULL, NULL, "GET /healthz"), 200, NULL);
    sql_session(*state, NULL);
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        bool is_poison = i == 7 || i == 31 || i == 32;

        EXPECT(client_read(clients[i], &wait), is_poison ? 500 : 201,
               is_poison ? "internal" : NULL);
        client_close(clients[i]);
    }
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), NEIGHBOURS - 3);
    assert_int_equal(sql_broken_guarantees(*state), 0);
    AWAIT(no_locks, *state);
    sql_do(*state, "alter table voucher_order drop constraint poison");
    for (int64_t user = 666031; user <= 666032; user++)
        EXPECT(place_order(patient, user, burst.voucher_id, NULL), 201, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT(test_down__killed),
        FAULT(test_down__hung),
        FAULT(test_burst__killed),
        FAULT(test_burst__stopped),
        FAULT(test_burst__hung_for_a_moment),
        FAULT(test_burst__hung_for_long),
        FAULT(test_burst__connections_cut),
        FAULT(test_burst__statements_cancelled),
        cmocka_unit_test_teardown(test_poison__fails_alone, drop_poison),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
