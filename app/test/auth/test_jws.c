/* test_jws.c - signing and verifying: key pairs, keys that do not match, and a lack of memory. */
#include "app/auth/jws.h"
#include "app/test/auth/auth_fixture.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

/* -- key pairs -- */

static enum rlock_status create_with(enum config_alg alg, const char *private_key,
                                     const char *public_key, struct auth **ret_auth)
{
    struct config config = jwt_config("", "");

    config.jwt_alg = alg;
    config.jwt_private_key = private_key;
    config.jwt_public_key = public_key;
    return auth_create(&config, ret_auth, NULL);
}

struct pair {
    char *private_key, *public_key;
    char *locked;
};

static char *text_of(BIO *bio)
{
    char *text, *copy;
    long len = BIO_get_mem_data(bio, &text);

    copy = strndup(text, (size_t)len);
    BIO_free(bio);
    return copy;
}

static struct pair new_pair(EVP_PKEY *key)
{
    BIO *private_key = BIO_new(BIO_s_mem()), *public_key = BIO_new(BIO_s_mem());
    BIO *locked = BIO_new(BIO_s_mem());
    static const char passphrase[] = "passphrase";

    PEM_write_bio_PrivateKey(private_key, key, NULL, NULL, 0, NULL, NULL);
    PEM_write_bio_PrivateKey(locked, key, EVP_aes_128_cbc(),
                             (const unsigned char *)passphrase, sizeof(passphrase) - 1,
                             NULL, NULL);
    PEM_write_bio_PUBKEY(public_key, key);
    EVP_PKEY_free(key);
    return (struct pair){text_of(private_key), text_of(public_key), text_of(locked)};
}

static void pair_free(struct pair *pair)
{
    free(pair->private_key);
    free(pair->public_key);
    free(pair->locked);
}

static void check_pair(enum config_alg alg, const struct pair *pair)
{
    static const struct identity made = {.user_id = 3};
    struct auth *auth = NULL;
    struct identity found;

    ASSERT_STATUS(create_with(alg, pair->private_key, pair->public_key, &auth), RLOCK_OK);
    /* many times, because only some signatures have numbers that begin with zeros */
    for (int i = 0; i < 50; i++) {
        char header[AUTH_TOKEN_BYTES_MAX], *token;

        ASSERT_STATUS(auth_make(auth, &made, NOW_S, 10, &token, NULL), RLOCK_OK);
        if (alg == CONFIG_ES256) /* 64 bytes, see RFC 7518 */
            assert_int_equal(strlen(strrchr(token, '.') + 1), 86);
        snprintf(header, sizeof(header), "Bearer %s", token);
        ASSERT_STATUS(check(auth, header, &found), RLOCK_OK);
        assert_int_equal(found.user_id, made.user_id);
        snprintf(header, sizeof(header), "Bearer %sA", token);
        ASSERT_STATUS(check(auth, header, &found), RLOCK_REFUSED);
        memcpy(strrchr(header, '.'), ".AAAA", sizeof(".AAAA"));
        ASSERT_STATUS(check(auth, header, &found), RLOCK_REFUSED);
        *strrchr(header, '.') = '\0';
        ASSERT_STATUS(check(auth, header, &found), RLOCK_REFUSED);
        free(token);
    }
    assert_signed(auth, pair->public_key, HS256, "{" GOOD "}", RLOCK_REFUSED);
    auth_free(auth);
    auth = NULL;
    ASSERT_STATUS(create_with(alg, pair->locked, pair->public_key, &auth), RLOCK_INVALID);
    ASSERT_STATUS(create_with(alg, "", pair->public_key, &auth), RLOCK_OK);
    ASSERT_STATUS(auth_make(auth, &made, NOW_S, 10, NULL, NULL), RLOCK_INVALID);
    auth_free(auth);
    ASSERT_STATUS(create_with(alg, pair->private_key, "", &auth),
                  RLOCK_OK); /* this object can only sign */
    auth_free(auth);
}

