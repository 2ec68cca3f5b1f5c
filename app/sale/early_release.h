/*
 * early_release.h - is an early release worth it now?
 *
 * A batch that releases its voucher's row before it is durable lets the next batch start sooner,
 * and costs Postgres a second transaction. That pays where a commit waits for a disk or a
 * standby, and not where it waits for a core. The time of a commit does not tell which. So both
 * ways are tried in turns, and the one that places more orders is kept. If both place as many, the
 * one by which orders wait less is kept. All workers share this decision, because they share the
 * rows of the vouchers. Any thread may call these functions.
 */
#ifndef EARLY_RELEASE_H
#define EARLY_RELEASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct early_window {
    int64_t mean_us; /* that an order waited in the service */
    int64_t per_s;   /* orders */
};

struct early_release {
    pthread_mutex_t mutex;
    int64_t gain;                /* of releasing early, in thousandths; see judge() */
    int trials;                  /* whose mean is the gain */
    bool is_trial;               /* of the way that seems worse */
    int64_t trial_at_us;         /* the next one */
    struct early_window last[2]; /* without and with early releases */
    int64_t noted_us;            /* the last batch was durable */
    int64_t since_us;            /* batches sent since then count: */
    int64_t window_at_us;        /* the first of them was durable */
    int64_t waited_us, orders, batches; /* of the others the sum, and all */
};

/** At first every batch releases its row early. */
void early_release_init(struct early_release *early);

/** Should the next batch release its row early? */
bool early_release_is_on(struct early_release *early);

/** Count a batch that was sent at `sent_us` and is durable `now_us`. Its orders have waited
 *  `waited_us` altogether. */
void early_release_note(struct early_release *early, size_t orders, int64_t waited_us,
                        int64_t sent_us, int64_t now_us);

#endif
