/* it_sql_audit.c - db_audit() finds each kind of broken row, and nothing else. */
#include "app/test/sql/it_sql.h"

#include <inttypes.h>

static struct sandbox *sandbox;
static int64_t voucher;

static int setup(void **state)
{
    *state = fixture_open();
    sandbox = sandbox_open(*state, "audit");
    voucher = sandbox_voucher(sandbox, 10, 2);
    sandbox_do(sandbox,
               "select place_orders(%" PRId64 ", '{1,2,3}', '{1,2,3}', '{a,b,c}')",
               voucher);
    return 0;
}

static int teardown(void **state)
{
    sandbox_close(sandbox);
    return fixture_close(*state);
}

struct found {
    uint64_t rows;
    char checks[1024]; /* titles of the checks that found broken rows, each once */
    const char *wanted;
    bool is_said; /* a row contains `wanted` */
};

static void on_row(const char *check, const char *row, void *arg)
{
    struct found *found = arg;
    size_t used = strlen(found->checks);

    found->rows++;
    if (strstr(found->checks, check) == NULL)
        snprintf(found->checks + used, sizeof(found->checks) - used, "%s; ", check);
    if (found->wanted != NULL && strstr(row, found->wanted) != NULL)
        found->is_said = true;
}

static struct found audit_for(const char *wanted)
{
    struct found found = {.wanted = wanted};
    const struct db_audit calls = {.on_row = on_row, .arg = &found};
    struct err err = {0};
    struct db *db;
    uint64_t broken = 0;

