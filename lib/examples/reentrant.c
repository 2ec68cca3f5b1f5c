/*
 * reentrant.c - a holder may acquire the lock again; compatible with Redisson in Java.
 *
 *   reentrant [REDIS_URL]
 */
#include "with_client.h"

static enum rlock_status acquire(struct rlock_sync *sync, struct rlock_client *client,
                                 struct rlock *lock, struct rlock_err *err)
{
    /* The holder is this thread. The watchdog renews the lease until the release. */
    struct rlock_acquire_options options = {.kind = &rlock_reentrant,
                                            .holder = rlock_sync_holder(),
                                            .watchdog = true,
                                            .wait_ms = 2000};

    return rlock_sync_acquire(sync, client, lock, "account:7", 9, &options, err);
}

static enum rlock_status transfer(struct rlock_sync *sync, struct rlock_client *client,
                                  struct rlock_err *err)
{
    struct rlock outer = {0}, inner = {0}; /* one per grant */
    struct rlock_sync_info info = {0};
    enum rlock_status status = acquire(sync, client, &outer, err);

    if (status != RLOCK_OK)
        return status;
    status = acquire(sync, client, &inner, err); /* a nested function might do this */
    if (status == RLOCK_OK)
        status = rlock_sync_inspect(sync, client, "account:7", 9, &info, err);
    if (status == RLOCK_OK)
        status = rlock_sync_release(sync, client, &inner, err);
    printf("held %lld times\n", (long long)info.count);
    if (status != RLOCK_OK)
        return status; /* the outer grant ends with its lease */
    return rlock_sync_release(sync, client, &outer, err);
}

int main(int argc, char **argv)
{
    return with_client(argc, argv, transfer);
}
