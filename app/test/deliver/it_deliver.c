/* it_deliver.c - webhooks with real servers: endpoints that fail, processes that are killed. */
#include "app/auth/signature.h"
#include "app/test/fixture.h"
#include "base/clock.h"
#include "test/asserts.h"
#include "test/case_list.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define SEEN_MAX  200

static struct service *service;
static struct fixture *fixture;

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    fixture = *state;
    return 0;
}

static int teardown(void **state)
{
    return fixture_end_group(state);
}

/* There is no proxy at this address, so nothing would arrive through it. */
static const char *const env[] = {
    "http_proxy=http://127.0.0.1:9", "SECKILL_WEBHOOK_NETWORKS=127.0.0.0/8",
    "SECKILL_LOCK_LEASE_MS=6000", "SECKILL_ORDER_TIMEOUT_MS=10000", NULL};

/* -- the command -- */

static const struct command_result *webhook(const char *verb, const char *first,
                                            const char *second)
{
    char url[300];
    const char *const owner[] = {url, NULL};

    snprintf(url, sizeof(url), "SECKILL_DATABASE_URL=%s", fixture->database_url);
    return fixture_run(fixture, owner,
                       (const char *[]){"seckill", "webhook", verb, first, second, NULL});
}

static bool list_has(void *words)
{
    return strstr(webhook("list", NULL, NULL)->out, words) != NULL;
}

static bool list_fails(void *arg UNUSED)
{
    return webhook("list", NULL, NULL)->code == 1;
}

/* -- an endpoint -- */

struct endpoint {
    int listener;
    int conn; /* -1: none */
    char url[64];
    char id[ID_SIZE];
    char secret[SIGNATURE_SECRET_BYTES];
    char request[8192];
    size_t len;
    char last_id[64];        /* of the last message */
    size_t count;            /* of the messages with different ids */
    char seen[SEEN_MAX][64]; /* their ids */
};

static struct endpoint *endpoint;

static struct endpoint *open_listener(void)
{
    static struct endpoint fresh;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);

    fresh = (struct endpoint){.conn = -1};
    fresh.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fresh.listener, (struct sockaddr *)(void *)&address, size), 0);
    assert_int_equal(listen(fresh.listener, 8), 0);
    getsockname(fresh.listener, (struct sockaddr *)(void *)&address, &size);
    snprintf(fresh.url, sizeof(fresh.url), "http://127.0.0.1:%u/hook",
             (unsigned)ntohs(address.sin_port));
    return &fresh;
}

static struct endpoint *open_endpoint(void)
{
    struct endpoint *fresh = open_listener();
    const struct command_result *added = webhook("add", fresh->url, NULL);

    if (added->code != 0 ||
        sscanf(added->out, "id %23s\nsecret %38s\n", fresh->id, fresh->secret) != 2)
        fail_msg("added: %s%s", added->out, added->err);
    return fresh;
}

static void drop_connection(struct endpoint *of)
{
    if (of->conn >= 0)
        close(of->conn);
    of->conn = -1;
    of->len = 0;
    of->request[0] = '\0';
}

static int end_test(void **state)
{
    if (endpoint != NULL) {
        drop_connection(endpoint);
        close(endpoint->listener);
        webhook("remove", endpoint->id, NULL);
    }
    endpoint = NULL;
    return fixture_end_test(state);
}

#define DELIVER_CASE(name) DEFINE_CASE(name, name, NULL, end_test, NULL)

static const char *header(const struct endpoint *of, const char *name, char *ret_text)
{
    char line[80];
    const char *found;

    snprintf(line, sizeof(line), "\r\n%s: ", name);
    found = strstr(of->request, line);
    if (found == NULL)
        fail_msg("no %s in %s", name, of->request);
    else
        sscanf(found + strlen(line), "%127[^\r]", ret_text);
    return ret_text;
}

static const char *body_of(const struct endpoint *of)
{
    const char *end = strstr(of->request, "\r\n\r\n");

    return end != NULL ? end + 4 : NULL;
}

static bool is_complete(const struct endpoint *of)
{
    char length[128];

    return body_of(of) != NULL &&
           strlen(body_of(of)) == (size_t)number_of(header(of, "Content-Length", length));
}

