/*
 * it_fork.c - a child after fork() cannot use its parent's clients, disturb them, or own their
 * locks.
 */
#include "test/child.h"
#include "test/sync_fixture.h"

#include <string.h>
#include <unistd.h>

#define NAME     "item:7"
#define NAME_LEN 6
#define HANGS_S  60 /* after this time SIGALRM ends the child */

/** Run `act` in a child process. `act` must return true. */
static void in_child(bool (*act)(void *arg), void *arg)
{
    pid_t child = child_fork();

    if (child == 0) {
        alarm(HANGS_S);
        child_exit(act(arg) ? 0 : 1);
    }
    assert_int_equal(child_wait(child), 0);
}

struct shared {
    struct fixture *fixture;
    struct rlock_client *client;
    struct call held;
};

static void on_time(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/** Run the loop of the parent in the child, which libuv allows after uv_loop_fork(). */
static bool runs_the_loop(void *arg)
{
    struct shared *shared = arg;
    uv_loop_t *loop = &shared->fixture->loop;
    bool is_over = false;
    uv_timer_t timer;

    if (uv_loop_fork(loop) != 0 || uv_timer_init(loop, &timer) != 0 ||
        uv_timer_start(&timer, on_time, 1500, 0) != 0)
        return false;
    timer.data = &is_over;
    while (!is_over)
        uv_run(loop, UV_RUN_ONCE);
    return true;
}

FIXTURE_CASE(test_watchdog__does_not_renew_in_a_child)
{
    struct fixture *fixture = *state;
    static struct shared shared; /* the client is closed after the test */
    long long renewals;

    shared = (struct shared){.fixture = fixture, .client = fixture_client(fixture)};
    ASSERT_STATUS(acquire_watched(fixture, shared.client, &shared.held, NAME, 600),
                  RLOCK_OK);
    renewals = server_calls(fixture->server, "evalsha");
    in_child(runs_the_loop, &shared);
    assert_int_equal(server_calls(fixture->server, "evalsha"), renewals);
    assert_false(server_has(fixture->server, NAME));
}

static bool opens_its_own(void *arg)
{
    const struct shared *shared = arg;
    struct fixture own = {.server = shared->fixture->server};
    struct rlock_client *client;
    struct call call = {0};

    uv_loop_init(&own.loop);
    client = fixture_client(&own);
    return acquire(&own, client, &call, NAME, LEASE_MS) == RLOCK_BUSY &&
           acquire(&own, client, &call, "item:8", LEASE_MS) == RLOCK_OK &&
           release(&own, client, &call) == RLOCK_OK;
}

FIXTURE_CASE(test_rlock_client_open__works_in_a_child)
{
    struct fixture *fixture = *state;
    struct shared shared = {.fixture = fixture, .client = fixture_client(fixture)};

    ASSERT_STATUS(acquire(fixture, shared.client, &shared.held, NAME, LEASE_MS),
                  RLOCK_OK);
    in_child(opens_its_own, &shared);
}

/* -- synchronous -- */

static bool uses_no_sync(void *arg)
{
    struct sync_fixture *fixture = arg;
    struct rlock lock = {0};
    struct rlock_err err = {0};
    enum rlock_status status = rlock_sync_acquire(fixture->sync, fixture->client, &lock,
                                                  NAME, NAME_LEN, NULL, &err);

    rlock_sync_close(fixture->sync);
    rlock_sync_free(fixture->sync);
    return status == RLOCK_INVALID && strstr(err.text, "start one here") != NULL;
}

static bool starts_its_own_sync(void *arg)
{
    const struct sync_fixture *fixture = arg;
    struct sync_fixture own = {.server = fixture->server};
    struct rlock lock = {0};

    ASSERT_STATUS(rlock_sync_start(&own.sync, NULL), RLOCK_OK);
    own.client = sync_fixture_client(&own);
    return sync_acquire(&own, &lock, NAME, 0) == RLOCK_BUSY;
}

SYNC_CASE(test_rlock_sync__in_a_child_leaves_the_parent_alone)
{
    struct sync_fixture *fixture = *state;
    struct rlock_stats stats;
    struct rlock lock = {0};

    in_child(uses_no_sync, fixture);
    ASSERT_STATUS(sync_acquire(fixture, &lock, NAME, 0), RLOCK_OK);
    in_child(uses_no_sync, fixture);
    in_child(starts_its_own_sync, fixture);
    ASSERT_STATUS(sync_release(fixture, &lock), RLOCK_OK);
    rlock_sync_stats(fixture->sync, fixture->client, &stats);
    assert_int_equal(stats.reconnects, 0);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
