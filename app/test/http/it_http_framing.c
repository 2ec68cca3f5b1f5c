/*
 * it_http_framing.c - requests whose end is ambiguous, long queries, and bodies that are refused
 * before they are received.
 */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static struct service *service;
static char voucher_id[ID_SIZE];
static const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    make_voucher(service, &(struct sale){.stock = 1000}, voucher_id);
    return 0;
}

/* -- framing -- */

#define SMUGGLED "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

/* Cases that need an order; test_http.c has all others. */
static const struct bad_frame {
    const char *bytes; /* follow the headers of an order */
    const char *detail;
} bad_frames[] = {
    {"Content-Length: 0\r\nContent-Length: 36\r\n\r\n" SMUGGLED,
     "Content-Length must not be repeated."},
    {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED,
     "Content-Length and Transfer-Encoding exclude each other."},
};

static void test_framing__ambiguous_is_refused_and_closed(void **state)
{
    int64_t orders = sql_number(*state, "select count(*) from voucher_order");
    char bytes[4096];

    for (size_t i = 0; i < COUNT_OF(bad_frames); i++) {
        const struct bad_frame *frame = &bad_frames[i];
        struct client *client = client_open(&service->address);
        const struct client_reply *reply;

        snprintf(bytes, sizeof(bytes),
                 "POST /v1/vouchers/%s/orders HTTP/1.1\r\nHost: x\r\n"
                 "Authorization: Bearer %s\r\n%s",
                 voucher_id, shopper(100 + (int64_t)i), frame->bytes);
        assert_true(client_write(client, bytes, strlen(bytes)));
        reply = client_read(client, &patience);
        if (reply->status != 400 || strstr(reply->body, frame->detail) == NULL)
            fail_msg("expected 400 \"%s\", got %d %s", frame->detail, reply->status,
                     reply->body);
        if (!client_ends(client, CLIENT_TIMEOUT_MS))
            fail_msg("%s: expected the end of the connection, got another answer",
                     frame->detail);
        client_close(client);
    }
    assert_int_equal(sql_number(*state, "select count(*) from voucher_order"), orders);
}

static void test_framing__every_valid_head_is_accepted(void **state)
{
    static const char *const heads[] = {
        "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhOsT:x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nX-Spaces: \t a b \t\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nCookie: a=b; c=\"d\"\r\nCookie: e\r\n\r\n",
        "GET /healthz?a=b&c&d=%20&&= HTTP/1.1\r\nHost: x\r\n!#$%&'*+-.^_`|~: x\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nX: \xc3\xa4\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        "\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"};
    struct client *client = client_open(&service->address);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        assert_true(client_write(client, heads[i], strlen(heads[i])));
        EXPECT(client_read(client, &patience), 200, NULL);
    }
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        assert_true(client_write_slowly(client, heads[i], strlen(heads[i]), 1));
        EXPECT(client_read(client, &patience), 200, NULL);
    }
    client_close(client);
    client = client_open(&service->address);
    assert_true(client_write(client, "GET /healthz HTTP/1.0\r\n\r\n", 25));
    EXPECT(client_read(client, &patience), 200, NULL);
    client_close(client);
}

/* -- queries -- */

/* A query of `count` parameters; the last one is filled up so that all have `len` bytes. */
static const struct client_reply *get_with_query(size_t count, size_t len)
{
    char *bytes = malloc(len + 4 * count + 64);
    size_t used = (size_t)sprintf(bytes, "GET /healthz?");
    const struct client_reply *reply;

    for (size_t i = 0; i < count; i++)
        used += (size_t)sprintf(bytes + used, "a=1&");
    while (used < len)
        bytes[used++] = 'x';
    used += (size_t)sprintf(bytes + used, " HTTP/1.1\r\nHost: x\r\n\r\n");
    client_close(service->conn);
    service->conn = client_open(&service->address);
    client_write(service->conn, bytes, used); /* the service may close before the end */
    free(bytes);
    reply = client_read(service->conn, &patience);
    if (reply->status != 200 && reply->status != 400 && reply->status != 414 &&
        reply->status != 431)
        fail_msg("%zu parameters, %zu bytes: %d", count, len, reply->status);
    return reply;
}

static void test_query__of_any_size_is_answered(void **state)
{
    static const size_t counts[] = {1, 10, 50, 62, 63, 64, 100, 2000};

    (void)state;
    EXPECT(get_with_query(50, 0), 200, NULL);
    ASSERT_BETWEEN(get_with_query(2000, 0)->status, 400, 431);
    assert_true(client_ends(service->conn, CLIENT_TIMEOUT_MS));
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        for (size_t len = 0; len < 20000; len += 677)
            get_with_query(counts[i], len);
}

