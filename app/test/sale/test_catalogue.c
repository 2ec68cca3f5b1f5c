/* test_catalogue.c - the catalogue with a scripted store and simulated time. */
#include "app/sale/catalogue.h"

#include "app/test/simulated_time.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <stdlib.h>

#define ENTRIES_MAX 262144

/* -- the fake store: one read at a time, answered by the test -- */

static struct {
    size_t reads;
    const int64_t *ids;
    size_t count;
    store_vouchers_cb callback;
    void *arg;
} fake_store;

void store_read_vouchers(struct store *store UNUSED, const int64_t *ids, size_t count,
                         store_vouchers_cb callback, void *arg)
{
    assert_null(fake_store.callback);
    assert_in_range(count, 0, 10000); /* the limits in store.h */
    fake_store.reads++;
    fake_store.ids = ids;
    fake_store.count = count;
    fake_store.callback = callback;
    fake_store.arg = arg;
}

/* -- the fixture -- */

static struct fixture {
    uv_loop_t loop;
    struct metrics metrics;
    struct catalogue *catalogue;
} fixture;

static int open_catalogue(void **state)
{
    memset(&fake_store, 0, sizeof(fake_store));
    simulated_time_reset();
    uv_loop_init(&fixture.loop);
    fixture.catalogue = catalogue_create(&fixture.loop, NULL, &fixture.metrics);
    *state = &fixture;
    return fixture.catalogue != NULL ? 0 : -1;
}

static int close_catalogue(void **state)
{
    struct fixture *f = *state;

    catalogue_close(f->catalogue);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&f->loop);
}

#define TEST(name) DEFINE_CASE(name, name, open_catalogue, close_catalogue, NULL)

TEST(test_catalogue_create__without_memory)
{
    torture_fail(1, 0);
    assert_null(catalogue_create(&fixture.loop, NULL, &fixture.metrics));
    assert_true(torture_stop());
}

static void turn(void)
{
    catalogue_turn(fixture.catalogue);
}

static void pass_us(int64_t us)
{
    simulated_time_pass_us(us, turn);
}

static const struct catalogue_entry *get(int64_t id)
{
    return catalogue_get(fixture.catalogue, id);
}

static void update(const struct voucher_snapshot *snapshot)
{
    catalogue_update(fixture.catalogue, snapshot, clock_mono_us());
}

struct reader {
    struct catalogue_wait wait;
    int answers;
    enum rlock_status status;
    int64_t stock_left;
    bool exists;
};

static void on_entry(enum rlock_status status, const struct catalogue_entry *entry,
                     void *arg)
{
    struct reader *reader = arg;

    reader->answers++;
    reader->status = status;
    if (status == RLOCK_OK) {
        reader->exists = entry->exists;
        reader->stock_left = entry->stock_left;
    }
}

static void start_read(int64_t id, struct reader *reader)
{
    *reader = (struct reader){0};
    catalogue_read(fixture.catalogue, id, &reader->wait, on_entry, reader);
    assert_int_equal(reader->answers, 0);
}

static void answer_read(enum rlock_status status, const struct voucher *voucher)
{
    store_vouchers_cb callback = fake_store.callback;

    assert_non_null(callback);
    fake_store.callback = NULL;
    callback(status, voucher, voucher != NULL, status == RLOCK_OK ? clock_real_us() : 0,
             fake_store.arg);
    turn();
}

static void answer_with_stock(int64_t id, int64_t stock_left)
{
    answer_read(RLOCK_OK, &(struct voucher){.id = id, .stock_left = stock_left});
}

static void read_voucher(int64_t id, int64_t stock_left)
{
    struct reader reader;

    start_read(id, &reader);
    turn();
    answer_with_stock(id, stock_left);
    assert_int_equal(reader.answers, 1);
    assert_int_equal(reader.status, RLOCK_OK);
}

/* -- reads -- */

