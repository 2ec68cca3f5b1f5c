/*
 * sim.h - the core of the simulator: random numbers, time, events, failure, trace.
 *
 * A schedule is one run of the simulated services and servers. Everything that happens in it is an
 * event at a simulated time. One generator of random numbers makes all choices, so a schedule
 * depends on its seed alone.
 *
 * Threads: one.
 */
#ifndef SIM_H
#define SIM_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MS INT64_C(1000)
#define S  INT64_C(1000000)

void sim_begin(uint64_t seed);

/* -- random numbers -- */

uint64_t sim_random(void);

uint64_t sim_below(uint64_t limit);

int64_t sim_between(int64_t low, int64_t high);

/** True in `percent` of 100 cases. */
bool sim_chance(unsigned percent);

/* -- time and events -- */

int64_t sim_now_us(void);

int64_t sim_elapsed_us(void);

typedef void (*sim_event_cb)(void *subject, uint64_t number);

/** Call `callback` at `at_us`, or now if `at_us` has passed. An event cannot be cancelled. So
 *  the callback gets `number`, by which it can notice that its subject no longer expects the
 *  event. */
void sim_at(int64_t at_us, sim_event_cb callback, void *subject, uint64_t number);

/** Run the next event. If no event is due until `until_us`, set the time to `until_us` and return
 *  false. */
bool sim_step(int64_t until_us);

/* -- failure and trace -- */

void sim_fail(const char *format, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));

extern bool sim_is_tracing;
void sim_print_trace(const char *format, ...) PRINTF_LIKE(1, 2);
#define SIM_TRACE(...)                                                                   \
    do {                                                                                 \
        if (sim_is_tracing)                                                              \
            sim_print_trace(__VA_ARGS__);                                                \
    } while (0)

uint64_t sim_count(void);

#endif
