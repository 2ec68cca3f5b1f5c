/* it_group.c - multi-locks and quorums, on one and on five private servers. */
#include "base/clock.h"
#include "lock/client.h"
#include "lock/rlock_group.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVERS  5
#define QUICK_MS 300 /* within this is at once, on a slow machine too */

static struct server servers[SERVERS];

static int start_servers(void **state)
{
    for (int i = 0; i < SERVERS; i++)
        server_start(&servers[i], NULL);
    *state = &servers[0];
    return 0;
}

static int stop_servers(void **state)
{
    (void)state;
    for (int i = 0; i < SERVERS; i++)
        server_stop(&servers[i]);
    return 0;
}

/** All servers are up and empty, whatever the test before did to them. */
static int setup(void **state)
{
    for (int i = 0; i < SERVERS; i++) {
        if (servers[i].pid == 0)
            server_restart(&servers[i]);
        server_resume(&servers[i]);
        freeReplyObject(server_ask(&servers[i], "FLUSHALL"));
        freeReplyObject(server_ask(&servers[i], "CONFIG RESETSTAT"));
    }
    return fixture_setup(state);
}

/** One who takes groups: a client on each server, a group, what became of its calls. */
struct party {
    struct fixture *fixture;
    struct rlock_client *clients[SERVERS];
    struct rlock_group *group;
    unsigned answers, losses;
    enum status status;
};

static void open_clients(struct party *party, struct fixture *fixture, int count,
                         uint32_t timeout_ms)
{
    struct rlock_client_options options = {.timeout_ms = timeout_ms};

    *party = (struct party){.fixture = fixture};
    for (int i = 0; i < count; i++) {
        options.redis_url = servers[i].unix_url;
        party->clients[i] = fixture_open(fixture, options);
        fixture_wait_up(fixture, party->clients[i]);
    }
}

/** A group of `name` on each of the first `count` servers. */
static void make_group(struct party *party, struct fixture *fixture, int count,
                       enum rlock_group_need need)
{
    struct rlock_member members[SERVERS];
    struct err err = {0};

    open_clients(party, fixture, count, TIMEOUT_MS);
    for (int i = 0; i < count; i++)
        members[i] = (struct rlock_member){party->clients[i], "item:7", 6};
    if (rlock_group_create(members, (size_t)count, need, &party->group, &err) !=
        STATUS_OK)
        fail_msg("rlock_group_create: %s", err.text);
}

static struct rlock_group *group_of_names(struct rlock_client *client, const char *names)
{
    struct rlock_member members[RLOCK_GROUP_MAX];
    struct rlock_group *group;
    size_t count = strlen(names);

    for (size_t i = 0; i < count; i++)
        members[i] = (struct rlock_member){client, &names[i], 1};
    assert_int_equal(rlock_group_create(members, count, RLOCK_GROUP_ALL, &group, NULL),
                     STATUS_OK);
    return group;
}

/** A multi-lock of names of one letter each, on the first server. */
static void make_names(struct party *party, struct fixture *fixture, const char *names)
{
    open_clients(party, fixture, 1, TIMEOUT_MS);
    party->group = group_of_names(party->clients[0], names);
}

static void on_answer(struct rlock_group *group, enum status status, void *arg)
{
    struct party *party = arg;

    assert_ptr_equal(group, party->group);
    party->answers++;
    party->status = status;
}

static void on_lost(struct rlock_group *group, enum status status, void *arg)
{
    struct party *party = arg;

    assert_int_equal(status, STATUS_LOST);
    assert_false(rlock_group_is_held(group));
    party->losses++;
}

static void begin_acquire(struct party *party, struct rlock_group_options options)
{
    options.on_lost = on_lost;
    rlock_group_acquire(party->group, &options, on_answer, party);
}

static enum status await_answer(struct party *party, unsigned answers)
{
    assert_int_equal(party->answers, answers - 1); /* not from inside the call */
    fixture_wait_count(party->fixture, &party->answers, answers);
    assert_int_equal(party->answers, answers);
    return party->status;
}

static enum status take_with(struct party *party, struct rlock_group_options options)
{
    unsigned answers = party->answers + 1;

    begin_acquire(party, options);
    return await_answer(party, answers);
}

static enum status take(struct party *party)
{
    return take_with(party, (struct rlock_group_options){.lease_ms = LEASE_MS});
}

static enum status take_watched(struct party *party, uint32_t lease_ms)
{
    return take_with(
        party, (struct rlock_group_options){.lease_ms = lease_ms, .watchdog = true});
}

static enum status give(struct party *party)
{
    unsigned answers = party->answers + 1;

    rlock_group_release(party->group, on_answer, party);
    return await_answer(party, answers);
}

static void assert_keys(const char *key, const char *wanted)
{
    char found[SERVERS + 1] = {0};

    for (size_t i = 0; i < strlen(wanted); i++)
        found[i] = server_has(&servers[i], key) ? '1' : '0';
    assert_string_equal(found, wanted);
}

static void set_foreign(int server)
{
    freeReplyObject(server_ask(&servers[server], "SET item:7 foreign PX 60000"));
}

static void assert_foreign(int server)
{
    redisReply *reply = server_ask(&servers[server], "GET item:7");

    assert_string_equal(reply->str, "foreign");
    freeReplyObject(reply);
    assert_true(server_int(&servers[server], "PTTL item:7") > 50000);
}

