/*
 * lock_probe.h - whether orders can take their locks.
 *
 * A connection proves little: if Redis is out of memory, or may not write, it accepts connections
 * but refuses every lock. So the probe takes its own locks every two seconds, and when a connection
 * goes up or down. In a cluster the locks are spread over all masters. While locks are granted, the
 * probe also asks every 150 ms who holds its locks. If a reply is 750 ms late, the probe reports a
 * failure until the reply comes. The connection stays open.
 *
 * Threads: the loop's only.
 */
#ifndef SECKILL_LOCK_PROBE_H
#define SECKILL_LOCK_PROBE_H

#include "app/core/lateness.h"
#include "lock/rlock.h"

#define LOCK_PROBE_LOCKS 16

enum lock_probe_state {
    LOCK_PROBE_DOWN,
    LOCK_PROBE_DEGRADED, /* a master of a cluster is down: some shoppers can order */
    LOCK_PROBE_UP,
};

struct lock_probe {
    struct rlock_client *locks;
    unsigned count; /* number of locks: LOCK_PROBE_LOCKS in a cluster, otherwise 1 */
    /* Called when the state changes, and when the reason of a state other than UP changes. */
    void (*on_state)(enum lock_probe_state state, const struct rlock_err *why, void *arg);
    void *arg;
    uv_timer_t timer;
    struct rlock probes[LOCK_PROBE_LOCKS];
    unsigned awaited, granted;
    unsigned ticks;
    struct lateness lateness;
    enum lock_probe_state state;
    struct rlock_err why, reported;
};

/** Start the probe. The fields up to `arg` must be set, and the others must be zero. */
void lock_probe_start(struct lock_probe *probe, uv_loop_t *loop);

/** A callback for rlock_client_options.on_state. @arg  the struct lock_probe */
void lock_probe_on_connection(bool is_up, const struct rlock_err *why, void *arg);

/** Stop the probe. Called before `locks` is closed. The loop closes the timer in a later turn. */
void lock_probe_close(struct lock_probe *probe);

#endif
