/* it_sync.c - each synchronous call, its error messages, its deadlines and the close. */
#include "base/clock.h"
#include "test/sync_fixture.h"
#include "test/torture.h"

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#define SHORT_MS 3000 /* a lease that is renewed every second */

/* -- in place of libuv: the sleep of the background thread -- */

static _Atomic unsigned stretch = 1; /* the sleep lasts so many times as long */
static _Atomic unsigned sleeps, timeouts;

int uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *mutex, uint64_t timeout)
{
    int (*real)(uv_cond_t *, uv_mutex_t *, uint64_t);
    int result;

    *(void **)&real = dlsym(RTLD_NEXT, "uv_cond_timedwait");
    sleeps++;
    result = real(cond, mutex, timeout * stretch);
    timeouts += result == UV_ETIMEDOUT;
    return result;
}

/* -- starting and opening -- */

SYNC_CASE(test_rlock_sync_start__without_descriptors_says_so)
{
    struct rlimit before, few;
    struct rlock_sync *sync = NULL;
    struct rlock_err err = {0};
    enum rlock_status status;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 3; /* in use already */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    status = rlock_sync_start(&sync, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_STATUS(status, RLOCK_IO);
    ASSERT_CONTAINS(err.text, "too many open files");
    assert_null(sync);
}

/** A new thread gets a stack as large as the limit, so a huge limit makes pthread_create() fail. */
SYNC_CASE(test_rlock_sync_start__without_a_thread_leaves_nothing)
{
    struct rlimit limit, large;
    struct rlock_sync *sync = NULL;
    struct rlock_err err = {0};
    long blocks = torture_blocks();

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_STACK, &limit), 0);
    large = (struct rlimit){(rlim_t)1 << 46, limit.rlim_max};
    if (large.rlim_cur > large.rlim_max)
        return; /* some machines do not let the limit be raised */
    assert_int_equal(setrlimit(RLIMIT_STACK, &large), 0);
    ASSERT_STATUS(rlock_sync_start(&sync, &err), RLOCK_IO);
    assert_int_equal(setrlimit(RLIMIT_STACK, &limit), 0);
    assert_string_equal(err.text, "lock loop: resource temporarily unavailable");
    assert_null(sync);
    assert_int_equal(torture_blocks(), blocks);
}

SYNC_CASE(test_rlock_sync_open__refuses_bad_options_with_words)
{
    struct sync_fixture *fixture = *state;
    struct rlock_client_options options = {.redis_url = "http://x", .timeout_ms = 1};
    struct rlock_client *client = NULL;
    struct rlock_err err = {0};

    ASSERT_STATUS(rlock_sync_open(fixture->sync, &options, &client, &err), RLOCK_INVALID);
    ASSERT_CONTAINS(err.text, "redis://");
    ASSERT_STATUS(rlock_sync_open(fixture->sync, NULL, &client, &err), RLOCK_INVALID);
    ASSERT_CONTAINS(err.text, "redis_url");
    assert_null(client);
}

static bool acquires(void *arg)
{
    struct rlock lock = {0};

    return sync_acquire(arg, &lock, "item:7", 0) == RLOCK_OK;
}

SYNC_CASE(test_rlock_sync_open__without_a_server_is_down_and_connects_later)
{
    struct sync_fixture *fixture = *state;
    struct rlock_client_options options = {.redis_url = fixture->server->unix_url,
                                           .timeout_ms = 200};
    int64_t begin_us = clock_mono_us();
    struct rlock_err err = {0};

    server_kill(fixture->server);
    ASSERT_STATUS(rlock_sync_open(fixture->sync, &options, &fixture->client, &err),
                  RLOCK_DOWN);
    ASSERT_NUMBER(clock_mono_us() - begin_us, >=, 199000); /* a timer's ms */
    ASSERT_CONTAINS(err.text, "connect");
    server_restart(fixture->server);
    SYNC_AWAIT(acquires, fixture);
}

SYNC_CASE(test_rlock_sync_open__of_a_hung_server_says_that_it_does_not_reply)
{
    enum { CLIENTS = 8 };
    struct sync_fixture *fixture = *state;
    struct rlock_client_options options = {.redis_url = fixture->server->unix_url,
                                           .timeout_ms = 20};

    server_pause(fixture->server);
    for (int i = 0; i < CLIENTS; i++) {
        struct rlock_client *client = NULL;
        struct rlock_err err = {0};

        ASSERT_STATUS(rlock_sync_open(fixture->sync, &options, &client, &err),
                      RLOCK_DOWN);
        ASSERT_STATUS(err.status, RLOCK_DOWN);
        assert_string_equal(err.text, "connect: no reply within 20 ms");
    }
    server_resume(fixture->server);
}