static void delete_key(int server)
{
    assert_int_equal(server_int(&servers[server], "DEL item:7"), 1);
}

static bool is_absent(void *arg)
{
    return !server_has(arg, "item:7");
}

static void wait_absent(struct fixture *fixture, int server)
{
    assert_true(fixture_run_until(fixture, is_absent, &servers[server], WITHIN_MS));
}

static int64_t ms_since(int64_t begin_us)
{
    return (clock_mono_us() - begin_us) / 1000;
}

static void end(struct party *party)
{
    rlock_group_free(party->group);
    party->group = NULL;
}

/* -- multi-locks ----------------------------------------------------------------------
 */

static void test_acquire__multi_holds_every_member(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_ALL);
    assert_false(rlock_group_is_held(party.group));
    assert_int_equal(rlock_group_fence(party.group, 0), 0);
    assert_int_equal(rlock_group_safe_for_us(party.group, clock_mono_us()), 0);
    assert_int_equal(take(&party), STATUS_OK);
    assert_true(rlock_group_is_held(party.group));
    assert_keys("item:7", "111");
    for (size_t i = 0; i < 3; i++)
        assert_true(rlock_group_fence(party.group, i) > 0);
    assert_int_equal(give(&party), STATUS_OK);
    assert_false(rlock_group_is_held(party.group));
    assert_int_equal(rlock_group_fence(party.group, 0), 0);
    assert_keys("item:7", "000");
    end(&party);
}

static void test_acquire__multi_with_one_busy_holds_none(void **state)
{
    struct party party;
    int64_t begin_us;

    make_group(&party, *state, 3, RLOCK_GROUP_ALL);
    set_foreign(1);
    begin_us = clock_mono_us();
    assert_int_equal(take(&party), STATUS_BUSY);
    assert_true(ms_since(begin_us) < QUICK_MS);
    assert_keys("item:7", "010");
    assert_foreign(1);
    assert_int_equal(give(&party), STATUS_NOT_OWNER);
    end(&party);
}

static void test_acquire__multi_on_one_server_with_one_busy_holds_none(void **state)
{
    struct party party;

    make_names(&party, *state, "abc");
    freeReplyObject(server_ask(&servers[0], "SET b foreign"));
    assert_int_equal(take(&party), STATUS_BUSY);
    assert_keys("a", "0");
    assert_keys("c", "0");
    assert_int_equal(server_int(&servers[0], "DEL b"), 1);
    assert_int_equal(take(&party), STATUS_OK);
    end(&party);
}

static void take_in_vain(struct party *party)
{
    int64_t begin_us = clock_mono_us();

    assert_int_equal(take_with(party, (struct rlock_group_options){.lease_ms = LEASE_MS,
                                                                   .wait_ms = 600}),
                     STATUS_BUSY);
    assert_in_range(ms_since(begin_us), 600, 600 + QUICK_MS);
}

static void test_acquire__multi_with_one_busy_all_the_wait_holds_none(void **state)
{
    struct party three, one;

    make_group(&three, *state, 3, RLOCK_GROUP_ALL);
    set_foreign(1);
    take_in_vain(&three);
    assert_keys("item:7", "010");
    assert_foreign(1);

    make_names(&one, *state, "abc");
    freeReplyObject(server_ask(&servers[0], "SET b foreign"));
    take_in_vain(&one);
    assert_keys("a", "0");
    assert_keys("c", "0");
    end(&three);
    end(&one);
}

/** While it waits others can have what is free. */
static void test_acquire__multi_holds_nothing_while_it_waits(void **state)
{
    struct fixture *fixture = *state;
    struct party party;
    struct call calls[3] = {0};

    make_group(&party, fixture, 3, RLOCK_GROUP_ALL);
    set_foreign(1);
    begin_acquire(&party, (struct rlock_group_options){.lease_ms = LEASE_MS,
                                                       .wait_ms = RLOCK_WAIT_FOREVER});
    fixture_run_for(fixture, 100);
    for (int i = 0; i < 50; i++) {
        assert_keys("item:7", "010");
        fixture_run_for(fixture, 3);
    }
    assert_int_equal(party.answers, 0);
    for (int i = 0; i < 3; i += 2)
        assert_int_equal(
            acquire(fixture, party.clients[i], &calls[i], "item:7", LEASE_MS), STATUS_OK);
    rlock_group_cancel(party.group);
    assert_int_equal(await_answer(&party, 1), STATUS_CANCELLED);
    assert_keys("item:7", "111");
    end(&party);
}

static void test_acquire__multi_is_woken_by_the_release_of_the_busy_member(void **state)
{
    struct fixture *fixture = *state;
    struct party party;
    struct rlock_client *other;
    struct call busy = {0};
    int64_t begin_us;

    make_group(&party, fixture, 3, RLOCK_GROUP_ALL);
    other = fixture_open(fixture,
                         (struct rlock_client_options){.redis_url = servers[2].unix_url,
                                                       .timeout_ms = TIMEOUT_MS});
    fixture_wait_up(fixture, other);
    assert_int_equal(acquire(fixture, other, &busy, "item:7", 60000), STATUS_OK);
    begin_acquire(
        &party, (struct rlock_group_options){.lease_ms = LEASE_MS, .wait_ms = WITHIN_MS});
    fixture_run_for(fixture, 300);
    assert_int_equal(release(fixture, other, &busy), STATUS_OK);
    begin_us = clock_mono_us();
    fixture_wait_count(fixture, &party.answers, 1);
    assert_int_equal(party.status, STATUS_OK);
    assert_true(ms_since(begin_us) < QUICK_MS);
    assert_keys("item:7", "111");
    end(&party);
}

