/* err.h - the words that go with a status. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/attributes.h"
#include "base/status.h"

/** Zero-initialise before the first use; owns no memory. */
struct err {
    enum status status;
    char text[256]; /* NUL-terminated, cut to fit, no line breaks */
};

/**
 * Set `err` and hand its status back, so that a failure is one statement:
 * `return err_set(reterr, STATUS_IO, "connect: %s", why);`
 *
 * @err     may be NULL: then only the status is returned
 *
 * Returns  `status`
 */
enum status err_set(struct err *err, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/** Put `prefix` and ": " before the words. */
void err_prefix(struct err *err, const char *prefix);

#endif
