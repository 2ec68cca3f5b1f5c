/* test_early_release.c - whether early or plain release is chosen, how often, and how soon. */
#include "app/sale/early_release.h"
#include "base/attributes.h"
#include "test/asserts.h"

#define MS     INT64_C(1000)
#define SECOND (1000 * MS)
#define ORDERS 100

/* Early or plain release: a batch becomes durable every `cycle_us`, its orders wait `wait_us`. */
struct way {
    int64_t cycle_us, wait_us;
};

static struct early_release early;
static int64_t now_us;

static void note(const struct way *way)
{
    now_us += way->cycle_us;
    early_release_note(&early, ORDERS, ORDERS * way->wait_us, now_us - way->cycle_us / 2,
                       now_us);
}

/* Returns the percentage of the time in which rows are released early. */
static int run_ways(int64_t seconds, struct way early_way, struct way plain_way)
{
    int64_t begin_us = now_us, early_us = 0;

    do {
        bool is_early = early_release_is_on(&early);

        note(is_early ? &early_way : &plain_way);
        early_us += is_early ? early_way.cycle_us : 0;
    } while (now_us < begin_us + seconds * SECOND);
    return (int)(100 * early_us / (now_us - begin_us));
}

/* Each batch is full, so a batch becomes durable once per wait. */
static int run(int64_t seconds, int64_t early_us, int64_t plain_us)
{
    return run_ways(seconds, (struct way){early_us, early_us},
                    (struct way){plain_us, plain_us});
}

static void run_until_trial(struct way kept)
{
    early.trial_at_us = now_us;
    while (!early.is_trial)
        note(&kept);
}

static int reset(void **state)
{
    *state = &early;
    early_release_init(&early);
    now_us = 1000 * SECOND;
    return 0;
}

static void test_early_release__keeps_the_faster_way(void **state UNUSED)
{
    static const struct {
        int64_t early_us, plain_us;
        int least, most;
    } rows[] = {
        {10 * MS, 20 * MS, 98, 99}, /* a slow disk */
        {20 * MS, 10 * MS, 0, 2},   /* a busy Postgres */
        {10 * MS, 11 * MS, 94, 97}, {11 * MS, 10 * MS, 3, 6}, {10 * MS, 10 * MS, 92, 95},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int per_cent;

        reset(state);
        run(20, rows[i].early_us, rows[i].plain_us);
        per_cent = run(300, rows[i].early_us, rows[i].plain_us);
        assert_in_range(per_cent, rows[i].least, rows[i].most);
    }
}

static void test_early_release__at_the_same_rate_waits_decide(void **state UNUSED)
{
    struct way fast = {10 * MS, 10 * MS}, slow = {10 * MS, 20 * MS};

    run_ways(20, slow, fast);
    assert_in_range(run_ways(60, slow, fast), 0, 5);
    reset(state);
    run_ways(20, fast, slow);
    assert_in_range(run_ways(60, fast, slow), 95, 100);
}

static void test_early_release__the_rate_counts_more_than_waits(void **state UNUSED)
{
    struct way early_way = {11 * MS, 16 * MS}, plain_way = {10 * MS, 18 * MS};

    run_ways(20, early_way, plain_way);
    assert_in_range(run_ways(60, early_way, plain_way), 0, 6);
}

/* The first trial begins after two windows. */
static void test_early_release__decides_within_half_a_second(void **state UNUSED)
{
    for (int64_t end_us = now_us + 500 * MS; now_us < end_us;)
        run(0, 20 * MS, 10 * MS);
    assert_false(early_release_is_on(&early));
}

/* The waits of the chosen way change, so a trial starts before it is due. */
static void test_early_release__follows_a_change(void **state UNUSED)
{
    run(60, 10 * MS, 30 * MS);
    run(4, 90 * MS, 30 * MS);
    assert_int_equal(run(1, 90 * MS, 30 * MS), 0);
    run(60, 90 * MS, 30 * MS);
    run(10, 90 * MS, 270 * MS);
    assert_int_equal(run(1, 90 * MS, 270 * MS), 100);
    run(60, 90 * MS, 270 * MS);
    run(4, 30 * MS, 10 * MS);
    assert_in_range(run(4, 30 * MS, 10 * MS), 0, 20);
}

