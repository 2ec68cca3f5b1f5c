/* group_fixture.c - groups on five private servers. */
#include "test/group_fixture.h"
#include "lock/group_round.h"

#include <hiredis/hiredis.h>
#include <string.h>

struct server servers[SERVERS];

int group_start_servers(void **state)
{
    (void)state;
    for (int i = 0; i < SERVERS; i++)
        server_start(&servers[i], NULL);
    fixture_use_server(&servers[0]);
    return 0;
}

int group_stop_servers(void **state)
{
    (void)state;
    for (int i = 0; i < SERVERS; i++)
        server_stop(&servers[i]);
    return 0;
}

int group_setup(void **state)
{
    for (int i = 0; i < SERVERS; i++) {
        if (servers[i].pid == 0)
            server_restart(&servers[i]);
        server_resume(&servers[i]);
        server_do(&servers[i], "FLUSHALL");
        server_do(&servers[i], "CONFIG RESETSTAT");
    }
    return fixture_setup(state);
}

void group_open(struct group_fixture *groups, struct fixture *fixture, int count)
{
    struct rlock_client_options options = {.timeout_ms = TIMEOUT_MS};

    *groups = (struct group_fixture){.fixture = fixture};
    for (int i = 0; i < count; i++) {
        options.redis_url = servers[i].unix_url;
        groups->clients[i] = fixture_open(fixture, options);
        fixture_wait_up(fixture, groups->clients[i]);
    }
}

void group_create(struct group_fixture *groups, struct fixture *fixture, int count,
                  enum rlock_group_need need)
{
    struct rlock_member members[SERVERS];
    struct err err = {0};

    group_open(groups, fixture, count);
    for (int i = 0; i < count; i++)
        members[i] =
            (struct rlock_member){groups->clients[i], GROUP_NAME, strlen(GROUP_NAME)};
    if (rlock_group_create(members, (size_t)count, need, &groups->group, &err) !=
        STATUS_OK)
        fail_msg("rlock_group_create: %s", err.text);
}

static struct rlock_group *group_of_names(struct rlock_client *client, const char *names)
{
    struct rlock_member members[RLOCK_GROUP_MAX];
    struct rlock_group *group;
    size_t count = strlen(names);

    for (size_t i = 0; i < count; i++)
        members[i] = (struct rlock_member){client, &names[i], 1};
    ASSERT_STATUS(rlock_group_create(members, count, RLOCK_GROUP_ALL, &group, NULL),
                  STATUS_OK);
    return group;
}

void group_create_names(struct group_fixture *groups, struct fixture *fixture,
                        const char *names)
{
    group_open(groups, fixture, 1);
    groups->group = group_of_names(groups->clients[0], names);
}

static void on_answer(struct rlock_group *group, enum status status, void *arg)
{
    struct group_fixture *groups = arg;

    assert_ptr_equal(group, groups->group);
    groups->answers++;
    groups->status = status;
}

static void on_lost(struct rlock_group *group, enum status status, void *arg)
{
    struct group_fixture *groups = arg;

    ASSERT_STATUS(status, STATUS_LOST);
    assert_false(rlock_group_is_held(group));
    groups->losses++;
}

void group_begin_acquire(struct group_fixture *groups, struct rlock_group_options options)
{
    options.on_lost = on_lost;
    rlock_group_acquire(groups->group, &options, on_answer, groups);
}

void group_begin_release(struct group_fixture *groups)
{
    rlock_group_release(groups->group, on_answer, groups);
}

enum status group_await(struct group_fixture *groups, unsigned answers)
{
    assert_int_equal(groups->answers, answers - 1); /* not from inside the call */
    fixture_wait_count(groups->fixture, &groups->answers, answers);
    assert_int_equal(groups->answers, answers);
    return groups->status;
}

static bool rests(void *arg)
{
    const struct rlock_group *group = ((struct group_fixture *)arg)->group;

    for (unsigned i = 0; i < group->count; i++) {
        if (group->members[i].lock.batch != NULL)
            return false;
    }
    return true;
}

void group_rest(struct group_fixture *groups)
{
    FIXTURE_AWAIT(groups->fixture, rests, groups);
}

