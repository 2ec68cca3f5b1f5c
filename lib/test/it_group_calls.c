/* it_group_calls.c - groups that are refused. */
#include "test/group_fixture.h"

static void test_why__tells_what_each_server_of_a_failed_quorum_replied(void **state)
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
    assert_int_equal(why[0]->status, STATUS_BUSY);
    assert_string_equal(why[0]->text, "busy");
    assert_int_equal(why[1]->status, STATUS_DOWN);
    assert_string_not_equal(why[1]->text, status_name(STATUS_DOWN));
    assert_int_equal(why[2]->status, STATUS_REFUSED);
    ASSERT_CONTAINS(why[2]->text, "WRONGTYPE");
    assert_int_equal(why[3]->status, STATUS_TIMEOUT);
    ASSERT_CONTAINS(why[3]->text, "no reply");
    assert_int_equal(why[4]->status, STATUS_OK);
    group_free(&groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GROUP_TEST(test_why__tells_what_each_server_of_a_failed_quorum_replied),
    };

    return cmocka_run_group_tests_name("group_calls", tests, group_start_servers,
                                       group_stop_servers);
}
