/* early_release.c - compares the speed with and without early releases. */
#include "app/sale/early_release.h"

#include <stdlib.h>

#define WINDOW_US      100000
#define WINDOW_BATCHES 4
/* after this time without a batch, the load may have changed */
#define IDLE_US       1000000
#define RATE_WEIGHT   4
#define TRIALS_KEPT   8
#define PAUSE_WINDOWS 2  /* number of windows between trials, per trial in `gain` */
#define GAIN_STEP     40 /* a gain of this size adds one to PAUSE_WINDOWS */

bool early_release_is_on(const struct early_release *early)
{
    return (early->gain >= 0) != early->is_trial;
}

static void window_begin(struct early_release *early, int64_t now_us)
{
    early->since_us = now_us;
    early->waited_us = early->orders = early->batches = 0;
}

/* Returns a - b in thousandths of a + b: 333 if a is twice as much as b. */
static int64_t excess(int64_t a, int64_t b)
{
    return (a - b) * 1000 / (a + b + 1);
}

/* Plans the next trial. A large gain, or a mean of many trials, delays the trial. */
static void plan_trial(struct early_release *early, int64_t window_us, int64_t now_us)
{
    early->trial_at_us = now_us + window_us * early->trials *
                                      (PAUSE_WINDOWS + llabs(early->gain) / GAIN_STEP);
}

/* Updates the mean gain. The gain combines two differences between the last windows with and
   without early releases: of the rate of orders and of the mean wait. The rate counts more,
   because the service does not see how long a request waits before it is read. If the service
   is not busy, the rates of both windows are equal, and the waits decide. */
static void judge(struct early_release *early)
{
    const struct early_window *with = &early->last[true], *without = &early->last[false];
    int64_t gain = (RATE_WEIGHT * excess(with->per_s, without->per_s) +
                    excess(without->mean_us, with->mean_us)) /
                   (RATE_WEIGHT + 1);

    if (early->trials < TRIALS_KEPT)
        early->trials++;
    early->gain += (gain - early->gain) / early->trials;
}

/* Reduces the weight of earlier trials, because the load has changed or stopped since. */
static void restart_trials(struct early_release *early, int64_t now_us)
{
    if (early->trials > 1)
        early->trials = 1;
    plan_trial(early, WINDOW_US, now_us);
}

static void window_end(struct early_release *early, int64_t took_us, int64_t now_us)
{
    struct early_window *last = &early->last[early_release_is_on(early)];
    int64_t mean_us = early->waited_us / early->orders;
    bool is_other = mean_us > 2 * last->mean_us || 2 * mean_us < last->mean_us;

    *last = (struct early_window){mean_us, early->orders * 1000000 / took_us};
    if (early->is_trial) {
        early->is_trial = false;
        judge(early);
        plan_trial(early, took_us, now_us);
    } else if (is_other) { /* no trial now, because a server may have paused */
        restart_trials(early, now_us);
    } else
        early->is_trial = now_us >= early->trial_at_us;
    window_begin(early, now_us);
}

static void count_batch(struct early_release *early, size_t orders, int64_t waited_us,
                        int64_t now_us)
{
    int64_t took_us = now_us - early->window_at_us;

    if (early->batches++ == 0) {
        early->window_at_us = now_us;
        return;
    }
    early->waited_us += waited_us;
    early->orders += (int64_t)orders;
    /* If the mean wait is longer than the window, most orders arrived before the window. Then the
       window goes on. */
    if (took_us >= WINDOW_US && early->batches > WINDOW_BATCHES &&
        took_us * early->orders >= early->waited_us)
        window_end(early, took_us, now_us);
}

void early_release_note(struct early_release *early, size_t orders, int64_t waited_us,
                        int64_t sent_us, int64_t now_us)
{
    if (now_us - early->noted_us >= IDLE_US) {
        early->is_trial = false;
        restart_trials(early, now_us);
        window_begin(early, now_us);
    }
    early->noted_us = now_us;
    if (sent_us >= early->since_us)
        count_batch(early, orders, waited_us, now_us);
}
