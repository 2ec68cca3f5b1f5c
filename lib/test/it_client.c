/* it_client.c - opening and closing clients, and what callbacks may do. */
#include "base/clock.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_rlock_client_open__refuses_bad_urls_with_words(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = NULL;
    struct err err = {0};
    struct rlock_client_options options = {
        .loop = &fixture->loop, .redis_url = "http://x", .timeout_ms = TIMEOUT_MS};

    ASSERT_STATUS(rlock_client_open(&options, &client, &err), STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "redis://");
    assert_null(client);
}

static void count_closed(void *arg)
{
    ++*(unsigned *)arg;
}

static void test_rlock_client_close__of_nothing_calls_back_at_once(void **state)
{
    unsigned closed = 0;

    (void)state;
    rlock_client_close(NULL, count_closed, &closed);
    assert_int_equal(closed, 1);
    rlock_client_close(NULL, NULL, NULL);
}

static void test_rlock_client_close__before_it_is_connected(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = fixture->server->unix_url,
                                               .timeout_ms = TIMEOUT_MS});
    struct call call = {0};

    call_acquire(client, &call, "item:7", LEASE_MS);
    fixture_close(fixture, client);
    assert_int_equal(call.answers, 1);
    ASSERT_STATUS(call.status, STATUS_CANCELLED);
}

struct ending {
    unsigned answers;
    enum status status;
};

static void on_inspected(enum status status, const struct rlock_info *info, void *arg)
{
    struct ending *ending = arg;

    assert_null(info);
    ending->answers++;
    ending->status = status;
}

static void on_forced(enum status status, void *arg)
{
    struct ending *ending = arg;

    ending->answers++;
    ending->status = status;
}

static void test_rlock_client_close__answers_every_call_before_it_returns(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call collected = {0}, sent = {0}, releasing = {0}, held = {0}, invalid = {0};
    struct ending inspected = {0}, forced = {0};
    unsigned closed = fixture->closed_count;

    ASSERT_STATUS(acquire(fixture, client, &releasing, "releasing", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire_watched(fixture, client, &held, "held", LEASE_MS), STATUS_OK);
    call_acquire(client, &sent, "sent", LEASE_MS);
    rlock_inspect(client, "a", 1, on_inspected, &inspected);
    rlock_flush(client);
    call_acquire(client, &collected, "collected", LEASE_MS);
    call_release(client, &releasing);
    call_acquire(client, &invalid, "", LEASE_MS);
    rlock_force_release(client, "", 0, on_forced, &forced);
    fixture->clients[0] = NULL;
    rlock_client_close(client, count_closed, &fixture->closed_count);

    assert_int_equal(fixture->closed_count, closed); /* not from inside the call */
    ASSERT_STATUS(collected.status, STATUS_CANCELLED);
    ASSERT_STATUS(sent.status, STATUS_CANCELLED);
    ASSERT_STATUS(releasing.status, STATUS_CANCELLED);
    assert_int_equal(collected.answers + sent.answers + invalid.answers, 3);
    assert_int_equal(releasing.answers, 2);
    assert_int_equal(inspected.answers + forced.answers, 2);
    ASSERT_STATUS(inspected.status, STATUS_CANCELLED);
    assert_int_equal(held.losses, 0);
    memset(&sent, 0xff, sizeof(sent)); /* the caller's again */
    memset(&releasing, 0xff, sizeof(releasing));
    memset(&held, 0xff, sizeof(held));
    fixture_wait_count(fixture, &fixture->closed_count, closed + 1);

    assert_false(server_has(fixture->server, "collected"));
    assert_false(server_has(fixture->server, "sent"));      /* released */
    assert_false(server_has(fixture->server, "releasing")); /* executed */
    assert_true(server_has(fixture->server, "held"));       /* left to its lease */
}

static void test_rlock_client_close__sends_releases_without_a_callback(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[200] = {0};
    char name[24];

    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        call_acquire(client, &calls[i], name, LEASE_MS);
    }
    rlock_flush(client);
    fixture_wait_answers(fixture, &calls[199], 1);
    for (int i = 0; i < 200; i++)
        rlock_release(client, &calls[i].lock, NULL, NULL);
    fixture_close(fixture, client);
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 1);
}