    if (db_open(sandbox->url, &db, &err) != STATUS_OK ||
        db_audit(db, &calls, &broken, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    db_close(db);
    assert_int_equal(broken, found.rows);
    return found;
}

static uint64_t broken_rows(void)
{
    return audit_for(NULL).rows;
}

/* Drops all constraints, so that rows can be broken as by a corrupt index or by hand. */
static void drop_guards(void)
{
    sandbox_do(sandbox,
               "do $$ declare c record; begin"
               " for c in select conname, conrelid::regclass as r from pg_constraint"
               "  where connamespace = current_schema::regnamespace and conrelid <> 0"
               "  and contype in ('c', 'p') loop"
               "  execute format('alter table %%s drop constraint %%I', c.r, c.conname);"
               " end loop;"
               " for c in select conname, contypid::regtype as t from pg_constraint"
               "  where connamespace = current_schema::regnamespace and contypid <> 0"
               "  loop"
               "  execute format('alter domain %%s drop constraint %%I', c.t, c.conname);"
               " end loop; end $$");
    sandbox_do(sandbox, "drop index voucher_order_slot, voucher_order_key");
}

static const struct planted {
    const char *sql;
    const char *check; /* the check that must find a broken row */
    const char *says;  /* part of the text of this row; may be NULL */
} planted[] = {
    {"update voucher set stock_left = stock_left + 1", "no oversell", "live orders 3"},
    {"update voucher set stock_left = -1, stock_total = 2", "no oversell",
     "stock_left -1"},
    {"delete from voucher_order where user_id = 1", "no oversell", "live orders 2"},
    {"insert into voucher_order select voucher_id, id + 1048576 * n, user_id, null,"
     " price_cents, created_at, expires_at, null, 'unpaid', n + 1"
     " from voucher_order, generate_series(1, 2) n where user_id = 1",
     "no duplicate", "shopper 1 has 3 live orders"},
    {"update voucher set per_user_limit = 0", "columns of vouchers", NULL},
    {"update voucher set id = 8796093022208", "columns of vouchers",
     "voucher 8796093022208"},
    {"update voucher_order set slot = null where user_id = 2",
     "every live order holds a slot", "slot none"},
    {"update voucher_order set slot = 3 where user_id = 2",
     "every live order holds a slot", "slot 3"},
    {"update voucher_order set status = 'expired' where user_id = 2",
     "every live order holds a slot", "is expired"},
    {"insert into voucher_order select voucher_id, id + 1048576 * 9, user_id, null,"
     " price_cents, created_at, expires_at, null, 'unpaid', 1"
     " from voucher_order where user_id = 1",
     "no two orders hold the same slot", "slot 1 with 2 orders"},
    {"insert into voucher_order select voucher_id, id + 1048576 * 9, user_id, null,"
     " price_cents, created_at, expires_at, null, 'expired', null, null, request_key"
     " from voucher_order where user_id = 1",
     "no request key", "key \"a\" of shopper 1 made 2 orders"},
    {"update voucher_order set id = id + 1 where user_id = 1", "order ids are unique",
     NULL},
    {"update voucher_order set id = (select min(id) from voucher_order)",
     "order ids are unique", "occurs 3 times"},
    {"update voucher_order set voucher_id = voucher_id + 1048576 where user_id = 1",
     "every order has a voucher", "there is no voucher"},
    {"update cell set cells = 1024, number = 777", "belongs to a cell",
     "this database has cells 777/1024"},
    {"delete from voucher", "every order has a voucher", "there is no voucher"},
    {"update voucher_order set expires_at = created_at", "the times of every order",
     NULL},
    {"update voucher_order set status = 'paid'", "the times of every order",
     "paid never"},
    {"update voucher_order set paid_at = now()", "the times of every order", NULL},
    {"update voucher_order set due_to_id = null", "in the index of deadlines",
     "no batch includes it"},
    {"update voucher_order set due_to_id = id - 1", "in the index of deadlines", NULL},
    {"update voucher_order set user_id = 0 where user_id = 1", "columns of orders",
     "user_id 0"},
    {"update voucher_order set price_cents = -1 where user_id = 1", "columns of orders",
     "price_cents -1"},
    {"update voucher_order set fence = 0 where user_id = 1", "columns of orders",
     "fence 0"},
    {"update voucher_order set request_key = '' where user_id = 1", "columns of orders",
     "request_key \"\""},
    {"update voucher set ended_fence = 14", "ended_fence is at least", "has fence 15"},
    {"update voucher_order set slot = 2 where fence = 1", "ended_fence is at least",
     "ended_fence is 0, shopper 1 has fence 1"},
    {"update order_event set to_status = 'expired' where to_status = 'cancelled'",
     "ends in its status", "is cancelled, its history ends expired"},
    {"delete from order_event where to_status = 'redeemed'", "ends in its status",
     "is redeemed, its history ends paid"},
    {"delete from order_event where to_status = 'paid'", "every change of status",
     "paid -> refunded, before it was unpaid"},
    {"update order_event set from_status = 'paid' where to_status = 'cancelled'",
     "every change of status", "paid -> cancelled, before it was unpaid"},
    {"insert into order_event select voucher_id, id + 1048576 * 99, id, now(), 'x',"
     " 'unpaid', 'redeemed' from voucher_order where fence = 1",
     "every change of status", "unpaid -> redeemed"},
    {"update order_event set detail = 'y' where to_status = 'paid'",
     "every payment is the same", "its history says"},
    {"update voucher_order set payment_ref = null", "every payment is the same", NULL},
    {"update order_event set at = at + interval '1 s' where to_status = 'paid'",
     "every payment is the same", NULL},
    {"update order_event set id = id - 1048576 * 99", "comes after the order", NULL},
    {"update order_event set order_id = order_id + 1048576 * 999",
     "comes after the order", "no such order before it"},
    {"delete from payment where payment_ref = (select max(payment_ref) from payment)",
     "every payment has paid one order", "belongs to order none"},
    {"update payment set order_id = order_id + 1048576",
     "every payment has paid one order", NULL},
    {"insert into payment values ('x', 1)", "every payment has paid one order",
     "\"x\": paid no order, belongs to order 1"},
    {"update voucher_order set payment_ref = 'x' where payment_ref is not null",
     "every payment has paid one order", "\"x\": paid orders"},
    {"update payment set is_archived = true", "every payment has paid one order",
     "belongs to order"},
    {"delete from stock_event", "history of the stock", "its history gives"},
    {"update stock_event set stock_change = stock_change - 1 where stock_change > 0",
     "history of the stock", NULL},
    {"insert into stock_event select id + 1048576, id + 1048576, now(), 'x', 1"
     " from voucher",
     "history of the stock", NULL},
    {"update order_event set id = id + 1", "history ids are unique", "occurs 1 times"},
    {"update stock_event set id = (select min(id) from voucher_order o"
     " where o.voucher_id = stock_event.voucher_id) where stock_change > 0",
     "history ids are unique", "occurs 2 times"},
    {"update voucher set price_cents = -1", "columns of vouchers", "price_cents -1"},
    {"update voucher set end_at = begin_at", "columns of vouchers", NULL},
    {"update voucher set title = ''", "columns of vouchers", NULL},
    {"update voucher set pay_within_s = 0", "columns of vouchers", "pay_within_s 0"},
};

static void test_db_audit__holds_on_what_the_functions_made(void **state UNUSED)
{
    assert_int_equal(broken_rows(), 0);
}

static void test_db_audit__the_life_of_orders_breaks_nothing(void **state UNUSED)
{
    int64_t other = sandbox_voucher(sandbox, 10, 2);

    sandbox_do(sandbox,
               "select place_orders(%" PRId64
               ", '{1,2,3,4,5}', '{11,12,13,14,15}', null)",
               other);
    sandbox_do(sandbox, "select cancel_order(voucher_id, id, 'shopper:1') from"
                        " voucher_order where fence = 11");
    sandbox_do(sandbox, "select pay_order(voucher_id, id, 'payment:1', 'ref ' || id, 100)"
                        " from voucher_order where fence between 12 and 14");
    sandbox_do(sandbox, "select refund_order(voucher_id, id, 'admin:1') from"
                        " voucher_order where fence = 12");
    sandbox_do(sandbox, "select redeem_order(voucher_id, id, 'admin:1') from"
                        " voucher_order where fence = 13");
    sandbox_do(sandbox, "update voucher_order set expires_at = created_at + interval"
                        " '1 us' where fence = 15");
    sandbox_do(sandbox, "select expire_orders(voucher_id, array[id]) from voucher_order"
                        " where fence = 15");
    sandbox_do(sandbox, "select restock_voucher(%" PRId64 ", -2)", other);
    sandbox_do(sandbox, "select place_orders(%" PRId64 ", '{1,2,5}', '{21,22,23}', null)",
               other);
    assert_string_equal(sandbox_text(sandbox,
                                     "select string_agg(status::text, ' ' order by id)"
                                     " from voucher_order where voucher_id = %" PRId64,
                                     other),
                        "cancelled refunded redeemed paid expired unpaid unpaid unpaid");
    assert_int_equal(broken_rows(), 0);
}

/* The clock of Postgres is set back between two changes, perhaps by more than the life of an
   order. Then times decrease, but ids and states are right. */
static void test_db_audit__a_clock_step_breaks_nothing(void **state UNUSED)
{
    sandbox_do(sandbox, "begin");
    sandbox_do(sandbox, "update voucher set created_at = created_at + interval '1 day'");
    sandbox_do(sandbox, "update voucher_order set paid_at = paid_at - interval '2 days'");
    sandbox_do(sandbox, "update order_event set at = at - interval '2 days'");
    sandbox_do(sandbox, "commit");
    assert_int_equal(broken_rows(), 0);
    sandbox_do(sandbox, "begin");
    sandbox_do(sandbox, "update voucher set created_at = created_at - interval '1 day'");
    sandbox_do(sandbox, "update voucher_order set paid_at = paid_at + interval '2 days'");
    sandbox_do(sandbox, "update order_event set at = at + interval '2 days'");
    sandbox_do(sandbox, "commit");
}

static void assert_is_planted(const char *check, unsigned done UNUSED, unsigned of UNUSED,
                              void *arg UNUSED)
{
    for (size_t i = 0; i < COUNT_OF(planted); i++) {
        if (strstr(check, planted[i].check) != NULL)
            return;
    }
    fail_msg("nothing planted that breaks \"%s\"", check);
}

static void test_db_audit__each_check_has_a_planted_row(void **state UNUSED)
{
    const struct db_audit calls = {.on_row = sandbox_print_row,
                                   .on_step = assert_is_planted};
    struct err err = {0};
    struct db *db;
    uint64_t broken = 0;

    assert_int_equal(db_open(sandbox->url, &db, &err), STATUS_OK);
    assert_int_equal(db_audit(db, &calls, &broken, &err), STATUS_OK);
    assert_int_equal(broken, 0);
    db_close(db);
}

static void test_db_audit__finds_what_is_planted(void **state UNUSED)
{
    sandbox_do(sandbox, "create table voucher_kept as table voucher");
    sandbox_do(sandbox, "create table order_kept as table voucher_order");
    sandbox_do(sandbox, "create table order_event_kept as table order_event");
    sandbox_do(sandbox, "create table payment_kept as table payment");
    sandbox_do(sandbox, "create table stock_event_kept as table stock_event");
    drop_guards();
    for (size_t i = 0; i < COUNT_OF(planted); i++) {
        struct found found;

        sandbox_do(sandbox, "%s", planted[i].sql);
        found = audit_for(planted[i].says);
        if (strstr(found.checks, planted[i].check) == NULL)
            fail_msg("%s: found only \"%s\"", planted[i].sql, found.checks);
        if (planted[i].says != NULL && !found.is_said)
            fail_msg("%s: no row says \"%s\"", planted[i].sql, planted[i].says);
        sandbox_do(sandbox, "truncate voucher, voucher_order, payment, order_event,"
                            " stock_event");
        sandbox_do(sandbox, "update cell set number = 0, cells = 1");
        sandbox_do(sandbox, "insert into voucher table voucher_kept");
        sandbox_do(sandbox, "insert into voucher_order table order_kept");
        sandbox_do(sandbox, "insert into payment table payment_kept");
        sandbox_do(sandbox, "insert into order_event table order_event_kept");
        sandbox_do(sandbox, "insert into stock_event table stock_event_kept");
        assert_int_equal(broken_rows(), 0);
    }
}

/* Breaks rows while the audit runs. */
static void plant_meanwhile(const char *check UNUSED, unsigned done, unsigned of UNUSED,
                            void *arg UNUSED)
{
    if (done == 1)
        sandbox_do(sandbox, "update voucher set per_user_limit = 0, stock_left = 9");
}

static void test_db_audit__sees_one_snapshot(void **state UNUSED)
{
    struct found found = {0};
    const struct db_audit calls = {
        .on_row = on_row, .on_step = plant_meanwhile, .arg = &found};
    struct err err = {0};
    uint64_t broken = 0;
    struct db *db;

    assert_int_equal(db_open(sandbox->url, &db, &err), STATUS_OK);
    assert_int_equal(db_audit(db, &calls, &broken, &err), STATUS_OK);
    assert_int_equal(broken, 0);
    db_close(db);
    assert_true(broken_rows() > 0);
}

static void test_db_audit__cannot_be_done_without_tables(void **state)
{
    struct sandbox *empty = sandbox_new(*state, "audit_empty");
    const struct db_audit calls = {.on_row = sandbox_print_row};
    struct err err = {0};
    uint64_t broken = 77;
    struct db *db;

    assert_int_equal(db_open(empty->url, &db, &err), STATUS_OK);
    assert_int_equal(db_audit(db, &calls, &broken, &err), STATUS_REFUSED);
    assert_true(err.text[0] != '\0');
    assert_int_equal(broken, 77);
    db_close(db);
    sandbox_close(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_db_audit__holds_on_what_the_functions_made),
        cmocka_unit_test(test_db_audit__the_life_of_orders_breaks_nothing),
        cmocka_unit_test(test_db_audit__a_clock_step_breaks_nothing),
        cmocka_unit_test(test_db_audit__each_check_has_a_planted_row),
        cmocka_unit_test(test_db_audit__finds_what_is_planted),
        cmocka_unit_test(test_db_audit__sees_one_snapshot),
        cmocka_unit_test(test_db_audit__cannot_be_done_without_tables),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
