/*
 * scripts.h - what runs inside Redis.
 *
 * Each script takes many locks and treats each by itself: whatever stands at one key
 * never decides about another. The results come back as one string, a character per
 * lock in the order of the keys: '1' done, '0' not (held by another; not ours), 'E' the
 * server refused this one.
 *
 * The acquiring ones reply {clock us, fence, results, numbers}; where the numbers are
 * missing the fence of the i-th lock is `fence` plus i, else the number is the fence of a
 * lock that was granted, and of a busy one the ms its lease still runs (below 0: not
 * known). {clock us} alone: the call came too late, nothing was done.
 *
 * The last ARGV is the number of the call (redis/script.h), left out in the lists below:
 * it goes before what is returned, as a first element or "number results".
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
    RLOCK_SCRIPT_RAISE,   /* fence key -> clock us, which the counter is not behind */
    RLOCK_SCRIPT_INSPECT, /* name -> {owner or nil, remaining ms, count} */
    RLOCK_SCRIPT_FORCE,   /* name, queue, beats -> 1 deleted, 0 was free */
    RLOCK_SCRIPT_COUNT,
};

void rlock_scripts_init(struct redis_script scripts[RLOCK_SCRIPT_COUNT]);

#endif
