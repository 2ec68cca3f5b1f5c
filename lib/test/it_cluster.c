/* it_cluster.c - locks on three masters of a cluster; one of them has a replica. */
#include "base/clock.h"
#include "lock/keys.h"
#include "lock/rlock_group.h"
#include "test/port.h"
#include "test/probe.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASTERS 3
#define NODES   (MASTERS + 1)
#define NAMES   300
#define SLOTS   16384

/* A master that a busy machine stops for a while must not be replaced by its replica, except in
   the tests that set a shorter timeout. */
#define NODE_TIMEOUT_MS "60000"

static struct server nodes[NODES];
static char bus_ports[NODES][8];
static const char *options[NODES][11];
static char url[128];

static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS, &rlock_read,
                                                 &rlock_getset};
enum { KINDS = 9 };

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

/** Whether all nodes are up and agree. No node may count as failed: a master that has come back
 *  counts as failed for two node timeouts, and if it stopped meanwhile, its replica would replace
 *  it at once. */
static bool is_complete(void)
{
    for (int i = 0; i < NODES; i++) {
        if (!server_says(&nodes[i], "CLUSTER INFO", "cluster_state:ok") ||
            !server_says(&nodes[i], "CLUSTER INFO", "known_nodes:4") ||
            server_says(&nodes[i], "CLUSTER NODES", "fail") ||
            view_of(&nodes[i]) != view_of(&nodes[0]))
            return false;
    }
    return server_says(&nodes[0], "INFO replication", "role:master") &&
           server_says(&nodes[MASTERS], "INFO replication", "role:slave") &&
           server_says(&nodes[MASTERS], "INFO replication", "master_link_status:up");
}

static void fail_incomplete(void)
{
    for (int i = 0; i < NODES; i++) {
        redisReply *view = server_command(&nodes[i], "CLUSTER NODES");
        redisReply *info = server_command(&nodes[i], "INFO replication");

        print_error("%s%s\n", view->str, info->str);
        freeReplyObject(view);
        freeReplyObject(info);
    }
    fail_msg("the cluster is not complete after %d ms", WITHIN_MS);
}

/** Wait until the cluster is complete. If its replica has replaced the first node, the first node
 *  becomes the master again. */
static void await_complete(void)
{
    for (int waited_ms = 0; !is_complete(); waited_ms += 20) {
        if (waited_ms > WITHIN_MS)
            fail_incomplete();
        /* TAKEOVER needs no vote. After a vote that it has lost, a node asks again only after
           four node timeouts. */
        if (waited_ms % 6000 == 0 &&
            server_says(&nodes[0], "INFO replication", "role:slave"))
            freeReplyObject(server_command(&nodes[0], "CLUSTER FAILOVER TAKEOVER"));
        uv_sleep(20);
    }
}

static void get_id(struct server *server, char ret_id[64])
{
    redisReply *reply = server_command(server, "CLUSTER MYID");

    snprintf(ret_id, 64, "%s", reply->str);
    freeReplyObject(reply);
}

static bool knows(struct server *server, const char *id)
{
    return server_says(server, "CLUSTER NODES", id);
}

