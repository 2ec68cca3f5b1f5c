/*
 * sim_redis.h - a simulated Redis server: its connections, its keys, its faults.
 *
 * The server understands the commands that lib/lock sends. sim_redis_scripts.c has the keys and
 * runs the Lua scripts.
 */
#ifndef SIM_REDIS_H
#define SIM_REDIS_H

#include "app/test/sim/sim_net.h"

#include <hiredis/hiredis.h>
#include <stddef.h>

/* -- connections, for sim_socket.c -- */

struct sim_chunk {
    struct sim_message head;
    enum sim_chunk_kind { CHUNK_BEGIN, CHUNK_BYTES, CHUNK_END } kind;
    size_t in_flight;
    size_t len;
    char bytes[];
};

struct sim_reply {
    struct sim_message head;
    enum sim_reply_kind { REPLY_CONNECTED, REPLY_REFUSED, REPLY_DATA, REPLY_END } kind;
    redisReply *data;
};

struct sim_peer;

struct sim_peer *sim_peer_open(struct sim_stream *to_client, unsigned service);

struct sim_stream *sim_peer_stream(struct sim_peer *peer);

/* -- the server, for the schedule -- */

void sim_redis_begin(void);

void sim_redis_hang(int64_t until_us);

enum sim_redis_data { DATA_NONE, DATA_SNAPSHOT, DATA_ALL };

void sim_redis_restart(int64_t up_us, enum sim_redis_data kept);

void sim_redis_refuse(const char *error, int64_t until_us);

/** Each of the next three functions chooses a connection at random. The first function cuts the
 *  connection, the second holds all messages in one direction, and the third loses or doubles a
 *  reply. */
void sim_redis_cut(void);
void sim_redis_hold(int64_t until_us);
void sim_redis_disturb(void);

void sim_redis_part(unsigned service, int64_t until_us);

/** The process of a service was killed. Its connections end after the bytes that the process has
 *  sent. */
void sim_redis_end_service(unsigned service);

void sim_redis_heal(void);

#endif
