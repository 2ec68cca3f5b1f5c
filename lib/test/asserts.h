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

/* cmocka prints only the two values. */
// NOLINTBEGIN(readability-identifier-naming): the names are those of cmocka
#undef assert_int_equal
#define assert_int_equal(found, wanted) ASSERT_NUMBER(found, ==, wanted)
#undef assert_string_equal
#define assert_string_equal(found, wanted)                                               \
    asserts_text(found, wanted, #found, __FILE__, __LINE__)
#undef assert_null
#define assert_null(pointer)                                                             \
    asserts_that((pointer) == NULL, #pointer " == NULL", __FILE__, __LINE__)
#undef assert_non_null
#define assert_non_null(pointer)                                                         \
    asserts_that((pointer) != NULL, #pointer " != NULL", __FILE__, __LINE__)
#undef assert_true
#define assert_true(condition) asserts_that(!!(condition), #condition, __FILE__, __LINE__)
#undef assert_false
#define assert_false(condition)                                                          \
    asserts_that(!(condition), "!(" #condition ")", __FILE__, __LINE__)
// NOLINTEND(readability-identifier-naming)

/** ASSERT_STATUS(call, wanted): compare two statuses, and print them by their names. */
#define ASSERT_STATUS(found, wanted)                                                     \
    asserts_status(found, wanted, #found, __FILE__, __LINE__)

/** Assert that the text contains these words. */
#define ASSERT_CONTAINS(text, words) asserts_contains(text, words, __FILE__, __LINE__)

/** Whether an assertion of this header has failed. Then a teardown asserts nothing more. */
static bool asserts_failed;

static inline _Noreturn void asserts_fail(const char *file, int line)
{
    asserts_failed = true;
    _fail(file, line);
    __builtin_unreachable(); /* _fail() jumps to the end of the case */
}

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
    print_error("%s: expected %s %lld, got %lld\n", expression, comparison, wanted,
                found);
    asserts_fail(file, line);
}

static inline void asserts_between(long long found, long long low, long long high,
                                   const char *expression, const char *file, int line)
{
    if (low <= found && found <= high)
        return;
    print_error("%s is %lld, expected %lld to %lld\n", expression, found, low, high);
    asserts_fail(file, line);
}

static inline void asserts_status(enum rlock_status found, enum rlock_status wanted,
                                  const char *expression, const char *file, int line)
{
    if (found == wanted)
        return;
    print_error("%s: expected %s, got %s\n", expression, rlock_status_name(wanted),
                rlock_status_name(found));
    asserts_fail(file, line);
}

/** Print where two long texts differ: from the begin of the line, or of the part before a ";". */
static inline void asserts_print_difference(const char *found, const char *wanted)
{
    int from = 0;

    for (int at = 0; wanted[at] != '\0' && found[at] == wanted[at]; at++)
        from = wanted[at] == ';' || wanted[at] == '\n' ? at + 1 : from;
    if (from > 0)
        print_error("after %d equal bytes expected \"%.300s\", got \"%.300s\"; in all:\n",
                    from, wanted + from, found + from);
}

static inline void asserts_text(const char *found, const char *wanted,
                                const char *expression, const char *file, int line)
{
    if (found != NULL && strcmp(found, wanted) == 0)
        return;
    asserts_print_difference(found == NULL ? "" : found, wanted);
    print_error("%s:\nexpected \"%s\",\n     got \"%s\"\n", expression, wanted,
                found == NULL ? "NULL" : found);
    asserts_fail(file, line);
}

static inline void asserts_that(bool is_met, const char *condition, const char *file,
                                int line)
{
    if (is_met)
        return;
    print_error("expected that %s\n", condition);
    asserts_fail(file, line);
}

static inline void asserts_contains(const char *text, const char *words, const char *file,
                                    int line)
{
    if (strstr(text, words) != NULL)
        return;
    print_error("expected '%s' in\n", words);
    print_error("'%s'\n", text); /* cmocka prints at most 1,023 bytes of a call */
    asserts_fail(file, line);
}

#endif
