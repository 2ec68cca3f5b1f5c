/* test_store_changes.c - changes and look-ups by key: what is sent, shared, retried and dropped. */
#include "app/test/store/shop_fixture.h"

/* -- changes of orders and vouchers -- */

static struct order_change changes[5000];
static const struct author author = {.actor = "admin:1"}, keyed = {"admin:1", {"key", 3}};

static void change_order(size_t at, enum change change, int64_t voucher_id,
                         int64_t left_ms)
{
    changes[at] = (struct order_change){
        .change = change,
        .voucher_id = voucher_id,
        .order_id = 71 + (int64_t)at,
        .actor = "admin:1",
        .payment_ref = {"ref", 3},
        .amount_cents = 500,
        .deadline_us = left_ms == 0 ? 0 : simulated_us + left_ms * 1000};
    store_change_order(shop, &changes[at], on_change, "change");
}

static void call_create(void)
{
    const struct voucher voucher = {.title = {"T", 1},
                                    .price_cents = 100,
                                    .face_value_cents = 200,
                                    .stock_total = 30,
                                    .per_user_limit = 2,
                                    .pay_within_s = 900,
                                    .begin_us = EPOCH_US + 3,
                                    .end_us = EPOCH_US + 4,
                                    .requires_ticket = 1,
                                    .pow_bits = 20};

    store_create_vouchers(shop, &voucher, 1, &author, on_vouchers, shop);
}

static void call_create_two(void)
{
    const struct voucher two[] = {{.title = {"T", 1},
                                   .description = {"D", 1},
                                   .begin_us = EPOCH_US,
                                   .end_us = EPOCH_US + 1},
                                  {.title = {"U", 1},
                                   .price_cents = 1,
                                   .face_value_cents = 2,
                                   .stock_total = 3,
                                   .per_user_limit = 4,
                                   .begin_us = EPOCH_US + 5,
                                   .end_us = EPOCH_US + 6,
                                   .pay_within_s = 7,
                                   .requires_ticket = 1,
                                   .pow_bits = 8,
                                   .is_lottery = 1}};

    store_create_vouchers(shop, two, 2, &keyed, on_vouchers, shop);
}

static void call_patch_nothing(void)
{
    const struct voucher unchanged = {.requires_ticket = -1, .pow_bits = -1};

    store_patch_voucher(shop, 7, &unchanged, "admin:1", on_vouchers, shop);
}

static void call_patch_all(void)
{
    const struct voucher changed = {.title = {"T", 1},
                                    .description = {"", 0},
                                    .pay_within_s = 900,
                                    .begin_us = EPOCH_US + 3,
                                    .end_us = EPOCH_US + 4,
                                    .requires_ticket = 0,
                                    .pow_bits = 1};

    store_patch_voucher(shop, 7, &changed, "admin:1", on_vouchers, shop);
}

static void call_restock(void)
{
    store_restock_voucher(shop, 7, -4, &keyed, on_vouchers, shop);
}

/* clang-format off */
static void call_pay(void)    { change_order(0, CHANGE_PAY, 7, 0); }
static void call_cancel(void) { change_order(0, CHANGE_CANCEL, 7, 0); }
static void call_refund(void) { change_order(0, CHANGE_REFUND, 7, 0); }
static void call_redeem(void) { change_order(0, CHANGE_REDEEM, 7, 0); }

static void call_keyed(void)
{
    change_order(0, CHANGE_REFUND, 7, 0);
    changes[0].key = (struct text){"key", 3};
}

#define CREATE_TWO \
    "changes create_vouchers 562/862: {'T','U'} {'D',''} {0,1} {0,2} {0,3} {0,4} {0,5} {1,6} {0,7} 'admin:1' {0,1} {0,8} 'key' {0,1}"

