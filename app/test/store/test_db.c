/* test_db.c - the blocking connection, the audit and the migration: every call of libpq, in
   order. */
#include "app/store/database_url.h"
#include "app/store/db.h"
#include "app/store/db_impl.h"
#include "app/test/store/said.h"
#include "test/torture.h"

#define ONE_HOST    "postgresql://one:5001/seckill"
#define TWO_HOSTS   "postgresql://one:5001,two:5002/seckill"
#define THREE_HOSTS "postgresql://one:5001,two:5002,three:5003/seckill"

struct pg_conn {
    ConnStatusType status;
};

/* one letter for each attempt to connect. u: up, b: refused, n: out of memory */
static const char *hosts;
static const char *encoding;
static int failing_at; /* the number of the statement that fails, from 0 on; -1: none */
static bool is_lost;
static unsigned opened;
static bool is_null;
static const char *kind; /* the kind of all steps of a plan; NULL: as in answers[] */
static const char *sqlstate;
static int locks_refused;
static const char *refused;
static int pauses;
static int warnings;
static long patience_ms; /* the sum of all values of lock_timeout */
static PQnoticeProcessor on_notice;
/* results that have not been taken; the last element comes first */
static PGresult *arriving[4];
static int arriving_count;

static int reset(void **state UNUSED)
{
    said[0] = '\0';
    hosts = "u";
    encoding = "UTF8";
    failing_at = -1;
    is_lost = is_null = false;
    kind = sqlstate = NULL;
    locks_refused = pauses = warnings = 0;
    patience_ms = 0;
    refused = NULL;
    opened = 0;
    arriving_count = 0;
    return 0;
}

/* -- libpq -- */

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,readability-function-size,readability-identifier-naming):
   the functions are those of libpq, and have shorter names of parameters here */

PGconn *PQconnectdbParams(const char *const *keywords, const char *const *values,
                          int expand_dbname)
{
    PGconn *pg;
    char host = *hosts++;

    SAY("connect");
    for (size_t i = 0; keywords[i] != NULL; i++)
        SAY(" %s=%s", keywords[i], values[i]);
    SAY(" %d;", expand_dbname);
    if (host == 'n')
        return NULL;
    pg = calloc(1, sizeof(*pg));
    assert_non_null(pg);
    pg->status = host == 'u' ? CONNECTION_OK : CONNECTION_BAD;
    opened++;
    return pg;
}

void PQfinish(PGconn *pg)
{
    opened -= pg != NULL;
    free(pg);
}

ConnStatusType PQstatus(const PGconn *pg)
{
    return pg == NULL ? CONNECTION_BAD : pg->status;
}

char *PQerrorMessage(const PGconn *pg)
{
    static char text[40];

    assert_non_null(pg);
    snprintf(text, sizeof(text), "words %zu", strlen(hosts));
    return text;
}

const char *PQparameterStatus(const PGconn *pg, const char *name)
{
    assert_non_null(pg);
    assert_string_equal(name, "server_encoding");
    return encoding;
}

PQnoticeProcessor PQsetNoticeProcessor(PGconn *pg, PQnoticeProcessor processor, void *arg)
{
    assert_non_null(pg);
    assert_null(arg);
    on_notice = processor;
    return NULL;
}

static bool statement_fails(PGconn *pg, const char *sql)
{
    const char *name = sql;

    for (const struct embedded *file = embedded_files; file->path != NULL; file++) {
        if (strcmp(file->bytes, sql) == 0)
            name = strrchr(file->path, '/') + 1;
    }
    SAY("%s", name);
    if (strncmp(sql, "set lock_timeout = ", 19) == 0)
        patience_ms += strtol(sql + 19, NULL, 10);
    if (strncmp(sql, "select pg_sleep(", 16) == 0)
        pauses += sql[16] == '1';
    if (refused != NULL && strcmp(sql, refused) == 0)
        return true;
    if (failing_at != 0) {
        failing_at--;
        return false;
    }
    failing_at--;
    if (is_lost)
        pg->status = CONNECTION_BAD;
    return true;
}

