/* test_checkout_items.c - a request in the checkout: its acceptance, its stages, its lock and its
   deadline. */
#include "app/sale/checkout_impl.h"
#include "app/test/sale/checkout_fixture.h"
#include "test/torture.h"

#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_no_random;
static uint64_t next_number; /* what getrandom() returns next; 0: real random numbers */

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): those of the C library
ssize_t getrandom(void *buffer, size_t count, unsigned flags)
{
    uint64_t *numbers = buffer;

    if (has_no_random)
        return -1;
    if (next_number == 0)
        return syscall(SYS_getrandom, buffer, count, flags);
    for (size_t i = 0; i < count / sizeof(*numbers); i++)
        numbers[i] = next_number++;
    return (ssize_t)count;
}

TEST(test_checkout_reserve__counts_in_queue_max)
{
    struct checkout_request request = {.voucher_id = 7, .arrived_us = clock_mono_us()};

    for (int user = 1; user < QUEUE_MAX; user++)
        assert_true(checkout_reserve(fixture.checkout));
    assert_int_equal(checkout_in_flight(fixture.checkout), QUEUE_MAX - 1);
    assert_true(submit(QUEUE_MAX, 7));
    assert_false(checkout_reserve(fixture.checkout));
    assert_false(submit(QUEUE_MAX + 1, 7));
    assert_int_equal(checkout_in_flight(fixture.checkout), QUEUE_MAX);
    torture_fail(1, 0);
    assert_false(checkout_submit_reserved(fixture.checkout, &request, on_answer, NULL));
    assert_true(torture_stop());
    assert_int_equal(checkout_in_flight(fixture.checkout), QUEUE_MAX - 1);
    for (int user = 1; user < QUEUE_MAX - 1; user++) {
        request.user_id = user;
        assert_true(checkout_submit_reserved(fixture.checkout, &request, on_answer,
                                             &fixture.shoppers[user]));
    }
    answer_locks(RLOCK_BUSY);
    assert_all_answered(1, QUEUE_MAX - 2, OUTCOME_IN_PROGRESS);
    assert_true(checkout_reserve(fixture.checkout));
    assert_true(checkout_submit_reserved(fixture.checkout, &request, on_answer,
                                         &fixture.shoppers[QUEUE_MAX + 1]));
    answer_locks(RLOCK_BUSY);
}

/* After a lost connection the look-up finds no order, so the entry is sent again. */
TEST(test_checkout_submit__enters_without_a_lock)
{
    struct checkout_request request = {
        .voucher_id = 7, .user_id = 1, .is_entry = true, .arrived_us = clock_mono_us()};

    assert_true(submit_request(&request));
    assert_unanswered(1);
    assert_int_equal(fake_locks.count, 0);
    turn();
    assert_sent(1, 1);
    assert_int_equal(fake_store.calls[0].placements[0]->fence, 0);
    answer_store(RLOCK_IO, 0);
    pass_ms(TICK_MS);
    assert_true(fake_store.calls[0].is_lookup);
    answer_store(RLOCK_OK, VERDICT_NONE);
    assert_unanswered(1);
    assert_sent(1, 1);
    answer_store(RLOCK_OK, VERDICT_ENTERED);
    assert_answered(1, OUTCOME_ENTERED);
}

/* The first allocation is that of the item, the second that of its queue. */
TEST(test_checkout_submit__refuses_an_entry_without_memory)
{
    struct checkout_request request = {
        .voucher_id = 7, .user_id = 1, .is_entry = true, .arrived_us = clock_mono_us()};

    for (unsigned i = 1; i <= 2; i++) {
        torture_fail(i, 0);
        assert_false(submit_request(&request));
        assert_true(torture_stop());
        assert_unanswered(1);
    }
    assert_true(submit_request(&request));
    turn();
    answer_store(RLOCK_OK, VERDICT_ENTERED);
    assert_answered(1, OUTCOME_ENTERED);
}

TEST(test_checkout_submit__refuses_above_queue_max)
{
    for (int user = 1; user <= QUEUE_MAX; user++)
        assert_true(submit(user, 7));
    assert_false(submit(QUEUE_MAX + 1, 7));
    answer_locks(RLOCK_BUSY);
    assert_true(submit(QUEUE_MAX + 2, 7));
    answer_locks(RLOCK_BUSY);
    assert_answered(QUEUE_MAX + 2, OUTCOME_IN_PROGRESS);
    assert_unanswered(QUEUE_MAX + 1);
}

