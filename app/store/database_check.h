/* database_check.h - refuses databases that cannot be used. */
#ifndef DATABASE_CHECK_H
#define DATABASE_CHECK_H

#include "base/attributes.h"
#include "base/err.h"

struct pg_conn; /* PGconn of libpq */

/**
 * To be called before anything connects.
 *
 * Returns  STATUS_OK; STATUS_INVALID: `reterr` names the setting and shows no part of the
 *          value, because a password may stand anywhere in a malformed one
 */
MUST_CHECK enum status database_check_url(const char *url, struct err *reterr);

/**
 * Titles and keys are UTF-8, which another encoding cannot store.
 *
 * @conn  connected
 *
 * Returns  STATUS_OK; STATUS_INVALID
 */
MUST_CHECK enum status database_check_encoding(const struct pg_conn *conn,
                                               struct err *reterr);

#endif
