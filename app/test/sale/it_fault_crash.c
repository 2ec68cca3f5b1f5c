/*
 * it_fault_crash.c - the service is killed or stopped during a sale, or is started while Redis and
 * Postgres are down.
 */
#include "app/test/sale/fault_fixture.h"

#include <signal.h>

#define BURST   3000
#define STOPPED 50
#define KEYS    50

static const char *const lease_2_s[] = {"SECKILL_LOCK_LEASE_MS=2000", NULL};
static struct service *victim;

static int mend(void **state)
{
    fixture_mend(fixture, "redis");
    fixture_mend(fixture, "postgres");
    return fixture_end_test(state);
}

#define CRASH_CASE(name) DEFINE_CASE(name, name, NULL, mend, NULL)

static void kill_and_respawn(size_t answered)
{
    if (answered != BURST / 3)
        return;
    service_kill(victim);
    service_respawn(fixture, victim, lease_2_s);
    service_await(victim, "/readyz", 200);
}

/* The locks of the dead process stay until their leases end. Until then their shoppers cannot
   order. */
CRASH_CASE(test_kill__loses_no_acknowledged_order)
{
    victim = fixture_serve(fixture, lease_2_s);
    run_burst(victim, BURST, kill_and_respawn);
    ASSERT_NUMBER(burst.orders.tally[TALLY_LOST], >, 0);
    finish_burst(victim);
    assert_int_equal(service_stop(victim), 0);
}

/* Each of these KEYS requests restocks a voucher by one piece, and has its own Idempotency-Key. */
struct restocks {
    char voucher_id[ID_SIZE], target[64];
    struct client *clients[KEYS];
};

static void send_restock(struct restocks *restocks, size_t i)
{
    char key[40], bytes[1024];
    const struct client_request request = {.method = "POST",
                                           .target = restocks->target,
                                           .token = admin(),
                                           .headers = key,
                                           .body = "{\"add\":1}"};

    snprintf(key, sizeof(key), "Idempotency-Key: delivery-%zu\r\n", i);
    restocks->clients[i] = client_open(&victim->address);
    assert_true(client_write(restocks->clients[i], bytes,
                             client_format(&request, bytes, sizeof(bytes))));
}

static bool has_restocked(void *arg)
{
    const struct restocks *restocks = arg;

    return sql_number(fixture, "select stock_total from voucher where id = %s",
                      restocks->voucher_id) >= 1 + KEYS / 10;
}

/* When the process dies, some restocks are committed and some are not. No client has read an
   answer. Every client then repeats its request. */
CRASH_CASE(test_kill__a_repeated_key_restocks_once)
{
    struct restocks restocks;

    victim = fixture_serve(fixture, lease_2_s);
    make_voucher(victim, &(struct sale){.stock = 1}, restocks.voucher_id);
    fill("/v1/vouchers/{}/restock", restocks.voucher_id, restocks.target,
         sizeof(restocks.target));
    for (size_t i = 0; i < KEYS; i++)
        send_restock(&restocks, i);
    AWAIT(has_restocked, &restocks);
    service_kill(victim);
    for (size_t i = 0; i < KEYS; i++)
        client_close(restocks.clients[i]);
    service_respawn(fixture, victim, lease_2_s);
    service_await(victim, "/readyz", 200);
    for (size_t i = 0; i < KEYS; i++)
        send_restock(&restocks, i);
    expect_answers(restocks.clients, KEYS, 200, NULL);
    ASSERT_NUMBER(sql_number(fixture, "select stock_total from voucher where id = %s",
                             restocks.voucher_id),
                  ==, 1 + KEYS);
    assert_int_equal(service_stop(victim), 0);
}

/* The locks of a stopped process expire, and the shoppers order at another instance. When the
   process continues, it must not sell to them again. */
CRASH_CASE(test_stop__longer_than_the_lease)
{
    struct client *clients[STOPPED];
    struct attempt attempt = {.user_id = 1};
    const char *const lease_500_ms[] = {"SECKILL_LOCK_LEASE_MS=500", NULL};

    victim = fixture_serve(fixture, lease_500_ms);
    attempt.service = fixture_serve(fixture, lease_500_ms);
    make_known(victim, attempt.service, INT64_C(2) * STOPPED, attempt.voucher_id);
    hold_row(attempt.voucher_id);
    send_orders(victim, attempt.voucher_id, 1, clients, STOPPED);
    service_signal(victim, SIGSTOP);
    release_rows(); /* Postgres commits the batch; then the locks expire */
    for (; attempt.user_id <= STOPPED; attempt.user_id++)
        AWAIT(is_complete, &attempt);
    service_signal(victim, SIGCONT);
    for (size_t i = 0; i < STOPPED; i++) {
        const struct client_reply *reply = client_read(clients[i], &patience);

        if (reply->status != 201 && reply->status != 503)
            EXPECT(reply, 409, "already_ordered");
        client_close(clients[i]);
    }
    assert_int_equal(sql_live_orders(fixture, attempt.voucher_id), STOPPED);
    assert_int_equal(sql_broken_guarantees(fixture), 0);
    assert_int_equal(service_stop(victim), 0);
}

CRASH_CASE(test_start__with_both_servers_down)
{
    char voucher_id[ID_SIZE];
    struct service *service = fixture_serve(fixture, NULL);
    const struct client_reply *reply;

    make_voucher(service, &(struct sale){.stock = 100}, voucher_id);
    assert_int_equal(service_stop(service), 0);
    fixture_servers(fixture, "stop", "redis");
    fixture_servers(fixture, "stop", "postgres");
    service = fixture_spawn(fixture, NULL);
    service_await(service, "/healthz", 200);
    assert_int_equal(service_stop(service), 0);
    service = fixture_spawn(fixture, NULL);
    service_await(service, "/healthz", 200);
    reply = EXPECT(request(service, NULL, NULL, "GET /readyz"), 503, NULL);
    ASSERT_CONTAINS(reply->body, "postgres");
    ASSERT_CONTAINS(reply->body, "redis");
    EXPECT(place_order(service, 1, voucher_id, NULL), 503, "unavailable");
    EXPECT(request(service, NULL, NULL, "GET /v1/vouchers/%s", voucher_id), 503,
           "unavailable");
    EXPECT(request(service, shopper(1), NULL, "GET /v1/orders"), 503, "unavailable");
    fixture_servers(fixture, "start", "redis");
    EXPECT(place_order(service, 1, voucher_id, NULL), 503, "unavailable");
    fixture_servers(fixture, "start", "postgres");
    service_await(service, "/readyz", 200);
    for (int64_t user = 1; user <= 10; user++)
        EXPECT(place_order(service, user, voucher_id, NULL), 201, NULL);
    assert_int_equal(service_stop(service), 0);
}

int main(void)
{
    return cases_run(open_fixture, close_fixture);
}
