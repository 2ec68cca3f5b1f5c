/* calls.c - the calls on a lock: check, put in line; the rest happens in the batches. */
#include "base/clock.h"
#include "lock/internal.h"
#include "lock/rlock.h"

#include <assert.h>
#include <string.h>

static bool is_free_to_use(const struct rlock *lock)
{
    return lock->state == RLOCK_IDLE || lock->state == RLOCK_LOST;
}

/** Answer a call on a lock that is taken up by another call, without disturbing it. */
static void answer_beside(struct rlock_client *client, struct rlock *lock,
                          enum status status, rlock_cb callback, void *arg)
{
    struct rlock *stand_in = rlock_orphan_spare(client);

    if (stand_in == NULL) {
        callback(lock, STATUS_NO_MEMORY, arg);
        return;
    }
    stand_in->subject = lock;
    stand_in->callback = callback;
    stand_in->arg = arg;
    rlock_client_answer(client, stand_in, status);
}

static void set_up(struct rlock_client *client, struct rlock *lock,
                   const struct rlock_acquire_options *options)
{
    list_init(&lock->link);
    list_init(&lock->watch_link);
    lock->batch = NULL;
    lock->waiter = NULL;
    lock->subject = NULL;
    lock->kind = options->kind == NULL ? &rlock_plain : options->kind;
    lock->on_lost = options->on_lost;
    lock->watched = options->watchdog;
    lock->lease_ms = options->lease_ms;
    if (options->watchdog && options->lease_ms == 0)
        lock->lease_ms = RLOCK_LEASE_MS_DEFAULT;
    lock->wait_ms = options->wait_ms;
    lock->spin_min_ms = options->spin_min_ms;
    lock->spin_max_ms = options->spin_max_ms;
    lock->replicas = options->replicas;
    lock->replicas_wait_ms = options->replicas_wait_ms;
    lock->holder = options->holder;
    lock->serial = ++client->last_serial;
    lock->began_us = clock_mono_us();
    lock->fence = 0;
    lock->safe_until_us = 0;
}

static bool is_valid_lease(uint32_t lease_ms)
{
    return lease_ms >= RLOCK_LEASE_MS_MIN && lease_ms <= RLOCK_LEASE_MS_MAX;
}

static bool is_valid(const struct rlock_client *client, const struct rlock *lock,
                     const char *name, size_t name_len)
{
    return name != NULL && name_len >= 1 && name_len <= RLOCK_NAME_MAX &&
           is_valid_lease(lock->lease_ms) && (!lock->watched || lock->kind->can_renew) &&
           (lock->spin_max_ms == 0 || lock->spin_min_ms <= lock->spin_max_ms) &&
           (lock->replicas == 0 ||
            (lock->replicas_wait_ms > 0 && lock->replicas_wait_ms < client->timeout_ms));
}

enum status rlock_try(struct rlock_client *client, struct rlock *lock)
{
    const struct rlock_kind *kind = lock->kind;
    bool is_other = lock->wait_ms > 0 && kind->acquire_wait.complete != NULL;

    return rlock_batch_add(client, is_other ? &kind->acquire_wait : &kind->acquire, lock);
}

/* NOLINTNEXTLINE(readability-function-size): a name is two arguments */
void rlock_acquire(struct rlock_client *client, struct rlock *lock, const char *name,
                   size_t name_len, const struct rlock_acquire_options *options,
                   rlock_cb callback, void *arg)
{
    assert(callback != NULL);
    if (!is_free_to_use(lock)) {
        answer_beside(client, lock, STATUS_INVALID, callback, arg);
        return;
    }
    set_up(client, lock, options);
    lock->callback = callback;
    lock->arg = lock->lost_arg = arg;
    if (!is_valid(client, lock, name, name_len)) {
        rlock_client_answer(client, lock, STATUS_INVALID);
        return;
    }
    lock->name_len = (uint16_t)name_len;
    memcpy(lock->name, name, name_len);
    lock->state = RLOCK_ACQUIRING;
    if (client->is_closing)
        rlock_client_answer(client, lock, STATUS_CANCELLED);
    else if (rlock_try(client, lock) != STATUS_OK)
        rlock_client_answer(client, lock, STATUS_NO_MEMORY);
}

