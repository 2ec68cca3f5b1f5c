/* it_auth.c - valid and invalid tokens, the three algorithms, roles, rates. */
#include "app/test/load_clients.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct service *service;
static char voucher_id[ID_SIZE];

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    make_voucher(service, &(struct sale){.stock = 10000}, voucher_id);
    return 0;
}

/* The claims of a pattern, with {} replaced by a time. */
static const char *claims_of(const char *pattern)
{
    static char claims[600];
    char time_text[32], pass[600];

    snprintf(time_text, sizeof(time_text), "%lld", (long long)time(NULL) + 600);
    fill(pattern, time_text, pass, sizeof(pass));
    snprintf(claims, sizeof(claims), "%s", pass);
    return claims;
}

static void assert_refused(const char *name, const char *token)
{
    const struct client_reply *reply =
        request(service, token, NULL, "POST /v1/vouchers/%s/orders", voucher_id);
    const char *challenge = reply_header(reply, "WWW-Authenticate");

    if (!reply_is(reply, 401, "unauthenticated") || challenge == NULL ||
        strncmp(challenge, "Bearer", 6) != 0)
        fail_msg("%s: %d %s", name, reply->status, reply->body);
    EXPECT(reply, 401, "unauthenticated");
}

/* -- claims -- */

/* {} becomes a time ten minutes ahead */
static const char *const bad_claims[] = {
    "{\"exp\":{}}",
    "{\"sub\":\"\",\"exp\":{}}",
    "{\"sub\":\"0\",\"exp\":{}}",
    "{\"sub\":\"-1\",\"exp\":{}}",
    "{\"sub\":\"+1\",\"exp\":{}}",
    "{\"sub\":\" 1\",\"exp\":{}}",
    "{\"sub\":\"1 \",\"exp\":{}}",
    "{\"sub\":\"1.0\",\"exp\":{}}",
    "{\"sub\":\"1e3\",\"exp\":{}}",
    "{\"sub\":\"0x1\",\"exp\":{}}",
    "{\"sub\":\"9223372036854775808\",\"exp\":{}}",
    "{\"sub\":\"18446744073709551617\",\"exp\":{}}",
    "{\"sub\":\"alice\",\"exp\":{}}",
    "{\"sub\":\"1;drop table voucher\",\"exp\":{}}",
    "{\"sub\":1,\"exp\":{}}",
    "{\"sub\":null,\"exp\":{}}",
    "{\"sub\":[\"1\"],\"exp\":{}}",
    "{\"sub\":\"1\"}",
    "{\"sub\":\"1\",\"exp\":null}",
    "{\"sub\":\"1\",\"exp\":\"{}\"}",
    "{\"sub\":\"1\",\"exp\":0}",
    "{\"sub\":\"1\",\"exp\":-1}",
    "{\"sub\":\"1\",\"exp\":1000000000}",
    "{\"sub\":\"1\",\"exp\":{},\"nbf\":{}}",
    "{\"sub\":\"1\",\"exp\":{},\"nbf\":99999999999}",
    "{\"sub\":\"1\",\"exp\":{},\"role\":\"root\"}",
    "{\"sub\":\"1\",\"exp\":{},\"role\":\"ADMIN\"}",
    "{\"sub\":\"1\",\"exp\":{},\"role\":\"\"}",
    "{\"sub\":\"1\",\"exp\":{},\"role\":7}",
    "{\"sub\":\"1\",\"exp\":{},\"role\":[\"admin\"]}",
    "[]",
    "null",
    "{",
    "",
};

static void test_token__bad_claims_are_refused(void **state)
{
    for (size_t i = 0; i < COUNT_OF(bad_claims); i++)
        assert_refused(bad_claims[i],
                       token_hs256(NULL, claims_of(bad_claims[i]), FIXTURE_SECRET));
    assert_int_equal(sql_live_orders(*state, voucher_id), 0);
}

