/* it_wait_many.c - many who wait for the same lock, and what it costs the server. */
#include "base/clock.h"
#include "lock/internal.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROWD 50

static unsigned count_answers(const struct call *calls, unsigned count)
{
    unsigned answers = 0;

    for (unsigned i = 0; i < count; i++)
        answers += calls[i].answers;
    return answers;
}

/** `clients`, the first of which holds the lock; a release has one winner. */
static void release_before(struct fixture *fixture, unsigned client_count)
{
    enum { WAITERS = 200 };
    struct rlock_client *clients[FIXTURE_CLIENTS_MAX];
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, LONG_MS);
    struct call held = {0};
    struct call calls[WAITERS] = {0};
    long long before;

    for (unsigned i = 0; i < client_count; i++)
        clients[i] = fixture_client(fixture);
    assert_int_equal(acquire(fixture, clients[0], &held, NAME, LEASE_MS), STATUS_OK);
    assert_int_equal(release(fixture, clients[0], &held), STATUS_OK); /* it is known */
    assert_int_equal(acquire(fixture, clients[0], &held, NAME, LEASE_MS), STATUS_OK);
    for (unsigned i = 0; i < WAITERS; i++)
        call_acquire_with(clients[i % client_count], &calls[i], NAME, &options);
    for (unsigned i = 0; i < client_count; i++)
        rlock_flush(clients[i]);
    for (unsigned i = 0; i < WAITERS; i++)
        fixture_wait_asleep(fixture, clients[i % client_count], &calls[i]);
    assert_int_equal(channels_in_use(fixture), 1);
    before = script_calls(fixture);
    assert_int_equal(release(fixture, clients[0], &held), STATUS_OK);
    fixture_run_for(fixture, 200);
    assert_int_equal(count_answers(calls, WAITERS), 1);
    /* The release, and a try of each client; of the one that released another, for it
       did not wait for the message, which came. */
    ASSERT_BETWEEN(script_calls(fixture) - before, 3, 2 + client_count);
    for (unsigned i = 0; i < client_count; i++)
        fixture_close(fixture, clients[i]); /* before the memory of the calls goes */
}

static void test_release__has_one_winner_among_200_of_one_client(void **state)
{
    release_before(*state, 1);
}

/** The next of the same client tries in the write of the release, without a message. */
static void test_release__passes_on_within_the_client(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, LONG_MS);
    struct call held = {0}, next = {0};
    int64_t released_us;

    assert_int_equal(acquire(fixture, client, &held, NAME, LEASE_MS), STATUS_OK);
    call_acquire_with(client, &next, NAME, &options);
    rlock_flush(client);
    fixture_wait_asleep(fixture, client, &next);
    freeReplyObject(
        server_command(fixture->server, "DEL lock:fence:waiting")); /* unheard */
    assert_int_equal(release(fixture, client, &held), STATUS_OK);
    released_us = clock_mono_us();
    fixture_wait_answers(fixture, &next, 1);
    assert_int_equal(next.status, STATUS_OK);
    ASSERT_BETWEEN(clock_mono_us() - released_us, 0, 500000); /* not at the next look */
    assert_int_equal(release(fixture, client, &next), STATUS_OK);
    fixture_close(fixture, client);
}

static void test_release__has_one_winner_among_200_of_eight_clients(void **state)
{
    release_before(*state, 8);
}

/** A waiter that holds, when it is its turn, until the test's loop comes by. */
struct turn {
    struct rlock lock;
    struct rlock_client *client;
    struct crowd *crowd;
    unsigned grants;
};

struct crowd {
    struct turn *holder;
    unsigned done;
    int64_t last_fence;
};

static void on_given_back(struct rlock *lock, enum status status, void *arg)
{
    struct turn *turn = arg;

    assert_ptr_equal(lock, &turn->lock);
    assert_int_equal(status, STATUS_OK);
    turn->crowd->done++;
}

static void on_turn(struct rlock *lock, enum status status, void *arg)
{
    struct turn *turn = arg;

    assert_int_equal(status, STATUS_OK);
    assert_null(turn->crowd->holder);
    ASSERT_NUMBER(rlock_fence(lock), >, turn->crowd->last_fence);
    turn->crowd->last_fence = rlock_fence(lock);
    turn->crowd->holder = turn;
    turn->grants++;
}

static bool all_had_their_turn(void *arg)
{
    struct crowd *crowd = arg;
    struct turn *holder = crowd->holder;

    if (holder != NULL) {
        crowd->holder = NULL;
        rlock_release(holder->client, &holder->lock, on_given_back, holder);
        rlock_flush(holder->client);
    }
    return crowd->done == CROWD;
}

