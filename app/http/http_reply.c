/* http_reply.c - answers that are rendered for one request, and pages for many requests. */
#include "app/http/http_impl.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#define PART_BYTES 8192 /* maximum bytes that libmicrohttpd takes of a part at once */

struct http_page {
    struct MHD_Response *response;
    struct http_page *not_modified;
    char *body;
    size_t body_len;
    int64_t dated_s; /* time of the header Date */
    unsigned status;
};

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

/* A browser lets a page run only scripts of this service, and shows the page in no frame. */
static bool add_security(struct MHD_Response *response, const char *content_type)
{
    static const char html[] = "text/html";

    return add_header(response, "X-Content-Type-Options", "nosniff") &&
           (strncmp(content_type, html, sizeof(html) - 1) != 0 ||
            (add_header(response, "Content-Security-Policy",
                        "default-src 'self'; base-uri 'none'; form-action 'self'; "
                        "frame-ancestors 'none'; object-src 'none'") &&
             add_header(response, "X-Frame-Options", "DENY") &&
             add_header(response, "Referrer-Policy", "no-referrer")));
}

/* Adds the headers of the reply to `response`, and returns `response`. If memory is out, frees
   `response` and returns NULL. `response` may be NULL. */
static struct MHD_Response *with_headers(struct MHD_Response *response,
                                         const struct http_reply *reply)
{
    bool ok = response != NULL;

    if (ok && reply->content_type != NULL)
        ok = add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type) &&
             add_security(response, reply->content_type);
    for (size_t i = 0; ok && i < reply->header_count; i++)
        ok = add_header(response, reply->headers[i].name, reply->headers[i].value);
    if (ok)
        return response;
    MHD_destroy_response(response); /* accepts NULL */
    return NULL;
}

static struct MHD_Response *response_create(const struct http_reply *reply)
{
    /* The cast is safe: the parameter is not const, but libmicrohttpd only copies the body. */
    return with_headers(MHD_create_response_from_buffer(reply->body_len,
                                                        (void *)(uintptr_t)reply->body,
                                                        MHD_RESPMEM_MUST_COPY),
                        reply);
}

static bool is_last(const struct http_request *request)
{
    return request->http->is_quiesced || request->is_chunked || request->is_last;
}

/* Whether the request is a GET or HEAD with a token. Browsers and proxies must not store the
   answer. */
static bool is_private(const struct http_request *request)
{
    return (request->method == HTTP_GET || request->method == HTTP_HEAD) &&
           http_lookup(request, MHD_HTTP_HEADER_AUTHORIZATION, NULL) != NULL;
}

/* Sets Cache-Control to no-store. A page also answers requests without a token, so its own header
   may permit caches to store it. */
static bool forbid_storing(struct MHD_Response *response)
{
    static const char name[] = MHD_HTTP_HEADER_CACHE_CONTROL;
    const char *permitted = MHD_get_response_header(response, name);

    return (permitted == NULL ||
            MHD_del_response_header(response, name, permitted) == MHD_YES) &&
           add_header(response, name, "no-store");
}

static bool add_individual(const struct http_request *request,
                           struct MHD_Response *response)
{
    const struct http *http = request->http;
    char id[HTTP_REQUEST_ID_MAX + 1];

    return (!http_copy_request_id(request, id) ||
            add_header(response, "X-Request-Id", id)) &&
           (!is_private(request) || forbid_storing(response)) &&
           (http->options.tls == NULL ||
            add_header(response, "Strict-Transport-Security", "max-age=31536000")) &&
           (!is_last(request) ||
            add_header(response, MHD_HTTP_HEADER_CONNECTION, "close"));
}

void http_queue(struct http_request *request, unsigned status,
                struct MHD_Response *response)
{
    struct http *http = request->http;

    assert(!request->is_answered);
    request->is_answered = true;
    http->pending--;
    conn_set_state(&http->conns, request->conn, CONN_WRITING);
    request->is_broken =
        response == NULL ||
        MHD_queue_response(request->connection, status, response) != MHD_YES;
    if (!request->is_suspended)
        return;
    request->is_suspended = false;
    http->has_resumed = true;
    MHD_resume_connection(request->connection);
}

/* Answers with the response, and frees it. `response` is NULL if memory is out. */
static void queue_individual(struct http_request *request, unsigned status,
                             struct MHD_Response *response)
{
    bool ok = response != NULL && add_individual(request, response);

    http_queue(request, status, ok ? response : NULL);
    MHD_destroy_response(response); /* the connection holds its own reference */
}

/* Called before the headers are added, because `answered` may log a line and so generate the id for
   the header X-Request-Id. */
static void notify_answered(struct http_request *request, unsigned status)
{
    const struct http_options *options = &request->http->options;

    options->answered(request, status, options->arg);
}

void http_answer(struct http_request *request, const struct http_reply *reply)
{
    notify_answered(request, reply->status);
    queue_individual(request, reply->status, response_create(reply));
}

/* -- parts -- */

