/*
 * lateness.h - whether the answer of a server is late although this loop is punctual.
 *
 * A timer of the loop ticks every LATENESS_TICK_MS. An answer is late after five ticks on which it was
 * awaited. On a busy machine an answer can be late, too, but then the timer is late as well. Such
 * ticks do not count, so a busy machine causes no alarm.
 *
 * Threads: the loop's only.
 */
#ifndef LATENESS_H
#define LATENESS_H

#include <stdbool.h>
#include <stdint.h>

#define LATENESS_TICK_MS 150
#define LATENESS_WORDS   "no reply within 750 ms"

/** Zero-filled at the start. */
struct lateness {
    unsigned ticks;    /* punctual ticks on which the answer was awaited */
    int64_t ticked_us; /* clock_mono_us() of the last tick */
};

/** To be called when a question is sent. */
void lateness_begin(struct lateness *lateness);

/** To be called on each tick. Returns true once, on the tick on which the awaited answer is late. */
bool lateness_tick(struct lateness *lateness, bool is_awaited);

#endif
