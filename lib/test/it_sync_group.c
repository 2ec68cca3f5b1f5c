/* it_sync_group.c - groups of locks for threads that block. */
#include "base/clock.h"
#include "test/sync_fixture.h"

#include <hiredis/hiredis.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STEPS    200
#define SHORT_MS 3000

static struct rlock_group *create(struct sync_fixture *fixture, const char *first,
                                  const char *second)
{
    struct rlock_member members[] = {{fixture->client, first, strlen(first)},
                                     {fixture->client, second, strlen(second)}};
    struct rlock_group *group = NULL;

    if (rlock_sync_group_create(fixture->sync, members, 2, RLOCK_GROUP_ALL, &group,
                                NULL) != STATUS_OK)
        return NULL;
    return group;
}

static enum status acquire_group(struct sync_fixture *fixture, struct rlock_group *group,
                                 uint32_t wait_ms, struct err *reterr)
{
    struct rlock_group_options options = {.lease_ms = LEASE_MS, .wait_ms = wait_ms};

    return rlock_sync_group_acquire(fixture->sync, group, &options, reterr);
}

SYNC_CASE(test_rlock_sync_group_create__refuses_none)
{
    struct sync_fixture *fixture = *state;
    struct rlock_group *group = NULL;
    struct err err = {0};

    ASSERT_STATUS(
        rlock_sync_group_create(fixture->sync, NULL, 0, RLOCK_GROUP_ALL, &group, &err),
        STATUS_INVALID);
    assert_null(group);
    ASSERT_STATUS(err.status, STATUS_INVALID);
    assert_true(err.text[0] != '\0');
}

SYNC_CASE(test_rlock_sync_group_acquire__takes_all_and_release_frees_all)
{
    struct sync_fixture *fixture = *state;
    struct rlock_group *group = create(fixture, "a", "b");

    assert_non_null(group);
    assert_int_equal(rlock_sync_group_safe_for_us(fixture->sync, group), 0);
    ASSERT_STATUS(acquire_group(fixture, group, 0, NULL), STATUS_OK);
    assert_true(server_has(fixture->server, "a") && server_has(fixture->server, "b"));
    ASSERT_BETWEEN(rlock_sync_group_safe_for_us(fixture->sync, group), LEASE_MS * 500LL,
                   LEASE_MS * 1000LL);
    ASSERT_NUMBER(rlock_sync_group_fence(fixture->sync, group, 1), >,
                  rlock_sync_group_fence(fixture->sync, group, 0));
    ASSERT_STATUS(rlock_sync_group_release(fixture->sync, group, NULL), STATUS_OK);
    assert_false(server_has(fixture->server, "a") || server_has(fixture->server, "b"));
    assert_int_equal(rlock_sync_group_safe_for_us(fixture->sync, group), 0);
    ASSERT_STATUS(rlock_sync_group_release(fixture->sync, group, NULL), STATUS_NOT_OWNER);
    rlock_sync_group_free(fixture->sync, group);
}

SYNC_CASE(test_rlock_sync_group_acquire__of_a_busy_member_takes_none)
{
    struct sync_fixture *fixture = *state;
    struct rlock_group *group = create(fixture, "a", "b");
    struct rlock held = {0};
    struct err err = {0};

    ASSERT_STATUS(sync_acquire(fixture, &held, "b", 0), STATUS_OK);
    ASSERT_STATUS(acquire_group(fixture, group, 0, &err), STATUS_BUSY);
    assert_string_equal(err.text, "busy");
    sync_await_absent(fixture, "a");
    ASSERT_STATUS(sync_release(fixture, &held), STATUS_OK);
    rlock_sync_group_free(fixture->sync, group);
}

static bool on_owner(const struct rlock_info *info, void *arg)
{
    unsigned *ours = arg;

    *ours += info->is_ours;
    return true;
}

