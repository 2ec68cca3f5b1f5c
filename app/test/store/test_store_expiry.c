/* test_store_expiry.c - the expiry of unpaid orders. */
#include "app/test/store/shop_fixture.h"

#define DUE    "expiry due_batches 3750/5000: 500 "
#define DRAW   "expiry draw_lotteries 3750/5000: "
#define EXPIRE "expiry expire_batches 3750/5000: "

static void end_run(void)
{
    ASSERT_SENT(DRAW);
    fake_answer(RLOCK_OK, "null null null null null;");
    ASSERT_SENT("nothing");
}

STORE_CASE(test_expiry__is_of_the_leader_with_one_query_at_a_time)
{
    open_with_lists();
    pass_ms(599);
    ASSERT_SENT("nothing");
    pass_ms(1);
    ASSERT_SENT("expiry lead_expiry 3750/5000: ");
    fake_answer(RLOCK_OK, "0;");
    ASSERT_SENT("nothing");
    pass_ms(600);
    ASSERT_SENT("expiry lead_expiry 3750/5000: ");
    ASSERT_NUMBER(metrics.expiry_leader, ==, 0);
    fake_answer(RLOCK_OK, "1;");
    ASSERT_NUMBER(metrics.expiry_leader, ==, 1);
    pass_ms(1600);
    ASSERT_NUMBER(fake_sent_count, ==, 1);
    ASSERT_SENT(DUE "{}");
    fake_answer(RLOCK_OK, "");
    end_run();
    pass_ms(600);
    ASSERT_SENT(DUE "{}");
    fake_lose(conn_of(ROLE_EXPIRY), RLOCK_IO);
    ASSERT_NUMBER(metrics.expiry_leader, ==, 0);
    fake_come_up(conn_of(ROLE_EXPIRY));
    pass_ms(600);
    ASSERT_SENT("expiry lead_expiry 3750/5000: ");
}

static void run_expiry(const char *rows)
{
    pass_ms(600);
    if (strstr(fake_print_oldest(), "lead_expiry") != NULL)
        fake_answer(RLOCK_OK, "1;");
    ASSERT_SENT(DUE "{}");
    fake_answer(RLOCK_OK, rows);
}

STORE_CASE(test_expiry__leaves_out_vouchers_without_progress)
{
    open_with_lists();
    run_expiry("7 {70,71};8 {80};");
    ASSERT_SENT(EXPIRE "7 {70,71}");
    fake_answer(RLOCK_OK, "0 0;");
    ASSERT_SENT(EXPIRE "8 {80}");
    fake_answer(RLOCK_OK, "3 1;");
    ASSERT_SENT(DUE "{7}");
    fake_answer(RLOCK_OK, "8 {81};");
    ASSERT_SENT(EXPIRE "8 {81}");
    fake_answer(RLOCK_BUSY, "55P03");
    ASSERT_SENT(DUE "{7,8}");
    fake_answer(RLOCK_OK, "");
    end_run();
    ASSERT_SAID("log orders_expired count=3;");
    run_expiry("7 {70};");
    fake_answer(RLOCK_OK, "0 1;");
    ASSERT_SENT(DUE "{}");
    fake_answer(RLOCK_OK, "9 {90};");
    fake_answer(RLOCK_OK, "1 0;");
    ASSERT_SENT(DUE "{}");
    fake_answer(RLOCK_OK, "");
    end_run();
    ASSERT_SAID("log orders_expired count=1;");
}

STORE_CASE(test_expiry__ends_with_a_failure_until_the_next_run)
{
    open_with_lists();
    run_expiry("7 {70};");
    fake_answer(RLOCK_IO, NULL);
    ASSERT_SENT("nothing");
    pass_ms(600);
    ASSERT_SENT(DUE "{}");
    fake_answer(RLOCK_IO, NULL);
    ASSERT_SENT("nothing");
    run_expiry("");
    end_run();
    ASSERT_SAID("");
}

STORE_CASE(test_expiry__a_refusal_is_logged_once)
{
    static const char *const logged[] = {"log expiry_refused expired=0;", "", NULL,
                                         "log expiry_refused expired=0;"};

    open_with_lists();
    for (size_t i = 0; i < 4; i++) {
        run_expiry(logged[i] != NULL ? "7 {70};" : "");
        if (logged[i] != NULL) {
            fake_answer(RLOCK_REFUSED, "42501");
            ASSERT_SENT(DUE "{7}");
            fake_answer(RLOCK_OK, "");
        }
        end_run();
        ASSERT_SAID(logged[i] != NULL ? logged[i] : "");
    }
}

STORE_CASE(test_expiry__draws_lotteries)
{
    open_with_lists();
    run_expiry("");
    for (int i = 0; i < 3; i++) {
        ASSERT_SENT(DRAW);
        ASSERT_SAID("");
        fake_answer(RLOCK_OK, i < 2 ? "7 1000 0 9 'full';" : "7 2999 1 null null;");
        ASSERT_SENT(DUE "{}");
        fake_answer(RLOCK_OK, "");
    }
    end_run();
    ASSERT_SAID("log lottery_drawn voucher_id=7 winners=2999;");
    run_expiry("");
    fake_answer(RLOCK_IO, NULL);
    ASSERT_SENT("nothing");
    run_expiry("");
    ASSERT_SAID("");
    fake_answer(RLOCK_REFUSED, "42501");
    ASSERT_SENT("nothing");
    ASSERT_SAID("log expiry_refused expired=0;");
}

STORE_CASE(test_expiry__logs_a_refused_draw_once)
{
    static const char *const refused[] = {"9 'a'", "9 'b'", "8 'c'", "null null",
                                          "8 'c'"};
    static const char *const logged[] = {"log draw_refused voucher_id=9 why=\"~a\";", "",
                                         "log draw_refused voucher_id=8 why=\"~c\";", "",
                                         "log draw_refused voucher_id=8 why=\"~c\";"};

    open_with_lists();
    for (size_t i = 0; i < 5; i++) {
        char row[80];

        run_expiry("");
        snprintf(row, sizeof(row), "null null null %s;", refused[i]);
        fake_answer(RLOCK_OK, row);
        ASSERT_SENT("nothing");
        ASSERT_SAID(logged[i]);
    }
}

static const char *due_rows(int first, int count)
{
    static char rows[WORDS_BYTES];

    rows[0] = '\0';
    for (int i = 0; i < count; i++)
        append(rows, sizeof(rows), "%d {%d};", first + i, first + i);
    return rows;
}

STORE_CASE(test_expiry__has_bounds)
{
    open_with_lists();
    run_expiry(due_rows(1, 501));
    for (int i = 1; i <= 500; i++)
        fake_answer(RLOCK_OK, i < 500 ? "0 0;" : "1 0;");
    ASSERT_CONTAINS(fake_print_oldest(), DUE "{1,2,");
    fake_answer(RLOCK_OK, due_rows(1000, 500));
    for (int i = 1; i <= 500; i++)
        fake_answer(RLOCK_OK, "0 0;");
    ASSERT_CONTAINS(fake_print_oldest(), DUE "{1,2,");
    fake_answer(RLOCK_OK, due_rows(2000, 2));
    fake_answer(RLOCK_OK, "0 0;");
    fake_answer(RLOCK_OK, "0 0;"); /* a run leaves out a thousand vouchers at most */
    end_run();
    ASSERT_SAID("log orders_expired count=1;");
    run_expiry("1 {1,2};2 {3};");
    ASSERT_SENT(EXPIRE "1 {1,2}");
    fake_answer(RLOCK_OK, "0 0;");
    ASSERT_SENT(EXPIRE "2 {3}");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
