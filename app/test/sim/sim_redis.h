/*
 * sim_redis.h - a simulated Redis server: its connections, its keys, its faults.
 *
 * It understands the commands that lib/lock sends. sim_redis_scripts.c has the keys and runs the Lua
 * scripts.
 */
#ifndef SIM_REDIS_H
#define SIM_REDIS_H

#include "app/test/sim/sim_net.h"

#include <hiredis/hiredis.h>
#include <stddef.h>

/* -- connections, for sim_socket.c -- */

/** From a client: bytes, or the start or the end of the connection. */
struct sim_chunk {
    struct sim_message head;
    enum sim_chunk_kind { CHUNK_BEGIN, CHUNK_BYTES, CHUNK_END } kind;
    size_t in_flight; /* orders that the service had accepted when it sent this */
    size_t len;
    char bytes[];
};

/** To a client. */
struct sim_reply {
    struct sim_message head;
    enum sim_reply_kind { REPLY_CONNECTED, REPLY_REFUSED, REPLY_DATA, REPLY_END } kind;
    redisReply *data;
};

struct sim_peer;

/** The server's end of a new connection; `to_client` is the client's input. */
struct sim_peer *sim_peer_open(struct sim_stream *to_client, unsigned service);

/** The input of the connection. */
struct sim_stream *sim_peer_stream(struct sim_peer *peer);

/* -- the server, for the schedule -- */

void sim_redis_begin(void);

/** The server answers nothing until `until_us`, and then everything that has arrived. */
void sim_redis_hang(int64_t until_us);

enum sim_redis_data { DATA_NONE, DATA_SNAPSHOT, DATA_ALL };

/** The server restarts, and accepts connections from `up_us` on. */
void sim_redis_restart(int64_t up_us, enum sim_redis_data kept);

/** Answer scripts with an error until `until_us`. */
void sim_redis_refuse(const char *error, int64_t until_us);

/** For a random connection: cut it, hold one direction, or lose or double a reply. */
void sim_redis_cut(void);
void sim_redis_hold(int64_t until_us);
void sim_redis_disturb(void);

/** Hold all messages from a service, or all messages to it, until `until_us`. */
void sim_redis_part(unsigned service, int64_t until_us);

/** The process of a service was killed: its connections end after the bytes that it has sent. */
void sim_redis_end_service(unsigned service);

/** End all faults. */
void sim_redis_heal(void);

#endif
