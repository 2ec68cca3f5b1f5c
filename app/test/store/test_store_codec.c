/* test_store_codec.c - binary parameters and results: limits and malformed data. */
#include "app/store/store_codec.h"
#include "base/attributes.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <stdint.h>
#include <string.h>

#define EPOCH_US INT64_C(946684800000000)

static PGresult *result_with(const void *bytes, int len)
{
    PGresAttDesc column = {.name = (char[]){"x"}, .format = 1, .typlen = -1};
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);

    assert_non_null(result);
    assert_int_equal(PQsetResultAttrs(result, 1, &column), 1);
    assert_int_equal(PQsetvalue(result, 0, 0, (char *)(uintptr_t)bytes, len), 1);
    return result;
}

static int64_t decoded(const void *bytes, int len)
{
    PGresult *result = result_with(bytes, len);
    int64_t value = result_int64(result, 0, 0);

    PQclear(result);
    return value;
}

UNIT_CASE(test_result_int64__reads_each_width)
{
    assert_int_equal(decoded("\xff\xfe", 2), -2);
    assert_int_equal(decoded("\x80\x00\x00\x00", 4), INT32_MIN);
    assert_int_equal(decoded("\x7f\xff\xff\xff\xff\xff\xff\xff", 8), INT64_MAX);
    assert_int_equal(decoded(NULL, -1), 0);
    assert_int_equal(decoded("\x01\x02\x03", 3), 0);
}

static int64_t decoded_time(const void *bytes)
{
    PGresult *result = result_with(bytes, bytes == NULL ? -1 : 8);
    int64_t value = result_time(result, 0, 0);

    PQclear(result);
    return value;
}

UNIT_CASE(test_result_time__counts_from_1970_and_is_clamped)
{
    assert_int_equal(decoded_time("\0\0\0\0\0\0\0\1"), EPOCH_US + 1);
    assert_int_equal(decoded_time("\x7f\xff\xff\xff\xff\xff\xff\xff"), INT64_MAX);
    assert_int_equal(decoded_time("\x80\0\0\0\0\0\0\0"), INT64_MIN + EPOCH_US);
    assert_int_equal(decoded_time(NULL), 0);
}

UNIT_CASE(test_params_time__is_read_back_unchanged)
{
    static const int64_t times[] = {0, 1, -1, EPOCH_US, INT64_MAX - EPOCH_US};
    struct store_params params = {0};

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        params_begin(&params);
        params_time(&params, times[i]);
        assert_int_equal(decoded_time(params.bytes), times[i]);
    }
    params_begin(&params);
    params_time(&params, INT64_MIN); /* -infinity */
    assert_memory_equal(params.bytes, "\x80\0\0\0\0\0\0\0", 8);
    params_clear(&params);
}

UNIT_CASE(test_params__keep_their_places_while_the_buffer_grows)
{
    struct store_params params = {0};
    const struct text text = {"some text", 9};
    const char *values[STORE_PARAMS_MAX];
    int lengths[STORE_PARAMS_MAX];

    params_begin(&params);
    params_int64(&params, 7);
    params_null(&params);
    params_array_begin(&params, PARAMS_INT64, 10000);
    for (int64_t i = 0; i < 10000; i++)
        params_element_int64(&params, i);
    params_text(&params, &text);
    params_text(&params, NULL);
    assert_int_equal(params.count, 5);
    assert_false(params.has_failed);
    assert_int_equal(params.bytes[params.offsets[0] + 7], 7);
    assert_true(params.is_null[1] && params.is_null[4] && !params.is_null[3]);
    assert_memory_equal(params.bytes + params.offsets[3], text.bytes, text.len);
    assert_int_equal(params.offsets[4] - params.offsets[3], text.len);
    params_point(&params, values, lengths);
    assert_int_equal(lengths[0], 8);
    assert_int_equal(values[0][7], 7);
    assert_null(values[1]);
    assert_int_equal(lengths[2], 20 + 12 * 10000);
    assert_int_equal(lengths[3], text.len);
    assert_memory_equal(values[3], text.bytes, text.len);
    assert_null(values[4]);
    params_clear(&params);
    assert_null(params.bytes);
    assert_int_equal(params.count + (int)params.used + (int)params.size, 0);
}

UNIT_CASE(test_params_copy__of_one_byte)
{
    struct store_params params = {0}, copy;

    params_begin(&params);
    params_text(&params, &(const struct text){"x", 1});
    assert_true(params_copy(&copy, &params));
    ASSERT_NUMBER(copy.used, ==, 1);
    ASSERT_NUMBER(copy.bytes[0], ==, 'x');
    params_clear(&copy);
    params_clear(&params);
}

UNIT_CASE(test_params__have_failed_without_memory)
{
    struct store_params params = {0}, copy;

    params_begin(&params);
    torture_fail(1, 0);
    params_int64(&params, 7);
    assert_true(torture_stop());
    assert_true(params.has_failed);
    assert_false(params_copy(&copy, &params));
    params_begin(&params);
    params_int64(&params, 7);
    assert_false(params.has_failed);
    params_clear(&params);
}

UNIT_CASE(test_result_array__reads_what_was_written)
{
    struct store_params params = {0};
    struct result_array array;
    PGresult *result;

    params_begin(&params);
    params_array_begin(&params, PARAMS_INT64, 3);
    params_element_int64(&params, -5);
    params_element_int64(&params, INT64_MIN);
    params_element_int64(&params, 9);
    result = result_with(params.bytes, (int)params.used);
    array = result_array(result, 0, 0);
    assert_int_equal(array.count, 3);
    assert_int_equal(result_array_next(&array), -5);
    assert_int_equal(result_array_next(&array), INT64_MIN);
    assert_int_equal(result_array_next(&array), 9);
    assert_int_equal(array.count, 0);
    assert_int_equal(result_array_next(&array), 0);
    assert_int_equal(array.count, 0);
    PQclear(result);
    params.bytes[3] = 2; /* the number of dimensions */
    result = result_with(params.bytes, (int)params.used);
    assert_int_equal(result_array(result, 0, 0).count, 0);
    PQclear(result);
    params_clear(&params);
}

UNIT_CASE(test_result_array__refuses_malformed_text)
{
    static const char claims_more[] = "\0\0\0\1\0\0\0\0\0\0\0\x14\0\0\1\0\0\0\0\1"
                                      "\0\0\0\x08\0\0\0\0\0\0\0\x2a\0\0\0\x08\0";

    for (int len = -1; len < (int)sizeof(claims_more); len++) {
        PGresult *result = result_with(claims_more, len);
        struct result_array array = result_array(result, 0, 0);
        int64_t sum = 0;

        assert_true(array.count == (len < 20 ? 0 : 256));
        while (array.count > 0)
            sum += result_array_next(&array);
        assert_int_equal(sum, len < 32 ? 0 : 42);
        PQclear(result);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
