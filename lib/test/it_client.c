/* it_client.c - opening and closing clients, and what callbacks may do. */
#include "test/fixture.h"

#include <stdlib.h>
#include <string.h>

FIXTURE_CASE(test_rlock_client_open__refuses_bad_urls_with_words)
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

FIXTURE_CASE(test_rlock_client_close__answers_every_call_before_it_returns)
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

FIXTURE_CASE(test_rlock_client_close__hung_server_delays_it_by_the_timeout)
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

FIXTURE_CASE(test_callbacks__may_free_their_lock_and_go_on)
{
    struct fixture *fixture = *state;
    struct chain chain = {fixture_client(fixture), fixture, 50, 0};

    chain_acquire(&chain);
    rlock_flush(chain.client);
    fixture_wait_count(fixture, &chain.ended, 1);
    assert_false(server_has(fixture->server, "item:7"));
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
