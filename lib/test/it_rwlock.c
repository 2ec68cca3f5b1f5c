/* it_rwlock.c - the read/write lock: readers share, a writer excludes, nobody starves. */
#include "test/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rlock_acquire_options once(const struct rlock_kind *kind)
{
    return waiting(kind, 0, 0);
}

static struct rlock_acquire_options patient(const struct rlock_kind *kind)
{
    return waiting(kind, 0, RLOCK_WAIT_FOREVER);
}

static enum status try(struct fixture *fixture, struct rlock_client *client,
                       struct call *call, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = once(kind);

    return acquire_with(fixture, client, call, NAME, &options);
}

/** Begin to wait, and be in the queue and asleep. */
static void wait_for_it(struct fixture *fixture, struct rlock_client *client,
                        struct call *call, const struct rlock_kind *kind)
{
    struct rlock_acquire_options options = patient(kind);

    call_wait(client, call, NAME, &options);
    fixture_wait_asleep(fixture, client, call);
}

static void assert_granted(struct fixture *fixture, struct call *call)
{
    fixture_wait_answers(fixture, call, 1);
    ASSERT_STATUS(call->status, STATUS_OK);
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
                      STATUS_OK);
    ASSERT_STATUS(inspect(fixture, bob, &answer, NAME), STATUS_OK);
    assert_int_equal(answer.count, 3);
    ASSERT_STATUS(try(fixture, bob, &writer, &rlock_write), STATUS_BUSY);
    ASSERT_STATUS(release(fixture, alice, &readers[0]), STATUS_OK);
    ASSERT_STATUS(release(fixture, bob, &readers[1]), STATUS_OK);
    ASSERT_STATUS(try(fixture, bob, &writer, &rlock_write), STATUS_BUSY);
    ASSERT_STATUS(release(fixture, alice, &readers[2]), STATUS_OK);
    ASSERT_STATUS(try(fixture, bob, &writer, &rlock_write), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&writer.lock), >, rlock_fence(&readers[2].lock));
    ASSERT_STATUS(inspect(fixture, bob, &answer, NAME), STATUS_OK);
    assert_int_equal(answer.count, 1);
    assert_true(answer.is_ours);
    ASSERT_BETWEEN(answer.remaining_ms, LEASE_MS / 2, LEASE_MS);
    ASSERT_STATUS(try(fixture, alice, &readers[0], &rlock_read), STATUS_BUSY);
    ASSERT_STATUS(try(fixture, alice, &readers[0], &rlock_write), STATUS_BUSY);
    ASSERT_STATUS(release(fixture, bob, &writer), STATUS_OK);
    ASSERT_STATUS(try(fixture, alice, &readers[0], &rlock_read), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&readers[0].lock), >, rlock_fence(&writer.lock));
    ASSERT_STATUS(release(fixture, alice, &readers[0]), STATUS_OK);
    ASSERT_STATUS(release(fixture, alice, &readers[0]), STATUS_NOT_OWNER);
    assert_nothing_left(fixture);
}

