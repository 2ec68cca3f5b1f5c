/* server.c - estimates the clock of a server from its replies, and raises its fence counter. */
#include "lock/server.h"
#include "base/clock.h"

#include <string.h>

#define AHEAD_UNKNOWN_US (INT64_MAX / 4)

static void server_on_raised(struct redis_script_call *call,
                             enum rlock_status status UNUSED,
                             const struct redis_reply *reply)
{
    struct rlock_server *server = list_item(call, struct rlock_server, raise);
    int64_t clock_us, most;

    server->is_raising = false;
    /* A refusal has no numbers. The refusal needs no handling here, because each acquire that
       needs the counter is refused, too. */
    if (redis_reply_int(redis_script_at(reply, 0), &clock_us))
        rlock_server_saw_clock(server, clock_us, server->raise_sent_us, true);
    /* A resource may have reported a fence that no counter may reach. The client forgets this
       fence, because otherwise every grant would count as stale. */
    if (redis_reply_int(redis_script_at(reply, 1), &most) && server->last_fence > most)
        server->last_fence = 0;
}

/** Raise the fence counter to the server's clock and to the greatest fence seen. */
static void raise_fence(struct rlock_server *server)
{
    if (server->is_raising)
        return;
    server->raise = (struct redis_script_call){
        .script = &server->client->scripts[RLOCK_SCRIPT_RAISE],
        .done = server_on_raised,
        /* The script is sent in full. A digest may get the error NOSCRIPT, and then the server
           would execute acquires before the counter is raised. */
        .with_body = true,
    };
    server->raise_sent_us = clock_mono_us();
    if (redis_script_begin(server->conn, &server->raise, 1, 1) != RLOCK_OK)
        return;
    redis_conn_arg(server->conn, server->waiting_key, server->fence_key_len);
    redis_conn_arg_uint(server->conn, (uint64_t)server->last_fence);
    server->is_raising = redis_script_end(server->conn, &server->raise) == RLOCK_OK;
    if (!server->is_raising)
        server->client->stats.failed++;
}

enum rlock_status
rlock_server_connect(struct rlock_server *server,
                     void (*on_state)(bool, const struct rlock_err *, void *),
                     void (*on_message)(const struct redis_reply *, void *),
                     struct redis_conn **ret_conn, struct rlock_err *reterr)
{
    const struct redis_script *rights = &server->client->scripts[RLOCK_SCRIPT_RIGHTS];
    struct redis_conn_options options = {
        .loop = server->client->loop,
        .url = &server->client->url,
        .timeout_ms = server->client->timeout_ms,
        .key = server->waiting_key,
        .rights = {.script = on_message == NULL ? rights->body : NULL,
                   .sha = rights->sha,
                   .arg = server->waiting_key},
        .sibling = server->client->servers[0].conn,
        .on_state = on_state,
        .on_message = on_message,
        .arg = server,
    };

    return redis_conn_open(&options, ret_conn, reterr);
}

void rlock_server_connected(struct rlock_server *server)
{
    server->ahead_us = AHEAD_UNKNOWN_US;
    raise_fence(server);
}

bool rlock_server_saw_fences(struct rlock_server *server, int64_t fence, unsigned count)
{
    if (fence < server->last_fence) {
        raise_fence(server);
        return false;
    }
    server->last_fence = fence + count;
    return true;
}

void rlock_raise_fences(struct rlock_client *client, int64_t above)
{
    if (rlock_client_is_inherited(client) || client->is_closing)
        return;
    for (unsigned i = 0; i < client->server_count; i++) {
        struct rlock_server *server = &client->servers[i];

        if (server->last_fence < above)
            server->last_fence = above;
        raise_fence(server);
    }
    rlock_client_wake(client);
}

void rlock_server_saw_clock(struct rlock_server *server, int64_t clock_us,
                            int64_t sent_us, bool is_wrong)
{
    /* `ahead_us` is the difference of the clocks plus the time from sending to execution, so
       the smallest value is the most exact. */
    int64_t ahead_us = clock_us - sent_us;

    if (is_wrong || ahead_us < server->ahead_us)
        server->ahead_us = ahead_us;
}

uint64_t rlock_server_latest_us(const struct rlock_server *server, int64_t sent_us)
{
    int64_t latest_us =
        server->ahead_us + sent_us + (int64_t)server->client->timeout_ms * 1000;

    return latest_us < 0 ? 0 : (uint64_t)latest_us;
}

/** Whether the error says that a script lacks a right. Redis 7.0 and later report this without an
 *  error code, and Redis 7.0 does not name the right. */
static bool is_denied_in_script(const char *text)
{
    return strstr(text, "The user executing the script can't") != NULL ||
           strstr(text, "ACL failure in script") != NULL;
}

enum rlock_refusal rlock_refusal(const struct rlock_err *err)
{
    static const struct {
        const char *code;
        enum rlock_refusal refusal;
    } codes[] = {
        {"OOM", RLOCK_REFUSED_MEMORY},      {"NOAUTH", RLOCK_REFUSED_LOGIN},
        {"WRONGPASS", RLOCK_REFUSED_LOGIN}, {"NOPERM", RLOCK_REFUSED_PERMISSION},
        {"WRONGTYPE", RLOCK_REFUSED_TYPE},  {"MISCONF", RLOCK_REFUSED_DISK},
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (redis_error_has_code(err->text, codes[i].code))
            return codes[i].refusal;
    }
    return is_denied_in_script(err->text) ? RLOCK_REFUSED_PERMISSION
                                          : RLOCK_REFUSED_OTHER;
}

static bool is_transient(const char *text)
{
    static const char *const codes[] = {
        "BUSY", "LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "ASK"};

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (redis_error_has_code(text, codes[i]))
            return true;
    }
    return false;
}

enum rlock_status rlock_server_refused(struct rlock_client *client,
                                       const struct redis_reply *error)
{
    const char *text = redis_reply_text(error, NULL);

    if (text == NULL)
        text = "no message";
    return err_set(&client->why, is_transient(text) ? RLOCK_DOWN : RLOCK_REFUSED, "%s",
                   text);
}

static bool has_word(const char *words, const char *word, size_t len)
{
    for (const char *at = words; *at != '\0'; at += at[0] == ' ') {
        size_t at_len = strcspn(at, " ");

        if (at_len == len && memcmp(at, word, len) == 0)
            return true;
        at += at_len;
    }
    return false;
}

enum rlock_status rlock_server_check_rights(struct rlock_server *server,
                                            const char *needed)
{
    const char *lacks = redis_conn_lacks(server->conn);
    struct rlock_err missing = {.status = RLOCK_OK, .text = "NOPERM the user lacks"};

    for (const char *at = needed; lacks[0] != '\0' && *at != '\0'; at += at[0] == ' ') {
        size_t len = strcspn(at, " ");
        struct rlock_err before = missing;

        if (has_word(lacks, at, len))
            err_set(&missing, RLOCK_REFUSED, "%s %.*s", before.text, (int)len, at);
        at += len;
    }
    if (missing.status != RLOCK_OK)
        server->client->why = missing;
    return missing.status;
}

enum rlock_status rlock_server_why_down(const struct rlock_server *server)
{
    enum rlock_refusal refusal = rlock_refusal(&server->client->why);
    bool is_refused =
        !redis_conn_is_up(server->conn) &&
        (refusal == RLOCK_REFUSED_LOGIN || refusal == RLOCK_REFUSED_PERMISSION);

    return is_refused ? RLOCK_REFUSED : RLOCK_DOWN;
}
