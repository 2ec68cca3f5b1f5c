/*
 * stats.h - what all instances did in each of the last ten minutes' seconds.
 *
 * One loop of each instance adds its stats to a stream in Redis every second; any loop
 * of any instance reads them there. So a dashboard sees all instances whichever one it
 * asks, by one clock, and also what was before it was opened. Nothing depends on it: what
 * Redis does not take is lost.
 *
 * Threads: the loop's only.
 */
#ifndef STATS_H
#define STATS_H

#include "app/core/metrics.h"
#include "base/attributes.h"
#include "base/err.h"
#include "redis/conn.h"

#define STATS_KEY      "seckill:stats"
#define STATS_ID_BYTES 44 /* of an entry, "MILLISECONDS-NUMBER", with its NUL */

struct stats;

struct stats_options {
    uv_loop_t *loop;
    const char *redis_url;
    uint32_t timeout_ms;
    struct metrics *const *all_metrics;
    size_t all_metrics_count;
    bool is_publisher; /* one loop of an instance is */
};

/** One who asks; in memory of the caller until answered. */
struct stats_read {
    struct redis_command command;
    struct stats *stats;
    void (*done)(struct stats_read *read, char *text);
};

/** STATUS_OK; STATUS_INVALID, STATUS_NO_MEMORY. That Redis is away is no error. */
MUST_CHECK enum status stats_open(const struct stats_options *options,
                                  struct stats **ret_stats, struct err *reterr);

/**
 * What was added behind the entry `after`; "" for all that is kept.
 *
 * @done  called once, never from inside this call: with a JSON object that `done` is to
 *        free. Its `items` are [id, instance, stats], the oldest first; `is_shared` is
 *        false where Redis does not answer: then it is this instance's of this moment
 *        alone. NULL: out of memory
 *
 * Returns  STATUS_OK; STATUS_DOWN: Redis is away, `done` will not be called
 */
MUST_CHECK enum status stats_read(struct stats *stats, const char *after,
                                  struct stats_read *read,
                                  void (*done)(struct stats_read *read, char *text));

/** This instance's alone, in the same form; the caller frees it. NULL: out of memory. */
char *stats_print_own(struct stats *stats);

void stats_flush(struct stats *stats);

/** What was asked is answered before this returns. Accepts NULL. */
void stats_close(struct stats *stats);

#endif
