/*
 * queues.h - one queue of orders per voucher, served in turns.
 *
 * The queues that may send a batch form a ring and are served in turns, so a hot voucher
 * does not starve a quiet one. A queue whose batch is under way leaves the ring until the
 * batch has ended. An empty queue is removed.
 */
#ifndef QUEUES_H
#define QUEUES_H

#include "app/core/idmap.h"
#include "base/attributes.h"
#include "base/list.h"

struct queue {
    struct list items;         /* the caller's, in order of arrival */
    struct list split_batches; /* the caller's; sent before the items */
    int64_t voucher_id;
    bool is_busy;     /* set by the caller while a batch is under way */
    struct list ring; /* in queues->ring while the queue may send */
};

struct queues {
    struct idmap map;
    struct list ring;
    struct list free;
};

void queues_init(struct queues *queues);
void queues_clear(struct queues *queues); /* all queues must be empty */

/** The queue of the voucher, created if there is none; call queues_update() after an item
 *  was added. NULL: out of memory. */
MUST_CHECK struct queue *queues_get(struct queues *queues, int64_t voucher_id);

/** Put the queue into the ring if it may send; free it if it is empty and not busy. To be
 *  called after each change of its lists or of is_busy. */
void queues_update(struct queues *queues, struct queue *queue);

/** The queue to be served next, removed from the ring; NULL: none. */
struct queue *queues_next(struct queues *queues);

#endif
