/*
 * handshake.h - the first commands of a connection: login, choice of the database, and a
 * check of the server.
 *
 * AUTH, SELECT, PING, HELLO and EXISTS leave in one write. PING detects a server that is
 * still loading its data, HELLO a replica and a server that is too old. In a cluster
 * EXISTS asks for a key: its master replies, other nodes name the master by MOVED.
 */
#ifndef REDIS_HANDSHAKE_H
#define REDIS_HANDSHAKE_H

#include "redis/discovery.h"
#include "redis/wire.h"

struct redis_handshake {
    const char *verbs[5]; /* of the commands, in the order sent */
    unsigned count, replied;
    enum redis_topology wanted;
    bool has_shards; /* Redis 7.0 or later */
};

/** Add the commands to `wire`. `key` is used in a cluster only. */
void redis_handshake_start(struct redis_handshake *handshake, const struct redis_url *url,
                           const char *key, struct redis_wire *wire);

/** Check the next reply. STATUS_OK; STATUS_REFUSED: leave this server. */
MUST_CHECK enum status redis_handshake_read(struct redis_handshake *handshake,
                                            const struct redis_reply *reply,
                                            bool is_error, struct err *reterr);

/** Whether all replies have come. */
bool redis_handshake_is_done(const struct redis_handshake *handshake);

#endif
