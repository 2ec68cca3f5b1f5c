/*
 * it_fault_isolation.c - slow work does not delay other work.
 *
 * The slow work is: orders of vouchers whose rows are locked, the expiry of these orders, and reads
 * of a locked table. Each service has one event loop.
 */
#include "app/test/sale/fault_fixture.h"

#include <signal.h>
#include <stdlib.h>

#define HELD_MAX   20
#define PAYMENT    "{\"payment_ref\":\"%s\",\"amount_cents\":8000}"
#define BURST      300
#define TIMEOUT(s) "SECKILL_ORDER_TIMEOUT_MS=" s "000"

static const char *const env_6_s[] = {"SECKILL_WORKERS=1", TIMEOUT("6"), NULL};
static const char *const env_20_s[] = {"SECKILL_WORKERS=1", TIMEOUT("20"), NULL};

static struct service *service;

/* A session locks the rows of these vouchers. Shoppers 1, 2, ... each order a different voucher of
   these. */
static struct held {
    char voucher_ids[HELD_MAX][ID_SIZE];
    char order_ids[HELD_MAX][ID_SIZE];
    struct client *clients[HELD_MAX];
} held;

static int mend(void **state)
{
    release_rows();
    return fixture_end_test(state);
}

#define ISOLATION_CASE(name) DEFINE_CASE(name, name, NULL, mend, NULL)

static void make_order(int64_t user_id, const char *voucher_id, char *ret_id)
{
    const struct client_reply *reply =
        EXPECT(place_order(service, user_id, voucher_id, NULL), 201, NULL);

    snprintf(ret_id, ID_SIZE, "%s", reply_text(reply, "id"));
}

static void make_held(void)
{
    for (size_t i = 0; i < HELD_MAX; i++) {
        make_voucher(service, &(struct sale){.stock = 1000}, held.voucher_ids[i]);
        make_order(1 + (int64_t)i, held.voucher_ids[i], held.order_ids[i]);
    }
}

static void hold_rows(size_t count)
{
    char ids[HELD_MAX * ID_SIZE] = "", statement[sizeof(ids) + 80];
    size_t len = 0;

    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(ids + len, sizeof(ids) - len, "%s%s", i == 0 ? "" : ",",
                                held.voucher_ids[i]);
    snprintf(statement, sizeof(statement),
             "select 1 from voucher where id in (%s) for update", ids);
    sql_session(fixture, statement);
}

static void send_to_held(const char *pattern, char ids[][ID_SIZE])
{
    char target[64];

    for (size_t i = 0; i < HELD_MAX; i++)
        held.clients[i] =
            send_request(service, "POST", fill(pattern, ids[i], target, sizeof(target)),
                         shopper(1 + (int64_t)i));
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
}

static void cancel_held(void)
{
    send_to_held("/v1/orders/{}/cancel", held.order_ids);
}

static void assert_held_wait(void)
{
    for (size_t i = 0; i < HELD_MAX; i++)
        assert_null(client_poll(held.clients[i], false));
}

static void assert_no_reconnects(void)
{
    assert_true(service_metric(service,
                               "seckill_reconnects_total{dependency=\"postgres\"}") == 0);
}

/* -- held vouchers -- */

ISOLATION_CASE(test_changes__of_held_vouchers_delay_no_other)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE], body[100];

    service = fixture_serve(fixture, env_20_s);
    make_held();
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    make_order(1, voucher_id, order_id);
    hold_rows(HELD_MAX);
    cancel_held();
    snprintf(body, sizeof(body), PAYMENT, order_id);
    EXPECT(request(service, payment(), body, "POST /v1/orders/%s/pay", order_id), 200,
           NULL);
    assert_held_wait();
    release_rows();
    expect_answers(held.clients, HELD_MAX, 200, NULL);
    assert_no_reconnects();
}

static void do_nothing(size_t answered UNUSED)
{
}

ISOLATION_CASE(test_orders__of_held_vouchers_delay_no_other)
{
    service = fixture_serve(fixture, env_20_s);
    make_held();
    cancel_held();
    expect_answers(held.clients, HELD_MAX, 200, NULL);
    hold_rows(HELD_MAX);
    send_to_held("/v1/vouchers/{}/orders", held.voucher_ids);
    run_burst(service, BURST, do_nothing);
    assert_int_equal(burst.orders.tally[TALLY_PLACED], BURST);
    assert_held_wait();
    release_rows();
    expect_answers(held.clients, HELD_MAX, 201, NULL);
    assert_no_reconnects();
}

