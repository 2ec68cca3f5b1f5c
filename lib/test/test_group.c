/* test_group.c - the rounds of a group, on a clock that stands still. The test answers for
 * the members; there is no server. */
#include "base/clock.h"
#include "lock/batch.h"
#include "lock/group_round.h"
#include "lock/internal.h"
#include "lock/keys.h"
#include "lock/state.h"
#include "test/cases.h"
#include "test/frozen_clock.h"
#include "test/torture.h"

#define MEMBERS  5
#define NOW_US   5000000
#define ROUND_MS 1500
#define NEVER    UINT64_MAX /* no timer runs */

struct group_test {
    uv_loop_t loop;
    long blocks; /* that were allocated before */
    struct rlock_client *clients[MEMBERS];
    struct rlock_group *group;
    unsigned answers, losses;
    enum status status; /* of the last answer */
};

static void on_answer(struct rlock_group *group, enum status status, void *arg)
{
    struct group_test *test = arg;

    assert_ptr_equal(group, test->group);
    test->answers++;
    test->status = status;
}

static void on_lost(struct rlock_group *group, enum status status, void *arg)
{
    struct group_test *test = arg;

    assert_ptr_equal(group, test->group);
    ASSERT_STATUS(status, STATUS_LOST);
    test->losses++;
}

static int set_up(void **state)
{
    struct group_test *test = test_calloc(1, sizeof(*test));
    struct rlock_client_options options = {
        .loop = &test->loop, .redis_url = "unix:/tmp/rlock-nobody", .timeout_ms = 60000};

    test->blocks = torture_blocks();
    frozen_us = NOW_US;
    assert_int_equal(uv_loop_init(&test->loop), 0);
    for (int i = 0; i < MEMBERS; i++)
        ASSERT_STATUS(rlock_client_open(&options, &test->clients[i], NULL), STATUS_OK);
    *state = test;
    return 0;
}

static int tear_down(void **state)
{
    struct group_test *test = *state;

    rlock_group_free(test->group);
    for (int i = 0; i < MEMBERS; i++)
        rlock_client_close(test->clients[i], NULL, NULL);
    while (uv_run(&test->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&test->loop), 0);
    ASSERT_NUMBER(torture_blocks(), ==, test->blocks);
    test_free(test);
    return 0;
}

static void create(struct group_test *test, size_t count, enum rlock_group_need need)
{
    struct rlock_member members[MEMBERS];

    for (size_t i = 0; i < count; i++)
        members[i] = (struct rlock_member){test->clients[i], "item:7", 6};
    ASSERT_STATUS(rlock_group_create(members, count, need, &test->group, NULL),
                  STATUS_OK);
}

static void free_group(struct group_test *test)
{
    rlock_group_free(test->group);
    test->group = NULL;
    test->answers = 0;
}

static void acquire(struct group_test *test, uint32_t lease_ms, uint32_t wait_ms)
{
    struct rlock_group_options options = {
        .lease_ms = lease_ms, .wait_ms = wait_ms, .on_lost = on_lost};

    test->answers = test->losses = 0;
    rlock_group_acquire(test->group, &options, on_answer, test);
    assert_int_equal(test->answers, 0);
}

/** Answer for a member that is in a call. */
static void answer_for(struct group_test *test, int member, enum status status)
{
    struct rlock *lock = &test->group->members[member].lock;
    struct rlock_result result = {.status = status,
                                  .sent_us = frozen_us,
                                  .granted_us = frozen_us,
                                  .fence = 7,
                                  .remaining_ms = -1};
    rlock_on_result *on_result = rlock_state_on_acquire;

    if (lock->batch == NULL)
        fail_msg("member %d is in no call", member);
    if (lock->state == RLOCK_RELEASING)
        on_result = rlock_state_on_release;
    else if (lock->state == RLOCK_EXTENDING)
        on_result = rlock_state_on_extend;
    rlock_batch_leave(lock);
    on_result(test->clients[member], lock, &result);
}

