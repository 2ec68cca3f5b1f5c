/* it_group.c - groups with RLOCK_GROUP_ALL, on one and on several servers, and the calls
 * that all groups have. */
#include "base/clock.h"
#include "lock/group_round.h"
#include "test/group_fixture.h"

#include <string.h>

/* -- multi-locks -- */

GROUP_CASE(test_acquire__multi_holds_every_member)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    assert_false(rlock_group_is_held(groups.group));
    assert_int_equal(rlock_group_fence(groups.group, 0), 0);
    assert_int_equal(rlock_group_safe_for_us(groups.group, clock_mono_us()), 0);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    assert_true(rlock_group_is_held(groups.group));
    assert_keys("item:7", "111");
    for (size_t i = 0; i < 3; i++)
        ASSERT_NUMBER(rlock_group_fence(groups.group, i), >, 0);
    ASSERT_STATUS(group_release(&groups), STATUS_OK);
    assert_false(rlock_group_is_held(groups.group));
    assert_int_equal(rlock_group_fence(groups.group, 0), 0);
    assert_keys("item:7", "000");
    group_free(&groups);
}

GROUP_CASE(test_acquire__multi_with_one_busy_holds_none)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    set_foreign(1);
    group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = LEASE_MS});
    fixture_hold_timers(groups.fixture); /* it does not wait for a timeout */
    ASSERT_STATUS(group_await(&groups, 1), STATUS_BUSY);
    assert_keys("item:7", "010");
    assert_foreign(1);
    ASSERT_STATUS(group_release(&groups), STATUS_NOT_OWNER);
    group_free(&groups);
}

/** Run the loop until the group waits for this member alone. */
static void wait_asleep(struct group_fixture *groups, size_t member)
{
    const struct call *call =
        list_item(&groups->group->members[member].lock, struct call, lock);

    fixture_wait_asleep(groups->fixture, groups->clients[member], call);
}

GROUP_CASE(test_acquire__multi_is_woken_by_the_release_of_the_busy_member)
{
    struct fixture *fixture = *state;
    struct group_fixture groups;
    struct rlock_client *other;
    struct rlock_stats stats;
    struct call busy = {0};

    group_create(&groups, fixture, 3, RLOCK_GROUP_ALL);
    other = fixture_open(fixture,
                         (struct rlock_client_options){.redis_url = servers[2].unix_url,
                                                       .timeout_ms = TIMEOUT_MS});
    fixture_wait_up(fixture, other);
    ASSERT_STATUS(acquire(fixture, other, &busy, "item:7", LEASE_MS), STATUS_OK);
    group_begin_acquire(&groups,
                        (struct rlock_group_options){.lease_ms = LEASE_MS,
                                                     .wait_ms = RLOCK_WAIT_FOREVER});
    wait_asleep(&groups, 2);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release(fixture, other, &busy), STATUS_OK);
    fixture_wait_count(fixture, &groups.answers, 1);
    ASSERT_STATUS(groups.status, STATUS_OK);
    assert_keys("item:7", "111");
    rlock_client_stats(groups.clients[2], &stats);
    assert_int_equal(stats.released, 0); /* it kept the member that woke it */
    group_free(&groups);
}

/** The time of a try begins with the call, not with the current turn of the loop. */
GROUP_CASE(test_acquire__has_its_time_though_the_loop_was_busy)
{
    struct fixture *fixture = *state;
    struct group_fixture groups;

    group_create(&groups, fixture, 3, RLOCK_GROUP_ALL);
    fixture->loop.time -= 2UL * ROUND_MS; /* the turn began then */
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    group_free(&groups);
}

/* -- groups that contend -- */

#define RACERS 4

struct racer {
    struct group_fixture groups;
    const struct rlock_kind *kind;
    unsigned laps;
};

static void on_acquired(struct rlock_group *group, enum status status, void *arg)
{
    (void)group;
    (void)arg;
    assert_true(status == STATUS_OK || status == STATUS_CANCELLED);
}

static void start_lap(struct racer *racer)
{
    struct rlock_group_options options = {
        .kind = racer->kind, .lease_ms = LEASE_MS, .wait_ms = RLOCK_WAIT_FOREVER};

    rlock_group_acquire(racer->groups.group, &options, on_acquired, NULL);
}

