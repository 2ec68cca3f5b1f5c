/*
 * limiter.h - token buckets: how often one shopper, or one address, may ask.
 *
 * Memory is bounded whatever the number of keys: a table of fixed size in which each key
 * has a few places. When all of them are taken by others, the one that has been idle
 * longest gives way; it loses no more than what it had used of its burst.
 *
 * One limiter per loop: the bound holds for each loop by itself.
 */
#ifndef LIMITER_H
#define LIMITER_H

#include "base/attributes.h"

#include <stdint.h>

struct limiter;

/** `rate_per_s` >= 1; a burst of twice that is allowed. NULL: out of memory. */
struct limiter *limiter_create(int64_t rate_per_s);
void limiter_free(struct limiter *limiter); /* accepts NULL */

/**
 * May `key` ask once more?
 *
 * Returns  0: yes, and it is counted; else microseconds until it may
 */
MUST_CHECK int64_t limiter_take(struct limiter *limiter, uint64_t key, int64_t now_us);

/** A key for an address: the IPv6 prefix of 64 bits, or the whole IPv4 address. */
uint64_t limiter_address_key(const uint8_t address[16]);

#endif
