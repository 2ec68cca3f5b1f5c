/* watchdog.h - renews held locks until they are released or lost. */
#ifndef LOCK_WATCHDOG_H
#define LOCK_WATCHDOG_H

#include "lock/internal.h"

void rlock_watchdog_init(struct rlock_client *client);

/** Stop. The watched locks get `on_cancel` of their renewal. */
void rlock_watchdog_close(struct rlock_client *client);

/** The lease of a held lock was set by a call sent at `sent_us`: watch it from then on. */
void rlock_watchdog_set(struct rlock_client *client, struct rlock *lock, int64_t sent_us);

/** The rest of a watched lock's lease is in doubt: renew it now. */
void rlock_watchdog_hurry(struct rlock_client *client, struct rlock *lock);

/** Stop watching; a renewal in progress is ignored. Harmless if it is not watched. */
void rlock_watchdog_remove(struct rlock *lock);

/** The connection is up again: retry the renewals that failed. */
void rlock_watchdog_resume(struct rlock_client *client);

#endif
