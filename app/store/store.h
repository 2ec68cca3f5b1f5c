/*
 * store.h - the database of one event loop: typed calls, answered by callbacks.
 *
 * Calls share connections as follows, so that no call waits behind a slow call of another kind:
 *   main connection  the reads of the sale: the catalogue, look-ups by key, and look-ups of orders
 *                    whose commit was not answered
 *   reads            all other reads
 *   two for changes  changes of vouchers and of placed orders
 *   lanes            batches of orders, one transaction at a time on each lane
 *   expiry           expiry of unpaid orders, in one store of the instance
 * So a commit that waits for the disk or for a row lock delays no read, commits of different
 * vouchers overlap, and no number of reads delays an order. The connections use pipeline mode.
 *
 * Lists may be read from another database: a standby, or an aggregate of several databases.
 * The state of that database affects only lists.
 *
 * Calls wait for their connection in bounded queues, until their deadline. A transaction waits for
 * a row lock only for a short time. Then its calls return to the queue of their voucher, and the
 * voucher gets only a limited share of the connections until its transactions are fast again.
 *
 * A call is answered RLOCK_OK only after a proof: a statement after the commit, by which the server
 * confirms that commits are as durable as `required`. If they are not, all connections leave the
 * server at once. The server of the lists need not be durable.
 *
 * A failed connection is opened again, with pauses, any number of times. If there are several
 * hosts, each attempt takes the next one. All connections use the same server: if one of them has
 * found another server that accepts writes, the others follow. Every call is answered exactly once,
 * after the function has returned, with
 *   RLOCK_OK
 *   RLOCK_DOWN        there was no connection; nothing was sent
 *   RLOCK_IO,
 *   RLOCK_TIMEOUT     the connection failed, or there was no answer in time; the outcome is unknown
 *   RLOCK_BUSY        nothing was changed, and a retry may succeed: the server had a transient
 *                     error (shutdown, deadlock, lock or statement time-out, lack of resources),
 *                     or nothing was sent before the deadline
 *   RLOCK_NO_MEMORY   too many calls wait; nothing was sent
 *   RLOCK_REFUSED     the server had a permanent error; nothing was changed
 *   RLOCK_CANCELLED   the store was closed
 *
 * Threads: the loop's only.
 */
#ifndef STORE_H
#define STORE_H

#include "app/core/log.h"
#include "app/core/metrics.h"
#include "base/err.h"
#include "base/list.h"

#include <stdio.h>
#include <uv.h>

struct store;

struct store_options {
    uv_loop_t *loop;
    const char *database_url; /* libpq URI or keyword string; see database_url.h */
    const char *lists_url; /* the database of the lists; borrowed; NULL: database_url */
    uint32_t timeout_ms;   /* the limit of a call that has no deadline of its own */
    unsigned lanes;      /* connections for batches of orders; 0: there are no batches */
    bool expires_orders; /* expire overdue orders if no other store does */
    enum durability required; /* the store uses no server whose commits survive less */
    struct metrics *metrics;  /* the store sets postgres_reconnects and expiry_leader */
    /* Called with the id of a voucher that has changed. Also called with 0 after each connect:
       notifications may have been lost, so any voucher may have changed. */
    void (*on_voucher_changed)(int64_t voucher_id, void *arg);
    /* Called when `is_up` changes, and when a server refuses a connection for a new reason. `is_up`
       is true while all connections are up. The connections for expiry and for lists do not count.
       The status of `why` is one of
         RLOCK_INVALID    the database is not UTF8
         RLOCK_REFUSED    the role may not place orders
         RLOCK_BUSY       the server is read-only
         RLOCK_UNSAFE     the server is less durable than required
         RLOCK_NOT_OWNER  a pooler gives each transaction another server process
         others           there is no connection */
    void (*on_state)(bool is_up, const struct rlock_err *why, void *arg);
    /* Called when the connection to `lists_url` is up, and after each failed attempt to connect. */
    void (*on_lists_state)(bool is_up, const struct rlock_err *why, void *arg);
    void *arg;
};

MUST_CHECK enum rlock_status store_open(const struct store_options *options,
                                        struct store **ret_store,
                                        struct rlock_err *reterr);

/** Answer all calls with RLOCK_CANCELLED at once, and close the store. When all handles have
 *  closed, call `closed`, which may be NULL. Accepts NULL. */
