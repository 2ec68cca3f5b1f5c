/* test_auth.c - valid and invalid tokens, with an injected clock. */
#include "app/auth/auth.h"

#include "app/auth/base64.h"
#include "app/auth/jws.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <jansson.h>
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

#define OLD "an old secret, kept while its tokens last"
#define NEW "a new secret, which signs from now on ..."

#define NO_KEYS                                                                          \
    .jwt_secret = "", .jwt_public_key = "", .jwt_private_key = "", .jwt_keys = "",       \
    .jwt_issuer = "", .jwt_audience = ""

static struct config config_of(const char *secret, const char *keys)
{
    struct config config = {NO_KEYS};

    config.jwt_secret = secret;
    config.jwt_keys = keys;
    return config;
}

static int create(void **state)
{
    struct config config = config_of(SECRET, "");

    struct err err = {0};

    if (auth_create(&config, (struct auth **)state, &err) != STATUS_OK)
        print_error("auth_create() with a secret: %s\n", err.text);
    return err.status == STATUS_OK ? 0 : -1;
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

/* The value of an Authorization header with a token of these parts, which may be malformed. The
   caller frees it. */
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

static enum status check(const struct auth *auth, const char *header,
                         struct identity *ret_identity)
{
    return auth_check(auth, (struct text){header, strlen(header)}, NOW_S, ret_identity);
}

static enum status check_parts(const struct auth *auth, const char *header,
                               const char *claims)
{
    char *value = sign(SECRET, header, claims);
    struct identity identity;
    enum status status = check(auth, value, &identity);

    free(value);
    return status;
}

static enum status check_claims(const struct auth *auth, const char *claims)
{
    return check_parts(auth, HS256, claims);
}

UNIT_CASE(test_auth_check__accepts_tokens_of_auth_make)
{
    static const enum auth_role roles[] = {AUTH_SHOPPER, AUTH_PAYMENT, AUTH_ADMIN};

    for (size_t i = 0; i < 3; i++) {
        const struct identity made = {.user_id = INT64_MAX - (int64_t)i,
                                      .role = roles[i]};
        struct identity found = {0};
        char header[AUTH_TOKEN_BYTES_MAX];
        char *token;

        assert_int_equal(auth_make(*state, &made, NOW_S, 10, &token, NULL), STATUS_OK);
        snprintf(header, sizeof(header), "bearer %s", token);
        assert_int_equal(check(*state, header, &found), STATUS_OK);
        assert_int_equal(found.user_id, made.user_id);
        assert_int_equal(found.role, made.role);
        assert_string_equal(found.jti, "");
        free(token);
    }
}

UNIT_CASE(test_auth_check__requires_the_claims)
{
    static const struct {
        const char *claims;
        enum status status;
    } rows[] = {
        {"{\"sub\":\"1\",\"exp\":1900000001}", STATUS_OK},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"nbf\":1900000000}", STATUS_OK},
        {"{\"sub\":\"9223372036854775807\",\"exp\":1900000001}", STATUS_OK},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"role\":\"payment\"}", STATUS_OK},
        {"{\"sub\":\"1\"}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000000}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":\"1900000001\"}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"nbf\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"nbf\":\"soon\"}", STATUS_REFUSED},
        {"{\"exp\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":1,\"exp\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":\"0\",\"exp\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":\"-1\",\"exp\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":\"01\",\"exp\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":\" 1\",\"exp\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":\"1.0\",\"exp\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":\"\",\"exp\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":\"9223372036854775808\",\"exp\":1900000001}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"role\":\"root\"}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"role\":1}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"role\":null}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"jti\":\"a\"}", STATUS_OK},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"jti\":\"\"}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"jti\":5}", STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"jti\":\""
         "0123456789012345678901234567890123456789012345678901234567890123\"}",
         STATUS_OK},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"jti\":\""
         "01234567890123456789012345678901234567890123456789012345678901234\"}",
         STATUS_REFUSED},
        {"{\"sub\":\"1\",\"exp\":1900000001,\"iss\":5,\"aud\":5}", STATUS_OK},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (check_claims(*state, rows[i].claims) != rows[i].status)
            fail_msg("%s", rows[i].claims);
    }
}

