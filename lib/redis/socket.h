/*
 * socket.h - one stream to a Redis server: bytes go out, replies come in.
 *
 * The socket does not reconnect, time out or match replies to commands; conn.h does this. An event
 * handler may call redis_socket_close(). After this call no event handler is called.
 *
 * Threads  only the thread of the loop
 * Blocks   never
 */
#ifndef REDIS_SOCKET_H
#define REDIS_SOCKET_H

#include "base/err.h"
#include "redis/reply.h"
#include "redis/tls.h"
#include "redis/url.h"
#include "redis/wire.h"

#include <uv.h>

struct redis_socket;

struct redis_socket_options {
    uv_loop_t *loop;               /* borrowed */
    const struct redis_host *host; /* borrowed, outlives the socket */
    struct redis_tls *tls;         /* borrowed, outlives the socket; NULL: no TLS */
    const char *ip; /* a numeric address; NULL: the host is a Unix socket */
    void (*on_connected)(void *arg);
    void (*on_reply)(const struct redis_reply *reply, bool is_error, void *arg);
    void (*on_failed)(const struct rlock_err *why, void *arg); /* must close the socket */
    void *arg;
};

/** Start to connect. Returns RLOCK_OK, RLOCK_IO or RLOCK_NO_MEMORY. */
MUST_CHECK enum rlock_status redis_socket_open(const struct redis_socket_options *options,
                                               struct redis_socket **ret_socket,
                                               struct rlock_err *reterr);

/** Close the connection at once. Unsent bytes never leave this machine. The loop frees the memory
 *  in a later turn. Accepts NULL. */
void redis_socket_close(struct redis_socket *socket);

struct redis_wire *redis_socket_wire(struct redis_socket *socket);

/** Send the buffer. Bytes that the system does not accept now are sent later. */
MUST_CHECK enum rlock_status redis_socket_flush(struct redis_socket *socket,
                                                struct rlock_err *reterr);

/** Read the bytes that have arrived, without waiting for the next turn of the loop. */
void redis_socket_read(struct redis_socket *socket);

#endif
