/*
 * it_fault_redis.c - Redis is killed, paused, or refuses writes.
 *
 * SECKILL_REDIS_DOWN decides whether the service then rejects orders or bypasses the locks.
 */
#include "app/test/sale/fault_fixture.h"
#include "base/clock.h"

#include <string.h>

#define BURST    3000
#define REDIS_UP "seckill_dependency_up{dependency=\"redis\"}"

/* With this lease, a lock that is not released blocks its shopper for longer than a test waits. */
#define LONG_LEASE "SECKILL_LOCK_LEASE_MS=600000"

static const char *const bypassing[] = {"SECKILL_ORDER_TIMEOUT_MS=10000",
                                        "SECKILL_REDIS_DOWN=bypass", LONG_LEASE, NULL};
/* Both services reject orders while Redis is down. The timeout of `impatient` is short. The timeout
   of `patient` is longer than any outage in these tests. */
static struct service *impatient, *patient;

static int setup(void **state)
{
    const char *const rejecting[] = {LONG_LEASE, "SECKILL_ORDER_TIMEOUT_MS=1500", NULL};

    open_fixture(state);
    impatient = fixture_serve(fixture, rejecting);
    patient = fixture_serve(fixture, (const char *[]){LONG_LEASE, NULL});
    fixture_share_services(fixture);
    return 0;
}

static void await_both(void)
{
    service_await(impatient, "/readyz", 200);
    service_await(patient, "/readyz", 200);
}

static int mend(void **state)
{
    fixture_mend(fixture, "redis");
    await_both();
    return fixture_end_test(state);
}

#define REDIS_CASE(name) DEFINE_CASE(name, name, NULL, mend, NULL)

/* -- reject -- */

static void assert_rejected(const char *voucher_id)
{
    const struct client_reply *reply;

    for (int64_t user = 1; user <= 4; user++) {
        reply =
            EXPECT(place_order(impatient, user, voucher_id, NULL), 503, "unavailable");
        ASSERT_BETWEEN(reply_retry_after(reply), 1, 60);
    }
    service_await(impatient, "/readyz", 503);
    reply = request(impatient, NULL, NULL, "GET /readyz");
    ASSERT_CONTAINS(reply->body, "redis");
    assert_true(service_metric(impatient, REDIS_UP) == 0);
    assert_int_equal(sql_live_orders(fixture, voucher_id), 0);
}

static void assert_sells_again(const char *voucher_id)
{
    await_both();
    for (int64_t user = 1; user <= 4; user++)
        EXPECT(place_order(patient, user, voucher_id, NULL), 201, NULL);
}

REDIS_CASE(test_reject__killed)
{
    char voucher_id[ID_SIZE];

    make_known(patient, impatient, 100, voucher_id);
    fixture_servers(fixture, "kill", "redis");
    assert_rejected(voucher_id);
    EXPECT(request(impatient, NULL, NULL, "GET /healthz"), 200, NULL);
    EXPECT(request(patient, NULL, NULL, "GET /v1/vouchers/%s", voucher_id), 200, NULL);
    fixture_servers(fixture, "start", "redis");
    assert_sells_again(voucher_id);
}

/* Redis grants a lock after the service has given up waiting for the lock. The service must release
   this lock before its lease ends. */
REDIS_CASE(test_reject__hung_leaves_no_lock_behind)
{
    struct attempt attempt = {.service = patient, .user_id = 1};

    make_known(patient, impatient, 100, attempt.voucher_id);
    fixture_servers(fixture, "pause", "redis");
    assert_rejected(attempt.voucher_id);
    fixture_servers(fixture, "resume", "redis");
    for (; attempt.user_id <= 4; attempt.user_id++)
        AWAIT(is_complete, &attempt);
    AWAIT(no_locks, NULL);
    assert_false(service_has_logged(impatient, "dependency=redis worker=0 why=\"\""));
}

REDIS_CASE(test_hung__is_noticed_by_the_probe)
{
    const char *const env[] = {"SECKILL_ORDER_TIMEOUT_MS=60000", NULL};
    struct service *service = fixture_serve(fixture, env);

    assert_hang_is_noticed(service, "redis", "why=\"no reply within 750 ms\"");
}

/* Another program has stored a value of the type hash under the key of the fence counter. The
   service must not overwrite the value. */
