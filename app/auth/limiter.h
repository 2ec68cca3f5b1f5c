/*
 * limiter.h - rate limits by token buckets, per shopper or per address.
 *
 * Memory is bounded for any number of keys: a table of fixed size (1 MiB) has 65,536 buckets. A key
 * can use four of them. If all four belong to other keys, the bucket that would be full again first
 * is evicted, and its former key may send a whole burst again. So requests from very many
 * addresses make the limits less exact, but take no memory.
 *
 * Each loop has its own limiter, and applies the limit to its own requests.
 */
#ifndef LIMITER_H
#define LIMITER_H

#include "base/attributes.h"

#define LIMITER_BURST_FACTOR 2

#include <stdint.h>

struct limiter;

/** Allow `rate_per_s` tokens a second, at least 1. The burst is LIMITER_BURST_FACTOR times the
 *  rate. Returns NULL if memory is out. */
struct limiter *limiter_create(int64_t rate_per_s);
void limiter_free(struct limiter *limiter); /* accepts NULL */

/** Take a token of `key`, and return 0. If there is no token, return the microseconds until the
 *  next token. */
MUST_CHECK int64_t limiter_take(struct limiter *limiter, uint64_t key, int64_t now_us);

/** The share of buckets in use, in per mille, estimated from a sample. 0 if `limiter` is NULL. */
unsigned limiter_fill(const struct limiter *limiter, int64_t now_us);

int64_t limiter_rate_per_s(const struct limiter *limiter);

#endif
