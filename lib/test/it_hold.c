/* it_hold.c - hold_min_ms: a lock that is released early stays taken for a while. */
#include "test/waits.h"

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

FIXTURE_CASE(test_release__before_the_minimum_keeps_the_name_taken)
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

static bool is_answered(void *call)
{
    return ((struct call *)call)->answers > 0;
}

/** Also one of the same client, which tries again at the release. */
FIXTURE_CASE(test_acquire__waits_until_the_minimum_has_passed)
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

FIXTURE_CASE(test_extend__refuses_a_lease_below_the_minimum)
{
    struct rlock_acquire_options options = holding(0);
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
    ASSERT_STATUS(extend(fixture, client, &call, HOLD_MS - 1), STATUS_INVALID);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "at least hold_min_ms");
    ASSERT_STATUS(extend(fixture, client, &call, HOLD_MS), STATUS_OK);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
