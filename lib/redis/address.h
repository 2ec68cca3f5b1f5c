/* address.h - finds the numeric address of a host. Threads: the loop's only. */
#ifndef REDIS_ADDRESS_H
#define REDIS_ADDRESS_H

#include "base/attributes.h"
#include "base/err.h"

#include <stdbool.h>
#include <uv.h>

/** Whether `name` is an address itself. */
bool redis_address_is_numeric(const char *name);

/** A question under way; may not move. */
struct redis_resolver {
    uv_getaddrinfo_t request;
    bool is_running;
    unsigned attempt;
    const char *name;
    /* `ip` is NULL if there is none: `why` tells. Both are valid during the callback. */
    void (*done)(const char *ip, const struct err *why, void *arg);
    void *arg;
};

/**
 * Look up `name`, which is borrowed until `done` is called, in a thread of libuv. The
 * address is the `attempt`-th of those found, so later attempts take others.
 *
 * Returns  STATUS_OK; STATUS_IO: `done` is not called
 */
MUST_CHECK enum status redis_resolver_start(struct redis_resolver *resolver,
                                            uv_loop_t *loop, const char *name,
                                            unsigned attempt, struct err *reterr);

#endif
