/* it_bad_use.c - foreign keys, full servers and closed clients: refused without an effect. */
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

/** Some kinds append a suffix to the name, such as ":readers": those keys must fit, too. */
FIXTURE_CASE(test_acquire__takes_the_longest_name_of_every_kind)
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

FIXTURE_CASE(test_client__used_after_its_close_answers_all)
{
    close_and_use(*state, false);
}

FIXTURE_CASE(test_client__used_while_it_releases_answers_all)
{
    close_and_use(*state, true);
}

/* -- a server without memory -- */

FIXTURE_CASE(test_acquire__without_memory_is_refused_for_every_kind)
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

FIXTURE_CASE(test_acquire__leaves_any_other_key_alone)
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

FIXTURE_CASE(test_inspect__refuses_what_cannot_be_a_lock)
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

FIXTURE_CASE(test_held__replaced_by_another_type_is_lost_and_left)
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

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
