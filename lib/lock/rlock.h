/*
 * rlock.h - locks in Redis, asynchronous, on the caller's libuv loop.
 *
 * A client owns one connection and the watchdog that renews what it holds. Calls are
 * collected and leave in one write at rlock_flush(), which the owner of the loop calls
 * once a turn; thousands of independent locks so share one round trip, each with a
 * result of its own.
 *
 * A lock is a lease: a holder that is paused for longer than its lease loses it without
 * noticing. Therefore each grant carries a fencing token, greater than that of any
 * earlier grant, for the resource to check, and rlock_safe_for_us() tells how long the
 * holder may still believe.
 *
 * Threads: everything of a client on the thread of its loop.
 */
#ifndef LOCK_RLOCK_H
#define LOCK_RLOCK_H

#include "base/attributes.h"
#include "base/err.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define RLOCK_NAME_MAX     200 /* bytes */
#define RLOCK_LEASE_MS_MIN 100
#define RLOCK_LEASE_MS_MAX 600000

struct rlock_client;
struct rlock_batch;
struct rlock_kind;
struct rlock;

/**
 * How a call ended.
 *
 * @lock    the lock of the call; its memory is the caller's again: it may be freed or
 *          used anew from inside the callback, unless the lock is now held
 * @status  see the call
 */
typedef void (*rlock_cb)(struct rlock *lock, enum status status, void *arg);

/**
 * A lock, in memory of the caller: zero-filled before its first use, at one address
 * while a call is under way or the lock is held. The fields are the library's.
 */
struct rlock {
    struct list link;          /* among those to be answered, or the library's own */
    struct list watch_link;    /* among the watched */
    struct rlock_batch *batch; /* the call under way */
    const struct rlock_kind *kind;
    rlock_cb callback;
    void *arg;
    rlock_cb on_lost;
    struct rlock *subject; /* answer for this one instead */
    int64_t safe_until_us; /* clock_mono_us() until which the lease surely runs */
    int64_t renew_at_us;
    uint64_t serial; /* makes the owner's value unique */
    int64_t fence;
    uint32_t lease_ms;
    uint16_t slot; /* its place in the batch */
    uint16_t name_len;
    uint8_t state;
    uint8_t verdict; /* enum status, while it waits to be answered */
    uint8_t tries;
    bool watched;
    char name[RLOCK_NAME_MAX];
};

struct rlock_client_options {
    uv_loop_t *loop; /* borrowed, outlives the client */
    const char
        *redis_url; /* redis://[user:password@]host[:port][/db], rediss://, unix: */
    const char *fence_key; /* the counter of fencing tokens; NULL for "lock:fence" */
    uint32_t timeout_ms;   /* per command; no answer by then is STATUS_TIMEOUT */
    void (*on_state)(bool is_up, const struct err *why, void *arg); /* may be NULL */
    void *arg;
};

struct rlock_acquire_options {
    uint32_t lease_ms; /* RLOCK_LEASE_MS_MIN..RLOCK_LEASE_MS_MAX */
    bool watchdog;     /* renew every third of the lease until released */
    rlock_cb on_lost;  /* called once if a held lock turns out to be lost; may be NULL.
                          The lock is then no longer held; `arg` is that of acquire */
};

struct rlock_stats {
    uint64_t granted, busy, lost, renewed, released, failed, reconnects;
};

/**
 * Start a client; it connects, and reconnects with back-off, by itself. A server that
 * is away is no error here.
 *
 * @ret_client  set on STATUS_OK; close with rlock_client_close()
 *
 * Returns  STATUS_OK, STATUS_INVALID (URL not understood, rediss:// in a build without
 *          TLS), STATUS_NO_MEMORY
 */
MUST_CHECK enum status rlock_client_open(const struct rlock_client_options *options,
                                         struct rlock_client **ret_client,
                                         struct err *reterr);

