/* it_group.c - groups of locks on three private servers. */
#include "base/clock.h"
#include "lock/group_round.h"
#include "test/fixture.h"
#include "test/torture.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define SERVERS 3
#define NAME    "item:7" /* the name of the member on each server */

static struct server servers[SERVERS];

struct group_test {
    struct fixture *fixture;
    struct rlock_client *clients[SERVERS];
    struct rlock_group *group;
    unsigned answers;
    enum rlock_status status;
};

static int start_servers(void **state UNUSED)
{
    for (int i = 0; i < SERVERS; i++)
        server_start(&servers[i], NULL);
    fixture_use_server(&servers[0]);
    return 0;
}

static int stop_servers(void **state UNUSED)
{
    for (int i = 0; i < SERVERS; i++)
        server_stop(&servers[i]);
    return 0;
}

static int setup(void **state)
{
    for (int i = 0; i < SERVERS; i++) {
        if (servers[i].pid == 0)
            server_restart(&servers[i]);
        server_resume(&servers[i]);
        server_do(&servers[i], "FLUSHALL");
    }
    return fixture_setup(state);
}

#define GROUP_CASE(name) GUARDED_CASE(name, setup, fixture_teardown)

static void open_clients(struct group_test *test, struct fixture *fixture, int count)
{
    struct rlock_client_options options = {.timeout_ms = TIMEOUT_MS};

    *test = (struct group_test){.fixture = fixture};
    for (int i = 0; i < count; i++) {
        options.redis_url = servers[i].unix_url;
        test->clients[i] = fixture_open(fixture, options);
        fixture_wait_up(fixture, test->clients[i]);
    }
}

static void create(struct group_test *test, struct fixture *fixture,
                   enum rlock_group_need need)
{
    struct rlock_member members[SERVERS];

    open_clients(test, fixture, SERVERS);
    for (int i = 0; i < SERVERS; i++)
        members[i] = (struct rlock_member){
            .client = test->clients[i], .name = NAME, .name_len = strlen(NAME)};
    ASSERT_STATUS(rlock_group_create(members, SERVERS, need, &test->group, NULL),
                  RLOCK_OK);
}

/** Create a group with RLOCK_GROUP_ALL on the first server. Each letter of `names` is the name of
 *  a member. The kind of the member `a` is kinds[0], the kind of `b` is kinds[1], and so on. */
static void create_names(struct group_test *test, struct fixture *fixture,
                         const char *names, const struct rlock_kind *const *kinds)
{
    struct rlock_member members[SERVERS];
    size_t count = strlen(names);

    open_clients(test, fixture, 1);
    for (size_t i = 0; i < count; i++)
        members[i] = (struct rlock_member){.client = test->clients[0],
                                           .name = &names[i],
                                           .name_len = 1,
                                           .kind = kinds[names[i] - 'a'],
                                           .permits = permits_of(kinds[names[i] - 'a'])};
    ASSERT_STATUS(rlock_group_create(members, count, RLOCK_GROUP_ALL, &test->group, NULL),
                  RLOCK_OK);
}

static void on_answer(struct rlock_group *group, enum rlock_status status, void *arg)
{
    struct group_test *test = arg;

    assert_ptr_equal(group, test->group);
    test->answers++;
    test->status = status;
}

static void begin_acquire(struct group_test *test, struct rlock_group_options options)
{
    options.lease_ms = LEASE_MS;
    rlock_group_acquire(test->group, &options, on_answer, test);
}

static enum rlock_status await(struct group_test *test)
{
    unsigned answers = test->answers;

    fixture_wait_count(test->fixture, &test->answers, answers + 1);
    return test->status;
}

static enum rlock_status acquire_group(struct group_test *test)
{
    begin_acquire(test, (struct rlock_group_options){.watchdog = true});
    return await(test);
}

static enum rlock_status extend_group(struct group_test *test, uint32_t lease_ms)
{
    rlock_group_extend(test->group, lease_ms, on_answer, test);
    return await(test);
}

/** Whether the servers have the key NAME as `arg` says. `arg` has one character for each server:
 *  '1' the key exists, '0' it does not exist. */
