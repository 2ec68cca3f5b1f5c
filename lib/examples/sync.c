/*
 * sync.c - threads that block share one connection.
 *
 *   sync [REDIS_URL]
 */
#include "lock/rlock_sync.h"

#include <pthread.h>
#include <stdio.h>

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
    struct rlock_acquire_options how = {.watchdog = true, .wait_ms = RLOCK_WAIT_FOREVER};

    for (int i = 0; i < STEPS; i++) {
        struct rlock lock = {0};

        if (rlock_sync_acquire(shared->sync, shared->client, &lock, "counter", 7, &how,
                               NULL) != STATUS_OK)
            continue;
        shared->counter++;
        if (rlock_sync_release(shared->sync, shared->client, &lock, NULL) != STATUS_OK)
            fprintf(stderr, "sync: it was not ours any more\n");
    }
    return NULL;
}

static void count_together(struct rlock_sync *sync, struct rlock_client *client)
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
}

int main(int argc, char **argv)
{
    struct rlock_client_options where = {
        .redis_url = argc > 1 ? argv[1] : "redis://127.0.0.1", .timeout_ms = 1000};
    struct rlock_sync *sync = NULL;
    struct rlock_client *client = NULL;
    struct err err = {0};
    enum status status = rlock_sync_start(&sync, &err);

    if (status == STATUS_OK)
        status = rlock_sync_open(sync, &where, &client, &err);
    if (status == STATUS_OK)
        count_together(sync, client);
    if (status != STATUS_OK)
        fprintf(stderr, "sync: %s\n", err.text);
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    return status == STATUS_OK ? 0 : 1;
}
