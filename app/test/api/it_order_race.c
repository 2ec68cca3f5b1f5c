/* it_order_race.c - many shoppers at once, on two instances. */
#include "app/test/load_clients.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static struct service *one, *two;

static int setup(void **state)
{
    struct fixture *fixture = fixture_open();

    *state = fixture;
    one = fixture_serve(fixture, NULL);
    two = fixture_serve(fixture, NULL);
    fixture_share_services(fixture);
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

/* Create a voucher at one instance and wait until both know it. */
static void make_everywhere(const struct sale *sale, char *ret_id)
{
    char target[64];

    make_voucher(one, sale, ret_id);
    snprintf(target, sizeof(target), "/v1/vouchers/%s", ret_id);
    service_await(two, target, 200);
}

static bool no_locks(void *arg)
{
    return redis_order_locks(arg) == 0;
}

static void assert_locks_go(void **state)
{
    AWAIT(no_locks, *state);
}

static void test_race__a_thousand_for_a_hundred(void **state)
{
    struct order_burst burst = {.first_user = 1000};
    struct load_plan plan = {
        {one, two},           .connections = 64,      .requests = 1000,
        .write = burst_write, .answer = burst_answer, .arg = &burst};

    make_everywhere(&(struct sale){.stock = 100}, burst.voucher_id);
    assert_int_equal(load_run(&plan), 1000);
    assert_int_equal(burst.tally[TALLY_PLACED], 100);
    assert_int_equal(burst.tally[TALLY_SOLD_OUT], 900);
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), 100);
    assert_int_equal(sql_broken_guarantees(*state), 0);
    assert_locks_go(state);
}

/* Repeated requests. Shopper k % users sends request k; all have the same key, or none has one. */
struct repeats {
    struct order_burst burst;
    int64_t users;
    const char *key; /* a header line, or NULL */
    char order_id[ID_SIZE];
    size_t strangers; /* answers that name another order than the first */
};

static size_t repeats_write(size_t k, char *buf, size_t size, void *arg)
{
    struct repeats *repeats = arg;
    char target[64];
    struct client_request request = {.method = "POST", .target = target};

    snprintf(target, sizeof(target), "/v1/vouchers/%s/orders", repeats->burst.voucher_id);
    request.headers = repeats->key;
    request.token = shopper(repeats->burst.first_user + (int64_t)k % repeats->users);
    return client_format(&request, buf, size);
}

static void repeats_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct repeats *repeats = arg;
    const char *id = reply_text(reply, reply->status == 409 ? "order_id" : "id");

    burst_answer(k, reply, &repeats->burst);
    if (repeats->users > 1 || id[0] == '\0')
        return;
    if (repeats->order_id[0] == '\0')
        snprintf(repeats->order_id, ID_SIZE, "%s", id);
    else if (strcmp(repeats->order_id, id) != 0)
        repeats->strangers++;
}

static void run_repeats(struct repeats *repeats, size_t connections, size_t requests)
{
    struct load_plan plan = {
        {one, two},        .connections = connections, .requests = requests,
        .lock_step = true, .write = repeats_write,     .answer = repeats_answer,
        .arg = repeats};

    assert_int_equal(load_run(&plan), requests);
}

/* Without a key the other answers are already_ordered, with a key they repeat the order. */
static void test_race__fifty_requests_of_one_shopper_place_one_order(void **state)
{
    static const struct {
        const char *key;
        int per_user_limit;
        enum tally others;
    } rows[] = {{NULL, 1, TALLY_ALREADY_ORDERED},
                {"Idempotency-Key: one\r\n", 5, TALLY_REPEATED}};

    for (size_t i = 0; i < 20 * COUNT_OF(rows); i++) {
        size_t row = i % COUNT_OF(rows);
        struct repeats repeats = {
            .burst = {.first_user = 3000 + (int64_t)i}, .users = 1, .key = rows[row].key};
        const size_t *tally = repeats.burst.tally;

        make_everywhere(
            &(struct sale){.stock = 100, .per_user_limit = rows[row].per_user_limit},
            repeats.burst.voucher_id);
        run_repeats(&repeats, 50, 50);
        assert_int_equal(tally[TALLY_PLACED], 1);
        assert_int_equal(tally[rows[row].others] + tally[TALLY_IN_PROGRESS], 49);
        assert_int_equal(repeats.strangers, 0);
        assert_int_equal(sql_live_orders(*state, repeats.burst.voucher_id), 1);
    }
    assert_locks_go(state);
}

