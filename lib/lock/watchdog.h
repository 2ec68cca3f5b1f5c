/* watchdog.h - renews held locks until they are released or lost. */
#ifndef LOCK_WATCHDOG_H
#define LOCK_WATCHDOG_H

#include "base/list.h"
#include "lock/rlock.h"

#include <uv.h>

struct rlock_result;

struct rlock_watchdog {
    struct list rounds;  /* struct round, one per lease in use */
    struct list overdue; /* locks whose renewal is under way or has failed */
    uv_timer_t timer;
    int64_t timer_at_us; /* INT64_MAX: not running */
};

void rlock_watchdog_init(struct rlock_client *client, uv_loop_t *loop);

/** Stop; the watched locks are let go without a word. */
void rlock_watchdog_close(struct rlock_client *client);
void rlock_watchdog_clear(struct rlock_client *client);

/** Watch a held lock whose lease was sent at `sent_us`. STATUS_OK, STATUS_NO_MEMORY. */
MUST_CHECK enum status rlock_watchdog_add(struct rlock_client *client, struct rlock *lock,
                                          int64_t sent_us);

/** The lease of a held lock was set anew, by what was sent at `sent_us`. */
void rlock_watchdog_renewed(struct rlock_client *client, struct rlock *lock,
                            int64_t sent_us);

/** How long the lease of a held lock runs is in doubt: renew it now. */
void rlock_watchdog_hurry(struct rlock_client *client, struct rlock *lock);

/** Stop watching; a renewal under way is disregarded. Harmless if it is not watched. */
void rlock_watchdog_remove(struct rlock *lock);

/** The connection is back: renew at once what could not be renewed. */
void rlock_watchdog_resume(struct rlock_client *client);

/** What the kinds' `renew.complete` and `renew.cancel` do. */
void rlock_watchdog_complete(struct rlock_client *client, struct rlock *lock,
                             const struct rlock_result *result);
void rlock_watchdog_cancel(struct rlock_client *client, struct rlock *lock, bool is_sent);

#endif
