/* test_store_calls.c - what each call of a store sends and how it is answered, with fake connections
 * and in simulated time. */
#include "app/core/log.h"
#include "app/test/sale/simulated_time.h"
#include "app/test/store/fake_conns.h"

#define TIMEOUT_MS 1000
#define EPOCH_US   INT64_C(946684800000000)

static uv_loop_t loop;
static struct store *shop;
static struct metrics metrics;
static char said[FAKE_TEXT_BYTES]; /* by callbacks, each ends with ";" */

/* Only the store's own timers, and only in simulated time. */
int uv_is_active(const uv_handle_t *handle)
{
    for (size_t i = 0; i < SIMULATED_TIMERS_MAX; i++) {
        if ((const uv_handle_t *)simulated_timers[i].timer == handle)
            return simulated_timers[i].callback != NULL;
    }
    return 0;
}

static void turn(void)
{
    store_flush(shop);
}

static void no_turn(void)
{
}

static void pass_ms(int64_t ms)
{
    simulated_time_pass_us(ms * 1000, turn);
}

#define ASSERT_SAID(wanted) assert_said(wanted, __FILE__, __LINE__)

static void assert_said(const char *wanted, const char *file, int line)
{
    fake_assert_text(said, wanted, file, line);
    said[0] = '\0';
}

#define SAY(...) fake_add(said, sizeof(said), __VA_ARGS__)

void log_event(enum log_level level UNUSED, const char *event, const char *format, ...)
{
    char words[200];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    SAY("log %s %s;", event, words);
}

static void on_voucher_changed(int64_t voucher_id, void *arg)
{
    assert_ptr_equal(arg, &loop);
    SAY("changed %lld;", (long long)voucher_id);
}

static void on_state(bool is_up, const struct err *why, void *arg)
{
    assert_ptr_equal(arg, &loop);
    SAY("%s %s;", is_up ? "up" : "down", why != NULL ? status_name(why->status) : "");
}

static void on_lists_state(bool is_up, const struct err *why, void *arg)
{
    assert_ptr_equal(arg, &loop);
    SAY("lists %s %s;", is_up ? "up" : "down",
        why != NULL ? status_name(why->status) : "");
}

static struct store_options options_of_shop(void)
{
    return (struct store_options){.loop = &loop,
                                  .database_url = "postgresql://one/seckill",
                                  .timeout_ms = TIMEOUT_MS,
                                  .lanes = 2,
                                  .metrics = &metrics,
                                  .on_voucher_changed = on_voucher_changed,
                                  .on_state = on_state,
                                  .on_lists_state = on_lists_state,
                                  .arg = &loop};
}

static void open_store(const struct store_options *options)
{
    struct err err;

    ASSERT_STATUS(store_open(options, &shop, &err), STATUS_OK);
    for (size_t i = 0; i < fake_opened; i++)
        fake_come_up(&fake_conns[i]);
    said[0] = '\0';
}

static int reset(void **state UNUSED)
{
    simulated_time_reset();
    fake_reset();
    memset(&metrics, 0, sizeof(metrics));
    said[0] = '\0';
    return uv_loop_init(&loop);
}

static int open_shop(void **state)
{
    struct store_options options = options_of_shop();

    reset(state);
    open_store(&options);
    return 0;
}

