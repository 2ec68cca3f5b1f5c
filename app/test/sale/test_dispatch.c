/* test_dispatch.c - when a batch is sent, as a table of situations. */
#include "app/sale/dispatch.h"
#include "test/case_list.h"

#include <inttypes.h>
#include <stdint.h>

#define NOW INT64_C(1000000)
#define MS  INT64_C(1000)

/* Each row has a situation, the queue of a voucher, and the decision about the next batch of the
   queue. A full bundle has 100 orders. */
/* clang-format off */
static const struct {
    const char *situation;
    struct dispatch dispatch;
    struct dispatch_queue queue;
    int64_t delay_us;
    bool is_bundled;
} rows[] = {
    {"the order of a single shopper",
     {.waiting = 1, .lanes = 1}, {.orders = 1, .since_us = NOW}, 0, true},
    {"as many orders as fit into a bundle",
     {.waiting = 63, .lanes = 1}, {.orders = 63, .since_us = NOW}, 0, true},
    {"one more",
     {.waiting = 64, .lanes = 1}, {.orders = 64, .since_us = NOW}, 0, false},
    {"a slow voucher",
     {.waiting = 1, .lanes = 1}, {.orders = 1, .since_us = NOW, .is_slow = true}, 0, false},

    {"input to read",
     {.waiting = 1, .lanes = 1, .has_input = true}, {.orders = 1, .since_us = NOW}, 2 * MS, true},
    {"input to read, and the oldest order waits for 1.5 ms",
     {.waiting = 90, .lanes = 1, .has_input = true}, {.orders = 64, .since_us = NOW - 1500}, 500, false},
    {"input to read, and the oldest order waits for 2 ms",
     {.waiting = 1, .lanes = 1, .has_input = true}, {.orders = 1, .since_us = NOW - 2 * MS}, 0, true},
    {"input to read, and half of a refused batch",
     {.waiting = 1, .lanes = 1, .has_input = true}, {.orders = 1, .since_us = NOW, .has_half = true}, 0, false},

    {"a bundle is under way, and a transaction is not full",
     {.waiting = 99, .lanes = 1, .bundled = 5}, {.orders = 9, .since_us = NOW - 4 * MS}, 6 * MS, true},
    {"the last order of a bundle is under way",
     {.waiting = 1, .lanes = 1, .bundled = 1}, {.orders = 1, .since_us = NOW}, 10 * MS, true},
    {"a bundle is under way, and a transaction is full",
     {.waiting = 100, .lanes = 1, .bundled = 5}, {.orders = 9, .since_us = NOW}, 0, true},
    {"a bundle is under way for 10 ms",
     {.waiting = 1, .lanes = 1, .bundled = 5}, {.orders = 1, .since_us = NOW - 10 * MS}, 0, true},
    {"a bundle is under way, and this batch does not fit into the next one",
     {.waiting = 64, .lanes = 1, .bundled = 5}, {.orders = 64, .since_us = NOW}, 0, false},
    {"a bundle that releases its rows early is under way, and fewer orders wait than it has",
     {.waiting = 4, .lanes = 1, .bundled = 5, .is_early = true}, {.orders = 4, .since_us = NOW}, 10 * MS, true},
    {"a bundle that releases its rows early is under way, and as many orders wait",
     {.waiting = 5, .lanes = 1, .bundled = 5, .is_early = true}, {.orders = 5, .since_us = NOW}, 0, true},

    {"the longest of several delays counts",
     {.waiting = 1, .lanes = 1, .has_input = true, .bundled = 5}, {.orders = 1, .since_us = NOW - 9 * MS}, MS, true},

    {"the last lane is left to the bundle that is being formed",
     {.waiting = 70, .lanes = 1, .has_bundle = true}, {.orders = 64, .since_us = NOW}, DISPATCH_LATER, false},
    {"another lane is idle beside that of the bundle",
     {.waiting = 70, .lanes = 2, .has_bundle = true}, {.orders = 64, .since_us = NOW}, 0, false},
    {"the last lane, for a batch of the bundle that is being formed",
     {.waiting = 70, .lanes = 1, .has_bundle = true}, {.orders = 6, .since_us = NOW}, 0, true},
};
/* clang-format on */

UNIT_CASE(test_dispatch_choose__in_each_situation)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dispatch dispatch = rows[i].dispatch;
        struct dispatch_queue queue = rows[i].queue;
        struct dispatch_choice choice;

        dispatch.now_us = NOW;
        dispatch.transaction_max = 100;
        choice = dispatch_choose(&dispatch, &queue);
        if (choice.delay_us != rows[i].delay_us ||
            choice.is_bundled != rows[i].is_bundled)
            fail_msg("%s: expected a delay of %" PRId64 " us %s, got %" PRId64 " us %s",
                     rows[i].situation, rows[i].delay_us,
                     rows[i].is_bundled ? "in a bundle" : "alone", choice.delay_us,
                     choice.is_bundled ? "in a bundle" : "alone");
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