static void on_released(struct rlock_group *group, enum status status, void *arg)
{
    struct racer *racer = arg;

    (void)group;
    if (status == STATUS_CANCELLED)
        return;
    ASSERT_STATUS(status, STATUS_OK);
    racer->laps++;
    start_lap(racer);
}

/** At most one holds its group; it releases it. */
static void turn(struct racer *racers, int count)
{
    struct racer *holder = NULL;

    for (int i = 0; i < count; i++) {
        if (!rlock_group_is_held(racers[i].groups.group))
            continue;
        assert_null(holder);
        holder = &racers[i];
    }
    if (holder != NULL)
        rlock_group_release(holder->groups.group, on_released, holder);
}

/** Let all acquire and release again and again, until each has done so `laps` times. */
static void race(struct fixture *fixture, struct racer *racers, int count, unsigned laps)
{
    int64_t end_us = clock_mono_us() + WITHIN_MS * 1000LL;
    unsigned least = 0;

    for (int i = 0; i < count; i++)
        start_lap(&racers[i]);
    while (least < laps) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
        turn(racers, count);
        least = laps;
        for (int i = 0; i < count; i++)
            least = racers[i].laps < least ? racers[i].laps : least;
        if (clock_mono_us() > end_us)
            fail_msg("%u of %u laps after %d ms", least, laps, WITHIN_MS);
    }
    for (int i = 0; i < count; i++)
        group_free(&racers[i].groups);
}

GROUP_CASE(test_acquire__overlapping_multis_of_any_kind_all_progress)
{
    static const char *const names[RACERS] = {"ab", "ba", "bc", "ca"};
    static const struct rlock_kind *const kinds[] = {&rlock_plain, &rlock_reentrant,
                                                     &rlock_fair};

    for (int kind = 0; kind < 3; kind++) {
        struct racer racers[RACERS] = {0};

        for (int i = 0; i < RACERS; i++) {
            group_create_names(&racers[i].groups, *state, names[i]);
            racers[i].kind = kinds[kind];
        }
        race(*state, racers, RACERS, 100);
    }
}

/** {a, b} and {b, a}, each name on a server of its own. */
GROUP_CASE(test_acquire__overlapping_multis_on_two_servers_all_progress)
{
    struct racer racers[2] = {0};
    struct rlock_member members[2];

    for (int i = 0; i < 2; i++) {
        struct group_fixture *groups = &racers[i].groups;

        group_open(groups, *state, 2);
        members[i] = (struct rlock_member){groups->clients[0], "a", 1};
        members[1 - i] = (struct rlock_member){groups->clients[1], "b", 1};
        ASSERT_STATUS(
            rlock_group_create(members, 2, RLOCK_GROUP_ALL, &groups->group, NULL),
            STATUS_OK);
    }
    race(*state, racers, 2, 200);
}

GROUP_CASE(test_acquire__contending_quorums_all_progress)
{
    struct racer racers[3] = {0};

    for (int i = 0; i < 3; i++)
        group_create(&racers[i].groups, *state, 5, RLOCK_GROUP_MAJORITY);
    race(*state, racers, 3, 10);
}

/* -- cancel and free -- */

GROUP_CASE(test_cancel__ends_a_wait_a_pause_and_a_try)
{
    static const enum rlock_group_need needs[] = {RLOCK_GROUP_ALL, RLOCK_GROUP_MAJORITY};
    struct rlock_group_options options = {.lease_ms = LEASE_MS,
                                          .wait_ms = RLOCK_WAIT_FOREVER};
    struct group_fixture groups;

    for (int i = 0; i < 2; i++) {
        group_create(&groups, *state, 3, needs[i]);
        rlock_group_cancel(groups.group); /* nothing to cancel */
        set_foreign(0);
        set_foreign(1);
        group_begin_acquire(&groups, options);
        fixture_run_for(groups.fixture, 50);
        rlock_group_cancel(groups.group);
        rlock_group_cancel(groups.group);
        ASSERT_STATUS(group_await(&groups, 1), STATUS_CANCELLED);
        delete_key(0);
        delete_key(1);
        group_begin_acquire(&groups, options);
        rlock_group_cancel(groups.group);
        ASSERT_STATUS(group_await(&groups, 2), STATUS_CANCELLED);
        ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
        rlock_group_cancel(groups.group); /* does not end what is held */
        wait_keys(groups.fixture, "111");
        ASSERT_STATUS(group_release(&groups), STATUS_OK);
        wait_keys(groups.fixture, "000");
        group_free(&groups);
    }
}

