/* it_group_calls.c - groups that are extended, inspected, released by force or refused. */
#include "base/clock.h"
#include "test/group_fixture.h"

#include <string.h>

static void on_extended(struct rlock_group *group, enum status status, void *arg)
{
    struct group_fixture *groups = arg;

    assert_ptr_equal(group, groups->group);
    groups->answers++;
    groups->status = status;
}

static void begin_extend(struct group_fixture *groups, uint32_t lease_ms)
{
    rlock_group_extend(groups->group, lease_ms, on_extended, groups);
}

static enum status extend_group(struct group_fixture *groups, uint32_t lease_ms)
{
    unsigned answers = groups->answers + 1;

    begin_extend(groups, lease_ms);
    return group_await(groups, answers);
}

static int64_t safe_ms(const struct group_fixture *groups)
{
    return rlock_group_safe_for_us(groups->group, clock_mono_us()) / 1000;
}

/* -- extend -- */

GROUP_CASE(test_extend__of_all_members_sets_their_leases)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    ASSERT_STATUS(extend_group(&groups, 2 * LEASE_MS), STATUS_OK);
    ASSERT_NUMBER(safe_ms(&groups), >, LEASE_MS);
    for (int i = 0; i < 3; i++)
        ASSERT_NUMBER(server_int(&servers[i], "PTTL " GROUP_NAME), >, LEASE_MS);
    ASSERT_STATUS(extend_group(&groups, LEASE_MS / 2), STATUS_OK);
    ASSERT_NUMBER(safe_ms(&groups), <=, LEASE_MS / 2);
    for (int i = 0; i < 3; i++)
        ASSERT_NUMBER(server_int(&servers[i], "PTTL " GROUP_NAME), <=, LEASE_MS / 2);
    ASSERT_STATUS(group_release(&groups), STATUS_OK);
    assert_keys(GROUP_NAME, "000");
    group_free(&groups);
}

GROUP_CASE(test_extend__of_servers_that_hang_is_bounded_and_leaves_it_held)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    wait_all_members(&groups);
    server_pause(&servers[0]);
    server_pause(&servers[1]);
    begin_extend(&groups, LEASE_MS);
    assert_true(rlock_group_is_held(groups.group));
    group_begin_release(&groups); /* it is in another call */
    fixture_wait_count(groups.fixture, &groups.answers, 2);
    ASSERT_STATUS(groups.status, STATUS_NOT_OWNER);
    group_await_members(&groups, 2);
    fixture_pass_ms(groups.fixture, ROUND_MS + 1);
    fixture_wait_count(groups.fixture, &groups.answers, 3);
    ASSERT_STATUS(groups.status, STATUS_TIMEOUT);
    ASSERT_STATUS(rlock_group_why(groups.group, 0)->status, STATUS_TIMEOUT);
    ASSERT_STATUS(rlock_group_why(groups.group, 2)->status, STATUS_OK);
    assert_true(rlock_group_is_held(groups.group));
    group_begin_release(&groups);
    server_resume(&servers[0]);
    server_resume(&servers[1]);
    fixture_wait_count(groups.fixture, &groups.answers, 4);
    ASSERT_STATUS(groups.status, STATUS_OK); /* also of the members being extended */
    wait_keys(groups.fixture, "000");
    group_free(&groups);
}

/** The round of the extension is over by then. */
GROUP_CASE(test_extend__that_finds_a_loss_late_calls_on_lost)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    wait_all_members(&groups);
    for (int i = 0; i < 2; i++) {
        delete_key(i);
        server_pause(&servers[i]);
    }
    begin_extend(&groups, LEASE_MS);
    group_await_members(&groups, 2);
    fixture_pass_ms(groups.fixture, ROUND_MS + 1);
    fixture_wait_count(groups.fixture, &groups.answers, 2);
    ASSERT_STATUS(groups.status, STATUS_TIMEOUT);
    assert_int_equal(groups.losses, 0);
    server_resume(&servers[0]);
    server_resume(&servers[1]);
    fixture_wait_count(groups.fixture, &groups.losses, 1);
    wait_absent(groups.fixture, 2); /* released */
    ASSERT_STATUS(group_release(&groups), STATUS_LOST);
    assert_int_equal(groups.losses, 1);
    group_free(&groups);
}

GROUP_CASE(test_extend__of_a_group_that_is_freed_is_cancelled)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    begin_extend(&groups, LEASE_MS);
    group_free(&groups);
    assert_int_equal(groups.answers, 2);
    ASSERT_STATUS(groups.status, STATUS_CANCELLED);
    wait_keys(groups.fixture, "000");
}

GROUP_CASE(test_extend__refuses_a_bad_lease_and_an_idle_group)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    ASSERT_STATUS(extend_group(&groups, LEASE_MS), STATUS_NOT_OWNER);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    ASSERT_STATUS(extend_group(&groups, RLOCK_LEASE_MS_MIN - 1), STATUS_INVALID);
    ASSERT_CONTAINS(rlock_group_why(groups.group, 0)->text, "lease_ms: must be");
    assert_true(rlock_group_is_held(groups.group));
    group_free(&groups);
    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    set_foreign(0); /* a member that is not held hides no reason */
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    ASSERT_STATUS(extend_group(&groups, RLOCK_LEASE_MS_MIN - 1), STATUS_INVALID);
    group_free(&groups);
}

