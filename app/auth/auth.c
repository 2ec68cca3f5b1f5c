/* auth.c - finds the key of a token, and checks the signature and the claims. */
#include "app/auth/auth.h"

#include "app/auth/base64.h"
#include "app/auth/jwk.h"
#include "app/auth/jws.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct key {
    const char *kid; /* NULL: the key verifies tokens without a kid */
    struct jws_key *key;
    char *header;
};

struct auth {
    char *issuer, *audience; /* "": any */
    char *user_claim, *role_claim;
    char *names;      /* content of the key file, into which the kids of its keys point */
    json_t *jwks;     /* the key set, or NULL; the kids of its keys point into the set */
    size_t key_count; /* the last key may have no name */
    struct key keys[AUTH_KEYS_MAX + 1];
    struct key signer; /* signer.key NULL: no tokens can be issued */
    enum config_alg alg;
    bool has_kids;
};

const char *const auth_role_names[] = {"shopper", "payment", "admin", "auditor"};

bool auth_parse_role(struct text name, enum auth_role *ret_role)
{
    for (int role = AUTH_SHOPPER; role <= AUTH_AUDITOR; role++) {
        if (text_is(name, auth_role_names[role])) {
            *ret_role = (enum auth_role)role;
            return true;
        }
    }
    return false;
}

static char *print_and_free(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);

    json_decref(json);
    return text;
}

/* -- keys -- */

/* Returns the header of the tokens with this kid. Returns NULL if memory is out or the kid is not
   UTF-8. */
static char *encode_header(const struct auth *auth, const char *kid)
{
    char *json = print_and_free(json_pack(
        "{s:s, s:s, s:s*}", "alg", jws_alg_names[auth->alg], "typ", "JWT", "kid", kid));
    char *text = json != NULL ? malloc(BASE64_TEXT_BYTES(strlen(json))) : NULL;

    if (text != NULL)
        base64_encode(json, strlen(json), text);
    free(json);
    return text;
}

/* Refuses an invalid key, because otherwise every token with that key would be refused later. */
static enum rlock_status add_key(struct auth *auth, const char *variable, const char *kid,
                                 const char *text, struct rlock_err *reterr)
{
    struct jws_key *key;

    if (auth->alg == CONFIG_HS256 && strlen(text) < AUTH_SECRET_BYTES_MIN)
        return err_set(reterr, RLOCK_INVALID,
                       "%s has a secret of %zu bytes; the minimum is %d", variable,
                       strlen(text), AUTH_SECRET_BYTES_MIN);
    if (config_is_blank(text))
        return err_set(reterr, RLOCK_INVALID, "%s has a blank secret", variable);
    key = jws_key_create(auth->alg, JWS_VERIFY, text);
    if (key == NULL)
        return err_set(reterr, RLOCK_INVALID,
                       "%s is not a public key (PEM) of SECKILL_JWT_ALG", variable);
    auth->keys[auth->key_count++] = (struct key){kid, key, encode_header(auth, kid)};
    return RLOCK_OK;
}

static bool is_kid_known(const struct auth *auth, const char *kid)
{
    for (size_t i = 0; i < auth->key_count; i++) {
        if (strcmp(auth->keys[i].kid, kid) == 0)
            return true;
    }
    return false;
}

static enum rlock_status check_kid(const struct auth *auth, const char *file,
                                   const char *kid, struct rlock_err *reterr)
{
    if (kid[0] == '\0' || strlen(kid) > AUTH_ID_BYTES_MAX || is_kid_known(auth, kid))
        return err_set(reterr, RLOCK_INVALID,
                       "%s: the kid of key %zu must be unique and 1 to %d bytes", file,
                       auth->key_count + 1, AUTH_ID_BYTES_MAX);
    if (auth->key_count == AUTH_KEYS_MAX)
        return err_set(reterr, RLOCK_INVALID, "%s has more than %d keys", file,
                       AUTH_KEYS_MAX);
    return RLOCK_OK;
}

static enum rlock_status add_named_key(struct auth *auth, char *entry,
                                       struct rlock_err *reterr)
{
    static const char file[] = "SECKILL_JWT_KEYS_FILE";
    char *name_end = entry + strcspn(entry, "\r\n");
    char *text = name_end + strspn(name_end, "\r\n");

