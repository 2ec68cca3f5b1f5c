/* test_group.c - the arguments that a group accepts, and its states from an acquire to its end. */
#include "test/group_fixture.h"

static void refuse(const struct rlock_member *members, size_t count,
                   enum rlock_group_need need, const char *words)
{
    struct rlock_group *group = NULL;
    struct rlock_err err = {0};

    ASSERT_STATUS(rlock_group_create(members, count, need, &group, &err), RLOCK_INVALID);
    ASSERT_STATUS(err.status, RLOCK_INVALID);
    assert_null(group);
    ASSERT_CONTAINS(err.text, words);
}

static void expect_created(const struct rlock_member members[2],
                           enum rlock_group_need need, const char *fault)
{
    struct rlock_group *group = NULL;

    if (fault != NULL) {
        refuse(members, 2, need, fault);
        return;
    }
    ASSERT_STATUS(rlock_group_create(members, 2, need, &group, NULL), RLOCK_OK);
    rlock_group_free(group);
}

GROUP_CASE(test_rlock_group_create__takes_1_to_64_members)
{
    struct rlock_member members[RLOCK_GROUP_MAX + 1];
    char names[RLOCK_GROUP_MAX + 1], longest[RLOCK_NAME_MAX] = "";
    struct group_test *test = *state;
    struct rlock_group *group;

    for (int i = 0; i <= RLOCK_GROUP_MAX; i++) {
        names[i] = (char)i;
        members[i] = member_of(test->clients[0], &names[i], 1);
    }
    members[1] = member_of(test->clients[0], longest, RLOCK_NAME_MAX);
    refuse(members, 0, RLOCK_GROUP_ALL, "0 members; must be 1..64");
    refuse(members, RLOCK_GROUP_MAX + 1, RLOCK_GROUP_ALL, "65 members; must be 1..64");
    for (size_t count = 1; count <= RLOCK_GROUP_MAX; count += RLOCK_GROUP_MAX - 1) {
        torture_fail(1, 0);
        ASSERT_STATUS(rlock_group_create(members, count, RLOCK_GROUP_ALL, &group, NULL),
                      RLOCK_NO_MEMORY);
        assert_true(torture_stop());
        ASSERT_STATUS(rlock_group_create(members, count, RLOCK_GROUP_ALL, &group, NULL),
                      RLOCK_OK);
        rlock_group_free(group);
    }
}

GROUP_CASE(test_rlock_group_create__refuses_bad_members)
{
    static const char longer[RLOCK_NAME_MAX + 1];
    struct group_test *test = *state;
    struct rlock_client **clients = test->clients;
    struct rlock_client other = {.process = clients[0]->process};
    const struct {
        struct rlock_member last; /* follows "a" of clients[0] and "b" of clients[1] */
        enum rlock_group_need need;
        const char *words; /* NULL: the member is accepted */
    } cases[] = {
        {member_of(clients[0], "b", 1), RLOCK_GROUP_ALL, NULL},
        {member_of(clients[1], "b", 1), RLOCK_GROUP_ALL, "members 1 and 2 are the same"},
        {member_of(clients[2], "b", 1), RLOCK_GROUP_MAJORITY, NULL},
        {member_of(clients[0], "b", 1), RLOCK_GROUP_MAJORITY,
         "0 and 2 of a quorum share"},
        {member_of(clients[0], "", 0), RLOCK_GROUP_ALL, "bad name of member 2"},
        {member_of(clients[0], longer, sizeof(longer)), RLOCK_GROUP_ALL,
         "bad name of member 2"},
        {member_of(clients[0], NULL, 1), RLOCK_GROUP_ALL, "bad name of member 2"},
        {member_of(NULL, "b", 1), RLOCK_GROUP_ALL, "no client of member 2"},
        {member_of(&other, "b", 1), RLOCK_GROUP_ALL, "clients of different loops"},
        {member_of(clients[2], "b", 1), (enum rlock_group_need)2,
         "need: unknown value 2"},
    };
    struct rlock_member members[3] = {member_of(clients[0], "a", 1),
                                      member_of(clients[1], "b", 1)};
    struct rlock_group *group;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        members[2] = cases[i].last;
        if (cases[i].words != NULL) {
            refuse(members, 3, cases[i].need, cases[i].words);
            continue;
        }
        ASSERT_STATUS(rlock_group_create(members, 3, cases[i].need, &group, NULL),
                      RLOCK_OK);
        rlock_group_free(group);
    }
    refuse(NULL, 1, RLOCK_GROUP_ALL, "no client of member 0");
    members[0].client = NULL;
    refuse(members, 3, RLOCK_GROUP_ALL, "no client of member 0");
    rlock_group_free(NULL);
}

