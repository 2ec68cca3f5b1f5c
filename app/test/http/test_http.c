/* test_http.c - requests and their answers, over real connections. */
#include "app/test/http/http_site.h"
#include "test/torture.h"

#include <arpa/inet.h>
#include <time.h>

#define PARENT  "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define HEALTHY "GET /json HTTP/1.1\r\nHost: x\r\n\r\n"

static struct http_page *sold_out, *vouchers;

static void echo(struct http_request *request)
{
    bool is_repeated = false;
    struct text query = http_query(request, "q", &is_repeated);
    char body[300];

    snprintf(body, sizeof(body), "%d %s q=%.*s%s body=%zu %.*s%s", (int)request->method,
             request->path, query.bytes != NULL ? (int)query.len : 4,
             query.bytes != NULL ? query.bytes : "none", is_repeated ? ", repeated" : "",
             request->body.len, (int)(request->body.len < 9 ? request->body.len : 9),
             request->body.len > 0 ? request->body.bytes : "",
             request->is_too_large ? "too large" : "");
    answer_text(request, 200, "text/plain", body);
}

static void echo_unknown(struct http_request *request)
{
    static const char *const known[] = {"q", "r", NULL};
    struct text name = http_query_other(request, known);
    char body[100];

    snprintf(body, sizeof(body), "%.*s", name.bytes != NULL ? (int)name.len : 4,
             name.bytes != NULL ? name.bytes : "none");
    answer_text(request, 200, "text/plain", body);
}

/* Answers with http_trace(). Adds ", changed" if a second call returns another text, because all
   log lines of a request must have one id. */
static void echo_trace(struct http_request *request)
{
    bool is_sent = http_trace_sent(request) != NULL;
    char first[HTTP_TRACE_BYTES], body[HTTP_TRACE_BYTES + 40];

    snprintf(first, sizeof(first), "%s", http_trace(request));
    snprintf(body, sizeof(body), "%s%s%s", first, is_sent ? "" : ", not sent",
             strcmp(first, http_trace(request)) == 0 ? "" : ", changed");
    answer_text(request, 200, "text/plain", body);
}

static void echo_address(struct http_request *request)
{
    uint8_t address[16];
    char text[INET6_ADDRSTRLEN];

    http_client_address(request, address);
    answer_text(request, 200, "text/plain",
                inet_ntop(AF_INET6, address, text, sizeof(text)));
}

static void handle(struct http_request *request, void *arg UNUSED)
{
    const char *path = request->path;

    if (request->defect != NULL)
        answer_text(request, 400, "text/plain", request->defect);
    else if (strcmp(path, "/known") == 0)
        echo_unknown(request);
    else if (http_header(request, "x-echo", NULL).bytes != NULL)
        echo(request);
    else if (strcmp(path, "/trace") == 0)
        echo_trace(request);
    else if (strcmp(path, "/address") == 0)
        echo_address(request);
    else if (strcmp(path, "/page") == 0)
        http_answer_page(request, sold_out);
    else if (strcmp(path, "/vouchers") == 0)
        http_answer_page(request, vouchers);
    else if (strcmp(path, "/html") == 0)
        answer_text(request, 200, "text/html; charset=utf-8", "<p>");
    else if (strcmp(path, "/htm") == 0)
        answer_text(request, 200, "text/htm", "<p>");
    else
        answer_text(request, 200, "application/json", "{}");
}

static int setup(void **state UNUSED)
{
    struct http_options options = {.connections_max = 10, .handle = handle};
    /* clang-format off */
    static const struct http_reply replies[] = {
        {409, "text/html", "sold out", 8, 1, {{"Retry-After", "7"}}},
        {200, "application/json", "[]", 2, 2, {{"ETag", "\"v1\""}, {"Cache-Control", "public, max-age=1"}}},
    };
    /* clang-format on */

    sold_out = http_page_create(&replies[0]);
    vouchers = http_page_create(&replies[1]);
    return address_networks_parse("127.0.0.1, 10.0.0.0/8", &options.trusted_proxies,
                                  NULL) == RLOCK_OK
               ? site_open(options)
               : -1;
}

static int teardown(void **state UNUSED)
{
    int result = site_close();

    http_page_free(sold_out);
    http_page_free(vouchers);
    return result;
}