static int64_t big_endian(const char *bytes, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++)
        value = value << 8 | (unsigned char)bytes[i];
    return (int64_t)value;
}

/* Records an array of texts. The binary format begins with five numbers of four bytes: the number
   of dimensions, whether there are nulls, the type, the count, and the first index. */
static void say_texts(const char *bytes, int len)
{
    int at = 20;

    ASSERT_NUMBER(big_endian(bytes, 4), ==, 1);
    ASSERT_NUMBER(big_endian(bytes + 8, 4), ==, 25);
    SAY(" {");
    for (int64_t i = 0; i < big_endian(bytes + 12, 4); i++) {
        int text_len = (int)big_endian(bytes + at, 4);

        SAY("%s%.*s", i > 0 ? "," : "", text_len, bytes + at + 4);
        at += 4 + text_len;
    }
    SAY("}");
    ASSERT_NUMBER(at, ==, len);
}

static void say_files(const char *const *values, const int *lengths, const int *formats,
                      const Oid *types)
{
    static const Oid wanted[] = {1009, 1009, 20};

    if (lengths == NULL || formats == NULL) {
        fail_msg("expected the lengths and formats of the parameters, got NULL");
        return;
    }
    assert_memory_equal(types, wanted, sizeof(wanted));
    for (int i = 0; i < 3; i++)
        ASSERT_NUMBER(formats[i], ==, 1);
    say_texts(values[0], lengths[0]);
    say_texts(values[1], lengths[1]);
    ASSERT_NUMBER(lengths[2], ==, 8);
    SAY(" %d", (int)big_endian(values[2], 8));
}

struct answer {
    const char *statement;
    int rows;
    const char *kind, *rest;
};
static const struct answer answers[] = {
    {"prepare_migrations.sql", 1, "step", "'the preparation' 'prepare tables'"},
    {"new_migrations.sql", 2, "step", "'the step' 'change tables'"},
    {"changed_functions.sql", 1, "warning", "'the warning' null"},
    {"grants.sql", 1, NULL, "'grant rights'"},
    {"publish_cell($1)", 1, NULL, "'the cell'"},
    {"join_aggregate($1::json)", 1, NULL, "'subscribe'"},
    {"set_cell($1)", 1, NULL, "''"}, /* the function returns void */
};

static PGresult *rows_of(ExecStatusType status, const struct answer *answer)
{
    char words[300] = "";

    for (int row = 0; row < answer->rows; row++) {
        if (is_null)
            append(words, sizeof(words),
                   answer->kind != NULL ? "null null null;" : "null;");
        else if (answer->kind != NULL)
            append(words, sizeof(words), "'%s' %s;", kind != NULL ? kind : answer->kind,
                   answer->rest);
        else
            append(words, sizeof(words), "%s;", answer->rest);
    }
    return words_result(status, 0, words);
}

PGresult *PQexec(PGconn *pg, const char *sql)
{
    static const struct answer locked = {"", 1, NULL, "'1'"};
    bool fails = statement_fails(pg, sql);

    SAY(";");
    if (fails)
        return PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR);
    if (strstr(sql, "pg_try_advisory_lock") != NULL && locks_refused-- <= 0)
        return rows_of(PGRES_TUPLES_OK, &locked);
    return PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK);
}

char *PQresultErrorField(const PGresult *result, int field)
{
    static char text[6];

    ASSERT_NUMBER(field, ==, PG_DIAG_SQLSTATE);
    if (sqlstate == NULL || PQresultStatus(result) != PGRES_FATAL_ERROR)
        return NULL;
    snprintf(text, sizeof(text), "%s", sqlstate);
    return text;
}