static int start_servers(void **state)
{
    char id[64];

    (void)state;
    for (int i = 0; i < NODES; i++) {
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
        server_start(&nodes[i], options[i]);
        server_do(&nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
        if (i < MASTERS)
            server_do(&nodes[i], "CLUSTER ADDSLOTSRANGE %d %d", i * SLOTS / MASTERS,
                      (i + 1) * SLOTS / MASTERS - 1);
        if (i > 0)
            server_do(&nodes[0], "CLUSTER MEET 127.0.0.1 %u %s", nodes[i].port,
                      bus_ports[i]);
    }
    get_id(&nodes[0], id);
    while (!knows(&nodes[MASTERS], id))
        uv_sleep(10);
    server_do(&nodes[MASTERS], "CLUSTER REPLICATE %s", id);
    await_complete();
    snprintf(url, sizeof(url), "redis-cluster://127.0.0.1:%u,127.0.0.1:%u",
             /* the first host is a replica, which names the masters */
             nodes[MASTERS].port, nodes[1].port);
    fixture_use_server(&nodes[1]);
    return 0;
}

static int stop_servers(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        server_stop(&nodes[i]);
    return 0;
}

static void set_node_timeout(const char *ms)
{
    for (int i = 0; i < NODES; i++)
        server_do(&nodes[i], "CONFIG SET cluster-node-timeout %s", ms);
}

static int setup(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    await_complete();
    set_node_timeout(NODE_TIMEOUT_MS);
    for (int i = 0; i < MASTERS; i++)
        server_do(&nodes[i], "FLUSHALL");
    return fixture_setup(state);
}

static struct rlock_client *open_client(struct fixture *fixture)
{
    struct rlock_client *client =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = url,
                                                            .timeout_ms = TIMEOUT_MS});

    fixture_wait_up(fixture, client);
    return client;
}

static long long count_keys(void)
{
    long long count = 0;

    for (int i = 0; i < MASTERS; i++)
        count += server_int(&nodes[i], "DBSIZE");
    return count;
}

/** Acquire NAMES locks with these options. All must be granted. */
static void acquire_all(struct fixture *fixture, struct rlock_client *client,
                        struct call *calls, const struct rlock_acquire_options *how)
{
    char name[24];

    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        calls[i].answers = 0;
        call_acquire_with(client, &calls[i], name, how);
    }
    rlock_flush(client);
    for (int i = 0; i < NAMES; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        if (calls[i].status != RLOCK_OK)
            fail_msg("item:%d: %s: %s", i, rlock_status_name(calls[i].status),
                     rlock_client_why(client)->text);
    }
}

static void release_all(struct fixture *fixture, struct rlock_client *client,
                        struct call *calls)
{
    for (int i = 0; i < NAMES; i++) {
        calls[i].answers = 0;
        call_release(client, &calls[i]);
    }
    rlock_flush(client);
    for (int i = 0; i < NAMES; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, RLOCK_OK);
        calls[i].answers = 0;
    }
}

#define CLUSTER_CASE(name) GUARDED_CASE(name, setup, fixture_teardown)

/** Whether each master has one connection of the client, and one of this test. */
static bool have_one_connection(void *unused)
{
    (void)unused;
    for (int i = 0; i < MASTERS; i++) {
        redisReply *list = server_command(&nodes[i], "CLIENT LIST TYPE normal");
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
    static struct call calls[NAMES];
    static int64_t fences[NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = open_client(fixture);

    memset(calls, 0, sizeof(calls));
    memset(fences, 0, sizeof(fences));
    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options how = waiting(kinds[k], 0, 0);
        struct answer answer = {0};

        acquire_all(fixture, client, calls, &how);
        for (int i = 0; i < NAMES; i++) {
            ASSERT_NUMBER(rlock_fence(&calls[i].lock), >, fences[i]);
            fences[i] = rlock_fence(&calls[i].lock);
        }
        for (int i = 0; i < MASTERS; i++)
            ASSERT_NUMBER(server_int(&nodes[i], "DBSIZE"), >, NAMES / MASTERS / 3);
        FIXTURE_AWAIT(fixture, have_one_connection, NULL);
        ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), RLOCK_OK);
        release_all(fixture, client, calls);
        assert_int_equal(count_keys(), RLOCK_BUCKETS); /* a fence counter each */
        ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), RLOCK_NOT_FOUND);
    }
}

