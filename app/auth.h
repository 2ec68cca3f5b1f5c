/*
 * auth.h - bearer tokens (JWT): who asks, in which role; and making them.
 *
 * The algorithm is fixed by configuration: a token that names another one, "none"
 * included, is refused whatever its signature. Threads: any, after auth_create().
 */
#ifndef AUTH_H
#define AUTH_H

#include "app/config.h"
#include "app/model.h"
#include "base/attributes.h"
#include "base/err.h"

#define AUTH_TOKEN_BYTES_MAX  4096
#define AUTH_SECRET_BYTES_MIN 32

enum auth_role { AUTH_SHOPPER, AUTH_PAYMENT, AUTH_ADMIN };

struct identity {
    int64_t user_id; /* > 0 */
    enum auth_role role;
};

struct auth;

/**
 * @config    read for alg and keys; outlives the auth
 * @ret_auth  set on STATUS_OK; free with auth_free()
 *
 * Returns  STATUS_OK; STATUS_INVALID: `reterr` names the variable that is missing or bad
 */
MUST_CHECK enum status auth_create(const struct config *config, struct auth **ret_auth,
                                   struct err *reterr);
void auth_free(struct auth *auth); /* accepts NULL */

/**
 * Judge the value of an Authorization header.
 *
 * @now_s  seconds since 1970 UTC
 *
 * Returns  STATUS_OK, `ret_identity` is set; STATUS_REFUSED: not a bearer token, forged,
 *          expired, not yet valid, or its claims are not what is demanded
 */
MUST_CHECK enum status auth_check(const struct auth *auth, struct text authorization,
                                  int64_t now_s, struct identity *ret_identity);

/**
 * Make a token; needs the secret, or the private key.
 *
 * @ret_token  NUL-terminated; the caller frees it
 */
MUST_CHECK enum status auth_make(const struct auth *auth, const struct identity *identity,
                                 int64_t now_s, int64_t ttl_s, char **ret_token,
                                 struct err *reterr);

#endif