/* -- bodies -- */

static void write_head(struct client *client, const char *line, size_t body_len)
{
    char head[300];
    int len = snprintf(head, sizeof(head),
                       "%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n",
                       line, body_len);

    assert_true(client_write(client, head, (size_t)len));
}

/* A client that sends its whole body first receives the answer. */
static void test_body__too_large_is_answered_after_all_was_sent(void **state)
{
    static const size_t sizes[] = {65537, MIB, MIB + 1000, 7 * MIB};
    char *body = calloc(1, 7 * MIB);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct client *client = client_open(&service->address);

        write_head(client, "POST /v1/vouchers", sizes[i]);
        assert_true(client_write(client, body, sizes[i]));
        EXPECT(client_read(client, &patience), 413, "too_large");
        assert_true(client_ends(client, CLIENT_TIMEOUT_MS));
        client_close(client);
    }
    free(body);
}

static int64_t open_connections(void)
{
    const struct client_reply *reply =
        EXPECT(request(service, NULL, NULL, "GET /metrics"), 200, NULL);
    const char *at = strstr(reply->body, "\nseckill_connections ");

    assert_non_null(at);
    return strtoll(strchr(at + 1, ' '), NULL, 10);
}

static bool is_alone(void *arg)
{
    (void)arg;
    return open_connections() <= 1;
}

/* Neither an endless body nor a client that stops sending keeps a connection open. */
static void test_body__is_drained_for_a_bounded_time_and_amount(void **state)
{
    struct client *endless = client_open(&service->address);
    struct client *waiting = client_open(&service->address);
    char *body = calloc(1, MIB);
    bool is_open = true;

    (void)state;
    write_head(waiting, "POST /v1/vouchers", MIB);
    EXPECT(client_read(waiting, &patience), 413, "too_large");
    write_head(endless, "POST /v1/vouchers", SIZE_MAX / 4);
    for (int i = 0; i < 64 && is_open; i++)
        is_open = client_write(endless, body, MIB);
    assert_false(is_open);
    AWAIT(is_alone, NULL);
    client_close(endless);
    client_close(waiting);
    free(body);
}

/* A sanitizer's allocator keeps freed memory. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_PLAIN_MEMORY

#define UPLOADS 900

struct memory {
    struct service *service;
    int64_t limit_kib;
};

static bool is_returned(void *arg)
{
    const struct memory *memory = arg;

    return service_rss_kib(memory->service) < memory->limit_kib;
}

static bool has_received_all(void *arg)
{
    (void)arg;
    return open_connections() > UPLOADS;
}

/* The service stores no body from a caller without a token or for a route that reads none. */
static void test_body__without_a_token_is_not_stored(void **state)
{
    static const char *const lines[] = {"POST /v1/vouchers", "GET /healthz",
                                        "POST /v1/dev/token", "POST /nothing"};
    struct service *shared = service;
    struct client *clients[UPLOADS];
    char *body = calloc(1, 65536);
    struct memory memory;
    int64_t idle_kib;

    memory.service = service = fixture_serve(*state, NULL);
    idle_kib = service_rss_kib(service);
    for (size_t i = 0; i < UPLOADS; i++) {
        clients[i] = client_open(&service->address);
        write_head(clients[i], lines[i % COUNT_OF(lines)], 65536);
        assert_true(client_write(clients[i], body, 65000));
    }
    AWAIT(has_received_all, NULL);
    ASSERT_BETWEEN(service_rss_kib(service), 0, idle_kib + UPLOADS * INT64_C(32));
    for (size_t i = 0; i < UPLOADS; i++)
        client_close(clients[i]);
    memory.limit_kib = idle_kib + UPLOADS * INT64_C(4);
    AWAIT(is_returned, &memory);
    service = shared;
    free(body);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_framing__ambiguous_is_refused_and_closed),
        CASE(test_framing__every_valid_head_is_accepted),
        CASE(test_query__of_any_size_is_answered),
        CASE(test_body__too_large_is_answered_after_all_was_sent),
        CASE(test_body__is_drained_for_a_bounded_time_and_amount),
#ifdef HAS_PLAIN_MEMORY
        CASE(test_body__without_a_token_is_not_stored),
#endif
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
