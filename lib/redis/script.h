/*
 * script.h - Lua scripts in the server, called by their digest.
 *
 * A call goes out as EVALSHA. Where the server does not know the script (its first use,
 * a restart, SCRIPT FLUSH) the same call goes out again as EVAL, which also teaches the
 * server the script; the caller sees neither.
 *
 * Replies have no names on the wire, only an order. Something between us and the server
 * that loses or doubles one would give every call the reply of its neighbour: a lock that
 * is another's would seem granted. So each call carries a number, which the script brings
 * back; where that is not so the connection is dropped and the outcome is unknown.
 */
#ifndef REDIS_SCRIPT_H
#define REDIS_SCRIPT_H

#include "redis/conn.h"
#include "redis/sha1.h"

struct redis_script {
    const char *name; /* for messages */
    const char *body; /* static; the last ARGV is the number of the call, which it brings
                         back: {number, ...} or "number ..." */
    char sha[REDIS_SHA1_HEX_LEN + 1];
};

struct redis_script_call;

/** As redis_command_cb, but STATUS_REFUSED is never NOSCRIPT, and what the script
   returned is to be had from `reply` by the two functions below. */
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
    struct redis_conn *conn; /* this and the number: the module's own */
    uint64_t number;
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

/** The `index`-th element of the array that a script returned; NULL when there is none.
 */
const struct redis_reply *redis_script_at(const struct redis_reply *reply, size_t index);

/** The string that a script returned, NUL behind it; else NULL. */
const char *redis_script_text(const struct redis_reply *reply, size_t *ret_len);

/** As redis_conn_end(). */
MUST_CHECK enum status redis_script_end(struct redis_conn *conn,
                                        struct redis_script_call *call);

#endif
