/*
 * bare_hiredis.c - measures lock and unlock pairs per second with blocking calls of hiredis,
 * without a lock library.
 *
 *   bare_hiredis SECONDS HOST PORT [PASSWORD]
 *
 * This is the minimum that a lock needs: SET NX PX with the value of its owner, and a script that
 * compares and deletes. One thread uses one name. Prints a line of JSON.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEASE_MS  "30000"
#define NAME      "bench:one"
#define OWNER     "0123456789abcdef0123456789abcdef"
#define WARM_UP_S 1

static const char release[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                              "return redis.call('DEL', KEYS[1]) end return 0";

static char release_sha[41];

_Noreturn static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bare_hiredis: %s: %s\n", what, why);
    _exit(1);
}

/* Returns the reply, unless it is an error. The caller frees it. */
static redisReply *checked(redisContext *redis, redisReply *reply, const char *what)
{
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        fail(what, reply == NULL ? redis->errstr : reply->str);
    return reply;
}

static redisContext *open_redis(const char *host, int port, const char *password)
{
    redisContext *redis = redisConnect(host, port);
    redisReply *reply;

    if (redis == NULL || redis->err != 0)
        fail("connect", redis == NULL ? "no memory" : redis->errstr);
    if (password != NULL)
        freeReplyObject(checked(redis, redisCommand(redis, "AUTH %s", password), "AUTH"));
    reply = checked(redis, redisCommand(redis, "SCRIPT LOAD %s", release), "SCRIPT LOAD");
    snprintf(release_sha, sizeof(release_sha), "%s", reply->str);
    freeReplyObject(reply);
    return redis;
}

static void run_pair(redisContext *redis)
{
    redisReply *reply;

    reply = checked(redis, redisCommand(redis, "SET " NAME " " OWNER " NX PX " LEASE_MS),
                    "SET");
    if (reply->type != REDIS_REPLY_STATUS)
        fail("SET", "the lock is held by another");
    freeReplyObject(reply);
    reply =
        checked(redis, redisCommand(redis, "EVALSHA %s 1 " NAME " " OWNER, release_sha),
                "EVALSHA");
    if (reply->integer != 1)
        fail("EVALSHA", "the lock has another owner");
    freeReplyObject(reply);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static unsigned long measure(redisContext *redis, double seconds)
{
    double end_s = now_s() + seconds;
    unsigned long pairs = 0;

    while (now_s() < end_s) {
        run_pair(redis);
        pairs++;
    }
    return pairs;
}

int main(int argc, char **argv)
{
    redisContext *redis;
    unsigned long pairs;
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0;

    if (argc < 4 || seconds <= 0) {
        fprintf(stderr, "usage: bare_hiredis SECONDS HOST PORT [PASSWORD]\n");
        return 2;
    }
    redis =
        open_redis(argv[2], (int)strtol(argv[3], NULL, 10), argc > 4 ? argv[4] : NULL);
    measure(redis, WARM_UP_S);
    pairs = measure(redis, seconds);
    printf("{\"peer\":\"bare hiredis\",\"version\":\"%d.%d.%d\",\"work\":\"one\","
           "\"pairs_per_s\":%.1f,\"acquisitions\":[%lu]}\n",
           HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH, (double)pairs / seconds, pairs);
    redisFree(redis);
    return 0;
}
