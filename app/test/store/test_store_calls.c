/* test_store_calls.c - reads, limits, the state of the store, and expiry. */
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

static void call_list_order_events(void)
{
    const struct event_filter filter = {.voucher_id = 7, .order_id = 71, .limit = 21};

    store_list_events(shop, &filter, on_events, shop);
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
    {call_list_order_events, "reads order_events 251/1000: 7 0 21 71", "", "ok;"},
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
        pass_ms(TIMEOUT_MS + 20); /* the call is not answered a second time */
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

STORE_CASE(test_list__is_answered_without_memory_for_its_rows)
{
    call_list_orders();
    store_flush(shop);
    torture_fail(1, 0);
    fake_answer(RLOCK_OK, "71 7 5 {100,11,12,13,1};");
    assert_true(torture_stop());
    ASSERT_SAID("no_memory;");
}

STORE_CASE(test_events__are_answered_without_memory_for_their_rows)
{
    call_list_voucher_events();
    store_flush(shop);
    torture_fail(1, 0);
    fake_answer(RLOCK_OK, "4 7 null 8 30 'admin:1' null null null;");
    assert_true(torture_stop());
    ASSERT_SAID("no_memory;");
}

/* Even if the result has rows, a failed read must not return them. */
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
    list_limited(54); /* must not overtake an earlier read */
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
    list_limited(1000); /* larger than the limit: it is sent alone */
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 1);
}

/* A row of an order or of an event counts as an eighth of the row of a voucher. */
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

/* At their deadline, reads that were sent are answered "timeout". A read that could not be sent is
   answered "no_memory". */
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
    fake_answer(RLOCK_OK, "71 7 5 {100,11,12,13,1};"); /* the late answer is dropped */
    ASSERT_SAID("");
    /* No read waits any more. */
    assert_false(uv_is_active((uv_handle_t *)&shop->deadline_timer));
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
    conn_of(ROLE_READS)->pending += 64; /* no room to send the read again */
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
    ASSERT_SAID(""); /* no callback runs inside the call */
    pass_ms(0);
    ASSERT_SAID("down;down;");
    fake_answer(RLOCK_OK, NO_VOUCHER);
    ASSERT_SAID("ok now 8:;");
    conn_of(ROLE_MAIN)->is_up = false;
    call_read_vouchers();
    pass_ms(0);
    ASSERT_SAID("down now 0:;");
}

/* -- limits and options of the connections -- */

static void assert_options(enum role role, const char *wanted)
{
    const struct store_conn_options *options = &conn_of(role)->options;
    char found[200];

    assert_ptr_equal(options->loop, &loop);
    assert_true((options->on_notify != NULL) == (options->listen != NULL));
    snprintf(found, sizeof(found), "%u %u %u %u %s %s%s%s required %d",
             options->timeout_ms, options->statement_ms, options->lock_ms,
             options->idle_ms, options->database_url,
             options->listen != NULL ? options->listen : "-",
             options->is_reader ? " reader" : "",
             options->finds_poolers ? " finds_poolers" : "", options->required);
    assert_string_equal(found, wanted);
}

STORE_CASE(test_store_open__gives_each_connection_its_limits)
{
    struct store_options options = options_of_shop();
    const char *url = options.database_url;
    /* clang-format off */
    static const struct {
        uint32_t timeout_ms;
        enum role role;
        const char *wanted;
    } rows[] = {
        {1000, ROLE_MAIN,         "1000 251 0 0 postgresql://one/seckill seckill_voucher finds_poolers required 3"},
        {1000, ROLE_READS,        "1000 251 20 0 postgresql://one/seckill - required 3"},
        {1000, ROLE_CHANGES,      "1000 751 40 0 postgresql://one/seckill - required 3"},
        {1000, ROLE_SLOW_CHANGES, "1000 751 40 0 postgresql://one/seckill - required 3"},
        {1000, ROLE_EXPIRY,       "1000 3750 50 1200 postgresql://one/seckill - required 3"},
        {1000, ROLE_LISTS,        "1000 251 20 0 postgresql://two/lists - reader finds_poolers required 3"},
        {1000, ROLE_PROBE,        "1000 751 40 0 postgresql://one/seckill - required 3"},
        {1000, ROLE_LANE,         "1000 751 40 0 postgresql://one/seckill - required 3"},
        {1000, ROLE_LANE + 1,     "1000 751 40 0 postgresql://one/seckill - required 3"},
        {400,  ROLE_LANE,         "400 301 20 0 postgresql://one/seckill - required 3"},
        {5001, ROLE_EXPIRY,       "5000 3750 50 1200 postgresql://one/seckill - required 3"},
        {5001, ROLE_READS,        "5001 1251 20 0 postgresql://one/seckill - required 3"},
    };
    /* clang-format on */

    options.lists_url = "postgresql://two/lists";
    options.expires_orders = true;
    options.required = DURABILITY_REMOTE;
    close_shop(NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reset(NULL);
        options.timeout_ms = rows[i].timeout_ms;
        open_store(&options);
        /* The URL was copied. */
        assert_ptr_not_equal(conn_of(ROLE_MAIN)->options.database_url, url);
        ASSERT_NUMBER(fake_opened, ==, 9);
        assert_options(rows[i].role, rows[i].wanted);
        close_shop(NULL);
    }
    open_shop(NULL);
    ASSERT_NUMBER(fake_opened, ==, 7);
}

