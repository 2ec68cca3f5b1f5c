/*
 * group_round.h - a group, its members and its rounds; for lib/lock only.
 *
 * A round makes a call on some of the members. The round ends when all these members have answered,
 * or when the time of the round is over. Then the function `then` is called. If a member has not
 * answered when the round ends, later rounds make no new call on this member before its answer.
 * Only rlock_round_undo() and rlock_round_abandon() cancel the acquire of the member or release its
 * lock. If the late answer is a grant, the member counts as held from that moment.
 */
#ifndef LOCK_GROUP_ROUND_H
#define LOCK_GROUP_ROUND_H

#include "base/closing.h"
#include "base/list.h"
#include "lock/rlock_group.h"

enum group_state {
    GROUP_IDLE,
    GROUP_ACQUIRING,
    GROUP_HELD,
    GROUP_EXTENDING, /* the group is still held */
    GROUP_RELEASING,
    GROUP_LOST, /* too few members are held; the next call reports it */
    GROUP_FREED,
};

enum group_call {
    GROUP_CALL_NONE = 0,
    GROUP_CALL_ACQUIRE,
    GROUP_CALL_CANCEL,
    GROUP_CALL_EXTEND,
    GROUP_CALL_RELEASE,
};

struct group_member {
    struct rlock_group *group;
    struct rlock_client *client;
    struct rlock lock;
    const struct rlock_kind *kind;
    uint16_t permits;
    enum group_call call;
    unsigned round; /* the last round that awaited the member */
    /* result of the call in this round; RLOCK_TIMEOUT: there is no result yet */
    enum rlock_status status;
    struct rlock_err why; /* how the last acquire or extension ended */
    size_t name_len;
    char name[RLOCK_NAME_MAX];
};

struct rlock_group {
    struct rlock_link link;
    uv_timer_t timer;
    uv_idle_t soon;
    struct closing closing;
    bool is_closed;    /* all uv handles have closed */
    bool is_cancelled; /* the next rlock_sync_group_acquire() is cancelled */
    struct rlock_link answers;
    enum group_state state;
    struct rlock_group_options options;
    rlock_group_cb callback;
    void *arg, *lost_arg;
    int64_t give_up_at_us;
    unsigned failures; /* tries and waits of this acquire that failed */
    enum rlock_status status;
    struct group_member *busy; /* first busy member of the last failed try, or NULL */
    unsigned round;
    void (*then)(struct rlock_group *group);
    unsigned awaited;
    bool may_hurry; /* the round ends hurry_ms after its result is certain */
    uint64_t hurry_ms;
    enum rlock_group_need need;
    unsigned needed, count;
    struct group_member members[];
};

void rlock_round_begin(struct rlock_group *group,
                       void (*then)(struct rlock_group *group));

/** Call rlock_acquire() for the member, unless an earlier call on it is in progress. */
void rlock_round_acquire(struct group_member *member,
                         const struct rlock_acquire_options *options);

/** Call rlock_extend() for all members that are held and are in no call. A member that is not held
 *  gets RLOCK_LOST. */
void rlock_round_extend(struct rlock_group *group, uint32_t lease_ms);

/** Cancel or release all members, and await earlier releases. A member that is not held gets
 *  RLOCK_LOST. */
void rlock_round_undo(struct rlock_group *group);

/** Send all calls of the round, which ends after `ms` at the latest. If there are no calls, the
 *  round ends in the next turn of the loop. */
void rlock_round_run(struct rlock_group *group, uint64_t ms);

/** Run a round that makes no call and ends after `ms`. */
void rlock_round_pause(struct rlock_group *group, uint64_t ms);

/** Return RLOCK_OK if enough members have succeeded. Return `denied` if so many members have this
 *  status that the other members are too few. Otherwise return the status of a member that is
 *  neither RLOCK_OK nor `denied`. */
enum rlock_status rlock_round_status(const struct rlock_group *group,
                                     enum rlock_status denied);

/** End the round, if any, and cancel or release all members without awaiting replies. */
void rlock_round_abandon(struct rlock_group *group);

/** Free a group in GROUP_FREED when no call and no handle refers to it any more. */
void rlock_round_free_if_done(struct rlock_group *group);

#endif
