/* test_log.c - lines that a thread writes to standard error, which is a pipe in this program. */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): pipe2, O_DIRECT
#include "app/core/log.h"
#include "test/case_list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_BYTES  1100
#define LINES       5000
#define DEADLINE_MS 120000

static const char padding[] = "0123456789012345678901234567890123456789"
                              "0123456789012345678901234567890123456789";

static struct {
    int saved_fd, read_fd;
    char text[1 << 20];
    size_t len;
    bool is_torn;
    size_t last_len, before_len;
} output;

/* -- results of write(): scripted ones first, then those of the system -- */

#define ALL_BUT_ONE (-2)

static struct {
    const struct step {
        ssize_t result;
        /* errno after the call; a success leaves the value of an earlier call */
        int error;
    } * steps;
    size_t count;
    unsigned polls;
} script;

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): those of the C library
ssize_t write(int fd, const void *bytes, size_t len)
{
    struct step step;
    size_t part = len;

    if (script.count == 0)
        return syscall(SYS_write, fd, bytes, len);
    step = *script.steps++;
    script.count--;
    if (step.result == ALL_BUT_ONE)
        part = len - 1;
    else
        part = step.result > 0 ? (size_t)step.result : 0;
    if (part > 0)
        ASSERT_NUMBER(syscall(SYS_write, fd, bytes, part), ==, part);
    errno = step.error;
    return step.result == ALL_BUT_ONE ? (ssize_t)part : step.result;
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

    script.polls += timeout_ms == -1;
    ASSERT_NUMBER(count, <=, 1);
    return ppoll(fds, count, timeout_ms >= 0 ? &timeout : NULL, NULL);
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

/* -- output -- */

/* The pipe is in packet mode: each read returns the bytes of one write of at most PIPE_BUF
   bytes. */
static void capture(void)
{
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC | O_DIRECT), 0);
    output.saved_fd = dup(STDERR_FILENO);
    output.read_fd = fds[0];
    output.len = output.last_len = 0;
    output.text[0] = '\0';
    output.is_torn = false;
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
}

static void release(void)
{
    dup2(output.saved_fd, STDERR_FILENO);
    close(output.saved_fd);
}

static bool read_packet(void)
{
    struct pollfd readable = {.fd = output.read_fd, .events = POLLIN};
    char *end = output.text + output.len;
    ssize_t len;

    if (poll(&readable, 1, DEADLINE_MS) <= 0)
        return false;
    len = read(output.read_fd, end, sizeof(output.text) - output.len - 1);
    if (len <= 0)
        return false;
    output.before_len = output.last_len;
    output.last_len = (size_t)len;
    output.len += (size_t)len;
    output.text[output.len] = '\0';
    output.is_torn = output.is_torn || end[len - 1] != '\n';
    return true;
}

static void read_rest(void)
{
    while (read_packet())
        continue;
    close(output.read_fd);
}

static long number_after(const char *line, const char *words)
{
    const char *at = strstr(line, words);

    return at != NULL ? strtol(at + strlen(words), NULL, 10) : -1;
}

static int count_lines(uint64_t *ret_dropped)
{
    char line[LINE_BYTES];
    int count = 0;
    long last = -1;

    *ret_dropped = 0;
    for (const char *at = output.text; *at != '\0'; at = strchr(at, '\n') + 1) {
        int len = (int)strcspn(at, "\n");
        long dropped, number;

        snprintf(line, sizeof(line), "%.*s", len, at);
        ASSERT_BEGINS(line, "ts=2");
        dropped = number_after(line, " level=warn event=log_dropped lines=");
        if (dropped > 0) {
            *ret_dropped += (uint64_t)dropped;
            continue;
        }
        number = number_after(line, " level=info event=filled n=");
        ASSERT_NUMBER(number, >, last);
        assert_string_equal(line + len - strlen(padding), padding);
        last = number;
        count++;
    }
    return count;
}

static void fill(int first, int count)
{
    for (int i = first; i < first + count; i++)
        log_event(LOG_INFO, "filled", "n=%d %s", i, padding);
}

