/* test_text.c - comparisons, ids, documents. */
#include "app/core/text.h"
#include "test/case_list.h"

#include <stdlib.h>

static struct text text_of(const char *bytes)
{
    return (struct text){bytes, strlen(bytes)};
}

UNIT_CASE(test_text_is__compares_all_bytes)
{
    assert_true(text_is(text_of("open"), "open"));
    assert_true(text_is((struct text){"opened", 4}, "open"));
    assert_true(text_is(text_of(""), ""));
    assert_false(text_is((struct text){0}, ""));
    assert_false(text_is(text_of("ope"), "open"));
    assert_false(text_is(text_of("opened"), "open"));
    assert_false(text_is(text_of("Open"), "open"));
}

UNIT_CASE(test_text_has__finds_a_part)
{
    assert_true(text_has(text_of("a, \"b\""), "\"b\""));
    assert_false(text_has(text_of("a, \"c\""), "\"b\""));
    assert_false(text_has((struct text){"ab", 1}, "b"));
    assert_false(text_has((struct text){0}, "b"));
}

UNIT_CASE(test_text_is_url__accepts_http_up_to_2000_bytes)
{
    static char longest[2001] = "https://";

    memset(longest + strlen(longest), 'x', 2001 - strlen(longest));
    assert_true(text_is_url((struct text){longest, 2000}));
    assert_false(text_is_url((struct text){longest, 2001}));
    assert_true(text_is_url(text_of("http://a")));
    assert_false(text_is_url(text_of("http:/a")));
    assert_false(text_is_url(text_of("xhttps://a")));
    assert_false(text_is_url((struct text){longest, 7}));
    assert_false(text_is_url((struct text){0}));
    assert_true(text_is_url(text_of("http://a!~")));
    assert_false(text_is_url(text_of("http://a b")));
    assert_false(text_is_url(text_of("http://a\x7f")));
    assert_false(text_is_url(text_of("http://\303\244")));
}

UNIT_CASE(test_text_parse_id__accepts_positive_numbers)
{
    static const struct {
        const char *text;
        int64_t id; /* 0: the text is refused */
    } rows[] = {
        {"1", 1},
        {"90", 90},
        {"123456789", 123456789},
        {"", 0},
        {"0", 0},
        {"01", 0},
        {"-1", 0},
        {"+1", 0},
        {" 1", 0},
        {"1/", 0},
        {"1:", 0},
        {"1a", 0},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", 0},
        {"92233720368547758070", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t id = 7;
        bool is_id = text_parse_id(text_of(rows[i].text), &id);

        if (is_id != (rows[i].id != 0) || id != (is_id ? rows[i].id : 7))
            fail_msg("\"%s\": %s, %lld", rows[i].text, is_id ? "accepted" : "refused",
                     (long long)id);
    }
}

UNIT_CASE(test_text_document__returns_what_was_printed)
{
    struct text_document document;
    char *text;

    assert_true(text_document_begin(&document));
    fprintf(document.out, "%d lines", 12);
    text = text_document_end(&document);
    assert_string_equal(text, "12 lines");
    assert_int_equal(document.len, 8);
    free(text);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