PGresult *PQexecParams(PGconn *pg, const char *sql, int count, const Oid *types,
                       const char *const *values, const int *lengths, const int *formats,
                       int result_format)
{
    size_t begin = strlen(said);
    bool fails = statement_fails(pg, sql);

    assert_int_equal(result_format, 0);
    assert_true((lengths == NULL) == (count == 1));
    assert_true((types == NULL) == (count == 1));
    assert_true((formats == NULL) == (count == 1));
    if (count == 1)
        SAY(" %s", values[0] != NULL ? values[0] : "null");
    else
        say_files(values, lengths, formats, types);
    SAY(";");
    if (fails)
        return PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR);
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        const struct answer *answer = &answers[i];

        if (strstr(said + begin, answer->statement) != NULL)
            return rows_of(PGRES_TUPLES_OK, answer);
    }
    return PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
}

int PQsendQuery(PGconn *pg, const char *sql)
{
    static const struct answer row = {"", 1, NULL, "'a row'"};

    if (statement_fails(pg, sql))
        return 0;
    arriving[2] = rows_of(PGRES_SINGLE_TUPLE, &row);
    arriving[1] = rows_of(PGRES_SINGLE_TUPLE, &row);
    arriving[0] = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    arriving_count = 3;
    return 1;
}

int PQsetSingleRowMode(PGconn *pg)
{
    assert_non_null(pg);
    if (failing_at-- == 0) {
        while (arriving_count > 0)
            PQclear(arriving[--arriving_count]);
        return 0;
    }
    return 1;
}

PGresult *PQgetResult(PGconn *pg)
{
    assert_non_null(pg);
    if (arriving_count == 0)
        return NULL;
    if (failing_at-- == 0) {
        while (arriving_count > 0)
            PQclear(arriving[--arriving_count]);
        return PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR);
    }
    return arriving[--arriving_count];
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name,readability-function-size,readability-identifier-naming) */

#define DB_CASE(name) DEFINE_CASE(name, name, reset, NULL, NULL)

/* -- opening -- */

#define CONNECT(sessions, url, name, port)                                               \
    "connect connect_timeout=10 target_session_attrs=" sessions                          \
    " fallback_application_name=seckill client_encoding=UTF8 dbname=" url " host=" name  \
    " hostaddr= port=" port " 1;"
#define CONNECT_ONE   CONNECT("any", ONE_HOST, "one", "5001")
#define CONNECT_FIRST CONNECT("primary", THREE_HOSTS, "one", "5001")
#define CONNECT_2     CONNECT("primary", THREE_HOSTS, "two", "5002")
#define CONNECT_3     CONNECT("primary", THREE_HOSTS, "three", "5003")

DB_CASE(test_db_open__takes_the_first_host_that_answers)
{
    /* clang-format off */
    static const struct {
        const char *url, *hosts, *encoding;
        enum rlock_status status;
        const char *said, *why;
    } rows[] = {
        {ONE_HOST, "u", "UTF8", RLOCK_OK, CONNECT_ONE, ""},
        {TWO_HOSTS, "uu", "UTF8", RLOCK_OK, CONNECT("primary", TWO_HOSTS, "one", "5001"), ""},
        {THREE_HOSTS, "uuu", "UTF8", RLOCK_OK, CONNECT_FIRST, ""},
        {THREE_HOSTS, "buu", "UTF8", RLOCK_OK, CONNECT_FIRST CONNECT_2, ""},
        {THREE_HOSTS, "bbu", "UTF8", RLOCK_OK, CONNECT_FIRST CONNECT_2 CONNECT_3, ""},
        {THREE_HOSTS, "bbb", "UTF8", RLOCK_IO, CONNECT_FIRST CONNECT_2 CONNECT_3,
         "check the database URL: words 2; words 1; words 0"},
        {ONE_HOST, "n", "UTF8", RLOCK_NO_MEMORY, CONNECT_ONE, "out of memory"},
        {THREE_HOSTS, "bn", "UTF8", RLOCK_NO_MEMORY, CONNECT_FIRST CONNECT_2, "out of memory"},
        {ONE_HOST, "u", "LATIN1", RLOCK_INVALID, CONNECT_ONE,
         "the encoding of the database is LATIN1; it must be UTF8"},
        {ONE_HOST, "u", NULL, RLOCK_INVALID, CONNECT_ONE,
         "the encoding of the database is unknown; it must be UTF8"},
        {"postgresql://one:x/", "u", "UTF8", RLOCK_INVALID, "",
         "SECKILL_DATABASE_URL has a port that is not 1 to 65535"},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct db *const untouched = (struct db *)(void *)said;
        struct db *db = untouched;
        struct rlock_err err = {0};

        hosts = rows[i].hosts;
        encoding = rows[i].encoding;
        ASSERT_STATUS(db_open(rows[i].url, &db, &err), rows[i].status);
        ASSERT_SAID(rows[i].said);
        ASSERT_NUMBER(opened, ==, rows[i].status == RLOCK_OK);
        if (rows[i].status == RLOCK_OK) {
            on_notice(NULL, "not printed");
            db_close(db);
        } else {
            ASSERT_STATUS(err.status, rows[i].status);
            assert_ptr_equal(db, untouched);
        }
        assert_string_equal(err.text, rows[i].why);
        ASSERT_NUMBER(opened, ==, 0);
    }
    db_close(NULL);
}