void store_close(struct store *store, void (*closed)(void *arg), void *arg);

bool store_is_up(const struct store *store);

/** The durability that the last proof of the main connection reported. */
enum durability store_durability(const struct store *store);

/** Ask the server for a proof. Does nothing while calls are under way, because each call has a
 *  proof. */
void store_check(struct store *store);

/** Whether the voucher or the order with this id is in the database of another cell. False for id
 *  0. */
bool store_is_foreign(const struct store *store, int64_t id);

/** Return the greatest possible age of a list in seconds. -1: lists are up to date, because they
 *  have no database of their own. Called only in the callback of a list. */
int64_t store_lists_age_s(const struct store *store);

void store_print(const struct store *store, FILE *out);

/** Send the calls of this turn. Called once per turn of the loop. */
void store_flush(struct store *store);

/* -- orders -- */

/** A request of a batch, in the caller's memory. */
struct placement {
    int64_t user_id;
    /* of the order's lock; 0: there is no lock, so Postgres checks no fence */
    int64_t fence;
    struct text key; /* request key; borrowed until the batch is answered */
    bool has_ticket; /* the request has a valid ticket */
    /* the answer, set on RLOCK_OK: */
    enum verdict verdict; /* VERDICT_NONE after a batch: the outcome is unknown */
    /* complete if PLACED or REPEATED; only the id if ALREADY_ORDERED */
    struct order order;
};

/** The state of a voucher after a batch, for the catalogue. */
struct voucher_snapshot {
    int64_t voucher_id;
    int64_t version;
    int64_t stock_left;
    int64_t begin_us;
    int64_t end_us;
};

/** @snapshot  NULL unless `status` is RLOCK_OK and the voucher exists
 *  @arg       the `arg` of the batch */
typedef void (*store_batch_cb)(enum rlock_status status,
                               const struct voucher_snapshot *snapshot,
                               const struct rlock_err *why, void *arg);

/** Order requests for one voucher. The store borrows the batch and everything to which it points
 *  until the callback. */
struct store_batch {
    int64_t voucher_id;
    struct placement **placements;
    size_t count;        /* 1..10000 */
    int64_t deadline_us; /* clock_mono_us(): the earliest deadline of the requests */
    bool is_slow;        /* whether the batch may only use a lane for slow vouchers */
    /* NULL, or a function that is called when the voucher's row is released, before the commit is
       durable. The callback of the batch follows when the commit is durable. */
    void (*released)(void *arg);
    void *arg;
    /* used by the store: */
    struct rlock_link link;
    enum rlock_status status;
    struct voucher_snapshot snapshot; /* voucher_id 0: there is no snapshot */
};

/** Return how many more transactions the lanes can take now: of slow vouchers if `is_slow`,
 *  otherwise of other vouchers. */
unsigned store_batch_room(const struct store *store, bool is_slow);

/**
 * Decide on the placements of the batches, and insert the orders, in one transaction. A part of the
 * time until the deadline is reserved for store_resolve_orders().
 *
 * If store_batch_room() is 0, the answer is RLOCK_DOWN.
 *
 * @batches  a list of at least one store_batch, linked by `link`. The list is emptied. The batches
 *           have different vouchers. If there are several batches and the row of one voucher is
 *           held, only its batch is answered RLOCK_BUSY, and the others do not wait for it
 */
void store_place_orders(struct store *store, struct rlock_link *batches,
                        store_batch_cb callback);

/**
 * Find the outcome of a batch after RLOCK_IO or RLOCK_TIMEOUT. First the server process that may
 * still work on the batch is ended. Then each placement is looked up by its fence, or by its key if
 * the fence is 0. If the order exists, it is set with VERDICT_PLACED. Otherwise VERDICT_NONE is
 * set. The `snapshot` of the callback is NULL.
 */
void store_resolve_orders(struct store *store, struct store_batch *batch,
                          store_batch_cb callback);

typedef void (*store_key_cb)(enum rlock_status status, const struct placement *placement,
                             void *arg);

/** A look-up of a request key, in the caller's memory until it is answered. */
struct key_lookup {
    struct placement placement; /* the caller sets user_id and key, the store the rest */
    int64_t deadline_us;        /* clock_mono_us(); 0: timeout_ms from now */
    /* used by the store: */
    struct rlock_link link;
    store_key_cb callback;
    void *arg;
};

