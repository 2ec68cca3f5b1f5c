/*
 * socket.c - a hiredis context without the asynchronous layer of hiredis.
 *
 * hiredis connects, reads and parses. redisAsyncContext is not used, because it frees itself inside
 * callbacks, and allocates memory and changes the poll for each command. Without TLS, bytes are
 * sent from our own buffer, once per flush, with MSG_NOSIGNAL, because a write by hiredis may raise
 * SIGPIPE. The poll waits until the socket is writable only while the buffer of the system is full.
 *
 * An event handler may close the socket. The struct then stays until the loop has closed the poll
 * handle, so the caller of the handler can notice that `context` is NULL.
 *
 * In a child after fork() an inherited socket reads and writes nothing.
 */
#include "redis/socket.h"
#include "base/process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <sys/socket.h>

struct redis_socket {
    uv_poll_t poll;
    redisContext *context;
    struct redis_socket_options options;
    struct redis_wire wire;
    unsigned process;
    bool is_unix;
    bool is_connected;
    bool is_full; /* the system did not accept all bytes */
};

static void socket_on_poll(uv_poll_t *poll, int status, int events);

static bool is_inherited(const struct redis_socket *socket)
{
    return socket->process != process_generation();
}

static void watch(struct redis_socket *socket)
{
    struct redis_tls *tls = socket->options.tls;
    bool wants_write = !socket->is_connected || socket->is_full;

    if (socket->is_connected && tls != NULL && redis_tls_wants_read(tls))
        wants_write = false;
    uv_poll_start(&socket->poll, wants_write ? UV_READABLE | UV_WRITABLE : UV_READABLE,
                  socket_on_poll);
}

enum rlock_status redis_socket_open(const struct redis_socket_options *options,
                                    struct redis_socket **ret_socket,
                                    struct rlock_err *reterr)
{
    struct redis_socket *socket = calloc(1, sizeof(*socket));
    enum rlock_status status = RLOCK_NO_MEMORY;

    if (socket == NULL)
        goto out;
    socket->options = *options;
    socket->process = process_generation();
    socket->is_unix = options->ip == NULL;
    socket->context = socket->is_unix
                          ? redisConnectUnixNonBlock(options->host->name)
                          : redisConnectNonBlock(options->ip, options->host->port);
    if (socket->context == NULL)
        goto out;
    if (socket->context->err != 0) {
        status = err_set(reterr, RLOCK_IO, "connect: %s", socket->context->errstr);
        goto out;
    }
    (void)fcntl((int)socket->context->fd, F_SETFD, FD_CLOEXEC);
    if (uv_poll_init(options->loop, &socket->poll, (int)socket->context->fd) != 0)
        goto out;
    socket->poll.data = socket;
    watch(socket);
    *ret_socket = socket;
    return RLOCK_OK;
out:
    if (socket != NULL && socket->context != NULL)
        redisFree(socket->context);
    free(socket);
    return status;
}

static void socket_on_poll_closed(uv_handle_t *handle)
{
    struct redis_socket *socket = handle->data;

    redis_wire_clear(&socket->wire);
    free(socket);
}

void redis_socket_close(struct redis_socket *socket)
{
    /* Reset the connection instead of letting it linger, so that no unsent command reaches the
       server. */
    struct linger reset = {.l_onoff = 1, .l_linger = 0};

    if (socket == NULL)
        return;
    assert(socket->context != NULL);
    uv_close((uv_handle_t *)&socket->poll, socket_on_poll_closed);
    if (!socket->is_unix)
        (void)setsockopt((int)socket->context->fd, SOL_SOCKET, SO_LINGER, &reset,
                         sizeof(reset));
    redisFree(socket->context);
    socket->context = NULL;
}

struct redis_wire *redis_socket_wire(struct redis_socket *socket)
{
    return &socket->wire;
}

static enum rlock_status write_plain(struct redis_socket *socket,
                                     struct rlock_err *reterr)
{
    struct redis_wire *wire = &socket->wire;
    ssize_t n = 0;

    while (wire->len > 0 && n >= 0) {
        n = send((int)socket->context->fd, wire->data + wire->begin,
                 wire->len - wire->begin, MSG_NOSIGNAL);
        if (n >= 0)
            redis_wire_shift(wire, (size_t)n);
    }
    if (n < 0 && errno != EAGAIN)
        return err_set(reterr, RLOCK_IO, "write: %s", uv_strerror(-errno));
    return RLOCK_OK;
}

