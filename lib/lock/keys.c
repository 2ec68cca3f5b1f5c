/* keys.c - a random client id, and strings made from it and from names. */
#include "lock/keys.h"
#include "base/clock.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FENCE_KEY_DEFAULT "lock:fence"
#define WAITING_SUFFIX    ":waiting"
#define WAITING_MAX_MS    6000 /* three times the pause of waiters between two tries */

/** A random UUID (RFC 9562, version 4). */
static enum status make_id(char ret_id[RLOCK_CLIENT_ID_LEN + 1], struct err *reterr)
{
    unsigned char random[16];
    char *at = ret_id;

    if (!random_fill(random, sizeof(random)))
        return err_set(reterr, STATUS_IO, "lock client: no random numbers");
    random[6] = (unsigned char)((random[6] & 0x0f) | 0x40);
    random[8] = (unsigned char)((random[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(random); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        at += snprintf(at, 3, "%02x", random[i]);
    }
    return STATUS_OK;
}

enum status rlock_keys_init(struct rlock_client *client, const char *fence_key,
                            struct err *reterr)
{
    size_t size;

    client->fence_key = strdup(fence_key == NULL ? FENCE_KEY_DEFAULT : fence_key);
    if (client->fence_key == NULL)
        return STATUS_NO_MEMORY;
    client->fence_key_len = strlen(client->fence_key);
    size = client->fence_key_len + sizeof(WAITING_SUFFIX);
    client->waiting_key = malloc(size);
    if (client->waiting_key == NULL)
        return STATUS_NO_MEMORY;
    snprintf(client->waiting_key, size, "%s" WAITING_SUFFIX, client->fence_key);
    client->waiting_key_len = size - 1;
    return make_id(client->id, reterr);
}

void rlock_keys_clear(struct rlock_client *client)
{
    free(client->fence_key);
    free(client->waiting_key);
}

static bool is_key(const char *key, size_t key_len, const char *name, size_t name_len)
{
    return name_len == key_len && memcmp(name, key, key_len) == 0;
}

const char *rlock_keys_find_fault(const struct rlock_client *client, const char *name,
                                  size_t name_len)
{
    if (name == NULL || name_len < 1 || name_len > RLOCK_NAME_MAX)
        return "name: must have 1 to " TEXT(RLOCK_NAME_MAX) " bytes";
    if (is_key(client->fence_key, client->fence_key_len, name, name_len) ||
        is_key(client->waiting_key, client->waiting_key_len, name, name_len))
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

static void write_owner(struct rlock_client *client, uint64_t number)
{
    char owner[RLOCK_OWNER_MAX];

    redis_conn_arg(client->conn, owner, rlock_keys_owner(client, number, owner));
}

static void write_with_suffix(struct rlock_client *client, const struct rlock *lock,
                              const char *suffix)
{
    char key[RLOCK_NAME_MAX + 8];
    const char *end = stpcpy(mempcpy(key, lock->name, lock->name_len), suffix);

    redis_conn_arg(client->conn, key, (size_t)(end - key));
}

/** How long the server should regard `lock` as waiting, unless it tries again. */
static uint64_t wait_left_ms(const struct rlock *lock)
{
    int64_t passed_ms = (clock_mono_us() - lock->began_us) / 1000;

    if (lock->wait_ms - passed_ms > WAITING_MAX_MS || lock->wait_ms == RLOCK_WAIT_FOREVER)
        return WAITING_MAX_MS;
    return lock->wait_ms <= passed_ms ? 0 : (uint64_t)(lock->wait_ms - passed_ms);
}

/** The serial of kind getset is the end of the lease by this clock. */
static uint64_t begin_lease_ms(struct rlock *lock)
{
    uint64_t now_ms = (uint64_t)clock_real_us() / 1000;

    lock->serial = now_ms + lock->lease_ms + 1;
    return now_ms;
}

static void write_one(struct rlock_client *client, struct rlock *lock, char letter)
{
    switch (letter) {
    case 'F':
        redis_conn_arg(client->conn, client->fence_key, client->fence_key_len);
        break;
    case 'W':
        redis_conn_arg(client->conn, client->waiting_key, client->waiting_key_len);
        break;
    case 'n':
        redis_conn_arg(client->conn, lock->name, lock->name_len);
        break;
    case 'q':
        write_with_suffix(client, lock, ":queue");
        break;
    case 'b':
        write_with_suffix(client, lock, ":beats");
        break;
    case 'o':
        write_owner(client, lock->serial);
        break;
    case 'h':
        write_owner(client, lock->holder);
        break;
    case 's':
        redis_conn_arg_uint(client->conn, lock->serial);
        break;
    case 'l':
        redis_conn_arg_uint(client->conn, lock->lease_ms);
        break;
    case 'w':
        redis_conn_arg_uint(client->conn, wait_left_ms(lock));
        break;
    default: /* t */
        redis_conn_arg_uint(client->conn, begin_lease_ms(lock));
        break;
    }
}

void rlock_keys_write(struct rlock_client *client, struct rlock *lock,
                      const char *letters)
{
    for (; *letters != '\0'; letters++)
        write_one(client, lock, *letters);
}
