/* it_reentrant.c - the reentrant lock, which counts as Redisson's does, against Redis. */
#include "lock/internal.h"
#include "test/waits.h"

#include <stdio.h>

static enum status take(struct fixture *fixture, struct rlock_client *client,
                        struct call *call, uint64_t holder)
{
    struct rlock_acquire_options options = waiting(&rlock_reentrant, holder, 0);

    return acquire_with(fixture, client, call, NAME, &options);
}

static int64_t count_of(struct fixture *fixture, struct rlock_client *client)
{
    struct answer answer = {0};

    return inspect(fixture, client, &answer, NAME) == STATUS_OK ? answer.count : 0;
}

/* -- counting -- */

FIXTURE_CASE(test_acquire__n_times_is_free_after_n_releases_only)
{
    enum { TIMES = 5 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call calls[TIMES] = {0}, other = {0};

    for (int i = 0; i < TIMES; i++) {
        ASSERT_STATUS(take(fixture, alice, &calls[i], 3), STATUS_OK);
        assert_int_equal(count_of(fixture, alice), i + 1);
    }
    for (int i = 0; i < TIMES; i++) { /* in another order than they were taken */
        int which = (i + 2) % TIMES;

        ASSERT_STATUS(take(fixture, bob, &other, 3), STATUS_BUSY);
        assert_int_equal(count_of(fixture, bob), TIMES - i);
        ASSERT_STATUS(release(fixture, alice, &calls[which]), STATUS_OK);
        assert_false(rlock_is_held(&calls[which].lock));
    }
    assert_false(server_has(fixture->server, NAME));
    ASSERT_STATUS(take(fixture, bob, &other, 3), STATUS_OK);
}

/* -- on the wire -- */

/** As Redisson has it: {"<client>:<holder>": count}, and more fields of our own. */
FIXTURE_CASE(test_wire__is_the_hash_of_redisson)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[2] = {0}, other = {0};
    char field[64];

    snprintf(field, sizeof(field), "%s:42", client->id);
    for (int i = 0; i < 2; i++)
        ASSERT_STATUS(take(fixture, client, &calls[i], 42), STATUS_OK);
    assert_int_equal(server_int(fixture->server, "HINCRBY " NAME " %s 0", field), 2);
    /* a Redisson client of the same holder releases once, then this client does */
    assert_int_equal(server_int(fixture->server, "HINCRBY " NAME " %s -1", field), 1);
    ASSERT_STATUS(release(fixture, client, &calls[0]), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));

    server_do(fixture->server, "HSET " NAME " java:1 1");
    ASSERT_STATUS(take(fixture, client, &other, 42), STATUS_BUSY);
    assert_int_equal(server_int(fixture->server, "HLEN " NAME), 1);
    assert_int_equal(server_int(fixture->server, "PTTL " NAME), -1);
}

/** The release of another program wakes a waiter by that channel. */
FIXTURE_CASE(test_wire__is_woken_on_redissons_channel)
{
    static const char *const names[] = {"item:7", "item:{7}:x"};
    static const char *const channels[] = {"redisson_lock__channel:{item:7}",
                                           "redisson_lock__channel:item:{7}:x"};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options =
        waiting(&rlock_reentrant, 1, RLOCK_WAIT_FOREVER);

    for (int i = 0; i < 2; i++) {
        struct call call = {0};

        (void)server_int(fixture->server, "HSET %s java:1 1", names[i]);
        (void)server_int(fixture->server, "PEXPIRE %s %d", names[i], LEASE_MS);
        call_wait(client, &call, names[i], &options);
        fixture_wait_asleep(fixture, client, &call);
        fixture_hold_timers(fixture);
        (void)server_int(fixture->server, "DEL %s", names[i]);
        assert_int_equal(server_int(fixture->server, "PUBLISH %s 0", channels[i]), 1);
        fixture_wait_answers(fixture, &call, 1);
        ASSERT_STATUS(call.status, STATUS_OK);
    }
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
