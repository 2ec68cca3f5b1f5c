/* test_watchdog.c - renewals, and releases of copies. Only the test moves the clock. */
#include "base/clock.h"
#include "lock/batch.h"
#include "lock/keys.h"
#include "lock/orphan.h"
#include "lock/state.h"
#include "lock/watchdog.h"
#include "test/cases.h"
#include "test/fake.h"
#include "test/frozen_clock.h"
#include "test/torture.h"

#include <stdlib.h>

#define NAME       "item:7"
#define NOW_US     5000000
#define TIMEOUT_MS 1000
#define FAR_US     INT64_MAX
#define LOCKS      3
#define DUE_MAX    20000

struct watchdog_test {
    uv_loop_t loop;
    long blocks; /* number of allocated blocks before the test */
    struct rlock_client *client;
    struct fake *fake;
    struct rlock_watchdog *watchdog;
    struct rlock_orphans *orphans;
    struct rlock_kind kind; /* a kind whose results and cancels are counted */
    struct rlock locks[LOCKS];
};

static struct {
    unsigned results, cancels;
    bool is_closing; /* the callback of the result closes the client */
} seen;

static void count_result(struct rlock_client *client, struct rlock *lock,
                         const struct rlock_result *result)
{
    ASSERT_STATUS(result->status, RLOCK_LOST);
    rlock_watchdog_remove(lock);
    client->is_closing = seen.is_closing;
    seen.results++;
}

static void count_cancel(struct rlock_client *client, struct rlock *lock)
{
    (void)client;
    (void)lock;
    seen.cancels++;
}

static int set_up(void **state)
{
    struct watchdog_test *test = calloc(1, sizeof(*test));
    struct rlock_client_options options = {.loop = &test->loop,
                                           .redis_url = "unix:/tmp/rlock-nobody",
                                           .timeout_ms = TIMEOUT_MS};

    test->blocks = torture_blocks();
    frozen_us = NOW_US;
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(uv_loop_init(&test->loop), 0);
    if (*state != NULL) {
        test->fake = fake_start(&test->loop, NULL);
        options.redis_url = test->fake->url;
    }
    ASSERT_STATUS(rlock_client_open(&options, &test->client, NULL), RLOCK_OK);
    while (test->fake != NULL && !redis_conn_is_up(test->client->servers[0].conn))
        uv_run(&test->loop, UV_RUN_ONCE);
    test->watchdog = &test->client->watchdog;
    test->orphans = &test->client->orphans;
    test->kind = rlock_plain;
    test->kind.renew.on_result = count_result;
    test->kind.renew.on_cancel = count_cancel;
    for (int i = 0; i < LOCKS; i++) {
        struct rlock *lock = &test->locks[i];

        lock->kind = &test->kind;
        lock->watched = true;
        lock->lease_ms = 48000;
        lock->safe_until_us = FAR_US;
        list_init(&lock->watch_link);
        assert_null(rlock_keys_set_name(test->client, lock, NAME, strlen(NAME)));
    }
    *state = test;
    return 0;
}

static int tear_down(void **state)
{
    struct watchdog_test *test = *state;

    if (test->fake != NULL)
        fake_stop(test->fake);
    if (test->client != NULL) {
        test->client->is_closing = false; /* a callback may have set is_closing */
        rlock_client_close(test->client, NULL, NULL);
    }
    while (uv_run(&test->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&test->loop), 0);
    torture_expect_blocks(test->blocks);
    free(test);
    return 0;
}

static void expect_timer(const uv_timer_t *timer, int64_t at_us, int64_t wanted_us)
{
    ASSERT_NUMBER(at_us, ==, wanted_us);
    ASSERT_NUMBER(uv_is_active((const uv_handle_t *)timer), !=, 0);
    ASSERT_NUMBER(uv_timer_get_due_in(timer), ==, clock_ms_until(wanted_us));
    ASSERT_NUMBER(uv_timer_get_repeat(timer), ==, 0);
}

static void expect_watchdog_at(const struct watchdog_test *test, int64_t wanted_us)
{
    expect_timer(&test->watchdog->timer, test->watchdog->timer_at_us, wanted_us);
}

static void expect_orphans_at(const struct watchdog_test *test, int64_t wanted_us)
{
    expect_timer(&test->orphans->timer, test->orphans->timer_at_us, wanted_us);
}

static void expect_in(const struct rlock_link *list, const struct rlock *lock)
{
    if (list_count(list) != 1 || list->next != &lock->watch_link)
        fail_msg("expected the lock alone, got a list of %zu", list_count(list));
}

