/*
 * it_loop.c - the event loop under many clients: at the same moment, in lock step, and
 * with clients that leave before the answer.
 *
 * The epoll threads of libmicrohttpd can wait for ever when exactly a multiple of 128
 * events is ready. Therefore the number of clients is such a multiple, and they send while
 * the service is stopped, so that all events are ready at once. With one worker the number
 * of its events is exact.
 */
#include "app/test/load_clients.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* No timeout may end a request or a connection on a slow machine. */
static const char *const one_worker[] = {"SECKILL_WORKERS=1",
                                         "SECKILL_ORDER_TIMEOUT_MS=60000",
                                         "SECKILL_IDLE_TIMEOUT_S=3600", NULL};
static struct service *service;

static int setup(void **state)
{
    service = fixture_begin_group(state, one_worker);
    return 0;
}

/* -- lock step -- */

static void run_lock_step(void **state, size_t clients, size_t rounds, bool stop_to_send)
{
    static int64_t first_user = 1000;
    struct order_burst burst = {.first_user = first_user};
    struct load_plan plan = {{service},
                             .connections = clients,
                             .requests = clients * rounds,
                             .lock_step = true,
                             .stop_to_send = stop_to_send,
                             .write = burst_write,
                             .answer = burst_answer,
                             .arg = &burst};

    first_user += (int64_t)(clients * rounds);
    make_voucher(service, &(struct sale){.stock = 100000}, burst.voucher_id);
    assert_int_equal(load_run(&plan), plan.requests);
    assert_int_equal(burst.tally[TALLY_PLACED], plan.requests);
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), plan.requests);
}

static void test_lock_step__256_clients(void **state)
{
    run_lock_step(state, 256, 40, false);
}

static void test_lock_step__512_clients(void **state)
{
    run_lock_step(state, 512, 20, false);
}

static void test_lock_step__all_ready_at_the_same_moment(void **state)
{
    static const size_t counts[] = {126, 127, 128, 129, 255, 256, 257, 384, 512, 640};

    for (size_t i = 0; i < COUNT_OF(counts); i++)
        run_lock_step(state, counts[i], 5, true);
}

/* Refusals from memory are answered without suspending the request. */
static void test_lock_step__refusals(void **state UNUSED)
{
    struct order_burst burst = {.first_user = 1};
    struct load_plan plan = {{service},
                             .connections = 512,
                             .requests = (size_t)512 * 20,
                             .lock_step = true,
                             .stop_to_send = true,
                             .write = burst_write,
                             .answer = burst_answer,
                             .arg = &burst};

    make_voucher(service, &(struct sale){.stock = 0}, burst.voucher_id);
    assert_int_equal(load_run(&plan), plan.requests);
    assert_int_equal(burst.tally[TALLY_SOLD_OUT], plan.requests);
}

/* -- clients that leave -- */

struct orders_wait {
    struct fixture *fixture;
    const char *voucher_id;
    int64_t count;
};

static bool are_placed(void *arg)
{
    struct orders_wait *wait = arg;

    return sql_live_orders(wait->fixture, wait->voucher_id) >= wait->count;
}

static void request_and_leave(const char *voucher_id, int64_t user_id, bool is_reset)
{
    struct order_burst burst = {.first_user = user_id};
    struct client *client = client_open(&service->address);
    char request[1024];

    assert_non_null(client);
    snprintf(burst.voucher_id, ID_SIZE, "%s", voucher_id);
    assert_true(
        client_write(client, request, burst_write(0, request, sizeof(request), &burst)));
    if (is_reset)
        client_abort(client);
    else
        client_close(client);
}

static bool nothing_in_flight(void *arg UNUSED)
{
    const struct client_reply *reply = request(service, NULL, NULL, "GET /metrics");
    const char *at = strstr(reply->body, "\nseckill_in_flight ");

    assert_non_null(at);
    return strtod(at + strlen("\nseckill_in_flight "), NULL) <=
           1; /* this request itself */
}

/* After an orderly close the order is placed. After a reset the request may be lost, but
   the order is never placed in part. */
static void test_leaving__order_is_completed_once(void **state)
{
    char voucher_id[ID_SIZE];
    struct orders_wait wait = {*state, voucher_id, 500};

    make_voucher(service, &(struct sale){.stock = 10000}, voucher_id);
    for (int64_t user = 1; user <= 500; user++)
        request_and_leave(voucher_id, user, false);
    assert_true(becomes_true(are_placed, &wait));
    for (int64_t user = 501; user <= 1000; user++)
        request_and_leave(voucher_id, user, true);
    assert_true(becomes_true(nothing_in_flight, NULL));
    assert_int_equal(sql_number(*state,
                                "select count(*) - count(distinct user_id) from "
                                "voucher_order where voucher_id = %s",
                                voucher_id),
                     0);
    assert_int_equal(sql_broken_guarantees(*state), 0);
    assert_int_equal(redis_order_locks(*state), 0);
}

