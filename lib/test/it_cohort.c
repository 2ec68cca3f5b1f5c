/* it_cohort.c - a lock that a client passes among its own waiters. */
#include "test/waits.h"

#define WAITERS_MAX 24
#define PASSES_MAX  16

/** A client with a holder of NAME and waiters behind it, of which some end in the teardown. */
struct cohort {
    struct fixture *fixture;
    struct rlock_client *client, *other;
    struct call held, waiters[WAITERS_MAX];
};

static struct rlock_acquire_options cohort_options(void)
{
    return waiting(&rlock_cohort, 0, RLOCK_WAIT_FOREVER);
}

static void add_waiter(struct cohort *cohort, unsigned at, uint32_t lease_ms)
{
    struct rlock_acquire_options options = cohort_options();

    options.lease_ms = lease_ms;
    call_wait(cohort->client, &cohort->waiters[at], NAME, &options);
    call_rest(cohort->fixture, &cohort->waiters[at]);
}

/** The first waiter holds the lock, by a grant of the server. */
static void start_cohort(struct cohort *cohort, struct fixture *fixture, unsigned waiters)
{
    struct rlock_acquire_options options = cohort_options();

    *cohort = (struct cohort){.fixture = fixture,
                              .client = fixture_client(fixture),
                              .other = fixture_client(fixture)};
    ASSERT_STATUS(acquire_with(fixture, cohort->client, &cohort->held, NAME, &options),
                  STATUS_OK);
    for (unsigned i = 0; i < waiters; i++)
        add_waiter(cohort, i, LEASE_MS);
    fixture_wait_asleep(fixture, cohort->client, &cohort->waiters[0]);
    ASSERT_STATUS(release(fixture, cohort->client, &cohort->held), STATUS_OK);
    fixture_wait_answers(fixture, &cohort->waiters[0], 1);
    ASSERT_STATUS(cohort->waiters[0].status, STATUS_OK);
}

/** However busy this machine is, the grant of the server seems to be less than 10 ms old. */
static void keep_young(struct cohort *cohort, unsigned at)
{
    cohort->waiters[at].lock.safe_until_us += (int64_t)WITHIN_MS * 1000;
}

static void assert_next(struct cohort *cohort, unsigned at)
{
    struct call *now = &cohort->waiters[at], *next = &cohort->waiters[at + 1];

    ASSERT_STATUS(release(cohort->fixture, cohort->client, now), STATUS_OK);
    fixture_wait_answers(cohort->fixture, next, 1);
    ASSERT_STATUS(next->status, STATUS_OK);
    assert_true(rlock_is_held(&next->lock));
    ASSERT_NUMBER(rlock_fence(&next->lock), >, rlock_fence(&now->lock));
}

FIXTURE_CASE(test_release__passes_the_lock_on_without_the_server)
{
    static struct cohort cohort;
    struct call foreign = {0};
    struct answer before = {0}, after = {0};
    struct rlock_stats stats;
    long long calls;

    start_cohort(&cohort, *state, 3);
    ASSERT_STATUS(inspect(cohort.fixture, cohort.client, &before, NAME), STATUS_OK);
    calls = script_calls(cohort.fixture);
    fixture_hold_timers(cohort.fixture);
    keep_young(&cohort, 0);
    assert_next(&cohort, 0);
    assert_next(&cohort, 1);
    assert_int_equal(script_calls(cohort.fixture), calls);
    ASSERT_STATUS(inspect(cohort.fixture, cohort.client, &after, NAME), STATUS_OK);
    assert_string_equal(after.owner, before.owner);
    ASSERT_STATUS(acquire(cohort.fixture, cohort.other, &foreign, NAME, LEASE_MS),
                  STATUS_BUSY);
    ASSERT_STATUS(release(cohort.fixture, cohort.client, &cohort.waiters[2]), STATUS_OK);
    ASSERT_STATUS(acquire(cohort.fixture, cohort.other, &foreign, NAME, LEASE_MS),
                  STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&foreign.lock), >, rlock_fence(&cohort.waiters[2].lock));
    rlock_client_stats(cohort.client, &stats);
    assert_int_equal(stats.granted, 4);
    assert_int_equal(stats.released, 4);
    assert_int_equal(stats.held + stats.waiters, 0);
}

FIXTURE_CASE(test_release__asks_the_server_after_16_passes)
{
    static struct cohort cohort;
    long long calls;

    start_cohort(&cohort, *state, WAITERS_MAX);
    calls = script_calls(cohort.fixture);
    fixture_hold_timers(cohort.fixture);
    keep_young(&cohort, 0);
    for (unsigned i = 0; i < PASSES_MAX; i++)
        assert_next(&cohort, i);
    assert_int_equal(script_calls(cohort.fixture), calls);
    assert_next(&cohort, PASSES_MAX);
    ASSERT_NUMBER(script_calls(cohort.fixture), >, calls);
}

FIXTURE_CASE(test_acquire__queues_behind_the_waiters_of_its_client)
{
    static struct cohort cohort;
    long long calls;

    start_cohort(&cohort, *state, 2);
    calls = script_calls(cohort.fixture);
    add_waiter(&cohort, 2, LEASE_MS);
    assert_int_equal(script_calls(cohort.fixture), calls);
    assert_next(&cohort, 0);
    assert_next(&cohort, 1);
}

FIXTURE_CASE(test_deleted_lock__is_found_by_the_last_of_a_cohort)
{
    static struct cohort cohort;
    struct call foreign = {0};

    start_cohort(&cohort, *state, 2);
    (void)server_int(cohort.fixture->server, "DEL " NAME);
    ASSERT_STATUS(acquire(cohort.fixture, cohort.other, &foreign, NAME, LEASE_MS),
                  STATUS_OK);
    keep_young(&cohort, 0);
    assert_next(&cohort, 0);
    ASSERT_NUMBER(rlock_fence(&cohort.waiters[1].lock), <, rlock_fence(&foreign.lock));
    ASSERT_STATUS(release(cohort.fixture, cohort.client, &cohort.waiters[1]),
                  STATUS_LOST);
    assert_int_equal(server_int(cohort.fixture->server, "EXISTS " NAME), 1);
}

FIXTURE_CASE(test_watchdog__renews_a_lock_that_was_passed_on)
{
    static struct cohort cohort;
    struct rlock_acquire_options options = cohort_options();

    start_cohort(&cohort, *state, 1);
    cohort.waiters[0].lock.passes = PASSES_MAX;
    options.watchdog = true;
    call_wait(cohort.client, &cohort.waiters[1], NAME, &options);
    call_rest(cohort.fixture, &cohort.waiters[1]);
    keep_young(&cohort, 0);
    assert_next(&cohort, 0);
    assert_int_equal(cohort.waiters[1].lock.passes, PASSES_MAX - 1);
    fixture_pass_renewal(cohort.fixture, cohort.client, 2 * LEASE_MS, 1);
    ASSERT_NUMBER(server_int(cohort.fixture->server, "PTTL " NAME), >, LEASE_MS * 9 / 10);
    ASSERT_STATUS(release(cohort.fixture, cohort.client, &cohort.waiters[1]), STATUS_OK);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
