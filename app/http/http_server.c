/*
 * http_server.c - libmicrohttpd on a libuv loop.
 *
 * The loop watches the daemon's epoll descriptor. MHD_run() does a bounded amount of work and never
 * waits. The daemon does not run its own threads: with suspended connections they can hang when a
 * multiple of 128 sockets is ready at once.
 *
 * The daemon calls server_on_request() several times per request: with the headers, with each part
 * of the body, and finally without data. A request begins with the first call. It ends in
 * server_on_completed(), which is called for disconnected clients, too. If the handler does not
 * answer at once, the request is suspended until it is answered. The daemon does not read a
 * suspended connection, so it notices a disconnect only when the answer is sent. So work that has
 * begun is completed even if the client has left.
 *
 * http_turn() sends the answers of resumed connections at the end of the turn. The daemon's wake-up
 * pipe would send them later.
 */
#include "app/http/http_impl.h"

#include <assert.h>
#include <ctype.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>
#include <unistd.h>

#define CONNECTION_MEMORY_BYTES 10240
#define CONNECTION_COUNT_MAX    100000
#define DISCARD_BYTES_MAX       8388608 /* a longer chunked body is cut off */
#define RUNS_PER_TURN_MAX       4
#define QUIESCE_RUNS_MAX        1000
#define SWEEP_MS_MAX            1000

/* -- requests -- */

static const char *path_of(const char *target, enum http_method method)
{
    if (strncasecmp(target, "http://", 7) != 0 && strncasecmp(target, "https://", 8) != 0)
        return target;
    target = strstr(target, "//") + 2;
    target += strcspn(target, "/");
    if (target[0] != '\0')
        return target;
    return method == HTTP_OPTIONS ? "*" : "/";
}

static enum http_method method_of(const char *name)
{
    static const char *const names[] = {
        [HTTP_GET] = MHD_HTTP_METHOD_GET,       [HTTP_HEAD] = MHD_HTTP_METHOD_HEAD,
        [HTTP_POST] = MHD_HTTP_METHOD_POST,     [HTTP_PATCH] = MHD_HTTP_METHOD_PATCH,
        [HTTP_DELETE] = MHD_HTTP_METHOD_DELETE, [HTTP_OPTIONS] = MHD_HTTP_METHOD_OPTIONS};
    enum http_method method = HTTP_GET;

    while (method < HTTP_OTHER && strcmp(name, names[method]) != 0)
        method++;
    return method;
}

static struct http_request *request_create(struct http *http, const char *method,
                                           const char *path,
                                           struct MHD_Connection *connection)
{
    struct http_request *request =
        LIST_SHIFT(struct http_request, &http->free_requests, link);

    if (request == NULL)
        request = malloc(sizeof(*request) + http->options.context_bytes);
    if (request == NULL)
        return NULL;
    memset(request, 0, sizeof(*request) + http->options.context_bytes);
    list_init(&request->link);
    request->http = http;
    request->connection = connection;
    request->conn = conn_of(connection);
    conn_set_state(&http->conns, request->conn, CONN_READING);
    request->method = method_of(method);
    request->path = path_of(path, request->method);
    request->context = request->memory;
    http->open++;
    return request;
}

static void free_requests(struct http *http)
{
    LIST_DRAIN(struct http_request, request, &http->free_requests, link)
        free(request);
}

static bool exceeds_limit(const struct http_request *request, size_t bytes)
{
    return bytes > (request->body_max > 0 ? request->body_max : HTTP_BODY_BYTES_MAX);
}

/* Stores a part of the body, up to its limit. Returns false if the connection must be closed. */
static bool request_append(struct http_request *request, const char *data, size_t len)
{
    http_check_chunk(request, data);
    request->received_bytes += len;
    request->is_too_large |= exceeds_limit(request, request->received_bytes);
    if (request->body_max > 0 && !request->is_too_large) {
        if (request->buffer == NULL)
            request->buffer = malloc(request->body_max);
        if (request->buffer == NULL)
            return false;
        memcpy(request->buffer + request->body.len, data, len);
        request->body = (struct text){request->buffer, request->received_bytes};
    }
    return request->received_bytes <= DISCARD_BYTES_MAX;
}

