/*
 * conn.c - the life of a connection: pause, resolve, connect, handshake, up, and again.
 *
 * One timer serves all deadlines; its meaning depends on the state: the end of a pause,
 * the deadline for connecting, or the deadline of the oldest command. After a
 * second without a reply it sends a PING, so that a hung server is noticed before the next
 * command.
 *
 * The handshake must succeed before commands are accepted.
 *
 * With several hosts each attempt takes the next one and a part of the timeout. The pause
 * follows a round in which all have failed.
 *
 * With sentinels the connection has a guide: a second connection, whose hosts are the
 * sentinels. Each time it comes up, it asks for the primary and for a replica that is
 * being promoted, and subscribes to +switch-master. An attempt that needs a new answer
 * sends the guide to the next sentinel, since this one may be cut off from the others.
 *
 * In a cluster the connection is to the master of one key. Any node names that by MOVED,
 * and the connection goes there; if the slot moves later, when what was sent is answered.
 * Siblings that come up at the same node close their sockets and use that of the first,
 * their carrier. When it is lost, each of them reports that, and connects by itself; when
 * one has to move, all connect again.
 *
 * Commands end by a reply, by the timer or by redis_conn_close() only. A callback may
 * close the connection, so the state is checked again after each callback.
 */
#include "redis/conn.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/closing.h"
#include "base/process.h"
#include "base/random.h"
#include "redis/handshake.h"
#include "redis/socket.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PAUSE_MIN_MS  20
#define PAUSE_MAX_MS  500
#define GUIDED_MAX_MS 100     /* the same where a failover is to be expected */
#define STEADY_US     1000000 /* up for this long, the next pause is short again */
#define IDLE_US       1000000
#define HOST_PART     5  /* of the timeout, for one host of several */
#define ADDRESSES_MAX 60 /* of one name; divisible by any small number of addresses */
#define MOVES_MAX     5  /* from node to node of a cluster in one attempt */

enum conn_state {
    CONN_PAUSING,
    CONN_ASKING, /* the guide, which has not answered */
    CONN_RESOLVING,
    CONN_CONNECTING,
    CONN_HANDSHAKE,
    CONN_UP,
    CONN_LOST, /* by the carrier; the timer reports it */
    CONN_CLOSED,
};

struct redis_conn {
    uv_loop_t *loop;
    struct redis_url url;
    char key[REDIS_KEY_MAX + 1];
    struct list siblings;       /* a ring of them, without a head */
    struct redis_conn *carrier; /* whose socket and list `pending` it uses, or itself */
    int64_t timeout_us;
    void (*on_state)(bool is_up, const struct err *why, void *arg);
    void (*on_message)(const struct redis_reply *reply, void *arg);
    void *arg;
    void (*closed)(void *arg);
    void *closed_arg;

    enum conn_state state;
    struct redis_tls *tls;
    struct redis_socket *socket; /* NULL while pausing and resolving */
    struct list pending;         /* struct redis_command, in the order sent */
    size_t command_begin;        /* where the unfinished command begins in the wire */
    struct redis_handshake handshake;
    struct redis_command probe;
    struct err broken;   /* a write failed: the timer closes the connection */
    struct err reported; /* the last reason given to on_state */
    struct err round;    /* the reasons why the hosts of this round have failed */

    uv_timer_t timer;
    int64_t timer_at_us; /* INT64_MAX: not running */
    int64_t attempt_deadline_us;
    int64_t up_since_us;
    unsigned failures; /* in a row */
    unsigned attempts;
    unsigned next_host;     /* in url.hosts */
    unsigned tried;         /* hosts of this round that have failed */
    struct redis_host host; /* of this or the last attempt */
    bool is_named;          /* a sentinel or a node named `host`, which has not failed */

    struct redis_conn *guide; /* to the sentinels */
    struct redis_command ask, ask_replicas, subscribe;
    bool is_answered;           /* by the sentinel that the guide is connected to */
    bool is_answering;          /* since the timer has last fired */
    struct redis_host moved_to; /* cluster: where the slot is now */
    bool is_moving;             /* there, when the pending commands have ended */
    unsigned moves;             /* since an attempt with a host of the URL */
    uint64_t last_number;
    uv_getaddrinfo_t resolve;
    bool is_resolving;
    unsigned process;
    struct closing closing;
};