/**
 * Find the order that the shopper placed with this request key. The verdict is one of these:
 *   VERDICT_REPEATED         the order was found, and is set
 *   VERDICT_ALREADY_ORDERED  it was not found, but the shopper has reached the voucher's limit of
 *                            live orders; the id of one of these is set
 *   VERDICT_NONE             neither
 * The look-ups of a turn share queries.
 */
void store_find_by_key(struct store *store, int64_t voucher_id, struct key_lookup *lookup,
                       store_key_cb callback, void *arg);

/** @order  valid during the callback; NULL unless `status` is RLOCK_OK */
typedef void (*store_order_cb)(enum rlock_status status, const struct order *order,
                               void *arg);

/** @user_id  0: the order may belong to any shopper. Otherwise the status is RLOCK_NOT_FOUND if the
 *            order belongs to another shopper */
void store_read_order(struct store *store, int64_t order_id, int64_t user_id,
                      store_order_cb callback, void *arg);

/** A field that is 0 or NULL matches any order. At least one of the first four must be set. */
struct order_filter {
    int64_t order_id;
    struct text payment_ref; /* 1..PAYMENT_REF_MAX bytes */
    int64_t user_id;
    int64_t voucher_id;
    struct text status; /* a name of enum order_status */
    int64_t from_us;
    int64_t until_us;
    int64_t before_id; /* only orders with smaller ids; 0: all */
    unsigned limit;
};

/** @page  valid during the callback; NULL unless `status` is RLOCK_OK. A page that is not the last
 *         may have fewer orders than `limit`, or none: one call reads a limited number of orders,
 *         and few of them may pass the filter */
typedef void (*store_orders_cb)(enum rlock_status status, const struct order_page *page,
                                void *arg);

void store_list_orders(struct store *store, const struct order_filter *filter,
                       store_orders_cb callback, void *arg);

/* -- life of an order -- */

/** @order  the new state of the order, valid during the callback; NULL if the verdict is
 *          CHANGE_NO_ORDER or `status` is not RLOCK_OK */
typedef void (*store_change_cb)(enum rlock_status status, enum change_verdict verdict,
                                const struct order *order, void *arg);

/** A change of an order. The store borrows the change and everything to which it points until the
 *  callback. */
struct order_change {
    enum change change;
    int64_t voucher_id;
    int64_t order_id;
    const char *actor;
    struct text payment_ref; /* for CHANGE_PAY only: 1..PAYMENT_REF_MAX bytes */
    int64_t amount_cents;    /* for CHANGE_PAY only */
    struct text key;     /* Idempotency-Key, up to REQUEST_KEY_MAX; bytes NULL: none */
    int64_t deadline_us; /* clock_mono_us(); 0: timeout_ms from now */
    /* used by the store: */
    struct rlock_link link;
    store_change_cb callback;
    void *arg;
};

/** Change an order. Changes of the same kind to orders of the same voucher share a transaction. */
void store_change_order(struct store *store, struct order_change *change,
                        store_change_cb callback, void *arg);

struct event_filter {
    int64_t voucher_id;
    int64_t order_id;    /* 0: the history of the voucher */
    bool without_orders; /* leave out the events of the voucher's orders */
    int64_t after_id;    /* 0: from the start */
    unsigned limit;
    int64_t deadline_us; /* clock_mono_us(); 0: timeout_ms from now */
};

/** @events  in the order of the commits, so no event with a smaller id will be added. The events
 *           and their texts are valid during the callback */
typedef void (*store_events_cb)(enum rlock_status status, const struct event *events,
                                size_t count, void *arg);

void store_list_events(struct store *store, const struct event_filter *filter,
                       store_events_cb callback, void *arg);

/* -- the feed of all vouchers, in the order of sql/functions/feed_events.sql -- */

typedef void (*store_feed_cb)(enum rlock_status status, bool is_complete, void *arg);

/** Find the number up to which all changes are committed or lost, and keep this number for
 *  store_feed_until(). If `is_complete`, no change has a greater number yet. Called again only
 *  after the callback. */
void store_advance_feed(struct store *store, store_feed_cb callback, void *arg);

/** The number that store_advance_feed() has found, or 0 if this connection has not found a number
 *  yet. */
int64_t store_feed_until(const struct store *store);

