/* it_sql_archive.c - old vouchers leave the tables, and everything else goes on. */
#include "app/test/sql/it_sql.h"

#include <inttypes.h>

SHARE_SANDBOX("archive_test")

static int64_t order_of(int64_t voucher, int user)
{
    return sandbox_number(sandbox,
                          "select id from voucher_order where voucher_id = %" PRId64
                          " and user_id = %d",
                          voucher, user);
}

static int64_t pay(int64_t voucher, int user, const char *payment)
{
    return sandbox_number(sandbox,
                          "select verdict from pay_order(%" PRId64 ", %" PRId64
                          ", 'payment:1', '%s', 100)",
                          voucher, order_of(voucher, user), payment);
}

/* A voucher with orders of shoppers 1 to 5: paid, refunded, redeemed, cancelled and unpaid. */
static int64_t used_voucher(const char *prefix)
{
    int64_t voucher = sandbox_voucher(sandbox, 100, 1);
    char payment[40];

    sandbox_do(sandbox,
               "select place_orders(%" PRId64 ", '{1,2,3,4,5}', '{1,2,3,4,5}', null)",
               voucher);
    for (int user = 1; user <= 3; user++) {
        snprintf(payment, sizeof(payment), "%s %d", prefix, user);
        assert_int_equal(pay(voucher, user, payment), 1);
    }
    sandbox_do(sandbox, "select refund_order(%" PRId64 ", %" PRId64 ", 'admin:1')",
               voucher, order_of(voucher, 2));
    sandbox_do(sandbox, "select redeem_order(%" PRId64 ", %" PRId64 ", 'admin:1')",
               voucher, order_of(voucher, 3));
    sandbox_do(sandbox, "select cancel_order(%" PRId64 ", %" PRId64 ", 'shopper:4')",
               voucher, order_of(voucher, 4));
    return voucher;
}

static int64_t archive(int64_t before)
{
    return sandbox_number(sandbox, "select archive_vouchers(%" PRId64 ", 'archive')",
                          before);
}

static void assert_refuses(int64_t before, const char *why)
{
    char sql[100];
    PGresult *result;

    snprintf(sql, sizeof(sql), "select archive_vouchers(%" PRId64 ", 'archive')", before);
    result = PQexec(sandbox->conn, sql);
    if (strstr(PQresultErrorMessage(result), why) == NULL)
        fail_msg("expected \"%s\", not \"%s\"", why, PQresultErrorMessage(result));
    PQclear(result);
}

static void end_sale(int64_t voucher)
{
    sandbox_do(sandbox, "update voucher set end_at = now() where id = %" PRId64, voucher);
}

static int64_t count(const char *table, int64_t voucher)
{
    return sandbox_number(sandbox, "select count(*) from %s where voucher_id = %" PRId64,
                          table, voucher);
}

static void test_archive_vouchers__moves_ended_ones_only(void **state UNUSED)
{
    int64_t old = used_voucher("moved"), kept = used_voucher("kept");

    sandbox_do(sandbox, "create schema archive");
    assert_refuses(old + 1, "is on sale or has an unpaid order");
    end_sale(old);
    assert_refuses(old + 1, "is on sale or has an unpaid order");
    sandbox_do(sandbox, "select cancel_order(%" PRId64 ", %" PRId64 ", 'shopper:5')", old,
               order_of(old, 5));
    assert_int_equal(archive(old + 1), 1);
    assert_int_equal(count("voucher_history", old), 0);
    assert_int_equal(count("archive.voucher_order", old), 5);
    assert_int_equal(count("archive.order_event", old), 7);
    assert_int_equal(count("archive.stock_event", old), 1);
    assert_int_equal(sandbox_number(sandbox, "select stock_left from archive.voucher"),
                     98);
    assert_int_equal(count("voucher_order", kept), 5);
    assert_int_equal(archive(old + 1), 0);
    assert_int_equal(sandbox_audit(sandbox), 0);

    end_sale(kept);
    sandbox_do(sandbox, "select cancel_order(%" PRId64 ", %" PRId64 ", 'shopper:5')",
               kept, order_of(kept, 5));
    assert_int_equal(archive(kept + 1), 1);
    assert_int_equal(sandbox_number(sandbox, "select count(*) from archive.voucher"), 2);
}

static void test_archive_vouchers__the_others_go_on(void **state UNUSED)
{
    int64_t old = used_voucher("old"), kept = used_voucher("new"), refused;

    end_sale(old);
    sandbox_do(sandbox, "select cancel_order(%" PRId64 ", %" PRId64 ", 'shopper:5')", old,
               order_of(old, 5));
    refused = order_of(old, 1);
    assert_int_equal(archive(old + 1), 1);
    assert_int_equal(sandbox_number(sandbox,
                                    "select verdict from refund_order(%" PRId64
                                    ", %" PRId64 ", 'admin:1')",
                                    old, refused),
                     5);
    assert_int_equal(pay(kept, 5, "old 1"), 6); /* "old 1" has paid an archived order */
    assert_int_equal(pay(kept, 5, "new 5"), 1);
    assert_int_equal(sandbox_number(sandbox,
                                    "select verdict from refund_order(%" PRId64
                                    ", %" PRId64 ", 'admin:1')",
                                    kept, order_of(kept, 1)),
                     1);
    assert_string_equal(sandbox_text(sandbox,
                                     "select verdicts from place_orders(%" PRId64
                                     ", '{1,5,6}', '{11,15,16}', null)",
                                     kept),
                        "{1,3,1}");
    assert_string_equal(sandbox_text(sandbox,
                                     "select verdicts from place_orders(%" PRId64
                                     ", '{1}', '{21}', null)",
                                     old),
                        "{8}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AUDITED_CASE(test_archive_vouchers__moves_ended_ones_only),
        AUDITED_CASE(test_archive_vouchers__the_others_go_on),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
