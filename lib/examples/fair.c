/*
 * fair.c - who waits is served in the order of arrival, on any machine.
 *
 *   fair [REDIS_URL]
 */
#include "lock/rlock_sync.h"

#include <stdio.h>

static enum status print(struct rlock_sync *sync, struct rlock_client *client,
                         struct err *err)
{
    struct rlock_acquire_options how = {
        .kind = &rlock_fair, .lease_ms = 5000, .wait_ms = 10000};
    struct rlock lock = {0};
    enum status status = rlock_sync_acquire(sync, client, &lock, "printer", 7, &how, err);

    if (status != STATUS_OK)
        return status; /* STATUS_BUSY: our turn did not come in ten seconds */
    printf("our turn\n");
    return rlock_sync_release(sync, client, &lock, err); /* calls the next in line */
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
        status = print(sync, client, &err);
    if (status != STATUS_OK)
        fprintf(stderr, "fair: %s\n", err.text);
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    return status == STATUS_OK ? 0 : 1;
}
