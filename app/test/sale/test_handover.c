/* test_handover.c - requests and answers between two loops, with a fake checkout and catalogues. */
#include "app/sale/handover.h"

#include "app/test/simulated_time.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <stdio.h>
#include <stdlib.h>

#define KEY   "0123456789012345678901234567890123456789012345678901234567890123"
#define TRACE "request_id=r"

/* -- the fakes -- */

enum { SELLER, OTHER, LOOPS };

static struct {
    bool is_full, is_out_of_memory;
    size_t places;
    size_t count;
    struct {
        struct checkout_request request;
        checkout_cb callback;
        void *arg;
        bool has_place;
    } accepted[10];
    struct voucher_snapshot shared;
    struct voucher_snapshot updated;
    int64_t updated_us;
} fake;

static struct loop {
    uv_loop_t uv;
    struct handover *handover;
    struct metrics metrics;
} loops[LOOPS];

/* Checkout and catalogues are only compared by their addresses, so they are not created. */
static struct checkout *const checkout = (struct checkout *)(uintptr_t)&fake;

static struct catalogue *catalogue_of(int loop)
{
    return (struct catalogue *)(uintptr_t)&loops[loop];
}

static bool accept_request(const struct checkout_request *request, checkout_cb callback,
                           void *arg, bool has_place)
{
    if (fake.is_out_of_memory)
        return false;
    fake.accepted[fake.count].request = *request;
    fake.accepted[fake.count].callback = callback;
    fake.accepted[fake.count].arg = arg;
    fake.accepted[fake.count++].has_place = has_place;
    return true;
}

bool checkout_reserve(struct checkout *at)
{
    assert_ptr_equal(at, checkout);
    fake.places += !fake.is_full;
    return !fake.is_full;
}

bool checkout_submit(struct checkout *at, const struct checkout_request *request,
                     checkout_cb callback, void *arg)
{
    assert_ptr_equal(at, checkout);
    return !fake.is_full && accept_request(request, callback, arg, false);
}

bool checkout_submit_reserved(struct checkout *at, const struct checkout_request *request,
                              checkout_cb callback, void *arg)
{
    assert_ptr_equal(at, checkout);
    assert_true(fake.places > 0);
    fake.places--;
    return accept_request(request, callback, arg, true);
}

int64_t catalogue_share(struct catalogue *catalogue, int64_t id,
                        struct voucher_snapshot *ret_snapshot)
{
    assert_ptr_equal(catalogue, catalogue_of(SELLER));
    assert_int_equal(id, 7);
    if (fake.shared.voucher_id == 0)
        return 0;
    *ret_snapshot = fake.shared;
    return 42;
}

void catalogue_update(struct catalogue *catalogue,
                      const struct voucher_snapshot *snapshot, int64_t taken_us)
{
    assert_ptr_equal(catalogue, catalogue_of(OTHER));
    fake.updated = *snapshot;
    fake.updated_us = taken_us;
}

/* -- the fixture -- */

static struct answer {
    int count;
    enum outcome outcome;
    int64_t order_id; /* 0: no order */
} answers[10];

static void on_answer(enum outcome outcome, const struct order *order, void *arg)
{
    struct answer *answer = arg;

    answer->count++;
    answer->outcome = outcome;
    answer->order_id = order != NULL ? order->id : 0;
}

static void open_loop(int number)
{
    struct loop *loop = &loops[number];
    const struct handover_options options = {
        .loop = &loop->uv,
        .seller = number == SELLER ? NULL : loops[SELLER].handover,
        .checkout = number == SELLER ? checkout : NULL,
        .catalogue = catalogue_of(number),
        .metrics = &loop->metrics};

    uv_loop_init(&loop->uv);
    loop->handover = handover_create(&options);
    assert_non_null(loop->handover);
    uv_run(&loop->uv,
           UV_RUN_NOWAIT); /* libuv watches a handle only from its first turn on */
}

static void close_loop(int number)
{
    struct loop *loop = &loops[number];

    handover_close(loop->handover);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop->uv), 0);
}

static int open_loops(void **state UNUSED)
{
    memset(&fake, 0, sizeof(fake));
    memset(loops, 0, sizeof(loops));
    memset(answers, 0, sizeof(answers));
    simulated_time_reset();
    open_loop(SELLER);
    open_loop(OTHER);
    return 0;
}

