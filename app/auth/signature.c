/* signature.c - HMAC-SHA-256 over the id, the time and the body of a message. */
#include "app/auth/signature.h"

#include "base/random.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX        "whsec_"
#define PREFIX_BYTES  (sizeof(PREFIX) - 1)
#define VERSION       "v1,"
#define VERSION_BYTES (sizeof(VERSION) - 1)
#define DIGEST_BYTES  32

bool signature_make_secret(char ret_secret[SIGNATURE_SECRET_BYTES])
{
    struct signature_key key;

    if (!random_fill(key.bytes, sizeof(key.bytes)))
        return false;
    memcpy(ret_secret, PREFIX, PREFIX_BYTES);
    EVP_EncodeBlock((unsigned char *)ret_secret + PREFIX_BYTES, key.bytes,
                    sizeof(key.bytes));
    return true;
}

bool signature_parse_secret(const char *secret, struct signature_key *ret_key)
{
    const unsigned char *text = (const unsigned char *)secret + PREFIX_BYTES;

    return strlen(secret) == SIGNATURE_SECRET_BYTES - 1 &&
           memcmp(secret, PREFIX, PREFIX_BYTES) == 0 && strchr(secret, '=') == NULL &&
           EVP_DecodeBlock(ret_key->bytes, text,
                           (int)(SIGNATURE_SECRET_BYTES - 1 - PREFIX_BYTES)) ==
               SIGNATURE_KEY_BYTES;
}

bool signature_sign(const struct signature_key *key, const char *id, int64_t timestamp_s,
                    const char *body, char ret_signature[SIGNATURE_BYTES])
{
    unsigned char digest[DIGEST_BYTES];
    char *content;
    int len = asprintf(&content, "%s.%" PRId64 ".%s", id, timestamp_s, body);
    bool ok;

    if (len < 0)
        return false;
    ok = HMAC(EVP_sha256(), key->bytes, sizeof(key->bytes), (unsigned char *)content,
              (size_t)len, digest, NULL) != NULL;
    free(content);
    memcpy(ret_signature, VERSION, VERSION_BYTES);
    EVP_EncodeBlock((unsigned char *)ret_signature + VERSION_BYTES, digest,
                    sizeof(digest));
    return ok;
}
