/*
 * pooler.h - whether a pooler gives the server process of an idle session to other clients; private
 * to the store.
 *
 * PgBouncer in transaction mode takes the server process away after each transaction. Settings,
 * LISTEN, advisory locks and prepared statements then belong to the client that gets the process
 * next. No function of libpq and no message of the pooler tells the mode. So other, short
 * connections ask which server process they get.
 */
#ifndef POOLER_H
#define POOLER_H

#include "app/store/database_url.h"

#include <stdint.h>
#include <uv.h>

#define POOLER_ASK "select pg_backend_pid()::bigint"

struct pooler_check {
    /* set by the caller: */
    const char *database_url; /* borrowed until `done` */
    struct database_host target;
    int64_t pid; /* the server process of the idle session */
    uint32_t timeout_ms;
    void (*done)(struct pooler_check *check);
    void *arg;
    /* the result; false also if the connections did not answer in time: */
    bool is_shared; /* another connection got this process */
    /* used by pooler.c: */
    uv_work_t work;
};

/** Ask in a thread of libuv. Then `done` is called on the loop, even if the check is cancelled.
 *  Returns 0, or an error of libuv if `done` will not be called. */
int pooler_check_start(struct pooler_check *check, uv_loop_t *loop);

void pooler_check_cancel(struct pooler_check *check);

#endif
