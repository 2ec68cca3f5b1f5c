/*
 * auth.h - verifies and issues bearer tokens (JWT).
 *
 * The algorithm is fixed by the configuration. So a token with another algorithm, such as "none",
 * is refused. A token is also refused if its header has `crit` (RFC 7515, section 4.1.11), or if a
 * name occurs twice in an object, because another reader of the token could then see other claims.
 *
 * There may be several keys, each with a name. A token that names a key (`kid`) is verified with
 * that key only. So a new key can be added before the first token is signed with it, and an old key
 * can stay until its last token has expired. A file of keys has a line "kid: NAME" before each key.
 * The key is a secret of one line, or a public key in PEM. A JSON Web Key Set has the public keys
 * of an identity provider. Without a file and without a key set, one key verifies all tokens,
 * whatever kid they name.
 *
 * An auth is immutable: new keys need a new auth. Threads: any.
 */
#ifndef AUTH_H
#define AUTH_H

#include "app/core/config.h"
#include "app/core/model.h"
#include "base/err.h"

#define AUTH_TOKEN_BYTES_MAX  4096
#define AUTH_SECRET_BYTES_MIN 32
#define AUTH_KEYS_MAX         16
#define AUTH_ID_BYTES_MAX     64 /* of a kid or jti */

enum auth_role { AUTH_SHOPPER, AUTH_PAYMENT, AUTH_ADMIN, AUTH_AUDITOR };

struct identity {
    int64_t user_id; /* > 0 */
    enum auth_role role;
    char jti[AUTH_ID_BYTES_MAX + 1]; /* the id of the token, or "" */
};

/** Indexed by enum auth_role: "shopper", "payment", "admin", "auditor". */
extern const char *const auth_role_names[];

/** Returns false if `name` is not the name of a role. */
MUST_CHECK bool auth_parse_role(struct text name, enum auth_role *ret_role);

struct auth;

/**
 * @config    the algorithm, keys, issuer and audience are copied
 * @ret_auth  set on RLOCK_OK; free with auth_free()
 *
 * Returns  RLOCK_OK; RLOCK_NO_MEMORY; RLOCK_INVALID: `reterr` names the missing or
 *          invalid variable and contains no secret
 */
MUST_CHECK enum rlock_status auth_create(const struct config *config,
                                         struct auth **ret_auth,
                                         struct rlock_err *reterr);
void auth_free(struct auth *auth); /* accepts NULL */

/**
 * Verify the value of an Authorization header.
 *
 * @now_s         seconds since 1970 UTC
 * @ret_identity  set on RLOCK_OK
 *
 * Returns  RLOCK_OK; RLOCK_REFUSED: not a bearer token, forged, expired, not yet valid,
 *          or without the required claims; RLOCK_NO_MEMORY
 */
MUST_CHECK enum rlock_status auth_check(const struct auth *auth,
                                        struct text authorization, int64_t now_s,
                                        struct identity *ret_identity);

/**
 * Issue a token. The secret or the private key signs it. If there are several secrets, the first
 * one in the file signs.
 *
 * @ret_token  set on RLOCK_OK: NUL-terminated; the caller frees it
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: there is no key that signs; RLOCK_NO_MEMORY
 */
MUST_CHECK enum rlock_status auth_make(const struct auth *auth,
                                       const struct identity *identity, int64_t now_s,
                                       int64_t ttl_s, char **ret_token,
                                       struct rlock_err *reterr);

#endif
