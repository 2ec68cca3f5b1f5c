/*
 * simulate.c - runs schedules: simulate [SEED [COUNT [SECONDS]]].
 *
 * The first schedule has the seed SEED, the next one SEED + 1, and so on. Without a seed, or with
 * 0, a fresh seed is chosen and printed. The run ends after COUNT schedules or SECONDS; 0 means no
 * limit. If COUNT is 1, the schedule is traced.
 *
 * simulate sql SEED COUNT prints COUNT statements with their results, for compare_sql.py.
 */
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_schedule.h"
#include "app/test/sim/sim_sql_script.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define GROUP 64

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t fresh_seed(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000) * 1000000;
}

static uint64_t argument(int argc, char **argv, int at)
{
    return argc > at ? strtoull(argv[at], NULL, 10) : 0;
}

/* Limits the CPU time of a group of schedules to many times the normal CPU time. */
static void limit_time(void)
{
    struct itimerval limit = {.it_value.tv_sec = 60};

    setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

static void on_crash(int number)
{
    /* NOLINTNEXTLINE(bugprone-signal-handler): the program ends here */
    sim_fail("the program ends by signal %d", number);
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1);
    uint64_t count = argument(argc, argv, 2);
    double seconds = (double)argument(argc, argv, 3);
    double began_s = now_s();

    if (argc == 4 && strcmp(argv[1], "sql") == 0) {
        sim_sql_script_print(argument(argc, argv, 2), argument(argc, argv, 3));
        return 0;
    }
    if (seed == 0)
        seed = fresh_seed();
    sim_is_tracing = count == 1;
    signal(SIGABRT, on_crash);
    signal(SIGSEGV, on_crash);
    signal(SIGBUS, on_crash);
    signal(SIGVTALRM, on_crash);
    printf("seed %" PRIu64 "\n", seed);
    fflush(stdout);
    for (uint64_t i = 0; count == 0 || i < count; i++) {
        if (i % GROUP == 0)
            limit_time();
        if (seconds > 0 && i % GROUP == 0 && now_s() - began_s >= seconds)
            break;
        sim_schedule_run(seed + i);
    }
    printf("simulator: %" PRIu64 " schedules from seed %" PRIu64 " in %.0f s\n",
           sim_count(), seed, now_s() - began_s);
    return 0;
}
