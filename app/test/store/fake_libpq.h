/*
 * fake_libpq.h - replaces the connections of libpq and the sockets of libuv.
 *
 * The fakes record their calls in `said`. A test writes the results that arrive from the server as
 * words, each followed by ";". A word is a row as in said.h, "ok", "sync", or "!" and the SQLSTATE
 * of an error ("!40001"). Results have the types of the real libpq.
 *
 * A test program includes this file in one source only, because the file defines functions of libpq
 * and libuv.
 */
#ifndef FAKE_LIBPQ_H
#define FAKE_LIBPQ_H

#include "app/core/embed.h"
#include "app/store/store_conn_impl.h"
#include "app/test/simulated_time.h"
#include "app/test/store/said.h"
#include "test/torture.h"

#include <dlfcn.h>
#include <endian.h>
#include <netdb.h>
#include <unistd.h>

#define FAKE_ARRIVALS_MAX 64
#define FAKE_PID          7 /* the process id that the server sends at the login */

struct pg_conn {
    ConnStatusType status;
    PQnoticeReceiver notice;
    void *notice_arg;
};

static const char *fake_failing;
static unsigned fake_failing_at;
static struct pg_conn *fake_pg;
static const char *fake_encoding;
static PostgresPollingStatusType fake_next;
static int fake_unsent; /* result of PQflush(). 1: data are left, -1: the call fails */
static int fake_statements;
/* a pipe: first the end of libpq, then the end of the server */
static int fake_socket[2];
static uv_poll_t *fake_poll;
static uv_poll_cb fake_on_poll;
static PGresult *fake_arriving[FAKE_ARRIVALS_MAX];
static size_t fake_arrived, fake_taken;
static struct {
    const PGresult *result;
    char sqlstate[6];
} fake_errors[FAKE_ARRIVALS_MAX];
static size_t fake_error_count;
static PGnotify *fake_notify;
/* how many NULL results a dead connection still returns; 0: the connection is alive */
static unsigned fake_nulls;
static struct {
    uv_handle_t *handle;
    uv_close_cb closed;
} fake_closing[FAKE_ARRIVALS_MAX];
static size_t fake_closing_count;
static uv_getaddrinfo_t *fake_resolve;
static uv_getaddrinfo_cb fake_on_resolved;
static struct pooler_check *fake_pooler;

static inline bool fake_fails(const char *call)
{
    return strcmp(fake_failing, call) == 0 && fake_failing_at-- == 0;
}

static inline void fake_fail(const char *call, unsigned at)
{
    fake_failing = call;
    fake_failing_at = at;
}

static inline int64_t fake_due_ms(void)
{
    return simulated_timers[0].callback == NULL
               ? -1
               : (simulated_timers[0].due_us - simulated_us) / 1000;
}

/* -- what arrives -- */

static inline void fake_arrive_one(PGresult *result)
{
    assert_true(fake_arrived < FAKE_ARRIVALS_MAX);
    fake_arriving[fake_arrived++] = result;
    for (size_t i = 0; i < fake_error_count; i++) {
        /* A result that was freed had the same address. */
        if (fake_errors[i].result == result)
            fake_errors[i].result = NULL;
    }
}

static inline void fake_arrive_error(const char *sqlstate)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR);

    fake_arrive_one(result);
    assert_true(fake_error_count < FAKE_ARRIVALS_MAX);
    snprintf(fake_errors[fake_error_count].sqlstate, sizeof(fake_errors[0].sqlstate),
             "%s", sqlstate);
    fake_errors[fake_error_count++].result = result;
}

static inline void fake_arrive(const char *words)
{
    char row[200];

    for (; *words != '\0'; words += strcspn(words, ";") + 1) {
        if (strncmp(words, "sync", 4) == 0) {
            fake_arrive_one(PQmakeEmptyPGresult(NULL, PGRES_PIPELINE_SYNC));
            continue;
        }
        if (words[0] == '!')
            fake_arrive_error(words + 1);
        else if (words[0] == 'o')
            fake_arrive_one(PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK));
        else {
            snprintf(row, sizeof(row), "%.*s", (int)strcspn(words, ";"), words);
            fake_arrive_one(words_result(PGRES_TUPLES_OK, 1, row));
        }
        fake_arrive_one(NULL);
    }
}

