/* it_bad_use.c - mistakes of callers and of servers: each has its status and no effect. */
#include "base/clock.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS, &rlock_getset};
enum { KINDS = 8, GETSET = 7 };

static struct rlock_acquire_options try_once(const struct rlock_kind *kind)
{
    return (struct rlock_acquire_options){.kind = kind,
                                          .permits = kind == NULL ? 0 : permits_of(kind),
                                          .lease_ms = LEASE_MS};
}

static void expect_why(const struct rlock_client *client, const char *words)
{
    ASSERT_CONTAINS(rlock_client_why(client)->text, words);
}

/* -- options -- */

static void expect_invalid(struct fixture *fixture, struct rlock_client *client,
                           const struct rlock_acquire_options *options)
{
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", options),
                  STATUS_INVALID);
    assert_false(rlock_is_held(&call.lock));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_NOT_OWNER);
    assert_false(server_has(fixture->server, "item:7"));
}

static void test_acquire__refuses_bad_leases_of_every_kind(void **state)
{
    static const uint32_t leases_ms[] = {1, RLOCK_LEASE_MS_MIN - 1,
                                         RLOCK_LEASE_MS_MAX + 1, UINT32_MAX};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i]);

        for (int j = 0; j < 4; j++) {
            options.lease_ms = leases_ms[j];
            options.watchdog = false;
            expect_invalid(fixture, client, &options);
            options.watchdog = true;
            expect_invalid(fixture, client, &options);
        }
    }
}

static void test_acquire__without_a_lease_is_watched_with_the_default(void **state)
{
    struct rlock_acquire_options options = {.watchdog = true};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options), STATUS_OK);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL item:7"), RLOCK_LEASE_MS_DEFAULT / 2,
                   RLOCK_LEASE_MS_DEFAULT);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

static void test_acquire__refuses_bad_names_of_every_kind(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    char name[RLOCK_NAME_MAX + 2] = {0};
    long long before = server_int(fixture->server, "DBSIZE");

    memset(name, 'n', RLOCK_NAME_MAX + 1);
    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i]);
        struct call call = {0};

        options.wait_ms = RLOCK_WAIT_FOREVER;
        ASSERT_STATUS(acquire_with(fixture, client, &call, name, &options),
                      STATUS_INVALID);
        ASSERT_STATUS(acquire_with(fixture, client, &call, "", &options), STATUS_INVALID);
        call_acquire_name(client, &call, NULL, 3);
        fixture_wait_answers(fixture, &call, 3);
        ASSERT_STATUS(call.status, STATUS_INVALID);
        call_acquire_name(client, &call, "item:7", (size_t)UINT16_MAX + 7);
        fixture_wait_answers(fixture, &call, 4);
        ASSERT_STATUS(call.status, STATUS_INVALID);
    }
    assert_int_equal(server_int(fixture->server, "DBSIZE"), before);
}

/** Some kinds append a suffix to the name, such as ":readers": those keys must fit, too. */
static void test_acquire__takes_the_longest_name_of_every_kind(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    char name[RLOCK_NAME_MAX + 1] = {0};

    memset(name, 'n', RLOCK_NAME_MAX);
    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i]);
        struct call first = {0}, second = {0};
        struct answer answer = {0};

        ASSERT_STATUS(acquire_with(fixture, client, &first, name, &options), STATUS_OK);
        options.wait_ms = RLOCK_WAIT_FOREVER;
        options.holder = 1;
        call_acquire_with(client, &second, name, &options);
        rlock_flush(client);
        fixture_run_for(fixture, 20);
        ASSERT_STATUS(inspect(fixture, client, &answer, name), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &first), STATUS_OK);
        fixture_wait_answers(fixture, &second, 1);
        ASSERT_STATUS(second.status, STATUS_OK);
        ASSERT_STATUS(force(fixture, client, &answer, name), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &second), STATUS_LOST);
    }
}

static void test_acquire__refuses_a_spin_whose_bounds_are_crossed(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i]);

        options.spin_min_ms = 11;
        options.spin_max_ms = 10;
        expect_invalid(fixture, client, &options);
    }
}

