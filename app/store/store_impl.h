/* store_impl.h - types and functions that only the files of the store use. */
#ifndef STORE_IMPL_H
#define STORE_IMPL_H

#include "app/core/lateness.h"
#include "app/store/store.h"
#include "app/store/store_conn.h"
#include "base/closing.h"

/** The common part of all calls. Each kind of call begins with a struct call. */
struct call {
    struct store_query query; /* query.link also links the call in lists of the store */
    struct store *store;
    enum rlock_status status; /* the answer to be given later, see store_answer_later() */
    struct reads *reads;      /* for a read only: the queue of its connection */
    /* only used if the call may wait for its connection: */
    store_query_cb done; /* answers and frees the call; query.done calls it */
    enum statement statement;
    struct store_params params;
    int64_t deadline_us;
    /* link in a list of calls under way, see store_abandon_late() */
    struct rlock_link sent;
    unsigned rows; /* for a read, see store_read() */
    struct change_queue *queue;
    int64_t sent_us;
};

/** A call that places the batches of a transaction, or resolves one batch. */
struct batch_call {
    struct call call;
    store_batch_cb callback;
    struct rlock_link batches;  /* store_batch, not answered yet */
    struct store_query barrier; /* sent after an early release */
    bool has_barrier;
    struct rlock_err why; /* the reason of a failure */
};

struct lookup_call {
    struct call call;
    int64_t voucher_id;
    struct rlock_link lookups; /* key_lookup */
    size_t count;
};

struct rows_call {
    struct call call;
    union {
        store_order_cb order;
        store_orders_cb orders;
        store_events_cb events;
        store_vouchers_cb vouchers;
        store_feed_cb feed;
        store_entries_cb entries;
        store_webhooks_cb webhooks;
        store_webhook_noted_cb webhook_noted;
        store_webhook_states_cb webhook_states;
        store_deliveries_cb deliveries;
    } callback;
    unsigned limit;
    void *arg;
};

/** The uses of connections, as indices of store->conns. The server executes the statements of one
 *  connection one after the other, so calls that may be slow have connections of their own.
 *  ROLE_LANE is the first lane. Each lane executes one transaction at a time. */
enum role {
    ROLE_MAIN,
    ROLE_READS,
    ROLE_CHANGES,
    ROLE_SLOW_CHANGES, /* serves slow vouchers first */
    ROLE_EXPIRY,       /* no connection unless the store expires orders */
    ROLE_LISTS,        /* no connection unless lists have their own database */
    ROLE_PROBE,        /* no connection without lanes */
    ROLE_LANE
};

/** A server process that may still commit a batch whose connection has failed. */
struct suspect {
    struct rlock_link link;
    struct store_backend backend;
};

struct due {
    int64_t voucher_id;
    size_t first, count;
};

#define STORE_RESERVE      128
#define EXPIRY_DUE_MAX     500
#define EXPIRY_SKIPPED_MAX 1000

struct expiry {
    uv_timer_t timer;
    bool is_leader;
    bool was_refused;     /* whether a call of the last run was refused and logged */
    int64_t refused_draw; /* the lottery whose refusal is logged; 0: none */
    /* of the run under way: */
    bool is_running;
    bool is_refused;
    uint64_t expired;
    struct due due[EXPIRY_DUE_MAX];
    int64_t firsts[EXPIRY_DUE_MAX];
    size_t due_count, due_at;
    int64_t skipped[EXPIRY_SKIPPED_MAX]; /* vouchers left out for the rest of the run */
    size_t skipped_count;
};

struct probe {
    uv_timer_t timer;
    struct store_query query;
    bool is_sent; /* `query` is under way */
    struct lateness lateness;
    bool has_waited; /* whether the last answer said that commits wait */
    /* RLOCK_OK; RLOCK_TIMEOUT: the server does not answer; RLOCK_LOST: commits wait for a standby */
    enum rlock_status failure;
};

struct reads {
    enum role role;
    struct rlock_link waiting; /* call */
    struct rlock_link sent;    /* call, linked by call->sent */
    size_t waiting_count;
    unsigned rows;
};

