/*
 * limiter.c - stores a token bucket as the time at which it is full again.
 *
 * This time alone describes a bucket of `burst` tokens that is refilled at `rate` (the generic cell
 * rate algorithm of ATM). Taking a token moves the time by 1/rate. A token can be taken if the time
 * is then at most burst/rate in the future.
 */
#include "app/auth/limiter.h"

#include <stdlib.h>

#define SET_BITS 14
#define WAYS     4
#define SAMPLED  250 /* sets that limiter_fill() looks at; together 1000 buckets */

struct limiter {
    int64_t rate_per_s;
    int64_t token_us; /* time between two tokens */
    int64_t burst_us;
    struct bucket {
        uint64_t key;
        int64_t full_at_us;
    } buckets[1 << SET_BITS][WAYS];
};

struct limiter *limiter_create(int64_t rate_per_s)
{
    struct limiter *limiter = calloc(1, sizeof(*limiter));

    if (limiter == NULL)
        return NULL;
    limiter->rate_per_s = rate_per_s;
    limiter->token_us = 1000000 / rate_per_s;
    limiter->burst_us = limiter->token_us * rate_per_s * LIMITER_BURST_FACTOR;
    return limiter;
}

void limiter_free(struct limiter *limiter)
{
    free(limiter);
}

/* Returns the bucket of `key`. If `key` has no bucket, it gets the bucket of its set that would be
   full again first. */
static struct bucket *find(struct limiter *limiter, uint64_t key)
{
    struct bucket *set =
        limiter->buckets[(key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - SET_BITS)];
    struct bucket *oldest = &set[0];

    for (int way = 0; way < WAYS; way++) {
        if (set[way].key == key)
            return &set[way];
        if (set[way].full_at_us < oldest->full_at_us)
            oldest = &set[way];
    }
    *oldest = (struct bucket){.key = key};
    return oldest;
}

int64_t limiter_take(struct limiter *limiter, uint64_t key, int64_t now_us)
{
    struct bucket *bucket = find(limiter, key);
    int64_t full_at_us = bucket->full_at_us > now_us ? bucket->full_at_us : now_us;
    int64_t over_us = full_at_us + limiter->token_us - now_us - limiter->burst_us;

    if (over_us > 0)
        return over_us;
    bucket->full_at_us = full_at_us + limiter->token_us;
    return 0;
}

unsigned limiter_fill(const struct limiter *limiter, int64_t now_us)
{
    unsigned used = 0;

    for (int i = 0; limiter != NULL && i < SAMPLED * WAYS; i++)
        used += limiter->buckets[i / WAYS][i % WAYS].full_at_us > now_us;
    return used;
}

int64_t limiter_rate_per_s(const struct limiter *limiter)
{
    return limiter->rate_per_s;
}
