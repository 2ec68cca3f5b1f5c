/* it_replica.c - grants that must be acknowledged by replicas. */
#include "base/clock.h"
#include "test/fixture.h"

#include <stdio.h>

#define REPLICAS 2
#define WAIT_MS  300
/* more than WITHIN_MS, so the test fails if the whole time passes */
#define LONG_WAIT_MS 65000

static struct server replicas[REPLICAS];
static char primary_port[8];
static const char *const replica_options[] = {"--replicaof", "127.0.0.1", primary_port,
                                              NULL};

/** Whether both replicas have acknowledged a new write and executed it. */
static bool follow(struct server *primary)
{
    long long len = server_int(primary, "APPEND follow x");

    if (server_int(primary, "WAIT %d 100", REPLICAS) < REPLICAS)
        return false;
    for (int i = 0; i < REPLICAS; i++) {
        if (server_int(&replicas[i], "STRLEN follow") != len)
            return false;
    }
    return true;
}

static void wait_followed(struct server *primary)
{
    int64_t end_us = clock_mono_us() + (int64_t)WITHIN_MS * 1000;

    while (!follow(primary)) {
        if (clock_mono_us() > end_us)
            fail_msg("the replicas do not follow after %d ms", WITHIN_MS);
    }
}

static int start_servers(void **state)
{
    struct server *primary;

    fixture_start_server(state);
    primary = fixture_empty_server();
    snprintf(primary_port, sizeof(primary_port), "%u", primary->port);
    server_do(primary, "CONFIG SET repl-diskless-sync-delay 0");
    for (int i = 0; i < REPLICAS; i++)
        server_start(&replicas[i], replica_options);
    wait_followed(primary);
    return 0;
}

static int stop_servers(void **state)
{
    for (int i = 0; i < REPLICAS; i++)
        server_stop(&replicas[i]);
    return fixture_stop_server(state);
}

static struct rlock_acquire_options asking(const struct rlock_kind *kind, uint8_t count)
{
    return (struct rlock_acquire_options){.kind = kind,
                                          .permits = permits_of(kind),
                                          .lease_ms = LEASE_MS,
                                          .replicas = count,
                                          .replicas_wait_ms = WAIT_MS};
}

/** Like asking(), but with more time. The time is used up only if replicas are missing. */
static struct rlock_acquire_options asking_long(const struct rlock_kind *kind,
                                                uint8_t count)
{
    struct rlock_acquire_options options = asking(kind, count);

    options.replicas_wait_ms = LONG_WAIT_MS;
    return options;
}

static struct rlock_client *patient_client(struct fixture *fixture)
{
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = fixture->server->unix_url,
                                               .timeout_ms = 2 * WITHIN_MS});

    fixture_wait_up(fixture, client);
    return client;
}

static bool is_gone(void *arg)
{
    return !server_has(((struct fixture *)arg)->server, "item:7");
}

static void wait_gone(struct fixture *fixture)
{
    FIXTURE_AWAIT(fixture, is_gone, fixture);
}

FIXTURE_CASE(test_acquire__too_few_replicas_is_unsafe_and_released)
{
    static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS, &rlock_getset};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    struct fixture *fixture = *state;
    struct rlock_client *alice = patient_client(fixture);
    struct rlock_client *bob = patient_client(fixture);
    struct rlock_stats stats;

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = asking(kinds[i], REPLICAS + 1);
        struct call first = {0}, second = {0};
        int64_t begin_us = clock_mono_us();

        ASSERT_STATUS(acquire_with(fixture, alice, &first, "item:7", &options),
                      RLOCK_UNSAFE);
        ASSERT_NUMBER(clock_mono_us() - begin_us, >=, (WAIT_MS - 1) * 1000LL);
        assert_false(rlock_is_held(&first.lock));
        wait_gone(fixture);
        options = asking_long(kinds[i], REPLICAS);
        ASSERT_STATUS(acquire_with(fixture, bob, &second, "item:7", &options), RLOCK_OK);
        for (int j = 0; j < REPLICAS; j++)
            assert_true(server_has(&replicas[j], "item:7"));
        ASSERT_STATUS(release(fixture, bob, &second), RLOCK_OK);
    }
    rlock_client_stats(alice, &stats);
    assert_int_equal(stats.failed, KINDS);
    assert_int_equal(stats.granted, 0);
}

FIXTURE_CASE(test_acquire__counts_a_replica_that_hangs_as_missing)
{
    struct rlock_acquire_options all = asking(&rlock_plain, REPLICAS);
    struct rlock_acquire_options most = asking_long(&rlock_plain, REPLICAS - 1);
    struct fixture *fixture = *state;
    struct rlock_client *client = patient_client(fixture);
    struct call call = {0};

    server_pause(&replicas[0]);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &all), RLOCK_UNSAFE);
    wait_gone(fixture);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &most), RLOCK_OK);
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
    server_resume(&replicas[0]);
    wait_followed(fixture->server);
    all = asking_long(&rlock_plain, REPLICAS);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &all), RLOCK_OK);
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
}

int main(void)
{
    return cases_run(start_servers, stop_servers);
}
