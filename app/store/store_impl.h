/* store_impl.h - what the files of the store share; private to it. */
#ifndef STORE_IMPL_H
#define STORE_IMPL_H

#include "app/store/store.h"
#include "app/store/store_conn.h"
#include "app/store/store_statements.h"
#include "base/closing.h"

/** What all calls have in common: each kind of call embeds it as `call`. */
struct call {
    struct store_query query; /* its link serves the store's lists, too */
    struct store *store;
    enum status status; /* of one that is answered later, without the server */
};

/** Placing a batch, or resolving one. */
struct batch_call {
    struct call call;
    store_batch_cb callback;
    void *arg;
    int64_t voucher_id;
    struct placement *const *placements;
    size_t count;
    int64_t deadline_us; /* of resolving */
};

/** Keys of one voucher, looked up by one query. */
struct lookup_call {
    struct call call;
    int64_t voucher_id;
    struct list lookups; /* key_lookup */
    size_t count;
};

/** Changes of one kind to orders of one voucher, made by one transaction. */
struct changes_call {
    struct call call;
    int64_t voucher_id;
    enum change change;
    struct list changes; /* order_change */
    size_t count;
};

/** A connection for batches. */
struct lane {
    struct store *store;
    struct store_conn *conn;
};

/** A server process that may still work on a batch whose outcome is unknown. */
struct suspect {
    struct list link;
    struct store_backend backend;
};

struct store {
    struct store_options options;
    struct store_conn *reads;
    struct store_conn *changes; /* for changes, which may wait for row locks */
    struct lane *lanes;
    struct store_params params; /* of the call that is being sent */
    struct voucher *vouchers;   /* rows of the answer that is being read */
    size_t vouchers_size;
    struct list unsent;        /* call, answered by unsent_timer */
    struct list lookup_calls;  /* sent by a flush while few are under way */
    struct list changes_calls; /* likewise */
    struct list resolving;     /* batch_call, waiting until the suspects are gone */
    struct list suspects;
    size_t retiring; /* how many suspects, from the first, retire_query terminates */
    struct store_query retire_query;
    uv_timer_t unsent_timer;
    uv_timer_t retire_timer;
    bool is_up, is_state_reported;
    bool is_refused; /* the reported reason is one that waiting does not mend */
    bool is_closed;
    uint64_t reconnects;
    struct closing closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

/**
 * A zeroed call of `size` bytes that begins with a struct call; `done` frees it.
 *
 * Aborts when out of memory, because it could not guarantee an answer to every call.
 */
void *store_call_new(struct store *store, size_t size, store_query_cb done);

/** Answer `call` with `status` in the next turn of the loop. */
void store_answer_later(struct call *call, enum status status);

/** Send store->params. What cannot be sent is answered STATUS_DOWN later. */
void store_send(struct store_conn *conn, struct call *call, enum statement statement);

/** The same on the connection for changes. STATUS_BUSY later if its queue is full. */
void store_send_change(struct call *call, enum statement statement);

/** The row of an order whose columns start at `first`. False: it is not understood. */
MUST_CHECK bool store_decode_order(const PGresult *result, int row, int first,
                                   struct order *ret_order);

/** Send the collected changes and look-ups, unless enough of them are under way. */
void store_send_changes(struct store *store);
void store_send_lookups(struct store *store);

/** Terminate the suspects, then look up the batches that wait for it. */
void store_resolve_step(struct store *store);

/** Remember the server process of a lane that failed while batches were under way. */
void store_suspect(struct store *store, struct store_backend backend);

#endif
