/* test_early_release.c - which way is kept, for which share of the time, and how soon. */
#include "app/sale/early_release.h"
#include "base/attributes.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS       INT64_C(1000)
#define SECOND   (1000 * MS)
#define CYCLE_US (10 * MS) /* between batches */
#define ORDERS   100

static struct early_release early;
static int64_t now_us;

/* One batch, whose orders wait as long as told by its way. Was it early? */
static bool step(int64_t early_us, int64_t plain_us)
{
    bool is_early = early_release_is_on(&early);

    now_us += CYCLE_US;
    early_release_note(&early, is_early, ORDERS,
                       ORDERS * (is_early ? early_us : plain_us), now_us - CYCLE_US / 2,
                       now_us);
    return is_early;
}

/* Returns per cent of early batches. */
static int run(int64_t seconds, int64_t early_us, int64_t plain_us)
{
    int64_t end_us = now_us + seconds * SECOND;
    int batches = 0, early_batches = 0;

    do {
        early_batches += step(early_us, plain_us);
        batches++;
    } while (now_us < end_us);
    return 100 * early_batches / batches;
}

static void run_until_trial(int64_t early_us, int64_t plain_us)
{
    early.trial_at_us = now_us;
    while (!early.is_trial)
        step(early_us, plain_us);
}

static int reset(void **state)
{
    *state = &early;
    early_release_init(&early);
    now_us = 1000 * SECOND;
    return 0;
}

static void test_early_release__keeps_the_way_with_shorter_waits(void **state UNUSED)
{
    static const struct {
        int64_t early_us, plain_us;
        int least, most;
    } rows[] = {
        {10 * MS, 20 * MS, 98, 99}, /* a slow disk */
        {20 * MS, 10 * MS, 0, 2},   /* a busy Postgres */
        {10 * MS, 11 * MS, 95, 99}, {11 * MS, 10 * MS, 1, 5}, {0, 0, 90, 99},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int per_cent;

        reset(state);
        run(1, rows[i].early_us, rows[i].plain_us);
        per_cent = run(300, rows[i].early_us, rows[i].plain_us);
        assert_in_range(per_cent, rows[i].least, rows[i].most);
    }
}

/* The first trial begins after the first window. */
static void test_early_release__decides_within_half_a_second(void **state UNUSED)
{
    assert_true(step(20 * MS, 10 * MS));
    run(1, 20 * MS, 10 * MS);
    assert_int_equal(run(1, 20 * MS, 10 * MS), 0);
}

/* The waits of the kept way change, so there is a trial before it is due. */
static void test_early_release__follows_a_change(void **state UNUSED)
{
    run(60, 10 * MS, 30 * MS);
    run(2, 90 * MS, 30 * MS);
    assert_int_equal(run(1, 90 * MS, 30 * MS), 0);
    run(60, 90 * MS, 30 * MS);
    run(4, 90 * MS, 270 * MS);
    assert_int_equal(run(1, 90 * MS, 270 * MS), 100);
    run(60, 90 * MS, 270 * MS);
    run(2, 30 * MS, 10 * MS);
    assert_int_equal(run(1, 30 * MS, 10 * MS), 0);
}

static void test_early_release__one_bad_trial_changes_nothing(void **state UNUSED)
{
    run(60, 10 * MS, 30 * MS);
    run_until_trial(10 * MS, 30 * MS);
    while (early.is_trial) /* it looks better than it is */
        step(10 * MS, 9 * MS);
    assert_int_equal(run(1, 10 * MS, 30 * MS), 100);
}

/* Not those of the other way, nor those sent before it. */
static void test_early_release__counts_batches_of_its_window(void **state UNUSED)
{
    while (!early.is_trial)
        step(10 * MS, 30 * MS);
    for (int i = 0; i < 100; i++) {
        bool is_early = early_release_is_on(&early);

        early_release_note(&early, !is_early, ORDERS, 0, now_us, now_us);
        early_release_note(&early, is_early, ORDERS, 0, early.window_at_us - 1, now_us);
        step(10 * MS, 30 * MS);
    }
    assert_int_equal(early.mean_us, 10 * MS);
    assert_int_equal(early.gain, 249);
}

static void test_early_release__does_not_judge_by_few_orders(void **state UNUSED)
{
    for (int i = 0; i < 100; i++) {
        now_us += SECOND;
        step(10 * MS, 1 * MS);
        assert_true(early_release_is_on(&early));
    }
}

/* Else most orders of a window have waited before it. */
static void test_early_release__window_is_longer_than_the_waits(void **state UNUSED)
{
    run(10, 500 * MS, 900 * MS);
    run_until_trial(500 * MS, 900 * MS);
    for (int64_t end_us = now_us + 3500 * MS; now_us < end_us;) {
        assert_true(early.is_trial);
        step(500 * MS, 900 * MS);
    }
}

static void test_early_release__does_not_judge_by_a_short_time(void **state UNUSED)
{
    for (int i = 0; i < 100; i++) {
        assert_false(early.is_trial);
        now_us += MS;
        early_release_note(&early, true, ORDERS, ORDERS * CYCLE_US, now_us, now_us);
    }
}

/* The waits before an idle time are not compared with those after it. */
static void test_early_release__ends_a_trial_when_idle(void **state UNUSED)
{
    run_until_trial(10 * MS, 30 * MS);
    now_us += 5 * SECOND;
    step(10 * MS, 1 * MS);
    assert_false(early.is_trial);
    assert_true(early_release_is_on(&early));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_early_release__keeps_the_way_with_shorter_waits,
                               reset),
        cmocka_unit_test_setup(test_early_release__decides_within_half_a_second, reset),
        cmocka_unit_test_setup(test_early_release__follows_a_change, reset),
        cmocka_unit_test_setup(test_early_release__one_bad_trial_changes_nothing, reset),
        cmocka_unit_test_setup(test_early_release__counts_batches_of_its_window, reset),
        cmocka_unit_test_setup(test_early_release__does_not_judge_by_few_orders, reset),
        cmocka_unit_test_setup(test_early_release__window_is_longer_than_the_waits,
                               reset),
        cmocka_unit_test_setup(test_early_release__does_not_judge_by_a_short_time, reset),
        cmocka_unit_test_setup(test_early_release__ends_a_trial_when_idle, reset),
    };

    return cmocka_run_group_tests_name("early_release", tests, NULL, NULL);
}
