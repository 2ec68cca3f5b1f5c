/* it_voucher.c - vouchers: create, read, patch, restock, list. */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>

static struct service *service;

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    return 0;
}

/* -- bodies -- */

/* A valid voucher with one member replaced. */
static char *voucher_with(const char *name, const char *value)
{
    json_t *body =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:i}", "title", "test",
                  "description", "words", "price_cents", 8000, "face_value_cents", 10000,
                  "stock", 10, "per_user_limit", 2, "begin_at", "2030-01-01T00:00:00Z",
                  "end_at", "2030-01-02T00:00:00Z", "pay_within_s", 60);
    char *text;

    json_object_set_new(body, name, json_loads(value, JSON_DECODE_ANY, NULL));
    text = json_dumps(body, 0);
    json_decref(body);
    return text;
}

/* A JSON string of `count` pieces. */
static char *repeated(const char *piece, size_t count)
{
    size_t len = strlen(piece);
    char *text = malloc(len * count + 3);

    for (size_t i = 0; i < count; i++)
        snprintf(text + 1 + i * len, len + 2, "%s\"", piece);
    text[0] = '"';
    return text;
}

static void create_default(char *ret_id)
{
    char *body = voucher_with("title", "\"test\"");

    snprintf(ret_id, ID_SIZE, "%s",
             reply_text(
                 EXPECT(request(service, admin(), body, "POST /v1/vouchers"), 201, NULL),
                 "id"));
    free(body);
}

/* -- create -- */

static void test_create__refuses_texts_that_are_too_long(void **state)
{
    static const struct {
        const char *name;
        size_t chars;
    } texts[] = {{"title", 200}, {"description", 4000}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char *longest = repeated("\xe7\xa7\x92", texts[i].chars);
        char *longer = repeated("x", texts[i].chars + 1);
        char *body = voucher_with(texts[i].name, longest);
        const struct client_reply *reply =
            EXPECT(request(service, admin(), body, "POST /v1/vouchers"), 201, NULL);

        assert_int_equal(strlen(reply_text(reply, texts[i].name)), texts[i].chars * 3);
        free(body);
        body = voucher_with(texts[i].name, longer);
        reply =
            EXPECT(request(service, admin(), body, "POST /v1/vouchers"), 422, "invalid");
        assert_true(reply_blames(reply, texts[i].name));
        free(body);
        free(longer);
        free(longest);
    }
}

static void test_create__answers_the_whole_voucher(void **state)
{
    char begin[32], end[32], now[32], body[300], location[64];
    const struct client_reply *reply;

    (void)state;
    snprintf(body, sizeof(body),
             "{\"title\":\"a\",\"price_cents\":1,\"face_value_cents\":2,\"stock\":3,"
             "\"begin_at\":\"%s\",\"end_at\":\"%s\"}",
             time_in_ms(-5000, begin), time_in_ms(5000, end));
    reply = EXPECT(request(service, admin(), body, "POST /v1/vouchers"), 201, NULL);
    assert_string_equal(reply_header(reply, "Content-Type"), "application/json");
    snprintf(location, sizeof(location), "/v1/vouchers/%s", reply_text(reply, "id"));
    assert_true(number_of(reply_text(reply, "id")) > 0);
    assert_string_equal(reply_header(reply, "Location"), location);
    for (int reads = 0; reads < 2; reads++) {
        assert_string_equal(reply_text(reply, "title"), "a");
        assert_true(json_is_string(json_object_get(reply->json, "description")));
        assert_int_equal(reply_number(reply, "price_cents"), 1);
        assert_int_equal(reply_number(reply, "face_value_cents"), 2);
        assert_int_equal(reply_number(reply, "stock_total"), 3);
        assert_int_equal(reply_number(reply, "stock_left"), 3);
        assert_int_equal(reply_number(reply, "per_user_limit"), 1);
        assert_int_equal(reply_number(reply, "pay_within_s"), 900);
        assert_memory_equal(reply_text(reply, "begin_at"), begin, 23);
        assert_memory_equal(reply_text(reply, "end_at"), end, 23);
        assert_string_equal(reply_text(reply, "state"), "open");
        assert_memory_equal(reply_text(reply, "server_time"), time_in_ms(0, now), 16);
        reply = EXPECT(request(service, NULL, NULL, "GET %s", location), 200, NULL);
    }
}

/* -- patch -- */

