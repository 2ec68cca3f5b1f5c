/* it_sync_group.c - groups of locks for threads that block. */
#include "test/sync_fixture.h"

#include <string.h>

#define SHORT_MS 3000

static struct rlock_member member_of(struct sync_fixture *fixture, const char *name,
                                     const struct rlock_kind *kind)
{
    return (struct rlock_member){
        .client = fixture->client, .name = name, .name_len = strlen(name), .kind = kind};
}

static struct rlock_group *create_members(struct sync_fixture *fixture,
                                          struct rlock_member first,
                                          struct rlock_member second)
{
    struct rlock_member members[] = {first, second};
    struct rlock_group *group = NULL;

    if (rlock_sync_group_create(fixture->sync, members, 2, RLOCK_GROUP_ALL, &group,
                                NULL) != RLOCK_OK)
        return NULL;
    return group;
}

static struct rlock_group *create(struct sync_fixture *fixture, const char *first,
                                  const char *second)
{
    return create_members(fixture, member_of(fixture, first, NULL),
                          member_of(fixture, second, NULL));
}

static enum rlock_status acquire_group(struct sync_fixture *fixture,
                                       struct rlock_group *group, uint32_t wait_ms,
                                       struct rlock_err *reterr)
{
    struct rlock_group_options options = {.lease_ms = LEASE_MS, .wait_ms = wait_ms};

    return rlock_sync_group_acquire(fixture->sync, group, &options, reterr);
}

static bool on_owner(const struct rlock_info *info, void *arg)
{
    unsigned *ours = arg;

    *ours += info->is_ours;
    return true;
}

SYNC_CASE(test_rlock_sync_group__has_the_calls_of_a_group)
{
    struct sync_fixture *fixture = *state;
    struct rlock_sync *sync = fixture->sync;
    struct rlock_group *group = NULL;
    struct rlock_err err = {0};
    unsigned ours = 0;

    ASSERT_STATUS(rlock_sync_group_create(sync, NULL, 0, RLOCK_GROUP_ALL, &group, &err),
                  RLOCK_INVALID);
    assert_null(group);
    ASSERT_CONTAINS(err.text, "0 members");
    group = create(fixture, "a", "b");
    rlock_sync_group_cancel(sync, group); /* the next acquire */
    ASSERT_STATUS(acquire_group(fixture, group, 0, NULL), RLOCK_CANCELLED);
    assert_int_equal(rlock_sync_group_safe_for_us(sync, group), 0);
    ASSERT_STATUS(rlock_sync_group_extend(sync, group, LEASE_MS, NULL), RLOCK_NOT_OWNER);
    ASSERT_STATUS(rlock_sync_group_acquire(sync, group, NULL, NULL), RLOCK_OK);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL b"), RLOCK_LEASE_MS_DEFAULT / 2,
                   RLOCK_LEASE_MS_DEFAULT);
    ASSERT_NUMBER(rlock_sync_group_fence(sync, group, 1), >,
                  rlock_sync_group_fence(sync, group, 0));
    ASSERT_STATUS(rlock_sync_group_extend(sync, group, 2 * LEASE_MS, NULL), RLOCK_OK);
    ASSERT_NUMBER(rlock_sync_group_safe_for_us(sync, group), >, LEASE_MS * 1000LL);
    ASSERT_STATUS(rlock_sync_group_extend(sync, group, 1, &err), RLOCK_INVALID);
    ASSERT_CONTAINS(err.text, "lease_ms");
    ASSERT_STATUS(rlock_sync_group_inspect(sync, group, on_owner, &ours, NULL), RLOCK_OK);
    assert_int_equal(ours, 2);
    ASSERT_STATUS(rlock_sync_group_release(sync, group, NULL), RLOCK_OK);
    assert_false(server_has(fixture->server, "a") || server_has(fixture->server, "b"));
    ASSERT_STATUS(rlock_sync_group_release(sync, group, NULL), RLOCK_NOT_OWNER);
    ASSERT_STATUS(acquire_group(fixture, group, 0, NULL), RLOCK_OK);
    ASSERT_STATUS(rlock_sync_group_force_release(sync, group, NULL), RLOCK_OK);
    ASSERT_STATUS(rlock_sync_group_extend(sync, group, LEASE_MS, NULL), RLOCK_LOST);
    ASSERT_STATUS(rlock_group_why(group, 1)->status, RLOCK_LOST);
    rlock_sync_group_cancel(sync,
                            group); /* the next acquire, because the group is lost */
    ASSERT_STATUS(acquire_group(fixture, group, 0, NULL), RLOCK_CANCELLED);
    ASSERT_STATUS(acquire_group(fixture, group, 0, NULL), RLOCK_OK);
    rlock_sync_group_free(sync, group); /* releases it */
    sync_await_absent(fixture, "a");
    sync_await_absent(fixture, "b");
    rlock_sync_group_free(sync, NULL);
}

SYNC_CASE(test_rlock_sync_group_acquire__of_a_busy_member_takes_none)
{
    struct sync_fixture *fixture = *state;
    struct rlock_group *group = create(fixture, "a", "b");
    struct rlock held = {0};
    struct rlock_err err = {0};

    ASSERT_STATUS(sync_acquire(fixture, &held, "b", 0), RLOCK_OK);
    ASSERT_STATUS(acquire_group(fixture, group, 0, &err), RLOCK_BUSY);
    assert_string_equal(err.text, "busy");
    sync_await_absent(fixture, "a");
    rlock_sync_group_free(fixture->sync, group);
}

