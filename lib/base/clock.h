/* clock.h - the two clocks; tests shift them instead of sleeping. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/**
 * Microseconds of a clock that never steps back, and goes on while the machine is
 * suspended (CLOCK_BOOTTIME); its zero is arbitrary. Any thread.
 */
int64_t clock_mono_us(void);

/** Microseconds since 1970-01-01 UTC by this machine's clock. Any thread. */
int64_t clock_real_us(void);

/** Whole milliseconds until clock_mono_us() has reached `at_us`; 0: it already has. */
uint64_t clock_ms_until(int64_t at_us);

/** For tests: shift both clocks by `add_us` more. Returns the previous shift. */
int64_t clock_shift_us(int64_t add_us);

#endif
