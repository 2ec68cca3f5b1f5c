/* it_drain.c - the drain after SIGTERM: requests in flight are answered, locks are released, and
   the exit code is 0. */
#include "app/test/load_clients.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS      64
#define MANY_CLIENTS 1000 /* fewer than a listening socket can queue */

static const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};

/* These timeouts of the service do not end a request or a connection before the drain ends. */
static const char *const patient[] = {"SECKILL_ORDER_TIMEOUT_MS=60000",
                                      "SECKILL_IDLE_TIMEOUT_S=3600",
                                      "SECKILL_REQUEST_TIMEOUT_S=600", NULL};

static int mend(void **state)
{
    fixture_mend(*state, "redis");
    fixture_mend(*state, "postgres");
    return fixture_end_test(state);
}

#define MEND_CASE(name) DEFINE_CASE(name, name, NULL, mend, NULL)

static void request_all(struct service *service, struct order_burst *burst,
                        struct client **clients, size_t count)
{
    char request[1024];

    for (size_t i = 0; i < count; i++) {
        if (clients[i] == NULL)
            clients[i] = client_open(&service->address);
        assert_non_null(clients[i]);
        assert_true(client_write(clients[i], request,
                                 burst_write(i, request, sizeof(request), burst)));
    }
}

static void read_answers(struct service *service, struct client **clients, size_t count,
                         const char *may_be)
{
    for (size_t i = 0; i < count; i++) {
        const struct client_reply *reply = client_read(clients[i], &patience);

        if (reply->status != 201 && !reply_is(reply, 503, may_be))
            EXPECT(reply, 503, "unavailable");
        assert_true(client_ends(clients[i], CLIENT_TIMEOUT_MS));
        client_close(clients[i]);
    }
    assert_int_equal(service_wait(service), 0);
}

static bool all_hold_locks(void *arg)
{
    return redis_order_locks(arg) == CLIENTS;
}

SERVICE_CASE(test_drain__answers_requests_in_flight)
{
    struct service *service = fixture_serve(*state, patient);
    struct order_burst burst = {.first_user = 1};
    struct client *clients[CLIENTS] = {NULL};
    char statement[80];

    make_voucher(service, &(struct sale){.stock = 1000}, burst.voucher_id);
    snprintf(statement, sizeof(statement),
             "select 1 from voucher where id = %s for update", burst.voucher_id);
    sql_session(*state, statement);
    request_all(service, &burst, clients, CLIENTS);
    AWAIT(all_hold_locks, *state);
    service_signal(service, SIGTERM);
    sql_session(*state, NULL);
    read_answers(service, clients, CLIENTS, "");
    assert_int_equal(redis_order_locks(*state), 0);
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), CLIENTS);
}

/* A request that has reached a socket before the signal is in flight, even if the service has not
   read the request or has not accepted the connection. */
SERVICE_CASE(test_drain__answers_what_has_reached_a_socket)
{
    static const char hello[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    struct service *service = fixture_serve(*state, NULL);
    struct order_burst burst = {.first_user = 1};
    struct client *clients[MANY_CLIENTS] = {NULL};

    make_voucher(service, &(struct sale){.stock = MANY_CLIENTS}, burst.voucher_id);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = client_open(&service->address);
        assert_true(client_write(clients[i], hello, sizeof(hello) - 1));
        EXPECT(client_read(clients[i], &patience), 200, NULL);
    }
    service_signal(service, SIGSTOP);
    request_all(service, &burst, clients, MANY_CLIENTS);
    service_signal(service, SIGTERM);
    service_signal(service, SIGCONT);
    read_answers(service, clients, MANY_CLIENTS, "");
    assert_int_equal(redis_order_locks(*state), 0);
}

static void signal_service(void *arg)
{
    struct order_burst *burst = arg;

    service_signal(&burst->fixture->services[0], SIGTERM);
}

SERVICE_CASE(test_drain__under_load_loses_nothing)
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
    assert_int_equal(load_run(&plan), 3000);
    assert_int_equal(service_wait(service), 0);
    assert_int_equal(redis_order_locks(*state), 0);
    burst_check(*state, &burst, 3000);
    assert_true(burst.tally[TALLY_PLACED] >= 1000);
    assert_int_equal(sql_live_orders(*state, burst.voucher_id),
                     burst.tally[TALLY_PLACED]);
}

static void drain_without(struct fixture *fixture, const char *which, const char *may_be)
{
    const char *const env[] = {"SECKILL_ORDER_TIMEOUT_MS=3000", NULL};
    struct service *service = fixture_serve(fixture, env);
    struct order_burst burst = {.first_user = 1};
    struct client *clients[CLIENTS] = {NULL};

    make_known(fixture_serve(fixture, NULL), service, 1000, burst.voucher_id);
    fixture_servers(fixture, "pause", which);
    request_all(service, &burst, clients, CLIENTS);
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    service_signal(service, SIGTERM);
    read_answers(service, clients, CLIENTS, may_be);
}

/* When Redis resumed, it would execute the lock requests in its buffers, and these locks would last
   until their leases end. */
MEND_CASE(test_drain__ends_while_redis_hangs)
{
    drain_without(*state, "redis", "");
    fixture_servers(*state, "kill", "redis");
}

/* On a slow machine some requests still wait for the read of their voucher, and hold no lock. */
MEND_CASE(test_drain__ends_while_postgres_hangs)
{
    drain_without(*state, "postgres", "outcome_unknown");
    assert_int_equal(redis_order_locks(*state), 0);
}

int main(void)
{
    return cases_run(fixture_setup, fixture_end_group);
}
