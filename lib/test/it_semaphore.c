/* it_semaphore.c - the semaphores: at most n permits at once, each with a lease. */
#include "test/waits.h"

#define PERMITS 3

static const struct rlock_kind *const kinds[] = {&rlock_semaphore, &rlock_fair_semaphore};
enum { KINDS = 2 };

static struct rlock_acquire_options for_permit(int kind, uint32_t wait_ms)
{
    return (struct rlock_acquire_options){.kind = kinds[kind],
                                          .permits = PERMITS,
                                          .lease_ms = LEASE_MS,
                                          .wait_ms = wait_ms};
}

/** Let the clients in turn take one permit each. All must be granted. */
static void take_all(struct fixture *fixture, struct rlock_client *const *clients,
                     unsigned client_count, struct call *calls, int kind)
{
    struct rlock_acquire_options options = for_permit(kind, 0);

    for (unsigned i = 0; i < PERMITS; i++)
        ASSERT_STATUS(
            acquire_with(fixture, clients[i % client_count], &calls[i], NAME, &options),
            RLOCK_OK);
}

static void assert_nothing_left(struct fixture *fixture)
{
    /* only the fence counter is left */
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 1);
    assert_no_channels(fixture);
}

FIXTURE_CASE(test_acquire__gives_as_many_permits_as_there_are)
{
    struct fixture *fixture = *state;
    struct rlock_client *clients[2] = {fixture_client(fixture), fixture_client(fixture)};

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, 0);
        struct call calls[PERMITS] = {0}, more = {0};
        struct answer answer = {0};

        take_all(fixture, clients, 2, calls, k);
        for (int i = 1; i < PERMITS; i++)
            ASSERT_NUMBER(rlock_fence(&calls[i].lock), >,
                          rlock_fence(&calls[i - 1].lock));
        for (int i = 0; i < 2; i++)
            ASSERT_STATUS(acquire_with(fixture, clients[i], &more, NAME, &options),
                          RLOCK_BUSY);
        ASSERT_STATUS(inspect(fixture, clients[1], &answer, NAME), RLOCK_OK);
        assert_int_equal(answer.count, PERMITS);
        /* inspect shows the owner whose lease ends first: the other client */
        assert_false(answer.is_ours);
        ASSERT_BETWEEN(answer.remaining_ms, LEASE_MS / 2, LEASE_MS);
        ASSERT_STATUS(release(fixture, clients[1], &calls[1]), RLOCK_OK);
        ASSERT_STATUS(acquire_with(fixture, clients[0], &more, NAME, &options), RLOCK_OK);
        ASSERT_NUMBER(rlock_fence(&more.lock), >, rlock_fence(&calls[2].lock));
        ASSERT_STATUS(acquire_with(fixture, clients[1], &calls[1], NAME, &options),
                      RLOCK_BUSY);
        ASSERT_STATUS(release(fixture, clients[0], &more), RLOCK_OK);
        ASSERT_STATUS(release(fixture, clients[0], &calls[0]), RLOCK_OK);
        ASSERT_STATUS(release(fixture, clients[0], &calls[2]), RLOCK_OK);
        ASSERT_STATUS(release(fixture, clients[0], &calls[2]), RLOCK_NOT_OWNER);
        ASSERT_STATUS(inspect(fixture, clients[0], &answer, NAME), RLOCK_NOT_FOUND);
        assert_nothing_left(fixture);
    }
}

/* -- waiting -- */

struct sleeper {
    struct fixture *fixture;
    const struct call *call;
};

static bool is_answered(void *arg)
{
    const struct sleeper *sleeper = arg;

    fixture_hold_timers(sleeper->fixture);
    return sleeper->call->answers > 0;
}

/** Run the loop until the call is granted. No timer may fire meanwhile. */
static void await_message(struct fixture *fixture, const struct call *call)
{
    struct sleeper sleeper = {fixture, call};

    FIXTURE_AWAIT(fixture, is_answered, &sleeper);
    ASSERT_STATUS(call->status, RLOCK_OK);
}

FIXTURE_CASE(test_waiters__are_woken_by_releases_one_each)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int k = 0; k < KINDS; k++) {
        struct rlock_acquire_options options = for_permit(k, RLOCK_WAIT_FOREVER);
        struct call calls[PERMITS] = {0}, waiters[2 * PERMITS] = {0};
        long long before;

        take_all(fixture, &alice, 1, calls, k);
        for (int i = 0; i < 2 * PERMITS; i++) {
            call_wait(bob, &waiters[i], NAME, &options);
            fixture_wait_asleep(fixture, bob, &waiters[i]);
        }
        fixture_hold_timers(fixture);
        before = script_calls(fixture);
        move_beats(fixture, FIXTURE_DAY_MS);
        for (int i = 0; i < PERMITS; i++)
            call_release(alice, &calls[i]);
        rlock_flush(alice);
        for (int i = 0; i < PERMITS; i++)
            await_message(fixture, &waiters[i]);
        fixture_settle(fixture);
        for (int i = PERMITS; i < 2 * PERMITS; i++)
            assert_int_equal(waiters[i].answers, 0);
        /* The calls are at most one release, two tries for each permit, and one try that finds
           no permit. */
        ASSERT_NUMBER(script_calls(fixture) - before, <=, 2 + 2 * PERMITS);
        for (int i = 0; i < PERMITS; i++) {
            ASSERT_STATUS(release_to_live(fixture, bob, &waiters[i]), RLOCK_OK);
            await_message(fixture, &waiters[PERMITS + i]);
        }
        for (int i = PERMITS; i < 2 * PERMITS; i++)
            ASSERT_STATUS(release(fixture, bob, &waiters[i]), RLOCK_OK);
        assert_nothing_left(fixture);
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
