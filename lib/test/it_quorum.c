/* it_quorum.c - locks on a majority of servers: acquired, safe for a time, lost. */
#include "base/clock.h"
#include "test/group_fixture.h"

/* -- quorums -- */

GROUP_CASE(test_acquire__quorum_with_a_minority_down)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    server_kill(&servers[1]);
    server_kill(&servers[4]);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    assert_int_equal(rlock_group_fence(groups.group, 1), 0);
    ASSERT_NUMBER(rlock_group_fence(groups.group, 2), >, 0);
    ASSERT_STATUS(group_release(&groups), STATUS_OK);
    wait_absent(groups.fixture, 0);
    wait_absent(groups.fixture, 2);
    wait_absent(groups.fixture, 3);
    group_free(&groups);
}

GROUP_CASE(test_acquire__quorum_with_a_foreign_minority_leaves_it_untouched)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    set_foreign(0);
    set_foreign(3);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    wait_keys(groups.fixture, "11111");
    ASSERT_STATUS(group_release(&groups), STATUS_OK);
    wait_keys(groups.fixture, "10010");
    assert_foreign(0);
    assert_foreign(3);
    group_free(&groups);
}

GROUP_CASE(test_acquire__quorum_with_the_majority_down_is_refused)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    for (int i = 0; i < 3; i++) {
        server_kill(&servers[i]);
        fixture_wait_down(groups.fixture, groups.clients[i]);
    }
    group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = LEASE_MS});
    fixture_hold_timers(groups.fixture); /* it does not wait for a timeout */
    ASSERT_STATUS(group_await(&groups, 1), STATUS_DOWN);
    assert_false(server_has(&servers[3], "item:7"));
    assert_false(server_has(&servers[4], "item:7"));
    group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = LEASE_MS,
                                                              .wait_ms = 2 * WITHIN_MS});
    group_rest(&groups);
    assert_int_equal(groups.answers, 1);
    group_pass_ms(&groups, 2 * WITHIN_MS);
    ASSERT_STATUS(group_await(&groups, 2), STATUS_DOWN);
    assert_false(server_has(&servers[3], "item:7"));
    group_free(&groups);
}

GROUP_CASE(test_acquire__quorum_is_not_held_up_by_a_hung_minority)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[0]);
    server_pause(&servers[3]);
    for (unsigned answers = 1; answers <= 3; answers += 2) {
        group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = LEASE_MS});
        group_await_members(&groups, 2);
        fixture_pass_ms(groups.fixture, HURRY_MS + 1);
        fixture_hold_timers(groups.fixture);
        fixture_wait_count(groups.fixture, &groups.answers, answers);
        ASSERT_STATUS(groups.status, STATUS_OK);
        group_begin_release(&groups);
        fixture_hold_timers(groups.fixture); /* the others answer */
        ASSERT_STATUS(group_await(&groups, answers + 1), STATUS_OK);
    }
    group_free(&groups);
}

/** A member more than needed is one more that may be lost. */
GROUP_CASE(test_acquire__late_grant_of_a_held_quorum_is_kept)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[1]);
    ASSERT_STATUS(group_acquire_watched(&groups, LEASE_MS), STATUS_OK);
    assert_int_equal(rlock_group_fence(groups.group, 1), 0);
    server_resume(&servers[1]);
    wait_all_members(&groups);
    assert_keys("item:7", "111");
    delete_key(0);
    fixture_pass_ms(groups.fixture, LEASE_MS / 3 + 1);
    wait_member(&groups, 0, false);
    assert_true(rlock_group_is_held(groups.group));
    assert_int_equal(groups.answers, 1);
    ASSERT_STATUS(group_release(&groups), STATUS_OK);
    wait_keys(groups.fixture, "000");
    assert_int_equal(groups.losses, 0);
    group_free(&groups);
}

GROUP_CASE(test_release__late_grant_is_released)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[1]);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    ASSERT_STATUS(group_release(&groups), STATUS_OK);
    server_resume(&servers[1]);
    wait_command(groups.fixture, 1, "mget"); /* of the release */
    wait_keys(groups.fixture, "000");
    group_free(&groups);
}

/* -- how long it is safe -- */

/** How many ms are safe when some servers have not renewed for two thirds of the lease. */
static int64_t safe_ms_with_hung(struct fixture *fixture, enum rlock_group_need need,
                                 int hung)
{
    struct group_fixture groups;
    int64_t safe_us;

    group_create(&groups, fixture, 3, need);
    ASSERT_STATUS(group_acquire_watched(&groups, LEASE_MS), STATUS_OK);
    wait_all_members(&groups);
    for (int i = 0; i < hung; i++)
        server_pause(&servers[i]);
    for (unsigned i = 1; i <= 2; i++) {
        fixture_pass_ms(fixture, LEASE_MS / 3 + 1);
        for (int j = hung; j < 3; j++)
            fixture_wait_renewed(fixture, groups.clients[j], i);
    }
    assert_int_equal(groups.losses, 0);
    safe_us = rlock_group_safe_for_us(groups.group, clock_mono_us());
    for (int i = 0; i < hung; i++)
        server_resume(&servers[i]);
    group_free(&groups);
    wait_keys(fixture, "000");
    return safe_us / 1000;
}

