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
    struct rlock_err err = {0};

    if (rlock_sync_open(fixture->sync, &options, &client, &err) != RLOCK_OK)
        fail_msg("rlock_sync_open: %s", err.text);
    return client;
}

int sync_fixture_setup(void **state)
{
    struct sync_fixture *fixture = calloc(1, sizeof(*fixture));

    case_begin(state);
    fixture->server = fixture_empty_server();
    ASSERT_STATUS(rlock_sync_start(&fixture->sync, NULL), RLOCK_OK);
    fixture->client = sync_fixture_client(fixture);
    *state = fixture;
    return 0;
}

int sync_fixture_teardown(void **state)
{
    struct sync_fixture *fixture = *state;

    (void)case_end();
    rlock_sync_close(fixture->sync);
    /* after a failure threads may be left; their calls are answered now */
    while (running_count > 0)
        pthread_join(running[--running_count], NULL);
    rlock_sync_free(fixture->sync);
    free(fixture);
    return 0;
}

static void *run(void *arg)
{
    struct sync_worker *worker = arg;

    worker->work(worker);
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

enum rlock_status sync_acquire(struct sync_fixture *fixture, struct rlock *lock,
                               const char *name, uint32_t wait_ms)
{
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS, .wait_ms = wait_ms};

    return rlock_sync_acquire(fixture->sync, fixture->client, lock, name, strlen(name),
                              &options, NULL);
}

enum rlock_status sync_release(struct sync_fixture *fixture, struct rlock *lock)
{
    return rlock_sync_release(fixture->sync, fixture->client, lock, NULL);
}

void sync_await_condition(bool (*holds)(void *arg), void *arg, const char *condition)
{
    int64_t end_us = clock_mono_us() + WITHIN_MS * 1000LL;

    while (!holds(arg)) {
        if (clock_mono_us() > end_us)
            fail_msg("%s: still false after %d ms", condition, WITHIN_MS);
        uv_sleep(1);
    }
}

struct counted {
    const _Atomic unsigned *count;
    unsigned wanted;
};

static bool has_count(void *arg)
{
    const struct counted *counted = arg;

    return *counted->count >= counted->wanted;
}

void sync_await_count(const _Atomic unsigned *count, unsigned wanted)
{
    SYNC_AWAIT(has_count, (&(struct counted){count, wanted}));
}

struct absence {
    struct server *server;
    const char *key;
};

static bool is_absent(void *arg)
{
    const struct absence *absence = arg;

    return !server_has(absence->server, absence->key);
}

void sync_await_absent(struct sync_fixture *fixture, const char *key)
{
    SYNC_AWAIT(is_absent, (&(struct absence){fixture->server, key}));
}

struct tries {
    struct server *server;
    int64_t wanted_fence;
};

static bool has_tried(void *arg)
{
    const struct tries *tries = arg;

    return server_int(tries->server, "INCRBY lock:fence 0") >= tries->wanted_fence;
}

void sync_await_tries(struct sync_fixture *fixture, const struct rlock *held,
                      unsigned count)
{
    SYNC_AWAIT(has_tried, (&(struct tries){fixture->server, rlock_fence(held) + count}));
}

static bool has_a_channel(void *arg)
{
    redisReply *reply = server_command(arg, "PUBSUB CHANNELS");
    bool has_one = reply->elements > 0;

    freeReplyObject(reply);
    return has_one;
}

static bool has_no_channel(void *arg)
{
    return !has_a_channel(arg);
}

void sync_await_no_channels(struct sync_fixture *fixture)
{
    SYNC_AWAIT(has_no_channel, fixture->server);
}

void sync_await_a_channel(struct sync_fixture *fixture)
{
    SYNC_AWAIT(has_a_channel, fixture->server);
}
