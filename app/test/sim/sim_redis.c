/* sim_redis.c - executes the commands of all connections in the order of their arrival. */
#include "app/test/sim/sim_redis.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_redis_scripts.h"

#include <stdlib.h>
#include <string.h>

#define PEERS_MAX     1024
#define CHANNELS_MAX  32
#define CHANNEL_BYTES 72
#define ARGS_MAX      600

struct sim_peer {
    struct sim_stream to_server;
    struct sim_stream *to_client;
    struct rlock_link unread;
    unsigned service;
    bool is_open;
    enum disturb { DISTURB_NOT, DISTURB_LOSE, DISTURB_DOUBLE } disturb;
    size_t channel_count;
    char channels[CHANNELS_MAX][CHANNEL_BYTES];
};

static struct {
    size_t peer_count;
    struct sim_peer *peers[PEERS_MAX];
    int64_t hung_until_us, down_until_us, refusing_until_us;
    const char *refusal;
} redis;

/* -- replies -- */

static void send_reply(struct sim_peer *peer, enum sim_reply_kind kind, redisReply *data)
{
    struct sim_reply *reply = sim_calloc(sizeof(*reply));

    reply->kind = kind;
    reply->data = data;
    sim_stream_send(peer->to_client, &reply->head);
}

static redisReply *status_line(const char *text)
{
    return sim_reply_text(REDIS_REPLY_STATUS, text, strlen(text));
}

static redisReply *error_line(const char *text)
{
    return sim_reply_text(REDIS_REPLY_ERROR, text, strlen(text));
}

static redisReply *bulk(const char *text)
{
    return sim_reply_text(REDIS_REPLY_STRING, text, strlen(text));
}

static void answer(struct sim_peer *peer, redisReply *reply)
{
    enum disturb disturb = peer->disturb;

    peer->disturb = DISTURB_NOT;
    if (disturb == DISTURB_DOUBLE && reply->type != REDIS_REPLY_ARRAY) {
        SIM_TRACE("redis: a reply is doubled");
        send_reply(peer, REPLY_DATA, sim_reply_text(reply->type, reply->str, reply->len));
    }
    if (disturb == DISTURB_LOSE) {
        SIM_TRACE("redis: a reply is lost");
        sim_reply_free(reply);
        return;
    }
    send_reply(peer, REPLY_DATA, reply);
}

/* -- commands -- */

struct command {
    size_t count;
    struct sim_bytes args[ARGS_MAX];
};

static bool is_word(struct sim_bytes arg, const char *word)
{
    return arg.len == strlen(word) && memcmp(arg.at, word, arg.len) == 0;
}

static bool is_refusing(void)
{
    return sim_now_us() < redis.refusing_until_us;
}

static size_t redis_on_publish(const char *channel, struct sim_bytes text)
{
    size_t receivers = 0;

    for (size_t i = 0; i < redis.peer_count; i++) {
        struct sim_peer *peer = redis.peers[i];

        for (size_t at = 0; peer->is_open && at < peer->channel_count; at++) {
            redisReply *message;

            if (strcmp(peer->channels[at], channel) != 0)
                continue;
            message = sim_reply_array(3);
            message->element[0] = bulk("message");
            message->element[1] = bulk(channel);
            message->element[2] = sim_reply_text(REDIS_REPLY_STRING, text.at, text.len);
            send_reply(peer, REPLY_DATA, message);
            receivers++;
        }
    }
    return receivers;
}

static redisReply *run_eval(const struct sim_peer *peer, size_t in_flight,
                            const struct command *command)
{
    size_t key_count = strtoul(command->args[2].at, NULL, 10);
    struct sim_script_call call = {.script = command->args[1],
                                   .is_sha = is_word(command->args[0], "EVALSHA"),
                                   .keys = &command->args[3],
                                   .key_count = key_count,
                                   .args = &command->args[3 + key_count],
                                   .arg_count = command->count - 3 - key_count,
                                   .service = peer->service,
                                   .in_flight = in_flight};
    redisReply *reply;

    if (is_refusing())
        return error_line(redis.refusal);
    if (key_count == 0)
        return bulk(""); /* the script of the handshake; no right is missing */
    reply = sim_script_run(&call);
    if (reply == NULL)
        return error_line("NOSCRIPT No matching script. Please use EVAL.");
    return reply;
}

