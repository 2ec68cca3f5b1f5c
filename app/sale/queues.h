/*
 * queues.h - the orders of each voucher that hold their lock and wait for a transaction.
 *
 * The queues that may send form a ring and are served in turns, so a hot voucher does not
 * starve a quiet one. Slow queues form a second ring, so that they can be given fewer
 * connections. A queue is in no ring while its transaction holds the row of the voucher. An
 * empty queue is removed.
 */
#ifndef QUEUES_H
#define QUEUES_H

#include "app/core/idmap.h"
#include "base/attributes.h"
#include "base/list.h"

struct queue {
    struct rlock_link items; /* in order of arrival */
    struct rlock_link
        split_batches; /* halves of refused batches; sent before the items */
    int64_t voucher_id;
    int64_t took_us; /* duration of the last transaction */
    /* whether a transaction of the queue is under way and holds the row */
    bool is_busy;
    bool is_slow; /* see queue_note_time() */
    /* number of transactions that have released the row and are not yet durable */
    unsigned unflushed;
    struct rlock_link ring;
};

struct queues {
    struct idmap map;
    struct rlock_link ring;
    struct rlock_link slow_ring;
    struct rlock_link free;
};

void queues_init(struct queues *queues);
void queues_clear(struct queues *queues); /* all queues must be empty */

/** Return the queue of the voucher, and create it if there is none. Returns NULL if memory is out.
 *  Call queues_update() after an item was added. */
MUST_CHECK struct queue *queues_get(struct queues *queues, int64_t voucher_id);

/** Put the queue into its ring if it may send. Free the queue if it is empty, not busy, and all its
 *  transactions are durable. Called after each change of the queue. */
void queues_update(struct queues *queues, struct queue *queue);

/**
 * Note how long a transaction took. Called before queues_update(). The queue is slow if
 * the transaction took at least a tenth of `timeout_us`, the time limit of a request. It is also
 * slow if the transaction failed and took at least 10 ms and a hundredth of `timeout_us`, because
 * such a transaction has waited for a row lock.
 */
void queue_note_time(struct queue *queue, int64_t took_us, bool has_failed,
                     int64_t timeout_us);

/** Return the time that a request must have left to take part in the next transaction. */
int64_t queue_needs_us(const struct queue *queue, int64_t timeout_us);

/** Remove the first queue from the fast or the slow ring. Returns NULL if the ring is empty. */
struct queue *queues_next(struct queues *queues, bool is_slow);

#endif
