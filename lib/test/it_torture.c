/*
 * it_torture.c - fails each allocation of the library in turn. Every call is answered once, nothing
 * leaks, and no lock is in two states.
 */
#include "base/clock.h"
#include "lock/internal.h"
#include "lock/rlock_group.h"
#include "test/sync_fixture.h"
#include "test/torture.h"

#include <string.h>

/* -- asynchronous -- */

struct scene {
    struct fixture *fixture;
    struct rlock_client *client;
    bool is_closed;
};

struct step {
    struct rlock lock;
    struct rlock_group *group;
    unsigned answers;
    enum rlock_status status;
};

static void torture_on_lock(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct step *step = arg;

    assert_ptr_equal(lock, &step->lock);
    step->answers++;
    step->status = status;
}

static void torture_on_group(struct rlock_group *group, enum rlock_status status,
                             void *arg)
{
    struct step *step = arg;

    assert_ptr_equal(group, step->group);
    step->answers++;
    step->status = status;
}

static void torture_on_status(enum rlock_status status, void *arg)
{
    struct step *step = arg;

    step->answers++;
    step->status = status;
}

static void torture_on_info(enum rlock_status status, const struct rlock_info *info,
                            void *arg)
{
    ASSERT_STATUS(info != NULL, status == RLOCK_OK);
    torture_on_status(status, arg);
}

static bool torture_on_owner(const struct rlock_info *info, void *arg)
{
    (void)arg;
    return info->is_ours;
}

static bool has_answer(void *arg)
{
    return ((struct step *)arg)->answers > 0;
}

static bool is_up(void *arg)
{
    return rlock_client_is_up(arg);
}

/** Assert that the lock is watched, or in a batch, only while its owner holds it. */
static void assert_one_state(const struct rlock *lock)
{
    bool is_watched = lock->watch_link.next != NULL && !list_is_empty(&lock->watch_link);

    assert_int_equal(is_watched, rlock_is_held(lock) && lock->watched);
    assert_true(lock->batch == NULL || is_watched);
    assert_null(lock->waiter);
}

/** Run the loop until the step is answered, and assert that there is one answer. Then the step
 *  may be used again. */
static enum rlock_status settle(struct scene *scene, struct step *step)
{
    rlock_flush(scene->client);
    FIXTURE_AWAIT(scene->fixture, has_answer, step);
    assert_int_equal(step->answers, 1);
    step->answers = 0;
    FIXTURE_AWAIT(scene->fixture, is_up, scene->client);
    return step->status;
}

static bool settle_lock(struct scene *scene, struct step *step)
{
    enum rlock_status status = settle(scene, step);

    assert_one_state(&step->lock);
    return status == RLOCK_OK;
}

static bool torture_acquire(struct scene *scene, struct step *step,
                            const struct rlock_kind *kind, uint32_t wait_ms)
{
    struct rlock_acquire_options options = {.kind = kind,
                                            .permits = permits_of(kind),
                                            .lease_ms = LEASE_MS,
                                            .watchdog = true,
                                            .wait_ms = wait_ms};
    bool is_granted;

    rlock_acquire(scene->client, &step->lock, "item:7", 6, &options, torture_on_lock,
                  step);
    is_granted = settle_lock(scene, step);
    assert_int_equal(is_granted, rlock_is_held(&step->lock));
    if (is_granted)
        assert_true(server_has(scene->fixture->server, "item:7"));
    return is_granted;
}

static void torture_extend(struct scene *scene, struct step *step)
{
    rlock_extend(scene->client, &step->lock, LEASE_MS / 2, torture_on_lock, step);
    (void)settle_lock(scene, step);
}

static void torture_release(struct scene *scene, struct step *step)
{
    bool was_held = rlock_is_held(&step->lock);

    rlock_release(scene->client, &step->lock, torture_on_lock, step);
    if (settle_lock(scene, step))
        assert_true(was_held);
    assert_false(rlock_is_held(&step->lock));
}

static void hold(struct scene *scene, const struct rlock_kind *kind)
{
    struct step step = {0};

    if (!torture_acquire(scene, &step, kind, 0))
        return;
    torture_extend(scene, &step);
    if (step.status == RLOCK_NO_MEMORY)
        assert_true(rlock_is_held(&step.lock));
    torture_release(scene, &step);
}

static void wait_for_it(struct scene *scene, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = {.kind = kind,
                                            .permits = permits_of(kind),
                                            .holder = 1,
                                            .lease_ms = LEASE_MS,
                                            .watchdog = true,
                                            .wait_ms = WITHIN_MS};
    struct step first = {0}, second = {0};

    if (!torture_acquire(scene, &first, kind, 0))
        return;
    rlock_acquire(scene->client, &second.lock, "item:7", 6, &options, torture_on_lock,
                  &second);
    rlock_flush(scene->client);
    torture_release(scene, &first);
    /* the library releases `first` later, and the test does not wait for the release */
    if (first.status != RLOCK_OK)
        rlock_cancel(scene->client, &second.lock);
    if (settle_lock(scene, &second))
        torture_release(scene, &second);
}

