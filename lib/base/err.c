/* err.c - formats a message on one line. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum rlock_status err_set(struct rlock_err *err, enum rlock_status status,
                          const char *format, ...)
{
    va_list args;

    if (err == NULL)
        return status;
    err->status = status;
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    for (char *c = err->text; *c != '\0'; c++) {
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    }
    for (size_t n = strlen(err->text); n > 0 && err->text[n - 1] == ' '; n--)
        err->text[n - 1] = '\0';
    return status;
}

void err_prefix(struct rlock_err *err, const char *prefix)
{
    const struct rlock_err bare = *err;

    err_set(err, bare.status, "%s: %s", prefix, bare.text);
}
