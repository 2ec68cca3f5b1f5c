/*
 * group_round.h - what a group is made of, and its rounds; for group.c only.
 *
 * A round makes a call for some of the members. It ends when these are answered or its
 * time is over; `then` says what is next. A member that misses the end of its round takes
 * no part in another until it is answered; if that is a grant, it counts from then on.
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
    GROUP_RELEASING,
    GROUP_LOST, /* until its holder hears so from a release */
    GROUP_FREED,
};

enum group_call {
    GROUP_CALL_NONE = 0,
    GROUP_CALL_ACQUIRE,
    GROUP_CALL_CANCEL, /* an acquire that was cancelled */
    GROUP_CALL_RELEASE,
};

struct group_member {
    struct rlock_group *group;
    struct rlock_client *client;
    struct rlock lock;
    enum group_call call; /* under way */
    unsigned round;       /* that waits for it, if it is the present one */
    enum status status;   /* its answer in this round; STATUS_TIMEOUT: none yet */
    size_t name_len;
    char name[RLOCK_NAME_MAX];
};

struct rlock_group {
    uv_timer_t timer; /* the time of the round */
    uv_idle_t soon;   /* runs while there are answers */
    struct closing closing;
    bool is_closed;      /* its handles are */
    struct list answers; /* that need no member */
    enum group_state state;
    struct rlock_group_options options;
    rlock_group_cb callback;
    void *arg;
    int64_t give_up_at_us;
    unsigned failures;         /* tries and waits of this acquire */
    enum status status;        /* of the last one */
    struct group_member *busy; /* the first one that was, or NULL */
    unsigned round;
    void (*then)(struct rlock_group *group);
    unsigned awaited; /* members that it waits for */
    bool may_hurry;   /* for hurry_ms more when it is decided, set after the beginning */
    uint64_t hurry_ms;
    enum rlock_group_need need;
    unsigned needed, count;
    struct group_member members[];
};

void rlock_round_begin(struct rlock_group *group,
                       void (*then)(struct rlock_group *group));

/** Call rlock_acquire() for it, unless a call of it is under way from before. */
void rlock_round_acquire(struct group_member *member,
                         const struct rlock_acquire_options *options);

/** Cancel or release all members; releases under way from before are awaited, too. */
void rlock_round_let_go(struct rlock_group *group);

/** Send all calls; where there was none to make it ends in the loop's next turn. */
void rlock_round_run(struct rlock_group *group, uint64_t ms);

/** A round without calls. */
void rlock_round_pause(struct rlock_group *group, uint64_t ms);

/** What the members' statuses come to; `denied`: theirs who were asked and said no. */
enum status rlock_round_status(const struct rlock_group *group, enum status denied);

/** End the round, if any, and let go of all members, with nobody to hear of it. */
void rlock_round_abandon(struct rlock_group *group);

/** Free a group in GROUP_FREED as soon as nobody knows it any more. */
void rlock_round_free_if_done(struct rlock_group *group);

#endif
