/* clock.h - the two clocks, replaceable so that tests move time instead of sleeping. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/** Microseconds of a clock that never steps; its zero is arbitrary. Any thread. */
int64_t clock_mono_us(void);

/** Microseconds since 1970-01-01 UTC by this machine. Any thread. */
int64_t clock_real_us(void);

/**
 * Shift both clocks by `add_us` from now on, for tests. Returns the shift so far, which is
 * 0 us at the start. Any thread.
 */
int64_t clock_shift_us(int64_t add_us);

#endif
