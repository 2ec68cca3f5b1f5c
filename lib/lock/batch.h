/*
 * batch.h - many locks in one call of a script.
 *
 * Locks that want the same thing (operation and lease) are gathered in a batch from the
 * moment they ask; rlock_batch_flush() sends all batches. When the reply comes, each
 * lock is completed by its operation. A lock may leave its batch at any time: a release
 * takes the place of a renewal under way.
 *
 * An operation is what a kind of lock adds: its script and what a result means.
 */
#ifndef LOCK_BATCH_H
#define LOCK_BATCH_H

#include "lock/rlock.h"
#include "lock/scripts.h"

#define RLOCK_BATCH_MAX 128

/** Lines leave in this order: what frees a name goes before what asks for it. */
enum rlock_class_id {
    RLOCK_CLASS_RELEASE,
    RLOCK_CLASS_RENEW,
    RLOCK_CLASS_ACQUIRE,
    RLOCK_CLASSES
};

struct rlock_result {
    enum status status;   /* STATUS_TIMEOUT, STATUS_IO: unknown */
    int64_t sent_us;      /* clock_mono_us() at the first sending */
    int64_t fence;        /* of a grant */
    int64_t remaining_ms; /* of the owner's lease, where it is busy; below 0: not known */
};

/** Writes a lock's share of the keys or of the arguments, always as many. */
typedef void (*rlock_writer)(struct rlock_client *client, struct rlock *lock);

struct rlock_op {
    enum rlock_script script;
    enum rlock_class_id class_id;
    uint8_t key_count, arg_count; /* per lock */
    rlock_writer write_keys, write_args;
    bool is_grant;      /* with the fence counter and a latest time; tells fences */
    bool has_waiting;   /* with the key that is there while somebody waits */
    bool has_lease;     /* the lease goes before the owners; batches are per lease */
    enum status denied; /* what the result '0' means */
    /* The lock is in no batch any more. */
    void (*complete)(struct rlock_client *client, struct rlock *lock,
                     const struct rlock_result *result);
    /* The client is being closed; `is_sent`: the server may carry it out. Calls no
       callbacks; may take other locks' places but not call rlock_batch_add(). */
    void (*cancel)(struct rlock_client *client, struct rlock *lock, bool is_sent);
};

/** Whether the replicas are to be asked for what was granted. */
enum rlock_confirmation {
    RLOCK_CONFIRMATION_NONE,
    RLOCK_CONFIRMATION_WANTED,
    RLOCK_CONFIRMATION_REQUESTED
};

struct rlock_batch {
    struct redis_script_call call;
    struct list link;
    struct rlock_client *client;
    const struct rlock_op *op;
    int64_t sent_us;
    uint32_t lease_ms;
    uint16_t replicas_wait_ms;
    uint8_t replicas;
    uint16_t count;
    bool is_sent;
    enum rlock_confirmation confirmation;
    enum status failure; /* of a batch that waits to be completed without a reply */
    struct rlock *locks[RLOCK_BATCH_MAX]; /* NULL: has left */
    char results[RLOCK_BATCH_MAX];
    int64_t numbers[RLOCK_BATCH_MAX]; /* as in scripts.h */
};

struct rlock_class {
    struct list open; /* batches with room, few */
    struct list full;
    unsigned open_count;
};

struct rlock_batches {
    struct rlock_class classes[RLOCK_CLASSES];
    struct list sent; /* stay here until all are completed */
    struct list
        failed; /* could not be sent; completed by rlock_batch_complete_failed() */
    struct list spare;
    struct redis_command wait_command; /* the WAIT under way, if any */
    unsigned limit; /* locks per call: 1 where their slots in a cluster may differ */
};

void rlock_batches_init(struct rlock_batches *batches);
void rlock_batches_clear(struct rlock_batches *batches);

/** Put `lock`, which is in no batch, in line. On STATUS_NO_MEMORY it is in none. */
MUST_CHECK enum status rlock_batch_add(struct rlock_client *client,
                                       const struct rlock_op *op, struct rlock *lock);

/** Take the lock out of the batch it is in, if any; it will not be completed. */
void rlock_batch_leave(struct rlock *lock);

/** Put `other` in the place of `lock` in its batch. */
void rlock_batch_replace(struct rlock *lock, struct rlock *other);

/** Send all batches; those that cannot be sent are completed by the loop soon. */
void rlock_batch_flush(struct rlock_client *client);

/** Complete what could not be sent. */
void rlock_batch_complete_failed(struct rlock_client *client);

/** Call `cancel` for every lock in any batch. */
void rlock_batch_cancel_all(struct rlock_client *client);

#endif
