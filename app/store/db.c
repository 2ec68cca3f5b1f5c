/* db.c - a blocking connection. */
#include "app/store/db.h"

#include "app/store/database_check.h"
#include "app/store/db_impl.h"

#include <stdlib.h>

static void ignore_notice(void *arg UNUSED, const char *message UNUSED)
{
}

enum status db_open(const char *database_url, struct db **ret_db, struct err *reterr)
{
    /* the URL comes last, so its settings win */
    const char *const keywords[] = {"connect_timeout", "fallback_application_name",
                                    "client_encoding", "dbname", NULL};
    const char *const values[] = {"10", "seckill", "UTF8", database_url, NULL};
    enum status status = err_set(reterr, STATUS_NO_MEMORY, "out of memory");
    struct db *db = calloc(1, sizeof(*db));

    if (db == NULL)
        goto out;
    db->conn = PQconnectdbParams(keywords, values, 1);
    if (db->conn == NULL)
        goto out;
    if (PQstatus(db->conn) != CONNECTION_OK) {
        status = err_set(reterr, STATUS_IO, "%s", PQerrorMessage(db->conn));
        goto out;
    }
    status = database_check_encoding(db->conn, reterr);
    if (status != STATUS_OK)
        goto out;
    PQsetNoticeProcessor(db->conn, ignore_notice, NULL);
    *ret_db = db;
    return STATUS_OK;
out:
    db_close(db);
    return status;
}

void db_close(struct db *db)
{
    if (db == NULL)
        return;
    PQfinish(db->conn);
    free(db);
}

enum status db_check(const struct db *db, const PGresult *result, const char *doing,
                     struct err *reterr)
{
    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_SINGLE_TUPLE:
        return STATUS_OK;
    default:
        return err_set(reterr,
                       PQstatus(db->conn) == CONNECTION_OK ? STATUS_REFUSED : STATUS_IO,
                       "%s: %s", doing, PQerrorMessage(db->conn));
    }
}

enum status db_run(struct db *db, const char *sql, const char *doing, struct err *reterr)
{
    PGresult *result = PQexec(db->conn, sql);
    enum status status = db_check(db, result, doing, reterr);

    PQclear(result);
    return status;
}
