/* test_auth.c - valid and invalid tokens, with an injected clock. */
#include "app/auth/auth.h"

#include "app/auth/base64.h"
#include "app/auth/jws.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <jansson.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HS256  "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"
#define NOW_S  1900000000
#define SECRET "0123456789abcdef0123456789abcdef"
#define EXP    "\"sub\":\"1\",\"exp\":"
#define SUB    "\"exp\":1900000001,\"sub\":"
#define GOOD   EXP "1900000001"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define OLD "an old secret, kept while its tokens last"
#define NEW "a new secret, which signs from now on ..."

static struct config config_of(const char *secret, const char *keys)
{
    return (struct config){.jwt_secret = secret,
                           .jwt_public_key = "",
                           .jwt_private_key = "",
                           .jwt_keys = keys,
                           .jwt_issuer = "",
                           .jwt_audience = "",
                           .jwt_jwks = "",
                           .jwt_user_claim = "sub",
                           .jwt_role_claim = "role"};
}

static enum rlock_status create_with(enum config_alg alg, const char *private_key,
                                     const char *public_key, struct auth **ret_auth)
{
    struct config config = config_of("", "");

    config.jwt_alg = alg;
    config.jwt_private_key = private_key;
    config.jwt_public_key = public_key;
    return auth_create(&config, ret_auth, NULL);
}

static int create(void **state)
{
    struct config config = config_of(SECRET, "");

    struct rlock_err err = {0};

    if (auth_create(&config, (struct auth **)state, &err) != RLOCK_OK)
        print_error("auth_create() with a secret: %s\n", err.text);
    return err.status == RLOCK_OK ? 0 : -1;
}

static int destroy(void **state)
{
    auth_free(*state);
    return 0;
}

static size_t encode(const char *json, char *to)
{
    return base64_encode(json, strlen(json), to);
}

/* Returns the value of an Authorization header. Its token has these parts, which may be malformed.
   The caller frees the text. */
static char *sign_by(const EVP_MD *digest, const char *secret, const char *header,
                     const char *claims)
{
    static const char scheme[] = "Bearer ";
    const size_t begin = sizeof(scheme) - 1;
    char *text = malloc(AUTH_TOKEN_BYTES_MAX + 100);
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_len = 0;
    size_t len = (size_t)sprintf(text, "%s", scheme);

    len += encode(header, text + len);
    text[len++] = '.';
    len += encode(claims, text + len);
    if (digest != NULL)
        HMAC(digest, secret, (int)strlen(secret), (unsigned char *)text + begin,
             len - begin, mac, &mac_len);
    text[len++] = '.';
    base64_encode(mac, mac_len, text + len);
    return text;
}

static char *sign(const char *secret, const char *header, const char *claims)
{
    return sign_by(EVP_sha256(), secret, header, claims);
}

static enum rlock_status check(const struct auth *auth, const char *header,
                               struct identity *ret_identity)
{
    return auth_check(auth, (struct text){header, strlen(header)}, NOW_S, ret_identity);
}

static void assert_signed(const struct auth *auth, const char *secret, const char *header,
                          const char *claims, enum rlock_status wanted)
{
    char *value = sign(secret, header, claims);
    struct identity identity;
    enum rlock_status status = check(auth, value, &identity);

    free(value);
    if (status != wanted)
        fail_msg("%s %s: expected %s, got %s", header, claims, rlock_status_name(wanted),
                 rlock_status_name(status));
}

static void assert_checked(const struct auth *auth, const char *header,
                           const char *claims, enum rlock_status wanted)
{
    char braced[400];

    snprintf(braced, sizeof(braced), "{%s}", claims);
    assert_signed(auth, SECRET, header, braced, wanted);
}

/* Makes a token with one object, and checks it with another. The caller frees the token. */
static char *assert_made(const struct auth *maker, const struct auth *judge,
                         const struct identity *made)
{
    char header[2 * AUTH_TOKEN_BYTES_MAX];
    struct identity found = {0};
    char *token;

    ASSERT_STATUS(auth_make(maker, made, NOW_S, 10, &token, NULL), RLOCK_OK);
    snprintf(header, sizeof(header), "bearer %s", token);
    ASSERT_STATUS(check(judge, header, &found), RLOCK_OK);
    assert_int_equal(found.user_id, made->user_id);
    assert_int_equal(found.role, made->role);
    assert_string_equal(found.jti, made->jti);
    return token;
}

