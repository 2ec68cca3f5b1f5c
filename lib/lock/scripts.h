/*
 * scripts.h - what runs inside Redis.
 *
 * Each script takes many locks and treats each by itself: whatever stands at one key
 * never decides about another. The verdicts come back as one string, a character per
 * lock in the order of the keys: '1' done, '0' not (held by another; not ours), 'E' the
 * server refused this one.
 */
#ifndef LOCK_SCRIPTS_H
#define LOCK_SCRIPTS_H

#include "redis/script.h"

enum rlock_script {
    /* fence key, names; lease ms, latest us, owners -> {clock us, fence, verdicts};
       {clock us}: too late, nothing was done */
    RLOCK_SCRIPT_ACQUIRE,
    RLOCK_SCRIPT_RAISE,   /* fence key -> clock us, which the counter is not behind */
    RLOCK_SCRIPT_RELEASE, /* names; owners -> verdicts */
    RLOCK_SCRIPT_RENEW,   /* names; lease ms, owners -> verdicts */
    RLOCK_SCRIPT_INSPECT, /* name -> {owner or nil, remaining ms} */
    RLOCK_SCRIPT_FORCE,   /* name -> 1 deleted, 0 was free */
    RLOCK_SCRIPT_COUNT,
};

void rlock_scripts_init(struct redis_script scripts[RLOCK_SCRIPT_COUNT]);

#endif
