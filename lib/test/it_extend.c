/* it_extend.c - leases that their owner extends or shortens. */
#include "base/clock.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

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

static const struct rlock_kind *const kinds[] = {RENEWABLE_KINDS};
enum { REENTRANT = 1, KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static struct rlock_acquire_options with_lease(const struct rlock_kind *kind,
                                               uint32_t lease_ms)
{
    return (struct rlock_acquire_options){
        .kind = kind, .permits = permits_of(kind), .lease_ms = lease_ms};
}

static void test_extend__lets_the_lease_end_later(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = with_lease(kinds[i], LEASE_MS / 2);
        struct call call = {0};
        int64_t fence;

        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      STATUS_OK);
        fence = rlock_fence(&call.lock);
        ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_OK);
        assert_true(rlock_is_held(&call.lock));
        assert_int_equal(rlock_fence(&call.lock), fence);
        ASSERT_BETWEEN(ttl_ms(fixture), LEASE_MS / 2, LEASE_MS);
        ASSERT_BETWEEN(safe_ms(&call), LEASE_MS / 2, ttl_ms(fixture));
        ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
        assert_false(server_has(fixture->server, "item:7"));
    }
}

static void test_extend__lets_the_lease_end_earlier(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = with_lease(kinds[i], LEASE_MS);
        struct call call = {0};

        if (i == REENTRANT)
            continue;
        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      STATUS_OK);
        ASSERT_STATUS(extend(fixture, client, &call, RLOCK_LEASE_MS_MIN), STATUS_OK);
        ASSERT_NUMBER(ttl_ms(fixture), <=, RLOCK_LEASE_MS_MIN);
        ASSERT_NUMBER(safe_ms(&call), <, RLOCK_LEASE_MS_MIN);
        wait_gone(fixture);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
    }
}

/** Another grant of the same holder may need the longer lease. */
static void test_extend__of_a_reentrant_lock_never_shortens(void **state)
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

static void test_extend__by_a_non_owner_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call held = {0}, other = {0};

    ASSERT_STATUS(acquire(fixture, alice, &held, "item:7", LEASE_MS / 2), STATUS_OK);
    ASSERT_STATUS(extend(fixture, bob, &other, LEASE_MS), STATUS_NOT_OWNER);
    ASSERT_STATUS(acquire(fixture, bob, &other, "item:7", LEASE_MS), STATUS_BUSY);
    ASSERT_STATUS(extend(fixture, bob, &other, LEASE_MS), STATUS_NOT_OWNER);
    ASSERT_NUMBER(ttl_ms(fixture), <=, LEASE_MS / 2);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    ASSERT_STATUS(extend(fixture, alice, &held, LEASE_MS), STATUS_NOT_OWNER);
    assert_false(server_has(fixture->server, "item:7"));
}

static void test_extend__of_an_expired_lock_is_lost_and_creates_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_stats stats;

    for (int i = 0; i < KINDS; i++) {
        struct rlock_acquire_options options = with_lease(kinds[i], LEASE_MS);
        struct call call = {0};

        ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &options),
                      STATUS_OK);
        server_pass_ms(fixture->server, LEASE_MS);
        ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_LOST);
        assert_false(rlock_is_held(&call.lock));
        assert_false(server_has(fixture->server, "item:7"));
        ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_LOST);
        ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
        ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_NOT_OWNER);
        assert_int_equal(call.losses, 0);
    }
    rlock_client_stats(client, &stats);
    assert_int_equal(stats.lost, KINDS);
}

