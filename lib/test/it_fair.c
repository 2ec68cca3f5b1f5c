/* it_fair.c - the fair lock: waiters are served in the order of their arrival. */
#include "base/clock.h"
#include "test/child.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEAT_MS     (RLOCK_FAIR_BEAT_MS + 1)     /* a waiter tries again within this */
#define PATIENCE_MS (RLOCK_FAIR_BEAT_MS * 3 + 1) /* without a heartbeat it is dead */
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

/** From now on all happens by messages: nobody tries by time, and nobody counts as dead. */
static void hold_queue(struct fixture *fixture)
{
    fixture_hold_timers(fixture);
    move_beats(fixture, HOUR_MS);
}

/** Let waiters arrive one after the other, client by client, behind those in the queue. */
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

/** Release the lock, and see `next` get it. */
static void hand_over(struct fixture *fixture, struct rlock_client *client,
                      struct call *holder, struct call *next)
{
    int64_t fence = rlock_fence(&holder->lock);

    assert_int_equal(next->answers, 0);
    ASSERT_STATUS(release(fixture, client, holder), STATUS_OK);
    fixture_wait_answers(fixture, next, 1);
    ASSERT_STATUS(next->status, STATUS_OK);
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
                  STATUS_OK);
    queue_up(fixture, clients, CLIENTS, &calls[1], WAITERS);
    hold_queue(fixture);
    for (int i = 1; i <= WAITERS; i++) {
        hand_over(fixture, clients[(i + 1) % CLIENTS], &calls[i - 1], &calls[i]);
        for (int j = i + 1; j <= WAITERS; j++)
            assert_int_equal(calls[j].answers, 0);
    }
    ASSERT_STATUS(release(fixture, clients[(WAITERS - 1) % CLIENTS], &calls[WAITERS]),
                  STATUS_OK);
    assert_nothing_left(fixture);
}

FIXTURE_CASE(test_waiters__of_a_client_that_is_closed_leave)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, gone[2] = {0}, last = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &holder, "item:7", &patient), STATUS_OK);
    queue_up(fixture, &bob, 1, gone, 2);
    queue_up(fixture, &alice, 1, &last, 1);
    fixture_wait_asleep(fixture, alice, &last);
    hold_queue(fixture);
    fixture_close(fixture, bob);
    ASSERT_STATUS(gone[0].status, STATUS_CANCELLED);
    ASSERT_STATUS(gone[1].status, STATUS_CANCELLED);
    wait_queued(fixture, 1);
    hand_over(fixture, alice, &holder, &last);
    ASSERT_STATUS(release(fixture, alice, &last), STATUS_OK);
    assert_nothing_left(fixture);
}

/** Another process, which acquires the lock at go_on() and then runs on. */
struct process {
    pid_t pid;
    int go;
};

_Noreturn static void run_process(struct fixture *fixture, int go)
{
    struct call call = {0};
    char byte;

    uv_loop_fork(&fixture->loop);
    if (read(go, &byte, 1) != 1)
        _exit(1);
    call_wait(fixture_client(fixture), &call, "item:7", &patient);
    for (;;)
        fixture_run_for(fixture, 10);
}

/** Start it before there are clients, whose connections both processes would share. */
static struct process start_process(struct fixture *fixture)
{
    int go[2];
    pid_t child;

    assert_int_equal(fixture->client_count, 0);
    assert_int_equal(pipe(go), 0);
    child = child_fork();
    if (child == 0) {
        close(go[1]);
        run_process(fixture, go[0]);
    }
    close(go[0]);
    return (struct process){child, go[1]};
}

static void go_on(const struct process *process)
{
    assert_int_equal(write(process->go, "", 1), 1);
}

static void end_process(const struct process *process)
{
    child_end(process->pid);
    close(process->go);
}

FIXTURE_CASE(test_waiter__killed_as_head_is_passed_over)
{
    struct fixture *fixture = *state;
    struct process process = start_process(fixture);
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0}, next = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &holder, "item:7", &patient), STATUS_OK);
    go_on(&process);
    wait_queued(fixture, 1);
    queue_up(fixture, &client, 1, &next, 1);
    end_process(&process);
    ASSERT_STATUS(release(fixture, client, &holder), STATUS_OK);
    move_beats(fixture, -PATIENCE_MS);
    fixture_pass_ms(fixture, BEAT_MS);
    fixture_wait_answers(fixture, &next, 1);
    ASSERT_STATUS(next.status, STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &next), STATUS_OK);
    assert_nothing_left(fixture);
}

