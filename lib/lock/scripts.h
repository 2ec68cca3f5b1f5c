/*
 * scripts.h - the Lua scripts that run inside Redis.
 *
 * A script takes many locks and treats each on its own: the value of one key never
 * affects another lock. It returns the results as one string, a character per lock in the
 * order of the keys: '1' done; '0' not (held by another owner, or not ours); 'E' the
 * server refused this one.
 *
 * The acquiring scripts return {clock us, fence, results, numbers}. Without `numbers` the
 * fence of lock i is `fence` plus i. With them, the number of a granted lock is its
 * fence, and that of a busy one the ms that its lease still runs (below 0: not known).
 * {clock us} alone: the call came too late and nothing was done.
 *
 * The last ARGV is the number of the call (redis/script.h), which is not in the lists
 * below. The script returns it as the first element, or as "number results".
 */
#ifndef LOCK_SCRIPTS_H
#define LOCK_SCRIPTS_H

#include "redis/script.h"

enum rlock_script {
    /* fence key, names; lease ms, latest us, owners */
    RLOCK_SCRIPT_ACQUIRE,
    /* fence key, waiting key, names; lease ms, latest us, (owner, wait ms)... */
    RLOCK_SCRIPT_ACQUIRE_WAIT,
    /* waiting key, names; owners -> results */
    RLOCK_SCRIPT_RELEASE,
    /* names; lease ms, owners -> results */
    RLOCK_SCRIPT_RENEW,
    /* fence key, names; lease ms, latest us, (holder, serial)... */
    RLOCK_SCRIPT_REENTRANT_ACQUIRE,
    /* names; (holder, serial)... -> results */
    RLOCK_SCRIPT_REENTRANT_RELEASE,
    /* names; lease ms, (holder, serial)... -> results */
    RLOCK_SCRIPT_REENTRANT_RENEW,
    /* fence key, (name, queue, beats)...; lease ms, latest us, (owner, wait ms)... */
    RLOCK_SCRIPT_FAIR_ACQUIRE,
    /* (name, queue, beats)...; owners -> results */
    RLOCK_SCRIPT_FAIR_RELEASE,
    /* fence key, names; lease ms, latest us, (now ms, expiry ms)... */
    RLOCK_SCRIPT_GETSET_ACQUIRE,
    RLOCK_SCRIPT_RAISE,   /* fence key -> clock us; the counter is at least that now */
    RLOCK_SCRIPT_INSPECT, /* name -> {owner or nil, remaining ms, count} */
    RLOCK_SCRIPT_FORCE,   /* name, queue, beats -> 1 deleted, 0 was free */
    RLOCK_SCRIPT_COUNT,
};

void rlock_scripts_init(struct redis_script scripts[RLOCK_SCRIPT_COUNT]);

#endif
