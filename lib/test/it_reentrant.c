/* it_reentrant.c - the reentrant lock, which counts as Redisson's does, against Redis. */
#include "base/clock.h"
#include "lock/internal.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME   "item:7"
#define DUE_MS (LEASE_MS / 3 + 1) /* after which a renewal is due */

static struct rlock_acquire_options by_holder(uint64_t holder, uint32_t lease_ms)
{
    return (struct rlock_acquire_options){
        .kind = &rlock_reentrant, .holder = holder, .lease_ms = lease_ms};
}

static enum status take(struct fixture *fixture, struct rlock_client *client,
                        struct call *call, uint64_t holder, uint32_t lease_ms)
{
    struct rlock_acquire_options options = by_holder(holder, lease_ms);

    return acquire_with(fixture, client, call, NAME, &options);
}

static enum status take_watched(struct fixture *fixture, struct rlock_client *client,
                                struct call *call, uint64_t holder)
{
    struct rlock_acquire_options options = by_holder(holder, LEASE_MS);

    options.watchdog = true;
    return acquire_with(fixture, client, call, NAME, &options);
}

static int64_t count_of(struct fixture *fixture, struct rlock_client *client)
{
    struct answer answer = {0};

    return inspect(fixture, client, &answer, NAME) == STATUS_OK ? answer.count : 0;
}

static long long ttl_ms(struct fixture *fixture)
{
    return server_int(fixture->server, "PTTL " NAME);
}

/* -- counting -- */

