/*
 * plain.c - the lock for most uses: one owner, a fencing token, and a time limit.
 *
 *   plain [REDIS_URL]
 */
#include "with_client.h"

static enum rlock_status sell(struct rlock_sync *sync, struct rlock_client *client,
                              struct rlock_err *err)
{
    struct rlock_acquire_options options = {.lease_ms = 5000, .wait_ms = 2000};
    struct rlock lock = {0};
    enum rlock_status status =
        rlock_sync_acquire(sync, client, &lock, "item:7", 6, &options, err);

    if (status != RLOCK_OK)
        return status; /* RLOCK_BUSY: another owner held it for all of wait_ms */

    /* The protected resource should refuse a token that is smaller than one it has seen. So it
       refuses an owner that was paused for longer than its lease. */
    printf("held, its token %s\n", rlock_fence(&lock) > 0 ? "is set" : "is missing");

    /* Check again right before a step that cannot be undone. */
    if (rlock_sync_safe_for_us(sync, &lock) > 1000000)
        printf("more than a second left: commit\n");

    return rlock_sync_release(sync, client, &lock, err); /* RLOCK_LOST: it expired */
}

int main(int argc, char **argv)
{
    return with_client(argc, argv, sell);
}
