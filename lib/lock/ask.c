/* ask.c - questions about a name instead of a lock of ours: inspect, force release. */
#include "lock/client.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 3

typedef void (*inspect_cb)(enum status status, const struct rlock_info *info, void *arg);
typedef void (*force_cb)(enum status status, void *arg);

struct ask {
    struct redis_script_call call;
    struct list link;
    struct rlock_client *client;
    inspect_cb inspected; /* the one or the other; neither: nobody waits any more */
    force_cb forced;
    void *arg;
    enum status failure; /* of one that is among failed_asks */
    unsigned key_count;
    size_t name_len;
    char name[RLOCK_NAME_MAX];
};

/** Ends the ask; its memory is gone before the callback is called. */
static void answer(struct ask *ask, enum status status, const struct rlock_info *info)
{
    inspect_cb inspected = ask->inspected;
    force_cb forced = ask->forced;
    void *arg = ask->arg;

    list_remove(&ask->link);
    free(ask);
    if (inspected != NULL)
        inspected(status, status == STATUS_OK ? info : NULL, arg);
    else if (forced != NULL)
        forced(status, arg);
}

static void answer_forced(struct ask *ask, const struct redis_reply *reply)
{
    int64_t count;

    if (!redis_reply_int(redis_script_at(reply, 0), &count))
        answer(ask, STATUS_IO, NULL);
    else
        answer(ask, count > 0 ? STATUS_OK : STATUS_NOT_FOUND, NULL);
}

static void answer_inspected(struct ask *ask, const struct redis_reply *reply)
{
    const struct redis_reply *owner = redis_script_at(reply, 0);
    struct rlock_info info = {0};

    if (redis_reply_is_nil(owner)) {
        answer(ask, STATUS_NOT_FOUND, NULL);
        return;
    }
    info.owner = redis_reply_text(owner, &info.owner_len);
    if (info.owner == NULL ||
        !redis_reply_int(redis_script_at(reply, 1), &info.remaining_ms) ||
        !redis_reply_int(redis_script_at(reply, 2), &info.count)) {
        answer(ask, STATUS_IO, NULL);
        return;
    }
    info.is_ours = strncmp(info.owner, ask->client->id, RLOCK_CLIENT_ID_LEN) == 0;
    answer(ask, STATUS_OK, &info);
}

static void on_done(struct redis_script_call *call, enum status status,
                    const struct redis_reply *reply)
{
    struct ask *ask = list_item(call, struct ask, call);

    if (status == STATUS_REFUSED)
        rlock_client_refused(ask->client, reply);
    if (status != STATUS_OK)
        answer(ask, status, NULL);
    else if (ask->forced != NULL)
        answer_forced(ask, reply);
    else
        answer_inspected(ask, reply);
}

static void fail(struct ask *ask, enum status status)
{
    ask->failure = status;
    list_remove(&ask->link);
    list_append(&ask->client->failed_asks, &ask->link);
    rlock_client_wake(ask->client);
}

static void write_beside(const struct ask *ask, const char *suffix)
{
    char key[RLOCK_NAME_MAX + RLOCK_BESIDE_MAX];

    redis_conn_arg(ask->client->conn, key,
                   rlock_beside(ask->name, ask->name_len, suffix, key));
}

/** The name, and where the script wants them the keys beside it. */
static void write_keys(const struct ask *ask)
{
    redis_conn_arg(ask->client->conn, ask->name, ask->name_len);
    if (ask->key_count == 1)
        return;
    write_beside(ask, RLOCK_QUEUE_SUFFIX);
    write_beside(ask, RLOCK_BEATS_SUFFIX);
}

static void put_on_wire(struct ask *ask)
{
    struct redis_conn *conn = ask->client->conn;
    enum status status = redis_script_begin(conn, &ask->call, ask->key_count, 0);

    if (status == STATUS_OK) {
        write_keys(ask);
        status = redis_script_end(conn, &ask->call);
    }
    if (status != STATUS_OK)
        fail(ask, status);
}

static void on_send_again(struct redis_script_call *call)
{
    struct ask *ask = list_item(call, struct ask, call);

    if (ask->client->is_closing) {
        answer(ask, STATUS_CANCELLED, NULL);
        return;
    }
    put_on_wire(ask);
    redis_conn_flush(ask->client->conn);
}

/** NULL: no memory. */
static struct ask *create(struct rlock_client *client, enum rlock_script script,
                          unsigned key_count)
{
    struct ask *ask = calloc(1, sizeof(*ask));

    if (ask == NULL)
        return NULL;
    ask->client = client;
    ask->key_count = key_count;
    ask->call.script = &client->scripts[script];
    ask->call.done = on_done;
    ask->call.send_again = on_send_again;
    list_append(&client->asks, &ask->link);
    return ask;
}

static void submit(struct ask *ask, const char *name, size_t name_len)
{
    if (ask->client->is_closing) {
        fail(ask, STATUS_CANCELLED);
    } else if (name == NULL || name_len < 1 || name_len > RLOCK_NAME_MAX) {
        fail(ask, STATUS_INVALID);
    } else {
        ask->name_len = name_len;
        memcpy(ask->name, name, name_len);
        put_on_wire(ask);
    }
}

void rlock_inspect(struct rlock_client *client, const char *name, size_t name_len,
                   inspect_cb callback, void *arg)
{
    struct ask *ask = create(client, RLOCK_SCRIPT_INSPECT, 1);

    if (ask == NULL) {
        callback(STATUS_NO_MEMORY, NULL, arg);
        return;
    }
    ask->inspected = callback;
    ask->arg = arg;
    submit(ask, name, name_len);
}

void rlock_force_release(struct rlock_client *client, const char *name, size_t name_len,
                         force_cb callback, void *arg)
{
    struct ask *ask = create(client, RLOCK_SCRIPT_FORCE, KEYS_MAX);

    if (ask == NULL) {
        callback(STATUS_NO_MEMORY, arg);
        return;
    }
    ask->forced = callback;
    ask->arg = arg;
    submit(ask, name, name_len);
}

void rlock_asks_complete_failed(struct rlock_client *client)
{
    struct list *last = client->failed_asks.prev;
    struct list *link;

    while ((link = list_shift(&client->failed_asks)) != NULL) {
        struct ask *ask = list_item(link, struct ask, link);

        answer(ask, ask->failure, NULL);
        if (link == last)
            break;
    }
}

/** Tell the caller and keep the memory, which the connection still knows. */
static void abandon(struct ask *ask)
{
    inspect_cb inspected = ask->inspected;
    force_cb forced = ask->forced;

    ask->inspected = NULL;
    ask->forced = NULL;
    if (inspected != NULL)
        inspected(STATUS_CANCELLED, NULL, ask->arg);
    else if (forced != NULL)
        forced(STATUS_CANCELLED, ask->arg);
}

void rlock_asks_cancel(struct rlock_client *client)
{
    struct list *link;

    while ((link = list_shift(&client->asks)) != NULL)
        abandon(list_item(link, struct ask, link));
    while ((link = list_shift(&client->failed_asks)) != NULL)
        answer(list_item(link, struct ask, link), STATUS_CANCELLED, NULL);
}
