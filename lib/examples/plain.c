/*
 * plain.c - the lock for most uses: one holder, its token, and the time it has.
 *
 *   plain [REDIS_URL]
 */
#include "lock/rlock_sync.h"

#include <stdio.h>

static enum status sell(struct rlock_sync *sync, struct rlock_client *client,
                        struct err *err)
{
    struct rlock_acquire_options how = {.lease_ms = 5000, .wait_ms = 2000};
    struct rlock lock = {0};
    enum status status = rlock_sync_acquire(sync, client, &lock, "item:7", 6, &how, err);

    if (status != STATUS_OK)
        return status; /* STATUS_BUSY: another had it all the time */

    /* Whatever the lock protects should refuse a token below one it has seen: that stops
       a holder that was paused for longer than its lease and does not know it. */
    printf("held, its token %s\n", rlock_fence(&lock) > 0 ? "is set" : "is missing");

    /* Look again right before what cannot be undone. */
    if (rlock_sync_safe_for_us(sync, &lock) > 1000000)
        printf("more than a second left: commit\n");

    return rlock_sync_release(sync, client, &lock, err); /* STATUS_LOST: it had lapsed */
}

int main(int argc, char **argv)
{
    struct rlock_client_options where = {
        .redis_url = argc > 1 ? argv[1] : "redis://127.0.0.1", .timeout_ms = 1000};
    struct rlock_sync *sync = NULL;
    struct rlock_client *client = NULL;
    struct err err = {0};
    enum status status = rlock_sync_start(&sync, &err);

    if (status == STATUS_OK)
        status = rlock_sync_open(sync, &where, &client, &err);
    if (status == STATUS_OK)
        status = sell(sync, client, &err);
    if (status != STATUS_OK)
        fprintf(stderr, "plain: %s\n", err.text);
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    return status == STATUS_OK ? 0 : 1;
}
