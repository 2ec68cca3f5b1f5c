/*
 * http_stream.c - server-sent events.
 *
 * libmicrohttpd looks at all suspended connections whenever it resumes one. So thousands of
 * suspended listeners would slow down every answer. Therefore take_socket() takes the socket of a
 * listener, and leaves libmicrohttpd an unconnected socket, which libmicrohttpd closes.
 *
 * The listeners are visited in turn, each of them four times a second. A visit sends a limited
 * number of events, to leave time for orders. So with many listeners each of them receives events
 * more rarely. Nothing is queued: if the small socket buffer of a listener is full, the listener is
 * disconnected.
 *
 * After its request a client has nothing to send. A listener that leaves, sends something or shuts
 * down its sending side is disconnected as soon as the loop sees this. Otherwise the bytes that it
 * sends would stay in the memory of the kernel.
 */
#include "app/http/http_impl.h"

#include "base/clock.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define VISITS_OF_ALL    10
#define EVENTS_PER_VISIT 100 /* this limit permits 4,000 events a second */
#define BUFFER_BYTES     8192
#define SEND_FLAGS       (MSG_DONTWAIT | MSG_NOSIGNAL)

struct stream {
    struct rlock_link link; /* link in http->streams */
    uv_poll_t poll;
    struct http *http;
    struct conn *conn;
    int fd;
    struct http_listener listener;
    struct http_followed followed[]; /* listener.followed */
};

static void stream_on_closed(uv_handle_t *poll)
{
    free(poll->data);
}

static void stream_end(struct stream *stream)
{
    list_remove(&stream->link);
    stream->http->stream_count--;
    conn_end(&stream->http->conns, stream->conn);
    uv_close((uv_handle_t *)&stream->poll, stream_on_closed);
    close(stream->fd);
}

static void stream_on_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    stream_end(poll->data);
}

void streams_end(struct http *http)
{
    LIST_EACH_SAFE(struct stream, stream, &http->streams, link)
        stream_end(stream);
}

void streams_visit(struct http *http)
{
    const struct http_options *options = &http->options;
    uint64_t now_ms = uv_now(options->loop);
    size_t count = http->stream_count, events = 0;

    if (now_ms - http->visited_ms < STREAMS_VISIT_MS)
        return;
    http->visited_ms = now_ms;
    for (size_t i = 0; i * VISITS_OF_ALL < count && events < EVENTS_PER_VISIT; i++) {
        struct stream *stream = LIST_SHIFT(struct stream, &http->streams, link);
        char event[HTTP_EVENT_BYTES];
        size_t len = options->print_event(&stream->listener, event, options->arg);

        list_append(&http->streams, &stream->link);
        events += len > 0;
        if (len > 0 && send(stream->fd, event, len, SEND_FLAGS) != (ssize_t)len)
            stream_end(stream);
    }
}

/* -- start -- */

static void send_head(const struct http_request *request, int fd)
{
    char head[512], id[HTTP_REQUEST_ID_MAX + 1];
    time_t now_s = (time_t)(clock_real_us() / 1000000);
    struct tm now;
    size_t len = strftime(head, sizeof(head),
                          "HTTP/1.1 200 OK\r\nDate: %a, %d %b %Y %H:%M:%S GMT\r\n"
                          "Content-Type: text/event-stream\r\n"
                          "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
                          "X-Content-Type-Options: nosniff\r\nConnection: close\r\n",
                          gmtime_r(&now_s, &now));

    if (http_copy_request_id(request, id))
        len += (size_t)sprintf(head + len, "X-Request-Id: %s\r\n", id);
    stpcpy(head + len, "\r\n");
    (void)send(fd, head, len + 2, SEND_FLAGS);
}

/* Moves the client's socket to stream->fd, which stream->poll watches. libmicrohttpd does not watch
   the socket of a suspended connection, so this function can put another socket in its place. */
static bool take_socket(struct http_request *request, struct stream *stream)
{
    unsigned timeout_ms = request->http->options.request_timeout_s * 1000;
    int bytes = BUFFER_BYTES, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int taken =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD)
            ->connect_fd;
    int copy = fd >= 0 ? fcntl(taken, F_DUPFD_CLOEXEC, 0) : -1;
    bool is_watched = uv_poll_init(request->http->options.loop, &stream->poll, copy) == 0;

    if (is_watched) {
        if (!request->is_suspended)
            MHD_suspend_connection(request->connection);
        request->is_suspended = true;
        dup3(fd, taken, O_CLOEXEC);
        setsockopt(copy, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
        setsockopt(copy, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
        /* The kernel ends the connection of a client that has vanished and acknowledges no
           event. */
        setsockopt(copy, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
        stream->fd = copy;
    } else if (copy >= 0) {
        close(copy);
    }
    if (fd >= 0)
        close(fd);
    return is_watched;
}

bool http_stream(struct http_request *request, const struct http_listener *listener)
{
    size_t followed_bytes = listener->count * sizeof(listener->followed[0]);
    struct http *http = request->http;
    struct stream *stream = NULL;

    request->is_last = http->stream_count >= http->options.listeners_max;
    if (http->options.tls == NULL && !http->is_quiesced && request->method == HTTP_GET &&
        !request->is_last && request->conn != NULL)
        stream = calloc(1, sizeof(*stream) + followed_bytes);
    if (stream == NULL || !take_socket(request, stream)) {
        free(stream);
        return false;
    }
    stream->http = http;
    stream->poll.data = stream;
    stream->listener = *listener;
    stream->listener.followed = stream->followed;
    memcpy(stream->followed, listener->followed, followed_bytes);
    stream->conn = request->conn;
    stream->conn->is_stream = true;
    list_append(&http->streams, &stream->link);
    http->stream_count++;
    http->options.answered(request, MHD_HTTP_OK, http->options.arg);
    send_head(request, stream->fd);
    uv_poll_start(&stream->poll, UV_READABLE, stream_on_readable);
    uv_timer_stop(&http->timer); /* http_turn() starts the timer for the next visit */
    http_queue(request, 0, NULL);
    return true;
}