static void test_extend__of_a_stolen_lock_is_lost_and_leaves_the_thief(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    struct answer answer = {0};

    ASSERT_STATUS(acquire_watched(fixture, alice, &first, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(force(fixture, bob, &answer, "item:7"), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, bob, &second, "item:7", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(extend(fixture, alice, &first, 2 * LEASE_MS), STATUS_LOST);
    assert_int_equal(first.losses, 0); /* the answer of the call tells it */
    ASSERT_NUMBER(ttl_ms(fixture), <=, LEASE_MS);
    ASSERT_STATUS(inspect(fixture, bob, &answer, "item:7"), STATUS_OK);
    assert_true(answer.is_ours);
}

static void test_extend__refuses_bad_leases_and_goes_on(void **state)
{
    static const uint32_t leases_ms[] = {0, RLOCK_LEASE_MS_MIN - 1,
                                         RLOCK_LEASE_MS_MAX + 1, UINT32_MAX};
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    for (int i = 0; i < 4; i++)
        ASSERT_STATUS(extend(fixture, client, &call, leases_ms[i]), STATUS_INVALID);
    assert_true(rlock_is_held(&call.lock));
    ASSERT_NUMBER(ttl_ms(fixture), <=, LEASE_MS);
    ASSERT_STATUS(extend(fixture, client, &call, RLOCK_LEASE_MS_MAX), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
}

static void test_extend__beside_another_call_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    call_acquire(client, &call, "item:7", LEASE_MS);
    call_extend(client, &call, LEASE_MS);
    rlock_flush(client);
    fixture_wait_answers(fixture, &call, 2);
    ASSERT_STATUS(call.statuses[0] + call.statuses[1], STATUS_NOT_OWNER);
    assert_true(rlock_is_held(&call.lock));
    call.answers = 0;
    call_extend(client, &call, 2 * LEASE_MS);
    assert_true(rlock_is_held(&call.lock));
    ASSERT_NUMBER(safe_ms(&call), >, LEASE_MS / 2); /* the first lease counts */
    call_extend(client, &call, 3 * LEASE_MS);
    call_acquire(client, &call, "item:8", LEASE_MS);
    rlock_flush(client);
    fixture_wait_answers(fixture, &call, 3);
    ASSERT_STATUS(call.statuses[0], STATUS_NOT_OWNER);
    ASSERT_STATUS(call.statuses[1], STATUS_INVALID);
    ASSERT_STATUS(call.statuses[2], STATUS_OK);
    ASSERT_BETWEEN(ttl_ms(fixture), 3 * LEASE_MS / 2, 2 * LEASE_MS);
    assert_false(server_has(fixture->server, "item:8"));
}

static void test_extend__watchdog_goes_on_with_the_new_lease(void **state)
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
static void test_extend__overtakes_a_renewal_under_way(void **state)
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

static void release_while_extending(struct fixture *fixture, bool is_sent)
{
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    call.answers = 0;
    call_extend(client, &call, 2 * LEASE_MS);
    if (is_sent)
        rlock_flush(client);
    call_release(client, &call);
    assert_false(rlock_is_held(&call.lock));
    rlock_flush(client);
    fixture_wait_answers(fixture, &call, 2);
    ASSERT_STATUS(call.statuses[0], STATUS_CANCELLED);
    ASSERT_STATUS(call.statuses[1], STATUS_OK);
    assert_false(server_has(fixture->server, "item:7"));
    fixture_run_for(fixture, 20);
    assert_int_equal(call.answers, 2);
}

static void test_release__while_an_extension_is_under_way(void **state)
{
    release_while_extending(*state, false);
    release_while_extending(*state, true);
}

static void test_release__without_a_callback_while_an_extension_is_under_way(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    call_extend(client, &call, 2 * LEASE_MS);
    rlock_flush(client);
    rlock_release(client, &call.lock, NULL, NULL);
    rlock_flush(client);
    fixture_wait_answers(fixture, &call, 2);
    ASSERT_STATUS(call.status, STATUS_CANCELLED);
    wait_gone(fixture);
}

static void test_close__cancels_an_extension_under_way(void **state)
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

static void test_extend__unanswered_leaves_the_earlier_deadline(void **state)
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

/** The lease may have been shortened: the watchdog renews it at once. */
static void test_extend__unanswered_is_renewed_at_once_by_the_watchdog(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire_watched(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    server_pause(fixture->server);
    call_extend(client, &call, LEASE_MS / 2);
    rlock_flush(client);
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    fixture_wait_answers(fixture, &call, 2);
    server_resume(fixture->server);
    ASSERT_STATUS(call.status, STATUS_TIMEOUT);
    assert_true(rlock_is_held(&call.lock));
    fixture_wait_renewed(fixture, client, 1);
    for (int i = 0; i < 4; i++)
        fixture_pass_renewal(fixture, client, LEASE_MS / 2, 1);
    assert_true(rlock_is_held(&call.lock));
    ASSERT_NUMBER(safe_ms(&call), >, 0);
    assert_true(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    assert_int_equal(call.losses, 0);
}

/** The deadline passes before the timeout: the call answers so, and on_lost does not. */
static void test_extend__past_the_deadline_of_a_watched_lock_is_lost(void **state)
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

static void test_extend__refused_or_not_sent_stays_held(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    ASSERT_STATUS(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    server_do(fixture->server, "CONFIG SET min-replicas-to-write 1");
    ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_REFUSED);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "NOREPLICAS");
    server_do(fixture->server, "CONFIG SET min-replicas-to-write 0");
    assert_true(rlock_is_held(&call.lock));
    ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_OK);
    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_DOWN);
    assert_true(rlock_is_held(&call.lock));
    ASSERT_NUMBER(safe_ms(&call), >, 0);
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(extend(fixture, client, &call, LEASE_MS), STATUS_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_extend__lets_the_lease_end_later),
        FIXTURE_TEST(test_extend__lets_the_lease_end_earlier),
        FIXTURE_TEST(test_extend__of_a_reentrant_lock_never_shortens),
        FIXTURE_TEST(test_extend__by_a_non_owner_is_refused),
        FIXTURE_TEST(test_extend__of_an_expired_lock_is_lost_and_creates_nothing),
        FIXTURE_TEST(test_extend__of_a_stolen_lock_is_lost_and_leaves_the_thief),
        FIXTURE_TEST(test_extend__refuses_bad_leases_and_goes_on),
        FIXTURE_TEST(test_extend__beside_another_call_is_refused),
        FIXTURE_TEST(test_extend__watchdog_goes_on_with_the_new_lease),
        FIXTURE_TEST(test_extend__overtakes_a_renewal_under_way),
        FIXTURE_TEST(test_release__while_an_extension_is_under_way),
        FIXTURE_TEST(test_release__without_a_callback_while_an_extension_is_under_way),
        FIXTURE_TEST(test_close__cancels_an_extension_under_way),
        FIXTURE_TEST(test_extend__unanswered_leaves_the_earlier_deadline),
        FIXTURE_TEST(test_extend__unanswered_is_renewed_at_once_by_the_watchdog),
        FIXTURE_TEST(test_extend__past_the_deadline_of_a_watched_lock_is_lost),
        FIXTURE_TEST(test_extend__refused_or_not_sent_stays_held),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