/* `rows` has the rows of the answer if the status is RLOCK_OK, otherwise its SQLSTATE. */
static const struct change_row {
    void (*call)(void);
    const char *sent;
    enum rlock_status status;
    const char *rows, *constraint, *said;
} change_rows[] = {
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500} {null}", RLOCK_OK,
     "1 1 71 7 5 {100,11,12,13,1};", NULL, "change ok 1 71 7 5 100 11 12 13 1;"},
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500} {null}", RLOCK_OK,
     "1 6 71 7 5 {100,11,12,0,0};", NULL, "change ok 6 71 7 5 100 11 12 0 0;"},
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500} {null}", RLOCK_OK,
     "1 5 null null null null;", NULL, "change ok 5;"},
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500} {null}", RLOCK_OK,
     "1 8 71 7 5 {100,11,12,0,0};", NULL, "change io;"},
    {call_keyed, "changes refund_order 562/862: 7 {71} {'admin:1'} {'key'}", RLOCK_OK,
     "1 7 71 7 5 {100,11,12,0,0};", NULL, "change ok 7 71 7 5 100 11 12 0 0;"},
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500} {null}", RLOCK_OK,
     "1 0 71 7 5 {100,11,12,0,0};", NULL, "change io;"},
    {call_cancel, "changes cancel_order 562/862: 7 {71} {'admin:1'} {null}", RLOCK_OK,
     "2 1 71 7 5 {100,11,12,0,3};", NULL, "change io;"},
    {call_cancel, "changes cancel_order 562/862: 7 {71} {'admin:1'} {null}", RLOCK_OK, "", NULL, "change io;"},
    {call_cancel, "changes cancel_order 562/862: 7 {71} {'admin:1'} {null}", RLOCK_OK,
     "1 1 71 7 5 {100,11,12,0,3};2 1 72 7 5 {100,11,12,0,3};", NULL, "change io;"},
    {call_refund, "changes refund_order 562/862: 7 {71} {'admin:1'} {null}", RLOCK_OK,
     "1 1 71 7 5 {100,11,12,13,6};", NULL, "change io;"},
    {call_redeem, "changes redeem_order 562/862: 7 {71} {'admin:1'} {null}", RLOCK_REFUSED, "42501", NULL, "change refused;"},
    {call_create, "changes create_vouchers 562/862: {'T'} {''} {100} {200} {30} {2} {3} {4} {900} 'admin:1' {1} {20} null {0}", RLOCK_OK,
     V7 " 8;", NULL, "ok now 8: " V7 ";"},
    {call_create_two, CREATE_TWO, RLOCK_OK, V7 " 8;" V7 " 8;", NULL, "ok now 8: " V7 " " V7 ";"},
    {call_create_two, CREATE_TWO, RLOCK_OK, V7 " 8;" NO_VOUCHER, NULL, "not_found now 0:;"},
    {call_create_two, CREATE_TWO, RLOCK_REFUSED, "23514", "voucher_window", "invalid now 0:;"},
    {call_create, "changes create_vouchers 562/862: {'T'} {''} {100} {200} {30} {2} {3} {4} {900} 'admin:1' {1} {20} null {0}", RLOCK_REFUSED,
     "23514", "voucher_stock", "refused now 0:;"},
    {call_create, "changes create_vouchers 562/862: {'T'} {''} {100} {200} {30} {2} {3} {4} {900} 'admin:1' {1} {20} null {0}", RLOCK_BUSY,
     "23514", "voucher_window", "busy now 0:;"},
    {call_patch_nothing, "changes patch_voucher 562/862: 7 null null null null null null null 'admin:1'", RLOCK_OK,
     NO_VOUCHER, NULL, "not_found now 0:;"},
    {call_patch_all, "changes patch_voucher 562/862: 7 'T' '' 3 4 900 0 1 'admin:1'", RLOCK_OK, V7 " 8;", NULL,
     "ok now 8: " V7 ";"},
    {call_restock, "changes restock_voucher 562/862: 7 -4 'admin:1' 'key'", RLOCK_REFUSED, "23514", NULL, "invalid now 0:;"},
    {call_restock, "changes restock_voucher 562/862: 7 -4 'admin:1' 'key'", RLOCK_REFUSED, "22003", NULL, "invalid now 0:;"},
    {call_restock, "changes restock_voucher 562/862: 7 -4 'admin:1' 'key'", RLOCK_REFUSED, "23505", NULL, "refused now 0:;"},
    {call_restock, "changes restock_voucher 562/862: 7 -4 'admin:1' 'key'", RLOCK_REFUSED, "23505", "used_key_pkey", "not_owner now 0:;"},
};
/* clang-format on */

STORE_CASE(test_change__sends_its_parameters_and_decodes_the_row)
{
    for (size_t i = 0; i < sizeof(change_rows) / sizeof(change_rows[0]); i++) {
        const struct change_row *row = &change_rows[i];

        row->call();
        ASSERT_SENT("nothing");
        store_flush(shop);
        ASSERT_SENT(row->sent);
        fake_constraint = row->constraint;
        fake_answer(row->status, row->rows);
        ASSERT_SAID(row->said);
        ASSERT_NUMBER(shop->changes.count, ==, 0);
        pass_ms(TIMEOUT_MS + 20);
        ASSERT_SAID("");
    }
}

