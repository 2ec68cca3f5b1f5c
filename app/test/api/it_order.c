/* it_order.c - single requests for orders, and their answers. */
#include "app/test/fixture.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static struct service *service;

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    return 0;
}

static char *order_id_of(const struct client_reply *reply, char *ret_id)
{
    snprintf(ret_id, ID_SIZE, "%s", reply_text(reply, "id"));
    assert_true(ret_id[0] != '\0');
    return ret_id;
}

/* -- placing -- */

static void test_place__answers_the_whole_order(void **state)
{
    char voucher_id[ID_SIZE], id[ID_SIZE], location[64], created[40], now[32];
    const struct client_reply *reply;

    make_voucher(service, &(struct sale){.stock = 3}, voucher_id);
    reply = EXPECT(place_order(service, 42, voucher_id, NULL), 201, NULL);
    assert_string_equal(reply_header(reply, "Content-Type"), "application/json");
    order_id_of(reply, id);
    snprintf(location, sizeof(location), "/v1/orders/%s", id);
    assert_string_equal(reply_header(reply, "Location"), location);
    snprintf(created, sizeof(created), "%s", reply_text(reply, "created_at"));
    assert_memory_equal(created, time_in_ms(0, now), 16);
    for (int reads = 0; reads < 2; reads++) {
        assert_string_equal(reply_text(reply, "id"), id);
        assert_string_equal(reply_text(reply, "voucher_id"), voucher_id);
        assert_string_equal(reply_text(reply, "user_id"), "42");
        assert_string_equal(reply_text(reply, "status"), "unpaid");
        assert_int_equal(reply_number(reply, "price_cents"), 8000);
        assert_string_equal(reply_text(reply, "created_at"), created);
        assert_string_equal(reply_text(reply, "paid_at"), "");
        reply =
            EXPECT(request(service, shopper(42), NULL, "GET %s", location), 200, NULL);
    }
    assert_int_equal(sql_number(*state,
                                "select extract(epoch from expires_at - created_at) from "
                                "voucher_order where voucher_id = %s",
                                voucher_id),
                     900);
    assert_int_equal(
        reply_number(request(service, NULL, NULL, "GET /v1/vouchers/%s", voucher_id),
                     "stock_left"),
        2);
}

static void test_place__again_is_already_ordered(void **state)
{
    char voucher_id[ID_SIZE], id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 3}, voucher_id);
    order_id_of(EXPECT(place_order(service, 42, voucher_id, NULL), 201, NULL), id);
    for (int i = 0; i < 5; i++) {
        const struct client_reply *reply =
            EXPECT(place_order(service, 42, voucher_id, i % 2 ? "a key" : NULL), 409,
                   "already_ordered");

        assert_string_equal(reply_text(reply, "order_id"), id);
    }
    assert_int_equal(sql_live_orders(*state, voucher_id), 1);
    assert_int_equal(
        sql_number(*state, "select stock_left from voucher where id = %s", voucher_id),
        2);
}

static void test_place__the_last_one_and_no_more(void **state)
{
    char voucher_id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 2}, voucher_id);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
    EXPECT(place_order(service, 2, voucher_id, NULL), 201, NULL);
    for (int64_t user = 3; user < 40; user++) /* on either worker */
        EXPECT(place_order(service, user, voucher_id, NULL), 409, "sold_out");
    EXPECT(place_order(service, 3, voucher_id, "k"), 409, "sold_out");
    EXPECT(place_order(service, 1, voucher_id, "k"), 409, "already_ordered");
    assert_int_equal(sql_live_orders(*state, voucher_id), 2);
}

struct opening {
    char voucher_id[ID_SIZE];
    int64_t user_id;
};

static bool is_placed(void *arg)
{
    struct opening *opening = arg;

    return place_order(service, opening->user_id, opening->voucher_id, NULL)->status ==
           201;
}