REDIS_CASE(test_reject__a_fence_of_another_type)
{
    char voucher_id[ID_SIZE];

    make_known(patient, impatient, 100, voucher_id);
    redis_do(fixture, "DEL lock:fence");
    redis_do(fixture, "HSET lock:fence field 7");
    assert_rejected(voucher_id);
    assert_string_equal(redis_do(fixture, "HGET lock:fence field"), "7");
    redis_do(fixture, "DEL lock:fence");
    assert_sells_again(voucher_id);
    /* The fences go on from the clock of Redis, so the greatest fence is near the present time. */
    ASSERT_NUMBER(sql_number(fixture, "select max(fence) from voucher_order"), <=,
                  clock_real_us() + 60000000);
}

static void kill_and_start(size_t answered)
{
    if (answered != BURST / 10)
        return;
    fixture_servers(fixture, "kill", "redis");
    fixture_servers(fixture, "start", "redis");
}

static void cut_and_flush(size_t answered)
{
    if (answered < BURST / 10)
        return;
    if (answered % 100 == 1)
        redis_do(fixture, "CLIENT KILL TYPE normal SKIPME yes");
    if (answered % 100 == 51)
        redis_do(fixture, "SCRIPT FLUSH");
    if (answered % 1000 == 501)
        redis_do(fixture, "FLUSHALL");
}

static void sell_with(struct service *service, void (*fault)(size_t answered))
{
    run_burst(service, BURST, fault);
    assert_int_equal(burst.orders.tally[TALLY_LOST], 0);
    ASSERT_NUMBER(burst.orders.tally[TALLY_PLACED], >=, BURST / 10);
    await_both();
    finish_burst(service);
}

REDIS_CASE(test_reject__killed_in_a_burst)
{
    sell_with(patient, kill_and_start);
}

REDIS_CASE(test_reject__connections_cut_in_a_burst)
{
    sell_with(patient, cut_and_flush);
}

/* -- bypass -- */

static bool all_loops_are(struct service *service, bool is_bypassed)
{
    for (int i = 0; i < IN_A_ROW; i++) {
        const struct client_reply *reply = request(service, NULL, NULL, "GET /readyz");

        if (reply->status != 200 ||
            (strstr(reply->body, "bypassed") != NULL) != is_bypassed)
            return false;
    }
    return true;
}

static bool is_bypassed(void *service)
{
    return all_loops_are(service, true);
}

static bool is_not_bypassed(void *service)
{
    return all_loops_are(service, false);
}

static void assert_bypassed(struct service *service)
{
    AWAIT(is_bypassed, service);
    assert_true(service_metric(service, REDIS_UP) == 0);
}

REDIS_CASE(test_bypass__sells_without_redis)
{
    struct service *at = fixture_serve(fixture, bypassing), *late;
    char voucher_id[ID_SIZE], foreign[ID_SIZE];

    assert_true(is_not_bypassed(at));
    make_voucher(at, &(struct sale){.stock = 20}, voucher_id);
    EXPECT(place_order(at, 1, voucher_id, NULL), 201, NULL);
    fixture_servers(fixture, "kill", "redis");
    for (int64_t user = 1; user <= 20; user++)
        EXPECT(place_order(at, user, voucher_id, NULL), user == 1 ? 409 : 201, NULL);
    EXPECT(place_order(at, 2, voucher_id, "k"), 409, "already_ordered");
    EXPECT(place_order(at, 21, voucher_id, NULL), 409, "sold_out");
    assert_bypassed(at);
    late = fixture_serve(fixture, bypassing);
    make_voucher(late, &(struct sale){.stock = 20}, foreign);
    EXPECT(place_order(late, 1, foreign, NULL), 201, NULL);
    assert_bypassed(late);
    fixture_servers(fixture, "start", "redis");
    AWAIT(is_not_bypassed, at);
    redis_do(fixture, "SET lock:order:3 foreign");
    EXPECT(place_order(at, 3, foreign, NULL), 409, "order_in_progress");
    redis_do(fixture, "DEL lock:order:3");
    assert_int_equal(sql_broken_guarantees(fixture), 0);
}

REDIS_CASE(test_bypass__killed_in_a_burst)
{
    sell_with(fixture_serve(fixture, bypassing), kill_and_start);
}

int main(void)
{
    return cases_run(setup, close_fixture);
}
