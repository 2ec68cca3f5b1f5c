/* sim.c - a heap of events, and xoshiro256** as the generator of random numbers. */
#include "app/test/sim/sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EVENTS_MAX  8192
#define STEPS_MAX   2000000 /* a schedule with more steps is in an endless loop */
#define INSTANT_MAX 20000
#define EXIT_FOUND  1
#define SPLITMIX    UINT64_C(0x9e3779b97f4a7c15)

struct event {
    int64_t at_us;
    uint64_t order;
    sim_event_cb callback;
    void *subject;
    uint64_t number;
};

bool sim_is_tracing;

static struct {
    uint64_t seed, count;
    uint64_t random[4];
    int64_t begin_us, now_us;
    uint64_t steps, instant_steps, orders;
    size_t event_count;
    struct event events[EVENTS_MAX];
} sim;

/* -- random numbers -- */

/* Source: splitmix64 and xoshiro256**, S. Vigna, public domain algorithms. */
static uint64_t splitmix(uint64_t *state)
{
    uint64_t mixed = *state += SPLITMIX;

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

static uint64_t rotate(uint64_t bits, int by)
{
    return (bits << by) | (bits >> (64 - by));
}

uint64_t sim_random(void)
{
    uint64_t *state = sim.random;
    uint64_t number = rotate(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;

    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 45);
    return number;
}

uint64_t sim_below(uint64_t limit)
{
    return limit == 0 ? 0 : sim_random() % limit;
}

int64_t sim_between(int64_t low, int64_t high)
{
    return low + (int64_t)sim_below((uint64_t)(high - low) + 1);
}

bool sim_chance(unsigned percent)
{
    return sim_below(100) < percent;
}

/* -- time and events -- */

void sim_begin(uint64_t seed)
{
    static const int64_t begins_us[] = {1, 5 * S, 3600 * S, INT64_C(100000000) * S};
    uint64_t state = seed;

    sim.seed = seed;
    sim.count++;
    for (int i = 0; i < 4; i++)
        sim.random[i] = splitmix(&state);
    sim.begin_us = sim.now_us = begins_us[sim_below(4)];
    sim.steps = sim.instant_steps = sim.orders = 0;
    sim.event_count = 0;
}

uint64_t sim_count(void)
{
    return sim.count;
}

int64_t sim_now_us(void)
{
    return sim.now_us;
}

int64_t sim_elapsed_us(void)
{
    return sim.now_us - sim.begin_us;
}

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_us < b->at_us || (a->at_us == b->at_us && a->order < b->order);
}

void sim_at(int64_t at_us, sim_event_cb callback, void *subject, uint64_t number)
{
    struct event event = {.at_us = at_us < sim.now_us ? sim.now_us : at_us,
                          .order = sim.orders++,
                          .callback = callback,
                          .subject = subject,
                          .number = number};
    size_t at = sim.event_count++;

    if (sim.event_count > EVENTS_MAX)
        sim_fail("too many events wait");
    while (at > 0 && is_before(&event, &sim.events[(at - 1) / 2])) {
        sim.events[at] = sim.events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim.events[at] = event;
}

static struct event take_first(void)
{
    struct event first = sim.events[0];
    struct event last = sim.events[--sim.event_count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < sim.event_count) {
        if (child + 1 < sim.event_count &&
            is_before(&sim.events[child + 1], &sim.events[child]))
            child++;
        if (!is_before(&sim.events[child], &last))
            break;
        sim.events[at] = sim.events[child];
        at = child;
    }
    sim.events[at] = last;
    return first;
}

bool sim_step(int64_t until_us)
{
    struct event event;

    if (sim.event_count == 0 || sim.events[0].at_us > until_us) {
        if (until_us > sim.now_us)
            sim.now_us = until_us;
        return false;
    }
    event = take_first();
    sim.instant_steps = event.at_us > sim.now_us ? 0 : sim.instant_steps + 1;
    if (++sim.steps > STEPS_MAX || sim.instant_steps > INSTANT_MAX)
        sim_fail("endless loop: %" PRIu64 " steps", sim.steps);
    sim.now_us = event.at_us;
    event.callback(event.subject, event.number);
    return true;
}

/* -- failure and trace -- */

void sim_print_trace(const char *format, ...)
{
    va_list args;

    printf("%10.3f ms  ", (double)sim_elapsed_us() / 1000);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void sim_fail(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "FAILED after %.3f ms of schedule %" PRIu64 ": ",
            (double)sim_elapsed_us() / 1000, sim.count);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nreplay: make simulate SEED=%" PRIu64 " COUNT=1\n", sim.seed);
    fflush(stderr);
    _exit(EXIT_FOUND);
}
