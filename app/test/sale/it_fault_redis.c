/* it_fault_redis.c - Redis killed, hung, restarted empty; reject and bypass. */
#include "app/test/load_clients.h"
#include "base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define BURST 3000

/* A leaked lock blocks its shopper for longer than a test waits. */
#define LONG_LEASE "SECKILL_LOCK_LEASE_MS=600000"

static const char *const bypassing[] = {"SECKILL_ORDER_TIMEOUT_MS=10000",
                                        "SECKILL_REDIS_DOWN=bypass", LONG_LEASE, NULL};
/* Both reject orders while Redis is down. `impatient` has a short timeout; the timeout of `patient`
   is longer than any outage here. */
static struct service *impatient, *patient;

static int setup(void **state)
{
    const char *const rejecting[] = {LONG_LEASE, "SECKILL_ORDER_TIMEOUT_MS=1500", NULL};
    struct fixture *fixture = fixture_open();

    *state = fixture;
    impatient = fixture_serve(fixture, rejecting);
    patient = fixture_serve(fixture, (const char *[]){LONG_LEASE, NULL});
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

/* Makes Redis run again, also after a failed test. */
static int mend(void **state)
{
    fixture_mend(*state, "redis");
    await_both("/readyz");
    return fixture_end_test(state);
}

#define FAULT(test) cmocka_unit_test_teardown(test, mend)

static void make_known(int64_t stock, char *ret_id)
{
    char target[64];

    make_voucher(patient, &(struct sale){.stock = stock}, ret_id);
    snprintf(target, sizeof(target), "/v1/vouchers/%s", ret_id);
    await_both(target);
}

/* Asserts how requests are answered while Redis is down. */
static void assert_unavailable(const char *voucher_id)
{
    for (int64_t user = 1; user <= 4; user++) {
        const struct client_reply *reply =
            EXPECT(place_order(impatient, user, voucher_id, NULL), 503, "unavailable");

        ASSERT_BETWEEN(reply_retry_after(reply), 1, 60);
    }
}

static void test_reject__killed(void **state)
{
    char voucher_id[ID_SIZE];
    const struct client_reply *reply;

    make_known(100, voucher_id);
    EXPECT(place_order(patient, 99, voucher_id, NULL), 201, NULL);
    fixture_servers(*state, "kill", "redis");
    assert_unavailable(voucher_id);
    service_await(impatient, "/readyz", 503);
    reply = request(impatient, NULL, NULL, "GET /readyz");
    assert_non_null(reply->json);
    ASSERT_CONTAINS(reply->body, "redis");
    EXPECT(request(impatient, NULL, NULL, "GET /healthz"), 200, NULL);
    reply = EXPECT(request(impatient, NULL, NULL, "GET /metrics"), 200, NULL);
    ASSERT_CONTAINS(reply->body, "seckill_dependency_up{dependency=\"redis\"} 0");
    EXPECT(request(patient, NULL, NULL, "GET /v1/vouchers/%s", voucher_id), 200, NULL);
    assert_int_equal(sql_live_orders(*state, voucher_id), 1);
    fixture_servers(*state, "start", "redis");
    await_both("/readyz");
    for (int64_t user = 1; user <= 4; user++)
        EXPECT(place_order(patient, user, voucher_id, NULL), 201, NULL);
}

static void test_reject__hung(void **state)
{
    char voucher_id[ID_SIZE];

    make_known(100, voucher_id);
    fixture_servers(*state, "pause", "redis");
    assert_unavailable(voucher_id);
    service_await(impatient, "/readyz", 503);
    assert_int_equal(sql_live_orders(*state, voucher_id), 0);
    fixture_servers(*state, "resume", "redis");
    await_both("/readyz");
}

static bool no_locks(void *arg)
{
    return redis_order_locks(arg) == 0;
}

struct attempt {
    int64_t user_id;
    const char *voucher_id;
};

static bool is_placed(void *arg)
{
    struct attempt *attempt = arg;

    return place_order(patient, attempt->user_id, attempt->voucher_id, NULL)->status ==
           201;
}

/* Redis grants a lock after the service has given up. The service must release this orphan before
   its lease ends. */
static void test_reject__hung_leaves_no_lock_behind(void **state)
{
    char voucher_id[ID_SIZE];
    struct attempt attempt = {.voucher_id = voucher_id};

    make_known(100, voucher_id);
    fixture_servers(*state, "pause", "redis");
    for (int64_t user = 1; user <= 3; user++)
        EXPECT(place_order(impatient, user, voucher_id, NULL), 503, "unavailable");
    fixture_servers(*state, "resume", "redis");
    for (attempt.user_id = 1; attempt.user_id <= 3; attempt.user_id++)
        AWAIT(is_placed, &attempt);
    AWAIT(no_locks, *state); /* long before the leases end */
}

static void test_reject__waits_for_a_short_hang(void **state)
{
    struct client *clients[20];
    struct order_burst burst = {.first_user = 1};
    struct client_wait wait = {.timeout_ms = CLIENT_TIMEOUT_MS};
    char request[1024];

    make_known(100, burst.voucher_id);
    fixture_servers(*state, "pause", "redis");
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        clients[i] = client_open(&patient->address);
        assert_true(client_write(clients[i], request,
                                 burst_write(i, request, sizeof(request), &burst)));
    }
    fixture_servers(*state, "resume", "redis");
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        EXPECT(client_read(clients[i], &wait), 201, NULL);
        client_close(clients[i]);
    }
}

