/*
 * fuzz_token.c - tokens: any header and claims with a valid signature, and any bytes.
 *
 * An input with a line break has a header, the line break, and claims, which are encoded and
 * signed. If the input begins with '!', another secret is used. An input without a line break is
 * the value of Authorization. Only a token that was signed with the right secret may be accepted,
 * and its claims must be within the bounds.
 */
#include "app/auth/auth.h"
#include "app/auth/base64.h"
#include "app/test/fuzz/fuzz.h"
#include "app/test/jwt_config.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHER    "another secret of the fuzzer, which nobody knows"
#define SECRET   "a secret of the fuzzer, 32 bytes or more of it"
#define NOW_S    1900000000
#define PART_MAX 1400

static const struct auth *judge(void)
{
    struct config config = jwt_config(SECRET, "kid: one\n" SECRET "1");
    static struct auth *auth;

    config.jwt_audience = "shop";
    if (auth == NULL && auth_create(&config, &auth, NULL) != RLOCK_OK)
        abort();
    return auth;
}

static size_t sign(const char *secret, const uint8_t *data, size_t header_len,
                   size_t size, char *text)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_len = 0;
    size_t len = (size_t)sprintf(text, "Bearer ");
    size_t begin = len;

    len += base64_encode(data, header_len, text + len);
    text[len++] = '.';
    len += base64_encode(data + header_len + 1, size - header_len - 1, text + len);
    HMAC(EVP_sha256(), secret, (int)strlen(secret), (unsigned char *)text + begin,
         len - begin, mac, &mac_len);
    text[len++] = '.';
    return len + base64_encode(mac, mac_len, text + len);
}

static bool is_in_bounds(const struct identity *identity)
{
    return identity->user_id > 0 && identity->role >= AUTH_SHOPPER &&
           identity->role <= AUTH_ADMIN && strlen(identity->jti) <= AUTH_ID_BYTES_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[2 * PART_MAX + 100];
    bool is_forged = size > 0 && data[0] == '!';
    const uint8_t *from = data + is_forged;
    const uint8_t *mark = memchr(data, '\n', size);
    struct text header = {(const char *)data, size};
    struct identity identity;
    enum rlock_status status;

    if (mark != NULL && size <= PART_MAX) {
        header.bytes = text;
        header.len = sign(is_forged ? OTHER : SECRET, from, (size_t)(mark - from),
                          size - is_forged, text);
    }
    memset(&identity, 0xff, sizeof(identity));
    status = auth_check(judge(), header, NOW_S, &identity);
    if (status == RLOCK_REFUSED)
        return 0;
    if (status != RLOCK_OK || mark == NULL || is_forged || !is_in_bounds(&identity))
        abort();
    return 0;
}