TEST(test_catalogue_read__shares_one_query_per_turn)
{
    struct reader readers[3];

    start_read(7, &readers[0]);
    start_read(8, &readers[1]);
    start_read(7, &readers[2]);
    turn();
    assert_int_equal(fake_store.reads, 1);
    assert_int_equal(fake_store.count, 2);
    assert_int_equal(fake_store.ids[0], 7);
    assert_int_equal(fake_store.ids[1], 8);
    answer_read(RLOCK_OK, &(struct voucher){.id = 7,
                                            .stock_left = 5,
                                            .begin_us = 11,
                                            .end_us = 22,
                                            .requires_ticket = 1,
                                            .pow_bits = 8,
                                            .is_lottery = 1,
                                            .drawn_us = 33});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(readers[i].answers, 1);
        assert_int_equal(readers[i].exists, i != 1);
    }
    assert_int_equal(readers[2].stock_left, 5);
    assert_int_equal(get(7)->begin_us, 11);
    assert_int_equal(get(7)->end_us, 22);
    assert_true(get(7)->requires_ticket);
    assert_int_equal(get(7)->pow_bits, 8);
    assert_true(get(7)->is_lottery);
    assert_true(get(7)->is_drawn);
    start_read(7, &readers[0]);
    turn();
    answer_read(RLOCK_OK, &(struct voucher){.id = 7});
    assert_false(get(7)->is_lottery);
    assert_false(get(7)->is_drawn);
}

TEST(test_catalogue_read__failure_is_answered)
{
    struct reader reader;

    start_read(7, &reader);
    turn();
    answer_read(RLOCK_DOWN, NULL);
    assert_int_equal(reader.answers, 1);
    assert_int_equal(reader.status, RLOCK_DOWN);
    assert_null(get(7));
}

/* Requests for random ids must not fill the catalogue, so it keeps only the latest 4,096 ids that
   have no voucher. */
TEST(test_catalogue_read__of_more_vouchers_than_fit)
{
    struct reader *readers = calloc(ENTRIES_MAX, sizeof(*readers));
    struct reader reader;

    assert_non_null(readers);
    for (int64_t id = 1; id <= ENTRIES_MAX; id++)
        start_read(id, &readers[id - 1]);
    start_read(ENTRIES_MAX + 1, &reader);
    turn();
    assert_int_equal(reader.answers, 1);
    assert_int_equal(reader.status, RLOCK_NO_MEMORY);
    while (fake_store.callback != NULL)
        answer_read(RLOCK_OK, NULL);
    for (size_t i = 0; i < ENTRIES_MAX; i++)
        assert_int_equal(readers[i].answers, 1);
    free(readers);
    assert_non_null(get(ENTRIES_MAX));
    assert_non_null(get(ENTRIES_MAX - 4095));
    assert_null(get(ENTRIES_MAX - 4096));
    read_voucher(ENTRIES_MAX + 1, 5);
    assert_int_equal(get(ENTRIES_MAX + 1)->stock_left, 5);
}

/* -- age -- */

/* The age of an entry counts from the start of its read, not from its end. */
TEST(test_catalogue_get__valid_for_800_ms)
{
    struct reader reader;

    read_voucher(7, 5);
    pass_us(800000 - 1);
    assert_int_equal(get(7)->stock_left, 5);
    pass_us(1);
    assert_null(get(7));
    answer_with_stock(7, 5);
    start_read(8, &reader);
    turn();
    pass_us(800000);
    answer_with_stock(8, 5);
    assert_int_equal(reader.status, RLOCK_OK);
    assert_null(get(8));
}

TEST(test_catalogue_invalidate__ends_validity)
{
    read_voucher(7, 5);
    pass_us(1);
    catalogue_invalidate(fixture.catalogue, 8);
    assert_non_null(get(7));
    catalogue_invalidate(fixture.catalogue, 7);
    assert_null(get(7));
    pass_us(1);
    read_voucher(7, 4);
    assert_int_equal(get(7)->stock_left, 4);
    catalogue_invalidate(fixture.catalogue, 0); /* 0: every voucher */
    assert_null(get(7));
}

TEST(test_catalogue_invalidate__during_a_read_repeats_it)
{
    struct reader reader;

    start_read(7, &reader);
    turn();
    pass_us(1);
    catalogue_invalidate(fixture.catalogue, 7);
    pass_us(1);
    answer_with_stock(7, 5);
    assert_int_equal(reader.answers, 0);
    answer_with_stock(7, 4);
    assert_int_equal(reader.answers, 1);
    assert_int_equal(reader.stock_left, 4);
}

TEST(test_catalogue__entries_in_use_stay_valid)
{
    read_voucher(7, 5);
    for (int ms = 0; ms < 10000; ms++) {
        assert_non_null(get(7));
        pass_us(1000);
        if (fake_store.callback != NULL && ms % 100 == 0)
            answer_with_stock(7, 5);
    }
    assert_in_range(fake_store.reads, 10000 / 800, 10000 / 400 + 1);
}

