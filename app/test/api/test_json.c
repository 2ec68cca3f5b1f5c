/* test_json.c - reading bodies by a table of fields, and printing JSON. */
#include "app/api/json.h"
#include "test/case_list.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct body {
    int64_t number, at_us;
    struct text title;
};

static const struct json_field fields[] = {
    {"number", JSON_FIELD_INTEGER, true, 1, 100, offsetof(struct body, number)},
    {"title", JSON_FIELD_TEXT, false, 1, 3, offsetof(struct body, title)},
    {"at", JSON_FIELD_TIME, false, 0, 1000000, offsetof(struct body, at_us)},
    {0}};

static enum rlock_status read_body(const char *text, struct body *body,
                                   struct json_errors *errors)
{
    json_t *document = NULL;
    enum rlock_status status = json_parse((struct text){text, strlen(text)}, &document);

    *errors = (struct json_errors){0};
    if (status == RLOCK_OK)
        json_read(document, fields, body, errors);
    json_decref(document);
    return status;
}

UNIT_CASE(test_json_read__fills_the_target)
{
    static const char text[] =
        "{\"number\": 7, \"title\": \"\xe7\xa7\x92\xe6\x9d\x80!\", \"at\": "
        "\"1970-01-01T00:00:01Z\"}";
    json_t *document = NULL;
    struct json_errors errors = {0};
    struct body body = {0};

    assert_int_equal(json_parse((struct text){text, strlen(text)}, &document), RLOCK_OK);
    json_read(document, fields, &body, &errors);
    assert_int_equal(errors.count, 0);
    assert_int_equal(body.number, 7);
    assert_int_equal(body.at_us, 1000000);
    assert_int_equal(body.title.len, 7);
    json_decref(document);
}

UNIT_CASE(test_json_read__malformed)
{
    static const char *const rows[] = {
        "",
        "{",
        "7",
        "null",
        "{\"number\":1,\"number\":1}",
        "{\"number\":1}x",
        "{'number':1}",
        "{\"number\":1,}",
        "{\"number\":\xff}",
        "{\"title\":\"\xc3\"}",
        "{\"title\":\"\xc0\xaf\"}",     /* an overlong encoding */
        "{\"title\":\"\xed\xa0\x80\"}", /* a surrogate, which UTF-8 does not have */
        "{\"title\":\"\\ud800\"}",
        "{\"number\":9223372036854775808}",
        "{\"number\":1e999}",
    };
    struct json_errors errors;
    struct body body = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(read_body(rows[i], &body, &errors), RLOCK_INVALID);
}

static void *no_memory(size_t size UNUSED)
{
    return NULL;
}

UNIT_CASE(test_json_read__without_memory)
{
    struct json_errors errors;
    struct body body = {0};
    json_malloc_t json_malloc;
    json_free_t json_free;

    json_get_alloc_funcs(&json_malloc, &json_free);
    json_set_alloc_funcs(no_memory, json_free);
    ASSERT_STATUS(read_body("{\"number\":1}", &body, &errors), RLOCK_NO_MEMORY);
    json_set_alloc_funcs(json_malloc, json_free);
}

UNIT_CASE(test_json_read__names_the_field)
{
    static const struct {
        const char *text, *field;
    } rows[] = {
        {"{}", "number"},
        {"{\"number\":null}", "number"},
        {"{\"number\":\"1\"}", "number"},
        {"{\"number\":1.0}", "number"},
        {"{\"number\":1e1}", "number"},
        {"{\"number\":true}", "number"},
        {"{\"number\":0}", "number"},
        {"{\"number\":101}", "number"},
        {"{\"number\":1,\"title\":\"\"}", "title"},
        {"{\"number\":1,\"title\":\"\xe7\xa7\x92\xe6\x9d\x80!!\"}", "title"},
        {"{\"number\":1,\"title\":\"a\\u0000\"}", "title"},
        {"{\"number\":1,\"title\":7}", "title"},
        {"{\"number\":1,\"at\":7}", "at"},
        {"{\"number\":1,\"at\":\"tomorrow\"}", "at"},
        {"{\"number\":1,\"at\":\"1970-01-01T00:00:02Z\"}", "at"},
        {"{\"number\":1,\"other\":1}", "other"},
    };
    struct json_errors errors;
    struct body body = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(read_body(rows[i].text, &body, &errors), RLOCK_OK);
        assert_int_equal(errors.count, 1);
        assert_string_equal(errors.rows[0].field, rows[i].field);
    }
}

