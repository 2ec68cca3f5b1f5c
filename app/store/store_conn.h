/*
 * store_conn.h - one non-blocking connection to Postgres on a libuv loop; used only by the store.
 *
 * The connection sends prepared statements in pipeline mode. The queries are sent in the order of
 * store_conn_send(), and are answered in this order, each after the commit of its own transaction.
 * A proof is a second statement that is sent behind a query. It asks the server which failures the
 * commit survives (store_statements.h). A query with a proof is answered after the proof.
 *
 * The connection opens itself. After a failure it tries the next host of the URL. If all hosts have
 * failed, it waits before it tries again. It leaves a server that is read-only, such as a standby.
 */
#ifndef STORE_CONN_H
#define STORE_CONN_H

#include "app/store/database_url.h"
#include "app/store/store_codec.h"
#include "app/store/store_statements.h"
#include "base/closing.h"
#include "base/err.h"
#include "base/list.h"

#include <libpq-fe.h>
#include <uv.h>

struct store_conn;

struct store_query;

/**
 * Called once per query, after store_conn_send() and store_conn_flush() have returned.
 *
 * @status  OK, IO, TIMEOUT, BUSY, REFUSED, CANCELLED as in store.h
 * @result  valid during the callback; NULL unless the server answered
 * @why     NULL if `status` is RLOCK_OK
 */
typedef void (*store_query_cb)(struct store_query *query, enum rlock_status status,
                               const PGresult *result, const struct rlock_err *why);

/** A statement under way, in the caller's memory until the answer. */
struct store_query {
    struct rlock_link link;
    /* After this time the server cancels the statement, and the answer is RLOCK_BUSY. The time may
       be shorter, but not below statement_ms / 2, because the session's limit is changed only if
       it is not in this range. */
    uint32_t statement_ms;
    /* If the server has not answered in this time, it counts as hung. The time starts when all
       earlier queries have been answered. */
    uint32_t timeout_ms;
    store_query_cb done;
    /* set by the connection: */
    bool has_proof;  /* STATEMENT_PROOF follows the transaction */
    bool is_doubted; /* the barrier and the proof were sent again, see prove_again() */
    PGresult *result;
};

/** A server process. Its start time tells it apart from a later process with the same pid. */
struct store_backend {
    int64_t pid;
    int64_t start_us;
};

/** What the server reported at the start of the session. Each proof updates `durability`,
 *  `configured_us`, `cell` and `cells`. */
struct store_session {
    struct store_backend backend;
    int64_t server_start_us; /* when the server started, which distinguishes servers */
    enum durability durability;
    int64_t configured_us; /* when the server read its configuration, see proof.sql */
    /* The vouchers of the server have id % cells == cell. A split doubles `cells`. If `cell` is -1,
       the server is an aggregate of cells or receives a half. */
    int64_t cell, cells;
    /* how old the data of the last answer may be; set only if `is_reader` */
    int64_t age_s;
};

struct store_conn_options {
    uv_loop_t *loop;
    const char *database_url; /* valid; borrowed until the connection is closed */
    /* the connection refuses a server whose commits survive less */
    enum durability required;
    /* The server may be read-only. In place of STATEMENT_BARRIER and a proof, STATEMENT_AGE is
       sent, which returns how old the data of the server may be. */
    bool is_reader;
    /* Whether the connection looks for a pooler in transaction mode before it changes its session,
       and refuses the pooler with RLOCK_NOT_OWNER. Every other connection finds such a pooler only
       by the first proof of a commit. */
    bool finds_poolers;
    uint32_t timeout_ms; /* limit of an attempt to connect; less with several hosts */
    uint32_t statement_ms;
    uint32_t lock_ms;   /* a longer wait for a lock ends with RLOCK_BUSY; 0: no limit */
    uint32_t idle_ms;   /* the server ends a session after this idle time; 0: never */
    const char *listen; /* a channel, or NULL */
    void (*on_up)(struct store_conn *conn, void *arg);
    /* Called when all hosts have failed in turn. `why` is the reason of one host: preferably of a
       host that has answered and is not read-only. Also called with `was_up` when an established
       connection fails, before its queries are answered. */
    void (*on_down)(struct store_conn *conn, bool was_up, const struct rlock_err *why,
                    void *arg);
    void (*on_notify)(const char *payload, void *arg); /* NULL if `listen` is NULL */
    void *arg;
};

MUST_CHECK enum rlock_status store_conn_open(const struct store_conn_options *options,
                                             struct store_conn **ret_conn);

/** Answer all queries with RLOCK_CANCELLED, and close the connection. `owner` does not count as
 *  closed until all handles of the connection have closed. */
void store_conn_close(struct store_conn *conn, struct closing *owner);

bool store_conn_is_up(const struct store_conn *conn);

/** The last session, even if the connection has ended. During on_down this is the session that
 *  failed. */
const struct store_session *store_conn_session(const struct store_conn *conn);

/** Send a proof that belongs to no query. Does nothing while queries are under way. */
void store_conn_check(struct store_conn *conn);

/** Leave the server, because a proof on another connection has failed. The status of `why` is
 *  RLOCK_UNSAFE. Does nothing if the connection is not up. */
void store_conn_leave(struct store_conn *conn, const struct rlock_err *why);

/** Number of unanswered queries. */
unsigned store_conn_pending(const struct store_conn *conn);

/** Do not reconnect before store_conn_follow(). Called in on_down if another connection already
 *  looks for a server. */
void store_conn_rest(struct store_conn *conn);

/**
 * Use the server of `leader`, which has just connected. If `conn` is connected to another server,
 * it leaves that server, and its queries fail. If `conn` waits for its next attempt, it connects at
 * once.
 */
void store_conn_follow(struct store_conn *conn, const struct store_conn *leader);

/**
 * Send a statement at the next flush, or earlier.
 *
 * @params  copied
 *
 * Returns  false: there is no connection; nothing was sent, and `query` will not be answered
 */
MUST_CHECK bool store_conn_send(struct store_conn *conn, struct store_query *query,
                                enum statement statement,
                                const struct store_params *params);

/**
 * Forget a query that was sent. The server executes the query, but the callback is not called.
 *
 * Returns  false: out of memory; the query stays
 */
MUST_CHECK bool store_conn_abandon(struct store_conn *conn, struct store_query *query);

void store_conn_flush(struct store_conn *conn);

#endif