DB_CASE(test_db_open__fails_without_memory)
{
    struct db *db = NULL;
    struct rlock_err err = {0};

    torture_fail(1, 0);
    ASSERT_STATUS(db_open(ONE_HOST, &db, &err), RLOCK_NO_MEMORY);
    assert_true(torture_stop());
    assert_string_equal(err.text, "out of memory");
}

static struct db *open_one(void)
{
    struct db *db = NULL;
    struct rlock_err err = {0};

    hosts = "uu";
    ASSERT_STATUS(db_open(ONE_HOST, &db, &err), RLOCK_OK);
    said[0] = '\0';
    return db;
}

DB_CASE(test_db_run__reports_what_failed)
{
    for (int loses = 0; loses < 2; loses++) {
        struct db *db = open_one();
        struct rlock_err err = {0};

        is_lost = loses == 1;
        ASSERT_STATUS(db_run(db, "first", "doing", &err), RLOCK_OK);
        failing_at = 0;
        ASSERT_STATUS(db_run(db, "second", "doing", &err),
                      loses == 1 ? RLOCK_IO : RLOCK_REFUSED);
        assert_string_equal(err.text, "doing: words 1");
        ASSERT_SAID("first;second;");
        db_close(db);
    }
}

/* -- audit -- */

static unsigned steps, rows_found;
static char title[200];

static void on_step(const char *check, unsigned done, unsigned of, void *arg)
{
    ASSERT_NUMBER(done, ==, steps++);
    ASSERT_NUMBER(of, ==, 25);
    snprintf(title, sizeof(title), "%s", check);
    assert_ptr_equal(arg, &steps);
    if (done == 0)
        SAY("(%s)", check);
}

static void on_row(const char *check, const char *row, void *arg)
{
    assert_string_equal(row, "a row");
    if (steps > 0)
        assert_string_equal(check, title);
    assert_ptr_equal(arg, &steps);
    rows_found++;
}

DB_CASE(test_db_audit__runs_every_check_in_one_snapshot)
{
    static const char begin[] =
        "begin isolation level repeatable read, read only;"
        "(every unpaid order belongs to a batch in the index of deadlines)";
    struct db_audit audit = {.on_row = on_row, .on_step = on_step, .arg = &steps};
    struct db *db = open_one();
    struct rlock_err err = {0};
    uint64_t broken = 7;

    steps = rows_found = 0;
    ASSERT_STATUS(db_audit(db, &audit, &broken, &err), RLOCK_OK);
    ASSERT_NUMBER(steps, ==, 25);
    ASSERT_NUMBER(rows_found, ==, 50);
    ASSERT_NUMBER(broken, ==, 50);
    said[strlen(begin)] = '\0';
    assert_string_equal(said, begin);
    audit.on_step = NULL;
    steps = 0;
    said[0] = '\0';
    ASSERT_STATUS(db_audit(db, &audit, &broken, &err), RLOCK_OK);
    ASSERT_CONTAINS(said, "webhooks.sqlrollback;");
    db_close(db);
}

