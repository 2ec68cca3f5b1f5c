/*
 * jws.c - signs and verifies with OpenSSL.
 *
 * A key of HS256 is kept as two states of SHA-256, which are copied for each token. An EVP_MAC
 * would need 12,000 instructions per token, of which 5,000 allocate, copy and free states. OpenSSL
 * has deprecated its functions of SHA-256, but has announced no release without them.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "app/auth/jws.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#define MAC_BYTES     SHA256_DIGEST_LENGTH
#define NUMBER_BYTES  32
#define ES256_BYTES   64 /* two numbers */
#define DER_BYTES_MAX 80

struct jws_key {
    enum config_alg alg;
    SHA256_CTX inner, outer;
    EVP_PKEY *pair;
};

const char *const jws_alg_names[] = {"HS256", "RS256", "ES256"};

/* -- keys -- */

static void hash_block(SHA256_CTX *state, unsigned char block[SHA256_CBLOCK], int mask)
{
    for (size_t i = 0; i < SHA256_CBLOCK; i++)
        block[i] ^= (unsigned char)mask;
    SHA256_Init(state);
    SHA256_Update(state, block, SHA256_CBLOCK);
}

/* RFC 2104: the inner hash starts with the secret XOR 0x36, the outer hash with the secret XOR
   0x5c. */
static void init_mac(struct jws_key *key, struct text secret)
{
    unsigned char block[SHA256_CBLOCK] = {0};

    if (secret.len > sizeof(block))
        SHA256((const unsigned char *)secret.bytes, secret.len, block);
    else
        memcpy(block, secret.bytes, secret.len);
    hash_block(&key->inner, block, 0x36);
    hash_block(&key->outer, block, 0x36 ^ 0x5c);
    OPENSSL_cleanse(block, sizeof(block));
}

/* Refuses a key that needs a passphrase. Without this callback OpenSSL asks for the passphrase on
   the terminal. */
static int refuse_passphrase(char *to UNUSED, int size UNUSED, int is_write UNUSED,
                             void *arg UNUSED)
{
    return -1;
}

/* OpenSSL reads no key from a BIO that is NULL. */
static EVP_PKEY *read_pem(enum jws_use use, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *pair;

    if (use == JWS_VERIFY)
        pair = PEM_read_bio_PUBKEY(bio, NULL, refuse_passphrase, NULL);
    else
        pair = PEM_read_bio_PrivateKey(bio, NULL, refuse_passphrase, NULL);
    BIO_free(bio);
    return pair;
}

static bool suits(const EVP_PKEY *pair, enum config_alg alg)
{
    char curve[32] = "";

    if (alg == CONFIG_RS256)
        return EVP_PKEY_base_id(pair) == EVP_PKEY_RSA;
    return EVP_PKEY_base_id(pair) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(pair, curve, sizeof(curve), NULL) == 1 &&
           strcmp(curve, "prime256v1") == 0;
}

/* Returns a key that owns the pair. If the pair is unsuitable or memory is out, frees the pair and
   returns NULL. */
static struct jws_key *key_of_pair(enum config_alg alg, EVP_PKEY *pair)
{
    struct jws_key *key = NULL;

    if (pair != NULL && suits(pair, alg))
        key = calloc(1, sizeof(*key));
    if (key != NULL)
        *key = (struct jws_key){.alg = alg, .pair = pair};
    else
        EVP_PKEY_free(pair);
    return key;
}

struct jws_key *jws_key_create(enum config_alg alg, enum jws_use use, const char *text)
{
    struct jws_key *key;

    if (alg != CONFIG_HS256)
        return key_of_pair(alg, read_pem(use, text));
    key = calloc(1, sizeof(*key));
    if (key != NULL) {
        key->alg = alg;
        init_mac(key, (struct text){text, strlen(text)});
    }
    return key;
}

static EVP_PKEY *make_pair(const char *type, OSSL_PARAM *params)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY *pair = NULL;

    /* OpenSSL refuses a context or parameters that are NULL. */
    if (EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &pair, EVP_PKEY_PUBLIC_KEY, params) != 1)
        pair = NULL;
    EVP_PKEY_CTX_free(context);
    return pair;
}

static BIGNUM *number_of(struct text bytes)
{
    return BN_bin2bn((const unsigned char *)bytes.bytes, (int)bytes.len, NULL);
}

static EVP_PKEY *make_rsa(struct text modulus, struct text exponent)
{
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    BIGNUM *n = number_of(modulus), *e = number_of(exponent);
    OSSL_PARAM *params = NULL;
    EVP_PKEY *pair;

    if (builder != NULL && n != NULL && e != NULL &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e) == 1)
        params = OSSL_PARAM_BLD_to_param(builder);
    pair = make_pair("RSA", params);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(builder);
    BN_free(n);
    BN_free(e);
    return pair;
}

static EVP_PKEY *make_ec(struct text x, struct text y)
{
    static char group[] = "prime256v1";
    unsigned char point[1 + ES256_BYTES] = {POINT_CONVERSION_UNCOMPRESSED};
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)),
        OSSL_PARAM_construct_end()};

    if (x.len != NUMBER_BYTES || y.len != NUMBER_BYTES)
        return NULL;
    memcpy(point + 1, x.bytes, NUMBER_BYTES);
    memcpy(point + 1 + NUMBER_BYTES, y.bytes, NUMBER_BYTES);
    return make_pair("EC", params);
}

