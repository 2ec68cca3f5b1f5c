/* test_trace.c - which request ids and traceparents are accepted. */
#include "app/http/http_impl.h"
#include "test/case_list.h"

#include <stdio.h>

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static bool is_id(const char *text)
{
    char header[200];

    snprintf(header, sizeof(header), "%s\r\n\"", text);
    return http_is_request_id(header, strlen(text));
}

UNIT_CASE(test_is_request_id__has_letters_digits_and_marks)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._:/+=@-";

    for (int byte = 1; byte < 256; byte++) {
        const char text[] = {'a', (char)byte, '\0'};

        if (is_id(text) != (strchr(allowed, byte) != NULL))
            fail_msg("byte %d: expected that it is %s", byte,
                     strchr(allowed, byte) != NULL ? "accepted" : "refused");
    }
}

UNIT_CASE(test_is_request_id__has_1_to_64_bytes)
{
    char text[HTTP_REQUEST_ID_MAX + 2] = "";

    assert_false(is_id(""));
    for (size_t len = 1; len <= HTTP_REQUEST_ID_MAX + 1; len++) {
        text[len - 1] = 'a';
        if (is_id(text) != (len <= 64))
            fail_msg("%zu bytes: expected that they are %s", len,
                     len <= 64 ? "accepted" : "refused");
    }
}

UNIT_CASE(test_is_traceparent__has_its_form)
{
    static const char *const bad[] = {
        "",
        PARENT "0",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
    };
    static const char *const good[] = {
        PARENT,
        "00-00000000000000000000000000000001-0000000000000001-00",
        "00-10000000000000000000000000000000-1000000000000000-ff",
    };

    for (size_t i = 0; i < COUNT_OF(good); i++) {
        asserts_about("the traceparent \"%s\"", good[i]);
        assert_true(http_is_traceparent(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        asserts_about("the traceparent \"%s\"", bad[i]);
        assert_false(http_is_traceparent(bad[i], strlen(bad[i])));
    }
    assert_false(http_is_traceparent(PARENT, sizeof(PARENT) - 2));
    for (size_t i = 0; i < sizeof(PARENT) - 1; i++) {
        char text[] = PARENT;

        text[i] = 'F';
        if (http_is_traceparent(text, strlen(text)))
            fail_msg("%s: expected that it is refused", text);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
