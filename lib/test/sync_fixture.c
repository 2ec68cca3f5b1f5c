/* sync_fixture.c - a struct rlock_sync per test, and threads that use it. */
#include "test/sync_fixture.h"
#include "base/clock.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

static pthread_t running[SYNC_WORKERS_MAX];
static unsigned running_count;

struct rlock_client *sync_fixture_client(struct sync_fixture *fixture)
{
    struct rlock_client_options options = {.redis_url = fixture->server->unix_url,
                                           .timeout_ms = TIMEOUT_MS};
    struct rlock_client *client = NULL;
    struct err err = {0};

    if (rlock_sync_open(fixture->sync, &options, &client, &err) != STATUS_OK)
        fail_msg("rlock_sync_open: %s", err.text);
    return client;
}

int sync_fixture_setup(void **state)
{
    struct sync_fixture *fixture = calloc(1, sizeof(*fixture));

    case_begin(state);
    fixture->server = fixture_empty_server();
    assert_int_equal(rlock_sync_start(&fixture->sync, NULL), STATUS_OK);
    fixture->client = sync_fixture_client(fixture);
    *state = fixture;
    return 0;
}

int sync_fixture_teardown(void **state)
{
    struct sync_fixture *fixture = *state;

    (void)case_end();
    rlock_sync_close(fixture->sync);
    while (running_count > 0) /* only after a failure: their calls are answered now */
        pthread_join(running[--running_count], NULL);
    rlock_sync_free(fixture->sync);
    free(fixture);
    return 0;
}

static void *run(void *arg)
{
    struct sync_worker *worker = arg;
    int64_t begin_us = clock_mono_us();

    worker->work(worker);
    worker->took_ms = (clock_mono_us() - begin_us) / 1000;
    return NULL;
}

void sync_begin(struct sync_fixture *fixture, struct sync_worker *workers, unsigned count,
                void (*work)(struct sync_worker *worker))
{
    for (unsigned i = 0; i < count; i++) {
        workers[i].fixture = fixture;
        workers[i].index = i;
        workers[i].work = work;
        ASSERT_NUMBER(running_count, <, SYNC_WORKERS_MAX);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
        running[running_count++] = workers[i].thread;
    }
}

static void join(pthread_t thread)
{
    unsigned kept = 0;

    pthread_join(thread, NULL);
    for (unsigned i = 0; i < running_count; i++) {
        if (!pthread_equal(running[i], thread))
            running[kept++] = running[i];
    }
    running_count = kept;
}

unsigned sync_end(struct sync_worker *workers, unsigned count)
{
    unsigned failures = 0;

    for (unsigned i = 0; i < count; i++) {
        join(workers[i].thread);
        failures += workers[i].failures;
    }
    return failures;
}

enum status sync_acquire(struct sync_fixture *fixture, struct rlock *lock,
                         const char *name, uint32_t wait_ms)
{
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS, .wait_ms = wait_ms};

    return rlock_sync_acquire(fixture->sync, fixture->client, lock, name, strlen(name),
                              &options, NULL);
}

enum status sync_release(struct sync_fixture *fixture, struct rlock *lock)
{
    return rlock_sync_release(fixture->sync, fixture->client, lock, NULL);
}

void sync_await_int(struct sync_fixture *fixture, long long wanted, const char *format,
                    const char *arg)
{
    int64_t end_us = clock_mono_us() + (int64_t)WITHIN_MS * 1000;

    while (server_int(fixture->server, format, arg) != wanted) {
        if (clock_mono_us() > end_us)
            fail_msg("%s %s: not %lld within %d ms", format, arg, wanted, WITHIN_MS);
        uv_sleep(1);
    }
}

void sync_await_tries(struct sync_fixture *fixture, const struct rlock *held,
                      unsigned count)
{
    int64_t end_us = clock_mono_us() + (int64_t)WITHIN_MS * 1000;

    while (server_int(fixture->server, "INCRBY lock:fence 0") <
           rlock_fence(held) + count) {
        if (clock_mono_us() > end_us)
            fail_msg("not %u tries within %d ms", count, WITHIN_MS);
        uv_sleep(1);
    }
}
