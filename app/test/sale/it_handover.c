/* it_handover.c - four workers that serve HTTP, and a fifth worker that sells for them. */
#include "app/test/sale/fault_fixture.h"

#define CLIENTS 64
#define BURST   2000

static const char *const four[] = {"SECKILL_WORKERS=4", NULL};
static struct service *service;

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

SERVICE_CASE(test_handover__only_the_seller_has_lanes_and_locks)
{
    int64_t others = redis_clients();

    service = fixture_serve(fixture, four);
    AWAIT(has_26_sessions, NULL);
    AWAIT(has_11_clients, &others);
}

static void no_fault(size_t answered UNUSED)
{
}

SERVICE_CASE(test_handover__every_worker_sells)
{
    service = fixture_serve(fixture, four);
    run_burst(service, BURST, no_fault);
    ASSERT_NUMBER(burst.orders.tally[TALLY_PLACED], ==, BURST);
    finish_burst(service);
    assert_true(service_metric(service, "seckill_order_stage_seconds_count{stage="
                                        "\"handover\"}") > 0);
    assert_true(service_metric(service, "seckill_orders_total{outcome=\"placed\"}") ==
                BURST);
    assert_int_equal(service_stop(service), 0);
}

static bool all_hold_locks(void *arg UNUSED)
{
    return redis_order_locks(fixture) == CLIENTS;
}

static void start_orders(struct client *clients[CLIENTS], char ret_voucher_id[ID_SIZE])
{
    service = fixture_serve(fixture, four);
    make_voucher(service, &(struct sale){.stock = CLIENTS}, ret_voucher_id);
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
    return service_metric(service, "seckill_in_flight") == 0;
}

SERVICE_CASE(test_handover__clients_that_leave)
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

int main(void)
{
    return cases_run(open_fixture, close_fixture);
}
