/*
 * early_release.h - is an early release worth it now?
 *
 * A batch that releases its voucher's row before it is durable lets the next one start sooner,
 * and costs Postgres a second transaction. That pays where a commit waits for a disk or a
 * standby, and not where it waits for a core: neither the client nor Postgres can tell these
 * apart by a commit's time. So both ways are tried, and the one by which the orders wait less is
 * kept. All workers share it, because they share the rows of the vouchers. Any thread may call
 * these functions.
 */
#ifndef EARLY_RELEASE_H
#define EARLY_RELEASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct early_release {
    pthread_mutex_t mutex;
    int gain;             /* of releasing early, in thousandths; see judge() */
    bool is_trial;        /* of the way that seems worse */
    int64_t trial_at_us;  /* the next one */
    int64_t mean_us;      /* that an order waited in the window before the trial */
    int64_t window_at_us; /* the batches since then are counted: */
    int64_t waited_us;    /* the sum of their orders */
    size_t orders, batches;
};

/** At first every batch releases its row early. */
void early_release_init(struct early_release *early);

/** Should the next batch release its row early? */
bool early_release_is_on(struct early_release *early);

/** Count a batch that was sent at `sent_us` and is durable `now_us`. Its orders have waited
 *  `waited_us` altogether. */
void early_release_note(struct early_release *early, bool was_early, size_t orders,
                        int64_t waited_us, int64_t sent_us, int64_t now_us);

#endif
