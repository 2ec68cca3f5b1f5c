/*
 * it_sale.c - the life of vouchers and orders over HTTP, at two instances with Postgres and Redis.
 *
 * The tests of app/sale, app/store and sql show each rule. This program shows that the parts work
 * together.
 */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>

#define PRICE "8000"

static struct service *one, *two;
static int64_t next_user = 100000; /* a shopper who has not ordered yet */

static int setup(void **state)
{
    struct fixture *fixture = fixture_open();

    *state = fixture;
    one = fixture_serve(fixture, NULL);
    two = fixture_serve(fixture, NULL);
    fixture_share_services(fixture);
    return 0;
}

static void order(int64_t user_id, const char *voucher_id, char *ret_id)
{
    const struct client_reply *reply =
        EXPECT(place_order(one, user_id, voucher_id, NULL), 201, NULL);

    snprintf(ret_id, ID_SIZE, "%s", reply_text(reply, "id"));
}

static int64_t stock_left(const char *voucher_id)
{
    return reply_number(
        EXPECT(request(one, NULL, NULL, "GET /v1/vouchers/%s", voucher_id), 200, NULL),
        "stock_left");
}

static void assert_text(const struct client_reply *reply, const char *name,
                        const char *wanted)
{
    assert_string_equal(reply_text(reply, name), wanted);
}

/* -- vouchers -- */

static void assert_voucher(const struct client_reply *reply, const char *title,
                           const char *begin, const char *end)
{
    char now[32];

    assert_text(reply, "title", title);
    assert_text(reply, "description", "");
    assert_int_equal(reply_number(reply, "price_cents"), 1);
    assert_int_equal(reply_number(reply, "face_value_cents"), 2);
    assert_int_equal(reply_number(reply, "stock_total"), 3);
    assert_int_equal(reply_number(reply, "stock_left"), 3);
    assert_int_equal(reply_number(reply, "per_user_limit"), 1);
    assert_int_equal(reply_number(reply, "pay_within_s"), 900);
    assert_memory_equal(reply_text(reply, "begin_at"), begin, 23);
    assert_memory_equal(reply_text(reply, "end_at"), end, 23);
    assert_text(reply, "state", "open");
    assert_memory_equal(reply_text(reply, "server_time"), time_in_ms(0, now), 14);
}

SERVICE_CASE(test_create__answers_the_whole_voucher)
{
    char begin[32], end[32], body[300], location[64], tag[64];
    const struct client_reply *reply;

    snprintf(body, sizeof(body),
             "{\"title\":\"a\",\"price_cents\":1,\"face_value_cents\":2,\"stock\":3,"
             "\"begin_at\":\"%s\",\"end_at\":\"%s\"}",
             time_in_ms(-5000, begin), time_in_ms(3600000, end));
    reply = EXPECT(request(one, admin(), body, "POST /v1/vouchers"), 201, NULL);
    assert_voucher(reply, "a", begin, end);
    assert_string_equal(reply_header(reply, "Content-Type"), "application/json");
    snprintf(location, sizeof(location), "/v1/vouchers/%s", reply_text(reply, "id"));
    assert_string_equal(reply_header(reply, "Location"), location);
    assert_voucher(EXPECT(request(two, NULL, NULL, "GET %s", location), 200, NULL), "a",
                   begin, end);
    reply = request(two, admin(), "{\"title\":\"\xe7\xa7\x92\"}", "PATCH %s", location);
    assert_voucher(EXPECT(reply, 200, NULL), "\xe7\xa7\x92", begin, end);
    EXPECT(request(one, admin(), "{\"end_at\":\"1970-01-01T00:00:01Z\"}", "PATCH %s",
                   location),
           422, "invalid");
    EXPECT(request(one, admin(), "{\"add\":-4}", "POST %s/restock", location), 409,
           "insufficient_stock");
    /* a client that has the page gets a new page after a change */
    reply = EXPECT(request(one, NULL, NULL, "GET %s", location), 200, NULL);
    snprintf(tag, sizeof(tag), "If-None-Match: %s\r\n", reply_header(reply, "ETag"));
    reply = EXPECT(request(one, admin(), "{\"add\":5}", "POST %s/restock", location), 200,
                   NULL);
    assert_int_equal(reply_number(reply, "stock_left"), 8);
    EXPECT(request_with(one, NULL, tag, NULL, "GET %s", location), 200, NULL);
}

/* -- orders -- */

