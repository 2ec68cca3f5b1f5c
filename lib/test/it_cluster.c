/* it_cluster.c - locks on all masters of a cluster, and what happens without a master. */
#include "base/clock.h"
#include "lock/keys.h"
#include "test/cluster.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS, &rlock_read,
                                                 &rlock_getset};
enum { KINDS = 9 };

/** Whether each master has one connection of the client, and one of this test. */
static bool have_one_connection(void *unused)
{
    (void)unused;
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        redisReply *list = server_command(&cluster_nodes[i], "CLIENT LIST TYPE normal");
        size_t count = 0;

        for (const char *at = list->str; (at = strchr(at, '\n')) != NULL; at++)
            count++;
        freeReplyObject(list);
        if (count != 2)
            return false;
    }
    return true;
}

CLUSTER_CASE(test_rlock_acquire__of_every_kind_on_all_masters)
{
    static struct call calls[CLUSTER_NAMES];
    static int64_t fences[CLUSTER_NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = cluster_client(fixture);

    memset(calls, 0, sizeof(calls));
    memset(fences, 0, sizeof(fences));
    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options how = waiting(kinds[k], 0, 0);
        struct answer answer = {0};

        cluster_acquire_all(fixture, client, calls, &how);
        for (int i = 0; i < CLUSTER_NAMES; i++) {
            ASSERT_NUMBER(rlock_fence(&calls[i].lock), >, fences[i]);
            fences[i] = rlock_fence(&calls[i].lock);
        }
        for (int i = 0; i < CLUSTER_MASTERS; i++)
            ASSERT_NUMBER(server_int(&cluster_nodes[i], "DBSIZE"), >,
                          CLUSTER_NAMES / CLUSTER_MASTERS / 3);
        FIXTURE_AWAIT(fixture, have_one_connection, NULL);
        ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), RLOCK_OK);
        cluster_release_all(fixture, client, calls);
        /* each bucket has a fence counter */
        assert_int_equal(cluster_count_keys(), RLOCK_BUCKETS);
        ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), RLOCK_NOT_FOUND);
    }
}

struct list_of_names {
    unsigned char told[CLUSTER_NAMES];
    unsigned count, answers;
    enum rlock_status status;
};

static bool on_owner(const struct rlock_info *info, void *arg)
{
    struct list_of_names *list = arg;

    assert_memory_equal(info->name, "item:", 5);
    list->told[strtol(info->name + 5, NULL, 10)]++;
    list->count++;
    assert_true(info->is_ours);
    return true;
}

static void on_end(enum rlock_status status, void *arg)
{
    struct list_of_names *list = arg;

    list->status = status;
    list->answers++;
}

