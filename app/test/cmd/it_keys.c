/* it_keys.c - keys with ids, reloaded while the service runs; revoked tokens. */
#include "app/test/fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OLD "the old secret, for tokens issued before"
#define NEW "the new secret, for tokens issued later"

static int setup(void **state)
{
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

/* A token with these claims, and with sub and exp; `kid` may be NULL. */
static const char *token_of(const char *kid, const char *secret, const char *claims)
{
    char header[128] = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";
    char all[400];

    if (kid != NULL)
        snprintf(header, sizeof(header), "{\"alg\":\"HS256\",\"kid\":\"%s\"}", kid);
    snprintf(all, sizeof(all), "{\"sub\":\"7\",\"exp\":%lld%s}",
             (long long)time(NULL) + 600, claims);
    return token_hs256(header, all, secret);
}

static int status_of(struct service *service, const char *token)
{
    return request(service, token, NULL, "GET /v1/orders")->status;
}

/* -- several keys -- */

static void write_file(const char *path, const char *text)
{
    char fresh[200];
    FILE *file;

    snprintf(fresh, sizeof(fresh), "%s.new", path);
    file = fopen(fresh, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

struct expectation {
    struct service *service;
    const char *token;
    int status;
};

/* Several requests, since each loop changes its keys on its own. */
static bool has_status(void *arg)
{
    const struct expectation *expected = arg;

    for (int i = 0; i < 16; i++) {
        if (status_of(expected->service, expected->token) != expected->status)
            return false;
    }
    return true;
}

static void await_status(struct service *service, const char *token, int status)
{
    struct expectation expected = {.service = service, .token = token, .status = status};

    assert_true(becomes_true(has_status, &expected));
}

static void test_keys__are_reloaded_on_sighup(void **state)
{
    struct fixture *fixture = *state;
    char path[160], setting[220];
    const char *const env[] = {"SECKILL_JWT_SECRET=", setting, NULL};
    const char *old = token_of("old", OLD, ""), *new = token_of("new", NEW, "");
    struct service *service;

    snprintf(path, sizeof(path), "%s/keys", fixture->dir);
    snprintf(setting, sizeof(setting), "SECKILL_JWT_KEYS_FILE=%s", path);
    write_file(path, "kid: old\n" OLD "\n");
    service = fixture_serve(fixture, env);
    assert_int_equal(status_of(service, old), 200);
    assert_int_equal(status_of(service, new), 401);

    write_file(path, "kid: old\n" OLD "\nkid: new\n" NEW "\n");
    assert_int_equal(status_of(service, new), 401); /* not before the signal */
    service_signal(service, SIGHUP);
    await_status(service, new, 200);
    await_status(service, old, 200);

    write_file(path, "kid: new\n" NEW "\n");
    service_signal(service, SIGHUP);
    await_status(service, old, 401);
    await_status(service, new, 200);
    assert_int_equal(service_stop(service), 0);
}

static void test_keys__many_reloads_lose_no_request(void **state)
{
    struct service *service = fixture_serve(*state, NULL);
    const char *token = shopper(7);

    for (int i = 0; i < 200; i++) {
        service_signal(service, SIGHUP);
        assert_int_equal(status_of(service, token), 200);
    }
    assert_int_equal(service_stop(service), 0); /* under a sanitizer: without a leak */
}

/* -- revoked tokens -- */

static void test_revoked__token_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct service *service = fixture_serve(fixture, NULL);
    const char *token = token_of(NULL, FIXTURE_SECRET, ",\"jti\":\"t-1\"");
    const char *other = token_of(NULL, FIXTURE_SECRET, ",\"jti\":\"t-2\"");
    char id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 10}, id);
    EXPECT(request(service, token, NULL, "GET /v1/orders"), 200, NULL);
    redis_do(fixture, "SET revoked:t-1 1 EX 100");
    EXPECT(request(service, token, NULL, "GET /v1/orders"), 401, "unauthenticated");
    EXPECT(request(service, token, NULL, "POST /v1/vouchers/%s/orders", id), 401,
           "unauthenticated");
    assert_int_equal(sql_live_orders(fixture, id), 0);
    EXPECT(request(service, other, NULL, "POST /v1/vouchers/%s/orders", id), 201, NULL);
    redis_do(fixture, "DEL revoked:t-1");
    EXPECT(request(service, token, NULL, "GET /v1/orders"), 200, NULL);
}

struct refusal {
    struct fixture *fixture;
    struct service *service;
    const char *token, *voucher_id;
};

/* If the machine pauses for 0.8 s, the entry of the voucher expires, and the service looks up the
   token. */
static bool is_refused_from_memory(void *arg)
{
    const struct refusal *refusal = arg;

    EXPECT(place_order(refusal->service, 9, refusal->voucher_id, NULL), 409, "sold_out");
    redis_do(refusal->fixture, "CONFIG RESETSTAT");
    return reply_is(request(refusal->service, refusal->token, NULL,
                            "POST /v1/vouchers/%s/orders", refusal->voucher_id),
                    409, "sold_out");
}

/* Nearly every request of a sale is refused from memory: none may cost a Redis command. */
static void test_revoked__refusal_from_memory_sends_nothing_to_redis(void **state)
{
    struct fixture *fixture = *state;
    const char *const one_loop[] = {"SECKILL_WORKERS=1", NULL};
    struct service *service = fixture_serve(fixture, one_loop);
    const char *token = token_of(NULL, FIXTURE_SECRET, ",\"jti\":\"t-3\"");
    struct refusal refusal = {fixture, service, token, NULL};
    char id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 1}, id);
    EXPECT(place_order(service, 8, id, NULL), 201, NULL);
    redis_do(fixture, "SET revoked:t-3 1 EX 100");
    refusal.voucher_id = id;
    AWAIT(is_refused_from_memory, &refusal);
    assert_null(strstr(redis_do(fixture, "INFO commandstats"), "cmdstat_exists"));
    EXPECT(request(service, token, NULL, "GET /v1/orders"), 401, "unauthenticated");
    assert_non_null(strstr(redis_do(fixture, "INFO commandstats"), "cmdstat_exists"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_keys__are_reloaded_on_sighup),
        CASE(test_keys__many_reloads_lose_no_request),
        CASE(test_revoked__token_is_refused),
        CASE(test_revoked__refusal_from_memory_sends_nothing_to_redis),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
