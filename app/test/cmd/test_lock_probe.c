/* test_lock_probe.c - what a probe reports after each answer to its locks. */
#include "app/cmd/lock_probe.h"

#include "test/case_list.h"

#include <stdio.h>
#include <string.h>

static struct {
    struct rlock *asked[LOCK_PROBE_LOCKS];
    rlock_cb callback;
    void *arg;
    unsigned count, released;
    struct rlock_err why; /* reason of the client's last failure */
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

/** Probes two locks, which are answered with these statuses. Asserts what is reported; "":
 *  nothing. */
static void assert_says(struct lock_probe *probe, enum rlock_status first,
                        enum rlock_status second, const char *wanted)
{
    fake.count = 0;
    fake.said[0] = '\0';
    lock_probe_on_connection(true, NULL, probe);
    /* There is no second probe before the first one is answered. */
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
    assert_int_equal(uv_timer_get_due_in(&probe.timer), 2000);
    assert_int_equal(uv_timer_get_repeat(&probe.timer), 2000);
    assert_says(&probe, RLOCK_OK, RLOCK_BUSY, "up ");
    assert_int_equal(fake.released, 1);
    assert_says(&probe, RLOCK_OK, RLOCK_OK, "");
    assert_int_equal(fake.released, 3);
    assert_says(&probe, RLOCK_OK, RLOCK_TIMEOUT,
                "degraded a lock is not granted: timeout");
    assert_says(&probe, RLOCK_TIMEOUT, RLOCK_TIMEOUT,
                "down a lock is not granted: timeout");
    assert_says(&probe, RLOCK_TIMEOUT, RLOCK_TIMEOUT, "");
    fake.why = (struct rlock_err){RLOCK_REFUSED, "out of memory"};
    assert_says(&probe, RLOCK_REFUSED, RLOCK_REFUSED, "down out of memory");
    /* The second failure is not reported, because its words are the same. */
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

int main(void)
{
    return cases_run(NULL, NULL);
}
