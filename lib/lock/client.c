/*
 * client.c - opens, closes, flushes and answers.
 *
 * Closing: all callers are answered first, while what they may leave behind becomes the
 * library's own releases. These are sent and waited for, at most the timeout of a
 * command, and then the connection is closed.
 */
#include "base/clock.h"
#include "base/random.h"
#include "lock/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FENCE_KEY_DEFAULT "lock:fence"
#define WAITING_SUFFIX    ":waiting"
#define AHEAD_UNKNOWN_US  (INT64_MAX / 4)

_Static_assert(sizeof(struct rlock) < 384, "callers keep one per request");

static void client_on_soon(uv_idle_t *soon);

void rlock_client_wake(struct rlock_client *client)
{
    if (!client->is_finishing)
        uv_idle_start(&client->soon, client_on_soon);
}

void rlock_client_answer(struct rlock_client *client, struct rlock *lock,
                         enum status status)
{
    lock->state = RLOCK_ANSWERING;
    lock->status = (uint8_t)status;
    list_append(&client->answers, &lock->link);
    rlock_client_wake(client);
}

static void answer(struct rlock_client *client, struct rlock *lock)
{
    struct rlock *subject = lock->subject;
    rlock_cb callback = lock->callback;
    void *arg = lock->arg;
    enum status status = lock->status;

    if (subject == NULL) {
        lock->state = RLOCK_IDLE;
        callback(lock, status, arg);
        return;
    }
    lock->subject = NULL;
    lock->callback = NULL;
    rlock_orphan_recycle(client, lock);
    callback(subject, status, arg);
}

/** Answer those that wait now; what their callbacks add waits for the next turn. */
static void answer_waiting(struct rlock_client *client)
{
    struct list *last = client->answers.prev;
    struct list *link;

    while ((link = list_shift(&client->answers)) != NULL) {
        answer(client, list_item(link, struct rlock, link));
        if (link == last)
            break;
    }
}

static void client_on_soon(uv_idle_t *soon)
{
    struct rlock_client *client = soon->data;

    uv_idle_stop(soon);
    answer_waiting(client);
    rlock_batch_complete_failed(client);
    rlock_queries_complete_failed(client);
    if (client->is_closing)
        return;
    rlock_batch_flush(client);
    rlock_channels_flush(client);
}

size_t rlock_client_owner(const struct rlock_client *client, uint64_t number,
                          char ret_owner[RLOCK_OWNER_MAX])
{
    memcpy(ret_owner, client->id, RLOCK_CLIENT_ID_LEN);
    ret_owner[RLOCK_CLIENT_ID_LEN] = ':';
    return RLOCK_CLIENT_ID_LEN + 1 +
           redis_wire_digits(ret_owner + RLOCK_CLIENT_ID_LEN + 1, number);
}

size_t rlock_beside(const char *name, size_t name_len, const char *suffix,
                    char ret_key[RLOCK_NAME_MAX + RLOCK_BESIDE_MAX])
{
    size_t suffix_len = strlen(suffix);

    memcpy(ret_key, name, name_len);
    memcpy(ret_key + name_len, suffix, suffix_len + 1);
    return name_len + suffix_len;
}

void rlock_client_refused(struct rlock_client *client, const struct redis_reply *error)
{
    size_t len;
    const char *text = redis_reply_text(error, &len);

    err_set(&client->why, STATUS_REFUSED, "%s", text == NULL ? "no words" : text);
}

void rlock_client_saw_clock(struct rlock_client *client, int64_t clock_us,
                            int64_t sent_us, bool is_wrong)
{
    int64_t ahead_us = clock_us - sent_us; /* the less the call waited, the better */

    if (is_wrong || ahead_us < client->ahead_us)
        client->ahead_us = ahead_us;
}

