/* fixture.c - runs a loop until what a test waits for has happened. */
#include "test/fixture.h"
#include "base/clock.h"
#include "lock/channel.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS     2
#define QUIET_TURNS 8 /* after this many turns of the loop all commands are answered */

static struct server *group_server;

void fixture_use_server(struct server *server)
{
    group_server = server;
}

int fixture_start_server(void **state)
{
    struct server *server = calloc(1, sizeof(*server));

    (void)state; /* the group has no state of its own */
    server_start(server, NULL);
    fixture_use_server(server);
    return 0;
}

int fixture_stop_server(void **state)
{
    (void)state;
    server_stop(group_server);
    free(group_server);
    return 0;
}

struct server *fixture_empty_server(void)
{
    if (group_server->pid == 0)
        server_restart(group_server);
    server_do(group_server, "FLUSHALL");
    return group_server;
}

static void on_tick(uv_timer_t *tick)
{
    (void)tick; /* the timer only wakes the loop */
}

int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    case_begin(state);
    fixture->server = fixture_empty_server();
    uv_loop_init(&fixture->loop);
    uv_timer_init(&fixture->loop, &fixture->tick);
    uv_timer_start(&fixture->tick, on_tick, TICK_MS, TICK_MS);
    *state = fixture;
    return 0;
}

static void on_closed(void *arg)
{
    unsigned *closed_count = arg;

    ++*closed_count;
}

static bool all_closed(void *arg)
{
    const struct fixture *fixture = arg;

    return fixture->closed_count == fixture->client_count;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    bool has_passed = case_end();

    for (unsigned i = 0; i < fixture->client_count; i++) {
        if (fixture->clients[i] != NULL)
            rlock_client_close(fixture->clients[i], on_closed, &fixture->closed_count);
    }
    FIXTURE_AWAIT(fixture, all_closed, fixture);
    uv_close((uv_handle_t *)&fixture->tick, NULL);
    /* A failed test has not closed the handles of its fake servers and groups. */
    if (!has_passed)
        uv_walk(&fixture->loop, close_handle, NULL);
    for (int waited_ms = 0; uv_run(&fixture->loop, UV_RUN_NOWAIT) != 0; waited_ms++) {
        if (waited_ms == WITHIN_MS)
            fail_msg("the test left a handle open on its loop");
        uv_sleep(1);
    }
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    free(fixture);
    return 0;
}

struct rlock_client *fixture_open(struct fixture *fixture,
                                  struct rlock_client_options options)
{
    struct rlock_err err = {0};
    struct rlock_client *client = NULL;

    options.loop = &fixture->loop;
    if (rlock_client_open(&options, &client, &err) != RLOCK_OK)
        fail_msg("rlock_client_open: %s", err.text);
    ASSERT_NUMBER(fixture->client_count, <, FIXTURE_CLIENTS_MAX);
    fixture->clients[fixture->client_count++] = client;
    return client;
}

struct rlock_client *fixture_client(struct fixture *fixture)
{
    struct rlock_client *client = fixture_open(
        fixture, (struct rlock_client_options){.redis_url = fixture->server->unix_url,
                                               .timeout_ms = TIMEOUT_MS});

    fixture_wait_up(fixture, client);
    return client;
}

struct count {
    const unsigned *at;
    unsigned wanted;
};

static bool has_count(void *arg)
{
    const struct count *count = arg;

    return *count->at >= count->wanted;
}