static void test_place__opens_and_closes_by_itself(void **state)
{
    struct opening opening = {.user_id = 5};
    struct sale sale = {.stock = 10, .begin_in_s = 8, .end_in_s = 3600};
    char end[32], body[80];

    make_voucher(service, &sale, opening.voucher_id);
    EXPECT(place_order(service, 5, opening.voucher_id, NULL), 409, "not_started");
    AWAIT(is_placed, &opening);
    assert_int_equal(sql_number(*state,
                                "select count(*) from voucher_order o join voucher v on "
                                "v.id = o.voucher_id where v.id = %s and o.created_at < "
                                "v.begin_at",
                                opening.voucher_id),
                     0);
    snprintf(body, sizeof(body), "{\"end_at\":\"%s\"}", time_in_ms(2000, end));
    EXPECT(request(service, admin(), body, "PATCH /v1/vouchers/%s", opening.voucher_id),
           200, NULL);
    for (opening.user_id = 6; opening.user_id < 9; opening.user_id++)
        is_placed(&opening);
    sql_do(*state,
           "select pg_sleep(greatest(0, extract(epoch from end_at - "
           "clock_timestamp()))) from voucher where id = %s",
           opening.voucher_id);
    EXPECT(place_order(service, 99, opening.voucher_id, NULL), 409, "sale_ended");
}

static void test_place__up_to_the_limit_of_a_shopper(void **state)
{
    char voucher_id[ID_SIZE], ids[3][ID_SIZE];
    const struct client_reply *reply;
    bool is_one_of_them = false;

    make_voucher(service, &(struct sale){.stock = 10, .per_user_limit = 3}, voucher_id);
    for (int i = 0; i < 3; i++)
        order_id_of(EXPECT(place_order(service, 8, voucher_id, NULL), 201, NULL), ids[i]);
    reply = EXPECT(place_order(service, 8, voucher_id, NULL), 409, "already_ordered");
    for (int i = 0; i < 3; i++)
        if (strcmp(reply_text(reply, "order_id"), ids[i]) == 0)
            is_one_of_them = true;
    assert_true(is_one_of_them);
    EXPECT(place_order(service, 9, voucher_id, NULL), 201, NULL);
    assert_int_equal(sql_live_orders(*state, voucher_id), 4);
    assert_int_equal(sql_number(*state,
                                "select count(distinct id) from voucher_order where "
                                "voucher_id = %s",
                                voucher_id),
                     4);
}

/* -- Idempotency-Key -- */

static void test_key__repeated_gives_the_same_order(void **state)
{
    char voucher_id[ID_SIZE], other_id[ID_SIZE], id[ID_SIZE], second[ID_SIZE];
    const struct client_reply *reply;

    make_voucher(service, &(struct sale){.stock = 10, .per_user_limit = 3}, voucher_id);
    make_voucher(service, &(struct sale){.stock = 10}, other_id);
    order_id_of(EXPECT(place_order(service, 8, voucher_id, "first"), 201, NULL), id);
    for (int i = 0; i < 5; i++) {
        reply = EXPECT(place_order(service, 8, voucher_id, "first"), 200, NULL);
        assert_string_equal(reply_text(reply, "id"), id);
        assert_string_equal(reply_text(reply, "status"), "unpaid");
    }
    reply = EXPECT(place_order(service, 8, voucher_id, "second"), 201, NULL);
    assert_string_not_equal(order_id_of(reply, second), id);
    reply = EXPECT(place_order(service, 9, voucher_id, "first"), 201, NULL);
    assert_string_not_equal(reply_text(reply, "id"), id); /* another shopper's key */
    reply = EXPECT(place_order(service, 8, other_id, "first"), 201, NULL);
    assert_string_not_equal(reply_text(reply, "id"), id); /* another voucher's key */
    assert_int_equal(sql_live_orders(*state, voucher_id), 3);
}

static void test_key__repeated_is_answered_when_sold_out(void **state)
{
    char voucher_id[ID_SIZE], id[ID_SIZE];

    (void)state;
    make_voucher(service, &(struct sale){.stock = 1}, voucher_id);
    order_id_of(EXPECT(place_order(service, 8, voucher_id, "k"), 201, NULL), id);
    EXPECT(place_order(service, 9, voucher_id, NULL), 409, "sold_out");
    for (int i = 0; i < 8; i++)
        assert_string_equal(
            reply_text(EXPECT(place_order(service, 8, voucher_id, "k"), 200, NULL), "id"),
            id);
}

struct refusal {
    const char *voucher_id;
    const char *code;
};

static bool all_are_refused(void *arg)
{
    const struct refusal *refusal = arg;

    for (int i = 0; i < 16; i++)
        if (!reply_is(place_order(service, 9, refusal->voucher_id, NULL), 409,
                      refusal->code))
            return false;
    return true;
}

