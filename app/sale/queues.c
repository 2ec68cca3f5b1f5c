/* queues.c - a map of the queues by voucher, and rings of the queues that may send. */
#include "app/sale/queues.h"

#include <stdlib.h>

/* a transaction that has waited in vain for a row takes at least this long */
#define FAILED_US_MIN 10000

void queues_init(struct queues *queues)
{
    *queues = (struct queues){0};
    list_init(&queues->ring);
    list_init(&queues->slow_ring);
    list_init(&queues->free);
}

void queues_clear(struct queues *queues)
{
    struct queue *unsent;
    size_t at = 0;

    /* A queue whose orders have timed out stays in the map until a lane is free for it. */
    while ((unsent = idmap_next(&queues->map, &at)) != NULL)
        free(unsent);
    LIST_DRAIN(struct queue, queue, &queues->free, ring)
        free(queue);
    idmap_clear(&queues->map);
}

struct queue *queues_get(struct queues *queues, int64_t voucher_id)
{
    struct queue *queue = idmap_get(&queues->map, voucher_id);

    if (queue != NULL)
        return queue;
    queue = LIST_SHIFT(struct queue, &queues->free, ring);
    if (queue == NULL)
        queue = malloc(sizeof(*queue));
    if (queue == NULL)
        return NULL;
    *queue = (struct queue){.voucher_id = voucher_id};
    list_init(&queue->ring);
    list_init(&queue->items);
    list_init(&queue->split_batches);
    if (idmap_put(&queues->map, voucher_id, queue))
        return queue;
    free(queue);
    return NULL;
}

void queues_update(struct queues *queues, struct queue *queue)
{
    bool has_work =
        !list_is_empty(&queue->items) || !list_is_empty(&queue->split_batches);

    if (queue->is_busy)
        return;
    if (has_work && list_is_empty(&queue->ring))
        list_append(queue->is_slow ? &queues->slow_ring : &queues->ring, &queue->ring);
    if (has_work || queue->unflushed > 0)
        return;
    list_remove(&queue->ring);
    idmap_remove(&queues->map, queue->voucher_id);
    list_append(&queues->free, &queue->ring);
}

void queue_note_time(struct queue *queue, int64_t took_us, bool has_failed,
                     int64_t timeout_us)
{
    int64_t slow_us = timeout_us / 10;

    if (has_failed)
        slow_us = timeout_us / 100 > FAILED_US_MIN ? timeout_us / 100 : FAILED_US_MIN;
    queue->took_us = took_us;
    queue->is_slow = took_us >= slow_us;
}

int64_t queue_needs_us(const struct queue *queue, int64_t timeout_us)
{
    int64_t least_us = timeout_us / 50;
    int64_t twice_us = 2 * queue->took_us;

    return twice_us > least_us ? twice_us : least_us;
}

struct queue *queues_next(struct queues *queues, bool is_slow)
{
    return LIST_SHIFT(struct queue, is_slow ? &queues->slow_ring : &queues->ring, ring);
}
