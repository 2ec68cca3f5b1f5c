/*
 * stats.h - the stats of all instances, per second, for the last ten minutes.
 *
 * One loop of each instance adds its stats to a stream in Redis every second. Any loop of any
 * instance can read the stream. So every instance can serve a dashboard that shows all instances by
 * one clock, and also the minutes before the dashboard was opened. If Redis does not accept stats,
 * they are lost, because only the dashboard uses them.
 *
 * redis_conn_flush() sends the commands. Threads: the loop's only.
 */
#ifndef STATS_H
#define STATS_H

#include "app/core/metrics.h"
#include "base/attributes.h"
#include "redis/conn.h"

#define STATS_KEY      "seckill:stats"
#define STATS_ID_BYTES 44 /* size of an entry's id with its NUL */

struct stats;

struct stats_options {
    uv_loop_t *loop;
    struct redis_conn *conn; /* borrowed; closed before stats_close() */
    const struct all_metrics *all_metrics;
    /* whether the loop adds the stats; true in one loop per instance */
    bool is_publisher;
};

/** A command under way. The caller of stats_read() keeps the struct until `done` is called. */
struct stats_read {
    struct redis_command command;
    struct stats *stats;
    void (*done)(struct stats_read *read, char *text);
};

/** Returns NULL if memory is out. Redis may be down. */
struct stats *stats_open(const struct stats_options *options);

/**
 * Read the entries after the id `after`; "": all entries.
 *
 * @done  called once, after stats_read() has returned, with a JSON object that `done` frees; NULL:
 *        out of memory. The `items` of the object are [id, instance, stats], the oldest first. If
 *        Redis did not answer, `is_shared` is false, and the only item is the present state of this
 *        instance.
 *
 * Returns  RLOCK_OK; RLOCK_DOWN, RLOCK_NO_MEMORY: `done` will not be called
 */
MUST_CHECK enum rlock_status
stats_read(struct stats *stats, const char *after, struct stats_read *read,
           void (*done)(struct stats_read *read, char *text));

/** Return a JSON object like that of stats_read(), with the present state of this instance only.
 *  The caller frees the text. Returns NULL if memory is out. */
char *stats_print_own(struct stats *stats);

/** The loop frees the memory in a later turn. Accepts NULL. */
void stats_close(struct stats *stats);

#endif
