/*
 * conn_life.c - the life of a connection: pause, resolve, connect, handshake, up, and again.
 *
 * One timer serves all deadlines. The state decides what the timer waits for: the end of a pause,
 * the deadline for connecting, or the deadline of the oldest command. After a second without a
 * reply the connection sends a PING, so that a hung server is noticed before the next command.
 * Commands are accepted only after the handshake has succeeded.
 *
 * If the URL has several hosts, each attempt tries the next host, for a part of the timeout. When
 * all hosts have failed, this round of attempts is over, and a pause follows. If the hosts are
 * sentinels, the guide (conn_guide.c) names the host to try.
 *
 * In a cluster the connection goes to the master of one key. The other nodes name this master in
 * the error MOVED. If the slot of the key moves later, the connection waits until all commands in
 * progress are answered, and then follows the slot.
 *
 * Connections to the same cluster are siblings. Of siblings at the same node only the first, the
 * carrier, has a socket: the others close their sockets and use the socket of the carrier. If the
 * carrier loses the socket, each sibling reports the loss and connects by itself. When one sibling
 * has to move, all siblings with its socket connect again.
 */
#include "base/backoff.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/random.h"
#include "redis/conn_impl.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_PART     5 /* an attempt with one of several hosts gets 1/5 of the timeout */
#define ADDRESSES_MAX 60 /* multiple of 1..6, so up to 6 addresses are tried equally */
#define MOVES_MAX     5  /* maximum of MOVED replies that an attempt follows */

static void lead_siblings(struct redis_conn *conn)
{
    LIST_EACH(struct redis_conn, other, &conn->siblings, siblings) {
        if (redis_conn_shares_master(conn, other) && other->state == CONN_PAUSING)
            redis_conn_go_to(other, &conn->host);
    }
}

static void complete_handshake(struct redis_conn *conn)
{
    lead_siblings(conn);
    LIST_EACH(struct redis_conn, other, &conn->siblings, siblings) {
        if (redis_conn_is_up(other) && redis_conn_is_at(other, &conn->host) &&
            (other->on_message == NULL) == (conn->on_message == NULL)) {
            redis_conn_close_socket(conn);
            conn->carrier = other->carrier;
        }
    }
    conn->moved_to = conn->master = conn->host;
    conn->state = CONN_UP;
    conn->tried = conn->moves = 0;
    conn->is_moving = false;
    conn->round.text[0] = conn->reported.text[0] = '\0';
    conn->up_since_us = clock_mono_us();
    redis_conn_wake_only_at(conn, conn->up_since_us + REDIS_IDLE_US);
    if (conn->on_state != NULL)
        conn->on_state(true, NULL, conn->arg);
}

static void read_handshake(struct redis_conn *conn, const struct redis_reply *reply,
                           bool is_error)
{
    struct rlock_err err = {0};

    if (redis_discovery_moved(reply, &conn->host, &conn->moved_to) &&
        conn->moves++ < MOVES_MAX) {
        if (conn->master.name[0] == '\0')
            conn->master = conn->moved_to;
        redis_conn_go_to(conn, &conn->moved_to);
    } else if (redis_handshake_read(&conn->handshake, reply, is_error, &err) !=
               RLOCK_OK) {
        redis_conn_lose(conn, RLOCK_IO, &err);
    } else if (redis_handshake_is_done(&conn->handshake)) {
        complete_handshake(conn);
    }
}

static void conn_on_connected(void *arg)
{
    struct redis_conn *conn = arg;
    struct rlock_err err = {.text = "no memory"};

    conn->state = CONN_HANDSHAKE;
    redis_handshake_start(&conn->handshake, &conn->url, conn->key, &conn->rights,
                          redis_socket_wire(conn->socket));
    if (redis_socket_wire(conn->socket)->failed)
        redis_conn_lose(conn, RLOCK_NO_MEMORY, &err);
    else
        redis_conn_flush(conn);
}

static void conn_on_reply(const struct redis_reply *reply, bool is_error, void *arg)
{
    struct redis_conn *conn = arg;

    if (conn->state == CONN_HANDSHAKE)
        read_handshake(conn, reply, is_error);
    else
        redis_conn_take_reply(conn, reply, is_error);
}

static void conn_on_failed(const struct rlock_err *why, void *arg)
{
    redis_conn_lose(arg, RLOCK_IO, why);
}

static int64_t attempt_us(const struct redis_conn *conn)
{
    bool has_others = conn->url.host_count > 1 || conn->guide != NULL;

    return conn->timeout_us / (has_others ? HOST_PART : 1);
}

