/* store_statements.h - the prepared statements of the store; private to it. */
#ifndef STORE_STATEMENTS_H
#define STORE_STATEMENTS_H

/* X(enum word, name, what follows). The SQL is in sql/queries/NAME.sql. Its columns are read by
   number.

   Until a change is durable, a crash of the server can undo it, even if others have read it. So
   each statement whose result becomes an answer is sent together with two other statements:
     STATEMENT_BARRIER ends the transaction. It makes the commit wait until everything that
     the transaction has changed or read is durable.
     STATEMENT_PROOF is a transaction of its own. It returns which failures the commit survives. */
/* clang-format off */
#define STORE_STATEMENTS(X) \
    X(PLACE,            "place",            BARRIER) \
    X(PLACE_EARLY,      "place_early",      NOTHING) /* BARRIER follows separately */ \
    X(PLACE_MANY,       "place_many",       BARRIER) \
    X(PLACE_MANY_EARLY, "place_many_early", NOTHING) /* BARRIER follows separately */ \
    X(BARRIER,          "barrier",          PROOF) \
    X(PROOF,            "proof",            NOTHING) \
    X(AGE,              "age",              NOTHING) \
    X(PROBE,            "probe",            NOTHING) \
    X(FIND,             "find",             BARRIER) \
    X(RESOLVE,          "resolve",          BARRIER) \
    X(RETIRE,           "retire",           NOTHING) \
    X(READ_ORDER,       "read_order",       BARRIER) \
    X(SEARCH_ORDER,     "search_order",     BARRIER) \
    X(PAY_ORDER,        "pay_order",        BARRIER) /* these 4: sequence of enum change */ \
    X(CANCEL_ORDER,     "cancel_order",     BARRIER) \
    X(REFUND_ORDER,     "refund_order",     BARRIER) \
    X(REDEEM_ORDER,     "redeem_order",     BARRIER) \
    X(DUE_BATCHES,      "due_batches",      NOTHING) \
    X(EXPIRE_BATCHES,   "expire_batches",   BARRIER) \
    X(LEAD_EXPIRY,      "lead_expiry",      NOTHING) \
    X(DRAW_LOTTERIES,   "draw_lotteries",   BARRIER) \
    X(READ_ENTRY,       "read_entry",       BARRIER) \
    X(READ_ENTRIES,     "read_entries",     BARRIER) \
    X(READ_VOUCHER,     "read_voucher",     BARRIER) \
    X(READ_VOUCHERS,    "read_vouchers",    BARRIER) \
    X(ADVANCE_FEED,     "advance_feed",     BARRIER) \
    X(FEED_EVENTS,      "feed_events",      BARRIER) \
    X(LIST_WEBHOOKS,    "list_webhooks",    BARRIER) \
    X(NOTE_WEBHOOK,     "note_webhook",     BARRIER) \
    X(WEBHOOK_STATES,   "webhook_states",   BARRIER) \
    X(WEBHOOK_DELIVERIES, "webhook_deliveries", BARRIER) \
    /* LIST_ORDERS to LIST_ENDED are the lists, see store_reads.c */ \
    X(LIST_ORDERS,      "list_orders",      BARRIER) \
    X(LIST_VOUCHER_ORDERS, "list_voucher_orders", BARRIER) \
    X(VOUCHER_EVENTS,   "voucher_events",   BARRIER) \
    X(STOCK_EVENTS,     "stock_events",     BARRIER) \
    X(ORDER_EVENTS,     "order_events",     BARRIER) \
    /* the next four have the sequence of enum voucher_state */ \
    X(LIST_ANY,         "list_any",         BARRIER) \
    X(LIST_UPCOMING,    "list_upcoming",    BARRIER) \
    X(LIST_OPEN,        "list_open",        BARRIER) \
    X(LIST_ENDED,       "list_ended",       BARRIER) \
    X(CREATE_VOUCHERS,  "create_vouchers",  BARRIER) \
    X(PATCH_VOUCHER,    "patch_voucher",    BARRIER) \
    X(RESTOCK_VOUCHER,  "restock_voucher",  BARRIER) \
    X(WEBHOOK_ADD,      "webhook_add",      BARRIER) \
    X(WEBHOOK_CHANGE,   "webhook_change",   BARRIER) \
    X(WEBHOOK_REMOVE,   "webhook_remove",   BARRIER)

#define X(word, ...) STATEMENT_##word,
enum statement { STORE_STATEMENTS(X) STATEMENT_COUNT };
#undef X
/* clang-format on */

enum store_follower {
    STORE_NOTHING,
    STORE_PROOF, /* STATEMENT_PROOF after the transaction */
    STORE_BARRIER
};

extern const struct store_statement {
    const char *name;
    const char *path;
    enum store_follower follower;
} store_statements[STATEMENT_COUNT];

#endif
