/*
 * internal.h - the data of a client and of its locks; for lib/lock only.
 *
 * Each file declares its functions in its own header, and lib/README.md says which file may
 * call which. A struct below belongs to the file named in the heading of its section; other
 * files do not change its fields.
 */
#ifndef LOCK_INTERNAL_H
#define LOCK_INTERNAL_H

#include "base/closing.h"
#include "base/process.h"
#include "lock/rlock.h"
#include "lock/scripts.h"
#include "redis/script.h"
#include "redis/url.h"

#define RLOCK_CLIENT_ID_LEN   36 /* a UUID */
#define RLOCK_CHANNEL_MAX     (RLOCK_NAME_MAX + 36)
#define RLOCK_CHANNEL_BUCKETS 256
#define RLOCK_BUCKETS         16 /* buckets of names in a cluster: see keys.h */

/* -- the state of a lock: state.c -- */

/** The states of a lock. lib/README.md has the transitions. */
enum rlock_state {
    RLOCK_STATE_IDLE = 0,
    RLOCK_STATE_ACQUIRING,
    /* passed on by an owner of the same client; the callback is due */
    RLOCK_STATE_PASSED,
    RLOCK_STATE_HELD,
    RLOCK_STATE_EXTENDING, /* the lock is still held */
    RLOCK_STATE_RELEASING,
    RLOCK_STATE_LOST,      /* lost; the next extension or release reports it */
    RLOCK_STATE_ANSWERING, /* the status is known; the loop calls the callback soon */
};

/* -- the kinds: kinds.c -- */

struct rlock_result {
    enum rlock_status status; /* RLOCK_TIMEOUT, RLOCK_IO: the outcome is not known */
    bool is_stale;            /* the grant has a smaller fence than an earlier grant */
    bool is_resent;           /* the script was sent again, behind later operations */
    int64_t sent_us;          /* 0: the call has queued, and nothing was sent */
    int64_t fence;
    int64_t granted_us;   /* when the client got the reply with the grant */
    int64_t remaining_ms; /* rest of the owner's lease; < 0: not known */
    unsigned receivers;   /* clients that got the message of a release */
    /* the whole reply to a query, if `status` is RLOCK_OK */
    const struct redis_reply *reply;
};

/** Batches are sent in the order of these classes, so releases free names before acquires ask for
 *  them. */
enum rlock_class_id {
    RLOCK_CLASS_RELEASE,
    RLOCK_CLASS_RENEW,
    RLOCK_CLASS_ACQUIRE,
    RLOCK_CLASSES
};

/** Receives the result of an operation. The lock has left its batch. */
typedef void rlock_on_result(struct rlock_client *client, struct rlock *lock,
                             const struct rlock_result *result);
/** Cancels an operation, because the client is being closed. The function must not call a
 *  callback of the user, or add a lock to a batch. It may replace a lock in its batch. */
typedef void rlock_on_cancel(struct rlock_client *client, struct rlock *lock);

/** The keys and arguments that rlock_keys_write() can write for a lock. */
enum rlock_word {
    RLOCK_WORD_END,
    RLOCK_KEY_FENCES,
    RLOCK_KEY_WAITING, /* a key that exists while there are waiters */
    RLOCK_KEY_NAME,
    RLOCK_KEY_QUEUE,
    RLOCK_KEY_BEATS, /* the heartbeats of the waiters */
    RLOCK_KEY_READERS,
    RLOCK_ARG_TAG,
    RLOCK_ARG_OWNER,
    RLOCK_ARG_HOLDER,
    RLOCK_ARG_SERIAL,
    RLOCK_ARG_LEASE_MS,
    RLOCK_ARG_WAIT_MS, /* how long the lock still waits */
    RLOCK_ARG_PERMITS,
    RLOCK_ARG_HOLD_MS, /* the ms that are left of hold_min_ms, plus 1; 0: none */
    RLOCK_ARG_PASSES,
    RLOCK_ARG_NOW_MS, /* this machine's clock; sets the serial to the end of the lease */
};

