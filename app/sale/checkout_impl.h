/* checkout_impl.h - types and functions for the files checkout_*.c only. */
#ifndef CHECKOUT_IMPL_H
#define CHECKOUT_IMPL_H

#include "app/core/span.h"
#include "app/sale/checkout.h"
#include "app/sale/dispatch.h"
#include "app/sale/early_release.h"
#include "app/sale/queues.h"
#include "base/closing.h"

#define KEY_BYTES 80

enum item_state { ITEM_LOCKING, ITEM_QUEUED, ITEM_SENT, ITEM_UNLOCKING };

/* An order request that the checkout has accepted. */
struct item {
    struct rlock_link link;
    /* link in checkout->deadlines, until the item is answered */
    struct rlock_link deadline;
    struct rlock lock;
    struct placement placement;
    struct checkout *checkout;
    checkout_cb callback;
    void *arg;
    int64_t voucher_id;
    int64_t arrived_us;
    int64_t state_since_us;
    enum item_state state;
    enum outcome outcome; /* set in UNLOCKING */
    unsigned tries;
    bool is_answered;
    bool was_stale; /* whether Postgres has refused a fence of the item as stale */
    char key[KEY_BYTES];
    char trace[CHECKOUT_TRACE_BYTES + 1]; /* for log lines: "" or "TRACE " */
    struct span span;
};

struct batch {
    struct rlock_link
        link; /* link in queue->split_batches, checkout->unknown or ->free_batches */
    struct checkout *checkout;
    struct queue *queue;
    struct store_batch orders;
    bool is_bundled;
    bool is_last;
    /* the row of the voucher is free, but the commit is not yet durable */
    bool is_released;
    int64_t sent_us;
    int64_t sent_at_us; /* sent_us by the database's clock, or slightly before */
};

struct checkout {
    struct checkout_options options;
    struct closing closing;
    uv_timer_t timer;
    uv_timer_t turn_timer;
    struct queues queues;
    struct early_release early_release;
    /* items that release their lock, in the sequence of state_since_us */
    struct rlock_link unlocking;
    struct rlock_link deadlines;
    struct rlock_link unknown;
    struct rlock_link free_items;
    struct rlock_link free_batches;
    /* number of items, and of reserved places that have no item yet */
    _Atomic size_t in_flight;
    size_t items;
    size_t queued;  /* items in QUEUED */
    size_t bundled; /* orders under way in bundles */
};

/* -- items; see checkout_items.c -- */

/** Return the item to the head of its queue, or answer the item if it may no longer be placed. */
void item_requeue(struct item *item, struct queue *queue);

/** Whether the item needs no lock or surely holds its lock, and the deadline leaves enough time for
 *  another transaction of this queue. */
bool item_may_be_sent(const struct item *item, const struct queue *queue, int64_t now_us);

/** Note the end of a stage, and log it as a span if the order is traced. Returns
 *  the current time. */
int64_t item_end_stage(struct item *item, enum metrics_stage stage, int64_t began_us);

void item_advance(struct item *item, enum item_state state, enum metrics_stage ended);

/**
 * Raise the fence counter, and take the lock of the item again. The fence of the item is stale,
 * because a failover of Redis has lowered the counter. Called at most once per item.
 */
void item_renew_fence(struct item *item);

/** Release the lock, then answer, so that the shopper's next request finds the lock free on
 *  any loop or instance. Frees the item. */
void item_finish(struct item *item, enum outcome outcome);

void item_time_out(struct item *item);

/** Answer the items whose lock has not been released in time, because a slow Redis must not delay
 *  an answer that Postgres has given. */
void checkout_answer_overdue_unlocks(struct checkout *checkout, int64_t now_us);

int64_t checkout_timeout_us(const struct checkout *checkout);
int64_t item_deadline_us(const struct item *item);
void item_log_unknown(const struct item *item);

/* -- batches; see checkout_batches.c -- */

/** Take orders from the queue into a batch. Returns NULL if no order may be sent. Also returns NULL
 *  if memory is out, and then the orders stay in the queue. */
struct batch *batch_form(struct checkout *checkout, struct queue *queue);

void checkout_send(struct checkout *checkout, struct rlock_link *batches);

/** Whether a batch that is sent now releases its voucher's row before the commit is durable. An
 *  early release gains nothing while only one request is in flight. */
bool checkout_releases_early(const struct checkout *checkout);

void checkout_look_up_unknown(struct checkout *checkout);

#endif
