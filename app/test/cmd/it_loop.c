/*
 * it_loop.c - the event loop under many clients: clients that send at the same moment or in lock
 * step, idle clients, and clients that leave before the answer.
 *
 * An epoll thread of libmicrohttpd can wait forever if the number of events that are ready is a
 * multiple of 128. Therefore the number of clients is a multiple of 128, and they send while the
 * service is stopped, so that all events are ready at once. The number of events is exact because
 * there is only one worker.
 */
#include "app/test/load_clients.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct service *service;

static int setup(void **state)
{
    /* no timeout ends a connection on a slow machine */
    const char *const env[] = {"SECKILL_WORKERS=1", "SECKILL_IDLE_TIMEOUT_S=3600", NULL};

    service = fixture_begin_group(state, env);
    return 0;
}

/* -- lock step -- */

/* If there is no stock, each answer is a refusal from memory, for which no request is suspended. */
static void run_lock_step(void **state, size_t clients, size_t rounds, int64_t stock)
{
    static int64_t first_user = 1000;
    struct order_burst burst = {.first_user = first_user};
    struct load_plan plan = {{service},
                             .connections = clients,
                             .requests = clients * rounds,
                             .lock_step = true,
                             .stop_to_send = true,
                             .write = burst_write,
                             .answer = burst_answer,
                             .arg = &burst};

    first_user += (int64_t)(clients * rounds);
    make_voucher(service, &(struct sale){.stock = stock}, burst.voucher_id);
    assert_int_equal(load_run(&plan), plan.requests);
    assert_int_equal(burst.tally[stock > 0 ? TALLY_PLACED : TALLY_SOLD_OUT],
                     plan.requests);
    assert_int_equal(sql_live_orders(*state, burst.voucher_id),
                     stock > 0 ? plan.requests : 0);
}

SERVICE_CASE(test_lock_step__all_ready_at_the_same_moment)
{
    static const size_t counts[] = {126, 127, 128, 129, 255, 256, 257, 384, 512, 640};

    for (size_t i = 0; i < COUNT_OF(counts); i++)
        run_lock_step(state, counts[i], 5, 100000);
    run_lock_step(state, 512, 20, 0);
}

/* -- clients that leave -- */

static void request_and_leave(struct order_burst *burst, size_t k, bool is_reset)
{
    struct client *client = client_open(&service->address);
    char request[1024];

    assert_non_null(client);
    assert_true(
        client_write(client, request, burst_write(k, request, sizeof(request), burst)));
    if (is_reset)
        client_abort(client);
    else
        client_close(client);
}

static bool nothing_in_flight(void *arg UNUSED)
{
    return service_metric(service, "seckill_in_flight") <= 1;
}

#define ROUND_CLIENTS 2000
#define ROUNDS_MAX    30
#define LEVEL_ROUNDS  3
#define LEVEL_KIB                                                                        \
    512 /* less than a leak of 100 bytes per request in LEVEL_ROUNDS rounds */

/* Each order is placed, unless its client has reset the connection. The service keeps memory for
   reuse, in proportion to the largest number of clients so far, so its memory grows at first.
   Afterwards the memory must stay nearly level during three rounds. */
SERVICE_CASE(test_leaving__frees_the_memory)
{
    /* By default a sanitizer keeps more freed memory, and the call stack of each allocation. */
    const char *const env[] = {"SECKILL_WORKERS=1",
                               "ASAN_OPTIONS=quarantine_size_mb=1:malloc_context_size=0",
                               NULL};
    struct order_burst burst = {.first_user = 1};
    struct service *shared = service;
    int64_t rss_kib[ROUNDS_MAX], placed;
    size_t sent = 0;
    bool is_level = false;

    service = fixture_serve(*state, env);
    make_voucher(service, &(struct sale){.stock = 100000}, burst.voucher_id);
    for (int round = 0; round < ROUNDS_MAX && !is_level; round++) {
        for (int i = 0; i < ROUND_CLIENTS; i++)
            request_and_leave(&burst, sent++, i % 4 == 0);
        AWAIT(nothing_in_flight, NULL);
        rss_kib[round] = service_rss_kib(service);
        is_level = round >= LEVEL_ROUNDS &&
                   rss_kib[round] - rss_kib[round - LEVEL_ROUNDS] <= LEVEL_KIB;
    }
    service = shared;
    assert_true(is_level);
    placed = sql_live_orders(*state, burst.voucher_id);
    ASSERT_BETWEEN(placed, (int64_t)sent / 4 * 3, (int64_t)sent);
    assert_int_equal(redis_order_locks(*state), 0);
}

/* -- many idle connections -- */

#define FILES     400
#define LISTENERS 380

struct buyer {
    struct service *service;
    char voucher_id[ID_SIZE];
    int64_t user_id;
};

static bool is_order_placed(void *arg)
{
    struct buyer *buyer = arg;

    return place_order(buyer->service, ++buyer->user_id, buyer->voucher_id, NULL)
               ->status == 201;
}

static bool is_kept(struct client *conn, const char *voucher_id)
{
    struct pollfd readable = {.fd = client_fd(conn), .events = POLLIN};
    char text[1024];
    size_t len = 0;
    int count =
        snprintf(text, sizeof(text),
                 "GET /v1/vouchers/%s/stream HTTP/1.1\r\nHost: x\r\n\r\n", voucher_id);

    assert_true(client_write(conn, text, (size_t)count));
    memset(text, 0, sizeof(text));
    while (strstr(text, "\r\n\r\n") == NULL) {
        ssize_t received;

        assert_int_equal(poll(&readable, 1, CLIENT_TIMEOUT_MS), 1);
        received = recv(readable.fd, text + len, sizeof(text) - 1 - len, 0);
        assert_true(received > 0);
        len += (size_t)received;
    }
    return strstr(text, "Content-Length: ") == NULL;
}

SERVICE_CASE(test_listeners__leave_descriptors_for_orders)
{
    struct client *listeners[LISTENERS];
    const char *const env[] = {"SECKILL_WORKERS=1", NULL};
    struct buyer buyer = {.service = fixture_serve_by(*state, env, "ulimit -n 400", "")};
    size_t kept = 0;

    assert_true(service_has_logged(buyer.service, "event=file_limit files=400"));
    make_voucher(buyer.service, &(struct sale){.stock = 1000}, buyer.voucher_id);
    for (size_t i = 0; i < LISTENERS; i++) {
        listeners[i] = client_open(&buyer.service->address);
        kept += is_kept(listeners[i], buyer.voucher_id);
    }
    ASSERT_BETWEEN(kept, 100, (FILES - 128) / 4 * 3);
    sql_do(*state, "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                   " where usename = '" SERVICE_ROLE "'");
    AWAIT(is_order_placed, &buyer);
    for (size_t i = 0; i < LISTENERS; i++)
        client_close(listeners[i]);
    assert_int_equal(service_stop(buyer.service), 0);
}

int main(void)
{
    return cases_run(setup, fixture_end_group);
}
