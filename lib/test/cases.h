/*
 * cases.h - how a guarded case of a test program runs.
 *
 * The teardown of a guarded case can clean up, however the case has ended. A failed assertion
 * leaves the case by longjmp(), while the library still has pointers to locks on the stack of the
 * case. So the case runs on a part of the stack that its teardown does not reach, and this memory
 * stays as it was until the teardown has ended.
 */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include "test/case_list.h"

#include <stdbool.h>

/** Define a guarded case. `setup` must call case_begin(), and `teardown` case_end(). The setup of
 *  the group must leave its state NULL. */
#define GUARDED_CASE(name, setup, teardown)                                              \
    DEFINE_CASE(name, case_run, setup, teardown, name)

void case_run(void **state);

/** @state  what cmocka gave to the setup function, which may set `*state` afterwards */
void case_begin(void **state);

/** Call `run` in the way in which case_run() calls a test. `run` may fail. */
void case_call(CMUnitTestFunction run, void **state);

/**
 * Restore what is global: the clock, signals, paused servers. After a failure stop the
 * servers and processes of the test, and restart the servers of the group.
 * Returns whether the test passed.
 */
bool case_end(void);

#endif
