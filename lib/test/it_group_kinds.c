/*
 * it_group_kinds.c - a group with a member of each kind, on a real Redis.
 *
 * The member of kind kinds[i] has the name names[i]. In each test, one member after the other is
 * busy or is lost.
 */
#include "base/clock.h"
#include "lock/group_round.h"
#include "test/waits.h"

#include <string.h>

#define EXTENDED_MS (2 * LEASE_MS)

static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS, &rlock_read};
enum { KINDS = 8 };
static const char names[KINDS][2] = {"a", "b", "c", "d", "e", "f", "g", "h"};

struct scene {
    struct fixture *fixture;
    struct rlock_client *client;
    struct rlock_group *group;
    unsigned answers, losses;
    enum rlock_status status;
};

static struct rlock_member member_of(struct rlock_client *client, int kind)
{
    return (struct rlock_member){.client = client,
                                 .name = names[kind],
                                 .name_len = 1,
                                 .kind = kinds[kind],
                                 .permits = permits_of(kinds[kind])};
}

static void create(struct scene *scene, struct fixture *fixture)
{
    struct rlock_member members[KINDS];

    *scene = (struct scene){.fixture = fixture, .client = fixture_client(fixture)};
    for (int i = 0; i < KINDS; i++)
        members[i] = member_of(scene->client, i);
    ASSERT_STATUS(
        rlock_group_create(members, KINDS, RLOCK_GROUP_ALL, &scene->group, NULL),
        RLOCK_OK);
}

static void on_answer(struct rlock_group *group UNUSED, enum rlock_status status,
                      void *arg)
{
    struct scene *scene = arg;

    scene->answers++;
    scene->status = status;
}

static void on_lost(struct rlock_group *group, enum rlock_status status, void *arg)
{
    struct scene *scene = arg;

    ASSERT_STATUS(status, RLOCK_LOST);
    assert_false(rlock_group_is_held(group));
    scene->losses++;
}

static void begin_acquire(struct scene *scene, uint32_t wait_ms)
{
    struct rlock_group_options options = {
        .lease_ms = LEASE_MS, .watchdog = true, .on_lost = on_lost, .wait_ms = wait_ms};

    scene->answers = 0;
    rlock_group_acquire(scene->group, &options, on_answer, scene);
}

static enum rlock_status await(struct scene *scene)
{
    fixture_wait_count(scene->fixture, &scene->answers, 1);
    return scene->status;
}

static enum rlock_status acquire_group(struct scene *scene)
{
    begin_acquire(scene, 0);
    return await(scene);
}

static enum rlock_status release_group(struct scene *scene)
{
    scene->answers = 0;
    rlock_group_release(scene->group, on_answer, scene);
    return await(scene);
}

/** Return the number of keys, without the fence counter and the key of the waiters. */
static long long count_keys(struct scene *scene)
{
    struct server *server = scene->fixture->server;

    return server_int(server, "DBSIZE") -
           server_int(server, "EXISTS lock:fence lock:fence:waiting");
}

static bool has_no_key(void *arg)
{
    return count_keys(arg) == 0;
}

static bool has_one_key(void *arg)
{
    return count_keys(arg) == 1;
}

static void assert_leases(struct scene *scene, long long least_ms)
{
    assert_int_equal(count_keys(scene), KINDS);
    for (int i = 0; i < KINDS; i++)
        ASSERT_NUMBER(server_int(scene->fixture->server, "PTTL %s", names[i]), >,
                      least_ms);
}

static void assert_fences_grow(struct scene *scene, int64_t fences[KINDS])
{
    for (int i = 0; i < KINDS; i++) {
        int64_t fence = rlock_group_fence(scene->group, (size_t)i);

        ASSERT_NUMBER(fence, >, fences[i]);
        fences[i] = fence;
    }
}

/* -- one busy member -- */

/** Let another client acquire a lock that keeps the member of this kind busy. */
static void hold_against(struct scene *scene, struct rlock_client *rival,
                         struct call *held, int kind)
{
    bool is_read = kinds[kind] == &rlock_read;
    struct rlock_acquire_options options =
        waiting(is_read ? &rlock_write : kinds[kind], 0, 0);

    ASSERT_STATUS(acquire_with(scene->fixture, rival, held, names[kind], &options),
                  RLOCK_OK);
}

FIXTURE_CASE(test_acquire__of_each_busy_kind_holds_no_member)
{
    struct scene scene;
    struct rlock_client *rival = fixture_client(*state);

    create(&scene, *state);
    for (int i = 0; i < KINDS; i++) {
        struct call held = {0};

        hold_against(&scene, rival, &held, i);
        ASSERT_STATUS(acquire_group(&scene), RLOCK_BUSY);
        ASSERT_STATUS(rlock_group_why(scene.group, (size_t)i)->status, RLOCK_BUSY);
        FIXTURE_AWAIT(scene.fixture, has_one_key, &scene);
        assert_true(server_has(scene.fixture->server, names[i]));
        ASSERT_STATUS(release(scene.fixture, rival, &held), RLOCK_OK);
    }
    assert_true(has_no_key(&scene));
    rlock_group_free(scene.group);
}

struct sleeper {
    struct scene *scene;
    int kind;
};

static bool waits_for_one(void *arg)
{
    const struct sleeper *sleeper = arg;
    const struct rlock *lock = &sleeper->scene->group->members[sleeper->kind].lock;

    return lock->waiter != NULL && lock->batch == NULL;
}

