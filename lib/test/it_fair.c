/* it_fair.c - the fair lock: waiters are served in the order of their arrival. */
#include "base/clock.h"
#include "lock/scripts.h"
#include "test/child.h"
#include "test/waits.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEAT_MS     (RLOCK_FAIR_BEAT_MS + 1)     /* a waiter tries again within this */
#define PATIENCE_MS (RLOCK_FAIR_BEAT_MS * 3 + 1) /* without a heartbeat it is dead */
#define HOUR_MS     3600000

static const struct rlock_acquire_options try_once = {.kind = &rlock_fair,
                                                      .lease_ms = LEASE_MS};
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

static void test_acquire__free_lock_is_held_and_leaves_no_queue(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call first = {0}, second = {0};
    struct answer answer = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &first, "item:7", &patient), STATUS_OK);
    assert_int_equal(server_int(fixture->server, "DBSIZE"), 2); /* and the counter */
    ASSERT_STATUS(acquire_with(fixture, bob, &second, "item:7", &try_once), STATUS_BUSY);
    assert_false(server_has(fixture->server, "item:7:queue"));
    ASSERT_STATUS(inspect(fixture, alice, &answer, "item:7"), STATUS_OK);
    assert_int_equal(answer.count, 1);
    assert_true(answer.is_ours);
    ASSERT_BETWEEN(answer.remaining_ms, LEASE_MS / 2, LEASE_MS);
    ASSERT_STATUS(inspect(fixture, bob, &answer, "item:7"), STATUS_OK);
    assert_false(answer.is_ours);
    ASSERT_STATUS(release(fixture, alice, &first), STATUS_OK);
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

struct turn {
    struct rlock lock;
    struct rlock_client *client;
    unsigned number;
    unsigned *served;
};

/** Each waiter checks that it is its turn, and releases. */
static void on_turn(struct rlock *lock, enum status status, void *arg)
{
    struct turn *turn = arg;

    ASSERT_STATUS(status, STATUS_OK);
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
    ASSERT_STATUS(acquire_with(fixture, clients[0], &holder, "item:7", &patient),
                  STATUS_OK);
    fixture_hold_timers(fixture);
    for (unsigned i = 0; i < WAITERS; i++) {
        turns[i] = (struct turn){
            .client = clients[i % FIXTURE_CLIENTS_MAX], .number = i, .served = &served};
        rlock_acquire(turns[i].client, &turns[i].lock, "item:7", 6, &patient, on_turn,
                      &turns[i]);
        rlock_flush(turns[i].client);
        wait_queued(fixture, i + 1);
        move_beats(fixture, HOUR_MS); /* nobody counts as dead on a busy machine */
    }
    assert_int_equal(served, 0);
    ASSERT_STATUS(release(fixture, clients[0], &holder), STATUS_OK);
    fixture_wait_count(fixture, &served, WAITERS);
    fixture_run_for(fixture, 20); /* nobody is served twice */
    assert_int_equal(served, WAITERS);
    assert_nothing_left(fixture);
    free(turns);
}

/** More than nine, whose numbers have another order as text. */
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
    ASSERT_STATUS(calls[0].status, STATUS_OK);
    wait_queued(fixture, WAITERS);
    for (int i = 1; i <= WAITERS; i++)
        fixture_wait_asleep(fixture, client, &calls[i]);
    hold_queue(fixture);
    for (int i = 1; i <= WAITERS; i++) {
        hand_over(fixture, client, &calls[i - 1], &calls[i]);
        if (i < WAITERS)
            assert_int_equal(calls[i + 1].answers, 0);
    }
    ASSERT_STATUS(release(fixture, client, &calls[WAITERS]), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_waiter__that_times_out_leaves_and_the_others_move_up(void **state)
{
    struct rlock_acquire_options hasty = patient;
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, head = {0}, middle = {0}, last = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &holder, "item:7", &patient), STATUS_OK);
    hasty.wait_ms = HOUR_MS;
    call_acquire_with(bob, &head, "item:7", &hasty);
    call_acquire_with(bob, &middle, "item:7", &patient);
    rlock_flush(bob);
    wait_queued(fixture, 2);
    queue_up(fixture, &alice, 1, &last, 1);
    fixture_pass_ms(fixture, HOUR_MS - 2 * WITHIN_MS);
    call_rest(fixture, &head);
    assert_int_equal(head.answers, 0);
    fixture_pass_ms(fixture, 2 * WITHIN_MS);
    fixture_wait_answers(fixture, &head, 1);
    ASSERT_STATUS(head.status, STATUS_BUSY);
    fixture_wait_asleep(fixture, bob, &middle);
    fixture_wait_asleep(fixture, alice, &last);
    hold_queue(fixture);
    wait_queued(fixture, 2);
    hand_over(fixture, alice, &holder, &middle);
    assert_int_equal(last.answers, 0);
    hand_over(fixture, bob, &middle, &last);
    ASSERT_STATUS(release(fixture, alice, &last), STATUS_OK);
    assert_nothing_left(fixture);
}

