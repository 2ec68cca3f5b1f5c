/* conn_impl.h - types and functions that only the files conn_*.c use. */
#ifndef REDIS_CONN_IMPL_H
#define REDIS_CONN_IMPL_H

#include "base/closing.h"
#include "redis/conn.h"
#include "redis/handshake.h"
#include "redis/socket.h"

#define REDIS_IDLE_US 1000000 /* a PING is sent after this time without a reply */

enum conn_state {
    CONN_PAUSING,
    CONN_ASKING, /* waits until the guide (conn_guide.c) names the primary */
    CONN_RESOLVING,
    CONN_CONNECTING,
    CONN_HANDSHAKE,
    CONN_UP,
    CONN_LOST, /* the carrier has lost the shared socket; the timer reports it */
    CONN_CLOSED,
};

struct redis_conn {
    uv_loop_t *loop;
    struct redis_url url;
    char key[REDIS_KEY_MAX + 1];
    struct redis_rights rights;
    /* all connections to the cluster, a ring without a head */
    struct rlock_link siblings;
    /* the connection whose socket and `pending` this connection uses */
    struct redis_conn *carrier;
    int64_t timeout_us;
    void (*on_state)(bool is_up, const struct rlock_err *why, void *arg);
    void (*on_message)(const struct redis_reply *reply, void *arg);
    void *arg;
    void (*closed)(void *arg);
    void *closed_arg;

    enum conn_state state;
    struct redis_tls *tls;
    /* NULL: not connected, or the carrier's socket is used */
    struct redis_socket *socket;
    struct rlock_link pending; /* struct redis_command, in the order of sending */
    size_t command_begin;
    struct redis_handshake handshake;
    struct redis_command probe;
    /* why a write has failed, or why the carrier has lost the socket */
    struct rlock_err broken;
    struct rlock_err reported;
    struct rlock_err round; /* the reasons why the hosts of this round have failed */

    uv_timer_t timer;
    uv_timer_cb on_timer;
    int64_t timer_at_us; /* INT64_MAX: the timer is not running */
    int64_t attempt_deadline_us;
    int64_t up_since_us;
    unsigned failures; /* number of pauses since the last steady connection */
    unsigned attempts;
    unsigned next_host;
    unsigned tried; /* number of hosts of this round that have failed */
    struct redis_host host;
    /* `host` comes from a sentinel or a node, not from the URL, and has not failed yet */
    bool is_named;

    struct redis_conn *guide; /* connection to a sentinel, see conn_guide.c */
    struct redis_command ask, ask_replicas, subscribe;
    bool is_answered;           /* the sentinel of the guide has replied */
    bool is_answering;          /* a reply has come since the timer last fired */
    struct redis_host moved_to; /* in a cluster: the node that has the slot of the key */
    /* In a cluster, the master that this connection used last or tries first. Siblings with the
       same `master` look for the master together. */
    struct redis_host master;
    bool is_moving; /* the connection goes to `moved_to` when no command is pending */
    unsigned moves; /* number of MOVED replies since `host` was taken from the URL */
    uint64_t last_number;
    uv_getaddrinfo_t resolve;
    bool is_resolving;
    unsigned process;
    struct closing closing;
};

/* -- conn_state.c: states and deadlines -- */

/** Whether `other` is down and has had the same master as `conn`. Connections that have lost the
 *  same master take turns in trying to find it. */
bool redis_conn_shares_master(const struct redis_conn *conn,
                              const struct redis_conn *other);

/** Set the timer to `at_us`, unless it fires earlier. */
void redis_conn_wake_at(struct redis_conn *conn, int64_t at_us);
void redis_conn_wake_only_at(struct redis_conn *conn, int64_t at_us);

/** Report that the connection is down, unless the last report had the same reason. */
void redis_conn_report_down(struct redis_conn *conn, const struct rlock_err *why);

/** Close the socket, end all commands with `status`, and connect again later. */
void redis_conn_lose(struct redis_conn *conn, enum rlock_status status,
                     const struct rlock_err *why);

/** Give up the connection to this server, and go on with the next host. */
void redis_conn_leave(struct redis_conn *conn, const struct rlock_err *why);

void redis_conn_close_socket(struct redis_conn *conn);

/** Detach the siblings that use the socket of `conn`, without calling a callback. Later the
 *  siblings report `why`, unless `why` is NULL, and connect again. */
void redis_conn_part_siblings(struct redis_conn *conn, const struct rlock_err *why);

void redis_conn_go_to(struct redis_conn *conn, const struct redis_host *host);
MUST_CHECK bool redis_conn_is_at(const struct redis_conn *conn,
                                 const struct redis_host *host);

/** Connect to the server at `moved_to`, and let all siblings with the same socket connect again. */
void redis_conn_move(struct redis_conn *conn);

/** Connect to the primary at `host`, unless this connection is already there or on the way
 *  there. */
void redis_conn_go(struct redis_conn *conn, const struct redis_host *host);

void redis_conn_end_all(struct redis_conn *conn, enum rlock_status status);

/* -- conn_commands.c: commands and their replies -- */

void redis_conn_take_reply(struct redis_conn *conn, const struct redis_reply *reply,
                           bool is_error);
void redis_conn_check_up(struct redis_conn *conn);

/* -- conn_guide.c: the connection to the sentinels -- */

/** Set the options for opening the guide. They point to `ret_url`. */
void redis_guide_options(struct redis_conn *conn, struct redis_conn_options *ret_options,
                         struct redis_url *ret_url);

/** Wait until a sentinel names the primary. If the current sentinel has already answered, the
 *  guide goes to the next sentinel first. */
void redis_guide_ask(struct redis_conn *conn);

#endif
