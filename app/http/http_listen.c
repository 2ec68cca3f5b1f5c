/* http_listen.c - binds sockets that share an address. */
#include "app/http/http.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTEN_BACKLOG 4096

static int socket_bind(const struct addrinfo *address, bool is_shared)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        (!is_shared || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0) &&
        bind(fd, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(fd, is_shared ? LISTEN_BACKLOG : 1) == 0)
        return fd;
    close(fd);
    return -1;
}

/* With SO_REUSEPORT, bind() succeeds even if another process has bound the address with this
   option. Then each process would get a part of the connections. To find such a process, a probe is
   bound first without the option. */
static bool bind_all(struct addrinfo *address, size_t count, int *ret_fds,
                     unsigned *ret_port)
{
    int probe = socket_bind(address, false);
    socklen_t len = address->ai_addrlen;
    bool is_bound = true;

    if (probe < 0)
        return false;
    /* All sockets get the port that the kernel has chosen for the probe. The port is at the same
       offset in IPv4 and IPv6 addresses. */
    getsockname(probe, address->ai_addr, &len);
    *ret_port = ntohs(((struct sockaddr_in *)(void *)address->ai_addr)->sin_port);
    close(probe);
    for (size_t i = 0; i < count; i++) {
        ret_fds[i] = socket_bind(address, true);
        is_bound = is_bound && ret_fds[i] >= 0;
    }
    for (size_t i = 0; i < count && !is_bound; i++) {
        if (ret_fds[i] >= 0)
            close(ret_fds[i]);
    }
    return is_bound;
}

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return digits > 0 && digits <= 5 && text[digits] == '\0' &&
           strtol(text, NULL, 10) <= UINT16_MAX;
}

enum rlock_status http_listen(const char *address, size_t count, int *ret_fds,
                              unsigned *ret_port, struct rlock_err *reterr)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const char *colon = strrchr(address, ':');
    char host[256];
    enum rlock_status status = RLOCK_OK;
    int failed;

    if (colon == NULL || (size_t)(colon - address) >= sizeof(host) || colon == address ||
        !is_port(colon + 1))
        return err_set(reterr, RLOCK_INVALID,
                       "\"%s\" is not an address: must be host:port, the port 0 to 65535",
                       address);
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    if (host[0] == '[' && colon[-1] == ']') {
        memmove(host, host + 1, strlen(host));
        host[strlen(host) - 1] = '\0';
    }
    failed = getaddrinfo(host, colon + 1, &hints, &found);
    if (failed != 0)
        return err_set(reterr, RLOCK_INVALID, "\"%s\" is not an address: %s", address,
                       gai_strerror(failed));
    if (!bind_all(found, count, ret_fds, ret_port))
        status = err_set(reterr, RLOCK_REFUSED, "cannot listen on %s: %m", address);
    freeaddrinfo(found);
    return status;
}
