/*
 * it_sync_threads.c - locks that many threads use: they exclude each other, waits end, and nothing
 * is left.
 */
#include "base/clock.h"
#include "test/sync_fixture.h"

#include <hiredis/hiredis.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define STEPS      500
#define OPERATIONS 5000 /* number of operations of all threads together */

/* -- one lock, many threads -- */

/* The counter is not atomic: the lock must order the threads. ThreadSanitizer checks this. */
static long counter;

static void count_slowly(void)
{
    long seen = counter;

    sched_yield();
    counter = seen + 1;
}

static void count_locked(struct sync_worker *worker)
{
    for (int i = 0; i < STEPS; i++) {
        if (sync_acquire(worker->fixture, &worker->lock, "counter", RLOCK_WAIT_FOREVER) !=
            RLOCK_OK) {
            worker->failures++;
            continue;
        }
        count_slowly();
        if (sync_release(worker->fixture, &worker->lock) != RLOCK_OK)
            worker->failures++;
    }
}

/* Two clients stand for two processes. */
SYNC_CASE(test_lock__excludes_between_clients)
{
    struct sync_fixture *first = *state, second = *first;
    struct sync_worker workers[16] = {0};

    second.client = sync_fixture_client(first);
    counter = 0;
    sync_begin(first, workers, 8, count_locked);
    sync_begin(&second, workers + 8, 8, count_locked);
    assert_int_equal(sync_end(workers, 16), 0);
    assert_int_equal(counter, 16 * STEPS);
}

static void note_holder(struct sync_worker *worker)
{
    *(uint64_t *)worker->arg = rlock_sync_holder();
    worker->failures = rlock_sync_holder() != *(uint64_t *)worker->arg;
}

SYNC_CASE(test_rlock_sync_holder__differs_between_threads_only)
{
    struct sync_worker workers[8] = {0};
    uint64_t holders[9];

    for (int i = 0; i < 8; i++)
        workers[i].arg = &holders[i];
    sync_begin(*state, workers, 8, note_holder);
    assert_int_equal(sync_end(workers, 8), 0);
    holders[8] = rlock_sync_holder();
    for (int i = 0; i < 9; i++) {
        assert_true(holders[i] != 0);
        for (int j = 0; j < i; j++)
            assert_true(holders[i] != holders[j]);
    }
}

/* -- no remains -- */

static long long count_locks(struct server *server)
{
    return server_int(server, "EVAL %s 0", "return #redis.call('KEYS', 'item:*')");
}

/* Four threads use each name, so most of them have to wait. */
static void operate(struct sync_worker *worker)
{
    char name[24];

    snprintf(name, sizeof(name), "item:%u", worker->index % 8);
    for (int i = 0; i < OPERATIONS / 32 / 2 + 1; i++) {
        worker->failures += sync_acquire(worker->fixture, &worker->lock, name,
                                         RLOCK_WAIT_FOREVER) != RLOCK_OK;
        worker->failures += sync_release(worker->fixture, &worker->lock) != RLOCK_OK;
    }
}

static long long count_subscribers(struct server *server)
{
    redisReply *reply = server_command(server, "CLIENT LIST TYPE pubsub");
    long long count = 0;

    for (const char *at = reply->str; (at = strchr(at, '\n')) != NULL; at++)
        count++;
    freeReplyObject(reply);
    return count;
}

SYNC_CASE(test_wait__many_threads_leave_no_channel)
{
    struct sync_fixture *fixture = *state;
    struct sync_worker workers[32] = {0};

    sync_begin(fixture, workers, 32, operate);
    assert_int_equal(sync_end(workers, 32), 0);
    sync_await_no_channels(fixture);
    ASSERT_NUMBER(count_subscribers(fixture->server), <=, 1);
    ASSERT_NUMBER(server_calls(fixture->server, "subscribe"), >, 0);
    assert_int_equal(count_locks(fixture->server), 0);
}

/* -- ends of waits -- */

static void wait_long(struct sync_worker *worker)
{
    worker->status =
        sync_acquire(worker->fixture, &worker->lock, "item:7", RLOCK_WAIT_FOREVER);
}

struct waiting {
    struct sync_fixture *fixture;
    unsigned wanted;
};

