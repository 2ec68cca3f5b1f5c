/*
 * it_fault_isolation.c - slow work delays no other work: vouchers whose rows are held, slow
 * transactions, mass expiry, heavy reads. All requests go to one event loop.
 */
#include "app/test/load_clients.h"
#include "base/clock.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX   70
#define PAYMENT    "{\"payment_ref\":\"%s\",\"amount_cents\":8000}"
#define SLACK_MS   20000 /* how late an answer may be on a busy machine */
#define BURST      300
#define TIMEOUT(s) "SECKILL_ORDER_TIMEOUT_MS=" s "000"

static const char *const env_6_s[] = {"SECKILL_WORKERS=1", TIMEOUT("6"), NULL};
static const char *const env_20_s[] = {"SECKILL_WORKERS=1", TIMEOUT("20"), NULL};
static const char *const env_60_s[] = {"SECKILL_WORKERS=1", TIMEOUT("60"), NULL};

static struct service *service; /* started by the running test */
static const struct client_wait patience = {.timeout_ms = CLIENT_TIMEOUT_MS};

/* Vouchers whose rows a session holds. Shoppers 1, 2, ... have one order each, for one voucher
   each. */
static struct held {
    size_t count;
    char voucher_ids[HELD_MAX][ID_SIZE];
    char order_ids[HELD_MAX][ID_SIZE];
    struct client *clients[HELD_MAX];
} held;

static int setup(void **state)
{
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

/* Removes what slows the server down, also after a failed test. */
static int mend(void **state)
{
    sql_session(*state, NULL);
    sql_do(*state, "set client_min_messages = error;"
                   " drop function if exists dawdle cascade;"
                   " drop sequence if exists transactions");
    return fixture_end_test(state);
}

#define ISOLATION(test) cmocka_unit_test_teardown(test, mend)

static void make_order(int64_t user_id, const char *voucher_id, char *ret_id)
{
    const struct client_reply *reply =
        EXPECT(place_order(service, user_id, voucher_id, NULL), 201, NULL);

    snprintf(ret_id, ID_SIZE, "%s", reply_text(reply, "id"));
}

static void make_held(size_t count)
{
    held.count = count;
    for (size_t i = 0; i < count; i++) {
        make_voucher(service, &(struct sale){.stock = 1000}, held.voucher_ids[i]);
        make_order(1 + (int64_t)i, held.voucher_ids[i], held.order_ids[i]);
    }
}

static void hold_rows(void **state)
{
    char ids[HELD_MAX * ID_SIZE] = "", statement[sizeof(ids) + 80];
    size_t len = 0;

    for (size_t i = 0; i < held.count; i++)
        len += (size_t)snprintf(ids + len, sizeof(ids) - len, "%s%s", i == 0 ? "" : ",",
                                held.voucher_ids[i]);
    snprintf(statement, sizeof(statement),
             "select 1 from voucher where id in (%s) for update", ids);
    sql_session(*state, statement);
}

/* Sends a request for each held voucher, each on a new connection, without waiting for answers. */
static void send_to_held(const char *pattern, char ids[][ID_SIZE])
{
    for (size_t i = 0; i < held.count; i++) {
        char target[64], bytes[1024];
        const struct client_request post = {
            .method = "POST", .target = target, .token = shopper(1 + (int64_t)i)};

        fill(pattern, ids[i], target, sizeof(target));
        held.clients[i] = client_open(&service->address);
        assert_true(client_write(held.clients[i], bytes,
                                 client_format(&post, bytes, sizeof(bytes))));
    }
}

static void cancel_held(void)
{
    send_to_held("/v1/orders/{}/cancel", held.order_ids);
}

static void assert_held_wait(void)
{
    for (size_t i = 0; i < held.count; i++)
        assert_null(client_poll(held.clients[i], false));
}

static void read_held(int status)
{
    for (size_t i = 0; i < held.count; i++) {
        EXPECT(client_read(held.clients[i], &patience), status, NULL);
        client_close(held.clients[i]);
    }
}

/* All changes time out. A worker has two connections for changes, so two changes may be under way
   at the deadline; their outcome is unknown unless Postgres has cancelled them. The others were
   not sent. */
static void read_held_in_vain(void)
{
    int unknown = 0;

    for (size_t i = 0; i < held.count; i++) {
        const struct client_reply *reply =
            EXPECT(client_read(held.clients[i], &patience), 503, NULL);

        if (strcmp(reply_text(reply, "code"), "outcome_unknown") == 0)
            unknown++;
        else
            assert_string_equal(reply_text(reply, "code"), "unavailable");
        client_close(held.clients[i]);
    }
    assert_in_range(unknown, 0, 2);
}

static void pay_order(const char *order_id)
{
    char body[100];

    snprintf(body, sizeof(body), PAYMENT, order_id);
    EXPECT(request(service, payment(), body, "POST /v1/orders/%s/pay", order_id), 200,
           NULL);
}

static int64_t metric(const char *name)
{
    const struct client_reply *reply =
        EXPECT(request(service, NULL, NULL, "GET /metrics"), 200, NULL);
    char start[80];
    const char *line;

    snprintf(start, sizeof(start), "\n%s ", name);
    line = strstr(reply->body, start);
    assert_non_null(line);
    return strtoll(line + strlen(start), NULL, 10);
}

static int64_t reconnects(void)
{
    return metric("seckill_reconnects_total{dependency=\"postgres\"}");
}

/* -- changes -- */

static void test_changes__held_vouchers_delay_no_other(void **state)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE];

    service = fixture_serve(*state, env_20_s);
    make_held(10);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    make_order(1, voucher_id, order_id);
    hold_rows(state);
    cancel_held();
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    pay_order(order_id);
    assert_held_wait();
    sql_session(*state, NULL);
    read_held(200);
    assert_int_equal(reconnects(), 0);
}

