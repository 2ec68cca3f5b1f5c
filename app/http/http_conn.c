/*
 * http_conn.c - the limit of connections per address, and the timeouts of connections.
 *
 * libmicrohttpd closes connections without activity, but keeps a client that sends a byte
 * now and then. So each state in which a client must act has a fixed timeout, regardless
 * of activity. A sweep about once a second shuts overdue connections down, which
 * libmicrohttpd treats like a disconnect.
 */
#include "app/http/http_impl.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SWEEP_MS 500

/* An address with open connections. */
struct peer {
    struct list link;
    uint64_t key;
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

static struct list *bucket_of(struct conns *conns, uint64_t key)
{
    return &conns->peers[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 54 &
                         (CONN_PEER_BUCKETS - 1)];
}

static struct peer *find_peer(struct conns *conns, uint64_t key)
{
    struct list *bucket = bucket_of(conns, key);

    LIST_EACH(struct peer, peer, bucket, link) {
        if (peer->key == key)
            return peer;
    }
    return NULL;
}

/* NULL: there is no limit, or no memory. */
static struct peer *count_peer(struct conns *conns, struct MHD_Connection *connection)
{
    uint8_t address[16];
    struct peer *peer;
    uint64_t key;

    if (conns->limit_per_address == 0)
        return NULL;
    conn_peer_address(connection, address);
    key = address_key(address);
    peer = find_peer(conns, key);
    if (peer == NULL) {
        peer = malloc(sizeof(*peer));
        if (peer == NULL)
            return NULL;
        *peer = (struct peer){.key = key};
        list_append(bucket_of(conns, key), &peer->link);
    }
    peer->count++;
    return peer;
}

static void discount_peer(struct peer *peer)
{
    if (peer == NULL || --peer->count > 0)
        return;
    list_remove(&peer->link);
    free(peer);
}

enum MHD_Result conns_accept(void *arg, const struct sockaddr *sockaddr,
                             socklen_t len UNUSED)
{
    struct conns *conns = arg;
    uint8_t address[16];
    const struct peer *peer;

    if (conns->limit_per_address == 0)
        return MHD_YES;
    read_address(sockaddr, address);
    if (address_is_in(conns->trusted, address))
        return MHD_YES;
    peer = find_peer(conns, address_key(address));
    return peer == NULL || peer->count < conns->limit_per_address ? MHD_YES : MHD_NO;
}

/* -- connections -- */

void conns_init(struct conns *conns, const struct http_options *options)
{
    conns->loop = options->loop;
    conns->trusted = &options->trusted_proxies;
    conns->limit_per_address = options->connections_per_address;
    conns->idle_ms = options->idle_timeout_s * UINT64_C(1000);
    conns->request_ms = options->request_timeout_s * UINT64_C(1000);
    list_init(&conns->all);
    list_init(&conns->free_conns);
    for (size_t i = 0; i < CONN_PEER_BUCKETS; i++)
        list_init(&conns->peers[i]);
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
    conn->connection = connection;
    conn->peer = count_peer(conns, connection);
    conn_set_state(conns, conn, CONN_OPENING);
    list_append(&conns->all, &conn->link);
    return conn;
}

static void conn_end(struct conns *conns, struct conn *conn)
{
    if (conn == NULL)
        return;
    discount_peer(conn->peer);
    list_remove(&conn->link);
    list_append(&conns->free_conns, &conn->link);
}

void conns_notify(void *arg, struct MHD_Connection *connection, void **slot,
                  enum MHD_ConnectionNotificationCode what)
{
    struct conns *conns = arg;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        conns->count++;
        *slot = conn_begin(conns, connection);
    } else {
        conns->count--;
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
    conn->since_ms = uv_now(conns->loop);
}

/* -- timeouts -- */

static bool is_overdue(const struct conns *conns, const struct conn *conn,
                       uint64_t now_ms)
{
    uint64_t elapsed_ms = now_ms - conn->since_ms;

    if (conn->state == CONN_OPENING || conn->state == CONN_IDLE)
        return elapsed_ms > conns->idle_ms;
    return (conn->state == CONN_READING || conn->state == CONN_WRITING) &&
           elapsed_ms > conns->request_ms;
}

static void shut_down(struct conn *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    shutdown(info->connect_fd, SHUT_RDWR);
    conn->state = CONN_ENDING;
}

static bool may_be_in_handshake(const struct conn *conn)
{
    return conn->state == CONN_OPENING || conn->state == CONN_ENDING;
}

void conns_sweep(struct conns *conns)
{
    uint64_t now_ms = uv_now(conns->loop);
    size_t seen = 0;

    if (now_ms - conns->swept_ms < SWEEP_MS)
        return;
    conns->swept_ms = conns->handshakes_since_ms = now_ms;
    LIST_EACH(struct conn, conn, &conns->all, link) {
        seen++;
        if (is_overdue(conns, conn, now_ms))
            shut_down(conn);
        if (may_be_in_handshake(conn) && conn->since_ms < conns->handshakes_since_ms)
            conns->handshakes_since_ms = conn->since_ms;
    }
    if (seen < conns->count) /* memory was short when one was opened */
        conns->handshakes_since_ms = 0;
}
