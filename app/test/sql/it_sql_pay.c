/* it_sql_pay.c - a payment_ref belongs to one order, whichever voucher and session. */
#include "app/test/sql/it_sql.h"
#include "base/clock.h"

#include <inttypes.h>

enum { DONE = 1, REPEATED, WRONG_STATE, WRONG_AMOUNT, NO_ORDER, REF_USED };

SHARE_SANDBOX("pay")

struct placed {
    int64_t voucher, order;
};

static struct placed place(int64_t voucher)
{
    static int64_t user;

    return (struct placed){voucher,
                           sandbox_number(sandbox,
                                          "select order_ids[1] from place_orders(%" PRId64
                                          ", '{%" PRId64 "}', '{0}', null)",
                                          voucher, ++user)};
}

static void pay_sql(struct placed placed, const char *ref, int amount, char ret_sql[256])
{
    snprintf(ret_sql, 256,
             "select verdict from pay_order(%" PRId64 ", %" PRId64
             ", 'payment:1', '%s', %d)",
             placed.voucher, placed.order, ref, amount);
}

static int64_t pay(struct placed placed, const char *ref, int amount)
{
    char sql[256];

    pay_sql(placed, ref, amount, sql);
    return sandbox_number(sandbox, "%s", sql);
}

static void change(struct placed placed, const char *function)
{
    assert_int_equal(sandbox_number(sandbox,
                                    "select verdict from %s(%" PRId64 ", %" PRId64
                                    ", 'admin:1')",
                                    function, placed.voucher, placed.order),
                     DONE);
}

static const char *state_of(struct placed placed)
{
    return sandbox_text(sandbox,
                        "select status || ' ' || coalesce(payment_ref, 'none') from"
                        " voucher_order where id = %" PRId64,
                        placed.order);
}

/* pay_order() checks this before any other reason to refuse, and in every state of the other order.
   After another refusal the caller would return money that has paid the first order. */
static void test_pay_order__refuses_the_ref_of_another_order(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    int64_t other = sandbox_voucher(sandbox, 10, 1);
    struct placed first = place(voucher), second = place(voucher), third = place(other);
    struct placed paid = place(voucher), cancelled = place(other);

    change(cancelled, "cancel_order");
    assert_int_equal(pay(paid, "p", 100), DONE);
    assert_int_equal(pay(first, "a", 100), DONE);
    assert_int_equal(pay(second, "a", 100), REF_USED);
    assert_int_equal(pay(second, "a", 99), REF_USED);
    assert_int_equal(pay(third, "a", 100), REF_USED);
    assert_int_equal(pay(cancelled, "a", 100), REF_USED);
    assert_int_equal(pay(paid, "a", 100), REF_USED);
    assert_string_equal(state_of(second), "unpaid none");
    assert_string_equal(state_of(third), "unpaid none");
    assert_string_equal(state_of(paid), "paid p");
    assert_int_equal(pay(first, "a", 100), REPEATED);
    assert_int_equal(pay(first, "a", 99), WRONG_AMOUNT);
    change(first, "redeem_order");
    assert_int_equal(pay(first, "a", 100), REPEATED);
    assert_int_equal(pay(second, "a", 100), REF_USED);
    assert_int_equal(pay(second, "b", 100), DONE);
    assert_int_equal(
        pay((struct placed){voucher, first.order + 1048576 * INT64_C(999)}, "a", 100),
        NO_ORDER);
}

static void test_pay_order__after_a_refund(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct placed refunded = place(voucher), other = place(voucher);

    assert_int_equal(pay(refunded, "r", 100), DONE);
    change(refunded, "refund_order");
    assert_int_equal(pay(refunded, "r", 100), WRONG_STATE);
    assert_int_equal(pay(refunded, "r", 99), WRONG_STATE);
    assert_int_equal(pay(refunded, "s", 100), WRONG_STATE);
    assert_int_equal(pay(other, "r", 100), REF_USED);
    assert_string_equal(state_of(refunded), "refunded r");
}

