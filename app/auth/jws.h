/*
 * jws.h - signatures of tokens: HS256, RS256 and ES256 (RFC 7518, section 3), by OpenSSL.
 *
 * A key has one algorithm, so a token cannot choose another. Threads: any.
 */
#ifndef JWS_H
#define JWS_H

#include "app/core/config.h"
#include "app/core/model.h"
#include "base/attributes.h"

#define JWS_SIGNATURE_BYTES_MAX 1024 /* enough for RSA with 8192 bits */

struct jws_key;

enum jws_use { JWS_VERIFY, JWS_SIGN };

/** Indexed by enum config_alg, as in a token's header: "HS256", "RS256", "ES256". */
extern const char *const jws_alg_names[];

/**
 * @text  the secret of HS256, otherwise a public key (JWS_VERIFY) or private key (JWS_SIGN)
 *        in PEM; copied
 *
 * Returns  NULL: not a key of this algorithm, or out of memory; free with jws_key_free()
 */
struct jws_key *jws_key_create(enum config_alg alg, enum jws_use use, const char *text);

/**
 * Create the public key of RS256 or ES256 from its two numbers, which are big-endian.
 *
 * @first   RS256: the modulus; ES256: x, 32 bytes
 * @second  RS256: the exponent; ES256: y, 32 bytes
 *
 * Returns  the same as jws_key_create()
 */
struct jws_key *jws_key_create_numbers(enum config_alg alg, struct text first,
                                       struct text second);
void jws_key_free(struct jws_key *key); /* accepts NULL */

/**
 * Verify a signature.
 *
 * @signature  the bytes, decoded
 *
 * Returns  RLOCK_OK; RLOCK_REFUSED: not a signature of this text by this key;
 *          RLOCK_NO_MEMORY
 */
MUST_CHECK enum rlock_status jws_verify(const struct jws_key *key, struct text text,
                                        struct text signature);

/** Sign `text`. `ret_len` is set if true is returned. Returns false if OpenSSL has failed. */
MUST_CHECK bool jws_sign(const struct jws_key *key, struct text text,
                         unsigned char ret_signature[JWS_SIGNATURE_BYTES_MAX],
                         size_t *ret_len);

#endif
