/* dispatch.c - when a waiting batch is sent. */
#include "app/sale/dispatch.h"

#define INPUT_US     2000
#define UNDURABLE_US 2000
#define REFILL_US    2000
#define BUNDLE_US    10000

/* Whether the next batch may share a transaction. */
static bool fits_bundle(const struct dispatch_queue *queue)
{
    return queue->orders <= DISPATCH_BUNDLED_MAX && !queue->is_slow && !queue->has_half;
}

/* -- the rules: each returns when its delay ends; now_us: no delay -- */

static int64_t input_until_us(const struct dispatch *dispatch,
                              const struct dispatch_queue *queue)
{
    return dispatch->has_input ? queue->since_us + INPUT_US : dispatch->now_us;
}

static int64_t undurable_until_us(const struct dispatch *dispatch,
                                  const struct dispatch_queue *queue)
{
    return queue->has_undurable ? queue->since_us + UNDURABLE_US : dispatch->now_us;
}

static int64_t refill_until_us(const struct dispatch *dispatch,
                               const struct dispatch_queue *queue)
{
    const struct dispatch_refill *refill = &dispatch->refill;
    bool is_part = refill->voucher_id == 0 ? fits_bundle(queue)
                                           : refill->voucher_id == queue->voucher_id;

    return is_part && dispatch->waiting < refill->waiting ? refill->until_us
                                                          : dispatch->now_us;
}

/* If bundles release their rows early, a second bundle pays when it is as large as the one under
   way. */
static int64_t bundle_until_us(const struct dispatch *dispatch,
                               const struct dispatch_queue *queue)
{
    size_t enough = dispatch->is_early ? dispatch->bundled : dispatch->transaction_max;
    bool is_delayed =
        fits_bundle(queue) && dispatch->bundled > 0 && dispatch->waiting < enough;

    return is_delayed ? queue->since_us + BUNDLE_US : dispatch->now_us;
}

static int64_t (*const rules[])(const struct dispatch *dispatch,
                                const struct dispatch_queue *queue) = {
    input_until_us,
    undurable_until_us,
    refill_until_us,
    bundle_until_us,
};

/* -- interface -- */

struct dispatch_choice dispatch_choose(const struct dispatch *dispatch,
                                       const struct dispatch_queue *queue)
{
    struct dispatch_choice choice = {.is_bundled = fits_bundle(queue)};

    for (size_t i = 0; !queue->has_half && i < sizeof(rules) / sizeof(rules[0]); i++) {
        int64_t left_us = rules[i](dispatch, queue) - dispatch->now_us;

        if (left_us > choice.delay_us)
            choice.delay_us = left_us;
    }
    if (!choice.is_bundled && dispatch->has_bundle && dispatch->lanes < 2)
        choice.delay_us = DISPATCH_LATER;
    return choice;
}

struct dispatch_refill dispatch_refill(int64_t voucher_id, size_t waiting, int64_t now_us)
{
    return (struct dispatch_refill){voucher_id, now_us + REFILL_US, waiting};
}
