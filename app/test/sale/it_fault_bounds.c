/* it_fault_bounds.c - deadlines and queue limits: every request is answered. */
#include "app/test/load_clients.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define CLIENTS 100

static struct service *patient; /* shared by all tests; creates the vouchers */
static struct service *service; /* started by the running test */
static const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};

static int setup(void **state)
{
    patient = fixture_begin_group(state, NULL);
    return 0;
}

static void hold_row(void **state, const char *voucher_id)
{
    char statement[80];

    snprintf(statement, sizeof(statement),
             "select 1 from voucher where id = %s for update", voucher_id);
    sql_session(*state, statement);
}

static void request_all(struct order_burst *burst, struct client **clients, size_t count)
{
    char request[1024];

    for (size_t i = 0; i < count; i++) {
        clients[i] = client_open(&service->address);
        assert_non_null(clients[i]);
        assert_true(client_write(clients[i], request,
                                 burst_write(i, request, sizeof(request), burst)));
    }
}

/* A voucher that `service` knows too. */
static void make_known(int64_t stock, char *ret_id)
{
    char target[64];

    make_voucher(patient, &(struct sale){.stock = stock}, ret_id);
    snprintf(target, sizeof(target), "/v1/vouchers/%s", ret_id);
    service_await(service, target, 200);
}

struct settling {
    const char *voucher_id;
    int64_t user_id;
};

static bool is_complete(void *arg)
{
    const struct settling *settling = arg;
    const struct client_reply *reply =
        place_order(service, settling->user_id, settling->voucher_id, NULL);

    return reply->status == 201 || reply_is(reply, 409, "already_ordered");
}

/* The row of the voucher is locked until all orders are answered. */
static void test_deadline__answers_an_order_that_hangs(void **state)
{
    const char *const env[] = {"SECKILL_ORDER_TIMEOUT_MS=700", NULL};
    struct order_burst burst = {.first_user = 1};
    struct client *clients[CLIENTS];
    struct settling settling = {burst.voucher_id, 0};

    service = fixture_serve(*state, env);
    make_known(1000, burst.voucher_id);
    hold_row(state, burst.voucher_id);
    request_all(&burst, clients, CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client_reply *reply = client_read(clients[i], &patience);

        if (!reply_is(reply, 503, "outcome_unknown"))
            EXPECT(reply, 503, "unavailable");
        ASSERT_BETWEEN(reply_retry_after(reply), 1, 60);
        burst_answer(i, reply, &burst);
        client_close(clients[i]);
    }
    sql_session(*state, NULL);
    service_await(service, "/readyz", 200);
    while (settling.user_id < CLIENTS) { /* the service recovers */
        settling.user_id++;
        AWAIT(is_complete, &settling);
    }
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), CLIENTS);
    assert_int_equal(service_stop(service), 0);
}

struct refusals {
    struct client *clients[CLIENTS]; /* NULL: refused */
    size_t count;
};

static bool all_but_10_are_refused(void *arg)
{
    struct refusals *refusals = arg;

    for (size_t i = 0; i < CLIENTS; i++) {
        struct client **client = &refusals->clients[i];
        const struct client_reply *reply =
            *client == NULL ? NULL : client_poll(*client, false);

        if (reply == NULL)
            continue;
        EXPECT(reply, 503, "overloaded");
        ASSERT_NUMBER(reply_retry_after(reply), >=, 1);
        refusals->count++;
        client_close(*client);
        *client = NULL;
    }
    return refusals->count == CLIENTS - 10;
}

static void test_queue__above_its_limit_is_overloaded_at_once(void **state)
{
    const char *const env[] = {"SECKILL_QUEUE_MAX=10", "SECKILL_WORKERS=1", NULL};
    struct order_burst burst = {.first_user = 1};
    struct refusals refusals = {.count = 0};

    service = fixture_serve(*state, env);
    make_known(1000, burst.voucher_id);
    hold_row(state, burst.voucher_id);
    request_all(&burst, refusals.clients, CLIENTS);
    AWAIT(all_but_10_are_refused, &refusals);
    sql_session(*state, NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        if (refusals.clients[i] == NULL)
            continue;
        EXPECT(client_read(refusals.clients[i], &patience), 201, NULL);
        client_close(refusals.clients[i]);
    }
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), 10);
}