void rlock_cancel(struct rlock_client *client, struct rlock *lock)
{
    if (lock->state == RLOCK_ACQUIRING)
        rlock_cancel_acquire(client, lock, lock->batch != NULL && lock->batch->is_sent);
}

/* A renewal under way is disregarded: this one goes further. */
static void extend_held(struct rlock_client *client, struct rlock *lock)
{
    rlock_batch_leave(lock);
    lock->state = RLOCK_EXTENDING;
    if (client->is_closing)
        rlock_client_answer(client, lock, STATUS_CANCELLED);
    else if (rlock_batch_add(client, &lock->kind->extend, lock) != STATUS_OK)
        rlock_client_answer(client, lock, STATUS_NO_MEMORY);
}

void rlock_extend(struct rlock_client *client, struct rlock *lock, uint32_t lease_ms,
                  rlock_cb callback, void *arg)
{
    assert(callback != NULL);
    if (lock->state != RLOCK_HELD) {
        answer_beside(client, lock,
                      lock->state == RLOCK_LOST ? STATUS_LOST : STATUS_NOT_OWNER,
                      callback, arg);
    } else if (!is_valid_lease(lease_ms) || !lock->kind->can_renew) {
        answer_beside(client, lock, STATUS_INVALID, callback, arg);
    } else {
        lock->callback = callback;
        lock->arg = arg;
        lock->lease_ms = lease_ms;
        extend_held(client, lock);
    }
}

/** A release goes before an extension under way. */
static void end_extension(struct rlock_client *client, struct rlock *lock)
{
    if (lock->state != RLOCK_EXTENDING)
        return;
    rlock_batch_leave(lock);
    lock->state = RLOCK_HELD;
    answer_beside(client, lock, STATUS_CANCELLED, lock->callback, lock->arg);
}

/** Release without a callback: the lock is the caller's when this returns. */
static void drop(struct rlock_client *client, struct rlock *lock)
{
    if (lock->state == RLOCK_HELD) {
        rlock_watchdog_remove(lock);
        rlock_wait_pass_on(client, lock);
        rlock_orphan_now(client, lock);
    }
    if (lock->state == RLOCK_HELD || lock->state == RLOCK_LOST)
        lock->state = RLOCK_IDLE;
}

static void release_held(struct rlock_client *client, struct rlock *lock)
{
    rlock_watchdog_remove(lock);
    rlock_wait_pass_on(client, lock);
    lock->state = RLOCK_RELEASING;
    if (client->is_closing) {
        rlock_orphan_now(client, lock);
        rlock_client_answer(client, lock, STATUS_CANCELLED);
    } else if (rlock_batch_add(client, &lock->kind->release, lock) != STATUS_OK) {
        rlock_client_answer(client, lock, STATUS_NO_MEMORY);
    }
}

void rlock_release(struct rlock_client *client, struct rlock *lock, rlock_cb callback,
                   void *arg)
{
    end_extension(client, lock);
    if (callback == NULL) {
        drop(client, lock);
        return;
    }
    if (lock->state != RLOCK_HELD && !is_free_to_use(lock)) {
        answer_beside(client, lock, STATUS_NOT_OWNER, callback, arg);
        return;
    }
    lock->callback = callback;
    lock->arg = arg;
    if (lock->state == RLOCK_HELD)
        release_held(client, lock);
    else
        rlock_client_answer(client, lock,
                            lock->state == RLOCK_LOST ? STATUS_LOST : STATUS_NOT_OWNER);
}

bool rlock_is_held(const struct rlock *lock)
{
    return lock->state == RLOCK_HELD || lock->state == RLOCK_EXTENDING;
}

int64_t rlock_fence(const struct rlock *lock)
{
    return lock->fence;
}

int64_t rlock_safe_for_us(const struct rlock *lock, int64_t now_us)
{
    return rlock_is_held(lock) ? lock->safe_until_us - now_us : 0;
}
