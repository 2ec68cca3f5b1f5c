/* test_checkout_bundles.c - the checkout: vouchers that share a transaction. */
#include "app/test/sale/checkout_fixture.h"

#define LONG 64 /* a queue of this length shares no transaction with other vouchers */

/* Shoppers 1, 2 and 3 order vouchers 7, 8 and 9 at the same time. */
static void submit_bundle(void)
{
    fake_store.room = 0;
    for (int user = 1; user <= 3; user++)
        submit_locked(user, 6 + user);
    fake_store.room = 1;
    turn();
}

static void test_checkout__short_queues_share_a_transaction(void **state UNUSED)
{
    submit_bundle();
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_store.calls[i].voucher_id, 7 + i);
        assert_int_equal(fake_store.calls[i].is_behind, i > 0);
    }
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_OK, VERDICT_SOLD_OUT);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_answered(2, OUTCOME_SOLD_OUT);
    assert_answered(3, OUTCOME_PLACED);
}

/* In this test a bundle has at most three vouchers. */
static void
test_checkout__a_transaction_has_a_bounded_number_of_vouchers(void **state UNUSED)
{
    fake_store.room = 0;
    for (int user = 1; user <= 6; user++)
        submit_locked(user, 6 + user);
    fake_store.room = 2;
    turn();
    for (int bundle = 0; bundle < 2; bundle++) {
        assert_int_equal(fake_store.count, 3);
        for (int i = 0; i < 3; i++)
            assert_int_equal(fake_store.calls[i].is_behind, i != 0);
        for (int i = 0; bundle == 0 && i < 3; i++)
            answer_store(STATUS_OK, VERDICT_PLACED);
    }
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(6, OUTCOME_PLACED);
}

/* In this test a bundle has at most eight orders. The next bundle waits for the first. */
static void
test_checkout__a_transaction_has_a_bounded_number_of_orders(void **state UNUSED)
{
    fake_store.room = 0;
    for (int user = 1; user <= 8; user++)
        submit_locked(user, user <= 5 ? 7 : 8);
    submit_locked(9, 9);
    fake_store.room = 2;
    turn();
    assert_int_equal(fake_store.count, 2);
    assert_true(fake_store.calls[1].is_behind);
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_int_equal(fake_store.calls[0].voucher_id, 9);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(9, OUTCOME_PLACED);
}

static void test_checkout__long_queue_shares_no_transaction(void **state UNUSED)
{
    fake_store.room = 0;
    submit_locked(1, 8);
    for (int user = 2; user <= 1 + LONG; user++)
        submit_locked(user, 7);
    fake_store.room = 2;
    turn();
    assert_int_equal(fake_store.count, 2);
    assert_false(fake_store.calls[0].is_behind || fake_store.calls[1].is_behind);
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1 + LONG, OUTCOME_PLACED);
}

static void test_checkout__bundle_leaves_the_last_lane_to_itself(void **state UNUSED)
{
    fake_store.room = 0;
    submit_locked(1, 8);
    for (int user = 2; user <= 1 + LONG; user++)
        submit_locked(user, 7);
    fake_store.room = 1;
    turn();
    assert_int_equal(fake_store.count, 1);
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1 + LONG, OUTCOME_PLACED);
}

static void test_checkout__orders_gather_while_a_bundle_is_under_way(void **state UNUSED)
{
    submit_bundle();
    fake_store.room = 1;
    submit_locked(4, 10);
    submit_locked(5, 11);
    turn();
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_int_equal(fake_store.count, 2);
    assert_true(fake_store.calls[1].is_behind);
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(5, OUTCOME_PLACED);
}

/* Returns how many vouchers have an order under way 1 ms later. */
static size_t submit_two_bundles(void)
{
    size_t count;

    submit_bundle();
    fake_store.room = 1;
    for (int user = 4; user <= 6; user++)
        submit_locked(user, 6 + user);
    turn();
    pass_ms(1);
    count = fake_store.count;
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(6, OUTCOME_PLACED);
    return count;
}

static void test_checkout__second_bundle_waits_for_the_first(void **state UNUSED)
{
    assert_int_equal(submit_two_bundles(), 3);
}

static void test_checkout__second_bundle_is_sent_after_an_early_one(void **state UNUSED)
{
    assert_int_equal(submit_two_bundles(), 6);
}