static int close_shop(void **state UNUSED)
{
    store_close(shop, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ASSERT_NUMBER(uv_loop_close(&loop), ==, 0); /* no handle is left */
    return 0;
}

/* Lists are read from another database, and overdue orders expire. */
static void open_with_lists(void)
{
    struct store_options options = options_of_shop();

    close_shop(NULL);
    reset(NULL);
    options.lists_url = "postgresql://two/lists";
    options.expires_orders = true;
    open_store(&options);
}

static struct store_conn *conn_of(enum role role)
{
    return shop->conns[role];
}

/* -- callbacks say what they got -- */

static void say_text(struct text text)
{
    if (text.bytes == NULL)
        SAY(" null");
    else
        SAY(" '%.*s'", (int)text.len, text.bytes);
}

/* From 2000, unless it is small. */
static long long short_us(int64_t us)
{
    return us >= EPOCH_US ? us - EPOCH_US : us;
}

static void say_order(const struct order *order)
{
    SAY(" %lld %lld %lld %lld %lld %lld %lld %d", (long long)order->id,
        (long long)order->voucher_id, (long long)order->user_id,
        (long long)order->price_cents, short_us(order->created_us),
        short_us(order->expires_us), short_us(order->paid_us), order->status);
}

static void on_vouchers(enum status status, const struct voucher *vouchers, size_t count,
                        int64_t now_us, void *arg)
{
    assert_ptr_equal(arg, shop);
    assert_true((vouchers == NULL) == (count == 0));
    SAY("%s now %lld:", status_name(status),
        (long long)(now_us == 0 ? 0 : now_us - EPOCH_US));
    for (size_t i = 0; i < count; i++) {
        const struct voucher *v = &vouchers[i];

        SAY(" %lld %lld", (long long)v->id, (long long)v->version);
        say_text(v->title);
        say_text(v->description);
        SAY(" %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld",
            (long long)v->price_cents, (long long)v->face_value_cents,
            (long long)v->stock_total, (long long)v->stock_left,
            (long long)v->per_user_limit, (long long)v->pay_within_s,
            (long long)(v->begin_us - EPOCH_US), (long long)(v->end_us - EPOCH_US),
            (long long)v->requires_ticket, (long long)v->pow_bits);
    }
    SAY(";");
}

static void on_order(enum status status, const struct order *order, void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s", status_name(status));
    if (order != NULL)
        say_order(order);
    SAY(";");
}

static void on_orders(enum status status, const struct order *orders, size_t count,
                      void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s", status_name(status));
    for (size_t i = 0; i < count; i++)
        say_order(&orders[i]);
    SAY(";");
}

static void on_events(enum status status, const struct event *events, size_t count,
                      void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s", status_name(status));
    for (size_t i = 0; i < count; i++) {
        const struct event *e = &events[i];

        SAY(" %lld %lld %lld %lld %lld %s %s %s %s", (long long)e->id,
            (long long)e->voucher_id, (long long)e->order_id,
            (long long)(e->at_us - EPOCH_US), (long long)e->stock_change,
            e->actor != NULL ? e->actor : "-",
            e->from_status != NULL ? e->from_status : "-",
            e->to_status != NULL ? e->to_status : "-",
            e->detail != NULL ? e->detail : "-");
    }
    SAY(";");
}

static void on_change(enum status status, enum change_verdict verdict,
                      const struct order *order, void *arg)
{
    SAY("%s %s", (const char *)arg, status_name(status));
    if (status == STATUS_OK)
        SAY(" %d", verdict);
    if (order != NULL)
        say_order(order);
    SAY(";");
}

static void on_key(enum status status, const struct placement *placement, void *arg)
{
    SAY("%s %s", (const char *)arg, status_name(status));
    if (status == STATUS_OK) {
        SAY(" %d", placement->verdict);
        say_order(&placement->order);
    }
    SAY(";");
}

static void on_batch(enum status status, const struct voucher_snapshot *snapshot,
                     const struct err *why, void *arg)
{
    assert_true((why == NULL) == (status == STATUS_OK));
    SAY("%s %s", (const char *)arg, status_name(status));
    if (snapshot != NULL)
        SAY(" snapshot %lld %lld %lld %lld %lld", (long long)snapshot->voucher_id,
            (long long)snapshot->version, (long long)snapshot->stock_left,
            (long long)(snapshot->begin_us - EPOCH_US),
            (long long)(snapshot->end_us - EPOCH_US));
    SAY(";");
}

static void on_released(void *arg)
{
    SAY("%s released;", (const char *)arg);
}

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
                                          .after_us = after_us == 0 ? 0
                                                                    : EPOCH_US + after_us,
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

static void list_orders(int64_t voucher_id, int64_t before_id)
{
    const struct order_filter filter = {
        .user_id = 5, .voucher_id = voucher_id, .before_id = before_id, .limit = 21};

    store_list_orders(shop, &filter, on_orders, shop);
}

static void call_list_orders(void)
{
    list_orders(0, 0);
}

static void call_list_orders_before(void)
{
    list_orders(7, 90);
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

#define V7 "7 1 'T' 'D' 100 200 30 29 2 900 3 4 1 20"
#define V9 "9 2 '' null 101 201 31 28 3 901 5 6 0 0"
#define NO_VOUCHER                                                                       \
    "null null null null null null null null null null null null null null 8;"
#define V9_FOUND "9 2 '' null 101 201 31 28 3 901 5 6 0 0"
#define FIRST    "-9223372036854775808"
#define LAST     "9223372036854775807"

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
    {call_list_orders, "reads list_orders 251/1000: 5 0 " LAST " 21",
     "71 7 5 {100,11,12,13,1};70 9 5 {101,21,22,0,0};", "ok 71 7 5 100 11 12 13 1 70 9 5 101 21 22 0 0;"},
    {call_list_orders, "reads list_orders 251/1000: 5 0 " LAST " 21", "", "ok;"},
    {call_list_orders, "reads list_orders 251/1000: 5 0 " LAST " 21",
     "71 7 5 {100,11,12,13,9};70 9 5 {101,21,22,0,0};", "io;"},
    {call_list_orders_before, "reads list_orders 251/1000: 5 7 90 21", "", "ok;"},
    {call_list_voucher_events, "reads voucher_events 251/1000: 7 3 21",
     "4 7 null 8 30 'admin:1' null null null;5 7 71 9 -1 'shopper:5' 'unpaid' 'paid' 'ref';",
     "ok 4 7 0 8 30 admin:1 - - - 5 7 71 9 -1 shopper:5 unpaid paid ref;"},
    {call_list_voucher_events, "reads voucher_events 251/1000: 7 3 21", "", "ok;"},
    {call_list_order_events, "reads order_events 251/1000: 7 0 21 71", "", "ok;"},
};
/* clang-format on */

static void test_read__sends_its_parameters_and_decodes_the_rows(void **state UNUSED)
{
    for (size_t i = 0; i < sizeof(read_rows) / sizeof(read_rows[0]); i++) {
        const struct read_row *row = &read_rows[i];

        row->call();
        store_flush(shop);
        ASSERT_SENT(row->sent);
        fake_answer(STATUS_OK, row->rows);
        ASSERT_SAID(row->said);
        ASSERT_SENT("nothing");
        pass_ms(TIMEOUT_MS + 20); /* it is not answered again */
        ASSERT_SAID("");
    }
}

/* What failed has no rows, whatever the result contains. */
static void test_read__fails_with_the_connection(void **state UNUSED)
{
    for (size_t i = 0; i < sizeof(read_rows) / sizeof(read_rows[0]); i++) {
        read_rows[i].call();
        store_flush(shop);
        fake_answer(STATUS_IO, NULL);
        if (strstr(said, "io") != said || strchr(said, ';') != said + strlen(said) - 1)
            fail_msg("row %zu: expected io, got \"%s\"", i, said);
        said[0] = '\0';
    }
}

static void test_lists__are_read_from_their_own_database(void **state UNUSED)
{
    open_with_lists();
    for (size_t i = 0; i < sizeof(read_rows) / sizeof(read_rows[0]); i++) {
        bool is_list = strstr(read_rows[i].sent, " list_") != NULL ||
                       strstr(read_rows[i].sent, "_events ") != NULL;

        read_rows[i].call();
        store_flush(shop);
        if (is_list != (strstr(fake_print_oldest(), "lists ") != NULL))
            fail_msg("sent on the wrong connection: %s", fake_print_oldest());
        fake_answer(STATUS_IO, NULL);
    }
}

/* -- reads: turns and deadlines -- */

static void list_limited(unsigned limit)
{
    const struct voucher_filter filter = {.state = VOUCHER_ANY, .limit = limit};

    store_list_vouchers(shop, &filter, on_vouchers, shop);
    store_flush(shop);
}

static void test_reads__have_256_rows_under_way(void **state UNUSED)
{
    list_limited(101);
    list_limited(101);
    list_limited(55);
    list_limited(54); /* takes no turn of an earlier read */
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 2);
    fake_answer(STATUS_OK, NO_VOUCHER);
    store_flush(shop);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 3);
    while (fake_sent_count > 0)
        fake_answer(STATUS_OK, NO_VOUCHER);
    list_limited(101);
    list_limited(101);
    list_limited(54);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 3);
    while (fake_sent_count > 0)
        fake_answer(STATUS_OK, NO_VOUCHER);
    list_limited(1000); /* alone */
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 1);
}

/* An order or an event is an eighth of a voucher. */
static void test_reads__of_orders_count_less(void **state UNUSED)
{
    static void (*const calls[])(void) = {call_list_orders, call_list_voucher_events};

    for (size_t i = 0; i < 2; i++) {
        for (int j = 0; j < 64; j++)
            calls[i]();
        store_flush(shop);
        ASSERT_NUMBER(shop->reads[0].rows, ==, 64 * (1 + 21 / 8));
        while (fake_sent_count > 0)
            fake_answer(STATUS_IO, NULL);
        ASSERT_NUMBER(shop->reads[0].rows, ==, 0);
    }
}

static void test_reads__sixty_four_are_under_way(void **state UNUSED)
{
    for (int i = 0; i < 65; i++)
        call_read_voucher();
    store_flush(shop);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 64);
    fake_answer(STATUS_IO, NULL);
    store_flush(shop);
    ASSERT_NUMBER(conn_of(ROLE_READS)->pending, ==, 64);
}

/* Those under way time out; one that got no turn has changed nothing. */
static void test_reads__are_answered_at_their_deadline(void **state UNUSED)
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
    fake_answer(STATUS_OK, "71 7 5 {100,11,12,13,1};"); /* nobody waits for it */
    ASSERT_SAID("");
}

static void test_reads__wait_for_a_table_lock_behind_the_others(void **state UNUSED)
{
    call_read_order();
    store_flush(shop);
    call_read_voucher();
    fake_answer(STATUS_BUSY, "55P03");
    ASSERT_SAID("");
    store_flush(shop);
    ASSERT_SENT("reads read_voucher 251/1000: 7");
    fake_answer(STATUS_BUSY, "57014"); /* not by a lock */
    ASSERT_SAID("busy now 0:;");
    ASSERT_SENT("reads read_order 251/1000: 71 5");
    fake_answer(STATUS_BUSY, "55P03");
    conn_of(ROLE_READS)->pending += 64; /* it gets no second turn */
    pass_ms(TIMEOUT_MS);
    ASSERT_SAID("busy;");
    conn_of(ROLE_READS)->pending -= 64;
}

static void test_reads__4096_wait(void **state UNUSED)
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

static void test_reads__without_a_connection_are_down(void **state UNUSED)
{
    call_read_order();
    conn_of(ROLE_READS)->is_up = false;
    call_read_order();
    call_read_vouchers();
    ASSERT_SAID(""); /* never inside the call */
    pass_ms(0);
    ASSERT_SAID("down;down;");
    fake_answer(STATUS_OK, NO_VOUCHER);
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
    snprintf(found, sizeof(found), "%u %u %u %u %s %s%s required %d", options->timeout_ms,
             options->statement_ms, options->lock_ms, options->idle_ms,
             options->database_url, options->listen != NULL ? options->listen : "-",
             options->is_reader ? " reader" : "", options->required);
    fake_assert_text(found, wanted, __FILE__, __LINE__);
}

