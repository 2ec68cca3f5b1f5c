/* kinds.c - the kinds of locks: each a table of scripts and what is written for them. */
#include "base/clock.h"
#include "lock/internal.h"

#include <stdio.h>
#include <string.h>

/* -- keys and arguments -- */

static void write_name(struct rlock_client *client, struct rlock *lock)
{
    redis_conn_arg(client->conn, lock->name, lock->name_len);
}

static void write_beside(struct rlock_client *client, const struct rlock *lock,
                         const char *suffix)
{
    char key[RLOCK_NAME_MAX + RLOCK_BESIDE_MAX];

    redis_conn_arg(client->conn, key,
                   rlock_beside(lock->name, lock->name_len, suffix, key));
}

static void write_queue_keys(struct rlock_client *client, struct rlock *lock)
{
    write_name(client, lock);
    write_beside(client, lock, RLOCK_QUEUE_SUFFIX);
    write_beside(client, lock, RLOCK_BEATS_SUFFIX);
}

static void write_owner(struct rlock_client *client, struct rlock *lock)
{
    char owner[RLOCK_OWNER_MAX];

    redis_conn_arg(client->conn, owner, rlock_client_owner(client, lock->serial, owner));
}

static void write_owner_and_wait(struct rlock_client *client, struct rlock *lock)
{
    write_owner(client, lock);
    redis_conn_arg_uint(client->conn, rlock_wait_left_ms(lock));
}

static void write_grant(struct rlock_client *client, struct rlock *lock)
{
    char owner[RLOCK_OWNER_MAX];

    redis_conn_arg(client->conn, owner, rlock_client_owner(client, lock->holder, owner));
    redis_conn_arg_uint(client->conn, lock->serial);
}

/** The serial of a getset lock is its value: the time when it ends, by our clock. */
static void write_expiry(struct rlock_client *client, struct rlock *lock)
{
    uint64_t now_ms = (uint64_t)clock_real_us() / 1000;

    lock->serial = now_ms + lock->lease_ms + 1;
    redis_conn_arg_uint(client->conn, now_ms);
    redis_conn_arg_uint(client->conn, lock->serial);
}

static void write_serial(struct rlock_client *client, struct rlock *lock)
{
    redis_conn_arg_uint(client->conn, lock->serial);
}

/* -- channels -- */

static size_t put(char *ret_text, const char *text, size_t len)
{
    memcpy(ret_text, text, len);
    return len;
}

static size_t put_prefix(char *ret_name, const char *prefix)
{
    return put(ret_name, prefix, strlen(prefix));
}

static size_t plain_channel(const struct rlock *lock, char ret_name[RLOCK_CHANNEL_MAX])
{
    size_t len = put_prefix(ret_name, "rlock:");

    return len + put(ret_name + len, lock->name, lock->name_len);
}

/** As Redisson has it: the name in braces, unless it has some itself. */
static size_t redisson_channel(const struct rlock *lock, char ret_name[RLOCK_CHANNEL_MAX])
{
    bool has_braces = memchr(lock->name, '{', lock->name_len) != NULL;
    size_t len = put_prefix(ret_name, "redisson_lock__channel:");

    if (!has_braces)
        ret_name[len++] = '{';
    len += put(ret_name + len, lock->name, lock->name_len);
    if (!has_braces)
        ret_name[len++] = '}';
    return len;
}

/* -- kinds -- */

#define ACQUIRES                                                                         \
    .class_id = RLOCK_CLASS_ACQUIRE, .is_grant = true, .has_lease = true,                \
    .denied = STATUS_BUSY, .complete = rlock_complete_acquire,                           \
    .cancel = rlock_cancel_acquire
#define RENEWS                                                                           \
    .class_id = RLOCK_CLASS_RENEW, .has_lease = true, .denied = STATUS_LOST,             \
    .complete = rlock_watchdog_complete, .cancel = rlock_watchdog_cancel
#define EXTENDS                                                                          \
    .class_id = RLOCK_CLASS_RENEW, .has_lease = true, .denied = STATUS_LOST,             \
    .complete = rlock_complete_extend, .cancel = rlock_cancel_extend
#define RELEASES                                                                         \
    .class_id = RLOCK_CLASS_RELEASE, .denied = STATUS_LOST,                              \
    .complete = rlock_complete_release, .cancel = rlock_cancel_release

#define OWNED                                                                            \
    .key_count = 1, .write_keys = write_name, .arg_count = 1, .write_args = write_owner
#define GRANTED                                                                          \
    .key_count = 1, .write_keys = write_name, .arg_count = 2, .write_args = write_grant
#define QUEUED .key_count = 3, .write_keys = write_queue_keys

const struct rlock_kind rlock_plain = {
    .acquire = {ACQUIRES, OWNED, .script = RLOCK_SCRIPT_ACQUIRE},
    .acquire_wait = {ACQUIRES, .script = RLOCK_SCRIPT_ACQUIRE_WAIT, .has_waiting = true,
                     .key_count = 1, .write_keys = write_name, .arg_count = 2,
                     .write_args = write_owner_and_wait},
    .renew = {RENEWS, OWNED, .script = RLOCK_SCRIPT_RENEW},
    .extend = {EXTENDS, OWNED, .script = RLOCK_SCRIPT_RENEW},
    .release = {RELEASES, OWNED, .script = RLOCK_SCRIPT_RELEASE, .has_waiting = true},
    .channel = plain_channel,
    .can_renew = true,
};

const struct rlock_kind rlock_reentrant = {
    .acquire = {ACQUIRES, GRANTED, .script = RLOCK_SCRIPT_REENTRANT_ACQUIRE},
    .renew = {RENEWS, GRANTED, .script = RLOCK_SCRIPT_REENTRANT_RENEW},
    .extend = {EXTENDS, GRANTED, .script = RLOCK_SCRIPT_REENTRANT_RENEW},
    .release = {RELEASES, GRANTED, .script = RLOCK_SCRIPT_REENTRANT_RELEASE},
    .channel = redisson_channel,
    .can_renew = true,
};

const struct rlock_kind rlock_fair = {
    .acquire = {ACQUIRES, QUEUED, .script = RLOCK_SCRIPT_FAIR_ACQUIRE, .arg_count = 2,
                .write_args = write_owner_and_wait},
    .renew = {RENEWS, OWNED, .script = RLOCK_SCRIPT_RENEW},
    .extend = {EXTENDS, OWNED, .script = RLOCK_SCRIPT_RENEW},
    .release = {RELEASES, QUEUED, .script = RLOCK_SCRIPT_FAIR_RELEASE, .arg_count = 1,
                .write_args = write_owner},
    .channel = plain_channel,
    .can_renew = true,
    .is_queued = true,
};

const struct rlock_kind rlock_getset = {
    .acquire = {ACQUIRES, .script = RLOCK_SCRIPT_GETSET_ACQUIRE, .key_count = 1,
                .write_keys = write_name, .arg_count = 2, .write_args = write_expiry},
    .release = {RELEASES, .script = RLOCK_SCRIPT_RELEASE, .has_waiting = true,
                .key_count = 1, .write_keys = write_name, .arg_count = 1,
                .write_args = write_serial},
};
