/* it_life.c - orders after they are placed: paid, cancelled, refunded, expired; by HTTP. */
#include "app/test/load_clients.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PRICE "8000"

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

/* After each test the audit must pass. */
static int end_test(void **state)
{
    const struct command_result *audit =
        fixture_run(*state, NULL, (const char *const[]){"seckill", "audit", NULL});

    if (audit->code != 0)
        print_error("%s%s", audit->out, audit->err);
    return fixture_end_test(state) != 0 || audit->code != 0;
}

#define LIFE_CASE(test) cmocka_unit_test_teardown(test, end_test)

static void order(int64_t user_id, const char *voucher_id, char *ret_id)
{
    const struct client_reply *reply =
        EXPECT(place_order(one, user_id, voucher_id, NULL), 201, NULL);

    snprintf(ret_id, ID_SIZE, "%s", reply_text(reply, "id"));
}

/* Shopper 7 orders a new voucher. */
static void make_order(char *ret_voucher_id, char *ret_id)
{
    make_voucher(one, &(struct sale){.stock = 5}, ret_voucher_id);
    order(7, ret_voucher_id, ret_id);
}

static const struct client_reply *pay(const char *id, const char *body)
{
    return request(one, payment(), body, "POST /v1/orders/%s/pay", id);
}

/* Each order has a different payment_ref. */
static const struct client_reply *pay_in_full(const char *id)
{
    char body[128];

    fill("{\"payment_ref\":\"ref {}\",\"amount_cents\":" PRICE "}", id, body,
         sizeof(body));
    return pay(id, body);
}

static const struct client_reply *read_order(const char *id)
{
    return EXPECT(request(one, admin(), NULL, "GET /v1/orders/%s", id), 200, NULL);
}

static void assert_status(const char *id, const char *status)
{
    assert_string_equal(reply_text(read_order(id), "status"), status);
}

static int64_t stock_left(struct service *service, const char *voucher_id)
{
    return reply_number(
        EXPECT(request(service, NULL, NULL, "GET /v1/vouchers/%s", voucher_id), 200,
               NULL),
        "stock_left");
}

struct awaited_order {
    const char *id, *status;
};

static bool has_status(void *arg)
{
    const struct awaited_order *awaited = arg;

    return strcmp(reply_text(read_order(awaited->id), "status"), awaited->status) == 0;
}

struct hopeful {
    struct service *service;
    int64_t user_id;
    const char *voucher_id;
};

static bool can_buy(void *arg)
{
    const struct hopeful *hopeful = arg;

    return place_order(hopeful->service, hopeful->user_id, hopeful->voucher_id, NULL)
               ->status == 201;
}

/* -- single changes -- */

static void test_pay__repeated_changes_nothing(void **state UNUSED)
{
    char voucher[ID_SIZE], id[ID_SIZE], paid_at[40], body[128];
    const struct client_reply *reply;

    make_order(voucher, id);
    EXPECT(pay(id, "{\"payment_ref\":\"ref\",\"amount_cents\":7999}"), 409,
           "wrong_amount");
    assert_status(id, "unpaid");
    reply = EXPECT(pay_in_full(id), 200, NULL);
    assert_string_equal(reply_text(reply, "id"), id);
    assert_string_equal(reply_text(reply, "status"), "paid");
    snprintf(paid_at, sizeof(paid_at), "%s", reply_text(reply, "paid_at"));
    assert_int_not_equal(paid_at[0], '\0');
    reply = EXPECT(pay_in_full(id), 200, NULL);
    assert_string_equal(reply_text(reply, "paid_at"), paid_at);
    EXPECT(pay(id, "{\"payment_ref\":\"other\",\"amount_cents\":" PRICE "}"), 409,
           "wrong_state");
    fill("{\"payment_ref\":\"ref {}\",\"amount_cents\":1}", id, body, sizeof(body));
    EXPECT(pay(id, body), 409, "wrong_amount");
    assert_string_equal(reply_text(read_order(id), "paid_at"), paid_at);
    assert_int_equal(stock_left(one, voucher), 4);
    EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/refund", id), 200, NULL);
    EXPECT(pay_in_full(id), 409, "wrong_state");
    assert_status(id, "refunded");
}

/* Whether a line of the log has this pattern of grep. */
static bool has_logged(void *pattern)
{
    char command[400];

    snprintf(command, sizeof(command), "grep -q '%s' %s", (const char *)pattern,
             one->log_path);
    return system(command) == 0; // NOLINT(cert-env33-c, concurrency-mt-unsafe)
}