UNIT_CASE(test_auth_make__key_pairs)
{
    struct pair rsa = new_pair(EVP_RSA_gen(2048)), ec = new_pair(EVP_EC_gen("P-256")),
                p384 = new_pair(EVP_EC_gen("P-384"));
    const struct {
        enum config_alg alg;
        const char *private_key, *public_key;
    } rows[] = {
        {CONFIG_RS256, "", ec.public_key},
        {CONFIG_RS256, ec.private_key, rsa.public_key},
        {CONFIG_RS256, rsa.public_key, rsa.public_key},
        {CONFIG_ES256, "", rsa.public_key},
        {CONFIG_ES256, "", p384.public_key},
        {CONFIG_ES256, p384.private_key, ec.public_key},
    };
    struct auth *auth = NULL;

    check_pair(CONFIG_RS256, &rsa);
    check_pair(CONFIG_ES256, &ec);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (create_with(rows[i].alg, rows[i].private_key, rows[i].public_key, &auth) !=
            RLOCK_INVALID)
            fail_msg("row %zu: expected that the keys are refused", i);
    pair_free(&rsa);
    pair_free(&ec);
    pair_free(&p384);
}

/* -- signatures of others -- */

#define RFC_CLAIMS                                                                       \
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb2" \
    "90Ijp0cnVlfQ"

