/* auth_fixture.h - makes tokens, and checks them at a fixed time. */
#ifndef AUTH_FIXTURE_H
#define AUTH_FIXTURE_H

#include "app/auth/auth.h"
#include "app/auth/base64.h"
#include "app/test/jwt_config.h"
#include "test/case_list.h"

#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HS256 "{\"alg\":\"HS256\",\"typ\":\"JWT\"}"
#define NOW_S 1900000000
#define EXP   "\"sub\":\"1\",\"exp\":"
#define GOOD  EXP "1900000001"

static inline size_t encode(const char *json, char *to)
{
    return base64_encode(json, strlen(json), to);
}

/* Returns the value of an Authorization header. The parts of its token may be malformed. The caller
   frees the text. */
static inline char *sign_by(const EVP_MD *digest, const char *secret, const char *header,
                            const char *claims)
{
    static const char scheme[] = "Bearer ";
    const size_t begin = sizeof(scheme) - 1;
    char *text = malloc(AUTH_TOKEN_BYTES_MAX + 100);
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_len = 0;
    size_t len = (size_t)sprintf(text, "%s", scheme);

    len += encode(header, text + len);
    text[len++] = '.';
    len += encode(claims, text + len);
    if (digest != NULL)
        HMAC(digest, secret, (int)strlen(secret), (unsigned char *)text + begin,
             len - begin, mac, &mac_len);
    text[len++] = '.';
    base64_encode(mac, mac_len, text + len);
    return text;
}

static inline char *sign(const char *secret, const char *header, const char *claims)
{
    return sign_by(EVP_sha256(), secret, header, claims);
}

static inline enum rlock_status check(const struct auth *auth, const char *header,
                                      struct identity *ret_identity)
{
    return auth_check(auth, (struct text){header, strlen(header)}, NOW_S, ret_identity);
}

static inline void assert_signed(const struct auth *auth, const char *secret,
                                 const char *header, const char *claims,
                                 enum rlock_status wanted)
{
    char *value = sign(secret, header, claims);
    struct identity identity;
    enum rlock_status status = check(auth, value, &identity);

    free(value);
    if (status != wanted)
        fail_msg("%s %s: expected %s, got %s", header, claims, rlock_status_name(wanted),
                 rlock_status_name(status));
}

#endif
