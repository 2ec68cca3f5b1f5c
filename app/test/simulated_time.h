/*
 * simulated_time.h - a clock and timers that only the test moves.
 *
 * A test program includes this file in one source only: it defines the functions of clock.h and
 * uv_timer_start() in place of the real ones. The clock starts near zero, as on a machine that has
 * just booted.
 */
#ifndef SIMULATED_TIME_H
#define SIMULATED_TIME_H

#include "base/clock.h"

#include <assert.h>
#include <string.h>
#include <uv.h>

#define SIMULATED_TIMERS_MAX 5

static int64_t simulated_us;
static struct simulated_timer {
    uv_timer_t *timer;
    uv_timer_cb callback;
    int64_t due_us;
    int64_t repeat_us;
} simulated_timers[SIMULATED_TIMERS_MAX];

int64_t clock_mono_us(void)
{
    return simulated_us;
}

int64_t clock_real_us(void)
{
    return INT64_C(1700000000000000) + simulated_us;
}

int64_t clock_shift_us(int64_t add_us)
{
    return simulated_us += add_us;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout_ms,
                   uint64_t repeat_ms)
{
    struct simulated_timer *slot = simulated_timers;

    while (slot->timer != NULL && slot->timer != timer)
        slot++;
    assert(slot < simulated_timers + SIMULATED_TIMERS_MAX);
    *slot = (struct simulated_timer){timer, callback,
                                     simulated_us + (int64_t)timeout_ms * 1000,
                                     (int64_t)repeat_ms * 1000};
    return 0;
}

static void simulated_time_reset(void)
{
    simulated_us = 1;
    memset(simulated_timers, 0, sizeof(simulated_timers));
}

/* Returns the timer that is due first, or NULL if no timer is due by end_us. */
static struct simulated_timer *simulated_timer_next(int64_t end_us)
{
    struct simulated_timer *next = NULL;

    for (size_t i = 0; i < SIMULATED_TIMERS_MAX; i++) {
        struct simulated_timer *slot = &simulated_timers[i];

        if (slot->callback != NULL && slot->due_us <= end_us &&
            (next == NULL || slot->due_us < next->due_us))
            next = slot;
    }
    return next;
}

static inline void simulated_time_pass_us(int64_t us, void (*turn)(void))
{
    int64_t end_us = simulated_us + us;
    struct simulated_timer *slot;

    while ((slot = simulated_timer_next(end_us)) != NULL) {
        uv_timer_cb callback = slot->callback;

        simulated_us = slot->due_us;
        slot->due_us += slot->repeat_us;
        if (slot->repeat_us == 0)
            slot->callback = NULL;
        callback(slot->timer);
        turn();
    }
    simulated_us = end_us;
    turn();
}

#endif
