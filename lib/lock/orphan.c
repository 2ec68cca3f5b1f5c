/*
 * orphan.c - compare and delete, later, what may have been left behind.
 *
 * A release that finds nothing proves nothing yet: a server that hung may still hold
 * unread commands of the dead connection, and carry out the old acquire after the new
 * connection's release. Therefore such a lock is looked at once more after
 * SECOND_LOOK_US. The number of locks remembered is bounded; beyond it the oldest are
 * left to their lease.
 */
#include "lock/orphan.h"
#include "base/clock.h"
#include "lock/internal.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_LOOK_US 1000000
#define DUE_MAX        20000

static void orphan_on_timer(uv_timer_t *timer);

void rlock_orphan_init(struct rlock_client *client, uv_loop_t *loop)
{
    struct rlock_orphans *orphans = &client->orphans;

    list_init(&orphans->spare);
    list_init(&orphans->due);
    list_init(&orphans->second);
    uv_timer_init(loop, &orphans->timer);
    orphans->timer.data = client;
    client->open_handles++;
}

static void orphan_on_closed(uv_handle_t *handle)
{
    rlock_client_handle_closed(handle->data);
}

void rlock_orphan_close(struct rlock_client *client)
{
    uv_close((uv_handle_t *)&client->orphans.timer, orphan_on_closed);
}

static void free_all(struct list *locks)
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

/** Remember it for when the connection is up; the oldest makes room. */
static void put_due(struct rlock_client *client, struct rlock *lock)
{
    struct rlock_orphans *orphans = &client->orphans;

    if (orphans->due_count == DUE_MAX)
        list_append(&orphans->spare, list_shift(&orphans->due));
    else
        orphans->due_count++;
    list_append(&orphans->due, &lock->link);
}

static void look_again(struct rlock_client *client, struct rlock *lock)
{
    struct rlock_orphans *orphans = &client->orphans;

    lock->renew_at_us = clock_mono_us() + SECOND_LOOK_US;
    list_append(&orphans->second, &lock->link);
    if (!uv_is_active((uv_handle_t *)&orphans->timer))
        uv_timer_start(&orphans->timer, orphan_on_timer, SECOND_LOOK_US / 1000, 0);
}

static bool is_certain(enum status status)
{
    return status == STATUS_OK || status == STATUS_LOST || status == STATUS_REFUSED;
}

static void orphan_on_released(struct rlock *lock, enum status status, void *arg)
{
    struct rlock_client *client = arg;
    bool is_first_look = lock->tries == 1;

    if (!is_certain(status) && !client->is_closing) {
        lock->tries = 1;
        put_due(client, lock);
    } else if (status == STATUS_LOST && is_first_look && !client->is_closing) {
        lock->tries = 2;
        look_again(client, lock);
    } else {
        rlock_orphan_recycle(client, lock);
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
        return NULL; /* then the lease ends it */
    copy->kind = lock->kind;
    copy->callback = orphan_on_released;
    copy->arg = client;
    copy->serial = lock->serial;
    copy->holder = lock->holder;
    copy->tries = 0;
    copy->name_len = lock->name_len;
    memcpy(copy->name, lock->name, lock->name_len);
    return copy;
}

static void put_in_line(struct rlock_client *client, struct rlock *lock)
{
    lock->state = RLOCK_RELEASING;
    if (rlock_batch_add(client, &lock->kind->release, lock) != STATUS_OK)
        put_due(client, lock);
}

void rlock_orphan_now(struct rlock_client *client, struct rlock *lock)
{
    struct rlock *copy = client->may_finish ? NULL : copy_of(client, lock);

    if (copy != NULL)
        put_in_line(client, copy);
}

void rlock_orphan_unknown(struct rlock_client *client, const struct rlock *lock)
{
    struct rlock *copy = copy_of(client, lock);

    if (copy == NULL)
        return;
    copy->tries = 1;
    if (rlock_client_is_up(client))
        put_in_line(client, copy);
    else
        put_due(client, copy);
}

void rlock_orphan_take_over(struct rlock_client *client, struct rlock *lock)
{
    struct rlock *copy = copy_of(client, lock);

    if (copy == NULL) {
        rlock_batch_leave(lock);
        return;
    }
    copy->state = RLOCK_RELEASING;
    rlock_batch_replace(lock, copy);
}

void rlock_orphan_resume(struct rlock_client *client)
{
    struct list todo;

    list_init(&todo);
    list_append_all(&todo, &client->orphans.due);
    client->orphans.due_count = 0;
    LIST_DRAIN(struct rlock, lock, &todo, link)
        put_in_line(client, lock);
}

static void orphan_on_timer(uv_timer_t *timer)
{
    struct rlock_client *client = timer->data;
    struct list *second = &client->orphans.second;
    int64_t now_us = clock_mono_us();

    while (!list_is_empty(second)) {
        struct rlock *lock = list_item(second->next, struct rlock, link);

        if (lock->renew_at_us > now_us) {
            uv_timer_start(timer, orphan_on_timer, clock_ms_until(lock->renew_at_us), 0);
            break;
        }
        list_remove(&lock->link);
        put_in_line(client, lock);
    }
    rlock_batch_flush(client);
}
