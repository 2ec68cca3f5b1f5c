/* state.h - what becomes of a lock when its call is answered, the same for all kinds. */
#ifndef LOCK_STATE_H
#define LOCK_STATE_H

#include "lock/batch.h"

/* What the kinds' operations do: see struct rlock_op. */
void rlock_complete_acquire(struct rlock_client *client, struct rlock *lock,
                            const struct rlock_result *result);
void rlock_complete_extend(struct rlock_client *client, struct rlock *lock,
                           const struct rlock_result *result);
void rlock_complete_release(struct rlock_client *client, struct rlock *lock,
                            const struct rlock_result *result);
void rlock_cancel_acquire(struct rlock_client *client, struct rlock *lock, bool is_sent);
void rlock_cancel_extend(struct rlock_client *client, struct rlock *lock, bool is_sent);
void rlock_cancel_release(struct rlock_client *client, struct rlock *lock, bool is_sent);

/** An acquire has ended without a grant: tell its caller. */
void rlock_complete_failed(struct rlock_client *client, struct rlock *lock,
                           enum status status);

/** Until when a lease that was asked for at `sent_us` surely runs. */
int64_t rlock_safe_until_us(int64_t sent_us, uint32_t lease_ms);

#endif