CLUSTER_CASE(test_rlock_list__asks_all_masters)
{
    static struct call calls[CLUSTER_NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = cluster_client(fixture);
    struct rlock_acquire_options how = {.lease_ms = LEASE_MS};
    struct list_of_names list = {0}, of_item_7 = {0};

    memset(calls, 0, sizeof(calls));
    cluster_acquire_all(fixture, client, calls, &how);
    rlock_list(client, NULL, 0, on_owner, on_end, &list);
    rlock_list(client, "item:7", 6, on_owner, on_end, &of_item_7);
    fixture_wait_count(fixture, &list.answers, 1);
    ASSERT_STATUS(list.status, RLOCK_OK);
    assert_int_equal(list.count, CLUSTER_NAMES);
    for (int i = 0; i < CLUSTER_NAMES; i++)
        assert_int_equal(list.told[i], 1);
    ASSERT_STATUS(of_item_7.status, RLOCK_OK);
    assert_int_equal(of_item_7.count, 1);
    assert_int_equal(of_item_7.told[7], 1);
    cluster_release_all(fixture, client, calls);
}

static bool is_on(const struct call *call, int node)
{
    return cluster_master_of(cluster_slot_of(call->lock.bucket)) == node;
}

CLUSTER_CASE(test_rlock__without_a_master_others_go_on)
{
    static struct call calls[CLUSTER_NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = cluster_client(fixture);
    struct rlock_acquire_options how = {.lease_ms = LEASE_MS};
    unsigned down = 0, waiting_count = 0;
    char name[24];

    memset(calls, 0, sizeof(calls));
    /* now the client knows the masters of the buckets */
    cluster_acquire_all(fixture, client, calls, &how);
    cluster_release_all(fixture, client, calls);
    cluster_set_node_timeout("2500");
    server_kill(&cluster_nodes[0]);
    fixture_wait_down(fixture, client);
    for (int i = 0; i < CLUSTER_NAMES; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        how.wait_ms = is_on(&calls[i], 0) && i % 2 == 0 ? RLOCK_WAIT_FOREVER : 0;
        waiting_count += how.wait_ms > 0;
        call_acquire_with(client, &calls[i], name, &how);
    }
    rlock_flush(client);
    for (int i = 0; i < CLUSTER_NAMES; i++) {
        if (is_on(&calls[i], 0) && i % 2 == 0)
            continue;
        fixture_wait_answers(fixture, &calls[i], 1);
        if (!is_on(&calls[i], 0))
            ASSERT_STATUS(calls[i].status, RLOCK_OK);
        down += calls[i].status == RLOCK_DOWN;
    }
    ASSERT_NUMBER(down + waiting_count, >, CLUSTER_NAMES / 10);
    /* these calls get the lock when the replica is promoted */
    for (int i = 0; i < CLUSTER_NAMES; i++) {
        if (is_on(&calls[i], 0) && i % 2 == 0) {
            fixture_wait_answers(fixture, &calls[i], 1);
            ASSERT_STATUS(calls[i].status, RLOCK_OK);
        }
    }
    fixture_wait_up(fixture, client);
    server_restart(&cluster_nodes[0]);
    cluster_await_complete();
}

/** Return how many connections the nodes have accepted, without the node that was killed. */
static long long count_accepted(void)
{
    long long count = 0;

    for (int i = 1; i < CLUSTER_NODES; i++) {
        redisReply *info = server_command(&cluster_nodes[i], "INFO stats");

        count += strtoll(strstr(info->str, "total_connections_received:") + 27, NULL, 10);
        freeReplyObject(info);
    }
    return count;
}

/** The connections of a client look for their lost master together, so they connect to few
 *  nodes. */
CLUSTER_CASE(test_redis_conn__siblings_search_a_dead_master_together)
{
    static struct call calls[CLUSTER_NAMES], waiters[CLUSTER_NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = cluster_client(fixture);
    struct rlock_acquire_options how = {.lease_ms = LEASE_MS};
    long long accepted;
    int64_t begin_us;
    char name[24];

    memset(calls, 0, sizeof(calls));
    memset(waiters, 0, sizeof(waiters));
    cluster_acquire_all(fixture, client, calls, &how);
    how.wait_ms = RLOCK_WAIT_FOREVER;
    for (int i = 0; i < CLUSTER_NAMES; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        call_acquire_with(client, &waiters[i], name, &how);
    }
    rlock_flush(client);
    for (int i = 0; i < CLUSTER_NAMES; i++)
        fixture_wait_asleep(fixture, client, &waiters[i]);
    cluster_set_node_timeout("5000");
    accepted = count_accepted();
    begin_us = clock_mono_us();
    server_kill(&cluster_nodes[0]);
    fixture_wait_down(fixture, client);
    fixture_run_for(fixture, 1000);
    ASSERT_NUMBER(count_accepted() - accepted, <=,
                  5 + 2 * ((clock_mono_us() - begin_us - 1000000) / 1000000 + 1));
    server_restart(&cluster_nodes[0]);
    cluster_await_complete();
    fixture_wait_up(fixture, client);
    fixture_close(fixture, client);
}

CLUSTER_CASE(test_rlock__without_an_owner_of_a_slot_is_down)
{
    struct rlock_acquire_options how = {.wait_ms = RLOCK_WAIT_FOREVER};
    struct fixture *fixture = *state;
    struct rlock_client *client;
    struct call call = {0}, other = {0};
    char name[24];
    unsigned slot = cluster_slot_of(0);
    int owner = cluster_master_of(slot);

    for (int i = 0; i < CLUSTER_NODES; i++)
        server_do(&cluster_nodes[i], "CLUSTER DELSLOTS %u", slot);
    client =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = cluster_url,
                                                            .timeout_ms = TIMEOUT_MS});
    ASSERT_STATUS(acquire_with(fixture, client, &other, cluster_name_in(1, name), &how),
                  RLOCK_OK);
    ASSERT_STATUS(acquire(fixture, client, &call, cluster_name_in(0, name), LEASE_MS),
                  RLOCK_DOWN);
    assert_false(rlock_client_is_up(client));
    server_do(&cluster_nodes[owner], "CLUSTER ADDSLOTS %u", slot);
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire(fixture, client, &call, name, LEASE_MS), RLOCK_OK);
}

int main(void)
{
    return cases_run(cluster_start, cluster_stop);
}
