/*
 * test_group_round.c - the tries of an acquire: their time limits, their results and their pauses.
 */
#include "test/group_fixture.h"

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
        expect_timer(test, cases[i].round_ms);
        answer_all(test, "b");
        expect_timer(test, cases[i].hurry_ms);
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
        {5, RLOCK_GROUP_MAJORITY, "gbbg", false}, {3, RLOCK_GROUP_MAJORITY, "dg", false},
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
        enum rlock_status status;
    } cases[] = {
        {3, RLOCK_GROUP_ALL, "ggg", RLOCK_OK},
        {3, RLOCK_GROUP_ALL, "gbg", RLOCK_BUSY},
        {3, RLOCK_GROUP_ALL, "ggr", RLOCK_REFUSED},
        {3, RLOCK_GROUP_ALL, "brr", RLOCK_BUSY},
        {3, RLOCK_GROUP_MAJORITY, "ggb", RLOCK_OK},
        {3, RLOCK_GROUP_MAJORITY, "gbb", RLOCK_BUSY},
        {3, RLOCK_GROUP_MAJORITY, "gbr", RLOCK_REFUSED},
        {3, RLOCK_GROUP_MAJORITY, "rrr", RLOCK_REFUSED},
        {3, RLOCK_GROUP_MAJORITY, "gb-", RLOCK_TIMEOUT},
        {3, RLOCK_GROUP_MAJORITY, "gg-", RLOCK_OK},
        {3, RLOCK_GROUP_MAJORITY, "dgb", RLOCK_TIMEOUT},
        {3, RLOCK_GROUP_ALL, "gg-", RLOCK_TIMEOUT},
        {3, RLOCK_GROUP_ALL, "gng", RLOCK_NO_MEMORY},
        {3, RLOCK_GROUP_ALL, "ggi", RLOCK_INVALID},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        /* a failure with one of these statuses ends the acquire at once */
        bool may_wait =
            cases[i].status == RLOCK_NO_MEMORY || cases[i].status == RLOCK_INVALID;

        create(test, cases[i].count, cases[i].need);
        acquire(test, 60000, may_wait ? RLOCK_WAIT_FOREVER : 0);
        answer_all(test, cases[i].letters);
        if (strchr(cases[i].letters, '-') != NULL)
            end_round(test);
        if (cases[i].status != RLOCK_OK) {
            assert_int_equal(test->answers, 0); /* the group first undoes the try */
            assert_false(rlock_group_is_held(test->group));
            end_round(test);
        }
        if (test->answers != 1 || test->status != cases[i].status)
            fail_msg("case %zu, %s: expected %s, got %u answers, %s", i, cases[i].letters,
                     rlock_status_name(cases[i].status), test->answers,
                     rlock_status_name(test->status));
        assert_int_equal(rlock_group_is_held(test->group), cases[i].status == RLOCK_OK);
        free_group(test);
    }
}

GROUP_CASE(test_try__without_time_left_has_failed)
{
    struct group_test *test = *state;

    create(test, 2, RLOCK_GROUP_ALL);
    acquire(test, 60000, 0);
    answer_all(test, "g");
    frozen_us += 60000000;
    answer_for(test, 1, RLOCK_OK);
    assert_false(rlock_group_is_held(test->group));
    end_round(test);
    EXPECT_ANSWER(test, RLOCK_TIMEOUT);
}

/** An undo has no early result, so each member gets the whole time of the round. */
GROUP_CASE(test_undo__has_its_time_for_all_members)
{
    struct group_test *test = *state;

    create(test, 3, RLOCK_GROUP_ALL);
    acquire(test, 60000, 0);
    answer_all(test, "ggb");
    answer_for(test, 0, RLOCK_OK); /* the release of this member has ended */
    expect_timer(test, ROUND_MS);
}

/** The time limit of a try counts from the call of rlock_group_acquire(), not from the loop's
 *  cached time. In this test the cached time is an hour old, as after a callback that ran long. */
GROUP_CASE(test_try__has_its_time_though_the_loop_was_busy)
{
    struct group_test *test = *state;

    create(test, 2, RLOCK_GROUP_ALL);
    test->loop.time -= 3600000;
    acquire(test, 60000, 0);
    uv_update_time(&test->loop);
    ASSERT_NUMBER(uv_timer_get_due_in(&test->group->timer), >, 0);
}

