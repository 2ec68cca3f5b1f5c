/* case_list.c - see case_list.h. */
#include "test/case_list.h"

#include <stdlib.h>

#define CASES_MAX 128

static struct CMUnitTest cases[CASES_MAX];
static size_t case_count;

void cases_add(const struct CMUnitTest *test)
{
    if (case_count == CASES_MAX)
        abort();
    cases[case_count++] = *test;
}

int cases_run(CMFixtureFunction group_setup, CMFixtureFunction group_teardown)
{
    return _cmocka_run_group_tests("cases", cases, case_count, group_setup,
                                   group_teardown);
}
