/*
 * script.h - Lua scripts in the server, called by their digest.
 *
 * A call is sent as EVALSHA. If the server does not have the script (first use, restart, SCRIPT
 * FLUSH), the same call is sent again as EVAL, which also stores the script.
 *
 * A reply has no id: it belongs to the oldest command that has no reply. If something between the
 * client and the server loses or repeats a reply, every later call gets the reply to another call,
 * and a lock that another owner holds seems granted. Therefore each call carries a number, and the
 * script returns this number. If the numbers differ, the connection is closed, and the outcome of
 * the call is unknown.
 */
#ifndef REDIS_SCRIPT_H
#define REDIS_SCRIPT_H

#include "redis/conn.h"

struct redis_script {
    const char *name; /* for messages */
    /* The source of the script, a static string. The last ARGV is the number of the call, and
       the result must begin with it: {number, ...} or "number ...". */
    const char *body;
    char sha[2 * 20 + 1];
};

struct redis_script_call;

/** Like redis_command_cb, but the error is never NOSCRIPT, because such a call is sent again.
 *  redis_script_at() and redis_script_text() read `reply`. */
typedef void (*redis_script_cb)(struct redis_script_call *call, enum rlock_status status,
                                const struct redis_reply *reply);

/** A call, in the caller's memory. The call may not move until it has ended. */
struct redis_script_call {
    struct redis_command command;
    const struct redis_script *script;
    redis_script_cb done;
    /* Called once if the server does not have the script. The callback must begin, write and end
       the call again, and flush the connection. If the callback fails, `done` is not called. */
    void (*send_again)(struct redis_script_call *call);
    /* send the script instead of its digest, so the server need not have it */
    bool with_body;
    uint64_t number; /* set by script.c */
};

void redis_script_init(struct redis_script *script, const char *name, const char *body);

/**
 * Begin `call`. The caller must have set its fields `script`, `done`, `send_again` and `with_body`.
 * Then the caller writes `key_count` keys and `arg_count` arguments with redis_conn_arg(), and
 * calls redis_script_end().
 *
 * Returns  the same as redis_conn_begin()
 */
MUST_CHECK enum rlock_status redis_script_begin(struct redis_conn *conn,
                                                struct redis_script_call *call,
                                                size_t key_count, size_t arg_count);

/** Return element `index` of the array that the script returned, or NULL if there is no such
 *  element. */
const struct redis_reply *redis_script_at(const struct redis_reply *reply, size_t index);

/** Return the string that the script returned, followed by a NUL. The result is NULL if the
 *  script returned no string. */
const char *redis_script_text(const struct redis_reply *reply, size_t *ret_len);

MUST_CHECK enum rlock_status redis_script_end(struct redis_conn *conn,
                                              struct redis_script_call *call);

#endif
