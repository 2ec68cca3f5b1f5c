/*
 * model.h - vouchers, orders, and the outcome of an order request.
 *
 * Times are microseconds since 1970-01-01 UTC by the database's clock. Amounts of money are cents.
 * The structs own no memory. Their strings are borrowed, and the function that fills a struct says
 * how long the strings are valid.
 */
#ifndef MODEL_H
#define MODEL_H

#include "app/core/text.h"

#define TITLE_CHARS_MAX       200
#define DESCRIPTION_CHARS_MAX 4000
#define STOCK_MAX             100000000
#define PER_USER_LIMIT_MAX    100
#define CENTS_MAX             INT64_C(1000000000000)
#define PAY_WITHIN_S_MAX      2592000
#define POW_BITS_MAX          32
#define REQUEST_KEY_MAX       64  /* bytes of an Idempotency-Key */
#define PAYMENT_REF_MAX       200 /* bytes */
#define ACTOR_BYTES           32  /* "payment:" and a number, NUL-terminated */

struct voucher {
    int64_t id;
    int64_t version; /* increases with every change of the row */
    struct text title;
    struct text description;
    int64_t price_cents;
    int64_t face_value_cents;
    int64_t stock_total;
    int64_t stock_left;
    int64_t per_user_limit;
    int64_t pay_within_s;
    int64_t requires_ticket; /* 0, 1 */
    int64_t pow_bits;        /* proof of work for a ticket; see ticket.h */
    int64_t is_lottery;      /* 0, 1 */
    int64_t begin_us;
    int64_t end_us;
    /* of a lottery: */
    struct text commitment; /* SHA-256 of the seed, in hex; bytes NULL: no lottery */
    struct text seed;       /* in hex; bytes NULL: the draw has not begun */
    int64_t drawn_us;       /* end of the draw; 0: not yet */
};

enum order_status {
    ORDER_UNPAID,
    ORDER_PAID,
    ORDER_REDEEMED,
    ORDER_CANCELLED,
    ORDER_EXPIRED,
    ORDER_REFUNDED,
};

struct order {
    int64_t id;
    int64_t voucher_id;
    int64_t user_id;
    int64_t price_cents;
    int64_t created_us;
    int64_t expires_us;
    int64_t paid_us; /* 0: never paid */
    enum order_status status;
};

/* A page of a list of orders, the newest first. */
struct order_page {
    const struct order *orders;
    size_t count;
    int64_t next_id; /* the next page has only smaller ids; 0: no page follows */
};

/* place_orders() in sql/ returns these numbers. Look-ups also return VERDICT_NONE. */
enum verdict {
    VERDICT_NONE = 0, /* a look-up found no order, or the answer is malformed */
    VERDICT_PLACED = 1,
    VERDICT_REPEATED = 2,        /* an order with this request key exists */
    VERDICT_ALREADY_ORDERED = 3, /* order.id is the id of the existing order */
    VERDICT_SOLD_OUT = 4,
    VERDICT_NOT_STARTED = 5,
    VERDICT_SALE_ENDED = 6,
    /* the shopper has an order of this voucher whose fence is not less than the request's */
    VERDICT_STALE_FENCE = 7,
    VERDICT_NO_VOUCHER = 8,
    VERDICT_TICKET_REQUIRED = 9,
    VERDICT_MISDIRECTED = 10, /* another cell has the voucher */
    VERDICT_ENTERED = 11,     /* the shopper takes part in the lottery */
};

/* Which failure of Postgres an acknowledged order survives. */
enum durability {
    DURABILITY_UNKNOWN, /* not connected yet */
    DURABILITY_NONE,
    DURABILITY_LOCAL,  /* the order survives a crash of the server */
    DURABILITY_REMOTE, /* the order survives the loss of the server: a standby has it */
};

/* How an order request ended: X(enum word, name). The name is the label of the metric. If the
   outcome is an error, the name is also its code. */
/* clang-format off */
#define ORDER_OUTCOMES(X) \
    X(PLACED,          "placed") \
    X(REPEATED,        "repeated") \
    X(ALREADY_ORDERED, "already_ordered") \
    X(ENTERED,         "entered") \
    X(SOLD_OUT,        "sold_out") \
    X(NOT_STARTED,     "not_started") \
    X(SALE_ENDED,      "sale_ended") \
    X(NO_VOUCHER,      "not_found") \
    X(TICKET_REQUIRED, "ticket_required") \
    X(MISDIRECTED,     "misdirected") \
    X(IN_PROGRESS,     "order_in_progress") \
    X(OVERLOADED,      "overloaded") \
    X(UNAVAILABLE,     "unavailable") \
    X(UNKNOWN,         "outcome_unknown") \
    X(INTERNAL,        "internal")

#define X(word, ...) OUTCOME_##word,
enum outcome { ORDER_OUTCOMES(X) OUTCOME_COUNT };
#undef X
/* clang-format on */

/* Changes of an order. Each change has a function in sql/. */
enum change { CHANGE_PAY, CHANGE_CANCEL, CHANGE_REFUND, CHANGE_REDEEM };

/* The functions of the changes return these numbers. */
enum change_verdict {
    CHANGE_DONE = 1,
    CHANGE_REPEATED = 2, /* the same request was done before, so nothing has changed */
    CHANGE_WRONG_STATE = 3,
    CHANGE_WRONG_AMOUNT = 4,
    CHANGE_NO_ORDER = 5,
    CHANGE_REF_USED = 6, /* the payment has paid another order */
    CHANGE_KEY_USED = 7, /* the key belongs to another request */
};

/* All orders and events of all vouchers are numbered in one sequence. An id is this number, shifted
   left by EVENT_VOUCHER_BITS, plus the lowest bits of the voucher's id. */
#define EVENT_VOUCHER_BITS 20

/* A row of a voucher's history: a change of an order, of the stock, or of other fields. */
struct event {
    int64_t id;    /* ids increase in the sequence in which a voucher's events commit */
    int64_t first; /* in a feed, the number by which the event is sorted; otherwise 0 */
    int64_t voucher_id;
    int64_t order_id; /* 0: a change of the voucher itself */
    int64_t at_us;
    int64_t stock_change;    /* added to stock_left */
    const char *actor;       /* "shopper:7", "admin:1", "payment:3", "system" */
    const char *from_status; /* NULL: the order was placed */
    const char *to_status;   /* NULL: a change of the voucher itself */
    const char *detail;      /* the payment_ref, or what an edit has changed; else NULL */
};

#endif
