/*
 * store.h - the database of one event loop: typed calls, answered through callbacks.
 *
 * Reading calls share one connection in pipeline mode: what is asked in one turn of the
 * loop leaves in one write, and answers come in the order of the questions. What changes
 * a row has another, and batches of orders have connections of their own ("lanes"), so
 * that a commit that waits for the disk or for a lock delays no reader, and the commits
 * of different vouchers wait together.
 *
 * A connection that fails is opened again with back-off, for ever. Every call is answered
 * exactly once, never from inside the call itself, with
 *   STATUS_OK
 *   STATUS_DOWN       not connected: nothing was sent
 *   STATUS_IO,
 *   STATUS_TIMEOUT    the connection failed, or no answer in time: unknown
 *   STATUS_BUSY       the server could not just now (shutting down, deadlock, lock or
 *                     statement time-out, out of resources): nothing was changed, another
 *                     try may work
 *   STATUS_REFUSED    the server refused with an error that another try will not mend:
 *                     nothing was changed
 *   STATUS_CANCELLED  the store was closed
 *
 * Threads: that of the loop.
 */
#ifndef STORE_H
#define STORE_H

#include "app/core/model.h"
#include "base/attributes.h"
#include "base/err.h"

#include <uv.h>

struct store;

struct store_options {
    uv_loop_t *loop;
    const char *database_url; /* libpq URI or keyword string */
    uint32_t timeout_ms;      /* for one call, from its sending to its answer */
    unsigned lanes;           /* connections for batches of orders, >= 1 */
    /* The row `voucher_id` changed, says a notification; 0: some may have been missed
       (sent after each connect). */
    void (*on_voucher_changed)(int64_t voucher_id, void *arg);
    /* All connections are up, or one is not: `why` tells. For logs, metrics, readyz. */
    void (*on_state)(bool is_up, const struct err *why, void *arg);
    void *arg;
};

MUST_CHECK enum status store_open(const struct store_options *options,
                                  struct store **ret_store, struct err *reterr);

/** Ends all: calls under way are answered STATUS_CANCELLED before this returns; `closed`
 *  (may be NULL) is called when the loop holds nothing of the store. Accepts NULL. */
void store_close(struct store *store, void (*closed)(void *arg), void *arg);

bool store_is_up(const struct store *store);

/** How often a connection had to be opened again since the start. */
uint64_t store_reconnects(const struct store *store);

/** Write what this turn has asked. */
void store_flush(struct store *store);

/* -- orders -- */

/** One request of a batch, in the caller's memory. */
struct placement {
    int64_t user_id;
    int64_t fence;   /* > 0, or 0: without a lock, the fence is not checked */
    struct text key; /* request key; borrowed until the batch is answered */
    /* the answer, set on STATUS_OK: */
    enum verdict verdict;
    struct order order; /* whole for PLACED and REPEATED; id alone for ALREADY_ORDERED */
};

/** What a batch told of its voucher, for the catalogue. */
struct voucher_snapshot {
    int64_t voucher_id;
    int64_t version;
    int64_t stock_left;
    int64_t begin_us;
    int64_t end_us;
    int64_t now_us; /* the database's clock when the batch held the row */
};

/** @snapshot  NULL unless `status` is STATUS_OK and the voucher exists */
typedef void (*store_batch_cb)(enum status status,
                               const struct voucher_snapshot *snapshot,
                               const struct err *why, void *arg);

/** How many batches the lanes take just now. */
unsigned store_batch_room(const struct store *store);

/**
 * One transaction: judge and insert `count` placements of one voucher.
 *
 * @placements  count pointers, 1..10000; array and structs borrowed until the callback
 *
 * To be called only with store_batch_room() > 0; otherwise STATUS_DOWN.
 */
void store_place_orders(struct store *store, int64_t voucher_id,
                        struct placement *const *placements, size_t count,
                        store_batch_cb callback, void *arg);

/**
 * After STATUS_IO or STATUS_TIMEOUT of a batch: what became of it? Makes sure first that
 * the server no longer works on it, then looks each placement up by its fence (or by its
 * key where the fence is 0). Sets VERDICT_PLACED and the order where the row exists,
 * VERDICT_NONE elsewhere. `snapshot` is NULL.
 */
void store_resolve_orders(struct store *store, int64_t voucher_id,
                          struct placement *const *placements, size_t count,
                          store_batch_cb callback, void *arg);

/**
 * Has this shopper's request key made an order, or has the shopper a live one? One query
 * a turn for all that ask. Sets VERDICT_REPEATED and the order; VERDICT_ALREADY_ORDERED
 * and order.id when the shopper's live orders have reached the voucher's limit;
 * VERDICT_NONE otherwise.
 *
 * @placement  borrowed until the callback; fence is not read
 */
void store_find_by_key(struct store *store, int64_t voucher_id,
                       struct placement *placement,
                       void (*callback)(enum status status, struct placement *placement,
                                        void *arg),
                       void *arg);

