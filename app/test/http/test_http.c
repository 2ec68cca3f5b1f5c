/* test_http.c - the headers of all answers; the server runs in the loop of the test. */
#include "app/http/http.h"
#include "app/test/http_client.h"
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct site {
    uv_loop_t loop;
    uv_prepare_t turn_end;
    struct http *http;
    struct http_page *page;
    struct client_address address;
};

static struct site site;

static void on_turn_end(uv_prepare_t *prepare)
{
    (void)prepare;
    http_turn(site.http);
}

/* "/page" is a prepared page, "/html" is made for each request, the rest is JSON. */
static void handle(struct http_request *request, void *arg)
{
    bool is_html = strcmp(http_path(request), "/html") == 0;
    const struct http_reply reply = {.status = 200,
                                     .content_type = is_html ? "text/html; charset=utf-8"
                                                             : "application/json",
                                     .body = "{}",
                                     .body_len = 2};

    (void)arg;
    if (strcmp(http_path(request), "/page") == 0)
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

static int setup(void **state)
{
    struct http_options options = {.loop = &site.loop,
                                   .idle_timeout_s = 60,
                                   .request_timeout_s = 60,
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

/* Valid until the connection is closed. */
static const struct client_reply *get(struct client *conn, const char *target,
                                      const char *headers)
{
    const struct client_reply *reply = NULL;
    int64_t end_us = clock_mono_us() + CLIENT_TIMEOUT_MS * INT64_C(1000);
    char request[400];
    int len = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n",
                       target, headers);

    assert_true(client_write(conn, request, (size_t)len));
    while (reply == NULL && clock_mono_us() < end_us) {
        uv_run(&site.loop, UV_RUN_NOWAIT);
        reply = client_poll(conn, false);
    }
    assert_non_null(reply);
    return reply;
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

/* With an additional header the page is copied, with all its headers. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer__of_html_has_a_content_policy),
        cmocka_unit_test(test_answer__of_json_has_no_content_policy),
        cmocka_unit_test(test_answer_page__with_a_request_id_has_the_same_headers),
        cmocka_unit_test(test_answer_page__has_the_date_of_now),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
