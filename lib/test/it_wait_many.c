/* it_wait_many.c - many waiters for the same lock, and what they cost the server. */
#include "base/clock.h"
#include "lock/internal.h"
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

struct tries {
    struct fixture *fixture;
    long long wanted;
};

static bool has_tried(void *arg)
{
    const struct tries *tries = arg;

    return script_calls(tries->fixture) >= tries->wanted;
}

/** The first of the clients holds the lock; its release has one winner among all. */
static void release_to_many(struct fixture *fixture, unsigned client_count)
{
    enum { MANY = 200 };
    struct rlock_client *clients[FIXTURE_CLIENTS_MAX];
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0};
    struct call calls[MANY] = {0};
    struct tries tries = {.fixture = fixture};

    for (unsigned i = 0; i < client_count; i++)
        clients[i] = fixture_client(fixture);
    ASSERT_STATUS(acquire(fixture, clients[0], &held, NAME, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, clients[0], &held), STATUS_OK); /* scripts are known */
    ASSERT_STATUS(acquire(fixture, clients[0], &held, NAME, LEASE_MS), STATUS_OK);
    for (unsigned i = 0; i < MANY; i++)
        call_acquire_with(clients[i % client_count], &calls[i], NAME, &options);
    for (unsigned i = 0; i < client_count; i++)
        rlock_flush(clients[i]);
    for (unsigned i = 0; i < MANY; i++)
        fixture_wait_asleep(fixture, clients[i % client_count], &calls[i]);
    assert_int_equal(channels_in_use(fixture), 1);
    fixture_hold_timers(fixture);
    tries.wanted = script_calls(fixture) + 3;
    ASSERT_STATUS(release(fixture, clients[0], &held), STATUS_OK);
    FIXTURE_AWAIT(fixture, has_tried, &tries);
    fixture_run_for(fixture, 50);
    assert_int_equal(count_answers(calls, MANY), 1);
    /* The release and a try of each client. The client that released tries twice: at
       once, and when the message comes. */
    ASSERT_NUMBER(script_calls(fixture), <, tries.wanted + client_count);
    for (unsigned i = 0; i < client_count; i++)
        fixture_close(fixture, clients[i]); /* before the calls go out of scope */
}

static void test_release__has_one_winner_among_200_of_one_client(void **state)
{
    release_to_many(*state, 1);
}

/** The next waiter of the same client tries in the write of the release. */
static void test_release__passes_on_within_the_client(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, next = {0};

    ASSERT_STATUS(acquire(fixture, client, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait(client, &next, NAME, &options);
    fixture_wait_asleep(fixture, client, &next);
    server_do(fixture->server, "DEL lock:fence:waiting"); /* no message */
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release(fixture, client, &held), STATUS_OK);
    fixture_wait_answers(fixture, &next, 1);
    ASSERT_STATUS(next.status, STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &next), STATUS_OK);
    fixture_close(fixture, client);
}

static void test_release__has_one_winner_among_200_of_eight_clients(void **state)
{
    release_to_many(*state, 8);
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

static void take_turns(struct fixture *fixture, const struct rlock_kind *kind)
{
    enum { CLIENTS = 5 };
    struct rlock_client *clients[CLIENTS];
    struct turn turns[WAITERS] = {0};
    struct rotation rotation = {0};
    struct rlock_stats stats;
    long long before;

    for (int i = 0; i < CLIENTS; i++)
        clients[i] = fixture_client(fixture);
    before = script_calls(fixture);
    for (unsigned i = 0; i < WAITERS; i++) {
        struct rlock_acquire_options options = waiting(kind, i, RLOCK_WAIT_FOREVER);

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

static void test_wait__each_of_50_gets_it_exactly_once(void **state)
{
    take_turns(*state, &rlock_plain);
}

static void test_wait__each_of_50_reentrant_holders_gets_it_exactly_once(void **state)
{
    take_turns(*state, &rlock_reentrant);
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
static void test_release__in_the_moment_the_waits_end_leaves_nothing(void **state)
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

/** The first of a channel gives up: the next tries when the owner's lease has ended. */
static void test_wait__the_next_takes_over_from_one_whose_time_is_up(void **state)
{
    enum { HASTY_MS = LEASE_MS / 4 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct rlock_acquire_options hasty = waiting(&rlock_plain, 0, HASTY_MS);
    struct call held = {0}, calls[3] = {0};

    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait(bob, &calls[0], NAME, &hasty);
    call_wait(bob, &calls[1], NAME, &options);
    call_wait(bob, &calls[2], NAME, &options);
    for (int i = 0; i < 3; i++)
        fixture_wait_asleep(fixture, bob, &calls[i]);
    fixture_pass_ms(fixture, HASTY_MS);
    fixture_wait_answers(fixture, &calls[0], 1);
    ASSERT_STATUS(calls[0].status, STATUS_BUSY);
    fixture_wait_asleep(fixture, bob, &calls[1]);
    server_pass_ms(fixture->server, LEASE_MS);
    fixture_pass_ms(fixture, LEASE_MS);
    assert_tries(&calls[1]);
    fixture_wait_answers(fixture, &calls[1], 1);
    ASSERT_STATUS(calls[1].status, STATUS_OK);
    assert_int_equal(calls[2].answers, 0);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release(fixture, bob, &calls[1]), STATUS_OK);
    fixture_wait_answers(fixture, &calls[2], 1);
    ASSERT_STATUS(calls[2].status, STATUS_OK);
}

/** The first of a channel is granted the lock and dies: the lease of that grant counts. */
static void test_wait__the_next_takes_over_from_one_who_was_granted(void **state)
{
    enum { BRIEF_MS = 1500 }; /* less than to the next look */
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct rlock_acquire_options brief = options;
    struct call held = {0}, calls[2] = {0};

    brief.lease_ms = BRIEF_MS;
    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    call_wait(bob, &calls[0], NAME, &brief);
    call_wait(bob, &calls[1], NAME, &options);
    fixture_wait_asleep(fixture, bob, &calls[0]);
    fixture_wait_asleep(fixture, bob, &calls[1]);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &calls[0], 1);
    ASSERT_STATUS(calls[0].status, STATUS_OK);
    call_rest(fixture, &calls[1]);
    server_pass_ms(fixture->server, BRIEF_MS);
    fixture_pass_ms(fixture, BRIEF_MS + 20);
    assert_tries(&calls[1]);
    fixture_wait_answers(fixture, &calls[1], 1);
    ASSERT_STATUS(calls[1].status, STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&calls[1].lock), >, rlock_fence(&calls[0].lock));
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