STORE_CASE(test_store_open__refuses_malformed_urls)
{
    struct store_options options = options_of_shop();
    struct store *opened;
    struct rlock_err err;

    options.lists_url = "postgresql://two:99999/lists";
    ASSERT_STATUS(store_open(&options, &opened, &err), RLOCK_INVALID);
    ASSERT_CONTAINS(err.text, "SECKILL_LISTS_DATABASE_URL has a port");
    options.database_url = "postgresql://one:99999/seckill";
    ASSERT_STATUS(store_open(&options, &opened, &err), RLOCK_INVALID);
    assert_string_equal(err.text,
                        "SECKILL_DATABASE_URL has a port that is not 1 to 65535");
}

STORE_CASE(test_store_open__without_memory_leaves_nothing)
{
    struct store_options options = options_of_shop();
    struct store *opened;
    struct rlock_err err;

    close_shop(NULL);
    for (size_t max = 0; max < 7; max++) {
        reset(NULL);
        fake_opened_max = max;
        ASSERT_STATUS(store_open(&options, &opened, &err), RLOCK_NO_MEMORY);
        assert_string_equal(err.text, "out of memory");
        uv_run(&loop, UV_RUN_DEFAULT);
        ASSERT_NUMBER(uv_loop_close(&loop), ==, 0);
    }
    open_shop(NULL);
}

/* -- state -- */

STORE_CASE(test_state__is_up_with_all_but_expiry_and_lists)
{
    static const struct {
        enum role role;
        bool is_needed;
    } rows[] = {{ROLE_MAIN, true},   {ROLE_READS, true},   {ROLE_EXPIRY, false},
                {ROLE_LISTS, false}, {ROLE_CHANGES, true}, {ROLE_SLOW_CHANGES, true},
                {ROLE_PROBE, false}, {ROLE_LANE, true},    {ROLE_LANE + 1, true}};
    struct store_options options = options_of_shop();

    options.lists_url = "postgresql://two/lists";
    options.expires_orders = true;
    close_shop(NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reset(NULL);
        open_store(&options);
        assert_true(store_is_up(shop));
        fake_lose(conn_of(rows[i].role), RLOCK_IO);
        if (store_is_up(shop) == rows[i].is_needed)
            fail_msg("connection %u: up %d without it", rows[i].role, store_is_up(shop));
        ASSERT_SAID(rows[i].role == ROLE_LISTS ? "lists down io;"
                    : rows[i].is_needed        ? "down io;"
                                               : "");
        ASSERT_NUMBER(metrics.postgres_reconnects, ==,
                      rows[i].is_needed || rows[i].role == ROLE_PROBE);
        close_shop(NULL);
    }
    open_shop(NULL);
}

STORE_CASE(test_state__is_reported_when_it_changes)
{
    struct store_conn *lane = conn_of(ROLE_LANE);

    fake_lose(lane, RLOCK_IO);
    ASSERT_SAID("down io;");
    fake_lose(lane, RLOCK_TIMEOUT);
    fake_lose(lane, RLOCK_IO);
    ASSERT_SAID("");
    fake_lose(lane, RLOCK_REFUSED); /* the reason has changed, so it is reported */
    ASSERT_SAID("down refused;");
    fake_lose(lane, RLOCK_REFUSED);
    ASSERT_SAID("");
    ASSERT_NUMBER(metrics.postgres_reconnects, ==, 1);
    fake_lose(lane, RLOCK_IO);
    ASSERT_SAID("");
    fake_lose(lane, RLOCK_UNSAFE);
    ASSERT_SAID("down unsafe;");
    fake_come_up(lane);
    ASSERT_SAID("up ;");
    fake_come_up(conn_of(ROLE_MAIN));
    ASSERT_SAID("changed 0;");
}

/* The service finds a standby, which is read-only. After its promotion the server has no standby of
   its own, so it is not durable. Then it is lost, and another standby answers. */