/** A group without a holder takes the calling thread as its holder. So another lock of the thread
 *  shares the lock of the group. */
SYNC_CASE(test_rlock_sync_group_acquire__takes_the_thread_as_its_holder)
{
    struct sync_fixture *fixture = *state;
    const uint64_t holders[] = {0, rlock_sync_holder(), 7};

    for (size_t i = 0; i < sizeof(holders) / sizeof(*holders); i++) {
        struct rlock_group *group =
            create_members(fixture, member_of(fixture, "a", &rlock_reentrant),
                           member_of(fixture, "b", &rlock_plain));
        struct rlock_group_options of_group = {.holder = holders[i]};
        struct rlock_acquire_options of_lock = {.kind = &rlock_reentrant};
        struct rlock lock = {0};

        ASSERT_STATUS(rlock_sync_group_acquire(fixture->sync, group, &of_group, NULL),
                      RLOCK_OK);
        ASSERT_STATUS(rlock_sync_acquire(fixture->sync, fixture->client, &lock, "a", 1,
                                         &of_lock, NULL),
                      holders[i] == 7 ? RLOCK_BUSY : RLOCK_OK);
        ASSERT_STATUS(rlock_sync_group_release(fixture->sync, group, NULL), RLOCK_OK);
        if (holders[i] != 7)
            ASSERT_STATUS(sync_release(fixture, &lock), RLOCK_OK);
        rlock_sync_group_free(fixture->sync, group);
    }
}

static _Atomic unsigned losses;
static void *_Atomic loss_arg;

static void on_lost(struct rlock_group *group UNUSED, enum rlock_status status, void *arg)
{
    loss_arg = arg;
    losses += status == RLOCK_LOST;
}

/** The argument of on_lost is lost_arg of the options. The default would be the `arg` of a call
 *  that has ended, which is on no stack any more. */
SYNC_CASE(test_on_lost__of_a_group_is_called_while_nobody_calls)
{
    struct sync_fixture *fixture = *state;
    struct rlock_group *group = create(fixture, "a", "b");
    void *const args[] = {NULL, fixture};

    for (int i = 0; i < 2; i++) {
        struct rlock_group_options options = {.lease_ms = SHORT_MS,
                                              .watchdog = true,
                                              .on_lost = on_lost,
                                              .lost_arg = args[i]};

        losses = 0;
        loss_arg = &losses;
        ASSERT_STATUS(rlock_sync_group_acquire(fixture->sync, group, &options, NULL),
                      RLOCK_OK);
        server_do(fixture->server, "DEL b");
        sync_await_count(&losses, 1);
        assert_ptr_equal(loss_arg, args[i]);
        sync_await_absent(fixture, "a");
        assert_int_equal(rlock_sync_group_safe_for_us(fixture->sync, group), 0);
        ASSERT_STATUS(rlock_sync_group_release(fixture->sync, group, NULL), RLOCK_LOST);
    }
}

/* -- waits -- */

static void wait_long(struct sync_worker *worker)
{
    worker->status =
        acquire_group(worker->fixture, worker->arg, RLOCK_WAIT_FOREVER, &worker->err);
}

/** Another thread cancels the wait, frees the group, or closes the sync. */
SYNC_CASE(test_wait__of_a_group_is_ended_by_another_thread)
{
    enum { CANCEL, FREE, CLOSE };
    struct sync_fixture *fixture = *state;
    struct rlock_group *holding = create(fixture, "c", "d");

    ASSERT_STATUS(acquire_group(fixture, holding, 0, NULL), RLOCK_OK);
    for (int how = CANCEL; how <= CLOSE; how++) {
        struct sync_worker worker = {.arg = create(fixture, "a", "b")};
        struct rlock held = {0};

        ASSERT_STATUS(sync_acquire(fixture, &held, "b", 0), RLOCK_OK);
        sync_begin(fixture, &worker, 1, wait_long);
        sync_await_tries(fixture, &held, 2);
        if (how == CANCEL)
            rlock_sync_group_cancel(fixture->sync, worker.arg);
        else if (how == FREE)
            rlock_sync_group_free(fixture->sync, worker.arg);
        else
            rlock_sync_close(fixture->sync);
        sync_end(&worker, 1);
        ASSERT_STATUS(worker.status, RLOCK_CANCELLED);
        assert_true(server_has(fixture->server, "b"));
        if (how != CLOSE)
            ASSERT_STATUS(sync_release(fixture, &held), RLOCK_OK);
    }
    assert_null(create(fixture, "e", "f"));
    ASSERT_STATUS(acquire_group(fixture, holding, 0, NULL), RLOCK_CANCELLED);
    ASSERT_STATUS(rlock_sync_group_release(fixture->sync, holding, NULL),
                  RLOCK_CANCELLED);
    assert_int_equal(rlock_sync_group_safe_for_us(fixture->sync, holding), 0);
    assert_int_equal(rlock_sync_group_fence(fixture->sync, holding, 0), 0);
    rlock_sync_group_cancel(fixture->sync, holding);
    rlock_sync_group_free(fixture->sync, holding);
    assert_false(server_has(fixture->server, "c") || server_has(fixture->server, "d"));
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
