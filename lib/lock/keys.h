/* keys.h - the values and keys that a client writes besides the names of locks. */
#ifndef LOCK_KEYS_H
#define LOCK_KEYS_H

#include "lock/internal.h"
#include "redis/wire.h"

#define RLOCK_OWNER_MAX    (RLOCK_CLIENT_ID_LEN + 1 + REDIS_DIGITS_MAX)
#define RLOCK_QUEUE_SUFFIX ":queue"
#define RLOCK_BEATS_SUFFIX ":beats"
#define RLOCK_KEY_MAX      (RLOCK_NAME_MAX + 7) /* a name, a suffix and a NUL */

/** Choose the client's id and its keys. STATUS_OK, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status rlock_keys_init(struct rlock_client *client, const char *fence_key,
                                       struct err *reterr);
void rlock_keys_clear(struct rlock_client *client);

/** Why a lock may not have this name; NULL: it may. */
const char *rlock_keys_find_fault(const struct rlock_client *client, const char *name,
                                  size_t name_len);

/** Write an owner's value, "<client id>:<number>"; returns its length. */
size_t rlock_keys_owner(const struct rlock_client *client, uint64_t number,
                        char ret_owner[RLOCK_OWNER_MAX]);

/** Write the key that belongs to the lock `name`; returns its length. */
size_t rlock_keys_with_suffix(const char *name, size_t name_len, const char *suffix,
                              char ret_key[RLOCK_KEY_MAX]);

#endif