struct store {
    struct store_options options;
    struct store_conn **conns;
    unsigned conn_count;
    struct store_params params;     /* for the call that is being sent */
    struct rlock_link unsent;       /* call, answered by unsent_timer */
    struct rlock_link lookup_calls; /* lookup_call, not sent yet */
    struct rlock_link lookups_sent; /* each lookup_call under way, linked by call.sent */
    struct reads reads[2];
    struct {
        struct rlock_link
            queues;           /* change_queue; a queue that was served moves to the end */
        struct call *sent[2]; /* call on ROLE_CHANGES, on ROLE_SLOW_CHANGES; or NULL */
        size_t count;
    } changes;
    /* The last result of advance_feed() in sql/, and the server process that has returned it. */
    struct {
        struct store_backend backend;
        int64_t last_number, xid, until;
    } feed;
    struct expiry *expiry;
    struct probe probe;
    struct rlock_link resolving; /* batch_call; they wait until no suspect is left */
    struct rlock_link suspects;
    /* retire_query ends the first `retiring` elements of `suspects`; 0: it is not under way */
    size_t retiring;
    struct store_query retire_query;
    uv_timer_t unsent_timer;
    uv_timer_t retire_timer;
    uv_timer_t deadline_timer; /* active while calls wait */
    uv_timer_cb on_deadlines;
    bool is_up, is_state_reported;
    enum rlock_status refusal; /* the last reported refusal by a server; RLOCK_OK: none */
    struct rlock_link reserve;
    struct batch_call reserved[STORE_RESERVE];
    struct closing closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* -- calls -- */

/**
 * Allocate a zeroed block. If memory is out, the block comes from the reserve of the store, so that
 * every call can be answered. If the reserve is empty, too, the process aborts.
 */
void *store_alloc(struct store *store, size_t size);
void store_free(struct store *store, void *block);

void *store_call_new(struct store *store, size_t size, store_query_cb done);
void store_call_free(struct call *call);

/** Create a call that is answered with rows, and begin store->params. */
struct rows_call *store_rows_call_new(struct store *store, store_query_cb done,
                                      void *arg);

void store_answer_later(struct call *call, enum rlock_status status);

void store_answer_unsent(struct call *call);

struct store_limits {
    uint32_t timeout_ms; /* after this time the server counts as hung */
    uint32_t statement_ms, lock_ms;
};
struct store_limits store_limits(const struct store *store, enum role role);

/** Send the call on the connection of the role. If this fails, the call is answered RLOCK_DOWN
 *  later. A query without limits gets the limits of the role. */
void store_send(enum role role, struct call *call, enum statement statement,
                const struct store_params *params);

/** Set the limits of a transaction so that the caller can find its outcome within `left_us`. */
void store_limit(struct call *call, int64_t left_us);

/** Return the deadline `given_us`. If `given_us` is 0, return the default deadline. */
int64_t store_deadline_us(const struct store *store, int64_t given_us);

void store_watch_deadlines(struct store *store);

/** Answer the calls in `sent` whose deadline has passed. The connection stays open, because its
 *  other calls are not late, and the server cancels statements that take too long. */
void store_abandon_late(enum role role, struct rlock_link *sent, int64_t now_us);

/* -- kinds of calls -- */

/** This many orders or events have about as much text as one voucher. */
#define SMALL_ROWS 8

/** Send the read with store->params as soon as the connection has room. Lists use the connection
 *  for lists, if there is one. Other reads use the connection for reads.
 *  @rows  the greatest number of vouchers in the result. If the result has orders or events,
 *         SMALL_ROWS of them count as one voucher */
void store_read(struct call *call, enum statement statement, unsigned rows);
void store_init_reads(struct store *store);
void store_send_reads(struct store *store);
/** Answer the reads that are late. Returns false if no read waits or is under way. */
bool store_time_out_reads(struct store *store, int64_t now_us);

/** Queue a statement that changes a voucher's row; store->params are its parameters.
 *  @voucher_id  0: a new voucher */
void store_change_voucher(struct call *call, enum statement statement,
                          int64_t voucher_id);
void store_send_changes(struct store *store);
void store_time_out_changes(struct store *store, int64_t now_us);
void store_take_changes(struct store *store, struct rlock_link *calls);

void store_start_expiry(struct store *store);
void store_set_expiry_leader(struct store *store, bool is_leader);

void store_start_probe(struct store *store);

/** Report whether the store is up, if this or the reason has changed since the last report.
 *  @why  why a connection is down; NULL: a connection has come up */
void store_report_state(struct store *store, const struct rlock_err *why);

void store_send_lookups(struct store *store);
void store_time_out_lookups(struct store *store, int64_t now_us);

/** End the server processes in `suspects`. When they are gone, look up the batches in
 *  `resolving`. */
void store_resolve_step(struct store *store);

void store_suspect(struct store *store, struct store_backend backend);

/* -- rows -- */

/** Decode an order whose columns start at `first`. Returns false if the order is malformed. */
MUST_CHECK bool store_decode_order(const PGresult *result, int row, int first,
                                   struct order *ret_order);

/** Decode the next elements of `detail`, in the sequence of order_detail() in sql/. Returns false
 *  if an element is malformed. */
MUST_CHECK bool store_decode_detail(struct result_array *detail, struct order *ret_order);

#endif