/** One letter for each member: granted, busy, timeout; other members do not answer. */
static void answer_all(struct group_test *test, const char *letters)
{
    for (int i = 0; letters[i] != '\0'; i++) {
        if (letters[i] != '-')
            answer_for(test, i,
                       letters[i] == 'g'   ? STATUS_OK
                       : letters[i] == 'b' ? STATUS_BUSY
                       : letters[i] == 'l' ? STATUS_LOST
                                           : STATUS_REFUSED);
    }
}

static void expect_timer(const struct group_test *test, uint64_t wanted_ms)
{
    const uv_timer_t *timer = &test->group->timer;
    uint64_t found_ms =
        uv_is_active((const uv_handle_t *)timer) ? uv_timer_get_due_in(timer) : NEVER;

    if (found_ms != wanted_ms)
        fail_msg("the timer is due in %lld ms, expected %lld", (long long)found_ms,
                 (long long)wanted_ms);
}

/** The time of the round is over. */
static void end_round(struct group_test *test)
{
    test->group->timer.timer_cb(&test->group->timer);
}

static void expect_answer(const struct group_test *test, enum status wanted)
{
    assert_int_equal(test->answers, 1);
    ASSERT_STATUS(test->status, wanted);
}

#define GROUP_CASE(name) DEFINE_CASE(name, name, set_up, tear_down, NULL)

GROUP_CASE(test_rlock_group_create__takes_1_to_64_members)
{
    struct rlock_member members[RLOCK_GROUP_MAX + 1];
    char names[RLOCK_GROUP_MAX + 1], longest[RLOCK_NAME_MAX + 1] = "";
    struct group_test *test = *state;
    struct rlock_group *group;

    for (int i = 0; i <= RLOCK_GROUP_MAX; i++) {
        names[i] = (char)i;
        members[i] = (struct rlock_member){test->clients[0], &names[i], 1};
    }
    for (size_t count = 0; count <= RLOCK_GROUP_MAX + 1; count++) {
        bool is_good = count >= 1 && count <= RLOCK_GROUP_MAX;
        enum status status =
            rlock_group_create(members, count, RLOCK_GROUP_ALL, &group, NULL);

        if (status != (is_good ? STATUS_OK : STATUS_INVALID))
            fail_msg("%zu members: got %s", count, status_name(status));
        if (status == STATUS_OK)
            rlock_group_free(group);
    }
    members[0] = (struct rlock_member){test->clients[0], longest, RLOCK_NAME_MAX};
    ASSERT_STATUS(rlock_group_create(members, 1, RLOCK_GROUP_ALL, &group, NULL),
                  STATUS_OK);
    rlock_group_free(group);
    torture_fail(1, 0);
    ASSERT_STATUS(rlock_group_create(members, 1, RLOCK_GROUP_ALL, &group, NULL),
                  STATUS_NO_MEMORY);
    assert_true(torture_stop());
}

GROUP_CASE(test_rlock_group_acquire__bounds_its_rounds_by_the_lease)
{
    static const struct {
        uint32_t lease_ms;
        uint64_t round_ms, hurry_ms;
    } cases[] = {
        {10, 5, 5},      {100, 50, 5},     {120, 60, 6},     {1000, 500, 50},
        {1040, 520, 50}, {3000, 1500, 50}, {4000, 1500, 50}, {980, 490, 49},
        {0, 1500, 50},   {2998, 1499, 50},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        create(test, 3, RLOCK_GROUP_ALL);
        acquire(test, cases[i].lease_ms, 0);
        if (cases[i].lease_ms != 0) {
            expect_timer(test, cases[i].round_ms);
            answer_all(test, "b");
            expect_timer(test, cases[i].hurry_ms);
        }
        free_group(test);
    }
}

