/* it_unknown.c - outcomes that nobody knows: nothing stays locked without a holder. */
#include "base/clock.h"
#include "lock/internal.h"
#include "test/fake.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASTY_MS 200

static struct rlock_client *hasty_client(struct fixture *fixture)
{
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = fixture->server->unix_url,
                                               .timeout_ms = HASTY_MS});

    fixture_wait_up(fixture, client);
    return client;
}

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

    FIXTURE_AWAIT(fixture, is_absent, &absence);
}

/** Too late for its caller, it is too late for the server, when that wakes. */
static void test_acquire__timed_out_is_not_granted_later(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = hasty_client(fixture);
    struct call call = {0}, warm = {0};
    int64_t begin_us;
    long long before;

    assert_int_equal(acquire(fixture, client, &warm, "warm", LEASE_MS), STATUS_OK);
    before = server_calls(fixture->server, "incrby");
    server_pause(fixture->server);
    begin_us = clock_mono_us();
    assert_int_equal(acquire(fixture, client, &call, "item:7", RLOCK_LEASE_MS_MAX),
                     STATUS_TIMEOUT);
    ASSERT_BETWEEN(clock_mono_us() - begin_us, HASTY_MS * 1000 - 1000,
                   (HASTY_MS + 300) * 1000);
    assert_false(rlock_is_held(&call.lock));
    server_resume(fixture->server);
    fixture_wait_up(fixture, client);
    fixture_run_for(fixture, 20);
    assert_int_equal(server_calls(fixture->server, "incrby"), before);
    assert_false(server_has(fixture->server, "item:7"));
    assert_int_equal(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    fixture_run_for(fixture, 1200); /* a second look does not harm the new holder */
    assert_true(server_has(fixture->server, "item:7"));
    assert_int_equal(release(fixture, client, &call), STATUS_OK);
}

/** Nobody is left to give it back, so it must not be granted. */
static void test_acquire__of_a_client_that_is_gone_is_not_granted(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = hasty_client(fixture);
    struct call call = {0}, warm = {0};
    long long evals, grants;

    assert_int_equal(acquire(fixture, client, &warm, "warm", LEASE_MS), STATUS_OK);
    evals = server_calls(fixture->server, "evalsha");
    grants = server_calls(fixture->server, "incrby");
    server_pause(fixture->server);
    call_acquire(client, &call, "item:7", RLOCK_LEASE_MS_MAX);
    rlock_flush(client);
    fixture_close(fixture, client);
    assert_int_equal(call.status, STATUS_CANCELLED);
    fixture_run_for(fixture, 50);
    server_resume(fixture->server);
    while (server_calls(fixture->server, "evalsha") == evals)
        fixture_run_for(fixture, 2);
    assert_int_equal(server_calls(fixture->server, "incrby"), grants);
    assert_false(server_has(fixture->server, "item:7"));
}

/** The old connection's command is carried out after the new connection's release. */
static void test_acquire__carried_out_late_is_given_back_at_the_second_look(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = hasty_client(fixture);
    struct call first = {0}, second = {0};
    redisReply *owner;

    assert_int_equal(acquire(fixture, client, &first, "item:1", LEASE_MS), STATUS_OK);
    owner = server_command(fixture->server, "GET item:1");
    assert_string_equal(owner->str + UUID_LEN, ":1");
    owner->str[UUID_LEN + 1] = '2'; /* what the next will write */
    server_pause(fixture->server);
    assert_int_equal(acquire(fixture, client, &second, "item:2", LEASE_MS),
                     STATUS_TIMEOUT);
    server_kill(fixture->server); /* it never did */
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
    fixture_run_for(fixture, 100); /* the first look finds nothing */
    freeReplyObject(server_command(fixture->server, "SET item:2 %s", owner->str));
    wait_absent(fixture, "item:2");
    freeReplyObject(server_command(fixture->server, "SET item:2 %s", owner->str));
    fixture_run_for(fixture, 1200); /* there is no third look */
    assert_true(server_has(fixture->server, "item:2"));
    assert_true(list_is_empty(&client->orphans.due));
    assert_true(list_is_empty(&client->orphans.second));
    freeReplyObject(owner);
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
    assert_int_equal(call.status, STATUS_IO);
    assert_false(rlock_is_held(&call.lock));
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
}

static void test_release__timed_out_is_finished_by_the_library(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = hasty_client(fixture);
    struct call told = {0}, silent = {0}, late = {0};

    assert_int_equal(acquire(fixture, client, &told, "told", LEASE_MS), STATUS_OK);
    assert_int_equal(acquire(fixture, client, &silent, "silent", LEASE_MS), STATUS_OK);
    assert_int_equal(acquire(fixture, client, &late, "late", LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    rlock_release(client, &silent.lock, NULL, NULL);
    assert_int_equal(release(fixture, client, &told), STATUS_TIMEOUT);
    assert_int_equal(release(fixture, client, &late), STATUS_DOWN);
    assert_false(rlock_is_held(&told.lock));
    assert_false(rlock_is_held(&late.lock));
    server_resume(fixture->server);
    fixture_wait_up(fixture, client);
    wait_absent(fixture, "told");
    wait_absent(fixture, "silent");
    wait_absent(fixture, "late");
}

/** Whether the bytes heard by the fake have `word` `count` times. */
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

static void test_acquire__reply_of_another_shape_is_unknown_and_given_back(void **state)
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
        struct rlock_client *client =
            fixture_open(fixture, (struct rlock_client_options){
                                      .redis_url = fake->url, .timeout_ms = TIMEOUT_MS});

        fixture_wait_up(fixture, client);
        wait_heard(fixture, fake, "lock:fence", 1);
        fake_say(fake, "*2\r\n$1\r\n1\r\n:1\r\n"); /* to call 1 */
        call_acquire(client, &call, "item:7", LEASE_MS);
        rlock_flush(client);
        wait_heard(fixture, fake, "item:7", 1);
        fake_say(fake, replies[i]);
        fixture_wait_answers(fixture, &call, 1);
        assert_int_equal(call.status, STATUS_IO);
        rlock_flush(client);
        wait_heard(fixture, fake, "item:7", 2); /* the release */
        fake_say(fake, "$3\r\n3 1\r\n");
        fixture_close(fixture, client);
        fake_stop(fake);
    }
}

/** Granted, but the reply never came: the next connection gives it back. */
static void test_acquire__whose_reply_was_lost_is_given_back(void **state)
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
    assert_int_equal(call.status, STATUS_IO);
    wait_heard(fixture, fake, "item:7", 2); /* without a flush of ours */
    wait_heard(fixture, fake, client->scripts[RLOCK_SCRIPT_RELEASE].sha, 1);
    fake_say(fake, "*2\r\n$1\r\n3\r\n:1\r\n$3\r\n4 1\r\n");
    fixture_close(fixture, client);
    fake_stop(fake);
}

