/* asserts.h - cmocka, and assertions that print the expected and the actual value. */
#ifndef TEST_ASSERTS_H
#define TEST_ASSERTS_H

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h> /* needs the first five */

/** ASSERT_NUMBER(found, <, limit): compare two integers. */
#define ASSERT_NUMBER(found, comparison, wanted)                                         \
    asserts_number((long long)(found), #comparison, (long long)(wanted), #found,         \
                   __FILE__, __LINE__)

/** Assert that `low <= found <= high`, for integers of either sign. */
#define ASSERT_BETWEEN(found, low, high)                                                 \
    asserts_between((long long)(found), (long long)(low), (long long)(high), #found,     \
                    __FILE__, __LINE__)

/** ASSERT_STATUS(call, wanted): compare two statuses, and print them by their names. */
#define ASSERT_STATUS(found, wanted)                                                     \
    asserts_status(found, wanted, #found, __FILE__, __LINE__)

/** Assert that the text contains these words. */
#define ASSERT_CONTAINS(text, words) asserts_contains(text, words, __FILE__, __LINE__)

static inline bool asserts_compare(long long found, const char *comparison,
                                   long long wanted)
{
    switch (comparison[0]) {
    case '<':
        return comparison[1] == '=' ? found <= wanted : found < wanted;
    case '>':
        return comparison[1] == '=' ? found >= wanted : found > wanted;
    case '!':
        return found != wanted;
    default:
        return found == wanted;
    }
}

static inline void asserts_number(long long found, const char *comparison,
                                  long long wanted, const char *expression,
                                  const char *file, int line)
{
    if (asserts_compare(found, comparison, wanted))
        return;
    print_error("%s is %lld, expected %s %lld\n", expression, found, comparison, wanted);
    _fail(file, line);
}

static inline void asserts_between(long long found, long long low, long long high,
                                   const char *expression, const char *file, int line)
{
    if (low <= found && found <= high)
        return;
    print_error("%s is %lld, expected %lld to %lld\n", expression, found, low, high);
    _fail(file, line);
}

static inline void asserts_status(enum status found, enum status wanted,
                                  const char *expression, const char *file, int line)
{
    if (found == wanted)
        return;
    print_error("%s: expected %s, got %s\n", expression, status_name(wanted),
                status_name(found));
    _fail(file, line);
}

static inline void asserts_contains(const char *text, const char *words, const char *file,
                                    int line)
{
    if (strstr(text, words) != NULL)
        return;
    print_error("'%s' does not contain '%s'\n", text, words);
    _fail(file, line);
}

#endif