/* now is NOW_S: a token has expired when now >= exp, and is valid when now >= nbf */
UNIT_CASE(test_auth_check__times_may_be_fractional)
{
    static const struct {
        const char *times;
        enum status status;
    } rows[] = {
        {"\"exp\":1900000000.5", STATUS_OK},
        {"\"exp\":1900000000.0", STATUS_REFUSED},
        {"\"exp\":1899999999.9", STATUS_REFUSED},
        {"\"exp\":1.9000000005e9", STATUS_OK},
        {"\"exp\":1.9e9", STATUS_REFUSED},
        {"\"exp\":1900000001,\"nbf\":1899999999.9", STATUS_OK},
        {"\"exp\":1900000001,\"nbf\":1900000000.0", STATUS_OK},
        {"\"exp\":1900000001,\"nbf\":1900000000.5", STATUS_REFUSED},
        {"\"exp\":-1900000001.5", STATUS_REFUSED},
        {"\"exp\":1e999", STATUS_REFUSED},
        {"\"exp\":99999999999999999999", STATUS_REFUSED},
        {"\"exp\":[1900000001.5]", STATUS_REFUSED},
        {"\"exp\":true", STATUS_REFUSED},
    };
    char claims[200];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(claims, sizeof(claims), "{\"sub\":\"1\",%s}", rows[i].times);
        if (check_claims(*state, claims) != rows[i].status)
            fail_msg("%s", claims);
    }
}

UNIT_CASE(test_auth_check__ambiguous_parts_are_refused)
{
    static const char header[] = HS256;
    static const char claims[] = "{\"sub\":\"1\",\"exp\":1900000001}";
    static const struct {
        const char *header;
        const char *claims;
        enum status status;
    } rows[] = {
        {header, claims, STATUS_OK},
        {"{\"alg\":\"HS256\",\"typ\":\"JWT\",\"x\":1}", claims, STATUS_OK},
        {header, "{\"sub\":\"1\",\"sub\":\"2\",\"exp\":1900000001}", STATUS_REFUSED},
        {header, "{\"sub\":\"1\",\"exp\":1,\"exp\":1900000001}", STATUS_REFUSED},
        {header,
         "{\"role\":\"admin\",\"role\":\"payment\",\"sub\":\"1\",\"exp\":1900000001}",
         STATUS_REFUSED},
        {header, "{\"sub\":\"1\",\"exp\":1900000001,\"x\":{\"y\":1,\"y\":2}}",
         STATUS_REFUSED},
        {header, "{\"sub\":\"1\",\"exp\":1900000001} {}", STATUS_REFUSED},
        {header, "[\"sub\"]", STATUS_REFUSED},
        {"{\"alg\":\"HS256\",\"alg\":\"HS256\"}", claims, STATUS_REFUSED},
        {"{\"alg\":\"none\",\"alg\":\"HS256\"}", claims, STATUS_REFUSED},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"kid\":\"b\"}", claims, STATUS_REFUSED},
        {"{\"alg\":\"HS256\",\"crit\":[\"exp\"]}", claims, STATUS_REFUSED},
        {"{\"alg\":\"HS256\",\"crit\":[\"b64\"],\"b64\":true}", claims, STATUS_REFUSED},
        {"{\"alg\":\"HS256\",\"crit\":[]}", claims, STATUS_REFUSED},
        {"{\"alg\":\"HS256\",\"crit\":null}", claims, STATUS_REFUSED},
        {"{\"alg\":\"hs256\"}", claims, STATUS_REFUSED},
        {"{\"alg\":\"Hs256\"}", claims, STATUS_REFUSED},
        {"{\"alg\":\"HS256 \"}", claims, STATUS_REFUSED},
        {"{\"alg\":[\"HS256\"]}", claims, STATUS_REFUSED},
        {"{\"typ\":\"JWT\"}", claims, STATUS_REFUSED},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (check_parts(*state, rows[i].header, rows[i].claims) != rows[i].status)
            fail_msg("%s %s", rows[i].header, rows[i].claims);
    }
}

UNIT_CASE(test_auth_check__other_keys_and_algorithms)
{
    static const char claims[] = "{\"sub\":\"1\",\"exp\":1900000001}";
    char *rows[] = {
        sign("another-secret-of-32-bytes-or-so", HS256, claims),
        sign_by(EVP_sha384(), SECRET, "{\"alg\":\"HS384\"}", claims),
        sign_by(EVP_sha512(), SECRET, "{\"alg\":\"HS512\"}", claims),
        sign_by(EVP_sha512(), SECRET, HS256, claims),
        sign_by(NULL, SECRET, "{\"alg\":\"none\"}", claims),
        sign_by(NULL, SECRET, HS256, claims),
    };
    struct identity identity;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(check(*state, rows[i], &identity), STATUS_REFUSED);
        free(rows[i]);
    }
}