struct patience {
    const struct rlock_group *group;
    unsigned unanswered;
};

static bool have_answered(void *arg)
{
    const struct patience *patience = arg;

    return patience->group->awaited <= patience->unanswered;
}

void group_await_members(struct group_fixture *groups, unsigned unanswered)
{
    struct patience patience = {groups->group, unanswered};

    FIXTURE_AWAIT(groups->fixture, have_answered, &patience);
}

void group_pass_ms(struct group_fixture *groups, unsigned ms)
{
    group_rest(groups);
    server_settle();
    fixture_jump_ms(groups->fixture, ms);
}

enum status group_acquire_with(struct group_fixture *groups,
                               struct rlock_group_options options)
{
    unsigned answers = groups->answers + 1;

    group_begin_acquire(groups, options);
    return group_await(groups, answers);
}

enum status group_acquire(struct group_fixture *groups)
{
    return group_acquire_with(groups, (struct rlock_group_options){.lease_ms = LEASE_MS});
}

enum status group_acquire_watched(struct group_fixture *groups, uint32_t lease_ms)
{
    return group_acquire_with(
        groups, (struct rlock_group_options){.lease_ms = lease_ms, .watchdog = true});
}

enum status group_release(struct group_fixture *groups)
{
    unsigned answers = groups->answers + 1;

    group_begin_release(groups);
    return group_await(groups, answers);
}

static void find_keys(const char *key, size_t count, char ret_found[SERVERS + 1])
{
    for (size_t i = 0; i < count; i++)
        ret_found[i] = server_has(&servers[i], key) ? '1' : '0';
    ret_found[count] = '\0';
}

void assert_keys(const char *key, const char *wanted)
{
    char found[SERVERS + 1];

    find_keys(key, strlen(wanted), found);
    assert_string_equal(found, wanted);
}

static bool has_keys(void *arg)
{
    const char *wanted = arg;
    char found[SERVERS + 1];

    find_keys(GROUP_NAME, strlen(wanted), found);
    return strcmp(found, wanted) == 0;
}

void wait_keys(struct fixture *fixture, const char *wanted)
{
    if (!fixture_run_until(fixture, has_keys, (char *)wanted, WITHIN_MS))
        assert_keys(GROUP_NAME, wanted); /* fails with both */
}

void set_foreign(int server)
{
    server_do(&servers[server], "SET " GROUP_NAME " foreign PX 600000");
}

void assert_foreign(int server)
{
    redisReply *reply = server_command(&servers[server], "GET " GROUP_NAME);

    assert_string_equal(reply->str, "foreign");
    freeReplyObject(reply);
    ASSERT_NUMBER(server_int(&servers[server], "PTTL " GROUP_NAME), >, 300000);
}

void delete_key(int server)
{
    assert_int_equal(server_int(&servers[server], "DEL " GROUP_NAME), 1);
}

static bool is_absent(void *arg)
{
    return !server_has(arg, GROUP_NAME);
}

void wait_absent(struct fixture *fixture, int server)
{
    FIXTURE_AWAIT(fixture, is_absent, &servers[server]);
}

void group_free(struct group_fixture *groups)
{
    rlock_group_free(groups->group);
    groups->group = NULL;
}

struct command {
    struct server *server;
    const char *name;
};

static bool has_carried_out(void *arg)
{
    const struct command *command = arg;

    return server_calls(command->server, command->name) > 0;
}

void wait_command(struct fixture *fixture, int server, const char *command)
{
    struct command wanted = {&servers[server], command};

    FIXTURE_AWAIT(fixture, has_carried_out, &wanted);
}

struct membership {
    const struct rlock_group *group;
    size_t index;
    bool is_held;
};

static bool is_member(void *arg)
{
    const struct membership *wanted = arg;

    return (rlock_group_fence(wanted->group, wanted->index) > 0) == wanted->is_held;
}

void wait_member(struct group_fixture *groups, size_t index, bool is_held)
{
    struct membership wanted = {groups->group, index, is_held};

    FIXTURE_AWAIT(groups->fixture, is_member, &wanted);
}

void wait_all_members(struct group_fixture *groups)
{
    for (unsigned i = 0; i < groups->group->count; i++)
        wait_member(groups, i, true);
}
