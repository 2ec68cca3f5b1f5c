/* watchdog.h - renews held locks until they are released or lost. */
#ifndef LOCK_WATCHDOG_H
#define LOCK_WATCHDOG_H

#include "lock/internal.h"

void rlock_watchdog_init(struct rlock_client *client);

/** Stop the watchdog. Calls `on_cancel` of the renewal for each watched lock. */
void rlock_watchdog_close(struct rlock_client *client);

/** Watch a held lock whose lease was set by a call that was sent at `sent_us`. */
void rlock_watchdog_set(struct rlock_client *client, struct rlock *lock, int64_t sent_us);

/** Renew a watched lock now, because the end of its lease is uncertain. */
void rlock_watchdog_hurry(struct rlock_client *client, struct rlock *lock);

/** Stop watching a lock, and ignore a renewal in progress. A lock that is not watched may be
 *  passed. */
void rlock_watchdog_remove(struct rlock *lock);

/** Retry the renewals that failed, because the connection is up again. */
void rlock_watchdog_resume(struct rlock_client *client);

#endif
