/* auth.c - JWT by libjwt, and the checks of claims that libjwt does not make. */
#include "app/auth/auth.h"

#include "app/auth/base64.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <jwt.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEADER_BYTES_MAX 1024 /* of a token's header, decoded */

struct key {
    const char *kid; /* NULL: verifies the tokens without a kid */
    const char *text;
};

struct auth {
    char *texts;      /* the pointers below point into it */
    size_t key_count; /* the key without a name, if any, is the last */
    struct key keys[AUTH_KEYS_MAX + 1];
    struct key signer;             /* text NULL: cannot issue tokens */
    const char *issuer, *audience; /* "": any */
    jwt_alg_t alg;
    bool has_kids;
};

static const char *const role_names[] = {"shopper", "payment", "admin"};

const char *auth_role_name(enum auth_role role)
{
    return role_names[role];
}

bool auth_parse_role(struct text name, enum auth_role *ret_role)
{
    for (int role = AUTH_SHOPPER; role <= AUTH_ADMIN; role++) {
        if (strlen(role_names[role]) == name.len &&
            memcmp(role_names[role], name.bytes, name.len) == 0) {
            *ret_role = (enum auth_role)role;
            return true;
        }
    }
    return false;
}

/* -- keys -- */

/* An invalid key must stop the start, not refuse every token later. */
static bool is_public_key(const char *pem, jwt_alg_t alg)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    int wanted = alg == JWT_ALG_RS256 ? EVP_PKEY_RSA : EVP_PKEY_EC;
    bool ok = key != NULL && EVP_PKEY_base_id(key) == wanted;

    EVP_PKEY_free(key);
    BIO_free(bio);
    return ok;
}

static enum status check_key(const struct auth *auth, const char *variable,
                             const char *text, struct err *reterr)
{
    if (auth->alg == JWT_ALG_HS256 && strlen(text) < AUTH_SECRET_BYTES_MIN)
        return err_set(reterr, STATUS_INVALID,
                       "%s has a secret of %zu bytes; the minimum is %d", variable,
                       strlen(text), AUTH_SECRET_BYTES_MIN);
    if (auth->alg != JWT_ALG_HS256 && !is_public_key(text, auth->alg))
        return err_set(reterr, STATUS_INVALID,
                       "%s is not a public key (PEM) of SECKILL_JWT_ALG", variable);
    return STATUS_OK;
}

static bool is_kid_known(const struct auth *auth, const char *kid)
{
    for (size_t i = 0; i < auth->key_count; i++) {
        if (strcmp(auth->keys[i].kid, kid) == 0)
            return true;
    }
    return false;
}

/* Removes line breaks at the end. */
static void trim_end(char *text)
{
    size_t len = strlen(text);

    while (len > 0 && strchr("\r\n", text[len - 1]) != NULL)
        text[--len] = '\0';
}

/* `entry` is the NAME and the key behind it, NUL-terminated. */
static enum status add_named_key(struct auth *auth, char *entry, struct err *reterr)
{
    static const char file[] = "SECKILL_JWT_KEYS_FILE";
    char *name_end = entry + strcspn(entry, "\r\n");
    char *text = name_end + strspn(name_end, "\r\n");
    enum status status;

    *name_end = '\0';
    trim_end(text);
    if (entry[0] == '\0' || strlen(entry) > AUTH_ID_BYTES_MAX ||
        is_kid_known(auth, entry))
        return err_set(reterr, STATUS_INVALID,
                       "%s: a kid must be unique and 1 to %d bytes: \"%.64s\"", file,
                       AUTH_ID_BYTES_MAX, entry);
    if (auth->key_count == AUTH_KEYS_MAX)
        return err_set(reterr, STATUS_INVALID, "%s has more than %d keys", file,
                       AUTH_KEYS_MAX);
    status = check_key(auth, file, text, reterr);
    if (status == STATUS_OK)
        auth->keys[auth->key_count++] = (struct key){entry, text};
    return status;
}

static enum status add_named_keys(struct auth *auth, char *text, struct err *reterr)
{
    static const char mark[] = "kid: ";
    const size_t mark_len = sizeof(mark) - 1;
    enum status status = STATUS_OK;

    if (strncmp(text, mark, mark_len) != 0)
        return err_set(reterr, STATUS_INVALID,
                       "SECKILL_JWT_KEYS_FILE must begin with a line \"kid: NAME\"");
    while (status == STATUS_OK && text != NULL) {
        char *entry = text + mark_len;

        text = strstr(entry, "\nkid: ");
        if (text != NULL)
            *text++ = '\0';
        status = add_named_key(auth, entry, reterr);
    }
    return status;
}

/* Returns the end of the copy, where the next one goes. */
static char *copy_text(char *to, const char *text, const char **ret_copy)
{
    *ret_copy = to;
    return stpcpy(to, text) + 1;
}

/* The key without a name comes last: it verifies the tokens without a kid, or all tokens if
   it is the only key. */
