/* plain.c - the plain, fenced lock: SET NX PX, renew and delete by comparing the owner.
 */
#include "base/clock.h"
#include "lock/client.h"

#include <string.h>

#define DRIFT_MIN_US 2000 /* and one per cent: the server's clock may run faster */

static bool is_unknown(enum status status)
{
    return status == STATUS_TIMEOUT || status == STATUS_IO;
}

static void finish(struct rlock *lock, enum rlock_state state, enum status status)
{
    lock->state = (uint8_t)state;
    lock->callback(lock, status, lock->arg);
}

static void granted(struct rlock_client *client, struct rlock *lock,
                    const struct rlock_outcome *outcome)
{
    lock->fence = outcome->fence;
    lock->safe_until_us = rlock_safe_until_us(outcome->sent_us, lock->lease_ms);
    if (lock->watched &&
        rlock_watchdog_add(client, lock, outcome->sent_us) != STATUS_OK) {
        rlock_giveback_now(client, lock);
        finish(lock, RLOCK_IDLE, STATUS_NO_MEMORY);
        return;
    }
    client->stats.granted++;
    finish(lock, RLOCK_HELD, STATUS_OK);
}

static void settle_acquire(struct rlock_client *client, struct rlock *lock,
                           const struct rlock_outcome *outcome)
{
    if (outcome->status == STATUS_OK) {
        granted(client, lock, outcome);
        return;
    }
    if (outcome->status == STATUS_BUSY)
        client->stats.busy++;
    else
        client->stats.failed++;
    if (is_unknown(outcome->status))
        rlock_giveback_unknown(client, lock);
    finish(lock, RLOCK_IDLE, outcome->status);
}

static void cancel_acquire(struct rlock_client *client, struct rlock *lock, bool is_sent)
{
    rlock_batch_leave(lock);
    if (is_sent)
        rlock_giveback_unknown(client, lock);
    rlock_client_answer(client, lock, STATUS_CANCELLED);
}

static void settle_release(struct rlock_client *client, struct rlock *lock,
                           const struct rlock_outcome *outcome)
{
    bool is_own = rlock_giveback_owns(lock);

    if (outcome->status == STATUS_OK)
        client->stats.released++;
    else if (is_own)
        ; /* nobody was promised anything */
    else if (outcome->status == STATUS_LOST)
        client->stats.lost++;
    else
        client->stats.failed++;
    if (!is_own && (is_unknown(outcome->status) || outcome->status == STATUS_DOWN))
        rlock_giveback_unknown(client, lock);
    finish(lock, RLOCK_IDLE, outcome->status);
}

static void cancel_release(struct rlock_client *client, struct rlock *lock,
                           bool is_sent UNUSED)
{
    if (rlock_giveback_owns(lock))
        return;
    rlock_giveback_take_over(client, lock);
    rlock_client_answer(client, lock, STATUS_CANCELLED);
}

const struct rlock_kind rlock_plain = {
    .acquire =
        {
            .script = RLOCK_SCRIPT_ACQUIRE,
            .line = RLOCK_LINE_ACQUIRE,
            .is_grant = true,
            .has_lease = true,
            .denied = STATUS_BUSY,
            .settle = settle_acquire,
            .cancel = cancel_acquire,
        },
    .release =
        {
            .script = RLOCK_SCRIPT_RELEASE,
            .line = RLOCK_LINE_RELEASE,
            .denied = STATUS_LOST,
            .settle = settle_release,
            .cancel = cancel_release,
        },
    .renew =
        {
            .script = RLOCK_SCRIPT_RENEW,
            .line = RLOCK_LINE_RENEW,
            .has_lease = true,
            .denied = STATUS_LOST,
            .settle = rlock_watchdog_settle,
            .cancel = rlock_watchdog_cancel,
        },
};

int64_t rlock_safe_until_us(int64_t sent_us, uint32_t lease_ms)
{
    int64_t lease_us = (int64_t)lease_ms * 1000;

    return sent_us + lease_us - lease_us / 100 - DRIFT_MIN_US;
}
