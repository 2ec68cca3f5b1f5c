/* it_hold.c - hold_min_ms: a lock that is released early stays taken for a while. */
#include "test/sync_fixture.h"
#include "test/waits.h"

#include <string.h>

#define HOLD_MS 60000

static struct rlock_acquire_options holding(uint32_t wait_ms)
{
    return (struct rlock_acquire_options){
        .lease_ms = LEASE_MS, .hold_min_ms = HOLD_MS, .wait_ms = wait_ms};
}

static long long ttl_ms(struct fixture *fixture)
{
    return server_int(fixture->server, "PTTL " NAME);
}

static bool is_kept(void *fixture)
{
    return ttl_ms(fixture) > 0 && ttl_ms(fixture) <= HOLD_MS + 1;
}

static void test_release__before_the_minimum_keeps_the_name_taken(void **state)
{
    struct rlock_acquire_options options = holding(0);
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture), *bob = fixture_client(fixture);
    struct call held = {0}, call = {0};

    options.watchdog = true;
    ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    fixture_pass_ms(fixture, HOLD_MS / 2);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    assert_false(rlock_is_held(&held.lock));
    ASSERT_BETWEEN(ttl_ms(fixture), 1, HOLD_MS / 2 + 1);
    ASSERT_STATUS(acquire(fixture, bob, &call, NAME, LEASE_MS), STATUS_BUSY);
    ASSERT_STATUS(acquire(fixture, alice, &call, NAME, LEASE_MS), STATUS_BUSY);
    fixture_pass_ms(fixture, LEASE_MS / 3);
    fixture_settle(fixture);
    assert_int_equal(fixture_renewed(alice), 0);
    server_pass_ms(fixture->server, HOLD_MS / 2 + 1);
    ASSERT_STATUS(acquire(fixture, bob, &call, NAME, LEASE_MS), STATUS_OK);
}

static void test_release__after_the_minimum_frees_the_name(void **state)
{
    struct rlock_acquire_options options = holding(0);
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
    fixture_pass_ms(fixture, HOLD_MS);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));
}

static void test_release__early_without_a_callback_keeps_the_name_taken(void **state)
{
    struct rlock_acquire_options options = holding(0);
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
    rlock_release(client, &call.lock, NULL, NULL);
    FIXTURE_AWAIT(fixture, is_kept, fixture);
}

static void test_release__early_of_a_lost_lock_is_lost(void **state)
{
    struct rlock_acquire_options options = holding(0);
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
    server_do(fixture->server, "SET " NAME " another");
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
    assert_int_equal(ttl_ms(fixture), -1);
}

/** A copy is released in its place, and keeps the name taken, too. */
static void test_release__early_while_the_server_is_away_keeps_the_name(void **state)
{
    struct rlock_acquire_options options = holding(0);
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
    server_do(fixture->server, "CLIENT KILL TYPE normal");
    fixture_wait_down(fixture, client);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_DOWN);
    FIXTURE_AWAIT(fixture, is_kept, fixture);
}

static bool has_released(void *client)
{
    struct rlock_stats stats;

    rlock_client_stats(client, &stats);
    return stats.released > 1;
}

static void test_cancel__of_an_acquire_frees_the_name_at_once(void **state)
{
    struct rlock_acquire_options options = holding(0);
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK); /* it has the scripts */
    call_acquire_with(client, &call, NAME, &options);
    rlock_flush(client);
    rlock_cancel(client, &call.lock);
    FIXTURE_AWAIT(fixture, has_released, client);
    ASSERT_STATUS(call.status, STATUS_CANCELLED);
    assert_false(server_has(fixture->server, NAME));
}

static bool is_answered(void *call)
{
    return ((struct call *)call)->answers > 0;
}

/** Also one of the same client, which tries again at the release. */
static void test_acquire__waits_until_the_minimum_has_passed(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *clients[] = {fixture_client(fixture), fixture_client(fixture)};

    for (int i = 0; i < 2; i++) {
        struct rlock_acquire_options options = holding(RLOCK_WAIT_FOREVER);
        struct call held = {0}, call = {0};

        ASSERT_STATUS(acquire_with(fixture, clients[0], &held, NAME, &options),
                      STATUS_OK);
        call_wait(clients[i], &call, NAME, &options);
        fixture_wait_asleep(fixture, clients[i], &call);
        ASSERT_STATUS(release(fixture, clients[0], &held), STATUS_OK);
        ASSERT_NUMBER(FIXTURE_SIMULATE(fixture, is_answered, &call), >, HOLD_MS / 2);
        ASSERT_STATUS(call.status, STATUS_OK);
        server_do(fixture->server, "DEL " NAME);
    }
}

static void expect_invalid(struct fixture *fixture, struct rlock_client *client,
                           const struct rlock_acquire_options *options, const char *words)
{
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, options), STATUS_INVALID);
    ASSERT_CONTAINS(rlock_client_why(client)->text, words);
}

static void test_acquire__with_a_minimum_is_for_kind_plain(void **state)
{
    static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS, &rlock_read,
                                                     &rlock_getset};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (size_t i = 1; i < 9; i++) {
        struct rlock_acquire_options options = holding(0);

        options.kind = kinds[i];
        options.permits = permits_of(kinds[i]);
        expect_invalid(fixture, client, &options, "hold_min_ms: only for kind plain");
    }
}

static void test_acquire__and_extend_refuse_a_lease_below_the_minimum(void **state)
{
    struct rlock_acquire_options options = holding(0);
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    options.lease_ms = HOLD_MS - 1;
    expect_invalid(fixture, client, &options, "lease_ms: must be at least hold_min_ms");
    options.lease_ms = HOLD_MS;
    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
    ASSERT_STATUS(extend(fixture, client, &call, HOLD_MS - 1), STATUS_INVALID);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "at least hold_min_ms");
    ASSERT_STATUS(extend(fixture, client, &call, HOLD_MS), STATUS_OK);
}

static void test_rlock_sync_release__early_keeps_the_name_taken(void **state)
{
    struct rlock_acquire_options options = holding(0);
    struct sync_fixture *fixture = *state;
    struct rlock lock = {0};

    ASSERT_STATUS(rlock_sync_acquire(fixture->sync, fixture->client, &lock, NAME,
                                     strlen(NAME), &options, NULL),
                  STATUS_OK);
    ASSERT_STATUS(rlock_sync_release(fixture->sync, fixture->client, &lock, NULL),
                  STATUS_OK);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL " NAME), 1, HOLD_MS + 1);
    ASSERT_STATUS(sync_acquire(fixture, &lock, NAME, 0), STATUS_BUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_release__before_the_minimum_keeps_the_name_taken),
        FIXTURE_TEST(test_release__after_the_minimum_frees_the_name),
        FIXTURE_TEST(test_release__early_without_a_callback_keeps_the_name_taken),
        FIXTURE_TEST(test_release__early_of_a_lost_lock_is_lost),
        FIXTURE_TEST(test_release__early_while_the_server_is_away_keeps_the_name),
        FIXTURE_TEST(test_cancel__of_an_acquire_frees_the_name_at_once),
        FIXTURE_TEST(test_acquire__waits_until_the_minimum_has_passed),
        FIXTURE_TEST(test_acquire__with_a_minimum_is_for_kind_plain),
        FIXTURE_TEST(test_acquire__and_extend_refuse_a_lease_below_the_minimum),
        SYNC_TEST(test_rlock_sync_release__early_keeps_the_name_taken),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