FIXTURE_CASE(test_readers__a_thousand_waiting_enter_together)
{
    enum { READERS = 1000 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = patient(&rlock_read);
    struct call *readers = calloc(READERS, sizeof(*readers)), writer = {0};
    long long before;

    ASSERT_STATUS(try(fixture, alice, &writer, &rlock_write), STATUS_OK);
    for (int i = 0; i < READERS; i++)
        call_acquire_with(bob, &readers[i], NAME, &options);
    rlock_flush(bob);
    for (int i = 0; i < READERS; i++)
        fixture_wait_asleep(fixture, bob, &readers[i]);
    fixture_hold_timers(fixture);
    before = script_calls(fixture);
    ASSERT_STATUS(release_to_live(fixture, alice, &writer), STATUS_OK);
    for (int i = 0; i < READERS; i++)
        assert_granted(fixture, &readers[i]);
    /* the release, and tries in batches */
    ASSERT_NUMBER(script_calls(fixture) - before, <=, 1 + 2 * (READERS / 128 + 1));
    for (int i = 0; i < READERS; i++)
        call_release(bob, &readers[i]);
    rlock_flush(bob);
    for (int i = 0; i < READERS; i++) {
        fixture_wait_answers(fixture, &readers[i], 2);
        ASSERT_STATUS(readers[i].status, STATUS_OK);
    }
    assert_nothing_left(fixture);
    free(readers);
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

    ASSERT_STATUS(try(fixture, alice, &writers[0], &rlock_write), STATUS_OK);
    for (int i = 1; i < 3; i++)
        wait_for_it(fixture, alice, &writers[i], &rlock_write);
    wait_for_it(fixture, bob, &reader, &rlock_read);
    for (int i = 3; i < WRITERS; i++)
        wait_for_it(fixture, alice, &writers[i], &rlock_write);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release_to_live(fixture, alice, &writers[0]), STATUS_OK);
    assert_granted(fixture, &writers[1]);
    fixture_settle(fixture);
    assert_waits(&reader);
    ASSERT_STATUS(release_to_live(fixture, alice, &writers[1]), STATUS_OK);
    assert_granted(fixture, &reader);
    fixture_settle(fixture);
    assert_waits(&writers[2]);
    ASSERT_STATUS(release_to_live(fixture, bob, &reader), STATUS_OK);
    for (int i = 2; i < WRITERS; i++) {
        assert_granted(fixture, &writers[i]);
        ASSERT_STATUS(release_to_live(fixture, alice, &writers[i]), STATUS_OK);
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

    ASSERT_STATUS(try(fixture, alice, &owner, &rlock_read), STATUS_OK);
    wait_for_it(fixture, alice, &writers[0], &rlock_write);
    for (int i = 0; i < 2; i++)
        wait_for_it(fixture, bob, &early[i], &rlock_read);
    wait_for_it(fixture, alice, &writers[1], &rlock_write);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release_to_live(fixture, alice, &owner), STATUS_OK);
    assert_granted(fixture, &writers[0]);
    for (int i = 0; i < 2; i++)
        wait_for_it(fixture, bob, &late[i], &rlock_read);
    fixture_hold_timers(fixture);
    ASSERT_STATUS(release_to_live(fixture, alice, &writers[0]), STATUS_OK);
    for (int i = 0; i < 2; i++)
        assert_granted(fixture, &early[i]); /* they waited for a writer */
    fixture_settle(fixture);
    for (int i = 0; i < 2; i++)
        assert_waits(&late[i]);
    for (int i = 0; i < 2; i++) {
        assert_waits(&writers[1]);
        ASSERT_STATUS(release_to_live(fixture, bob, &early[i]), STATUS_OK);
    }
    assert_granted(fixture, &writers[1]);
    ASSERT_STATUS(release_to_live(fixture, alice, &writers[1]), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        assert_granted(fixture, &late[i]);
        ASSERT_STATUS(release_to_live(fixture, bob, &late[i]), STATUS_OK);
    }
    assert_nothing_left(fixture);
}

/* -- one holder -- */

/** It would wait for a writer that waits for it. */
FIXTURE_CASE(test_holder__reads_again_while_a_writer_waits)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_read, 7, 0);
    struct call outer = {0}, inner = {0}, writer = {0}, stranger = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &outer, NAME, &options), STATUS_OK);
    wait_for_it(fixture, bob, &writer, &rlock_write);
    ASSERT_STATUS(acquire_with(fixture, bob, &stranger, NAME, &options), STATUS_BUSY);
    ASSERT_STATUS(acquire_with(fixture, alice, &inner, NAME, &options), STATUS_OK);
    ASSERT_STATUS(release(fixture, alice, &inner), STATUS_OK);
    assert_waits(&writer);
    ASSERT_STATUS(release(fixture, alice, &outer), STATUS_OK);
    assert_granted(fixture, &writer);
    ASSERT_STATUS(release(fixture, bob, &writer), STATUS_OK);
    assert_nothing_left(fixture);
}

/* -- a resource that checks fences -- */

struct resource {
    int64_t written, seen; /* the greatest fence of a write, and of any request */
};

static bool may_read(struct resource *resource, const struct call *call)
{
    int64_t fence = rlock_fence(&call->lock);

    if (fence < resource->written)
        return false;
    if (fence > resource->seen)
        resource->seen = fence;
    return true;
}

static bool may_write(struct resource *resource, const struct call *call)
{
    int64_t fence = rlock_fence(&call->lock);

    if (fence < resource->seen)
        return false;
    resource->written = resource->seen = fence;
    return true;
}

