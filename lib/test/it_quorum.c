/* it_quorum.c - majorities of servers: how they are got, how long they last, and lost. */
#include "base/clock.h"
#include "test/group_fixture.h"

#include <hiredis/hiredis.h>

/* -- quorums -- */

static void test_acquire__quorum_with_a_minority_down(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    server_kill(&servers[1]);
    server_kill(&servers[4]);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    assert_int_equal(rlock_group_fence(groups.group, 1), 0);
    ASSERT_NUMBER(rlock_group_fence(groups.group, 2), >, 0);
    assert_int_equal(group_release(&groups), STATUS_OK);
    for (int i = 0; i < 4; i += i == 0 ? 2 : 1)
        assert_false(server_has(&servers[i], "item:7"));
    group_free(&groups);
}

static void test_acquire__quorum_with_a_foreign_minority_leaves_it_untouched(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    set_foreign(0);
    set_foreign(3);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    assert_keys("item:7", "11111");
    assert_int_equal(group_release(&groups), STATUS_OK);
    assert_keys("item:7", "10010");
    assert_foreign(0);
    assert_foreign(3);
    group_free(&groups);
}

static void test_acquire__quorum_with_a_foreign_majority_is_busy(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    set_foreign(0);
    set_foreign(2);
    set_foreign(4);
    assert_int_equal(group_acquire(&groups), STATUS_BUSY);
    assert_keys("item:7", "10101");
    group_acquire_busy(&groups);
    assert_keys("item:7", "10101");
    assert_foreign(0);
    group_free(&groups);
}

static void test_acquire__quorum_waits_for_a_majority(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    set_foreign(0);
    set_foreign(2);
    group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = LEASE_MS,
                                                              .wait_ms = WITHIN_MS});
    fixture_run_for(groups.fixture, 100);
    assert_int_equal(groups.answers, 0);
    delete_key(0);
    assert_int_equal(group_await(&groups, 1), STATUS_OK);
    assert_keys("item:7", "111");
    assert_foreign(2);
    group_free(&groups);
}

static void test_acquire__quorum_with_the_majority_down_is_refused(void **state)
{
    struct group_fixture groups;
    int64_t begin_us;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    for (int i = 0; i < 3; i++) {
        server_kill(&servers[i]);
        fixture_wait_down(groups.fixture, groups.clients[i]);
    }
    begin_us = clock_mono_us();
    assert_int_equal(group_acquire(&groups), STATUS_DOWN);
    ASSERT_NUMBER(ms_since(begin_us), <, QUICK_MS);
    assert_false(server_has(&servers[3], "item:7"));
    assert_false(server_has(&servers[4], "item:7"));
    assert_int_equal(
        group_acquire_with(
            &groups, (struct rlock_group_options){.lease_ms = LEASE_MS, .wait_ms = 400}),
        STATUS_DOWN);
    ASSERT_BETWEEN(ms_since(begin_us), 400, 400 + 2 * QUICK_MS);
    assert_false(server_has(&servers[3], "item:7"));
    group_free(&groups);
}

static void test_acquire__quorum_with_the_majority_hung_is_refused(void **state)
{
    struct group_fixture groups;
    int64_t begin_us;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    for (int i = 0; i < 3; i++)
        server_pause(&servers[i]);
    begin_us = clock_mono_us();
    /* half of the lease is the time for a try */
    assert_int_equal(
        group_acquire_with(&groups, (struct rlock_group_options){.lease_ms = 400}),
        STATUS_TIMEOUT);
    ASSERT_BETWEEN(ms_since(begin_us), 190, 200 + QUICK_MS);
    assert_false(server_has(&servers[3], "item:7"));
    assert_false(server_has(&servers[4], "item:7"));
    begin_us = clock_mono_us();
    assert_int_equal(group_acquire(&groups), STATUS_TIMEOUT);
    ASSERT_NUMBER(ms_since(begin_us), <, 1500 + QUICK_MS);
    assert_false(server_has(&servers[3], "item:7"));
    for (int i = 0; i < 3; i++) {
        server_resume(&servers[i]);
        fixture_wait_up(groups.fixture, groups.clients[i]);
        wait_absent(groups.fixture, i);
    }
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    group_free(&groups);
}

