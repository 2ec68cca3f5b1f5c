/*
 * rlock.h - locks in Redis, asynchronous, on the caller's libuv loop.
 *
 * A client owns a connection, and a watchdog that renews the locks it holds. It opens a
 * second connection, for subscriptions, when a call first waits for a lock. Calls are
 * collected and leave in one write at rlock_flush(), or by themselves in the next turn of
 * the loop: thousands of independent locks share one round trip, and each gets its own
 * result.
 *
 * A lock is a lease: an owner that is paused for longer than its lease loses it without
 * noticing. Therefore each grant carries a fencing token that is greater than the token
 * of any earlier grant. The protected resource should check the token.
 * rlock_safe_for_us() returns how long the lease surely runs.
 *
 * After fork() the clients belong to the parent. In the child every call on them ends
 * with RLOCK_INVALID inside the call, no inherited lock is held, and
 * rlock_client_close() calls `closed` at once, closes nothing and frees nothing. A child
 * opens clients of its own, on a loop of its own.
 *
 * Threads  only the thread of the loop may use a client and its locks, and it calls the
 *          callbacks. rlock_sync.h is for threads that block.
 * Blocks   never
 */
#ifndef RLOCK_H
#define RLOCK_H

#include "base/link.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RLOCK_NAME_MAX         200 /* bytes */
#define RLOCK_LEASE_MS_MIN     10
#define RLOCK_LEASE_MS_MAX     86400000
#define RLOCK_LEASE_MS_DEFAULT 30000
#define RLOCK_WAIT_FOREVER     UINT32_MAX

struct rlock_client;
struct rlock_batch;
struct rlock_kind;
struct rlock_waiter;
struct rlock;

/*
 * -- kinds --
 *
 * Use one kind per name (read and write count as one). If kinds are mixed, their Redis types
 * matter: a reentrant lock is a hash, semaphores and read/write locks are sorted sets, and all
 * other kinds are strings. A call ends with RLOCK_REFUSED if the key has another type, so two
 * kinds of different types are never held at the same time. Of kinds with the same type:
 *
 *   semaphores and read/write locks do not notice each other
 *   plain and fair exclude each other, but plain ignores the queue of fair
 *   plain finds a key of getset busy; getset refuses a key of plain or fair
 *
 * In one client, calls of a kind with a queue (fair, read, write) and calls of a kind without
 * a queue may not wait for a name at the same time: the later call ends with RLOCK_INVALID.
 * The keys that belong to a lock with a queue are refused as names of locks while they exist.
 * The keys of the fence counter and of the waiters, "<fence_key>:waiting", are always refused
 * as names.
 */

/**
 * A string with the owner's value, set by SET NX PX, and deleted if it still has this
 * value. The lock is not reentrant: its owner finds it busy, too. A client hands a
 * released lock to its own next waiter, and new callers queue behind the waiters of their
 * client. A client keeps the lock for at most 16 grants or 10 ms in a row. Only the last of
 * these releases sends a message to other clients that wait. Then the client yields: its
 * calls that can wait do not try for up to 64 ms, or until other clients had their turns.
 *
 * Source  Redis "SET NX PX" pattern; fencing: M. Kleppmann, "How to do distributed
 *         locking", 2016
 */
extern const struct rlock_kind rlock_plain;

/**
 * Like plain, and the same on the wire. But when a client releases the lock, it passes the
 * lock to its own next waiter without the server, if that waiter wants the same lease. A
 * client does so at most 16 times in a row, and only within 10 ms and within a tenth of the
 * lease after the server has granted or renewed the lock. Then it releases the lock on the
 * server, and leaves the next turn to another client that waits. New callers queue behind
 * the waiters of their client.
 *
 * Each owner has a fence of its own, greater than the fences of earlier owners; compare
 * only fences of one name. A loss that happens at the server, such as a forced release or
 * a failover, is noticed only by the last owner in a row. But the fence of the new owner is
 * greater than the fences of all owners in that row, so the resource can refuse these owners.
 *
 * Source  D. Dice, V. Marathe, N. Shavit, "Lock cohorting", PPoPP 2012
 */