static void on_step(struct rlock_group *group, enum status status, void *arg)
{
    struct rlock_group_options options = {.lease_ms = LEASE_MS};
    struct group_fixture *groups = arg;

    ASSERT_STATUS(status, groups->answers == 0 ? STATUS_CANCELLED : STATUS_OK);
    if (groups->answers == 0)
        rlock_group_acquire(group, &options, on_step, groups);
    else if (groups->answers == 1)
        rlock_group_release(group, on_step, groups);
    groups->answers++;
}

GROUP_CASE(test_callback__may_call_again)
{
    struct rlock_group_options options = {.lease_ms = LEASE_MS};
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    rlock_group_acquire(groups.group, &options, on_step, &groups);
    rlock_group_cancel(groups.group);
    fixture_wait_count(groups.fixture, &groups.answers, 3);
    assert_keys("item:7", "000");
    group_free(&groups);
}

GROUP_CASE(test_free__answers_a_try_and_releases)
{
    struct fixture *fixture = *state;
    struct group_fixture groups;

    group_create(&groups, fixture, 3, RLOCK_GROUP_ALL);
    group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = LEASE_MS});
    rlock_group_free(groups.group);
    assert_int_equal(groups.answers, 1);
    ASSERT_STATUS(groups.status, STATUS_CANCELLED);
    for (int i = 0; i < 3; i++)
        wait_command(fixture, i, "mget"); /* of the release */
    wait_keys(fixture, "000");
}

GROUP_CASE(test_free__releases_what_is_held_or_being_released)
{
    struct group_fixture held, releasing;

    rlock_group_free(NULL);
    group_create(&held, *state, 3, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire_watched(&held, LEASE_MS), STATUS_OK);
    rlock_group_free(held.group);
    assert_int_equal(held.answers, 1);
    for (int i = 0; i < 3; i++)
        wait_absent(held.fixture, i);

    group_create(&releasing, *state, 3, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire(&releasing), STATUS_OK);
    group_begin_release(&releasing);
    rlock_group_free(releasing.group);
    assert_int_equal(releasing.answers, 2);
    ASSERT_STATUS(releasing.status, STATUS_CANCELLED);
    for (int i = 0; i < 3; i++)
        wait_absent(releasing.fixture, i);
}

GROUP_CASE(test_free__outlives_a_hung_server_and_a_closed_client)
{
    struct fixture *fixture = *state;
    struct group_fixture groups;

    group_create(&groups, fixture, 3, RLOCK_GROUP_ALL);
    server_pause(&servers[2]);
    group_begin_acquire(&groups, (struct rlock_group_options){.lease_ms = LEASE_MS});
    fixture_run_for(fixture, 20);
    rlock_group_free(groups.group);
    ASSERT_STATUS(groups.status, STATUS_CANCELLED);
    fixture_close_hung(fixture, groups.clients[2]);
    wait_absent(fixture, 0);
    server_resume(&servers[2]);
    wait_absent(fixture, 2);
}

static void on_client_closed(void *arg)
{
    unsigned *closed_count = arg;

    ++*closed_count;
}

GROUP_CASE(test_client_close__ends_a_try_of_its_group)
{
    struct fixture *fixture = *state;
    struct group_fixture groups;

    group_create(&groups, fixture, 1, RLOCK_GROUP_ALL);
    server_pause(&servers[0]);
    group_begin_acquire(&groups,
                        (struct rlock_group_options){.lease_ms = LEASE_MS,
                                                     .wait_ms = RLOCK_WAIT_FOREVER});
    fixture->clients[0] = NULL;
    rlock_client_close(groups.clients[0], on_client_closed, &fixture->closed_count);
    ASSERT_STATUS(group_await(&groups, 1), STATUS_CANCELLED);
    assert_int_equal(fixture->closed_count, 0); /* it outlives the group */
    group_free(&groups);
    server_resume(&servers[0]);
}

/* -- bad use -- */

static void refuse(const struct rlock_member *members, size_t count,
                   enum rlock_group_need need, const char *words)
{
    struct rlock_group *group = NULL;
    struct err err = {0};

    ASSERT_STATUS(rlock_group_create(members, count, need, &group, &err), STATUS_INVALID);
    assert_null(group);
    ASSERT_CONTAINS(err.text, words);
}

