/*
 * sync.c - blocking threads share one connection.
 *
 *   sync [REDIS_URL]
 */
#include "with_client.h"

#include <pthread.h>

#define THREADS 4
#define STEPS   100

struct shared {
    struct rlock_sync *sync;
    struct rlock_client *client;
    long counter; /* not atomic: the lock protects it */
};

static void *count(void *arg)
{
    struct shared *shared = arg;
    struct rlock_acquire_options options = {.watchdog = true,
                                            .wait_ms = RLOCK_WAIT_FOREVER};

    for (int i = 0; i < STEPS; i++) {
        struct rlock lock = {0};

        if (rlock_sync_acquire(shared->sync, shared->client, &lock, "counter", 7,
                               &options, NULL) != RLOCK_OK)
            continue;
        shared->counter++;
        if (rlock_sync_release(shared->sync, shared->client, &lock, NULL) != RLOCK_OK)
            fprintf(stderr, "sync: the lock was lost\n");
    }
    return NULL;
}

static enum rlock_status count_together(struct rlock_sync *sync,
                                        struct rlock_client *client,
                                        struct rlock_err *err)
{
    struct shared shared = {.sync = sync, .client = client};
    pthread_t threads[THREADS];
    int started = 0;

    while (started < THREADS &&
           pthread_create(&threads[started], NULL, count, &shared) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    printf("%d threads counted to %ld\n", started, shared.counter);
    if (started < THREADS) {
        snprintf(err->text, sizeof(err->text), "cannot start %d threads", THREADS);
        return RLOCK_IO;
    }
    return RLOCK_OK;
}

int main(int argc, char **argv)
{
    return with_client(argc, argv, count_together);
}