static void request_handle(struct http_request *request)
{
    struct http *http = request->http;

    http->pending++;
    conn_set_state(&http->conns, request->conn, CONN_WORKING);
    http->options.handle(request, http->options.arg);
    if (request->is_answered)
        return;
    MHD_suspend_connection(request->connection);
    request->is_suspended = true;
}

/* Handles the head of a request. If the head is malformed or announces a body that is too large,
   refuses the request at once. */
static void request_begin(struct http_request *request, const char *method,
                          const char *version)
{
    const struct http_options *options = &request->http->options;
    struct conn *conn = request->conn;

    if (conn != NULL && conn->is_query_cut) {
        conn->is_query_cut = false;
        request->defect = "The query is too long.";
    }
    http_check_head(request, method, version);
    if (request->defect == NULL && (request->is_chunked || request->declared_bytes > 0))
        request->body_max = options->body_max(request, options->arg);
    request->is_too_large = exceeds_limit(request, request->declared_bytes);
    if (request->defect != NULL || request->is_too_large) {
        if (conn != NULL)
            conn->is_refused = true;
        request_handle(request);
        assert(request->is_answered);
    }
}

// NOLINTNEXTLINE(readability-function-size): libmicrohttpd's signature
static enum MHD_Result server_on_request(void *arg, struct MHD_Connection *connection,
                                         const char *path, const char *method,
                                         const char *version, const char *data,
                                         size_t *data_len, void **request_slot)
{
    struct http_request *request = *request_slot;

    if (request == NULL) {
        request = request_create(arg, method, path, connection);
        *request_slot = request;
        if (request == NULL)
            return MHD_NO;
        request_begin(request, method, version);
        return request->is_broken ? MHD_NO : MHD_YES;
    }
    if (*data_len > 0) {
        bool ok = request_append(request, data, *data_len);

        *data_len = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (!request->is_answered) {
        request_handle(request);
        if (request->conn != NULL && request->conn->is_stream)
            return MHD_YES; /* take_socket() has suspended the request */
    }
    return request->is_broken ? MHD_NO : MHD_YES;
}

static void server_on_completed(void *arg, struct MHD_Connection *connection UNUSED,
                                void **request_slot,
                                enum MHD_RequestTerminationCode how UNUSED)
{
    struct http *http = arg;
    struct http_request *request = *request_slot;

    if (request == NULL)
        return;
    conn_set_state(&http->conns, request->conn, CONN_IDLE);
    free(request->buffer);
    free(request->parts.bytes);
    http->open--;
    list_append(&http->free_requests, &request->link);
    *request_slot = NULL;
}

/* Unescapes `text` in place, but leaves %00 as it is. A NUL would end the path, so that two
   different paths would look equal. */
static size_t unescape(void *arg UNUSED, struct MHD_Connection *connection UNUSED,
                       char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++, to++) {
        *to = *from;
        if (*from == '%' && isxdigit((unsigned char)from[1]) &&
            isxdigit((unsigned char)from[2]) && strncmp(from, "%00", 3) != 0) {
            *to = (char)strtol((const char[]){from[1], from[2], '\0'}, NULL, 16);
            from += 2;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

/* -- the server -- */

static void run(struct http *http)
{
    http->has_resumed = false;
    http_tls_use(http->options.tls);
    MHD_run(http->daemon);
}

static void server_on_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    run(poll->data);
}

static void server_on_timer(uv_timer_t *timer)
{
    run(timer->data);
}

void http_turn(struct http *http)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;

    streams_visit(http);
    if (conns_sweep(&http->conns)) {
        free_requests(http);
        malloc_trim(0);
    }
    if (http->options.tls != NULL)
        http_tls_free_old(http->options.tls, http->conns.handshakes_since_ms);
    for (int i = 0; i < RUNS_PER_TURN_MAX; i++) {
        bool has_timeout = MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES;

        if (!has_timeout)
            wait_ms = SWEEP_MS_MAX;
        if (!http->has_resumed && wait_ms > 0)
            break;
        run(http);
    }
    wait_ms = MIN(wait_ms, http->stream_count > 0 ? STREAMS_VISIT_MS : SWEEP_MS_MAX);
    if (wait_ms == 0 || !uv_is_active((uv_handle_t *)&http->timer))
        uv_timer_start(&http->timer, server_on_timer, wait_ms, 0);
}

static struct MHD_Daemon *daemon_start(struct http *http)
{
    const struct http_options *options = &http->options;
    struct MHD_OptionItem others[4] = {{0}}; /* MHD_OPTION_END is 0 */
    size_t count = 0;
    /* There is no error log, because malformed requests and disconnects need no action. */
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;

    if (options->listen_fd == HTTP_LISTENS_NOWHERE)
        flags |= MHD_USE_NO_LISTEN_SOCKET;
    else
        others[count++] =
            (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, options->listen_fd, NULL};
    if (options->tls != NULL) {
        flags |= MHD_USE_TLS;
        others[count++] = http_tls_option();
        others[count++] = (struct MHD_OptionItem){
            MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)options->tls_priority};
    }
    return MHD_start_daemon(flags, 0, conns_accept, &http->conns, server_on_request, http,
                            MHD_OPTION_NOTIFY_COMPLETED, server_on_completed, http,
                            MHD_OPTION_NOTIFY_CONNECTION, conns_notify, &http->conns,
                            MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
                            MHD_OPTION_URI_LOG_CALLBACK, http_on_target, NULL,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)CONNECTION_MEMORY_BYTES, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)CONNECTION_COUNT_MAX, MHD_OPTION_STRICT_FOR_CLIENT,
                            1, MHD_OPTION_ARRAY, others, MHD_OPTION_END);
}

