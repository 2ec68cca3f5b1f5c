/* it_rwlock.c - the read/write lock: readers share, a writer excludes, nobody starves. */
#include "test/waits.h"

static enum rlock_status try(struct fixture *fixture, struct rlock_client *client,
                             struct call *call, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = waiting(kind, 0, 0);

    return acquire_with(fixture, client, call, NAME, &options);
}

/** Begin to wait, and be in the queue and asleep. */
static void wait_for_it(struct fixture *fixture, struct rlock_client *client,
                        struct call *call, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = waiting(kind, 0, RLOCK_WAIT_FOREVER);

    call_wait(client, call, NAME, &options);
    fixture_wait_asleep(fixture, client, call);
}

static void assert_granted(struct fixture *fixture, struct call *call)
{
    fixture_wait_answers(fixture, call, 1);
    ASSERT_STATUS(call->status, RLOCK_OK);
}

static void assert_waits(const struct call *call)
{
    assert_int_equal(call->answers, 0);
}

static void assert_nothing_left(struct fixture *fixture)
{
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 1); /* the fence counter */
    assert_no_channels(fixture);
}

FIXTURE_CASE(test_readers__share_and_exclude_a_writer)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call readers[3] = {0}, writer = {0};
    struct answer answer = {0};

    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(try(fixture, i == 1 ? bob : alice, &readers[i], &rlock_read),
                      RLOCK_OK);
    ASSERT_STATUS(inspect(fixture, bob, &answer, NAME), RLOCK_OK);
    assert_int_equal(answer.count, 3);
    ASSERT_STATUS(try(fixture, bob, &writer, &rlock_write), RLOCK_BUSY);
    ASSERT_STATUS(release(fixture, alice, &readers[0]), RLOCK_OK);
    ASSERT_STATUS(release(fixture, bob, &readers[1]), RLOCK_OK);
    ASSERT_STATUS(try(fixture, bob, &writer, &rlock_write), RLOCK_BUSY);
    ASSERT_STATUS(release(fixture, alice, &readers[2]), RLOCK_OK);
    ASSERT_STATUS(try(fixture, bob, &writer, &rlock_write), RLOCK_OK);
    ASSERT_NUMBER(rlock_fence(&writer.lock), >, rlock_fence(&readers[2].lock));
    ASSERT_STATUS(inspect(fixture, bob, &answer, NAME), RLOCK_OK);
    assert_int_equal(answer.count, 1);
    assert_true(answer.is_ours);
    ASSERT_BETWEEN(answer.remaining_ms, LEASE_MS / 2, LEASE_MS);
    ASSERT_STATUS(try(fixture, alice, &readers[0], &rlock_read), RLOCK_BUSY);
    ASSERT_STATUS(try(fixture, alice, &readers[0], &rlock_write), RLOCK_BUSY);
    ASSERT_STATUS(release(fixture, bob, &writer), RLOCK_OK);
    ASSERT_STATUS(try(fixture, alice, &readers[0], &rlock_read), RLOCK_OK);
    ASSERT_NUMBER(rlock_fence(&readers[0].lock), >, rlock_fence(&writer.lock));
    ASSERT_STATUS(release(fixture, alice, &readers[0]), RLOCK_OK);
    ASSERT_STATUS(release(fixture, alice, &readers[0]), RLOCK_NOT_OWNER);
    assert_nothing_left(fixture);
}

/* -- turns -- */

/**
 * Writers arrive without end: a reader waits for the owner and for one more writer, and
 * writers are served in the order of their arrival.
 */
FIXTURE_CASE(test_reader__waits_for_one_writer_at_most)
{
    enum { WRITERS = 6 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call writers[WRITERS] = {0}, reader = {0};

    ASSERT_STATUS(try(fixture, alice, &writers[0], &rlock_write), RLOCK_OK);
    for (int i = 1; i < 3; i++)
        wait_for_it(fixture, alice, &writers[i], &rlock_write);
    wait_for_it(fixture, bob, &reader, &rlock_read);
    for (int i = 3; i < WRITERS; i++)
        wait_for_it(fixture, alice, &writers[i], &rlock_write);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release_to_live(fixture, alice, &writers[0]), RLOCK_OK);
    assert_granted(fixture, &writers[1]);
    fixture_settle(fixture);
    assert_waits(&reader);
    ASSERT_STATUS(release_to_live(fixture, alice, &writers[1]), RLOCK_OK);
    assert_granted(fixture, &reader);
    fixture_settle(fixture);
    assert_waits(&writers[2]);
    ASSERT_STATUS(release_to_live(fixture, bob, &reader), RLOCK_OK);
    for (int i = 2; i < WRITERS; i++) {
        assert_granted(fixture, &writers[i]);
        ASSERT_STATUS(release_to_live(fixture, alice, &writers[i]), RLOCK_OK);
    }
    assert_nothing_left(fixture);
}

/** Readers arrive without end: a writer waits for the owners, and then for those due. */
FIXTURE_CASE(test_writer__waits_for_no_reader_that_came_later)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call early[2] = {0}, late[2] = {0}, writers[2] = {0}, owner = {0};

    ASSERT_STATUS(try(fixture, alice, &owner, &rlock_read), RLOCK_OK);
    wait_for_it(fixture, alice, &writers[0], &rlock_write);
    for (int i = 0; i < 2; i++)
        wait_for_it(fixture, bob, &early[i], &rlock_read);
    wait_for_it(fixture, alice, &writers[1], &rlock_write);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release_to_live(fixture, alice, &owner), RLOCK_OK);
    assert_granted(fixture, &writers[0]);
    for (int i = 0; i < 2; i++)
        wait_for_it(fixture, bob, &late[i], &rlock_read);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release_to_live(fixture, alice, &writers[0]), RLOCK_OK);
    for (int i = 0; i < 2; i++)
        assert_granted(fixture, &early[i]); /* they waited for a writer */
    fixture_settle(fixture);
    for (int i = 0; i < 2; i++)
        assert_waits(&late[i]);
    for (int i = 0; i < 2; i++) {
        assert_waits(&writers[1]);
        ASSERT_STATUS(release_to_live(fixture, bob, &early[i]), RLOCK_OK);
    }
    assert_granted(fixture, &writers[1]);
    ASSERT_STATUS(release_to_live(fixture, alice, &writers[1]), RLOCK_OK);
    for (int i = 0; i < 2; i++) {
        assert_granted(fixture, &late[i]);
        ASSERT_STATUS(release_to_live(fixture, bob, &late[i]), RLOCK_OK);
    }
    assert_nothing_left(fixture);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
