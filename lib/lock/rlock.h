/*
 * rlock.h - locks in Redis, asynchronous, on the caller's libuv loop.
 *
 * A client owns a connection and the watchdog that renews what it holds; a second
 * connection, for the subscriptions of those who wait, is opened when first needed. Calls
 * are collected and leave in one write at rlock_flush(), which the owner of the loop
 * calls once a turn; thousands of independent locks so share one round trip, each with a
 * result of its own.
 *
 * A lock is a lease: a holder that is paused for longer than its lease loses it without
 * noticing. Therefore each grant carries a fencing token, greater than that of any
 * earlier grant, for the resource to check, and rlock_safe_for_us() tells how long the
 * holder may still believe.
 *
 * Threads: everything of a client on the thread of its loop. For callers that block, in
 * any thread, there is rlock_sync.h; for several locks at once rlock_group.h.
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

#define RLOCK_NAME_MAX         200 /* bytes */
#define RLOCK_LEASE_MS_MIN     100
#define RLOCK_LEASE_MS_MAX     600000
#define RLOCK_LEASE_MS_DEFAULT 30000 /* of a watched lock that names none */
#define RLOCK_WAIT_FOREVER     UINT32_MAX

struct rlock_client;
struct rlock_batch;
struct rlock_kind;
struct rlock_waiter;
struct rlock;

/**
 * A string that names its owner, taken by SET NX PX and deleted by comparing. Not
 * reentrant: its own holder finds it busy.
 *
 * Source  Redis "SET NX PX" with an owner's value, and a fencing token (M. Kleppmann,
 *         "How to do distributed locking", 2016)
 */
extern const struct rlock_kind rlock_plain;

/**
 * A hash that counts how often its holder has taken it: `name` {"<client>:<holder>": n}.
 * On the wire compatible with Redisson's RLock: processes of both kinds exclude and wake
 * each other. A nested grant has the fence of the first one and never shortens the lease.
 *
 * Source  Redisson, org.redisson.RedissonLock
 */
extern const struct rlock_kind rlock_reentrant;

/**
 * As plain, but those who wait are served in the order of their arrival at the server.
 * Each keeps a heartbeat there, so that one who died is passed over within
 * RLOCK_FAIR_BEAT_MS * 3; nobody alive is, whatever the clients' clocks show.
 *
 * Source  the idea of Redisson's RFairLock; the queue is ours, names "<name>:queue" and
 *         "<name>:beats" belong to it
 */
extern const struct rlock_kind rlock_fair;
#define RLOCK_FAIR_BEAT_MS 500

/**
 * A string that holds the time of its expiry by its taker's clock, as it was done before
 * Redis 2.6.12; for study, and to live beside programs that still do it. What it cannot
 * promise: clocks that differ by more than the lease give two holders, and the value
 * names no owner, only a time in ms, so that two takers of the same ms are one. Our three
 * commands run in one script; a program that sends them one by one can, when it loses,
 * still move the holder's expiry, and its holder then finds the lock lost. The key has no
 * expiry at the server: it stays until somebody takes it over. No watchdog, no extend. A
 * string that is no time in ms is refused.
 */
extern const struct rlock_kind rlock_getset;

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
    struct list link;            /* among those to be answered, or the library's own */
    struct list watch_link;      /* among the watched */
    struct rlock_batch *batch;   /* the call under way */
    struct rlock_waiter *waiter; /* while it waits for the present owner */
    const struct rlock_kind *kind;
    rlock_cb callback;
    void *arg;
    rlock_cb on_lost;
    void *lost_arg;
    struct rlock *subject; /* answer for this one instead */
    int64_t safe_until_us; /* clock_mono_us() until which the lease surely runs */
    int64_t renew_at_us;
    int64_t began_us;
    uint64_t serial; /* makes the owner's value unique; getset: the value */
    uint64_t holder;
    int64_t fence;
    uint32_t lease_ms;
    uint32_t wait_ms;
    uint16_t spin_min_ms, spin_max_ms;
    uint16_t replicas_wait_ms;
    uint8_t replicas;
    uint16_t slot; /* its place in the batch */
    uint16_t name_len;
    uint8_t state;
    uint8_t status; /* enum status, while it waits to be answered */
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
    const struct rlock_kind *kind; /* NULL: &rlock_plain */
    uint64_t holder;   /* reentrant: which holder of this client, e.g. a thread's number.
                          Calls of one holder that wait at once are not told of each other's
                          grants: they look every two seconds */
    uint32_t lease_ms; /* RLOCK_LEASE_MS_MIN..RLOCK_LEASE_MS_MAX; with the watchdog also
                          0, for RLOCK_LEASE_MS_DEFAULT */
    bool watchdog;     /* renew every third of the lease until released */
    rlock_cb on_lost;  /* called once if a held lock turns out to be lost; may be NULL.
                          The lock is then no longer held; `arg` is that of acquire */
    uint32_t wait_ms;  /* for the present owner; 0: one try. By pub/sub and the owner's
                          lease, or, where spin_max_ms is set, by asking again and again */
    uint16_t spin_min_ms; /* pauses grow from this, 0 for 1, */
    uint16_t spin_max_ms; /* to this; each is between half of that and all of it */
    uint8_t replicas; /* that must have the grant before it counts; 0: none is asked */
    uint16_t replicas_wait_ms; /* for them, from 1 to less than the client's timeout_ms;
                                  commands of the same client wait behind, the heartbeats
                                  of fair waiters too */
};