/** Of owners whose lease has ended; readers do not disturb each other. */
FIXTURE_CASE(test_fence__lets_a_resource_refuse_what_is_late)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct resource resource = {0};
    struct call readers[3] = {0}, writers[2] = {0};

    ASSERT_STATUS(try(fixture, client, &writers[0], &rlock_write), STATUS_OK);
    server_pass_ms(fixture->server, LEASE_MS);
    for (int i = 0; i < 2; i++)
        ASSERT_STATUS(try(fixture, client, &readers[i], &rlock_read), STATUS_OK);
    assert_true(may_read(&resource, &readers[1]));
    assert_true(may_read(&resource, &readers[0]));
    assert_false(may_write(&resource, &writers[0]));
    server_pass_ms(fixture->server, LEASE_MS);
    ASSERT_STATUS(try(fixture, client, &writers[1], &rlock_write), STATUS_OK);
    assert_true(may_write(&resource, &writers[1]));
    assert_false(may_read(&resource, &readers[1]));
    ASSERT_STATUS(release(fixture, client, &writers[1]), STATUS_OK);
    ASSERT_STATUS(try(fixture, client, &readers[2], &rlock_read), STATUS_OK);
    assert_true(may_read(&resource, &readers[2]));
    ASSERT_STATUS(release(fixture, client, &readers[2]), STATUS_OK);
}

/* -- a simpler read/write lock -- */

/** A key for the writer, a counter of readers; readers enter unless one writes. */
static bool may_enter(struct fixture *fixture, bool is_writer)
{
    if (server_has(fixture->server, "writer"))
        return false;
    if (is_writer && server_int(fixture->server, "INCRBY readers 0") > 0)
        return false;
    server_do(fixture->server, is_writer ? "SET writer 1" : "INCR readers");
    return true;
}

/** Two readers that take turns keep a writer out for ever. */
FIXTURE_CASE(test_counter__of_readers_starves_a_writer)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call readers[2] = {0}, writer = {0};

    assert_true(may_enter(fixture, false));
    ASSERT_STATUS(try(fixture, client, &readers[0], &rlock_read), STATUS_OK);
    wait_for_it(fixture, client, &writer, &rlock_write);
    for (int i = 0; i < 20; i++) {
        assert_false(may_enter(fixture, true));
        assert_true(may_enter(fixture, false)); /* before the other leaves */
        server_do(fixture->server, "DECR readers");
    }
    ASSERT_STATUS(try(fixture, client, &readers[1], &rlock_read), STATUS_BUSY);
    ASSERT_STATUS(release(fixture, client, &readers[0]), STATUS_OK);
    assert_granted(fixture, &writer);
    ASSERT_STATUS(release(fixture, client, &writer), STATUS_OK);
}

/** A lock and the words that rlock_client_why() had for it. */
struct told {
    struct rlock lock;
    struct rlock_client *client;
    enum status status;
    char why[sizeof(((struct err *)0)->text)];
    unsigned answers;
};

static void on_told(struct rlock *lock UNUSED, enum status status, void *arg)
{
    struct told *told = arg;

    told->status = status;
    snprintf(told->why, sizeof(told->why), "%s", rlock_client_why(told->client)->text);
    told->answers++;
}

FIXTURE_CASE(test_rlock_client_why__tells_of_each_lock_of_a_batch)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_write, 7, 0);
    struct call held = {0};

    (void)server_int(fixture->server, "RPUSH other value");
    ASSERT_STATUS(acquire_with(fixture, client, &held, NAME, &options), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        struct told told[2] = {{.client = client}, {.client = client}};
        struct told *mine = &told[i], *other = &told[1 - i];

        for (int j = 0; j < 2; j++) {
            const char *name = &told[j] == mine ? NAME : "other";

            rlock_acquire(client, &told[j].lock, name, strlen(name), &options, on_told,
                          &told[j]);
        }
        rlock_flush(client);
        fixture_wait_count(fixture, &told[1].answers, 1);
        ASSERT_STATUS(mine->status, STATUS_INVALID);
        ASSERT_CONTAINS(mine->why, "holder: has the lock already");
        ASSERT_STATUS(other->status, STATUS_REFUSED);
        ASSERT_CONTAINS(other->why, "WRONGTYPE");
    }
    ASSERT_STATUS(release(fixture, client, &held), STATUS_OK);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
