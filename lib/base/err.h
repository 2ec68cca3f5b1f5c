/* err.h - sets the message that goes with a status. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/attributes.h"
#include "base/status.h"

/**
 * Set `err` and return `status`. If `err` is NULL, only return `status`. So a failure is one
 * statement:
 * `return err_set(reterr, RLOCK_IO, "connect: %s", why);`
 */
enum rlock_status err_set(struct rlock_err *err, enum rlock_status status,
                          const char *format, ...) PRINTF_LIKE(3, 4);

/** Put `prefix` and ": " before the message. */
void err_prefix(struct rlock_err *err, const char *prefix);

#endif