static void test_pay__refuses_the_payment_of_another_order(void **state UNUSED)
{
    static const char *const targets[] = {"same voucher", "another voucher"};
    char voucher[ID_SIZE], first[ID_SIZE], id[ID_SIZE], body[128], line[128];

    make_order(voucher, first);
    EXPECT(pay_in_full(first), 200, NULL);
    fill("{\"payment_ref\":\"ref {}\",\"amount_cents\":" PRICE "}", first, body,
         sizeof(body));
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        if (i == 0)
            order(8, voucher, id);
        else
            make_order(voucher, id);
        EXPECT(pay(id, body), 409, "payment_ref_used");
        assert_status(id, "unpaid");
        fill("payment_refused.*order_id={} .*code=payment_ref_used", id, line,
             sizeof(line));
        AWAIT(has_logged, line);
        EXPECT(pay_in_full(id), 200, NULL);
    }
    EXPECT(pay(first, body), 200, NULL);
}

static void test_pay__logs_one_line_for_any_payment_ref(void **state UNUSED)
{
    char voucher[ID_SIZE], id[ID_SIZE], line[128];

    make_order(voucher, id);
    EXPECT(pay(id, "{\"payment_ref\":\"a\\\" b=\\\\\\nts=1\",\"amount_cents\":1}"), 409,
           "wrong_amount");
    fill("payment_refused.*order_id={} .*payment_ref=\"a. b=  ts=1\"$", id, line,
         sizeof(line));
    AWAIT(has_logged, line);
}

static void test_cancel__returns_the_stock(void **state)
{
    char voucher[ID_SIZE], id[ID_SIZE], again[ID_SIZE];

    make_voucher(one, &(struct sale){.stock = 1}, voucher);
    order(7, voucher, id);
    EXPECT(place_order(one, 8, voucher, NULL), 409, "sold_out");
    assert_string_equal(
        reply_text(EXPECT(request(one, shopper(7), NULL, "POST /v1/orders/%s/cancel", id),
                          200, NULL),
                   "status"),
        "cancelled");
    EXPECT(request(one, shopper(7), NULL, "POST /v1/orders/%s/cancel", id), 409,
           "wrong_state");
    EXPECT(pay_in_full(id), 409, "wrong_state");
    AWAIT(can_buy, &(struct hopeful){one, 7, voucher});
    snprintf(again, sizeof(again), "%" PRId64,
             sql_number(*state,
                        "select id from voucher_order where voucher_id = %s and slot = 1",
                        voucher));
    assert_string_not_equal(again, id);
    EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/cancel", again), 200, NULL);
    assert_int_equal(stock_left(one, voucher), 1);
}

static void test_refund__is_of_paid_orders(void **state UNUSED)
{
    char voucher[ID_SIZE], id[ID_SIZE];

    make_order(voucher, id);
    EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/refund", id), 409,
           "wrong_state");
    EXPECT(pay_in_full(id), 200, NULL);
    EXPECT(request(one, shopper(7), NULL, "POST /v1/orders/%s/cancel", id), 409,
           "wrong_state");
    assert_string_equal(
        reply_text(EXPECT(request(one, payment(), NULL, "POST /v1/orders/%s/refund", id),
                          200, NULL),
                   "status"),
        "refunded");
    EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/refund", id), 409,
           "wrong_state");
    assert_int_equal(stock_left(one, voucher), 5);
    order(7, voucher, id);
}

static void test_redeem__is_final(void **state UNUSED)
{
    char voucher[ID_SIZE], id[ID_SIZE];

    make_order(voucher, id);
    EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/redeem", id), 409,
           "wrong_state");
    EXPECT(pay_in_full(id), 200, NULL);
    EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/redeem", id), 200, NULL);
    EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/redeem", id), 409,
           "wrong_state");
    EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/refund", id), 409,
           "wrong_state");
    EXPECT(place_order(one, 7, voucher, NULL), 409, "already_ordered");
    assert_int_equal(stock_left(one, voucher), 4);
}

/* -- expiry and return -- */

static void test_expiry__not_before_its_time(void **state UNUSED)
{
    char voucher[ID_SIZE], id[ID_SIZE];
    struct hopeful same = {one, 7, voucher};
    struct awaited_order awaited = {id, "expired"};
    int64_t placed_us;

    make_voucher(one, &(struct sale){.stock = 1}, voucher);
    EXPECT(
        request(one, admin(), "{\"pay_within_s\":6}", "PATCH /v1/vouchers/%s", voucher),
        200, NULL);
    placed_us = clock_mono_us();
    order(7, voucher, id);
    EXPECT(place_order(one, 8, voucher, NULL), 409, "sold_out");
    AWAIT(has_status, &awaited);
    assert_true(clock_mono_us() - placed_us >= 6000000);
    AWAIT(can_buy, &same);
}

