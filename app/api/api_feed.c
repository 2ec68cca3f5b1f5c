/* api_feed.c - the feed of all vouchers. */
#include "app/api/api_routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WAIT_S_MAX 30
#define NUMBER_MAX INT64_C(8796093022207) /* the greatest number of an event */

static bool parse_number(struct text text, int64_t *ret_number)
{
    *ret_number = 0;
    return text_is(text, "0") ||
           (text_parse_id(text, ret_number) && *ret_number <= NUMBER_MAX);
}

bool api_parse_position(struct text cursor, struct feed_position *ret_position)
{
    const char *mark = memchr(cursor.bytes, '_', cursor.len);
    struct text first = {cursor.bytes, mark != NULL ? (size_t)(mark - cursor.bytes) : 0};
    struct text number = {cursor.bytes + first.len + 1, cursor.len - first.len - 1};

    return mark != NULL && parse_number(first, &ret_position->first) &&
           parse_number(number, &ret_position->number) &&
           ret_position->number >= ret_position->first;
}

static bool read_cursor(struct api_request *request, struct feed_position *ret_position)
{
    bool is_repeated;
    struct text cursor = http_query(request->http, "after", &is_repeated);

    if (cursor.bytes == NULL ||
        (!is_repeated && api_parse_position(cursor, ret_position)))
        return true;
    api_answer_bad_request(request, "after must be a next_cursor of this list.");
    return false;
}

static bool read_wait(struct api_request *request, int64_t *ret_wait_s)
{
    bool is_repeated;
    struct text wait = http_query(request->http, "wait_s", &is_repeated);

    if (wait.bytes == NULL)
        return true;
    if (is_repeated || !parse_number(wait, ret_wait_s)) {
        api_answer_bad_request(request, "wait_s must be one integer, 0 or greater.");
        return false;
    }
    if (*ret_wait_s > WAIT_S_MAX)
        api_answer_invalid_field(request, "wait_s", "must be 0 to 30");
    return *ret_wait_s <= WAIT_S_MAX;
}

static bool feed_is_gone(const struct feed_poll *poll)
{
    return http_is_gone(list_item(poll, struct api_request, feed)->http);
}

static void feed_on_done(struct feed_poll *poll, enum rlock_status status,
                         const struct event *events, size_t count)
{
    struct api_request *request = list_item(poll, struct api_request, feed);
    struct feed_position next = poll->after;
    char cursor[48];

    if (status != RLOCK_OK) {
        api_answer_failure(request, status, false);
        return;
    }
    if (count > 0)
        next = (struct feed_position){events[count - 1].first,
                                      events[count - 1].id >> EVENT_VOUCHER_BITS};
    snprintf(cursor, sizeof(cursor), "%" PRId64 "_%" PRId64, next.first, next.number);
    api_answer_json(request, 200, json_print_feed(events, count, cursor), NULL);
}

void api_read_feed(struct api_request *request)
{
    struct feed_poll *poll = &request->feed;
    int64_t wait_s = 0;

    if (!read_cursor(request, &poll->after) || !api_read_limit(request, &poll->limit) ||
        !read_wait(request, &wait_s))
        return;
    poll->end_us = request->arrived_us + wait_s * 1000000;
    poll->is_gone = feed_is_gone;
    poll->done = feed_on_done;
    if (!feed_read(request->api->options.feed, poll))
        api_answer_problem(request, PROBLEM_OVERLOADED);
}