static void test_inspect__refuses_bad_names(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct answer answer = {0};
    char name[RLOCK_NAME_MAX + 2] = {0};

    memset(name, 'n', RLOCK_NAME_MAX + 1);
    ASSERT_STATUS(inspect(fixture, client, &answer, name), STATUS_INVALID);
    ASSERT_STATUS(force(fixture, client, &answer, name), STATUS_INVALID);
    ASSERT_STATUS(inspect(fixture, client, &answer, ""), STATUS_INVALID);
    ASSERT_STATUS(force(fixture, client, &answer, ""), STATUS_INVALID);
}

/* -- what is not held -- */

static void test_release__of_what_is_not_held_is_not_owner(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i]);
        struct call held = {0}, other = {0};

        ASSERT_STATUS(release(fixture, bob, &other), STATUS_NOT_OWNER);
        ASSERT_STATUS(acquire_with(fixture, alice, &held, "item:7", &options), STATUS_OK);
        ASSERT_STATUS(acquire_with(fixture, bob, &other, "item:7", &options),
                      STATUS_BUSY);
        ASSERT_STATUS(release(fixture, bob, &other), STATUS_NOT_OWNER);
        rlock_release(bob, &other.lock, NULL, NULL);
        rlock_cancel(bob, &other.lock);
        assert_true(server_has(fixture->server, "item:7"));
        rlock_cancel(alice, &held.lock); /* the acquire has ended */
        ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
        ASSERT_STATUS(release(fixture, alice, &held), STATUS_NOT_OWNER);
        assert_int_equal(held.answers, 3);
    }
}

/* -- after the close -- */

static void on_closed(void *arg)
{
    ++*(unsigned *)arg;
}

static void on_forced(enum status status, void *arg)
{
    struct answer *answer = arg;

    answer->answers++;
    answer->status = status;
}

static void on_inspected(enum status status, const struct rlock_info *info, void *arg)
{
    assert_null(info);
    on_forced(status, arg);
}

/** Call everything on a client while it is being closed. */
static void use_closed(struct fixture *fixture, struct rlock_client *client,
                       struct call *held)
{
    struct rlock_acquire_options options = try_once(NULL);
    struct call call = {0}, twice = {0};
    struct answer answer = {0}; /* of both questions */
    struct rlock_stats stats;

    assert_ptr_equal(fixture->clients[0], client);
    fixture->clients[0] = NULL;
    rlock_client_close(client, on_closed, &fixture->closed_count);
    assert_int_equal(fixture->closed_count, 0);
    assert_false(rlock_client_is_up(client));
    call_acquire_with(client, &call, "item:8", &options);
    call_acquire_with(client, &twice, "item:8", &options);
    call_acquire_with(client, &twice, "item:8", &options);
    rlock_cancel(client, &call.lock);
    call_extend(client, &held[0], LEASE_MS);
    call_release(client, &held[1]);
    rlock_release(client, &held[2].lock, NULL, NULL);
    rlock_inspect(client, "item:0", 6, on_inspected, &answer);
    rlock_force_release(client, "item:0", 6, on_forced, &answer);
    rlock_flush(client);
    rlock_client_stats(client, &stats);
    assert_non_null(rlock_client_why(client));
    assert_int_equal(call.answers + twice.answers + answer.answers, 0);
    fixture_wait_count(fixture, &fixture->closed_count, 1);
    assert_int_equal(call.answers, 1);
    ASSERT_STATUS(call.status, STATUS_CANCELLED);
    assert_int_equal(twice.answers, 2);
    assert_int_equal(twice.statuses[0] + twice.statuses[1],
                     STATUS_CANCELLED + STATUS_INVALID);
    assert_int_equal(answer.answers, 2);
    ASSERT_STATUS(answer.status, STATUS_CANCELLED);
    assert_int_equal(held[0].answers, 2);
    ASSERT_STATUS(held[0].status, STATUS_CANCELLED);
    assert_int_equal(held[1].answers, 2);
    ASSERT_STATUS(held[1].status, STATUS_CANCELLED);
    assert_false(rlock_is_held(&held[2].lock));
}

