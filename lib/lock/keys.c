/* keys.c - a random client id, and strings made from it and from names. */
#include "lock/keys.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

#define FENCE_KEY_DEFAULT "lock:fence"
#define WAITING_SUFFIX    ":waiting"

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

size_t rlock_keys_with_suffix(const char *name, size_t name_len, const char *suffix,
                              char ret_key[RLOCK_KEY_MAX])
{
    size_t suffix_len = strlen(suffix);

    memcpy(ret_key, name, name_len);
    memcpy(ret_key + name_len, suffix, suffix_len + 1);
    return name_len + suffix_len;
}
