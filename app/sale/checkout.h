/*
 * checkout.h - the order queue of one loop: lock, batch, commit, unlock, answer.
 *
 * Threads: that of the loop.
 */
#ifndef CHECKOUT_H
#define CHECKOUT_H

#include "app/core/metrics.h"
#include "app/core/model.h"
#include "app/store/store.h"
#include "base/attributes.h"
#include "lock/rlock.h"

#include <uv.h>

struct checkout;

struct checkout_options {
    uv_loop_t *loop;
    struct rlock_client *locks; /* borrowed, closed before the checkout */
    struct store *store;        /* borrowed, closed before the checkout */
    struct metrics *metrics;
    uint32_t lease_ms;
    uint32_t lock_wait_ms;
    uint32_t timeout_ms; /* from a request's arrival to its answer */
    size_t batch_max;    /* orders in one transaction */
    size_t queue_max;    /* orders under way */
    bool bypass_locks;   /* sell without Redis when it is away */
    void (*report)(const struct voucher_snapshot *snapshot,
                   void *arg); /* for the catalogue */
    void *arg;
};

#define CHECKOUT_TRACE_BYTES 160

struct checkout_request {
    int64_t voucher_id;
    int64_t user_id;
    struct text key;    /* Idempotency-Key, up to REQUEST_KEY_MAX; copied; NULL: none */
    int64_t arrived_us; /* clock_mono_us() */
    /* what lines of the log say of it beside its ids, less than CHECKOUT_TRACE_BYTES;
       copied; NULL: nothing */
    const char *trace;
};

/** @order  what struct placement says of it; only for OUTCOME_PLACED, _REPEATED and
 *          _ALREADY_ORDERED, else NULL; valid during the callback */
typedef void (*checkout_cb)(enum outcome outcome, const struct order *order, void *arg);

/** NULL: out of memory. */
struct checkout *checkout_create(const struct checkout_options *options);

/**
 * Take an order in. It is answered exactly once, within the time-out, whatever happens to
 * the client or to the servers; never from inside this call.
 *
 * Returns  false: the queue is full (or memory is), nothing was done and there will be no
 *          answer
 */
MUST_CHECK bool checkout_submit(struct checkout *checkout,
                                const struct checkout_request *request,
                                checkout_cb callback, void *arg);

/** To be called once a turn: forms the batches. */
void checkout_turn(struct checkout *checkout);

/** Orders not yet done with; one that was answered counts until its lock is released. */
size_t checkout_in_flight(const struct checkout *checkout);

/** When nothing is in flight. The memory is freed by the loop. Accepts NULL. */
void checkout_close(struct checkout *checkout);

#endif
