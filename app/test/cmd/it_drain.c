/* it_drain.c - SIGTERM: requests in flight are answered, locks released, exit 0. */
#include "app/test/load_clients.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS      64
#define MANY_CLIENTS 1000 /* fewer than a listening socket can queue */

static const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};

/* No timeout of the service ends a request or a connection before the drain does. */
static const char *const patient[] = {"SECKILL_ORDER_TIMEOUT_MS=60000",
                                      "SECKILL_IDLE_TIMEOUT_S=3600",
                                      "SECKILL_REQUEST_TIMEOUT_S=600", NULL};

static int setup(void **state)
{
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

static int mend(void **state)
{
    fixture_mend(*state, "redis");
    fixture_mend(*state, "postgres");
    return fixture_end_test(state);
}

static void hold_row(void **state, const char *voucher_id)
{
    char statement[80];

    snprintf(statement, sizeof(statement),
             "select 1 from voucher where id = %s for update", voucher_id);
    sql_session(*state, statement);
}

static void request_all(struct service *service, struct order_burst *burst,
                        struct client **clients, size_t count)
{
    char request[1024];

    for (size_t i = 0; i < count; i++) {
        clients[i] = client_open(&service->address);
        assert_non_null(clients[i]);
        assert_true(client_write(clients[i], request,
                                 burst_write(i, request, sizeof(request), burst)));
    }
}

/** Drains a service that received its requests while it was stopped by SIGSTOP. Each order must be
 *  placed or refused. */
static void drain_stopped(struct fixture *fixture, struct service *service,
                          struct client **clients, size_t count)
{
    service_signal(service, SIGTERM);
    service_signal(service, SIGCONT);
    for (size_t i = 0; i < count; i++) {
        const struct client_reply *reply = client_read(clients[i], &patience);

        if (reply->status != 201)
            EXPECT(reply, 503, "unavailable");
        client_close(clients[i]);
    }
    assert_int_equal(service_wait(service), 0);
    assert_int_equal(redis_order_locks(fixture), 0);
}

/* Creates a voucher at another service and waits until `hasty` knows it. The timeout of `hasty`
   may be too short to create one. */
static void make_known(struct fixture *fixture, struct service *hasty, char *ret_id)
{
    char target[64];

    make_voucher(fixture_serve(fixture, NULL), &(struct sale){.stock = 1000}, ret_id);
    snprintf(target, sizeof(target), "/v1/vouchers/%s", ret_id);
    service_await(hasty, target, 200);
}

static bool all_hold_locks(void *arg)
{
    return redis_order_locks(arg) == CLIENTS;
}

static void test_drain__answers_requests_in_flight(void **state)
{
    struct service *service = fixture_serve(*state, patient);
    struct order_burst burst = {.first_user = 1};
    struct client *clients[CLIENTS];

    make_voucher(service, &(struct sale){.stock = 1000}, burst.voucher_id);
    hold_row(state, burst.voucher_id);
    request_all(service, &burst, clients, CLIENTS);
    assert_true(becomes_true(all_hold_locks, *state));
    service_signal(service, SIGTERM);
    sql_session(*state, NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        EXPECT(client_read(clients[i], &patience), 201, NULL);
        assert_true(client_ends(clients[i], CLIENT_TIMEOUT_MS));
        client_close(clients[i]);
    }
    assert_int_equal(service_wait(service), 0);
    assert_int_equal(redis_order_locks(*state), 0);
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), CLIENTS);
}

