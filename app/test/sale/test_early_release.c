/*
 * test_early_release.c - when early release is chosen, and how soon.
 *
 * A trial uses the other way of release for a short time, to compare it with the way in use. Each
 * way is measured in windows of 100 ms or more.
 */
#include "app/sale/early_release.h"
#include "test/case_list.h"

#define MS     INT64_C(1000)
#define SECOND (1000 * MS)
#define ORDERS 100

/* How fast a way of release is: a batch becomes durable every cycle_us, and its orders wait for
   wait_us. */
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

/* Each batch waits for one cycle, as under full load. */
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
    early = (struct early_release){0};
    now_us = 1000 * SECOND;
    return 0;
}

#define TEST(name) DEFINE_CASE(name, name, reset, NULL, NULL)

/* clang-format off */
static const struct {
    const char *load;
    /* the row begins without a history; otherwise it goes on after the row before */
    bool is_new;
    int64_t idle_s, first_s; /* the times that pass first, without and with orders */
    struct way early_way, plain_way;
    int64_t measured_s;
    int least, most;
} rows[] = {
    {"a slow disk", true, 0, 20, {10 * MS, 10 * MS}, {20 * MS, 20 * MS}, 300, 98, 99},
    {"a busy Postgres", true, 0, 20, {20 * MS, 20 * MS}, {10 * MS, 10 * MS}, 300, 0, 2},
    {"early is a little faster", true, 0, 20, {10 * MS, 10 * MS}, {11 * MS, 11 * MS}, 300, 94, 97},
    {"plain is a little faster", true, 0, 20, {11 * MS, 11 * MS}, {10 * MS, 10 * MS}, 300, 3, 6},
    {"no difference", true, 0, 20, {10 * MS, 10 * MS}, {10 * MS, 10 * MS}, 300, 92, 95},
    {"the same rate, early waits longer", true, 0, 20, {10 * MS, 20 * MS}, {10 * MS, 10 * MS}, 60, 0, 5},
    {"the same rate, plain waits longer", true, 0, 20, {10 * MS, 10 * MS}, {10 * MS, 20 * MS}, 60, 95, 100},
    {"the rate counts more than waits", true, 0, 20, {11 * MS, 16 * MS}, {10 * MS, 18 * MS}, 60, 0, 6},
    /* In each pair of rows the first row makes the pause between trials long. In the second row the
       waits of a way change by a factor of three or more. The way in use notices the change, so the
       next trial comes sooner than it was planned. */
    {"before a change", true, 0, 59, {10 * MS, 10 * MS}, {30 * MS, 30 * MS}, 1, 0, 100},
    {"early becomes slower", false, 0, 4, {90 * MS, 90 * MS}, {30 * MS, 30 * MS}, 1, 0, 0},
    {"before the next change", false, 0, 59, {90 * MS, 90 * MS}, {30 * MS, 30 * MS}, 1, 0, 100},
    {"plain becomes slower", false, 0, 10, {90 * MS, 90 * MS}, {270 * MS, 270 * MS}, 1, 100, 100},
    {"before the last change", false, 0, 59, {90 * MS, 90 * MS}, {270 * MS, 270 * MS}, 1, 0, 100},
    {"plain becomes faster", false, 0, 4, {30 * MS, 30 * MS}, {10 * MS, 10 * MS}, 4, 0, 20},
    /* After a second without orders a new sale may begin, with a different load. So the next trial
       comes soon. */
    {"before an idle second", true, 0, 59, {10 * MS, 10 * MS}, {30 * MS, 30 * MS}, 1, 0, 100},
    {"after an idle second", false, 1, 4, {10 * MS, 10 * MS}, {5 * MS, 5 * MS}, 1, 0, 0},
};
/* clang-format on */

