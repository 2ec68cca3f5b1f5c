/* it_fault_bounds.c - every request is answered, even if a row is locked or the queue is full. */
#include "app/test/sale/fault_fixture.h"

#define CLIENTS 100

static struct service *patient; /* creates the vouchers, with default settings */
static struct service *service;

static int setup(void **state)
{
    patient = fixture_begin_group(state, NULL);
    fixture = *state;
    return 0;
}

SERVICE_CASE(test_deadline__answers_an_order_that_hangs)
{
    const char *const env[] = {"SECKILL_ORDER_TIMEOUT_MS=700", NULL};
    struct client *clients[CLIENTS];
    struct attempt attempt;

    attempt.service = service = fixture_serve(fixture, env);
    make_known(patient, service, 1000, attempt.voucher_id);
    hold_row(attempt.voucher_id);
    send_orders(service, attempt.voucher_id, 1, clients, CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client_reply *reply = client_read(clients[i], &patience);

        if (!reply_is(reply, 503, "outcome_unknown"))
            EXPECT(reply, 503, "unavailable");
        ASSERT_BETWEEN(reply_retry_after(reply), 1, 60);
        client_close(clients[i]);
    }
    release_rows();
    service_await(service, "/readyz", 200);
    for (attempt.user_id = 1; attempt.user_id <= CLIENTS; attempt.user_id++)
        AWAIT(is_complete, &attempt);
    assert_int_equal(sql_live_orders(fixture, attempt.voucher_id), CLIENTS);
    assert_int_equal(service_stop(service), 0);
}

SERVICE_CASE(test_queue__above_its_limit_is_overloaded_at_once)
{
    static const char *const workers[] = {"SECKILL_WORKERS=1", "SECKILL_WORKERS=4"};
    char voucher_id[ID_SIZE];

    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        const char *env[] = {"SECKILL_QUEUE_MAX=10", workers[i], NULL};

        service = fixture_serve(fixture, env);
        make_known(patient, service, 1000, voucher_id);
        assert_queue_max(service, voucher_id, 10);
    }
}

int main(void)
{
    return cases_run(setup, fixture_end_group);
}
