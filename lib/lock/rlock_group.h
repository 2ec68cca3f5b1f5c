/*
 * rlock_group.h - several locks as one: all of them, or a majority of independent
 * servers.
 *
 * A group with RLOCK_GROUP_ALL holds all of its members or none. The members are on one
 * server or on several. Their kinds may differ: for example a permit of a semaphore, a fair
 * lock and a plain lock. A group with RLOCK_GROUP_MAJORITY (a quorum, as in Redlock) has one
 * member on each of several independent servers, all of one kind. It is held while more
 * than half of its members are held, and keeps working while a minority of the servers is
 * unreachable.
 *
 * All members are tried at once. If too few members are granted, the group releases these
 * members before it waits for anything, so groups that overlap cannot deadlock. The group
 * tries again after a pause with jitter or, with RLOCK_GROUP_ALL, when the busy member is
 * released. A try takes at most 1.5 s and at most half of the lease. Once its result is
 * certain, the members that have not replied get 50 ms more, or a twentieth of the lease if
 * that is less. If the group is then held, a member that is granted even later counts as
 * held from that moment.
 *
 * A group waits for one member at a time. If locks of that kind have a queue, the group is in
 * the queue while it waits. If another member is busy when the group has got this member, the
 * group releases this member again, and loses its place in the queue.
 *
 * Threads  all calls on a group and its callbacks: the thread of the loop of its clients
 * Blocks   never
 * Source   Redlock, redis.io/docs/latest/develop/use/patterns/distributed-locks;
 *          Redisson, RedissonMultiLock
 */
#ifndef RLOCK_GROUP_H
#define RLOCK_GROUP_H

#include "lock/rlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RLOCK_GROUP_MAX 64 /* maximum number of members */

struct rlock_group;

enum rlock_group_need {
    RLOCK_GROUP_ALL,
    RLOCK_GROUP_MAJORITY,
};

struct rlock_member {
    struct rlock_client *client; /* borrowed, outlives the group; the clients of a quorum
                                    use different servers */
    const char *name;            /* copied */
    size_t name_len;
    /* NULL means &rlock_plain. &rlock_getset is refused. All members of a quorum have the
       same kind, which is not a semaphore. */
    const struct rlock_kind *kind;
    uint16_t permits; /* of a semaphore: at least 1; of other kinds: 0 */
};

/** Tells how a call ended. The loop calls it, like rlock_cb. */
typedef void (*rlock_group_cb)(struct rlock_group *group, enum rlock_status status,
                               void *arg);

struct rlock_group_options {
    uint64_t holder;   /* the holder of all members of kind reentrant, read and write */
    uint32_t lease_ms; /* lease_ms, `watchdog` and `wait_ms` mean the same as in
                          rlock_acquire_options, with the same defaults */
    bool watchdog;
    rlock_group_cb on_lost; /* called once when fewer members are held than needed; the
                               library then releases these members. May be NULL */
    void *lost_arg;         /* as in rlock_acquire_options */
    uint32_t wait_ms;
};

/**
 * Create a group, to be acquired and released any number of times.
 *
 * @members    1..RLOCK_GROUP_MAX. No two have the same client and name; in a quorum, no
 *             two have the same client
 * @ret_group  set on RLOCK_OK; end it with rlock_group_free()
 *
 * Returns  RLOCK_OK, RLOCK_INVALID, RLOCK_NO_MEMORY
 */
RLOCK_MUST_CHECK enum rlock_status rlock_group_create(const struct rlock_member *members,
                                                      size_t count,
                                                      enum rlock_group_need need,
                                                      struct rlock_group **ret_group,
                                                      struct rlock_err *reterr);

/**
 * Free a group. Call this before its clients are closed, and not from one of its
 * callbacks. A call in progress ends with RLOCK_CANCELLED before this returns. Each member
 * that is held or may have been granted is released. The loop frees the memory in a later turn.
 *
 * @group  may be NULL
 */
void rlock_group_free(struct rlock_group *group);