static void test_rlock_client_close__hung_server_delays_it_by_the_timeout(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    server_pause(fixture->server);
    call_acquire(client, &call, "item:7", LEASE_MS);
    rlock_flush(client);
    fixture->clients[0] = NULL;
    rlock_client_close(client, count_closed, &fixture->closed_count);
    assert_int_equal(call.answers, 1);
    ASSERT_STATUS(call.status, STATUS_CANCELLED);
    fixture_run_for(fixture, 20);
    assert_int_equal(fixture->closed_count, 0);
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    fixture_hold_timers(fixture);
    fixture_wait_count(fixture, &fixture->closed_count, 1);
}

/** Callbacks that use the client at once and free their lock. */
struct chain {
    struct rlock_client *client;
    struct fixture *fixture;
    unsigned left, ended;
};

static void chain_acquire(struct chain *chain);

static void on_chain_released(struct rlock *lock, enum status status, void *arg)
{
    struct chain *chain = arg;

    ASSERT_STATUS(status, STATUS_OK);
    free(lock);
    if (--chain->left > 0)
        chain_acquire(chain);
    else
        chain->ended++;
    rlock_flush(chain->client);
}

static void on_chain_held(struct rlock *lock, enum status status, void *arg)
{
    struct chain *chain = arg;

    ASSERT_STATUS(status, STATUS_OK);
    rlock_release(chain->client, lock, on_chain_released, chain);
    rlock_flush(chain->client);
}

static void chain_acquire(struct chain *chain)
{
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS, .watchdog = true};

    rlock_acquire(chain->client, calloc(1, sizeof(struct rlock)), "item:7", 6, &options,
                  on_chain_held, chain);
}

static void test_callbacks__may_free_their_lock_and_go_on(void **state)
{
    struct fixture *fixture = *state;
    struct chain chain = {fixture_client(fixture), fixture, 50, 0};

    chain_acquire(&chain);
    rlock_flush(chain.client);
    fixture_wait_count(fixture, &chain.ended, 1);
    assert_false(server_has(fixture->server, "item:7"));
}

/** The first of several answers closes the client. */
struct closer {
    struct fixture *fixture;
    struct rlock_client *client;
    struct rlock locks[4];
    enum status statuses[4];
    unsigned answers;
};

static void on_answer_close(struct rlock *lock, enum status status, void *arg)
{
    struct closer *closer = arg;

    closer->statuses[lock - closer->locks] = status;
    closer->answers++;
    if (closer->answers > 1)
        return;
    closer->fixture->clients[0] = NULL;
    rlock_client_close(closer->client, count_closed, &closer->fixture->closed_count);
    assert_int_equal(closer->answers, 4);
}

static void close_from_answer(struct fixture *fixture, struct closer *closer)
{
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS, .watchdog = true};
    char name[24];

    closer->fixture = fixture;
    closer->client = fixture->clients[0];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "item:%d", i);
        rlock_acquire(closer->client, &closer->locks[i], name, strlen(name), &options,
                      on_answer_close, closer);
    }
    rlock_flush(closer->client);
    fixture_wait_count(fixture, &fixture->closed_count, 1);
    assert_int_equal(closer->answers, 4);
}

static void test_rlock_client_close__from_inside_an_answer(void **state)
{
    struct fixture *fixture = *state;
    struct closer closer = {0};

    fixture_client(fixture);
    close_from_answer(fixture, &closer);
    ASSERT_STATUS(closer.statuses[0], STATUS_OK);
    for (int i = 1; i < 4; i++)
        ASSERT_STATUS(closer.statuses[i], STATUS_CANCELLED);
    assert_true(server_has(fixture->server, "item:0")); /* held, left to its lease */
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 2);
}

static void test_rlock_client_close__from_inside_a_refusal_without_server(void **state)
{
    struct fixture *fixture = *state;
    struct closer closer = {0};

    fixture_open(fixture,
                 (struct rlock_client_options){.redis_url = "unix:/tmp/rlock-nobody",
                                               .timeout_ms = TIMEOUT_MS});
    close_from_answer(fixture, &closer);
    ASSERT_STATUS(closer.statuses[0], STATUS_DOWN);
    for (int i = 1; i < 4; i++)
        ASSERT_STATUS(closer.statuses[i], STATUS_CANCELLED);
}