    *name_end = '\0';
    for (size_t len = strlen(text); len > 0 && strchr("\r\n", text[len - 1]) != NULL;)
        text[--len] = '\0';
    if (check_kid(auth, file, entry, reterr) != RLOCK_OK)
        return RLOCK_INVALID;
    return add_key(auth, file, entry, text, reterr);
}

static enum rlock_status add_named_keys(struct auth *auth, char *text,
                                        struct rlock_err *reterr)
{
    static const char mark[] = "kid: ";
    const size_t mark_len = sizeof(mark) - 1;
    enum rlock_status status = RLOCK_OK;

    if (strncmp(text, mark, mark_len) != 0)
        return err_set(reterr, RLOCK_INVALID,
                       "SECKILL_JWT_KEYS_FILE must begin with a line \"kid: NAME\"");
    while (status == RLOCK_OK && text != NULL) {
        char *entry = text + mark_len;

        text = strstr(entry, "\nkid: ");
        if (text != NULL)
            *text++ = '\0';
        status = add_named_key(auth, entry, reterr);
    }
    return status;
}

/* Adds the keys of the set. A key for other purposes than signatures is left out. */
static enum rlock_status add_jwks(struct auth *auth, const char *text,
                                  struct rlock_err *reterr)
{
    static const char file[] = "SECKILL_JWT_JWKS_FILE";
    const json_t *jwk;
    size_t i;

    auth->jwks = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    json_array_foreach(json_object_get(auth->jwks, "keys"), i, jwk)
    {
        const char *kid = json_string_value(json_object_get(jwk, "kid"));
        struct key key = {.kid = kid == NULL ? "" : kid};

        if (auth->alg == CONFIG_HS256 || !jwk_is_for(jwk, auth->alg))
            continue;
        if (check_kid(auth, file, key.kid, reterr) != RLOCK_OK)
            return RLOCK_INVALID;
        key.key = jwk_create_key(jwk, auth->alg);
        if (key.key == NULL)
            return err_set(reterr, RLOCK_INVALID, "%s: key %zu is not a public key", file,
                           i + 1);
        auth->keys[auth->key_count++] = key;
    }
    if (auth->key_count == 0)
        return err_set(reterr, RLOCK_INVALID,
                       "%s has no key that verifies SECKILL_JWT_ALG", file);
    return RLOCK_OK;
}

/* The key without a name comes last. It verifies the tokens without a kid. If it is the only key,
   it verifies all tokens. */
static enum rlock_status add_keys(struct auth *auth, const char *only, const char *jwks,
                                  struct rlock_err *reterr)
{
    const char *variable = auth->alg == CONFIG_HS256 ? "SECKILL_JWT_SECRET (or _FILE)"
                                                     : "SECKILL_JWT_PUBLIC_KEY_FILE";
    enum rlock_status status = RLOCK_OK;

    auth->has_kids = auth->names[0] != '\0' || jwks[0] != '\0';
    if (auth->names[0] != '\0')
        status = add_named_keys(auth, auth->names, reterr);
    if (status == RLOCK_OK && jwks[0] != '\0')
        status = add_jwks(auth, jwks, reterr);
    if (status == RLOCK_OK && only[0] != '\0')
        status = add_key(auth, variable, NULL, only, reterr);
    /* the private key alone suffices to issue tokens */
    if (status == RLOCK_OK && auth->key_count == 0 && auth->signer.key == NULL)
        return err_set(reterr, RLOCK_INVALID,
                       "%s is not set; SECKILL_JWT_ALG requires it%s", variable,
                       auth->alg == CONFIG_HS256 ? ", with 32 bytes or more" : "");
    if (auth->alg == CONFIG_HS256)
        auth->signer = auth->keys[0];
    return status;
}

static enum rlock_status read_signer(struct auth *auth, const char *pem,
                                     struct rlock_err *reterr)
{
    if (auth->alg == CONFIG_HS256 || pem[0] == '\0')
        return RLOCK_OK;
    auth->signer.key = jws_key_create(auth->alg, JWS_SIGN, pem);
    if (auth->signer.key == NULL)
        return err_set(reterr, RLOCK_INVALID,
                       "SECKILL_JWT_PRIVATE_KEY_FILE is not a private key (PEM) of"
                       " SECKILL_JWT_ALG without a passphrase");
    auth->signer.header = encode_header(auth, NULL);
    return RLOCK_OK;
}