static void take_turns(struct fixture *fixture, const struct rlock_kind *kind)
{
    enum { CLIENTS = 5 };
    struct rlock_client *clients[CLIENTS];
    struct turn turns[CROWD] = {0};
    struct crowd crowd = {0};
    struct rlock_stats stats;
    long long before;

    for (int i = 0; i < CLIENTS; i++)
        clients[i] = fixture_client(fixture);
    before = script_calls(fixture);
    for (unsigned i = 0; i < CROWD; i++) {
        struct rlock_acquire_options options = waiting(kind, i, LONG_MS);

        turns[i].client = clients[i % CLIENTS];
        turns[i].crowd = &crowd;
        rlock_acquire(turns[i].client, &turns[i].lock, NAME, strlen(NAME), &options,
                      on_turn, &turns[i]);
    }
    for (int i = 0; i < CLIENTS; i++)
        rlock_flush(clients[i]);
    FIXTURE_AWAIT(fixture, all_had_their_turn, &crowd);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(turns[i].grants, 1);
    /* for each of them a release, and a try by the first of each client */
    ASSERT_NUMBER(script_calls(fixture) - before, <, (long long)CROWD * (2 + CLIENTS));
    for (int i = 0; i < CLIENTS; i++) {
        rlock_client_stats(clients[i], &stats);
        assert_int_equal(stats.granted, CROWD / CLIENTS);
        assert_int_equal(stats.busy + stats.failed + stats.lost, 0);
    }
    assert_no_channels(fixture);
    assert_false(server_has(fixture->server, NAME));
}

static void test_wait__each_of_50_gets_it_exactly_once(void **state)
{
    take_turns(*state, &rlock_plain);
}

static void test_wait__each_of_50_reentrant_holders_gets_it_exactly_once(void **state)
{
    take_turns(*state, &rlock_reentrant);
}

/** One of those who take and give back, again and again, until enough has been done. */
struct worker {
    struct rlock lock;
    struct rlock_client *client;
    struct rlock_acquire_options options;
    char name[16];
    unsigned *left, *ended;
};

static void on_worked(struct rlock *lock, enum status status, void *arg);

static void work(struct worker *worker)
{
    if (*worker->left == 0) {
        ++*worker->ended;
        return;
    }
    --*worker->left;
    rlock_acquire(worker->client, &worker->lock, worker->name, strlen(worker->name),
                  &worker->options, on_worked, worker);
    rlock_flush(worker->client);
}

static void on_work_released(struct rlock *lock, enum status status, void *arg)
{
    (void)lock;
    assert_int_equal(status, STATUS_OK);
    work(arg);
}

static void on_worked(struct rlock *lock, enum status status, void *arg)
{
    struct worker *worker = arg;

    assert_int_equal(status, STATUS_OK);
    rlock_release(worker->client, lock, on_work_released, worker);
    rlock_flush(worker->client);
}

/** Joining and leaving channels all the time, on one connection for messages. */
static void test_wait__5000_operations_leave_no_channel_behind(void **state)
{
    enum { WORKERS = 32, NAMES = 5, OPERATIONS = 5000 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct worker workers[WORKERS] = {0};
    struct rlock_stats stats;
    unsigned left = OPERATIONS, ended = 0;
    redisReply *before = server_command(fixture->server, "INFO stats"), *after;

    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *worker = &workers[i];

        worker->client = client;
        worker->options = waiting(i % 2 ? &rlock_plain : &rlock_reentrant, i, LONG_MS);
        snprintf(worker->name, sizeof(worker->name), "%c:%u", i % 2 ? 'p' : 'r',
                 i % NAMES);
        worker->left = &left;
        worker->ended = &ended;
        work(worker);
    }
    fixture_wait_count(fixture, &ended, WORKERS);
    assert_no_channels(fixture);
    after = server_command(fixture->server, "INFO stats");
    assert_int_equal(
        strtoll(strstr(after->str, "connections_received:") + 21, NULL, 10) -
            strtoll(strstr(before->str, "connections_received:") + 21, NULL, 10),
        1); /* the one for messages */
    freeReplyObject(before);
    freeReplyObject(after);
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.granted, OPERATIONS);
    assert_int_equal(stats.released, OPERATIONS);
    assert_int_equal(stats.failed + stats.busy + stats.lost, 0);
    ASSERT_BETWEEN(server_int(fixture->server, "DBSIZE"), 1, 2);
}

/** @after_us  how long after the waits began the lock is released. Returns the winners.
 */
