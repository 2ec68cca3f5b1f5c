/*
 * state.c - every transition of a lock's state, and what follows from it for the watchdog, the
 * waiter, the copies to release, the statistics and the callback.
 *
 * A callback may free its lock, use it again or close the client. So after a callback neither its
 * lock nor the client is touched.
 */
#include "lock/state.h"
#include "base/clock.h"
#include "lock/batch.h"
#include "lock/orphan.h"
#include "lock/server.h"
#include "lock/wait.h"
#include "lock/watchdog.h"

#define STALE_MAX    3     /* how often an acquire is repeated to get a greater fence */
#define PASSES_US    10000 /* greatest age of a lease with which a lock is passed on */
#define DRIFT_MIN_US 2000  /* margin for the drift of clocks, besides 1 % of the lease */

/** Return the time until which a lease surely runs. The call that set the lease was sent at
 *  `sent_us`. */
static int64_t safe_until_us(int64_t sent_us, uint32_t lease_ms)
{
    int64_t lease_us = (int64_t)lease_ms * 1000;

    return sent_us + lease_us - lease_us / 100 - DRIFT_MIN_US;
}

static bool is_unknown(enum rlock_status status)
{
    return status == RLOCK_TIMEOUT || status == RLOCK_IO;
}

static bool is_in_server_queue(const struct rlock *lock)
{
    return lock->waiter != NULL && lock->kind->is_queued;
}

static void finish(struct rlock *lock, enum rlock_state state, enum rlock_status status)
{
    lock->state = (uint8_t)state;
    lock->callback(lock, status, lock->arg);
}

/* -- statistics -- */

static inline void trace(struct rlock_client *client, const struct rlock *lock,
                         enum rlock_event event)
{
    size_t tag_len;

    if (client->on_event == NULL)
        return;
    tag_len = rlock_server_of(client, lock)->tag_len;
    client->on_event(lock->name + tag_len, lock->name_len - tag_len, event,
                     clock_mono_us() - lock->began_us, client->arg);
}

static void count_failure(struct rlock_client *client, const struct rlock *lock,
                          enum rlock_status status)
{
    client->stats.errors[status].kind = lock->kind;
    err_set(&client->stats.errors[status].err, status, "%s",
            rlock_client_words(client, status));
    if (status == RLOCK_LOST)
        client->stats.lost++;
    else
        client->stats.failed++;
    trace(client, lock, status == RLOCK_LOST ? RLOCK_EVENT_LOST : RLOCK_EVENT_FAILED);
}

static void count_time(struct rlock_times *times, int64_t us)
{
    unsigned bucket = 0;

    while (bucket < RLOCK_TIME_BUCKETS - 1 && us > INT64_C(1000) << bucket)
        bucket++;
    times->buckets[bucket]++;
    times->sum_us += (uint64_t)us;
}

static void count_grant(struct rlock_client *client, struct rlock *lock,
                        int64_t granted_us)
{
    count_time(&client->stats.waits, granted_us - lock->began_us);
    client->stats.granted++;
    client->stats.held++;
    trace(client, lock, RLOCK_EVENT_GRANTED);
    lock->began_us = granted_us;
}

static void count_end(struct rlock_client *client, const struct rlock *lock)
{
    client->stats.held--;
    count_time(&client->stats.holds, clock_mono_us() - lock->began_us);
}

/** Return the time at which the call that set the lease of a held lock was sent. */
static int64_t leased_at_us(const struct rlock *lock)
{
    return lock->safe_until_us - safe_until_us(0, lock->lease_ms);
}

static void hold(struct rlock_client *client, struct rlock *lock, int64_t granted_us)
{
    rlock_watchdog_set(client, lock, leased_at_us(lock));
    count_grant(client, lock, granted_us);
    finish(lock, RLOCK_STATE_HELD, RLOCK_OK);
}

/* -- passing a lock on without the server -- */

static bool may_pass_on(const struct rlock *lock)
{
    int64_t age_us = lock->passes > 0 ? clock_mono_us() - leased_at_us(lock) : PASSES_US;

    return !lock->in_doubt && age_us < PASSES_US &&
           age_us < (int64_t)lock->lease_ms * 100;
}

static void pass_on(struct rlock_client *client, struct rlock *lock, struct rlock *heir)
{
    heir->serial = lock->serial;
    heir->fence = lock->fence + 1;
    heir->passes = (uint8_t)(lock->passes - 1);
    heir->safe_until_us = lock->safe_until_us;
    rlock_state_answer(client, heir, RLOCK_OK);
    heir->state = RLOCK_STATE_PASSED;
    client->stats.released++;
    trace(client, lock, RLOCK_EVENT_RELEASED);
    rlock_state_answer(client, lock, RLOCK_OK);
}

