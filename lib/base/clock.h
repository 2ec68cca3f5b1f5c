/* clock.h - a monotonic clock and a wall clock. Tests shift both instead of sleeping. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/**
 * Return the microseconds of a clock that never steps back, and that runs on while the machine is
 * suspended (CLOCK_BOOTTIME). Only the difference of two results has a meaning. Any thread may call
 * this function.
 */
int64_t clock_mono_us(void);

/** Return the microseconds since 1970-01-01 UTC by this machine's clock. Any thread may call it. */
int64_t clock_real_us(void);

/** Return the ms until clock_mono_us() reaches `at_us`, rounded up. Returns 0 if the time has
 *  come. */
uint64_t clock_ms_until(int64_t at_us);

/** For tests: add `add_us` to the shift of both clocks. Returns the shift before this call. */
int64_t clock_shift_us(int64_t add_us);

#endif