PQconninfoOption *PQconninfoParse(const char *conninfo, char **errmsg)
{
    typeof(PQconninfoParse) *next =
        (typeof(PQconninfoParse) *)dlsym(RTLD_NEXT, "PQconninfoParse");

    return fake_fails("parse") ? NULL : next(conninfo, errmsg);
}

static inline void fake_turn(void)
{
    for (size_t i = 0; i < fake_closing_count; i++)
        fake_closing[i].closed(fake_closing[i].handle);
    fake_closing_count = 0;
}

static inline void fake_ready(int events)
{
    assert_non_null(fake_poll);
    fake_on_poll(fake_poll, 0, events);
    fake_turn();
}

static inline void fake_drop_arrivals(void)
{
    for (; fake_taken < fake_arrived; fake_taken++)
        PQclear(fake_arriving[fake_taken]);
    fake_taken = fake_arrived = 0;
}

static inline void fake_read(const char *words)
{
    fake_arrive(words);
    fake_ready(UV_READABLE);
    if (fake_pg != NULL && fake_arriving[fake_arrived - 1] != NULL)
        ASSERT_NUMBER(fake_taken, ==, fake_arrived);
    fake_drop_arrivals();
}

static inline void fake_reset(void)
{
    simulated_time_reset();
    said[0] = '\0';
    fake_failing = "";
    fake_encoding = "UTF8";
    fake_next = PGRES_POLLING_OK;
    fake_unsent = 0;
    fake_nulls = 0;
    fake_pg = NULL;
    fake_poll = NULL;
    fake_resolve = NULL;
    fake_pooler = NULL;
    fake_taken = fake_arrived = fake_error_count = 0;
    fake_statements = 0;
    assert_int_equal(pipe(fake_socket), 0);
}

static inline void fake_end(void)
{
    fake_turn();
    fake_drop_arrivals();
    assert_null(fake_pg);
    assert_null(fake_poll);
    close(fake_socket[0]);
    close(fake_socket[1]);
}

static inline void fake_notify_of(char *payload)
{
    fake_notify = calloc(1, sizeof(*fake_notify));
    assert_non_null(fake_notify);
    fake_notify->extra = payload;
}

/* -- libpq -- */

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,readability-function-size,readability-identifier-naming):
   the functions are those of libpq, and have shorter names of parameters here */

PGconn *PQconnectStartParams(const char *const *keywords, const char *const *values,
                             int expand_dbname)
{
    assert_null(fake_pg);
    SAY("connect");
    for (size_t i = 0; keywords[i] != NULL; i++)
        SAY(" %s=%s", keywords[i], values[i] != NULL ? values[i] : "");
    SAY(" %d;", expand_dbname);
    if (fake_fails("connect"))
        return NULL;
    fake_pg = calloc(1, sizeof(*fake_pg));
    assert_non_null(fake_pg);
    fake_pg->status = fake_fails("refuse") ? CONNECTION_BAD : CONNECTION_OK;
    return fake_pg;
}

void PQfinish(PGconn *pg)
{
    if (pg == NULL)
        return;
    assert_ptr_equal(pg, fake_pg);
    assert_null(fake_poll); /* libpq closes the socket, so nothing may watch it */
    SAY("finish;");
    free(pg);
    fake_pg = NULL;
}

ConnStatusType PQstatus(const PGconn *pg)
{
    return pg == NULL ? CONNECTION_BAD : pg->status;
}

PostgresPollingStatusType PQconnectPoll(PGconn *pg)
{
    assert_ptr_equal(pg, fake_pg);
    assert_null(fake_poll);
    return fake_next;
}

int PQsocket(const PGconn *pg)
{
    assert_non_null(pg);
    return fake_socket[0];
}

char *PQerrorMessage(const PGconn *pg)
{
    static char text[] = "words of libpq", none[] = "no connection";

    return pg == NULL ? none : text;
}

const char *PQparameterStatus(const PGconn *pg, const char *name)
{
    assert_ptr_equal(pg, fake_pg);
    return strcmp(name, "server_encoding") == 0 ? fake_encoding : NULL;
}

PQnoticeReceiver PQsetNoticeReceiver(PGconn *pg, PQnoticeReceiver notice, void *arg)
{
    pg->notice = notice;
    pg->notice_arg = arg;
    return NULL;
}

int PQbackendPID(const PGconn *pg)
{
    assert_ptr_equal(pg, fake_pg);
    return FAKE_PID;
}