static void take_bytes(struct endpoint *of)
{
    ssize_t got =
        recv(of->conn, of->request + of->len, sizeof(of->request) - 1 - of->len, 0);

    if (got <= 0) {
        drop_connection(of);
        return;
    }
    of->len += (size_t)got;
    of->request[of->len] = '\0';
}

static void check_signature(const struct endpoint *of)
{
    struct signature_key key;
    char id[128], timestamp[128], found[128], wanted[SIGNATURE_BYTES];
    int64_t age_s;

    assert_true(signature_parse_secret(of->secret, &key));
    header(of, "webhook-timestamp", timestamp);
    age_s = clock_real_us() / 1000000 - number_of(timestamp);
    assert_in_range(age_s, 0, DEADLINE_MS / 1000);
    assert_true(signature_sign(&key, header(of, "webhook-id", id), number_of(timestamp),
                               body_of(of), wanted));
    assert_string_equal(header(of, "webhook-signature", found), wanted);
    assert_string_equal(header(of, "Content-Type", found), "application/json");
    ASSERT_BEGINS(of->request, "POST /hook HTTP/1.1\r\n");
}

/* Waits for a message, and returns its body. */
static const char *receive(struct endpoint *of)
{
    char id[128];

    of->len = 0;
    of->request[0] = '\0';
    while (!is_complete(of)) {
        struct pollfd fds[] = {{of->listener, POLLIN, 0}, {of->conn, POLLIN, 0}};

        if (poll(fds, 2, DEADLINE_MS) <= 0)
            fail_msg("no message within the deadline, after %s", of->last_id);
        if (fds[1].revents != 0)
            take_bytes(of);
        if (fds[0].revents != 0) {
            drop_connection(of);
            of->conn = accept4(of->listener, NULL, NULL, SOCK_CLOEXEC);
        }
    }
    check_signature(of);
    snprintf(of->last_id, sizeof(of->last_id), "%s", header(of, "webhook-id", id));
    return body_of(of);
}

static void answer(struct endpoint *of, const char *text)
{
    assert_true(send(of->conn, text, strlen(text), MSG_NOSIGNAL) > 0);
}

/* Receives and answers messages until one has an id that no earlier one had. Returns its body. */
static void remember(struct endpoint *of)
{
    assert_true(of->count < SEEN_MAX);
    snprintf(of->seen[of->count++], sizeof(of->seen[0]), "%s", of->last_id);
}

static const char *receive_new(struct endpoint *of)
{
    for (;;) {
        const char *body = receive(of);
        bool is_new = true;

        answer(of, OK_ANSWER);
        for (size_t i = 0; i < of->count; i++)
            is_new = is_new && strcmp(of->seen[i], of->last_id) != 0;
        if (!is_new)
            continue;
        remember(of);
        return body;
    }
}

/* Whether the positions of all events are stored. Answers messages that are sent again meanwhile,
   which happens after a loss of the lock. */
static bool is_up_to_date(void *arg)
{
    struct endpoint *of = arg;
    struct pollfd fds[] = {{of->listener, POLLIN, 0}, {of->conn, POLLIN, 0}};
    char byte;

    if (poll(fds, 2, 0) > 0) {
        if (fds[1].revents != 0 && recv(of->conn, &byte, 1, MSG_PEEK) <= 0) {
            drop_connection(of);
        } else {
            receive(of);
            answer(of, OK_ANSWER);
        }
    }
    return list_has(", 0 changes behind");
}

static void order(const char *voucher_id, int64_t user_id, char *ret_id)
{
    snprintf(
        ret_id, ID_SIZE, "%s",
        reply_text(EXPECT(place_order(service, user_id, voucher_id, NULL), 201, NULL),
                   "id"));
}

/* Receives the next new message, which must be of the placement of this order. */
static void expect_order(struct endpoint *of, const char *order_id)
{
    char words[80];

    snprintf(words, sizeof(words), "\"order_id\":\"%s\"", order_id);
    ASSERT_CONTAINS(receive_new(of), words);
}

/* -- tests -- */

