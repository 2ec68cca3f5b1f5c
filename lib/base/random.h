/* random.h - random numbers from the kernel. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Fill `ret_bytes` with unpredictable random bytes. False if the kernel has none. Any
 * thread.
 */
MUST_CHECK bool random_fill(void *ret_bytes, size_t count);

/**
 * A random number for jitter and for ids that only have to differ. Falls back to the
 * clock. Never blocks. Any thread.
 */
uint64_t random_u64(void);

#endif
