/*
 * store.h - the database of one event loop: typed calls, answered by callbacks.
 *
 * What the sale reads has one connection in pipeline mode: the catalogue, look-ups by key
 * and look-ups of lost commits. All other reads share a second one, changes have two, and
 * batches of orders have connections of their own ("lanes"). So a commit that waits for
 * the disk or for a row lock delays no read, commits of different vouchers overlap, and no
 * number of reads delays an order. Expiry has a connection too, in one store per instance.
 *
 * Lists may be read from another database: a standby, or an aggregate of many. Its state has
 * no effect on anything else.
 *
 * Calls wait for their connection in bounded queues, until their deadline. A transaction
 * waits for a row lock for a short time only; then it returns to the queue of its voucher,
 * which from then on gets a bounded share of the connections until it is fast again.
 *
 * A call is answered STATUS_OK only after the server has confirmed, behind the commit, that
 * commits are as durable as `required`. If they are not, all connections leave the server at
 * once. A server of lists need not be durable.
 *
 * A failed connection is reopened with back-off, without end, at the next host if there are
 * several. All connections are to the same server: when one has found another that accepts
 * writes, all others follow. Every call is answered exactly once, never from inside the call,
 * with
 *   STATUS_OK
 *   STATUS_DOWN       not connected: nothing was sent
 *   STATUS_IO,
 *   STATUS_TIMEOUT    the connection failed, or no answer in time: unknown
 *   STATUS_BUSY       a transient error of the server (shutdown, deadlock, lock or
 *                     statement time-out, lack of resources), or no turn before the
 *                     deadline: nothing was changed, a retry may succeed
 *   STATUS_NO_MEMORY  too many calls wait: nothing was sent
 *   STATUS_REFUSED    a permanent error of the server: nothing was changed
 *   STATUS_CANCELLED  the store was closed
 *
 * Threads: the loop's only.
 */
#ifndef STORE_H
#define STORE_H

#include "app/core/metrics.h"
#include "base/err.h"
#include "base/list.h"

#include <stdio.h>
#include <uv.h>

struct store;

struct store_options {
    uv_loop_t *loop;
    const char *database_url; /* libpq URI or keyword string; see database_url.h */
    const char *lists_url;    /* the same, for lists; borrowed; NULL: database_url */
    uint32_t timeout_ms;      /* per call without a deadline of its own */
    unsigned lanes;           /* connections for batches of orders, >= 1 */
    bool expires_orders;      /* expire overdue orders if no other store does */
    enum durability required; /* a server that promises less is not used */
    struct metrics *metrics;  /* gets postgres_reconnects and expiry_leader */
    /* A notification: the row `voucher_id` changed. 0, after each connect: notifications
       may have been missed. */
    void (*on_voucher_changed)(int64_t voucher_id, void *arg);
    /* All connections but that for expiry are up, or one is not, because of `why`:
       STATUS_INVALID: the database is not UTF8; STATUS_REFUSED: the role may not place
       orders; STATUS_BUSY: the server is read-only; STATUS_UNSAFE: it is less durable than
       required; other states: no connection. Called when that changes. */
    void (*on_state)(bool is_up, const struct err *why, void *arg);
    /* The connection to `lists_url` is up, or an attempt has failed. */
    void (*on_lists_state)(bool is_up, const struct err *why, void *arg);
    void *arg;
};

MUST_CHECK enum status store_open(const struct store_options *options,
                                  struct store **ret_store, struct err *reterr);

/** Answer all calls STATUS_CANCELLED before this returns, and close. `closed` (may be
 *  NULL) is called when all handles have closed. Accepts NULL. */
void store_close(struct store *store, void (*closed)(void *arg), void *arg);

bool store_is_up(const struct store *store);

/** What the last proof of the main connection said. */
enum durability store_durability(const struct store *store);

/** Ask the server how durable it is, unless calls are under way: their proofs say it too. */
void store_check(struct store *store);

/** Whether a voucher or an order with this id is in another cell, so in another database. 0: no. */
bool store_is_foreign(const struct store *store, int64_t id);

/** In the callback of a list: how old its content may be. -1: it is not older than the call. */
int64_t store_lists_age_s(const struct store *store);

/** Print the state of its connections as a JSON object. */
void store_print(const struct store *store, FILE *out);

