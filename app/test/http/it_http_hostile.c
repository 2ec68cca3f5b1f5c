/*
 * it_http_hostile.c - malformed requests and misbehaving clients: each gets a clear answer or
 * is disconnected, the data stay unchanged, and others are served.
 */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>

#define BODY_MAX 65536

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

/* -- bodies -- */

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct body {
    const char *name;
    const char *bytes;
    size_t len;
} bad_bodies[] = {
    {"nothing", BYTES("")},
    {"a space", BYTES(" ")},
    {"an open brace", BYTES("{")},
    {"cut in a string", BYTES("{\"title\":\"x")},
    {"cut in an escape", BYTES("{\"title\":\"\\u00")},
    {"an array", BYTES("[]")},
    {"null", BYTES("null")},
    {"a number", BYTES("7")},
    {"a string", BYTES("\"x\"")},
    {"two documents", BYTES("{} {}")},
    {"garbage behind", BYTES("{\"title\":\"x\"}garbage")},
    {"a NUL behind", BYTES("{\"title\":\"x\"}\0")},
    {"a NUL inside", BYTES("{\"title\":\"a\0b\"}")},
    {"an escaped NUL", BYTES("{\"title\":\"a\\u0000b\"}")},
    {"an escaped NUL in a key", BYTES("{\"ti\\u0000tle\":\"x\"}")},
    {"a lone surrogate", BYTES("{\"title\":\"\\ud800\"}")},
    {"invalid UTF-8", BYTES("{\"title\":\"\xff\xfe\"}")},
    {"overlong UTF-8", BYTES("{\"title\":\"\xc0\xaf\"}")},
    {"UTF-8 of a surrogate", BYTES("{\"title\":\"\xed\xa0\x80\"}")},
    {"single quotes", BYTES("{'title':'x'}")},
    {"a trailing comma", BYTES("{\"title\":\"x\",}")},
    {"not a number", BYTES("{\"stock\":NaN}")},
    {"a number too large", BYTES("{\"stock\":1e999}")},
    {"an integer too large", BYTES("{\"stock\":99999999999999999999}")},
    {"a form", BYTES("title=x&stock=1")},
    {"XML", BYTES("<?xml version=\"1.0\"?><title>x</title>")},
};

