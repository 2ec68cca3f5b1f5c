/*
 * naive.h - older ways to lock in Redis, as stages of improvement. Tests show how each stage fails.
 *
 * To take and to release a lock are two steps each, so that a test can stop in between.
 */
#ifndef TEST_NAIVE_H
#define TEST_NAIVE_H

#include "test/server.h"

struct naive_stage {
    /** Begin to take the lock `name`. Returns false if another owner has it. */
    bool (*take)(struct server *server, const char *name, const char *owner,
                 unsigned lease_ms);
    /** The second step of taking the lock; NULL: there is none. */
    void (*finish_take)(struct server *server, const char *name, unsigned lease_ms);
    /** The first step of a release. Returns whether to go on. NULL: always go on. */
    bool (*may_release)(struct server *server, const char *name, const char *owner);
    void (*release)(struct server *server, const char *name, const char *owner);
};

/* The comments list the commands that take the lock and, after a semicolon, the commands that
   release it. */
extern const struct naive_stage naive_setnx;        /* SETNX; DEL */
extern const struct naive_stage naive_setnx_expire; /* SETNX, PEXPIRE; DEL */
extern const struct naive_stage naive_blind_del;    /* SET NX PX; DEL */
extern const struct naive_stage naive_get_del;  /* SET NX PX; GET, DEL if it is ours */
extern const struct naive_stage naive_unfenced; /* SET NX PX; GET and DEL in a script */

/** SET NX PX; a script that deletes the lock and publishes a message. A client subscribes only
 *  after it has found the lock busy. So the client misses the message of a release that comes
 *  before its subscription. */
extern const struct naive_stage naive_waiter;

/** Subscribe to the message of a release of naive_waiter. Returns whether a message has arrived. */
bool naive_subscribe(struct server *server, const char *name);

/*
 * The algorithm used before Redis 2.6.12: the value is the time at which the lock ends,
 * by the clock of its owner. A client that finds this time in the past sets its own
 * time with GETSET. It owns the lock if GETSET returns the value that it had found.
 */
extern const struct naive_stage naive_getset; /* with this machine's clock */

/** The first step of naive_getset, at `now_ms`. Returns true if the lock is ours. Otherwise sets
 *  `ret_end_ms` to the time at which it ends. */
bool naive_getset_look(struct server *server, const char *name, long long now_ms,
                       unsigned lease_ms, long long *ret_end_ms);

/** The second step, for a lock whose end `found_ms` has passed. Returns whether the lock is
 *  ours. */
bool naive_getset_take_over(struct server *server, const char *name, long long found_ms,
                            long long now_ms, unsigned lease_ms);

#endif
