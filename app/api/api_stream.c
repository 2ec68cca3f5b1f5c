/* api_stream.c - the stock of a voucher as server-sent events, from the catalogue. */
#include "app/api/api_routes.h"
#include "app/core/rfc3339.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define PERIOD_US    INT64_C(250000)
#define HEARTBEAT_US INT64_C(15000000)

/* Prints the stock of the voucher if it has changed. After a long time without a change prints it
   again, so that the connection stays open; without a valid entry prints a comment then. Returns
   the length of the event; 0: no event is due. */
size_t api_print_event(struct http_listener *listener, char ret_event[HTTP_EVENT_BYTES],
                       void *arg)
{
    static const char *const states[] = {"upcoming", "open", "ended"};
    struct catalogue *catalogue = ((const struct api *)arg)->options.catalogue;
    const struct catalogue_entry *entry = catalogue_get(catalogue, listener->id);
    int64_t error_us, now_us = catalogue_now_us(catalogue, &error_us);
    int64_t elapsed_us = clock_mono_us() - listener->sent_us;
    int64_t content = listener->content;
    char time[RFC3339_BYTES];
    int state = 0;

    if (entry != NULL && entry->exists) {
        state = now_us < entry->begin_us ? 0 : 1 + (now_us >= entry->end_us);
        content = entry->stock_left * 4 + state + 1;
    }
    if (elapsed_us < PERIOD_US ||
        (content == listener->content && elapsed_us < HEARTBEAT_US))
        return 0;
    listener->content = content;
    listener->sent_us += elapsed_us;
    if (entry == NULL || !entry->exists)
        return (size_t)sprintf(ret_event, ":\n\n");
    rfc3339_print(now_us, time);
    return (size_t)snprintf(ret_event, HTTP_EVENT_BYTES,
                            "retry: 2000\ndata: {\"stock_left\":%" PRId64
                            ",\"state\":\"%s\",\"server_time\":\"%s\"}\n\n",
                            entry->stock_left, states[state], time);
}

/* If http_stream() cannot keep the connection, the client gets one event and connects again. */
static void stream_on_entry(enum rlock_status status, const struct catalogue_entry *entry,
                            void *arg)
{
    struct api_request *request = arg;
    struct http_listener listener = {.id = request->id};
    struct http_reply reply = {.status = 200, .content_type = "text/event-stream"};
    char event[HTTP_EVENT_BYTES];

    if (status == RLOCK_OK && !entry->exists)
        status = RLOCK_NOT_FOUND;
    if (status != RLOCK_OK) {
        api_answer_failure(request, status, false);
    } else if (!http_stream(request->http, request->id)) {
        reply.body = event;
        reply.body_len = api_print_event(&listener, event, request->api);
        http_reply_add(&reply, "Cache-Control", "no-store");
        http_answer(request->http, &reply);
    }
}

void api_stream_voucher(struct api_request *request)
{
    catalogue_read(request->api->options.catalogue, request->id, &request->place.wait,
                   stream_on_entry, request);
}
