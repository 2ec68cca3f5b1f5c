/* test_store_expiry.c - which statements expire orders, and when, in simulated time. */
#include "app/core/log.h"
#include "app/store/store_impl.h"

#include "app/test/simulated_time.h"
#include "test/asserts.h"

#include <endian.h>
#include <stdlib.h>

/* -- the fakes: the statement under way, and the log -- */

static uv_loop_t loop;
static struct expiry expiry;
static struct metrics metrics;
static struct store shop = {.options = {.loop = &loop, .metrics = &metrics},
                            .expiry = &expiry};
static struct call *under_way;
static enum statement sent;
static int64_t sent_voucher;
static unsigned count_sent, count_logged;

void *store_call_new(struct store *store, size_t size, store_query_cb done)
{
    struct call *call = calloc(1, size);

    assert_non_null(call);
    call->store = store;
    call->query.done = done;
    return call;
}

void store_call_free(struct call *call)
{
    free(call);
}

void store_send(enum role role, struct call *call, enum statement statement,
                const struct store_params *params)
{
    uint64_t voucher = 0;

    assert_int_equal(role, ROLE_EXPIRY);
    assert_null(under_way); /* one at a time */
    if (statement == STATEMENT_EXPIRE_BATCHES)
        memcpy(&voucher, params->bytes, sizeof(voucher));
    sent_voucher = (int64_t)be64toh(voucher);
    under_way = call;
    sent = statement;
    count_sent++;
}

void log_event(enum log_level level UNUSED, const char *event UNUSED,
               const char *format UNUSED, ...)
{
    count_logged++;
}

static void no_turn(void)
{
}

static int open_expiry(void **state UNUSED)
{
    simulated_time_reset();
    uv_loop_init(&loop);
    memset(&expiry, 0, sizeof(expiry));
    under_way = NULL;
    count_sent = count_logged = 0;
    store_start_expiry(&shop);
    return 0;
}

static int close_expiry(void **state UNUSED)
{
    assert_null(under_way);
    params_clear(&shop.params);
    uv_close((uv_handle_t *)&expiry.timer, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

/* -- answers -- */

static void answer(enum status status, PGresult *result)
{
    struct call *call = under_way;

    assert_non_null(call);
    under_way = NULL;
    call->query.done(&call->query, status, result, NULL);
    PQclear(result);
}

static PGresult *result_of(int columns)
{
    PGresAttDesc descriptions[2] = {{.name = (char[]){"a"}, .format = 1},
                                    {.name = (char[]){"b"}, .format = 1}};
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);

    assert_int_equal(PQsetResultAttrs(result, columns, descriptions), 1);
    return result;
}

static void set_number(PGresult *result, int row, int column, int64_t number)
{
    uint64_t wire = htobe64((uint64_t)number);

    assert_int_equal(PQsetvalue(result, row, column, (char *)&wire, (int)sizeof(wire)),
                     1);
}

static void answer_lead(bool is_leader)
{
    PGresult *result = result_of(1);

    assert_int_equal(sent, STATEMENT_LEAD_EXPIRY);
    set_number(result, 0, 0, is_leader);
    answer(STATUS_OK, result);
}

/* Answers that vouchers 1 to `count` have one overdue batch each. */
static void answer_due(int count)
{
    uint32_t array[8] = {htobe32(1), 0, htobe32(20), htobe32(1), htobe32(1), htobe32(8)};
    PGresult *result = result_of(2);

    assert_int_equal(sent, STATEMENT_DUE_BATCHES);
    for (int row = 0; row < count; row++) {
        set_number(result, row, 0, row + 1);
        assert_int_equal(PQsetvalue(result, row, 1, (char *)array, (int)sizeof(array)),
                         1);
    }
    answer(STATUS_OK, result);
}

static void answer_expired(int64_t voucher_id, enum status status, int64_t expired)
{
    PGresult *result = result_of(2);

    assert_int_equal(sent, STATEMENT_EXPIRE_BATCHES);
    assert_int_equal(sent_voucher, voucher_id);
    set_number(result, 0, 0, expired);
    set_number(result, 0, 1, 0);
    answer(status, result);
}

static void lead(void)
{
    simulated_time_pass_us(600000, no_turn);
    answer_lead(true);
    answer_due(0);
}

/* -- tests -- */

static void test_expiry__calls_follow_while_there_is_progress(void **state UNUSED)
{
    lead();
    simulated_time_pass_us(600000, no_turn);
    for (int i = 0; i < 100; i++) {
        answer_due(2);
        answer_expired(1, STATUS_OK, 500);
        answer_expired(2, STATUS_REFUSED, 0); /* the other vouchers are still tried */
    }
    assert_int_equal(expiry.expired, 50000);
    assert_int_equal(count_logged, 0);
    answer_due(0);
    assert_int_equal(count_logged, 2); /* the orders, and the refusal */
    assert_null(under_way);
    simulated_time_pass_us(600000, no_turn);
    answer_due(1);
    answer(STATUS_DOWN, NULL);
    assert_null(under_way);
    assert_int_equal(count_logged, 2);
}

static void test_expiry__only_the_leader_expires(void **state UNUSED)
{
    simulated_time_pass_us(600000, no_turn);
    answer_lead(false);
    assert_null(under_way);
    lead();
    expiry.is_leader = false; /* the session was lost */
    simulated_time_pass_us(600000, no_turn);
    answer_lead(false);
    assert_null(under_way);
}

/* An overdue order expires within 2 s, also if a call takes a second. */
static void test_expiry__a_read_every_600_ms_and_no_overlap(void **state UNUSED)
{
    lead();
    for (unsigned i = 3; i <= 10; i++) {
        simulated_time_pass_us(600000, no_turn);
        assert_int_equal(count_sent, i);
        answer_due(0);
    }
    simulated_time_pass_us(1600000, no_turn); /* this call is slow */
    assert_int_equal(count_sent, 11);
    answer_due(0);
    simulated_time_pass_us(600000, no_turn);
    assert_int_equal(count_sent, 12);
    answer_due(0);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, open_expiry, close_expiry)
    const struct CMUnitTest tests[] = {
        TEST(test_expiry__calls_follow_while_there_is_progress),
        TEST(test_expiry__only_the_leader_expires),
        TEST(test_expiry__a_read_every_600_ms_and_no_overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