enum rlock_status auth_create(const struct config *config, struct auth **ret_auth,
                              struct rlock_err *reterr)
{
    struct auth *auth = calloc(1, sizeof(*auth));
    enum rlock_status status = RLOCK_NO_MEMORY;

    if (auth == NULL)
        goto out;
    auth->alg = (enum config_alg)config->jwt_alg;
    auth->issuer = strdup(config->jwt_issuer);
    auth->audience = strdup(config->jwt_audience);
    auth->names = strdup(config->jwt_keys);
    auth->user_claim = strdup(config->jwt_user_claim);
    auth->role_claim = strdup(config->jwt_role_claim);
    if (auth->issuer == NULL || auth->audience == NULL || auth->names == NULL ||
        auth->user_claim == NULL || auth->role_claim == NULL)
        goto out;
    status = read_signer(auth, config->jwt_private_key, reterr);
    if (status == RLOCK_OK)
        status = add_keys(
            auth, auth->alg == CONFIG_HS256 ? config->jwt_secret : config->jwt_public_key,
            config->jwt_jwks, reterr);
    if (status != RLOCK_OK)
        goto out;
    *ret_auth = auth;
    auth = NULL;
out:
    auth_free(auth);
    return status;
}

static void clear_key(struct key *key)
{
    jws_key_free(key->key);
    free(key->header);
}

void auth_free(struct auth *auth)
{
    if (auth == NULL)
        return;
    if (auth->alg != CONFIG_HS256) /* with HS256 the signer is one of the keys */
        clear_key(&auth->signer);
    for (size_t i = 0; i < auth->key_count; i++)
        clear_key(&auth->keys[i]);
    free(auth->issuer);
    free(auth->audience);
    free(auth->user_claim);
    free(auth->role_claim);
    free(auth->names);
    json_decref(auth->jwks);
    free(auth);
}

/* -- verifying -- */

struct token {
    struct text header;
    struct text claims;
    struct text signed_text;
    struct text signature;
};

/* Splits the value of the header at its first and its last dot. Returns false if the value is not
   "Bearer" followed by a text with at least two dots. */
static bool split_token(struct text authorization, struct token *ret_token)
{
    static const char scheme[] = "Bearer ";
    const size_t scheme_len = sizeof(scheme) - 1;
    const char *begin, *end, *first, *last;

    if (authorization.len <= scheme_len ||
        authorization.len - scheme_len > AUTH_TOKEN_BYTES_MAX ||
        strncasecmp(authorization.bytes, scheme, scheme_len) != 0)
        return false;
    begin = authorization.bytes + scheme_len;
    end = authorization.bytes + authorization.len;
    first = memchr(begin, '.', (size_t)(end - begin));
    last = memrchr(begin, '.', (size_t)(end - begin));
    if (first == last)
        return false;
    *ret_token = (struct token){
        .header = {begin, (size_t)(first - begin)},
        .claims = {first + 1, (size_t)(last - first - 1)},
        .signed_text = {begin, (size_t)(last - begin)},
        .signature = {last + 1, (size_t)(end - last - 1)},
    };
    return true;
}

/* Returns RLOCK_REFUSED if the part is not JSON in base64, or if an object has a name twice.
   jansson has an error code for each error of syntax, so a missing code means RLOCK_NO_MEMORY. */
static enum rlock_status read_part(struct text part, json_t **ret_json)
{
    char bytes[AUTH_TOKEN_BYTES_MAX];
    json_error_t error = {0}; /* if memory is out, jansson may set no code */
    size_t len;

    if (!base64_decode(part.bytes, part.len, bytes, sizeof(bytes), &len))
        return RLOCK_REFUSED;
    *ret_json = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &error);
    if (*ret_json != NULL)
        return RLOCK_OK;
    return json_error_code(&error) == json_error_unknown ? RLOCK_NO_MEMORY
                                                         : RLOCK_REFUSED;
}

static struct text string_of(const json_t *json)
{
    return (struct text){json_string_value(json), json_string_length(json)};
}

static bool is_string(const json_t *json, const char *wanted)
{
    return text_is(string_of(json), wanted);
}

/* Returns NULL if no key verifies a token with this header. `crit` lists extensions that the
   receiver must understand. This receiver understands no extensions, so it refuses every header
   with `crit`. */