SYNC_CASE(test_rlock_sync_group__is_extended_inspected_and_forced)
{
    struct sync_fixture *fixture = *state;
    struct rlock_group *group = create(fixture, "a", "b");
    struct rlock_sync *sync = fixture->sync;
    struct err err = {0};
    unsigned ours = 0;

    ASSERT_STATUS(rlock_sync_group_extend(sync, group, LEASE_MS, NULL), STATUS_NOT_OWNER);
    ASSERT_STATUS(acquire_group(fixture, group, 0, NULL), STATUS_OK);
    ASSERT_STATUS(rlock_sync_group_extend(sync, group, 2 * LEASE_MS, NULL), STATUS_OK);
    ASSERT_NUMBER(rlock_sync_group_safe_for_us(sync, group), >, LEASE_MS * 1000LL);
    ASSERT_STATUS(rlock_sync_group_extend(sync, group, 1, &err), STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "lease_ms");
    ASSERT_STATUS(rlock_sync_group_inspect(sync, group, on_owner, &ours, NULL),
                  STATUS_OK);
    assert_int_equal(ours, 2);
    ASSERT_STATUS(rlock_sync_group_force_release(sync, group, NULL), STATUS_OK);
    assert_false(server_has(fixture->server, "a") || server_has(fixture->server, "b"));
    ASSERT_STATUS(rlock_sync_group_extend(sync, group, LEASE_MS, NULL), STATUS_LOST);
    ASSERT_STATUS(rlock_group_why(group, 1)->status, STATUS_LOST);
    rlock_sync_group_free(sync, group);
}

SYNC_CASE(test_rlock_sync_group_free__releases_what_is_held)
{
    struct sync_fixture *fixture = *state;
    struct rlock_group *group = create(fixture, "a", "b");

    ASSERT_STATUS(acquire_group(fixture, group, 0, NULL), STATUS_OK);
    rlock_sync_group_free(fixture->sync, group);
    sync_await_absent(fixture, "a");
    sync_await_absent(fixture, "b");
    rlock_sync_group_free(fixture->sync, NULL);
}

static _Atomic unsigned losses;

static void on_lost(struct rlock_group *group, enum status status, void *arg)
{
    (void)group;
    losses += status == STATUS_LOST && arg == &losses;
}

SYNC_CASE(test_on_lost__of_a_group_is_called_while_nobody_calls)
{
    struct sync_fixture *fixture = *state;
    struct rlock_group_options options = {.lease_ms = SHORT_MS,
                                          .watchdog = true,
                                          .on_lost = on_lost,
                                          .lost_arg = (void *)&losses};
    struct rlock_group *group = create(fixture, "a", "b");

    losses = 0;
    ASSERT_STATUS(rlock_sync_group_acquire(fixture->sync, group, &options, NULL),
                  STATUS_OK);
    server_do(fixture->server, "DEL b");
    sync_await_count(&losses, 1);
    sync_await_absent(fixture, "a");
    assert_int_equal(rlock_sync_group_safe_for_us(fixture->sync, group), 0);
    assert_int_equal(losses, 1);
}

/* -- threads -- */

static long counter; /* plain memory: the groups order the threads */

static void count_slowly(void)
{
    long seen = counter;

    sched_yield();
    counter = seen + 1;
}

/** Each worker takes two of the three names, in one order or the other. */
static void count_by_pairs(struct sync_worker *worker)
{
    static const char *const names[] = {"a", "b", "c", "a"};
    unsigned at = worker->index % 3;
    struct rlock_group *group = worker->index % 2 == 0
                                    ? create(worker->fixture, names[at], names[at + 1])
                                    : create(worker->fixture, names[at + 1], names[at]);

    for (int i = 0; i < STEPS && group != NULL; i++) {
        if (acquire_group(worker->fixture, group, RLOCK_WAIT_FOREVER, NULL) !=
            STATUS_OK) {
            worker->failures++;
            continue;
        }
        count_slowly();
        worker->failures +=
            rlock_sync_group_release(worker->fixture->sync, group, NULL) != STATUS_OK;
    }
    rlock_sync_group_free(worker->fixture->sync, group);
}

