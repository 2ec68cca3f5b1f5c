/* sync.h - carries a call of a thread to the loop and back; for lib/lock only. */
#ifndef LOCK_SYNC_H
#define LOCK_SYNC_H

#include "base/list.h"
#include "lock/rlock_sync.h"

/** A call of a thread, on that thread's stack. */
struct rlock_sync_call {
    struct rlock_sync *sync;
    /* `reterr` gets the message of this client; may be NULL */
    struct rlock_client *client;
    struct rlock_err *reterr; /* may be NULL */
    /* Called once by the thread that leads the loop. It must cause one call of
       rlock_sync_answer(), now or later. */
    void (*begin)(struct rlock_sync_call *call);

    /* Set by sync.c. */
    struct rlock_link link;       /* in the list of calls that have not begun */
    struct rlock_link sleep_link; /* in the list of calls whose threads sleep */
    uv_cond_t wake;
    bool is_answered;
    enum rlock_status status;
};

/** Pass the call to the loop and sleep until the call is answered. Returns its status. */
enum rlock_status rlock_sync_run(struct rlock_sync_call *call);

/** In the loop: wake the caller, which then owns `call` again. */
void rlock_sync_answer(struct rlock_sync_call *call, enum rlock_status status);

/** Like rlock_sync_answer(), for a call whose status nobody reads. */
static inline void rlock_sync_end(struct rlock_sync_call *call)
{
    rlock_sync_answer(call, RLOCK_OK);
}

/** In the loop: add a group. When the sync is closed, it frees the group, and then closes the
 *  clients. */
void rlock_sync_add_group(struct rlock_sync *sync, struct rlock_group *group);

#endif
