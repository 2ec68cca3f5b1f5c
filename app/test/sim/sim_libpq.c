/*
 * sim_libpq.c - the functions of libpq that the store calls, over the simulated network.
 *
 * A connection collects statements up to a Sync message. PQflush() sends them as one segment.
 * Results are available as soon as they arrive; PQconsumeInput() only reports that a connection is
 * lost.
 */
#include "app/store/pooler.h"
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_loop.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_postgres.h"
#include "app/test/sim/sim_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pg_conn {
    struct sim_descriptor descriptor;
    struct sim_stream to_client;
    struct sim_backend *backend;
    enum { CONN_STARTING, CONN_LOGGING_IN, CONN_READY, CONN_LOST } state;
    bool is_accepted;
    struct rlock_link building; /* list of sim_segment_statement, up to the next Sync */
    struct rlock_link unsent;   /* list of sim_request */
    struct rlock_link results;  /* list of struct arrived */
    struct rlock_link notifications; /* list of struct arrived */
    const char *error;
};

struct arrived {
    struct rlock_link link;
    PGresult *result;
    int64_t voucher_id;
};

static void send_request(struct pg_conn *conn, enum sim_request_kind kind)
{
    struct sim_request *request = sim_calloc(sizeof(*request));

    request->kind = kind;
    list_init(&request->statements);
    sim_stream_send(sim_backend_stream(conn->backend), &request->head);
}

/* -- connecting -- */

static void keep(struct rlock_link *list, PGresult *result, int64_t voucher_id)
{
    struct arrived *arrived = sim_alloc(sizeof(*arrived));

    arrived->result = result;
    arrived->voucher_id = voucher_id;
    list_append(list, &arrived->link);
}

static void lose(struct pg_conn *conn, const char *why)
{
    conn->state = CONN_LOST;
    conn->error = why;
}

static void conn_on_arrival(void *owner, struct sim_message *message)
{
    struct pg_conn *conn = owner;
    struct sim_answer *answer = list_item(message, struct sim_answer, head);

    conn->descriptor.is_readable = true;
    switch (answer->kind) {
    case ANSWER_ACCEPTED:
        conn->is_accepted = conn->descriptor.is_writable = true;
        break;
    case ANSWER_REFUSED:
        conn->descriptor.is_writable = true;
        lose(conn, "connection refused");
        break;
    case ANSWER_READY:
        conn->state = CONN_READY;
        break;
    case ANSWER_RESULTS:
        for (size_t i = 0; i < answer->count; i++)
            keep(&conn->results, answer->results[i], 0);
        break;
    case ANSWER_NOTIFY:
        keep(&conn->notifications, NULL, answer->voucher_id);
        break;
    case ANSWER_END:
        conn->descriptor.is_writable = true;
        lose(conn, "server closed the connection");
    }
    sim_free(answer);
    sim_descriptor_changed(&conn->descriptor);
}

PGconn *PQconnectStartParams(const char *const *keywords, const char *const *values,
                             int expand_dbname UNUSED)
{
    struct pg_conn *conn = sim_calloc(sizeof(*conn));
    struct sim_service *service = NULL;

    for (int i = 0; keywords[i] != NULL; i++) {
        if (strcmp(keywords[i], "dbname") == 0)
            service = sim_service_by_url(values[i]);
    }
    list_init(&conn->building);
    list_init(&conn->unsent);
    list_init(&conn->results);
    list_init(&conn->notifications);
    sim_stream_init(&conn->to_client, conn_on_arrival, conn);
    sim_descriptor_open(&conn->descriptor, sim_service_loop(service));
    conn->backend = sim_backend_open(&conn->to_client, sim_service_number(service));
    conn->error = "";
    send_request(conn, REQUEST_BEGIN);
    return conn;
}

PostgresPollingStatusType PQconnectPoll(PGconn *conn)
{
    conn->descriptor.is_readable = conn->descriptor.is_writable = false;
    if (conn->state == CONN_LOST)
        return PGRES_POLLING_FAILED;
    if (conn->state == CONN_READY)
        return PGRES_POLLING_OK;
    if (conn->state == CONN_STARTING && conn->is_accepted) {
        conn->state = CONN_LOGGING_IN;
        send_request(conn, REQUEST_LOGIN);
    }
    return conn->state == CONN_STARTING ? PGRES_POLLING_WRITING : PGRES_POLLING_READING;
}

