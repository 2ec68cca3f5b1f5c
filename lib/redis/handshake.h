/*
 * handshake.h - the first commands of a connection: login, choice of the database, and a
 * check of the server.
 *
 * AUTH, SELECT, PING, EVALSHA, EVAL, HELLO and EXISTS leave in one write. PING detects a
 * server that is still loading its data, HELLO a replica and a server that is too old. In
 * a cluster EXISTS asks for a key: its master replies, other nodes name the master by
 * MOVED. EVALSHA and EVAL run a script that names the rights that the user lacks: later
 * scripts are called in both ways, too.
 */
#ifndef REDIS_HANDSHAKE_H
#define REDIS_HANDSHAKE_H

#include "redis/conn.h"
#include "redis/discovery.h"
#include "redis/wire.h"

struct redis_handshake {
    const char *verbs[7]; /* the names of the commands, in the order of sending */
    unsigned count, replied;
    enum redis_topology wanted;
    bool has_shards; /* Redis 7.0 or later */
    char lacks[256]; /* the rights that the user lacks, as the script replied */
};

/** Add the commands of the handshake to `wire`. `key` is used in a cluster only. `rights` may be
 *  empty. */
void redis_handshake_start(struct redis_handshake *handshake, const struct redis_url *url,
                           const char *key, const struct redis_rights *rights,
                           struct redis_wire *wire);

/** Check the next reply. RLOCK_OK; RLOCK_REFUSED: leave this server. */
MUST_CHECK enum rlock_status redis_handshake_read(struct redis_handshake *handshake,
                                                  const struct redis_reply *reply,
                                                  bool is_error,
                                                  struct rlock_err *reterr);

/** Whether all replies have come. */
bool redis_handshake_is_done(const struct redis_handshake *handshake);

#endif
