/*
 * inspect.c - queries about a name, whatever client holds it: inspect and force release.
 *
 * A query is a lock of the library's own that is alone in a batch, so it is sent, sent
 * again, refused and cancelled as any other call.
 */
#include "lock/batch.h"
#include "lock/keys.h"
#include "lock/state.h"

#include <stdlib.h>
#include <string.h>

#define PTTL_NO_KEY (-2)

typedef void (*inspect_cb)(enum status status, const struct rlock_info *info, void *arg);
typedef void (*force_cb)(enum status status, void *arg);

struct query {
    struct rlock lock;
    inspect_cb inspected; /* one of the two */
    force_cb forced;
    void *arg;
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
static void answer(struct rlock *lock, enum status status, const struct rlock_info *info)
{
    struct query *query = list_item(lock, struct query, lock);
    struct query copy = *query;

    free(query);
    call_back(&copy, status, info);
}

static void inspect_on_answer(struct rlock *lock, enum status status, void *arg UNUSED)
{
    answer(lock, status, NULL);
}

static enum status read_info(const struct rlock_client *client,
                             const struct redis_reply *reply, struct rlock_info *ret_info)
{
    ret_info->owner = redis_reply_text(redis_script_at(reply, 0), &ret_info->owner_len);
    if (!redis_reply_int(redis_script_at(reply, 1), &ret_info->remaining_ms) ||
        !redis_reply_int(redis_script_at(reply, 2), &ret_info->count))
        return STATUS_IO;
    if (ret_info->owner == NULL)
        return ret_info->remaining_ms == PTTL_NO_KEY ? STATUS_NOT_FOUND : STATUS_IO;
    ret_info->is_ours = strncmp(ret_info->owner, client->id, RLOCK_CLIENT_ID_LEN) == 0;
    return STATUS_OK;
}

static void inspect_on_inspected(struct rlock_client *client, struct rlock *lock,
                                 const struct rlock_result *result)
{
    struct rlock_info info = {0};
    enum status status = result->status;

    if (status == STATUS_OK)
        status = read_info(client, result->reply, &info);
    answer(lock, status, &info);
}

static void inspect_on_forced(struct rlock_client *client UNUSED, struct rlock *lock,
                              const struct rlock_result *result)
{
    enum status status = result->status;
    int64_t count;

    if (status == STATUS_OK &&
        !redis_reply_int(redis_script_at(result->reply, 0), &count))
        status = STATUS_IO;
    else if (status == STATUS_OK && count == 0)
        status = STATUS_NOT_FOUND;
    answer(lock, status, NULL);
}

/* clang-format off */
#define QUERY(script, class_id, keys, on_result)                                             \
    {RLOCK_SCRIPT_##script, RLOCK_CLASS_##class_id, STATUS_OK, false, "", keys, "",          \
     on_result, rlock_state_cancel_call, true}

static const struct rlock_op inspect_op = QUERY(INSPECT, ACQUIRE, "n",   inspect_on_inspected);
static const struct rlock_op force_op   = QUERY(FORCE,   RELEASE, "nqb", inspect_on_forced);
/* clang-format on */

/** Start a copy of `request`, in which the callback is set. */
static void start(struct rlock_client *client, const struct query *request,
                  const struct rlock_op *op, const char *name, size_t name_len)
{
    bool is_inherited = rlock_client_is_inherited(client);
    struct query *query = is_inherited ? NULL : malloc(sizeof(*query));
    enum status status = STATUS_CANCELLED;
    struct rlock *lock;

    if (query == NULL) {
        call_back(request, is_inherited ? STATUS_INVALID : STATUS_NO_MEMORY, NULL);
        return;
    }
    *query = *request;
    lock = &query->lock;
    lock->callback = inspect_on_answer;
    lock->reason = rlock_keys_set_name(client, lock, name, name_len);
    if (!client->is_closing)
        status =
            lock->reason == NULL ? rlock_batch_add(client, op, lock) : STATUS_INVALID;
    if (status != STATUS_OK)
        rlock_state_answer(client, lock, status);
}

void rlock_inspect(struct rlock_client *client, const char *name, size_t name_len,
                   inspect_cb callback, void *arg)
{
    struct query request = {.inspected = callback, .arg = arg};

    start(client, &request, &inspect_op, name, name_len);
}

void rlock_force_release(struct rlock_client *client, const char *name, size_t name_len,
                         force_cb callback, void *arg)
{
    struct query request = {.forced = callback, .arg = arg};

    start(client, &request, &force_op, name, name_len);
}