static void end_pass(struct rlock_client *client, struct rlock *lock)
{
    if (lock->status == RLOCK_OK && !client->is_closing) {
        hold(client, lock, clock_mono_us());
        return;
    }
    rlock_orphan_now(client, lock);
    finish(lock, RLOCK_STATE_IDLE, RLOCK_CANCELLED);
}

/* -- answers of the loop -- */

void rlock_state_answer(struct rlock_client *client, struct rlock *lock,
                        enum rlock_status status)
{
    lock->state = RLOCK_STATE_ANSWERING;
    lock->status = (uint8_t)status;
    list_append(&client->answers, &lock->link);
    rlock_client_wake(client);
}

void rlock_state_answer_unchanged(struct rlock_client *client, struct rlock *lock,
                                  enum rlock_status status, const char *reason,
                                  rlock_cb callback, void *arg)
{
    struct rlock *stand_in = rlock_orphan_spare(client);

    if (stand_in == NULL) {
        callback(lock, RLOCK_NO_MEMORY, arg);
        return;
    }
    stand_in->subject = lock;
    stand_in->reason = reason;
    stand_in->callback = callback;
    stand_in->arg = arg;
    rlock_state_answer(client, stand_in, status);
}

static void call_back(struct rlock_client *client, struct rlock *lock)
{
    struct rlock *subject = lock->subject;
    rlock_cb callback = lock->callback;
    void *arg = lock->arg;
    enum rlock_status status = lock->status;

    if (status == RLOCK_INVALID)
        err_set(&client->why, status, "%s", lock->reason);
    if (lock->state == RLOCK_STATE_PASSED) {
        end_pass(client, lock);
    } else if (subject == NULL) {
        finish(lock, RLOCK_STATE_IDLE, status);
    } else {
        rlock_orphan_recycle(client, lock);
        callback(subject, status, arg);
    }
}

void rlock_state_call_back(struct rlock_client *client)
{
    LIST_DRAIN_PRESENT(struct rlock, lock, &client->answers, link)
        call_back(client, lock);
}

/* -- acquire -- */

static enum rlock_status try(struct rlock_client *client, struct rlock *lock)
{
    const struct rlock_kind *kind = lock->kind;

    return rlock_batch_add(
        client, lock->wait_ms > 0 ? &kind->acquire_wait : &kind->acquire, lock);
}

void rlock_state_acquire(struct rlock_client *client, struct rlock *lock)
{
    static const struct rlock_result unknown = {.status = RLOCK_BUSY, .remaining_ms = -1};

    enum rlock_status status = RLOCK_CANCELLED;

    lock->state = RLOCK_STATE_ACQUIRING;
    if (!client->is_closing)
        status = rlock_wait_must_yield(client, lock)
                     ? rlock_wait_on(client, lock, &unknown)
                     : try(client, lock);
    if (status != RLOCK_OK)
        rlock_state_answer(client, lock, status);
}

static void grant(struct rlock_client *client, struct rlock *lock,
                  const struct rlock_result *result)
{
    rlock_wait_end(client, lock, true);
    lock->fence = result->fence;
    lock->safe_until_us = safe_until_us(result->sent_us, lock->lease_ms);
    if (lock->passes > 0 && !rlock_server_saw_fences(rlock_server_of(client, lock),
                                                     lock->fence - 1, lock->passes + 1u))
        lock->passes = 0;
    rlock_wait_granted(client, lock);
    hold(client, lock, result->granted_us);
}

static void fail_acquire(struct rlock_client *client, struct rlock *lock,
                         enum rlock_status status)
{
    bool has_no_waiter = status == RLOCK_NO_MEMORY || status == RLOCK_INVALID;
    bool is_queued = is_in_server_queue(lock) || (has_no_waiter && lock->kind->is_queued);

    rlock_wait_end(client, lock, false);
    if (status == RLOCK_BUSY) {
        client->stats.busy++;
        trace(client, lock, RLOCK_EVENT_BUSY);
    } else {
        count_failure(client, lock, status);
    }
    if (lock->in_doubt)
        rlock_orphan_unknown(client, lock);
    else if (status == RLOCK_UNSAFE || is_queued)
        rlock_orphan_now(client, lock);
    finish(lock, RLOCK_STATE_IDLE, status);
}

