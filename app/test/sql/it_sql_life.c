/* it_sql_life.c - orders after their placement: states, stock, history. */
#include "app/test/sql/it_sql.h"
#include "base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

SHARE_SANDBOX("life")

static int64_t place_with_fence(int64_t voucher, int64_t user, int64_t fence)
{
    return sandbox_number(sandbox,
                          "select order_ids[1] from place_orders(%" PRId64 ", '{%" PRId64
                          "}', '{%" PRId64 "}', null) where verdicts = '{1}'",
                          voucher, user, fence);
}

static int64_t place(int64_t voucher, int64_t user)
{
    return place_with_fence(voucher, user, 0);
}

/* "{v}" and "{o}" in a call stand for the voucher and the order. */
static void call(int64_t voucher, int64_t order, const char *pattern, char ret_sql[512])
{
    char half[512], text[ID_SIZE];
    char with_order[256], *hole;

    snprintf(with_order, sizeof(with_order), "%s", pattern);
    while ((hole = strstr(with_order, "{v}")) != NULL)
        memcpy(hole, "{} ", 3);
    snprintf(text, sizeof(text), "%" PRId64, voucher);
    fill(with_order, text, half, sizeof(half));
    while ((hole = strstr(half, "{o}")) != NULL)
        memcpy(hole, "{} ", 3);
    snprintf(text, sizeof(text), "%" PRId64, order);
    fill(half, text, ret_sql, 512);
}

static int64_t run_call(int64_t voucher, int64_t order, const char *pattern)
{
    char sql[512];

    call(voucher, order, pattern, sql);
    return sandbox_number(sandbox, "%s", sql);
}

static int64_t stock_left(int64_t voucher)
{
    return sandbox_number(sandbox, "select stock_left from voucher where id = %" PRId64,
                          voucher);
}

static const char *status_of(int64_t order)
{
    return sandbox_text(sandbox, "select status from voucher_order where id = %" PRId64,
                        order);
}

static void make_due(int64_t order)
{
    sandbox_do(sandbox,
               "update voucher_order set created_at = created_at - interval '1 s',"
               " expires_at = created_at where id = %" PRId64,
               order);
    sandbox_do(sandbox,
               "update voucher set created_at = created_at - interval '2 s' where id ="
               " (select voucher_id from voucher_order where id = %" PRId64 ")",
               order);
}

/* -- states -- */

#define PAY     "select verdict from pay_order({v}, {o}, 'payment:1', 'ref {o}', 100)"
#define PAY_TWO "select verdict from pay_order({v}, {o}, 'payment:1', 'two {o}', 100)"
#define PAY_BAD "select verdict from pay_order({v}, {o}, 'payment:1', 'ref {o}', 99)"
#define CANCEL  "select verdict from cancel_order({v}, {o}, 'shopper:1')"
#define REFUND  "select verdict from refund_order({v}, {o}, 'admin:1')"
#define REDEEM  "select verdict from redeem_order({v}, {o}, 'admin:1')"
#define EXPIRE  "select expire_orders({v}, array[{o}])"

enum { DONE = 1, REPEATED, WRONG_STATE, WRONG_AMOUNT, NO_ORDER };

/* The calls that bring an unpaid order into a state, and the answer of each call in this state. */
static const struct state_row {
    const char *way[2];
    const char *status;
    int pay, pay_two, pay_bad, cancel, refund, redeem;
} state_rows[] = {
    {{NULL}, "unpaid", DONE, DONE, WRONG_AMOUNT, DONE, WRONG_STATE, WRONG_STATE},
    {{PAY}, "paid", REPEATED, WRONG_STATE, WRONG_AMOUNT, WRONG_STATE, DONE, DONE},
    {{PAY, REDEEM},
     "redeemed",
     REPEATED,
     WRONG_STATE,
     WRONG_AMOUNT,
     WRONG_STATE,
     WRONG_STATE,
     WRONG_STATE},
    {{PAY, REFUND},
     "refunded",
     WRONG_STATE,
     WRONG_STATE,
     WRONG_STATE,
     WRONG_STATE,
     WRONG_STATE,
     WRONG_STATE},
    {{CANCEL},
     "cancelled",
     WRONG_STATE,
     WRONG_STATE,
     WRONG_STATE,
     WRONG_STATE,
     WRONG_STATE,
     WRONG_STATE},
};

