/*
 * kinds.c - the kinds of locks: tables of operations.
 *
 * An operation names its script, the keys and arguments that the script takes
 * (scripts.h), and the functions of state.c that get the result.
 */
#include "base/clock.h"
#include "lock/keys.h"
#include "lock/state.h"
#include "lock/wait.h"

#include <string.h>

/* -- keys -- */

static void kind_write_fence(struct rlock_client *client)
{
    redis_conn_arg(client->conn, client->fence_key, client->fence_key_len);
}

static void kind_write_waiting(struct rlock_client *client)
{
    redis_conn_arg(client->conn, client->waiting_key, client->waiting_key_len);
}

static void kind_write_fence_and_waiting(struct rlock_client *client)
{
    kind_write_fence(client);
    kind_write_waiting(client);
}

static void kind_write_name(struct rlock_client *client, struct rlock *lock)
{
    redis_conn_arg(client->conn, lock->name, lock->name_len);
}

static void write_with_suffix(struct rlock_client *client, const struct rlock *lock,
                              const char *suffix)
{
    char key[RLOCK_KEY_MAX];

    redis_conn_arg(client->conn, key,
                   rlock_keys_with_suffix(lock->name, lock->name_len, suffix, key));
}

static void kind_write_queue(struct rlock_client *client, struct rlock *lock)
{
    kind_write_name(client, lock);
    write_with_suffix(client, lock, RLOCK_QUEUE_SUFFIX);
    write_with_suffix(client, lock, RLOCK_BEATS_SUFFIX);
}

/* -- arguments -- */

static void write_owner(struct rlock_client *client, uint64_t number)
{
    char owner[RLOCK_OWNER_MAX];

    redis_conn_arg(client->conn, owner, rlock_keys_owner(client, number, owner));
}

static void kind_write_owner(struct rlock_client *client, struct rlock *lock)
{
    write_owner(client, lock->serial);
}

static void kind_write_owner_and_wait(struct rlock_client *client, struct rlock *lock)
{
    write_owner(client, lock->serial);
    redis_conn_arg_uint(client->conn, rlock_wait_left_ms(lock));
}

static void kind_write_holder(struct rlock_client *client, struct rlock *lock)
{
    write_owner(client, lock->holder);
    redis_conn_arg_uint(client->conn, lock->serial);
}

static void kind_write_owner_and_lease(struct rlock_client *client, struct rlock *lock)
{
    kind_write_owner(client, lock);
    redis_conn_arg_uint(client->conn, lock->lease_ms);
}

static void kind_write_holder_and_lease(struct rlock_client *client, struct rlock *lock)
{
    kind_write_holder(client, lock);
    redis_conn_arg_uint(client->conn, lock->lease_ms);
}

/** Of kind getset the serial is the value: the end of the lease by this clock. */
static void kind_write_expiry(struct rlock_client *client, struct rlock *lock)
{
    uint64_t now_ms = (uint64_t)clock_real_us() / 1000;

    lock->serial = now_ms + lock->lease_ms + 1;
    redis_conn_arg_uint(client->conn, now_ms);
    redis_conn_arg_uint(client->conn, lock->serial);
}

static void kind_write_serial(struct rlock_client *client, struct rlock *lock)
{
    redis_conn_arg_uint(client->conn, lock->serial);
}

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

/* Keys before those of the locks. */
#define NONE            0, NULL
#define FENCE           1, kind_write_fence
#define WAITING         1, kind_write_waiting
#define FENCE_WAITING   2, kind_write_fence_and_waiting
/* Keys of each lock. */
#define NAME            1, kind_write_name
#define QUEUE           3, kind_write_queue
/* Arguments of each lock. */
#define OWNER           1, kind_write_owner
#define OWNER_WAIT      2, kind_write_owner_and_wait
#define OWNER_LEASE     2, kind_write_owner_and_lease
#define HOLDER          2, kind_write_holder
#define HOLDER_LEASE    3, kind_write_holder_and_lease
#define EXPIRY          2, kind_write_expiry
#define SERIAL          1, kind_write_serial

#define ACQUIRE(script, shared, keys, args)                                                  \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_ACQUIRE, STATUS_BUSY, true, shared, keys,            \
     args, rlock_state_on_acquire, rlock_state_cancel_acquire}
#define RENEW(script, keys, args)                                                            \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RENEW, STATUS_LOST, false, NONE, keys,               \
     args, rlock_state_on_renew, rlock_state_cancel_renew}
#define EXTEND(script, keys, args)                                                           \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RENEW, STATUS_LOST, false, NONE, keys,               \
     args, rlock_state_on_extend, rlock_state_cancel_extend}
#define RELEASE(script, shared, keys, args)                                                  \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_RELEASE, STATUS_LOST, false, shared, keys,           \
     args, rlock_state_on_release, rlock_state_cancel_release}

const struct rlock_kind rlock_plain = {
    .acquire      = ACQUIRE(ACQUIRE,           FENCE,         NAME,  OWNER),
    .acquire_wait = ACQUIRE(ACQUIRE_WAIT,      FENCE_WAITING, NAME,  OWNER_WAIT),
    .renew        = RENEW(RENEW,                              NAME,  OWNER_LEASE),
    .extend       = EXTEND(RENEW,                             NAME,  OWNER_LEASE),
    .release      = RELEASE(RELEASE,           WAITING,       NAME,  OWNER),
    .channel      = kind_plain_channel,
    .can_renew    = true,
};

const struct rlock_kind rlock_reentrant = {
    .acquire      = ACQUIRE(REENTRANT_ACQUIRE, FENCE,         NAME,  HOLDER),
    .acquire_wait = ACQUIRE(REENTRANT_ACQUIRE, FENCE,         NAME,  HOLDER),
    .renew        = RENEW(REENTRANT_RENEW,                    NAME,  HOLDER_LEASE),
    .extend       = EXTEND(REENTRANT_RENEW,                   NAME,  HOLDER_LEASE),
    .release      = RELEASE(REENTRANT_RELEASE, NONE,          NAME,  HOLDER),
    .channel      = kind_redisson_channel,
    .can_renew    = true,
};

const struct rlock_kind rlock_fair = {
    .acquire      = ACQUIRE(FAIR_ACQUIRE,      FENCE,         QUEUE, OWNER_WAIT),
    .acquire_wait = ACQUIRE(FAIR_ACQUIRE,      FENCE,         QUEUE, OWNER_WAIT),
    .renew        = RENEW(RENEW,                              NAME,  OWNER_LEASE),
    .extend       = EXTEND(RENEW,                             NAME,  OWNER_LEASE),
    .release      = RELEASE(FAIR_RELEASE,      NONE,          QUEUE, OWNER),
    .channel      = kind_plain_channel,
    .can_renew    = true,
    .is_queued    = true,
};

const struct rlock_kind rlock_getset = {
    .acquire      = ACQUIRE(GETSET_ACQUIRE,    FENCE,         NAME,  EXPIRY),
    .acquire_wait = ACQUIRE(GETSET_ACQUIRE,    FENCE,         NAME,  EXPIRY),
    .release      = RELEASE(RELEASE,           WAITING,       NAME,  SERIAL),
};

/* clang-format on */
