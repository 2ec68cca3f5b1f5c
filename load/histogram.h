/* histogram.h - a histogram of durations with a relative error below 1 %. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 3328

struct histogram {
    uint64_t count;
    uint64_t max_us;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/** A duration above 71 minutes counts as 71 minutes. */
void histogram_add(struct histogram *histogram, int64_t us);

/** The quantile `fraction` in us; 0 if the histogram is empty. */
uint64_t histogram_at(const struct histogram *histogram, double fraction);

#endif
