/*
 * fixture_token.c - valid and invalid tokens; see fixture.h.
 *
 * OpenSSL signs HS256, with any text as header and claims. GnuTLS signs the other algorithms,
 * because the service verifies them with OpenSSL.
 */
#include "app/test/fixture.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOKENS_KEPT 64
#define TOKEN_SIZE  2048

static char *next_buffer(void)
{
    static char buffers[TOKENS_KEPT][TOKEN_SIZE];
    static unsigned used;

    return buffers[used++ % TOKENS_KEPT];
}

/* base64url without padding; Returns the length written. */
static size_t encode(const unsigned char *bytes, size_t len, char *out)
{
    int written = EVP_EncodeBlock((unsigned char *)out, bytes, (int)len);
    size_t end = 0;

    for (int i = 0; i < written; i++)
        if (out[i] != '=')
            out[end++] = out[i];
    out[end] = '\0';
    for (char *at = out; (at = strpbrk(at, "+/")) != NULL;)
        *at = *at == '+' ? '-' : '_';
    return end;
}

const char *token_hs256(const char *header, const char *claims, const char *secret)
{
    const char *used_header = header ? header : "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_len = 0;
    char *token = next_buffer();
    size_t len;

    assert_true((strlen(used_header) + strlen(claims)) * 4 / 3 + 64 < TOKEN_SIZE);
    len = encode((const unsigned char *)used_header, strlen(used_header), token);
    token[len++] = '.';
    len += encode((const unsigned char *)claims, strlen(claims), token + len);
    HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)token, len,
         mac, &mac_len);
    token[len++] = '.';
    encode(mac, mac_len, token + len);
    return token;
}

static size_t sign_mac(const char *alg, const char *secret, const char *text,
                       unsigned char *ret_signature)
{
    gnutls_mac_algorithm_t mac = strcmp(alg, "HS256") == 0   ? GNUTLS_MAC_SHA256
                                 : strcmp(alg, "HS384") == 0 ? GNUTLS_MAC_SHA384
                                                             : GNUTLS_MAC_SHA512;

    assert_int_equal(
        gnutls_hmac_fast(mac, secret, strlen(secret), text, strlen(text), ret_signature),
        0);
    return gnutls_hmac_get_len(mac);
}

/* One of the two numbers of a signature: 32 bytes without a sign. */
static void copy_number(const gnutls_datum_t *number, unsigned char *to)
{
    unsigned skip = number->size > 32 ? number->size - 32 : 0;

    memset(to, 0, 32);
    memcpy(to + 32 - (number->size - skip), number->data + skip, number->size - skip);
}

static size_t sign_by_pair(const char *alg, const char *pem, const char *text,
                           unsigned char *ret_signature)
{
    gnutls_datum_t key = {(unsigned char *)(uintptr_t)pem, (unsigned)strlen(pem)};
    gnutls_datum_t data = {(unsigned char *)(uintptr_t)text, (unsigned)strlen(text)};
    gnutls_datum_t signature, r, s;
    gnutls_privkey_t pair;
    size_t len;

    assert_int_equal(gnutls_privkey_init(&pair), 0);
    assert_int_equal(
        gnutls_privkey_import_x509_raw(pair, &key, GNUTLS_X509_FMT_PEM, NULL, 0), 0);
    assert_int_equal(
        gnutls_privkey_sign_data(pair, GNUTLS_DIG_SHA256, 0, &data, &signature), 0);
    len = signature.size;
    if (strcmp(alg, "ES256") == 0) {
        assert_int_equal(gnutls_decode_rs_value(&signature, &r, &s), 0);
        copy_number(&r, ret_signature);
        copy_number(&s, ret_signature + 32);
        gnutls_free(r.data);
        gnutls_free(s.data);
        len = 64;
    } else {
        memcpy(ret_signature, signature.data, len);
    }
    gnutls_free(signature.data);
    gnutls_privkey_deinit(pair);
    return len;
}

const char *token_by(const char *alg, const char *claims, const char *key)
{
    unsigned char signature[512];
    char *token = next_buffer();
    char header[40];
    size_t len, signature_len = 0;

    snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"typ\":\"JWT\"}", alg);
    len = encode((const unsigned char *)header, strlen(header), token);
    token[len++] = '.';
    len += encode((const unsigned char *)claims, strlen(claims), token + len);
    if (alg[0] == 'H')
        signature_len = sign_mac(alg, key, token, signature);
    else
        signature_len = sign_by_pair(alg, key, token, signature);
    token[len++] = '.';
    encode(signature, signature_len, token + len);
    return token;
}

const char *shopper(int64_t user_id)
{
    char claims[128];

    snprintf(claims, sizeof(claims), "{\"sub\":\"%lld\",\"exp\":%lld}",
             (long long)user_id, (long long)time(NULL) + 3600);
    return token_hs256(NULL, claims, FIXTURE_SECRET);
}

static const char *with_role(const char *role)
{
    char claims[128];

    snprintf(claims, sizeof(claims), "{\"sub\":\"1\",\"role\":\"%s\",\"exp\":%lld}", role,
             (long long)time(NULL) + 3600);
    return token_hs256(NULL, claims, FIXTURE_SECRET);
}

const char *admin(void)
{
    return with_role("admin");
}

const char *payment(void)
{
    return with_role("payment");
}
