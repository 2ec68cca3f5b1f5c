/*
 * histogram.c - one bucket per us up to 255 us, then 128 buckets per power of two, as in
 * HdrHistogram: the width of a bucket is at most 1/128 of its values.
 */
#include "load/histogram.h"

#include <math.h>
#include <stddef.h>

#define SUB_BITS 7

static size_t bucket_of(uint64_t us)
{
    unsigned shift =
        us >> SUB_BITS == 0 ? 0 : 63 - SUB_BITS - (unsigned)__builtin_clzll(us);

    return ((size_t)shift << SUB_BITS) + (us >> shift);
}

static uint64_t last_us_of(size_t bucket)
{
    size_t shift = bucket >> SUB_BITS == 0 ? 0 : (bucket >> SUB_BITS) - 1;

    return ((bucket - (shift << SUB_BITS) + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, int64_t us)
{
    uint64_t value = us < 0 ? 0 : us > UINT32_MAX ? UINT32_MAX : (uint64_t)us;

    histogram->count++;
    histogram->buckets[bucket_of(value)]++;
    if (value > histogram->max_us)
        histogram->max_us = value;
}

uint64_t histogram_at(const struct histogram *histogram, double fraction)
{
    uint64_t rank = (uint64_t)ceil(fraction * (double)histogram->count);
    uint64_t passed = 0;

    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t us = last_us_of(i);

        passed += histogram->buckets[i];
        if (passed > 0 && passed >= rank)
            return us < histogram->max_us ? us : histogram->max_us;
    }
    return histogram->max_us;
}