SERVICE_CASE(test_place__answers_the_whole_order)
{
    char voucher[ID_SIZE], id[ID_SIZE], location[64], created[40], now[32];
    const struct client_reply *reply;

    make_voucher(one, &(struct sale){.stock = 3}, voucher);
    sql_do(*state, "select setval('voucher_order_id_seq', 8796093000001)"); /* > 2^53 */
    reply = EXPECT(place_order(one, INT64_MAX, voucher, NULL), 201, NULL);
    assert_string_equal(redis_do(*state, "EXISTS lock:order:9223372036854775807"), "0");
    snprintf(id, sizeof(id), "%s", reply_text(reply, "id"));
    assert_true(number_of(id) > INT64_C(1) << 53);
    snprintf(location, sizeof(location), "/v1/orders/%s", id);
    assert_string_equal(reply_header(reply, "Location"), location);
    snprintf(created, sizeof(created), "%s", reply_text(reply, "created_at"));
    assert_memory_equal(created, time_in_ms(0, now), 14);
    for (int reads = 0; reads < 2; reads++) {
        assert_text(reply, "id", id);
        assert_text(reply, "voucher_id", voucher);
        assert_text(reply, "user_id", "9223372036854775807");
        assert_text(reply, "status", "unpaid");
        assert_int_equal(reply_number(reply, "price_cents"), 8000);
        assert_text(reply, "created_at", created);
        assert_text(reply, "paid_at", "");
        reply =
            EXPECT(request(two, shopper(INT64_MAX), NULL, "GET %s", location), 200, NULL);
    }
    EXPECT(request(two, shopper(8), NULL, "GET %s", location), 404, "not_found");
    assert_int_equal(sql_number(*state,
                                "select extract(epoch from expires_at - created_at) from "
                                "voucher_order where id = %s",
                                id),
                     900);
    assert_int_equal(stock_left(voucher), 2);
}

/* A repeated key finds its order, even if nothing is left. */
SERVICE_CASE(test_place__until_all_is_sold)
{
    char voucher[ID_SIZE], id[ID_SIZE];
    const struct client_reply *reply;

    make_voucher(one, &(struct sale){.stock = 2}, voucher);
    reply = EXPECT(place_order(one, 7, voucher, "k"), 201, NULL);
    snprintf(id, sizeof(id), "%s", reply_text(reply, "id"));
    assert_text(EXPECT(place_order(two, 7, voucher, "k"), 200, NULL), "id", id);
    reply = EXPECT(place_order(two, 7, voucher, NULL), 409, "already_ordered");
    assert_text(reply, "order_id", id);
    EXPECT(place_order(one, 8, voucher, "k"), 201, NULL);
    for (int64_t user = 9; user < 9 + IN_A_ROW; user++)
        EXPECT(place_order(user % 2 ? one : two, user, voucher, NULL), 409, "sold_out");
    for (int i = 0; i < IN_A_ROW; i++)
        assert_text(EXPECT(place_order(two, 7, voucher, "k"), 200, NULL), "id", id);
    EXPECT(place_order(one, 9, voucher, "k"), 409, "sold_out");
    assert_int_equal(sql_live_orders(*state, voucher), 2);
}

static const struct client_reply *pay(const char *id, const char *ref, const char *cents)
{
    char body[128];

    snprintf(body, sizeof(body), "{\"payment_ref\":\"%s\",\"amount_cents\":%s}", ref,
             cents);
    return request(one, payment(), body, "POST /v1/orders/%s/pay", id);
}

/* Returns the items as "actor:from>to:change" in one line. */
static const char *events_of(const struct client_reply *reply)
{
    static char text[1024];
    size_t len = 0, i;
    json_t *items = json_object_get(reply->json, "items"), *item;

    text[0] = '\0';
    json_array_foreach(items, i, item)
    {
        const char *actor = NULL, *from = "", *to = "", *detail = "";
        json_int_t change = 0;

        assert_int_equal(json_unpack(item, "{s:s, s:I, s?s, s?s, s?s}", "actor", &actor,
                                     "stock_change", &change, "from_status", &from,
                                     "to_status", &to, "detail", &detail),
                         0);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s:%s>%s:%d:%s ", actor,
                                from, to, (int)change, detail);
    }
    return text;
}

static void assert_ends_as(const char *id, const char *token, const char *verb,
                           const char *status)
{
    assert_text(
        EXPECT(request(two, token, NULL, "POST /v1/orders/%s/%s", id, verb), 200, NULL),
        "status", status);
    EXPECT(request(two, token, NULL, "POST /v1/orders/%s/%s", id, verb), 409,
           "wrong_state");
}

SERVICE_CASE(test_life__of_orders_from_payment_to_refund)
{
    static const char line[] = "code=payment_ref_used status=unpaid payment_ref=\"a\"";
    char voucher[ID_SIZE], id[ID_SIZE], other[ID_SIZE], third[ID_SIZE], paid_at[40];
    const struct client_reply *reply;

    make_voucher(one, &(struct sale){.stock = 5}, voucher);
    order(7, voucher, id);
    order(8, voucher, other);
    order(9, voucher, third);
    EXPECT(pay(id, "a", "7999"), 409, "wrong_amount");
    reply = EXPECT(pay(id, "a", PRICE), 200, NULL);
    assert_text(reply, "status", "paid");
    snprintf(paid_at, sizeof(paid_at), "%s", reply_text(reply, "paid_at"));
    assert_text(EXPECT(pay(id, "a", PRICE), 200, NULL), "paid_at", paid_at);
    EXPECT(pay(other, "a", PRICE), 409, "payment_ref_used");
    service_await_log(one, line);
    EXPECT(pay(other, "b", PRICE), 200, NULL);
    assert_ends_as(id, admin(), "refund", "refunded");
    assert_ends_as(other, admin(), "redeem", "redeemed");
    assert_ends_as(third, shopper(9), "cancel", "cancelled");
    assert_int_equal(stock_left(voucher), 4);
    reply =
        EXPECT(request(one, shopper(7), NULL, "GET /v1/orders/%s/events", id), 200, NULL);
    assert_string_equal(events_of(reply),
                        "shopper:7:>unpaid:-1: payment:1:unpaid>paid:0:a"
                        " admin:1:paid>refunded:1: ");
    reply = EXPECT(request(one, admin(), NULL, "GET /v1/vouchers/%s/events?after=%s",
                           voucher, other),
                   200, NULL);
    assert_non_null(strstr(events_of(reply), "shopper:9:unpaid>cancelled:1: "));
    reply =
        EXPECT(request(two, shopper(9), NULL, "GET /v1/orders?voucher_id=%s", voucher),
               200, NULL);
    assert_string_equal(
        json_string_value(json_object_get(
            json_array_get(json_object_get(reply->json, "items"), 0), "id")),
        third);
}

