/*
 * checkout.h - the orders of an instance: lock, batch, commit, unlock, answer.
 *
 * Threads: the owning loop's only, except checkout_reserve().
 */
#ifndef CHECKOUT_H
#define CHECKOUT_H

#include "app/core/metrics.h"
#include "app/core/model.h"
#include "app/sale/catalogue.h"
#include "app/store/store.h"
#include "base/attributes.h"
#include "lock/rlock.h"

#include <stdio.h>
#include <uv.h>

struct checkout;

struct checkout_options {
    uv_loop_t *loop;
    struct rlock_client *locks; /* borrowed, closed before the checkout */
    struct store *store;        /* borrowed, closed before the checkout */
    struct catalogue *catalogue;
    struct metrics *metrics;
    uint32_t lease_ms;
    uint32_t lock_wait_ms;
    uint32_t timeout_ms; /* maximum time from a request's arrival to its answer */
    size_t batch_max;
    size_t vouchers_max; /* maximum vouchers per transaction */
    size_t queue_max;    /* maximum requests in flight */
    bool bypass_locks;   /* whether to sell without locks while Redis is down */
    bool early_release;
};

#define CHECKOUT_TRACE_BYTES 160

struct checkout_request {
    int64_t voucher_id;
    int64_t user_id;
    /* Idempotency-Key, up to REQUEST_KEY_MAX, which is copied; NULL: the request has no key */
    struct text key;
    bool has_ticket;
    /* Whether the voucher is a lottery. The request then needs no lock and no key, because a
       repeated entry changes nothing. */
    bool is_entry;
    int64_t arrived_us;
    /* clock_mono_us() at the handover by another loop; 0: no handover */
    int64_t handed_us;
    const char *trace; /* more fields for the log, up to CHECKOUT_TRACE_BYTES - 1 bytes;
                          copied; NULL: none */
};

/** @order  valid during the callback. NULL unless the outcome is OUTCOME_PLACED, _REPEATED or
 *          _ALREADY_ORDERED. With _ALREADY_ORDERED only the id is set */
typedef void (*checkout_cb)(enum outcome outcome, const struct order *order, void *arg);

struct checkout *checkout_create(const struct checkout_options *options);

/**
 * Accept an order request. The callback is called exactly once, within timeout_ms of the
 * arrival, even if the client or a server fails. checkout_submit() itself never calls it.
 *
 * Returns  false if the request is refused, because queue_max requests are in flight or memory
 *          is out. The callback is not called then
 */
MUST_CHECK bool checkout_submit(struct checkout *checkout,
                                const struct checkout_request *request,
                                checkout_cb callback, void *arg);

/** Reserve a place for a request that another loop is about to hand over. Returns false if
 *  queue_max requests are in flight. Threads: any. */
MUST_CHECK bool checkout_reserve(struct checkout *checkout);

/** Like checkout_submit(), for a request with a reserved place. Returns false if memory is out.
 *  Then the place is free again. */
MUST_CHECK bool checkout_submit_reserved(struct checkout *checkout,
                                         const struct checkout_request *request,
                                         checkout_cb callback, void *arg);

/** Form and send batches. Called once per turn of the loop. */
void checkout_turn(struct checkout *checkout);

/** Number of accepted requests and of reserved places. An answered request counts until its lock is
 *  released. */
size_t checkout_in_flight(const struct checkout *checkout);

/** Print up to 20 queues that are not empty, as JSON objects separated by commas. */
void checkout_print_queues(const struct checkout *checkout, FILE *out);

/** Close the checkout, in which nothing may be in flight. The loop frees the memory in a later
 *  turn. Accepts NULL. */
void checkout_close(struct checkout *checkout);

#endif
