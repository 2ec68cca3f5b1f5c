/*
 * http.c - libmicrohttpd on a libuv loop.
 *
 * The daemon's epoll descriptor is watched by the loop; MHD_run() does a bounded amount
 * of work and never waits. Its own threads are not used: with suspended connections they
 * can wait for ever when a multiple of 128 sockets was ready at once.
 *
 * The daemon calls on_request() several times for one request: first with the headers,
 * then with each part of a body, at last with none. A request of ours begins with the
 * first call and ends in on_completed(), which also comes for a client that left; in
 * between it is suspended as long as its handler owes the answer. A suspended connection
 * is not read, so a client that leaves is noticed when the answer is sent: the work that
 * was begun is always finished.
 *
 * Resumed connections are sent in http_turn(): libmicrohttpd would wake us through its
 * pipe as well, but by then the answers have left.
 */
#include "app/http/http_impl.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define CONNECTION_MEMORY_BYTES                                                          \
    10240 /* request line, headers and reply headers fit into it */
#define CONNECTION_COUNT_MAX 100000
#define DISCARD_BYTES_MAX                                                                \
    1048576 /* of an oversized body, before the client is cut off                        \
             */
#define RUNS_PER_TURN_MAX 4
#define IDLE_WAKE_MS      1000 /* how late an idle connection may be closed */

struct http_page {
    struct MHD_Response *response;
    char *body;
    size_t body_len;
    int64_t dated_s; /* what its Date says */
    unsigned status;
};

/* -- requests -- */

static struct http_request *request_create(struct http *http, const char *method,
                                           const char *path,
                                           struct MHD_Connection *connection)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {{MHD_HTTP_METHOD_GET, HTTP_GET},
                   {MHD_HTTP_METHOD_POST, HTTP_POST},
                   {MHD_HTTP_METHOD_HEAD, HTTP_HEAD},
                   {MHD_HTTP_METHOD_PATCH, HTTP_PATCH},
                   {MHD_HTTP_METHOD_OPTIONS, HTTP_OPTIONS}};
    struct list *link = list_shift(&http->free_requests);
    struct http_request *request =
        link != NULL ? list_item(link, struct http_request, free_link)
                     : malloc(sizeof(*request) + http->options.context_bytes);

    if (request == NULL)
        return NULL;
    list_init(&request->free_link);
    request->http = http;
    request->connection = connection;
    request->conn = conn_of(connection);
    conn_enter(&http->conns, request->conn, CONN_READING);
    request->trace[0] = '\0';
    request->path = path;
    request->body = NULL;
    request->body_len = 0;
    request->is_answered = request->is_suspended = request->is_broken = false;
    request->method = HTTP_OTHER;
    http->open++;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(method, methods[i].name) == 0) {
            request->method = methods[i].method;
            break;
        }
    }
    return request;
}

static void request_free(struct http_request *request)
{
    free(request->body);
    request->http->open--;
    list_append(&request->http->free_requests, &request->free_link);
}

/* Keeps the body up to its bound; past it only its length. False: cut the client off. */
static bool request_append(struct http_request *request, const char *data, size_t len)
{
    if (request->body_len + len <= HTTP_BODY_BYTES_MAX) {
        if (request->body == NULL)
            request->body = malloc(HTTP_BODY_BYTES_MAX);
        if (request->body == NULL)
            return false;
        memcpy(request->body + request->body_len, data, len);
    }
    request->body_len += len;
    return request->body_len <= DISCARD_BYTES_MAX;
}

static void request_handle(struct http_request *request)
{
    struct http *http = request->http;

    http->pending++;
    conn_enter(&http->conns, request->conn, CONN_WORKING);
    http->options.handle(request, http->options.arg);
    if (request->is_answered)
        return;
    MHD_suspend_connection(request->connection);
    request->is_suspended = true;
}