/* Redis is paused, so all requests are suspended when the clients leave. */
static void test_leaving__while_suspended(void **state)
{
    char voucher_id[ID_SIZE];
    struct orders_wait wait = {*state, voucher_id, 150};

    make_voucher(service, &(struct sale){.stock = 10000}, voucher_id);
    fixture_servers(*state, "pause", "redis");
    for (int64_t user = 1; user <= 300; user++)
        request_and_leave(voucher_id, user, user % 2);
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200,
           NULL); /* the service has read all requests */
    fixture_servers(*state, "resume", "redis");
    assert_true(becomes_true(are_placed, &wait)); /* those that were not reset */
    assert_true(becomes_true(nothing_in_flight, NULL));
    assert_int_equal(sql_number(*state,
                                "select count(*) - count(distinct user_id) from "
                                "voucher_order where voucher_id = %s",
                                voucher_id),
                     0);
    assert_in_range(sql_live_orders(*state, voucher_id), 150, 300);
    assert_true(becomes_true(nothing_in_flight, NULL));
    EXPECT(place_order(service, 1, voucher_id, NULL),
           sql_number(*state,
                      "select count(*) from voucher_order where voucher_id = %s and "
                      "user_id = 1",
                      voucher_id) == 1
               ? 409
               : 201,
           NULL);
}

#define ROUNDS_MAX   30
#define LEVEL_ROUNDS 3
#define LEVEL_KIB    512 /* less than a leak of 100 bytes for each of 6,000 requests */

/* The memory kept for reuse depends on the largest number of clients so far, so it grows
   at first; then it must stay level. */
static void test_leaving__frees_the_memory(void **state)
{
    /* By default a sanitizer keeps more freed memory, and a call stack of each allocation. */
    const char *const env[] = {"SECKILL_WORKERS=1",
                               "ASAN_OPTIONS=quarantine_size_mb=1:malloc_context_size=0",
                               NULL};
    struct service *shared = service;
    char voucher_id[ID_SIZE];
    int64_t rss_kib[ROUNDS_MAX], user = 1;
    bool is_level = false;

    service = fixture_serve(*state, env);
    make_voucher(service, &(struct sale){.stock = 100000}, voucher_id);
    for (int round = 0; round < ROUNDS_MAX && !is_level; round++) {
        for (int i = 0; i < 2000; i++)
            request_and_leave(voucher_id, user++, i % 4 == 0);
        assert_true(becomes_true(nothing_in_flight, NULL));
        rss_kib[round] = service_rss_kib(service);
        is_level = round >= LEVEL_ROUNDS &&
                   rss_kib[round] - rss_kib[round - LEVEL_ROUNDS] <= LEVEL_KIB;
    }
    service = shared;
    assert_true(is_level);
}

/* -- many idle connections -- */

static void test_idle__connections_stay_open_and_others_are_served(void **state UNUSED)
{
    struct client *idle[1500];
    char voucher_id[ID_SIZE];
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    struct client_wait wait = {.timeout_ms = CLIENT_TIMEOUT_MS};

    make_voucher(service, &(struct sale){.stock = 100}, voucher_id);
    for (size_t i = 0; i < COUNT_OF(idle); i++) {
        idle[i] = client_open(&service->address);
        assert_non_null(idle[i]);
    }
    for (int64_t user = 1; user <= 20; user++)
        EXPECT(place_order(service, user, voucher_id, NULL), 201, NULL);
    for (size_t i = 0; i < COUNT_OF(idle); i++) {
        assert_true(client_write(idle[i], request, sizeof(request) - 1));
        EXPECT(client_read(idle[i], &wait), 200, NULL);
        client_close(idle[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_lock_step__256_clients),
        CASE(test_lock_step__512_clients),
        CASE(test_lock_step__all_ready_at_the_same_moment),
        CASE(test_lock_step__refusals),
        CASE(test_leaving__order_is_completed_once),
        CASE(test_leaving__while_suspended),
        CASE(test_leaving__frees_the_memory),
        CASE(test_idle__connections_stay_open_and_others_are_served),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
