/*
 * it_order_snapshot.c - changes at one instance reach the other: new vouchers, moved
 * windows, returned stock, with and without a notification.
 */
#include "app/test/fixture.h"
#include "base/clock.h"

#include <stdlib.h>

static struct service *one, *two;
static int64_t next_user = 1000;

static int setup(void **state)
{
    struct fixture *fixture = fixture_open();

    *state = fixture;
    one = fixture_serve(fixture, NULL);
    two = fixture_serve(fixture, NULL);
    fixture_share_services(fixture);
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

/* The answer that a service must give to orders of new shoppers. */
struct look {
    struct service *service;
    const char *voucher_id;
    int status;
    const char *code;
    int in_a_row; /* as many requests as reach all workers */
};

static bool is_answered_so(void *arg)
{
    const struct look *look = arg;

    for (int i = 0; i < look->in_a_row; i++) {
        const struct client_reply *reply =
            place_order(look->service, next_user++, look->voucher_id, NULL);

        if (!reply_is(reply, look->status, look->code))
            return false;
    }
    return true;
}

/* Wait until both instances answer orders with this status and code. */
static void assert_becomes(const char *voucher_id, int status, const char *code)
{
    struct look look = {one, voucher_id, status, code, 8};

    AWAIT(is_answered_so, &look);
    look.service = two;
    AWAIT(is_answered_so, &look);
}

static void create_at(struct service *service, int64_t stock, char *ret_id)
{
    char begin[32], end[32], body[300];

    snprintf(
        body, sizeof(body),
        "{\"title\":\"snapshot\",\"price_cents\":1,\"face_value_cents\":1,\"stock\":%lld,"
        "\"begin_at\":\"%s\",\"end_at\":\"%s\"}",
        (long long)stock, time_in_ms(-1000, begin), time_in_ms(3600000, end));
    snprintf(ret_id, ID_SIZE, "%s",
             reply_text(
                 EXPECT(request(service, admin(), body, "POST /v1/vouchers"), 201, NULL),
                 "id"));
}

static void test_new_voucher__sells_everywhere(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        char id[ID_SIZE];

        create_at(i % 2 ? one : two, 1000, id);
        assert_becomes(id, 201, "");
    }
}

static void test_new_voucher__sells_without_a_notification(void **state)
{
    char id[ID_SIZE];

    snprintf(id, sizeof(id), "%lld",
             (long long)sql_number(
                 *state,
                 "insert into voucher (price_cents, face_value_cents, begin_at, "
                 "end_at, stock_total, stock_left, pay_within_s, per_user_limit, "
                 "title) values (1, 1, now(), now() + interval '1 h', 1000, 1000, "
                 "900, 1, 'untold') returning id"));
    assert_becomes(id, 201, "");
}

static void test_patch__moves_the_window_everywhere(void **state)
{
    char id[ID_SIZE], begin[32], end[32], body[120];

    (void)state;
    create_at(one, 100000, id);
    assert_becomes(id, 201, "");
    snprintf(body, sizeof(body), "{\"begin_at\":\"%s\",\"end_at\":\"%s\"}",
             time_in_ms(600000, begin), time_in_ms(900000, end));
    EXPECT(request(one, admin(), body, "PATCH /v1/vouchers/%s", id), 200, NULL);
    assert_becomes(id, 409, "not_started");
    snprintf(body, sizeof(body), "{\"begin_at\":\"%s\"}", time_in_ms(-1000, begin));
    EXPECT(request(two, admin(), body, "PATCH /v1/vouchers/%s", id), 200, NULL);
    assert_becomes(id, 201, "");
    snprintf(body, sizeof(body), "{\"end_at\":\"%s\"}", time_in_ms(-10, end));
    EXPECT(request(one, admin(), body, "PATCH /v1/vouchers/%s", id), 200, NULL);
    assert_becomes(id, 409, "sale_ended");
}

#define CHANGES 7

static int compare_us(const void *a, const void *b)
{
    int64_t one_us = *(const int64_t *)a, other_us = *(const int64_t *)b;

    return (one_us > other_us) - (one_us < other_us);
}

/* How long `two` takes to see that the sale opens or closes: after a PATCH at `one`, which sends a
   notification, or after an update of the row, which sends none. The time of one check, which is
   long on a busy machine, is subtracted. */