GROUP_CASE(test_create__refuses_bad_members)
{
    struct rlock_member members[RLOCK_GROUP_MAX + 1];
    char names[RLOCK_GROUP_MAX + 1];
    char longest[RLOCK_NAME_MAX + 1];
    struct group_fixture groups;

    group_open(&groups, *state, 2);
    for (int i = 0; i <= RLOCK_GROUP_MAX; i++) {
        names[i] = (char)i;
        members[i] = (struct rlock_member){groups.clients[0], &names[i], 1};
    }
    refuse(members, 0, RLOCK_GROUP_ALL, "0 members");
    refuse(members, RLOCK_GROUP_MAX + 1, RLOCK_GROUP_ALL, "65 members");
    refuse(members, 2, RLOCK_GROUP_MAJORITY, "share a client");
    members[2].name = &names[1];
    refuse(members, 3, RLOCK_GROUP_ALL, "members 1 and 2 are the same");
    members[2].client = groups.clients[1]; /* on another server it is another lock */
    ASSERT_STATUS(rlock_group_create(members, 3, RLOCK_GROUP_ALL, &groups.group, NULL),
                  STATUS_OK);
    group_free(&groups);
    members[1].name_len = 0;
    refuse(members, 3, RLOCK_GROUP_ALL, "name of member 1");
    memset(longest, 'n', sizeof(longest));
    members[1] = (struct rlock_member){groups.clients[0], longest, sizeof(longest)};
    refuse(members, 3, RLOCK_GROUP_ALL, "name of member 1");
    members[1] = (struct rlock_member){groups.clients[0], NULL, 1};
    refuse(members, 3, RLOCK_GROUP_ALL, "name of member 1");
}

GROUP_CASE(test_create__refuses_clients_of_different_loops)
{
    struct fixture *fixture = *state;
    struct rlock_client_options options = {.redis_url = servers[0].unix_url,
                                           .timeout_ms = TIMEOUT_MS};
    struct rlock_client *other = NULL;
    struct rlock_member members[2];
    uv_loop_t loop;

    uv_loop_init(&loop);
    options.loop = &loop;
    ASSERT_STATUS(rlock_client_open(&options, &other, NULL), STATUS_OK);
    members[0] = (struct rlock_member){fixture_client(fixture), "a", 1};
    members[1] = (struct rlock_member){other, "b", 1};
    refuse(members, 2, RLOCK_GROUP_ALL, "loops");
    rlock_client_close(other, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

GROUP_CASE(test_acquire__refuses_a_bad_lease_and_can_be_used_again)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_MAJORITY);
    ASSERT_STATUS(group_acquire_with(&groups,
                                     (struct rlock_group_options){
                                         .lease_ms = 1, .wait_ms = RLOCK_WAIT_FOREVER}),
                  STATUS_INVALID);
    ASSERT_STATUS(
        group_acquire_with(
            &groups, (struct rlock_group_options){.lease_ms = RLOCK_LEASE_MS_MAX + 1}),
        STATUS_INVALID);
    ASSERT_STATUS(group_acquire(&groups), STATUS_OK);
    group_free(&groups);
}

GROUP_CASE(test_acquire__while_held_or_under_way_is_refused)
{
    struct rlock_group_options options = {.lease_ms = LEASE_MS};
    struct group_fixture groups;
    int64_t fence;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    group_begin_acquire(&groups, options);
    group_begin_acquire(&groups, options);
    group_begin_release(&groups);
    assert_int_equal(groups.answers, 0);
    fixture_wait_count(groups.fixture, &groups.answers, 3);
    assert_true(rlock_group_is_held(groups.group));
    fence = rlock_group_fence(groups.group, 1);
    ASSERT_STATUS(group_acquire(&groups), STATUS_INVALID);
    assert_true(rlock_group_is_held(groups.group));
    assert_int_equal(rlock_group_fence(groups.group, 1), fence);
    ASSERT_STATUS(group_release(&groups), STATUS_OK);
    group_free(&groups);
}

GROUP_CASE(test_free__answers_what_was_refused)
{
    struct group_fixture groups;

    group_create(&groups, *state, 3, RLOCK_GROUP_ALL);
    group_begin_release(&groups);
    group_begin_release(&groups);
    rlock_group_free(groups.group);
    assert_int_equal(groups.answers, 2);
    ASSERT_STATUS(groups.status, STATUS_NOT_OWNER);
}

int main(void)
{
    return cases_run(group_start_servers, group_stop_servers);
}