/* -- what one instance learns of the other -- */

/* The answer that a service is expected to give to orders of new shoppers. */
struct look {
    struct service *service;
    const char *voucher_id;
    int status;
    const char *code;
};

static bool is_answered_so(void *arg)
{
    const struct look *look = arg;

    for (int i = 0; i < IN_A_ROW; i++)
        if (!reply_is(place_order(look->service, next_user++, look->voucher_id, NULL),
                      look->status, look->code))
            return false;
    return true;
}

static void assert_becomes(const char *voucher_id, int status, const char *code)
{
    AWAIT(is_answered_so, &(struct look){one, voucher_id, status, code});
    AWAIT(is_answered_so, &(struct look){two, voucher_id, status, code});
}

SERVICE_CASE(test_change__reaches_the_other_instance)
{
    char id[ID_SIZE], begin[32], body[120];

    make_voucher(one, &(struct sale){.stock = 100000}, id);
    snprintf(body, sizeof(body), "{\"begin_at\":\"%s\"}", time_in_ms(600000, begin));
    EXPECT(request(one, admin(), body, "PATCH /v1/vouchers/%s", id), 200, NULL);
    assert_becomes(id, 409, "not_started");
    snprintf(body, sizeof(body), "{\"begin_at\":\"%s\"}", time_in_ms(-1000, begin));
    EXPECT(request(two, admin(), body, "PATCH /v1/vouchers/%s", id), 200, NULL);
    assert_becomes(id, 201, "");
    snprintf(body, sizeof(body), "{\"end_at\":\"%s\"}", time_in_ms(-10, begin));
    EXPECT(request(one, admin(), body, "PATCH /v1/vouchers/%s", id), 200, NULL);
    assert_becomes(id, 409, "sale_ended");
}

static void restock(struct fixture *fixture, const char *id)
{
    sql_do(fixture,
           "update voucher set version = version + 1, stock_total = stock_total + 100,"
           " stock_left = stock_left + 100 where id = %s",
           id);
}

/* The changes are made by SQL, so neither instance is notified. */
SERVICE_CASE(test_change__is_seen_without_a_notification)
{
    char id[ID_SIZE];

    make_voucher(one, &(struct sale){.stock = 0}, id);
    assert_becomes(id, 409, "sold_out");
    restock(*state, id);
    assert_becomes(id, 201, "");
    sql_do(*state, "update voucher set version = version + 1, stock_total = stock_total -"
                   " stock_left, stock_left = 0");
    EXPECT(place_order(one, next_user++, id, NULL), 409, "sold_out");
    assert_becomes(id, 409, "sold_out");
    sql_do(*state, "select count(pg_terminate_backend(pid)) from pg_stat_activity where "
                   "usename = '" SERVICE_ROLE "'");
    restock(*state, id);
    service_await(one, "/readyz", 200);
    service_await(two, "/readyz", 200);
    assert_becomes(id, 201, "");
}

static bool can_buy(void *arg)
{
    const struct look *look = arg;

    return place_order(look->service, 8, look->voucher_id, NULL)->status == 201;
}

SERVICE_CASE(test_expiry__returns_the_stock_everywhere)
{
    char voucher[ID_SIZE], id[ID_SIZE];

    make_voucher(one, &(struct sale){.stock = 1}, voucher);
    EXPECT(
        request(one, admin(), "{\"pay_within_s\":2}", "PATCH /v1/vouchers/%s", voucher),
        200, NULL);
    order(7, voucher, id);
    EXPECT(place_order(two, 8, voucher, NULL), 409, "sold_out");
    AWAIT(can_buy, &(struct look){.service = two, .voucher_id = voucher});
    assert_text(request(one, shopper(7), NULL, "GET /v1/orders/%s", id), "status",
                "expired");
    EXPECT(pay(id, "late", PRICE), 409, "wrong_state");
    assert_int_equal(sql_number(*state,
                                "select count(*) from order_event e join voucher_order o"
                                " on o.id = order_id where o.id = %s and"
                                " to_status = 'expired' and at >= expires_at",
                                id),
                     1);
}

int main(void)
{
    return cases_run(setup, fixture_end_group);
}
