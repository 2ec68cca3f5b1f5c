/*
 * calls.c - the calls of rlock.h on a lock. A call checks its arguments and then changes the state.
 */
#include "base/clock.h"
#include "lock/keys.h"
#include "lock/state.h"

#include <assert.h>
#include <string.h>

static const char bad_lease[] =
    "lease_ms: must be " TEXT(RLOCK_LEASE_MS_MIN) " to " TEXT(RLOCK_LEASE_MS_MAX);
static const char cannot_renew[] = "kind: cannot be renewed or extended";
static const char other_client[] = "client: the lock was acquired by another one";

static bool is_free_to_use(const struct rlock *lock)
{
    return lock->state == RLOCK_STATE_IDLE || lock->state == RLOCK_STATE_LOST;
}

static void set_up(struct rlock_client *client, struct rlock *lock,
                   const struct rlock_acquire_options *options)
{
    memset(lock, 0, offsetof(struct rlock, name)); /* find_fault() sets the name later */
    lock->kind = options->kind == NULL ? &rlock_plain : options->kind;
    lock->on_lost = options->on_lost;
    lock->lost_arg = options->lost_arg;
    lock->watched = options->watchdog;
    lock->lease_ms = options->lease_ms == 0 ? RLOCK_LEASE_MS_DEFAULT : options->lease_ms;
    lock->hold_min_ms = options->hold_min_ms;
    lock->hold_max_ms = options->hold_max_ms;
    lock->wait_ms = options->wait_ms;
    lock->spin_min_ms = options->spin_min_ms;
    lock->spin_max_ms = options->spin_max_ms;
    lock->replicas = options->replicas;
    lock->replicas_wait_ms = options->replicas_wait_ms;
    lock->permits = options->permits;
    lock->holder = options->holder;
    lock->serial = ++client->last_serial;
    lock->process = client->process;
    lock->client = client;
    lock->began_us = clock_mono_us();
    list_init(&lock->link);
    list_init(&lock->watch_link);
}

static const char *find_lease_fault(const struct rlock *lock, uint32_t lease_ms)
{
    if (lease_ms < RLOCK_LEASE_MS_MIN || lease_ms > RLOCK_LEASE_MS_MAX)
        return bad_lease;
    return lease_ms < lock->hold_min_ms ? "lease_ms: must be at least hold_min_ms" : NULL;
}

/** Set the name of the lock, and check the arguments of an acquire. Returns NULL, or why an
 *  argument is refused. */
static const char *find_fault(struct rlock_client *client, struct rlock *lock,
                              const char *name, size_t name_len)
{
    const char *fault = rlock_keys_set_name(client, lock, name, name_len);

    if (fault == NULL)
        fault = find_lease_fault(lock, lock->lease_ms);
    if (fault != NULL)
        return fault;
    if (lock->hold_min_ms > 0 && lock->kind->keep.on_result == NULL)
        return "hold_min_ms: only for kind plain";
    if ((lock->permits > 0) != lock->kind->has_permits)
        return "permits: a semaphore needs at least 1, another kind has none";
    if (lock->watched && !lock->kind->can_renew)
        return cannot_renew;
    if (lock->hold_max_ms > 0 && !lock->watched)
        return "hold_max_ms: only with the watchdog";
    if (lock->spin_max_ms != 0 && lock->spin_min_ms > lock->spin_max_ms)
        return "spin_min_ms: exceeds spin_max_ms";
    if (lock->replicas != 0 && client->server_count > 1)
        return "replicas: cannot be confirmed in a cluster";
    if (lock->replicas != 0 &&
        (lock->replicas_wait_ms == 0 || lock->replicas_wait_ms >= client->timeout_ms))
        return "replicas_wait_ms: must be at least 1 and less than timeout_ms";
    return NULL;
}

static bool is_foreign(const struct rlock_client *client, const struct rlock *lock)
{
    return !is_free_to_use(lock) && lock->client != client;
}