static void assert_call(int64_t voucher, const struct state_row *row, const char *pattern,
                        int expected, const char *then)
{
    static int64_t user = 1000;
    int64_t order = place(voucher, ++user);
    int64_t before, stock = 0;
    bool was_over, is_over;

    for (size_t i = 0; i < COUNT_OF(row->way) && row->way[i] != NULL; i++)
        assert_int_equal(run_call(voucher, order, row->way[i]), DONE);
    assert_string_equal(status_of(order), row->status);
    before = stock_left(voucher);
    was_over = row->status[0] == 'c' || strcmp(row->status, "refunded") == 0;
    if (run_call(voucher, order, pattern) != expected)
        fail_msg("%s: %s is not %d", row->status, pattern, expected);
    assert_string_equal(status_of(order), expected == DONE ? then : row->status);
    is_over = was_over || (expected == DONE && strcmp(then, "paid") != 0 &&
                           strcmp(then, "redeemed") != 0);
    stock = stock_left(voucher) - before;
    assert_int_equal(stock, is_over && !was_over ? 1 : 0);
}

static void test_life__each_call_in_each_state(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 100, 1);

    for (size_t i = 0; i < COUNT_OF(state_rows); i++) {
        const struct state_row *row = &state_rows[i];

        assert_call(voucher, row, PAY, row->pay, "paid");
        assert_call(voucher, row, PAY_TWO, row->pay_two, "paid");
        assert_call(voucher, row, PAY_BAD, row->pay_bad, "");
        assert_call(voucher, row, CANCEL, row->cancel, "cancelled");
        assert_call(voucher, row, REFUND, row->refund, "refunded");
        assert_call(voucher, row, REDEEM, row->redeem, "redeemed");
    }
}

static void test_life__there_is_no_such_order(void **state UNUSED)
{
    static const char *const calls[] = {PAY, CANCEL, REFUND, REDEEM};
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);
    int64_t other = sandbox_voucher(sandbox, 5, 1);
    int64_t order = place(voucher, 1);

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        assert_int_equal(run_call(voucher, order + 1048576, calls[i]), NO_ORDER);
        assert_int_equal(run_call(other, order, calls[i]), NO_ORDER);
        assert_int_equal(run_call(777777, order, calls[i]), NO_ORDER);
    }
    assert_int_equal(run_call(other, order, EXPIRE), 0);
    assert_string_equal(status_of(order), "unpaid");
}

static void test_life__answers_the_order_as_it_is_then(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);
    int64_t order = place(voucher, 1);

    assert_int_equal(
        sandbox_number(sandbox,
                       "select count(*) from pay_order(%" PRId64 ", %" PRId64
                       ", 'payment:1', 'ref', 100) p where (p.changed).status = 'paid'"
                       " and (p.changed).payment_ref = 'ref' and (p.changed).paid_at"
                       " between now() and clock_timestamp() and (p.changed).slot = 1",
                       voucher, order),
        1);
    assert_int_equal(
        sandbox_number(sandbox,
                       "select count(*) from refund_order(%" PRId64 ", %" PRId64
                       ", 'admin:1') p where (p.changed).status = 'refunded'"
                       " and (p.changed).payment_ref = 'ref' and (p.changed).slot is"
                       " null",
                       voucher, order),
        1);
}

static void test_pay_order__is_too_late_after_the_deadline(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);
    int64_t order = place(voucher, 1);

    make_due(order);
    assert_int_equal(run_call(voucher, order, PAY), WRONG_STATE);
    assert_string_equal(status_of(order), "expired");
    assert_int_equal(stock_left(voucher), 5);
    assert_int_equal(run_call(voucher, order, PAY), WRONG_STATE);
    assert_int_equal(stock_left(voucher), 5);
}

static void
test_expire_orders__takes_those_that_are_unpaid_and_overdue(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    int64_t due = place(voucher, 1), paid = place(voucher, 2), fresh = place(voucher, 3);
    int64_t cancelled = place(voucher, 4), unasked = place(voucher, 5);

    run_call(voucher, paid, PAY);
    run_call(voucher, cancelled, CANCEL);
    make_due(due);
    make_due(unasked);
    assert_int_equal(sandbox_number(sandbox,
                                    "select expire_orders(%" PRId64 ", array[%" PRId64
                                    ", %" PRId64 ", %" PRId64 ", %" PRId64 ", 1])",
                                    voucher, paid, fresh, due, cancelled),
                     1);
    assert_string_equal(status_of(due), "expired");
    assert_string_equal(status_of(unasked), "unpaid");
    assert_int_equal(stock_left(voucher), 10 - 3);
    assert_int_equal(run_call(voucher, due, EXPIRE), 0);
    assert_int_equal(stock_left(voucher), 10 - 3);
}

