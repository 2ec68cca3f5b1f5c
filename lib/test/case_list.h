/*
 * case_list.h - the list of the cases of a test program.
 *
 * A case is added to the list of its program where it is defined:
 *
 *     UNIT_CASE(test_list_shift__of_an_empty_list_is_null)
 *     {
 *         ...
 *     }
 */
#ifndef TEST_CASE_LIST_H
#define TEST_CASE_LIST_H

#include "base/attributes.h"
#include "test/asserts.h"

/** Define a case that the function `run` runs. The block after this macro is the body of the
 *  function `name`. */
#define DEFINE_CASE(name, run, setup, teardown, initial_state)                           \
    static void name(void **state);                                                      \
    __attribute__((constructor)) static void name##_is_added(void)                       \
    {                                                                                    \
        cases_add(                                                                       \
            &(struct CMUnitTest){#name, run, setup, teardown, (void *)(initial_state)},  \
            __FILE__, __LINE__);                                                         \
    }                                                                                    \
    static void name(void **state UNUSED)

#define UNIT_CASE(name) DEFINE_CASE(name, name, NULL, NULL, NULL)

/** Add a case to the list. The definition of the case begins at `file` and `line`. `file` is
 *  NULL if the case is not in a C file. */
void cases_add(const struct CMUnitTest *test, const char *file, int line);

int cases_run(CMFixtureFunction group_setup, CMFixtureFunction group_teardown);

int cases_run_all(const struct CMUnitTest *tests, size_t count,
                  CMFixtureFunction group_setup, CMFixtureFunction group_teardown);

#endif
