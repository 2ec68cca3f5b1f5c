/*
 * deliverer.h - sends the events of the feed to the endpoints of webhooks.
 *
 * Any number of processes may run a deliverer; a lock in Redis elects the one that sends. Each
 * endpoint has its own position in the feed, which is stored in Postgres a moment after the endpoint
 * has answered. So a new deliverer repeats the events of that moment, with the same ids. An endpoint
 * gets one event at a time, in the order of the feed. An event that fails is tried again, with growing
 * pauses, before any later event is sent.
 *
 * A lock is a lease, which a paused process can lose without noticing. So a message is sent only if
 * its time limit ends before the lease does, and Postgres refuses a position if a deliverer with a
 * greater fence has stored one for this endpoint.
 *
 * Threads: the loop's only.
 */
#ifndef DELIVERER_H
#define DELIVERER_H

#include "app/http/address.h"
#include "app/sale/feed.h"
#include "lock/rlock.h"

#define DELIVERER_LOCK "lock:webhooks"

struct deliverer;

struct deliverer_options {
    uv_loop_t *loop;
    struct store *store;
    struct feed *feed;
    struct rlock_client *locks;
    const struct address_networks *allowed; /* see destination_check(); borrowed */
    uint32_t lease_ms;                      /* of the lock */
};

/** The parts in the options are borrowed. NULL: out of memory. */
struct deliverer *deliverer_open(const struct deliverer_options *options);

/** End the transfers, and release the lock. To be called before the other parts are closed. */
void deliverer_stop(struct deliverer *deliverer);

/** To be called when the loop has ended. Accepts NULL. */
void deliverer_free(struct deliverer *deliverer);

#endif
