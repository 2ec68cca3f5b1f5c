/*
 * batch.c - collects locks into script calls and distributes the results.
 *
 * A batch is written from its locks each time it is sent. So a call that is sent again does not
 * contain locks that have left the batch, and nothing is copied. While the results are distributed,
 * the batch stays in its list with the locks that have no result yet, because a callback may close
 * the client, and closing must cancel these locks.
 *
 * A grant that replicas must confirm is followed by the command WAIT, which blocks the connection.
 * A client has at most one WAIT in progress, so no command waits for two WAITs. The WAIT serves all
 * batches that need the same confirmation. The other batches wait for the next WAIT.
 */
#include "lock/batch.h"
#include "base/clock.h"
#include "lock/keys.h"
#include "lock/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RLOCK_BATCH_MAX 128

#define SEARCH_MAX 8 /* maximum number of batches that are searched for a free place */

/* The result of one lock. All but UNSAFE are results of scripts, see scripts.h. */
enum result {
    DENIED = '0',
    DONE = '1', /* '1' + n, up to DONE_MAX: n clients received the message of a release */
    DONE_MAX = '9',
    MISUSED = 'X',
    REFUSED = 'E',
    UNSAFE = 'U', /* too few replicas have confirmed the grant */
};

enum confirmation { CONFIRMATION_NONE, CONFIRMATION_NEEDED, CONFIRMATION_REQUESTED };

struct rlock_batch {
    struct redis_script_call call;
    struct rlock_link link;
    struct rlock_client *client;
    struct rlock_server *server;
    const struct rlock_op *op;
    int64_t sent_us;
    uint32_t lease_ms;
    uint16_t replicas_wait_ms;
    uint8_t replicas;
    uint16_t count;
    bool is_sent;
    bool is_stale; /* the fences are smaller than those of an earlier batch */
    enum confirmation confirmation;
    enum rlock_status failure; /* why a batch in batches.failed could not be sent */
    /* NULL: the lock has left the batch */
    struct rlock *locks[RLOCK_BATCH_MAX];
    char results[RLOCK_BATCH_MAX];
    int64_t numbers[RLOCK_BATCH_MAX]; /* `numbers` of the reply, see scripts.h */
    const struct redis_reply *reply;  /* the reply to a query; valid during complete() */
};

void rlock_batches_init(struct rlock_batches *batches,
                        void (*on_all_completed)(struct rlock_client *client))
{
    for (int i = 0; i < RLOCK_CLASSES; i++)
        list_init(&batches->classes[i]);
    list_init(&batches->sent);
    list_init(&batches->failed);
    list_init(&batches->spare);
    batches->on_all_completed = on_all_completed;
}

void rlock_batches_clear(struct rlock_batches *batches)
{
    LIST_DRAIN(struct rlock_batch, batch, &batches->spare, link)
        free(batch);
}

static struct rlock_batch *open_batch(struct rlock_client *client,
                                      const struct rlock_op *op, const struct rlock *lock)
{
    struct rlock_batch *batch =
        LIST_SHIFT(struct rlock_batch, &client->batches.spare, link);

    if (batch == NULL)
        batch = malloc(sizeof(*batch));
    if (batch == NULL)
        return NULL;
    batch->client = client;
    batch->server = rlock_server_of(client, lock);
    batch->op = op;
    batch->lease_ms = lock->lease_ms;
    batch->replicas = lock->replicas;
    batch->replicas_wait_ms = lock->replicas_wait_ms;
    batch->count = 0;
    batch->is_sent = false;
    batch->is_stale = false;
    batch->confirmation = CONFIRMATION_NONE;
    list_append(&client->batches.classes[op->class_id], &batch->link);
    rlock_client_wake(client);
    return batch;
}

static bool matches(const struct rlock_batch *batch, const struct rlock_op *op,
                    const struct rlock *lock)
{
    return batch->op == op && batch->server == rlock_server_of(batch->client, lock) &&
           !op->is_query && batch->count < RLOCK_BATCH_MAX &&
           (!op->is_grant ||
            (batch->lease_ms == lock->lease_ms && batch->replicas == lock->replicas &&
             batch->replicas_wait_ms == lock->replicas_wait_ms));
}

