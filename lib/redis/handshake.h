/*
 * handshake.h - the first commands of a connection: login, database, and whether the
 * server is the one that is wanted.
 *
 * AUTH, SELECT, PING and HELLO leave in one write. PING detects a server that is still
 * loading its data, HELLO a replica and a server that is too old.
 */
#ifndef REDIS_HANDSHAKE_H
#define REDIS_HANDSHAKE_H

#include "redis/discovery.h"
#include "redis/wire.h"

struct redis_handshake {
    const char *verbs[4]; /* of the commands, in the order sent */
    unsigned count, replied;
    bool wants_sentinel;
};

/** Add the commands to `wire`. */
void redis_handshake_start(struct redis_handshake *handshake, const struct redis_url *url,
                           bool wants_sentinel, struct redis_wire *wire);

/** Check the next reply. STATUS_OK; STATUS_REFUSED: leave this server. */
MUST_CHECK enum status redis_handshake_read(struct redis_handshake *handshake,
                                            const struct redis_reply *reply,
                                            bool is_error, struct err *reterr);

/** Whether all replies have come. */
bool redis_handshake_is_done(const struct redis_handshake *handshake);

#endif
