/*
 * naive.h - older ways to lock in Redis, stage by stage; tests show how each fails.
 *
 * Taking and releasing are two steps each, so that a test can stop between them.
 */
#ifndef TEST_NAIVE_H
#define TEST_NAIVE_H

#include "test/server.h"

struct naive_stage {
    /** Begin to take the lock `name`; false when it is held. */
    bool (*take)(struct server *server, const char *name, const char *owner,
                 unsigned lease_ms);
    /** What is left to do then; NULL: nothing. */
    void (*finish_take)(struct server *server, const char *name, unsigned lease_ms);
    /** Begin to release: whether to go on. NULL: always. */
    bool (*may_release)(struct server *server, const char *name, const char *owner);
    void (*release)(struct server *server, const char *name, const char *owner);
};

extern const struct naive_stage naive_setnx;        /* SETNX; DEL */
extern const struct naive_stage naive_setnx_expire; /* SETNX, EXPIRE; DEL */
extern const struct naive_stage naive_blind_del;    /* SET NX PX; DEL */
extern const struct naive_stage naive_get_del;  /* SET NX PX; GET, DEL if it is ours */
extern const struct naive_stage naive_unfenced; /* SET NX PX; GET and DEL in a script */

/**
 * SET NX PX; a script deletes and publishes. A client that finds the lock busy subscribes
 * then, so it misses the message of a release in between.
 */
extern const struct naive_stage naive_waiter;

/** Subscribe to what the release of naive_waiter publishes; whether a message is there. */
bool naive_subscribe(struct server *server, const char *name);

/*
 * The algorithm used before Redis 2.6.12: the value is the time at which the lock ends,
 * by the clock of its owner. A client that finds this time in the past sets its own
 * time with GETSET. It owns the lock if GETSET returns the value that it had found.
 */
extern const struct naive_stage naive_getset; /* with this machine's clock */

/** First step, at `now_ms`: true if the lock is ours; otherwise sets `ret_end_ms`. */
bool naive_getset_look(struct server *server, const char *name, long long now_ms,
                       unsigned lease_ms, long long *ret_end_ms);

/** Second step, for a lock whose end `found_ms` has passed: whether it is ours. */
bool naive_getset_take_over(struct server *server, const char *name, long long found_ms,
                            long long now_ms, unsigned lease_ms);

#endif
