/*
 * it_rwlock.c - the read/write lock: readers and writers take turns, and a writer becomes a reader.
 *
 * it_scripts.c shows which calls are granted together, and which exclude each other.
 */
#include "test/proxy.h"
#include "test/waits.h"

static enum rlock_status try(struct fixture *fixture, struct rlock_client *client,
                             struct call *call, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = waiting(kind, 0, 0);

    return acquire_with(fixture, client, call, NAME, &options);
}

/** Begin to wait, and return when the call is in the queue and sleeps. */
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

/* -- turns -- */

/**
 * Writers arrive without end. A reader waits for the owner and for one more writer. The writers are
 * served in the order of their arrival.
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
    assert_only_a_fence_left(fixture);
}

/** Readers arrive without end. A writer waits for the owners, and then only for readers that
 *  waited when the last writer was granted. */
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
    /* these readers already waited when writers[0] was granted */
    for (int i = 0; i < 2; i++)
        assert_granted(fixture, &early[i]);
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
    assert_only_a_fence_left(fixture);
}

/* -- the connection is lost while a writer becomes a reader -- */

enum { HOLDER = 5 };

static enum rlock_status try_nested(struct fixture *fixture, struct rlock_client *client,
                                    struct call *call, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = waiting(kind, HOLDER, 0);

    return acquire_with(fixture, client, call, NAME, &options);
}

static void assert_fence(const struct call *call, const struct call *wanted)
{
    assert_int_equal(rlock_fence(&call->lock), rlock_fence(&wanted->lock));
}

static const enum proxy_fault cuts[] = {PROXY_CUT_UNSENT, PROXY_CUT_BEFORE};

/** Lose the connection at each step in which Alice becomes a reader. The outcome of the lost call
 *  is unknown, so the library releases what that call may have got or kept. The other grants of
 *  Alice stay. */
static void become_reader_over(struct fixture *fixture, struct proxy *proxy,
                               enum proxy_fault cut)
{
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_client *alice =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = proxy->url,
                                                            .timeout_ms = TIMEOUT_MS});
    struct rlock_acquire_options patient =
        waiting(&rlock_read, HOLDER, RLOCK_WAIT_FOREVER);
    struct call write = {0}, reads[2] = {0}, reader = {0}, other = {0};

    fixture_wait_up(fixture, alice);
    ASSERT_STATUS(try_nested(fixture, alice, &write, &rlock_write), RLOCK_OK);
    wait_for_it(fixture, bob, &reader, &rlock_read);
    proxy_at(proxy, "read_acquire", 1, cut);
    ASSERT_STATUS(try_nested(fixture, alice, &reads[0], &rlock_read), RLOCK_IO);
    fixture_wait_up(fixture, alice);
    proxy_at(proxy, "read_acquire", 1, cut);
    ASSERT_STATUS(acquire_with(fixture, alice, &reads[1], NAME, &patient), RLOCK_OK);
    assert_fence(&reads[1], &write);
    assert_waits(&reader);
    proxy_at(proxy, "rw_release", 1, cut);
    ASSERT_STATUS(release(fixture, alice, &write), RLOCK_IO);
    /* the client is up again, and has sent the write lock's release once more */
    assert_granted(fixture, &reader);
    fixture_wait_up(fixture, alice);
    fixture_settle(fixture);
    ASSERT_STATUS(try(fixture, bob, &other, &rlock_write), RLOCK_BUSY);
    ASSERT_STATUS(release(fixture, bob, &reader), RLOCK_OK);
    ASSERT_STATUS(try(fixture, bob, &other, &rlock_write), RLOCK_BUSY);
    ASSERT_STATUS(release(fixture, alice, &reads[1]), RLOCK_OK);
    ASSERT_STATUS(try(fixture, bob, &other, &rlock_write), RLOCK_OK);
    ASSERT_NUMBER(rlock_fence(&other.lock), >, rlock_fence(&reader.lock));
    ASSERT_STATUS(release(fixture, bob, &other), RLOCK_OK);
    fixture_close(fixture, alice);
    assert_only_a_fence_left(fixture);
}

FIXTURE_CASE(test_writer__becomes_a_reader_though_the_connection_is_lost)
{
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
        struct proxy *proxy = proxy_start(&fixture->loop, fixture->server->unix_url);

        become_reader_over(fixture, proxy, cuts[i]);
        proxy_stop(proxy);
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
