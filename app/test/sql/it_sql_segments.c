/*
 * it_sql_segments.c - a new sale writes only to the pages of its segment, however many old orders
 * there are. A segment ends after about SEGMENT orders.
 */
#include "app/test/sql/it_sql.h"

#include <inttypes.h>

#define OLD_ORDERS 200000
#define CHUNK      1000
#define ORDERS     1000
#define SEGMENT    262144 /* numbers, see next_voucher_id.sql */

static struct sandbox *sandbox;
static PGconn *superuser;

static int setup(void **state)
{
    struct fixture *fixture = fixture_open();

    *state = fixture;
    sandbox = sandbox_open(fixture, "segments");
    superuser = PQconnectdb(fixture->superuser_url);
    return PQstatus(superuser) == CONNECTION_OK ? 0 : -1;
}

static int teardown(void **state)
{
    PQfinish(superuser);
    sandbox_close(sandbox);
    return fixture_close(*state);
}

static int64_t create_voucher(void)
{
    return sandbox_number(sandbox,
                          "select id from create_voucher(next_voucher_id(), 'title',"
                          " '', 100, 200, 1000000, 1, now() - interval '1 min',"
                          " now() + interval '1 h', 900)");
}

/* Advances the sequence as if this many orders had been placed. */
static void pass_numbers(int64_t count)
{
    sandbox_do(sandbox,
               "select setval('voucher_order_id_seq', last_value + %" PRId64
               ") from voucher_order_id_seq",
               count);
}

/* Places orders. Returns how many pages they change for the first time since a checkpoint. */
static int64_t first_changes(int64_t voucher)
{
    static const char field[] = "\"WAL FPI\": ";
    const char *plan, *at;

    PQclear(PQexec(superuser, "checkpoint"));
    plan =
        sandbox_text(sandbox,
                     "explain (analyze, wal, format json) select count(*) from"
                     " generate_series(0, %d, 100) first cross join lateral place_orders("
                     "%" PRId64 ", array(select (first + i) * 618033::bigint %% %d + 1"
                     " from generate_series(0, 99) i),"
                     " array_fill(0::bigint, array[100]), null)",
                     ORDERS - 100, voucher, OLD_ORDERS);
    at = strstr(plan, field);
    assert_non_null(at);
    return strtoll(at + strlen(field), NULL, 10);
}

static void
test_place_orders__changes_few_pages_beside_many_old_orders(void **state UNUSED)
{
    int64_t old = create_voucher(), new, pages;

    for (int first = 0; first < OLD_ORDERS; first += CHUNK)
        sandbox_do(sandbox,
                   "select place_orders(%" PRId64
                   ", array(select generate_series(%d, %d)),"
                   " array_fill(0::bigint, array[%d]), null)",
                   old, first + 1, first + CHUNK, CHUNK);
    pass_numbers(SEGMENT);
    new = create_voucher();
    assert_int_equal(sandbox_number(sandbox, "select segment_of(%" PRId64 ")", new),
                     sandbox_number(sandbox, "select segment_of(%" PRId64 ")", old) + 1);
    pages = first_changes(new);
    print_message("%" PRId64 " pages for %d orders\n", pages, ORDERS);
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(*) from voucher_order where"
                                    " voucher_id = %" PRId64,
                                    new),
                     ORDERS);
    assert_in_range(pages, 1, ORDERS / 20);
    assert_int_equal(sandbox_audit(sandbox), 0);
}

static void test_next_voucher_id__begins_a_segment_after_many_numbers(void **state UNUSED)
{
    int64_t first, next;

    pass_numbers(SEGMENT);
    first = create_voucher();
    assert_int_equal(first % 65536, 0);
    pass_numbers(SEGMENT - 100);
    next = create_voucher();
    assert_int_equal(next, first + 1);
    pass_numbers(100);
    next = create_voucher();
    assert_int_equal(next, first + 65536);
    assert_int_equal(create_voucher(), next + 1);
}

/* The second session waits for the first, and then finds that the segment has begun. */
static void test_next_voucher_id__begins_a_segment_once(void **state UNUSED)
{
    PGconn *other = sandbox_connect(sandbox);
    int64_t last = create_voucher(), first;
    PGresult *result;

    pass_numbers(SEGMENT);
    sandbox_do(sandbox, "begin");
    first = create_voucher();
    assert_int_equal(PQsendQuery(other, "select next_voucher_id()"), 1);
    while (sandbox_number(sandbox, "select count(*) from pg_locks where not granted"
                                   " and locktype = 'advisory'") == 0)
        continue;
    sandbox_do(sandbox, "commit");
    result = PQgetResult(other);
    assert_int_equal(first, (last | 65535) + 1);
    assert_int_equal(number_of(PQgetvalue(result, 0, 0)), first + 1);
    PQclear(result);
    PQfinish(other);
}

/* Sets the sequence of voucher ids, as a restore does. */
static void set_last_voucher(int64_t id)
{
    sandbox_do(sandbox, "select setval('voucher_id_seq', %" PRId64 ")", id);
}

/* Each voucher that was lost had begun a segment. */
static void test_advance_ids__gives_no_voucher_id_again(void **state UNUSED)
{
    int64_t kept, lost = 0, next;

    sandbox_do(sandbox, "update cell set number = 5, cells = 1024");
    kept = create_voucher();
    for (int i = 0; i < 3; i++) {
        pass_numbers(SEGMENT);
        lost = create_voucher();
    }
    assert_in_range(lost - kept, 2 * 65536 + 1, 4 * 65536);
    set_last_voucher(kept);
    sandbox_do(sandbox, "select advance_ids()");
    next = create_voucher();
    assert_true(next > lost);
    assert_int_equal(next % 1024, 5);
    sandbox_do(sandbox, "update cell set number = 0, cells = 1");
}

static void test_create_voucher__refuses_an_id_above_the_bound(void **state UNUSED)
{
    static const char create[] =
        "insert into voucher (id, price_cents, face_value_cents, stock_total, stock_left,"
        " per_user_limit, pay_within_s, title, begin_at, end_at) values (%" PRId64
        ", 1, 1, 0, 0, 1, 60, 'x', now(), now() + interval '1 h') returning id";
    const int64_t bound = INT64_C(8796093022207);
    char sql[400];
    PGresult *result;

    assert_int_equal(sandbox_number(sandbox, create, bound), bound);
    snprintf(sql, sizeof(sql), create, bound + 1);
    result = PQexec(sandbox->conn, sql);
    assert_non_null(strstr(PQresultErrorMessage(result), "voucher_id_bound"));
    PQclear(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_orders__changes_few_pages_beside_many_old_orders),
        cmocka_unit_test(test_next_voucher_id__begins_a_segment_after_many_numbers),
        cmocka_unit_test(test_next_voucher_id__begins_a_segment_once),
        cmocka_unit_test(test_advance_ids__gives_no_voucher_id_again),
        cmocka_unit_test(test_create_voucher__refuses_an_id_above_the_bound),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
