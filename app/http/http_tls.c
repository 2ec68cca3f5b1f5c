/*
 * http_tls.c - the certificate for handshakes, which can be replaced at run time.
 *
 * libmicrohttpd takes a certificate only when a daemon starts. But it can install a callback by
 * which GnuTLS gets a certificate at each handshake. The callback has no argument, and each loop
 * has its own thread, so the certificate is kept in a thread-local variable.
 */
#include "app/http/http_impl.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 8

struct http_tls {
    struct http_tls *older; /* the predecessor, which handshakes may still use */
    uint64_t replaced_ms;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned chain_count;
    gnutls_privkey_t key;
};

static _Thread_local struct http_tls *in_use;

/* Checks that the certificate and the key match, which GnuTLS does when credentials get both. */
static int check_pair(const gnutls_datum_t *cert, const gnutls_datum_t *key)
{
    gnutls_certificate_credentials_t credentials;
    int failed = gnutls_certificate_allocate_credentials(&credentials);

    if (failed < 0)
        return failed;
    failed =
        gnutls_certificate_set_x509_key_mem(credentials, cert, key, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(credentials);
    return failed < 0 ? failed : 0;
}

static int read_pair(struct http_tls *tls, const gnutls_datum_t *cert,
                     const gnutls_datum_t *key)
{
    unsigned count = CHAIN_MAX;
    int failed = check_pair(cert, key);

    if (failed == 0)
        failed = gnutls_pcert_list_import_x509_raw(tls->chain, &count, cert,
                                                   GNUTLS_X509_FMT_PEM, 0);
    if (failed < 0)
        return failed;
    tls->chain_count = count;
    failed = gnutls_privkey_init(&tls->key);
    if (failed == 0)
        failed =
            gnutls_privkey_import_x509_raw(tls->key, key, GNUTLS_X509_FMT_PEM, NULL, 0);
    return failed;
}

static gnutls_datum_t datum_of(const char *text)
{
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)text, (unsigned)strlen(text)};
}

enum rlock_status http_tls_create(const char *cert, const char *key,
                                  struct http_tls **ret_tls, struct rlock_err *reterr)
{
    struct http_tls *tls = calloc(1, sizeof(*tls));
    gnutls_datum_t cert_datum = datum_of(cert), key_datum = datum_of(key);
    int failed;

    if (tls == NULL)
        return RLOCK_NO_MEMORY;
    failed = read_pair(tls, &cert_datum, &key_datum);
    if (failed == 0) {
        *ret_tls = tls;
        return RLOCK_OK;
    }
    http_tls_free(tls);
    return err_set(
        reterr, RLOCK_INVALID,
        "SECKILL_TLS_CERT_FILE and SECKILL_TLS_KEY_FILE must be a chain (PEM) and "
        "its key: %s",
        gnutls_strerror(failed));
}

void http_tls_free(struct http_tls *tls)
{
    while (tls != NULL) {
        struct http_tls *older = tls->older;

        for (unsigned i = 0; i < tls->chain_count; i++)
            gnutls_pcert_deinit(&tls->chain[i]);
        if (tls->key != NULL)
            gnutls_privkey_deinit(tls->key);
        free(tls);
        tls = older;
    }
}

enum rlock_status http_tls_check_priority(const char *priority, struct rlock_err *reterr)
{
    gnutls_priority_t checked;
    const char *wrong = priority;
    int failed = gnutls_priority_init(&checked, priority, &wrong);

    if (failed == 0) {
        gnutls_priority_deinit(checked);
        return RLOCK_OK;
    }
    return err_set(reterr, RLOCK_INVALID,
                   "SECKILL_TLS_PRIORITY is invalid at position %td: %s: \"%s\"",
                   wrong - priority + 1, gnutls_strerror(failed), priority);
}

// NOLINTNEXTLINE(readability-function-size): GnuTLS's signature
static int tls_on_handshake(gnutls_session_t session UNUSED,
                            const gnutls_datum_t *authorities UNUSED,
                            int authority_count UNUSED,
                            const gnutls_pk_algorithm_t *algorithms UNUSED,
                            int algorithm_count UNUSED, gnutls_pcert_st **ret_chain,
                            unsigned *ret_count, gnutls_privkey_t *ret_key)
{
    if (in_use == NULL)
        return -1;
    *ret_chain = in_use->chain;
    *ret_count = in_use->chain_count;
    *ret_key = in_use->key;
    return 0;
}

struct MHD_OptionItem http_tls_option(void)
{
    return (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0,
                                   (void *)(uintptr_t)tls_on_handshake};
}

void http_tls_use(struct http_tls *tls)
{
    in_use = tls;
}

void http_set_tls(struct http *http, struct http_tls *tls)
{
    tls->older = http->options.tls;
    tls->older->replaced_ms = uv_now(http->options.loop);
    http->options.tls = tls;
}

void http_tls_free_old(struct http_tls *tls, uint64_t handshakes_since_ms)
{
    while (tls->older != NULL && tls->older->replaced_ms >= handshakes_since_ms)
        tls = tls->older;
    http_tls_free(tls->older);
    tls->older = NULL;
}
