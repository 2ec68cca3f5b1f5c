/* it_arguments.c - the public calls with NULL and with values that are out of range. */
#include "base/clock.h"
#include "test/sync_fixture.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 400

static long long lease_left_ms(struct server *server, const char *name)
{
    return server_int(server, "PTTL %s", name);
}

/* -- NULL options are the defaults -- */

static void on_lock(struct rlock *lock, enum status status, void *arg)
{
    struct answer *answer = arg;

    (void)lock;
    answer->answers++;
    answer->status = status;
}

FIXTURE_CASE(test_rlock_acquire__null_options_are_the_defaults)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct answer answer = {0};
    struct rlock lock = {0};

    rlock_acquire(client, &lock, "item:7", 6, NULL, on_lock, &answer);
    fixture_wait_count(fixture, &answer.answers, 1);
    ASSERT_STATUS(answer.status, STATUS_OK);
    ASSERT_BETWEEN(lease_left_ms(fixture->server, "item:7"), RLOCK_LEASE_MS_DEFAULT / 2,
                   RLOCK_LEASE_MS_DEFAULT);
    rlock_release(client, &lock, NULL, NULL);
}

/** `lost_arg` replaces the `arg` of the call. */
FIXTURE_CASE(test_rlock_acquire__gives_on_lost_its_own_argument)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct answer answer = {0}, loss = {0};
    struct rlock_acquire_options options = {
        .lease_ms = LEASE_MS, .watchdog = true, .on_lost = on_lock, .lost_arg = &loss};
    struct rlock lock = {0};

    rlock_acquire(client, &lock, "item:7", 6, &options, on_lock, &answer);
    fixture_wait_count(fixture, &answer.answers, 1);
    server_do(fixture->server, "DEL item:7");
    fixture_pass_ms(fixture, LEASE_MS / 3 + 1);
    fixture_wait_count(fixture, &loss.answers, 1);
    ASSERT_STATUS(loss.status, STATUS_LOST);
    assert_int_equal(answer.answers, 1);
}

SYNC_CASE(test_rlock_sync_acquire__null_options_are_the_defaults)
{
    struct sync_fixture *fixture = *state;
    struct rlock lock = {0};

    ASSERT_STATUS(rlock_sync_acquire(fixture->sync, fixture->client, &lock, "item:7", 6,
                                     NULL, NULL),
                  STATUS_OK);
    ASSERT_BETWEEN(lease_left_ms(fixture->server, "item:7"), RLOCK_LEASE_MS_DEFAULT / 2,
                   RLOCK_LEASE_MS_DEFAULT);
    ASSERT_STATUS(sync_release(fixture, &lock), STATUS_OK);
}

static void on_group(struct rlock_group *group, enum status status, void *arg)
{
    struct answer *answer = arg;

    (void)group;
    answer->answers++;
    answer->status = status;
}

FIXTURE_CASE(test_rlock_group_acquire__null_options_are_the_defaults)
{
    struct fixture *fixture = *state;
    struct rlock_member member = {fixture_client(fixture), "item:7", 6};
    struct answer answer = {0};
    struct rlock_group *group = NULL;

    ASSERT_STATUS(rlock_group_create(&member, 1, RLOCK_GROUP_ALL, &group, NULL),
                  STATUS_OK);
    rlock_group_acquire(group, NULL, on_group, &answer);
    fixture_wait_count(fixture, &answer.answers, 1);
    ASSERT_STATUS(answer.status, STATUS_OK);
    ASSERT_BETWEEN(lease_left_ms(fixture->server, "item:7"), RLOCK_LEASE_MS_DEFAULT / 2,
                   RLOCK_LEASE_MS_DEFAULT);
    assert_int_equal(rlock_group_fence(group, 1), 0);
    assert_int_equal(rlock_group_fence(group, SIZE_MAX), 0);
    assert_null(rlock_group_why(group, 1));
    rlock_group_free(group);
}

FIXTURE_CASE(test_rlock_group_acquire__gives_on_lost_its_own_argument)
{
    struct fixture *fixture = *state;
    struct rlock_member member = {fixture_client(fixture), "item:7", 6};
    struct answer answer = {0}, loss = {0};
    struct rlock_group_options options = {
        .lease_ms = LEASE_MS, .watchdog = true, .on_lost = on_group, .lost_arg = &loss};
    struct rlock_group *group = NULL;

    ASSERT_STATUS(rlock_group_create(&member, 1, RLOCK_GROUP_ALL, &group, NULL),
                  STATUS_OK);
    rlock_group_acquire(group, &options, on_group, &answer);
    fixture_wait_count(fixture, &answer.answers, 1);
    server_do(fixture->server, "DEL item:7");
    fixture_pass_ms(fixture, LEASE_MS / 3 + 1);
    fixture_wait_count(fixture, &loss.answers, 1);
    ASSERT_STATUS(loss.status, STATUS_LOST);
    assert_int_equal(answer.answers, 1);
    rlock_group_free(group);
}

SYNC_CASE(test_rlock_sync_group_acquire__null_options_are_the_defaults)
{
    struct sync_fixture *fixture = *state;
    struct rlock_member member = {fixture->client, "item:7", 6};
    struct rlock_group *group = NULL;

    ASSERT_STATUS(
        rlock_sync_group_create(fixture->sync, &member, 1, RLOCK_GROUP_ALL, &group, NULL),
        STATUS_OK);
    ASSERT_STATUS(rlock_sync_group_acquire(fixture->sync, group, NULL, NULL), STATUS_OK);
    ASSERT_BETWEEN(lease_left_ms(fixture->server, "item:7"), RLOCK_LEASE_MS_DEFAULT / 2,
                   RLOCK_LEASE_MS_DEFAULT);
    assert_int_equal(rlock_sync_group_fence(fixture->sync, group, 1), 0);
    rlock_sync_group_free(fixture->sync, group);
}

