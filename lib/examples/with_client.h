/* with_client.h - opens a client, runs an example with it, and cleans up. */
#ifndef WITH_CLIENT_H
#define WITH_CLIENT_H

#include "lock/rlock_sync.h"

#include <stdio.h>

typedef enum rlock_status (*example)(struct rlock_sync *sync, struct rlock_client *client,
                                     struct rlock_err *err);

/** The body of main(). `argv[1]` may be the URL of a Redis server. */
static inline int with_client(int argc, char **argv, example run)
{
    struct rlock_client_options options = {
        .redis_url = argc > 1 ? argv[1] : "redis://127.0.0.1", .timeout_ms = 5000};
    struct rlock_sync *sync = NULL;
    struct rlock_client *client = NULL;
    struct rlock_err err = {0};
    enum rlock_status status = rlock_sync_start(&sync, &err);

    if (status == RLOCK_OK)
        status = rlock_sync_open(sync, &options, &client, &err);
    if (status == RLOCK_OK)
        status = run(sync, client, &err);
    if (status != RLOCK_OK)
        fprintf(stderr, "%s\n", err.text);
    rlock_sync_close(sync); /* closes the client, too */
    rlock_sync_free(sync);
    return status == RLOCK_OK ? 0 : 1;
}

#endif