/** A lock that the server refuses alone: the verdict of its own, its neighbours go on. */
static void test_acquire__refused_alone(void **state)
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
    assert_int_equal(calls[0].status, STATUS_OK);
    assert_int_equal(rlock_fence(&calls[0].lock), 101);
    assert_int_equal(calls[1].status, STATUS_REFUSED);
    assert_int_equal(calls[2].status, STATUS_BUSY);
    fixture_close(fixture, client);
    fake_stop(fake);
}

static void test_acquire__is_down_at_once_without_a_server(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[300] = {0};
    int64_t begin_us;

    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    begin_us = clock_mono_us();
    for (int i = 0; i < 300; i++)
        call_acquire(client, &calls[i], "item:7", LEASE_MS);
    rlock_flush(client);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(calls[i].answers, 0); /* not from inside */
    }
    for (int i = 0; i < 300; i++) {
        fixture_wait_answers(fixture, &calls[i], 1);
        assert_int_equal(calls[i].status, STATUS_DOWN);
    }
    ASSERT_NUMBER(clock_mono_us() - begin_us, <, 500000);
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
    assert_int_equal(acquire(fixture, client, &calls[0], "item:7", LEASE_MS), STATUS_OK);
}

static void test_acquire__collected_before_the_connection_went_is_down(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    call_acquire(client, &call, "item:7", LEASE_MS); /* not flushed */
    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    assert_int_equal(call.answers, 0);
    rlock_flush(client);
    fixture_wait_answers(fixture, &call, 1);
    assert_int_equal(call.status, STATUS_DOWN);
    server_restart(fixture->server);
}

