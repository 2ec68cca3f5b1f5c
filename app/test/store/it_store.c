/* it_store.c - each call of the store, with a real server. */
#include "app/test/store/it_store.h"

static struct sandbox *sandbox;
static struct shop *shop;

static int setup(void **state)
{
    *state = fixture_open();
    sandbox = sandbox_open(*state, "store");
    return 0;
}

static int teardown(void **state)
{
    sandbox_close(sandbox);
    return fixture_close(*state);
}

static int open_shop(void **state UNUSED)
{
    shop = shop_open(sandbox, 2, UNHURRIED_MS);
    return 0;
}

static int close_shop(void **state UNUSED)
{
    shop_close(shop);
    return sandbox_audit(sandbox) == 0 ? 0 : 1;
}

#define STORE_CASE(test) cmocka_unit_test_setup_teardown(test, open_shop, close_shop)

/* -- batches -- */

static void
test_store_place_orders__returns_verdicts_orders_and_snapshot(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 2, 1);
    struct basket basket = {0};
    int64_t before_us = clock_real_us();
    struct order *first = &basket.placements[0].order;
    struct order *repeated = &basket.placements[1].order;

    basket_add(&basket, 1, 11, "k");
    basket_add(&basket, 1, 12, "k");
    basket_add(&basket, 1, 13, NULL);
    basket_add(&basket, 2, 14, NULL);
    basket_add(&basket, 3, 15, "k");
    assert_int_equal(basket_place(shop, voucher, &basket), STATUS_OK);
    assert_int_equal(basket.placements[0].verdict, VERDICT_PLACED);
    assert_int_equal(basket.placements[1].verdict, VERDICT_REPEATED);
    assert_int_equal(basket.placements[2].verdict, VERDICT_ALREADY_ORDERED);
    assert_int_equal(basket.placements[3].verdict, VERDICT_PLACED);
    assert_int_equal(basket.placements[4].verdict, VERDICT_SOLD_OUT);
    assert_int_equal(basket.placements[2].order.id, first->id);
    assert_memory_equal(first, repeated, sizeof(*first));

    assert_int_equal(first->voucher_id, voucher);
    assert_int_equal(first->user_id, 1);
    assert_int_equal(first->price_cents, 100);
    assert_int_equal(first->expires_us - first->created_us, INT64_C(900000000));
    assert_int_equal(first->paid_us, 0);
    assert_int_equal(first->status, ORDER_UNPAID);
    ASSERT_BETWEEN(first->created_us, before_us, clock_real_us());

    assert_true(basket.has_snapshot);
    assert_int_equal(basket.snapshot.voucher_id, voucher);
    assert_int_equal(basket.snapshot.stock_left, 0);
    assert_int_equal(basket.snapshot.version, 2);
    assert_true(basket.snapshot.begin_us < first->created_us);
    assert_true(basket.snapshot.end_us > first->created_us);
}

static void test_store_place_orders__repeats_return_the_current_state(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);
    struct basket basket = {0};
    const struct placement *placement = &basket.placements[0];

    basket_add(&basket, 1, 1, "key");
    basket_place(shop, voucher, &basket);
    sandbox_do(sandbox,
               "select pay_order(voucher_id, id, 'payment:1', 'ref ' || id, 100),"
               " redeem_order(voucher_id, id, 'admin:1')"
               " from voucher_order where voucher_id = %" PRId64,
               voucher);
    basket_place(shop, voucher, &basket);
    assert_int_equal(placement->verdict, VERDICT_REPEATED);
    assert_int_equal(placement->order.status, ORDER_REDEEMED);
    assert_int_equal(placement->order.paid_us,
                     sandbox_number(sandbox,
                                    "select unix_us(paid_at) from voucher_order"
                                    " where voucher_id = %" PRId64,
                                    voucher));
}

/* The first batch waits for a row lock and occupies a lane. The others use the other lane. */
static void test_store_place_orders__a_waiting_voucher_leaves_a_lane(void **state UNUSED)
{
    int64_t held = sandbox_voucher(sandbox, 10, 1);
    int64_t quiet = sandbox_voucher(sandbox, 10, 1);
    struct basket first = {0}, second = {0};

    sandbox_do(sandbox, "begin");
    sandbox_do(sandbox, "select from voucher where id = %" PRId64 " for update", held);
    basket_add(&first, 1, 1, NULL);
    basket_add(&second, 1, 1, NULL);
    basket_send(shop, held, &first);
    assert_int_equal(basket_place(shop, quiet, &second), STATUS_OK);
    assert_false(first.is_answered);
    sandbox_do(sandbox, "commit");
    shop_await(shop, &first.is_answered);
    assert_int_equal(first.status, STATUS_OK);
}