static int close_loops(void **state UNUSED)
{
    close_loop(OTHER);
    close_loop(SELLER);
    return 0;
}

#define TEST(name) DEFINE_CASE(name, name, open_loops, close_loops, NULL)

static void turn(int loop)
{
    uv_run(&loops[loop].uv, UV_RUN_NOWAIT);
    handover_turn(loops[loop].handover);
}

static bool submit(int loop, int64_t user_id)
{
    const struct checkout_request request = {
        .voucher_id = 7, .user_id = user_id, .arrived_us = clock_mono_us()};

    return handover_submit(loops[loop].handover, &request, on_answer, &answers[user_id]);
}

static void answer(enum outcome outcome, int64_t order_id)
{
    const struct order order = {.id = order_id};

    assert_true(fake.count > 0);
    fake.accepted[0].callback(outcome, order_id == 0 ? NULL : &order,
                              fake.accepted[0].arg);
    fake.count--;
    memmove(&fake.accepted[0], &fake.accepted[1], fake.count * sizeof(fake.accepted[0]));
}

static void assert_answer(int64_t user_id, enum outcome outcome, int64_t order_id)
{
    ASSERT_NUMBER(answers[user_id].count, ==, 1);
    assert_int_equal(answers[user_id].outcome, outcome);
    ASSERT_NUMBER(answers[user_id].order_id, ==, order_id);
}

/* -- tests -- */

static void reopen_other(void)
{
    close_loop(OTHER);
    open_loop(OTHER);
}

TEST(test_handover_submit__on_the_seller_is_no_handover)
{
    assert_true(submit(SELLER, 1));
    ASSERT_NUMBER(fake.count, ==, 1);
    assert_false(fake.accepted[0].has_place);
    ASSERT_NUMBER(fake.accepted[0].request.handed_us, ==, 0);
    answer(OUTCOME_PLACED, 71);
    assert_answer(1, OUTCOME_PLACED, 71);
    fake.is_full = true;
    assert_false(submit(SELLER, 2));
}

TEST(test_handover__requests_of_a_turn_go_together)
{
    for (int64_t user = 1; user <= 3; user++)
        assert_true(submit(OTHER, user));
    turn(SELLER);
    ASSERT_NUMBER(fake.count, ==, 0);
    turn(OTHER);
    turn(SELLER);
    ASSERT_NUMBER(fake.count, ==, 3);
    for (size_t i = 0; i < 3; i++)
        ASSERT_NUMBER(fake.accepted[i].request.user_id, ==, (int64_t)i + 1);
    answer(OUTCOME_PLACED, 71);
    answer(OUTCOME_SOLD_OUT, 0);
    turn(OTHER);
    ASSERT_NUMBER(answers[1].count, ==, 0);
    turn(SELLER);
    turn(OTHER);
    assert_answer(1, OUTCOME_PLACED, 71);
    assert_answer(2, OUTCOME_SOLD_OUT, 0);
    assert_false(handover_is_idle(loops[OTHER].handover));
    answer(OUTCOME_ALREADY_ORDERED, 73);
    turn(SELLER);
    turn(OTHER);
    assert_answer(3, OUTCOME_ALREADY_ORDERED, 73);
    assert_true(handover_is_idle(loops[OTHER].handover));
}

TEST(test_handover__copies_the_request)
{
    char key[] = KEY, trace[] = TRACE;
    const struct checkout_request request = {.voucher_id = 7,
                                             .user_id = 1,
                                             .key = {key, sizeof(key) - 1},
                                             .has_ticket = true,
                                             .arrived_us = 11,
                                             .trace = trace};
    const struct checkout_request *accepted = &fake.accepted[0].request;

    simulated_us = 500;
    assert_true(handover_submit(loops[OTHER].handover, &request, on_answer, &answers[1]));
    memset(key, 'x', sizeof(key));
    memset(trace, 'x', sizeof(trace));
    simulated_us = 600;
    turn(OTHER);
    turn(SELLER);
    ASSERT_NUMBER(accepted->voucher_id, ==, 7);
    ASSERT_NUMBER(accepted->user_id, ==, 1);
    ASSERT_NUMBER(accepted->key.len, ==, sizeof(KEY) - 1);
    assert_memory_equal(accepted->key.bytes, KEY, sizeof(KEY) - 1);
    assert_true(accepted->has_ticket && fake.accepted[0].has_place);
    ASSERT_NUMBER(accepted->arrived_us, ==, 11);
    ASSERT_NUMBER(accepted->handed_us, ==, 500);
    assert_string_equal(accepted->trace, TRACE);
    answer(OUTCOME_UNKNOWN, 0);
    turn(SELLER);
    turn(OTHER);
    assert_true(submit(OTHER, 2));
    turn(OTHER);
    turn(SELLER);
    assert_null(accepted->key.bytes);
    assert_null(accepted->trace);
    assert_false(accepted->has_ticket);
    answer(OUTCOME_PLACED, 72);
    turn(SELLER);
    turn(OTHER);
    assert_answer(2, OUTCOME_PLACED, 72);
}

