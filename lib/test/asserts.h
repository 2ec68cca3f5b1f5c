/*
 * asserts.h - cmocka, and assertions that print the expected and the actual value.
 *
 * A failure is printed once. When a case has failed, its teardown prints no further failures, and
 * the leak check at the end of the program is off.
 */
#ifndef TEST_ASSERTS_H
#define TEST_ASSERTS_H

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h> /* cmocka.h needs the first five headers above */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/** ASSERT_NUMBER(found, <, limit): compare two integers. */
#define ASSERT_NUMBER(found, comparison, wanted)                                         \
    asserts_number((long long)(found), #comparison, (long long)(wanted), #found,         \
                   __FILE__, __LINE__)

#define ASSERT_BETWEEN(found, low, high)                                                 \
    asserts_between((long long)(found), (long long)(low), (long long)(high), #found,     \
                    __FILE__, __LINE__)

/* The macros of cmocka are replaced, because they print only the two values, and at most 1,023
   bytes of a text. */
// NOLINTBEGIN(readability-identifier-naming): the names are those of cmocka
#undef assert_int_equal
#define assert_int_equal(found, wanted) ASSERT_NUMBER(found, ==, wanted)
#undef assert_string_equal
#define assert_string_equal(found, wanted)                                               \
    asserts_text(found, wanted, #found, __FILE__, __LINE__)
#undef assert_int_not_equal
#define assert_int_not_equal(found, unwanted) ASSERT_NUMBER(found, !=, unwanted)
#undef assert_in_range
#define assert_in_range(found, low, high) ASSERT_BETWEEN(found, low, high)
#undef assert_memory_equal
#define assert_memory_equal(found, wanted, len)                                          \
    asserts_memory(found, wanted, len, #found, __FILE__, __LINE__)
#undef assert_ptr_equal
#define assert_ptr_equal(found, wanted)                                                  \
    asserts_that((const void *)(found) == (const void *)(wanted), #found " == " #wanted, \
                 __FILE__, __LINE__)
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
#undef print_error
#define print_error asserts_print
#undef fail
#define fail() asserts_fail(__FILE__, __LINE__)
#undef fail_msg
#define fail_msg(...) asserts_fail_with(__FILE__, __LINE__, __VA_ARGS__)
// NOLINTEND(readability-identifier-naming)

#define ASSERT_STATUS(found, wanted)                                                     \
    asserts_status(found, wanted, #found, __FILE__, __LINE__)

#define ASSERT_CONTAINS(text, words)                                                     \
    asserts_contains(text, words, #text, __FILE__, __LINE__)

#define ASSERT_BEGINS(text, words) asserts_begins(text, words, #text, __FILE__, __LINE__)

/** Whether the case has failed. Its teardown can skip what needs a consistent state. */
extern bool asserts_failed;

/** Name what the next assertions are about, such as the request or the row of a table. The text
 *  is printed on a failure and on a crash. Each case starts without a text. */
void asserts_about(const char *format, ...) __attribute__((format(printf, 1, 2)));

void asserts_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Print two texts, and where they first differ. The middle of a long text is left out. */
void asserts_print_difference(const char *found, const char *wanted);

_Noreturn void asserts_fail(const char *file, int line);
_Noreturn void asserts_fail_with(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* -- what the macros call -- */

struct asserts_place {
    const char *file;
    int line;
};

extern struct asserts_place asserts_case;
extern _Thread_local struct asserts_place
    asserts_reached; /* the last assertion of the case that held */

_Noreturn void asserts_number_fails(long long found, const char *comparison,
                                    long long wanted, const char *expression,
                                    const char *file, int line);
_Noreturn void asserts_between_fails(long long found, long long low, long long high,
                                     const char *expression, const char *file, int line);
_Noreturn void asserts_status_fails(enum rlock_status found, enum rlock_status wanted,
                                    const char *expression, const char *file, int line);
_Noreturn void asserts_text_fails(const char *found, const char *wanted,
                                  const char *expression, const char *file, int line);
_Noreturn void asserts_that_fails(const char *condition, const char *file, int line);
_Noreturn void asserts_contains_fails(const char *text, const char *words,
                                      const char *expression, const char *file, int line);
_Noreturn void asserts_begins_fails(const char *text, const char *words,
                                    const char *expression, const char *file, int line);
void asserts_memory(const void *found, const void *wanted, size_t len,
                    const char *expression, const char *file, int line);

/* The conditions are inline, because static analysers then know that the conditions hold after
   an assertion. */

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

static inline bool asserts_is_in_case(const char *file, int line)
{
    return asserts_case.file != NULL && line > asserts_case.line &&
           strcmp(file, asserts_case.file) == 0;
}

static inline void asserts_hold(const char *file, int line)
{
    if (asserts_is_in_case(file, line))
        asserts_reached = (struct asserts_place){file, line};
}

static inline void asserts_number(long long found, const char *comparison,
                                  long long wanted, const char *expression,
                                  const char *file, int line)
{
    if (!asserts_compare(found, comparison, wanted))
        asserts_number_fails(found, comparison, wanted, expression, file, line);
    asserts_hold(file, line);
}

static inline void asserts_between(long long found, long long low, long long high,
                                   const char *expression, const char *file, int line)
{
    if (found < low || found > high)
        asserts_between_fails(found, low, high, expression, file, line);
    asserts_hold(file, line);
}

static inline void asserts_status(enum rlock_status found, enum rlock_status wanted,
                                  const char *expression, const char *file, int line)
{
    if (found != wanted)
        asserts_status_fails(found, wanted, expression, file, line);
    asserts_hold(file, line);
}

static inline void asserts_text(const char *found, const char *wanted,
                                const char *expression, const char *file, int line)
{
    if (found == NULL || strcmp(found, wanted) != 0)
        asserts_text_fails(found, wanted, expression, file, line);
    asserts_hold(file, line);
}

static inline void asserts_that(bool is_met, const char *condition, const char *file,
                                int line)
{
    if (!is_met)
        asserts_that_fails(condition, file, line);
    asserts_hold(file, line);
}

static inline void asserts_contains(const char *text, const char *words,
                                    const char *expression, const char *file, int line)
{
    if (strstr(text, words) == NULL)
        asserts_contains_fails(text, words, expression, file, line);
    asserts_hold(file, line);
}

static inline void asserts_begins(const char *text, const char *words,
                                  const char *expression, const char *file, int line)
{
    if (strncmp(text, words, strlen(words)) != 0)
        asserts_begins_fails(text, words, expression, file, line);
    asserts_hold(file, line);
}

/* -- for case_list.c -- */

/** Note that a case begins. `name` and `place` must stay valid until the next case begins. */
void asserts_enter_case(const char *name, struct asserts_place place);

void asserts_pass_case(void);

/** Call the teardown of the case and return its result. If the case has failed, the teardown
 *  prints nothing. */
int asserts_tear_down(CMFixtureFunction teardown, void **state);

#endif
