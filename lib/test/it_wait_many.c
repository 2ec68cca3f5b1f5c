/* it_wait_many.c - many waiters for the same lock, and what they cost the server. */
#include "base/clock.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAITERS 50

static unsigned count_answers(const struct call *calls, unsigned count)
{
    unsigned answers = 0;

    for (unsigned i = 0; i < count; i++)
        answers += calls[i].answers;
    return answers;
}

/** The first of the clients holds the lock; its release has one winner among all. */
FIXTURE_CASE(test_release__has_one_winner_among_200_of_eight_clients)
{
    enum { MANY = 200, CLIENTS = 8 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[CLIENTS];
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0};
    struct call calls[MANY] = {0};
    long long scripts, commands;

    for (unsigned i = 0; i < CLIENTS; i++)
        clients[i] = fixture_client(fixture);
    ASSERT_STATUS(acquire(fixture, clients[0], &held, NAME, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, clients[0], &held), STATUS_OK); /* scripts are known */
    ASSERT_STATUS(acquire(fixture, clients[0], &held, NAME, LEASE_MS), STATUS_OK);
    for (unsigned i = 0; i < MANY; i++)
        call_acquire_with(clients[i % CLIENTS], &calls[i], NAME, &options);
    for (unsigned i = 0; i < CLIENTS; i++)
        rlock_flush(clients[i]);
    for (unsigned i = 0; i < MANY; i++)
        fixture_wait_asleep(fixture, clients[i % CLIENTS], &calls[i]);
    assert_int_equal(channels_in_use(fixture), 1);
    fixture_hold_timers(fixture);
    fixture_settle(fixture);
    scripts = script_calls(fixture);
    commands = commands_executed(fixture);
    ASSERT_STATUS(release(fixture, clients[0], &held), STATUS_OK);
    fixture_settle(fixture);
    assert_int_equal(count_answers(calls, MANY), 1);
    /* The release and a try of each client, and no more. */
    ASSERT_NUMBER(script_calls(fixture) - scripts, ==, 1 + CLIENTS);
    ASSERT_NUMBER(commands_executed(fixture) - commands, <=, 3 * CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++)
        fixture_close(fixture, clients[i]); /* before the calls go out of scope */
}

/** A waiter. Once granted, it keeps the lock for one turn of the loop. */
struct turn {
    struct rlock lock;
    struct rlock_client *client;
    struct rotation *rotation;
    unsigned grants;
};

struct rotation {
    struct turn *holder;
    unsigned done;
    int64_t last_fence;
};

static void on_given_back(struct rlock *lock, enum status status, void *arg)
{
    struct turn *turn = arg;

    assert_ptr_equal(lock, &turn->lock);
    ASSERT_STATUS(status, STATUS_OK);
    turn->rotation->done++;
}

static void on_turn(struct rlock *lock, enum status status, void *arg)
{
    struct turn *turn = arg;

    ASSERT_STATUS(status, STATUS_OK);
    assert_null(turn->rotation->holder);
    ASSERT_NUMBER(rlock_fence(lock), >, turn->rotation->last_fence);
    turn->rotation->last_fence = rlock_fence(lock);
    turn->rotation->holder = turn;
    turn->grants++;
}

static bool all_had_their_turn(void *arg)
{
    struct rotation *rotation = arg;
    struct turn *holder = rotation->holder;

    if (holder != NULL) {
        rotation->holder = NULL;
        rlock_release(holder->client, &holder->lock, on_given_back, holder);
        rlock_flush(holder->client);
    }
    return rotation->done == WAITERS;
}