static struct rlock_batch *find_batch(struct rlock_client *client,
                                      const struct rlock_op *op, const struct rlock *lock)
{
    const struct rlock_link *class = &client->batches.classes[op->class_id];
    struct rlock_link *at = class->prev;
    unsigned search_max = SEARCH_MAX * client->server_count;

    for (unsigned i = 0; at != class && i < search_max; at = at->prev, i++) {
        if (matches(list_item(at, struct rlock_batch, link), op, lock))
            return list_item(at, struct rlock_batch, link);
    }
    return open_batch(client, op, lock);
}

static void place(struct rlock_batch *batch, unsigned slot, struct rlock *lock)
{
    batch->locks[slot] = lock;
    lock->batch = batch;
    lock->slot = (uint16_t)slot;
}

enum rlock_status rlock_batch_add(struct rlock_client *client, const struct rlock_op *op,
                                  struct rlock *lock)
{
    struct rlock_batch *batch;

    assert(lock->batch == NULL);
    if (lock->hold_min_ms > 0 && op->class_id == RLOCK_CLASS_RELEASE &&
        rlock_keys_hold_left_ms(lock) > 0)
        op = &lock->kind->keep;
    batch = find_batch(client, op, lock);
    if (batch == NULL)
        return RLOCK_NO_MEMORY;
    place(batch, batch->count++, lock);
    return RLOCK_OK;
}

bool rlock_batch_is_sent(const struct rlock *lock)
{
    return lock->batch != NULL && lock->batch->is_sent;
}

bool rlock_batch_may_grant(const struct rlock *lock)
{
    return lock->batch != NULL && lock->batch->op->is_grant;
}

void rlock_batch_leave(struct rlock *lock)
{
    if (lock->batch == NULL)
        return;
    lock->batch->locks[lock->slot] = NULL;
    lock->batch = NULL;
}

void rlock_batch_replace(struct rlock *lock, struct rlock *other)
{
    struct rlock_batch *batch = lock->batch;

    lock->batch = NULL;
    place(batch, lock->slot, other);
}

/** Move the locks together, so that the slot of each lock is its position in the call. */
static void compact(struct rlock_batch *batch)
{
    unsigned count = 0;

    for (unsigned i = 0; i < batch->count; i++) {
        if (batch->locks[i] != NULL)
            place(batch, count++, batch->locks[i]);
    }
    batch->count = (uint16_t)count;
}

static void batch_on_reply(struct redis_script_call *call, enum rlock_status status,
                           const struct redis_reply *reply);
static void batch_on_send_again(struct redis_script_call *call);

static size_t count_words(const enum rlock_word *words)
{
    size_t count = 0;

    while (words[count] != RLOCK_WORD_END)
        count++;
    return count;
}

static enum rlock_status write_batch(struct rlock_batch *batch)
{
    struct redis_conn *conn = batch->server->conn;
    const struct rlock_op *op = batch->op;
    size_t key_count =
        count_words(op->shared_keys) + batch->count * count_words(op->keys);
    size_t arg_count = batch->count * count_words(op->args) + (op->is_grant ? 2 : 0);
    const char *rights = rlock_needed_rights[op->script];
    enum rlock_status status = RLOCK_OK;

    if (rights != NULL && redis_conn_is_up(conn))
        status = rlock_server_check_rights(batch->server, rights);
    if (status == RLOCK_OK)
        status = redis_script_begin(conn, &batch->call, key_count, arg_count);
    if (status != RLOCK_OK)
        return status;
    rlock_keys_write(batch->server, batch->locks, 1, op->shared_keys);
    rlock_keys_write(batch->server, batch->locks, batch->count, op->keys);
    if (op->is_grant) {
        redis_conn_arg_uint(conn, batch->lease_ms);
        redis_conn_arg_uint(conn, rlock_server_latest_us(batch->server, batch->sent_us));
    }
    rlock_keys_write(batch->server, batch->locks, batch->count, op->args);
    return redis_script_end(conn, &batch->call);
}

static void recycle(struct rlock_batch *batch)
{
    list_remove(&batch->link);
    list_append(&batch->client->batches.spare, &batch->link);
}

bool rlock_batches_are_completed(const struct rlock_batches *batches)
{
    return list_is_empty(&batches->sent) && list_is_empty(&batches->failed);
}

