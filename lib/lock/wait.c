/*
 * wait.c - waiting by pub/sub, by the owner's lease and by spinning.
 *
 * A waiter has a timer. Unless it spins, it also has a place in the channel of its lock. The first
 * waiter of a channel tries again when a message arrives, and when the owner's lease must have
 * ended. The other waiters of the channel only watch their own deadlines. So one release costs one
 * try per process, whatever the number of waiters.
 *
 * A release by this client wakes the first waiter before the message comes, so that the try leaves
 * in the same write as the release. When the first waiter leaves, the next waiter takes its place.
 * If the first waiter leaves without the lock, the next waiter tries at once, because the last
 * message may have woken only the waiter that left.
 *
 * If the kind has a queue on the server, the message names the owner value of the waiter to wake.
 * Each waiter then tries every RLOCK_FAIR_BEAT_MS, and this try is its heartbeat. If the kind
 * permits several owners, the next waiter also tries when the first one has got the lock.
 *
 * A client must not pass a lock from waiter to waiter for ever while another client waits. So it
 * has turns of TURNS_MAX releases or TURNS_US. In a turn, the releases of kind plain are silent:
 * they send no message while the next waiter of this client tries in the same write. A call of kind
 * plain or cohort then queues behind the waiters without a try.
 *
 * A second release, which finds the name free and sends the message, follows a silent release whose
 * try was cancelled. It also follows a silent release that had to be sent again, because the try
 * came before it. Names with the same hash share the turns, so when the name changes, the release
 * has a message.
 *
 * The reply to a release with a message tells how many clients got the message. If these are other
 * clients, the client yields after its turn: its calls that may wait do not try until another
 * client has had the lock, or until the yield is over. The first yield lasts YIELD_MIN_US. If no
 * other client takes the lock during a yield, the next yield lasts twice as long. A client ignores
 * the messages of its own releases, because it has already woken its waiter.
 *
 * After its turn a client comes after the other clients that got the message. Each message of
 * another client ends a turn, so the client then moves up by one. At such a message it tries at once
 * if no other client comes before it. Otherwise it first waits YIELD_MIN_US for each of them.
 *
 * While the channel is not subscribed, its waiters spin. A message may get lost although the
 * connection stays up. Therefore the client checks every CHECK_MS which names are free, with about
 * one command for a hundred names, and wakes the first waiters of the free names. The check also
 * renews the waiting key (acquire_wait.lua), which expires soon after the last waiter has died or
 * given up. If the kind permits several owners, a name may exist although a permit is left. Then
 * the first waiter tries, and no check is sent.
 *
 * A try fails if the connection is lost, or if the server accepts no calls for a while. Then the
 * waiter tries again when the connection is up, and after pauses.
 */
#include "lock/wait.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/random.h"
#include "lock/batch.h"
#include "lock/channel.h"
#include "lock/keys.h"

#include <stdlib.h>
#include <string.h>

#define SPIN_MAX_MS_DEFAULT 100 /* spin_max_ms of a kind that has no messages */
#define UNSUBSCRIBED_MIN_MS 50  /* shortest pause while no messages arrive */
#define UNSUBSCRIBED_MAX_MS 500
#define CHECK_MS            2000 /* a third of RLOCK_WAITING_MAX_MS */

#define TURNS_MAX    16 /* maximum of releases in a row; in a cohort also of passes */
#define TURNS_US     10000
#define YIELD_MIN_US 2000
#define YIELD_MAX_US 64000

struct rlock_waiter {
    struct rlock_link link;     /* in the list of its channel, or of spare waiters */
    struct rlock_link all_link; /* in rlock_waits.all */
    uv_timer_t timer;
    struct rlock_client *client;
    struct rlock *lock;
    struct rlock_channel *channel; /* NULL: the waiter spins */
    int64_t free_at_us; /* when the owner's lease will have ended; INT64_MAX: not known */
    unsigned attempts;  /* number of pauses in a row, for the back-off */
    bool must_retry;    /* a message arrived while a try was in progress */
    bool is_announced;  /* a try has set the waiting key for the whole wait */
    enum rlock_status status; /* status of the last try */
};

static void wait_on_timer(uv_timer_t *timer);

static int64_t deadline_of(const struct rlock *lock)
{
    if (lock->wait_ms == RLOCK_WAIT_FOREVER)
        return INT64_MAX;
    return lock->began_us + (int64_t)lock->wait_ms * 1000;
}