/* expire_orders() holds the voucher's row lock, so if it waited, the sale would wait too. */
static void test_expire_orders__does_not_wait_for_locked_orders(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    int64_t held = place(voucher, 1), due = place(voucher, 2);
    PGconn *stranger = sandbox_connect(sandbox);

    make_due(held);
    make_due(due);
    PQclear(PQexec(stranger, "begin"));
    PQclear(PQexec(stranger, "select from voucher_order where user_id = 1 for update"));
    sandbox_do(sandbox, "set statement_timeout = 60000");
    assert_int_equal(sandbox_number(sandbox,
                                    "select expire_orders(%" PRId64 ", array[%" PRId64
                                    ", %" PRId64 "])",
                                    voucher, held, due),
                     1);
    sandbox_do(sandbox, "reset statement_timeout");
    assert_string_equal(status_of(held), "unpaid");
    PQfinish(stranger);
    while (run_call(voucher, held, EXPIRE) == 0)
        assert_string_equal(status_of(held), "unpaid");
}

/* The number is limited because the sale of the voucher waits during the call. */
static void test_expire_batches__takes_500_orders_at_most(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 1000, 1);
    char call[192];

    sandbox_do(sandbox,
               "select place_orders(%" PRId64 ", array(select generate_series(1::bigint,"
               " 600)), array_fill(0::bigint, array[600]), null)",
               voucher);
    sandbox_do(sandbox,
               "update voucher_order set expires_at = created_at + interval '1 us'"
               " where voucher_id = %" PRId64,
               voucher);
    snprintf(call, sizeof(call),
             "expire_batches(v, array(select id from voucher_order where"
             " voucher_id = v and due_to_id > 0)) from (values (%" PRId64
             "::bigint)) t(v)",
             voucher);
    assert_string_equal(sandbox_text(sandbox, "select %s", call), "(500,0)");
    assert_string_equal(sandbox_text(sandbox, "select %s", call), "(100,1)");
}

/* -- again -- */

static void test_life__a_shopper_may_order_again_after_an_end(void **state UNUSED)
{
    static const char *const ways[][2] = {{CANCEL}, {EXPIRE}, {PAY, REFUND}};
    int64_t voucher = sandbox_voucher(sandbox, 1, 1);

    for (int64_t i = 0; i < (int64_t)COUNT_OF(ways); i++) {
        int64_t order = place_with_fence(voucher, 7, 10 * (i + 1));

        assert_int_not_equal(order, 0);
        assert_int_equal(place_with_fence(voucher, 7, 10 * (i + 1) + 1), 0);
        if (ways[i][0][7] == 'e')
            make_due(order);
        for (size_t j = 0; j < 2 && ways[i][j] != NULL; j++)
            assert_int_equal(run_call(voucher, order, ways[i][j]), 1);
        /* a lock older than the ended order is stale */
        assert_int_equal(place_with_fence(voucher, 7, 10 * (i + 1)), 0);
    }
}

/* The greatest fence of all orders of the shopper counts, live ones included. */
static void test_life__an_end_keeps_older_locks_out(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 2);
    int64_t first = place_with_fence(voucher, 7, 10);

    place_with_fence(voucher, 7, 20);
    assert_int_equal(run_call(voucher, first, CANCEL), DONE);
    assert_int_equal(place_with_fence(voucher, 7, 15), 0);
    assert_int_not_equal(place_with_fence(voucher, 8, 15), 0); /* another shopper */
    assert_int_not_equal(place_with_fence(voucher, 7, 21), 0);
}

/* -- repair_fences -- */

static int64_t repair_fences(void)
{
    return sandbox_number(sandbox, "select repair_fences()");
}

