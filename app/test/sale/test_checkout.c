/* test_checkout.c - the checkout: its queues, its batches, and when they are sent. */
#include "app/sale/checkout_impl.h"
#include "app/test/sale/checkout_fixture.h"
#include "test/torture.h"

static struct call *submit_pair(void)
{
    assert_true(submit(1, 7) && submit(2, 7));
    answer_locks(RLOCK_OK);
    assert_int_equal(fake_store.calls[0].count, 2);
    return &fake_store.calls[0];
}

TEST_WITH(test_checkout_turn__sends_the_next_batch_when_the_row_is_free, .is_early = true)
{
    const struct call *pair = submit_pair();

    submit_locked(3, 7);
    assert_int_equal(fake_store.count, 1);
    pair->released(pair->arg);
    turn();
    assert_int_equal(fake_store.count, 2);
    assert_unanswered(1);
    assert_int_equal(fake_locks.held, 3);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_all_answered(1, 2, OUTCOME_PLACED);
    assert_unanswered(3);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(3, OUTCOME_PLACED);
}

TEST_WITH(test_checkout_turn__looks_up_what_was_released_and_lost, .is_early = true)
{
    const struct call *pair = submit_pair();
    const struct idmap *queues = &fixture.checkout->queues.map;

    pair->released(pair->arg);
    assert_non_null(idmap_get(queues, 7));
    answer_store(RLOCK_IO, 0);
    submit_locked(3, 7);
    pass_ms(TICK_MS);
    assert_int_equal(fake_store.count, 2);
    assert_int_equal(fake_store.calls[0].is_lookup + fake_store.calls[1].is_lookup, 1);
    answer_all();
    assert_all_answered(1, 3, OUTCOME_PLACED);
    assert_null(idmap_get(queues, 7));
}