/* -- parties that contend -------------------------------------------------------------
 */

#define RACERS 4

struct racer {
    struct party party;
    unsigned laps;
};

static void on_taken(struct rlock_group *group, enum status status, void *arg)
{
    (void)group;
    (void)arg;
    assert_true(status == STATUS_OK || status == STATUS_CANCELLED);
}

static void start_lap(struct racer *racer)
{
    struct rlock_group_options options = {.lease_ms = LEASE_MS,
                                          .wait_ms = RLOCK_WAIT_FOREVER};

    rlock_group_acquire(racer->party.group, &options, on_taken, NULL);
}

static void on_given(struct rlock_group *group, enum status status, void *arg)
{
    struct racer *racer = arg;

    (void)group;
    if (status == STATUS_CANCELLED)
        return;
    assert_int_equal(status, STATUS_OK);
    racer->laps++;
    start_lap(racer);
}

/** One at most holds; it gives back. */
static void turn(struct racer *racers, int count)
{
    struct racer *holder = NULL;

    for (int i = 0; i < count; i++) {
        if (!rlock_group_is_held(racers[i].party.group))
            continue;
        assert_null(holder);
        holder = &racers[i];
    }
    if (holder != NULL)
        rlock_group_release(holder->party.group, on_given, holder);
}

/** Let them take and give back over and over, until each has done so `laps` times. */
static void race(struct fixture *fixture, struct racer *racers, int count, unsigned laps)
{
    int64_t begin_us = clock_mono_us();
    unsigned least = 0;

    for (int i = 0; i < count; i++)
        start_lap(&racers[i]);
    while (least < laps) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
        turn(racers, count);
        least = laps;
        for (int i = 0; i < count; i++)
            least = racers[i].laps < least ? racers[i].laps : least;
        if (ms_since(begin_us) > WITHIN_MS)
            fail_msg("only %u laps", least);
    }
    for (int i = 0; i < count; i++)
        end(&racers[i].party);
}

static void test_acquire__overlapping_multis_on_one_server_all_progress(void **state)
{
    static const char *const names[RACERS] = {"ab", "ba", "bc", "ca"};
    struct racer racers[RACERS] = {0};

    for (int i = 0; i < RACERS; i++)
        make_names(&racers[i].party, *state, names[i]);
    race(*state, racers, RACERS, 100);
}

/** {a, b} and {b, a}, each name on a server of its own. */
static void test_acquire__overlapping_multis_on_two_servers_all_progress(void **state)
{
    struct racer racers[2] = {0};
    struct rlock_member members[2];

    for (int i = 0; i < 2; i++) {
        struct party *party = &racers[i].party;

        open_clients(party, *state, 2, TIMEOUT_MS);
        members[i] = (struct rlock_member){party->clients[0], "a", 1};
        members[1 - i] = (struct rlock_member){party->clients[1], "b", 1};
        assert_int_equal(
            rlock_group_create(members, 2, RLOCK_GROUP_ALL, &party->group, NULL),
            STATUS_OK);
    }
    race(*state, racers, 2, 200);
}

static void test_acquire__contending_quorums_all_progress(void **state)
{
    struct racer racers[3] = {0};

    for (int i = 0; i < 3; i++)
        make_group(&racers[i].party, *state, 5, RLOCK_GROUP_MAJORITY);
    race(*state, racers, 3, 10);
}

/* -- quorums --------------------------------------------------------------------------
 */

static void test_acquire__quorum_with_a_minority_down(void **state)
{
    struct party party;

    make_group(&party, *state, 5, RLOCK_GROUP_MAJORITY);
    server_kill(&servers[1]);
    server_kill(&servers[4]);
    assert_int_equal(take(&party), STATUS_OK);
    assert_int_equal(rlock_group_fence(party.group, 1), 0);
    assert_true(rlock_group_fence(party.group, 2) > 0);
    assert_int_equal(give(&party), STATUS_OK);
    for (int i = 0; i < 4; i += i == 0 ? 2 : 1)
        assert_false(server_has(&servers[i], "item:7"));
    end(&party);
}

static void test_acquire__quorum_with_a_foreign_minority_leaves_it_untouched(void **state)
{
    struct party party;

    make_group(&party, *state, 5, RLOCK_GROUP_MAJORITY);
    set_foreign(0);
    set_foreign(3);
    assert_int_equal(take(&party), STATUS_OK);
    assert_keys("item:7", "11111");
    assert_int_equal(give(&party), STATUS_OK);
    assert_keys("item:7", "10010");
    assert_foreign(0);
    assert_foreign(3);
    end(&party);
}

static void test_acquire__quorum_with_a_foreign_majority_is_busy(void **state)
{
    struct party party;

    make_group(&party, *state, 5, RLOCK_GROUP_MAJORITY);
    set_foreign(0);
    set_foreign(2);
    set_foreign(4);
    assert_int_equal(take(&party), STATUS_BUSY);
    assert_keys("item:7", "10101");
    take_in_vain(&party);
    assert_keys("item:7", "10101");
    assert_foreign(0);
    end(&party);
}