UNIT_CASE(test_auth_check__broken_headers)
{
    char *good = sign(SECRET, HS256, "{\"sub\":\"1\",\"exp\":1900000001}");
    struct identity identity;
    char text[AUTH_TOKEN_BYTES_MAX + 100];

    assert_int_equal(check(*state, good, &identity), STATUS_OK);
    for (size_t len = 0; len < strlen(good); len++) {
        struct text cut = {good, len};

        assert_int_equal(auth_check(*state, cut, NOW_S, &identity), STATUS_REFUSED);
    }
    for (size_t at = strlen("Bearer "); at < strlen(good) - 1; at += 3) {
        char kept = good[at];

        good[at] = kept == 'A' ? 'B' : 'A';
        assert_int_equal(check(*state, good, &identity), STATUS_REFUSED);
        good[at] = kept;
    }
    assert_int_equal(check(*state, "Basic YTpi", &identity), STATUS_REFUSED);
    snprintf(text, sizeof(text), "Digest %s", good + strlen("Bearer "));
    assert_int_equal(check(*state, text, &identity), STATUS_REFUSED);
    memset(text, 'a', sizeof(text) - 1);
    memcpy(text, "Bearer ", strlen("Bearer "));
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(check(*state, text, &identity), STATUS_REFUSED);
    free(good);
}

UNIT_CASE(test_auth_check__accepts_up_to_the_longest_token)
{
    static const size_t longest = sizeof("Bearer ") - 1 + AUTH_TOKEN_BYTES_MAX;
    struct identity identity;
    size_t len = 0;

    for (int pad = 2900; len <= longest; pad++) {
        char claims[AUTH_TOKEN_BYTES_MAX], *value;
        enum status wanted;

        snprintf(claims, sizeof(claims),
                 "{\"sub\":\"1\",\"exp\":1900000001,\"x\":\"%*s\"}", pad, "");
        value = sign(SECRET, HS256, claims);
        len = strlen(value);
        wanted = len <= longest ? STATUS_OK : STATUS_REFUSED;
        if (check(*state, value, &identity) != wanted)
            fail_msg("%zu bytes: expected %s", len, status_name(wanted));
        free(value);
    }
}

/* -- several keys -- */

