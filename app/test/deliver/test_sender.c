/*
 * test_sender.c - messages to a server in this thread: what arrives, and what counts as received.
 *
 * The check of the address is a fake, so nothing leaves this machine.
 */
#define _GNU_SOURCE // NOLINT(readability-identifier-naming): RTLD_NEXT
#include "app/deliver/sender.h"

#include "app/deliver/destination.h"
#include "base/clock.h"
#include "test/asserts.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEADLINE_US INT64_C(10000000)
#define OK_ANSWER   "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define ANSWER_MAX  65536

static struct {
    uv_loop_t loop;
    struct sender *sender;
    struct address_networks allowed;
    int listener, conn; /* conn -1: none */
    unsigned port;
    char url[64];
    char request[1000000];
    const char *body; /* of the message */
    size_t len;
    /* the fake check */
    const char *refusal;
    unsigned checks;
    bool is_https;
    /* the answer to the caller */
    unsigned answers;
    bool has_failed;
    char error[300];
    bool has_no_memory; /* in libcurl */
} test;

/* -- fakes -- */

const char *destination_check(const struct address_networks *allowed,
                              const struct sockaddr *address, bool is_https)
{
    assert_ptr_equal(allowed, &test.allowed);
    assert_int_equal(address->sa_family, AF_INET);
    test.is_https = is_https;
    test.checks++;
    return test.refusal;
}

CURLM *curl_multi_init(void)
{
    CURLM *(*real)(void);

    *(void **)&real = dlsym(RTLD_NEXT, "curl_multi_init");
    return test.has_no_memory ? NULL : real();
}

CURL *curl_easy_init(void)
{
    CURL *(*real)(void);

    *(void **)&real = dlsym(RTLD_NEXT, "curl_easy_init");
    return test.has_no_memory ? NULL : real();
}

/* -- the fixture -- */

static int set_up(void **state UNUSED)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);

    memset(&test, 0, sizeof(test));
    test.conn = -1;
    test.body = "{\"type\":\"order.placed\"}";
    test.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(test.listener, (struct sockaddr *)(void *)&address, size), 0);
    assert_int_equal(listen(test.listener, 8), 0);
    getsockname(test.listener, (struct sockaddr *)(void *)&address, &size);
    test.port = ntohs(address.sin_port);
    snprintf(test.url, sizeof(test.url), "http://127.0.0.1:%u/hook", test.port);
    uv_loop_init(&test.loop);
    test.sender = sender_open(&test.loop, &test.allowed);
    return test.sender == NULL;
}

static void drop_connection(void)
{
    close(test.conn);
    test.conn = -1;
    test.len = 0;
    test.request[0] = '\0';
}

static int tear_down(void **state UNUSED)
{
    sender_close(test.sender);
    uv_run(&test.loop, UV_RUN_DEFAULT);
    if (test.conn >= 0)
        drop_connection();
    close(test.listener);
    return uv_loop_close(&test.loop);
}

#define SENDER_CASE(name) DEFINE_CASE(name, name, set_up, tear_down, NULL)

static void sender_on_answered(const char *error, void *arg)
{
    assert_ptr_equal(arg, &test);
    test.answers++;
    test.has_failed = error != NULL;
    snprintf(test.error, sizeof(test.error), "%s", error != NULL ? error : "");
}

static struct transfer *post(const char *url, uint32_t timeout_ms)
{
    struct sender_message message = {.url = url,
                                     .id = "evt_7",
                                     .timestamp_s = 1700000000,
                                     .signature = "v1,signature",
                                     .body = test.body,
                                     .timeout_ms = timeout_ms};

    test.answers = 0;
    return sender_post(test.sender, &message, sender_on_answered, &test);
}

#define AWAIT(holds) await(holds, #holds)

static void await(bool (*holds)(void), const char *condition)
{
    int64_t end_us = clock_mono_us() + DEADLINE_US;

    while (!holds()) {
        struct pollfd fds[] = {{test.listener, POLLIN, 0}, {test.conn, POLLIN, 0}};

        uv_run(&test.loop, UV_RUN_NOWAIT);
        poll(fds, 2, 1);
        if (clock_mono_us() > end_us)
            fail_msg("not within the deadline: %s", condition);
    }
}

static bool has_request(void)
{
    const char *body;
    ssize_t got;

    if (test.conn < 0)
        test.conn = accept4(test.listener, NULL, NULL, SOCK_CLOEXEC);
    if (test.conn < 0)
        return false;
    got = recv(test.conn, test.request + test.len, sizeof(test.request) - 1 - test.len,
               MSG_DONTWAIT);
    test.len += got > 0 ? (size_t)got : 0;
    test.request[test.len] = '\0';
    body = strstr(test.request, "\r\n\r\n");
    return body != NULL && strcmp(body + 4, test.body) == 0;
}

static bool is_answered(void)
{
    return test.answers > 0;
}

static bool is_cut_off(void)
{
    char byte;
    ssize_t got = recv(test.conn, &byte, 1, MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN);
}

/* Sends `count` bytes, or fewer if the client ends the connection. */
static void send_bytes(const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(test.conn, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN)
            return;
        bytes += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
        uv_run(&test.loop, UV_RUN_NOWAIT);
    }
}

/* -- tests -- */

SENDER_CASE(test_sender_post__sends_the_message_with_its_headers)
{
    static const char *const headers[] = {
        "Content-Type: application/json",
        "webhook-id: evt_7",
        "webhook-timestamp: 1700000000",
        "webhook-signature: v1,signature",
        "User-Agent: seckill",
    };
    char line[80];

    assert_non_null(post(test.url, 10000));
    AWAIT(has_request);
    ASSERT_BEGINS(test.request, "POST /hook HTTP/1.1\r\n");
    for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++) {
        snprintf(line, sizeof(line), "\r\n%s\r\n", headers[i]);
        ASSERT_CONTAINS(test.request, line);
    }
    assert_int_equal(test.answers, 0);
    send_bytes(OK_ANSWER, strlen(OK_ANSWER));
    AWAIT(is_answered);
    assert_false(test.has_failed);
    assert_int_equal(test.answers, 1);
    assert_int_equal(test.checks, 1);
    assert_false(test.is_https);
}

