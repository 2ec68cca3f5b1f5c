/* it_race.c - many shoppers order at the same time, at two instances. */
#include "app/test/load_clients.h"

#include <stdlib.h>
#include <string.h>

static struct service *one, *two;

static int setup(void **state)
{
    struct fixture *fixture = fixture_open();

    *state = fixture;
    one = fixture_serve(fixture, NULL);
    two = fixture_serve(fixture, NULL);
    fixture_share_services(fixture);
    return 0;
}

/* Creates a voucher at one instance, and waits until the other knows it. */
static void make_everywhere(const struct sale *sale, char *ret_id)
{
    char target[64];

    make_voucher(one, sale, ret_id);
    snprintf(target, sizeof(target), "/v1/vouchers/%s", ret_id);
    service_await(two, target, 200);
}

static bool no_locks(void *arg)
{
    return redis_order_locks(arg) == 0;
}

SERVICE_CASE(test_race__a_thousand_for_a_hundred)
{
    struct order_burst burst = {.first_user = 1000};
    struct load_plan plan = {
        {one, two},           .connections = 64,      .requests = 1000,
        .write = burst_write, .answer = burst_answer, .arg = &burst};

    make_everywhere(&(struct sale){.stock = 100}, burst.voucher_id);
    assert_int_equal(load_run(&plan), 1000);
    assert_int_equal(burst.tally[TALLY_PLACED], 100);
    assert_int_equal(burst.tally[TALLY_SOLD_OUT], 900);
    assert_int_equal(sql_live_orders(*state, burst.voucher_id), 100);
    assert_int_equal(sql_broken_guarantees(*state), 0);
    AWAIT(no_locks, *state);
}

/* Requests of one shopper. Either all have the same key, or none has a key. */
struct repeats {
    struct order_burst burst;
    const char *key; /* a header line, or NULL */
    char order_id[ID_SIZE];
    /* number of answers that name another order than the first answer */
    size_t strangers;
};

static size_t repeats_write(size_t k, char *buf, size_t size, void *arg)
{
    struct repeats *repeats = arg;
    char target[64];
    struct client_request request = {.method = "POST", .target = target};

    (void)k;
    snprintf(target, sizeof(target), "/v1/vouchers/%s/orders", repeats->burst.voucher_id);
    request.headers = repeats->key;
    request.token = shopper(repeats->burst.first_user);
    return client_format(&request, buf, size);
}

static void repeats_answer(size_t k, const struct client_reply *reply, void *arg)
{
    struct repeats *repeats = arg;
    const char *id = reply_text(reply, reply->status == 409 ? "order_id" : "id");

    burst_answer(k, reply, &repeats->burst);
    if (id[0] == '\0')
        return;
    if (repeats->order_id[0] == '\0')
        snprintf(repeats->order_id, ID_SIZE, "%s", id);
    else if (strcmp(repeats->order_id, id) != 0)
        repeats->strangers++;
}

/* One request places the order. Without a key, the other answers are already_ordered. With a key,
   they repeat the order. */
SERVICE_CASE(test_race__fifty_requests_of_one_shopper_place_one_order)
{
    static const struct {
        const char *key;
        int per_user_limit;
        enum tally others;
    } rows[] = {{NULL, 1, TALLY_ALREADY_ORDERED},
                {"Idempotency-Key: one\r\n", 5, TALLY_REPEATED}};

    for (size_t i = 0; i < 20 * COUNT_OF(rows); i++) {
        size_t row = i % COUNT_OF(rows);
        struct repeats repeats = {.burst = {.first_user = 3000 + (int64_t)i},
                                  .key = rows[row].key};
        struct load_plan plan = {
            {one, two},        .connections = 50,      .requests = 50,
            .lock_step = true, .write = repeats_write, .answer = repeats_answer,
            .arg = &repeats};
        const size_t *tally = repeats.burst.tally;

        make_everywhere(
            &(struct sale){.stock = 100, .per_user_limit = rows[row].per_user_limit},
            repeats.burst.voucher_id);
        assert_int_equal(load_run(&plan), 50);
        assert_int_equal(tally[TALLY_PLACED], 1);
        assert_int_equal(tally[rows[row].others] + tally[TALLY_IN_PROGRESS], 49);
        assert_int_equal(repeats.strangers, 0);
        assert_int_equal(sql_live_orders(*state, repeats.burst.voucher_id), 1);
    }
    AWAIT(no_locks, *state);
}

int main(void)
{
    return cases_run(setup, fixture_end_group);
}
