/* store_impl.h - what the files of the store share; not for others. */
#ifndef STORE_IMPL_H
#define STORE_IMPL_H

#include "app/store/store.h"
#include "app/store/store_conn.h"

enum statement {
    STATEMENT_PLACE,
    STATEMENT_FIND,
    STATEMENT_RESOLVE,
    STATEMENT_RETIRE,
    STATEMENT_READ_ORDER,
    STATEMENT_LIST_ORDERS,
    STATEMENT_PAY_ORDER, /* these four in the order of enum change */
    STATEMENT_CANCEL_ORDER,
    STATEMENT_REFUND_ORDER,
    STATEMENT_REDEEM_ORDER,
    STATEMENT_DUE_BATCHES,
    STATEMENT_EXPIRE_BATCHES,
    STATEMENT_VOUCHER_EVENTS,
    STATEMENT_ORDER_EVENTS,
    STATEMENT_READ_VOUCHERS,
    STATEMENT_LIST_ANY, /* these four in the order of enum voucher_state */
    STATEMENT_LIST_UPCOMING,
    STATEMENT_LIST_OPEN,
    STATEMENT_LIST_ENDED,
    STATEMENT_CREATE_VOUCHER,
    STATEMENT_PATCH_VOUCHER,
    STATEMENT_RESTOCK_VOUCHER,
    STATEMENT_COUNT,
};

extern const struct store_statement store_statements[STATEMENT_COUNT + 1];

typedef void (*store_key_cb)(enum status status, struct placement *placement, void *arg);
typedef void (*store_orders_cb)(enum status status, const struct order *orders,
                                size_t count, void *arg);

typedef void (*store_events_cb)(enum status status, const struct event *events,
                                size_t count, void *arg);
typedef void (*store_expired_cb)(enum status status, uint64_t expired, bool is_progress,
                                 void *arg);

/** One question to the server, from the store's free list. */
struct call {
    struct store_call base;
    struct list link; /* in store->free, later, lookups, changing or resolving */
    struct store *store;
    enum status status; /* of one that is answered later, without the server */
    union {
        store_batch_cb batch;
        store_order_cb order;
        store_orders_cb orders;
        store_vouchers_cb vouchers;
        store_events_cb events;
    } callback;
    void *arg;
    int64_t voucher_id;
    /* batches and resolving */
    struct placement *const *placements;
    size_t count; /* also of the asks */
    int64_t deadline_us;
    enum change change; /* of changes */
    struct list asks;   /* of a look-up, of changes */
};

/** One who asks for a key, or for a change, together with others of the same voucher. */
struct ask {
    struct list link;
    struct placement *placement;
    store_key_cb callback;
    const struct order_change *change;
    store_change_cb changed;
    void *arg;
};

/** A connection for batches. */
struct lane {
    struct store *store;
    struct store_conn *conn;
};

/** A server process that may still be at work on a batch we know nothing of. */
struct suspect {
    struct list link;
    struct store_backend backend;
};

struct store {
    struct store_options options;
    struct store_conn *main;    /* for whatever reads */
    struct store_conn *changes; /* for what changes a row or two, and may wait for it */
    struct lane *lanes;
    struct store_params params; /* scratch */
    struct voucher *vouchers;   /* scratch: rows of one answer */
    size_t vouchers_size;
    struct list free;      /* call */
    struct list free_asks; /* ask */
    struct list later;     /* call, answered by the timer `soon` */
    struct list lookups;   /* call, sent by the next flush */
    struct list changing;  /* call, sent when the connection for changes is free */
    struct list resolving; /* call, waiting for suspects to be gone */
    struct list suspects;  /* suspect */
    size_t retiring;       /* so many of the first suspects are asked about just now */
    struct store_call retire_call;
    uv_timer_t soon;
    uv_timer_t retire_again;
    bool is_up, is_state_told;
    bool is_closed;
    unsigned handles;
    uint64_t reconnects;
    void (*closed)(void *arg);
    void *closed_arg;
};

/** A zeroed call whose answer goes to `done`. Ends the process when memory is out:
 * without memory of whom an answer is owed no promise can be kept. */
struct call *store_call_new(struct store *store,
                            void (*done)(struct store_call *call, enum status status,
                                         const PGresult *result, const struct err *why));
void store_call_end(struct call *call);

/** Answer `call` with `status` when the loop comes round. */
void store_answer_later(struct call *call, enum status status);

/** Send store->params; a call that cannot be sent is answered later. */
void store_ask(struct store_conn *conn, struct call *call, enum statement statement);

/** The same on the connection for changes, which has a ceiling: STATUS_BUSY. */
void store_ask_change(struct call *call, enum statement statement);

/** The row of an order whose columns begin with number `first`, see ORDER_COLUMNS. */
struct order store_decode_order(const PGresult *result, int row, int first);

/** An ask, zeroed but for `arg`. */
struct ask *store_ask_new(struct store *store, void *arg);

/** Send the changes that were collected, as far as their connection is free. */
void store_send_changes(struct store *store);

/** Send the look-ups of keys that were collected. */
void store_send_lookups(struct store *store);

/** Go on with those that resolve: retire suspects, then look up. */
void store_resolve_step(struct store *store);

/** A lane failed while batches were under way. */
void store_suspect(struct store *store, struct store_backend backend);

static inline struct call *call_of(struct store_call *base)
{
    return list_item(base, struct call, base);
}

#endif
