/*
 * lock_pairs.c - measure how many locks per second Redis acquires and releases with the
 * scripts of the lock library.
 *
 *   lock_pairs PORT SECONDS LOCKS CALLS CONNECTIONS       (the password in REDISCLI_AUTH)
 *
 * Each connection sends CALLS script calls for LOCKS locks each in one write, and then
 * the releases in another. While this program reads from one connection, Redis works
 * for the others. The bytes are those of the library, but prepared in advance, so this
 * program uses hardly any CPU time. With LOCKS, CALLS and CONNECTIONS 1 it is a single
 * client that waits for each answer.
 *
 * Prints a line of JSON: pairs of acquire and release per second, and the median time
 * from a write to the last of its answers.
 */
#include "base/clock.h"
#include "load/histogram.h"
#include "lock/scripts.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64
#define LEASE_MS        "10000"
#define WANTED_LATER_US "9000000000000000" /* the deadline of a call never passes */
#define NUMBER          "12345"            /* number of a call, which its reply repeats */

enum step { ACQUIRE, RELEASE, STEPS };

struct peer {
    redisContext *redis;
    char *bytes[STEPS]; /* all calls of a write */
    size_t len[STEPS];
    enum step step; /* in progress */
    int64_t sent_us;
};

struct bench {
    size_t locks, calls, connections;
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    struct histogram times[STEPS];
};

_Noreturn static void fail(const char *what, const char *why)
{
    fprintf(stderr, "lock_pairs: %s: %s\n", what, why);
    _exit(1);
}

/* -- requests -- */

static void write_word(FILE *out, const char *word)
{
    fprintf(out, "$%zu\r\n%s\r\n", strlen(word), word);
}

static void write_names(FILE *out, size_t first, size_t count)
{
    char name[64];

    for (size_t i = first; i < first + count; i++) {
        snprintf(name, sizeof(name), "lock:bench:%zu", i);
        write_word(out, name);
    }
}

static void write_owners(FILE *out, size_t first, size_t count)
{
    char owner[64];

    for (size_t i = first; i < first + count; i++) {
        snprintf(owner, sizeof(owner), "0123456789abcdef0123456789abcdef:%zu", i);
        write_word(out, owner);
    }
}

/* The same call as in kinds.c for the plain lock. */
static void write_call(const struct bench *bench, FILE *out, enum step step, size_t first)
{
    static const char *const first_keys[] = {"bench:fence", "bench:fence:waiting"};
    static const int scripts[] = {RLOCK_SCRIPT_ACQUIRE, RLOCK_SCRIPT_RELEASE};
    char key_count[24];

    snprintf(key_count, sizeof(key_count), "%zu", bench->locks + 1);
    fprintf(out, "*%zu\r\n", 2 * bench->locks + (step == ACQUIRE ? 7 : 5));
    write_word(out, "EVALSHA");
    write_word(out, bench->scripts[scripts[step]].sha);
    write_word(out, key_count);
    write_word(out, first_keys[step]);
    write_names(out, first, bench->locks);
    if (step == ACQUIRE) {
        write_word(out, LEASE_MS);
        write_word(out, WANTED_LATER_US);
    }
    write_owners(out, first, bench->locks);
    write_word(out, NUMBER);
}

/* -- one connection -- */

/* Read the next reply; exit if it is an error. The caller frees it. */
static redisReply *receive(redisContext *redis)
{
    void *got = NULL;
    redisReply *reply;

    if (redisGetReply(redis, &got) != REDIS_OK)
        fail("reply", redis->errstr);
    reply = got;
    if (reply->type == REDIS_REPLY_ERROR)
        fail("reply", reply->str);
    return reply;
}

static void run_command(redisContext *redis, const char *name, const char *argument)
{
    redisAppendCommand(redis, "%s %s", name, argument);
    freeReplyObject(receive(redis));
}

static void load_script(redisContext *redis, const struct redis_script *script)
{
    redisAppendCommand(redis, "SCRIPT LOAD %s", script->body);
    freeReplyObject(receive(redis));
}

