/*
 * script.h - Lua scripts in the server, called by their digest.
 *
 * A call goes out as EVALSHA. Where the server does not know the script (its first use,
 * a restart, SCRIPT FLUSH) the same call goes out again as EVAL, which also teaches the
 * server the script; the caller sees neither.
 */
#ifndef REDIS_SCRIPT_H
#define REDIS_SCRIPT_H

#include "redis/conn.h"
#include "redis/sha1.h"

struct redis_script {
    const char *name; /* for messages */
    const char *body; /* static */
    char sha[REDIS_SHA1_HEX_LEN + 1];
};

struct redis_script_call;

/** As redis_command_cb, but STATUS_REFUSED is never NOSCRIPT. */
typedef void (*redis_script_cb)(struct redis_script_call *call, enum status status,
                                const struct redis_reply *reply);

/** In the caller's memory, untouched until it is answered but for what is said here. */
struct redis_script_call {
    struct redis_command command;
    const struct redis_script *script;
    redis_script_cb done;
    /* Called once if the server does not know the script: begin, write and end the call
       again, and flush; where that fails, end the call by own means. */
    void (*send_again)(struct redis_script_call *call);
    bool with_body; /* false before the first sending, unless it must not come again */
};

void redis_script_init(struct redis_script *script, const char *name, const char *body);

/**
 * Begin `call`, whose fields are set; write `key_count` keys and `arg_count` arguments
 * with redis_conn_arg(), then redis_script_end().
 *
 * Returns  as redis_conn_begin()
 */
MUST_CHECK enum status redis_script_begin(struct redis_conn *conn,
                                          struct redis_script_call *call,
                                          size_t key_count, size_t arg_count);

/** As redis_conn_end(). */
MUST_CHECK enum status redis_script_end(struct redis_conn *conn,
                                        struct redis_script_call *call);

#endif
