/* test_http.c - the headers of all answers, defects of requests, and streams; the server runs in
 * the loop of the test. */
#include "app/http/http.h"
#include "app/test/http_client.h"
#include "base/clock.h"
#include "test/asserts.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 4

struct site {
    uv_loop_t loop;
    uv_prepare_t turn_end;
    struct http *http;
    struct http_page *page;
    struct client_address address;
    int events_left; /* per listener */
};

static struct site site;

static void on_turn_end(uv_prepare_t *prepare)
{
    (void)prepare;
    http_turn(site.http);
}

/* What the server has read of a request. */
static void echo(struct http_request *request)
{
    bool is_repeated = false;
    struct text query = http_query(request, "q", &is_repeated);
    char body[300];
    int len = snprintf(
        body, sizeof(body), "%d %s q=%.*s%s body=%zu %.*s%s", (int)request->method,
        request->path, query.bytes != NULL ? (int)query.len : 4,
        query.bytes != NULL ? query.bytes : "none", is_repeated ? ", repeated" : "",
        request->body.len, (int)(request->body.len < 9 ? request->body.len : 9),
        request->body.len > 0 ? request->body.bytes : "",
        request->is_too_large ? "too large" : "");

    http_answer(request, &(const struct http_reply){.status = 200,
                                                    .content_type = "text/plain",
                                                    .body = body,
                                                    .body_len = (size_t)len});
}

/* Whether two log lines of one request have the same id, which the server invents. */
static void compare_traces(struct http_request *request)
{
    char first[200];
    bool is_same;

    snprintf(first, sizeof(first), "%s", http_trace(request));
    is_same = strcmp(first, http_trace(request)) == 0;
    http_answer(request, &(const struct http_reply){.status = 200,
                                                    .content_type = "text/plain",
                                                    .body = is_same ? "same" : "other",
                                                    .body_len = is_same ? 4 : 5});
}

/* Answers a request with a defect with the name of the defect, and a request with X-Echo with the
   request. "/trace" calls http_trace() twice, "/stream" is a stream if possible, "/page" a prepared
   page, "/html" rendered HTML; any other path is JSON. */
static void handle(struct http_request *request, void *arg)
{
    bool is_html = strcmp(request->path, "/html") == 0;
    const struct http_reply reply = {.status = 200,
                                     .content_type = is_html ? "text/html; charset=utf-8"
                                                             : "application/json",
                                     .body = "{}",
                                     .body_len = 2};
    const char *defect = request->defect != NULL ? request->defect : "";
    const struct http_reply refusal = {.status = 400,
                                       .content_type = "text/plain",
                                       .body = defect,
                                       .body_len = strlen(defect)};

    (void)arg;
    if (request->defect != NULL) {
        http_answer(request, &refusal);
        return;
    }
    if (http_header(request, "x-echo", NULL).bytes != NULL) {
        echo(request);
        return;
    }
    if (strcmp(request->path, "/trace") == 0) {
        compare_traces(request);
        return;
    }
    if (strcmp(request->path, "/stream") == 0 && http_stream(request, 7))
        return;
    if (strcmp(request->path, "/page") == 0)
        http_answer_page(request, site.page);
    else
        http_answer(request, &reply);
}

static bool reads_body(struct http_request *request, void *arg)
{
    (void)request;
    (void)arg;
    return true;
}

static void answered(struct http_request *request, unsigned status, void *arg)
{
    (void)request;
    (void)status;
    (void)arg;
}

static size_t print_event(struct http_listener *listener,
                          char ret_event[HTTP_EVENT_BYTES], void *arg)
{
    (void)arg;
    if (listener->content >= site.events_left)
        return 0;
    listener->content++;
    return (size_t)snprintf(ret_event, HTTP_EVENT_BYTES, "data: %d of %d%80s\n\n",
                            (int)listener->content, (int)listener->id, "");
}