/* -- look-ups by key -- */

struct lookup {
    struct key_lookup key;
    enum status status;
    bool is_answered;
};

static void on_found(enum status status, const struct placement *placement, void *arg)
{
    struct lookup *lookup = arg;

    assert_ptr_equal(placement, &lookup->key.placement);
    assert_false(lookup->is_answered);
    lookup->status = status;
    lookup->is_answered = true;
}

static void find_key(int64_t voucher, struct lookup *lookup, int64_t user_id,
                     const char *key)
{
    *lookup = (struct lookup){.key.placement = {.user_id = user_id, .key = text_of(key)}};
    store_find_by_key(shop->store, voucher, &lookup->key, on_found, lookup);
}

static void test_store_find_by_key__answers_each_in_one_turn(void **state UNUSED)
{
    int64_t one = sandbox_voucher(sandbox, 2, 1);
    int64_t two = sandbox_voucher(sandbox, 2, 2);
    struct basket basket = {0};
    struct lookup lookups[6];

    basket_add(&basket, 1, 1, "a");
    basket_place(shop, one, &basket);
    basket_place(shop, two, &basket);
    find_key(one, &lookups[0], 1, "a");
    find_key(two, &lookups[1], 1, "a");
    find_key(one, &lookups[2], 1, "b");
    find_key(two, &lookups[3], 1, "b");
    find_key(one, &lookups[4], 2, "a");
    find_key(999999999, &lookups[5], 1, "a");
    for (size_t i = 0; i < COUNT_OF(lookups); i++)
        assert_false(lookups[i].is_answered);
    for (size_t i = 0; i < COUNT_OF(lookups); i++) {
        shop_await(shop, &lookups[i].is_answered);
        assert_int_equal(lookups[i].status, STATUS_OK);
    }
    assert_int_equal(lookups[0].key.placement.verdict, VERDICT_REPEATED);
    assert_int_equal(lookups[0].key.placement.order.voucher_id, one);
    assert_int_equal(lookups[0].key.placement.order.price_cents, 100);
    assert_int_equal(lookups[1].key.placement.verdict, VERDICT_REPEATED);
    assert_int_equal(lookups[1].key.placement.order.id, basket.placements[0].order.id);
    assert_int_equal(lookups[2].key.placement.verdict, VERDICT_ALREADY_ORDERED);
    assert_int_equal(lookups[2].key.placement.order.id,
                     lookups[0].key.placement.order.id);
    assert_int_equal(lookups[3].key.placement.verdict, VERDICT_NONE);
    assert_int_equal(lookups[4].key.placement.verdict, VERDICT_NONE);
    assert_int_equal(lookups[5].key.placement.verdict, VERDICT_NONE);
}

/* -- reading orders -- */

struct read {
    enum status status;
    bool is_answered;
    struct order orders[32];
    size_t count;
};

static void on_order(enum status status, const struct order *order, void *arg)
{
    struct read *read = arg;

    assert_true((order != NULL) == (status == STATUS_OK));
    read->status = status;
    read->is_answered = true;
    if (order != NULL)
        read->orders[0] = *order;
}

static enum status read_order(int64_t order_id, int64_t user_id, struct read *read)
{
    *read = (struct read){0};
    store_read_order(shop->store, order_id, user_id, on_order, read);
    shop_await(shop, &read->is_answered);
    return read->status;
}

/* A voucher whose id differs only in the bits that an order id omits. */
static int64_t voucher_far_off(int64_t voucher)
{
    return sandbox_number(sandbox,
                          "select id from create_voucher(%" PRId64 ", 'far', '', 7, 7, 9,"
                          " 1, now() - interval '1 min', now() + interval '1 h', 60)",
                          voucher + 3 * INT64_C(1048576));
}

