/* early_release.c - is an early release worth it now? */
#include "app/sale/early_release.h"

#include <stdlib.h>

#define WINDOW_US      100000
#define WINDOW_BATCHES 8
#define WINDOW_WAITS                                                                     \
    4 /* the orders in a window have begun to wait in it, but for a few */
#define WINDOW_MAX_US 5000000          /* too few orders to judge by */
#define PAUSE_US      INT64_C(2000000) /* between trials, and again for each GAIN_STEP */
#define GAIN_STEP     25
#define MEMORY        2 /* an earlier trial counts half as much as the next one */

void early_release_init(struct early_release *early)
{
    *early = (struct early_release){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

static bool is_on(const struct early_release *early)
{
    return (early->gain >= 0) != early->is_trial;
}

bool early_release_is_on(struct early_release *early)
{
    bool is_early;

    pthread_mutex_lock(&early->mutex);
    is_early = is_on(early);
    pthread_mutex_unlock(&early->mutex);
    return is_early;
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

/* With as many batches as a judgement needs. */
static void window_end(struct early_release *early, int64_t now_us)
{
    int64_t mean_us = early->waited_us / (int64_t)early->orders;

    if (now_us - early->window_at_us < WINDOW_WAITS * mean_us)
        return;
    if (early->is_trial) {
        if (is_on(early))
            judge(early, mean_us, early->mean_us);
        else
            judge(early, early->mean_us, mean_us);
        early->is_trial = false;
        early->trial_at_us = now_us + PAUSE_US * (1 + abs(early->gain) / GAIN_STEP);
    } else if (now_us >= early->trial_at_us || /* or is the load another one? */
               mean_us > 2 * early->mean_us || 2 * mean_us < early->mean_us) {
        early->is_trial = true;
        early->mean_us = mean_us;
    }
    window_begin(early, now_us);
}

void early_release_note(struct early_release *early, bool was_early, size_t orders,
                        int64_t waited_us, int64_t sent_us, int64_t now_us)
{
    pthread_mutex_lock(&early->mutex);
    if (now_us - early->window_at_us >= WINDOW_MAX_US) {
        early->is_trial = false;
        window_begin(early, now_us);
    }
    if (was_early == is_on(early) && sent_us >= early->window_at_us) {
        early->waited_us += waited_us;
        early->orders += orders;
        early->batches++;
        if (now_us - early->window_at_us >= WINDOW_US && early->batches >= WINDOW_BATCHES)
            window_end(early, now_us);
    }
    pthread_mutex_unlock(&early->mutex);
}
