/* keys.c - makes a random client id, and keys and values from this id and from names. */
#include "lock/keys.h"
#include "base/clock.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FENCE_KEY_DEFAULT "lock:fence"
#define WAITING_SUFFIX    ":waiting"

/** The hash FNV-1a with 32 bits. */
uint32_t rlock_keys_hash(const char *name, size_t name_len)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < name_len; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

/** Make a random UUID (RFC 9562, version 4), except that the first group is a hash of the host's
 *  name. */
static enum rlock_status make_id(char ret_id[RLOCK_CLIENT_ID_LEN + 1],
                                 struct rlock_err *reterr)
{
    uint64_t random[2];
    char host[65] = "";

    if (!random_fill(random, sizeof(random)))
        return err_set(reterr, RLOCK_IO, "lock client: no random numbers");
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(ret_id, RLOCK_CLIENT_ID_LEN + 1,
             "%08" PRIx64 "-%04" PRIx64 "-4%03" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
             (uint64_t)rlock_keys_hash(host, strlen(host)), random[0] >> 16 & 0xffff,
             random[0] & 0xfff, random[1] >> 50 | 0x8000, random[1] & 0xffffffffffff);
    return RLOCK_OK;
}

enum rlock_status rlock_keys_init(struct rlock_client *client, const char *fence_key,
                                  struct rlock_err *reterr)
{
    const char *key = fence_key == NULL ? FENCE_KEY_DEFAULT : fence_key;

    for (unsigned i = 0; i < client->server_count; i++) {
        struct rlock_server *server = &client->servers[i];
        char tag[16] = "";

        if (client->server_count > 1)
            snprintf(tag, sizeof(tag), "{%u}", i);
        server->tag_len = strlen(tag);
        server->fence_key_len = server->tag_len + strlen(key);
        server->waiting_key = malloc(server->fence_key_len + sizeof(WAITING_SUFFIX));
        if (server->waiting_key == NULL)
            return RLOCK_NO_MEMORY;
        (void)stpcpy(stpcpy(stpcpy(server->waiting_key, tag), key), WAITING_SUFFIX);
    }
    return make_id(client->id, reterr);
}

void rlock_keys_clear(struct rlock_client *client)
{
    for (unsigned i = 0; i < client->server_count; i++)
        free(client->servers[i].waiting_key);
}

static bool is_key(const struct rlock *lock, const char *key, size_t key_len)
{
    return lock->name_len == key_len && memcmp(lock->name, key, key_len) == 0;
}

const char *rlock_keys_set_name(struct rlock_client *client, struct rlock *lock,
                                const char *name, size_t name_len)
{
    const struct rlock_server *server;

    if (name == NULL || name_len < 1 || name_len > RLOCK_NAME_MAX)
        return "name: must have 1 to " TEXT(RLOCK_NAME_MAX) " bytes";
    if (client->server_count > 1)
        lock->bucket = (uint8_t)(rlock_keys_hash(name, name_len) % RLOCK_BUCKETS);
    server = rlock_server_of(client, lock);
    memcpy(mempcpy(lock->name, server->waiting_key, server->tag_len), name, name_len);
    lock->name_len = (uint16_t)(server->tag_len + name_len);
    if (is_key(lock, server->waiting_key, server->fence_key_len) ||
        is_key(lock, server->waiting_key, server->fence_key_len + strlen(WAITING_SUFFIX)))
        return "name: is the key of the fence counter, or of the waiters";
    return NULL;
}

size_t rlock_keys_owner(const struct rlock_client *client, uint64_t number,
                        char ret_owner[RLOCK_OWNER_MAX])
{
    memcpy(ret_owner, client->id, RLOCK_CLIENT_ID_LEN);
    ret_owner[RLOCK_CLIENT_ID_LEN] = ':';
    return RLOCK_CLIENT_ID_LEN + 1 +
           redis_wire_digits(ret_owner + RLOCK_CLIENT_ID_LEN + 1, number);
}

static void write_owner(const struct rlock_server *server, uint64_t number)
{
    char owner[RLOCK_OWNER_MAX];

    redis_conn_arg(server->conn, owner, rlock_keys_owner(server->client, number, owner));
}

