/* asserts.h - cmocka, and assertions that say what was expected and what came. */
#ifndef TEST_ASSERTS_H
#define TEST_ASSERTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h> /* needs the first four */

/** ASSERT_NUMBER(found, <, limit): compare two integers. */
#define ASSERT_NUMBER(found, comparison, wanted)                                         \
    do {                                                                                 \
        long long found_ = (long long)(found), wanted_ = (long long)(wanted);            \
        if (!(found_ comparison wanted_))                                                \
            fail_msg("%s is %lld, expected " #comparison " %lld", #found, found_,        \
                     wanted_);                                                           \
    } while (0)

/** That `low <= found <= high`, for integers of either sign. */
#define ASSERT_BETWEEN(found, low, high)                                                 \
    do {                                                                                 \
        long long found_ = (long long)(found);                                           \
        if (found_ < (long long)(low) || found_ > (long long)(high))                     \
            fail_msg("%s is %lld, expected %lld to %lld", #found, found_,                \
                     (long long)(low), (long long)(high));                               \
    } while (0)

/** That the text has these words in it. */
#define ASSERT_CONTAINS(text, words)                                                     \
    do {                                                                                 \
        const char *text_ = (text);                                                      \
        if (strstr(text_, words) == NULL)                                                \
            fail_msg("'%s' does not contain '%s'", text_, words);                        \
    } while (0)

#endif
