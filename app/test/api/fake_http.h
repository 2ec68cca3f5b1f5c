/*
 * fake_http.h - the state of the fake backends of api_fixture.h, and the fake HTTP server.
 *
 * An answer is printed as text: the status, the headers, and the body. If the body is a problem
 * (RFC 9457), only its code and the members that vary are printed.
 */
#ifndef FAKE_HTTP_H
#define FAKE_HTTP_H

#include "app/api/api_routes.h"
#include "app/ops/health.h"
#include "app/test/append.h"
#include "test/asserts.h"

#include <inttypes.h>
#include <stdlib.h>

#define TEXT_BYTES 32768

/* -- the behaviour and the records of the fakes -- */

static struct {
    enum rlock_status status; /* of answers from the store, the catalogue and Redis */
    /* if not OK: replaces `status` for changes of orders, for lists of events, and for the pages
       of orders after the first */
    enum rlock_status second;
    bool has_no_pages; /* there is no memory for pages */
    bool shows_debug;
    bool is_redis_down, is_revoked, is_cluster;
    bool has_entry;
    struct catalogue_entry entry;
    struct catalogue_entry other; /* of another voucher; id 0: there is none */
    struct order order;
    struct voucher voucher;
    size_t count;    /* number of rows; they differ only in their ids */
    int64_t next_id; /* next_id of the first page of orders; 0: there is no next page */
    bool has_many_events;
    size_t entry_state; /* of store_read_entry(): 0 entered, 1 won, 2 lost */
    enum change_verdict verdict;
    enum verdict found; /* the result of a look-up by key */
    enum outcome outcome;
    bool is_checkout_full;
    int64_t age_s, rate_wait_us;
    size_t pending;
    bool is_foreign, is_gone;
    bool is_split; /* store_is_foreign() is true from its second call on */
    struct health health;
    const void *auth;      /* of the last call of auth_check() */
    size_t followed_count; /* by the last stream */
    bool is_list;
    bool keeps_streams, is_kept; /* is_kept: the last request was kept as a stream */
    bool has_secret;             /* an endpoint has just been added */
    bool has_no_random;
    bool holds_reads; /* reads wait until the test answers them */
    store_vouchers_cb held[4];
    void *held_args[4];
    size_t held_count;
} fake;

static char did[TEXT_BYTES]; /* the calls of the fakes; each ends with ";" */
static char answer[TEXT_BYTES];
static unsigned answers, status_of_answer;

#define DID(...) append(did, sizeof(did), __VA_ARGS__)

/* -- fake requests -- */

struct sent {
    const char *query, *headers; /* lines "NAME: VALUE" */
};

static struct sent sent;

static inline struct text nth_value(const char *from, const char *name, const char *marks,
                                    bool *ret_repeated)
{
    struct text found = {0};
    size_t len = strlen(name);

    if (ret_repeated != NULL)
        *ret_repeated = false;
    for (const char *at = from; at != NULL && *at != '\0';) {
        size_t line = strcspn(at, marks + 2);

        if (strncasecmp(at, name, len) == 0 && at[len] == marks[0]) {
            size_t skip = len + (marks[1] == ' ' ? 2 : 1);

            if (found.bytes == NULL)
                found = (struct text){at + skip, line - skip};
            else if (ret_repeated != NULL)
                *ret_repeated = true;
        }
        at += line + (at[line] != '\0');
    }
    return found;
}

struct text http_header(const struct http_request *request UNUSED, const char *name,
                        bool *ret_repeated)
{
    return nth_value(sent.headers, name, ": \n", ret_repeated);
}

struct text http_query(const struct http_request *request UNUSED, const char *name,
                       bool *ret_repeated)
{
    return nth_value(sent.query, name, "==&", ret_repeated);
}

struct text http_query_other(const struct http_request *request UNUSED,
                             const char *const *names)
{
    for (const char *at = sent.query; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, "&");
        struct text name = {at, strcspn(at, "=&")};
        size_t i = 0;

        while (names[i] != NULL && !text_is(name, names[i]))
            i++;
        if (names[i] == NULL)
            return name;
        at += len + (at[len] != '\0');
    }
    return (struct text){0};
}

void http_client_address(const struct http_request *request UNUSED,
                         uint8_t ret_address[16])
{
    memset(ret_address, 7, 16);
}

const char *http_trace(struct http_request *request UNUSED)
{
    return "request_id=r";
}

