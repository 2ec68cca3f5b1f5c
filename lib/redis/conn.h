/*
 * conn.h - an asynchronous connection to Redis that mends itself.
 *
 * Commands are collected and leave in one write at redis_conn_flush(). A command lives
 * in the caller's memory, so the connection allocates nothing per command. When the
 * oldest command has gone unanswered for the timeout, the server counts as hung: the
 * connection is dropped, all that was under way is answered STATUS_TIMEOUT, and a new
 * connection is tried with growing, jittered pauses.
 *
 * Promise: every command that redis_conn_end() accepted is answered exactly once, never
 * from inside redis_conn_end() or redis_conn_flush().
 *
 * Threads: the loop's only.
 */
#ifndef REDIS_CONN_H
#define REDIS_CONN_H

#include "base/attributes.h"
#include "base/err.h"
#include "base/list.h"
#include "redis/reply.h"
#include "redis/url.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct redis_conn;
struct redis_command;

/**
 * How a command ended.
 *
 * @status  STATUS_OK; STATUS_REFUSED (`reply` is the error); without a reply:
 *          STATUS_TIMEOUT, STATUS_IO (unknown), STATUS_CANCELLED (closed)
 * @reply   valid during the callback
 */
typedef void (*redis_command_cb)(struct redis_command *command, enum status status,
                                 const struct redis_reply *reply);

/** In the caller's memory, untouched from redis_conn_end() until it is answered. */
struct redis_command {
    struct list link;
    int64_t deadline_us;
    redis_command_cb done;
};

struct redis_conn_options {
    uv_loop_t *loop;             /* borrowed, outlives the connection */
    const struct redis_url *url; /* copied */
    uint32_t timeout_ms;         /* to connect, and for each command */
    /* Called when the connection comes up or goes down, and when the reason why it is
       down changes; may be NULL. */
    void (*on_state)(bool is_up, const struct err *why, void *arg);
    /* Called with each message of a subscribed channel, {"message", channel, text}. NULL:
       SUBSCRIBE must not be sent. It and UNSUBSCRIBE name one channel each. */
    void (*on_message)(const struct redis_reply *reply, void *arg);
    void *arg;
};

/**
 * Start to connect. A server that is away is no error here.
 *
 * @ret_conn  set on STATUS_OK; close with redis_conn_close()
 *
 * Returns  STATUS_OK, STATUS_INVALID (TLS in a build without), STATUS_NO_MEMORY
 */
MUST_CHECK enum status redis_conn_open(const struct redis_conn_options *options,
                                       struct redis_conn **ret_conn, struct err *reterr);

/**
 * End it. Commands under way are answered STATUS_CANCELLED before this returns; the
 * memory is freed by the loop, then `closed` is called (may be NULL).
 */
void redis_conn_close(struct redis_conn *conn, void (*closed)(void *arg), void *arg);

/** Whether commands can be sent now. */
bool redis_conn_is_up(const struct redis_conn *conn);

/**
 * Begin a command of `count` arguments, its name included. On STATUS_OK write exactly
 * as many with redis_conn_arg() and finish with redis_conn_end().
 *
 * Returns  STATUS_OK, STATUS_DOWN (nothing was begun)
 */
MUST_CHECK enum status redis_conn_begin(struct redis_conn *conn, size_t count);
void redis_conn_arg(struct redis_conn *conn, const void *data, size_t len);
void redis_conn_arg_uint(struct redis_conn *conn, uint64_t value);
void redis_conn_arg_text(struct redis_conn *conn, const char *text);

/**
 * The command is complete; `done` is called when it is answered.
 *
 * Returns  STATUS_OK, STATUS_NO_MEMORY (it is forgotten and will not be answered)
 */
MUST_CHECK enum status redis_conn_end(struct redis_conn *conn,
                                      struct redis_command *command,
                                      redis_command_cb done);

/** A number that this connection has not given before. */
uint64_t redis_conn_number(struct redis_conn *conn);

/**
 * From inside a command's callback: its reply was another command's. The connection is
 * dropped, all that is under way is answered STATUS_IO, and a new one is tried.
 */
void redis_conn_distrust(struct redis_conn *conn);

/** Send all that was collected. */
void redis_conn_flush(struct redis_conn *conn);

#endif
