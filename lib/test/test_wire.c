/* test_wire.c - the bytes of commands. */
#include "redis/wire.h"
#include "test/cases.h"
#include "test/torture.h"

#include <stdlib.h>
#include <string.h>

static void assert_wire(const struct redis_wire *wire, const char *expected, size_t len)
{
    assert_int_equal(wire->len, len);
    assert_memory_equal(wire->data, expected, len);
}

UNIT_CASE(test_redis_wire_bulk__command_with_any_bytes)
{
    static const char expected[] = "*3\r\n$3\r\nSET\r\n$4\r\na\0\r\n\r\n$0\r\n\r\n";
    struct redis_wire wire = {0};

    redis_wire_array(&wire, 3);
    redis_wire_bulk(&wire, "SET", 3);
    redis_wire_bulk(&wire, "a\0\r\n", 4);
    redis_wire_bulk(&wire, "", 0);
    assert_wire(&wire, expected, sizeof(expected) - 1);
    assert_false(wire.failed);
    redis_wire_clear(&wire);
}

UNIT_CASE(test_redis_wire_bulk__grows_over_many_sizes)
{
    struct redis_wire wire = {0};
    size_t len = 300000, small_len = 17;
    char *big = malloc(len);

    memset(big, 'x', len);
    for (int i = 0; i < 5000; i++)
        redis_wire_bulk(&wire, "0123456789", 10);
    redis_wire_bulk(&wire, big, len);
    assert_int_equal(wire.len, 5000 * small_len + 9 + len + 2);
    assert_memory_equal(wire.data + 4999 * small_len, "$10\r\n0123456789\r\n", 17);
    assert_memory_equal(wire.data + 5000 * small_len, "$300000\r\nx", 10);
    assert_memory_equal(wire.data + wire.len - 3, "x\r\n", 3);
    free(big);
    redis_wire_clear(&wire);
    ASSERT_NUMBER(wire.len, ==, 0);
    redis_wire_bulk(&wire, "SET", 3);
    assert_wire(&wire, "$3\r\nSET\r\n", 9);
    redis_wire_clear(&wire);
}

static void assert_rest(const struct redis_wire *wire, const char *expected)
{
    assert_int_equal(wire->len - wire->begin, strlen(expected));
    assert_memory_equal(wire->data + wire->begin, expected, strlen(expected));
}

UNIT_CASE(test_redis_wire_shift__keeps_what_was_not_sent)
{
    struct redis_wire wire = {0};

    redis_wire_array(&wire, 1);
    redis_wire_bulk(&wire, "PING", 4);
    redis_wire_shift(&wire, 4);
    assert_rest(&wire, "$4\r\nPING\r\n");
    redis_wire_shift(&wire, 3);
    assert_rest(&wire, "\nPING\r\n");
    ASSERT_NUMBER(wire.begin, ==, 7); /* as many bytes are left, so they are not moved */
    redis_wire_shift(&wire, 1);
    assert_rest(&wire, "PING\r\n");
    ASSERT_NUMBER(wire.begin, ==, 0);
    redis_wire_array(&wire, 2);
    assert_rest(&wire, "PING\r\n*2\r\n");
    redis_wire_shift(&wire, 9);
    assert_rest(&wire, "\n");
    redis_wire_shift(&wire, 1);
    assert_int_equal(wire.len, 0);
    assert_int_equal(wire.begin, 0);
    redis_wire_clear(&wire);
}

UNIT_CASE(test_redis_wire_cut__forgets_an_unfinished_command)
{
    struct redis_wire wire = {0};

    redis_wire_bulk(&wire, "one", 3);
    redis_wire_bulk(&wire, "two", 3);
    wire.failed = true;
    redis_wire_bulk(&wire, "lost", 4);
    assert_int_equal(wire.len, 18);
    redis_wire_cut(&wire, 9);
    assert_wire(&wire, "$3\r\none\r\n", 9);
    assert_false(wire.failed);
    redis_wire_clear(&wire);
}

UNIT_CASE(test_redis_wire_bulk__without_memory_has_failed)
{
    struct redis_wire wire = {0};

    torture_fail(1, 0);
    redis_wire_bulk(&wire, "SET", 3);
    if (!torture_stop() || !wire.failed)
        fail_msg("an allocation failed, and the buffer does not tell");
    redis_wire_clear(&wire);
}

UNIT_CASE(test_redis_wire_digits__whole_range)
{
    char digits[REDIS_DIGITS_MAX];

    assert_int_equal(redis_wire_digits(digits, 0), 1);
    assert_memory_equal(digits, "0", 1);
    assert_int_equal(redis_wire_digits(digits, 1234567890), 10);
    assert_memory_equal(digits, "1234567890", 10);
    assert_int_equal(redis_wire_digits(digits, UINT64_MAX), 20);
    assert_memory_equal(digits, "18446744073709551615", 20);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