static void test_reject__restarted_empty(void **state)
{
    char voucher_id[ID_SIZE];

    make_voucher(patient, &(struct sale){.stock = 100, .per_user_limit = 5}, voucher_id);
    for (int i = 0; i < 3; i++) {
        EXPECT(place_order(patient, 7, voucher_id, NULL), 201, NULL);
        fixture_servers(*state, "kill", "redis");
        fixture_servers(*state, "start", "redis");
        await_both("/readyz");
    }
    EXPECT(place_order(patient, 7, voucher_id, NULL), 201, NULL);
}

static void kill_and_start(void *arg)
{
    struct order_burst *burst = arg;

    fixture_servers(burst->fixture, "kill", "redis");
    fixture_servers(burst->fixture, "start", "redis");
}

static void run_burst(void **state, struct service *at, void (*halfway)(void *arg))
{
    static enum tally each[BURST];
    struct order_burst burst = {.first_user = 1, .each = each, .fixture = *state};
    struct load_plan plan = {{at},
                             .connections = 64,
                             .requests = BURST,
                             .write = burst_write,
                             .answer = burst_answer,
                             .halfway = halfway,
                             .halfway_at = BURST / 10,
                             .arg = &burst};

    make_voucher(at, &(struct sale){.stock = BURST}, burst.voucher_id);
    assert_int_equal(load_run(&plan), BURST);
    assert_int_equal(burst.tally[TALLY_LOST], 0);
    assert_true(burst.tally[TALLY_PLACED] >= BURST / 10);
    burst_check(*state, &burst, BURST);
}

static void test_reject__killed_in_a_burst(void **state)
{
    run_burst(state, patient, kill_and_start);
}

/* Redis answers with an error and does nothing. */
static void test_reject__refusing_writes(void **state)
{
    char voucher_id[ID_SIZE];
    const struct client_reply *reply;

    make_known(100, voucher_id);
    redis_do(*state, "CONFIG SET maxmemory 1");
    assert_unavailable(voucher_id);
    service_await(impatient, "/readyz", 503); /* although Redis is connected */
    reply = EXPECT(request(impatient, NULL, NULL, "GET /metrics"), 200, NULL);
    ASSERT_CONTAINS(reply->body, "seckill_dependency_up{dependency=\"redis\"} 0");
    redis_do(*state, "CONFIG SET maxmemory 0");
    await_both("/readyz");
    assert_int_equal(sql_live_orders(*state, voucher_id), 0);
    for (int64_t user = 1; user <= 4; user++)
        EXPECT(place_order(patient, user, voucher_id, NULL), 201, NULL);
}

/* Cut connections and flush Redis again and again, at any point of the orders. */
static void nagging_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct order_burst *burst = arg;

    burst_answer(k, reply, burst);
    if (k % 100 == 0)
        redis_do(burst->fixture, "CLIENT KILL TYPE normal SKIPME yes");
    if (k % 100 == 50)
        redis_do(burst->fixture, "SCRIPT FLUSH");
    if (k % 1000 == 500)
        redis_do(burst->fixture, "FLUSHALL");
}

static void test_reject__connections_cut_in_a_burst(void **state)
{
    static enum tally each[BURST];
    struct order_burst burst = {.first_user = 1, .each = each, .fixture = *state};
    struct load_plan plan = {{patient},
                             .connections = 64,
                             .requests = BURST,
                             .write = burst_write,
                             .answer = nagging_answer,
                             .arg = &burst};

    make_known(BURST, burst.voucher_id);
    assert_int_equal(load_run(&plan), BURST);
    assert_int_equal(burst.tally[TALLY_LOST], 0);
    burst_check(*state, &burst, BURST);
    await_both("/readyz");
    AWAIT(no_locks, *state);
}

/* -- the fence counter -- */

