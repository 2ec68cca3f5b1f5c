/* test_jwks.c - keys from a JSON Web Key Set, and claims with other names. */
#include "app/auth/auth.h"

#include "app/auth/base64.h"
#include "app/auth/jws.h"
#include "app/test/jwt_config.h"
#include "test/case_list.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW_S   1900000000
#define GOOD    "\"sub\":\"7\",\"exp\":1900000001"
#define SET_MAX 8000

struct pair {
    enum config_alg alg;
    struct jws_key *signer;
    char first[1400], second[1400];
    char public_key[1000]; /* PEM */
};

static struct {
    struct pair rsa, other_rsa, ec;
} given;

static void print_number(const EVP_PKEY *key, const char *name, int len, char *text)
{
    unsigned char bytes[1024];
    BIGNUM *number = NULL;

    assert_int_equal(EVP_PKEY_get_bn_param(key, name, &number), 1);
    if (len == 0)
        len = BN_num_bytes(number);
    assert_int_equal(BN_bn2binpad(number, bytes, len), len);
    base64_encode(bytes, (size_t)len, text);
    BN_free(number);
}

static void make_pair(struct pair *pair, enum config_alg alg, EVP_PKEY *key)
{
    BIO *pem = BIO_new(BIO_s_mem());
    char *text;

    assert_int_equal(PEM_write_bio_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(BIO_write(pem, "", 1), 1);
    BIO_get_mem_data(pem, &text);
    pair->alg = alg;
    pair->signer = jws_key_create(alg, JWS_SIGN, text);
    assert_non_null(pair->signer);
    assert_int_equal(BIO_reset(pem), 1);
    assert_int_equal(PEM_write_bio_PUBKEY(pem, key), 1);
    assert_true(BIO_read(pem, pair->public_key, sizeof(pair->public_key) - 1) > 0);
    BIO_free(pem);
    if (alg == CONFIG_RS256) {
        print_number(key, OSSL_PKEY_PARAM_RSA_N, 0, pair->first);
        print_number(key, OSSL_PKEY_PARAM_RSA_E, 0, pair->second);
    } else {
        print_number(key, OSSL_PKEY_PARAM_EC_PUB_X, 32, pair->first);
        print_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, 32, pair->second);
    }
    EVP_PKEY_free(key);
}

static int setup(void **state UNUSED)
{
    make_pair(&given.rsa, CONFIG_RS256, EVP_RSA_gen(2048));
    make_pair(&given.other_rsa, CONFIG_RS256, EVP_RSA_gen(2048));
    make_pair(&given.ec, CONFIG_ES256, EVP_EC_gen("P-256"));
    return 0;
}

static int teardown(void **state UNUSED)
{
    jws_key_free(given.rsa.signer);
    jws_key_free(given.other_rsa.signer);
    jws_key_free(given.ec.signer);
    return 0;
}

static enum rlock_status create(enum config_alg alg, const char *set,
                                const char *user_claim, const char *role_claim,
                                struct auth **ret_auth, struct rlock_err *reterr)
{
    struct config config = jwt_config("", "");

    config.jwt_alg = alg;
    config.jwt_jwks = set;
    config.jwt_user_claim = user_claim;
    config.jwt_role_claim = role_claim;
    return auth_create(&config, ret_auth, reterr);
}

static enum rlock_status check(const struct auth *auth, const struct pair *pair,
                               const char *kid, const char *claims,
                               struct identity *ret_identity)
{
    char token[AUTH_TOKEN_BYTES_MAX], json[2000];
    unsigned char signature[JWS_SIGNATURE_BYTES_MAX];
    size_t len, signature_len;

    snprintf(json, sizeof(json), "{\"alg\":\"%s\",\"typ\":\"JWT\",\"kid\":\"%s\"}",
             jws_alg_names[pair->alg], kid);
    len = (size_t)sprintf(token, "Bearer ");
    len += base64_encode(json, strlen(json), token + len);
    token[len++] = '.';
    snprintf(json, sizeof(json), "{%s}", claims);
    len += base64_encode(json, strlen(json), token + len);
    assert_true(jws_sign(pair->signer, (struct text){token + 7, len - 7}, signature,
                         &signature_len));
    token[len++] = '.';
    len += base64_encode(signature, signature_len, token + len);
    return auth_check(auth, (struct text){token, len}, NOW_S, ret_identity);
}

/* Returns the public key as a member of a set. `more` has members that come before the numbers. */
static const char *jwk(const struct pair *pair, const char *kid, const char *more)
{
    static char texts[4][SET_MAX / 2];
    static unsigned next;
    char *text = texts[next++ % COUNT_OF(texts)];
    bool is_rsa = pair->alg == CONFIG_RS256;

    snprintf(text, sizeof(texts[0]),
             "{\"kid\":\"%s\",\"kty\":\"%s\",%s\"%s\":\"%s\",\"%s\":\"%s\"}", kid,
             is_rsa ? "RSA" : "EC", more, is_rsa ? "n" : "x", pair->first,
             is_rsa ? "e" : "y", pair->second);
    return text;
}