/** To be called once a turn: sends its calls. */
void store_flush(struct store *store);

/* -- orders -- */

/** One request of a batch, in the caller's memory. */
struct placement {
    int64_t user_id;
    int64_t fence;   /* > 0; 0: without a lock, the fence is not checked */
    struct text key; /* request key; borrowed until the batch is answered */
    bool has_ticket; /* a valid one; matters if the voucher requires a ticket */
    /* the answer, set on STATUS_OK: */
    enum verdict verdict; /* NONE, of a batch: not understood, so unknown */
    struct order order;   /* whole for PLACED and REPEATED; only id for ALREADY_ORDERED */
};

/** The state of a voucher after a batch, for the catalogue. */
struct voucher_snapshot {
    int64_t voucher_id;
    int64_t version;
    int64_t stock_left;
    int64_t begin_us;
    int64_t end_us;
};

/** @snapshot  NULL unless `status` is STATUS_OK and the voucher exists
 *  @arg       of the batch */
typedef void (*store_batch_cb)(enum status status,
                               const struct voucher_snapshot *snapshot,
                               const struct err *why, void *arg);

/** Requests for one voucher; borrowed until the callback, with what it points to. */
struct store_batch {
    int64_t voucher_id;
    struct placement **placements;
    size_t count;        /* 1..10000 */
    int64_t deadline_us; /* clock_mono_us() at which the first of them must be answered */
    bool is_slow;        /* of a slow voucher: takes one of the lanes for those */
    /* Not NULL: release the voucher's row before the commit is durable, and call this when it
       has been released. The callback follows when the commit is durable. */
    void (*released)(void *arg);
    void *arg;
    /* the store's: */
    struct list link;
    enum status status;
    struct voucher_snapshot snapshot; /* voucher_id 0: none */
};

/** How many batches, of slow vouchers or of others, the lanes can take now. */
unsigned store_batch_room(const struct store *store, bool is_slow);

/**
 * Decide on the placements of batches and insert the orders, in one transaction. A part of
 * the time until the deadline is left for store_resolve_orders().
 *
 * To be called only with store_batch_room() > 0; otherwise STATUS_DOWN.
 *
 * @batches  store_batch, at least one, by `link`; moved. Of several, each has a voucher of
 *           its own. A voucher whose row is held does not make the others wait: its batch
 *           is answered STATUS_BUSY
 */
void store_place_orders(struct store *store, struct list *batches,
                        store_batch_cb callback);

/**
 * Find the outcome of a batch after STATUS_IO or STATUS_TIMEOUT. Ensures first that no
 * server process works on it, then looks each placement up by its fence (or by its
 * key where the fence is 0). Sets VERDICT_PLACED and the order where the row exists,
 * VERDICT_NONE elsewhere. `snapshot` is NULL.
 */
void store_resolve_orders(struct store *store, struct store_batch *batch,
                          store_batch_cb callback);

typedef void (*store_key_cb)(enum status status, const struct placement *placement,
                             void *arg);

/** A look-up of a request key, in the caller's memory until it is answered. */
struct key_lookup {
    struct placement placement; /* user_id and key are read; the answer is set */
    int64_t deadline_us;        /* clock_mono_us(); 0: timeout_ms from now */
    /* the store's: */
    struct list link;
    store_key_cb callback;
    void *arg;
};

/**
 * Find the order that the shopper placed with this request key; if there is none, find
 * out whether the shopper has reached the voucher's limit of live orders. Look-ups of a
 * turn share queries. Sets VERDICT_REPEATED and the order; VERDICT_ALREADY_ORDERED and
 * order.id (of a live order) at the limit; VERDICT_NONE otherwise.
 */
void store_find_by_key(struct store *store, int64_t voucher_id, struct key_lookup *lookup,
                       store_key_cb callback, void *arg);

/** @order  valid during the callback; STATUS_NOT_FOUND: NULL */
typedef void (*store_order_cb)(enum status status, const struct order *order, void *arg);

/** @user_id  0: any owner; otherwise an order of another shopper is STATUS_NOT_FOUND */
void store_read_order(struct store *store, int64_t order_id, int64_t user_id,
                      store_order_cb callback, void *arg);