STORE_CASE(test_state__follows_the_reasons_of_a_failover)
{
    fake_lose(conn_of(ROLE_MAIN), RLOCK_BUSY);
    ASSERT_SAID("down busy;");
    fake_lose(conn_of(ROLE_MAIN), RLOCK_UNSAFE);
    ASSERT_SAID("down unsafe;");
    fake_lose(conn_of(ROLE_MAIN), RLOCK_BUSY);
    ASSERT_SAID("down busy;");
}

STORE_CASE(test_state__tells_that_the_server_that_is_back_is_read_only)
{
    fake_lose(conn_of(ROLE_LANE), RLOCK_IO);
    ASSERT_SAID("down io;");
    fake_lose(conn_of(ROLE_LANE), RLOCK_BUSY);
    ASSERT_SAID("down busy;");
}

STORE_CASE(test_state__is_reported_when_the_first_attempts_have_failed)
{
    struct store_options options = options_of_shop();
    struct rlock_err err;

    close_shop(NULL);
    reset(NULL);
    ASSERT_STATUS(store_open(&options, &shop, &err), RLOCK_OK);
    fake_come_up(conn_of(ROLE_READS)); /* the other connections are not up yet */
    ASSERT_SAID("");
    fake_lose(conn_of(ROLE_MAIN), RLOCK_IO);
    ASSERT_SAID("down io;");
}

#define DUE    "expiry due_batches 3750/5000: 500 "
#define EXPIRE "expiry expire_batches 3750/5000: "

/* A run starts every 600 ms, unless the last run is still under way. */
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
    ASSERT_SENT("nothing");
    pass_ms(600);
    ASSERT_SENT(DUE "{}");
    fake_lose(conn_of(ROLE_EXPIRY), RLOCK_IO);
    ASSERT_NUMBER(metrics.expiry_leader, ==, 0);
    fake_come_up(conn_of(ROLE_EXPIRY));
    pass_ms(600);
    ASSERT_SENT("expiry lead_expiry 3750/5000: ");
}

/* Starts the next run of expiry, and answers its query for due batches with these rows. */
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
    ASSERT_SENT("nothing");
    ASSERT_SAID("log orders_expired count=3;");
    run_expiry("7 {70};"); /* the next run tries voucher 7 again */
    fake_answer(RLOCK_OK, "0 1;");
    ASSERT_SENT(DUE "{}");
    fake_answer(RLOCK_OK, "9 {90};");
    fake_answer(RLOCK_OK, "1 0;");
    ASSERT_SENT(DUE "{}");
    fake_answer(RLOCK_OK, "");
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
    ASSERT_SENT("nothing");
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
        ASSERT_SAID(logged[i] != NULL ? logged[i] : "");
    }
}

/* Rows for vouchers first, first + 1, and so on. Each has one due batch. */
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
    ASSERT_SENT("nothing");
    ASSERT_SAID("log orders_expired count=1;");
    run_expiry("1 {1,2};2 {3};");
    ASSERT_SENT(EXPIRE "1 {1,2}");
    fake_answer(RLOCK_OK, "0 0;");
    ASSERT_SENT(EXPIRE "2 {3}");
}

STORE_CASE(test_state__connections_follow_the_one_that_came_up)
{
    open_with_lists();
    fake_come_up(conn_of(ROLE_CHANGES));
    for (size_t i = 0; i < fake_opened; i++) {
        if (&fake_conns[i] != conn_of(ROLE_LISTS))
            assert_ptr_equal(fake_conns[i].leader, conn_of(ROLE_CHANGES));
    }
    assert_null(conn_of(ROLE_LISTS)->leader);
    fake_come_up(conn_of(ROLE_LISTS));
    ASSERT_SAID("lists up ;");
    assert_ptr_equal(conn_of(ROLE_MAIN)->leader, conn_of(ROLE_CHANGES));
}

/* Only the main connection looks for a server. The other connections wait until it is up, also
   after the start. */
STORE_CASE(test_state__others_rest_while_the_main_connection_is_down)
{
    open_with_lists();
    for (size_t i = 0; i < fake_opened; i++)
        ASSERT_NUMBER(fake_conns[i].has_rested, ==,
                      &fake_conns[i] != conn_of(ROLE_MAIN) &&
                          &fake_conns[i] != conn_of(ROLE_LISTS));
    fake_lose(conn_of(ROLE_LANE), RLOCK_IO);
    assert_false(conn_of(ROLE_LANE)->is_resting);
    fake_lose(conn_of(ROLE_MAIN), RLOCK_IO);
    assert_false(conn_of(ROLE_MAIN)->is_resting);
    fake_lose(conn_of(ROLE_CHANGES), RLOCK_IO);
    assert_true(conn_of(ROLE_CHANGES)->is_resting);
}

/* The main connection breaks while another connection comes up. The reason of the loss is known a
   moment later, and only then the loss is reported. */
