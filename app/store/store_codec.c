/* store_codec.c - encodes and decodes values as the send and receive functions of Postgres do. */
#include "app/store/store_codec.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_US INT64_C(946684800000000) /* 2000-01-01 in Unix time */

/* -- parameters -- */

void params_begin(struct store_params *params)
{
    params->used = 0;
    params->count = 0;
    params->has_failed = false;
}

void params_clear(struct store_params *params)
{
    free(params->bytes);
    memset(params, 0, sizeof(*params));
}

bool params_copy(struct store_params *params, const struct store_params *from)
{
    char *bytes = from->has_failed ? NULL : malloc(from->used + 1);

    if (bytes == NULL)
        return false;
    if (from->used > 0)
        memcpy(bytes, from->bytes, from->used);
    *params = *from;
    params->bytes = bytes;
    params->size = from->used + 1;
    return true;
}

static void put(struct store_params *params, const void *bytes, size_t len)
{
    if (params->used + len > params->size) {
        size_t size = 2 * (params->used + len) + 1024;
        char *grown = realloc(params->bytes, size);

        if (grown == NULL) {
            params->has_failed = true;
            return;
        }
        params->bytes = grown;
        params->size = size;
    }
    if (len > 0)
        memcpy(params->bytes + params->used, bytes, len);
    params->used += len;
    params->offsets[params->count] = params->used;
}

static void put_int32(struct store_params *params, size_t value)
{
    uint32_t wire = htobe32((uint32_t)value);

    put(params, &wire, sizeof(wire));
}

static void put_int64(struct store_params *params, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);

    put(params, &wire, sizeof(wire));
}

static void begin_param(struct store_params *params, bool is_null)
{
    assert(params->count < STORE_PARAMS_MAX);
    params->is_null[params->count] = is_null;
    params->offsets[params->count++] = params->used;
}

void params_null(struct store_params *params)
{
    begin_param(params, true);
}

void params_int64(struct store_params *params, int64_t value)
{
    begin_param(params, false);
    put_int64(params, value);
}

/* Returns the time as Postgres sends it. INT64_MIN and INT64_MAX mean infinity in both forms. */
static int64_t wire_time(int64_t unix_us)
{
    if (unix_us == INT64_MAX)
        return INT64_MAX;
    return unix_us < INT64_MIN + EPOCH_US ? INT64_MIN : unix_us - EPOCH_US;
}

void params_time(struct store_params *params, int64_t unix_us)
{
    params_int64(params, wire_time(unix_us));
}

void params_text(struct store_params *params, const struct text *text)
{
    bool is_null = text == NULL || text->bytes == NULL;

    begin_param(params, is_null);
    if (!is_null)
        put(params, text->bytes, text->len);
}

void params_array_begin(struct store_params *params, enum params_type type, size_t count)
{
    begin_param(params, false);
    put_int32(params, 1);                   /* dimensions */
    put_int32(params, type == PARAMS_TEXT); /* whether the array may contain NULLs */
    put_int32(params, type);
    put_int32(params, count);
    put_int32(params, 1); /* first index */
}

void params_element_bool(struct store_params *params, bool value)
{
    char wire = value ? 1 : 0;

    put_int32(params, sizeof(wire));
    put(params, &wire, sizeof(wire));
}

void params_element_int64(struct store_params *params, int64_t value)
{
    put_int32(params, sizeof(value));
    put_int64(params, value);
}

void params_element_time(struct store_params *params, int64_t unix_us)
{
    params_element_int64(params, wire_time(unix_us));
}

void params_element_text(struct store_params *params, const struct text *text)
{
    if (text->bytes == NULL) {
        put_int32(params, UINT32_MAX); /* -1: NULL */
        return;
    }
    put_int32(params, text->len);
    put(params, text->bytes, text->len);
}

void params_int64s(struct store_params *params, const int64_t *values, size_t count)
{
    params_array_begin(params, PARAMS_INT64, count);
    for (size_t i = 0; i < count; i++)
        params_element_int64(params, values[i]);
}

const int params_binary[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

void params_point(const struct store_params *params, const char *ret_values[],
                  int ret_lengths[])
{
    for (int i = 0; i < params->count; i++) {
        ret_values[i] = params->is_null[i] ? NULL : params->bytes + params->offsets[i];
        ret_lengths[i] = (int)(params->offsets[i + 1] - params->offsets[i]);
    }
}

/* -- results -- */

static int64_t decode_int(const char *bytes, size_t len)
{
    uint64_t value;

    if (len != 2 && len != 4 && len != 8)
        return 0;
    value = (signed char)bytes[0] < 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < len; i++)
        value = value << 8 | (unsigned char)bytes[i];
    return (int64_t)value;
}

int64_t result_int64(const PGresult *result, int row, int column)
{
    return decode_int(PQgetvalue(result, row, column),
                      (size_t)PQgetlength(result, row, column));
}

int64_t result_time(const PGresult *result, int row, int column)
{
    int64_t wire = result_int64(result, row, column);

    if (PQgetisnull(result, row, column))
        return 0;
    return wire > INT64_MAX - EPOCH_US ? INT64_MAX : wire + EPOCH_US;
}

struct text result_text(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column))
        return (struct text){0};
    return (struct text){PQgetvalue(result, row, column),
                         (size_t)PQgetlength(result, row, column)};
}

struct result_array result_array(const PGresult *result, int row, int column)
{
    const char *bytes = PQgetvalue(result, row, column);
    size_t len = (size_t)PQgetlength(result, row, column);
    struct result_array array = {.next = bytes + len, .end = bytes + len};
    int64_t count;

    /* The head has five numbers of 4 bytes: the number of dimensions, a flag, the type, and the
       length and the first index of the only dimension. */
    if (len < 20 || decode_int(bytes, 4) != 1)
        return array;
    count = decode_int(bytes + 12, 4);
    array.next = bytes + 20;
    array.count = count > 0 ? (size_t)count : 0;
    return array;
}

int64_t result_array_next(struct result_array *array)
{
    int64_t len, value;

    if (array->count == 0)
        return 0;
    array->count--;
    if (array->end - array->next < 4)
        return 0;
    len = decode_int(array->next, 4);
    array->next += 4;
    if (len < 0 || len > array->end - array->next)
        return 0;
    value = decode_int(array->next, (size_t)len);
    array->next += len;
    return value;
}

bool result_violates(const PGresult *result, const char *constraint)
{
    const char *violated =
        result != NULL ? PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME) : NULL;

    return violated != NULL && strcmp(violated, constraint) == 0;
}

const char *result_sqlstate(const PGresult *result)
{
    const char *sqlstate =
        result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_SQLSTATE);

    return sqlstate == NULL ? "" : sqlstate;
}
