/* test_store_reads.c - reads: what is sent and decoded, turns and deadlines. */
#include "app/test/store/shop_fixture.h"
#include "test/torture.h"

/* -- reads: what is sent, what comes back -- */

static void call_read_voucher(void)
{
    store_read_voucher(shop, 7, on_vouchers, shop);
}

static void call_read_vouchers(void)
{
    store_read_vouchers(shop, (const int64_t[]){7, 9}, 2, on_vouchers, shop);
}

static void list_vouchers(enum voucher_state state, int64_t after_us, int64_t after_id)
{
    const struct voucher_filter filter = {.state = state,
                                          .after_us =
                                              after_us == 0 ? 0 : EPOCH_US + after_us,
                                          .after_id = after_id,
                                          .limit = 5};

    store_list_vouchers(shop, &filter, on_vouchers, shop);
}

/* clang-format off */
static void call_list_any(void)            { list_vouchers(VOUCHER_ANY, 0, 0); }
static void call_list_any_after(void)      { list_vouchers(VOUCHER_ANY, 0, 30); }
static void call_list_upcoming(void)       { list_vouchers(VOUCHER_UPCOMING, 0, 0); }
static void call_list_upcoming_after(void) { list_vouchers(VOUCHER_UPCOMING, 3, 30); }
static void call_list_open(void)           { list_vouchers(VOUCHER_OPEN, 0, 0); }
static void call_list_ended(void)          { list_vouchers(VOUCHER_ENDED, 0, 0); }
static void call_list_ended_after(void)    { list_vouchers(VOUCHER_ENDED, 4, 31); }
/* clang-format on */

static void call_read_order(void)
{
    store_read_order(shop, 71, 5, on_order, shop);
}

static void call_list_orders(void)
{
    const struct order_filter filter = {.user_id = 5, .until_us = INT64_MAX, .limit = 2};

    store_list_orders(shop, &filter, on_orders, shop);
}

static void call_list_orders_filtered(void)
{
    const struct order_filter filter = {.user_id = 5,
                                        .voucher_id = 7,
                                        .status = {"paid", 4},
                                        .from_us = EPOCH_US + 8,
                                        .until_us = EPOCH_US + 9,
                                        .before_id = 90,
                                        .limit = 20};

    store_list_orders(shop, &filter, on_orders, shop);
}

static void call_list_voucher_orders(void)
{
    const struct order_filter filter = {
        .voucher_id = 7, .until_us = INT64_MAX, .limit = 2};

    store_list_orders(shop, &filter, on_orders, shop);
}

static void call_search_order(void)
{
    const struct order_filter filter = {
        .order_id = 71, .until_us = INT64_MAX, .limit = 20};

    store_list_orders(shop, &filter, on_orders, shop);
}

static void call_search_payment(void)
{
    const struct order_filter filter = {
        .payment_ref = {"ref", 3}, .user_id = 5, .until_us = INT64_MAX, .limit = 20};

    store_list_orders(shop, &filter, on_orders, shop);
}

static void call_list_voucher_events(void)
{
    const struct event_filter filter = {.voucher_id = 7, .after_id = 3, .limit = 21};

    store_list_events(shop, &filter, on_events, shop);
}

static void call_list_stock_events(void)
{
    const struct event_filter filter = {
        .voucher_id = 7, .without_orders = true, .after_id = 3, .limit = 21};

    store_list_events(shop, &filter, on_events, shop);
}

static void call_list_order_events(void)
{
    const struct event_filter filter = {.voucher_id = 7, .order_id = 71, .limit = 21};

    store_list_events(shop, &filter, on_events, shop);
}

static void on_entries(enum rlock_status status, const struct lottery_entry *entries,
                       size_t count, void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s", rlock_status_name(status));
    for (size_t i = 0; i < count; i++)
        SAY(" %s %d", entries[i].hash != NULL ? entries[i].hash : "-",
            entries[i].has_won);
    SAY(";");
}

static void call_read_entry(void)
{
    store_read_entry(shop, 7, 5, on_entries, shop);
}

static void call_list_entries(void)
{
    store_list_entries(shop, 7, (struct text){"ab", 2}, 501, on_entries, shop);
}