static redisReply *change_channels(struct sim_peer *peer, const struct command *command)
{
    bool is_begin = is_word(command->args[0], "SUBSCRIBE");
    redisReply *reply = sim_reply_array(3);
    char name[CHANNEL_BYTES] = "";
    size_t at = 0;

    if (command->args[1].len >= sizeof(name))
        sim_fail("a channel's name has %zu bytes", command->args[1].len);
    memcpy(name, command->args[1].at, command->args[1].len);
    while (at < peer->channel_count && strcmp(peer->channels[at], name) != 0)
        at++;
    if (is_begin && at == CHANNELS_MAX)
        sim_fail("too many channels");
    if (is_begin && at == peer->channel_count)
        memcpy(peer->channels[peer->channel_count++], name, sizeof(name));
    else if (!is_begin && at < peer->channel_count)
        memmove(peer->channels[at], peer->channels[--peer->channel_count], sizeof(name));
    reply->element[0] = bulk(is_begin ? "subscribe" : "unsubscribe");
    reply->element[1] = bulk(name);
    reply->element[2] = sim_reply_number((int64_t)peer->channel_count);
    return reply;
}

static redisReply *run_ping(const struct sim_peer *peer)
{
    redisReply *reply;

    if (is_refusing() && strncmp(redis.refusal, "LOADING", 7) == 0)
        return error_line(redis.refusal);
    if (peer->channel_count == 0)
        return status_line("PONG");
    reply = sim_reply_array(2);
    reply->element[0] = bulk("pong");
    reply->element[1] = bulk("");
    return reply;
}

static redisReply *run_hello(void)
{
    static const char *const words[] = {"version", "7.0.15", "role", "master"};
    redisReply *reply = sim_reply_array(4);

    for (size_t i = 0; i < 4; i++)
        reply->element[i] = bulk(words[i]);
    return reply;
}

static redisReply *run_command(struct sim_peer *peer, size_t in_flight,
                               const struct command *command)
{
    if (is_word(command->args[0], "PING"))
        return run_ping(peer);
    if (is_word(command->args[0], "HELLO"))
        return run_hello();
    if (is_word(command->args[0], "EVALSHA") || is_word(command->args[0], "EVAL"))
        return run_eval(peer, in_flight, command);
    if (is_word(command->args[0], "SUBSCRIBE") ||
        is_word(command->args[0], "UNSUBSCRIBE"))
        return change_channels(peer, command);
    sim_fail("the simulator has no model of command %.*s", (int)command->args[0].len,
             command->args[0].at);
}

static size_t read_length(const char **at, char type)
{
    char *end;
    size_t length;

    if (**at != type)
        sim_fail("malformed command");
    length = strtoul(*at + 1, &end, 10);
    *at = end + 2;
    return length;
}

static void run_chunk(struct sim_peer *peer, const struct sim_chunk *chunk)
{
    const char *at = chunk->bytes;
    static struct command command;

    while (at < chunk->bytes + chunk->len) {
        command.count = read_length(&at, '*');
        if (command.count > ARGS_MAX)
            sim_fail("a command of %zu arguments", command.count);
        for (size_t i = 0; i < command.count; i++) {
            command.args[i].len = read_length(&at, '$');
            command.args[i].at = at;
            at += command.args[i].len + 2;
        }
        answer(peer, run_command(peer, chunk->in_flight, &command));
    }
}

/* -- connections -- */

static bool is_down(void)
{
    return sim_now_us() < redis.down_until_us;
}

static void cut(struct sim_peer *peer)
{
    if (!peer->is_open)
        return;
    peer->is_open = false;
    peer->channel_count = 0;
    send_reply(peer, REPLY_END, NULL);
}

/* The end of a connection may be a reset, which discards the commands that the server has not
   read. */
static void take_end(struct sim_peer *peer)
{
    peer->is_open = false;
    peer->channel_count = 0;
    if (sim_chance(50))
        list_init(&peer->unread);
}

static void take_message(struct sim_peer *peer, struct sim_message *message)
{
    struct sim_chunk *chunk = list_item(message, struct sim_chunk, head);

    if (chunk->kind == CHUNK_BYTES) {
        run_chunk(peer, chunk);
        sim_free(chunk);
    }
}

static void redis_on_wake(void *subject UNUSED, uint64_t number UNUSED)
{
    if (sim_now_us() < redis.hung_until_us || is_down())
        return;
    for (size_t i = 0; i < redis.peer_count; i++) {
        LIST_DRAIN(struct sim_message, message, &redis.peers[i]->unread, link)
            take_message(redis.peers[i], message);
    }
}

