/*
 * internal.h - what the parts of a client share; for lib/lock only.
 *
 * A lock goes: rlock_acquire (calls.c) -> a batch (batch.c), written as its kind demands
 * (kinds.c) -> the server -> completed (state.c), or waiting (wait.c) and back in a batch
 * -> the watchdog's (watchdog.c) -> rlock_release -> a batch -> free. What nobody waits
 * for any more is given back by orphan.c.
 */
#ifndef LOCK_INTERNAL_H
#define LOCK_INTERNAL_H

#include "lock/batch.h"
#include "lock/orphan.h"
#include "lock/rlock.h"
#include "lock/scripts.h"
#include "lock/state.h"
#include "lock/wait.h"
#include "lock/watchdog.h"
#include "redis/wire.h"

#define RLOCK_CLIENT_ID_LEN 36 /* a UUID */
#define RLOCK_OWNER_MAX     (RLOCK_CLIENT_ID_LEN + 1 + REDIS_DIGITS_MAX)

/* Keys beside that of a lock. */
#define RLOCK_QUEUE_SUFFIX ":queue"
#define RLOCK_BEATS_SUFFIX ":beats"
#define RLOCK_BESIDE_MAX   7 /* bytes behind the name, with a NUL */

/** What struct rlock's `state` holds. */
enum rlock_state {
    RLOCK_IDLE = 0,
    RLOCK_ACQUIRING,
    RLOCK_HELD,
    RLOCK_EXTENDING, /* held, too */
    RLOCK_RELEASING,
    RLOCK_LOST,      /* until its holder hears so from a release */
    RLOCK_ANSWERING, /* the answer is known and waits for the loop */
};

/** The operations of one kind of lock. */
struct rlock_kind {
    struct rlock_op acquire, release, renew, extend;
    struct rlock_op acquire_wait; /* for who will wait; without a script of its own the
                                     same as `acquire` */
    /* The name of the channel on which a release is told; NULL: it is not. */
    size_t (*channel)(const struct rlock *lock, char ret_name[RLOCK_CHANNEL_MAX]);
    bool can_renew; /* and extend */
    bool is_queued; /* those who wait are known to the server, and called by name */
};

struct rlock_client {
    struct redis_conn *conn;
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    struct rlock_batches batches;
    struct rlock_watchdog watchdog;
    struct rlock_orphans orphans;
    struct rlock_waits waits;
    struct rlock_stats stats;
    struct err why;
    struct list queries; /* struct query, of inspect.c: under way */
    struct list failed_queries;
    struct list answers; /* locks whose answer needs no server */
    uv_idle_t soon;      /* runs while there is something to answer */
    uint64_t last_serial;
    int64_t timeout_us;
    int64_t ahead_us; /* the server's clock less clock_mono_us(), at the most */
    char id[RLOCK_CLIENT_ID_LEN + 1];
    struct redis_script_call raise;
    int64_t raise_sent_us;
    char *fence_key;
    char *waiting_key; /* the fence key with ":waiting" behind it */
    size_t fence_key_len, waiting_key_len;
    uv_loop_t *loop;
    struct redis_url url;
    uint32_t timeout_ms;
    void (*on_state)(bool is_up, const struct err *why, void *arg);
    void *arg;
    bool was_up;
    bool is_closing;
    bool may_finish; /* rlock_client_close() has returned: no batch is begun any more */
    bool is_finishing;
    void (*closed)(void *arg);
    void *closed_arg;
    unsigned open_handles;
};

/** Write what names a holder, "<client id>:<number>"; returns its length. */
size_t rlock_client_owner(const struct rlock_client *client, uint64_t number,
                          char ret_owner[RLOCK_OWNER_MAX]);

/** Write the key beside that of the lock `name`; returns its length. */
size_t rlock_beside(const char *name, size_t name_len, const char *suffix,
                    char ret_key[RLOCK_NAME_MAX + RLOCK_BESIDE_MAX]);

/** Put `lock`, which is to be acquired, in line for a try. */
MUST_CHECK enum status rlock_try(struct rlock_client *client, struct rlock *lock);

/** The server refused with this error: remember its words. */
void rlock_client_refused(struct rlock_client *client, const struct redis_reply *error);

/**
 * The server's clock showed `clock_us` after what was sent at `sent_us`; `is_wrong`: what
 * was believed of it has proved wrong.
 */
void rlock_client_saw_clock(struct rlock_client *client, int64_t clock_us,
                            int64_t sent_us, bool is_wrong);

/** Have the loop call `lock`'s callback with `status` soon. */
void rlock_client_answer(struct rlock_client *client, struct rlock *lock,
                         enum status status);

/** Have the loop look soon for what is to be answered and sent. */
void rlock_client_wake(struct rlock_client *client);

/** A batch has been completed: a client that is closing may be able to finish. */
void rlock_client_completed(struct rlock_client *client);

/** A uv handle of the client is being closed; call rlock_client_handle_closed() then. */
void rlock_client_handle_closed(struct rlock_client *client);

/** Answer all questions of inspect.c STATUS_CANCELLED. */
void rlock_queries_cancel(struct rlock_client *client);

/** Answer the questions that could not be sent. */
void rlock_queries_complete_failed(struct rlock_client *client);

#endif