static void test_changes__are_answered_by_their_deadline(void **state)
{
    int64_t before_us;

    service = fixture_serve(*state, env_6_s);
    make_held(40);
    hold_rows(state);
    before_us = clock_mono_us();
    cancel_held();
    read_held_in_vain();
    assert_in_range(clock_mono_us() - before_us, 0, (6000 + SLACK_MS) * 1000);
    sql_session(*state, NULL);
    cancel_held();
    read_held(200);
}

/* A migration may lock a table like this. */
static void test_changes__and_all_else_while_a_table_is_locked(void **state)
{
    int64_t before_us;

    service = fixture_serve(*state, env_6_s);
    make_held(40);
    sql_session(*state, "lock table voucher in access exclusive mode");
    before_us = clock_mono_us();
    cancel_held();
    read_held_in_vain();
    assert_in_range(clock_mono_us() - before_us, 0, (6000 + SLACK_MS) * 1000);
    assert_int_equal(reconnects(), 0);
    sql_session(*state, NULL);
    cancel_held();
    read_held(200);
}

static void test_changes__the_drain_does_not_wait_longer(void **state)
{
    int64_t before_us;

    service = fixture_serve(*state, env_6_s);
    make_held(HELD_MAX);
    hold_rows(state);
    cancel_held();
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    before_us = clock_mono_us();
    service_signal(service, SIGTERM);
    read_held_in_vain();
    assert_int_equal(service_wait(service), 0);
    assert_in_range(clock_mono_us() - before_us, 0, (6000 + 5000 + SLACK_MS) * 1000);
    sql_session(*state, NULL);
}

/* -- orders -- */

static void test_orders__held_vouchers_delay_no_other(void **state)
{
    struct order_burst burst = {.first_user = 1000};
    struct load_plan plan = {.connections = 32,
                             .requests = BURST,
                             .write = burst_write,
                             .answer = burst_answer,
                             .arg = &burst};

    service = fixture_serve(*state, env_20_s);
    plan.services[0] = service;
    make_held(20);
    make_voucher(service, &(struct sale){.stock = BURST}, burst.voucher_id);
    cancel_held();
    read_held(200);
    hold_rows(state);
    send_to_held("/v1/vouchers/{}/orders", held.voucher_ids);
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    assert_int_equal(load_run(&plan), BURST);
    assert_int_equal(burst.tally[TALLY_PLACED], BURST);
    assert_held_wait();
    sql_session(*state, NULL);
    read_held(201);
    assert_int_equal(reconnects(), 0);
}

