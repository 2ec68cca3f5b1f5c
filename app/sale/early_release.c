/* early_release.c - is an early release worth it now? */
#include "app/sale/early_release.h"

#include <stdlib.h>

#define WINDOW_US      200000
#define WINDOW_BATCHES 4
#define WINDOW_MAX_US  1000000          /* too few orders to judge by */
#define PAUSE_US       INT64_C(2000000) /* between trials, and as much for each GAIN_STEP */
#define GAIN_STEP      25
#define MEMORY         2 /* an earlier trial counts half as much as the next one */

bool early_release_is_on(const struct early_release *early)
{
    return (early->gain >= 0) != early->is_trial;
}

static void window_begin(struct early_release *early, int64_t now_us)
{
    early->window_at_us = now_us;
    early->waited_us = 0;
    early->orders = early->batches = 0;
}

/* The difference of both ways in thousandths of their sum: 333 if orders wait half as long
   early, -333 if they wait twice as long. */
static void judge(struct early_release *early, int64_t early_us, int64_t plain_us)
{
    int gain = (int)((plain_us - early_us) * 1000 / (plain_us + early_us + 1));

    early->gain += (gain - early->gain) / MEMORY;
}

/* The worse the other way, the rarer the trials: their orders wait longer. */
static int64_t pause_us(const struct early_release *early)
{
    return PAUSE_US * (1 + abs(early->gain) / GAIN_STEP);
}

/* Do orders wait more than twice or less than half as long as before the last trial? */
static bool has_changed(const struct early_release *early, int64_t mean_us)
{
    return mean_us > 2 * early->mean_us || 2 * mean_us < early->mean_us;
}

void early_release_note(struct early_release *early, bool was_early, size_t orders,
                        int64_t waited_us, int64_t sent_us, int64_t now_us)
{
    bool is_on = early_release_is_on(early);
    int64_t mean_us;

    if (now_us - early->window_at_us >= WINDOW_MAX_US) {
        early->is_trial = false;
        window_begin(early, now_us);
    }
    if (was_early != is_on || sent_us < early->window_at_us)
        return;
    early->waited_us += waited_us;
    early->orders += orders;
    early->batches++;
    if (now_us - early->window_at_us < WINDOW_US || early->batches < WINDOW_BATCHES)
        return;
    mean_us = early->waited_us / (int64_t)early->orders;
    window_begin(early, now_us);
    if (early->is_trial) {
        early->is_trial = false;
        judge(early, is_on ? mean_us : early->mean_us, is_on ? early->mean_us : mean_us);
        early->trial_at_us = now_us + pause_us(early);
    } else if (now_us >= early->trial_at_us || has_changed(early, mean_us)) {
        early->is_trial = true;
        early->mean_us = mean_us;
    }
}