TEST(test_handover__brings_a_snapshot_back)
{
    assert_true(submit(OTHER, 1) && submit(OTHER, 2));
    fake.updated_us = -1;
    turn(OTHER);
    turn(SELLER);
    answer(OUTCOME_PLACED, 71);
    turn(SELLER);
    turn(OTHER);
    ASSERT_NUMBER(fake.updated_us, ==, -1);
    fake.shared = (struct voucher_snapshot){.voucher_id = 7, .version = 3};
    answer(OUTCOME_PLACED, 72);
    turn(SELLER);
    turn(OTHER);
    ASSERT_NUMBER(fake.updated_us, ==, 42);
    ASSERT_NUMBER(fake.updated.version, ==, 3);
}

TEST(test_handover__measures_the_way_back)
{
    assert_true(submit(OTHER, 1));
    turn(OTHER);
    turn(SELLER);
    simulated_us += 1000;
    answer(OUTCOME_PLACED, 71);
    simulated_us += 30;
    turn(SELLER);
    turn(OTHER);
    ASSERT_NUMBER(loops[OTHER].metrics.stages[STAGE_HANDOVER].sum, ==, 30);
    ASSERT_NUMBER(loops[SELLER].metrics.stages[STAGE_HANDOVER].sum, ==, 0);
}

TEST(test_handover_submit__refuses_at_once)
{
    long before = torture_blocks();

    fake.is_full = true;
    assert_false(submit(OTHER, 1));
    assert_true(handover_is_idle(loops[OTHER].handover));
    fake.is_full = false;
    assert_true(submit(OTHER, 2));
    torture_fail(1, 0);
    assert_false(submit(OTHER, 3));
    assert_true(torture_stop());
    ASSERT_NUMBER(fake.places, ==, 1);
    turn(OTHER);
    turn(SELLER);
    answer(OUTCOME_PLACED, 72);
    turn(SELLER);
    turn(OTHER);
    assert_answer(2, OUTCOME_PLACED, 72);
    reopen_other();
    torture_expect_blocks(before);
}

TEST(test_handover__answers_overloaded_if_the_seller_has_no_memory)
{
    assert_true(submit(OTHER, 1));
    fake.is_out_of_memory = true;
    turn(OTHER);
    turn(SELLER);
    turn(OTHER);
    assert_answer(1, OUTCOME_OVERLOADED, 0);
    ASSERT_NUMBER(loops[SELLER].metrics.outcomes[OUTCOME_OVERLOADED], ==, 1);
}

TEST(test_handover_create__without_memory)
{
    const struct handover_options options = {.loop = &loops[OTHER].uv};

    torture_fail(1, 0);
    assert_null(handover_create(&options));
    assert_true(torture_stop());
    handover_close(NULL);
}

TEST(test_handover_is_idle__on_the_seller_when_it_is_alone)
{
    long before = torture_blocks();

    assert_true(submit(OTHER, 1) && submit(OTHER, 2));
    turn(OTHER);
    turn(SELLER);
    answer(OUTCOME_PLACED, 71);
    answer(OUTCOME_PLACED, 72);
    turn(SELLER);
    turn(OTHER);
    assert_false(handover_is_idle(loops[SELLER].handover));
    reopen_other();
    torture_expect_blocks(before);
    close_loop(OTHER);
    assert_true(handover_is_idle(loops[SELLER].handover));
    open_loop(OTHER);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