/* Called by libmicrohttpd when the client can receive more. If the part has been sent, asks for the
   next part, and suspends the connection until the next part is there. */
static ssize_t reply_on_room(void *arg, uint64_t position UNUSED, char *to, size_t room)
{
    struct http_request *request = arg;
    struct http_parts *parts = &request->parts;
    size_t len = MIN(room, parts->len - parts->sent);

    if (len > 0) {
        memcpy(to, parts->bytes + parts->sent, len);
        parts->sent += len;
        return (ssize_t)len;
    }
    if (parts->is_cut || request->http->is_quiesced)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (parts->next == NULL)
        return MHD_CONTENT_READER_END_OF_STREAM;
    request->http->pending++;
    conn_set_state(&request->http->conns, request->conn, CONN_WORKING);
    MHD_suspend_connection(request->connection);
    parts->next(request);
    return 0;
}

static void set_part(struct http_request *request, char *bytes, size_t len)
{
    free(request->parts.bytes);
    request->parts.bytes = bytes;
    request->parts.len = len;
    request->parts.sent = 0;
}

void http_answer_parts(struct http_request *request, const struct http_reply *reply,
                       void (*next)(struct http_request *request))
{
    char *first = malloc(reply->body_len);
    struct MHD_Response *response = NULL;

    notify_answered(request, reply->status);
    if (first != NULL) {
        memcpy(first, reply->body, reply->body_len);
        set_part(request, first, reply->body_len);
        response =
            with_headers(MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PART_BYTES,
                                                           reply_on_room, request, NULL),
                         reply);
    }
    request->parts.next = next;
    queue_individual(request, reply->status, response);
}

void http_send_part(struct http_request *request, char *part, size_t len, bool is_last)
{
    struct http *http = request->http;

    set_part(request, part, len);
    request->parts.is_cut = part == NULL;
    if (is_last)
        request->parts.next = NULL;
    http->pending--;
    conn_set_state(&http->conns, request->conn, CONN_WRITING);
    http->has_resumed = true;
    MHD_resume_connection(request->connection);
}

/* -- pages -- */

static const char *etag_of(const struct http_page *page)
{
    return MHD_get_response_header(page->response, MHD_HTTP_HEADER_ETAG);
}

struct http_page *http_page_create(const struct http_reply *reply)
{
    struct http_page *page = calloc(1, sizeof(*page));
    struct http_reply not_modified = *reply;
    bool ok;

    if (page == NULL)
        return NULL;
    page->status = reply->status;
    page->response = response_create(reply);
    page->body_len = reply->body_len;
    page->body = malloc(reply->body_len + 1);
    ok = page->response != NULL && page->body != NULL;
    if (ok)
        memcpy(page->body, reply->body, reply->body_len);
    if (ok && reply->status != MHD_HTTP_NOT_MODIFIED && etag_of(page) != NULL) {
        not_modified.status = MHD_HTTP_NOT_MODIFIED;
        not_modified.content_type = NULL;
        page->not_modified = http_page_create(&not_modified);
        ok = page->not_modified != NULL;
    }
    if (ok)
        return page;
    http_page_free(page);
    return NULL;
}

void http_page_free(struct http_page *page)
{
    if (page == NULL)
        return;
    http_page_free(page->not_modified);
    MHD_destroy_response(page->response);
    free(page->body);
    free(page);
}

static enum MHD_Result copy_header(void *arg, enum MHD_ValueKind kind UNUSED,
                                   const char *name, const char *value)
{
    return MHD_add_response_header(arg, name, value);
}

/* Copies a page for one answer, so that headers can be added for this answer only. */
static struct MHD_Response *page_copy(const struct http_page *page)
{
    struct http_reply body = {.body = page->body, .body_len = page->body_len};
    struct MHD_Response *response = response_create(&body);

    if (response != NULL)
        MHD_get_response_headers(page->response, copy_header, response);
    return response;
}

/* Sets the header Date of a page, once a second instead of for each answer. Answers that are not
   yet sent get the new date, too. If the change fails, libmicrohttpd adds the header itself. */
static void page_date(struct http_page *page)
{
    time_t now_s = (time_t)(clock_real_us() / 1000000);
    struct tm now;
    char date[32];

    if (page->dated_s == now_s)
        return;
    page->dated_s = now_s;
    gmtime_r(&now_s, &now);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &now);
    add_header(page->response, MHD_HTTP_HEADER_DATE, date); /* replaces the old Date */
}

void http_answer_page(struct http_request *request, struct http_page *page)
{
    const struct http *http = request->http;

    if (page->not_modified != NULL &&
        text_has(http_header(request, MHD_HTTP_HEADER_IF_NONE_MATCH, NULL),
                 etag_of(page)))
        page = page->not_modified;
    notify_answered(request, page->status);
    page_date(page);
    if (is_last(request) || http->options.tls != NULL || request->trace[0] != '\0' ||
        request->has_id || is_private(request))
        queue_individual(request, page->status, page_copy(page));
    else
        http_queue(request, page->status, page->response);
}