static void check_completed(struct rlock_client *client)
{
    if (rlock_batches_are_completed(&client->batches))
        client->batches.on_all_completed(client);
}

/** Send the batch, which must be in no list. */
static void send_batch(struct rlock_batch *batch)
{
    struct rlock_client *client = batch->client;

    list_append(&client->batches.sent, &batch->link);
    compact(batch);
    if (batch->count == 0) {
        recycle(batch);
        return;
    }
    batch->failure = write_batch(batch);
    if (batch->failure == RLOCK_OK) {
        batch->is_sent = true;
        return;
    }
    if (batch->failure == RLOCK_DOWN)
        batch->failure = rlock_server_why_down(batch->server);
    list_remove(&batch->link);
    list_append(&client->batches.failed, &batch->link);
    rlock_client_wake(client);
}

/** Whether the keys of the batch are moving to another master. Then the batch must wait until the
 *  connection is up or is reported down. */
static bool must_wait(const struct rlock_batch *batch)
{
    return redis_conn_is_moving(batch->server->conn) && !batch->client->is_closing;
}

static void send_all(struct rlock_link *batches, int64_t now_us)
{
    LIST_DRAIN_PRESENT(struct rlock_batch, batch, batches, link) {
        if (must_wait(batch)) {
            list_append(batches, &batch->link);
            continue;
        }
        batch->call.script = &batch->client->scripts[batch->op->script];
        batch->call.done = batch_on_reply;
        batch->call.send_again = batch_on_send_again;
        batch->call.with_body = false;
        batch->sent_us = now_us;
        send_batch(batch);
    }
}

void rlock_batch_flush(struct rlock_client *client)
{
    int64_t now_us = clock_mono_us();

    for (int i = 0; i < RLOCK_CLASSES; i++)
        send_all(&client->batches.classes[i], now_us);
    for (unsigned i = 0; i < client->server_count; i++)
        redis_conn_flush(client->servers[i].conn);
}

/** Send again a batch of which the server has executed nothing. */
static void send_again(struct rlock_batch *batch)
{
    list_remove(&batch->link);
    batch->is_sent = false;
    if (must_wait(batch)) {
        list_append(&batch->client->batches.classes[batch->op->class_id], &batch->link);
        return;
    }
    send_batch(batch);
    redis_conn_flush(batch->server->conn);
    check_completed(batch->client);
}

static void batch_on_send_again(struct redis_script_call *call)
{
    send_again(list_item(call, struct rlock_batch, call));
}

static bool is_done(char result)
{
    return result >= DONE && result <= DONE_MAX;
}

static enum rlock_status read_status(const struct rlock_batch *batch, char result)
{
    struct rlock_err *why = &batch->client->why;

    if (is_done(result))
        return RLOCK_OK;
    switch ((enum result)result) {
    case DENIED:
        return batch->op->denied;
    case UNSAFE:
        return RLOCK_UNSAFE;
    case MISUSED:
        return err_set(why, RLOCK_INVALID,
                       "holder: has the lock to read, so it cannot get it to write");
    case REFUSED:
        return err_set(why, RLOCK_REFUSED,
                       "WRONGTYPE the key holds no lock of this kind");
    default:
        return err_set(why, RLOCK_IO, "a script of another version replied");
    }
}

static void read_result(const struct rlock_batch *batch, unsigned i,
                        struct rlock_result *result)
{
    result->status = read_status(batch, batch->results[i]);
    result->reply = batch->reply;
    if (result->status == RLOCK_OK) {
        result->fence = batch->numbers[i];
        result->receivers = (unsigned)(batch->results[i] - DONE);
    } else {
        result->remaining_ms = batch->numbers[i];
    }
}

/** End the batch. Each lock gets `status`, or its own result if `status` is RLOCK_OK. */
static void complete(struct rlock_batch *batch, enum rlock_status status)
{
    int64_t granted_us = batch->op->is_grant ? clock_mono_us() : 0;

    for (unsigned i = 0; i < batch->count; i++) {
        struct rlock_result result = {.status = status,
                                      .sent_us = batch->sent_us,
                                      .granted_us = granted_us,
                                      .is_resent = batch->call.with_body,
                                      .is_stale = batch->is_stale};
        struct rlock *lock = batch->locks[i];

        if (lock == NULL)
            continue;
        rlock_batch_leave(lock);
        if (status == RLOCK_OK)
            read_result(batch, i, &result);
        batch->op->on_result(batch->client, lock, &result);
    }
    recycle(batch);
    check_completed(batch->client);
}