TEST_WITH(test_checkout_turn__is_slow_if_the_row_was_held_long, .is_early = true)
{
    static const struct {
        int held_ms, durable_ms;
        bool is_slow;
    } rows[] = {
        {TIMEOUT_MS / 10 - 1, 0, false},
        {TIMEOUT_MS / 10, 0, true},
        {0, TIMEOUT_MS / 10, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct call pair = *submit_pair(), next;

        assert_non_null(pair.released);
        pass_ms(rows[i].held_ms);
        pair.released(pair.arg);
        pass_ms(rows[i].durable_ms);
        submit_locked(3, 7);
        pass_ms(2);
        if (fake_store.count != 2 || fake_store.calls[1].is_slow != rows[i].is_slow)
            fail_msg("row %zu: expected two batches, the second %s, got %zu", i,
                     rows[i].is_slow ? "slow" : "not slow", fake_store.count);
        next = fake_store.calls[1];
        next.released(next.arg);
        answer_store(RLOCK_OK, VERDICT_PLACED);
        submit_locked(4, 7);
        pass_ms(2);
        assert_false(fake_store.calls[1].is_slow);
        answer_all();
        memset(fixture.shoppers, 0, sizeof(fixture.shoppers));
    }
}

/* Sends a batch and answers it after early_ms if the batch may release its row early, and otherwise
   after plain_ms. Returns whether the batch may release its row early. */
static bool is_early_if(int early_ms, int plain_ms)
{
    bool is_early = submit_pair()->released != NULL;

    pass_ms(is_early ? early_ms : plain_ms);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    memset(fixture.shoppers, 0, sizeof(fixture.shoppers));
    return is_early;
}

TEST(test_checkout_turn__releases_early_only_if_it_may)
{
    assert_false(is_early_if(0, 0));
}

/* While the first order is alone, an early release is of no use. Later the early batches take
   longer than the plain batches, as on a busy Postgres. So the checkout must choose plain
   release. */
TEST_WITH(test_checkout_turn__releases_early_only_if_that_is_faster, .is_early = true)
{
    submit_locked(1, 7);
    assert_null(fake_store.calls[0].released);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_true(is_early_if(20, 10));
    for (int i = 0; i < 60; i++)
        is_early_if(20, 10);
    for (int i = 0; i < 50; i++)
        assert_false(is_early_if(20, 10));
}

/* Sends one order while another one waits for its lock, and answers it after 20 ms if its batch may
   release its row early, and otherwise after 10 ms. Each call takes 30 ms. Returns whether the batch
   may release its row early. */
static bool is_single_early(void)
{
    bool is_early;

    submit_locked(1, 7);
    is_early = fake_store.calls[0].released != NULL;
    pass_ms(is_early ? 20 : 10);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    pass_ms(is_early ? 10 : 20);
    return is_early;
}

/* Both ways place as many orders per second, so the waits decide. The way that is not chosen is tried
   from time to time. */
TEST_WITH(test_checkout_turn__releases_early_only_if_orders_wait_less, .is_early = true)
{
    struct rlock *other;
    int early = 0;

    assert_true(submit(2, 8));
    other = fake_locks.requested[0];
    fake_locks.count = 0;
    assert_true(is_single_early());
    for (int i = 0; i < 100; i++)
        is_single_early();
    for (int i = 0; i < 100; i++)
        early += is_single_early();
    ASSERT_NUMBER(early, <, 40);
    fake_locks.requested[fake_locks.count++] = other;
    answer_locks(RLOCK_BUSY);
}

TEST(test_checkout_turn__batches_grow_while_one_commits)
{
    submit_locked(1, 7);
    assert_int_equal(fake_store.calls[0].count, 1);
    for (int user = 2; user <= 6; user++)
        submit_locked(user, 7);
    assert_int_equal(fake_store.count, 1);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(1, OUTCOME_PLACED);
    assert_int_equal(fixture.shoppers[1].order_id, 1001);
    assert_sent(2, 6);
    answer_store(RLOCK_OK, VERDICT_SOLD_OUT);
    assert_answered(6, OUTCOME_SOLD_OUT);
    assert_int_equal(fake_locks.released, 6);
}

TEST(test_checkout_turn__serves_vouchers_in_turns)
{
    for (int user = 1; user <= 20; user++)
        submit_locked(user, 7);
    submit_locked(21, 8);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_int_equal(fake_store.calls[0].voucher_id, 8);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_answered(21, OUTCOME_PLACED);
    assert_int_equal(fake_store.calls[0].voucher_id, 7);
    assert_int_equal(fake_store.calls[0].count, 8);
    answer_all();
    assert_answered(20, OUTCOME_PLACED);
}

static void on_input(uv_async_t *input UNUSED)
{
}

/* Voucher 7 is slow. While the batch of voucher 8 is delayed, voucher 7 must stay among the slow
   vouchers, which need slow_room. */
TEST(test_checkout_turn__delays_2_ms_while_input_waits)
{
    uv_async_t input;

    submit_locked(1, 7);
    pass_ms(TIMEOUT_MS / 100);
    fake_store.slow_room = 0;
    answer_store(RLOCK_BUSY, 0);
    fake_store.slow_room = 1;
    uv_async_init(&fixture.loop, &input, on_input);
    uv_run(&fixture.loop, UV_RUN_NOWAIT);
    uv_async_send(&input);
    submit_locked(2, 8);
    assert_int_equal(fake_store.count, 0);
    fake_store.slow_room = 0;
    assert_null(simulated_timer_next(clock_mono_us() + 1999));
    assert_non_null(simulated_timer_next(clock_mono_us() + 2000));
    pass_us(1999);
    assert_int_equal(fake_store.count, 0);
    pass_us(1);
    assert_sent(2, 2);
    pass_ms(1);
    assert_null(simulated_timer_next(clock_mono_us() + 9000));
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_int_equal(fake_store.count, 0);
    fake_store.slow_room = 1;
    turn();
    assert_true(fake_store.calls[0].is_slow);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    uv_close((uv_handle_t *)&input, NULL);
    uv_run(&fixture.loop, UV_RUN_DEFAULT);
}

TEST_WITH(test_checkout_turn__keeps_orders_without_memory, .batch_max = (size_t)1 << 57)
{
    submit_locked(1, 7);
    assert_int_equal(fake_store.count, 0);
    assert_unanswered(1);
    pass_ms(TIMEOUT_MS);
    assert_answered(1, OUTCOME_UNAVAILABLE);
}

TEST(test_checkout_create__without_memory)
{
    struct checkout_options options = {.loop = &fixture.loop};

    torture_fail(1, 0);
    assert_null(checkout_create(&options));
    assert_true(torture_stop());
}

TEST(test_checkout__outcome_of_each_verdict)
{
    static const struct {
        enum verdict verdict;
        enum outcome outcome;
    } rows[] = {
        {VERDICT_NONE, OUTCOME_UNKNOWN}, /* the store could not read the answer */
        {VERDICT_PLACED, OUTCOME_PLACED},
        {VERDICT_REPEATED, OUTCOME_REPEATED},
        {VERDICT_ALREADY_ORDERED, OUTCOME_ALREADY_ORDERED},
        {VERDICT_SOLD_OUT, OUTCOME_SOLD_OUT},
        {VERDICT_NOT_STARTED, OUTCOME_NOT_STARTED},
        {VERDICT_SALE_ENDED, OUTCOME_SALE_ENDED},
        {VERDICT_NO_VOUCHER, OUTCOME_NO_VOUCHER},
        {VERDICT_TICKET_REQUIRED, OUTCOME_TICKET_REQUIRED},
        {VERDICT_MISDIRECTED, OUTCOME_MISDIRECTED},
    };

    for (int i = 0; i < (int)(sizeof(rows) / sizeof(rows[0])); i++) {
        place(i + 1, 7, rows[i].verdict);
        assert_answered(i + 1, rows[i].outcome);
    }
    assert_int_equal(fake_log.unknown, 1);
}

TEST(test_checkout_turn__delays_2_ms_while_a_request_is_handed_over)
{
    const struct checkout_request request = {
        .voucher_id = 7, .user_id = 2, .arrived_us = clock_mono_us()};

    assert_true(checkout_reserve(fixture.checkout));
    submit_locked(1, 7);
    assert_int_equal(fake_store.count, 0);
    pass_us(1000);
    assert_true(checkout_submit_reserved(fixture.checkout, &request, on_answer,
                                         &fixture.shoppers[2]));
    answer_locks(RLOCK_OK);
    assert_sent(1, 2);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_true(checkout_reserve(fixture.checkout));
    submit_locked(3, 7);
    pass_us(1999);
    assert_int_equal(fake_store.count, 0);
    pass_us(1);
    assert_sent(3, 3);
    answer_store(RLOCK_OK, VERDICT_PLACED);
    assert_true(checkout_submit_reserved(fixture.checkout, &request, on_answer,
                                         &fixture.shoppers[4]));
    answer_locks(RLOCK_BUSY);
}

TEST(test_checkout__batch_has_the_earliest_deadline)
{
    for (int first = 1; first <= 4; first += 3) {
        int64_t deadline_us = clock_mono_us() + TIMEOUT_MS * INT64_C(1000);

        set_room(0);
        for (int user = first; user < first + 3; user++) {
            submit_locked(user, 7);
            pass_us(5);
        }
        set_room(1);
        assert_int_equal(fake_store.calls[0].deadline_us, deadline_us);
        answer_store(RLOCK_OK, VERDICT_PLACED);
    }
    assert_int_equal(fixture.metrics.batch_orders.sum, 6);
}

TEST(test_checkout__snapshot_of_a_batch_is_for_the_catalogue)
{
    fake_store.has_snapshot = true;
    place(1, 7, VERDICT_PLACED);
    assert_int_equal(fake_store.snapshots, 1);
    fake_store.has_snapshot = false;
    place(2, 7, VERDICT_PLACED);
    assert_int_equal(fake_store.snapshots, 1);
}

static char *print_queues(void)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    checkout_print_queues(fixture.checkout, out);
    fclose(out);
    return text;
}

TEST(test_checkout_print_queues__prints_the_queues_with_orders)
{
    char *text;

    fake_store.room = 2;
    submit_locked(1, 7); /* sent, so voucher 7 is busy */
    submit_locked(2, 7);
    submit_locked(3, 7);
    pass_us(500);
    submit_locked(4, 8); /* sent */
    text = print_queues();
    assert_string_equal(text, "{\"voucher_id\":\"7\",\"depth\":2,\"oldest_us\":500,"
                              "\"is_busy\":1,\"is_slow\":0}");
    free(text);
    answer_all();
}

TEST(test_checkout_print_queues__prints_twenty_at_most)
{
    size_t printed = 0;
    char *text;

    set_room(0);
    for (int user = 1; user <= 21; user++)
        submit_locked(user, user);
    text = print_queues();
    for (const char *at = text; at != NULL; at = strstr(at, "},{")) {
        printed++;
        at++;
    }
    assert_int_equal(printed, 20);
    free(text);
    set_room(1);
    answer_all();
}

/* AddressSanitizer calls this function. calloc() must return NULL for a batch that is too large. */
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

int main(void)
{
    return cases_run(NULL, NULL);
}
