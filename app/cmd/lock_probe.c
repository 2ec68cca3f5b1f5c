/* lock_probe.c - takes and releases a lock every two seconds. */
#include "app/cmd/lock_probe.h"

#include <string.h>

#define PROBE_NAME "lock:probe" /* of all instances: busy proves as much as a grant */
#define PERIOD_MS  2000
#define LEASE_MS   1000

static void report(struct lock_probe *probe, bool works, const struct err *why)
{
    struct err reason = {0};

    if (!works)
        reason = *why;
    if (works == probe->works && strcmp(reason.text, probe->reported.text) == 0)
        return;
    probe->works = works;
    probe->reported = reason;
    probe->on_state(works, &reason, probe->arg);
}

static void probe_on_locked(struct rlock *lock, enum status status, void *arg)
{
    struct lock_probe *probe = arg;
    struct err why;

    probe->is_probing = false;
    if (status == STATUS_CANCELLED)
        return;
    if (status == STATUS_OK)
        rlock_release(probe->locks, lock, NULL, NULL);
    why = *rlock_client_why(probe->locks);
    if (why.text[0] == '\0')
        (void)err_set(&why, status, "%s", status_name(status));
    report(probe, status == STATUS_OK || status == STATUS_BUSY, &why);
}

static void probe_on_timer(uv_timer_t *timer)
{
    static const struct rlock_acquire_options options = {.lease_ms = LEASE_MS};
    struct lock_probe *probe = timer->data;

    if (probe->is_probing || !rlock_client_is_up(probe->locks))
        return;
    probe->is_probing = true;
    rlock_acquire(probe->locks, &probe->lock, PROBE_NAME, strlen(PROBE_NAME), &options,
                  probe_on_locked, probe);
    rlock_flush(probe->locks);
}

void lock_probe_on_connection(bool is_up, const struct err *why, void *arg)
{
    struct lock_probe *probe = arg;

    if (is_up)
        probe_on_timer(&probe->timer);
    else
        report(probe, false, why);
}

void lock_probe_start(struct lock_probe *probe, uv_loop_t *loop)
{
    uv_timer_init(loop, &probe->timer);
    probe->timer.data = probe;
    uv_timer_start(&probe->timer, probe_on_timer, PERIOD_MS, PERIOD_MS);
}

void lock_probe_close(struct lock_probe *probe)
{
    if (probe->timer.data != NULL)
        uv_close((uv_handle_t *)&probe->timer, NULL);
}