static const struct key *choose_key(const struct auth *auth, const json_t *header)
{
    const json_t *kid = json_object_get(header, "kid");

    if (!is_string(json_object_get(header, "alg"), jws_alg_names[auth->alg]) ||
        json_object_get(header, "crit") != NULL)
        return NULL;
    for (size_t i = 0; i < auth->key_count; i++) {
        const char *name = auth->keys[i].kid;

        if (name == NULL ? kid == NULL || !auth->has_kids : is_string(kid, name))
            return &auth->keys[i];
    }
    return NULL;
}

/* Returns the claim with this name. If there is no such claim, "a.b" is looked up as member b of
   object a. The whole name is tried first, because names of claims may be URLs, which have dots.
   Returns NULL if the claim is missing. */
static const json_t *find_claim(const json_t *claims, const char *name)
{
    const json_t *claim = json_object_get(claims, name);
    const char *dot = strchr(name, '.');

    if (claim != NULL || dot == NULL)
        return claim;
    return find_claim(json_object_getn(claims, name, (size_t)(dot - name)), dot + 1);
}

/* A provider may write the user's id as a number. But `sub` is always a string (RFC 7519, section
   4.1.2). */
static bool parse_user(const struct auth *auth, const json_t *claims, int64_t *ret_id)
{
    const json_t *user = find_claim(claims, auth->user_claim);

    if (!json_is_integer(user) || strcmp(auth->user_claim, "sub") == 0)
        return text_parse_id(string_of(user), ret_id);
    *ret_id = json_integer_value(user);
    return *ret_id > 0;
}

/* The list may also have roles of other services. Returns false if the list has two roles of this
   service, because it is then unclear what the token permits. */
static bool parse_roles(const json_t *roles, enum auth_role *ret_role)
{
    const json_t *role;
    size_t i;

    json_array_foreach(roles, i, role)
    {
        enum auth_role found;

        if (!auth_parse_role(string_of(role), &found) || found == AUTH_SHOPPER ||
            found == *ret_role)
            continue;
        if (*ret_role != AUTH_SHOPPER)
            return false;
        *ret_role = found;
    }
    return true;
}

static bool parse_role(const json_t *role, enum auth_role *ret_role)
{
    *ret_role = AUTH_SHOPPER;
    if (role == NULL)
        return true;
    if (json_is_array(role))
        return parse_roles(role, ret_role);
    return auth_parse_role(string_of(role), ret_role) &&
           *ret_role != AUTH_SHOPPER; /* shoppers have tokens without a role */
}

/* Reads the id by which the token can be revoked. `ret_jti` is "" before the call, and stays "" for
   a token without an id. */
static bool parse_jti(const json_t *jti, char ret_jti[AUTH_ID_BYTES_MAX + 1])
{
    struct text id = string_of(jti);

    if (id.len > 0 && id.len <= AUTH_ID_BYTES_MAX)
        memcpy(ret_jti, id.bytes, id.len + 1);
    return jti == NULL || ret_jti[0] != '\0';
}

/* `exp` is required, and must be in the future. If `nbf` is present, it must not be in the future.
   Both may be fractional. */
static bool is_valid_now(const json_t *expires, const json_t *not_before, int64_t now_s)
{
    double now = (double)now_s;

    return json_is_number(expires) && json_number_value(expires) > now &&
           (not_before == NULL ||
            (json_is_number(not_before) && json_number_value(not_before) <= now));
}

static bool has_audience(const json_t *audience, const char *wanted)
{
    bool found = wanted[0] == '\0' || is_string(audience, wanted);
    const json_t *one;
    size_t i;

    json_array_foreach(audience, i, one)
    {
        found = found || is_string(one, wanted);
    }
    return found;
}

static bool read_claims(const struct auth *auth, const json_t *claims, int64_t now_s,
                        struct identity *ret_identity)
{
    return is_valid_now(json_object_get(claims, "exp"), json_object_get(claims, "nbf"),
                        now_s) &&
           parse_user(auth, claims, &ret_identity->user_id) &&
           parse_role(find_claim(claims, auth->role_claim), &ret_identity->role) &&
           parse_jti(json_object_get(claims, "jti"), ret_identity->jti) &&
           (auth->issuer[0] == '\0' ||
            is_string(json_object_get(claims, "iss"), auth->issuer)) &&
           has_audience(json_object_get(claims, "aud"), auth->audience);
}

/* Most libraries write the header for HS256 in the same bytes as auth_make(). Such a header is only
   compared, which is faster. Other headers are parsed. */
