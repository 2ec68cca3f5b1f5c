/* it_plain.c - the plain, fenced lock against a real Redis. */
#include "base/clock.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

static void test_acquire__free_lock_is_held_for_its_lease(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    int64_t safe_us;
    long long ttl_ms;

    assert_int_equal(acquire(fixture, client, &call, "item:7", LEASE_MS), STATUS_OK);
    assert_true(rlock_is_held(&call.lock));
    assert_true(rlock_fence(&call.lock) > 0);
    ttl_ms = server_int(fixture->server, "PTTL item:7");
    assert_in_range(ttl_ms, LEASE_MS - 1000, LEASE_MS);
    safe_us = rlock_safe_for_us(&call.lock, clock_mono_us());
    assert_in_range(safe_us, (LEASE_MS - 1000) * 1000, ttl_ms * 1000);
}

static void test_acquire__held_by_another_is_busy_and_untouched(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    redisReply *before, *after;

    assert_int_equal(acquire(fixture, alice, &first, "item:7", LEASE_MS), STATUS_OK);
    before = server_ask(fixture->server, "GET item:7");
    assert_int_equal(acquire(fixture, bob, &second, "item:7", 2 * LEASE_MS), STATUS_BUSY);
    assert_false(rlock_is_held(&second.lock));
    after = server_ask(fixture->server, "GET item:7");
    assert_string_equal(before->str, after->str);
    assert_true(server_int(fixture->server, "PTTL item:7") <= LEASE_MS);
    freeReplyObject(before);
    freeReplyObject(after);
}

static void test_release__lets_another_in_ten_times_in_a_row(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    int64_t fence = 0;

    for (int i = 0; i < 10; i++) {
        assert_int_equal(acquire(fixture, alice, &first, "item:7", LEASE_MS), STATUS_OK);
        assert_true(rlock_fence(&first.lock) > fence);
        assert_int_equal(release(fixture, alice, &first), STATUS_OK);
        assert_int_equal(acquire(fixture, bob, &second, "item:7", LEASE_MS), STATUS_OK);
        fence = rlock_fence(&second.lock);
        assert_true(fence > rlock_fence(&first.lock));
        assert_int_equal(release(fixture, bob, &second), STATUS_OK);
    }
    assert_false(server_has(fixture->server, "item:7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_acquire__free_lock_is_held_for_its_lease),
        FIXTURE_TEST(test_acquire__held_by_another_is_busy_and_untouched),
        FIXTURE_TEST(test_release__lets_another_in_ten_times_in_a_row),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