/** Put the lock into `overdue`, as after a lost connection. */
static void make_overdue(struct watchdog_test *test, struct rlock *lock)
{
    rlock_watchdog_hurry(test->client, lock);
    expect_watchdog_at(test, frozen_us);
}

static void tick(struct watchdog_test *test)
{
    test->watchdog->timer.timer_cb(&test->watchdog->timer);
}

#define DOWN_CASE(name) DEFINE_CASE(name, name, set_up, tear_down, NULL)
#define UP_CASE(name)   DEFINE_CASE(name, name, set_up, tear_down, &seen)

/* -- renewals -- */

DOWN_CASE(test_rlock_watchdog_set__is_due_after_a_third_of_the_lease)
{
    static const struct {
        uint32_t lease_ms;
        unsigned bucket;
        int64_t third_us;
    } cases[] = {
        {10, 26, 3333},
        {15, 31, 5000},
        {16, 32, 5333},
        {17, 32, 5666},
        {18, 33, 6000},
        {31, 39, 10333},
        {32, 40, 10666},
        {30000, 118, 10000000},
        {86400000, 210, 28800000000},
        {UINT32_MAX, 255, 1431655765000},
    };
    struct watchdog_test *test = *state;
    struct rlock *lock = &test->locks[0];

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        lock->lease_ms = cases[i].lease_ms;
        test->watchdog->timer_at_us = INT64_MAX;
        rlock_watchdog_set(test->client, lock, NOW_US - 7);
        expect_in(&test->watchdog->buckets[cases[i].bucket], lock);
        ASSERT_NUMBER(lock->renew_at_us, ==, NOW_US - 7 + cases[i].third_us);
        expect_watchdog_at(test, lock->renew_at_us);
        rlock_watchdog_remove(lock);
        assert_true(list_is_empty(&test->watchdog->buckets[cases[i].bucket]));
    }
}

DOWN_CASE(test_rlock_watchdog_set__wakes_for_the_earliest)
{
    struct watchdog_test *test = *state;

    rlock_watchdog_set(test->client, &test->locks[0], NOW_US);
    rlock_watchdog_set(test->client, &test->locks[1], NOW_US + 1);
    expect_watchdog_at(test, NOW_US + 16000000);
    rlock_watchdog_set(test->client, &test->locks[2], NOW_US - 1);
    expect_watchdog_at(test, NOW_US + 15999999);
    rlock_watchdog_set(test->client, &test->locks[0], NOW_US + 2);
    assert_int_equal(list_count(test->watchdog->buckets + 123), 3);
    assert_ptr_equal(test->watchdog->buckets[123].prev, &test->locks[0].watch_link);
    make_overdue(test, &test->locks[0]);
    expect_in(&test->watchdog->overdue, &test->locks[0]);
    assert_int_equal(list_count(test->watchdog->buckets + 123), 2);
}

DOWN_CASE(test_watchdog__leaves_unwatched_locks_alone)
{
    struct watchdog_test *test = *state;
    struct rlock *lock = &test->locks[0];

    lock->watched = false;
    rlock_watchdog_set(test->client, lock, NOW_US);
    rlock_watchdog_hurry(test->client, lock);
    assert_true(list_is_empty(&lock->watch_link));
    ASSERT_NUMBER(test->watchdog->timer_at_us, ==, INT64_MAX);
    ASSERT_STATUS(rlock_batch_add(test->client, &test->kind.release, lock), RLOCK_OK);
    rlock_watchdog_remove(lock);
    assert_non_null(lock->batch);
    rlock_batch_leave(lock);
}

DOWN_CASE(test_watchdog__renews_those_that_are_nearly_due_with_the_first)
{
    enum { SLACK_US = 1000000 }; /* a sixteenth of a third of the lease of 48 s */
    struct watchdog_test *test = *state;
    struct rlock *locks = test->locks;

    for (int i = 0; i < LOCKS; i++)
        rlock_watchdog_set(test->client, &locks[i], NOW_US - 16000000);
    locks[0].renew_at_us = NOW_US;
    locks[1].renew_at_us = NOW_US + SLACK_US;
    locks[2].renew_at_us = NOW_US + SLACK_US + 1;
    tick(test);
    assert_int_equal(list_count(&test->watchdog->overdue), 2);
    expect_in(test->watchdog->buckets + 123, &locks[2]);
    expect_watchdog_at(test, NOW_US + 500000); /* the first retry */

    rlock_watchdog_remove(&locks[0]);
    rlock_watchdog_remove(&locks[1]);
    locks[2].renew_at_us = NOW_US + 1;
    tick(test);
    expect_in(test->watchdog->buckets + 123, &locks[2]);
    expect_watchdog_at(test, NOW_US + 1);
}