/** Whether a signal of the process may interrupt this thread. */
static bool takes_signals(void)
{
    sigset_t blocked;

    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    return sigismember(&blocked, SIGTERM) == 0;
}

static _Atomic unsigned ups, downs;
/* the thread that ran the last callback takes signals */
static _Atomic bool took_signals;

static void on_state(bool is_up, const struct rlock_err *why, void *arg)
{
    took_signals = takes_signals();
    if (is_up)
        ups++;
    else if (why != NULL && arg == &ups)
        downs++;
}

SYNC_CASE(test_on_state__is_called_while_nobody_calls)
{
    struct sync_fixture *fixture = *state;
    struct rlock_client_options options = {.redis_url = fixture->server->unix_url,
                                           .timeout_ms = TIMEOUT_MS,
                                           .on_state = on_state,
                                           .arg = &ups};

    ups = downs = 0;
    ASSERT_STATUS(rlock_sync_open(fixture->sync, &options, &fixture->client, NULL),
                  RLOCK_OK);
    sync_await_count(&ups, 1);
    server_kill(fixture->server);
    sync_await_count(&downs, 1);
    assert_false(took_signals); /* the callback ran in the thread of the library */
    assert_true(takes_signals());
    server_restart(fixture->server);
    sync_await_count(&ups, 2);
}

/** Neither the library nor the libraries that it uses keep memory of closed clients. */
SYNC_CASE(test_rlock_sync_close_client__frees_clients_that_failed_to_open)
{
    enum { OPENS = 1000, LEFT_MAX = OPENS * 64 };
    struct sync_fixture *fixture = *state;
    struct rlock_client_options options = {.redis_url = "unix:/nowhere/redis",
                                           .timeout_ms = 1};
    long blocks = 0;
    size_t bytes = 0;

    for (int i = 0; i < OPENS; i++) {
        struct rlock_client *client = NULL;

        ASSERT_STATUS(rlock_sync_open(fixture->sync, &options, &client, NULL),
                      RLOCK_DOWN);
        rlock_sync_close_client(fixture->sync, client);
        if (i == 0) {
            blocks = torture_blocks();
            bytes = mallinfo2().uordblks;
        }
    }
    assert_int_equal(torture_blocks(), blocks);
    ASSERT_NUMBER(mallinfo2().uordblks, <, bytes + LEFT_MAX);
}

SYNC_CASE(test_rlock_sync_close_client__leaves_the_others)
{
    struct sync_fixture *fixture = *state, second = *fixture;
    struct rlock lock = {0};

    second.client = sync_fixture_client(fixture);
    ASSERT_STATUS(sync_acquire(&second, &lock, "a", 0), RLOCK_OK);
    for (int i = 0; i < 2; i++)
        rlock_sync_close_client(fixture->sync, fixture->client);
    rlock_sync_close_client(fixture->sync, NULL);
    ASSERT_STATUS(sync_release(&second, &lock), RLOCK_OK);
    rlock_sync_close_client(fixture->sync, second.client); /* the last one */
    second.client = sync_fixture_client(fixture);
    ASSERT_STATUS(sync_acquire(&second, &lock, "a", 0), RLOCK_OK);
}

/* -- the calls -- */