/** Longer than the patience, for all: nobody is heard meanwhile. */
FIXTURE_CASE(test_waiters__keep_their_order_while_the_server_stands_still)
{
    enum { WAITERS = 8, STALL_MS = 3000 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[WAITERS], *owner = fixture_client(fixture);
    struct call holder = {0}, calls[WAITERS] = {0};

    for (int i = 0; i < WAITERS; i++)
        clients[i] = fixture_client(fixture);
    ASSERT_STATUS(acquire_with(fixture, owner, &holder, "item:7", &patient), STATUS_OK);
    queue_up(fixture, clients, WAITERS, calls, WAITERS);
    server_do(fixture->server, "CLIENT PAUSE %d ALL", STALL_MS);
    fixture_run_for(fixture, STALL_MS);
    for (int i = 0; i < WAITERS; i++) {
        hand_over(fixture, i == 0 ? owner : clients[i - 1],
                  i == 0 ? &holder : &calls[i - 1], &calls[i]);
        for (int j = i + 1; j < WAITERS; j++)
            assert_int_equal(calls[j].answers, 0);
    }
    ASSERT_STATUS(release(fixture, clients[WAITERS - 1], &calls[WAITERS - 1]), STATUS_OK);
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

/** Whether both waiters count as alive by a heartbeat on the server's clock. */
static bool have_two_beaten(void *arg)
{
    struct fixture *fixture = arg;
    long long now_ms = server_ms(fixture);

    return server_int(fixture->server, "ZCOUNT item:7:beats %lld %lld", now_ms,
                      now_ms + HOUR_MS / 2) == 2;
}

/** The clients' clock is wrong; the server's clock is right. */
static void wait_with_wrong_clock(struct fixture *fixture, int64_t shift_us)
{
    struct rlock_client *clients[2];
    struct call calls[3] = {0};

    clock_shift_us(shift_us);
    clients[0] = fixture_client(fixture);
    clients[1] = fixture_client(fixture);
    ASSERT_STATUS(acquire_with(fixture, clients[0], &calls[0], "item:7", &patient),
                  STATUS_OK);
    queue_up(fixture, clients, 2, &calls[1], 2);
    for (int i = 0; i < 3; i++) {
        move_beats(fixture, HOUR_MS);
        fixture_pass_ms(fixture, BEAT_MS);
        FIXTURE_AWAIT(fixture, have_two_beaten, fixture);
    }
    for (int i = 0; i < 2; i++)
        fixture_wait_asleep(fixture, clients[i], &calls[i + 1]);
    hold_queue(fixture);
    hand_over(fixture, clients[0], &calls[0], &calls[1]);
    assert_int_equal(calls[2].answers, 0);
    hand_over(fixture, clients[0], &calls[1], &calls[2]);
    ASSERT_STATUS(release(fixture, clients[1], &calls[2]), STATUS_OK);
    assert_nothing_left(fixture);
    fixture_close(fixture, clients[0]);
    fixture_close(fixture, clients[1]);
    clock_shift_us(-shift_us);
}

FIXTURE_CASE(test_waiter__alive_with_a_wrong_clock_keeps_its_place)
{
    wait_with_wrong_clock(*state, HOUR_MS * INT64_C(1000));
    wait_with_wrong_clock(*state, 1 - clock_mono_us()); /* as right after a boot */
}

/** Where calls of one kind wait, a call of the other does not wait beside them. */
static void refuse_beside(struct fixture *fixture, const struct rlock_kind *kind,
                          const struct rlock_kind *other_kind)
{
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(kind, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, waiter = {0}, other = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &held, NAME, &options), STATUS_OK);
    call_wait(client, &waiter, NAME, &options);
    fixture_wait_asleep(fixture, client, &waiter);
    options.kind = other_kind;
    ASSERT_STATUS(acquire_with(fixture, client, &other, NAME, &options), STATUS_INVALID);
    ASSERT_CONTAINS(rlock_client_why(client)->text, "another kind");
    ASSERT_STATUS(release(fixture, client, &held), STATUS_OK);
    fixture_wait_answers(fixture, &waiter, 1);
    ASSERT_STATUS(release(fixture, client, &waiter), STATUS_OK);
    ASSERT_STATUS(acquire_with(fixture, client, &other, NAME, &options), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &other), STATUS_OK);
    assert_nothing_left(fixture);
    fixture_close(fixture, client);
}

FIXTURE_CASE(test_acquire__refuses_to_wait_beside_another_kind)
{
    refuse_beside(*state, &rlock_fair, &rlock_plain);
    refuse_beside(*state, &rlock_plain, &rlock_fair);
    refuse_beside(*state, &rlock_fair, &rlock_cohort);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
