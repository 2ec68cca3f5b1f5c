/* it_auth.c - tokens that expire, keys from files, rates. */
#include "app/test/load_clients.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct service *service;

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
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

/* -- expiry -- */

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

/* -- the algorithms with public keys -- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_token__expires),
        CASE(test_algorithm__rs256),
        CASE(test_algorithm__es256),
        CASE(test_rate__of_one_shopper_is_limited),
        CASE(test_rate__of_one_address_is_limited),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
