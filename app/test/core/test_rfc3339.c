/* test_rfc3339.c - times to text and back. */
#include "app/core/rfc3339.h"
#include "test/case_list.h"

#include <stdlib.h>
#include <string.h>

UNIT_CASE(test_rfc3339_print__known_times)
{
    static const struct {
        int64_t us;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00Z"},
        {1, "1970-01-01T00:00:00.000001Z"},
        {INT64_C(3600000000), "1970-01-01T01:00:00Z"},
        {INT64_C(86399000000), "1970-01-01T23:59:59Z"},
        {-1, "1969-12-31T23:59:59.999999Z"},
        {INT64_C(951782400000000), "2000-02-29T00:00:00Z"},
        {INT64_C(4107542400000000), "2100-03-01T00:00:00Z"},
        {INT64_C(253402300799999999), "9999-12-31T23:59:59.999999Z"},
        {INT64_C(-62135596800000000), "0001-01-01T00:00:00Z"},
        {INT64_C(-62162035200000000), "0000-03-01T00:00:00Z"},
    };
    char text[RFC3339_BYTES];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(rfc3339_print(rows[i].us, text), strlen(rows[i].text));
        assert_string_equal(text, rows[i].text);
    }
}

UNIT_CASE(test_rfc3339_parse__accepts)
{
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:00z", 0},
        {"1970-01-01 00:00:00Z", 0},
        {"1970-01-01T08:00:00+08:00", 0},
        {"1969-12-31T16:30:00-07:30", 0},
        {"1970-01-01T00:30:00+00:30", 0},
        {"1970-01-01T23:59:00+23:59", 0},
        {"1970-01-01T00:00:00.1234567Z", 123456},
        {"1970-01-01T00:00:00.5Z", 500000},
        {"1972-06-30T23:59:60Z", INT64_C(78796800000000)},
        {"2000-02-29T12:00:00Z", INT64_C(951825600000000)},
        {"9999-12-31T23:59:59.999999Z", INT64_C(253402300799999999)},
    };
    int64_t us;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        us = -1;
        assert_true(rfc3339_parse(rows[i].text, strlen(rows[i].text), &us));
        assert_int_equal(us, rows[i].us);
    }
}

UNIT_CASE(test_rfc3339_parse__refuses)
{
    static const char *const rows[] = {
        "",
        "2030",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-13-01T00:00:00Z",
        "2030-00-01T00:00:00Z",
        "2030-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2030-01-32T00:00:00Z",
        "2030-01-00T00:00:00Z",
        "2030-01-01T24:00:00Z",
        "2030-01-01T00:60:00Z",
        "2030-01-01T00:00:61Z",
        "2030-01-01T00:00:00.Z",
        "2030-01-01T00:00:00.5",
        "2030-01-01T00:00:00+24:00",
        "2030-01-01T00:00:00./Z",
        "2030-01-01T00:00:00+08:60",
        "2030-01-01T00:00:00+0800",
        "2030-01-01T00:00:00+08:00x",
        "2030-01-01T00:00:00Zx",
        "0000-01-01T00:00:00Z",
        "+2030-01-01T00:00:00Z",
        " 2030-01-01T00:00:00Z",
    };
    int64_t us = 7;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = strlen(rows[i]);
        /* the text ends with the block, so a sanitizer finds a read behind it */
        char *block = malloc(1 + len);
        char *text = block + 1;

        memcpy(text, rows[i], len);
        if (rfc3339_parse(text, len, &us))
            fail_msg("\"%s\": expected that it is refused", rows[i]);
        free(block);
    }
    assert_int_equal(us, 7);
}

/* The bytes '/' and ':' come just before '0' and just after '9'. */
UNIT_CASE(test_rfc3339_parse__refuses_a_wrong_byte)
{
    static const char valid[] = "2030-01-01T00:00:00.5+08:00", wrong[] = "/:x";
    int64_t us;

    for (size_t i = 0; i < (sizeof(valid) - 1) * strlen(wrong); i++) {
        char text[sizeof(valid)], byte = wrong[i % strlen(wrong)];
        size_t at = i / strlen(wrong);

        memcpy(text, valid, sizeof(valid));
        text[at] = byte;
        if (rfc3339_parse(text, strlen(text), &us) != (byte == valid[at]))
            fail_msg("%s: expected that it is refused", text);
    }
}

UNIT_CASE(test_rfc3339_parse__reverses_print)
{
    char text[RFC3339_BYTES];
    int64_t us = 0;

    for (int64_t at = INT64_C(-62135596800000000); at < INT64_C(253402300799999999);
         at += INT64_C(7777777777777)) {
        assert_true(rfc3339_parse(text, rfc3339_print(at, text), &us));
        assert_int_equal(us, at);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
