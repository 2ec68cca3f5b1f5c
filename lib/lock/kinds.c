/*
 * kinds.c - the kinds of locks, as tables of operations.
 *
 * An operation names its script, the keys and arguments that the script takes (scripts.h), and the
 * functions of state.c that get the result.
 */
#include "lock/state.h"
#include "lock/wait.h"

#include <string.h>

/* -- channels -- */

static size_t kind_plain_channel(const struct rlock *lock,
                                 char ret_name[RLOCK_CHANNEL_MAX])
{
    char *end = mempcpy(stpcpy(ret_name, "rlock:"), lock->name, lock->name_len);

    return (size_t)(end - ret_name);
}

/** Write the name of the channel as Redisson does. Redisson puts the lock's name in braces,
 *  unless the name contains an opening brace. */
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

/* -- keys and arguments of the scripts -- */

/* clang-format off */
static const enum rlock_word none[]               = {RLOCK_WORD_END};
static const enum rlock_word fences[]             = RLOCK_WORDS(RLOCK_KEY_FENCES);
static const enum rlock_word fences_and_waiting[] = RLOCK_WORDS(RLOCK_KEY_FENCES, RLOCK_KEY_WAITING);
static const enum rlock_word waiting[]            = RLOCK_WORDS(RLOCK_KEY_WAITING);
static const enum rlock_word lock_name[]          = RLOCK_WORDS(RLOCK_KEY_NAME);
static const enum rlock_word queue[]              = RLOCK_WORDS(RLOCK_KEY_NAME, RLOCK_KEY_QUEUE, RLOCK_KEY_BEATS);
static const enum rlock_word readers[]            = RLOCK_WORDS(RLOCK_KEY_NAME, RLOCK_KEY_QUEUE, RLOCK_KEY_BEATS, RLOCK_KEY_READERS);
static const enum rlock_word owner[]              = RLOCK_WORDS(RLOCK_ARG_OWNER);
static const enum rlock_word owner_wait[]         = RLOCK_WORDS(RLOCK_ARG_OWNER, RLOCK_ARG_WAIT_MS);
static const enum rlock_word owner_passes[]       = RLOCK_WORDS(RLOCK_ARG_OWNER, RLOCK_ARG_WAIT_MS, RLOCK_ARG_PASSES);
static const enum rlock_word owner_lease[]        = RLOCK_WORDS(RLOCK_ARG_OWNER, RLOCK_ARG_LEASE_MS);
static const enum rlock_word owner_hold[]         = RLOCK_WORDS(RLOCK_ARG_OWNER, RLOCK_ARG_HOLD_MS);
static const enum rlock_word holder[]             = RLOCK_WORDS(RLOCK_ARG_HOLDER, RLOCK_ARG_SERIAL);
static const enum rlock_word holder_lease[]       = RLOCK_WORDS(RLOCK_ARG_HOLDER, RLOCK_ARG_SERIAL, RLOCK_ARG_LEASE_MS);
static const enum rlock_word holder_permits[]     = RLOCK_WORDS(RLOCK_ARG_HOLDER, RLOCK_ARG_SERIAL, RLOCK_ARG_WAIT_MS, RLOCK_ARG_PERMITS);
static const enum rlock_word now_and_expiry[]     = RLOCK_WORDS(RLOCK_ARG_NOW_MS, RLOCK_ARG_SERIAL);
static const enum rlock_word serial[]             = RLOCK_WORDS(RLOCK_ARG_SERIAL);
/* clang-format on */

/* -- kinds -- */

/* clang-format off */

#define ACQUIRE(script, shared, keys, args)                                                  \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_ACQUIRE, RLOCK_BUSY, true, shared, keys,              \
     args, rlock_state_on_acquire, rlock_state_cancel_acquire, false}
#define RENEW(script, keys, args)                                                            \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RENEW, RLOCK_LOST, false, none, keys,                 \
     args, rlock_state_on_renew, rlock_state_cancel_renew, false}
#define EXTEND(script, keys, args)                                                           \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RENEW, RLOCK_LOST, false, none, keys,                 \
     args, rlock_state_on_extend, rlock_state_cancel_call, false}
#define RELEASE(script, shared, keys, args)                                                  \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RELEASE, RLOCK_LOST, false, shared, keys,             \
     args, rlock_state_on_release, rlock_state_cancel_release, false}
#define RELEASE_SILENT(script, keys, args)                                                   \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RELEASE, RLOCK_LOST, false, none, keys,               \
     args, rlock_state_on_silent_release, rlock_state_cancel_release, false}

