/*
 * conn_commands.c - commands, their replies, and the deadline of the oldest command.
 *
 * Only a reply, the timer or redis_conn_close() ends a command. A callback may close the
 * connection, so the state is checked again after each callback.
 *
 * In a cluster several connections may share the socket of one of them, which is their carrier.
 * They also use the buffer, the list of commands and the timer of the carrier.
 */
#include "base/clock.h"
#include "redis/conn_impl.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

static struct redis_command *oldest_command(struct redis_conn *conn)
{
    return LIST_FIRST(struct redis_command, &conn->pending, link);
}

void redis_conn_report_mismatch(struct redis_conn *conn)
{
    struct rlock_err err = {.text = "a reply that belongs to another command"};

    assert(conn->state == CONN_UP);
    redis_conn_lose(conn->carrier, RLOCK_IO, &err);
}

uint64_t redis_conn_unique_number(struct redis_conn *conn)
{
    return ++conn->carrier->last_number;
}

enum rlock_status redis_conn_begin(struct redis_conn *conn, size_t count)
{
    struct redis_wire *wire;

    if (!redis_conn_is_up(conn))
        return RLOCK_DOWN;
    conn = conn->carrier;
    wire = redis_socket_wire(conn->socket);
    conn->command_begin = wire->len;
    redis_wire_array(wire, count);
    return RLOCK_OK;
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

enum rlock_status redis_conn_end(struct redis_conn *conn, struct redis_command *command,
                                 redis_command_cb done)
{
    struct redis_wire *wire = redis_socket_wire(conn->carrier->socket);

    command->conn = conn;
    conn = conn->carrier;
    if (wire->failed) {
        redis_wire_cut(wire, conn->command_begin);
        return RLOCK_NO_MEMORY;
    }
    command->deadline_us = clock_mono_us() + conn->timeout_us;
    command->done = done;
    list_append(&conn->pending, &command->link);
    redis_conn_wake_at(conn, command->deadline_us);
    return RLOCK_OK;
}

enum rlock_status redis_conn_words(struct redis_conn *conn, struct redis_command *command,
                                   redis_command_cb done, const char *const *words)
{
    size_t count = 0;

    while (words[count] != NULL)
        count++;
    if (redis_conn_begin(conn, count) != RLOCK_OK)
        return RLOCK_DOWN;
    for (size_t i = 0; i < count; i++)
        redis_conn_arg_text(conn, words[i]);
    return redis_conn_end(conn, command, done);
}

void redis_conn_flush(struct redis_conn *conn)
{
    conn = conn->carrier;
    if (conn->socket == NULL || conn->state < CONN_HANDSHAKE ||
        redis_socket_wire(conn->socket)->len == 0 || conn->broken.status != RLOCK_OK)
        return;
    if (redis_socket_flush(conn->socket, &conn->broken) != RLOCK_OK)
        /* The timer reports the failure, because a flush must call no callback. */
        redis_conn_wake_at(conn, 0);
}

static bool is_message(const struct redis_reply *reply)
{
    const char *word = redis_reply_text(redis_reply_at(reply, 0), NULL);

    return word != NULL && strcmp(word + (word[0] == 's'), "message") == 0;
}

/** Set `reterr` to the text of the error. Returns whether the server, which was the primary at
 *  the handshake, is a replica now. */
static bool is_from_replica(const struct redis_reply *error, struct rlock_err *reterr)
{
    const char *text = redis_reply_text(error, NULL);

    err_set(reterr, RLOCK_IO, "%s", text);
    return redis_error_has_code(text, "READONLY") ||
           redis_error_has_code(text, "MASTERDOWN");
}

void redis_conn_take_reply(struct redis_conn *conn, const struct redis_reply *reply,
                           bool is_error)
{
    struct redis_command *command = oldest_command(conn);
    struct rlock_err err = {0};

    if (conn->on_message != NULL && is_message(reply)) {
        conn->on_message(reply, conn->arg);
        return;
    }
    if (command == NULL) {
        err_set(&err, RLOCK_IO, "a reply without a command");
        redis_conn_lose(conn, RLOCK_IO, &err);
        return;
    }
    list_remove(&command->link);
    conn->is_answering = true;
    if (is_error && conn->url.topology == REDIS_CLUSTER &&
        redis_discovery_moved(reply, &conn->host, &command->conn->moved_to))
        /* The commands that were already sent will be answered with MOVED, too. So the
           connection moves only when no command is pending. */
        conn->is_moving = true;
    command->done(command, is_error ? RLOCK_REFUSED : RLOCK_OK, reply);
    if (conn->state != CONN_UP)
        return;
    if (is_error && is_from_replica(reply, &err))
        redis_conn_leave(conn, &err);
    else if (conn->is_moving && list_is_empty(&conn->pending))
        redis_conn_move(conn);
}

static bool is_pong(const struct redis_reply *reply)
{
    /* A connection that subscribes gets {"pong", ""} as the reply to PING. */
    const struct redis_reply *first = redis_reply_at(reply, 0);
    const char *text = redis_reply_text(first == NULL ? reply : first, NULL);

    return text != NULL && strcasecmp(text, "PONG") == 0;
}

static void conn_on_probe(struct redis_command *command, enum rlock_status status,
                          const struct redis_reply *reply)
{
    if (status == RLOCK_OK && !is_pong(reply))
        redis_conn_report_mismatch(list_item(command, struct redis_conn, probe));
}

/** Send a PING while no command is in progress, so that a hung server is noticed. */
static void probe(struct redis_conn *conn)
{
    static const char *const words[] = {"PING", NULL};

    if (redis_conn_words(conn, &conn->probe, conn_on_probe, words) == RLOCK_OK)
        redis_conn_flush(conn);
}

static bool is_overdue(struct redis_conn *conn)
{
    const struct redis_command *oldest = oldest_command(conn);

    return oldest != NULL && oldest->deadline_us <= clock_mono_us();
}

void redis_conn_check_up(struct redis_conn *conn)
{
    struct rlock_err err = {0};

    /* If this process was paused, the reply may have arrived meanwhile, so the socket is read
       first. */
    if (is_overdue(conn) || conn->broken.status != RLOCK_OK)
        redis_socket_read(conn->socket);
    if (conn->state != CONN_UP || conn->carrier != conn)
        return;
    if (conn->broken.status != RLOCK_OK) {
        err = conn->broken;
        redis_conn_lose(conn, RLOCK_IO, &err);
    } else if (is_overdue(conn)) {
        err_set(&err, RLOCK_TIMEOUT, "no reply within %lld ms",
                (long long)conn->timeout_us / 1000);
        redis_conn_lose(conn, RLOCK_TIMEOUT, &err);
    } else {
        redis_conn_wake_at(conn, clock_mono_us() + REDIS_IDLE_US);
        if (oldest_command(conn) != NULL)
            redis_conn_wake_at(conn, oldest_command(conn)->deadline_us);
        else if (!conn->is_answering)
            probe(conn);
        conn->is_answering = false;
    }
}
