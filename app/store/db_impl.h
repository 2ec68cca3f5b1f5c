/* db_impl.h - shared by db.c, db_migrate.c and db_audit.c. */
#ifndef DB_IMPL_H
#define DB_IMPL_H

#include "base/err.h"

#include <libpq-fe.h>

struct db {
    PGconn *conn;
};

/** Check a result. Returns RLOCK_OK, RLOCK_REFUSED, or RLOCK_IO if the connection is lost. */
MUST_CHECK enum rlock_status db_check(const struct db *db, const PGresult *result,
                                      const char *doing, struct rlock_err *reterr);

MUST_CHECK enum rlock_status db_run(struct db *db, const char *sql, const char *doing,
                                    struct rlock_err *reterr);

#endif
