/*
 * early_release.h - decides whether batches release their row early.
 *
 * A batch with an early release frees its voucher's row before its commit is durable. So the next
 * batch starts sooner, but Postgres executes a second transaction. An early release pays where a
 * commit waits for a disk or a standby, and not where it waits for a core. The duration of a commit
 * does not show what it waits for. So batches are sent in one of two ways: with or without early
 * releases. From time to time the other way is tried for a short time (a trial), and the way that
 * places more orders is kept. If both ways place about as many orders, the way with the shorter
 * waits is kept.
 *
 * A window is a time of at least 100 ms in which one of the ways is measured.
 */
#ifndef EARLY_RELEASE_H
#define EARLY_RELEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct early_window {
    int64_t mean_us; /* mean time from the arrival of an order until it was durable */
    int64_t per_s;   /* orders per second */
};

/** All fields begin as zeros. Then the first window has early releases, and the first trial has no
 *  early releases. */
struct early_release {
    int64_t gain; /* mean gain of early releases in thousandths; see judge() */
    int trials;
    bool is_trial;       /* whether a trial of the way that seems worse is under way */
    int64_t trial_at_us; /* when the next trial begins */
    struct early_window last[2]; /* last windows: [0] without, [1] with early release */
    int64_t noted_us;
    /* start of the window; batches that were sent earlier do not count */
    int64_t since_us;
    int64_t window_at_us; /* when the first batch of the window was durable */
    int64_t batches;
    int64_t waited_us, orders; /* sums over the window without its first batch */
};

bool early_release_is_on(const struct early_release *early);

/** Count a batch that was sent at `sent_us` and is durable at `now_us`. `waited_us` is the sum
 *  of the times since its orders arrived. */
void early_release_note(struct early_release *early, size_t orders, int64_t waited_us,
                        int64_t sent_us, int64_t now_us);

#endif
