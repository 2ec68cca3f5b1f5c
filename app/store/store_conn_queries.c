/*
 * store_conn_queries.c - the queries of a connection to Postgres.
 *
 * A connection goes through these states, and back to WAITING after a failure:
 *   WAITING     for the next attempt
 *   RESOLVING   a thread of libuv looks up the name of the host
 *   CONNECTING  by PQconnectPoll()
 *   ASKING      the server names the process that serves the session
 *   CHECKING    behind a pooler: whether it gives this process to other clients, see pooler.h
 *   PREPARING   the settings and the statements of the session are under way
 *   UP
 * One timer serves for the pause before an attempt, for the deadline of an attempt, and for the
 * deadline of the oldest query.
 *
 * A query is one statement followed by a Sync, so the server commits each query separately. The
 * rows arrive before the commit, so a query is done only when the answer to its Sync has arrived. A
 * query with a barrier is two statements and a Sync: their common commit waits until everything
 * that the first statement has changed or read is durable. Then the proof and another Sync follow.
 * The query is done when the proof says that commits are as durable as required. If they are not,
 * the outcome of the query is unknown, and the connection leaves the server.
 *
 * If the server was reconfigured between this proof and the one before, the commit may have been
 * less durable than both proofs say. Then the barrier and the proof are sent again.
 *
 * The session's statement_timeout and lock_timeout make the server answer before the deadline. If
 * the statement_timeout does not suit the next query, which is rare, a separate query changes it. A
 * server that has not answered by the deadline counts as hung: the connection is closed, and the
 * outcome of all its queries is unknown.
 */
#include "app/store/store_conn_impl.h"
#include "base/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- answers -- */

/* Ends a transaction by the message Sync. An old libpq writes the message at once, a new libpq at
   the next flush. Returns false if libpq has failed. */
static bool send_sync(struct store_conn *conn)
{
#ifdef LIBPQ_HAS_SEND_PIPELINE_SYNC
    return PQsendPipelineSync(conn->pg) == 1;
#else
    return PQpipelineSync(conn->pg) == 1;
#endif
}

static bool send_alone(struct store_conn *conn, enum statement statement)
{
    return store_conn_send_bare(conn, statement) && send_sync(conn);
}

static struct store_query *oldest(const struct store_conn *conn)
{
    return LIST_FIRST(struct store_query, &conn->pending, link);
}

static void start_deadline(struct store_conn *conn)
{
    const struct store_query *query = oldest(conn);

    if (query == NULL || store_conn_is_broken(conn))
        return;
    conn->deadline_us = clock_mono_us() + query->timeout_ms * INT64_C(1000);
    store_conn_arm(conn, query->timeout_ms * INT64_C(1000));
}

/* Returns what an error means for the session. RLOCK_OK: the session can be used further.
   RLOCK_REFUSED: the session can be used further, but a retry of the query is useless. Any other
   status is the reason why the session must be closed. */
static enum rlock_status session_after(const char *sqlstate)
{
    static const struct {
        const char *begin; /* the first characters of the SQLSTATE */
        enum rlock_status session;
    } transient[] = {
        {"0A000", RLOCK_IO},   /* a migration has invalidated a prepared statement */
        {"25006", RLOCK_BUSY}, /* the server has become read-only */
        {"26000", RLOCK_IO},   /* a prepared statement is gone */
        {"40", RLOCK_OK},      /* rolled back: deadlock, serialization */
        {"53", RLOCK_OK},      /* insufficient resources */
        {"55", RLOCK_OK},      /* not in the required state, such as lock_not_available */
        {"57", RLOCK_OK},      /* operator intervention: cancelled, shutting down */
        {"58", RLOCK_OK},      /* system error of the server */
    };

    for (size_t i = 0; i < sizeof(transient) / sizeof(transient[0]); i++) {
        if (strncmp(sqlstate, transient[i].begin, strlen(transient[i].begin)) == 0)
            return transient[i].session;
    }
    return RLOCK_REFUSED;
}

static bool is_error(const PGresult *result)
{
    return PQresultStatus(result) != PGRES_TUPLES_OK &&
           PQresultStatus(result) != PGRES_COMMAND_OK;
}

static void answer_oldest(struct store_conn *conn)
{
    struct store_query *query = LIST_SHIFT(struct store_query, &conn->pending, link);
    PGresult *result = query->result;
    struct rlock_err why = {0};

    query->result = NULL;
    conn->pending_count--;
    start_deadline(conn);
    if (is_error(result)) {
        enum rlock_status session = session_after(result_sqlstate(result));

        err_set(&why, session == RLOCK_REFUSED ? RLOCK_REFUSED : RLOCK_BUSY, "%s (%s)",
                PQresultErrorMessage(result), result_sqlstate(result));
        if (session != RLOCK_OK && session != RLOCK_REFUSED)
            store_conn_fail_later(conn, session, "session", why.text);
    }
    query->done(query, why.status, result, why.status == RLOCK_OK ? NULL : &why);
    PQclear(result);
}