static void test_acquire__n_times_is_free_after_n_releases_only(void **state)
{
    enum { TIMES = 5 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call calls[TIMES] = {0}, other = {0};

    for (int i = 0; i < TIMES; i++) {
        ASSERT_STATUS(take(fixture, alice, &calls[i], 3, LEASE_MS), STATUS_OK);
        assert_int_equal(count_of(fixture, alice), i + 1);
    }
    for (int i = 0; i < TIMES; i++) { /* in another order than they were taken */
        int which = (i + 2) % TIMES;

        ASSERT_STATUS(take(fixture, bob, &other, 3, LEASE_MS), STATUS_BUSY);
        assert_int_equal(count_of(fixture, bob), TIMES - i);
        ASSERT_STATUS(release(fixture, alice, &calls[which]), STATUS_OK);
        assert_false(rlock_is_held(&calls[which].lock));
    }
    assert_false(server_has(fixture->server, NAME));
    ASSERT_STATUS(take(fixture, bob, &other, 3, LEASE_MS), STATUS_OK);
}

static void test_acquire__n_times_in_one_flush_counts_each(void **state)
{
    enum { TIMES = 200 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = by_holder(1, LEASE_MS);
    struct call calls[TIMES] = {0};

    for (int i = 0; i < TIMES; i++)
        call_acquire_with(client, &calls[i], NAME, &options);
    rlock_flush(client);
    for (int i = 0; i < TIMES; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_OK);
        assert_int_equal(rlock_fence(&calls[i].lock), rlock_fence(&calls[0].lock));
    }
    assert_int_equal(count_of(fixture, client), TIMES);
    for (int i = 0; i < TIMES; i++)
        call_release(client, &calls[i]);
    rlock_flush(client);
    for (int i = 0; i < TIMES; i++) {
        fixture_wait_answers(fixture, &calls[i], 2);
        ASSERT_STATUS(calls[i].status, STATUS_OK);
    }
    assert_false(server_has(fixture->server, NAME));
}

static void test_acquire__same_holder_id_of_another_client_is_another_holder(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    struct answer answer = {0};

    ASSERT_STATUS(take(fixture, alice, &first, 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(take(fixture, bob, &second, 1, 2 * LEASE_MS), STATUS_BUSY);
    ASSERT_NUMBER(ttl_ms(fixture), <=, LEASE_MS);
    ASSERT_STATUS(inspect(fixture, alice, &answer, NAME), STATUS_OK);
    assert_true(answer.is_ours);
    ASSERT_STATUS(inspect(fixture, bob, &answer, NAME), STATUS_OK);
    assert_false(answer.is_ours);
    ASSERT_STATUS(release(fixture, bob, &second), STATUS_NOT_OWNER);
    assert_int_equal(count_of(fixture, alice), 1);
}

static void test_acquire__another_holder_of_the_same_client_is_busy(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call first = {0}, second = {0};

    ASSERT_STATUS(take(fixture, client, &first, 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(take(fixture, client, &second, 11, LEASE_MS), STATUS_BUSY);
    ASSERT_STATUS(release(fixture, client, &first), STATUS_OK);
    ASSERT_STATUS(take(fixture, client, &second, 11, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(take(fixture, client, &first, 1, LEASE_MS), STATUS_BUSY);
}

static void test_release__second_time_is_not_owner_and_counts_once(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call outer = {0}, inner = {0};

    ASSERT_STATUS(take(fixture, client, &outer, 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(take(fixture, client, &inner, 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &inner), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &inner), STATUS_NOT_OWNER);
    assert_int_equal(count_of(fixture, client), 1);
    ASSERT_STATUS(release(fixture, client, &outer), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));
}

static void test_release__after_expiry_is_lost_and_the_next_holder_untouched(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call first = {0}, second = {0};

    ASSERT_STATUS(take(fixture, client, &first, 1, LEASE_MS), STATUS_OK);
    server_pass_ms(fixture->server, LEASE_MS);
    ASSERT_STATUS(take(fixture, client, &second, 2, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &first), STATUS_LOST);
    assert_int_equal(count_of(fixture, client), 1);
    /* by the same holder too: it is another grant */
    ASSERT_STATUS(release(fixture, client, &second), STATUS_OK);
    ASSERT_STATUS(take(fixture, client, &first, 1, LEASE_MS), STATUS_OK);
    (void)server_int(fixture->server, "DEL " NAME);
    ASSERT_STATUS(take(fixture, client, &second, 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &first), STATUS_LOST);
    assert_int_equal(count_of(fixture, client), 1);
}

/** A grant that nobody waits for any more is released, which takes one count. */
static void test_rlock_cancel__of_a_nested_acquire_leaves_the_outer_one(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = by_holder(1, LEASE_MS);
    struct call outer = {0}, inner = {0};

    ASSERT_STATUS(take(fixture, client, &outer, 1, LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    call_acquire_with(client, &inner, NAME, &options);
    rlock_flush(client);
    rlock_cancel(client, &inner.lock);
    fixture_wait_answers(fixture, &inner, 1);
    ASSERT_STATUS(inner.status, STATUS_CANCELLED);
    server_resume(fixture->server);
    server_settle();
    fixture_pass_ms(fixture, 1001); /* for the second release of it, too */
    fixture_run_for(fixture, 20);
    assert_int_equal(count_of(fixture, client), 1);
    assert_int_equal(server_int(fixture->server, "HLEN " NAME), 3);
    ASSERT_STATUS(release(fixture, client, &outer), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));
}

/* -- leases -- */

/** A nested grant can extend the lease, never shorten it; a release leaves it. */
static void test_acquire__lease_is_the_longest_of_all(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[3] = {0};

    ASSERT_STATUS(take(fixture, client, &calls[0], 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(take(fixture, client, &calls[1], 1, LEASE_MS / 4), STATUS_OK);
    ASSERT_BETWEEN(ttl_ms(fixture), LEASE_MS / 2, LEASE_MS);
    ASSERT_NUMBER(rlock_safe_for_us(&calls[1].lock, clock_mono_us()), <,
                  LEASE_MS / 4 * 1000LL);
    ASSERT_STATUS(take(fixture, client, &calls[2], 1, 2 * LEASE_MS), STATUS_OK);
    ASSERT_BETWEEN(ttl_ms(fixture), 3 * LEASE_MS / 2, 2 * LEASE_MS);
    ASSERT_STATUS(release(fixture, client, &calls[2]), STATUS_OK);
    ASSERT_BETWEEN(ttl_ms(fixture), 3 * LEASE_MS / 2, 2 * LEASE_MS);
}

static void
test_acquire__three_times_released_twice_keeps_the_explicit_lease(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[3] = {0};

    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(take(fixture, client, &calls[i], 1, LEASE_MS), STATUS_OK);
    for (int i = 0; i < 2; i++)
        ASSERT_STATUS(release(fixture, client, &calls[i]), STATUS_OK);
    ASSERT_BETWEEN(ttl_ms(fixture), 1, LEASE_MS);
    server_pass_ms(fixture->server, LEASE_MS);
    fixture_pass_ms(fixture, LEASE_MS);
    assert_false(server_has(fixture->server, NAME));
    assert_int_equal(fixture_renewed(client), 0);
    assert_int_equal(calls[2].losses, 0); /* it was not watched */
}

static void test_extend__never_shortens_what_other_grants_need(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call outer = {0}, inner = {0};

    ASSERT_STATUS(take(fixture, client, &outer, 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(take(fixture, client, &inner, 1, LEASE_MS / 4), STATUS_OK);
    ASSERT_STATUS(extend(fixture, client, &inner, LEASE_MS / 5), STATUS_OK);
    ASSERT_BETWEEN(ttl_ms(fixture), LEASE_MS / 2, LEASE_MS);
    ASSERT_STATUS(extend(fixture, client, &inner, 2 * LEASE_MS), STATUS_OK);
    ASSERT_BETWEEN(ttl_ms(fixture), 3 * LEASE_MS / 2, 2 * LEASE_MS);
    ASSERT_STATUS(release(fixture, client, &inner), STATUS_OK);
    ASSERT_STATUS(extend(fixture, client, &inner, LEASE_MS), STATUS_NOT_OWNER);
    (void)server_int(fixture->server, "DEL " NAME);
    ASSERT_STATUS(extend(fixture, client, &outer, LEASE_MS), STATUS_LOST);
    assert_false(server_has(fixture->server, NAME));
}

/* -- under the watchdog -- */

static void test_watchdog__holds_it_for_ten_leases(void **state)
{
    enum { RENEWALS = 30 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call outer = {0}, inner = {0}, other = {0};

    ASSERT_STATUS(take_watched(fixture, alice, &outer, 1), STATUS_OK);
    ASSERT_STATUS(take_watched(fixture, alice, &inner, 1), STATUS_OK);
    for (int i = 0; i < RENEWALS; i++) {
        if (i == RENEWALS / 2)
            ASSERT_STATUS(release(fixture, alice, &inner), STATUS_OK);
        fixture_pass_renewal(fixture, alice, LEASE_MS, i < RENEWALS / 2 ? 2 : 1);
        ASSERT_STATUS(take(fixture, bob, &other, 1, LEASE_MS), STATUS_BUSY);
    }
    assert_true(rlock_is_held(&outer.lock));
    ASSERT_NUMBER(rlock_safe_for_us(&outer.lock, clock_mono_us()), >, 0);
    assert_int_equal(outer.losses + inner.losses, 0);
    assert_int_equal(count_of(fixture, alice), 1);
    ASSERT_STATUS(release(fixture, alice, &outer), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));
}

static void
test_watchdog__outer_without_it_ends_though_the_inner_was_watched(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call outer = {0}, inner = {0};

    ASSERT_STATUS(take(fixture, client, &outer, 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(take_watched(fixture, client, &inner, 1), STATUS_OK);
    for (int i = 0; i < 6; i++)
        fixture_pass_renewal(fixture, client, LEASE_MS, 1);
    assert_int_equal(count_of(fixture, client), 2);
    ASSERT_STATUS(release(fixture, client, &inner), STATUS_OK);
    server_pass_ms(fixture->server, LEASE_MS);
    assert_false(server_has(fixture->server, NAME));
    ASSERT_STATUS(release(fixture, client, &outer), STATUS_LOST);
}

/** Each grant is reported lost once; the key keeps what was put there. */
static void lose(struct fixture *fixture, const char *theft, long long left)
{
    struct rlock_client *client = fixture_client(fixture);
    struct call outer = {0}, inner = {0};
    struct rlock_stats stats;

    ASSERT_STATUS(take_watched(fixture, client, &outer, 1), STATUS_OK);
    ASSERT_STATUS(take_watched(fixture, client, &inner, 1), STATUS_OK);
    (void)server_int(fixture->server, "DEL " NAME);
    if (theft != NULL)
        server_do(fixture->server, theft);
    fixture_pass_ms(fixture, DUE_MS);
    fixture_wait_losses(fixture, &outer, 1);
    fixture_wait_losses(fixture, &inner, 1);
    fixture_pass_ms(fixture, LEASE_MS);
    fixture_run_for(fixture, 20);
    rlock_client_stats(client, &stats);
    assert_int_equal(outer.losses + inner.losses, 2);
    assert_int_equal(outer.answers + inner.answers, 2);
    assert_int_equal(stats.renewed, 0);
    assert_int_equal(stats.lost, 2);
    assert_int_equal(server_int(fixture->server, "EXISTS " NAME), left);
    if (left > 0)
        assert_int_equal(ttl_ms(fixture), -1);
    ASSERT_STATUS(release(fixture, client, &outer), STATUS_LOST);
    ASSERT_STATUS(release(fixture, client, &inner), STATUS_LOST);
    assert_int_equal(server_int(fixture->server, "EXISTS " NAME), left);
}

static void test_watchdog__deleted_lock_is_told_once_and_not_created_again(void **state)
{
    lose(*state, NULL, 0);
}

static void test_watchdog__stolen_lock_is_told_once_and_left_alone(void **state)
{
    lose(*state, "HSET " NAME " thief:1 1", 1);
}

static void test_watchdog__lock_that_became_a_string_is_lost(void **state)
{
    lose(*state, "SET " NAME " text", 1);
}

/** The same holder acquires it again: what was lost stays lost. */
static void test_watchdog__does_not_take_a_later_grant_for_its_own(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call first = {0}, second = {0};

    ASSERT_STATUS(take_watched(fixture, client, &first, 1), STATUS_OK);
    (void)server_int(fixture->server, "DEL " NAME);
    ASSERT_STATUS(take(fixture, client, &second, 1, LEASE_MS), STATUS_OK);
    fixture_pass_ms(fixture, DUE_MS);
    fixture_wait_losses(fixture, &first, 1);
    assert_true(rlock_is_held(&second.lock));
    assert_int_equal(count_of(fixture, client), 1);
    ASSERT_STATUS(release(fixture, client, &second), STATUS_OK);
}

/* -- fences -- */

static void test_fence__nested_is_the_outer_ones_and_a_later_one_is_greater(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct answer answer = {0};
    int64_t last = 0;

    for (int i = 0; i < 4; i++) {
        struct call outer = {0}, inner = {0};

        ASSERT_STATUS(take(fixture, client, &outer, 1, LEASE_MS), STATUS_OK);
        ASSERT_STATUS(take(fixture, client, &inner, 1, LEASE_MS), STATUS_OK);
        ASSERT_NUMBER(rlock_fence(&outer.lock), >, last);
        assert_int_equal(rlock_fence(&inner.lock), rlock_fence(&outer.lock));
        last = rlock_fence(&outer.lock);
        if (i == 0)
            ASSERT_STATUS(force(fixture, client, &answer, NAME), STATUS_OK);
        else if (i == 1)
            server_pass_ms(fixture->server, LEASE_MS);
        else if (i == 2)
            server_do(fixture->server, "FLUSHALL");
        else
            ASSERT_STATUS(release(fixture, client, &outer), STATUS_OK);
        /* the last time the outer grant was released, else it was lost */
        ASSERT_STATUS(release(fixture, client, &inner), i == 3 ? STATUS_OK : STATUS_LOST);
    }
    assert_false(server_has(fixture->server, NAME));
}

/** Other locks draw from the same counter in between. */
static void test_fence__of_a_nested_grant_stays_behind_those_of_others(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call outer = {0}, other = {0}, inner = {0};

    ASSERT_STATUS(take(fixture, client, &outer, 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &other, "other", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &other), STATUS_OK);
    ASSERT_STATUS(take(fixture, client, &inner, 1, LEASE_MS), STATUS_OK);
    assert_int_equal(rlock_fence(&inner.lock), rlock_fence(&outer.lock));
    ASSERT_NUMBER(rlock_fence(&other.lock), >, rlock_fence(&inner.lock));
    ASSERT_STATUS(release(fixture, client, &outer), STATUS_OK);
    assert_int_equal(rlock_fence(&inner.lock), rlock_fence(&outer.lock));
}

static void test_force_release__frees_all_grants(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call calls[3] = {0}, other = {0};
    struct answer answer = {0};

    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(take(fixture, alice, &calls[i], 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(force(fixture, bob, &answer, NAME), STATUS_OK);
    ASSERT_STATUS(force(fixture, bob, &answer, NAME), STATUS_NOT_FOUND);
    ASSERT_STATUS(take(fixture, bob, &other, 1, LEASE_MS), STATUS_OK);
    for (int i = 0; i < 3; i++)
        ASSERT_STATUS(release(fixture, alice, &calls[i]), STATUS_LOST);
    assert_int_equal(count_of(fixture, bob), 1);
}

/* -- on the wire -- */

/** As Redisson has it: {"<client>:<holder>": count}, and more fields of our own. */
static void test_wire__is_the_hash_of_redisson(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[2] = {0}, other = {0};
    char field[64];

    snprintf(field, sizeof(field), "%s:42", client->id);
    for (int i = 0; i < 2; i++)
        ASSERT_STATUS(take(fixture, client, &calls[i], 42, LEASE_MS), STATUS_OK);
    assert_int_equal(server_int(fixture->server, "HINCRBY " NAME " %s 0", field), 2);
    /* a Redisson client of the same holder releases once, then this client does */
    assert_int_equal(server_int(fixture->server, "HINCRBY " NAME " %s -1", field), 1);
    ASSERT_STATUS(release(fixture, client, &calls[0]), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));

    server_do(fixture->server, "HSET " NAME " java:1 1");
    ASSERT_STATUS(take(fixture, client, &other, 42, LEASE_MS), STATUS_BUSY);
    assert_int_equal(server_int(fixture->server, "HLEN " NAME), 1);
    assert_int_equal(ttl_ms(fixture), -1);
}

static redisContext *subscribe_to(struct fixture *fixture, const char *pattern)
{
    redisContext *listener =
        redisConnectUnix(fixture->server->unix_url + strlen("unix:"));

    assert_non_null(listener);
    assert_int_equal(listener->err, 0);
    freeReplyObject(redisCommand(listener, "PSUBSCRIBE %s", pattern));
    return listener;
}

static void assert_published(redisContext *listener, const char *channel)
{
    redisReply *reply = NULL;

    assert_int_equal(redisGetReply(listener, (void **)&reply), REDIS_OK);
    assert_string_equal(reply->element[2]->str, channel);
    assert_string_equal(reply->element[3]->str, "0");
    freeReplyObject(reply);
}

/** One message when the lock is free, none before; its channel is Redisson's. */
static void test_wire__publishes_a_release_on_redissons_channel(void **state)
{
    static const char *const names[] = {"item:7", "item:{7}:x", "item:8"};
    static const char *const channels[] = {"redisson_lock__channel:{item:7}",
                                           "redisson_lock__channel:item:{7}:x",
                                           "redisson_lock__channel:{item:8}"};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = by_holder(1, LEASE_MS);
    redisContext *listener = subscribe_to(fixture, "redisson_*");
    struct answer answer = {0};

    for (int i = 0; i < 3; i++) {
        struct call calls[2] = {0};

        for (int j = 0; j < 2; j++)
            ASSERT_STATUS(acquire_with(fixture, client, &calls[j], names[i], &options),
                          STATUS_OK);
        if (i == 2) {
            ASSERT_STATUS(force(fixture, client, &answer, names[i]), STATUS_OK);
        } else {
            ASSERT_STATUS(release(fixture, client, &calls[0]), STATUS_OK);
            (void)server_int(fixture->server, "PUBLISH redisson_nothing 0");
            assert_published(listener, "redisson_nothing");
            ASSERT_STATUS(release(fixture, client, &calls[1]), STATUS_OK);
        }
        assert_published(listener, channels[i]);
    }
    redisFree(listener);
}

/** The release of another program wakes a waiter by that channel. */
static void test_wire__is_woken_on_redissons_channel(void **state)
{
    static const char *const names[] = {"item:7", "item:{7}:x"};
    static const char *const channels[] = {"redisson_lock__channel:{item:7}",
                                           "redisson_lock__channel:item:{7}:x"};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = by_holder(1, LEASE_MS);

    options.wait_ms = RLOCK_WAIT_FOREVER;
    for (int i = 0; i < 2; i++) {
        struct call call = {0};

        (void)server_int(fixture->server, "HSET %s java:1 1", names[i]);
        (void)server_int(fixture->server, "PEXPIRE %s %d", names[i], LEASE_MS);
        call_acquire_with(client, &call, names[i], &options);
        rlock_flush(client);
        fixture_wait_asleep(fixture, client, &call);
        fixture_hold_timers(fixture);
        (void)server_int(fixture->server, "DEL %s", names[i]);
        assert_int_equal(server_int(fixture->server, "PUBLISH %s 0", channels[i]), 1);
        fixture_wait_answers(fixture, &call, 1);
        ASSERT_STATUS(call.status, STATUS_OK);
    }
}

/* -- scripts -- */

/** A call that is repeated because its reply was lost counts once. */
static void test_scripts__repeated_call_counts_once(void **state)
{
    struct fixture *fixture = *state;
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    int64_t fences[2];

    rlock_scripts_init(scripts, false);
    for (int i = 0; i < 2; i++) {
        redisReply *reply = server_command(
            fixture->server, "EVAL %s 2 lock:fence a 60000 9000000000000000 me:1 17 7",
            scripts[RLOCK_SCRIPT_REENTRANT_ACQUIRE].body);

        assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
        assert_string_equal(reply->element[3]->str, "1");
        fences[i] = reply->element[4]->element[0]->integer;
        freeReplyObject(reply);
    }
    assert_int_equal(fences[0], fences[1]);
    assert_int_equal(server_int(fixture->server, "HINCRBY a me:1 1"), 2); /* one more */
    for (int i = 0; i < 2; i++) {
        redisReply *reply = server_command(fixture->server, "EVAL %s 1 a me:1 17 7",
                                           scripts[RLOCK_SCRIPT_REENTRANT_RELEASE].body);

        assert_string_equal(reply->str, i == 0 ? "7 1" : "7 0");
        freeReplyObject(reply);
    }
    assert_int_equal(server_int(fixture->server, "HINCRBY a me:1 0"), 1);
}

static void test_scripts__flushed_at_any_time_are_sent_again(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call outer = {0}, inner = {0};
    struct rlock_stats stats;
    long long before = server_calls(fixture->server, "eval");

    server_do(fixture->server, "SCRIPT FLUSH");
    ASSERT_STATUS(take_watched(fixture, client, &outer, 1), STATUS_OK);
    ASSERT_STATUS(take(fixture, client, &inner, 1, LEASE_MS), STATUS_OK);
    assert_int_equal(server_calls(fixture->server, "eval") - before, 1);
    server_do(fixture->server, "SCRIPT FLUSH");
    for (unsigned i = 1; i <= 2; i++) {
        fixture_pass_ms(fixture, DUE_MS);
        fixture_wait_renewed(fixture, client, i);
    }
    assert_int_equal(server_calls(fixture->server, "eval") - before, 2); /* to renew */
    server_do(fixture->server, "SCRIPT FLUSH");
    ASSERT_STATUS(release(fixture, client, &inner), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &outer), STATUS_OK);
    assert_false(server_has(fixture->server, NAME));
    rlock_client_stats(client, &stats);
    ASSERT_NUMBER(stats.renewed, >=, 2);
    assert_int_equal(stats.lost + stats.failed, 0);
}

/* -- other types -- */

static void test_acquire__key_of_another_type_is_refused_with_words(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = by_holder(1, LEASE_MS);
    struct call calls[3] = {0}, plain = {0};
    redisReply *value;

    ASSERT_STATUS(acquire(fixture, client, &plain, "item:1", LEASE_MS), STATUS_OK);
    value = server_command(fixture->server, "GET item:1");
    options.wait_ms = RLOCK_WAIT_FOREVER; /* but not for a refusal */
    call_acquire_with(client, &calls[0], "item:0", &options);
    call_acquire_with(client, &calls[1], "item:1", &options);
    call_acquire_with(client, &calls[2], "item:2", &options);
    rlock_flush(client);
    for (int i = 0; i < 3; i++)
        fixture_wait_answers(fixture, &calls[i], 1);
    ASSERT_STATUS(calls[0].status, STATUS_OK);
    ASSERT_STATUS(calls[1].status, STATUS_REFUSED);
    ASSERT_STATUS(calls[2].status, STATUS_OK); /* its neighbours are not affected */
    ASSERT_CONTAINS(rlock_client_why(client)->text, "no lock of this kind");
    assert_int_equal(server_int(fixture->server, "STRLEN item:1"), value->len);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL item:1"), LEASE_MS / 2, LEASE_MS);
    freeReplyObject(value);
    ASSERT_STATUS(release(fixture, client, &plain), STATUS_OK);
}

/** The reverse. */
static void test_acquire__hash_is_refused_for_a_plain_lock_and_untouched(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call held = {0}, plain = {0};

    ASSERT_STATUS(take(fixture, client, &held, 1, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &plain, NAME, 2 * LEASE_MS), STATUS_REFUSED);
    assert_int_equal(count_of(fixture, client), 1);
    ASSERT_BETWEEN(ttl_ms(fixture), LEASE_MS / 2, LEASE_MS);
    ASSERT_STATUS(release(fixture, client, &held), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_acquire__n_times_is_free_after_n_releases_only),
        FIXTURE_TEST(test_acquire__n_times_in_one_flush_counts_each),
        FIXTURE_TEST(test_acquire__same_holder_id_of_another_client_is_another_holder),
        FIXTURE_TEST(test_acquire__another_holder_of_the_same_client_is_busy),
        FIXTURE_TEST(test_release__second_time_is_not_owner_and_counts_once),
        FIXTURE_TEST(test_release__after_expiry_is_lost_and_the_next_holder_untouched),
        FIXTURE_TEST(test_rlock_cancel__of_a_nested_acquire_leaves_the_outer_one),
        FIXTURE_TEST(test_acquire__lease_is_the_longest_of_all),
        FIXTURE_TEST(test_acquire__three_times_released_twice_keeps_the_explicit_lease),
        FIXTURE_TEST(test_extend__never_shortens_what_other_grants_need),
        FIXTURE_TEST(test_watchdog__holds_it_for_ten_leases),
        FIXTURE_TEST(test_watchdog__outer_without_it_ends_though_the_inner_was_watched),
        FIXTURE_TEST(test_watchdog__deleted_lock_is_told_once_and_not_created_again),
        FIXTURE_TEST(test_watchdog__stolen_lock_is_told_once_and_left_alone),
        FIXTURE_TEST(test_watchdog__lock_that_became_a_string_is_lost),
        FIXTURE_TEST(test_watchdog__does_not_take_a_later_grant_for_its_own),
        FIXTURE_TEST(test_fence__nested_is_the_outer_ones_and_a_later_one_is_greater),
        FIXTURE_TEST(test_fence__of_a_nested_grant_stays_behind_those_of_others),
        FIXTURE_TEST(test_force_release__frees_all_grants),
        FIXTURE_TEST(test_wire__is_the_hash_of_redisson),
        FIXTURE_TEST(test_wire__publishes_a_release_on_redissons_channel),
        FIXTURE_TEST(test_wire__is_woken_on_redissons_channel),
        FIXTURE_TEST(test_scripts__repeated_call_counts_once),
        FIXTURE_TEST(test_scripts__flushed_at_any_time_are_sent_again),
        FIXTURE_TEST(test_acquire__key_of_another_type_is_refused_with_words),
        FIXTURE_TEST(test_acquire__hash_is_refused_for_a_plain_lock_and_untouched),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