static bool take_results(struct rlock_batch *batch, const char *results, size_t len)
{
    if (results == NULL || len != batch->count)
        return false;
    memcpy(batch->results, results, len);
    return true;
}

static bool read_number(struct rlock_batch *batch, const struct redis_reply *numbers,
                        unsigned i)
{
    return redis_reply_int(redis_reply_at(numbers, i), &batch->numbers[i]);
}

static bool read_numbers(struct rlock_batch *batch, const struct redis_reply *reply,
                         int64_t clock_us)
{
    const struct redis_reply *numbers = redis_script_at(reply, 3);
    int64_t fence;

    if (!redis_reply_int(redis_script_at(reply, 1), &fence))
        return false;
    batch->is_stale = !rlock_server_saw_fences(batch->server, fence, batch->count);
    batch->client->stats.fence_restarts += fence == clock_us;
    for (unsigned i = 0; i < batch->count; i++) {
        if (numbers == NULL)
            batch->numbers[i] = fence + 1 + (int64_t)i;
        else if (!read_number(batch, numbers, i))
            return false;
    }
    return true;
}

static bool read_results(struct rlock_batch *batch, const struct redis_reply *reply)
{
    size_t len = 1;
    const char *results = batch->op->is_query ? "1" : redis_script_text(reply, &len);

    batch->reply = reply;
    return take_results(batch, results, len);
}

/** Read the reply {results, numbers}, which says that all locks of the batch are busy. */
static bool read_refusal(struct rlock_batch *batch, const struct redis_reply *reply)
{
    size_t len = 0;
    const char *results = redis_reply_text(redis_script_at(reply, 0), &len);
    bool is_read = take_results(batch, results, len);

    for (unsigned i = 0; i < batch->count && is_read; i++)
        is_read = batch->results[i] == DENIED &&
                  read_number(batch, redis_script_at(reply, 1), i);
    return is_read;
}

/** Read the reply to a call that acquires, see scripts.h. If the call came too late for the
 *  server, `ret_is_late` becomes true. */
static bool read_grant(struct rlock_batch *batch, const struct redis_reply *reply,
                       bool *ret_is_late)
{
    size_t len = 0;
    const char *results = redis_reply_text(redis_script_at(reply, 2), &len);
    int64_t clock_us;

    if (!redis_reply_int(redis_script_at(reply, 0), &clock_us))
        return read_refusal(batch, reply);
    *ret_is_late = redis_script_at(reply, 1) == NULL;
    rlock_server_saw_clock(batch->server, clock_us, batch->sent_us, *ret_is_late);
    return *ret_is_late ||
           (take_results(batch, results, len) && read_numbers(batch, reply, clock_us));
}

static struct rlock_batch *find_confirming(struct rlock_client *client,
                                           enum confirmation confirmation)
{
    LIST_EACH(struct rlock_batch, batch, &client->batches.sent, link) {
        if (batch->confirmation == confirmation)
            return batch;
    }
    return NULL;
}

/** End the batches that the last WAIT served. If `status` is RLOCK_OK, `replicas` is the number of
 *  replicas that have the grants. */
static void complete_confirmed(struct rlock_client *client, enum rlock_status status,
                               int64_t replicas)
{
    struct rlock_batch *batch;

    while ((batch = find_confirming(client, CONFIRMATION_REQUESTED)) != NULL) {
        for (unsigned i = 0; i < batch->count && replicas < batch->replicas; i++) {
            if (batch->results[i] == DONE)
                batch->results[i] = UNSAFE;
        }
        complete(batch, status);
    }
}

static void confirm_replicas(struct rlock_client *client);

static void batch_on_replicas(struct redis_command *command, enum rlock_status status,
                              const struct redis_reply *reply)
{
    struct rlock_client *client =
        list_item(command, struct rlock_client, batches.wait_command);
    int64_t replicas = 0;

    if (status == RLOCK_REFUSED) {
        (void)rlock_server_refused(client, reply);
        status = RLOCK_OK; /* no replica counts, because the WAIT was refused */
    } else if (status == RLOCK_OK && !redis_reply_int(reply, &replicas)) {
        status = RLOCK_IO;
    }
    complete_confirmed(client, status, replicas);
    confirm_replicas(client);
}

