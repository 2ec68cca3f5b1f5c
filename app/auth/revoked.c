/* revoked.c - pipelined EXISTS commands. */
#include "app/auth/revoked.h"

#include "redis/url.h"

#include <stdlib.h>
#include <string.h>

struct revoked {
    struct redis_conn *conn;
};

enum status revoked_open(uv_loop_t *loop, const char *redis_url, uint32_t timeout_ms,
                         struct revoked **ret_revoked, struct err *reterr)
{
    struct redis_url url;
    struct redis_conn_options options = {
        .loop = loop, .url = &url, .timeout_ms = timeout_ms};
    struct revoked *revoked;
    enum status status = redis_url_parse(redis_url, &url, reterr);

    if (status != STATUS_OK)
        return status;
    revoked = calloc(1, sizeof(*revoked));
    if (revoked == NULL)
        return STATUS_NO_MEMORY;
    status = redis_conn_open(&options, &revoked->conn, reterr);
    if (status == STATUS_OK)
        *ret_revoked = revoked;
    else
        free(revoked);
    return status;
}

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

enum status revoked_check(struct revoked *revoked, const char *jti,
                          struct revoked_check *check,
                          void (*done)(struct revoked_check *check, enum status status))
{
    static const char prefix[] = REVOKED_KEY_PREFIX;
    char key[sizeof(prefix) + 64]; /* a jti is bounded, see auth.h */
    enum status status = redis_conn_begin(revoked->conn, 2);

    if (status != STATUS_OK)
        return STATUS_DOWN;
    stpncpy(stpcpy(key, prefix), jti, sizeof(key) - sizeof(prefix))[0] = '\0';
    check->done = done;
    redis_conn_arg_text(revoked->conn, "EXISTS");
    redis_conn_arg_text(revoked->conn, key);
    status = redis_conn_end(revoked->conn, &check->command, revoked_on_reply);
    return status == STATUS_OK ? STATUS_OK : STATUS_DOWN;
}

void revoked_flush(struct revoked *revoked)
{
    redis_conn_flush(revoked->conn);
}

void revoked_close(struct revoked *revoked)
{
    if (revoked == NULL)
        return;
    redis_conn_close(revoked->conn, free, revoked);
}