/** @ip  a numeric address; NULL: a Unix socket */
static void connect_to(struct redis_conn *conn, const char *ip)
{
    struct redis_socket_options options = {
        .loop = conn->loop,
        .host = &conn->host,
        .tls = conn->tls,
        .ip = ip,
        .on_connected = conn_on_connected,
        .on_reply = conn_on_reply,
        .on_failed = conn_on_failed,
        .arg = conn,
    };
    struct rlock_err err = {.text = "no memory"};

    conn->state = CONN_CONNECTING;
    conn->attempt_deadline_us = clock_mono_us() + attempt_us(conn);
    if (redis_socket_open(&options, &conn->socket, &err) != RLOCK_OK) {
        redis_conn_lose(conn, RLOCK_IO, &err);
        return;
    }
    redis_conn_wake_only_at(conn, conn->attempt_deadline_us);
}

static void conn_on_closed(void *arg)
{
    struct redis_conn *conn = arg;

    redis_tls_close(conn->tls);
    if (conn->closed != NULL)
        conn->closed(conn->closed_arg);
    free(conn);
}

static bool is_numeric(const struct redis_host *host)
{
    struct sockaddr_storage unused;

    return uv_ip4_addr(host->name, host->port, (struct sockaddr_in *)&unused) == 0 ||
           uv_ip6_addr(host->name, host->port, (struct sockaddr_in6 *)&unused) == 0;
}

static void conn_on_resolved(uv_getaddrinfo_t *request, int failure,
                             struct addrinfo *found)
{
    struct redis_conn *conn = request->data;
    const struct addrinfo *at = found;
    char ip[NI_MAXHOST] = "";
    struct rlock_err err = {0};

    conn->is_resolving = false;
    for (unsigned i = conn->attempts / conn->url.host_count % ADDRESSES_MAX;
         i > 0 && failure == 0; i--)
        at = at->ai_next == NULL ? found : at->ai_next;
    if (failure == 0)
        (void)getnameinfo(at->ai_addr, at->ai_addrlen, ip, sizeof(ip), NULL, 0,
                          NI_NUMERICHOST);
    uv_freeaddrinfo(found);
    if (ip[0] == '\0')
        err_set(&err, RLOCK_IO, "resolve %s: %s", conn->host.name,
                failure == 0 ? "no address" : uv_strerror(failure));
    if (conn->state == CONN_CLOSED)
        closing_done(&conn->closing);
    else if (ip[0] != '\0')
        connect_to(conn, ip);
    else
        redis_conn_lose(conn, RLOCK_IO, &err);
}

/** Resolve the name in a thread of libuv, because hiredis would block the loop while a name server
 *  is slow. */
static void resolve(struct redis_conn *conn)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                          .ai_socktype = SOCK_STREAM};
    struct rlock_err err = {0};
    int failure = uv_getaddrinfo(conn->loop, &conn->resolve, conn_on_resolved,
                                 conn->host.name, NULL, &hints);

    conn->state = CONN_RESOLVING;
    conn->is_resolving = failure == 0;
    if (failure == 0)
        return;
    err_set(&err, RLOCK_IO, "resolve %s: %s", conn->host.name, uv_strerror(failure));
    redis_conn_lose(conn, RLOCK_IO, &err);
}

/** Whether a sibling is already trying to find the master that `conn` has lost, too. When this
 *  attempt ends, the sibling wakes `conn`. */
static bool is_sibling_trying(struct redis_conn *conn)
{
    LIST_EACH(struct redis_conn, other, &conn->siblings, siblings) {
        if (redis_conn_shares_master(conn, other) &&
            (other->state != CONN_PAUSING || other->is_named))
            return true;
    }
    return false;
}

static void attempt(struct redis_conn *conn)
{
    if (!conn->is_named && is_sibling_trying(conn)) {
        redis_conn_wake_only_at(conn, clock_mono_us() + conn->timeout_us);
        return;
    }
    conn->attempts++;
    if (!conn->is_named) {
        conn->host = conn->url.hosts[conn->next_host];
        conn->moves = 0;
    }
    if (conn->guide != NULL && !conn->is_named)
        redis_guide_ask(conn);
    else if (conn->url.is_unix)
        connect_to(conn, NULL);
    else if (is_numeric(&conn->host))
        connect_to(conn, conn->host.name);
    else
        resolve(conn);
}

static void check_attempt(struct redis_conn *conn)
{
    struct rlock_err err = {0};

    if (clock_mono_us() < conn->attempt_deadline_us && conn->broken.status == RLOCK_OK) {
        redis_conn_wake_at(conn, conn->attempt_deadline_us);
        return;
    }
    err_set(
        &err, RLOCK_TIMEOUT, "connect: no reply within %lld ms",
        (long long)(conn->state == CONN_ASKING ? conn->timeout_us : attempt_us(conn)) /
            1000);
    redis_conn_lose(conn, RLOCK_TIMEOUT, &err);
}

