/*
 * store_conn.h - one non-blocking connection to Postgres on a libuv loop; private to the
 * store.
 *
 * Prepared statements in pipeline mode: calls leave in the order of store_conn_send() and
 * are answered in it, each a transaction of its own, answered after its commit. The
 * connection opens itself, and opens itself again after a failure, with back-off.
 */
#ifndef STORE_CONN_H
#define STORE_CONN_H

#include "app/store/store_codec.h"
#include "base/attributes.h"
#include "base/err.h"
#include "base/list.h"

#include <libpq-fe.h>
#include <uv.h>

/* How many calls that each wait until the server gives up on them fit in one deadline:
   the server gives up after timeout_ms / (this + 1). */
#define STORE_CONN_DEPTH 2

struct store_conn;

struct store_statement {
    const char *name;
    const char *sql;
};

/** An expected answer, in memory of the caller. */
struct store_call {
    struct list link;
    int64_t deadline_us; /* clock_mono_us() */
    /**
     * Called once, never from inside store_conn_send() or store_conn_flush().
     *
     * @status  OK, IO, TIMEOUT, BUSY, REFUSED, CANCELLED as store.h tells
     * @result  valid during the call; NULL unless the server answered
     * @why     not NULL unless `status` is STATUS_OK
     */
    void (*done)(struct store_call *call, enum status status, const PGresult *result,
                 const struct err *why);
};

/** A server process, told from a later one with the same pid by its start. */
struct store_backend {
    int64_t pid;
    int64_t start_us;
};

struct store_conn_options {
    uv_loop_t *loop;
    const char *database_url; /* borrowed until the connection is closed */
    uint32_t timeout_ms;      /* per call, and for connecting */
    const struct store_statement *statements; /* ends with a NULL name */
    const char *listen;                       /* a channel, or NULL */
    void (*on_up)(struct store_conn *conn, void *arg);
    /* Once per failed attempt to connect, and when an established connection fails:
       before its calls are answered; `was_up` tells which. */
    void (*on_down)(struct store_conn *conn, bool was_up, const struct err *why,
                    void *arg);
    void (*on_notify)(const char *payload, void *arg); /* may be NULL */
    void *arg;
};

MUST_CHECK enum status store_conn_open(const struct store_conn_options *options,
                                       struct store_conn **ret_conn);

/** Answers all with STATUS_CANCELLED; `closed` is called when the loop has let go. */
void store_conn_close(struct store_conn *conn, void (*closed)(void *arg), void *arg);

bool store_conn_is_up(const struct store_conn *conn);

/** Calls sent and not answered. */
unsigned store_conn_pending(const struct store_conn *conn);

/** The server process of the connection that is up, or that just failed in on_down. */
struct store_backend store_conn_backend(const struct store_conn *conn);

/**
 * @statement  index into the options' statements
 * @params     copied
 *
 * Returns  false: not connected, nothing was sent, `call` is not taken
 */
MUST_CHECK bool store_conn_send(struct store_conn *conn, struct store_call *call,
                                unsigned statement, const struct store_params *params);

void store_conn_flush(struct store_conn *conn);

#endif