static void test_token__valid_claims_are_accepted(void **state)
{
    static const char *const good[] = {
        "{\"sub\":\"101\",\"exp\":{}}",
        "{\"sub\":\"9223372036854775807\",\"exp\":{}}",
        "{\"sub\":\"102\",\"exp\":{},\"nbf\":1000000000}",
        "{\"sub\":\"103\",\"exp\":99999999999}",
        "{\"sub\":\"104\",\"exp\":{},\"iss\":\"x\",\"aud\":[\"y\"],\"more\":{\"a\":1}}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        EXPECT(request(service, token_hs256(NULL, claims_of(good[i]), FIXTURE_SECRET),
                       NULL, "POST /v1/vouchers/%s/orders", voucher_id),
               201, NULL);
}

static bool is_expired(void *arg)
{
    return request(service, arg, NULL, "GET /v1/orders")->status == 401;
}

static void test_token__expires(void **state)
{
    char claims[80], token[600];

    (void)state;
    snprintf(claims, sizeof(claims), "{\"sub\":\"105\",\"exp\":%lld}",
             (long long)time(NULL) + 10);
    snprintf(token, sizeof(token), "%s", token_hs256(NULL, claims, FIXTURE_SECRET));
    EXPECT(request(service, token, NULL, "GET /v1/orders"), 200, NULL);
    AWAIT(is_expired, token);
}

/* -- signatures -- */

static void test_token__other_headers_are_refused(void **state)
{
    static const char *const headers[] = {
        "{\"alg\":\"none\"}",
        "{\"alg\":\"None\",\"typ\":\"JWT\"}",
        "{\"alg\":\"HS512\",\"typ\":\"JWT\"}",
        "{\"alg\":\"HS384\",\"typ\":\"JWT\"}",
        "{\"alg\":\"RS256\",\"typ\":\"JWT\"}",
        "{\"alg\":\"ES256\",\"typ\":\"JWT\"}",
        "{\"alg\":\"\"}",
        "{\"alg\":null}",
        "{\"alg\":[\"HS256\"]}",
        "{\"typ\":\"JWT\"}",
        "{}",
        "[]",
        "",
        "x",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        const char *claims = claims_of("{\"sub\":\"1\",\"exp\":{}}");
        char token[800];
        char *dot;

        snprintf(token, sizeof(token), "%s",
                 token_hs256(headers[i], claims, FIXTURE_SECRET));
        assert_refused(headers[i], token);
        dot = strrchr(token, '.');
        dot[1] = '\0'; /* no signature at all */
        assert_refused(headers[i], token);
        dot[0] = '\0'; /* and no second dot */
        assert_refused(headers[i], token);
    }
}

/* Signed with the right secret by an algorithm that is not configured. */
static void test_token__of_another_algorithm_is_refused(void **state)
{
    static const char *const others[] = {"HS384", "HS512"};
    const char *claims = claims_of("{\"sub\":\"1\",\"exp\":{}}");

    (void)state;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_refused(others[i], token_by(others[i], claims, FIXTURE_SECRET));
    EXPECT(request(service, token_by("HS256", claims, FIXTURE_SECRET), NULL,
                   "GET /v1/orders"),
           200, NULL);
}

static void test_token__forged_is_refused(void **state)
{
    const char *claims = claims_of("{\"sub\":\"1\",\"exp\":{}}");
    char good[800], bad[900];
    size_t len;

    (void)state;
    assert_refused("another secret", token_hs256(NULL, claims, "another secret"));
    assert_refused("no secret", token_hs256(NULL, claims, ""));
    snprintf(good, sizeof(good), "%s", token_hs256(NULL, claims, FIXTURE_SECRET));
    len = strlen(good);
    for (size_t i = 0; i < len - 1; i++) { /* the last character has unused bits */
        snprintf(bad, sizeof(bad), "%s", good);
        bad[i] = bad[i] == 'A' ? 'B' : 'A';
        assert_refused(bad, bad);
    }
    for (size_t cut = 1; cut < len; cut += 7) {
        snprintf(bad, sizeof(bad), "%.*s", (int)(len - cut), good);
        assert_refused(bad, bad);
    }
    snprintf(bad, sizeof(bad), "%s.x", good);
    assert_refused(bad, bad);
    snprintf(bad, sizeof(bad), ".%s", good);
    assert_refused(bad, bad);
    EXPECT(request(service, good, NULL, "GET /v1/orders"), 200, NULL);
}