static void conn_on_timer(uv_timer_t *timer)
{
    struct redis_conn *conn = timer->data;
    struct rlock_err err;

    conn->timer_at_us = INT64_MAX;
    if (conn->process != process_generation())
        return; /* this process is a child, and has inherited the connection */
    switch (conn->state) {
    case CONN_PAUSING:
        attempt(conn);
        break;
    case CONN_ASKING:
    case CONN_CONNECTING:
    case CONN_HANDSHAKE:
        check_attempt(conn);
        break;
    case CONN_UP:
        redis_conn_check_up(conn);
        break;
    case CONN_LOST:
        err = conn->broken;
        redis_conn_lose(conn, RLOCK_IO, &err);
        break;
    case CONN_RESOLVING: /* ended by conn_on_resolved() */
    case CONN_CLOSED:
        break;
    }
}

static enum rlock_status open_guide(struct redis_conn *conn, struct rlock_err *reterr)
{
    struct redis_conn_options options;
    struct redis_url url;

    redis_guide_options(conn, &options, &url);
    conn->url.host_count = 1;
    return redis_conn_open(&options, &conn->guide, reterr);
}

enum rlock_status redis_conn_open(const struct redis_conn_options *options,
                                  struct redis_conn **ret_conn, struct rlock_err *reterr)
{
    struct redis_conn *conn = calloc(1, sizeof(*conn));
    enum rlock_status status = RLOCK_OK;

    if (conn == NULL)
        return err_set(reterr, RLOCK_NO_MEMORY, "redis connection: no memory");
    conn->loop = options->loop;
    conn->process = process_generation();
    conn->url = *options->url;
    conn->timeout_us = (int64_t)options->timeout_ms * 1000;
    conn->on_state = options->on_state;
    conn->on_message = options->on_message;
    conn->arg = options->arg;
    conn->rights = options->rights;
    snprintf(conn->key, sizeof(conn->key), "%s",
             options->key == NULL ? "" : options->key);
    conn->carrier = conn;
    list_init(&conn->siblings);
    list_init(&conn->pending);
    if (conn->url.is_tls)
        status = redis_tls_open(&conn->url, &conn->tls, reterr);
    if (status == RLOCK_OK && conn->url.topology == REDIS_SENTINEL)
        status = open_guide(conn, reterr);
    if (status != RLOCK_OK) {
        redis_tls_close(conn->tls);
        free(conn);
        return status;
    }
    uv_timer_init(conn->loop, &conn->timer);
    conn->timer.data = conn;
    conn->on_timer = conn_on_timer;
    conn->resolve.data = conn;
    redis_conn_wake_only_at(conn, 0);
    if (options->sibling != NULL)
        list_append(&options->sibling->siblings, &conn->siblings);
    *ret_conn = conn;
    return RLOCK_OK;
}

void redis_conn_close(struct redis_conn *conn, void (*closed)(void *arg), void *arg)
{
    if (conn == NULL)
        return;
    assert(conn->state != CONN_CLOSED);
    redis_conn_part_siblings(conn, &(struct rlock_err){.text = "closed"});
    list_remove(&conn->siblings);
    conn->closed = closed;
    conn->closed_arg = arg;
    conn->state = CONN_CLOSED;
    redis_socket_close(conn->socket);
    conn->socket = NULL;
    closing_start(&conn->closing, conn_on_closed, conn);
    closing_handle(&conn->closing, (uv_handle_t *)&conn->timer);
    if (conn->is_resolving) {
        closing_part(&conn->closing);
        uv_cancel((uv_req_t *)&conn->resolve);
    }
    if (conn->guide != NULL)
        redis_conn_close(conn->guide, closing_done, closing_part(&conn->closing));
    redis_conn_end_all(conn, RLOCK_CANCELLED);
    closing_done(&conn->closing);
}

bool redis_conn_is_moving(const struct redis_conn *conn)
{
    return conn->carrier->is_moving;
}

void redis_conn_follow(struct redis_conn *conn, const struct redis_conn *other)
{
    redis_conn_go(conn, &other->host);
}

const char *redis_conn_lacks(const struct redis_conn *conn)
{
    return conn->handshake.lacks;
}

bool redis_conn_is_cluster(const struct redis_conn *conn)
{
    return conn->url.topology == REDIS_CLUSTER;
}

bool redis_conn_is_sharded(const struct redis_conn *conn)
{
    return redis_conn_is_cluster(conn) && conn->handshake.has_shards;
}
