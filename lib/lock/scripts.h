/*
 * scripts.h - the Lua scripts that run inside Redis.
 *
 * A script takes many locks and treats each on its own: the value of one key never affects another
 * lock. The results are one string, with a character for each lock in the order of the keys:
 *
 *   '1'  done. If a release published a message that n clients got: '1' + n, at most '9'
 *   '0'  not done: another owner holds the lock, or the lock is not ours
 *   'E'  the server refused this lock
 *   'X'  the holder may not have the lock
 *
 * A script that acquires returns one of
 *
 *   {clock us, fence, results}           the fence of lock i is `fence` plus i
 *   {clock us, fence, results, numbers}  the number of a granted lock is its fence. The number of
 *                                        a busy lock is the rest of its lease in ms; below 0: the
 *                                        rest is not known
 *   {results, numbers}                   all locks are busy
 *   {clock us}                           the call came too late, and nothing was done
 *
 * If `fence` is equal to the clock, the fence counter was missing or unusable, and the script has
 * restarted it.
 *
 * The comment above each script below lists its KEYS and, after a semicolon, its ARGV. (a, b)...
 * means a and b of each lock; "names" and "owners" mean one of each lock. After -> stands the
 * reply, unless the script acquires. The keys `queue` and `beats` are the queue of a fair lock and
 * the heartbeats of its waiters. A serial makes the value of an owner unique.
 *
 * "latest us" is the latest time, by the clock of the server, at which the script may be executed.
 * GETSET_ACQUIRE gets no owners, but the clock of the caller (now ms) and the end of the lease by
 * this clock (expiry ms).
 *
 * The number of the call (redis/script.h) is the last ARGV of each script. The comments leave it
 * out. The script returns the number as the first element, or as "number results".
 */
#ifndef LOCK_SCRIPTS_H
#define LOCK_SCRIPTS_H

#include "redis/script.h"

/* The lifetime of the waiting key (internal.h), unless a call sets the key again. */
#define RLOCK_WAITING_MAX_MS 6000

/** A constant number as a string literal. */
#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

/* clang-format off */
#define RLOCK_SCRIPTS(X)                                                                    \
    /* fence key, names; lease ms, latest us, owners */                                     \
    X(ACQUIRE, acquire)                                                                     \
    /* fence key, waiting key, names; lease ms, latest us, (owner, wait ms)..., or (owner,  \
       wait ms, passes)... */                                                               \
    X(ACQUIRE_WAIT, acquire_wait)                                                           \
    /* as ACQUIRE_WAIT; only for waiters that cannot have the lock already */                \
    X(ACQUIRE_AGAIN, acquire_again)                                                         \
    /* waiting key, names -> results: 1 if the name is free */                              \
    X(CHECK, check)                                                                         \
    X(REENTRANT_CHECK, reentrant_check) /* names -> results, as CHECK */                   \
    /* waiting key, names; owners -> results */                                             \
    X(RELEASE, release)                                                                     \
    /* names; (owner, lease ms)... -> results */                                            \
    X(RENEW, renew)                                                                         \
    /* fence key, names; lease ms, latest us, (holder, serial)... */                        \
    X(REENTRANT_ACQUIRE, reentrant_acquire)                                                 \
    /* names; (holder, serial)... -> results */                                             \
    X(REENTRANT_RELEASE, reentrant_release)                                                 \
    /* names; (holder, serial, lease ms)... -> results */                                   \
    X(REENTRANT_RENEW, reentrant_renew)                                                     \
    /* fence key, (name, queue, beats)...; lease ms, latest us, (owner, wait ms)... */      \
    X(FAIR_ACQUIRE, fair_acquire)                                                           \
    /* (name, queue, beats)...; owners -> results */                                        \
    X(FAIR_RELEASE, fair_release)                                                           \
    /* fence key, names; lease ms, latest us, (now ms, expiry ms)... */                     \
    X(GETSET_ACQUIRE, getset_acquire)                                                       \
    /* fence key, names or (name, queue, beats)...; lease ms, latest us, (holder, serial,   \
       wait ms, permits)... */                                                              \
    X(SEMAPHORE_ACQUIRE, semaphore_acquire)                                                 \
    /* fence key, (name, queue, beats, readers)...; arguments of SEMAPHORE_ACQUIRE */       \
    X(READ_ACQUIRE, read_acquire)                                                           \
    X(WRITE_ACQUIRE, write_acquire)                                                         \
    /* the keys of its acquire except the fence key; (holder, serial)... -> results */      \
    X(SEMAPHORE_RELEASE, semaphore_release)                                                 \
    X(FAIR_SEMAPHORE_RELEASE, fair_semaphore_release)                                       \
    X(RW_RELEASE, rw_release)                                                               \
    /* names; (holder, serial, lease ms)... -> results */                                   \
    X(PERMIT_RENEW, permit_renew)                                                           \
    /* fence key; fence -> {clock us, greatest}. Raises the counter to the clock. If the     \
       fence is above the clock, but not above `greatest`, raises it to the fence. */       \
    X(RAISE, raise_fence)                                                                   \
    /* name -> {'0', {name, owner, remaining ms, count, waiters}...} */                     \
    X(INSPECT, inspect)                                                                     \
    /* fence key; beginning of names, cursor -> {cursor, owners as above...} */             \
    X(LIST, list)                                                                           \
    X(FORCE, force_release)  /* name, queue, beats -> 1 deleted, 0 was free */              \
    /* no key; waiting key, no number of the call -> missing rights, or an error with them */ \
    X(RIGHTS, rights)

enum rlock_script {
#define X(id, name) RLOCK_SCRIPT_##id,
    RLOCK_SCRIPTS(X)
#undef X
    RLOCK_SCRIPT_COUNT,
};
/* clang-format on */

/** The rights that a script and the later calls on its locks need, such as "+hget +hset". The
 *  rights that every client needs (rights.lua) are left out. NULL means that no other rights are
 *  needed. */
extern const char *const rlock_needed_rights[RLOCK_SCRIPT_COUNT];

void rlock_scripts_init(struct redis_script scripts[RLOCK_SCRIPT_COUNT], bool is_cluster);

#endif