static void client_on_raised(struct redis_script_call *call, enum status status,
                             const struct redis_reply *reply)
{
    struct rlock_client *client = list_item(call, struct rlock_client, raise);
    int64_t clock_us;

    /* Where this is refused, so will be what would have drawn from the counter. */
    if (status == STATUS_OK && redis_reply_int(redis_script_at(reply, 0), &clock_us))
        rlock_client_saw_clock(client, clock_us, client->raise_sent_us, true);
}

/**
 * The server may have restarted with an old snapshot: before this connection asks for
 * any lock, the counter of fences is brought up to the server's clock.
 */
static void raise_fence(struct rlock_client *client)
{
    client->raise = (struct redis_script_call){
        .script = &client->scripts[RLOCK_SCRIPT_RAISE],
        .done = client_on_raised,
        .with_body = true, /* sent again it would come too late */
    };
    client->raise_sent_us = clock_mono_us();
    client->ahead_us = AHEAD_UNKNOWN_US;
    if (redis_script_begin(client->conn, &client->raise, 1, 0) != STATUS_OK)
        return;
    redis_conn_arg(client->conn, client->fence_key, client->fence_key_len);
    if (redis_script_end(client->conn, &client->raise) != STATUS_OK)
        client->stats.failed++;
}

static void client_on_state(bool is_up, const struct err *why, void *arg)
{
    struct rlock_client *client = arg;

    if (client->is_closing)
        return;
    if (!is_up)
        client->why = *why;
    if (is_up) {
        client->stats.reconnects += client->was_up;
        client->was_up = true;
        raise_fence(client);
        rlock_orphan_resume(client);
        rlock_watchdog_resume(client);
        rlock_batch_flush(client);
    }
    if (client->on_state != NULL && !client->is_closing)
        client->on_state(is_up, why, client->arg);
}

/** A random UUID (RFC 9562, version 4): no two holders in the world share a value. */
static enum status make_id(char ret_id[RLOCK_CLIENT_ID_LEN + 1], struct err *reterr)
{
    unsigned char random[16];
    char *at = ret_id;

