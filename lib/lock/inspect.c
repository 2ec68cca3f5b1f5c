/*
 * inspect.c - queries about names, whatever client holds them: inspect, list and force release.
 *
 * A query contains a struct rlock of its own, which is alone in a batch. So a query is sent, sent
 * again, refused and cancelled like any other call.
 */
#include "lock/batch.h"
#include "lock/keys.h"
#include "lock/state.h"

#include <stdlib.h>
#include <string.h>

typedef void (*inspect_cb)(enum rlock_status status, const struct rlock_info *info,
                           void *arg);
typedef bool (*each_cb)(const struct rlock_info *info, void *arg);
typedef void (*end_cb)(enum rlock_status status, void *arg);

struct query {
    /* The name of `lock` is inspected. A scan keeps its cursor in lock.serial. */
    struct rlock lock;
    inspect_cb inspected; /* set for rlock_inspect(), where `ended` is NULL */
    each_cb each;
    end_cb ended;
    void *arg;
};

static const struct rlock_op scan_op;

static void call_back(const struct query *query, enum rlock_status status,
                      const struct rlock_info *info)
{
    if (query->inspected != NULL)
        query->inspected(status, status == RLOCK_OK ? info : NULL, query->arg);
    else if (query->ended != NULL)
        query->ended(status, query->arg);
}

/** End the query. The memory of the query is freed before the callback is called. */
static void answer(struct rlock *lock, enum rlock_status status,
                   const struct rlock_info *info)
{
    struct query *query = list_item(lock, struct query, lock);
    struct query copy = *query;

    free(query);
    call_back(&copy, status, info);
}

static void inspect_on_answer(struct rlock *lock, enum rlock_status status,
                              void *arg UNUSED)
{
    answer(lock, status, NULL);
}

static enum rlock_status read_info(struct rlock_client *client, const struct rlock *lock,
                                   const struct redis_reply *reply, size_t index,
                                   struct rlock_info *ret_info)
{
    const struct redis_reply *row = redis_script_at(reply, index + 1);
    size_t tag_len = rlock_server_of(client, lock)->tag_len;

    if (redis_reply_text(redis_script_at(reply, 0), &ret_info->name_len) == NULL)
        return RLOCK_IO;
    if (row == NULL)
        return RLOCK_NOT_FOUND;
    ret_info->name = redis_reply_text(redis_reply_at(row, 0), &ret_info->name_len);
    ret_info->owner = redis_reply_text(redis_reply_at(row, 1), &ret_info->owner_len);
    if (ret_info->name == NULL || ret_info->name_len < tag_len ||
        ret_info->owner == NULL ||
        !redis_reply_int(redis_reply_at(row, 2), &ret_info->remaining_ms) ||
        !redis_reply_int(redis_reply_at(row, 3), &ret_info->count) ||
        !redis_reply_int(redis_reply_at(row, 4), &ret_info->waiters))
        return RLOCK_IO;
    ret_info->client = client;
    ret_info->name += tag_len;
    ret_info->name_len -= tag_len;
    ret_info->is_ours = strncmp(ret_info->owner, client->id, RLOCK_CLIENT_ID_LEN) == 0;
    ret_info->is_near = strncmp(ret_info->owner, client->id, RLOCK_HOST_LEN) == 0;
    return RLOCK_OK;
}

/** Continue the scan, or begin the scan of the next bucket. Returns RLOCK_NOT_FOUND if all buckets
 *  are done. */
static enum rlock_status scan_on(struct rlock_client *client, struct rlock *lock,
                                 const struct redis_reply *reply)
{
    lock->serial = strtoull(redis_reply_text(redis_script_at(reply, 0), NULL), NULL, 10);
    if (lock->serial == 0)
        lock->bucket++;
    if (lock->bucket == client->server_count)
        return RLOCK_NOT_FOUND;
    return rlock_batch_add(client, &scan_op, lock);
}

