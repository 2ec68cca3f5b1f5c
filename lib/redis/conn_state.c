/*
 * conn_state.c - the state of a connection, its timer, and its moves between servers.
 *
 * A callback may close the connection, so the state is checked again after each callback.
 */
#include "base/backoff.h"
#include "base/clock.h"
#include "base/random.h"
#include "redis/conn_impl.h"

#include <string.h>

#define PAUSE_MIN_MS   20
#define PAUSE_MAX_MS   500
#define GUIDED_MAX_MS  100 /* with sentinels, which may name a new primary soon */
#define CLUSTER_MIN_MS 100 /* in a cluster; siblings that lost a master pause together */
#define CLUSTER_MAX_MS 700
#define STEADY_US      1000000 /* a connection that was up this long ends the back-off */

bool redis_conn_is_up(const struct redis_conn *conn)
{
    return conn->state == CONN_UP && !conn->carrier->is_moving;
}

void redis_conn_wake_at(struct redis_conn *conn, int64_t at_us)
{
    if (at_us >= conn->timer_at_us)
        return;
    conn->timer_at_us = at_us;
    uv_timer_start(&conn->timer, conn->on_timer, clock_ms_until(at_us), 0);
}

void redis_conn_wake_only_at(struct redis_conn *conn, int64_t at_us)
{
    conn->timer_at_us = INT64_MAX;
    redis_conn_wake_at(conn, at_us);
}

void redis_conn_report_down(struct redis_conn *conn, const struct rlock_err *why)
{
    bool is_new = strcmp(why->text, conn->reported.text) != 0;

    conn->reported = *why;
    if (is_new && conn->on_state != NULL)
        conn->on_state(false, why, conn->arg);
}

bool redis_conn_shares_master(const struct redis_conn *conn,
                              const struct redis_conn *other)
{
    return conn->master.name[0] != '\0' && other->state < CONN_UP &&
           conn->master.port == other->master.port &&
           strcmp(conn->master.name, other->master.name) == 0;
}

static int64_t next_pause_us(struct redis_conn *conn)
{
    bool is_cluster = conn->url.topology == REDIS_CLUSTER;
    uint32_t min_ms = is_cluster ? CLUSTER_MIN_MS : PAUSE_MIN_MS;
    uint32_t max_ms = conn->url.topology == REDIS_HOSTS ? PAUSE_MAX_MS : GUIDED_MAX_MS;

    if (is_cluster)
        max_ms = CLUSTER_MAX_MS;
    return INT64_C(1000) * backoff_ms(conn->failures++, min_ms, max_ms, random_u64());
}

static bool is_pausing_with(const struct redis_conn *conn, const struct redis_conn *other)
{
    return redis_conn_shares_master(conn, other) && other->state == CONN_PAUSING &&
           !other->is_named;
}

static struct redis_conn *pausing_sibling(struct redis_conn *conn)
{
    LIST_EACH(struct redis_conn, other, &conn->siblings, siblings) {
        if (is_pausing_with(conn, other))
            return other;
    }
    return NULL;
}

/** Return when to connect again. Siblings that wait for the same master connect at the same time:
 *  after a loss, `conn` takes the time of a waiting sibling. Otherwise the waiting siblings take
 *  the time of `conn`. */
static int64_t next_attempt_us(struct redis_conn *conn, bool was_up)
{
    const struct redis_conn *pausing = was_up ? pausing_sibling(conn) : NULL;
    int64_t at_us;

    if (pausing != NULL) {
        conn->failures = pausing->failures;
        return pausing->timer_at_us;
    }
    at_us = clock_mono_us() + next_pause_us(conn);
    LIST_EACH(struct redis_conn, other, &conn->siblings, siblings) {
        if (!is_pausing_with(conn, other))
            continue;
        other->failures = conn->failures;
        redis_conn_wake_only_at(other, at_us);
    }
    return at_us;
}

