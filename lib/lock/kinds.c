/*
 * kinds.c - the kinds of locks: tables of operations.
 *
 * An operation names its script, the keys and arguments that the script takes
 * (scripts.h), and the functions of state.c that get the result.
 */
#include "lock/state.h"

#include <string.h>

/* -- channels -- */

static size_t kind_plain_channel(const struct rlock *lock,
                                 char ret_name[RLOCK_CHANNEL_MAX])
{
    char *end = mempcpy(stpcpy(ret_name, "rlock:"), lock->name, lock->name_len);

    return (size_t)(end - ret_name);
}

/** As in Redisson: the name in braces, unless it contains one itself. */
static size_t kind_redisson_channel(const struct rlock *lock,
                                    char ret_name[RLOCK_CHANNEL_MAX])
{
    bool has_braces = memchr(lock->name, '{', lock->name_len) != NULL;
    char *end = stpcpy(ret_name, "redisson_lock__channel:");

    if (!has_braces)
        *end++ = '{';
    end = mempcpy(end, lock->name, lock->name_len);
    if (!has_braces)
        *end++ = '}';
    return (size_t)(end - ret_name);
}

/* -- kinds -- */

/* clang-format off */

/* Shared keys, keys and arguments of each lock: letters of rlock_keys_write(). */
#define ACQUIRE(script, shared, keys, args)                                                  \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_ACQUIRE, STATUS_BUSY, true, shared, keys,            \
     args, rlock_state_on_acquire, rlock_state_cancel_acquire, false}
#define RENEW(script, keys, args)                                                            \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RENEW, STATUS_LOST, false, "", keys,                 \
     args, rlock_state_on_renew, rlock_state_cancel_renew, false}
#define EXTEND(script, keys, args)                                                           \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RENEW, STATUS_LOST, false, "", keys,                 \
     args, rlock_state_on_extend, rlock_state_cancel_call, false}
#define RELEASE(script, shared, keys, args)                                                  \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RELEASE, STATUS_LOST, false, shared, keys,           \
     args, rlock_state_on_release, rlock_state_cancel_release, false}

#define PLAIN(wait_args)                                                                     \
    .acquire      = ACQUIRE(ACQUIRE,           "F",  "n",   "o"),                            \
    .acquire_wait = ACQUIRE(ACQUIRE_WAIT,      "FW", "n",   wait_args),                      \
    .renew        = RENEW(RENEW,                     "n",   "ol"),                           \
    .extend       = EXTEND(RENEW,                    "n",   "ol"),                           \
    .release      = RELEASE(RELEASE,           "W",  "n",   "o"),                            \
    .channel      = kind_plain_channel,                                                      \
    .can_renew    = true

const struct rlock_kind rlock_plain  = {PLAIN("ow"), .keep = RELEASE(RENEW, "", "n", "om")};
const struct rlock_kind rlock_cohort = {PLAIN("owx"), .is_cohort = true};

const struct rlock_kind rlock_reentrant = {
    .acquire      = ACQUIRE(REENTRANT_ACQUIRE, "F",  "n",   "hs"),
    .acquire_wait = ACQUIRE(REENTRANT_ACQUIRE, "F",  "n",   "hs"),
    .renew        = RENEW(REENTRANT_RENEW,           "n",   "hsl"),
    .extend       = EXTEND(REENTRANT_RENEW,          "n",   "hsl"),
    .release      = RELEASE(REENTRANT_RELEASE, "",   "n",   "hs"),
    .channel      = kind_redisson_channel,
    .can_renew    = true,
};

const struct rlock_kind rlock_fair = {
    .acquire      = ACQUIRE(FAIR_ACQUIRE,      "F",  "nqb", "ow"),
    .acquire_wait = ACQUIRE(FAIR_ACQUIRE,      "F",  "nqb", "ow"),
    .renew        = RENEW(RENEW,                     "n",   "ol"),
    .extend       = EXTEND(RENEW,                    "n",   "ol"),
    .release      = RELEASE(FAIR_RELEASE,      "",   "nqb", "o"),
    .channel      = kind_plain_channel,
    .can_renew    = true,
    .is_queued    = true,
};

#define PERMIT(acquire_script, release_script, keys)                                         \
    .acquire      = ACQUIRE(acquire_script,    "F",  keys,  "hswp"),                         \
    .acquire_wait = ACQUIRE(acquire_script,    "F",  keys,  "hswp"),                         \
    .renew        = RENEW(PERMIT_RENEW,              "n",   "hsl"),                          \
    .extend       = EXTEND(PERMIT_RENEW,             "n",   "hsl"),                          \
    .release      = RELEASE(release_script,    "",   keys,  "hs"),                           \
    .channel      = kind_plain_channel,                                                      \
    .can_renew    = true

const struct rlock_kind rlock_semaphore = {
    PERMIT(SEMAPHORE_ACQUIRE, SEMAPHORE_RELEASE, "n"), .is_shared = true, .has_permits = true};

const struct rlock_kind rlock_fair_semaphore = {
    PERMIT(SEMAPHORE_ACQUIRE, FAIR_SEMAPHORE_RELEASE, "nqb"),
    .is_queued = true, .is_shared = true, .has_permits = true};

const struct rlock_kind rlock_read = {
    PERMIT(READ_ACQUIRE, RW_RELEASE, "nqbr"), .is_queued = true, .is_shared = true};

const struct rlock_kind rlock_write = {
    PERMIT(WRITE_ACQUIRE, RW_RELEASE, "nqbr"), .is_queued = true};

const struct rlock_kind rlock_getset = {
    .acquire      = ACQUIRE(GETSET_ACQUIRE,    "F",  "n",   "ts"),
    .acquire_wait = ACQUIRE(GETSET_ACQUIRE,    "F",  "n",   "ts"),
    .release      = RELEASE(RELEASE,           "W",  "n",   "s"),
};

/* clang-format on */