static void test_store_open__gives_each_connection_its_limits(void **state UNUSED)
{
    struct store_options options = options_of_shop();
    const char *url = options.database_url;
    /* clang-format off */
    static const struct {
        uint32_t timeout_ms;
        enum role role;
        const char *wanted;
    } rows[] = {
        {1000, ROLE_MAIN,         "1000 251 0 0 postgresql://one/seckill seckill_voucher required 3"},
        {1000, ROLE_READS,        "1000 251 20 0 postgresql://one/seckill - required 3"},
        {1000, ROLE_CHANGES,      "1000 751 40 0 postgresql://one/seckill - required 3"},
        {1000, ROLE_SLOW_CHANGES, "1000 751 40 0 postgresql://one/seckill - required 3"},
        {1000, ROLE_EXPIRY,       "1000 3750 50 1200 postgresql://one/seckill - required 3"},
        {1000, ROLE_LISTS,        "1000 251 20 0 postgresql://two/lists - reader required 3"},
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
        assert_ptr_not_equal(conn_of(ROLE_MAIN)->options.database_url, url); /* a copy */
        ASSERT_NUMBER(fake_opened, ==, 8);
        assert_options(rows[i].role, rows[i].wanted);
        close_shop(NULL);
    }
    open_shop(NULL);
    ASSERT_NUMBER(fake_opened, ==, 6);
}

static void test_store_open__refuses_malformed_urls(void **state UNUSED)
{
    struct store_options options = options_of_shop();
    struct store *opened;
    struct err err;

    options.lists_url = "postgresql://two:99999/lists";
    ASSERT_STATUS(store_open(&options, &opened, &err), STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "SECKILL_LISTS_DATABASE_URL has a port");
    options.database_url = "postgresql://one:99999/seckill";
    ASSERT_STATUS(store_open(&options, &opened, &err), STATUS_INVALID);
    assert_string_equal(err.text, "SECKILL_DATABASE_URL has a port that is not 1 to 65535");
}

/* -- state -- */

static void test_state__is_up_with_all_but_expiry_and_lists(void **state UNUSED)
{
    static const struct {
        enum role role;
        bool is_needed;
    } rows[] = {{ROLE_MAIN, true},    {ROLE_READS, true},        {ROLE_EXPIRY, false},
                {ROLE_LISTS, false},  {ROLE_CHANGES, true},      {ROLE_SLOW_CHANGES, true},
                {ROLE_LANE, true},    {ROLE_LANE + 1, true}};
    struct store_options options = options_of_shop();

    options.lists_url = "postgresql://two/lists";
    options.expires_orders = true;
    close_shop(NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reset(NULL);
        open_store(&options);
        assert_true(store_is_up(shop));
        fake_lose(conn_of(rows[i].role), STATUS_IO);
        if (store_is_up(shop) == rows[i].is_needed)
            fail_msg("connection %u: up %d without it", rows[i].role, store_is_up(shop));
        ASSERT_SAID(rows[i].role == ROLE_LISTS ? "lists down io;"
                    : rows[i].is_needed        ? "down io;"
                                               : "");
        ASSERT_NUMBER(metrics.postgres_reconnects, ==, rows[i].is_needed);
        close_shop(NULL);
    }
    open_shop(NULL);
}

static void test_state__is_reported_when_it_changes(void **state UNUSED)
{
    struct store_conn *lane = conn_of(ROLE_LANE);

    fake_lose(lane, STATUS_IO);
    ASSERT_SAID("down io;");
    fake_lose(lane, STATUS_TIMEOUT);
    fake_lose(lane, STATUS_IO);
    ASSERT_SAID("");
    fake_lose(lane, STATUS_REFUSED); /* a better reason */
    ASSERT_SAID("down refused;");
    fake_lose(lane, STATUS_REFUSED);
    ASSERT_SAID("");
    ASSERT_NUMBER(metrics.postgres_reconnects, ==, 1);
    fake_come_up(lane);
    ASSERT_SAID("up ;");
    fake_come_up(conn_of(ROLE_MAIN));
    ASSERT_SAID("changed 0;");
}

static void test_state__is_reported_when_the_first_attempts_have_failed(void **state UNUSED)
{
    struct store_options options = options_of_shop();
    struct err err;

    close_shop(NULL);
    reset(NULL);
    ASSERT_STATUS(store_open(&options, &shop, &err), STATUS_OK);
    fake_come_up(conn_of(ROLE_READS)); /* attempts of the others are under way */
    ASSERT_SAID("");
    fake_lose(conn_of(ROLE_MAIN), STATUS_IO);
    ASSERT_SAID("down io;");
}

static void test_expiry__has_limits_of_its_own(void **state UNUSED)
{
    open_with_lists();
    pass_ms(600);
    ASSERT_SENT("expiry lead_expiry 3750/5000: ");
    fake_answer(STATUS_OK, "1;");
    ASSERT_SENT("expiry due_batches 3750/5000: 500 {}");
    ASSERT_NUMBER(metrics.expiry_leader, ==, 1);
    fake_lose(conn_of(ROLE_EXPIRY), STATUS_IO);
    ASSERT_NUMBER(metrics.expiry_leader, ==, 0);
}

#define DUE    "expiry due_batches 3750/5000: 500 "
#define EXPIRE "expiry expire_batches 3750/5000: "

/* The next run of expiry has read what is due: the answer are these rows. */
static void run_expiry(const char *rows)
{
    pass_ms(600);
    if (strstr(fake_print_oldest(), "lead_expiry") != NULL)
        fake_answer(STATUS_OK, "1;");
    ASSERT_SENT(DUE "{}");
    fake_answer(STATUS_OK, rows);
}

static void test_expiry__leaves_out_vouchers_without_progress(void **state UNUSED)
{
    open_with_lists();
    run_expiry("7 {70,71};8 {80};");
    ASSERT_SENT(EXPIRE "7 {70,71}");
    fake_answer(STATUS_OK, "0 0;");
    ASSERT_SENT(EXPIRE "8 {80}");
    fake_answer(STATUS_OK, "3 1;");
    ASSERT_SENT(DUE "{7}");
    fake_answer(STATUS_OK, "8 {81};");
    ASSERT_SENT(EXPIRE "8 {81}");
    fake_answer(STATUS_BUSY, "55P03");
    ASSERT_SENT(DUE "{7,8}");
    fake_answer(STATUS_OK, "");
    ASSERT_SENT("nothing");
    ASSERT_SAID("log orders_expired count=3;");
    run_expiry("7 {70};"); /* not for ever */
    fake_answer(STATUS_OK, "0 1;");
    ASSERT_SENT(DUE "{}");
    fake_answer(STATUS_OK, "9 {90};");
    fake_answer(STATUS_OK, "1 0;");
    ASSERT_SENT(DUE "{}");
    fake_answer(STATUS_OK, "");
    ASSERT_SAID("log orders_expired count=1;");
}

static void test_expiry__ends_with_a_failure_until_the_next_run(void **state UNUSED)
{
    open_with_lists();
    run_expiry("7 {70};");
    fake_answer(STATUS_IO, NULL);
    ASSERT_SENT("nothing");
    pass_ms(600);
    ASSERT_SENT(DUE "{}");
    fake_answer(STATUS_IO, NULL);
    ASSERT_SENT("nothing");
    run_expiry("");
    ASSERT_SENT("nothing");
    ASSERT_SAID("");
}

