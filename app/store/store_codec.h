/*
 * store_codec.h - parameters and results in the binary format of Postgres; used only by the store.
 *
 * In this program times are microseconds since 1970. In Postgres they are microseconds since 2000.
 */
#ifndef STORE_CODEC_H
#define STORE_CODEC_H

#include "app/core/model.h"
#include "base/attributes.h"

#include <libpq-fe.h>

#define STORE_PARAMS_MAX 14

/** The parameters of one query. The next query reuses the buffer. Zero-initialise. */
struct store_params {
    char *bytes;
    size_t used, size;
    int count;
    bool is_null[STORE_PARAMS_MAX];
    size_t offsets[STORE_PARAMS_MAX + 1];
    bool has_failed; /* out of memory: the parameters are incomplete */
};

void params_begin(struct store_params *params);
void params_clear(struct store_params *params);
/** Copy `from` into cleared parameters. Returns false if memory is out or `from` is incomplete. */
MUST_CHECK bool params_copy(struct store_params *params, const struct store_params *from);
void params_null(struct store_params *params);
void params_int64(struct store_params *params, int64_t value);
void params_time(struct store_params *params, int64_t unix_us);
void params_text(struct store_params *params, const struct text *text);

/* An array is written by params_array_begin() and then `count` elements. The types have the numbers
   that pg_type.dat of Postgres lists, which never change. */
enum params_type {
    PARAMS_BOOL = 16,
    PARAMS_INT64 = 20,
    PARAMS_TEXT = 25,
    PARAMS_TIME = 1184,
};
void params_array_begin(struct store_params *params, enum params_type type, size_t count);
void params_element_bool(struct store_params *params, bool value);
void params_element_int64(struct store_params *params, int64_t value);
void params_element_time(struct store_params *params, int64_t unix_us);
void params_element_text(struct store_params *params, const struct text *text);
void params_int64s(struct store_params *params, const int64_t *values, size_t count);

/** Set the values and lengths that libpq expects; the formats are `params_binary`. */
void params_point(const struct store_params *params, const char *ret_values[],
                  int ret_lengths[]);
extern const int params_binary[STORE_PARAMS_MAX];

/** Return a smallint, integer or bigint; 0 for NULL. */
int64_t result_int64(const PGresult *result, int row, int column);

/** Return microseconds since 1970, or 0 for NULL. A time out of range becomes the nearest time in
 *  range. */
int64_t result_time(const PGresult *result, int row, int column);

/** Return a text in `result`, where a NUL byte follows the text. For NULL, `bytes` is NULL. */
struct text result_text(const PGresult *result, int row, int column);

struct result_array {
    const char *next, *end;
    size_t count; /* number of elements left */
};

/** Return an iterator, which is empty for NULL and for malformed arrays. */
struct result_array result_array(const PGresult *result, int row, int column);

int64_t result_array_next(struct result_array *array);

/** Whether `result`, which may be NULL, is an error that names this constraint. */
bool result_violates(const PGresult *result, const char *constraint);

/** The SQLSTATE of an error, or "" if the result is no error. */
const char *result_sqlstate(const PGresult *result);

#endif