static enum rlock_status write_wait(struct rlock_client *client,
                                    const struct rlock_batch *batch)
{
    struct redis_conn *conn = batch->server->conn;
    enum rlock_status status = redis_conn_begin(conn, 3);

    if (status != RLOCK_OK)
        return status;
    redis_conn_arg_text(conn, "WAIT");
    redis_conn_arg_uint(conn, batch->replicas);
    redis_conn_arg_uint(conn, batch->replicas_wait_ms);
    return redis_conn_end(conn, &client->batches.wait_command, batch_on_replicas);
}

/** Send a WAIT for all batches that need the same confirmation, unless a WAIT is already in
 *  progress. */
static void confirm_replicas(struct rlock_client *client)
{
    struct rlock_batch *first = find_confirming(client, CONFIRMATION_NEEDED);

    if (first == NULL || find_confirming(client, CONFIRMATION_REQUESTED) != NULL)
        return;
    LIST_EACH(struct rlock_batch, batch, &client->batches.sent, link) {
        if (batch->confirmation == CONFIRMATION_NEEDED &&
            batch->replicas == first->replicas &&
            batch->replicas_wait_ms == first->replicas_wait_ms)
            batch->confirmation = CONFIRMATION_REQUESTED;
    }
    /* Send the other batches first. Otherwise they would wait behind the WAIT. */
    rlock_batch_flush(client);
    if (write_wait(client, first) == RLOCK_OK) {
        redis_conn_flush(first->server->conn);
        return;
    }
    complete_confirmed(client, RLOCK_IO, 0);
    confirm_replicas(client);
}

static void complete_by_reply(struct rlock_batch *batch, const struct redis_reply *reply)
{
    int64_t timeout_us = batch->client->timeout_ms * INT64_C(1000);
    bool is_late = false;
    bool is_read = batch->op->is_grant ? read_grant(batch, reply, &is_late)
                                       : read_results(batch, reply);

    if (!is_read) {
        complete(batch, RLOCK_IO); /* the reply is malformed, so the outcome is unknown */
    } else if (is_late && clock_mono_us() < batch->sent_us + timeout_us) {
        /* The call came too late by the server's clock, but there is time for another try. */
        send_again(batch);
    } else if (is_late) {
        /* The call came too late, so the script has done nothing. */
        complete(batch, RLOCK_TIMEOUT);
    } else if (batch->op->is_grant && batch->replicas > 0 &&
               memchr(batch->results, DONE, batch->count) != NULL) {
        batch->confirmation = CONFIRMATION_NEEDED;
        confirm_replicas(batch->client);
    } else {
        complete(batch, RLOCK_OK);
    }
}

static void batch_on_reply(struct redis_script_call *call, enum rlock_status status,
                           const struct redis_reply *reply)
{
    struct rlock_batch *batch = list_item(call, struct rlock_batch, call);

    if (status == RLOCK_OK) {
        complete_by_reply(batch, reply);
        return;
    }
    if (status == RLOCK_REFUSED && must_wait(batch)) {
        send_again(batch);
        return;
    }
    if (status == RLOCK_REFUSED)
        status = rlock_server_refused(batch->client, reply);
    complete(batch, status);
}

void rlock_batch_complete_failed(struct rlock_client *client)
{
    struct rlock_batches *batches = &client->batches;

    LIST_DRAIN_PRESENT(struct rlock_batch, batch, &batches->failed, link) {
        list_append(&batches->sent, &batch->link);
        complete(batch, batch->failure);
    }
}

static void cancel_in(struct rlock_link *batches)
{
    LIST_EACH(struct rlock_batch, batch, batches, link) {
        for (unsigned i = 0; i < batch->count; i++) {
            if (batch->locks[i] != NULL)
                batch->op->on_cancel(batch->client, batch->locks[i]);
        }
    }
}

void rlock_batch_cancel_all(struct rlock_client *client)
{
    for (int i = 0; i < RLOCK_CLASSES; i++)
        cancel_in(&client->batches.classes[i]);
    cancel_in(&client->batches.sent);
    cancel_in(&client->batches.failed);
}
