/*
 * watchdog.c - one timer for all renewals of a client.
 *
 * Locks with the same lease form a schedule, ordered by when they are due: a third of the
 * lease after the last call that set it. When the first one is due, the timer moves all
 * that are due to `overdue` and puts them in batches; they stay there until the server
 * has replied. While `overdue` is not empty, the timer checks it every fiftieth of a
 * lease: it sends failed renewals again, and a lock whose lease has ended by the local
 * clock is lost, with or without a reply. A renewed lock returns to its schedule.
 *
 * Adding and removing a lock cost one list operation each, and the timer is set again
 * only for an earlier renewal: a lock that is held for a millisecond costs next to
 * nothing.
 */
#include "lock/watchdog.h"
#include "base/clock.h"
#include "lock/batch.h"
#include "lock/orphan.h"

#include <stdlib.h>

#define RETRY_MIN_US 20000
#define RETRY_MAX_US 500000

struct schedule {
    struct list link;
    struct list locks; /* by renew_at_us */
    uint32_t lease_ms;
};

static void watchdog_on_timer(uv_timer_t *timer);

static void wake_at(struct rlock_watchdog *watchdog, int64_t at_us)
{
    if (at_us >= watchdog->timer_at_us)
        return;
    watchdog->timer_at_us = at_us;
    uv_timer_start(&watchdog->timer, watchdog_on_timer, clock_ms_until(at_us), 0);
}

void rlock_watchdog_init(struct rlock_client *client)
{
    struct rlock_watchdog *watchdog = &client->watchdog;

    list_init(&watchdog->schedules);
    list_init(&watchdog->overdue);
    watchdog->timer_at_us = INT64_MAX;
    uv_timer_init(client->loop, &watchdog->timer);
    watchdog->timer.data = client;
}

static void cancel_all(struct rlock_client *client, struct list *locks)
{
    LIST_DRAIN(struct rlock, lock, locks, watch_link)
        lock->kind->renew.on_cancel(client, lock, false);
}

void rlock_watchdog_close(struct rlock_client *client)
{
    struct rlock_watchdog *watchdog = &client->watchdog;

    cancel_all(client, &watchdog->overdue);
    LIST_EACH(struct schedule, schedule, &watchdog->schedules, link)
        cancel_all(client, &schedule->locks);
    closing_handle(&client->closing, (uv_handle_t *)&watchdog->timer);
}

void rlock_watchdog_clear(struct rlock_client *client)
{
    LIST_DRAIN(struct schedule, schedule, &client->watchdog.schedules, link)
        free(schedule);
}

static struct schedule *find_schedule(struct rlock_watchdog *watchdog, uint32_t lease_ms)
{
    struct schedule *schedule;

    LIST_EACH(struct schedule, known, &watchdog->schedules, link) {
        if (known->lease_ms == lease_ms)
            return known;
    }
    schedule = malloc(sizeof(*schedule));
    if (schedule == NULL)
        return NULL;
    schedule->lease_ms = lease_ms;
    list_init(&schedule->locks);
    list_append(&watchdog->schedules, &schedule->link);
    return schedule;
}

enum status rlock_watchdog_add(struct rlock_client *client, struct rlock *lock,
                               int64_t sent_us)
{
    struct schedule *schedule = find_schedule(&client->watchdog, lock->lease_ms);

    if (schedule == NULL)
        return STATUS_NO_MEMORY;
    lock->renew_at_us = sent_us + (int64_t)lock->lease_ms * 1000 / 3;
    list_append(&schedule->locks, &lock->watch_link);
    wake_at(&client->watchdog, lock->renew_at_us);
    return STATUS_OK;
}

void rlock_watchdog_remove(struct rlock *lock)
{
    if (!lock->watched)
        return;
    list_remove(&lock->watch_link);
    rlock_batch_leave(lock);
}

void rlock_watchdog_renewed(struct rlock_client *client, struct rlock *lock,
                            int64_t sent_us)
{
    if (!lock->watched)
        return;
    list_remove(&lock->watch_link);
    if (rlock_watchdog_add(client, lock, sent_us) != STATUS_OK)
        list_append(&client->watchdog.overdue, &lock->watch_link);
}

void rlock_watchdog_hurry(struct rlock_client *client, struct rlock *lock)
{
    if (!lock->watched)
        return;
    list_remove(&lock->watch_link);
    list_append(&client->watchdog.overdue, &lock->watch_link);
    wake_at(&client->watchdog, clock_mono_us());
}

static void collect_due(struct rlock_watchdog *watchdog, struct schedule *schedule,
                        int64_t now_us)
{
    while (!list_is_empty(&schedule->locks)) {
        struct rlock *lock = list_item(schedule->locks.next, struct rlock, watch_link);

        if (lock->renew_at_us > now_us) {
            wake_at(watchdog, lock->renew_at_us);
            return;
        }
        list_remove(&lock->watch_link);
        list_append(&watchdog->overdue, &lock->watch_link);
    }
    list_remove(&schedule->link);
    free(schedule);
}

/** When to check an overdue lock again. */
static int64_t retry_at_us(const struct rlock *lock, int64_t now_us)
{
    int64_t pause_us = (int64_t)lock->lease_ms * 1000 / 50;

    if (pause_us < RETRY_MIN_US)
        pause_us = RETRY_MIN_US;
    if (pause_us > RETRY_MAX_US)
        pause_us = RETRY_MAX_US;
    return now_us + pause_us < lock->safe_until_us ? now_us + pause_us
                                                   : lock->safe_until_us;
}

/** After its local deadline a lock counts as lost; the server may still hold it. */
static void give_up(struct rlock_client *client, struct rlock *lock)
{
    static const struct rlock_result lost = {.status = STATUS_LOST};

    rlock_orphan_unknown(client, lock);
    lock->kind->renew.on_result(client, lock, &lost);
}

/** Renew the lock unless that is in progress; if it fails, the timer retries. */
static void renew(struct rlock_client *client, struct rlock *lock)
{
    if (lock->batch == NULL && redis_conn_is_up(client->conn) &&
        rlock_batch_add(client, &lock->kind->renew, lock) != STATUS_OK)
        client->stats.failed++;
}

static void renew_overdue(struct rlock_client *client, int64_t now_us)
{
    struct list todo;

    list_init(&todo);
    list_append_all(&todo, &client->watchdog.overdue);
    LIST_DRAIN(struct rlock, lock, &todo, watch_link) {
        list_append(&client->watchdog.overdue, &lock->watch_link);
        if (now_us < lock->safe_until_us) {
            renew(client, lock);
            wake_at(&client->watchdog, retry_at_us(lock, now_us));
            continue;
        }
        give_up(client, lock);
        if (client->is_closing) { /* by the callback */
            cancel_all(client, &todo);
            return;
        }
    }
}

static void tick(struct rlock_client *client)
{
    int64_t now_us = clock_mono_us();

    LIST_EACH_SAFE(struct schedule, schedule, &client->watchdog.schedules, link)
        collect_due(&client->watchdog, schedule, now_us);
    renew_overdue(client, now_us);
    if (!client->is_closing)
        rlock_batch_flush(client);
}

static void watchdog_on_timer(uv_timer_t *timer)
{
    struct rlock_client *client = timer->data;

    client->watchdog.timer_at_us = INT64_MAX;
    tick(client);
}

void rlock_watchdog_resume(struct rlock_client *client)
{
    if (!list_is_empty(&client->watchdog.overdue))
        tick(client);
}
