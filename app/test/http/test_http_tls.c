/*
 * test_http_tls.c - handshakes, and certificates that are replaced during a handshake.
 *
 * The server and the client run in the loop of the test.
 */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): RTLD_NEXT
#include "app/core/config.h"
#include "app/test/http/http_site.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define REPLACED      50
#define TWO_SWEEPS_MS 1500
#define ONE_VERSION   "NORMAL:-VERS-ALL:+VERS-TLS"
#define RSA_ONLY      ONE_VERSION "1.2:-KX-ALL:+RSA"

struct pair {
    gnutls_datum_t cert, key;
};

static struct pair pairs[2];
static int freed;

/* Replaces the function of GnuTLS, to count the keys that are freed. Each certificate has one
   key. */
void gnutls_privkey_deinit(gnutls_privkey_t key)
{
    void (*real)(gnutls_privkey_t);

    *(void **)&real = dlsym(RTLD_NEXT, "gnutls_privkey_deinit");
    freed++;
    real(key);
}

static void handle(struct http_request *request, void *arg UNUSED)
{
    http_answer(request, &(const struct http_reply){.status = 204});
}

static void make_pair(struct pair *pair)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;

    gnutls_x509_privkey_init(&key);
    gnutls_x509_crt_init(&cert);
    gnutls_x509_privkey_generate(key, GNUTLS_PK_RSA, 2048, 0);
    gnutls_x509_crt_set_version(cert, 3);
    gnutls_x509_crt_set_serial(cert, "1", 1);
    gnutls_x509_crt_set_activation_time(cert, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 3600);
    gnutls_x509_crt_set_key(cert, key);
    assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pair->key);
    gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pair->cert);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

static struct http_tls *new_tls(void)
{
    struct http_tls *tls = NULL;

    ASSERT_STATUS(http_tls_create((const char *)pairs[0].cert.data,
                                  (const char *)pairs[0].key.data, &tls, NULL),
                  RLOCK_OK);
    return tls;
}

static int open_with(const char *priority)
{
    const struct http_options options = {.tls = new_tls(),
                                         .tls_priority = priority,
                                         .connections_max = 10,
                                         .handle = handle};

    return site_open(options);
}

static int open_for_rsa(void **state UNUSED)
{
    return open_with(RSA_ONLY);
}

static int close_site(void **state UNUSED)
{
    return site_close();
}

#define CASE(name) DEFINE_CASE(name, name, open_for_rsa, close_site, NULL)

static int make_pairs(void **state UNUSED)
{
    for (int i = 0; i < 2; i++)
        make_pair(&pairs[i]);
    return 0;
}

static int free_pairs(void **state UNUSED)
{
    for (int i = 0; i < 2; i++) {
        gnutls_free(pairs[i].cert.data);
        gnutls_free(pairs[i].key.data);
    }
    return 0;
}

/* -- the client -- */

struct tls_client {
    struct client *conn;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

static void begin_handshake(struct tls_client *client, const char *priority)
{
    client->conn = client_open(&site.address);
    assert_non_null(client->conn);
    fcntl(client_fd(client->conn), F_SETFL, O_NONBLOCK);
    gnutls_init(&client->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
    gnutls_certificate_allocate_credentials(&client->credentials);
    gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials);
    assert_int_equal(gnutls_priority_set_direct(client->session, priority, NULL), 0);
    gnutls_transport_set_int(client->session, client_fd(client->conn));
    assert_int_equal(gnutls_handshake(client->session), GNUTLS_E_AGAIN);
}

static bool is_readable(void *arg)
{
    const struct tls_client *client = arg;
    struct pollfd readable = {.fd = client_fd(client->conn), .events = POLLIN};

    return poll(&readable, 1, 0) == 1;
}

static int end_handshake(struct tls_client *client)
{
    int result;

    while ((result = gnutls_handshake(client->session)) == GNUTLS_E_AGAIN)
        uv_run(&site.loop, UV_RUN_NOWAIT);
    return result;
}

static void assert_answered(struct tls_client *client)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    char reply[400] = "";

