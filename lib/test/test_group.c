/* test_group.c - the rounds of a group on a frozen clock. The test answers for members. */
#include "lock/batch.h"
#include "lock/group_round.h"
#include "lock/internal.h"
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
    enum rlock_status status; /* of the last answer */
};

static void on_answer(struct rlock_group *group, enum rlock_status status, void *arg)
{
    struct group_test *test = arg;

    assert_ptr_equal(group, test->group);
    test->answers++;
    test->status = status;
}

static void on_lost(struct rlock_group *group, enum rlock_status status, void *arg)
{
    struct group_test *test = arg;

    assert_ptr_equal(group, test->group);
    ASSERT_STATUS(status, RLOCK_LOST);
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
        ASSERT_STATUS(rlock_client_open(&options, &test->clients[i], NULL), RLOCK_OK);
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
    ASSERT_STATUS(rlock_group_create(members, count, need, &test->group, NULL), RLOCK_OK);
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
static void answer_for(struct group_test *test, int member, enum rlock_status status)
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
    if (lock->state == RLOCK_STATE_RELEASING)
        on_result = rlock_state_on_release;
    else if (lock->state == RLOCK_STATE_EXTENDING)
        on_result = rlock_state_on_extend;
    rlock_batch_leave(lock);
    on_result(test->clients[member], lock, &result);
}

static void lose_member(struct group_test *test, int member)
{
    struct rlock *lock = &test->group->members[member].lock;

    lock->state = RLOCK_STATE_LOST;
    lock->on_lost(lock, RLOCK_LOST, lock->lost_arg);
}