static void test_store_read_order__finds_by_id_alone(void **state UNUSED)
{
    int64_t near = sandbox_voucher(sandbox, 9, 1);
    int64_t far = voucher_far_off(near);
    struct basket in_near = {0}, in_far = {0};
    struct read read;

    basket_add(&in_near, 5, 1, NULL);
    basket_add(&in_far, 5, 1, NULL);
    basket_place(shop, near, &in_near);
    basket_place(shop, far, &in_far);
    assert_int_equal(read_order(in_near.placements[0].order.id, 5, &read), STATUS_OK);
    assert_memory_equal(&read.orders[0], &in_near.placements[0].order,
                        sizeof(read.orders[0]));
    assert_int_equal(read_order(in_far.placements[0].order.id, 0, &read), STATUS_OK);
    assert_memory_equal(&read.orders[0], &in_far.placements[0].order,
                        sizeof(read.orders[0]));
}

static void test_store_read_order__hides_what_is_not_there(void **state UNUSED)
{
    static const int64_t none[] = {0, -1, 1, 1048576, INT64_MAX, INT64_MIN};
    int64_t voucher = sandbox_voucher(sandbox, 9, 1);
    struct basket basket = {0};
    struct read read;

    basket_add(&basket, 5, 1, NULL);
    basket_place(shop, voucher, &basket);
    assert_int_equal(read_order(basket.placements[0].order.id, 6, &read),
                     STATUS_NOT_FOUND);
    for (size_t i = 0; i < COUNT_OF(none); i++)
        assert_int_equal(read_order(none[i], 0, &read), STATUS_NOT_FOUND);
}

static void on_orders(enum status status, const struct order *orders, size_t count,
                      void *arg)
{
    struct read *read = arg;

    assert_true(count <= COUNT_OF(read->orders));
    read->status = status;
    read->is_answered = true;
    read->count = count;
    for (size_t i = 0; i < count; i++)
        read->orders[i] = orders[i];
}

static struct read list_orders(struct order_filter filter)
{
    struct read read = {0};

    store_list_orders(shop->store, &filter, on_orders, &read);
    shop_await(shop, &read.is_answered);
    assert_int_equal(read.status, STATUS_OK);
    return read;
}

static void test_store_list_orders__newest_first_by_pages(void **state UNUSED)
{
    int64_t vouchers[3];
    struct read page, rest;

    for (size_t i = 0; i < COUNT_OF(vouchers); i++) {
        struct basket basket = {0};

        vouchers[i] = sandbox_voucher(sandbox, 9, 2);
        basket_add(&basket, 77, 0, NULL);
        basket_add(&basket, 77, 0, NULL);
        basket_add(&basket, 78, 0, NULL);
        basket_place(shop, vouchers[i], &basket);
    }
    page = list_orders((struct order_filter){.user_id = 77, .limit = 4});
    assert_int_equal(page.count, 4);
    assert_int_equal(page.orders[0].voucher_id, vouchers[2]);
    rest = list_orders(
        (struct order_filter){.user_id = 77, .limit = 4, .before_id = page.orders[3].id});
    assert_int_equal(rest.count, 2);
    assert_true(rest.orders[0].id < page.orders[3].id);
    for (size_t i = 1; i < 4; i++)
        assert_true(page.orders[i].id < page.orders[i - 1].id);
    page = list_orders(
        (struct order_filter){.user_id = 77, .voucher_id = vouchers[1], .limit = 30});
    assert_int_equal(page.count, 2);
    assert_int_equal(page.orders[1].voucher_id, vouchers[1]);
    page = list_orders((struct order_filter){.user_id = 4711, .limit = 30});
    assert_int_equal(page.count, 0);
}

/* -- vouchers -- */

struct shelf {
    enum status status;
    bool is_answered;
    struct voucher vouchers[128];
    size_t count;
    int64_t now_us;
    char title[256], description[256]; /* of the first voucher */
};

static void copy_text(char *to, struct text text)
{
    snprintf(to, 256, "%.*s", (int)text.len, text.bytes);
}

static void on_vouchers(enum status status, const struct voucher *vouchers, size_t count,
                        int64_t now_us, void *arg)
{
    struct shelf *shelf = arg;

    assert_false(shelf->is_answered);
    assert_true(count <= COUNT_OF(shelf->vouchers));
    shelf->is_answered = true;
    shelf->status = status;
    shelf->count = count;
    shelf->now_us = now_us;
    for (size_t i = 0; i < count; i++)
        shelf->vouchers[i] = vouchers[i];
    if (count > 0) {
        copy_text(shelf->title, vouchers[0].title);
        copy_text(shelf->description, vouchers[0].description);
    }
}

