/*
 * it_bad_input.c - every field of every body with each kind of invalid value: the answer is
 * 422 and names the field, or 400; the data stay unchanged.
 */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 12
#define BODY_BYTES 20000

enum kind { TEXT, INTEGER, TIME, BOOLEAN };

struct field {
    const char *name;
    const char *good; /* JSON */
    enum kind kind;
    bool is_required;
    int64_t min, max; /* of a number, or of the characters of a text */
};

/* In a line, {} stands for the id of a voucher, or of an unpaid order. */
static const struct body {
    const char *line;
    bool is_of_order;
    bool is_of_payment;
    struct field fields[FIELDS_MAX];
} bodies[] = {
    {"POST /v1/vouchers",
     false,
     false,
     {{"title", "\"t\"", TEXT, true, 1, 200},
      {"description", "\"d\"", TEXT, false, 0, 4000},
      {"price_cents", "1", INTEGER, true, 0, 1000000000000},
      {"face_value_cents", "1", INTEGER, true, 0, 1000000000000},
      {"stock", "1", INTEGER, true, 0, 100000000},
      {"per_user_limit", "1", INTEGER, false, 1, 100},
      {"begin_at", "\"2030-01-01T00:00:00Z\"", TIME, true, 0, 0},
      {"end_at", "\"2031-01-01T00:00:00Z\"", TIME, true, 0, 0},
      {"pay_within_s", "900", INTEGER, false, 1, 2592000},
      {"requires_ticket", "false", BOOLEAN, false, 0, 0},
      {"pow_bits", "0", INTEGER, false, 0, 32}}},
    {"PATCH /v1/vouchers/{}",
     false,
     false,
     {{"title", "\"t\"", TEXT, false, 1, 200},
      {"description", "\"d\"", TEXT, false, 0, 4000},
      {"begin_at", "\"2030-01-01T00:00:00Z\"", TIME, false, 0, 0},
      {"end_at", "\"2031-01-01T00:00:00Z\"", TIME, false, 0, 0},
      {"pay_within_s", "900", INTEGER, false, 1, 2592000},
      {"requires_ticket", "false", BOOLEAN, false, 0, 0},
      {"pow_bits", "0", INTEGER, false, 0, 32}}},
    {"POST /v1/vouchers/{}/restock",
     false,
     false,
     {{"add", "1", INTEGER, true, -100000000, 100000000}}},
    {"POST /v1/orders/{}/pay",
     true,
     true,
     {{"payment_ref", "\"p\"", TEXT, true, 1, 200},
      {"amount_cents", "8000", INTEGER, true, 0, 1000000000000}}},
};

static const char *const bad_texts[] = {"null", "7", "true", "1.5", "[\"x\"]", "{}"};
static const char *const bad_integers[] = {
    "null", "\"1\"", "true", "1.5", "1.0", "1e3", "[1]", "{}",
    /* 64 bits overflow */
    "9223372036854775808", "-9223372036854775809", "18446744073709551617", "1e400"};
static const char *const bad_times[] = {"null",
                                        "1893456000",
                                        "true",
                                        "[]",
                                        "{}",
                                        "\"\"",
                                        "\"tomorrow\"",
                                        "\"2030-01-01\"",
                                        "\"2030-02-30T00:00:00Z\"",
                                        "\"2030-01-01T00:00:00\"",
                                        "\"2030-01-01T24:00:00Z\"",
                                        "\"2030-01-01T00:00:61Z\"",
                                        "\"2030-01-01T00:00:00+24:00\"",
                                        "\"10000-01-01T00:00:00Z\"",
                                        "\"9999-12-31T23:59:60Z\"",
                                        "\"9999-12-31T23:59:59-00:01\"",
                                        "\"0000-01-01T00:00:00Z\"",
                                        "\"1969-12-31T23:59:59Z\""};
static const char *const bad_booleans[] = {"null", "0",  "1", "\"true\"",
                                           "\"\"", "[]", "{}"};

static struct service *service;
static char voucher_id[ID_SIZE], order_id[ID_SIZE];

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    snprintf(
        order_id, sizeof(order_id), "%s",
        reply_text(EXPECT(place_order(service, 7, voucher_id, NULL), 201, NULL), "id"));
    return 0;
}

