/* it_fair.c - the fair lock: who waits is served in the order of arrival. */
#include "base/clock.h"
#include "lock/scripts.h"
#include "test/child.h"
#include "test/fixture.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SKIP_MS                                                                          \
    (RLOCK_FAIR_BEAT_MS * 3 + 250)       /* the dead are passed over within this         \
                                          */
#define SOON_MS (RLOCK_FAIR_BEAT_MS / 2) /* sooner than by the next heartbeat */
#define HOUR_US INT64_C(3600000000)

static const struct rlock_acquire_options try_once = {.kind = &rlock_fair,
                                                      .lease_ms = LEASE_MS};
static const struct rlock_acquire_options patient = {
    .kind = &rlock_fair, .lease_ms = LEASE_MS, .wait_ms = 60000};

static int64_t now_ms(void)
{
    return clock_mono_us() / 1000;
}

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

/** Who has left is out of the queue before anybody could have missed its heartbeat. */
static void wait_left(struct fixture *fixture, long long wanted)
{
    struct queue queue = {fixture, wanted};

    assert_true(fixture_run_until(fixture, has_length, &queue, SOON_MS));
}

/** Have them arrive one after the other, client by client, behind `queued` others. */
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

/** A release, and `next` has it, sooner than a heartbeat would have told. */
static void hand_over(struct fixture *fixture, struct rlock_client *client,
                      struct call *holder, struct call *next)
{
    int64_t begin_ms = now_ms();
    int64_t fence = rlock_fence(&holder->lock);

    assert_int_equal(next->answers, 0);
    assert_int_equal(release(fixture, client, holder), STATUS_OK);
    fixture_wait_answers(fixture, next, 1);
    assert_int_equal(next->status, STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&next->lock), >, fence);
    ASSERT_NUMBER(now_ms() - begin_ms, <, SOON_MS);
}

