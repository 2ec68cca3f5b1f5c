/* test_stream.c - what listeners to vouchers receive, with fake backends. */
#include "app/test/api/api_fixture.h"
#include "test/torture.h"

#define SECOND_US INT64_C(1000000)

/* -- events -- */

static void turn(void)
{
}

static void pass_us(int64_t us)
{
    simulated_time_pass_us(us, turn);
}

/* Returns the next event; "": there is none. */
static const char *next(struct http_listener *listener)
{
    static char event[HTTP_EVENT_BYTES];
    size_t len = api_print_event(listener, event, api);

    assert_true(len < sizeof(event));
    event[len] = '\0';
    return event;
}

static void assert_next(struct http_listener *listener, const char *wanted)
{
    const char *event;

    asserts_about(
        "the next event of a voucher %s the catalogue, expected '%s' ('': none)",
        fake.has_entry ? "in" : "not in", wanted);
    event = next(listener);

    if (strstr(event, wanted) == NULL || (wanted[0] == '\0' && event[0] != '\0'))
        fail_msg("expected \"%s\", got \"%s\"", wanted, event);
}

API_CASE(test_event__says_stock_state_and_time)
{
    struct http_followed followed = {.id = 7};
    struct http_listener listener = {.count = 1, .followed = &followed};

    fake.entry.stock_left = 100000000;
    assert_string_equal(next(&listener),
                        "retry: 2000\ndata: {\"stock_left\":100000000,\"state\":\"open\","
                        "\"server_time\":\"2023-11-14T22:13:25Z\"}\n\n");
}

API_CASE(test_event__comes_when_the_stock_or_the_state_changes)
{
    struct http_followed followed = {.id = 7};
    struct http_listener listener = {.count = 1, .followed = &followed};

    assert_next(&listener, "\"stock_left\":5,");
    pass_us(SECOND_US);
    assert_next(&listener, "");
    fake.entry.stock_left = 0;
    assert_next(&listener, "\"stock_left\":0,");
    pass_us(SECOND_US);
    fake.entry.end_us = clock_real_us();
    assert_next(&listener, "\"state\":\"ended\"");
    pass_us(SECOND_US);
    fake.entry.begin_us = clock_real_us() + SECOND_US;
    fake.entry.stock_left = 2; /* the stock and the state change at once */
    assert_next(&listener, "\"state\":\"upcoming\"");
    pass_us(SECOND_US);
    assert_next(&listener, "\"state\":\"ended\"");
}

API_CASE(test_event__says_when_a_lottery_is_drawn)
{
    struct http_followed followed = {.id = 7};
    struct http_listener listener = {.count = 1, .followed = &followed};

    assert_next(&listener, "\"state\":\"open\",\"server_time\"");
    pass_us(SECOND_US);
    fake.entry.is_drawn = true;
    assert_next(&listener, "\"state\":\"open\",\"drawn\":true,\"server_time\"");
    pass_us(SECOND_US);
    assert_next(&listener, "");
}

API_CASE(test_event__comes_at_most_four_times_a_second)
{
    struct http_followed followed = {.id = 7};
    struct http_listener listener = {.count = 1, .followed = &followed};

    for (int i = 0; i < 4; i++) {
        assert_next(&listener, "data");
        fake.entry.stock_left--;
        pass_us(SECOND_US / 4 - 1);
        assert_next(&listener, "");
        pass_us(1);
    }
}

API_CASE(test_event__comes_every_fifteen_seconds_without_a_change)
{
    struct http_followed followed = {.id = 7};
    struct http_listener listener = {.count = 1, .followed = &followed};

    assert_next(&listener, "data");
    for (int i = 0; i < 3; i++) {
        pass_us(15 * SECOND_US - 1);
        assert_next(&listener, "");
        pass_us(1);
        assert_next(&listener, i < 2 ? "data" : ":\n\n");
        /* From then on the entry is old, as if Postgres did not answer. */
        fake.has_entry = i == 0;
    }
    fake.has_entry = true;
    fake.entry = (struct catalogue_entry){.id = 7}; /* as if the voucher did not exist */
    pass_us(SECOND_US / 4);
    assert_next(&listener, "");
    pass_us(15 * SECOND_US);
    assert_next(&listener, ":\n\n");
}

/* An event of a stream of two vouchers names the vouchers that have changed. */
API_CASE(test_event__of_several_says_which_have_changed)
{
    struct http_followed followed[] = {{.id = 7}, {.id = 8}};
    struct http_listener listener = {.is_list = true, .count = 2, .followed = followed};

    fake.other = fake.entry;
    fake.other.id = 8;
    fake.other.stock_left = 0;
    assert_string_equal(next(&listener),
                        "retry: 2000\ndata: {\"items\":["
                        "{\"id\":\"7\",\"stock_left\":5,\"state\":\"open\"},"
                        "{\"id\":\"8\",\"stock_left\":0,\"state\":\"open\"}],"
                        "\"server_time\":\"2023-11-14T22:13:25Z\"}\n\n");
    pass_us(SECOND_US);
    assert_next(&listener, "");
    fake.other.stock_left = 1;
    assert_next(&listener,
                "{\"items\":[{\"id\":\"8\",\"stock_left\":1,\"state\":\"open\"}],");
    fake.other.stock_left = 0;
    pass_us(SECOND_US / 4 - 1);
    assert_next(&listener, "");
    pass_us(1);
    fake.other.exists = false; /* the first voucher is still in the events */
    fake.entry.stock_left = 4;
    assert_next(&listener,
                "{\"items\":[{\"id\":\"7\",\"stock_left\":4,\"state\":\"open\"}],");
    fake.other.exists = true;
    pass_us(15 * SECOND_US);
    assert_next(&listener,
                "{\"id\":\"7\",\"stock_left\":4,\"state\":\"open\"},{\"id\":\"8\"");
    fake.has_entry = false;
    pass_us(15 * SECOND_US);
    assert_next(&listener, ":\n\n");
}

