/*
 * lock_probe.h - whether orders can take their locks.
 *
 * A connection proves little: a Redis that is out of memory, or may not write, accepts
 * connections and refuses every lock. So the probe takes a lock of its own every two
 * seconds and reports what came of it. A change of the connection is reported at once.
 *
 * Threads: the loop's only.
 */
#ifndef SECKILL_LOCK_PROBE_H
#define SECKILL_LOCK_PROBE_H

#include "lock/rlock.h"

struct lock_probe {
    struct rlock_client *locks;
    /* Called when locks begin or cease to work, and when the reason changes. */
    void (*on_state)(bool works, const struct err *why, void *arg);
    void *arg;
    uv_timer_t timer;
    struct rlock lock;
    bool is_probing;
    bool works;
    struct err reported;
};

/** Begin; the fields up to `arg` are set, the others zero. */
void lock_probe_start(struct lock_probe *probe, uv_loop_t *loop);

/** For rlock_client_options.on_state; @arg  the struct lock_probe */
void lock_probe_on_connection(bool is_up, const struct err *why, void *arg);

/** Stop before the client is closed; the loop closes the timer. */
void lock_probe_close(struct lock_probe *probe);

#endif
