/*
 * conn.h - an asynchronous connection to Redis that reconnects by itself.
 *
 * Commands are collected and leave in one write at redis_conn_flush(). A command is in the caller's
 * memory, so the connection allocates nothing per command. A server that does not reply to the
 * oldest command within the timeout counts as hung. Then the connection is closed, all commands in
 * progress end with RLOCK_TIMEOUT, and the connection is opened again after a pause.
 *
 * The connection goes only to a primary. If the URL has several hosts, it goes to the host that is
 * the primary. If the hosts are sentinels, it goes to the primary that they name. In a cluster it
 * goes to the master of one key. The connection leaves a server that has become a replica, or that
 * has lost the slot of the key.
 *
 * Connections to the same cluster are siblings. Siblings whose keys have the same master share a
 * socket. But siblings that subscribe to channels share sockets only with each other.
 * Siblings that have lost the same master search for it together. One sibling tries at a time,
 * about twice a second, and the others connect to the master that this sibling finds.
 *
 * Guarantee: every command that redis_conn_end() accepts ends exactly once, never from inside
 * redis_conn_end() or redis_conn_flush().
 *
 * Threads  only the thread of the loop
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
 * @status  RLOCK_OK         the server has replied
 *          RLOCK_REFUSED    `reply` is the error of the server
 *          RLOCK_TIMEOUT,
 *          RLOCK_IO         the outcome is unknown
 *          RLOCK_CANCELLED  the connection was closed
 * @reply   valid during the callback; NULL: there was no reply
 */
typedef void (*redis_command_cb)(struct redis_command *command, enum rlock_status status,
                                 const struct redis_reply *reply);

/** A command, in the caller's memory. The command may not move between redis_conn_end() and the
 *  call of `done`. */
struct redis_command {
    struct rlock_link link;
    struct redis_conn *conn;
    int64_t deadline_us;
    redis_command_cb done;
};

/** A script that checks the rights of the user, without keys. If the script replies with a NOPERM
 *  error, the connection is refused. Otherwise redis_conn_lacks() returns the reply. The strings
 *  must outlive the connection. */
struct redis_rights {
    const char *script; /* NULL: the rights are not checked */
    const char *sha;
    const char *arg;
};

struct redis_conn_options {
    uv_loop_t *loop;             /* borrowed, outlives the connection */
    const struct redis_url *url; /* copied */
    uint32_t timeout_ms;         /* time limit for connecting, and for each command */
    /* In a cluster the connection goes to the master of this key. At most REDIS_KEY_MAX bytes of
       the key are copied. */
    const char *key;
    struct redis_rights rights;
    /* Another connection to the same cluster, or NULL for the first connection. All siblings
       must be closed in the same turn of the loop. A command of a closed sibling may end only
       when the last sibling is closed. */
    struct redis_conn *sibling;
    /* Called when the connection goes up, when it goes down, and when it stays down for another
       reason. May be NULL. */
    void (*on_state)(bool is_up, const struct rlock_err *why, void *arg);
    /* Called with each message of a subscribed channel, which is the array {kind, channel,
       text}. If on_message is NULL, no command may subscribe. A command that subscribes or
       unsubscribes must name exactly one channel. */
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
 * Close the connection. Commands in progress end with RLOCK_CANCELLED before this returns. The loop
 * frees the memory in a later turn, and then calls `closed` (may be NULL). If `conn` is NULL,
 * nothing happens, and `closed` is not called.
 */
void redis_conn_close(struct redis_conn *conn, void (*closed)(void *arg), void *arg);

bool redis_conn_is_up(const struct redis_conn *conn);

/** Whether the connection is moving to another node of the cluster, because a reply has named
 *  this node as the new master of the key. No command can be sent before the connection is up
 *  again. The move ends when the connection is up or is reported down. */
bool redis_conn_is_moving(const struct redis_conn *conn);

void redis_conn_follow(struct redis_conn *conn, const struct redis_conn *other);

/** Return the rights that the user lacks, as the script has replied. "" means that no right is
 *  missing. */
const char *redis_conn_lacks(const struct redis_conn *conn);

/** Whether the server is a node of a cluster. Then all keys of a command must be in one slot. */
bool redis_conn_is_cluster(const struct redis_conn *conn);

/** Whether the server is a node of a cluster and has sharded pub/sub (Redis 7.0 or later). The
 *  connection must be up. */
bool redis_conn_is_sharded(const struct redis_conn *conn);

/**
 * Begin a command. After RLOCK_OK write exactly `count` arguments with redis_conn_arg(), of which
 * the first is the name of the command, and then call redis_conn_end().
 *
 * Returns  RLOCK_OK; RLOCK_DOWN: no command was begun
 */
MUST_CHECK enum rlock_status redis_conn_begin(struct redis_conn *conn, size_t count);
void redis_conn_arg(struct redis_conn *conn, const void *data, size_t len);
void redis_conn_arg_uint(struct redis_conn *conn, uint64_t value);
void redis_conn_arg_text(struct redis_conn *conn, const char *text);

/**
 * End the command whose arguments were written. `done` is called when the reply has come, or when
 * the command has failed.
 *
 * Returns  RLOCK_OK; RLOCK_NO_MEMORY: the command is dropped, and `done` is not called
 */
MUST_CHECK enum rlock_status redis_conn_end(struct redis_conn *conn,
                                            struct redis_command *command,
                                            redis_command_cb done);

/** Begin, write and end a command. `words` are the arguments, followed by NULL. */
MUST_CHECK enum rlock_status redis_conn_words(struct redis_conn *conn,
                                              struct redis_command *command,
                                              redis_command_cb done,
                                              const char *const *words);

uint64_t redis_conn_unique_number(struct redis_conn *conn);

/**
 * Report that the reply to a command belonged to another command. Only the callback of the command
 * may call this. The connection is closed and opened again, and all commands in progress end with
 * RLOCK_IO.
 */
void redis_conn_report_mismatch(struct redis_conn *conn);

void redis_conn_flush(struct redis_conn *conn);

#endif
