/* it_feed.c - the feed of all vouchers over HTTP, with real servers: waits and open transactions. */
#include "app/test/fixture.h"
#include "base/clock.h"

static struct service *service;

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    return 0;
}

/* -- reading -- */

struct page {
    char cursor[64];
    size_t count;
    char ids[100][ID_SIZE];
};

static const char *auditor(void)
{
    return token_hs256(NULL, "{\"sub\":\"8\",\"exp\":4102444800,\"role\":\"auditor\"}",
                       FIXTURE_SECRET);
}

static void take_page(const struct client_reply *reply, struct page *page)
{
    const json_t *items = json_object_get(EXPECT(reply, 200, NULL)->json, "items");

    page->count = json_array_size(items);
    for (size_t i = 0; i < page->count; i++)
        snprintf(page->ids[i], ID_SIZE, "%s",
                 json_string_value(json_object_get(json_array_get(items, i), "id")));
    snprintf(page->cursor, sizeof(page->cursor), "%s", reply_text(reply, "next_cursor"));
}

/* Reads the page that comes after page->cursor. */
static void read_page(struct page *page)
{
    take_page(request(service, auditor(), NULL, "GET /v1/events?after=%s&limit=100",
                      page->cursor),
              page);
}

static struct page end_of_feed(void)
{
    struct page page = {.cursor = "0_0"};

    do
        read_page(&page);
    while (page.count > 0);
    return page;
}

/* Sends a request that waits for changes after the page. */
static struct client *wait_behind(const struct page *page)
{
    struct client *client = client_open(&service->address);
    char target[128], text[1024];
    const struct client_request wait = {
        .method = "GET", .target = target, .token = admin()};

    assert_non_null(client);
    snprintf(target, sizeof(target), "/v1/events?after=%s&wait_s=30", page->cursor);
    assert_true(client_write(client, text, client_format(&wait, text, sizeof(text))));
    return client;
}

static bool has_reader(void *of)
{
    return service_metric(of, "seckill_feed_readers") == 1;
}

static bool has_no_reader(void *of)
{
    return service_metric(of, "seckill_feed_readers") == 0;
}

static bool is_held(void *of)
{
    return service_metric(of, "seckill_feed_held_seconds") > 0;
}

static void order(const char *voucher_id, int64_t user_id, char *ret_id)
{
    snprintf(
        ret_id, ID_SIZE, "%s",
        reply_text(EXPECT(place_order(service, user_id, voucher_id, NULL), 201, NULL),
                   "id"));
}

/* -- tests -- */

SERVICE_CASE(test_feed__wakes_a_reader)
{
    static const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};
    char voucher_id[ID_SIZE], order_id[ID_SIZE];
    struct page page;
    struct client *reader;

    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    page = end_of_feed();
    reader = wait_behind(&page);
    AWAIT(has_reader, service);
    order(voucher_id, 1, order_id);
    take_page(client_read(reader, &patience), &page);
    assert_int_equal(page.count, 1);
    assert_string_equal(page.ids[0], order_id);
    client_close(reader);
    assert_true(has_no_reader(service));
}

/* The open transaction has taken the first number. Its change is not visible, so no change with a
   later number may be returned. */
SERVICE_CASE(test_feed__waits_for_a_transaction_that_is_open)
{
    static const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};
    char held_id[ID_SIZE], voucher_id[ID_SIZE], order_id[ID_SIZE], text[200];
    struct page page, behind;
    struct client *reader;

    make_voucher(service, &(struct sale){.stock = 10}, held_id);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    page = behind = end_of_feed();
    snprintf(text, sizeof(text), "select place_orders(%s, '{1}', '{0}', null)", held_id);
    sql_session(*state, text);
    order(voucher_id, 2, order_id);
    read_page(&behind);
    assert_int_equal(behind.count, 0);
    assert_string_equal(behind.cursor, page.cursor);
    reader = wait_behind(&page);
    AWAIT(is_held, service);
    sql_session(*state, NULL);
    take_page(client_read(reader, &patience), &page);
    assert_int_equal(page.count, 1);
    assert_string_equal(page.ids[0], order_id);
    client_close(reader);
}

SERVICE_CASE(test_feed__a_client_that_leaves_frees_its_place)
{
    struct page page = end_of_feed();
    struct client *readers[2] = {wait_behind(&page), NULL};
    int64_t began_us = clock_mono_us();

    AWAIT(has_reader, service);
    client_close(readers[0]);
    AWAIT(has_no_reader, service);
    readers[1] = wait_behind(&page);
    AWAIT(has_reader, service);
    client_abort(readers[1]);
    AWAIT(has_no_reader, service);
    ASSERT_NUMBER(clock_mono_us() - began_us, <, 30 * INT64_C(1000000));
}

int main(void)
{
    return cases_run(setup, fixture_end_group);
}