static enum status add_keys(struct auth *auth, char *named, const char *only,
                            struct err *reterr)
{
    const char *variable = auth->alg == JWT_ALG_HS256 ? "SECKILL_JWT_SECRET (or _FILE)"
                                                      : "SECKILL_JWT_PUBLIC_KEY_FILE";
    bool can_sign = auth->signer.text != NULL;
    enum status status = STATUS_OK;

    auth->has_kids = named[0] != '\0';
    if (auth->has_kids)
        status = add_named_keys(auth, named, reterr);
    if (status == STATUS_OK && only[0] != '\0') {
        status = check_key(auth, variable, only, reterr);
        auth->keys[auth->key_count++] = (struct key){NULL, only};
    }
    /* the private key alone suffices to issue tokens */
    if (status == STATUS_OK && auth->key_count == 0 && !can_sign)
        return err_set(reterr, STATUS_INVALID,
                       "%s is not set; SECKILL_JWT_ALG requires it%s", variable,
                       auth->alg == JWT_ALG_HS256 ? ", with 32 bytes or more" : "");
    if (status == STATUS_OK && auth->alg == JWT_ALG_HS256)
        auth->signer = auth->keys[0];
    return status;
}

enum status auth_create(const struct config *config, struct auth **ret_auth,
                        struct err *reterr)
{
    static const jwt_alg_t algs[] = {JWT_ALG_HS256, JWT_ALG_RS256, JWT_ALG_ES256};
    bool is_symmetric = config->jwt_alg == CONFIG_HS256;
    const char *only = is_symmetric ? config->jwt_secret : config->jwt_public_key;
    const char *sign = is_symmetric ? "" : config->jwt_private_key;
    struct auth *auth = calloc(1, sizeof(*auth));
    enum status status = STATUS_NO_MEMORY;
    const char *named;
    char *to;

    if (auth == NULL)
        goto out;
    auth->alg = algs[config->jwt_alg];
    to = auth->texts =
        malloc(strlen(only) + strlen(sign) + strlen(config->jwt_keys) +
               strlen(config->jwt_issuer) + strlen(config->jwt_audience) + 5);
    if (to == NULL)
        goto out;
    to = copy_text(to, only, &only);
    to = copy_text(to, sign, &sign);
    to = copy_text(to, config->jwt_issuer, &auth->issuer);
    to = copy_text(to, config->jwt_audience, &auth->audience);
    copy_text(to, config->jwt_keys, &named);
    if (sign[0] != '\0')
        auth->signer.text = sign;
    status = add_keys(auth, to, only, reterr);
    if (status != STATUS_OK)
        goto out;
    *ret_auth = auth;
    auth = NULL;
out:
    auth_free(auth);
    return status;
}

void auth_free(struct auth *auth)
{
    if (auth == NULL)
        return;
    free(auth->texts);
    free(auth);
}

/* -- verifying -- */

/* Copies TOKEN from "Bearer TOKEN". False: any other form. */
static bool copy_token(struct text authorization, char token[AUTH_TOKEN_BYTES_MAX + 1])
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

/* The `kid` of the token's header; "": none. False: the header or the kid is malformed. */
static bool read_kid(const char *token, char ret_kid[AUTH_ID_BYTES_MAX + 1])
{
    char bytes[HEADER_BYTES_MAX];
    size_t len;
    json_t *header, *kid;
    bool ok;

    if (!base64_decode(token, strcspn(token, "."), bytes, sizeof(bytes), &len))
        return false;
    header = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
    kid = json_object_get(header, "kid");
    ret_kid[0] = '\0';
    ok = json_is_object(header) &&
         (kid == NULL || (json_is_string(kid) && json_string_length(kid) > 0 &&
                          json_string_length(kid) <= AUTH_ID_BYTES_MAX));
    if (ok && kid != NULL)
        stpcpy(ret_kid, json_string_value(kid));
    json_decref(header);
    return ok;
}

/* NULL: no key verifies this token. */
static const struct key *choose_key(const struct auth *auth, const char *token)
{
    char kid[AUTH_ID_BYTES_MAX + 1];

    if (!auth->has_kids)
        return auth->key_count > 0 ? &auth->keys[0] : NULL;
    if (!read_kid(token, kid))
        return NULL;
    for (size_t i = 0; i < auth->key_count; i++) {
        const char *name = auth->keys[i].kid;

        if (name == NULL ? kid[0] == '\0' : strcmp(name, kid) == 0)
            return &auth->keys[i];
    }
    return NULL;
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
        return errno == ENOENT; /* absent; a role that is not a string is refused */
    }
    return auth_parse_role((struct text){name, strlen(name)}, ret_role) &&
           *ret_role != AUTH_SHOPPER; /* shoppers have tokens without a role */
}

/* `exp` is required and must be in the future; `nbf`, if present, must not be. */
static bool is_valid_now(jwt_t *jwt, int64_t now_s)
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
    /* libjwt returns 0 if it is not a number; 1970 is no sensible value */
    return errno == 0 && not_before_s > 0 && not_before_s <= now_s;
}

