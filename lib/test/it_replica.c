/* it_replica.c - grants that must be acknowledged by replicas. */
#include "base/clock.h"
#include "test/fixture.h"

#include <stdio.h>

#define REPLICAS     2
#define WAIT_MS      300
#define LONG_WAIT_MS 65000 /* more than WITHIN_MS: the test fails when it is used up */

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

/** The same with more time, which is used up only where replicas are missing. */
static struct rlock_acquire_options asking_long(const struct rlock_kind *kind,
                                                uint8_t count)
{
    struct rlock_acquire_options options = asking(kind, count);

    options.replicas_wait_ms = LONG_WAIT_MS;
    return options;
}

static struct rlock_client *open_client(struct fixture *fixture, uint32_t timeout_ms)
{
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = fixture->server->unix_url,
                                               .timeout_ms = timeout_ms});

    fixture_wait_up(fixture, client);
    return client;
}

static struct rlock_client *patient_client(struct fixture *fixture)
{
    return open_client(fixture, 2 * WITHIN_MS);
}

static bool is_gone(void *arg)
{
    return !server_has(((struct fixture *)arg)->server, "item:7");
}

static void wait_gone(struct fixture *fixture)
{
    FIXTURE_AWAIT(fixture, is_gone, fixture);
}

FIXTURE_CASE(test_acquire__is_granted_when_the_replicas_have_it)
{
    struct rlock_acquire_options options = asking_long(&rlock_plain, REPLICAS);
    struct fixture *fixture = *state;
    struct rlock_client *client = patient_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options), STATUS_OK);
    assert_true(rlock_is_held(&call.lock));
    for (int i = 0; i < REPLICAS; i++)
        assert_true(server_has(&replicas[i], "item:7"));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    assert_false(server_has(fixture->server, "item:7"));
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
                      STATUS_UNSAFE);
        ASSERT_NUMBER(clock_mono_us() - begin_us, >=, (WAIT_MS - 1) * 1000LL);
        assert_false(rlock_is_held(&first.lock));
        wait_gone(fixture);
        options = asking_long(kinds[i], REPLICAS);
        ASSERT_STATUS(acquire_with(fixture, bob, &second, "item:7", &options), STATUS_OK);
        ASSERT_STATUS(release(fixture, bob, &second), STATUS_OK);
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
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &all), STATUS_UNSAFE);
    wait_gone(fixture);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &most), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    server_resume(&replicas[0]);
    wait_followed(fixture->server);
    all = asking_long(&rlock_plain, REPLICAS);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &all), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

/** One WAIT after the other would take longer than the timeout of a command. */
FIXTURE_CASE(test_acquire__batches_behind_a_wait_do_not_time_out)
{
    enum { BATCHES = 8 };
    struct rlock_acquire_options options = asking(&rlock_plain, REPLICAS + 1);
    struct fixture *fixture = *state;
    struct rlock_client *client = open_client(fixture, 8000);
    struct call calls[BATCHES] = {0}, plain = {0};
    struct rlock_stats stats;
    char name[24];

    options.replicas_wait_ms = 1500;
    for (int i = 0; i < BATCHES; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        options.lease_ms = (uint32_t)(LEASE_MS + i);
        call_acquire_with(client, &calls[i], name, &options);
    }
    rlock_flush(client);
    fixture_run_for(fixture, 20); /* the first WAIT has begun */
    ASSERT_STATUS(acquire(fixture, client, &plain, "other", LEASE_MS), STATUS_OK);
    for (int i = 0; i < BATCHES; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_UNSAFE);
    }
    ASSERT_STATUS(release(fixture, client, &plain), STATUS_OK);
    for (int i = 0; i < BATCHES; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        assert_false(server_has(fixture->server, name));
    }
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.reconnects, 0);
}

FIXTURE_CASE(test_acquire__after_a_wait_needs_the_replicas_too)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = patient_client(fixture);
    struct rlock_client *bob = patient_client(fixture);

    for (int i = 0; i < 2; i++) {
        struct rlock_acquire_options options =
            asking_long(i == 0 ? &rlock_plain : &rlock_fair, REPLICAS);
        struct call first = {0}, calls[2] = {0};

        ASSERT_STATUS(acquire_with(fixture, alice, &first, "item:7", &options),
                      STATUS_OK);
        options.wait_ms = RLOCK_WAIT_FOREVER;
        options.replicas = REPLICAS + 1;
        options.replicas_wait_ms = WAIT_MS;
        call_acquire_with(bob, &calls[0], "item:7", &options);
        rlock_flush(bob);
        fixture_wait_asleep(fixture, bob, &calls[0]);
        options.replicas = REPLICAS;
        options.replicas_wait_ms = LONG_WAIT_MS;
        call_acquire_with(bob, &calls[1], "item:7", &options);
        rlock_flush(bob);
        fixture_wait_asleep(fixture, bob, &calls[1]);
        ASSERT_STATUS(release(fixture, alice, &first), STATUS_OK);
        fixture_wait_answers(fixture, &calls[0], 1);
        ASSERT_STATUS(calls[0].status, STATUS_UNSAFE);
        fixture_wait_answers(fixture, &calls[1], 1); /* after its release */
        ASSERT_STATUS(calls[1].status, STATUS_OK);
        ASSERT_STATUS(release(fixture, bob, &calls[1]), STATUS_OK);
        assert_false(server_has(fixture->server, "item:7"));
    }
}

FIXTURE_CASE(test_close__during_a_wait_releases)
{
    struct rlock_acquire_options options = asking(&rlock_plain, REPLICAS + 1);
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[2] = {0};

    for (int i = 0; i < 2; i++) {
        options.lease_ms = (uint32_t)(LEASE_MS + i);
        call_acquire_with(client, &calls[i], i == 0 ? "item:7" : "item:8", &options);
    }
    rlock_flush(client);
    fixture_run_for(fixture, 50);
    fixture_close(fixture, client);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(calls[i].answers, 1);
        ASSERT_STATUS(calls[i].status, STATUS_CANCELLED);
    }
    assert_false(server_has(fixture->server, "item:7"));
    assert_false(server_has(fixture->server, "item:8"));
}

int main(void)
{
    return cases_run(start_servers, stop_servers);
}