static void test_pay_order__a_refused_payment_can_pay_another_order(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct placed cancelled = place(voucher), other = place(voucher);

    change(cancelled, "cancel_order");
    assert_int_equal(pay(cancelled, "free", 100), WRONG_STATE);
    assert_int_equal(pay(other, "free", 99), WRONG_AMOUNT);
    assert_int_equal(pay(other, "free", 100), DONE);
}

/* The store sends payments like this. */
static void test_pay_order__several_in_one_statement(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    struct placed first = place(voucher), second = place(voucher), third = place(voucher);

    assert_string_equal(
        sandbox_text(sandbox,
                     "select string_agg(verdict::text, ' ' order by pos) from"
                     " unnest(array[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                     "], '{x,x,x,y}'::text[]) with ordinality r (id, ref, pos) cross join"
                     " lateral pay_order(%" PRId64 ", r.id, 'payment:1', r.ref, 100)",
                     first.order, second.order, first.order, third.order, voucher),
        "1 6 2 1");
    assert_string_equal(state_of(second), "unpaid none");
}

static bool is_waiting(const PGconn *session)
{
    return sandbox_number(sandbox,
                          "select count(*) from pg_locks where not granted and pid = %d",
                          PQbackendPID(session)) > 0;
}

/* The verdict in a session that waits until the transaction of `winner` ends. */
static int64_t verdict_after(PGconn *winner, const char *end, struct placed placed,
                             const char *ref)
{
    PGconn *session = sandbox_connect(sandbox);
    int64_t give_up_us = clock_mono_us() + INT64_C(60000000), verdict;
    PGresult *result;
    char sql[256];

    pay_sql(placed, ref, 100, sql);
    assert_int_equal(PQsendQuery(session, sql), 1);
    while (!is_waiting(session))
        assert_true(clock_mono_us() < give_up_us);
    PQclear(PQexec(winner, end));
    result = PQgetResult(session);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    verdict = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    PQfinish(session);
    return verdict;
}

static PGconn *begin_to_pay(struct placed placed, const char *ref)
{
    PGconn *session = sandbox_connect(sandbox);
    char sql[256];

    pay_sql(placed, ref, 100, sql);
    PQclear(PQexec(session, "begin"));
    PQclear(PQexec(session, sql));
    return session;
}

/* Both sessions look the payment up before either has paid. */
static void test_pay_order__one_of_two_sessions_wins(void **state UNUSED)
{
    struct placed one = place(sandbox_voucher(sandbox, 10, 1));
    struct placed two = place(sandbox_voucher(sandbox, 10, 1));
    PGconn *session = begin_to_pay(one, "raced");

    assert_int_equal(verdict_after(session, "commit", two, "raced"), REF_USED);
    assert_string_equal(state_of(one), "paid raced");
    assert_string_equal(state_of(two), "unpaid none");
    PQfinish(session);
}

static void test_pay_order__wins_if_the_other_session_fails(void **state UNUSED)
{
    struct placed one = place(sandbox_voucher(sandbox, 10, 1));
    struct placed two = place(sandbox_voucher(sandbox, 10, 1));
    PGconn *session = begin_to_pay(one, "failed");

    assert_int_equal(verdict_after(session, "rollback", two, "failed"), DONE);
    assert_string_equal(state_of(one), "unpaid none");
    assert_string_equal(state_of(two), "paid failed");
    PQfinish(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AUDITED_CASE(test_pay_order__refuses_the_ref_of_another_order),
        AUDITED_CASE(test_pay_order__after_a_refund),
        AUDITED_CASE(test_pay_order__a_refused_payment_can_pay_another_order),
        AUDITED_CASE(test_pay_order__several_in_one_statement),
        AUDITED_CASE(test_pay_order__one_of_two_sessions_wins),
        AUDITED_CASE(test_pay_order__wins_if_the_other_session_fails),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
