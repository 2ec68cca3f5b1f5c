/* revoked.c - pipelined EXISTS commands. */
#include "app/auth/revoked.h"

#include <string.h>

static void revoked_on_reply(struct redis_command *command, enum status status,
                             const struct redis_reply *reply)
{
    struct revoked_check *check = list_item(command, struct revoked_check, command);
    int64_t found = 0;

    /* an error reply says nothing about the token */
    if (status == STATUS_REFUSED || !redis_reply_int(reply, &found))
        status = status == STATUS_TIMEOUT ? STATUS_TIMEOUT : STATUS_IO;
    else if (found != 0)
        status = STATUS_REFUSED;
    check->done(check, status);
}

enum status revoked_check(struct redis_conn *conn, const char *jti,
                          struct revoked_check *check,
                          void (*done)(struct revoked_check *check, enum status status))
{
    static const char prefix[] = REVOKED_KEY_PREFIX;
    char key[sizeof(prefix) + 64]; /* a jti is bounded, see auth.h */

    if (redis_conn_begin(conn, 2) != STATUS_OK)
        return STATUS_DOWN;
    stpncpy(stpcpy(key, prefix), jti, sizeof(key) - sizeof(prefix))[0] = '\0';
    check->done = done;
    redis_conn_arg_text(conn, "EXISTS");
    redis_conn_arg_text(conn, key);
    return redis_conn_end(conn, &check->command, revoked_on_reply) == STATUS_OK
               ? STATUS_OK
               : STATUS_DOWN;
}