int PQsetnonblocking(PGconn *pg, int arg)
{
    assert_ptr_equal(pg, fake_pg);
    SAY("nonblocking %d;", arg);
    return fake_fails("nonblocking") ? -1 : 0;
}

int PQenterPipelineMode(PGconn *pg)
{
    assert_ptr_equal(pg, fake_pg);
    SAY("pipeline;");
    return !fake_fails("pipeline");
}

/* Asserts that the statements are prepared in the order of store_statements[]. Only the first and
   the last statement are recorded. */
int PQsendPrepare(PGconn *pg, const char *name, const char *sql, int types_count,
                  const Oid *types)
{
    const struct store_statement *statement = &store_statements[fake_statements];

    assert_ptr_equal(pg, fake_pg);
    assert_string_equal(name, statement->name);
    assert_string_equal(sql, embedded_find(statement->path)->bytes);
    ASSERT_NUMBER(types_count, ==, 0);
    assert_null(types);
    if (fake_statements == 0 || fake_statements == STATEMENT_COUNT - 1)
        SAY("prepare %s;", name);
    fake_statements = (fake_statements + 1) % STATEMENT_COUNT;
    return !fake_fails("prepare");
}

static inline void fake_say_params(int count, const char *const *values,
                                   const int *lengths, const int *formats)
{
    for (int i = 0; i < count; i++) {
        int64_t value;

        if (values[i] == NULL) {
            SAY(" null");
        } else if (formats == NULL) {
            SAY(" '%s'", values[i]);
        } else {
            ASSERT_NUMBER(lengths[i], ==, 8);
            ASSERT_NUMBER(formats[i], ==, 1);
            memcpy(&value, values[i], sizeof(value));
            SAY(" %lld", (long long)be64toh((uint64_t)value));
        }
    }
    SAY(";");
}

int PQsendQueryPrepared(PGconn *pg, const char *name, int count,
                        const char *const *values, const int *lengths, const int *formats,
                        int result_format)
{
    assert_ptr_equal(pg, fake_pg);
    ASSERT_NUMBER(result_format, ==, 1);
    SAY("%s", name);
    fake_say_params(count, values, lengths, formats);
    return !fake_fails(name);
}

int PQsendQueryParams(PGconn *pg, const char *sql, int count, const Oid *types,
                      const char *const *values, const int *lengths, const int *formats,
                      int result_format)
{
    const char *session = embedded_find("sql/queries/session.sql")->bytes;
    const char *name = strcmp(sql, session) == 0 ? "session" : sql;

    assert_ptr_equal(pg, fake_pg);
    assert_null(types);
    ASSERT_NUMBER(result_format, ==, 1);
    SAY("%s", name);
    fake_say_params(count, values, lengths, formats);
    return !fake_fails(name);
}

static inline int fake_sync(PGconn *pg)
{
    assert_ptr_equal(pg, fake_pg);
    SAY("sync;");
    return !fake_fails("sync");
}

int PQpipelineSync(PGconn *pg)
{
    return fake_sync(pg);
}

int PQsendPipelineSync(PGconn *pg);
int PQsendPipelineSync(PGconn *pg)
{
    return fake_sync(pg);
}

int PQflush(PGconn *pg)
{
    assert_ptr_equal(pg, fake_pg);
    SAY("flush;");
    return fake_unsent;
}

int PQconsumeInput(PGconn *pg)
{
    assert_ptr_equal(pg, fake_pg);
    return !fake_fails("consume");
}

int PQisBusy(PGconn *pg)
{
    assert_ptr_equal(pg, fake_pg);
    return fake_taken == fake_arrived && fake_nulls == 0;
}

PGresult *PQgetResult(PGconn *pg)
{
    assert_ptr_equal(pg, fake_pg);
    if (fake_taken == fake_arrived && fake_nulls-- > 0)
        return NULL;
    assert_true(fake_taken < fake_arrived);
    return fake_arriving[fake_taken++];
}

PGnotify *PQnotifies(PGconn *pg)
{
    PGnotify *notify = fake_notify;

    assert_ptr_equal(pg, fake_pg);
    fake_notify = NULL;
    return notify;
}

char *PQresultErrorMessage(const PGresult *result UNUSED)
{
    static char text[] = "words of the server";

    return text;
}

static PGresult *fake_notice;

