/*
 * semaphore.c - at most three owners at once, each with a lease of its own.
 *
 *   semaphore [REDIS_URL]
 */
#include "with_client.h"

static enum rlock_status download(struct rlock_sync *sync, struct rlock_client *client,
                                  struct rlock_err *err)
{
    /* With rlock_fair_semaphore, permits are given in the order of arrival. */
    struct rlock_acquire_options options = {
        .kind = &rlock_semaphore, .permits = 3, .lease_ms = 5000, .wait_ms = 2000};
    struct rlock_sync_info info = {0};
    struct rlock permits[3] = {0};
    enum rlock_status status = RLOCK_OK;

    for (int i = 0; i < 3 && status == RLOCK_OK; i++)
        status =
            rlock_sync_acquire(sync, client, &permits[i], "mirror", 6, &options, err);
    if (status == RLOCK_OK)
        status = rlock_sync_inspect(sync, client, "mirror", 6, &info, err);
    printf("%lld of 3 permits are in use\n", (long long)info.count);
    for (int i = 0; i < 3 && status == RLOCK_OK; i++)
        status = rlock_sync_release(sync, client, &permits[i], err);
    return status; /* after a failure, the permits end with their leases */
}

int main(int argc, char **argv)
{
    return with_client(argc, argv, download);
}
