/* test_auth.c - valid and invalid tokens, with an injected clock. */
#include "app/test/auth/auth_fixture.h"
#include "test/torture.h"

#include <jansson.h>

#define SECRET "0123456789abcdef0123456789abcdef"
#define SUB    "\"exp\":1900000001,\"sub\":"

#define OLD "an old secret, kept while its tokens last"
#define NEW "a new secret, which signs from now on ..."

static int create(void **state)
{
    struct config config = jwt_config(SECRET, "");

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

static void assert_checked(const struct auth *auth, const char *header,
                           const char *claims, enum rlock_status wanted)
{
    char braced[400];

    snprintf(braced, sizeof(braced), "{%s}", claims);
    assert_signed(auth, SECRET, header, braced, wanted);
}

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
        enum rlock_status status_with_only;
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
    struct config with_file = jwt_config("", keys), with_both = jwt_config(SECRET, keys);
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
    struct config all = jwt_config(SECRET, "kid: new\n" NEW "\nkid: old\n" OLD);
    struct config first = jwt_config("", "kid: new\n" NEW);
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

/* HMAC hashes a secret first if it is longer than a block of SHA-256. */
UNIT_CASE(test_auth_check__secrets_of_any_length)
{
    char secret[100] = "";

    for (size_t len = 32; len < sizeof(secret); len++) {
        struct config config = jwt_config(secret, "");
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

static void *no_memory(size_t size UNUSED)
{
    return NULL;
}

/* If memory is out, a valid token must not be refused, because its client would then get another
   token. */
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
    struct config config = jwt_config(SECRET, "");
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
        struct config config = jwt_config(rows[i].secret, rows[i].keys);
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
    struct config config = jwt_config(SECRET, "");
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

/* The previous test covers the first six allocations. If a later allocation fails, auth_create()
   may succeed with a key that has no header. Then auth_make() must fail. */
UNIT_CASE(test_auth_make__fails_without_the_header_of_its_key)
{
    const struct identity made = {.user_id = 7};
    struct config config = jwt_config(SECRET, "");
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

UNIT_CASE(test_auth_make__fails_without_memory)
{
    const struct identity made = {.user_id = 7};
    struct config config = jwt_config(SECRET, "");
    struct auth *auth;
    bool has_failed = true;

    ASSERT_STATUS(auth_create(&config, &auth, NULL), RLOCK_OK);
    for (unsigned number = 1; has_failed; number++) {
        enum rlock_status status;
        char *token = NULL;

        torture_fail(number, 0);
        status = auth_make(auth, &made, NOW_S, 10, &token, NULL);
        has_failed = torture_stop();
        if (has_failed != (status == RLOCK_NO_MEMORY))
            fail_msg("allocation %u: %s", number, rlock_status_name(status));
        free(token);
    }
    auth_free(auth);
}

UNIT_CASE(test_auth_create__limits_the_number_of_keys)
{
    char keys[(AUTH_KEYS_MAX + 1) * 120];
    struct rlock_err err = {0};
    size_t len = 0;

    for (int i = 1; i <= AUTH_KEYS_MAX + 1; i++) {
        struct auth *auth = NULL;
        struct config config = jwt_config(SECRET, keys);
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
    return cases_run(create, destroy);
}
