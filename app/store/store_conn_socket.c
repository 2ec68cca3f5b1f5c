/*
 * store_conn_socket.c - the socket of a connection to Postgres, its timer, and its failure.
 *
 * If sending fails, the timer handles the failure. So no callback runs before the function that
 * sends has returned to its caller.
 */
#include "app/store/store_conn_impl.h"
#include "base/backoff.h"
#include "base/random.h"

#include <stdlib.h>

#define BACKOFF_MS_MIN 40
#define BACKOFF_MS_MAX 250 /* short, because one connection at a time tries servers */

/* -- polling -- */

static void conn_on_poll_closed(uv_handle_t *handle)
{
    struct store_conn *conn = handle->data;

    free(handle);
    closing_done(&conn->closing);
}

void store_conn_stop_polling(struct store_conn *conn)
{
    if (conn->poll == NULL)
        return;
    uv_poll_stop(conn->poll);
    uv_close((uv_handle_t *)conn->poll, conn_on_poll_closed);
    conn->poll = NULL;
    conn->poll_events = 0;
}

bool store_conn_start_polling(struct store_conn *conn)
{
    uv_poll_t *poll = calloc(1, sizeof(*poll));

    if (poll == NULL || uv_poll_init(conn->options.loop, poll, PQsocket(conn->pg)) != 0) {
        free(poll);
        return false;
    }
    poll->data = conn;
    conn->poll = poll;
    closing_part(&conn->closing);
    return true;
}

void store_conn_poll_for(struct store_conn *conn, int events)
{
    if (conn->poll_events == events)
        return;
    conn->poll_events = events;
    uv_poll_start(conn->poll, events, conn->on_poll);
}

/* -- failure -- */

void store_conn_arm(struct store_conn *conn, int64_t in_us)
{
    uint64_t in_ms = in_us <= 0 ? 0 : (uint64_t)(in_us + 999) / 1000;

    uv_timer_start(&conn->timer, conn->on_timer, in_ms, 0);
}

void store_conn_drop(struct store_conn *conn)
{
    store_conn_stop_polling(conn);
    PQfinish(conn->pg);
    conn->pg = NULL;
    list_append_all(&conn->failed, &conn->pending);
    conn->broken.text[0] = '\0';
    conn->is_wait_cancelled = false;
    conn->is_committed = false;
}

/* Whether `why` comes from a server that has answered. */
static bool is_refusal(const struct rlock_err *why)
{
    return why->status != RLOCK_IO && why->status != RLOCK_TIMEOUT;
}

/* A read-only server is a standby, so the reason of any other server tells more. */
static unsigned weight_of(const struct rlock_err *why)
{
    return !is_refusal(why) ? 0 : why->status == RLOCK_BUSY ? 1 : 2;
}

void store_conn_answer_failed(struct store_conn *conn, const struct rlock_err *why)
{
    bool is_left = is_refusal(why) && why->status != RLOCK_CANCELLED;
    enum rlock_status status = is_left ? RLOCK_IO : why->status;

    LIST_DRAIN(struct store_query, query, &conn->failed, link) {
        conn->pending_count--;
        PQclear(query->result);
        query->result = NULL;
        query->done(query, status, NULL, why);
    }
}

void store_conn_fail(struct store_conn *conn, const struct rlock_err *why)
{
    struct rlock_err copy = *why;
    bool was_up = conn->state == STATE_UP, is_round_over;
    unsigned hosts = conn->host_count;
    uint32_t pause_ms = 0;

    if (conn->attempts % hosts == 0 || weight_of(why) >= weight_of(&conn->round))
        conn->round = *why;
    is_round_over = ++conn->attempts % hosts == 0;
    if (is_round_over)
        pause_ms = backoff_ms(conn->attempts / hosts - 1, BACKOFF_MS_MIN, BACKOFF_MS_MAX,
                              random_u64());
    store_conn_drop(conn);
    conn->host = (conn->host + 1) % hosts;
    conn->state = STATE_WAITING;
    store_conn_arm(conn, pause_ms * INT64_C(1000));
    if (was_up || is_round_over)
        conn->options.on_down(conn, was_up, &conn->round, conn->options.arg);
    store_conn_answer_failed(conn, &copy);
}

void store_conn_fail_io(struct store_conn *conn, const char *doing, const char *words)
{
    struct rlock_err why;

    err_set(&why, RLOCK_IO, "%s: %s", doing, words);
    store_conn_fail(conn, &why);
}

void store_conn_fail_later(struct store_conn *conn, enum rlock_status status,
                           const char *what, const char *why)
{
    if (store_conn_is_broken(conn))
        return;
    err_set(&conn->broken, status, "%s: %s", what, why);
    store_conn_arm(conn, 0);
}

bool store_conn_is_up(const struct store_conn *conn)
{
    return conn->state == STATE_UP && !store_conn_is_broken(conn);
}

/* -- sending -- */

bool store_conn_send_bare(struct store_conn *conn, enum statement statement)
{
    return PQsendQueryPrepared(conn->pg, store_statements[statement].name, 0, NULL, NULL,
                               NULL, 1) == 1;
}

void store_conn_flush(struct store_conn *conn)
{
    int left;

    if (conn->pg == NULL || conn->state < STATE_ASKING || store_conn_is_broken(conn))
        return;
    left = PQflush(conn->pg);
    if (left < 0)
        store_conn_fail_later(conn, RLOCK_IO, "send", PQerrorMessage(conn->pg));
    else
        store_conn_poll_for(conn, left > 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}
