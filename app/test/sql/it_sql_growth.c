/*
 * it_sql_growth.c - calls cost the same before and after a million orders, for sessions that
 * planned them while the tables were empty, and with many ended orders of one shopper.
 *
 * A plan that becomes a scan costs hundreds of times more. Calls of the functions are compared
 * by the pages that they read. The reads of the service run in its own
 * connection, where pages cannot be counted; they are compared by time, with a wide margin.
 */
#include "app/test/store/it_store.h"

#define ROWS       1000000
#define BATCH      1000
#define SAMPLES    30
#define READS      10
#define VOUCHERS   20000
#define ENDED      400000
#define MORE_PAGES 5
#define MORE_TIME  50

static struct sandbox *sandbox;
static PGconn *session;
static struct shop *shop;

static int open_servers(void **state)
{
    *state = fixture_open();
    return 0;
}

static int setup(void **state)
{
    static int schemas;
    char schema[32];

    snprintf(schema, sizeof(schema), "growth_%d", ++schemas);
    sandbox = sandbox_open(*state, schema);
    /* the worst case for a planner: no rows, and no statistics of later ones */
    sandbox_do(sandbox, "alter table voucher_order set (autovacuum_enabled = off)");
    sandbox_do(sandbox, "alter table voucher set (autovacuum_enabled = off)");
    sandbox_do(sandbox, "analyze voucher, voucher_order");
    session = sandbox_connect(sandbox);
    shop = shop_open(sandbox, 1, UNHURRIED_MS);
    return 0;
}

static int teardown(void **state UNUSED)
{
    shop_close(shop);
    PQfinish(session);
    sandbox_close(sandbox);
    return 0;
}

static int close_servers(void **state)
{
    return fixture_close(*state);
}

#define GROWTH_CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* Pages read by a statement that returns `expected`. */
static int64_t pages_of(const char *statement, const char *expected)
{
    PGresult *result;
    int64_t pages = sandbox_pages(session, statement, &result);

    assert_string_equal(PQgetvalue(result, 0, 0), expected);
    PQclear(result);
    return pages;
}

/* Orders of new shoppers, scattered over the index; every other batch has keys. */
static int64_t pages_of_new(int64_t voucher, int64_t batch)
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
    return pages_of(statement, "1000");
}

/* Repeated orders of the first shoppers: 20 with the key of their order, 20 without a key. */
static int64_t pages_of_known(int64_t voucher)
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
    return pages_of(statement, "2222222222222222222233333333333333333333");
}

/* The service looks up a key before it refuses a request. */
static int64_t pages_of_look_ups(int64_t voucher)
{
    char statement[512];

    snprintf(
        statement, sizeof(statement),
        "select string_agg(verdict::text, '') from"
        " find_orders(%" PRId64 ", (select array_agg(n::bigint) from"
        "  generate_series(100000001, 100000040) n), array_fill('k'::text, array[40]))",
        voucher);
    return pages_of(statement, "0000000000000000000000000000000000000000");
}

/* Changes of old orders: a payment, a refund, a cancellation, and an expiry of many. */
static int64_t pages_of_changes(int64_t voucher, int64_t sample)
{
    char statement[1024];

    snprintf(statement, sizeof(statement),
             "with mine as (select array_agg(o.id) as ids from generate_series(%" PRId64
             "::bigint, %" PRId64 ") n cross join lateral (select id from voucher_order"
             "  where segment_of(voucher_id) = 0 and voucher_id = %" PRId64
             "   and user_id = 1 + (n * 1000003) %% 16777213 order by slot limit 1) o)"
             " select (pay_order(%" PRId64
             ", ids[1], 'payment:1', 'ref ' || ids[1], 100)).verdict ||"
             " ' ' || (refund_order(%" PRId64 ", ids[1], 'admin:1')).verdict || ' ' ||"
             " (cancel_order(%" PRId64 ", ids[2], 'admin:1')).verdict || ' ' ||"
             " expire_orders(%" PRId64 ", ids) from mine",
             sample * 100, sample * 100 + 99, voucher, voucher, voucher, voucher,
             voucher);
    return pages_of(statement, "1 1 1 0");
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

/* Microseconds for READS of each call that reads, in a connection of the service. */
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
    int64_t new_pages, known_pages, look_up_pages, change_pages, read_us;
};

static int64_t median(int64_t *samples)
{
    qsort(samples, SAMPLES, sizeof(*samples), compare);
    return samples[SAMPLES / 2];
}

/* Places SAMPLES batches from number `batch` on. */
static struct medians measure(int64_t voucher, int64_t batch)
{
    int64_t new_pages[SAMPLES], known_pages[SAMPLES], look_up_pages[SAMPLES];
    int64_t change_pages[SAMPLES], read_us[SAMPLES];

    for (int i = 0; i < SAMPLES; i++) {
        new_pages[i] = pages_of_new(voucher, batch + i);
        known_pages[i] = pages_of_known(voucher);
        look_up_pages[i] = pages_of_look_ups(voucher);
        change_pages[i] = pages_of_changes(voucher, 10 * batch + i + 1);
        read_us[i] = time_of_reads(voucher);
    }
    return (struct medians){median(new_pages), median(known_pages), median(look_up_pages),
                            median(change_pages), median(read_us)};
}

