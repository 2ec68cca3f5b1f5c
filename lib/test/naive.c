/*
 * naive.c - older ways to lock in Redis, see naive.h. Each step waits for the replies to its
 * commands.
 */
#include "test/naive.h"
#include "base/clock.h"

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static bool setnx(struct server *server, const char *name, const char *owner,
                  unsigned lease_ms)
{
    (void)lease_ms;
    return server_int(server, "SETNX %s %s", name, owner) == 1;
}

static void expire(struct server *server, const char *name, unsigned lease_ms)
{
    (void)server_int(server, "PEXPIRE %s %u", name, lease_ms);
}

static void blind_del(struct server *server, const char *name, const char *owner)
{
    (void)owner;
    (void)server_int(server, "DEL %s", name);
}

const struct naive_stage naive_setnx = {.take = setnx, .release = blind_del};

const struct naive_stage naive_setnx_expire = {
    .take = setnx, .finish_take = expire, .release = blind_del};

static bool set_nx_px(struct server *server, const char *name, const char *owner,
                      unsigned lease_ms)
{
    redisReply *reply =
        server_command(server, "SET %s %s NX PX %u", name, owner, lease_ms);
    bool is_ours = reply->type == REDIS_REPLY_STATUS;

    freeReplyObject(reply);
    return is_ours;
}

const struct naive_stage naive_blind_del = {.take = set_nx_px, .release = blind_del};

static bool is_owner(struct server *server, const char *name, const char *owner)
{
    redisReply *reply = server_command(server, "GET %s", name);
    bool is_ours = reply->type == REDIS_REPLY_STRING && strcmp(reply->str, owner) == 0;

    freeReplyObject(reply);
    return is_ours;
}

const struct naive_stage naive_get_del = {
    .take = set_nx_px, .may_release = is_owner, .release = blind_del};

static void compare_and_del(struct server *server, const char *name, const char *owner)
{
    static const char script[] = "return redis.call('GET', KEYS[1]) == ARGV[1]"
                                 " and redis.call('DEL', KEYS[1]) or 0";

    (void)server_int(server, "EVAL %s 1 %s %s", script, name, owner);
}

const struct naive_stage naive_unfenced = {.take = set_nx_px, .release = compare_and_del};

static void del_and_publish(struct server *server, const char *name, const char *owner)
{
    static const char script[] = "return redis.call('GET', KEYS[1]) == ARGV[1]"
                                 " and redis.call('DEL', KEYS[1])"
                                 " and redis.call('PUBLISH', KEYS[1], 'free') or 0";

    (void)server_int(server, "EVAL %s 1 %s %s", script, name, owner);
}

const struct naive_stage naive_waiter = {.take = set_nx_px, .release = del_and_publish};

static bool is_message(redisReply *reply)
{
    bool is_one = strcmp(reply->element[0]->str, "message") == 0;

    freeReplyObject(reply);
    return is_one;
}

bool naive_subscribe(struct server *server, const char *name)
{
    struct server waiter = *server; /* the waiter has its own connection */
    bool has_message;

    waiter.redis = redisConnectUnix(server->unix_url + strlen("unix:"));
    freeReplyObject(server_command(&waiter, "SUBSCRIBE %s", name));
    has_message = is_message(server_command(&waiter, "PING"));
    redisFree(waiter.redis);
    return has_message;
}

static long long to_ms(redisReply *reply)
{
    long long ms = reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;

    freeReplyObject(reply);
    return ms;
}

bool naive_getset_look(struct server *server, const char *name, long long now_ms,
                       unsigned lease_ms, long long *ret_end_ms)
{
    if (server_int(server, "SETNX %s %lld", name, now_ms + lease_ms) == 1)
        return true;
    *ret_end_ms = to_ms(server_command(server, "GET %s", name));
    return false;
}

bool naive_getset_take_over(struct server *server, const char *name, long long found_ms,
                            long long now_ms, unsigned lease_ms)
{
    return to_ms(server_command(server, "GETSET %s %lld", name, now_ms + lease_ms)) ==
           found_ms;
}

static bool getset_take(struct server *server, const char *name, const char *owner,
                        unsigned lease_ms)
{
    long long now_ms = clock_real_us() / 1000;
    long long end_ms;

    (void)owner; /* the value of this lock has no room for an owner */
    if (naive_getset_look(server, name, now_ms, lease_ms, &end_ms))
        return true;
    return end_ms < now_ms &&
           naive_getset_take_over(server, name, end_ms, now_ms, lease_ms);
}

const struct naive_stage naive_getset = {.take = getset_take, .release = blind_del};
