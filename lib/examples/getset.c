/*
 * getset.c - shares a lock with old programs that use SETNX and GETSET.
 *
 *   getset [REDIS_URL]
 */
#include "with_client.h"

/*
 * The value of the key is the end of the lease by the owner's clock. The value names no owner, and
 * all clocks must agree. So use rlock_plain unless an old program shares the lock.
 */
static enum rlock_status sweep(struct rlock_sync *sync, struct rlock_client *client,
                               struct rlock_err *err)
{
    struct rlock_acquire_options options = {
        .kind = &rlock_getset, .lease_ms = 5000, .wait_ms = 2000};
    struct rlock lock = {0};
    enum rlock_status status =
        rlock_sync_acquire(sync, client, &lock, "sweep:lock", 10, &options, err);

    if (status != RLOCK_OK)
        return status;
    printf("held until its time has passed\n"); /* the watchdog cannot renew this kind */
    return rlock_sync_release(sync, client, &lock, err);
}

int main(int argc, char **argv)
{
    return with_client(argc, argv, sweep);
}