/* Place an order, move the window, wait until all loops know, then repeat the key. */
static void repeat_after_move(int begin_in_s, const char *code)
{
    char voucher_id[ID_SIZE], id[ID_SIZE], begin[32], end[32], body[120];
    struct refusal refusal = {voucher_id, code};

    make_voucher(service, &(struct sale){.stock = 100}, voucher_id);
    order_id_of(EXPECT(place_order(service, 8, voucher_id, "k"), 201, NULL), id);
    EXPECT(place_order(service, 9, voucher_id, NULL), 201, NULL);
    snprintf(body, sizeof(body), "{\"begin_at\":\"%s\",\"end_at\":\"%s\"}",
             time_in_ms(begin_in_s * INT64_C(1000), begin),
             time_in_ms((begin_in_s + 60) * INT64_C(1000), end));
    EXPECT(request(service, admin(), body, "PATCH /v1/vouchers/%s", voucher_id), 200,
           NULL);
    AWAIT(all_are_refused, &refusal);
    for (int i = 0; i < 8; i++)
        assert_string_equal(
            reply_text(EXPECT(place_order(service, 8, voucher_id, "k"), 200, NULL), "id"),
            id);
    EXPECT(place_order(service, 10, voucher_id, "k"), 409, code);
}

static void test_key__repeated_is_answered_when_the_sale_is_over(void **state)
{
    (void)state;
    repeat_after_move(-3600, "sale_ended");
}

static void test_key__repeated_is_answered_when_the_begin_has_moved(void **state)
{
    (void)state;
    repeat_after_move(3600, "not_started");
}

static void test_key__of_a_cancelled_order_still_gives_it(void **state)
{
    char voucher_id[ID_SIZE], id[ID_SIZE];
    const struct client_reply *reply;

    make_voucher(service, &(struct sale){.stock = 5}, voucher_id);
    order_id_of(EXPECT(place_order(service, 8, voucher_id, "k"), 201, NULL), id);
    sql_do(*state,
           "select cancel_order(voucher_id, id, 'shopper:8') from voucher_order "
           "where voucher_id = %s",
           voucher_id);
    reply = EXPECT(place_order(service, 8, voucher_id, "k"), 200, NULL);
    assert_string_equal(reply_text(reply, "id"), id);
    assert_string_equal(reply_text(reply, "status"), "cancelled");
    reply = EXPECT(place_order(service, 8, voucher_id, "another"), 201, NULL);
    assert_string_not_equal(reply_text(reply, "id"), id);
}

/* -- reading -- */

static void test_read__ids_beyond_2_to_53_are_exact(void **state)
{
    char voucher_id[ID_SIZE], id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 5}, voucher_id);
    sql_do(*state, "select setval('voucher_order_id_seq', 8796093000001)");
    for (int64_t user = 9223372036854775805; user < INT64_MAX; user++) {
        const struct client_reply *reply =
            EXPECT(place_order(service, user, voucher_id, NULL), 201, NULL);

        assert_true(number_of(reply_text(reply, "user_id")) == user);
        order_id_of(reply, id);
        assert_true(number_of(id) > INT64_C(1) << 53);
        assert_int_equal(
            sql_number(*state,
                       "select count(*) from voucher_order where id = %s and "
                       "user_id = %lld",
                       id, (long long)user),
            1);
        assert_string_equal(reply_text(EXPECT(request(service, shopper(user), NULL,
                                                      "GET /v1/orders/%s", id),
                                              200, NULL),
                                       "id"),
                            id);
    }
}

/* -- the lock -- */

static void test_lock__held_by_another_is_left_alone(void **state)
{
    char voucher_id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 5}, voucher_id);
    redis_do(*state, "SET lock:order:77 %s PX 60000", "foreign");
    for (int i = 0; i < 4; i++)
        EXPECT(place_order(service, 77, voucher_id, NULL), 409, "order_in_progress");
    assert_string_equal(redis_do(*state, "GET lock:order:77"), "foreign");
    assert_true(number_of(redis_do(*state, "PTTL lock:order:77")) > 30000);
    assert_int_equal(sql_live_orders(*state, voucher_id), 0);
    EXPECT(place_order(service, 78, voucher_id, NULL), 201, NULL);
    redis_do(*state, "DEL lock:order:77");
    EXPECT(place_order(service, 77, voucher_id, NULL), 201, NULL);
}

