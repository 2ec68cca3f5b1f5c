/* test_auth.c - which tokens are believed, by a clock of our own. */
#include "app/auth.h"

#include <jwt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW_S  1900000000
#define SECRET "0123456789abcdef0123456789abcdef"

static const struct config config = {
    .jwt_secret = SECRET, .jwt_public_key = "", .jwt_private_key = ""};

static int create(void **state)
{
    return auth_create(&config, (struct auth **)state, NULL) == STATUS_OK ? 0 : -1;
}

static int destroy(void **state)
{
    auth_free(*state);
    return 0;
}

/* A token with these claims as they stand. */
static char *sign(jwt_alg_t alg, const char *secret, const char *claims)
{
    char *token, *copy;
    jwt_t *jwt;

    assert_int_equal(jwt_new(&jwt), 0);
    assert_int_equal(jwt_set_alg(jwt, alg, (const unsigned char *)secret,
                                 secret != NULL ? (int)strlen(secret) : 0),
                     0);
    assert_int_equal(jwt_add_grants_json(jwt, claims), 0);
    token = jwt_encode_str(jwt);
    assert_non_null(token);
    copy = malloc(strlen(token) + 8);
    sprintf(copy, "Bearer %s", token);
    free(token);
    jwt_free(jwt);
    return copy;
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

static void test_auth_create__short_secret(void **state)
{
    const struct config weak = {
        .jwt_secret = "short", .jwt_public_key = "", .jwt_private_key = ""};
    struct auth *auth = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(auth_create(&weak, &auth, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "SECKILL_JWT_SECRET"));
    assert_null(auth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auth_check__believes_what_it_made),
        cmocka_unit_test(test_auth_check__demands_the_claims),
        cmocka_unit_test(test_auth_check__other_keys_and_algorithms),
        cmocka_unit_test(test_auth_check__broken_headers),
        cmocka_unit_test(test_auth_create__short_secret),
    };

    return cmocka_run_group_tests(tests, create, destroy);
}
