/* sha1.c - SHA-1 of a block of memory, by OpenSSL. */
#include "redis/sha1.h"

#include <openssl/sha.h>
#include <stdio.h>

void redis_sha1_hex(const void *data, size_t len, char ret_hex[REDIS_SHA1_HEX_LEN + 1])
{
    unsigned char digest[SHA_DIGEST_LENGTH] = {0};

    (void)SHA1(data, len, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
}