static void test_acquire__quorum_is_not_held_up_by_a_hung_minority(void **state)
{
    struct group_fixture groups;
    int64_t begin_us;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[0]);
    server_pause(&servers[3]);
    begin_us = clock_mono_us();
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    assert_int_equal(group_release(&groups), STATUS_OK);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    assert_int_equal(group_release(&groups), STATUS_OK);
    ASSERT_NUMBER(ms_since(begin_us), <, QUICK_MS);
    group_free(&groups);
}

/** More of them than needed is more to lose before it is lost. */
static void test_acquire__late_grant_of_a_held_quorum_is_kept(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[1]);
    assert_int_equal(group_acquire_watched(&groups, 900), STATUS_OK);
    assert_int_equal(rlock_group_fence(groups.group, 1), 0);
    server_resume(&servers[1]);
    wait_member(&groups, 1, true);
    assert_keys("item:7", "111");
    delete_key(0);
    fixture_run_for(groups.fixture, 600);
    assert_int_equal(rlock_group_fence(groups.group, 0), 0);
    assert_true(rlock_group_is_held(groups.group));
    assert_int_equal(groups.answers, 1);
    assert_int_equal(group_release(&groups), STATUS_OK);
    assert_keys("item:7", "000");
    assert_int_equal(groups.losses, 0);
    group_free(&groups);
}

static void test_release__late_grant_is_given_back(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[1]);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    assert_int_equal(group_release(&groups), STATUS_OK);
    server_resume(&servers[1]);
    wait_command(groups.fixture, 1, "mget"); /* of the release */
    assert_keys("item:7", "000");
    group_free(&groups);
}

/* -- how long it lasts -- */

static void test_safe_for_us__is_the_lease_less_drift_and_the_time_taken(void **state)
{
    static const enum rlock_group_need needs[] = {RLOCK_GROUP_ALL, RLOCK_GROUP_MAJORITY};
    struct group_fixture groups;
    int64_t begin_us, now_us, safe_us, most_us = LEASE_MS * 990LL - 2000;

    for (int i = 0; i < 2; i++) {
        group_create(&groups, *state, 3, needs[i]);
        begin_us = clock_mono_us();
        assert_int_equal(group_acquire(&groups), STATUS_OK);
        now_us = clock_mono_us();
        safe_us = rlock_group_safe_for_us(groups.group, now_us);
        ASSERT_NUMBER(safe_us, <, most_us);
        ASSERT_NUMBER(safe_us, >=, most_us - (now_us - begin_us));
        assert_int_equal(rlock_group_safe_for_us(groups.group, now_us + 5000),
                         safe_us - 5000);
        ASSERT_NUMBER(rlock_group_safe_for_us(groups.group, now_us + most_us), <=, 0);
        assert_int_equal(group_release(&groups), STATUS_OK);
        group_free(&groups);
    }
}

/** How many ms of a lease of 900 are safe when some servers have not renewed for 700. */
static int64_t safe_ms_with_hung(struct fixture *fixture, enum rlock_group_need need,
                                 int hung)
{
    struct group_fixture groups;
    int64_t safe_us;

    group_create(&groups, fixture, 3, need);
    assert_int_equal(group_acquire_watched(&groups, 900), STATUS_OK);
    for (int i = 0; i < hung; i++)
        server_pause(&servers[i]);
    fixture_run_for(fixture, 700);
    assert_int_equal(groups.losses, 0);
    safe_us = rlock_group_safe_for_us(groups.group, clock_mono_us());
    for (int i = 0; i < hung; i++)
        server_resume(&servers[i]);
    group_free(&groups);
    fixture_run_for(fixture, 50);
    assert_keys("item:7", "000");
    return safe_us / 1000;
}

