/*
 * pooler.c - opens more connections to see which server processes a pooler gives to clients.
 *
 * A pooler first gives away the free process that was used last, and other clients use processes at
 * the same time. So each connection keeps its process by an open transaction, while the next
 * connection gets another process.
 */
#include "app/store/pooler.h"

#include "app/store/store_codec.h"
#include "base/clock.h"

#include <libpq-fe.h>
#include <poll.h>

#define CONNECTIONS 3

static bool wait_for(const PGconn *pg, short events, int64_t deadline_us)
{
    struct pollfd socket = {.fd = PQsocket(pg), .events = events};
    int64_t left_us = deadline_us - clock_mono_us();

    return left_us > 0 && poll(&socket, 1, (int)((left_us + 999) / 1000)) > 0;
}

static bool await_login(PGconn *pg, int64_t deadline_us)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;

    if (pg == NULL || PQstatus(pg) == CONNECTION_BAD)
        return false;
    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        if (!wait_for(pg, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_us))
            return false;
        next = PQconnectPoll(pg);
    }
    return next == PGRES_POLLING_OK;
}

static PGresult *execute(PGconn *pg, const char *statement, int64_t deadline_us)
{
    PGresult *result, *next;

    if (PQsendQueryParams(pg, statement, 0, NULL, NULL, NULL, NULL, 1) != 1)
        return NULL;
    while (PQisBusy(pg)) {
        if (!wait_for(pg, POLLIN, deadline_us) || PQconsumeInput(pg) != 1)
            return NULL;
    }
    result = PQgetResult(pg);
    while ((next = PQgetResult(pg)) != NULL)
        PQclear(next);
    return result;
}

/* Opens a transaction and leaves it open. A pooler in statement mode refuses a transaction. */
static bool begin(struct pooler_check *check, PGconn *pg, int64_t deadline_us)
{
    PGresult *result = execute(pg, "begin", deadline_us);
    bool has_begun = PQresultStatus(result) == PGRES_COMMAND_OK;

    check->is_shared = result != NULL && !has_begun;
    PQclear(result);
    return has_begun;
}

/* Returns whether this connection keeps another process, so that the next connection may get the
   process that is sought. */
static bool seek(struct pooler_check *check, PGconn *pg, int64_t deadline_us)
{
    PGresult *result;
    bool is_known;

    if (!await_login(pg, deadline_us) || !begin(check, pg, deadline_us))
        return false;
    result = execute(pg, POOLER_ASK, deadline_us);
    is_known = PQresultStatus(result) == PGRES_TUPLES_OK;
    check->is_shared = is_known && result_int64(result, 0, 0) == check->pid;
    PQclear(result);
    return is_known && !check->is_shared;
}

static void check_in_thread(uv_work_t *work)
{
    struct pooler_check *check = work->data;
    int64_t deadline_us = clock_mono_us() + check->timeout_ms * INT64_C(1000);
    PGconn *pgs[CONNECTIONS] = {NULL};
    bool goes_on = true;

    for (int i = 0; goes_on && i < CONNECTIONS; i++) {
        pgs[i] = database_connect(check->database_url, &check->target);
        goes_on = seek(check, pgs[i], deadline_us);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        PQfinish(pgs[i]);
}

static void check_on_done(uv_work_t *work, int status UNUSED)
{
    struct pooler_check *check = work->data;

    check->done(check);
}

int pooler_check_start(struct pooler_check *check, uv_loop_t *loop)
{
    check->work.data = check;
    return uv_queue_work(loop, &check->work, check_in_thread, check_on_done);
}

void pooler_check_cancel(struct pooler_check *check)
{
    uv_cancel((uv_req_t *)&check->work);
}
