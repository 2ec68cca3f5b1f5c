/*
 * it_http_hostile.c - malformed requests and misbehaving clients: each gets a clear answer or
 * is disconnected, the data stay unchanged, and others are served.
 */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>

static struct service *service;
static char voucher_id[ID_SIZE];
static const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    make_voucher(service, &(struct sale){.stock = 1000}, voucher_id);
    return 0;
}

/* A number that changes with every row written. */
static int64_t state_of_data(struct fixture *fixture)
{
    return sql_number(fixture, "select (select coalesce(sum(version), 0) from voucher)"
                               " + (select count(*) from voucher_order) * 1000000");
}

/* The head of an order without the headers that a case adds. */
static char *order_head(int64_t user_id, char *ret_text, size_t size)
{
    snprintf(ret_text, size,
             "POST /v1/vouchers/%s/orders HTTP/1.1\r\nHost: x\r\n"
             "Authorization: Bearer %s\r\n",
             voucher_id, shopper(user_id));
    return ret_text;
}

/* -- heads -- */

static const struct bad_head {
    const char *name;
    const char *bytes; /* {}: the head of an order, before Content-Length */
} bad_heads[] = {
    {"no host", "POST /v1/vouchers/1/orders HTTP/1.1\r\n\r\n"},
    {"no such protocol", "POST /v1/vouchers/1/orders HTCPCP/1.0\r\n\r\n"},
    {"no target", "GET HTTP/1.1\r\nHost: x\r\n\r\n"},
    {"a negative length", "{}Content-Length: -1\r\n\r\n"},
    {"a length that is no number", "{}Content-Length: many\r\n\r\n"},
    {"a length beyond 64 bits", "{}Content-Length: 18446744073709551617\r\n\r\n"},
    {"a chunk size that is no number",
     "{}Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"},
};

static void test_head__bad_is_refused(void **state)
{
    int64_t before = state_of_data(*state);
    char head[1024], bytes[4096];

    for (size_t i = 0; i < COUNT_OF(bad_heads); i++) {
        struct client *client = client_open(&service->address);
        const struct client_reply *reply;

        order_head(600 + (int64_t)i, head, sizeof(head));
        fill(bad_heads[i].bytes, head, bytes, sizeof(bytes));
        assert_true(client_write(client, bytes, strlen(bytes)));
        reply = client_read(client, &patience);
        /* libmicrohttpd closes the connection of some without an answer */
        if (reply->status != 0 && (reply->status < 400 || reply->status > 499))
            fail_msg("%s: %d", bad_heads[i].name, reply->status);
        client_close(client);
        EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    }
    assert_int_equal(state_of_data(*state), before);
}

static void test_head__oversized_is_refused(void **state)
{
    static const char *const shapes[] = {
        "GET /{} HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /healthz?x={} HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\n{}: x\r\n\r\n"};
    char *filler = malloc(200001), *bytes = malloc(200200);

    (void)state;
    memset(filler, 'a', 200000);
    filler[200000] = '\0';
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct client *client = client_open(&service->address);
        const struct client_reply *reply;

        fill(shapes[i], filler, bytes, 200200);
        client_write(client, bytes, strlen(bytes));
        reply = client_read(client, &patience);
        if (reply->status != 0 && (reply->status < 400 || reply->status > 499))
            fail_msg("shape %zu: %d", i, reply->status);
        client_close(client);
        EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    }
    free(filler);
    free(bytes);
}

static void test_head__many_headers_are_refused_or_read(void **state)
{
    char *bytes = malloc(100000);
    size_t len = (size_t)sprintf(bytes, "GET /healthz HTTP/1.1\r\nHost: x\r\n");
    struct client *client = client_open(&service->address);
    int status;

    (void)state;
    for (int i = 0; i < 3000; i++)
        len += (size_t)sprintf(bytes + len, "X-%d: y\r\n", i);
    len += (size_t)sprintf(bytes + len, "\r\n");
    client_write(client, bytes, len);
    status = client_read(client, &patience)->status;
    assert_true(status == 0 || status == 200 || (status >= 400 && status <= 499));
    client_close(client);
    free(bytes);
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
}

/* -- connections -- */

