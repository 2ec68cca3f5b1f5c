/* it_cluster_moves.c - locks in a cluster whose slots move from one master to another. */
#include "lock/keys.h"
#include "test/cluster.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

struct move {
    unsigned slot;
    int from, to;
};

static void begin_move(const struct move *move)
{
    char id[64];

    cluster_node_id(&cluster_nodes[move->from], id);
    server_do(&cluster_nodes[move->to], "CLUSTER SETSLOT %u IMPORTING %s", move->slot,
              id);
    cluster_node_id(&cluster_nodes[move->to], id);
    server_do(&cluster_nodes[move->from], "CLUSTER SETSLOT %u MIGRATING %s", move->slot,
              id);
}

static void move_keys(const struct move *move, unsigned count)
{
    redisReply *keys = server_command(&cluster_nodes[move->from],
                                      "CLUSTER GETKEYSINSLOT %u %u", move->slot, count);

    for (size_t i = 0; i < keys->elements; i++)
        server_do(&cluster_nodes[move->from], "MIGRATE 127.0.0.1 %u %b 0 60000",
                  cluster_nodes[move->to].port, keys->element[i]->str,
                  keys->element[i]->len);
    freeReplyObject(keys);
}

/**
 * Give the slot to its new master, and wait until all nodes know it. Only one move may end at a
 * time. At the end of a move, the new master takes a configuration epoch above all epochs that it
 * knows. If it does not know the epoch of another move that has just ended, the new master of that
 * other move may claim this slot, and the keys of the slot are lost.
 */
static void end_move(const struct move *move)
{
    char id[64];

    cluster_node_id(&cluster_nodes[move->to], id);
    server_do(&cluster_nodes[move->to], "CLUSTER SETSLOT %u NODE %s", move->slot, id);
    server_do(&cluster_nodes[move->from], "CLUSTER SETSLOT %u NODE %s", move->slot, id);
    cluster_await_complete();
}

/** Return the move of a bucket from its first master to the next master. With `is_back` the
 *  bucket moves the other way. */
static struct move move_of(unsigned bucket, bool is_back)
{
    unsigned slot = cluster_slot_of(bucket);
    int home = cluster_master_of(slot), away = (home + 1) % CLUSTER_MASTERS;

    return is_back ? (struct move){slot, away, home} : (struct move){slot, home, away};
}

static void move_bucket(unsigned bucket, bool is_back)
{
    struct move move = move_of(bucket, is_back);

    begin_move(&move);
    move_keys(&move, 1000);
    end_move(&move);
}

static void move_buckets(bool is_back)
{
    for (unsigned i = 0; i < RLOCK_BUCKETS; i++)
        move_bucket(i, is_back);
}

struct subscription {
    int node;
    const char *name; /* a name in bucket 0 */
};

static bool is_subscribed(void *arg)
{
    const struct subscription *wanted = arg;
    redisReply *found = server_command(&cluster_nodes[wanted->node],
                                       "PUBSUB SHARDNUMSUB rlock:{0}%s", wanted->name);
    bool is_one = found->element[1]->integer == 1;

    freeReplyObject(found);
    return is_one;
}

static void on_inspected(enum rlock_status status, const struct rlock_info *info,
                         void *arg)
{
    struct answer *answer = arg;

    ASSERT_STATUS(status, RLOCK_OK);
    answer->count = info->waiters;
    answer->answers++;
}

/** The waiter uses SSUBSCRIBE at the master of the slot. So no other node has the channel, and
 *  no node has a channel of SUBSCRIBE. */
CLUSTER_CASE(test_rlock_acquire__waits_at_a_channel_of_the_slot)
{
    struct rlock_acquire_options how = waiting(NULL, 0, RLOCK_WAIT_FOREVER);
    struct fixture *fixture = *state;
    struct rlock_client *alice = cluster_client(fixture), *bob = cluster_client(fixture);
    struct call held = {0}, call = {0};
    struct move move = move_of(0, false);
    struct subscription there = {move.from, NULL};
    struct answer answer = {0};
    char name[16];

    there.name = cluster_name_in(0, name);
    ASSERT_STATUS(acquire_with(fixture, alice, &held, name, &how), RLOCK_OK);
    call_wait(bob, &call, name, &how);
    fixture_wait_asleep(fixture, bob, &call);
    assert_true(is_subscribed(&there));
    for (int i = 0; i < CLUSTER_NODES; i++) {
        redisReply *all = server_command(&cluster_nodes[i], "PUBSUB CHANNELS");

        assert_int_equal(all->elements, 0);
        freeReplyObject(all);
    }
    rlock_inspect(bob, name, strlen(name), on_inspected, &answer);
    rlock_flush(bob);
    fixture_wait_count(fixture, &answer.answers, 1);
    assert_int_equal(answer.count, 1);
    move_bucket(0, false);
    there.node = move.to;
    FIXTURE_AWAIT(fixture, is_subscribed, &there);
    fixture_wait_asleep(fixture, bob, &call);
    fixture_settle(fixture);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release(fixture, alice, &held), RLOCK_OK);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, RLOCK_OK);
    ASSERT_STATUS(release(fixture, bob, &call), RLOCK_OK);
    move_bucket(0, true);
}

