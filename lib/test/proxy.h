/*
 * proxy.h - a proxy between a client and the server, on the test's own loop. It forwards
 * everything, but does a fault to the one reply that the test has chosen.
 *
 * A reply is chosen by the name of its command: the first word in lower case, or the name
 * of the script in lock/scripts.h. The messages of a subscription are called "message".
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
    PROXY_CUT_UNSENT,  /* close both sides; the server has not seen the command */
    PROXY_CUT_BEFORE,  /* close both sides; none of the reply has arrived */
    PROXY_CUT_INSIDE,  /* close both sides; half of the reply has arrived */
    PROXY_CUT_ASTRAY,  /* close the client's side; the command and all behind it wait for
                          proxy_let_go() */
    PROXY_HOLD_UNSENT, /* the command and all behind it wait for proxy_let_go() */
    PROXY_HOLD,        /* the reply and all behind it wait for proxy_let_go() */
    PROXY_DROP,        /* the reply does not arrive, those behind it do */
    PROXY_DUPLICATE,   /* the reply arrives twice */
};

#define PROXY_NAME_SIZE 24

struct proxy_plan {
    char name[PROXY_NAME_SIZE];
    unsigned passing; /* commands or replies to forward before the fault */
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
    unsigned faults; /* that have happened */
};

/** @server_url  unix:path; borrowed */
struct proxy *proxy_start(uv_loop_t *loop, const char *server_url);

/** Close all connections; its memory is freed by the loop. */
void proxy_stop(struct proxy *proxy);

/** Do `fault` once, at the `nth` reply to `name` from now, 1 for the next. */
void proxy_at(struct proxy *proxy, const char *name, unsigned nth,
              enum proxy_fault fault);

/** Do `fault` at every reply to `name` until the next call; PROXY_NONE: stop. */
void proxy_always(struct proxy *proxy, const char *name, enum proxy_fault fault);

/**
 * Forward everything from now on, and what was held: commands also if their client has
 * disconnected.
 */
void proxy_let_go(struct proxy *proxy);

#endif