static void add_reason(struct redis_conn *conn, const struct rlock_err *why)
{
    const struct redis_host *host = &conn->host;
    struct rlock_err before = conn->round;

    if (conn->url.host_count == 1)
        conn->round = *why;
    else
        err_set(&conn->round, why->status, "%s%s%s:%u: %s", before.text,
                before.text[0] == '\0' ? "" : "; ", host->name, host->port, why->text);
}

static bool advance_host(struct redis_conn *conn)
{
    conn->next_host = (conn->next_host + 1) % conn->url.host_count;
    if (++conn->tried < conn->url.host_count)
        return false;
    conn->tried = 0;
    return true;
}

void redis_conn_close_socket(struct redis_conn *conn)
{
    redis_socket_close(conn->socket);
    conn->socket = NULL;
    conn->broken.status = RLOCK_OK;
    conn->state = CONN_PAUSING;
}

void redis_conn_go_to(struct redis_conn *conn, const struct redis_host *host)
{
    redis_conn_close_socket(conn);
    conn->carrier = conn;
    conn->host = *host;
    conn->is_named = true;
    redis_conn_wake_only_at(conn, 0);
}

void redis_conn_part_siblings(struct redis_conn *conn, const struct rlock_err *why)
{
    LIST_EACH(struct redis_conn, other, &conn->siblings, siblings) {
        if (other->carrier != conn)
            continue;
        other->is_moving = why == NULL;
        redis_conn_go_to(other, &other->moved_to);
        if (why != NULL) {
            other->state = CONN_LOST;
            other->broken = *why;
        }
    }
}

void redis_conn_end_all(struct redis_conn *conn, enum rlock_status status)
{
    LIST_DRAIN(struct redis_command, command, &conn->pending, link)
        command->done(command, status, NULL);
}

void redis_conn_lose(struct redis_conn *conn, enum rlock_status status,
                     const struct rlock_err *why)
{
    int64_t now_us = clock_mono_us();
    bool was_up = conn->state == CONN_UP || conn->state == CONN_LOST;
    bool is_round_over;

    if (was_up && now_us - conn->up_since_us >= STEADY_US)
        conn->failures = 0;
    redis_conn_part_siblings(conn, why);
    redis_conn_close_socket(conn);
    conn->is_named = false;
    add_reason(conn, why);
    is_round_over = was_up;
    /* After the error MOVED the round is over, because the next host would only name the same
       master. */
    if (!was_up)
        is_round_over = advance_host(conn) || conn->moves > 0;
    conn->is_moving = conn->is_moving && !is_round_over;
    redis_conn_wake_only_at(conn, is_round_over ? next_attempt_us(conn, was_up) : 0);
    redis_conn_end_all(conn, status);
    if (conn->state == CONN_CLOSED || !is_round_over)
        return;
    redis_conn_report_down(conn, &conn->round);
    conn->round.text[0] = '\0';
}

void redis_conn_leave(struct redis_conn *conn, const struct rlock_err *why)
{
    redis_conn_lose(conn, RLOCK_IO, why);
    (void)advance_host(conn);
}

void redis_conn_move(struct redis_conn *conn)
{
    redis_conn_part_siblings(conn, NULL);
    redis_conn_go_to(conn, &conn->moved_to);
}

bool redis_conn_is_at(const struct redis_conn *conn, const struct redis_host *host)
{
    return conn->host.port == host->port && strcmp(conn->host.name, host->name) == 0;
}

void redis_conn_go(struct redis_conn *conn, const struct redis_host *host)
{
    struct rlock_err err = {0};

    if (conn->state == CONN_CLOSED || conn->state == CONN_RESOLVING ||
        ((conn->is_named || redis_conn_is_up(conn)) && redis_conn_is_at(conn, host)))
        return;
    if (conn->state == CONN_UP) {
        err_set(&err, RLOCK_IO, "the primary is now %s:%u", host->name, host->port);
        redis_conn_lose(conn->carrier, RLOCK_IO, &err);
        if (conn->state == CONN_CLOSED)
            return;
    }
    redis_conn_go_to(conn, host);
}
