/* test_auth.c - which tokens are believed, by a clock of our own. */
#include "app/auth/auth.h"

#include <jwt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

    return auth_create(&config, (struct auth **)state, NULL) == STATUS_OK ? 0 : -1;
}

static int destroy(void **state)
{
    auth_free(*state);
    return 0;
}

/* A token with these claims as they stand; `kid` may be NULL. */
static char *sign_as(const char *kid, jwt_alg_t alg, const char *secret,
                     const char *claims)
{
    char *token, *copy;
    jwt_t *jwt;

    assert_int_equal(jwt_new(&jwt), 0);
    assert_int_equal(jwt_set_alg(jwt, alg, (const unsigned char *)secret,
                                 secret != NULL ? (int)strlen(secret) : 0),
                     0);
    assert_int_equal(jwt_add_grants_json(jwt, claims), 0);
    if (kid != NULL)
        assert_int_equal(jwt_add_headers_json(jwt, kid), 0);
    token = jwt_encode_str(jwt);
    assert_non_null(token);
    copy = malloc(strlen(token) + 8);
    sprintf(copy, "Bearer %s", token);
    free(token);
    jwt_free(jwt);
    return copy;
}

static char *sign(jwt_alg_t alg, const char *secret, const char *claims)
{
    return sign_as(NULL, alg, secret, claims);
}

static enum status check(const struct auth *auth, const char *header,
                         struct identity *ret_identity)
{
    return auth_check(auth, (struct text){header, strlen(header)}, NOW_S, ret_identity);
}

static enum status check_claims(const struct auth *auth, const char *claims)
{
    char *header = sign(JWT_ALG_HS256, SECRET, claims);
    struct identity identity;
    enum status status = check(auth, header, &identity);

    free(header);
    return status;
}

static void test_auth_check__believes_what_it_made(void **state)
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
        free(token);
    }
}

static void test_auth_check__demands_the_claims(void **state)
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

static void test_auth_check__other_keys_and_algorithms(void **state)
{
    static const char claims[] = "{\"sub\":\"1\",\"exp\":1900000001}";
    char *rows[] = {
        sign(JWT_ALG_HS256, "another-secret-of-32-bytes-or-so", claims),
        sign(JWT_ALG_HS384, SECRET, claims),
        sign(JWT_ALG_HS512, SECRET, claims),
        sign(JWT_ALG_NONE, NULL, claims),
    };
    struct identity identity;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(check(*state, rows[i], &identity), STATUS_REFUSED);
        free(rows[i]);
    }
}

static void test_auth_check__broken_headers(void **state)
{
    char *good = sign(JWT_ALG_HS256, SECRET, "{\"sub\":\"1\",\"exp\":1900000001}");
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
    memset(text, 'a', sizeof(text) - 1);
    memcpy(text, "Bearer ", strlen("Bearer "));
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(check(*state, text, &identity), STATUS_REFUSED);
    free(good);
}

/* -- several keys -- */

