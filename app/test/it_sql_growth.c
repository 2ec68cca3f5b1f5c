/*
 * it_sql_growth.c - one session whose plans were made while the tables were empty, and a
 * million orders later.
 *
 * A plan that has turned into a scan makes a batch hundreds of times slower; the bound
 * leaves room for deeper indexes, a loaded machine and a checkpoint. Takes about 15 s.
 */
#include "app/test/it_sql.h"
#include "base/clock.h"

#include <inttypes.h>

#define ROWS           1000000
#define BATCH          1000
#define SAMPLES        30
#define SLOWER_AT_MOST 5

static struct sandbox *sandbox;
static PGconn *session;

static int setup(void **state)
{
    *state = fixture_open();
    sandbox = sandbox_open(*state, "growth");
    session = sandbox_connect(sandbox);
    return 0;
}

static int teardown(void **state)
{
    PQfinish(session);
    sandbox_close(sandbox);
    return fixture_close(*state);
}

/* Microseconds for a statement that gives `expected`. */
static int64_t time_of(const char *statement, const char *expected)
{
    int64_t start_us = clock_mono_us();
    PGresult *result = PQexec(session, statement);
    int64_t took_us = clock_mono_us() - start_us;

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(session));
    assert_string_equal(PQgetvalue(result, 0, 0), expected);
    PQclear(result);
    return took_us;
}

/* New shoppers, who are scattered over the index; every other batch brings keys. */
static int64_t time_of_new(int64_t voucher, int64_t batch)
{
    char statement[512];

    snprintf(statement, sizeof(statement),
             "select (select count(*) from unnest(verdicts) v where v = 1) from"
             " (select array_agg(u) as u, array_agg('k' || u) as k from"
             "  (select 1 + (n * 1000003) %% 16777213 as u"
             "   from generate_series(%" PRId64 "::bigint, %" PRId64 ") n) u) a,"
             " place_orders(%" PRId64 ", a.u, array_fill(%" PRId64 "::bigint, array[%d]),"
             "  case when %d = 0 then a.k end)",
             batch * BATCH, (batch + 1) * BATCH - 1, voucher, batch + 1, BATCH,
             (int)(batch % 2));
    return time_of(statement, "1000");
}

/* The first shoppers again: 20 with the key of their order, 20 without one. */
static int64_t time_of_known(int64_t voucher)
{
    char statement[512];

    snprintf(statement, sizeof(statement),
             "select string_agg(v::text, '') from (select array_agg(u) as u,"
             " array_agg(case when n < 20 then 'k' || u end) as k from"
             "  (select n, 1 + (n * 1000003) %% 16777213 as u"
             "   from generate_series(0::bigint, 39) n) u) a,"
             " place_orders(%" PRId64 ", a.u, array_fill(0::bigint, array[40]), a.k) p,"
             " unnest(p.verdicts) v",
             voucher);
    return time_of(statement, "2222222222222222222233333333333333333333");
}

/* As the service asks before it refuses a request that has a key. */
static int64_t time_of_look_ups(int64_t voucher)
{
    char statement[512];

    snprintf(
        statement, sizeof(statement),
        "select string_agg(verdict::text, '') from"
        " find_orders(%" PRId64 ", (select array_agg(n::bigint) from"
        "  generate_series(100000001, 100000040) n), array_fill('k'::text, array[40]))",
        voucher);
    return time_of(statement, "4444444444444444444444444444444444444444");
}

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

struct medians {
    int64_t new_us, known_us, look_up_us;
};

static int64_t median(int64_t *samples)
{
    qsort(samples, SAMPLES, sizeof(*samples), compare);
    return samples[SAMPLES / 2];
}

/* Places SAMPLES batches from number `batch` on. */
static struct medians measure(int64_t voucher, int64_t batch)
{
    int64_t new_us[SAMPLES], known_us[SAMPLES], look_up_us[SAMPLES];

    for (int i = 0; i < SAMPLES; i++) {
        new_us[i] = time_of_new(voucher, batch + i);
        known_us[i] = time_of_known(voucher);
        look_up_us[i] = time_of_look_ups(voucher);
    }
    return (struct medians){median(new_us), median(known_us), median(look_up_us)};
}

static void assert_not_slower(const char *what, int64_t before_us, int64_t after_us)
{
    print_message("%s: %" PRId64 " us at first, %" PRId64 " us behind %d orders\n", what,
                  before_us, after_us, ROWS);
    assert_true(after_us < SLOWER_AT_MOST * before_us);
}

static void test_place_orders__a_million_orders_do_not_slow_it(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 100000000, 1);
    int64_t batch = SAMPLES;
    struct medians before, after;

    /* the worst that a planner can be told: no rows, and no news of any later */
    sandbox_do(sandbox, "alter table voucher_order set (autovacuum_enabled = off)");
    sandbox_do(sandbox, "analyze");
    before = measure(voucher, 0);
    while (batch * BATCH < ROWS)
        time_of_new(voucher, batch++);
    after = measure(voucher, batch);
    assert_not_slower("1000 new shoppers", before.new_us, after.new_us);
    assert_not_slower("40 known shoppers", before.known_us, after.known_us);
    assert_not_slower("40 look-ups", before.look_up_us, after.look_up_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_orders__a_million_orders_do_not_slow_it),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