API_CASE(test_event__of_the_most_vouchers_is_complete)
{
    struct http_followed followed[HTTP_FOLLOWED_MAX];
    struct http_listener listener = {
        .is_list = true, .count = HTTP_FOLLOWED_MAX, .followed = followed};
    const char *event;

    fake.entry.id = INT64_MAX;
    fake.entry.stock_left = 100000000;
    fake.entry.begin_us =
        clock_real_us() + SECOND_US; /* "upcoming" is the longest state */
    for (size_t i = 0; i < HTTP_FOLLOWED_MAX; i++)
        followed[i] = (struct http_followed){.id = INT64_MAX};
    event = next(&listener);
    assert_string_equal(event + strlen(event) - 4, "\"}\n\n");
}

/* -- the routes -- */

#define STREAM "GET /v1/vouchers/7/stream"

API_CASE(test_stream__has_one_event_if_it_cannot_be_kept)
{
    fake.keeps_streams = true;
    ASSERT_TEXT(ask(STREAM, NULL, NULL, NULL), "");
    ASSERT_TEXT(did, "catalogue 7;");
    fake.keeps_streams = false;
    ASSERT_TEXT(ask(STREAM, NULL, NULL, NULL),
                "200 text/event-stream Cache-Control: no-store retry: 2000\n"
                "data: {\"stock_left\":5,\"state\":\"open\","
                "\"server_time\":\"2023-11-14T22:13:25Z\"}\n\n");
}

API_CASE(test_stream__needs_postgres_and_a_voucher)
{
    fake.keeps_streams = true;
    fake.status = RLOCK_IO;
    ASSERT_TEXT(ask(STREAM, NULL, NULL, NULL), "503" RETRY " unavailable");
    fake.status = RLOCK_OK;
    fake.entry.exists = false;
    ASSERT_TEXT(ask(STREAM, NULL, NULL, NULL), "404 not_found");
}

API_CASE(test_stream__is_refused_without_memory)
{
    fake.keeps_streams = true;
    torture_fail(2, 0); /* the first allocation is one of the fixture */
    ASSERT_TEXT(ask(STREAM, NULL, NULL, NULL), "503 Retry-After: 1 overloaded");
    assert_true(torture_stop());
    ASSERT_TEXT(did, "");
}

#define SEVERAL "GET /v1/stream?vouchers="
#define TEN     "7,7,7,7,7,7,7,7,7,7,"

API_CASE(test_stream__of_several_reads_each_of_them)
{
    fake.keeps_streams = true;
    fake.other = fake.entry;
    fake.other.id = 8;
    ASSERT_TEXT(ask(SEVERAL "7,8", NULL, NULL, NULL), "");
    ASSERT_TEXT(did, "catalogue 7;catalogue 8;");
    ASSERT_NUMBER(fake.followed_count, ==, 2);
    ASSERT_NUMBER(fake.is_list, ==, true);
    fake.keeps_streams = false;
    ASSERT_TEXT(ask(SEVERAL "7", NULL, NULL, NULL),
                "200 text/event-stream Cache-Control: no-store retry: 2000\n"
                "data: {\"items\":[{\"id\":\"7\",\"stock_left\":5,\"state\":\"open\"}],"
                "\"server_time\":\"2023-11-14T22:13:25Z\"}\n\n");
}

API_CASE(test_stream__of_several_fails_if_one_does)
{
    fake.keeps_streams = true;
    fake.other.id = 8; /* does not exist */
    ASSERT_TEXT(ask(SEVERAL "8,7", NULL, NULL, NULL), "404 not_found");
    fake.status = RLOCK_IO;
    ASSERT_TEXT(ask(SEVERAL "7,8", NULL, NULL, NULL), "503" RETRY " unavailable");
    fake.is_foreign = true;
    ASSERT_TEXT(ask(SEVERAL "7", NULL, NULL, NULL), "421 misdirected");
}

API_CASE(test_stream__of_several_is_bounded)
{
    static const char *const refused[] = {
        "GET /v1/stream",      "GET /v1/stream?vouchers=",
        SEVERAL "7,",          SEVERAL ",7",
        SEVERAL "7,,7",        SEVERAL "7,x",
        SEVERAL "0",           SEVERAL TEN TEN "7",
        SEVERAL "7&vouchers=7"};

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        asserts_about("%s", refused[i]);
        ASSERT_TEXT(
            ask(refused[i], NULL, NULL, NULL),
            "400 bad_request: vouchers must be 1 to 20 ids, separated by commas.");
    }
    fake.keeps_streams = true;
    ASSERT_TEXT(ask(SEVERAL TEN "7,7,7,7,7,7,7,7,7,7", NULL, NULL, NULL), "");
    ASSERT_NUMBER(fake.followed_count, ==, HTTP_FOLLOWED_MAX);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