static void redis_on_message(void *owner, struct sim_message *message)
{
    struct sim_peer *peer = owner;
    struct sim_chunk *chunk = list_item(message, struct sim_chunk, head);

    if (chunk->kind == CHUNK_BEGIN) {
        peer->is_open = !is_down();
        send_reply(peer, peer->is_open ? REPLY_CONNECTED : REPLY_REFUSED, NULL);
    } else if (chunk->kind == CHUNK_END) {
        take_end(peer);
    } else if (peer->is_open &&
               (sim_now_us() < redis.hung_until_us || !list_is_empty(&peer->unread))) {
        list_append(&peer->unread, &message->link);
    } else if (peer->is_open) {
        take_message(peer, message);
    }
}

struct sim_peer *sim_peer_open(struct sim_stream *to_client, unsigned service)
{
    struct sim_peer *peer = sim_calloc(sizeof(*peer));

    if (redis.peer_count == PEERS_MAX)
        sim_fail("too many connections to Redis");
    redis.peers[redis.peer_count++] = peer;
    peer->to_client = to_client;
    peer->service = service;
    list_init(&peer->unread);
    sim_stream_init(&peer->to_server, redis_on_message, peer);
    return peer;
}

struct sim_stream *sim_peer_stream(struct sim_peer *peer)
{
    return &peer->to_server;
}

/* -- faults -- */

void sim_redis_begin(void)
{
    memset(&redis, 0, sizeof(redis));
    sim_keys_begin();
    sim_scripts_begin(redis_on_publish);
}

void sim_redis_hang(int64_t until_us)
{
    redis.hung_until_us = until_us;
    sim_at(until_us, redis_on_wake, NULL, 0);
}

void sim_redis_restart(int64_t up_us, enum sim_redis_data kept)
{
    redis.down_until_us = up_us;
    redis.hung_until_us = 0;
    sim_scripts_forget();
    for (size_t i = 0; i < redis.peer_count; i++) {
        list_init(&redis.peers[i]->unread);
        cut(redis.peers[i]);
    }
    if (kept == DATA_NONE)
        sim_keys_clear();
    else if (kept == DATA_SNAPSHOT)
        sim_keys_restore();
}

void sim_redis_refuse(const char *error, int64_t until_us)
{
    redis.refusal = error;
    redis.refusing_until_us = until_us;
}

static struct sim_peer *random_peer(void)
{
    size_t count = 0;

    for (size_t i = 0; i < redis.peer_count; i++)
        count += redis.peers[i]->is_open;
    for (size_t i = 0, pick = sim_below(count); i < redis.peer_count; i++) {
        if (redis.peers[i]->is_open && pick-- == 0)
            return redis.peers[i];
    }
    return NULL;
}

void sim_redis_cut(void)
{
    struct sim_peer *peer = random_peer();

    if (peer != NULL)
        cut(peer);
}

void sim_redis_hold(int64_t until_us)
{
    struct sim_peer *peer = random_peer();

    if (peer != NULL)
        sim_stream_hold(sim_chance(50) ? &peer->to_server : peer->to_client, until_us);
}

void sim_redis_disturb(void)
{
    struct sim_peer *peer = random_peer();

    if (peer != NULL)
        peer->disturb = sim_chance(50) ? DISTURB_LOSE : DISTURB_DOUBLE;
}

void sim_redis_part(unsigned service, int64_t until_us)
{
    bool is_to_server = sim_chance(50);

    for (size_t i = 0; i < redis.peer_count; i++) {
        struct sim_peer *peer = redis.peers[i];

        if (peer->service == service)
            sim_stream_hold(is_to_server ? &peer->to_server : peer->to_client, until_us);
    }
}

void sim_redis_end_service(unsigned service)
{
    for (size_t i = 0; i < redis.peer_count; i++) {
        struct sim_chunk *end = sim_calloc(sizeof(*end));

        end->kind = CHUNK_END;
        if (redis.peers[i]->service == service)
            sim_stream_send(&redis.peers[i]->to_server, &end->head);
    }
}

void sim_redis_heal(void)
{
    if (redis.hung_until_us > sim_now_us())
        sim_redis_hang(sim_now_us());
    if (redis.down_until_us > sim_now_us())
        redis.down_until_us = sim_now_us();
    redis.refusing_until_us = 0;
}
