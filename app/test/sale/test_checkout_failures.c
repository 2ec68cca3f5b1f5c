/* test_checkout_failures.c - the checkout when transactions fail, wait for rows, or end unknown. */
#include "app/test/sale/checkout_fixture.h"

/* -- transactions that fail -- */

TEST(test_checkout__refused_row_is_isolated)
{
    set_room(0);
    for (int user = 1; user <= 8; user++)
        submit_locked(user, 7);
    set_room(1);
    while (fake_store.count > 0) {
        bool has_refused = false;

        for (size_t i = 0; i < fake_store.calls[0].count; i++)
            has_refused |= fake_store.calls[0].placements[i]->user_id == 6;
        answer_store(has_refused ? RLOCK_REFUSED : RLOCK_OK, VERDICT_PLACED);
    }
    for (int user = 1; user <= 8; user++)
        assert_answered(user, user == 6 ? OUTCOME_INTERNAL : OUTCOME_PLACED);
    assert_int_equal(fixture.metrics.batch_splits, 3);
}

TEST(test_checkout__rolled_back_orders_are_tried_again)
{
    submit_locked(1, 7);
    submit_locked(2, 7);
    answer_store(RLOCK_BUSY, 0);
    assert_unanswered(1);
    assert_sent(1, 2);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_all_answered(1, 2, OUTCOME_PLACED);
}

/* Each item counts its transactions. When its memory is used for another order, the count must
   begin again. */
TEST(test_checkout__fails_after_5_transactions)
{
    for (int user = 1; user <= 3; user++) {
        submit_locked(user, 7);
        for (int i = 0; i < 4; i++)
            answer_store(RLOCK_BUSY, 0);
        assert_sent(user, user);
        if (user == 3)
            continue;
        answer_store(RLOCK_OK, VERDICT_STALE_FENCE);
        answer_locks(RLOCK_OK);
        answer_store(RLOCK_OK, VERDICT_PLACED);
        assert_answered(user, OUTCOME_PLACED);
    }
    answer_store(RLOCK_BUSY, 0);
    assert_answered(3, OUTCOME_UNAVAILABLE);
}

static void fail_slowly(void)
{
    pass_ms(TIMEOUT_MS / 100);
    answer_store(RLOCK_BUSY, 0);
}

TEST(test_checkout__slow_voucher_leaves_room_for_others)
{
    submit_locked(1, 7);
    fake_store.slow_room = 0;
    fail_slowly();
    assert_int_equal(fake_store.count, 0);
    submit_locked(2, 8);
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    fake_store.slow_room = 1;
    turn();
    assert_true(fake_store.calls[0].is_slow);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
}

TEST(test_checkout__slow_voucher_becomes_fast_again)
{
    submit_locked(1, 7);
    submit_locked(2, 7);
    fail_slowly();
    submit_locked(3, 7);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
    assert_int_equal(fake_store.calls[0].count, 1);
    assert_false(fake_store.calls[0].is_slow);
    pass_ms(TIMEOUT_MS / 10); /* slow, although the transaction succeeds */
    submit_locked(4, 7);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_true(fake_store.calls[0].is_slow);
    answer_store(RLOCK_OK, VERDICT_PLACED);
}

TEST(test_checkout__waits_for_a_row_until_the_deadline)
{
    int transactions = 0;

    submit_locked(1, 7);
    for (; fake_store.count > 0; transactions++)
        fail_slowly();
    assert_answered(1, OUTCOME_UNAVAILABLE);
    assert_in_range(transactions, 90, 100);
}

/* Postgres has cancelled the statement because it took too long. A repetition would be cancelled,
   too. */