/** Callbacks that use the client while it is being closed. */
struct stubborn {
    struct rlock_client *client;
    struct call held, again, freed;
    struct ending inspected, forced;
};

static void on_cancelled(struct rlock *lock, enum status status, void *arg)
{
    struct stubborn *stubborn = arg;

    (void)lock;
    ASSERT_STATUS(status, STATUS_CANCELLED);
    call_acquire(stubborn->client, &stubborn->again, "again", LEASE_MS);
    call_release(stubborn->client, &stubborn->held);
    rlock_release(stubborn->client, &stubborn->freed.lock, NULL, NULL);
    rlock_inspect(stubborn->client, "a", 1, on_inspected, &stubborn->inspected);
    rlock_force_release(stubborn->client, "a", 1, on_forced, &stubborn->forced);
    rlock_flush(stubborn->client);
}

static void test_rlock_client_close__calls_from_its_callbacks_are_cancelled(void **state)
{
    struct fixture *fixture = *state;
    struct stubborn stubborn = {.client = fixture_client(fixture)};
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS};
    struct rlock lock = {0};

    ASSERT_STATUS(acquire(fixture, stubborn.client, &stubborn.held, "held", LEASE_MS),
                  STATUS_OK);
    ASSERT_STATUS(acquire(fixture, stubborn.client, &stubborn.freed, "freed", LEASE_MS),
                  STATUS_OK);
    rlock_acquire(stubborn.client, &lock, "item:7", 6, &options, on_cancelled, &stubborn);
    fixture_close(fixture, stubborn.client);
    ASSERT_STATUS(stubborn.again.status, STATUS_CANCELLED);
    ASSERT_STATUS(stubborn.held.status, STATUS_CANCELLED);
    assert_int_equal(stubborn.held.answers, 2);
    ASSERT_STATUS(stubborn.inspected.status, STATUS_CANCELLED);
    ASSERT_STATUS(stubborn.forced.status, STATUS_CANCELLED);
    assert_false(server_has(fixture->server, "again"));
    assert_false(server_has(fixture->server, "held")); /* released all the same */
    assert_false(server_has(fixture->server, "freed"));
}

struct states {
    unsigned ups, downs;
};

static void on_state(bool is_up, const struct err *why, void *arg)
{
    struct states *states = arg;

    assert_int_equal(is_up, why == NULL);
    states->ups += is_up;
    states->downs += !is_up;
}

static void test_on_state__reports_ups_and_downs(void **state)
{
    struct fixture *fixture = *state;
    struct states states = {0};
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = fixture->server->tcp_url,
                                               .timeout_ms = TIMEOUT_MS,
                                               .on_state = on_state,
                                               .arg = &states});

    assert_false(rlock_client_is_up(client));
    fixture_wait_up(fixture, client);
    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
    assert_int_equal(states.ups, 2);
    ASSERT_NUMBER(states.downs, >=, 1);
}

static void test_fence_key__may_be_chosen(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = fixture->server->unix_url,
                                               .fence_key = "shop:{a}:fence",
                                               .timeout_ms = TIMEOUT_MS});
    struct call call = {0};

    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    assert_true(server_has(fixture->server, "shop:{a}:fence"));
    assert_false(server_has(fixture->server, "lock:fence"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_rlock_client_open__refuses_bad_urls_with_words),
        FIXTURE_TEST(test_rlock_client_close__of_nothing_calls_back_at_once),
        FIXTURE_TEST(test_rlock_client_close__before_it_is_connected),
        FIXTURE_TEST(test_rlock_client_close__answers_every_call_before_it_returns),
        FIXTURE_TEST(test_rlock_client_close__sends_releases_without_a_callback),
        FIXTURE_TEST(test_rlock_client_close__hung_server_delays_it_by_the_timeout),
        FIXTURE_TEST(test_callbacks__may_free_their_lock_and_go_on),
        FIXTURE_TEST(test_rlock_client_close__from_inside_an_answer),
        FIXTURE_TEST(test_rlock_client_close__from_inside_a_refusal_without_server),
        FIXTURE_TEST(test_rlock_client_close__calls_from_its_callbacks_are_cancelled),
        FIXTURE_TEST(test_on_state__reports_ups_and_downs),
        FIXTURE_TEST(test_fence_key__may_be_chosen),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