GROUP_CASE(test_safe_for_us__counts_those_that_last_longest)
{
    ASSERT_NUMBER(safe_ms_with_hung(*state, RLOCK_GROUP_MAJORITY, 1), >, LEASE_MS / 2);
    ASSERT_NUMBER(safe_ms_with_hung(*state, RLOCK_GROUP_MAJORITY, 2), <, LEASE_MS / 3);
    ASSERT_NUMBER(safe_ms_with_hung(*state, RLOCK_GROUP_ALL, 1), <, LEASE_MS / 3);
}

GROUP_CASE(test_acquire__grant_that_has_no_time_left_is_refused)
{
    static const enum rlock_group_need needs[] = {RLOCK_GROUP_ALL, RLOCK_GROUP_MAJORITY};
    struct group_fixture groups;

    for (int i = 0; i < 2; i++) {
        group_create(&groups, *state, 3, needs[i]);
        group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = LEASE_MS});
        clock_shift_us(LEASE_MS * 1000LL); /* on the way */
        ASSERT_STATUS(group_await(&groups, 1), STATUS_TIMEOUT);
        assert_false(rlock_group_is_held(groups.group));
        assert_keys("item:7", "000");
        clock_shift_us(LEASE_MS * -1000LL);
        group_free(&groups);
    }
}

/* -- losses -- */

GROUP_CASE(test_on_lost__quorum_is_lost_once_with_its_majority)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire_watched(&groups, LEASE_MS), STATUS_OK);
    wait_all_members(&groups);
    delete_key(0);
    delete_key(1);
    fixture_pass_ms(groups.fixture, LEASE_MS / 3 + 1);
    wait_member(&groups, 0, false);
    wait_member(&groups, 1, false);
    assert_int_equal(groups.losses, 0);
    assert_true(rlock_group_is_held(groups.group));
    delete_key(2);
    fixture_pass_ms(groups.fixture, LEASE_MS / 3 + 1);
    fixture_wait_count(groups.fixture, &groups.losses, 1);
    assert_int_equal(rlock_group_safe_for_us(groups.group, clock_mono_us()), 0);
    wait_absent(groups.fixture, 3);
    wait_absent(groups.fixture, 4);
    fixture_pass_ms(groups.fixture, LEASE_MS);
    fixture_run_for(groups.fixture, 20);
    assert_int_equal(groups.losses, 1);
    ASSERT_STATUS(group_release(&groups), STATUS_LOST);
    ASSERT_STATUS(group_release(&groups), STATUS_NOT_OWNER);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    group_free(&groups);
}

GROUP_CASE(test_on_lost__server_that_restarts_empty_does_not_resurrect)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire_watched(&groups, LEASE_MS), STATUS_OK);
    wait_all_members(&groups);
    server_kill(&servers[1]);
    fixture_wait_down(groups.fixture, groups.clients[1]);
    server_restart(&servers[1]);
    fixture_wait_up(groups.fixture, groups.clients[1]);
    fixture_pass_ms(groups.fixture, LEASE_MS / 3 + 1);
    wait_member(&groups, 1, false);
    for (unsigned i = 2; i <= 4; i++) {
        fixture_pass_ms(groups.fixture, LEASE_MS / 3 + 1);
        fixture_wait_renewed(groups.fixture, groups.clients[0], i);
        fixture_wait_renewed(groups.fixture, groups.clients[2], i);
    }
    assert_keys("item:7", "101");
    assert_true(rlock_group_is_held(groups.group));
    assert_int_equal(groups.losses, 0);
    ASSERT_STATUS(group_release(&groups), STATUS_OK);
    group_free(&groups);
}

/* -- releases -- */

GROUP_CASE(test_release__quorum_is_ok_while_a_majority_was_ours)
{
    struct group_fixture groups;

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    wait_all_members(&groups);
    delete_key(0);
    delete_key(4);
    ASSERT_STATUS(group_release(&groups), STATUS_OK);
    ASSERT_STATUS(group_release(&groups), STATUS_NOT_OWNER);
    wait_keys(groups.fixture, "00000");
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    wait_all_members(&groups);
    for (int i = 0; i < 3; i++)
        delete_key(i);
    ASSERT_STATUS(group_release(&groups), STATUS_LOST);
    wait_keys(groups.fixture, "00000");
    group_free(&groups);
}

GROUP_CASE(test_release__is_bounded_when_the_majority_hangs)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    wait_all_members(&groups);
    server_pause(&servers[0]);
    server_pause(&servers[1]);
    group_begin_release(&groups);
    group_await_members(&groups, 2);
    fixture_pass_ms(groups.fixture, ROUND_MS + 1);
    fixture_hold_timers(groups.fixture);
    fixture_wait_count(groups.fixture, &groups.answers, 2);
    ASSERT_STATUS(groups.status, STATUS_TIMEOUT);
    server_resume(&servers[0]);
    server_resume(&servers[1]);
    wait_absent(groups.fixture, 0);
    wait_absent(groups.fixture, 1);
    group_free(&groups);
}

int main(void)
{
    return cases_run(group_start_servers, group_stop_servers);
}
