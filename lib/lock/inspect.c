/* inspect.c - queries about a name, whatever client holds it: inspect and force release. */
#include "lock/inspect.h"
#include "lock/keys.h"
#include "lock/server.h"

#include <stdlib.h>
#include <string.h>

typedef void (*inspect_cb)(enum status status, const struct rlock_info *info, void *arg);
typedef void (*force_cb)(enum status status, void *arg);

struct query {
    struct redis_script_call call;
    struct list link;
    struct rlock_client *client;
    inspect_cb inspected; /* one of the two; neither: it was cancelled */
    force_cb forced;
    void *arg;
    enum status failure; /* of one in failed_queries */
    const char *fault;   /* of its name, if that is STATUS_INVALID */
    unsigned key_count;
    size_t name_len;
    char name[RLOCK_NAME_MAX];
};

static void call_back(const struct query *query, enum status status,
                      const struct rlock_info *info)
{
    if (query->inspected != NULL)
        query->inspected(status, status == STATUS_OK ? info : NULL, query->arg);
    else if (query->forced != NULL)
        query->forced(status, query->arg);
}

/** End the query; its memory is freed before the callback is called. */
static void answer(struct query *query, enum status status, const struct rlock_info *info)
{
    struct query copy = *query;

    list_remove(&query->link);
    free(query);
    call_back(&copy, status, info);
}

static void answer_forced(struct query *query, const struct redis_reply *reply)
{
    int64_t count;

    if (!redis_reply_int(redis_script_at(reply, 0), &count))
        answer(query, STATUS_IO, NULL);
    else
        answer(query, count > 0 ? STATUS_OK : STATUS_NOT_FOUND, NULL);
}

static void answer_inspected(struct query *query, const struct redis_reply *reply)
{
    const struct redis_reply *owner = redis_script_at(reply, 0);
    struct rlock_info info = {0};

    if (redis_reply_is_nil(owner)) {
        answer(query, STATUS_NOT_FOUND, NULL);
        return;
    }
    info.owner = redis_reply_text(owner, &info.owner_len);
    if (info.owner == NULL ||
        !redis_reply_int(redis_script_at(reply, 1), &info.remaining_ms) ||
        !redis_reply_int(redis_script_at(reply, 2), &info.count)) {
        answer(query, STATUS_IO, NULL);
        return;
    }
    info.is_ours = strncmp(info.owner, query->client->id, RLOCK_CLIENT_ID_LEN) == 0;
    answer(query, STATUS_OK, &info);
}

static void inspect_on_reply(struct redis_script_call *call, enum status status,
                             const struct redis_reply *reply)
{
    struct query *query = list_item(call, struct query, call);

    if (status == STATUS_REFUSED)
        status = rlock_server_refused(query->client, reply);
    if (status != STATUS_OK)
        answer(query, status, NULL);
    else if (query->forced != NULL)
        answer_forced(query, reply);
    else
        answer_inspected(query, reply);
}

static void fail(struct query *query, enum status status)
{
    query->failure = status;
    list_remove(&query->link);
    list_append(&query->client->failed_queries, &query->link);
    rlock_client_wake(query->client);
}

static void write_with_suffix(const struct query *query, const char *suffix)
{
    char key[RLOCK_KEY_MAX];

    redis_conn_arg(query->client->conn, key,
                   rlock_keys_with_suffix(query->name, query->name_len, suffix, key));
}

/** The name, and the keys that belong to it if the script takes them. */
static void write_keys(const struct query *query)
{
    redis_conn_arg(query->client->conn, query->name, query->name_len);
    if (query->key_count == 1)
        return;
    write_with_suffix(query, RLOCK_QUEUE_SUFFIX);
    write_with_suffix(query, RLOCK_BEATS_SUFFIX);
}

static void send_query(struct query *query)
{
    struct redis_conn *conn = query->client->conn;
    enum status status = redis_script_begin(conn, &query->call, query->key_count, 0);

    if (status == STATUS_OK) {
        write_keys(query);
        status = redis_script_end(conn, &query->call);
    }
    rlock_client_wake(query->client);
    if (status != STATUS_OK)
        fail(query, status);
}

static void inspect_on_send_again(struct redis_script_call *call)
{
    struct query *query = list_item(call, struct query, call);

    if (query->client->is_closing) {
        answer(query, STATUS_CANCELLED, NULL);
        return;
    }
    send_query(query);
    redis_conn_flush(query->client->conn);
}

/** Start a copy of `request`, in which the callback and the number of keys are set. */
static void start(struct rlock_client *client, const struct query *request,
                  enum rlock_script script, const char *name, size_t name_len)
{
    struct query *query;

    if (rlock_client_is_inherited(client)) {
        call_back(request, STATUS_INVALID, NULL);
        return;
    }
    query = malloc(sizeof(*query));
    if (query == NULL) {
        call_back(request, STATUS_NO_MEMORY, NULL);
        return;
    }
    *query = *request;
    query->client = client;
    query->fault = rlock_keys_find_fault(client, name, name_len);
    query->call.script = &client->scripts[script];
    query->call.done = inspect_on_reply;
    query->call.send_again = inspect_on_send_again;
    list_append(&client->queries, &query->link);
    if (client->is_closing) {
        fail(query, STATUS_CANCELLED);
    } else if (query->fault != NULL) {
        fail(query, STATUS_INVALID);
    } else {
        query->name_len = name_len;
        memcpy(query->name, name, name_len);
        send_query(query);
    }
}

void rlock_inspect(struct rlock_client *client, const char *name, size_t name_len,
                   inspect_cb callback, void *arg)
{
    struct query request = {.inspected = callback, .arg = arg, .key_count = 1};

    start(client, &request, RLOCK_SCRIPT_INSPECT, name, name_len);
}

void rlock_force_release(struct rlock_client *client, const char *name, size_t name_len,
                         force_cb callback, void *arg)
{
    struct query request = {.forced = callback, .arg = arg, .key_count = 3};

    start(client, &request, RLOCK_SCRIPT_FORCE, name, name_len);
}

void rlock_queries_complete_failed(struct rlock_client *client)
{
    LIST_DRAIN_PRESENT(struct query, query, &client->failed_queries, link) {
        if (query->failure == STATUS_INVALID)
            err_set(&client->why, STATUS_INVALID, "%s", query->fault);
        answer(query, query->failure, NULL);
    }
}

/** The connection still uses the memory of a query in progress. */
static void cancel(struct query *query)
{
    struct query copy = *query;

    query->inspected = NULL;
    query->forced = NULL;
    call_back(&copy, STATUS_CANCELLED, NULL);
}

void rlock_queries_cancel(struct rlock_client *client)
{
    LIST_DRAIN(struct query, query, &client->queries, link)
        cancel(query);
    LIST_DRAIN(struct query, query, &client->failed_queries, link)
        answer(query, STATUS_CANCELLED, NULL);
}