static int setup(void **state)
{
    struct http_options options = {.loop = &site.loop,
                                   .connections_max = CONNECTIONS_MAX,
                                   .listeners_max = 2,
                                   .idle_timeout_s = 60,
                                   .request_timeout_s = 60,
                                   .print_event = print_event,
                                   .reads_body = reads_body,
                                   .handle = handle,
                                   .answered = answered};
    const struct http_reply page = {.status = 409,
                                    .content_type = "text/html",
                                    .body = "sold out",
                                    .body_len = 8,
                                    .header_count = 1,
                                    .headers = {{"Retry-After", "7"}}};
    unsigned port = 0;

    (void)state;
    uv_loop_init(&site.loop);
    if (http_listen("127.0.0.1:0", 1, &options.listen_fd, &port, NULL) != STATUS_OK ||
        http_start(&options, &site.http, NULL) != STATUS_OK)
        return -1;
    site.page = http_page_create(&page);
    uv_prepare_init(&site.loop, &site.turn_end);
    uv_prepare_start(&site.turn_end, on_turn_end);
    snprintf(site.address.host, sizeof(site.address.host), "127.0.0.1");
    site.address.port = (uint16_t)port;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    uv_close((uv_handle_t *)&site.turn_end, NULL);
    http_stop(site.http);
    uv_run(&site.loop, UV_RUN_DEFAULT);
    http_free(site.http);
    http_page_free(site.page);
    return uv_loop_close(&site.loop);
}

static bool runs_until(bool (*check)(void *arg), void *arg)
{
    int64_t end_us = clock_mono_us() + CLIENT_TIMEOUT_MS * INT64_C(1000);

    while (!check(arg) && clock_mono_us() < end_us)
        uv_run(&site.loop, UV_RUN_ONCE);
    return check(arg);
}

/* Valid until the connection is closed. */
static const struct client_reply *exchange(struct client *conn, const char *request,
                                           size_t len)
{
    const struct client_reply *reply = NULL;
    int64_t end_us = clock_mono_us() + CLIENT_TIMEOUT_MS * INT64_C(1000);

    assert_true(client_write(conn, request, len));
    while (reply == NULL && clock_mono_us() < end_us) {
        uv_run(&site.loop, UV_RUN_NOWAIT);
        reply = client_poll(conn, false);
    }
    assert_non_null(reply);
    return reply;
}

static const struct client_reply *get(struct client *conn, const char *target,
                                      const char *headers)
{
    char request[400];
    int len = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n",
                       target, headers);

    return exchange(conn, request, (size_t)len);
}

static void assert_header(const struct client_reply *reply, const char *name,
                          const char *wanted)
{
    const char *value = client_header(reply, name);

    if (value == NULL || strstr(value, wanted) == NULL)
        fail_msg("%s: %s", name, value != NULL ? value : "none");
}

static void test_answer__of_html_has_a_content_policy(void **state)
{
    static const char *const targets[] = {"/html", "/page"};
    struct client *conn = client_open(&site.address);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct client_reply *reply = get(conn, targets[i], "");

        assert_header(reply, "Content-Security-Policy", "default-src 'self'");
        assert_header(reply, "Content-Security-Policy", "frame-ancestors 'none'");
        assert_header(reply, "X-Frame-Options", "DENY");
        assert_header(reply, "Referrer-Policy", "no-referrer");
        assert_header(reply, "X-Content-Type-Options", "nosniff");
    }
    client_close(conn);
}

static void test_answer__of_json_has_no_content_policy(void **state)
{
    struct client *conn = client_open(&site.address);
    const struct client_reply *reply = get(conn, "/json", "");

    (void)state;
    assert_header(reply, "X-Content-Type-Options", "nosniff");
    assert_null(client_header(reply, "Content-Security-Policy"));
    client_close(conn);
}

/* To add a header, the service copies the page with all its headers. */
static void test_answer_page__with_a_request_id_has_the_same_headers(void **state)
{
    struct client *conn = client_open(&site.address);
    const struct client_reply *reply;

    (void)state;
    for (int i = 0; i < 2; i++) {
        reply = get(conn, "/page", i == 0 ? "X-Request-Id: r-1\r\n" : "");
        assert_int_equal(reply->status, 409);
        assert_string_equal(reply->body, "sold out");
        assert_header(reply, "Retry-After", "7");
        assert_header(reply, "Content-Type", "text/html");
        if (i == 0)
            assert_header(reply, "X-Request-Id", "r-1");
        else
            assert_null(client_header(reply, "X-Request-Id"));
    }
    client_close(conn);
}