#define CHECK(script, shared)                                                                \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RENEW, RLOCK_BUSY, false, shared, lock_name,          \
     none, rlock_wait_on_check, rlock_state_cancel_acquire, false}

#define PLAIN(wait_args)                                                                          \
    .acquire      = ACQUIRE(ACQUIRE,           fences,             lock_name, owner),             \
    .acquire_wait = ACQUIRE(ACQUIRE_WAIT,      fences_and_waiting, lock_name, wait_args),         \
    .acquire_again = ACQUIRE(ACQUIRE_AGAIN,    fences_and_waiting, lock_name, wait_args),         \
    .check        = CHECK(CHECK,               waiting),                                          \
    .renew        = RENEW(RENEW,                                   lock_name, owner_lease),       \
    .extend       = EXTEND(RENEW,                                  lock_name, owner_lease),       \
    .release      = RELEASE(RELEASE,           waiting,            lock_name, owner),             \
    .channel      = kind_plain_channel,                                                           \
    .can_renew    = true

const struct rlock_kind rlock_plain = {
    PLAIN(owner_wait),
    .keep           = RELEASE(RENEW,           none,               lock_name, owner_hold),
    .release_silent = RELEASE_SILENT(RENEW,                        lock_name, owner_hold),
};

const struct rlock_kind rlock_cohort = {PLAIN(owner_passes), .is_cohort = true};

const struct rlock_kind rlock_reentrant = {
    .acquire      = ACQUIRE(REENTRANT_ACQUIRE, fences,             lock_name, holder),
    .acquire_wait = ACQUIRE(REENTRANT_ACQUIRE, fences,             lock_name, holder),
    .check        = CHECK(REENTRANT_CHECK,     none),
    .renew        = RENEW(REENTRANT_RENEW,                         lock_name, holder_lease),
    .extend       = EXTEND(REENTRANT_RENEW,                        lock_name, holder_lease),
    .release      = RELEASE(REENTRANT_RELEASE, none,               lock_name, holder),
    .channel      = kind_redisson_channel,
    .can_renew    = true,
    .is_reentrant = true,
};

const struct rlock_kind rlock_fair = {
    .acquire      = ACQUIRE(FAIR_ACQUIRE,      fences,             queue,     owner_wait),
    .acquire_wait = ACQUIRE(FAIR_ACQUIRE,      fences,             queue,     owner_wait),
    .renew        = RENEW(RENEW,                                   lock_name, owner_lease),
    .extend       = EXTEND(RENEW,                                  lock_name, owner_lease),
    .release      = RELEASE(FAIR_RELEASE,      none,               queue,     owner),
    .channel      = kind_plain_channel,
    .can_renew    = true,
    .is_queued    = true,
};

#define PERMIT(acquire_script, release_script, keys)                                              \
    .acquire      = ACQUIRE(acquire_script,    fences,             keys,      holder_permits),    \
    .acquire_wait = ACQUIRE(acquire_script,    fences,             keys,      holder_permits),    \
    .renew        = RENEW(PERMIT_RENEW,                            lock_name, holder_lease),      \
    .extend       = EXTEND(PERMIT_RENEW,                           lock_name, holder_lease),      \
    .release      = RELEASE(release_script,    none,               keys,      holder),            \
    .channel      = kind_plain_channel,                                                           \
    .can_renew    = true

const struct rlock_kind rlock_semaphore = {
    PERMIT(SEMAPHORE_ACQUIRE, SEMAPHORE_RELEASE, lock_name), .is_shared = true, .has_permits = true};

const struct rlock_kind rlock_fair_semaphore = {
    PERMIT(SEMAPHORE_ACQUIRE, FAIR_SEMAPHORE_RELEASE, queue),
    .is_queued = true, .is_shared = true, .has_permits = true};

const struct rlock_kind rlock_read = {
    PERMIT(READ_ACQUIRE, RW_RELEASE, readers), .is_queued = true, .is_shared = true};

const struct rlock_kind rlock_write = {
    PERMIT(WRITE_ACQUIRE, RW_RELEASE, readers), .is_queued = true};

const struct rlock_kind rlock_getset = {
    .acquire      = ACQUIRE(GETSET_ACQUIRE,    fences,             lock_name, now_and_expiry),
    .acquire_wait = ACQUIRE(GETSET_ACQUIRE,    fences,             lock_name, now_and_expiry),
    .release      = RELEASE(RELEASE,           waiting,            lock_name, serial),
};

/* clang-format on */
