/* it_plain.c - the plain, fenced lock against a real Redis. */
#include "base/clock.h"
#include "lock/internal.h"
#include "test/child.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_US INT64_C(3600000000)

static void test_acquire__free_lock_is_held_for_its_lease(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    int64_t safe_us;
    long long ttl_ms;

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    assert_true(rlock_is_held(&call.lock));
    ASSERT_NUMBER(rlock_fence(&call.lock), >, 0);
    ttl_ms = server_int(fixture->server, "PTTL item:7");
    ASSERT_BETWEEN(ttl_ms, LEASE_MS / 2, LEASE_MS);
    safe_us = rlock_safe_for_us(&call.lock, clock_mono_us());
    ASSERT_BETWEEN(safe_us, LEASE_MS * 500LL, ttl_ms * 1000);
    ASSERT_NUMBER(safe_us, <=, LEASE_MS * 990LL - 2000); /* less an allowance for drift */
}

static void test_acquire__held_by_another_is_busy_and_untouched(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    redisReply *before, *after;

    ASSERT_STATUS(acquire(fixture, alice, &first, "item:7", LEASE_MS), STATUS_OK);
    before = server_command(fixture->server, "GET item:7");
    ASSERT_STATUS(acquire(fixture, bob, &second, "item:7", 2 * LEASE_MS), STATUS_BUSY);
    assert_false(rlock_is_held(&second.lock));
    after = server_command(fixture->server, "GET item:7");
    assert_string_equal(before->str, after->str);
    ASSERT_NUMBER(server_int(fixture->server, "PTTL item:7"), <=, LEASE_MS);
    freeReplyObject(before);
    freeReplyObject(after);
}

static void test_release__lets_another_in_ten_times_in_a_row(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    int64_t fence = 0;

    for (int i = 0; i < 10; i++) {
        ASSERT_STATUS(acquire(fixture, alice, &first, "item:7", LEASE_MS), STATUS_OK);
        ASSERT_NUMBER(rlock_fence(&first.lock), >, fence);
        ASSERT_STATUS(release(fixture, alice, &first), STATUS_OK);
        ASSERT_STATUS(acquire(fixture, bob, &second, "item:7", LEASE_MS), STATUS_OK);
        fence = rlock_fence(&second.lock);
        ASSERT_NUMBER(fence, >, rlock_fence(&first.lock));
        ASSERT_STATUS(release(fixture, bob, &second), STATUS_OK);
    }
    assert_false(server_has(fixture->server, "item:7"));
}

static void test_acquire__names_are_independent_and_binary_safe(void **state)
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

static void test_acquire__accepts_the_longest_name(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    char name[RLOCK_NAME_MAX + 1] = {0};

    memset(name, 'n', RLOCK_NAME_MAX);
    ASSERT_STATUS(acquire(fixture, client, &call, name, LEASE_MS), STATUS_OK);
    assert_true(server_has(fixture->server, name));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    assert_false(server_has(fixture->server, name));
}

static void test_acquire__refuses_bad_names_and_leases(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    char name[RLOCK_NAME_MAX + 2] = {0};

    memset(name, 'n', RLOCK_NAME_MAX + 1);
    ASSERT_STATUS(acquire(fixture, client, &call, name, LEASE_MS), STATUS_INVALID);
    ASSERT_STATUS(acquire(fixture, client, &call, "", LEASE_MS), STATUS_INVALID);
    ASSERT_STATUS(acquire(fixture, client, &call, "a", RLOCK_LEASE_MS_MIN - 1),
                  STATUS_INVALID);
    ASSERT_STATUS(acquire(fixture, client, &call, "a", RLOCK_LEASE_MS_MAX + 1),
                  STATUS_INVALID);
    assert_false(rlock_is_held(&call.lock));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_NOT_OWNER);
    ASSERT_STATUS(acquire(fixture, client, &call, "a", RLOCK_LEASE_MS_MAX), STATUS_OK);
}

static void test_acquire__held_lock_is_not_taken_again(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0}, other = {0};
    int64_t fence;

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    fence = rlock_fence(&call.lock);
    /* by another lock of the same client: busy */
    ASSERT_STATUS(acquire(fixture, client, &other, "item:7", LEASE_MS), STATUS_BUSY);
    /* with the same struct: refused, and the lock stays held */
    ASSERT_STATUS(acquire(fixture, client, &call, "item:8", LEASE_MS), STATUS_INVALID);
    assert_true(rlock_is_held(&call.lock));
    assert_int_equal(rlock_fence(&call.lock), fence);
    assert_false(server_has(fixture->server, "item:8"));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

