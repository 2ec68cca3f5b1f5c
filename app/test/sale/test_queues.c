/* test_queues.c - when a queue is slow, how much time its next transaction needs, and when it is
   freed. */
#include "app/sale/queues.h"
#include "test/case_list.h"
#include "test/torture.h"

#define SECOND INT64_C(1000000)

UNIT_CASE(test_queue_note_time__at_its_limits)
{
    static const struct {
        int64_t timeout_us, took_us;
        bool has_failed, is_slow;
    } rows[] = {
        {20 * SECOND, 2 * SECOND - 1, false, false},
        {20 * SECOND, 2 * SECOND, false, true},
        {20 * SECOND, SECOND / 5 - 1, true, false},
        {20 * SECOND, SECOND / 5, true, true},
        {SECOND / 2, 9999, true, false},
        {SECOND / 2, 10000, true, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct queue queue = {.is_slow = !rows[i].is_slow};

        queue_note_time(&queue, rows[i].took_us, rows[i].has_failed, rows[i].timeout_us);
        if (queue.is_slow != rows[i].is_slow || queue.took_us != rows[i].took_us)
            fail_msg("row %zu: expected that the queue is %s", i,
                     rows[i].is_slow ? "slow" : "not slow");
    }
}

UNIT_CASE(test_queue_needs_us__twice_the_last_transaction)
{
    struct queue queue = {.took_us = SECOND / 5};

    assert_int_equal(queue_needs_us(&queue, 20 * SECOND), 2 * SECOND / 5);
    queue.took_us++;
    assert_int_equal(queue_needs_us(&queue, 20 * SECOND), 2 * SECOND / 5 + 2);
    queue.took_us = 0;
    assert_int_equal(queue_needs_us(&queue, 20 * SECOND), 2 * SECOND / 5);
}

UNIT_CASE(test_queues_update__frees_a_queue_whose_orders_are_gone)
{
    struct queues queues;
    struct queue *queue;
    struct rlock_link order;

    queues_init(&queues);
    queue = queues_get(&queues, 7);
    assert_non_null(queue);
    list_append(&queue->items, &order);
    queue->unflushed = 1;
    queues_update(&queues, queue);
    list_remove(&order);
    queues_update(&queues, queue);
    assert_ptr_equal(queues_get(&queues, 7), queue);
    queue->unflushed = 0;
    queues_update(&queues, queue);
    if (queues_next(&queues, false) != NULL)
        fail_msg("a free queue is served");
    assert_ptr_equal(queues_get(&queues, 8), queue);
    assert_int_equal(queue->voucher_id, 8);
    queues_clear(&queues);
}

/* A queue is in a random place of the map. In 50 rounds each place is used. */
UNIT_CASE(test_queues_clear__frees_every_queue)
{
    struct queues queues;
    long before = torture_blocks();

    for (int round = 0; round < 50; round++) {
        queues_init(&queues);
        for (int64_t voucher = 1; voucher <= 100; voucher++)
            assert_non_null(queues_get(&queues, voucher));
        queues_clear(&queues);
    }
    torture_expect_blocks(before);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
