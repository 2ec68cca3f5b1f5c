/* cluster.c - see cluster.h. */
#include "test/cluster.h"
#include "lock/keys.h"
#include "test/port.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SLOTS 16384

/* A master that a busy machine stops for a while must not be replaced by its replica, except in
   the tests that set a shorter timeout. */
#define NODE_TIMEOUT_MS "60000"

struct server cluster_nodes[CLUSTER_NODES];
char cluster_url[128];

static char bus_ports[CLUSTER_NODES][8];
static const char *options[CLUSTER_NODES][11];

/** Return a number that is computed from the ranges of slots and their masters, as this node knows
 *  them. Nodes with the same number have the same view. */
static long long view_of(struct server *server)
{
    redisReply *map = server_command(server, "CLUSTER SLOTS");
    long long sum = 0;

    for (size_t i = 0; i < map->elements; i++) {
        const redisReply *range = map->element[i];

        sum += (range->element[0]->integer + 1) * range->element[2]->element[1]->integer +
               range->element[1]->integer;
    }
    freeReplyObject(map);
    return sum;
}

/** Whether all nodes are up and agree, and no node counts as failed. A master that has come back
 *  counts as failed for two node timeouts. If it stopped again in this time, its replica would
 *  replace it at once. */
static bool is_complete(void)
{
    for (int i = 0; i < CLUSTER_NODES; i++) {
        if (!server_says(&cluster_nodes[i], "CLUSTER INFO", "cluster_state:ok") ||
            !server_says(&cluster_nodes[i], "CLUSTER INFO", "known_nodes:4") ||
            server_says(&cluster_nodes[i], "CLUSTER NODES", "fail") ||
            view_of(&cluster_nodes[i]) != view_of(&cluster_nodes[0]))
            return false;
    }
    return server_says(&cluster_nodes[0], "INFO replication", "role:master") &&
           server_says(&cluster_nodes[CLUSTER_MASTERS], "INFO replication",
                       "role:slave") &&
           server_says(&cluster_nodes[CLUSTER_MASTERS], "INFO replication",
                       "master_link_status:up");
}

static void fail_incomplete(void)
{
    for (int i = 0; i < CLUSTER_NODES; i++) {
        redisReply *view = server_command(&cluster_nodes[i], "CLUSTER NODES");
        redisReply *info = server_command(&cluster_nodes[i], "INFO replication");

        print_error("%s%s\n", view->str, info->str);
        freeReplyObject(view);
        freeReplyObject(info);
    }
    fail_msg("the cluster is not complete after %d ms", WITHIN_MS);
}

void cluster_await_complete(void)
{
    for (int waited_ms = 0; !is_complete(); waited_ms += 20) {
        if (waited_ms > WITHIN_MS)
            fail_incomplete();
        /* TAKEOVER needs no vote. After a vote that it has lost, a node asks again only after
           four node timeouts. */
        if (waited_ms % 6000 == 0 &&
            server_says(&cluster_nodes[0], "INFO replication", "role:slave"))
            freeReplyObject(
                server_command(&cluster_nodes[0], "CLUSTER FAILOVER TAKEOVER"));
        uv_sleep(20);
    }
}

void cluster_node_id(struct server *server, char ret_id[64])
{
    redisReply *reply = server_command(server, "CLUSTER MYID");

    snprintf(ret_id, 64, "%s", reply->str);
    freeReplyObject(reply);
}

static bool knows(struct server *server, const char *id)
{
    return server_says(server, "CLUSTER NODES", id);
}