extern const struct rlock_kind rlock_cohort;

/**
 * A hash that counts how often its holder has acquired it: `name` {"<client>:<holder>":
 * n}. Compatible with Redisson's RLock on the wire: processes of both exclude and wake
 * each other. A nested grant has the fence of the first one and never shortens the lease.
 *
 * Source  Redisson, org.redisson.RedissonLock
 */
extern const struct rlock_kind rlock_reentrant;

/**
 * As plain, but waiters are served in the order in which they reached the server. Each
 * waiter sends a heartbeat every RLOCK_FAIR_BEAT_MS. A waiter that died is skipped when its
 * last heartbeat is RLOCK_FAIR_BEAT_MS * 3 old. If the server got no heartbeat at all for
 * RLOCK_FAIR_BEAT_MS * 2, the next call starts this time anew for all waiters. So a live
 * waiter is never skipped, whatever the clocks of the clients show, unless its process
 * stands still for longer than RLOCK_FAIR_BEAT_MS * 3 while the server hears other waiters.
 * The order survives up to 30 s in which the server stands still or cannot be reached. The
 * keys "<name>:queue" and "<name>:beats" belong to the lock.
 *
 * Source  Redisson, RFairLock, with a queue of our own
 */
extern const struct rlock_kind rlock_fair;
#define RLOCK_FAIR_BEAT_MS 500

/**
 * At most `permits` owners at once (see the options), also after crashes: each permit has
 * a lease of its own. All calls for a name should give the same number of permits; a call
 * with a smaller number waits until fewer permits are in use. Waiters take turns as with
 * plain. A newer permit has a greater fence, but an older permit may still be valid beside
 * it.
 */
extern const struct rlock_kind rlock_semaphore;

/** As rlock_semaphore, with the queue of rlock_fair: permits are given in the order of
 *  arrival. */
extern const struct rlock_kind rlock_fair_semaphore;

/**
 * Two kinds for one name: many owners of rlock_read or one of rlock_write. Waiters are
 * queued as with rlock_fair, writers and readers apart. Writers go first, but not before
 * readers that were already waiting when the last writer was granted. So a reader waits for
 * at most one writer that is granted after its arrival. A writer waits for owners, for
 * earlier writers, and for the readers that go before any of these writers or before this
 * writer.
 *
 * A `holder` other than 0 may have several grants of the lock. Each grant has its own lease
 * and its own release. The name is free after the last release. A holder that writes
 * may write again and may read, also while others wait. All these grants have the fence
 * of the first one. A holder that reads may read again, also while a writer waits. It may
 * not write, because it would wait for itself: the call ends with RLOCK_INVALID at once.
 *
 * To become a reader, a writer acquires rlock_read and then releases rlock_write. No other
 * writer gets in between. At this release other readers get in, and writers wait on.
 *
 * The fence of a reader is greater than the fences of earlier writers and smaller than
 * the fences of later writers. The resource must refuse a read if it has seen a write with
 * a greater fence. It must refuse a write if it has seen a read or a write with a greater
 * fence. Then no write is based on a replaced value, and all that a reader reads belongs to
 * one state.
 *
 * "<name>:queue", "<name>:beats" and "<name>:readers" belong to these locks. Names of
 * semaphores and of read/write locks with these endings are refused (RLOCK_REFUSED).
 */
extern const struct rlock_kind rlock_read, rlock_write;

/**
 * The usual lock before Redis 2.6.12: a string with the end of the lease by its owner's
 * clock. It is for study, and for programs that still use it. Two clients whose clocks
 * differ by more than the lease can both hold this lock. The value names no owner, so two
 * acquires in the same millisecond cannot be told apart. This library runs GET, SETNX and
 * GETSET in one script. A program that sends them one by one may change the owner's value
 * even when it fails to acquire, and then the owner finds its lock lost. The key never
 * expires on the server. The watchdog and rlock_extend() refuse this kind. A string that is
 * not a time in ms is refused.
 */
