/* test_store_orders.c - placing batches of orders, looking them up, and closing the store. */
#include "app/test/store/shop_fixture.h"
#include "test/torture.h"

/* -- placing -- */

static struct placement orders[] = {{.user_id = 1, .fence = 5, .key = {"k", 1}},
                                    {.user_id = 2, .has_ticket = true},
                                    {.user_id = 3, .fence = 6}};
static struct placement *placements[] = {&orders[0], &orders[1], &orders[2]};
static struct store_batch batches[2];

static struct rlock_link *batches_of(size_t count, int64_t left_ms)
{
    static struct rlock_link list;
    static char *const names[] = {"first", "second"};

    list_init(&list);
    for (size_t i = 0; i < count; i++) {
        batches[i] = (struct store_batch){.voucher_id = 7 + (int64_t)i,
                                          .placements = placements + 2 * i,
                                          .count = 2 - i,
                                          .deadline_us = simulated_us +
                                                         (left_ms + (int64_t)i) * 1000,
                                          .arg = names[i]};
        list_append(&list, &batches[i].link);
    }
    return &list;
}

static void say_placement(const struct placement *placement)
{
    SAY("%d", placement->verdict);
    say_order(&placement->order);
    SAY(";");
}

/* the columns from the price to the number of the batch */
#define PLACED   "100 3 4 29 5 1 9 1;"
#define SENT_ONE "{1,2} {5,0} {'k',null} {0,1}"
#define SNAPSHOT "first ok snapshot 7 5 29 1 9;"

STORE_CASE(test_place__sends_a_batch_and_decodes_its_row)
{
    /* clang-format off */
    static const struct {
        const char *row, *said;
    } rows[] = {
        {"{1,3} {71,70} null " PLACED, SNAPSHOT "1 71 7 1 100 3 4 0 0;3 70 7 2 100 3 4 0 0;"},
        {"{10,2} {0,72} {2,90,13,14,15,1} " PLACED, SNAPSHOT "10 0 7 1 100 3 4 0 0;2 72 7 2 90 13 14 15 1;"},
        {"{9,2} {0,72} {2,90,13,14,15,9} " PLACED, SNAPSHOT "9 0 7 1 100 3 4 0 0;0 72 7 2 90 13 14 15 9;"},
        {"{9,2} {0,72} {3,90,13,14,15,1} " PLACED, SNAPSHOT "9 0 7 1 100 3 4 0 0;2 72 7 2 100 3 4 0 0;"},
        {"{11,1} {0,71} null " PLACED, SNAPSHOT "11 0 7 1 100 3 4 0 0;1 71 7 2 100 3 4 0 0;"},
        {"{12,-1} {71,70} null " PLACED, SNAPSHOT "0 71 7 1 100 3 4 0 0;0 70 7 2 100 3 4 0 0;"},
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
        fake_answer(RLOCK_OK, rows[i].row);
        if (strstr(said, "first ok") != NULL) {
            say_placement(&orders[0]);
            say_placement(&orders[1]);
        }
        ASSERT_SAID(rows[i].said);
        ASSERT_NUMBER(orders[2].order.price_cents, ==, 0);
    }
}

STORE_CASE(test_place__sends_batches_of_several_vouchers)
{
    /* clang-format off */
    static const struct {
        const char *rows, *said;
    } rows[] = {
        {"{1,3} {71,70} null 100 3 4 29 5 1 9 1;{1} {80} null 100 3 4 29 5 1 9 2;",
         "first ok snapshot 7 5 29 1 9;second ok snapshot 8 5 29 1 9;1 80 8 3 100 3 4 0 0;"},
        {"{2} {81} null 100 3 4 29 5 1 9 2;", "first busy;second ok snapshot 8 5 29 1 9;2 81 8 3 100 3 4 0 0;"},
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
        fake_answer(RLOCK_OK, rows[i].rows);
        if (strstr(said, "second ok") != NULL)
            say_placement(&orders[2]);
        ASSERT_SAID(rows[i].said);
    }
}

STORE_CASE(test_place__without_keys_sends_null)
{
    struct rlock_link *list = batches_of(1, 3200);

    batches[0].placements = placements + 1;
    store_place_orders(shop, list, on_batch);
    ASSERT_SENT("lane 1 place 1800/2400: 7 {2,3} {0,6} null {1,0}");
    fake_answer(RLOCK_REFUSED, NULL);
    ASSERT_SAID("first refused;");
    store_place_orders(shop, batches_of(1, 0), on_batch);
    ASSERT_SENT("lane 1 place 1/301: 7 " SENT_ONE);
    fake_answer(RLOCK_IO, NULL);
    ASSERT_SAID("first io;");
}