static int64_t time_to_see_us(struct fixture *fixture, const char *id, bool is_open,
                              bool is_notified)
{
    struct look look = {two, id, is_open ? 201 : 409, is_open ? "" : "not_started", 8};
    char begin[32], body[120];
    int64_t begin_us, seen_us;

    time_in_ms(is_open ? -1000 : 600000, begin);
    snprintf(body, sizeof(body), "{\"begin_at\":\"%s\"}", begin);
    if (is_notified)
        EXPECT(request(one, admin(), body, "PATCH /v1/vouchers/%s", id), 200, NULL);
    else
        sql_do(fixture,
               "update voucher set version = version + 1, begin_at = '%s' where id = %s",
               begin, id);
    begin_us = clock_mono_us();
    AWAIT(is_answered_so, &look);
    seen_us = clock_mono_us();
    is_answered_so(&look);
    return seen_us - begin_us - (clock_mono_us() - seen_us);
}

/* A notification takes milliseconds, the periodic re-read a second or two. The control is
   the same change without a notification, on the same machine at the same time. */
static void test_patch__a_notification_is_faster_than_a_reread(void **state)
{
    int64_t notified_us[CHANGES], unnotified_us[CHANGES];
    char id[ID_SIZE];

    create_at(one, 100000, id);
    assert_becomes(id, 201, "");
    for (size_t i = 0; i < CHANGES; i++) {
        notified_us[i] = time_to_see_us(*state, id, false, true);
        unnotified_us[i] = time_to_see_us(*state, id, true, false);
    }
    qsort(notified_us, CHANGES, sizeof(*notified_us), compare_us);
    qsort(unnotified_us, CHANGES, sizeof(*unnotified_us), compare_us);
    if (notified_us[CHANGES / 2] * 5 > unnotified_us[CHANGES / 2])
        fail_msg("notified: %lld us, not notified: %lld us (medians)",
                 (long long)notified_us[CHANGES / 2],
                 (long long)unnotified_us[CHANGES / 2]);
}

/* Sell the whole stock and wait until both instances know. */
static void sell_out(const char *id)
{
    struct look look = {one, id, 409, "sold_out", 1};

    AWAIT(is_answered_so, &look);
    assert_becomes(id, 409, "sold_out");
}

static void test_restock__reopens_the_sale_everywhere(void **state)
{
    char id[ID_SIZE];

    (void)state;
    create_at(one, 5, id);
    sell_out(id);
    for (int i = 0; i < 4; i++) {
        EXPECT(request(i % 2 ? one : two, admin(), "{\"add\":40}",
                       "POST /v1/vouchers/%s/restock", id),
               200, NULL);
        assert_becomes(id, 201, "");
        sell_out(id);
    }
}

static void test_restock__reopens_the_sale_without_a_notification(void **state)
{
    char id[ID_SIZE];

    create_at(one, 5, id);
    sell_out(id);
    sql_do(*state,
           "update voucher set version = version + 1, stock_total = stock_total + "
           "60, stock_left = stock_left + 60 where id = %s",
           id);
    assert_becomes(id, 201, "");
}

/* A service that has missed notifications must not rely on its snapshot. */
static void test_restock__while_the_listeners_were_cut_off(void **state)
{
    char id[ID_SIZE];

    create_at(one, 5, id);
    sell_out(id);
    sql_do(*state, "select count(pg_terminate_backend(pid)) from pg_stat_activity where "
                   "usename = current_user and pid <> pg_backend_pid()");
    sql_do(*state,
           "update voucher set version = version + 1, stock_total = stock_total + "
           "60, stock_left = stock_left + 60 where id = %s",
           id);
    service_await(one, "/readyz", 200);
    service_await(two, "/readyz", 200);
    assert_becomes(id, 201, "");
}

/* The snapshot may be stale; the database decides. */
static void test_restock__removed_stock_is_not_sold(void **state)
{
    char id[ID_SIZE];

    create_at(one, 100, id);
    assert_becomes(id, 201, "");
    EXPECT(request(one, admin(), "{\"add\":-1}", "POST /v1/vouchers/%s/restock", id), 200,
           NULL);
    sql_do(*state,
           "update voucher set version = version + 1, stock_total = stock_total - "
           "stock_left, stock_left = 0 where id = %s",
           id);
    EXPECT(place_order(two, next_user++, id, NULL), 409, "sold_out");
    EXPECT(place_order(one, next_user++, id, NULL), 409, "sold_out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_new_voucher__sells_everywhere),
        CASE(test_new_voucher__sells_without_a_notification),
        CASE(test_patch__moves_the_window_everywhere),
        CASE(test_patch__a_notification_is_faster_than_a_reread),
        CASE(test_restock__reopens_the_sale_everywhere),
        CASE(test_restock__reopens_the_sale_without_a_notification),
        CASE(test_restock__while_the_listeners_were_cut_off),
        CASE(test_restock__removed_stock_is_not_sold),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
