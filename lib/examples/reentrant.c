/*
 * reentrant.c - a holder may take the lock again; Redisson in Java understands it.
 *
 *   reentrant [REDIS_URL]
 */
#include "lock/rlock_sync.h"

#include <stdio.h>

static enum status take(struct rlock_sync *sync, struct rlock_client *client,
                        struct rlock *lock, struct err *err)
{
    /* The holder is this thread; a watched lock is renewed until it is released. */
    struct rlock_acquire_options how = {.kind = &rlock_reentrant,
                                        .holder = rlock_sync_holder(),
                                        .watchdog = true,
                                        .wait_ms = 2000};

    return rlock_sync_acquire(sync, client, lock, "account:7", 9, &how, err);
}

static enum status transfer(struct rlock_sync *sync, struct rlock_client *client,
                            struct err *err)
{
    struct rlock outer = {0}, inner = {0}; /* one per grant */
    struct rlock_sync_info info = {0};
    enum status status = take(sync, client, &outer, err);

    if (status != STATUS_OK)
        return status;
    status = take(sync, client, &inner, err); /* by a function that was called, say */
    if (status == STATUS_OK)
        status = rlock_sync_inspect(sync, client, "account:7", 9, &info, err);
    if (status == STATUS_OK)
        status = rlock_sync_release(sync, client, &inner, err);
    printf("held %lld times\n", (long long)info.count);
    if (status != STATUS_OK)
        return status; /* the outer one ends with its client */
    return rlock_sync_release(sync, client, &outer, err);
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
        status = transfer(sync, client, &err);
    if (status != STATUS_OK)
        fprintf(stderr, "reentrant: %s\n", err.text);
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    return status == STATUS_OK ? 0 : 1;
}
