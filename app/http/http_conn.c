/*
 * http_conn.c - the limits on connections, and how connections end.
 *
 * libmicrohttpd closes connections without activity. But a client that sends a byte now and then
 * would be kept. So each state in which a client must act has a fixed timeout, whatever the client
 * sends. conns_sweep() shuts overdue connections down, which libmicrohttpd treats like a
 * disconnect.
 *
 * If a socket is closed while data arrive, the kernel resets the connection, and the reset can
 * destroy an answer that the client has not read yet. This happens after an answer that did not
 * wait for the whole request, or if the socket has unread data. In these cases a duplicate of the
 * socket stays open. Data that arrive there are discarded until the client closes the connection,
 * for a limited time and up to a limited amount.
 */
#include "app/http/http_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SWEEP_MS        500
#define SHRINK_FROM     100
#define DRAIN_MS        2000
#define DRAIN_BYTES_MAX 8388608
#define DRAIN_COUNT_MAX 1024

struct peer {
    int64_t id;
    size_t count;
};

/* -- addresses -- */

static void read_address(const struct sockaddr *address, uint8_t ret_address[16])
{
    memset(ret_address, 0, 16);
    if (address != NULL && address->sa_family == AF_INET6) {
        memcpy(ret_address,
               &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    } else if (address != NULL && address->sa_family == AF_INET) {
        ret_address[10] = ret_address[11] = 0xff;
        memcpy(ret_address + 12,
               &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    }
}

void conn_peer_address(struct MHD_Connection *connection, uint8_t ret_address[16])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    read_address(info != NULL ? info->client_addr : NULL, ret_address);
}

/* Returns the key of an address in conns->peers. A key must not be 0, so it is the complement. The
   complement is 0 only for the network of all ones, from which no connection comes. */
static int64_t peer_id(const uint8_t address[16])
{
    return (int64_t)~address_key(address);
}

/* Counts a connection of the address. Returns NULL if there is no limit or memory is out. */
static struct peer *count_peer(struct conns *conns, struct MHD_Connection *connection)
{
    uint8_t address[16];
    struct peer *peer;
    int64_t id;

    if (conns->options->connections_per_address == 0)
        return NULL;
    conn_peer_address(connection, address);
    id = peer_id(address);
    peer = idmap_get(&conns->peers, id);
    if (peer == NULL) {
        peer = malloc(sizeof(*peer));
        if (peer == NULL || !idmap_put(&conns->peers, id, peer)) {
            free(peer);
            return NULL;
        }
        *peer = (struct peer){.id = id};
    }
    peer->count++;
    return peer;
}

static void discount_peer(struct conns *conns, struct peer *peer)
{
    if (peer == NULL || --peer->count > 0)
        return;
    idmap_remove(&conns->peers, peer->id);
    free(peer);
    if (conns->peers.count == 0)
        idmap_clear(&conns->peers);
}

enum MHD_Result conns_accept(void *arg, const struct sockaddr *sockaddr,
                             socklen_t len UNUSED)
{
    struct conns *conns = arg;
    uint8_t address[16];
    const struct peer *peer;

    if (conns->count >= conns->options->connections_max)
        return MHD_NO;
    read_address(sockaddr, address);
    /* There is no peer if the address has no connection, or if there is no limit. */
    peer = idmap_get(&conns->peers, peer_id(address));
    return peer == NULL || peer->count < conns->options->connections_per_address ||
                   address_is_in(&conns->options->trusted_proxies, address)
               ? MHD_YES
               : MHD_NO;
}

/* -- connections -- */

void conns_init(struct conns *conns, const struct http_options *options)
{
    conns->options = options;
    list_init(&conns->all);
    list_init(&conns->free_conns);
}

void conns_clear(struct conns *conns)
{
    LIST_DRAIN(struct conn, conn, &conns->free_conns, link)
        free(conn);
}

static struct conn *conn_begin(struct conns *conns, struct MHD_Connection *connection)
{
    struct conn *conn = LIST_SHIFT(struct conn, &conns->free_conns, link);

    if (conn == NULL)
        conn = malloc(sizeof(*conn));
    if (conn == NULL)
        return NULL;
    *conn =
        (struct conn){.connection = connection, .peer = count_peer(conns, connection)};
    conn_set_state(conns, conn, CONN_OPENING);
    list_append(&conns->all, &conn->link);
    return conn;
}

void conn_end(struct conns *conns, struct conn *conn)
{
    if (conn != NULL && conn->is_stream) {
        conn->is_stream = false;
        conn->state = CONN_STREAM;
        return;
    }
    conns->count--;
    if (conn == NULL)
        return;
    discount_peer(conns, conn->peer);
    list_remove(&conn->link);
    list_append(&conns->free_conns, &conn->link);
}

void http_print(const struct http *http, FILE *out)
{
    static const char *const names[] = {
        [CONN_OPENING] = "opening", [CONN_IDLE] = "idle",
        [CONN_READING] = "reading", [CONN_WORKING] = "working",
        [CONN_WRITING] = "writing", [CONN_ENDING] = "ending",
        [CONN_DRAINED] = "drained", [CONN_STREAM] = "stream"};
    size_t counts[CONN_STREAM + 1] = {0};

    LIST_EACH(struct conn, conn, &http->conns.all, link)
        counts[conn->state]++;
    for (size_t i = 0; i <= CONN_STREAM; i++)
        fprintf(out, "%c\"%s\":%zu", i == 0 ? '{' : ',', names[i], counts[i]);
    fputc('}', out);
}

/* -- draining -- */

struct drain {
    uv_poll_t poll;
    struct conns *conns;
    struct conn *conn;
    size_t bytes;
    int fd;
};

static void conn_on_drain_closed(uv_handle_t *poll)
{
    free(poll->data);
}

static void drain_end(struct drain *drain)
{
    drain->conns->drained_count--;
    conn_end(drain->conns, drain->conn);
    uv_close((uv_handle_t *)&drain->poll, conn_on_drain_closed);
    close(drain->fd);
}

static void conn_on_drain_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct drain *drain = poll->data;
    char discarded[16384];
    ssize_t count = recv(drain->fd, discarded, sizeof(discarded), 0);

    if (count > 0)
        drain->bytes += (size_t)count;
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) ||
        drain->bytes > DRAIN_BYTES_MAX)
        drain_end(drain);
}

