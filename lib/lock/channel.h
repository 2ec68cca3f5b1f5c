/*
 * channel.h - the pub/sub channels of a client. They have a second connection to each server.
 *
 * A channel exists while it has listeners. If the connection is lost, the channel is subscribed
 * again later, and until then no messages arrive.
 */
#ifndef LOCK_CHANNEL_H
#define LOCK_CHANNEL_H

#include "lock/internal.h"

struct rlock_channel {
    struct redis_command command; /* the SUBSCRIBE or UNSUBSCRIBE in progress */
    struct rlock_link link;
    struct rlock_link listeners; /* links passed to rlock_channel_join(), oldest first */
    struct rlock_server *server;
    bool has_command;
    bool is_subscribed;
    bool is_refused; /* the server refuses subscriptions on this connection */
    /* The next four members are for wait.c, and concern only the releases by this client. */
    unsigned unreplied; /* releases that have no reply yet */
    /* messages that have not come yet, of releases that have a reply */
    unsigned expected_messages;
    unsigned early_messages; /* messages that came before the replies to the releases */
    bool was_overtaken;      /* a try found the lock busy while a release had no reply */
    size_t name_len;
    char name[RLOCK_CHANNEL_MAX];
};

void rlock_channels_init(struct rlock_channels *channels,
                         const struct rlock_channel_events *events);

/** Close the connections. No channel may have listeners. */
void rlock_channels_close(struct rlock_client *client);
void rlock_channels_clear(struct rlock_channels *channels);

/** Return the channel on which the release of the lock is published. The result is NULL if the
 *  channel has no listeners. */
struct rlock_channel *rlock_channel_find(struct rlock_client *client,
                                         const struct rlock *lock);

/** Add `listener` as the last listener of the lock's channel. Returns NULL if the channel cannot
 *  be created. */
struct rlock_channel *rlock_channel_join(struct rlock_client *client,
                                         const struct rlock *lock,
                                         struct rlock_link *listener);

/** Subscribe or unsubscribe the channel, as its listeners need. The caller calls this when the
 *  last listener has left. The channel is then freed, unless a command is in progress. */
void rlock_channel_update(struct rlock_channel *channel);

void rlock_channels_flush(struct rlock_client *client);

#endif