DB_CASE(test_db_audit__stops_at_a_failure)
{
    static const struct {
        enum rlock_status status;
        const char *why;
        unsigned steps, found;
    } rows[] = {
        {RLOCK_REFUSED, "snapshot: words 1", 0, 0},
        {RLOCK_IO, ": words 1", 1, 0},
        {RLOCK_IO, ": words 1", 1, 0},
        {RLOCK_REFUSED, ": words 1", 1, 0},
        {RLOCK_REFUSED, ": words 1", 1, 1},
        {RLOCK_REFUSED, ": words 1", 1, 2},
        {RLOCK_IO, ": words 1", 2, 2},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct db_audit audit = {.on_row = on_row, .on_step = on_step, .arg = &steps};
        struct db *db = open_one();
        struct rlock_err err = {0};
        uint64_t broken = 7;

        steps = rows_found = 0;
        failing_at = (int)i;
        ASSERT_STATUS(db_audit(db, &audit, &broken, &err), rows[i].status);
        ASSERT_CONTAINS(err.text, rows[i].why);
        if (rows[i].steps > 0)
            ASSERT_CONTAINS(err.text, title);
        ASSERT_NUMBER(steps, ==, rows[i].steps);
        ASSERT_NUMBER(rows_found, ==, rows[i].found);
        ASSERT_NUMBER(broken, ==, 7);
        ASSERT_CONTAINS(said, "rollback;");
        said[0] = '\0';
        db_close(db);
    }
}

/* -- migration -- */

static void on_migrate_step(const char *path, void *arg)
{
    assert_ptr_equal(arg, &steps);
    SAY("(step: %s)", path);
}

static void on_warning(const char *text, void *arg)
{
    assert_ptr_equal(arg, &steps);
    warnings++;
    SAY("(warning: %s)", text);
}

#define LOCK   "select 1 where pg_try_advisory_lock(5265717969);"
#define UNLOCK "select pg_advisory_unlock(5265717969);"

static const struct embedded files[] = {
    {.path = "sql/preparations/1.sql", .bytes = "prepare"},
    {.path = "sql/migrations/1.sql", .bytes = "migrate"},
    {.path = "sql/functions/f.sql", .bytes = "function"},
    {.path = "sql/audit/a.sql", .bytes = "audit"},
    {.path = NULL},
};

#define FILES                                                                            \
    "{sql/preparations/1.sql,sql/migrations/1.sql,sql/functions/f.sql}"                  \
    " {prepare,migrate,function}"
#define PLAN_PREPARATIONS(is_dry_run)                                                    \
    "begin;begin_migration.sql;prepare_migrations.sql " FILES " " is_dry_run ";rollback" \
    ";"

static const char *const migration[] = {
    LOCK,
    "begin;",
    "begin_migration.sql;",
    "prepare_migrations.sql " FILES " 0;",
    "rollback;(step: the preparation)",
    "prepare tables;",
    "set lock_timeout = 200;",
    "begin;",
    "begin_migration.sql;",
    "grants.sql the role;",
    "schema_rights.sql " FILES " 0;",
    "new_migrations.sql " FILES " 0;(step: the step)",
    "change tables;(step: the step)",
    "change tables;",
    "changed_functions.sql " FILES " 0;(warning: the warning)",
    "grant rights;",
    "select set_cell($1) 1/2;",
    "commit;",
    CONNECT_ONE,
    "select publish_cell($1) " ONE_HOST ";",
    "select join_aggregate($1::json) the cell;",
    "subscribe;",
};