GROUP_CASE(test_try__ends_soon_after_its_result_is_certain)
{
    static const struct {
        unsigned count;
        enum rlock_group_need need;
        const char *letters;
        bool hurries;
    } cases[] = {
        {3, RLOCK_GROUP_ALL, "b", true},          {3, RLOCK_GROUP_ALL, "g", false},
        {3, RLOCK_GROUP_ALL, "gg", false},        {3, RLOCK_GROUP_ALL, "gb", true},
        {3, RLOCK_GROUP_MAJORITY, "g", false},    {3, RLOCK_GROUP_MAJORITY, "gg", true},
        {3, RLOCK_GROUP_MAJORITY, "b", false},    {3, RLOCK_GROUP_MAJORITY, "bb", true},
        {5, RLOCK_GROUP_MAJORITY, "gg", false},   {5, RLOCK_GROUP_MAJORITY, "ggg", true},
        {4, RLOCK_GROUP_MAJORITY, "gg", false},   {4, RLOCK_GROUP_MAJORITY, "bb", true},
        {5, RLOCK_GROUP_MAJORITY, "gbbg", false},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        create(test, cases[i].count, cases[i].need);
        acquire(test, 60000, 0);
        answer_all(test, cases[i].letters);
        if (uv_timer_get_due_in(&test->group->timer) != (cases[i].hurries ? 50 : 1500))
            fail_msg("case %zu, %s: the round ends in %llu ms", i, cases[i].letters,
                     (unsigned long long)uv_timer_get_due_in(&test->group->timer));
        assert_int_equal(test->answers, 0);
        free_group(test);
    }
}

GROUP_CASE(test_try__that_is_answered_tells_the_status)
{
    static const struct {
        unsigned count;
        enum rlock_group_need need;
        const char *letters;
        enum status status;
    } cases[] = {
        {3, RLOCK_GROUP_ALL, "ggg", STATUS_OK},
        {3, RLOCK_GROUP_ALL, "gbg", STATUS_BUSY},
        {3, RLOCK_GROUP_ALL, "ggr", STATUS_REFUSED},
        {3, RLOCK_GROUP_ALL, "brr", STATUS_BUSY},
        {3, RLOCK_GROUP_MAJORITY, "ggb", STATUS_OK},
        {3, RLOCK_GROUP_MAJORITY, "gbb", STATUS_BUSY},
        {3, RLOCK_GROUP_MAJORITY, "gbr", STATUS_REFUSED},
        {3, RLOCK_GROUP_MAJORITY, "rrr", STATUS_REFUSED},
        {3, RLOCK_GROUP_MAJORITY, "gb-", STATUS_TIMEOUT},
        {3, RLOCK_GROUP_MAJORITY, "gg-", STATUS_OK},
        {3, RLOCK_GROUP_ALL, "gg-", STATUS_TIMEOUT},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        create(test, cases[i].count, cases[i].need);
        acquire(test, 60000, 0);
        answer_all(test, cases[i].letters);
        if (strchr(cases[i].letters, '-') != NULL)
            end_round(test);
        if (cases[i].status != STATUS_OK) {
            assert_int_equal(test->answers, 0); /* it undoes the try */
            assert_false(rlock_group_is_held(test->group));
            end_round(test);
        }
        if (test->answers != 1 || test->status != cases[i].status)
            fail_msg("case %zu, %s: expected %s, got %u answers, %s", i, cases[i].letters,
                     status_name(cases[i].status), test->answers,
                     status_name(test->status));
        assert_int_equal(rlock_group_is_held(test->group), cases[i].status == STATUS_OK);
        free_group(test);
    }
}

/** Let a group of two fail its try, since the second is busy, and undo it. */
static void fail_try(struct group_test *test, uint32_t wait_ms, int64_t took_us)
{
    acquire(test, 60000, wait_ms);
    answer_all(test, "gb");
    frozen_us += took_us;
    answer_for(test, 0, STATUS_OK); /* its release */
}

