/*
 * lateness.h - whether the answer of a server is late although this loop is punctual.
 *
 * A timer of the loop ticks every LATENESS_TICK_MS. An answer is late if five ticks have found it
 * missing. On a busy machine an answer can be late, too, but then the timer is also late. Such
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

/** Filled with zeros at the start. */
struct lateness {
    unsigned ticks; /* number of punctual ticks that found the answer missing */
    int64_t ticked_us;
};

/** Called when a question is sent. */
void lateness_begin(struct lateness *lateness);

/** Called on each tick. Returns true once, on the tick on which the awaited answer is late. */
bool lateness_tick(struct lateness *lateness, bool is_awaited);

#endif
