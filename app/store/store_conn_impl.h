/* store_conn_impl.h - types and functions for the files store_conn_*.c only. */
#ifndef STORE_CONN_IMPL_H
#define STORE_CONN_IMPL_H

#include "app/store/pooler.h"
#include "app/store/store_conn.h"

enum state {
    STATE_WAITING,
    STATE_RESOLVING,
    STATE_CONNECTING,
    STATE_ASKING,   /* for the server process */
    STATE_CHECKING, /* whether a pooler shares the server process, see pooler.h */
    STATE_PREPARING,
    STATE_UP,
    STATE_CLOSED
};

struct store_conn {
    struct store_conn_options options;
    PGconn *pg; /* NULL in WAITING, RESOLVING and CLOSED */
    uv_poll_t *poll;
    uv_poll_cb on_poll;
    int poll_events;
    struct rlock_link pending; /* store_query, in the order of sending */
    struct rlock_link failed;  /* store_query, for store_conn_answer_failed() */
    uv_timer_t timer;
    uv_timer_cb on_timer;
    unsigned pending_count;
    unsigned attempts; /* number of failures since the connection was last up */
    unsigned host;     /* the host of this attempt; during a pause, of the next attempt */
    unsigned host_count;
    struct database_host target;
    struct rlock_err round;
    uv_getaddrinfo_t resolve;
    unsigned resolve_host;
    bool is_resolving;
    struct pooler_check pooler;
    /* the value of `attempts` when `pooler` was started */
    unsigned check_attempt;
    bool is_checking;
    int64_t asked_pid; /* the server process, from the last answer in STATE_ASKING */
    unsigned asked;
    /* whether an administrator has cancelled a commit's wait for the standby */
    bool is_wait_cancelled;
    /* the transaction of the oldest pending query has ended, and its STATEMENT_PROOF (see
       store_statements.h) has no answer yet */
    bool is_committed;
    bool is_reconfigured;
    uint32_t statement_ms; /* the session's statement_timeout for the next query */
    int64_t deadline_us;
    enum state state;
    struct store_session session;
    struct store_query check; /* see store_conn_check() */
    struct rlock_err broken;  /* a failure found while sending; text "": none */
    struct closing closing;
    struct closing *owner; /* waits until this connection has closed */
};

/* -- store_conn_socket.c -- */

void store_conn_arm(struct store_conn *conn, int64_t in_us);

/** Prepare to watch the socket of libpq, which may have changed. Returns false if that fails. */
MUST_CHECK bool store_conn_start_polling(struct store_conn *conn);
void store_conn_poll_for(struct store_conn *conn, int events);
/** Stop watching the socket, which libpq may close after this call. */
void store_conn_stop_polling(struct store_conn *conn);

/** Whether sending has failed. The timer will then close the connection. */
static inline bool store_conn_is_broken(const struct store_conn *conn)
{
    return conn->broken.text[0] != '\0';
}

/** Close the connection, answer its queries, and arrange the attempt at the next host. `why` may be
 *  conn->broken. The callbacks may close `conn`. */
void store_conn_fail(struct store_conn *conn, const struct rlock_err *why);
void store_conn_fail_io(struct store_conn *conn, const char *doing, const char *words);
/** Let the timer call store_conn_fail() as soon as the caller has returned. */
void store_conn_fail_later(struct store_conn *conn, enum rlock_status status,
                           const char *what, const char *why);

void store_conn_drop(struct store_conn *conn);
/** Answer the queries in `failed`: with the status of `why` if it is RLOCK_TIMEOUT or
 *  RLOCK_CANCELLED, otherwise with RLOCK_IO. Any other status tells why the server is left, and not
 *  whether the query was executed. */
void store_conn_answer_failed(struct store_conn *conn, const struct rlock_err *why);

/** Send a statement that has no parameters, without a Sync. Returns false if libpq has failed. */
MUST_CHECK bool store_conn_send_bare(struct store_conn *conn, enum statement statement);

/* -- store_conn_open.c -- */

void store_connect(struct store_conn *conn);
void store_connect_continue(struct store_conn *conn, PostgresPollingStatusType next);

uint32_t store_connect_ms(const struct store_conn *conn);

MUST_CHECK enum rlock_status store_connect_take(struct store_conn *conn,
                                                const PGresult *result,
                                                struct rlock_err *reterr);

/** Take the answer to STATEMENT_PROOF. If the status is not RLOCK_OK, the server must not be
 *  used. */
MUST_CHECK enum rlock_status store_conn_take_proof(struct store_conn *conn,
                                                   const PGresult *result,
                                                   struct rlock_err *reterr);

#endif
