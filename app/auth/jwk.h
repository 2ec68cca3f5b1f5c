/*
 * jwk.h - the keys of a JSON Web Key Set (RFC 7517), as identity providers publish it.
 *
 * Threads: any.
 */
#ifndef JWK_H
#define JWK_H

#include "app/auth/jws.h"

#include <jansson.h>

/** Whether the key is meant for signatures of this algorithm: its `kty` suits the algorithm, and
 *  `crv`, `use`, `key_ops` and `alg`, if present, allow it. */
bool jwk_is_for(const json_t *jwk, enum config_alg alg);

/**
 * Create the public key of a JWK for which jwk_is_for() is true.
 *
 * Returns  NULL: a number of the key is missing or invalid, or out of memory; free with
 *          jws_key_free()
 */
struct jws_key *jwk_create_key(const json_t *jwk, enum config_alg alg);

#endif