static enum status await_shelf(struct shelf *shelf)
{
    shop_await(shop, &shelf->is_answered);
    return shelf->status;
}

static const struct voucher *read_voucher(struct shelf *shelf, int64_t id)
{
    *shelf = (struct shelf){0};
    store_read_voucher(shop->store, id, on_vouchers, shelf);
    if (await_shelf(shelf) == STATUS_NOT_FOUND)
        return NULL;
    assert_int_equal(shelf->status, STATUS_OK);
    assert_int_equal(shelf->count, 1);
    return &shelf->vouchers[0];
}

static struct voucher some_voucher(void)
{
    return (struct voucher){
        .title = text_of("双十一 voucher"),
        .description = text_of("a 'quoted' \\ line\nand another"),
        .price_cents = CENTS_MAX,
        .face_value_cents = 1,
        .stock_total = STOCK_MAX,
        .per_user_limit = PER_USER_LIMIT_MAX,
        .pay_within_s = PAY_WITHIN_S_MAX,
        .begin_us = clock_real_us() - 1000000,
        .end_us = clock_real_us() + 1000000,
    };
}

static enum status create(const struct voucher *voucher, struct shelf *shelf)
{
    *shelf = (struct shelf){0};
    store_create_voucher(shop->store, voucher, "admin:1", on_vouchers, shelf);
    return await_shelf(shelf);
}

static void test_store_create_voucher__keeps_every_field(void **state UNUSED)
{
    struct voucher voucher = some_voucher();
    int64_t before_us = clock_real_us();
    const struct voucher *made;
    struct shelf shelf;

    assert_int_equal(create(&voucher, &shelf), STATUS_OK);
    made = read_voucher(&shelf, shelf.vouchers[0].id);
    assert_non_null(made);
    assert_string_equal(shelf.title, voucher.title.bytes);
    assert_string_equal(shelf.description, voucher.description.bytes);
    assert_int_equal(made->version, 1);
    assert_int_equal(made->price_cents, voucher.price_cents);
    assert_int_equal(made->face_value_cents, voucher.face_value_cents);
    assert_int_equal(made->stock_total, voucher.stock_total);
    assert_int_equal(made->stock_left, voucher.stock_total);
    assert_int_equal(made->per_user_limit, voucher.per_user_limit);
    assert_int_equal(made->pay_within_s, voucher.pay_within_s);
    assert_int_equal(made->begin_us, voucher.begin_us);
    assert_int_equal(made->end_us, voucher.end_us);
    ASSERT_BETWEEN(shelf.now_us, before_us, clock_real_us());
}

/* Only a violation of the rule between begin and end has its own status, because the API explains
   it. */
static void test_store_create_voucher__refuses_invalid_vouchers(void **state UNUSED)
{
    struct voucher voucher = some_voucher();
    struct shelf shelf;

    voucher.end_us = voucher.begin_us;
    assert_int_equal(create(&voucher, &shelf), STATUS_INVALID);
    assert_int_equal(shelf.count, 0);
    voucher = some_voucher();
    voucher.stock_total = STOCK_MAX + 1;
    assert_int_equal(create(&voucher, &shelf), STATUS_REFUSED);
    voucher.stock_total = INT64_MAX;
    assert_int_equal(create(&voucher, &shelf), STATUS_REFUSED);
    voucher = some_voucher();
    voucher.title = text_of("\xff");
    assert_int_equal(create(&voucher, &shelf), STATUS_REFUSED);
}

static void test_store_read_vouchers__leaves_out_missing_vouchers(void **state UNUSED)
{
    int64_t ids[3] = {sandbox_voucher(sandbox, 1, 1), 123456789012,
                      sandbox_voucher(sandbox, 1, 1)};
    struct shelf shelf = {0};
    int64_t before_us = clock_real_us();

    store_read_vouchers(shop->store, ids, 3, on_vouchers, &shelf);
    assert_int_equal(await_shelf(&shelf), STATUS_OK);
    assert_int_equal(shelf.count, 2);
    ASSERT_BETWEEN(shelf.now_us, before_us, clock_real_us());
    assert_null(read_voucher(&shelf, 123456789012));
}