/* clang-format off */
#define RLOCK_WORDS(...) {__VA_ARGS__, RLOCK_WORD_END}
/* clang-format on */

struct rlock_op {
    enum rlock_script script;
    enum rlock_class_id class_id;
    enum rlock_status denied; /* what the result '0' of the script means */
    /* The operation acquires. All locks of a batch have the same lease. The lease and the latest
       time of execution are written before the arguments of the locks, and the reply has fences. */
    bool is_grant;
    /* Each of these lists ends with RLOCK_WORD_END. */
    const enum rlock_word *shared_keys; /* written once, before the keys of the locks */
    const enum rlock_word *keys, *args; /* written once for each lock */
    rlock_on_result *on_result;
    rlock_on_cancel *on_cancel;
    bool is_query; /* a batch has one lock, whose result is the whole reply */
};

struct rlock_kind {
    struct rlock_op acquire, acquire_wait, renew, extend, release;
    /* Operations for waiters, which a kind may lack. `acquire_again` is the try of a waiter that
       surely does not have the lock yet, and whose waiting key is set. Without this operation the
       waiter uses acquire_wait. `check` tells whether the name is free; without it the waiter tries
       instead. */
    struct rlock_op acquire_again, check;
    /* Only kind plain has these operations. `keep` releases before hold_min_ms has passed.
       `release_silent` sends no message, because a try of this client follows it. */
    struct rlock_op keep, release_silent;
    /* Writes the name of the channel on which releases are published. NULL: the kind has no
       channel. */
    size_t (*channel)(const struct rlock *lock, char ret_name[RLOCK_CHANNEL_MAX]);
    bool can_renew; /* the lease can be renewed and extended */
    bool is_reentrant;
    bool is_cohort; /* passes a lock among the waiters of a client */
    bool is_queued; /* the server keeps a queue of the waiters and wakes one of them */
    /* Several owners may hold the lock. If the kind is queued, an empty message wakes all
       waiters. */
    bool is_shared;
    bool has_permits;
};

/* -- servers: server.c -- */

/** The server of one bucket of names, see keys.h. Without a cluster there is one bucket. */
struct rlock_server {
    struct rlock_client *client;
    struct redis_conn *conn;
    struct redis_conn *channels; /* for subscriptions; NULL before the first one */
    struct redis_script_call raise;
    int64_t raise_sent_us;
    bool is_raising;
    int64_t last_fence; /* the greatest fence that this client knows of */
    int64_t ahead_us;   /* upper bound of the server's clock minus clock_mono_us() */
    char *waiting_key;  /* exists while a lock of kind plain has waiters */
    size_t tag_len;
    size_t fence_key_len; /* length of the fence key, with which waiting_key begins */
};

/* -- batches: batch.c -- */

struct rlock_batches {
    struct rlock_link classes[RLOCK_CLASSES]; /* lists of unsent struct rlock_batch */
    struct rlock_link sent;                   /* batches whose locks have no result yet */
    struct rlock_link failed; /* unsent batches for rlock_batch_complete_failed() */
    struct rlock_link spare;
    struct redis_command wait_command;
    void (*on_all_completed)(struct rlock_client *client);
};

/* -- releases without a caller: orphan.c -- */

struct rlock_orphans {
    struct rlock_link spare;  /* unused memory for copies of locks */
    struct rlock_link due;    /* copies of locks to release when the connection is up */
    struct rlock_link second; /* copies of locks to release again, by renew_at_us */
    unsigned due_count;
    uv_timer_t timer;
    int64_t timer_at_us; /* INT64_MAX: the timer is not running */
};

/* -- channels: channel.c -- */

struct rlock_channel;

struct rlock_channel_events {
    void (*on_subscribed)(struct rlock_channel *channel);
    /* after this, no messages arrive until on_subscribed is called again */
    void (*on_cut_off)(struct rlock_channel *channel);
    void (*on_message)(struct rlock_channel *channel, const char *text, size_t text_len);
};

