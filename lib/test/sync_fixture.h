/*
 * sync_fixture.h - locks for threads, and the threads, for tests of rlock_sync.h.
 *
 * cmocka's assertions are for the test's own thread: workers note what they saw.
 */
#ifndef TEST_SYNC_FIXTURE_H
#define TEST_SYNC_FIXTURE_H

#include "lock/rlock_sync.h"
#include "test/fixture.h"

#define SYNC_WORKERS_MAX 32

struct sync_fixture {
    struct server *server; /* as fixture_start_server() leaves it; empty at first */
    struct rlock_sync *sync;
    struct rlock_client *client; /* connected */
};

struct sync_worker {
    struct sync_fixture *fixture;
    pthread_t thread;
    void (*work)(struct sync_worker *worker);
    void *arg;
    struct rlock lock;
    int64_t took_ms;
    unsigned index;
    unsigned failures;
    enum status status;
    struct err err;
};

int sync_fixture_setup(void **state); /* for each test; *state: struct sync_fixture */
int sync_fixture_teardown(void **state);

/** One more client that is connected. */
struct rlock_client *sync_fixture_client(struct sync_fixture *fixture);

/** Start threads that do `work`; `workers` is zero-filled but for what is shared. */
void sync_begin(struct sync_fixture *fixture, struct sync_worker *workers, unsigned count,
                void (*work)(struct sync_worker *worker));

/** Wait for their ends; the sum of their failures. */
unsigned sync_end(struct sync_worker *workers, unsigned count);

/** The calls with plain options: no watchdog, no words. */
enum status sync_acquire(struct sync_fixture *fixture, struct rlock *lock,
                         const char *name, uint32_t wait_ms);
enum status sync_release(struct sync_fixture *fixture, struct rlock *lock);

/** Wait until `command` gives the integer `wanted`, and fail if it never does. */
void sync_await_int(struct sync_fixture *fixture, long long wanted, const char *format,
                    const char *arg);

/** Wait until there were `count` tries, which take a fence each, since `held` was
 * granted.
 */
void sync_await_tries(struct sync_fixture *fixture, const struct rlock *held,
                      unsigned count);

#define SYNC_TEST(name) CASE(name, sync_fixture_setup, sync_fixture_teardown)

#endif
