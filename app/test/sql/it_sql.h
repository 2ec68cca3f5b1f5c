/*
 * it_sql.h - a sandbox for tests of sql/: a migrated schema of its own in the database of the
 * fixture, and a session in it.
 */
#ifndef TEST_IT_SQL_H
#define TEST_IT_SQL_H

#include "app/store/db.h"
#include "app/test/fixture.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#define SANDBOX_URL                                                                      \
    "%s?options=-csearch_path%%3D%s%%2Cgiven%%20-cclient_min_messages%%3Dwarning"

struct sandbox {
    char url[512];
    char service_url[512];
    char superuser_url[512];
    PGconn *conn;
    char value[65536];
};

static inline void sandbox_do(struct sandbox *sandbox, const char *format, ...)
    PRINTF_LIKE(2, 3);
static inline const char *sandbox_text(struct sandbox *sandbox, const char *format, ...)
    PRINTF_LIKE(2, 3);
static inline int64_t sandbox_number(struct sandbox *sandbox, const char *format, ...)
    PRINTF_LIKE(2, 3);

static inline PGconn *sandbox_connect(const struct sandbox *sandbox)
{
    PGconn *conn = PQconnectdb(sandbox->url);

    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(conn));
    return conn;
}

static inline void sandbox_query(struct sandbox *sandbox, const char *statement)
{
    PGresult *result = PQexec(sandbox->conn, statement);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(sandbox->conn));
    sandbox->value[0] = '\0';
    if (PQntuples(result) > 0 && PQnfields(result) > 0)
        snprintf(sandbox->value, sizeof(sandbox->value), "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
}

#define SANDBOX_FORMAT(statement, format)                                                \
    do {                                                                                 \
        va_list args;                                                                    \
        va_start(args, format);                                                          \
        vsnprintf(statement, sizeof(statement), format, args);                           \
        va_end(args);                                                                    \
    } while (0)

static inline void sandbox_do(struct sandbox *sandbox, const char *format, ...)
{
    char statement[4096];

    SANDBOX_FORMAT(statement, format);
    sandbox_query(sandbox, statement);
}

/** Returns the first value of the first row, or "". The value is valid until the next call. */
static inline const char *sandbox_text(struct sandbox *sandbox, const char *format, ...)
{
    char statement[4096];

    SANDBOX_FORMAT(statement, format);
    sandbox_query(sandbox, statement);
    return sandbox->value;
}

static inline int64_t sandbox_number(struct sandbox *sandbox, const char *format, ...)
{
    char statement[4096];

    SANDBOX_FORMAT(statement, format);
    sandbox_query(sandbox, statement);
    return strtoll(sandbox->value, NULL, 10);
}

/** Creates a sandbox with an empty schema, in which no migration has run. A program can use a name
 *  only once. */
static inline struct sandbox *sandbox_new(struct fixture *fixture, const char *schema)
{
    struct sandbox *sandbox = calloc(1, sizeof(*sandbox));

    assert_non_null(sandbox);
    sql_do(fixture, "create schema %s", schema);
    snprintf(sandbox->url, sizeof(sandbox->url), SANDBOX_URL, fixture->database_url,
             schema);
    snprintf(sandbox->service_url, sizeof(sandbox->service_url), SANDBOX_URL,
             fixture->service_url, schema);
    snprintf(sandbox->superuser_url, sizeof(sandbox->superuser_url), SANDBOX_URL,
             fixture->superuser_url, schema);
    sandbox->conn = sandbox_connect(sandbox);
    return sandbox;
}

static inline struct sandbox *sandbox_open(struct fixture *fixture, const char *schema)
{
    struct sandbox *sandbox = sandbox_new(fixture, schema);
    const struct db_migration options = {.service_role = SERVICE_ROLE};
    struct rlock_err err = {0};
    struct db *db;

    if (db_open(sandbox->url, &db, &err) != RLOCK_OK ||
        db_migrate(db, &options, &err) != RLOCK_OK)
        fail_msg("%s", err.text);
    db_close(db);
    return sandbox;
}

static inline void sandbox_close(struct sandbox *sandbox)
{
    PQfinish(sandbox->conn);
    free(sandbox);
}

static inline int64_t sandbox_voucher(struct sandbox *sandbox, int stock, int limit)
{
    return sandbox_number(sandbox,
                          "select id from create_voucher(nextval('voucher_id_seq'),"
                          " 'title', '', 100, 200, %d, %d, now() - interval '1 min',"
                          " now() + interval '1 h', 900)",
                          stock, limit);
}

static inline void sandbox_print_row(const char *check, const char *row, void *arg UNUSED)
{
    print_error("%s: %s\n", check, row);
}

static inline int64_t sandbox_audit(struct sandbox *sandbox)
{
    const struct db_audit audit = {.on_row = sandbox_print_row};
    struct rlock_err err = {0};
    struct db *db;
    uint64_t broken = UINT64_MAX;

    if (db_open(sandbox->url, &db, &err) != RLOCK_OK ||
        db_audit(db, &audit, &broken, &err) != RLOCK_OK)
        fail_msg("%s", err.text);
    db_close(db);
    return (int64_t)broken;
}

#endif