GROUP_CASE(test_rlock_group_acquire__waits_for_the_busy_member)
{
    static const struct {
        int64_t took_us;
        uint32_t wait_ms;
        uint32_t left_ms;
    } cases[] = {
        {0, 1000, 1001},    {999, 1000, 1000},
        {1000, 1000, 1000}, {999999, 1000, 1},
        {1000000, 1000, 0}, {0, 1, 2},
        {0, 0, 0},          {99000000, RLOCK_WAIT_FOREVER, RLOCK_WAIT_FOREVER},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct group_member *busy;

        create(test, 2, RLOCK_GROUP_ALL);
        busy = &test->group->members[1];
        fail_try(test, cases[i].wait_ms, cases[i].took_us);
        if (cases[i].left_ms == 0) {
            EXPECT_ANSWER(test, RLOCK_BUSY);
            expect_timer(test, NEVER);
        } else {
            assert_int_equal(test->answers, 0);
            ASSERT_NUMBER(busy->lock.wait_ms, ==, cases[i].left_ms);
            expect_timer(test, (uint64_t)cases[i].left_ms + ROUND_MS);
            assert_int_equal(test->group->members[0].call, GROUP_CALL_NONE);
            answer_for(test, 1, RLOCK_OK);
            answer_for(test, 0, RLOCK_OK);
            EXPECT_ANSWER(test, RLOCK_OK);
        }
        free_group(test);
    }
}

GROUP_CASE(test_rlock_group_acquire__tells_why_its_wait_has_ended)
{
    struct group_test *test = *state;

    create(test, 2, RLOCK_GROUP_ALL);
    fail_try(test, 1000, 0);
    frozen_us += 1001000;
    answer_for(test, 1, RLOCK_REFUSED);
    end_round(test); /* there is nothing to undo */
    EXPECT_ANSWER(test, RLOCK_REFUSED);
    expect_timer(test, NEVER);
}

GROUP_CASE(test_rlock_group_acquire__pauses_before_it_tries_again)
{
    struct group_test *test = *state;

    create(test, 3, RLOCK_GROUP_MAJORITY);
    acquire(test, 60000, RLOCK_WAIT_FOREVER);
    for (int i = 0; i < 12; i++) {
        uint64_t most_ms = i < 4 ? UINT64_C(8) << i : 128;

        answer_all(test, "bbb");
        end_round(test);
        ASSERT_BETWEEN(uv_timer_get_due_in(&test->group->timer), most_ms / 2, most_ms);
        assert_int_equal(test->group->failures, i + 1);
        end_round(test);
    }
    rlock_group_cancel(test->group);
    for (int i = 0; i < 3; i++)
        assert_int_equal(test->group->members[i].call, GROUP_CALL_CANCEL);
    end_round(test);
    acquire(test, 60000, 0);
    /* each member is still in its earlier call */
    ASSERT_NUMBER(test->group->awaited, ==, 0);
}

GROUP_CASE(test_round__takes_late_answers)
{
    struct group_test *test = *state;

    create(test, 3, RLOCK_GROUP_MAJORITY);
    acquire(test, 60000, 0);
    answer_all(test, "gg");
    end_round(test);
    EXPECT_ANSWER(test, RLOCK_OK);
    ASSERT_NUMBER(rlock_group_fence(test->group, 2), ==, 0);
    answer_for(test, 2, RLOCK_OK);
    ASSERT_NUMBER(rlock_group_fence(test->group, 2), ==, 7);
    lose_member(test, 0);
    assert_int_equal(test->losses, 0); /* two members are left */
    test->answers = 0;
    rlock_group_extend(test->group, 90000, on_answer, test);
    end_round(test);
    EXPECT_ANSWER(test, RLOCK_TIMEOUT);
    ASSERT_STATUS(rlock_group_why(test->group, 1)->status, RLOCK_TIMEOUT);
    assert_true(rlock_group_is_held(test->group));
    answer_for(test, 1, RLOCK_LOST);
    assert_int_equal(test->losses, 1);
    assert_false(rlock_group_is_held(test->group));
    /* this member was released */
    assert_int_equal(test->group->members[2].lock.state, RLOCK_STATE_IDLE);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