static void test_repair_fences__lets_shoppers_order_again(void **state UNUSED)
{
    const int64_t extreme = 8999999999999999;
    int64_t voucher = sandbox_voucher(sandbox, 10, 2), now_us = clock_real_us();
    int64_t ended = place_with_fence(voucher, 8, extreme);

    assert_int_not_equal(place_with_fence(voucher, 7, extreme - 1), 0);
    assert_int_not_equal(place_with_fence(voucher, 9, now_us), 0);
    assert_int_equal(run_call(voucher, ended, CANCEL), DONE);
    assert_int_equal(place_with_fence(voucher, 7, clock_real_us()), 0);
    assert_int_equal(place_with_fence(voucher, 8, clock_real_us()), 0);

    assert_int_equal(repair_fences(), 2);
    assert_int_equal(repair_fences(), 0);
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(*) from voucher where id = %" PRId64
                                    " and ended_fence between %" PRId64
                                    " and unix_us(now())",
                                    voucher, now_us),
                     1);
    for (int64_t user = 7; user <= 9; user++) {
        assert_int_equal(place_with_fence(voucher, user, now_us), 0); /* still stale */
        assert_int_not_equal(place_with_fence(voucher, user, clock_real_us()), 0);
    }
}

static int notifications(PGconn *listener)
{
    int count = 0;

    PQclear(PQexec(listener, "select 1"));
    for (PGnotify *notify; (notify = PQnotifies(listener)) != NULL; PQfreemem(notify))
        count++;
    return count;
}

static void
test_life__notifies_when_a_sold_out_voucher_has_stock_again(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 2, 1);
    int64_t orders[] = {place(voucher, 1), place(voucher, 2)};
    PGconn *listener = sandbox_connect(sandbox);

    PQclear(PQexec(listener, "listen seckill_voucher"));
    run_call(voucher, orders[0], PAY);
    assert_int_equal(notifications(listener), 0);
    run_call(voucher, orders[0], REFUND);
    assert_int_equal(notifications(listener), 1);
    run_call(voucher, orders[1], CANCEL); /* stock was left */
    assert_int_equal(notifications(listener), 0);
    PQfinish(listener);
}

/* -- races -- */

#define RACERS 41
#define ROUNDS 25

static struct race {
    pthread_barrier_t start, end;
    int64_t voucher, order;
    atomic_int done[3]; /* successful cancels, payments, expiries */
    atomic_int failures;
} race;

struct racer {
    PGconn *conn;
    unsigned number;
};

static void run_racer(const struct racer *racer)
{
    unsigned kind = racer->number == 0 ? 2 : racer->number % 2;
    char pattern[160], sql[512];
    PGresult *result;

    if (kind == 1)
        snprintf(
            pattern, sizeof(pattern),
            "select verdict from pay_order({v}, {o}, 'payment:1', 'ref %u {o}', 100)",
            racer->number);
    else
        snprintf(pattern, sizeof(pattern), "%s", kind == 0 ? CANCEL : EXPIRE);
    call(race.voucher, race.order, pattern, sql);
    result = PQexec(racer->conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        race.failures++;
    else if (strcmp(PQgetvalue(result, 0, 0), "1") == 0)
        race.done[kind]++;
    PQclear(result);
}

static void *race_on(void *arg)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&race.start);
        run_racer(arg);
        pthread_barrier_wait(&race.end);
    }
    return NULL;
}

/* The payment deadline passes during the round, so every racer can win. */
static void begin_round(int round)
{
    race.order = place(race.voucher, round + 1);
    for (size_t i = 0; i < COUNT_OF(race.done); i++)
        race.done[i] = 0;
    sandbox_do(sandbox,
               "update voucher_order set expires_at = clock_timestamp() +"
               " interval '%d us' where id = %" PRId64,
               round % 3 * 3000 + 1, race.order);
}

static void end_round(void)
{
    bool is_paid = strcmp(status_of(race.order), "paid") == 0;
    int64_t steps = sandbox_number(
        sandbox, "select count(*) from order_event where order_id = %" PRId64,
        race.order);

    assert_int_equal(race.failures, 0);
    assert_true(race.done[0] + race.done[1] + race.done[2] <= 1);
    assert_int_equal(race.done[1], is_paid);
    assert_int_equal(race.done[0], strcmp(status_of(race.order), "cancelled") == 0);
    assert_int_equal(steps, strcmp(status_of(race.order), "unpaid") != 0);
    assert_int_equal(sandbox_audit(sandbox), 0);
}

