/*
 * handshake.h - the first commands of a connection. They log in, choose the database and check the
 * server.
 *
 * AUTH, SELECT, PING, EVALSHA, EVAL, HELLO and EXISTS leave in one write. PING fails if the server
 * is still loading its data. HELLO shows whether the server is a replica, and whether its version
 * is too old. EXISTS is sent in a cluster only, with a key: the master of the key replies, and
 * other nodes name the master in the error MOVED. EVALSHA and EVAL run a script that names the
 * rights that the user lacks. Later scripts are called in both ways, so the user needs the right to
 * both commands.
 */
#ifndef REDIS_HANDSHAKE_H
#define REDIS_HANDSHAKE_H

#include "redis/conn.h"
#include "redis/discovery.h"
#include "redis/wire.h"

struct redis_handshake {
    const char *verbs[7];
    unsigned count, replied;
    enum redis_topology wanted;
    bool has_shards; /* Redis 7.0 or later */
    char lacks[256];
};

/** Add the commands of the handshake to `wire`. `key` is used in a cluster only. If rights->script
 *  is NULL, the rights are not checked. */
void redis_handshake_start(struct redis_handshake *handshake, const struct redis_url *url,
                           const char *key, const struct redis_rights *rights,
                           struct redis_wire *wire);

/** Check the next reply. Returns RLOCK_OK, or RLOCK_REFUSED if the connection must leave this
 *  server. */
MUST_CHECK enum rlock_status redis_handshake_read(struct redis_handshake *handshake,
                                                  const struct redis_reply *reply,
                                                  bool is_error,
                                                  struct rlock_err *reterr);

bool redis_handshake_is_done(const struct redis_handshake *handshake);

#endif
