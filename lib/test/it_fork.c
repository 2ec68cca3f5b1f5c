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
    bool is_closed;
};

static void on_forced(enum rlock_status status, void *arg)
{
    *(enum rlock_status *)arg = status;
}

static void on_closed(void *arg)
{
    ((struct shared *)arg)->is_closed = true;
}

static bool is_refused(const struct call *call)
{
    return call->answers == 1 && call->status == RLOCK_INVALID;
}

static bool has_no_effect(void *arg)
{
    struct shared *shared = arg;
    struct rlock_client *client = shared->client;
    struct rlock *lock = &shared->held.lock;
    struct call acquired = {0}, released = shared->held, extended = shared->held;
    enum rlock_status forced = RLOCK_OK;

    released.answers = extended.answers = 0;
    call_acquire(client, &acquired, "item:8", LEASE_MS);
    call_release(client, &released);
    call_extend(client, &extended, LEASE_MS);
    rlock_release(client, lock, NULL, NULL);
    rlock_cancel(client, lock);
    rlock_force_release(client, NAME, NAME_LEN, on_forced, &forced);
    rlock_flush(client);
    rlock_client_close(client, on_closed, shared);
    return is_refused(&acquired) && is_refused(&released) && is_refused(&extended) &&
           strstr(rlock_client_why(client)->text, "fork") != NULL &&
           forced == RLOCK_INVALID && shared->is_closed && !rlock_client_is_up(client) &&
           !rlock_is_held(lock) && rlock_safe_for_us(lock, 0) == 0;
}

FIXTURE_CASE(test_calls__in_a_child_leave_the_parent_alone)
{
    struct fixture *fixture = *state;
    struct shared shared = {.fixture = fixture, .client = fixture_client(fixture)};
    struct rlock_stats stats;

    ASSERT_STATUS(acquire(fixture, shared.client, &shared.held, NAME, LEASE_MS),
                  RLOCK_OK);
    in_child(has_no_effect, &shared);
    assert_true(server_has(fixture->server, NAME));
    ASSERT_STATUS(release(fixture, shared.client, &shared.held), RLOCK_OK);
    rlock_client_stats(shared.client, &stats);
    assert_int_equal(stats.reconnects, 0);
}

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
