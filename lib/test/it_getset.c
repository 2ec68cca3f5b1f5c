/* it_getset.c - the lock whose value is the time of its end, by its owner's clock. */
#include "base/clock.h"
#include "test/child.h"
#include "test/fixture.h"
#include "test/naive.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct rlock_acquire_options try_once = {.kind = &rlock_getset,
                                                      .lease_ms = LEASE_MS};

static long long value(struct fixture *fixture)
{
    redisReply *reply = server_command(fixture->server, "GET item:7");
    long long number =
        reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : -1;

    freeReplyObject(reply);
    return number;
}

FIXTURE_CASE(test_acquire__writes_the_time_of_its_end)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct answer answer = {0};
    int64_t begin_ms = clock_real_us() / 1000;

    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, 0);
    ASSERT_BETWEEN(value(fixture), begin_ms + LEASE_MS,
                   clock_real_us() / 1000 + LEASE_MS + 1);
    assert_int_equal(server_int(fixture->server, "PTTL item:7"), -1);
    ASSERT_BETWEEN(rlock_safe_for_us(&call.lock, clock_mono_us()), LEASE_MS * 500LL,
                   LEASE_MS * 990LL);
    ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), STATUS_OK);
    assert_int_equal(strtoll(answer.owner, NULL, 10), value(fixture));
    assert_int_equal(answer.remaining_ms, -1);
    assert_int_equal(answer.count, 1);
    assert_false(answer.is_ours); /* a time does not name an owner */
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    assert_false(server_has(fixture->server, "item:7"));
}

FIXTURE_CASE(test_acquire__takes_over_what_has_ended_by_our_clock)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    int64_t fence;
    long long before;

    ASSERT_STATUS(acquire_with(fixture, alice, &first, "item:7", &try_once), STATUS_OK);
    fence = rlock_fence(&first.lock);
    fixture_pass_ms(fixture, LEASE_MS / 2);
    ASSERT_STATUS(acquire_with(fixture, bob, &second, "item:7", &try_once), STATUS_BUSY);
    fixture_pass_ms(fixture, LEASE_MS / 2 + 100);
    ASSERT_NUMBER(rlock_safe_for_us(&first.lock, clock_mono_us()), <, 0);
    ASSERT_STATUS(acquire_with(fixture, bob, &second, "item:7", &try_once), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&second.lock), >, fence);
    before = value(fixture);
    ASSERT_STATUS(release(fixture, alice, &first), STATUS_LOST);
    assert_int_equal(value(fixture), before);
    ASSERT_STATUS(release(fixture, bob, &second), STATUS_OK);
}

FIXTURE_CASE(test_acquire__leaves_a_string_that_is_no_time)
{
    static const char *const strings[] = {
        "someone's", "",    "0x10", "1e3",  "nan", "inf",        "-5",
        "1.5",       " 17", "17 ",  "-inf", "42",  "1700000000", "99999999999999"};
    struct rlock_acquire_options waiting = try_once;
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    redisReply *found;

    waiting.wait_ms = RLOCK_WAIT_FOREVER;
    for (size_t i = 0; i < sizeof(strings) / sizeof(*strings); i++) {
        server_do(fixture->server, "SET item:7 %s", strings[i]);
        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &waiting),
                      STATUS_REFUSED); /* there is nothing to wait for */
        ASSERT_CONTAINS(rlock_client_why(client)->text, "no lock of this kind");
        found = server_command(fixture->server, "GET item:7");
        assert_string_equal(found->str, strings[i]);
        freeReplyObject(found);
    }
}

FIXTURE_CASE(test_getset__and_the_old_program_see_each_others_locks)
{
    struct fixture *fixture = *state;
    struct server *server = fixture->server;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    assert_true(naive_getset.take(server, "item:7", NULL, LEASE_MS));
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), STATUS_BUSY);
    naive_getset.release(server, "item:7", NULL);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), STATUS_OK);
    assert_false(naive_getset.take(server, "item:7", NULL, LEASE_MS));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    assert_true(naive_getset.take(server, "item:7", NULL, LEASE_MS));
    fixture_pass_ms(fixture, LEASE_MS + 100);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), STATUS_OK);
    fixture_pass_ms(fixture, LEASE_MS + 100);
    assert_true(naive_getset.take(server, "item:7", NULL, LEASE_MS));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
    assert_true(server_has(server, "item:7"));
}

/** As rlock.h says: the loser moves the end, and the holder finds its lock lost. */
FIXTURE_CASE(test_getset__a_loser_that_sends_one_by_one_moves_the_end)
{
    struct fixture *fixture = *state;
    struct server *server = fixture->server;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    long long real_ms = clock_real_us() / 1000, end_ms = 0;

    server_do(server, "SET item:7 %lld", real_ms - 1000);
    assert_false(naive_getset_look(server, "item:7", real_ms, LEASE_MS, &end_ms));
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), STATUS_OK);
    assert_false(naive_getset_take_over(server, "item:7", end_ms, real_ms, 2 * LEASE_MS));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
    assert_int_equal(value(fixture), real_ms + 2LL * LEASE_MS);
}

enum { ROUNDS = 200 };

static long long read_counter(struct server *server)
{
    redisReply *reply = server_command(server, "GET counter");
    long long count =
        reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;

    freeReplyObject(reply);
    return count;
}

/** Increment the counter by a read and a write, which only the holder may do. */
static void count_one(struct server *server)
{
    server_do(server, "SET counter %lld", read_counter(server) + 1);
}

static bool is_counted(void *arg)
{
    return read_counter(((struct fixture *)arg)->server) == 2LL * ROUNDS;
}

static void run_old_program(const struct server *server)
{
    struct server own = *server;
    char path[96];
    long long end;

    snprintf(path, sizeof(path), "%s/sock", server->dir);
    own.redis = redisConnectUnix(path); /* not the connection of its parent */
    for (int i = 0; i < ROUNDS; i++) {
        while (!naive_getset_look(&own, "item:7", clock_real_us() / 1000, LEASE_MS, &end))
            usleep(200); /* no lease ends here, so there is nothing to take over */
        count_one(&own);
        naive_getset.release(&own, "item:7", NULL);
    }
    redisFree(own.redis);
}

FIXTURE_CASE(test_getset__and_the_old_program_exclude_each_other)
{
    struct rlock_acquire_options waiting = try_once;
    struct fixture *fixture = *state;
    struct rlock_client *client;
    struct call call = {0};
    pid_t child = child_fork();

    if (child == 0) {
        run_old_program(fixture->server);
        pause(); /* until it is killed: an exit would report leaks of its parent */
    }
    client = fixture_client(fixture);
    waiting.wait_ms = RLOCK_WAIT_FOREVER;
    waiting.spin_min_ms = waiting.spin_max_ms = 1;
    for (int i = 0; i < ROUNDS; i++) {
        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &waiting),
                      STATUS_OK);
        count_one(fixture->server);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    }
    FIXTURE_AWAIT(fixture, is_counted, fixture);
    child_end(child);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
