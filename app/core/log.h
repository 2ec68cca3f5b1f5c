/*
 * log.h - one logfmt line per event on standard error.
 *
 * Threads: any, except for log_start(), log_stop() and log_set_level().
 */
#ifndef LOG_H
#define LOG_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/** Set the least severe level that is logged, initially LOG_INFO. Called before threads start. */
void log_set_level(enum log_level level);

/** Start a thread that writes the lines. Afterwards log_event() returns at once, even if the reader
 *  of standard error is slow. If 64 KiB of lines are waiting, a new line is dropped. Called after
 *  signals are blocked, and before the threads that log are started. */
MUST_CHECK enum rlock_status log_start(struct rlock_err *reterr);

/** Write the waiting lines, for at most a second, and end the thread. Called when the other threads
 *  have ended. */
void log_stop(void);

/** Number of lines that were dropped, or not written because of an error. The line
 *  `event=log_dropped lines=N` reports them as soon as lines can be written again. */
uint64_t log_dropped(void);

/** Whether lines of this level are written. Callers check this before they compute costly
 *  fields. */
bool log_shows(enum log_level level);

/**
 * Write `ts=... level=... event=EVENT ...`, cut at 1 KiB.
 *
 * @format  printf format of the fields, e.g. `"order_id=%lld total_us=%lld"`; "": none.
 *          Quote a text that may contain spaces, `why=\"%s\"`, and pass it through
 *          LOG_PLAIN() first
 */
void log_event(enum log_level level, const char *event, const char *format, ...)
    PRINTF_LIKE(3, 4);

#define LOG_TEXT_BYTES 256

/** Copy `text`, cut to fit, without the characters that would break a quoted field: quotes,
 *  backslashes and control characters. Returns the copy. */
const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES]);

/** Call log_plain(). The copy is valid in the enclosing block. */
#define LOG_PLAIN(text) log_plain(text, (char[LOG_TEXT_BYTES]){0})

#endif