/* clang-format off */
static const struct read_row {
    void (*call)(void);
    const char *sent, *rows, *said;
} read_rows[] = {
    {call_read_voucher, "reads read_voucher 251/1000: 7", V7 " 8;", "ok now 8: " V7 ";"},
    {call_read_voucher, "reads read_voucher 251/1000: 7", NO_VOUCHER, "not_found now 0:;"},
    {call_read_vouchers, "main read_vouchers 251/1000: {7,9}", V7 " 8;" V9 " 8;", "ok now 8: " V7 " " V9_FOUND ";"},
    {call_read_vouchers, "main read_vouchers 251/1000: {7,9}", NO_VOUCHER, "ok now 8:;"},
    {call_read_vouchers, "main read_vouchers 251/1000: {7,9}", "", "io now 0:;"},
    {call_list_any, "reads list_any 251/1000: " LAST " 5", V9 " 8;" V7 " 8;", "ok now 8: " V9_FOUND " " V7 ";"},
    {call_list_any_after, "reads list_any 251/1000: 30 5", NO_VOUCHER, "ok now 8:;"},
    {call_list_upcoming, "reads list_upcoming 251/1000: " FIRST " " FIRST " 5", NO_VOUCHER, "ok now 8:;"},
    {call_list_upcoming_after, "reads list_upcoming 251/1000: 3 30 5", NO_VOUCHER, "ok now 8:;"},
    {call_list_open, "reads list_open 251/1000: " FIRST " " FIRST " 5", NO_VOUCHER, "ok now 8:;"},
    {call_list_ended, "reads list_ended 251/1000: " LAST " " LAST " 5", NO_VOUCHER, "ok now 8:;"},
    {call_list_ended_after, "reads list_ended 251/1000: 4 31 5", NO_VOUCHER, "ok now 8:;"},
    {call_read_order, "reads read_order 251/1000: 71 5", "71 7 5 {100,11,12,13,1};", "ok 71 7 5 100 11 12 13 1;"},
    {call_read_order, "reads read_order 251/1000: 71 5", "71 7 5 {100,11,12,0,0};", "ok 71 7 5 100 11 12 0 0;"},
    {call_read_order, "reads read_order 251/1000: 71 5", "71 7 5 {100,11,12,0,5};", "ok 71 7 5 100 11 12 0 5;"},
    {call_read_order, "reads read_order 251/1000: 71 5", "71 7 5 {100,11,12,0,6};", "io;"},
    {call_read_order, "reads read_order 251/1000: 71 5", "71 7 5 {100,11,12,0,-1};", "io;"},
    {call_read_order, "reads read_order 251/1000: 71 5", "", "not_found;"},
    {call_list_orders, "reads list_orders 251/1000: 0 " LAST " 3 null " EPOCH " " LAST " 5",
     "71 7 5 {100,11,12,13,1};70 9 5 {101,21,22,0,0};", "ok 71 7 5 100 11 12 13 1 70 9 5 101 21 22 0 0;"},
    {call_list_orders, "reads list_orders 251/1000: 0 " LAST " 3 null " EPOCH " " LAST " 5", "", "ok;"},
    {call_list_orders, "reads list_orders 251/1000: 0 " LAST " 3 null " EPOCH " " LAST " 5",
     "71 7 5 {100,11,12,13,9};70 9 5 {101,21,22,0,0};", "io;"},
    {call_list_orders, "reads list_orders 251/1000: 0 " LAST " 3 null " EPOCH " " LAST " 5",
     "71 7 5 {100,11,12,13,1};70 9 5 {101,21,22,0,0};69 9 5 {101,21,22,0,0};",
     "ok 71 7 5 100 11 12 13 1 70 9 5 101 21 22 0 0 next 70;"},
    {call_list_orders_filtered, "reads list_orders 251/1000: 7 90 21 'paid' 8 9 5", "", "ok;"},
    {call_list_voucher_orders, "reads list_voucher_orders 251/1000: 7 " LAST " 3 null " EPOCH " " LAST,
     "71 7 5 {100,11,12,13,1};60 null null null;", "ok 71 7 5 100 11 12 13 1 next 60;"},
    {call_list_voucher_orders, "reads list_voucher_orders 251/1000: 7 " LAST " 3 null " EPOCH " " LAST,
     "60 null null null;", "ok next 60;"},
    {call_search_order, "reads search_order 251/1000: 0 " LAST " 21 null " EPOCH " " LAST " 0 71 null", "", "ok;"},
    {call_search_payment, "reads search_order 251/1000: 0 " LAST " 21 null " EPOCH " " LAST " 5 null 'ref'", "", "ok;"},
    {call_list_voucher_events, "reads voucher_events 251/1000: 7 3 21",
     "4 7 null 8 30 'admin:1' null null null;5 7 71 9 -1 'shopper:5' 'unpaid' 'paid' 'ref';",
     "ok 4 7 0 8 30 admin:1 - - - 5 7 71 9 -1 shopper:5 unpaid paid ref;"},
    {call_list_voucher_events, "reads voucher_events 251/1000: 7 3 21", "", "ok;"},
    {call_list_stock_events, "reads stock_events 251/1000: 7 3 21", "", "ok;"},
    {call_list_order_events, "reads order_events 251/1000: 7 0 21 71", "", "ok;"},
    {call_read_entry, "reads read_entry 251/1000: 7 5", "null null;", "ok - 0;"},
    {call_read_entry, "reads read_entry 251/1000: 7 5", "", "ok;"},
    {call_list_entries, "reads read_entries 251/1000: 7 'ab' 501", "'ab' 1;'cd' 0;", "ok ab 1 cd 0;"},
};
/* clang-format on */

