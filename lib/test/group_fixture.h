/*
 * group_fixture.h - a group on a frozen clock. The test answers for the members.
 *
 * Only one source file of a test program may include this header, because frozen_clock.h defines
 * the clock.
 */
#ifndef TEST_GROUP_FIXTURE_H
#define TEST_GROUP_FIXTURE_H

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
    long blocks; /* number of allocated blocks before the test */
    struct rlock_client *clients[MEMBERS];
    struct rlock_group *group;
    unsigned answers, losses;
    enum rlock_status status;
};

static inline void on_answer(struct rlock_group *group, enum rlock_status status,
                             void *arg)
{
    struct group_test *test = arg;

    assert_ptr_equal(group, test->group);
    test->answers++;
    test->status = status;
}

static inline void on_lost(struct rlock_group *group, enum rlock_status status, void *arg)
{
    struct group_test *test = arg;

    assert_ptr_equal(group, test->group);
    ASSERT_STATUS(status, RLOCK_LOST);
    test->losses++;
}

static inline int set_up(void **state)
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

static inline int tear_down(void **state)
{
    struct group_test *test = *state;

    if (asserts_failed) {
        test_free(test);
        return 0;
    }
    rlock_group_free(test->group);
    for (int i = 0; i < MEMBERS; i++)
        rlock_client_close(test->clients[i], NULL, NULL);
    while (uv_run(&test->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&test->loop), 0);
    torture_expect_blocks(test->blocks);
    test_free(test);
    return 0;
}

static inline struct rlock_member member_of(struct rlock_client *client, const char *name,
                                            size_t name_len)
{
    return (struct rlock_member){.client = client, .name = name, .name_len = name_len};
}

static inline void create(struct group_test *test, size_t count,
                          enum rlock_group_need need)
{
    struct rlock_member members[MEMBERS];

    for (size_t i = 0; i < count; i++)
        members[i] = member_of(test->clients[i], "item:7", 6);
    ASSERT_STATUS(rlock_group_create(members, count, need, &test->group, NULL), RLOCK_OK);
}

static inline void free_group(struct group_test *test)
{
    rlock_group_free(test->group);
    test->group = NULL;
    test->answers = 0;
}

static inline void acquire(struct group_test *test, uint32_t lease_ms, uint32_t wait_ms)
{
    struct rlock_group_options options = {
        .lease_ms = lease_ms, .wait_ms = wait_ms, .on_lost = on_lost};

    test->answers = test->losses = 0;
    rlock_group_acquire(test->group, &options, on_answer, test);
    assert_int_equal(test->answers, 0);
}

static inline void answer_for(struct group_test *test, int member,
                              enum rlock_status status)
{
    struct rlock *lock = &test->group->members[member].lock;
    struct rlock_result result = {.status = status,
                                  .sent_us = frozen_us,
                                  .granted_us = frozen_us,
                                  .fence = 7,
                                  .remaining_ms = -1};
    rlock_on_result *on_result = rlock_state_on_acquire;

    if (lock->batch == NULL)
        fail_msg("member %d should be in a call that is answered %s, but is in none",
                 member, rlock_status_name(status));
    if (lock->state == RLOCK_STATE_RELEASING)
        on_result = rlock_state_on_release;
    else if (lock->state == RLOCK_STATE_EXTENDING)
        on_result = rlock_state_on_extend;
    rlock_batch_leave(lock);
    on_result(test->clients[member], lock, &result);
}

static inline void lose_member(struct group_test *test, int member)
{
    struct rlock *lock = &test->group->members[member].lock;

    lock->state = RLOCK_STATE_LOST;
    lock->on_lost(lock, RLOCK_LOST, lock->lost_arg);
}

/**
 * Answer the calls of the members, with one letter for each member:
 *
 *   g              granted
 *   b, i, l, n, r  the status whose name begins with this letter
 *   d              granted, and then the lock is lost at once
 *   -              no answer
 */
static inline void answer_all(struct group_test *test, const char *letters)
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

static inline void expect_timer(const struct group_test *test, uint64_t wanted_ms)
{
    const uv_timer_t *timer = &test->group->timer;
    uint64_t found_ms =
        uv_is_active((const uv_handle_t *)timer) ? uv_timer_get_due_in(timer) : NEVER;

    if (found_ms != wanted_ms)
        fail_msg("the timer is due in %lld ms, expected %lld", (long long)found_ms,
                 (long long)wanted_ms);
}

/** End the round, because its time is over. */
static inline void end_round(struct group_test *test)
{
    test->group->timer.timer_cb(&test->group->timer);
}

/** Assert that the group was answered once. */
#define EXPECT_ANSWER(test, wanted) expect_answer(test, wanted, __FILE__, __LINE__)

static inline void expect_answer(const struct group_test *test, enum rlock_status wanted,
                                 const char *file, int line)
{
    if (test->answers != 1 || test->status != wanted)
        asserts_fail_with(
            file, line, "expected one answer to the group, %s; got %u, the last one %s",
            rlock_status_name(wanted), test->answers, rlock_status_name(test->status));
}

/** Let the try of a group of two members fail, because the second member is busy. `took_us` later
 *  the first member is released. */
static inline void fail_try(struct group_test *test, uint32_t wait_ms, int64_t took_us)
{
    acquire(test, 60000, wait_ms);
    answer_all(test, "gb");
    frozen_us += took_us;
    answer_for(test, 0, RLOCK_OK); /* the release of this member */
}

#define GROUP_CASE(name) DEFINE_CASE(name, name, set_up, tear_down, NULL)

#endif