CLUSTER_CASE(test_rlock__resharding_loses_no_lock)
{
    static struct call calls[CLUSTER_NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = cluster_client(fixture);
    struct rlock_acquire_options how = {
        .lease_ms = LEASE_MS, .watchdog = true, .wait_ms = RLOCK_WAIT_FOREVER};
    struct call call = {0};
    int64_t fence;

    memset(calls, 0, sizeof(calls));
    cluster_acquire_all(fixture, client, calls, &how);
    fence = rlock_fence(&calls[7].lock);
    move_buckets(false);
    fixture_jump_ms(fixture, LEASE_MS / 3 + 1);
    fixture_wait_renewed(fixture, client, CLUSTER_NAMES);
    for (int i = 0; i < CLUSTER_NAMES; i++) {
        assert_int_equal(calls[i].losses, 0);
        assert_true(rlock_is_held(&calls[i].lock));
    }
    cluster_release_all(fixture, client, calls);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &how), RLOCK_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, fence);
    move_buckets(true);
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
}

static void raise_fences(enum rlock_status status, const struct rlock_info *info,
                         void *arg)
{
    (void)info;
    ASSERT_STATUS(status, RLOCK_NOT_FOUND);
    rlock_raise_fences(arg, 0);
}

/** One read gets two replies: one whose callback adds a command to the buffer, and a MOVED. The
 *  command must be sent nevertheless, because the connection moves only when no command is
 *  pending. */
CLUSTER_CASE(test_rlock__a_command_in_the_buffer_delays_no_move)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = cluster_client(fixture);
    struct answer answer = {0};
    struct call call = {0};
    char name[16];

    cluster_name_in(0, name);
    ASSERT_STATUS(inspect(fixture, client, &answer, name), RLOCK_NOT_FOUND);
    fixture_settle(fixture); /* now the master has the scripts */
    rlock_inspect(client, name, strlen(name), raise_fences, client);
    rlock_flush(client);
    server_settle();
    move_bucket(0, false);
    call_acquire(client, &call, name, LEASE_MS);
    rlock_flush(client);
    server_settle();
    fixture_hold_timers(fixture);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, RLOCK_OK);
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
    move_bucket(0, true);
}

static bool are_released(void *unused)
{
    (void)unused;
    return cluster_count_keys() == RLOCK_BUCKETS; /* only the fence counters are left */
}

/** Each slot has some keys on one master and some on another. A call for several of these keys
 *  gets TRYAGAIN, and a call for a key that has moved gets ASK. */
CLUSTER_CASE(test_rlock__half_moved_slots_lose_no_lock)
{
    static struct call calls[CLUSTER_NAMES], waiting_calls[RLOCK_BUCKETS];
    struct fixture *fixture = *state;
    struct rlock_client *client = cluster_client(fixture);
    struct rlock_acquire_options how = {
        .lease_ms = LEASE_MS, .watchdog = true, .wait_ms = RLOCK_WAIT_FOREVER};
    struct move moves[RLOCK_BUCKETS];
    char name[24];

    memset(calls, 0, sizeof(calls));
    memset(waiting_calls, 0, sizeof(waiting_calls));
    cluster_acquire_all(fixture, client, calls, &how);
    for (unsigned i = 0; i < RLOCK_BUCKETS; i++) {
        moves[i] = move_of(i, false);
        begin_move(&moves[i]);
        move_keys(&moves[i], CLUSTER_NAMES / RLOCK_BUCKETS / 2);
    }
    fixture_jump_ms(fixture, LEASE_MS / 3 + 1);
    for (unsigned i = 0; i < RLOCK_BUCKETS; i++) {
        snprintf(name, sizeof(name), "more:%u", i);
        call_acquire_with(client, &waiting_calls[i], name, &how);
    }
    for (int i = 0; i < CLUSTER_NAMES; i += 2)
        call_release(client, &calls[i]);
    for (int i = 0; i < CLUSTER_NAMES; i += 2)
        fixture_wait_answers(fixture, &calls[i], 2);
    for (unsigned i = 0; i < RLOCK_BUCKETS; i++) {
        move_keys(&moves[i], 1000);
        end_move(&moves[i]);
    }
    for (unsigned i = 0; i < RLOCK_BUCKETS; i++) {
        fixture_wait_answers(fixture, &waiting_calls[i], 1);
        ASSERT_STATUS(waiting_calls[i].status, RLOCK_OK);
        ASSERT_STATUS(release(fixture, client, &waiting_calls[i]), RLOCK_OK);
    }
    fixture_wait_renewed(fixture, client, CLUSTER_NAMES / 2);
    for (int i = 1; i < CLUSTER_NAMES; i += 2) {
        assert_int_equal(calls[i].losses, 0);
        ASSERT_STATUS(release(fixture, client, &calls[i]), RLOCK_OK);
    }
    FIXTURE_AWAIT(fixture, are_released, NULL);
    move_buckets(true);
}

int main(void)
{
    return cases_run(cluster_start, cluster_stop);
}
