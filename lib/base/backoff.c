/* backoff.c - computes a pause from a given random number. */
#include "base/backoff.h"

#define DOUBLINGS_MAX 32 /* 1 << 32 exceeds any max_ms */

uint32_t backoff_ms(unsigned attempt, uint32_t min_ms, uint32_t max_ms, uint64_t random)
{
    uint64_t grown_ms = (uint64_t)(min_ms == 0 ? 1 : min_ms)
                        << (attempt < DOUBLINGS_MAX ? attempt : DOUBLINGS_MAX);
    uint32_t ceiling_ms = grown_ms < max_ms ? (uint32_t)grown_ms : max_ms;
    uint32_t spread_ms = ceiling_ms / 2;

    return ceiling_ms - spread_ms + (uint32_t)(random % (spread_ms + UINT64_C(1)));
}