/* Postgres cannot store a NUL, so the message must name it. Other messages must not mention it. */
UNIT_CASE(test_json_read__names_a_nul_where_there_is_one)
{
    struct json_errors errors;
    struct body body = {0};

    ASSERT_STATUS(read_body("{\"number\":1,\"title\":\"a\\u0000\"}", &body, &errors),
                  RLOCK_OK);
    assert_string_equal(errors.rows[0].message, "must not contain the character NUL");
    ASSERT_STATUS(read_body("{\"number\":1,\"title\":\"\"}", &body, &errors), RLOCK_OK);
    ASSERT_CONTAINS(errors.rows[0].message, "must be a text of ");
    ASSERT_STATUS(read_body("{\"number\":1,\"title\":7}", &body, &errors), RLOCK_OK);
    ASSERT_CONTAINS(errors.rows[0].message, "must be a text of ");
}

UNIT_CASE(test_json_errors_add__is_bounded_and_cut_between_characters)
{
    struct json_errors errors = {0};
    char name[200];

    memset(name, 'a', sizeof(name));
    memcpy(name + 62, "\xe7\xa7\x92", 3); /* byte 63 is in the middle of this character */
    name[199] = '\0';
    for (int i = 0; i < JSON_ERRORS_MAX + 5; i++)
        json_errors_add(&errors, name, "unknown field");
    assert_int_equal(errors.count, JSON_ERRORS_MAX);
    assert_int_equal(strlen(errors.rows[0].field), 62);
    errors.count = 0;
    memset(name, 'a', sizeof(name) - 1);
    json_errors_add(&errors, name, "unknown field");
    assert_int_equal(strlen(errors.rows[0].field), 63);
    errors.count = 0;
    /* The middle of a character, without its beginning. */
    memset(name, '\x80', sizeof(name) - 1);
    json_errors_add(&errors, name, "unknown field");
    assert_string_equal(errors.rows[0].field, "");
}

UNIT_CASE(test_json_print_order__is_json_with_ids_as_strings)
{
    const struct order order = {.id = INT64_MAX,
                                .voucher_id = INT64_MAX,
                                .user_id = INT64_MAX,
                                .price_cents = CENTS_MAX,
                                .created_us = INT64_C(253402300799999999),
                                .expires_us = INT64_C(253402300799999999),
                                .paid_us = INT64_C(253402300799999999),
                                .status = ORDER_CANCELLED};
    char text[JSON_ORDER_BYTES];
    size_t len = json_print_order(&order, text);
    json_t *root = json_loadb(text, len, 0, NULL);

    assert_true(len < JSON_ORDER_BYTES);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "id")),
                        "9223372036854775807");
    assert_string_equal(json_string_value(json_object_get(root, "status")), "cancelled");
    assert_string_equal(json_string_value(json_object_get(root, "paid_at")),
                        "9999-12-31T23:59:59.999999Z");
    json_decref(root);
}

UNIT_CASE(test_json_print_webhook__names_the_type)
{
    static const char *const rows[][4] = {{NULL, NULL, NULL, "stock.changed"},
                                          {NULL, NULL, "{}", "voucher.changed"},
                                          {NULL, "unpaid", NULL, "order.placed"},
                                          {"unpaid", "paid", "ref", "order.paid"}};
    struct event event = {.id = 7, .voucher_id = 8, .order_id = 9, .actor = "x"};
    char begin[120];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text;

        event.from_status = rows[i][0];
        event.to_status = rows[i][1];
        event.detail = rows[i][2];
        text = json_print_webhook(&event);
        snprintf(begin, sizeof(begin),
                 "{\"type\":\"%s\",\"timestamp\":\"1970-01-01T00:00:00Z\","
                 "\"data\":{\"id\":\"7\",\"voucher_id\":\"8\",",
                 rows[i][3]);
        ASSERT_BEGINS(text, begin);
        free(text);
    }
}

UNIT_CASE(test_json_print_voucher__state_by_the_clock)
{
    const struct voucher voucher = {.id = 3,
                                    .title = {"a\"b", 3},
                                    .description = {"", 0},
                                    .begin_us = 1000000,
                                    .end_us = 2000000};
    static const struct {
        int64_t now_us;
        const char *state;
    } rows[] = {
        {999999, "upcoming"}, {1000000, "open"}, {1999999, "open"}, {2000000, "ended"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = json_print_voucher(&voucher, rows[i].now_us);
        json_t *root = json_loads(text, 0, NULL);

        assert_string_equal(json_string_value(json_object_get(root, "state")),
                            rows[i].state);
        assert_string_equal(json_string_value(json_object_get(root, "title")), "a\"b");
        json_decref(root);
        free(text);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