    assert_true(gnutls_record_send(client->session, request, sizeof(request) - 1) > 0);
    while (gnutls_record_recv(client->session, reply, sizeof(reply) - 1) ==
           GNUTLS_E_AGAIN)
        uv_run(&site.loop, UV_RUN_NOWAIT);
    ASSERT_CONTAINS(reply, "HTTP/1.1 204");
    ASSERT_CONTAINS(reply, "\r\nStrict-Transport-Security: max-age=31536000\r\n");
}

static void client_end(struct tls_client *client)
{
    gnutls_deinit(client->session);
    gnutls_certificate_free_credentials(client->credentials);
    client_close(client->conn);
}

/* -- tests -- */

UNIT_CASE(test_tls_create__refuses_the_key_of_another_certificate)
{
    struct http_tls *tls = NULL;
    struct rlock_err err = {0};

    ASSERT_STATUS(http_tls_create((const char *)pairs[0].cert.data,
                                  (const char *)pairs[1].key.data, &tls, &err),
                  RLOCK_INVALID);
    assert_null(tls);
    ASSERT_CONTAINS(err.text, "SECKILL_TLS_CERT_FILE and SECKILL_TLS_KEY_FILE must be");
}

UNIT_CASE(test_handshake__by_the_default_priority)
{
    static const struct {
        const char *priority;
        bool is_accepted;
    } rows[] = {
        {ONE_VERSION "1.3", true},
        {ONE_VERSION "1.2:-KX-ALL:+ECDHE-RSA:-CIPHER-ALL:+AES-256-GCM", true},
        {ONE_VERSION "1.2:-KX-ALL:+ECDHE-RSA:-CIPHER-ALL:+CHACHA20-POLY1305", true},
        {ONE_VERSION "1.2:-KX-ALL:+ECDHE-RSA:-CIPHER-ALL:+AES-256-CBC", false},
        {RSA_ONLY, false},
        {ONE_VERSION "1.1", false},
        {ONE_VERSION "1.0", false},
    };
    struct config config;

    ASSERT_STATUS(config_read(&config, NULL), RLOCK_OK);
    assert_int_equal(open_with(config.tls_priority), 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tls_client client;

        begin_handshake(&client, rows[i].priority);
        if ((end_handshake(&client) == 0) != rows[i].is_accepted)
            fail_msg("%s: expected that it is %s", rows[i].priority,
                     rows[i].is_accepted ? "accepted" : "refused");
        if (rows[i].is_accepted)
            assert_answered(&client);
        client_end(&client);
    }
    assert_int_equal(site_close(), 0);
    config_clear(&config);
}

static void await_freed(int wanted)
{
    int64_t end_us = clock_mono_us() + CLIENT_TIMEOUT_MS * INT64_C(1000);

    while (freed < wanted && clock_mono_us() < end_us)
        uv_run(&site.loop, UV_RUN_NOWAIT);
    assert_int_equal(freed, wanted);
}

CASE(test_set_tls__frees_the_old_certificates)
{
    struct tls_client client;
    struct http_tls *next[REPLACED];

    begin_handshake(&client, RSA_ONLY);
    assert_int_equal(end_handshake(&client), 0);
    assert_answered(&client);
    for (int i = 0; i < REPLACED; i++)
        next[i] = new_tls();
    freed = 0;
    for (int i = 0; i < REPLACED; i++)
        http_set_tls(site.http, next[i]);
    await_freed(REPLACED);
    client_end(&client);
}

/* An RSA handshake uses the key at its end, so the old key must be kept until then. */
CASE(test_set_tls__keeps_a_certificate_during_the_handshake)
{
    struct tls_client client;
    struct http_tls *next = new_tls();

    begin_handshake(&client, RSA_ONLY);
    assert_true(runs_until(is_readable, &client));
    freed = 0;
    http_set_tls(site.http, next);
    for (int i = 0; i < 5; i++) {
        site.passed_ms += TWO_SWEEPS_MS;
        uv_run(&site.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(freed, 0);
    assert_int_equal(end_handshake(&client), 0);
    assert_answered(&client);
    site.passed_ms += TWO_SWEEPS_MS;
    await_freed(1);
    client_end(&client);
}

int main(void)
{
    return cases_run(make_pairs, free_pairs);
}