static void test_expiry__a_refusal_is_logged_once(void **state UNUSED)
{
    static const char *const logged[] = {"log expiry_refused expired=0;", "", NULL,
                                         "log expiry_refused expired=0;"};

    open_with_lists();
    for (size_t i = 0; i < 4; i++) {
        run_expiry(logged[i] != NULL ? "7 {70};" : "");
        if (logged[i] != NULL) {
            fake_answer(STATUS_REFUSED, "42501");
            ASSERT_SENT(DUE "{7}");
            fake_answer(STATUS_OK, "");
        }
        ASSERT_SAID(logged[i] != NULL ? logged[i] : "");
    }
}

/* @first  of vouchers, each with a batch */
static const char *due_rows(int first, int count)
{
    static char rows[FAKE_TEXT_BYTES];

    rows[0] = '\0';
    for (int i = 0; i < count; i++)
        fake_add(rows, sizeof(rows), "%d {%d};", first + i, first + i);
    return rows;
}

static void test_expiry__has_bounds(void **state UNUSED)
{
    open_with_lists();
    run_expiry(due_rows(1, 501));
    for (int i = 1; i <= 500; i++)
        fake_answer(STATUS_OK, i < 500 ? "0 0;" : "1 0;");
    ASSERT_CONTAINS(fake_print_oldest(), DUE "{1,2,");
    fake_answer(STATUS_OK, due_rows(1000, 500));
    for (int i = 1; i <= 500; i++)
        fake_answer(STATUS_OK, "0 0;");
    ASSERT_CONTAINS(fake_print_oldest(), DUE "{1,2,");
    fake_answer(STATUS_OK, due_rows(2000, 2));
    fake_answer(STATUS_OK, "0 0;");
    fake_answer(STATUS_OK, "0 0;"); /* a thousand are left out; this one cannot be */
    ASSERT_SENT("nothing");
    ASSERT_SAID("log orders_expired count=1;");
    run_expiry("1 {1,2};2 {3};");
    ASSERT_SENT(EXPIRE "1 {1,2}");
    fake_answer(STATUS_OK, "0 0;");
    ASSERT_SENT(EXPIRE "2 {3}");
}

static void test_state__connections_follow_the_one_that_came_up(void **state UNUSED)
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

/* One connection seeks a server; the others wait for it. */
static void test_state__others_rest_while_the_main_connection_is_down(void **state UNUSED)
{
    fake_lose(conn_of(ROLE_LANE), STATUS_IO);
    assert_false(conn_of(ROLE_LANE)->is_resting);
    fake_lose(conn_of(ROLE_MAIN), STATUS_IO);
    assert_false(conn_of(ROLE_MAIN)->is_resting);
    fake_lose(conn_of(ROLE_READS), STATUS_IO);
    assert_true(conn_of(ROLE_READS)->is_resting);
}

static void test_state__an_unsafe_server_is_left_by_all_but_lists(void **state UNUSED)
{
    open_with_lists();
    fake_lose(conn_of(ROLE_LANE), STATUS_UNSAFE);
    for (size_t i = 0; i < fake_opened; i++)
        ASSERT_NUMBER(fake_conns[i].is_left, ==, &fake_conns[i] != conn_of(ROLE_LISTS));
}

static void test_state__is_that_of_the_main_session(void **state UNUSED)
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
    conn_of(ROLE_MAIN)->session = (struct store_session){.cells = 2, .cell = 1};
    assert_true(store_is_foreign(shop, 6));
    store_check(shop);
    assert_true(conn_of(ROLE_MAIN)->is_checked);
    conn_of(ROLE_MAIN)->options.on_notify("123", shop);
    ASSERT_SAID("changed 123;");
}

static void test_store_print__is_a_json_object(void **state UNUSED)
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
    fake_assert_text(
        text,
        "{\"suspects\":1,\"connections\":["
        "{\"use\":\"main\",\"is_up\":1,\"pid\":0,\"pending\":0},"
        "{\"use\":\"reads\",\"is_up\":1,\"pid\":12,\"pending\":1},"
        "{\"use\":\"changes\",\"is_up\":1,\"pid\":0,\"pending\":0},"
        "{\"use\":\"slow_changes\",\"is_up\":1,\"pid\":0,\"pending\":0},"
        "{\"use\":\"expiry\",\"is_up\":1,\"pid\":0,\"pending\":0},"
        "{\"use\":\"lists\",\"is_up\":1,\"pid\":0,\"pending\":0},"
        "{\"use\":\"orders\",\"is_up\":1,\"pid\":0,\"pending\":0},"
        "{\"use\":\"orders\",\"is_up\":0,\"pid\":0,\"pending\":0}]}",
        __FILE__, __LINE__);
    free(text);
}

static void test_store_flush__reaches_every_connection(void **state UNUSED)
{
    store_flush(shop);
    for (size_t i = 0; i < fake_opened; i++)
        assert_true(fake_conns[i].is_flushed);
}

/* -- changes of orders and vouchers -- */

static struct order_change changes[5000];

/* @left_ms  until the deadline; 0: the default */
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

    store_create_voucher(shop, &voucher, "admin:1", on_vouchers, shop);
}

static void call_create_described(void)
{
    const struct voucher voucher = {
        .title = {"T", 1}, .description = {"D", 1}, .begin_us = EPOCH_US, .end_us = EPOCH_US};

    store_create_voucher(shop, &voucher, "admin:1", on_vouchers, shop);
}

static void call_patch_nothing(void)
{
    const struct voucher unchanged = {.requires_ticket = -1, .pow_bits = -1};

    store_patch_voucher(shop, 7, &unchanged, on_vouchers, shop);
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

    store_patch_voucher(shop, 7, &changed, on_vouchers, shop);
}

static void call_restock(void)
{
    store_restock_voucher(shop, 7, -4, "admin:1", on_vouchers, shop);
}

/* clang-format off */
static void call_pay(void)    { change_order(0, CHANGE_PAY, 7, 0); }
static void call_cancel(void) { change_order(0, CHANGE_CANCEL, 7, 0); }
static void call_refund(void) { change_order(0, CHANGE_REFUND, 7, 0); }
static void call_redeem(void) { change_order(0, CHANGE_REDEEM, 7, 0); }

