/* waits.c - see waits.h. */
#include "test/waits.h"

#include <hiredis/hiredis.h>

struct rlock_acquire_options waiting(const struct rlock_kind *kind, uint64_t holder,
                                     uint32_t wait_ms)
{
    return (struct rlock_acquire_options){
        .kind = kind, .holder = holder, .lease_ms = LEASE_MS, .wait_ms = wait_ms};
}

void call_wait(struct rlock_client *client, struct call *call, const char *name,
               const struct rlock_acquire_options *options)
{
    call_acquire_with(client, call, name, options);
    rlock_flush(client);
}

long long script_calls(struct fixture *fixture)
{
    return server_calls(fixture->server, "evalsha") +
           server_calls(fixture->server, "eval");
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
    assert_true(fixture_run_until(fixture, has_no_channels, fixture, WITHIN_MS));
}