static void close_and_use(struct fixture *fixture, bool is_busy)
{
    struct rlock_client *client = fixture_client(fixture);
    struct call held[3] = {0}, last = {0};
    char name[24];

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        ASSERT_STATUS(acquire(fixture, client, &held[i], name, LEASE_MS), STATUS_OK);
    }
    if (is_busy) { /* then closing waits for the server */
        call_acquire(client, &last, "last", LEASE_MS);
        rlock_flush(client);
    }
    use_closed(fixture, client, held);
    assert_false(server_has(fixture->server, "last"));
    assert_false(server_has(fixture->server, "item:8"));
}

static void test_client__used_after_its_close_answers_all(void **state)
{
    close_and_use(*state, false);
}

static void test_client__used_while_it_releases_answers_all(void **state)
{
    close_and_use(*state, true);
}

/* -- servers that refuse -- */

static struct rlock_client *open_url(struct fixture *fixture, const char *user)
{
    char url[128];

    snprintf(url, sizeof(url), "redis://%s127.0.0.1:%u", user, fixture->server->port);
    return fixture_open(fixture, (struct rlock_client_options){.redis_url = url,
                                                               .timeout_ms = TIMEOUT_MS});
}

static bool has_why(void *arg)
{
    return rlock_client_why(arg)->text[0] != '\0';
}

static void expect_shut_out(struct fixture *fixture, const char *user, const char *words)
{
    struct rlock_client *client = open_url(fixture, user);
    struct call call = {0};
    struct answer answer = {0};

    FIXTURE_AWAIT(fixture, has_why, client);
    expect_why(client, words);
    assert_false(rlock_client_is_up(client));
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_REFUSED);
    ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), STATUS_REFUSED);
    ASSERT_STATUS(force(fixture, client, &answer, "item:7"), STATUS_REFUSED);
    assert_false(server_has(fixture->server, "item:7"));
}

static void test_client__with_a_wrong_password_is_down_with_the_reason(void **state)
{
    struct fixture *fixture = *state;

    server_do(fixture->server, "CONFIG SET requirepass secret");
    expect_shut_out(fixture, "", "NOAUTH");
    expect_shut_out(fixture, ":wrong@", "WRONGPASS");
    fixture_wait_up(fixture, open_url(fixture, ":secret@"));
    server_do(fixture->server, "ACL SETUSER seller on >pass ~* &* +@all");
    expect_shut_out(fixture, "seller:wrong@", "WRONGPASS");
    expect_shut_out(fixture, "nobody:pass@", "WRONGPASS");
    fixture_wait_up(fixture, open_url(fixture, "seller:pass@"));
    server_do(fixture->server, "ACL DELUSER seller");
    server_do(fixture->server, "CONFIG SET requirepass %s", "");
}

/** A user who may do some, but not all that a lock needs. */
static void test_acquire__that_is_not_permitted_is_refused_with_the_reason(void **state)
{
    static const char *const rights[] = {
        "ACL SETUSER seller reset on >pass ~item:* ~lock:fence* &* +@all",
        "ACL SETUSER seller reset on >pass ~* &* +@all -incrby",
        "ACL SETUSER seller reset on >pass ~* &* +@all -eval -evalsha"};
    struct fixture *fixture = *state;
    struct rlock_client *client;
    struct answer answer = {0};

    server_do(fixture->server, rights[0]);
    client = open_url(fixture, "seller:pass@");
    fixture_wait_up(fixture, client);
    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i]);
        struct call call = {0};

        server_do(fixture->server, rights[0]);
        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        ASSERT_STATUS(acquire_with(fixture, client, &call, "other", &options),
                      STATUS_REFUSED);
        for (int j = 1; j < 3; j++) {
            server_do(fixture->server, rights[j]);
            ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                          STATUS_REFUSED);
        }
        assert_false(server_has(fixture->server, "other"));
        assert_false(server_has(fixture->server, "item:7"));
    }
    expect_why(client, "NOPERM");
    ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), STATUS_REFUSED);
    server_do(fixture->server, "ACL DELUSER seller");
}

static bool has_only_the_counter(void *arg)
{
    return server_int(((struct fixture *)arg)->server, "DBSIZE") == 1;
}