extern const struct rlock_kind rlock_getset;

/* -- data -- */

/**
 * Tells how a call ended. The loop calls the callback later. Only with RLOCK_NO_MEMORY, and
 * in a child after fork(), the callback may be called from inside the call.
 *
 * @lock    the lock of the call. Unless it is now held, its memory is the caller's again,
 *          and the callback may free it or use it for another call
 * @status  described with each call
 */
typedef void (*rlock_cb)(struct rlock *lock, enum rlock_status status, void *arg);

/**
 * A lock, in memory of the caller. Zero-fill it before the first use; do not move it
 * while a call is in progress or the lock is held. The fields are internal.
 */
struct rlock {
    struct rlock_link link;
    struct rlock_link watch_link;
    struct rlock_batch *batch;   /* the batch of the operation in progress */
    struct rlock_waiter *waiter; /* exists while the acquire waits for another owner */
    const struct rlock_kind *kind;
    rlock_cb callback;
    void *arg;
    rlock_cb on_lost;
    void *lost_arg;
    struct rlock *subject; /* the lock that the callback gets; NULL: this lock */
    struct rlock_client *client;
    const char *reason;    /* why the status is RLOCK_INVALID */
    int64_t safe_until_us; /* clock_mono_us() until which the lease surely runs */
    int64_t renew_at_us;
    int64_t began_us; /* when the call began, or when a held lock was granted */
    uint64_t serial;  /* makes the owner's value unique, or is the value of kind getset */
    uint64_t holder;
    int64_t fence;
    uint32_t lease_ms;
    uint32_t hold_min_ms;
    uint32_t hold_max_ms;
    uint32_t wait_ms;
    uint16_t spin_min_ms, spin_max_ms;
    uint16_t replicas_wait_ms;
    uint8_t replicas;
    unsigned process; /* the process that acquired the lock: see base/process.h */
    uint16_t permits;
    uint16_t slot; /* position in the batch */
    uint16_t name_len;
    uint8_t state;
    uint8_t status; /* enum rlock_status of the result while the callback is due */
    /* number of stale grants; in a copy that is only released: the number of its next release */
    uint8_t tries;
    uint8_t passes; /* cohort: how many more times the lock may be passed on */
    bool watched;
    bool in_doubt;     /* the outcome of an earlier try of this acquire is unknown */
    bool is_cancelled; /* cancelled before rlock_sync_acquire() */
    bool is_counted;   /* the channel expects the message of the release */
    uint8_t bucket;    /* bucket of the name in a cluster */
    char name[RLOCK_NAME_MAX + 4]; /* begins with the tag of the bucket */
};

/** The events of a lock. struct rlock_stats counts each of them. */
enum rlock_event {
    RLOCK_EVENT_GRANTED,
    RLOCK_EVENT_BUSY,
    RLOCK_EVENT_FAILED, /* an acquire or release failed, except BUSY, LOST, CANCELLED */
    RLOCK_EVENT_RENEWED,
    RLOCK_EVENT_RELEASED, /* also for a grant that the library itself released */
    RLOCK_EVENT_LOST,
};