static void test_acquire__quorum_waits_for_a_majority(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_MAJORITY);
    set_foreign(0);
    set_foreign(2);
    begin_acquire(
        &party, (struct rlock_group_options){.lease_ms = LEASE_MS, .wait_ms = WITHIN_MS});
    fixture_run_for(party.fixture, 100);
    assert_int_equal(party.answers, 0);
    delete_key(0);
    assert_int_equal(await_answer(&party, 1), STATUS_OK);
    assert_keys("item:7", "111");
    assert_foreign(2);
    end(&party);
}

static void test_acquire__quorum_with_the_majority_down_is_refused(void **state)
{
    struct party party;
    int64_t begin_us;

    make_group(&party, *state, 5, RLOCK_GROUP_MAJORITY);
    for (int i = 0; i < 3; i++) {
        server_kill(&servers[i]);
        fixture_wait_down(party.fixture, party.clients[i]);
    }
    begin_us = clock_mono_us();
    assert_int_equal(take(&party), STATUS_DOWN);
    assert_true(ms_since(begin_us) < QUICK_MS);
    assert_false(server_has(&servers[3], "item:7"));
    assert_false(server_has(&servers[4], "item:7"));
    assert_int_equal(take_with(&party, (struct rlock_group_options){.lease_ms = LEASE_MS,
                                                                    .wait_ms = 400}),
                     STATUS_DOWN);
    assert_in_range(ms_since(begin_us), 400, 400 + 2 * QUICK_MS);
    assert_false(server_has(&servers[3], "item:7"));
    end(&party);
}

static void test_acquire__quorum_with_the_majority_hung_is_refused(void **state)
{
    struct party party;
    int64_t begin_us;

    make_group(&party, *state, 5, RLOCK_GROUP_MAJORITY);
    for (int i = 0; i < 3; i++)
        server_pause(&servers[i]);
    begin_us = clock_mono_us();
    /* half of the lease is the time for a try */
    assert_int_equal(take_with(&party, (struct rlock_group_options){.lease_ms = 400}),
                     STATUS_TIMEOUT);
    assert_in_range(ms_since(begin_us), 190, 200 + QUICK_MS);
    assert_false(server_has(&servers[3], "item:7"));
    assert_false(server_has(&servers[4], "item:7"));
    begin_us = clock_mono_us();
    assert_int_equal(take(&party), STATUS_TIMEOUT);
    assert_true(ms_since(begin_us) < 1500 + QUICK_MS);
    assert_false(server_has(&servers[3], "item:7"));
    for (int i = 0; i < 3; i++) {
        server_resume(&servers[i]);
        fixture_wait_up(party.fixture, party.clients[i]);
        wait_absent(party.fixture, i);
    }
    assert_int_equal(take(&party), STATUS_OK);
    end(&party);
}

static void test_acquire__quorum_is_not_held_up_by_a_hung_minority(void **state)
{
    struct party party;
    int64_t begin_us;

    make_group(&party, *state, 5, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[0]);
    server_pause(&servers[3]);
    begin_us = clock_mono_us();
    assert_int_equal(take(&party), STATUS_OK);
    assert_int_equal(give(&party), STATUS_OK);
    assert_int_equal(take(&party), STATUS_OK);
    assert_int_equal(give(&party), STATUS_OK);
    assert_true(ms_since(begin_us) < QUICK_MS);
    end(&party);
}

/** More of them than needed is more to lose before it is lost. */
static void test_acquire__late_grant_of_a_held_quorum_is_kept(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[1]);
    assert_int_equal(take_watched(&party, 900), STATUS_OK);
    assert_int_equal(rlock_group_fence(party.group, 1), 0);
    server_resume(&servers[1]);
    while (rlock_group_fence(party.group, 1) == 0)
        fixture_run_for(party.fixture, 2);
    assert_keys("item:7", "111");
    delete_key(0);
    fixture_run_for(party.fixture, 600);
    assert_int_equal(rlock_group_fence(party.group, 0), 0);
    assert_true(rlock_group_is_held(party.group));
    assert_int_equal(give(&party), STATUS_OK);
    assert_keys("item:7", "000");
    assert_int_equal(party.losses, 0);
    end(&party);
}

static void test_release__late_grant_is_given_back(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_MAJORITY);
    server_pause(&servers[1]);
    assert_int_equal(take(&party), STATUS_OK);
    assert_int_equal(give(&party), STATUS_OK);
    server_resume(&servers[1]);
    while (server_calls(&servers[1], "mget") == 0)
        fixture_run_for(party.fixture, 2);
    assert_keys("item:7", "000");
    end(&party);
}

/* -- how long it lasts ----------------------------------------------------------------
 */