FIXTURE_CASE(test_wait__each_of_50_gets_it_exactly_once)
{
    enum { CLIENTS = 5 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[CLIENTS];
    struct turn turns[WAITERS] = {0};
    struct rotation rotation = {0};
    struct rlock_stats stats;
    long long before;

    for (int i = 0; i < CLIENTS; i++)
        clients[i] = fixture_client(fixture);
    before = script_calls(fixture);
    for (unsigned i = 0; i < WAITERS; i++) {
        struct rlock_acquire_options options =
            waiting(&rlock_reentrant, i, RLOCK_WAIT_FOREVER);

        turns[i].client = clients[i % CLIENTS];
        turns[i].rotation = &rotation;
        rlock_acquire(turns[i].client, &turns[i].lock, NAME, strlen(NAME), &options,
                      on_turn, &turns[i]);
    }
    for (int i = 0; i < CLIENTS; i++)
        rlock_flush(clients[i]);
    FIXTURE_AWAIT(fixture, all_had_their_turn, &rotation);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(turns[i].grants, 1);
    /* for each a release, and a try by the first waiter of each client */
    ASSERT_NUMBER(script_calls(fixture) - before, <, (long long)WAITERS * (2 + CLIENTS));
    for (int i = 0; i < CLIENTS; i++) {
        rlock_client_stats(clients[i], &stats);
        assert_int_equal(stats.granted, WAITERS / CLIENTS);
        assert_int_equal(stats.busy + stats.failed + stats.lost, 0);
    }
    assert_no_channels(fixture);
    assert_false(server_has(fixture->server, NAME));
}

/** Acquires and releases again and again, until enough has been done. */
struct worker {
    struct rlock lock;
    struct rlock_client *client;
    struct rlock_acquire_options options;
    char name[24];
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
    ASSERT_STATUS(status, STATUS_OK);
    work(arg);
}

static void on_worked(struct rlock *lock, enum status status, void *arg)
{
    struct worker *worker = arg;

    ASSERT_STATUS(status, STATUS_OK);
    rlock_release(worker->client, lock, on_work_released, worker);
    rlock_flush(worker->client);
}

/** Channels come and go all the time, on one connection for messages. */
FIXTURE_CASE(test_wait__5000_operations_leave_no_channel_behind)
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
        worker->options =
            waiting(i % 2 ? &rlock_plain : &rlock_reentrant, i, RLOCK_WAIT_FOREVER);
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

/**
 * Release `turns` turns of the loop before the time of two waiters is up. Returns how many
 * of them are granted the lock.
 */
static unsigned release_before_end(struct fixture *fixture,
                                   struct rlock_client *const clients[3], int turns)
{
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, LEASE_MS);
    struct call held = {0}, calls[2] = {0};
    unsigned winners = 0;

    ASSERT_STATUS(acquire(fixture, clients[2], &held, NAME, LEASE_MS), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        call_wait(clients[i], &calls[i], NAME, &options);
        fixture_wait_asleep(fixture, clients[i], &calls[i]);
    }
    call_release(clients[2], &held);
    rlock_flush(clients[2]);
    server_settle(); /* the message has been sent */
    for (int i = 0; i < turns; i++) {
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
        server_settle();
    }
    fixture_jump_ms(fixture, LEASE_MS);
    fixture_wait_answers(fixture, &held, 2);
    for (int i = 0; i < 2; i++)
        fixture_wait_answers(fixture, &calls[i], 1);
    ASSERT_STATUS(held.status, STATUS_OK);
    for (int i = 0; i < 2; i++) {
        bool is_held = rlock_is_held(&calls[i].lock);

        ASSERT_STATUS(calls[i].status, is_held ? STATUS_OK : STATUS_BUSY);
        winners += is_held;
    }
    assert_int_equal(server_has(fixture->server, NAME), winners);
    for (int i = 0; i < 2; i++) {
        if (calls[i].status == STATUS_OK)
            ASSERT_STATUS(release(fixture, clients[i], &calls[i]), STATUS_OK);
    }
    assert_false(server_has(fixture->server, NAME));
    return winners;
}

/** At most one waiter is granted the lock; where none is, the lock is free. */
FIXTURE_CASE(test_release__in_the_moment_the_waits_end_leaves_nothing)
{
    enum { TURNS = 6 }; /* after which a waiter has the lock */
    struct fixture *fixture = *state;
    struct rlock_client *clients[3];

    for (int i = 0; i < 3; i++)
        clients[i] = fixture_client(fixture);
    for (int turns = 0; turns < TURNS; turns++)
        ASSERT_NUMBER(release_before_end(fixture, clients, turns), <=, 1);
    assert_int_equal(release_before_end(fixture, clients, TURNS), 1);
    assert_no_channels(fixture);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