UNIT_CASE(test_auth_check__accepts_tokens_of_auth_make)
{
    static const struct identity rows[] = {{INT64_MAX, AUTH_SHOPPER, ""},
                                           {INT64_MAX - 1, AUTH_PAYMENT, "t-1"},
                                           {2, AUTH_SHOPPER, "j"},
                                           {1, AUTH_ADMIN, ""},
                                           {2, AUTH_AUDITOR, "t-2"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        free(assert_made(*state, *state, &rows[i]));
}

/* The time of the checks is NOW_S. A token has expired if the time is not before exp, and is valid
   from nbf on. */
UNIT_CASE(test_auth_check__requires_the_claims)
{
    /* clang-format off */
    static const struct {
        /* the claims of the token; GOOD stands for the required claims */
        const char *claims;
        enum rlock_status status;
    } rows[] = {
        {GOOD, RLOCK_OK},
        {GOOD ",\"nbf\":1900000000", RLOCK_OK},
        {GOOD ",\"nbf\":1900000001", RLOCK_REFUSED},
        {GOOD ",\"nbf\":1899999999.9", RLOCK_OK},
        {GOOD ",\"nbf\":1900000000.0", RLOCK_OK},
        {GOOD ",\"nbf\":1900000000.5", RLOCK_REFUSED},
        {GOOD ",\"nbf\":\"soon\"", RLOCK_REFUSED},
        {GOOD ",\"role\":\"payment\"", RLOCK_OK},
        {GOOD ",\"role\":\"auditor\"", RLOCK_OK},
        {GOOD ",\"role\":\"root\"", RLOCK_REFUSED},
        {GOOD ",\"role\":\"shopper\"", RLOCK_REFUSED},
        {GOOD ",\"role\":1", RLOCK_REFUSED},
        {GOOD ",\"role\":null", RLOCK_REFUSED},
        {GOOD ",\"jti\":\"a\"", RLOCK_OK},
        {GOOD ",\"jti\":\"\"", RLOCK_REFUSED},
        {GOOD ",\"jti\":5", RLOCK_REFUSED},
        {GOOD ",\"jti\":\"0123456789012345678901234567890123456789012345678901234567890123\"", RLOCK_OK},
        {GOOD ",\"jti\":\"01234567890123456789012345678901234567890123456789012345678901234\"", RLOCK_REFUSED},
        {GOOD ",\"iss\":5,\"aud\":5", RLOCK_OK},
        {EXP "1900000000", RLOCK_REFUSED},
        {EXP "\"1900000001\"", RLOCK_REFUSED},
        {EXP "1900000000.5", RLOCK_OK},
        {EXP "1900000000.0", RLOCK_REFUSED},
        {EXP "1899999999.9", RLOCK_REFUSED},
        {EXP "1.9000000005e9", RLOCK_OK},
        {EXP "1.9e9", RLOCK_REFUSED},
        {EXP "-1900000001.5", RLOCK_REFUSED},
        {EXP "1e999", RLOCK_REFUSED},
        {EXP "99999999999999999999", RLOCK_REFUSED},
        {EXP "[1900000001.5]", RLOCK_REFUSED},
        {EXP "true", RLOCK_REFUSED},
        {"\"sub\":\"1\"", RLOCK_REFUSED},
        {"\"exp\":1900000001", RLOCK_REFUSED},
        {SUB "1", RLOCK_REFUSED},
        {SUB "\"9223372036854775807\"", RLOCK_OK},
        {SUB "\"9223372036854775808\"", RLOCK_REFUSED},
        {SUB "\"0\"", RLOCK_REFUSED},
        {SUB "\"-1\"", RLOCK_REFUSED},
        {SUB "\"01\"", RLOCK_REFUSED},
        {SUB "\" 1\"", RLOCK_REFUSED},
        {SUB "\"1.0\"", RLOCK_REFUSED},
        {SUB "\"\"", RLOCK_REFUSED},
        /* two members have the same name, or more follows the object */
        {GOOD ",\"sub\":\"2\"", RLOCK_REFUSED},
        {"\"sub\":\"1\",\"exp\":1,\"exp\":1900000001", RLOCK_REFUSED},
        {GOOD ",\"role\":\"admin\",\"role\":\"payment\"", RLOCK_REFUSED},
        {GOOD ",\"x\":{\"y\":1,\"y\":2}", RLOCK_REFUSED},
        {GOOD "} {", RLOCK_REFUSED},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_checked(*state, HS256, rows[i].claims, rows[i].status);
}

UNIT_CASE(test_auth_check__reads_the_header)
{
    /* clang-format off */
    static const struct {
        const char *header;
        enum rlock_status status;
    } rows[] = {
        {HS256, RLOCK_OK},
        {"{\"alg\":\"HS256\",\"typ\":\"JWT\",\"x\":1}", RLOCK_OK},
        {"{\"alg\":\"HS256\",\"alg\":\"HS256\"}", RLOCK_REFUSED},
        {"{\"alg\":\"none\",\"alg\":\"HS256\"}", RLOCK_REFUSED},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"kid\":\"b\"}", RLOCK_REFUSED},
        {"{\"alg\":\"HS256\",\"kid\":\"of the only key\"}", RLOCK_OK},
        {"{\"alg\":\"HS256\",\"crit\":[\"exp\"]}", RLOCK_REFUSED},
        {"{\"alg\":\"HS256\",\"crit\":[\"b64\"],\"b64\":true}", RLOCK_REFUSED},
        {"{\"alg\":\"HS256\",\"crit\":[]}", RLOCK_REFUSED},
        {"{\"alg\":\"HS256\",\"crit\":null}", RLOCK_REFUSED},
        {"{\"alg\":\"hs256\"}", RLOCK_REFUSED},
        {"{\"alg\":\"Hs256\"}", RLOCK_REFUSED},
        {"{\"alg\":\"HS256 \"}", RLOCK_REFUSED},
        {"{\"alg\":[\"HS256\"]}", RLOCK_REFUSED},
        {"{\"typ\":\"JWT\"}", RLOCK_REFUSED},
        {"[\"alg\"]", RLOCK_REFUSED},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_checked(*state, rows[i].header, GOOD, rows[i].status);
    assert_signed(*state, SECRET, HS256, "[\"sub\"]", RLOCK_REFUSED);
}

UNIT_CASE(test_auth_check__other_keys_and_algorithms)
{
    static const char claims[] = "{" GOOD "}";
    char *rows[] = {
        sign("another-secret-of-32-bytes-or-so", HS256, claims),
        sign_by(EVP_sha384(), SECRET, "{\"alg\":\"HS384\"}", claims),
        sign_by(EVP_sha512(), SECRET, "{\"alg\":\"HS512\"}", claims),
        sign_by(EVP_sha512(), SECRET, HS256, claims),
        sign_by(NULL, SECRET, "{\"alg\":\"none\"}", claims),
        sign_by(NULL, SECRET, HS256, claims),
    };
    struct identity identity;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ASSERT_STATUS(check(*state, rows[i], &identity), RLOCK_REFUSED);
        free(rows[i]);
    }
}

UNIT_CASE(test_auth_check__broken_headers)
{
    char *good = sign(SECRET, HS256, "{" GOOD "}");
    struct identity identity;
    char text[AUTH_TOKEN_BYTES_MAX + 100];

    assert_int_equal(check(*state, good, &identity), RLOCK_OK);
    for (size_t len = 0; len < strlen(good); len++) {
        struct text cut = {good, len};

        assert_int_equal(auth_check(*state, cut, NOW_S, &identity), RLOCK_REFUSED);
    }
    for (size_t at = strlen("Bearer "); at < strlen(good) - 1; at += 3) {
        char kept = good[at];

        good[at] = kept == 'A' ? 'B' : 'A';
        assert_int_equal(check(*state, good, &identity), RLOCK_REFUSED);
        good[at] = kept;
    }
    assert_int_equal(check(*state, "Bearer ?.a.a", &identity), RLOCK_REFUSED);
    assert_int_equal(check(*state, "Basic YTpi", &identity), RLOCK_REFUSED);
    snprintf(text, sizeof(text), "Digest %s", good + strlen("Bearer "));
    assert_int_equal(check(*state, text, &identity), RLOCK_REFUSED);
    memset(text, 'a', sizeof(text) - 1);
    memcpy(text, "Bearer ", strlen("Bearer "));
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(check(*state, text, &identity), RLOCK_REFUSED);
    free(good);
}

UNIT_CASE(test_auth_check__accepts_up_to_the_longest_token)
{
    static const size_t longest = sizeof("Bearer ") - 1 + AUTH_TOKEN_BYTES_MAX;
    struct identity identity;
    size_t len = 0;

    for (int pad = 2900; len <= longest; pad++) {
        char claims[AUTH_TOKEN_BYTES_MAX], *value;
        enum rlock_status wanted;

        snprintf(claims, sizeof(claims),
                 "{\"sub\":\"1\",\"exp\":1900000001,\"x\":\"%*s\"}", pad, "");
        value = sign(SECRET, HS256, claims);
        len = strlen(value);
        wanted = len <= longest ? RLOCK_OK : RLOCK_REFUSED;
        if (check(*state, value, &identity) != wanted)
            fail_msg("%zu bytes: expected %s", len, rlock_status_name(wanted));
        free(value);
    }
}

/* -- several keys -- */

UNIT_CASE(test_auth_check__uses_the_key_that_the_token_names)
{
    static const struct {
        const char *kid;
        const char *secret;
        enum rlock_status status;
        enum rlock_status status_with_only; /* if SECKILL_JWT_SECRET is set, too */
    } rows[] = {
        {",\"kid\":\"new\"", NEW, RLOCK_OK, RLOCK_OK},
        {",\"kid\":\"2026-01\"", OLD, RLOCK_OK, RLOCK_OK},
        {",\"kid\":\"new\"", OLD, RLOCK_REFUSED, RLOCK_REFUSED},
        {",\"kid\":\"2026-01\"", NEW, RLOCK_REFUSED, RLOCK_REFUSED},
        {",\"kid\":\"other\"", NEW, RLOCK_REFUSED, RLOCK_REFUSED},
        {",\"kid\":\"other\"", SECRET, RLOCK_REFUSED, RLOCK_REFUSED},
        {",\"kid\":\"\"", SECRET, RLOCK_REFUSED, RLOCK_REFUSED},
        {",\"kid\":7", NEW, RLOCK_REFUSED, RLOCK_REFUSED},
        {",\"kid\":null", SECRET, RLOCK_REFUSED, RLOCK_REFUSED},
        {"", NEW, RLOCK_REFUSED, RLOCK_REFUSED},
        {"", SECRET, RLOCK_REFUSED, RLOCK_OK},
    };
    static const char keys[] = "kid: new\n" NEW "\nkid: 2026-01\r\n" OLD "\r\n";
    struct config with_file = config_of("", keys), with_both = config_of(SECRET, keys);
    struct auth *named = NULL, *both = NULL;

    assert_int_equal(auth_create(&with_file, &named, NULL), RLOCK_OK);
    assert_int_equal(auth_create(&with_both, &both, NULL), RLOCK_OK);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[100];

        snprintf(json, sizeof(json), "{\"alg\":\"HS256\"%s}", rows[i].kid);
        assert_signed(named, rows[i].secret, json, "{" GOOD "}", rows[i].status);
        assert_signed(both, rows[i].secret, json, "{" GOOD "}", rows[i].status_with_only);
    }
    auth_free(named);
    auth_free(both);
}

UNIT_CASE(test_auth_make__signs_with_the_first_key)
{
    static const char header_json[] =
        "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"new\"}";
    static const struct identity made = {.user_id = 3, .role = AUTH_ADMIN, .jti = "t-1"};
    struct config all = config_of(SECRET, "kid: new\n" NEW "\nkid: old\n" OLD);
    struct config first = config_of("", "kid: new\n" NEW);
    struct auth *maker = NULL, *judge = NULL;
    char header[100];
    char *token;

    all.jwt_private_key = "not read with HS256";
    ASSERT_STATUS(auth_create(&all, &maker, NULL), RLOCK_OK);
    ASSERT_STATUS(auth_create(&first, &judge, NULL), RLOCK_OK);
    token = assert_made(maker, judge, &made);
    header[encode(header_json, header)] = '\0';
    ASSERT_CONTAINS(token, header);
    free(token);
    auth_free(maker);
    auth_free(judge);
}

struct pair {
    char *private_key, *public_key; /* in PEM format */
    char *locked;                   /* the private key, encrypted with a passphrase */
};

static char *text_of(BIO *bio)
{
    char *text, *copy;
    long len = BIO_get_mem_data(bio, &text);

    copy = strndup(text, (size_t)len);
    BIO_free(bio);
    return copy;
}

static struct pair new_pair(EVP_PKEY *key)
{
    BIO *private_key = BIO_new(BIO_s_mem()), *public_key = BIO_new(BIO_s_mem());
    BIO *locked = BIO_new(BIO_s_mem());
    static const char passphrase[] = "passphrase";

    PEM_write_bio_PrivateKey(private_key, key, NULL, NULL, 0, NULL, NULL);
    PEM_write_bio_PrivateKey(locked, key, EVP_aes_128_cbc(),
                             (const unsigned char *)passphrase, sizeof(passphrase) - 1,
                             NULL, NULL);
    PEM_write_bio_PUBKEY(public_key, key);
    EVP_PKEY_free(key);
    return (struct pair){text_of(private_key), text_of(public_key), text_of(locked)};
}

static void pair_free(struct pair *pair)
{
    free(pair->private_key);
    free(pair->public_key);
    free(pair->locked);
}

static void check_pair(enum config_alg alg, const struct pair *pair)
{
    static const struct identity made = {.user_id = 3};
    struct auth *auth = NULL;
    struct identity found;

    ASSERT_STATUS(create_with(alg, pair->private_key, pair->public_key, &auth), RLOCK_OK);
    for (int i = 0; i < 50; i++) { /* some numbers in signatures begin with zeros */
        char header[AUTH_TOKEN_BYTES_MAX];
        char *token = assert_made(auth, auth, &made);

        if (alg == CONFIG_ES256) /* 64 bytes, see RFC 7518 */
            assert_int_equal(strlen(strrchr(token, '.') + 1), 86);
        /* The signature is one byte too long. */
        snprintf(header, sizeof(header), "Bearer %sA", token);
        ASSERT_STATUS(check(auth, header, &found), RLOCK_REFUSED);
        memcpy(strrchr(header, '.'), ".AAAA", sizeof(".AAAA"));
        ASSERT_STATUS(check(auth, header, &found), RLOCK_REFUSED);
        *strrchr(header, '.') = '\0';
        ASSERT_STATUS(check(auth, header, &found), RLOCK_REFUSED);
        free(token);
    }
    /* The public key must not be accepted as a secret. */
    assert_signed(auth, pair->public_key, HS256, "{" GOOD "}", RLOCK_REFUSED);
    auth_free(auth);
    auth = NULL;
    ASSERT_STATUS(create_with(alg, pair->locked, pair->public_key, &auth), RLOCK_INVALID);
    ASSERT_STATUS(create_with(alg, "", pair->public_key, &auth), RLOCK_OK);
    ASSERT_STATUS(auth_make(auth, &made, NOW_S, 10, NULL, NULL), RLOCK_INVALID);
    auth_free(auth);
    ASSERT_STATUS(create_with(alg, pair->private_key, "", &auth),
                  RLOCK_OK); /* this object can only sign */
    auth_free(auth);
}

UNIT_CASE(test_auth_make__key_pairs)
{
    struct pair rsa = new_pair(EVP_RSA_gen(2048)), ec = new_pair(EVP_EC_gen("P-256")),
                p384 = new_pair(EVP_EC_gen("P-384"));
    const struct {
        enum config_alg alg;
        const char *private_key, *public_key;
    } rows[] = {
        {CONFIG_RS256, "", ec.public_key},
        {CONFIG_RS256, ec.private_key, rsa.public_key},
        {CONFIG_RS256, rsa.public_key, rsa.public_key},
        {CONFIG_ES256, "", rsa.public_key},
        {CONFIG_ES256, "", p384.public_key},
        {CONFIG_ES256, p384.private_key, ec.public_key},
    };
    struct auth *auth = NULL;

    check_pair(CONFIG_RS256, &rsa);
    check_pair(CONFIG_ES256, &ec);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (create_with(rows[i].alg, rows[i].private_key, rows[i].public_key, &auth) !=
            RLOCK_INVALID)
            fail_msg("row %zu: expected that the keys are refused", i);
    pair_free(&rsa);
    pair_free(&ec);
    pair_free(&p384);
}

/* -- signatures of others -- */

#define RFC_CLAIMS                                                                       \
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb2" \
    "90Ijp0cnVlfQ"

/* The examples in appendices A.2 and A.3 of RFC 7515. */
UNIT_CASE(test_jws_verify__the_examples_of_the_rfc)
{
    /* clang-format off */
    static const struct {
        enum config_alg alg;
        const char *key, *text, *signature;
    } rows[] = {
        {CONFIG_RS256,
         "-----BEGIN PUBLIC KEY-----\n"
         "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAofgWCuLjybRlzo0tZWJj\n"
         "NiuSfb4p4fAkd/wWJcyQoTbji9k0l8W26mPddxHmfHQp+Vaw+4qPCJrcS2mJPMEz\n"
         "P1Pt0Bm4d4QlL+yRT+SFd2lZS+pCgNMsD1W/YpRPEwOWvG6b32690r2jZ47soMZo\n"
         "9wGzjb/7OMg0LOL+bSf63kpaSHSXndS5z5rexMdbBYUsLA9e+KXBdQOS+UTo7WTB\n"
         "EMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6/I5IhlJH7aGhyxX\n"
         "FvUK+DWNmoudF8NAco9/h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXp\n"
         "oQIDAQAB\n"
         "-----END PUBLIC KEY-----\n",
         "eyJhbGciOiJSUzI1NiJ9." RFC_CLAIMS,
         "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdb"
         "F9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383"
         "LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWy"
         "wlVmtVrBp0igcN_IoypGlUPQGe77Rw"},
        {CONFIG_ES256,
         "-----BEGIN PUBLIC KEY-----\n"
         "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
         "6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
         "-----END PUBLIC KEY-----\n",
         "eyJhbGciOiJFUzI1NiJ9." RFC_CLAIMS,
         "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct jws_key *key = jws_key_create(rows[i].alg, JWS_VERIFY, rows[i].key);
        struct text text = {rows[i].text, strlen(rows[i].text)};
        char signature[JWS_SIGNATURE_BYTES_MAX];
        size_t len = 0;

        assert_true(base64_decode(rows[i].signature, strlen(rows[i].signature), signature,
                                  sizeof(signature), &len));
        ASSERT_STATUS(jws_verify(key, text, (struct text){signature, len}), RLOCK_OK);
        text.len--;
        ASSERT_STATUS(jws_verify(key, text, (struct text){signature, len}),
                      RLOCK_REFUSED);
        jws_key_free(key);
    }
}

/* HMAC hashes a secret first if it is longer than a block of SHA-256. */
UNIT_CASE(test_auth_check__secrets_of_any_length)
{
    char secret[100] = "";

    for (size_t len = 32; len < sizeof(secret); len++) {
        struct config config = config_of(secret, "");
        struct auth *auth = NULL;

        memset(secret, 'x', len);
        ASSERT_STATUS(auth_create(&config, &auth, NULL), RLOCK_OK);
        assert_signed(auth, secret, HS256, "{" GOOD "}", RLOCK_OK);
        auth_free(auth);
    }
}

UNIT_CASE(test_auth_parse_role__knows_each_role)
{
    for (int wanted = AUTH_SHOPPER; wanted <= AUTH_ADMIN; wanted++) {
        const char *name = auth_role_names[wanted];
        enum auth_role role = AUTH_ADMIN;

        assert_true(auth_parse_role((struct text){name, strlen(name)}, &role));
        assert_int_equal(role, wanted);
        assert_false(auth_parse_role((struct text){name, strlen(name) - 1}, &role));
    }
}

/* -- without memory -- */

static int fails_at; /* which allocation of OpenSSL fails, from 1 on; 0: none */

static bool fails(void)
{
    return fails_at > 0 && --fails_at == 0;
}

static void *openssl_malloc(size_t size, const char *file UNUSED, int line UNUSED)
{
    return fails() ? NULL : malloc(size);
}

static void *openssl_realloc(void *memory, size_t size, const char *file UNUSED,
                             int line UNUSED)
{
    return fails() ? NULL : realloc(memory, size);
}

static void openssl_free(void *memory, const char *file UNUSED, int line UNUSED)
{
    free(memory);
}

#define BYTES(array, count)                                                              \
    (struct text)                                                                        \
    {                                                                                    \
        (const char *)(array), count                                                     \
    }

/* Fails allocation n of a verification. Returns whether there were n allocations. The first five
   allocations are for the numbers of the signature. */
static bool verify_without(int n, const struct jws_key *key, struct text signature,
                           bool is_good)
{
    struct text text = BYTES("text", 4);
    enum rlock_status status;
    bool is_reached;

    fails_at = n;
    status = jws_verify(key, text, signature);
    is_reached = fails_at == 0;
    fails_at = 0;
    if (n <= 5 && status != RLOCK_NO_MEMORY)
        fail_msg("allocation %d: expected no_memory, got %s", n,
                 rlock_status_name(status));
    if (status == RLOCK_OK && !is_good)
        fail_msg("allocation %d: a wrong signature was accepted", n);
    return is_reached;
}

UNIT_CASE(test_jws__accepts_nothing_wrong_without_memory)
{
    unsigned char made[JWS_SIGNATURE_BYTES_MAX], wrong[64];
    struct pair ec = new_pair(EVP_EC_gen("P-256"));
    struct jws_key *signer = jws_key_create(CONFIG_ES256, JWS_SIGN, ec.private_key);
    struct jws_key *judge = jws_key_create(CONFIG_ES256, JWS_VERIFY, ec.public_key);
    bool is_reached = true;
    size_t len;

    for (int n = 1; is_reached; n++) {
        bool is_made;

        fails_at = n;
        is_made = jws_sign(signer, BYTES("text", 4), made, &len);
        is_reached = fails_at == 0;
        fails_at = 0;
        if (is_made)
            assert_int_equal(jws_verify(judge, BYTES("text", 4), BYTES(made, len)),
                             RLOCK_OK);
        assert_true(is_made || is_reached);
        assert_false(is_made && n == 1);
    }
    memcpy(wrong, made, sizeof(wrong));
    wrong[40] ^= 1;
    for (int n = 1; verify_without(n, judge, BYTES(made, len), true); n++)
        verify_without(n, judge, BYTES(wrong, sizeof(wrong)), false);
    jws_key_free(signer);
    jws_key_free(judge);
    pair_free(&ec);
}

UNIT_CASE(test_jws_key_create_numbers__leaves_no_number_out_without_memory)
{
    unsigned char modulus[256], made[JWS_SIGNATURE_BYTES_MAX];
    EVP_PKEY *key = EVP_RSA_gen(2048);
    struct pair rsa;
    struct jws_key *signer;
    BIGNUM *number = NULL;
    bool is_reached = true;
    size_t len;

    assert_int_equal(EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_N, &number), 1);
    BN_bn2bin(number, modulus);
    BN_free(number);
    rsa = new_pair(key);
    signer = jws_key_create(CONFIG_RS256, JWS_SIGN, rsa.private_key);
    assert_true(jws_sign(signer, BYTES("text", 4), made, &len));
    for (int n = 1; is_reached; n++) {
        struct jws_key *judge;

        fails_at = n;
        judge = jws_key_create_numbers(CONFIG_RS256, BYTES(modulus, sizeof(modulus)),
                                       BYTES("\1\0\1", 3));
        is_reached = fails_at == 0;
        fails_at = 0;
        assert_true(judge != NULL || is_reached);
        if (judge != NULL)
            ASSERT_STATUS(jws_verify(judge, BYTES("text", 4), BYTES(made, len)),
                          RLOCK_OK);
        jws_key_free(judge);
    }
    jws_key_free(signer);
    pair_free(&rsa);
}

static void *no_memory(size_t size UNUSED)
{
    return NULL;
}

/* If memory is out, a valid token must not be refused, because its client would then get another
   one. */
UNIT_CASE(test_auth_check__refuses_no_token_without_memory)
{
    static const struct identity made = {.user_id = 3};
    struct identity found;
    char *value = sign(SECRET, "{\"alg\":\"HS256\"}", "{" GOOD "}");
    json_malloc_t json_malloc;
    json_free_t json_free;

    json_get_alloc_funcs(&json_malloc, &json_free);
    json_set_alloc_funcs(no_memory, json_free);
    ASSERT_STATUS(check(*state, value, &found), RLOCK_NO_MEMORY);
    ASSERT_STATUS(auth_make(*state, &made, NOW_S, 10, NULL, NULL), RLOCK_NO_MEMORY);
    json_set_alloc_funcs(json_malloc, json_free);
    ASSERT_STATUS(check(*state, value, &found), RLOCK_OK);
    free(value);
}

/* -- issuer and audience -- */

UNIT_CASE(test_auth_check__issuer_and_audience_where_configured)
{
    static const struct {
        const char *claims;
        enum rlock_status status;
    } rows[] = {
        {"\"iss\":\"mint\",\"aud\":\"shop\"", RLOCK_OK},
        {"\"iss\":\"mint\",\"aud\":[\"x\",\"shop\"]", RLOCK_OK},
        {"\"iss\":\"mint\",\"aud\":[\"shop\",\"x\"]", RLOCK_OK},
        {"\"iss\":\"mint\",\"aud\":[]", RLOCK_REFUSED},
        {"\"iss\":\"mint\",\"aud\":[[\"shop\"]]", RLOCK_REFUSED},
        {"\"iss\":\"mint\",\"aud\":{\"shop\":\"shop\"}", RLOCK_REFUSED},
        {"\"iss\":\"mint\",\"aud\":\"shopping\"", RLOCK_REFUSED},
        {"\"iss\":\"mint\",\"aud\":null", RLOCK_REFUSED},
        {"\"iss\":\"mint\"", RLOCK_REFUSED},
        {"\"aud\":\"shop\"", RLOCK_REFUSED},
        {"\"iss\":\"Mint\",\"aud\":\"shop\"", RLOCK_REFUSED},
        {"\"iss\":[\"mint\"],\"aud\":\"shop\"", RLOCK_REFUSED},
    };
    struct config config = config_of(SECRET, "");
    struct auth *auth = NULL;
    char claims[200];

    config.jwt_issuer = "mint";
    config.jwt_audience = "shop";
    ASSERT_STATUS(auth_create(&config, &auth, NULL), RLOCK_OK);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(claims, sizeof(claims), GOOD ",%s", rows[i].claims);
        assert_checked(auth, HS256, claims, rows[i].status);
    }
    auth_free(auth);
}

