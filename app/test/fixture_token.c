/*
 * fixture_token.c - tokens right and wrong; see fixture.h.
 *
 * HS256 is signed here by hand, so that header and claims can be anything and the service
 * is not tested by the library that it is built on; the other algorithms by libjwt.
 */
#include "app/test/fixture.h"

#include <jwt.h>
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

const char *token_by(const char *alg, const char *claims, const char *key)
{
    char *token = next_buffer();
    char *encoded;
    jwt_t *jwt;

    assert_int_equal(jwt_new(&jwt), 0);
    assert_int_equal(jwt_add_grants_json(jwt, claims), 0);
    assert_int_equal(
        jwt_set_alg(jwt, jwt_str_alg(alg), (const unsigned char *)key, (int)strlen(key)),
        0);
    encoded = jwt_encode_str(jwt);
    assert_non_null(encoded);
    snprintf(token, TOKEN_SIZE, "%s", encoded);
    free(encoded);
    jwt_free(jwt);
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