SYNC_CASE(test_rlock_sync_acquire__is_held_until_released)
{
    struct sync_fixture *fixture = *state;
    struct rlock lock = {0}, other = {0};
    struct rlock_stats stats;

    ASSERT_STATUS(sync_acquire(fixture, &lock, "item:7", 0), RLOCK_OK);
    assert_true(server_has(fixture->server, "item:7"));
    ASSERT_NUMBER(rlock_fence(&lock), >, 0);
    assert_true(rlock_sync_is_held(fixture->sync, &lock));
    ASSERT_BETWEEN(rlock_sync_safe_for_us(fixture->sync, &lock), LEASE_MS * 500LL,
                   LEASE_MS * 1000LL);
    ASSERT_STATUS(sync_acquire(fixture, &other, "item:7", 0), RLOCK_BUSY);
    assert_false(rlock_sync_is_held(fixture->sync, &other));
    assert_int_equal(rlock_sync_safe_for_us(fixture->sync, &other), 0);
    ASSERT_STATUS(sync_release(fixture, &other), RLOCK_NOT_OWNER);
    ASSERT_STATUS(
        rlock_sync_extend(fixture->sync, fixture->client, &lock, 2 * LEASE_MS, NULL),
        RLOCK_OK);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL item:7"), LEASE_MS + 1,
                   2 * LEASE_MS);
    ASSERT_STATUS(sync_release(fixture, &lock), RLOCK_OK);
    assert_false(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(
        rlock_sync_extend(fixture->sync, fixture->client, &lock, LEASE_MS, NULL),
        RLOCK_NOT_OWNER);
    rlock_sync_stats(fixture->sync, fixture->client, &stats);
    assert_int_equal(stats.granted, 1);
    assert_int_equal(stats.busy, 1);
    assert_int_equal(stats.released, 1);
}

static void try_reentrant(struct sync_worker *worker)
{
    struct rlock_acquire_options options = {.kind = &rlock_reentrant};

    worker->status = rlock_sync_acquire(worker->fixture->sync, worker->fixture->client,
                                        &worker->lock, "a", 1, &options, NULL);
}

SYNC_CASE(test_rlock_sync_acquire__without_a_holder_the_thread_is_it)
{
    struct sync_worker mine = {.fixture = *state}, nested = mine, other = {0};

    try_reentrant(&mine);
    ASSERT_STATUS(mine.status, RLOCK_OK);
    try_reentrant(&nested);
    ASSERT_STATUS(nested.status, RLOCK_OK);
    sync_begin(*state, &other, 1, try_reentrant);
    sync_end(&other, 1);
    ASSERT_STATUS(other.status, RLOCK_BUSY);
    ASSERT_STATUS(sync_release(*state, &nested.lock), RLOCK_OK);
    ASSERT_STATUS(sync_release(*state, &mine.lock), RLOCK_OK);
}

SYNC_CASE(test_rlock_sync_acquire__says_why_it_failed)
{
    struct sync_fixture *fixture = *state;
    struct rlock lock = {0};
    struct rlock_err err = {0};

    ASSERT_STATUS(
        rlock_sync_acquire(fixture->sync, fixture->client, &lock, "", 0, NULL, &err),
        RLOCK_INVALID);
    ASSERT_STATUS(err.status, RLOCK_INVALID);
    ASSERT_CONTAINS(err.text, "name");
    server_do(fixture->server, "CONFIG SET min-replicas-to-write 1");
    ASSERT_STATUS(rlock_sync_acquire(fixture->sync, fixture->client, &lock, "item:7", 6,
                                     NULL, &err),
                  RLOCK_REFUSED);
    server_do(fixture->server, "CONFIG SET min-replicas-to-write 0");
    ASSERT_STATUS(err.status, RLOCK_REFUSED);
    ASSERT_CONTAINS(err.text, "NOREPLICAS");
}

static bool on_owner(const struct rlock_info *info, void *arg)
{
    unsigned *count = arg;

    ++*count;
    assert_int_equal(info->name_len, 6);
    return true;
}

