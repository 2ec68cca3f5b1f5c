/*
 * store_conn_open.c - attempts to connect: the name of the host, the connection, the session.
 *
 * Each attempt takes the next host. If there are several hosts, a host that does not answer uses
 * only a part of the timeout. All attempts share one look-up of names, which cannot be cancelled.
 * So if a name server does not answer, the hosts that have names wait for it.
 */
#include "app/core/embed.h"
#include "app/core/metrics.h"
#include "app/store/store_conn_impl.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define HOST_PART   5 /* an attempt at one of several hosts gets a fifth of the timeout */
#define HOST_MS_MIN 200 /* a login can take this long on a busy machine */

/* -- session -- */

enum proof_column {
    PROOF_DURABILITY,
    PROOF_READ_ONLY,
    PROOF_CONFIGURED,
    PROOF_PID,
    PROOF_CELL,
    PROOF_CELLS,
    PROOF_COLUMNS
};

static enum rlock_status refuse_pooler(struct rlock_err *reterr)
{
    return err_set(reterr, RLOCK_NOT_OWNER,
                   "a pooler gives each transaction another server process: set its"
                   " pool_mode to session, or connect directly");
}

enum rlock_status store_conn_take_proof(struct store_conn *conn, const PGresult *result,
                                        struct rlock_err *reterr)
{
    struct store_session *session = &conn->session;
    int64_t configured_us;

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return err_set(reterr, RLOCK_IO, "proof: %s", PQresultErrorMessage(result));
    if (result_int64(result, 0, PROOF_PID) != session->backend.pid)
        return refuse_pooler(reterr);
    configured_us = result_time(result, 0, PROOF_CONFIGURED);
    conn->is_reconfigured = configured_us != session->configured_us;
    session->configured_us = configured_us;
    session->durability = (enum durability)result_int64(result, 0, PROOF_DURABILITY);
    if (result_int64(result, 0, PROOF_CELL) < 0)
        return err_set(reterr, RLOCK_REFUSED,
                       "the database is an aggregate of cells, or receives a half of a"
                       " cell: name an aggregate in SECKILL_LISTS_DATABASE_URL, and a"
                       " cell here");
    session->cell = result_int64(result, 0, PROOF_CELL);
    session->cells = result_int64(result, 0, PROOF_CELLS);
    if (result_int64(result, 0, PROOF_READ_ONLY) != 0)
        return err_set(reterr, RLOCK_BUSY, "the server is read-only");
    if (session->durability < conn->options.required)
        return err_set(reterr, RLOCK_UNSAFE,
                       "durability is %s, see SECKILL_REQUIRE_DURABILITY: check fsync,"
                       " full_page_writes, synchronous_commit, the standby",
                       durability_names[session->durability]);
    return RLOCK_OK;
}

/* Takes the answer about the session. Refuses a role that may not place orders, because the service
   would be ready but could not sell. */
static enum rlock_status take_session(struct store_conn *conn, const PGresult *result,
                                      struct rlock_err *reterr)
{
    struct store_session *session = &conn->session;

    session->backend.pid = result_int64(result, 0, 0);
    session->backend.start_us = result_time(result, 0, 1);
    session->server_start_us = result_time(result, 0, 3);
    if (!conn->options.is_reader && result_int64(result, 0, 2) != 1)
        return err_set(reterr, RLOCK_REFUSED,
                       "this role may not call place_orders(): run seckill migrate"
                       " --service-role");
    return RLOCK_OK;
}

static enum rlock_status take_prepared(struct store_conn *conn, const PGresult *result,
                                       struct rlock_err *reterr)
{
    const char *encoding = PQparameterStatus(conn->pg, "server_encoding");

    if (encoding != NULL && strcmp(encoding, "UTF8") != 0)
        return err_set(reterr, RLOCK_INVALID, DATABASE_NOT_UTF8, encoding);
    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
        return PQnfields(result) == PROOF_COLUMNS
                   ? store_conn_take_proof(conn, result, reterr)
                   : take_session(conn, result, reterr);
    case PGRES_COMMAND_OK:
        return RLOCK_OK;
    case PGRES_PIPELINE_SYNC:
        conn->state = STATE_UP;
        conn->attempts = 0;
        if (!store_conn_is_broken(conn))
            uv_timer_stop(&conn->timer);
        conn->options.on_up(conn, conn->options.arg);
        return RLOCK_OK;
    default:
        return err_set(reterr, RLOCK_IO, "prepare: %s", PQresultErrorMessage(result));
    }
}

static bool send_settings(struct store_conn *conn)
{
    const struct store_conn_options *options = &conn->options;
    char limits[3][12];
    const char *const values[] = {limits[0], limits[1], limits[2]};

    snprintf(limits[0], sizeof(limits[0]), "%" PRIu32, options->statement_ms);
    snprintf(limits[1], sizeof(limits[1]), "%" PRIu32, options->lock_ms);
    snprintf(limits[2], sizeof(limits[2]), "%" PRIu32, options->idle_ms);
    conn->statement_ms = options->statement_ms;
    return PQsendQueryParams(conn->pg, embedded_find("sql/queries/session.sql")->bytes, 3,
                             NULL, values, NULL, NULL, 1) == 1;
}