struct row {
    const struct pair *pair;
    const char *kid;
    enum rlock_status of_rs256, of_es256;
};

static void assert_checked(const struct auth *auth, enum config_alg alg,
                           const struct row *row)
{
    enum rlock_status wanted = alg == CONFIG_RS256 ? row->of_rs256 : row->of_es256;
    struct identity identity;
    enum rlock_status status = check(auth, row->pair, row->kid, GOOD, &identity);

    if (status != wanted)
        fail_msg("%s, kid %s of a pair for %s: expected %s, got %s", jws_alg_names[alg],
                 row->kid, jws_alg_names[row->pair->alg], rlock_status_name(wanted),
                 rlock_status_name(status));
}

/* A set as Keycloak publishes it, with keys for encryption and keys of other algorithms. */
UNIT_CASE(test_jwks__of_a_provider)
{
    static const struct row rows[] = {
        {&given.rsa, "sig", RLOCK_OK, RLOCK_REFUSED},
        {&given.ec, "ec", RLOCK_REFUSED, RLOCK_OK},
        {&given.rsa, "unknown", RLOCK_REFUSED, RLOCK_REFUSED},
        {&given.other_rsa, "enc", RLOCK_REFUSED, RLOCK_REFUSED},
        {&given.other_rsa, "sig", RLOCK_REFUSED, RLOCK_REFUSED},
    };
    char set[SET_MAX];

    snprintf(
        set, sizeof(set), "{\"keys\":[%s,%s,%s,{\"kid\":\"o\",\"kty\":\"OKP\"}]}",
        jwk(&given.other_rsa, "enc",
            "\"alg\":\"RSA-OAEP\",\"use\":\"enc\",\"x5c\":[\"MII\"],"),
        jwk(&given.rsa, "sig", "\"alg\":\"RS256\",\"use\":\"sig\",\"x5t#S256\":\"x\","),
        jwk(&given.ec, "ec", "\"use\":\"sig\",\"crv\":\"P-256\","));
    for (enum config_alg alg = CONFIG_RS256; alg <= CONFIG_ES256; alg++) {
        struct auth *auth = NULL;

        ASSERT_STATUS(create(alg, set, "sub", "role", &auth, NULL), RLOCK_OK);
        for (size_t i = 0; i < COUNT_OF(rows); i++)
            assert_checked(auth, alg, &rows[i]);
        auth_free(auth);
    }
}

