/*
 * rwlock.c - many readers or one writer, and a resource that checks their fences. The writer
 * becomes a reader, and so reads what it has written.
 *
 *   rwlock [REDIS_URL]
 */
#include "with_client.h"

/** The protected resource. It refuses a stale fence, because the lease of its owner has ended. */
static struct {
    int64_t written, seen; /* the greatest fence of a write, and of any request */
    int price;
} catalog = {.price = 1};

static bool read_price(int64_t fence, int *ret_price)
{
    if (fence < catalog.written)
        return false; /* the lease of this reader has ended */
    if (catalog.seen < fence)
        catalog.seen = fence;
    *ret_price = catalog.price;
    return true;
}

static bool write_price(int64_t fence, int price)
{
    if (fence < catalog.seen)
        return false;
    catalog.written = catalog.seen = fence;
    catalog.price = price;
    return true;
}

static enum rlock_status change(struct rlock_sync *sync, struct rlock_client *client,
                                struct rlock_err *err)
{
    struct rlock_acquire_options options = {.lease_ms = 5000, .wait_ms = 2000};
    struct rlock write = {0}, read = {0};
    int price = 0;
    enum rlock_status status;

    options.kind = &rlock_write;
    status = rlock_sync_acquire(sync, client, &write, "catalog", 7, &options, err);
    if (status != RLOCK_OK)
        return status;
    if (write_price(rlock_fence(&write), 2))
        printf("written\n");

    options.kind = &rlock_read;
    status = rlock_sync_acquire(sync, client, &read, "catalog", 7, &options, err);
    if (status != RLOCK_OK)
        return status;
    status = rlock_sync_release(sync, client, &write, err);
    if (status != RLOCK_OK)
        return status;
    if (read_price(rlock_fence(&read), &price))
        printf("the price is %d\n", price);
    return rlock_sync_release(sync, client, &read, err);
}

int main(int argc, char **argv)
{
    return with_client(argc, argv, change);
}
