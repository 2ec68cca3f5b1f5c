/*
 * interop.c - the reentrant kind and the RLock of Redisson on the same locks.
 *
 *   interop CLASSPATH     CLASSPATH has the class LockPeer
 */
#include "base/clock.h"
#include "test/interop/peer.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK    "order:7"
#define CHANNEL "redisson_lock__channel:{" LOCK "}"
#define WAIT_MS 300000 /* longer than the test waits: a wake-up must come by a message */

static const char *classpath;
static struct peer peer;

static int start(void **state)
{
    fixture_start_server(state);
    peer_start(&peer, classpath, fixture_empty_server()->tcp_url);
    return 0;
}

static int stop(void **state)
{
    peer_stop(&peer);
    return fixture_stop_server(state);
}

static struct rlock_acquire_options reentrant(struct rlock_acquire_options options)
{
    options.kind = &rlock_reentrant;
    if (options.lease_ms == 0)
        options.lease_ms = LEASE_MS;
    return options;
}

static void begin(struct rlock_client *client, struct call *call,
                  struct rlock_acquire_options options)
{
    options = reentrant(options);
    call_acquire_with(client, call, LOCK, &options);
    rlock_flush(client);
}

static enum rlock_status answer_of(struct fixture *fixture, struct call *call)
{
    fixture_wait_answers(fixture, call, 1);
    return call->status;
}

static enum rlock_status take(struct fixture *fixture, struct rlock_client *client,
                              struct call *call, struct rlock_acquire_options options)
{
    options = reentrant(options);
    return acquire_with(fixture, client, call, LOCK, &options);
}

static enum rlock_status try_take(struct fixture *fixture, struct rlock_client *client,
                                  struct call *call)
{
    return take(fixture, client, call, (struct rlock_acquire_options){.holder = 1});
}

#define ASSERT_ANSWER(fixture, expected, ...)                                            \
    assert_string_equal(PEER_CALL(fixture, &peer, __VA_ARGS__), expected)

/** Return how often the peer's `holder` holds the lock, as the hash in Redis says. */
static long long peer_count(struct fixture *fixture, const char *holder)
{
    const char *id = PEER_CALL(fixture, &peer, "id %s", holder);
    redisReply *reply;
    long long count;

    assert_memory_equal(id, "ok ", 3);
    reply = server_command(fixture->server, "HGET " LOCK " %s", id + 3);
    count = reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;
    freeReplyObject(reply);
    return count;
}

static struct answer look(struct fixture *fixture, struct rlock_client *client)
{
    struct answer answer = {0};

    assert_int_equal(inspect(fixture, client, &answer, LOCK), RLOCK_OK);
    return answer;
}

struct waiting {
    struct server *server;
    const char *channel;
    long long tries;
};

static long long busy_tries(struct server *server)
{
    return server_calls(server, "pttl"); /* the script of each busy try runs PTTL once */
}

static long long subscribers(struct server *server, const char *channel)
{
    redisReply *reply = server_command(server, "PUBSUB NUMSUB %s", channel);
    long long count = reply->element[1]->integer;

    freeReplyObject(reply);
    return count;
}

static bool has_no_subscribers(void *arg)
{
    const struct fixture *fixture = arg;

    return subscribers(fixture->server, CHANNEL) == 0;
}

static bool is_waiting(void *arg)
{
    const struct waiting *waiting = arg;

    return subscribers(waiting->server, waiting->channel) == 1 &&
           busy_tries(waiting->server) >= waiting->tries;
}

/** Run the loop until a waiter has subscribed, and has found the lock busy once more after that. */
static void wait_waiting(struct fixture *fixture, const char *channel, long long tries)
{
    struct waiting waiting = {fixture->server, channel, tries + 2};

    FIXTURE_AWAIT(fixture, is_waiting, &waiting);
}

/* -- exclusion -- */

FIXTURE_CASE(test_acquire__is_busy_while_redisson_holds)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_ANSWER(fixture, "ok", "try " LOCK " a 0 30000");
    assert_int_equal(try_take(fixture, client, &call), RLOCK_BUSY);
    assert_int_equal(peer_count(fixture, "a"), 1);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL " LOCK), 1, 30000);

    ASSERT_ANSWER(fixture, "ok", "unlock " LOCK " a");
    assert_int_equal(try_take(fixture, client, &call), RLOCK_OK);
}