/* -- bodies -- */

/* The valid body with one field replaced; `value` NULL leaves the field out. `more` is inserted
   before the closing brace. */
static const char *write_body(const struct body *body, const struct field *changed,
                              const char *value, const char *more)
{
    static char text[BODY_BYTES];
    const char *comma = "";
    size_t len = (size_t)sprintf(text, "{");

    for (const struct field *field = body->fields; field->name != NULL; field++) {
        const char *used = field == changed ? value : field->good;

        if (used == NULL)
            continue;
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\"%s\":%s", comma,
                                field->name, used);
        comma = ",";
    }
    snprintf(text + len, sizeof(text) - len, "%s}", more);
    return text;
}

static const struct client_reply *send_body(const struct body *body, const char *text)
{
    char line[100];

    fill(body->line, body->is_of_order ? order_id : voucher_id, line, sizeof(line));
    return request(service, body->is_of_payment ? payment() : admin(), text, "%s", line);
}

static bool is_refused(const struct body *body, const char *field, const char *text)
{
    const struct client_reply *reply = send_body(body, text);

    if (reply_is(reply, 400, "bad_request") ||
        (reply_is(reply, 422, "invalid") && reply_blames(reply, field)))
        return true;
    print_error("%s %.300s: %d %.300s\n", body->line, text, reply->status, reply->body);
    return false;
}

static size_t count_taken(const struct body *body, const struct field *field,
                          const char *const *values, size_t count)
{
    size_t taken = 0;

    for (size_t i = 0; i < count; i++)
        taken += !is_refused(body, field->name, write_body(body, field, values[i], ""));
    return taken;
}

/* Tries the value below the minimum and the value above the maximum. */
static size_t count_numbers_taken(const struct body *body, const struct field *field)
{
    char below[32], above[32];
    const char *const values[] = {below, above};

    snprintf(below, sizeof(below), "%lld", (long long)field->min - 1);
    snprintf(above, sizeof(above), "%lld", (long long)field->max + 1);
    return count_taken(body, field, values, 2);
}

static size_t count_lengths_taken(const struct body *body, const struct field *field)
{
    static char above[BODY_BYTES];
    const char *const values[] = {above, "\"\""};
    size_t len = (size_t)field->max + 1;

    memset(above, 'x', len + 2);
    above[0] = above[len + 1] = '"';
    above[len + 2] = '\0';
    return count_taken(body, field, values, field->min > 0 ? 2 : 1);
}

static size_t count_kind_taken(const struct body *body, const struct field *field)
{
    switch (field->kind) {
    case TEXT:
        return count_taken(body, field, bad_texts, COUNT_OF(bad_texts)) +
               count_lengths_taken(body, field);
    case INTEGER:
        return count_taken(body, field, bad_integers, COUNT_OF(bad_integers)) +
               count_numbers_taken(body, field);
    case TIME:
        return count_taken(body, field, bad_times, COUNT_OF(bad_times));
    case BOOLEAN:
        return count_taken(body, field, bad_booleans, COUNT_OF(bad_booleans));
    }
    return 1;
}

static size_t count_field_taken(const struct body *body, const struct field *field)
{
    char twice[300];
    size_t taken = count_kind_taken(body, field);

    if (field->is_required)
        taken += !is_refused(body, field->name, write_body(body, field, NULL, ""));
    snprintf(twice, sizeof(twice), ",\"%s\":%s", field->name, field->good);
    return taken + !is_refused(body, field->name, write_body(body, NULL, NULL, twice));
}

/* Everything that a request can change. */
static char *digest(struct fixture *fixture)
{
    return sql_text(
        fixture,
        "select md5((select coalesce(string_agg(v::text, ';' order by v.id), '') from "
        "voucher v) || (select coalesce(string_agg(o::text, ';' order by o.id), '') from "
        "voucher_order o))");
}

static void test_body__each_field_wrong_in_each_way(void **state)
{
    char *before = digest(*state), *after;
    size_t taken = 0;

    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        const struct field *field = bodies[i].fields;

        for (; field->name != NULL; field++)
            taken += count_field_taken(&bodies[i], field);
    }
    assert_int_equal(taken, 0);
    after = digest(*state);
    assert_string_equal(after, before);
    free(before);
    free(after);
}