static void test_client__serves_again_soon_after_an_outage(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_stats stats;
    int64_t begin_us;

    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    fixture_run_for(fixture, 1200); /* the pauses have grown to their most */
    server_restart(fixture->server);
    begin_us = clock_mono_us();
    fixture_wait_up(fixture, client);
    ASSERT_NUMBER(clock_mono_us() - begin_us, <, 650000);
    assert_int_equal(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.reconnects, 1);
}

static unsigned second_looks(const struct rlock_client *client)
{
    const struct list *second = &client->orphans.second;
    unsigned count = 0;

    for (const struct list *at = second->next; at != second; at = at->next)
        count++;
    return count;
}

static bool has_at_most_one_second_look(void *arg)
{
    return second_looks(arg) <= 1;
}

static bool has_no_second_look(void *arg)
{
    return second_looks(arg) == 0;
}

/** Two that were lost one after the other are looked at again one after the other. */
static void test_orphan__second_looks_come_each_in_its_time(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = hasty_client(fixture);
    struct call calls[2] = {0};
    int64_t first_us;

    for (int i = 0; i < 2; i++) {
        server_pause(fixture->server);
        assert_int_equal(
            acquire(fixture, client, &calls[i], i == 0 ? "a" : "b", LEASE_MS),
            STATUS_TIMEOUT);
        server_kill(fixture->server);
        server_restart(fixture->server);
        fixture_wait_up(fixture, client);
        fixture_run_for(fixture, 100);
    }
    FIXTURE_AWAIT(fixture, has_at_most_one_second_look, client);
    first_us = clock_mono_us();
    FIXTURE_AWAIT(fixture, has_no_second_look, client);
    ASSERT_NUMBER(clock_mono_us() - first_us, >, 100000);
    fixture_run_for(fixture, 100);
    assert_int_equal(second_looks(client), 0); /* there is no third */
    assert_true(list_is_empty(&client->orphans.due));
}

/** What is remembered is bounded: the newest are kept. */
static void test_orphan__remembers_a_bounded_number(void **state)
{
    enum { LOCKS = 21000 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call *calls = calloc(LOCKS, sizeof(*calls));
    char name[16];

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
    fixture_wait_answers(fixture, &calls[LOCKS - 1], 2);
    assert_int_equal(calls[0].status, STATUS_TIMEOUT);
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
        FIXTURE_TEST(test_acquire__of_a_client_that_is_gone_is_not_granted),
        FIXTURE_TEST(test_acquire__carried_out_late_is_given_back_at_the_second_look),
        FIXTURE_TEST(test_acquire__lost_connection_is_unknown),
        FIXTURE_TEST(test_release__timed_out_is_finished_by_the_library),
        FIXTURE_TEST(test_acquire__reply_of_another_shape_is_unknown_and_given_back),
        FIXTURE_TEST(test_acquire__whose_reply_was_lost_is_given_back),
        FIXTURE_TEST(test_acquire__refused_alone),
        FIXTURE_TEST(test_acquire__is_down_at_once_without_a_server),
        FIXTURE_TEST(test_acquire__collected_before_the_connection_went_is_down),
        FIXTURE_TEST(test_client__serves_again_soon_after_an_outage),
        FIXTURE_TEST(test_orphan__second_looks_come_each_in_its_time),
        FIXTURE_TEST(test_orphan__remembers_a_bounded_number),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