TEST(test_checkout_submit__copies_the_key)
{
    char bytes[] = "key-1";
    const struct placement *placement;

    assert_true(submit_with_key(1, 7, (struct text){bytes, 5}));
    memset(bytes, 'x', sizeof(bytes));
    answer_locks(RLOCK_OK);
    placement = fake_store.calls[0].placements[0];
    assert_int_equal(placement->key.len, 5);
    assert_memory_equal(placement->key.bytes, "key-1", 5);
    answer_store(RLOCK_OK, VERDICT_PLACED);

    submit_locked(1, 7);
    assert_null(fake_store.calls[0].placements[0]->key.bytes);
    answer_store(RLOCK_OK, VERDICT_PLACED);
}

TEST(test_checkout__log_lines_name_the_request)
{
    struct checkout_request request = {.voucher_id = 7,
                                       .user_id = 1,
                                       .arrived_us = clock_mono_us(),
                                       .trace = "request_id=r"};

    assert_true(submit_request(&request));
    answer_locks(RLOCK_OK);
    answer_store(RLOCK_OK, VERDICT_NONE);
    assert_string_equal(fake_log.fields, "request_id=r voucher_id=7 user_id=1 fence=101");
    assert_string_equal(fake_log.spans, "");
    place(3, 7, VERDICT_NONE);
    assert_string_equal(fake_log.fields, "voucher_id=7 user_id=3 fence=102");
}

/* -- stages -- */

static void assert_stage(enum metrics_stage stage, uint64_t expected_us)
{
    if (fixture.metrics.stages[stage].sum != expected_us)
        fail_msg("stage %s: expected %ju us, got %ju", metrics_stage_names[stage],
                 (uintmax_t)expected_us, (uintmax_t)fixture.metrics.stages[stage].sum);
}

TEST(test_checkout__measures_each_stage)
{
    const struct checkout_request request = {
        .voucher_id = 7,
        .user_id = 1,
        .arrived_us = clock_mono_us(),
        .handed_us = clock_mono_us() + 10,
        .trace = "request_id=r traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-"
                 "00f067aa0ba902b7-01"};

    fake_locks.is_slow = true;
    pass_us(60);
    assert_true(submit_request(&request));
    pass_us(100);
    set_room(0);
    answer_locks(RLOCK_OK);
    pass_us(20);
    set_room(1);
    pass_us(3000);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    pass_us(4);
    answer_releases();
    assert_stage(STAGE_HANDOVER, 50);
    assert_stage(STAGE_LOCK, 100);
    assert_stage(STAGE_QUEUE, 20);
    assert_stage(STAGE_COMMIT, 3000);
    assert_stage(STAGE_UNLOCK, 4);
    assert_stage(STAGE_TOTAL, 3184);
    assert_string_equal(fake_log.spans,
                        "name=handover start_us=1700000000000011 duration_us=50;"
                        "name=lock start_us=1700000000000061 duration_us=100;"
                        "name=queue start_us=1700000000000161 duration_us=20;"
                        "name=commit start_us=1700000000000181 duration_us=3000;"
                        "name=unlock start_us=1700000000003181 duration_us=4;"
                        "name=order start_us=1700000000000001 duration_us=3184;");
    place(2, 7, VERDICT_PLACED);
    answer_releases();
    assert_stage(STAGE_HANDOVER, 50);
    assert_null(strstr(fake_log.spans, ";name=order start_us=1700000000003185"));
}

/* If an order is tried again, STAGE_COMMIT has the time of all its transactions, and STAGE_LOCK the
   time of all its waits for a lock. */
TEST(test_checkout__measures_the_stages_of_repetitions)
{
    assert_true(submit(1, 7));
    answer_locks(RLOCK_OK);
    pass_us(30);
    answer_store(RLOCK_BUSY, 0);
    pass_us(40);
    answer_store(RLOCK_OK, VERDICT_STALE_FENCE);
    pass_us(500);
    answer_locks(RLOCK_OK);
    pass_us(7);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_stage(STAGE_LOCK, 500);
    assert_stage(STAGE_QUEUE, 0);
    assert_stage(STAGE_COMMIT, 77);
    assert_stage(STAGE_TOTAL, 577);
}

/* -- locks -- */