static void
test_safe_for_us__is_less_than_the_lease_by_drift_and_the_time_taken(void **state)
{
    static const enum rlock_group_need needs[] = {RLOCK_GROUP_ALL, RLOCK_GROUP_MAJORITY};
    struct party party;
    int64_t begin_us, now_us, safe_us, most_us = LEASE_MS * 990LL - 2000;

    for (int i = 0; i < 2; i++) {
        make_group(&party, *state, 3, needs[i]);
        begin_us = clock_mono_us();
        assert_int_equal(take(&party), STATUS_OK);
        now_us = clock_mono_us();
        safe_us = rlock_group_safe_for_us(party.group, now_us);
        assert_true(safe_us < most_us);
        assert_true(safe_us >= most_us - (now_us - begin_us));
        assert_int_equal(rlock_group_safe_for_us(party.group, now_us + 5000),
                         safe_us - 5000);
        assert_true(rlock_group_safe_for_us(party.group, now_us + most_us) <= 0);
        assert_int_equal(give(&party), STATUS_OK);
        end(&party);
    }
}

/** How many ms of a lease of 900 are safe when some servers have not renewed for 700. */
static int64_t safe_ms_with_hung(struct fixture *fixture, enum rlock_group_need need,
                                 int hung)
{
    struct party party;
    int64_t safe_us;

    make_group(&party, fixture, 3, need);
    assert_int_equal(take_watched(&party, 900), STATUS_OK);
    for (int i = 0; i < hung; i++)
        server_pause(&servers[i]);
    fixture_run_for(fixture, 700);
    assert_int_equal(party.losses, 0);
    safe_us = rlock_group_safe_for_us(party.group, clock_mono_us());
    for (int i = 0; i < hung; i++)
        server_resume(&servers[i]);
    end(&party);
    fixture_run_for(fixture, 50);
    assert_keys("item:7", "000");
    return safe_us / 1000;
}

static void test_safe_for_us__counts_those_that_last_longest(void **state)
{
    assert_true(safe_ms_with_hung(*state, RLOCK_GROUP_MAJORITY, 1) > 400);
    assert_true(safe_ms_with_hung(*state, RLOCK_GROUP_MAJORITY, 2) < 300);
    assert_true(safe_ms_with_hung(*state, RLOCK_GROUP_ALL, 1) < 300);
}

static void test_acquire__grant_that_has_no_time_left_is_refused(void **state)
{
    static const enum rlock_group_need needs[] = {RLOCK_GROUP_ALL, RLOCK_GROUP_MAJORITY};
    struct party party;

    for (int i = 0; i < 2; i++) {
        make_group(&party, *state, 3, needs[i]);
        begin_acquire(&party, (struct rlock_group_options){.lease_ms = 500});
        clock_shift_us(500000); /* on the way */
        assert_int_equal(await_answer(&party, 1), STATUS_TIMEOUT);
        assert_false(rlock_group_is_held(party.group));
        assert_keys("item:7", "000");
        clock_shift_us(-500000);
        end(&party);
    }
}

/* -- losing it ------------------------------------------------------------------------
 */

static void test_on_lost__quorum_is_lost_once_with_its_majority(void **state)
{
    struct party party;

    make_group(&party, *state, 5, RLOCK_GROUP_MAJORITY);
    assert_int_equal(take_watched(&party, 300), STATUS_OK);
    delete_key(0);
    delete_key(1);
    fixture_run_for(party.fixture, 300);
    assert_int_equal(party.losses, 0);
    assert_true(rlock_group_is_held(party.group));
    assert_int_equal(rlock_group_fence(party.group, 0), 0);
    delete_key(2);
    fixture_wait_count(party.fixture, &party.losses, 1);
    assert_int_equal(rlock_group_safe_for_us(party.group, clock_mono_us()), 0);
    wait_absent(party.fixture, 3);
    wait_absent(party.fixture, 4);
    fixture_run_for(party.fixture, 300);
    assert_int_equal(party.losses, 1);
    assert_int_equal(give(&party), STATUS_LOST);
    assert_int_equal(give(&party), STATUS_NOT_OWNER);
    assert_int_equal(take(&party), STATUS_OK);
    end(&party);
}

static void test_on_lost__multi_is_lost_once_with_any_member(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_ALL);
    assert_int_equal(take_watched(&party, 300), STATUS_OK);
    freeReplyObject(server_ask(&servers[1], "SET item:7 foreign PX 60000"));
    fixture_wait_count(party.fixture, &party.losses, 1);
    wait_absent(party.fixture, 0);
    wait_absent(party.fixture, 2);
    fixture_run_for(party.fixture, 300);
    assert_int_equal(party.losses, 1);
    assert_foreign(1);
    assert_int_equal(take(&party),
                     STATUS_BUSY); /* a lost one may be taken anew at once */
    end(&party);
}

/** All on one server, so all members find themselves lost in the same answer. */
static void test_on_lost__is_called_once_when_all_members_are_lost_at_once(void **state)
{
    struct party party;

    make_names(&party, *state, "abc");
    assert_int_equal(take_watched(&party, 300), STATUS_OK);
    freeReplyObject(server_ask(&servers[0], "FLUSHALL"));
    fixture_wait_count(party.fixture, &party.losses, 1);
    fixture_run_for(party.fixture, 300);
    assert_int_equal(party.losses, 1);
    end(&party);
}

static void test_on_lost__server_that_comes_back_empty_does_not_resurrect(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_MAJORITY);
    assert_int_equal(take_watched(&party, 600), STATUS_OK);
    server_kill(&servers[1]);
    server_restart(&servers[1]);
    while (rlock_group_fence(party.group, 1) != 0)
        fixture_run_for(party.fixture, 2);
    fixture_run_for(party.fixture, 700);
    assert_keys("item:7", "101");
    assert_true(rlock_group_is_held(party.group));
    assert_int_equal(party.losses, 0);
    assert_int_equal(give(&party), STATUS_OK);
    end(&party);
}

