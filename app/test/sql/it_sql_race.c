/* it_sql_race.c - batches of several sessions at once never oversell or duplicate. */
#include "app/test/sql/it_sql.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#define SESSIONS 4
#define BATCHES  60
#define BATCH    40

static struct sandbox *sandbox;

static int setup(void **state)
{
    *state = fixture_open();
    sandbox = sandbox_open(*state, "race");
    return 0;
}

static int teardown(void **state)
{
    sandbox_close(sandbox);
    return fixture_close(*state);
}

struct buyers {
    PGconn *conn;
    const int64_t *vouchers;
    int64_t placed;
    unsigned voucher_count;
    unsigned shoppers; /* user ids are 1..this */
    unsigned seed;
    int failures;
};

static unsigned next(struct buyers *buyers)
{
    buyers->seed = buyers->seed * 1103515245 + 12345;
    return buyers->seed >> 8;
}

/* Places a batch of random shoppers without locks. Every other batch has random keys. */
static void buy(struct buyers *buyers)
{
    char sql[8192], *end = sql + sizeof(sql), *at = sql;
    bool is_keyed = next(buyers) % 2 == 0;
    PGresult *result;

    at += snprintf(at, (size_t)(end - at),
                   "select coalesce(sum((v = 1)::int), 0) from unnest((select verdicts"
                   " from place_orders(%" PRId64 ", array[",
                   buyers->vouchers[next(buyers) % buyers->voucher_count]);
    for (int i = 0; i < BATCH; i++)
        at += snprintf(at, (size_t)(end - at), "%s%u", i > 0 ? "," : "",
                       1 + next(buyers) % buyers->shoppers);
    at += snprintf(at, (size_t)(end - at), "], array_fill(0::bigint, array[%d]), %s",
                   BATCH, is_keyed ? "array[" : "null");
    for (int i = 0; is_keyed && i < BATCH; i++)
        at += snprintf(at, (size_t)(end - at), "%s'k%u'", i > 0 ? "," : "",
                       next(buyers) % 3);
    snprintf(at, (size_t)(end - at), "%s))) v", is_keyed ? "]" : "");
    result = PQexec(buyers->conn, sql);
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        buyers->placed += strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    else
        buyers->failures++;
    PQclear(result);
}

static void *buy_for_long(void *arg)
{
    for (int i = 0; i < BATCHES; i++)
        buy(arg);
    return NULL;
}

/* The next shopper orders each voucher, in a random order of the vouchers. A voucher that is left
   out is a failure. */
static void *buy_many_for_long(void *arg)
{
    struct buyers *buyers = arg;

    for (unsigned i = 0; i < BATCHES; i++) {
        char sql[512];
        PGresult *result;

        snprintf(
            sql, sizeof(sql),
            "select count(*) from (select array_agg(id order by hashint8(id + %u)) v,"
            "  array_agg(i) n, array_agg(%u::bigint) u from unnest(array[%" PRId64
            ", %" PRId64 ", %" PRId64 "]) with ordinality x (id, i)) a,"
            " place_many(v, n, n, u, '{0,0,0}', null) where verdicts = '{1}'",
            next(buyers), i + 1, buyers->vouchers[0], buyers->vouchers[1],
            buyers->vouchers[2]);
        result = PQexec(buyers->conn, sql);
        if (PQresultStatus(result) == PGRES_TUPLES_OK &&
            PQgetvalue(result, 0, 0)[0] == '3')
            buyers->placed += 3;
        else
            buyers->failures++;
        PQclear(result);
    }
    return NULL;
}

/* Returns the number of orders that the sessions placed by their answers. */
static int64_t run_sale(void *(*buy_all)(void *), const int64_t *vouchers,
                        unsigned voucher_count, unsigned shoppers)
{
    struct buyers buyers[SESSIONS] = {0};
    pthread_t threads[SESSIONS];
    int64_t placed = 0;

    for (unsigned i = 0; i < SESSIONS; i++) {
        buyers[i] = (struct buyers){.conn = sandbox_connect(sandbox),
                                    .vouchers = vouchers,
                                    .voucher_count = voucher_count,
                                    .shoppers = shoppers,
                                    .seed = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, buy_all, &buyers[i]), 0);
    }
    for (unsigned i = 0; i < SESSIONS; i++) {
        pthread_join(threads[i], NULL);
        PQfinish(buyers[i].conn);
        assert_int_equal(buyers[i].failures, 0);
        placed += buyers[i].placed;
    }
    return placed;
}

static int64_t live_orders(void)
{
    return sandbox_number(sandbox,
                          "select count(*) from voucher_order where slot is not null");
}

static void test_place_orders__sessions_share_one_stock(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 700, 2);
    int64_t before = live_orders();

    assert_int_equal(run_sale(buy_for_long, &voucher, 1, 2000), 700);
    assert_int_equal(live_orders() - before, 700);
    assert_int_equal(sandbox_audit(sandbox), 0);
}

static void test_place_orders__shoppers_run_out_before_the_stock(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 100000, 3);

    /* each shopper gets as many as the limit allows */
    assert_int_equal(run_sale(buy_for_long, &voucher, 1, 50), 150);
    assert_int_equal(sandbox_audit(sandbox), 0);
}

static void test_place_orders__vouchers_do_not_mix(void **state UNUSED)
{
    int64_t vouchers[3];
    int64_t before = live_orders();

    for (size_t i = 0; i < COUNT_OF(vouchers); i++)
        vouchers[i] = sandbox_voucher(sandbox, 200, 1);
    assert_int_equal(run_sale(buy_for_long, vouchers, COUNT_OF(vouchers), 1000), 600);
    assert_int_equal(live_orders() - before, 600);
    assert_int_equal(sandbox_audit(sandbox), 0);
}

static void test_place_many__sessions_wait_for_each_other(void **state UNUSED)
{
    int64_t vouchers[3];

    for (size_t i = 0; i < COUNT_OF(vouchers); i++)
        vouchers[i] = sandbox_voucher(sandbox, 1000, SESSIONS);
    assert_int_equal(run_sale(buy_many_for_long, vouchers, 3, 1), SESSIONS * BATCHES * 3);
    assert_int_equal(sandbox_audit(sandbox), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_orders__sessions_share_one_stock),
        cmocka_unit_test(test_place_orders__shoppers_run_out_before_the_stock),
        cmocka_unit_test(test_place_orders__vouchers_do_not_mix),
        cmocka_unit_test(test_place_many__sessions_wait_for_each_other),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
