/* it_transient.c - servers that accept no calls for a while, and servers that refuse. */
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHORT_WAIT_MS 300

static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static struct rlock_acquire_options once(const struct rlock_kind *kind)
{
    return (struct rlock_acquire_options){
        .kind = kind, .permits = permits_of(kind), .lease_ms = LEASE_MS};
}

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

/** Have it run a script without end; the connection must stay until end_busy(). */
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

FIXTURE_CASE(test_rlock_release__of_a_busy_server_is_retried)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = once(kinds[i]);
        struct call call = {0};
        redisContext *busy;

        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
        busy = begin_busy(fixture);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_DOWN);
        ASSERT_CONTAINS(rlock_client_why(client)->text, "BUSY");
        end_busy(fixture, busy);
        FIXTURE_AWAIT(fixture, is_free, fixture); /* long before the lease ends */
    }
}

FIXTURE_CASE(test_rlock_acquire__waits_for_a_busy_server)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = once(kinds[i]);
        struct call call = {0};
        redisContext *busy = begin_busy(fixture);

        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options),
                      STATUS_DOWN); /* one try */
        options.wait_ms = SHORT_WAIT_MS;
        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_DOWN);
        options.wait_ms = RLOCK_WAIT_FOREVER;
        call_acquire_with(client, &call, NAME, &options);
        rlock_flush(client);
        fixture_run_for(fixture, 20);
        assert_int_equal(call.answers, 2);
        end_busy(fixture, busy);
        fixture_wait_answers(fixture, &call, 3);
        ASSERT_STATUS(call.status, STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    }
}

/* -- a connection that is cut, a server that becomes a replica or restarts -- */

FIXTURE_CASE(test_rlock_acquire__wait_covers_a_reconnect)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS * 2; i++) {
        struct rlock_acquire_options options = once(kinds[i / 2]);
        struct call call = {0};

        options.wait_ms = RLOCK_WAIT_FOREVER;
        fixture_wait_up(fixture, client);
        if (i % 2 == 0) { /* cut while the try is in progress */
            server_pause(fixture->server);
            call_acquire_with(client, &call, NAME, &options);
            rlock_flush(client);
            server_kill(fixture->server);
        } else { /* called while the connection is down */
            server_kill(fixture->server);
            fixture_wait_down(fixture, client);
            call_acquire_with(client, &call, NAME, &options);
            rlock_flush(client);
        }
        fixture_wait_down(fixture, client);
        fixture_run_for(fixture, 20);
        assert_int_equal(call.answers, 0);
        server_restart(fixture->server);
        fixture_wait_answers(fixture, &call, 1);
        ASSERT_STATUS(call.status, STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        assert_true(is_free(fixture));
    }
}

/** The try was granted, but its reply was lost: the waiter finds its own grant. */
FIXTURE_CASE(test_rlock_acquire__wait_finds_the_grant_of_a_lost_reply)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = once(kinds[i]);
        struct call call = {0}, warm = {0};

        options.wait_ms = RLOCK_WAIT_FOREVER;
        ASSERT_STATUS(acquire(fixture, client, &warm, "warm", LEASE_MS), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &warm), STATUS_OK);
        server_pause(fixture->server);
        call_acquire_with(client, &call, NAME, &options);
        rlock_flush(client);
        fixture_jump_ms(fixture, TIMEOUT_MS + 1);
        fixture_wait_down(fixture, client);
        server_resume(fixture->server);
        fixture_wait_answers(fixture, &call, 1);
        ASSERT_STATUS(call.status, STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        fixture_pass_ms(fixture, 1001); /* released once more, since it was in doubt */
        FIXTURE_AWAIT(fixture, is_free, fixture);
    }
}

FIXTURE_CASE(test_rlock_release__of_a_replica_waits_for_the_primary)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_stats stats;

    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    server_do(fixture->server, "REPLICAOF 127.0.0.1 1");
    ASSERT_STATUS(release(fixture, client, &call), STATUS_DOWN);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "READONLY");
    fixture_wait_down(fixture, client); /* it looks for the primary */
    server_do(fixture->server, "REPLICAOF NO ONE");
    FIXTURE_AWAIT(fixture, is_free, fixture);
    rlock_client_stats(client, &stats);
    ASSERT_NUMBER(stats.reconnects, >=, 1);
}

/* -- refusals -- */

static void expect_refusal(struct fixture *fixture, struct rlock_client *client,
                           enum rlock_refusal refusal)
{
    struct rlock_acquire_options options = once(&rlock_reentrant);
    struct call call = {0};

    options.wait_ms = RLOCK_WAIT_FOREVER; /* in vain */
    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_REFUSED);
    assert_int_equal(rlock_refusal(rlock_client_why(client)), refusal);
}

static bool has_failed_to_save(void *arg)
{
    redisReply *reply = server_command(arg, "INFO persistence");
    bool has_failed = strstr(reply->str, "rdb_last_bgsave_status:err") != NULL;

    freeReplyObject(reply);
    return has_failed;
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
    assert_int_equal(mkdir(dump, 0700), 0); /* then it cannot write the file */
    server_do(fixture->server, "CONFIG SET save %s", "3600 1000000");
    server_do(fixture->server, "BGSAVE");
    FIXTURE_AWAIT(fixture, has_failed_to_save, fixture->server);
    expect_refusal(fixture, client, RLOCK_REFUSED_DISK);
    server_do(fixture->server, "CONFIG SET save %s", "");
    rmdir(dump);
}

static bool is_login_refused(void *arg)
{
    return rlock_refusal(rlock_client_why(arg)) == RLOCK_REFUSED_LOGIN;
}

FIXTURE_CASE(test_rlock_refusal__of_a_login)
{
    struct fixture *fixture = *state;
    struct rlock_client *clients[2];
    char url[128];

    server_do(fixture->server, "CONFIG SET requirepass secret");
    snprintf(url, sizeof(url), "redis://:wrong@127.0.0.1:%u", fixture->server->port);
    for (int i = 0; i < 2; i++) {
        clients[i] = fixture_open(
            fixture, (struct rlock_client_options){
                         .redis_url = i == 0 ? url : fixture->server->tcp_url,
                         .timeout_ms = TIMEOUT_MS});
        FIXTURE_AWAIT(fixture, is_login_refused, clients[i]);
        expect_refusal(fixture, clients[i], RLOCK_REFUSED_LOGIN);
    }
    server_do(fixture->server, "CONFIG SET requirepass %s", "");
    fixture_wait_up(fixture, clients[1]);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