static void test_race__a_limit_of_three_holds(void **state)
{
    struct repeats repeats = {.burst = {.first_user = 5000}, .users = 10};

    make_everywhere(&(struct sale){.stock = 1000, .per_user_limit = 3},
                    repeats.burst.voucher_id);
    run_repeats(&repeats, 60, 1200); /* 120 of each shopper, 6 at once */
    assert_int_equal(repeats.burst.tally[TALLY_PLACED], 30);
    assert_int_equal(sql_live_orders(*state, repeats.burst.voucher_id), 30);
    assert_int_equal(sql_number(*state,
                                "select max(n) from (select count(*) as n from "
                                "voucher_order where voucher_id = %s group by user_id) u",
                                repeats.burst.voucher_id),
                     3);
    assert_locks_go(state);
}

/* Repeats of many shoppers while the stock runs out: all of it is sold. */
static void test_race__repeats_use_no_stock(void **state)
{
    struct repeats repeats = {.burst = {.first_user = 6000}, .users = 150};

    make_everywhere(&(struct sale){.stock = 140}, repeats.burst.voucher_id);
    run_repeats(&repeats, 50, 1500);
    assert_int_equal(repeats.burst.tally[TALLY_PLACED], 140);
    assert_int_equal(repeats.burst.tally[TALLY_OTHER], 0);
    assert_int_equal(repeats.burst.tally[TALLY_UNAVAILABLE], 0);
    assert_int_equal(sql_live_orders(*state, repeats.burst.voucher_id), 140);
    assert_locks_go(state);
}

/* -- vouchers side by side -- */

#define MANY 20

struct mix {
    char voucher_ids[MANY][ID_SIZE];
    size_t of_other; /* request k goes to the last voucher if k is a multiple of this */
    int64_t sent_us[8000];
    int64_t total_us[2]; /* sum of latencies, of the first voucher and of the last */
    size_t placed;
    size_t placed_other;
};

static size_t mix_write(size_t k, char *buf, size_t size, void *arg)
{
    struct mix *mix = arg;
    size_t which = mix->of_other == 0 ? k % MANY : k % mix->of_other == 0 ? 1u : 0u;
    char target[64];
    struct client_request request = {.method = "POST", .target = target};

    snprintf(target, sizeof(target), "/v1/vouchers/%s/orders", mix->voucher_ids[which]);
    request.token = shopper(10000 + (int64_t)k);
    mix->sent_us[k] = clock_mono_us();
    return client_format(&request, buf, size);
}

static void mix_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct mix *mix = arg;
    int64_t took_us = clock_mono_us() - mix->sent_us[k];

    mix->placed += reply->status == 201 ? 1 : 0;
    if (mix->of_other == 0)
        return;
    mix->total_us[k % mix->of_other == 0] += took_us;
    mix->placed_other += k % mix->of_other == 0 && reply->status == 201;
}

static void test_race__many_vouchers_at_once(void **state)
{
    struct mix *mix = calloc(1, sizeof(*mix));
    struct load_plan plan = {{one, two},         .connections = 100,   .requests = 4000,
                             .write = mix_write, .answer = mix_answer, .arg = mix};

    for (size_t i = 0; i < MANY; i++)
        make_everywhere(&(struct sale){.stock = 150}, mix->voucher_ids[i]);
    assert_int_equal(load_run(&plan), 4000);
    assert_int_equal(mix->placed, MANY * 150);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(sql_live_orders(*state, mix->voucher_ids[i]), 150);
    free(mix);
}

/* On average an order for the quiet voucher takes at most three times as long as one for the hot
   voucher. */
