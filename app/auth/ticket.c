/* ticket.c - a ticket is an expiry time and an HMAC-SHA256 truncated to 128 bits. */
#include "app/auth/ticket.h"

#include "app/auth/base64.h"

#include <assert.h>
#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define MAC_BYTES    16
#define EXPIRY_BYTES 8
#define RAW_BYTES    (EXPIRY_BYTES + MAC_BYTES)
#define WORK_BYTES   (TICKET_BYTES + TICKET_NONCE_MAX) /* most bytes of "CHALLENGE:NONCE" */

static_assert(TICKET_BYTES == BASE64_TEXT_BYTES(RAW_BYTES), "the size of a ticket");

enum rlock_status ticket_check_secret(const char *secret, struct rlock_err *reterr)
{
    if (secret[0] == '\0' || strlen(secret) >= TICKET_SECRET_BYTES_MIN)
        return RLOCK_OK;
    return err_set(reterr, RLOCK_INVALID,
                   "SECKILL_TICKET_SECRET (or _FILE) has %zu bytes; the minimum is %d",
                   strlen(secret), TICKET_SECRET_BYTES_MIN);
}

static void *put_number(void *to, int64_t number)
{
    uint64_t bytes = htobe64((uint64_t)number);

    return mempcpy(to, &bytes, sizeof(bytes));
}

static int64_t get_number(const unsigned char *from)
{
    uint64_t bytes;

    memcpy(&bytes, from, sizeof(bytes));
    return (int64_t)be64toh(bytes);
}

/* Writes a ticket as bytes: the expiry time, and a MAC of the kind, the user, the voucher and the
   expiry time. Each part of the signed message has a fixed length, so different subjects have
   different messages. Returns false if HMAC has failed. */
static bool make_raw(const struct tickets *tickets, const struct ticket_subject *subject,
                     int64_t expires_s, unsigned char ret_raw[RAW_BYTES])
{
    static const char labels[] = {[TICKET_PURCHASE] = 'T', [TICKET_CHALLENGE] = 'C'};
    unsigned char message[1 + 3 * EXPIRY_BYTES] = {(unsigned char)labels[subject->kind]};
    unsigned char mac[EVP_MAX_MD_SIZE];

    put_number(put_number(put_number(message + 1, subject->user_id), subject->voucher_id),
               expires_s);
    if (HMAC(EVP_sha256(), tickets->secret, (int)strlen(tickets->secret), message,
             sizeof(message), mac, NULL) == NULL)
        return false;
    memcpy(put_number(ret_raw, expires_s), mac, MAC_BYTES);
    return true;
}

int64_t ticket_make(const struct tickets *tickets, const struct ticket_subject *subject,
                    int64_t now_s, char ret_text[TICKET_BYTES])
{
    int64_t expires_s = now_s + tickets->ttl_s;
    unsigned char raw[RAW_BYTES] = {0}; /* an invalid ticket, if HMAC fails */

    (void)make_raw(tickets, subject, expires_s, raw);
    base64_encode(raw, sizeof(raw), ret_text);
    return expires_s;
}

bool ticket_is_good(const struct tickets *tickets, const struct ticket_subject *subject,
                    struct text text, int64_t now_s)
{
    unsigned char actual[RAW_BYTES], expected[RAW_BYTES];
    size_t len; /* becomes RAW_BYTES, because the text has the length of a ticket */

    return tickets->secret[0] != '\0' && text.len == TICKET_BYTES - 1 &&
           base64_decode(text.bytes, text.len, actual, sizeof(actual), &len) &&
           get_number(actual) > now_s &&
           make_raw(tickets, subject, get_number(actual), expected) &&
           CRYPTO_memcmp(actual, expected, RAW_BYTES) == 0;
}

bool ticket_is_proof(struct text challenge, struct text nonce, unsigned bits)
{
    unsigned char work[WORK_BYTES], hash[EVP_MAX_MD_SIZE];
    size_t len = challenge.len + 1 + nonce.len;
    unsigned whole = bits / 8;

    if (bits == 0)
        return true;
    if (len > sizeof(work))
        return false;
    memcpy(work, challenge.bytes, challenge.len);
    work[challenge.len] = ':';
    memcpy(work + challenge.len + 1, nonce.bytes, nonce.len);
    if (EVP_Digest(work, len, hash, NULL, EVP_sha256(), NULL) != 1)
        return false;
    for (unsigned i = 0; i < whole; i++) {
        if (hash[i] != 0)
            return false;
    }
    return hash[whole] >> (8 - bits % 8) == 0;
}