/** Write through hiredis, which has the TLS session. */
static enum rlock_status write_tls(struct redis_socket *socket, bool *ret_done,
                                   struct rlock_err *reterr)
{
    redisContext *context = socket->context;
    struct redis_wire *wire = &socket->wire;
    int done = 0;

    if (wire->len > 0 &&
        redisAppendFormattedCommand(context, wire->data, wire->len) != REDIS_OK)
        return err_set(reterr, RLOCK_IO, "write: %s", context->errstr);
    redis_wire_cut(wire, 0);
    if (redisBufferWrite(context, &done) != REDIS_OK)
        return err_set(reterr, RLOCK_IO, "write: %s", context->errstr);
    *ret_done = done;
    return RLOCK_OK;
}

static enum rlock_status write_out(struct redis_socket *socket, struct rlock_err *reterr)
{
    bool was_full = socket->is_full;
    bool done = true;
    enum rlock_status status;

    if (socket->options.tls != NULL)
        status = write_tls(socket, &done, reterr);
    else
        status = write_plain(socket, reterr);
    if (status != RLOCK_OK)
        return status;
    socket->is_full = socket->wire.len > 0 || !done;
    if (socket->is_full != was_full || socket->options.tls != NULL)
        watch(socket);
    return RLOCK_OK;
}

enum rlock_status redis_socket_flush(struct redis_socket *socket,
                                     struct rlock_err *reterr)
{
    if (socket->is_full || is_inherited(socket))
        return RLOCK_OK;
    return write_out(socket, reterr);
}

static void fail(struct redis_socket *socket, const char *doing, const char *why)
{
    struct redis_tls *tls = socket->options.tls;
    const char *tls_reason =
        tls != NULL && socket->is_connected ? redis_tls_reason(tls) : NULL;
    struct rlock_err err = {0};

    if (tls_reason != NULL)
        err_set(&err, RLOCK_IO, "tls: %s", tls_reason);
    else
        err_set(&err, RLOCK_IO, "%s: %s", doing, why);
    socket->options.on_failed(&err, socket->options.arg);
}

static void dispatch_replies(struct redis_socket *socket)
{
    while (socket->context != NULL) {
        void *reply = NULL;

        if (redisGetReplyFromReader(socket->context, &reply) != REDIS_OK)
            fail(socket, "read", socket->context->errstr); /* this closes the socket */
        if (reply == NULL)
            return;
        socket->options.on_reply(reply, ((redisReply *)reply)->type == REDIS_REPLY_ERROR,
                                 socket->options.arg);
        freeReplyObject(reply);
    }
}

void redis_socket_read(struct redis_socket *socket)
{
    bool has_more = true;

    while (has_more && socket->context != NULL) {
        size_t before = socket->context->reader->len;

        /* With TLS, read until nothing is left, because the poll does not report bytes that TLS
           has already decrypted. */
        if (redisBufferRead(socket->context) == REDIS_OK)
            has_more =
                socket->options.tls != NULL && socket->context->reader->len > before;
        else
            fail(socket, "read", socket->context->errstr);
        dispatch_replies(socket);
    }
}

static void finish_connect(struct redis_socket *socket)
{
    struct redis_socket_options *options = &socket->options;
    int error = 0;
    socklen_t len = sizeof(error);
    struct rlock_err err = {0};

    if (getsockopt((int)socket->context->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error != 0) {
        fail(socket, "connect", uv_strerror(-error));
        return;
    }
    if (options->tls != NULL && redis_tls_start(options->tls, socket->context,
                                                options->host->name, &err) != RLOCK_OK) {
        options->on_failed(&err, options->arg);
        return;
    }
    socket->is_connected = true;
    watch(socket);
    options->on_connected(options->arg);
}

static void socket_on_poll(uv_poll_t *poll, int status, int events)
{
    struct redis_socket *socket = poll->data;
    struct rlock_err err = {0};

    if (is_inherited(socket)) {
        uv_poll_stop(poll);
        return;
    }
    if (!socket->is_connected) {
        finish_connect(socket);
        return;
    }
    /* After an error libuv has stopped the poll. If bytes came before the error, the read
       returns these bytes, and the next poll reports the error again. Otherwise the read finds
       the error. */
    if (status < 0 || (events & UV_READABLE) != 0)
        redis_socket_read(socket);
    if (status < 0 && socket->context != NULL)
        watch(socket);
    if (socket->context != NULL && socket->is_full && write_out(socket, &err) != RLOCK_OK)
        socket->options.on_failed(&err, socket->options.arg);
}
