/*
 * handover.h - lets all loops of an instance sell through the checkout of one loop, the seller.
 *
 * If the seller has the connection, it passes the request straight to the checkout. Another loop
 * first reserves a place in the checkout. If there is no place, the request is refused at once. At
 * the end of its turn, the loop hands all its requests to the seller together. The answers come
 * back in the same way. Each answer has the newest snapshot of its voucher, for the catalogue of
 * the loop.
 *
 * The time limit of a request counts from its arrival, so a handover does not prolong it.
 *
 * Threads: the owning loop's only. The seller outlives the other loops, see handover_is_idle().
 */
#ifndef HANDOVER_H
#define HANDOVER_H

#include "app/core/metrics.h"
#include "app/sale/catalogue.h"
#include "app/sale/checkout.h"

#include <uv.h>

struct handover;

/** All pointers are borrowed and outlive the handover. */
struct handover_options {
    uv_loop_t *loop;
    struct handover
        *seller; /* the handover of the seller; NULL: this loop is the seller */
    struct checkout *checkout; /* of the seller; otherwise NULL */
    struct catalogue *catalogue;
    struct metrics *metrics;
};

/** Returns NULL if memory is out. Threads: any, before the loop runs. */
struct handover *handover_create(const struct handover_options *options);

/** Like checkout_submit(), for a request of this loop. The callback is called on this loop. */
MUST_CHECK bool handover_submit(struct handover *handover,
                                const struct checkout_request *request,
                                checkout_cb callback, void *arg);

/** Post the requests or the answers of this turn. Called once per turn of the loop. */
void handover_turn(struct handover *handover);

/** Whether the handover may be closed. All its requests must be answered. If this loop is the
 *  seller, all other handovers must be closed, too. The loop is woken when the result becomes
 *  true. */
bool handover_is_idle(const struct handover *handover);

/** Close a handover that is idle. The loop frees the memory in a later turn. Accepts NULL. */
void handover_close(struct handover *handover);

#endif
