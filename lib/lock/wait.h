/*
 * wait.h - acquires that found the lock busy and wait for it.
 *
 * Guarantee: a waiter misses no release between a try that found the lock busy and its
 * next sleep, because its channel was subscribed before that try.
 */
#ifndef LOCK_WAIT_H
#define LOCK_WAIT_H

#include "lock/internal.h"

void rlock_waits_init(struct rlock_client *client);

/** Cancel all waiting acquires and close what is open. */
void rlock_waits_close(struct rlock_client *client);
void rlock_waits_clear(struct rlock_client *client);

/**
 * A try to acquire `lock` found it busy, or failed for a reason that may pass. Returns
 * RLOCK_OK: the lock waits; RLOCK_NO_MEMORY: it cannot wait; RLOCK_INVALID: it cannot
 * wait beside waiters of another kind; otherwise the status of the try, because the time
 * is up.
 */
MUST_CHECK enum rlock_status rlock_wait_on(struct rlock_client *client,
                                           struct rlock *lock,
                                           const struct rlock_result *result);

/** The connection is up again: retry the tries that failed. */
void rlock_waits_resume(struct rlock_client *client);

/** The result of a check, which tells whether the name of a waiting lock is free. */
rlock_on_result rlock_wait_on_check;

/** `lock` was granted: wake the waiters of the same holder, because it may have the lock
 *  again. */
void rlock_wait_granted(struct rlock_client *client, const struct rlock *lock);

/** End the wait of `lock`, if it waits. `is_granted`: whether the lock was granted */
void rlock_wait_end(struct rlock_client *client, struct rlock *lock, bool is_granted);

/** Whether `lock`, which is about to be acquired, has to wait for another client first. */
bool rlock_wait_must_yield(struct rlock_client *client, const struct rlock *lock);

/**
 * `lock` is being released. The next waiter of this client tries right after the release,
 * unless it is the turn of another client. With `may_pass_on`, if that waiter can get the
 * lock without the server, its wait ends and it is returned; otherwise NULL is returned.
 */
struct rlock *rlock_wait_releasing(struct rlock_client *client, struct rlock *lock,
                                   bool may_pass_on);

/** The release of `lock` has ended. @receivers  clients that got its message; 0 if it failed */
void rlock_wait_released(struct rlock_client *client, struct rlock *lock,
                         unsigned receivers);

#endif
