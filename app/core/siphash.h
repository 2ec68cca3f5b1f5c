/* siphash.h - a hash with a key. Collisions cannot be found without the key. */
#ifndef SIPHASH_H
#define SIPHASH_H

#include <stdint.h>

/**
 * SipHash-2-4 of the 8 bytes of `word`, in little-endian order.
 *
 * Source  Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012
 */
uint64_t siphash(const uint64_t key[2], uint64_t word);

#endif