/* -- options that have no defaults -- */

SYNC_CASE(test_open__without_options_is_refused)
{
    struct sync_fixture *fixture = *state;
    struct rlock_client *client = NULL;
    struct err err = {0};

    ASSERT_STATUS(rlock_client_open(NULL, &client, &err), STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "loop");
    ASSERT_STATUS(rlock_sync_open(fixture->sync, NULL, &client, &err), STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "redis_url");
    ASSERT_STATUS(rlock_client_open(NULL, &client, NULL), STATUS_INVALID);
    assert_null(client);
}

SYNC_CASE(test_group_create__refuses_missing_members)
{
    struct sync_fixture *fixture = *state;
    struct rlock_member members[] = {{fixture->client, "a", 1}, {NULL, "b", 1}};
    struct rlock_group *group = NULL;
    struct err err = {0};

    ASSERT_STATUS(
        rlock_sync_group_create(fixture->sync, NULL, 1, RLOCK_GROUP_ALL, &group, &err),
        STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "no client of member 0");
    ASSERT_STATUS(rlock_sync_group_create(fixture->sync, &members[1], 1, RLOCK_GROUP_ALL,
                                          &group, &err),
                  STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "no client of member 0");
    ASSERT_STATUS(
        rlock_sync_group_create(fixture->sync, members, 2, RLOCK_GROUP_ALL, &group, &err),
        STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "no client of member 1");
    ASSERT_STATUS(rlock_sync_group_create(fixture->sync, members, 1,
                                          (enum rlock_group_need)2, &group, &err),
                  STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "need");
    assert_null(group);
}

/* -- values at and beyond the ends of their ranges -- */

static uint32_t pick(unsigned *seed, const uint32_t *values, unsigned count)
{
    return values[(unsigned)rand_r(seed) % count];
}

#define PICK(...)                                                                        \
    pick(seed, (const uint32_t[]){__VA_ARGS__},                                          \
         sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static struct rlock_acquire_options pick_options(unsigned *seed)
{
    static const struct rlock_kind *const kinds[] = {NULL, RENEWABLE_KINDS, &rlock_read,
                                                     &rlock_getset};

    return (struct rlock_acquire_options){
        .kind = kinds[PICK(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)],
        .permits = (uint16_t)PICK(0, 0, 1, UINT16_MAX),
        .holder = PICK(0, 1, UINT32_MAX),
        .lease_ms = PICK(0, 1, RLOCK_LEASE_MS_MIN - 1, RLOCK_LEASE_MS_MIN, LEASE_MS,
                         RLOCK_LEASE_MS_MAX, RLOCK_LEASE_MS_MAX + 1, UINT32_MAX),
        .watchdog = PICK(0, 1) == 1,
        .wait_ms = PICK(0, 1),
        .spin_min_ms = (uint16_t)PICK(0, 0, 1, UINT16_MAX),
        .spin_max_ms = (uint16_t)PICK(0, 1, UINT16_MAX),
        .replicas = (uint8_t)PICK(0, 0, 0, UINT8_MAX),
        .replicas_wait_ms = (uint16_t)PICK(0, 1, UINT16_MAX),
        .hold_max_ms = PICK(0, 0, 1, UINT32_MAX),
        .hold_min_ms = PICK(0, 0, 0, 1, UINT32_MAX),
    };
}

static void expect_one_of(enum status status, const enum status *allowed, unsigned seed)
{
    for (; *allowed != STATUS_NO_MEMORY; allowed++) {
        if (status == *allowed)
            return;
    }
    fail_msg("seed %u: %s", seed, status_name(status));
}

SYNC_CASE(test_rlock_sync__any_values_end_with_a_documented_status)
{
    static const enum status acquired[] = {STATUS_OK,      STATUS_BUSY,
                                           STATUS_INVALID, STATUS_UNSAFE,
                                           STATUS_REFUSED, STATUS_NO_MEMORY};
    static const enum status ended[] = {
        STATUS_OK,      STATUS_LOST,      STATUS_INVALID,  STATUS_NOT_OWNER,
        STATUS_REFUSED, STATUS_NOT_FOUND, STATUS_NO_MEMORY};
    struct sync_fixture *fixture = *state;
    struct rlock_sync *sync = fixture->sync;
    struct rlock_client *client = fixture->client;
    char bytes[RLOCK_NAME_MAX + 1] = {0};

    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned kept = round, *seed = &kept;
        struct rlock_acquire_options options = pick_options(seed);
        const char *name = PICK(0, 1, 1, 1) == 0 ? NULL : bytes;
        size_t name_len =
            PICK(0, 1, RLOCK_NAME_MAX, RLOCK_NAME_MAX, RLOCK_NAME_MAX + 1, UINT32_MAX);
        uint32_t lease_ms = PICK(0, 1, LEASE_MS, RLOCK_LEASE_MS_MAX, UINT32_MAX);
        struct rlock lock = {0};
        struct rlock_sync_info info;
        struct err err = {0};

        expect_one_of(rlock_sync_acquire(sync, client, &lock, name, name_len, &options,
                                         PICK(0, 1) == 0 ? NULL : &err),
                      acquired, round);
        expect_one_of(rlock_sync_extend(sync, client, &lock, lease_ms, NULL), ended,
                      round);
        expect_one_of(rlock_sync_inspect(sync, client, name, name_len, &info, NULL),
                      ended, round);
        expect_one_of(rlock_sync_release(sync, client, &lock, NULL), ended, round);
        expect_one_of(rlock_sync_force_release(sync, client, name, name_len, NULL), ended,
                      round);
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