static bool has_waiters(void *arg)
{
    const struct waiting *waiting = arg;
    struct rlock_stats stats;

    rlock_sync_stats(waiting->fixture->sync, waiting->fixture->client, &stats);
    return stats.waiters == waiting->wanted;
}

static void await_waiting(struct sync_fixture *fixture, unsigned count)
{
    SYNC_AWAIT(has_waiters, (&(struct waiting){fixture, count}));
    sync_await_a_channel(fixture);
}

SYNC_CASE(test_rlock_sync_close__answers_all_waiters)
{
    struct sync_fixture *fixture = *state;
    struct sync_worker workers[16] = {0};
    struct rlock held = {0};

    ASSERT_STATUS(sync_acquire(fixture, &held, "item:7", 0), RLOCK_OK);
    sync_begin(fixture, workers, 16, wait_long);
    await_waiting(fixture, 16);
    rlock_sync_close(fixture->sync);
    sync_end(workers, 16);
    for (int i = 0; i < 16; i++)
        ASSERT_STATUS(workers[i].status, RLOCK_CANCELLED);
    sync_await_no_channels(fixture);
}

SYNC_CASE(test_rlock_sync_cancel__ends_the_wait_of_another_thread)
{
    struct sync_fixture *fixture = *state;
    struct sync_worker workers[2] = {0};
    struct rlock held = {0};

    ASSERT_STATUS(sync_acquire(fixture, &held, "item:7", 0), RLOCK_OK);
    sync_begin(fixture, workers, 2, wait_long);
    await_waiting(fixture, 2);
    rlock_sync_cancel(fixture->sync, fixture->client, &workers[0].lock);
    sync_end(&workers[0], 1);
    ASSERT_STATUS(workers[0].status, RLOCK_CANCELLED);
    ASSERT_STATUS(sync_release(fixture, &held), RLOCK_OK);
    sync_end(&workers[1], 1); /* the other worker still waits, and is woken */
    ASSERT_STATUS(workers[1].status, RLOCK_OK);
    ASSERT_STATUS(sync_release(fixture, &workers[1].lock), RLOCK_OK);
    sync_await_no_channels(fixture);
}

static _Atomic unsigned answered;

/** Acquire and release a lock again and again, until the sync is closed. */
static void lock_until_closed(struct sync_worker *worker)
{
    while (worker->status != RLOCK_CANCELLED) {
        char name[24];

        snprintf(name, sizeof(name), "item:%u", worker->index % 4);
        worker->status =
            sync_acquire(worker->fixture, &worker->lock, name, RLOCK_WAIT_FOREVER);
        if (worker->status == RLOCK_OK)
            worker->status = sync_release(worker->fixture, &worker->lock);
        worker->failures +=
            worker->status != RLOCK_OK && worker->status != RLOCK_CANCELLED;
        answered++;
    }
}

/* Like lock_until_closed(), but with watched locks on the stack, which are held for a while. */
static void hold_on_stack_until_closed(struct sync_worker *worker)
{
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS, .watchdog = true};

    while (worker->status != RLOCK_CANCELLED) {
        struct rlock lock = {0};
        char name[24];
        int len = snprintf(name, sizeof(name), "item:%u", worker->index);

        worker->status =
            rlock_sync_acquire(worker->fixture->sync, worker->fixture->client, &lock,
                               name, (size_t)len, &options, NULL);
        if (worker->status == RLOCK_OK) {
            answered++;
            sched_yield();
            worker->status = sync_release(worker->fixture, &lock);
        }
        memset(&lock, 0xff, sizeof(lock)); /* the memory is ours again */
    }
}

/** Close the sync and start another one, again and again, while `count` threads call `act`. */
static void close_amid(struct sync_fixture *fixture, void (*act)(struct sync_worker *),
                       unsigned count)
{
    for (int round = 0; round < 20; round++) {
        struct sync_worker workers[SYNC_WORKERS_MAX] = {0};

        if (round > 0) {
            ASSERT_STATUS(rlock_sync_start(&fixture->sync, NULL), RLOCK_OK);
            fixture->client = sync_fixture_client(fixture);
        }
        /* delete the locks that the last round has left */
        server_do(fixture->server, "FLUSHALL");
        answered = 0;
        sync_begin(fixture, workers, count, act);
        while (answered < 100)
            sched_yield();
        rlock_sync_close(fixture->sync);
        assert_int_equal(sync_end(workers, count), 0);
        if (round < 19)
            rlock_sync_free(fixture->sync);
    }
}