/* -- giving back ----------------------------------------------------------------------
 */

static void test_release__quorum_is_ok_while_a_majority_was_ours(void **state)
{
    struct party party;

    make_group(&party, *state, 5, RLOCK_GROUP_MAJORITY);
    assert_int_equal(take(&party), STATUS_OK);
    delete_key(0);
    delete_key(4);
    assert_int_equal(give(&party), STATUS_OK);
    assert_int_equal(give(&party), STATUS_NOT_OWNER);
    assert_int_equal(take(&party), STATUS_OK);
    for (int i = 0; i < 3; i++)
        delete_key(i);
    assert_int_equal(give(&party), STATUS_LOST);
    assert_keys("item:7", "00000");
    end(&party);
}

static void test_release__multi_is_lost_when_one_was(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_ALL);
    assert_int_equal(take(&party), STATUS_OK);
    delete_key(1);
    assert_int_equal(give(&party), STATUS_LOST);
    assert_keys("item:7", "000");
    end(&party);
}

static void test_release__of_servers_that_are_down_is_unknown(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_ALL);
    assert_int_equal(take(&party), STATUS_OK);
    server_kill(&servers[1]);
    fixture_wait_down(party.fixture, party.clients[1]);
    assert_int_equal(give(&party), STATUS_DOWN);
    assert_false(server_has(&servers[0], "item:7"));
    assert_false(server_has(&servers[2], "item:7"));
    end(&party);
}

static void test_release__is_bounded_when_the_majority_hangs(void **state)
{
    struct party party;
    int64_t begin_us;

    make_group(&party, *state, 3, RLOCK_GROUP_MAJORITY);
    assert_int_equal(take(&party), STATUS_OK);
    server_pause(&servers[0]);
    server_pause(&servers[1]);
    begin_us = clock_mono_us();
    assert_int_equal(give(&party), STATUS_TIMEOUT);
    assert_true(ms_since(begin_us) < TIMEOUT_MS + QUICK_MS);
    server_resume(&servers[0]);
    server_resume(&servers[1]);
    wait_absent(party.fixture, 0);
    wait_absent(party.fixture, 1);
    end(&party);
}

/* -- ending it early ------------------------------------------------------------------
 */

static void test_cancel__ends_a_wait_a_pause_and_a_try(void **state)
{
    static const enum rlock_group_need needs[] = {RLOCK_GROUP_ALL, RLOCK_GROUP_MAJORITY};
    struct rlock_group_options options = {.lease_ms = LEASE_MS, .wait_ms = WITHIN_MS};
    struct party party;

    for (int i = 0; i < 2; i++) {
        make_group(&party, *state, 3, needs[i]);
        rlock_group_cancel(party.group); /* nothing to end */
        set_foreign(0);
        set_foreign(1);
        begin_acquire(&party, options);
        fixture_run_for(party.fixture, 50);
        rlock_group_cancel(party.group);
        rlock_group_cancel(party.group);
        assert_int_equal(await_answer(&party, 1), STATUS_CANCELLED);
        delete_key(0);
        delete_key(1);
        begin_acquire(&party, options);
        rlock_group_cancel(party.group);
        assert_int_equal(await_answer(&party, 2), STATUS_CANCELLED);
        assert_int_equal(take(&party), STATUS_OK);
        rlock_group_cancel(party.group); /* does not end what is held */
        fixture_run_for(party.fixture, 20);
        assert_keys("item:7", "111");
        assert_int_equal(give(&party), STATUS_OK);
        end(&party);
    }
}

static void test_free__answers_a_try_and_gives_back(void **state)
{
    struct fixture *fixture = *state;
    struct party party;

    make_group(&party, fixture, 3, RLOCK_GROUP_ALL);
    begin_acquire(&party, (struct rlock_group_options){.lease_ms = LEASE_MS});
    rlock_group_free(party.group);
    assert_int_equal(party.answers, 1);
    assert_int_equal(party.status, STATUS_CANCELLED);
    for (int i = 0; i < 3; i++) {
        while (server_calls(&servers[i], "mget") == 0)
            fixture_run_for(fixture, 2);
    }
    assert_keys("item:7", "000");
}

static void test_free__answers_a_wait(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_ALL);
    set_foreign(1);
    begin_acquire(
        &party, (struct rlock_group_options){.lease_ms = LEASE_MS, .wait_ms = WITHIN_MS});
    fixture_run_for(party.fixture, 50);
    rlock_group_free(party.group);
    assert_int_equal(party.answers, 1);
    assert_int_equal(party.status, STATUS_CANCELLED);
    fixture_run_for(party.fixture, 50);
    assert_keys("item:7", "010");
}

static void test_free__gives_back_what_is_held_or_being_released(void **state)
{
    struct party held, releasing;

    rlock_group_free(NULL);
    make_group(&held, *state, 3, RLOCK_GROUP_MAJORITY);
    assert_int_equal(take_watched(&held, 600), STATUS_OK);
    rlock_group_free(held.group);
    assert_int_equal(held.answers, 1);
    for (int i = 0; i < 3; i++)
        wait_absent(held.fixture, i);

    make_group(&releasing, *state, 3, RLOCK_GROUP_MAJORITY);
    assert_int_equal(take(&releasing), STATUS_OK);
    rlock_group_release(releasing.group, on_answer, &releasing);
    rlock_group_free(releasing.group);
    assert_int_equal(releasing.answers, 2);
    assert_int_equal(releasing.status, STATUS_CANCELLED);
    for (int i = 0; i < 3; i++)
        wait_absent(releasing.fixture, i);
}

