/* it_stream.c - GET /v1/vouchers/{id}/stream of a running sale. */
#include "app/test/fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct service *service;

static int setup(void **state)
{
    service = fixture_begin_group(state, NULL);
    return 0;
}

/* A connection and what it has received. */
struct listener {
    struct client *conn;
    size_t len;
    char text[8192];
    const char *wanted;
};

static void listen_to(struct service *from, const char *voucher_id,
                      struct listener *listener)
{
    static const char get[] = "GET /v1/vouchers/{}/stream HTTP/1.1\r\nHost: x\r\n\r\n";
    char head[128];

    memset(listener, 0, sizeof(*listener));
    listener->conn = client_open(&from->address);
    fill(get, voucher_id, head, sizeof(head));
    assert_true(client_write(listener->conn, head, strlen(head)));
}

static bool has_heard(void *arg)
{
    struct listener *listener = arg;
    ssize_t count = recv(client_fd(listener->conn), listener->text + listener->len,
                         sizeof(listener->text) - listener->len - 1, MSG_DONTWAIT);

    if (count > 0)
        listener->len += (size_t)count;
    return strstr(listener->text, listener->wanted) != NULL;
}

static void assert_heard(struct listener *listener, const char *wanted)
{
    listener->wanted = wanted;
    if (!becomes_true(has_heard, listener))
        fail_msg("expected %s: %s", wanted, listener->text);
}

static bool has_no_listener(void *arg UNUSED)
{
    const struct client_reply *reply =
        request(service, admin(), NULL, "GET /v1/debug/state");
    json_t *worker;
    size_t i;
    int64_t count = 0;

    json_array_foreach(json_object_get(reply->json, "workers"), i, worker)
    {
        json_t *http = json_object_get(json_object_get(worker, "state"), "http");

        count += http != NULL ? json_integer_value(json_object_get(http, "stream")) : 1;
    }
    return count == 0;
}

static void test_stream__says_what_is_sold(void **state UNUSED)
{
    char id[ID_SIZE];
    struct listener listener;

    make_voucher(service, &(struct sale){.stock = 3}, id);
    listen_to(service, id, &listener);
    assert_heard(&listener,
                 "data: {\"stock_left\":3,\"state\":\"open\",\"server_time\":");
    EXPECT(place_order(service, 1, id, NULL), 201, NULL);
    assert_heard(&listener, "{\"stock_left\":2,");
    EXPECT(request(service, admin(), "{\"add\":5}", "POST /v1/vouchers/%s/restock", id),
           200, NULL);
    assert_heard(&listener, "{\"stock_left\":7,");
    client_abort(listener.conn);
    AWAIT(has_no_listener, NULL);
}

/* -- descriptors -- */

#define FILES     400
#define LISTENERS 380

/* Start a service with this limit of open files. */
static struct service *serve_limited(struct fixture *fixture)
{
    const char *const env[] = {"SECKILL_WORKERS=1", NULL};
    char program[sizeof(fixture->program)], path[sizeof(fixture->program)];
    struct service *limited;
    FILE *file;

    snprintf(path, sizeof(path), "%s/limited", fixture->dir);
    file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", FILES, fixture->program);
    fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
    memcpy(program, fixture->program, sizeof(program));
    memcpy(fixture->program, path, sizeof(path));
    limited = fixture_spawn(fixture, env);
    memcpy(fixture->program, program, sizeof(program));
    service_await(limited, "/readyz", 200);
    assert_int_equal(fixture_run(fixture, NULL,
                                 (const char *[]){"grep", "event=file_limit files=400",
                                                  limited->log_path, NULL})
                         ->code,
                     0);
    return limited;
}

struct sale_of {
    struct service *service;
    char voucher_id[ID_SIZE];
    int64_t user_id; /* shopper of the last order */
};

static bool is_order_placed(void *arg)
{
    struct sale_of *sale = arg;

    return reply_is(place_order(sale->service, ++sale->user_id, sale->voucher_id, NULL),
                    201, "");
}

/* The service can place orders even if it must reopen all connections to Postgres. */
static void test_stream__leaves_descriptors_for_orders(void **state)
{
    static struct listener listeners[LISTENERS];
    struct fixture *fixture = *state;
    struct sale_of sale = {.service = serve_limited(fixture)};
    size_t kept = 0;

    make_voucher(sale.service, &(struct sale){.stock = 1000}, sale.voucher_id);
    for (size_t i = 0; i < LISTENERS; i++) {
        listen_to(sale.service, sale.voucher_id, &listeners[i]);
        assert_heard(&listeners[i], "\r\n\r\n");
        kept += strstr(listeners[i].text, "Content-Length: ") == NULL;
    }
    assert_in_range(kept, 100, (FILES - 128) / 4 * 3);
    sql_do(fixture, "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                    " where usename = '" SERVICE_ROLE "'");
    AWAIT(is_order_placed, &sale);
    for (size_t i = 0; i < LISTENERS; i++)
        client_close(listeners[i].conn);
    assert_int_equal(service_stop(sale.service), 0);
}

/* The service does not wait for listeners. */
static void test_drain__ends_streams(void **state)
{
    struct service *drained = fixture_serve(*state, NULL);
    struct listener listener;
    char id[ID_SIZE];

    make_voucher(drained, &(struct sale){.stock = 3}, id);
    listen_to(drained, id, &listener);
    assert_heard(&listener, "data: ");
    service_signal(drained, SIGTERM);
    assert_true(client_ends(listener.conn, CLIENT_TIMEOUT_MS));
    client_close(listener.conn);
    assert_int_equal(service_wait(drained), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_stream__says_what_is_sold),
        CASE(test_stream__leaves_descriptors_for_orders),
        CASE(test_drain__ends_streams),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
