/*
 * conn_guide.c - the guide, a second connection that goes to the sentinels.
 *
 * Each time the guide comes up, it asks the sentinel for the primary and for a replica that is
 * being promoted, and subscribes to +switch-master. If the connection needs another answer later,
 * the guide goes to the next sentinel, because the current sentinel may be cut off from the others.
 */
#include "base/clock.h"
#include "redis/conn_impl.h"

#include <string.h>

void redis_guide_ask(struct redis_conn *conn)
{
    struct rlock_err err = {.text = "another sentinel is asked"};

    if (conn->is_answered && conn->guide->state == CONN_UP) {
        redis_conn_leave(conn->guide, &err);
        redis_conn_wake_only_at(conn->guide, 0);
    }
    conn->state = CONN_ASKING;
    conn->attempt_deadline_us = clock_mono_us() + conn->timeout_us;
    redis_conn_wake_only_at(conn, conn->attempt_deadline_us);
}

static void conn_on_address(struct redis_command *command,
                            enum rlock_status status UNUSED,
                            const struct redis_reply *reply)
{
    struct redis_conn *conn = list_item(command, struct redis_conn, ask);
    struct redis_host host;
    struct rlock_err err = {0};

    if (reply == NULL)
        return;
    conn->is_answered = true;
    if (redis_discovery_address(reply, &host)) {
        redis_conn_go(conn, &host);
    } else if (conn->state == CONN_ASKING) {
        err_set(&err, RLOCK_IO, "the sentinel knows no primary %s", conn->url.master);
        redis_conn_lose(conn, RLOCK_IO, &err);
    }
}

/**
 * Connect to the replica that is being promoted. The sentinel that leads a failover knows this
 * replica up to a second before it names the replica as the primary. The handshake checks the role
 * of the server, so the connection comes up only after the promotion.
 */
static void conn_on_replicas(struct redis_command *command,
                             enum rlock_status status UNUSED,
                             const struct redis_reply *reply)
{
    struct redis_conn *conn = list_item(command, struct redis_conn, ask_replicas);
    struct redis_host host;

    if (conn->state != CONN_UP && redis_discovery_promoted(reply, &host))
        redis_conn_go(conn, &host);
}

static void conn_on_subscribed(struct redis_command *command UNUSED,
                               enum rlock_status status UNUSED,
                               const struct redis_reply *reply UNUSED)
{
    /* A failure needs no handling, because each failed attempt to connect asks a sentinel again. */
}

static void conn_on_switch(const struct redis_reply *message, void *arg)
{
    struct redis_conn *conn = arg;
    struct redis_host host;

    if (redis_discovery_switch(message, conn->url.master, &host))
        redis_conn_go(conn, &host);
}

static enum rlock_status send_question(struct redis_conn *conn)
{
    struct redis_conn *guide = conn->guide;
    const char *const address[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME",
                                   conn->url.master, NULL};
    const char *const replicas[] = {"SENTINEL", "REPLICAS", conn->url.master, NULL};
    const char *const subscribe[] = {"SUBSCRIBE", REDIS_SWITCH_CHANNEL, NULL};
    enum rlock_status status =
        redis_conn_words(guide, &conn->ask, conn_on_address, address);

    if (status == RLOCK_OK)
        status = redis_conn_words(guide, &conn->ask_replicas, conn_on_replicas, replicas);
    if (status == RLOCK_OK)
        status = redis_conn_words(guide, &conn->subscribe, conn_on_subscribed, subscribe);
    return status;
}

static void conn_on_guide_state(bool is_up, const struct rlock_err *why, void *arg)
{
    struct redis_conn *conn = arg;
    struct rlock_err err = {0};

    if (is_up) {
        /* If the questions could not be sent, the next attempt goes to another sentinel. */
        conn->is_answered = send_question(conn) != RLOCK_OK;
        redis_conn_flush(conn->guide);
    } else if (conn->state == CONN_ASKING) {
        err_set(&err, RLOCK_IO, "sentinel: %s", why->text);
        redis_conn_report_down(conn, &err);
    }
}

void redis_guide_options(struct redis_conn *conn, struct redis_conn_options *ret_options,
                         struct redis_url *ret_url)
{
    *ret_options = (struct redis_conn_options){
        .loop = conn->loop,
        .url = ret_url,
        .timeout_ms = (uint32_t)(conn->timeout_us / 1000),
        .on_state = conn_on_guide_state,
        .on_message = conn_on_switch,
        .arg = conn,
    };
    *ret_url = conn->url;
    /* The login of the URL is for the servers. */
    ret_url->user[0] = '\0';
    memcpy(ret_url->password, conn->url.sentinel_password, sizeof(ret_url->password));
    ret_url->db = 0;
    ret_url->topology = REDIS_ANY_SENTINEL;
}