static bool has_keys(void *arg)
{
    const char *wanted = arg;

    for (int i = 0; wanted[i] != '\0'; i++) {
        if (server_has(&servers[i], NAME) != (wanted[i] == '1'))
            return false;
    }
    return true;
}

static void wait_keys(struct group_test *test, const char *wanted)
{
    if (!fixture_run_until(test->fixture, has_keys, (char *)wanted, WITHIN_MS))
        fail_msg("the keys are not %s after %d ms", wanted, WITHIN_MS);
}

static void set_foreign(int server)
{
    server_do(&servers[server], "SET " NAME " foreign PX 600000");
}

/* -- groups that contend -- */

#define RACERS 4

struct racer {
    struct group_test test;
    unsigned laps;
};

/** Let the racer that holds its group release it. At most one racer may hold its group. */
static void turn(struct racer *racers)
{
    struct racer *holder = NULL;

    for (int i = 0; i < RACERS; i++) {
        struct group_test *test = &racers[i].test;

        if (test->answers == 0)
            continue;
        ASSERT_STATUS(test->status, RLOCK_OK);
        test->answers = 0;
        if (rlock_group_is_held(test->group)) {
            assert_null(holder);
            holder = &racers[i];
            rlock_group_release(test->group, on_answer, test);
        } else {
            racers[i].laps++;
            begin_acquire(test,
                          (struct rlock_group_options){.wait_ms = RLOCK_WAIT_FOREVER});
        }
    }
}

static bool have_done_laps(void *arg)
{
    struct racer *racers = arg;

    turn(racers);
    for (int i = 0; i < RACERS; i++) {
        if (racers[i].laps < 10)
            return false;
    }
    return true;
}

/** In each round any two groups share a member, and some groups name the shared members in another
 *  order. */
GROUP_CASE(test_acquire__of_groups_that_contend_makes_progress)
{
    static const char *const names[RACERS] = {"ab", "ba", "bc", "ca"};
    static const struct rlock_kind *const kinds[][3] = {
        {NULL},
        {&rlock_plain, &rlock_plain, &rlock_plain},
        {&rlock_fair, &rlock_semaphore, &rlock_write},
        {&rlock_cohort, &rlock_reentrant, &rlock_fair_semaphore},
    };
    static struct racer racers[RACERS];

    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        memset(racers, 0, sizeof(racers));
        for (int i = 0; i < RACERS; i++) {
            struct group_test *test = &racers[i].test;

            if (kinds[k][0] == NULL)
                create(test, *state, RLOCK_GROUP_MAJORITY);
            else
                create_names(test, *state, names[i], kinds[k]);
            begin_acquire(test,
                          (struct rlock_group_options){.wait_ms = RLOCK_WAIT_FOREVER});
        }
        FIXTURE_AWAIT(*state, have_done_laps, racers);
        for (int i = 0; i < RACERS; i++)
            rlock_group_free(racers[i].test.group);
    }
}

/* -- held groups -- */

struct found {
    struct group_test *test;
    unsigned ours, ended;
    char at[SERVERS + 1]; /* '1' for each server that has reported an owner, else '0' */
    enum rlock_status status;
};

static bool on_owner(const struct rlock_info *info, void *arg)
{
    struct found *found = arg;

    assert_memory_equal(info->name, NAME, strlen(NAME));
    found->ours += info->is_ours;
    for (int i = 0; i < 3; i++) {
        if (info->client == found->test->clients[i])
            found->at[i] = '1';
    }
    return true;
}

static void on_end(enum rlock_status status, void *arg)
{
    struct found *found = arg;

    found->ended++;
    found->status = status;
}

static void expect_owners(struct group_test *test, enum rlock_status status,
                          const char *at, unsigned ours)
{
    struct found found = {.test = test, .at = "000"};

    torture_fail(1, 0);
    rlock_group_inspect(test->group, on_owner, on_end, &found);
    assert_true(torture_stop());
    assert_int_equal(found.ended, 1);
    ASSERT_STATUS(found.status, RLOCK_NO_MEMORY);
    found.ended = 0;
    rlock_group_inspect(test->group, on_owner, on_end, &found);
    fixture_wait_count(test->fixture, &found.ended, 1);
    ASSERT_STATUS(found.status, status);
    assert_string_equal(found.at, at);
    assert_int_equal(found.ours, ours);
}