DOWN_CASE(test_watchdog__retries_after_a_fiftieth_of_the_lease)
{
    static const struct {
        uint32_t lease_ms;
        int64_t safe_us, retry_us;
    } cases[] = {
        {10, 1000000, 20000},     {1000, 1000000, 20000},
        {1050, 1000000, 21000},   {24000, 1000000, 480000},
        {26000, 1000000, 500000}, {24000, 480001, 480000},
        {24000, 479999, 479999},  {24000, 1, 1},
    };
    struct watchdog_test *test = *state;
    struct rlock *lock = &test->locks[0];

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        lock->lease_ms = cases[i].lease_ms;
        lock->safe_until_us = NOW_US + cases[i].safe_us;
        make_overdue(test, lock);
        tick(test);
        expect_in(&test->watchdog->overdue, lock);
        expect_watchdog_at(test, NOW_US + cases[i].retry_us);
        assert_null(lock->batch); /* the connection is down */
    }
    ASSERT_NUMBER(test->client->stats.failed, ==, 0);
}

DOWN_CASE(test_watchdog__loses_a_lock_when_its_lease_ends)
{
    struct watchdog_test *test = *state;

    test->locks[0].safe_until_us = NOW_US;
    make_overdue(test, &test->locks[0]);
    make_overdue(test, &test->locks[1]);
    tick(test);
    assert_int_equal(seen.results, 1);
    expect_in(&test->watchdog->overdue, &test->locks[1]);
    /* the server may still have the lock */
    assert_int_equal(test->orphans->due_count, 1);
}

DOWN_CASE(test_watchdog__ends_when_a_callback_closes_the_client)
{
    struct watchdog_test *test = *state;

    seen.is_closing = true;
    for (int i = 0; i < LOCKS; i++) {
        test->locks[i].safe_until_us = NOW_US - i;
        make_overdue(test, &test->locks[i]);
    }
    tick(test);
    assert_int_equal(seen.results, 1);
    assert_int_equal(seen.cancels, 2);
    assert_true(list_is_empty(&test->watchdog->overdue));
}

DOWN_CASE(test_rlock_watchdog_close__cancels_each_lock)
{
    struct watchdog_test *test = *state;

    make_overdue(test, &test->locks[0]);
    rlock_watchdog_set(test->client, &test->locks[1], NOW_US);
    test->locks[2].lease_ms = UINT32_MAX;
    rlock_watchdog_set(test->client, &test->locks[2], NOW_US);
    rlock_client_close(test->client, NULL, NULL);
    test->client = NULL;
    assert_int_equal(seen.cancels, 3);
}

UP_CASE(test_rlock_watchdog_resume__renews_what_is_overdue)
{
    struct watchdog_test *test = *state;
    struct rlock *locks = test->locks;

    rlock_watchdog_set(test->client, &locks[1], NOW_US - 16000000);
    rlock_watchdog_resume(test->client); /* no lock is overdue */
    assert_null(locks[1].batch);
    make_overdue(test, &locks[0]);
    make_overdue(test, &locks[2]);
    ASSERT_STATUS(rlock_batch_add(test->client, &test->kind.release, &locks[2]),
                  RLOCK_OK);
    rlock_watchdog_resume(test->client);
    for (int i = 0; i < LOCKS; i++) {
        if (locks[i].batch == NULL || !rlock_batch_is_sent(&locks[i]))
            fail_msg("lock %d is not renewed", i);
        rlock_batch_leave(&locks[i]);
    }
    assert_int_equal(test->client->stats.failed, 0);
    torture_fail(1, 0);
    rlock_watchdog_resume(test->client);
    assert_true(torture_stop());
    assert_int_equal(test->client->stats.failed, 1);
    for (int i = 0; i < LOCKS; i++)
        rlock_watchdog_remove(&locks[i]);
}

/* -- copies -- */

static size_t count_of(const struct rlock_link *list, struct rlock **ret_first)
{
    *ret_first = list_item(list->next, struct rlock, link);
    return list_count(list);
}

