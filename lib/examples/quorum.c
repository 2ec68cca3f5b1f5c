/*
 * quorum.c - one lock on several independent servers; most of them must grant it.
 *
 *   quorum REDIS_URL REDIS_URL REDIS_URL...
 */
#include "lock/rlock_sync.h"

#include <stdio.h>

#define SERVERS_MAX 9

static enum rlock_status elect(struct rlock_sync *sync,
                               const struct rlock_member *members, size_t count,
                               struct rlock_err *err)
{
    struct rlock_group_options options = {.lease_ms = 5000, .wait_ms = 3000};
    struct rlock_group *quorum = NULL;
    enum rlock_status status =
        rlock_sync_group_create(sync, members, count, RLOCK_GROUP_MAJORITY, &quorum, err);

    if (status == RLOCK_OK)
        status = rlock_sync_group_acquire(sync, quorum, &options, err);
    if (status == RLOCK_OK) {
        /* Tokens of different servers cannot be compared, so check the remaining time instead. */
        if (rlock_sync_group_safe_for_us(sync, quorum) > 1000000)
            printf("elected for more than a second\n");
        status = rlock_sync_group_release(sync, quorum, err);
    }
    rlock_sync_group_free(sync, quorum);
    return status;
}

int main(int argc, char **argv)
{
    struct rlock_member members[SERVERS_MAX];
    size_t count = argc <= SERVERS_MAX ? (size_t)argc - 1 : SERVERS_MAX;
    struct rlock_sync *sync = NULL;
    struct rlock_err err = {0};
    enum rlock_status status = rlock_sync_start(&sync, &err);

    /* RLOCK_DOWN means that the server is unreachable. The client exists, and keeps trying. */
    for (size_t i = 0; i < count && status == RLOCK_OK; i++) {
        struct rlock_client_options options = {.redis_url = argv[i + 1],
                                               .timeout_ms = 200};

        members[i] = (struct rlock_member){.name = "leader", .name_len = 6};
        status = rlock_sync_open(sync, &options, &members[i].client, &err);
        if (status == RLOCK_DOWN)
            status = RLOCK_OK;
    }
    if (status == RLOCK_OK)
        status = elect(sync, members, count, &err);
    if (status != RLOCK_OK)
        fprintf(stderr, "quorum: %s\n", err.text);
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    return status == RLOCK_OK ? 0 : 1;
}