static void create_page(void *arg)
{
    struct http_page *page = http_page_create(arg);
    bool has_failed = torture_stop();

    if ((page == NULL) != has_failed)
        fail_msg("%s, %s", page == NULL ? "no page" : "a page",
                 has_failed ? "although an allocation failed" : "with enough memory");
    http_page_free(page);
}

UNIT_CASE(test_page__is_not_created_without_memory)
{
    struct http_reply reply = {200, "text/html", "x", 1, 1, {{"ETag", "\"v1\""}}};

    assert_true(torture_each(create_page, &reply) > 4);
}

UNIT_CASE(test_page__is_not_created_with_a_header_of_two_lines)
{
    struct http_reply reply = {200, "text/html", "x",
                               1,   2,           {{"Link", "a\nb"}, {"ETag", "\"v1\""}}};

    assert_null(http_page_create(&reply));
}

/* -- answers -- */

#define TOKEN "Authorization: Bearer x\r\n"

UNIT_CASE(test_answer__has_the_headers_of_its_kind)
{
    /* clang-format off */
    static const struct {
        /* a part of the value; NULL: the answer has no header of this name */
        const char *line, *headers, *name, *wanted;
    } rows[] = {
        {"GET /html", "", "Content-Security-Policy", "default-src 'self'"},
        {"GET /html", "", "Content-Security-Policy", "frame-ancestors 'none'"},
        {"GET /html", "", "X-Frame-Options", "DENY"},
        {"GET /html", "", "Referrer-Policy", "no-referrer"},
        {"GET /html", "", "X-Content-Type-Options", "nosniff"},
        {"GET /html", "", "Content-Type", "text/html; charset=utf-8"},
        {"GET /page", "", "Content-Security-Policy", "default-src 'self'"},
        {"GET /page", "", "X-Content-Type-Options", "nosniff"},
        {"GET /page", "", "Retry-After", "7"},
        {"GET /page", "", "X-Request-Id", NULL},
        {"GET /page", "X-Request-Id: r-1\r\n", "X-Request-Id", "r-1"},
        {"GET /page", "X-Request-Id: r-1\r\n", "Retry-After", "7"},
        {"GET /page", "X-Request-Id: r-1\r\n", "Content-Type", "text/html"},
        {"GET /page", "If-None-Match: \"v1\"\r\n", "Retry-After", "7"},
        {"GET /htm", "", "X-Content-Type-Options", "nosniff"},
        {"GET /htm", "", "Content-Security-Policy", NULL},
        {"GET /json", "", "X-Content-Type-Options", "nosniff"},
        {"GET /json", "", "Content-Security-Policy", NULL},
        {"GET /json", "", "Cache-Control", NULL},
        {"GET /json", "", "Strict-Transport-Security", NULL},
        {"GET /json", "", "Connection", NULL},
        {"GET /json", TOKEN, "Cache-Control", "no-store"},
        {"HEAD /json", TOKEN, "Cache-Control", "no-store"},
        {"POST /json", TOKEN "Content-Length: 0\r\n", "Cache-Control", NULL},
        {"GET /vouchers", "", "Cache-Control", "public, max-age=1"},
        {"GET /vouchers", TOKEN, "Cache-Control", "no-store"},
        {"GET /vouchers", TOKEN "X-Request-Id: r-1\r\n", "Cache-Control", "no-store"},
        {"GET /vouchers", TOKEN, "ETag", "\"v1\""},
    };
    /* clang-format on */
    struct client *conn = client_open(&site.address);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct client_reply *reply = ask(conn, rows[i].line, rows[i].headers);
        const char *found = client_header(reply, rows[i].name);

        if (rows[i].wanted == NULL
                ? found != NULL
                : found == NULL || strstr(found, rows[i].wanted) == NULL)
            fail_msg("%s %s: expected %s: %s, got %s", rows[i].line, rows[i].headers,
                     rows[i].name, rows[i].wanted ? rows[i].wanted : "none",
                     found ? found : "none");
    }
    client_close(conn);
}