/* Any two of the pairs share a name. */
SYNC_CASE(test_groups__that_overlap_exclude_and_progress)
{
    struct sync_worker workers[6] = {0};

    counter = 0;
    sync_begin(*state, workers, 6, count_by_pairs);
    assert_int_equal(sync_end(workers, 6), 0);
    assert_int_equal(counter, 6 * STEPS);
}

static void wait_long(struct sync_worker *worker)
{
    worker->status =
        acquire_group(worker->fixture, worker->arg, RLOCK_WAIT_FOREVER, &worker->err);
}

/** Hold "b" and have a thread wait for the group. */
static struct rlock_group *begin_wait(struct sync_fixture *fixture, struct rlock *held,
                                      struct sync_worker *worker)
{
    worker->arg = create(fixture, "a", "b");
    assert_non_null(worker->arg);
    ASSERT_STATUS(sync_acquire(fixture, held, "b", 0), STATUS_OK);
    sync_begin(fixture, worker, 1, wait_long);
    sync_await_tries(fixture, held, 2);
    return worker->arg;
}

SYNC_CASE(test_rlock_sync_group_cancel__ends_the_wait_of_another)
{
    struct sync_fixture *fixture = *state;
    struct sync_worker worker = {0};
    struct rlock held = {0};
    struct rlock_group *group = begin_wait(fixture, &held, &worker);

    rlock_sync_group_cancel(fixture->sync, group);
    sync_end(&worker, 1);
    ASSERT_STATUS(worker.status, STATUS_CANCELLED);
    rlock_sync_group_free(fixture->sync, group);
    assert_true(server_has(fixture->server, "b"));
}

SYNC_CASE(test_rlock_sync_group_cancel__before_an_acquire_cancels_one)
{
    struct sync_fixture *fixture = *state;
    struct rlock_group *group = create(fixture, "a", "b");

    rlock_sync_group_cancel(fixture->sync, group);
    ASSERT_STATUS(acquire_group(fixture, group, 0, NULL), STATUS_CANCELLED);
    assert_false(server_has(fixture->server, "a"));
    ASSERT_STATUS(acquire_group(fixture, group, 0, NULL), STATUS_OK);
    rlock_sync_group_free(fixture->sync, group);
}

SYNC_CASE(test_rlock_sync_group_free__ends_the_wait_of_another)
{
    struct sync_fixture *fixture = *state;
    struct sync_worker worker = {0};
    struct rlock held = {0};
    struct rlock_group *group = begin_wait(fixture, &held, &worker);

    rlock_sync_group_free(fixture->sync, group);
    sync_end(&worker, 1);
    ASSERT_STATUS(worker.status, STATUS_CANCELLED);
}

SYNC_CASE(test_rlock_sync_close__ends_groups_that_wait_or_hold)
{
    struct sync_fixture *fixture = *state;
    struct sync_worker worker = {0};
    struct rlock held = {0};
    struct rlock_group *waiting = begin_wait(fixture, &held, &worker);
    struct rlock_group *holding = create(fixture, "c", "d");

    ASSERT_STATUS(acquire_group(fixture, holding, 0, NULL), STATUS_OK);
    rlock_sync_close(fixture->sync);
    sync_end(&worker, 1);
    ASSERT_STATUS(worker.status, STATUS_CANCELLED);
    assert_null(create(fixture, "e", "f"));
    ASSERT_STATUS(acquire_group(fixture, holding, 0, NULL), STATUS_CANCELLED);
    ASSERT_STATUS(rlock_sync_group_release(fixture->sync, holding, NULL),
                  STATUS_CANCELLED);
    assert_int_equal(rlock_sync_group_safe_for_us(fixture->sync, holding), 0);
    assert_int_equal(rlock_sync_group_fence(fixture->sync, holding, 0), 0);
    rlock_sync_group_cancel(fixture->sync, waiting);
    rlock_sync_group_free(fixture->sync, waiting);
    assert_false(server_has(fixture->server, "c") || server_has(fixture->server, "d"));
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