/** Release a grant whose fence is stale, and acquire the lock again under another serial. The
 *  fence is stale because the fence counter was lowered. rlock_server_saw_fences() has already
 *  sent the call that raises the counter, and the server executes it before the new acquire. */
static void acquire_again(struct rlock_client *client, struct rlock *lock)
{
    rlock_orphan_now(client, lock);
    lock->serial = ++client->last_serial;
    if (++lock->tries > STALE_MAX) {
        err_set(&client->why, RLOCK_REFUSED, "the fence counter is lowered repeatedly");
        fail_acquire(client, lock, RLOCK_REFUSED);
    } else if (try(client, lock) != RLOCK_OK) {
        fail_acquire(client, lock, RLOCK_NO_MEMORY);
    }
}

static void wait_or_fail(struct rlock_client *client, struct rlock *lock,
                         const struct rlock_result *result)
{
    enum rlock_status status = result->status;

    if (is_unknown(status))
        lock->in_doubt = true;
    /* A try whose outcome is unknown is repeated with the same owner value, so the server
       recognises a grant of the first try. Kind getset has no owner value, and is not repeated. */
    if (status == RLOCK_BUSY || status == RLOCK_DOWN ||
        (is_unknown(status) && lock->kind->can_renew))
        status = rlock_wait_on(client, lock, result);
    if (status != RLOCK_OK)
        fail_acquire(client, lock, status);
}

void rlock_state_on_acquire(struct rlock_client *client, struct rlock *lock,
                            const struct rlock_result *result)
{
    if (result->status != RLOCK_OK)
        wait_or_fail(client, lock, result);
    else if (result->is_stale)
        acquire_again(client, lock);
    else
        grant(client, lock, result);
}

void rlock_state_cancel_acquire(struct rlock_client *client, struct rlock *lock)
{
    /* If a waiter is about to try after a release without a message, the release of a copy of
       its lock sends the message. */
    bool is_trying = rlock_batch_may_grant(lock) &&
                     (rlock_batch_is_sent(lock) || lock->waiter != NULL);
    bool may_exist = is_trying || is_in_server_queue(lock) || lock->in_doubt;

    rlock_wait_end(client, lock, false);
    rlock_batch_leave(lock);
    if (may_exist)
        rlock_orphan_unknown(client, lock);
    rlock_state_answer(client, lock, RLOCK_CANCELLED);
}

/* -- renew -- */

static void lose(struct rlock_client *client, struct rlock *lock)
{
    bool is_extending = lock->state == RLOCK_STATE_EXTENDING;

    rlock_watchdog_remove(lock);
    lock->state = RLOCK_STATE_LOST;
    count_end(client, lock);
    count_failure(client, lock, RLOCK_LOST);
    if (is_extending)
        lock->callback(lock, RLOCK_LOST, lock->arg);
    else if (lock->on_lost != NULL)
        lock->on_lost(lock, RLOCK_LOST, lock->lost_arg);
}

/** After any result but RLOCK_OK and RLOCK_LOST, the lock stays in `overdue` of the watchdog,
 *  which tries again. */
void rlock_state_on_renew(struct rlock_client *client, struct rlock *lock,
                          const struct rlock_result *result)
{
    if (result->status == RLOCK_OK) {
        client->stats.renewed++;
        trace(client, lock, RLOCK_EVENT_RENEWED);
        lock->safe_until_us = safe_until_us(result->sent_us, lock->lease_ms);
        rlock_watchdog_set(client, lock, result->sent_us);
    } else if (result->status == RLOCK_LOST) {
        lose(client, lock);
    }
}

void rlock_state_cancel_renew(struct rlock_client *client UNUSED, struct rlock *lock)
{
    rlock_batch_leave(lock);
    if (lock->state == RLOCK_STATE_HELD)
        lock->state = RLOCK_STATE_IDLE;
}

/* -- extend -- */

void rlock_state_extend(struct rlock_client *client, struct rlock *lock)
{
    rlock_batch_leave(lock); /* this ends a renewal in progress */
    /* After an extension the lock is not passed on to waiters of this client, because an
       extension whose outcome is unknown may have shortened the lease. */
    lock->passes = 0;
    lock->state = RLOCK_STATE_EXTENDING;
    if (client->is_closing) {
        rlock_state_answer(client, lock, RLOCK_CANCELLED);
    } else if (rlock_batch_add(client, &lock->kind->extend, lock) != RLOCK_OK) {
        lock->state = RLOCK_STATE_HELD;     /* no extension was sent */
        rlock_watchdog_hurry(client, lock); /* a renewal may have ended above */
        rlock_state_answer_unchanged(client, lock, RLOCK_NO_MEMORY, NULL, lock->callback,
                                     lock->arg);
    }
}