static void inspect_on_rows(struct rlock_client *client, struct rlock *lock,
                            const struct rlock_result *result)
{
    const struct query *query = list_item(lock, struct query, lock);
    enum rlock_status status = result->status;
    struct rlock_info info = {0};

    for (size_t i = 0; status == RLOCK_OK; i++) {
        status = read_info(client, lock, result->reply, i, &info);
        if (query->each == NULL ||
            (status == RLOCK_OK && !query->each(&info, query->arg))) {
            answer(lock, status, &info);
            return;
        }
    }
    if (status == RLOCK_NOT_FOUND && lock->name_len == 0) {
        status = scan_on(client, lock, result->reply);
        if (status == RLOCK_OK)
            return;
    }
    answer(lock, status == RLOCK_NOT_FOUND ? RLOCK_OK : status, NULL);
}

static void inspect_on_forced(struct rlock_client *client UNUSED, struct rlock *lock,
                              const struct rlock_result *result)
{
    enum rlock_status status = result->status;
    int64_t count;

    if (status == RLOCK_OK && !redis_reply_int(redis_script_at(result->reply, 0), &count))
        status = RLOCK_IO;
    else if (status == RLOCK_OK && count == 0)
        status = RLOCK_NOT_FOUND;
    answer(lock, status, NULL);
}

/* clang-format off */
static const enum rlock_word none[]           = {RLOCK_WORD_END};
static const enum rlock_word fences[]         = RLOCK_WORDS(RLOCK_KEY_FENCES);
static const enum rlock_word lock_name[]      = RLOCK_WORDS(RLOCK_KEY_NAME);
static const enum rlock_word queue[]          = RLOCK_WORDS(RLOCK_KEY_NAME, RLOCK_KEY_QUEUE, RLOCK_KEY_BEATS);
static const enum rlock_word tag_and_serial[] = RLOCK_WORDS(RLOCK_ARG_TAG, RLOCK_ARG_SERIAL);

#define QUERY(script, class_id, shared, keys, args, on_result)                               \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_##class_id, RLOCK_OK, false, shared, keys,          \
     args, on_result, rlock_state_cancel_call, true}

static const struct rlock_op inspect_op = QUERY(INSPECT, ACQUIRE, none,   lock_name, none,           inspect_on_rows);
static const struct rlock_op scan_op    = QUERY(LIST,    ACQUIRE, fences, none,      tag_and_serial, inspect_on_rows);
static const struct rlock_op force_op   = QUERY(FORCE,   RELEASE, none,   queue,     none,           inspect_on_forced);
/* clang-format on */

/** Start a query that is a copy of `request`, in which only the callbacks and `arg` are set. */
static void start(struct rlock_client *client, const struct query *request,
                  const struct rlock_op *op, const char *name, size_t name_len)
{
    bool is_inherited = rlock_client_is_inherited(client);
    struct query *query = is_inherited ? NULL : malloc(sizeof(*query));
    enum rlock_status status = RLOCK_CANCELLED;
    struct rlock *lock;

    if (query == NULL) {
        call_back(request, is_inherited ? RLOCK_INVALID : RLOCK_NO_MEMORY, NULL);
        return;
    }
    *query = *request;
    lock = &query->lock;
    lock->callback = inspect_on_answer;
    if (op != &scan_op)
        lock->reason = rlock_keys_set_name(client, lock, name, name_len);
    if (!client->is_closing)
        status = lock->reason == NULL ? rlock_batch_add(client, op, lock) : RLOCK_INVALID;
    if (status != RLOCK_OK)
        rlock_state_answer(client, lock, status);
}

void rlock_inspect(struct rlock_client *client, const char *name, size_t name_len,
                   inspect_cb callback, void *arg)
{
    struct query request = {.inspected = callback, .arg = arg};

    start(client, &request, &inspect_op, name, name_len);
}

void rlock_list(struct rlock_client *client, const char *name, size_t name_len,
                each_cb each, end_cb callback, void *arg)
{
    struct query request = {.each = each, .ended = callback, .arg = arg};

    start(client, &request, name == NULL ? &scan_op : &inspect_op, name, name_len);
}

void rlock_force_release(struct rlock_client *client, const char *name, size_t name_len,
                         end_cb callback, void *arg)
{
    struct query request = {.ended = callback, .arg = arg};

    start(client, &request, &force_op, name, name_len);
}
