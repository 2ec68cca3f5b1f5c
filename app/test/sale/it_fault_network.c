/*
 * it_fault_network.c - lost answers of Postgres and Redis. The server has executed the command, and
 * the service must find out.
 */
#include "app/test/fixture_proxy.h"
#include "app/test/load_clients.h"

#include <stdlib.h>
#include <string.h>

#define BURST  400
#define ROUNDS 12

static struct proxy proxy; /* started by the running test */

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
    int result = fixture_end_test(state);

    proxy_stop(&proxy);
    return result;
}

#define FAULT(test) cmocka_unit_test_teardown(test, mend)

static struct service *serve_through_proxy(struct fixture *fixture, const char *name,
                                           const char *url)
{
    char setting[400];
    const char *const env[] = {setting, "SECKILL_WORKERS=1", NULL};
    int len = snprintf(setting, sizeof(setting), "%s=", name);

    proxy_start(&proxy, url, setting + len, sizeof(setting) - (size_t)len);
    return fixture_serve(fixture, env);
}

static bool no_locks(void *arg)
{
    return redis_order_locks(arg) == 0;
}

static void losing_answer(size_t k, const struct client_reply *reply, void *arg)
{
    burst_answer(k, reply, arg);
    if (k == BURST / 4)
        proxy_drop(&proxy, 1);
}

/* Compare every answer with the rows; then repeat the orders that were not placed. */
static void run_losing_burst(struct fixture *fixture, struct service *service)
{
    enum tally each[BURST];
    struct order_burst burst = {.first_user = 1, .each = each};
    struct load_plan plan = {{service},
                             .connections = 64,
                             .requests = BURST,
                             .write = burst_write,
                             .answer = losing_answer,
                             .arg = &burst};

    make_voucher(service, &(struct sale){.stock = BURST}, burst.voucher_id);
    assert_int_equal(load_run(&plan), BURST);
    assert_int_equal(burst.tally[TALLY_LOST], 0);
    assert_int_equal(burst.tally[TALLY_UNKNOWN], 0); /* look-ups are possible at once */
    proxy_drop(&proxy, 0);
    service_await(service, "/readyz", 200);
    AWAIT(no_locks, fixture);
    burst_check(fixture, &burst, BURST);
    burst_finish(service, &burst, BURST);
    assert_int_equal(sql_live_orders(fixture, burst.voucher_id), BURST);
}

static void test_postgres__lost_answers_in_a_burst(void **state)
{
    struct fixture *fixture = *state;
    struct service *service =
        serve_through_proxy(fixture, "SECKILL_DATABASE_URL", fixture->service_url);

    for (int round = 0; round < ROUNDS; round++)
        run_losing_burst(fixture, service);
}

static void test_redis__lost_answers_in_a_burst(void **state)
{
    struct fixture *fixture = *state;
    struct service *service =
        serve_through_proxy(fixture, "SECKILL_REDIS_URL", fixture->redis_url);

    for (int round = 0; round < ROUNDS; round++)
        run_losing_burst(fixture, service);
}

/* The answer to a commit is lost. The service looks the order up, and the shopper gets 201. An
   earlier order reads the voucher, so the order is the only query that the proxy can hit. */
static void test_postgres__a_commit_whose_answer_is_lost_is_found(void **state)
{
    struct fixture *fixture = *state;
    struct service *service =
        serve_through_proxy(fixture, "SECKILL_DATABASE_URL", fixture->service_url);
    char voucher_id[ID_SIZE];
    size_t found = 0;

    make_voucher(service, &(struct sale){.stock = 100}, voucher_id);
    for (int64_t user = 1; user <= 20; user += 2) {
        service_await(service, "/readyz", 200);
        EXPECT(place_order(service, user, voucher_id, NULL), 201, NULL);
        proxy_drop(&proxy, 1);
        found += place_order(service, user + 1, voucher_id, NULL)->status == 201;
        proxy_drop(&proxy, 0);
    }
    ASSERT_BETWEEN(found, 5, 10); /* sometimes a background read loses its answer */
    assert_int_equal(sql_broken_guarantees(fixture), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT(test_postgres__a_commit_whose_answer_is_lost_is_found),
        FAULT(test_postgres__lost_answers_in_a_burst),
        FAULT(test_redis__lost_answers_in_a_burst),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
