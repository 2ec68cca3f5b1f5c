/* it_debug_state.c - what GET /v1/debug/state says about a sale that is stuck. */
#include "app/test/fixture.h"
#include "app/test/load_clients.h"

#include <stdlib.h>
#include <string.h>

#define WAITING 3 /* orders behind the one in the transaction */

static struct service *service;

static int setup(void **state)
{
    const char *const env[] = {"SECKILL_WORKERS=1", "SECKILL_BATCH_MAX=1",
                               "SECKILL_ORDER_TIMEOUT_MS=60000", NULL};

    service = fixture_begin_group(state, env);
    return 0;
}

/* The value at a path of the only worker, such as "state.queues.0.depth"; NULL: none. */
static json_t *look_up(const struct client_reply *reply, const char *path)
{
    json_t *at = json_array_get(json_object_get(reply->json, "workers"), 0);
    char copy[80], *rest = copy, *name;

    snprintf(copy, sizeof(copy), "%s", path);
    while ((name = strsep(&rest, ".")) != NULL)
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10))
                               : json_object_get(at, name);
    return at;
}

static int64_t number_at(const struct client_reply *reply, const char *path)
{
    json_t *found = look_up(reply, path);

    return json_is_integer(found) ? json_integer_value(found) : -1;
}

static const struct client_reply *read_state(void)
{
    return EXPECT(request(service, admin(), NULL, "GET /v1/debug/state"), 200, NULL);
}

/* Queries under way on the connections that carry orders. All these connections must be up. */
static int64_t count_pending(const struct client_reply *reply)
{
    json_t *connection;
    int64_t pending = 0;
    size_t i;

    json_array_foreach(look_up(reply, "state.postgres.connections"), i, connection)
    {
        if (strcmp(json_string_value(json_object_get(connection, "use")), "orders") == 0)
            pending += json_integer_value(json_object_get(connection, "pending"));
    }
    return pending;
}

/* One order is in a transaction, the others are in the queue. An order whose transaction has
   waited for a long time returns to the queue for a moment. */
static bool is_stuck(void *arg)
{
    const char *voucher_id = arg;
    const struct client_reply *reply = read_state();
    const char *queued = json_string_value(look_up(reply, "state.queues.0.voucher_id"));

    return number_at(reply, "stats.in_flight") == 1 + WAITING && queued != NULL &&
           strcmp(queued, voucher_id) == 0 &&
           number_at(reply, "state.queues.0.depth") == WAITING &&
           number_at(reply, "state.queues.0.oldest_us") > 0 &&
           number_at(reply, "state.queues.0.is_busy") == 1 &&
           number_at(reply, "state.http.working") == 1 + WAITING &&
           count_pending(reply) > 0;
}

static bool is_idle(void *arg UNUSED)
{
    const struct client_reply *reply = read_state();

    return number_at(reply, "stats.in_flight") == 0 &&
           json_array_size(look_up(reply, "state.queues")) == 0 &&
           number_at(reply, "state.http.working") == 0;
}

static struct client *start_order(struct order_burst *burst, size_t i)
{
    struct client *client = client_open(&service->address);
    char request[1024];

    assert_non_null(client);
    assert_true(
        client_write(client, request, burst_write(i, request, sizeof(request), burst)));
    return client;
}

/* The orders wait because the row of the voucher is locked. */
static void test_state__shows_the_orders_that_wait(void **state)
{
    struct order_burst burst = {.first_user = 1};
    struct client *clients[1 + WAITING];
    const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};
    const struct client_reply *reply;

    make_voucher(service, &(struct sale){.stock = 10}, burst.voucher_id);
    sql_session(*state, "select 1 from voucher for update");
    for (size_t i = 0; i <= WAITING; i++)
        clients[i] = start_order(&burst, i);
    AWAIT(is_stuck, burst.voucher_id);
    reply = read_state();
    assert_true(reply_number(reply, "resident_kib") > 0);
    assert_true(number_at(reply, "state.vouchers") >= 1);
    assert_true(number_at(reply, "state.user_limits_permille") >= 0);
    assert_int_equal(number_at(reply, "state.address_limits_permille"), 0);
    assert_int_equal(number_at(reply, "state.postgres.suspects"), 0);
    assert_int_equal(number_at(reply, "state.postgres.connections.0.is_up"), 1);
    assert_true(number_at(reply, "state.postgres.connections.0.pid") > 1);
    sql_session(*state, NULL);
    for (size_t i = 0; i <= WAITING; i++) {
        EXPECT(client_read(clients[i], &patience), 201, NULL);
        client_close(clients[i]);
    }
    AWAIT(is_idle, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_state__shows_the_orders_that_wait),
    };

    return cmocka_run_group_tests(tests, setup, fixture_end_group);
}