/* Keeps the rows of the statement, and drops the row of the barrier that follows. If the commit
   fails after the rows, the error replaces the rows. */
static void keep_result(struct store_conn *conn, PGresult *result)
{
    struct store_query *query = oldest(conn);

    if (query->result != NULL && PQresultStatus(result) != PGRES_FATAL_ERROR) {
        if (conn->options.is_reader && PQntuples(result) == 1)
            conn->session.age_s = result_int64(result, 0, 0);
        PQclear(result);
        return;
    }
    PQclear(query->result);
    query->result = result;
}

/* Sends the barrier and the proof of the oldest query again, because the server was reconfigured
   between the last two proofs. The query then counts as the newest. */
static void prove_again(struct store_conn *conn)
{
    struct store_query *query = LIST_SHIFT(struct store_query, &conn->pending, link);

    query->is_doubted = true;
    list_append(&conn->pending, &query->link);
    start_deadline(conn);
    if (!send_alone(conn, STATEMENT_BARRIER) || !send_alone(conn, STATEMENT_PROOF))
        store_conn_fail_later(conn, RLOCK_IO, "send", PQerrorMessage(conn->pg));
}

/* Takes the proof of the oldest query. If the query was rolled back, its outcome is known. Then the
   query is answered even if the proof fails. */
static enum rlock_status take_proof(struct store_conn *conn, const PGresult *result,
                                    struct rlock_err *reterr)
{
    enum rlock_status status = store_conn_take_proof(conn, result, reterr);

    if (status == RLOCK_OK || !is_error(oldest(conn)->result))
        return status;
    store_conn_fail_later(conn, status, "session", reterr->text);
    return RLOCK_OK;
}

static enum rlock_status take_sync(struct store_conn *conn, struct rlock_err *reterr)
{
    const struct store_query *query = oldest(conn);
    bool is_of_pooler = strncmp(result_sqlstate(query->result), "08", 2) == 0;

    if (is_of_pooler || (query->is_doubted && is_error(query->result)))
        return err_set(reterr, RLOCK_IO, "%s", PQresultErrorMessage(query->result));
    if (conn->is_wait_cancelled)
        return err_set(reterr, RLOCK_IO,
                       "the commit's wait for the standby was cancelled");
    conn->is_committed = query->has_proof && !conn->is_committed;
    if (conn->is_committed)
        return RLOCK_OK;
    if (query->has_proof && conn->is_reconfigured && !is_error(query->result))
        prove_again(conn);
    else
        answer_oldest(conn);
    return RLOCK_OK;
}

static bool take_result(struct store_conn *conn, PGresult *result)
{
    bool is_sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
    struct rlock_err why = {0};

    if (conn->state == STATE_UP && !is_sync && !conn->is_committed) {
        keep_result(conn, result);
        return true;
    }
    if (conn->state != STATE_UP)
        why.status = store_connect_take(conn, result, &why);
    else if (is_sync)
        why.status = take_sync(conn, &why);
    else
        why.status = take_proof(conn, result, &why);
    PQclear(result);
    if (why.status != RLOCK_OK)
        store_conn_fail(conn, &why);
    return why.status == RLOCK_OK;
}

/* Handles the results that have arrived. A NULL ends the results of a statement. After two NULLs in
   a row libpq expects no more results, which happens only if the connection is dead. */
static void take_results(struct store_conn *conn)
{
    unsigned nulls = 0;

    while ((conn->state == STATE_ASKING || conn->state == STATE_PREPARING ||
            (conn->state == STATE_UP && !list_is_empty(&conn->pending))) &&
           nulls < 2 && !PQisBusy(conn->pg)) {
        PGresult *result = PQgetResult(conn->pg);

        nulls = result == NULL ? nulls + 1 : 0;
        if (result != NULL && !take_result(conn, result))
            return;
    }
}

static void take_input(struct store_conn *conn)
{
    PGconn *pg = conn->pg;
    bool is_alive = PQconsumeInput(pg) == 1;

    take_results(conn); /* may close the connection and so leave STATE_UP */
    for (PGnotify *notify;
         conn->state == STATE_UP && (notify = PQnotifies(conn->pg)) != NULL;
         PQfreemem(notify))
        conn->options.on_notify(notify->extra, conn->options.arg);
    if (conn->pg == pg && (!is_alive || PQstatus(pg) == CONNECTION_BAD))
        store_conn_fail_io(conn, "connection lost", PQerrorMessage(conn->pg));
}