TEST(test_checkout__without_redis_orders_are_refused)
{
    static const enum rlock_status failures[] = {RLOCK_DOWN, RLOCK_IO, RLOCK_TIMEOUT,
                                                 RLOCK_REFUSED};

    for (int i = 0; i < 4; i++) {
        assert_true(submit(i + 1, 7));
        answer_locks(failures[i]);
    }
    assert_all_answered(1, 4, OUTCOME_UNAVAILABLE);
    assert_int_equal(fake_store.count, 0);
}

TEST(test_checkout__counts_locks_that_expired)
{
    place(1, 7, VERDICT_PLACED);
    assert_int_equal(fake_locks.flushes, 1);
    assert_int_equal(fixture.metrics.lock_lost, 0);
    fake_locks.release_status = RLOCK_LOST;
    place(2, 7, VERDICT_PLACED);
    assert_int_equal(fixture.metrics.lock_lost, 1);
    assert_answered(2, OUTCOME_PLACED);
}

/* If another request of the shopper holds the lock, the answer must be "in progress". If the wait
   lasted until the deadline, the answer would be "unavailable". */
TEST(test_checkout__lock_wait_ends_before_the_deadline)
{
    fake_locks.is_down = true;
    assert_true(submit(1, 7));
    ASSERT_NUMBER(fake_locks.options.wait_ms, ==, TIMEOUT_MS * 9 / 10);
    assert_string_equal(fake_locks.name, "lock:order:1");
    ASSERT_NUMBER(fake_locks.options.lease_ms, ==, 30000);
    assert_true(fake_locks.options.watchdog);
    answer_locks(RLOCK_BUSY);
    assert_answered(1, OUTCOME_IN_PROGRESS);
}

TEST_WITH(test_checkout__lock_wait_is_that_of_the_options, .lock_wait_ms = 70)
{
    assert_true(submit(1, 7));
    ASSERT_NUMBER(fake_locks.options.wait_ms, ==, 70);
    answer_locks(RLOCK_BUSY);
}

TEST_WITH(test_checkout__bypass_waits_only_while_redis_is_up, .bypass = true)
{
    assert_true(submit(1, 7));
    ASSERT_NUMBER(fake_locks.options.wait_ms, ==, TIMEOUT_MS * 9 / 10);
    fake_locks.is_down = true;
    assert_true(submit(2, 7));
    ASSERT_NUMBER(fake_locks.options.wait_ms, ==, 0);
    answer_locks(RLOCK_BUSY);
}

TEST_WITH(test_checkout__bypass_needs_a_shopper_who_waits, .bypass = true)
{
    set_room(0); /* without bypass the order would now wait in the queue */
    assert_true(submit(1, 7));
    pass_ms(TIMEOUT_MS);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    answer_locks(RLOCK_DOWN);
    ASSERT_NUMBER(checkout_in_flight(fixture.checkout), ==, 0);
    assert_true(submit(2, 7));
    answer_locks(RLOCK_CANCELLED);
    assert_answered(2, OUTCOME_UNAVAILABLE);
    assert_true(submit(3, 7));
    answer_locks(RLOCK_BUSY);
    assert_answered(3, OUTCOME_IN_PROGRESS);
    ASSERT_NUMBER(fake_store.count, ==, 0);
}

/* The map of the queues needs random bytes when the first queue is created. An order that has
   neither a lock nor an Idempotency-Key needs random bytes for a key. */
TEST_WITH(test_checkout__without_random_bytes_orders_are_refused, .bypass = true)
{
    static const struct {
        enum rlock_status lock;
        struct text key;
        bool has_queue;
        enum outcome outcome;
    } rows[] = {
        {RLOCK_OK, {0}, false, OUTCOME_OVERLOADED},
        {RLOCK_DOWN, {"key", 3}, false, OUTCOME_OVERLOADED},
        {RLOCK_DOWN, {0}, true, OUTCOME_UNAVAILABLE},
        {RLOCK_DOWN, {"key", 3}, true, OUTCOME_PLACED},
    };

    for (int i = 0; i < 4; i++) {
        if (rows[i].has_queue)
            place(10 + i, 7, VERDICT_PLACED);
        has_no_random = true;
        assert_true(submit_with_key(i + 1, 7, rows[i].key));
        answer_locks(rows[i].lock);
        has_no_random = false;
        if (fake_store.count > 0) {
            assert_string_equal(fake_store.calls[0].placements[0]->key.bytes, "key");
            answer_store(RLOCK_OK, VERDICT_PLACED);
        }
        assert_answered(i + 1, rows[i].outcome);
    }
}