UNIT_CASE(test_log_stop__writes_the_waiting_lines)
{
    uint64_t dropped;
    struct rlock_err err;

    capture();
    fill(0, 1);
    if (log_start(&err) == RLOCK_OK) {
        fill(1, 10);
        log_stop();
    }
    release();
    read_rest();
    assert_int_equal(count_lines(&dropped), 11);
    assert_int_equal(dropped, 0);
}

/* Each line must be written soon, and not only when another line follows or the thread ends. */
UNIT_CASE(test_log_event__wakes_the_thread)
{
    uint64_t dropped;
    struct rlock_err err;

    capture();
    assert_int_equal(log_start(&err), RLOCK_OK);
    for (int i = 0; i < 5; i++) {
        fill(i, 1);
        if (!read_packet())
            fail_msg("line %d of 5 was not written", i + 1);
    }
    log_stop();
    release();
    close(output.read_fd);
    assert_int_equal(count_lines(&dropped), 5);
}

UNIT_CASE(test_log_event__writes_lines_of_the_level)
{
    capture();
    assert_true(log_shows(LOG_INFO));
    assert_false(log_shows(LOG_DEBUG));
    log_event(LOG_DEBUG, "hidden", "n=1");
    log_event(LOG_ERROR, "plain", "%s", "");
    log_set_level(LOG_DEBUG);
    log_event(LOG_DEBUG, "shown", "n=%d", 2);
    log_set_level(LOG_INFO);
    release();
    read_rest();
    ASSERT_CONTAINS(output.text, "Z level=error event=plain\nts=");
    ASSERT_CONTAINS(output.text, "Z level=debug event=shown n=2\n");
    if (strstr(output.text, "hidden") != NULL)
        fail_msg("expected no line of the event hidden, got \"%s\"", output.text);
}

UNIT_CASE(test_log_event__writes_the_rest_of_a_line)
{
    static const struct step steps[] = {{-1, EINTR}, {0, EAGAIN},  {0, EIO},
                                        {1, EAGAIN}, {-1, EAGAIN}, {ALL_BUT_ONE, EIO}};

    capture();
    script.steps = steps;
    script.count = sizeof(steps) / sizeof(steps[0]);
    script.polls = 0;
    log_event(LOG_INFO, "parts", "%s", padding);
    ASSERT_NUMBER(script.count, ==, 0);
    ASSERT_NUMBER(script.polls, ==, 1);
    release();
    read_rest();
    ASSERT_BEGINS(output.text, "ts=2");
    ASSERT_CONTAINS(output.text, "Z level=info event=parts ");
    assert_string_equal(strchr(output.text, '\0') - strlen(padding) - 1,
                        "01234567890123456789012345678901234567890123456789"
                        "012345678901234567890123456789\n");
}

UNIT_CASE(test_log_plain__replaces_what_ends_a_quoted_field)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"two words", "two words"},
        {"100%% %d", "100%% %d"},
        {"a\"b\"", "a'b'"},
        {"\\a\\", " a "},
        {"a\nb\x01", "a b "},
        {"\x1f\x7f", " \x7f"},
        {"\xc3\xa9!", "\xc3\xa9!"},
    };
    char copy[LOG_TEXT_BYTES], text[LOG_TEXT_BYTES + 1];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_ptr_equal(log_plain(rows[i][0], copy), copy);
        assert_string_equal(copy, rows[i][1]);
    }
    memset(text, '"', LOG_TEXT_BYTES);
    text[LOG_TEXT_BYTES] = '\0';
    ASSERT_NUMBER(strspn(log_plain(text, copy), "'"), ==, LOG_TEXT_BYTES - 1);
    ASSERT_NUMBER(strlen(copy), ==, LOG_TEXT_BYTES - 1);
}