static void test_acquire__twice_before_the_answer_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    call_acquire(client, &call, "item:7", LEASE_MS);
    call_acquire(client, &call, "item:8", LEASE_MS);
    call_release(client, &call);
    fixture_wait_answers(fixture, &call, 2);
    ASSERT_STATUS(call.statuses[0], STATUS_INVALID);
    ASSERT_STATUS(call.statuses[1], STATUS_NOT_OWNER);
    rlock_flush(client);
    fixture_wait_answers(fixture, &call, 3);
    ASSERT_STATUS(call.status, STATUS_OK);
    assert_true(server_has(fixture->server, "item:7"));
    assert_false(server_has(fixture->server, "item:8"));
}

static void test_acquire__same_name_twice_in_one_flush_has_one_winner(void **state)
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

static void test_acquire__wrong_type_at_one_key_leaves_its_neighbours(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[3] = {0};

    (void)server_int(fixture->server, "HSET item:1 field value");
    call_acquire(client, &calls[0], "item:0", LEASE_MS);
    call_acquire(client, &calls[1], "item:1", LEASE_MS);
    call_acquire(client, &calls[2], "item:2", LEASE_MS);
    rlock_flush(client);
    fixture_wait_answers(fixture, &calls[2], 1);
    ASSERT_STATUS(calls[0].status, STATUS_OK);
    ASSERT_STATUS(calls[1].status, STATUS_REFUSED);
    ASSERT_STATUS(calls[2].status, STATUS_OK);
    assert_int_equal(server_int(fixture->server, "HLEN item:1"), 1);
}

static void test_acquire__readonly_server_is_down_and_recovers(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call held = {0}, call = {0};

    ASSERT_STATUS(acquire(fixture, client, &held, "item:6", LEASE_MS), STATUS_OK);
    server_do(fixture->server, "REPLICAOF 127.0.0.1 1");
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_DOWN);
    ASSERT_STATUS(release(fixture, client, &held), STATUS_DOWN);
    server_do(fixture->server, "REPLICAOF NO ONE");
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
}

static void test_acquire__out_of_memory_refuses_and_locks_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    server_do(fixture->server, "CONFIG SET maxmemory 1");
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_REFUSED);
    server_do(fixture->server, "CONFIG SET maxmemory 0");
    assert_false(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
}

/** The script is called a second time with the same owner, as by a retry. */
static void test_acquire_script__finds_its_own_value_and_grants(void **state)
{
    struct fixture *fixture = *state;
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    redisReply *reply;

    rlock_scripts_init(scripts, false);
    for (int i = 0; i < 2; i++) {
        reply = server_command(
            fixture->server, "EVAL %s 3 lock:fence a b %d 9000000000000000 me:1 me:2 7",
            scripts[RLOCK_SCRIPT_ACQUIRE].body, LEASE_MS + i * LEASE_MS);
        assert_string_equal(reply->element[0]->str, "7");
        assert_string_equal(reply->element[3]->str, "11");
        freeReplyObject(reply);
    }
    ASSERT_NUMBER(server_int(fixture->server, "PTTL a"), >, LEASE_MS); /* the second */
    reply = server_command(fixture->server,
                           "EVAL %s 3 lock:fence a c %d 9000000000000000 you:1 you:2 7",
                           scripts[RLOCK_SCRIPT_ACQUIRE].body, LEASE_MS);
    assert_string_equal(reply->element[3]->str, "01");
    freeReplyObject(reply);
}

static void test_acquire_script__does_nothing_when_it_comes_too_late(void **state)
{
    struct fixture *fixture = *state;
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    redisReply *reply;

    rlock_scripts_init(scripts, false);
    reply = server_command(fixture->server,
                           "EVAL %s 2 lock:fence a %d 1700000000000000 me:1 7",
                           scripts[RLOCK_SCRIPT_ACQUIRE].body, LEASE_MS);
    assert_int_equal(reply->elements, 2);
    ASSERT_NUMBER(reply->element[1]->integer, >, 1700000000000000);
    freeReplyObject(reply);
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 0);
}

/** The clocks of server and client drift, or are set: that costs one more call. */
static void test_acquire__learns_the_servers_clock_again(void **state)
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

static void test_acquire__ten_thousand_in_one_flush_each_with_its_own_result(void **state)
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

static void test_acquire__same_lease_shares_calls_of_128(void **state)
{
    enum { LOCKS = 300 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[LOCKS] = {0}, warm = {0};
    char name[32];
    long long before;

    ASSERT_STATUS(acquire(fixture, client, &warm, "warm", LEASE_MS), STATUS_OK);
    before = server_calls(fixture->server, "evalsha");
    for (int i = 0; i < LOCKS; i++) { /* two leases, mixed */
        snprintf(name, sizeof(name), "item:%d", i);
        call_acquire(client, &calls[i], name, (uint32_t)(LEASE_MS + i % 2));
    }
    rlock_flush(client);
    for (int i = 0; i < LOCKS; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_OK);
    }
    assert_int_equal(server_calls(fixture->server, "evalsha") - before, 4);
}

