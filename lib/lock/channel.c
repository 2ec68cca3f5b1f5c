/*
 * channel.c - SUBSCRIBE and UNSUBSCRIBE, as the waiters come and go.
 *
 * Each channel has one command under way at most; when it is answered the channel is
 * compared with what is wanted now, so that one who joins while the last UNSUBSCRIBE is
 * on its way is subscribed after it.
 */
#include "lock/channel.h"
#include "lock/internal.h"

#include <stdlib.h>
#include <string.h>

void rlock_channels_init(struct rlock_channels *channels)
{
    for (int i = 0; i < RLOCK_CHANNEL_BUCKETS; i++)
        list_init(&channels->buckets[i]);
}

/* FNV-1a, 32 bits. */
static struct list *bucket_of(struct rlock_channels *channels, const char *name,
                              size_t name_len)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < name_len; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return &channels->buckets[hash % RLOCK_CHANNEL_BUCKETS];
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

static void complete(struct rlock_channel *channel);

static void channel_on_reply(struct redis_command *command, enum status status,
                             const struct redis_reply *reply UNUSED)
{
    struct rlock_channel *channel = list_item(command, struct rlock_channel, command);

    channel->is_subscribed = status == STATUS_OK && !channel->is_subscribed;
    channel->is_refused = status == STATUS_REFUSED;
    if (channel->is_subscribed)
        rlock_waits_confirmed(channel);
    channel->is_asking = false;
    complete(channel);
}

static void ask(struct rlock_channel *channel, const char *verb)
{
    struct redis_conn *conn = channel->client->waits.channels.conn;

    if (redis_conn_begin(conn, 2) != STATUS_OK)
        return; /* when it is up, channel_on_state() comes by */
    redis_conn_arg_text(conn, verb);
    redis_conn_arg(conn, channel->name, channel->name_len);
    channel->is_asking =
        redis_conn_end(conn, &channel->command, channel_on_reply) == STATUS_OK;
    rlock_client_wake(channel->client);
}

/** Bring what is subscribed closer to what is wanted. */
static void advance(struct rlock_channel *channel)
{
    bool is_wanted = !list_is_empty(&channel->waiters);

    if (channel->is_asking)
        return;
    if (is_wanted && !channel->is_subscribed && !channel->is_refused)
        ask(channel, "SUBSCRIBE");
    else if (!is_wanted && channel->is_subscribed)
        ask(channel, "UNSUBSCRIBE");
}

/** The same, and it goes where nothing is left to do for it. */
static void complete(struct rlock_channel *channel)
{
    advance(channel);
    if (list_is_empty(&channel->waiters) && !channel->is_asking) {
        list_remove(&channel->link);
        free(channel);
    }
}

static void channel_on_message(const struct redis_reply *reply, void *arg)
{
    struct rlock_client *client = arg;
    size_t name_len = 0, text_len = 0;
    const char *name = redis_reply_text(redis_reply_at(reply, 1), &name_len);
    const char *text = redis_reply_text(redis_reply_at(reply, 2), &text_len);
    struct rlock_channel *channel =
        name == NULL ? NULL : find(&client->waits.channels, name, name_len);

    if (channel != NULL && text != NULL)
        rlock_waits_called(channel, text, text_len);
}

/** What was subscribed on the lost connection is not any more. */
static void channel_on_state(bool is_up, const struct err *why UNUSED, void *arg)
{
    struct rlock_client *client = arg;
    struct rlock_channels *channels = &client->waits.channels;

    for (int i = 0; i < RLOCK_CHANNEL_BUCKETS; i++) {
        LIST_EACH_SAFE(struct rlock_channel, channel, &channels->buckets[i], link) {
            channel->is_subscribed = channel->is_refused = false;
            if (!is_up)
                rlock_waits_cut_off(channel);
            complete(channel);
        }
    }
}

static enum status connect_channels(struct rlock_client *client)
{
    struct redis_conn_options options = {
        .loop = client->loop,
        .url = &client->url,
        .timeout_ms = client->timeout_ms,
        .on_state = channel_on_state,
        .on_message = channel_on_message,
        .arg = client,
    };
    enum status status =
        redis_conn_open(&options, &client->waits.channels.conn, &client->why);

    if (status == STATUS_OK)
        client->open_handles++;
    return status;
}

static void channel_on_closed(void *arg)
{
    rlock_client_handle_closed(arg);
}

void rlock_channels_close(struct rlock_client *client)
{
    if (client->waits.channels.conn != NULL)
        redis_conn_close(client->waits.channels.conn, channel_on_closed, client);
}

void rlock_channels_clear(struct rlock_channels *channels)
{
    for (int i = 0; i < RLOCK_CHANNEL_BUCKETS; i++) {
        LIST_DRAIN(struct rlock_channel, channel, &channels->buckets[i], link)
            free(channel);
    }
}

static struct rlock_channel *create(struct rlock_client *client, const char *name,
                                    size_t name_len)
{
    struct rlock_channel *channel = calloc(1, sizeof(*channel));

    if (channel == NULL)
        return NULL;
    list_init(&channel->waiters);
    channel->client = client;
    channel->name_len = name_len;
    memcpy(channel->name, name, name_len);
    list_append(bucket_of(&client->waits.channels, name, name_len), &channel->link);
    client->waits.channels.count++;
    return channel;
}

struct rlock_channel *rlock_channel_find(struct rlock_client *client, const char *name,
                                         size_t name_len)
{
    struct rlock_channel *channel = find(&client->waits.channels, name, name_len);

    return channel == NULL || list_is_empty(&channel->waiters) ? NULL : channel;
}

struct rlock_channel *rlock_channel_join(struct rlock_client *client, const char *name,
                                         size_t name_len, struct list *waiter_link)
{
    struct rlock_channels *channels = &client->waits.channels;
    struct rlock_channel *channel = find(channels, name, name_len);

    if (channels->conn == NULL && connect_channels(client) != STATUS_OK)
        return NULL;
    if (channel == NULL)
        channel = create(client, name, name_len);
    if (channel == NULL)
        return NULL;
    list_append(&channel->waiters, waiter_link);
    advance(channel);
    return channel;
}

void rlock_channel_leave(struct rlock_channel *channel)
{
    complete(channel);
}

void rlock_channels_flush(struct rlock_client *client)
{
    if (client->waits.channels.conn != NULL)
        redis_conn_flush(client->waits.channels.conn);
}
