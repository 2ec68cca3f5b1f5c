/*
 * it_fault_postgres.c - Postgres fails during a sale.
 *
 * Postgres is killed, stopped or paused, or its connections are cut. No acknowledged order may be
 * lost, no answer may be false, and the sale must continue.
 */
#include "app/test/sale/fault_fixture.h"
#include "base/clock.h"

#define TIMEOUT_MS 2000

/* The timeout of `impatient` is shorter than the long outage of these tests. The timeout of
   `patient` is longer than any outage. */
static struct service *impatient, *patient;

static int setup(void **state)
{
    const char *const env[] = {"SECKILL_ORDER_TIMEOUT_MS=2000", NULL};

    open_fixture(state);
    impatient = fixture_serve(fixture, env);
    patient = fixture_serve(fixture, NULL);
    fixture_share_services(fixture);
    return 0;
}

static int mend(void **state)
{
    fixture_mend(fixture, "postgres");
    service_await(impatient, "/readyz", 200);
    service_await(patient, "/readyz", 200);
    sql_do(fixture, "alter table voucher_order drop constraint if exists poison");
    return fixture_end_test(state);
}

#define POSTGRES_CASE(name) DEFINE_CASE(name, name, NULL, mend, NULL)

static void assert_reads_refused(void)
{
    static const char *const lines[] = {"GET /v1/orders", "GET /v1/orders/1048577",
                                        "GET /v1/vouchers?state=ended"};

    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        const struct client_reply *reply = EXPECT(
            request(impatient, shopper(1), NULL, "%s", lines[i]), 503, "unavailable");

        ASSERT_NUMBER(reply_retry_after(reply), >=, 1);
    }
}

POSTGRES_CASE(test_hung__is_noticed_by_the_probe)
{
    const char *const env[] = {"SECKILL_ORDER_TIMEOUT_MS=60000", NULL};
    struct service *service = fixture_serve(fixture, env);

    assert_hang_is_noticed(service, "postgres", "why=\"no reply within 750 ms\"");
}

POSTGRES_CASE(test_down__killed)
{
    struct attempt attempt = {.service = impatient, .user_id = 1};
    const struct client_reply *reply;

    make_known(patient, impatient, 100, attempt.voucher_id);
    fixture_servers(fixture, "kill", "postgres");
    for (int64_t user = 1; user <= 6; user++) {
        reply = place_order(impatient, user, attempt.voucher_id, user % 2 ? NULL : "k");
        if (!reply_is(reply, 503, "outcome_unknown"))
            EXPECT(reply, 503, "unavailable");
        ASSERT_BETWEEN(reply_retry_after(reply), 1, 60);
    }
    assert_reads_refused();
    service_await(impatient, "/readyz", 503);
    reply = request(impatient, NULL, NULL, "GET /readyz");
    ASSERT_CONTAINS(reply->body, "postgres");
    EXPECT(request(impatient, NULL, NULL, "GET /healthz"), 200, NULL);
    assert_true(
        service_metric(impatient, "seckill_dependency_up{dependency=\"postgres\"}") == 0);
    assert_int_equal(redis_order_locks(fixture), 0);
    fixture_servers(fixture, "start", "postgres");
    service_await(impatient, "/readyz", 200);
    assert_int_equal(sql_live_orders(fixture, attempt.voucher_id), 0);
    for (; attempt.user_id <= 6; attempt.user_id++)
        AWAIT(is_complete, &attempt);
}

/* -- in a burst -- */

#define BURST 4000

static const struct outage {
    const char *name;
    struct service **service;
    size_t placed_min, unknown_max;
    const char *down, *up;
    const char *function;
} outages[] = {
    {"killed", &patient, BURST / 10, BURST, "kill", "start", NULL},
    {"stopped", &patient, BURST / 10, BURST, "stop", "start", NULL},
    {"hung for a moment", &patient, BURST, 0, "pause", "resume", NULL},
    {"hung for long", &impatient, BURST / 10, BURST, "pause", "resume", NULL},
    {"connections cut", &patient, 0, 0, NULL, NULL, "pg_terminate_backend"},
    {"statements cancelled", &patient, 0, 0, NULL, NULL, "pg_cancel_backend"},
};
static const struct outage *outage;

static bool time_is_over(void *arg)
{
    return clock_mono_us() > *(int64_t *)arg;
}

static void strike(size_t answered)
{
    int64_t until_us = clock_mono_us() + INT64_C(1000) * (TIMEOUT_MS + 1500);

    if (outage->function != NULL && answered % 150 == 100)
        sql_do(fixture,
               "select count(%s(pid)) from pg_stat_activity where usename = current_user "
               "and pid <> pg_backend_pid()",
               outage->function);
    if (outage->function != NULL || answered != BURST / 10)
        return;
    fixture_servers(fixture, outage->down, "postgres");
    if (outage->service == &impatient)
        becomes_true(time_is_over, &until_us);
    fixture_servers(fixture, outage->up, "postgres");
}

POSTGRES_CASE(test_burst__goes_on_after_each_outage)
{
    for (size_t i = 0; i < COUNT_OF(outages); i++) {
        outage = &outages[i];
        print_message("%s\n", outage->name);
        run_burst(*outage->service, BURST, strike);
        assert_int_equal(burst.orders.tally[TALLY_LOST], 0);
        ASSERT_NUMBER(burst.orders.tally[TALLY_PLACED], >=, outage->placed_min);
        ASSERT_NUMBER(burst.orders.tally[TALLY_UNKNOWN], <=, outage->unknown_max);
        service_await(impatient, "/readyz", 200);
        finish_burst(patient);
    }
}

/* -- a row that the database refuses -- */

#define NEIGHBOURS 60

/* While the row of the voucher is locked, orders gather in its queue. So a batch has both orders
   that Postgres refuses and other orders. */
POSTGRES_CASE(test_poison__fails_alone)
{
    struct client *clients[NEIGHBOURS];
    char voucher_id[ID_SIZE];

    sql_do(fixture, "alter table voucher_order add constraint poison check (user_id not "
                    "in (666007, 666031, 666032)) not valid");
    make_known(patient, impatient, NEIGHBOURS, voucher_id);
    hold_row(voucher_id);
    send_orders(patient, voucher_id, 666000, clients, NEIGHBOURS);
    release_rows();
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        bool is_poison = i == 7 || i == 31 || i == 32;

        expect_answers(&clients[i], 1, is_poison ? 500 : 201,
                       is_poison ? "internal" : NULL);
    }
    assert_int_equal(sql_live_orders(fixture, voucher_id), NEIGHBOURS - 3);
    AWAIT(no_locks, NULL);
    sql_do(fixture, "alter table voucher_order drop constraint poison");
    for (int64_t user = 666031; user <= 666032; user++)
        EXPECT(place_order(patient, user, voucher_id, NULL), 201, NULL);
}

int main(void)
{
    return cases_run(setup, close_fixture);
}