struct rlock_client_options {
    uv_loop_t *loop; /* borrowed, outlives the client */
    /* One of

         redis://[user:password@]host[:port][,...][/db]
         redis-sentinel://[user:password@]host[:port][,...][/db]?master=NAME
         redis-cluster://[user:password@]host[:port][,...]
         unix:/path

       The first form names hosts one of which is the primary, the second form sentinels, and
       the third form nodes of a cluster. Sentinels with a password need
       &sentinel_password=WORD. rediss://, rediss-sentinel:// and rediss-cluster:// use TLS,
       and may have the parameters cacert=PATH and, for mutual TLS, cert=PATH&key=PATH. */
    const char *redis_url;
    /* The counter of fencing tokens; NULL: "lock:fence". If it is missing, not a number, or
       more than a hundred years ahead of the server's clock in microseconds, the next
       grant restarts it at that clock. A key of another type is refused */
    const char *fence_key;
    uint32_t timeout_ms; /* after this time a command ends with RLOCK_TIMEOUT; >= 1 */
    /* Called when the client goes up or down, and when it is down for another reason. If it is
       down, `why` has the reason, which includes the rights that the user lacks, see rlock(7).
       May be NULL */
    void (*on_state)(bool is_up, const struct rlock_err *why, void *arg);
    /* Called in the loop with each event of a lock. `us` is the time since the grant or,
       before the grant, since rlock_acquire(). on_event may not call the library. NULL:
       events cost nothing */
    void (*on_event)(const char *name, size_t name_len, enum rlock_event event,
                     int64_t us, void *arg);
    void *arg;
};

/** The options of an acquire. Zero-filled: one try, and a lease of RLOCK_LEASE_MS_DEFAULT. */
struct rlock_acquire_options {
    const struct rlock_kind *kind; /* NULL: &rlock_plain */
    uint16_t permits;              /* of a semaphore: at least 1; of other kinds: 0 */
    uint64_t holder; /* reentrant: a number that identifies the holder within this client,
                        e.g. a thread. When one call of a holder gets the lock, all waiting
                        calls of the holder get it. Read and write: see rlock_read */
    uint32_t lease_ms; /* RLOCK_LEASE_MS_MIN..RLOCK_LEASE_MS_MAX; 0:
                          RLOCK_LEASE_MS_DEFAULT */
    bool watchdog; /* renew the lease whenever a third of it is over, until the release */
    rlock_cb on_lost; /* called once when the watchdog finds the lock lost; the lock is
                          then no longer held. Never called without the watchdog. May be
                          NULL */
    void *lost_arg;   /* the `arg` of on_lost; NULL: the `arg` of rlock_acquire(),
                          but with rlock_sync.h NULL */
    uint32_t wait_ms; /* how long to wait for another owner, and for the server while it
                          is away; 0: one try. The waiter tries again when pub/sub
                          reports a release, when the owner's lease ends or, if
                          spin_max_ms is set, after pauses */
    uint16_t spin_min_ms;      /* the first pause (0: 1 ms); later pauses are longer */
    uint16_t spin_max_ms;      /* the longest pause. Each pause lasts between half of its
                                  length and all of it, at random */
    uint8_t replicas;          /* number of replicas that must confirm the grant; 0 in a
                                  cluster */
    uint16_t replicas_wait_ms; /* how long to wait for the replicas: at least 1, less than
                                  the client's timeout_ms. The wait delays later commands
                                  of the client, including the heartbeats of kind fair */
    uint32_t hold_min_ms; /* only for kind plain; at most lease_ms. The name stays taken
                                  for at least this time after the grant, even if the lock
                                  is released earlier. Waiters may notice up to two seconds
                                  late that the name is free */
    uint32_t hold_max_ms; /* the watchdog renews the lock for at most this time after
                                  the grant. When the next renewal is due, the lock counts
                                  as lost, and on_lost is called. The lease ends by itself,
                                  at most one lease after hold_max_ms. An extension does
                                  not change this. 0: no limit */
};

#define RLOCK_TIME_BUCKETS 17

/** Bucket 0 counts times up to 1 ms. Bucket i counts times above 2^(i-1) ms and up to 2^i ms. The
 *  last bucket also counts all longer times. */
struct rlock_times {
    uint64_t buckets[RLOCK_TIME_BUCKETS];
    uint64_t sum_us;
};