UNIT_CASE(test_answer__is_reported_once_with_its_status)
{
    static const struct {
        const char *line, *headers;
        unsigned status;
    } rows[] = {
        {"GET /json", "", 200},
        {"GET /page", "", 409},
        {"GET /vouchers", "If-None-Match: \"v1\"\r\n", 304},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct client *conn = client_open(&site.address);
        unsigned answered = site.answered;

        ASSERT_NUMBER(ask(conn, rows[i].line, rows[i].headers)->status, ==,
                      rows[i].status);
        ASSERT_NUMBER(site.answered, ==, answered + 1);
        ASSERT_NUMBER(site.status, ==, rows[i].status);
        client_close(conn);
    }
}

UNIT_CASE(test_answer_page__keeps_its_body_and_status)
{
    struct client *conn = client_open(&site.address);

    for (int i = 0; i < 2; i++) {
        const struct client_reply *reply =
            ask(conn, "GET /page", i == 0 ? "" : "X-Request-Id: r-1\r\n");

        assert_int_equal(reply->status, 409);
        assert_string_equal(reply->body, "sold out");
    }
    client_close(conn);
}

UNIT_CASE(test_answer_page__is_not_modified_if_its_tag_is_known)
{
    static const struct {
        const char *headers;
        int status;
    } rows[] = {{"If-None-Match: \"v1\"\r\n", 304},
                {"If-None-Match: \"other\", \"v1\"\r\n", 304},
                {"If-None-Match: \"v1\"\r\n" TOKEN, 304},
                {"If-None-Match: \"v2\"\r\n", 200},
                {"", 200}};
    struct client *conn = client_open(&site.address);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct client_reply *reply = ask(conn, "GET /vouchers", rows[i].headers);

        ASSERT_NUMBER(reply->status, ==, rows[i].status);
        assert_string_equal(reply->body, rows[i].status == 200 ? "[]" : "");
        assert_string_equal(client_header(reply, "Content-Length"), "2");
        assert_string_equal(client_header(reply, "ETag"), "\"v1\"");
        assert_non_null(client_header(reply, "Cache-Control"));
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

static void assert_dated_now(struct client *conn, const char *headers)
{
    time_t now_s = (time_t)(clock_real_us() / 1000000);
    const struct client_reply *reply = ask(conn, "GET /page", headers);
    time_t end_s = (time_t)(clock_real_us() / 1000000);
    struct tm told;

    ASSERT_NUMBER(count_headers(reply, "Date:"), ==, 1);
    assert_non_null(
        strptime(client_header(reply, "Date"), "%a, %d %b %Y %H:%M:%S GMT", &told));
    ASSERT_BETWEEN(timegm(&told), now_s, end_s);
}

UNIT_CASE(test_answer_page__has_the_date_of_now)
{
    struct client *conn = client_open(&site.address);

    for (int64_t day = 0; day < 40; day++) {
        assert_dated_now(conn, "");
        assert_dated_now(conn, "X-Request-Id: r-1\r\n");
        clock_shift_us(INT64_C(86400) * 1000000 + day * 1000000);
    }
    for (int64_t day = 0; day < 40; day++)
        clock_shift_us(-(INT64_C(86400) * 1000000 + day * 1000000));
    client_close(conn);
}

/* The client gets the id of its request, even if the server has made the id. */
UNIT_CASE(test_trace__has_the_ids_that_were_sent)
{
    static const struct {
        const char *headers, *behind_id;
    } rows[] = {
        {"", ", not sent"},
        {"X-Request-Id: r-1\r\n", ""},
        {"X-Request-Id: r 1\r\n", ", not sent"},
        {"traceparent: " PARENT "\r\n", " traceparent=" PARENT},
        {"traceparent: 00-evil\"-1-1\r\n", ", not sent"},
        {"X-Request-Id: r-1\r\ntraceparent: " PARENT "\r\n", " traceparent=" PARENT}};
    struct client *conn = client_open(&site.address);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct client_reply *reply = ask(conn, "GET /trace", rows[i].headers);
        const char *id = client_header(reply, "X-Request-Id");
        char wanted[300];

        assert_non_null(id);
        snprintf(wanted, sizeof(wanted), "request_id=%s%s", id, rows[i].behind_id);
        assert_string_equal(reply->body, wanted);
        ASSERT_NUMBER(strlen(id), ==, strstr(rows[i].headers, "r-1") ? 3 : 16);
    }
    client_close(conn);
}

