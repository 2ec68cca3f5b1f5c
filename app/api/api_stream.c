/* api_stream.c - the stock of vouchers, and the end of draws, as server-sent events, from the
   catalogue. */
#include "app/api/api_routes.h"
#include "app/core/rfc3339.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_US    INT64_C(250000)
#define HEARTBEAT_US INT64_C(15000000)

/* -- events -- */

struct event_text {
    char *text; /* HTTP_EVENT_BYTES */
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void print(struct event_text *event,
                                                        const char *format, ...)
{
    va_list values;

    va_start(values, format);
    event->len += (size_t)vsnprintf(event->text + event->len,
                                    HTTP_EVENT_BYTES - event->len, format, values);
    va_end(values);
}

static void print_item(struct event_text *event, const struct http_listener *listener,
                       const struct catalogue_entry *entry, int state)
{
    static const char *const states[] = {"upcoming", "open", "ended"};

    if (event->len == 0)
        print(event, "retry: 2000\ndata: %s", listener->is_list ? "{\"items\":[" : "");
    else
        print(event, ",");
    print(event, "{");
    if (listener->is_list)
        print(event, "\"id\":\"%" PRId64 "\",", entry->id);
    print(event, "\"stock_left\":%" PRId64 ",\"state\":\"%s\"%s%s", entry->stock_left,
          states[state], entry->is_drawn ? ",\"drawn\":true" : "",
          listener->is_list ? "}" : "");
}

/* Prints the stock of the vouchers that have changed, or of all vouchers if `is_due` is true. */
static void print_items(struct event_text *event, const struct http_listener *listener,
                        struct catalogue *catalogue, int64_t now_us, bool is_due)
{
    for (size_t i = 0; i < listener->count; i++) {
        struct http_followed *followed = &listener->followed[i];
        const struct catalogue_entry *entry = catalogue_get(catalogue, followed->id);
        int64_t content;
        int state;

        if (entry == NULL || !entry->exists)
            continue;
        state = now_us < entry->begin_us ? 0 : 1 + (now_us >= entry->end_us);
        content = entry->stock_left * 8 + (entry->is_drawn ? 4 : 0) + state + 1;
        if (content != followed->content || is_due)
            print_item(event, listener, entry, state);
        followed->content = content;
    }
}

/* Prints the stock of the vouchers that have changed. After a long time without a change, prints
   the stock of all vouchers again, so that the connection stays open. If the catalogue has no valid
   entry then, prints a comment instead. Returns the length of the event; 0: no event is due. */
size_t api_print_event(struct http_listener *listener, char ret_event[HTTP_EVENT_BYTES],
                       void *arg)
{
    struct catalogue *catalogue = ((const struct api *)arg)->options.catalogue;
    int64_t error_us, now_us = catalogue_now_us(catalogue, &error_us);
    int64_t elapsed_us = clock_mono_us() - listener->sent_us;
    bool is_due = elapsed_us >= HEARTBEAT_US;
    struct event_text event = {.text = ret_event};
    char time[RFC3339_BYTES];

    if (elapsed_us < PERIOD_US)
        return 0;
    print_items(&event, listener, catalogue, now_us, is_due);
    if (event.len == 0 && !is_due)
        return 0;
    listener->sent_us += elapsed_us;
    rfc3339_print(now_us, time);
    if (event.len == 0)
        print(&event, ":\n\n");
    else
        print(&event, "%s,\"server_time\":\"%s\"}\n\n", listener->is_list ? "]" : "",
              time);
    return event.len;
}

/* -- the routes -- */

/* If http_stream() cannot keep the connection, the client gets one event and connects again. */
static void start_stream(struct api_request *request, struct http_listener *listener)
{
    struct http_reply reply = {.status = 200, .content_type = "text/event-stream"};
    char event[HTTP_EVENT_BYTES];

    if (http_stream(request->http, listener))
        return;
    reply.body = event;
    reply.body_len = api_print_event(listener, event, request->api);
    http_reply_add(&reply, "Cache-Control", "no-store");
    http_answer(request->http, &reply);
}

static void follow_on_entry(enum rlock_status status, const struct catalogue_entry *entry,
                            void *arg)
{
    struct api_request *request = arg;
    struct api_follow *follow = request->follow;

    if (status == RLOCK_OK && !entry->exists)
        status = RLOCK_NOT_FOUND;
    if (follow->status == RLOCK_OK)
        follow->status = status;
    if (--follow->pending > 0)
        return;
    if (follow->status == RLOCK_OK)
        start_stream(request, &follow->listener);
    else
        api_answer_failure(request, follow->status, false);
    free(follow);
}

static void follow_start(struct api_request *request, const int64_t *ids, size_t count,
                         bool is_list)
{
    struct api_follow *follow = calloc(1, sizeof(*follow));

    request->follow = follow;
    if (follow == NULL) {
        api_answer_problem(request, PROBLEM_OVERLOADED);
        return;
    }
    follow->listener = (struct http_listener){
        .is_list = is_list, .count = count, .followed = follow->followed};
    follow->pending = count;
    for (size_t i = 0; i < count; i++) {
        follow->followed[i].id = ids[i];
        catalogue_read(request->api->options.catalogue, ids[i], &follow->waits[i],
                       follow_on_entry, request);
    }
}

void api_stream_voucher(struct api_request *request)
{
    follow_start(request, &request->id, 1, false);
}

/* Returns the number of ids in the text, which are separated by commas. 0: the text has anything
   else, or too many ids. */
static size_t parse_ids(struct text text, int64_t ret_ids[HTTP_FOLLOWED_MAX])
{
    size_t count = 0;

    while (count < HTTP_FOLLOWED_MAX) {
        const char *comma = memchr(text.bytes, ',', text.len);
        size_t len = comma != NULL ? (size_t)(comma - text.bytes) : text.len;

        if (!text_parse_id((struct text){text.bytes, len}, &ret_ids[count++]))
            return 0;
        if (comma == NULL)
            return count;
        text = (struct text){comma + 1, text.len - len - 1};
    }
    return 0;
}

void api_stream_vouchers(struct api_request *request)
{
    bool is_repeated;
    struct text text = http_query(request->http, "vouchers", &is_repeated);
    int64_t ids[HTTP_FOLLOWED_MAX];
    size_t count = text.bytes == NULL || is_repeated ? 0 : parse_ids(text, ids);

    if (count == 0) {
        api_answer_bad_request(request,
                               "vouchers must be 1 to 20 ids, separated by commas.");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (store_is_foreign(request->api->options.store, ids[i])) {
            api_answer_problem(request, PROBLEM_MISDIRECTED);
            return;
        }
    }
    follow_start(request, ids, count, true);
}
