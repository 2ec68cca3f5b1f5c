/* notify.c - sends messages to the service manager, one datagram each. */
#include "app/cmd/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* If WATCHDOG_PID is set, the watchdog is only for the process with this id. */
static int64_t read_watchdog_us(void)
{
    const char *pid = getenv("WATCHDOG_PID");    // NOLINT(concurrency-mt-unsafe)
    const char *limit = getenv("WATCHDOG_USEC"); // NOLINT(concurrency-mt-unsafe)

    if (limit == NULL || (pid != NULL && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    return strtoll(limit, NULL, 10);
}

enum rlock_status notify_init(struct notify *notify, struct rlock_err *reterr)
{
    const char *path = getenv("NOTIFY_SOCKET"); // NOLINT(concurrency-mt-unsafe)
    struct sockaddr_un *address = &notify->address;
    size_t len;

    *notify = (struct notify){.fd = -1};
    if (path == NULL || path[0] == '\0')
        return RLOCK_OK;
    len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len >= sizeof(address->sun_path))
        return err_set(reterr, RLOCK_INVALID,
                       "NOTIFY_SOCKET: not a path or an abstract socket");
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, len);
    if (path[0] == '@')
        address->sun_path[0] = '\0'; /* an abstract socket */
    notify->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->fd < 0)
        return err_set(reterr, RLOCK_IO, "socket: %m");
    notify->watchdog_us = read_watchdog_us();
    return RLOCK_OK;
}

void notify_send(const struct notify *notify, const char *lines)
{
    if (notify->fd >= 0)
        (void)sendto(notify->fd, lines, strlen(lines), MSG_DONTWAIT,
                     (const struct sockaddr *)&notify->address, notify->address_len);
}

void notify_clear(struct notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}
