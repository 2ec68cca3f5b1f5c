/* it_https.c - TLS: certificates renewed while the service runs; headers; ids in logs. */
#include "app/test/fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static int setup(void **state)
{
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

/* -- TLS -- */

struct pair {
    char cert[160], key[160];
};

static void make_pair(struct fixture *fixture, const char *name, struct pair *pair)
{
    char subject[80];
    const struct command_result *outcome;

    snprintf(pair->cert, sizeof(pair->cert), "%s/%s.crt", fixture->dir, name);
    snprintf(pair->key, sizeof(pair->key), "%s/%s.key", fixture->dir, name);
    snprintf(subject, sizeof(subject), "/CN=%s", name);
    outcome =
        fixture_run(fixture, NULL,
                    (const char *[]){"openssl", "req", "-x509", "-newkey", "rsa:2048",
                                     "-nodes", "-days", "2", "-subj", subject, "-keyout",
                                     pair->key, "-out", pair->cert, NULL});
    if (outcome->code != 0)
        fail_msg("openssl: %s", outcome->err);
}

static void put_pair(const struct pair *from, const struct pair *to)
{
    assert_int_equal(rename(from->key, to->key), 0);
    assert_int_equal(rename(from->cert, to->cert), 0);
}

static const struct command_result *curl(struct fixture *fixture,
                                         const struct service *service, const char *more,
                                         const char *target)
{
    char url[100];

    snprintf(url, sizeof(url), "https://%s:%u%s", service->address.host,
             (unsigned)service->address.port, target);
    return fixture_run(fixture, NULL,
                       (const char *[]){"curl", "-sSk", "-m", "5", more, url, NULL});
}

static bool shows(struct fixture *fixture, const struct service *service,
                  const char *name)
{
    char subject[80];

    snprintf(subject, sizeof(subject), "CN=%s", name);
    return strstr(curl(fixture, service, "-v", "/healthz")->err, subject) != NULL;
}

struct wish {
    struct fixture *fixture;
    struct service *service;
    const char *words;
};

/* Whether all loops present the certificate; each loads it by itself. */
static bool is_shown(void *arg)
{
    const struct wish *wish = arg;

    for (int i = 0; i < 12; i++) {
        if (!shows(wish->fixture, wish->service, wish->words))
            return false;
    }
    return true;
}

static bool is_logged(void *arg)
{
    const struct wish *wish = arg;
    char line[1200];
    bool found = false;
    FILE *file = fopen(wish->service->log_path, "re");

    assert_non_null(file);
    while (!found && fgets(line, sizeof(line), file) != NULL)
        found = strstr(line, wish->words) != NULL;
    fclose(file);
    return found;
}

static bool is_up(void *arg)
{
    const struct wish *wish = arg;

    return curl(wish->fixture, wish->service, "-f", "/readyz")->code == 0;
}

/* @setting  an additional setting, "NAME=value"; NULL: none */
static struct wish serve_tls(struct fixture *fixture, const struct pair *pair,
                             const char *setting)
{
    char cert[220], key[220];
    const char *const env[] = {cert, key, setting, NULL};
    struct wish wish = {.fixture = fixture};

    snprintf(cert, sizeof(cert), "SECKILL_TLS_CERT_FILE=%s", pair->cert);
    snprintf(key, sizeof(key), "SECKILL_TLS_KEY_FILE=%s", pair->key);
    wish.service = fixture_spawn(fixture, env);
    AWAIT(is_up, &wish);
    return wish;
}

static void test_tls__a_renewed_certificate_is_shown_after_a_signal(void **state)
{
    struct fixture *fixture = *state;
    struct pair first, second;
    struct wish wish;

    make_pair(fixture, "first", &first);
    make_pair(fixture, "second", &second);
    wish = serve_tls(fixture, &first, NULL);
    wish.words = "first";
    assert_true(is_shown(&wish));
    put_pair(&second, &first);
    assert_true(is_shown(&wish)); /* not before the signal */
    service_signal(wish.service, SIGHUP);
    wish.words = "second";
    AWAIT(is_shown, &wish);
    assert_int_equal(service_stop(wish.service), 0);
}

static void test_tls__a_pair_that_does_not_match_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct pair first, second;
    char cert[220], key[220];
    const char *const env[] = {cert, key, "SECKILL_LISTEN=127.0.0.1:0", NULL};
    const struct command_result *outcome;
    struct wish wish;

    make_pair(fixture, "first", &first);
    make_pair(fixture, "second", &second);
    snprintf(cert, sizeof(cert), "SECKILL_TLS_CERT_FILE=%s", first.cert);
    snprintf(key, sizeof(key), "SECKILL_TLS_KEY_FILE=%s", second.key);
    outcome = fixture_run(
        fixture, env, (const char *[]){"timeout", "60", fixture->program, "serve", NULL});
    assert_int_equal(outcome->code, 64);
    ASSERT_CONTAINS(outcome->err, "SECKILL_TLS_KEY_FILE");

    wish = serve_tls(fixture, &first, NULL);
    assert_int_equal(rename(second.key, first.key),
                     0); /* the key changes, the certificate does not */
    service_signal(wish.service, SIGHUP);
    wish.words = "event=reload_refused";
    AWAIT(is_logged, &wish);
    wish.words = "first";
    assert_true(is_shown(&wish)); /* the old pair stays in use */
    assert_int_equal(service_stop(wish.service), 0);
}

