/*
 * client.c - opens and closes a client, and lets it answer and send once a turn of its loop.
 *
 * When a client is closed, first all callers get their answer. Then the library releases the locks
 * that their calls may have left on the server. It waits for the replies, at most for the timeout
 * of a command, and closes the connection.
 */
#include "lock/batch.h"
#include "lock/channel.h"
#include "lock/keys.h"
#include "lock/orphan.h"
#include "lock/server.h"
#include "lock/state.h"
#include "lock/wait.h"
#include "lock/watchdog.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct rlock) <= 408, "callers keep one per request");

static void client_on_soon(uv_idle_t *soon)
{
    struct rlock_client *client = soon->data;

    uv_idle_stop(soon);
    rlock_state_call_back(client);
    rlock_batch_complete_failed(client);
    if (client->is_closing)
        return;
    rlock_batch_flush(client);
    rlock_channels_flush(client);
}

static bool are_all_up(const struct rlock_client *client)
{
    for (unsigned i = 0; i < client->server_count; i++) {
        if (!redis_conn_is_up(client->servers[i].conn))
            return false;
    }
    return true;
}

/** The client is up when all its servers are up. */
static void client_on_state(bool is_up, const struct rlock_err *why, void *arg)
{
    struct rlock_server *server = arg;
    struct rlock_client *client = server->client;
    bool is_new = is_up ? !client->is_up && are_all_up(client)
                        : client->is_up || strcmp(client->why.text, why->text) != 0;

    if (client->is_closing)
        return;
    if (!is_up)
        client->why = *why;
    if (is_up) {
        rlock_server_connected(server);
        /* A script counts only those receivers of its message that are connected to its own
           node. So the channels must be on the same node as the locks. */
        if (server->channels != NULL && client->server_count > 1)
            redis_conn_follow(server->channels, server->conn);
        rlock_orphan_resume(client);
        rlock_watchdog_resume(client);
        rlock_waits_resume(client);
        rlock_batch_flush(client);
    } else {
        /* The loop will end the batches that wait for this connection. */
        rlock_client_wake(client);
    }
    if (!is_new)
        return;
    client->is_up = is_up;
    client->stats.reconnects += is_up && client->was_up;
    client->was_up |= is_up;
    if (client->on_state != NULL && !client->is_closing)
        client->on_state(is_up, why, client->arg);
}

static void free_client(struct rlock_client *client)
{
    if (client == NULL)
        return;
    rlock_keys_clear(client);
    free(client);
}

static enum rlock_status check(const struct rlock_client_options *options,
                               struct rlock_err *reterr)
{
    if (options == NULL || options->loop == NULL)
        return err_set(reterr, RLOCK_INVALID, "lock client: loop: must be set");
    if (options->redis_url == NULL)
        return err_set(reterr, RLOCK_INVALID, "lock client: redis_url: must be set");
    if (options->timeout_ms == 0)
        return err_set(reterr, RLOCK_INVALID, "lock client: timeout_ms: must be > 0");
    return RLOCK_OK;
}

static enum rlock_status connect_client(struct rlock_client *client,
                                        struct rlock_err *reterr)
{
    enum rlock_status status = RLOCK_OK;

    for (unsigned i = 0; i < client->server_count && status == RLOCK_OK; i++)
        status = rlock_server_connect(&client->servers[i], client_on_state, NULL,
                                      &client->servers[i].conn, reterr);
    for (unsigned i = 0; status != RLOCK_OK && client->servers[i].conn != NULL; i++)
        redis_conn_close(client->servers[i].conn, NULL, NULL);
    return status;
}

static void client_on_closed(void *arg)
{
    struct rlock_client *client = arg;

    /* Calls that were made after the close are answered here, because the loop no longer does
       it. */
    while (!list_is_empty(&client->answers))
        rlock_state_call_back(client);
    if (client->closed != NULL)
        client->closed(client->closed_arg);
    rlock_batches_clear(&client->batches);
    rlock_orphan_clear(client);
    rlock_waits_clear(client);
    free_client(client);
}