static void peer_open(struct peer *peer, const struct bench *bench, int port,
                      size_t number)
{
    const char *password = getenv("REDISCLI_AUTH"); /* NOLINT(concurrency-mt-unsafe) */

    peer->redis = redisConnect("127.0.0.1", port);
    if (peer->redis == NULL || peer->redis->err != 0)
        fail("connect", peer->redis == NULL ? "no memory" : peer->redis->errstr);
    if (password != NULL)
        run_command(peer->redis, "AUTH", password);
    load_script(peer->redis, &bench->scripts[RLOCK_SCRIPT_ACQUIRE]);
    load_script(peer->redis, &bench->scripts[RLOCK_SCRIPT_RELEASE]);
    for (int step = 0; step < STEPS; step++) {
        FILE *out = open_memstream(&peer->bytes[step], &peer->len[step]);

        if (out == NULL)
            fail("connect", "no memory");
        for (size_t i = 0; i < bench->calls; i++)
            write_call(bench, out, (enum step)step,
                       (number * bench->calls + i) * bench->locks);
        fclose(out);
    }
}

static void peer_send(struct peer *peer, enum step step)
{
    int is_done = 0;

    peer->step = step;
    peer->sent_us = clock_mono_us();
    redisAppendFormattedCommand(peer->redis, peer->bytes[step], peer->len[step]);
    while (!is_done) {
        if (redisBufferWrite(peer->redis, &is_done) != REDIS_OK)
            fail("write", peer->redis->errstr);
    }
}

/* Check a reply: a string that ends with a 1 per lock. In the reply to an acquire this string is the
   last of four elements. */
static void check(const struct bench *bench, const redisReply *reply)
{
    const redisReply *text = reply->elements == 4 ? reply->element[3] : reply;
    size_t len = text->type == REDIS_REPLY_STRING ? text->len : 0;

    if (len < bench->locks || strspn(text->str + len - bench->locks, "1") != bench->locks)
        fail("reply", "a lock was refused, or the arguments of the scripts have changed");
}

static void peer_receive(struct peer *peer, struct bench *bench)
{
    for (size_t i = 0; i < bench->calls; i++) {
        redisReply *reply = receive(peer->redis);

        check(bench, reply);
        freeReplyObject(reply);
    }
    histogram_add(&bench->times[peer->step], clock_mono_us() - peer->sent_us);
}

/* -- the run -- */

/* Returns the number of locks that were acquired and released. */
static uint64_t run(struct bench *bench, struct peer *peers, int64_t until_us)
{
    for (size_t i = 0; i < bench->connections; i++)
        peer_send(&peers[i], ACQUIRE);
    while (clock_mono_us() < until_us) {
        for (size_t i = 0; i < bench->connections; i++) {
            peer_receive(&peers[i], bench);
            peer_send(&peers[i], peers[i].step == ACQUIRE ? RELEASE : ACQUIRE);
        }
    }
    for (size_t i = 0; i < bench->connections; i++) {
        peer_receive(&peers[i], bench);
        if (peers[i].step == ACQUIRE) { /* leave no lock behind */
            peer_send(&peers[i], RELEASE);
            peer_receive(&peers[i], bench);
        }
    }
    return bench->times[RELEASE].count * bench->calls * bench->locks;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    static struct peer peers[CONNECTIONS_MAX];
    double numbers[5] = {0};
    int64_t start_us, took_us;
    uint64_t pairs;

    for (int i = 0; argc == 6 && i < 5; i++)
        numbers[i] = strtod(argv[i + 1], NULL);
    bench.locks = (size_t)numbers[2];
    bench.calls = (size_t)numbers[3];
    bench.connections = (size_t)numbers[4];
    if (bench.locks * bench.calls * bench.connections == 0 ||
        bench.connections > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: lock_pairs PORT SECONDS LOCKS CALLS CONNECTIONS\n");
        return 2;
    }
    rlock_scripts_init(bench.scripts, false);
    for (size_t i = 0; i < bench.connections; i++)
        peer_open(&peers[i], &bench, (int)numbers[0], i);
    start_us = clock_mono_us();
    pairs = run(&bench, peers, start_us + (int64_t)(numbers[1] * 1e6));
    took_us = clock_mono_us() - start_us;
    printf("{\"pairs_per_s\": %.0f, \"acquire_p50_us\": %" PRIu64
           ", \"release_p50_us\": %" PRIu64 "}\n",
           (double)pairs * 1e6 / (double)took_us,
           histogram_at(&bench.times[ACQUIRE], 0.5),
           histogram_at(&bench.times[RELEASE], 0.5));
    return 0;
}
