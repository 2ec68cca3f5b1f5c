/*
 * orphan.c - releases copies of locks until the result is certain.
 *
 * If a release finds the name free, the lock may still appear later. A server that hung may still
 * have to read commands of the lost connection, and may execute the old acquire after the release
 * that came by the new connection. Therefore the copy is released once more after
 * SECOND_RELEASE_US.
 *
 * If more than DUE_MAX copies are due, the oldest are dropped, and their locks end with their
 * leases. No copy is released after its lease must have ended.
 *
 * `tries` of a copy is 1 before the first of two releases, 2 before the second, and 0 if only one
 * release is needed.
 */
#include "lock/orphan.h"
#include "base/clock.h"
#include "lock/batch.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_RELEASE_US 1000000
#define RETRY_US          100000 /* pause before the next release while the server refuses */
#define DUE_MAX           20000

static void orphan_on_timer(uv_timer_t *timer);

void rlock_orphan_init(struct rlock_client *client)
{
    struct rlock_orphans *orphans = &client->orphans;

    list_init(&orphans->spare);
    list_init(&orphans->due);
    list_init(&orphans->second);
    uv_timer_init(client->loop, &orphans->timer);
    orphans->timer.data = client;
    orphans->timer_at_us = INT64_MAX;
}

void rlock_orphan_close(struct rlock_client *client)
{
    closing_handle(&client->closing, (uv_handle_t *)&client->orphans.timer);
}

static void free_all(struct rlock_link *locks)
{
    LIST_DRAIN(struct rlock, lock, locks, link)
        free(lock);
}

void rlock_orphan_clear(struct rlock_client *client)
{
    free_all(&client->orphans.spare);
    free_all(&client->orphans.due);
    free_all(&client->orphans.second);
}

struct rlock *rlock_orphan_spare(struct rlock_client *client)
{
    struct rlock *lock = LIST_SHIFT(struct rlock, &client->orphans.spare, link);

    if (lock != NULL)
        return lock;
    lock = calloc(1, sizeof(*lock));
    if (lock != NULL)
        list_init(&lock->link);
    return lock;
}

void rlock_orphan_recycle(struct rlock_client *client, struct rlock *lock)
{
    list_append(&client->orphans.spare, &lock->link);
}

static void wake_at(struct rlock_orphans *orphans, int64_t at_us)
{
    if (at_us >= orphans->timer_at_us)
        return;
    orphans->timer_at_us = at_us;
    uv_timer_start(&orphans->timer, orphan_on_timer, clock_ms_until(at_us), 0);
}

/** Keep the copy for a later release. If the connection is down, the copy is due when the
 *  connection is up again. Otherwise the copy is due after RETRY_US. */
static void put_due(struct rlock_client *client, struct rlock *copy)
{
    struct rlock_orphans *orphans = &client->orphans;

    if (orphans->due_count == DUE_MAX)
        list_append(&orphans->spare, list_shift(&orphans->due));
    else
        orphans->due_count++;
    list_append(&orphans->due, &copy->link);
    if (!client->is_closing && redis_conn_is_up(rlock_server_of(client, copy)->conn))
        wake_at(orphans, clock_mono_us() + RETRY_US);
}

static void release_again(struct rlock_client *client, struct rlock *copy)
{
    struct rlock_orphans *orphans = &client->orphans;

    copy->renew_at_us = clock_mono_us() + SECOND_RELEASE_US;
    list_append(&orphans->second, &copy->link);
    wake_at(orphans, copy->renew_at_us);
}

static void orphan_on_released(struct rlock *copy, enum rlock_status status, void *arg)
{
    struct rlock_client *client = arg;
    bool is_first_release = copy->tries == 1;
    bool may_exist = clock_mono_us() < copy->safe_until_us;
    bool is_certain =
        status == RLOCK_OK || status == RLOCK_LOST || status == RLOCK_REFUSED;

    if (!is_certain && may_exist && !client->is_closing) {
        copy->tries = 1;
        put_due(client, copy);
    } else if (status == RLOCK_LOST && is_first_release && !client->is_closing) {
        copy->tries = 2;
        release_again(client, copy);
    } else {
        rlock_orphan_recycle(client, copy);
    }
}

bool rlock_orphan_owns(const struct rlock *lock)
{
    return lock->callback == orphan_on_released;
}

static struct rlock *copy_of(struct rlock_client *client, const struct rlock *lock)
{
    struct rlock *copy = rlock_orphan_spare(client);

    if (copy == NULL)
        return NULL; /* without a copy the lock ends with its lease */
    copy->kind = lock->kind;
    copy->callback = orphan_on_released;
    copy->arg = client;
    copy->serial = lock->serial;
    copy->began_us = lock->began_us;
    copy->hold_min_ms = lock->state == RLOCK_STATE_ACQUIRING ? 0 : lock->hold_min_ms;
    copy->safe_until_us =
        clock_mono_us() + ((int64_t)lock->lease_ms + client->timeout_ms) * 1000;
    copy->holder = lock->holder;
    copy->bucket = lock->bucket;
    copy->tries = 0;
    copy->is_counted = lock->is_counted;
    copy->name_len = lock->name_len;
    memcpy(copy->name, lock->name, lock->name_len);
    return copy;
}

static void release(struct rlock_client *client, struct rlock *copy)
{
    if (rlock_batch_add(client, &copy->kind->release, copy) != RLOCK_OK)
        put_due(client, copy);
}

void rlock_orphan_now(struct rlock_client *client, const struct rlock *lock)
{
    struct rlock *copy = client->may_finish ? NULL : copy_of(client, lock);

    if (copy != NULL)
        release(client, copy);
}

void rlock_orphan_unknown(struct rlock_client *client, const struct rlock *lock)
{
    struct rlock *copy = copy_of(client, lock);

    if (copy == NULL)
        return;
    copy->tries = 1;
    if (!client->is_closing && redis_conn_is_up(rlock_server_of(client, lock)->conn))
        release(client, copy);
    else
        put_due(client, copy);
}

void rlock_orphan_later(struct rlock_client *client, const struct rlock *lock)
{
    struct rlock *copy = client->may_finish ? NULL : copy_of(client, lock);

    if (copy == NULL)
        return;
    copy->tries = 2;
    release_again(client, copy);
}

void rlock_orphan_take_over(struct rlock_client *client, struct rlock *lock)
{
    struct rlock *copy = copy_of(client, lock);

    if (copy == NULL)
        rlock_batch_leave(lock);
    else
        rlock_batch_replace(lock, copy);
}

void rlock_orphan_resume(struct rlock_client *client)
{
    client->orphans.due_count = 0;
    LIST_DRAIN_PRESENT(struct rlock, copy, &client->orphans.due, link)
        release(client, copy);
}

static void orphan_on_timer(uv_timer_t *timer)
{
    struct rlock_client *client = timer->data;
    struct rlock_link *second = &client->orphans.second;
    int64_t now_us = clock_mono_us();

    client->orphans.timer_at_us = INT64_MAX;
    LIST_EACH_SAFE(struct rlock, copy, second, link) {
        if (copy->renew_at_us > now_us) {
            wake_at(&client->orphans, copy->renew_at_us);
            break;
        }
        list_remove(&copy->link);
        release(client, copy);
    }
    rlock_orphan_resume(client);
    rlock_batch_flush(client);
}