/* -- requests -- */

static void assert_echo(const char *line, const char *rest, size_t body_len,
                        const char *wanted)
{
    static char request[HTTP_LONG_BODY_BYTES_MAX + 1000];
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
    asserts_about("%.300s%s, %zu bytes of which %zu are the body", line,
                  strlen(line) > 300 ? "..." : "", len, body_len);
    assert_string_equal(reply->body, wanted);
    client_close(conn);
}

UNIT_CASE(test_request__method_path_and_query)
{
    static const struct {
        const char *line, *wanted;
    } rows[] = {
        {"GET /", "0 / q=none body=0 "},
        {"POST /", "2 / q=none body=0 "},
        {"PATCH /", "3 / q=none body=0 "},
        {"DELETE /", "4 / q=none body=0 "},
        {"OPTIONS *", "5 * q=none body=0 "},
        {"PUT /", "6 / q=none body=0 "},
        {"get /", "6 / q=none body=0 "},
        {"GET /a%41%4a%4A%20", "0 /aAJJ  q=none body=0 "},
        {"GET /%4g%g4%00%4%", "0 /%4g%g4%00%4% q=none body=0 "},
        {"GET /?q=1", "0 / q=1 body=0 "},
        {"GET /?q=%31%32&r=3", "0 / q=12 body=0 "},
        {"GET /?r=3&q=1&q=2", "0 / q=1, repeated body=0 "},
        {"GET /?Q=1&qq=2", "0 / q=none body=0 "},
        {"GET /?q", "0 / q= body=0 "},
        {"GET http://h/a/b", "0 /a/b q=none body=0 "},
        {"GET HTTPS://h:1/a?q=1", "0 /a q=1 body=0 "},
        {"GET http:///a", "0 /a q=none body=0 "},
        {"GET http://h", "0 / q=none body=0 "},
        {"OPTIONS http://h", "5 * q=none body=0 "},
        {"GET httpx://h/a", "0 httpx://h/a q=none body=0 "},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_echo(rows[i].line, "\r\n", 0, rows[i].wanted);
}

UNIT_CASE(test_query__names_the_first_unknown_parameter)
{
    static const struct {
        const char *line, *wanted;
    } rows[] = {
        {"GET /known", "none"},
        {"GET /known?", "none"},
        {"GET /known?q=1&r=2&q", "none"},
        {"GET /known?q=1&x=2&y", "x"},
        {"GET /known?Q=1", "Q"},
        {"GET /known?qq=1", "qq"},
        {"GET /known?%71=1&%72%73=1", "rs"},
        {"GET /known?q=1&=2", ""},
        {"GET /known?q%00=1", "q%00"},
        {"POST /known?x", "x"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_echo(rows[i].line, "\r\n", 0, rows[i].wanted);
}

UNIT_CASE(test_request__body_up_to_its_limit)
{
    /* clang-format off */
    static const struct {
        const char *line, *rest;
        size_t body_len;
        const char *wanted;
    } rows[] = {
        {"POST /", "Content-Length: 3\r\n\r\n", 3, "2 / q=none body=3 xxx"},
        {"POST /", "X: y\r\nContent-Length: 3\r\n\r\n", 3, "2 / q=none body=3 xxx"},
        {"POST /", "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", 3, "2 / q=none body=3 xxx"},
        {"POST /", "Content-Length: 65536\r\n\r\n", 65536, "2 / q=none body=65536 xxxxxxxxx"},
        {"POST /", "Content-Length: 65537\r\n\r\n", 0, "2 / q=none body=0 too large"},
        {"POST /", "Content-Length: 655360\r\n\r\n", 0, "2 / q=none body=0 too large"},
        {"POST /", "Content-Length: 18446744073709551000\r\n\r\n", 0, "2 / q=none body=0 too large"},
        {"POST /", "Transfer-Encoding: chunked\r\n\r\n3\r\n", 3, "2 / q=none body=3 xxx"},
        {"POST /", "Transfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n2\r\n", 2, "2 / q=none body=4 abxx"},
        {"POST /", "Transfer-Encoding: chunked\r\n\r\n10000\r\n", 65536, "2 / q=none body=65536 xxxxxxxxx"},
        {"POST /long", "Content-Length: 1048576\r\n\r\n", 1048576, "2 /long q=none body=1048576 xxxxxxxxx"},
        {"POST /long", "Content-Length: 1048577\r\n\r\n", 0, "2 /long q=none body=0 too large"},
        {"POST /unread", "Content-Length: 65537\r\n\r\n", 0, "2 /unread q=none body=0 too large"},
        {"POST /unread", "Content-Length: 9\r\n\r\n", 9, "2 /unread q=none body=0 "},
        {"POST /unread", "Transfer-Encoding: chunked\r\n\r\n9\r\n", 9, "2 /unread q=none body=0 "},
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_echo(rows[i].line, rows[i].rest, rows[i].body_len, rows[i].wanted);
}

UNIT_CASE(test_request__a_chunked_body_may_be_too_large)
{
    static const char head[] = "POST / HTTP/1.1\r\nHost: a\r\nX-Echo: 1\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n10001\r\n";
    static const char end[] = "\r\n0\r\n\r\n";
    static char request[sizeof(head) + 65537 + sizeof(end)];
    char *after = request + sizeof(head) - 1 + 65537;
    struct client *conn = client_open(&site.address);

    memset(request, 'x', sizeof(request));
    memcpy(request, head, sizeof(head) - 1);
    memcpy(after, end, sizeof(end));
    ASSERT_CONTAINS(
        exchange(conn, request, (size_t)(after - request) + sizeof(end) - 1)->body,
        "too large");
    client_close(conn);
}

/* libmicrohttpd does not answer if the query does not fit into its memory. The limit counts each
   parameter as 64 bytes. */
UNIT_CASE(test_request__query_up_to_its_limit)
{
    static const struct {
        size_t parameters, filler;
        const char *wanted;
    } rows[] = {{1, 4030, "0 / q=none body=0 "},
                {1, 4031, "The query is too long."},
                {62, 65, "0 / q=none body=0 "},
                {62, 66, "The query is too long."},
                {2000, 0, "The query is too long."}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char line[9000] = "GET /?";
        size_t len = strlen(line);

        for (size_t k = 1; k < rows[i].parameters; k++)
            line[len++] = '&';
        memset(line + len, 'a', rows[i].filler);
        line[len + rows[i].filler] = '\0';
        assert_echo(line, "\r\n", 0, rows[i].wanted);
    }
}

UNIT_CASE(test_address__is_what_trusted_proxies_forward)
{
    static const struct {
        const char *headers, *wanted;
    } rows[] = {
        {"", "::ffff:127.0.0.1"},
        {"X-Forwarded-For: 203.0.113.1\r\n", "::ffff:203.0.113.1"},
        {"X-Forwarded-For: 203.0.113.9, 203.0.113.1, 10.1.1.1\r\n", "::ffff:203.0.113.1"},
        {"x-forwarded-for: 203.0.113.3\r\nX-Forwarded-For: 10.1.1.1\r\n",
         "::ffff:203.0.113.3"},
        {"X-Forwarded-For: 203.0.113.5, rubbish\r\n", "::ffff:127.0.0.1"},
    };
    struct client *conn = client_open(&site.address);
    char many[17 * 40] = "";
    size_t len = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_string_equal(ask(conn, "GET /address", rows[i].headers)->body,
                            rows[i].wanted);
    for (int i = 1; i <= 17; i++)
        len += (size_t)snprintf(many + len, sizeof(many) - len,
                                "X-Forwarded-For: 10.0.0.%d\r\n", i);
    assert_string_equal(ask(conn, "GET /address", many)->body, "::ffff:10.0.0.2");
    site.http->options.trusted_proxies.count--;
    assert_string_equal(ask(conn, "GET /address", many)->body, "::ffff:10.0.0.17");
    site.http->options.trusted_proxies.count--;
    assert_string_equal(ask(conn, "GET /address", many)->body, "::ffff:127.0.0.1");
    site.http->options.trusted_proxies.count += 2;
    client_close(conn);
}

/* -- framing -- */

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
    const char *bytes; /* "@" stands for a NUL */
    /* NULL: libmicrohttpd refuses the request, with or without an answer */
    const char *defect;
} bad_frames[] = {
    {"two lengths", POST "Content-Length: 0\r\nContent-Length: 34\r\n\r\n" HEALTHY, LENGTHS},
    {"two equal lengths", POST "Content-Length: 0\r\ncontent-length: 0\r\n\r\n", LENGTHS},
    {"a space before the colon", POST "Content-Length : 34\r\n\r\n" HEALTHY, BAD_NAME},
    {"a tab before the colon", POST "Content-Length\t: 34\r\n\r\n" HEALTHY, BAD_NAME},
    {"a control byte in a name", POST "Content-Length\x0b: 34\r\n\r\n" HEALTHY, BAD_NAME},
    {"an empty name", POST ": 34\r\n\r\n", BAD_LINE},
    {"a NUL in the length", POST "Content-Length: 0@34\r\n\r\n" HEALTHY, BAD_LINE},
    {"two NULs in the length", POST "Content-Length: 0@@34\r\n\r\n" HEALTHY, BAD_LINE},
    {"a NUL behind the length", POST "Content-Length: 0@\r\n\r\n", BAD_LINE},
    {"a NUL in the last value", POST "Content-Length: 0\r\nX: a@b\r\n\r\n", BAD_LINE},
    {"a length and chunks", POST "Content-Length: 5\r\n" CHUNKED "\r\n0\r\n\r\n" HEALTHY, BOTH},
    {"chunks and a length", POST CHUNKED "Content-Length: 5\r\n\r\n0\r\n\r\n" HEALTHY, BOTH},
    {"an unknown coding", POST "Transfer-Encoding: gzip\r\n\r\n" HEALTHY, CODING},
    {"two codings in one", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", CODING},
    {"two codings", POST "Transfer-Encoding: identity\r\n" CHUNKED "\r\n0\r\n\r\n", CODING},
    {"almost chunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", CODING},
    {"more than chunked", POST "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n", CODING},
    {"the last letter", POST "Transfer-Encoding: chunker\r\n\r\n0\r\n\r\n", CODING},
    {"as long as chunked", POST "Transfer-Encoding: deflate\r\n\r\n0\r\n\r\n", CODING},
    {"chunks in HTTP/1.0", "POST /json HTTP/1.0\r\n" CHUNKED "\r\n0\r\n\r\n", CODING},
    {"bare LF in chunk lines", POST CHUNKED "\r\n3\nabc\r\n0\r\n\r\n", "A line of the chunked body is malformed."},
    {"two hosts", POST "Host: y\r\nContent-Length: 0\r\n\r\n", "Host must not be repeated."},
    {"a bare LF behind a header", POST "X: y\nContent-Length: 0\r\n\r\n", BAD_LINE},
    {"a bare LF at the end", POST "Content-Length: 0\r\n\n", BAD_LINE},
    {"a bare LF behind the request line", "GET /json HTTP/1.1\nHost: x\r\n\r\n", BAD_LINE},
    {"a bare CR in a value", POST "X: y\rContent-Length: 34\r\n\r\n" HEALTHY, BAD_LINE},
    {"a folded value", POST "X: y\r\n z\r\nContent-Length: 0\r\n\r\n", BAD_LINE},
    {"no host", "GET /json HTTP/1.1\r\n\r\n", NULL},
    {"no such protocol", "GET /json HTCPCP/1.0\r\n\r\n", NULL},
    {"no target", "GET HTTP/1.1\r\nHost: x\r\n\r\n", NULL},
    {"a negative length", POST "Content-Length: -1\r\n\r\n", NULL},
    {"a length that is no number", POST "Content-Length: many\r\n\r\n", NULL},
    {"a length beyond 64 bits", POST "Content-Length: 18446744073709551617\r\n\r\n", NULL},
    {"a chunk size that is no number", POST CHUNKED "\r\nzz\r\nabc\r\n0\r\n\r\n", NULL},
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

UNIT_CASE(test_request__without_memory_ends_the_connection)
{
    struct client *conn = client_open(&site.address);
    const char *request = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

    ask(conn, "GET /a", "");
    LIST_DRAIN(struct http_request, spare, &site.http->free_requests, link)
        free(spare);
    torture_fail(1, 0);
    assert_true(client_write(conn, request, strlen(request)));
    assert_true(runs_until(has_ended_or_answered, conn));
    assert_true(torture_stop());
    assert_true(client_ends(conn, 0));
    client_close(conn);
}

/* A strict libmicrohttpd may send its own answer, which has no X-Request-Id. */
UNIT_CASE(test_framing__ambiguous_is_refused_and_closed)
{
    char text[400];

    for (size_t i = 0; i < COUNT_OF(bad_frames); i++) {
        const struct bad_frame *frame = &bad_frames[i];
        struct client *conn = client_open(&site.address);
        size_t len = frame_text(frame, text, sizeof(text));
        const struct client_reply *reply = exchange(conn, text, len);
        int status = reply->status;
        bool is_ours = client_header(reply, "X-Request-Id") != NULL;
        bool is_right =
            frame->defect == NULL
                ? status == 0 || (status >= 400 && status <= 499)
                : status == 400 && (!is_ours || strcmp(reply->body, frame->defect) == 0);

        snprintf(text, sizeof(text), "%s", status == 0 ? "nothing" : reply->body);
        if (!is_right)
            fail_msg("%s: expected 400 \"%s\", got %d \"%s\"", frame->name,
                     frame->defect ? frame->defect : "", status, text);
        if (frame->defect != NULL &&
            (!runs_until(has_ended_or_answered, conn) || !client_ends(conn, 0)))
            fail_msg("%s: expected the end of the connection, got another answer",
                     frame->name);
        client_close(conn);
    }
}

UNIT_CASE(test_framing__every_valid_head_is_accepted)
{
    static const char *const heads[] = {
        HEALTHY,
        "GET /json HTTP/1.1\r\nhOsT:x\r\n\r\n",
        "GET /json HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nX-Spaces: \t a b \t\r\n\r\n",
        "GET /json HTTP/1.1\r\nHost: x\r\nCookie: a=b; c=\"d\"\r\nCookie: e\r\n\r\n",
        "GET /json?a=b&c&d=%20&&= HTTP/1.1\r\nHost: x\r\n!#$%&'*+-.^_`|~: x\r\n\r\n",
        "GET /json HTTP/1.1\r\nX: \xc3\xa4\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        "\r\nGET /json HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        "GET /json HTTP/1.1\r\nHost: x\r\nHosts: y\r\n\r\n",
        "GET /json HTTP/1.1\r\nHost:x\r\nContent-Length: 0\r\nContent-Lengths: 5\r\n\r\n",
        "GET /json HTTP/1.1\r\nHost: x\r\nTransfer-Encodings: gzip\r\n\r\n",
    };
    struct client *conn = client_open(&site.address);

    for (size_t i = 0; i < COUNT_OF(heads); i++)
        ASSERT_NUMBER(exchange(conn, heads[i], strlen(heads[i]))->status, ==, 200);
    /* Each byte is sent in a packet of its own. */
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        for (const char *at = heads[i]; *at != '\0'; at++) {
            assert_true(client_write(conn, at, 1));
            uv_run(&site.loop, UV_RUN_NOWAIT);
        }
        ASSERT_NUMBER(read_answer(conn, false)->status, ==, 200);
    }
    client_close(conn);
}

UNIT_CASE(test_head__oversized_is_refused)
{
    static const char *const shapes[][2] = {
        {"GET /", " HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"GET /json HTTP/1.1\r\nHost: x\r\nX: ", "\r\n\r\n"},
        {"GET /json HTTP/1.1\r\nHost: x\r\n", ": x\r\n\r\n"},
    };
    static char request[40000];

    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct client *conn = client_open(&site.address);
        int len = snprintf(request, sizeof(request), "%s%030000d%s", shapes[i][0], 0,
                           shapes[i][1]);
        int status = exchange(conn, request, (size_t)len)->status;

        if (status != 0 && (status < 400 || status > 499))
            fail_msg("shape %zu: expected 4xx or the end, got %d", i, status);
        client_close(conn);
    }
}

int main(void)
{
    return cases_run(setup, teardown);
}