struct order_filter {
    int64_t user_id;
    int64_t voucher_id; /* 0: all */
    int64_t before_id;  /* 0: from the newest */
    unsigned limit;
};

/** @orders  newest first; valid during the callback */
typedef void (*store_orders_cb)(enum status status, const struct order *orders,
                                size_t count, void *arg);

void store_list_orders(struct store *store, const struct order_filter *filter,
                       store_orders_cb callback, void *arg);

/* -- life of an order -- */

/** @order  its new state, valid during the callback; NULL unless `status` is STATUS_OK,
 *          and with CHANGE_NO_ORDER */
typedef void (*store_change_cb)(enum status status, enum change_verdict verdict,
                                const struct order *order, void *arg);

/** A change, in the caller's memory until it is answered, with what it points to. */
struct order_change {
    enum change change;
    int64_t voucher_id;
    int64_t order_id;
    const char *actor;
    struct text payment_ref; /* of CHANGE_PAY: 1..PAYMENT_REF_MAX bytes */
    int64_t amount_cents;    /* of CHANGE_PAY */
    int64_t deadline_us;     /* clock_mono_us(); 0: timeout_ms from now */
    /* the store's: */
    struct list link;
    store_change_cb callback;
    void *arg;
};

/** Changes of one kind to orders of one voucher that wait share a transaction. */
void store_change_order(struct store *store, struct order_change *change,
                        store_change_cb callback, void *arg);

struct event_filter {
    int64_t voucher_id;
    int64_t order_id; /* 0: all of the voucher's history */
    int64_t after_id; /* 0: from the start */
    unsigned limit;
    int64_t deadline_us; /* clock_mono_us(); 0: timeout_ms from now */
};

/** @events  in the order of the commits, so no event with a smaller id appears later;
 *           valid during the callback with their texts */
typedef void (*store_events_cb)(enum status status, const struct event *events,
                                size_t count, void *arg);

void store_list_events(struct store *store, const struct event_filter *filter,
                       store_events_cb callback, void *arg);

/* -- vouchers -- */

/** @vouchers  valid during the callback with their texts
 *  @now_us    the database's clock when it answered */
typedef void (*store_vouchers_cb)(enum status status, const struct voucher *vouchers,
                                  size_t count, int64_t now_us, void *arg);

/** Read a voucher: one row, or STATUS_NOT_FOUND. */
void store_read_voucher(struct store *store, int64_t voucher_id,
                        store_vouchers_cb callback, void *arg);

/** Read the rows of `ids` (0..10000, copied) for the catalogue: without title and
 *  description. Unknown ids are left out. */
void store_read_vouchers(struct store *store, const int64_t *ids, size_t count,
                         store_vouchers_cb callback, void *arg);

enum voucher_state { VOUCHER_ANY, VOUCHER_UPCOMING, VOUCHER_OPEN, VOUCHER_ENDED };

/* The order of the list: any: newest id first; upcoming: earliest begin first; open:
   earliest end first; ended: latest end first. The cursor is the last row's time (begin or
   end as the list is ordered, 0 for any) and id. */
struct voucher_filter {
    enum voucher_state state;
    int64_t after_us;
    int64_t after_id; /* 0: from the start */
    unsigned limit;
};

void store_list_vouchers(struct store *store, const struct voucher_filter *filter,
                         store_vouchers_cb callback, void *arg);

/* The next three answer with the one row in its new state, or with STATUS_NOT_FOUND, or
   with STATUS_INVALID: the end is not after the begin; of a restock: more is removed than
   is left, or the total exceeds STOCK_MAX. */

/** @voucher  id, version and stock_left are not read; strings are copied
 *  @actor    for the history */
void store_create_voucher(struct store *store, const struct voucher *voucher,
                          const char *actor, store_vouchers_cb callback, void *arg);

/** @changes  unchanged are absent texts, begin_us, end_us and pay_within_s if they are 0, and
 *            requires_ticket and pow_bits if they are -1; the others are not read */
void store_patch_voucher(struct store *store, int64_t voucher_id,
                         const struct voucher *changes, store_vouchers_cb callback,
                         void *arg);

/** @add  negative: removes unsold stock */
void store_restock_voucher(struct store *store, int64_t voucher_id, int64_t add,
                           const char *actor, store_vouchers_cb callback, void *arg);

#endif
