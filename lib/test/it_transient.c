/* it_transient.c - servers that are busy or read-only for a while, or that refuse calls. */
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static bool is_free(void *arg)
{
    return !server_has(((struct fixture *)arg)->server, NAME);
}

/* -- a server that is busy with a script -- */

static bool is_busy(void *arg)
{
    redisReply *reply = server_command(arg, "PING");
    bool found = reply->type == REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return found;
}

/** Let the server run a script without end. The returned connection must stay open until
 *  end_busy(). */
static redisContext *begin_busy(struct fixture *fixture)
{
    struct server *server = fixture->server;
    redisContext *redis = redisConnect("127.0.0.1", server->port);
    int is_written = 0;

    server_do(server, "CONFIG SET lua-time-limit 1");
    redisAppendCommand(redis, "EVAL %s 0", "while true do end");
    while (!is_written)
        assert_int_equal(redisBufferWrite(redis, &is_written), REDIS_OK);
    FIXTURE_AWAIT(fixture, is_busy, server);
    return redis;
}

static bool is_idle(void *arg)
{
    return !is_busy(arg);
}

static void end_busy(struct fixture *fixture, redisContext *redis)
{
    server_do(fixture->server, "SCRIPT KILL");
    FIXTURE_AWAIT(fixture, is_idle, fixture->server);
    redisFree(redis);
}

/** The library retries the release long before the lease ends, so the waiter gets the lock. */
FIXTURE_CASE(test_calls__of_a_busy_server_are_retried_or_wait)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = waiting(kinds[i], 0, 0);
        struct call held = {0}, other = {0}, waiter = {0};
        redisContext *busy;

        ASSERT_STATUS(acquire_with(fixture, client, &held, NAME, &options), RLOCK_OK);
        busy = begin_busy(fixture);
        ASSERT_STATUS(release(fixture, client, &held), RLOCK_DOWN);
        ASSERT_CONTAINS(rlock_client_why(client)->text, "BUSY");
        ASSERT_STATUS(acquire_with(fixture, client, &other, NAME, &options), RLOCK_DOWN);
        options.wait_ms = RLOCK_WAIT_FOREVER;
        call_wait(client, &waiter, NAME, &options);
        fixture_run_for(fixture, 20);
        assert_int_equal(waiter.answers, 0);
        end_busy(fixture, busy);
        fixture_wait_answers(fixture, &waiter, 1);
        ASSERT_STATUS(waiter.status, RLOCK_OK);
        ASSERT_STATUS(release(fixture, client, &waiter), RLOCK_OK);
        FIXTURE_AWAIT(fixture, is_free, fixture);
    }
}

/* -- a server that becomes a replica -- */

FIXTURE_CASE(test_rlock_release__of_a_replica_waits_for_the_primary)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_stats stats;

    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), RLOCK_OK);
    server_do(fixture->server, "REPLICAOF 127.0.0.1 1");
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_DOWN);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "READONLY");
    fixture_wait_down(fixture, client);
    server_do(fixture->server, "REPLICAOF NO ONE");
    FIXTURE_AWAIT(fixture, is_free, fixture);
    rlock_client_stats(client, &stats);
    ASSERT_NUMBER(stats.reconnects, >=, 1);
}

/* -- refusals -- */

static void expect_refusal(struct fixture *fixture, struct rlock_client *client,
                           enum rlock_refusal refusal)
{
    struct rlock_acquire_options options =
        waiting(&rlock_reentrant, 0, RLOCK_WAIT_FOREVER);
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), RLOCK_REFUSED);
    assert_int_equal(rlock_refusal(rlock_client_why(client)), refusal);
}

static bool has_failed_to_save(void *arg)
{
    return server_says(arg, "INFO persistence", "rdb_last_bgsave_status:err");
}

FIXTURE_CASE(test_rlock_refusal__names_the_reason)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    char dump[96];

    server_do(fixture->server, "CONFIG SET maxmemory 1");
    expect_refusal(fixture, client, RLOCK_REFUSED_MEMORY);
    server_do(fixture->server, "CONFIG SET maxmemory 0");

    server_do(fixture->server, "RPUSH " NAME " x");
    expect_refusal(fixture, client, RLOCK_REFUSED_TYPE);
    server_do(fixture->server, "DEL " NAME);

    server_do(fixture->server, "ACL SETUSER default -evalsha -eval");
    expect_refusal(fixture, client, RLOCK_REFUSED_PERMISSION);
    server_do(fixture->server, "ACL SETUSER default +@all -incrby");
    expect_refusal(fixture, client, RLOCK_REFUSED_PERMISSION);
    server_do(fixture->server, "ACL SETUSER default +@all");

    server_do(fixture->server, "CONFIG SET min-replicas-to-write 1");
    expect_refusal(fixture, client, RLOCK_REFUSED_OTHER);
    server_do(fixture->server, "CONFIG SET min-replicas-to-write 0");

    snprintf(dump, sizeof(dump), "%s/dump.rdb", fixture->server->dir);
    /* now the server cannot write the file */
    assert_int_equal(mkdir(dump, 0700), 0);
    server_do(fixture->server, "CONFIG SET save %s", "3600 1000000");
    server_do(fixture->server, "BGSAVE");
    FIXTURE_AWAIT(fixture, has_failed_to_save, fixture->server);
    expect_refusal(fixture, client, RLOCK_REFUSED_DISK);
    server_do(fixture->server, "CONFIG SET save %s", "");
    rmdir(dump);
}

/** A lock can be extended and released although memory is full, because a release frees memory. */
FIXTURE_CASE(test_release__of_a_server_without_memory_is_done)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = waiting(kinds[i], 0, 0);
        struct call call = {0};

        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), RLOCK_OK);
        server_do(fixture->server, "CONFIG SET maxmemory 1");
        ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), RLOCK_OK);
        ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
        server_do(fixture->server, "CONFIG SET maxmemory 0");
        assert_true(is_free(fixture));
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