ConnStatusType PQstatus(const PGconn *conn)
{
    return conn->state == CONN_LOST ? CONNECTION_BAD : CONNECTION_OK;
}

// NOLINTNEXTLINE(readability-identifier-naming): libpq's name
const char *PQparameterStatus(const PGconn *conn UNUSED, const char *paramName UNUSED)
{
    return "UTF8";
}

int PQsocket(const PGconn *conn)
{
    return conn->descriptor.number;
}

char *PQerrorMessage(const PGconn *conn)
{
    return (char *)(uintptr_t)(conn == NULL ? "no memory" : conn->error);
}

void PQfinish(PGconn *conn)
{
    if (conn == NULL)
        return;
    send_request(conn, REQUEST_END);
    sim_stream_close(&conn->to_client);
    sim_descriptor_close(&conn->descriptor);
}

int PQbackendPID(const PGconn *conn)
{
    return (int)sim_backend_pid(conn->backend);
}

int pooler_check_start(struct pooler_check *check UNUSED, uv_loop_t *loop UNUSED)
{
    sim_fail("a pooler is looked for");
}

void pooler_check_cancel(struct pooler_check *check UNUSED)
{
    sim_fail("a pooler is looked for");
}

int PQsetnonblocking(PGconn *conn UNUSED, int arg UNUSED)
{
    return 0;
}

int PQenterPipelineMode(PGconn *conn)
{
    return conn->state == CONN_READY;
}

PQnoticeReceiver PQsetNoticeReceiver(PGconn *conn UNUSED, PQnoticeReceiver proc UNUSED,
                                     void *arg UNUSED)
{
    return NULL;
}

PQconninfoOption *PQconninfoParse(const char *conninfo UNUSED, char **errmsg UNUSED)
{
    static PQconninfoOption none[] = {
        {.keyword = "host"}, {.keyword = "hostaddr"}, {.keyword = "port"}, {0}};

    return none;
}

void PQconninfoFree(PQconninfoOption *options UNUSED)
{
}

void PQfreemem(void *ptr)
{
    sim_free(ptr);
}

/* -- sending -- */

static struct sim_statement *add_statement(PGconn *conn, enum sim_statement_kind kind,
                                           size_t bytes)
{
    struct sim_segment_statement *added = sim_alloc(sizeof(*added) + bytes);

    added->statement = (struct sim_statement){.kind = kind};
    list_append(&conn->building, &added->link);
    return &added->statement;
}

static int64_t number_behind(const char *text, const char *word)
{
    const char *at = strstr(text, word);

    return at == NULL ? 0 : strtoll(at + strlen(word), NULL, 10);
}

static void add_settings(PGconn *conn, const char *const *values)
{
    struct sim_statement *added = add_statement(conn, SQL_SETTINGS, 0);

    added->number = strtoll(values[0], NULL, 10);
    added->lock_ms = strtoll(values[1], NULL, 10);
    added->idle_ms = strtoll(values[2], NULL, 10);
}

/* NOLINTBEGIN(readability-identifier-naming,readability-function-size): as in libpq */

int PQsendQueryParams(PGconn *conn, const char *command, int nParams,
                      const Oid *paramTypes UNUSED, const char *const *paramValues,
                      const int *paramLengths UNUSED, const int *paramFormats UNUSED,
                      int resultFormat UNUSED)
{
    if (conn->state != CONN_READY)
        return 0;
    if (strcmp(command, POOLER_ASK) == 0)
        add_statement(conn, SQL_BACKEND, 0);
    else if (nParams == 0 && strncmp(command, "listen ", 7) == 0)
        add_statement(conn, SQL_LISTEN, 0);
    else if (nParams == 3)
        add_settings(conn, paramValues);
    else if (nParams == 0 && strncmp(command, "set statement_timeout = ", 24) == 0)
        add_statement(conn, SQL_LIMIT, 0)->number = number_behind(command, "= ");
    else
        sim_fail("the simulator has no model of: %s", command);
    return 1;
}

int PQsendPrepare(PGconn *conn, const char *stmtName UNUSED, const char *query UNUSED,
                  int nParams UNUSED, const Oid *paramTypes UNUSED)
{
    if (conn->state != CONN_READY)
        return 0;
    add_statement(conn, SQL_PREPARE, 0);
    return 1;
}

