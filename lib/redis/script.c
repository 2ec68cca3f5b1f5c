/* script.c - EVALSHA, and EVAL where that is not known. */
#include "redis/script.h"

#include <string.h>

void redis_script_init(struct redis_script *script, const char *name, const char *body)
{
    script->name = name;
    script->body = body;
    redis_sha1_hex(body, strlen(body), script->sha);
}

enum status redis_script_begin(struct redis_conn *conn, struct redis_script_call *call,
                               size_t key_count, size_t arg_count)
{
    enum status status = redis_conn_begin(conn, 3 + key_count + arg_count);

    if (status != STATUS_OK)
        return status;
    if (call->with_body) {
        redis_conn_arg(conn, "EVAL", 4);
        redis_conn_arg_text(conn, call->script->body);
    } else {
        redis_conn_arg(conn, "EVALSHA", 7);
        redis_conn_arg(conn, call->script->sha, REDIS_SHA1_HEX_LEN);
    }
    redis_conn_arg_uint(conn, key_count);
    return STATUS_OK;
}

static bool is_unknown_script(const struct redis_reply *error)
{
    size_t len;
    const char *text = redis_reply_text(error, &len);

    return text != NULL && strncmp(text, "NOSCRIPT", 8) == 0;
}

static void on_done(struct redis_command *command, enum status status,
                    const struct redis_reply *reply)
{
    struct redis_script_call *call =
        list_item(command, struct redis_script_call, command);

    if (status == STATUS_REFUSED && !call->with_body && is_unknown_script(reply)) {
        call->with_body = true;
        call->send_again(call);
        return;
    }
    call->done(call, status, reply);
}

enum status redis_script_end(struct redis_conn *conn, struct redis_script_call *call)
{
    return redis_conn_end(conn, &call->command, on_done);
}
