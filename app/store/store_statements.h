/* store_statements.h - the prepared statements of the store; private to it. */
#ifndef STORE_STATEMENTS_H
#define STORE_STATEMENTS_H

#include <stdbool.h>

/* X(enum word, name, whether a barrier follows). The SQL is sql/queries/NAME.sql; its
   columns are read by number.

   What is read may be committed and not durable yet. So a read for an answer ends with a
   barrier: unless all WAL is on disk and no standby is named, its transaction gets a record of
   its own, and its commit waits for all records before it. A statement that changes rows waits
   anyway. */
/* clang-format off */
#define STORE_STATEMENTS(X) \
    X(PLACE,            "place",            NO_BARRIER) \
    X(PLACE_EARLY,      "place_early",      NO_BARRIER) \
    X(PLACE_MANY,       "place_many",       NO_BARRIER) \
    X(PLACE_MANY_EARLY, "place_many_early", NO_BARRIER) \
    X(BARRIER,          "barrier",          NO_BARRIER) \
    X(AGE,              "age",              NO_BARRIER) \
    X(FIND,             "find",             BARRIER) \
    X(RESOLVE,          "resolve",          BARRIER) \
    X(RETIRE,           "retire",           NO_BARRIER) \
    X(READ_ORDER,       "read_order",       BARRIER) \
    X(PAY_ORDER,        "pay_order",        BARRIER) /* these four in the order of enum change */ \
    X(CANCEL_ORDER,     "cancel_order",     BARRIER) \
    X(REFUND_ORDER,     "refund_order",     BARRIER) \
    X(REDEEM_ORDER,     "redeem_order",     BARRIER) \
    X(DUE_BATCHES,      "due_batches",      NO_BARRIER) \
    X(EXPIRE_BATCHES,   "expire_batches",   NO_BARRIER) \
    X(LEAD_EXPIRY,      "lead_expiry",      NO_BARRIER) \
    X(READ_VOUCHER,     "read_voucher",     BARRIER) \
    X(READ_VOUCHERS,    "read_vouchers",    BARRIER) \
    X(LIST_ORDERS,      "list_orders",      BARRIER) /* to LIST_ENDED: lists, see store_reads.c */ \
    X(VOUCHER_EVENTS,   "voucher_events",   BARRIER) \
    X(ORDER_EVENTS,     "order_events",     BARRIER) \
    X(LIST_ANY,         "list_any",         BARRIER) /* these four in the order of enum voucher_state */ \
    X(LIST_UPCOMING,    "list_upcoming",    BARRIER) \
    X(LIST_OPEN,        "list_open",        BARRIER) \
    X(LIST_ENDED,       "list_ended",       BARRIER) \
    X(CREATE_VOUCHER,   "create_voucher",   BARRIER) \
    X(PATCH_VOUCHER,    "patch_voucher",    BARRIER) \
    X(RESTOCK_VOUCHER,  "restock_voucher",  BARRIER)

#define X(word, ...) STATEMENT_##word,
enum statement { STORE_STATEMENTS(X) STATEMENT_COUNT };
#undef X
/* clang-format on */

extern const struct store_statement {
    const char *name;
    const char *path; /* of the SQL, see embed.h */
    bool has_barrier; /* its transaction ends with STATEMENT_BARRIER or STATEMENT_AGE */
} store_statements[STATEMENT_COUNT];

#endif
