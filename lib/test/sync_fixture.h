/*
 * sync_fixture.h - a struct rlock_sync and threads, for tests of rlock_sync.h.
 *
 * Only the main thread may use the assertions of cmocka. The other threads (workers) record what
 * they have seen.
 */
#ifndef TEST_SYNC_FIXTURE_H
#define TEST_SYNC_FIXTURE_H

#include "lock/rlock_sync.h"
#include "test/fixture.h"

#define SYNC_WORKERS_MAX 32

struct sync_fixture {
    /* the server of the group, which is empty when the test starts */
    struct server *server;
    struct rlock_sync *sync;
    struct rlock_client *client;
};

struct sync_worker {
    struct sync_fixture *fixture;
    pthread_t thread;
    void (*work)(struct sync_worker *worker);
    void *arg;
    struct rlock lock;
    unsigned index;
    unsigned failures;
    enum rlock_status status;
    struct rlock_err err;
};

/* for each test; sets *state to a struct sync_fixture */
int sync_fixture_setup(void **state);
int sync_fixture_teardown(void **state);

struct rlock_client *sync_fixture_client(struct sync_fixture *fixture);

/** Start threads that run `work`. The test may set only `arg` of the workers before. */
void sync_begin(struct sync_fixture *fixture, struct sync_worker *workers, unsigned count,
                void (*work)(struct sync_worker *worker));

/** Wait for the threads to end. Returns the sum of their failures. */
unsigned sync_end(struct sync_worker *workers, unsigned count);

/** Calls with default options, without a watchdog and without a struct rlock_err. */
enum rlock_status sync_acquire(struct sync_fixture *fixture, struct rlock *lock,
                               const char *name, uint32_t wait_ms);
enum rlock_status sync_release(struct sync_fixture *fixture, struct rlock *lock);

/** Wait until `holds(arg)`, and fail after WITHIN_MS. */
#define SYNC_AWAIT(holds, arg) sync_await_condition(holds, arg, #holds)
void sync_await_condition(bool (*holds)(void *arg), void *arg, const char *condition);

void sync_await_count(const _Atomic unsigned *count, unsigned wanted);

void sync_await_absent(struct sync_fixture *fixture, const char *key);

/** Wait until other calls have tried `count` times to acquire `held` since its grant. Each try
 *  takes a fence. */
void sync_await_tries(struct sync_fixture *fixture, const struct rlock *held,
                      unsigned count);

/** Wait until no channel has a subscriber. The second function waits until a channel has one. */
void sync_await_no_channels(struct sync_fixture *fixture);
void sync_await_a_channel(struct sync_fixture *fixture);

#define SYNC_CASE(name) GUARDED_CASE(name, sync_fixture_setup, sync_fixture_teardown)

#endif