GROUP_CASE(test_rlock_group_acquire__waits_for_the_busy_member)
{
    static const struct {
        int64_t took_us;
        uint32_t wait_ms;
        uint32_t left_ms;
    } cases[] = {
        {0, 1000, 1001},
        {999, 1000, 1000},
        {1000, 1000, 1000},
        {999999, 1000, 1},
        {1000000, 1000, 0},
        {2000000, 1000, 0},
        {0, 1, 2},
        {0, 0, 0},
        {99000000, RLOCK_WAIT_FOREVER, RLOCK_WAIT_FOREVER},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct group_member *busy;

        create(test, 2, RLOCK_GROUP_ALL);
        busy = &test->group->members[1];
        fail_try(test, cases[i].wait_ms, cases[i].took_us);
        if (cases[i].left_ms == 0) {
            expect_answer(test, STATUS_BUSY);
            expect_timer(test, NEVER);
        } else {
            assert_int_equal(test->answers, 0);
            ASSERT_NUMBER(busy->lock.wait_ms, ==, cases[i].left_ms);
            expect_timer(test, (uint64_t)cases[i].left_ms + ROUND_MS);
            assert_int_equal(test->group->members[0].call, GROUP_CALL_NONE);
            answer_for(test, 1, STATUS_OK);
            answer_for(test, 0, STATUS_OK);
            expect_answer(test, STATUS_OK);
        }
        free_group(test);
    }
}

GROUP_CASE(test_rlock_group_acquire__pauses_before_it_tries_again)
{
    struct group_test *test = *state;

    create(test, 3, RLOCK_GROUP_MAJORITY);
    acquire(test, 60000, RLOCK_WAIT_FOREVER);
    for (int i = 0; i < 12; i++) {
        uint64_t most_ms = i < 4 ? UINT64_C(8) << i : 128;

        answer_all(test, "bbb");
        end_round(test); /* there was nothing to undo */
        if (uv_timer_get_due_in(&test->group->timer) > most_ms)
            fail_msg("pause %d: expected at most %llu ms, got %llu", i,
                     (unsigned long long)most_ms,
                     (unsigned long long)uv_timer_get_due_in(&test->group->timer));
        assert_int_equal(test->group->failures, i + 1);
        end_round(test);
    }
    rlock_group_cancel(test->group);
    for (int i = 0; i < 3; i++)
        assert_int_equal(test->group->members[i].call, GROUP_CALL_CANCEL);
}

GROUP_CASE(test_rlock_group_safe_for_us__is_that_of_the_last_one_needed)
{
    static const struct {
        enum rlock_group_need need;
        int64_t safe_us[3]; /* 0: it is not held */
        int64_t wanted_us;
    } cases[] = {
        {RLOCK_GROUP_ALL, {30, 20, 40}, 20},
        {RLOCK_GROUP_MAJORITY, {30, 20, 40}, 30},
        {RLOCK_GROUP_MAJORITY, {40, 30, 20}, 30},
        {RLOCK_GROUP_MAJORITY, {20, 0, 40}, 20},
        {RLOCK_GROUP_MAJORITY, {0, 0, 40}, 0},
        {RLOCK_GROUP_ALL, {30, 0, 40}, 0},
        {RLOCK_GROUP_ALL, {7, 7, 7}, 7},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t found_us;

        create(test, 3, cases[i].need);
        acquire(test, 60000, 0);
        answer_all(test, "ggg");
        expect_answer(test, STATUS_OK);
        for (int at = 0; at < 3; at++) {
            struct rlock *lock = &test->group->members[at].lock;

            lock->safe_until_us = NOW_US + cases[i].safe_us[at];
            lock->state = cases[i].safe_us[at] == 0 ? RLOCK_LOST : RLOCK_HELD;
            ASSERT_NUMBER(rlock_group_fence(test->group, (size_t)at), ==,
                          cases[i].safe_us[at] == 0 ? 0 : 7);
        }
        found_us = rlock_group_safe_for_us(test->group, NOW_US);
        if (found_us != cases[i].wanted_us)
            fail_msg("case %zu: expected %lld us, got %lld", i,
                     (long long)cases[i].wanted_us, (long long)found_us);
        free_group(test);
    }
}

