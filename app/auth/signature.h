/*
 * signature.h - signs messages as Standard Webhooks 1.0 says.
 *
 * Source: standardwebhooks.com, "Standard Webhooks", version 1.0.0
 */
#ifndef SIGNATURE_H
#define SIGNATURE_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stdint.h>

#define SIGNATURE_KEY_BYTES    24
#define SIGNATURE_SECRET_BYTES 39 /* "whsec_", the key as base64, and a NUL */
#define SIGNATURE_BYTES        48 /* "v1,", the signature as base64, and a NUL */

struct signature_key {
    unsigned char bytes[SIGNATURE_KEY_BYTES];
};

/** Make a secret at random. False: the kernel supplies no random numbers. */
MUST_CHECK bool signature_make_secret(char ret_secret[SIGNATURE_SECRET_BYTES]);

/** Read the key from a secret. False: it is not one that signature_make_secret() could make. */
MUST_CHECK bool signature_parse_secret(const char *secret, struct signature_key *ret_key);

/** Sign a message, for its header webhook-signature. False: out of memory. */
MUST_CHECK bool signature_sign(const struct signature_key *key, const char *id,
                               int64_t timestamp_s, const char *body,
                               char ret_signature[SIGNATURE_BYTES]);

#endif
