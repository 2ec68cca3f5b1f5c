/* it_stats.c - what a client counts and reports. */
#include "base/clock.h"
#include "test/waits.h"

#include <string.h>

#define EVENTS_MAX 16

/** What on_event has reported. */
struct events {
    unsigned count;
    enum rlock_event events[EVENTS_MAX];
    int64_t us[EVENTS_MAX];
};

static struct rlock_stats stats_of(const struct rlock_client *client)
{
    struct rlock_stats stats;

    rlock_client_stats(client, &stats);
    return stats;
}

static uint64_t sum_of(const struct rlock_times *times)
{
    uint64_t sum = 0;

    for (int i = 0; i < RLOCK_TIME_BUCKETS; i++)
        sum += times->buckets[i];
    return sum;
}

static void test_rlock_client_stats__tell_how_long_grants_took(void **state)
{
    enum { TOOK_MS = 70000 };
    struct fixture *fixture = *state;
    struct rlock_client *alice = fixture_client(fixture);
    struct rlock_client *bob = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, calls[2] = {0};
    struct rlock_stats stats;

    ASSERT_STATUS(acquire_with(fixture, alice, &held, NAME, &options), STATUS_OK);
    ASSERT_STATUS(acquire_with(fixture, bob, &calls[0], "free", &options), STATUS_OK);
    call_wait(bob, &calls[1], NAME, &options);
    fixture_wait_asleep(fixture, bob, &calls[1]);
    fixture_pass_ms(fixture, TOOK_MS);
    ASSERT_STATUS(release(fixture, alice, &held), STATUS_OK);
    fixture_wait_answers(fixture, &calls[1], 1);
    stats = stats_of(bob);
    assert_int_equal(stats.granted, 2);
    assert_int_equal(sum_of(&stats.waits), 2);
    assert_int_equal(stats.waits.buckets[RLOCK_TIME_BUCKETS - 1], 1);
    ASSERT_NUMBER(stats.waits.sum_us, >=, TOOK_MS * 1000);
    assert_int_equal(stats.busy + stats.failed, 0); /* a wait is no failure */
    ASSERT_STATUS(release(fixture, bob, &calls[1]), STATUS_OK);
    assert_int_equal(stats_of(bob).holds.buckets[RLOCK_TIME_BUCKETS - 1], 0);
}

static void test_rlock_client_stats__tell_how_long_locks_were_held(void **state)
{
    enum { HELD_MS = 5000, BUCKET = 13 }; /* above 4096 ms, up to 8192 ms */
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call calls[2] = {0};
    struct rlock_stats stats;

    ASSERT_STATUS(acquire(fixture, client, &calls[0], "one", LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &calls[1], "two", LEASE_MS), STATUS_OK);
    assert_int_equal(stats_of(client).held, 2);
    fixture_pass_ms(fixture, HELD_MS);
    ASSERT_STATUS(release(fixture, client, &calls[0]), STATUS_OK);
    rlock_release(client, &calls[1].lock, NULL, NULL);
    fixture_settle(fixture);
    stats = stats_of(client);
    assert_int_equal(stats.held, 0);
    assert_int_equal(sum_of(&stats.holds), 2);
    assert_int_equal(stats.holds.buckets[BUCKET], 2);
    ASSERT_NUMBER(stats.holds.sum_us, >=, 2 * HELD_MS * 1000);
}

enum { WORK_MS = 100 };

struct job {
    struct rlock_client *client;
    unsigned ended;
};

static void it_stats_on_released(struct rlock *lock, enum status status, void *arg)
{
    struct job *job = arg;

    (void)lock;
    ASSERT_STATUS(status, STATUS_OK);
    job->ended++;
}

static void it_stats_on_acquired(struct rlock *lock, enum status status, void *arg)
{
    struct job *job = arg;

    ASSERT_STATUS(status, STATUS_OK);
    clock_shift_us(WORK_MS * 1000LL);
    rlock_release(job->client, lock, it_stats_on_released, job);
}

static void test_rlock_client_stats__count_the_work_of_callbacks_as_held(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS};
    struct job job = {.client = fixture_client(fixture)};
    struct rlock lock = {0};
    struct rlock_stats stats;

    rlock_acquire(job.client, &lock, NAME, strlen(NAME), &options, it_stats_on_acquired,
                  &job);
    fixture_wait_count(fixture, &job.ended, 1);
    stats = stats_of(job.client);
    assert_int_equal(sum_of(&stats.holds), 1);
    ASSERT_NUMBER(stats.holds.sum_us, >=, WORK_MS * 1000);
}

