/*
 * state.h - changes the state of a lock; no other file does.
 *
 * Calls arrive from calls.c. Results of batches arrive through the operations of the lock's
 * kind (struct rlock_op). lib/README.md lists the transitions.
 */
#ifndef LOCK_STATE_H
#define LOCK_STATE_H

#include "lock/internal.h"

/* -- calls -- */

/* "held -> releasing" means that the lock must be held before the call, and is releasing after
   it. */

/** Idle or lost -> acquiring. The fields of the lock must be set. */
void rlock_state_acquire(struct rlock_client *client, struct rlock *lock);

/** Held -> extending. The new lease is `lease_ms` of the lock. */
void rlock_state_extend(struct rlock_client *client, struct rlock *lock);

/** Extending -> held; the caller of the extension gets RLOCK_CANCELLED. */
void rlock_state_end_extension(struct rlock_client *client, struct rlock *lock);

/** Held -> releasing. */
void rlock_state_release(struct rlock_client *client, struct rlock *lock);

/** Held or lost -> idle. If the lock was held, the library releases a copy of the lock. In other
 *  states this function has no effect. */
void rlock_state_drop(struct rlock_client *client, struct rlock *lock);

/** Any state except answering -> answering. Soon the loop makes the lock idle and calls the
 *  callback. */
void rlock_state_answer(struct rlock_client *client, struct rlock *lock,
                        enum rlock_status status);

/**
 * Have the loop call `callback` for `lock`. The state and the call in progress do not change.
 *
 * @reason  a static text for rlock_client_why() with RLOCK_INVALID; otherwise NULL
 */
void rlock_state_answer_unchanged(struct rlock_client *client, struct rlock *lock,
                                  enum rlock_status status, const char *reason,
                                  rlock_cb callback, void *arg);

/** Call the callbacks that are due. Callbacks that become due meanwhile wait for the next turn. */
void rlock_state_call_back(struct rlock_client *client);

/* -- results, for the operations of all kinds: see struct rlock_op -- */

rlock_on_result rlock_state_on_acquire, rlock_state_on_renew, rlock_state_on_extend,
    rlock_state_on_release, rlock_state_on_silent_release;
rlock_on_cancel rlock_state_cancel_acquire, rlock_state_cancel_renew,
    rlock_state_cancel_call, rlock_state_cancel_release;

#endif
