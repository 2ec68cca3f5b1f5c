/* log.h - one logfmt line per event on standard error. Any thread. */
#ifndef LOG_H
#define LOG_H

#include "base/attributes.h"

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/** Set the least severe level to be logged, before threads start. Initially LOG_INFO. */
void log_set_level(enum log_level level);

/** Whether lines of that level are written: check it before computing costly fields. */
bool log_shows(enum log_level level);

/**
 * Write `ts=... level=... event=EVENT ...`, cut at 1 KiB.
 *
 * @format  printf format of the fields, e.g. `"order_id=%lld total_us=%lld"`; "": none.
 *          Quote a text that may contain spaces, `why=\"%s\"`, and pass it through
 *          log_plain() first
 */
void log_event(enum log_level level, const char *event, const char *format, ...)
    PRINTF_LIKE(3, 4);

/** Replace, in place, the characters that would break a quoted field: quotes, backslashes
 *  and control characters. Returns `text`. */
const char *log_plain(char *text);

#endif
