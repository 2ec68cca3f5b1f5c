/*
 * bench_held.c - measures the cost of locks that one client holds and renews.
 *
 *   bench_held URL LOCKS SECONDS [LEASE_MS [MORE_MS]]
 *
 * Lock number i has a lease of LEASE_MS (by default that of the watchdog) plus i * MORE_MS / LOCKS.
 *
 * Prints "held" when it holds all locks, and a line of JSON SECONDS later. It releases the locks at
 * the end of its input, so that the caller can read the server's counters in between.
 */
#include "lock/rlock_sync.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

struct bench {
    struct rlock_sync *sync;
    struct rlock_client *client;
    struct rlock *locks;
    unsigned count;
    unsigned lease_ms, more_ms;
};

static void fail(const char *what, const struct rlock_err *why)
{
    fprintf(stderr, "bench_held: %s: %s\n", what, why->text);
    _Exit(1);
}

static double cpu_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void acquire_all(struct bench *bench)
{
    struct rlock_acquire_options options = {.watchdog = true};
    struct rlock_err why = {0};

    for (unsigned i = 0; i < bench->count; i++) {
        char name[40];
        int len = snprintf(name, sizeof(name), "bench:held:%u", i);

        options.lease_ms =
            bench->lease_ms + (unsigned)((uint64_t)i * bench->more_ms / bench->count);
        if (rlock_sync_acquire(bench->sync, bench->client, &bench->locks[i], name,
                               (size_t)len, &options, &why) != RLOCK_OK)
            fail("acquire", &why);
    }
}

static void report(struct bench *bench, double cpu_before_s)
{
    struct rlock_stats stats;
    double spent_s = cpu_s() - cpu_before_s;

    rlock_sync_stats(bench->sync, bench->client, &stats);
    printf("{\"held\": %u, \"renewed\": %llu, \"lost\": %llu, \"cpu_s\": %.3f}\n",
           bench->count, (unsigned long long)stats.renewed,
           (unsigned long long)stats.lost, spent_s);
    fflush(stdout);
}

static void release_all(struct bench *bench)
{
    struct rlock_err why = {0};

    for (unsigned i = 0; i < bench->count; i++) {
        if (rlock_sync_release(bench->sync, bench->client, &bench->locks[i], &why) !=
            RLOCK_OK)
            fail("release", &why);
    }
}

int main(int argc, char **argv)
{
    struct rlock_client_options options = {.timeout_ms = 5000};
    struct bench bench = {0};
    struct rlock_err why = {0};
    double cpu_before_s;

    if (argc < 4 || argc > 6)
        return 2;
    options.redis_url = argv[1];
    bench.lease_ms = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    bench.more_ms = argc > 5 ? (unsigned)strtoul(argv[5], NULL, 10) : 0;
    bench.count = (unsigned)strtoul(argv[2], NULL, 10);
    bench.locks = calloc(bench.count, sizeof(*bench.locks));
    if (bench.locks == NULL || rlock_sync_start(&bench.sync, &why) != RLOCK_OK ||
        rlock_sync_open(bench.sync, &options, &bench.client, &why) != RLOCK_OK)
        fail("open", &why);
    acquire_all(&bench);
    cpu_before_s = cpu_s();
    puts("held");
    fflush(stdout);
    uv_sleep((unsigned)strtoul(argv[3], NULL, 10) * 1000);
    report(&bench, cpu_before_s);
    while (getchar() != EOF)
        continue;
    release_all(&bench);
    rlock_sync_close(bench.sync);
    rlock_sync_free(bench.sync);
    free(bench.locks);
    return 0;
}