static size_t keyed_write(size_t k, char *buf, size_t size, void *arg)
{
    const struct order_burst *burst = arg;
    char target[64];
    struct client_request request = {
        .method = "POST", .target = target, .headers = "Idempotency-Key: k\r\n"};

    snprintf(target, sizeof(target), "/v1/vouchers/%s/orders", burst->voucher_id);
    request.token = shopper(burst->first_user + (int64_t)k);
    return client_format(&request, buf, size);
}

/* When the catalogue refuses a request that has an Idempotency-Key, the service looks in Postgres
   whether the key has an order. While Postgres hangs, requests above the limit are answered
   "overloaded" at once, the others at their deadline. */
static void test_queue__of_look_ups_has_a_limit(void **state)
{
    const char *const env[] = {"SECKILL_QUEUE_MAX=10", "SECKILL_WORKERS=1",
                               "SECKILL_ORDER_TIMEOUT_MS=3000", NULL};
    struct order_burst burst = {.first_user = 1};
    struct load_plan plan = {.connections = CLIENTS,
                             .requests = CLIENTS,
                             .write = keyed_write,
                             .answer = burst_answer,
                             .arg = &burst};
    struct client *clients[CLIENTS];
    char request[1024];
    size_t overloaded = 0;

    service = fixture_serve(*state, env);
    plan.services[0] = service;
    make_known(0, burst.voucher_id);
    EXPECT(place_order(service, 1, burst.voucher_id, NULL), 409, "sold_out");
    fixture_servers(*state, "pause", "postgres");
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = client_open(&service->address);
        assert_true(client_write(clients[i], request,
                                 keyed_write(i, request, sizeof(request), &burst)));
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        overloaded += reply_is(client_read(clients[i], &patience), 503, "overloaded");
        client_close(clients[i]);
    }
    fixture_servers(*state, "resume", "postgres");
    ASSERT_BETWEEN(overloaded, CLIENTS - 20, CLIENTS - 1);
    service_await(service, "/readyz", 200);
    assert_int_equal(load_run(&plan), CLIENTS);
    assert_int_equal(burst.tally[TALLY_SOLD_OUT] + burst.tally[TALLY_UNAVAILABLE],
                     CLIENTS);
}

static void test_batch__of_one_order_sells_correctly(void **state)
{
    const char *const env[] = {"SECKILL_BATCH_MAX=1", NULL};
    struct order_burst burst = {.first_user = 1};
    struct load_plan plan = {.connections = 32,
                             .requests = 300,
                             .write = burst_write,
                             .answer = burst_answer,
                             .arg = &burst};

    service = fixture_serve(*state, env);
    plan.services[0] = service;
    make_known(200, burst.voucher_id);
    assert_int_equal(load_run(&plan), 300);
    assert_int_equal(burst.tally[TALLY_PLACED], 200);
    assert_int_equal(burst.tally[TALLY_SOLD_OUT], 100);
}

static bool holds_40_locks(void *arg)
{
    return redis_order_locks(arg) == 40;
}

/* The batch takes longer than the lease, so the watchdog must renew the locks. */
static void test_lease__is_renewed_while_the_order_is_under_way(void **state)
{
    const char *const env[] = {"SECKILL_LOCK_LEASE_MS=9000", NULL};
    struct order_burst burst = {.first_user = 1};
    struct client *clients[40];
    int64_t end_us;

    service = fixture_serve(*state, env);
    make_known(1000, burst.voucher_id);
    hold_row(state, burst.voucher_id);
    request_all(&burst, clients, COUNT_OF(clients));
    AWAIT(holds_40_locks, *state);
    end_us = clock_mono_us() + 10000000;
    while (clock_mono_us() < end_us)
        assert_int_equal(redis_order_locks(*state), 40);
    sql_session(*state, NULL);
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        EXPECT(client_read(clients[i], &patience), 201, NULL);
        client_close(clients[i]);
    }
    assert_int_equal(redis_order_locks(*state), 0);
}

static int mend(void **state)
{
    fixture_mend(*state, "postgres");
    return fixture_end_test(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_deadline__answers_an_order_that_hangs),
        CASE(test_queue__above_its_limit_is_overloaded_at_once),
        cmocka_unit_test_teardown(test_queue__of_look_ups_has_a_limit, mend),
        CASE(test_batch__of_one_order_sells_correctly),
        CASE(test_lease__is_renewed_while_the_order_is_under_way),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