static void client_on_all_completed(struct rlock_client *client)
{
    if (!client->may_finish)
        return;
    client->is_finishing = true;
    rlock_orphan_close(client);
    closing_handle(&client->closing, (uv_handle_t *)&client->soon);
    for (unsigned i = 0; i < client->server_count; i++)
        redis_conn_close(client->servers[i].conn, closing_done,
                         closing_part(&client->closing));
    closing_done(&client->closing);
}

enum rlock_status rlock_client_open(const struct rlock_client_options *options,
                                    struct rlock_client **ret_client,
                                    struct rlock_err *reterr)
{
    struct rlock_client *client = NULL;
    enum rlock_status status = check(options, reterr);

    if (status != RLOCK_OK)
        return status;
    status = RLOCK_NO_MEMORY;
    client = calloc(1, sizeof(*client));
    if (client == NULL)
        goto out;
    client->process = process_generation();
    client->loop = options->loop;
    client->timeout_ms = options->timeout_ms;
    client->on_state = options->on_state;
    client->on_event = options->on_event;
    client->arg = options->arg;
    status = redis_url_parse(options->redis_url, &client->url, reterr);
    client->server_count = client->url.topology == REDIS_CLUSTER ? RLOCK_BUCKETS : 1;
    for (unsigned i = 0; i < client->server_count; i++)
        client->servers[i].client = client;
    if (status == RLOCK_OK)
        status = rlock_keys_init(client, options->fence_key, reterr);
    rlock_scripts_init(client->scripts, client->server_count > 1);
    if (status == RLOCK_OK)
        status = connect_client(client, reterr);
    if (status != RLOCK_OK)
        goto out;
    /* The calls below cannot fail, and no callback is called before the loop runs. */
    rlock_scripts_init(client->scripts, client->server_count > 1);
    rlock_batches_init(&client->batches, client_on_all_completed);
    rlock_waits_init(client);
    rlock_watchdog_init(client);
    rlock_orphan_init(client);
    list_init(&client->answers);
    uv_idle_init(client->loop, &client->soon);
    client->soon.data = client;
    client->on_soon = client_on_soon;
    *ret_client = client;
    return RLOCK_OK;
out:
    if (status == RLOCK_NO_MEMORY)
        err_set(reterr, status, "lock client: no memory");
    free_client(client);
    return status;
}

void rlock_client_close(struct rlock_client *client, void (*closed)(void *arg), void *arg)
{
    if (client == NULL || rlock_client_is_inherited(client)) {
        if (closed != NULL)
            closed(arg);
        return;
    }
    client->is_closing = true;
    client->closed = closed;
    client->closed_arg = arg;
    closing_start(&client->closing, client_on_closed, client);
    rlock_batch_cancel_all(client);
    rlock_waits_close(client);
    rlock_watchdog_close(client);
    rlock_orphan_resume(client);
    rlock_batch_flush(client);
    while (!list_is_empty(&client->answers))
        rlock_state_call_back(client);
    rlock_batch_flush(client); /* sends the releases that the callbacks have begun */
    rlock_batch_complete_failed(client);
    client->may_finish = true;
    if (rlock_batches_are_completed(&client->batches))
        client_on_all_completed(client);
}

bool rlock_client_is_up(const struct rlock_client *client)
{
    return !client->is_closing && client->process == process_generation() &&
           are_all_up(client);
}

void rlock_flush(struct rlock_client *client)
{
    if (client->is_closing || client->process != process_generation())
        return;
    rlock_batch_flush(client);
    rlock_channels_flush(client);
    if (list_is_empty(&client->answers) && list_is_empty(&client->batches.failed))
        uv_idle_stop(&client->soon);
}

void rlock_client_stats(const struct rlock_client *client, struct rlock_stats *ret_stats)
{
    *ret_stats = client->stats;
}

const struct rlock_err *rlock_client_why(const struct rlock_client *client)
{
    return &client->why;
}