static void conn_on_timer(uv_timer_t *timer);

/** Have the timer fire at `at_us` at the latest. */
static void wake_at(struct redis_conn *conn, int64_t at_us)
{
    if (at_us >= conn->timer_at_us)
        return;
    conn->timer_at_us = at_us;
    uv_timer_start(&conn->timer, conn_on_timer, clock_ms_until(at_us), 0);
}

static void wake_only_at(struct redis_conn *conn, int64_t at_us)
{
    conn->timer_at_us = INT64_MAX;
    wake_at(conn, at_us);
}

static struct redis_command *oldest_command(struct redis_conn *conn)
{
    if (list_is_empty(&conn->pending))
        return NULL;
    return list_item(conn->pending.next, struct redis_command, link);
}

/** Report the reason unless it is the one reported last. */
static void report_down(struct redis_conn *conn, const struct err *why)
{
    bool is_new = strcmp(why->text, conn->reported.text) != 0;

    conn->reported = *why;
    if (is_new && conn->on_state != NULL)
        conn->on_state(false, why, conn->arg);
}

static int64_t next_pause_us(struct redis_conn *conn)
{
    uint32_t max_ms = conn->url.topology == REDIS_HOSTS ? PAUSE_MAX_MS : GUIDED_MAX_MS;

    return INT64_C(1000) *
           backoff_ms(conn->failures++, PAUSE_MIN_MS, max_ms, random_u64());
}

static void end_all(struct redis_conn *conn, enum status status)
{
    LIST_DRAIN(struct redis_command, command, &conn->pending, link)
        command->done(command, status, NULL);
}

/** Add the reason why the host has failed to those of this round. */
static void add_reason(struct redis_conn *conn, const struct err *why)
{
    const struct redis_host *host = &conn->host;
    struct err before = conn->round;

    if (conn->url.host_count == 1)
        conn->round = *why;
    else
        err_set(&conn->round, why->status, "%s%s%s:%u: %s", before.text,
                before.text[0] == '\0' ? "" : "; ", host->name, host->port, why->text);
}

/** The attempt has failed: take the next host. Whether none is left in this round. */
static bool advance_host(struct redis_conn *conn)
{
    conn->next_host = (conn->next_host + 1) % conn->url.host_count;
    if (++conn->tried < conn->url.host_count)
        return false;
    conn->tried = 0;
    return true;
}

static void close_socket(struct redis_conn *conn)
{
    redis_socket_close(conn->socket);
    conn->socket = NULL;
    conn->broken.status = STATUS_OK;
    conn->state = CONN_PAUSING;
}

/** Connect to the server at `host` soon. */
static void go_to(struct redis_conn *conn, const struct redis_host *host)
{
    close_socket(conn);
    conn->carrier = conn;
    conn->host = *host;
    conn->is_named = true;
    wake_only_at(conn, 0);
}

/** The siblings that use its socket lose it, or if `why` is NULL leave it, without callbacks. */
static void part_siblings(struct redis_conn *conn, const struct err *why)
{
    LIST_EACH(struct redis_conn, other, &conn->siblings, siblings) {
        if (other->carrier != conn)
            continue;
        other->is_moving = why == NULL;
        go_to(other, &other->moved_to);
        if (why != NULL) {
            other->state = CONN_LOST;
            other->broken = *why;
        }
    }
}

/** Close the socket, end all commands with `status`, connect again later. */
static void lose(struct redis_conn *conn, enum status status, const struct err *why)
{
    int64_t now_us = clock_mono_us();
    bool was_up = conn->state == CONN_UP || conn->state == CONN_LOST;
    bool is_round_over;

    if (was_up && now_us - conn->up_since_us >= STEADY_US)
        conn->failures = 0;
    part_siblings(conn, why);
    close_socket(conn);
    conn->is_named = false;
    add_reason(conn, why);
    is_round_over = was_up || advance_host(conn);
    conn->is_moving = conn->is_moving && !is_round_over;
    wake_only_at(conn, is_round_over ? now_us + next_pause_us(conn) : 0);
    end_all(conn, status);
    if (conn->state == CONN_CLOSED || !is_round_over)
        return;
    report_down(conn, &conn->round);
    conn->round.text[0] = '\0';
}