/* The set has one key. If the members of the key exclude it, the set is refused. */
UNIT_CASE(test_jwks__takes_keys_that_verify)
{
    static const struct {
        const struct pair *pair;
        const char *members;
        bool is_taken;
    } rows[] = {
        {&given.rsa, "", true},
        {&given.rsa, "\"key_ops\":[\"sign\",\"verify\"],", true},
        {&given.rsa, "\"key_ops\":[\"sign\",1],", false},
        {&given.rsa, "\"key_ops\":[],", false},
        {&given.rsa, "\"use\":\"enc\",", false},
        {&given.rsa, "\"use\":1,", false},
        {&given.rsa, "\"alg\":\"RS512\",", false},
        {&given.ec, "\"crv\":\"P-256\",\"alg\":\"ES256\",", true},
        {&given.ec, "\"crv\":\"P-384\",", false},
        {&given.ec, "", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char set[SET_MAX];
        struct auth *auth = NULL;
        struct rlock_err err = {0};
        enum rlock_status status;

        snprintf(set, sizeof(set), "{\"keys\":[%s]}",
                 jwk(rows[i].pair, "k", rows[i].members));
        status = create(rows[i].pair->alg, set, "sub", "role", &auth, &err);
        if ((status == RLOCK_OK) != rows[i].is_taken)
            fail_msg("row %zu, %s: expected that the key is %s: %s", i, rows[i].members,
                     rows[i].is_taken ? "taken" : "left out", err.text);
        if (!rows[i].is_taken)
            ASSERT_CONTAINS(err.text, "no key that verifies SECKILL_JWT_ALG");
        auth_free(auth);
    }
}

UNIT_CASE(test_jwks__may_have_a_number_of_one_byte)
{
    /* the public exponent is 3 */
    struct pair pair = {.alg = CONFIG_RS256, .second = "Aw"};
    struct auth *auth = NULL;
    char set[SET_MAX];

    memcpy(pair.first, given.rsa.first, sizeof(pair.first));
    snprintf(set, sizeof(set), "{\"keys\":[%s]}", jwk(&pair, "k", ""));
    ASSERT_STATUS(create(CONFIG_RS256, set, "sub", "role", &auth, NULL), RLOCK_OK);
    auth_free(auth);
}

UNIT_CASE(test_jwks__is_refused)
{
    static const char n[] = "\"kid\":\"a\",\"kty\":\"RSA\"";
    static const char x[] = "\"kid\":\"a\",\"kty\":\"EC\",\"crv\":\"P-256\"";
    char sets[12][SET_MAX];
    const struct {
        enum config_alg alg;
        const char *words;
    } rows[] = {
        {CONFIG_RS256, "no key"}, {CONFIG_RS256, "no key"},
        {CONFIG_HS256, "no key"}, {CONFIG_RS256, "kid of key 2 must be unique"},
        {CONFIG_RS256, "kid"},    {CONFIG_RS256, "kid"},
        {CONFIG_RS256, "key 1"},  {CONFIG_RS256, "key 1"},
        {CONFIG_RS256, "key 1"},  {CONFIG_ES256, "key 1"},
        {CONFIG_ES256, "key 1"},  {CONFIG_ES256, "key 1"},
    };
    size_t i = 0;

    snprintf(sets[i++], SET_MAX, "kid: a");
    snprintf(sets[i++], SET_MAX, "[%s]", jwk(&given.rsa, "a", ""));
    snprintf(sets[i++], SET_MAX, "{\"keys\":[%s]}", jwk(&given.rsa, "a", ""));
    snprintf(sets[i++], SET_MAX, "{\"keys\":[%s,%s]}", jwk(&given.rsa, "a", ""),
             jwk(&given.other_rsa, "a", ""));
    snprintf(sets[i++], SET_MAX, "{\"keys\":[%s]}", jwk(&given.rsa, "", ""));
    snprintf(sets[i++], SET_MAX, "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"%s\"}]}",
             given.rsa.first);
    snprintf(sets[i++], SET_MAX, "{\"keys\":[{%s,\"n\":\"%s\"}]}", n, given.rsa.first);
    snprintf(sets[i++], SET_MAX, "{\"keys\":[{%s,\"n\":\"\",\"e\":\"AQAB\"}]}", n);
    snprintf(sets[i++], SET_MAX, "{\"keys\":[{%s,\"n\":\"=\",\"e\":\"AQAB\"}]}", n);
    /* one byte too many */
    snprintf(sets[i++], SET_MAX, "{\"keys\":[{%s,\"x\":\"%s\",\"y\":\"%sA\"}]}", x,
             given.ec.first, given.ec.second);
    snprintf(sets[i++], SET_MAX, "{\"keys\":[{%s,\"x\":\"%sA\",\"y\":\"%s\"}]}", x,
             given.ec.first, given.ec.second);
    snprintf(sets[i++], SET_MAX, "{\"keys\":[{%s,\"x\":\"%s\",\"y\":\"%s\"}]}", x,
             given.ec.first, given.ec.first);
    assert_int_equal(i, COUNT_OF(rows));
    for (i = 0; i < COUNT_OF(rows); i++) {
        struct auth *auth = NULL;
        struct rlock_err err = {0};

        if (create(rows[i].alg, sets[i], "sub", "role", &auth, &err) != RLOCK_INVALID ||
            err.status != RLOCK_INVALID || strstr(err.text, rows[i].words) == NULL)
            fail_msg("row %zu: expected \"%s\", got \"%s\"", i, rows[i].words, err.text);
        ASSERT_CONTAINS(err.text, "SECKILL_JWT_JWKS_FILE");
        assert_null(auth);
    }
}

/* A key without a kid does not verify a token with an unknown kid. */
UNIT_CASE(test_jwks__beside_other_keys)
{
    char set[SET_MAX];
    struct config config = jwt_config("", "");
    struct identity identity;
    struct auth *auth = NULL;

    config.jwt_alg = CONFIG_RS256;
    config.jwt_public_key = given.rsa.public_key;
    config.jwt_jwks = set;
    snprintf(set, sizeof(set), "{\"keys\":[%s]}", jwk(&given.other_rsa, "k", ""));
    ASSERT_STATUS(auth_create(&config, &auth, NULL), RLOCK_OK);
    ASSERT_STATUS(check(auth, &given.other_rsa, "k", GOOD, &identity), RLOCK_OK);
    ASSERT_STATUS(check(auth, &given.rsa, "unknown", GOOD, &identity), RLOCK_REFUSED);
    auth_free(auth);
    config.jwt_keys = "kid: a\nno key";
    ASSERT_STATUS(auth_create(&config, &auth, NULL), RLOCK_INVALID);
}

UNIT_CASE(test_claims__of_other_names)
{
    /* clang-format off */
    static const struct {
        const char *user_claim, *role_claim, *claims;
        enum rlock_status status;
        enum auth_role role;
    } rows[] = {
        {"sub", "role", "\"sub\":1", RLOCK_REFUSED, AUTH_SHOPPER},
        {"shop_id", "role", "\"sub\":\"f:1:x\",\"shop_id\":1", RLOCK_OK, AUTH_SHOPPER},
        {"shop_id", "role", "\"sub\":\"1\",\"shop_id\":\"8x\"", RLOCK_REFUSED, AUTH_SHOPPER},
        {"shop_id", "role", "\"shop_id\":0", RLOCK_REFUSED, AUTH_SHOPPER},
        {"shop_id", "role", "\"shop_id\":1.5", RLOCK_REFUSED, AUTH_SHOPPER},
        {"shop_id", "role", "\"sub\":\"1\"", RLOCK_REFUSED, AUTH_SHOPPER},
        {"a.b.c", "role", "\"a\":{\"b\":{\"c\":\"1\"}}", RLOCK_OK, AUTH_SHOPPER},
        {"a.b.c", "role", "\"a\":{\"b\":{}}", RLOCK_REFUSED, AUTH_SHOPPER},
        {"a.b.c", "role", "\"a\":1", RLOCK_REFUSED, AUTH_SHOPPER},
        {"https://shop.example/id", "role", "\"https://shop.example/id\":1", RLOCK_OK, AUTH_SHOPPER},
        {"sub", "realm_access.roles", "\"sub\":\"1\",\"realm_access\":{\"roles\":[\"offline_access\",\"admin\",1]}", RLOCK_OK, AUTH_ADMIN},
        {"sub", "realm_access.roles", "\"sub\":\"1\",\"realm_access\":{\"roles\":[\"offline_access\"]}", RLOCK_OK, AUTH_SHOPPER},
        {"sub", "realm_access.roles", "\"sub\":\"1\",\"realm_access\":{\"roles\":[\"payment\",\"payment\",\"shopper\"]}", RLOCK_OK, AUTH_PAYMENT},
        {"sub", "realm_access.roles", "\"sub\":\"1\",\"realm_access\":{\"roles\":[\"payment\",\"admin\"]}", RLOCK_REFUSED, AUTH_SHOPPER},
        {"sub", "realm_access.roles", "\"sub\":\"1\"", RLOCK_OK, AUTH_SHOPPER},
        {"sub", "roles", "\"sub\":\"1\",\"role\":\"admin\",\"roles\":\"payment\"", RLOCK_OK, AUTH_PAYMENT},
        {"sub", "roles", "\"sub\":\"1\",\"roles\":\"other\"", RLOCK_REFUSED, AUTH_SHOPPER},
    };
    /* clang-format on */
    char set[SET_MAX];

    snprintf(set, sizeof(set), "{\"keys\":[%s]}", jwk(&given.rsa, "k", ""));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char claims[400];
        struct auth *auth = NULL;
        struct identity identity = {0};
        enum rlock_status status;

        snprintf(claims, sizeof(claims), "\"exp\":1900000001,%s", rows[i].claims);
        ASSERT_STATUS(create(CONFIG_RS256, set, rows[i].user_claim, rows[i].role_claim,
                             &auth, NULL),
                      RLOCK_OK);
        status = check(auth, &given.rsa, "k", claims, &identity);
        if (status != rows[i].status ||
            (status == RLOCK_OK &&
             (identity.user_id != 1 || identity.role != rows[i].role)))
            fail_msg("row %zu, %s: expected %s as %s, got %s as %s of %lld", i,
                     rows[i].claims, rlock_status_name(rows[i].status),
                     auth_role_names[rows[i].role], rlock_status_name(status),
                     auth_role_names[identity.role], (long long)identity.user_id);
        auth_free(auth);
    }
}

/* `seckill token` must write the claims that the service reads. */
UNIT_CASE(test_claims__of_other_names_are_issued)
{
    struct config config = jwt_config("0123456789abcdef0123456789abcdef", "");
    static const struct identity made = {.user_id = 7, .role = AUTH_PAYMENT};
    char header[AUTH_TOKEN_BYTES_MAX];
    struct identity found = {0};
    struct auth *auth = NULL;
    char *token = NULL;

    config.jwt_user_claim = "shop.id";
    config.jwt_role_claim = "shop.roles";
    ASSERT_STATUS(auth_create(&config, &auth, NULL), RLOCK_OK);
    ASSERT_STATUS(auth_make(auth, &made, NOW_S, 10, &token, NULL), RLOCK_OK);
    snprintf(header, sizeof(header), "Bearer %s", token);
    ASSERT_STATUS(auth_check(auth, (struct text){header, strlen(header)}, NOW_S, &found),
                  RLOCK_OK);
    assert_int_equal(found.user_id, 7);
    assert_int_equal(found.role, AUTH_PAYMENT);
    free(token);
    auth_free(auth);
}

int main(void)
{
    return cases_run(setup, teardown);
}
