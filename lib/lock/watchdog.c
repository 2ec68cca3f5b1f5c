/*
 * watchdog.c - one timer for all renewals of a client.
 *
 * The renewal of a lock is due a third of its lease after the last call that set the lease. Locks
 * whose leases differ by less than an eighth share a bucket, in the order in which their leases
 * were set. So a bucket is nearly in the order of due times: a lock that is behind another lock
 * with a longer lease is renewed at most an eighth later.
 *
 * When the first lock of a bucket is due, the timer moves it to `overdue`, with the locks that are
 * due soon, and puts all of them in batches. They stay in `overdue` until the server has replied.
 * Then a renewed lock returns to its bucket. While `overdue` is not empty, the timer checks it
 * every fiftieth of a lease, and sends failed renewals again.
 *
 * If the lease of a lock has ended by the local clock, the lock is lost, with or without a reply. A
 * lock is also lost if its renewal is due after its hold_max_ms, because its owner may no longer
 * run although the process does. For such a lock no release is sent, because the lease ends soon.
 *
 * To add or to remove a lock costs one list operation, and the timer is set again only for an
 * earlier renewal. So a lock that is held for a millisecond costs next to nothing.
 */
#include "lock/watchdog.h"
#include "base/clock.h"
#include "lock/batch.h"
#include "lock/orphan.h"

#define RETRY_MIN_US 20000
#define RETRY_MAX_US 500000

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

    for (int i = 0; i < RLOCK_WATCHDOG_BUCKETS; i++)
        list_init(&watchdog->buckets[i]);
    list_init(&watchdog->overdue);
    watchdog->timer_at_us = INT64_MAX;
    uv_timer_init(client->loop, &watchdog->timer);
    watchdog->timer.data = client;
}

static void cancel_all(struct rlock_client *client, struct rlock_link *locks)
{
    LIST_DRAIN(struct rlock, lock, locks, watch_link)
        lock->kind->renew.on_cancel(client, lock);
}

void rlock_watchdog_close(struct rlock_client *client)
{
    struct rlock_watchdog *watchdog = &client->watchdog;

    cancel_all(client, &watchdog->overdue);
    for (int i = 0; i < RLOCK_WATCHDOG_BUCKETS; i++)
        cancel_all(client, &watchdog->buckets[i]);
    closing_handle(&client->closing, (uv_handle_t *)&watchdog->timer);
}

/** Return the bucket of a lease, which must be at least 8 ms. From a lease to twice this lease
 *  there are eight buckets. */
static struct rlock_link *bucket_of(struct rlock_watchdog *watchdog, uint32_t lease_ms)
{
    unsigned octave = 31 - (unsigned)__builtin_clz(lease_ms);

    return &watchdog->buckets[octave * 8 + ((lease_ms >> (octave - 3)) & 7)];
}

void rlock_watchdog_set(struct rlock_client *client, struct rlock *lock, int64_t sent_us)
{
    if (!lock->watched)
        return;
    list_remove(&lock->watch_link);
    lock->renew_at_us = sent_us + (int64_t)lock->lease_ms * 1000 / 3;
    list_append(bucket_of(&client->watchdog, lock->lease_ms), &lock->watch_link);
    wake_at(&client->watchdog, lock->renew_at_us);
}

void rlock_watchdog_remove(struct rlock *lock)
{
    if (!lock->watched)
        return;
    list_remove(&lock->watch_link);
    rlock_batch_leave(lock);
}

void rlock_watchdog_hurry(struct rlock_client *client, struct rlock *lock)
{
    if (!lock->watched)
        return;
    list_remove(&lock->watch_link);
    list_append(&client->watchdog.overdue, &lock->watch_link);
    wake_at(&client->watchdog, clock_mono_us());
}

/** Move the locks that are due to `overdue`. If a lock is due, also move the locks that will be
 *  due within a sixteenth of the time between two renewals, so that all of them share a call. */
static void collect_due(struct rlock_watchdog *watchdog, struct rlock_link *bucket,
                        int64_t now_us)
{
    int64_t until_us = now_us;

    LIST_EACH_SAFE(struct rlock, lock, bucket, watch_link) {
        if (lock->renew_at_us > until_us) {
            wake_at(watchdog, lock->renew_at_us);
            return;
        }
        until_us = now_us + (int64_t)lock->lease_ms * 1000 / 48;
        list_remove(&lock->watch_link);
        list_append(&watchdog->overdue, &lock->watch_link);
    }
}

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

/** Renew the lock, unless a renewal is in progress. If the renewal fails, the timer tries again. */
static void renew(struct rlock_client *client, struct rlock *lock)
{
    if (lock->batch == NULL && redis_conn_is_up(rlock_server_of(client, lock)->conn) &&
        rlock_batch_add(client, &lock->kind->renew, lock) != RLOCK_OK)
        client->stats.failed++;
}

static bool is_held_too_long(const struct rlock *lock, int64_t now_us)
{
    return lock->hold_max_ms > 0 &&
           now_us >= lock->began_us + (int64_t)lock->hold_max_ms * 1000;
}

static void renew_overdue(struct rlock_client *client, int64_t now_us)
{
    static const struct rlock_result lost = {.status = RLOCK_LOST};
    struct rlock_link todo;

    list_init(&todo);
    list_append_all(&todo, &client->watchdog.overdue);
    LIST_DRAIN(struct rlock, lock, &todo, watch_link) {
        list_append(&client->watchdog.overdue, &lock->watch_link);
        if (now_us < lock->safe_until_us && !is_held_too_long(lock, now_us)) {
            renew(client, lock);
            wake_at(&client->watchdog, retry_at_us(lock, now_us));
            continue;
        }
        if (now_us >= lock->safe_until_us)
            /* The lock may still exist on the server. */
            rlock_orphan_unknown(client, lock);
        lock->kind->renew.on_result(client, lock, &lost);
        if (client->is_closing)
            cancel_all(client, &todo);
    }
}

static void tick(struct rlock_client *client)
{
    int64_t now_us = clock_mono_us();

    for (int i = 0; i < RLOCK_WATCHDOG_BUCKETS; i++)
        collect_due(&client->watchdog, &client->watchdog.buckets[i], now_us);
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
