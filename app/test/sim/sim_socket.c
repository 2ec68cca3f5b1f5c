/*
 * sim_socket.c - lib/redis/socket.h over the simulated network.
 *
 * This file replaces lib/redis/socket.c. The code that uses the socket is real. TLS and SHA-1 are
 * replaced, too: the simulator has no TLS, and the digest of a script need only be unique.
 */
#include "redis/socket.h"

#include "app/test/sim/sim.h"
#include "app/test/sim/sim_loop.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_redis.h"
#include "app/test/sim/sim_redis_scripts.h"
#include "app/test/sim/sim_service.h"

#include <openssl/sha.h>
#include <string.h>

struct redis_socket {
    struct redis_socket_options options;
    struct redis_wire wire;
    struct sim_loop *loop;
    struct sim_input input;
    struct sim_stream to_client;
    struct sim_peer *peer;
    struct rlock_link arrived; /* list of sim_reply */
    bool is_closed;
};

static void send_chunk(struct redis_socket *socket, enum sim_chunk_kind kind,
                       const char *bytes, size_t len)
{
    struct sim_chunk *chunk = sim_alloc(sizeof(*chunk) + len);

    chunk->kind = kind;
    chunk->in_flight = sim_service_in_flight(sim_service_of(socket->loop));
    chunk->len = len;
    if (len > 0)
        memcpy(chunk->bytes, bytes, len);
    list_init(&chunk->head.link);
    sim_stream_send(sim_peer_stream(socket->peer), &chunk->head);
}

static void take_reply(struct redis_socket *socket, const struct sim_reply *reply)
{
    const struct redis_socket_options *options = &socket->options;
    struct rlock_err why = {0};

    switch (reply->kind) {
    case REPLY_CONNECTED:
        options->on_connected(options->arg);
        break;
    case REPLY_DATA:
        options->on_reply((struct redis_reply *)(void *)reply->data,
                          reply->data->type == REDIS_REPLY_ERROR, options->arg);
        sim_reply_free(reply->data);
        break;
    default:
        err_set(&why, RLOCK_IO,
                reply->kind == REPLY_END ? "connection reset" : "connection refused");
        options->on_failed(&why, options->arg);
    }
}

void redis_socket_read(struct redis_socket *socket)
{
    struct rlock_link *link;

    while (!socket->is_closed && (link = list_shift(&socket->arrived)) != NULL)
        take_reply(socket, list_item(link, struct sim_reply, head.link));
}

static void socket_on_ready(struct sim_input *input)
{
    redis_socket_read(list_item(input, struct redis_socket, input));
}

static void socket_on_arrival(void *owner, struct sim_message *message)
{
    struct redis_socket *socket = owner;

    list_append(&socket->arrived, &message->link);
    sim_loop_ready(socket->loop, &socket->input);
}

enum rlock_status redis_socket_open(const struct redis_socket_options *options,
                                    struct redis_socket **ret_socket,
                                    struct rlock_err *reterr UNUSED)
{
    struct redis_socket *socket = sim_calloc(sizeof(*socket));

    socket->options = *options;
    socket->loop = sim_loop_of(options->loop);
    socket->input.on_ready = socket_on_ready;
    list_init(&socket->input.link);
    list_init(&socket->arrived);
    sim_stream_init(&socket->to_client, socket_on_arrival, socket);
    socket->peer = sim_peer_open(&socket->to_client,
                                 sim_service_number(sim_service_of(socket->loop)));
    send_chunk(socket, CHUNK_BEGIN, NULL, 0);
    *ret_socket = socket;
    return RLOCK_OK;
}

void redis_socket_close(struct redis_socket *socket)
{
    if (socket == NULL)
        return;
    if (socket->is_closed)
        sim_fail("a socket is closed twice");
    socket->is_closed = true;
    send_chunk(socket, CHUNK_END, NULL, 0);
    sim_stream_close(&socket->to_client);
    sim_loop_forget(&socket->input);
    redis_wire_clear(&socket->wire);
}

struct redis_wire *redis_socket_wire(struct redis_socket *socket)
{
    return &socket->wire;
}

enum rlock_status redis_socket_flush(struct redis_socket *socket,
                                     struct rlock_err *reterr UNUSED)
{
    struct redis_wire *wire = &socket->wire;

    send_chunk(socket, CHUNK_BYTES, wire->data + wire->begin, wire->len - wire->begin);
    redis_wire_shift(wire, wire->len - wire->begin);
    return RLOCK_OK;
}

/* -- replacements of TLS and SHA-1 -- */

enum rlock_status redis_tls_open(const struct redis_url *url UNUSED,
                                 struct redis_tls **ret_tls UNUSED,
                                 struct rlock_err *reterr)
{
    return err_set(reterr, RLOCK_INVALID, "no TLS in the simulator");
}

void redis_tls_close(struct redis_tls *tls UNUSED)
{
}

/* The digest is FNV-1a. The texts are static, so each text is hashed only once. */
unsigned char *SHA1(const unsigned char *data, size_t len, unsigned char *md)
{
    static struct {
        const unsigned char *data;
        uint64_t hash;
    } known[64];
    size_t at = 0;

    while (at < 63 && known[at].data != NULL && known[at].data != data)
        at++;
    if (known[at].data != data) {
        uint64_t hash = UINT64_C(14695981039346656037);

        for (size_t i = 0; i < len; i++)
            hash = (hash ^ data[i]) * UINT64_C(1099511628211);
        known[at].data = data;
        known[at].hash = hash;
    }
    memset(md, 0, SHA_DIGEST_LENGTH);
    memcpy(md, &known[at].hash, sizeof(known[at].hash));
    return md;
}