static enum rlock_status find_key(const struct auth *auth, struct text text,
                                  const struct key **ret_key)
{
    json_t *header = NULL;
    enum rlock_status status;

    for (*ret_key = auth->keys; *ret_key < auth->keys + auth->key_count; ++*ret_key) {
        if ((*ret_key)->header != NULL && text_is(text, (*ret_key)->header))
            return RLOCK_OK;
    }
    status = read_part(text, &header);
    *ret_key = status == RLOCK_OK ? choose_key(auth, header) : NULL;
    json_decref(header);
    return status == RLOCK_OK && *ret_key == NULL ? RLOCK_REFUSED : status;
}

static enum rlock_status check_signature(const struct key *key, const struct token *token)
{
    char signature[JWS_SIGNATURE_BYTES_MAX];
    size_t len;

    if (!base64_decode(token->signature.bytes, token->signature.len, signature,
                       sizeof(signature), &len))
        return RLOCK_REFUSED;
    return jws_verify(key->key, token->signed_text, (struct text){signature, len});
}

/* The claims are read only if the signature is valid. */
static enum rlock_status check_token(const struct auth *auth, const struct token *token,
                                     int64_t now_s, struct identity *ret_identity)
{
    const struct key *key;
    json_t *claims = NULL;
    enum rlock_status status = find_key(auth, token->header, &key);

    if (status == RLOCK_OK)
        status = check_signature(key, token);
    if (status == RLOCK_OK)
        status = read_part(token->claims, &claims);
    if (status == RLOCK_OK && !read_claims(auth, claims, now_s, ret_identity))
        status = RLOCK_REFUSED;
    json_decref(claims);
    return status;
}

enum rlock_status auth_check(const struct auth *auth, struct text authorization,
                             int64_t now_s, struct identity *ret_identity)
{
    struct identity identity = {.jti = ""};
    struct token token;
    enum rlock_status status = RLOCK_REFUSED;

    if (split_token(authorization, &token))
        status = check_token(auth, &token, now_s, &identity);
    if (status == RLOCK_OK)
        *ret_identity = identity;
    return status;
}

/* -- issuing -- */

static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static char *print_claims(const struct auth *auth, const struct identity *identity,
                          int64_t expires_s)
{
    const char *role =
        identity->role != AUTH_SHOPPER ? auth_role_names[identity->role] : NULL;
    char sub[24];

    snprintf(sub, sizeof(sub), "%lld", (long long)identity->user_id);
    return print_and_free(json_pack(
        "{s:s, s:I, s:s*, s:s*, s:s*, s:s*}", auth->user_claim, sub, "exp",
        (json_int_t)expires_s, auth->role_claim, role, "jti", or_null(identity->jti),
        "iss", or_null(auth->issuer), "aud", or_null(auth->audience)));
}

static char *join_token(const struct key *signer, const char *claims)
{
    unsigned char signature[JWS_SIGNATURE_BYTES_MAX];
    char *token = malloc(strlen(signer->header) + 1 + BASE64_TEXT_BYTES(strlen(claims)) +
                         BASE64_TEXT_BYTES(sizeof(signature)));
    size_t len, signature_len;

    if (token == NULL)
        return NULL;
    len = (size_t)sprintf(token, "%s.", signer->header);
    len += base64_encode(claims, strlen(claims), token + len);
    if (!jws_sign(signer->key, (struct text){token, len}, signature, &signature_len)) {
        free(token);
        return NULL;
    }
    token[len++] = '.';
    base64_encode(signature, signature_len, token + len);
    return token;
}

enum rlock_status auth_make(const struct auth *auth, const struct identity *identity,
                            int64_t now_s, int64_t ttl_s, char **ret_token,
                            struct rlock_err *reterr)
{
    char *claims, *token = NULL;

    assert(identity->user_id > 0);
    if (auth->signer.key == NULL)
        return err_set(reterr, RLOCK_INVALID,
                       "SECKILL_JWT_PRIVATE_KEY_FILE is not set; signing requires it");
    claims = print_claims(auth, identity, now_s + ttl_s);
    if (claims != NULL && auth->signer.header != NULL)
        token = join_token(&auth->signer, claims);
    free(claims);
    if (token == NULL)
        return err_set(reterr, RLOCK_NO_MEMORY, "signing failed");
    *ret_token = token;
    return RLOCK_OK;
}