static void test_store_patch_voucher__changes_what_is_named(void **state UNUSED)
{
    struct voucher voucher = some_voucher();
    struct voucher changes = {.title = text_of("new"),
                              .end_us = voucher.end_us + 5,
                              .requires_ticket = -1,
                              .pow_bits = -1};
    struct shelf shelf;
    int64_t id;

    assert_int_equal(create(&voucher, &shelf), STATUS_OK);
    id = shelf.vouchers[0].id;
    shelf = (struct shelf){0};
    store_patch_voucher(shop->store, id, &changes, on_vouchers, &shelf);
    assert_int_equal(await_shelf(&shelf), STATUS_OK);
    assert_string_equal(shelf.title, "new");
    assert_string_equal(shelf.description, voucher.description.bytes);
    assert_int_equal(shelf.vouchers[0].version, 2);
    assert_int_equal(shelf.vouchers[0].begin_us, voucher.begin_us);
    assert_int_equal(shelf.vouchers[0].end_us, voucher.end_us + 5);
    assert_int_equal(shelf.vouchers[0].pay_within_s, voucher.pay_within_s);

    changes = (struct voucher){.description = {"", 0},
                               .begin_us = voucher.begin_us - 5,
                               .pay_within_s = 60,
                               .requires_ticket = -1,
                               .pow_bits = 9};
    shelf = (struct shelf){0};
    store_patch_voucher(shop->store, id, &changes, on_vouchers, &shelf);
    assert_int_equal(await_shelf(&shelf), STATUS_OK);
    assert_string_equal(shelf.title, "new");
    assert_string_equal(shelf.description, "");
    assert_int_equal(shelf.vouchers[0].begin_us, voucher.begin_us - 5);
    assert_int_equal(shelf.vouchers[0].pay_within_s, 60);
    assert_int_equal(shelf.vouchers[0].requires_ticket, voucher.requires_ticket);
    assert_int_equal(shelf.vouchers[0].pow_bits, 9);
}

static void test_store_patch_voucher__refuses_an_end_before_the_begin(void **state UNUSED)
{
    int64_t id = sandbox_voucher(sandbox, 1, 1);
    struct voucher changes = {.end_us = 1, .requires_ticket = -1, .pow_bits = -1};
    struct shelf shelf = {0};

    store_patch_voucher(shop->store, id, &changes, on_vouchers, &shelf);
    assert_int_equal(await_shelf(&shelf), STATUS_INVALID);
    shelf = (struct shelf){0};
    store_patch_voucher(shop->store, 987654321, &changes, on_vouchers, &shelf);
    assert_int_equal(await_shelf(&shelf), STATUS_NOT_FOUND);
    changes = (struct voucher){.title = {"\xff", 1}};
    shelf = (struct shelf){0};
    store_patch_voucher(shop->store, id, &changes, on_vouchers, &shelf);
    assert_int_equal(await_shelf(&shelf), STATUS_REFUSED);
}

static enum status restock(int64_t id, int64_t add, struct shelf *shelf)
{
    *shelf = (struct shelf){0};
    store_restock_voucher(shop->store, id, add, "admin:1", on_vouchers, shelf);
    return await_shelf(shelf);
}

static void test_store_restock_voucher__adds_and_removes(void **state UNUSED)
{
    static const int64_t too_much[] = {-9, STOCK_MAX, INT64_MAX, INT64_MIN};
    int64_t id = sandbox_voucher(sandbox, 5, 1);
    struct shelf shelf;

    assert_int_equal(restock(id, 5, &shelf), STATUS_OK);
    assert_int_equal(shelf.vouchers[0].stock_total, 10);
    assert_int_equal(shelf.vouchers[0].version, 2);
    assert_int_equal(restock(id, -2, &shelf), STATUS_OK);
    assert_int_equal(shelf.vouchers[0].stock_left, 8);
    for (size_t i = 0; i < COUNT_OF(too_much); i++)
        assert_int_equal(restock(id, too_much[i], &shelf), STATUS_INVALID);
    assert_int_equal(restock(987654321, 1, &shelf), STATUS_NOT_FOUND);
    assert_int_equal(read_voucher(&shelf, id)->stock_left, 8);
}

