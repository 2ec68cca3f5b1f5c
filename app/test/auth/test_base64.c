/* test_base64.c - encoding, decoding, invalid text. */
#include "app/auth/base64.h"
#include "test/case_list.h"

#include <stdint.h>
#include <string.h>

UNIT_CASE(test_base64__known_texts)
{
    static const struct {
        const char *bytes, *text;
    } rows[] = {{"", ""},
                {"f", "Zg"},
                {"fo", "Zm8"},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg"},
                {"fooba", "Zm9vYmE"},
                {"\xff\xef", "_-8"},
                {"foobarba", "Zm9vYmFyYmE"}};
    char text[16], bytes[9];
    size_t len;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(bytes, '#', sizeof(bytes));
        assert_int_equal(base64_encode(rows[i].bytes, strlen(rows[i].bytes), text),
                         strlen(rows[i].text));
        assert_string_equal(text, rows[i].text);
        assert_true(base64_decode(text, strlen(text), bytes, 8, &len));
        assert_int_equal(len, strlen(rows[i].bytes));
        assert_memory_equal(bytes, rows[i].bytes, len);
        assert_int_equal(bytes[len], '#');
    }
}

UNIT_CASE(test_base64_decode__refuses_invalid_text)
{
    static const char *const rows[] = {
        "Z",   "A",    "Zm9vA", "Zg==", "Zm9vZ",        "Zh", "Zm9",
        "Z g", "Zg\n", "+/8",   "Zg.",  "Zm9vYmFyYmF6", "A."};
    char bytes[8];
    size_t len;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (base64_decode(rows[i], strlen(rows[i]), bytes, sizeof(bytes), &len))
            fail_msg("%s", rows[i]);
    }
    assert_false(base64_decode("Zg\0A", 4, bytes, sizeof(bytes), &len));
}

int main(void)
{
    return cases_run(NULL, NULL);
}
