/*
 * said.h - records calls of the code under test as words, and makes rows from words.
 *
 * A number is a bigint, 'x' is a text, {1,2} is an array, and null is NULL. A ";" ends a row. Times
 * are microseconds since 2000, as Postgres sends them.
 */
#ifndef SAID_H
#define SAID_H

#include "app/store/store_codec.h"
#include "app/test/append.h"
#include "test/case_list.h"

#include <stdlib.h>

#define SAID_BYTES       131072
#define WORDS_BYTES      16384
#define SAID_COLUMNS_MAX 20

static char said[SAID_BYTES]; /* what was recorded; each call ends with ";" */

#define SAY(...) append(said, sizeof(said), __VA_ARGS__)

#define ASSERT_SAID(wanted) assert_said(wanted, __FILE__, __LINE__)

static inline void assert_said(const char *wanted, const char *file, int line)
{
    asserts_text(said, wanted, "calls since the last step", file, line);
    said[0] = '\0';
}

/* -- rows -- */

static inline void words_put_int(char *bytes, size_t *len, int64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        bytes[(*len)++] = (char)((uint64_t)value >> 8 * (width - 1 - i));
}

static inline const char *words_set_value(PGresult *result, int row, int column,
                                          const char *word)
{
    char bytes[WORDS_BYTES];
    size_t len = 0;
    char *end = NULL;

    if (word[0] == 'n') {
        assert_int_equal(PQsetvalue(result, row, column, NULL, -1), 1);
        return word + 4;
    }
    if (word[0] == '\'') {
        len = strcspn(++word, "'");
        memcpy(bytes, word, len);
        end = (char *)(uintptr_t)(word + len + 1);
    } else if (word[0] == '{') {
        int64_t count = 0;

        len = 20;
        for (end = (char *)(uintptr_t)(word + 1); *end != '}'; count++) {
            words_put_int(bytes, &len, 8, 4);
            words_put_int(bytes, &len, strtoll(end, &end, 10), 8);
            end += *end == ',';
        }
        end++;
        words_put_int(bytes, &(size_t){0}, count > 0, 4);
        words_put_int(bytes, &(size_t){4}, 0, 4);
        words_put_int(bytes, &(size_t){8}, PARAMS_INT64, 4);
        words_put_int(bytes, &(size_t){12}, count, 4);
        words_put_int(bytes, &(size_t){16}, 1, 4);
    } else {
        words_put_int(bytes, &len, strtoll(word, &end, 10), 8);
    }
    assert_int_equal(PQsetvalue(result, row, column, bytes, (int)len), 1);
    return end;
}

static inline int words_count(const char *rows)
{
    int count = 0;

    while (*rows != '\0' && *rows != ';') {
        if (*rows == ' ') {
            rows++;
            continue;
        }
        rows = *rows == '\'' ? strchr(rows + 1, '\'') + 1 : rows + strcspn(rows, " ;");
        count++;
    }
    return count;
}

static inline PGresult *words_result(ExecStatusType status, int format, const char *rows)
{
    static char name[] = "column";
    PGresAttDesc columns[SAID_COLUMNS_MAX];
    PGresult *result = PQmakeEmptyPGresult(NULL, status);
    int row = 0, column = 0;

    for (size_t i = 0; i < SAID_COLUMNS_MAX; i++)
        columns[i] = (PGresAttDesc){.name = name, .format = format};
    assert_int_equal(PQsetResultAttrs(result, words_count(rows), columns), 1);
    while (*rows != '\0') {
        if (*rows == ';') {
            row++;
            column = 0;
            rows++;
        } else if (*rows == ' ') {
            rows++;
        } else {
            rows = words_set_value(result, row, column++, rows);
        }
    }
    return result;
}

#endif