void rlock_state_end_extension(struct rlock_client *client, struct rlock *lock)
{
    if (lock->state != RLOCK_STATE_EXTENDING)
        return;
    rlock_batch_leave(lock);
    lock->state = RLOCK_STATE_HELD;
    rlock_state_answer_unchanged(client, lock, RLOCK_CANCELLED, NULL, lock->callback,
                                 lock->arg);
}

void rlock_state_on_extend(struct rlock_client *client, struct rlock *lock,
                           const struct rlock_result *result)
{
    int64_t until_us = safe_until_us(result->sent_us, lock->lease_ms);

    if (result->status == RLOCK_LOST) {
        lose(client, lock);
        return;
    }
    if (result->status == RLOCK_OK) {
        lock->safe_until_us = until_us;
        rlock_watchdog_set(client, lock, result->sent_us);
    } else {
        /* the extension may have shortened the lease */
        if (until_us < lock->safe_until_us)
            lock->safe_until_us = until_us;
        rlock_watchdog_hurry(client, lock);
    }
    finish(lock, RLOCK_STATE_HELD, result->status);
}

void rlock_state_cancel_call(struct rlock_client *client, struct rlock *lock)
{
    rlock_batch_leave(lock);
    rlock_state_answer(client, lock, RLOCK_CANCELLED);
}

/* -- release -- */

void rlock_state_release(struct rlock_client *client, struct rlock *lock)
{
    const struct rlock_kind *kind = lock->kind;
    struct rlock *heir;
    bool is_silent;

    rlock_watchdog_remove(lock);
    count_end(client, lock);
    heir = rlock_wait_releasing(client, lock, may_pass_on(lock), &is_silent);
    if (heir != NULL) {
        pass_on(client, lock, heir);
        return;
    }
    lock->state = RLOCK_STATE_RELEASING;
    if (client->is_closing) {
        rlock_orphan_now(client, lock);
        rlock_state_answer(client, lock, RLOCK_CANCELLED);
    } else if (rlock_batch_add(client, is_silent ? &kind->release_silent : &kind->release,
                               lock) != RLOCK_OK) {
        rlock_orphan_unknown(client, lock);
        rlock_state_answer(client, lock, RLOCK_NO_MEMORY);
    }
}

void rlock_state_drop(struct rlock_client *client, struct rlock *lock)
{
    bool is_silent;

    if (lock->state == RLOCK_STATE_HELD) {
        rlock_watchdog_remove(lock);
        (void)rlock_wait_releasing(client, lock, false, &is_silent);
        count_end(client, lock);
        rlock_orphan_now(client, lock);
        if (lock->in_doubt)
            rlock_orphan_later(client, lock);
    }
    if (lock->state == RLOCK_STATE_HELD || lock->state == RLOCK_STATE_LOST)
        lock->state = RLOCK_STATE_IDLE;
}

static void end_release(struct rlock_client *client, struct rlock *lock,
                        const struct rlock_result *result)
{
    bool is_copy = rlock_orphan_owns(lock);

    if (result->status == RLOCK_OK) {
        client->stats.released++;
        trace(client, lock, RLOCK_EVENT_RELEASED);
    } else if (!is_copy) {
        count_failure(client, lock, result->status);
    }
    if (!is_copy && (is_unknown(result->status) || result->status == RLOCK_DOWN ||
                     result->status == RLOCK_NO_MEMORY))
        rlock_orphan_unknown(client, lock);
    else if (!is_copy && lock->in_doubt)
        rlock_orphan_later(client, lock);
    finish(lock, RLOCK_STATE_IDLE, result->status);
}

void rlock_state_on_release(struct rlock_client *client, struct rlock *lock,
                            const struct rlock_result *result)
{
    rlock_wait_released(client, lock, result->receivers);
    end_release(client, lock, result);
}

/** A release that was sent again is executed after the try that should follow it. Then a second
 *  release finds the name free and sends the message, unless another try got the lock meanwhile. */
void rlock_state_on_silent_release(struct rlock_client *client, struct rlock *lock,
                                   const struct rlock_result *result)
{
    if (result->is_resent)
        rlock_orphan_now(client, lock);
    end_release(client, lock, result);
}

void rlock_state_cancel_release(struct rlock_client *client, struct rlock *lock)
{
    if (rlock_orphan_owns(lock))
        return;
    rlock_orphan_take_over(client, lock);
    rlock_state_answer(client, lock, RLOCK_CANCELLED);
}
