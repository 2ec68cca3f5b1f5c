/* it_notify.c - the messages that the service manager receives, and when. */
#include "app/test/fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define WATCHDOG_US "400000" /* a ping every 0.1 s */
#define SILENCE_MS  1000

static int socket_fd;   /* the socket of the service manager */
static int messages[2]; /* a socket pair: from `reader` to the test */
static pthread_t reader;
static char notify_socket[128];

/* A datagram socket keeps ten datagrams; the service drops further ones. Therefore this thread
   reads all the time, also while the test waits for something else. */
static void *read_messages(void *arg UNUSED)
{
    char lines[256];
    ssize_t len;

    while ((len = recv(socket_fd, lines, sizeof(lines), 0)) > 0)
        send(messages[0], lines, (size_t)len, 0);
    return NULL;
}

static void open_manager(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int len = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
                       "seckill-it-%d", getpid());

    snprintf(notify_socket, sizeof(notify_socket), "NOTIFY_SOCKET=@%s",
             address.sun_path + 1);
    socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_return_code(
        bind(socket_fd, (const struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)len),
        0);
    assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, messages),
                       0);
    assert_int_equal(pthread_create(&reader, NULL, read_messages, NULL), 0);
}

static int setup(void **state)
{
    open_manager();
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    int bad = fixture_close(*state);

    shutdown(socket_fd, SHUT_RDWR);
    pthread_join(reader, NULL);
    close(socket_fd);
    close(messages[0]);
    close(messages[1]);
    return bad;
}

static int mend(void **state)
{
    fixture_mend(*state, "redis");
    return fixture_end_test(state);
}

/* The next datagram; NULL when none comes in time. */
static const char *receive(int timeout_ms)
{
    static char lines[256];
    struct pollfd poll_fd = {.fd = messages[1], .events = POLLIN};
    ssize_t len;

    if (poll(&poll_fd, 1, timeout_ms) != 1)
        return NULL;
    len = recv(messages[1], lines, sizeof(lines) - 1, 0);
    assert_true(len > 0);
    lines[len] = '\0';
    return lines;
}

static void discard_received(void)
{
    while (receive(0) != NULL)
        continue;
}

/* Wait until `lines` arrives. Before it only pings and the missing dependency may arrive. */
static void await_lines(const char *lines)
{
    const char *message;

    while ((message = receive(DEADLINE_MS)) != NULL && strcmp(message, lines) != 0)
        if (strstr(message, " is down") == NULL)
            assert_string_equal(message, "WATCHDOG=1");
    assert_non_null(message);
}

static struct service *spawn(struct fixture *fixture)
{
    discard_received();
    return fixture_spawn(fixture,
                         (const char *[]){notify_socket, "WATCHDOG_USEC=" WATCHDOG_US,
                                          "SECKILL_WORKERS=1", NULL});
}

static void test_notify__ready_when_readyz_is_200(void **state)
{
    struct service *service;

    fixture_servers(*state, "stop", "redis");
    service = spawn(*state);
    await_lines("STATUS=Redis is down");
    EXPECT(request(service, NULL, NULL, "GET /readyz"), 503, NULL);
    for (int i = 0; i < 5; i++)
        await_lines("WATCHDOG=1");
    fixture_mend(*state, "redis");
    await_lines("READY=1\nSTATUS=serving");
    EXPECT(request(service, NULL, NULL, "GET /readyz"), 200, NULL);
    fixture_servers(*state, "stop", "redis");
    await_lines("STATUS=Redis is down");
}

static bool is_loop(const char *task)
{
    char path[96], name[16] = "";
    FILE *comm;

    snprintf(path, sizeof(path), "%s/comm", task);
    comm = fopen(path, "re");
    if (comm == NULL)
        return false;
    if (fgets(name, sizeof(name), comm) == NULL)
        name[0] = '\0';
    fclose(comm);
    return strcmp(name, "loop 0\n") == 0;
}

/* The thread id of the only loop. */
static pid_t find_loop(pid_t pid)
{
    char task[64];

    /* thread ids follow the process id */
    for (pid_t tid = pid + 1; tid < pid + 1000; tid++) {
        snprintf(task, sizeof(task), "/proc/%d/task/%d", pid, tid);
        if (is_loop(task))
            return tid;
    }
    fail_msg("no thread is called loop 0");
    return 0;
}

static void test_notify__no_ping_while_a_loop_hangs(void **state)
{
    struct service *service = spawn(*state);
    int pings = 0;
    pid_t loop;

    await_lines("READY=1\nSTATUS=serving");
    loop = find_loop(service->pid);
    assert_return_code(ptrace(PTRACE_SEIZE, loop, NULL, NULL), 0);
    assert_return_code(ptrace(PTRACE_INTERRUPT, loop, NULL, NULL), 0);
    assert_int_equal(waitpid(loop, NULL, __WALL), loop);
    discard_received();
    while (pings < 10 && receive(SILENCE_MS) != NULL)
        pings++;
    /* Detach before an assertion can fail, because a traced thread outlives its process. */
    assert_return_code(ptrace(PTRACE_DETACH, loop, NULL, NULL), 0);
    assert_in_range(pings, 0, 2); /* from checks that had begun */
    await_lines("WATCHDOG=1");
}

/* A missing manager or an invalid socket name does not stop the service. */
static void test_notify__without_a_manager(void **state)
{
    struct service *service =
        fixture_serve(*state, (const char *[]){"NOTIFY_SOCKET=/nowhere/at/all", NULL});

    assert_int_equal(service_stop(service), 0);
    service = fixture_serve(*state, (const char *[]){"NOTIFY_SOCKET=vsock:2:1", NULL});
    assert_int_equal(service_stop(service), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_notify__ready_when_readyz_is_200, mend),
        CASE(test_notify__no_ping_while_a_loop_hangs),
        CASE(test_notify__without_a_manager),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