STORE_CASE(test_place__slow_vouchers_have_half_of_the_lanes)
{
    struct rlock_link *list = batches_of(1, 1600);

    ASSERT_NUMBER(store_batch_room(shop, false), ==, 2);
    ASSERT_NUMBER(store_batch_room(shop, true), ==, 1);
    batches[0].is_slow = true;
    store_place_orders(shop, list, on_batch);
    ASSERT_SENT("lane 0 place 900/1200: 7 " SENT_ONE);
    ASSERT_NUMBER(store_batch_room(shop, false), ==, 1);
    ASSERT_NUMBER(store_batch_room(shop, true), ==, 0);
    fake_answer(RLOCK_IO, NULL);
    conn_of(ROLE_LANE + 1)->is_up = false;
    store_place_orders(shop, batches_of(1, 1600), on_batch);
    ASSERT_SENT("lane 0 place 900/1200: 7 " SENT_ONE);
    said[0] = '\0';
    fake_answer(RLOCK_IO, NULL);
    conn_of(ROLE_LANE)->pending = 1;
    store_place_orders(shop, batches_of(1, 1600), on_batch);
    ASSERT_SAID("first io;");
    pass_ms(0);
    ASSERT_SAID("first down;");
}

STORE_CASE(test_place__one_lane_is_for_all_vouchers)
{
    struct store_options options = options_of_shop();

    close_shop(NULL);
    reset(NULL);
    options.lanes = 1;
    open_store(&options);
    ASSERT_NUMBER(store_batch_room(shop, true), ==, 1);
    ASSERT_NUMBER(store_batch_room(shop, false), ==, 1);
}

/* The first answer says that the voucher's row is free. The second answer says that the orders are
   durable. */