static void test_header__other_than_bearer_is_refused(void **state)
{
    static const char *const values[] = {
        "",           "Bearer",    "Bearer ",   "Basic dXNlcjpwYXNz",
        "Token x",    "Bearerx",   "Bearer ..", "Bearer a.b.c",
        "Bearer a b", "Negotiate", "\"",        "Bearer \xff\xfe"};
    char header[200];

    (void)state;
    assert_refused("none", NULL);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        const struct client_reply *reply;

        snprintf(header, sizeof(header), "Authorization: %s\r\n", values[i]);
        reply = request_with(service, NULL, header, NULL, "POST /v1/vouchers/%s/orders",
                             voucher_id);
        EXPECT(reply, 401, "unauthenticated");
        reply_header(reply, "WWW-Authenticate");
    }
    snprintf(header, sizeof(header), "authorization: bearer %s\r\n", "x");
    EXPECT(request_with(service, NULL, header, NULL, "GET /v1/orders"), 401,
           "unauthenticated");
}

static void test_header__the_scheme_is_case_insensitive(void **state)
{
    char header[1024];

    (void)state;
    snprintf(header, sizeof(header), "authorization: bearer %s\r\n", shopper(5));
    EXPECT(request_with(service, NULL, header, NULL, "GET /v1/orders"), 200, NULL);
}

static void test_header__a_huge_token_is_refused(void **state)
{
    char token[8000], header[8100];

    (void)state;
    memset(token, 'a', sizeof(token));
    token[sizeof(token) - 1] = '\0';
    snprintf(header, sizeof(header), "Authorization: Bearer %s\r\n", token);
    EXPECT(request_with(service, NULL, header, NULL, "GET /v1/orders"), 401,
           "unauthenticated");
}

/* -- the other algorithms -- */

struct keys {
    char private_path[128];
    char public_path[128];
    char private_pem[4096];
    char public_pem[4096];
    char env_alg[64];
    char env_key[200];
};

static void read_pem(const char *path, char *pem, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t len;

    assert_non_null(file);
    len = fread(pem, 1, size - 1, file);
    pem[len] = '\0';
    fclose(file);
    assert_true(len > 0);
}

static void run_openssl(struct fixture *fixture, const char *const *argv)
{
    assert_int_equal(fixture_run(fixture, NULL, argv)->code, 0);
}

static void make_keys(struct fixture *fixture, const char *alg, struct keys *keys)
{
    const char *options =
        strcmp(alg, "RS256") == 0 ? "rsa_keygen_bits:2048" : "ec_paramgen_curve:P-256";

    snprintf(keys->private_path, sizeof(keys->private_path), "%s/%s.pem", fixture->dir,
             alg);
    snprintf(keys->public_path, sizeof(keys->public_path), "%s/%s.pub", fixture->dir,
             alg);
    run_openssl(fixture,
                (const char *[]){"openssl", "genpkey", "-algorithm",
                                 strcmp(alg, "RS256") == 0 ? "RSA" : "EC", "-pkeyopt",
                                 options, "-out", keys->private_path, NULL});
    run_openssl(fixture, (const char *[]){"openssl", "pkey", "-in", keys->private_path,
                                          "-pubout", "-out", keys->public_path, NULL});
    read_pem(keys->private_path, keys->private_pem, sizeof(keys->private_pem));
    read_pem(keys->public_path, keys->public_pem, sizeof(keys->public_pem));
    snprintf(keys->env_alg, sizeof(keys->env_alg), "SECKILL_JWT_ALG=%s", alg);
    snprintf(keys->env_key, sizeof(keys->env_key), "SECKILL_JWT_PUBLIC_KEY_FILE=%s",
             keys->public_path);
}