struct feed_position {
    /* the number by which the last event that was read is sorted; 0: from the start */
    int64_t first;
    int64_t number; /* the number of this event itself */
};

struct feed_filter {
    struct feed_position after;
    unsigned limit;
};

/** List events of all vouchers that come after the position, up to store_feed_until(). */
void store_list_feed(struct store *store, const struct feed_filter *filter,
                     store_events_cb callback, void *arg);

/** The person who makes a change, and the key of the request. The store copies both. */
struct author {
    const char *actor; /* for the history */
    struct text key;   /* Idempotency-Key, up to REQUEST_KEY_MAX; bytes NULL: none */
};

/* -- webhooks -- */

#define STORE_WEBHOOKS_MAX 64

/** An endpoint. */
struct webhook {
    int64_t id;
    int64_t version; /* grows whenever an operator changes the endpoint */
    int64_t fence;   /* of the lock of the deliverer that last changed the row */
    const char *url;
    const char *secret;
    struct feed_position position; /* the endpoint has received the events up to here */
};

/** @webhooks  valid during the callback, as are their texts */
typedef void (*store_webhooks_cb)(enum rlock_status status,
                                  const struct webhook *webhooks, size_t count,
                                  void *arg);

/** List the endpoints that are not disabled. If the status is not RLOCK_OK, `count` is 0 and nothing
 *  is known. The callback is not called inside this call. */
void store_list_webhooks(struct store *store, store_webhooks_cb callback, void *arg);

/** An attempt to send an event to an endpoint. */
struct webhook_delivery {
    int64_t event_id;
    int64_t at_us;              /* when the message was sent */
    int64_t duration_ms;        /* until its answer or failure */
    char error[LOG_TEXT_BYTES]; /* "": the endpoint has received the event */
};

/** @status       RLOCK_OK; RLOCK_NOT_OWNER: nothing was noted, because an operator has changed or
 *                removed the endpoint, or a later deliverer has changed its row; others: unknown,
 *                the position may have been stored
 *  @is_disabled  only with RLOCK_OK */
typedef void (*store_webhook_noted_cb)(enum rlock_status status, bool is_disabled,
                                       void *arg);

struct webhook_note {
    const struct webhook *webhook; /* its `url` and `secret` are not used */
    /* why the endpoint did not receive the next event; NULL: it has received all up to `position` */
    const char *error;
    /* the newest last; the last 100 of all notes are kept */
    const struct webhook_delivery *deliveries;
    size_t delivery_count;
};

/** Note how far an endpoint has received the events. What `note` points to is copied. The call may be
 *  repeated; then its deliveries are kept twice. The callback is not called inside this call. */
void store_note_webhook(struct store *store, const struct webhook_note *note,
                        store_webhook_noted_cb callback, void *arg);

/** @states  valid during the callback, as are their texts */
typedef void (*store_webhook_states_cb)(enum rlock_status status,
                                        const struct webhook_state *states, size_t count,
                                        void *arg);

/** Read the state of each endpoint. If the status is not RLOCK_OK, `count` is 0 and
 *  nothing is known. The callback is not called inside this call. */
void store_read_webhook_states(struct store *store, store_webhook_states_cb callback,
                               void *arg);

/** The next three functions change endpoints. `states` has the one that was changed, or removed.
 *
 * @status  RLOCK_OK; RLOCK_NOT_FOUND: there is no such endpoint; RLOCK_INVALID: the position is beyond
 *          the last change, or there are STORE_WEBHOOKS_MAX endpoints; RLOCK_NOT_OWNER: the key belongs
 *          to another request, or the endpoint of its request was removed; others as after a change of
 *          a voucher */

struct webhook_change {
    int64_t webhook_id; /* 0: a new endpoint */
    struct text url;    /* of a new endpoint */
    const char *secret; /* of a new endpoint */
    bool is_enabled;    /* of an endpoint that exists */
    /* the endpoint gets the events behind it; NULL: a new endpoint gets the changes from now on, and
       another one stays where it is */
    const struct feed_position *position;
    struct author author; /* the key is only for a new endpoint */
};

/** What `change` points to is copied. */
void store_add_webhook(struct store *store, const struct webhook_change *change,
                       store_webhook_states_cb callback, void *arg);
void store_change_webhook(struct store *store, const struct webhook_change *change,
                          store_webhook_states_cb callback, void *arg);

