/* dispatch.c - when a waiting batch is sent. */
#include "app/sale/dispatch.h"

#define INPUT_US  2000
#define BUNDLE_US 10000

static bool fits_bundle(const struct dispatch_queue *queue)
{
    return queue->orders <= DISPATCH_BUNDLED_MAX && !queue->is_slow && !queue->has_half;
}

/* Whether the batch waits because a bundle is under way. If bundles release their rows early, the
   wait ends when as many orders wait as are under way in bundles. Otherwise the wait ends when the
   next bundle is full. */
static bool waits_for_bundle(const struct dispatch *dispatch,
                             const struct dispatch_queue *queue)
{
    size_t enough = dispatch->is_early ? dispatch->bundled : dispatch->transaction_max;

    return fits_bundle(queue) && dispatch->bundled > 0 && dispatch->waiting < enough;
}

/* Returns the longest time from the queueing of the oldest order until the batch is sent. A batch
   may wait longer for a bundle than for more input. */
static int64_t longest_delay_us(const struct dispatch *dispatch,
                                const struct dispatch_queue *queue)
{
    if (queue->has_half)
        return 0;
    if (waits_for_bundle(dispatch, queue))
        return BUNDLE_US;
    return dispatch->has_input ? INPUT_US : 0;
}

struct dispatch_choice dispatch_choose(const struct dispatch *dispatch,
                                       const struct dispatch_queue *queue)
{
    int64_t left_us =
        queue->since_us + longest_delay_us(dispatch, queue) - dispatch->now_us;
    struct dispatch_choice choice = {
        .is_bundled = fits_bundle(queue),
        .delay_us = left_us > 0 ? left_us : 0,
    };

    if (!choice.is_bundled && dispatch->has_bundle && dispatch->lanes < 2)
        choice.delay_us = DISPATCH_LATER;
    return choice;
}