    if (!random_fill(random, sizeof(random)))
        return err_set(reterr, STATUS_IO, "lock client: no random numbers");
    random[6] = (unsigned char)((random[6] & 0x0f) | 0x40);
    random[8] = (unsigned char)((random[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(random); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        at += snprintf(at, 3, "%02x", random[i]);
    }
    return STATUS_OK;
}

static enum status set_keys(struct rlock_client *client, const char *fence_key)
{
    size_t size;

    client->fence_key = strdup(fence_key == NULL ? FENCE_KEY_DEFAULT : fence_key);
    if (client->fence_key == NULL)
        return STATUS_NO_MEMORY;
    client->fence_key_len = strlen(client->fence_key);
    size = client->fence_key_len + sizeof(WAITING_SUFFIX);
    client->waiting_key = malloc(size);
    if (client->waiting_key == NULL)
        return STATUS_NO_MEMORY;
    snprintf(client->waiting_key, size, "%s" WAITING_SUFFIX, client->fence_key);
    client->waiting_key_len = size - 1;
    return STATUS_OK;
}

static void free_client(struct rlock_client *client)
{
    if (client == NULL)
        return;
    free(client->fence_key);
    free(client->waiting_key);
    free(client);
}

static enum status connect_client(struct rlock_client *client,
                                  const struct rlock_client_options *options,
                                  struct err *reterr)
{
    struct redis_conn_options conn_options = {
        .loop = options->loop,
        .url = &client->url,
        .timeout_ms = options->timeout_ms,
        .on_state = client_on_state,
        .arg = client,
    };
    enum status status = redis_url_parse(options->redis_url, &client->url, reterr);

    if (status != STATUS_OK)
        return status;
    return redis_conn_open(&conn_options, &client->conn, reterr);
}

static void start_handles(struct rlock_client *client, uv_loop_t *loop)
{
    rlock_watchdog_init(client, loop);
    rlock_orphan_init(client, loop);
    uv_idle_init(loop, &client->soon);
    client->soon.data = client;
    client->open_handles += 2; /* the idle handle and the connection */
}

enum status rlock_client_open(const struct rlock_client_options *options,
                              struct rlock_client **ret_client, struct err *reterr)
{
    struct rlock_client *client = calloc(1, sizeof(*client));
    enum status status = STATUS_NO_MEMORY;

    if (client == NULL)
        goto out;
    rlock_scripts_init(client->scripts);
    rlock_batches_init(&client->batches);
    list_init(&client->queries);
    list_init(&client->failed_queries);
    list_init(&client->answers);
    rlock_waits_init(&client->waits);
    client->loop = options->loop;
    client->timeout_ms = options->timeout_ms;
    client->timeout_us = (int64_t)options->timeout_ms * 1000;
    client->on_state = options->on_state;
    client->arg = options->arg;
    status = set_keys(client, options->fence_key);
    if (status == STATUS_OK)
        status = make_id(client->id, reterr);
    if (status == STATUS_OK)
        status = connect_client(client, options, reterr);
    if (status != STATUS_OK)
        goto out;
    start_handles(client, options->loop);
    *ret_client = client;
    return STATUS_OK;
out:
    if (status == STATUS_NO_MEMORY)
        err_set(reterr, status, "lock client: no memory");
    free_client(client);
    return status;
}

/** The loop comes by no more for calls that were made after the close. */
static void answer_late(struct rlock_client *client)
{
    while (!list_is_empty(&client->answers) || !list_is_empty(&client->failed_queries)) {
        answer_waiting(client);
        rlock_queries_complete_failed(client);
    }
}

void rlock_client_handle_closed(struct rlock_client *client)
{
    if (--client->open_handles > 0)
        return;
    answer_late(client);
    if (client->closed != NULL)
        client->closed(client->closed_arg);
    rlock_batches_clear(&client->batches);
    rlock_watchdog_clear(client);
    rlock_orphan_clear(client);
    rlock_waits_clear(&client->waits);
    free_client(client);
}

static void client_on_handle_closed(uv_handle_t *handle)
{
    rlock_client_handle_closed(handle->data);
}

static void client_on_conn_closed(void *arg)
{
    rlock_client_handle_closed(arg);
}

static void finish(struct rlock_client *client)
{
    client->is_finishing = true;
    rlock_orphan_close(client);
    uv_close((uv_handle_t *)&client->soon, client_on_handle_closed);
    redis_conn_close(client->conn, client_on_conn_closed, client);
}

void rlock_client_completed(struct rlock_client *client)
{
    if (client->is_closing && !client->is_finishing && client->may_finish &&
        list_is_empty(&client->batches.sent))
        finish(client);
}

void rlock_client_close(struct rlock_client *client, void (*closed)(void *arg), void *arg)
{
    if (client == NULL) {
        if (closed != NULL)
            closed(arg);
        return;
    }
    client->is_closing = true;
    client->closed = closed;
    client->closed_arg = arg;
    rlock_batch_cancel_all(client);
    rlock_waits_close(client);
    rlock_watchdog_close(client);
    rlock_orphan_resume(client);
    rlock_batch_flush(client);
    while (!list_is_empty(&client->answers))
        answer_waiting(client);
    rlock_queries_cancel(client);
    rlock_batch_flush(client); /* what the callbacks gave back */
    rlock_batch_complete_failed(client);
    client->may_finish = true;
    rlock_client_completed(client);
}

bool rlock_client_is_up(const struct rlock_client *client)
{
    return !client->is_closing && redis_conn_is_up(client->conn);
}

void rlock_flush(struct rlock_client *client)
{
    if (!client->is_closing)
        rlock_batch_flush(client);
}

void rlock_client_stats(const struct rlock_client *client, struct rlock_stats *ret_stats)
{
    *ret_stats = client->stats;
}

const struct err *rlock_client_why(const struct rlock_client *client)
{
    return &client->why;
}
