/* it_handover.c - four workers that serve HTTP, and a fifth worker that sells for them. */
#include "app/test/sale/fault_fixture.h"

#include <signal.h>

#define CLIENTS 64
#define BURST   2000
#define WORKERS "SECKILL_WORKERS=4"

static const char *const four[] = {WORKERS, NULL};
static const char *const four_lease_2_s[] = {WORKERS, "SECKILL_LOCK_LEASE_MS=2000", NULL};
static struct service *service;

static int mend(void **state)
{
    fixture_mend(fixture, "postgres");
    return fixture_end_test(state);
}

#define CASE_OF(name) DEFINE_CASE(name, name, NULL, mend, NULL)

/* Returns a metric of the service. `line` is a line break and the first characters of the metric's
   line. */
static int64_t metric(const char *line)
{
    const struct client_reply *reply = request(service, NULL, NULL, "GET /metrics");
    const char *found = strstr(EXPECT(reply, 200, NULL)->body, line);

    assert_non_null(found);
    return strtoll(found + strlen(line), NULL, 10);
}

static bool has_26_sessions(void *arg UNUSED)
{
    return sql_administer(fixture, "select count(*) from pg_stat_activity "
                                   "where usename = '" SERVICE_ROLE "'") == 26;
}

static int64_t redis_clients(void)
{
    static const char name[] = "connected_clients:";
    const char *found = strstr(redis_do(fixture, "info clients"), name);

    assert_non_null(found);
    return strtoll(found + strlen(name), NULL, 10);
}

static bool has_11_clients(void *others)
{
    return redis_clients() == *(int64_t *)others + 11;
}

CASE_OF(test_handover__only_the_seller_has_lanes_and_locks)
{
    int64_t others = redis_clients();

    service = fixture_serve(fixture, four);
    AWAIT(has_26_sessions, NULL);
    AWAIT(has_11_clients, &others);
}

static void no_fault(size_t answered UNUSED)
{
}

CASE_OF(test_handover__every_worker_sells)
{
    service = fixture_serve(fixture, four);
    run_burst(service, BURST, no_fault);
    ASSERT_NUMBER(burst.orders.tally[TALLY_PLACED], ==, BURST);
    finish_burst(service);
    ASSERT_NUMBER(metric("\nseckill_order_stage_seconds_count{stage=\"handover\"} "), >,
                  0);
    ASSERT_NUMBER(metric("\nseckill_orders_total{outcome=\"placed\"} "), ==, BURST);
    assert_int_equal(service_stop(service), 0);
}

static size_t count_placed(struct client **clients)
{
    size_t placed = 0;

    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client_reply *reply = client_read(clients[i], &patience);

        placed += reply->status == 201;
        if (reply->status != 201 && !reply_is(reply, 409, "order_in_progress"))
            EXPECT(reply, 409, "already_ordered");
        client_close(clients[i]);
    }
    return placed;
}

CASE_OF(test_handover__one_shopper_orders_once_at_all_workers)
{
    struct client *clients[CLIENTS];
    char voucher_id[ID_SIZE], target[64];

    service = fixture_serve(fixture, four);
    make_known(service, service, CLIENTS, voucher_id);
    fill("/v1/vouchers/{}/orders", voucher_id, target, sizeof(target));
    for (size_t i = 0; i < CLIENTS; i++)
        clients[i] = send_request(service, "POST", target, shopper(1));
    ASSERT_NUMBER(count_placed(clients), ==, 1);
    assert_int_equal(sql_live_orders(fixture, voucher_id), 1);
}

CASE_OF(test_handover__queue_max_counts_once)
{
    const char *const env[] = {WORKERS, "SECKILL_QUEUE_MAX=10", NULL};
    char voucher_id[ID_SIZE];

    service = fixture_serve(fixture, env);
    make_known(service, service, QUEUE_CLIENTS, voucher_id);
    assert_queue_max(service, voucher_id, 10);
}

static bool all_hold_locks(void *arg UNUSED)
{
    return redis_order_locks(fixture) == CLIENTS;
}

static void start_orders(struct client *clients[CLIENTS], char ret_voucher_id[ID_SIZE])
{
    service = fixture_serve(fixture, four);
    make_known(service, service, CLIENTS, ret_voucher_id);
    hold_row(ret_voucher_id);
    send_orders(service, ret_voucher_id, 1, clients, CLIENTS);
    AWAIT(all_hold_locks, NULL);
}

static bool are_placed(void *voucher_id)
{
    return sql_live_orders(fixture, voucher_id) == CLIENTS;
}

static bool is_nothing_in_flight(void *arg UNUSED)
{
    return metric("\nseckill_in_flight ") == 0;
}

CASE_OF(test_handover__clients_that_leave)
{
    struct client *clients[CLIENTS];
    char voucher_id[ID_SIZE];

    start_orders(clients, voucher_id);
    for (size_t i = 0; i < CLIENTS; i++)
        client_abort(clients[i]);
    release_rows();
    AWAIT(are_placed, voucher_id);
    AWAIT(is_nothing_in_flight, NULL);
    assert_int_equal(redis_order_locks(fixture), 0);
    assert_int_equal(service_stop(service), 0);
}

/* The seller ends last, because it has to answer the orders of the other workers. */
CASE_OF(test_handover__a_drain_answers_all_workers)
{
    struct client *clients[CLIENTS];
    char voucher_id[ID_SIZE];

    start_orders(clients, voucher_id);
    service_signal(service, SIGTERM);
    release_rows();
    expect_answers(clients, CLIENTS, 201, NULL);
    assert_int_equal(service_wait(service), 0);
    assert_int_equal(redis_order_locks(fixture), 0);
}

CASE_OF(test_handover__is_answered_by_the_deadline)
{
    const char *const env[] = {WORKERS, "SECKILL_ORDER_TIMEOUT_MS=2000", NULL};
    struct service *other = fixture_serve(fixture, NULL);
    struct client *clients[CLIENTS];
    char voucher_id[ID_SIZE];

    service = fixture_serve(fixture, env);
    make_known(other, service, CLIENTS, voucher_id);
    fixture_servers(fixture, "pause", "postgres");
    send_orders(service, voucher_id, 1, clients, CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client_reply *reply = client_read(clients[i], &patience);

        if (!reply_is(reply, 503, "outcome_unknown"))
            EXPECT(reply, 503, "unavailable");
        client_close(clients[i]);
    }
    AWAIT(is_nothing_in_flight, NULL);
}

static void kill_and_respawn(size_t answered)
{
    if (answered != BURST / 3)
        return;
    service_kill(service);
    service_respawn(fixture, service, four_lease_2_s);
    service_await(service, "/readyz", 200);
}

CASE_OF(test_handover__kill_loses_no_acknowledged_order)
{
    service = fixture_serve(fixture, four_lease_2_s);
    run_burst(service, BURST, kill_and_respawn);
    ASSERT_NUMBER(burst.orders.tally[TALLY_LOST], >, 0);
    finish_burst(service);
    assert_int_equal(service_stop(service), 0);
}

int main(void)
{
    return cases_run(open_fixture, close_fixture);
}