FIXTURE_CASE(test_acquire__makes_redisson_busy)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    assert_int_equal(try_take(fixture, client, &call), RLOCK_OK);
    ASSERT_ANSWER(fixture, "busy", "try " LOCK " a 0 30000");
    ASSERT_ANSWER(fixture, "ok true", "locked " LOCK);
    assert_memory_equal(PEER_CALL(fixture, &peer, "unlock " LOCK " a"), "error ", 6);
    assert_int_equal(look(fixture, client).count, 1);

    assert_int_equal(release(fixture, client, &call), RLOCK_OK);
    assert_false(server_has(fixture->server, LOCK));
    ASSERT_ANSWER(fixture, "ok", "try " LOCK " a 0 30000");
}

/* -- wake-ups -- */

FIXTURE_CASE(test_release__wakes_redisson)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    long long tries;
    unsigned tag;

    assert_int_equal(try_take(fixture, client, &call), RLOCK_OK);
    tries = busy_tries(fixture->server);
    tag = peer_request(&peer, "try " LOCK " a %d -1", WAIT_MS);
    wait_waiting(fixture, CHANNEL, tries);
    assert_null(peer_answer(&peer, tag));

    fixture_hold_timers(fixture);
    assert_int_equal(release(fixture, client, &call), RLOCK_OK);
    assert_string_equal(peer_await(fixture, &peer, tag), "ok");
}

FIXTURE_CASE(test_acquire__is_woken_by_redisson)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    long long tries;

    ASSERT_ANSWER(fixture, "ok", "try " LOCK " a 0 30000");
    tries = busy_tries(fixture->server);
    begin(client, &call, (struct rlock_acquire_options){.wait_ms = WAIT_MS});
    wait_waiting(fixture, CHANNEL, tries);
    assert_int_equal(call.answers, 0);

    fixture_hold_timers(fixture);
    ASSERT_ANSWER(fixture, "ok", "unlock " LOCK " a");
    assert_int_equal(answer_of(fixture, &call), RLOCK_OK);
    FIXTURE_AWAIT(fixture, has_no_subscribers, fixture);
}

/* For a name with braces Redisson uses another channel. */
FIXTURE_CASE(test_release__wakes_redisson_on_a_name_with_braces)
{
    static const char name[] = "order:{7}";
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_acquire_options options = reentrant((struct rlock_acquire_options){0});
    long long tries;
    unsigned tag;

    assert_int_equal(acquire_with(fixture, client, &call, name, &options), RLOCK_OK);
    tries = busy_tries(fixture->server);
    tag = peer_request(&peer, "try %s a %d -1", name, WAIT_MS);
    wait_waiting(fixture, "redisson_lock__channel:order:{7}", tries);

    fixture_hold_timers(fixture);
    assert_int_equal(release(fixture, client, &call), RLOCK_OK);
    assert_string_equal(peer_await(fixture, &peer, tag), "ok");
}

FIXTURE_CASE(test_acquire__takes_what_redisson_let_expire)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_acquire_options options = {.wait_ms = WAIT_MS};

    ASSERT_ANSWER(fixture, "ok", "try " LOCK " a 0 300");
    assert_int_equal(take(fixture, client, &call, options), RLOCK_OK);
    assert_int_equal(peer_count(fixture, "a"), 0);
}

FIXTURE_CASE(test_acquire__expires_for_redisson)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_acquire_options options = {.lease_ms = 300};

    assert_int_equal(take(fixture, client, &call, options), RLOCK_OK);
    ASSERT_ANSWER(fixture, "ok", "try " LOCK " a %d 30000", WAIT_MS);
    assert_int_equal(release(fixture, client, &call), RLOCK_LOST);
    assert_int_equal(peer_count(fixture, "a"), 1);
}

/* -- counts -- */

FIXTURE_CASE(test_inspect__shows_the_count_of_redisson)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct answer answer;

    for (int i = 0; i < 3; i++)
        ASSERT_ANSWER(fixture, "ok", "try " LOCK " a 0 30000");
    answer = look(fixture, client);
    assert_int_equal(answer.count, 3);
    assert_false(answer.is_ours);
    assert_int_equal(peer_count(fixture, "a"), 3);

    for (int i = 0; i < 2; i++)
        ASSERT_ANSWER(fixture, "ok", "unlock " LOCK " a");
    assert_int_equal(try_take(fixture, client, &call), RLOCK_BUSY);
    ASSERT_ANSWER(fixture, "ok", "unlock " LOCK " a");
    assert_int_equal(try_take(fixture, client, &call), RLOCK_OK);
}

