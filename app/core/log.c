/*
 * log.c - formats lines and writes them to standard error.
 *
 * The thread of log_start() writes whole lines, at most PIPE_BUF bytes at once, so that lines of
 * other processes do not get in between. Standard error stays in blocking mode, because other
 * processes share it.
 */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): memrchr, pthread_clockjoin_np
#include "app/core/log.h"

#include "app/core/rfc3339.h"
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES   1024
#define BUFFER_BYTES 65536
#define STOP_S       1 /* maximum time to write the last lines */

static enum log_level shown = LOG_INFO;

static struct {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char buffers[2][BUFFER_BYTES];
    char *waiting; /* the lines that wait, in one of the buffers */
    size_t waiting_len;
    _Atomic uint64_t dropped;
    uint64_t reported; /* the part of `dropped` that the thread has reported */
    bool is_started, is_stopping;
} writer = {.mutex = PTHREAD_MUTEX_INITIALIZER,
            .changed = PTHREAD_COND_INITIALIZER,
            .waiting = writer.buffers[0]};

void log_set_level(enum log_level level)
{
    shown = level;
}

bool log_shows(enum log_level level)
{
    return level <= shown;
}

/* -- lines -- */

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static size_t format_line(char *line, enum log_level level, const char *event,
                          const char *fields)
{
    char now[RFC3339_BYTES];
    size_t len;

    rfc3339_print(clock_real_us(), now);
    len =
        (size_t)snprintf(line, LINE_BYTES, "ts=%s level=%s event=%s%s%s", now,
                         level_names[level], event, fields[0] != '\0' ? " " : "", fields);
    len = MIN(len, LINE_BYTES - 1);
    line[len] = '\n';
    return len + 1;
}

static bool write_all(const char *lines, size_t len)
{
    while (len > 0) {
        ssize_t written = write(STDERR_FILENO, lines, len);

        if (written < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
        else if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            lines += written;
            len -= (size_t)written;
        }
    }
    return true;
}

static void enqueue(const char *line, size_t len)
{
    pthread_mutex_lock(&writer.mutex);
    if (len <= BUFFER_BYTES - writer.waiting_len) {
        memcpy(writer.waiting + writer.waiting_len, line, len);
        writer.waiting_len += len;
        pthread_cond_signal(&writer.changed);
    } else {
        writer.dropped++;
    }
    pthread_mutex_unlock(&writer.mutex);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char line[LINE_BYTES], fields[LINE_BYTES];
    size_t len;
    va_list args;

    if (!log_shows(level))
        return;
    va_start(args, format);
    vsnprintf(fields, sizeof(fields), format, args);
    va_end(args);
    len = format_line(line, level, event, fields);
    if (writer.is_started)
        enqueue(line, len);
    else
        (void)write_all(line, len);
}

const char *log_plain(const char *text, char ret_copy[LOG_TEXT_BYTES])
{
    snprintf(ret_copy, LOG_TEXT_BYTES, "%s", text);
    for (char *c = ret_copy; *c != '\0'; c++) {
        if (*c == '"')
            *c = '\'';
        else if (*c == '\\' || (unsigned char)*c < ' ')
            *c = ' ';
    }
    return ret_copy;
}

/* -- the thread -- */

/* Waits for lines, and returns their length. Returns 0 if the thread must stop. */
static size_t take(char **ret_lines, uint64_t *ret_dropped)
{
    size_t len;

    pthread_mutex_lock(&writer.mutex);
    while (writer.waiting_len == 0 && !writer.is_stopping)
        pthread_cond_wait(&writer.changed, &writer.mutex);
    len = writer.waiting_len;
    *ret_lines = writer.waiting;
    *ret_dropped = writer.dropped;
    writer.waiting = writer.buffers[writer.waiting == writer.buffers[0]];
    writer.waiting_len = 0;
    pthread_mutex_unlock(&writer.mutex);
    return len;
}

static uint64_t count_lines(const char *lines, size_t len)
{
    const char *end = lines + len;
    uint64_t count = 0;

    while ((lines = memchr(lines, '\n', (size_t)(end - lines))) != NULL) {
        lines++;
        count++;
    }
    return count;
}

static void write_lines(const char *lines, size_t len)
{
    while (len > 0) {
        size_t part = len;

        if (len > PIPE_BUF)
            part = (size_t)((const char *)memrchr(lines, '\n', PIPE_BUF) + 1 - lines);
        if (!write_all(lines, part))
            writer.dropped += count_lines(lines, part);
        lines += part;
        len -= part;
    }
}

static bool write_dropped(uint64_t count)
{
    char line[LINE_BYTES], fields[40];

    snprintf(fields, sizeof(fields), "lines=%llu", (unsigned long long)count);
    return write_all(line, format_line(line, LOG_WARN, "log_dropped", fields));
}

static void *run(void *arg UNUSED)
{
    uint64_t dropped;
    char *lines;
    size_t len;

    pthread_setname_np(pthread_self(), "log");
    while ((len = take(&lines, &dropped)) > 0) {
        write_lines(lines, len);
        if (dropped > writer.reported && write_dropped(dropped - writer.reported))
            writer.reported = dropped;
    }
    return NULL;
}

enum rlock_status log_start(struct rlock_err *reterr)
{
    writer.is_stopping = false;
    errno = pthread_create(&writer.thread, NULL, run, NULL);
    if (errno != 0)
        return err_set(reterr, RLOCK_NO_MEMORY, "cannot start a thread: %m");
    writer.is_started = true;
    return RLOCK_OK;
}

void log_stop(void)
{
    struct timespec until;

    pthread_mutex_lock(&writer.mutex);
    writer.is_stopping = true;
    pthread_cond_signal(&writer.changed);
    pthread_mutex_unlock(&writer.mutex);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += STOP_S;
    if (pthread_clockjoin_np(writer.thread, NULL, CLOCK_MONOTONIC, &until) == 0)
        writer.is_started = false;
    else
        /* the thread hangs in write() until the process ends */
        pthread_detach(writer.thread);
}

uint64_t log_dropped(void)
{
    return writer.dropped;
}