/** Leave the server for the next one. */
static void leave(struct redis_conn *conn, const struct err *why)
{
    lose(conn, STATUS_IO, why);
    (void)advance_host(conn);
}

void redis_conn_report_mismatch(struct redis_conn *conn)
{
    struct err err = {.text = "a reply that belongs to another command"};

    assert(conn->state == CONN_UP);
    lose(conn->carrier, STATUS_IO, &err);
}

uint64_t redis_conn_number(struct redis_conn *conn)
{
    return ++conn->carrier->last_number;
}

enum status redis_conn_begin(struct redis_conn *conn, size_t count)
{
    struct redis_wire *wire;

    if (!redis_conn_is_up(conn))
        return STATUS_DOWN;
    conn = conn->carrier;
    wire = redis_socket_wire(conn->socket);
    conn->command_begin = wire->len;
    redis_wire_array(wire, count);
    return STATUS_OK;
}

void redis_conn_arg(struct redis_conn *conn, const void *data, size_t len)
{
    redis_wire_bulk(redis_socket_wire(conn->carrier->socket), data, len);
}

void redis_conn_arg_uint(struct redis_conn *conn, uint64_t value)
{
    char digits[REDIS_DIGITS_MAX];

    redis_conn_arg(conn, digits, redis_wire_digits(digits, value));
}

void redis_conn_arg_text(struct redis_conn *conn, const char *text)
{
    redis_conn_arg(conn, text, strlen(text));
}

enum status redis_conn_end(struct redis_conn *conn, struct redis_command *command,
                           redis_command_cb done)
{
    struct redis_wire *wire = redis_socket_wire(conn->carrier->socket);

    command->conn = conn;
    conn = conn->carrier;
    if (wire->failed) {
        redis_wire_cut(wire, conn->command_begin);
        return STATUS_NO_MEMORY;
    }
    command->deadline_us = clock_mono_us() + conn->timeout_us;
    command->done = done;
    list_append(&conn->pending, &command->link);
    wake_at(conn, command->deadline_us);
    return STATUS_OK;
}

enum status redis_conn_words(struct redis_conn *conn, struct redis_command *command,
                             redis_command_cb done, const char *const *words)
{
    size_t count = 0;

    while (words[count] != NULL)
        count++;
    if (redis_conn_begin(conn, count) != STATUS_OK)
        return STATUS_DOWN;
    for (size_t i = 0; i < count; i++)
        redis_conn_arg_text(conn, words[i]);
    return redis_conn_end(conn, command, done);
}

void redis_conn_flush(struct redis_conn *conn)
{
    conn = conn->carrier;
    if (conn->socket == NULL || conn->state < CONN_HANDSHAKE ||
        redis_socket_wire(conn->socket)->len == 0 || conn->broken.status != STATUS_OK)
        return;
    if (redis_socket_flush(conn->socket, &conn->broken) != STATUS_OK)
        wake_at(conn, 0); /* no callbacks from here */
}

static bool is_at(const struct redis_conn *conn, const struct redis_host *host)
{
    return conn->host.port == host->port && strcmp(conn->host.name, host->name) == 0;
}

static void complete_handshake(struct redis_conn *conn)
{
    LIST_EACH(struct redis_conn, other, &conn->siblings, siblings) {
        if (redis_conn_is_up(other) && is_at(other, &conn->host)) {
            close_socket(conn);
            conn->carrier = other->carrier;
            break;
        }
    }
    conn->moved_to = conn->host;
    conn->state = CONN_UP;
    conn->tried = conn->moves = 0;
    conn->is_moving = false;
    conn->round.text[0] = conn->reported.text[0] = '\0';
    conn->up_since_us = clock_mono_us();
    wake_only_at(conn, conn->up_since_us + IDLE_US);
    if (conn->on_state != NULL)
        conn->on_state(true, NULL, conn->arg);
}