/** It is the head of the queue of a free lock and has not heard of it. */
static void test_waiter__cancelled_hands_its_turn_on(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, calls[3] = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &holder, "item:7", &patient), STATUS_OK);
    queue_up(fixture, &bob, 1, calls, 3);
    for (int i = 0; i < 3; i++)
        fixture_wait_asleep(fixture, bob, &calls[i]);
    hold_queue(fixture);
    rlock_cancel(bob, &calls[1].lock);
    fixture_wait_answers(fixture, &calls[1], 1);
    ASSERT_STATUS(calls[1].status, STATUS_CANCELLED);
    wait_queued(fixture, 2);
    (void)server_int(fixture->server, "DEL item:7"); /* without a message */
    rlock_cancel(bob, &calls[0].lock);
    fixture_wait_answers(fixture, &calls[2], 1);
    ASSERT_STATUS(calls[0].status, STATUS_CANCELLED);
    ASSERT_STATUS(calls[2].status, STATUS_OK);
    ASSERT_STATUS(release(fixture, alice, &holder), STATUS_LOST);
    ASSERT_STATUS(release(fixture, bob, &calls[2]), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_waiters__of_a_client_that_is_closed_leave(void **state)
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

_Noreturn static void run_process(struct fixture *fixture, int go,
                                  const struct rlock_acquire_options *options)
{
    struct call call = {0};
    char byte;

    uv_loop_fork(&fixture->loop);
    if (read(go, &byte, 1) != 1)
        _exit(1);
    call_wait(fixture_client(fixture), &call, "item:7", options);
    for (;;) {
        if (options->watchdog && rlock_is_held(&call.lock))
            fixture_jump_ms(fixture, LEASE_MS / 3 + 1); /* it renews */
        fixture_run_for(fixture, 10);
    }
}

/** Start it before there are clients, whose connections both processes would share. */
static struct process start_process(struct fixture *fixture,
                                    const struct rlock_acquire_options *options)
{
    int go[2];
    pid_t child;

    assert_int_equal(fixture->client_count, 0);
    assert_int_equal(pipe(go), 0);
    child = child_fork();
    if (child == 0) {
        close(go[1]);
        run_process(fixture, go[0], options);
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
static void test_waiters__keep_their_order_while_the_server_stands_still(void **state)
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

static void test_waiter__killed_in_the_middle_is_passed_over(void **state)
{
    struct fixture *fixture = *state;
    struct process process = start_process(fixture, &patient);
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0}, first = {0}, last = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &holder, "item:7", &patient), STATUS_OK);
    queue_up(fixture, &client, 1, &first, 1);
    go_on(&process);
    wait_queued(fixture, 2);
    queue_up(fixture, &client, 1, &last, 1);
    end_process(&process);
    hand_over(fixture, client, &holder, &first);
    move_beats(fixture, -PATIENCE_MS);
    fixture_pass_ms(fixture, BEAT_MS); /* the last shows that it is alive */
    fixture_wait_asleep(fixture, client, &last);
    fixture_hold_timers(fixture);
    hand_over(fixture, client, &first, &last);
    ASSERT_STATUS(release(fixture, client, &last), STATUS_OK);
    assert_nothing_left(fixture);
}

/** Let a waiter arrive that never tries again. */
static void queue_dead(struct fixture *fixture, const char *owner)
{
    struct redis_script scripts[RLOCK_SCRIPT_COUNT];
    redisReply *reply;

    rlock_scripts_init(scripts, false);
    reply = server_command(fixture->server,
                           "EVAL %s 4 lock:fence item:7 item:7:queue item:7:beats %d "
                           "9000000000000000 %s 60000 7",
                           scripts[RLOCK_SCRIPT_FAIR_ACQUIRE].body, LEASE_MS, owner);
    assert_string_equal(reply->element[3]->str, "0");
    freeReplyObject(reply);
}

static void test_waiter__behind_the_dead_gets_in_when_their_patience_ends(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0}, next = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &holder, "item:7", &patient), STATUS_OK);
    queue_dead(fixture, "dead:1");
    queue_dead(fixture, "dead:2");
    move_beats(fixture, HOUR_MS);
    ASSERT_STATUS(release(fixture, client, &holder), STATUS_OK);
    call_wait(client, &next, "item:7", &patient);
    fixture_wait_asleep(fixture, client, &next);
    for (int i = 0; i < 5; i++) {
        fixture_pass_ms(fixture, BEAT_MS);
        fixture_wait_asleep(fixture, client, &next);
    }
    move_beats(fixture, -HOUR_MS - PATIENCE_MS);
    fixture_pass_ms(fixture, BEAT_MS);
    assert_tries(&next);
    fixture_wait_answers(fixture, &next, 1);
    ASSERT_STATUS(next.status, STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &next), STATUS_OK);
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

