/* random.h - random numbers from the kernel. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Fill `ret_bytes` with unpredictable random bytes. Returns false if the kernel supplies none.
 *  Any thread may call this function. */
MUST_CHECK bool random_fill(void *ret_bytes, size_t count);

/** Return a random number for jitter, or for an id that only has to be unique. If the kernel
 *  supplies no random number at once, return the time instead. Any thread may call this
 *  function. */
uint64_t random_u64(void);

#endif