static void read_handshake(struct redis_conn *conn, const struct redis_reply *reply,
                           bool is_error)
{
    struct err err = {0};

    if (is_error && redis_discovery_moved(reply, &conn->host, &conn->moved_to) &&
        conn->moves++ < MOVES_MAX)
        go_to(conn, &conn->moved_to);
    else if (redis_handshake_read(&conn->handshake, reply, is_error, &err) != STATUS_OK)
        lose(conn, STATUS_IO, &err);
    else if (redis_handshake_is_done(&conn->handshake))
        complete_handshake(conn);
}

static void conn_on_connected(void *arg)
{
    struct redis_conn *conn = arg;
    struct err err = {.text = "no memory"};

    conn->state = CONN_HANDSHAKE;
    redis_handshake_start(&conn->handshake, &conn->url, conn->key,
                          redis_socket_wire(conn->socket));
    if (redis_socket_wire(conn->socket)->failed)
        lose(conn, STATUS_NO_MEMORY, &err);
    else
        redis_conn_flush(conn);
}

/** Anything else on a subscribed connection is the reply to a command. */
static bool is_message(const struct redis_reply *reply)
{
    size_t len;
    const char *word = redis_reply_text(redis_reply_at(reply, 0), &len);

    return word != NULL && strcmp(word, "message") == 0;
}

/** The server was the primary when we connected, and has become a replica. */
static bool is_from_replica(const struct redis_reply *error, struct err *reterr)
{
    size_t len;
    const char *text = redis_reply_text(error, &len);

    err_set(reterr, STATUS_IO, "%s", text);
    return redis_error_has_code(text, "READONLY") ||
           redis_error_has_code(text, "MASTERDOWN");
}

static void conn_on_reply(const struct redis_reply *reply, bool is_error, void *arg)
{
    struct redis_conn *conn = arg;
    struct redis_command *command = oldest_command(conn);
    struct err err = {0};

    if (conn->state == CONN_HANDSHAKE) {
        read_handshake(conn, reply, is_error);
        return;
    }
    if (conn->on_message != NULL && is_message(reply)) {
        conn->on_message(reply, conn->arg);
        return;
    }
    if (command == NULL) {
        err_set(&err, STATUS_IO, "a reply without a command");
        lose(conn, STATUS_IO, &err);
        return;
    }
    list_remove(&command->link);
    conn->is_answering = true;
    if (is_error && conn->url.topology == REDIS_CLUSTER &&
        redis_discovery_moved(reply, &conn->host, &command->conn->moved_to))
        conn->is_moving = true; /* what was sent meanwhile gets the same reply */
    command->done(command, is_error ? STATUS_REFUSED : STATUS_OK, reply);
    if (conn->state != CONN_UP)
        return;
    if (is_error && is_from_replica(reply, &err)) {
        leave(conn, &err);
    } else if (conn->is_moving && list_is_empty(&conn->pending)) {
        part_siblings(conn, NULL);
        go_to(conn, &conn->moved_to);
    }
}

static void conn_on_failed(const struct err *why, void *arg)
{
    lose(arg, STATUS_IO, why);
}

/** How long an attempt may take: less than the timeout if another may follow. */
static int64_t attempt_us(const struct redis_conn *conn)
{
    bool has_others = conn->url.host_count > 1 || conn->guide != NULL;

    return conn->timeout_us / (has_others ? HOST_PART : 1);
}

/** @ip  numeric; NULL: a Unix socket */
static void connect_to(struct redis_conn *conn, const char *ip)
{
    struct redis_socket_options options = {
        .loop = conn->loop,
        .host = &conn->host,
        .tls = conn->tls,
        .ip = ip,
        .events = {.connected = conn_on_connected,
                   .reply = conn_on_reply,
                   .failed = conn_on_failed},
        .arg = conn,
    };
    struct err err = {.text = "no memory"};

    conn->state = CONN_CONNECTING;
    conn->attempt_deadline_us = clock_mono_us() + attempt_us(conn);
    if (redis_socket_open(&options, &conn->socket, &err) != STATUS_OK) {
        lose(conn, STATUS_IO, &err);
        return;
    }
    wake_only_at(conn, conn->attempt_deadline_us);
}

static void conn_on_closed(void *arg)
{
    struct redis_conn *conn = arg;

    redis_tls_close(conn->tls);
    if (conn->closed != NULL)
        conn->closed(conn->closed_arg);
    free(conn);
}