/* Begins to drain a connection that libmicrohttpd closes. Returns false if the connection needs no
   draining or resources are short. */
static bool drain_begin(struct conns *conns, struct conn *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct drain *drain;
    /* number of bytes in the socket; a refused head leaves some bytes unread */
    int unread = 0;

    (void)ioctl(info->connect_fd, FIONREAD, &unread);
    if (conn->state == CONN_ENDING || conns->is_stopped ||
        conns->drained_count >= DRAIN_COUNT_MAX || (!conn->is_refused && unread <= 0))
        return false;
    drain = calloc(1, sizeof(*drain));
    if (drain == NULL)
        return false;
    drain->fd = fcntl(info->connect_fd, F_DUPFD_CLOEXEC, 0);
    if (drain->fd < 0 ||
        uv_poll_init(conns->options->loop, &drain->poll, drain->fd) != 0) {
        if (drain->fd >= 0)
            close(drain->fd);
        free(drain);
        return false;
    }
    shutdown(drain->fd, SHUT_WR); /* libmicrohttpd does not shut down TLS connections */
    drain->conns = conns;
    drain->conn = conn;
    drain->poll.data = drain;
    conn->drain = drain;
    conns->drained_count++;
    conn_set_state(conns, conn, CONN_DRAINED);
    uv_poll_start(&drain->poll, UV_READABLE, conn_on_drain_readable);
    return true;
}

void conns_stop(struct conns *conns)
{
    conns->is_stopped = true;
    LIST_EACH_SAFE(struct conn, conn, &conns->all, link) {
        if (conn->drain != NULL)
            drain_end(conn->drain);
    }
}

void conns_notify(void *arg, struct MHD_Connection *connection, void **slot,
                  enum MHD_ConnectionNotificationCode what)
{
    struct conns *conns = arg;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        if (++conns->count > conns->peak_count)
            conns->peak_count = conns->count;
        *slot = conn_begin(conns, connection);
    } else {
        if (*slot == NULL || !drain_begin(conns, *slot))
            conn_end(conns, *slot);
        *slot = NULL;
    }
}

struct conn *conn_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

void conn_set_state(struct conns *conns, struct conn *conn, enum conn_state state)
{
    if (conn == NULL)
        return;
    conn->state = state;
    conn->since_ms = uv_now(conns->options->loop);
}

/* -- timeouts -- */

static bool is_overdue(const struct conns *conns, const struct conn *conn,
                       uint64_t now_ms)
{
    uint64_t elapsed_ms = now_ms - conn->since_ms;

    if (conn->state == CONN_OPENING || conn->state == CONN_IDLE)
        return elapsed_ms > conns->options->idle_timeout_s * UINT64_C(1000);
    if (conn->state == CONN_DRAINED)
        return elapsed_ms > DRAIN_MS;
    return (conn->state == CONN_READING || conn->state == CONN_WRITING) &&
           elapsed_ms > conns->options->request_timeout_s * UINT64_C(1000);
}

static void shut_down(struct conn *conn)
{
    static const struct linger discard = {.l_onoff = 1};
    const union MHD_ConnectionInfo *info;

    if (conn->drain != NULL) {
        drain_end(conn->drain);
        return;
    }
    info = MHD_get_connection_info(conn->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (conn->state == CONN_WRITING) /* SO_LINGER discards unsent data */
        setsockopt(info->connect_fd, SOL_SOCKET, SO_LINGER, &discard, sizeof(discard));
    shutdown(info->connect_fd, SHUT_RDWR);
    conn->state = CONN_ENDING;
}

bool conns_sweep(struct conns *conns)
{
    uint64_t now_ms = uv_now(conns->options->loop);
    size_t seen = 0;

    if (now_ms - conns->swept_ms < SWEEP_MS)
        return false;
    conns->swept_ms = conns->handshakes_since_ms = now_ms;
    LIST_EACH_SAFE(struct conn, conn, &conns->all, link) {
        seen += conn->state != CONN_DRAINED;
        if (is_overdue(conns, conn, now_ms))
            shut_down(conn);
        /* In these states a handshake may be under way. */
        if ((conn->state == CONN_OPENING || conn->state == CONN_ENDING) &&
            conn->since_ms < conns->handshakes_since_ms)
            conns->handshakes_since_ms = conn->since_ms;
    }
    /* If there was no memory for the struct conn of a connection, nothing shows whether the
       connection is in a handshake. So it may be. */
    if (seen + conns->drained_count < conns->count)
        conns->handshakes_since_ms = 0;
    if (conns->peak_count < SHRINK_FROM || conns->count > conns->peak_count / 2)
        return false;
    conns->peak_count = conns->count;
    conns_clear(conns);
    return true;
}