static void test_lock__a_key_of_another_kind_is_left_alone(void **state)
{
    char voucher_id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 5}, voucher_id);
    redis_do(*state, "HSET lock:order:79 f v");
    EXPECT(place_order(service, 79, voucher_id, NULL), 503, "unavailable");
    assert_string_equal(redis_do(*state, "HGET lock:order:79 f"), "v");
    redis_do(*state, "DEL lock:order:79");
}

static void test_lock__is_released_before_the_answer(void **state)
{
    char open[ID_SIZE];

    for (int i = 0; i < 60; i++) {
        make_voucher(service, &(struct sale){.stock = 1}, open);
        EXPECT(place_order(service, 80, open, NULL), 201, NULL);
        assert_string_equal(redis_do(*state, "EXISTS lock:order:80"), "0");
        EXPECT(place_order(service, 80, open, "k"), 409, "already_ordered");
        assert_string_equal(redis_do(*state, "EXISTS lock:order:80"), "0");
    }
    assert_int_equal(redis_order_locks(*state), 0);
}

static void test_lock__fences_grow_when_redis_has_lost_its_data(void **state)
{
    char voucher_id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 20, .per_user_limit = 10}, voucher_id);
    for (int i = 0; i < 5; i++) {
        EXPECT(place_order(service, 81, voucher_id, NULL), 201, NULL);
        i % 2 ? redis_do(*state, "FLUSHALL") : redis_do(*state, "SCRIPT FLUSH");
    }
    assert_int_equal(sql_number(*state,
                                "select count(*) from (select fence > lag(fence) over "
                                "(order by id) as grows from voucher_order where "
                                "voucher_id = %s) f where not grows",
                                voucher_id),
                     0);
}

static bool somebody_waits(void *arg)
{
    return strcmp(redis_do(arg, "PUBSUB CHANNELS rlock:lock:order:83"), "1") == 0;
}

/* The order ends before the lease of the foreign lock, so the release woke it. */
static void test_lock__release_wakes_the_waiter(void **state)
{
    static const char *const release[] = {"seckill", "lock", "release", "lock:order:83",
                                          NULL};
    const char *const env[] = {"SECKILL_LOCK_WAIT_MS=10000", NULL};
    struct service *waiting = fixture_serve(*state, env);
    struct client_request request = {.method = "POST", .token = shopper(83)};
    struct client_wait wait = {.timeout_ms = CLIENT_TIMEOUT_MS};
    struct client *client = client_open(&waiting->address);
    char voucher_id[ID_SIZE], target[64], head[1024];

    make_voucher(waiting, &(struct sale){.stock = 5}, voucher_id);
    redis_do(*state, "SET lock:order:83 %s PX 60000", "foreign");
    snprintf(target, sizeof(target), "/v1/vouchers/%s/orders", voucher_id);
    request.target = target;
    assert_true(client_write(client, head, client_format(&request, head, sizeof(head))));
    AWAIT(somebody_waits, *state);
    assert_int_equal(fixture_run(*state, NULL, release)->code, 0);
    EXPECT(client_read(client, &wait), 201, NULL);
    client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_place__answers_the_whole_order),
        CASE(test_place__again_is_already_ordered),
        CASE(test_place__the_last_one_and_no_more),
        CASE(test_place__opens_and_closes_by_itself),
        CASE(test_place__up_to_the_limit_of_a_shopper),
        CASE(test_key__repeated_gives_the_same_order),
        CASE(test_key__repeated_is_answered_when_sold_out),
        CASE(test_key__repeated_is_answered_when_the_sale_is_over),
        CASE(test_key__repeated_is_answered_when_the_begin_has_moved),
        CASE(test_key__of_a_cancelled_order_still_gives_it),
        CASE(test_lock__held_by_another_is_left_alone),
        CASE(test_lock__a_key_of_another_kind_is_left_alone),
        CASE(test_lock__is_released_before_the_answer),
        CASE(test_lock__fences_grow_when_redis_has_lost_its_data),
        CASE(test_lock__release_wakes_the_waiter),
        CASE(test_read__ids_beyond_2_to_53_are_exact),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
