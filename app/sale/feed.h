/*
 * feed.h - readers of the feed of all vouchers that wait for the next change.
 *
 * The readers of a loop share the questions to Postgres: while some of them wait, the feed asks every
 * 100 ms how far the changes are complete, by one query. Only if they are complete further than before,
 * each reader reads what is behind its own position. Nothing is asked while nobody waits.
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
    int64_t end_us; /* clock_mono_us(): the reader then gets no events */
    /* Whether nobody needs the answer any more. Asked while the reader waits. */
    bool (*is_gone)(const struct feed_poll *poll);
    /* @events  behind `after`, at most `limit`; none: nothing has changed until end_us */
    void (*done)(struct feed_poll *poll, enum rlock_status status,
                 const struct event *events, size_t count);
    unsigned limit;
    /* used by the feed: */
    int answers; /* to questions that were asked after the reader came */
    struct rlock_link link;
    struct feed *feed;
    int64_t read_until; /* the reader has seen the changes up to this number */
};

/** `store` and `metrics` are borrowed. NULL: out of memory. */
struct feed *feed_open(uv_loop_t *loop, struct store *store, struct metrics *metrics);

/** Read the next events, and wait until there are some. `done` is called once, never by feed_read()
 *  itself. False: FEED_POLLS_MAX readers read or wait already. */
MUST_CHECK bool feed_read(struct feed *feed, struct feed_poll *poll);

/** End the wait of each reader, now and from now on. Its page is then empty. */
void feed_drain(struct feed *feed);

/** To be called when no reader reads or waits, behind store_close(). The loop frees the memory in a
 *  later turn. Accepts NULL. */
void feed_close(struct feed *feed);

#endif