static void write_with_suffix(const struct rlock_server *server, const struct rlock *lock,
                              const char *suffix)
{
    char key[sizeof(lock->name) + sizeof(":readers")];
    const char *end = stpcpy(mempcpy(key, lock->name, lock->name_len), suffix);

    redis_conn_arg(server->conn, key, (size_t)(end - key));
}

/** Return the time in ms after which the server forgets that `lock` waits. Each try sets this
 *  time anew. */
static uint64_t wait_left_ms(const struct rlock *lock)
{
    int64_t left_ms = lock->wait_ms - (clock_mono_us() - lock->began_us) / 1000;

    if (left_ms > RLOCK_WAITING_MAX_MS || lock->wait_ms == RLOCK_WAIT_FOREVER)
        return RLOCK_WAITING_MAX_MS;
    return (uint64_t)(left_ms < 0 ? 0 : left_ms);
}

uint64_t rlock_keys_hold_left_ms(const struct rlock *lock)
{
    return clock_ms_until(lock->began_us + (int64_t)lock->hold_min_ms * 1000);
}

/** Return for how many ms the name stays taken. With 0 PEXPIRE deletes the name at once. */
static uint64_t hold_ms(const struct rlock *lock)
{
    uint64_t left_ms = rlock_keys_hold_left_ms(lock);

    return left_ms == 0 ? 0 : left_ms + 1;
}

/** Set the serial of a lock of kind getset to the end of its lease by this machine's clock.
 *  Returns the present time in ms. */
static uint64_t begin_lease_ms(struct rlock *lock)
{
    uint64_t now_ms = (uint64_t)clock_real_us() / 1000;

    lock->serial = now_ms + lock->lease_ms + 1;
    return now_ms;
}

static void write_word(const struct rlock_server *server, struct rlock *lock,
                       enum rlock_word word)
{
    struct redis_conn *conn = server->conn;

    /* clang-format off */
    switch (word) {
    case RLOCK_WORD_END:     break;
    case RLOCK_KEY_FENCES:   redis_conn_arg(conn, server->waiting_key, server->fence_key_len); break;
    case RLOCK_KEY_WAITING:  redis_conn_arg_text(conn, server->waiting_key); break;
    case RLOCK_KEY_NAME:     redis_conn_arg(conn, lock->name, lock->name_len); break;
    case RLOCK_KEY_QUEUE:    write_with_suffix(server, lock, ":queue"); break;
    case RLOCK_KEY_BEATS:    write_with_suffix(server, lock, ":beats"); break;
    case RLOCK_KEY_READERS:  write_with_suffix(server, lock, ":readers"); break;
    case RLOCK_ARG_TAG:      redis_conn_arg(conn, server->waiting_key, server->tag_len); break;
    case RLOCK_ARG_OWNER:    write_owner(server, lock->serial); break;
    case RLOCK_ARG_HOLDER:   write_owner(server, lock->holder); break;
    case RLOCK_ARG_SERIAL:   redis_conn_arg_uint(conn, lock->serial); break;
    case RLOCK_ARG_LEASE_MS: redis_conn_arg_uint(conn, lock->lease_ms); break;
    case RLOCK_ARG_WAIT_MS:  redis_conn_arg_uint(conn, wait_left_ms(lock)); break;
    case RLOCK_ARG_PERMITS:  redis_conn_arg_uint(conn, lock->permits); break;
    case RLOCK_ARG_HOLD_MS:  redis_conn_arg_uint(conn, hold_ms(lock)); break;
    case RLOCK_ARG_PASSES:   redis_conn_arg_uint(conn, lock->passes); break;
    case RLOCK_ARG_NOW_MS:   redis_conn_arg_uint(conn, begin_lease_ms(lock)); break;
    }
    /* clang-format on */
}

void rlock_keys_write(const struct rlock_server *server, struct rlock *const *locks,
                      unsigned count, const enum rlock_word *words)
{
    for (unsigned i = 0; i < count; i++) {
        for (const enum rlock_word *word = words; *word != RLOCK_WORD_END; word++)
            write_word(server, locks[i], *word);
    }
}
