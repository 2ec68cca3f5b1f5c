/*
 * script.h - runs scripts of SQL: statements, each with the result that it must have.
 *
 *   -- test_name               begins a test. Other comments are skipped.
 *   select place(101, '{1}');  is a statement. It ends with a ";" at the end of a line.
 *   --> 1|2                    is a row that the statement must return, with "|" between columns.
 *   --> (none)                 The statement must return no row.
 *   --> ERROR 42501: ...       is the error that the statement must cause. "..." matches any text
 *                              in a line.
 *   b: select 1;               is a statement in session b. There are sessions a to z: r is of a
 *                              superuser, s is of the service, and the others are of the owner.
 *   --> waits                  The statement must wait for a lock.
 *   b:                         Session b must have stopped waiting. Its result follows.
 *   --> notified 101           follows the rows. The session must be notified of voucher 101.
 *   4x60: select 1;            is executed in 4 sessions at once, 60 times.
 *
 * A statement without a result must succeed. Each test begins with empty tables, and the audit must
 * pass at its end. given.sql defines the functions that the scripts share.
 */
#ifndef TEST_SCRIPT_H
#define TEST_SCRIPT_H

#include "app/core/embed.h"
#include "app/test/sql/it_sql.h"
#include "base/clock.h"
#include "test/case_list.h"

#define SCRIPT_BYTES   65536
#define SCRIPT_TESTS   256
#define SCRIPT_RACERS  64
#define SCRIPT_LETTERS ('z' - 'a' + 1)
#define SCRIPT_MAIN    'a'

struct script_test {
    const char *script;
    const char *begin, *end;
    int line;
    char name[100];
};

static struct fixture *script_fixture;
static struct sandbox *script_sandbox;
static PGconn *script_sessions[SCRIPT_LETTERS];

static inline PGconn *script_connect(const char *url)
{
    PGconn *session = PQconnectdb(url);

    if (PQstatus(session) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(session));
    return session;
}

static inline PGconn *script_session(char letter)
{
    PGconn **session = &script_sessions[letter - 'a'];

    if (*session == NULL)
        *session = script_connect(letter == 's'   ? script_sandbox->service_url
                                  : letter == 'r' ? script_sandbox->superuser_url
                                                  : script_sandbox->url);
    return *session;
}

/* -- results -- */

static inline void script_print(char *text, const char *format, ...) PRINTF_LIKE(2, 3);
static inline void script_print(char *text, const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + len, SCRIPT_BYTES - len, format, args);
    va_end(args);
}