DELIVER_CASE(test_deliver__sends_the_events_in_the_order_of_the_feed)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE], id[64];
    struct service *deliverer;
    const char *body;

    endpoint = open_endpoint();
    deliverer = fixture_deliver(fixture, env);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    order(voucher_id, 1, order_id);
    EXPECT(request(service, payment(), "{\"payment_ref\":\"p1\",\"amount_cents\":8000}",
                   "POST /v1/orders/%s/pay", order_id),
           200, NULL);
    body = receive_new(endpoint);
    ASSERT_BEGINS(body, "{\"type\":\"stock.changed\",\"timestamp\":\"20");
    ASSERT_CONTAINS(body, "\"stock_change\":10,");
    body = receive_new(endpoint);
    ASSERT_BEGINS(body, "{\"type\":\"order.placed\",");
    ASSERT_CONTAINS(body, order_id);
    snprintf(id, sizeof(id), "evt_%s", order_id);
    assert_string_equal(endpoint->last_id, id);
    ASSERT_BEGINS(receive_new(endpoint), "{\"type\":\"order.paid\",");
    AWAIT(is_up_to_date, endpoint);
    assert_int_equal(webhook("list", NULL, NULL)->code, 0);
    assert_int_equal(service_stop(deliverer), 0);
    assert_string_equal(redis_do(fixture, "EXISTS lock:webhooks"), "0");
}

DELIVER_CASE(test_deliver__sends_to_an_endpoint_of_the_api)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE], body[200];
    const char *added;

    endpoint = open_listener();
    snprintf(body, sizeof(body), "{\"url\":\"%s\"}", endpoint->url);
    added = EXPECT(request(service, admin(), body, "POST /v1/webhooks"), 201, NULL)->body;
    assert_int_equal(sscanf(strstr(added, "\"id\":"), "\"id\":\"%23[0-9]", endpoint->id),
                     1);
    assert_int_equal(
        sscanf(strstr(added, "\"secret\":"), "\"secret\":\"%38[^\"]", endpoint->secret),
        1);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    order(voucher_id, 7, order_id);
    fixture_deliver(fixture, env);
    ASSERT_BEGINS(receive_new(endpoint), "{\"type\":\"stock.changed\",");
    ASSERT_CONTAINS(receive_new(endpoint), order_id);
    AWAIT(is_up_to_date, endpoint);
    EXPECT(request(service, admin(), NULL, "GET /v1/webhooks/%s", endpoint->id), 200,
           NULL);
    EXPECT(request(service, admin(), NULL, "DELETE /v1/webhooks/%s", endpoint->id), 204,
           NULL);
    EXPECT(request(service, admin(), NULL, "DELETE /v1/webhooks/%s", endpoint->id), 404,
           NULL);
}

static const char elected[] = "event=webhooks_elected";

/* The deliverer is killed before the endpoint has answered. */
DELIVER_CASE(test_deliver__another_process_goes_on_after_a_kill)
{
    char voucher_id[ID_SIZE], order_ids[6][ID_SIZE], id[64];
    struct service *first, *second;

    endpoint = open_endpoint();
    first = fixture_deliver(fixture, env);
    service_await_log(first, elected);
    second = fixture_deliver(fixture, env);
    service_await_log(second, "event=dependency_up dependency=redis");
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    receive_new(endpoint);
    for (int i = 0; i < 6; i++)
        order(voucher_id, i + 1, order_ids[i]);
    expect_order(endpoint, order_ids[0]);
    ASSERT_CONTAINS(receive(endpoint), order_ids[1]);
    snprintf(id, sizeof(id), "%s", endpoint->last_id);
    assert_false(service_has_logged(second, elected));
    service_kill(first);
    while (strcmp((receive(endpoint), endpoint->last_id), id) != 0)
        answer(endpoint, OK_ANSWER);
    ASSERT_CONTAINS(body_of(endpoint), order_ids[1]);
    answer(endpoint, OK_ANSWER);
    remember(endpoint);
    service_await_log(second, elected);
    for (int i = 2; i < 6; i++)
        expect_order(endpoint, order_ids[i]);
}

static bool log_has(void *words)
{
    return strstr(webhook("log", endpoint->id, NULL)->out, words) != NULL;
}

/* Each event is answered in a way that is a failure, and must then arrive again. The server that a
   redirection names would answer POST /hook only. */
