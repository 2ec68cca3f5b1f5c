/* it_log.c - standard error that nobody reads, and descriptors that the caller closed. */
#include "app/test/fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int setup(void **state)
{
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

/* A service whose standard error is a pipe, and the end of the pipe to read from. */
struct piped {
    struct service *service;
    int read_fd;
    char text[1 << 17]; /* the whole lines that were read last; a pipe holds no more */
};

static void serve_into_pipe(struct fixture *fixture, struct piped *piped)
{
    const char *const env[] = {"SECKILL_LOG_LEVEL=debug", NULL};

    piped->service = fixture_serve(fixture, NULL); /* for its address */
    service_kill(piped->service);
    snprintf(piped->service->log_path, sizeof(piped->service->log_path), "%s/log.%u",
             fixture->dir, (unsigned)piped->service->address.port);
    assert_int_equal(mkfifo(piped->service->log_path, 0600), 0);
    piped->read_fd = open(piped->service->log_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(piped->read_fd >= 0);
    service_respawn(fixture, piped->service, env);
    service_await(piped->service, "/readyz", 200);
}

/* The service logs a line for each request. */
static bool has_dropped_lines(void *arg)
{
    static const char name[] = "\nseckill_log_dropped_total ";
    const struct piped *piped = arg;
    const char *value;

    for (int i = 0; i < 100; i++)
        EXPECT(request(piped->service, NULL, NULL, "GET /nothing"), 404, "not_found");
    value = strstr(request(piped->service, NULL, NULL, "GET /metrics")->body, name);
    assert_non_null(value);
    return value[sizeof(name) - 1] != '0';
}

static bool is_drop_reported(void *arg)
{
    struct piped *piped = arg;
    ssize_t len = read(piped->read_fd, piped->text, sizeof(piped->text) - 1);

    piped->text[len > 0 ? len : 0] = '\0';
    return strstr(piped->text, "level=warn event=log_dropped lines=") != NULL;
}

static void test_log__that_nobody_reads_stops_nothing(void **state)
{
    static struct piped piped;

    serve_into_pipe(*state, &piped);
    AWAIT(has_dropped_lines, &piped);
    AWAIT(is_drop_reported, &piped);
    assert_int_equal(service_stop(piped.service), 0);
    close(piped.read_fd);
}

/* -- descriptors -- */

static void test_main__opens_the_standard_descriptors(void **state)
{
    struct fixture *fixture = *state;
    struct service *service;
    char program[sizeof(fixture->program)], script[128];
    FILE *file;

    snprintf(program, sizeof(program), "%s", fixture->program);
    snprintf(script, sizeof(script), "%s/closed.sh", fixture->dir);
    file = fopen(script, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\nexec '%s' \"$@\" <&- >&- 2>&-\n", program);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(script, 0700), 0);

    snprintf(fixture->program, sizeof(fixture->program), "%s", script);
    service = fixture_spawn(fixture, NULL);
    snprintf(fixture->program, sizeof(fixture->program), "%s", program);
    service_await(service, "/readyz", 200);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)service->pid, fd);
        assert_true(readlink(path, target, sizeof(target) - 1) > 0);
        assert_string_equal(target, "/dev/null");
    }
    assert_int_equal(service_stop(service), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_log__that_nobody_reads_stops_nothing),
        CASE(test_main__opens_the_standard_descriptors),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