static bool is_numeric(const char *name)
{
    struct sockaddr_storage unused;

    return uv_ip4_addr(name, 0, (struct sockaddr_in *)&unused) == 0 ||
           uv_ip6_addr(name, 0, (struct sockaddr_in6 *)&unused) == 0;
}

/** Of several addresses later attempts take others. */
static void conn_on_resolved(uv_getaddrinfo_t *request, int failure,
                             struct addrinfo *found)
{
    struct redis_conn *conn = request->data;
    const struct addrinfo *at = found;
    char ip[NI_MAXHOST] = "";
    struct err err = {0};

    conn->is_resolving = false;
    for (unsigned i = conn->attempts / conn->url.host_count % ADDRESSES_MAX;
         i > 0 && failure == 0; i--)
        at = at->ai_next == NULL ? found : at->ai_next;
    if (failure == 0)
        (void)getnameinfo(at->ai_addr, at->ai_addrlen, ip, sizeof(ip), NULL, 0,
                          NI_NUMERICHOST);
    uv_freeaddrinfo(found);
    if (ip[0] == '\0')
        err_set(&err, STATUS_IO, "resolve %s: %s", conn->host.name,
                failure == 0 ? "no address" : uv_strerror(failure));
    if (conn->state == CONN_CLOSED)
        closing_done(&conn->closing);
    else if (ip[0] != '\0')
        connect_to(conn, ip);
    else
        lose(conn, STATUS_IO, &err);
}

/** In a thread of libuv: hiredis would block the loop on a slow name server. */
static void resolve(struct redis_conn *conn)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                          .ai_socktype = SOCK_STREAM};
    struct err err = {0};
    int failure = uv_getaddrinfo(conn->loop, &conn->resolve, conn_on_resolved,
                                 conn->host.name, NULL, &hints);

    conn->state = CONN_RESOLVING;
    conn->is_resolving = failure == 0;
    if (failure == 0)
        return;
    err_set(&err, STATUS_IO, "resolve %s: %s", conn->host.name, uv_strerror(failure));
    lose(conn, STATUS_IO, &err);
}

/** Await the name of the primary; of the next sentinel if this one has answered. */
static void ask(struct redis_conn *conn)
{
    struct err err = {.text = "another sentinel is asked"};

    if (conn->is_answered && conn->guide->state == CONN_UP) {
        leave(conn->guide, &err);
        wake_only_at(conn->guide, 0);
    }
    conn->state = CONN_ASKING;
    conn->attempt_deadline_us = clock_mono_us() + conn->timeout_us;
    wake_only_at(conn, conn->attempt_deadline_us);
}

static void attempt(struct redis_conn *conn)
{
    conn->attempts++;
    if (!conn->is_named) {
        conn->host = conn->url.hosts[conn->next_host];
        conn->moves = 0;
    }
    if (conn->guide != NULL && !conn->is_named)
        ask(conn);
    else if (conn->url.is_unix)
        connect_to(conn, NULL);
    else if (is_numeric(conn->host.name))
        connect_to(conn, conn->host.name);
    else
        resolve(conn);
}

static bool is_pong(const struct redis_reply *reply)
{
    const struct redis_reply *first = redis_reply_at(reply, 0); /* of a subscriber */
    size_t len;
    const char *text = redis_reply_text(first == NULL ? reply : first, &len);

    return text != NULL && strcasecmp(text, "PONG") == 0;
}

static void conn_on_probe(struct redis_command *command, enum status status,
                          const struct redis_reply *reply)
{
    if (status == STATUS_OK && !is_pong(reply))
        redis_conn_report_mismatch(list_item(command, struct redis_conn, probe));
}

/** No command is in progress: send one, to notice a server that hangs. */
static void probe(struct redis_conn *conn)
{
    static const char *const words[] = {"PING", NULL};

    if (redis_conn_words(conn, &conn->probe, conn_on_probe, words) == STATUS_OK)
        redis_conn_flush(conn);
}

static bool is_overdue(struct redis_conn *conn)
{
    const struct redis_command *oldest = oldest_command(conn);

    return oldest != NULL && oldest->deadline_us <= clock_mono_us();
}