static void lose_member(struct group_test *test, int member)
{
    struct rlock *lock = &test->group->members[member].lock;

    lock->state = RLOCK_LOST;
    lock->on_lost(lock, STATUS_LOST, lock->lost_arg);
}

GROUP_CASE(test_group__is_lost_once_with_one_too_few)
{
    struct group_test *test = *state;

    create(test, 5, RLOCK_GROUP_MAJORITY);
    acquire(test, 60000, 0);
    answer_all(test, "ggggg");
    for (int i = 0; i < 4; i++) {
        if (test->losses != (i > 2) || rlock_group_is_held(test->group) != (i <= 2))
            fail_msg("after %d losses: %u times lost", i, test->losses);
        lose_member(test, i);
    }
    assert_int_equal(test->losses, 1);
    assert_int_equal(rlock_group_safe_for_us(test->group, NOW_US), 0);
    assert_int_equal(rlock_group_fence(test->group, 4), 0);
    assert_int_equal(test->group->members[4].lock.state, RLOCK_IDLE); /* released */
}

GROUP_CASE(test_rlock_group_extend__counts_those_that_are_held)
{
    static const struct {
        const char *letters;
        enum rlock_group_need need;
        enum status status;
        bool is_held;
    } cases[] = {
        {"ggg", RLOCK_GROUP_ALL, STATUS_OK, true},
        {"ggl", RLOCK_GROUP_ALL, STATUS_LOST, false},
        {"ggl", RLOCK_GROUP_MAJORITY, STATUS_OK, true},
        {"gll", RLOCK_GROUP_MAJORITY, STATUS_LOST, false},
        {"grr", RLOCK_GROUP_MAJORITY, STATUS_REFUSED, true},
        {"ggr", RLOCK_GROUP_ALL, STATUS_REFUSED, true},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        create(test, 3, cases[i].need);
        acquire(test, 60000, 0);
        answer_all(test, "ggg");
        test->answers = 0;
        rlock_group_extend(test->group, 90000, on_answer, test);
        expect_timer(test, ROUND_MS);
        answer_all(test, cases[i].letters);
        if (test->answers != 1 || test->status != cases[i].status ||
            rlock_group_is_held(test->group) != cases[i].is_held)
            fail_msg("case %zu, %s: expected %s and held %d, got %u answers, %s and %d",
                     i, cases[i].letters, status_name(cases[i].status), cases[i].is_held,
                     test->answers, status_name(test->status),
                     rlock_group_is_held(test->group));
        free_group(test);
    }
}

GROUP_CASE(test_rlock_group_release__tells_whether_enough_were_ours)
{
    static const struct {
        const char *letters;
        enum rlock_group_need need;
        enum status status;
    } cases[] = {
        {"ggg", RLOCK_GROUP_ALL, STATUS_OK},
        {"glg", RLOCK_GROUP_ALL, STATUS_LOST},
        {"grg", RLOCK_GROUP_ALL, STATUS_REFUSED},
        {"ggl", RLOCK_GROUP_MAJORITY, STATUS_OK},
        {"gll", RLOCK_GROUP_MAJORITY, STATUS_LOST},
        {"grl", RLOCK_GROUP_MAJORITY, STATUS_REFUSED},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        create(test, 3, cases[i].need);
        acquire(test, 60000, 0);
        answer_all(test, "ggg");
        test->answers = 0;
        rlock_group_release(test->group, on_answer, test);
        expect_timer(test, ROUND_MS);
        answer_all(test, cases[i].letters);
        if (test->answers != 1 || test->status != cases[i].status)
            fail_msg("case %zu, %s: expected %s, got %u answers, %s", i, cases[i].letters,
                     status_name(cases[i].status), test->answers,
                     status_name(test->status));
        free_group(test);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
