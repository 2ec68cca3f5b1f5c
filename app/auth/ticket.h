/*
 * ticket.h - stateless purchase tickets, and the proof of work that may be required.
 *
 * A ticket proves that a shopper requested it for a voucher while the sale was open. It is an
 * expiry time with a MAC over the shopper, the voucher and the expiry time. A challenge is made
 * like a ticket, but its MAC includes another label, so a challenge is not accepted as a ticket.
 *
 * A shopper cannot start to work before the challenge is issued, because nobody can predict it. A
 * challenge is issued only if the sale opens within the lifetime of the challenge. If SHA-256 of
 * "CHALLENGE:NONCE" begins with `bits` zero bits, the nonce has cost about 2^bits hashes. To check
 * it costs one hash.
 *
 * All instances must have the same secret. Threads: any.
 */
#ifndef TICKET_H
#define TICKET_H

#include "app/core/model.h"
#include "base/err.h"

#include <stdbool.h>

#define TICKET_BYTES            33 /* size of a ticket as text, with its NUL */
#define TICKET_NONCE_MAX        64 /* bytes */
#define TICKET_SECRET_BYTES_MIN 32

struct tickets {
    const char *secret; /* borrowed; "": tickets are off */
    int64_t ttl_s;
};

enum ticket_kind { TICKET_PURCHASE, TICKET_CHALLENGE };

struct ticket_subject {
    enum ticket_kind kind;
    int64_t user_id, voucher_id;
};

/** Returns RLOCK_OK, or RLOCK_INVALID if the secret is too short. The secret may be "", which turns
 *  tickets off. */
MUST_CHECK enum rlock_status ticket_check_secret(const char *secret,
                                                 struct rlock_err *reterr);

/** Issue a ticket or a challenge, and return when it expires. @now_s  seconds since 1970 */
int64_t ticket_make(const struct tickets *tickets, const struct ticket_subject *subject,
                    int64_t now_s, char ret_text[TICKET_BYTES]);

/** Whether `text` was issued for this subject and has not expired. */
MUST_CHECK bool ticket_is_good(const struct tickets *tickets,
                               const struct ticket_subject *subject, struct text text,
                               int64_t now_s);

/** Whether the nonce solves the challenge. @bits  0..256 */
MUST_CHECK bool ticket_is_proof(struct text challenge, struct text nonce, unsigned bits);

#endif