SYNC_CASE(test_rlock_sync_inspect__and_others_about_any_owner)
{
    struct sync_fixture *fixture = *state;
    struct rlock_sync *sync = fixture->sync;
    struct rlock_client *client = fixture->client;
    struct rlock lock = {0}, other = {0};
    struct rlock_sync_info info = {0};
    unsigned all = 0, one = 0;

    ASSERT_STATUS(rlock_sync_inspect(sync, client, "item:7", 6, &info, NULL),
                  RLOCK_NOT_FOUND);
    ASSERT_STATUS(sync_acquire(fixture, &lock, "item:7", 0), RLOCK_OK);
    ASSERT_STATUS(sync_acquire(fixture, &other, "item:8", 0), RLOCK_OK);
    ASSERT_STATUS(rlock_sync_inspect(sync, client, "item:7", 6, &info, NULL), RLOCK_OK);
    assert_true(info.is_ours);
    assert_int_equal(info.count, 1);
    ASSERT_BETWEEN(info.remaining_ms, LEASE_MS / 2, LEASE_MS);
    ASSERT_NUMBER(strlen(info.owner), >=, 32);
    ASSERT_STATUS(rlock_sync_list(sync, client, NULL, 0, on_owner, &all, NULL), RLOCK_OK);
    assert_int_equal(all, 2);
    ASSERT_STATUS(rlock_sync_list(sync, client, "item:8", 6, on_owner, &one, NULL),
                  RLOCK_OK);
    assert_int_equal(one, 1);
    ASSERT_STATUS(rlock_sync_force_release(sync, client, "item:7", 6, NULL), RLOCK_OK);
    assert_false(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(rlock_sync_force_release(sync, client, "item:7", 6, NULL),
                  RLOCK_NOT_FOUND);
    ASSERT_STATUS(sync_release(fixture, &lock), RLOCK_LOST);
}

SYNC_CASE(test_rlock_sync_inspect__cuts_a_long_owner)
{
    struct sync_fixture *fixture = *state;
    struct rlock_sync_info info;
    char owner[400];

    memset(owner, 'x', sizeof(owner));
    server_do(fixture->server, "SET item:7 %b", owner, sizeof(owner));
    ASSERT_STATUS(
        rlock_sync_inspect(fixture->sync, fixture->client, "item:7", 6, &info, NULL),
        RLOCK_OK);
    assert_int_equal(strlen(info.owner), sizeof(info.owner) - 1);
    assert_int_equal(info.remaining_ms, -1);
    assert_false(info.is_ours);
}

SYNC_CASE(test_rlock_sync_raise_fences__raises_above_a_fence_of_another)
{
    struct sync_fixture *fixture = *state;
    int64_t newest = server_int(fixture->server, "INCRBY lock:fence 0") + 1000000;
    struct rlock lock = {0};

    ASSERT_STATUS(rlock_sync_raise_fences(fixture->sync, fixture->client, newest, NULL),
                  RLOCK_OK);
    ASSERT_STATUS(sync_acquire(fixture, &lock, "item:7", 0), RLOCK_OK);
    ASSERT_NUMBER(rlock_fence(&lock), >, newest);
}

SYNC_CASE(test_rlock_sync_cancel__before_the_acquire_ends_it)
{
    struct sync_fixture *fixture = *state;
    struct rlock held = {0}, lock = {0};

    ASSERT_STATUS(sync_acquire(fixture, &held, "a", 0), RLOCK_OK);
    rlock_sync_cancel(fixture->sync, fixture->client, &lock);
    ASSERT_STATUS(sync_acquire(fixture, &lock, "a", WITHIN_MS), RLOCK_CANCELLED);
    ASSERT_STATUS(sync_acquire(fixture, &lock, "a", 0), RLOCK_BUSY);
    /* no effect, because the lock is held */
    rlock_sync_cancel(fixture->sync, fixture->client, &held);
    ASSERT_STATUS(sync_release(fixture, &held), RLOCK_OK);
    ASSERT_STATUS(sync_acquire(fixture, &held, "a", 0), RLOCK_OK);
    server_do(fixture->server, "DEL a");
    ASSERT_STATUS(
        rlock_sync_extend(fixture->sync, fixture->client, &held, SHORT_MS, NULL),
        RLOCK_LOST);
    /* No call of the lost lock is in progress, so this cancels its next acquire. */
    rlock_sync_cancel(fixture->sync, fixture->client, &held);
    ASSERT_STATUS(sync_acquire(fixture, &held, "a", 0), RLOCK_CANCELLED);
}

/* -- between the calls -- */

static _Atomic unsigned losses;
static void *_Atomic loss_arg;
/* status of a call from inside the callback */
static _Atomic enum rlock_status status_inside;
static struct sync_fixture *current;

static void on_lost(struct rlock *lock, enum rlock_status status, void *arg)
{
    status_inside = sync_release(current, lock);
    loss_arg = arg;
    losses += status == RLOCK_LOST;
}

static enum rlock_status take_watched(struct sync_fixture *fixture, struct rlock *lock,
                                      void *lost_arg)
{
    struct rlock_acquire_options options = {
        .lease_ms = SHORT_MS, .watchdog = true, .on_lost = on_lost, .lost_arg = lost_arg};

    current = fixture;
    losses = 0;
    loss_arg = &losses;
    return rlock_sync_acquire(fixture->sync, fixture->client, lock, "item:7", 6, &options,
                              NULL);
}

static bool has_renewed_twice(void *arg)
{
    return server_calls(arg, "pexpire") >= 2;
}

SYNC_CASE(test_watchdog__renews_while_nobody_calls)
{
    struct sync_fixture *fixture = *state;
    struct rlock lock = {0};

    server_do(fixture->server, "CONFIG RESETSTAT");
    ASSERT_STATUS(take_watched(fixture, &lock, NULL), RLOCK_OK);
    SYNC_AWAIT(has_renewed_twice, fixture->server);
    assert_true(rlock_sync_is_held(fixture->sync, &lock));
    assert_int_equal(losses, 0);
    ASSERT_STATUS(sync_release(fixture, &lock), RLOCK_OK);
}

/** The argument of on_lost is lost_arg of the options. The default would be the `arg` of a call
 *  that has ended, which is on no stack any more. */
SYNC_CASE(test_on_lost__is_called_while_nobody_calls)
{
    struct sync_fixture *fixture = *state;
    void *const args[] = {NULL, fixture};

    for (int i = 0; i < 2; i++) {
        struct rlock lock = {0};

        ASSERT_STATUS(take_watched(fixture, &lock, args[i]), RLOCK_OK);
        ASSERT_STATUS(
            rlock_sync_extend(fixture->sync, fixture->client, &lock, SHORT_MS, NULL),
            RLOCK_OK);
        server_do(fixture->server, "DEL item:7");
        sync_await_count(&losses, 1);
        assert_ptr_equal(loss_arg, args[i]);
        ASSERT_STATUS(status_inside, RLOCK_INVALID);
        assert_false(rlock_sync_is_held(fixture->sync, &lock));
        ASSERT_STATUS(sync_release(fixture, &lock), RLOCK_LOST);
        assert_int_equal(losses, 1);
    }
}

/** It looks ten times a second. */
SYNC_CASE(test_background__sleeps_during_a_long_call)
{
    struct sync_fixture *fixture = *state;
    struct rlock lock = {0}, other = {0};

    ASSERT_STATUS(sync_acquire(fixture, &lock, "item:7", 0), RLOCK_OK);
    sleeps = 0;
    ASSERT_STATUS(sync_acquire(fixture, &other, "item:7", 300), RLOCK_BUSY);
    ASSERT_NUMBER(sleeps, <, 20);
}

/* -- deadlines -- */

SYNC_CASE(test_rlock_sync_acquire__waits_as_long_as_it_says)
{
    struct sync_fixture *fixture = *state;
    struct rlock lock = {0}, other = {0};
    int64_t begin_us;

    ASSERT_STATUS(sync_acquire(fixture, &lock, "item:7", 0), RLOCK_OK);
    begin_us = clock_mono_us();
    ASSERT_STATUS(sync_acquire(fixture, &other, "item:7", 300), RLOCK_BUSY);
    ASSERT_BETWEEN(clock_mono_us() - begin_us, 300000, TIMEOUT_MS * 1000);
}

SYNC_CASE(test_rlock_sync_acquire__of_a_dead_server_ends_with_its_wait)
{
    struct sync_fixture *fixture = *state;
    struct rlock lock = {0}, held = {0};
    enum rlock_status status;

    ASSERT_STATUS(sync_acquire(fixture, &held, "item:8", 0), RLOCK_OK);
    server_kill(fixture->server);
    status = sync_acquire(fixture, &lock, "item:7", 300);
    assert_true(status == RLOCK_DOWN || status == RLOCK_IO);
    status = sync_release(fixture, &held);
    assert_true(status == RLOCK_DOWN || status == RLOCK_IO);
}

SYNC_CASE(test_rlock_sync_acquire__of_a_hung_server_times_out)
{
    enum { HASTY_MS = 1000 };
    struct sync_fixture *fixture = *state;
    struct rlock_client_options hasty = {.redis_url = fixture->server->unix_url,
                                         .timeout_ms = HASTY_MS};
    struct rlock lock = {0};
    struct rlock_err err = {0};
    int64_t begin_us;
    enum rlock_status status;

    status = rlock_sync_open(fixture->sync, &hasty, &fixture->client, &err);
    assert_true(status == RLOCK_OK || status == RLOCK_DOWN);
    SYNC_AWAIT(acquires, fixture);
    begin_us = clock_mono_us();
    server_pause(fixture->server);
    status = rlock_sync_acquire(fixture->sync, fixture->client, &lock, "item:8", 6, NULL,
                                &err);
    server_resume(fixture->server);
    ASSERT_STATUS(status, RLOCK_TIMEOUT);
    ASSERT_NUMBER(clock_mono_us() - begin_us, >=, HASTY_MS * 1000LL);
    ASSERT_STATUS(err.status, RLOCK_TIMEOUT);
    assert_string_equal(err.text, "timeout");
}

/* -- close -- */

SYNC_CASE(test_rlock_sync_close__afterwards_all_is_cancelled)
{
    struct sync_fixture *fixture = *state;
    struct rlock_sync *sync = fixture->sync;
    struct rlock_client *client = NULL;
    struct rlock lock = {0}, held = {0};
    struct rlock_sync_info info;
    struct rlock_stats stats;
    struct rlock_err err = {0};

    ASSERT_STATUS(sync_acquire(fixture, &held, "item:7", 0), RLOCK_OK);
    rlock_sync_close(sync);
    ASSERT_STATUS(rlock_sync_open(sync, NULL, &client, &err), RLOCK_CANCELLED);
    assert_null(client);
    ASSERT_STATUS(err.status, RLOCK_CANCELLED);
    client = fixture->client;
    ASSERT_STATUS(sync_acquire(fixture, &lock, "item:8", 0), RLOCK_CANCELLED);
    ASSERT_STATUS(sync_release(fixture, &held), RLOCK_CANCELLED);
    ASSERT_STATUS(rlock_sync_extend(sync, client, &held, LEASE_MS, NULL),
                  RLOCK_CANCELLED);
    ASSERT_STATUS(rlock_sync_force_release(sync, client, "item:7", 6, NULL),
                  RLOCK_CANCELLED);
    ASSERT_STATUS(rlock_sync_inspect(sync, client, "item:7", 6, &info, NULL),
                  RLOCK_CANCELLED);
    rlock_sync_cancel(sync, client, &held);
    assert_false(rlock_sync_is_held(sync, &held));
    assert_int_equal(rlock_sync_safe_for_us(sync, &held), 0);
    rlock_sync_stats(sync, client, &stats);
    assert_int_equal(stats.granted, 0);
    assert_true(server_has(fixture->server, "item:7")); /* left to its lease */
}

SYNC_CASE(test_rlock_sync_close__wakes_the_background_thread)
{
    struct sync_fixture *fixture = *state;
    struct rlock lock = {0};

    stretch = 400;
    sleeps = 0;
    while (sleeps == 0) {
        ASSERT_STATUS(sync_acquire(fixture, &lock, "item:7", 0), RLOCK_OK);
        ASSERT_STATUS(sync_release(fixture, &lock), RLOCK_OK);
    }
    timeouts = 0;
    rlock_sync_close(fixture->sync);
    stretch = 1;
    assert_int_equal(timeouts, 0);
}

SYNC_CASE(test_rlock_sync_close__without_clients)
{
    struct rlock_sync *sync = NULL;

    ASSERT_STATUS(rlock_sync_start(&sync, NULL), RLOCK_OK);
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    rlock_sync_free(NULL);
}

static void do_close(struct sync_worker *worker)
{
    rlock_sync_close(worker->fixture->sync);
    worker->status = sync_acquire(worker->fixture, &worker->lock, "item:7", 0);
}

SYNC_CASE(test_rlock_sync_close__by_several_threads_at_once)
{
    struct sync_worker workers[4] = {0};

    sync_begin(*state, workers, 4, do_close);
    sync_end(workers, 4);
    for (int i = 0; i < 4; i++)
        ASSERT_STATUS(workers[i].status, RLOCK_CANCELLED);
}

static void do_open_away(struct sync_worker *worker)
{
    struct rlock_client_options options = {.redis_url = "unix:/nowhere/at/all",
                                           .timeout_ms = WITHIN_MS,
                                           .on_state = on_state,
                                           .arg = &ups};
    struct rlock_client *client;

    worker->status =
        rlock_sync_open(worker->fixture->sync, &options, &client, &worker->err);
}

SYNC_CASE(test_rlock_sync_close__cancels_an_open_under_way)
{
    struct sync_fixture *fixture = *state;
    struct sync_worker worker = {0};

    downs = 0;
    sync_begin(fixture, &worker, 1, do_open_away);
    /* the client could not connect, and the call goes on waiting */
    sync_await_count(&downs, 1);
    rlock_sync_close(fixture->sync);
    sync_end(&worker, 1);
    ASSERT_STATUS(worker.status, RLOCK_CANCELLED);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