static void test_body__without_the_expected_members_is_refused(void **state)
{
    static const char *const texts[] = {
        "",       "[]",       "null", "7",    "\"x\"",   "{",    "{}x",
        "{\"a\"", "{\"a\":}", "{,}",  "\xff", "{'a':1}", "{}{}", "\xef\xbb\xbf{}"};
    char *before = digest(*state), *after;
    size_t taken = 0;

    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        for (size_t k = 0; k < COUNT_OF(texts); k++)
            taken += !is_refused(&bodies[i], "", texts[k]);
        taken += !is_refused(&bodies[i], "unknown",
                             write_body(&bodies[i], NULL, NULL, ",\"unknown\":1"));
    }
    assert_int_equal(taken, 0);
    after = digest(*state);
    assert_string_equal(after, before);
    free(before);
    free(after);
}

/* A control: the bodies that the tests above change are valid. */
static void test_body__valid_is_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        const struct client_reply *reply =
            send_body(&bodies[i], write_body(&bodies[i], NULL, NULL, ""));

        if (reply->status != 200 && reply->status != 201)
            fail_msg("%s: %d %s", bodies[i].line, reply->status, reply->body);
    }
}

/* -- rules between fields -- */

/* A constraint of the database that no field explains: 500, without its text. */
static void test_rules__other_refusals_name_no_field(void **state)
{
    static const char body[] =
        "{\"title\":\"tea\",\"price_cents\":1,\"face_value_cents\":1,\"stock\":1,"
        "\"begin_at\":\"2030-01-01T00:00:00Z\",\"end_at\":\"2030-01-02T00:00:00Z\"}";

    sql_do(*state, "alter table voucher add constraint no_tea check (title <> 'tea')");
    EXPECT(request(service, admin(), body, "POST /v1/vouchers"), 500, "internal");
    EXPECT(request(service, admin(), "{\"title\":\"tea\"}", "PATCH /v1/vouchers/%s",
                   voucher_id),
           500, "internal");
    sql_do(*state, "alter table voucher drop constraint no_tea");
}

static void test_rules__between_fields(void **state)
{
    static const struct {
        const char *line, *body;
        int status;
        const char *field; /* 422: the field; otherwise the code */
    } rows[] = {
        {"POST /v1/vouchers",
         "{\"title\":\"t\",\"price_cents\":1,\"face_value_cents\":1,\"stock\":1,"
         "\"begin_at\":\"2030-01-01T00:00:00Z\",\"end_at\":\"2030-01-01T00:00:00Z\"}",
         422, "end_at"},
        {"POST /v1/vouchers",
         "{\"title\":\"t\",\"price_cents\":1,\"face_value_cents\":1,\"stock\":1,"
         "\"begin_at\":\"2030-01-01T00:00:00Z\",\"end_at\":\"2030-01-01T01:00:00+02:"
         "00\"}",
         422, "end_at"},
        {"PATCH /v1/vouchers/{}", "{\"end_at\":\"2000-01-01T00:00:00Z\"}", 422, "end_at"},
        {"POST /v1/vouchers/{}/restock", "{\"add\":-100000}", 409, "insufficient_stock"},
        {"POST /v1/vouchers/{}/restock", "{\"add\":100000000}", 422, "add"},
    };
    char *before = digest(*state), *after;
    char line[100];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct client_reply *reply =
            request(service, admin(), rows[i].body, "%s",
                    fill(rows[i].line, voucher_id, line, sizeof(line)));
        bool is_named = rows[i].status == 422
                            ? reply_blames(reply, rows[i].field)
                            : strcmp(reply_text(reply, "code"), rows[i].field) == 0;

        if (reply->status != rows[i].status || !is_named)
            fail_msg("%s %s: %d %s", rows[i].line, rows[i].body, reply->status,
                     reply->body);
    }
    after = digest(*state);
    assert_string_equal(after, before);
    free(before);
    free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_body__each_field_wrong_in_each_way),
        CASE(test_body__without_the_expected_members_is_refused),
        CASE(test_rules__between_fields),
        CASE(test_rules__other_refusals_name_no_field),
        CASE(test_body__valid_is_accepted),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
