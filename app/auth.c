/* auth.c - JWT by libjwt; what a token must say before anyone is believed. */
#include "app/auth.h"

#include <assert.h>
#include <errno.h>
#include <jwt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct auth {
    const unsigned char *verify_key;
    const unsigned char *sign_key; /* NULL: cannot make tokens */
    int verify_key_len;
    int sign_key_len;
    jwt_alg_t alg;
};

static const char *const role_names[] = {NULL, "payment", "admin"};

enum status auth_create(const struct config *config, struct auth **ret_auth,
                        struct err *reterr)
{
    static const jwt_alg_t algs[] = {JWT_ALG_HS256, JWT_ALG_RS256, JWT_ALG_ES256};
    bool is_symmetric = config->jwt_alg == CONFIG_HS256;
    const char *verify = is_symmetric ? config->jwt_secret : config->jwt_public_key;
    const char *sign = is_symmetric ? config->jwt_secret : config->jwt_private_key;
    struct auth *auth;

    if (is_symmetric && strlen(verify) < AUTH_SECRET_BYTES_MIN)
        return err_set(reterr, STATUS_INVALID,
                       "SECKILL_JWT_SECRET (or _FILE) has %zu bytes; at least %d are "
                       "allowed",
                       strlen(verify), AUTH_SECRET_BYTES_MIN);
    if (!is_symmetric && verify[0] == '\0' && sign[0] == '\0')
        return err_set(
            reterr, STATUS_INVALID,
            "SECKILL_JWT_PUBLIC_KEY_FILE is not given; SECKILL_JWT_ALG demands it");
    auth = calloc(1, sizeof(*auth));
    if (auth == NULL)
        return STATUS_NO_MEMORY;
    auth->alg = algs[config->jwt_alg];
    auth->verify_key = (const unsigned char *)verify;
    auth->verify_key_len = (int)strlen(verify);
    if (sign[0] != '\0') {
        auth->sign_key = (const unsigned char *)sign;
        auth->sign_key_len = (int)strlen(sign);
    }
    *ret_auth = auth;
    return STATUS_OK;
}

void auth_free(struct auth *auth)
{
    free(auth);
}

/* "Bearer TOKEN" -> TOKEN as a string; false when it is anything else. */
static bool take_token(struct text authorization, char token[AUTH_TOKEN_BYTES_MAX + 1])
{
    static const char scheme[] = "Bearer ";
    const size_t scheme_len = sizeof(scheme) - 1;
    size_t len;

    if (authorization.len <= scheme_len ||
        strncasecmp(authorization.bytes, scheme, scheme_len) != 0)
        return false;
    len = authorization.len - scheme_len;
    if (len > AUTH_TOKEN_BYTES_MAX ||
        memchr(authorization.bytes + scheme_len, '\0', len) != NULL)
        return false;
    memcpy(token, authorization.bytes + scheme_len, len);
    token[len] = '\0';
    return true;
}

/* 1..2^63-1 in plain decimal digits, without sign, spaces or leading zeros. */
static bool parse_user_id(const char *text, int64_t *ret_user_id)
{
    int64_t id = 0;

    if (text == NULL || text[0] < '1' || text[0] > '9')
        return false;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(id, 10, &id) ||
            __builtin_add_overflow(id, *c - '0', &id))
            return false;
    }
    *ret_user_id = id;
    return true;
}

static bool parse_role(jwt_t *jwt, enum auth_role *ret_role)
{
    const char *name;

    errno = 0;
    name = jwt_get_grant(jwt, "role");
    if (name == NULL) {
        *ret_role = AUTH_SHOPPER;
        return errno == ENOENT; /* absent; a role that is no string is refused */
    }
    for (int role = AUTH_PAYMENT; role <= AUTH_ADMIN; role++) {
        if (strcmp(name, role_names[role]) == 0) {
            *ret_role = (enum auth_role)role;
            return true;
        }
    }
    return false;
}

/* `exp` must be there and lie ahead; `nbf`, where it is there, must not. */
static bool is_in_force(jwt_t *jwt, int64_t now_s)
{
    long not_before_s, expires_s;

    errno = 0;
    expires_s = jwt_get_grant_int(jwt, "exp");
    if (errno != 0 || expires_s <= now_s)
        return false;
    errno = 0;
    not_before_s = jwt_get_grant_int(jwt, "nbf");
    if (errno == ENOENT)
        return true;
    /* libjwt tells 0 for what is no number: nobody means 1970 */
    return errno == 0 && not_before_s > 0 && not_before_s <= now_s;
}

enum status auth_check(const struct auth *auth, struct text authorization, int64_t now_s,
                       struct identity *ret_identity)
{
    char token[AUTH_TOKEN_BYTES_MAX + 1];
    struct identity identity;
    enum status status = STATUS_REFUSED;
    jwt_t *jwt = NULL;

    if (!take_token(authorization, token) ||
        jwt_decode(&jwt, token, auth->verify_key, auth->verify_key_len) != 0)
        return STATUS_REFUSED;
    /* libjwt verifies by the algorithm that the token names: it must be ours, or a
       public key could be used as somebody's HMAC secret. */
    if (jwt_get_alg(jwt) == auth->alg && is_in_force(jwt, now_s) &&
        parse_user_id(jwt_get_grant(jwt, "sub"), &identity.user_id) &&
        parse_role(jwt, &identity.role)) {
        *ret_identity = identity;
        status = STATUS_OK;
    }
    jwt_free(jwt);
    return status;
}

static int add_claims(jwt_t *jwt, const struct identity *identity, int64_t now_s,
                      int64_t ttl_s)
{
    char sub[24];
    int failed;

    snprintf(sub, sizeof(sub), "%lld", (long long)identity->user_id);
    failed = jwt_add_grant(jwt, "sub", sub);
    if (!failed)
        failed = jwt_add_grant_int(jwt, "exp", (long)(now_s + ttl_s));
    if (!failed && role_names[identity->role] != NULL)
        failed = jwt_add_grant(jwt, "role", role_names[identity->role]);
    return failed;
}

enum status auth_make(const struct auth *auth, const struct identity *identity,
                      int64_t now_s, int64_t ttl_s, char **ret_token, struct err *reterr)
{
    jwt_t *jwt = NULL;
    char *token = NULL;
    int failed;

    assert(identity->user_id > 0);
    if (auth->sign_key == NULL)
        return err_set(reterr, STATUS_INVALID,
                       "SECKILL_JWT_PRIVATE_KEY_FILE is not given; it is needed to sign");
    failed = jwt_new(&jwt);
    if (!failed)
        failed = jwt_set_alg(jwt, auth->alg, auth->sign_key, auth->sign_key_len);
    if (!failed)
        failed = add_claims(jwt, identity, now_s, ttl_s);
    if (!failed)
        token = jwt_encode_str(jwt);
    jwt_free(jwt);
    if (token == NULL)
        return err_set(reterr, STATUS_INVALID, "signing failed: is the key good?");
    *ret_token = token;
    return STATUS_OK;
}
