/*
 * store_codec.h - parameters and results in Postgres' binary format; private to the
 * store.
 *
 * Times are microseconds since 1970 here, since 2000 there.
 */
#ifndef STORE_CODEC_H
#define STORE_CODEC_H

#include "app/core/model.h"

#include <libpq-fe.h>

#define STORE_PARAMS_MAX 12

/** Built in one buffer that is kept for the next call; zero-initialise. */
struct store_params {
    char *bytes;
    size_t used, size;
    int count;
    bool is_null[STORE_PARAMS_MAX];
    size_t offsets[STORE_PARAMS_MAX + 1];
    bool has_failed; /* out of memory: the parameters are not whole */
};

void params_begin(struct store_params *params);
void params_clear(struct store_params *params); /* frees */
void params_null(struct store_params *params);
void params_int64(struct store_params *params, int64_t value);
void params_time(struct store_params *params, int64_t unix_us);
void params_text(struct store_params *params, const struct text *text);

/* An array: begin, then `count` elements by params_element_*(), then end. */
enum params_type { PARAMS_INT64, PARAMS_TIME, PARAMS_TEXT };
void params_array_begin(struct store_params *params, enum params_type type, size_t count);
void params_element_int64(struct store_params *params, int64_t value);
void params_element_time(struct store_params *params, int64_t unix_us);
void params_element_text(struct store_params *params, const struct text *text);
void params_array_end(struct store_params *params);

/** 0 for NULL; smallint, integer and bigint alike. */
int64_t result_int64(const PGresult *result, int row, int column);

/** Microseconds since 1970; 0 for NULL; clamped at the ends of the range. */
int64_t result_time(const PGresult *result, int row, int column);

/** Points into `result`; bytes are NULL for NULL. */
struct text result_text(const PGresult *result, int row, int column);

/** Walks over the elements of an array of numbers. */
struct result_array {
    const char *next, *end;
    size_t count; /* elements not walked over yet */
};

/** An empty array for NULL, and for bytes that are no array. */
struct result_array result_array(const PGresult *result, int row, int column);

/** The next element; 0 for NULL and behind the last. */
int64_t result_array_next(struct result_array *array);

/** SQLSTATE of an error; "" where there is none. */
const char *result_sqlstate(const PGresult *result);

#endif
