/* test_stream.c - what the listeners to a voucher receive, with fake backends. */
#include "app/test/api/api_fixture.h"

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
    struct http_listener listener = {.id = 7};

    fake.entry.stock_left = 100000000;
    assert_string_equal(next(&listener),
                        "retry: 2000\ndata: {\"stock_left\":100000000,\"state\":\"open\","
                        "\"server_time\":\"2023-11-14T22:13:25Z\"}\n\n");
}

API_CASE(test_event__comes_when_the_stock_or_the_state_changes)
{
    struct http_listener listener = {.id = 7};

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

API_CASE(test_event__comes_at_most_four_times_a_second)
{
    struct http_listener listener = {.id = 7};

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
    struct http_listener listener = {.id = 7};

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

/* -- the route -- */

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

int main(void)
{
    return cases_run(NULL, NULL);
}