/** The names that rlock_list() has reported, and how it has ended. */
struct list_of_names {
    unsigned char told[NAMES];
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
    static struct call calls[NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = open_client(fixture);
    struct rlock_acquire_options how = {.lease_ms = LEASE_MS};
    struct list_of_names list = {0}, of_item_7 = {0};

    memset(calls, 0, sizeof(calls));
    acquire_all(fixture, client, calls, &how);
    rlock_list(client, NULL, 0, on_owner, on_end, &list);
    rlock_list(client, "item:7", 6, on_owner, on_end, &of_item_7);
    fixture_wait_count(fixture, &list.answers, 1);
    ASSERT_STATUS(list.status, RLOCK_OK);
    assert_int_equal(list.count, NAMES);
    for (int i = 0; i < NAMES; i++)
        assert_int_equal(list.told[i], 1);
    ASSERT_STATUS(of_item_7.status, RLOCK_OK);
    assert_int_equal(of_item_7.count, 1);
    assert_int_equal(of_item_7.told[7], 1);
    release_all(fixture, client, calls);
}

/** A slot on its way from one master to another. */
struct move {
    unsigned slot;
    int from, to;
};

static void begin_move(const struct move *move)
{
    char id[64];

    get_id(&nodes[move->from], id);
    server_do(&nodes[move->to], "CLUSTER SETSLOT %u IMPORTING %s", move->slot, id);
    get_id(&nodes[move->to], id);
    server_do(&nodes[move->from], "CLUSTER SETSLOT %u MIGRATING %s", move->slot, id);
}

/** Move at most `count` keys of the slot. */
static void move_keys(const struct move *move, unsigned count)
{
    redisReply *keys = server_command(&nodes[move->from], "CLUSTER GETKEYSINSLOT %u %u",
                                      move->slot, count);

    for (size_t i = 0; i < keys->elements; i++)
        server_do(&nodes[move->from], "MIGRATE 127.0.0.1 %u %b 0 60000",
                  nodes[move->to].port, keys->element[i]->str, keys->element[i]->len);
    freeReplyObject(keys);
}

/** Give the slot to its new master, and wait until all nodes know it. Only one move may end at a
 *  time. At the end of a move, the new master takes a configuration epoch above all epochs that it
 *  knows. If it does not know the epoch of another move that has just ended, the new master of that
 *  other move may claim this slot, and the keys of the slot are lost. */
static void end_move(const struct move *move)
{
    char id[64];

    get_id(&nodes[move->to], id);
    server_do(&nodes[move->to], "CLUSTER SETSLOT %u NODE %s", move->slot, id);
    server_do(&nodes[move->from], "CLUSTER SETSLOT %u NODE %s", move->slot, id);
    await_complete();
}

static int owner_of(unsigned slot)
{
    return (int)(slot * MASTERS / SLOTS);
}

static unsigned slot_of(unsigned bucket)
{
    return (unsigned)server_int(&nodes[1], "CLUSTER KEYSLOT {%u}", bucket);
}

/** Find a name in this bucket. */
static const char *name_in(unsigned bucket, char ret_name[16])
{
    size_t len;

    for (int i = 0;; i++) {
        len = (size_t)snprintf(ret_name, 16, "item:%d", i);
        if (rlock_keys_hash(ret_name, len) % RLOCK_BUCKETS == bucket)
            return ret_name;
    }
}

/** Return the move of a bucket to the next master, or with `is_back` the move from there to its
 *  first master. */
static struct move move_of(unsigned bucket, bool is_back)
{
    unsigned slot = slot_of(bucket);
    int home = owner_of(slot), away = (home + 1) % MASTERS;

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
    const char *name; /* in bucket 0 */
};

static bool is_subscribed(void *arg)
{
    const struct subscription *wanted = arg;
    redisReply *found = server_command(&nodes[wanted->node],
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

enum { MEMBERS = KINDS - 1 }; /* a group has all kinds but getset */

/** A group with a member of each kind, each in a bucket of its own, and the answers to its
 *  calls. */
struct group_test {
    struct fixture *fixture;
    struct rlock_group *group;
    char names[MEMBERS][16];
    unsigned answers, losses;
    enum rlock_status status;
};

static void create_group(struct group_test *test, struct rlock_client *client)
{
    struct rlock_member members[MEMBERS];

    for (unsigned i = 0; i < MEMBERS; i++) {
        (void)name_in(i, test->names[i]);
        members[i] = (struct rlock_member){.client = client,
                                           .name = test->names[i],
                                           .name_len = strlen(test->names[i]),
                                           .kind = kinds[i],
                                           .permits = permits_of(kinds[i])};
    }
    ASSERT_STATUS(
        rlock_group_create(members, MEMBERS, RLOCK_GROUP_ALL, &test->group, NULL),
        RLOCK_OK);
}

static void group_on_answer(struct rlock_group *group, enum rlock_status status,
                            void *arg)
{
    struct group_test *test = arg;

    assert_ptr_equal(group, test->group);
    test->status = status;
    test->answers++;
}

static void group_on_lost(struct rlock_group *group, enum rlock_status status, void *arg)
{
    struct group_test *test = arg;

    assert_ptr_equal(group, test->group);
    ASSERT_STATUS(status, RLOCK_LOST);
    test->losses++;
}

static enum rlock_status acquire_group(struct group_test *test, uint32_t wait_ms)
{
    struct rlock_group_options how = {.lease_ms = LEASE_MS,
                                      .watchdog = true,
                                      .on_lost = group_on_lost,
                                      .wait_ms = wait_ms};

    test->answers = 0;
    rlock_group_acquire(test->group, &how, group_on_answer, test);
    fixture_wait_count(test->fixture, &test->answers, 1);
    return test->status;
}

static bool has_members(const struct group_test *test, unsigned wanted)
{
    unsigned count = 0;

    for (unsigned i = 0; i < MEMBERS; i++)
        count += server_int(&nodes[owner_of(slot_of(i))], "EXISTS {%u}%s", i,
                            test->names[i]) == 1;
    return count == wanted;
}

static bool has_one_member(void *arg)
{
    return has_members(arg, 1);
}

static bool has_no_member(void *arg)
{
    return has_members(arg, 0);
}

CLUSTER_CASE(test_rlock_group__of_every_kind_spans_the_masters)
{
    struct group_test test = {.fixture = *state};
    struct rlock_client *client = open_client(*state), *rival = open_client(*state);
    struct call held = {0};

    create_group(&test, client);
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct rlock_acquire_options how =
            waiting(kinds[i] == &rlock_read ? &rlock_write : kinds[i], 0, 0);

        ASSERT_STATUS(acquire_with(*state, rival, &held, test.names[i], &how), RLOCK_OK);
        ASSERT_STATUS(acquire_group(&test, 0), RLOCK_BUSY);
        FIXTURE_AWAIT(*state, has_one_member, &test);
        ASSERT_STATUS(release(*state, rival, &held), RLOCK_OK);
        ASSERT_STATUS(acquire_group(&test, RLOCK_WAIT_FOREVER), RLOCK_OK);
        assert_true(has_members(&test, MEMBERS));
        test.losses = 0;
        server_do(&nodes[owner_of(slot_of(i))], "DEL {%u}%s", i, test.names[i]);
        fixture_pass_ms(*state, LEASE_MS / 3 + 1);
        fixture_wait_count(*state, &test.losses, 1);
        FIXTURE_AWAIT(*state, has_no_member, &test);
    }
    rlock_group_free(test.group);
}

/** The waiter uses SSUBSCRIBE at the master of the slot. So the other nodes have no channel, and no
 *  node has a channel of SUBSCRIBE. */
CLUSTER_CASE(test_rlock_acquire__waits_at_a_channel_of_the_slot)
{
    struct rlock_acquire_options how = waiting(NULL, 0, RLOCK_WAIT_FOREVER);
    struct fixture *fixture = *state;
    struct rlock_client *alice = open_client(fixture), *bob = open_client(fixture);
    struct call held = {0}, call = {0};
    struct move move = move_of(0, false);
    struct subscription there = {move.from, NULL};
    struct answer answer = {0};
    char name[16];

    there.name = name_in(0, name);
    ASSERT_STATUS(acquire_with(fixture, alice, &held, name, &how), RLOCK_OK);
    call_wait(bob, &call, name, &how);
    fixture_wait_asleep(fixture, bob, &call);
    assert_true(is_subscribed(&there));
    for (int i = 0; i < NODES; i++) {
        redisReply *all = server_command(&nodes[i], "PUBSUB CHANNELS");

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
    static struct call calls[NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = open_client(fixture);
    struct rlock_acquire_options how = {
        .lease_ms = LEASE_MS, .watchdog = true, .wait_ms = RLOCK_WAIT_FOREVER};
    struct call call = {0};
    int64_t fence;

    memset(calls, 0, sizeof(calls));
    acquire_all(fixture, client, calls, &how);
    fence = rlock_fence(&calls[7].lock);
    move_buckets(false);
    fixture_jump_ms(fixture, LEASE_MS / 3 + 1);
    fixture_wait_renewed(fixture, client, NAMES);
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(calls[i].losses, 0);
        assert_true(rlock_is_held(&calls[i].lock));
    }
    release_all(fixture, client, calls);
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
    struct rlock_client *client = open_client(fixture);
    struct answer answer = {0};
    struct call call = {0};
    char name[16];

    name_in(0, name);
    ASSERT_STATUS(inspect(fixture, client, &answer, name), RLOCK_NOT_FOUND);
    fixture_settle(fixture); /* the master has the scripts */
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
    return count_keys() == RLOCK_BUCKETS; /* the fence counters */
}

/** Of each slot, some keys are on one master and some on another. The reply to a call for several
 *  of these keys is TRYAGAIN, and the reply to a call for a key that has moved is ASK.
 *  Nevertheless held locks are renewed, waiters get their lock, and released locks are free. */
CLUSTER_CASE(test_rlock__half_moved_slots_lose_no_lock)
{
    static struct call calls[NAMES], waiting_calls[RLOCK_BUCKETS];
    struct fixture *fixture = *state;
    struct rlock_client *client = open_client(fixture);
    struct rlock_acquire_options how = {
        .lease_ms = LEASE_MS, .watchdog = true, .wait_ms = RLOCK_WAIT_FOREVER};
    struct move moves[RLOCK_BUCKETS];
    char name[24];

    memset(calls, 0, sizeof(calls));
    memset(waiting_calls, 0, sizeof(waiting_calls));
    acquire_all(fixture, client, calls, &how);
    for (unsigned i = 0; i < RLOCK_BUCKETS; i++) {
        moves[i] = move_of(i, false);
        begin_move(&moves[i]);
        move_keys(&moves[i], NAMES / RLOCK_BUCKETS / 2);
    }
    fixture_jump_ms(fixture, LEASE_MS / 3 + 1);
    for (unsigned i = 0; i < RLOCK_BUCKETS; i++) {
        snprintf(name, sizeof(name), "more:%u", i);
        call_acquire_with(client, &waiting_calls[i], name, &how);
    }
    for (int i = 0; i < NAMES; i += 2)
        call_release(client, &calls[i]);
    for (int i = 0; i < NAMES; i += 2)
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
    fixture_wait_renewed(fixture, client, NAMES / 2);
    for (int i = 1; i < NAMES; i += 2) {
        assert_int_equal(calls[i].losses, 0);
        ASSERT_STATUS(release(fixture, client, &calls[i]), RLOCK_OK);
    }
    FIXTURE_AWAIT(fixture, are_released, NULL);
    move_buckets(true);
}

static bool is_on(const struct call *call, int node)
{
    return owner_of(slot_of(call->lock.bucket)) == node;
}

CLUSTER_CASE(test_rlock__without_a_master_others_go_on)
{
    static struct call calls[NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = open_client(fixture);
    struct rlock_acquire_options how = {.lease_ms = LEASE_MS};
    unsigned down = 0, waiting_count = 0;
    char name[24];

    memset(calls, 0, sizeof(calls));
    /* so that the client knows the masters of the buckets */
    acquire_all(fixture, client, calls, &how);
    release_all(fixture, client, calls);
    set_node_timeout("2500");
    server_kill(&nodes[0]);
    fixture_wait_down(fixture, client);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        how.wait_ms = is_on(&calls[i], 0) && i % 2 == 0 ? RLOCK_WAIT_FOREVER : 0;
        waiting_count += how.wait_ms > 0;
        call_acquire_with(client, &calls[i], name, &how);
    }
    rlock_flush(client);
    for (int i = 0; i < NAMES; i++) {
        if (is_on(&calls[i], 0) && i % 2 == 0)
            continue;
        fixture_wait_answers(fixture, &calls[i], 1);
        if (!is_on(&calls[i], 0))
            ASSERT_STATUS(calls[i].status, RLOCK_OK);
        down += calls[i].status == RLOCK_DOWN;
    }
    ASSERT_NUMBER(down + waiting_count, >, NAMES / 10);
    /* these calls get the lock when the replica is promoted */
    for (int i = 0; i < NAMES; i++) {
        if (is_on(&calls[i], 0) && i % 2 == 0) {
            fixture_wait_answers(fixture, &calls[i], 1);
            ASSERT_STATUS(calls[i].status, RLOCK_OK);
        }
    }
    fixture_wait_up(fixture, client);
    server_restart(&nodes[0]);
    await_complete();
}

/** Return how many connections the nodes have accepted, except the node that was killed. */
static long long count_accepted(void)
{
    long long count = 0;

    for (int i = 1; i < NODES; i++) {
        redisReply *info = server_command(&nodes[i], "INFO stats");

        count += strtoll(strstr(info->str, "total_connections_received:") + 27, NULL, 10);
        freeReplyObject(info);
    }
    return count;
}

/** The connections of a client for its buckets and for its subscriptions look for their lost
 *  master together, so they connect to few nodes. */
CLUSTER_CASE(test_redis_conn__siblings_search_a_dead_master_together)
{
    static struct call calls[NAMES], waiters[NAMES];
    struct fixture *fixture = *state;
    struct rlock_client *client = open_client(fixture);
    struct rlock_acquire_options how = {.lease_ms = LEASE_MS};
    long long accepted;
    int64_t begin_us;
    char name[24];

    memset(calls, 0, sizeof(calls));
    memset(waiters, 0, sizeof(waiters));
    acquire_all(fixture, client, calls, &how);
    how.wait_ms = RLOCK_WAIT_FOREVER;
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        call_acquire_with(client, &waiters[i], name, &how);
    }
    rlock_flush(client);
    for (int i = 0; i < NAMES; i++)
        fixture_wait_asleep(fixture, client, &waiters[i]);
    set_node_timeout("5000");
    accepted = count_accepted();
    begin_us = clock_mono_us();
    server_kill(&nodes[0]);
    fixture_wait_down(fixture, client);
    fixture_run_for(fixture, 1000);
    ASSERT_NUMBER(count_accepted() - accepted, <=,
                  5 + 2 * ((clock_mono_us() - begin_us - 1000000) / 1000000 + 1));
    server_restart(&nodes[0]);
    await_complete();
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
    unsigned slot = slot_of(0);
    int owner = owner_of(slot);

    for (int i = 0; i < NODES; i++)
        server_do(&nodes[i], "CLUSTER DELSLOTS %u", slot);
    client = fixture_open(fixture, (struct rlock_client_options){
                                       .redis_url = url, .timeout_ms = TIMEOUT_MS});
    ASSERT_STATUS(acquire_with(fixture, client, &other, name_in(1, name), &how),
                  RLOCK_OK);
    ASSERT_STATUS(acquire(fixture, client, &call, name_in(0, name), LEASE_MS),
                  RLOCK_DOWN);
    assert_false(rlock_client_is_up(client));
    server_do(&nodes[owner], "CLUSTER ADDSLOTS %u", slot);
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire(fixture, client, &call, name, LEASE_MS), RLOCK_OK);
}

int main(void)
{
    return cases_run(start_servers, stop_servers);
}