static const char *const unusable_fences[] = {"8999999999999998", "9000000000000005",
                                              "9223372036854775807", "words", ""};

/* The greatest fence of all orders is at most a minute ahead of the clock. */
static void assert_sane_fences(struct fixture *fixture)
{
    ASSERT_NUMBER(sql_number(fixture, "select max(fence) from voucher_order"), <=,
                  clock_real_us() + 60000000);
}

static void test_fence__an_unusable_counter_refuses_no_order(void **state)
{
    char voucher_id[ID_SIZE];
    int64_t user = 1;

    make_known(100, voucher_id);
    for (size_t i = 0; i < COUNT_OF(unusable_fences); i++) {
        redis_do(*state, "SET lock:fence %s", unusable_fences[i]);
        for (int k = 0; k < 8; k++)
            EXPECT(place_order(patient, user++, voucher_id, NULL), 201, NULL);
        EXPECT(request(patient, NULL, NULL, "GET /readyz"), 200, NULL);
        redis_do(*state, "DEL lock:fence");
        EXPECT(place_order(patient, user++, voucher_id, NULL), 201, NULL);
    }
    assert_sane_fences(*state);
}

static bool reports_restarts(void *arg)
{
    const struct client_reply *reply = request(arg, NULL, NULL, "GET /metrics");

    return reply->status == 200 &&
           strstr(reply->body, "seckill_lock_fence_restarts_total 0") == NULL;
}

static void signal_both(int signal_number)
{
    service_signal(impatient, signal_number);
    service_signal(patient, signal_number);
}

static int wake_both(void **state)
{
    signal_both(SIGCONT);
    return mend(state);
}

/* The other instances are stopped, so the new one must reset the counter. */
static void test_fence__a_new_instance_starts_with_an_unusable_counter(void **state)
{
    char voucher_id[ID_SIZE];
    struct service *at;

    signal_both(SIGSTOP);
    redis_do(*state, "SET lock:fence 8999999999999998");
    at = fixture_serve(*state, NULL);
    AWAIT(reports_restarts, at);
    signal_both(SIGCONT);
    make_voucher(at, &(struct sale){.stock = 1}, voucher_id);
    EXPECT(place_order(at, 1, voucher_id, NULL), 201, NULL);
    assert_sane_fences(*state);
}

/* The fence key belongs to another program: nothing is overwritten. */
static void test_fence__a_key_of_another_type_is_not_ready(void **state)
{
    char voucher_id[ID_SIZE];
    struct service *at;

    make_known(100, voucher_id);
    redis_do(*state, "DEL lock:fence");
    redis_do(*state, "HSET lock:fence field 7");
    assert_unavailable(voucher_id);
    at = fixture_spawn(*state, NULL);
    service_await(at, "/healthz", 200);
    service_await(at, "/readyz", 503);
    service_await(impatient, "/readyz", 503);
    assert_string_equal(redis_do(*state, "HGET lock:fence field"), "7");
    redis_do(*state, "DEL lock:fence");
    await_both("/readyz");
    service_await(at, "/readyz", 200);
    EXPECT(place_order(at, 1, voucher_id, NULL), 201, NULL);
    assert_sane_fences(*state);
}

/* An order of an earlier build has an extreme fence. It blocks only its shopper, and only for this
   voucher. */
static void test_fence__an_extreme_one_of_an_order_is_repaired(void **state)
{
    char voucher_id[ID_SIZE];

    make_voucher(patient, &(struct sale){.stock = 10, .per_user_limit = 2}, voucher_id);
    EXPECT(place_order(patient, 1, voucher_id, NULL), 201, NULL);
    sql_do(*state,
           "update voucher_order set fence = 8999999999999999 where voucher_id = %s",
           voucher_id);
    EXPECT(place_order(patient, 1, voucher_id, NULL), 503, "unavailable");
    for (int64_t user = 2; user <= 5; user++)
        EXPECT(place_order(patient, user, voucher_id, NULL), 201, NULL);
    assert_int_equal(sql_number(*state, "select repair_fences()"), 1);
    EXPECT(place_order(patient, 1, voucher_id, NULL), 201, NULL);
    assert_sane_fences(*state);
}

/* -- bypass -- */

#define IN_A_ROW 16 /* requests that very likely reach every loop of a service */

/* Whether each loop of a service bypasses the locks. */
static bool is_bypassed(void *arg)
{
    for (int i = 0; i < IN_A_ROW; i++) {
        const struct client_reply *reply = request(arg, NULL, NULL, "GET /readyz");

        if (reply->status != 200 || strstr(reply->body, "bypassed") == NULL)
            return false;
    }
    return true;
}

