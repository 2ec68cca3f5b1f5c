/*
 * it_tls.c - rediss:// URLs: a build without TLS refuses them, and a build with TLS checks the
 * server.
 */
#include "test/child.h"
#include "test/fixture.h"
#include "test/port.h"
#include "test/probe.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef REDIS_WITH_TLS

FIXTURE_CASE(test_redis_conn_open__refuses_tls_in_a_build_without)
{
    struct fixture *fixture = *state;
    struct redis_url url;
    struct redis_conn *conn = NULL;
    struct rlock_err err = {0};
    struct redis_conn_options options = {.loop = &fixture->loop, .url = &url};

    ASSERT_STATUS(redis_url_parse("rediss://host", &url, NULL), RLOCK_OK);
    ASSERT_STATUS(redis_conn_open(&options, &conn, &err), RLOCK_INVALID);
    assert_null(conn);
    ASSERT_CONTAINS(err.text, "built without it");
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}

#else

#define CONN_TIMEOUT_MS TIMEOUT_MS

/** A server with a self-signed certificate for localhost. */
struct tls_server {
    struct server server;
    char dir[64], cert[96], key[96], port_text[8];
    uint16_t port;
};

#define OPTIONS 11

static void start_tls(struct tls_server *tls, const char **options,
                      const char *auth_clients)
{
    const char *const request[] = {
        "openssl",  "req",           "-x509",   "-newkey",
        "rsa:2048", "-nodes",        "-days",   "2",
        "-subj",    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        "-keyout",  tls->key,        "-out",    tls->cert,
        NULL};
    char output[4096];

    snprintf(tls->dir, sizeof(tls->dir), "/tmp/rlock-tls.XXXXXX");
    assert_non_null(mkdtemp(tls->dir));
    snprintf(tls->cert, sizeof(tls->cert), "%s/cert", tls->dir);
    snprintf(tls->key, sizeof(tls->key), "%s/key", tls->dir);
    if (child_run(request, output, sizeof(output)) != 0)
        fail_msg("openssl req: %s", output);
    tls->port = port_free();
    snprintf(tls->port_text, sizeof(tls->port_text), "%u", tls->port);
    options[0] = "--tls-port";
    options[1] = tls->port_text;
    options[2] = "--tls-cert-file";
    options[3] = tls->cert;
    options[4] = "--tls-key-file";
    options[5] = tls->key;
    options[6] = "--tls-auth-clients";
    options[7] = auth_clients;
    options[8] = "--tls-ca-cert-file";
    options[9] = tls->cert;
    options[10] = NULL;
    server_start(&tls->server, options);
}

static void stop_tls(struct tls_server *tls)
{
    server_stop(&tls->server);
    unlink(tls->cert);
    unlink(tls->key);
    rmdir(tls->dir);
}

FIXTURE_CASE(test_tls__trusted_server_of_the_right_name)
{
    struct fixture *fixture = *state;
    /* static, because a failed test leaves the server to the teardown */
    static struct tls_server tls;
    const char *options[OPTIONS];
    struct probe probe;
    struct command commands[40] = {0}, last = {0};
    char url[64], *big = malloc(50001);

    memset(big, 'x', 50000);
    big[50000] = '\0';
    start_tls(&tls, options, "no");
    setenv("SSL_CERT_FILE", tls.cert, 1);
    snprintf(url, sizeof(url), "rediss://localhost:%u", tls.port);
    probe_open(&probe, fixture, url, CONN_TIMEOUT_MS);
    probe_wait(&probe, &probe.ups, 1);
    for (int i = 0; i < 40; i++) { /* more than the socket takes at once */
        ASSERT_STATUS(probe_send(&probe, &commands[i], "ECHO", big), RLOCK_OK);
        redis_conn_flush(probe.conn);
    }
    for (int i = 0; i < 40; i++) {
        probe_wait(&probe, &commands[i].answers, 1);
        ASSERT_STATUS(commands[i].status, RLOCK_OK);
    }
    server_kill(&tls.server);
    probe_wait(&probe, &probe.downs, 1);
    server_restart(&tls.server);
    probe_wait(&probe, &probe.ups, 2);
    probe_command(&probe, &last, "ECHO", "again");
    assert_string_equal(last.text, "again");
    probe_close(&probe);
    stop_tls(&tls);
    free(big);
}

/** @why  NULL: any reason, because the server may close the connection before its reason arrives */
static void assert_refused(struct fixture *fixture, const char *url, const char *why,
                           uint32_t timeout_ms)
{
    struct probe probe;

    probe_open(&probe, fixture, url, timeout_ms);
    probe_wait(&probe, &probe.downs, 1);
    assert_int_equal(probe.ups, 0);
    if (why != NULL)
        probe_assert_why(&probe, why);
    probe_close(&probe);
}

static void assert_host_refused(struct fixture *fixture, const char *host, uint16_t port,
                                const char *why, uint32_t timeout_ms)
{
    char url[64];

    snprintf(url, sizeof(url), "rediss://%s:%u", host, port);
    assert_refused(fixture, url, why, timeout_ms);
}

