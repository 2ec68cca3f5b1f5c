/*
 * cases.h - how a test runs, so that its teardown can clean up however it ended.
 *
 * A failed assertion leaves the test by longjmp(), while the library still has pointers
 * to locks on the test's stack. The test therefore runs on a part of the stack that its
 * teardown does not reach: that memory stays as it was until the teardown has ended.
 */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include "test/asserts.h"

#include <stdbool.h>

/**
 * An element of the array of tests. `setup` calls case_begin(), `teardown` case_end(); the
 * group's setup must leave its state NULL.
 */
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
