/* it_getset.c - the lock whose value is the time at which it ends, by its owner's clock. */
#include "base/clock.h"
#include "test/fixture.h"
#include "test/naive.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

static const struct rlock_acquire_options try_once = {.kind = &rlock_getset,
                                                      .lease_ms = LEASE_MS};

static long long value(struct fixture *fixture)
{
    redisReply *reply = server_command(fixture->server, "GET item:7");
    long long number =
        reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : -1;

    freeReplyObject(reply);
    return number;
}

FIXTURE_CASE(test_acquire__writes_the_time_of_its_end)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct answer answer = {0};
    int64_t begin_ms = clock_real_us() / 1000;

    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), RLOCK_OK);
    ASSERT_NUMBER(rlock_fence(&call.lock), >, 0);
    ASSERT_BETWEEN(value(fixture), begin_ms + LEASE_MS,
                   clock_real_us() / 1000 + LEASE_MS + 1);
    assert_int_equal(server_int(fixture->server, "PTTL item:7"), -1);
    ASSERT_BETWEEN(rlock_safe_for_us(&call.lock, clock_mono_us()), LEASE_MS * 500LL,
                   LEASE_MS * 990LL);
    ASSERT_STATUS(inspect(fixture, client, &answer, "item:7"), RLOCK_OK);
    assert_int_equal(strtoll(answer.owner, NULL, 10), value(fixture));
    assert_int_equal(answer.remaining_ms, -1);
    assert_int_equal(answer.count, 1);
    assert_false(answer.is_ours); /* a time does not name an owner */
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
    assert_false(server_has(fixture->server, "item:7"));
}

FIXTURE_CASE(test_getset__and_the_old_program_see_each_others_locks)
{
    struct fixture *fixture = *state;
    struct server *server = fixture->server;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};

    assert_true(naive_getset.take(server, "item:7", NULL, LEASE_MS));
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), RLOCK_BUSY);
    naive_getset.release(server, "item:7", NULL);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), RLOCK_OK);
    assert_false(naive_getset.take(server, "item:7", NULL, LEASE_MS));
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_OK);
    assert_true(naive_getset.take(server, "item:7", NULL, LEASE_MS));
    fixture_pass_ms(fixture, LEASE_MS + 100);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), RLOCK_OK);
    fixture_pass_ms(fixture, LEASE_MS + 100);
    assert_true(naive_getset.take(server, "item:7", NULL, LEASE_MS));
    ASSERT_STATUS(release(fixture, client, &call), RLOCK_LOST);
    assert_true(server_has(server, "item:7"));
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