static void test_connection__answers_pipelined_requests_in_order(void **state)
{
    char head[1024], bytes[8192];
    size_t len = 0;
    struct client *client = client_open(&service->address);

    (void)state;
    for (int64_t user = 700; user < 705; user++)
        len += (size_t)snprintf(bytes + len, sizeof(bytes) - len,
                                "%sContent-Length: 0\r\n\r\n",
                                order_head(user, head, sizeof(head)));
    assert_true(client_write(client, bytes, len));
    for (int64_t user = 700; user < 705; user++) {
        const struct client_reply *reply = client_read(client, &patience);

        EXPECT(reply, 201, NULL);
        assert_int_equal(number_of(reply_text(reply, "user_id")), user);
    }
    client_close(client);
}

static void test_connection__takes_a_request_byte_by_byte(void **state)
{
    char head[1024], bytes[2048];
    struct client *client = client_open(&service->address);
    int len = snprintf(bytes, sizeof(bytes), "%sContent-Length: 0\r\n\r\n",
                       order_head(720, head, sizeof(head)));

    (void)state;
    assert_true(client_write_slowly(client, bytes, (size_t)len, 1));
    EXPECT(client_read(client, &patience), 201, NULL);
    client_close(client);
}

static void test_connection__is_closed_on_request(void **state)
{
    static const char *const requests[] = {
        "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /healthz HTTP/1.0\r\n\r\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct client *client = client_open(&service->address);

        assert_true(client_write(client, requests[i], strlen(requests[i])));
        EXPECT(client_read(client, &patience), 200, NULL);
        assert_true(client_ends(client, CLIENT_TIMEOUT_MS));
        client_close(client);
    }
}

static void test_order__needs_no_body_and_reads_none(void **state)
{
    char head[1024], bytes[2048];
    struct client *client = client_open(&service->address);
    int len = snprintf(bytes, sizeof(bytes),
                       "%sContent-Type: text/plain\r\nContent-Length: 3\r\n\r\na\xff"
                       "b",
                       order_head(55, head, sizeof(head)));

    (void)state;
    assert_true(client_write(client, bytes, (size_t)len));
    EXPECT(client_read(client, &patience), 201, NULL);
    client_close(client);
}

static void test_connection__expect_continue_is_answered(void **state)
{
    static const char body[] = "{\"add\":1}";
    char head[1024];
    struct client *client = client_open(&service->address);

    (void)state;
    snprintf(head, sizeof(head),
             "POST /v1/vouchers/%s/restock HTTP/1.1\r\nHost: x\r\n"
             "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\nExpect: 100-continue\r\n\r\n",
             voucher_id, admin(), strlen(body));
    assert_true(client_write(client, head, strlen(head)));
    assert_true(client_write(client, body, strlen(body)));
    EXPECT(client_read(client, &patience), 200, NULL);
    client_close(client);
}

/* Clients that send half a request: others are served meanwhile. */
static void test_connection__slow_clients_delay_no_others(void **state)
{
    static const char posting[] =
        "POST /v1/vouchers HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n{\"title\":";
    static const char *const beginnings[] = {
        "", "G", "POST /v1/vouchers/1/orders HTTP/1.1\r\nHost", posting};
    struct client *slow[400];
    int64_t orders = sql_number(*state, "select count(*) from voucher_order");

    for (size_t i = 0; i < 400; i++) {
        const char *beginning = beginnings[i % 4];

        slow[i] = client_open(&service->address);
        assert_non_null(slow[i]);
        assert_true(client_write(slow[i], beginning, strlen(beginning)));
    }
    for (int64_t user = 800; user < 820; user++)
        EXPECT(place_order(service, user, voucher_id, NULL), 201, NULL);
    for (size_t i = 0; i < 400; i++)
        i % 3 == 0 ? client_abort(slow[i]) : client_close(slow[i]);
    for (int64_t user = 800; user < 820; user++)
        EXPECT(place_order(service, user, voucher_id, NULL), 409, "already_ordered");
    assert_int_equal(sql_number(*state, "select count(*) from voucher_order"),
                     orders + 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_head__bad_is_refused),
        CASE(test_head__oversized_is_refused),
        CASE(test_head__many_headers_are_refused_or_read),
        CASE(test_connection__answers_pipelined_requests_in_order),
        CASE(test_connection__takes_a_request_byte_by_byte),
        CASE(test_connection__is_closed_on_request),
        CASE(test_order__needs_no_body_and_reads_none),
        CASE(test_connection__expect_continue_is_answered),
        CASE(test_connection__slow_clients_delay_no_others),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
