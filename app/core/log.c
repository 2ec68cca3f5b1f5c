/* log.c - formats a line and writes it with one write(2), so lines are not mixed. */
#include "app/core/log.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 1024

static enum log_level shown = LOG_INFO;

void log_set_level(enum log_level level)
{
    shown = level;
}

bool log_shows(enum log_level level)
{
    return level <= shown;
}

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char line[LINE_BYTES];
    int64_t now_us = clock_real_us();
    time_t now_s = (time_t)(now_us / 1000000);
    struct tm utc;
    size_t len;
    va_list args;

    if (!log_shows(level))
        return;
    gmtime_r(&now_s, &utc);
    len = strftime(line, sizeof(line), "ts=%Y-%m-%dT%H:%M:%S", &utc);
    len += (size_t)snprintf(line + len, sizeof(line) - len, ".%06dZ level=%s event=%s%s",
                            (int)(now_us % 1000000), level_names[level], event,
                            format[0] != '\0' ? " " : "");
    va_start(args, format);
    len += (size_t)vsnprintf(line + len, sizeof(line) - len, format, args);
    va_end(args);
    if (len > sizeof(line) - 1)
        len = sizeof(line) - 1;
    line[len] = '\n';
    if (write(STDERR_FILENO, line, len + 1) < 0)
        return; /* an error of the log cannot be logged */
}

const char *log_plain(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '"')
            *c = '\'';
        else if (*c == '\\' || (unsigned char)*c < ' ')
            *c = ' ';
    }
    return text;
}
