/*
 * channel.c - subscribes and unsubscribes as listeners join and leave.
 *
 * In a cluster of Redis 7.0 or later the commands are SSUBSCRIBE and SUNSUBSCRIBE, so that the
 * other nodes do not get the messages. When a slot moves, the server ends the subscriptions of the
 * slot by replies that belong to no command. The first such reply ends the connection.
 *
 * A channel has at most one command in progress. When its reply has come, the channel compares its
 * state with its listeners again. So if a listener joins during an UNSUBSCRIBE, the channel is
 * subscribed again afterwards.
 */
#include "lock/channel.h"
#include "lock/keys.h"
#include "lock/server.h"

#include <stdlib.h>
#include <string.h>

void rlock_channels_init(struct rlock_channels *channels,
                         const struct rlock_channel_events *events)
{
    channels->events = events;
    for (int i = 0; i < RLOCK_CHANNEL_BUCKETS; i++)
        list_init(&channels->buckets[i]);
}

static struct rlock_link *bucket_of(struct rlock_channels *channels, const char *name,
                                    size_t name_len)
{
    return &channels->buckets[rlock_keys_hash(name, name_len) % RLOCK_CHANNEL_BUCKETS];
}

static struct rlock_channel *find(struct rlock_channels *channels, const char *name,
                                  size_t name_len)
{
    LIST_EACH(struct rlock_channel, channel, bucket_of(channels, name, name_len), link) {
        if (channel->name_len == name_len && memcmp(channel->name, name, name_len) == 0)
            return channel;
    }
    return NULL;
}

static void channel_on_reply(struct redis_command *command, enum rlock_status status,
                             const struct redis_reply *reply)
{
    struct rlock_channel *channel = list_item(command, struct rlock_channel, command);

    channel->is_subscribed = status == RLOCK_OK && !channel->is_subscribed;
    channel->is_refused = status == RLOCK_REFUSED;
    if (channel->is_refused)
        (void)rlock_server_refused(channel->server->client, reply);
    if (channel->is_subscribed)
        channel->server->client->channels.events->on_subscribed(channel);
    channel->has_command = false;
    rlock_channel_update(channel);
}

/** @verb  SSUBSCRIBE or SUNSUBSCRIBE. Without sharded pub/sub its first letter is left out */
static void send_command(struct rlock_channel *channel, const char *verb)
{
    struct redis_conn *conn = channel->server->channels;

    if (redis_conn_begin(conn, 2) != RLOCK_OK)
        return; /* channel_on_state() sends the command when the connection is up */
    redis_conn_arg_text(conn, redis_conn_is_sharded(conn) ? verb : verb + 1);
    redis_conn_arg(conn, channel->name, channel->name_len);
    channel->has_command =
        redis_conn_end(conn, &channel->command, channel_on_reply) == RLOCK_OK;
    rlock_client_wake(channel->server->client);
}

static void adjust(struct rlock_channel *channel)
{
    bool is_needed = !list_is_empty(&channel->listeners);

    if (channel->has_command)
        return;
    if (is_needed && !channel->is_subscribed && !channel->is_refused)
        send_command(channel, "SSUBSCRIBE");
    else if (!is_needed && channel->is_subscribed)
        send_command(channel, "SUNSUBSCRIBE");
}

void rlock_channel_update(struct rlock_channel *channel)
{
    adjust(channel);
    if (list_is_empty(&channel->listeners) && !channel->has_command) {
        channel->server->client->channels.count--;
        list_remove(&channel->link);
        free(channel);
    }
}

static void channel_on_message(const struct redis_reply *reply, void *arg)
{
    struct rlock_client *client = ((struct rlock_server *)arg)->client;
    size_t name_len = 0, text_len = 0;
    const char *name = redis_reply_text(redis_reply_at(reply, 1), &name_len);
    const char *text = redis_reply_text(redis_reply_at(reply, 2), &text_len);
    struct rlock_channel *channel =
        name == NULL ? NULL : find(&client->channels, name, name_len);

    if (channel != NULL && text != NULL)
        client->channels.events->on_message(channel, text, text_len);
}

/** Subscriptions end with their connection. */
static void channel_on_state(bool is_up, const struct rlock_err *why UNUSED, void *arg)
{
    const struct rlock_server *server = arg;
    struct rlock_channels *channels = &server->client->channels;

    for (int i = 0; i < RLOCK_CHANNEL_BUCKETS; i++) {
        LIST_EACH_SAFE(struct rlock_channel, channel, &channels->buckets[i], link) {
            if (channel->server != server)
                continue;
            channel->is_subscribed = channel->is_refused = false;
            if (!is_up)
                channels->events->on_cut_off(channel);
            rlock_channel_update(channel);
        }
    }
}

void rlock_channels_close(struct rlock_client *client)
{
    for (unsigned i = 0; i < client->server_count; i++) {
        if (client->servers[i].channels != NULL)
            redis_conn_close(client->servers[i].channels, closing_done,
                             closing_part(&client->closing));
    }
}

void rlock_channels_clear(struct rlock_channels *channels)
{
    for (int i = 0; i < RLOCK_CHANNEL_BUCKETS; i++) {
        LIST_DRAIN(struct rlock_channel, channel, &channels->buckets[i], link)
            free(channel);
    }
}

static struct rlock_channel *create(struct rlock_server *server, const char *name,
                                    size_t name_len)
{
    struct rlock_channels *channels = &server->client->channels;
    struct rlock_channel *channel = calloc(1, sizeof(*channel));

    if (channel == NULL)
        return NULL;
    list_init(&channel->listeners);
    channel->server = server;
    channel->name_len = name_len;
    memcpy(channel->name, name, name_len);
    list_append(bucket_of(channels, name, name_len), &channel->link);
    channels->count++;
    return channel;
}

struct rlock_channel *rlock_channel_find(struct rlock_client *client,
                                         const struct rlock *lock)
{
    char name[RLOCK_CHANNEL_MAX];
    struct rlock_channel *channel =
        find(&client->channels, name, lock->kind->channel(lock, name));

    return channel == NULL || list_is_empty(&channel->listeners) ? NULL : channel;
}

struct rlock_channel *rlock_channel_join(struct rlock_client *client,
                                         const struct rlock *lock,
                                         struct rlock_link *listener)
{
    char name[RLOCK_CHANNEL_MAX];
    size_t name_len = lock->kind->channel(lock, name);
    struct rlock_server *server = rlock_server_of(client, lock);
    struct rlock_channel *channel = find(&client->channels, name, name_len);

    if (server->channels == NULL &&
        rlock_server_connect(server, channel_on_state, channel_on_message,
                             &server->channels, &client->why) != RLOCK_OK)
        return NULL;
    if (channel == NULL)
        channel = create(server, name, name_len);
    if (channel == NULL)
        return NULL;
    list_append(&channel->listeners, listener);
    adjust(channel);
    return channel;
}

void rlock_channels_flush(struct rlock_client *client)
{
    for (unsigned i = 0; i < client->server_count; i++) {
        if (client->servers[i].channels != NULL)
            redis_conn_flush(client->servers[i].channels);
    }
}
