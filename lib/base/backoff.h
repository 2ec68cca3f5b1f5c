/* backoff.h - pauses between attempts: exponential, with jitter. */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

/**
 * The pause after failed attempt number `attempt`, counted from 0. The ceiling doubles
 * from `min_ms` (0 counts as 1) to `max_ms`; the pause is between half of the ceiling and
 * all of it, chosen by `random`. Any thread.
 */
uint32_t backoff_ms(unsigned attempt, uint32_t min_ms, uint32_t max_ms, uint64_t random);

#endif
