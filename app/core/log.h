/* log.h - one logfmt line per event on standard error. Any thread. */
#ifndef LOG_H
#define LOG_H

#include "base/attributes.h"

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/** To be called before threads start; LOG_INFO until then. */
void log_set_level(enum log_level level);

/** Whether lines of that level are written: to be asked before one costs something. */
bool log_shows(enum log_level level);

/**
 * Write `ts=... level=... event=EVENT ...`, cut at 1 KiB.
 *
 * @format  printf format of the fields, e.g. `"order_id=%lld total_us=%lld"`; "" for
 * none. A text that may hold spaces stands in quotes, `why=\"%s\"`, and goes through
 *          log_plain() first
 */
void log_event(enum log_level level, const char *event, const char *format, ...)
    PRINTF_LIKE(3, 4);

/** Replace what would break a quoted field (quotes, backslashes, control characters) in
 *  place; returns `text`. */
const char *log_plain(char *text);

#endif
