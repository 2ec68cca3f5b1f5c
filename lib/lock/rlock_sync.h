/*
 * rlock_sync.h - the locks of rlock.h for threads that block.
 *
 * A struct rlock_sync is a loop in a thread of its own; the clients that are opened in it
 * do what rlock.h says, and each call here hands its request over and sleeps until it is
 * answered. Any number of threads may call at once; their requests leave together.
 *
 * After rlock_sync_close() every call answers STATUS_CANCELLED until rlock_sync_free().
 *
 * Threads: any, unless stated otherwise; a struct rlock is used by one thread at a time.
 * Not from inside on_lost, on_state or other callbacks, which run in the loop's thread.
 */
#ifndef LOCK_RLOCK_SYNC_H
#define LOCK_RLOCK_SYNC_H

#include "lock/rlock.h"
#include "lock/rlock_group.h"

struct rlock_sync;

/**
 * Start the thread.
 *
 * @ret_sync  set on STATUS_OK; end with rlock_sync_close(), then rlock_sync_free()
 *
 * Returns  STATUS_OK, STATUS_NO_MEMORY, STATUS_IO (no thread, no descriptors)
 */
MUST_CHECK enum status rlock_sync_start(struct rlock_sync **ret_sync, struct err *reterr);

/**
 * Close the clients as rlock_client_close() does and end the thread; calls under way are
 * answered STATUS_CANCELLED. Blocks up to the longest timeout of a client. Twice is fine.
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
 * client's timeout, others up to twice the timeout.
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

void rlock_sync_stats(struct rlock_sync *sync, const struct rlock_client *client,
                      struct rlock_stats *ret_stats);

/** Groups of clients of this `sync`, as in rlock_group.h; create and free block briefly.
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

#endif