static void test_rlock_client_stats__count_lost_locks_as_held_no_more(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct call call = {0};
    struct rlock_stats stats;

    ASSERT_STATUS(acquire_watched(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    (void)server_int(fixture->server, "DEL " NAME);
    fixture_pass_ms(fixture, LEASE_MS / 3 + 1);
    fixture_wait_losses(fixture, &call, 1);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
    stats = stats_of(client);
    assert_int_equal(stats.held, 0);
    assert_int_equal(sum_of(&stats.holds), 1);
    assert_int_equal(stats.lost, 1);
    assert_ptr_equal(stats.errors[STATUS_LOST].kind, &rlock_plain);
}

static void test_rlock_client_stats__count_the_waiters_of_now(void **state)
{
    enum { WAITERS = 3 };
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_plain, 0, RLOCK_WAIT_FOREVER);
    struct call held = {0}, waiters[WAITERS] = {0};

    ASSERT_STATUS(acquire(fixture, client, &held, NAME, LEASE_MS), STATUS_OK);
    for (int i = 0; i < WAITERS; i++) {
        call_wait(client, &waiters[i], NAME, &options);
        call_rest(fixture, &waiters[i]);
    }
    assert_int_equal(stats_of(client).waiters, WAITERS);
    rlock_cancel(client, &waiters[1].lock);
    assert_int_equal(stats_of(client).waiters, WAITERS - 1);
    ASSERT_STATUS(release(fixture, client, &held), STATUS_OK);
    fixture_wait_answers(fixture, &waiters[0], 1);
    assert_int_equal(stats_of(client).waiters, WAITERS - 2);
    assert_int_equal(stats_of(client).held, 1);
}

static void test_rlock_client_stats__keep_the_last_failure_of_each_status(void **state)
{
    struct fixture *fixture = *state;
    struct rlock_client *client = fixture_client(fixture);
    struct rlock_acquire_options options = waiting(&rlock_reentrant, 1, 0);
    struct call call = {0};
    struct rlock_stats stats = stats_of(client);

    for (int i = 0; i <= STATUS_NO_MEMORY; i++)
        assert_null(stats.errors[i].kind);
    (void)server_int(fixture->server, "LPUSH " NAME " item");
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_REFUSED);
    ASSERT_STATUS(acquire_with(fixture, client, &call, NAME, &options), STATUS_REFUSED);
    (void)server_int(fixture->server, "DEL " NAME);
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    (void)server_int(fixture->server, "DEL " NAME);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
    stats = stats_of(client);
    assert_int_equal(stats.failed, 2);
    assert_ptr_equal(stats.errors[STATUS_REFUSED].kind, &rlock_reentrant);
    assert_int_equal(rlock_refusal(&stats.errors[STATUS_REFUSED].err),
                     RLOCK_REFUSED_TYPE);
    assert_ptr_equal(stats.errors[STATUS_LOST].kind, &rlock_plain);
    assert_string_equal(stats.errors[STATUS_LOST].err.text, "lost");
    assert_null(stats.errors[STATUS_TIMEOUT].kind);
}

static void note_event(const char *name, size_t name_len, enum rlock_event event,
                       int64_t us, void *arg)
{
    struct events *events = arg;

    assert_true(events->count < EVENTS_MAX);
    assert_int_equal(name_len, strlen(NAME));
    assert_memory_equal(name, NAME, name_len);
    events->events[events->count] = event;
    events->us[events->count++] = us;
}

static void test_on_event__reports_each_event_with_its_time(void **state)
{
    static const enum rlock_event expected[] = {
        RLOCK_EVENT_GRANTED, RLOCK_EVENT_RELEASED, RLOCK_EVENT_GRANTED, RLOCK_EVENT_BUSY,
        RLOCK_EVENT_RENEWED, RLOCK_EVENT_LOST,     RLOCK_EVENT_FAILED,
    };
    enum { COUNT = sizeof(expected) / sizeof(*expected), HELD_MS = 1500 };
    struct fixture *fixture = *state;
    struct events events = {0};
    struct rlock_client *client =
        fixture_open(fixture, (struct rlock_client_options){
                                  .redis_url = fixture->server->unix_url,
                                  .timeout_ms = TIMEOUT_MS,
                                  .on_event = note_event,
                                  .arg = &events,
                              });
    struct call call = {0}, other = {0};

    fixture_wait_up(fixture, client);
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    fixture_pass_ms(fixture, HELD_MS);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_OK);
    ASSERT_STATUS(acquire_watched(fixture, client, &call, NAME, LEASE_MS), STATUS_OK);
    ASSERT_STATUS(acquire(fixture, client, &other, NAME, LEASE_MS), STATUS_BUSY);
    fixture_pass_renewal(fixture, client, LEASE_MS, 1);
    (void)server_int(fixture->server, "DEL " NAME);
    ASSERT_STATUS(release(fixture, client, &call), STATUS_LOST);
    (void)server_int(fixture->server, "LPUSH " NAME " item");
    ASSERT_STATUS(acquire(fixture, client, &call, NAME, LEASE_MS), STATUS_REFUSED);
    assert_int_equal(events.count, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(events.events[i], expected[i]);
    ASSERT_NUMBER(events.us[0], <, HELD_MS * 1000);
    ASSERT_NUMBER(events.us[1], >=, HELD_MS * 1000);
    ASSERT_NUMBER(events.us[2], <, HELD_MS * 1000);
    ASSERT_NUMBER(events.us[4], >=, LEASE_MS / 3 * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_rlock_client_stats__tell_how_long_grants_took),
        FIXTURE_TEST(test_rlock_client_stats__tell_how_long_locks_were_held),
        FIXTURE_TEST(test_rlock_client_stats__count_the_work_of_callbacks_as_held),
        FIXTURE_TEST(test_rlock_client_stats__count_lost_locks_as_held_no_more),
        FIXTURE_TEST(test_rlock_client_stats__count_the_waiters_of_now),
        FIXTURE_TEST(test_rlock_client_stats__keep_the_last_failure_of_each_status),
        FIXTURE_TEST(test_on_event__reports_each_event_with_its_time),
    };

    return cmocka_run_group_tests(tests, fixture_start_server, fixture_stop_server);
}
