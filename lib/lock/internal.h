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

#define RLOCK_CLIENT_ID_LEN   36                    /* a UUID */
#define RLOCK_CHANNEL_MAX     (RLOCK_NAME_MAX + 36) /* bytes of a channel's name */
#define RLOCK_CHANNEL_BUCKETS 256
#define RLOCK_BUCKETS         16 /* of names in a cluster: see keys.h */

/* -- the state of a lock: state.c -- */

/** What `state` of struct rlock holds. lib/README.md has the transitions. */
enum rlock_state {
    RLOCK_IDLE = 0,
    RLOCK_ACQUIRING,
    RLOCK_PASSED, /* granted by another owner; the loop calls the callback soon */
    RLOCK_HELD,
    RLOCK_EXTENDING, /* held, too */
    RLOCK_RELEASING,
    RLOCK_LOST,      /* until its owner learns of it from a release */
    RLOCK_ANSWERING, /* the status is known; the loop calls the callback soon */
};

/* -- the kinds: kinds.c -- */

/** How an operation on one lock ended. */
struct rlock_result {
    enum status status;   /* STATUS_TIMEOUT, STATUS_IO: unknown */
    bool is_stale;        /* a grant whose fence is smaller than an earlier one */
    int64_t sent_us;      /* clock_mono_us() when it was first sent */
    int64_t fence;        /* of a grant */
    int64_t granted_us;   /* when the client got the reply to its batch */
    int64_t remaining_ms; /* STATUS_BUSY: of the owner's lease; below 0: not known */
    unsigned receivers;   /* clients that got the message of a release */
    const struct redis_reply *reply; /* of a query that is STATUS_OK */
};

/** Batches are sent in this order: releases free names that acquires ask for. */
enum rlock_class_id {
    RLOCK_CLASS_RELEASE,
    RLOCK_CLASS_RENEW,
    RLOCK_CLASS_ACQUIRE,
    RLOCK_CLASSES
};

/** The lock has left its batch. */
typedef void rlock_on_result(struct rlock_client *client, struct rlock *lock,
                             const struct rlock_result *result);
/** The client is being closed. The function calls no callback of a user and adds nothing to
 *  a batch; it may replace locks in batches. */
typedef void rlock_on_cancel(struct rlock_client *client, struct rlock *lock);

/** What rlock_keys_write() writes of a lock, or of its server. */
enum rlock_word {
    RLOCK_WORD_END,
    RLOCK_KEY_FENCES,  /* the fence counter */
    RLOCK_KEY_WAITING, /* exists while there are waiters */
    RLOCK_KEY_NAME,
    RLOCK_KEY_QUEUE,
    RLOCK_KEY_BEATS,   /* the heartbeats of the waiters */
    RLOCK_KEY_READERS, /* the readers that wait */
    RLOCK_ARG_TAG,     /* of the bucket */
    RLOCK_ARG_OWNER,
    RLOCK_ARG_HOLDER,
    RLOCK_ARG_SERIAL,
    RLOCK_ARG_LEASE_MS,
    RLOCK_ARG_WAIT_MS, /* how long the lock still waits */
    RLOCK_ARG_PERMITS,
    RLOCK_ARG_HOLD_MS, /* how long to hold the lock, at least 1 */
    RLOCK_ARG_PASSES,  /* how often the lock may be passed on */
    RLOCK_ARG_NOW_MS,  /* by this machine's clock; the serial is set from it */
};

/* clang-format off */
#define RLOCK_WORDS(...) {__VA_ARGS__, RLOCK_WORD_END}
/* clang-format on */

/** An operation of a kind: its script, keys and arguments, and the receiver of its result. */
struct rlock_op {
    enum rlock_script script;
    enum rlock_class_id class_id;
    enum status denied; /* what the result '0' of the script means */
    bool is_grant;      /* the lease and the latest time of execution precede the
                           arguments; batches are per lease; the reply has fences */
    /* These end with RLOCK_WORD_END. */
    const enum rlock_word *shared_keys; /* once, before those of the locks */
    const enum rlock_word *keys, *args; /* of each lock */
    rlock_on_result *on_result;
    rlock_on_cancel *on_cancel;
    bool is_query; /* a batch has one lock, and its result is the whole reply */
};

struct rlock_kind {
    struct rlock_op acquire, acquire_wait, renew, extend, release;
    /* For waiters; unset: acquire_wait in place of each. The first tries, if the lock cannot
       be the caller's already; the second tells whether the name is free. */
    struct rlock_op acquire_again, check;
    struct rlock_op keep; /* a release before hold_min_ms; of plain only */
    /* Write the name of the channel on which releases are published; NULL: there is
       none. */
    size_t (*channel)(const struct rlock *lock, char ret_name[RLOCK_CHANNEL_MAX]);
    bool can_renew;    /* and extend */
    bool is_reentrant; /* a holder may have it several times */
    bool is_cohort;    /* passes a lock among the waiters of a client */
    bool is_queued;    /* the server keeps a queue of the waiters and wakes one of them */
    bool
        is_shared; /* several may hold it; if queued, an empty message wakes all waiters */
    bool has_permits;
};