DELIVER_CASE(test_deliver__repeats_an_event_until_it_is_received)
{
    static char long_answer[70100] = "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n";
    static const char *const rows[][2] = {
        {"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n", "HTTP status 500"},
        {"HTTP/1.1 300 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
         "HTTP status 300"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "bytes remaining"},
        {long_answer, "the answer is longer than 64 KiB"},
        {"nonsense\r\n\r\n", "HTTP/0.9"},
        {"HTTP/1.1 200 OK\r\nContent-Le", "timed out"},
    };
    char voucher_id[ID_SIZE], order_id[ID_SIZE], id[64], words[80];
    struct service *deliverer;
    const char *deliveries;

    memset(long_answer + strlen(long_answer), 'x', 70000);
    endpoint = open_endpoint();
    deliverer = fixture_deliver(fixture, env);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    receive_new(endpoint);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_false(service_has_logged(deliverer, rows[i][1]));
        order(voucher_id, (int64_t)i + 1, order_id);
        ASSERT_CONTAINS(receive(endpoint), order_id);
        snprintf(id, sizeof(id), "%s", endpoint->last_id);
        answer(endpoint, rows[i][0]);
        if (i == 2 || i == 3)
            drop_connection(endpoint);
        service_await_log(deliverer, rows[i][1]);
        expect_order(endpoint, order_id);
        assert_string_equal(endpoint->last_id, id);
    }
    service_await_log(deliverer, "event=webhook_recovered");
    AWAIT(list_has, " enabled at ");
    snprintf(words, sizeof(words), " %s delivered in ", id);
    AWAIT(log_has, words);
    snprintf(words, sizeof(words), " %s failed in ", id);
    assert_true(log_has(words));
    deliveries = EXPECT(request(service, admin(), NULL, "GET /v1/webhooks/%s/deliveries",
                                endpoint->id),
                        200, NULL)
                     ->body;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        ASSERT_CONTAINS(deliveries, rows[i][1]);
    ASSERT_CONTAINS(
        EXPECT(request(service, admin(), NULL, "GET /v1/webhooks"), 200, NULL)->body,
        "\"state\":\"enabled\"");
}

/* There are more events than the deliverer has room for between two notes. */
DELIVER_CASE(test_deliver__logs_the_last_deliveries)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE];

    endpoint = open_endpoint();
    make_voucher(service, &(struct sale){.stock = 50}, voucher_id);
    for (int i = 0; i < 50; i++)
        order(voucher_id, i + 1, order_id);
    fixture_deliver(fixture, env);
    for (int i = 0; i < 51; i++)
        receive_new(endpoint);
    AWAIT(is_up_to_date, endpoint);
    assert_int_equal(sql_number(fixture,
                                "select count(distinct (event_id, at)) from"
                                " (select d.* from webhook, unnest(deliveries) with"
                                " ordinality d order by ordinality desc limit 32) last"),
                     32);
    assert_int_equal(sql_number(fixture,
                                "select (deliveries[cardinality(deliveries)]).event_id"
                                " from webhook"),
                     number_of(order_id));
}

DELIVER_CASE(test_deliver__sends_nothing_to_addresses_that_are_not_public)
{
    static const char *const no_networks[] = {"SECKILL_WEBHOOK_NETWORKS=10.0.0.0/8",
                                              NULL};
    char voucher_id[ID_SIZE];
    struct service *deliverer;

    endpoint = open_endpoint();
    deliverer = fixture_deliver(fixture, no_networks);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    service_await_log(deliverer, "the address is not public");
    assert_int_equal(poll(&(struct pollfd){endpoint->listener, POLLIN, 0}, 1, 0), 0);
    AWAIT(list_fails, NULL);
}

/* Whether /metrics of the service says that the endpoint is disabled. */
static bool metrics_say_disabled(void *of)
{
    char line[80];

    snprintf(line, sizeof(line), "\nseckill_webhook_disabled{webhook_id=\"%s\"} 1\n",
             ((struct endpoint *)of)->id);
    return strstr(request(service, NULL, NULL, "GET /metrics")->body, line) != NULL;
}

DELIVER_CASE(test_deliver__disables_an_endpoint_after_three_days)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE];
    struct service *deliverer;

    endpoint = open_endpoint();
    deliverer = fixture_deliver(fixture, env);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    receive_new(endpoint);
    order(voucher_id, 1, order_id);
    receive(endpoint);
    answer(endpoint, "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n");
    AWAIT(list_has, " failing at ");
    sql_do(fixture, "update webhook set failing_since = now() - interval '73 h'");
    receive(endpoint);
    answer(endpoint, "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n");
    service_await_log(deliverer, "event=webhook_disabled");
    assert_true(list_has(" disabled at "));
    AWAIT(metrics_say_disabled, endpoint);
    assert_int_equal(webhook("enable", endpoint->id, NULL)->code, 0);
    expect_order(endpoint, order_id);
}