static void check_algorithm(struct fixture *fixture, const char *alg)
{
    struct keys keys, others;
    const char *env[] = {keys.env_alg, keys.env_key, NULL};
    struct service *keyed;
    const char *claims = claims_of("{\"sub\":\"77\",\"exp\":{}}");

    make_keys(fixture, alg, &others);
    make_keys(fixture, alg, &keys); /* replaces the files of the first */
    keyed = fixture_serve(fixture, env);
    EXPECT(
        request(keyed, token_by(alg, claims, keys.private_pem), NULL, "GET /v1/orders"),
        200, NULL);
    EXPECT(
        request(keyed, token_by(alg, claims, others.private_pem), NULL, "GET /v1/orders"),
        401, "unauthenticated");
    EXPECT(request(keyed, shopper(77), NULL, "GET /v1/orders"), 401, "unauthenticated");
    /* the public key must not work as an HS256 secret */
    EXPECT(request(keyed, token_hs256(NULL, claims, keys.public_pem), NULL,
                   "GET /v1/orders"),
           401, "unauthenticated");
    keys.public_pem[strlen(keys.public_pem) - 1] = '\0'; /* without its last line break */
    EXPECT(request(keyed, token_hs256(NULL, claims, keys.public_pem), NULL,
                   "GET /v1/orders"),
           401, "unauthenticated");
    EXPECT(request(keyed, token_hs256("{\"alg\":\"none\"}", claims, ""), NULL,
                   "GET /v1/orders"),
           401, "unauthenticated");
    assert_int_equal(service_stop(keyed), 0);
}

static void test_algorithm__rs256(void **state)
{
    check_algorithm(*state, "RS256");
}

static void test_algorithm__es256(void **state)
{
    check_algorithm(*state, "ES256");
}

static void test_algorithm__of_the_other_key_is_refused(void **state)
{
    struct keys rsa, ec;
    const char *env[] = {rsa.env_alg, rsa.env_key, NULL};
    struct service *keyed;

    make_keys(*state, "RS256", &rsa);
    make_keys(*state, "ES256", &ec);
    keyed = fixture_serve(*state, env);
    EXPECT(request(keyed,
                   token_by("ES256", claims_of("{\"sub\":\"77\",\"exp\":{}}"),
                            ec.private_pem),
                   NULL, "GET /v1/orders"),
           401, "unauthenticated");
}

/* -- roles -- */

static void test_role__admin_calls_are_forbidden_to_others(void **state)
{
    static const char *const lines[] = {"POST /v1/vouchers", "PATCH /v1/vouchers/{}",
                                        "POST /v1/vouchers/{}/restock"};
    static const char *const bodies[] = {"{}", "{\"title\":\"stolen\"}", "{\"add\":1}"};
    char line[100];

    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        fill(lines[i], voucher_id, line, sizeof(line));
        EXPECT(request(service, NULL, bodies[i], "%s", line), 401, "unauthenticated");
        EXPECT(request(service, shopper(7), bodies[i], "%s", line), 403, "forbidden");
        EXPECT(request(service,
                       token_hs256(
                           NULL,
                           claims_of("{\"sub\":\"7\",\"exp\":{},\"role\":\"payment\"}"),
                           FIXTURE_SECRET),
                       bodies[i], "%s", line),
               403, "forbidden");
    }
    assert_int_equal(sql_number(*state,
                                "select count(*) from voucher where id = %s and title = "
                                "'test' and stock_total = 10000",
                                voucher_id),
                     1);
}

