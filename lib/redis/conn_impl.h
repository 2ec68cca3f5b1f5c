/* conn_impl.h - types and functions that the files of a connection share, and no others use. */
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
    CONN_LOST, /* the carrier has lost the socket; the timer reports the loss */
    CONN_CLOSED,
};

struct redis_conn {
    uv_loop_t *loop;
    struct redis_url url;
    char key[REDIS_KEY_MAX + 1];
    struct redis_rights rights;
    struct rlock_link siblings; /* a ring of connections, without a head */
    struct redis_conn *carrier; /* the connection whose socket and `pending` are used */
    int64_t timeout_us;
    void (*on_state)(bool is_up, const struct rlock_err *why, void *arg);
    void (*on_message)(const struct redis_reply *reply, void *arg);
    void *arg;
    void (*closed)(void *arg);
    void *closed_arg;

    enum conn_state state;
    struct redis_tls *tls;
    struct redis_socket *socket; /* NULL while pausing and resolving */
    struct rlock_link pending;   /* struct redis_command, in the order of sending */
    size_t command_begin;        /* where the unfinished command begins in the wire */
    struct redis_handshake handshake;
    struct redis_command probe;
    struct rlock_err broken;   /* why a write, or the carrier, has failed */
    struct rlock_err reported; /* the last reason given to on_state */
    struct rlock_err round;    /* the reasons why the hosts of this round have failed */

    uv_timer_t timer;
    uv_timer_cb on_timer;
    int64_t timer_at_us; /* INT64_MAX: not running */
    int64_t attempt_deadline_us;
    int64_t up_since_us;
    unsigned failures; /* in a row */
    unsigned attempts;
    unsigned next_host;     /* index in url.hosts */
    unsigned tried;         /* hosts of this round that have failed */
    struct redis_host host; /* host of the present attempt or, in a pause, the last */
    bool is_named;          /* a sentinel or a node named `host`, and it has not failed */

    struct redis_conn *guide; /* connection to a sentinel, see conn_guide.c */
    struct redis_command ask, ask_replicas, subscribe;
    bool is_answered;           /* the sentinel of the guide has replied */
    bool is_answering;          /* a reply has come since the timer last fired */
    struct redis_host moved_to; /* cluster: the node that has the slot now */
    struct redis_host master;   /* cluster: the last known master of the key */
    bool is_moving;             /* goes to `moved_to` when no command is pending */
    unsigned moves;             /* MOVED replies since `host` was taken from the URL */
    uint64_t last_number;
    uv_getaddrinfo_t resolve;
    bool is_resolving;
    unsigned process;
    struct closing closing;
};

/* -- conn_state.c: states and deadlines -- */

/** Whether both connections are down and have lost the same master. Such connections take
 *  turns in trying to find it. */
bool redis_conn_shares_master(const struct redis_conn *conn,
                              const struct redis_conn *other);

/** Have the timer fire at `at_us` at the latest. */
void redis_conn_wake_at(struct redis_conn *conn, int64_t at_us);
void redis_conn_wake_only_at(struct redis_conn *conn, int64_t at_us);

/** Report the reason unless it was the last reason that was reported. */
void redis_conn_report_down(struct redis_conn *conn, const struct rlock_err *why);

/** Close the socket, end all commands with `status`, connect again later. */
void redis_conn_lose(struct redis_conn *conn, enum rlock_status status,
                     const struct rlock_err *why);

/** Lose the connection to this server, and try the next host. */
void redis_conn_leave(struct redis_conn *conn, const struct rlock_err *why);

void redis_conn_close_socket(struct redis_conn *conn);

/** Detach the siblings that use the socket of `conn`, without callbacks. The siblings report `why`
 *  later; if `why` is NULL, they only connect again. */
void redis_conn_part_siblings(struct redis_conn *conn, const struct rlock_err *why);

/** Connect to the server at `host` soon. */
void redis_conn_go_to(struct redis_conn *conn, const struct redis_host *host);
MUST_CHECK bool redis_conn_is_at(const struct redis_conn *conn,
                                 const struct redis_host *host);

/** Go to the server at `moved_to`, and let all siblings with the same socket connect again. */
void redis_conn_move(struct redis_conn *conn);

/** The primary is at `host`: connect to it, unless that is in progress or done. */
void redis_conn_go(struct redis_conn *conn, const struct redis_host *host);

void redis_conn_end_all(struct redis_conn *conn, enum rlock_status status);

/* -- conn_commands.c: commands and their replies -- */

void redis_conn_take_reply(struct redis_conn *conn, const struct redis_reply *reply,
                           bool is_error);
void redis_conn_check_up(struct redis_conn *conn); /* called by the timer */

/* -- conn_guide.c: the connection to the sentinels -- */

/** Set the options for opening the guide. The options point to `ret_url`. */
void redis_guide_options(struct redis_conn *conn, struct redis_conn_options *ret_options,
                         struct redis_url *ret_url);

/** Wait for a sentinel to name the primary. If the sentinel of the guide has answered, wait for the
 *  next sentinel. */
void redis_guide_ask(struct redis_conn *conn);

#endif
