/* waits.c - see waits.h. */
#include "test/waits.h"
#include "base/clock.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

struct rlock_acquire_options waiting(const struct rlock_kind *kind, uint64_t holder,
                                     uint32_t wait_ms)
{
    return (struct rlock_acquire_options){.kind = kind,
                                          .permits = permits_of(kind),
                                          .holder = holder,
                                          .lease_ms = LEASE_MS,
                                          .wait_ms = wait_ms};
}

void call_wait(struct rlock_client *client, struct call *call, const char *name,
               const struct rlock_acquire_options *options)
{
    call_acquire_with(client, call, name, options);
    rlock_flush(client);
}

static bool rests(void *arg)
{
    const struct call *call = arg;

    return call->answers > 0 || (call->lock.waiter != NULL && call->lock.batch == NULL);
}

void call_rest(struct fixture *fixture, struct call *call)
{
    FIXTURE_AWAIT(fixture, rests, call);
}

void move_beats(struct fixture *fixture, int ms)
{
    static const char script[] =
        "for _, owner in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
        "  if #owner > 1 then redis.call('ZINCRBY', KEYS[1], ARGV[1], owner) end "
        "end "
        "for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end "
        "return 1";

    (void)server_int(fixture->server,
                     "EVAL %s 3 " NAME ":beats " NAME ":queue " NAME ":readers %d",
                     script, ms);
}

enum rlock_status release_to_live(struct fixture *fixture, struct rlock_client *client,
                                  struct call *call)
{
    move_beats(fixture, FIXTURE_DAY_MS);
    return release(fixture, client, call);
}

long long script_calls(struct fixture *fixture)
{
    return server_calls(fixture->server, "evalsha") +
           server_calls(fixture->server, "eval");
}

long long commands_executed(struct fixture *fixture)
{
    redisReply *reply = server_command(fixture->server, "INFO commandstats");
    long long count = 0;

    for (const char *at = reply->str; (at = strstr(at, "cmdstat_")) != NULL;) {
        at += strlen("cmdstat_");
        if (strncmp(at, "ping:", 5) != 0 && strncmp(at, "info:", 5) != 0)
            count += strtoll(strstr(at, "calls=") + 6, NULL, 10);
    }
    freeReplyObject(reply);
    return count;
}

long long channels_in_use(struct fixture *fixture)
{
    redisReply *reply = server_command(fixture->server, "PUBSUB CHANNELS");
    long long count = (long long)reply->elements;

    freeReplyObject(reply);
    return count;
}

static bool has_no_channels(void *arg)
{
    return channels_in_use(arg) == 0;
}

void assert_no_channels(struct fixture *fixture)
{
    FIXTURE_AWAIT(fixture, has_no_channels, fixture);
}

void assert_only_a_fence_left(struct fixture *fixture)
{
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 1);
    assert_no_channels(fixture);
}
