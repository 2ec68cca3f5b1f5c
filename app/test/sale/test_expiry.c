/* test_expiry.c - when the store is called to expire orders, in simulated time. */
#include "app/sale/expiry.h"

#include "app/test/sale/simulated_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct {
    int calls;
    void (*callback)(enum status status, uint64_t expired, bool is_progress, void *arg);
    void *arg;
} fake_store;

void store_expire_orders(struct store *store UNUSED,
                         void (*callback)(enum status status, uint64_t expired,
                                          bool is_progress, void *arg),
                         void *arg)
{
    assert_null(fake_store.callback); /* one call at a time */
    fake_store.calls++;
    fake_store.callback = callback;
    fake_store.arg = arg;
}

static void answer(enum status status, uint64_t expired, bool is_progress)
{
    void (*callback)(enum status, uint64_t, bool, void *) = fake_store.callback;

    assert_non_null(callback);
    fake_store.callback = NULL;
    callback(status, expired, is_progress, fake_store.arg);
}

static void no_turn(void)
{
}

static uv_loop_t loop;

static int open_expiry(void **state)
{
    memset(&fake_store, 0, sizeof(fake_store));
    simulated_time_reset();
    uv_loop_init(&loop);
    *state = expiry_open(&loop, NULL);
    return *state != NULL ? 0 : -1;
}

static int close_expiry(void **state)
{
    expiry_close(*state);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void test_expiry__calls_follow_while_there_is_progress(void **state UNUSED)
{
    simulated_time_pass_us(600000, no_turn);
    assert_int_equal(fake_store.calls, 1);
    for (int i = 2; i < 100; i++) {
        answer(STATUS_OK, 500, true);
        assert_int_equal(fake_store.calls, i); /* at once */
    }
    answer(STATUS_OK, 0, false);
    assert_null(fake_store.callback);
    simulated_time_pass_us(600000, no_turn);
    assert_non_null(fake_store.callback);
    answer(STATUS_REFUSED, 0, true); /* of one voucher: the others follow */
    assert_non_null(fake_store.callback);
    answer(STATUS_DOWN, 0, false);
    assert_null(fake_store.callback);
}

/* An overdue order expires within 2 s, also if a call takes a second. */
static void test_expiry__a_call_every_600_ms_and_no_overlap(void **state UNUSED)
{
    for (int i = 1; i <= 8; i++) {
        simulated_time_pass_us(600000, no_turn);
        assert_int_equal(fake_store.calls, i);
        answer(STATUS_OK, 0, false);
    }
    simulated_time_pass_us(1000000, no_turn); /* this call is slow */
    assert_int_equal(fake_store.calls, 9);
    answer(STATUS_OK, 0, false);
    simulated_time_pass_us(600000, no_turn);
    assert_int_equal(fake_store.calls, 10);
    answer(STATUS_OK, 0, false);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, open_expiry, close_expiry)
    const struct CMUnitTest tests[] = {
        TEST(test_expiry__calls_follow_while_there_is_progress),
        TEST(test_expiry__a_call_every_600_ms_and_no_overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
