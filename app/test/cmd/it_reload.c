/* it_reload.c - after SIGHUP every loop reads the keys of tokens and the certificate again. */
#include "app/test/fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OLD "the old secret, for tokens issued before"
#define NEW "the new secret, for tokens issued later"

/* -- keys -- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char *token_of(const char *kid, const char *secret)
{
    char header[128], claims[100];

    snprintf(header, sizeof(header), "{\"alg\":\"HS256\",\"kid\":\"%s\"}", kid);
    snprintf(claims, sizeof(claims), "{\"sub\":\"7\",\"exp\":%lld}",
             (long long)time(NULL) + 600);
    return token_hs256(header, claims, secret);
}

struct wish {
    struct fixture *fixture;
    struct service *service;
    const char *words;
    int status;
};

static bool has_status(void *arg)
{
    const struct wish *wish = arg;

    for (int i = 0; i < IN_A_ROW; i++)
        if (request(wish->service, wish->words, NULL, "GET /v1/orders")->status !=
            wish->status)
            return false;
    return true;
}

static void test_keys__are_reloaded_on_sighup(void **state)
{
    struct fixture *fixture = *state;
    char path[160], setting[220];
    const char *const env[] = {"SECKILL_JWT_SECRET=", setting, NULL};
    const char *old = token_of("old", OLD), *new = token_of("new", NEW);
    struct service *service;

    snprintf(path, sizeof(path), "%s/keys", fixture->dir);
    snprintf(setting, sizeof(setting), "SECKILL_JWT_KEYS_FILE=%s", path);
    write_file(path, "kid: old\n" OLD "\n");
    service = fixture_serve(fixture, env);
    write_file(path, "kid: old\n" OLD "\nkid: new\n" NEW "\n");
    assert_true(has_status(&(struct wish){NULL, service, old, 200}));
    assert_true(has_status(&(struct wish){NULL, service, new, 401}));
    service_signal(service, SIGHUP);
    AWAIT(has_status, &(struct wish){NULL, service, new, 200});
    AWAIT(has_status, &(struct wish){NULL, service, old, 200});
    write_file(path, "kid: new\n" NEW "\n");
    service_signal(service, SIGHUP);
    AWAIT(has_status, &(struct wish){NULL, service, old, 401});
    AWAIT(has_status, &(struct wish){NULL, service, new, 200});
    for (int i = 0; i < 100; i++) {
        service_signal(service, SIGHUP);
        EXPECT(request(service, new, NULL, "GET /v1/orders"), 200, NULL);
    }
    /* Under a sanitizer, a leak would change the exit code. */
    assert_int_equal(service_stop(service), 0);
}

/* -- the certificate -- */

struct pair {
    char cert[160], key[160];
};

static void make_pair(struct fixture *fixture, const char *name, struct pair *pair)
{
    char subject[80];

    snprintf(pair->cert, sizeof(pair->cert), "%s/%s.crt", fixture->dir, name);
    snprintf(pair->key, sizeof(pair->key), "%s/%s.key", fixture->dir, name);
    snprintf(subject, sizeof(subject), "/CN=%s", name);
    assert_int_equal(
        fixture_run(fixture, NULL,
                    (const char *[]){"openssl", "req", "-x509", "-newkey", "rsa:2048",
                                     "-nodes", "-days", "2", "-subj", subject, "-keyout",
                                     pair->key, "-out", pair->cert, NULL})
            ->code,
        0);
}

static const char *ask_by_tls(const struct wish *wish)
{
    const struct command_result *result;
    char url[100];

    snprintf(url, sizeof(url), "https://%s:%u/healthz", wish->service->address.host,
             (unsigned)wish->service->address.port);
    result = fixture_run(wish->fixture, NULL,
                         (const char *[]){"curl", "-vsSk", "-m", "5", url, NULL});
    return result->code == 0 ? result->err : "";
}

static bool is_up(void *arg)
{
    return ask_by_tls(arg)[0] != '\0';
}

static bool is_shown(void *arg)
{
    const struct wish *wish = arg;

    for (int i = 0; i < IN_A_ROW; i++)
        if (strstr(ask_by_tls(wish), wish->words) == NULL)
            return false;
    return true;
}

static bool is_refusal_logged(void *arg)
{
    const struct wish *wish = arg;

    return service_has_logged(wish->service, "event=reload_refused");
}

static void test_certificate__is_reloaded_on_sighup(void **state)
{
    struct fixture *fixture = *state;
    struct pair first, second;
    char cert[220], key[220];
    const char *const env[] = {cert, key, NULL};
    struct wish wish = {.fixture = fixture, .words = "CN=first"};

    make_pair(fixture, "first", &first);
    make_pair(fixture, "second", &second);
    snprintf(cert, sizeof(cert), "SECKILL_TLS_CERT_FILE=%s", first.cert);
    snprintf(key, sizeof(key), "SECKILL_TLS_KEY_FILE=%s", first.key);
    wish.service = fixture_spawn(fixture, env);
    AWAIT(is_up, &wish);
    assert_true(is_shown(&wish));
    assert_int_equal(rename(second.key, first.key), 0);
    service_signal(wish.service, SIGHUP);
    AWAIT(is_refusal_logged, &wish);
    assert_true(is_shown(&wish));
    assert_int_equal(rename(second.cert, first.cert), 0);
    service_signal(wish.service, SIGHUP);
    wish.words = "CN=second";
    AWAIT(is_shown, &wish);
    assert_int_equal(service_stop(wish.service), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_keys__are_reloaded_on_sighup),
        CASE(test_certificate__is_reloaded_on_sighup),
    };

    return cases_run_all(tests, sizeof(tests) / sizeof(tests[0]), fixture_setup,
                         fixture_end_group);
}