static void test_patch__changes_what_is_given_and_nothing_else(void **state)
{
    static const struct {
        const char *name;
        const char *body;
        const char *answered; /* how it begins; "" for a number */
    } patches[] = {
        {"title", "{\"title\":\"new\"}", "new"},
        {"description", "{\"description\":\"\"}", ""},
        {"begin_at", "{\"begin_at\":\"2030-01-01T05:00:00+02:00\"}",
         "2030-01-01T03:00:00"},
        {"end_at", "{\"end_at\":\"2031-01-01T00:00:00Z\"}", "2031-01-01T00:00:00"},
        {"begin_at", "{\"begin_at\":\"1970-01-01T00:00:01Z\"}", "1970-01-01T00:00:01"},
        {"pay_within_s", "{\"pay_within_s\":77}", ""},
    };
    char id[ID_SIZE];

    (void)state;
    create_default(id);
    for (size_t i = 0; i < COUNT_OF(patches); i++) {
        const struct client_reply *reply = EXPECT(
            request(service, admin(), patches[i].body, "PATCH /v1/vouchers/%s", id), 200,
            NULL);

        assert_memory_equal(reply_text(reply, patches[i].name), patches[i].answered,
                            strlen(patches[i].answered));
    }
    for (int workers = 0; workers < 8;
         workers++) { /* each connection may reach another worker */
        const struct client_reply *reply =
            EXPECT(request(service, NULL, NULL, "GET /v1/vouchers/%s", id), 200, NULL);

        assert_int_equal(reply_number(reply, "pay_within_s"), 77);
        assert_string_equal(reply_text(reply, "title"), "new");
        assert_int_equal(reply_number(reply, "stock_total"), 10);
        assert_int_equal(reply_number(reply, "price_cents"), 8000);
    }
}

static void test_patch__refuses_an_end_before_the_begin(void **state)
{
    char id[ID_SIZE];
    int64_t version;

    create_default(id);
    version = sql_number(*state, "select version from voucher where id = %s", id);
    assert_true(reply_blames(
        EXPECT(request(service, admin(), "{\"end_at\":\"2029-12-31T23:59:59Z\"}",
                       "PATCH /v1/vouchers/%s", id),
               422, "invalid"),
        "end_at"));
    assert_int_equal(sql_number(*state, "select version from voucher where id = %s", id),
                     version);
}

/* A constraint of the database that no field explains: 500, without its text. */
static void test_write__other_refusals_name_no_field(void **state)
{
    char *body = voucher_with("title", "\"tea\"");
    char id[ID_SIZE];

    create_default(id);
    sql_do(*state, "alter table voucher add constraint no_tea check (title <> 'tea')");
    EXPECT(request(service, admin(), body, "POST /v1/vouchers"), 500, "internal");
    EXPECT(request(service, admin(), "{\"title\":\"tea\"}", "PATCH /v1/vouchers/%s", id),
           500, "internal");
    sql_do(*state, "alter table voucher drop constraint no_tea");
    free(body);
}

/* -- restock -- */

static const struct client_reply *restock(const char *id, const char *add)
{
    char body[64];

    snprintf(body, sizeof(body), "{\"add\":%s}", add);
    return request(service, admin(), body, "POST /v1/vouchers/%s/restock", id);
}

static void test_restock__adds_and_removes(void **state)
{
    static const struct {
        const char *add;
        int status;
        const char *code;
        int64_t total; /* total stock afterwards; at first 10, one of which is sold */
    } steps[] = {
        {"5", 200, NULL, 15},
        {"-3", 200, NULL, 12},
        {"-12", 409, "insufficient_stock", 12},
        {"-100000000", 409, "insufficient_stock", 12},
        {"-11", 200, NULL, 1}, /* the sold one remains */
        {"-1", 409, "insufficient_stock", 1},
        {"99999999", 200, NULL, 100000000},
        {"1", 422, "invalid", 100000000},
        {"100000000", 422, "invalid", 100000000},
    };
    char id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 10}, id);
    EXPECT(place_order(service, 900, id, NULL), 201, NULL);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        const struct client_reply *reply =
            EXPECT(restock(id, steps[i].add), steps[i].status, steps[i].code);

        if (steps[i].status == 200) {
            assert_int_equal(reply_number(reply, "stock_total"), steps[i].total);
            assert_int_equal(reply_number(reply, "stock_left"), steps[i].total - 1);
        }
        assert_int_equal(
            sql_number(*state, "select stock_total from voucher where id = %s", id),
            steps[i].total);
    }
}

/* -- list -- */

struct walk {
    const char *query;
    int64_t ids[400];
    size_t count;
    size_t pages;
};

