/* histogram.h - counts of durations, each of them known to better than 1 %. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 3328

struct histogram {
    uint64_t count;
    uint64_t max_us;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/** One above 71 minutes counts as such. */
void histogram_add(struct histogram *histogram, int64_t us);

/** So long at most took `fraction` of them; 0 when there are none. */
uint64_t histogram_at(const struct histogram *histogram, double fraction);

#endif