STORE_CASE(test_place_early__is_answered_after_its_barrier)
{
    /* clang-format off */
    static const struct {
        enum rlock_status placed, barrier;
        const char *said;
    } rows[] = {
        {RLOCK_OK,      RLOCK_OK,        "first released;|" SNAPSHOT},
        {RLOCK_OK,      RLOCK_TIMEOUT,   "first released;|first io;"},
        {RLOCK_OK,      RLOCK_REFUSED,   "first released;|first io;"},
        {RLOCK_OK,      RLOCK_CANCELLED, "first released;|first cancelled;"},
        {RLOCK_REFUSED, RLOCK_OK,        "|first refused;"},
        {RLOCK_BUSY,    RLOCK_IO,        "|first busy;"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rlock_link *list = batches_of(1, 1600);

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

STORE_CASE(test_place_early__without_memory_is_answered_later)
{
    struct rlock_link *list = batches_of(1, 1600);

    batches[0].released = on_released;
    params_clear(&shop->params);
    torture_fail(2, 0);
    store_place_orders(shop, list, on_batch);
    assert_true(torture_stop());
    ASSERT_NUMBER(fake_sent_count, ==, 0);
    ASSERT_SAID("");
    pass_ms(0);
    ASSERT_SAID("first down;");
}

STORE_CASE(test_place_early__answers_held_vouchers_at_once)
{
    struct rlock_link *list = batches_of(2, 1600);

    batches[0].released = batches[1].released = on_released;
    store_place_orders(shop, list, on_batch);
    ASSERT_CONTAINS(fake_print_oldest(), "lane 1 place_many_early 900/1200: {7,8}");
    fake_answer(RLOCK_OK, "{1} {80} null 100 3 4 29 5 1 9 2;");
    ASSERT_SAID("first busy;second released;");
    fake_answer(RLOCK_OK, "null;");
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

STORE_CASE(test_resolve__finds_what_was_placed)
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
        fake_answer(RLOCK_OK, rows[i].rows);
        if (strstr(said, "first ok") != NULL) {
            say_placement(&orders[0]);
            say_placement(&orders[1]);
        }
        ASSERT_SAID(rows[i].said);
    }
    resolve();
    fake_answer(RLOCK_TIMEOUT, NULL);
    ASSERT_SAID("first timeout;");
}

static void lose_lane(enum role role, int64_t pid)
{
    conn_of(role)->session.backend = (struct store_backend){pid, pid + 1};
    conn_of(role)->pending++;
    fake_lose(conn_of(role), RLOCK_IO);
    conn_of(role)->pending--;
    said[0] = '\0';
}

/* A lane that is lost while it has unanswered orders is a suspect, because its server process may
   still commit the orders. */
STORE_CASE(test_resolve__suspects_lanes_under_way)
{
    lose_lane(ROLE_READS, 11);
    fake_lose(conn_of(ROLE_LANE), RLOCK_IO);
    ASSERT_NUMBER(list_count(&shop->suspects), ==, 0);
    lose_lane(ROLE_LANE + 1, 21);
    ASSERT_NUMBER(list_count(&shop->suspects), ==, 1);
}

STORE_CASE(test_resolve__waits_until_the_suspects_are_gone)
{
    static char second[] = "second";

    fake_lose(conn_of(ROLE_READS), RLOCK_IO);
    lose_lane(ROLE_LANE, 11);
    lose_lane(ROLE_LANE + 1, 21);
    resolve();
    ASSERT_SENT("main retire 0/1000: {11,21} {12,22}");
    batches[1] = batches[0];
    list_init(&batches[1].link);
    batches[1].arg = second;
    store_resolve_orders(shop, &batches[1], on_batch);
    ASSERT_NUMBER(fake_sent_count, ==, 1);
    fake_answer(RLOCK_OK, "1;");
    ASSERT_SENT("nothing");
    pass_ms(4);
    ASSERT_SENT("nothing");
    conn_of(ROLE_MAIN)->is_flushed = false;
    simulated_time_pass_us(1000, no_turn);
    assert_true(conn_of(ROLE_MAIN)->is_flushed);
    ASSERT_SENT("main retire 0/1000: {11,21} {12,22}");
    lose_lane(ROLE_LANE, 31);
    fake_answer(RLOCK_OK, "0;");
    ASSERT_SENT("nothing");
    pass_ms(0);
    ASSERT_SENT("main retire 0/1000: {31} {32}");
    fake_answer(RLOCK_OK, "0;");
    pass_ms(0);
    ASSERT_SENT(RESOLVE);
    ASSERT_NUMBER(fake_sent_count, ==, 2);
    fake_answer(RLOCK_IO, NULL);
    fake_answer(RLOCK_BUSY, NULL);
    ASSERT_SAID("first io;second busy;");
}

STORE_CASE(test_resolve__fails_if_the_suspects_stay)
{
    lose_lane(ROLE_LANE, 11);
    resolve();
    fake_answer(RLOCK_REFUSED, NULL);
    pass_ms(0);
    ASSERT_SAID("first refused;");
    resolve();
    pass_ms(TIMEOUT_MS - 1);
    fake_answer(RLOCK_OK, "1;");
    pass_ms(0);
    ASSERT_SAID("");
    pass_ms(5);
    fake_answer(RLOCK_OK, "1;");
    pass_ms(0);
    ASSERT_SAID("first timeout;");
    resolve();
    conn_of(ROLE_MAIN)->is_up = false;
    pass_ms(5);
    fake_answer(RLOCK_OK, "1;");
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

STORE_CASE(test_store_close__cancels_all_calls)
{
    struct key_lookup lookup = {.placement = {.user_id = 1, .key = {"k", 1}}};
    struct order_change two[] = {
        {.change = CHANGE_REDEEM, .voucher_id = 7, .order_id = 71, .actor = "admin:1"},
        {.change = CHANGE_CANCEL, .voucher_id = 7, .order_id = 71, .actor = "admin:1"}};

    closed = 0;
    store_read_order(shop, 71, 5, on_order, shop);
    store_change_order(shop, &two[0], on_change, "sent");
    store_flush(shop);
    store_read_order(shop, 72, 5, on_order, shop);
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

static void on_order_close(enum rlock_status status UNUSED,
                           const struct order *order UNUSED, void *arg)
{
    store_close(arg, on_closed, &closed);
}

STORE_CASE(test_store_close__from_inside_a_callback)
{
    closed = 0;
    store_read_order(shop, 71, 5, on_order_close, shop);
    store_read_order(shop, 72, 5, on_order, shop);
    store_flush(shop);
    fake_answer(RLOCK_OK, "71 7 5 {100,11,12,13,1};");
    ASSERT_SAID("cancelled;");
    uv_run(&loop, UV_RUN_DEFAULT);
    ASSERT_NUMBER(closed, ==, 1);
    uv_loop_close(&loop);
    open_shop(NULL);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
