/*
 * it_fault_network.c - answers of Postgres and of Redis are lost.
 *
 * The server has executed the command, and the service must find out that the command was executed.
 */
#include "app/test/fixture_proxy.h"
#include "app/test/sale/fault_fixture.h"

#define BURST  400
#define ROUNDS 12

static struct proxy proxy;

static int mend(void **state)
{
    int result = fixture_end_test(state);

    proxy_stop(&proxy);
    return result;
}

#define NETWORK_CASE(name) DEFINE_CASE(name, name, NULL, mend, NULL)

static void lose_answers(size_t answered)
{
    if (answered == BURST / 4)
        proxy_drop(&proxy, 1);
    if (answered == BURST)
        proxy_drop(&proxy, 0);
}

static void sell_through_proxy(const char *name, const char *url)
{
    char setting[400];
    const char *const env[] = {setting, "SECKILL_WORKERS=1", NULL};
    int len = snprintf(setting, sizeof(setting), "%s=", name);
    struct service *service;

    proxy_start(&proxy, url, setting + len, sizeof(setting) - (size_t)len);
    service = fixture_serve(fixture, env);
    for (int round = 0; round < ROUNDS; round++) {
        run_burst(service, BURST, lose_answers);
        assert_int_equal(burst.orders.tally[TALLY_LOST], 0);
        assert_int_equal(burst.orders.tally[TALLY_UNKNOWN], 0);
        finish_burst(service);
    }
}

NETWORK_CASE(test_postgres__lost_answers_in_a_burst)
{
    sell_through_proxy("SECKILL_DATABASE_URL", fixture->service_url);
}

NETWORK_CASE(test_redis__lost_answers_in_a_burst)
{
    sell_through_proxy("SECKILL_REDIS_URL", fixture->redis_url);
}

int main(void)
{
    return cases_run(open_fixture, close_fixture);
}
