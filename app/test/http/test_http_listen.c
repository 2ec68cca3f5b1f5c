/* test_http_listen.c - which addresses are accepted, the options of the sockets, and no socket. */
#include "app/http/http.h"
#include "test/case_list.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define INVALID "is not an address: must be host:port, the port 0 to 65535"

static int option_of(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    assert_int_equal(getsockopt(fd, SOL_SOCKET, name, &value, &len), 0);
    return value;
}

static unsigned port_of(int fd)
{
    struct sockaddr_in6 address = {0};
    socklen_t len = sizeof(address);

    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    return ntohs(address.sin6_port);
}

static int open_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

UNIT_CASE(test_listen__refuses_what_is_no_address)
{
    static const char *const rows[] = {
        "",
        "127.0.0.1",
        ":80",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:65536",
        "127.0.0.1:000001",
        "127.0.0.1:-1",
        "127.0.0.1:1x",
        "[::1]",
    };
    struct rlock_err err;
    unsigned port = 7;
    int fd = -1;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        err = (struct rlock_err){0};
        if (http_listen(rows[i], 1, &fd, &port, &err) != RLOCK_INVALID ||
            strstr(err.text, INVALID) == NULL)
            fail_msg("\"%s\": %s", rows[i], err.text);
    }
    err = (struct rlock_err){0};
    ASSERT_STATUS(http_listen("127.0.0.256:0", 1, &fd, &port, &err), RLOCK_INVALID);
    ASSERT_CONTAINS(err.text, "\"127.0.0.256:0\" is not an address: ");
    assert_int_equal(fd, -1);
    assert_int_equal(port, 7);
}

UNIT_CASE(test_listen__binds_sockets_that_share_a_port)
{
    int fds[4] = {-1, -1, -1, -1}, other = -1, before;
    unsigned port = 0, other_port = 0;
    char address[40];
    struct rlock_err err = {0};

    ASSERT_STATUS(http_listen("127.0.0.1:0", 3, fds, &port, &err), RLOCK_OK);
    assert_int_equal(fds[3], -1);
    ASSERT_BETWEEN(port, 1, 65535);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(port_of(fds[i]), port);
        assert_int_equal(option_of(fds[i], SO_TYPE), SOCK_STREAM);
        assert_int_equal(option_of(fds[i], SO_ACCEPTCONN), 1);
        assert_int_equal(option_of(fds[i], SO_REUSEADDR), 1);
        assert_int_equal(option_of(fds[i], SO_REUSEPORT), 1);
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        assert_int_equal(fcntl(fds[i], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    }
    /* another process whose sockets had this option would get a part of the connections */
    before = open_descriptors();
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    ASSERT_STATUS(http_listen(address, 1, &other, &other_port, &err), RLOCK_REFUSED);
    ASSERT_CONTAINS(err.text, "cannot listen on 127.0.0.1:");
    ASSERT_CONTAINS(err.text, "Address already in use");
    assert_int_equal(open_descriptors(), before);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    ASSERT_STATUS(http_listen(address, 1, fds, &other_port, &err), RLOCK_OK);
    assert_int_equal(other_port, port);
    close(fds[0]);
    ASSERT_STATUS(http_listen("192.0.2.1:0", 1, fds, &port, &err), RLOCK_REFUSED);
}

UNIT_CASE(test_listen__closes_its_sockets_if_descriptors_are_short)
{
    /* The call must not close the fourth descriptor of `fds`, which is standard input. */
    int fds[4] = {-1, -1, -1, 0}, before = open_descriptors(), lowest = dup(0);
    struct rlimit limit, low;
    unsigned port = 0;

    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = (struct rlimit){(rlim_t)lowest + 2, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    ASSERT_STATUS(http_listen("127.0.0.1:0", 3, fds, &port, NULL), RLOCK_REFUSED);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(open_descriptors(), before);
}

/* Listens on 127.1.2.34. Zeros in front of the numbers make the host `len` bytes long. */
static enum rlock_status listen_to_long_host(size_t len)
{
    static const char end[] = "7f.1.2.34:0";
    char address[300] = "0x";
    unsigned port = 0;
    int fd = -1;
    enum rlock_status status;

    memset(address + 2, '0', len - 2);
    memcpy(address + len + 2 - (sizeof(end) - 1), end, sizeof(end));
    status = http_listen(address, 1, &fd, &port, NULL);
    if (status == RLOCK_OK)
        close(fd);
    return status;
}

UNIT_CASE(test_listen__takes_a_host_of_255_bytes)
{
    ASSERT_STATUS(listen_to_long_host(255), RLOCK_OK);
    ASSERT_STATUS(listen_to_long_host(256), RLOCK_INVALID);
}

UNIT_CASE(test_listen__takes_an_address_in_brackets)
{
    static const char *const rows[] = {"[::1]:0", "[::ffff:127.0.0.1]:0",
                                       "127.0.0.1:65535"};
    struct rlock_err err = {0};
    unsigned port = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int fd = -1;

        if (http_listen(rows[i], 1, &fd, &port, &err) == RLOCK_INVALID)
            fail_msg("%s: expected that it is an address, got: %s", rows[i], err.text);
        if (fd >= 0)
            close(fd);
    }
    ASSERT_STATUS(http_listen("[127.0.0.10:0", 1, &(int){-1}, &port, &err),
                  RLOCK_INVALID);
    ASSERT_STATUS(http_listen("127.0.0.1]:0", 1, &(int){-1}, &port, &err), RLOCK_INVALID);
}

static int listening_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        int listens = 0;
        socklen_t len = sizeof(listens);

        (void)getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len);
        count += listens;
    }
    return count;
}

UNIT_CASE(test_start__of_a_server_that_listens_nowhere)
{
    uv_loop_t loop;
    const struct http_options options = {.loop = &loop,
                                         .listen_fd = HTTP_LISTENS_NOWHERE};
    struct http *http = NULL;

    uv_loop_init(&loop);
    ASSERT_STATUS(http_start(&options, &http, NULL), RLOCK_OK);
    assert_int_equal(listening_descriptors(), 0);
    http_turn(http);
    http_quiesce(http);
    http_stop(http);
    uv_run(&loop, UV_RUN_DEFAULT);
    http_free(http);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