/**
 * Acquire the group. The call flushes its clients by itself.
 *
 * @options   copied; NULL: the defaults, as of a zero-filled struct
 * @callback  gets
 *              RLOCK_OK          held
 *              RLOCK_BUSY        a member is held by another owner; in a quorum, too
 *                                many are
 *              RLOCK_INVALID     bad options; or the group is held or in a call, which
 *                                continues
 *              RLOCK_TIMEOUT     granted too late to be safe
 *              RLOCK_CANCELLED   by rlock_group_cancel() or rlock_group_free()
 *              others            the status of a member whose call failed for another
 *                                reason in the last try
 *            RLOCK_INVALID of a group that is held changes nothing. With every other
 *            status except RLOCK_OK no member is held: each grant of a server that
 *            replies is released. A grant of a server that does not reply ends with its
 *            lease.
 */
void rlock_group_acquire(struct rlock_group *group,
                         const struct rlock_group_options *options,
                         rlock_group_cb callback, void *arg);

/** End the rlock_group_acquire() in progress, like rlock_cancel(). */
void rlock_group_cancel(struct rlock_group *group);

/**
 * Set the end of the leases of all members that are held, as rlock_extend() does.
 *
 * @callback  gets
 *              RLOCK_OK          as many members as needed were extended
 *              RLOCK_LOST        too few members are still held, or the group was lost before
 *                                the call. The library releases the members that are left,
 *                                and does not call on_lost
 *              RLOCK_NOT_OWNER   the group is not held, or is in another call
 *              others            as for rlock_extend(); the group still counts as held
 */
void rlock_group_extend(struct rlock_group *group, uint32_t lease_ms,
                        rlock_group_cb callback, void *arg);

/**
 * Release all members.
 *
 * @callback  gets
 *              RLOCK_OK          as many members as needed were held until now
 *              RLOCK_LOST        fewer members were held than needed
 *              RLOCK_NOT_OWNER   the group is not held, or is in another call
 *              others            as for rlock_release(); the replies do not show whether
 *                                enough members were held
 */
void rlock_group_release(struct rlock_group *group, rlock_group_cb callback, void *arg);

bool rlock_group_is_held(const struct rlock_group *group);

/**
 * Return for how many microseconds enough members are surely held: all members, or with
 * RLOCK_GROUP_MAJORITY a majority. If this is 0 or less, do not rely on the group.
 *
 * @now_us  the time of CLOCK_BOOTTIME
 */
int64_t rlock_group_safe_for_us(const struct rlock_group *group, int64_t now_us);

/**
 * The fencing token of the member at `index`; 0 while that member is not held or if there
 * is no such member. Servers count independently, so a resource must check the token of
 * the member that guards it, by the rules of that member's kind. A quorum has no token that
 * is greater for each later grant.
 */
int64_t rlock_group_fence(const struct rlock_group *group, size_t index);

/**
 * How the member at `index` answered the last try of the last acquire or extension: a
 * status and a message, such as the error of a server. The result is valid until the next
 * acquire or extension begins. With rlock_sync.h any thread may call this until then. NULL
 * if there is no such member.
 */
const struct rlock_err *rlock_group_why(const struct rlock_group *group, size_t index);

/**
 * Call `each` for every owner of the names of the members, as rlock_list() does. An owner may
 * belong to any group or client. This group may be in any state, or be freed meanwhile. The
 * call flushes the clients of the group by itself.
 *
 * @each      returns whether to go on with this member; `info->client` identifies the
 *            server
 * @callback  called last; gets RLOCK_OK, or the status of the first member whose call
 *            failed
 */
void rlock_group_inspect(const struct rlock_group *group,
                         bool (*each)(const struct rlock_info *info, void *arg),
                         void (*callback)(enum rlock_status status, void *arg),
                         void *arg);

/**
 * Force the release of all members, as rlock_force_release() does. The group may be in any
 * state, or be freed meanwhile. The call flushes the clients of the group by itself.
 *
 * @callback  gets RLOCK_OK if at least one member was held, RLOCK_NOT_FOUND if no member was
 *            held, or the status of the first member whose call failed
 */
void rlock_group_force_release(const struct rlock_group *group,
                               void (*callback)(enum rlock_status status, void *arg),
                               void *arg);

#ifdef __cplusplus
}
#endif

#endif