static size_t count_headers(const struct client_reply *reply, const char *start)
{
    size_t count = 0;

    for (const char *line = reply->head; line < reply->head + reply->head_len;
         line += strlen(line) + 1)
        count += strncmp(line, start, strlen(start)) == 0;
    return count;
}

/* The answer has one Date, which is now. */
static void assert_dated_now(struct client *conn, const char *headers)
{
    time_t now_s = (time_t)(clock_real_us() / 1000000);
    const struct client_reply *reply = get(conn, "/page", headers);
    time_t end_s = (time_t)(clock_real_us() / 1000000);
    struct tm told;

    assert_int_equal(count_headers(reply, "Date:"), 1);
    assert_non_null(
        strptime(client_header(reply, "Date"), "%a, %d %b %Y %H:%M:%S GMT", &told));
    assert_in_range(timegm(&told), now_s, end_s);
}

static void test_answer_page__has_the_date_of_now(void **state)
{
    struct client *conn = client_open(&site.address);

    (void)state;
    for (int64_t day = 0; day < 40; day++) {
        assert_dated_now(conn, "");
        assert_dated_now(conn, "X-Request-Id: r-1\r\n");
        clock_shift_us(INT64_C(86400) * 1000000 + day * 1000000);
    }
    for (int64_t day = 0; day < 40; day++)
        clock_shift_us(-(INT64_C(86400) * 1000000 + day * 1000000));
    client_close(conn);
}

static void test_trace__is_the_same_for_all_log_lines_of_a_request(void **state)
{
    struct client *conn = client_open(&site.address);

    (void)state;
    assert_string_equal(get(conn, "/trace", "")->body, "same");
    client_close(conn);
}

/* -- requests -- */

static void assert_echo(const char *line, const char *rest, size_t body_len,
                        const char *wanted)
{
    static char request[70000];
    struct client *conn = client_open(&site.address);
    size_t len =
        (size_t)snprintf(request, sizeof(request),
                         "%s HTTP/1.1\r\nHost: a\r\nX-Echo: 1\r\n%s", line, rest);
    const struct client_reply *reply;

    memset(request + len, 'x', body_len);
    len += body_len;
    len += (size_t)snprintf(request + len, sizeof(request) - len, "%s",
                            strstr(rest, "hunked") != NULL ? "\r\n0\r\n\r\n" : "");
    reply = exchange(conn, request, len);
    if (strcmp(reply->body, wanted) != 0)
        fail_msg("%s, %zu bytes: expected \"%s\", got \"%s\"", line, body_len, wanted,
                 reply->body);
    client_close(conn);
}