static void test_life__twenty_cancels_twenty_payments_and_the_expiry(void **state UNUSED)
{
    static struct racer racers[RACERS];
    pthread_t threads[RACERS];
    int64_t stock, returned;

    race.voucher = sandbox_voucher(sandbox, ROUNDS, 1);
    pthread_barrier_init(&race.start, NULL, RACERS + 1);
    pthread_barrier_init(&race.end, NULL, RACERS + 1);
    for (unsigned i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){sandbox_connect(sandbox), i};
        assert_int_equal(pthread_create(&threads[i], NULL, race_on, &racers[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        begin_round(round);
        pthread_barrier_wait(&race.start);
        pthread_barrier_wait(&race.end);
        end_round();
    }
    for (unsigned i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        PQfinish(racers[i].conn);
    }
    stock = stock_left(race.voucher);
    returned = sandbox_number(sandbox,
                              "select count(*) from voucher_order where voucher_id ="
                              " %" PRId64 " and status in ('cancelled', 'expired')",
                              race.voucher);
    assert_int_equal(stock, returned);
}

/* -- history -- */

static void test_history__lists_all_in_the_order_of_commits(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    int64_t order = place(voucher, 7);

    run_call(voucher, order, PAY);
    run_call(voucher, order, REFUND);
    sandbox_do(sandbox, "select restock_voucher(%" PRId64 ", -3, 'admin:9')", voucher);
    order = place(voucher, 8);
    make_due(order);
    run_call(voucher, order, EXPIRE);
    assert_string_equal(
        sandbox_text(sandbox,
                     "select string_agg(format('%%s:%%s>%%s:%%s:%%s', actor, from_status,"
                     " to_status, stock_change, left(detail, 3)), ' ' order by id)"
                     " from voucher_history where voucher_id = %" PRId64,
                     voucher),
        "admin:>:10: shopper:7:>unpaid:-1: payment:1:unpaid>paid:0:ref"
        " admin:1:paid>refunded:1: admin:9:>:-3: shopper:8:>unpaid:-1:"
        " system:unpaid>expired:1:");
}

#define WRITERS 6
#define WRITES  40

static atomic_int writers_at_work;

/* Writes with transactions of different lengths, some of which are rolled back. Either function may
   lock first. */
static void *write_history(void *arg)
{
    const struct racer *writer = arg;
    char place_sql[128], restock_sql[128], sql[512];

    for (int i = 0; i < WRITES; i++) {
        int user = (int)writer->number * WRITES + i + 1;

        snprintf(place_sql, sizeof(place_sql),
                 "select place_orders(%" PRId64 ", '{%d}', '{0}', null);", race.voucher,
                 user);
        snprintf(restock_sql, sizeof(restock_sql),
                 "select restock_voucher(%" PRId64 ", 1);", race.voucher);
        snprintf(sql, sizeof(sql),
                 "begin; %s select pg_sleep(%d / 1000.0); %s"
                 " select cancel_order(voucher_id, id, 'x') from voucher_order"
                 "  where voucher_id = %" PRId64 " and user_id = %d; %s",
                 i % 2 == 0 ? place_sql : restock_sql, (user * 7) % 5,
                 i % 2 == 0 ? restock_sql : place_sql, race.voucher, user,
                 user % 5 == 0 ? "rollback" : "commit");
        PQclear(PQexec(writer->conn, sql));
    }
    writers_at_work--;
    return NULL;
}

/* Read everything after the cursor, page by page. */
static void follow(int64_t voucher, int64_t *cursor, int64_t *seen)
{
    int64_t rows;

    do {
        char *rest;
        const char *page = sandbox_text(
            sandbox,
            "select count(*) || ' ' || coalesce(max(id), %" PRId64 ") from (select id"
            " from voucher_history where voucher_id = %" PRId64 " and id > %" PRId64
            " order by id limit 3) page",
            *cursor, voucher, *cursor);

        rows = strtoll(page, &rest, 10);
        *cursor = strtoll(rest, NULL, 10);
        *seen += rows;
    } while (rows > 0);
}

static void test_history__a_follower_misses_nothing(void **state UNUSED)
{
    static struct racer writers[WRITERS];
    pthread_t threads[WRITERS];
    int64_t cursor = 0, seen = 0;

    race.voucher = sandbox_voucher(sandbox, 1000, 1);
    writers_at_work = WRITERS;
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct racer){sandbox_connect(sandbox), i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_history, &writers[i]),
                         0);
    }
    while (writers_at_work > 0)
        follow(race.voucher, &cursor, &seen);
    follow(race.voucher, &cursor, &seen);
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        PQfinish(writers[i].conn);
    }
    assert_int_equal(seen, 1 + 3 * WRITERS * WRITES * 4 / 5);
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(*) from voucher_history where"
                                    " voucher_id = %" PRId64,
                                    race.voucher),
                     seen);
}