DOWN_CASE(test_orphan__is_released_until_the_result_is_certain)
{
    static const struct {
        enum rlock_status status;
        unsigned tries;
        int64_t exists_us;
        bool is_closing;
        /* lengths of the lists `due` and `second` afterwards */
        size_t due, second;
    } cases[] = {
        {RLOCK_OK, 1, 1, false, 0, 0},      {RLOCK_REFUSED, 1, 1, false, 0, 0},
        {RLOCK_LOST, 1, 1, false, 0, 1},    {RLOCK_LOST, 2, 1, false, 0, 0},
        {RLOCK_LOST, 0, 1, false, 0, 0},    {RLOCK_LOST, 1, 1, true, 0, 0},
        {RLOCK_LOST, 1, 0, false, 0, 1},    {RLOCK_TIMEOUT, 1, 1, false, 1, 0},
        {RLOCK_TIMEOUT, 2, 1, false, 1, 0}, {RLOCK_TIMEOUT, 1, 0, false, 0, 0},
        {RLOCK_TIMEOUT, 1, 1, true, 0, 0},  {RLOCK_IO, 0, 1, false, 1, 0},
        {RLOCK_DOWN, 1, 1, false, 1, 0},
    };
    struct watchdog_test *test = *state;
    struct rlock *copy;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        /* the copy waits, because the client is down */
        rlock_orphan_unknown(test->client, &test->locks[0]);
        assert_int_equal(count_of(&test->orphans->due, &copy), 1);
        assert_true(rlock_orphan_owns(copy));
        list_remove(&copy->link);
        test->orphans->due_count = 0;
        test->orphans->timer_at_us = INT64_MAX;
        copy->tries = (uint8_t)cases[i].tries;
        copy->safe_until_us = NOW_US + cases[i].exists_us;
        test->client->is_closing = cases[i].is_closing;
        copy->callback(copy, cases[i].status, copy->arg);
        test->client->is_closing = false;
        if (list_count(&test->orphans->due) != cases[i].due ||
            test->orphans->due_count != cases[i].due ||
            list_count(&test->orphans->second) != cases[i].second ||
            list_count(&test->orphans->spare) != 1 - cases[i].due - cases[i].second)
            fail_msg("case %zu: it is in the wrong list", i);
        if (cases[i].due > 0)
            assert_int_equal(copy->tries, 1);
        if (cases[i].second > 0) {
            assert_int_equal(copy->tries, 2);
            ASSERT_NUMBER(copy->renew_at_us, ==, NOW_US + 1000000);
            expect_orphans_at(test, NOW_US + 1000000);
        }
        list_remove(&copy->link);
        rlock_orphan_recycle(test->client, copy);
        test->orphans->due_count = 0;
    }
}

DOWN_CASE(test_orphan__has_all_that_a_release_needs)
{
    static const struct {
        enum rlock_state state;
        uint32_t hold_min_ms;
    } cases[] = {{RLOCK_STATE_ACQUIRING, 0}, {RLOCK_STATE_HELD, 5}};
    struct watchdog_test *test = *state;
    struct rlock *lock = &test->locks[0], *copy,
                 *spare = rlock_orphan_spare(test->client);

    lock->serial = 1;
    lock->began_us = 2;
    lock->holder = 3;
    lock->is_counted = true;
    lock->hold_min_ms = 5;
    for (size_t i = 0; i < 2; i++) {
        spare->tries = 9; /* left by the last use of this memory */
        spare->name_len = 1;
        rlock_orphan_recycle(test->client, spare);
        lock->state = (uint8_t)cases[i].state;
        rlock_orphan_now(test->client, lock);
        assert_non_null(spare->batch);
        assert_ptr_equal(spare->kind, lock->kind);
        assert_true(rlock_orphan_owns(spare));
        assert_false(rlock_orphan_owns(lock));
        assert_ptr_equal(spare->arg, test->client);
        ASSERT_NUMBER(spare->serial, ==, 1);
        ASSERT_NUMBER(spare->began_us, ==, 2);
        ASSERT_NUMBER(spare->holder, ==, 3);
        ASSERT_NUMBER(spare->hold_min_ms, ==, cases[i].hold_min_ms);
        ASSERT_NUMBER(spare->safe_until_us, ==, NOW_US + (48000 + TIMEOUT_MS) * 1000);
        ASSERT_NUMBER(spare->tries, ==, 0);
        assert_true(spare->is_counted);
        ASSERT_NUMBER(spare->name_len, ==, strlen(NAME));
        assert_memory_equal(spare->name, NAME, strlen(NAME));
        rlock_batch_leave(spare);
    }
    rlock_orphan_recycle(test->client, spare);
    rlock_orphan_later(test->client, lock);
    assert_int_equal(count_of(&test->orphans->second, &copy), 1);
    assert_int_equal(copy->tries, 2);
    expect_orphans_at(test, NOW_US + 1000000);
}

