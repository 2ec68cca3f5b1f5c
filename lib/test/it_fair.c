/* it_fair.c - the fair lock: waiters are served in the order of their arrival. */
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#define BEAT_MS     (RLOCK_FAIR_BEAT_MS + 1)     /* until each waiter has tried again */
#define PATIENCE_MS (RLOCK_FAIR_BEAT_MS * 3 + 1) /* until a silent waiter is dead */
#define HOUR_MS     3600000

static const struct rlock_acquire_options patient = {
    .kind = &rlock_fair, .lease_ms = LEASE_MS, .wait_ms = RLOCK_WAIT_FOREVER};

struct queue {
    struct fixture *fixture;
    long long wanted;
};

static bool has_length(void *arg)
{
    const struct queue *queue = arg;

    return server_int(queue->fixture->server, "ZCARD item:7:queue") == queue->wanted;
}

static void wait_queued(struct fixture *fixture, long long wanted)
{
    struct queue queue = {fixture, wanted};

    FIXTURE_AWAIT(fixture, has_length, &queue);
}

/** From now on no timer lets a waiter try, and no waiter counts as dead. So only messages wake
 *  waiters. */
static void hold_queue(struct fixture *fixture)
{
    fixture_hold_timers(fixture);
    move_beats(fixture, HOUR_MS);
}

/** Let waiters arrive one after the other, in turn from each client. The new waiters queue behind
 *  the waiters that are already there. */
static void queue_up(struct fixture *fixture, struct rlock_client *const *clients,
                     unsigned client_count, struct call *calls, unsigned count)
{
    long long queued = server_int(fixture->server, "ZCARD item:7:queue");

    for (unsigned i = 0; i < count; i++) {
        call_acquire_with(clients[i % client_count], &calls[i], "item:7", &patient);
        rlock_flush(clients[i % client_count]);
        wait_queued(fixture, queued + 1 + i);
    }
}

static void assert_nothing_left(struct fixture *fixture)
{
    assert_false(server_has(fixture->server, "item:7"));
    assert_false(server_has(fixture->server, "item:7:queue"));
    assert_false(server_has(fixture->server, "item:7:beats"));
}

static void hand_over(struct fixture *fixture, struct rlock_client *client,
                      struct call *holder, struct call *next)
{
    int64_t fence = rlock_fence(&holder->lock);

    assert_int_equal(next->answers, 0);
    ASSERT_STATUS(release(fixture, client, holder), RLOCK_OK);
    fixture_wait_answers(fixture, next, 1);
    ASSERT_STATUS(next->status, RLOCK_OK);
    ASSERT_NUMBER(rlock_fence(&next->lock), >, fence);
}

FIXTURE_CASE(test_waiters__are_served_in_order_of_arrival)
{
    enum { WAITERS = 8, CLIENTS = 3 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[CLIENTS];
    struct call calls[1 + WAITERS] = {0};

    for (int i = 0; i < CLIENTS; i++)
        clients[i] = fixture_client(fixture);
    ASSERT_STATUS(acquire_with(fixture, clients[2], &calls[0], "item:7", &patient),
                  RLOCK_OK);
    queue_up(fixture, clients, CLIENTS, &calls[1], WAITERS);
    hold_queue(fixture);
    for (int i = 1; i <= WAITERS; i++) {
        hand_over(fixture, clients[(i + 1) % CLIENTS], &calls[i - 1], &calls[i]);
        for (int j = i + 1; j <= WAITERS; j++)
            assert_int_equal(calls[j].answers, 0);
    }
    ASSERT_STATUS(release(fixture, clients[(WAITERS - 1) % CLIENTS], &calls[WAITERS]),
                  RLOCK_OK);
    assert_nothing_left(fixture);
}

static long long server_ms(struct fixture *fixture)
{
    redisReply *now = server_command(fixture->server, "TIME");
    long long ms = strtoll(now->element[0]->str, NULL, 10) * 1000 +
                   strtoll(now->element[1]->str, NULL, 10) / 1000;

    freeReplyObject(now);
    return ms;
}

FIXTURE_CASE(test_waiter__that_died_as_head_is_passed_over)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0}, next = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &holder, "item:7", &patient), RLOCK_OK);
    server_do(fixture->server, "ZADD item:7:queue 1 dead:1");
    server_do(fixture->server, "ZADD item:7:beats %lld dead:1",
              server_ms(fixture) + HOUR_MS);
    queue_up(fixture, &client, 1, &next, 1);
    fixture_wait_asleep(fixture, client, &next);
    ASSERT_STATUS(release(fixture, client, &holder), RLOCK_OK);
    fixture_settle(fixture);
    assert_int_equal(next.answers, 0);
    move_beats(fixture, -HOUR_MS - PATIENCE_MS);
    fixture_pass_ms(fixture, BEAT_MS);
    fixture_wait_answers(fixture, &next, 1);
    ASSERT_STATUS(next.status, RLOCK_OK);
    ASSERT_STATUS(release(fixture, client, &next), RLOCK_OK);
    assert_nothing_left(fixture);
}

/** The server stands still for longer than a waiter may be silent. No waiter is heard meanwhile,
 *  so none is skipped. */
FIXTURE_CASE(test_waiters__keep_their_order_while_the_server_stands_still)
{
    enum { WAITERS = 8, STALL_MS = 3000 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[WAITERS], *owner = fixture_client(fixture);
    struct call holder = {0}, calls[WAITERS] = {0};

    for (int i = 0; i < WAITERS; i++)
        clients[i] = fixture_client(fixture);
    ASSERT_STATUS(acquire_with(fixture, owner, &holder, "item:7", &patient), RLOCK_OK);
    queue_up(fixture, clients, WAITERS, calls, WAITERS);
    server_do(fixture->server, "CLIENT PAUSE %d ALL", STALL_MS);
    fixture_run_for(fixture, STALL_MS);
    for (int i = 0; i < WAITERS; i++) {
        hand_over(fixture, i == 0 ? owner : clients[i - 1],
                  i == 0 ? &holder : &calls[i - 1], &calls[i]);
        for (int j = i + 1; j < WAITERS; j++)
            assert_int_equal(calls[j].answers, 0);
    }
    ASSERT_STATUS(release(fixture, clients[WAITERS - 1], &calls[WAITERS - 1]), RLOCK_OK);
    assert_nothing_left(fixture);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