/* @rows  of STATUS_OK; otherwise the SQLSTATE */
static const struct change_row {
    void (*call)(void);
    const char *sent;
    enum status status;
    const char *rows, *constraint, *said;
} change_rows[] = {
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500}", STATUS_OK,
     "1 1 71 7 5 {100,11,12,13,1};", NULL, "change ok 1 71 7 5 100 11 12 13 1;"},
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500}", STATUS_OK,
     "1 6 71 7 5 {100,11,12,0,0};", NULL, "change ok 6 71 7 5 100 11 12 0 0;"},
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500}", STATUS_OK,
     "1 5 null null null null;", NULL, "change ok 5;"},
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500}", STATUS_OK,
     "1 7 71 7 5 {100,11,12,0,0};", NULL, "change io;"},
    {call_pay, "changes pay_order 562/862: 7 {71} {'admin:1'} {'ref'} {500}", STATUS_OK,
     "1 0 71 7 5 {100,11,12,0,0};", NULL, "change io;"},
    {call_cancel, "changes cancel_order 562/862: 7 {71} {'admin:1'}", STATUS_OK,
     "2 1 71 7 5 {100,11,12,0,3};", NULL, "change io;"},
    {call_cancel, "changes cancel_order 562/862: 7 {71} {'admin:1'}", STATUS_OK, "", NULL, "change io;"},
    {call_cancel, "changes cancel_order 562/862: 7 {71} {'admin:1'}", STATUS_OK,
     "1 1 71 7 5 {100,11,12,0,3};2 1 72 7 5 {100,11,12,0,3};", NULL, "change io;"},
    {call_refund, "changes refund_order 562/862: 7 {71} {'admin:1'}", STATUS_OK,
     "1 1 71 7 5 {100,11,12,13,6};", NULL, "change io;"},
    {call_redeem, "changes redeem_order 562/862: 7 {71} {'admin:1'}", STATUS_REFUSED, "42501", NULL, "change refused;"},
    {call_create, "changes create_voucher 562/862: 'T' '' 100 200 30 2 3 4 900 'admin:1' 1 20", STATUS_OK,
     V7 " 8;", NULL, "ok now 8: " V7 ";"},
    {call_create_described, "changes create_voucher 562/862: 'T' 'D' 0 0 0 0 0 0 0 'admin:1' 0 0", STATUS_REFUSED,
     "23514", "voucher_window", "invalid now 0:;"},
    {call_create, "changes create_voucher 562/862: 'T' '' 100 200 30 2 3 4 900 'admin:1' 1 20", STATUS_REFUSED,
     "23514", "voucher_stock", "refused now 0:;"},
    {call_create, "changes create_voucher 562/862: 'T' '' 100 200 30 2 3 4 900 'admin:1' 1 20", STATUS_BUSY,
     "23514", "voucher_window", "busy now 0:;"},
    {call_patch_nothing, "changes patch_voucher 562/862: 7 null null null null null null null", STATUS_OK,
     NO_VOUCHER, NULL, "not_found now 0:;"},
    {call_patch_all, "changes patch_voucher 562/862: 7 'T' '' 3 4 900 0 1", STATUS_OK, V7 " 8;", NULL,
     "ok now 8: " V7 ";"},
    {call_restock, "changes restock_voucher 562/862: 7 -4 'admin:1'", STATUS_REFUSED, "23514", NULL, "invalid now 0:;"},
    {call_restock, "changes restock_voucher 562/862: 7 -4 'admin:1'", STATUS_REFUSED, "22003", NULL, "invalid now 0:;"},
    {call_restock, "changes restock_voucher 562/862: 7 -4 'admin:1'", STATUS_REFUSED, "23505", NULL, "refused now 0:;"},
};
/* clang-format on */

static void test_change__sends_its_parameters_and_decodes_the_row(void **state UNUSED)
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
        pass_ms(TIMEOUT_MS + 20); /* it is not answered again */
        ASSERT_SAID("");
    }
}

static void test_changes__of_one_kind_and_voucher_share_a_transaction(void **state UNUSED)
{
    change_order(0, CHANGE_CANCEL, 7, 0);
    store_flush(shop);
    change_order(1, CHANGE_CANCEL, 7, 0);
    change_order(2, CHANGE_REDEEM, 7, 0);
    change_order(3, CHANGE_CANCEL, 7, 0);
    change_order(4, CHANGE_PAY, 7, 0);
    change_order(5, CHANGE_PAY, 7, 0);
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 1); /* of a voucher */
    ASSERT_NUMBER(shop->changes.count, ==, 6);
    fake_answer(STATUS_OK, "1 1 71 7 5 {100,11,12,0,3};");
    store_flush(shop);
    ASSERT_SENT("changes cancel_order 562/862: 7 {72,74} {'admin:1','admin:1'}");
    said[0] = '\0';
    fake_answer(STATUS_OK, "1 3 72 7 5 {100,11,12,0,3};2 5 null null null null;");
    ASSERT_SAID("change ok 3 72 7 5 100 11 12 0 3;change ok 5;");
    ASSERT_NUMBER(shop->changes.count, ==, 3);
    store_flush(shop);
    ASSERT_SENT("changes redeem_order 562/862: 7 {73} {'admin:1'}");
    fake_answer(STATUS_IO, NULL);
    store_flush(shop);
    ASSERT_SENT("changes pay_order 562/862: 7 {75,76} {'admin:1','admin:1'} {'ref','ref'}"
                " {500,500}");
}

static void test_changes__five_hundred_share_a_transaction(void **state UNUSED)
{
    for (size_t i = 0; i < 501; i++)
        change_order(i, CHANGE_CANCEL, 7, 0);
    store_flush(shop);
    assert_null(strstr(fake_print_oldest(), "571"));
    ASSERT_CONTAINS(fake_print_oldest(), ",570}");
    fake_answer(STATUS_IO, NULL);
    ASSERT_NUMBER(strlen(said), ==, 500 * strlen("change io;"));
    store_flush(shop);
    ASSERT_SENT("changes cancel_order 562/862: 7 {571} {'admin:1'}");
}

static void test_changes__4096_wait(void **state UNUSED)
{
    for (size_t i = 0; i < 4096; i++)
        change_order(i, CHANGE_CANCEL, 7, 0);
    ASSERT_NUMBER(shop->changes.count, ==, 4096);
    change_order(4096, CHANGE_CANCEL, 7, 0);
    store_restock_voucher(shop, 8, 1, "admin:1", on_vouchers, shop);
    pass_ms(0);
    ASSERT_SAID("change no_memory;no_memory now 0:;");
    ASSERT_NUMBER(shop->changes.count, ==, 4096);
}

static void test_changes__of_two_vouchers_are_under_way(void **state UNUSED)
{
    call_create();
    change_order(0, CHANGE_CANCEL, 8, 0);
    call_create(); /* new vouchers have one queue */
    change_order(1, CHANGE_CANCEL, 9, 0);
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    ASSERT_CONTAINS(fake_print_oldest(), "changes create_voucher");
    fake_answer(STATUS_IO, NULL);
    ASSERT_SENT("slow changes cancel_order 562/862: 8 {71} {'admin:1'}");
    fake_answer(STATUS_IO, NULL);
    store_flush(shop);
    ASSERT_SENT("changes cancel_order 562/862: 9 {72} {'admin:1'}");
}

/* What waited for a lock is tried again, on the connection for slow vouchers. */
static void test_changes__that_waited_for_a_lock_are_tried_again(void **state UNUSED)
{
    call_cancel();
    store_flush(shop);
    pass_ms(19); /* it was not a lock */
    fake_answer(STATUS_BUSY, "55P03");
    ASSERT_SAID("change busy;");
    call_cancel();
    store_flush(shop);
    change_order(1, CHANGE_REDEEM, 7, 0);
    pass_ms(20);
    fake_answer(STATUS_BUSY, "55P03");
    ASSERT_SAID("");
    store_flush(shop);
    ASSERT_SENT("slow changes cancel_order 551/851: 7 {71} {'admin:1'}"); /* first again */
    fake_answer(STATUS_OK, "1 1 71 7 5 {100,11,12,0,3};");
    said[0] = '\0';
    store_flush(shop);
    ASSERT_SENT("changes redeem_order 551/851: 7 {72} {'admin:1'}"); /* fast again */
    fake_answer(STATUS_IO, NULL);
    ASSERT_SAID("change io;");
}

/* Slow vouchers do not take both connections; the others may. */
static void test_changes__of_slow_vouchers_use_one_connection(void **state UNUSED)
{
    for (size_t i = 0; i < 2; i++) {
        change_order(i, CHANGE_CANCEL, 7 + (int64_t)i, 0);
        store_flush(shop);
        pass_ms(200); /* a tenth of the time of a request */
        change_order(2 + i, CHANGE_CANCEL, 7 + (int64_t)i, 0);
        fake_answer(STATUS_OK, "1 5 null null null null;");
    }
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 1);
    ASSERT_CONTAINS(fake_print_oldest(), "slow changes cancel_order");
    ASSERT_NUMBER(conn_of(ROLE_CHANGES)->pending, ==, 0);
}

