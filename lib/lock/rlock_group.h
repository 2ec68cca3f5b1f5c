/*
 * rlock_group.h - several locks as one: all of them, or a majority of independent
 * servers.
 *
 * A multi-lock holds every member or none: members are on one server or on several. A
 * quorum lock (Redlock) has one member on each of N independent servers and is held while
 * more than half of them are, for as long as all of these surely last; it goes on working
 * when a minority is away.
 *
 * All members are tried at once. Where that does not do, what was granted is given back
 * before anything is waited for, so that groups that overlap cannot block each other, and
 * then tried again after a jittered pause or, in a multi-lock, when the busy member is
 * released. Nothing is ever held while waiting. A try takes at most 1.5 s and half of the
 * lease; when enough members have answered, the others get 50 ms more, or a twentieth of
 * the lease where that is less. One that is granted later than that counts from then on.
 *
 * Threads: everything of a group on the thread of its clients' loop, which is one.
 */
#ifndef LOCK_RLOCK_GROUP_H
#define LOCK_RLOCK_GROUP_H

#include "lock/rlock.h"

#define RLOCK_GROUP_MAX 64 /* members */

struct rlock_group;

enum rlock_group_need {
    RLOCK_GROUP_ALL,
    RLOCK_GROUP_MAJORITY,
};

struct rlock_member {
    struct rlock_client *client; /* borrowed, outlives the group; of a quorum: each on a
                                    server of its own */
    const char *name;            /* copied */
    size_t name_len;
};

typedef void (*rlock_group_cb)(struct rlock_group *group, enum status status, void *arg);

struct rlock_group_options {
    const struct rlock_kind *kind; /* of every member; NULL: &rlock_plain */
    uint64_t holder;
    uint32_t lease_ms; /* as in rlock_acquire_options, likewise watchdog and wait_ms */
    bool watchdog;
    rlock_group_cb on_lost; /* called once when the watchdog finds that fewer members are
                               held than needed; may be NULL. The others are then given
                               back by the library. `arg` is that of acquire */
    uint32_t wait_ms;
};

/**
 * A group, to be taken and released any number of times.
 *
 * @members    1..RLOCK_GROUP_MAX; no client and name twice, in a quorum no client twice
 * @ret_group  set on STATUS_OK; end with rlock_group_free()
 *
 * Returns  STATUS_OK, STATUS_INVALID, STATUS_NO_MEMORY
 */
MUST_CHECK enum status rlock_group_create(const struct rlock_member *members,
                                          size_t count, enum rlock_group_need need,
                                          struct rlock_group **ret_group,
                                          struct err *reterr);

/**
 * Free it, before its clients are closed. A call under way is answered STATUS_CANCELLED
 * from inside; what is held or may have been granted is given back. Not from inside a
 * callback of the group. The loop frees the memory later. Accepts NULL.
 */
void rlock_group_free(struct rlock_group *group);

/**
 * Take it. The library flushes the clients itself. The callback, never called from inside
 * this function, tells STATUS_OK; STATUS_BUSY (some member, or too many, are another's);
 * STATUS_INVALID (options, or it is held or in another call, which goes on undisturbed);
 * the status of a member that could not be asked, where that decided (STATUS_DOWN,
 * STATUS_TIMEOUT, ...), when wait_ms have passed; STATUS_TIMEOUT also when it took so
 * long that no time is left for which it is safe; STATUS_CANCELLED. Unless STATUS_OK
 * nothing is held, and what servers that answer had granted has been given back.
 */
void rlock_group_acquire(struct rlock_group *group,
                         const struct rlock_group_options *options,
                         rlock_group_cb callback, void *arg);

/** End an acquire under way, as rlock_cancel(). */
void rlock_group_cancel(struct rlock_group *group);

/**
 * Give all members back. STATUS_OK (as many as needed were still ours); STATUS_LOST;
 * STATUS_NOT_OWNER (not held); where it cannot be known the first other status of a
 * member, as of rlock_release().
 */
void rlock_group_release(struct rlock_group *group, rlock_group_cb callback, void *arg);

bool rlock_group_is_held(const struct rlock_group *group);

/**
 * Microseconds for which enough members surely last: of a multi-lock the shortest of all,
 * of a quorum the longest for which a majority does. 0 or less: do not rely on it.
 */
int64_t rlock_group_safe_for_us(const struct rlock_group *group, int64_t now_us);

/**
 * The fencing token of the member at `index`; 0 while that one is not held. Servers count
 * independently: a resource must check the token of the member that guards it. Of a
 * quorum no single token grows over all grants.
 */
int64_t rlock_group_fence(const struct rlock_group *group, size_t index);

#endif