struct rlock_stats {
    uint64_t granted, busy, lost, renewed, released, failed, reconnects;
    uint64_t fence_restarts;  /* restarts of the fence counter, see fence_key */
    uint64_t held, waiters;   /* current numbers of held locks and of waiting calls */
    struct rlock_times waits; /* times from the call to the grant */
    struct rlock_times holds; /* times from the grant to the release or loss */
    struct {
        const struct rlock_kind *kind; /* kind of the lock; NULL: there was no lock */
        struct rlock_err err;
    } errors[RLOCK_NO_MEMORY + 1]; /* the last failure or loss with each status */
};

/** Why a server refused a call, or the login. */
enum rlock_refusal {
    RLOCK_REFUSED_OTHER,
    RLOCK_REFUSED_MEMORY,     /* OOM: maxmemory is reached */
    RLOCK_REFUSED_LOGIN,      /* NOAUTH, WRONGPASS */
    RLOCK_REFUSED_PERMISSION, /* NOPERM: the user may not run the command or use the key */
    RLOCK_REFUSED_TYPE,       /* WRONGTYPE: the key holds something else */
    RLOCK_REFUSED_DISK, /* MISCONF: the server cannot save its data and accepts no writes */
};

/* -- clients -- */

/**
 * Start a client. It connects by itself, and reconnects with back-off; an unreachable
 * server is not an error here.
 *
 * @options     copied, with the strings
 * @ret_client  set on RLOCK_OK; end it with rlock_client_close()
 *
 * Returns  RLOCK_OK
 *          RLOCK_INVALID    no loop, no timeout, bad URL, or rediss:// in a build without TLS
 *          RLOCK_IO         no random numbers, or a file for TLS cannot be loaded
 *          RLOCK_NO_MEMORY
 */
RLOCK_MUST_CHECK enum rlock_status
rlock_client_open(const struct rlock_client_options *options,
                  struct rlock_client **ret_client, struct rlock_err *reterr);

/**
 * End the client. Calls in progress end with RLOCK_CANCELLED before this returns.
 * Locks that are still held are left to their lease, and their memory is the caller's
 * again. Releases in progress are completed, and grants of acquires in progress are
 * released, if the server replies within the timeout. Until `closed` is called, calls end
 * with RLOCK_CANCELLED and a release sends nothing.
 *
 * @client  may be NULL: then `closed` is called at once
 * @closed  called by the loop when the memory is about to be freed; may be NULL
 */
void rlock_client_close(struct rlock_client *client, void (*closed)(void *arg),
                        void *arg);

/** Whether the client is connected to a primary that replies. */
bool rlock_client_is_up(const struct rlock_client *client);

/**
 * Send all calls collected since the last flush, instead of in the next turn of the loop.
 * Calls no callback.
 */
void rlock_flush(struct rlock_client *client);

void rlock_client_stats(const struct rlock_client *client, struct rlock_stats *ret_stats);

/**
 * The last failure: why the client is not connected, or what the server refused. In a
 * callback with RLOCK_INVALID: which argument was refused, and why.
 */
const struct rlock_err *rlock_client_why(const struct rlock_client *client);

/**
 * Return why a call ended with RLOCK_REFUSED.
 *
 * @err  the result of rlock_client_why() during the callback, or what a function of
 *       rlock_sync.h has put into its `reterr`
 *
 * Threads  any
 */
enum rlock_refusal rlock_refusal(const struct rlock_err *err);

/* -- locks -- */

