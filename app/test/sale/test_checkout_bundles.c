/* test_checkout_bundles.c - the checkout sends bundles: batches of several vouchers in a
   transaction. */
#include "app/test/sale/checkout_fixture.h"

#define LONG 64

static void submit_bundle(int vouchers)
{
    set_room(0);
    for (int user = 1; user <= vouchers; user++)
        submit_locked(user, 6 + user);
    set_room(1);
}

static void answer_each(int batches, enum rlock_status status)
{
    for (int i = 0; i < batches; i++)
        answer_store(status, VERDICT_PLACED);
}

TEST(test_checkout__short_queues_share_a_transaction)
{
    submit_bundle(3);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_store.calls[i].voucher_id, 7 + i);
        assert_int_equal(fake_store.calls[i].is_behind, i > 0);
    }
    answer_store(RLOCK_OK, VERDICT_PLACED);
    answer_store(RLOCK_OK, VERDICT_SOLD_OUT);
    assert_int_equal(fake_locks.flushes, 0);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_int_equal(fake_locks.flushes, 1);
    assert_answered(1, OUTCOME_PLACED);
    assert_answered(2, OUTCOME_SOLD_OUT);
    assert_answered(3, OUTCOME_PLACED);
}

/* The fixture allows three vouchers in a bundle. */
TEST(test_checkout__a_transaction_has_a_bounded_number_of_vouchers)
{
    submit_bundle(6);
    for (int bundle = 0; bundle < 2; bundle++) {
        assert_int_equal(fake_store.count, 3);
        for (int i = 0; i < 3; i++)
            assert_int_equal(fake_store.calls[i].is_behind, i != 0);
        answer_each(3, RLOCK_OK);
    }
    assert_answered(6, OUTCOME_PLACED);
}

/* The fixture allows eight orders in a transaction. The next bundle waits for the first. */
TEST(test_checkout__a_transaction_has_a_bounded_number_of_orders)
{
    set_room(0);
    for (int user = 1; user <= 8; user++)
        submit_locked(user, user <= 5 ? 7 : 8);
    submit_locked(9, 9);
    set_room(2);
    assert_int_equal(fake_store.count, 2);
    assert_true(fake_store.calls[1].is_behind);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_int_equal(fake_store.calls[0].voucher_id, 9);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(9, OUTCOME_PLACED);
}

TEST_WITH(test_checkout__bundle_leaves_the_last_lane_to_itself, .batch_max = QUEUE_MAX)
{
    set_room(0);
    submit_locked(1, 8);
    for (int user = 2; user <= 1 + LONG; user++)
        submit_locked(user, 7);
    set_room(1);
    assert_int_equal(fake_store.count, 1);
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    answer_all();
    assert_answered(1 + LONG, OUTCOME_PLACED);
}

static size_t submit_two_bundles(void)
{
    size_t count;

    submit_bundle(3);
    fake_store.room = 1;
    for (int user = 4; user <= 6; user++)
        submit_locked(user, 6 + user);
    turn();
    pass_ms(1);
    count = fake_store.count;
    answer_all();
    assert_answered(6, OUTCOME_PLACED);
    return count;
}

TEST(test_checkout__second_bundle_waits_for_the_first)
{
    assert_int_equal(submit_two_bundles(), 3);
}

TEST_WITH(test_checkout__second_bundle_is_sent_after_an_early_one, .is_early = true)
{
    assert_int_equal(submit_two_bundles(), 6);
}

TEST_WITH(test_checkout__orders_of_an_early_bundle_stop_counting_one_by_one,
          .is_early = true)
{
    submit_bundle(4);
    set_room(1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fake_store.count, 3);
        fake_store.calls[i].released(fake_store.calls[i].arg);
        turn();
    }
    assert_int_equal(fake_store.count, 4);
    answer_all();
    assert_answered(4, OUTCOME_PLACED);
}

/* A commit under way may take long. The next bundle waits at most 10 ms for it. */
TEST(test_checkout__gathers_for_10_ms_at_most)
{
    submit_bundle(3);
    fake_store.room = 1;
    submit_locked(4, 10);
    pass_ms(9);
    assert_int_equal(fake_store.count, 3);
    pass_ms(2);
    assert_int_equal(fake_store.count, 4);
    answer_all();
    assert_answered(4, OUTCOME_PLACED);
}

/* A lost connection does not mean that a row is locked. So the vouchers still share a
   transaction. */
TEST(test_checkout__lost_connections_keep_vouchers_together)
{
    submit_bundle(2);
    for (int i = 0; i < 4; i++) {
        assert_true(fake_store.calls[1].is_behind);
        answer_each(2, RLOCK_DOWN);
    }
    assert_true(fake_store.calls[1].is_behind);
    answer_all();
    assert_answered(2, OUTCOME_PLACED);
}

/* Voucher 8 was left out of three bundles because its row was locked. Now its batch is
   sent alone and waits for the row, and no other voucher has to wait with it. */
TEST(test_checkout__voucher_left_out_three_times_is_sent_alone)
{
    submit_bundle(2);
    for (int user = 3; user <= 5; user++) {
        assert_true(fake_store.calls[1].is_behind);
        assert_int_equal(fake_store.calls[1].voucher_id, 8);
        submit_locked(user, 6 + user);
        answer_store(RLOCK_OK, VERDICT_PLACED);
        answer_store(RLOCK_BUSY, 0);
        assert_unanswered(2);
    }
    assert_int_equal(fake_store.count, 2);
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    assert_true(fake_store.calls[0].is_slow);
    assert_false(fake_store.calls[1].is_behind);
    answer_all();
    assert_all_answered(1, 5, OUTCOME_PLACED);
}

/* A bundle that has waited for a transaction of another instance was refused late. If its vouchers
   were sent one by one, they would wait even longer. */
TEST(test_checkout__vouchers_of_a_late_bundle_remain_together)
{
    submit_bundle(3);
    pass_ms(TIMEOUT_MS / 25);
    answer_each(3, RLOCK_BUSY);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_store.calls[i].is_behind, i > 0);
        assert_false(fake_store.calls[i].is_slow);
    }
    answer_all();
    assert_answered(3, OUTCOME_PLACED);
}

TEST(test_checkout__refused_bundle_is_sent_voucher_by_voucher)
{
    submit_bundle(3);
    fake_store.slow_room = 3;
    answer_each(3, RLOCK_REFUSED);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++)
        assert_false(fake_store.calls[i].is_behind);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    answer_store(RLOCK_REFUSED, 0);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_answered(2, OUTCOME_INTERNAL);
    assert_answered(3, OUTCOME_PLACED);
}

TEST(test_checkout__lost_bundle_is_looked_up)
{
    submit_bundle(3);
    answer_each(3, RLOCK_IO);
    pass_ms(20);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++)
        assert_true(fake_store.calls[i].is_lookup);
    answer_all();
    assert_answered(2, OUTCOME_PLACED);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