static bool send_listen(struct store_conn *conn)
{
    char sql[128];

    if (conn->options.listen == NULL)
        return true;
    snprintf(sql, sizeof(sql), "listen %s", conn->options.listen);
    return PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 1) == 1;
}

/* The proof comes before LISTEN, because a standby refuses LISTEN without saying that it is
   read-only. */
static void start_preparing(struct store_conn *conn)
{
    bool is_sent = send_settings(conn);

    for (int i = 0; is_sent && i < STATEMENT_COUNT; i++)
        is_sent =
            PQsendPrepare(conn->pg, store_statements[i].name,
                          embedded_find(store_statements[i].path)->bytes, 0, NULL) == 1;
    if (!conn->options.is_reader)
        is_sent = is_sent && store_conn_send_bare(conn, STATEMENT_PROOF);
    if (!is_sent || !send_listen(conn) || PQpipelineSync(conn->pg) != 1) {
        store_conn_fail_io(conn, "prepare", PQerrorMessage(conn->pg));
        return;
    }
    conn->state = STATE_PREPARING;
    store_conn_arm(conn, conn->options.timeout_ms * INT64_C(1000));
    store_conn_flush(conn);
}

/* -- poolers -- */

/* Asks for the server process. Behind a pooler the connection asks twice, checks the pooler, and
   asks a third time. A pooler in transaction mode that takes its server processes in turn answers
   the second question with another process. A pooler that prefers the process that was used last
   gives this process to a connection of the check. If another client has got the process instead,
   the third question is answered with another process. */
static void ask_for_backend(struct store_conn *conn)
{
    if (PQsendQueryParams(conn->pg, POOLER_ASK, 0, NULL, NULL, NULL, NULL, 1) != 1 ||
        PQpipelineSync(conn->pg) != 1) {
        store_conn_fail_io(conn, "ask for the process", PQerrorMessage(conn->pg));
        return;
    }
    store_conn_flush(conn);
}

static void start_session(struct store_conn *conn)
{
    if (PQsetnonblocking(conn->pg, 1) != 0 || PQenterPipelineMode(conn->pg) != 1) {
        store_conn_fail_io(conn, "prepare", PQerrorMessage(conn->pg));
        return;
    }
    store_conn_arm(conn, conn->options.timeout_ms * INT64_C(1000));
    if (!conn->options.finds_poolers) {
        start_preparing(conn);
        return;
    }
    conn->state = STATE_ASKING;
    conn->asked = 0;
    ask_for_backend(conn);
}

static void check_pooler(struct store_conn *conn);

/* The answer may belong to an earlier attempt. */
static void conn_on_pooler_checked(struct pooler_check *check)
{
    struct store_conn *conn = check->arg;
    struct rlock_err why;

    conn->is_checking = false;
    if (conn->state == STATE_CHECKING && conn->check_attempt != conn->attempts) {
        check_pooler(conn);
    } else if (conn->state == STATE_CHECKING && check->is_shared) {
        why.status = refuse_pooler(&why);
        store_conn_fail(conn, &why);
    } else if (conn->state == STATE_CHECKING) {
        conn->state = STATE_ASKING;
        ask_for_backend(conn);
    }
    closing_done(&conn->closing);
}

static void check_pooler(struct store_conn *conn)
{
    conn->state = STATE_CHECKING;
    if (conn->is_checking)
        return;
    conn->pooler = (struct pooler_check){.database_url = conn->options.database_url,
                                         .target = conn->target,
                                         .pid = conn->asked_pid,
                                         .timeout_ms = conn->options.timeout_ms / 2,
                                         .done = conn_on_pooler_checked,
                                         .arg = conn};
    if (pooler_check_start(&conn->pooler, conn->options.loop) != 0) {
        store_conn_fail_io(conn, "connect", "no thread");
        return;
    }
    conn->is_checking = true;
    conn->check_attempt = conn->attempts;
    closing_part(&conn->closing);
}

/* Takes the answer to POOLER_ASK. At the login, the peer of the connection has named a process to
   libpq. If the peer is a pooler, it has named a process of its own. */
static enum rlock_status take_backend(struct store_conn *conn, const PGresult *result,
                                      struct rlock_err *reterr)
{
    int64_t before = conn->asked_pid;

