/* test_log.c - lines through the thread that writes them; a pipe is standard error. */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): pipe2, O_DIRECT
#include "app/core/log.h"
#include "test/asserts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LINE_BYTES  1100
#define LINES       5000 /* several times what the pipe and the buffers hold */
#define DEADLINE_MS 120000

static const char padding[] = "0123456789012345678901234567890123456789"
                              "0123456789012345678901234567890123456789";

static struct {
    int saved_fd, read_fd;
    char text[1 << 20];
    size_t len;
    bool is_torn; /* a read ended within a line */
} output;

/* In packet mode each read returns what one write of at most PIPE_BUF bytes has written. */
static void capture(void)
{
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC | O_DIRECT), 0);
    output.saved_fd = dup(STDERR_FILENO);
    output.read_fd = fds[0];
    output.len = 0;
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

/* False: end of file, or nothing arrives in time. */
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

/* Each line is whole, and their numbers rise. Returns how many there are. */
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
        assert_int_equal(strncmp(line, "ts=2", 4), 0);
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

static void test_log_stop__writes_the_waiting_lines(void **state UNUSED)
{
    uint64_t dropped;
    struct err err;

    capture();
    fill(0, 1); /* without the thread */
    if (log_start(&err) == STATUS_OK) {
        fill(1, 10);
        log_stop();
    }
    release();
    read_rest();
    assert_int_equal(count_lines(&dropped), 11);
    assert_int_equal(dropped, 0);
}

static void test_log_event__truncates_a_long_line(void **state UNUSED)
{
    capture();
    log_event(LOG_INFO, "long", "%2000s", "x");
    release();
    read_rest();
    if (output.len != 1024 || strchr(output.text, '\n') != output.text + 1023)
        fail_msg("expected a line of 1024 bytes, got %zu bytes, the first line of %zu",
                 output.len, strcspn(output.text, "\n") + 1);
}

static void test_log_event__drops_lines_that_nobody_reads(void **state UNUSED)
{
    uint64_t dropped, reported = 0;
    bool is_read = true;
    struct err err;

    capture();
    if (log_start(&err) == STATUS_OK)
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

static void test_log_start__says_why_no_thread_starts(void **state UNUSED)
{
    pthread_attr_t usual, huge;
    struct err err = {0};

    pthread_getattr_default_np(&usual);
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge,
                              SIZE_MAX / 4096 * 2048); /* no address space has it */
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    errno = 0;
    assert_int_equal(log_start(&err), STATUS_NO_MEMORY);
    pthread_setattr_default_np(&usual);
    assert_string_equal(err.text,
                        "cannot start a thread: Resource temporarily unavailable");
}

static long thread_count(void)
{
    struct stat tasks;

    return stat("/proc/self/task", &tasks) == 0 ? (long)tasks.st_nlink : -1;
}

/* The last case: the thread is given up. */
static void test_log_stop__does_not_wait_for_a_reader(void **state UNUSED)
{
    long threads = thread_count();
    uint64_t before = log_dropped(), unread;
    struct err err;

    capture();
    if (log_start(&err) == STATUS_OK)
        fill(0, LINES);
    log_stop();
    unread = log_dropped();
    close(output.read_fd); /* the writes fail, and the thread ends */
    for (int i = 0; i < DEADLINE_MS && thread_count() > threads; i++)
        poll(NULL, 0, 1);
    release();
    assert_int_equal(thread_count(), threads);
    ASSERT_NUMBER(unread, >, before);
    ASSERT_NUMBER(log_dropped(), >, unread); /* the lines that could not be written */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_stop__writes_the_waiting_lines),
        cmocka_unit_test(test_log_event__truncates_a_long_line),
        cmocka_unit_test(test_log_event__drops_lines_that_nobody_reads),
        cmocka_unit_test(test_log_start__says_why_no_thread_starts),
        cmocka_unit_test(test_log_stop__does_not_wait_for_a_reader),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