static void test_safe_for_us__counts_those_that_last_longest(void **state)
{
    ASSERT_NUMBER(safe_ms_with_hung(*state, RLOCK_GROUP_MAJORITY, 1), >, 400);
    ASSERT_NUMBER(safe_ms_with_hung(*state, RLOCK_GROUP_MAJORITY, 2), <, 300);
    ASSERT_NUMBER(safe_ms_with_hung(*state, RLOCK_GROUP_ALL, 1), <, 300);
}

static void test_acquire__grant_that_has_no_time_left_is_refused(void **state)
{
    static const enum rlock_group_need needs[] = {RLOCK_GROUP_ALL, RLOCK_GROUP_MAJORITY};
    struct group_fixture groups;

    for (int i = 0; i < 2; i++) {
        group_create(&groups, *state, 3, needs[i]);
        group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = 500});
        clock_shift_us(500000); /* on the way */
        assert_int_equal(group_await(&groups, 1), STATUS_TIMEOUT);
        assert_false(rlock_group_is_held(groups.group));
        assert_keys("item:7", "000");
        clock_shift_us(-500000);
        group_free(&groups);
    }
}

/* -- losing it -- */

static void test_on_lost__quorum_is_lost_once_with_its_majority(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    assert_int_equal(group_acquire_watched(&groups, 300), STATUS_OK);
    delete_key(0);
    delete_key(1);
    fixture_run_for(groups.fixture, 300);
    assert_int_equal(groups.losses, 0);
    assert_true(rlock_group_is_held(groups.group));
    assert_int_equal(rlock_group_fence(groups.group, 0), 0);
    delete_key(2);
    fixture_wait_count(groups.fixture, &groups.losses, 1);
    assert_int_equal(rlock_group_safe_for_us(groups.group, clock_mono_us()), 0);
    wait_absent(groups.fixture, 3);
    wait_absent(groups.fixture, 4);
    fixture_run_for(groups.fixture, 300);
    assert_int_equal(groups.losses, 1);
    assert_int_equal(group_release(&groups), STATUS_LOST);
    assert_int_equal(group_release(&groups), STATUS_NOT_OWNER);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    group_free(&groups);
}

static void test_on_lost__multi_is_lost_once_with_any_member(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    assert_int_equal(group_acquire_watched(&groups, 300), STATUS_OK);
    freeReplyObject(server_command(&servers[1], "SET item:7 foreign PX 60000"));
    fixture_wait_count(groups.fixture, &groups.losses, 1);
    wait_absent(groups.fixture, 0);
    wait_absent(groups.fixture, 2);
    fixture_run_for(groups.fixture, 300);
    assert_int_equal(groups.losses, 1);
    assert_foreign(1);
    assert_int_equal(group_acquire(&groups),
                     STATUS_BUSY); /* a lost one may be taken anew at once */
    group_free(&groups);
}

/** All on one server, so all members find themselves lost in the same answer. */
static void test_on_lost__is_called_once_when_all_members_are_lost_at_once(void **state)
{
    struct group_fixture groups;

    group_create_names(&groups, *state, "abc");
    assert_int_equal(group_acquire_watched(&groups, 300), STATUS_OK);
    freeReplyObject(server_command(&servers[0], "FLUSHALL"));
    fixture_wait_count(groups.fixture, &groups.losses, 1);
    fixture_run_for(groups.fixture, 300);
    assert_int_equal(groups.losses, 1);
    group_free(&groups);
}

static void test_on_lost__server_that_comes_back_empty_does_not_resurrect(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    assert_int_equal(group_acquire_watched(&groups, 600), STATUS_OK);
    server_kill(&servers[1]);
    server_restart(&servers[1]);
    wait_member(&groups, 1, false);
    fixture_run_for(groups.fixture, 700);
    assert_keys("item:7", "101");
    assert_true(rlock_group_is_held(groups.group));
    assert_int_equal(groups.losses, 0);
    assert_int_equal(group_release(&groups), STATUS_OK);
    group_free(&groups);
}

/* -- giving back -- */