static enum rlock_status force_group(struct group_test *test)
{
    struct found found = {0};

    rlock_group_force_release(test->group, on_end, &found);
    fixture_wait_count(test->fixture, &found.ended, 1);
    return found.status;
}

GROUP_CASE(test_group__is_extended_inspected_and_forced)
{
    struct group_test test;

    create(&test, *state, RLOCK_GROUP_MAJORITY);
    expect_owners(&test, RLOCK_OK, "000", 0);
    set_foreign(2);
    ASSERT_STATUS(acquire_group(&test), RLOCK_OK);
    wait_keys(&test, "111");
    expect_owners(&test, RLOCK_OK, "111", 2);
    ASSERT_STATUS(extend_group(&test, 2 * LEASE_MS), RLOCK_OK);
    ASSERT_NUMBER(rlock_group_safe_for_us(test.group, clock_mono_us()), >,
                  LEASE_MS * 1000LL);
    ASSERT_NUMBER(server_int(&servers[1], "PTTL " NAME), >, LEASE_MS);
    (void)server_int(&servers[2], "DEL " NAME);
    expect_owners(&test, RLOCK_OK, "110", 2);
    for (int i = 0; i <= 2; i += 2) {
        server_do(&servers[i], "DEL " NAME);
        set_foreign(2 - i);
        ASSERT_STATUS(force_group(&test), RLOCK_OK);
        assert_true(has_keys("000"));
    }
    ASSERT_STATUS(force_group(&test), RLOCK_NOT_FOUND);
    ASSERT_STATUS(extend_group(&test, LEASE_MS), RLOCK_LOST);
    set_foreign(0);
    server_kill(&servers[2]);
    fixture_wait_down(test.fixture, test.clients[2]);
    expect_owners(&test, RLOCK_DOWN, "100", 0);
    ASSERT_STATUS(force_group(&test), RLOCK_DOWN);
    rlock_group_free(test.group);
}

GROUP_CASE(test_group__with_one_owner_is_found_in_each_order_of_the_replies)
{
    struct group_test test;

    create(&test, *state, RLOCK_GROUP_ALL);
    for (int owned = 0; owned <= 2; owned += 2) {
        struct found found = {.test = &test, .at = "000"};

        set_foreign(owned);
        server_pause(&servers[1]);
        server_pause(&servers[2]);
        rlock_group_inspect(test.group, on_owner, on_end, &found);
        if (owned == 0) {
            while (found.at[0] == '0')
                uv_run(&test.fixture->loop, UV_RUN_ONCE);
        }
        server_resume_all();
        fixture_wait_count(test.fixture, &found.ended, 1);
        ASSERT_STATUS(found.status, RLOCK_OK);
        assert_string_equal(found.at, owned == 0 ? "100" : "001");
        ASSERT_STATUS(force_group(&test), RLOCK_OK);
    }
    rlock_group_free(test.group);
}

/* -- free -- */

GROUP_CASE(test_free__outlives_a_hung_server_and_a_closed_client)
{
    struct group_test test;
    struct found found = {.test = &test, .at = "000"};

    create(&test, *state, RLOCK_GROUP_ALL);
    set_foreign(1);
    server_pause(&servers[2]);
    begin_acquire(&test, (struct rlock_group_options){0});
    rlock_group_inspect(test.group, on_owner, on_end, &found);
    rlock_group_free(test.group);
    ASSERT_STATUS(test.status, RLOCK_CANCELLED);
    fixture_close_hung(test.fixture, test.clients[2]);
    fixture_wait_count(test.fixture, &found.ended, 1);
    server_resume(&servers[2]);
    wait_keys(&test, "010");
}

int main(void)
{
    return cases_run(start_servers, stop_servers);
}
