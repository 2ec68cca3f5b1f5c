/*
 * notify.h - what a service manager (systemd, Type=notify) is told: ready, alive, ending.
 *
 * The protocol is a line of text in a datagram to the socket that $NOTIFY_SOCKET names;
 * its few lines stand here rather than libsystemd, which would be the largest library of
 * all.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    int fd; /* -1: nobody wants to know */
    struct sockaddr_un address;
    socklen_t address_len;
    int64_t watchdog_us; /* the manager ends who is silent for so long; 0: it does not */
};

/**
 * Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
 *
 * @notify  set in any case; without a manager, or on failure, to one that sends nothing
 *
 * Returns  STATUS_OK, also without a manager; STATUS_INVALID, STATUS_IO
 * Source   sd_notify(3), sd_watchdog_enabled(3)
 */
MUST_CHECK enum status notify_init(struct notify *notify, struct err *reterr);

bool notify_is_wanted(const struct notify *notify);

/** Send lines such as "READY=1". Never waits: a manager that does not read misses it. */
void notify_send(const struct notify *notify, const char *lines);

void notify_clear(struct notify *notify);

#endif