TEST(test_catalogue__unused_entries_are_evicted_after_30_s)
{
    const struct voucher_snapshot snapshot = {.voucher_id = 7, .stock_left = 4};

    read_voucher(7, 5);
    pass_us(600000);
    answer_with_stock(7, 5);
    pass_us(29800000);
    update(&snapshot);
    assert_int_equal(get(7)->stock_left, 4); /* still there */
    pass_us(600000);
    answer_with_stock(7, 4);
    pass_us(30400000);
    assert_null(fake_store.callback);
    update(&snapshot);
    assert_null(get(7));
}

TEST(test_catalogue_update__counts_as_a_read)
{
    struct voucher_snapshot snapshot = {
        .voucher_id = 7, .version = 2, .stock_left = 3, .begin_us = 11, .end_us = 22};
    struct reader reader;

    update(&snapshot);
    assert_null(get(7));
    read_voucher(7, 5);
    start_read(7, &reader);
    turn();
    pass_us(700000);
    update(&snapshot);
    assert_int_equal(get(7)->stock_left, 3);
    assert_int_equal(get(7)->begin_us, 11);
    assert_int_equal(get(7)->end_us, 22);
    answer_with_stock(7, 5);
    assert_int_equal(reader.stock_left, 3);
}

/* If the catalogue of another loop knew a snapshot before the read began, the result of the read is
   at least as new. */
TEST(test_catalogue_update__with_a_snapshot_of_another_loop)
{
    struct voucher_snapshot snapshot = {.voucher_id = 7, .version = 2, .stock_left = 3};

    pass_us(5000);
    read_voucher(7, 5);
    catalogue_update(fixture.catalogue, &snapshot, clock_mono_us() - 1);
    assert_int_equal(get(7)->stock_left, 5);
    pass_us(300000);
    catalogue_update(fixture.catalogue, &snapshot, clock_mono_us() - 100000);
    assert_int_equal(get(7)->stock_left, 3);
    pass_us(699999);
    assert_non_null(get(7));
    pass_us(1);
    assert_null(get(7));
    answer_with_stock(7, 3);
}

TEST(test_catalogue_share__of_a_valid_entry)
{
    const struct voucher_snapshot update_of_batch = {
        .voucher_id = 7, .version = 2, .stock_left = 3, .begin_us = 11, .end_us = 22};
    struct voucher_snapshot snapshot = {.version = 99};

    assert_int_equal(catalogue_share(fixture.catalogue, 7, &snapshot), 0);
    assert_int_equal(snapshot.version, 99);
    turn();
    assert_int_equal(fake_store.count, 1);
    pass_us(1000);
    answer_with_stock(7, 5);
    assert_int_equal(catalogue_share(fixture.catalogue, 7, &snapshot),
                     clock_mono_us() - 1000);
    assert_int_equal(snapshot.stock_left, 5);
    pass_us(2);
    update(&update_of_batch);
    assert_int_equal(catalogue_share(fixture.catalogue, 7, &snapshot), clock_mono_us());
    assert_memory_equal(&snapshot, &update_of_batch, sizeof(snapshot));
    pass_us(1);
    catalogue_invalidate(fixture.catalogue, 7);
    assert_int_equal(catalogue_share(fixture.catalogue, 7, &snapshot), 0);
    pass_us(1);
    answer_read(RLOCK_OK, NULL);
    assert_false(get(7)->exists);
    assert_int_equal(catalogue_share(fixture.catalogue, 7, &snapshot), 0);
}

TEST(test_catalogue_share__without_memory)
{
    struct voucher_snapshot snapshot;

    torture_fail(1, 0);
    assert_int_equal(catalogue_share(fixture.catalogue, 7, &snapshot), 0);
    assert_true(torture_stop());
    turn();
    assert_null(fake_store.callback);
}

TEST(test_catalogue_read__without_memory)
{
    for (unsigned number = 1; number <= 2; number++) { /* the entry, and its place */
        long before = torture_blocks();
        struct reader reader;

        torture_fail(number, 0);
        start_read(7, &reader);
        assert_true(torture_stop());
        turn();
        assert_int_equal(reader.answers, 1);
        ASSERT_STATUS(reader.status, RLOCK_NO_MEMORY);
        torture_expect_blocks(before);
    }
}

