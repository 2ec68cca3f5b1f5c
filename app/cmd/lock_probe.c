/* lock_probe.c - takes and releases a lock every two seconds, in a cluster one lock per bucket.
   Between these attempts the probe asks who holds the locks, so that a Redis that hangs is noticed
   sooner. */
#include "app/cmd/lock_probe.h"

#include "base/err.h"

#include <string.h>

#define LOCK_TICKS 13
#define LEASE_MS   1000

/* All instances use the same locks, so RLOCK_BUSY proves as much as a grant. In a cluster the lock
   library divides the names into 16 buckets by a hash, see lib/lock/keys.h. The letters are chosen
   so that the 16 names are in 16 different buckets. */
static const char prefix[] = "lock:probe:", letters[] = "ABCDEFGHIJKLMNOP";

_Static_assert(sizeof(letters) == LOCK_PROBE_LOCKS + 1, "a lock for each letter");

static void report(struct lock_probe *probe)
{
    enum lock_probe_state state = probe->granted == probe->count ? LOCK_PROBE_UP
                                  : probe->granted > 0           ? LOCK_PROBE_DEGRADED
                                                                 : LOCK_PROBE_DOWN;

    if (state == LOCK_PROBE_UP)
        probe->why = (struct rlock_err){0};
    if (state == probe->state && strcmp(probe->why.text, probe->reported.text) == 0)
        return;
    probe->state = state;
    probe->reported = probe->why;
    probe->on_state(state, &probe->why, probe->arg);
}

/* If there was no reply, the client may have no text, or the text of an older failure. Then the
   name of the status is reported instead. */
static void note_failure(struct lock_probe *probe, enum rlock_status status)
{
    const struct rlock_err *why = rlock_client_why(probe->locks);

    if ((status == RLOCK_DOWN || status == why->status) && why->text[0] != '\0')
        probe->why = *why;
    else
        err_set(&probe->why, status, "a lock is not granted: %s",
                rlock_status_name(status));
}

static void take_answer(struct lock_probe *probe, enum rlock_status status, bool is_good)
{
    probe->awaited--;
    if (status == RLOCK_CANCELLED)
        return;
    if (is_good)
        probe->granted++;
    else
        note_failure(probe, status);
    if (probe->awaited == 0)
        report(probe);
}

static void probe_on_locked(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct lock_probe *probe = arg;

    if (status == RLOCK_OK)
        rlock_release(probe->locks, lock, NULL, NULL);
    take_answer(probe, status, status == RLOCK_OK || status == RLOCK_BUSY);
}

static void probe_on_inspected(enum rlock_status status,
                               const struct rlock_info *info UNUSED, void *arg)
{
    take_answer(arg, status, status == RLOCK_OK || status == RLOCK_NOT_FOUND);
}

static void ask(struct lock_probe *probe, bool takes_locks)
{
    static const struct rlock_acquire_options options = {.lease_ms = LEASE_MS};
    char name[sizeof(prefix)];

    lateness_begin(&probe->lateness);
    probe->granted = 0;
    probe->why = (struct rlock_err){0};
    probe->awaited = probe->count;
    for (unsigned i = 0; i < probe->count; i++) {
        memcpy(mempcpy(name, prefix, sizeof(prefix) - 1), &letters[i], 1);
        if (takes_locks)
            rlock_acquire(probe->locks, &probe->probes[i], name, sizeof(name), &options,
                          probe_on_locked, probe);
        else
            rlock_inspect(probe->locks, name, sizeof(name), probe_on_inspected, probe);
    }
    rlock_flush(probe->locks);
}

/* The name of a holder proves nothing about a Redis that refused the last locks. */
static void probe_on_timer(uv_timer_t *timer)
{
    struct lock_probe *probe = timer->data;
    bool takes_locks = ++probe->ticks >= LOCK_TICKS;

    if (lateness_tick(&probe->lateness, probe->awaited > 0)) {
        err_set(&probe->why, RLOCK_TIMEOUT, LATENESS_WORDS);
        report(probe);
    }
    if (probe->awaited > 0)
        return;
    if (takes_locks)
        probe->ticks = 0;
    if (takes_locks || probe->state == LOCK_PROBE_UP)
        ask(probe, takes_locks);
}

void lock_probe_on_connection(bool is_up UNUSED, const struct rlock_err *why UNUSED,
                              void *arg)
{
    struct lock_probe *probe = arg;

    if (probe->awaited == 0)
        ask(probe, true);
}

void lock_probe_start(struct lock_probe *probe, uv_loop_t *loop)
{
    uv_timer_init(loop, &probe->timer);
    probe->timer.data = probe;
    uv_timer_start(&probe->timer, probe_on_timer, LATENESS_TICK_MS, LATENESS_TICK_MS);
}

void lock_probe_close(struct lock_probe *probe)
{
    if (probe->timer.data != NULL)
        uv_close((uv_handle_t *)&probe->timer, NULL);
}