/* The ids of a whole list, read by pages of two, as text. */
static const char *list_vouchers(enum voucher_state state)
{
    static char ids[1024];
    struct voucher_filter filter = {.state = state, .limit = 2};
    size_t used = 0;

    for (ids[0] = '\0';;) {
        struct shelf shelf = {0};
        const struct voucher *last;

        store_list_vouchers(shop->store, &filter, on_vouchers, &shelf);
        assert_int_equal(await_shelf(&shelf), STATUS_OK);
        assert_true(shelf.now_us > 0);
        if (shelf.count == 0)
            return ids;
        for (size_t i = 0; i < shelf.count; i++)
            used += (size_t)snprintf(ids + used, sizeof(ids) - used, "%" PRId64 " ",
                                     shelf.vouchers[i].id);
        last = &shelf.vouchers[shelf.count - 1];
        filter.after_id = last->id;
        filter.after_us = state == VOUCHER_ANY        ? 0
                          : state == VOUCHER_UPCOMING ? last->begin_us
                                                      : last->end_us;
    }
}

static void test_store_list_vouchers__each_state_in_its_order(void **state UNUSED)
{
    sandbox_do(sandbox, "truncate voucher, voucher_order, payment, order_event,"
                        " stock_event");
    sandbox_do(sandbox, "select create_voucher(id, 'x', '', 1, 1, 1, 1,"
                        " now() + b * interval '1 h', now() + e * interval '1 h', 60)"
                        " from (values (1, 5, 6), (2, 3, 9), (3, 3, 4), (4, -1, 8),"
                        " (5, -2, 7), (6, -9, 7), (7, -9, -5), (8, -9, -3), (9, -4, -3))"
                        " v (id, b, e)");
    assert_string_equal(list_vouchers(VOUCHER_ANY), "9 8 7 6 5 4 3 2 1 ");
    assert_string_equal(list_vouchers(VOUCHER_UPCOMING), "2 3 1 ");
    assert_string_equal(list_vouchers(VOUCHER_OPEN), "5 6 4 ");
    assert_string_equal(list_vouchers(VOUCHER_ENDED), "9 8 7 ");
    sandbox_do(sandbox, "truncate voucher, stock_event");
    assert_string_equal(list_vouchers(VOUCHER_OPEN), "");
}

/* -- notifications -- */

static void await_change(int64_t voucher)
{
    while (shop->changed_id != voucher)
        uv_run(&shop->loop, UV_RUN_ONCE);
    shop->changed_id = 0;
}

static void test_store__receives_changes_of_vouchers(void **state UNUSED)
{
    int64_t id = sandbox_voucher(sandbox, 5, 1);
    struct shelf shelf;

    assert_int_equal(shop->refreshes, 1); /* since connecting */
    await_change(id);
    sandbox_do(sandbox, "select restock_voucher(%" PRId64 ", 1)", id);
    await_change(id);
    sandbox_do(sandbox, "select patch_voucher(%" PRId64 ", 'x', null, null, null, null)",
               id);
    await_change(id);
    assert_int_equal(restock(id, 1, &shelf), STATUS_OK); /* by the store itself */
    await_change(id);
    assert_int_equal(shop->changes, 4);
    assert_int_equal(shop->refreshes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(test_store_place_orders__returns_verdicts_orders_and_snapshot),
        STORE_CASE(test_store_place_orders__repeats_return_the_current_state),
        STORE_CASE(test_store_place_orders__a_waiting_voucher_leaves_a_lane),
        STORE_CASE(test_store_find_by_key__answers_each_in_one_turn),
        STORE_CASE(test_store_read_order__finds_by_id_alone),
        STORE_CASE(test_store_read_order__hides_what_is_not_there),
        STORE_CASE(test_store_list_orders__newest_first_by_pages),
        STORE_CASE(test_store_create_voucher__keeps_every_field),
        STORE_CASE(test_store_create_voucher__refuses_invalid_vouchers),
        STORE_CASE(test_store_read_vouchers__leaves_out_missing_vouchers),
        STORE_CASE(test_store_patch_voucher__changes_what_is_named),
        STORE_CASE(test_store_patch_voucher__refuses_an_end_before_the_begin),
        STORE_CASE(test_store_restock_voucher__adds_and_removes),
        STORE_CASE(test_store_list_vouchers__each_state_in_its_order),
        STORE_CASE(test_store__receives_changes_of_vouchers),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