/**
 * End the client. Calls under way are answered STATUS_CANCELLED before this returns;
 * locks still held are left to their lease, and their memory is the caller's again.
 * Releases that were asked for are still carried out, and an acquire under way is given
 * back, where the server answers within the timeout. The memory is freed by the loop
 * later, then `closed` is called (may be NULL). Accepts a NULL client (then `closed` is
 * called at once).
 */
void rlock_client_close(struct rlock_client *client, void (*closed)(void *arg),
                        void *arg);

/** Whether the connection is established and was not found hung. */
bool rlock_client_is_up(const struct rlock_client *client);

/** Write all that was collected since the last flush. Calls no callback. */
void rlock_flush(struct rlock_client *client);

void rlock_client_stats(const struct rlock_client *client, struct rlock_stats *ret_stats);

/**
 * Take the lock `name` (plain, fenced kind), without waiting for its present owner.
 *
 * @name  1..RLOCK_NAME_MAX bytes, any values; copied
 *
 * The callback, never called from inside this function, tells
 *   STATUS_OK         held; rlock_fence() is set
 *   STATUS_BUSY       held by another, which is untouched
 *   STATUS_INVALID    a bad name or lease, or `lock` is held or in another call, which
 *                     goes on undisturbed
 *   STATUS_DOWN       not connected, nothing was sent
 *   STATUS_TIMEOUT,
 *   STATUS_IO         unknown; if it was granted the library gives it back itself as
 *                     soon as it can, at the latest the lease ends it. A server that
 *                     gets to it after the timeout does not grant it any more
 *   STATUS_REFUSED    the server answered with an error (read only, no memory, ...)
 *   STATUS_CANCELLED  the client was closed
 *
 * Source  Redis "SET NX PX" with an owner's value, and a fencing token (M. Kleppmann,
 *         "How to do distributed locking", 2016)
 */
void rlock_acquire(struct rlock_client *client, struct rlock *lock, const char *name,
                   size_t name_len, const struct rlock_acquire_options *options,
                   rlock_cb callback, void *arg);

/**
 * Give a held lock back, if it is still ours; compares and deletes in one step.
 *
 * @callback  may be NULL: then the library keeps what it needs in memory of its own, and
 *            the lock's memory is the caller's again when this returns
 *
 * The callback, never called from inside this function, tells
 *   STATUS_OK         given back
 *   STATUS_LOST       it had lapsed or was taken: the name may be another's now, and is
 *                     untouched
 *   STATUS_NOT_OWNER  not held
 *   STATUS_TIMEOUT,
 *   STATUS_IO,
 *   STATUS_DOWN       unknown; the library goes on trying, at the latest the lease ends
 * it STATUS_REFUSED    the server answered with an error; the lease ends it
 *   STATUS_CANCELLED  the client was closed
 */
void rlock_release(struct rlock_client *client, struct rlock *lock, rlock_cb callback,
                   void *arg);

/** Whether `lock` is held as far as is known here. */
bool rlock_is_held(const struct rlock *lock);

/** The fencing token of a held lock, > 0. */
int64_t rlock_fence(const struct rlock *lock);

/**
 * Microseconds for which the lease of a held lock surely still runs: counted from when
 * the request was sent, less an allowance for clock drift. 0 or less: do not rely on it.
 */
int64_t rlock_safe_for_us(const struct rlock *lock, int64_t now_us);

/** What rlock_inspect() finds; strings are valid during the callback only. */
struct rlock_info {
    const char *owner; /* NULL when the lock is free */
    size_t owner_len;
    int64_t remaining_ms; /* -1: the key has no expiry */
};

/** Tell who holds `name`. Statuses as for rlock_acquire(); STATUS_NOT_FOUND: free. */
void rlock_inspect(struct rlock_client *client, const char *name, size_t name_len,
                   void (*callback)(enum status status, const struct rlock_info *info,
                                    void *arg),
                   void *arg);

/** Delete the lock whoever holds it. STATUS_OK; STATUS_NOT_FOUND: it was free. */
void rlock_force_release(struct rlock_client *client, const char *name, size_t name_len,
                         void (*callback)(enum status status, void *arg), void *arg);

#endif
