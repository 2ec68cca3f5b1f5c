/*
 * fair.c - waiters are served in the order of their arrival, across machines.
 *
 *   fair [REDIS_URL]
 */
#include "with_client.h"

static enum rlock_status print(struct rlock_sync *sync, struct rlock_client *client,
                               struct rlock_err *err)
{
    struct rlock_acquire_options options = {
        .kind = &rlock_fair, .lease_ms = 5000, .wait_ms = 10000};
    struct rlock lock = {0};
    enum rlock_status status =
        rlock_sync_acquire(sync, client, &lock, "printer", 7, &options, err);

    if (status != RLOCK_OK)
        return status; /* RLOCK_BUSY: our turn did not come within ten seconds */
    printf("our turn\n");
    return rlock_sync_release(sync, client, &lock, err); /* wakes the next waiter */
}

int main(int argc, char **argv)
{
    return with_client(argc, argv, print);
}
