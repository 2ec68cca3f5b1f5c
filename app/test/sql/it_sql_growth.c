/*
 * it_sql_growth.c - sessions whose plans were made while the tables were empty, and a
 * million orders and twenty thousand vouchers later.
 *
 * A plan that has turned into a scan makes a batch hundreds of times slower; the bound
 * leaves room for deeper indexes, a loaded machine and a checkpoint. Takes about 15 s.
 */
#include "app/test/store/it_store.h"

#define ROWS           1000000
#define BATCH          1000
#define SAMPLES        30
#define READS          10
#define VOUCHERS       20000
#define SLOWER_AT_MOST 5

static struct sandbox *sandbox;
static PGconn *session;
static struct shop *shop;

static int setup(void **state)
{
    *state = fixture_open();
    sandbox = sandbox_open(*state, "growth");
    /* the worst that a planner can be told: no rows, and no snapshot of any later */
    sandbox_do(sandbox, "alter table voucher_order set (autovacuum_enabled = off)");
    sandbox_do(sandbox, "alter table voucher set (autovacuum_enabled = off)");
    sandbox_do(sandbox, "analyze voucher, voucher_order");
    session = sandbox_connect(sandbox);
    shop = shop_open(sandbox, 1, PATIENCE_MS);
    return 0;
}

static int teardown(void **state)
{
    shop_close(shop);
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
    return time_of(statement, "0000000000000000000000000000000000000000");
}

/* Orders of shoppers who came early: a payment, a cancel, and an expiry of many. */
static int64_t time_of_changes(int64_t voucher, int64_t sample)
{
    char statement[1024];

    snprintf(
        statement, sizeof(statement),
        "with mine as (select array_agg(o.id) as ids from generate_series(%" PRId64
        "::bigint, %" PRId64 ") n cross join lateral (select id from voucher_order"
        "  where user_id = 1 + (n * 1000003) %% 16777213 and voucher_id = %" PRId64
        "  order by slot limit 1) o)"
        " select (pay_order(%" PRId64 ", ids[1], 'payment:1', 'ref', 100)).verdict ||"
        " ' ' || (refund_order(%" PRId64 ", ids[1], 'admin:1')).verdict || ' ' ||"
        " (cancel_order(%" PRId64 ", ids[2], 'admin:1')).verdict || ' ' ||"
        " expire_orders(%" PRId64 ", ids) from mine",
        sample * 100, sample * 100 + 99, voucher, voucher, voucher, voucher, voucher);
    return time_of(statement, "1 1 1 0");
}

struct answers {
    unsigned count;
    bool are_all;
};

static void count_answer(struct answers *answers, enum status status)
{
    assert_true(status == STATUS_OK || status == STATUS_NOT_FOUND);
    answers->are_all = ++answers->count == 6 * READS;
}

static void on_order(enum status status, const struct order *order UNUSED, void *arg)
{
    count_answer(arg, status);
}

static void on_orders(enum status status, const struct order *orders UNUSED,
                      size_t count UNUSED, void *arg)
{
    count_answer(arg, status);
}

static void on_vouchers(enum status status, const struct voucher *vouchers UNUSED,
                        size_t count UNUSED, int64_t now_us UNUSED, void *arg)
{
    count_answer(arg, status);
}

static void on_events(enum status status, const struct event *events UNUSED,
                      size_t count UNUSED, void *arg)
{
    count_answer(arg, status);
}

/* READS of each call that reads, by a service's connection. */
static int64_t time_of_reads(int64_t voucher)
{
    int64_t start_us = clock_mono_us();
    struct answers answers = {0};

    for (int64_t i = 0; i < READS; i++) {
        struct order_filter orders = {.user_id = 1 + i * 1000003 % 16777213, .limit = 20};
        struct voucher_filter open = {.state = VOUCHER_OPEN, .limit = 20};

        struct event_filter whole = {.voucher_id = voucher, .limit = 20};
        struct event_filter of_order = {
            .voucher_id = voucher, .order_id = (i << 20) + voucher, .limit = 20};

        store_list_events(shop->store, &whole, on_events, &answers);
        store_list_events(shop->store, &of_order, on_events, &answers);
        store_read_order(shop->store, (i << 20) + voucher, 0, on_order, &answers);
        store_list_orders(shop->store, &orders, on_orders, &answers);
        store_read_vouchers(shop->store, &voucher, 1, on_vouchers, &answers);
        store_list_vouchers(shop->store, &open, on_vouchers, &answers);
    }
    shop_await(shop, &answers.are_all);
    return clock_mono_us() - start_us;
}

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

struct medians {
    int64_t new_us, known_us, look_up_us, read_us, change_us;
};

static int64_t median(int64_t *samples)
{
    qsort(samples, SAMPLES, sizeof(*samples), compare);
    return samples[SAMPLES / 2];
}

/* Places SAMPLES batches from number `batch` on. */
static struct medians measure(int64_t voucher, int64_t batch)
{
    int64_t new_us[SAMPLES], known_us[SAMPLES], look_up_us[SAMPLES], read_us[SAMPLES];
    int64_t change_us[SAMPLES];

    for (int i = 0; i < SAMPLES; i++) {
        new_us[i] = time_of_new(voucher, batch + i);
        known_us[i] = time_of_known(voucher);
        look_up_us[i] = time_of_look_ups(voucher);
        read_us[i] = time_of_reads(voucher);
        change_us[i] = time_of_changes(voucher, 10 * batch + i + 1);
    }
    return (struct medians){median(new_us), median(known_us), median(look_up_us),
                            median(read_us), median(change_us)};
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

    before = measure(voucher, 0);
    while (batch * BATCH < ROWS)
        time_of_new(voucher, batch++);
    for (int i = 0; i < VOUCHERS / 1000; i++)
        sandbox_do(sandbox,
                   "select count(*) from generate_series(1, 1000) n, create_voucher("
                   "nextval('voucher_id_seq'), 'x', '', 1, 1, 1, 1, now(),"
                   " now() + n * interval '1 min', 60)");
    after = measure(voucher, batch);
    assert_not_slower("1000 new shoppers", before.new_us, after.new_us);
    assert_not_slower("40 known shoppers", before.known_us, after.known_us);
    assert_not_slower("40 reads", before.read_us, after.read_us);
    assert_not_slower("40 look-ups", before.look_up_us, after.look_up_us);
    assert_not_slower("changes", before.change_us, after.change_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_orders__a_million_orders_do_not_slow_it),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
