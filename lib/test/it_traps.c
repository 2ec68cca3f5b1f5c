/* it_traps.c - mistakes that a caller makes easily, and what answers them. */
#include "base/clock.h"
#include "test/sync_fixture.h"
#include "test/torture.h"

#include <stdatomic.h>

/* -- defaults and bounds -- */

FIXTURE_CASE(test_rlock_acquire__takes_leases_of_10_ms_and_of_a_day)
{
    enum { DAY_MS = 24 * 60 * 60 * 1000 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call brief = {0}, day = {0};

    ASSERT_STATUS(acquire(fixture, client, &brief, "a", 10), STATUS_OK);
    ASSERT_NUMBER(rlock_safe_for_us(&brief.lock, clock_mono_us()), <, 10000);
    ASSERT_STATUS(acquire_watched(fixture, client, &day, "b", DAY_MS), STATUS_OK);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL b"), DAY_MS - 3600000, DAY_MS);
    fixture_pass_renewal(fixture, client, DAY_MS, 1);
    ASSERT_STATUS(release(fixture, client, &day), STATUS_OK);
}

/* -- a forgotten flush -- */

FIXTURE_CASE(test_calls__without_a_flush_leave_in_the_next_turn)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct answer answer = {0};

    call_acquire(client, &call, "a", LEASE_MS);
    fixture_wait_answers(fixture, &call, 1);
    call_extend(client, &call, LEASE_MS);
    fixture_wait_answers(fixture, &call, 2);
    ASSERT_STATUS(inspect(fixture, client, &answer, "a"), STATUS_OK);
    call_release(client, &call);
    fixture_wait_answers(fixture, &call, 3);
    ASSERT_STATUS(call.status, STATUS_OK);
}

/* -- threads -- */

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
    ASSERT_STATUS(mine.status, STATUS_OK);
    try_reentrant(&nested);
    ASSERT_STATUS(nested.status, STATUS_OK);
    sync_begin(*state, &other, 1, try_reentrant);
    sync_end(&other, 1);
    ASSERT_STATUS(other.status, STATUS_BUSY);
    ASSERT_STATUS(sync_release(*state, &nested.lock), STATUS_OK);
    ASSERT_STATUS(sync_release(*state, &mine.lock), STATUS_OK);
}

SYNC_CASE(test_rlock_sync_close_client__frees_clients_that_failed_to_open)
{
    struct sync_fixture *fixture = *state;
    struct rlock_client_options options = {.redis_url = "unix:/nowhere/redis",
                                           .timeout_ms = 1};
    long before = 0;

    for (int i = 0; i < 1000; i++) {
        struct rlock_client *client = NULL;

        ASSERT_STATUS(rlock_sync_open(fixture->sync, &options, &client, NULL),
                      STATUS_DOWN);
        rlock_sync_close_client(fixture->sync, client);
        if (i == 0)
            before = torture_blocks();
    }
    assert_int_equal(torture_blocks(), before);
}

SYNC_CASE(test_rlock_sync_close_client__leaves_the_others)
{
    struct sync_fixture *fixture = *state, second = *fixture;
    struct rlock lock = {0};

    second.client = sync_fixture_client(fixture);
    ASSERT_STATUS(sync_acquire(&second, &lock, "a", 0), STATUS_OK);
    rlock_sync_close_client(fixture->sync, fixture->client);
    rlock_sync_close_client(fixture->sync, NULL);
    ASSERT_STATUS(sync_release(&second, &lock), STATUS_OK);
}

SYNC_CASE(test_rlock_sync_cancel__before_the_acquire_ends_it)
{
    struct sync_fixture *fixture = *state;
    struct rlock held = {0}, lock = {0};

    ASSERT_STATUS(sync_acquire(fixture, &held, "a", 0), STATUS_OK);
    rlock_sync_cancel(fixture->sync, fixture->client, &lock);
    ASSERT_STATUS(sync_acquire(fixture, &lock, "a", WITHIN_MS), STATUS_CANCELLED);
    ASSERT_STATUS(sync_acquire(fixture, &lock, "a", 0), STATUS_BUSY);
    rlock_sync_cancel(fixture->sync, fixture->client, &held); /* it is held: no effect */
    ASSERT_STATUS(sync_release(fixture, &held), STATUS_OK);
    ASSERT_STATUS(sync_acquire(fixture, &held, "a", 0), STATUS_OK);
    ASSERT_STATUS(sync_release(fixture, &held), STATUS_OK);
}

static _Atomic unsigned losses;
static void *_Atomic loss_arg;

static void traps_on_lost(struct rlock *lock, enum status status, void *arg)
{
    (void)lock;
    (void)status;
    loss_arg = arg;
    losses++;
}

static void traps_on_group_lost(struct rlock_group *group, enum status status, void *arg)
{
    (void)group;
    (void)status;
    loss_arg = arg;
    losses++;
}

SYNC_CASE(test_on_lost__of_a_thread_gets_no_dead_pointer)
{
    struct sync_fixture *fixture = *state;
    struct rlock_acquire_options options = {
        .lease_ms = 300, .watchdog = true, .on_lost = traps_on_lost};
    struct rlock_group_options group_options = {
        .lease_ms = 300, .watchdog = true, .on_lost = traps_on_group_lost};
    struct rlock_member member = {.client = fixture->client, .name = "b", .name_len = 1};
    struct rlock_group *group = NULL;
    struct rlock lock = {0};

    losses = 0;
    loss_arg = &losses;
    ASSERT_STATUS(
        rlock_sync_acquire(fixture->sync, fixture->client, &lock, "a", 1, &options, NULL),
        STATUS_OK);
    server_do(fixture->server, "DEL a");
    sync_await_count(&losses, 1);
    assert_null(loss_arg);
    loss_arg = &losses;
    ASSERT_STATUS(
        rlock_sync_group_create(fixture->sync, &member, 1, RLOCK_GROUP_ALL, &group, NULL),
        STATUS_OK);
    ASSERT_STATUS(rlock_sync_group_acquire(fixture->sync, group, &group_options, NULL),
                  STATUS_OK);
    server_do(fixture->server, "DEL b");
    sync_await_count(&losses, 2);
    assert_null(loss_arg);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