/* The id by which the token can be revoked; optional. */
static bool parse_jti(jwt_t *jwt, char ret_jti[AUTH_ID_BYTES_MAX + 1])
{
    const char *jti;

    errno = 0;
    jti = jwt_get_grant(jwt, "jti");
    ret_jti[0] = '\0';
    if (jti == NULL)
        return errno == ENOENT;
    if (jti[0] == '\0' || strlen(jti) > AUTH_ID_BYTES_MAX)
        return false;
    stpcpy(ret_jti, jti);
    return true;
}

static bool is_issued_by(jwt_t *jwt, const char *wanted)
{
    const char *issuer = wanted[0] != '\0' ? jwt_get_grant(jwt, "iss") : wanted;

    return issuer != NULL && strcmp(issuer, wanted) == 0;
}

static bool is_string(const json_t *json, const char *wanted)
{
    const char *text = json_string_value(json);

    return text != NULL && strcmp(text, wanted) == 0;
}

/* `aud` is a string or an array of strings. */
static bool has_audience(jwt_t *jwt, const char *wanted)
{
    char *text = wanted[0] != '\0' ? jwt_get_grants_json(jwt, "aud") : NULL;
    json_t *audience = text != NULL ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    bool found = wanted[0] == '\0' || is_string(audience, wanted);

    for (size_t i = 0; !found && i < json_array_size(audience); i++)
        found = is_string(json_array_get(audience, i), wanted);
    json_decref(audience);
    free(text);
    return found;
}

static bool read_claims(const struct auth *auth, jwt_t *jwt, int64_t now_s,
                        struct identity *ret_identity)
{
    return is_valid_now(jwt, now_s) &&
           parse_user_id(jwt_get_grant(jwt, "sub"), &ret_identity->user_id) &&
           parse_role(jwt, &ret_identity->role) && parse_jti(jwt, ret_identity->jti) &&
           is_issued_by(jwt, auth->issuer) && has_audience(jwt, auth->audience);
}

enum status auth_check(const struct auth *auth, struct text authorization, int64_t now_s,
                       struct identity *ret_identity)
{
    char token[AUTH_TOKEN_BYTES_MAX + 1];
    struct identity identity;
    enum status status = STATUS_REFUSED;
    const struct key *key;
    jwt_t *jwt = NULL;

    if (!copy_token(authorization, token))
        return STATUS_REFUSED;
    key = choose_key(auth, token);
    if (key == NULL || jwt_decode(&jwt, token, (const unsigned char *)key->text,
                                  (int)strlen(key->text)) != 0)
        return STATUS_REFUSED;
    /* libjwt verifies with the algorithm that the token names. It must be the configured
       one, or an attacker could use the public key as HMAC secret. */
    if (jwt_get_alg(jwt) == auth->alg && read_claims(auth, jwt, now_s, &identity)) {
        *ret_identity = identity;
        status = STATUS_OK;
    }
    jwt_free(jwt);
    return status;
}

/* -- issuing -- */

static int add_optional(jwt_t *jwt, const char *name, const char *value)
{
    return value != NULL && value[0] != '\0' ? jwt_add_grant(jwt, name, value) : 0;
}

static int add_claims(const struct auth *auth, jwt_t *jwt,
                      const struct identity *identity, int64_t now_s, int64_t ttl_s)
{
    char sub[24];
    int failed;

    snprintf(sub, sizeof(sub), "%lld", (long long)identity->user_id);
    failed = jwt_add_grant(jwt, "sub", sub);
    if (!failed)
        failed = jwt_add_grant_int(jwt, "exp", (long)(now_s + ttl_s));
    if (!failed)
        failed = add_optional(jwt, "role",
                              identity->role != AUTH_SHOPPER ? role_names[identity->role]
                                                             : NULL);
    if (!failed)
        failed = add_optional(jwt, "jti", identity->jti);
    if (!failed)
        failed = add_optional(jwt, "iss", auth->issuer);
    if (!failed)
        failed = add_optional(jwt, "aud", auth->audience);
    return failed;
}

enum status auth_make(const struct auth *auth, const struct identity *identity,
                      int64_t now_s, int64_t ttl_s, char **ret_token, struct err *reterr)
{
    jwt_t *jwt = NULL;
    char *token = NULL;
    int failed;

    assert(identity->user_id > 0);
    if (auth->signer.text == NULL)
        return err_set(reterr, STATUS_INVALID,
                       "SECKILL_JWT_PRIVATE_KEY_FILE is not set; signing requires it");
    failed = jwt_new(&jwt);
    if (!failed)
        failed = jwt_set_alg(jwt, auth->alg, (const unsigned char *)auth->signer.text,
                             (int)strlen(auth->signer.text));
    if (!failed && auth->signer.kid != NULL)
        failed = jwt_add_header(jwt, "kid", auth->signer.kid);
    if (!failed)
        failed = add_claims(auth, jwt, identity, now_s, ttl_s);
    if (!failed)
        token = jwt_encode_str(jwt);
    jwt_free(jwt);
    if (token == NULL)
        return err_set(reterr, STATUS_INVALID, "signing failed: is the key valid?");
    *ret_token = token;
    return STATUS_OK;
}
