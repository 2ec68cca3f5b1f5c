/*
 * multi.c - several locks at once: all of them or none.
 *
 *   multi [REDIS_URL]
 */
#include "with_client.h"

static enum rlock_status move(struct rlock_sync *sync, struct rlock_client *client,
                              struct rlock_err *err)
{
    /* The order of the members does not matter: a group that waits holds no lock, so there is no
       deadlock. */
    struct rlock_member members[] = {
        {.client = client, .name = "shelf:1", .name_len = 7},
        {.client = client, .name = "shelf:2", .name_len = 7},
    };
    struct rlock_group_options options = {.watchdog = true, .wait_ms = 3000};
    struct rlock_group *both = NULL;
    enum rlock_status status =
        rlock_sync_group_create(sync, members, 2, RLOCK_GROUP_ALL, &both, err);

    if (status == RLOCK_OK)
        status = rlock_sync_group_acquire(sync, both, &options, err);
    if (status == RLOCK_OK) {
        printf("both shelves are ours\n");
        status = rlock_sync_group_release(sync, both, err);
    }
    rlock_sync_group_free(sync, both);
    return status;
}

int main(int argc, char **argv)
{
    return with_client(argc, argv, move);
}