static void assert_bypassed(struct service *at)
{
    const struct client_reply *reply;

    AWAIT(is_bypassed, at);
    reply = EXPECT(request(at, NULL, NULL, "GET /metrics"), 200, NULL);
    ASSERT_CONTAINS(reply->body, "seckill_dependency_up{dependency=\"redis\"} 0");
}

/* Whether no loop of a service bypasses the locks. */
static bool is_not_bypassed(void *arg)
{
    for (int i = 0; i < IN_A_ROW; i++) {
        const struct client_reply *reply = request(arg, NULL, NULL, "GET /readyz");

        if (reply->status != 200 || strstr(reply->body, "bypassed") != NULL)
            return false;
    }
    return true;
}

static void test_bypass__sells_without_redis(void **state)
{
    struct service *at = fixture_serve(*state, bypassing);
    char voucher_id[ID_SIZE], foreign[ID_SIZE];

    assert_true(is_not_bypassed(at));
    make_voucher(at, &(struct sale){.stock = 20}, voucher_id);
    EXPECT(place_order(at, 1, voucher_id, NULL), 201, NULL);
    fixture_servers(*state, "kill", "redis");
    for (int64_t user = 1; user <= 20; user++)
        EXPECT(place_order(at, user, voucher_id, NULL), user == 1 ? 409 : 201, NULL);
    EXPECT(place_order(at, 2, voucher_id, "k"), 409, "already_ordered");
    EXPECT(place_order(at, 21, voucher_id, NULL), 409, "sold_out");
    assert_bypassed(at);
    fixture_servers(*state, "start", "redis");
    AWAIT(is_not_bypassed, at);
    make_voucher(at, &(struct sale){.stock = 20}, foreign);
    redis_do(*state, "SET lock:order:3 foreign");
    EXPECT(place_order(at, 3, foreign, NULL), 409, "order_in_progress");
    redis_do(*state, "DEL lock:order:3");
    assert_int_equal(sql_broken_guarantees(*state), 0);
}

static void test_bypass__refusing_writes(void **state)
{
    struct service *at = fixture_serve(*state, bypassing);
    char voucher_id[ID_SIZE];

    make_voucher(at, &(struct sale){.stock = 20}, voucher_id);
    redis_do(*state, "CONFIG SET maxmemory 1");
    EXPECT(place_order(at, 1, voucher_id, NULL), 201, NULL);
    assert_bypassed(at);
    redis_do(*state, "CONFIG SET maxmemory 0");
    AWAIT(is_not_bypassed, at);
}

static void test_bypass__hung(void **state)
{
    struct service *at = fixture_serve(*state, bypassing);
    char voucher_id[ID_SIZE];

    make_voucher(at, &(struct sale){.stock = 100}, voucher_id);
    fixture_servers(*state, "pause", "redis");
    for (int64_t user = 1; user <= 6; user++)
        EXPECT(place_order(at, user, voucher_id, NULL), 201, NULL);
    assert_bypassed(at);
}

static void test_bypass__killed_in_a_burst(void **state)
{
    run_burst(state, fixture_serve(*state, bypassing), kill_and_start);
}

static void test_bypass__without_redis_from_the_start(void **state)
{
    struct service *at;
    char voucher_id[ID_SIZE];

    fixture_servers(*state, "kill", "redis");
    at = fixture_serve(*state, bypassing);
    make_voucher(at, &(struct sale){.stock = 100}, voucher_id);
    EXPECT(place_order(at, 1, voucher_id, NULL), 201, NULL);
    EXPECT(place_order(at, 1, voucher_id, NULL), 409, "already_ordered");
    assert_bypassed(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT(test_reject__killed),
        FAULT(test_reject__hung),
        FAULT(test_reject__hung_leaves_no_lock_behind),
        FAULT(test_reject__waits_for_a_short_hang),
        FAULT(test_reject__restarted_empty),
        FAULT(test_reject__killed_in_a_burst),
        FAULT(test_reject__refusing_writes),
        FAULT(test_reject__connections_cut_in_a_burst),
        FAULT(test_fence__an_unusable_counter_refuses_no_order),
        cmocka_unit_test_teardown(
            test_fence__a_new_instance_starts_with_an_unusable_counter, wake_both),
        FAULT(test_fence__a_key_of_another_type_is_not_ready),
        FAULT(test_fence__an_extreme_one_of_an_order_is_repaired),
        FAULT(test_bypass__sells_without_redis),
        FAULT(test_bypass__refusing_writes),
        FAULT(test_bypass__hung),
        FAULT(test_bypass__killed_in_a_burst),
        FAULT(test_bypass__without_redis_from_the_start),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
