/* test_http_parts.c - answers in parts: how they are sent, and how they end early. */
#include "app/test/http/http_site.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#define PART_LEN 20000

static struct {
    struct http_request *waiting;
    int asked;
} shop;

static char *part_of(char byte)
{
    char *part = malloc(PART_LEN);

    memset(part, byte, PART_LEN);
    return part;
}

static void next_part(struct http_request *request)
{
    shop.asked++;
    if (strcmp(request->path, "/later") == 0)
        shop.waiting = request;
    else
        http_send_part(request, part_of('b'), PART_LEN, shop.asked == 3);
}

static void handle(struct http_request *request, void *arg UNUSED)
{
    struct http_reply reply = {
        .status = 200, .content_type = "text/csv", .body = "first;", .body_len = 6};

    shop.asked = 0;
    http_reply_add(&reply, "Age", "3");
    if (strcmp(request->path, "/none") == 0)
        answer_text(request, 200, "text/plain", "");
    else
        http_answer_parts(request, &reply, next_part);
}

static int setup(void **state UNUSED)
{
    return site_open((struct http_options){.connections_max = 10, .handle = handle});
}

static int teardown(void **state UNUSED)
{
    return site_close();
}

struct got {
    struct client *conn;
    size_t len, parts_len;
    char text[400000];
    bool has_ended;
};

static bool receive(void *arg)
{
    struct got *got = arg;
    ssize_t count = recv(client_fd(got->conn), got->text + got->len,
                         sizeof(got->text) - got->len - 1, MSG_DONTWAIT);

    for (ssize_t i = 0; i < count; i++)
        got->parts_len += got->text[got->len + (size_t)i] == 'b';
    if (count > 0)
        got->len += (size_t)count;
    got->has_ended |= count == 0;
    return got->has_ended;
}

static struct got *get(const char *path, const char *version)
{
    static struct got got;
    char request[200];
    size_t len = (size_t)snprintf(request, sizeof(request),
                                  "GET %s %s\r\nHost: a\r\nConnection: close\r\n\r\n",
                                  path, version);

    memset(&got, 0, sizeof(got));
    got.conn = client_open(&site.address);
    assert_true(client_write(got.conn, request, len));
    return &got;
}

UNIT_CASE(test_answer_parts__sends_each_part_once)
{
    struct got *got = get("/now", "HTTP/1.0");

    assert_true(runs_until(receive, got));
    ASSERT_NUMBER(shop.asked, ==, 3);
    ASSERT_NUMBER(got->parts_len, ==, 3 * PART_LEN);
    assert_non_null(strstr(got->text, "\r\nContent-Type: text/csv\r\n"));
    assert_non_null(strstr(got->text, "\r\nAge: 3\r\n"));
    assert_non_null(strstr(got->text, "\r\n\r\nfirst;bbb"));
    client_close(got->conn);
    assert_true(runs_until(is_alone, NULL));
    ASSERT_NUMBER(http_counts(site.http).pending, ==, 0);
    ASSERT_NUMBER(http_counts(site.http).open, ==, 0);
}

UNIT_CASE(test_answer_parts__ends_with_an_empty_chunk)
{
    struct got *got = get("/now", "HTTP/1.1");

    assert_true(runs_until(receive, got));
    ASSERT_NUMBER(got->parts_len, ==, 3 * PART_LEN);
    assert_non_null(strstr(got->text, "\r\nTransfer-Encoding: chunked\r\n"));
    assert_string_equal(got->text + got->len - 7, "\r\n0\r\n\r\n");
    client_close(got->conn);
}

static bool is_waiting(void *arg)
{
    receive(arg);
    return shop.waiting != NULL;
}

static struct got *get_until_waiting(void)
{
    struct got *got = get("/later", "HTTP/1.1");

    shop.waiting = NULL;
    assert_true(runs_until(is_waiting, got));
    return got;
}

static void send_waiting(char byte, bool is_last)
{
    struct http_request *request = shop.waiting;

    shop.waiting = NULL;
    http_send_part(request, byte != '\0' ? part_of(byte) : NULL,
                   byte != '\0' ? PART_LEN : 0, is_last);
}

static bool has_part(void *arg)
{
    receive(arg);
    return ((struct got *)arg)->parts_len == PART_LEN;
}

UNIT_CASE(test_send_part__may_come_later)
{
    struct got *got = get_until_waiting();

    ASSERT_NUMBER(http_counts(site.http).pending, ==, 1);
    /* the time limit of an answer does not count while the client waits for a part */
    site.passed_ms += 600000;
    for (int i = 0; i < 5; i++)
        uv_run(&site.loop, UV_RUN_NOWAIT);
    assert_false(receive(got));
    send_waiting('b', false);
    ASSERT_NUMBER(http_counts(site.http).pending, ==, 0);
    assert_true(runs_until(has_part, got));
    assert_true(runs_until(is_waiting, got));
    send_waiting('c', true);
    assert_true(runs_until(receive, got));
    assert_string_equal(got->text + got->len - 7, "\r\n0\r\n\r\n");
    client_close(got->conn);
}

/* The last chunk, which is empty, is missing. So the client sees that the answer is incomplete. */
UNIT_CASE(test_send_part__without_a_part_cuts_the_answer)
{
    struct got *got = get_until_waiting();

    send_waiting('\0', false);
    assert_true(runs_until(receive, got));
    assert_non_null(strstr(got->text, "first;"));
    assert_null(strstr(got->text, "0\r\n\r\n"));
    client_close(got->conn);
    assert_true(runs_until(is_alone, NULL));
}

UNIT_CASE(test_send_part__to_a_client_that_has_left)
{
    struct got *got = get_until_waiting();

    client_abort(got->conn);
    send_waiting('b', false);
    assert_true(runs_until(is_alone, NULL));
    ASSERT_NUMBER(http_counts(site.http).pending, ==, 0);
    assert_null(shop.waiting);
}

UNIT_CASE(test_answer_parts__wait_for_the_client)
{
    struct got *got = get("/later", "HTTP/1.1");
    struct pollfd hung_up = {.fd = client_fd(got->conn), .events = POLLRDHUP};
    int parts = 0;

    shop.waiting = NULL;
    do {
        for (int i = 0; i < 100 && shop.waiting == NULL; i++)
            uv_run(&site.loop, UV_RUN_NOWAIT);
        if (shop.waiting == NULL)
            break;
        send_waiting('b', false);
    } while (++parts < 10000);
    ASSERT_NUMBER(parts, <, 10000);
    site.passed_ms += 30000;
    for (int i = 0; i < 5; i++)
        uv_run(&site.loop, UV_RUN_NOWAIT);
    ASSERT_NUMBER(http_counts(site.http).connections, ==, 1);
    site.passed_ms += 60000;
    assert_true(runs_until(is_alone, NULL));
    ASSERT_NUMBER(poll(&hung_up, 1, 0), ==, 1);
    client_close(got->conn);
}

/* This test must be the last one, because the server accepts no connections afterwards. */
UNIT_CASE(test_answer_parts__is_cut_when_the_server_quiesces)
{
    struct got *got = get_until_waiting();

    http_quiesce(site.http);
    send_waiting('b', false);
    assert_true(runs_until(receive, got));
    ASSERT_NUMBER(got->parts_len, ==, PART_LEN);
    assert_null(strstr(got->text, "0\r\n\r\n"));
    client_close(got->conn);
}

int main(void)
{
    return cases_run(setup, teardown);
}