static inline void script_print_result(char *text, const PGresult *result)
{
    if (PQresultStatus(result) == PGRES_FATAL_ERROR)
        script_print(text, "ERROR %s: %s\n", PQresultErrorField(result, PG_DIAG_SQLSTATE),
                     PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    for (int row = 0; row < PQntuples(result); row++) {
        for (int column = 0; column < PQnfields(result); column++)
            script_print(text, "%s%s", column > 0 ? "|" : "",
                         PQgetvalue(result, row, column));
        script_print(text, "\n");
    }
}

static inline const char *script_answer(PGconn *session)
{
    static char text[SCRIPT_BYTES];
    PGresult *result;
    PGnotify *notify;

    text[0] = '\0';
    while ((result = PQgetResult(session)) != NULL) {
        script_print_result(text, result);
        PQclear(result);
    }
    while ((notify = PQnotifies(session)) != NULL) {
        script_print(text, "notified %s\n", notify->extra);
        PQfreemem(notify);
    }
    return text[0] != '\0' ? text : "(none)\n";
}

static inline const char *script_answer_or_waits(PGconn *session)
{
    int64_t deadline_us = clock_mono_us() + DEADLINE_MS * INT64_C(1000);

    while (PQisBusy(session) && clock_mono_us() < deadline_us) {
        if (sandbox_number(script_sandbox,
                           "select count(*) from pg_locks where not granted and pid = %d",
                           PQbackendPID(session)) > 0)
            return "waits\n";
        assert_int_equal(PQconsumeInput(session), 1);
    }
    return script_answer(session);
}

static inline bool script_matches(const char *text, const char *wanted)
{
    const char *any = strstr(wanted, "...");

    if (any == NULL)
        return strcmp(text, wanted) == 0;
    if (strncmp(text, wanted, (size_t)(any - wanted)) != 0)
        return false;
    for (text += any - wanted; !script_matches(text, any + 3); text++) {
        if (*text == '\n')
            return false;
    }
    return true;
}

/* -- statements -- */

struct script_step {
    char letter;
    /* number of sessions, and how often each executes the statement; 0: one session */
    int count, times;
    char sql[8192], wanted[8192];
};

/* Executes the statement in several sessions at once, and again when all have answered. Returns an
   answer that is an error, or "" if no session has reported an error. */
static inline const char *script_race(const struct script_step *step)
{
    PGconn *sessions[SCRIPT_RACERS];
    const char *found = "";

    assert_true(step->count <= SCRIPT_RACERS);
    for (int i = 0; i < step->count; i++)
        sessions[i] = script_connect(script_sandbox->url);
    for (int time = 0; time < step->times && found[0] == '\0'; time++) {
        for (int i = 0; i < step->count; i++)
            assert_int_equal(PQsendQuery(sessions[i], step->sql), 1);
        for (int i = 0; i < step->count && found[0] == '\0'; i++) {
            const char *answer = script_answer(sessions[i]);

            found = strncmp(answer, "ERROR", 5) == 0 ? answer : "";
        }
    }
    for (int i = 0; i < step->count; i++)
        PQfinish(sessions[i]);
    return found;
}

static inline const char *script_execute(const struct script_step *step)
{
    PGconn *session;

    if (step->count > 0)
        return script_race(step);
    session = script_session(step->letter);
    if (step->sql[0] != '\0' && PQsendQuery(session, step->sql) != 1)
        return PQerrorMessage(session);
    return strcmp(step->wanted, "waits\n") == 0 ? script_answer_or_waits(session)
                                                : script_answer(session);
}

static inline void script_check(const struct script_test *test, int line,
                                const struct script_step *step)
{
    const char *found = script_execute(step);

    if (step->wanted[0] == '\0' ? strncmp(found, "ERROR", 5) == 0
                                : !script_matches(found, step->wanted))
        fail_msg("%s (%s.sql:%d) got:\n%sexpected:\n%sby:\n%s", test->name, test->script,
                 line, found, step->wanted, step->sql);
}

static inline const char *script_read_sessions(const char *line, struct script_step *step)
{
    char *end;

    step->letter = SCRIPT_MAIN;
    if (line[0] >= '0' && line[0] <= '9') {
        step->count = (int)strtol(line, &end, 10);
        step->times = (int)strtol(end + 1, &end, 10);
        return end + 1;
    }
    if (line[1] != ':')
        return line;
    step->letter = line[0];
    return line + 2;
}

/* Whether the statement ends here. A ";" in the body of a function does not end it. */
static inline bool script_is_complete(const char *sql)
{
    unsigned quotes = 0;

    for (const char *at = sql; (at = strstr(at, "$$")) != NULL; at += 2)
        quotes++;
    return sql[0] == '\0' ||
           (quotes % 2 == 0 && strcmp(sql + strlen(sql) - 2, ";\n") == 0);
}

static inline void script_run_test(void **state)
{
    static struct script_step step;
    const struct script_test *test = *state;
    int number = test->line, begin = 0;
    bool is_complete = true;

    PQclear(PQexec(script_session(SCRIPT_MAIN), "select begin_test()"));
    for (const char *line = test->begin, *next; line < test->end; line = next, number++) {
        next = line + strcspn(line, "\n") + 1;
        if (strncmp(line, "--> ", 4) == 0)
            script_print(step.wanted, "%.*s", (int)(next - line - 4), line + 4);
        if (line[0] == '\n' || strncmp(line, "--", 2) == 0)
            continue;
        if (is_complete && begin > 0)
            script_check(test, begin, &step);
        if (is_complete) {
            memset(&step, 0, sizeof(step));
            line = script_read_sessions(line, &step);
            begin = number;
        }
        if (line[0] != '\n')
            script_print(step.sql, "%.*s", (int)(next - line), line);
        is_complete = script_is_complete(step.sql);
    }
    assert_true(is_complete);
    script_check(test, begin, &step);
}

static inline int script_end_test(void **state UNUSED)
{
    for (int i = 0; i < SCRIPT_LETTERS; i++) {
        PQfinish(script_sessions[i]);
        script_sessions[i] = NULL;
    }
    return sandbox_audit(script_sandbox) == 0 ? 0 : 1;
}

/* -- files -- */

static inline const char *script_read(const char *name)
{
    char *text = calloc(1, SCRIPT_BYTES), path[100];
    FILE *file;

    snprintf(path, sizeof(path), "app/test/sql/%s.sql", name);
    file = fopen(path, "re");
    if (text == NULL || file == NULL || fread(text, 1, SCRIPT_BYTES - 1, file) == 0)
        abort();
    fclose(file);
    return text;
}

static struct script_test script_tests[SCRIPT_TESTS];
static size_t script_count;

static inline void script_add_tests(const char *script)
{
    static const char mark[] = "-- test_";
    struct script_test *test = NULL;
    int number = 1;

    for (const char *line = script_read(script), *next; *line != '\0'; line = next) {
        next = line + strcspn(line, "\n") + 1;
        number++;
        if (strncmp(line, mark, strlen(mark)) == 0) {
            if (script_count == SCRIPT_TESTS)
                abort();
            test = &script_tests[script_count++];
            *test = (struct script_test){.script = script, .begin = next, .line = number};
            sscanf(line, "-- %99s", test->name);
        }
        if (test != NULL)
            test->end = next;
    }
}

static inline void script_keep_queries(PGconn *session)
{
    static const char insert[] =
        "insert into given.query select name[1], name[2], $2"
        " from regexp_matches($1, '^sql/(\\w+)/(\\w+)\\.sql$') name";

    for (const struct embedded *file = embedded_files; file->path != NULL; file++) {
        const char *values[] = {file->path, file->bytes};

        if (strstr(file->path, ".sql") != NULL)
            PQclear(PQexecParams(session, insert, 2, NULL, values, NULL, NULL, 0));
    }
}

/* -- the program -- */

static inline int script_setup(void **state UNUSED)
{
    PGresult *result;

    script_fixture = fixture_open();
    script_sandbox = sandbox_open(script_fixture, "scripts");
    result = PQexec(script_sandbox->conn, script_read("given"));
    if (PQresultStatus(result) == PGRES_FATAL_ERROR)
        fail_msg("%s", PQresultErrorMessage(result));
    PQclear(result);
    script_keep_queries(script_sandbox->conn);
    return 0;
}

static inline int script_teardown(void **state UNUSED)
{
    sandbox_close(script_sandbox);
    return fixture_close(script_fixture);
}

static inline int run_scripts(const char *const *names, size_t name_count)
{
    for (size_t i = 0; i < name_count; i++)
        script_add_tests(names[i]);
    for (size_t i = 0; i < script_count; i++)
        cases_add(&(struct CMUnitTest){script_tests[i].name, script_run_test, NULL,
                                       script_end_test, &script_tests[i]},
                  NULL, 0);
    return cases_run(script_setup, script_teardown);
}

#endif