static void send_body_as(const char *token, const char *line, const struct body *body,
                         const char *content_type)
{
    char head[2048];
    int head_len = snprintf(head, sizeof(head),
                            "%s HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer %s\r\n"
                            "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                            line, token, content_type, body->len);

    client_close(service->conn);
    service->conn = client_open(&service->address);
    assert_non_null(service->conn);
    assert_true(client_write(service->conn, head, (size_t)head_len));
    client_write(service->conn, body->bytes,
                 body->len); /* the service may close before the end */
}

static void send_body(const char *line, const char *bytes, size_t len,
                      const char *content_type)
{
    struct body body = {.bytes = bytes, .len = len};

    send_body_as(admin(), line, &body, content_type);
}

static void check_bad_body(const char *line, const struct body *bad)
{
    const struct client_reply *reply;

    send_body(line, bad->bytes, bad->len, "application/json");
    reply = client_read(service->conn, &patience);
    if (!reply_is(reply, 400, "bad_request") && !reply_is(reply, 422, "invalid"))
        fail_msg("%s: %s: %d %s", line, bad->name, reply->status, reply->body);
}

static void test_body__bad_json_is_refused(void **state)
{
    static const char *const routes[] = {"POST /v1/vouchers", "PATCH /v1/vouchers/{}",
                                         "POST /v1/vouchers/{}/restock"};
    int64_t before = state_of_data(*state);
    char line[100];

    for (size_t r = 0; r < COUNT_OF(routes); r++) {
        fill(routes[r], voucher_id, line, sizeof(line));
        for (size_t i = 0; i < COUNT_OF(bad_bodies); i++)
            check_bad_body(line, &bad_bodies[i]);
    }
    assert_int_equal(state_of_data(*state), before);
}

static void test_body__deep_json_is_refused(void **state)
{
    static const char *const opening[] = {"[", "{\"a\":", "[{\"a\":"};
    int64_t before = state_of_data(*state);
    char *body = malloc(BODY_MAX + 1);

    for (size_t i = 0; i < COUNT_OF(opening); i++) {
        size_t len = 0;

        while (len + strlen(opening[i]) < BODY_MAX)
            len += (size_t)sprintf(body + len, "%s", opening[i]);
        send_body("POST /v1/vouchers", body, len, "application/json");
        EXPECT(client_read(service->conn, &patience), 400, "bad_request");
    }
    free(body);
    assert_int_equal(state_of_data(*state), before);
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
}

/* A voucher's JSON, filled up with spaces to `len` bytes. */
static char *padded_voucher(size_t len)
{
    char *body = malloc(len + 1);
    int used = snprintf(body, len + 1,
                        "{\"title\":\"padded\",\"price_cents\":1,\"face_value_cents\":1,"
                        "\"stock\":1,\"begin_at\":\"2030-01-01T00:00:00Z\","
                        "\"end_at\":\"2030-01-02T00:00:00Z\"}");

    memset(body + used, ' ', len - (size_t)used);
    body[len] = '\0';
    return body;
}

static void test_body__of_64_kib_is_read_and_one_more_byte_is_not(void **state)
{
    char *body = padded_voucher(BODY_MAX + 1);

    (void)state;
    send_body("POST /v1/vouchers", body, BODY_MAX, "application/json");
    EXPECT(client_read(service->conn, &patience), 201, NULL);
    send_body("POST /v1/vouchers", body, BODY_MAX + 1, "application/json");
    EXPECT(client_read(service->conn, &patience), 413, "too_large");
    free(body);
}

static void test_body__huge_is_refused(void **state)
{
    static const char head[] = "POST /v1/vouchers/1/orders HTTP/1.1\r\nHost: x\r\n"
                               "Content-Type: application/json\r\n"
                               "Content-Length: 99999999999\r\n\r\n";
    int64_t before = state_of_data(*state);
    struct client *client = client_open(&service->address);
    char *junk = calloc(1, 1 << 20);

    assert_true(client_write(client, head, sizeof(head) - 1));
    client_write(client, junk, 1 << 20); /* the rest of the body never comes */
    client_close(client);
    client = client_open(&service->address);
    assert_true(client_write(client, head, strlen(head) - 4)); /* the head never ends */
    client_close(client);
    free(junk);
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    assert_int_equal(state_of_data(*state), before);
}

static void test_body__chunked_is_read(void **state)
{
    char bytes[4096];
    const char *body = "{\"title\":\"chunked\",\"price_cents\":1,\"face_value_cents\":1,"
                       "\"stock\":1,\"begin_at\":\"2030-01-01T00:00:00Z\","
                       "\"end_at\":\"2030-01-02T00:00:00Z\"}";
    struct client *client = client_open(&service->address);

    (void)state;
    snprintf(bytes, sizeof(bytes),
             "POST /v1/vouchers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json; charset=utf-8\r\n"
             "Transfer-Encoding: chunked\r\n\r\n5\r\n%.5s\r\n%zx\r\n%s\r\n0\r\n\r\n",
             admin(), body, strlen(body) - 5, body + 5);
    assert_true(client_write(client, bytes, strlen(bytes)));
    EXPECT(client_read(client, &patience), 201, NULL);
    client_close(client);
}

static void test_body__chunked_without_end_is_refused(void **state)
{
    char head[2048], chunk[4200];
    int64_t before = state_of_data(*state);
    struct client *client = client_open(&service->address);
    const struct client_reply *reply;

    snprintf(head, sizeof(head),
             "POST /v1/vouchers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
             admin());
    snprintf(chunk, sizeof(chunk), "1000\r\n%4096s\r\n", "");
    assert_true(client_write(client, head, strlen(head)));
    for (int i = 0; i < 20; i++)
        client_write(client, chunk, 6 + 4096 + 2);
    client_write(client, "0\r\n\r\n", 5);
    reply = client_read(client, &patience);
    EXPECT(reply, 413, "too_large");
    client_close(client);
    assert_int_equal(state_of_data(*state), before);
}

static void test_body__must_be_json_where_it_is_read(void **state)
{
    static const char *const types[] = {"text/plain", "application/x-www-form-urlencoded",
                                        "application/jsonp",
                                        "multipart/form-data; boundary=x", "json"};
    char *body = padded_voucher(400);
    int64_t before = state_of_data(*state);

    for (size_t i = 0; i < COUNT_OF(types); i++) {
        send_body("POST /v1/vouchers", body, strlen(body), types[i]);
        EXPECT(client_read(service->conn, &patience), 415, "unsupported_media_type");
    }
    assert_int_equal(state_of_data(*state), before);
    send_body("POST /v1/vouchers", body, strlen(body), "Application/JSON; charset=UTF-8");
    EXPECT(client_read(service->conn, &patience), 201, NULL);
    free(body);
}

static void test_order__needs_no_body_and_reads_none(void **state)
{
    char line[64];

    (void)state;
    snprintf(line, sizeof(line), "POST /v1/vouchers/%s/orders", voucher_id);
    send_body_as(shopper(55), line, &(struct body){"any", BYTES("any \xff at all")},
                 "text/plain");
    EXPECT(client_read(service->conn, &patience), 201, NULL);
}

/* -- heads -- */

static const struct bad_head {
    const char *name;
    const char *bytes; /* {}: the head of an order, before Content-Length */
    const char *code;  /* NULL: the answer may be that of libmicrohttpd */
} bad_heads[] = {
    {"two keys",
     "{}Content-Length: 0\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n",
     "bad_request"},
    {"two keys alike",
     "{}Content-Length: 0\r\nIdempotency-Key: a\r\nidempotency-key: a\r\n\r\n",
     "bad_request"},
    {"two authorizations", "{}Content-Length: 0\r\nAuthorization: Bearer x\r\n\r\n",
     "bad_request"},
    {"an empty key", "{}Content-Length: 0\r\nIdempotency-Key:\r\n\r\n", "bad_request"},
    {"a key of 65 bytes",
     "{}Content-Length: 0\r\nIdempotency-Key: 01234567890123456789012345678901234567"
     "890123456789012345678901234\r\n\r\n",
     "bad_request"},
    {"a key with a control byte",
     "{}Content-Length: 0\r\nIdempotency-Key: a\x01"
     "b\r\n\r\n",
     "bad_request"},
    {"a key that is not ASCII",
     "{}Content-Length: 0\r\nIdempotency-Key: \xc3\xa4\r\n\r\n", "bad_request"},
    {"no host", "POST /v1/vouchers/1/orders HTTP/1.1\r\n\r\n", NULL},
    {"no such protocol", "POST /v1/vouchers/1/orders HTCPCP/1.0\r\n\r\n", NULL},
    {"no target", "GET HTTP/1.1\r\nHost: x\r\n\r\n", NULL},
    {"a negative length", "{}Content-Length: -1\r\n\r\n", NULL},
    {"a length that is no number", "{}Content-Length: many\r\n\r\n", NULL},
    {"a length beyond 64 bits", "{}Content-Length: 18446744073709551617\r\n\r\n", NULL},
    {"a chunk size that is no number",
     "{}Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", NULL},
};

/* The head of an order without the headers that a case adds. */
static char *order_head(int64_t user_id, char *ret_text, size_t size)
{
    snprintf(ret_text, size,
             "POST /v1/vouchers/%s/orders HTTP/1.1\r\nHost: x\r\n"
             "Authorization: Bearer %s\r\n",
             voucher_id, shopper(user_id));
    return ret_text;
}

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
        if (bad_heads[i].code != NULL)
            EXPECT(reply, 400, bad_heads[i].code);
        else if (reply->status != 0 && (reply->status < 400 || reply->status > 499))
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

static void test_connection__expect_continue_is_answered(void **state)
{
    char head[1024];
    char *body = padded_voucher(300);
    struct client *client = client_open(&service->address);

    (void)state;
    snprintf(head, sizeof(head),
             "POST /v1/vouchers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nContent-Length: 300\r\n"
             "Expect: 100-continue\r\n\r\n",
             admin());
    assert_true(client_write(client, head, strlen(head)));
    assert_true(client_write(client, body, 300));
    EXPECT(client_read(client, &patience), 201, NULL);
    client_close(client);
    free(body);
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
        CASE(test_body__bad_json_is_refused),
        CASE(test_body__deep_json_is_refused),
        CASE(test_body__of_64_kib_is_read_and_one_more_byte_is_not),
        CASE(test_body__huge_is_refused),
        CASE(test_body__chunked_is_read),
        CASE(test_body__chunked_without_end_is_refused),
        CASE(test_body__must_be_json_where_it_is_read),
        CASE(test_order__needs_no_body_and_reads_none),
        CASE(test_head__bad_is_refused),
        CASE(test_head__oversized_is_refused),
        CASE(test_head__many_headers_are_refused_or_read),
        CASE(test_connection__answers_pipelined_requests_in_order),
        CASE(test_connection__takes_a_request_byte_by_byte),
        CASE(test_connection__is_closed_on_request),
        CASE(test_connection__expect_continue_is_answered),
        CASE(test_connection__slow_clients_delay_no_others),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
