/* sync.h - how the calls of rlock_sync.h reach the loop; for lib/lock only. */
#ifndef LOCK_SYNC_H
#define LOCK_SYNC_H

#include "base/list.h"
#include "lock/rlock_sync.h"

#include <pthread.h>

/** One call of one thread, on that thread's stack. */
struct rlock_sync_call {
    struct rlock_sync *sync;
    struct rlock_client *client; /* whose words tell why; may be NULL */
    struct err *reterr;          /* may be NULL */
    /* Run once by whoever leads the loop; leads to one rlock_sync_answer(), now or later.
     */
    void (*begin)(struct rlock_sync_call *call);

    /* Filled in here. */
    struct list link;       /* among those to begin */
    struct list sleep_link; /* among those that sleep */
    pthread_cond_t wake;
    bool is_answered;
    enum status status;
};

/** Have the call begun and sleep until it is answered; returns its status. */
enum status rlock_sync_carry(struct rlock_sync_call *call);

/** From the loop: wake the caller, whose memory `call` is. */
void rlock_sync_answer(struct rlock_sync_call *call, enum status status);

/** Note that there is a group, so that it is freed before its clients are; from the loop.
 */
MUST_CHECK enum status rlock_sync_adopt(struct rlock_sync *sync,
                                        struct rlock_group *group);

/** Free a group that was adopted; from the loop. */
void rlock_sync_disown(struct rlock_sync *sync, struct rlock_group *group);

#endif
