/*
 * bench_lock.c - measures plain lock and unlock pairs per second through one client.
 *
 *   bench_lock URL [IN_FLIGHT [SECONDS [watch]]]
 *
 * Each of IN_FLIGHT locks is acquired, released and acquired again under a new name. As in a
 * service, there is one flush per turn of the loop.
 */
#include "lock/rlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define IN_FLIGHT_MAX 10000
#define LEASE_MS      30000

struct bench {
    struct rlock_client *client;
    uv_prepare_t prepare;
    uv_timer_t end;
    bool watch, is_over;
    unsigned in_flight, active;
    uint64_t pairs, failures, next_name;
    uint64_t begin_ns;
};

static struct bench bench;
static struct rlock locks[IN_FLIGHT_MAX];

static void begin(struct rlock *lock);

static void on_released(struct rlock *lock, enum rlock_status status, void *arg)
{
    (void)arg;
    if (status == RLOCK_OK)
        bench.pairs++;
    else
        bench.failures++;
    begin(lock);
}

static void on_acquired(struct rlock *lock, enum rlock_status status, void *arg)
{
    (void)arg;
    if (status == RLOCK_OK) {
        rlock_release(bench.client, lock, on_released, NULL);
        return;
    }
    bench.failures++;
    begin(lock);
}

static void begin(struct rlock *lock)
{
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS,
                                            .watchdog = bench.watch};
    char name[40];
    int len = snprintf(name, sizeof(name), "lock:order:%llu",
                       (unsigned long long)(bench.next_name++ % 1000000));

    if (bench.is_over)
        return;
    rlock_acquire(bench.client, lock, name, (size_t)len, &options, on_acquired, NULL);
}

static void on_prepare(uv_prepare_t *prepare)
{
    (void)prepare;
    rlock_flush(bench.client);
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void report(void)
{
    struct rusage usage;
    double elapsed_s = (double)(uv_hrtime() - bench.begin_ns) / 1e9;

    getrusage(RUSAGE_SELF, &usage);
    printf("pairs_per_s %.0f  failures %llu  our_cpu_us_per_pair %.2f\n",
           (double)bench.pairs / elapsed_s, (unsigned long long)bench.failures,
           (seconds(usage.ru_utime) + seconds(usage.ru_stime)) * 1e6 /
               (double)bench.pairs);
}

static void on_end(uv_timer_t *end)
{
    report();
    bench.is_over = true;
    rlock_client_close(bench.client, NULL, NULL);
    uv_close((uv_handle_t *)end, NULL);
    uv_close((uv_handle_t *)&bench.prepare, NULL);
}

static void on_state(bool is_up, const struct rlock_err *why, void *arg)
{
    (void)arg;
    if (!is_up) {
        fprintf(stderr, "down: %s\n", why->text);
        return;
    }
    bench.begin_ns = uv_hrtime();
    for (unsigned i = 0; i < bench.in_flight; i++)
        begin(&locks[i]);
}

int main(int argc, char **argv)
{
    uv_loop_t *loop = uv_default_loop();
    struct rlock_client_options options = {
        .loop = loop, .timeout_ms = 5000, .on_state = on_state};
    struct rlock_err err = {0};

    options.redis_url = argc > 1 ? argv[1] : "redis://127.0.0.1";
    bench.in_flight = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 128;
    bench.watch = argc > 4 && strcmp(argv[4], "watch") == 0;
    if (bench.in_flight < 1 || bench.in_flight > IN_FLIGHT_MAX)
        return 2;
    if (rlock_client_open(&options, &bench.client, &err) != RLOCK_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    uv_prepare_init(loop, &bench.prepare);
    uv_prepare_start(&bench.prepare, on_prepare);
    uv_timer_init(loop, &bench.end);
    uv_timer_start(&bench.end, on_end,
                   argc > 3 ? strtoul(argv[3], NULL, 10) * 1000 : 3000, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    return uv_loop_close(loop) == 0 ? 0 : 1;
}