static void test_free__outlives_a_hung_server_and_a_closed_client(void **state)
{
    struct fixture *fixture = *state;
    struct party party;

    make_group(&party, fixture, 3, RLOCK_GROUP_ALL);
    server_pause(&servers[2]);
    begin_acquire(&party, (struct rlock_group_options){.lease_ms = LEASE_MS});
    fixture_run_for(fixture, 20);
    rlock_group_free(party.group);
    assert_int_equal(party.status, STATUS_CANCELLED);
    fixture_close(fixture, party.clients[2]);
    wait_absent(fixture, 0);
    server_resume(&servers[2]);
    wait_absent(fixture, 2);
}

static void on_client_closed(void *arg)
{
    unsigned *closed_count = arg;

    ++*closed_count;
}

static void test_client_close__ends_a_try_of_its_group(void **state)
{
    struct fixture *fixture = *state;
    struct party party;

    make_group(&party, fixture, 1, RLOCK_GROUP_ALL);
    server_pause(&servers[0]);
    begin_acquire(
        &party, (struct rlock_group_options){.lease_ms = LEASE_MS, .wait_ms = WITHIN_MS});
    fixture->clients[0] = NULL;
    rlock_client_close(party.clients[0], on_client_closed, &fixture->closed_count);
    assert_int_equal(await_answer(&party, 1), STATUS_CANCELLED);
    assert_int_equal(fixture->closed_count, 0); /* it outlives the group */
    end(&party);
    server_resume(&servers[0]);
}

/* -- bad use --------------------------------------------------------------------------
 */

static void refuse(const struct rlock_member *members, size_t count,
                   enum rlock_group_need need, const char *words)
{
    struct rlock_group *group = NULL;
    struct err err = {0};

