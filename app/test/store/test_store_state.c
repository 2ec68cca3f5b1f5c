/* test_store_state.c - the options of the connections, and the state of the store. */
#include "app/test/store/shop_fixture.h"

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
    fake_lose(lane, RLOCK_REFUSED);
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
    fake_come_up(conn_of(ROLE_READS));
    ASSERT_SAID("");
    fake_lose(conn_of(ROLE_MAIN), RLOCK_IO);
    ASSERT_SAID("down io;");
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
    assert_false(store_is_foreign(shop, 6));
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
    conn_of(ROLE_MAIN)->session = (struct store_session){0};
    assert_false(store_is_foreign(shop, 6));
    conn_of(ROLE_MAIN)->session = (struct store_session){.cells = 2, .cell = 1};
    assert_true(store_is_foreign(shop, 6));
    assert_false(store_is_foreign(shop, 7));
    conn_of(ROLE_LANE)->session = (struct store_session){.cells = 4, .cell = 1};
    assert_true(store_is_foreign(shop, 7)); /* another session has seen the split */
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
    store_read_order(shop, 71, 5, on_order, shop);
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
