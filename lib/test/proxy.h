/*
 * proxy.h - a proxy between a client and the server, on the test's own loop.
 *
 * The proxy forwards everything, but does a fault to the one command or reply that the test has
 * chosen. The test chooses by the name of the command: its first word in lower case, or the name of
 * the script in lock/scripts.h. The messages of a subscription are called "message".
 */
#ifndef TEST_PROXY_H
#define TEST_PROXY_H

#include "base/list.h"
#include "lock/scripts.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum proxy_fault {
    PROXY_NONE,
    PROXY_CUT_UNSENT, /* close both sides; the server has not seen the command */
    PROXY_CUT_BEFORE, /* close both sides; none of the reply has arrived */
    PROXY_CUT_INSIDE, /* close both sides; half of the reply has arrived */
    /* Close the client's side. The command and all commands behind it wait for proxy_let_go(). */
    PROXY_CUT_ASTRAY,
    PROXY_HOLD_UNSENT, /* the command and all behind it wait for proxy_let_go() */
    PROXY_HOLD,        /* the reply and all replies behind it wait for proxy_let_go() */
    PROXY_DROP,        /* the reply does not arrive; the replies behind it do */
    PROXY_DUPLICATE,   /* the reply arrives twice */
};

#define PROXY_NAME_SIZE 24

struct proxy_plan {
    char name[PROXY_NAME_SIZE];
    /* number of commands or replies of this name that are forwarded before the fault */
    unsigned passing;
    bool is_lasting;
    enum proxy_fault fault;
};

struct proxy {
    uv_pipe_t listener;
    char url[96];
    const char *target; /* the path of the server's socket */
    struct rlock_link links;
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    struct proxy_plan plan;
    unsigned connections;
    unsigned faults;
};

/** @server_url  unix:path; borrowed */
struct proxy *proxy_start(uv_loop_t *loop, const char *server_url);

/** Close all connections. The loop frees the memory of the proxy. */
void proxy_stop(struct proxy *proxy);

/** Do `fault` once, at the `nth` command `name` from now or the reply to it. 1 is the next one. */
void proxy_at(struct proxy *proxy, const char *name, unsigned nth,
              enum proxy_fault fault);

/** Do `fault` at every command `name` or at every reply to it, until the next call of this
 *  function or of proxy_at(). PROXY_NONE ends the faults. */
void proxy_always(struct proxy *proxy, const char *name, enum proxy_fault fault);

/** From now on forward everything, also what was held back. Commands that were held back are
 *  forwarded even if their client has disconnected. */
void proxy_let_go(struct proxy *proxy);

#endif