static void conn_on_poll(uv_poll_t *poll, int status UNUSED, int events)
{
    struct store_conn *conn = poll->data;

    if (poll != conn->poll)
        return;
    if (conn->state == STATE_CONNECTING) {
        store_conn_stop_polling(conn);
        store_connect_continue(conn, PQconnectPoll(conn->pg));
        return;
    }
    if (events & UV_WRITABLE)
        store_conn_flush(conn);
    /* if the socket has an error, reading finds it */
    if (events != UV_WRITABLE)
        take_input(conn);
}

/* -- time -- */

static void check_deadline(struct store_conn *conn)
{
    int64_t left_us = conn->deadline_us - clock_mono_us();
    struct pollfd socket = {.fd = PQsocket(conn->pg), .events = POLLIN};
    struct rlock_err why;

    if (oldest(conn) == NULL)
        return;
    /* Unread input may be a part of a large answer, so the answer does not count as late. */
    if (left_us > 0 || poll(&socket, 1, 0) > 0) {
        store_conn_arm(conn, left_us);
        return;
    }
    err_set(&why, RLOCK_TIMEOUT, "no answer within %" PRIu32 " ms",
            oldest(conn)->timeout_ms);
    store_conn_fail(conn, &why);
}

static void conn_on_timer_up(struct store_conn *conn)
{
    /* If this process was paused, the answer may have arrived, but is unread. */
    if (!store_conn_is_broken(conn) && oldest(conn) != NULL)
        take_input(conn);
    if (conn->state != STATE_UP)
        return;
    if (store_conn_is_broken(conn))
        store_conn_fail(conn, &conn->broken);
    else
        check_deadline(conn);
}

static void conn_on_timer(uv_timer_t *timer)
{
    struct store_conn *conn = timer->data;

    switch (conn->state) {
    case STATE_WAITING:
        store_connect(conn);
        break;
    case STATE_RESOLVING:
    case STATE_CONNECTING:
    case STATE_ASKING:
    case STATE_CHECKING:
    case STATE_PREPARING:
        if (!store_conn_is_broken(conn))
            err_set(&conn->broken, RLOCK_TIMEOUT,
                    "connect: no answer within %" PRIu32 " ms", store_connect_ms(conn));
        store_conn_fail(conn, &conn->broken);
        break;
    case STATE_UP:
        conn_on_timer_up(conn);
        break;
    case STATE_CLOSED:
        break;
    }
}

/* -- interface -- */

static void conn_on_closed(void *owner)
{
    struct store_conn *conn = owner;
    struct closing *closing = conn->owner;

    free(conn);
    closing_done(closing);
}

enum rlock_status store_conn_open(const struct store_conn_options *options,
                                  struct store_conn **ret_conn)
{
    struct store_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL ||
        database_url_check(options->database_url, &conn->host_count, NULL) != RLOCK_OK) {
        free(conn);
        return RLOCK_NO_MEMORY;
    }
    conn->options = *options;
    list_init(&conn->pending);
    list_init(&conn->failed);
    uv_timer_init(options->loop, &conn->timer);
    conn->timer.data = conn;
    conn->resolve.data = conn;
    conn->on_timer = conn_on_timer;
    conn->on_poll = conn_on_poll;
    closing_start(&conn->closing, conn_on_closed, conn);
    store_conn_arm(conn, 0);
    *ret_conn = conn;
    return RLOCK_OK;
}

void store_conn_close(struct store_conn *conn, struct closing *owner)
{
    struct rlock_err why;

    conn->owner = closing_part(owner);
    conn->state = STATE_CLOSED;
    store_conn_drop(conn);
    if (conn->is_resolving)
        uv_cancel((uv_req_t *)&conn->resolve);
    if (conn->is_checking)
        pooler_check_cancel(&conn->pooler);
    closing_handle(&conn->closing, (uv_handle_t *)&conn->timer);
    closing_done(&conn->closing);
    err_set(&why, RLOCK_CANCELLED, "closed");
    store_conn_answer_failed(conn, &why);
}

const struct store_session *store_conn_session(const struct store_conn *conn)
{
    return &conn->session;
}

unsigned store_conn_pending(const struct store_conn *conn)
{
    return conn->pending_count;
}

void store_conn_rest(struct store_conn *conn)
{
    if (conn->state == STATE_WAITING)
        uv_timer_stop(&conn->timer);
}

