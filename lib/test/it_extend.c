/* it_extend.c - leases that their owner extends or shortens. */
#include "base/clock.h"
#include "test/fixture.h"

static int64_t safe_ms(const struct call *call)
{
    return rlock_safe_for_us(&call->lock, clock_mono_us()) / 1000;
}

static long long ttl_ms(struct fixture *fixture)
{
    return server_int(fixture->server, "PTTL item:7");
}

static bool is_gone(void *arg)
{
    return !server_has(((struct fixture *)arg)->server, "item:7");
}

static void wait_gone(struct fixture *fixture)
{
    FIXTURE_AWAIT(fixture, is_gone, fixture);
}

/** Another grant of the same holder may need the longer lease. */
FIXTURE_CASE(test_extend__of_a_reentrant_lock_never_shortens)
{
    struct rlock_acquire_options options = {.kind = &rlock_reentrant,
                                            .lease_ms = LEASE_MS};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call outer = {0}, inner = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &outer, "item:7", &options), STATUS_OK);
    ASSERT_STATUS(acquire_with(fixture, client, &inner, "item:7", &options), STATUS_OK);
    ASSERT_STATUS(extend(fixture, client, &inner, LEASE_MS / 4), STATUS_OK);
    ASSERT_NUMBER(ttl_ms(fixture), >, LEASE_MS / 2);
    ASSERT_NUMBER(safe_ms(&inner), <, LEASE_MS / 4);
    ASSERT_STATUS(extend(fixture, client, &inner, 2 * LEASE_MS), STATUS_OK);
    ASSERT_NUMBER(ttl_ms(fixture), >, 3 * LEASE_MS / 2);
    ASSERT_STATUS(release(fixture, client, &inner), STATUS_OK);
    ASSERT_STATUS(extend(fixture, client, &inner, LEASE_MS), STATUS_NOT_OWNER);
    ASSERT_STATUS(release(fixture, client, &outer), STATUS_OK);
    assert_false(server_has(fixture->server, "item:7"));
}

FIXTURE_CASE(test_extend__watchdog_goes_on_with_the_new_lease)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    uint64_t renewed;

    ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS / 2), STATUS_OK);
    for (int i = 0; i < 6; i++)
        fixture_pass_renewal(fixture, client, LEASE_MS / 2, 1);
    ASSERT_BETWEEN(ttl_ms(fixture), 1, LEASE_MS / 2);
    ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_OK);
    renewed = fixture_renewed(client);
    fixture_pass_ms(fixture, LEASE_MS / 5); /* more than a third of the shorter lease */
    fixture_run_for(fixture, 20);
    assert_int_equal(fixture_renewed(client), renewed);
    ASSERT_NUMBER(ttl_ms(fixture), >, LEASE_MS / 2);
    assert_int_equal(call.losses, 0);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

/** The renewal with the shorter lease is on its way, and the longer lease counts. */
FIXTURE_CASE(test_extend__overtakes_a_renewal_under_way)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    for (int flush_scripts = 0; flush_scripts < 2; flush_scripts++) {
        ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS),
                      STATUS_OK);
        if (flush_scripts)
            server_do(fixture->server, "SCRIPT FLUSH");
        server_pause(fixture->server);
        fixture_pass_ms(fixture, LEASE_MS / 3 + 1);
        assert_non_null(call.lock.batch); /* the renewal */
        call.answers = 0;
        call_extend(client, &call, 2 * LEASE_MS);
        rlock_flush(client);
        server_resume(fixture->server);
        fixture_wait_answers(fixture, &call, 1);
        ASSERT_STATUS(call.status, STATUS_OK);
        fixture_run_for(fixture, 20);
        ASSERT_NUMBER(ttl_ms(fixture), >, LEASE_MS);
        ASSERT_NUMBER(safe_ms(&call), >, LEASE_MS);
        assert_int_equal(fixture_renewed(client), 0);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        assert_int_equal(call.losses, 0);
    }
}

FIXTURE_CASE(test_close__cancels_an_extension_under_way)
{
    struct fixture *fixture = *state;

    for (int is_sent = 0; is_sent < 2; is_sent++) {
        struct rlock_client *client = fixture_client(fixture);
        struct call watched = {0}, call = {0};

        ASSERT_STATUS(acquire_watched(fixture, client, &watched, "item:8", LEASE_MS),
                      STATUS_OK);
        ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
        call_extend(client, &watched, LEASE_MS);
        call_extend(client, &call, LEASE_MS);
        if (is_sent)
            rlock_flush(client);
        fixture_close(fixture, client);
        assert_int_equal(watched.answers, 2);
        ASSERT_STATUS(watched.status, STATUS_CANCELLED);
        assert_int_equal(call.answers, 2);
        ASSERT_STATUS(call.status, STATUS_CANCELLED);
        assert_false(rlock_is_held(&watched.lock));
        assert_true(server_has(fixture->server, "item:7")); /* left to their lease */
        assert_true(server_has(fixture->server, "item:8"));
        server_do(fixture->server, "DEL item:7 item:8");
    }
}

FIXTURE_CASE(test_extend__unanswered_leaves_the_earlier_deadline)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call longer = {0}, shorter = {0};

    ASSERT_STATUS(acquire(fixture, client, &longer, "item:8", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &shorter, "item:7", LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    call_extend(client, &longer, 2 * LEASE_MS);
    call_extend(client, &shorter, LEASE_MS / 2);
    rlock_flush(client);
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    fixture_wait_answers(fixture, &longer, 2);
    fixture_wait_answers(fixture, &shorter, 2);
    server_resume(fixture->server);
    ASSERT_STATUS(longer.status, STATUS_TIMEOUT);
    ASSERT_STATUS(shorter.status, STATUS_TIMEOUT);
    assert_true(rlock_is_held(&longer.lock));
    assert_true(rlock_is_held(&shorter.lock));
    ASSERT_BETWEEN(safe_ms(&longer), LEASE_MS / 2, LEASE_MS);
    ASSERT_BETWEEN(safe_ms(&shorter), 1, LEASE_MS / 2);
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(release(fixture, client, &longer), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &shorter), STATUS_OK);
}

/** The deadline passes before the timeout: the call answers so, and on_lost does not. */
FIXTURE_CASE(test_extend__past_the_deadline_of_a_watched_lock_is_lost)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = fixture->server->unix_url,
                                               .timeout_ms = 2 * LEASE_MS});
    struct call call = {0};

    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    call_extend(client, &call, LEASE_MS);
    rlock_flush(client);
    fixture_pass_ms(fixture, LEASE_MS);
    fixture_wait_answers(fixture, &call, 2);
    server_resume(fixture->server);
    ASSERT_STATUS(call.status, STATUS_LOST);
    assert_false(rlock_is_held(&call.lock));
    fixture_run_for(fixture, 20);
    assert_int_equal(call.answers, 2);
    assert_int_equal(call.losses, 0);
    wait_gone(fixture); /* it is released */
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