static bool has_ended(void *of)
{
    struct pollfd fd = {((struct endpoint *)of)->conn, POLLIN, 0};
    char byte;

    return poll(&fd, 1, 0) > 0 && recv(fd.fd, &byte, 1, 0) <= 0;
}

/* The message under way is cancelled long before it times out. */
DELIVER_CASE(test_deliver__ends_with_the_endpoint)
{
    static const char *const long_lease[] = {"SECKILL_WEBHOOK_NETWORKS=127.0.0.0/8",
                                             "SECKILL_LOCK_LEASE_MS=20000", NULL};
    char voucher_id[ID_SIZE];
    struct service *deliverer;

    endpoint = open_endpoint();
    deliverer = fixture_deliver(fixture, long_lease);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    receive(endpoint);
    assert_int_equal(webhook("remove", endpoint->id, NULL)->code, 0);
    AWAIT(has_ended, endpoint);
    assert_false(service_has_logged(deliverer, "event=webhook_failed"));
    assert_int_equal(service_stop(deliverer), 0);
}

DELIVER_CASE(test_deliver__replays_from_a_cursor)
{
    char voucher_id[ID_SIZE], order_ids[2][ID_SIZE];
    char *cursor;

    endpoint = open_endpoint();
    cursor = sql_text(fixture, "select first || '_' || number from webhook where id = %s",
                      endpoint->id);
    fixture_deliver(fixture, env);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    receive_new(endpoint);
    for (int i = 0; i < 2; i++) {
        order(voucher_id, i + 1, order_ids[i]);
        expect_order(endpoint, order_ids[i]);
    }
    assert_int_equal(webhook("replay", endpoint->id, cursor)->code, 0);
    ASSERT_BEGINS(receive(endpoint), "{\"type\":\"stock.changed\"");
    assert_string_equal(endpoint->last_id, endpoint->seen[0]);
    answer(endpoint, OK_ANSWER);
    for (int i = 0; i < 2; i++) {
        ASSERT_CONTAINS(receive(endpoint), order_ids[i]);
        assert_string_equal(endpoint->last_id, endpoint->seen[i + 1]);
        answer(endpoint, OK_ANSWER);
    }
    free(cursor);
}

/* The endpoint answers while Postgres is away, so the position cannot be stored at once. A crash makes
   Postgres leave out numbers of a sequence. One more order shows that this gap stops nothing. */
DELIVER_CASE(test_deliver__goes_on_after_a_crash_of_postgres)
{
    char voucher_id[ID_SIZE], order_ids[4][ID_SIZE];

    endpoint = open_endpoint();
    fixture_deliver(fixture, env);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    receive_new(endpoint);
    for (int i = 0; i < 3; i++)
        order(voucher_id, i + 1, order_ids[i]);
    ASSERT_CONTAINS(receive(endpoint), order_ids[0]);
    fixture_servers(fixture, "kill", "postgres");
    answer(endpoint, OK_ANSWER);
    fixture_servers(fixture, "start", "postgres");
    remember(endpoint);
    service_await(service, "/readyz", 200);
    order(voucher_id, 4, order_ids[3]);
    for (int i = 1; i < 4; i++)
        expect_order(endpoint, order_ids[i]);
    AWAIT(is_up_to_date, endpoint);
}

/* After a failover of Redis the fences may be smaller than one that Postgres has seen. */
DELIVER_CASE(test_deliver__raises_a_fence_that_is_stale)
{
    char voucher_id[ID_SIZE];

    endpoint = open_endpoint();
    fixture_deliver(fixture, env);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    receive_new(endpoint);
    AWAIT(is_up_to_date, endpoint);
    sql_do(fixture, "update webhook set fence = fence + 1000000000");
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    ASSERT_BEGINS(receive_new(endpoint), "{\"type\":\"stock.changed\"");
    AWAIT(is_up_to_date, endpoint);
}

int main(void)
{
    return cases_run(setup, teardown);
}