/* A request that has reached the socket before the signal is in flight. */
static void test_drain__answers_requests_not_yet_read(void **state)
{
    struct service *service = fixture_serve(*state, NULL);
    struct order_burst burst = {.first_user = 1};
    struct client *clients[CLIENTS];
    char request[1024];

    make_voucher(service, &(struct sale){.stock = 1000}, burst.voucher_id);
    for (size_t i = 0; i < CLIENTS; i++) { /* the service accepts the connections */
        static const char hello[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

        clients[i] = client_open(&service->address);
        assert_true(client_write(clients[i], hello, sizeof(hello) - 1));
        EXPECT(client_read(clients[i], &patience), 200, NULL);
    }
    service_signal(service, SIGSTOP);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_true(client_write(clients[i], request,
                                 burst_write(i, request, sizeof(request), &burst)));
    drain_stopped(*state, service, clients, CLIENTS);
}

/* The kernel has connected them, the service has not accepted them. */
static void test_drain__answers_connections_not_yet_accepted(void **state)
{
    struct service *service = fixture_serve(*state, NULL);
    struct order_burst burst = {.first_user = 1};
    struct client *clients[MANY_CLIENTS];

    make_voucher(service, &(struct sale){.stock = MANY_CLIENTS}, burst.voucher_id);
    service_signal(service, SIGSTOP);
    request_all(service, &burst, clients, MANY_CLIENTS);
    drain_stopped(*state, service, clients, MANY_CLIENTS);
}

static void signal_service(void *arg)
{
    struct order_burst *burst = arg;

    service_signal(&burst->fixture->services[0], SIGTERM);
}

static void test_drain__under_load_loses_nothing(void **state)
{
    static enum tally each[3000];
    struct service *service = fixture_serve(*state, NULL);
    struct order_burst burst = {.first_user = 1, .each = each, .fixture = *state};
    struct load_plan plan = {{service},
                             .connections = CLIENTS,
                             .requests = 3000,
                             .write = burst_write,
                             .answer = burst_answer,
                             .halfway = signal_service,
                             .halfway_at = 1000,
                             .arg = &burst};

    make_voucher(service, &(struct sale){.stock = 3000}, burst.voucher_id);
    assert_int_equal(load_run(&plan), 3000); /* later connections are refused */
    assert_int_equal(service_wait(service), 0);
    assert_int_equal(redis_order_locks(*state), 0);
    burst_check(*state, &burst, 3000);
    assert_true(burst.tally[TALLY_PLACED] >= 1000);
    /* every placed order was answered */
    assert_int_equal(sql_live_orders(*state, burst.voucher_id),
                     burst.tally[TALLY_PLACED]);
}

static bool refuses_connections(void *arg)
{
    struct service *service = arg;
    struct client *client = client_open(&service->address);

    if (client != NULL)
        client_close(client);
    return client == NULL;
}

/* A proxy may have sent a request on each of its idle connections when it learns of the signal. */
static void test_drain__answers_one_request_on_an_idle_connection(void **state)
{
    const char *const env[] = {"SECKILL_DRAIN_S=30", NULL};
    static const char hello[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    struct service *service = fixture_serve(*state, env);
    struct client *client = client_open(&service->address);

    assert_true(client_write(client, hello, sizeof(hello) - 1));
    EXPECT(client_read(client, &patience), 200, NULL);
    service_signal(service, SIGTERM);
    assert_true(becomes_true(refuses_connections, service));
    assert_true(client_write(client, hello, sizeof(hello) - 1));
    EXPECT(client_read(client, &patience), 200, NULL);
    assert_true(client_ends(client, CLIENT_TIMEOUT_MS));
    client_close(client);
    assert_int_equal(service_wait(service), 0); /* no connection is left to wait for */
}

static void test_drain__does_not_wait_for_idle_or_slow_clients(void **state)
{
    static const char posting[] = "POST /v1/vouchers HTTP/1.1\r\nHost: x\r\n"
                                  "Content-Length: 10\r\n\r\n{";
    static const char *const beginnings[] = {"", "GET /heal", posting};
    struct service *service = fixture_serve(*state, patient);
    struct client *clients[30];

    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        clients[i] = client_open(&service->address);
        assert_true(
            client_write(clients[i], beginnings[i % 3], strlen(beginnings[i % 3])));
    }
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    assert_int_equal(service_stop(service), 0); /* all clients are still connected */
    for (size_t i = 0; i < COUNT_OF(clients); i++)
        client_close(clients[i]);
}

static void test_drain__ends_while_redis_hangs(void **state)
{
    const char *const env[] = {"SECKILL_ORDER_TIMEOUT_MS=1000", NULL};
    struct service *service = fixture_serve(*state, env);
    struct order_burst burst = {.first_user = 1};
    struct client *clients[CLIENTS];

    make_known(*state, service, burst.voucher_id);
    fixture_servers(*state, "pause", "redis");
    request_all(service, &burst, clients, CLIENTS);
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    service_signal(service, SIGTERM);
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client_reply *reply =
            EXPECT(client_read(clients[i], &patience), 503, "unavailable");

        assert_true(reply_retry_after(reply) >= 1);
        client_close(clients[i]);
    }
    assert_int_equal(service_wait(service), 0);
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), 0);
    /* A resumed Redis would execute buffered commands, and the locks would last for a lease. */
    fixture_servers(*state, "kill", "redis");
    fixture_servers(*state, "start", "redis");
}

static void test_drain__ends_while_postgres_hangs(void **state)
{
    const char *const env[] = {"SECKILL_ORDER_TIMEOUT_MS=3000", NULL};
    struct service *service = fixture_serve(*state, env);
    struct order_burst burst = {.first_user = 1};
    struct client *clients[CLIENTS];

    make_known(*state, service, burst.voucher_id); /* every loop reads it */
    fixture_servers(*state, "pause", "postgres");
    request_all(service, &burst, clients, CLIENTS);
    /* On a slow machine some requests still wait for the voucher and hold no lock. */
    service_signal(service, SIGTERM);
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client_reply *reply = client_read(clients[i], &patience);

        if (!reply_is(reply, 503, "outcome_unknown"))
            EXPECT(reply, 503, "unavailable");
        client_close(clients[i]);
    }
    assert_int_equal(service_wait(service), 0);
    assert_int_equal(redis_order_locks(*state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_drain__answers_requests_in_flight),
        CASE(test_drain__answers_requests_not_yet_read),
        CASE(test_drain__answers_connections_not_yet_accepted),
        CASE(test_drain__under_load_loses_nothing),
        CASE(test_drain__answers_one_request_on_an_idle_connection),
        CASE(test_drain__does_not_wait_for_idle_or_slow_clients),
        cmocka_unit_test_teardown(test_drain__ends_while_redis_hangs, mend),
        cmocka_unit_test_teardown(test_drain__ends_while_postgres_hangs, mend),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
