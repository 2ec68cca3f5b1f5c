/*
 * test_pooler.c - which poolers share the process of an idle session, with scripted connections.
 *
 * The functions of libpq below run in a thread of libuv, while the test waits.
 */
#include "app/store/pooler.h"

#include "app/test/store/said.h"

#include <sys/socket.h>
#include <unistd.h>

#define PID 7

struct script {
    bool has_no_memory, is_refused, is_silent, is_cut_off;
    bool has_no_transactions; /* the pooler refuses "begin" */
    const char *pid; /* the process of the connection; NULL: the question fails */
};

struct pg_conn {
    const struct script *script;
    PGresult *results[2];
    size_t count, taken;
};

static const struct script *scripts;
static size_t opened;
static int sockets[2][2]; /* the first is readable, and the second is not */

/* -- in place of libpq -- */

PGconn *database_connect(const char *url, const struct database_host *host)
{
    const struct script *script = &scripts[opened++];
    struct pg_conn *pg = script->has_no_memory ? NULL : calloc(1, sizeof(*pg));

    if (pg != NULL)
        pg->script = script;
    SAY("connect %s %s;", url, host->name);
    return pg;
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,readability-function-size):
   the functions are those of libpq */

void PQfinish(PGconn *pg)
{
    if (pg == NULL)
        return;
    SAY("finish;");
    while (pg->taken < pg->count)
        PQclear(pg->results[pg->taken++]);
    free(pg);
}

ConnStatusType PQstatus(const PGconn *pg)
{
    return pg->script->is_refused ? CONNECTION_BAD : CONNECTION_STARTED;
}

int PQsocket(const PGconn *pg)
{
    return sockets[pg->script->is_silent][0];
}

PostgresPollingStatusType PQconnectPoll(PGconn *pg)
{
    return pg->script->is_refused ? PGRES_POLLING_FAILED : PGRES_POLLING_OK;
}

int PQsendQueryParams(PGconn *pg, const char *sql, int count, const Oid *types UNUSED,
                      const char *const *values UNUSED, const int *lengths UNUSED,
                      const int *formats UNUSED, int result_format)
{
    bool begins = strcmp(sql, "begin") == 0;
    bool fails = begins ? pg->script->has_no_transactions : pg->script->pid == NULL;

    SAY("%s %d %d;", begins ? "begin" : "ask", count, result_format);
    if (pg->script->is_cut_off)
        return 0;
    pg->results[0] = fails || begins ? PQmakeEmptyPGresult(NULL, fails ? PGRES_FATAL_ERROR
                                                                       : PGRES_COMMAND_OK)
                                     : words_result(PGRES_TUPLES_OK, 1, pg->script->pid);
    pg->results[1] = PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK);
    pg->count = 2;
    pg->taken = 0;
    return 1;
}

int PQisBusy(PGconn *pg)
{
    return pg->script->is_silent;
}

int PQconsumeInput(PGconn *pg UNUSED)
{
    return 1;
}

PGresult *PQgetResult(PGconn *pg)
{
    return pg->taken < pg->count ? pg->results[pg->taken++] : NULL;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name,readability-function-size) */

/* -- tests -- */

static unsigned ends;

static void test_on_done(struct pooler_check *check)
{
    assert_ptr_equal(check->arg, &ends);
    ends++;
}

static bool is_shared_after(const struct script *three, uint32_t timeout_ms)
{
    struct pooler_check check = {.database_url = "url",
                                 .target = {.name = "host"},
                                 .pid = PID,
                                 .timeout_ms = timeout_ms,
                                 .done = test_on_done,
                                 .arg = &ends};
    uv_loop_t loop;

    scripts = three;
    opened = 0;
    ends = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]), 0);
    assert_int_equal(write(sockets[0][1], "x", 1), 1);
    uv_loop_init(&loop);
    assert_int_equal(pooler_check_start(&check, &loop), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(ends, 1);
    for (int i = 0; i < 4; i++)
        close(sockets[i / 2][i % 2]);
    return check.is_shared;
}

#define ASKED "connect url host;begin 0 1;ask 0 1;"

/* Each connection keeps its process by a transaction, so that the next one gets another process. */
UNIT_CASE(test_pooler_check__asks_three_connections_for_their_processes)
{
    static const struct {
        struct script scripts[3];
        bool is_shared;
        const char *said;
    } rows[] = {
        {{{.pid = "8"}, {.pid = "9"}, {.pid = "10"}},
         false,
         ASKED ASKED ASKED "finish;finish;finish;"},
        {{{.pid = "8"}, {.pid = "9"}, {.pid = "7"}},
         true,
         ASKED ASKED ASKED "finish;finish;finish;"},
        {{{.pid = "8"}, {.pid = "7"}}, true, ASKED ASKED "finish;finish;"},
        {{{.pid = "7"}}, true, ASKED "finish;"},
        {{{.pid = "8"}, {.has_no_transactions = true}},
         true,
         ASKED "connect url host;begin 0 1;finish;finish;"},
        /* nothing is known of these */
        {{{.pid = NULL}}, false, ASKED "finish;"},
        {{{.has_no_memory = true}}, false, "connect url host;"},
        {{{.is_refused = true}}, false, "connect url host;finish;"},
        {{{.is_cut_off = true}}, false, "connect url host;begin 0 1;finish;"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        asserts_about("row %zu", i);
        assert_int_equal(is_shared_after(rows[i].scripts, 10000), rows[i].is_shared);
        ASSERT_SAID(rows[i].said);
    }
}

UNIT_CASE(test_pooler_check__ends_when_there_is_no_answer_in_time)
{
    static const struct script silent[] = {{.is_silent = true, .pid = "7"}};

    assert_false(is_shared_after(silent, 50));
    ASSERT_SAID("connect url host;begin 0 1;finish;");
    assert_false(is_shared_after(silent, 0)); /* not even a login */
    ASSERT_SAID("connect url host;finish;");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
