/*
 * conn.h - an asynchronous connection to Redis that reconnects by itself.
 *
 * Commands are collected and leave in one write at redis_conn_flush(). A command is in
 * the caller's memory, so the connection allocates nothing per command. A server that
 * does not reply to the oldest command within the timeout counts as hung: the connection
 * is closed, all commands in progress end with RLOCK_TIMEOUT, and the connection is
 * opened again with back-off.
 *
 * It connects only to a primary: with several hosts, to the host that is the primary;
 * with sentinels, to the primary that they name; in a cluster, to the master of one key.
 * It leaves a server that has become a replica, or has lost the slot of the key.
 * Connections to one cluster (siblings) share a socket if their keys have the same
 * master, and either all or none of them subscribe. Siblings that have lost the same
 * master search for it together: one of them tries at a time, about twice a second, and
 * the others follow it.
 *
 * Guarantee: every command that redis_conn_end() accepts ends exactly once, never from
 * inside redis_conn_end() or redis_conn_flush().
 *
 * Threads  the loop's only
 * Blocks   never
 */
#ifndef REDIS_CONN_H
#define REDIS_CONN_H

#include "base/err.h"
#include "base/list.h"
#include "redis/reply.h"
#include "redis/url.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define REDIS_KEY_MAX 31

struct redis_conn;
struct redis_command;

/**
 * Tells how a command ended.
 *
 * @status  RLOCK_OK; RLOCK_REFUSED: `reply` is the error; RLOCK_TIMEOUT, RLOCK_IO: the
 *          outcome is unknown; RLOCK_CANCELLED: the connection was closed
 * @reply   valid during the callback; NULL: there was none
 */
typedef void (*redis_command_cb)(struct redis_command *command, enum rlock_status status,
                                 const struct redis_reply *reply);

/** A command, in the caller's memory. The command may not move from redis_conn_end() until
 *  `done` is called. */
struct redis_command {
    struct rlock_link link;
    struct redis_conn *conn;
    int64_t deadline_us;
    redis_command_cb done;
};

/** A script that checks the rights of the user. If it replies with a NOPERM error, the
 *  connection is refused. Otherwise redis_conn_lacks() returns its reply. The script gets
 *  no keys. */
struct redis_rights {
    const char *script; /* NULL: no script. The strings outlive the connection */
    const char *sha;    /* SHA-1 of the script, in hex */
    const char *arg;
};

struct redis_conn_options {
    uv_loop_t *loop;             /* borrowed, outlives the connection */
    const struct redis_url *url; /* copied */
    uint32_t timeout_ms;         /* limit for connecting, and for each command */
    /* In a cluster: connect to the master of this key. REDIS_KEY_MAX bytes are copied. */
    const char *key;
    struct redis_rights rights;
    /* A connection with which this one may share a socket; NULL: there is none yet. Siblings must
       be closed in one turn of the loop. A command of a closed sibling may end only when the last
       sibling is closed. */
    struct redis_conn *sibling;
    /* Called when the connection goes up or down, and when the reason of being down changes. May
       be NULL. */
    void (*on_state)(bool is_up, const struct rlock_err *why, void *arg);
    /* Called with each message of a subscribed channel, {kind, channel, text}. If
       on_message is NULL, SUBSCRIBE and SSUBSCRIBE must not be sent. A command that
       subscribes or unsubscribes must name one channel. */
    void (*on_message)(const struct redis_reply *reply, void *arg);
    void *arg;
};

/**
 * Start to connect. An unreachable server is not an error here.
 *
 * @ret_conn  set on RLOCK_OK; end it with redis_conn_close()
 *
 * Returns  RLOCK_OK, RLOCK_NO_MEMORY; others as redis_tls_open()
 */
MUST_CHECK enum rlock_status redis_conn_open(const struct redis_conn_options *options,
                                             struct redis_conn **ret_conn,
                                             struct rlock_err *reterr);

/**
 * Close the connection. Commands in progress end with RLOCK_CANCELLED before this
 * returns. The loop frees the memory in a later turn, and calls `closed` (may be NULL).
 * Accepts NULL, and then calls nothing.
 */
void redis_conn_close(struct redis_conn *conn, void (*closed)(void *arg), void *arg);

/** Whether commands can be sent. */
bool redis_conn_is_up(const struct redis_conn *conn);

/**
 * Whether a reply has named another master for the keys, and the connection is moving to
 * that master. Until the connection is up, or reported down, commands cannot be sent.
 */
bool redis_conn_is_moving(const struct redis_conn *conn);

/** Connect to the server that `other` is connected to. */
void redis_conn_follow(struct redis_conn *conn, const struct redis_conn *other);

/** Return the rights that the user lacks, as the script has replied; "": none. */
const char *redis_conn_lacks(const struct redis_conn *conn);

/** Whether all commands of the connection must name keys of one slot. */
bool redis_conn_is_cluster(const struct redis_conn *conn);

/** Whether the server is in a cluster with channels per slot (Redis 7.0 or later). The
 *  connection must be up. */
bool redis_conn_is_sharded(const struct redis_conn *conn);

/**
 * Begin a command of `count` arguments, including its name. On RLOCK_OK write exactly
 * that many with redis_conn_arg(), then call redis_conn_end().
 *
 * Returns  RLOCK_OK; RLOCK_DOWN: nothing was begun
 */
MUST_CHECK enum rlock_status redis_conn_begin(struct redis_conn *conn, size_t count);
void redis_conn_arg(struct redis_conn *conn, const void *data, size_t len);
void redis_conn_arg_uint(struct redis_conn *conn, uint64_t value);
void redis_conn_arg_text(struct redis_conn *conn, const char *text);

/**
 * All arguments are written; `done` is called when the command has ended.
 *
 * Returns  RLOCK_OK; RLOCK_NO_MEMORY: the command is dropped, `done` is not called
 */
MUST_CHECK enum rlock_status redis_conn_end(struct redis_conn *conn,
                                            struct redis_command *command,
                                            redis_command_cb done);

/** Begin, write and end a command with the arguments `words`, which end with NULL. */
MUST_CHECK enum rlock_status redis_conn_words(struct redis_conn *conn,
                                              struct redis_command *command,
                                              redis_command_cb done,
                                              const char *const *words);

/** A number that this connection has not returned before. */
uint64_t redis_conn_unique_number(struct redis_conn *conn);

/**
 * Report, from a command's callback, that its reply belonged to another command. The
 * connection is closed and opened again; all commands in progress end with RLOCK_IO.
 */
void redis_conn_report_mismatch(struct redis_conn *conn);

/** Send all commands collected so far. */
void redis_conn_flush(struct redis_conn *conn);

#endif
