/* http_client.c - see http_client.h. The sockets are non-blocking, and poll() waits. */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): memmem
#include "app/test/http_client.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
    int fd;
    bool is_ended;
    char *in;
    size_t in_len;
    size_t in_size;
    struct client_reply reply;
};

static bool wait_for(int fd, short events, int timeout_ms)
{
    struct pollfd poller = {.fd = fd, .events = events};
    int ready;

    do
        ready = poll(&poller, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

static bool connect_fd(int fd, const struct client_address *address)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(address->port)};
    int one = 1;
    int error = 0;
    socklen_t len = sizeof(error);

    inet_pton(AF_INET, address->host, &peer.sin_addr);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0)
        return true;
    return errno == EINPROGRESS && wait_for(fd, POLLOUT, CLIENT_TIMEOUT_MS) &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0;
}

struct client *client_open(const struct client_address *address)
{
    struct client *conn = calloc(1, sizeof(*conn));

    assert(conn != NULL);
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert(conn->fd >= 0);
    if (connect_fd(conn->fd, address))
        return conn;
    client_close(conn);
    return NULL;
}

static void reply_clear(struct client_reply *reply)
{
    free(reply->head);
    free(reply->body);
    json_decref(reply->json);
    *reply = (struct client_reply){0};
}

void client_close(struct client *conn)
{
    if (conn == NULL)
        return;
    close(conn->fd);
    reply_clear(&conn->reply);
    free(conn->in);
    free(conn);
}

void client_abort(struct client *conn)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    client_close(conn);
}

int client_fd(const struct client *conn)
{
    return conn->fd;
}

static bool may_send_again(int fd)
{
    if (errno == EINTR)
        return true;
    return errno == EAGAIN && wait_for(fd, POLLOUT, CLIENT_TIMEOUT_MS);
}

bool client_write(struct client *conn, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(conn->fd, bytes, len, MSG_NOSIGNAL);

        if (sent < 0 && !may_send_again(conn->fd))
            return false;
        if (sent > 0) {
            bytes += sent;
            len -= (size_t)sent;
        }
    }
    return true;
}

static void make_room(struct client *conn)
{
    if (conn->in_size - conn->in_len >= 4096)
        return;
    conn->in_size = conn->in_size * 2 + 16384;
    conn->in = realloc(conn->in, conn->in_size);
    assert(conn->in != NULL);
}

static void take_in(struct client *conn)
{
    ssize_t got;

    do {
        make_room(conn);
        got = recv(conn->fd, conn->in + conn->in_len, conn->in_size - conn->in_len, 0);
        if (got > 0)
            conn->in_len += (size_t)got;
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got == 0 || errno != EAGAIN)
        conn->is_ended = true;
}

static void split_lines(char *head, size_t len)
{
    for (size_t i = 0; i + 1 < len; i++)
        if (head[i] == '\r' && head[i + 1] == '\n')
            head[i] = head[i + 1] = '\0';
}

static int parse_head(struct client *conn, size_t *ret_used)
{
    struct client_reply *reply = &conn->reply;
    const char *end =
        conn->in == NULL ? NULL : memmem(conn->in, conn->in_len, "\r\n\r\n", 4);

    if (end == NULL)
        return 0;
    reply->head_len = (size_t)(end - conn->in) + 2;
    reply->head = malloc(reply->head_len + 1);
    assert(reply->head != NULL);
    memcpy(reply->head, conn->in, reply->head_len);
    reply->head[reply->head_len] = '\0';
    split_lines(reply->head, reply->head_len);
    *ret_used = reply->head_len + 2;
    if (strncmp(reply->head, "HTTP/1.", 7) != 0 || strlen(reply->head) < 12)
        return -1;
    reply->status = (int)strtol(reply->head + 9, NULL, 10);
    return reply->status >= 100 && reply->status <= 599 ? 1 : -1;
}

/* Returns the length of the body. SIZE_MAX: the body lasts until the connection ends. Chunks are
   not supported. */
