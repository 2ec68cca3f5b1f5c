/* case_list.c - see case_list.h. */
#include "test/case_list.h"

#include <stdlib.h>

#define CASES_MAX 256

static struct CMUnitTest added[CASES_MAX];
static struct asserts_place places[CASES_MAX];
static size_t added_count;

static const struct CMUnitTest *cases;
static size_t begun_count;

void cases_add(const struct CMUnitTest *test, const char *file, int line)
{
    if (added_count == CASES_MAX)
        abort();
    places[added_count] = (struct asserts_place){file, line};
    added[added_count++] = *test;
}

static const struct CMUnitTest *current(void)
{
    return &cases[begun_count - 1];
}

static int set_up(void **state)
{
    bool has_place = cases == added;

    asserts_enter_case(cases[begun_count].name,
                       has_place ? places[begun_count] : (struct asserts_place){0});
    begun_count++;
    return current()->setup_func != NULL ? current()->setup_func(state) : 0;
}

static void run(void **state)
{
    current()->test_func(state);
    asserts_pass_case();
}

static int tear_down(void **state)
{
    return asserts_tear_down(current()->teardown_func, state);
}

int cases_run_all(const struct CMUnitTest *tests, size_t count,
                  CMFixtureFunction group_setup, CMFixtureFunction group_teardown)
{
    struct CMUnitTest *wrapped = calloc(count, sizeof(*wrapped));
    int failed_count;

    if (wrapped == NULL)
        abort();
    for (size_t i = 0; i < count; i++) {
        wrapped[i] = (struct CMUnitTest){tests[i].name, run, set_up, tear_down,
                                         tests[i].initial_state};
    }
    cases = tests;
    failed_count =
        _cmocka_run_group_tests("cases", wrapped, count, group_setup, group_teardown);
    free(wrapped);
    return failed_count;
}

int cases_run(CMFixtureFunction group_setup, CMFixtureFunction group_teardown)
{
    return cases_run_all(added, added_count, group_setup, group_teardown);
}
