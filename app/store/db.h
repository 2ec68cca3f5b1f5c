/*
 * db.h - the database for commands: blocking, and used by one command at a time.
 */
#ifndef DB_H
#define DB_H

#include "base/attributes.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct db;

/** @ret_db  set on STATUS_OK; close with db_close() */
MUST_CHECK enum status db_open(const char *database_url, struct db **ret_db,
                               struct err *reterr);
void db_close(struct db *db); /* accepts NULL */

struct db_migration {
    bool is_dry_run;          /* only tell what would be applied */
    const char *service_role; /* is given what the service needs; NULL: nobody new */
    void (*on_step)(const char *name, void *arg); /* before each; may be NULL */
    void *arg;
};

/**
 * Apply the migrations built into the program that are not yet recorded, in order, each
 * in its transaction, under an advisory lock; then see to the rights of the roles that
 * run the service.
 *
 * Returns  STATUS_OK; STATUS_INVALID: a recorded migration differs from the one built in,
 *          or is not known to this program; STATUS_REFUSED: a statement failed; STATUS_IO
 */
MUST_CHECK enum status db_migrate(struct db *db, const struct db_migration *options,
                                  struct err *reterr);

/**
 * Prove promises 1 and 2 on the database as it is, and that the history adds up to it,
 * by one snapshot.
 *
 * @on_row          called for each row that breaks a promise: which, and how, in words
 * @on_step         called before each check, for progress; may be NULL
 * @ret_broken      number of rows that break one
 */
struct db_audit {
    void (*on_row)(const char *check, const char *row, void *arg);
    void (*on_step)(const char *check, unsigned done, unsigned of, void *arg);
    void *arg;
};
MUST_CHECK enum status db_audit(struct db *db, const struct db_audit *audit,
                                uint64_t *ret_broken, struct err *reterr);

#endif
