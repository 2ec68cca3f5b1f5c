/*
 * notify.h - messages to the service manager (systemd, Type=notify).
 *
 * A message is one datagram of text to the socket that $NOTIFY_SOCKET names. This protocol is
 * implemented here, because libsystemd would be the largest dependency.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

#include "base/err.h"

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    int fd; /* -1: there is no service manager */
    struct sockaddr_un address;
    socklen_t address_len;
    int64_t watchdog_us; /* longest time between pings; 0: no watchdog */
};

/**
 * Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
 *
 * @notify  always set; without a manager, or on failure, notify_send() sends nothing
 *
 * Returns  RLOCK_OK, also without a manager; RLOCK_INVALID; RLOCK_IO
 * Source   sd_notify(3), sd_watchdog_enabled(3)
 */
MUST_CHECK enum rlock_status notify_init(struct notify *notify, struct rlock_err *reterr);

/** Send lines such as "READY=1". Never blocks. The message is lost if the socket is full. */
void notify_send(const struct notify *notify, const char *lines);

void notify_clear(struct notify *notify);

#endif