static bool is_first(const struct rlock_waiter *waiter)
{
    return waiter->channel->listeners.next == &waiter->link;
}

static bool spins(const struct rlock_waiter *waiter)
{
    return waiter->channel == NULL;
}

static bool is_up(const struct rlock_waiter *waiter)
{
    return redis_conn_is_up(rlock_server_of(waiter->client, waiter->lock)->conn);
}

static struct rlock_turns *turns_of(struct rlock_client *client, const struct rlock *lock)
{
    return &client->waits
                .turns[rlock_keys_hash(lock->name, lock->name_len) % RLOCK_TURNS];
}

/** Return the time until which the waiter may not try, because it is the turn of another client.
 *  0: it may try. */
static int64_t yields_until_us(const struct rlock_waiter *waiter)
{
    if (spins(waiter) || waiter->lock->kind->is_queued)
        return 0;
    return turns_of(waiter->client, waiter->lock)->yield_until_us;
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static int64_t next_pause_us(struct rlock_waiter *waiter)
{
    const struct rlock *lock = waiter->lock;
    uint32_t min_ms = spins(waiter) ? lock->spin_min_ms : UNSUBSCRIBED_MIN_MS;
    uint32_t max_ms = UNSUBSCRIBED_MAX_MS;

    if (spins(waiter))
        max_ms = lock->spin_max_ms == 0 ? SPIN_MAX_MS_DEFAULT : lock->spin_max_ms;
    return INT64_C(1000) * backoff_ms(waiter->attempts++, min_ms, max_ms, random_u64());
}

/** Sleep until the next try or the deadline. */
static void sleep_on(struct rlock_waiter *waiter)
{
    int64_t now_us = clock_mono_us();
    int64_t at_us = deadline_of(waiter->lock);
    bool is_queued = waiter->lock->kind->is_queued;

    if (spins(waiter) || (waiter->status != RLOCK_BUSY && is_up(waiter)) ||
        (!waiter->channel->is_subscribed && (is_queued || is_first(waiter))))
        at_us = sooner(at_us, now_us + next_pause_us(waiter));
    if (!spins(waiter) && (is_queued || is_first(waiter)))
        at_us = sooner(at_us, waiter->free_at_us);
    if (is_queued)
        at_us = sooner(at_us, now_us + (int64_t)RLOCK_FAIR_BEAT_MS * 1000);
    if (yields_until_us(waiter) > now_us && is_first(waiter))
        at_us = sooner(at_us, yields_until_us(waiter));
    /* The clock of the loop shows the start of this turn. Without an update the timer would end
       too early. */
    uv_update_time(waiter->client->loop);
    uv_timer_start(&waiter->timer, wait_on_timer, clock_ms_until(at_us), 0);
}

static void try_again(struct rlock_waiter *waiter)
{
    struct rlock *lock = waiter->lock;
    bool is_whole = lock->in_doubt || !waiter->is_announced ||
                    lock->kind->acquire_again.on_result == NULL;

    rlock_batch_leave(lock); /* a check */
    uv_timer_stop(&waiter->timer);
    waiter->must_retry = false;
    if (lock->kind->is_cohort && !spins(waiter))
        lock->passes = waiter->link.next == waiter->link.prev ? 0 : TURNS_MAX;
    if (rlock_batch_add(waiter->client,
                        is_whole ? &lock->kind->acquire_wait : &lock->kind->acquire_again,
                        lock) != RLOCK_OK)
        uv_timer_start(&waiter->timer, wait_on_timer, UNSUBSCRIBED_MAX_MS, 0);
}

/** Try to acquire the lock, because it may be free. If a try is in progress, try once more after
 *  it. */
static void wake(struct rlock_waiter *waiter)
{
    if (rlock_batch_may_grant(waiter->lock))
        waiter->must_retry = true;
    else if (clock_mono_us() < yields_until_us(waiter))
        sleep_on(waiter);
    else
        try_again(waiter);
}

static struct rlock_waiter *first_waiter(const struct rlock_channel *channel)
{
    return list_item(channel->listeners.next, struct rlock_waiter, link);
}

/** Return why the waiter does not have the lock. The first waiter tries for those behind it, so if
 *  its try has failed, the lock may be free. */
static enum rlock_status why_not(const struct rlock_waiter *waiter)
{
    if (spins(waiter) || waiter->status != RLOCK_BUSY)
        return waiter->status;
    return first_waiter(waiter->channel)->status;
}

static void wait_on_timer(uv_timer_t *timer)
{
    struct rlock_waiter *waiter = timer->data;
    struct rlock_result result = {.status = why_not(waiter)};
    struct rlock *lock = waiter->lock;

    if (clock_mono_us() >= deadline_of(lock))
        lock->kind->acquire_wait.on_result(waiter->client, lock, &result);
    else
        try_again(waiter);
}

/* -- checks -- */

void rlock_wait_on_check(struct rlock_client *client UNUSED, struct rlock *lock,
                         const struct rlock_result *result)
{
    if (result->status != RLOCK_BUSY)
        wake(lock->waiter); /* if the check has failed, the try finds out why */
}

/** Check whether the name is still taken, because the message of a release may have been lost. If
 *  the kind has no check, try to acquire the lock. */
static void check(struct rlock_waiter *waiter)
{
    struct rlock *lock = waiter->lock;

    if (lock->batch != NULL || waiter->status != RLOCK_BUSY || !is_first(waiter))
        return;
    if (lock->kind->check.on_result == NULL ||
        rlock_batch_add(waiter->client, &lock->kind->check, lock) != RLOCK_OK)
        wake(waiter);
}

static void wait_on_checks(uv_timer_t *timer)
{
    struct rlock_client *client = timer->data;
    bool is_needed = false;

    LIST_EACH(struct rlock_waiter, waiter, &client->waits.all, all_link) {
        if (waiter->lock == NULL || spins(waiter) || waiter->lock->kind->is_queued)
            continue;
        is_needed = true;
        if (is_up(waiter))
            check(waiter);
    }
    if (!is_needed)
        uv_timer_stop(timer);
}

/* -- begin and end -- */

static struct rlock_waiter *create(struct rlock_client *client)
{
    struct rlock_waiter *waiter =
        LIST_SHIFT(struct rlock_waiter, &client->waits.spare, link);

    if (waiter != NULL)
        return waiter;
    waiter = calloc(1, sizeof(*waiter));
    if (waiter == NULL)
        return NULL;
    list_append(&client->waits.all, &waiter->all_link);
    uv_timer_init(client->loop, &waiter->timer);
    waiter->timer.data = waiter;
    waiter->client = client;
    return waiter;
}

/** Begin to wait, because the first try of `lock` has failed. Returns NULL if memory is out. */
static struct rlock_waiter *begin(struct rlock_client *client, struct rlock *lock)
{
    struct rlock_waiter *waiter = create(client);

    if (waiter == NULL)
        return NULL;
    waiter->lock = lock;
    waiter->channel = NULL;
    waiter->attempts = 0;
    waiter->is_announced = false;
    if (lock->kind->channel != NULL && lock->spin_max_ms == 0 &&
        (waiter->channel = rlock_channel_join(client, lock, &waiter->link)) == NULL) {
        waiter->lock = NULL;
        list_append(&client->waits.spare, &waiter->link);
        return NULL;
    }
    /* The first waiter of a channel handles the messages for all waiters, so a later waiter
       misses none. But in a queued kind, the message for this waiter may have been published
       before it joined the channel. */
    waiter->must_retry =
        !spins(waiter) && waiter->channel->is_subscribed && lock->kind->is_queued;
    lock->waiter = waiter;
    client->stats.waiters++;
    if (!uv_is_active((uv_handle_t *)&client->waits.checks))
        uv_timer_start(&client->waits.checks, wait_on_checks, CHECK_MS, CHECK_MS);
    return waiter;
}

/** Whether `lock` and the calls that already wait for its name are of kinds that do not go
 *  together: the server keeps a queue for one kind (is_queued) and not for the other. Then the
 *  release of one would not wake the waiters of the other. */
static bool is_mixed(struct rlock_client *client, const struct rlock *lock)
{
    const struct rlock_channel *channel = NULL;

    if (lock->kind->channel != NULL && lock->spin_max_ms == 0)
        channel = rlock_channel_find(client, lock);
    return channel != NULL &&
           first_waiter(channel)->lock->kind->is_queued != lock->kind->is_queued;
}

enum rlock_status rlock_wait_on(struct rlock_client *client, struct rlock *lock,
                                const struct rlock_result *result)
{
    struct rlock_waiter *waiter = lock->waiter;
    int64_t now_us = clock_mono_us();

    if (now_us >= deadline_of(lock))
        return result->status;
    if (waiter == NULL && is_mixed(client, lock)) {
        lock->reason = "kind: calls of another kind wait for this name";
        return err_set(&client->why, RLOCK_INVALID, "%s", lock->reason);
    }
    if (waiter == NULL)
        waiter = begin(client, lock);
    if (waiter == NULL)
        return RLOCK_NO_MEMORY;
    waiter->status = result->status;
    if (result->status == RLOCK_BUSY && result->sent_us > 0)
        waiter->is_announced = true;
    waiter->free_at_us = result->status != RLOCK_BUSY || result->remaining_ms < 0
                             ? INT64_MAX
                             : now_us + (result->remaining_ms + 1) * 1000;
    if (waiter->must_retry && is_up(waiter)) {
        wake(waiter);
        return RLOCK_OK;
    }
    if (waiter->channel != NULL && waiter->channel->unreplied > 0)
        waiter->channel->was_overtaken = true;
    sleep_on(waiter);
    return RLOCK_OK;
}

void rlock_waits_resume(struct rlock_client *client)
{
    LIST_EACH(struct rlock_waiter, waiter, &client->waits.all, all_link) {
        if (waiter->lock != NULL && waiter->status != RLOCK_BUSY)
            wake(waiter);
    }
}

/** Note that `next` is now the first waiter, because the waiter before it has left. `is_granted`
 *  says whether the waiter that left got the lock. Then the lock is taken again. */
static void advance_to(struct rlock_waiter *next, const struct rlock *lock,
                       bool is_granted)
{
    if (!is_granted) {
        wake(next);
        return;
    }
    next->free_at_us = clock_mono_us() + ((int64_t)lock->lease_ms + 1) * 1000;
    if (!rlock_batch_may_grant(next->lock))
        sleep_on(next);
}

static void leave(struct rlock_waiter *waiter, const struct rlock *lock, bool is_granted)
{
    struct rlock_channel *channel = waiter->channel;
    bool was_first = is_first(waiter);
    struct rlock_waiter *next;

    list_remove(&waiter->link);
    if (list_is_empty(&channel->listeners)) {
        rlock_channel_update(channel);
        return;
    }
    if (!was_first || lock->kind->is_queued || waiter->client->is_closing)
        return;
    next = first_waiter(channel);
    if (!is_granted && !next->is_announced)
        next->status = waiter->status; /* the next waiter has no status of its own */
    advance_to(next, lock, is_granted && !lock->kind->is_shared);
}

void rlock_wait_end(struct rlock_client *client, struct rlock *lock, bool is_granted)
{
    struct rlock_waiter *waiter = lock->waiter;

    if (waiter == NULL)
        return;
    rlock_batch_leave(lock); /* a check */
    lock->waiter = NULL;
    waiter->lock = NULL;
    client->stats.waiters--;
    uv_timer_stop(&waiter->timer);
    if (!spins(waiter))
        leave(waiter, lock, is_granted);
    list_append(&client->waits.spare, &waiter->link);
}

void rlock_wait_granted(struct rlock_client *client, const struct rlock *lock)
{
    const struct rlock_channel *channel = NULL;

    if (lock->kind->is_reentrant)
        channel = rlock_channel_find(client, lock);
    if (channel == NULL)
        return;
    LIST_EACH(struct rlock_waiter, waiter, &channel->listeners, link) {
        if (waiter->lock->holder == lock->holder)
            wake(waiter);
    }
}

/* -- turns with other clients -- */

static bool takes_turns(const struct rlock *lock)
{
    return lock->kind->channel != NULL && !lock->kind->is_queued;
}

/** Whether calls queue behind the waiters of their client without a try. */
static bool queues(const struct rlock *lock)
{
    return lock->kind->acquire_again.on_result != NULL;
}

bool rlock_wait_must_yield(struct rlock_client *client, const struct rlock *lock)
{
    if ((client->channels.count == 0 && !client->waits.has_turns) || !takes_turns(lock) ||
        lock->wait_ms == 0 || lock->spin_max_ms > 0)
        return false;
    return (queues(lock) && rlock_channel_find(client, lock) != NULL) ||
           clock_mono_us() < turns_of(client, lock)->yield_until_us;
}

static void begin_yield(struct rlock_turns *turns, int64_t now_us)
{
    if (turns->yield_us == 0)
        turns->yield_us = YIELD_MIN_US;
    else if (!turns->was_taken && turns->yield_us < YIELD_MAX_US)
        turns->yield_us *= 2;
    turns->yield_until_us = now_us + turns->yield_us;
    turns->was_taken = false;
}

/** Count the release of `lock`. Returns whether the release needs a message, because it ends the
 *  turn of this client, or because the release before it was of another name with this hash. */
static bool count_turns(struct rlock_turns *turns, const struct rlock *lock)
{
    uint32_t name_hash = rlock_keys_hash(lock->name, lock->name_len);
    bool is_other = name_hash != turns->name_hash;
    int64_t now_us = clock_mono_us();

    turns->name_hash = name_hash;
    if (turns->count == 0)
        turns->since_us = lock->began_us;
    turns->count += lock->kind->is_cohort ? TURNS_MAX + 1 : 1;
    if (turns->count <= TURNS_MAX && now_us - turns->since_us < TURNS_US)
        return is_other;
    turns->count = 0;
    if (turns->is_contended)
        begin_yield(turns, now_us);
    return true;
}

static bool may_inherit(const struct rlock *heir, const struct rlock *lock)
{
    return !rlock_batch_may_grant(heir) && !heir->in_doubt && heir->kind == lock->kind &&
           heir->lease_ms == lock->lease_ms && heir->replicas == lock->replicas;
}

/** Wake the first waiter. Returns whether it will try, and has not begun to do so earlier. */
static bool starts_to_try(struct rlock_waiter *first)
{
    bool was_trying = rlock_batch_may_grant(first->lock);

    wake(first);
    return !was_trying && rlock_batch_may_grant(first->lock);
}

struct rlock *rlock_wait_releasing(struct rlock_client *client, struct rlock *lock,
                                   bool may_pass_on, bool *ret_is_silent)
{
    struct rlock_channel *channel;
    bool goes_on;

    *ret_is_silent = false;
    if (lock->kind->channel == NULL || client->is_closing ||
        (client->channels.count == 0 && !client->waits.has_turns))
        return NULL;
    channel = rlock_channel_find(client, lock);
    if (channel != NULL && may_pass_on &&
        may_inherit(first_waiter(channel)->lock, lock)) {
        struct rlock *heir = first_waiter(channel)->lock;

        rlock_wait_end(client, heir, true);
        return heir;
    }
    goes_on = takes_turns(lock) && !count_turns(turns_of(client, lock), lock);
    if (channel == NULL)
        return NULL;
    *ret_is_silent = starts_to_try(first_waiter(channel)) && goes_on &&
                     lock->kind->release_silent.on_result != NULL;
    lock->is_counted = takes_turns(lock) && channel->is_subscribed && !*ret_is_silent;
    channel->unreplied += lock->is_counted;
    return NULL;
}

/** Count the reply to a release by this client. `has_message` says whether the release has sent a
 *  message, which this client then also gets. */
static void count_release(struct rlock_channel *channel, bool has_message)
{
    /* the counts were reset, because the channel was cut off or subscribed again */
    if (channel->unreplied == 0)
        return;
    channel->unreplied--;
    if (has_message && channel->early_messages > 0)
        channel->early_messages--;
    else if (has_message)
        channel->expected_messages++;
    if (channel->unreplied > 0)
        return;
    /* One of the messages may have come from another client and was ignored. Or a try was
       executed before a release that had to be sent again after NOSCRIPT. In both cases the lock
       may be free. */
    if (channel->early_messages > 0 || channel->was_overtaken)
        wake(first_waiter(channel));
    channel->early_messages = 0;
    channel->was_overtaken = false;
}

/** Count a message. Returns whether a release by this client has sent it, or may have sent it. */
static bool count_message(struct rlock_channel *channel)
{
    if (channel->expected_messages > 0) {
        channel->expected_messages--;
        return true;
    }
    if (channel->unreplied > channel->early_messages) {
        channel->early_messages++;
        return true;
    }
    return false;
}

static void forget_counts(struct rlock_channel *channel)
{
    channel->unreplied = channel->expected_messages = channel->early_messages = 0;
    channel->was_overtaken = false;
}

void rlock_wait_released(struct rlock_client *client, struct rlock *lock,
                         unsigned receivers)
{
    struct rlock_channel *channel;
    struct rlock_turns *turns;

    if (!takes_turns(lock) || client->is_closing ||
        (receivers == 0 && !lock->is_counted && !client->waits.has_turns))
        return;
    channel = rlock_channel_find(client, lock);
    if (channel != NULL && lock->is_counted)
        count_release(channel, receivers > 0);
    lock->is_counted = false;
    if (channel != NULL && channel->is_subscribed && receivers-- == 0)
        return; /* there was no message: another client may wait or not */
    turns = turns_of(client, lock);
    turns->is_contended = receivers > 0;
    if (turns->count == 0)
        turns->ahead = receivers;
    if (turns->is_contended)
        client->waits.has_turns = true;
    else
        turns->yield_us = turns->yield_until_us = 0;
}

static void wait_on_subscribed(struct rlock_channel *channel)
{
    forget_counts(channel);
    LIST_EACH(struct rlock_waiter, waiter, &channel->listeners, link) {
        waiter->attempts = 0;
        if (waiter->lock->kind->is_queued || is_first(waiter))
            wake(waiter);
    }
}

static void wait_on_cut_off(struct rlock_channel *channel)
{
    forget_counts(channel);
    LIST_EACH(struct rlock_waiter, waiter, &channel->listeners, link) {
        waiter->is_announced = false; /* the server may lose the waiting key */
        if (!rlock_batch_may_grant(waiter->lock))
            sleep_on(waiter);
    }
}

static bool is_owner(const struct rlock_waiter *waiter, const char *text, size_t text_len)
{
    char owner[RLOCK_OWNER_MAX];
    size_t owner_len = rlock_keys_owner(waiter->client, waiter->lock->serial, owner);

    return text_len == owner_len && memcmp(text, owner, owner_len) == 0;
}

/** Handle a message of a kind without a queue. If another client has released the lock, it has had
 *  its turn, so this client yields to one client fewer. */
static void wait_on_release(struct rlock_channel *channel)
{
    struct rlock_waiter *first = first_waiter(channel);
    struct rlock_turns *turns = turns_of(first->client, first->lock);

    if (count_message(channel))
        return;
    turns->was_taken = true;
    if (turns->ahead > 0)
        turns->ahead--;
    turns->yield_until_us = clock_mono_us() + (int64_t)turns->ahead * YIELD_MIN_US;
    wake(first);
}

/** Handle a message. For a queued kind of lock, the text of the message is the owner value of the
 *  waiter to wake. An empty text wakes all waiters whose kind permits several owners. */
static void wait_on_message(struct rlock_channel *channel, const char *text,
                            size_t text_len)
{
    if (list_is_empty(&channel->listeners))
        return;
    if (!first_waiter(channel)->lock->kind->is_queued) {
        wait_on_release(channel);
        return;
    }
    LIST_EACH(struct rlock_waiter, waiter, &channel->listeners, link) {
        bool is_for_all = text_len == 0 && waiter->lock->kind->is_shared;

        if (!is_for_all && !is_owner(waiter, text, text_len))
            continue;
        wake(waiter);
        if (!is_for_all)
            return;
    }
}

void rlock_waits_init(struct rlock_client *client)
{
    static const struct rlock_channel_events events = {
        .on_subscribed = wait_on_subscribed,
        .on_cut_off = wait_on_cut_off,
        .on_message = wait_on_message,
    };

    list_init(&client->waits.all);
    list_init(&client->waits.spare);
    uv_timer_init(client->loop, &client->waits.checks);
    client->waits.checks.data = client;
    rlock_channels_init(&client->channels, &events);
}

void rlock_waits_close(struct rlock_client *client)
{
    LIST_EACH(struct rlock_waiter, waiter, &client->waits.all, all_link) {
        struct rlock *lock = waiter->lock;

        if (lock != NULL)
            lock->kind->acquire_wait.on_cancel(client, lock);
        closing_handle(&client->closing, (uv_handle_t *)&waiter->timer);
    }
    closing_handle(&client->closing, (uv_handle_t *)&client->waits.checks);
    rlock_channels_close(client);
}

void rlock_waits_clear(struct rlock_client *client)
{
    LIST_DRAIN(struct rlock_waiter, waiter, &client->waits.all, all_link)
        free(waiter);
    rlock_channels_clear(&client->channels);
}
