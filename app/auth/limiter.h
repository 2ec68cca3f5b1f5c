/*
 * limiter.h - token buckets: how often one shopper, or one address, may ask.
 *
 * Memory is bounded whatever the number of keys: a table of fixed size (1 MiB) in which
 * each key has four places out of 65,536. When all four are taken by others, the one
 * whose bucket is full first gives way; it loses no more than what it had used of its
 * burst. So whoever asks from very many addresses makes the service forget, not grow.
 *
 * One limiter per loop: the bound holds for each loop by itself.
 */
#ifndef LIMITER_H
#define LIMITER_H

#include "base/attributes.h"

#define LIMITER_BURST_FACTOR 2

#include <stdint.h>

struct limiter;

/** `rate_per_s` >= 1; a burst of LIMITER_BURST_FACTOR times that is
 *  allowed. NULL: out of memory. */
struct limiter *limiter_create(int64_t rate_per_s);
void limiter_free(struct limiter *limiter); /* accepts NULL */

/**
 * May `key` ask once more?
 *
 * Returns  0: yes, and it is counted; else microseconds until it may
 */
MUST_CHECK int64_t limiter_take(struct limiter *limiter, uint64_t key, int64_t now_us);

/** What was given to limiter_create(). */
int64_t limiter_rate_per_s(const struct limiter *limiter);

#endif