static bool has_only_its_name(void *arg)
{
    const struct sleeper *sleeper = arg;

    for (int i = 0; i < KINDS; i++) {
        if (server_has(sleeper->scene->fixture->server, names[i]) != (i == sleeper->kind))
            return false;
    }
    return true;
}

FIXTURE_CASE(test_acquire__waits_for_each_busy_kind_while_it_holds_none)
{
    struct scene scene;
    struct rlock_client *rival = fixture_client(*state);
    int64_t fences[KINDS] = {0};

    create(&scene, *state);
    for (int i = 0; i < KINDS; i++) {
        struct call held = {0};
        struct sleeper sleeper = {&scene, i};

        hold_against(&scene, rival, &held, i);
        begin_acquire(&scene, RLOCK_WAIT_FOREVER);
        FIXTURE_AWAIT(scene.fixture, waits_for_one, &sleeper);
        FIXTURE_AWAIT(scene.fixture, has_only_its_name, &sleeper);
        ASSERT_STATUS(release(scene.fixture, rival, &held), RLOCK_OK);
        ASSERT_STATUS(await(&scene), RLOCK_OK);
        assert_fences_grow(&scene, fences);
        ASSERT_STATUS(release_group(&scene), RLOCK_OK);
        assert_true(has_no_key(&scene));
    }
    rlock_group_free(scene.group);
}

/* -- held groups -- */

FIXTURE_CASE(test_watchdog__renews_every_kind_of_a_group)
{
    struct scene scene;

    create(&scene, *state);
    ASSERT_STATUS(acquire_group(&scene), RLOCK_OK);
    for (int i = 0; i < 4; i++) {
        fixture_pass_renewal(scene.fixture, scene.client, LEASE_MS, KINDS);
        assert_leases(&scene, LEASE_MS / 2);
    }
    ASSERT_NUMBER(rlock_group_safe_for_us(scene.group, clock_mono_us()), >,
                  LEASE_MS * 500LL);
    scene.answers = 0;
    rlock_group_extend(scene.group, EXTENDED_MS, on_answer, &scene);
    ASSERT_STATUS(await(&scene), RLOCK_OK);
    assert_leases(&scene, LEASE_MS);
    ASSERT_STATUS(release_group(&scene), RLOCK_OK);
    assert_true(has_no_key(&scene));
    assert_int_equal(scene.losses, 0);
    rlock_group_free(scene.group);
}

FIXTURE_CASE(test_on_lost__of_each_kind_is_called_once_and_ends_the_others)
{
    struct scene scene;

    create(&scene, *state);
    for (int i = 0; i < KINDS; i++) {
        scene.losses = 0;
        ASSERT_STATUS(acquire_group(&scene), RLOCK_OK);
        server_do(scene.fixture->server, "DEL %s", names[i]);
        fixture_pass_ms(scene.fixture, LEASE_MS / 3 + 1);
        fixture_wait_count(scene.fixture, &scene.losses, 1);
        FIXTURE_AWAIT(scene.fixture, has_no_key, &scene);
        ASSERT_STATUS(release_group(&scene), RLOCK_LOST);
        assert_int_equal(scene.losses, 1);
    }
    rlock_group_free(scene.group);
}

/* -- permits -- */

#define PERMITS 2

/** Create a group with two members: a permit of the semaphore that all groups share, and a lock
 *  that only this group uses. */
static void create_sharing(struct scene *scene, struct fixture *fixture, int index)
{
    struct rlock_member members[2];

    *scene = (struct scene){.fixture = fixture, .client = fixture_client(fixture)};
    members[0] = member_of(scene->client, index);
    members[1] = (struct rlock_member){.client = scene->client,
                                       .name = "permit",
                                       .name_len = strlen("permit"),
                                       .kind = &rlock_semaphore,
                                       .permits = PERMITS};
    ASSERT_STATUS(rlock_group_create(members, 2, RLOCK_GROUP_ALL, &scene->group, NULL),
                  RLOCK_OK);
}

static bool leaves_the_name_free(void *arg)
{
    const struct scene *scene = arg;

    return !server_has(scene->fixture->server, names[PERMITS]);
}

FIXTURE_CASE(test_groups__share_a_semaphore_up_to_its_permits)
{
    struct scene scenes[PERMITS + 1];

    for (int i = 0; i <= PERMITS; i++)
        create_sharing(&scenes[i], *state, i);
    for (int i = 0; i < PERMITS; i++)
        ASSERT_STATUS(acquire_group(&scenes[i]), RLOCK_OK);
    ASSERT_STATUS(acquire_group(&scenes[PERMITS]), RLOCK_BUSY);
    FIXTURE_AWAIT(scenes->fixture, leaves_the_name_free, &scenes[PERMITS]);
    begin_acquire(&scenes[PERMITS], RLOCK_WAIT_FOREVER);
    ASSERT_STATUS(release_group(&scenes[0]), RLOCK_OK);
    ASSERT_STATUS(await(&scenes[PERMITS]), RLOCK_OK);
    assert_int_equal(server_int(scenes->fixture->server, "ZCARD permit"), PERMITS);
    for (int i = 1; i <= PERMITS; i++)
        ASSERT_STATUS(release_group(&scenes[i]), RLOCK_OK);
    assert_true(has_no_key(scenes));
    for (int i = 0; i <= PERMITS; i++)
        rlock_group_free(scenes[i].group);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
