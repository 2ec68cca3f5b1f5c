/*
 * rlock_sync.h - the locks of rlock.h for threads that block.
 *
 * A struct rlock_sync is a loop for any number of threads; a client opened in it works as
 * rlock.h says. A call sleeps until it has its result, and calls of several threads leave
 * together. One of the calling threads runs the loop for all of them; while no thread
 * calls, a thread of the library runs it, so that leases are renewed and losses reported.
 *
 * What a thread wrote before it released a lock is visible to the thread of the same
 * struct rlock_sync that acquires it next.
 *
 * on_lost and on_state run in the thread that runs the loop, perhaps inside another
 * thread's call. These callbacks may not block. Inside them each call of this header returns
 * RLOCK_INVALID, except rlock_sync_close(), which never returns there and must not be
 * called. After rlock_sync_close() all calls return RLOCK_CANCELLED. In a child after fork()
 * all calls return RLOCK_INVALID, and rlock_sync_close() and rlock_sync_free() do nothing. A
 * child can start a struct rlock_sync of its own.
 *
 * Threads  any, unless stated otherwise. Only one thread at a time may use a struct rlock.
 *          Do not cancel a thread (pthread_cancel) inside a call
 * Blocks   up to twice the client's timeout_ms, unless stated otherwise. An acquire may block
 *          for wait_ms in addition, a list for twice timeout_ms per 200 keys
 */
#ifndef RLOCK_SYNC_H
#define RLOCK_SYNC_H

#include "lock/rlock.h"
#include "lock/rlock_group.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlock_sync;

/**
 * Start the loop and its thread.
 *
 * @ret_sync  set on RLOCK_OK; end it with rlock_sync_close(), then rlock_sync_free()
 *
 * Returns  RLOCK_OK, RLOCK_NO_MEMORY; RLOCK_IO: no thread or no file descriptor left
 * Blocks   never
 */
RLOCK_MUST_CHECK enum rlock_status rlock_sync_start(struct rlock_sync **ret_sync,
                                                    struct rlock_err *reterr);

/**
 * Have each call poll for its reply for up to `poll_us` before it sleeps. To wake a thread may
 * take longer than the reply, so 50 makes calls faster where the threads and Redis have a core
 * each. Where they share cores, polling delays Redis and other threads.
 *
 * @poll_us  0: do not poll, which is the default
 *
 * Blocks  never
 */
void rlock_sync_poll(struct rlock_sync *sync, uint32_t poll_us);

/**
 * Close the clients as rlock_client_close() does, and end the thread. Calls in progress
 * return RLOCK_CANCELLED. Calls that begin meanwhile return when the clients are closed:
 * then the library no longer uses the callers' locks. May be called again.
 *
 * @sync  may be NULL
 *
 * Blocks  up to the longest timeout_ms of a client
 */
void rlock_sync_close(struct rlock_sync *sync);

/** Free `sync` after rlock_sync_close(), when no thread uses it any more. May be NULL. */
void rlock_sync_free(struct rlock_sync *sync);

/**
 * Open a client and wait until it is connected.
 *
 * @options     as for rlock_client_open(); `loop` is ignored
 * @ret_client  set on RLOCK_OK and RLOCK_DOWN; end it with rlock_sync_close_client(), or
 *              leave it to rlock_sync_close()
 *
 * Returns  RLOCK_OK
 *          RLOCK_DOWN       the client is not connected yet, and keeps trying; `reterr`
 *                           has the reason
 *          RLOCK_CANCELLED
 *          others           as for rlock_client_open()
 * Blocks   up to timeout_ms
 */
RLOCK_MUST_CHECK enum rlock_status
rlock_sync_open(struct rlock_sync *sync, const struct rlock_client_options *options,
                struct rlock_client **ret_client, struct rlock_err *reterr);

/**
 * Close one client as rlock_client_close() does. Calls in progress return
 * RLOCK_CANCELLED; no thread may use the client afterwards. Free its groups before.
 *
 * @client  may be NULL
 *
 * Blocks  up to its timeout_ms
 */
void rlock_sync_close_client(struct rlock_sync *sync, struct rlock_client *client);

/** Return the number of this thread, which is unique in the process. Calls use it if their
 *  `holder` is 0. */
uint64_t rlock_sync_holder(void);

/*
 * The calls of rlock.h for threads. They return the status that a callback would get, and set
 * `reterr` (may be NULL) to the message. If `options` is NULL, the defaults apply. If `holder` in
 * the options is 0, the calling thread is the holder. on_lost gets its lock or group, and
 * `lost_arg` of the options. rlock_fence() needs no counterpart, because any thread may call it.
 */

RLOCK_MUST_CHECK enum rlock_status
rlock_sync_acquire(struct rlock_sync *sync, struct rlock_client *client,
                   struct rlock *lock, const char *name, size_t name_len,
                   const struct rlock_acquire_options *options, struct rlock_err *reterr);