static void assert_grew(const char *what, int64_t before, int64_t after, int orders,
                        int64_t at_most)
{
    print_message("%s: %" PRId64 " at first, %" PRId64 " after %d orders\n", what, before,
                  after, orders);
    if (after > at_most * before)
        fail_msg("%s: more than %" PRId64 " times as many", what, at_most);
}

static void test_place_orders__costs_the_same_after_a_million_orders(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 100000000, 1);
    int64_t batch = SAMPLES;
    struct medians before, after;

    before = measure(voucher, 0);
    while (batch * BATCH < ROWS)
        pages_of_new(voucher, batch++);
    for (int i = 0; i < VOUCHERS / 1000; i++)
        sandbox_do(sandbox,
                   "select count(*) from generate_series(1, 1000) n, create_voucher("
                   "nextval('voucher_id_seq'), 'x', '', 1, 1, 1, 1, now(),"
                   " now() + n * interval '1 min', 60)");
    after = measure(voucher, batch);
    assert_grew("pages for 1000 new shoppers", before.new_pages, after.new_pages, ROWS,
                MORE_PAGES);
    assert_grew("pages for 40 known shoppers", before.known_pages, after.known_pages,
                ROWS, MORE_PAGES);
    assert_grew("pages for 40 look-ups", before.look_up_pages, after.look_up_pages, ROWS,
                MORE_PAGES);
    assert_grew("pages for changes", before.change_pages, after.change_pages, ROWS,
                MORE_PAGES);
    assert_grew("microseconds for 60 reads", before.read_us, after.read_us, ROWS,
                MORE_TIME);
}

/* -- one shopper -- */

/* Shopper 1 places an order and cancels it. Then a request has the fence of an ended order, and the
   service looks for an order that was not placed. */
static int64_t pages_of_one_shopper(int64_t voucher)
{
    static int64_t fence = INT64_C(2) * ENDED;
    char statement[256];
    PGresult *result;
    int64_t pages;

    snprintf(statement, sizeof(statement),
             "select order_ids[1] from place_orders(%" PRId64 ", '{1}', '{%" PRId64
             "}', null)",
             voucher, ++fence);
    pages = sandbox_pages(session, statement, &result);
    snprintf(statement, sizeof(statement),
             "select (cancel_order(%" PRId64 ", %s, 'shopper:1')).verdict", voucher,
             PQgetvalue(result, 0, 0));
    PQclear(result);
    pages += pages_of(statement, "1");
    snprintf(statement, sizeof(statement),
             "select verdicts[1] from place_orders(%" PRId64 ", '{1}', '{1}', null)",
             voucher);
    pages += pages_of(statement, "7");
    snprintf(statement, sizeof(statement),
             "select verdict from resolve_orders(%" PRId64 ", '{1}', '{%" PRId64
             "}', '{NULL}')",
             voucher, fence + 1);
    return pages + pages_of(statement, "0");
}

static int64_t median_of_one_shopper(int64_t voucher)
{
    int64_t pages[SAMPLES];

    for (int i = 0; i < SAMPLES; i++)
        pages[i] = pages_of_one_shopper(voucher);
    return median(pages);
}

/* Adds cancelled orders with the fences `from` up to `to`. */
static void add_ended(int64_t voucher, int from, int to)
{
    sandbox_do(sandbox,
               "insert into voucher_order (voucher_id, id, user_id, fence, price_cents,"
               " created_at, expires_at, status) select %" PRId64
               ", next_event_id(%" PRId64 "), 1, n, 100, now(), now() + interval '900 s',"
               " 'cancelled' from generate_series(%d, %d) n",
               voucher, voucher, from, to);
}

/* With limit 1, slot 1 is free. With limit 2, a live order has slot 1. */
static void test_place_orders__costs_the_same_with_ended_orders(void **state UNUSED)
{
    static const int counts[] = {ENDED / 4, ENDED};

    for (int limit = 1; limit <= 2; limit++) {
        int64_t voucher = sandbox_voucher(sandbox, 100000000, limit), before;
        char what[80];

        if (limit == 2)
            assert_int_equal(
                sandbox_number(sandbox,
                               "select verdicts[1] from place_orders(%" PRId64
                               ", '{1}', '{%d}', null)",
                               voucher, ENDED + 1),
                1);
        before = median_of_one_shopper(voucher);
        snprintf(what, sizeof(what), "pages for a shopper with limit %d", limit);
        for (size_t i = 0; i < COUNT_OF(counts); i++) {
            add_ended(voucher, i == 0 ? 1 : counts[i - 1] + 1, counts[i]);
            assert_grew(what, before, median_of_one_shopper(voucher), counts[i],
                        MORE_PAGES);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GROWTH_CASE(test_place_orders__costs_the_same_after_a_million_orders),
        GROWTH_CASE(test_place_orders__costs_the_same_with_ended_orders),
    };

    return cmocka_run_group_tests(tests, open_servers, close_servers);
}