static void test_waiter__counts_as_alive_for_three_heartbeats(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0};
    redisReply *beat;
    long long alive_until_ms, before_ms;

    ASSERT_STATUS(acquire_with(fixture, client, &holder, "item:7", &patient), STATUS_OK);
    before_ms = server_ms(fixture);
    queue_dead(fixture, "dead:1");
    beat = server_command(fixture->server, "ZSCORE item:7:beats dead:1");
    alive_until_ms = strtoll(beat->str, NULL, 10);
    ASSERT_BETWEEN(alive_until_ms - 3LL * RLOCK_FAIR_BEAT_MS, before_ms,
                   server_ms(fixture));
    freeReplyObject(beat);
}

static void test_try__does_not_overtake_a_queue(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call holder = {0}, call = {0};

    ASSERT_STATUS(acquire_with(fixture, client, &holder, "item:7", &patient), STATUS_OK);
    queue_dead(fixture, "other:1");
    move_beats(fixture, HOUR_MS);
    ASSERT_STATUS(release(fixture, client, &holder), STATUS_OK);
    assert_false(server_has(fixture->server, "item:7"));
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), STATUS_BUSY);
    assert_false(server_has(fixture->server, "item:7"));
    assert_int_equal(server_int(fixture->server, "ZCARD item:7:queue"), 1);
    assert_int_equal(server_int(fixture->server, "ZCARD item:7:beats"), 2);
    /* until the other counts as dead */
    move_beats(fixture, -HOUR_MS - PATIENCE_MS);
    ASSERT_STATUS(acquire_with(fixture, client, &call, "item:7", &try_once), STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    assert_nothing_left(fixture);
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

static void test_waiter__alive_with_a_wrong_clock_keeps_its_place(void **state)
{
    wait_with_wrong_clock(*state, HOUR_MS * INT64_C(1000));
    wait_with_wrong_clock(*state, 1 - clock_mono_us()); /* as right after a boot */
}

static void test_expiry__wakes_the_head(void **state)
{
    enum { LEFT_MS = 300 }; /* less than to the next heartbeat */
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, calls[2] = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &holder, "item:7", &patient), STATUS_OK);
    queue_up(fixture, &bob, 1, calls, 2);
    assert_int_equal(server_int(fixture->server, "PEXPIRE item:7 %d", LEFT_MS), 1);
    fixture_pass_ms(fixture, BEAT_MS); /* they see how much is left */
    call_rest(fixture, &calls[0]);
    call_rest(fixture, &calls[1]);
    if (calls[0].answers == 0) /* else this process was stopped for a while */
        (void)server_int(fixture->server, "DEL item:7");
    fixture_pass_ms(fixture, LEFT_MS + 20);
    assert_tries(&calls[0]);
    fixture_wait_answers(fixture, &calls[0], 1);
    ASSERT_STATUS(calls[0].status, STATUS_OK);
    fixture_pass_ms(fixture, BEAT_MS);
    fixture_wait_asleep(fixture, bob, &calls[1]);
    ASSERT_STATUS(release(fixture, alice, &holder), STATUS_LOST);
    hold_queue(fixture);
    hand_over(fixture, bob, &calls[0], &calls[1]);
    ASSERT_STATUS(release(fixture, bob, &calls[1]), STATUS_OK);
    assert_nothing_left(fixture);
}

static void test_force_release__wakes_the_head_alone(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, calls[2] = {0};
    struct answer answer = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &holder, "item:7", &patient), STATUS_OK);
    queue_up(fixture, &bob, 1, calls, 2);
    for (int i = 0; i < 2; i++)
        fixture_wait_asleep(fixture, bob, &calls[i]);
    hold_queue(fixture);
    ASSERT_STATUS(force(fixture, alice, &answer, "item:7"), STATUS_OK);
    fixture_wait_answers(fixture, &calls[0], 1);
    ASSERT_STATUS(calls[0].status, STATUS_OK);
    fixture_run_for(fixture, 20);
    assert_int_equal(calls[1].answers, 0);
    ASSERT_STATUS(release(fixture, alice, &holder), STATUS_LOST);
    hand_over(fixture, bob, &calls[0], &calls[1]);
    ASSERT_STATUS(release(fixture, bob, &calls[1]), STATUS_OK);
    assert_nothing_left(fixture);
}

