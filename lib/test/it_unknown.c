/* it_unknown.c - calls whose outcome is unknown: no name stays locked without an owner. */
#include "base/clock.h"
#include "lock/internal.h"
#include "test/fake.h"
#include "test/proxy.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_US      INT64_C(3600000000)
#define SECOND_MS    1001 /* after which an orphan is released once more */
#define PAUSE_MAX_MS 501  /* between two attempts to connect */

struct absence {
    struct server *server;
    const char *key;
};

static bool is_absent(void *arg)
{
    const struct absence *absence = arg;

    return !server_has(absence->server, absence->key);
}

static void wait_absent(struct fixture *fixture, const char *key)
{
    struct absence absence = {fixture->server, key};

    if (!fixture_run_until(fixture, is_absent, &absence, WITHIN_MS))
        fail_msg("%s is still locked after %d ms, expected free", key, WITHIN_MS);
}

/**
 * A client for which the clock of the server goes forward by more than the timeout: it
 * learns that clock, and then its own clock goes back.
 */
static struct rlock_client *client_of_late_server(struct fixture *fixture)
{
    struct rlock_client *client;
    struct call warm = {0};

    clock_shift_us(HOUR_US); /* so that it does not go below zero */
    client = fixture_client(fixture);
    ASSERT_STATUS(acquire(fixture, client, &warm, "warm", LEASE_MS), STATUS_OK);
    clock_shift_us(-2000LL * TIMEOUT_MS);
    return client;
}

/** Acquire from a server that hangs: the call times out. */
static void acquire_hung(struct fixture *fixture, struct rlock_client *client,
                         struct call *call, const char *name)
{
    server_pause(fixture->server);
    call_acquire(client, call, name, RLOCK_LEASE_MS_MAX);
    rlock_flush(client);
    fixture_pass_ms(fixture, TIMEOUT_MS / 2); /* the other half is for a busy machine */
    assert_int_equal(call->answers, 0);
    fixture_pass_ms(fixture, TIMEOUT_MS / 2 + 1);
    fixture_wait_answers(fixture, call, 1);
    ASSERT_STATUS(call->status, STATUS_TIMEOUT);
    assert_false(rlock_is_held(&call->lock));
}

