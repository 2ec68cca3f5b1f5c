/*
 * multi.c - several locks at once: all of them or none.
 *
 *   multi [REDIS_URL]
 */
#include "lock/rlock_sync.h"

#include <stdio.h>

static enum status move(struct rlock_sync *sync, struct rlock_client *client,
                        struct err *err)
{
    /* In any order: who is waiting holds none, so nobody can block another for ever. */
    struct rlock_member members[] = {{client, "shelf:1", 7}, {client, "shelf:2", 7}};
    struct rlock_group_options how = {.watchdog = true, .wait_ms = 3000};
    struct rlock_group *both = NULL;
    enum status status =
        rlock_sync_group_create(sync, members, 2, RLOCK_GROUP_ALL, &both, err);

    if (status == STATUS_OK)
        status = rlock_sync_group_acquire(sync, both, &how, err);
    if (status == STATUS_OK) {
        printf("both shelves are ours\n");
        status = rlock_sync_group_release(sync, both, err);
    }
    rlock_sync_group_free(sync, both);
    return status;
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
        status = move(sync, client, &err);
    if (status != STATUS_OK)
        fprintf(stderr, "multi: %s\n", err.text);
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    return status == STATUS_OK ? 0 : 1;
}