static void test_pay__after_the_deadline_is_refused_and_logged(void **state)
{
    char voucher[ID_SIZE], id[ID_SIZE], line[128];

    make_order(voucher, id);
    sql_do(*state,
           "update voucher_order set expires_at = created_at + interval '1 us' where id"
           " = %s",
           id);
    EXPECT(pay_in_full(id), 409, "wrong_state");
    assert_status(id, "expired");
    assert_int_equal(stock_left(one, voucher), 5);
    fill("payment_refused.*order_id={} .*amount_cents=8000.*wrong_state.*expired"
         ".*payment_ref=.ref",
         id, line, sizeof(line));
    AWAIT(has_logged, line);
}

static void test_return__reopens_the_sale_everywhere(void **state UNUSED)
{
    static const char *const ways[] = {"cancel", "refund"};
    char voucher[ID_SIZE], id[ID_SIZE];
    struct hopeful other = {two, 8, voucher};

    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        make_voucher(one, &(struct sale){.stock = 1}, voucher);
        order(7, voucher, id);
        EXPECT(place_order(two, 9, voucher, NULL), 409, "sold_out");
        if (i == 1)
            EXPECT(pay_in_full(id), 200, NULL);
        EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/%s", id, ways[i]), 200,
               NULL);
        AWAIT(can_buy, &other);
    }
}

#define MANY 100000

static bool are_all_expired(void *arg)
{
    const struct hopeful *hopeful = arg;

    return stock_left(hopeful->service, hopeful->voucher_id) == MANY;
}

/* Orders expire in batches, so other orders are placed between two batches. */
static void test_expiry__of_very_many_lets_the_sale_go_on(void **state)
{
    char voucher[ID_SIZE], other[ID_SIZE];
    struct hopeful all = {one, 0, voucher};
    int64_t start_us, placed = 0;

    make_voucher(one, &(struct sale){.stock = MANY}, voucher);
    make_voucher(one, &(struct sale){.stock = MANY}, other);
    sql_do(*state,
           "select count(*) from generate_series(0, 99) g, place_orders(%s, array(select"
           " generate_series(g * 1000 + 1, g * 1000 + 1000)::bigint),"
           " array_fill(0::bigint, array[1000]), null)",
           voucher);
    sql_do(*state,
           "update voucher_order set expires_at = created_at + interval '1 us'"
           " where voucher_id = %s",
           voucher);
    for (start_us = clock_mono_us(); !are_all_expired(&all); placed++) {
        ASSERT_BETWEEN(clock_mono_us() - start_us, 0, (int64_t)DEADLINE_MS * 1000);
        EXPECT(place_order(one, 200000 + placed, other, NULL), 201, NULL);
    }
    ASSERT_BETWEEN(placed, 10, MANY);
}

/* -- races -- */

struct scramble {
    char order_id[ID_SIZE];
    size_t done[2], refused, other; /* done[0]: cancels, done[1]: payments */
};

static size_t scramble_write(size_t k, char *buf, size_t size, void *arg)
{
    struct scramble *scramble = arg;
    char target[64], body[96];
    bool is_payment = k % 2 == 1;
    struct client_request request = {.method = "POST", .target = target};

    snprintf(target, sizeof(target), "/v1/orders/%s/%s", scramble->order_id,
             is_payment ? "pay" : "cancel");
    snprintf(body, sizeof(body),
             "{\"payment_ref\":\"%s %zu\",\"amount_cents\":" PRICE "}",
             scramble->order_id, k);
    request.token = is_payment ? payment() : shopper(7);
    request.body = is_payment ? body : NULL;
    return client_format(&request, buf, size);
}

static void scramble_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct scramble *scramble = arg;

    if (reply->status == 200)
        scramble->done[k % 2]++;
    else if (reply_is(reply, 409, "wrong_state"))
        scramble->refused++;
    else
        scramble->other++;
}

static void test_race__twenty_cancels_twenty_payments_and_the_expiry(void **state)
{
    char voucher[ID_SIZE];

    for (int round = 0; round < 10; round++) {
        struct scramble scramble = {0};
        struct load_plan plan = {
            {one, two},        .connections = 40,       .requests = 40,
            .lock_step = true, .write = scramble_write, .answer = scramble_answer,
            .arg = &scramble};
        size_t done;
        bool is_paid;

        make_order(voucher, scramble.order_id);
        sql_do(*state,
               "update voucher_order set expires_at = clock_timestamp() + interval"
               " '%d ms' where id = %s",
               round % 5 * 5 + 1, scramble.order_id);
        assert_int_equal(load_run(&plan), 40);
        done = scramble.done[0] + scramble.done[1];
        assert_int_equal(scramble.other, 0);
        assert_int_equal(scramble.refused + done, 40);
        assert_true(done <= 1);
        is_paid =
            strcmp(reply_text(read_order(scramble.order_id), "status"), "paid") == 0;
        assert_int_equal(scramble.done[1], is_paid);
        if (!is_paid)
            AWAIT(has_status,
                  &(struct awaited_order){scramble.order_id,
                                          done == 1 ? "cancelled" : "expired"});
        assert_int_equal(stock_left(one, voucher), is_paid ? 4 : 5);
    }
}