enum rlock_status http_start(const struct http_options *options, struct http **ret_http,
                             struct rlock_err *reterr)
{
    struct http *http = calloc(1, sizeof(*http));
    const union MHD_DaemonInfo *info;

    if (http == NULL)
        return RLOCK_NO_MEMORY;
    http->options = *options;
    list_init(&http->free_requests);
    list_init(&http->streams);
    conns_init(&http->conns, &http->options);
    http->daemon = daemon_start(http);
    if (http->daemon == NULL) {
        free(http);
        return err_set(reterr, RLOCK_INVALID, "libmicrohttpd failed to start%s",
                       options->tls != NULL ? ": was it built with TLS?" : "");
    }
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (uv_poll_init(options->loop, &http->poll, info->epoll_fd) != 0) {
        MHD_stop_daemon(http->daemon);
        free(http);
        return err_set(reterr, RLOCK_NO_MEMORY, "no event handle");
    }
    http->poll.data = http;
    uv_poll_start(&http->poll, UV_READABLE, server_on_readable);
    uv_timer_init(options->loop, &http->timer);
    http->timer.data = http;
    *ret_http = http;
    return RLOCK_OK;
}

void http_quiesce(struct http *http)
{
    struct pollfd listening = {.fd = http->options.listen_fd, .events = POLLIN};
    MHD_socket fd;
    int runs = 0;

    /* Closing the socket would reset the queued connections, so they are accepted first. */
    do
        run(http);
    while (++runs < QUIESCE_RUNS_MAX && poll(&listening, 1, 0) == 1);
    fd = MHD_quiesce_daemon(http->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
    streams_end(http);
    http->is_quiesced = true;
}

struct http_counts http_counts(const struct http *http)
{
    return (struct http_counts){http->pending, http->open, http->conns.count};
}

void http_stop(struct http *http)
{
    if (http == NULL)
        return;
    assert(http->pending == 0);
    streams_end(http);
    uv_poll_stop(&http->poll);
    uv_close((uv_handle_t *)&http->poll, NULL);
    uv_close((uv_handle_t *)&http->timer, NULL);
    conns_stop(&http->conns);
    MHD_stop_daemon(http->daemon);
    http->daemon = NULL;
}

void http_free(struct http *http)
{
    if (http == NULL)
        return;
    free_requests(http);
    conns_clear(&http->conns);
    http_tls_free(http->options.tls);
    free(http);
}