/** Without messages the heartbeats find out. */
static void test_waiter__is_served_though_its_subscription_was_cut(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct call holder = {0}, calls[2] = {0};

    ASSERT_STATUS(acquire_with(fixture, alice, &holder, "item:7", &patient), STATUS_OK);
    queue_up(fixture, &bob, 1, calls, 2);
    for (int i = 0; i < 2; i++)
        fixture_wait_asleep(fixture, bob, &calls[i]);
    move_beats(fixture, HOUR_MS);
    (void)server_int(fixture->server, "CLIENT KILL TYPE pubsub");
    ASSERT_STATUS(release(fixture, alice, &holder), STATUS_OK);
    fixture_pass_ms(fixture, BEAT_MS);
    fixture_wait_answers(fixture, &calls[0], 1);
    ASSERT_STATUS(calls[0].status, STATUS_OK);
    assert_int_equal(calls[1].answers, 0);
    ASSERT_STATUS(release(fixture, bob, &calls[0]), STATUS_OK);
    fixture_wait_answers(fixture, &calls[1], 1);
    ASSERT_STATUS(calls[1].status, STATUS_OK);
}

static void test_watchdog__holds_a_fair_lock_past_its_lease(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options watched = try_once;
    struct call holder = {0}, next = {0};

    watched.watchdog = true;
    ASSERT_STATUS(acquire_with(fixture, client, &holder, "item:7", &watched), STATUS_OK);
    queue_up(fixture, &client, 1, &next, 1);
    for (unsigned i = 1; i <= 6; i++) {
        fixture_pass_ms(fixture, LEASE_MS / 3 + 1);
        fixture_wait_renewed(fixture, client, i);
    }
    assert_true(rlock_is_held(&holder.lock));
    fixture_wait_asleep(fixture, client, &next);
    hold_queue(fixture);
    hand_over(fixture, client, &holder, &next);
    ASSERT_STATUS(release(fixture, client, &next), STATUS_OK);
    assert_nothing_left(fixture);
}

static void
test_release__after_a_restart_is_lost_and_the_next_lock_is_renewed(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options watched = try_once;
    struct call first = {0}, second = {0};
    int64_t fence;

    watched.watchdog = true;
    ASSERT_STATUS(acquire(fixture, client, &second, "item:8", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire_with(fixture, client, &first, "item:7", &try_once), STATUS_OK);
    fence = rlock_fence(&first.lock);
    server_kill(fixture->server);
    fixture_wait_down(fixture, client);
    server_restart(fixture->server);
    fixture_wait_up(fixture, client);
    ASSERT_STATUS(release(fixture, client, &first), STATUS_LOST);
    ASSERT_STATUS(acquire_with(fixture, client, &first, "item:7", &watched), STATUS_OK);
    ASSERT_NUMBER(rlock_fence(&first.lock), >, fence);
    for (int i = 0; i < 4; i++)
        fixture_pass_renewal(fixture, client, LEASE_MS, 1);
    assert_int_equal(first.losses, 0);
    ASSERT_STATUS(release(fixture, client, &first), STATUS_OK);
    assert_nothing_left(fixture);
}

static bool is_fresh(void *arg)
{
    return server_int(((struct fixture *)arg)->server, "PTTL item:7") > LEASE_MS / 2;
}

static void test_holder__killed_leaves_the_lock_to_the_head_within_its_lease(void **state)
{
    struct rlock_acquire_options watched = try_once;
    struct fixture *fixture = *state;
    struct process process;
    struct rlock_client *client;
    struct call call = {0};

    watched.watchdog = true;
    process = start_process(fixture, &watched);
    client = fixture_client(fixture);
    go_on(&process);
    FIXTURE_AWAIT(fixture, is_fresh, fixture);
    queue_up(fixture, &client, 1, &call, 1);
    (void)server_int(fixture->server, "PEXPIRE item:7 %d", LEASE_MS / 2);
    FIXTURE_AWAIT(fixture, is_fresh, fixture); /* it is renewed */
    assert_int_equal(call.answers, 0);
    end_process(&process);
    ASSERT_BETWEEN(server_int(fixture->server, "PTTL item:7"), 0, LEASE_MS);
    (void)server_int(fixture->server, "DEL item:7"); /* its lease ends */
    fixture_pass_ms(fixture, BEAT_MS);
    fixture_wait_answers(fixture, &call, 1);
    ASSERT_STATUS(call.status, STATUS_OK);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
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
        FIXTURE_TEST(test_waiters__keep_their_order_while_the_server_stands_still),
        FIXTURE_TEST(test_waiter__killed_in_the_middle_is_passed_over),
        FIXTURE_TEST(test_waiter__behind_the_dead_gets_in_when_their_patience_ends),
        FIXTURE_TEST(test_waiter__counts_as_alive_for_three_heartbeats),
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