/* The server has a small buffer, so the message does not leave at once. */
SENDER_CASE(test_sender_post__sends_a_long_message_as_the_server_reads_it)
{
    static char body[sizeof(test.request) - 1000];
    int bytes = 4096;

    memset(body, 'x', sizeof(body) - 1);
    test.body = body;
    assert_int_equal(
        setsockopt(test.listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
    assert_non_null(post(test.url, 10000));
    AWAIT(has_request);
    send_bytes(OK_ANSWER, strlen(OK_ANSWER));
    AWAIT(is_answered);
    assert_string_equal(test.error, "");
}

/* The environment names a proxy, and a redirection another path. Neither is used. */
SENDER_CASE(test_sender_post__succeeds_if_the_status_is_2xx)
{
    static const struct {
        const char *answer, *error;
    } rows[] = {
        {OK_ANSWER, NULL},
        {"HTTP/1.1 299 Fine\r\nContent-Length: 0\r\n\r\n", NULL},
        {"HTTP/1.1 300 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
         "HTTP status 300"},
        {"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n", "HTTP status 500"},
        {"HTTP/1.1 101 Other\r\n\r\n", "Empty reply"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "bytes remaining to read"},
    };

    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs
    setenv("http_proxy", "http://127.0.0.1:9", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        asserts_about("%s", rows[i].answer);
        assert_non_null(post(test.url, 10000));
        AWAIT(has_request);
        send_bytes(rows[i].answer, strlen(rows[i].answer));
        drop_connection();
        AWAIT(is_answered);
        assert_int_equal(test.has_failed, rows[i].error != NULL);
        ASSERT_CONTAINS(test.error, rows[i].error != NULL ? rows[i].error : "");
    }
}

SENDER_CASE(test_sender_post__refuses_an_answer_longer_than_64_kib)
{
    static char body[ANSWER_MAX + 1];
    char head[80];

    memset(body, 'x', sizeof(body));
    for (size_t len = ANSWER_MAX; len <= ANSWER_MAX + 1; len++) {
        snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
                 len);
        assert_non_null(post(test.url, 10000));
        AWAIT(has_request);
        send_bytes(head, strlen(head));
        send_bytes(body, len);
        AWAIT(is_answered);
        assert_string_equal(test.error,
                            len > ANSWER_MAX ? "the answer is longer than 64 KiB" : "");
        drop_connection();
    }
}

SENDER_CASE(test_sender_post__connects_only_where_the_check_permits)
{
    char url[80];

    test.refusal = "not there";
    for (int is_https = 0; is_https <= 1; is_https++) {
        snprintf(url, sizeof(url), "http%s://127.0.0.1:%u/", is_https ? "s" : "",
                 test.port);
        assert_non_null(post(url, 10000));
        AWAIT(is_answered);
        assert_string_equal(test.error, "not there");
        assert_int_equal(test.is_https, is_https);
    }
    assert_int_equal(accept4(test.listener, NULL, NULL, SOCK_CLOEXEC), -1);
}

SENDER_CASE(test_sender_post__says_why_the_server_was_not_reached)
{
    static const struct {
        const char *url, *error;
    } rows[] = {
        {"http://127.0.0.1:1/", "127.0.0.1 port 1"},
        {"ftp://127.0.0.1:1/", "ftp"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_non_null(post(rows[i].url, 10000));
        AWAIT(is_answered);
        ASSERT_CONTAINS(test.error, rows[i].error);
    }
}

SENDER_CASE(test_sender_post__ends_at_its_timeout)
{
    assert_non_null(post(test.url, 50));
    AWAIT(is_answered);
    ASSERT_CONTAINS(test.error, "timed out");
}

static bool has_passed;

static void set_passed(uv_timer_t *timer UNUSED)
{
    has_passed = true;
}

/* Waiting takes no CPU: the loop has few turns until the timer of the test runs. */
SENDER_CASE(test_sender_post__sleeps_until_the_answer_comes)
{
    uv_timer_t timer;
    unsigned turns = 0;

    assert_non_null(post(test.url, 10000));
    AWAIT(has_request);
    uv_timer_init(&test.loop, &timer);
    uv_timer_start(&timer, set_passed, 300, 0);
    for (has_passed = false; !has_passed; turns++)
        uv_run(&test.loop, UV_RUN_ONCE);
    ASSERT_NUMBER(turns, <, 20);
    uv_close((uv_handle_t *)&timer, NULL);
    send_bytes(OK_ANSWER, strlen(OK_ANSWER));
    AWAIT(is_answered);
}

SENDER_CASE(test_sender_cancel__ends_the_connection_without_an_answer)
{
    struct transfer *transfer = post(test.url, 10000);

    AWAIT(has_request);
    sender_cancel(transfer);
    AWAIT(is_cut_off);
    assert_int_equal(test.answers, 0);
    sender_cancel(NULL);
}

SENDER_CASE(test_sender__without_memory_fails)
{
    torture_fail(1, 0);
    assert_null(post(test.url, 10000));
    assert_true(torture_stop());
    torture_fail(1, 0);
    assert_null(sender_open(&test.loop, &test.allowed));
    assert_true(torture_stop());
    test.has_no_memory = true;
    assert_null(post(test.url, 10000));
    assert_null(sender_open(&test.loop, &test.allowed));
    sender_close(NULL);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
