/* test_stream.c - what listeners to a voucher receive, with a fake catalogue and clock. */
#include "app/api/api_routes.h"
#include "app/test/simulated_time.h"
#include "test/case_list.h"

#include <stdio.h>

#define SECOND_US INT64_C(1000000)

/* -- fakes -- */

static struct {
    struct catalogue_entry entry;
    bool is_fresh; /* the catalogue has a valid entry */
    enum status status;
    bool keeps; /* http_stream() accepts listeners */
    char answer[HTTP_EVENT_BYTES];
    enum status failure;
} fake;

const struct catalogue_entry *catalogue_get(struct catalogue *catalogue UNUSED,
                                            int64_t id)
{
    assert_int_equal(id, fake.entry.id);
    return fake.is_fresh ? &fake.entry : NULL;
}

void catalogue_read(struct catalogue *catalogue UNUSED, int64_t id UNUSED,
                    struct catalogue_wait *wait UNUSED, catalogue_cb callback, void *arg)
{
    fake.is_fresh = fake.status == STATUS_OK;
    callback(fake.status, fake.is_fresh ? &fake.entry : NULL, arg);
}

int64_t catalogue_now_us(const struct catalogue *catalogue UNUSED, int64_t *ret_error_us)
{
    *ret_error_us = 0;
    return clock_real_us();
}

bool http_stream(struct http_request *request UNUSED, int64_t id)
{
    assert_int_equal(id, fake.entry.id);
    return fake.keeps;
}

void http_answer(struct http_request *request UNUSED, const struct http_reply *reply)
{
    assert_int_equal(reply->status, 200);
    assert_string_equal(reply->content_type, "text/event-stream");
    assert_int_equal(reply->body_len, strlen(reply->body));
    memcpy(fake.answer, reply->body, reply->body_len + 1);
}

void api_answer_failure(struct api_request *request UNUSED, enum status status,
                        bool was_write)
{
    assert_false(was_write);
    fake.failure = status;
}

/* -- events -- */

static struct api api;

static void turn(void)
{
}

static void pass_us(int64_t us)
{
    simulated_time_pass_us(us, turn);
}

static int reset(void **state UNUSED)
{
    simulated_time_reset();
    pass_us(1000 * SECOND_US - 1);
    memset(&fake, 0, sizeof(fake));
    fake.entry = (struct catalogue_entry){.id = 7,
                                          .begin_us = clock_real_us() - SECOND_US,
                                          .end_us = clock_real_us() + 100 * SECOND_US,
                                          .stock_left = 5,
                                          .exists = true};
    fake.is_fresh = true;
    return 0;
}

#define CASE(name) DEFINE_CASE(name, name, reset, NULL, NULL)

/* "": none. */
static const char *next(struct http_listener *listener)
{
    static char event[HTTP_EVENT_BYTES];
    size_t len = api_print_event(listener, event, &api);

    assert_true(len < sizeof(event));
    event[len] = '\0';
    return event;
}

static void assert_next(struct http_listener *listener, const char *wanted)
{
    const char *event = next(listener);

    if (strstr(event, wanted) == NULL || (wanted[0] == '\0' && event[0] != '\0'))
        fail_msg("expected \"%s\": %s", wanted, event);
}

CASE(test_event__says_stock_state_and_time)
{
    struct http_listener listener = {.id = 7};

    fake.entry.stock_left = 100000000;
    assert_string_equal(next(&listener),
                        "retry: 2000\ndata: {\"stock_left\":100000000,\"state\":\"open\","
                        "\"server_time\":\"2023-11-14T22:30:00Z\"}\n\n");
}

CASE(test_event__comes_when_the_stock_or_the_state_changes)
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
    assert_next(&listener, "\"state\":\"upcoming\"");
    pass_us(SECOND_US);
    assert_next(&listener, "\"state\":\"ended\"");
}

CASE(test_event__comes_at_most_four_times_a_second)
{
    struct http_listener listener = {.id = 7};
    int64_t last;
    int events = 0;

    fake.entry.stock_left = 1000000;
    for (int ms = 0; ms < 60000; ms++) {
        fake.entry.stock_left--;
        events += next(&listener)[0] != '\0';
        pass_us(1000);
    }
    assert_int_equal(events, 4 * 60);
    last = listener.content;
    pass_us(SECOND_US / 4);
    assert_next(&listener, "data");
    assert_int_not_equal(listener.content, last);
}

CASE(test_event__comes_every_fifteen_seconds_without_a_change)
{
    struct http_listener listener = {.id = 7};

    assert_next(&listener, "data");
    for (int i = 0; i < 3; i++) {
        pass_us(15 * SECOND_US - 1);
        assert_next(&listener, "");
        pass_us(1);
        assert_next(&listener, i < 2 ? "data" : ":\n\n");
        fake.is_fresh = i == 0; /* later the entry is old: Postgres does not answer */
    }
}

/* -- the route -- */

static void ask(void)
{
    struct api_request request = {.api = &api, .id = 7};

    fake.failure = STATUS_OK;
    fake.answer[0] = '\0';
    api_stream_voucher(&request);
}

CASE(test_stream__without_room_has_one_event)
{
    fake.keeps = true;
    ask();
    assert_string_equal(fake.answer, "");
    fake.keeps = false;
    ask();
    assert_non_null(strstr(fake.answer, "retry: 2000\ndata: {\"stock_left\":5,"));
}

CASE(test_stream__without_postgres_fails)
{
    fake.status = STATUS_IO;
    ask();
    assert_int_equal(fake.failure, STATUS_IO);
}

CASE(test_stream__of_no_voucher_is_not_found)
{
    fake.keeps = true;
    fake.entry.exists = false;
    ask();
    assert_int_equal(fake.failure, STATUS_NOT_FOUND);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