static void test_tls__answers_have_strict_transport_security(void **state)
{
    struct fixture *fixture = *state;
    struct pair pair;
    struct wish wish;
    static const char *const targets[] = {"/healthz", "/v1/orders", "/nothing"};

    make_pair(fixture, "first", &pair);
    wish = serve_tls(fixture, &pair, NULL);
    for (size_t i = 0; i < COUNT_OF(targets); i++)
        ASSERT_CONTAINS(curl(fixture, wish.service, "-i", targets[i])->out,
                        "Strict-Transport-Security: max-age=");
}

/* Whether openssl completes a handshake with these options. */
static bool accepts(const struct wish *wish, const char *options)
{
    char script[200];

    snprintf(script, sizeof(script), "openssl s_client -connect %s:%u %s </dev/null",
             wish->service->address.host, (unsigned)wish->service->address.port, options);
    return fixture_run(wish->fixture, NULL, (const char *[]){"sh", "-c", script, NULL})
               ->code == 0;
}

static void test_tls__versions_and_ciphers(void **state)
{
    static const struct {
        const char *options;
        bool is_accepted, is_accepted_by_setting;
    } rows[] = {
        {"-tls1_3", true, false},
        {"-tls1_2 -cipher ECDHE-RSA-AES256-GCM-SHA384", true, false},
        {"-tls1_2 -cipher ECDHE-RSA-CHACHA20-POLY1305", true, false},
        {"-tls1_2 -cipher AES256-GCM-SHA384", false, false},
        {"-tls1_2 -cipher ECDHE-RSA-AES256-SHA:ECDHE-RSA-AES128-SHA", false, true},
        {"-tls1_1 -cipher ALL:@SECLEVEL=0", false, false},
        {"-tls1 -cipher ALL:@SECLEVEL=0", false, false},
    };
    struct pair pair;
    struct wish by_default, by_setting;

    make_pair(*state, "first", &pair);
    by_default = serve_tls(*state, &pair, NULL);
    by_setting = serve_tls(*state, &pair,
                           "SECKILL_TLS_PRIORITY=NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:"
                           "+ECDHE-RSA:-CIPHER-ALL:+AES-256-CBC");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (accepts(&by_default, rows[i].options) != rows[i].is_accepted ||
            accepts(&by_setting, rows[i].options) != rows[i].is_accepted_by_setting)
            fail_msg("%s", rows[i].options);
    }
}