/* The keys are random numbers. In this test getrandom() returns 1, 2, 3, ... The map of the queues
   takes 5 and 6. */
TEST_WITH(test_checkout__bypass_replaces_the_fence_by_a_key, .bypass = true)
{
    static const char *const keys[] = {
        "-0000000000000001000000000000000200000000000000030000000000000004",
        "-000000000000000700000000000000080000000000000009000000000000000a"};

    assert_true(submit(1, 7));
    assert_true(submit(2, 7));
    next_number = 1;
    answer_locks(RLOCK_DOWN);
    next_number = 0;
    ASSERT_NUMBER(fake_store.calls[0].count, ==, 2);
    for (int i = 0; i < 2; i++) {
        const struct placement *placement = fake_store.calls[0].placements[i];

        ASSERT_NUMBER(placement->fence, ==, 0);
        assert_string_equal(placement->key.bytes, keys[i]);
        ASSERT_NUMBER(placement->key.len, ==, REQUEST_KEY_MAX + 1);
    }
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

TEST(test_checkout__stale_fence_is_renewed_once)
{
    int64_t fence;

    submit_locked(1, 7);
    fence = fake_store.calls[0].placements[0]->fence;
    answer_store(RLOCK_OK, VERDICT_STALE_FENCE);
    assert_unanswered(1);
    assert_int_equal(fake_locks.raised_above, fence);
    answer_locks(RLOCK_OK);
    assert_true(fake_store.calls[0].placements[0]->fence > fence);
    answer_store(RLOCK_OK, VERDICT_STALE_FENCE);
    assert_answered(1, OUTCOME_UNAVAILABLE);
}

TEST(test_checkout__deadline_while_a_fence_is_renewed)
{
    place(1, 7, VERDICT_STALE_FENCE);
    assert_int_equal(fake_locks.count, 1);
    pass_ms(TIMEOUT_MS);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    answer_locks(RLOCK_OK);
    assert_int_equal(fake_store.count, 0);
    fake_locks.is_slow = true;
    place(2, 7, VERDICT_STALE_FENCE);
    pass_ms(TIMEOUT_MS);
    assert_answered(2, OUTCOME_UNAVAILABLE);
    answer_releases();
    assert_int_equal(fake_locks.count, 0);
}

TEST(test_checkout__lock_lost_in_the_queue_places_nothing)
{
    struct rlock *lock;

    set_room(0);
    assert_true(submit(1, 7));
    lock = fake_locks.requested[0];
    answer_locks(RLOCK_OK);
    lose_lock(lock);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    assert_int_equal(fixture.metrics.lock_lost, 1);
    set_room(1);
    assert_int_equal(fake_store.count, 0);
}

/* After the order was sent, Postgres decides by the fence and the constraints. */
TEST(test_checkout__lock_lost_in_a_transaction_is_taken_again)
{
    submit_locked(1, 7);
    lose_lock(fake_locks.requested[0]);
    ASSERT_NUMBER(fixture.metrics.lock_lost, ==, 1);
    assert_unanswered(1);
    answer_store(RLOCK_OK, VERDICT_STALE_FENCE);
    assert_unanswered(1);
    ASSERT_NUMBER(fake_locks.count, ==, 1);
    answer_locks(RLOCK_OK);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
}

TEST(test_checkout__expired_lease_is_not_sent)
{
    set_room(0);
    submit_locked(1, 7);
    submit_locked(2, 7);
    fake_locks.requested[0]->safe_until_us = clock_mono_us() + 1;
    set_room(1);
    assert_int_equal(fake_store.calls[0].count, 2);
    answer_store(RLOCK_OK, VERDICT_PLACED);

    set_room(0);
    submit_locked(3, 7);
    fake_locks.requested[0]->safe_until_us = clock_mono_us();
    set_room(1);
    assert_int_equal(fake_store.count, 0);
    assert_answered(3, OUTCOME_UNAVAILABLE);
}

/* A tick of the checkout's timer finds releases that take longer than 20 ms. So an answer may be
   late by one tick. */
TEST(test_checkout__slow_release_delays_the_answer_20_ms)
{
    fake_locks.is_slow = true;
    pass_ms(TICK_MS);
    place(1, 7, VERDICT_PLACED);
    pass_us(1);
    place(2, 7, VERDICT_PLACED);
    pass_us(TICK_MS * 1000 - 2);
    assert_unanswered(1);
    pass_us(1);
    assert_answered(1, OUTCOME_PLACED);
    assert_unanswered(2);
    pass_ms(TICK_MS);
    assert_answered(2, OUTCOME_PLACED);
    answer_releases();
    assert_answered(1, OUTCOME_PLACED);
}

/* -- deadlines -- */

TEST(test_checkout__deadline_in_each_state)
{
    assert_true(submit(1, 7)); /* LOCKING at the deadline */
    pass_ms(TIMEOUT_MS + TICK_MS);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    set_room(0);
    answer_locks(RLOCK_OK);
    assert_int_equal(fake_locks.held, 0);
    fake_store.room = 1;

    submit_locked(2, 7); /* SENT at the deadline */
    submit_locked(3, 7); /* QUEUED at the deadline */
    pass_ms(TIMEOUT_MS + TICK_MS);
    assert_answered(2, OUTCOME_UNKNOWN);
    assert_answered(3, OUTCOME_UNAVAILABLE);
    assert_int_equal(fake_locks.held, 1);
    assert_int_equal(fake_log.unknown, 1);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_UNKNOWN);

    submit_locked(4, 7);
    pass_ms(TIMEOUT_MS + TICK_MS);
    answer_store(RLOCK_OK, VERDICT_NONE);
    submit_locked(5, 7);
    pass_ms(TIMEOUT_MS + TICK_MS);
    /* The order is answered already, so it needs no new fence. */
    answer_store(RLOCK_OK, VERDICT_STALE_FENCE);
    assert_int_equal(fake_log.unknown, 3);
    assert_int_equal(fake_locks.raised_above, 0);
}