static void pass_it_on(struct scene *scene)
{
    struct rlock_acquire_options options = {.kind = &rlock_cohort,
                                            .lease_ms = LEASE_MS,
                                            .watchdog = true,
                                            .wait_ms = WITHIN_MS};
    struct step first = {0}, others[2] = {0};

    if (!torture_acquire(scene, &first, &rlock_cohort, 0))
        return;
    for (int i = 0; i < 2; i++)
        rlock_acquire(scene->client, &others[i].lock, "item:7", 6, &options,
                      torture_on_lock, &others[i]);
    rlock_flush(scene->client);
    torture_release(scene, &first);
    for (int i = 0; i < 2; i++) {
        if (first.status != RLOCK_OK)
            rlock_cancel(scene->client, &others[i].lock);
        if (settle_lock(scene, &others[i]))
            torture_release(scene, &others[i]);
    }
}

static void ask(struct scene *scene)
{
    struct step step = {0};

    rlock_inspect(scene->client, "item:7", 6, torture_on_info, &step);
    (void)settle(scene, &step);
    rlock_force_release(scene->client, "item:7", 6, torture_on_status, &step);
    (void)settle(scene, &step);
}

static void hold_group(struct scene *scene)
{
    struct rlock_member members[] = {
        {.client = scene->client, .name = "a", .name_len = 1},
        {.client = scene->client, .name = "b", .name_len = 1},
    };
    struct rlock_group_options options = {.lease_ms = LEASE_MS, .watchdog = true};
    struct step step = {0};

    if (rlock_group_create(members, 2, RLOCK_GROUP_ALL, &step.group, NULL) != RLOCK_OK)
        return;
    rlock_group_release(step.group, torture_on_group, &step);
    assert_true(settle(scene, &step) != RLOCK_OK);
    rlock_group_acquire(step.group, &options, torture_on_group, &step);
    if (settle(scene, &step) == RLOCK_OK) {
        rlock_group_extend(step.group, LEASE_MS / 2, torture_on_group, &step);
        (void)settle(scene, &step);
        rlock_group_inspect(step.group, torture_on_owner, torture_on_status, &step);
        (void)settle(scene, &step);
        rlock_group_force_release(step.group, torture_on_status, &step);
        (void)settle(scene, &step);
        rlock_group_release(step.group, torture_on_group, &step);
        (void)settle(scene, &step);
    }
    rlock_group_free(step.group);
}

static void torture_on_closed(void *arg)
{
    ((struct scene *)arg)->is_closed = true;
}

static bool scene_is_closed(void *arg)
{
    return ((struct scene *)arg)->is_closed;
}

static void use_client(void *arg)
{
    struct scene scene = {.fixture = arg};
    struct rlock_client_options options = {.loop = &scene.fixture->loop,
                                           .redis_url = scene.fixture->server->tcp_url,
                                           .timeout_ms = TIMEOUT_MS};
    struct rlock_err err = {0};
    enum rlock_status status = rlock_client_open(&options, &scene.client, &err);

    if (status != RLOCK_OK) {
        ASSERT_STATUS(status, RLOCK_NO_MEMORY);
        ASSERT_CONTAINS(err.text, "lock client: no memory");
        return;
    }
    FIXTURE_AWAIT(scene.fixture, is_up, scene.client);
    server_do(scene.fixture->server, "FLUSHALL");
    hold(&scene, &rlock_plain);
    ask(&scene);
    hold(&scene, &rlock_reentrant);
    ask(&scene);
    wait_for_it(&scene, &rlock_plain);
    ask(&scene);
    wait_for_it(&scene, &rlock_fair);
    ask(&scene);
    wait_for_it(&scene, &rlock_semaphore);
    ask(&scene);
    wait_for_it(&scene, &rlock_write);
    ask(&scene);
    pass_it_on(&scene);
    ask(&scene);
    hold_group(&scene);
    rlock_client_close(scene.client, torture_on_closed, &scene);
    FIXTURE_AWAIT(scene.fixture, scene_is_closed, &scene);
    fixture_run_for(scene.fixture, 4); /* a group is freed in a later turn */
}

FIXTURE_CASE(test_client__survives_the_failure_of_each_allocation)
{
    ASSERT_NUMBER(torture_each(use_client, *state), >, 40);
}

/* -- synchronous -- */

static void use_sync(void *arg)
{
    struct server *server = arg;
    struct rlock_client_options options = {.redis_url = server->tcp_url,
                                           .timeout_ms = TIMEOUT_MS};
    struct rlock_acquire_options acquire = {.lease_ms = LEASE_MS, .watchdog = true};
    struct rlock_client *client = NULL;
    struct rlock_sync *sync = NULL;
    struct rlock lock = {0};
    struct rlock_err err = {0};
    enum rlock_status status;

    if (rlock_sync_start(&sync, &err) != RLOCK_OK)
        return;
    status = rlock_sync_open(sync, &options, &client, &err);
    if (status == RLOCK_OK)
        status = rlock_sync_acquire(sync, client, &lock, "item:7", 6, &acquire, &err);
    if (status == RLOCK_OK) {
        status = rlock_sync_extend(sync, client, &lock, LEASE_MS / 2, &err);
        assert_int_not_equal(status, RLOCK_INVALID);
        status = rlock_sync_force_release(sync, client, "item:7", 6, &err);
        assert_int_not_equal(status, RLOCK_INVALID);
        status = rlock_sync_release(sync, client, &lock, &err);
    }
    assert_int_not_equal(status, RLOCK_INVALID);
    rlock_sync_close(sync);
    rlock_sync_free(sync);
}

SYNC_CASE(test_rlock_sync__survives_the_failure_of_each_allocation)
{
    struct sync_fixture *fixture = *state;

    ASSERT_NUMBER(torture_each(use_sync, fixture->server), >, 10);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