/* -- history -- */

/* The items as "actor:from>to:change" in one line. */
static const char *events_of(const struct client_reply *reply, char *ret_text,
                             size_t size)
{
    size_t len = 0;
    json_t *items = json_object_get(reply->json, "items"), *item;
    size_t i;

    ret_text[0] = '\0';
    json_array_foreach(items, i, item)
    {
        const char *actor = NULL, *from = "", *to = "", *detail = "";
        json_int_t change = 0;

        assert_int_equal(json_unpack(item, "{s:s, s:I, s?s, s?s, s?s}", "actor", &actor,
                                     "stock_change", &change, "from_status", &from,
                                     "to_status", &to, "detail", &detail),
                         0);
        len += (size_t)snprintf(ret_text + len, size - len, "%s:%s>%s:%d:%s ", actor,
                                from, to, (int)change, detail);
    }
    return ret_text;
}

static void test_events__of_an_order(void **state UNUSED)
{
    char voucher[ID_SIZE], id[ID_SIZE], text[1024], expected[200];
    const struct client_reply *reply;

    make_order(voucher, id);
    EXPECT(pay_in_full(id), 200, NULL);
    EXPECT(request(one, admin(), NULL, "POST /v1/orders/%s/refund", id), 200, NULL);
    reply =
        EXPECT(request(one, shopper(7), NULL, "GET /v1/orders/%s/events", id), 200, NULL);
    fill("shopper:7:>unpaid:-1: payment:1:unpaid>paid:0:ref {} admin:1:paid>refunded:1: ",
         id, expected, sizeof(expected));
    assert_string_equal(events_of(reply, text, sizeof(text)), expected);
    assert_string_equal(reply_text(reply, "next_cursor"), "");
    reply = EXPECT(request(one, shopper(7), NULL, "GET /v1/orders/%s/events?limit=1", id),
                   200, NULL);
    assert_string_equal(reply_text(reply, "next_cursor"), id);
    reply = EXPECT(
        request(one, shopper(7), NULL, "GET /v1/orders/%s/events?after=%s", id, id), 200,
        NULL);
    assert_string_equal(events_of(reply, text, sizeof(text)), strchr(expected, ' ') + 1);
}

static void test_events__of_a_voucher_page_by_page(void **state UNUSED)
{
    char voucher[ID_SIZE], id[ID_SIZE], text[1024], all[4096] = "", cursor[ID_SIZE] = "";
    const struct client_reply *reply;
    size_t pages = 0;

    make_order(voucher, id);
    EXPECT(request(one, admin(), "{\"add\":-2}", "POST /v1/vouchers/%s/restock", voucher),
           200, NULL);
    EXPECT(request(one, shopper(7), NULL, "POST /v1/orders/%s/cancel", id), 200, NULL);
    order(8, voucher, id);
    do {
        reply =
            EXPECT(request(one, admin(), NULL, "GET /v1/vouchers/%s/events?limit=2%s%s",
                           voucher, pages > 0 ? "&after=" : "", cursor),
                   200, NULL);
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s",
                 events_of(reply, text, sizeof(text)));
        snprintf(cursor, sizeof(cursor), "%s", reply_text(reply, "next_cursor"));
        pages++;
    } while (cursor[0] != '\0' && pages < 9);
    assert_string_equal(all, "admin:1:>:5: shopper:7:>unpaid:-1: admin:1:>:-2: "
                             "shopper:7:unpaid>cancelled:1: shopper:8:>unpaid:-1: ");
    assert_int_equal(pages, 3);
    EXPECT(request(one, admin(), NULL, "GET /v1/vouchers/%s/events?after=x", voucher),
           400, "bad_request");
    EXPECT(request(one, admin(), NULL, "GET /v1/vouchers/%s/events?limit=101", voucher),
           422, "invalid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIFE_CASE(test_pay__repeated_changes_nothing),
        LIFE_CASE(test_pay__refuses_the_payment_of_another_order),
        LIFE_CASE(test_pay__logs_one_line_for_any_payment_ref),
        LIFE_CASE(test_cancel__returns_the_stock),
        LIFE_CASE(test_refund__is_of_paid_orders),
        LIFE_CASE(test_redeem__is_final),
        LIFE_CASE(test_expiry__not_before_its_time),
        LIFE_CASE(test_pay__after_the_deadline_is_refused_and_logged),
        LIFE_CASE(test_return__reopens_the_sale_everywhere),
        LIFE_CASE(test_expiry__of_very_many_lets_the_sale_go_on),
        LIFE_CASE(test_race__twenty_cancels_twenty_payments_and_the_expiry),
        LIFE_CASE(test_events__of_an_order),
        LIFE_CASE(test_events__of_a_voucher_page_by_page),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
