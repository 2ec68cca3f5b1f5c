/*
 * ticket.h - purchase tickets, and the proof of work that one may cost: without state.
 *
 * A ticket says that a shopper asked for this voucher after its window had opened; it is
 * a time of expiry under a MAC that binds it to both. A challenge is the same under
 * another label, so nobody can begin to work on it before it is given out. Whoever shows
 * a nonce with which SHA-256 of "CHALLENGE:NONCE" begins with enough zero bits has
 * worked for about 2^bits hashes; checking costs one.
 *
 * All instances must have the same secret. Threads: any.
 */
#ifndef TICKET_H
#define TICKET_H

#include "app/core/model.h"
#include "base/attributes.h"
#include "base/err.h"

#include <stdbool.h>

#define TICKET_BYTES            33 /* of the text, with its NUL */
#define TICKET_NONCE_MAX        64 /* bytes */
#define TICKET_SECRET_BYTES_MIN 32

struct tickets {
    const char *secret; /* borrowed; "": there are no tickets here */
    int64_t ttl_s;
};

enum ticket_kind { TICKET_PURCHASE, TICKET_CHALLENGE };

/** Whom and what it is for. */
struct ticket_subject {
    enum ticket_kind kind;
    int64_t user_id, voucher_id;
};

/** STATUS_OK; STATUS_INVALID: a secret that is too short; "" is none and fine. */
MUST_CHECK enum status ticket_check_secret(const char *secret, struct err *reterr);

/** @now_s  seconds since 1970; Returns when it expires, by the same clock */
int64_t ticket_make(const struct tickets *tickets, const struct ticket_subject *subject,
                    int64_t now_s, char ret_text[TICKET_BYTES]);

/** Whether `text` was made for this subject and has not expired. */
MUST_CHECK bool ticket_is_good(const struct tickets *tickets,
                               const struct ticket_subject *subject, struct text text,
                               int64_t now_s);

/** Whether the work was done. @bits  0..256 */
MUST_CHECK bool ticket_is_proof(struct text challenge, struct text nonce, unsigned bits);

#endif