void store_conn_follow(struct store_conn *conn, const struct store_conn *leader)
{
    if (conn->state == STATE_WAITING) {
        conn->host = leader->host;
        store_conn_arm(conn, 0);
    } else if (conn->state == STATE_UP &&
               conn->session.server_start_us != leader->session.server_start_us) {
        /* the host before the leader's, because store_conn_fail() goes on to the next host */
        conn->host = leader->host + conn->host_count - 1;
        store_conn_fail_later(conn, RLOCK_IO, "connection left",
                              "another server accepts writes");
    }
}

/* -- sending -- */

static bool send_statement(struct store_conn *conn, enum statement statement,
                           const struct store_params *params, bool has_proof)
{
    enum statement barrier = conn->options.is_reader ? STATEMENT_AGE : STATEMENT_BARRIER;
    const char *values[STORE_PARAMS_MAX];
    int lengths[STORE_PARAMS_MAX];

    params_point(params, values, lengths);
    return PQsendQueryPrepared(conn->pg, store_statements[statement].name, params->count,
                               values, lengths, params_binary, 1) == 1 &&
           (store_statements[statement].follower != STORE_BARRIER ||
            store_conn_send_bare(conn, barrier)) &&
           send_sync(conn) && (!has_proof || send_alone(conn, STATEMENT_PROOF));
}

static void add_pending(struct store_conn *conn, struct store_query *query)
{
    list_append(&conn->pending, &query->link);
    if (conn->pending_count++ == 0)
        start_deadline(conn);
}

static void conn_on_unattended(struct store_query *query, enum rlock_status status UNUSED,
                               const PGresult *result UNUSED,
                               const struct rlock_err *why UNUSED)
{
    free(query);
}

static struct store_query *unattended_query(uint32_t timeout_ms)
{
    struct store_query *query = calloc(1, sizeof(*query));

    if (query == NULL)
        return NULL;
    query->timeout_ms = timeout_ms;
    query->done = conn_on_unattended;
    return query;
}

static bool send_limit(struct store_conn *conn, const struct store_query *query)
{
    struct store_query *unattended;
    char sql[64];

    if (conn->statement_ms <= query->statement_ms &&
        conn->statement_ms >= query->statement_ms / 2)
        return true;
    unattended = unattended_query(query->timeout_ms);
    if (unattended == NULL)
        return false;
    conn->statement_ms = query->statement_ms;
    snprintf(sql, sizeof(sql), "set statement_timeout = %" PRIu32, conn->statement_ms);
    add_pending(conn, unattended);
    return PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 1) == 1 &&
           send_sync(conn);
}

bool store_conn_send(struct store_conn *conn, struct store_query *query,
                     enum statement statement, const struct store_params *params)
{
    bool is_sent;

    if (!store_conn_is_up(conn) || params->has_failed)
        return false;
    query->is_doubted = false;
    query->has_proof =
        store_statements[statement].follower != STORE_NOTHING && !conn->options.is_reader;
    is_sent = send_limit(conn, query);
    add_pending(conn, query);
    if (!is_sent || !send_statement(conn, statement, params, query->has_proof))
        store_conn_fail_later(conn, RLOCK_IO, "send", PQerrorMessage(conn->pg));
    return true;
}

static void conn_on_checked(struct store_query *query, enum rlock_status status,
                            const PGresult *result, const struct rlock_err *why UNUSED)
{
    struct store_conn *conn = list_item(query, struct store_conn, check);
    struct rlock_err broken;

    if (status == RLOCK_OK && store_conn_take_proof(conn, result, &broken) != RLOCK_OK)
        store_conn_fail_later(conn, broken.status, "session", broken.text);
}

void store_conn_check(struct store_conn *conn)
{
    if (!store_conn_is_up(conn) || conn->pending_count > 0)
        return;
    conn->check.timeout_ms = conn->options.timeout_ms;
    conn->check.done = conn_on_checked;
    add_pending(conn, &conn->check);
    if (!send_alone(conn, STATEMENT_PROOF))
        store_conn_fail_later(conn, RLOCK_IO, "send", PQerrorMessage(conn->pg));
}

void store_conn_leave(struct store_conn *conn, const struct rlock_err *why)
{
    if (conn->state == STATE_UP)
        store_conn_fail_later(conn, why->status, "connection left", why->text);
}

bool store_conn_abandon(struct store_conn *conn UNUSED, struct store_query *query)
{
    struct store_query *unattended = unattended_query(query->timeout_ms);

    if (unattended == NULL)
        return false;
    unattended->has_proof = query->has_proof;
    unattended->is_doubted = query->is_doubted;
    unattended->result = query->result;
    query->result = NULL;
    list_insert_after(&query->link, &unattended->link);
    list_remove(&query->link);
    return true;
}
