/*
 * channel.h - the channels that are listened to, on one connection of the client's.
 *
 * A channel is there while somebody waits on it. Where the connection is lost it is
 * subscribed anew; in between its waiters must look for themselves.
 */
#ifndef LOCK_CHANNEL_H
#define LOCK_CHANNEL_H

#include "base/list.h"
#include "lock/rlock.h"
#include "redis/conn.h"

#define RLOCK_CHANNEL_MAX     (RLOCK_NAME_MAX + 32) /* bytes of a channel's name */
#define RLOCK_CHANNEL_BUCKETS 256

struct rlock_channel {
    struct redis_command command; /* the SUBSCRIBE or UNSUBSCRIBE under way */
    struct list link;             /* in its bucket */
    struct list waiters;          /* struct rlock_waiter, in order of arrival */
    struct rlock_client *client;
    bool is_asking;     /* the command is under way */
    bool is_subscribed; /* messages come */
    bool is_refused;    /* they never will on this connection */
    size_t name_len;
    char name[RLOCK_CHANNEL_MAX];
};

struct rlock_channels {
    struct list buckets[RLOCK_CHANNEL_BUCKETS];
    unsigned count;
    struct redis_conn *conn; /* NULL until the first is joined */
};

void rlock_channels_init(struct rlock_channels *channels);

/** Close the connection. Nobody waits any more. */
void rlock_channels_close(struct rlock_client *client);
void rlock_channels_clear(struct rlock_channels *channels);

/** NULL: nobody waits there. */
struct rlock_channel *rlock_channel_find(struct rlock_client *client, const char *name,
                                         size_t name_len);

/** Add `waiter_link` to the last of those who wait there; NULL: no memory. */
struct rlock_channel *rlock_channel_join(struct rlock_client *client, const char *name,
                                         size_t name_len, struct list *waiter_link);

/** The last of its waiters was taken out; the channel may be gone then. */
void rlock_channel_leave(struct rlock_channel *channel);

/** Send what was collected. */
void rlock_channels_flush(struct rlock_client *client);

#endif