/* NOLINTNEXTLINE(readability-function-size): a name takes two parameters */
void rlock_acquire(struct rlock_client *client, struct rlock *lock, const char *name,
                   size_t name_len, const struct rlock_acquire_options *options,
                   rlock_cb callback, void *arg)
{
    static const struct rlock_acquire_options defaults;

    assert(callback != NULL);
    if (rlock_client_is_inherited(client)) {
        callback(lock, RLOCK_INVALID, arg);
        return;
    }
    if (!is_free_to_use(lock)) {
        rlock_state_answer_unchanged(client, lock, RLOCK_INVALID,
                                     "lock: is held, or in another call", callback, arg);
        return;
    }
    set_up(client, lock, options == NULL ? &defaults : options);
    lock->callback = callback;
    lock->arg = arg;
    if (lock->lost_arg == NULL)
        lock->lost_arg = arg;
    lock->reason = find_fault(client, lock, name, name_len);
    if (lock->reason != NULL) {
        rlock_state_answer(client, lock, RLOCK_INVALID);
        return;
    }
    rlock_state_acquire(client, lock);
}

void rlock_cancel(struct rlock_client *client, struct rlock *lock)
{
    if (rlock_client_is_inherited(client) || is_foreign(client, lock))
        return;
    if (lock->state == RLOCK_STATE_PASSED)
        lock->status = RLOCK_CANCELLED;
    else if (lock->state == RLOCK_STATE_ACQUIRING)
        rlock_state_cancel_acquire(client, lock);
}

static enum rlock_status status_when_not_held(const struct rlock *lock)
{
    return lock->state == RLOCK_STATE_LOST ? RLOCK_LOST : RLOCK_NOT_OWNER;
}

void rlock_extend(struct rlock_client *client, struct rlock *lock, uint32_t lease_ms,
                  rlock_cb callback, void *arg)
{
    const char *fault = find_lease_fault(lock, lease_ms);

    assert(callback != NULL);
    if (rlock_client_is_inherited(client)) {
        callback(lock, RLOCK_INVALID, arg);
    } else if (is_foreign(client, lock)) {
        rlock_state_answer_unchanged(client, lock, RLOCK_INVALID, other_client, callback,
                                     arg);
    } else if (lock->state != RLOCK_STATE_HELD) {
        rlock_state_answer_unchanged(client, lock, status_when_not_held(lock), NULL,
                                     callback, arg);
    } else if (fault != NULL || !lock->kind->can_renew) {
        rlock_state_answer_unchanged(client, lock, RLOCK_INVALID,
                                     lock->kind->can_renew ? fault : cannot_renew,
                                     callback, arg);
    } else {
        lock->callback = callback;
        lock->arg = arg;
        lock->lease_ms = lease_ms;
        rlock_state_extend(client, lock);
    }
}

void rlock_release(struct rlock_client *client, struct rlock *lock, rlock_cb callback,
                   void *arg)
{
    if (rlock_client_is_inherited(client)) {
        if (callback != NULL)
            callback(lock, RLOCK_INVALID, arg);
        return;
    }
    if (is_foreign(client, lock)) {
        if (callback != NULL)
            rlock_state_answer_unchanged(client, lock, RLOCK_INVALID, other_client,
                                         callback, arg);
        return;
    }
    rlock_state_end_extension(client, lock);
    if (callback == NULL) {
        rlock_state_drop(client, lock);
        return;
    }
    if (lock->state != RLOCK_STATE_HELD && !is_free_to_use(lock)) {
        rlock_state_answer_unchanged(client, lock, RLOCK_NOT_OWNER, NULL, callback, arg);
        return;
    }
    lock->callback = callback;
    lock->arg = arg;
    if (lock->state == RLOCK_STATE_HELD)
        rlock_state_release(client, lock);
    else
        rlock_state_answer(client, lock, status_when_not_held(lock));
}

bool rlock_is_held(const struct rlock *lock)
{
    return (lock->state == RLOCK_STATE_HELD || lock->state == RLOCK_STATE_EXTENDING) &&
           lock->process == process_generation();
}

int64_t rlock_fence(const struct rlock *lock)
{
    return lock->fence;
}

int64_t rlock_safe_for_us(const struct rlock *lock, int64_t now_us)
{
    return rlock_is_held(lock) ? lock->safe_until_us - now_us : 0;
}
