/*
 * db_audit.c - runs the checks of sql/audit.
 *
 * Each check is a query for rows that should not exist. All checks see one database snapshot. The
 * checks do not rely on constraints, because an index can be corrupt, a constraint can be dropped,
 * and a row can be changed by hand.
 */
#include "app/store/db.h"
#include "app/store/db_impl.h"

#include <string.h>

struct check {
    char title[128]; /* the first line of the file, a comment */
    const char *sql;
};

static bool read_check(const struct embedded *file, struct check *ret_check)
{
    static const char folder[] = "sql/audit/";

    ret_check->sql = file->bytes;
    return strncmp(file->path, folder, strlen(folder)) == 0 &&
           sscanf(file->bytes, "-- %127[^\n]", ret_check->title) == 1;
}

/* Reports the rows one by one, because a check may find millions. */
static enum rlock_status run_check(struct db *db, const struct check *check,
                                   const struct db_audit *audit, uint64_t *broken,
                                   struct rlock_err *reterr)
{
    enum rlock_status status = RLOCK_OK;

    if (PQsendQuery(db->conn, check->sql) != 1 || PQsetSingleRowMode(db->conn) != 1)
        return err_set(reterr, RLOCK_IO, "%s: %s", check->title,
                       PQerrorMessage(db->conn));
    for (PGresult *result; (result = PQgetResult(db->conn)) != NULL; PQclear(result)) {
        if (status == RLOCK_OK)
            status = db_check(db, result, check->title, reterr);
        if (PQresultStatus(result) != PGRES_SINGLE_TUPLE)
            continue;
        (*broken)++;
        audit->on_row(check->title, PQgetvalue(result, 0, 0), audit->arg);
    }
    return status;
}

enum rlock_status db_audit(struct db *db, const struct db_audit *audit,
                           uint64_t *ret_broken, struct rlock_err *reterr)
{
    unsigned done = 0, count = 0;
    struct check check;
    uint64_t broken = 0;
    enum rlock_status status = db_run(
        db, "begin isolation level repeatable read, read only", "snapshot", reterr);

    for (const struct embedded *file = embedded_files; file->path != NULL; file++) {
        if (read_check(file, &check))
            count++;
    }
    for (const struct embedded *file = embedded_files;
         status == RLOCK_OK && file->path != NULL; file++) {
        if (!read_check(file, &check))
            continue;
        if (audit->on_step != NULL)
            audit->on_step(check.title, done++, count, audit->arg);
        status = run_check(db, &check, audit, &broken, reterr);
    }
    PQclear(PQexec(db->conn, "rollback"));
    if (status == RLOCK_OK)
        *ret_broken = broken;
    return status;
}