struct jws_key *jws_key_create_numbers(enum config_alg alg, struct text first,
                                       struct text second)
{
    return key_of_pair(alg, alg == CONFIG_RS256 ? make_rsa(first, second)
                                                : make_ec(first, second));
}

void jws_key_free(struct jws_key *key)
{
    if (key == NULL)
        return;
    EVP_PKEY_free(key->pair);
    OPENSSL_cleanse(key, sizeof(*key));
    free(key);
}

/* -- HS256 -- */

static void make_mac(const struct jws_key *key, struct text text,
                     unsigned char ret_mac[MAC_BYTES])
{
    SHA256_CTX inner = key->inner, outer = key->outer;

    SHA256_Update(&inner, text.bytes, text.len);
    SHA256_Final(ret_mac, &inner);
    SHA256_Update(&outer, ret_mac, MAC_BYTES);
    SHA256_Final(ret_mac, &outer);
}

/* -- ES256: OpenSSL encodes the two numbers in DER, a token has NUMBER_BYTES of each -- */

static size_t to_der(struct text signature, unsigned char ret_der[DER_BYTES_MAX])
{
    const unsigned char *bytes = (const unsigned char *)signature.bytes;
    ECDSA_SIG *numbers = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(bytes, NUMBER_BYTES, NULL);
    BIGNUM *s = BN_bin2bn(bytes + NUMBER_BYTES, NUMBER_BYTES, NULL);
    int len = -1;

    if (numbers != NULL && ECDSA_SIG_set0(numbers, r, s) == 1) {
        len = i2d_ECDSA_SIG(numbers, &ret_der);
    } else {
        BN_free(r);
        BN_free(s);
    }
    ECDSA_SIG_free(numbers);
    return len > 0 ? (size_t)len : 0;
}

static bool write_number(const BIGNUM *number, unsigned char ret_bytes[NUMBER_BYTES])
{
    return BN_bn2binpad(number, ret_bytes, NUMBER_BYTES) == NUMBER_BYTES;
}

static bool from_der(unsigned char *signature, size_t *len)
{
    const unsigned char *der = signature;
    ECDSA_SIG *numbers = d2i_ECDSA_SIG(NULL, &der, (long)*len);
    bool ok = numbers != NULL && write_number(ECDSA_SIG_get0_r(numbers), signature) &&
              write_number(ECDSA_SIG_get0_s(numbers), signature + NUMBER_BYTES);

    ECDSA_SIG_free(numbers);
    *len = ES256_BYTES;
    return ok;
}

/* -- all -- */

static bool is_mac(const struct jws_key *key, struct text text, struct text signature)
{
    unsigned char mac[MAC_BYTES];

    make_mac(key, text, mac);
    return signature.len == MAC_BYTES &&
           CRYPTO_memcmp(mac, signature.bytes, MAC_BYTES) == 0;
}

static enum rlock_status verify_by_pair(EVP_PKEY *pair, struct text text,
                                        struct text signature)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    enum rlock_status status = RLOCK_NO_MEMORY;

    if (digest != NULL &&
        EVP_DigestVerifyInit(digest, NULL, EVP_sha256(), NULL, pair) == 1)
        status = EVP_DigestVerify(digest, (const unsigned char *)signature.bytes,
                                  signature.len, (const unsigned char *)text.bytes,
                                  text.len) == 1
                     ? RLOCK_OK
                     : RLOCK_REFUSED;
    EVP_MD_CTX_free(digest);
    return status;
}

enum rlock_status jws_verify(const struct jws_key *key, struct text text,
                             struct text signature)
{
    unsigned char der[DER_BYTES_MAX];

    if (key->alg == CONFIG_HS256)
        return is_mac(key, text, signature) ? RLOCK_OK : RLOCK_REFUSED;
    if (key->alg == CONFIG_ES256) {
        if (signature.len != ES256_BYTES)
            return RLOCK_REFUSED;
        signature = (struct text){(const char *)der, to_der(signature, der)};
        if (signature.len == 0)
            return RLOCK_NO_MEMORY;
    }
    return verify_by_pair(key->pair, text, signature);
}

bool jws_sign(const struct jws_key *key, struct text text,
              unsigned char ret_signature[JWS_SIGNATURE_BYTES_MAX], size_t *ret_len)
{
    size_t len = JWS_SIGNATURE_BYTES_MAX;
    EVP_MD_CTX *digest;
    bool ok;

    *ret_len = MAC_BYTES;
    if (key->alg == CONFIG_HS256) {
        make_mac(key, text, ret_signature);
        return true;
    }
    digest = EVP_MD_CTX_new();
    ok = digest != NULL &&
         EVP_DigestSignInit(digest, NULL, EVP_sha256(), NULL, key->pair) == 1 &&
         EVP_DigestSign(digest, ret_signature, &len, (const unsigned char *)text.bytes,
                        text.len) == 1 &&
         (key->alg != CONFIG_ES256 || from_der(ret_signature, &len));
    EVP_MD_CTX_free(digest);
    *ret_len = len;
    return ok;
}
