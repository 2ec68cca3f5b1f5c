/*
 * test_http_tls.c - certificates that are replaced while handshakes are under way; server
 * and client run in the loop of the test.
 */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): RTLD_NEXT
#include "app/http/http.h"
#include "app/test/http_client.h"
#include "base/clock.h"
#include "test/asserts.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REPLACED      50
#define TWO_SWEEPS_MS 1500
#define RSA_ONLY      "NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+RSA"

static struct {
    uv_loop_t loop;
    uv_prepare_t turn_end;
    struct http *http;
    struct client_address address;
    gnutls_datum_t cert, key; /* PEM */
    int freed;                /* certificates */
} site;

/* Replaces the function of GnuTLS, to count freed keys. Each certificate has one key. */
void gnutls_privkey_deinit(gnutls_privkey_t key)
{
    void (*real)(gnutls_privkey_t);

    *(void **)&real = dlsym(RTLD_NEXT, "gnutls_privkey_deinit");
    site.freed++;
    real(key);
}

static void on_turn_end(uv_prepare_t *prepare UNUSED)
{
    http_turn(site.http);
}

static void handle(struct http_request *request, void *arg UNUSED)
{
    http_answer(request, &(const struct http_reply){.status = 204});
}

static void answered(struct http_request *request UNUSED, unsigned status UNUSED,
                     void *arg UNUSED)
{
}

/* A self-signed certificate with an RSA key. */
static void make_pair(void)
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
    gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &site.key);
    gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &site.cert);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

static struct http_tls *new_tls(void)
{
    struct http_tls *tls = NULL;

    assert_int_equal(http_tls_create((const char *)site.cert.data,
                                     (const char *)site.key.data, &tls, NULL),
                     STATUS_OK);
    return tls;
}

static int setup(void **state UNUSED)
{
    struct http_options options = {.loop = &site.loop,
                                   .tls_priority = RSA_ONLY,
                                   .connections_max = 10,
                                   .idle_timeout_s = 60,
                                   .request_timeout_s = 60,
                                   .handle = handle,
                                   .answered = answered};
    unsigned port = 0;

    make_pair();
    uv_loop_init(&site.loop);
    options.tls = new_tls();
    if (http_listen("127.0.0.1:0", 1, &options.listen_fd, &port, NULL) != STATUS_OK ||
        http_start(&options, &site.http, NULL) != STATUS_OK)
        return -1;
    uv_prepare_init(&site.loop, &site.turn_end);
    uv_prepare_start(&site.turn_end, on_turn_end);
    snprintf(site.address.host, sizeof(site.address.host), "127.0.0.1");
    site.address.port = (uint16_t)port;
    site.freed = 0;
    return 0;
}

static int teardown(void **state UNUSED)
{
    uv_close((uv_handle_t *)&site.turn_end, NULL);
    http_stop(site.http);
    uv_run(&site.loop, UV_RUN_DEFAULT);
    http_free(site.http);
    gnutls_free(site.cert.data);
    gnutls_free(site.key.data);
    return uv_loop_close(&site.loop);
}

/* -- the client -- */

struct tls_client {
    struct client *conn;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

/* Sends the first message. */
static void begin_handshake(struct tls_client *client)
{
    client->conn = client_open(&site.address);
    assert_non_null(client->conn);
    fcntl(client_fd(client->conn), F_SETFL, O_NONBLOCK);
    gnutls_init(&client->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
    gnutls_certificate_allocate_credentials(&client->credentials);
    gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials);
    gnutls_priority_set_direct(client->session, RSA_ONLY, NULL);
    gnutls_transport_set_int(client->session, client_fd(client->conn));
    assert_int_equal(gnutls_handshake(client->session), GNUTLS_E_AGAIN);
}

static bool is_readable(const struct tls_client *client)
{
    struct pollfd readable = {.fd = client_fd(client->conn), .events = POLLIN};

    return poll(&readable, 1, 0) == 1;
}

/* Completes the handshake, and a request. */
static void end_handshake(struct tls_client *client)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    char reply[400];
    ssize_t result;

    while ((result = gnutls_handshake(client->session)) == GNUTLS_E_AGAIN)
        uv_run(&site.loop, UV_RUN_NOWAIT);
    assert_int_equal(result, 0);
    assert_true(gnutls_record_send(client->session, request, sizeof(request) - 1) > 0);
    while ((result = gnutls_record_recv(client->session, reply, sizeof(reply))) ==
           GNUTLS_E_AGAIN)
        uv_run(&site.loop, UV_RUN_NOWAIT);
    ASSERT_NUMBER(result, >, 12);
    assert_memory_equal(reply, "HTTP/1.1 204", 12);
}

static void client_end(struct tls_client *client)
{
    gnutls_deinit(client->session);
    gnutls_certificate_free_credentials(client->credentials);
    client_close(client->conn);
}

/* -- tests -- */

static void await_freed(int wanted)
{
    int64_t end_us = clock_mono_us() + CLIENT_TIMEOUT_MS * INT64_C(1000);

    while (site.freed < wanted && clock_mono_us() < end_us)
        uv_run(&site.loop, UV_RUN_NOWAIT);
    assert_int_equal(site.freed, wanted);
}

static void replace(void)
{
    struct http_tls *tls = new_tls();

    site.freed = 0; /* new_tls() has made GnuTLS free keys too */
    http_set_tls(site.http, tls);
}

static void test_set_tls__frees_the_old_certificates(void **state UNUSED)
{
    struct tls_client client;
    struct http_tls *next[REPLACED];

    begin_handshake(&client);
    end_handshake(&client); /* the connection stays open */
    for (int i = 0; i < REPLACED; i++)
        next[i] = new_tls();
    site.freed = 0;
    for (int i = 0; i < REPLACED; i++)
        http_set_tls(site.http, next[i]);
    await_freed(REPLACED);
    client_end(&client);
}

/* An RSA handshake uses the key at its end. */
static void test_set_tls__keeps_a_certificate_during_the_handshake(void **state UNUSED)
{
    struct tls_client client;
    uint64_t start_ms;

    begin_handshake(&client);
    while (!is_readable(&client)) /* the server has sent its certificate */
        uv_run(&site.loop, UV_RUN_NOWAIT);
    replace();
    start_ms = uv_now(&site.loop);
    while (uv_now(&site.loop) < start_ms + TWO_SWEEPS_MS)
        uv_run(&site.loop, UV_RUN_NOWAIT);
    assert_int_equal(site.freed, 0);
    end_handshake(&client);
    await_freed(1);
    client_end(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_tls__frees_the_old_certificates),
        cmocka_unit_test(test_set_tls__keeps_a_certificate_during_the_handshake),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
