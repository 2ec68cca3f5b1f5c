/*
 * cases.h - the cases of a test program, and how each of them runs.
 *
 * A case is added to the list of its program where it is defined:
 *
 *     UNIT_CASE(test_list_shift__of_an_empty_list_is_null)
 *     {
 *         ...
 *     }
 *
 * The teardown of a guarded case can clean up however the case ended. A failed assertion
 * leaves it by longjmp(), while the library still has pointers to locks on its stack. So it
 * runs on a part of the stack that its teardown does not reach: that memory stays as it was
 * until the teardown has ended.
 */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include "base/attributes.h"
#include "test/asserts.h"

#include <stdbool.h>

/** Define a case that `run` runs; the block behind it is the body of the function `name`. */
#define DEFINE_CASE(name, run, setup, teardown, initial_state)                           \
    static void name(void **state);                                                      \
    __attribute__((constructor)) static void name##_is_added(void)                       \
    {                                                                                    \
        cases_add(                                                                       \
            &(struct CMUnitTest){#name, run, setup, teardown, (void *)(initial_state)}); \
    }                                                                                    \
    static void name(void **state UNUSED)

#define UNIT_CASE(name) DEFINE_CASE(name, name, NULL, NULL, NULL)

/**
 * `setup` calls case_begin(), `teardown` case_end(); the group's setup must leave its state
 * NULL.
 */
#define GUARDED_CASE(name, setup, teardown)                                              \
    DEFINE_CASE(name, case_run, setup, teardown, name)

/** An element of an array of tests that is a guarded case. */
#define CASE(name, setup, teardown)                                                      \
    {                                                                                    \
#name, case_run, setup, teardown, (void *)(name)                                 \
    }

/** Add a case to the list. */
void cases_add(const struct CMUnitTest *test);

/** Run all cases of the program. Returns the exit code. */
int cases_run(CMFixtureFunction group_setup, CMFixtureFunction group_teardown);

void case_run(void **state);

/** @state  of the setup, which sets it anew */
void case_begin(void **state);

/** Call `run`, which may fail, as case_run() calls a test. */
void case_call(CMUnitTestFunction run, void **state);

/**
 * Restore what is global: the clock, signals, paused servers. After a failure stop the
 * servers and processes of the test, and restart the servers of the group.
 * Returns whether the test passed.
 */
bool case_end(void);

#endif