/** Its releases are made up for when it is a primary again. */
static void test_client__of_a_server_become_a_replica_is_down(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call held[KINDS] = {0}, call = {0};
    struct answer answer = {0};
    char name[24];

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i]);

        snprintf(name, sizeof(name), "item:%d", i);
        ASSERT_STATUS(acquire_with(fixture, client, &held[i], name, &options), STATUS_OK);
    }
    server_do(fixture->server, "REPLICAOF 127.0.0.1 1");
    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i]);

        ASSERT_STATUS(acquire_with(fixture, client, &call, "other", &options),
                      STATUS_DOWN);
        ASSERT_STATUS(force(fixture, client, &answer, "item:0"), STATUS_DOWN);
        if (i != GETSET) {
            ASSERT_STATUS(extend(fixture, client, &held[i], 2 * LEASE_MS), STATUS_DOWN);
            assert_true(rlock_is_held(&held[i].lock));
        }
        ASSERT_STATUS(release(fixture, client, &held[i]), STATUS_DOWN);
    }
    assert_int_equal(server_int(fixture->server, "DBSIZE"), KINDS + 1);
    server_do(fixture->server, "REPLICAOF NO ONE");
    FIXTURE_AWAIT(fixture, has_only_the_counter, fixture);
}

static void test_acquire__without_memory_is_refused_for_every_kind(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i]);
        struct call held = {0}, call = {0};

        ASSERT_STATUS(acquire_with(fixture, client, &held, "item:7", &options),
                      STATUS_OK);
        server_do(fixture->server, "CONFIG SET maxmemory 1");
        ASSERT_STATUS(acquire_with(fixture, client, &call, "other", &options),
                      STATUS_REFUSED);
        expect_why(client, "OOM");
        options.wait_ms = RLOCK_WAIT_FOREVER;
        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      STATUS_REFUSED);
        if (i != GETSET)
            ASSERT_STATUS(extend(fixture, client, &held, LEASE_MS), STATUS_OK);
        ASSERT_STATUS(release(fixture, client, &held), STATUS_OK); /* frees some */
        server_do(fixture->server, "CONFIG SET maxmemory 0");
        assert_int_equal(server_int(fixture->server, "DBSIZE"), 1); /* the counter */
    }
}

/* -- keys of other types -- */

static const char *const strangers[] = {
    "SET %s foreign",  "RPUSH %s a b", "SADD %s a b",
    "ZADD %s 1 a 2 b", "HSET %s a b",  "XADD %s 1-1 a b",
};
enum { STRING = 0, HASH = 4, STRANGERS = 6 };

static void put_stranger(struct fixture *fixture, int stranger, const char *key)
{
    server_do(fixture->server, "DEL %s", key);
    server_do(fixture->server, strangers[stranger], key);
    assert_true(server_has(fixture->server, key));
}

/** That the key has the value of put_stranger(). */
static void expect_untouched(struct fixture *fixture, int stranger, const char *key)
{
    redisReply *found = server_command(fixture->server, "DUMP %s", key);
    redisReply *wanted;

    put_stranger(fixture, stranger, "same");
    wanted = server_command(fixture->server, "DUMP same");
    assert_int_equal(found->type, REDIS_REPLY_STRING);
    assert_int_equal(found->len, wanted->len);
    assert_memory_equal(found->str, wanted->str, wanted->len);
    assert_int_equal(server_int(fixture->server, "PTTL %s", key), -1);
    freeReplyObject(found);
    freeReplyObject(wanted);
}

/** A kind whose locks are strings or hashes takes any of these for a lock. */
static enum status wanted_status(const struct rlock_kind *kind, int stranger)
{
    if (kind == &rlock_reentrant)
        return stranger == HASH ? STATUS_BUSY : STATUS_REFUSED;
    if (kind == &rlock_plain || kind == &rlock_cohort || kind == &rlock_fair)
        return stranger == STRING ? STATUS_BUSY : STATUS_REFUSED;
    return STATUS_REFUSED;
}

