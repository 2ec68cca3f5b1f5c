/*
 * queues.h - a queue of orders for each voucher, and whose turn it is.
 *
 * The queues that could send a batch stand in a ring and take turns, so that a hot
 * voucher's queue cannot starve a quiet one. A queue with a batch under way stands aside
 * and grows; one in which nobody stands is forgotten.
 */
#ifndef QUEUES_H
#define QUEUES_H

#include "app/core/idmap.h"
#include "base/attributes.h"
#include "base/list.h"

struct queue {
    struct list items;         /* the user's, first come first served */
    struct list split_batches; /* the user's: sent before the items */
    int64_t voucher_id;
    bool is_busy; /* set by the user while a batch is under way; then queues_update() */
    struct list ring; /* of the queues that could send; in none otherwise */
};

struct queues {
    struct idmap map;
    struct list ring;
    struct list free;
};

void queues_init(struct queues *queues);
void queues_clear(struct queues *queues); /* of queues in which nobody stands */

/** The voucher's queue, made if there is none; settle it when somebody has joined. NULL:
 *  out of memory. */
MUST_CHECK struct queue *queues_get(struct queues *queues, int64_t voucher_id);

/** Put the queue where it belongs now: into the ring, aside, or away; then it is gone. */
void queues_update(struct queues *queues, struct queue *queue);

/** Whose turn it is, taken out of the ring; NULL: nobody's. */
struct queue *queues_next(struct queues *queues);

#endif
