/* script.c - EVALSHA, and EVAL if the server does not have the script. */
#include "redis/script.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

void redis_script_init(struct redis_script *script, const char *name, const char *body)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char digest[SHA_DIGEST_LENGTH] = {0};

    *script = (struct redis_script){.name = name, .body = body};
    (void)SHA1((const unsigned char *)body, strlen(body), digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        script->sha[2 * i] = hex[digest[i] >> 4];
        script->sha[2 * i + 1] = hex[digest[i] & 15];
    }
}

enum rlock_status redis_script_begin(struct redis_conn *conn,
                                     struct redis_script_call *call, size_t key_count,
                                     size_t arg_count)
{
    enum rlock_status status = redis_conn_begin(conn, 4 + key_count + arg_count);

    if (status != RLOCK_OK)
        return status;
    if (call->with_body) {
        redis_conn_arg(conn, "EVAL", 4);
        redis_conn_arg_text(conn, call->script->body);
    } else {
        redis_conn_arg(conn, "EVALSHA", 7);
        redis_conn_arg_text(conn, call->script->sha);
    }
    redis_conn_arg_uint(conn, key_count);
    call->number = redis_conn_unique_number(conn);
    return RLOCK_OK;
}

static bool is_unknown_script(const struct redis_reply *error)
{
    const char *text = redis_reply_text(error, NULL);

    return text != NULL && strncmp(text, "NOSCRIPT", 8) == 0;
}

/** Whether the reply can belong to this call. A result must begin with the number of the call.
 *  An error has no number, so every error is accepted, with one exception: a call that contains
 *  the script cannot get NOSCRIPT. */
static bool is_ours(const struct redis_script_call *call, enum rlock_status status,
                    const struct redis_reply *reply)
{
    const struct redis_reply *first = redis_reply_at(reply, 0);
    const char *number = redis_reply_text(first == NULL ? reply : first, NULL);

    if (status == RLOCK_OK)
        return number != NULL && strtoull(number, NULL, 10) == call->number;
    return !is_unknown_script(reply);
}

static void script_on_reply(struct redis_command *command, enum rlock_status status,
                            const struct redis_reply *reply)
{
    struct redis_script_call *call =
        list_item(command, struct redis_script_call, command);

    if (status == RLOCK_REFUSED && !call->with_body && is_unknown_script(reply)) {
        call->with_body = true;
        call->send_again(call);
        return;
    }
    if (!is_ours(call, status, reply)) {
        redis_conn_report_mismatch(command->conn);
        status = RLOCK_IO;
        reply = NULL;
    }
    call->done(call, status, reply);
}

const struct redis_reply *redis_script_at(const struct redis_reply *reply, size_t index)
{
    return redis_reply_at(reply, index + 1);
}

const char *redis_script_text(const struct redis_reply *reply, size_t *ret_len)
{
    size_t len = 0;
    const char *text = redis_reply_text(reply, &len);
    const char *blank = text == NULL ? NULL : memchr(text, ' ', len);

    if (blank == NULL)
        return NULL;
    *ret_len = len - (size_t)(blank + 1 - text);
    return blank + 1;
}

enum rlock_status redis_script_end(struct redis_conn *conn,
                                   struct redis_script_call *call)
{
    redis_conn_arg_uint(conn, call->number);
    return redis_conn_end(conn, &call->command, script_on_reply);
}
