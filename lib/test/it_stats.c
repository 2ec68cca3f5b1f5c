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

FIXTURE_CASE(test_rlock_client_stats__count_the_work_of_callbacks_as_held)
{
    struct fixture *fixture = *state;
    struct rlock_acquire_options options = {.lease_ms = LEASE_MS};
    struct job job = {.client = fixture_client(fixture)};
    struct rlock lock = {0};
    struct rlock_stats stats;

    rlock_acquire(job.client, &lock, NAME, strlen(NAME), &options, it_stats_on_acquired,
                  &job);
    fixture_wait_count(fixture, &job.ended, 1);
    rlock_client_stats(job.client, &stats);
    ASSERT_NUMBER(stats.holds.sum_us, >=, WORK_MS * 1000);
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

FIXTURE_CASE(test_on_event__reports_each_event_with_its_time)
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
    return cases_run(fixture_start_server, fixture_stop_server);
}