static enum sim_statement_kind kind_of(const char *name)
{
    static const struct {
        const char *name;
        enum sim_statement_kind kind;
    } known[] = {
        {"place", SQL_PLACE},
        {"place_early", SQL_PLACE},
        {"place_many", SQL_PLACE_MANY},
        {"place_many_early", SQL_PLACE_MANY},
        {"barrier", SQL_BARRIER},
        {"proof", SQL_PROOF},
        {"probe", SQL_PROBE},
        {"find", SQL_FIND},
        {"resolve", SQL_RESOLVE},
        {"retire", SQL_RETIRE},
        {"read_vouchers", SQL_READ_VOUCHERS},
        {"lead_expiry", SQL_LEAD_EXPIRY},
        {"draw_lotteries", SQL_DRAW_LOTTERIES},
        {"due_batches", SQL_DUE_BATCHES},
        {"expire_batches", SQL_EXPIRE_BATCHES},
        {"pay_order", SQL_PAY_ORDER},
        {"cancel_order", SQL_CANCEL_ORDER},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, name) == 0)
            return known[i].kind;
    }
    sim_fail("the simulator has no model of the statement %s", name);
}

int PQsendQueryPrepared(PGconn *conn, const char *stmtName, int nParams,
                        const char *const *paramValues, const int *paramLengths,
                        const int *paramFormats UNUSED, int resultFormat UNUSED)
{
    struct sim_statement *statement;
    size_t size = 0;
    char *bytes;

    if (conn->state != CONN_READY)
        return 0;
    for (int i = 0; i < nParams; i++)
        size += paramValues[i] == NULL ? 0 : (size_t)paramLengths[i];
    statement = add_statement(conn, kind_of(stmtName), size);
    statement->is_early = strstr(stmtName, "_early") != NULL;
    statement->params.count = nParams;
    bytes = list_item(statement, struct sim_segment_statement, statement)->bytes;
    for (int i = 0; i < nParams; i++) {
        statement->params.lengths[i] = paramLengths[i];
        if (paramValues[i] == NULL)
            continue;
        statement->params.values[i] = bytes;
        memcpy(bytes, paramValues[i], (size_t)paramLengths[i]);
        bytes += paramLengths[i];
    }
    return 1;
}

static int add_sync(PGconn *conn)
{
    struct sim_request *request;

    if (conn->state != CONN_READY)
        return 0;
    request = sim_calloc(sizeof(*request));
    request->kind = REQUEST_SEGMENT;
    list_init(&request->statements);
    list_append_all(&request->statements, &conn->building);
    list_append(&conn->unsent, &request->head.link);
    return 1;
}

int PQpipelineSync(PGconn *conn)
{
    return add_sync(conn) && PQflush(conn) == 0;
}

int PQsendPipelineSync(PGconn *conn);
int PQsendPipelineSync(PGconn *conn)
{
    return add_sync(conn);
}

int PQflush(PGconn *conn)
{
    if (conn->state != CONN_READY)
        return -1;
    LIST_DRAIN(struct sim_request, request, &conn->unsent, head.link)
        sim_stream_send(sim_backend_stream(conn->backend), &request->head);
    return 0;
}

/* NOLINTEND(readability-identifier-naming,readability-function-size) */

/* -- receiving -- */

int PQconsumeInput(PGconn *conn)
{
    conn->descriptor.is_readable = conn->state == CONN_LOST;
    return conn->state != CONN_LOST;
}

int PQisBusy(PGconn *conn)
{
    return conn->state != CONN_LOST && list_is_empty(&conn->results);
}

PGresult *PQgetResult(PGconn *conn)
{
    struct arrived *arrived = LIST_SHIFT(struct arrived, &conn->results, link);
    PGresult *result = arrived == NULL ? NULL : arrived->result;

    sim_free(arrived);
    return result;
}

PGnotify *PQnotifies(PGconn *conn)
{
    struct arrived *arrived = LIST_SHIFT(struct arrived, &conn->notifications, link);
    PGnotify *notify;

    if (arrived == NULL)
        return NULL;
    notify = sim_calloc(sizeof(*notify) + 24);
    notify->extra = (char *)(notify + 1);
    snprintf(notify->extra, 24, "%lld", (long long)arrived->voucher_id);
    sim_free(arrived);
    return notify;
}
