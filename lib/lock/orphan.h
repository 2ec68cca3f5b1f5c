/*
 * orphan.h - releases that nobody waits for.
 *
 * When the outcome of an acquire or a release is unknown, the name may stay locked for
 * the whole lease with no holder. Its owner's value is remembered here, and the lock is
 * compared and deleted as soon as the connection is back.
 */
#ifndef LOCK_ORPHAN_H
#define LOCK_ORPHAN_H

#include "base/list.h"
#include "lock/rlock.h"

#include <uv.h>

struct rlock_orphans {
    struct list spare;  /* locks of the library's own, unused */
    struct list due;    /* to be given back when the connection is up */
    struct list second; /* to be looked at once more, by renew_at_us */
    unsigned due_count;
    uv_timer_t timer;
};

void rlock_orphan_init(struct rlock_client *client, uv_loop_t *loop);
void rlock_orphan_close(struct rlock_client *client);
void rlock_orphan_clear(struct rlock_client *client);

/**
 * Release the lock of `lock`, which may be used anew when this returns. Once the client
 * has been closed its lease ends it.
 */
void rlock_orphan_now(struct rlock_client *client, struct rlock *lock);

/** What became of `lock` at the server is unknown: give it back when that is possible. */
void rlock_orphan_unknown(struct rlock_client *client, const struct rlock *lock);

/** Let `lock`'s release under way go on without it. */
void rlock_orphan_take_over(struct rlock_client *client, struct rlock *lock);

/** Whether `lock` is the library's own. */
bool rlock_orphan_owns(const struct rlock *lock);

/** A lock of the library's own, to stand for a caller's; NULL: no memory. */
struct rlock *rlock_orphan_spare(struct rlock_client *client);
void rlock_orphan_recycle(struct rlock_client *client, struct rlock *lock);

/** Put what is due in line; it leaves with the next flush. */
void rlock_orphan_resume(struct rlock_client *client);

#endif