TEST(test_checkout__repeats_nothing_that_takes_too_long)
{
    submit_locked(1, 7);
    pass_ms(TIMEOUT_MS * 2 / 5);
    submit_locked(2, 7);
    fake_store.slow_room = 0;
    answer_store(RLOCK_BUSY, 0);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    fake_store.slow_room = 1;
    turn();
    assert_int_equal(fake_store.calls[0].count, 1);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

/* The transaction has failed, so it is known that nothing was placed. */
TEST(test_checkout__deadline_after_a_failed_transaction)
{
    submit_locked(1, 7);
    fake_store.slow_room = 0;
    fail_slowly();
    pass_ms(TIMEOUT_MS);
    assert_answered(1, OUTCOME_UNAVAILABLE);
    assert_int_equal(fake_log.unknown, 0);
}

TEST(test_checkout__lost_connection_makes_no_voucher_slow)
{
    submit_locked(1, 7);
    pass_ms(TIMEOUT_MS / 100);
    answer_store(RLOCK_DOWN, 0);
    assert_false(fake_store.calls[0].is_slow);
    submit_locked(2, 7);
    pass_ms(TIMEOUT_MS / 100);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_false(fake_store.calls[0].is_slow);
    answer_store(RLOCK_OK, VERDICT_PLACED);
}

TEST(test_checkout__cancelled_orders_are_unknown)
{
    submit_locked(1, 7);
    answer_store(RLOCK_CANCELLED, 0);
    assert_answered(1, OUTCOME_UNKNOWN);
    submit_locked(2, 7);
    answer_store(RLOCK_IO, 0);
    pass_ms(TICK_MS);
    answer_store(RLOCK_CANCELLED, 0);
    assert_answered(2, OUTCOME_UNKNOWN);
    assert_int_equal(fake_store.count, 0);
}

TEST(test_checkout__unknown_commit_is_looked_up)
{
    submit_locked(1, 7);
    answer_store(RLOCK_IO, 0);
    submit_locked(2, 7);
    assert_int_equal(fake_store.count, 0);
    pass_ms(TICK_MS);
    assert_int_equal(fake_store.count, 1);
    assert_true(fake_store.calls[0].is_lookup);
    assert_int_equal(fixture.metrics.outcome_lookups, 1);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_int_equal(fixture.shoppers[1].order_id, 1001);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

/* Places an order without a lock. The answer to the commit is lost, and the look-up finds a row. If
   age_us is 0, the row was created when the batch was sent, so it can be the order of this request.
   Otherwise the row is older by age_us. */
static void bypass_and_look_up(int user, struct text key, int64_t age_us)
{
    assert_true(submit_with_key(user, 7, key));
    answer_locks(RLOCK_DOWN);
    answer_store(RLOCK_IO, 0);
    pass_ms(TICK_MS);
    fake_store.created_us =
        clock_real_us() - TICK_MS * INT64_C(1000) - CLOCK_ERROR_US - age_us;
    answer_store(RLOCK_OK, VERDICT_PLACED);
}

/* The order has no fence, so the look-up uses the Idempotency-Key. If an earlier request had the
   same key, the look-up finds the order of the earlier request. */
TEST_WITH(test_checkout__bypassed_order_of_earlier_is_repeated, .bypass = true)
{
    const struct text key = {"key", 3}, none = {0};

    bypass_and_look_up(1, key, 1);
    assert_answered(1, OUTCOME_REPEATED);
    bypass_and_look_up(2, key, 0);
    assert_answered(2, OUTCOME_PLACED);
    /* The key is random, so the row belongs to this request, and the clock was set back. */
    bypass_and_look_up(3, none, 1000000);
    assert_answered(3, OUTCOME_PLACED);
}

TEST(test_checkout__uncommitted_orders_are_tried_again)
{
    submit_locked(1, 7);
    answer_store(RLOCK_TIMEOUT, 0);
    pass_ms(TICK_MS);
    answer_store(RLOCK_OK, VERDICT_NONE);
    assert_unanswered(1);
    assert_false(fake_store.calls[0].is_lookup);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
}

TEST(test_checkout__unknown_outcome_is_answered_unknown)
{
    submit_locked(1, 7);
    answer_store(RLOCK_IO, 0);
    pass_ms(TICK_MS);
    answer_store(RLOCK_DOWN, 0);
    assert_unanswered(1);
    pass_ms(TIMEOUT_MS);
    assert_answered(1, OUTCOME_UNKNOWN);
    assert_int_equal(fake_locks.held, 1);
    answer_store(RLOCK_DOWN, 0);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
