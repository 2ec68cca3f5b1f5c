/* reply.h - reads a server's reply, and hides the library that has parsed it. */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A reply, which is valid during the callback that gets it. All functions that take a reply
 *  accept NULL, which means that there is no reply. */
struct redis_reply;

bool redis_reply_int(const struct redis_reply *reply, int64_t *ret_value);

/** Return the text of a string, a status line or an error. The result is NULL if the reply is of
 *  another type. The text ends with a NUL, but may also contain NULs. `ret_len` gets the length,
 *  and may be NULL. */
const char *redis_reply_text(const struct redis_reply *reply, size_t *ret_len);

/** Return element `index` of an array. The result is NULL if the array has no such element. */
const struct redis_reply *redis_reply_at(const struct redis_reply *reply, size_t index);

/** Return the text that follows `key` in an array of keys and values. The result is NULL if the
 *  array does not have the key. */
const char *redis_reply_field(const struct redis_reply *reply, const char *key);

/**
 * Whether an error message begins with this code, such as "READONLY", or quotes an error with this
 * code after ": ". Redis 6.2 quotes an error that occurred inside a script.
 */
bool redis_error_has_code(const char *text, const char *code);

#endif
