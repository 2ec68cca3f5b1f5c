/*
 * script.h - Lua scripts in the server, called by their digest.
 *
 * A call is sent as EVALSHA. If the server does not have the script (first use, restart,
 * SCRIPT FLUSH), the same call is sent again as EVAL, which also stores the script.
 *
 * Replies carry no id, only an order. If something between the client and the server loses
 * or repeats a reply, every later call gets the reply of its neighbour, and a lock that
 * another owner holds seems granted. Therefore each call carries a number that the script
 * returns; on a mismatch the connection is closed and the outcome of the call is unknown.
 */
#ifndef REDIS_SCRIPT_H
#define REDIS_SCRIPT_H

#include "redis/conn.h"

struct redis_script {
    const char *name;     /* for messages */
    const char *body;     /* static; the result begins with the last ARGV, the number of
                             the call: {number, ...} or "number ..." */
    char sha[2 * 20 + 1]; /* SHA-1 of the body, in hex */
};

struct redis_script_call;

/** Like redis_command_cb, but RLOCK_REFUSED is never NOSCRIPT. redis_script_at() and
 *  redis_script_text() read `reply`. */
typedef void (*redis_script_cb)(struct redis_script_call *call, enum rlock_status status,
                                const struct redis_reply *reply);

/** A call, in the caller's memory. The call may not move until it has ended. */
struct redis_script_call {
    struct redis_command command;
    const struct redis_script *script;
    redis_script_cb done;
    /* Called once if the server does not have the script. The callback must begin, write
       and end the call again, and flush. If that fails, `done` is not called. */
    void (*send_again)(struct redis_script_call *call);
    bool with_body;  /* send the script itself, so that no second call is needed */
    uint64_t number; /* set by script.c */
};

void redis_script_init(struct redis_script *script, const char *name, const char *body);

/**
 * Begin `call`, whose fields are set. Then write `key_count` keys and `arg_count`
 * arguments with redis_conn_arg(), and call redis_script_end().
 *
 * Returns  as redis_conn_begin()
 */
MUST_CHECK enum rlock_status redis_script_begin(struct redis_conn *conn,
                                                struct redis_script_call *call,
                                                size_t key_count, size_t arg_count);

/** Return element `index` of the array that the script returned; NULL: there is no such element. */
const struct redis_reply *redis_script_at(const struct redis_reply *reply, size_t index);

/** Return the NUL-terminated string that the script returned; NULL: it returned none. */
const char *redis_script_text(const struct redis_reply *reply, size_t *ret_len);

/** End the call, like redis_conn_end(). */
MUST_CHECK enum rlock_status redis_script_end(struct redis_conn *conn,
                                              struct redis_script_call *call);

#endif
