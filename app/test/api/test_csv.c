/* test_csv.c - the rows of lists as CSV. */
#include "app/api/csv.h"
#include "test/asserts.h"
#include "test/case_list.h"

#include <stdlib.h>

static void assert_printed(char *text, const char *wanted)
{
    assert_string_equal(text, wanted);
    free(text);
}

UNIT_CASE(test_csv_print_orders__prints_a_row_per_order)
{
    const struct order orders[] = {{.id = 71,
                                    .voucher_id = 7,
                                    .user_id = 5,
                                    .price_cents = 100,
                                    .created_us = 1000000,
                                    .expires_us = 2000000,
                                    .paid_us = 1500000,
                                    .status = ORDER_REFUNDED},
                                   {.id = 70, .voucher_id = 8, .user_id = INT64_MAX}};
    const struct order_page page = {.orders = orders, .count = 2, .next_id = 70};

    assert_printed(
        csv_print_orders(&page, true),
        "id,voucher_id,user_id,status,price_cents,created_at,expires_at,paid_at\r\n"
        "71,7,5,refunded,100,1970-01-01T00:00:01Z,1970-01-01T00:00:02Z,"
        "1970-01-01T00:00:01.500000Z\r\n"
        "70,8,9223372036854775807,unpaid,0,1970-01-01T00:00:00Z,1970-01-01T00:00:00Z,"
        "\r\n");
    assert_printed(csv_print_orders(&(struct order_page){0}, false), "");
}

static void assert_detail(const char *detail, const char *wanted)
{
    const struct event event = {.id = 72,
                                .voucher_id = 7,
                                .order_id = 71,
                                .at_us = 1000000,
                                .actor = "payment:3",
                                .from_status = "unpaid",
                                .to_status = "paid",
                                .detail = detail};
    char row[200];

    snprintf(row, sizeof(row),
             "72,7,71,1970-01-01T00:00:01Z,0,payment:3,unpaid,paid,%s\r\n", wanted);
    assert_printed(csv_print_events(&event, 1, false), row);
}

UNIT_CASE(test_csv_print_events__quotes_the_detail)
{
    const struct event stock = {
        .id = 70, .voucher_id = 7, .stock_change = -5, .actor = "admin:1"};

    assert_detail("ref", "\"ref\"");
    assert_detail("", "\"\"");
    assert_detail("a,\"b\"\n", "\"a,\"\"b\"\"\n\"");
    assert_detail("=1+1", "\"'=1+1\"");
    assert_detail("+1", "\"'+1\"");
    assert_detail("-1", "\"'-1\"");
    assert_detail("@a", "\"'@a\"");
    assert_detail("\ta", "\"'\ta\"");
    assert_detail("\ra", "\"'\ra\"");
    assert_detail(NULL, "");
    assert_printed(csv_print_events(&stock, 1, true),
                   "id,voucher_id,order_id,at,stock_change,actor,from_status,to_status,"
                   "detail\r\n70,7,,1970-01-01T00:00:00Z,-5,admin:1,,,\r\n");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