static void test_release__quorum_is_ok_while_a_majority_was_ours(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    delete_key(0);
    delete_key(4);
    assert_int_equal(group_release(&groups), STATUS_OK);
    assert_int_equal(group_release(&groups), STATUS_NOT_OWNER);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    for (int i = 0; i < 3; i++)
        delete_key(i);
    assert_int_equal(group_release(&groups), STATUS_LOST);
    assert_keys("item:7", "00000");
    group_free(&groups);
}

static void test_release__quorum_is_lost_when_one_of_a_bare_majority_was(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[1]); /* never ours, and not asked */
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    delete_key(0);
    assert_int_equal(group_release(&groups), STATUS_LOST);
    group_free(&groups);
}

static void test_release__multi_is_lost_when_one_was(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    delete_key(1);
    assert_int_equal(group_release(&groups), STATUS_LOST);
    assert_keys("item:7", "000");
    group_free(&groups);
}

static void test_release__of_servers_that_are_down_is_unknown(void **state)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    server_kill(&servers[1]);
    fixture_wait_down(groups.fixture, groups.clients[1]);
    assert_int_equal(group_release(&groups), STATUS_DOWN);
    assert_false(server_has(&servers[0], "item:7"));
    assert_false(server_has(&servers[2], "item:7"));
    group_free(&groups);
}

static void test_release__is_bounded_when_the_majority_hangs(void **state)
{
    struct group_fixture groups;
    int64_t begin_us;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    assert_int_equal(group_acquire(&groups), STATUS_OK);
    server_pause(&servers[0]);
    server_pause(&servers[1]);
    begin_us = clock_mono_us();
    assert_int_equal(group_release(&groups), STATUS_TIMEOUT);
    ASSERT_NUMBER(ms_since(begin_us), <, TIMEOUT_MS + QUICK_MS);
    server_resume(&servers[0]);
    server_resume(&servers[1]);
    wait_absent(groups.fixture, 0);
    wait_absent(groups.fixture, 1);
    group_free(&groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GROUP_TEST(test_acquire__quorum_with_a_minority_down),
        GROUP_TEST(test_acquire__quorum_with_a_foreign_minority_leaves_it_untouched),
        GROUP_TEST(test_acquire__quorum_with_a_foreign_majority_is_busy),
        GROUP_TEST(test_acquire__quorum_waits_for_a_majority),
        GROUP_TEST(test_acquire__quorum_with_the_majority_down_is_refused),
        GROUP_TEST(test_acquire__quorum_with_the_majority_hung_is_refused),
        GROUP_TEST(test_acquire__quorum_is_not_held_up_by_a_hung_minority),
        GROUP_TEST(test_acquire__late_grant_of_a_held_quorum_is_kept),
        GROUP_TEST(test_release__late_grant_is_given_back),
        GROUP_TEST(test_safe_for_us__is_the_lease_less_drift_and_the_time_taken),
        GROUP_TEST(test_safe_for_us__counts_those_that_last_longest),
        GROUP_TEST(test_acquire__grant_that_has_no_time_left_is_refused),
        GROUP_TEST(test_on_lost__quorum_is_lost_once_with_its_majority),
        GROUP_TEST(test_on_lost__multi_is_lost_once_with_any_member),
        GROUP_TEST(test_on_lost__is_called_once_when_all_members_are_lost_at_once),
        GROUP_TEST(test_on_lost__server_that_comes_back_empty_does_not_resurrect),
        GROUP_TEST(test_release__quorum_is_ok_while_a_majority_was_ours),
        GROUP_TEST(test_release__quorum_is_lost_when_one_of_a_bare_majority_was),
        GROUP_TEST(test_release__multi_is_lost_when_one_was),
        GROUP_TEST(test_release__of_servers_that_are_down_is_unknown),
        GROUP_TEST(test_release__is_bounded_when_the_majority_hangs),
    };

    return cmocka_run_group_tests_name("quorum", tests, group_start_servers,
                                       group_stop_servers);
}
