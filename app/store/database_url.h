/* database_url.h - checks SECKILL_DATABASE_URL before anything connects. */
#ifndef DATABASE_URL_H
#define DATABASE_URL_H

#include "base/attributes.h"
#include "base/err.h"

/**
 * Returns  STATUS_OK; STATUS_INVALID: `reterr` names the setting and shows no part of the
 *          value, because a password may stand anywhere in a malformed one
 */
MUST_CHECK enum status database_url_check(const char *url, struct err *reterr);

#endif