/** A letter per member: granted, the first of a status, or granted, but dead. '-': none. */
static void answer_all(struct group_test *test, const char *letters)
{
    static const enum rlock_status statuses[] = {
        ['b'] = RLOCK_BUSY, ['g'] = RLOCK_OK,        ['i'] = RLOCK_INVALID,
        ['l'] = RLOCK_LOST, ['n'] = RLOCK_NO_MEMORY, ['r'] = RLOCK_REFUSED,
    };

    for (int i = 0; letters[i] != '\0'; i++) {
        if (letters[i] != '-')
            answer_for(test, i, statuses[(int)letters[i]]);
        if (letters[i] == 'd')
            lose_member(test, i);
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

static void expect_answer(const struct group_test *test, enum rlock_status wanted)
{
    if (test->answers != 1 || test->status != wanted)
        fail_msg("expected one answer, %s; got %u, the last one %s",
                 rlock_status_name(wanted), (unsigned)test->answers,
                 rlock_status_name(test->status));
}

#define GROUP_CASE(name) DEFINE_CASE(name, name, set_up, tear_down, NULL)

static void refuse(const struct rlock_member *members, size_t count,
                   enum rlock_group_need need, const char *words)
{
    struct rlock_group *group = NULL;
    struct rlock_err err = {0};

    ASSERT_STATUS(rlock_group_create(members, count, need, &group, &err), RLOCK_INVALID);
    assert_null(group);
    ASSERT_CONTAINS(err.text, words);
}

GROUP_CASE(test_rlock_group_create__takes_1_to_64_members)
{
    struct rlock_member members[RLOCK_GROUP_MAX + 1];
    char names[RLOCK_GROUP_MAX + 1], longest[RLOCK_NAME_MAX] = "";
    struct group_test *test = *state;
    struct rlock_group *group;

    for (int i = 0; i <= RLOCK_GROUP_MAX; i++) {
        names[i] = (char)i;
        members[i] = (struct rlock_member){test->clients[0], &names[i], 1};
    }
    members[1] = (struct rlock_member){test->clients[0], longest, RLOCK_NAME_MAX};
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
        struct rlock_member last; /* behind "a" and "b" of two clients */
        enum rlock_group_need need;
        const char *words; /* NULL: it is good */
    } cases[] = {
        {{clients[0], "b", 1}, RLOCK_GROUP_ALL, NULL},
        {{clients[1], "b", 1}, RLOCK_GROUP_ALL, "members 1 and 2 are the same"},
        {{clients[2], "b", 1}, RLOCK_GROUP_MAJORITY, NULL},
        {{clients[0], "b", 1}, RLOCK_GROUP_MAJORITY, "0 and 2 of a quorum share"},
        {{clients[0], "", 0}, RLOCK_GROUP_ALL, "bad name of member 2"},
        {{clients[0], longer, sizeof(longer)}, RLOCK_GROUP_ALL, "bad name of member 2"},
        {{clients[0], NULL, 1}, RLOCK_GROUP_ALL, "bad name of member 2"},
        {{NULL, "b", 1}, RLOCK_GROUP_ALL, "no client of member 2"},
        {{&other, "b", 1}, RLOCK_GROUP_ALL, "clients of different loops"},
        {{clients[2], "b", 1}, (enum rlock_group_need)2, "need: unknown value 2"},
    };
    struct rlock_member members[3] = {{clients[0], "a", 1}, {clients[1], "b", 1}};
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

GROUP_CASE(test_group__in_a_child_does_nothing)
{
    struct group_test *test = *state;
    struct rlock_member member = {test->clients[0], "a", 1};

    create(test, 2, RLOCK_GROUP_ALL);
    acquire(test, 60000, 0);
    answer_all(test, "gg");
    test->answers = 0;
    test->clients[0]->process++; /* as after fork() */
    rlock_group_acquire(test->group, NULL, on_answer, test);
    expect_answer(test, RLOCK_INVALID);
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
}

/** The loop answers; without memory for that, the call does. */
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
            expect_answer(test, wanted);
        }
        test->answers = 0;
        rlock_group_release(test->group, on_answer, test);
        uv_run(&test->loop, UV_RUN_NOWAIT);
        expect_answer(test, RLOCK_NOT_OWNER); /* it has learnt of the loss */
        acquire(test, 60000, 0);
        answer_all(test, "gg");
        lose_member(test, 0);
    }
    acquire(test, 60000, 0); /* of a lost group */
    rlock_group_acquire(test->group, NULL, on_answer, test);
    torture_fail(1, 0);
    rlock_group_release(test->group, on_answer, test);
    assert_true(torture_stop());
    expect_answer(test, RLOCK_NO_MEMORY);
    rlock_group_acquire(test->group, NULL, on_answer, test);
    ASSERT_CONTAINS(rlock_client_why(test->clients[0])->text, "in another call");
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
    expect_answer(test, RLOCK_OK);
    ASSERT_NUMBER(test->group->members[1].lock.lease_ms, ==, 30000);
    ASSERT_NUMBER(rlock_group_fence(test->group, 1), ==, 7);
    ASSERT_NUMBER(rlock_group_fence(test->group, 2), ==, 0);
    assert_non_null(rlock_group_why(test->group, 1));
    assert_null(rlock_group_why(test->group, 2));
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
        bool may_wait = cases[i].status == RLOCK_NO_MEMORY || /* it does not try again */
                        cases[i].status == RLOCK_INVALID;

        create(test, cases[i].count, cases[i].need);
        acquire(test, 60000, may_wait ? RLOCK_WAIT_FOREVER : 0);
        answer_all(test, cases[i].letters);
        if (strchr(cases[i].letters, '-') != NULL)
            end_round(test);
        if (cases[i].status != RLOCK_OK) {
            assert_int_equal(test->answers, 0); /* it undoes the try */
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

/** Let a group of two fail its try, since the second is busy, and undo it. */
static void fail_try(struct group_test *test, uint32_t wait_ms, int64_t took_us)
{
    acquire(test, 60000, wait_ms);
    answer_all(test, "gb");
    frozen_us += took_us;
    answer_for(test, 0, RLOCK_OK); /* its release */
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
    expect_answer(test, RLOCK_TIMEOUT);
}

/** Its time begins with the call, not with the current turn of the loop. */
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
            expect_answer(test, RLOCK_BUSY);
            expect_timer(test, NEVER);
        } else {
            assert_int_equal(test->answers, 0);
            ASSERT_NUMBER(busy->lock.wait_ms, ==, cases[i].left_ms);
            expect_timer(test, (uint64_t)cases[i].left_ms + ROUND_MS);
            assert_int_equal(test->group->members[0].call, GROUP_CALL_NONE);
            answer_for(test, 1, RLOCK_OK);
            answer_for(test, 0, RLOCK_OK);
            expect_answer(test, RLOCK_OK);
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
    end_round(test);
    acquire(test, 60000, 0);
    ASSERT_NUMBER(test->group->awaited, ==, 0); /* each is still in its call */
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
        expect_answer(test, RLOCK_OK);
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
    assert_int_equal(test->group->members[4].lock.state, RLOCK_STATE_IDLE); /* released */
}