/* -- roles -- */

/* Executes a statement. Returns its SQLSTATE; "" if it succeeds. */
static const char *refusal_of(PGconn *conn, const char *statement)
{
    static char sqlstate[8];
    PGresult *result = PQexec(conn, statement);
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    snprintf(sqlstate, sizeof(sqlstate), "%s", code == NULL ? "" : code);
    PQclear(result);
    return sqlstate;
}

static void assert_forbidden(PGconn *conn, const char *statement)
{
    const char *sqlstate = refusal_of(conn, statement);

    if (strcmp(sqlstate, "42501") != 0)
        fail_msg("%s: \"%s\"", statement, sqlstate);
}

static void test_service_role__writes_through_the_functions_only(void **state UNUSED)
{
    static const char *const tables[] = {"voucher", "voucher_order", "order_event",
                                         "stock_event"};
    static const char *const forbidden[] = {
        "insert into {} select * from {}",
        "update {} set id = id",
        "delete from {}",
        "truncate {}",
        "select 1 from {} for update",
        "alter table {} add x integer",
        "drop table {}",
    };
    static const char *const parts[] = {
        "select next_event_id(1)",
        "select hold_order(1, 1)",
        "select move_order(1, 1, 'paid', 'unpaid', 'x')",
        "select move_orders(1, '{1}', 'unpaid', 'paid', now(), 'x')",
        "select place_in_free_slot(null, now(), 1, 1, null)",
        "select nextval('voucher_order_id_seq')",
        "insert into payment values ('x', 1)",
        "update payment set order_id = 1",
        "delete from payment",
        "truncate payment",
        "create table mine (x integer)",
    };
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);
    PGconn *service = PQconnectdb(sandbox->service_url);
    char sql[256];

    place(voucher, 1);
    for (size_t i = 0; i < COUNT_OF(tables); i++) {
        assert_string_equal(
            refusal_of(service, fill("select * from {}", tables[i], sql, sizeof(sql))),
            "");
        for (size_t j = 0; j < COUNT_OF(forbidden); j++)
            assert_forbidden(service, fill(forbidden[j], tables[i], sql, sizeof(sql)));
    }
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        assert_forbidden(service, parts[i]);
    PQfinish(service);
}

/* A table of the caller does not replace the real one. */
static void test_service_role__cannot_replace_tables_of_the_functions(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);
    PGconn *service = PQconnectdb(sandbox->service_url);
    char sql[256];

    assert_string_equal(refusal_of(service, "create temp table voucher as select * from"
                                            " voucher"),
                        "");
    snprintf(sql, sizeof(sql), "select restock_voucher(%" PRId64 ", 4, 'x')", voucher);
    assert_string_equal(refusal_of(service, sql), "");
    assert_int_equal(stock_left(voucher), 9);
    PQfinish(service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AUDITED_CASE(test_life__each_call_in_each_state),
        AUDITED_CASE(test_life__there_is_no_such_order),
        AUDITED_CASE(test_life__answers_the_order_as_it_is_then),
        AUDITED_CASE(test_pay_order__is_too_late_after_the_deadline),
        AUDITED_CASE(test_expire_orders__takes_those_that_are_unpaid_and_overdue),
        AUDITED_CASE(test_expire_orders__does_not_wait_for_locked_orders),
        AUDITED_CASE(test_expire_batches__takes_500_orders_at_most),
        AUDITED_CASE(test_life__a_shopper_may_order_again_after_an_end),
        AUDITED_CASE(test_life__an_end_keeps_older_locks_out),
        AUDITED_CASE(test_repair_fences__lets_shoppers_order_again),
        AUDITED_CASE(test_life__notifies_when_a_sold_out_voucher_has_stock_again),
        AUDITED_CASE(test_life__twenty_cancels_twenty_payments_and_the_expiry),
        AUDITED_CASE(test_history__lists_all_in_the_order_of_commits),
        AUDITED_CASE(test_history__a_follower_misses_nothing),
        AUDITED_CASE(test_service_role__writes_through_the_functions_only),
        AUDITED_CASE(test_service_role__cannot_replace_tables_of_the_functions),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