static void check_up(struct redis_conn *conn)
{
    struct err err = {0};

    /* Perhaps this process was paused: read what has arrived first. */
    if (is_overdue(conn) || conn->broken.status != STATUS_OK)
        redis_socket_read(conn->socket);
    if (conn->state != CONN_UP || conn->carrier != conn)
        return;
    if (conn->broken.status != STATUS_OK) {
        err = conn->broken;
        lose(conn, STATUS_IO, &err);
    } else if (is_overdue(conn)) {
        err_set(&err, STATUS_TIMEOUT, "no reply within %lld ms",
                (long long)conn->timeout_us / 1000);
        lose(conn, STATUS_TIMEOUT, &err);
    } else {
        wake_at(conn, clock_mono_us() + IDLE_US);
        if (oldest_command(conn) != NULL)
            wake_at(conn, oldest_command(conn)->deadline_us);
        else if (!conn->is_answering)
            probe(conn);
        conn->is_answering = false;
    }
}

static void check_attempt(struct redis_conn *conn)
{
    struct err err = {0};

    if (clock_mono_us() < conn->attempt_deadline_us && conn->broken.status == STATUS_OK) {
        wake_at(conn, conn->attempt_deadline_us);
        return;
    }
    err_set(
        &err, STATUS_TIMEOUT, "connect: no reply within %lld ms",
        (long long)(conn->state == CONN_ASKING ? conn->timeout_us : attempt_us(conn)) /
            1000);
    lose(conn, STATUS_TIMEOUT, &err);
}

static void conn_on_timer(uv_timer_t *timer)
{
    struct redis_conn *conn = timer->data;
    struct err err;

    conn->timer_at_us = INT64_MAX;
    if (conn->process != process_generation())
        return; /* a child has inherited it */
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
        check_up(conn);
        break;
    case CONN_LOST:
        err = conn->broken;
        lose(conn, STATUS_IO, &err);
        break;
    case CONN_RESOLVING: /* conn_on_resolved() ends it */
    case CONN_CLOSED:
        break;
    }
}

/* -- the guide -- */

/** The primary is at `host`: connect to it, unless that is in progress or done. */
static void follow(struct redis_conn *conn, const struct redis_host *host)
{
    struct err err = {0};

    if (conn->state == CONN_CLOSED || conn->state == CONN_RESOLVING ||
        ((conn->is_named || redis_conn_is_up(conn)) && is_at(conn, host)))
        return;
    if (conn->state == CONN_UP) {
        err_set(&err, STATUS_IO, "the primary is now %s:%u", host->name, host->port);
        lose(conn->carrier, STATUS_IO, &err);
        if (conn->state == CONN_CLOSED)
            return;
    }
    go_to(conn, host);
}

static void conn_on_address(struct redis_command *command, enum status status,
                            const struct redis_reply *reply)
{
    struct redis_conn *conn = list_item(command, struct redis_conn, ask);
    struct redis_host host;
    struct err err = {0};

    if (status != STATUS_OK && status != STATUS_REFUSED)
        return; /* the guide connects again */
    conn->is_answered = true;
    if (redis_discovery_address(reply, &host)) {
        follow(conn, &host);
    } else if (conn->state == CONN_ASKING) {
        err_set(&err, STATUS_IO, "the sentinel knows no primary %s", conn->url.master);
        lose(conn, STATUS_IO, &err);
    }
}

/**
 * During a failover its leader knows the next primary up to a second before it names it.
 * The role is checked when we connect to it.
 */
static void conn_on_replicas(struct redis_command *command, enum status status,
                             const struct redis_reply *reply)
{
    struct redis_conn *conn = list_item(command, struct redis_conn, ask_replicas);
    struct redis_host host;

    if (status == STATUS_OK && conn->state != CONN_UP &&
        redis_discovery_promoted(reply, &host))
        follow(conn, &host);
}

static void conn_on_subscribed(struct redis_command *command UNUSED,
                               enum status status UNUSED,
                               const struct redis_reply *reply UNUSED)
{
    /* without the channel an attempt that fails asks again */
}

static void conn_on_switch(const struct redis_reply *message, void *arg)
{
    struct redis_conn *conn = arg;
    struct redis_host host;

    if (redis_discovery_switch(message, conn->url.master, &host))
        follow(conn, &host);
}