STORE_CASE(test_changes__of_one_kind_and_voucher_share_a_transaction)
{
    change_order(0, CHANGE_CANCEL, 7, 0);
    store_flush(shop);
    change_order(1, CHANGE_CANCEL, 7, 0);
    change_order(2, CHANGE_REDEEM, 7, 0);
    change_order(3, CHANGE_CANCEL, 7, 0);
    change_order(4, CHANGE_PAY, 7, 0);
    change_order(5, CHANGE_PAY, 7, 0);
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 1);
    ASSERT_NUMBER(shop->changes.count, ==, 6);
    fake_answer(RLOCK_OK, "1 1 71 7 5 {100,11,12,0,3};");
    store_flush(shop);
    ASSERT_SENT(
        "changes cancel_order 562/862: 7 {72,74} {'admin:1','admin:1'} {null,null}");
    said[0] = '\0';
    fake_answer(RLOCK_OK, "1 3 72 7 5 {100,11,12,0,3};2 5 null null null null;");
    ASSERT_SAID("change ok 3 72 7 5 100 11 12 0 3;change ok 5;");
    ASSERT_NUMBER(shop->changes.count, ==, 3);
    store_flush(shop);
    ASSERT_SENT("changes redeem_order 562/862: 7 {73} {'admin:1'} {null}");
    fake_answer(RLOCK_IO, NULL);
    store_flush(shop);
    ASSERT_SENT("changes pay_order 562/862: 7 {75,76} {'admin:1','admin:1'} {'ref','ref'}"
                " {500,500} {null,null}");
}

STORE_CASE(test_changes__five_hundred_share_a_transaction)
{
    for (size_t i = 0; i < 501; i++)
        change_order(i, CHANGE_CANCEL, 7, 0);
    store_flush(shop);
    assert_null(strstr(fake_print_oldest(), "571"));
    ASSERT_CONTAINS(fake_print_oldest(), ",570}");
    fake_answer(RLOCK_IO, NULL);
    ASSERT_NUMBER(strlen(said), ==, 500 * strlen("change io;"));
    store_flush(shop);
    ASSERT_SENT("changes cancel_order 562/862: 7 {571} {'admin:1'} {null}");
}

STORE_CASE(test_changes__4096_wait)
{
    for (size_t i = 0; i < 4096; i++)
        change_order(i, CHANGE_CANCEL, 7, 0);
    ASSERT_NUMBER(shop->changes.count, ==, 4096);
    change_order(4096, CHANGE_CANCEL, 7, 0);
    store_restock_voucher(shop, 8, 1, &author, on_vouchers, shop);
    pass_ms(0);
    ASSERT_SAID("change no_memory;no_memory now 0:;");
    ASSERT_NUMBER(shop->changes.count, ==, 4096);
}

STORE_CASE(test_changes__of_two_vouchers_are_under_way)
{
    call_create();
    change_order(0, CHANGE_CANCEL, 8, 0);
    call_create();
    change_order(1, CHANGE_CANCEL, 9, 0);
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    ASSERT_CONTAINS(fake_print_oldest(), "changes create_voucher");
    fake_answer(RLOCK_IO, NULL);
    ASSERT_SENT("slow changes cancel_order 562/862: 8 {71} {'admin:1'} {null}");
    fake_answer(RLOCK_IO, NULL);
    store_flush(shop);
    ASSERT_SENT("changes cancel_order 562/862: 9 {72} {'admin:1'} {null}");
}

STORE_CASE(test_changes__that_waited_for_a_lock_are_tried_again)
{
    call_cancel();
    store_flush(shop);
    pass_ms(19); /* too short to be the end of a wait for a lock */
    fake_answer(RLOCK_BUSY, "55P03");
    ASSERT_SAID("change busy;");
    call_cancel();
    store_flush(shop);
    change_order(1, CHANGE_REDEEM, 7, 0);
    pass_ms(20);
    fake_answer(RLOCK_BUSY, "55P03");
    ASSERT_SAID("");
    store_flush(shop);
    ASSERT_SENT("slow changes cancel_order 551/851: 7 {71} {'admin:1'} {null}");
    fake_answer(RLOCK_OK, "1 1 71 7 5 {100,11,12,0,3};");
    said[0] = '\0';
    store_flush(shop);
    ASSERT_SENT("changes redeem_order 551/851: 7 {72} {'admin:1'} {null}");
    fake_answer(RLOCK_IO, NULL);
    ASSERT_SAID("change io;");
}