/** A server that wakes after the timeout does not grant the lock. */
static void test_acquire__timed_out_is_not_granted_later(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = client_of_late_server(fixture);
    struct call call = {0};
    long long before = server_calls(fixture->server, "incrby");

    acquire_hung(fixture, client, &call, "item:7");
    server_resume(fixture->server);
    fixture_wait_up(fixture, client);
    server_settle();
    assert_int_equal(server_calls(fixture->server, "incrby"), before);
    assert_false(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    fixture_pass_ms(fixture, SECOND_MS); /* the second release leaves the new owner */
    fixture_run_for(fixture, 20);
    assert_true(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

struct progress {
    struct server *server;
    long long wanted;
};

static bool has_executed(void *arg)
{
    const struct progress *progress = arg;

    return server_calls(progress->server, "evalsha") >= progress->wanted;
}

/** Nobody is left to release it, so it must not be granted. */
static void test_acquire__of_a_closed_client_is_not_granted(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = client_of_late_server(fixture);
    struct progress progress = {fixture->server,
                                server_calls(fixture->server, "evalsha") + 1};
    long long grants = server_calls(fixture->server, "incrby");
    struct call call = {0};

    server_pause(fixture->server);
    call_acquire(client, &call, "item:7", RLOCK_LEASE_MS_MAX);
    rlock_flush(client);
    fixture_close_hung(fixture, client);
    ASSERT_STATUS(call.status, STATUS_CANCELLED);
    server_resume(fixture->server);
    FIXTURE_AWAIT(fixture, has_executed, &progress);
    assert_int_equal(server_calls(fixture->server, "incrby"), grants);
    assert_false(server_has(fixture->server, "item:7"));
}

static bool is_in_doubt(void *arg)
{
    const struct call *call = arg;

    return call->lock.in_doubt;
}

static bool has_key(void *arg)
{
    const struct absence *absence = arg;

    return server_has(absence->server, absence->key);
}

/** Bob pauses between two tries; the server executes the one whose reply was lost. */
static void test_rlock_client_close__releases_a_grant_of_an_earlier_try(void **state)
{
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct fixture *fixture = *state;
    struct proxy *proxy = proxy_start(&fixture->loop, fixture->server->unix_url);
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = proxy->url,
                                                            .timeout_ms = 2 * WITHIN_MS});
    struct call held = {0}, call = {0};

    fixture_wait_up(fixture, bob);
    ASSERT_STATUS(acquire(fixture, alice, &held, NAME, LEASE_MS), STATUS_OK);
    options.spin_min_ms = options.spin_max_ms =
        UINT16_MAX; /* it does not try a third time */
    proxy_at(proxy, "acquire_wait", 1, PROXY_CUT_ASTRAY);
    call_wait(bob, &call, NAME, &options);
    FIXTURE_AWAIT(fixture, is_in_doubt, &call);
    fixture_wait_up(fixture, bob);
    call_rest(fixture, &call); /* the second try was busy */
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    proxy_let_go(proxy);
    FIXTURE_AWAIT(fixture, has_key, (&(struct absence){fixture->server, NAME}));
    ASSERT_NUMBER(call.answers, ==, 0);
    fixture_close(fixture, bob);
    ASSERT_STATUS(call.status, STATUS_CANCELLED);
    if (server_has(fixture->server, NAME))
        fail_msg("%s is locked after the client of its owner was closed, expected free",
                 NAME);
    proxy_stop(proxy);
}

static unsigned second_releases(const struct rlock_client *client)
{
    const struct list *second = &client->orphans.second;
    unsigned count = 0;

    for (const struct list *at = second->next; at != second; at = at->next)
        count++;
    return count;
}

static bool has_one_second_release(void *arg)
{
    return second_releases(arg) == 1;
}

static bool has_two_second_releases(void *arg)
{
    return second_releases(arg) == 2;
}

static bool has_no_second_release(void *arg)
{
    return second_releases(arg) == 0;
}

/** The command of the old connection is executed after the release of the new one. */
static void test_acquire__executed_late_is_released_by_the_second_release(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call first = {0}, second = {0};
    redisReply *owner;

    ASSERT_STATUS(acquire(fixture, client, &first, "item:1", LEASE_MS), STATUS_OK);
    owner = server_command(fixture->server, "GET item:1");
    assert_string_equal(owner->str + UUID_LEN, ":1");
    owner->str[UUID_LEN + 1] = '2'; /* the value of the next grant */
    acquire_hung(fixture, client, &second, "item:2");
    server_kill(fixture->server); /* it never executes the command */
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
    FIXTURE_AWAIT(fixture, has_one_second_release, client); /* the first found nothing */
    server_do(fixture->server, "SET item:2 %s", owner->str);
    fixture_pass_ms(fixture, SECOND_MS);
    wait_absent(fixture, "item:2");
    server_do(fixture->server, "SET item:2 %s", owner->str);
    fixture_pass_ms(fixture, 10 * SECOND_MS);
    fixture_run_for(fixture, 20); /* there is no third release */
    assert_true(server_has(fixture->server, "item:2"));
    assert_true(list_is_empty(&client->orphans.due));
    assert_true(list_is_empty(&client->orphans.second));
    freeReplyObject(owner);
}

/** The first try of this acquire is executed after the grant of the second has ended. */
static void test_release__of_a_grant_in_doubt_is_repeated_later(void **state)
{
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct fixture *fixture = *state;

    for (int i = 0; i < 2; i++) {
        struct proxy *proxy = proxy_start(&fixture->loop, fixture->server->unix_url);
        struct rlock_client *client = fixture_open(
            fixture, (struct rlock_client_options){.redis_url = proxy->url,
                                                   .timeout_ms = 2 * WITHIN_MS});
        struct call call = {0};

        fixture_wait_up(fixture, client);
        proxy_at(proxy, "acquire_wait", 1, PROXY_CUT_ASTRAY);
        ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_OK);
        if (i == 0)
            ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        else
            rlock_release(client, &call.lock, NULL, NULL);
        wait_absent(fixture, NAME);
        proxy_let_go(proxy);
        FIXTURE_AWAIT(fixture, has_key, (&(struct absence){fixture->server, NAME}));
        fixture_pass_ms(fixture, SECOND_MS);
        wait_absent(fixture, NAME);
        fixture_close(fixture, client);
        proxy_stop(proxy);
    }
}

static void test_acquire__lost_connection_is_unknown(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    server_pause(fixture->server);
    call_acquire(client, &call, "item:7", LEASE_MS);
    rlock_flush(client);
    server_kill(fixture->server);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, STATUS_IO);
    assert_false(rlock_is_held(&call.lock));
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
}

