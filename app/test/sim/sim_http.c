/*
 * sim_http.c - replaces app/http/http.h and the identification of callers, for sim_shoppers.c.
 *
 * The functions here parse each answer that a handler has rendered.
 */
#include "app/api/api_routes.h"
#include "app/test/sim/sim.h"
#include "app/test/sim/sim_memory.h"
#include "app/test/sim/sim_shoppers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODE_BYTES 32

struct sender {
    void *owner;
    struct text key;
};

struct http_page {
    unsigned status;
    char code[CODE_BYTES];
};

struct http_request *sim_http_request(void *owner, struct text key)
{
    struct http_request *request = sim_alloc(sizeof(*request));
    struct sender *sender = sim_alloc(sizeof(*sender));

    *sender = (struct sender){owner, key};
    *request = (struct http_request){.method = HTTP_POST,
                                     .path = "/v1/vouchers/1/orders",
                                     .context = sender,
                                     .http = sim_shoppers_http(owner)};
    return request;
}

static void *owner_of(const struct http_request *request)
{
    return ((const struct sender *)request->context)->owner;
}

/* -- answers -- */

static void read_member(const char *body, size_t len, const char *name, char *ret_value)
{
    char text[1024];
    const char *at;
    size_t value_len;

    ret_value[0] = '\0';
    if (len >= sizeof(text))
        sim_fail("an answer has %zu bytes", len);
    memcpy(text, body, len);
    text[len] = '\0';
    at = strstr(text, name);
    if (at == NULL)
        return;
    at += strlen(name);
    at += strspn(at, "\": ");
    value_len = strcspn(at, "\"");
    if (value_len >= CODE_BYTES)
        sim_fail("a member of an answer has %zu bytes", value_len);
    memcpy(ret_value, at, value_len);
    ret_value[value_len] = '\0';
}

void http_answer(struct http_request *request, const struct http_reply *reply)
{
    char code[CODE_BYTES], id[CODE_BYTES];

    read_member(reply->body, reply->body_len, "\"code\"", code);
    read_member(reply->body, reply->body_len,
                reply->status < 300 ? "\"id\"" : "\"order_id\"", id);
    sim_shoppers_on_answer(owner_of(request), reply->status, code, strtoll(id, NULL, 10));
}

struct http_page *http_page_create(const struct http_reply *reply)
{
    static struct http_page pages[128];
    static size_t count;

    if (count == sizeof(pages) / sizeof(pages[0]))
        sim_fail("too many pages");
    pages[count].status = reply->status;
    read_member(reply->body, reply->body_len, "\"code\"", pages[count].code);
    return &pages[count++];
}

void http_page_free(struct http_page *page UNUSED)
{
}

void http_answer_page(struct http_request *request, struct http_page *page)
{
    sim_shoppers_on_answer(owner_of(request), page->status, page->code, 0);
}

/* -- requests -- */

struct text http_header(const struct http_request *request, const char *name,
                        bool *ret_repeated)
{
    const struct sender *sender = request->context;

    if (ret_repeated != NULL)
        *ret_repeated = false;
    return strcmp(name, "Idempotency-Key") == 0 ? sender->key : (struct text){0};
}

struct text http_query(const struct http_request *request UNUSED, const char *name UNUSED,
                       bool *ret_repeated)
{
    *ret_repeated = false;
    return (struct text){0};
}

const char *http_trace(struct http_request *request UNUSED)
{
    return "";
}

const char *http_trace_sent(struct http_request *request UNUSED)
{
    return NULL;
}

bool http_stream(struct http_request *request UNUSED,
                 const struct http_listener *listener UNUSED)
{
    return false;
}

void http_answer_parts(struct http_request *request UNUSED,
                       const struct http_reply *reply UNUSED,
                       void (*next)(struct http_request *request) UNUSED)
{
    abort();
}

void http_send_part(struct http_request *request UNUSED, char *part UNUSED,
                    size_t len UNUSED, bool is_last UNUSED)
{
    abort();
}

struct http_counts http_counts(const struct http *http)
{
    const struct sim_service *service = (const struct sim_service *)(const void *)http;

    return (struct http_counts){.pending = sim_shoppers_pending(service)};
}

/* -- callers -- */

void api_identify(struct api_request *request, api_handler *identified)
{
    bool is_identified = request->identified != NULL;

    request->identified = identified;
    if (is_identified)
        identified(request);
    else
        sim_shoppers_on_identify(owner_of(request->http));
}

bool api_has_ticket(struct api_request *request UNUSED)
{
    return true;
}