/* Too late is what has no time left for the next transaction: a fiftieth of the time of a request,
   or twice the time of the last one. */
static void test_changes__without_time_for_a_transaction_are_busy(void **state UNUSED)
{
    change_order(0, CHANGE_CANCEL, 7, 40);
    change_order(1, CHANGE_CANCEL, 7, 41);
    store_flush(shop);
    ASSERT_SENT("changes cancel_order 23/323: 7 {72} {'admin:1'}");
    pass_ms(0);
    ASSERT_SAID("change busy;");
    ASSERT_NUMBER(shop->changes.count, ==, 1);
    change_order(2, CHANGE_CANCEL, 7, 40);
    pass_ms(20);
    ASSERT_SAID("change busy;");
    fake_answer(STATUS_OK, "1 5 null null null null;");
    ASSERT_SAID("change ok 5;");
    store_restock_voucher(shop, 7, 1, "admin:1", on_vouchers, shop);
    store_flush(shop);
    ASSERT_SENT("changes restock_voucher 562/862: 7 1 'admin:1'");
    pass_ms(TIMEOUT_MS);
    ASSERT_SAID("timeout now 0:;");
}

static void test_changes__of_a_voucher_wait_until_their_deadline(void **state UNUSED)
{
    change_order(0, CHANGE_CANCEL, 7, 5000);
    store_flush(shop);
    store_restock_voucher(shop, 7, 1, "admin:1", on_vouchers, shop);
    pass_ms(TIMEOUT_MS - 60);
    ASSERT_SAID("");
    pass_ms(40);
    ASSERT_SAID("busy now 0:;");
    ASSERT_NUMBER(shop->changes.count, ==, 1);
}

static void test_changes__under_way_time_out_at_their_deadline(void **state UNUSED)
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
    fake_answer(STATUS_OK, "1 5 null null null null;"); /* nobody waits for it */
    ASSERT_SAID("");
    store_flush(shop);
    ASSERT_NUMBER(conn_of(ROLE_CHANGES)->pending, ==, 1);
}

static void test_changes__need_one_of_two_connections(void **state UNUSED)
{
    conn_of(ROLE_CHANGES)->is_up = false;
    call_cancel();
    store_flush(shop);
    ASSERT_CONTAINS(fake_print_oldest(), "slow changes cancel_order");
    change_order(1, CHANGE_CANCEL, 8, 0);
    conn_of(ROLE_SLOW_CHANGES)->is_up = false;
    store_flush(shop);
    ASSERT_SAID(""); /* never inside the call */
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

static void test_store_find_by_key__shares_queries(void **state UNUSED)
{
    find_by_key(0, 7, 0);
    find_by_key(1, 8, 0);
    find_by_key(2, 7, 0);
    find_by_key(3, 9, 0);
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    ASSERT_SENT("main find 251/1000: 7 {1,3} {'k','k'}");
    fake_answer(STATUS_OK, "1 2 71 {100,11,12,13,1};2 3 70 null;");
    ASSERT_SAID("key ok 2 71 7 1 100 11 12 13 1;key ok 3 70 7 3 0 0 0 0 0;");
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    ASSERT_SENT("main find 251/1000: 8 {2} {'k'}");
    fake_answer(STATUS_OK, "1 0 null null;");
    ASSERT_SAID("key ok 0 0 8 2 0 0 0 0 0;");
}

static void test_store_find_by_key__a_thousand_share_a_query(void **state UNUSED)
{
    for (size_t i = 0; i < 1001; i++)
        find_by_key(i, 7, 0);
    store_flush(shop);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    ASSERT_CONTAINS(fake_print_oldest(), ",1000}");
    fake_answer(STATUS_IO, NULL);
    said[0] = '\0';
    ASSERT_SENT("main find 251/1000: 7 {1001} {'k'}");
}

static void test_store_find_by_key__a_malformed_row_is_a_failure(void **state UNUSED)
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
        fake_answer(STATUS_OK, rows[i].rows);
        ASSERT_SAID(rows[i].said);
    }
}

static void test_store_find_by_key__alone_ends_at_the_deadline(void **state UNUSED)
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
    fake_answer(STATUS_IO, NULL);
    find_by_key(0, 7, 100);
    store_flush(shop);
    fake_answer(STATUS_IO, NULL);
    ASSERT_SAID("key io;");
    pass_ms(120); /* it is not answered again */
    ASSERT_SAID("");
}

/* Of look-ups that share a query the earliest deadline counts. */
static void test_store_find_by_key__ends_at_the_deadline(void **state UNUSED)
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

/* -- placing -- */

static struct placement orders[] = {{.user_id = 1, .fence = 5, .key = {"k", 1}},
                                    {.user_id = 2, .has_ticket = true},
                                    {.user_id = 3, .fence = 6}};
static struct placement *placements[] = {&orders[0], &orders[1], &orders[2]};
static struct store_batch batches[2];

/* The first has the first two placements, the second the third one. */
static struct list *batches_of(size_t count, int64_t left_ms)
{
    static struct list list;
    static char *const names[] = {"first", "second"};

    list_init(&list);
    for (size_t i = 0; i < count; i++) {
        batches[i] =
            (struct store_batch){.voucher_id = 7 + (int64_t)i,
                                 .placements = placements + 2 * i,
                                 .count = 2 - i,
                                 .deadline_us = simulated_us + (left_ms + (int64_t)i) * 1000,
                                 .arg = names[i]};
        list_append(&list, &batches[i].link);
    }
    return &list;
}

static void say_placements(void)
{
    for (size_t i = 0; i < 2; i++) {
        SAY("%d", orders[i].verdict);
        say_order(&orders[i].order);
        SAY(";");
    }
}

#define PLACED "100 3 4 29 5 1 9 1;" /* from the price to the number of the batch */
#define SENT_ONE "{1,2} {5,0} {'k',null} {0,1}"
#define SNAPSHOT "first ok snapshot 7 5 29 1 9;"

