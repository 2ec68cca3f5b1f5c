/*
 * dispatch.h - when a waiting batch is sent.
 *
 * The fixed cost of a transaction in Postgres is about that of thirty orders. So on a busy machine
 * a batch is delayed until more orders have come, or until it can share a transaction with batches
 * of other vouchers (a bundle). The order of a single shopper is not delayed. The rules:
 *
 *      a batch is delayed while                         at most  because
 *   1  the loop has input to read, or other loops       2 ms     the input may be more orders
 *      hand orders over
 *   2  it fits into a bundle, and another bundle is     10 ms    one large transaction costs less than
 *      under way                                                 two small ones
 *
 * A delay begins when the oldest order of the batch was queued. The halves of a batch that Postgres
 * has refused are not delayed.
 *
 * A rule stays only if the rate of orders falls by 5 % or more without it, for one voucher or for a
 * hundred, on a fast disk or with 5 ms per flush of the WAL. The rate without the rule, divided by
 * the rate with it (medians of pairs with the load of `make bench-commit`, 2 virtual cores):
 *
 *            flush    1 voucher   100 vouchers
 *   rule 1   fast     1.03        0.94
 *            5 ms     1.01        1.05
 *   rule 2   fast     1.02        0.89
 *            5 ms     1.04        1.05
 *
 * dispatch_choose() has no side effects.
 */
#ifndef DISPATCH_H
#define DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISPATCH_BUNDLED_MAX 63
#define DISPATCH_LATER       INT64_MAX

/** The work of the loop that is under way or waits. All times come from clock_mono_us(). */
struct dispatch {
    int64_t now_us;
    unsigned lanes; /* idle connections */
    /* whether a bundle is being formed, which will need one of the lanes */
    bool has_bundle;
    bool has_input;
    /* whether batches release their rows before they are durable */
    bool is_early;
    size_t waiting; /* orders in all queues */
    size_t bundled; /* orders under way in bundles */
    size_t transaction_max;
};

struct dispatch_queue {
    int64_t since_us;
    size_t orders; /* queued orders, counted up to DISPATCH_BUNDLED_MAX + 1 */
    bool is_slow;  /* the last transaction was slow, or bundles are not allowed */
    bool has_half; /* the next batch is half of a batch that Postgres has refused */
};

struct dispatch_choice {
    bool is_bundled;  /* the batch may share a transaction */
    int64_t delay_us; /* 0: send now; DISPATCH_LATER: ask again after a transaction */
};

struct dispatch_choice dispatch_choose(const struct dispatch *dispatch,
                                       const struct dispatch_queue *queue);

#endif