/* A promoted standby may lack the last changes of the old primary. */
TEST(test_catalogue_read__believes_a_database_that_knows_less)
{
    struct voucher_snapshot snapshot = {.voucher_id = 7, .version = 9, .stock_left = 0};

    read_voucher(7, 5);
    pass_us(1);
    update(&snapshot);
    assert_int_equal(get(7)->stock_left, 0);
    pass_us(1);
    catalogue_invalidate(fixture.catalogue, 0);
    pass_us(1);
    read_voucher(7, 2); /* this row has version 0 */
    assert_int_equal(get(7)->stock_left, 2);
    snapshot.version = 1;
    snapshot.stock_left = 1;
    update(&snapshot);
    assert_int_equal(get(7)->stock_left, 1);
}

/* -- the database's clock -- */

static void answer_clock(int64_t database_us)
{
    store_vouchers_cb callback = fake_store.callback;

    fake_store.callback = NULL;
    callback(RLOCK_OK, NULL, 0, database_us, fake_store.arg);
}

static void read_clock(int64_t round_trip_us, int64_t database_us)
{
    struct reader reader;

    start_read(7, &reader);
    turn();
    simulated_us += round_trip_us;
    answer_clock(database_us);
}

TEST(test_catalogue_now__keeps_the_best_sample_for_10_s)
{
    int64_t error_us;

    read_clock(2000, 5000000);
    assert_int_equal(catalogue_now_us(fixture.catalogue, &error_us), 5001000);
    assert_int_equal(error_us, 1000);
    simulated_us += 9000000;
    read_clock(4000, 14100000); /* ignored: this reading is less exact */
    assert_int_equal(catalogue_now_us(fixture.catalogue, &error_us), 14005000);
    assert_int_equal(error_us, 1000);
    simulated_us += 1000000;
    read_clock(4000,
               15100000); /* this reading is less exact, but the first one is too old */
    assert_int_equal(catalogue_now_us(fixture.catalogue, &error_us), 15102000);
    assert_int_equal(error_us, 2000);
    read_clock(2000, 15200000); /* more exact */
    assert_int_equal(catalogue_now_us(fixture.catalogue, &error_us), 15201000);
    assert_int_equal(error_us, 1000);
    catalogue_invalidate(fixture.catalogue, 0);
    /* This reading is less exact, but the server may have changed. */
    read_clock(4000, 14000000);
    assert_int_equal(catalogue_now_us(fixture.catalogue, &error_us), 14002000);
    assert_int_equal(error_us, 2000);
}

static bool differs(int64_t difference_us, bool did_differ)
{
    int64_t told_us = -1;
    bool result;

    catalogue_invalidate(fixture.catalogue, 0);
    simulated_us++;
    read_clock(2000, clock_real_us() + 1000 + difference_us);
    result = catalogue_clock_differs(fixture.catalogue, did_differ, &told_us);
    assert_int_equal(told_us, difference_us);
    return result;
}

/* The reading may be wrong by 1000 us, which are subtracted from the difference. Clocks differ if
   more than 1 s is left, and agree again if no more than 0.5 s is left. */
TEST(test_catalogue_clock__differs_by_more_than_a_second)
{
    for (int64_t sign = -1; sign <= 1; sign += 2) {
        assert_false(differs(sign * 1001000, false));
        assert_true(differs(sign * 1001001, false));
        assert_true(differs(sign * 501001, true));
        assert_false(differs(sign * 501000, true));
    }
}

TEST(test_catalogue_clock__is_unknown_before_a_read)
{
    int64_t difference_us = 7;

    assert_false(catalogue_clock_differs(fixture.catalogue, false, &difference_us));
    assert_true(catalogue_clock_differs(fixture.catalogue, true, &difference_us));
    assert_int_equal(difference_us, 7);
}

/* The clock is read at once even if the machine has just booted, when clock_mono_us() is small. If
   the read fails, the catalogue soon repeats the read. */
TEST(test_catalogue_clock__is_read_at_the_start)
{
    for (size_t reads = 1; reads <= 3; reads++) {
        pass_us(200000);
        assert_int_equal(fake_store.reads, reads);
        answer_read(RLOCK_DOWN, NULL);
    }
}

TEST(test_catalogue_clock__is_read_once_a_minute)
{
    int64_t difference_us, read_us = fixture.metrics.catalogue_read_us;

    for (size_t reads = 1; reads <= 3; reads++) {
        pass_us(60000000);
        assert_int_equal(fake_store.reads, reads);
        assert_int_equal(fake_store.count, 0);
        answer_clock(clock_real_us() + 5000000);
        assert_true(catalogue_clock_differs(fixture.catalogue, false, &difference_us));
        assert_int_equal(fixture.metrics.catalogue_read_us, read_us);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
