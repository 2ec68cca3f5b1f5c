/*
 * batch.h - many locks in one script call.
 *
 * A lock joins a batch whose locks need the same operation. Locks of a batch that acquires also
 * have the same lease. rlock_batch_flush() sends all batches. Each lock gets its own result,
 * through `on_result` of its operation (struct rlock_op). A lock may leave its batch at any time:
 * for example, a lock that is released leaves the batch of its renewal.
 */
#ifndef LOCK_BATCH_H
#define LOCK_BATCH_H

#include "lock/internal.h"

/** @on_all_completed  called when a batch has ended and rlock_batches_are_completed() is true */
void rlock_batches_init(struct rlock_batches *batches,
                        void (*on_all_completed)(struct rlock_client *client));

/** Free the memory. To be called when all batches of the closing client have ended. */
void rlock_batches_clear(struct rlock_batches *batches);

bool rlock_batches_are_completed(const struct rlock_batches *batches);

/**
 * Add `lock`, which is in no batch, to a batch. On RLOCK_NO_MEMORY the lock is not added. The batch
 * leaves in the next turn of the loop, or earlier by rlock_batch_flush(). If `op` releases a lock
 * before its hold_min_ms has passed, the name stays taken until then.
 */
MUST_CHECK enum rlock_status rlock_batch_add(struct rlock_client *client,
                                             const struct rlock_op *op,
                                             struct rlock *lock);

bool rlock_batch_is_sent(const struct rlock *lock);

bool rlock_batch_may_grant(const struct rlock *lock);

/** Take the lock out of its batch, if the lock is in a batch. The batch gives this lock no
 *  result. */
void rlock_batch_leave(struct rlock *lock);

void rlock_batch_replace(struct rlock *lock, struct rlock *other);

/** Send all batches. The loop soon ends the batches that cannot be sent. */
void rlock_batch_flush(struct rlock_client *client);

/** Give a result to the locks whose batches could not be sent. */
void rlock_batch_complete_failed(struct rlock_client *client);

void rlock_batch_cancel_all(struct rlock_client *client);

#endif