/* Indexes in migration[]. The step after LAST_IN_PLAN is always a rollback, because the plan of the
   preparations is only read. */
enum {
    FIRST_IN_PLAN = 1,
    LAST_IN_PLAN = 3,
    FIRST_IN_TRANSACTION = 7,
    LAST_IN_TRANSACTION = 16
};

static const struct db_migration migration_options = {.cell = "1/2",
                                                      .aggregate = ONE_HOST,
                                                      .service_role = "the role",
                                                      .files = files,
                                                      .on_step = on_migrate_step,
                                                      .on_warning = on_warning,
                                                      .arg = &steps};

DB_CASE(test_db_migrate__executes_the_steps)
{
    struct db_migration options = migration_options;
    struct db *db = open_one();
    struct rlock_err err = {0};
    char wanted[2000] = "";

    for (size_t i = 0; i < COUNT_OF(migration); i++)
        append(wanted, sizeof(wanted), "%s", migration[i]);
    append(wanted, sizeof(wanted), UNLOCK);
    ASSERT_STATUS(db_migrate(db, &options, &err), RLOCK_OK);
    ASSERT_SAID(wanted);
    ASSERT_NUMBER(opened, ==, 1);
    options.is_dry_run = true;
    ASSERT_STATUS(db_migrate(db, &options, &err), RLOCK_OK);
    ASSERT_SAID(LOCK PLAN_PREPARATIONS(
        "1") "(step: the preparation)"
             "set lock_timeout = 200;begin;begin_migration.sql;grants.sql the "
             "role;schema_rights.sql " FILES " 1;new_migrations.sql " FILES
             " 1;(step: the step)(step: the step)changed_functions.sql " FILES
             " 1;(warning: the warning)rollback;" UNLOCK);
    options = (struct db_migration){.files = files};
    ASSERT_STATUS(db_migrate(db, &options, &err), RLOCK_OK);
    ASSERT_SAID(LOCK PLAN_PREPARATIONS(
        "0") "prepare tables;"
             "set lock_timeout = 200;begin;begin_migration.sql;grants.sql "
             "null;schema_rights.sql " FILES " 0;new_migrations.sql " FILES
             " 0;change tables;change tables;changed_functions.sql " FILES
             " 0;grant rights;commit;" UNLOCK);
    db_close(db);
}

DB_CASE(test_db_migrate__may_have_nothing_to_do)
{
    struct db *db = open_one();
    struct rlock_err err = {0};

    is_null = true;
    ASSERT_STATUS(db_migrate(db, &migration_options, &err), RLOCK_OK);
    ASSERT_SAID(LOCK PLAN_PREPARATIONS(
        "0") "set lock_timeout = 200;begin;begin_migration.sql;grants.sql the "
             "role;schema_rights.sql " FILES " 0;new_migrations.sql " FILES
             " 0;changed_functions.sql " FILES
             " 0;select set_cell($1) 1/2;commit;" CONNECT_ONE
             "select publish_cell($1) " ONE_HOST ";" UNLOCK);
    db_close(db);
}

DB_CASE(test_db_migrate__refuses)
{
    struct db *db = open_one();
    struct rlock_err err = {0};

    kind = "refusal";
    ASSERT_STATUS(db_migrate(db, &migration_options, &err), RLOCK_INVALID);
    assert_string_equal(err.text, "the preparation");
    ASSERT_SAID(LOCK PLAN_PREPARATIONS("0") UNLOCK);
    db_close(db);
}

DB_CASE(test_db_migrate__waits_for_another_migration)
{
    struct db *db = open_one();
    struct rlock_err err = {0};

    locks_refused = 2;
    kind = "refusal";
    ASSERT_STATUS(db_migrate(db, &migration_options, &err), RLOCK_INVALID);
    ASSERT_SAID(LOCK "select pg_sleep(0.1);" LOCK
                     "select pg_sleep(0.1);" LOCK PLAN_PREPARATIONS("0") UNLOCK);
    locks_refused = 1;
    failing_at = 1;
    ASSERT_STATUS(db_migrate(db, &migration_options, &err), RLOCK_REFUSED);
    ASSERT_SAID(LOCK "select pg_sleep(0.1);" UNLOCK);
    db_close(db);
}