SYNC_CASE(test_rlock_sync_close__amid_calls)
{
    close_amid(*state, lock_until_closed, 16);
}

SYNC_CASE(test_rlock_sync_close__touches_no_lock_after_its_call_returned)
{
    close_amid(*state, hold_on_stack_until_closed, SYNC_WORKERS_MAX);
}

/* -- how threads wait -- */

/** How often the other threads of the process have slept. */
static long count_sleeps_of_others(void)
{
    struct rusage all, own;

    assert_int_equal(getrusage(RUSAGE_SELF, &all), 0);
    assert_int_equal(getrusage(RUSAGE_THREAD, &own), 0);
    return all.ru_nvcsw - own.ru_nvcsw;
}

/** It looks ten times a second, and before timers. It would lead after 5 ms without a call. */
SYNC_CASE(test_background__sleeps_while_a_thread_calls)
{
    struct rlock lock = {0};
    long sleeps = count_sleeps_of_others();
    int64_t begin_us = clock_mono_us(), took_us;

    do {
        ASSERT_STATUS(sync_acquire(*state, &lock, "item:7", 0), RLOCK_OK);
        ASSERT_STATUS(sync_release(*state, &lock), RLOCK_OK);
        took_us = clock_mono_us() - begin_us;
    } while (took_us < 500000);
    ASSERT_NUMBER(count_sleeps_of_others() - sleeps, <, took_us / 10000);
}

static int64_t cpu_us(pthread_t thread)
{
    clockid_t clock;
    struct timespec time;

    assert_int_equal(pthread_getcpuclockid(thread, &clock), 0);
    assert_int_equal(clock_gettime(clock, &time), 0);
    return time.tv_sec * INT64_C(1000000) + time.tv_nsec / 1000;
}

static void acquire_once(struct sync_worker *worker)
{
    worker->status = sync_acquire(worker->fixture, &worker->lock, "item:7", 0);
}

static bool has_polled(void *arg)
{
    const struct sync_worker *worker = arg;

    return cpu_us(worker->thread) > 20000;
}

SYNC_CASE(test_rlock_sync_poll__lets_a_call_poll_before_it_sleeps)
{
    struct sync_fixture *fixture = *state;
    struct sync_worker worker = {0};

    rlock_sync_poll(fixture->sync, UINT32_MAX);
    server_pause(fixture->server);
    sync_begin(fixture, &worker, 1, acquire_once);
    SYNC_AWAIT(has_polled, &worker);
    server_resume(fixture->server);
    assert_int_equal(sync_end(&worker, 1), 0);
    ASSERT_STATUS(worker.status, RLOCK_OK);
}

static bool acquires(void *arg)
{
    struct rlock lock = {0};

    return sync_acquire(arg, &lock, "item:8", 0) == RLOCK_OK;
}

SYNC_CASE(test_rlock_sync_poll__ends_after_its_time)
{
    struct sync_fixture *fixture = *state;
    struct rlock_client_options options = {.redis_url = fixture->server->unix_url,
                                           .timeout_ms = 1000};
    struct rlock lock = {0};
    int64_t begin_us, begin_cpu_us;
    enum rlock_status status;

    status = rlock_sync_open(fixture->sync, &options, &fixture->client, NULL);
    assert_true(status == RLOCK_OK || status == RLOCK_DOWN);
    SYNC_AWAIT(acquires, fixture);
    rlock_sync_poll(fixture->sync, 50);
    server_pause(fixture->server);
    begin_us = clock_mono_us();
    begin_cpu_us = cpu_us(pthread_self());
    ASSERT_STATUS(sync_acquire(fixture, &lock, "item:7", 0), RLOCK_TIMEOUT);
    ASSERT_NUMBER(cpu_us(pthread_self()) - begin_cpu_us, <,
                  (clock_mono_us() - begin_us) / 10);
    server_resume(fixture->server);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