static void test_acquire__leaves_any_other_key_alone(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS * STRANGERS; i++) {
        const struct rlock_kind *kind = kinds[i / STRANGERS];
        int stranger = i % STRANGERS;
        struct rlock_acquire_options options = try_once(kind);
        struct call call = {0};

        put_stranger(fixture, stranger, "item:7");
        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      wanted_status(kind, stranger));
        options.wait_ms = 20;
        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      wanted_status(kind, stranger));
        if (call.status == STATUS_REFUSED)
            expect_why(client, "no lock of this kind");
        ASSERT_STATUS(release(fixture, client, &call), STATUS_NOT_OWNER);
        expect_untouched(fixture, stranger, "item:7");
    }
}

static void test_inspect__refuses_what_cannot_be_a_lock(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct answer answer = {0};

    for (int i = 0; i < STRANGERS; i++) {
        bool is_possible = i == STRING || i == HASH;
        enum status wanted = is_possible ? STATUS_OK : STATUS_REFUSED;

        put_stranger(fixture, i, "item:7");
        assert_int_equal(inspect(fixture, client, &answer, "item:7"), wanted);
        expect_untouched(fixture, i, "item:7");
        if (is_possible) {
            assert_false(answer.is_ours);
            continue;
        }
        expect_why(client, "WRONGTYPE");
        ASSERT_STATUS(force(fixture, client, &answer, "item:7"), STATUS_REFUSED);
        expect_why(client, "WRONGTYPE");
        expect_untouched(fixture, i, "item:7");
    }
}

static void test_held__replaced_by_another_type_is_lost_and_left(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS * STRANGERS; i++) {
        const struct rlock_kind *kind = kinds[i / STRANGERS];
        int stranger = i % STRANGERS;
        struct rlock_acquire_options options = try_once(kind);
        struct call call = {0}, watched = {0};

        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      STATUS_OK);
        put_stranger(fixture, stranger, "item:7");
        if (kind != &rlock_getset)
            ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_LOST);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
        expect_untouched(fixture, stranger, "item:7");
        server_do(fixture->server, "DEL item:7");
        if (kind == &rlock_getset || stranger > 1)
            continue;
        options.watchdog = true;
        ASSERT_STATUS(acquire_with(fixture, client, &watched, "item:7", &options),
                      STATUS_OK);
        put_stranger(fixture, stranger, "item:7");
        fixture_pass_ms(fixture, LEASE_MS / 3 + 1);
        fixture_wait_losses(fixture, &watched, 1);
        expect_untouched(fixture, stranger, "item:7");
        server_do(fixture->server, "DEL item:7");
    }
}

/** The other keys of a fair lock. */
static void test_fair__refuses_where_its_queue_has_another_type(void **state)
{
    static const char *const keys[] = {"item:7:queue", "item:7:beats"};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = try_once(&rlock_fair);

    options.wait_ms = RLOCK_WAIT_FOREVER;
    for (int i = 0; i < 2; i++) {
        struct call held = {0}, waiting = {0}, call = {0};
        struct answer answer = {0};

        ASSERT_STATUS(acquire_with(fixture, client, &held, "item:7", &options),
                      STATUS_OK);
        put_stranger(fixture, HASH, keys[i]);
        ASSERT_STATUS(acquire_with(fixture, client, &waiting, "item:7", &options),
                      STATUS_REFUSED);
        expect_why(client, "no lock of this kind");
        expect_untouched(fixture, HASH, keys[i]);
        ASSERT_STATUS(force(fixture, client, &answer, "item:7"), STATUS_OK);
        assert_false(server_has(fixture->server, "item:7"));
        expect_untouched(fixture, HASH, keys[i]);
        ASSERT_STATUS(release(fixture, client, &held), STATUS_LOST);
        /* its neighbours in the same call are not affected */
        call_acquire_with(client, &waiting, "item:7", &options);
        call_acquire_with(client, &call, "item:8", &options);
        rlock_flush(client);
        fixture_wait_answers(fixture, &call, 1);
        ASSERT_STATUS(call.status, STATUS_OK);
        ASSERT_STATUS(waiting.status, STATUS_REFUSED);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        expect_untouched(fixture, HASH, keys[i]);
        server_do(fixture->server, "DEL same %s", keys[i]);
        assert_int_equal(server_int(fixture->server, "DBSIZE"), 1); /* the counter */
    }
}