FIXTURE_CASE(test_tls__refuses_wrong_names_and_strangers)
{
    struct fixture *fixture = *state;
    static struct tls_server tls;
    const char *options[OPTIONS];

    start_tls(&tls, options, "no");
    setenv("SSL_CERT_FILE", tls.cert, 1);
    assert_host_refused(fixture, "127.0.0.1", tls.port, "tls: IP address mismatch",
                        CONN_TIMEOUT_MS);
    setenv("SSL_CERT_FILE", "/dev/null", 1);
    setenv("SSL_CERT_DIR", "/nowhere", 1);
    assert_host_refused(fixture, "localhost", tls.port, "tls: self-signed certificate",
                        CONN_TIMEOUT_MS);
    unsetenv("SSL_CERT_DIR");
    stop_tls(&tls);
}

/** One self-signed certificate serves as certificate and as authority, for the server and for
 *  the client. */
FIXTURE_CASE(test_tls__both_sides_show_a_certificate)
{
    struct fixture *fixture = *state;
    static struct tls_server tls, other;
    const char *options[OPTIONS], *others[OPTIONS];
    struct probe probe;
    char url[400];

    start_tls(&tls, options, "yes");
    start_tls(&other, others, "yes");
    setenv("SSL_CERT_FILE", tls.cert, 1);
    snprintf(url, sizeof(url), "rediss://localhost:%u?cacert=%s&cert=%s&key=%s", tls.port,
             tls.cert, tls.cert, tls.key);
    probe_open(&probe, fixture, url, CONN_TIMEOUT_MS);
    probe_wait(&probe, &probe.ups, 1);
    probe_close(&probe);
    snprintf(url, sizeof(url), "rediss://localhost:%u?cacert=%s", tls.port, tls.cert);
    assert_refused(fixture, url, NULL, CONN_TIMEOUT_MS);
    snprintf(url, sizeof(url), "rediss://localhost:%u?cacert=%s&cert=%s&key=%s", tls.port,
             tls.cert, other.cert, other.key);
    assert_refused(fixture, url, NULL, CONN_TIMEOUT_MS);
    /* With cacert the authorities of the system are not trusted. */
    snprintf(url, sizeof(url), "rediss://localhost:%u?cacert=%s&cert=%s&key=%s", tls.port,
             other.cert, tls.cert, tls.key);
    assert_refused(fixture, url, "tls: self-signed certificate", CONN_TIMEOUT_MS);
    stop_tls(&tls);
    stop_tls(&other);
}

static void assert_open_refused(struct fixture *fixture, const char *url,
                                const char *words)
{
    struct rlock_client_options options = {
        .loop = &fixture->loop, .redis_url = url, .timeout_ms = CONN_TIMEOUT_MS};
    struct rlock_client *client = NULL;
    struct rlock_err err = {0};

    ASSERT_STATUS(rlock_client_open(&options, &client, &err), RLOCK_IO);
    assert_null(client);
    ASSERT_CONTAINS(err.text, words);
}

/** A key may be encrypted. Then its password is not asked for at the terminal. */
FIXTURE_CASE(test_rlock_client_open__names_the_file_that_tls_cannot_load)
{
    struct fixture *fixture = *state;
    static struct tls_server tls, other;
    const char *options[OPTIONS], *others[OPTIONS];
    char url[400], locked[128], output[4096];
    const char *const lock[] = {"openssl", "rsa",   "-aes128", "-passout", "pass:secret",
                                "-in",     tls.key, "-out",    locked,     NULL};

    start_tls(&tls, options, "no");
    start_tls(&other, others, "no");
    snprintf(locked, sizeof(locked), "%s/locked", tls.dir);
    if (child_run(lock, output, sizeof(output)) != 0)
        fail_msg("openssl rsa: %s", output);
    assert_open_refused(fixture, "rediss://h?cacert=/nowhere",
                        "tls: cacert: /nowhere: no such file or directory");
    assert_open_refused(fixture, "rediss://h?cert=/nowhere&key=/nowhere",
                        "tls: cert: /nowhere: no such file or directory");
    assert_open_refused(fixture, "rediss-sentinel://h?master=m&cacert=/nowhere",
                        "tls: cacert: /nowhere: no such file or directory");
    snprintf(url, sizeof(url), "rediss://h?cacert=%s", tls.key);
    assert_open_refused(fixture, url, "tls: cacert: ");
    snprintf(url, sizeof(url), "rediss://h?cert=%s&key=%s", tls.cert, tls.cert);
    assert_open_refused(fixture, url, "tls: key: ");
    snprintf(url, sizeof(url), "rediss://h?cert=%s&key=%s", tls.cert, other.key);
    assert_open_refused(fixture, url, "key values mismatch");
    snprintf(url, sizeof(url), "rediss://h?cert=%s&key=%s", tls.cert, locked);
    assert_open_refused(fixture, url, "tls: key: ");
    unlink(locked);
    stop_tls(&tls);
    stop_tls(&other);
}

/* A server without TLS: Redis 7 does not answer the TLS handshake, and Redis 8 answers in plain
   text. */
FIXTURE_CASE(test_tls__server_that_does_not_answer_is_told)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int silent = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(silent, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(silent, 1), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&address, &len), 0);
    assert_host_refused(*state, "127.0.0.1", ntohs(address.sin_port), "no reply", 200);
    close(silent);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}

#endif