int cluster_start(void **state)
{
    char id[64];

    (void)state;
    for (int i = 0; i < CLUSTER_NODES; i++) {
        const char *const words[] = {"--cluster-enabled",
                                     "yes",
                                     "--cluster-node-timeout",
                                     NODE_TIMEOUT_MS,
                                     "--cluster-port",
                                     bus_ports[i],
                                     "--repl-diskless-sync-delay",
                                     "0",
                                     "--cluster-require-full-coverage",
                                     "no",
                                     NULL};

        memcpy(options[i], words, sizeof(words));
        snprintf(bus_ports[i], sizeof(bus_ports[i]), "%u", port_free());
        server_start(&cluster_nodes[i], options[i]);
        server_do(&cluster_nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
        if (i < CLUSTER_MASTERS)
            server_do(&cluster_nodes[i], "CLUSTER ADDSLOTSRANGE %d %d",
                      i * SLOTS / CLUSTER_MASTERS, (i + 1) * SLOTS / CLUSTER_MASTERS - 1);
        if (i > 0)
            server_do(&cluster_nodes[0], "CLUSTER MEET 127.0.0.1 %u %s",
                      cluster_nodes[i].port, bus_ports[i]);
    }
    cluster_node_id(&cluster_nodes[0], id);
    while (!knows(&cluster_nodes[CLUSTER_MASTERS], id))
        uv_sleep(10);
    server_do(&cluster_nodes[CLUSTER_MASTERS], "CLUSTER REPLICATE %s", id);
    cluster_await_complete();
    snprintf(cluster_url, sizeof(cluster_url),
             "redis-cluster://127.0.0.1:%u,127.0.0.1:%u",
             cluster_nodes[CLUSTER_MASTERS].port, cluster_nodes[1].port);
    fixture_use_server(&cluster_nodes[1]);
    return 0;
}

int cluster_stop(void **state)
{
    (void)state;
    for (int i = 0; i < CLUSTER_NODES; i++)
        server_stop(&cluster_nodes[i]);
    return 0;
}

void cluster_set_node_timeout(const char *ms)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        server_do(&cluster_nodes[i], "CONFIG SET cluster-node-timeout %s", ms);
}

int cluster_setup(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    cluster_await_complete();
    cluster_set_node_timeout(NODE_TIMEOUT_MS);
    for (int i = 0; i < CLUSTER_MASTERS; i++)
        server_do(&cluster_nodes[i], "FLUSHALL");
    return fixture_setup(state);
}

struct rlock_client *cluster_client(struct fixture *fixture)
{
    struct rlock_client *client =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = cluster_url,
                                                            .timeout_ms = TIMEOUT_MS});

    fixture_wait_up(fixture, client);
    return client;
}

long long cluster_count_keys(void)
{
    long long count = 0;

    for (int i = 0; i < CLUSTER_MASTERS; i++)
        count += server_int(&cluster_nodes[i], "DBSIZE");
    return count;
}

void cluster_acquire_all(struct fixture *fixture, struct rlock_client *client,
                         struct call *calls, const struct rlock_acquire_options *how)
{
    char name[24];

    for (int i = 0; i < CLUSTER_NAMES; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        calls[i].answers = 0;
        call_acquire_with(client, &calls[i], name, how);
    }
    rlock_flush(client);
    for (int i = 0; i < CLUSTER_NAMES; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        if (calls[i].status != RLOCK_OK)
            fail_msg("item:%d: %s: %s", i, rlock_status_name(calls[i].status),
                     rlock_client_why(client)->text);
    }
}

void cluster_release_all(struct fixture *fixture, struct rlock_client *client,
                         struct call *calls)
{
    for (int i = 0; i < CLUSTER_NAMES; i++) {
        calls[i].answers = 0;
        call_release(client, &calls[i]);
    }
    rlock_flush(client);
    for (int i = 0; i < CLUSTER_NAMES; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, RLOCK_OK);
        calls[i].answers = 0;
    }
}

int cluster_master_of(unsigned slot)
{
    return (int)(slot * CLUSTER_MASTERS / SLOTS);
}

unsigned cluster_slot_of(unsigned bucket)
{
    return (unsigned)server_int(&cluster_nodes[1], "CLUSTER KEYSLOT {%u}", bucket);
}

const char *cluster_name_in(unsigned bucket, char ret_name[16])
{
    size_t len;

    for (int i = 0;; i++) {
        len = (size_t)snprintf(ret_name, 16, "item:%d", i);
        if (rlock_keys_hash(ret_name, len) % RLOCK_BUCKETS == bucket)
            return ret_name;
    }
}