const char *http_trace_sent(struct http_request *request UNUSED)
{
    return "sent_id=r";
}

bool http_is_gone(const struct http_request *request UNUSED)
{
    return fake.is_gone;
}

bool http_stream(struct http_request *request UNUSED,
                 const struct http_listener *listener)
{
    fake.followed_count = listener->count;
    fake.is_list = listener->is_list;
    for (size_t i = 0; i < listener->count; i++)
        assert_true(listener->followed[i].id == fake.entry.id ||
                    listener->followed[i].id == fake.other.id);
    fake.is_kept = fake.keeps_streams;
    return fake.is_kept;
}

struct http_counts http_counts(const struct http *http UNUSED)
{
    return (struct http_counts){.pending = fake.pending};
}

/* -- answers as text -- */

static struct api *api;

struct http_page {
    unsigned status;
    char text[TEXT_BYTES];
};

/* Appends the code of a problem, and the members that vary between problems with this code. */
static inline void print_problem(char *text, const char *body)
{
    json_t *root = json_loads(body, 0, NULL);
    const json_t *errors = json_object_get(root, "errors");

    assert_non_null(root);
    append(text, TEXT_BYTES, " %s", json_string_value(json_object_get(root, "code")));
    if (json_object_get(root, "order_id") != NULL)
        append(text, TEXT_BYTES, " %s",
               json_string_value(json_object_get(root, "order_id")));
    if (strstr(text, " bad_request") != NULL)
        append(text, TEXT_BYTES, ": %s",
               json_string_value(json_object_get(root, "detail")));
    for (size_t i = 0; i < json_array_size(errors); i++) {
        const json_t *row = json_array_get(errors, i);

        append(text, TEXT_BYTES, ": %s %s",
               json_string_value(json_object_get(row, "field")),
               json_string_value(json_object_get(row, "message")));
    }
    json_decref(root);
}

static inline void print_reply(char *text, const struct http_reply *reply)
{
    const char *type = reply->content_type;

    append(text, TEXT_BYTES, "%u", reply->status);
    if (type != NULL && strcmp(type, "application/json") != 0 &&
        strcmp(type, "application/problem+json") != 0)
        append(text, TEXT_BYTES, " %s", type);
    for (size_t i = 0; i < reply->header_count; i++)
        append(text, TEXT_BYTES, " %s: %s", reply->headers[i].name,
               reply->headers[i].value);
    if (reply->body == NULL || type == NULL || strstr(text, "ETag: \"") != NULL)
        return; /* the body is a file, which is not printed */
    ASSERT_NUMBER(reply->body_len, ==, strlen(reply->body));
    if (strcmp(type, "application/problem+json") == 0)
        print_problem(text, reply->body);
    else
        append(text, TEXT_BYTES, " %s", reply->body);
}

static inline void take_answer(struct http_request *request, unsigned status)
{
    answers++;
    status_of_answer = status;
    api_answered(request, status, api);
}

void http_answer(struct http_request *request, const struct http_reply *reply)
{
    print_reply(answer, reply);
    take_answer(request, reply->status);
}

/* Asks for each part at once. In the text "|" separates the parts. */
static void (*next_part)(struct http_request *request);

void http_answer_parts(struct http_request *request, const struct http_reply *reply,
                       void (*next)(struct http_request *request))
{
    print_reply(answer, reply);
    take_answer(request, reply->status);
    append(answer, sizeof(answer), "|");
    next_part = next;
    next(request);
}

void http_send_part(struct http_request *request, char *part, size_t len, bool is_last)
{
    append(answer, sizeof(answer), "%.*s%s", (int)len, part != NULL ? part : "",
           part == NULL ? "cut"
           : is_last    ? ""
                        : "|");
    free(part);
    if (part != NULL && !is_last)
        next_part(request);
}

struct http_page *http_page_create(const struct http_reply *reply)
{
    struct http_page *page = fake.has_no_pages ? NULL : calloc(1, sizeof(*page));

    if (page == NULL)
        return NULL;
    page->status = reply->status;
    print_reply(page->text, reply);
    return page;
}

void http_page_free(struct http_page *page)
{
    free(page);
}

void http_answer_page(struct http_request *request, struct http_page *page)
{
    append(answer, TEXT_BYTES, "%s", page->text);
    take_answer(request, page->status);
}

#endif