static void test_request__method_path_and_query(void **state)
{
    static const struct {
        const char *line, *wanted;
    } rows[] = {
        {"GET /", "0 / q=none body=0 "},
        {"POST /", "2 / q=none body=0 "},
        {"PATCH /", "3 / q=none body=0 "},
        {"OPTIONS *", "4 * q=none body=0 "},
        {"PUT /", "5 / q=none body=0 "},
        {"get /", "5 / q=none body=0 "},
        {"GET /a%41%4a%4A%20", "0 /aAJJ  q=none body=0 "},
        {"GET /%4g%g4%00%4%", "0 /%4g%g4%00%4% q=none body=0 "},
        {"GET /?q=1", "0 / q=1 body=0 "},
        {"GET /?q=%31%32&r=3", "0 / q=12 body=0 "},
        {"GET /?r=3&q=1&q=2", "0 / q=1, repeated body=0 "},
        {"GET /?Q=1&qq=2", "0 / q=none body=0 "},
        {"GET /?q", "0 / q= body=0 "},
        {"GET http://h/a/b", "0 /a/b q=none body=0 "},
        {"GET HTTPS://h:1/a?q=1", "0 /a q=1 body=0 "},
        {"GET http://h", "0 / q=none body=0 "},
        {"OPTIONS http://h", "4 * q=none body=0 "},
        {"GET httpx://h/a", "0 httpx://h/a q=none body=0 "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_echo(rows[i].line, "\r\n", 0, rows[i].wanted);
}

static void test_request__body_up_to_its_limit(void **state)
{
    static const struct {
        const char *rest;
        size_t body_len;
        const char *wanted;
    } rows[] = {
        {"Content-Length: 3\r\n\r\n", 3, "2 / q=none body=3 xxx"},
        {"X: y\r\nContent-Length: 3\r\n\r\n", 3, "2 / q=none body=3 xxx"},
        {"Content-Length: 65536\r\n\r\n", 65536, "2 / q=none body=65536 xxxxxxxxx"},
        {"Content-Length: 65537\r\n\r\n", 0, "2 / q=none body=0 too large"},
        {"Content-Length: 18446744073709551000\r\n\r\n", 0,
         "2 / q=none body=0 too large"},
        {"Transfer-Encoding: chunked\r\n\r\n3\r\n", 3, "2 / q=none body=3 xxx"},
        {"Transfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n2\r\n", 2,
         "2 / q=none body=4 abxx"},
        {"Transfer-Encoding: chunked\r\n\r\n10000\r\n", 65536,
         "2 / q=none body=65536 xxxxxxxxx"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_echo("POST /", rows[i].rest, rows[i].body_len, rows[i].wanted);
}

/* A part of the body may have been kept before the limit was reached. */
static void test_request__a_chunked_body_may_be_too_large(void **state)
{
    static const char head[] = "POST / HTTP/1.1\r\nHost: a\r\nX-Echo: 1\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n10001\r\n";
    static const char end[] = "\r\n0\r\n\r\n";
    static char request[sizeof(head) + 65537 + sizeof(end)];
    char *after = request + sizeof(head) - 1 + 65537;
    struct client *conn = client_open(&site.address);
    const struct client_reply *reply;

    (void)state;
    memset(request, 'x', sizeof(request));
    memcpy(request, head, sizeof(head) - 1);
    memcpy(after, end, sizeof(end));
    reply = exchange(conn, request, (size_t)(after - request) + sizeof(end) - 1);
    if (strstr(reply->body, "too large") == NULL)
        fail_msg("expected \"too large\", got \"%s\"", reply->body);
    client_close(conn);
}

/* -- framing -- */

#define SMUGGLED "GET /json HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST     "POST /json HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED  "Transfer-Encoding: chunked\r\n"
#define BAD_LINE "A line of the head is malformed."
#define BAD_NAME "The name of a header is malformed."
#define LENGTHS  "Content-Length must not be repeated."
#define BOTH     "Content-Length and Transfer-Encoding exclude each other."
#define CODING   "Transfer-Encoding must be chunked, in HTTP/1.1."

/* clang-format off */
static const struct bad_frame {
    const char *name;
    const char *bytes; /* @: a NUL */
    const char *defect;
} bad_frames[] = {
    {"two lengths", POST "Content-Length: 0\r\nContent-Length: 34\r\n\r\n" SMUGGLED, LENGTHS},
    {"two equal lengths", POST "Content-Length: 0\r\ncontent-length: 0\r\n\r\n", LENGTHS},
    {"a space before the colon", POST "Content-Length : 34\r\n\r\n" SMUGGLED, BAD_NAME},
    {"a tab before the colon", POST "Content-Length\t: 34\r\n\r\n" SMUGGLED, BAD_NAME},
    {"a control byte in a name", POST "Content-Length\x0b: 34\r\n\r\n" SMUGGLED, BAD_NAME},
    {"an empty name", POST ": 34\r\n\r\n", BAD_LINE},
    {"a NUL in the length", POST "Content-Length: 0@34\r\n\r\n" SMUGGLED, BAD_LINE},
    {"two NULs in the length", POST "Content-Length: 0@@34\r\n\r\n" SMUGGLED, BAD_LINE},
    {"a NUL behind the length", POST "Content-Length: 0@\r\n\r\n", BAD_LINE},
    {"a NUL in the last value", POST "Content-Length: 0\r\nX: a@b\r\n\r\n", BAD_LINE},
    {"a length and chunks", POST "Content-Length: 5\r\n" CHUNKED "\r\n0\r\n\r\n" SMUGGLED, BOTH},
    {"chunks and a length", POST CHUNKED "Content-Length: 5\r\n\r\n0\r\n\r\n" SMUGGLED, BOTH},
    {"an unknown coding", POST "Transfer-Encoding: gzip\r\n\r\n" SMUGGLED, CODING},
    {"two codings in one", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", CODING},
    {"two codings", POST "Transfer-Encoding: identity\r\n" CHUNKED "\r\n0\r\n\r\n", CODING},
    {"almost chunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", CODING},
    {"more than chunked", POST "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n", CODING},
    {"as long as chunked", POST "Transfer-Encoding: deflate\r\n\r\n0\r\n\r\n", CODING},
    {"chunks in HTTP/1.0", "POST /json HTTP/1.0\r\n" CHUNKED "\r\n0\r\n\r\n", CODING},
    {"bare LF in chunk lines", POST CHUNKED "\r\n3\nabc\r\n0\r\n\r\n", "A line of the chunked body is malformed."},
    {"two hosts", POST "Host: y\r\nContent-Length: 0\r\n\r\n", "Host must not be repeated."},
    {"a bare LF behind a header", POST "X: y\nContent-Length: 0\r\n\r\n", BAD_LINE},
    {"a bare LF at the end", POST "Content-Length: 0\r\n\n", BAD_LINE},
    {"a bare LF behind the request line", "GET /json HTTP/1.1\nHost: x\r\n\r\n", BAD_LINE},
    {"a bare CR in a value", POST "X: y\rContent-Length: 34\r\n\r\n" SMUGGLED, BAD_LINE},
    {"a folded value", POST "X: y\r\n z\r\nContent-Length: 0\r\n\r\n", BAD_LINE},
};
/* clang-format on */

static bool has_ended_or_answered(void *arg)
{
    return client_poll(arg, false) != NULL;
}

static size_t frame_text(const struct bad_frame *frame, char *bytes, size_t size)
{
    size_t len = (size_t)snprintf(bytes, size, "%s", frame->bytes);

    for (size_t i = 0; i < len; i++)
        if (bytes[i] == '@')
            bytes[i] = '\0';
    return len;
}

/* A strict libmicrohttpd may send its own answer, which has no X-Request-Id. */
static void test_framing__ambiguous_is_refused_and_closed(void **state)
{
    char text[400];

    (void)state;
    for (size_t i = 0; i < sizeof(bad_frames) / sizeof(bad_frames[0]); i++) {
        const struct bad_frame *frame = &bad_frames[i];
        struct client *conn = client_open(&site.address);
        size_t len = frame_text(frame, text, sizeof(text));
        const struct client_reply *reply = exchange(conn, text, len);
        const char *id = client_header(reply, "X-Request-Id");
        int status = reply->status;
        bool is_right =
            status == 400 && (id == NULL || strcmp(reply->body, frame->defect) == 0);
        bool is_closed;

        snprintf(text, sizeof(text), "%s", reply->body);
        is_closed = runs_until(has_ended_or_answered, conn) && client_ends(conn, 0);
        client_close(conn);
        if (!is_right)
            fail_msg("%s: expected 400 \"%s\", got %d \"%s\"", frame->name, frame->defect,
                     status, text);
        if (!is_closed)
            fail_msg("%s: expected the end of the connection, got another answer",
                     frame->name);
    }
}

/* -- streams -- */

#define LISTEN "GET /stream HTTP/1.1\r\nHost: a\r\nX-Request-Id: r-1\r\n\r\n"

/* What a listener has received. */
struct heard {
    struct client *conn;
    size_t len;
    char text[4096];
    const char *wanted;
};

static void listen_to(struct heard *heard)
{
    memset(heard, 0, sizeof(*heard));
    heard->conn = client_open(&site.address);
    assert_true(client_write(heard->conn, LISTEN, strlen(LISTEN)));
}

static bool has_heard(void *arg)
{
    struct heard *heard = arg;
    ssize_t count = recv(client_fd(heard->conn), heard->text + heard->len,
                         sizeof(heard->text) - heard->len - 1, MSG_DONTWAIT);

    if (count > 0)
        heard->len += (size_t)count;
    return strstr(heard->text, heard->wanted) != NULL;
}

static void assert_heard(struct heard *heard, const char *wanted)
{
    heard->wanted = wanted;
    if (!runs_until(has_heard, heard))
        fail_msg("expected %s: %s", wanted, heard->text);
}

static bool is_alone(void *arg)
{
    (void)arg;
    return http_counts(site.http).connections == 0;
}

static bool is_connected(void *arg)
{
    return !is_alone(arg);
}

static bool has_ended(void *arg)
{
    return client_ends(arg, 0);
}

static void test_stream__lasts_until_the_client_leaves(void **state)
{
    struct client *other = client_open(&site.address);
    struct heard heard;

    (void)state;
    site.events_left = 3;
    listen_to(&heard);
    assert_heard(&heard, "data: 3 of 7");
    assert_non_null(strstr(heard.text, "HTTP/1.1 200 OK\r\nDate: "));
    assert_non_null(strstr(heard.text, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(heard.text, "X-Accel-Buffering: no\r\n"));
    assert_non_null(strstr(heard.text, "X-Request-Id: r-1\r\n\r\ndata: 1 of 7"));
    assert_int_equal(get(other, "/json", "")->status, 200);
    site.events_left = 4;
    assert_heard(&heard, "data: 4 of 7");
    assert_int_equal(http_counts(site.http).connections, 2);
    assert_int_equal(http_counts(site.http).pending, 0);
    assert_int_equal(http_counts(site.http).open, 0);
    client_close(heard.conn);
    client_close(other);
    assert_true(runs_until(is_alone, NULL));
}

static void test_stream__beyond_the_limit_is_not_kept(void **state)
{
    struct client *other = client_open(&site.address);
    const struct client_reply *reply;
    struct heard heard[2];

    (void)state;
    site.events_left = 1;
    for (int i = 0; i < 2; i++) {
        listen_to(&heard[i]);
        assert_heard(&heard[i], "data: 1 of 7");
    }
    reply = get(other, "/stream", ""); /* an ordinary answer, which keeps no connection */
    assert_header(reply, "Content-Type", "application/json");
    assert_header(reply, "Connection", "close");
    assert_true(runs_until(has_ended, other));
    client_abort(heard[0].conn);
    client_close(heard[1].conn);
    client_close(other);
    assert_true(runs_until(is_alone, NULL));
}

static void test_connection__beyond_the_limit_is_closed(void **state)
{
    struct client *conns[CONNECTIONS_MAX], *other;
    struct heard heard;

    (void)state;
    site.events_left = 1;
    listen_to(&heard); /* a stream counts as a connection */
    assert_heard(&heard, "data: 1 of 7");
    for (size_t i = 1; i < CONNECTIONS_MAX; i++) {
        conns[i] = client_open(&site.address);
        assert_int_equal(get(conns[i], "/json", "")->status, 200);
    }
    other = client_open(&site.address);
    assert_true(runs_until(has_ended, other));
    client_close(other);
    client_close(heard.conn);
    for (size_t i = 1; i < CONNECTIONS_MAX; i++) {
        assert_int_equal(get(conns[i], "/json", "")->status, 200);
        client_close(conns[i]);
    }
    assert_true(runs_until(is_alone, NULL));
    other = client_open(&site.address);
    assert_int_equal(get(other, "/json", "")->status, 200);
    client_close(other);
    assert_true(runs_until(is_alone, NULL));
}

/* The unread events fill the client's receive buffer and the service's send buffer. */
static void test_stream__of_a_client_that_does_not_read_ends(void **state)
{
    struct sockaddr_in peer = {.sin_family = AF_INET,
                               .sin_port = htons(site.address.port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), bytes = 1;

    (void)state;
    site.events_left = 1000000;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&peer, sizeof(peer)), 0);
    assert_int_equal(send(fd, LISTEN, strlen(LISTEN), 0), strlen(LISTEN));
    assert_true(runs_until(is_connected, NULL));
    assert_true(runs_until(is_alone, NULL));
    close(fd);
}

static void test_stream__of_a_client_that_sends_ends(void **state)
{
    struct heard heard;

    (void)state;
    site.events_left = 1;
    listen_to(&heard);
    assert_heard(&heard, "data: 1 of 7");
    assert_true(client_write(heard.conn, LISTEN, strlen(LISTEN)));
    assert_true(runs_until(is_alone, NULL));
    client_close(heard.conn);
}

/* The stream ends although there are events that the client could still read. */
static void test_stream__of_a_client_that_shuts_down_ends(void **state)
{
    struct heard heard;

    (void)state;
    site.events_left = 1000000;
    listen_to(&heard);
    assert_heard(&heard, "data: 1 of 7");
    assert_int_equal(shutdown(client_fd(heard.conn), SHUT_WR), 0);
    assert_true(runs_until(is_alone, NULL));
    client_close(heard.conn);
}

/* The kernel keeps what a listener sends until the loop sees it, but at most 64 KB. */
static void test_stream__buffers_little_of_a_client(void **state)
{
    static const char junk[4096];
    struct heard heard;
    struct pollfd writable = {.events = POLLOUT};
    size_t sent = 0;
    int unsent = 0; /* bytes in the client's send buffer */

    (void)state;
    site.events_left = 1;
    listen_to(&heard);
    assert_heard(&heard, "data: 1 of 7");
    writable.fd = client_fd(heard.conn);
    while (poll(&writable, 1, 100) == 1) {
        ssize_t count = send(writable.fd, junk, sizeof(junk), MSG_DONTWAIT);

        sent += count > 0 ? (size_t)count : 0;
    }
    assert_int_equal(ioctl(writable.fd, TIOCOUTQ, &unsent), 0);
    assert_in_range(sent - (size_t)unsent, 1, 65536);
    assert_true(runs_until(is_alone, NULL));
    client_close(heard.conn);
}

/* This test is the last, because the server accepts no connection afterwards. */
static void test_stream__ends_when_the_server_quiesces(void **state)
{
    struct client *other = client_open(&site.address);
    struct heard heard;

    (void)state;
    site.events_left = 1;
    listen_to(&heard);
    assert_heard(&heard, "data: 1 of 7");
    assert_int_equal(get(other, "/json", "")->status, 200);
    http_quiesce(site.http);
    assert_true(client_ends(heard.conn, CLIENT_TIMEOUT_MS));
    assert_header(get(other, "/stream", ""), "Content-Type", "application/json");
    client_close(heard.conn);
    client_close(other);
    assert_true(runs_until(is_alone, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer__of_html_has_a_content_policy),
        cmocka_unit_test(test_answer__of_json_has_no_content_policy),
        cmocka_unit_test(test_answer_page__with_a_request_id_has_the_same_headers),
        cmocka_unit_test(test_answer_page__has_the_date_of_now),
        cmocka_unit_test(test_trace__is_the_same_for_all_log_lines_of_a_request),
        cmocka_unit_test(test_request__method_path_and_query),
        cmocka_unit_test(test_request__body_up_to_its_limit),
        cmocka_unit_test(test_request__a_chunked_body_may_be_too_large),
        cmocka_unit_test(test_framing__ambiguous_is_refused_and_closed),
        cmocka_unit_test(test_stream__lasts_until_the_client_leaves),
        cmocka_unit_test(test_stream__beyond_the_limit_is_not_kept),
        cmocka_unit_test(test_connection__beyond_the_limit_is_closed),
        cmocka_unit_test(test_stream__of_a_client_that_does_not_read_ends),
        cmocka_unit_test(test_stream__of_a_client_that_sends_ends),
        cmocka_unit_test(test_stream__of_a_client_that_shuts_down_ends),
        cmocka_unit_test(test_stream__buffers_little_of_a_client),
        cmocka_unit_test(test_stream__ends_when_the_server_quiesces),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