/* Changes of slow vouchers never use both connections, so other vouchers are not delayed. */
STORE_CASE(test_changes__of_slow_vouchers_use_one_connection)
{
    for (size_t i = 0; i < 2; i++) {
        change_order(i, CHANGE_CANCEL, 7 + (int64_t)i, 0);
        store_flush(shop);
        pass_ms(200);
        change_order(2 + i, CHANGE_CANCEL, 7 + (int64_t)i, 0);
        fake_answer(RLOCK_OK, "1 5 null null null null;");
    }
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 1);
    ASSERT_CONTAINS(fake_print_oldest(), "slow changes cancel_order");
    ASSERT_NUMBER(conn_of(ROLE_CHANGES)->pending, ==, 0);
}

/* A change is too late if the time until its deadline is below a fiftieth of the timeout, or below
   twice the duration of the last transaction. */
STORE_CASE(test_changes__without_time_for_a_transaction_are_busy)
{
    change_order(0, CHANGE_CANCEL, 7, 40);
    change_order(1, CHANGE_CANCEL, 7, 41);
    store_flush(shop);
    ASSERT_SENT("changes cancel_order 23/323: 7 {72} {'admin:1'} {null}");
    pass_ms(0);
    ASSERT_SAID("change busy;");
    ASSERT_NUMBER(shop->changes.count, ==, 1);
    change_order(2, CHANGE_CANCEL, 8, 40);
    change_order(3, CHANGE_CANCEL, 8, 40);
    pass_ms(0);
    pass_ms(0);
    ASSERT_SAID("change busy;change busy;");
    ASSERT_NUMBER(shop->changes.count, ==, 1);
    change_order(2, CHANGE_CANCEL, 7, 40);
    pass_ms(20);
    ASSERT_SAID("change busy;");
    fake_answer(RLOCK_OK, "1 5 null null null null;");
    ASSERT_SAID("change ok 5;");
    change_order(2, CHANGE_CANCEL, 7, 0);
    store_flush(shop);
    change_order(0, CHANGE_CANCEL, 7, 300);
    change_order(1, CHANGE_CANCEL, 7, 301);
    pass_ms(100);
    fake_answer(RLOCK_OK, "1 5 null null null null;");
    ASSERT_SAID("change ok 5;");
    store_flush(shop);
    ASSERT_SENT("changes cancel_order 113/413: 7 {72} {'admin:1'} {null}");
    pass_ms(0);
    ASSERT_SAID("change busy;");
    fake_answer(RLOCK_OK, "1 5 null null null null;");
    ASSERT_SAID("change ok 5;");
    store_restock_voucher(shop, 7, 1, &author, on_vouchers, shop);
    store_flush(shop);
    ASSERT_SENT("changes restock_voucher 562/862: 7 1 'admin:1' null");
    pass_ms(TIMEOUT_MS);
    ASSERT_SAID("timeout now 0:;");
}

STORE_CASE(test_changes__of_a_voucher_wait_until_their_deadline)
{
    change_order(0, CHANGE_CANCEL, 7, 5000);
    store_flush(shop);
    store_restock_voucher(shop, 7, 1, &author, on_vouchers, shop);
    pass_ms(TIMEOUT_MS - 60);
    ASSERT_SAID("");
    pass_ms(40);
    ASSERT_SAID("busy now 0:;");
    ASSERT_NUMBER(shop->changes.count, ==, 1);
}

STORE_CASE(test_changes__under_way_time_out_at_their_deadline)
{
    change_order(0, CHANGE_CANCEL, 7, 100);
    change_order(1, CHANGE_CANCEL, 8, 300);
    store_flush(shop);
    fake_cannot_abandon = true;
    pass_ms(120);
    ASSERT_SAID("");
    fake_cannot_abandon = false;
    pass_ms(20);
    ASSERT_SAID("change timeout;");
    change_order(2, CHANGE_CANCEL, 7, 0);
    pass_ms(139);
    ASSERT_SAID("");
    pass_ms(40);
    ASSERT_SAID("change timeout;");
    fake_answer(RLOCK_OK, "1 5 null null null null;");
    ASSERT_SAID("");
    store_flush(shop);
    ASSERT_NUMBER(conn_of(ROLE_CHANGES)->pending, ==, 1);
}

STORE_CASE(test_changes__need_one_of_two_connections)
{
    conn_of(ROLE_CHANGES)->is_up = false;
    call_cancel();
    store_flush(shop);
    ASSERT_CONTAINS(fake_print_oldest(), "slow changes cancel_order");
    change_order(1, CHANGE_CANCEL, 8, 0);
    conn_of(ROLE_SLOW_CHANGES)->is_up = false;
    store_flush(shop);
    ASSERT_SAID("");
    call_restock();
    pass_ms(0);
    ASSERT_SAID("change down;down now 0:;");
    ASSERT_NUMBER(shop->changes.count, ==, 1);
    conn_of(ROLE_CHANGES)->is_up = true;
    change_order(2, CHANGE_CANCEL, 9, 0);
    store_flush(shop);
    ASSERT_NUMBER(conn_of(ROLE_CHANGES)->pending, ==, 1);
}

