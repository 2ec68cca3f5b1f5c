/* sha1.h - the digest that identifies a script in Redis (RFC 3174); not for secrets. */
#ifndef REDIS_SHA1_H
#define REDIS_SHA1_H

#include <stddef.h>

#define REDIS_SHA1_HEX_LEN 40

/** The digest of `len` bytes at `data` in lower-case hex, NUL-terminated. */
void redis_sha1_hex(const void *data, size_t len, char ret_hex[REDIS_SHA1_HEX_LEN + 1]);

#endif
