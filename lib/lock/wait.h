/*
 * wait.h - waits for locks that an acquire has found busy.
 *
 * Guarantee: between a try that found the lock busy and its next sleep a waiter misses no release,
 * because it had subscribed to the channel before that try.
 */
#ifndef LOCK_WAIT_H
#define LOCK_WAIT_H

#include "lock/internal.h"

void rlock_waits_init(struct rlock_client *client);

/** Cancel all waiting acquires and close what is open. */
void rlock_waits_close(struct rlock_client *client);
void rlock_waits_clear(struct rlock_client *client);

/**
 * Make `lock` wait, because a try to acquire it found it busy, or failed for a reason that may
 * pass. If `result->sent_us` is 0, there was no try, because other calls of this client wait for the
 * name; until its first try, the lock then fails like the call before it.
 *
 * Returns  RLOCK_OK         the lock waits
 *          RLOCK_NO_MEMORY  it cannot wait
 *          RLOCK_INVALID    it cannot wait, because calls of another kind wait for its name
 *          others           the status of the try, because the time to wait is over
 */
MUST_CHECK enum rlock_status rlock_wait_on(struct rlock_client *client,
                                           struct rlock *lock,
                                           const struct rlock_result *result);

/** Try again all acquires whose last try failed, because the connection is up again. */
void rlock_waits_resume(struct rlock_client *client);

/** Receives the result of a check, which tells whether the name of a waiting lock is free. */
rlock_on_result rlock_wait_on_check;

/** Wake the waiters that have the same holder as `lock`, which was granted: their holder may have
 *  the lock again. */
void rlock_wait_granted(struct rlock_client *client, const struct rlock *lock);

/** End the wait of `lock`, if it waits. `is_granted` says whether the lock was granted. */
void rlock_wait_end(struct rlock_client *client, struct rlock *lock, bool is_granted);

/** Whether `lock`, which is about to be acquired, has to wait until another client had its turn. */
bool rlock_wait_must_yield(struct rlock_client *client, const struct rlock *lock);

/**
 * Note that `lock` is being released. The next waiter of this client tries right after the release,
 * unless it is the turn of another client.
 *
 * If `may_pass_on` is true and that waiter can get the lock without the server, then the wait of
 * the waiter ends, and its lock is returned. Otherwise NULL is returned.
 *
 * @ret_is_silent  whether the release needs no message, because the turn of this client goes on
 */
struct rlock *rlock_wait_releasing(struct rlock_client *client, struct rlock *lock,
                                   bool may_pass_on, bool *ret_is_silent);

/** Note that the release of `lock` has ended. `receivers` clients got its message; 0 if it
 *  failed. */
void rlock_wait_released(struct rlock_client *client, struct rlock *lock,
                         unsigned receivers);

#endif
