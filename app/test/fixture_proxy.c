/* fixture_proxy.c - see fixture_proxy.h. One poll() waits for all sockets; writes block. */
#include "app/test/fixture_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIRS_MAX 64

struct relay {
    int listen_fd;
    struct sockaddr_in server;
    int *drops;
    int fds[PAIRS_MAX][2]; /* the sockets of the client and of the server; -1: free */
};

static void pair_close(struct relay *relay, size_t i)
{
    for (int side = 0; side < 2; side++) {
        if (relay->fds[i][side] >= 0)
            close(relay->fds[i][side]);
        relay->fds[i][side] = -1;
    }
}

static void relay_accept(struct relay *relay)
{
    int client = accept(relay->listen_fd, NULL, NULL);
    size_t i = 0;

    while (i < PAIRS_MAX && relay->fds[i][0] >= 0)
        i++;
    if (client < 0 || i == PAIRS_MAX) {
        close(client);
        return;
    }
    relay->fds[i][0] = client;
    relay->fds[i][1] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(relay->fds[i][1], (struct sockaddr *)&relay->server,
                sizeof(relay->server)) != 0)
        pair_close(relay, i);
}

static bool write_all(int fd, const char *bytes, ssize_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, (size_t)len, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        bytes += sent;
        len -= sent;
    }
    return true;
}

static bool is_dropped(struct relay *relay, int side)
{
    if (side == 0 || __atomic_load_n(relay->drops, __ATOMIC_SEQ_CST) <= 0)
        return false;
    __atomic_sub_fetch(relay->drops, 1, __ATOMIC_SEQ_CST);
    return true;
}

static void relay_pass(struct relay *relay, size_t i, int side)
{
    char bytes[65536];
    ssize_t got = recv(relay->fds[i][side], bytes, sizeof(bytes), 0);

    if (got <= 0 || is_dropped(relay, side) ||
        !write_all(relay->fds[i][1 - side], bytes, got))
        pair_close(relay, i);
}

static void relay_turn(struct relay *relay)
{
    struct pollfd pollers[2 * PAIRS_MAX + 1];

    for (size_t k = 0; k < (size_t)2 * PAIRS_MAX; k++)
        pollers[k] = (struct pollfd){.fd = relay->fds[k / 2][k % 2], .events = POLLIN};
    pollers[(size_t)2 * PAIRS_MAX] =
        (struct pollfd){.fd = relay->listen_fd, .events = POLLIN};
    if (poll(pollers, COUNT_OF(pollers), -1) <= 0)
        return;
    for (size_t k = 0; k < (size_t)2 * PAIRS_MAX; k++)
        if (pollers[k].revents != 0 && relay->fds[k / 2][k % 2] == pollers[k].fd)
            relay_pass(relay, k / 2, (int)(k % 2));
    if (pollers[(size_t)2 * PAIRS_MAX].revents != 0)
        relay_accept(relay);
}

static int listen_somewhere(unsigned *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

void proxy_start(struct proxy *proxy, const char *url, char *ret_url, size_t size)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    const char *port = strrchr(url, ':') + 1;
    unsigned our_port;

    assert_non_null(relay);
    relay->server.sin_family = AF_INET;
    relay->server.sin_port = htons((uint16_t)strtol(port, NULL, 10));
    relay->server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    relay->listen_fd = listen_somewhere(&our_port);
    relay->drops = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(relay->drops, MAP_FAILED);
    memset(relay->fds, -1, sizeof(relay->fds));
    snprintf(ret_url, size, "%.*s%u%s", (int)(port - url), url, our_port,
             strchr(port, '/'));
    proxy->drops = relay->drops;
    fflush(NULL);
    proxy->pid = fork();
    if (proxy->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            relay_turn(relay);
    }
    close(relay->listen_fd);
    free(relay);
}

void proxy_stop(struct proxy *proxy)
{
    if (proxy->pid <= 0)
        return;
    kill(proxy->pid, SIGKILL);
    waitpid(proxy->pid, NULL, 0);
    munmap(proxy->drops, sizeof(int));
    *proxy = (struct proxy){0};
}

void proxy_drop(struct proxy *proxy, int count)
{
    __atomic_store_n(proxy->drops, count, __ATOMIC_SEQ_CST);
}
