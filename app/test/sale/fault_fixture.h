/*
 * fault_fixture.h - orders that wait for a locked row, orders above the limit of the queue, and
 * bursts of orders with a fault.
 *
 * A test program includes this file in one source only.
 */
#ifndef FAULT_FIXTURE_H
#define FAULT_FIXTURE_H

#include "app/test/load_clients.h"
#include "test/case_list.h"

#include <string.h>

#define BURST_MAX 4000

static struct fixture *fixture;
static const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};

static inline int open_fixture(void **state)
{
    *state = fixture = fixture_open();
    return 0;
}

static inline int close_fixture(void **state UNUSED)
{
    return fixture_close(fixture);
}

struct attempt {
    struct service *service;
    char voucher_id[ID_SIZE];
    int64_t user_id;
};

static inline bool is_complete(void *arg)
{
    const struct attempt *attempt = arg;
    const struct client_reply *reply =
        place_order(attempt->service, attempt->user_id, attempt->voucher_id, NULL);

    return reply->status == 201 || reply_is(reply, 409, "already_ordered");
}

static inline bool no_locks(void *arg UNUSED)
{
    return redis_order_locks(fixture) == 0;
}

/* -- orders that wait -- */

static inline void hold_row(const char *voucher_id)
{
    char statement[80];

    snprintf(statement, sizeof(statement),
             "select 1 from voucher where id = %s for update", voucher_id);
    sql_session(fixture, statement);
}

static inline void release_rows(void)
{
    sql_session(fixture, NULL);
}

static inline struct client *send_request(struct service *service, const char *method,
                                          const char *target, const char *token)
{
    const struct client_request request = {
        .method = method, .target = target, .token = token};
    struct client *client = client_open(&service->address);
    char bytes[1024];

    assert_true(
        client_write(client, bytes, client_format(&request, bytes, sizeof(bytes))));
    return client;
}

/* Sends one order of each of `count` shoppers, whose ids begin with first_user. The service has
   read the orders when it has answered the /healthz that follows. */
static inline void send_orders(struct service *service, const char *voucher_id,
                               int64_t first_user, struct client **ret_clients,
                               size_t count)
{
    char target[64];

    fill("/v1/vouchers/{}/orders", voucher_id, target, sizeof(target));
    for (size_t i = 0; i < count; i++)
        ret_clients[i] =
            send_request(service, "POST", target, shopper(first_user + (int64_t)i));
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
}

static inline void expect_answers(struct client **clients, size_t count, int status,
                                  const char *code)
{
    for (size_t i = 0; i < count; i++) {
        EXPECT(client_read(clients[i], &patience), status, code);
        client_close(clients[i]);
    }
}

/* -- orders above SECKILL_QUEUE_MAX -- */

#define QUEUE_CLIENTS 100

struct refusals {
    struct client *clients[QUEUE_CLIENTS]; /* NULL: the request was refused */
    size_t count, wanted;
};

static inline bool are_refused(void *arg)
{
    struct refusals *refusals = arg;

    for (size_t i = 0; i < QUEUE_CLIENTS; i++) {
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
    return refusals->count == refusals->wanted;
}

static inline void assert_queue_max(struct service *service, const char *voucher_id,
                                    size_t queue_max)
{
    struct refusals refusals = {.wanted = QUEUE_CLIENTS - queue_max};

    hold_row(voucher_id);
    send_orders(service, voucher_id, 1, refusals.clients, QUEUE_CLIENTS);
    AWAIT(are_refused, &refusals);
    release_rows();
    for (size_t i = 0; i < QUEUE_CLIENTS; i++) {
        if (refusals.clients[i] != NULL)
            expect_answers(&refusals.clients[i], 1, 201, NULL);
    }
    assert_int_equal(sql_live_orders(fixture, voucher_id), queue_max);
}

/* -- a burst of orders with a fault -- */

static struct {
    struct order_burst orders;
    enum tally each[BURST_MAX];
    size_t answered;
    void (*fault)(size_t answered);
} burst;

static inline void burst_on_answer(size_t k, const struct client_reply *reply, void *arg)
{
    burst_answer(k, reply, arg);
    burst.fault(++burst.answered);
}

static inline void run_burst(struct service *service, size_t count,
                             void (*fault)(size_t answered))
{
    struct load_plan plan = {{service},
                             .connections = 64,
                             .requests = count,
                             .write = burst_write,
                             .answer = burst_on_answer,
                             .arg = &burst.orders};

    memset(&burst, 0, sizeof(burst));
    burst.fault = fault;
    burst.orders.first_user = 1001;
    burst.orders.each = burst.each;
    make_voucher(service, &(struct sale){.stock = (int64_t)count},
                 burst.orders.voucher_id);
    assert_int_equal(load_run(&plan), count);
}

static inline void finish_burst(struct service *service)
{
    service_await(service, "/readyz", 200);
    AWAIT(no_locks, NULL);
    burst_check(fixture, &burst.orders, burst.answered);
    burst_finish(service, &burst.orders, burst.answered);
    assert_int_equal(sql_live_orders(fixture, burst.orders.voucher_id), burst.answered);
    assert_int_equal(sql_broken_guarantees(fixture), 0);
}

/* Asserts that the probe of `service` notices a hang and closes no connection. The timeout of the
   calls of `service` must be longer than the hang. */
static inline void assert_hang_is_noticed(struct service *service, const char *dependency,
                                          const char *reason)
{
    char metric[80];

    snprintf(metric, sizeof(metric), "seckill_reconnects_total{dependency=\"%s\"}",
             dependency);
    fixture_servers(fixture, "pause", dependency);
    service_await(service, "/readyz", 503);
    service_await_log(service, reason);
    fixture_servers(fixture, "resume", dependency);
    service_await(service, "/readyz", 200);
    assert_true(service_metric(service, metric) == 0);
}

#endif
