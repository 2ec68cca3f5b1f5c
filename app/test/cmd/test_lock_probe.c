/* test_lock_probe.c - what a probe reports after each answer to its locks. */
#include "app/cmd/lock_probe.h"

#include "app/test/simulated_time.h"
#include "test/case_list.h"

#include <stdio.h>
#include <string.h>

static struct {
    struct rlock *asked[LOCK_PROBE_LOCKS];
    rlock_cb callback;
    void (*inspected)(enum rlock_status status, const struct rlock_info *info, void *arg);
    void *arg;
    unsigned count, released, inspected_count;
    struct rlock_err why;
    char said[300];
} fake;

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
// NOLINTNEXTLINE(readability-function-size)
void rlock_acquire(struct rlock_client *client UNUSED, struct rlock *lock,
                   const char *name, size_t name_len,
                   const struct rlock_acquire_options *options UNUSED, rlock_cb callback,
                   void *arg)
{
    const char wanted[] = {'l', 'o', 'c', 'k', ':', 'p',
                           'r', 'o', 'b', 'e', ':', (char)('A' + fake.count)};

    assert_int_equal(name_len, sizeof(wanted));
    assert_memory_equal(name, wanted, sizeof(wanted));
    fake.asked[fake.count++] = lock;
    fake.callback = callback;
    fake.arg = arg;
}

void rlock_inspect(struct rlock_client *client UNUSED, const char *name, size_t name_len,
                   void (*callback)(enum rlock_status status,
                                    const struct rlock_info *info, void *arg),
                   void *arg)
{
    assert_int_equal(name_len, sizeof("lock:probe:A") - 1);
    assert_int_equal(name[name_len - 1], 'A' + fake.inspected_count);
    fake.inspected_count++;
    fake.inspected = callback;
    fake.arg = arg;
}

void rlock_release(struct rlock_client *client UNUSED, struct rlock *lock UNUSED,
                   rlock_cb callback UNUSED, void *arg UNUSED)
{
    fake.released++;
}

void rlock_flush(struct rlock_client *client UNUSED)
{
}