/** @order  valid during the callback; STATUS_NOT_FOUND: NULL */
typedef void (*store_order_cb)(enum status status, const struct order *order, void *arg);

/** @user_id  0: whosever it is; otherwise another's order is STATUS_NOT_FOUND */
void store_read_order(struct store *store, int64_t order_id, int64_t user_id,
                      store_order_cb callback, void *arg);

struct order_filter {
    int64_t user_id;
    int64_t voucher_id; /* 0: all */
    int64_t before_id;  /* 0: from the newest */
    unsigned limit;
};

/** Newest first; `orders` valid during the callback. */
void store_list_orders(struct store *store, const struct order_filter *filter,
                       void (*callback)(enum status status, const struct order *orders,
                                        size_t count, void *arg),
                       void *arg);

/* -- what becomes of orders -- */

struct order_change {
    enum change change;
    int64_t voucher_id;
    int64_t order_id;
    const char *actor;
    struct text payment_ref; /* these two of CHANGE_PAY: 1..PAYMENT_REF_MAX bytes */
    int64_t amount_cents;
};

/** @order  as it is now, valid during the callback; NULL unless `status` is STATUS_OK,
 *          and with CHANGE_NO_ORDER */
typedef void (*store_change_cb)(enum status status, enum change_verdict verdict,
                                const struct order *order, void *arg);

/** Those of a turn that do the same to orders of one voucher are one transaction.
 *  @change  borrowed until the callback, with what it points to */
void store_change_order(struct store *store, const struct order_change *change,
                        store_change_cb callback, void *arg);

/**
 * Expire orders that are unpaid and overdue, the oldest deadline first, a few hundred of
 * a voucher at most. Several may be at it at once, here and elsewhere: each order expires
 * once.
 *
 * @callback  how many this call has expired, and whether it got on, so that the next may
 *            find more: without, there may be some that others are at work on. Also
 *            called for what failed: the rest may have been done
 */
void store_expire_orders(struct store *store,
                         void (*callback)(enum status status, uint64_t expired,
                                          bool is_progress, void *arg),
                         void *arg);

struct event_filter {
    int64_t voucher_id;
    int64_t order_id; /* 0: all of the voucher's history */
    int64_t after_id; /* 0: from the start */
    unsigned limit;
};

/** In the order of the commits: whoever has read up to an id has missed none below it.
 *  `events` and their texts are valid during the callback. */
void store_list_events(struct store *store, const struct event_filter *filter,
                       void (*callback)(enum status status, const struct event *events,
                                        size_t count, void *arg),
                       void *arg);

/* -- vouchers -- */

/** `now_us`: the database's clock when it answered. Array and strings are valid during
 *  the callback. */
typedef void (*store_vouchers_cb)(enum status status, const struct voucher *vouchers,
                                  size_t count, int64_t now_us, void *arg);

/** Read the rows of `ids` (1..10000, copied); those that do not exist are left out. */
void store_read_vouchers(struct store *store, const int64_t *ids, size_t count,
                         store_vouchers_cb callback, void *arg);

enum voucher_state { VOUCHER_ANY, VOUCHER_UPCOMING, VOUCHER_OPEN, VOUCHER_ENDED };

/* The order of the list: any: newest id first; upcoming: soonest begin first; open:
   soonest end first; ended: latest end first. The cursor is the last row's time (begin or
   end as the order has it, 0 for any) and id. */
struct voucher_filter {
    enum voucher_state state;
    int64_t after_us;
    int64_t after_id; /* 0: from the start */
    unsigned limit;
};

void store_list_vouchers(struct store *store, const struct voucher_filter *filter,
                         store_vouchers_cb callback, void *arg);

/* The next three answer with the one row as it is afterwards, or STATUS_NOT_FOUND;
   STATUS_INVALID where a rule between fields does not hold (end after begin; restock:
   more taken back than is left, or a total above STOCK_MAX). */

/** @voucher  id, version and stock_left are not read; strings are copied
 *  @actor    for the history */
void store_create_voucher(struct store *store, const struct voucher *voucher,
                          const char *actor, store_vouchers_cb callback, void *arg);

/** NULL or 0: leave as it is. */
struct voucher_patch {
    const struct text *title;
    const struct text *description;
    int64_t begin_us;
    int64_t end_us;
    int64_t pay_within_s;
    const int64_t *requires_ticket; /* 0, 1 */
    const int64_t *pow_bits;
};

void store_patch_voucher(struct store *store, int64_t voucher_id,
                         const struct voucher_patch *patch, store_vouchers_cb callback,
                         void *arg);

/** @add  may be negative: takes unsold stock back */
void store_restock_voucher(struct store *store, int64_t voucher_id, int64_t add,
                           const char *actor, store_vouchers_cb callback, void *arg);

#endif
