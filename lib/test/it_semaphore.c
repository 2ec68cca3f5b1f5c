/*
 * it_semaphore.c - releases of permits wake one waiter each.
 *
 * it_scripts.c and it_processes.c show that there are at most n permits at once.
 */
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
        struct rlock_acquire_options once = for_permit(k, 0);
        struct call calls[PERMITS] = {0}, waiters[2 * PERMITS] = {0};
        long long before;

        for (int i = 0; i < PERMITS; i++)
            ASSERT_STATUS(acquire_with(fixture, alice, &calls[i], NAME, &once), RLOCK_OK);
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
        assert_only_a_fence_left(fixture);
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