DOWN_CASE(test_orphan__takes_the_place_of_a_lock_in_its_batch)
{
    struct watchdog_test *test = *state;
    struct rlock *lock = &test->locks[0], *copy = rlock_orphan_spare(test->client);

    rlock_orphan_recycle(test->client, copy);
    ASSERT_STATUS(rlock_batch_add(test->client, &test->kind.release, lock), RLOCK_OK);
    rlock_orphan_take_over(test->client, lock);
    assert_null(lock->batch);
    assert_non_null(copy->batch);
    rlock_batch_leave(copy);
    ASSERT_STATUS(rlock_batch_add(test->client, &test->kind.release, lock), RLOCK_OK);
    torture_fail(1, 3);
    rlock_orphan_take_over(test->client, lock);
    rlock_orphan_now(test->client, lock);
    rlock_orphan_unknown(test->client, lock);
    rlock_orphan_later(test->client, lock);
    assert_true(torture_stop());
    assert_null(lock->batch);
    assert_int_equal(test->orphans->due_count, 0);
    rlock_orphan_recycle(test->client, copy);
}

DOWN_CASE(test_orphan__is_left_to_its_lease_while_the_client_finishes)
{
    struct watchdog_test *test = *state;
    struct rlock *copy = rlock_orphan_spare(test->client);

    rlock_orphan_recycle(test->client, copy);
    test->client->may_finish = true;
    rlock_orphan_now(test->client, &test->locks[0]);
    rlock_orphan_later(test->client, &test->locks[0]);
    assert_ptr_equal(test->orphans->spare.next, &copy->link);
    test->client->may_finish = false;
}

DOWN_CASE(test_orphans__beyond_the_most_leave_the_oldest_to_its_lease)
{
    struct watchdog_test *test = *state;
    struct rlock *copy;

    for (int i = 0; i <= DUE_MAX; i++) {
        test->locks[0].serial = (uint64_t)i;
        rlock_orphan_unknown(test->client, &test->locks[0]);
    }
    assert_int_equal(test->orphans->due_count, DUE_MAX);
    assert_int_equal(count_of(&test->orphans->due, &copy), DUE_MAX);
    assert_int_equal(copy->serial, 1);
    assert_int_equal(count_of(&test->orphans->spare, &copy), 1);
    assert_int_equal(copy->serial, 0);
    copy = rlock_orphan_spare(test->client);
    rlock_orphan_recycle(test->client, rlock_orphan_spare(test->client));
    rlock_orphan_recycle(test->client, copy);
    rlock_orphan_unknown(test->client, &test->locks[0]);
    assert_int_equal(count_of(&test->orphans->due, &copy), DUE_MAX);
    assert_int_equal(copy->serial, 2);
    assert_int_equal(count_of(&test->orphans->spare, &copy), 2);
    ASSERT_NUMBER(test->orphans->timer_at_us, ==, INT64_MAX); /* the connection is down */
    rlock_orphan_resume(test->client);
    assert_int_equal(test->orphans->due_count, 0);
    assert_true(list_is_empty(&test->orphans->due));
}

UP_CASE(test_orphans__are_released_again_in_their_turn)
{
    struct watchdog_test *test = *state;
    struct rlock *copies[2];

    for (int i = 0; i < 2; i++) {
        rlock_orphan_later(test->client, &test->locks[i]);
        copies[i] = list_item(test->orphans->second.prev, struct rlock, link);
        frozen_us += 1;
        ASSERT_NUMBER(test->orphans->timer_at_us, ==, NOW_US + 1000000);
    }
    frozen_us = NOW_US + 1000000;
    test->orphans->timer.timer_cb(&test->orphans->timer);
    assert_non_null(copies[0]->batch);
    assert_true(rlock_batch_is_sent(copies[0]));
    assert_null(copies[1]->batch);
    expect_orphans_at(test, NOW_US + 1000001);
    assert_int_equal(list_count(&test->orphans->second), 1);
}

UP_CASE(test_orphan__that_the_server_does_not_take_is_retried)
{
    struct watchdog_test *test = *state;
    struct rlock *copy;

    rlock_orphan_unknown(test->client, &test->locks[0]); /* the connection is up */
    assert_int_equal(test->orphans->due_count, 0);
    test->client->is_closing = true;
    rlock_orphan_unknown(test->client, &test->locks[1]);
    test->client->is_closing = false;
    assert_int_equal(test->orphans->due_count, 1);
    ASSERT_NUMBER(test->orphans->timer_at_us, ==, INT64_MAX);
    copy = LIST_SHIFT(struct rlock, &test->orphans->due, link);
    copy->callback(copy, RLOCK_DOWN, copy->arg);
    expect_orphans_at(test, NOW_US + 100000);
    test->orphans->timer.timer_cb(&test->orphans->timer);
    assert_true(rlock_batch_is_sent(copy));
    ASSERT_NUMBER(test->orphans->timer_at_us, ==, INT64_MAX);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
