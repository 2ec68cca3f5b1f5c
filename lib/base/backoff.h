/* backoff.h - pauses between attempts: exponential, with jitter. */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

/**
 * Return the pause in ms after a failed attempt that `attempt` failed attempts preceded. The
 * ceiling of the pause begins with `min_ms` (0 counts as 1), doubles with each attempt, and is at
 * most `max_ms`. `random` chooses the pause between half of the ceiling and the whole ceiling. Any
 * thread may call this function.
 */
uint32_t backoff_ms(unsigned attempt, uint32_t min_ms, uint32_t max_ms, uint64_t random);

#endif