/**
 * Acquire the lock `name`.
 *
 * @name      1..RLOCK_NAME_MAX bytes of any value; copied
 * @options   copied; NULL: defaults, as zero-filled
 * @callback  gets
 *              RLOCK_OK          held; rlock_fence() is set
 *              RLOCK_BUSY        held by another owner during all of wait_ms
 *              RLOCK_INVALID     bad name or option; or `lock` is held or in another
 *                                call, which continues; or the holder may not have it
 *                                (read and write), or calls of another kind wait for
 *                                the name (see "kinds"); see rlock_client_why()
 *              RLOCK_DOWN        not connected, or the server accepts no calls now
 *                                (BUSY, LOADING, READONLY, MASTERDOWN, TRYAGAIN,
 *                                CLUSTERDOWN) during all of wait_ms; not held
 *              RLOCK_TIMEOUT,
 *              RLOCK_IO          unknown. Within wait_ms the call is tried again, also
 *                                after a reconnect (not of kind getset). If the server
 *                                grants the lock, the library releases it as soon as
 *                                possible; the lease ends it at the latest. A server
 *                                that executes the call after the timeout does not grant
 *                                it, except in the first round trip of a connection
 *              RLOCK_REFUSED     the server replied with an error (out of memory, a key
 *                                of another type, ...) or refuses the login, or the user
 *                                lacks a right; see rlock_client_why(), rlock_refusal()
 *              RLOCK_UNSAFE      too few replicas have it; released
 *              RLOCK_CANCELLED   by rlock_cancel() or rlock_client_close()
 *              RLOCK_NO_MEMORY   not held
 *
 * Source  redis.io/docs/latest/develop/use/patterns/distributed-locks
 */
void rlock_acquire(struct rlock_client *client, struct rlock *lock, const char *name,
                   size_t name_len, const struct rlock_acquire_options *options,
                   rlock_cb callback, void *arg);

/**
 * Cancel the rlock_acquire() in progress. Its callback soon gets RLOCK_CANCELLED. If the server has
 * granted the lock nevertheless, or still grants it, the client releases the lock. Does nothing if
 * the lock is not being acquired.
 */
void rlock_cancel(struct rlock_client *client, struct rlock *lock);

/**
 * Set the end of a held lock's lease to `lease_ms` from now. This may be earlier or later
 * than the old end; with kind reentrant it is never earlier, because other grants may need
 * the lease. From then on the watchdog renews the lock with this lease.
 *
 * @callback  gets
 *              RLOCK_OK          done
 *              RLOCK_LOST        it had expired or was taken, and is no longer held;
 *                                on_lost is not called
 *              RLOCK_NOT_OWNER   not held, or another call on it is in progress
 *              RLOCK_INVALID     lease out of range or below hold_min_ms, a kind that
 *                                cannot extend, or a lock of another client
 *              RLOCK_CANCELLED   it was released meanwhile, or the client was closed.
 *                                After a release without a callback the memory of `lock`
 *                                may be gone: use it only to tell which lock it was
 *              others            as for rlock_acquire(); the lock still counts as held,
 *                                until the end of the old or of the new lease,
 *                                whichever is earlier. RLOCK_NO_MEMORY may come from
 *                                inside the call
 */
void rlock_extend(struct rlock_client *client, struct rlock *lock, uint32_t lease_ms,
                  rlock_cb callback, void *arg);

/**
 * Release a lock if this client still owns it; the server compares and deletes in one step.
 * Of a reentrant lock only this grant is released. If hold_min_ms has not passed, the
 * name stays taken until then.
 *
 * @callback  NULL: the memory of `lock` is the caller's again on return; else gets
 *              RLOCK_OK          released
 *              RLOCK_LOST        it had expired or was taken; another owner's lock is
 *                                untouched
 *              RLOCK_NOT_OWNER   not held
 *              RLOCK_INVALID     a lock of another client, which stays held. Without a
 *                                callback it stays held, too
 *              RLOCK_TIMEOUT,
 *              RLOCK_IO,
 *              RLOCK_DOWN,
 *              RLOCK_NO_MEMORY   unknown whether the lock is free. The library keeps
 *                                trying; the lock is free at the end of its lease
 *              RLOCK_REFUSED     the server replied with an error; the lock is free at the
 *                                end of its lease
 *              RLOCK_CANCELLED   the client was closed
 */