/* A commit under way may take long. The next bundle waits at most 10 ms for it. */
static void test_checkout__gathers_for_10_ms_at_most(void **state UNUSED)
{
    submit_bundle();
    fake_store.room = 1;
    submit_locked(4, 10);
    pass_ms(9);
    assert_int_equal(fake_store.count, 3);
    pass_ms(2);
    assert_int_equal(fake_store.count, 4);
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(4, OUTCOME_PLACED);
}

/* A lost connection does not mean that a row is held, so the vouchers go on sharing a
   transaction. */
static void test_checkout__lost_connections_keep_vouchers_together(void **state UNUSED)
{
    fake_store.room = 0;
    submit_locked(1, 7);
    submit_locked(2, 8);
    fake_store.room = 1;
    turn();
    for (int i = 0; i < 4; i++) {
        assert_true(fake_store.calls[1].is_behind);
        answer_store(STATUS_DOWN, 0);
        answer_store(STATUS_DOWN, 0);
    }
    assert_true(fake_store.calls[1].is_behind);
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

/* Sent alone, the voucher waits for its row, and no other voucher waits with it. */
static void test_checkout__voucher_left_out_three_times_is_sent_alone(void **state UNUSED)
{
    fake_store.room = 0;
    submit_locked(1, 7);
    submit_locked(2, 8);
    fake_store.room = 1;
    turn();
    for (int user = 3; user <= 5; user++) {
        assert_true(fake_store.calls[1].is_behind);
        assert_int_equal(fake_store.calls[1].voucher_id, 8);
        submit_locked(user, 6 + user);
        answer_store(STATUS_OK, VERDICT_PLACED);
        answer_store(STATUS_BUSY, 0);
        assert_unanswered(2);
    }
    assert_int_equal(fake_store.count, 2);
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    assert_true(fake_store.calls[0].is_slow);
    assert_false(fake_store.calls[1].is_behind);
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_OK, VERDICT_PLACED);
    for (int user = 1; user <= 5; user++)
        assert_answered(user, OUTCOME_PLACED);
}

/* The bundle waited for a transaction of another instance. Sent one by one, the vouchers would wait
   longer. */
static void test_checkout__vouchers_of_a_late_bundle_remain_together(void **state UNUSED)
{
    submit_bundle();
    pass_ms(TIMEOUT_MS / 25);
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_BUSY, 0);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_store.calls[i].is_behind, i > 0);
        assert_false(fake_store.calls[i].is_slow);
    }
    while (fake_store.count > 0)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(3, OUTCOME_PLACED);
}

static void test_checkout__refused_bundle_is_sent_voucher_by_voucher(void **state UNUSED)
{
    submit_bundle();
    fake_store.slow_room = 3;
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_REFUSED, 0);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++)
        assert_false(fake_store.calls[i].is_behind);
    answer_store(STATUS_OK, VERDICT_PLACED);
    answer_store(STATUS_REFUSED, 0);
    answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_answered(2, OUTCOME_INTERNAL);
    assert_answered(3, OUTCOME_PLACED);
}

static void test_checkout__lost_bundle_is_looked_up(void **state UNUSED)
{
    submit_bundle();
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_IO, 0);
    pass_ms(20);
    assert_int_equal(fake_store.count, 3);
    for (int i = 0; i < 3; i++)
        assert_true(fake_store.calls[i].is_lookup);
    for (int i = 0; i < 3; i++)
        answer_store(STATUS_OK, VERDICT_PLACED);
    assert_answered(2, OUTCOME_PLACED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_checkout__short_queues_share_a_transaction),
        TEST(test_checkout__a_transaction_has_a_bounded_number_of_vouchers),
        TEST(test_checkout__a_transaction_has_a_bounded_number_of_orders),
        TEST_LARGE(test_checkout__long_queue_shares_no_transaction),
        TEST_LARGE(test_checkout__bundle_leaves_the_last_lane_to_itself),
        TEST(test_checkout__orders_gather_while_a_bundle_is_under_way),
        TEST(test_checkout__second_bundle_waits_for_the_first),
        TEST_EARLY(test_checkout__second_bundle_is_sent_after_an_early_one),
        TEST(test_checkout__gathers_for_10_ms_at_most),
        TEST(test_checkout__lost_connections_keep_vouchers_together),
        TEST(test_checkout__voucher_left_out_three_times_is_sent_alone),
        TEST(test_checkout__vouchers_of_a_late_bundle_remain_together),
        TEST(test_checkout__refused_bundle_is_sent_voucher_by_voucher),
        TEST(test_checkout__lost_bundle_is_looked_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