FIXTURE_CASE(test_acquire__counts_as_redisson_does)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[3] = {0};
    struct answer answer;

    for (int i = 0; i < 3; i++)
        assert_int_equal(try_take(fixture, client, &calls[i]), RLOCK_OK);
    answer = look(fixture, client);
    assert_true(answer.is_ours);
    assert_int_equal(server_int(fixture->server, "HINCRBY " LOCK " %s 0", answer.owner),
                     3);

    for (int i = 0; i < 3; i++) {
        ASSERT_ANSWER(fixture, "busy", "try " LOCK " a 0 30000");
        assert_int_equal(release(fixture, client, &calls[i]), RLOCK_OK);
    }
    ASSERT_ANSWER(fixture, "ok", "try " LOCK " a 0 30000");
    ASSERT_ANSWER(fixture, "ok 1", "count " LOCK " a");
}

/* -- both watchdogs -- */

struct renewals {
    struct server *server;
    long long wanted;
};

static bool has_renewed(void *arg)
{
    const struct renewals *renewals = arg;

    return server_calls(renewals->server, "pexpire") >= renewals->wanted;
}

FIXTURE_CASE(test_acquire__is_busy_while_redissons_watchdog_renews)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct renewals renewals = {.server = fixture->server};
    struct call call = {0};

    ASSERT_ANSWER(fixture, "ok", "try " LOCK " a 0 -1");
    renewals.wanted = server_calls(fixture->server, "pexpire") + 2;
    begin(client, &call, (struct rlock_acquire_options){.wait_ms = WAIT_MS});
    FIXTURE_AWAIT(fixture, has_renewed, &renewals);
    assert_int_equal(call.answers, 0);
    assert_int_equal(peer_count(fixture, "a"), 1);
    rlock_cancel(client, &call.lock);
    assert_int_equal(answer_of(fixture, &call), RLOCK_CANCELLED);
}

FIXTURE_CASE(test_watchdog__keeps_redisson_busy)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS, .watchdog = true};
    unsigned tag;

    assert_int_equal(take(fixture, client, &call, options), RLOCK_OK);
    tag = peer_request(&peer, "try " LOCK " a 1000 30000");
    for (int i = 0; i < 6; i++)
        fixture_pass_renewal(fixture, client, LEASE_MS, 1);
    assert_string_equal(peer_await(fixture, &peer, tag), "busy");
    assert_int_equal(call.losses, 0);
    assert_int_equal(release(fixture, client, &call), RLOCK_OK);
}

/* -- by force -- */

FIXTURE_CASE(test_force__of_redisson_frees_our_lock_and_wakes_our_waiter)
{
    struct fixture *fixture = *state;
    struct rlock_client *holder = fixture_client(fixture);
    struct rlock_client *waiter = fixture_client(fixture);
    struct call held = {0}, waiting = {0};
    struct rlock_acquire_options watched = {.lease_ms = LEASE_MS, .watchdog = true};
    struct rlock_acquire_options patient = {.wait_ms = WAIT_MS};
    long long tries = busy_tries(fixture->server);

    assert_int_equal(take(fixture, holder, &held, watched), RLOCK_OK);
    begin(waiter, &waiting, patient);
    wait_waiting(fixture, CHANNEL, tries);

    fixture_hold_timers(fixture);
    ASSERT_ANSWER(fixture, "ok true", "force " LOCK);
    assert_int_equal(answer_of(fixture, &waiting), RLOCK_OK);
    assert_int_equal(look(fixture, waiter).count, 1);
    fixture_pass_ms(fixture, FIXTURE_DAY_MS); /* so that the timers that were held fire */
    fixture_wait_count(fixture, &held.losses, 1);
}

