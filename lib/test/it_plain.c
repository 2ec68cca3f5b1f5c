/* it_plain.c - the plain, fenced lock against a real Redis. */
#include "base/clock.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_US INT64_C(3600000000)

FIXTURE_CASE(test_acquire__names_are_independent_and_binary_safe)
{
    static const char *const names[] = {"a",      "ab",       "a:b", "a\0b",
                                        "a\r\nb", "\xff\xfe", " "};
    static const size_t lens[] = {1, 2, 3, 3, 4, 2, 1};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[7] = {0};

    for (int i = 0; i < 7; i++)
        call_acquire_name(client, &calls[i], names[i], lens[i]);
    rlock_flush(client);
    for (int i = 0; i < 7; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_OK);
        assert_int_equal(server_int(fixture->server, "EXISTS %b", names[i], lens[i]), 1);
    }
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 8); /* and the counter */
}

FIXTURE_CASE(test_acquire__same_name_twice_in_one_flush_has_one_winner)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call first = {0}, second = {0};

    call_acquire(client, &first, "item:7", LEASE_MS);
    call_acquire(client, &second, "item:7", LEASE_MS);
    rlock_flush(client);
    fixture_wait_answers(fixture, &second, 1);
    ASSERT_STATUS(first.status, STATUS_OK);
    ASSERT_STATUS(second.status, STATUS_BUSY);
}

/** The clocks of server and client drift, or are set: that costs one more call. */
FIXTURE_CASE(test_acquire__learns_the_servers_clock_again)
{
    struct fixture *fixture = *state;
    struct rlock_client *client;
    struct call calls[3] = {0};
    long long before;

    clock_shift_us(HOUR_US); /* the clock must not go below zero when set back */
    client = fixture_client(fixture);
    ASSERT_STATUS(acquire(fixture, client, &calls[0], "a", LEASE_MS), STATUS_OK);
    before = server_calls(fixture->server, "evalsha");
    clock_shift_us(-HOUR_US); /* the server's clock is an hour ahead by now */
    ASSERT_STATUS(acquire(fixture, client, &calls[1], "b", LEASE_MS), STATUS_OK);
    assert_int_equal(server_calls(fixture->server, "evalsha") - before, 2);
    ASSERT_STATUS(acquire(fixture, client, &calls[2], "c", LEASE_MS), STATUS_OK);
    assert_int_equal(server_calls(fixture->server, "evalsha") - before, 3);
    ASSERT_NUMBER(rlock_fence(&calls[1].lock), >, rlock_fence(&calls[0].lock));
    clock_shift_us(HOUR_US);
    ASSERT_STATUS(acquire(fixture, client, &calls[2], "c", LEASE_MS), STATUS_INVALID);
    ASSERT_STATUS(release(fixture, client, &calls[2]), STATUS_OK);
}

FIXTURE_CASE(test_acquire__ten_thousand_in_one_flush_each_with_its_own_result)
{
    enum { LOCKS = 10000 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call *calls = calloc((size_t)2 * LOCKS, sizeof(*calls));
    struct rlock_stats stats;
    char name[32];
    int64_t fence = 0;

    for (int i = 0; i < LOCKS; i += 3) { /* alice holds every third */
        snprintf(name, sizeof(name), "item:%d", i);
        call_acquire(alice, &calls[LOCKS + i], name, LEASE_MS);
    }
    rlock_flush(alice);
    fixture_wait_answers(fixture, &calls[LOCKS + 9999], 1);
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        call_acquire(bob, &calls[i], name, LEASE_MS);
    }
    rlock_flush(bob);
    fixture_wait_answers(fixture, &calls[LOCKS - 1], 1);
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(calls[i].answers, 1);
        ASSERT_STATUS(calls[i].status, i % 3 == 0 ? STATUS_BUSY : STATUS_OK);
        if (i % 3 != 0) {
            ASSERT_NUMBER(rlock_fence(&calls[i].lock), >, fence);
            fence = rlock_fence(&calls[i].lock);
            call_release(bob, &calls[i]);
        }
    }
    rlock_flush(bob);
    fixture_wait_answers(fixture, &calls[LOCKS - 2], 2);
    for (int i = 0; i < LOCKS; i++)
        ASSERT_STATUS(calls[i].status, i % 3 == 0 ? STATUS_BUSY : STATUS_OK);
    rlock_client_stats(bob, &stats);
    assert_int_equal(stats.granted, 6666);
    assert_int_equal(stats.busy, 3334);
    assert_int_equal(stats.released, 6666);
    assert_int_equal(stats.failed, 0);
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 3334 + 1);
    free(calls);
}

FIXTURE_CASE(test_fence__grows_over_release_expiry_force_and_lost_data)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    int64_t fences[5];

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    fences[0] = rlock_fence(&call.lock);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    fences[1] = rlock_fence(&call.lock);
    server_pass_ms(fixture->server, LEASE_MS);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    fences[2] = rlock_fence(&call.lock);
    server_do(fixture->server, "FLUSHALL");
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    fences[3] = rlock_fence(&call.lock);
    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    server_restart(fixture->server);
    /* the counter of an old snapshot */
    server_do(fixture->server, "SET lock:fence 4711");
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    fences[4] = rlock_fence(&call.lock);
    for (int i = 1; i < 5; i++)
        ASSERT_NUMBER(fences[i], >, fences[i - 1]);
}

FIXTURE_CASE(test_owner__is_random_per_client_and_numbered_per_call)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call calls[3] = {0};
    redisReply *owners[3];

    ASSERT_STATUS(acquire(fixture, alice, &calls[0], "a", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, alice, &calls[1], "b", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, bob, &calls[2], "c", LEASE_MS), STATUS_OK);
    owners[0] = server_command(fixture->server, "GET a");
    owners[1] = server_command(fixture->server, "GET b");
    owners[2] = server_command(fixture->server, "GET c");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(strspn(owners[i]->str, "0123456789abcdef-"), UUID_LEN);
        assert_int_equal(owners[i]->str[14], '4'); /* a random one */
        assert_int_equal(owners[i]->str[UUID_LEN], ':');
    }
    assert_memory_equal(owners[0]->str, owners[1]->str, UUID_LEN + 1);
    assert_string_not_equal(owners[0]->str + UUID_LEN, owners[1]->str + UUID_LEN);
    assert_memory_not_equal(owners[0]->str, owners[2]->str, UUID_LEN);
    for (int i = 0; i < 3; i++)
        freeReplyObject(owners[i]);
}

FIXTURE_CASE(test_scripts__flushed_at_any_time_are_sent_again)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[300] = {0};
    struct answer answer = {0};
    char name[32];
    long long before;

    server_do(fixture->server, "SCRIPT FLUSH");
    ASSERT_STATUS(acquire(fixture, client, &calls[0], "item:7", LEASE_MS), STATUS_OK);
    server_do(fixture->server, "SCRIPT FLUSH");
    ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), STATUS_OK);
    before = server_calls(fixture->server, "eval");
    ASSERT_STATUS(release(fixture, client, &calls[0]), STATUS_OK);
    assert_int_equal(server_calls(fixture->server, "eval") - before, 1);
    server_do(fixture->server, "SCRIPT FLUSH");
    ASSERT_STATUS(force(fixture, client, &answer, "item:7"), STATUS_NOT_FOUND);

    /* with several calls under way each lock has its own result */
    server_do(fixture->server, "SET item:150 another");
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        call_acquire(client, &calls[i], name, LEASE_MS);
        calls[i].answers = 0;
    }
    rlock_flush(client);
    for (int i = 0; i < 300; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, i == 150 ? STATUS_BUSY : STATUS_OK);
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