const struct rlock_err *rlock_client_why(const struct rlock_client *client UNUSED)
{
    return &fake.why;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

static void probe_on_state(enum lock_probe_state state, const struct rlock_err *why,
                           void *arg UNUSED)
{
    static const char *const words[] = {[LOCK_PROBE_DOWN] = "down",
                                        [LOCK_PROBE_DEGRADED] = "degraded",
                                        [LOCK_PROBE_UP] = "up"};

    snprintf(fake.said, sizeof(fake.said), "%s %s", words[state], why->text);
}

static void assert_says(struct lock_probe *probe, enum rlock_status first,
                        enum rlock_status second, const char *wanted)
{
    fake.count = 0;
    fake.said[0] = '\0';
    lock_probe_on_connection(true, NULL, probe);
    lock_probe_on_connection(true, NULL, probe);
    assert_int_equal(fake.count, 2);
    fake.callback(fake.asked[0], first, fake.arg);
    assert_string_equal(fake.said, "");
    lock_probe_on_connection(true, NULL, probe);
    assert_int_equal(fake.count, 2);
    fake.callback(fake.asked[1], second, fake.arg);
    if (strcmp(fake.said, wanted) != 0)
        fail_msg("%s and %s: expected \"%s\", got \"%s\"", rlock_status_name(first),
                 rlock_status_name(second), wanted, fake.said);
}

UNIT_CASE(test_lock_probe__reports_each_change)
{
    struct lock_probe probe = {.count = 2, .on_state = probe_on_state};
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    lock_probe_start(&probe, &loop);
    assert_says(&probe, RLOCK_OK, RLOCK_BUSY, "up ");
    assert_int_equal(fake.released, 1);
    assert_says(&probe, RLOCK_OK, RLOCK_OK, "");
    assert_int_equal(fake.released, 3);
    assert_says(&probe, RLOCK_OK, RLOCK_TIMEOUT,
                "degraded a lock is not granted: timeout");
    assert_says(&probe, RLOCK_TIMEOUT, RLOCK_TIMEOUT,
                "down a lock is not granted: timeout");
    assert_says(&probe, RLOCK_TIMEOUT, RLOCK_TIMEOUT, "");
    fake.why = (struct rlock_err){RLOCK_DOWN, ""};
    assert_says(&probe, RLOCK_DOWN, RLOCK_DOWN, "down a lock is not granted: down");
    fake.why = (struct rlock_err){RLOCK_REFUSED, "out of memory"};
    assert_says(&probe, RLOCK_REFUSED, RLOCK_REFUSED, "down out of memory");
    assert_says(&probe, RLOCK_DOWN, RLOCK_DOWN, "");
    fake.why = (struct rlock_err){RLOCK_IO, "connection reset"};
    assert_says(&probe, RLOCK_DOWN, RLOCK_DOWN, "down connection reset");
    assert_says(&probe, RLOCK_CANCELLED, RLOCK_CANCELLED, "");
    assert_says(&probe, RLOCK_OK, RLOCK_CANCELLED, "");
    assert_says(&probe, RLOCK_BUSY, RLOCK_OK, "up ");
    lock_probe_close(&probe);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* -- ticks -- */

#define TICK_MS INT64_C(150)

static void no_turn(void)
{
}

static void pass_ms(int64_t ms, unsigned inspected, unsigned acquired, const char *wanted)
{
    fake.inspected_count = fake.count = 0;
    fake.said[0] = '\0';
    simulated_time_pass_us(ms * 1000, no_turn);
    assert_int_equal(fake.inspected_count, inspected);
    assert_int_equal(fake.count, acquired);
    assert_string_equal(fake.said, wanted);
}

static void answer(enum rlock_status status, const char *wanted)
{
    fake.said[0] = '\0';
    fake.inspected(status, NULL, fake.arg);
    assert_string_equal(fake.said, wanted);
}

static void start_granted(struct lock_probe *probe, uv_loop_t *loop)
{
    simulated_time_reset();
    memset(&fake, 0, sizeof(fake));
    *probe = (struct lock_probe){.count = 2, .on_state = probe_on_state};
    assert_int_equal(uv_loop_init(loop), 0);
    lock_probe_start(probe, loop);
    assert_says(probe, RLOCK_OK, RLOCK_OK, "up ");
}

static void end(struct lock_probe *probe, uv_loop_t *loop)
{
    lock_probe_close(probe);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(loop), 0);
}

UNIT_CASE(test_lock_probe__asks_for_holders_and_takes_locks_every_two_seconds)
{
    struct lock_probe probe;
    uv_loop_t loop;

    start_granted(&probe, &loop);
    pass_ms(TICK_MS - 1, 0, 0, "");
    pass_ms(1, 2, 0, "");
    answer(RLOCK_OK, "");
    answer(RLOCK_NOT_FOUND, "");
    for (int i = 0; i < 11; i++) {
        pass_ms(TICK_MS, 2, 0, "");
        answer(RLOCK_OK, "");
        answer(RLOCK_OK, "");
    }
    pass_ms(TICK_MS, 0, 2, "");
    fake.callback(fake.asked[0], RLOCK_TIMEOUT, fake.arg);
    fake.callback(fake.asked[1], RLOCK_TIMEOUT, fake.arg);
    /* while Redis grants no locks, the probe does not inspect any lock */
    pass_ms(12 * TICK_MS, 0, 0, "");
    pass_ms(TICK_MS, 0, 2, "");
    end(&probe, &loop);
}

UNIT_CASE(test_lock_probe__reports_a_late_reply_until_it_comes)
{
    struct lock_probe probe;
    uv_loop_t loop;

    start_granted(&probe, &loop);
    pass_ms(TICK_MS, 2, 0, "");
    answer(RLOCK_OK, "");
    pass_ms(5 * TICK_MS - 1, 0, 0, "");
    pass_ms(1, 0, 0, "degraded no reply within 750 ms");
    pass_ms(5 * TICK_MS, 0, 0, "");
    answer(RLOCK_OK, "up ");
    pass_ms(TICK_MS, 2, 0, "");
    pass_ms(5 * TICK_MS, 0, 0, "down no reply within 750 ms");
    answer(RLOCK_TIMEOUT, "");
    answer(RLOCK_TIMEOUT, "down a lock is not granted: timeout");
    end(&probe, &loop);
}

/* This loop was busy or stopped for as long as the reply is late. */
UNIT_CASE(test_lock_probe__does_not_count_late_ticks)
{
    struct lock_probe probe;
    uv_loop_t loop;

    start_granted(&probe, &loop);
    pass_ms(TICK_MS, 2, 0, "");
    for (int i = 0; i < 20; i++) {
        simulated_timers[0].due_us += 75 * INT64_C(1000);
        pass_ms(TICK_MS + 75, 0, 0, "");
    }
    for (int i = 0; i < 5; i++) {
        simulated_timers[0].due_us += 74 * INT64_C(1000);
        pass_ms(TICK_MS + 74, 0, 0, i < 4 ? "" : "down no reply within 750 ms");
    }
    end(&probe, &loop);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