char *PQresultErrorField(const PGresult *result, int field)
{
    static char wait[] = "SyncRepWaitForLSN", other[] = "elsewhere";

    if (field == PG_DIAG_SOURCE_FUNCTION)
        return result == NULL ? NULL : result == fake_notice ? wait : other;
    for (size_t i = 0; i < fake_error_count && field == PG_DIAG_SQLSTATE; i++) {
        if (result != NULL && fake_errors[i].result == result)
            return fake_errors[i].sqlstate;
    }
    return NULL;
}

/* -- libuv -- */

int uv_timer_init(uv_loop_t *of, uv_timer_t *timer)
{
    timer->loop = of;
    timer->type = UV_TIMER;
    return 0;
}

int uv_timer_stop(uv_timer_t *timer)
{
    assert_ptr_equal(timer, simulated_timers[0].timer);
    simulated_timers[0].callback = NULL;
    return 0;
}

int uv_poll_init(uv_loop_t *of, uv_poll_t *poll, int fd)
{
    assert_null(fake_poll);
    ASSERT_NUMBER(fd, ==, fake_socket[0]);
    if (fake_fails("poll_init"))
        return UV_ENOMEM;
    poll->loop = of;
    poll->type = UV_POLL;
    fake_poll = poll;
    return 0;
}

int uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb callback)
{
    assert_ptr_equal(poll, fake_poll);
    fake_on_poll = callback;
    SAY("poll%s%s;", events & UV_READABLE ? " R" : "", events & UV_WRITABLE ? " W" : "");
    return 0;
}

int uv_poll_stop(uv_poll_t *poll)
{
    assert_ptr_equal(poll, fake_poll);
    fake_poll = NULL;
    return 0;
}

void uv_close(uv_handle_t *handle, uv_close_cb closed)
{
    assert_true(handle != (uv_handle_t *)fake_poll);
    assert_true(handle->type == UV_TIMER || handle->type == UV_POLL);
    if (handle->type == UV_TIMER)
        simulated_timers[0] = (struct simulated_timer){.timer = NULL};
    fake_closing[fake_closing_count].handle = handle;
    fake_closing[fake_closing_count++].closed = closed;
}

int uv_getaddrinfo(uv_loop_t *of UNUSED, uv_getaddrinfo_t *request,
                   uv_getaddrinfo_cb callback, const char *name, const char *service,
                   const struct addrinfo *hints)
{
    assert_null(fake_resolve);
    assert_null(service);
    ASSERT_NUMBER(hints->ai_socktype, ==, SOCK_STREAM);
    SAY("resolve %s;", name);
    if (fake_fails("resolve"))
        return UV_ENOMEM;
    fake_resolve = request;
    fake_on_resolved = callback;
    return 0;
}

static inline void fake_resolve_ends(int error, struct addrinfo *found)
{
    uv_getaddrinfo_t *request = fake_resolve;

    fake_resolve = NULL;
    fake_on_resolved(request, error, found);
}

static inline void fake_resolved(const char *const *addresses, size_t count)
{
    struct addrinfo *found = NULL;

    for (size_t i = count; i-- > 0;) {
        struct addrinfo *one, hints = {.ai_flags = AI_NUMERICHOST};

        hints.ai_socktype = SOCK_STREAM;
        assert_int_equal(getaddrinfo(addresses[i], NULL, &hints, &one), 0);
        one->ai_next = found;
        found = one;
    }
    fake_resolve_ends(0, found);
}

void uv_freeaddrinfo(struct addrinfo *found)
{
    if (found != NULL)
        freeaddrinfo(found);
}

int uv_cancel(uv_req_t *request)
{
    assert_ptr_equal(request, fake_resolve);
    SAY("cancel;");
    return 0;
}

/* -- poolers -- */

int pooler_check_start(struct pooler_check *check, uv_loop_t *loop UNUSED)
{
    assert_null(fake_pooler);
    SAY("check %lld %u %s;", (long long)check->pid, (unsigned)check->timeout_ms,
        check->target.port);
    if (fake_fails("check"))
        return UV_ENOMEM;
    fake_pooler = check;
    return 0;
}

void pooler_check_cancel(struct pooler_check *check)
{
    assert_ptr_equal(check, fake_pooler);
    SAY("cancel;");
}

static inline void fake_pooler_ends(bool is_shared)
{
    struct pooler_check *check = fake_pooler;

    fake_pooler = NULL;
    check->is_shared = is_shared;
    check->done(check);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name,readability-function-size,readability-identifier-naming) */

#endif