STORE_CASE(test_read__sends_its_parameters_and_decodes_the_rows)
{
    for (size_t i = 0; i < sizeof(read_rows) / sizeof(read_rows[0]); i++) {
        const struct read_row *row = &read_rows[i];

        row->call();
        store_flush(shop);
        ASSERT_SENT(row->sent);
        fake_answer(RLOCK_OK, row->rows);
        ASSERT_SAID(row->said);
        ASSERT_SENT("nothing");
        pass_ms(TIMEOUT_MS + 20);
        ASSERT_SAID("");
    }
}

/* A call that gets no memory uses a block of the reserve. Each block must come back, since there
   are more calls than blocks. */
STORE_CASE(test_read__is_answered_without_memory)
{
    for (int i = 0; i < 2 * STORE_RESERVE; i++) {
        torture_fail(1, 0);
        call_read_order();
        assert_true(torture_stop());
        store_flush(shop);
        fake_answer(RLOCK_OK, "");
        ASSERT_SAID("not_found;");
    }
}

STORE_CASE(test_read__is_answered_without_memory_for_its_rows)
{
    static const struct {
        void (*call)(void);
        const char *rows;
    } rows[] = {{call_list_orders, "71 7 5 {100,11,12,13,1};"},
                {call_list_voucher_events, "4 7 null 8 30 'admin:1' null null null;"},
                {call_read_entry, "null null;"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        rows[i].call();
        store_flush(shop);
        torture_fail(1, 0);
        fake_answer(RLOCK_OK, rows[i].rows);
        assert_true(torture_stop());
        ASSERT_SAID("no_memory;");
    }
}

STORE_CASE(test_read__fails_with_the_connection)
{
    for (size_t i = 0; i < sizeof(read_rows) / sizeof(read_rows[0]); i++) {
        read_rows[i].call();
        store_flush(shop);
        fake_answer(RLOCK_IO, NULL);
        if (strstr(said, "io") != said || strchr(said, ';') != said + strlen(said) - 1)
            fail_msg("row %zu: expected io, got \"%s\"", i, said);
        said[0] = '\0';
    }
}

STORE_CASE(test_lists__are_read_from_their_own_database)
{
    open_with_lists();
    for (size_t i = 0; i < sizeof(read_rows) / sizeof(read_rows[0]); i++) {
        bool is_list = strstr(read_rows[i].sent, " list_") != NULL ||
                       strstr(read_rows[i].sent, "_events ") != NULL;

        read_rows[i].call();
        store_flush(shop);
        if (is_list != (strstr(fake_print_oldest(), "lists ") != NULL))
            fail_msg("sent on the wrong connection: %s", fake_print_oldest());
        fake_answer(RLOCK_IO, NULL);
    }
}

/* -- reads: turns and deadlines -- */

static void list_limited(unsigned limit)
{
    const struct voucher_filter filter = {.state = VOUCHER_ANY, .limit = limit};

    store_list_vouchers(shop, &filter, on_vouchers, shop);
    store_flush(shop);
}

STORE_CASE(test_reads__have_256_rows_under_way)
{
    list_limited(101);
    list_limited(101);
    list_limited(55);
    list_limited(54);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 2);
    fake_answer(RLOCK_OK, NO_VOUCHER);
    store_flush(shop);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 3);
    while (fake_sent_count > 0)
        fake_answer(RLOCK_OK, NO_VOUCHER);
    list_limited(101);
    list_limited(101);
    list_limited(54);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 3);
    while (fake_sent_count > 0)
        fake_answer(RLOCK_OK, NO_VOUCHER);
    list_limited(1000);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 1);
}

