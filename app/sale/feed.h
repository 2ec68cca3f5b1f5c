/*
 * feed.h - readers of the feed of all vouchers that wait for the next change.
 *
 * The readers of a loop share the questions to Postgres. While readers wait, one query every 100 ms
 * asks up to which number all changes have ended (see store_advance_feed()). When this number has
 * grown, each reader reads the changes behind its own position. While no reader waits, the feed
 * asks nothing.
 *
 * Threads: the loop's only.
 */
#ifndef FEED_H
#define FEED_H

#include "app/store/store.h"

#define FEED_POLLS_MAX 64

struct feed;

/** A reader, in the caller's memory until `done` is called. */
struct feed_poll {
    struct feed_position after;
    int64_t end_us; /* when the wait ends with an empty page, by clock_mono_us() */
    /* Returns whether the client has gone. Called again and again while the reader waits. */
    bool (*is_gone)(const struct feed_poll *poll);
    /* @events  at most `limit` events that come after `after`; none if nothing has changed until
       end_us */
    void (*done)(struct feed_poll *poll, enum rlock_status status,
                 const struct event *events, size_t count);
    unsigned limit;
    /* used by the feed: */
    int answers; /* number of answers to questions that were asked after the reader came */
    struct rlock_link link;
    struct feed *feed;
    int64_t read_until; /* the reader has seen the changes up to this number */
};

/** Returns NULL if memory is out. `store` and `metrics` are borrowed. */
struct feed *feed_open(uv_loop_t *loop, struct store *store, struct metrics *metrics);

/** Read the next events, and wait if there are none. `done` is called once, and never by
 *  feed_read() itself. Returns false if FEED_POLLS_MAX readers read or wait already. */
MUST_CHECK bool feed_read(struct feed *feed, struct feed_poll *poll);

/** Answer all waiting readers with an empty page. Later readers do not wait. */
void feed_drain(struct feed *feed);

/** Called after store_close(), when no reader reads or waits. The loop frees the memory in a later
 *  turn. Accepts NULL. */
void feed_close(struct feed *feed);

#endif