/* -- finding by key -- */

static struct key_lookup lookups[1001];

static void find_by_key(size_t at, int64_t voucher_id, int64_t left_ms)
{
    lookups[at] = (struct key_lookup){
        .placement = {.user_id = 1 + (int64_t)at, .key = {"k", 1}},
        .deadline_us = left_ms == 0 ? 0 : simulated_us + left_ms * 1000};
    store_find_by_key(shop, voucher_id, &lookups[at], on_key, "key");
}

STORE_CASE(test_store_find_by_key__shares_queries)
{
    find_by_key(0, 7, 0);
    find_by_key(1, 8, 0);
    find_by_key(2, 7, 0);
    find_by_key(3, 9, 0);
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    ASSERT_SENT("main find 251/1000: 7 {1,3} {'k','k'}");
    fake_answer(RLOCK_OK, "1 2 71 {100,11,12,13,1};2 3 70 null;");
    ASSERT_SAID("key ok 2 71 7 1 100 11 12 13 1;key ok 3 70 7 3 0 0 0 0 0;");
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    ASSERT_SENT("main find 251/1000: 8 {2} {'k'}");
    fake_answer(RLOCK_OK, "1 0 null null;");
    ASSERT_SAID("key ok 0 0 8 2 0 0 0 0 0;");
}

STORE_CASE(test_store_find_by_key__a_thousand_share_a_query)
{
    for (size_t i = 0; i < 1001; i++)
        find_by_key(i, 7, 0);
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    ASSERT_CONTAINS(fake_print_oldest(), ",1000}");
    fake_answer(RLOCK_IO, NULL);
    said[0] = '\0';
    ASSERT_SENT("main find 251/1000: 7 {1001} {'k'}");
}

STORE_CASE(test_store_find_by_key__a_malformed_row_is_a_failure)
{
    /* clang-format off */
    static const struct {
        const char *rows, *said;
    } rows[] = {
        {"1 0 null null;", "key io;key io;"},
        {"1 0 null null;2 0 null null;3 0 null null;", "key io;key io;"},
        {"2 0 null null;2 0 null null;", "key io;key io;"},
        {"1 -1 null null;2 0 null null;", "key io;key io;"},
        {"1 0 null null;2 4 null null;", "key ok 0 0 7 1 0 0 0 0 0;key io;"},
        {"1 0 null null;2 2 71 {100,11,12,0,9};", "key ok 0 0 7 1 0 0 0 0 0;key io;"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        find_by_key(0, 7, 0);
        find_by_key(1, 7, 0);
        store_flush(shop);
        fake_answer(RLOCK_OK, rows[i].rows);
        ASSERT_SAID(rows[i].said);
    }
}

STORE_CASE(test_store_find_by_key__alone_ends_at_the_deadline)
{
    find_by_key(0, 7, 100);
    store_flush(shop);
    pass_ms(120);
    ASSERT_SAID("key timeout;");
    conn_of(ROLE_MAIN)->pending += 2;
    find_by_key(0, 7, 100);
    pass_ms(120);
    ASSERT_SAID("key busy;");
    conn_of(ROLE_MAIN)->pending -= 2;
    fake_answer(RLOCK_IO, NULL);
    find_by_key(0, 7, 100);
    store_flush(shop);
    fake_answer(RLOCK_IO, NULL);
    ASSERT_SAID("key io;");
    pass_ms(120);
    ASSERT_SAID("");
}

STORE_CASE(test_store_find_by_key__ends_at_the_deadline)
{
    find_by_key(0, 7, 500);
    find_by_key(1, 7, 100);
    find_by_key(2, 7, 200);
    store_flush(shop);
    find_by_key(3, 7, 100);
    conn_of(ROLE_MAIN)->pending += 2;
    pass_ms(99);
    ASSERT_SAID("");
    pass_ms(20);
    ASSERT_SAID("key busy;key timeout;key timeout;key timeout;");
    conn_of(ROLE_MAIN)->pending -= 2;
    find_by_key(4, 7, 0);
    conn_of(ROLE_MAIN)->is_up = false;
    store_flush(shop);
    pass_ms(0);
    ASSERT_SAID("key down;");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
