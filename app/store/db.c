/* db.c - a blocking connection to the database. */
#include "app/store/db.h"

#include "app/store/database_url.h"
#include "app/store/db_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ignore_notice(void *arg UNUSED, const char *message UNUSED)
{
}

enum rlock_status db_open(const char *database_url, struct db **ret_db,
                          struct rlock_err *reterr)
{
    unsigned hosts = 1;
    enum rlock_status status = database_url_check(database_url, &hosts, reterr);
    struct database_host host;
    /* A later keyword overrides an earlier keyword. So the URL, which is given as `dbname`,
       overrides the keywords before it, and the keywords after it override the hosts of the URL. */
    /* clang-format off */
    const char *const keywords[] = {"connect_timeout", "target_session_attrs",
        "fallback_application_name", "client_encoding", "dbname", "host", "hostaddr", "port",
        NULL};
    const char *const values[] = {"10", hosts > 1 ? "primary" : "any",
        "seckill", "UTF8", database_url, host.name, host.address, host.port, NULL};
    /* clang-format on */
    struct rlock_err why = {0}, before;
    struct db *db;
    const char *encoding;

    if (status != RLOCK_OK)
        return status;
    status = RLOCK_NO_MEMORY;
    db = calloc(1, sizeof(*db));
    if (db == NULL)
        goto out;
    /* libpq alone would not try the next host if a host refuses the login or lacks the database. */
    for (unsigned i = 0; i < hosts && PQstatus(db->conn) != CONNECTION_OK; i++) {
        PQfinish(db->conn);
        db->conn = database_url_host(database_url, i, &host)
                       ? PQconnectdbParams(keywords, values, 1)
                       : NULL;
        if (db->conn == NULL)
            goto out;
        before = why;
        err_set(&why, RLOCK_IO, "%s%s%s", before.text, i == 0 ? "" : "; ",
                PQerrorMessage(db->conn));
    }
    if (PQstatus(db->conn) != CONNECTION_OK) {
        status = err_set(reterr, RLOCK_IO, "check the database URL: %s", why.text);
        goto out;
    }
    encoding = PQparameterStatus(db->conn, "server_encoding");
    if (encoding == NULL || strcmp(encoding, "UTF8") != 0) {
        status = err_set(reterr, RLOCK_INVALID, DATABASE_NOT_UTF8,
                         encoding == NULL ? "unknown" : encoding);
        goto out;
    }
    PQsetNoticeProcessor(db->conn, ignore_notice, NULL);
    *ret_db = db;
    return RLOCK_OK;
out:
    db_close(db);
    return status == RLOCK_NO_MEMORY ? err_set(reterr, status, "out of memory") : status;
}

void db_close(struct db *db)
{
    if (db == NULL)
        return;
    PQfinish(db->conn);
    free(db);
}

enum rlock_status db_check(const struct db *db, const PGresult *result, const char *doing,
                           struct rlock_err *reterr)
{
    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_SINGLE_TUPLE:
        return RLOCK_OK;
    default:
        return err_set(reterr,
                       PQstatus(db->conn) == CONNECTION_OK ? RLOCK_REFUSED : RLOCK_IO,
                       "%s: %s", doing, PQerrorMessage(db->conn));
    }
}

enum rlock_status db_run(struct db *db, const char *sql, const char *doing,
                         struct rlock_err *reterr)
{
    PGresult *result = PQexec(db->conn, sql);
    enum rlock_status status = db_check(db, result, doing, reterr);

    PQclear(result);
    return status;
}

enum rlock_status db_ask(struct db *db, const struct db_query *query,
                         struct rlock_err *reterr)
{
    char path[64];
    PGresult *result;
    enum rlock_status status;

    snprintf(path, sizeof(path), "sql/queries/%s.sql", query->name);
    result = PQexecParams(db->conn, embedded_find(path)->bytes, query->count, NULL,
                          query->values, NULL, NULL, 0);
    status = db_check(db, result, query->name, reterr);
    for (int row = 0; status == RLOCK_OK && row < PQntuples(result); row++)
        query->on_row(PQgetvalue(result, row, 0),
                      PQgetvalue(result, row, PQnfields(result) - 1), query->arg);
    PQclear(result);
    return status;
}