static enum status send_question(struct redis_conn *conn)
{
    struct redis_conn *guide = conn->guide;
    const char *const address[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME",
                                   conn->url.master, NULL};
    const char *const replicas[] = {"SENTINEL", "REPLICAS", conn->url.master, NULL};
    const char *const subscribe[] = {"SUBSCRIBE", REDIS_SWITCH_CHANNEL, NULL};
    enum status status = redis_conn_words(guide, &conn->ask, conn_on_address, address);

    if (status == STATUS_OK)
        status = redis_conn_words(guide, &conn->ask_replicas, conn_on_replicas, replicas);
    if (status == STATUS_OK)
        status = redis_conn_words(guide, &conn->subscribe, conn_on_subscribed, subscribe);
    return status;
}

static void conn_on_guide_state(bool is_up, const struct err *why, void *arg)
{
    struct redis_conn *conn = arg;
    struct err err = {0};

    if (is_up) {
        conn->is_answered = send_question(conn) != STATUS_OK; /* then ask the next */
        redis_conn_flush(conn->guide);
    } else if (conn->state == CONN_ASKING) {
        err_set(&err, STATUS_IO, "sentinel: %s", why->text);
        report_down(conn, &err);
    }
}

/** The login is for the servers only. */
static enum status open_guide(struct redis_conn *conn, struct err *reterr)
{
    struct redis_url url = conn->url;
    struct redis_conn_options options = {
        .loop = conn->loop,
        .url = &url,
        .timeout_ms = (uint32_t)(conn->timeout_us / 1000),
        .on_state = conn_on_guide_state,
        .on_message = conn_on_switch,
        .arg = conn,
    };

    url.user[0] = url.password[0] = '\0';
    url.db = 0;
    url.topology = REDIS_ANY_SENTINEL;
    conn->url.host_count = 1;
    return redis_conn_open(&options, &conn->guide, reterr);
}

enum status redis_conn_open(const struct redis_conn_options *options,
                            struct redis_conn **ret_conn, struct err *reterr)
{
    struct redis_conn *conn = calloc(1, sizeof(*conn));
    enum status status = STATUS_OK;

    if (conn == NULL)
        return err_set(reterr, STATUS_NO_MEMORY, "redis connection: no memory");
    conn->loop = options->loop;
    conn->process = process_generation();
    conn->url = *options->url;
    conn->timeout_us = (int64_t)options->timeout_ms * 1000;
    conn->on_state = options->on_state;
    conn->on_message = options->on_message;
    conn->arg = options->arg;
    snprintf(conn->key, sizeof(conn->key), "%s",
             options->key == NULL ? "" : options->key);
    conn->carrier = conn;
    list_init(&conn->siblings);
    list_init(&conn->pending);
    if (conn->url.is_tls)
        status = redis_tls_open(&conn->tls, reterr);
    if (status == STATUS_OK && conn->url.topology == REDIS_SENTINEL)
        status = open_guide(conn, reterr);
    if (status != STATUS_OK) {
        redis_tls_close(conn->tls);
        free(conn);
        return status;
    }
    uv_timer_init(conn->loop, &conn->timer);
    conn->timer.data = conn;
    conn->resolve.data = conn;
    wake_only_at(conn, 0);
    if (options->sibling != NULL)
        list_append(&options->sibling->siblings, &conn->siblings);
    *ret_conn = conn;
    return STATUS_OK;
}

void redis_conn_close(struct redis_conn *conn, void (*closed)(void *arg), void *arg)
{
    assert(conn->state != CONN_CLOSED);
    part_siblings(conn, &(struct err){.text = "closed"});
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
    end_all(conn, STATUS_CANCELLED);
    closing_done(&conn->closing);
}

bool redis_conn_is_moving(const struct redis_conn *conn)
{
    return conn->carrier->is_moving;
}

bool redis_conn_is_up(const struct redis_conn *conn)
{
    return conn->state == CONN_UP && !conn->carrier->is_moving;
}

void redis_conn_follow(struct redis_conn *conn, const struct redis_conn *other)
{
    follow(conn, &other->host);
}

bool redis_conn_is_cluster(const struct redis_conn *conn)
{
    return conn->url.topology == REDIS_CLUSTER;
}
