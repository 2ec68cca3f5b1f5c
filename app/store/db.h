/* db.h - a blocking connection to the database, for a command. */
#ifndef DB_H
#define DB_H

#include "app/core/embed.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct db;

/**
 * Connect to the database. If the URL has several hosts, connect to the primary, unless the URL has
 * target_session_attrs.
 *
 * @ret_db  set on RLOCK_OK; close with db_close()
 *
 * Returns  RLOCK_OK; RLOCK_IO; RLOCK_INVALID: the URL is invalid, or the encoding is
 *          not UTF8; RLOCK_NO_MEMORY
 */
MUST_CHECK enum rlock_status db_open(const char *database_url, struct db **ret_db,
                                     struct rlock_err *reterr);
void db_close(struct db *db); /* accepts NULL */

struct db_query {
    const char *name;
    const char *const *values; /* the parameters as texts; NULL is SQL's NULL */
    int count;
    /* Called for each row, with its first and its last column. */
    void (*on_row)(const char *first, const char *last, void *arg);
    void *arg;
};

/** Run a query. Returns RLOCK_OK; RLOCK_REFUSED: the server had an error, and nothing was changed;
 *  RLOCK_IO. */
MUST_CHECK enum rlock_status db_ask(struct db *db, const struct db_query *query,
                                    struct rlock_err *reterr);

struct db_migration {
    bool is_dry_run;
    const char *cell;         /* "K/N": make the database cell K of N; NULL: no change */
    const char *aggregate;    /* URL of a cell to be replicated here; NULL: none */
    const char *service_role; /* receives the rights of the service; may be NULL */
    const struct embedded *files;                 /* NULL: embedded_files */
    void (*on_step)(const char *path, void *arg); /* called before a step; or NULL */
    /* called for each right of another role that makes the functions unsafe, and once if other
       sessions use the tables; may be NULL */
    void (*on_warning)(const char *text, void *arg);
    void *arg;
};

/**
 * Bring the database up to date with sql/migrations and sql/functions, as sql/README.md describes.
 * An advisory lock ensures that only one migration runs. The call also renews the rights of every
 * role that runs the service, and revokes from public the right to create objects in the schema.
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: nothing was applied, because an applied migration has
 *          changed or is unknown to this program, or because the tables are of a version
 *          that recorded no migrations; RLOCK_REFUSED: a statement failed and its transaction
 *          was rolled back; RLOCK_BUSY: other sessions used the tables for eight minutes,
 *          and the transaction was rolled back; RLOCK_IO
 */
MUST_CHECK enum rlock_status db_migrate(struct db *db, const struct db_migration *options,
                                        struct rlock_err *reterr);

struct db_audit {
    /* Called for each row that fails a check. `row` describes the failure. */
    void (*on_row)(const char *check, const char *row, void *arg);
    /* Called before each check, for progress; may be NULL. */
    void (*on_step)(const char *check, unsigned done, unsigned of, void *arg);
    void *arg;
};

/** Run the checks of sql/audit on one database snapshot.
 *  @ret_broken  number of rows that fail a check */
MUST_CHECK enum rlock_status db_audit(struct db *db, const struct db_audit *audit,
                                      uint64_t *ret_broken, struct rlock_err *reterr);

#endif
