/* test_notify.c - messages to the service manager's socket, and the settings of its watchdog. */
#include "app/cmd/notify.h"
#include "test/case_list.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// NOLINTBEGIN(concurrency-mt-unsafe): no threads in this program
static int clear_environment(void **state UNUSED)
{
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return 0;
}

#define CASE(name) DEFINE_CASE(name, name, NULL, clear_environment, NULL)

/* Asserts that messages reach the socket `name`, which is the value of NOTIFY_SOCKET. `first` is
   the first byte of the socket's address, which is NUL for an abstract socket. */
static void assert_reached(const char *name, char first)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    int manager_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct notify notify;
    char received[16] = "";

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", name);
    address.sun_path[0] = first;
    assert_return_code(bind(manager_fd, (const struct sockaddr *)&address, len), 0);
    setenv("NOTIFY_SOCKET", name, 1);
    ASSERT_STATUS(notify_init(&notify, NULL), RLOCK_OK);
    assert_int_equal(fcntl(notify.fd, F_GETFD), FD_CLOEXEC);
    for (int i = 0; i < 1000; i++) /* more messages than the socket keeps */
        notify_send(&notify, "READY=1");
    notify_clear(&notify);
    assert_int_equal(notify.fd, -1);
    assert_int_equal(recv(manager_fd, received, sizeof(received), MSG_DONTWAIT), 7);
    assert_string_equal(received, "READY=1");
    close(manager_fd);
}

CASE(test_notify_send__reaches_a_path_and_an_abstract_socket)
{
    char dir[] = "/tmp/test_notify.XXXXXX", name[60];

    assert_non_null(mkdtemp(dir));
    snprintf(name, sizeof(name), "%s/socket", dir);
    assert_reached(name, '/');
    unlink(name);
    rmdir(dir);
    snprintf(name, sizeof(name), "@seckill-test-%d", getpid());
    assert_reached(name, '\0');
}

CASE(test_notify_init__without_a_manager)
{
    struct notify notify;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(notify_init(&notify, NULL), RLOCK_OK);
        assert_false(notify.fd >= 0);
        notify_send(&notify, "READY=1");
        notify_clear(&notify);
        setenv("NOTIFY_SOCKET", "", 1);
    }
}

CASE(test_notify_init__refuses_invalid_names)
{
    /* the NUL at the end is one byte too many */
    char too_long[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];
    const char *const rows[] = {"relative", "vsock:2:1", too_long};
    struct notify notify;
    struct rlock_err err = {0};

    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[0] = '/';
    too_long[sizeof(too_long) - 1] = '\0';
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setenv("NOTIFY_SOCKET", rows[i], 1);
        assert_int_equal(notify_init(&notify, &err), RLOCK_INVALID);
        assert_false(notify.fd >= 0);
    }
}

static int64_t watchdog_us_of(const char *limit, const char *pid)
{
    struct notify notify;
    int64_t watchdog_us;

    clear_environment(NULL);
    setenv("NOTIFY_SOCKET", "@nobody", 1);
    setenv("WATCHDOG_USEC", limit, 1);
    if (pid != NULL)
        setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(notify_init(&notify, NULL), RLOCK_OK);
    watchdog_us = notify.watchdog_us;
    notify_clear(&notify);
    return watchdog_us;
}

CASE(test_notify_init__reads_its_watchdog)
{
    char own[16];

    snprintf(own, sizeof(own), "%d", getpid());
    assert_int_equal(watchdog_us_of("5000", NULL), 5000);
    assert_int_equal(watchdog_us_of("5000", own), 5000);
    assert_int_equal(watchdog_us_of("5000", "1"), 0);
}
// NOLINTEND(concurrency-mt-unsafe)

int main(void)
{
    return cases_run(clear_environment, NULL);
}