/* -- servers: server.c -- */

/** The server of one bucket of names, see keys.h; without a cluster there is one. */
struct rlock_server {
    struct rlock_client *client;
    struct redis_conn *conn;
    struct redis_conn *channels; /* for subscriptions; NULL until the first */
    struct redis_script_call raise;
    int64_t raise_sent_us;
    bool is_raising;
    int64_t last_fence;   /* the greatest fence that this client knows of */
    int64_t ahead_us;     /* upper bound of the server's clock minus clock_mono_us() */
    char *waiting_key;    /* exists while a lock of kind plain has waiters */
    size_t tag_len;       /* of the tag with which its keys begin */
    size_t fence_key_len; /* the fence key is the beginning of the waiting key */
};

/* -- batches: batch.c -- */

struct rlock_batches {
    struct list classes[RLOCK_CLASSES]; /* struct rlock_batch, not sent */
    struct list sent;                   /* until all their locks have a result */
    struct list failed; /* could not be sent; rlock_batch_complete_failed() ends them */
    struct list spare;
    struct redis_command wait_command; /* the WAIT in progress, if any */
    void (*on_all_completed)(struct rlock_client *client);
};

/* -- releases without a caller: orphan.c -- */

struct rlock_orphans {
    struct list spare;  /* locks of the library's own, unused */
    struct list due;    /* to be released when the connection is up */
    struct list second; /* to be released a second time, in order of renew_at_us */
    unsigned due_count;
    uv_timer_t timer;
    int64_t timer_at_us; /* INT64_MAX: not running */
};

/* -- channels: channel.c -- */

struct rlock_channel;

struct rlock_channel_events {
    void (*on_subscribed)(struct rlock_channel *channel);
    void (*on_cut_off)(
        struct rlock_channel *channel); /* no messages until on_subscribed */
    void (*on_message)(struct rlock_channel *channel, const char *text, size_t text_len);
};

struct rlock_channels {
    const struct rlock_channel_events *events;
    struct list buckets[RLOCK_CHANNEL_BUCKETS]; /* struct rlock_channel */
    unsigned count;
};

/* -- waiters: wait.c -- */

/** How this client takes turns with others at a name, or at all names with its hash. */
struct rlock_turns {
    unsigned count; /* releases since the last yield */
    int64_t since_us;
    int64_t yield_us; /* how long the next yield lasts at most */
    int64_t yield_until_us;
    bool is_contended; /* another client waits */
    bool was_taken;    /* another client has had the lock since the last yield */
};

#define RLOCK_TURNS 64

struct rlock_waits {
    struct list all;   /* struct rlock_waiter, in use or not */
    struct list spare; /* struct rlock_waiter, not in use */
    uv_timer_t checks; /* runs while waiters are subscribed, or will be */
    struct rlock_turns turns[RLOCK_TURNS];
    bool has_turns; /* a name was contended at some time */
};

/* -- renewals: watchdog.c -- */

#define RLOCK_WATCHDOG_BUCKETS 256 /* eight for each power of two of a lease */

struct rlock_watchdog {
    struct list buckets[RLOCK_WATCHDOG_BUCKETS]; /* locks of about the same lease */
    struct list overdue; /* locks whose renewal is in progress or has failed */
    uv_timer_t timer;
    int64_t timer_at_us; /* INT64_MAX: not running */
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
    struct list answers; /* locks in RLOCK_ANSWERING */
    uv_idle_t soon;      /* runs while there is something to answer or to send */
    uv_idle_cb on_soon;
    uint64_t last_serial;
    struct rlock_stats stats;
    struct err why; /* the last failure */
    char id[RLOCK_CLIENT_ID_LEN + 1];
    unsigned process; /* that opened it */
    uv_loop_t *loop;
    struct redis_url url;
    uint32_t timeout_ms;
    void (*on_state)(bool is_up, const struct err *why, void *arg);
    void (*on_event)(const char *name, size_t name_len, enum rlock_event event,
                     int64_t us, void *arg);
    void *arg;
    bool was_up, is_up; /* as reported to on_state */
    bool is_closing;
    bool may_finish; /* rlock_client_close() has returned; no batch starts any more */
    bool is_finishing;
    struct closing closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

/** Whether this is a child after fork(): the client belongs to the parent. */
static inline bool rlock_client_is_inherited(struct rlock_client *client)
{
    if (client->process == process_generation())
        return false;
    err_set(&client->why, STATUS_INVALID, "inherited by fork(); open a client here");
    return true;
}

/** The server that has the lock. */
static inline struct rlock_server *rlock_server_of(struct rlock_client *client,
                                                   const struct rlock *lock)
{
    return &client->servers[lock->bucket];
}

/** The message for a call that has just ended with `status`. */
static inline const char *rlock_client_words(const struct rlock_client *client,
                                             enum status status)
{
    bool is_known = status == STATUS_DOWN || status == client->why.status;

    return is_known ? client->why.text : status_name(status);
}

/** Have the loop answer and send in its next turn. */
static inline void rlock_client_wake(struct rlock_client *client)
{
    if (!client->is_finishing)
        uv_idle_start(&client->soon, client->on_soon);
}

#endif
