/*
 * bench_sync.c - measures lock and unlock pairs per second of threads that block.
 *
 *   bench_sync URL THREADS SECONDS one|contended KIND [POLL_US]
 *
 * Each of THREADS acquires and releases one lock again and again: all the same lock
 * (contended) or each its own (one). KIND is plain, cohort, reentrant, fair, semaphore,
 * fair_semaphore (both with one permit), read, write or getset; all but getset have the
 * watchdog and wait by pub/sub. A call polls for POLL_US before it sleeps. Prints a line of
 * JSON.
 */
#include "base/clock.h"
#include "lock/rlock_sync.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 256
#define LEASE_MS    30000
#define WARM_UP_S   1

struct bench {
    const char *url, *kind_name;
    const struct rlock_kind *kind;
    bool is_contended;
    struct rlock_sync *sync;
    struct rlock_client *client;
    int64_t end_us;
    unsigned threads;
    uint32_t poll_us;
    uint16_t permits;
};

struct worker {
    pthread_t thread;
    char name[32];
    unsigned long long pairs;
    bool is_started, has_failed;
};

static struct bench bench;
static struct worker workers[THREADS_MAX];

static bool run_pair(struct worker *worker)
{
    struct rlock lock = {0};
    struct rlock_acquire_options options = {.kind = bench.kind,
                                            .permits = bench.permits,
                                            .holder = rlock_sync_holder(),
                                            .lease_ms = LEASE_MS,
                                            .watchdog = bench.kind != &rlock_getset,
                                            .wait_ms = RLOCK_WAIT_FOREVER};
    struct rlock_err err = {0};

    if (rlock_sync_acquire(bench.sync, bench.client, &lock, worker->name,
                           strlen(worker->name), &options, &err) != RLOCK_OK ||
        rlock_sync_release(bench.sync, bench.client, &lock, &err) != RLOCK_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    return true;
}

static bool open_client(void)
{
    struct rlock_client_options options = {.redis_url = bench.url, .timeout_ms = 5000};
    struct rlock_err err = {0};

    if (rlock_sync_start(&bench.sync, &err) == RLOCK_OK)
        rlock_sync_poll(bench.sync, bench.poll_us);
    if (bench.sync == NULL ||
        rlock_sync_open(bench.sync, &options, &bench.client, &err) != RLOCK_OK) {
        fprintf(stderr, "%s: %s\n", bench.url, err.text);
        return false;
    }
    return true;
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    while (!worker->has_failed && clock_mono_us() < bench.end_us) {
        worker->has_failed = !run_pair(worker);
        if (!worker->has_failed && clock_mono_us() < bench.end_us)
            worker->pairs++;
    }
    return NULL;
}

static void measure(unsigned seconds)
{
    bench.end_us = clock_mono_us() + (int64_t)seconds * 1000000;
    for (unsigned i = 0; i < bench.threads; i++) {
        workers[i].pairs = 0;
        workers[i].is_started =
            pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
    }
    for (unsigned i = 0; i < bench.threads; i++) {
        if (workers[i].is_started)
            pthread_join(workers[i].thread, NULL);
    }
}

static bool report(unsigned seconds)
{
    unsigned long long pairs = 0;
    bool has_failed = false;

    for (unsigned i = 0; i < bench.threads; i++) {
        pairs += workers[i].pairs;
        has_failed = has_failed || workers[i].has_failed || !workers[i].is_started;
    }
    printf("{\"peer\":\"rlock sync\",\"version\":\"" SECKILL_VERSION
           "\",\"kind\":\"%s\",\"work\":\"%s\",\"pairs_per_s\":%.1f,"
           "\"acquisitions\":[",
           bench.kind_name, bench.is_contended ? "contended" : "one",
           (double)pairs / seconds);
    for (unsigned i = 0; i < bench.threads; i++)
        printf("%s%llu", i == 0 ? "" : ",", workers[i].pairs);
    printf("]}\n");
    return !has_failed;
}

static const struct rlock_kind *find_kind(const char *name)
{
    static const struct {
        const char *name;
        const struct rlock_kind *kind;
    } kinds[] = {
        {"plain", &rlock_plain},         {"cohort", &rlock_cohort},
        {"reentrant", &rlock_reentrant}, {"fair", &rlock_fair},
        {"semaphore", &rlock_semaphore}, {"fair_semaphore", &rlock_fair_semaphore},
        {"read", &rlock_read},           {"write", &rlock_write},
        {"getset", &rlock_getset},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(name, kinds[i].name) == 0)
            return kinds[i].kind;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned seconds = argc == 6 || argc == 7 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    bool is_good;

    bench.threads = seconds > 0 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    bench.kind = seconds > 0 ? find_kind(argv[5]) : NULL;
    if (bench.threads < 1 || bench.threads > THREADS_MAX || bench.kind == NULL) {
        fprintf(stderr, "bench_sync URL THREADS SECONDS one|contended KIND [POLL_US]\n");
        return 2;
    }
    bench.permits = strstr(argv[5], "semaphore") != NULL; /* a semaphore has one permit */
    bench.poll_us = argc == 7 ? (uint32_t)strtoul(argv[6], NULL, 10) : 0;
    bench.url = argv[1];
    bench.is_contended = strcmp(argv[4], "contended") == 0;
    bench.kind_name = argv[5];
    for (unsigned i = 0; i < bench.threads; i++)
        snprintf(workers[i].name, sizeof(workers[i].name), "bench:%u",
                 bench.is_contended ? 0 : i);
    is_good = open_client();
    if (is_good) {
        measure(WARM_UP_S);
        measure(seconds);
        is_good = report(seconds);
    }
    rlock_sync_close(bench.sync);
    rlock_sync_free(bench.sync);
    return is_good ? 0 : 1;
}
