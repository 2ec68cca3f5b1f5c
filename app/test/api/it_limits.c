/* it_limits.c - limits per client: rates behind proxies, connections, timeouts. */
#include "app/test/fixture.h"

#include "base/clock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS_MAX 64

static int setup(void **state)
{
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

static bool is_serving(void *arg)
{
    return request(arg, NULL, NULL, "GET /readyz")->status == 200;
}

/* Waits for the service with few requests, because its limits are small. */
static struct service *serve_limited(struct fixture *fixture, const char *const *env)
{
    struct service *service = fixture_spawn(fixture, env);

    AWAIT(is_serving, service);
    return service;
}

/* -- rates -- */

static const struct client_reply *request_from(struct service *service,
                                               const char *headers)
{
    return request_with(service, NULL, headers, NULL, "GET /v1/vouchers");
}

static void assert_limited(const struct client_reply *reply, const char *policy,
                           const char *limit)
{
    EXPECT(reply, 429, "rate_limited");
    assert_int_equal(reply_retry_after(reply), 1);
    assert_string_equal(reply_header(reply, "RateLimit-Policy"), policy);
    assert_string_equal(reply_header(reply, "RateLimit"), limit);
}

/* A client, and how many of its requests were admitted. */
struct origin {
    int64_t since_us, admitted;
};

/* The limit is a burst of two, and one more for each second that has passed. */
static void note_admitted(struct origin *origin)
{
    origin->admitted++;
    ASSERT_NUMBER(origin->admitted, <=,
                  2 + (clock_mono_us() - origin->since_us) / 1000000);
}

/* Use the rest of the burst: send requests until one is refused. */
static void use_up(struct service *service, struct origin *origin, const char *headers)
{
    const struct client_reply *reply;

    if (origin->since_us == 0)
        origin->since_us = clock_mono_us();
    while ((reply = request_from(service, headers))->status == 200)
        note_admitted(origin);
    ASSERT_NUMBER(origin->admitted, >=, 2);
    assert_limited(reply, "\"address\";q=2;w=2", "\"address\";r=0;t=1");
}

static void test_rate__of_a_client_behind_a_trusted_proxy(void **state)
{
    const char *const env[] = {"SECKILL_RATE_PER_IP=1", "SECKILL_WORKERS=1",
                               "SECKILL_TRUSTED_PROXIES=127.0.0.0/8, 10.0.0.0/8", NULL};
    struct service *service = serve_limited(*state, env);
    struct origin clients[3] = {0}, network = {0}, proxy = {0};

    use_up(service, &clients[0], "X-Forwarded-For: 203.0.113.1\r\n");
    use_up(service, &clients[1], "X-Forwarded-For: 203.0.113.2, 10.1.1.1\r\n");
    use_up(service, &clients[2],
           "X-Forwarded-For: 203.0.113.3\r\nX-Forwarded-For: 10.1.1.1\r\n");
    /* the proxy adds its entry behind those of the client */
    use_up(service, &clients[0], "X-Forwarded-For: 203.0.113.99, 203.0.113.1\r\n");
    /* an IPv6 network counts as one address */
    use_up(service, &network, "X-Forwarded-For: 2001:db8::1\r\n");
    use_up(service, &network, "X-Forwarded-For: [2001:db8::2]:99\r\n");
    use_up(service, &proxy, NULL);
    use_up(service, &proxy, "X-Forwarded-For: 203.0.113.5, rubbish\r\n");
}

static void test_rate__ignores_headers_of_untrusted_clients(void **state)
{
    const char *const env[] = {"SECKILL_RATE_PER_IP=1", "SECKILL_WORKERS=1",
                               "SECKILL_TRUSTED_PROXIES=10.0.0.0/8", NULL};
    struct service *service = serve_limited(*state, env);
    struct origin client = {0};

    use_up(service, &client, "X-Forwarded-For: 203.0.113.1\r\n");
    use_up(service, &client, "X-Forwarded-For: 203.0.113.2\r\n");
    use_up(service, &client, "X-Forwarded-For: 10.1.1.1\r\n");
}

/* -- connections -- */

static bool answers(struct client *conn)
{
    static const char bytes[] = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    struct client_wait wait = {.timeout_ms = CLIENT_TIMEOUT_MS};

    return client_write(conn, bytes, sizeof(bytes) - 1) &&
           client_read(conn, &wait)->status == 200;
}

static size_t count_answering(struct service *service, struct client **conns,
                              size_t count)
{
    size_t answering = 0;

    for (size_t i = 0; i < count; i++) {
        conns[i] = client_open(&service->address);
        answering += conns[i] != NULL && answers(conns[i]);
    }
    return answering;
}

static void close_all(struct client **conns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        client_close(conns[i]);
}

static void test_connections__of_one_address_are_limited(void **state)
{
    const char *const env[] = {"SECKILL_CONNECTIONS_PER_IP=5", "SECKILL_WORKERS=1", NULL};
    struct service *service = serve_limited(*state, env);
    struct client *conns[CONNECTIONS_MAX];

    client_close(service->conn);
    service->conn = NULL;
    for (int i = 0; i < 3; i++) { /* closed connections do not count */
        ASSERT_BETWEEN(count_answering(service, conns, 20), 4, 5);
        close_all(conns, 20);
        AWAIT(is_serving, service);
    }
}

static void test_connections__of_a_trusted_proxy_are_not_limited(void **state)
{
    const char *const env[] = {"SECKILL_CONNECTIONS_PER_IP=5", "SECKILL_WORKERS=1",
                               "SECKILL_TRUSTED_PROXIES=127.0.0.1", NULL};
    struct service *service = serve_limited(*state, env);
    struct client *conns[CONNECTIONS_MAX];

    assert_int_equal(count_answering(service, conns, 20), 20);
    close_all(conns, 20);
}

/* -- time -- */

struct drip {
    struct client *conn;
    const char *piece;
};

/* Sends a piece. Returns whether the service has closed the connection. */
static bool is_cut_off(void *arg)
{
    struct drip *drip = arg;

    return !client_write(drip->conn, drip->piece, strlen(drip->piece)) ||
           client_ends(drip->conn, 50);
}

static struct service *serve_impatient(struct fixture *fixture)
{
    const char *const env[] = {"SECKILL_IDLE_TIMEOUT_S=4", "SECKILL_REQUEST_TIMEOUT_S=5",
                               "SECKILL_WORKERS=1", NULL};

    return serve_limited(fixture, env);
}

static void check_drip(struct service *service, const char *begin, const char *piece,
                       int64_t least_ms)
{
    int64_t begin_us = clock_mono_us();
    struct drip drip = {client_open(&service->address), piece};

    assert_true(client_write(drip.conn, begin, strlen(begin)));
    AWAIT(is_cut_off, &drip);
    assert_true(clock_mono_us() - begin_us >= least_ms * 1000);
    client_close(drip.conn);
}

static void test_time__a_request_that_drips_is_cut_off(void **state)
{
    struct service *service = serve_impatient(*state);

    check_drip(service, "GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: ", "x", 3900);
    check_drip(service,
               "POST /v1/vouchers HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n"
               "Content-Type: application/json\r\n\r\n",
               " ", 4900);
}

static void test_time__an_idle_connection_is_closed(void **state)
{
    struct service *service = serve_impatient(*state);
    struct client *silent = client_open(&service->address);
    struct client *served = client_open(&service->address);

    assert_true(answers(served));
    assert_true(client_ends(silent, CLIENT_TIMEOUT_MS));
    assert_true(client_ends(served, CLIENT_TIMEOUT_MS));
    client_close(silent);
    client_close(served);
}

/* The client sends requests and reads no answer. */
static void test_time__an_unread_answer_is_cut_off(void **state)
{
    static const char bytes[] = "GET /openapi.yaml HTTP/1.1\r\nHost: a\r\n\r\n";
    struct service *service = serve_impatient(*state);
    struct client *conn = client_open(&service->address);
    struct pollfd poller = {.fd = client_fd(conn), .events = POLLOUT};
    char many[sizeof(bytes) * 400] = "";
    size_t len = 0;

    for (int i = 0; i < 400; i++) {
        memcpy(many + len, bytes, sizeof(bytes) - 1);
        len += sizeof(bytes) - 1;
    }
    assert_true(client_write(conn, many, len));
    poller.events = 0; /* POLLERR and POLLHUP are always reported */
    assert_int_equal(poll(&poller, 1, CLIENT_TIMEOUT_MS), 1);
    client_close(conn);
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
}

/* The time limits of requests do not include the work of the service. */
static void test_time__waiting_for_the_service_is_not_limited(void **state)
{
    const char *const env[] = {"SECKILL_IDLE_TIMEOUT_S=1", "SECKILL_REQUEST_TIMEOUT_S=1",
                               "SECKILL_LOCK_WAIT_MS=10000", NULL};
    struct fixture *fixture = *state;
    struct service *service = fixture_serve(fixture, env);
    char id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 1}, id);
    redis_do(fixture, "SET lock:order:31 another PX 2500");
    EXPECT(place_order(service, 31, id, NULL), 201, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_rate__of_a_client_behind_a_trusted_proxy),
        CASE(test_rate__ignores_headers_of_untrusted_clients),
        CASE(test_connections__of_one_address_are_limited),
        CASE(test_connections__of_a_trusted_proxy_are_not_limited),
        CASE(test_time__a_request_that_drips_is_cut_off),
        CASE(test_time__an_idle_connection_is_closed),
        CASE(test_time__an_unread_answer_is_cut_off),
        CASE(test_time__waiting_for_the_service_is_not_limited),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