/* Makes orders slow. The trigger counts all transactions, also those that are rolled back. */
static void make_slow(struct fixture *fixture, double seconds)
{
    sql_do(fixture, "create sequence transactions");
    sql_do(fixture,
           "create function dawdle() returns trigger language plpgsql as $$ begin"
           " perform nextval('transactions'), pg_sleep(%f); return null; end $$",
           seconds);
    sql_do(fixture, "create trigger slow after insert on voucher_order"
                    " for each statement execute function dawdle()");
    sql_do(fixture, "grant usage on sequence transactions to " SERVICE_ROLE);
}

/* The transaction takes more than a sixth of the timeout and less than the timeout. */
static void test_orders__a_slow_transaction_sells_once(void **state)
{
    char voucher_id[ID_SIZE];

    service = fixture_serve(*state, env_20_s);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    make_slow(*state, 4);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
    assert_int_equal(sql_number(*state, "select last_value from transactions"), 1);
    assert_int_equal(sql_live_orders(*state, voucher_id), 1);
}

/* The service does not repeat a transaction that cannot end before its deadline. */
static void test_orders__a_transaction_that_is_too_slow_is_tried_once(void **state)
{
    char voucher_id[ID_SIZE];

    service = fixture_serve(*state, env_6_s);
    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    make_slow(*state, 60);
    EXPECT(place_order(service, 1, voucher_id, NULL), 503, "unavailable");
    assert_int_equal(sql_number(*state, "select last_value from transactions"), 1);
    assert_int_equal(reconnects(), 0);
    sql_do(*state, "drop function dawdle cascade");
    assert_int_equal(sql_live_orders(*state, voucher_id), 0);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
}

/* -- expiry -- */

#define MASS_VOUCHERS 30
#define MASS_ORDERS   500
#define MASS          ((int64_t)MASS_ORDERS * MASS_VOUCHERS)
#define HELD_BATCHES  1200
#define PAYMENTS      20

/* Makes all orders of these vouchers overdue. */
static void make_overdue(struct fixture *fixture, const char *voucher_ids, int hours)
{
    sql_do(fixture,
           "update voucher_order set expires_at = now() - interval '%d h',"
           " created_at = now() - interval '1 d' where voucher_id in (%s)",
           hours, voucher_ids);
}

static int64_t overdue(struct fixture *fixture)
{
    return sql_number(fixture, "select count(*) from voucher_order where"
                               " status = 'unpaid' and expires_at < now()");
}

static bool some_have_expired(void *arg)
{
    return overdue(arg) < MASS;
}

static bool none_is_overdue(void *arg)
{
    return overdue(arg) == 0;
}

/* A call of expiry takes about half a second, and all calls together take longer than a payment may
   wait. */
static void make_expiry_slow(struct fixture *fixture)
{
    sql_do(fixture,
           "create function dawdle() returns trigger language plpgsql as $$ begin"
           " perform pg_sleep(0.001); return null; end $$");
    sql_do(fixture, "create trigger slow after insert on order_event for each row"
                    " when (new.actor = 'system') execute function dawdle()");
}

static void test_expiry__of_many_delays_no_payment(void **state)
{
    char voucher_id[ID_SIZE], order_ids[PAYMENTS][ID_SIZE];

    service = fixture_serve(*state, env_20_s);
    make_voucher(service, &(struct sale){.stock = PAYMENTS}, voucher_id);
    for (int i = 0; i < PAYMENTS; i++)
        make_order(1 + i, voucher_id, order_ids[i]);
    make_expiry_slow(*state);
    sql_do(*state,
           "select count(*) from generate_series(1, %d) n, lateral"
           " create_voucher(nextval('voucher_id_seq'), 'mass', '', 1, 1, %d,"
           "  1, now() - interval '1 h', now() + interval '1 h', 3600 + n)",
           MASS_VOUCHERS, MASS_ORDERS);
    sql_do(*state,
           "select count(placed) from voucher, lateral place_orders(id, array(select"
           " generate_series(1::bigint, %d)), array_fill(0::bigint, array[%d]), null)"
           " placed where title = 'mass'",
           MASS_ORDERS, MASS_ORDERS);
    make_overdue(*state, "select id from voucher where title = 'mass'", 1);
    assert_true(becomes_true(some_have_expired, *state));
    for (int i = 0; i < PAYMENTS && overdue(*state) > 0; i++) {
        int64_t before = overdue(*state);

        pay_order(order_ids[i]);
        /* a few calls of expiry may end meanwhile, not all */
        assert_in_range(before - overdue(*state), 0, MASS / 3);
    }
    sql_do(*state, "drop function dawdle cascade");
    assert_true(becomes_true(none_is_overdue, *state));
    assert_int_equal(sql_broken_guarantees(*state), 0);
    assert_int_equal(reconnects(), 0);
}