/* -- expiry -- */

#define HELD_BATCHES 1200

static void make_overdue(const char *voucher_id, int hours)
{
    sql_do(fixture,
           "update voucher_order set expires_at = now() - interval '%d h',"
           " created_at = now() - interval '1 d' where voucher_id = %s",
           hours, voucher_id);
}

static bool are_overdue(void *arg)
{
    return sql_number(fixture, "select count(*) from voucher_order where"
                               " status = 'unpaid' and expires_at < now()") ==
           *(const int64_t *)arg;
}

/* More batches of the locked voucher are due than one query returns, and they are due before the
   batch of the other voucher. */
ISOLATION_CASE(test_expiry__of_a_held_voucher_delays_no_other)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE];

    service = fixture_serve(fixture, env_20_s);
    make_voucher(service, &(struct sale){.stock = 1000}, voucher_id);
    make_order(1, voucher_id, order_id);
    make_voucher(service, &(struct sale){.stock = HELD_BATCHES}, held.voucher_ids[0]);
    sql_do(fixture,
           "select count(placed) from generate_series(1::bigint, %d) u,"
           " lateral place_orders(%s, array[u], '{0}', null) placed",
           HELD_BATCHES, held.voucher_ids[0]);
    hold_rows(1);
    make_overdue(held.voucher_ids[0], 2);
    make_overdue(voucher_id, 1);
    AWAIT(are_overdue, &(int64_t){HELD_BATCHES});
    release_rows();
    AWAIT(are_overdue, &(int64_t){0});
    assert_int_equal(sql_broken_guarantees(fixture), 0);
}

static bool one_session_expires(void *arg UNUSED)
{
    return sql_number(fixture, "select count(*) from pg_locks where locktype = 'advisory'"
                               " and objid = 970750674 and granted") == 1;
}

static void assert_expiry_works(int64_t user_id)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 1}, voucher_id);
    make_order(user_id, voucher_id, order_id);
    make_overdue(voucher_id, 1);
    AWAIT(are_overdue, &(int64_t){0});
    AWAIT(one_session_expires, NULL);
}

static bool is_leader(void *arg)
{
    service = arg;
    return service_metric(service, "seckill_expiry_leader") == 1;
}

static bool one_leads(void *arg)
{
    struct service **instances = arg, *other = instances[1];
    bool leads[2] = {is_leader(instances[0]), is_leader(instances[1])};

    if (leads[1]) {
        instances[1] = instances[0];
        instances[0] = other;
    }
    return leads[0] != leads[1];
}

ISOLATION_CASE(test_expiry__one_instance_does_it_another_takes_over)
{
    struct service *instances[2] = {fixture_serve(fixture, env_20_s),
                                    fixture_serve(fixture, env_20_s)};
    struct service *leader;

    service = instances[0];
    assert_expiry_works(1);
    AWAIT(one_leads, instances);
    leader = instances[0];
    service = instances[1];
    service_signal(leader, SIGSTOP);
    assert_expiry_works(2);
    AWAIT(is_leader, service);
    service_signal(leader, SIGCONT);
    service_kill(service);
    service = leader;
    assert_expiry_works(3);
    AWAIT(is_leader, service);
}

/* -- reads -- */

ISOLATION_CASE(test_reads__slow_ones_fail_alone)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE];
    struct client *clients[20];
    char target[64];

    service = fixture_serve(fixture, env_6_s);
    make_voucher(service, &(struct sale){.stock = 1}, voucher_id);
    make_order(1, voucher_id, order_id);
    fill("/v1/orders/{}/events", order_id, target, sizeof(target));
    sql_session(fixture, "lock table order_event in access exclusive mode");
    for (size_t i = 0; i < COUNT_OF(clients); i++)
        clients[i] = send_request(service, "GET", target, admin());
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    EXPECT(request(service, admin(), NULL, "GET /v1/orders/%s", order_id), 200, NULL);
    expect_answers(clients, COUNT_OF(clients), 503, NULL);
    release_rows();
    EXPECT(request(service, admin(), NULL, "GET %s", target), 200, NULL);
    assert_no_reconnects();
}

int main(void)
{
    return cases_run(open_fixture, close_fixture);
}
