/*
 * auth.h - bearer tokens (JWT): who asks, in which role; and making them.
 *
 * The algorithm is fixed by configuration: a token that names another one, "none"
 * included, is refused whatever its signature.
 *
 * There may be several keys, each with a name. A token that names one (`kid`) is judged
 * by that one alone; so a new key can be made known before the first token is signed with
 * it, and an old one be kept until its last token has expired. A file of keys has for
 * each a line "kid: NAME" and then the key: a secret of one line, or a public key in PEM.
 * Where there is no such file, one key judges all tokens, whatever they name.
 *
 * An auth does not change: other keys are another auth. Threads: any, after
 * auth_create().
 */
#ifndef AUTH_H
#define AUTH_H

#include "app/core/config.h"
#include "app/core/model.h"
#include "base/attributes.h"
#include "base/err.h"

#define AUTH_TOKEN_BYTES_MAX  4096
#define AUTH_SECRET_BYTES_MIN 32
#define AUTH_KEYS_MAX         16
#define AUTH_ID_BYTES_MAX     64 /* of a kid, a jti */

enum auth_role { AUTH_SHOPPER, AUTH_PAYMENT, AUTH_ADMIN };

struct identity {
    int64_t user_id; /* > 0 */
    enum auth_role role;
    char jti[AUTH_ID_BYTES_MAX + 1]; /* the token's own id; "" where it has none */
};

/** "shopper", "payment", "admin"; static. */
const char *auth_role_name(enum auth_role role);

/** False: not the name of a role. */
MUST_CHECK bool auth_parse_role(struct text name, enum auth_role *ret_role);

struct auth;

/**
 * @config    read for alg, keys, issuer and audience; copied
 * @ret_auth  set on STATUS_OK; free with auth_free()
 *
 * Returns  STATUS_OK; STATUS_INVALID: `reterr` names the variable that is missing or bad,
 *          and never shows a secret
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
 * Make a token; needs the secret, or the private key. Of several keys the first signs.
 *
 * @ret_token  NUL-terminated; the caller frees it
 */
MUST_CHECK enum status auth_make(const struct auth *auth, const struct identity *identity,
                                 int64_t now_s, int64_t ttl_s, char **ret_token,
                                 struct err *reterr);

#endif