static unsigned release_at(struct fixture *fixture, struct rlock_client *const clients[3],
                           uint32_t wait_ms, int64_t after_us)
{
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, wait_ms);
    struct call held = {0}, calls[2] = {0};
    unsigned winners = 0;
    int64_t release_us;

    assert_int_equal(acquire(fixture, clients[2], &held, NAME, LEASE_MS), STATUS_OK);
    release_us = clock_mono_us() + after_us;
    for (int i = 0; i < 2; i++)
        call_wait(clients[i], &calls[i], NAME, &options);
    while (clock_mono_us() < release_us)
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_int_equal(release(fixture, clients[2], &held), STATUS_OK);
    fixture_wait_answers(fixture, &calls[0], 1);
    fixture_wait_answers(fixture, &calls[1], 1);
    assert_int_equal(rlock_is_held(&calls[0].lock) + rlock_is_held(&calls[1].lock),
                     server_has(fixture->server, NAME));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(calls[i].status,
                         rlock_is_held(&calls[i].lock) ? STATUS_OK : STATUS_BUSY);
        if (calls[i].status == STATUS_BUSY)
            continue;
        assert_int_equal(release(fixture, clients[i], &calls[i]), STATUS_OK);
        winners++;
    }
    assert_false(server_has(fixture->server, NAME));
    return winners;
}

/**
 * Two whose waits end in the moment of the release, or a little before or after: at most
 * one gets it, and where none does it is free.
 */
static void test_release__in_the_moment_the_waits_end_leaves_nothing(void **state)
{
    enum { ROUNDS = 40, WAIT_MS = 40 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[3];
    unsigned winners = 0;

    for (int i = 0; i < 3; i++)
        clients[i] = fixture_client(fixture);
    for (int64_t i = 0; i < ROUNDS; i++)
        winners += release_at(fixture, clients, WAIT_MS,
                              INT64_C(1000) * WAIT_MS + (i - ROUNDS / 2) * 200);
    ASSERT_BETWEEN(winners, 1, ROUNDS - 1); /* both ends of the range were met */
    assert_no_channels(fixture);
}

/** The first of a channel gives up: the next looks when the owner's lease has ended. */
static void test_wait__the_next_takes_over_from_one_whose_time_is_up(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, LONG_MS);
    struct rlock_acquire_options hasty = waiting(&rlock_plain, 0, 100);
    struct call held = {0}, calls[3] = {0};
    int64_t begin_us = clock_mono_us();

    assert_int_equal(acquire(fixture, alice, &held, NAME, 600), STATUS_OK);
    call_wait(bob, &calls[0], NAME, &hasty);
    call_wait(bob, &calls[1], NAME, &options);
    call_wait(bob, &calls[2], NAME, &options);
    fixture_wait_answers(fixture, &calls[0], 1);
    assert_int_equal(calls[0].status, STATUS_BUSY);
    fixture_wait_answers(fixture, &calls[1], 1);
    assert_int_equal(calls[1].status, STATUS_OK);
    ASSERT_BETWEEN(clock_mono_us() - begin_us, 590000, 600000 + PROMPTLY_US);
    begin_us = clock_mono_us();
    assert_int_equal(release(fixture, bob, &calls[1]), STATUS_OK);
    fixture_wait_answers(fixture, &calls[2], 1);
    assert_int_equal(calls[2].status, STATUS_OK);
    ASSERT_NUMBER(clock_mono_us() - begin_us, <, PROMPTLY_US);
}

/** It waits behind one who is granted, and dies: the lease of that one counts. */
static void test_wait__the_next_takes_over_from_one_who_was_granted(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, LONG_MS);
    struct rlock_acquire_options brief = waiting(&rlock_plain, 0, LONG_MS);
    struct call held = {0}, calls[2] = {0};
    int64_t granted_us;

    brief.lease_ms = 150;
    assert_int_equal(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait(bob, &calls[0], NAME, &brief);
    call_wait(bob, &calls[1], NAME, &options);
    fixture_wait_asleep(fixture, bob, &calls[0]);
    fixture_wait_asleep(fixture, bob, &calls[1]);
    assert_int_equal(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &calls[0], 1);
    granted_us = clock_mono_us();
    assert_int_equal(calls[0].status, STATUS_OK);
    fixture_wait_answers(fixture, &calls[1], 1);
    assert_int_equal(calls[1].status, STATUS_OK);
    ASSERT_BETWEEN(clock_mono_us() - granted_us, 140000, 150000 + 500000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_release__has_one_winner_among_200_of_one_client),
        FIXTURE_TEST(test_release__has_one_winner_among_200_of_eight_clients),
        FIXTURE_TEST(test_release__passes_on_within_the_client),
        FIXTURE_TEST(test_wait__each_of_50_gets_it_exactly_once),
        FIXTURE_TEST(test_wait__each_of_50_reentrant_holders_gets_it_exactly_once),
        FIXTURE_TEST(test_wait__5000_operations_leave_no_channel_behind),
        FIXTURE_TEST(test_release__in_the_moment_the_waits_end_leaves_nothing),
        FIXTURE_TEST(test_wait__the_next_takes_over_from_one_whose_time_is_up),
        FIXTURE_TEST(test_wait__the_next_takes_over_from_one_who_was_granted),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