GROUP_CASE(test_rlock_group_create__checks_kinds_and_permits)
{
    struct group_test *test = *state;
    const struct {
        const struct rlock_kind *kinds[2];
        uint16_t permits[2];
        /* why a group of these members is refused, or NULL */
        const char *all, *majority;
    } cases[] = {
        {{NULL, &rlock_plain}, {0, 0}, NULL, NULL},
        {{&rlock_write, &rlock_write}, {0, 0}, NULL, NULL},
        {{&rlock_fair, &rlock_cohort},
         {0, 0},
         NULL,
         "members 0 and 1 of a quorum differ"},
        {{NULL, &rlock_semaphore}, {0, 3}, NULL, "member 1 of a quorum is a semaphore"},
        {{&rlock_fair_semaphore, &rlock_fair_semaphore},
         {1, UINT16_MAX},
         NULL,
         "member 0 of a quorum is a semaphore"},
        {{&rlock_semaphore, NULL}, {0, 0}, "permits of member 0", "permits of member 0"},
        {{&rlock_read, NULL}, {0, 1}, "permits of member 1", "permits of member 1"},
        {{NULL, &rlock_getset}, {0, 0}, "kind of member 1", "kind of member 1"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rlock_member members[2];

        for (int m = 0; m < 2; m++) {
            members[m] = member_of(test->clients[m], "a", 1);
            members[m].kind = cases[i].kinds[m];
            members[m].permits = cases[i].permits[m];
        }
        expect_created(members, RLOCK_GROUP_ALL, cases[i].all);
        expect_created(members, RLOCK_GROUP_MAJORITY, cases[i].majority);
    }
}

GROUP_CASE(test_rlock_group_acquire__gives_each_member_its_kind)
{
    struct group_test *test = *state;
    struct rlock_group_options options = {.holder = 7, .lease_ms = 60000};
    struct rlock_member members[2] = {member_of(test->clients[0], "a", 1),
                                      member_of(test->clients[1], "b", 1)};
    const struct group_member *found;

    members[0].kind = &rlock_semaphore;
    members[0].permits = 3;
    ASSERT_STATUS(rlock_group_create(members, 2, RLOCK_GROUP_ALL, &test->group, NULL),
                  RLOCK_OK);
    rlock_group_acquire(test->group, &options, on_answer, test);
    found = test->group->members;
    assert_ptr_equal(found[0].lock.kind, &rlock_semaphore);
    assert_int_equal(found[0].lock.permits, 3);
    assert_ptr_equal(found[1].lock.kind, &rlock_plain);
    assert_int_equal(found[1].lock.permits, 0);
    assert_int_equal(found[1].lock.holder, 7);
    answer_all(test, "gg");
    EXPECT_ANSWER(test, RLOCK_OK);
    free_group(test);
}

GROUP_CASE(test_group__in_a_child_does_nothing)
{
    struct group_test *test = *state;
    struct rlock_member member = member_of(test->clients[0], "a", 1);

    create(test, 2, RLOCK_GROUP_ALL);
    acquire(test, 60000, 0);
    answer_all(test, "gg");
    test->answers = 0;
    test->clients[0]->process++; /* as after fork() */
    rlock_group_acquire(test->group, NULL, on_answer, test);
    EXPECT_ANSWER(test, RLOCK_INVALID);
    rlock_group_extend(test->group, 1000, on_answer, test);
    rlock_group_release(test->group, on_answer, test);
    assert_int_equal(test->answers, 3);
    ASSERT_STATUS(test->status, RLOCK_INVALID);
    rlock_group_cancel(test->group);
    assert_false(rlock_group_is_held(test->group));
    rlock_group_free(test->group);
    refuse(&member, 1, RLOCK_GROUP_ALL, "inherited by fork()");
    test->clients[0]->process--;
    assert_true(rlock_group_is_held(test->group));
    uv_run(&test->loop, UV_RUN_NOWAIT);
    assert_int_equal(test->answers, 3);
}

/** The loop answers these calls. If there is no memory for an answer, the call itself answers. */
GROUP_CASE(test_group__answers_calls_in_the_wrong_state)
{
    struct group_test *test = *state;

    create(test, 2, RLOCK_GROUP_ALL);
    for (int is_lost = 0; is_lost <= 1; is_lost++) {
        enum rlock_status wanted = is_lost ? RLOCK_LOST : RLOCK_NOT_OWNER;

        for (int i = 0; i < 2; i++) {
            test->answers = 0;
            if (i == 0)
                rlock_group_extend(test->group, 1000, on_answer, test);
            else
                rlock_group_release(test->group, on_answer, test);
            assert_int_equal(test->answers, 0);
            uv_run(&test->loop, UV_RUN_NOWAIT);
            EXPECT_ANSWER(test, wanted);
        }
        test->answers = 0;
        rlock_group_release(test->group, on_answer, test);
        uv_run(&test->loop, UV_RUN_NOWAIT);
        EXPECT_ANSWER(test, RLOCK_NOT_OWNER); /* the call before has reported the loss */
        acquire(test, 60000, 0);
        answer_all(test, "gg");
        lose_member(test, 0);
    }
    acquire(test, 60000, 0);
    rlock_group_acquire(test->group, NULL, on_answer, test);
    torture_fail(1, 0);
    rlock_group_release(test->group, on_answer, test);
    assert_true(torture_stop());
    EXPECT_ANSWER(test, RLOCK_NO_MEMORY);
    rlock_group_acquire(test->group, NULL, on_answer, test);
    ASSERT_CONTAINS(rlock_client_why(test->clients[0])->text, "in another call");
    /* the options of the first call have stayed */
    ASSERT_NUMBER(test->group->options.lease_ms, ==, 60000);
    rlock_group_free(test->group);
    assert_int_equal(test->answers, 4);
    ASSERT_STATUS(test->status, RLOCK_INVALID);
    test->group = NULL;
}

GROUP_CASE(test_rlock_group_acquire__without_options_has_the_defaults)
{
    struct group_test *test = *state;

    create(test, 2, RLOCK_GROUP_ALL);
    rlock_group_acquire(test->group, NULL, on_answer, test);
    answer_all(test, "gg");
    EXPECT_ANSWER(test, RLOCK_OK);
    ASSERT_NUMBER(test->group->members[1].lock.lease_ms, ==, 30000);
    ASSERT_NUMBER(rlock_group_fence(test->group, 1), ==, 7);
    ASSERT_NUMBER(rlock_group_fence(test->group, 2), ==, 0);
    assert_non_null(rlock_group_why(test->group, 1));
    assert_null(rlock_group_why(test->group, 2));
}

GROUP_CASE(test_rlock_group_safe_for_us__is_that_of_the_last_one_needed)
{
    static const struct {
        enum rlock_group_need need;
        int64_t safe_us[3]; /* 0: the member is not held */
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
        EXPECT_ANSWER(test, RLOCK_OK);
        for (int at = 0; at < 3; at++) {
            struct rlock *lock = &test->group->members[at].lock;

            lock->safe_until_us = NOW_US + cases[i].safe_us[at];
            lock->state = cases[i].safe_us[at] == 0 ? RLOCK_STATE_LOST : RLOCK_STATE_HELD;
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
    /* this member was released */
    assert_int_equal(test->group->members[4].lock.state, RLOCK_STATE_IDLE);
}

GROUP_CASE(test_call__on_a_held_group_tells_whether_enough_are_ours)
{
    static const struct {
        const char *granted, *letters;
        enum rlock_group_need need;
        enum rlock_status status;
    } cases[] = {
        {"ggg", "ggg", RLOCK_GROUP_ALL, RLOCK_OK},
        {"ggg", "ggl", RLOCK_GROUP_ALL, RLOCK_LOST},
        {"ggg", "grg", RLOCK_GROUP_ALL, RLOCK_REFUSED},
        {"ggg", "ggl", RLOCK_GROUP_MAJORITY, RLOCK_OK},
        {"ggg", "gll", RLOCK_GROUP_MAJORITY, RLOCK_LOST},
        {"ggg", "grr", RLOCK_GROUP_MAJORITY, RLOCK_REFUSED},
        {"ggg", "glr", RLOCK_GROUP_MAJORITY, RLOCK_REFUSED},
        {"ggb", "gl-", RLOCK_GROUP_MAJORITY, RLOCK_LOST},
    };
    struct group_test *test = *state;

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        const char *letters = cases[i / 2].letters;
        enum rlock_status wanted = cases[i / 2].status;
        bool is_extension = i % 2 == 0;

        create(test, 3, cases[i / 2].need);
        acquire(test, 60000, 0);
        answer_all(test, cases[i / 2].granted);
        test->answers = 0;
        if (is_extension)
            rlock_group_extend(test->group, 90000, on_answer, test);
        else
            rlock_group_release(test->group, on_answer, test);
        expect_timer(test, ROUND_MS);
        answer_all(test, letters);
        if (test->answers != 1 || test->status != wanted)
            fail_msg("case %zu, %s: expected %s, got %u answers, %s", i, letters,
                     rlock_status_name(wanted), test->answers,
                     rlock_status_name(test->status));
        assert_int_equal(test->group->state, !is_extension          ? GROUP_IDLE
                                             : wanted == RLOCK_LOST ? GROUP_LOST
                                                                    : GROUP_HELD);
        assert_int_equal(rlock_is_held(&test->group->members[0].lock),
                         test->group->state == GROUP_HELD);
        free_group(test);
    }
}

GROUP_CASE(test_rlock_group_cancel__ends_an_acquire)
{
    struct group_test *test = *state;

    create(test, 2, RLOCK_GROUP_ALL);
    rlock_group_cancel(test->group);
    expect_timer(test, NEVER); /* there was nothing to cancel */
    for (int waits = 0; waits <= 1; waits++) {
        if (waits)
            fail_try(test, RLOCK_WAIT_FOREVER, 0);
        else
            acquire(test, 60000, RLOCK_WAIT_FOREVER);
        rlock_group_cancel(test->group);
        rlock_group_cancel(test->group);
        assert_int_equal(test->answers, 0);
        uv_run(&test->loop, UV_RUN_NOWAIT);
        EXPECT_ANSWER(test, RLOCK_CANCELLED);
        expect_timer(test, NEVER);
    }
    acquire(test, 60000, 0);
    answer_all(test, "gg");
    rlock_group_cancel(test->group);
    assert_true(rlock_is_held(&test->group->members[0].lock));
}

static void acquire_on_cancelled(struct rlock_group *group, enum rlock_status status,
                                 void *arg)
{
    ASSERT_STATUS(status, RLOCK_CANCELLED);
    rlock_group_acquire(group, NULL, on_answer, arg);
}

GROUP_CASE(test_callback__may_call_again)
{
    struct group_test *test = *state;

    create(test, 2, RLOCK_GROUP_ALL);
    rlock_group_acquire(test->group, NULL, acquire_on_cancelled, test);
    rlock_group_cancel(test->group);
    while (test->answers == 0)
        uv_run(&test->loop, UV_RUN_ONCE);
    EXPECT_ANSWER(test, RLOCK_DOWN); /* there is no server */
}

GROUP_CASE(test_rlock_group_free__in_each_state)
{
    enum call { TRY, HOLD, EXTEND, RELEASE };
    struct group_test *test = *state;

    for (int call = TRY; call <= RELEASE; call++) {
        create(test, 3, RLOCK_GROUP_ALL);
        acquire(test, 60000, 0);
        answer_all(test, call == TRY ? "g" : "ggg");
        test->answers = 0;
        if (call == EXTEND)
            rlock_group_extend(test->group, 1000, on_answer, test);
        else if (call == RELEASE)
            rlock_group_release(test->group, on_answer, test);
        rlock_group_free(test->group);
        assert_int_equal(test->answers, call != HOLD);
        if (call != HOLD)
            ASSERT_STATUS(test->status, RLOCK_CANCELLED);
        for (int i = 0; i < 3; i++)
            assert_false(rlock_is_held(&test->group->members[i].lock));
        if (call == TRY)
            assert_int_equal(test->group->members[1].call, GROUP_CALL_CANCEL);
        test->group = NULL;
    }
}

GROUP_CASE(test_rlock_group_free__waits_for_each_member)
{
    struct group_test *test = *state;

    for (int late = 0; late < 3; late++) {
        const struct rlock_result released = {.status = RLOCK_OK};
        struct rlock *lock;
        long blocks;

        create(test, 3, RLOCK_GROUP_ALL);
        lock = &test->group->members[late].lock;
        acquire(test, 60000, 0);
        answer_for(test, late, RLOCK_OK);
        for (int i = 0; i < 3; i++) {
            if (i != late)
                answer_for(test, i, RLOCK_BUSY);
        }
        assert_int_equal(test->group->members[late].call, GROUP_CALL_RELEASE);
        blocks = torture_blocks();
        rlock_group_free(test->group);
        rlock_batch_leave(lock); /* so that the loop does not answer the release */
        uv_run(&test->loop, UV_RUN_NOWAIT);
        ASSERT_NUMBER(torture_blocks(), ==, blocks);
        rlock_state_on_release(test->clients[late], lock, &released);
        ASSERT_NUMBER(torture_blocks(), ==, blocks - 1);
        test->group = NULL;
    }
}

GROUP_CASE(test_rlock_group_release__overtakes_an_extension)
{
    struct group_test *test = *state;

    create(test, 2, RLOCK_GROUP_ALL);
    acquire(test, 60000, 0);
    answer_all(test, "gg");
    rlock_group_extend(test->group, 90000, on_answer, test);
    end_round(test);
    ASSERT_STATUS(test->status, RLOCK_TIMEOUT);
    test->answers = 0;
    rlock_group_release(test->group, on_answer, test);
    while (test->answers == 0)
        uv_run(&test->loop, UV_RUN_ONCE);
    EXPECT_ANSWER(test, RLOCK_DOWN); /* the status of the release: there is no server */
}

/** The lease is bad, or there is no memory. In the second case the first member answers from
 *  inside the call. */
GROUP_CASE(test_rlock_group_extend__that_cannot_be_sent_leaves_the_group_held)
{
    struct group_test *test = *state;

    for (int is_invalid = 0; is_invalid <= 1; is_invalid++) {
        create(test, 3, RLOCK_GROUP_MAJORITY);
        acquire(test, 60000, 0);
        /* the member that is not held does not hide the reason of the others */
        answer_all(test, "bgg");
        test->answers = 0;
        if (!is_invalid)
            torture_fail(1, 10);
        rlock_group_extend(test->group, is_invalid ? 9 : 90000, on_answer, test);
        if (!is_invalid)
            assert_true(torture_stop());
        uv_run(&test->loop, UV_RUN_NOWAIT);
        EXPECT_ANSWER(test, is_invalid ? RLOCK_INVALID : RLOCK_NO_MEMORY);
        ASSERT_CONTAINS(rlock_group_why(test->group, 1)->text,
                        is_invalid ? "lease_ms: must be" : "no_memory");
        assert_true(rlock_group_is_held(test->group));
        free_group(test);
    }
}

GROUP_CASE(test_rlock_group_extend__that_loses_members_meanwhile_is_lost)
{
    struct group_test *test = *state;

    create(test, 3, RLOCK_GROUP_MAJORITY);
    acquire(test, 60000, 0);
    answer_all(test, "ggg");
    test->answers = 0;
    rlock_group_extend(test->group, 90000, on_answer, test);
    lose_member(test, 0);
    lose_member(test, 1);
    end_round(test);
    EXPECT_ANSWER(test, RLOCK_LOST);
    assert_int_equal(test->losses, 0);
}

GROUP_CASE(test_group__gives_each_callback_its_own_argument)
{
    struct group_test *test = *state, other = {0};
    struct rlock_group_options options = {.on_lost = on_lost, .lost_arg = &other};

    create(test, 2, RLOCK_GROUP_ALL);
    other.group = test->group;
    rlock_group_acquire(test->group, &options, on_answer, test);
    answer_all(test, "gg");
    rlock_group_extend(test->group, 90000, on_answer, &other);
    answer_all(test, "gg");
    assert_int_equal(other.answers, 1);
    lose_member(test, 1);
    assert_int_equal(test->losses, 0);
    assert_int_equal(other.losses, 1);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