STORE_CASE(test_state__no_loss_is_reported_without_its_reason)
{
    conn_of(ROLE_MAIN)->is_up = false;
    fake_come_up(conn_of(ROLE_READS));
    ASSERT_SAID("");
    conn_of(ROLE_MAIN)->is_up = true;
    fake_lose(conn_of(ROLE_MAIN), RLOCK_IO);
    ASSERT_SAID("down io;");
}

STORE_CASE(test_state__an_unsafe_server_is_left_by_all_but_lists)
{
    open_with_lists();
    fake_lose(conn_of(ROLE_LANE), RLOCK_IO);
    /* A lane that is not up was only trying a server. */
    fake_lose(conn_of(ROLE_LANE), RLOCK_UNSAFE);
    for (size_t i = 0; i < fake_opened; i++)
        assert_false(fake_conns[i].is_left);
    fake_come_up(conn_of(ROLE_LANE));
    fake_lose(conn_of(ROLE_LANE), RLOCK_UNSAFE);
    for (size_t i = 0; i < fake_opened; i++)
        ASSERT_NUMBER(fake_conns[i].is_left, ==, &fake_conns[i] != conn_of(ROLE_LISTS));
}

STORE_CASE(test_state__a_pooler_is_left_by_all_but_lists)
{
    open_with_lists();
    fake_lose(conn_of(ROLE_LANE), RLOCK_NOT_OWNER);
    for (size_t i = 0; i < fake_opened; i++)
        ASSERT_NUMBER(fake_conns[i].is_left, ==, &fake_conns[i] != conn_of(ROLE_LISTS));
}

STORE_CASE(test_state__is_that_of_the_main_session)
{
    ASSERT_NUMBER(store_lists_age_s(shop), ==, -1);
    open_with_lists();
    conn_of(ROLE_MAIN)->session.durability = DURABILITY_LOCAL;
    conn_of(ROLE_MAIN)->session.cells = 4;
    conn_of(ROLE_MAIN)->session.cell = 1;
    conn_of(ROLE_LISTS)->session.age_s = 17;
    ASSERT_NUMBER(store_durability(shop), ==, DURABILITY_LOCAL);
    ASSERT_NUMBER(store_lists_age_s(shop), ==, 17);
    assert_false(store_is_foreign(shop, 0));
    assert_false(store_is_foreign(shop, 5));
    assert_true(store_is_foreign(shop, 6));
    conn_of(ROLE_MAIN)->session = (struct store_session){.cells = 1};
    assert_false(store_is_foreign(shop, 6));
    /* This is the session before the first connection. */
    conn_of(ROLE_MAIN)->session = (struct store_session){0};
    assert_false(store_is_foreign(shop, 6));
    conn_of(ROLE_MAIN)->session = (struct store_session){.cells = 2, .cell = 1};
    assert_true(store_is_foreign(shop, 6));
    store_check(shop);
    assert_true(conn_of(ROLE_MAIN)->is_checked);
    conn_of(ROLE_MAIN)->options.on_notify("123", shop);
    ASSERT_SAID("changed 123;");
}

STORE_CASE(test_store_print__is_a_json_object)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    open_with_lists();
    conn_of(ROLE_READS)->session.backend.pid = 12;
    conn_of(ROLE_LANE + 1)->is_up = false;
    call_read_order();
    store_flush(shop);
    store_suspect(shop, (struct store_backend){1, 2});
    out = open_memstream(&text, &size);
    store_print(shop, out);
    fclose(out);
    assert_string_equal(text,
                        "{\"suspects\":1,\"connections\":["
                        "{\"use\":\"main\",\"is_up\":1,\"pid\":0,\"pending\":0},"
                        "{\"use\":\"reads\",\"is_up\":1,\"pid\":12,\"pending\":1},"
                        "{\"use\":\"changes\",\"is_up\":1,\"pid\":0,\"pending\":0},"
                        "{\"use\":\"slow_changes\",\"is_up\":1,\"pid\":0,\"pending\":0},"
                        "{\"use\":\"expiry\",\"is_up\":1,\"pid\":0,\"pending\":0},"
                        "{\"use\":\"lists\",\"is_up\":1,\"pid\":0,\"pending\":0},"
                        "{\"use\":\"probe\",\"is_up\":1,\"pid\":0,\"pending\":0},"
                        "{\"use\":\"orders\",\"is_up\":1,\"pid\":0,\"pending\":0},"
                        "{\"use\":\"orders\",\"is_up\":0,\"pid\":0,\"pending\":0}]}");
    free(text);
}

STORE_CASE(test_store_flush__reaches_every_connection)
{
    store_flush(shop);
    for (size_t i = 0; i < fake_opened; i++)
        assert_true(fake_conns[i].is_flushed);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