void store_remove_webhook(struct store *store, int64_t webhook_id,
                          store_webhook_states_cb callback, void *arg);

#define WEBHOOK_DELIVERIES_MAX 100

/** @status      RLOCK_OK; RLOCK_NOT_FOUND: there is no such endpoint
 *  @deliveries  valid during the callback */
typedef void (*store_deliveries_cb)(enum rlock_status status,
                                    const struct webhook_delivery *deliveries,
                                    size_t count, void *arg);

/** Read the last deliveries of an endpoint, the newest first. The callback is not called inside this
 *  call. */
void store_read_deliveries(struct store *store, int64_t webhook_id,
                           store_deliveries_cb callback, void *arg);

/* -- lotteries -- */

/** An entry of a lottery. */
struct lottery_entry {
    const char *hash; /* in hex; NULL: the draw has not ended */
    bool has_won;
};

/** @entries  valid during the callback */
typedef void (*store_entries_cb)(enum rlock_status status,
                                 const struct lottery_entry *entries, size_t count,
                                 void *arg);

/** Read the entry of a shopper: one row, or none. */
void store_read_entry(struct store *store, int64_t voucher_id, int64_t user_id,
                      store_entries_cb callback, void *arg);

/** List `limit` entries in the order of their hashes, from the hash `from` on, which is hex. Without
 *  a row there is no such lottery, the draw has not ended, or the list ends. */
void store_list_entries(struct store *store, int64_t voucher_id, struct text from,
                        unsigned limit, store_entries_cb callback, void *arg);

/* -- vouchers -- */

/** @vouchers  valid during the callback, as are their texts
 *  @now_us    time of the answer by the database's clock */
typedef void (*store_vouchers_cb)(enum rlock_status status,
                                  const struct voucher *vouchers, size_t count,
                                  int64_t now_us, void *arg);

/** Read a voucher: one row, or RLOCK_NOT_FOUND. */
void store_read_voucher(struct store *store, int64_t voucher_id,
                        store_vouchers_cb callback, void *arg);

/** Read the vouchers with these `ids` (0..10000, copied) for the catalogue, without title and
 *  description. Unknown ids are left out. */
void store_read_vouchers(struct store *store, const int64_t *ids, size_t count,
                         store_vouchers_cb callback, void *arg);

enum voucher_state { VOUCHER_ANY, VOUCHER_UPCOMING, VOUCHER_OPEN, VOUCHER_ENDED };

/* A list of the vouchers in a state. The state decides the order of the list:
     any       by the id, the newest first
     upcoming  by the begin of the sale, the earliest first
     open      by the end of the sale, the earliest first
     ended     by the end of the sale, the latest first
   The list begins after the voucher with the id after_id and the time after_us, by which the list
   is ordered. In the state any, after_us is 0. */
struct voucher_filter {
    enum voucher_state state;
    int64_t after_us;
    int64_t after_id; /* 0: from the start */
    unsigned limit;
};

void store_list_vouchers(struct store *store, const struct voucher_filter *filter,
                         store_vouchers_cb callback, void *arg);

/* The next three calls answer with
     RLOCK_OK         a row for each voucher: its new state
     RLOCK_NOT_FOUND  there is no such voucher
     RLOCK_INVALID    the end is not after the begin, or a restock removes more than is left or
                      makes the total exceed STOCK_MAX
     RLOCK_NOT_OWNER  the key belongs to another request */

/** Create all vouchers or none, in this order.
 *
 * @vouchers  id, version, stock_left and the fields of a lottery below is_lottery are not read;
 *            strings are copied */
void store_create_vouchers(struct store *store, const struct voucher *vouchers,
                           size_t count, const struct author *author,
                           store_vouchers_cb callback, void *arg);

/** @changes  only these fields are read: title and description (absent: not changed);
 *            begin_us, end_us and pay_within_s (0: not changed); requires_ticket and pow_bits
 *            (-1: not changed) */
void store_patch_voucher(struct store *store, int64_t voucher_id,
                         const struct voucher *changes, const char *actor,
                         store_vouchers_cb callback, void *arg);

/** @add  how much stock to add; a negative number removes unsold stock */
void store_restock_voucher(struct store *store, int64_t voucher_id, int64_t add,
                           const struct author *author, store_vouchers_cb callback,
                           void *arg);

#endif