static size_t body_length(const struct client_reply *reply, bool is_head)
{
    const char *length = client_header(reply, "Content-Length");

    if (is_head || reply->status < 200 || reply->status == 204 || reply->status == 304)
        return 0;
    return length != NULL ? strtoul(length, NULL, 10) : SIZE_MAX;
}

static int parse_body(struct client *conn, bool is_head, size_t *used)
{
    struct client_reply *reply = &conn->reply;
    size_t received = conn->in_len - *used, len = body_length(reply, is_head);

    if (client_header(reply, "Transfer-Encoding") != NULL)
        return -1;
    if (len == SIZE_MAX ? !conn->is_ended : received < len)
        return 0;
    if (len == SIZE_MAX)
        len = received;
    reply->body = calloc(1, len + 1);
    assert(reply->body != NULL);
    memcpy(reply->body, conn->in + *used, len);
    reply->body_len = len;
    *used += len;
    return 1;
}

static int parse(struct client *conn, bool is_head)
{
    size_t used = 0;
    int result;

    reply_clear(&conn->reply);
    result = parse_head(conn, &used);
    if (result == 1)
        result = parse_body(conn, is_head, &used);
    if (result != 1)
        return result;
    conn->in_len -= used;
    memmove(conn->in, conn->in + used, conn->in_len);
    conn->reply.json = json_loadb(conn->reply.body, conn->reply.body_len, 0, NULL);
    return 1;
}

const struct client_reply *client_poll(struct client *conn, bool is_head)
{
    int result;

    take_in(conn);
    do /* skip "100 Continue" */
        result = parse(conn, is_head);
    while (result == 1 && conn->reply.status < 200);
    if (result == 1)
        return &conn->reply;
    reply_clear(&conn->reply);
    conn->reply.status = result;
    return result < 0 || conn->is_ended ? &conn->reply : NULL;
}

const struct client_reply *client_read(struct client *conn,
                                       const struct client_wait *wait)
{
    int64_t end_us = clock_mono_us() + (int64_t)wait->timeout_ms * 1000;
    const struct client_reply *reply = client_poll(conn, wait->is_head);

    while (reply == NULL) {
        int64_t left_us = end_us - clock_mono_us();

        if (left_us <= 0 || !wait_for(conn->fd, POLLIN, (int)(left_us / 1000) + 1))
            break;
        reply = client_poll(conn, wait->is_head);
    }
    if (reply == NULL)
        reply_clear(&conn->reply);
    return &conn->reply;
}

bool client_ends(struct client *conn, int timeout_ms)
{
    while (!conn->is_ended && conn->in_len == 0) {
        if (!wait_for(conn->fd, POLLIN, timeout_ms))
            return false;
        take_in(conn);
    }
    return conn->is_ended && conn->in_len == 0;
}

const char *client_header(const struct client_reply *reply, const char *name)
{
    size_t len = strlen(name);

    for (size_t at = 0; reply->head != NULL && at < reply->head_len;) {
        const char *line = reply->head + at;

        if (strncasecmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1 + strspn(line + len + 1, " \t");
        at += strlen(line) + 1;
    }
    return NULL;
}

size_t client_format(const struct client_request *request, char *buf, size_t size)
{
    const char *token = request->token;
    char length[96] = "";
    int len;

    if (request->body != NULL)
        snprintf(length, sizeof(length),
                 "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                 strlen(request->body));
    else if (strcmp(request->method, "GET") != 0)
        snprintf(length, sizeof(length), "Content-Length: 0\r\n");
    len = snprintf(buf, size, "%s %s HTTP/1.1\r\nHost: test\r\n%s%s%s%s%s\r\n%s",
                   request->method, request->target,
                   token ? "Authorization: Bearer " : "", token ? token : "",
                   token ? "\r\n" : "", request->headers ? request->headers : "", length,
                   request->body ? request->body : "");
    assert(len > 0 && (size_t)len < size);
    return (size_t)len;
}