FIXTURE_CASE(test_force_release__frees_redissons_lock_and_wakes_its_waiter)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct answer answer = {0};
    long long tries;
    unsigned tag;

    ASSERT_ANSWER(fixture, "ok", "try " LOCK " a 0 30000");
    tries = busy_tries(fixture->server);
    tag = peer_request(&peer, "try " LOCK " b %d 30000", WAIT_MS);
    wait_waiting(fixture, CHANNEL, tries);

    fixture_hold_timers(fixture);
    assert_int_equal(force(fixture, client, &answer, LOCK), RLOCK_OK);
    assert_string_equal(peer_await(fixture, &peer, tag), "ok");
    assert_memory_equal(PEER_CALL(fixture, &peer, "unlock " LOCK " a"), "error ", 6);
    assert_int_equal(peer_count(fixture, "b"), 1);
}

/* -- all at once -- */

#define ENTRIES 200
#define MEMBERS 6 /* the first half are clients of the library, the others of Redisson */

enum stage { WANTS, INSIDE, LEAVES, DONE };

struct member {
    bool is_ours;
    unsigned holder;
    enum stage stage;
    struct call call;
    unsigned tag;
};

struct contest {
    struct rlock_client *client;
    struct member members[MEMBERS];
    unsigned inside, done;
    unsigned entries[2]; /* theirs, ours */
};

static void want(struct contest *contest, struct member *member)
{
    struct rlock_acquire_options options = {.holder = member->holder, .wait_ms = WAIT_MS};

    member->stage = WANTS;
    member->call.answers = 0;
    if (member->is_ours)
        begin(contest->client, &member->call, options);
    else
        member->tag =
            peer_request(&peer, "try " LOCK " %u %d -1", member->holder, WAIT_MS);
}

static void leave(struct contest *contest, struct member *member)
{
    contest->inside--;
    member->stage = LEAVES;
    member->call.answers = 0;
    if (member->is_ours) {
        call_release(contest->client, &member->call);
        rlock_flush(contest->client);
    } else {
        member->tag = peer_request(&peer, "unlock " LOCK " %u", member->holder);
    }
}

static bool member_is_answered(struct member *member)
{
    const char *words;

    if (member->is_ours) {
        if (member->call.answers == 0)
            return false;
        assert_int_equal(member->call.status, RLOCK_OK);
        return true;
    }
    words = peer_answer(&peer, member->tag);
    if (words == NULL)
        return false;
    assert_string_equal(words, "ok");
    return true;
}

static void advance(struct contest *contest, struct member *member)
{
    if (member->stage == WANTS) {
        member->stage = INSIDE;
        contest->inside++;
        contest->entries[member->is_ours]++;
    } else if (contest->entries[0] + contest->entries[1] < ENTRIES) {
        want(contest, member);
    } else {
        member->stage = DONE;
        contest->done++;
    }
}

/* A member that has entered stays inside until the next step. If the lock did not exclude the
   other members, one of them could enter meanwhile, and the assertion on `inside` would fail. */
static bool contest_step(void *arg)
{
    struct contest *contest = arg;
    bool was_inside[MEMBERS];

    for (int i = 0; i < MEMBERS; i++)
        was_inside[i] = contest->members[i].stage == INSIDE;
    for (int i = 0; i < MEMBERS; i++) {
        struct member *member = &contest->members[i];

        if ((member->stage == WANTS || member->stage == LEAVES) &&
            member_is_answered(member))
            advance(contest, member);
    }
    ASSERT_BETWEEN(contest->inside, 0, 1);
    for (int i = 0; i < MEMBERS; i++) {
        if (was_inside[i])
            leave(contest, &contest->members[i]);
    }
    return contest->done == MEMBERS;
}

FIXTURE_CASE(test_acquire__lets_one_in_of_ours_and_redissons)
{
    struct fixture *fixture = *state;
    struct contest contest = {.client = fixture_client(fixture)};

    for (unsigned i = 0; i < MEMBERS; i++) {
        contest.members[i].is_ours = i < MEMBERS / 2;
        contest.members[i].holder = i + 1;
        want(&contest, &contest.members[i]);
    }
    FIXTURE_AWAIT(fixture, contest_step, &contest);
    ASSERT_NUMBER(contest.entries[0], >=, MEMBERS / 2);
    ASSERT_NUMBER(contest.entries[1], >=, MEMBERS / 2);
    assert_false(server_has(fixture->server, LOCK));
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: interop CLASSPATH\n");
        return 2;
    }
    classpath = argv[1];
    return cases_run(start, stop);
}