STORE_CASE(test_reads__of_orders_count_less)
{
    static void (*const calls[])(void) = {call_list_orders_filtered,
                                          call_list_voucher_events};

    for (size_t i = 0; i < 2; i++) {
        for (int j = 0; j < 64; j++)
            calls[i]();
        store_flush(shop);
        ASSERT_NUMBER(shop->reads[0].rows, ==, 64 * (1 + 21 / 8));
        while (fake_sent_count > 0)
            fake_answer(RLOCK_IO, NULL);
        ASSERT_NUMBER(shop->reads[0].rows, ==, 0);
    }
}

STORE_CASE(test_reads__sixty_four_are_under_way)
{
    for (int i = 0; i < 65; i++)
        call_read_voucher();
    store_flush(shop);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 64);
    fake_answer(RLOCK_IO, NULL);
    store_flush(shop);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 64);
}

STORE_CASE(test_reads__are_answered_at_their_deadline)
{
    for (int i = 0; i < 65; i++)
        call_read_order();
    pass_ms(TIMEOUT_MS - 1);
    ASSERT_SAID("");
    fake_cannot_abandon = true;
    pass_ms(21);
    ASSERT_SAID("no_memory;");
    fake_cannot_abandon = false;
    pass_ms(20);
    ASSERT_NUMBER(strlen(said), ==, 64 * strlen("timeout;"));
    ASSERT_CONTAINS(said, "timeout;timeout;");
    said[0] = '\0';
    fake_answer(RLOCK_OK, "71 7 5 {100,11,12,13,1};");
    ASSERT_SAID("");
    assert_false(uv_is_active((uv_handle_t *)&shop->deadline_timer));
}

STORE_CASE(test_reads__of_events_have_the_deadline_of_their_request)
{
    const struct event_filter filter = {
        .voucher_id = 7, .limit = 21, .deadline_us = simulated_us + 100000};

    store_list_events(shop, &filter, on_events, shop);
    pass_ms(99);
    ASSERT_SAID("");
    pass_ms(21);
    ASSERT_SAID("timeout;");
}

STORE_CASE(test_reads__wait_for_a_table_lock_behind_the_others)
{
    call_read_order();
    store_flush(shop);
    call_read_voucher();
    fake_answer(RLOCK_BUSY, "55P03");
    ASSERT_SAID("");
    store_flush(shop);
    ASSERT_SENT("reads read_voucher 251/1000: 7");
    /* The statement was cancelled, but not because of a lock. */
    fake_answer(RLOCK_BUSY, "57014");
    ASSERT_SAID("busy now 0:;");
    ASSERT_SENT("reads read_order 251/1000: 71 5");
    fake_answer(RLOCK_BUSY, "55P03");
    conn_of(ROLE_READS)->pending += 64;
    pass_ms(TIMEOUT_MS);
    ASSERT_SAID("busy;");
    conn_of(ROLE_READS)->pending -= 64;
}

STORE_CASE(test_reads__4096_wait)
{
    for (int i = 0; i < 4096; i++)
        call_read_order();
    pass_ms(0);
    ASSERT_SAID("");
    ASSERT_NUMBER(shop->reads[0].waiting_count, ==, 4096 - 64);
    for (int i = 0; i < 64; i++)
        call_read_order();
    ASSERT_NUMBER(shop->reads[0].waiting_count, ==, 4096);
    call_read_order();
    pass_ms(0);
    ASSERT_SAID("no_memory;");
}

STORE_CASE(test_reads__without_a_connection_are_down)
{
    call_read_order();
    conn_of(ROLE_READS)->is_up = false;
    call_read_order();
    call_read_vouchers();
    ASSERT_SAID("");
    pass_ms(0);
    ASSERT_SAID("down;down;");
    fake_answer(RLOCK_OK, NO_VOUCHER);
    ASSERT_SAID("ok now 8:;");
    conn_of(ROLE_MAIN)->is_up = false;
    call_read_vouchers();
    pass_ms(0);
    ASSERT_SAID("down now 0:;");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