static bool only_held_are_overdue(void *arg)
{
    return overdue(arg) == HELD_BATCHES;
}

/* More batches of the held voucher are due than one query returns, and they are due first. */
static void test_expiry__of_a_held_voucher_delays_no_other(void **state)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE];

    service = fixture_serve(*state, env_20_s);
    make_voucher(service, &(struct sale){.stock = 1000}, voucher_id);
    make_order(1, voucher_id, order_id);
    held.count = 1;
    make_voucher(service, &(struct sale){.stock = HELD_BATCHES}, held.voucher_ids[0]);
    sql_do(*state,
           "select count(placed) from generate_series(1::bigint, %d) u,"
           " lateral place_orders(%s, array[u], '{0}', null) placed",
           HELD_BATCHES, held.voucher_ids[0]);
    hold_rows(state);
    make_overdue(*state, held.voucher_ids[0], 2);
    make_overdue(*state, voucher_id, 1);
    assert_true(becomes_true(only_held_are_overdue, *state));
    sql_session(*state, NULL);
    assert_true(becomes_true(none_is_overdue, *state));
    assert_int_equal(sql_broken_guarantees(*state), 0);
}

static int64_t sessions_that_expire(struct fixture *fixture)
{
    return sql_number(fixture, "select count(*) from pg_locks where locktype = 'advisory'"
                               " and objid = 970750674 and granted");
}

static bool one_session_expires(void *arg)
{
    return sessions_that_expire(arg) == 1;
}

static void assert_expiry_works(struct fixture *fixture, int64_t user_id)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 1}, voucher_id);
    make_order(user_id, voucher_id, order_id);
    make_overdue(fixture, voucher_id, 1);
    assert_true(becomes_true(none_is_overdue, fixture));
    AWAIT(one_session_expires, fixture); /* the session of a stopped leader has ended */
}

static bool is_leader(void *arg)
{
    service = arg;
    return metric("seckill_expiry_leader") == 1;
}

/* @arg  two instances; the leader becomes the first */
static bool one_leads(void *arg)
{
    struct service **instances = arg, *other = instances[1];
    bool leads[2] = {is_leader(instances[0]), is_leader(instances[1])};

    if (leads[1]) {
        instances[1] = instances[0];
        instances[0] = other;
    }
    return leads[0] != leads[1];
}

static void test_expiry__one_instance_does_it_another_takes_over(void **state)
{
    struct service *instances[2] = {fixture_serve(*state, env_20_s),
                                    fixture_serve(*state, env_20_s)};
    struct service *leader;

    service = instances[0];
    assert_expiry_works(*state, 1);
    AWAIT(one_leads, instances);
    leader = instances[0];
    service = instances[1];
    service_signal(leader, SIGSTOP); /* its connections stay open */
    assert_expiry_works(*state, 2);
    AWAIT(is_leader, service);
    service_signal(leader, SIGCONT);
    service_kill(service);
    service = leader;
    assert_expiry_works(*state, 3);
    AWAIT(is_leader, service);
}

/* -- reads -- */

#define READS 450

struct mix {
    struct order_burst burst;
    size_t listed, refused;
    bool all_differ;
};

static bool is_order(size_t k)
{
    return k % 10 == 0;
}

static size_t mix_write(size_t k, char *buf, size_t size, void *arg)
{
    const struct mix *mix = arg;
    char target[64];
    const struct client_request get = {.method = "GET", .target = target};

    if (is_order(k))
        return burst_write(k, buf, size, arg);
    snprintf(target, sizeof(target), "/v1/vouchers?limit=100&cursor=0_%zu",
             mix->all_differ ? 1000000 + k : 1000000);
    return client_format(&get, buf, size);
}

