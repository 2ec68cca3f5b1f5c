/*
 * keys.h - the values and keys that a client writes.
 *
 * In a cluster all keys of a script call must be in one hash slot. Therefore a name
 * belongs to one of RLOCK_BUCKETS buckets. The number of the bucket precedes each key of
 * the name as a hash tag: "{7}name". A bucket has a fence counter of its own,
 * "{7}lock:fence", and its locks share batches. The buckets of a master share a
 * connection. Without a cluster there is one bucket, and keys have no tag.
 */
#ifndef LOCK_KEYS_H
#define LOCK_KEYS_H

#include "lock/internal.h"
#include "redis/wire.h"

/* A client's id begins with a hash of its host name. This is the length of the hash. */
#define RLOCK_HOST_LEN  8
#define RLOCK_OWNER_MAX (RLOCK_CLIENT_ID_LEN + 1 + REDIS_DIGITS_MAX)

/** Choose the id of the client and the keys of its buckets. Returns RLOCK_OK, RLOCK_IO or
 *  RLOCK_NO_MEMORY. */
MUST_CHECK enum rlock_status rlock_keys_init(struct rlock_client *client,
                                             const char *fence_key,
                                             struct rlock_err *reterr);
void rlock_keys_clear(struct rlock_client *client);

/** Set the key and the bucket of `lock`. The bucket must be 0 before the call. Returns NULL,
 *  or why the name is refused. */
const char *rlock_keys_set_name(struct rlock_client *client, struct rlock *lock,
                                const char *name, size_t name_len);

uint32_t rlock_keys_hash(const char *name, size_t name_len);

/** Write an owner's value, "<client id>:<number>"; returns its length. */
size_t rlock_keys_owner(const struct rlock_client *client, uint64_t number,
                        char ret_owner[RLOCK_OWNER_MAX]);

uint64_t rlock_keys_hold_left_ms(const struct rlock *lock);

/** Write the keys or arguments of a script call: for each lock, the `words`, which end with
 *  RLOCK_WORD_END. */
void rlock_keys_write(const struct rlock_server *server, struct rlock *const *locks,
                      unsigned count, const enum rlock_word *words);

#endif
