/*
 * it_fault_crash.c - the service killed during a sale, and started while Redis and Postgres
 * are down.
 */
#include "app/test/load_clients.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define BURST 3000

static const char *const short_lease[] = {"SECKILL_LOCK_LEASE_MS=500", NULL};
static struct service *victim; /* the service that dies or stops */

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

/* -- kill -9 -- */

static void kill_and_respawn(void *arg)
{
    struct order_burst *burst = arg;

    service_kill(victim);
    service_respawn(burst->fixture, victim, short_lease);
    service_await(victim, "/readyz", 200);
}

struct retry {
    struct order_burst *burst;
    const struct client_reply *reply;
    int64_t user_id;
};

/* A retry is refused until the lease of the dead instance's lock ends. On a machine that stalls,
   the lease of this order may end before its transaction ("unavailable"). */
static bool is_complete(void *arg)
{
    struct retry *retry = arg;

    retry->reply = place_order(victim, retry->user_id, retry->burst->voucher_id, NULL);
    return !reply_is(retry->reply, 409, "order_in_progress") &&
           !reply_is(retry->reply, 503, "unavailable");
}

static void test_kill__loses_no_acknowledged_order(void **state)
{
    static enum tally each[BURST];
    struct order_burst burst = {.first_user = 1, .each = each, .fixture = *state};
    struct load_plan plan = {.connections = 64,
                             .requests = BURST,
                             .write = burst_write,
                             .answer = burst_answer,
                             .halfway = kill_and_respawn,
                             .halfway_at = BURST / 3,
                             .arg = &burst};
    struct retry retry = {.burst = &burst};

    victim = fixture_serve(*state, short_lease);
    plan.services[0] = victim;
    make_voucher(victim, &(struct sale){.stock = BURST}, burst.voucher_id);
    assert_int_equal(load_run(&plan), BURST);
    assert_true(burst.tally[TALLY_LOST] > 0);
    burst_check(*state, &burst, BURST);
    for (size_t k = 0; k < BURST; k++) {
        if (each[k] == TALLY_PLACED)
            continue;
        retry.user_id = burst.first_user + (int64_t)k;
        AWAIT(is_complete, &retry);
        if (retry.reply->status != 201)
            EXPECT(retry.reply, 409, "already_ordered");
    }
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), BURST);
    assert_int_equal(service_stop(victim), 0);
}

/* One instance dies, the other goes on. */
static void kill_victim(void *arg)
{
    (void)arg;
    service_kill(victim);
}

static void test_kill__leaves_the_other_instance_alone(void **state)
{
    static enum tally each[BURST];
    struct order_burst burst = {.first_user = 1, .each = each, .fixture = *state};
    struct load_plan plan = {.connections = 64,
                             .requests = BURST,
                             .write = burst_write,
                             .answer = burst_answer,
                             .halfway = kill_victim,
                             .halfway_at = BURST / 3,
                             .arg = &burst};

    victim = fixture_serve(*state, NULL); /* no lease ends during the test */
    plan.services[0] = victim;
    plan.services[1] = fixture_serve(*state, NULL);
    make_voucher(plan.services[1], &(struct sale){.stock = BURST}, burst.voucher_id);
    assert_int_equal(load_run(&plan), BURST);
    burst_check(*state, &burst, BURST);
    assert_true(burst.tally[TALLY_PLACED] > BURST / 3);
    assert_int_equal(burst.tally[TALLY_UNAVAILABLE], 0);
    assert_int_equal(service_stop(plan.services[1]), 0);
}

/* The locks of a stopped process expire. When it continues, it must not sell twice. */
static void test_stop__longer_than_the_lease(void **state)
{
    struct order_burst burst = {.first_user = 1};
    struct client *clients[50];
    struct client_wait wait = {.timeout_ms = CLIENT_TIMEOUT_MS};
    struct service *other;
    struct retry retry = {.burst = &burst};
    char bytes[1024], statement[80];

    victim = fixture_serve(*state, short_lease);
    other = fixture_serve(*state, short_lease);
    make_voucher(victim, &(struct sale){.stock = 100}, burst.voucher_id);
    service_await(other, "/readyz", 200);
    snprintf(statement, sizeof(statement),
             "select 1 from voucher where id = %s for update", burst.voucher_id);
    sql_session(*state, statement);
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        clients[i] = client_open(&victim->address);
        assert_true(client_write(clients[i], bytes,
                                 burst_write(i, bytes, sizeof(bytes), &burst)));
    }
    EXPECT(request(victim, NULL, NULL, "GET /healthz"), 200, NULL);
    service_signal(victim, SIGSTOP);
    sql_session(*state, NULL); /* Postgres commits the batch; the locks expire */
    victim = other;
    for (retry.user_id = 1; retry.user_id <= 50; retry.user_id++) {
        AWAIT(is_complete, &retry);
        if (retry.reply->status != 201)
            EXPECT(retry.reply, 409, "already_ordered");
    }
    victim = &((struct fixture *)*state)->services[0];
    service_signal(victim, SIGCONT);
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        const struct client_reply *reply = client_read(clients[i], &wait);

        if (reply->status != 201 && reply->status != 503)
            EXPECT(reply, 409, "already_ordered");
        client_close(clients[i]);
    }
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), 50);
    assert_int_equal(sql_broken_guarantees(*state), 0);
    assert_int_equal(service_stop(victim), 0);
    assert_int_equal(service_stop(other), 0);
}

/* -- start without servers -- */

static void test_start__with_both_servers_down(void **state)
{
    char voucher_id[ID_SIZE];
    struct service *service = fixture_serve(*state, NULL);
    const struct client_reply *reply;

    make_voucher(service, &(struct sale){.stock = 100}, voucher_id);
    assert_int_equal(service_stop(service), 0);
    fixture_servers(*state, "stop", "redis");
    fixture_servers(*state, "stop", "postgres");
    service = fixture_spawn(*state, NULL);
    service_await(service, "/healthz", 200);
    reply = EXPECT(request(service, NULL, NULL, "GET /readyz"), 503, NULL);
    ASSERT_CONTAINS(reply->body, "postgres");
    ASSERT_CONTAINS(reply->body, "redis");
    reply = EXPECT(place_order(service, 1, voucher_id, NULL), 503, "unavailable");
    ASSERT_NUMBER(reply_retry_after(reply), >=, 1);
    EXPECT(request(service, NULL, NULL, "GET /v1/vouchers/%s", voucher_id), 503,
           "unavailable");
    EXPECT(request(service, shopper(1), NULL, "GET /v1/orders"), 503, "unavailable");
    fixture_servers(*state, "start", "redis");
    EXPECT(place_order(service, 1, voucher_id, NULL), 503, "unavailable");
    fixture_servers(*state, "start", "postgres");
    service_await(service, "/readyz", 200);
    for (int64_t user = 1; user <= 10; user++)
        EXPECT(place_order(service, user, voucher_id, NULL), 201, NULL);
    assert_int_equal(service_stop(service), 0);
}

static void test_start__stops_with_both_servers_down(void **state)
{
    struct service *service;

    fixture_servers(*state, "stop", "redis");
    fixture_servers(*state, "stop", "postgres");
    service = fixture_spawn(*state, NULL);
    service_await(service, "/healthz", 200);
    assert_int_equal(service_stop(service), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_kill__loses_no_acknowledged_order),
        CASE(test_kill__leaves_the_other_instance_alone),
        CASE(test_stop__longer_than_the_lease),
        cmocka_unit_test_teardown(test_start__with_both_servers_down, mend),
        cmocka_unit_test_teardown(test_start__stops_with_both_servers_down, mend),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
