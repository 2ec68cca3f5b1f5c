/*
 * dispatch.h - when a waiting batch is sent.
 *
 * A transaction costs Postgres about as much as thirty orders in it. So on a busy machine a batch is
 * delayed until more orders have come, or until it can share a transaction with batches of other
 * vouchers (a bundle). The order of a single shopper is not delayed. The rules:
 *
 *      a batch is delayed while                         at most  because
 *   1  the loop has input to read                       2 ms     the input may be more orders
 *   2  an earlier batch of its voucher has released     2 ms     early releases would make batches
 *      the row and is not durable yet                            small
 *   3  a large transaction has ended, and fewer         2 ms     shoppers who have just been answered
 *      orders have come since then than it had                   order again
 *   4  it fits into a bundle, and another bundle is     10 ms    one large transaction costs less than
 *      under way                                                 two small ones
 *
 * The delay of rule 3 begins at the end of the large transaction, the other delays begin when the
 * oldest order of the batch was queued. The halves of a batch that Postgres has refused are not
 * delayed.
 *
 * These functions have no side effects.
 */
#ifndef DISPATCH_H
#define DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISPATCH_BUNDLED_MAX 63 /* orders of a voucher in a bundle; more gain little */
#define DISPATCH_LARGE_MIN   16 /* orders that make a transaction large */
#define DISPATCH_LATER       INT64_MAX

/** The orders expected after a large transaction, as many as it had. All zero: none. */
struct dispatch_refill {
    int64_t voucher_id; /* of the transaction; 0: it was a bundle */
    int64_t until_us;
    size_t waiting; /* this many waiting orders end the delay */
};

/** What is under way, and what waits. All times are those of clock_mono_us(). */
struct dispatch {
    int64_t now_us;
    unsigned lanes;         /* idle connections */
    bool has_bundle;        /* a bundle that needs one of the lanes is being formed */
    bool has_input;         /* the loop has input to read */
    bool is_early;          /* batches release their rows before they are durable */
    size_t waiting;         /* orders in all queues */
    size_t bundled;         /* orders under way in bundles */
    size_t transaction_max; /* orders */
    struct dispatch_refill refill;
};

/** The queue of a voucher that has no transaction under way. */
struct dispatch_queue {
    int64_t voucher_id;
    int64_t since_us;   /* when the oldest order was queued */
    size_t orders;      /* counted up to DISPATCH_BUNDLED_MAX + 1 */
    bool is_slow;       /* its transactions wait for the row */
    bool has_half;      /* it has half of a batch that Postgres has refused */
    bool has_undurable; /* a batch has released the row and is not durable yet */
};

struct dispatch_choice {
    bool is_bundled; /* the batch may share a transaction */
    int64_t
        delay_us; /* 0: send the batch. DISPATCH_LATER: ask again when a transaction has ended */
};

/** Decide about the next batch of a queue. */
struct dispatch_choice dispatch_choose(const struct dispatch *dispatch,
                                       const struct dispatch_queue *queue);

/**
 * What to expect after a large transaction has committed.
 *
 * @voucher_id  0: it was a bundle
 * @waiting     number of orders in all queues that ends the delay
 */
struct dispatch_refill dispatch_refill(int64_t voucher_id, size_t waiting,
                                       int64_t now_us);

#endif