TEST(test_checkout__deadline_while_a_lock_is_released)
{
    fake_locks.is_slow = true;
    submit_locked(1, 7);
    pass_ms(TIMEOUT_MS - TICK_MS / 2);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_unanswered(1);
    pass_ms(TICK_MS / 2);
    assert_answered(1, OUTCOME_PLACED);
    assert_int_equal(fake_log.unknown, 0);
    answer_releases();
}

TEST(test_checkout__sends_only_with_a_fiftieth_of_the_time_left)
{
    set_room(0);
    submit_locked(1, 7);
    pass_us(1);
    submit_locked(2, 7);
    pass_us(TIMEOUT_MS * INT64_C(980) - 1);
    set_room(1);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    assert_sent(2, 2);
    answer_store(RLOCK_OK, VERDICT_PLACED);
}

/* The requests of shoppers 3 and 4 are not submitted in the sequence of their arrival. */
TEST(test_checkout__deadlines_are_in_order_of_arrival)
{
    int64_t now_us = clock_mono_us();
    const struct checkout_request third = {
        .voucher_id = 7, .user_id = 3, .arrived_us = now_us + 200000};
    const struct checkout_request fourth = {
        .voucher_id = 7, .user_id = 4, .arrived_us = now_us - 200000};

    assert_true(submit(1, 7));
    pass_ms(400);
    assert_true(submit(2, 7) && submit_request(&third) && submit_request(&fourth));
    pass_ms(TIMEOUT_MS - 600);
    assert_answered(4, OUTCOME_UNAVAILABLE);
    assert_unanswered(1);
    pass_ms(200);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    assert_unanswered(3);
    pass_ms(200);
    assert_answered(3, OUTCOME_UNAVAILABLE);
    assert_unanswered(2);
    pass_ms(200);
    assert_answered(2, OUTCOME_UNAVAILABLE);
    answer_locks(RLOCK_OK);
}

TEST(test_checkout__deadline_is_met_within_a_tick)
{
    for (int user = 1; user <= QUEUE_MAX; user++) {
        assert_true(submit(user, 7));
        pass_us(1000);
    }
    pass_ms(TIMEOUT_MS + TICK_MS);
    for (int user = 1; user <= QUEUE_MAX; user++) {
        const struct shopper *shopper = &fixture.shoppers[user];

        assert_answered(user, OUTCOME_UNAVAILABLE);
        assert_in_range(shopper->answered_us - shopper->submitted_us,
                        (int64_t)TIMEOUT_MS * 1000,
                        (int64_t)(TIMEOUT_MS + TICK_MS) * 1000);
    }
    answer_locks(RLOCK_BUSY);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
