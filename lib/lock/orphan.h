/*
 * orphan.h - releases that no caller waits for.
 *
 * When the outcome of an acquire or of a release is unknown, the name may stay locked
 * without an owner until the lease ends. The library keeps a copy of such a lock and
 * releases it as soon as the connection is up.
 */
#ifndef LOCK_ORPHAN_H
#define LOCK_ORPHAN_H

#include "lock/internal.h"

void rlock_orphan_init(struct rlock_client *client);
void rlock_orphan_close(struct rlock_client *client);
void rlock_orphan_clear(struct rlock_client *client);

/**
 * Release a copy of `lock`. After this call the caller may reuse the memory of `lock`. After
 * rlock_client_close() nothing is sent, and the lock ends with its lease.
 */
void rlock_orphan_now(struct rlock_client *client, const struct rlock *lock);

/** Release a copy as soon as possible, because the lock may exist on the server. */
void rlock_orphan_unknown(struct rlock_client *client, const struct rlock *lock);

/** Like rlock_orphan_unknown(), but release the copy after a second. */
void rlock_orphan_later(struct rlock_client *client, const struct rlock *lock);

/** Let a copy take over the release of `lock` that is in progress. */
void rlock_orphan_take_over(struct rlock_client *client, struct rlock *lock);

/** Whether `lock` is a copy that the library releases. */
bool rlock_orphan_owns(const struct rlock *lock);

/** Return an unused lock of the library; NULL: no memory. */
struct rlock *rlock_orphan_spare(struct rlock_client *client);
void rlock_orphan_recycle(struct rlock_client *client, struct rlock *lock);

/** Add the copies that are due to batches, which the next flush sends. */
void rlock_orphan_resume(struct rlock_client *client);

#endif
