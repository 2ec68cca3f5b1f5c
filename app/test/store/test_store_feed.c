/* test_store_feed.c - the feed of all vouchers, with fake connections. */
#include "app/test/store/shop_fixture.h"

static void on_feed(enum rlock_status status, bool is_complete, void *arg)
{
    assert_ptr_equal(arg, shop);
    SAY("%s%s;", rlock_status_name(status), is_complete ? " complete" : "");
}

static void advance(const char *sent, const char *rows)
{
    store_advance_feed(shop, on_feed, shop);
    store_flush(shop);
    ASSERT_SENT(sent);
    fake_answer(rows != NULL ? RLOCK_OK : RLOCK_IO, rows);
}

static void list(const char *sent, const char *rows)
{
    const struct feed_filter filter = {.after = {3, 4}, .limit = 20};

    store_list_feed(shop, &filter, on_events, shop);
    store_flush(shop);
    ASSERT_SENT(sent);
    fake_answer(rows != NULL ? RLOCK_OK : RLOCK_IO, rows);
}

STORE_CASE(test_advance_feed__remembers_its_answer)
{
    ASSERT_NUMBER(store_feed_until(shop), ==, 0);
    advance("reads advance_feed 251/1000: 0 0 0", "0 30 9;");
    advance("reads advance_feed 251/1000: 30 9 0", "30 33 11;");
    advance("reads advance_feed 251/1000: 33 11 30", NULL);
    ASSERT_NUMBER(store_feed_until(shop), ==, 30);
    advance("reads advance_feed 251/1000: 33 11 30", "33 33 null;");
    ASSERT_NUMBER(store_feed_until(shop), ==, 33);
    ASSERT_SAID("ok;ok;io;ok complete;");
}

STORE_CASE(test_list_feed__reads_what_is_complete)
{
    list("reads feed_events 251/1000: 3 4 0 20", "");
    ASSERT_SAID("ok;");
    advance("reads advance_feed 251/1000: 0 0 0", "33 33 null;");
    list("reads feed_events 251/1000: 3 4 33 20",
         "4 7 null 8 30 'admin:1' null null null 3;5 7 71 9 -1 'shopper:5' null 'unpaid' "
         "null 5;");
    list("reads feed_events 251/1000: 3 4 33 20", NULL);
    ASSERT_SAID("ok complete;ok 4 7 0 8 30 admin:1 - - - first 3 5 7 71 9 -1 shopper:5 - "
                "unpaid - first 5;io;");
}

/* A new connection may lead to another server, which may not have the changes up to the number that
   the old server returned. So store_feed_until() is 0 until the new session has called
   advance_feed(). */
STORE_CASE(test_advance_feed__begins_anew_on_another_connection)
{
    struct store_session *session = &conn_of(ROLE_READS)->session;

    advance("reads advance_feed 251/1000: 0 0 0", "30 33 11;");
    session->backend.start_us++;
    ASSERT_NUMBER(store_feed_until(shop), ==, 0);
    list("reads feed_events 251/1000: 3 4 0 20", "");
    advance("reads advance_feed 251/1000: 0 0 0", "0 20 12;");
    session->backend.pid++;
    advance("reads advance_feed 251/1000: 0 0 0", NULL);
    ASSERT_SAID("ok;ok;ok;io;");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