TEST(test_early_release__follows_the_load)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int per_cent;

        if (rows[i].is_new)
            reset(state);
        now_us += rows[i].idle_s * SECOND;
        run_ways(rows[i].first_s, rows[i].early_way, rows[i].plain_way);
        per_cent = run_ways(rows[i].measured_s, rows[i].early_way, rows[i].plain_way);
        if (per_cent < rows[i].least || per_cent > rows[i].most)
            fail_msg("%s: expected %d to %d %% early releases, got %d", rows[i].load,
                     rows[i].least, rows[i].most, per_cent);
    }
}

TEST(test_early_release__decides_within_half_a_second)
{
    for (int64_t end_us = now_us + 500 * MS; now_us < end_us;)
        run(0, 20 * MS, 10 * MS);
    assert_false(early_release_is_on(&early));
}

/* A stall makes the waits of early release longer. A trial right after the stall would be compared
   with these waits, and plain release would win. */
TEST(test_early_release__a_stall_changes_nothing)
{
    struct way stall = {300 * MS, 300 * MS};

    run(60, 10 * MS, 20 * MS);
    for (int i = 0; i < 10; i++) {
        note(&stall);
        run(4, 10 * MS, 20 * MS);
        assert_int_equal(run(1, 10 * MS, 20 * MS), 100);
    }
}

TEST(test_early_release__one_bad_trial_changes_nothing)
{
    struct way kept = {10 * MS, 10 * MS}, better = {9 * MS, 9 * MS};

    run(60, 10 * MS, 30 * MS);
    run_until_trial(kept);
    while (early.is_trial)
        note(&better);
    assert_int_equal(run(1, 10 * MS, 30 * MS), 100);
}

/* A window counts only the batches that were sent in it. Earlier batches were sent the other
   way. */
TEST(test_early_release__counts_batches_sent_in_its_window)
{
    struct way way = {10 * MS, 10 * MS};

    while (!early.is_trial) {
        early_release_note(&early, ORDERS, ORDERS * SECOND, early.since_us - 1, now_us);
        note(&way);
    }
    assert_int_equal(early.last[true].mean_us, 10 * MS);
    for (int64_t before_us = 0; before_us < 2; before_us++)
        early_release_note(&early, ORDERS, 0, early.since_us - before_us, now_us);
    ASSERT_NUMBER(early.batches, ==, 1);
    assert_int_equal(early.last[true].per_s, 100 * ORDERS);
}

TEST(test_early_release__does_not_judge_by_rare_orders)
{
    struct way idle = {SECOND, 1 * MS};

    for (int i = 0; i < 100; i++) {
        note(&idle);
        assert_true(early_release_is_on(&early));
    }
}

/* If the window ended earlier, most orders would have begun to wait before it. */
TEST(test_early_release__window_is_longer_than_the_waits)
{
    struct way way = {10 * MS, 500 * MS};

    run_ways(10, way, way);
    run_until_trial(way);
    for (int64_t end_us = now_us + 490 * MS; now_us < end_us;) {
        assert_true(early.is_trial);
        note(&way);
    }
}

TEST(test_early_release__does_not_judge_by_few_batches)
{
    struct way way = {60 * MS, 60 * MS};

    run_until_trial(way);
    for (int i = 0; i < 4; i++) {
        note(&way);
        assert_true(early.is_trial);
    }
    note(&way);
    assert_false(early.is_trial);
}

TEST(test_early_release__does_not_judge_by_a_short_time)
{
    struct way way = {1 * MS, 1 * MS};

    for (int i = 0; i < 200; i++) {
        assert_false(early.is_trial);
        note(&way);
    }
}

TEST(test_early_release__ends_a_trial_when_idle)
{
    struct way way = {10 * MS, 10 * MS};

    run_until_trial(way);
    now_us += SECOND;
    note(&way);
    assert_false(early.is_trial);
    assert_true(early_release_is_on(&early));
}

TEST(test_early_release__tries_200_ms_after_an_idle_second)
{
    for (int trials = 1; trials <= 3; trials++) {
        early.trials = trials;
        now_us += SECOND;
        early_release_note(&early, ORDERS, 0, now_us, now_us);
        ASSERT_NUMBER(early.trial_at_us - now_us, ==, 200 * MS);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
