/* tls.c - OpenSSL under hiredis. It checks the name of the server, because hiredis does not. */
#include "redis/tls.h"

#include <stddef.h>

#ifndef REDIS_WITH_TLS

enum rlock_status redis_tls_open(const struct redis_url *url UNUSED,
                                 struct redis_tls **ret_tls UNUSED,
                                 struct rlock_err *reterr)
{
    return err_set(reterr, RLOCK_INVALID,
                   "redis url: rediss:// needs TLS; this program was built without it, "
                   "because hiredis_ssl (Debian 13 or later) was missing");
}

void redis_tls_close(struct redis_tls *tls UNUSED)
{
}

enum rlock_status redis_tls_start(struct redis_tls *tls UNUSED,
                                  struct redisContext *context UNUSED,
                                  const char *host UNUSED, struct rlock_err *reterr)
{
    return err_set(reterr, RLOCK_INVALID, "this program was built without TLS");
}

bool redis_tls_wants_read(const struct redis_tls *tls UNUSED)
{
    return false;
}

const char *redis_tls_reason(const struct redis_tls *tls UNUSED)
{
    return NULL;
}

#else

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

struct redis_tls {
    SSL_CTX *settings;
    SSL *session; /* owned by the redisContext of the current connection */
};

static int load_key(SSL_CTX *settings, const char *path)
{
    SSL_CTX_set_default_passwd_cb_userdata(settings, ""); /* do not ask for a password */
    return SSL_CTX_use_PrivateKey_file(settings, path, SSL_FILETYPE_PEM);
}

static enum rlock_status load_files(SSL_CTX *settings, const struct redis_url *url,
                                    struct rlock_err *reterr)
{
    const struct {
        const char *name, *path;
        int (*load)(SSL_CTX *settings, const char *path);
    } files[] = {{"cacert", url->cacert, SSL_CTX_load_verify_file},
                 {"cert", url->cert, SSL_CTX_use_certificate_chain_file},
                 {"key", url->key, load_key}};

    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        const char *path = files[i].path, *reason;

        ERR_clear_error();
        if (path[0] == '\0' ||
            (access(path, R_OK) == 0 && files[i].load(settings, path) == 1))
            continue;
        reason = ERR_reason_error_string(ERR_peek_error());
        return err_set(reterr, RLOCK_IO, "tls: %s: %s: %s", files[i].name, path,
                       reason == NULL ? uv_strerror(-errno) : reason);
    }
    return RLOCK_OK;
}

enum rlock_status redis_tls_open(const struct redis_url *url, struct redis_tls **ret_tls,
                                 struct rlock_err *reterr)
{
    struct redis_tls *tls = calloc(1, sizeof(*tls));
    enum rlock_status status = RLOCK_NO_MEMORY;

    if (tls == NULL)
        goto out;
    tls->settings = SSL_CTX_new(TLS_client_method());
    if (tls->settings == NULL)
        goto out;
    if (SSL_CTX_set_min_proto_version(tls->settings, TLS1_2_VERSION) != 1 ||
        (url->cacert[0] == '\0' &&
         SSL_CTX_set_default_verify_paths(tls->settings) != 1)) {
        status = err_set(reterr, RLOCK_IO, "tls: cannot load certificate authorities");
        goto out;
    }
    status = load_files(tls->settings, url, reterr);
    if (status != RLOCK_OK)
        goto out;
    SSL_CTX_set_verify(tls->settings, SSL_VERIFY_PEER, NULL);
    *ret_tls = tls;
    tls = NULL;
out:
    redis_tls_close(tls);
    return status;
}

void redis_tls_close(struct redis_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->settings);
    free(tls);
}

static bool expect_name(SSL *session, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host) == 1;
    return SSL_set_tlsext_host_name(session, host) == 1 &&
           SSL_set1_host(session, host) == 1;
}

static const char *reason_of(const SSL *session)
{
    long verified = SSL_get_verify_result(session);

    if (verified != X509_V_OK)
        return X509_verify_cert_error_string(verified);
    return ERR_reason_error_string(ERR_peek_last_error());
}

enum rlock_status redis_tls_start(struct redis_tls *tls, struct redisContext *context,
                                  const char *host, struct rlock_err *reterr)
{
    SSL *session = SSL_new(tls->settings);
    const char *reason;

    if (session == NULL)
        return err_set(reterr, RLOCK_NO_MEMORY, "tls: no memory");
    ERR_clear_error();
    if (!expect_name(session, host) || redisInitiateSSL(context, session) != REDIS_OK) {
        reason = reason_of(session);
        err_set(reterr, RLOCK_IO, "tls: %s", reason == NULL ? context->errstr : reason);
        SSL_free(session);
        return RLOCK_IO;
    }
    tls->session = session;
    return RLOCK_OK;
}

bool redis_tls_wants_read(const struct redis_tls *tls)
{
    return SSL_want_read(tls->session) != 0;
}

const char *redis_tls_reason(const struct redis_tls *tls)
{
    return reason_of(tls->session);
}

#endif
