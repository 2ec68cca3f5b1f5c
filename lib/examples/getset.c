/*
 * getset.c - beside old programs that lock with SETNX and GETSET.
 *
 *   getset [REDIS_URL]
 */
#include "lock/rlock_sync.h"

#include <stdio.h>

/*
 * The value is the time of expiry by the clock of whoever took it. That names no owner
 * and trusts all clocks: use plain where nothing old shares the lock.
 */
static enum status sweep(struct rlock_sync *sync, struct rlock_client *client,
                         struct err *err)
{
    struct rlock_acquire_options how = {
        .kind = &rlock_getset, .lease_ms = 5000, .wait_ms = 2000};
    struct rlock lock = {0};
    enum status status =
        rlock_sync_acquire(sync, client, &lock, "sweep:lock", 10, &how, err);

    if (status != STATUS_OK)
        return status;
    printf("held until its time has passed\n"); /* no watchdog: be done by then */
    return rlock_sync_release(sync, client, &lock, err);
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
        status = sweep(sync, client, &err);
    if (status != STATUS_OK)
        fprintf(stderr, "getset: %s\n", err.text);
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    return status == STATUS_OK ? 0 : 1;
}