UNIT_CASE(test_jws_verify__the_examples_of_the_rfc)
{
    /* clang-format off */
    static const struct {
        enum config_alg alg;
        const char *key, *text, *signature;
    } rows[] = {
        {CONFIG_RS256,
         "-----BEGIN PUBLIC KEY-----\n"
         "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAofgWCuLjybRlzo0tZWJj\n"
         "NiuSfb4p4fAkd/wWJcyQoTbji9k0l8W26mPddxHmfHQp+Vaw+4qPCJrcS2mJPMEz\n"
         "P1Pt0Bm4d4QlL+yRT+SFd2lZS+pCgNMsD1W/YpRPEwOWvG6b32690r2jZ47soMZo\n"
         "9wGzjb/7OMg0LOL+bSf63kpaSHSXndS5z5rexMdbBYUsLA9e+KXBdQOS+UTo7WTB\n"
         "EMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6/I5IhlJH7aGhyxX\n"
         "FvUK+DWNmoudF8NAco9/h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXp\n"
         "oQIDAQAB\n"
         "-----END PUBLIC KEY-----\n",
         "eyJhbGciOiJSUzI1NiJ9." RFC_CLAIMS,
         "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdb"
         "F9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383"
         "LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWy"
         "wlVmtVrBp0igcN_IoypGlUPQGe77Rw"},
        {CONFIG_ES256,
         "-----BEGIN PUBLIC KEY-----\n"
         "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
         "6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
         "-----END PUBLIC KEY-----\n",
         "eyJhbGciOiJFUzI1NiJ9." RFC_CLAIMS,
         "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct jws_key *key = jws_key_create(rows[i].alg, JWS_VERIFY, rows[i].key);
        struct text text = {rows[i].text, strlen(rows[i].text)};
        char signature[JWS_SIGNATURE_BYTES_MAX];
        size_t len = 0;

        assert_true(base64_decode(rows[i].signature, strlen(rows[i].signature), signature,
                                  sizeof(signature), &len));
        ASSERT_STATUS(jws_verify(key, text, (struct text){signature, len}), RLOCK_OK);
        text.len--;
        ASSERT_STATUS(jws_verify(key, text, (struct text){signature, len}),
                      RLOCK_REFUSED);
        jws_key_free(key);
    }
}

/* -- without memory -- */

static int fails_at; /* which allocation of OpenSSL fails, from 1 on; 0: none */

static bool fails(void)
{
    return fails_at > 0 && --fails_at == 0;
}

static void *openssl_malloc(size_t size, const char *file UNUSED, int line UNUSED)
{
    return fails() ? NULL : malloc(size);
}

static void *openssl_realloc(void *memory, size_t size, const char *file UNUSED,
                             int line UNUSED)
{
    return fails() ? NULL : realloc(memory, size);
}

static void openssl_free(void *memory, const char *file UNUSED, int line UNUSED)
{
    free(memory);
}

#define BYTES(array, count)                                                              \
    (struct text)                                                                        \
    {                                                                                    \
        (const char *)(array), count                                                     \
    }

/* Fails allocation n of a verification. Returns whether there were n allocations. The first five
   allocations are for the numbers of the signature. */
static bool verify_without(int n, const struct jws_key *key, struct text signature,
                           bool is_good)
{
    struct text text = BYTES("text", 4);
    enum rlock_status status;
    bool is_reached;

    fails_at = n;
    status = jws_verify(key, text, signature);
    is_reached = fails_at == 0;
    fails_at = 0;
    if (n <= 5 && status != RLOCK_NO_MEMORY)
        fail_msg("allocation %d: expected no_memory, got %s", n,
                 rlock_status_name(status));
    if (status == RLOCK_OK && !is_good)
        fail_msg("allocation %d: a wrong signature was accepted", n);
    return is_reached;
}

UNIT_CASE(test_jws__accepts_nothing_wrong_without_memory)
{
    unsigned char made[JWS_SIGNATURE_BYTES_MAX], wrong[64];
    struct pair ec = new_pair(EVP_EC_gen("P-256"));
    struct jws_key *signer = jws_key_create(CONFIG_ES256, JWS_SIGN, ec.private_key);
    struct jws_key *judge = jws_key_create(CONFIG_ES256, JWS_VERIFY, ec.public_key);
    bool is_reached = true;
    size_t len;

    for (int n = 1; is_reached; n++) {
        bool is_made;

        fails_at = n;
        is_made = jws_sign(signer, BYTES("text", 4), made, &len);
        is_reached = fails_at == 0;
        fails_at = 0;
        if (is_made)
            assert_int_equal(jws_verify(judge, BYTES("text", 4), BYTES(made, len)),
                             RLOCK_OK);
        assert_true(is_made || is_reached);
        assert_false(is_made && n == 1);
    }
    memcpy(wrong, made, sizeof(wrong));
    wrong[40] ^= 1;
    for (int n = 1; verify_without(n, judge, BYTES(made, len), true); n++)
        verify_without(n, judge, BYTES(wrong, sizeof(wrong)), false);
    jws_key_free(signer);
    jws_key_free(judge);
    pair_free(&ec);
}

UNIT_CASE(test_jws_key_create_numbers__leaves_no_number_out_without_memory)
{
    unsigned char modulus[256], made[JWS_SIGNATURE_BYTES_MAX];
    EVP_PKEY *key = EVP_RSA_gen(2048);
    struct pair rsa;
    struct jws_key *signer;
    BIGNUM *number = NULL;
    bool is_reached = true;
    size_t len;

    assert_int_equal(EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_N, &number), 1);
    BN_bn2bin(number, modulus);
    BN_free(number);
    rsa = new_pair(key);
    signer = jws_key_create(CONFIG_RS256, JWS_SIGN, rsa.private_key);
    assert_true(jws_sign(signer, BYTES("text", 4), made, &len));
    for (int n = 1; is_reached; n++) {
        struct jws_key *judge;

        fails_at = n;
        judge = jws_key_create_numbers(CONFIG_RS256, BYTES(modulus, sizeof(modulus)),
                                       BYTES("\1\0\1", 3));
        is_reached = fails_at == 0;
        fails_at = 0;
        assert_true(judge != NULL || is_reached);
        if (judge != NULL)
            ASSERT_STATUS(jws_verify(judge, BYTES("text", 4), BYTES(made, len)),
                          RLOCK_OK);
        jws_key_free(judge);
    }
    jws_key_free(signer);
    pair_free(&rsa);
}

int main(void)
{
    if (CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free) != 1)
        return 1;
    return cases_run(NULL, NULL);
}