static void test_release__timed_out_is_finished_by_the_library(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call answered = {0}, silent = {0}, late = {0};

    ASSERT_STATUS(acquire(fixture, client, &answered, "answered", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &silent, "silent", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &late, "late", LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    rlock_release(client, &silent.lock, NULL, NULL);
    call_release(client, &answered);
    rlock_flush(client);
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    fixture_wait_answers(fixture, &answered, 2);
    ASSERT_STATUS(answered.status, STATUS_TIMEOUT);
    ASSERT_STATUS(release(fixture, client, &late), STATUS_DOWN);
    assert_false(rlock_is_held(&answered.lock));
    assert_false(rlock_is_held(&late.lock));
    server_resume(fixture->server);
    fixture_wait_up(fixture, client);
    wait_absent(fixture, "answered");
    wait_absent(fixture, "silent");
    wait_absent(fixture, "late");
}

/** `word` comes `count` times in what the fake server was sent. */
struct hearing {
    struct fake *fake;
    const char *word;
    unsigned count;
};

static bool has_heard(void *arg)
{
    const struct hearing *hearing = arg;
    unsigned count = 0;

    for (const char *at = hearing->fake->heard; (at = strstr(at, hearing->word)) != NULL;
         at++)
        count++;
    return count >= hearing->count;
}

static void wait_heard(struct fixture *fixture, struct fake *fake, const char *word,
                       unsigned count)
{
    struct hearing hearing = {fake, word, count};

    FIXTURE_AWAIT(fixture, has_heard, &hearing);
}

/* Its first call, which raises the fences, is answered. */
static struct rlock_client *open_at(struct fixture *fixture, struct fake *fake)
{
    struct rlock_client *client =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = fake->url,
                                                            .timeout_ms = TIMEOUT_MS});

    fixture_wait_up(fixture, client);
    wait_heard(fixture, fake, "lock:fence", 1);
    fake_say(fake, "*2\r\n$1\r\n1\r\n:1\r\n");
    return client;
}

static void test_acquire__reply_of_another_shape_is_unknown_and_released(void **state)
{
    static const char *const replies[] = {"+2 OK\r\n",
                                          "*1\r\n$1\r\n2\r\n",
                                          "*4\r\n$1\r\n2\r\n:5\r\n:7\r\n$2\r\n11\r\n",
                                          "*4\r\n$1\r\n2\r\n:5\r\n$1\r\n7\r\n$1\r\n1\r\n",
                                          "*4\r\n$1\r\n2\r\n$1\r\n5\r\n:7\r\n$1\r\n1\r\n",
                                          "*4\r\n$1\r\n2\r\n:5\r\n:7\r\n:1\r\n"};
    struct fixture *fixture = *state;

    for (int i = 0; i < 6; i++) {
        struct fake *fake = fake_start(&fixture->loop, NULL);
        struct call call = {0};
        struct rlock_client *client = open_at(fixture, fake);

        call_acquire(client, &call, "item:7", LEASE_MS);
        rlock_flush(client);
        wait_heard(fixture, fake, "item:7", 1);
        fake_say(fake, replies[i]);
        fixture_wait_answers(fixture, &call, 1);
        ASSERT_STATUS(call.status, STATUS_IO);
        rlock_flush(client);
        wait_heard(fixture, fake, "item:7", 2); /* the release */
        fake_say(fake, "$3\r\n3 1\r\n");
        fixture_close(fixture, client);
        fake_stop(fake);
    }
}

static void count_answer(enum status status, void *arg)
{
    struct answer *answer = arg;

    answer->status = status;
    answer->answers++;
}

static void test_rlock_force_release__reply_of_another_shape_is_unknown(void **state)
{
    static const char *const replies[] = {"+OK\r\n", "*1\r\n$1\r\n2\r\n",
                                          "*2\r\n$1\r\n2\r\n$1\r\n1\r\n"};
    struct fixture *fixture = *state;

    for (int i = 0; i < 3; i++) {
        struct fake *fake = fake_start(&fixture->loop, NULL);
        struct answer answer = {0};
        struct rlock_client *client = open_at(fixture, fake);

        rlock_force_release(client, "item:7", 6, count_answer, &answer);
        rlock_flush(client);
        wait_heard(fixture, fake, "item:7", 1);
        fake_say(fake, replies[i]);
        fixture_wait_count(fixture, &answer.answers, 1);
        ASSERT_STATUS(answer.status, STATUS_IO);
        fixture_close(fixture, client);
        fake_stop(fake);
    }
}

