/* it_store_life.c - changes of orders by the store, several in one transaction. */
#include "app/test/store/it_store.h"

SHARE_SANDBOX("store_life")

#define TURN_MAX 200

/** Changes requested in one loop turn, and their answers. */
struct turn {
    struct order_change changes[TURN_MAX];
    enum status statuses[TURN_MAX];
    enum change_verdict verdicts[TURN_MAX];
    struct order orders[TURN_MAX];
    size_t requested, answered;
    bool are_all;
};

static struct turn *current; /* receives the answers; a change has only its index */

static void on_changed(enum status status, enum change_verdict verdict,
                       const struct order *order, void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;

    current->statuses[i] = status;
    current->verdicts[i] = verdict;
    assert_int_equal(order != NULL, status == STATUS_OK && verdict != CHANGE_NO_ORDER);
    if (order != NULL)
        current->orders[i] = *order;
    current->are_all = ++current->answered == current->requested;
}

static void request_change(struct shop *shop, struct turn *turn,
                           const struct order_change *change)
{
    size_t i = turn->requested++;

    current = turn;
    turn->changes[i] = *change;
    turn->are_all = false;
    store_change_order(shop->store, &turn->changes[i], on_changed, (void *)(uintptr_t)i);
}

/* A payment with a new payment_ref. Its text is valid for TURN_MAX more calls. */
static struct order_change pay(int64_t voucher, int64_t order)
{
    static char refs[TURN_MAX][ID_SIZE];
    static unsigned used;
    char *ref = refs[used++ % TURN_MAX];

    snprintf(ref, ID_SIZE, "%" PRId64, order);
    return (struct order_change){.change = CHANGE_PAY,
                                 .voucher_id = voucher,
                                 .order_id = order,
                                 .actor = "payment:1",
                                 .payment_ref = text_of(ref),
                                 .amount_cents = 100};
}

static struct order_change cancel(int64_t voucher, int64_t order)
{
    return (struct order_change){.change = CHANGE_CANCEL,
                                 .voucher_id = voucher,
                                 .order_id = order,
                                 .actor = "shopper:1"};
}

static int64_t place(int64_t voucher, int64_t user)
{
    return sandbox_number(sandbox,
                          "select order_ids[1] from place_orders(%" PRId64 ", '{%" PRId64
                          "}', '{0}', null)",
                          voucher, user);
}

static void test_store_change_order__joins_those_of_a_loop_turn(void **state UNUSED)
{
    struct shop *shop = shop_open(sandbox, 1, UNHURRIED_MS);
    int64_t voucher = sandbox_voucher(sandbox, 20, 1);
    struct turn turn = {0};
    struct order_change change;

    for (int64_t user = 1; user <= 10; user++) {
        change = pay(voucher, place(voucher, user));
        request_change(shop, &turn, &change);
    }
    change = pay(voucher, 1048576 * INT64_C(999999)); /* no such order */
    request_change(shop, &turn, &change);
    request_change(shop, &turn, &turn.changes[3]); /* again */
    change = cancel(voucher, turn.changes[0].order_id);
    request_change(shop, &turn, &change);
    shop_await(shop, &turn.are_all);
    for (size_t i = 0; i < turn.requested; i++)
        assert_int_equal(turn.statuses[i], STATUS_OK);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(turn.verdicts[i], CHANGE_DONE);
        assert_int_equal(turn.orders[i].id, turn.changes[i].order_id);
        assert_int_equal(turn.orders[i].user_id, i + 1);
        assert_int_equal(turn.orders[i].voucher_id, voucher);
        assert_int_equal(turn.orders[i].status, ORDER_PAID);
    }
    assert_int_equal(turn.verdicts[10], CHANGE_NO_ORDER);
    assert_int_equal(turn.verdicts[11], CHANGE_REPEATED);
    assert_int_equal(turn.orders[11].id, turn.changes[3].order_id);
    assert_int_equal(turn.verdicts[12], CHANGE_WRONG_STATE);
    assert_int_equal(turn.orders[12].status, ORDER_PAID);
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(distinct xmin::text) from voucher_order"
                                    " where voucher_id = %" PRId64,
                                    voucher),
                     1);
    shop_close(shop);
}

static struct shop *open_expiring(void)
{
    struct shop *shop = shop_open_at(sandbox->service_url, 1, UNHURRIED_MS, true);

    shop_await(shop, &shop->is_up);
    return shop;
}

/* Waits until `count` orders of this voucher and later ones have expired. */
static void await_expired(struct shop *shop, int64_t voucher, int64_t count)
{
    int64_t give_up_us = clock_mono_us() + 60000000;

    while (sandbox_number(sandbox,
                          "select count(*) from voucher_order"
                          " where status = 'expired' and voucher_id >= %" PRId64,
                          voucher) != count) {
        uv_run(&shop->loop, UV_RUN_ONCE);
        assert_true(clock_mono_us() < give_up_us);
    }
}

static void
test_store_expire_orders__of_all_vouchers_until_none_is_left(void **state UNUSED)
{
    struct shop *shop = open_expiring();
    int64_t vouchers[] = {sandbox_voucher(sandbox, 1000, 1),
                          sandbox_voucher(sandbox, 1000, 1)};

    for (size_t i = 0; i < COUNT_OF(vouchers); i++)
        sandbox_do(sandbox,
                   "select place_orders(%" PRId64 ", array(select generate_series("
                   "1::bigint, 700)), array_fill(0::bigint, array[700]), null)",
                   vouchers[i]);
    sandbox_do(sandbox,
               "update voucher_order set expires_at = created_at + interval '1 us'"
               " where voucher_id in (%" PRId64 ", %" PRId64 ") and user_id <= 600",
               vouchers[0], vouchers[1]);
    await_expired(shop, vouchers[0], 1200);
    assert_int_equal(sandbox_number(sandbox,
                                    "select sum(stock_left) from voucher where id in"
                                    " (%" PRId64 ", %" PRId64 ")",
                                    vouchers[0], vouchers[1]),
                     1800);
    shop_close(shop);
}

/* There are more finished batches than one query returns, followed by one with an order to
   expire. */
static void test_store_expire_orders__skips_finished_batches(void **state UNUSED)
{
    struct shop *shop = open_expiring();
    int64_t voucher = sandbox_voucher(sandbox, 1000, 1);

    sandbox_do(sandbox,
               "select count(place_orders(%" PRId64 ", array[n], '{0}', null))"
               " from generate_series(1::bigint, 601) n",
               voucher);
    sandbox_do(
        sandbox,
        "select count(pay_order(voucher_id, id, 'payment:1', 'ref ' || id, price_cents))"
        " from voucher_order where voucher_id = %" PRId64 " and user_id <= 600",
        voucher);
    sandbox_do(sandbox,
               "update voucher_order set expires_at = created_at + user_id *"
               " interval '1 us' where voucher_id = %" PRId64,
               voucher);
    await_expired(shop, voucher, 1);
    shop_close(shop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AUDITED_CASE(test_store_change_order__joins_those_of_a_loop_turn),
        AUDITED_CASE(test_store_expire_orders__of_all_vouchers_until_none_is_left),
        AUDITED_CASE(test_store_expire_orders__skips_finished_batches),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