#define FIRST_CHANGE 12
#define UNTIL_CHANGE                                                                     \
    "begin;begin_migration.sql;grants.sql the role;schema_rights.sql " FILES             \
    " 0;new_migrations.sql " FILES " 0;(step: the step)change tables;"

/* A deadlock (40P01) and an unavailable lock (55P03) may be temporary, so the transaction is tried
   again after a pause. If the pause fails, the migration fails. */
DB_CASE(test_db_migrate__tries_again_while_tables_are_in_use)
{
    static const struct {
        const char *sqlstate;
        bool is_repeated;
    } rows[] = {{"55P03", true}, {"40P01", true}, {"42501", false}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct db *db = open_one();
        struct rlock_err err = {0};

        sqlstate = rows[i].sqlstate;
        failing_at = FIRST_CHANGE;
        ASSERT_STATUS(db_migrate(db, &migration_options, &err),
                      rows[i].is_repeated ? RLOCK_OK : RLOCK_REFUSED);
        if (rows[i].is_repeated)
            ASSERT_CONTAINS(said, UNTIL_CHANGE
                            "rollback;(warning: other sessions use the tables; waiting)"
                            "select pg_sleep(1);set lock_timeout = 400;" UNTIL_CHANGE
                            "(step: the step)");
        else
            ASSERT_CONTAINS(said, UNTIL_CHANGE "rollback;" UNLOCK);
        said[0] = '\0';
        db_close(db);
    }
}

/* There are 180 attempts. The first three wait for a lock for 0.2, 0.4 and 0.6 s, and all later
   attempts for 0.8 s. */
DB_CASE(test_db_migrate__ends_while_tables_are_in_use)
{
    struct db *db = open_one();
    struct rlock_err err = {0};

    sqlstate = "55P03";
    refused = "change tables";
    ASSERT_STATUS(db_migrate(db, &migration_options, &err), RLOCK_BUSY);
    ASSERT_NUMBER(pauses, ==, 180);
    ASSERT_NUMBER(patience_ms, ==, 200 + 400 + 600 + 800 * 177);
    ASSERT_NUMBER(warnings, ==, 1);
    db_close(db);
}

/* Each statement fails once. A failure before the commit rolls everything back. A failure after the
   commit ends the migration. */
DB_CASE(test_db_migrate__stops_at_a_failure)
{
    int statement = 0;

    for (size_t i = 0; i < COUNT_OF(migration); i++) {
        struct db *db = open_one();
        struct rlock_err err = {0};
        char wanted[2000] = "";

        if (strncmp(migration[i], "connect", 7) == 0) {
            db_close(db);
            continue;
        }
        failing_at = statement++;
        if (strncmp(migration[i], "rollback", 8) == 0) {
            db_close(db);
            continue; /* the connection is lost, and the server has rolled back */
        }
        for (size_t k = 0; k < i; k++)
            append(wanted, sizeof(wanted), "%s", migration[k]);
        append(wanted, sizeof(wanted), "%.*s", (int)strcspn(migration[i], ";") + 1,
               migration[i]);
        if ((i >= FIRST_IN_PLAN && i <= LAST_IN_PLAN) ||
            (i >= FIRST_IN_TRANSACTION && i <= LAST_IN_TRANSACTION))
            append(wanted, sizeof(wanted), "rollback;");
        append(wanted, sizeof(wanted), UNLOCK);
        ASSERT_STATUS(db_migrate(db, &migration_options, &err), RLOCK_REFUSED);
        ASSERT_SAID(wanted);
        ASSERT_NUMBER(opened, ==, 1);
        db_close(db);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