UNIT_CASE(test_auth_check__uses_the_key_that_the_token_names)
{
    static const char claims[] = "{\"sub\":\"1\",\"exp\":1900000001}";
    static const struct {
        const char *kid;
        const char *secret;
        enum status status;
        enum status status_with_only; /* if SECKILL_JWT_SECRET is set too */
    } rows[] = {
        {",\"kid\":\"new\"", NEW, STATUS_OK, STATUS_OK},
        {",\"kid\":\"2026-01\"", OLD, STATUS_OK, STATUS_OK},
        {",\"kid\":\"new\"", OLD, STATUS_REFUSED, STATUS_REFUSED},
        {",\"kid\":\"2026-01\"", NEW, STATUS_REFUSED, STATUS_REFUSED},
        {",\"kid\":\"other\"", NEW, STATUS_REFUSED, STATUS_REFUSED},
        {",\"kid\":\"other\"", SECRET, STATUS_REFUSED, STATUS_REFUSED},
        {",\"kid\":\"\"", SECRET, STATUS_REFUSED, STATUS_REFUSED},
        {",\"kid\":7", NEW, STATUS_REFUSED, STATUS_REFUSED},
        {",\"kid\":null", SECRET, STATUS_REFUSED, STATUS_REFUSED},
        {"", NEW, STATUS_REFUSED, STATUS_REFUSED},
        {"", SECRET, STATUS_REFUSED, STATUS_OK},
    };
    static const char keys[] = "kid: new\n" NEW "\nkid: 2026-01\r\n" OLD "\r\n";
    struct config with_file = config_of("", keys), with_both = config_of(SECRET, keys);
    struct auth *named = NULL, *both = NULL;
    struct identity identity;

    assert_int_equal(auth_create(&with_file, &named, NULL), STATUS_OK);
    assert_int_equal(auth_create(&with_both, &both, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char json[100], *header;

        snprintf(json, sizeof(json), "{\"alg\":\"HS256\"%s}", rows[i].kid);
        header = sign(rows[i].secret, json, claims);

        if (check(named, header, &identity) != rows[i].status ||
            check(both, header, &identity) != rows[i].status_with_only)
            fail_msg("row %zu", i);
        free(header);
    }
    auth_free(named);
    auth_free(both);
}

static void assert_begins(const char *token, const char *header_json)
{
    char header[100];

    header[encode(header_json, header)] = '\0';
    if (strncmp(token, header, strlen(header)) != 0 || token[strlen(header)] != '.')
        fail_msg("%s: expected the header %s", token, header);
}

UNIT_CASE(test_auth_make__signs_with_the_first_key)
{
    struct config all = config_of(SECRET, "kid: new\n" NEW "\nkid: old\n" OLD);
    struct config first = config_of("", "kid: new\n" NEW);
    const struct identity made = {.user_id = 3, .role = AUTH_ADMIN, .jti = "t-1"};
    struct identity found = {0};
    struct auth *maker = NULL, *judge = NULL;
    char header[AUTH_TOKEN_BYTES_MAX];
    char *token;

    assert_int_equal(auth_create(&all, &maker, NULL), STATUS_OK);
    assert_int_equal(auth_create(&first, &judge, NULL), STATUS_OK);
    assert_int_equal(auth_make(maker, &made, NOW_S, 10, &token, NULL), STATUS_OK);
    snprintf(header, sizeof(header), "Bearer %s", token);
    assert_int_equal(check(judge, header, &found), STATUS_OK);
    assert_int_equal(found.role, AUTH_ADMIN);
    assert_string_equal(found.jti, "t-1");
    assert_begins(token, "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"new\"}");
    free(token);
    auth_free(maker);
    auth_free(judge);
}

/* A new key pair as PEM. The caller frees both texts. */
static void make_pair(EVP_PKEY *pair, char **ret_private, char **ret_public)
{
    BIO *private_bio = BIO_new(BIO_s_mem()), *public_bio = BIO_new(BIO_s_mem());
    char *text;
    long len;

    assert_int_equal(
        PEM_write_bio_PrivateKey(private_bio, pair, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(PEM_write_bio_PUBKEY(public_bio, pair), 1);
    len = BIO_get_mem_data(private_bio, &text);
    *ret_private = strndup(text, (size_t)len);
    len = BIO_get_mem_data(public_bio, &text);
    *ret_public = strndup(text, (size_t)len);
    BIO_free(private_bio);
    BIO_free(public_bio);
    EVP_PKEY_free(pair);
}

static void check_pair(int64_t alg, const char *private_key, const char *public_key)
{
    struct config config = {NO_KEYS};
    const struct identity made = {.user_id = 3};
    struct identity found = {0};
    struct auth *auth = NULL;
    char *token, *header;

    config.jwt_alg = alg;
    config.jwt_private_key = private_key;
    config.jwt_public_key = public_key;
    assert_int_equal(auth_create(&config, &auth, NULL), STATUS_OK);
    for (int i = 0; i < 50; i++) { /* some numbers of a signature begin with zeros */
        assert_int_equal(auth_make(auth, &made, NOW_S, 10, &token, NULL), STATUS_OK);
        header = malloc(strlen(token) + 9);
        sprintf(header, "Bearer %s", token);
        assert_int_equal(check(auth, header, &found), STATUS_OK);
        if (alg == CONFIG_ES256) /* 64 bytes, RFC 7518 */
            assert_int_equal(strlen(strrchr(token, '.') + 1), 86);
        sprintf(header, "Bearer %sA", token); /* one byte more */
        assert_int_equal(check(auth, header, &found), STATUS_REFUSED);
        memcpy(strrchr(header, '.'), ".AAAA", sizeof(".AAAA"));
        assert_int_equal(check(auth, header, &found), STATUS_REFUSED);
        *strrchr(header, '.') = '\0';
        assert_int_equal(check(auth, header, &found), STATUS_REFUSED);
        free(header);
        free(token);
    }
    auth_free(auth);
}

static enum status create_with(int64_t alg, const char *private_key,
                               const char *public_key)
{
    struct config config = {NO_KEYS};
    struct auth *auth = NULL;
    struct err err;
    enum status status;

    config.jwt_alg = alg;
    config.jwt_private_key = private_key;
    config.jwt_public_key = public_key;
    status = auth_create(&config, &auth, &err);
    auth_free(auth);
    return status;
}

UNIT_CASE(test_auth_make__key_pairs)
{
    char *rsa_private, *rsa_public, *ec_private, *ec_public, *p384_private, *p384_public;

    make_pair(EVP_RSA_gen(2048), &rsa_private, &rsa_public);
    make_pair(EVP_EC_gen("P-256"), &ec_private, &ec_public);
    make_pair(EVP_EC_gen("P-384"), &p384_private, &p384_public);
    check_pair(CONFIG_RS256, rsa_private, rsa_public);
    check_pair(CONFIG_ES256, ec_private, ec_public);
    assert_int_equal(create_with(CONFIG_RS256, "", ec_public), STATUS_INVALID);
    assert_int_equal(create_with(CONFIG_RS256, ec_private, rsa_public), STATUS_INVALID);
    assert_int_equal(create_with(CONFIG_RS256, rsa_public, rsa_public), STATUS_INVALID);
    assert_int_equal(create_with(CONFIG_ES256, "", rsa_public), STATUS_INVALID);
    assert_int_equal(create_with(CONFIG_ES256, "", p384_public), STATUS_INVALID);
    assert_int_equal(create_with(CONFIG_ES256, p384_private, ec_public), STATUS_INVALID);
    free(rsa_private);
    free(rsa_public);
    free(ec_private);
    free(ec_public);
    free(p384_private);
    free(p384_public);
}

/* -- issuer and audience -- */

/* -- without memory -- */

static int fails_at; /* the allocation of OpenSSL that fails; 0: none does */

static bool fails(void)
{
    return fails_at > 0 && --fails_at == 0;
}

static void *openssl_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return fails() ? NULL : malloc(size);
}

static void *openssl_realloc(void *memory, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return fails() ? NULL : realloc(memory, size);
}

static void openssl_free(void *memory, const char *file, int line)
{
    (void)file;
    (void)line;
    free(memory);
}

static void *no_memory(size_t size)
{
    (void)size;
    return NULL;
}

/* A valid token is not refused: its client would have to get another one. */
UNIT_CASE(test_auth_check__refuses_no_token_without_memory)
{
    enum status status;

    json_set_alloc_funcs(no_memory, free);
    status = check_claims(*state, "{\"sub\":\"1\",\"exp\":1900000001}");
    json_set_alloc_funcs(malloc, free);
    ASSERT_STATUS(status, STATUS_NO_MEMORY);
}

#define BYTES(array, count)                                                              \
    (struct text)                                                                        \
    {                                                                                    \
        (const char *)(array), count                                                     \
    }

/* Whether the n-th allocation was reached. The first five are of the signature's numbers. */
static bool verify_without(int n, const struct jws_key *key, struct text signature,
                           bool is_good)
{
    struct text text = BYTES("text", 4);
    enum status status;
    bool is_reached;

    fails_at = n;
    status = jws_verify(key, text, signature);
    is_reached = fails_at == 0;
    fails_at = 0;
    if (n <= 5 && status != STATUS_NO_MEMORY)
        fail_msg("allocation %d: expected no_memory, got %s", n, status_name(status));
    if (status == STATUS_OK && !is_good)
        fail_msg("allocation %d: a wrong signature was accepted", n);
    return is_reached;
}

UNIT_CASE(test_jws__accepts_nothing_wrong_without_memory)
{
    unsigned char made[JWS_SIGNATURE_BYTES_MAX], wrong[64];
    char *ec_private, *ec_public;
    struct jws_key *signer, *judge;
    bool is_reached = true;
    size_t len;

    make_pair(EVP_EC_gen("P-256"), &ec_private, &ec_public);
    signer = jws_key_create(CONFIG_ES256, JWS_SIGN, ec_private);
    judge = jws_key_create(CONFIG_ES256, JWS_VERIFY, ec_public);
    for (int n = 1; is_reached; n++) {
        bool is_made;

        fails_at = n;
        is_made = jws_sign(signer, BYTES("text", 4), made, &len);
        is_reached = fails_at == 0;
        fails_at = 0;
        if (is_made)
            assert_int_equal(jws_verify(judge, BYTES("text", 4), BYTES(made, len)),
                             STATUS_OK);
        assert_true(is_made || is_reached);
        assert_false(is_made && n == 1);
    }
    memcpy(wrong, made, sizeof(wrong));
    wrong[40] ^= 1;
    for (int n = 1; verify_without(n, judge, BYTES(made, len), true); n++)
        verify_without(n, judge, BYTES(wrong, sizeof(wrong)), false);
    jws_key_free(signer);
    jws_key_free(judge);
    free(ec_private);
    free(ec_public);
}

UNIT_CASE(test_auth_check__issuer_and_audience_where_configured)
{
    static const struct {
        const char *claims;
        enum status status;
    } rows[] = {
        {"\"iss\":\"mint\",\"aud\":\"shop\"", STATUS_OK},
        {"\"iss\":\"mint\",\"aud\":[\"x\",\"shop\"]", STATUS_OK},
        {"\"iss\":\"mint\",\"aud\":[\"shop\",\"x\"]", STATUS_OK},
        {"\"iss\":\"mint\",\"aud\":[]", STATUS_REFUSED},
        {"\"iss\":\"mint\",\"aud\":[[\"shop\"]]", STATUS_REFUSED},
        {"\"iss\":\"mint\",\"aud\":{\"shop\":\"shop\"}", STATUS_REFUSED},
        {"\"iss\":\"mint\",\"aud\":\"shopping\"", STATUS_REFUSED},
        {"\"iss\":\"mint\",\"aud\":null", STATUS_REFUSED},
        {"\"iss\":\"mint\"", STATUS_REFUSED},
        {"\"aud\":\"shop\"", STATUS_REFUSED},
        {"\"iss\":\"Mint\",\"aud\":\"shop\"", STATUS_REFUSED},
        {"\"iss\":[\"mint\"],\"aud\":\"shop\"", STATUS_REFUSED},
    };
    struct config config = config_of(SECRET, "");
    struct auth *auth = NULL;
    char claims[200];

    config.jwt_issuer = "mint";
    config.jwt_audience = "shop";
    assert_int_equal(auth_create(&config, &auth, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(claims, sizeof(claims), "{\"sub\":\"1\",\"exp\":1900000001,%s}",
                 rows[i].claims);
        if (check_claims(auth, claims) != rows[i].status)
            fail_msg("%s", claims);
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

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config config = config_of(rows[i].secret, rows[i].keys);
        struct auth *auth = NULL;
        struct err err = {0};

        config.jwt_alg = rows[i].alg;
        if (auth_create(&config, &auth, &err) != STATUS_INVALID ||
            strstr(err.text, rows[i].told) == NULL || strstr(err.text, "hunter2") != NULL)
            fail_msg("row %zu: %s", i, err.text);
        assert_null(auth);
    }
}

UNIT_CASE(test_auth_create__fails_without_memory_for_its_texts)
{
    struct config config = config_of(SECRET, "");
    struct auth *auth = NULL;

    for (unsigned number = 1; number <= 4; number++) {
        enum status status;

        torture_fail(number, 0);
        status = auth_create(&config, &auth, NULL);
        assert_true(torture_stop());
        if (status != STATUS_NO_MEMORY)
            fail_msg("without allocation %u: %s", number, status_name(status));
    }
}

UNIT_CASE(test_auth_create__limits_the_number_of_keys)
{
    char keys[(AUTH_KEYS_MAX + 1) * 60];
    struct err err = {0};
    size_t len = 0;

    for (int i = 1; i <= AUTH_KEYS_MAX + 1; i++) {
        struct auth *auth = NULL;
        struct config config = config_of("", keys);

        len += (size_t)snprintf(keys + len, sizeof(keys) - len, "kid: %d\n%s\n", i, NEW);
        if (auth_create(&config, &auth, &err) !=
            (i <= AUTH_KEYS_MAX ? STATUS_OK : STATUS_INVALID))
            fail_msg("%d keys: %s", i, err.text);
        auth_free(auth);
    }
    assert_non_null(strstr(err.text, "more than 16 keys"));
}

int main(void)
{
    if (CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free) != 1)
        return 1;
    return cases_run(create, destroy);
}
