/*
 * cases.h - how a guarded case of a test program runs.
 *
 * The teardown of a guarded case can clean up however the case ended. A failed assertion
 * leaves it by longjmp(), while the library still has pointers to locks on its stack. So it
 * runs on a part of the stack that its teardown does not reach: that memory stays as it was
 * until the teardown has ended.
 */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include "test/case_list.h"

#include <stdbool.h>

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
