/*
 * rlock_sync.h - the locks of rlock.h for threads that block.
 *
 * A struct rlock_sync is a loop for any number of threads; the clients opened in it do
 * what rlock.h says. Each call sleeps until it is answered; calls of several threads
 * leave together. One of the calling threads runs the loop for all of them; a thread of
 * its own does so while nobody calls, so that leases are renewed and losses told.
 *
 * What a thread wrote before it released a lock is seen by the thread of the same
 * struct rlock_sync that acquires it next.
 *
 * After rlock_sync_close() every call answers STATUS_CANCELLED until rlock_sync_free().
 *
 * Threads: any, unless stated otherwise; a struct rlock is used by one thread at a time.
 * on_lost and on_state are called in whichever thread runs the loop, perhaps that of
 * another caller: they may not block; what they call here answers STATUS_INVALID (but
 * rlock_sync_close() would wait for ever). A thread is not to be cancelled
 * (pthread_cancel) inside a call.
 */
#ifndef LOCK_RLOCK_SYNC_H
#define LOCK_RLOCK_SYNC_H

#include "lock/rlock.h"
#include "lock/rlock_group.h"

struct rlock_sync;

/**
 * Start the loop and its thread.
 *
 * @ret_sync  set on STATUS_OK; end with rlock_sync_close(), then rlock_sync_free()
 *
 * Returns  STATUS_OK, STATUS_NO_MEMORY, STATUS_IO (no thread, no descriptors)
 */
MUST_CHECK enum status rlock_sync_start(struct rlock_sync **ret_sync, struct err *reterr);

/**
 * Close the clients as rlock_client_close() does and end the thread; calls under way are
 * answered STATUS_CANCELLED. Blocks up to the longest timeout of a client. Twice is fine.
 * Accepts NULL.
 */
void rlock_sync_close(struct rlock_sync *sync);

/** After rlock_sync_close(), when no thread uses it any more. Accepts NULL. */
void rlock_sync_free(struct rlock_sync *sync);

/**
 * Open a client in it; `options->loop` is ignored. Waits until it is connected, at most
 * `options->timeout_ms`.
 *
 * Returns  STATUS_OK; STATUS_DOWN (not connected yet: the client exists and goes on
 *          trying, `reterr` says why); as rlock_client_open(); STATUS_CANCELLED
 */
MUST_CHECK enum status rlock_sync_open(struct rlock_sync *sync,
                                       const struct rlock_client_options *options,
                                       struct rlock_client **ret_client,
                                       struct err *reterr);

/** A number of this thread's, unlike any other's in this process, for options->holder. */
uint64_t rlock_sync_holder(void);

/*
 * Each as its namesake in rlock.h: the statuses are those of the callback there. `reterr`
 * (may be NULL) is given the words. They block: an acquire up to wait_ms and twice the
 * client's timeout, others up to twice the timeout. on_lost is given no `arg` of any use;
 * it tells by the lock or group. rlock_fence() may be asked directly.
 */
MUST_CHECK enum status rlock_sync_acquire(struct rlock_sync *sync,
                                          struct rlock_client *client, struct rlock *lock,
                                          const char *name, size_t name_len,
                                          const struct rlock_acquire_options *options,
                                          struct err *reterr);
MUST_CHECK enum status rlock_sync_release(struct rlock_sync *sync,
                                          struct rlock_client *client, struct rlock *lock,
                                          struct err *reterr);
MUST_CHECK enum status rlock_sync_extend(struct rlock_sync *sync,
                                         struct rlock_client *client, struct rlock *lock,
                                         uint32_t lease_ms, struct err *reterr);
MUST_CHECK enum status rlock_sync_force_release(struct rlock_sync *sync,
                                                struct rlock_client *client,
                                                const char *name, size_t name_len,
                                                struct err *reterr);

/** Ends, from another thread, the rlock_sync_acquire() that waits with this lock. */
void rlock_sync_cancel(struct rlock_sync *sync, struct rlock_client *client,
                       struct rlock *lock);

/** What rlock_inspect() tells, with the owner's value copied, NUL behind it, cut to fit.
 */
struct rlock_sync_info {
    char owner[128];
    int64_t remaining_ms;
    int64_t count;
    bool is_ours;
};

MUST_CHECK enum status
rlock_sync_inspect(struct rlock_sync *sync, struct rlock_client *client, const char *name,
                   size_t name_len, struct rlock_sync_info *ret_info, struct err *reterr);

/** Whether it is held as far as is known here, and for how long that is sure. */
bool rlock_sync_is_held(struct rlock_sync *sync, const struct rlock *lock);
int64_t rlock_sync_safe_for_us(struct rlock_sync *sync, const struct rlock *lock);

void rlock_sync_stats(struct rlock_sync *sync, struct rlock_client *client,
                      struct rlock_stats *ret_stats);

/*
 * Groups of clients of this `sync`, each call as its namesake in rlock_group.h.
 * rlock_sync_close() frees those that are left.
 */
MUST_CHECK enum status rlock_sync_group_create(struct rlock_sync *sync,
                                               const struct rlock_member *members,
                                               size_t count, enum rlock_group_need need,
                                               struct rlock_group **ret_group,
                                               struct err *reterr);
void rlock_sync_group_free(struct rlock_sync *sync, struct rlock_group *group);
MUST_CHECK enum status rlock_sync_group_acquire(struct rlock_sync *sync,
                                                struct rlock_group *group,
                                                const struct rlock_group_options *options,
                                                struct err *reterr);
MUST_CHECK enum status rlock_sync_group_release(struct rlock_sync *sync,
                                                struct rlock_group *group,
                                                struct err *reterr);

/** Ends, from another thread, the rlock_sync_group_acquire() under way. */
void rlock_sync_group_cancel(struct rlock_sync *sync, struct rlock_group *group);

/** 0 or less when it is not held, or when that is not sure any more. */
int64_t rlock_sync_group_safe_for_us(struct rlock_sync *sync, struct rlock_group *group);
int64_t rlock_sync_group_fence(struct rlock_sync *sync, struct rlock_group *group,
                               size_t index);

#endif