/* After an idle second a new sale may begin, with a different load. */
static void test_early_release__doubts_after_an_idle_second(void **state UNUSED)
{
    run(60, 10 * MS, 30 * MS);
    now_us += SECOND;
    run(4, 10 * MS, 5 * MS);
    assert_int_equal(run(1, 10 * MS, 5 * MS), 0);
}

/* A trial after a stall would be compared with the stall. */
static void test_early_release__a_stall_changes_nothing(void **state UNUSED)
{
    struct way stall = {300 * MS, 300 * MS};

    run(60, 10 * MS, 20 * MS);
    for (int i = 0; i < 10; i++) {
        note(&stall);
        run(4, 10 * MS, 20 * MS);
        assert_int_equal(run(1, 10 * MS, 20 * MS), 100);
    }
}

static void test_early_release__one_bad_trial_changes_nothing(void **state UNUSED)
{
    struct way kept = {10 * MS, 10 * MS}, better = {9 * MS, 9 * MS};

    run(60, 10 * MS, 30 * MS);
    run_until_trial(kept);
    while (early.is_trial)
        note(&better);
    assert_int_equal(run(1, 10 * MS, 30 * MS), 100);
}

/* A window counts only batches that were sent in it, because earlier ones were sent in the other
   way. */
static void test_early_release__counts_batches_sent_in_its_window(void **state UNUSED)
{
    struct way way = {10 * MS, 10 * MS};

    while (!early.is_trial) {
        early_release_note(&early, ORDERS, ORDERS * SECOND, early.since_us - 1, now_us);
        note(&way);
    }
    assert_int_equal(early.last[true].mean_us, 10 * MS);
    assert_int_equal(early.last[true].per_s, 100 * ORDERS);
}

static void test_early_release__does_not_judge_by_rare_orders(void **state UNUSED)
{
    struct way idle = {SECOND, 1 * MS};

    for (int i = 0; i < 100; i++) {
        note(&idle);
        assert_true(early_release_is_on(&early));
    }
}

/* In a shorter window most orders would have waited before it began. */
static void test_early_release__window_is_longer_than_the_waits(void **state UNUSED)
{
    struct way way = {10 * MS, 500 * MS};

    run_ways(10, way, way);
    run_until_trial(way);
    for (int64_t end_us = now_us + 490 * MS; now_us < end_us;) {
        assert_true(early.is_trial);
        note(&way);
    }
}

static void test_early_release__does_not_judge_by_few_batches(void **state UNUSED)
{
    struct way way = {60 * MS, 60 * MS};

    run_until_trial(way);
    for (int i = 0; i < 4; i++) { /* the first batch begins the window */
        note(&way);
        assert_true(early.is_trial);
    }
    note(&way);
    assert_false(early.is_trial);
}

static void test_early_release__does_not_judge_by_a_short_time(void **state UNUSED)
{
    struct way way = {1 * MS, 1 * MS};

    for (int i = 0; i < 200; i++) {
        assert_false(early.is_trial);
        note(&way);
    }
}

/* The waits before an idle time are not compared with those after it. */
static void test_early_release__ends_a_trial_when_idle(void **state UNUSED)
{
    struct way way = {10 * MS, 10 * MS};

    run_until_trial(way);
    now_us += SECOND;
    note(&way);
    assert_false(early.is_trial);
    assert_true(early_release_is_on(&early));
}

#define TEST(name) cmocka_unit_test_setup(test_early_release__##name, reset)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(keeps_the_faster_way),
        TEST(at_the_same_rate_waits_decide),
        TEST(the_rate_counts_more_than_waits),
        TEST(decides_within_half_a_second),
        TEST(follows_a_change),
        TEST(doubts_after_an_idle_second),
        TEST(a_stall_changes_nothing),
        TEST(one_bad_trial_changes_nothing),
        TEST(counts_batches_sent_in_its_window),
        TEST(does_not_judge_by_rare_orders),
        TEST(window_is_longer_than_the_waits),
        TEST(does_not_judge_by_few_batches),
        TEST(does_not_judge_by_a_short_time),
        TEST(ends_a_trial_when_idle),
    };

    return cmocka_run_group_tests_name("early_release", tests, NULL, NULL);
}