/** Granted, but the reply never came: the next connection releases it. */
static void test_acquire__whose_reply_was_lost_is_released(void **state)
{
    struct fixture *fixture = *state;
    struct fake *fake = fake_start(&fixture->loop, NULL);
    struct call call = {0};
    struct rlock_client *client =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = fake->url,
                                                            .timeout_ms = TIMEOUT_MS});

    fixture_wait_up(fixture, client);
    wait_heard(fixture, fake, "lock:fence", 1);
    fake_say(fake, "*2\r\n$1\r\n1\r\n:1\r\n"); /* to call 1 */
    call_acquire(client, &call, "item:7", LEASE_MS);
    rlock_flush(client);
    wait_heard(fixture, fake, "item:7", 1);
    fake_hang_up(fake);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, STATUS_IO);
    wait_heard(fixture, fake, "item:7", 2); /* without a flush of the caller */
    wait_heard(fixture, fake, client->scripts[RLOCK_SCRIPT_RELEASE].sha, 1);
    fake_say(fake, "*2\r\n$1\r\n3\r\n:1\r\n$3\r\n4 1\r\n");
    fixture_close(fixture, client);
    fake_stop(fake);
}

/** One WAIT is in progress, those of the other two batches are still to be sent. */
static void test_acquire__is_unknown_of_each_batch_that_a_wait_delays(void **state)
{
    enum { BATCHES = 3 };
    struct fixture *fixture = *state;
    struct proxy *proxy = proxy_start(&fixture->loop, fixture->server->unix_url);
    struct rlock_client *client =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = proxy->url,
                                                            .timeout_ms = TIMEOUT_MS});
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS, .replicas = 1};
    struct call calls[BATCHES] = {0};

    fixture_wait_up(fixture, client);
    proxy_at(proxy, "wait", 1, PROXY_CUT_BEFORE);
    for (int i = 0; i < BATCHES; i++) {
        options.replicas_wait_ms = (uint16_t)(10 + i);
        call_acquire_with(client, &calls[i], i == 0 ? "a" : i == 1 ? "b" : "c", &options);
    }
    rlock_flush(client);
    for (int i = 0; i < BATCHES; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_IO);
    }
    wait_absent(fixture, "a");
    wait_absent(fixture, "b");
    wait_absent(fixture, "c");
    fixture_close(fixture, client);
    proxy_stop(proxy);
}

/** One lock of a call is refused: the others are granted or busy. */
static void test_acquire__refused_alone_leaves_its_neighbours(void **state)
{
    struct fixture *fixture = *state;
    struct fake *fake = fake_start(&fixture->loop, NULL);
    struct call calls[3] = {0};
    struct rlock_client *client =
        fixture_open(fixture, (struct rlock_client_options){.redis_url = fake->url,
                                                            .timeout_ms = TIMEOUT_MS});

    fixture_wait_up(fixture, client);
    wait_heard(fixture, fake, "lock:fence", 1);
    fake_say(fake, "*2\r\n$1\r\n1\r\n:1\r\n"); /* to call 1 */
    for (int i = 0; i < 3; i++)
        call_acquire(client, &calls[i], i == 1 ? "item:1" : "item:2", LEASE_MS);
    rlock_flush(client);
    wait_heard(fixture, fake, "item:2", 2);
    fake_say(fake, "*4\r\n$1\r\n2\r\n:5\r\n:100\r\n$3\r\n1E0\r\n");
    fixture_wait_answers(fixture, &calls[2], 1);
    ASSERT_STATUS(calls[0].status, STATUS_OK);
    assert_int_equal(rlock_fence(&calls[0].lock), 101);
    ASSERT_STATUS(calls[1].status, STATUS_REFUSED);
    ASSERT_STATUS(calls[2].status, STATUS_BUSY);
    fixture_close(fixture, client);
    fake_stop(fake);
}

static void test_acquire__is_down_at_once_without_a_server(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[300] = {0};

    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    fixture_hold_timers(fixture);
    for (int i = 0; i < 300; i++)
        call_acquire(client, &calls[i], "item:7", LEASE_MS);
    rlock_flush(client);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(calls[i].answers, 0); /* not from inside the call */
    }
    for (int i = 0; i < 300; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_DOWN);
    }
    server_restart(fixture->server);
    fixture_pass_ms(fixture, FIXTURE_DAY_MS); /* of the timers that were held */
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire(fixture, client, &calls[0], "item:7", LEASE_MS), STATUS_OK);
}