/* -- invalid keys -- */

UNIT_CASE(test_auth_create__refuses_bad_keys_and_shows_none)
{
    static const struct {
        const char *secret, *keys;
        int64_t alg;
        const char *told;
    } rows[] = {
        {"hunter2", "", CONFIG_HS256, "SECKILL_JWT_SECRET"},
        {"", "", CONFIG_HS256, "SECKILL_JWT_SECRET"},
        {"", NEW, CONFIG_HS256, "kid: NAME"},
        {"", "kid: a", CONFIG_HS256, "0 bytes"},
        {"", "kid: a\nhunter2", CONFIG_HS256, "7 bytes"},
        {SECRET, "kid: a\nhunter2", CONFIG_HS256, "7 bytes"},
        {"", "kid: a\n" NEW "\nkid: b\nhunter2", CONFIG_HS256, "7 bytes"},
        {"", "kid: \n" NEW, CONFIG_HS256, "the kid of key 1 must be"},
        {"", "kid: a\n" NEW "\nkid: a\n" OLD, CONFIG_HS256, "key 2"},
        {"",
         "kid: hunter2-hunter2-hunter2-hunter2-hunter2-hunter2-hunter2-hunter2-hunter2",
         CONFIG_HS256, "key 1"},
        {"", "kid: a\n" NEW "\nkid: hunter2\nkid: b\n", CONFIG_HS256, "0 bytes"},
        {"", "kid: hunter2\n" NEW "\nkid: hunter2\n" NEW, CONFIG_HS256, "key 2"},
        {"", "kid: a\n                                        \n", CONFIG_HS256, "blank"},
        {"", "kid: a\nhunter2\nkid: b\n" NEW, CONFIG_HS256, "7 bytes"},
        {"", "kid: a\n" NEW, CONFIG_RS256, "public key"},
        {"", "kid: a\nshort", CONFIG_RS256, "public key"},
        {"", "", CONFIG_ES256, "SECKILL_JWT_PUBLIC_KEY_FILE"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct config config = config_of(rows[i].secret, rows[i].keys);
        struct auth *auth = NULL;
        struct rlock_err err = {0};

        config.jwt_alg = rows[i].alg;
        if (auth_create(&config, &auth, &err) != RLOCK_INVALID ||
            strstr(err.text, rows[i].told) == NULL || strstr(err.text, "hunter2") != NULL)
            fail_msg("row %zu: %s", i, err.text);
        assert_null(auth);
    }
}

UNIT_CASE(test_auth_create__fails_without_memory_for_its_texts)
{
    struct config config = config_of(SECRET, "");
    struct auth *auth = NULL;

    for (unsigned number = 1; number <= 6; number++) {
        enum rlock_status status;

        torture_fail(number, 0);
        status = auth_create(&config, &auth, NULL);
        assert_true(torture_stop());
        if (status != RLOCK_NO_MEMORY)
            fail_msg("without allocation %u: %s", number, rlock_status_name(status));
    }
}

/* The first six allocations are those of the test before. If a later one fails, auth_create() may
   succeed with a key that has no header. Then auth_make() must fail. */
UNIT_CASE(test_auth_make__fails_without_the_header_of_its_key)
{
    const struct identity made = {.user_id = 7};
    struct config config = config_of(SECRET, "");
    unsigned headless = 0;
    bool has_failed = true;

    for (unsigned number = 7; has_failed; number++) {
        struct auth *auth = NULL;
        enum rlock_status status;
        char *token = NULL;

        torture_fail(number, 0);
        status = auth_create(&config, &auth, NULL);
        has_failed = torture_stop();
        if (has_failed && status == RLOCK_OK) {
            headless++;
            ASSERT_STATUS(auth_make(auth, &made, NOW_S, 10, &token, NULL),
                          RLOCK_NO_MEMORY);
        }
        auth_free(auth);
    }
    ASSERT_NUMBER(headless, >, 0);
}

/* The limit does not count the key without a name. */
UNIT_CASE(test_auth_create__limits_the_number_of_keys)
{
    char keys[(AUTH_KEYS_MAX + 1) * 120];
    struct rlock_err err = {0};
    size_t len = 0;

    for (int i = 1; i <= AUTH_KEYS_MAX + 1; i++) {
        struct auth *auth = NULL;
        struct config config = config_of(SECRET, keys);
        bool is_wanted = i <= AUTH_KEYS_MAX;

        len += (size_t)snprintf(keys + len, sizeof(keys) - len, "kid: %0*d\n%s\n",
                                AUTH_ID_BYTES_MAX, i, NEW);
        if (auth_create(&config, &auth, &err) != (is_wanted ? RLOCK_OK : RLOCK_INVALID))
            fail_msg("%d keys: %s", i, err.text);
        if (is_wanted) {
            assert_signed(auth, SECRET, HS256, "{" GOOD "}", RLOCK_OK);
            assert_signed(auth, SECRET, "{\"alg\":\"none\"}", "{" GOOD "}",
                          RLOCK_REFUSED);
        }
        auth_free(auth);
    }
    ASSERT_CONTAINS(err.text, "more than 16 keys");
    ASSERT_STATUS(err.status, RLOCK_INVALID);
}

int main(void)
{
    if (CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free) != 1)
        return 1;
    return cases_run(create, destroy);
}