GROUP_CASE(test_on_lost__after_an_extension_gets_the_arg_of_acquire)
{
    struct group_fixture groups, other = {0};

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    other.group = groups.group;
    ASSERT_STATUS(group_acquire_watched(&groups, LEASE_MS), STATUS_OK);
    rlock_group_extend(groups.group, LEASE_MS, on_extended, &other);
    fixture_wait_count(groups.fixture, &other.answers, 1);
    delete_key(1);
    fixture_pass_ms(groups.fixture, LEASE_MS / 3 + 1);
    fixture_wait_count(groups.fixture, &groups.losses, 1);
    assert_int_equal(other.losses, 0);
    group_free(&groups);
}

/* -- why -- */

GROUP_CASE(test_why__tells_what_each_server_of_a_failed_quorum_replied)
{
    struct group_fixture groups;
    const struct err *why[5];

    group_create(&groups, *state, 5, RLOCK_GROUP_MAJORITY);
    set_foreign(0);
    server_kill(&servers[1]);
    fixture_wait_down(groups.fixture, groups.clients[1]);
    server_do(&servers[2], "HSET " GROUP_NAME " field value");
    server_pause(&servers[3]);
    group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = LEASE_MS});
    group_await_members(&groups, 1);
    fixture_pass_ms(groups.fixture, HURRY_MS + 1);
    fixture_wait_count(groups.fixture, &groups.answers, 1);
    assert_int_not_equal(groups.status, STATUS_OK);
    for (size_t i = 0; i < 5; i++)
        why[i] = rlock_group_why(groups.group, i);
    ASSERT_STATUS(why[0]->status, STATUS_BUSY);
    assert_string_equal(why[0]->text, "busy");
    ASSERT_STATUS(why[1]->status, STATUS_DOWN);
    assert_string_not_equal(why[1]->text, status_name(STATUS_DOWN));
    ASSERT_STATUS(why[2]->status, STATUS_REFUSED);
    ASSERT_CONTAINS(why[2]->text, "WRONGTYPE");
    ASSERT_STATUS(why[3]->status, STATUS_TIMEOUT);
    ASSERT_CONTAINS(why[3]->text, "no reply");
    ASSERT_STATUS(why[4]->status, STATUS_OK);
    group_free(&groups);
}

/* -- inspect and force release -- */

struct found {
    struct group_fixture *groups;
    unsigned owners, ours, ended;
    char at[SERVERS + 1]; /* a letter for each server: has it named an owner? */
    enum status status;
};

static bool on_owner(const struct rlock_info *info, void *arg)
{
    struct found *found = arg;

    assert_memory_equal(info->name, GROUP_NAME, strlen(GROUP_NAME));
    found->owners++;
    found->ours += info->is_ours;
    for (int i = 0; i < 3; i++) {
        if (info->client == found->groups->clients[i])
            found->at[i] = '1';
    }
    return true;
}

static void on_end(enum status status, void *arg)
{
    struct found *found = arg;

    found->ended++;
    found->status = status;
}

static struct found inspect_group(struct group_fixture *groups)
{
    struct found found = {.groups = groups, .at = "000"};

    rlock_group_inspect(groups->group, on_owner, on_end, &found);
    fixture_wait_count(groups->fixture, &found.ended, 1);
    return found;
}

static enum status force_group(struct group_fixture *groups)
{
    struct found found = {0};

    rlock_group_force_release(groups->group, on_end, &found);
    fixture_wait_count(groups->fixture, &found.ended, 1);
    return found.status;
}

GROUP_CASE(test_inspect__tells_the_owner_of_each_member)
{
    struct group_fixture groups;
    struct found found;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    found = inspect_group(&groups);
    ASSERT_STATUS(found.status, STATUS_OK);
    assert_int_equal(found.owners, 0);
    set_foreign(1);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    wait_member(&groups, 2, true);
    found = inspect_group(&groups);
    ASSERT_STATUS(found.status, STATUS_OK);
    assert_string_equal(found.at, "111");
    assert_int_equal(found.ours, 2);
    delete_key(1);
    found = inspect_group(&groups);
    ASSERT_STATUS(found.status, STATUS_OK);
    assert_string_equal(found.at, "101");
    group_free(&groups);
}

static bool have_two(void *arg)
{
    return ((struct found *)arg)->owners == 2;
}

GROUP_CASE(test_inspect__of_a_server_that_fails_last_fails)
{
    struct group_fixture groups;
    struct found found = {.groups = &groups, .at = "000"};

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    wait_all_members(&groups);
    server_pause(&servers[2]);
    rlock_group_inspect(groups.group, on_owner, on_end, &found);
    FIXTURE_AWAIT(groups.fixture, have_two, &found);
    server_kill(&servers[2]);
    fixture_wait_count(groups.fixture, &found.ended, 1);
    ASSERT_STATUS(found.status, STATUS_IO);
    assert_string_equal(found.at, "110");
    group_free(&groups);
}

GROUP_CASE(test_force_release__deletes_each_member)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    wait_all_members(&groups);
    ASSERT_STATUS(force_group(&groups), STATUS_OK);
    assert_keys(GROUP_NAME, "000");
    ASSERT_STATUS(force_group(&groups), STATUS_NOT_FOUND);
    ASSERT_STATUS(extend_group(&groups, LEASE_MS), STATUS_LOST);
    group_free(&groups);
}

GROUP_CASE(test_inspect__of_a_group_that_is_freed_ends)
{
    struct group_fixture groups;
    struct found found = {.groups = &groups, .at = "000"};

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    set_foreign(0);
    rlock_group_inspect(groups.group, on_owner, on_end, &found);
    group_free(&groups);
    fixture_wait_count(groups.fixture, &found.ended, 1);
    ASSERT_STATUS(found.status, STATUS_OK);
    assert_string_equal(found.at, "100");
}

int main(void)
{
    return cases_run(group_start_servers, group_stop_servers);
}