RLOCK_MUST_CHECK enum rlock_status rlock_sync_release(struct rlock_sync *sync,
                                                      struct rlock_client *client,
                                                      struct rlock *lock,
                                                      struct rlock_err *reterr);
RLOCK_MUST_CHECK enum rlock_status
rlock_sync_extend(struct rlock_sync *sync, struct rlock_client *client,
                  struct rlock *lock, uint32_t lease_ms, struct rlock_err *reterr);
RLOCK_MUST_CHECK enum rlock_status
rlock_sync_force_release(struct rlock_sync *sync, struct rlock_client *client,
                         const char *name, size_t name_len, struct rlock_err *reterr);

/**
 * End the rlock_sync_acquire() of `lock` in which another thread waits. If the lock is
 * neither held nor in a call, its next rlock_sync_acquire() returns RLOCK_CANCELLED.
 */
void rlock_sync_cancel(struct rlock_sync *sync, struct rlock_client *client,
                       struct rlock *lock);

/** Like struct rlock_info. The value of the owner is copied, ends with a NUL, and is cut off if it
 *  is too long. */
struct rlock_sync_info {
    char owner[128];
    int64_t remaining_ms;
    int64_t count;
    bool is_ours;
};

RLOCK_MUST_CHECK enum rlock_status rlock_sync_inspect(struct rlock_sync *sync,
                                                      struct rlock_client *client,
                                                      const char *name, size_t name_len,
                                                      struct rlock_sync_info *ret_info,
                                                      struct rlock_err *reterr);

/** Call `each` for each owner of a lock. It may run in another thread, which is itself in a call of
 *  rlock_sync.h then. */
RLOCK_MUST_CHECK enum rlock_status
rlock_sync_list(struct rlock_sync *sync, struct rlock_client *client, const char *name,
                size_t name_len, bool (*each)(const struct rlock_info *info, void *arg),
                void *arg, struct rlock_err *reterr);

bool rlock_sync_is_held(struct rlock_sync *sync, const struct rlock *lock);

/** Call rlock_safe_for_us() with the present time. */
int64_t rlock_sync_safe_for_us(struct rlock_sync *sync, const struct rlock *lock);

/** Like rlock_raise_fences(). After RLOCK_OK the grants of later calls, of any thread, have
 *  greater fences. */
RLOCK_MUST_CHECK enum rlock_status rlock_sync_raise_fences(struct rlock_sync *sync,
                                                           struct rlock_client *client,
                                                           int64_t above,
                                                           struct rlock_err *reterr);

void rlock_sync_stats(struct rlock_sync *sync, struct rlock_client *client,
                      struct rlock_stats *ret_stats);

/*
 * The calls of rlock_group.h, for clients of this `sync`. rlock_sync_close() frees the
 * groups that are left.
 */

RLOCK_MUST_CHECK enum rlock_status
rlock_sync_group_create(struct rlock_sync *sync, const struct rlock_member *members,
                        size_t count, enum rlock_group_need need,
                        struct rlock_group **ret_group, struct rlock_err *reterr);
void rlock_sync_group_free(struct rlock_sync *sync, struct rlock_group *group);
RLOCK_MUST_CHECK enum rlock_status
rlock_sync_group_acquire(struct rlock_sync *sync, struct rlock_group *group,
                         const struct rlock_group_options *options,
                         struct rlock_err *reterr);
RLOCK_MUST_CHECK enum rlock_status rlock_sync_group_release(struct rlock_sync *sync,
                                                            struct rlock_group *group,
                                                            struct rlock_err *reterr);
RLOCK_MUST_CHECK enum rlock_status rlock_sync_group_extend(struct rlock_sync *sync,
                                                           struct rlock_group *group,
                                                           uint32_t lease_ms,
                                                           struct rlock_err *reterr);

/** Call `each` for each owner of a lock. It may run in another thread, which is itself in a call of
 *  rlock_sync.h then. */
RLOCK_MUST_CHECK enum rlock_status
rlock_sync_group_inspect(struct rlock_sync *sync, struct rlock_group *group,
                         bool (*each)(const struct rlock_info *info, void *arg),
                         void *arg, struct rlock_err *reterr);
RLOCK_MUST_CHECK enum rlock_status
rlock_sync_group_force_release(struct rlock_sync *sync, struct rlock_group *group,
                               struct rlock_err *reterr);

/** End the rlock_sync_group_acquire() of another thread, as rlock_sync_cancel() does. */
void rlock_sync_group_cancel(struct rlock_sync *sync, struct rlock_group *group);

/** Return rlock_group_safe_for_us() for the present time; 0 if the group is not held. */
int64_t rlock_sync_group_safe_for_us(struct rlock_sync *sync, struct rlock_group *group);
int64_t rlock_sync_group_fence(struct rlock_sync *sync, struct rlock_group *group,
                               size_t index);

#ifdef __cplusplus
}
#endif

#endif