bool fixture_run_until(struct fixture *fixture, bool (*holds)(void *arg), void *arg,
                       unsigned within_ms)
{
    uint64_t end_ns = uv_hrtime() + (uint64_t)within_ms * 1000000;

    while (!holds(arg)) {
        if (uv_hrtime() >= end_ns)
            return false;
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
    return true;
}

void fixture_await_condition(struct fixture *fixture, bool (*holds)(void *arg), void *arg,
                             const char *condition)
{
    if (!fixture_run_until(fixture, holds, arg, WITHIN_MS))
        fail_msg("%s: still false after %d ms", condition, WITHIN_MS);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

void fixture_run_for(struct fixture *fixture, unsigned ms)
{
    (void)fixture_run_until(fixture, never, NULL, ms);
}

static void advance_timer(uv_handle_t *handle, void *arg)
{
    uv_timer_t *timer = (uv_timer_t *)handle;
    const unsigned *ms = arg;
    uint64_t left_ms;

    if (handle->type != UV_TIMER || !uv_is_active(handle))
        return;
    left_ms = uv_timer_get_due_in(timer);
    uv_timer_start(timer, timer->timer_cb, left_ms < *ms ? 0 : left_ms - *ms,
                   uv_timer_get_repeat(timer));
}

void fixture_jump_ms(struct fixture *fixture, unsigned ms)
{
    uv_update_time(&fixture->loop);
    clock_shift_us((int64_t)ms * 1000);
    uv_walk(&fixture->loop, advance_timer, &ms);
}

void fixture_pass_ms(struct fixture *fixture, unsigned ms)
{
    server_settle();
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    server_settle(); /* wait also for the commands that this turn has sent */
    fixture_jump_ms(fixture, ms);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
}

static void begin_close(struct fixture *fixture, struct rlock_client *client)
{
    for (unsigned i = 0; i < fixture->client_count; i++) {
        if (fixture->clients[i] == client)
            fixture->clients[i] = NULL;
    }
    rlock_client_close(client, on_closed, &fixture->closed_count);
}

void fixture_close(struct fixture *fixture, struct rlock_client *client)
{
    unsigned closed_count = fixture->closed_count + 1;

    begin_close(fixture, client);
    fixture_wait_count(fixture, &fixture->closed_count, closed_count);
}

void fixture_close_hung(struct fixture *fixture, struct rlock_client *client)
{
    unsigned closed_count = fixture->closed_count + 1;

    begin_close(fixture, client);
    fixture_pass_ms(fixture, TIMEOUT_MS + 1);
    fixture_wait_count(fixture, &fixture->closed_count, closed_count);
}

struct next_timer {
    const uv_timer_t *tick;
    uint64_t due_ms;
};

static void find_timer(uv_handle_t *handle, void *arg)
{
    struct next_timer *next = arg;
    const uv_timer_t *timer = (const uv_timer_t *)handle;

    if (handle->type == UV_TIMER && uv_is_active(handle) && timer != next->tick &&
        uv_timer_get_due_in(timer) < next->due_ms)
        next->due_ms = uv_timer_get_due_in(timer);
}

static void run_turn(struct fixture *fixture)
{
    server_settle();
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
}

void fixture_settle(struct fixture *fixture)
{
    for (int turn = 0; turn < 2 * QUIET_TURNS; turn++)
        run_turn(fixture);
}

unsigned fixture_step(struct fixture *fixture)
{
    struct next_timer next = {&fixture->tick, FIXTURE_DAY_MS};

    uv_update_time(&fixture->loop);
    uv_walk(&fixture->loop, find_timer, &next);
    if (next.due_ms > 0 && !fixture->server->is_paused && fixture->server->pid > 0)
        server_pass_ms(fixture->server, (unsigned)next.due_ms);
    fixture_jump_ms(fixture, (unsigned)next.due_ms);
    return (unsigned)next.due_ms;
}

unsigned fixture_simulate(struct fixture *fixture, bool (*holds)(void *arg), void *arg,
                          const char *condition)
{
    uint64_t end_ns = uv_hrtime() + WITHIN_MS * UINT64_C(1000000);
    unsigned passed_ms = 0;

    for (unsigned turn = 0; !holds(arg); turn++) {
        if (uv_hrtime() >= end_ns)
            fail_msg("%s: still false after %d ms, %u ms simulated", condition, WITHIN_MS,
                     passed_ms);
        if (turn % QUIET_TURNS == QUIET_TURNS - 1)
            passed_ms += fixture_step(fixture);
        run_turn(fixture);
    }
    return passed_ms;
}

static void postpone_timer(uv_handle_t *handle, void *arg)
{
    struct fixture *fixture = arg;
    uv_timer_t *timer = (uv_timer_t *)handle;

    if (handle->type == UV_TIMER && uv_is_active(handle) && timer != &fixture->tick)
        uv_timer_start(timer, timer->timer_cb, FIXTURE_DAY_MS,
                       uv_timer_get_repeat(timer));
}

void fixture_hold_timers(struct fixture *fixture)
{
    uv_walk(&fixture->loop, postpone_timer, fixture);
}

static bool is_up(void *arg)
{
    return rlock_client_is_up(arg);
}

static bool is_down(void *arg)
{
    return !rlock_client_is_up(arg);
}

void fixture_wait_up(struct fixture *fixture, struct rlock_client *client)
{
    FIXTURE_AWAIT(fixture, is_up, client);
}

void fixture_wait_down(struct fixture *fixture, struct rlock_client *client)
{
    FIXTURE_AWAIT(fixture, is_down, client);
}

void fixture_wait_count(struct fixture *fixture, const unsigned *at, unsigned wanted)
{
    struct count count = {at, wanted};

    if (!fixture_run_until(fixture, has_count, &count, WITHIN_MS))
        fail_msg("the count is %u after %d ms, expected %u", *at, WITHIN_MS, wanted);
}

static void wait_call(struct fixture *fixture, const struct call *call,
                      const unsigned *at, unsigned wanted, const char *what)
{
    const struct rlock *lock = &call->lock;
    struct count count = {at, wanted};

    if (!fixture_run_until(fixture, has_count, &count, WITHIN_MS))
        fail_msg("the call for '%.*s' has %u %s after %d ms, expected %u", lock->name_len,
                 lock->name, *at, what, WITHIN_MS, wanted);
}

void fixture_wait_answers(struct fixture *fixture, const struct call *call,
                          unsigned answers)
{
    wait_call(fixture, call, &call->answers, answers, "answers");
}

void fixture_wait_losses(struct fixture *fixture, const struct call *call,
                         unsigned losses)
{
    wait_call(fixture, call, &call->losses, losses, "losses");
}

uint64_t fixture_renewed(const struct rlock_client *client)
{
    struct rlock_stats stats;

    rlock_client_stats(client, &stats);
    return stats.renewed;
}

struct renewals {
    const struct rlock_client *client;
    uint64_t wanted;
};

static bool has_renewed(void *arg)
{
    const struct renewals *renewals = arg;

    return fixture_renewed(renewals->client) >= renewals->wanted;
}

void fixture_wait_renewed(struct fixture *fixture, const struct rlock_client *client,
                          uint64_t wanted)
{
    struct renewals renewals = {client, wanted};

    FIXTURE_AWAIT(fixture, has_renewed, &renewals);
}

void fixture_pass_renewal(struct fixture *fixture, const struct rlock_client *client,
                          unsigned lease_ms, unsigned locks)
{
    struct renewals renewals = {client, fixture_renewed(client) + locks};

    server_pass_ms(fixture->server, lease_ms / 3);
    fixture_pass_ms(fixture, lease_ms / 3 + 1);
    if (!fixture_run_until(fixture, has_renewed, &renewals, lease_ms / 8))
        fail_msg("%llu renewals after a third of the lease, expected %llu",
                 (unsigned long long)fixture_renewed(client),
                 (unsigned long long)renewals.wanted);
}

struct sleeper {
    const struct rlock_client *client;
    const struct call *call;
};

static bool hears_all(const struct rlock_client *client)
{
    for (int i = 0; i < RLOCK_CHANNEL_BUCKETS; i++) {
        const struct rlock_link *bucket = &client->channels.buckets[i];

        for (const struct rlock_link *at = bucket->next; at != bucket; at = at->next) {
            if (!list_item(at, struct rlock_channel, link)->is_subscribed)
                return false;
        }
    }
    return true;
}

static bool is_asleep(void *arg)
{
    const struct sleeper *sleeper = arg;
    const struct rlock *lock = &sleeper->call->lock;

    return lock->waiter != NULL && lock->batch == NULL && hears_all(sleeper->client);
}

void fixture_wait_asleep(struct fixture *fixture, struct rlock_client *client,
                         const struct call *call)
{
    struct sleeper sleeper = {client, call};

    FIXTURE_AWAIT(fixture, is_asleep, &sleeper);
}

static void on_answer(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct call *call = arg;

    assert_ptr_equal(lock, &call->lock);
    if (call->answers < sizeof(call->statuses) / sizeof(*call->statuses))
        call->statuses[call->answers] = status;
    call->answers++;
    call->status = status;
}

static void on_lost(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct call *call = arg;

    assert_ptr_equal(lock, &call->lock);
    ASSERT_STATUS(status, RLOCK_LOST);
    assert_false(rlock_is_held(lock));
    call->losses++;
}

uint16_t permits_of(const struct rlock_kind *kind)
{
    return kind == &rlock_semaphore || kind == &rlock_fair_semaphore;
}

void call_acquire(struct rlock_client *client, struct call *call, const char *name,
                  uint32_t lease_ms)
{
    struct rlock_acquire_options options = {.lease_ms = lease_ms, .on_lost = on_lost};

    rlock_acquire(client, &call->lock, name, strlen(name), &options, on_answer, call);
}

void call_acquire_watched(struct rlock_client *client, struct call *call,
                          const char *name, uint32_t lease_ms)
{
    struct rlock_acquire_options options = {
        .lease_ms = lease_ms, .watchdog = true, .on_lost = on_lost};

    rlock_acquire(client, &call->lock, name, strlen(name), &options, on_answer, call);
}

void call_acquire_with(struct rlock_client *client, struct call *call, const char *name,
                       const struct rlock_acquire_options *options)
{
    struct rlock_acquire_options all = *options;

    all.on_lost = on_lost;
    rlock_acquire(client, &call->lock, name, strlen(name), &all, on_answer, call);
}

void call_extend(struct rlock_client *client, struct call *call, uint32_t lease_ms)
{
    rlock_extend(client, &call->lock, lease_ms, on_answer, call);
}

void call_release(struct rlock_client *client, struct call *call)
{
    rlock_release(client, &call->lock, on_answer, call);
}

static enum rlock_status finish(struct fixture *fixture, struct rlock_client *client,
                                struct call *call, unsigned answers)
{
    /* no callback came from inside the call */
    assert_int_equal(call->answers, answers - 1);
    rlock_flush(client);
    fixture_wait_answers(fixture, call, answers);
    assert_int_equal(call->answers, answers);
    return call->status;
}

enum rlock_status acquire(struct fixture *fixture, struct rlock_client *client,
                          struct call *call, const char *name, uint32_t lease_ms)
{
    unsigned answers = call->answers + 1;

    call_acquire(client, call, name, lease_ms);
    return finish(fixture, client, call, answers);
}

enum rlock_status acquire_watched(struct fixture *fixture, struct rlock_client *client,
                                  struct call *call, const char *name, uint32_t lease_ms)
{
    unsigned answers = call->answers + 1;

    call_acquire_watched(client, call, name, lease_ms);
    return finish(fixture, client, call, answers);
}

enum rlock_status acquire_with(struct fixture *fixture, struct rlock_client *client,
                               struct call *call, const char *name,
                               const struct rlock_acquire_options *options)
{
    unsigned answers = call->answers + 1;

    call_acquire_with(client, call, name, options);
    return finish(fixture, client, call, answers);
}

enum rlock_status extend(struct fixture *fixture, struct rlock_client *client,
                         struct call *call, uint32_t lease_ms)
{
    unsigned answers = call->answers + 1;

    call_extend(client, call, lease_ms);
    return finish(fixture, client, call, answers);
}

enum rlock_status release(struct fixture *fixture, struct rlock_client *client,
                          struct call *call)
{
    unsigned answers = call->answers + 1;

    call_release(client, call);
    return finish(fixture, client, call, answers);
}

static void on_inspected(enum rlock_status status, const struct rlock_info *info,
                         void *arg)
{
    struct answer *answer = arg;

    answer->answers++;
    answer->status = status;
    if (info == NULL)
        return;
    snprintf(answer->owner, sizeof(answer->owner), "%.*s", (int)info->owner_len,
             info->owner);
    answer->remaining_ms = info->remaining_ms;
    answer->count = info->count;
    answer->is_ours = info->is_ours;
}

static void on_forced(enum rlock_status status, void *arg)
{
    struct answer *answer = arg;

    answer->answers++;
    answer->status = status;
}

enum rlock_status inspect(struct fixture *fixture, struct rlock_client *client,
                          struct answer *answer, const char *name)
{
    unsigned answers = answer->answers + 1;

    rlock_inspect(client, name, strlen(name), on_inspected, answer);
    assert_int_equal(answer->answers, answers - 1);
    rlock_flush(client);
    fixture_wait_count(fixture, &answer->answers, answers);
    return answer->status;
}

enum rlock_status force(struct fixture *fixture, struct rlock_client *client,
                        struct answer *answer, const char *name)
{
    unsigned answers = answer->answers + 1;

    rlock_force_release(client, name, strlen(name), on_forced, answer);
    assert_int_equal(answer->answers, answers - 1);
    rlock_flush(client);
    fixture_wait_count(fixture, &answer->answers, answers);
    return answer->status;
}