static void test_acquire__grants_many_different_leases(void **state)
{
    enum { LOCKS = 100 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[LOCKS] = {0};
    char name[32];

    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        call_acquire(client, &calls[i], name, (uint32_t)(10000 * (1 + i % 25)));
    }
    rlock_flush(client);
    for (int i = 0; i < LOCKS; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_OK);
        snprintf(name, sizeof(name), "item:%d", i);
        ASSERT_BETWEEN(server_int(fixture->server, "PTTL %s", name),
                       10000 * (1 + i % 25) - 5000, 10000 * (1 + i % 25));
    }
}

static void test_release__by_a_non_owner_is_refused_and_the_lock_stays(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};

    ASSERT_STATUS(acquire(fixture, alice, &first, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, bob, &second, "item:7", LEASE_MS), STATUS_BUSY);
    ASSERT_STATUS(release(fixture, bob, &second), STATUS_NOT_OWNER);
    assert_true(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(release(fixture, alice, &first), STATUS_OK);
}

static void test_release__second_time_is_not_owner(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_NOT_OWNER);
}

static void test_release__after_expiry_is_lost_and_the_next_holder_untouched(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};

    ASSERT_STATUS(acquire(fixture, alice, &first, "item:7", LEASE_MS), STATUS_OK);
    server_pass_ms(fixture->server, LEASE_MS / 2);
    ASSERT_STATUS(acquire(fixture, bob, &second, "item:7", LEASE_MS), STATUS_BUSY);
    server_pass_ms(fixture->server, LEASE_MS / 2);
    ASSERT_STATUS(acquire(fixture, bob, &second, "item:7", LEASE_MS), STATUS_OK);
    fixture_pass_ms(fixture, LEASE_MS);
    ASSERT_NUMBER(rlock_safe_for_us(&first.lock, clock_mono_us()), <=, 0);
    ASSERT_NUMBER(rlock_fence(&second.lock), >, rlock_fence(&first.lock));
    ASSERT_STATUS(release(fixture, alice, &first), STATUS_LOST);
    assert_true(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(release(fixture, bob, &second), STATUS_OK);
}

static void test_release__of_a_key_of_another_type_is_lost(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0}, neighbour = {0};

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &neighbour, "item:8", LEASE_MS), STATUS_OK);
    server_do(fixture->server, "DEL item:7");
    (void)server_int(fixture->server, "HSET item:7 field value");
    call_release(client, &call);
    call_release(client, &neighbour);
    rlock_flush(client);
    fixture_wait_answers(fixture, &neighbour, 2);
    ASSERT_STATUS(call.status, STATUS_LOST);
    ASSERT_STATUS(neighbour.status, STATUS_OK);
    assert_true(server_has(fixture->server, "item:7"));
}

static void test_release__without_a_callback_returns_the_memory_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct call *other = calloc(1, sizeof(*other));

    ASSERT_STATUS(acquire(fixture, client, other, "item:7", LEASE_MS), STATUS_OK);
    rlock_release(client, &other->lock, NULL, NULL);
    assert_false(rlock_is_held(&other->lock));
    free(other);
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
}

static void test_acquire__explicit_lease_is_not_renewed(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    server_pass_ms(fixture->server, LEASE_MS / 2);
    fixture_pass_ms(fixture, LEASE_MS / 2);
    fixture_run_for(fixture, 20);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL item:7"), 0, LEASE_MS / 2);
    fixture_pass_ms(fixture, LEASE_MS);
    assert_int_equal(call.losses, 0); /* it is not watched */
}

static void test_fence__grows_over_release_expiry_force_and_lost_data(void **state)
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

static void test_owner__is_random_per_client_and_numbered_per_call(void **state)
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

/** Hold the lock and renew it again and again; returns the process. */
static pid_t start_holder(struct fixture *fixture)
{
    struct rlock_client *client;
    struct call call = {0};
    pid_t child = child_fork();

    if (child > 0)
        return child;
    uv_loop_fork(&fixture->loop);
    client = fixture_client(fixture);
    ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    for (uint64_t renewed = 1;; renewed++) {
        fixture_jump_ms(fixture, LEASE_MS / 3 + 1);
        fixture_wait_renewed(fixture, client, renewed);
        fixture_run_for(fixture, 10);
    }
}

static bool is_renewed(void *arg)
{
    return server_int(((struct fixture *)arg)->server, "PTTL item:7") > LEASE_MS / 2;
}