static void mix_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct mix *mix = arg;

    if (is_order(k))
        burst_answer(k, reply, arg);
    else
        *(reply->status == 503 ? &mix->refused : &mix->listed) += reply->status > 0;
}

/* Reads lists of vouchers with long descriptions while others order. Each list has 400 KB. */
static void run_mix(void **state, struct mix *mix)
{
    struct load_plan plan = {.connections = 300,
                             .requests = READS,
                             .write = mix_write,
                             .answer = mix_answer,
                             .arg = mix};

    service = fixture_serve(*state, env_60_s);
    plan.services[0] = service;
    sql_do(*state,
           "select count(*) from generate_series(1, 100) n, lateral"
           " create_voucher(nextval('voucher_id_seq'), 'long', repeat('x', 4000), 1, 1,"
           "  1, 1, now() - interval '1 h', now() + interval '1 h', 3600 + n)");
    make_voucher(service, &(struct sale){.stock = READS}, mix->burst.voucher_id);
    assert_int_equal(load_run(&plan), READS);
    assert_int_equal(mix->burst.tally[TALLY_PLACED], READS / 10);
    assert_int_equal(mix->listed + mix->refused, READS - READS / 10);
    assert_int_equal(reconnects(), 0);
}

/* How often the table of vouchers was read. Sessions report this within a second. */
static int64_t reads_of_vouchers(struct fixture *fixture)
{
    return sql_number(fixture, "select coalesce(idx_scan, 0) + seq_scan"
                               " from pg_stat_user_tables where relname = 'voucher'");
}

static void test_reads__of_one_page_are_shared(void **state)
{
    struct mix mix = {.burst = {.first_user = 1}};
    int64_t before = reads_of_vouchers(*state);

    run_mix(state, &mix);
    assert_int_equal(mix.refused, 0);
    assert_in_range(reads_of_vouchers(*state) - before, 0, READS / 2);
}

static void test_reads__more_than_can_be_served_delay_no_order(void **state)
{
    struct mix mix = {.burst = {.first_user = 1}, .all_differ = true};

    run_mix(state, &mix);
    assert_true(mix.listed > 0);
}

/* Reads that wait for a table lock. */
static void test_reads__slow_ones_fail_alone(void **state)
{
    char voucher_id[ID_SIZE], order_id[ID_SIZE];
    struct client *clients[20];
    char bytes[1024], target[64];
    const struct client_request get = {
        .method = "GET", .target = target, .token = admin()};

    service = fixture_serve(*state, env_6_s);
    make_voucher(service, &(struct sale){.stock = 1}, voucher_id);
    make_order(1, voucher_id, order_id);
    fill("/v1/orders/{}/events", order_id, target, sizeof(target));
    sql_session(*state, "lock table order_event in access exclusive mode");
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        clients[i] = client_open(&service->address);
        assert_true(
            client_write(clients[i], bytes, client_format(&get, bytes, sizeof(bytes))));
    }
    EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
    EXPECT(request(service, admin(), NULL, "GET /v1/orders/%s", order_id), 200, NULL);
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        EXPECT(client_read(clients[i], &patience), 503, NULL);
        client_close(clients[i]);
    }
    sql_session(*state, NULL);
    EXPECT(request(service, admin(), NULL, "GET %s", target), 200, NULL);
    assert_int_equal(reconnects(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ISOLATION(test_changes__held_vouchers_delay_no_other),
        ISOLATION(test_changes__are_answered_by_their_deadline),
        ISOLATION(test_changes__and_all_else_while_a_table_is_locked),
        ISOLATION(test_changes__the_drain_does_not_wait_longer),
        ISOLATION(test_orders__held_vouchers_delay_no_other),
        ISOLATION(test_orders__a_slow_transaction_sells_once),
        ISOLATION(test_orders__a_transaction_that_is_too_slow_is_tried_once),
        ISOLATION(test_expiry__of_many_delays_no_payment),
        ISOLATION(test_expiry__of_a_held_voucher_delays_no_other),
        ISOLATION(test_expiry__one_instance_does_it_another_takes_over),
        ISOLATION(test_reads__of_one_page_are_shared),
        ISOLATION(test_reads__more_than_can_be_served_delay_no_order),
        ISOLATION(test_reads__slow_ones_fail_alone),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