/* -- headers -- */

static void test_headers__answers_to_a_token_are_not_stored(void **state)
{
    struct service *service = fixture_serve(*state, NULL);
    const struct client_reply *reply =
        EXPECT(request(service, admin(), NULL, "GET /v1/orders?user_id=1"), 200, NULL);

    assert_string_equal(reply_header(reply, "Cache-Control"), "no-store");
    reply =
        EXPECT(request(service, admin(), NULL, "HEAD /v1/orders?user_id=1"), 200, NULL);
    assert_string_equal(reply_header(reply, "Cache-Control"), "no-store");
    reply = EXPECT(request(service, NULL, NULL, "GET /v1/vouchers"), 200, NULL);
    assert_string_equal(reply_header(reply, "Cache-Control"), "public, max-age=1");
}

static int count_headers(const struct client_reply *reply, const char *name)
{
    int count = 0;

    for (size_t at = 0; at < reply->head_len; at += strlen(reply->head + at) + 1)
        count += strncasecmp(reply->head + at, name, strlen(name)) == 0;
    return count;
}

static void test_headers__shared_answers_to_a_token_are_not_stored(void **state)
{
    static const char *const headers[] = {NULL, "X-Request-Id: one\r\n"};
    static const char *const targets[] = {"/v1/vouchers", "/v1/vouchers?state=open",
                                          "/v1/orders/1"};
    struct service *service = fixture_serve(*state, NULL);

    for (size_t i = 0; i < COUNT_OF(headers) * COUNT_OF(targets); i++) {
        const struct client_reply *reply =
            request_with(service, admin(), headers[i % COUNT_OF(headers)], NULL, "GET %s",
                         targets[i / COUNT_OF(headers)]);

        assert_int_equal(count_headers(reply, "Cache-Control:"), 1);
        assert_string_equal(reply_header(reply, "Cache-Control"), "no-store");
    }
}

/* -- ids -- */

static void assert_logged(struct service *service, const char *words)
{
    struct wish wish = {.service = service, .words = words};

    if (!becomes_true(is_logged, &wish))
        fail_msg("no \"%s\" in %s", words, service->log_path);
}

static void test_request_id__is_logged_with_the_traceparent(void **state)
{
    static const char parent[] =
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const char *const env[] = {"SECKILL_LOG_LEVEL=debug", NULL};
    struct service *service = fixture_serve(*state, env);
    const struct client_reply *reply;
    char header[200], words[200];

    snprintf(header, sizeof(header), "X-Request-Id: r-1\r\ntraceparent: %s\r\n", parent);
    request_with(service, NULL, header, NULL, "GET /nothing");
    snprintf(words, sizeof(words),
             "event=request request_id=r-1 traceparent=%s path=\"/nothing\" status=404",
             parent);
    assert_logged(service, words);
    request_with(service, NULL, "X-Request-Id: r-2\r\ntraceparent: 00-evil\"-1-1\r\n",
                 NULL, "GET /no%%22thing%%0a");
    assert_logged(service, "request_id=r-2 path=\"/no'thing \" status=404");
    /* a logged request has an id, and the client gets it */
    reply = request(service, NULL, NULL, "GET /nothing");
    snprintf(words, sizeof(words), "request_id=%s path=\"/nothing\"",
             client_header(reply, "X-Request-Id"));
    assert_logged(service, words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_tls__a_renewed_certificate_is_shown_after_a_signal),
        CASE(test_tls__a_pair_that_does_not_match_is_refused),
        CASE(test_tls__answers_have_strict_transport_security),
        CASE(test_tls__versions_and_ciphers),
        CASE(test_headers__answers_to_a_token_are_not_stored),
        CASE(test_headers__shared_answers_to_a_token_are_not_stored),
        CASE(test_request_id__is_logged_with_the_traceparent),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