static void test_acquire__free_lock_is_held_and_leaves_no_queue(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    struct answer answer = {0};

    assert_int_equal(acquire_with(fixture, alice, &first, "item:7", &patient), STATUS_OK);
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 2); /* and the counter */
    assert_int_equal(acquire_with(fixture, bob, &second, "item:7", &try_once),
                     STATUS_BUSY);
    assert_false(server_has(fixture->server, "item:7:queue"));
    assert_int_equal(inspect(fixture, alice, &answer, "item:7"), STATUS_OK);
    assert_int_equal(answer.count, 1);
    assert_true(answer.is_ours);
    ASSERT_BETWEEN(answer.remaining_ms, LEASE_MS / 2, LEASE_MS);
    assert_int_equal(inspect(fixture, bob, &answer, "item:7"), STATUS_OK);
    assert_false(answer.is_ours);
    assert_int_equal(release(fixture, alice, &first), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_waiters__are_served_in_order_of_arrival(void **state)
{
    enum { WAITERS = 8, CLIENTS = 3 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[CLIENTS];
    struct call calls[1 + WAITERS] = {0};

    for (int i = 0; i < CLIENTS; i++)
        clients[i] = fixture_client(fixture);
    assert_int_equal(acquire_with(fixture, clients[2], &calls[0], "item:7", &patient),
                     STATUS_OK);
    queue_up(fixture, clients, CLIENTS, &calls[1], WAITERS);
    for (int i = 1; i <= WAITERS; i++) {
        hand_over(fixture, clients[(i + 1) % CLIENTS], &calls[i - 1], &calls[i]);
        for (int j = i + 1; j <= WAITERS; j++)
            assert_int_equal(calls[j].answers, 0);
    }
    assert_int_equal(release(fixture, clients[(WAITERS - 1) % CLIENTS], &calls[WAITERS]),
                     STATUS_OK);
    assert_nothing_left(fixture);
}

struct turn {
    struct rlock lock;
    struct rlock_client *client;
    unsigned number;
    unsigned *served;
};

/** Each checks that it is its turn, and goes. */
static void on_turn(struct rlock *lock, enum status status, void *arg)
{
    struct turn *turn = arg;

    assert_int_equal(status, STATUS_OK);
    assert_int_equal(turn->number, *turn->served);
    ++*turn->served;
    rlock_release(turn->client, lock, NULL, NULL);
    rlock_flush(turn->client);
}

static void test_waiters__five_hundred_all_finish_once_in_order(void **state)
{
    enum { WAITERS = 500 };
    struct fixture *fixture = *state;
    struct rlock_client *clients[FIXTURE_CLIENTS_MAX];
    struct turn *turns = calloc(WAITERS, sizeof(*turns));
    struct call holder = {0};
    unsigned served = 0;

    for (int i = 0; i < FIXTURE_CLIENTS_MAX; i++)
        clients[i] = fixture_client(fixture);
    assert_int_equal(acquire_with(fixture, clients[0], &holder, "item:7", &patient),
                     STATUS_OK);
    for (unsigned i = 0; i < WAITERS; i++) {
        turns[i] = (struct turn){
            .client = clients[i % FIXTURE_CLIENTS_MAX], .number = i, .served = &served};
        rlock_acquire(turns[i].client, &turns[i].lock, "item:7", 6, &patient, on_turn,
                      &turns[i]);
        rlock_flush(turns[i].client);
        wait_queued(fixture, i + 1);
    }
    assert_int_equal(served, 0);
    assert_int_equal(release(fixture, clients[0], &holder), STATUS_OK);
    fixture_wait_count(fixture, &served, WAITERS);
    fixture_run_for(fixture, 50); /* nobody is served twice */
    assert_int_equal(served, WAITERS);
    assert_nothing_left(fixture);
    free(turns);
}

/** More than nine, so that their numbers as words have another order. */
static void test_waiters__of_one_batch_are_served_in_its_order(void **state)
{
    enum { WAITERS = 12 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[1 + WAITERS] = {0};

    for (int i = 0; i <= WAITERS; i++)
        call_acquire_with(client, &calls[i], "item:7", &patient);
    rlock_flush(client);
    fixture_wait_answers(fixture, &calls[0], 1);
    assert_int_equal(calls[0].status, STATUS_OK);
    for (int i = 1; i <= WAITERS; i++) {
        hand_over(fixture, client, &calls[i - 1], &calls[i]);
        if (i < WAITERS)
            assert_int_equal(calls[i + 1].answers, 0);
    }
    assert_int_equal(release(fixture, client, &calls[WAITERS]), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_waiter__that_times_out_leaves_and_the_others_move_up(void **state)
{
    struct rlock_acquire_options hasty = patient;
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, head = {0}, middle = {0}, last = {0};
    int64_t begin_ms = now_ms();

    assert_int_equal(acquire_with(fixture, alice, &holder, "item:7", &patient),
                     STATUS_OK);
    hasty.wait_ms = 700; /* longer than a heartbeat */
    call_acquire_with(bob, &head, "item:7", &hasty);
    call_acquire_with(bob, &middle, "item:7", &patient);
    rlock_flush(bob);
    wait_queued(fixture, 2);
    queue_up(fixture, &alice, 1, &last, 1);
    fixture_wait_answers(fixture, &head, 1);
    assert_int_equal(head.status, STATUS_BUSY);
    ASSERT_BETWEEN(now_ms() - begin_ms, 700, 700 + SOON_MS);
    wait_left(fixture, 2);
    hand_over(fixture, alice, &holder, &middle);
    assert_int_equal(last.answers, 0);
    hand_over(fixture, bob, &middle, &last);
    assert_int_equal(release(fixture, alice, &last), STATUS_OK);
    assert_nothing_left(fixture);
}

/** Its turn has come, but the call does not reach it any more. */
static void test_waiter__cancelled_hands_its_turn_on(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, calls[3] = {0};
    int64_t begin_ms;

    assert_int_equal(acquire_with(fixture, alice, &holder, "item:7", &patient),
                     STATUS_OK);
    queue_up(fixture, &bob, 1, calls, 3);
    rlock_cancel(bob, &calls[1].lock);
    fixture_wait_answers(fixture, &calls[1], 1);
    assert_int_equal(calls[1].status, STATUS_CANCELLED);
    wait_left(fixture, 2);
    (void)server_int(fixture->server, "DEL item:7"); /* free, and nobody was called */
    begin_ms = now_ms();
    rlock_cancel(bob, &calls[0].lock);
    fixture_wait_answers(fixture, &calls[2], 1);
    assert_int_equal(calls[0].status, STATUS_CANCELLED);
    assert_int_equal(calls[2].status, STATUS_OK);
    ASSERT_NUMBER(now_ms() - begin_ms, <, SOON_MS);
    assert_int_equal(release(fixture, alice, &holder), STATUS_LOST);
    assert_int_equal(release(fixture, bob, &calls[2]), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_waiters__of_a_client_that_is_closed_leave(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, gone[2] = {0}, last = {0};

    assert_int_equal(acquire_with(fixture, alice, &holder, "item:7", &patient),
                     STATUS_OK);
    queue_up(fixture, &bob, 1, gone, 2);
    queue_up(fixture, &alice, 1, &last, 1);
    fixture_close(fixture, bob);
    assert_int_equal(gone[0].status, STATUS_CANCELLED);
    assert_int_equal(gone[1].status, STATUS_CANCELLED);
    wait_left(fixture, 1);
    hand_over(fixture, alice, &holder, &last);
    assert_int_equal(release(fixture, alice, &last), STATUS_OK);
    assert_nothing_left(fixture);
}

/** Another process, which acquires the lock at go_on() and then runs on. */
struct process {
    pid_t pid;
    int go;
};

/** Before there are clients, whose connections both would share. */
static struct process start_process(struct fixture *fixture,
                                    const struct rlock_acquire_options *options)
{
    struct call call = {0};
    char byte;
    int go[2];
    pid_t child;

    assert_int_equal(fixture->client_count, 0);
    assert_int_equal(pipe(go), 0);
    child = child_fork();
    if (child == 0) {
        close(go[1]);
        uv_loop_fork(&fixture->loop);
        if (read(go[0], &byte, 1) != 1)
            _exit(1);
        call_acquire_with(fixture_client(fixture), &call, "item:7", options);
        rlock_flush(fixture->clients[0]);
        fixture_run_for(fixture, 60000);
        _exit(0);
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

static void test_waiter__killed_as_head_is_passed_over(void **state)
{
    struct fixture *fixture = *state;
    struct process process = start_process(fixture, &patient);
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0}, next = {0};
    int64_t begin_ms;

    assert_int_equal(acquire_with(fixture, client, &holder, "item:7", &patient),
                     STATUS_OK);
    go_on(&process);
    wait_queued(fixture, 1);
    queue_up(fixture, &client, 1, &next, 1);
    end_process(&process);
    begin_ms = now_ms();
    assert_int_equal(release(fixture, client, &holder), STATUS_OK);
    fixture_wait_answers(fixture, &next, 1);
    assert_int_equal(next.status, STATUS_OK);
    ASSERT_NUMBER(now_ms() - begin_ms, <, SKIP_MS);
    assert_int_equal(release(fixture, client, &next), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_waiter__killed_in_the_middle_is_passed_over(void **state)
{
    struct fixture *fixture = *state;
    struct process process = start_process(fixture, &patient);
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0}, first = {0}, last = {0};
    int64_t begin_ms;

    assert_int_equal(acquire_with(fixture, client, &holder, "item:7", &patient),
                     STATUS_OK);
    queue_up(fixture, &client, 1, &first, 1);
    go_on(&process);
    wait_queued(fixture, 2);
    queue_up(fixture, &client, 1, &last, 1);
    end_process(&process);
    begin_ms = now_ms();
    hand_over(fixture, client, &holder, &first);
    assert_int_equal(release(fixture, client, &first), STATUS_OK);
    fixture_wait_answers(fixture, &last, 1);
    assert_int_equal(last.status, STATUS_OK);
    ASSERT_NUMBER(now_ms() - begin_ms, <, SKIP_MS);
    assert_int_equal(release(fixture, client, &last), STATUS_OK);
    assert_nothing_left(fixture);
}

/** A place in the queue, taken at the server by one who is never heard of again. */
static void queue_dead(struct fixture *fixture, const char *owner)
{
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    redisReply *reply;

    rlock_scripts_init(scripts);
    reply = server_command(fixture->server,
                           "EVAL %s 4 lock:fence item:7 item:7:queue item:7:beats %d "
                           "9000000000000000 %s 60000 7",
                           scripts[RLOCK_SCRIPT_FAIR_ACQUIRE].body, LEASE_MS, owner);
    assert_string_equal(reply->element[3]->str, "0");
    freeReplyObject(reply);
}

/** Its heartbeats are not in step with what is left of those of the dead. */
static void
test_waiter__behind_the_dead_gets_in_when_they_have_lost_patience(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0}, next = {0};
    int64_t begin_ms;

    assert_int_equal(acquire_with(fixture, client, &holder, "item:7", &patient),
                     STATUS_OK);
    queue_dead(fixture, "dead:1");
    queue_dead(fixture, "dead:2");
    begin_ms = now_ms();
    assert_int_equal(release(fixture, client, &holder), STATUS_OK);
    fixture_run_for(fixture, 300);
    assert_int_equal(acquire_with(fixture, client, &next, "item:7", &patient), STATUS_OK);
    ASSERT_BETWEEN(now_ms() - begin_ms, RLOCK_FAIR_BEAT_MS * 3 - 10, SKIP_MS);
    assert_int_equal(release(fixture, client, &next), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_try__does_not_overtake_a_queue(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0}, call = {0};

    assert_int_equal(acquire_with(fixture, client, &holder, "item:7", &patient),
                     STATUS_OK);
    queue_dead(fixture, "other:1");
    assert_int_equal(release(fixture, client, &holder), STATUS_OK);
    assert_false(server_has(fixture->server, "item:7"));
    assert_int_equal(acquire_with(fixture, client, &call, "item:7", &try_once),
                     STATUS_BUSY);
    assert_false(server_has(fixture->server, "item:7"));
    assert_int_equal(server_int(fixture->server, "ZCARD item:7:queue"), 1);
    assert_int_equal(server_int(fixture->server, "ZCARD item:7:beats"), 1);
    /* who was called and has died keeps it from others for so long only */
    (void)server_int(fixture->server, "ZADD item:7:beats 1 other:1");
    assert_int_equal(acquire_with(fixture, client, &call, "item:7", &try_once),
                     STATUS_OK);
    assert_int_equal(release(fixture, client, &call), STATUS_OK);
    assert_nothing_left(fixture);
}

/** The clients' clock is wrong; the server's clock is right. */
static void wait_with_wrong_clock(struct fixture *fixture, int64_t shift_us)
{
    struct rlock_client *clients[2];
    struct call calls[3] = {0};

    clock_shift_us(shift_us);
    clients[0] = fixture_client(fixture);
    clients[1] = fixture_client(fixture);
    assert_int_equal(acquire_with(fixture, clients[0], &calls[0], "item:7", &patient),
                     STATUS_OK);
    queue_up(fixture, clients, 2, &calls[1], 2);
    fixture_run_for(fixture, SKIP_MS);
    assert_int_equal(server_int(fixture->server, "ZCARD item:7:queue"), 2);
    assert_int_equal(server_int(fixture->server, "ZCARD item:7:beats"), 2);
    hand_over(fixture, clients[0], &calls[0], &calls[1]);
    assert_int_equal(calls[2].answers, 0);
    hand_over(fixture, clients[0], &calls[1], &calls[2]);
    assert_int_equal(release(fixture, clients[1], &calls[2]), STATUS_OK);
    assert_nothing_left(fixture);
    fixture_close(fixture, clients[0]);
    fixture_close(fixture, clients[1]);
    clock_shift_us(-shift_us);
}

static void test_waiter__alive_with_a_wrong_clock_keeps_its_place(void **state)
{
    wait_with_wrong_clock(*state, HOUR_US);
    wait_with_wrong_clock(*state, 1 - clock_mono_us()); /* as if booted just now */
}

static void test_expiry__wakes_the_head(void **state)
{
    struct rlock_acquire_options brief = patient;
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, calls[2] = {0};
    int64_t begin_ms;

    brief.lease_ms = 300;
    assert_int_equal(acquire_with(fixture, alice, &holder, "item:7", &brief), STATUS_OK);
    begin_ms = now_ms();
    queue_up(fixture, &bob, 1, calls, 2);
    fixture_wait_answers(fixture, &calls[0], 1);
    assert_int_equal(calls[0].status, STATUS_OK);
    ASSERT_BETWEEN(now_ms() - begin_ms, 290, 300 + SOON_MS / 2);
    fixture_run_for(fixture, RLOCK_FAIR_BEAT_MS);
    assert_int_equal(calls[1].answers, 0);
    assert_int_equal(release(fixture, alice, &holder), STATUS_LOST);
    hand_over(fixture, bob, &calls[0], &calls[1]);
    assert_int_equal(release(fixture, bob, &calls[1]), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_force_release__wakes_the_head_alone(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, calls[2] = {0};
    struct answer answer = {0};
    int64_t begin_ms;

    assert_int_equal(acquire_with(fixture, alice, &holder, "item:7", &patient),
                     STATUS_OK);
    queue_up(fixture, &bob, 1, calls, 2);
    fixture_run_for(fixture, 50); /* their tries after the subscription are over */
    begin_ms = now_ms();
    assert_int_equal(force(fixture, alice, &answer, "item:7"), STATUS_OK);
    fixture_wait_answers(fixture, &calls[0], 1);
    assert_int_equal(calls[0].status, STATUS_OK);
    ASSERT_NUMBER(now_ms() - begin_ms, <, SOON_MS);
    fixture_run_for(fixture, RLOCK_FAIR_BEAT_MS);
    assert_int_equal(calls[1].answers, 0);
    assert_int_equal(release(fixture, alice, &holder), STATUS_LOST);
    hand_over(fixture, bob, &calls[0], &calls[1]);
    assert_int_equal(release(fixture, bob, &calls[1]), STATUS_OK);
    assert_nothing_left(fixture);
}

/** Without messages the heartbeats find out. */
static void test_waiter__is_served_though_its_subscription_was_cut(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, calls[2] = {0};
    int64_t begin_ms;

    assert_int_equal(acquire_with(fixture, alice, &holder, "item:7", &patient),
                     STATUS_OK);
    queue_up(fixture, &bob, 1, calls, 2);
    fixture_run_for(fixture, 50); /* their tries after the subscription are over */
    begin_ms = now_ms();
    (void)server_int(fixture->server, "CLIENT KILL TYPE pubsub");
    assert_int_equal(release(fixture, alice, &holder), STATUS_OK);
    fixture_wait_answers(fixture, &calls[0], 1);
    assert_int_equal(calls[0].status, STATUS_OK);
    ASSERT_NUMBER(now_ms() - begin_ms, <, RLOCK_FAIR_BEAT_MS + SOON_MS);
    assert_int_equal(calls[1].answers, 0);
    assert_int_equal(release(fixture, bob, &calls[0]), STATUS_OK);
    fixture_wait_answers(fixture, &calls[1], 1);
    assert_int_equal(calls[1].status, STATUS_OK);
}

static void test_watchdog__holds_a_fair_lock_past_its_lease(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options watched = {
        .kind = &rlock_fair, .lease_ms = 240, .watchdog = true};
    struct call holder = {0}, next = {0};

    assert_int_equal(acquire_with(fixture, client, &holder, "item:7", &watched),
                     STATUS_OK);
    queue_up(fixture, &client, 1, &next, 1);
    fixture_run_for(fixture, 4 * 240);
    assert_true(rlock_is_held(&holder.lock));
    hand_over(fixture, client, &holder, &next);
    assert_int_equal(release(fixture, client, &next), STATUS_OK);
    assert_nothing_left(fixture);
}

static void
test_release__after_a_restart_is_lost_and_the_next_lock_is_renewed(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options watched = {
        .kind = &rlock_fair, .lease_ms = 300, .watchdog = true};
    struct call first = {0}, second = {0};
    int64_t fence;

    assert_int_equal(acquire(fixture, client, &second, "item:8", LEASE_MS), STATUS_OK);
    assert_int_equal(acquire_with(fixture, client, &first, "item:7", &try_once),
                     STATUS_OK);
    fence = rlock_fence(&first.lock);
    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
    assert_int_equal(release(fixture, client, &first), STATUS_LOST);
    assert_int_equal(acquire_with(fixture, client, &first, "item:7", &watched),
                     STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&first.lock), >, fence);
    fixture_run_for(fixture, 3 * 300);
    assert_int_equal(first.losses, 0);
    assert_int_equal(release(fixture, client, &first), STATUS_OK);
    assert_nothing_left(fixture);
}

static bool is_taken(void *arg)
{
    return server_has(((struct fixture *)arg)->server, "item:7");
}

static void test_holder__killed_leaves_the_lock_to_the_head_within_its_lease(void **state)
{
    static const struct rlock_acquire_options watched = {
        .kind = &rlock_fair, .lease_ms = 400, .watchdog = true};
    struct fixture *fixture = *state;
    struct process process = start_process(fixture, &watched);
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    int64_t begin_ms;

    go_on(&process);
    FIXTURE_AWAIT(fixture, is_taken, fixture);
    queue_up(fixture, &client, 1, &call, 1);
    fixture_run_for(fixture, 600); /* renewed meanwhile */
    assert_int_equal(call.answers, 0);
    end_process(&process);
    begin_ms = now_ms();
    fixture_wait_answers(fixture, &call, 1);
    assert_int_equal(call.status, STATUS_OK);
    ASSERT_NUMBER(now_ms() - begin_ms, <, 400 + SOON_MS);
    assert_int_equal(release(fixture, client, &call), STATUS_OK);
    assert_nothing_left(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_acquire__free_lock_is_held_and_leaves_no_queue),
        FIXTURE_TEST(test_waiters__are_served_in_order_of_arrival),
        FIXTURE_TEST(test_waiters__five_hundred_all_finish_once_in_order),
        FIXTURE_TEST(test_waiters__of_one_batch_are_served_in_its_order),
        FIXTURE_TEST(test_waiter__that_times_out_leaves_and_the_others_move_up),
        FIXTURE_TEST(test_waiter__cancelled_hands_its_turn_on),
        FIXTURE_TEST(test_waiters__of_a_client_that_is_closed_leave),
        FIXTURE_TEST(test_waiter__killed_as_head_is_passed_over),
        FIXTURE_TEST(test_waiter__killed_in_the_middle_is_passed_over),
        FIXTURE_TEST(test_waiter__behind_the_dead_gets_in_when_they_have_lost_patience),
        FIXTURE_TEST(test_try__does_not_overtake_a_queue),
        FIXTURE_TEST(test_waiter__alive_with_a_wrong_clock_keeps_its_place),
        FIXTURE_TEST(test_expiry__wakes_the_head),
        FIXTURE_TEST(test_force_release__wakes_the_head_alone),
        FIXTURE_TEST(test_waiter__is_served_though_its_subscription_was_cut),
        FIXTURE_TEST(test_watchdog__holds_a_fair_lock_past_its_lease),
        FIXTURE_TEST(test_release__after_a_restart_is_lost_and_the_next_lock_is_renewed),
        FIXTURE_TEST(test_holder__killed_leaves_the_lock_to_the_head_within_its_lease),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