static void test_place__sends_a_batch_and_decodes_its_row(void **state UNUSED)
{
    /* clang-format off */
    static const struct {
        const char *row, *said;
    } rows[] = {
        {"{1,3} {71,70} null " PLACED, SNAPSHOT "1 71 7 1 100 3 4 0 0;3 70 7 2 100 3 4 0 0;"},
        {"{9,2} {0,72} {2,90,13,14,15,1} " PLACED, SNAPSHOT "9 0 7 1 100 3 4 0 0;2 72 7 2 90 13 14 15 1;"},
        {"{9,2} {0,72} {2,90,13,14,15,9} " PLACED, SNAPSHOT "9 0 7 1 100 3 4 0 0;0 72 7 2 90 13 14 15 9;"},
        {"{9,2} {0,72} {3,90,13,14,15,1} " PLACED, SNAPSHOT "9 0 7 1 100 3 4 0 0;2 72 7 2 100 3 4 0 0;"},
        {"{10,-1} {71,70} null " PLACED, SNAPSHOT "0 71 7 1 100 3 4 0 0;0 70 7 2 100 3 4 0 0;"},
        {"{8,8} {0,0} null null null null null null null null 1;", "first ok;8 0 7 1 0 0 0 0 0;8 0 7 2 0 0 0 0 0;"},
        {"{1} {71} null " PLACED, "first io;"},
        {"{1,1,1} {71,70,69} null " PLACED, "first io;"},
        {"{1,3} {71,70} null 100 3 4 29 5 1 9 2;", "first io;"},
        {"{1,3} {71,70} null " PLACED "{1,3} {71,70} null " PLACED, "first io;"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        store_place_orders(shop, batches_of(1, 1600), on_batch);
        ASSERT_SENT("lane 1 place 900/1200: 7 " SENT_ONE);
        fake_answer(STATUS_OK, rows[i].row);
        if (strncmp(said, "first ok", 8) == 0)
            say_placements();
        ASSERT_SAID(rows[i].said);
        ASSERT_NUMBER(orders[2].order.price_cents, ==, 0); /* it is in no batch */
    }
}

static void test_place__sends_batches_of_several_vouchers(void **state UNUSED)
{
    /* clang-format off */
    static const struct {
        const char *rows, *said;
    } rows[] = {
        {"{1,3} {71,70} null 100 3 4 29 5 1 9 1;{1} {80} null 100 3 4 29 5 1 9 2;",
         "first ok snapshot 7 5 29 1 9;second ok snapshot 8 5 29 1 9;"},
        {"{1} {80} null 100 3 4 29 5 1 9 2;", "first busy;second ok snapshot 8 5 29 1 9;"},
        {"{1,3} {71,70} null 100 3 4 29 5 1 9 1;", "second busy;first ok snapshot 7 5 29 1 9;"},
        {"", "first busy;second busy;"},
        {"{1,3} {71,70} null 100 3 4 29 5 1 9 1;{1} {80} null 100 3 4 29 5 1 9 3;", "first io;second io;"},
        {"{1,3} {71,70} null 100 3 4 29 5 1 9 1;{1,1} {80,81} null 100 3 4 29 5 1 9 2;", "first io;second io;"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        store_place_orders(shop, batches_of(2, 1600), on_batch);
        ASSERT_SENT("lane 1 place_many 900/1200: {7,8} {1,3} {2,3} {1,2,3} {5,0,6}"
                    " {'k',null,null} {0,1,0}");
        fake_answer(STATUS_OK, rows[i].rows);
        ASSERT_SAID(rows[i].said);
    }
}

/* Without a request key the server has nothing to look up. */
static void test_place__without_keys_sends_null(void **state UNUSED)
{
    struct list *list = batches_of(1, 3200);

    batches[0].placements = placements + 1;
    store_place_orders(shop, list, on_batch);
    ASSERT_SENT("lane 1 place 1800/2400: 7 {2,3} {0,6} null {1,0}");
    fake_answer(STATUS_REFUSED, NULL);
    ASSERT_SAID("first refused;");
    store_place_orders(shop, batches_of(1, 0), on_batch);
    ASSERT_SENT("lane 1 place 1/301: 7 " SENT_ONE);
    fake_answer(STATUS_IO, NULL);
    ASSERT_SAID("first io;");
}

static void test_place__slow_vouchers_have_half_of_the_lanes(void **state UNUSED)
{
    struct list *list = batches_of(1, 1600);

    ASSERT_NUMBER(store_batch_room(shop, false), ==, 2);
    ASSERT_NUMBER(store_batch_room(shop, true), ==, 1);
    batches[0].is_slow = true;
    store_place_orders(shop, list, on_batch);
    ASSERT_SENT("lane 0 place 900/1200: 7 " SENT_ONE);
    ASSERT_NUMBER(store_batch_room(shop, false), ==, 1);
    ASSERT_NUMBER(store_batch_room(shop, true), ==, 0);
    fake_answer(STATUS_IO, NULL);
    conn_of(ROLE_LANE + 1)->is_up = false;
    store_place_orders(shop, batches_of(1, 1600), on_batch);
    ASSERT_SENT("lane 0 place 900/1200: 7 " SENT_ONE);
    said[0] = '\0';
    fake_answer(STATUS_IO, NULL);
    conn_of(ROLE_LANE)->pending = 1;
    store_place_orders(shop, batches_of(1, 1600), on_batch);
    ASSERT_SAID("first io;"); /* the other later */
    pass_ms(0);
    ASSERT_SAID("first down;");
}

static void test_place__one_lane_is_for_all_vouchers(void **state UNUSED)
{
    struct store_options options = options_of_shop();

    close_shop(NULL);
    reset(NULL);
    options.lanes = 1;
    open_store(&options);
    ASSERT_NUMBER(store_batch_room(shop, true), ==, 1);
    ASSERT_NUMBER(store_batch_room(shop, false), ==, 1);
}

/* The row is released by the first answer; the orders are durable by the second. */
static void test_place_early__is_answered_after_its_barrier(void **state UNUSED)
{
    /* clang-format off */
    static const struct {
        enum status placed, barrier;
        const char *said;
    } rows[] = {
        {STATUS_OK,      STATUS_OK,        "first released;|" SNAPSHOT},
        {STATUS_OK,      STATUS_TIMEOUT,   "first released;|first io;"},
        {STATUS_OK,      STATUS_REFUSED,   "first released;|first io;"},
        {STATUS_OK,      STATUS_CANCELLED, "first released;|first cancelled;"},
        {STATUS_REFUSED, STATUS_OK,        "|first refused;"},
        {STATUS_BUSY,    STATUS_IO,        "|first busy;"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct list *list = batches_of(1, 1600);

        batches[0].released = on_released;
        store_place_orders(shop, list, on_batch);
        ASSERT_SENT("lane 1 place_early 900/1200: 7 " SENT_ONE);
        ASSERT_NUMBER(fake_sent_count, ==, 2);
        fake_answer(rows[i].placed, "{1,3} {71,70} null " PLACED);
        SAY("|");
        ASSERT_SENT("lane 1 barrier 900/1200: ");
        fake_answer(rows[i].barrier, "null;");
        ASSERT_SAID(rows[i].said);
    }
}

static void test_place_early__answers_held_vouchers_at_once(void **state UNUSED)
{
    struct list *list = batches_of(2, 1600);

    batches[0].released = batches[1].released = on_released;
    store_place_orders(shop, list, on_batch);
    ASSERT_CONTAINS(fake_print_oldest(), "lane 1 place_many_early 900/1200: {7,8}");
    fake_answer(STATUS_OK, "{1} {80} null 100 3 4 29 5 1 9 2;");
    ASSERT_SAID("first busy;second released;");
    fake_answer(STATUS_OK, "null;");
    ASSERT_SAID("second ok snapshot 8 5 29 1 9;");
}

/* -- resolving -- */

#define RESOLVE "main resolve 251/1000: 7 {1,2} {5,0} {'k',null}"

static void resolve(void)
{
    batches_of(1, 0);
    list_remove(&batches[0].link);
    batches[0].snapshot.voucher_id = 7;
    store_resolve_orders(shop, &batches[0], on_batch);
}

static void test_resolve__finds_what_was_placed(void **state UNUSED)
{
    /* clang-format off */
    static const struct {
        const char *rows, *said;
    } rows[] = {
        {"1 1 71 {100,11,12,13,1};2 0 null null;", "first ok;1 71 7 1 100 11 12 13 1;0 0 7 2 0 0 0 0 0;"},
        {"1 1 71 {100,11,12,13,1};", "first io;"},
        {"1 1 71 {100,11,12,13,1};2 0 null null;3 0 null null;", "first io;"},
        {"1 1 71 {100,11,12,13,9};2 0 null null;", "first io;"},
        {"1 0 null null;1 0 null null;", "first io;"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        resolve();
        ASSERT_SENT(RESOLVE);
        fake_answer(STATUS_OK, rows[i].rows);
        if (strncmp(said, "first ok", 8) == 0)
            say_placements();
        ASSERT_SAID(rows[i].said);
    }
    resolve();
    fake_answer(STATUS_TIMEOUT, NULL);
    ASSERT_SAID("first timeout;");
}

static void lose_lane(enum role role, int64_t pid)
{
    conn_of(role)->session.backend = (struct store_backend){pid, pid + 1};
    conn_of(role)->pending++;
    fake_lose(conn_of(role), STATUS_IO);
    conn_of(role)->pending--;
    said[0] = '\0';
}

/* Only when no server process works on the batch any more. */
static void test_resolve__waits_until_the_suspects_are_gone(void **state UNUSED)
{
    static char second[] = "second";

    fake_lose(conn_of(ROLE_READS), STATUS_IO); /* no order was under way */
    lose_lane(ROLE_LANE, 11);
    lose_lane(ROLE_LANE + 1, 21);
    resolve();
    ASSERT_SENT("main retire 0/1000: {11,21} {12,22}");
    batches[1] = batches[0];
    list_init(&batches[1].link);
    batches[1].arg = second;
    store_resolve_orders(shop, &batches[1], on_batch); /* waits, too */
    ASSERT_NUMBER(fake_sent_count, ==, 1);
    fake_answer(STATUS_OK, "1;");
    ASSERT_SENT("nothing");
    pass_ms(4);
    ASSERT_SENT("nothing");
    conn_of(ROLE_MAIN)->is_flushed = false;
    simulated_time_pass_us(1000, no_turn);
    assert_true(conn_of(ROLE_MAIN)->is_flushed);
    ASSERT_SENT("main retire 0/1000: {11,21} {12,22}");
    lose_lane(ROLE_LANE, 31);
    fake_answer(STATUS_OK, "0;");
    ASSERT_SENT("nothing");
    pass_ms(0);
    ASSERT_SENT("main retire 0/1000: {31} {32}");
    fake_answer(STATUS_OK, "0;");
    pass_ms(0);
    ASSERT_SENT(RESOLVE);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    fake_answer(STATUS_IO, NULL);
    fake_answer(STATUS_BUSY, NULL);
    ASSERT_SAID("first io;second busy;");
}

static void test_resolve__fails_if_the_suspects_stay(void **state UNUSED)
{
    lose_lane(ROLE_LANE, 11);
    resolve();
    fake_answer(STATUS_REFUSED, NULL);
    pass_ms(0);
    ASSERT_SAID("first refused;");
    resolve();
    pass_ms(TIMEOUT_MS - 1);
    fake_answer(STATUS_OK, "1;");
    pass_ms(0);
    ASSERT_SAID("");
    pass_ms(5);
    fake_answer(STATUS_OK, "1;");
    pass_ms(0);
    ASSERT_SAID("first timeout;");
    resolve();
    conn_of(ROLE_MAIN)->is_up = false;
    pass_ms(5);
    fake_answer(STATUS_OK, "1;");
    pass_ms(5);
    ASSERT_SAID("first down;");
}

/* -- closing -- */

static unsigned closed;

static void on_closed(void *arg)
{
    assert_ptr_equal(arg, &closed);
    closed++;
}

/* Also the calls that wait, each once. */
static void test_store_close__cancels_all_calls(void **state UNUSED)
{
    struct key_lookup lookup = {.placement = {.user_id = 1, .key = {"k", 1}}};
    struct order_change two[] = {
        {.change = CHANGE_REDEEM, .voucher_id = 7, .order_id = 71, .actor = "admin:1"},
        {.change = CHANGE_CANCEL, .voucher_id = 7, .order_id = 71, .actor = "admin:1"}};

    closed = 0;
    call_read_order();
    store_change_order(shop, &two[0], on_change, "sent");
    store_flush(shop);
    call_list_orders();
    store_change_order(shop, &two[1], on_change, "queued");
    store_suspect(shop, (struct store_backend){1, 2});
    resolve();
    store_find_by_key(shop, 7, &lookup, on_key, "key");
    store_close(shop, on_closed, &closed);
    ASSERT_SAID("cancelled;sent cancelled;key cancelled;cancelled;queued cancelled;"
                "first cancelled;");
    ASSERT_NUMBER(closed, ==, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    ASSERT_NUMBER(closed, ==, 1);
    store_close(NULL, on_closed, &closed);
    ASSERT_NUMBER(closed, ==, 2);
    uv_loop_close(&loop);
    open_shop(NULL);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_shop, close_shop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_read__sends_its_parameters_and_decodes_the_rows),
        CASE(test_read__fails_with_the_connection),
        CASE(test_lists__are_read_from_their_own_database),
        CASE(test_reads__have_256_rows_under_way),
        CASE(test_reads__of_orders_count_less),
        CASE(test_reads__sixty_four_are_under_way),
        CASE(test_reads__are_answered_at_their_deadline),
        CASE(test_reads__wait_for_a_table_lock_behind_the_others),
        CASE(test_reads__4096_wait),
        CASE(test_reads__without_a_connection_are_down),
        CASE(test_store_open__gives_each_connection_its_limits),
        CASE(test_store_open__refuses_malformed_urls),
        CASE(test_store_close__cancels_all_calls),
        CASE(test_state__is_up_with_all_but_expiry_and_lists),
        CASE(test_state__is_reported_when_it_changes),
        CASE(test_expiry__has_limits_of_its_own),
        CASE(test_expiry__leaves_out_vouchers_without_progress),
        CASE(test_expiry__ends_with_a_failure_until_the_next_run),
        CASE(test_expiry__a_refusal_is_logged_once),
        CASE(test_expiry__has_bounds),
        CASE(test_state__is_reported_when_the_first_attempts_have_failed),
        CASE(test_state__connections_follow_the_one_that_came_up),
        CASE(test_state__others_rest_while_the_main_connection_is_down),
        CASE(test_state__an_unsafe_server_is_left_by_all_but_lists),
        CASE(test_state__is_that_of_the_main_session),
        CASE(test_store_print__is_a_json_object),
        CASE(test_store_flush__reaches_every_connection),
        CASE(test_change__sends_its_parameters_and_decodes_the_row),
        CASE(test_changes__of_one_kind_and_voucher_share_a_transaction),
        CASE(test_changes__five_hundred_share_a_transaction),
        CASE(test_changes__4096_wait),
        CASE(test_changes__of_two_vouchers_are_under_way),
        CASE(test_changes__that_waited_for_a_lock_are_tried_again),
        CASE(test_changes__of_slow_vouchers_use_one_connection),
        CASE(test_changes__without_time_for_a_transaction_are_busy),
        CASE(test_changes__of_a_voucher_wait_until_their_deadline),
        CASE(test_changes__under_way_time_out_at_their_deadline),
        CASE(test_changes__need_one_of_two_connections),
        CASE(test_store_find_by_key__shares_queries),
        CASE(test_store_find_by_key__a_thousand_share_a_query),
        CASE(test_store_find_by_key__a_malformed_row_is_a_failure),
        CASE(test_store_find_by_key__ends_at_the_deadline),
        CASE(test_store_find_by_key__alone_ends_at_the_deadline),
        CASE(test_place__sends_a_batch_and_decodes_its_row),
        CASE(test_place__sends_batches_of_several_vouchers),
        CASE(test_place__without_keys_sends_null),
        CASE(test_place__slow_vouchers_have_half_of_the_lanes),
        CASE(test_place__one_lane_is_for_all_vouchers),
        CASE(test_place_early__is_answered_after_its_barrier),
        CASE(test_place_early__answers_held_vouchers_at_once),
        CASE(test_resolve__finds_what_was_placed),
        CASE(test_resolve__waits_until_the_suspects_are_gone),
        CASE(test_resolve__fails_if_the_suspects_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