static void test_role__anyone_may_read_vouchers(void **state)
{
    (void)state;
    EXPECT(request(service, NULL, NULL, "GET /v1/vouchers"), 200, NULL);
    EXPECT(request(service, NULL, NULL, "GET /v1/vouchers/%s", voucher_id), 200, NULL);
}

/* -- rates -- */

/* Sends `requests` requests. At most a burst of twice `rate`, and `rate` more for each second that
   this takes, may pass the limiter. @user_id  0: another shopper for each request */
static void assert_limited_to(struct service *limited, int64_t user_id, int64_t rate,
                              int64_t requests)
{
    int64_t begin_us = clock_mono_us(), passed = 0;

    for (int64_t i = 1; i <= requests; i++) {
        const struct client_reply *reply =
            request(limited, shopper(user_id == 0 ? i : user_id), NULL, "GET /v1/orders");

        if (reply->status == 200) {
            passed++;
            continue;
        }
        EXPECT(reply, 429, "rate_limited");
        ASSERT_BETWEEN(reply_retry_after(reply), 1, 10);
    }
    ASSERT_BETWEEN(passed, 0,
                   rate * 2 + 1 + rate * (clock_mono_us() - begin_us) / 1000000);
}

struct patient {
    struct service *service;
    int64_t user_id;
};

static bool is_let_in(void *arg)
{
    struct patient *patient = arg;

    return request(patient->service, shopper(patient->user_id), NULL, "GET /v1/orders")
               ->status == 200;
}

static void test_rate__of_one_shopper_is_limited(void **state)
{
    const char *const env[] = {"SECKILL_RATE_PER_USER=2", "SECKILL_WORKERS=1", NULL};
    struct service *limited = fixture_serve(*state, env);
    struct patient patient = {limited, 50};

    assert_limited_to(limited, 50, 2, 20);
    for (int i = 0; i < 4; i++) /* the burst of another shopper */
        EXPECT(request(limited, shopper(51), NULL, "GET /v1/orders"), 200, NULL);
    AWAIT(is_let_in, &patient);
}

static void test_rate__of_one_address_is_limited(void **state)
{
    const char *const env[] = {"SECKILL_RATE_PER_IP=5", "SECKILL_WORKERS=1", NULL};
    struct service *limited = fixture_spawn(*state, env);
    struct patient patient = {limited, 61};

    AWAIT(is_let_in, &patient);
    assert_limited_to(limited, 0, 5, 60);
    AWAIT(is_let_in, &patient);
}

/* Monitoring must work while clients are limited. */
static void test_rate__probes_are_not_limited(void **state)
{
    static const char *const targets[] = {"/healthz", "/readyz", "/metrics"};
    const char *const env[] = {"SECKILL_RATE_PER_IP=1", "SECKILL_WORKERS=1", NULL};
    struct service *limited = fixture_spawn(*state, env);

    service_await(limited, "/readyz", 200);
    for (int i = 0; i < 10; i++)
        for (size_t k = 0; k < COUNT_OF(targets); k++)
            EXPECT(request(limited, NULL, NULL, "GET %s", targets[k]), 200, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_token__bad_claims_are_refused),
        CASE(test_token__valid_claims_are_accepted),
        CASE(test_token__expires),
        CASE(test_token__other_headers_are_refused),
        CASE(test_token__of_another_algorithm_is_refused),
        CASE(test_token__forged_is_refused),
        CASE(test_header__other_than_bearer_is_refused),
        CASE(test_header__the_scheme_is_case_insensitive),
        CASE(test_header__a_huge_token_is_refused),
        CASE(test_algorithm__rs256),
        CASE(test_algorithm__es256),
        CASE(test_algorithm__of_the_other_key_is_refused),
        CASE(test_role__admin_calls_are_forbidden_to_others),
        CASE(test_role__anyone_may_read_vouchers),
        CASE(test_rate__of_one_shopper_is_limited),
        CASE(test_rate__of_one_address_is_limited),
        CASE(test_rate__probes_are_not_limited),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