#define RLOCK_WAIT_BUCKETS 16

struct rlock_stats {
    uint64_t granted, busy, lost, renewed, released, failed, reconnects;
    /* Grants by how long they took from the call, in buckets: the i-th counts those
       below 2^i ms (and not below 2^(i-1)), the last all others. */
    uint64_t waits[RLOCK_WAIT_BUCKETS];
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
 * later, then `closed` is called (may be NULL). Until then calls are answered
 * STATUS_CANCELLED, and a release gives nothing back. Accepts a NULL client (then
 * `closed` is called at once).
 */
void rlock_client_close(struct rlock_client *client, void (*closed)(void *arg),
                        void *arg);

/** Whether the connection is established and was not found hung. */
bool rlock_client_is_up(const struct rlock_client *client);

/** Write all that was collected since the last flush. Calls no callback. */
void rlock_flush(struct rlock_client *client);

void rlock_client_stats(const struct rlock_client *client, struct rlock_stats *ret_stats);

/** The words of the last failure: why it is not connected, what the server refused. */
const struct err *rlock_client_why(const struct rlock_client *client);

/**
 * Take the lock `name`.
 *
 * @name     1..RLOCK_NAME_MAX bytes, any values; copied
 * @options  copied
 *
 * The callback, never called from inside this function, tells
 *   STATUS_OK         held; rlock_fence() is set
 *   STATUS_BUSY       held by another, which is untouched, all the time we waited
 *   STATUS_INVALID    a bad name or option, or `lock` is held or in another call, which
 *                     goes on undisturbed
 *   STATUS_DOWN       not connected, nothing was sent
 *   STATUS_TIMEOUT,
 *   STATUS_IO         unknown; if it was granted the library gives it back itself as
 *                     soon as it can, at the latest the lease ends it. A server that
 *                     gets to it after the timeout does not grant it any more,
 *                     unless it was sent in the first round trip of a connection
 *   STATUS_REFUSED    the server answered with an error (read only, no memory, another
 *                     type at the key, ...): rlock_client_why() has its words
 *   STATUS_UNSAFE     fewer replicas than asked have it; given back
 *   STATUS_CANCELLED  by rlock_cancel(), or the client was closed
 */
void rlock_acquire(struct rlock_client *client, struct rlock *lock, const char *name,
                   size_t name_len, const struct rlock_acquire_options *options,
                   rlock_cb callback, void *arg);

/**
 * End an rlock_acquire() that is under way: its callback tells STATUS_CANCELLED soon, and
 * what may have been granted meanwhile is given back. Without effect on any other lock.
 */
void rlock_cancel(struct rlock_client *client, struct rlock *lock);

/**
 * Let the lease of a held lock end `lease_ms` from now, be that earlier or later (of
 * kind reentrant never earlier: other grants may need it). The watchdog, if it watches
 * the lock, goes on with this lease.
 *
 * The callback, never called from inside this function, tells
 *   STATUS_OK         done
 *   STATUS_LOST       it had lapsed or was taken, and is not held any more; on_lost is
 *                     not called
 *   STATUS_NOT_OWNER  not held, or another call on it is under way
 *   STATUS_INVALID    a lease out of range, or a kind that cannot
 *   STATUS_CANCELLED  it was released meanwhile, or the client was closed; after a
 *                     release without a callback `lock` only tells which it was
 *   others            as for rlock_acquire(); the lock is still held as far as is known
 *                     here, with the earlier of both deadlines
 */
void rlock_extend(struct rlock_client *client, struct rlock *lock, uint32_t lease_ms,
                  rlock_cb callback, void *arg);

/**
 * Give a held lock back, if it is still ours; compares and deletes in one step. Of kind
 * reentrant: this one grant of it.
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
 *   STATUS_REFUSED    the server answered with an error; the lease ends it
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
    int64_t count;        /* how often its owner holds it; 1 unless reentrant */
    bool is_ours;         /* its owner belongs to this client */
};

/** Tell who holds `name`. Statuses as for rlock_acquire(); STATUS_NOT_FOUND: free. */
void rlock_inspect(struct rlock_client *client, const char *name, size_t name_len,
                   void (*callback)(enum status status, const struct rlock_info *info,
                                    void *arg),
                   void *arg);

/**
 * Delete the lock whoever holds it, and wake who waits for it. STATUS_OK;
 * STATUS_NOT_FOUND: it was free; STATUS_REFUSED: neither a string nor a hash is there.
 */
void rlock_force_release(struct rlock_client *client, const char *name, size_t name_len,
                         void (*callback)(enum status status, void *arg), void *arg);

#endif