void rlock_release(struct rlock_client *client, struct rlock *lock, rlock_cb callback,
                   void *arg);

/**
 * Whether `lock` is held, as far as this client knows. The end of the lease is not checked;
 * rlock_safe_for_us() does that.
 */
bool rlock_is_held(const struct rlock *lock);

/**
 * Return the fencing token of a held lock, which is greater than 0. A failover that loses the
 * latest grants lowers the counter of fences. So if the token of a grant is not greater than
 * all tokens that this client has seen, the client raises the counter and acquires the lock
 * again before it calls the callback.
 */
int64_t rlock_fence(const struct rlock *lock);

/**
 * Raise the fence counter of the server above `above`, and above the server's clock in
 * microseconds. Call this when the protected resource has refused a fence as stale,
 * because another client had a greater fence. The grants of later calls have greater
 * fences.
 *
 * @above  the greatest fence that the resource has seen; 0: not known. A fence more than a
 *         hundred years ahead of the server's clock is ignored, because no grant could
 *         exceed it
 */
void rlock_raise_fences(struct rlock_client *client, int64_t above);

/**
 * Return for how many microseconds the lease of a held lock surely still runs. The lease
 * counts from the sending of the call, and an allowance for clock drift is subtracted. If
 * the result is 0 or less, do not rely on the lock.
 *
 * @now_us  the time of CLOCK_BOOTTIME, which goes on while the machine is suspended. Do not
 *          use uv_hrtime(), which stands still during a suspend
 */
int64_t rlock_safe_for_us(const struct rlock *lock, int64_t now_us);

/* -- names -- */

/** What rlock_inspect() or rlock_list() found. The strings are valid during the callback. */
struct rlock_info {
    const struct rlock_client *client; /* of the call */
    const char *name, *owner; /* rlock_inspect(): the owner whose lease ends first */
    size_t name_len, owner_len;
    int64_t remaining_ms; /* -1: the key does not expire */
    int64_t count;        /* reentrant: how often the owner holds the lock; semaphore,
                             read, write: number of grants; other kinds: 1 */
    int64_t waiters;      /* clients that wait by pub/sub; -1: not known */
    bool is_ours;         /* the owner belongs to this client */
    bool is_near; /* the owner's host has the same name as ours; ids of clients begin with
                     a hash of the host name */
};

/**
 * Find out who holds `name`.
 *
 * @callback  gets
 *              RLOCK_OK          and `info`
 *              RLOCK_NOT_FOUND   the name is free
 *              others            as for rlock_acquire()
 */
void rlock_inspect(struct rlock_client *client, const char *name, size_t name_len,
                   void (*callback)(enum rlock_status status,
                                    const struct rlock_info *info, void *arg),
                   void *arg);

/**
 * Call `each` for every owner of `name`. If `name` is NULL, call `each` for every owner of
 * all locks on the server or cluster. Then the call scans all keys, 200 per command, and
 * leaves out kind getset, which names no owner. A lock that is acquired or released meanwhile
 * may be missing, or be listed twice.
 *
 * @each      returns whether to go on; may not close the client
 * @callback  gets RLOCK_OK after the last owner; others as for rlock_inspect()
 */
void rlock_list(struct rlock_client *client, const char *name, size_t name_len,
                bool (*each)(const struct rlock_info *info, void *arg),
                void (*callback)(enum rlock_status status, void *arg), void *arg);

/**
 * Delete the lock `name`, whatever client holds it, and wake its waiters.
 *
 * @callback  gets
 *              RLOCK_OK          the lock was deleted
 *              RLOCK_NOT_FOUND   the name was free
 *              RLOCK_REFUSED     the key holds no lock
 *              others            as for rlock_acquire()
 */
void rlock_force_release(struct rlock_client *client, const char *name, size_t name_len,
                         void (*callback)(enum rlock_status status, void *arg),
                         void *arg);

#ifdef __cplusplus
}
#endif

#endif
