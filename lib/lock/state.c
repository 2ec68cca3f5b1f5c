/* state.c - grants, refusals and unknown outcomes, turned into answers. */
#include "lock/state.h"
#include "base/clock.h"
#include "lock/internal.h"

#define DRIFT_MIN_US 2000 /* and one per cent: the server's clock may run faster */

int64_t rlock_safe_until_us(int64_t sent_us, uint32_t lease_ms)
{
    int64_t lease_us = (int64_t)lease_ms * 1000;

    return sent_us + lease_us - lease_us / 100 - DRIFT_MIN_US;
}

static bool is_unknown(enum status status)
{
    return status == STATUS_TIMEOUT || status == STATUS_IO;
}

static void finish(struct rlock *lock, enum rlock_state state, enum status status)
{
    lock->state = (uint8_t)state;
    lock->callback(lock, status, lock->arg);
}

static void count_grant(struct rlock_client *client, const struct rlock *lock)
{
    int64_t waited_ms = (clock_mono_us() - lock->began_us) / 1000;
    unsigned bucket = 0;

    while (bucket < RLOCK_WAIT_BUCKETS - 1 && waited_ms >= INT64_C(1) << bucket)
        bucket++;
    client->stats.waits[bucket]++;
    client->stats.granted++;
}

static void granted(struct rlock_client *client, struct rlock *lock,
                    const struct rlock_result *result)
{
    rlock_wait_end(client, lock, true);
    lock->fence = result->fence;
    lock->safe_until_us = rlock_safe_until_us(result->sent_us, lock->lease_ms);
    if (lock->watched && rlock_watchdog_add(client, lock, result->sent_us) != STATUS_OK) {
        rlock_orphan_now(client, lock);
        finish(lock, RLOCK_IDLE, STATUS_NO_MEMORY);
        return;
    }
    count_grant(client, lock);
    finish(lock, RLOCK_HELD, STATUS_OK);
}

void rlock_complete_failed(struct rlock_client *client, struct rlock *lock,
                           enum status status)
{
    bool is_queued = lock->waiter != NULL && lock->kind->is_queued;

    rlock_wait_end(client, lock, false);
    if (status == STATUS_BUSY)
        client->stats.busy++;
    else
        client->stats.failed++;
    if (is_unknown(status))
        rlock_orphan_unknown(client, lock);
    else if (status == STATUS_UNSAFE || is_queued)
        rlock_orphan_now(client, lock);
    if (status != STATUS_BUSY || is_queued)
        rlock_client_wake(client); /* for what is given back */
    finish(lock, RLOCK_IDLE, status);
}

void rlock_complete_acquire(struct rlock_client *client, struct rlock *lock,
                            const struct rlock_result *result)
{
    if (result->status == STATUS_OK)
        granted(client, lock, result);
    else if (result->status != STATUS_BUSY || !rlock_wait_on(client, lock, result))
        rlock_complete_failed(client, lock, result->status);
}

void rlock_cancel_acquire(struct rlock_client *client, struct rlock *lock, bool is_sent)
{
    bool is_queued = lock->waiter != NULL && lock->kind->is_queued;

    rlock_wait_end(client, lock, false);
    rlock_batch_leave(lock);
    if (is_sent || is_queued)
        rlock_orphan_unknown(client, lock);
    rlock_client_answer(client, lock, STATUS_CANCELLED);
}

void rlock_complete_extend(struct rlock_client *client, struct rlock *lock,
                           const struct rlock_result *result)
{
    int64_t safe_until_us = rlock_safe_until_us(result->sent_us, lock->lease_ms);

    if (result->status == STATUS_LOST) {
        rlock_watchdog_remove(lock);
        client->stats.lost++;
        finish(lock, RLOCK_LOST, STATUS_LOST);
        return;
    }
    if (result->status == STATUS_OK) {
        lock->safe_until_us = safe_until_us;
        rlock_watchdog_renewed(client, lock, result->sent_us);
    } else {
        if (safe_until_us < lock->safe_until_us)
            lock->safe_until_us = safe_until_us; /* it may have been shortened */
        rlock_watchdog_hurry(client, lock);
    }
    finish(lock, RLOCK_HELD, result->status);
}

void rlock_cancel_extend(struct rlock_client *client, struct rlock *lock,
                         bool is_sent UNUSED)
{
    rlock_batch_leave(lock);
    rlock_client_answer(client, lock, STATUS_CANCELLED);
}

void rlock_complete_release(struct rlock_client *client, struct rlock *lock,
                            const struct rlock_result *result)
{
    bool is_own = rlock_orphan_owns(lock);

    if (result->status == STATUS_OK)
        client->stats.released++;
    else if (is_own)
        ; /* nobody was promised anything */
    else if (result->status == STATUS_LOST)
        client->stats.lost++;
    else
        client->stats.failed++;
    if (!is_own && (is_unknown(result->status) || result->status == STATUS_DOWN))
        rlock_orphan_unknown(client, lock);
    finish(lock, RLOCK_IDLE, result->status);
}

void rlock_cancel_release(struct rlock_client *client, struct rlock *lock,
                          bool is_sent UNUSED)
{
    if (rlock_orphan_owns(lock))
        return;
    rlock_orphan_take_over(client, lock);
    rlock_client_answer(client, lock, STATUS_CANCELLED);
}