    assert_int_equal(rlock_group_create(members, count, need, &group, &err),
                     STATUS_INVALID);
    assert_null(group);
    if (strstr(err.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void test_create__refuses_bad_members(void **state)
{
    struct rlock_member members[RLOCK_GROUP_MAX + 1];
    char names[RLOCK_GROUP_MAX + 1];
    char longest[RLOCK_NAME_MAX + 1];
    struct party party;

    open_clients(&party, *state, 2, TIMEOUT_MS);
    for (int i = 0; i <= RLOCK_GROUP_MAX; i++) {
        names[i] = (char)i;
        members[i] = (struct rlock_member){party.clients[0], &names[i], 1};
    }
    refuse(members, 0, RLOCK_GROUP_ALL, "0 members");
    refuse(members, RLOCK_GROUP_MAX + 1, RLOCK_GROUP_ALL, "65 members");
    refuse(members, 2, RLOCK_GROUP_MAJORITY, "share a client");
    members[2].name = &names[1];
    refuse(members, 3, RLOCK_GROUP_ALL, "members 1 and 2 are the same");
    members[2].client = party.clients[1]; /* another server: another lock */
    assert_int_equal(rlock_group_create(members, 3, RLOCK_GROUP_ALL, &party.group, NULL),
                     STATUS_OK);
    end(&party);
    members[1].name_len = 0;
    refuse(members, 3, RLOCK_GROUP_ALL, "name of member 1");
    memset(longest, 'n', sizeof(longest));
    members[1] = (struct rlock_member){party.clients[0], longest, sizeof(longest)};
    refuse(members, 3, RLOCK_GROUP_ALL, "name of member 1");
    members[1] = (struct rlock_member){party.clients[0], NULL, 1};
    refuse(members, 3, RLOCK_GROUP_ALL, "name of member 1");
}

static void test_create__refuses_clients_of_different_loops(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client_options options = {.redis_url = servers[0].unix_url,
                                           .timeout_ms = TIMEOUT_MS};
    struct rlock_client *other = NULL;
    struct rlock_member members[2];
    uv_loop_t loop;

    uv_loop_init(&loop);
    options.loop = &loop;
    assert_int_equal(rlock_client_open(&options, &other, NULL), STATUS_OK);
    members[0] = (struct rlock_member){fixture_client(fixture), "a", 1};
    members[1] = (struct rlock_member){other, "b", 1};
    refuse(members, 2, RLOCK_GROUP_ALL, "loops");
    rlock_client_close(other, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_acquire__refuses_a_bad_lease_and_can_be_used_anew(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_MAJORITY);
    assert_int_equal(take_with(&party, (struct rlock_group_options){.wait_ms = 5000}),
                     STATUS_INVALID);
    assert_int_equal(
        take_with(&party,
                  (struct rlock_group_options){.lease_ms = RLOCK_LEASE_MS_MAX + 1}),
        STATUS_INVALID);
    assert_int_equal(take(&party), STATUS_OK);
    end(&party);
}

static void test_acquire__while_held_or_under_way_is_refused_beside(void **state)
{
    struct rlock_group_options options = {.lease_ms = LEASE_MS};
    struct party party;
    int64_t fence;

    make_group(&party, *state, 3, RLOCK_GROUP_ALL);
    begin_acquire(&party, options);
    begin_acquire(&party, options);
    rlock_group_release(party.group, on_answer, &party);
    assert_int_equal(party.answers, 0);
    fixture_wait_count(party.fixture, &party.answers, 3);
    assert_true(rlock_group_is_held(party.group));
    fence = rlock_group_fence(party.group, 1);
    assert_int_equal(take(&party), STATUS_INVALID);
    assert_true(rlock_group_is_held(party.group));
    assert_int_equal(rlock_group_fence(party.group, 1), fence);
    assert_int_equal(give(&party), STATUS_OK);
    end(&party);
}

static void test_free__answers_what_was_refused_beside(void **state)
{
    struct party party;

    make_group(&party, *state, 3, RLOCK_GROUP_ALL);
    rlock_group_release(party.group, on_answer, &party);
    rlock_group_release(party.group, on_answer, &party);
    rlock_group_free(party.group);
    assert_int_equal(party.answers, 2);
    assert_int_equal(party.status, STATUS_NOT_OWNER);
}

/* -- what it costs --------------------------------------------------------------------
 */

static void
test_acquire__sixty_four_members_cost_one_call_and_one_to_release(void **state)
{
    char names[RLOCK_GROUP_MAX + 1] = {0};
    struct party party;
    long long before;

    for (int i = 0; i < RLOCK_GROUP_MAX; i++)
        names[i] = (char)('0' + i);
    make_names(&party, *state, names);
    assert_int_equal(take(&party), STATUS_OK); /* loads the scripts */
    assert_int_equal(give(&party), STATUS_OK);
    before = server_calls(&servers[0], "evalsha");
    assert_int_equal(take(&party), STATUS_OK);
    assert_int_equal(server_int(&servers[0], "DBSIZE"), RLOCK_GROUP_MAX + 1);
    assert_int_equal(server_calls(&servers[0], "evalsha") - before, 1);
    assert_int_equal(give(&party), STATUS_OK);
    assert_int_equal(server_calls(&servers[0], "evalsha") - before, 2);
    assert_int_equal(server_int(&servers[0], "DBSIZE"), 1);
    end(&party);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_acquire__multi_holds_every_member),
        TEST(test_acquire__multi_with_one_busy_holds_none),
        TEST(test_acquire__multi_on_one_server_with_one_busy_holds_none),
        TEST(test_acquire__multi_with_one_busy_all_the_wait_holds_none),
        TEST(test_acquire__multi_holds_nothing_while_it_waits),
        TEST(test_acquire__multi_is_woken_by_the_release_of_the_busy_member),
        TEST(test_acquire__overlapping_multis_on_one_server_all_progress),
        TEST(test_acquire__overlapping_multis_on_two_servers_all_progress),
        TEST(test_acquire__contending_quorums_all_progress),
        TEST(test_acquire__quorum_with_a_minority_down),
        TEST(test_acquire__quorum_with_a_foreign_minority_leaves_it_untouched),
        TEST(test_acquire__quorum_with_a_foreign_majority_is_busy),
        TEST(test_acquire__quorum_waits_for_a_majority),
        TEST(test_acquire__quorum_with_the_majority_down_is_refused),
        TEST(test_acquire__quorum_with_the_majority_hung_is_refused),
        TEST(test_acquire__quorum_is_not_held_up_by_a_hung_minority),
        TEST(test_acquire__late_grant_of_a_held_quorum_is_kept),
        TEST(test_release__late_grant_is_given_back),
        TEST(test_safe_for_us__is_less_than_the_lease_by_drift_and_the_time_taken),
        TEST(test_safe_for_us__counts_those_that_last_longest),
        TEST(test_acquire__grant_that_has_no_time_left_is_refused),
        TEST(test_on_lost__quorum_is_lost_once_with_its_majority),
        TEST(test_on_lost__multi_is_lost_once_with_any_member),
        TEST(test_on_lost__is_called_once_when_all_members_are_lost_at_once),
        TEST(test_on_lost__server_that_comes_back_empty_does_not_resurrect),
        TEST(test_release__quorum_is_ok_while_a_majority_was_ours),
        TEST(test_release__multi_is_lost_when_one_was),
        TEST(test_release__of_servers_that_are_down_is_unknown),
        TEST(test_release__is_bounded_when_the_majority_hangs),
        TEST(test_cancel__ends_a_wait_a_pause_and_a_try),
        TEST(test_free__answers_a_try_and_gives_back),
        TEST(test_free__answers_a_wait),
        TEST(test_free__gives_back_what_is_held_or_being_released),
        TEST(test_free__outlives_a_hung_server_and_a_closed_client),
        TEST(test_client_close__ends_a_try_of_its_group),
        TEST(test_create__refuses_bad_members),
        TEST(test_create__refuses_clients_of_different_loops),
        TEST(test_acquire__refuses_a_bad_lease_and_can_be_used_anew),
        TEST(test_acquire__while_held_or_under_way_is_refused_beside),
        TEST(test_free__answers_what_was_refused_beside),
        TEST(test_acquire__sixty_four_members_cost_one_call_and_one_to_release),
    };

    return cmocka_run_group_tests_name("group", tests, start_servers, stop_servers);
}