static void test_watchdog__of_a_killed_process_renews_no_more(void **state)
{
    struct fixture *fixture = *state;
    pid_t holder = start_holder(fixture);
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    for (int i = 0; i < 3; i++) {
        FIXTURE_AWAIT(fixture, is_renewed, fixture);
        server_pass_ms(fixture->server, LEASE_MS / 2);
    }
    FIXTURE_AWAIT(fixture, is_renewed, fixture);
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_BUSY);
    child_end(holder);
    server_pass_ms(fixture->server, LEASE_MS);
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
}

static void test_inspect__tells_owner_and_rest_of_the_lease(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct answer answer = {0};
    redisReply *owner;

    ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), STATUS_NOT_FOUND);
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), STATUS_OK);
    owner = server_command(fixture->server, "GET item:7");
    assert_string_equal(answer.owner, owner->str);
    ASSERT_BETWEEN(answer.remaining_ms, LEASE_MS / 2, LEASE_MS);
    assert_int_equal(answer.count, 1);
    assert_true(answer.is_ours);
    freeReplyObject(owner);
    server_do(fixture->server, "SET item:8 forever");
    ASSERT_STATUS(inspect(fixture, client, &answer, "item:8"), STATUS_OK);
    assert_int_equal(answer.remaining_ms, -1);
    assert_false(answer.is_ours);
    (void)server_int(fixture->server, "RPUSH item:9 value");
    ASSERT_STATUS(inspect(fixture, client, &answer, "item:9"), STATUS_REFUSED);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "WRONGTYPE");
    ASSERT_STATUS(inspect(fixture, client, &answer, ""), STATUS_INVALID);
}

static void test_force_release__frees_the_lock_of_any_owner(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    struct answer answer = {0};

    ASSERT_STATUS(acquire(fixture, alice, &first, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(force(fixture, bob, &answer, "item:7"), STATUS_OK);
    ASSERT_STATUS(force(fixture, bob, &answer, "item:7"), STATUS_NOT_FOUND);
    ASSERT_STATUS(force(fixture, bob, &answer, ""), STATUS_INVALID);
    ASSERT_STATUS(acquire(fixture, bob, &second, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, alice, &first), STATUS_LOST);
    assert_true(server_has(fixture->server, "item:7"));
}

static void test_scripts__flushed_at_any_time_are_sent_again(void **state)
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
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_acquire__free_lock_is_held_for_its_lease),
        FIXTURE_TEST(test_acquire__held_by_another_is_busy_and_untouched),
        FIXTURE_TEST(test_release__lets_another_in_ten_times_in_a_row),
        FIXTURE_TEST(test_acquire__names_are_independent_and_binary_safe),
        FIXTURE_TEST(test_acquire__accepts_the_longest_name),
        FIXTURE_TEST(test_acquire__refuses_bad_names_and_leases),
        FIXTURE_TEST(test_acquire__held_lock_is_not_taken_again),
        FIXTURE_TEST(test_acquire__twice_before_the_answer_is_refused),
        FIXTURE_TEST(test_acquire__same_name_twice_in_one_flush_has_one_winner),
        FIXTURE_TEST(test_acquire__wrong_type_at_one_key_leaves_its_neighbours),
        FIXTURE_TEST(test_acquire__readonly_server_is_down_and_recovers),
        FIXTURE_TEST(test_acquire__out_of_memory_refuses_and_locks_nothing),
        FIXTURE_TEST(test_acquire_script__finds_its_own_value_and_grants),
        FIXTURE_TEST(test_acquire_script__does_nothing_when_it_comes_too_late),
        FIXTURE_TEST(test_acquire__learns_the_servers_clock_again),
        FIXTURE_TEST(test_acquire__ten_thousand_in_one_flush_each_with_its_own_result),
        FIXTURE_TEST(test_acquire__same_lease_shares_calls_of_128),
        FIXTURE_TEST(test_acquire__grants_many_different_leases),
        FIXTURE_TEST(test_release__by_a_non_owner_is_refused_and_the_lock_stays),
        FIXTURE_TEST(test_release__second_time_is_not_owner),
        FIXTURE_TEST(test_release__after_expiry_is_lost_and_the_next_holder_untouched),
        FIXTURE_TEST(test_release__of_a_key_of_another_type_is_lost),
        FIXTURE_TEST(test_release__without_a_callback_returns_the_memory_at_once),
        FIXTURE_TEST(test_acquire__explicit_lease_is_not_renewed),
        FIXTURE_TEST(test_fence__grows_over_release_expiry_force_and_lost_data),
        FIXTURE_TEST(test_owner__is_random_per_client_and_numbered_per_call),
        FIXTURE_TEST(test_watchdog__of_a_killed_process_renews_no_more),
        FIXTURE_TEST(test_inspect__tells_owner_and_rest_of_the_lease),
        FIXTURE_TEST(test_force_release__frees_the_lock_of_any_owner),
        FIXTURE_TEST(test_scripts__flushed_at_any_time_are_sent_again),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
