/* topology.c - see topology.h. */
#include "test/topology.h"
#include "base/clock.h"
#include "test/asserts.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WITHIN_US INT64_C(60000000)

static bool is_primary(struct server *server)
{
    redisReply *reply;
    bool found;

    if (server->pid == 0)
        return false;
    reply = server_command(server, "ROLE");
    found =
        reply->type == REDIS_REPLY_ARRAY && strcmp(reply->element[0]->str, "master") == 0;
    freeReplyObject(reply);
    return found;
}

int topology_primary(struct topology *topology)
{
    bool is_first = is_primary(&topology->servers[0]);
    bool is_second = is_primary(&topology->servers[1]);

    return is_first == is_second ? -1 : is_second;
}

static bool has_one_replica(struct server *sentinel)
{
    redisReply *reply = server_command(sentinel, "SENTINEL REPLICAS " TOPOLOGY_MASTER);
    bool found = reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
                 reply->element[0]->elements > 9 &&
                 strcmp(reply->element[0]->element[9]->str, "slave") == 0;

    freeReplyObject(reply);
    return found;
}

bool topology_is_complete(struct topology *topology)
{
    int primary = topology_primary(topology);

    if (primary < 0 || !server_says(&topology->servers[!primary], "INFO replication",
                                    "master_link_status:up"))
        return false;
    for (int i = 0; i < TOPOLOGY_SENTINELS; i++) {
        if (!server_says(&topology->sentinels[i], "SENTINEL CKQUORUM " TOPOLOGY_MASTER,
                         "OK 3 usable") ||
            !has_one_replica(&topology->sentinels[i]))
            return false;
    }
    return true;
}

static void await_complete(struct topology *topology)
{
    int64_t end_us = clock_mono_us() + WITHIN_US;

    while (!topology_is_complete(topology)) {
        if (clock_mono_us() > end_us)
            fail_msg("the servers and the sentinels do not know each other after 60 s");
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static void start_sentinel(struct topology *topology, struct server *sentinel,
                           unsigned down_after_ms)
{
    static const char *const options[] = {"--sentinel", NULL};

    server_start(sentinel, options);
    server_do(sentinel,
              "SENTINEL DEBUG publish-period 500 info-period 1000 tilt-period 2000");
    server_do(sentinel, "SENTINEL MONITOR " TOPOLOGY_MASTER " 127.0.0.1 %u 2",
              topology->servers[0].port);
    server_do(sentinel,
              "SENTINEL SET " TOPOLOGY_MASTER
              " down-after-milliseconds %u failover-timeout 3000",
              down_after_ms);
}

void topology_start(struct topology *topology, unsigned down_after_ms)
{
    static const char *const options[] = {"--repl-diskless-sync-delay", "0", NULL};

    for (int i = 0; i < 2; i++)
        server_start(&topology->servers[i], options);
    server_do(&topology->servers[1], "REPLICAOF 127.0.0.1 %u", topology->servers[0].port);
    for (int i = 0; i < TOPOLOGY_SENTINELS; i++)
        start_sentinel(topology, &topology->sentinels[i], down_after_ms);
    snprintf(
        topology->url, sizeof(topology->url),
        "redis-sentinel://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u?master=" TOPOLOGY_MASTER,
        topology->sentinels[0].port, topology->sentinels[1].port,
        topology->sentinels[2].port);
    await_complete(topology);
}

void topology_stop(struct topology *topology)
{
    for (int i = 0; i < TOPOLOGY_SENTINELS; i++)
        server_stop(&topology->sentinels[i]);
    for (int i = 0; i < 2; i++)
        server_stop(&topology->servers[i]);
}

void topology_fail_over(struct topology *topology, int to)
{
    struct server *sentinel = &topology->sentinels[0];
    redisReply *named =
        server_command(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME " TOPOLOGY_MASTER);
    bool is_done = named->elements == 2 && strtoul(named->element[1]->str, NULL, 10) ==
                                               topology->servers[to].port;

    freeReplyObject(named);
    if (!is_done)
        freeReplyObject(server_command(sentinel, "SENTINEL FAILOVER " TOPOLOGY_MASTER));
}

void topology_mend(struct topology *topology)
{
    int64_t end_us = clock_mono_us() + WITHIN_US;

    await_complete(topology);
    if (topology_primary(topology) == 0)
        return;
    while (topology_primary(topology) != 0) {
        if (clock_mono_us() > end_us)
            fail_msg("the first server is not the primary after 60 s");
        topology_fail_over(topology, 0);
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    await_complete(topology);
}