/** It was acquired before the key of its queue was overwritten. */
static void test_fair__is_released_though_its_queue_has_another_type(void **state)
{
    static const char *const keys[] = {"item:7:queue", "item:7:beats"};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = try_once(&rlock_fair);

    for (int i = 0; i < 2; i++) {
        struct call call = {0};

        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      STATUS_OK);
        put_stranger(fixture, HASH, keys[i]);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        assert_false(server_has(fixture->server, "item:7"));
        expect_untouched(fixture, HASH, keys[i]);
        server_do(fixture->server, "DEL %s", keys[i]);
    }
}

static void test_force_release__of_another_kind_leaves_such_names(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call held = {0}, waiting = {0};
    struct answer answer = {0};
    struct rlock_acquire_options options = try_once(&rlock_plain);

    put_stranger(fixture, HASH, "item:7:queue");
    ASSERT_STATUS(acquire(fixture, client, &held, "item:7", LEASE_MS), STATUS_OK);
    options.wait_ms = RLOCK_WAIT_FOREVER;
    call_acquire_with(client, &waiting, "item:7", &options);
    rlock_flush(client);
    fixture_run_for(fixture, 50);
    ASSERT_STATUS(force(fixture, client, &answer, "item:7"), STATUS_OK);
    fixture_wait_answers(fixture, &waiting, 1);
    ASSERT_STATUS(waiting.status, STATUS_OK);
    expect_untouched(fixture, HASH, "item:7:queue");
    ASSERT_STATUS(release(fixture, client, &waiting), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &held), STATUS_LOST);
}

static void test_acquire__where_the_counter_has_another_type_locks_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS * STRANGERS; i++) {
        struct rlock_acquire_options options = try_once(kinds[i / STRANGERS]);
        int stranger = i % STRANGERS;
        struct call call = {0};

        if (stranger == STRING)
            continue; /* it would be a damaged counter */
        put_stranger(fixture, stranger, "lock:fence");
        options.wait_ms = RLOCK_WAIT_FOREVER;
        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      STATUS_REFUSED);
        expect_why(client, "WRONGTYPE the key holds no fence counter: lock:fence");
        assert_false(server_has(fixture->server, "item:7"));
        assert_false(server_has(fixture->server, "item:7:queue"));
        expect_untouched(fixture, stranger, "lock:fence");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_acquire__refuses_bad_leases_of_every_kind),
        FIXTURE_TEST(test_acquire__without_a_lease_is_watched_with_the_default),
        FIXTURE_TEST(test_acquire__refuses_bad_names_of_every_kind),
        FIXTURE_TEST(test_acquire__takes_the_longest_name_of_every_kind),
        FIXTURE_TEST(test_acquire__refuses_a_spin_whose_bounds_are_crossed),
        FIXTURE_TEST(test_inspect__refuses_bad_names),
        FIXTURE_TEST(test_release__of_what_is_not_held_is_not_owner),
        FIXTURE_TEST(test_client__used_after_its_close_answers_all),
        FIXTURE_TEST(test_client__used_while_it_releases_answers_all),
        FIXTURE_TEST(test_client__with_a_wrong_password_is_down_with_the_reason),
        FIXTURE_TEST(test_acquire__that_is_not_permitted_is_refused_with_the_reason),
        FIXTURE_TEST(test_client__of_a_server_become_a_replica_is_down),
        FIXTURE_TEST(test_acquire__without_memory_is_refused_for_every_kind),
        FIXTURE_TEST(test_acquire__leaves_any_other_key_alone),
        FIXTURE_TEST(test_inspect__refuses_what_cannot_be_a_lock),
        FIXTURE_TEST(test_held__replaced_by_another_type_is_lost_and_left),
        FIXTURE_TEST(test_fair__refuses_where_its_queue_has_another_type),
        FIXTURE_TEST(test_fair__is_released_though_its_queue_has_another_type),
        FIXTURE_TEST(test_force_release__of_another_kind_leaves_such_names),
        FIXTURE_TEST(test_acquire__where_the_counter_has_another_type_locks_nothing),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