/* Follow the cursors to the end. */
static void walk_list(struct walk *walk, const char *expected_state)
{
    char cursor[300] = "";
    const json_t *item;
    size_t i;

    walk->count = walk->pages = 0;
    do {
        const struct client_reply *reply =
            EXPECT(request(service, NULL, NULL, "GET /v1/vouchers?%s%s%s", walk->query,
                           cursor[0] ? "&cursor=" : "", cursor),
                   200, NULL);

        json_array_foreach(json_object_get(reply->json, "items"), i, item)
        {
            const char *id = json_string_value(json_object_get(item, "id"));
            const char *item_state = json_string_value(json_object_get(item, "state"));

            assert_true(id != NULL && item_state != NULL && walk->count < 400);
            walk->ids[walk->count++] = number_of(id);
            if (expected_state != NULL)
                assert_string_equal(item_state, expected_state);
        }
        snprintf(cursor, sizeof(cursor), "%s", reply_text(reply, "next_cursor"));
        assert_true(++walk->pages < 400);
    } while (cursor[0] != '\0');
}

static void assert_no_repeats(const struct walk *walk)
{
    for (size_t i = 0; i < walk->count; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(walk->ids[i] != walk->ids[k]);
}

static void test_list__walks_each_state_without_gaps_or_repeats(void **state)
{
    static const struct {
        const char *query;
        const char *state;
        const char *condition;
    } lists[] = {
        {"limit=7", NULL, "true"},
        {"state=upcoming&limit=7", "upcoming", "begin_at > now()"},
        {"state=open&limit=7", "open", "begin_at <= now() and end_at > now()"},
        {"limit=1&state=ended", "ended", "end_at <= now()"},
        {"state=open&limit=100", "open", "begin_at <= now() and end_at > now()"},
        {"state=upcoming", "upcoming", "begin_at > now()"},
    };
    char id[ID_SIZE];

    for (int i = 0; i < 25; i++) { /* equal times are ordered by id */
        make_voucher(
            service,
            &(struct sale){.stock = 1, .begin_in_s = 9999 + i / 10, .end_in_s = 99999},
            id);
        make_voucher(service, &(struct sale){.stock = 1}, id);
        make_voucher(service,
                     &(struct sale){.stock = 1, .begin_in_s = -99, .end_in_s = -9}, id);
    }
    sql_do(*state,
           "update voucher set end_at = date_trunc('hour', end_at) where id %% 2 = 0"
           " and end_at > begin_at + interval '2 hours'");
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        struct walk walk = {.query = lists[i].query};
        int64_t there = sql_number(*state, "select count(*) from voucher where %s",
                                   lists[i].condition);

        walk_list(&walk, lists[i].state);
        assert_no_repeats(&walk);
        assert_int_equal(walk.count, there);
        if (strstr(lists[i].query, "limit=7") != NULL)
            assert_int_equal(walk.pages, (there + 6) / 7);
    }
}

/* -- caches -- */

/* Ask for `target`, then ask again with the tag: 304 unless a second has passed. */
static bool is_revalidated(void *arg)
{
    const char *target = arg;
    const struct client_reply *reply =
        EXPECT(request(service, NULL, NULL, "GET %s", target), 200, NULL);
    char headers[80];

    assert_string_equal(reply_header(reply, "Cache-Control"), "public, max-age=1");
    snprintf(headers, sizeof(headers), "If-None-Match: \"other\", %s\r\n",
             reply_header(reply, "ETag"));
    reply = request_with(service, NULL, headers, NULL, "GET %s", target);
    if (reply->status != 304)
        return false;
    assert_int_equal(reply->body_len, 0);
    assert_string_equal(reply_header(reply, "Cache-Control"), "public, max-age=1");
    assert_non_null(strstr(headers, reply_header(reply, "ETag")));
    return true;
}

static void test_read__may_be_cached_for_a_second(void **state UNUSED)
{
    char id[ID_SIZE], target[64], headers[80];

    create_default(id);
    snprintf(target, sizeof(target), "/v1/vouchers/%s", id);
    AWAIT(is_revalidated, target);
    AWAIT(is_revalidated, (char[]){"/v1/vouchers?limit=5"});
    for (int i = 0; i < 20; i++) { /* a change shows at once, also within the second */
        snprintf(headers, sizeof(headers), "If-None-Match: %s\r\n",
                 reply_header(
                     EXPECT(request(service, NULL, NULL, "GET %s", target), 200, NULL),
                     "ETag"));
        EXPECT(request(service, admin(), "{\"add\":1}", "POST %s/restock", target), 200,
               NULL);
        EXPECT(request_with(service, NULL, headers, NULL, "GET %s", target), 200, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_create__refuses_texts_that_are_too_long),
        CASE(test_create__answers_the_whole_voucher),
        CASE(test_patch__changes_what_is_given_and_nothing_else),
        CASE(test_patch__refuses_an_end_before_the_begin),
        CASE(test_write__other_refusals_name_no_field),
        CASE(test_restock__adds_and_removes),
        CASE(test_read__may_be_cached_for_a_second),
        CASE(test_list__walks_each_state_without_gaps_or_repeats),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