static void test_auth_check__the_key_is_the_one_that_the_token_names(void **state)
{
    static const char claims[] = "{\"sub\":\"1\",\"exp\":1900000001}";
    static const struct {
        const char *header;
        const char *secret;
        enum status status;
        enum status status_with_only; /* SECKILL_JWT_SECRET beside the file */
    } rows[] = {
        {"{\"kid\":\"new\"}", NEW, STATUS_OK, STATUS_OK},
        {"{\"kid\":\"2026-01\"}", OLD, STATUS_OK, STATUS_OK},
        {"{\"kid\":\"new\"}", OLD, STATUS_REFUSED, STATUS_REFUSED},
        {"{\"kid\":\"2026-01\"}", NEW, STATUS_REFUSED, STATUS_REFUSED},
        {"{\"kid\":\"other\"}", NEW, STATUS_REFUSED, STATUS_REFUSED},
        {"{\"kid\":\"other\"}", SECRET, STATUS_REFUSED, STATUS_REFUSED},
        {"{\"kid\":\"\"}", SECRET, STATUS_REFUSED, STATUS_REFUSED},
        {"{\"kid\":7}", NEW, STATUS_REFUSED, STATUS_REFUSED},
        {"{\"kid\":null}", SECRET, STATUS_REFUSED, STATUS_REFUSED},
        {NULL, NEW, STATUS_REFUSED, STATUS_REFUSED},
        {NULL, SECRET, STATUS_REFUSED, STATUS_OK},
    };
    static const char keys[] = "kid: new\n" NEW "\nkid: 2026-01\r\n" OLD "\r\n";
    struct config with_file = config_of("", keys), with_both = config_of(SECRET, keys);
    struct auth *named = NULL, *both = NULL;
    struct identity identity;

    (void)state;
    assert_int_equal(auth_create(&with_file, &named, NULL), STATUS_OK);
    assert_int_equal(auth_create(&with_both, &both, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *header = sign_as(rows[i].header, JWT_ALG_HS256, rows[i].secret, claims);

        if (check(named, header, &identity) != rows[i].status ||
            check(both, header, &identity) != rows[i].status_with_only)
            fail_msg("row %zu", i);
        free(header);
    }
    auth_free(named);
    auth_free(both);
}

static void test_auth_make__signs_with_the_first_key(void **state)
{
    struct config all = config_of(SECRET, "kid: new\n" NEW "\nkid: old\n" OLD);
    struct config first = config_of("", "kid: new\n" NEW);
    const struct identity made = {.user_id = 3, .role = AUTH_ADMIN, .jti = "t-1"};
    struct identity found = {0};
    struct auth *maker = NULL, *judge = NULL;
    char header[AUTH_TOKEN_BYTES_MAX];
    char *token;

    (void)state;
    assert_int_equal(auth_create(&all, &maker, NULL), STATUS_OK);
    assert_int_equal(auth_create(&first, &judge, NULL), STATUS_OK);
    assert_int_equal(auth_make(maker, &made, NOW_S, 10, &token, NULL), STATUS_OK);
    snprintf(header, sizeof(header), "Bearer %s", token);
    assert_int_equal(check(judge, header, &found), STATUS_OK);
    assert_int_equal(found.role, AUTH_ADMIN);
    assert_string_equal(found.jti, "t-1");
    free(token);
    auth_free(maker);
    auth_free(judge);
}

/* -- issuer and audience -- */

static void test_auth_check__issuer_and_audience_where_demanded(void **state)
{
    static const struct {
        const char *claims;
        enum status status;
    } rows[] = {
        {"\"iss\":\"mint\",\"aud\":\"shop\"", STATUS_OK},
        {"\"iss\":\"mint\",\"aud\":[\"x\",\"shop\"]", STATUS_OK},
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

    (void)state;
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

/* -- keys that will not do -- */

static void test_auth_create__refuses_bad_keys_and_shows_none(void **state)
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
        {"", "kid: \n" NEW, CONFIG_HS256, "a kid must be"},
        {"", "kid: a\n" NEW "\nkid: a\n" OLD, CONFIG_HS256, "\"a\""},
        {"", "kid: a\n" NEW, CONFIG_RS256, "public key"},
        {"", "", CONFIG_ES256, "SECKILL_JWT_PUBLIC_KEY_FILE"},
    };

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auth_check__believes_what_it_made),
        cmocka_unit_test(test_auth_check__demands_the_claims),
        cmocka_unit_test(test_auth_check__other_keys_and_algorithms),
        cmocka_unit_test(test_auth_check__broken_headers),
        cmocka_unit_test(test_auth_check__the_key_is_the_one_that_the_token_names),
        cmocka_unit_test(test_auth_make__signs_with_the_first_key),
        cmocka_unit_test(test_auth_check__issuer_and_audience_where_demanded),
        cmocka_unit_test(test_auth_create__refuses_bad_keys_and_shows_none),
    };

    return cmocka_run_group_tests(tests, create, destroy);
}