/** It leaves in the next turn of the loop, which may notice the loss before or after. */
static void test_acquire__collected_before_the_connection_went_fails_once(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    call_acquire(client, &call, "item:7", LEASE_MS); /* not flushed */
    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    rlock_flush(client);
    fixture_wait_answers(fixture, &call, 1);
    assert_int_equal(call.answers, 1);
    assert_true(call.status == STATUS_DOWN || call.status == STATUS_IO);
    server_restart(fixture->server);
}

static void test_client__connects_soon_after_an_outage(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_stats stats;

    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    for (int i = 0; i < 10; i++) /* the pauses grow to the longest */
        fixture_pass_ms(fixture, PAUSE_MAX_MS);
    server_restart(fixture->server);
    fixture_pass_ms(fixture, PAUSE_MAX_MS);
    fixture_hold_timers(fixture);
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.reconnects, 1);
}

/** Two orphans, half a second apart: each has its second release in its time. */
static void test_orphan__second_releases_come_each_in_its_time(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[2] = {0};

    for (int i = 0; i < 2; i++) {
        server_pause(fixture->server);
        call_acquire(client, &calls[i], i == 0 ? "a" : "b", LEASE_MS);
        rlock_flush(client);
        server_kill(fixture->server);
        fixture_wait_answers(fixture, &calls[i], 1);
        ASSERT_STATUS(calls[i].status, STATUS_IO);
        server_restart(fixture->server);
        fixture_wait_up(fixture, client);
        FIXTURE_AWAIT(fixture, i == 0 ? has_one_second_release : has_two_second_releases,
                      client);
        if (i == 0)
            fixture_pass_ms(fixture, SECOND_MS / 2);
    }
    fixture_pass_ms(fixture, SECOND_MS / 2 + 1);
    fixture_hold_timers(fixture);
    FIXTURE_AWAIT(fixture, has_one_second_release, client);
    fixture_pass_ms(fixture, FIXTURE_DAY_MS);
    FIXTURE_AWAIT(fixture, has_no_second_release, client);
    fixture_run_for(fixture, 20);
    assert_int_equal(second_releases(client), 0); /* there is no third */
    assert_true(list_is_empty(&client->orphans.due));
}

/** The number of orphans is bounded: the newest are kept. */
static void test_orphan__remembers_a_bounded_number(void **state)
{
    enum { LOCKS = 21000 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call *calls = calloc(LOCKS, sizeof(*calls));
    char name[24];

    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        call_acquire(client, &calls[i], name, RLOCK_LEASE_MS_MAX);
    }
    rlock_flush(client);
    fixture_wait_answers(fixture, &calls[LOCKS - 1], 1);
    server_pause(fixture->server);
    for (int i = 0; i < LOCKS; i++)
        call_release(client, &calls[i]);
    rlock_flush(client);
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    fixture_wait_answers(fixture, &calls[LOCKS - 1], 2);
    ASSERT_STATUS(calls[0].status, STATUS_TIMEOUT);
    assert_int_equal(client->orphans.due_count, 20000);
    server_resume(fixture->server);
    fixture_wait_up(fixture, client);
    wait_absent(fixture, "item:20999");
    free(calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_acquire__timed_out_is_not_granted_later),
        FIXTURE_TEST(test_acquire__of_a_closed_client_is_not_granted),
        FIXTURE_TEST(test_rlock_client_close__releases_a_grant_of_an_earlier_try),
        FIXTURE_TEST(test_acquire__executed_late_is_released_by_the_second_release),
        FIXTURE_TEST(test_release__of_a_grant_in_doubt_is_repeated_later),
        FIXTURE_TEST(test_acquire__lost_connection_is_unknown),
        FIXTURE_TEST(test_release__timed_out_is_finished_by_the_library),
        FIXTURE_TEST(test_acquire__reply_of_another_shape_is_unknown_and_released),
        FIXTURE_TEST(test_rlock_force_release__reply_of_another_shape_is_unknown),
        FIXTURE_TEST(test_acquire__whose_reply_was_lost_is_released),
        FIXTURE_TEST(test_acquire__is_unknown_of_each_batch_that_a_wait_delays),
        FIXTURE_TEST(test_acquire__refused_alone_leaves_its_neighbours),
        FIXTURE_TEST(test_acquire__is_down_at_once_without_a_server),
        FIXTURE_TEST(test_acquire__collected_before_the_connection_went_fails_once),
        FIXTURE_TEST(test_client__connects_soon_after_an_outage),
        FIXTURE_TEST(test_orphan__second_releases_come_each_in_its_time),
        FIXTURE_TEST(test_orphan__remembers_a_bounded_number),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
