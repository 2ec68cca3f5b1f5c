/* open_loop_conn.c - a connection with at most one request in flight. */
#include "load/open_loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static char discarded[65536]; /* the bodies of answers */

static bool watch(struct conn *conn, int epoll_fd, int how, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = conn};

    return epoll_ctl(epoll_fd, how, conn->fd, &event) == 0;
}

bool conn_open(struct conn *conn, uint16_t port, int epoll_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;

    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (conn->fd < 0)
        return false;
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if ((connect(conn->fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
         errno == EINPROGRESS) &&
        watch(conn, epoll_fd, EPOLL_CTL_ADD, EPOLLOUT)) {
        conn->state = CONN_CONNECTING;
        return true;
    }
    conn_close(conn);
    return false;
}

void conn_close(struct conn *conn)
{
    close(conn->fd); /* also removes it from epoll */
    conn->state = CONN_DOWN;
}

bool conn_send(struct conn *conn, const struct request *request)
{
    struct iovec pieces[REQUEST_PIECES];
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = REQUEST_PIECES};
    size_t len = 0;

    for (size_t i = 0; i < REQUEST_PIECES; i++) {
        pieces[i].iov_base = (void *)(uintptr_t)request->pieces[i].bytes;
        pieces[i].iov_len = request->pieces[i].len;
        len += request->pieces[i].len;
    }
    conn->state = CONN_BUSY;
    conn->due_us = request->due_us;
    conn->received = conn->whole = 0;
    /* No other request is in flight, so the send buffer has room for all of it. */
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL) == (ssize_t)len;
}

/* The value of a header; NULL: no such header. */
static const char *find_header(const char *head, const char *name)
{
    const char *found = strcasestr(head, name);

    return found != NULL ? found + strlen(name) : NULL;
}

/* False: the answer is not understood. */
static bool read_head(struct conn *conn)
{
    size_t len = conn->received < ANSWER_BYTES ? conn->received : ANSWER_BYTES;
    const char *length, *close;
    char *end;

    conn->answer[len] = '\0';
    end = strstr(conn->answer, "\r\n\r\n");
    if (end == NULL)
        return len < ANSWER_BYTES;
    end[2] = '\0'; /* do not search the body for headers */
    if (strncmp(conn->answer, "HTTP/1.1 ", 9) != 0)
        return false;
    conn->status = (unsigned)strtoul(conn->answer + 9, NULL, 10);
    length = find_header(conn->answer, "\r\nContent-Length: ");
    close = find_header(conn->answer, "\r\nConnection: close");
    conn->is_last = close != NULL;
    if (length == NULL)
        return false;
    conn->whole = (size_t)(end + 4 - conn->answer) + strtoul(length, NULL, 10);
    return true;
}

static enum conn_progress read_answer(struct conn *conn)
{
    bool is_head = conn->received < ANSWER_BYTES;
    char *to = is_head ? conn->answer + conn->received : discarded;
    size_t room = is_head ? ANSWER_BYTES - conn->received : sizeof(discarded);
    ssize_t got = recv(conn->fd, to, room, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return CONN_WAITS;
    if (got <= 0 || conn->state != CONN_BUSY)
        return CONN_BROKEN;
    conn->received += (size_t)got;
    if (conn->whole == 0 && !read_head(conn))
        return CONN_BROKEN;
    if (conn->whole == 0 || conn->received < conn->whole)
        return CONN_WAITS;
    conn->state = CONN_FREE;
    return conn->received == conn->whole ? CONN_ANSWERED : CONN_BROKEN;
}

enum conn_progress conn_on_event(struct conn *conn, int epoll_fd)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (conn->state != CONN_CONNECTING)
        return read_answer(conn);
    getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error != 0 || !watch(conn, epoll_fd, EPOLL_CTL_MOD, EPOLLIN))
        return CONN_BROKEN;
    conn->state = CONN_FREE;
    return CONN_READY;
}