    if (PQresultStatus(result) == PGRES_TUPLES_OK) {
        conn->asked_pid = result_int64(result, 0, 0);
        return conn->asked++ == 0 || conn->asked_pid == before ? RLOCK_OK
                                                               : refuse_pooler(reterr);
    }
    if (PQresultStatus(result) != PGRES_PIPELINE_SYNC)
        return err_set(reterr, RLOCK_IO, "ask for the process: %s",
                       PQresultErrorMessage(result));
    if (conn->asked_pid == PQbackendPID(conn->pg) || conn->asked == 3)
        start_preparing(conn);
    else if (conn->asked == 1)
        ask_for_backend(conn);
    else
        check_pooler(conn);
    return RLOCK_OK;
}

enum rlock_status store_connect_take(struct store_conn *conn, const PGresult *result,
                                     struct rlock_err *reterr)
{
    return conn->state == STATE_ASKING ? take_backend(conn, result, reterr)
                                       : take_prepared(conn, result, reterr);
}

/* -- connecting -- */

void store_connect_continue(struct store_conn *conn, PostgresPollingStatusType next)
{
    if (next == PGRES_POLLING_FAILED) {
        store_conn_fail_io(conn, "connect", PQerrorMessage(conn->pg));
        return;
    }
    if (!store_conn_start_polling(conn)) {
        store_conn_fail_io(conn, "connect", "no event handle");
        return;
    }
    if (next == PGRES_POLLING_OK)
        start_session(conn);
    else
        store_conn_poll_for(conn,
                            next == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE);
}

/* Notes that an administrator has cancelled the wait of a commit for the standby. The server
   reports the commit as successful, and only this notice tells the difference. All other notices
   are dropped. */
static void conn_on_notice(void *arg, const PGresult *notice)
{
    struct store_conn *conn = arg;
    const char *source = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);

    if (source != NULL && strcmp(source, "SyncRepWaitForLSN") == 0)
        conn->is_wait_cancelled = true;
}

static void start_connecting(struct store_conn *conn)
{
    conn->state = STATE_CONNECTING;
    conn->pg = database_connect(conn->options.database_url, &conn->target);
    if (conn->pg == NULL || PQstatus(conn->pg) == CONNECTION_BAD) {
        store_conn_fail_io(conn, "connect", PQerrorMessage(conn->pg));
        return;
    }
    PQsetNoticeReceiver(conn->pg, conn_on_notice, conn);
    store_connect_continue(conn, PGRES_POLLING_WRITING);
}

/* -- names -- */

static void connect_resolved(struct store_conn *conn, const struct addrinfo *found)
{
    const struct addrinfo *at = found;
    int failure;

    for (unsigned i = conn->attempts / conn->host_count; i > 0; i--)
        at = at->ai_next == NULL ? found : at->ai_next;
    failure = getnameinfo(at->ai_addr, at->ai_addrlen, conn->target.address,
                          sizeof(conn->target.address), NULL, 0, NI_NUMERICHOST);
    if (failure == 0)
        start_connecting(conn);
    else
        store_conn_fail_io(conn, conn->target.name, gai_strerror(failure));
}

static void start_resolving(struct store_conn *conn);

/* The resolver has answered. A late answer may be about the host of an earlier attempt. */
static void conn_on_resolved(uv_getaddrinfo_t *request, int failure,
                             struct addrinfo *found)
{
    struct store_conn *conn = request->data;
    struct rlock_err why;

    conn->is_resolving = false;
    if (conn->state == STATE_RESOLVING && conn->resolve_host != conn->host) {
        start_resolving(conn);
    } else if (conn->state == STATE_RESOLVING && failure == 0) {
        connect_resolved(conn, found);
    } else if (conn->state == STATE_RESOLVING) {
        err_set(&why, RLOCK_IO, "check the database URL: no address of %s",
                conn->target.name);
        store_conn_fail_io(conn, why.text, uv_strerror(failure));
    }
    uv_freeaddrinfo(found);
    closing_done(&conn->closing);
}

static void start_resolving(struct store_conn *conn)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    int failure;

    conn->state = STATE_RESOLVING;
    if (conn->is_resolving)
        return;
    failure = uv_getaddrinfo(conn->options.loop, &conn->resolve, conn_on_resolved,
                             conn->target.name, NULL, &hints);
    if (failure != 0) {
        store_conn_fail_io(conn, conn->target.name, uv_strerror(failure));
        return;
    }
    conn->is_resolving = true;
    conn->resolve_host = conn->host;
    closing_part(&conn->closing);
}

/* -- attempts -- */

uint32_t store_connect_ms(const struct store_conn *conn)
{
    uint32_t part_ms = conn->options.timeout_ms / HOST_PART;

    return conn->state < STATE_ASKING && conn->host_count > 1 && part_ms > HOST_MS_MIN
               ? part_ms
               : conn->options.timeout_ms;
}

void store_connect(struct store_conn *conn)
{
    store_conn_arm(conn, store_connect_ms(conn) * INT64_C(1000));
    if (!database_url_host(conn->options.database_url, conn->host, &conn->target))
        store_conn_fail_io(conn, "connect", "out of memory");
    else if (database_host_is_named(&conn->target))
        start_resolving(conn);
    else
        start_connecting(conn);
}