static void test_race__a_hot_voucher_does_not_starve_a_quiet_one(void **state)
{
    struct mix *mix = calloc(1, sizeof(*mix));
    struct load_plan plan = {{one, two},         .connections = 256,   .requests = 8000,
                             .write = mix_write, .answer = mix_answer, .arg = mix};

    (void)state;
    mix->of_other = 100;
    make_everywhere(&(struct sale){.stock = 100000}, mix->voucher_ids[0]);
    make_everywhere(&(struct sale){.stock = 100000}, mix->voucher_ids[1]);
    assert_int_equal(load_run(&plan), 8000);
    assert_int_equal(mix->placed, 8000);
    assert_int_equal(mix->placed_other, 80);
    ASSERT_BETWEEN(mix->total_us[1] / 80, 1, mix->total_us[0] / 7920 * 3);
    free(mix);
}

/* Another session holds the row of one voucher, so the orders for this voucher wait. Orders for
   the other voucher are placed meanwhile. */
static void test_race__a_stuck_voucher_does_not_stop_another(void **state)
{
    char stuck[ID_SIZE], quiet[ID_SIZE], head[1024], statement[80];
    struct client *waiting[40];
    struct client_wait wait = {.timeout_ms = CLIENT_TIMEOUT_MS};

    make_everywhere(&(struct sale){.stock = 100}, stuck);
    make_everywhere(&(struct sale){.stock = 100}, quiet);
    snprintf(statement, sizeof(statement),
             "select 1 from voucher where id = %s for update", stuck);
    sql_session(*state, statement);
    for (size_t i = 0; i < COUNT_OF(waiting); i++) {
        char target[64];
        struct client_request request = {.method = "POST", .target = target};

        snprintf(target, sizeof(target), "/v1/vouchers/%s/orders", stuck);
        request.token = shopper(30000 + (int64_t)i);
        waiting[i] = client_open(&one->address);
        assert_true(
            client_write(waiting[i], head, client_format(&request, head, sizeof(head))));
    }
    for (int64_t user = 31000; user < 31020; user++)
        EXPECT(place_order(one, user, quiet, NULL), 201, NULL);
    assert_int_equal(sql_live_orders(*state, stuck), 0);
    sql_session(*state, NULL);
    for (size_t i = 0; i < COUNT_OF(waiting); i++) {
        EXPECT(client_read(waiting[i], &wait), 201, NULL);
        client_close(waiting[i]);
    }
}

/* -- restocks -- */

static size_t restock_write(size_t k, char *buf, size_t size, void *arg)
{
    char target[64];
    struct client_request request = {
        .method = "POST", .target = target, .token = admin(), .body = "{\"add\":1}"};

    (void)k;
    snprintf(target, sizeof(target), "/v1/vouchers/%s/restock", (const char *)arg);
    return client_format(&request, buf, size);
}

static void restock_answer(size_t k, const struct client_reply *reply, void *arg)
{
    (void)k;
    (void)arg;
    EXPECT(reply, 200, NULL);
}

static void test_race__restocks_add_up(void **state)
{
    char id[ID_SIZE];
    struct load_plan plan = {{one, two},
                             .connections = 20,
                             .requests = 200,
                             .write = restock_write,
                             .answer = restock_answer,
                             .arg = id};

    make_everywhere(&(struct sale){.stock = 1}, id);
    assert_int_equal(load_run(&plan), 200);
    assert_int_equal(
        sql_number(*state, "select stock_left from voucher where id = %s", id), 201);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_race__a_thousand_for_a_hundred),
        CASE(test_race__fifty_requests_of_one_shopper_place_one_order),
        CASE(test_race__a_limit_of_three_holds),
        CASE(test_race__repeats_use_no_stock),
        CASE(test_race__many_vouchers_at_once),
        CASE(test_race__a_hot_voucher_does_not_starve_a_quiet_one),
        CASE(test_race__a_stuck_voucher_does_not_stop_another),
        CASE(test_race__restocks_add_up),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