struct rlock_channels {
    const struct rlock_channel_events *events;
    struct rlock_link buckets[RLOCK_CHANNEL_BUCKETS];
    unsigned count;
};

/* -- waiters: wait.c -- */

/** How this client takes turns with other clients, at all names with the same hash. */
struct rlock_turns {
    unsigned count;     /* releases since the last yield */
    unsigned ahead;     /* other clients that have a turn before this client */
    uint32_t name_hash; /* hash of the name that was released last */
    int64_t since_us;
    int64_t yield_us; /* longest duration of the next yield */
    int64_t yield_until_us;
    bool is_contended; /* another client waits */
    bool was_taken;    /* another client has had the lock since the last yield */
};

#define RLOCK_TURNS 64

struct rlock_waits {
    struct rlock_link all;   /* struct rlock_waiter, in use or not */
    struct rlock_link spare; /* struct rlock_waiter, not in use */
    uv_timer_t checks;       /* runs while a waiter has a channel */
    struct rlock_turns turns[RLOCK_TURNS];
    bool has_turns; /* a name was contended at some time */
};

/* -- renewals: watchdog.c -- */

#define RLOCK_WATCHDOG_BUCKETS 256 /* leases of n ms and 2 n ms are eight buckets apart */

struct rlock_watchdog {
    /* lists of locks; the locks in a bucket have about the same lease */
    struct rlock_link buckets[RLOCK_WATCHDOG_BUCKETS];
    struct rlock_link overdue; /* locks whose renewal is in progress or has failed */
    uv_timer_t timer;
    int64_t timer_at_us; /* INT64_MAX: the timer is not running */
};

/* -- a client: client.c -- */

struct rlock_client {
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    struct rlock_server servers[RLOCK_BUCKETS];
    unsigned server_count;
    struct rlock_batches batches;
    struct rlock_orphans orphans;
    struct rlock_channels channels;
    struct rlock_waits waits;
    struct rlock_watchdog watchdog;
    struct rlock_link answers; /* locks in RLOCK_STATE_ANSWERING */
    uv_idle_t soon;            /* runs while there is something to answer or to send */
    uv_idle_cb on_soon;
    uint64_t last_serial;
    struct rlock_stats stats;
    struct rlock_err why;
    char id[RLOCK_CLIENT_ID_LEN + 1];
    unsigned process; /* the process that opened the client */
    uv_loop_t *loop;
    struct redis_url url;
    uint32_t timeout_ms;
    void (*on_state)(bool is_up, const struct rlock_err *why, void *arg);
    void (*on_event)(const char *name, size_t name_len, enum rlock_event event,
                     int64_t us, void *arg);
    void *arg;
    /* `is_up` is the last report of on_state. `was_up` is true if the client was ever up. */
    bool was_up, is_up;
    bool is_closing;
    /* rlock_client_close() has answered all calls; no batch starts any more */
    bool may_finish;
    bool is_finishing;
    struct closing closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

/** Whether this process is a child after fork(), so the client belongs to the parent. */
static inline bool rlock_client_is_inherited(struct rlock_client *client)
{
    if (client->process == process_generation())
        return false;
    err_set(&client->why, RLOCK_INVALID, "inherited by fork(); open a client here");
    return true;
}

static inline struct rlock_server *rlock_server_of(struct rlock_client *client,
                                                   const struct rlock *lock)
{
    return &client->servers[lock->bucket];
}

/** Return the message for a call that has just ended with `status`. */
static inline const char *rlock_client_words(const struct rlock_client *client,
                                             enum rlock_status status)
{
    bool is_known = status == RLOCK_DOWN || status == client->why.status;

    return is_known ? client->why.text : rlock_status_name(status);
}

/** In its next turn the loop will call the callbacks that are due, and send the batches and the
 *  commands of channels. Does nothing while the client is finishing. */
static inline void rlock_client_wake(struct rlock_client *client)
{
    if (!client->is_finishing)
        uv_idle_start(&client->soon, client->on_soon);
}

#endif