/** An extension and a release count the members that are still ours. */
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
        {"ggg", "grl", RLOCK_GROUP_MAJORITY, RLOCK_REFUSED},
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
        assert_int_equal(rlock_group_is_held(test->group),
                         is_extension && wanted != RLOCK_LOST);
        free_group(test);
    }
}

/** Cancelled in a try, and in the wait for a busy member. */
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
        expect_answer(test, RLOCK_CANCELLED);
        expect_timer(test, NEVER);
    }
    acquire(test, 60000, 0);
    answer_all(test, "gg");
    rlock_group_cancel(test->group); /* what is held is not cancelled */
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
    expect_answer(test, RLOCK_DOWN); /* there is no server */
}

/** Those that are under way end, and what is held is released. */
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

/** A member that answers after its round counts from then on. */
GROUP_CASE(test_round__takes_late_answers)
{
    struct group_test *test = *state;

    create(test, 3, RLOCK_GROUP_MAJORITY);
    acquire(test, 60000, 0);
    answer_all(test, "gg");
    end_round(test);
    expect_answer(test, RLOCK_OK);
    ASSERT_NUMBER(rlock_group_fence(test->group, 2), ==, 0);
    answer_for(test, 2, RLOCK_OK);
    ASSERT_NUMBER(rlock_group_fence(test->group, 2), ==, 7);
    lose_member(test, 0);
    assert_int_equal(test->losses, 0); /* two are left */
    test->answers = 0;
    rlock_group_extend(test->group, 90000, on_answer, test);
    end_round(test);
    expect_answer(test, RLOCK_TIMEOUT);
    ASSERT_STATUS(rlock_group_why(test->group, 1)->status, RLOCK_TIMEOUT);
    assert_true(rlock_group_is_held(test->group));
    answer_for(test, 1, RLOCK_LOST);
    assert_int_equal(test->losses, 1);
    assert_false(rlock_group_is_held(test->group));
    assert_int_equal(test->group->members[2].lock.state, RLOCK_STATE_IDLE); /* released */
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
    expect_answer(test, RLOCK_DOWN); /* of the release: there is no server */
}

/** A bad lease; or no memory, where the first member answers from inside the call. */
GROUP_CASE(test_rlock_group_extend__that_cannot_be_sent_leaves_the_group_held)
{
    struct group_test *test = *state;

    for (int is_invalid = 0; is_invalid <= 1; is_invalid++) {
        create(test, 3, RLOCK_GROUP_MAJORITY);
        acquire(test, 60000, 0);
        answer_all(test, "bgg"); /* a member that is not held hides no reason */
        test->answers = 0;
        if (!is_invalid)
            torture_fail(1, 10);
        rlock_group_extend(test->group, is_invalid ? 9 : 90000, on_answer, test);
        if (!is_invalid)
            assert_true(torture_stop());
        uv_run(&test->loop, UV_RUN_NOWAIT);
        expect_answer(test, is_invalid ? RLOCK_INVALID : RLOCK_NO_MEMORY);
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
    expect_answer(test, RLOCK_LOST);
    assert_int_equal(test->losses, 0);
}

GROUP_CASE(test_group__gives_on_lost_its_own_argument)
{
    struct group_test *test = *state, other = {0};
    struct rlock_group_options options = {.on_lost = on_lost, .lost_arg = &other};

    create(test, 2, RLOCK_GROUP_ALL);
    other.group = test->group;
    rlock_group_acquire(test->group, &options, on_answer, test);
    answer_all(test, "gg");
    rlock_group_extend(test->group, 90000, on_answer, test);
    answer_all(test, "gg");
    lose_member(test, 1);
    assert_int_equal(test->losses, 0);
    assert_int_equal(other.losses, 1);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