// NOLINTNEXTLINE(readability-function-size): libmicrohttpd's signature
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *http_version, const char *data,
                                  size_t *data_len, void **request_slot)
{
    struct http_request *request = *request_slot;

    (void)http_version;
    if (request == NULL) {
        request = request_create(arg, method, path, connection);
        *request_slot = request;
        return request != NULL ? MHD_YES : MHD_NO;
    }
    if (*data_len > 0) {
        bool ok = request_append(request, data, *data_len);

        *data_len = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (!request->is_answered && !request->is_suspended)
        request_handle(request);
    return request->is_broken ? MHD_NO : MHD_YES;
}

static void on_completed(void *arg, struct MHD_Connection *connection,
                         void **request_slot, enum MHD_RequestTerminationCode how)
{
    struct http *http = arg;
    struct http_request *request = *request_slot;

    (void)connection;
    (void)how;
    if (request == NULL)
        return;
    conn_enter(&http->conns, request->conn, CONN_IDLE);
    request_free(request);
    *request_slot = NULL;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* In place. A NUL would end the string early and make two paths look alike. */
static size_t unescape(void *arg, struct MHD_Connection *connection, char *text)
{
    char *to = text;

    (void)arg;
    (void)connection;
    for (const char *from = text; *from != '\0'; to++) {
        int high = *from == '%' ? hex_value(from[1]) : -1;
        int low = high >= 0 ? hex_value(from[2]) : -1;

        if (low >= 0 && high + low > 0) {
            *to = (char)(high * 16 + low);
            from += 3;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

enum http_method http_method(const struct http_request *request)
{
    return request->method;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

struct text http_body(const struct http_request *request)
{
    return (struct text){request->body, request->body_len};
}

bool http_body_is_too_large(const struct http_request *request)
{
    return request->body_len > HTTP_BODY_BYTES_MAX;
}

void *http_context(struct http_request *request)
{
    return request->context;
}

const struct http *http_of(const struct http_request *request)
{
    return request->http;
}

/* -- headers and query -- */

struct search {
    const char *name;
    size_t name_len;
    struct text found;
    bool any_case;
    bool is_repeated;
};

static enum MHD_Result search_one(void *arg, enum MHD_ValueKind kind, const char *name,
                                  size_t name_len, const char *value, size_t value_len)
{
    struct search *search = arg;

    (void)kind;
    if (name_len != search->name_len)
        return MHD_YES;
    if (search->any_case ? strncasecmp(name, search->name, name_len) != 0
                         : memcmp(name, search->name, name_len) != 0)
        return MHD_YES;
    if (search->found.bytes != NULL)
        search->is_repeated = true;
    else
        search->found = (struct text){value != NULL ? value : "", value_len};
    return MHD_YES;
}

static struct text find_value(const struct http_request *request, const char *name,
                              enum MHD_ValueKind kind, bool *ret_repeated)
{
    struct search search = {
        .name = name, .name_len = strlen(name), .any_case = kind == MHD_HEADER_KIND};

    MHD_get_connection_values_n(request->connection, kind, search_one, &search);
    if (ret_repeated != NULL)
        *ret_repeated = search.is_repeated;
    return search.found;
}

struct text http_header(const struct http_request *request, const char *name,
                        bool *ret_repeated)
{
    size_t len;

    /* quicker than to look at each, and mostly the answer */
    if (http_lookup(request, name, &len) == NULL) {
        if (ret_repeated != NULL)
            *ret_repeated = false;
        return (struct text){0};
    }
    return find_value(request, name, MHD_HEADER_KIND, ret_repeated);
}

struct text http_query(const struct http_request *request, const char *name,
                       bool *ret_repeated)
{
    return find_value(request, name, MHD_GET_ARGUMENT_KIND, ret_repeated);
}

/* -- replies -- */

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

/* A page runs what it brings and nothing else, in no frame of anybody's. */
static bool add_security(struct MHD_Response *response, const char *content_type)
{
    static const char html[] = "text/html";

    if (!add_header(response, "X-Content-Type-Options", "nosniff"))
        return false;
    if (strncmp(content_type, html, sizeof(html) - 1) != 0)
        return true;
    return add_header(response, "Content-Security-Policy",
                      "default-src 'self'; base-uri 'none'; form-action 'self'; "
                      "frame-ancestors 'none'; object-src 'none'") &&
           add_header(response, "X-Frame-Options", "DENY") &&
           add_header(response, "Referrer-Policy", "no-referrer");
}

static struct MHD_Response *response_create(const struct http_reply *reply)
{
    // the cast: libmicrohttpd copies, but its parameter is not const
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->body_len, (void *)(uintptr_t)reply->body, MHD_RESPMEM_MUST_COPY);
    bool ok = response != NULL;

    if (ok && reply->content_type != NULL)
        ok = add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type) &&
             add_security(response, reply->content_type);
    for (size_t i = 0; ok && i < reply->header_count; i++)
        ok = add_header(response, reply->headers[i].name, reply->headers[i].value);
    if (ok)
        return response;
    if (response != NULL)
        MHD_destroy_response(response);
    return NULL;
}

/* What only this answer of ours says. */
static bool add_own(const struct http_request *request, struct MHD_Response *response)
{
    const struct http *http = request->http;
    char id[HTTP_REQUEST_ID_MAX + 1];

    if (http_copy_id(request, id) && !add_header(response, "X-Request-Id", id))
        return false;
    if (http->options.tls != NULL &&
        !add_header(response, "Strict-Transport-Security", "max-age=31536000"))
        return false;
    return !http->is_quiesced ||
           add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

static void give(struct http_request *request, unsigned status,
                 struct MHD_Response *response)
{
    struct http *http = request->http;

    assert(!request->is_answered);
    request->is_answered = true;
    http->pending--;
    conn_enter(&http->conns, request->conn, CONN_WRITING);
    request->is_broken =
        response == NULL ||
        MHD_queue_response(request->connection, status, response) != MHD_YES;
    if (!request->is_suspended)
        return;
    request->is_suspended = false;
    http->has_resumed = true;
    MHD_resume_connection(request->connection);
}

/* Takes the response over; NULL: none could be made. */
static void give_own(struct http_request *request, unsigned status,
                     struct MHD_Response *response)
{
    bool ok = response != NULL && add_own(request, response);

    give(request, status, ok ? response : NULL);
    if (response != NULL)
        MHD_destroy_response(response); /* the connection has its own reference */
}

/* First of all: it may want the request to have an id, which the answer then tells. */
static void announce(struct http_request *request, unsigned status)
{
    const struct http_options *options = &request->http->options;

    options->answered(request, status, options->arg);
}

void http_answer(struct http_request *request, const struct http_reply *reply)
{
    announce(request, reply->status);
    give_own(request, reply->status, response_create(reply));
}

struct http_page *http_page_create(const struct http_reply *reply)
{
    struct http_page *page = calloc(1, sizeof(*page));

    if (page == NULL)
        return NULL;
    page->status = reply->status;
    page->response = response_create(reply);
    page->body_len = reply->body_len;
    page->body = malloc(reply->body_len + 1);
    if (page->response != NULL && page->body != NULL) {
        memcpy(page->body, reply->body, reply->body_len);
        return page;
    }
    http_page_free(page);
    return NULL;
}

void http_page_free(struct http_page *page)
{
    if (page == NULL)
        return;
    if (page->response != NULL)
        MHD_destroy_response(page->response);
    free(page->body);
    free(page);
}

static enum MHD_Result copy_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    (void)kind;
    return MHD_add_response_header(arg, name, value);
}

/* The page once more, for an answer that has something to add. */
static struct MHD_Response *page_copy(const struct http_page *page)
{
    struct http_reply body = {.body = page->body, .body_len = page->body_len};
    struct MHD_Response *response = response_create(&body);

    if (response != NULL)
        MHD_get_response_headers(page->response, copy_header, response);
    return response;
}

/* Once a second instead of at each answer. An answer that is still to be sent says the
   new time as well. A header that could not be made, libmicrohttpd makes itself. */
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
    add_header(page->response, MHD_HTTP_HEADER_DATE, date); /* replaces the old one */
}

void http_answer_page(struct http_request *request, struct http_page *page)
{
    const struct http *http = request->http;
    size_t len;

    announce(request, page->status);
    page_date(page);
    if (http->is_quiesced || http->options.tls != NULL || request->trace[0] != '\0' ||
        http_lookup(request, "X-Request-Id", &len) != NULL)
        give_own(request, page->status, page_copy(page));
    else
        give(request, page->status, page->response);
}

/* -- the server -- */

static void run(struct http *http)
{
    http->has_resumed = false;
    http_tls_use(http->options.tls);
    MHD_run(http->daemon);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

static void on_timer(uv_timer_t *timer)
{
    run(timer->data);
}

void http_turn(struct http *http)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;

    conns_sweep(&http->conns);
    for (int i = 0; i < RUNS_PER_TURN_MAX; i++) {
        bool has_timeout = MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES;

        if (!has_timeout)
            wait_ms = IDLE_WAKE_MS;
        if (!http->has_resumed && wait_ms > 0)
            break;
        run(http);
    }
    if (wait_ms > IDLE_WAKE_MS)
        wait_ms = IDLE_WAKE_MS;
    if (wait_ms == 0 || !uv_is_active((uv_handle_t *)&http->timer))
        uv_timer_start(&http->timer, on_timer, wait_ms, 0);
}

static void on_message(void *arg, const char *format, va_list args)
{
    /* Malformed requests and clients that leave: nothing that an operator can mend. */
    (void)arg;
    (void)format;
    (void)args;
}

static struct MHD_Daemon *daemon_start(struct http *http)
{
    const struct http_options *options = &http->options;
    struct MHD_OptionItem tls[] = {http_tls_option(), {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

    if (options->tls != NULL)
        flags |= MHD_USE_TLS;
    else
        tls[0].option = MHD_OPTION_END;
    return MHD_start_daemon(
        flags, 0, conns_accept, &http->conns, on_request, http,
        MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL, MHD_OPTION_LISTEN_SOCKET,
        options->listen_fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_NOTIFY_CONNECTION, conns_notify, &http->conns,
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTION_COUNT_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
        tls, MHD_OPTION_END);
}

enum status http_start(const struct http_options *options, struct http **ret_http,
                       struct err *reterr)
{
    struct http *http = calloc(1, sizeof(*http));
    const union MHD_DaemonInfo *info;

    if (http == NULL)
        return STATUS_NO_MEMORY;
    http->options = *options;
    list_init(&http->free_requests);
    conns_init(&http->conns, &http->options);
    http->daemon = daemon_start(http);
    if (http->daemon == NULL) {
        free(http);
        return err_set(reterr, STATUS_INVALID, "libmicrohttpd does not start%s",
                       options->tls != NULL ? ": was it built with TLS?" : "");
    }
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    uv_poll_init(options->loop, &http->poll, info->epoll_fd);
    http->poll.data = http;
    uv_poll_start(&http->poll, UV_READABLE, on_readable);
    uv_timer_init(options->loop, &http->timer);
    http->timer.data = http;
    *ret_http = http;
    return STATUS_OK;
}

void http_set_tls(struct http *http, struct http_tls *tls)
{
    http_tls_keep(tls, http->options.tls);
    http->options.tls = tls;
}

void http_quiesce(struct http *http)
{
    MHD_socket fd;

    run(http); /* takes in what the kernel has accepted for us */
    fd = MHD_quiesce_daemon(http->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
    http->is_quiesced = true;
}

size_t http_pending(const struct http *http)
{
    return http->pending;
}

size_t http_open(const struct http *http)
{
    return http->open;
}

size_t http_connections(const struct http *http)
{
    return http->conns.count;
}

void http_stop(struct http *http)
{
    if (http == NULL)
        return;
    assert(http->pending == 0);
    uv_poll_stop(&http->poll);
    uv_close((uv_handle_t *)&http->poll, NULL);
    uv_close((uv_handle_t *)&http->timer, NULL);
    MHD_stop_daemon(http->daemon);
    http->daemon = NULL;
}

void http_free(struct http *http)
{
    struct list *link;

    if (http == NULL)
        return;
    while ((link = list_shift(&http->free_requests)) != NULL)
        free(list_item(link, struct http_request, free_link));
    conns_clear(&http->conns);
    http_tls_free(http->options.tls);
    free(http);
}