UNIT_CASE(test_log_event__truncates_a_long_line)
{
    capture();
    log_event(LOG_INFO, "long", "%2000s", "x");
    release();
    read_rest();
    if (output.len != 1024 || strchr(output.text, '\n') != output.text + 1023)
        fail_msg("expected a line of 1024 bytes, got %zu bytes, the first line of %zu",
                 output.len, strcspn(output.text, "\n") + 1);
}

UNIT_CASE(test_log_event__drops_lines_that_nobody_reads)
{
    uint64_t dropped, reported = 0;
    bool is_read = true;
    struct rlock_err err;

    capture();
    if (log_start(&err) == RLOCK_OK)
        fill(0, LINES);
    dropped = log_dropped();
    while (is_read && count_lines(&reported) + (int)reported < LINES)
        is_read = read_packet();
    log_stop();
    release();
    read_rest();
    assert_false(output.is_torn);
    ASSERT_BETWEEN(dropped, 1, LINES - 1);
    assert_int_equal(reported, dropped);
    assert_int_equal(count_lines(&reported), LINES - (int)dropped);
}

/* The buffer has room for 64 lines of 1 KiB. They are written PIPE_BUF bytes at a time. */
UNIT_CASE(test_log_event__fills_the_buffer_before_it_drops)
{
    uint64_t before = log_dropped();
    struct rlock_err err;

    capture();
    assert_int_equal(log_start(&err), RLOCK_OK);
    while (log_dropped() == before)
        log_event(LOG_INFO, "long", "%2000s", "x");
    while (strstr(output.text, "event=log_dropped") == NULL && read_packet())
        continue;
    log_stop();
    release();
    close(output.read_fd);
    if (output.before_len != PIPE_BUF)
        fail_msg("expected %d bytes in the last write of lines, got %zu", PIPE_BUF,
                 output.before_len);
}

UNIT_CASE(test_log_dropped__counts_lines_that_are_not_written)
{
    uint64_t before = log_dropped(), reported;
    struct rlock_err err;
    int captured_fd, fds[2];

    capture();
    captured_fd = dup(STDERR_FILENO);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    dup2(fds[1], STDERR_FILENO);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(log_start(&err), RLOCK_OK);
    fill(0, 10);
    for (int i = 0; i < DEADLINE_MS && log_dropped() < before + 10; i++)
        poll(NULL, 0, 1);
    dup2(captured_fd, STDERR_FILENO);
    close(captured_fd);
    fill(10, 1);
    log_stop();
    release();
    read_rest();
    assert_int_equal(count_lines(&reported), 1);
    ASSERT_NUMBER(log_dropped(), ==, before + 10);
    ASSERT_NUMBER(reported, ==, 10);
}

UNIT_CASE(test_log_start__says_why_no_thread_starts)
{
    pthread_attr_t usual, huge;
    struct rlock_err err = {0};

    pthread_getattr_default_np(&usual);
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, SIZE_MAX / 4096 * 2048);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    errno = 0;
    assert_int_equal(log_start(&err), RLOCK_NO_MEMORY);
    pthread_setattr_default_np(&usual);
    assert_string_equal(err.text,
                        "cannot start a thread: Resource temporarily unavailable");
}

static long thread_count(void)
{
    struct stat tasks;

    return stat("/proc/self/task", &tasks) == 0 ? (long)tasks.st_nlink : -1;
}

/* This test must be the last one, because log_stop() leaves the thread behind. */
UNIT_CASE(test_log_stop__does_not_wait_for_a_reader)
{
    long threads = thread_count();
    uint64_t before = log_dropped(), unread;
    struct rlock_err err;

    capture();
    if (log_start(&err) == RLOCK_OK)
        fill(0, LINES);
    log_stop();
    unread = log_dropped();
    close(output.read_fd);
    for (int i = 0; i < DEADLINE_MS && thread_count() > threads; i++)
        poll(NULL, 0, 1);
    release();
    assert_int_equal(thread_count(), threads);
    ASSERT_NUMBER(unread, >, before);
    /* Lines that the thread could not write count as dropped, too. */
    ASSERT_BETWEEN(log_dropped(), unread + 1, before + LINES);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return cases_run(NULL, NULL);
}
