/* it_sql_place.c - place_orders(): every verdict, alone and mixed. */
#include "app/test/sql/it_sql.h"

#include <inttypes.h>

SHARE_SANDBOX("place")

/* The verdicts for these arrays, which are written as in SQL, without braces. */
static const char *place(int64_t voucher, const char *users, const char *fences,
                         const char *keys)
{
    if (keys == NULL)
        return sandbox_text(sandbox,
                            "select array_to_string(verdicts, ' ') from"
                            " place_orders(%" PRId64 ", '{%s}', '{%s}', null)",
                            voucher, users, fences);
    return sandbox_text(sandbox,
                        "select array_to_string(verdicts, ' ') from"
                        " place_orders(%" PRId64 ", '{%s}', '{%s}', '{%s}')",
                        voucher, users, fences, keys);
}

static int64_t stock_left(int64_t voucher)
{
    return sandbox_number(sandbox, "select stock_left from voucher where id = %" PRId64,
                          voucher);
}

static int64_t version(int64_t voucher)
{
    return sandbox_number(sandbox, "select version from voucher where id = %" PRId64,
                          voucher);
}

static void end_order(int64_t voucher, int user, int slot)
{
    sandbox_do(sandbox,
               "select cancel_order(voucher_id, id, 'shopper:1') from voucher_order"
               " where voucher_id = %" PRId64 " and user_id = %d and slot = %d",
               voucher, user, slot);
}

/* -- tickets -- */

static int64_t guarded_voucher(int stock)
{
    int64_t voucher = sandbox_voucher(sandbox, stock, 1);

    sandbox_do(sandbox,
               "select patch_voucher(%" PRId64 ", null, null, null, null, null, true)",
               voucher);
    return voucher;
}

/* "VERDICTS / POSITIONS"; the positions are those of repeated requests. */
static const char *place_with(int64_t voucher, const char *users, const char *keys,
                              const char *tickets)
{
    return sandbox_text(
        sandbox,
        "select concat_ws(' / ', array_to_string(verdicts, ' '), (select "
        "string_agg(d::text,"
        " ' ') from unnest(details) with ordinality x (d, at) where (at - 1) %% 6 = 0))"
        " from place_orders(%" PRId64
        ", '{%s}', array_fill(0::bigint, array[cardinality('{%s}'::int[])]), '{%s}', %s)",
        voucher, users, users, keys, tickets);
}

static void test_place_orders__places_only_with_a_ticket(void **state UNUSED)
{
    int64_t guarded = guarded_voucher(3), open = sandbox_voucher(sandbox, 3, 1);

    assert_string_equal(place_with(guarded, "1,2", "a,b", "'{f,f}'"), "9 9");
    assert_string_equal(place_with(guarded, "1,2,3", "a,b,c", "'{f,t,f}'"), "9 1 9");
    /* the position of a repeated key is that of its request */
    assert_string_equal(place_with(guarded, "1,3,2,4", "a,c,b,d", "'{f,t,t,f}'"),
                        "9 1 2 9 / 3");
    assert_string_equal(place_with(guarded, "1,5,2", "a,e,b", "'{t,t,f}'"), "1 4 9");
    assert_int_equal(stock_left(guarded), 0);
    assert_string_equal(place_with(open, "1,2", "a,b", "'{f,t}'"), "1 1");
    /* An older release calls the function without this parameter. */
    assert_string_equal(place(guarded_voucher(1), "1", "0", NULL), "1");
}

static void
test_place_orders__returns_the_voucher_to_all_without_a_ticket(void **state UNUSED)
{
    assert_string_equal(
        sandbox_text(sandbox,
                     "select concat_ws(' ', order_ids, details, price, new_stock,"
                     " new_version, opens < closes, decided_at < expiry) from"
                     " place_orders(%" PRId64 ", '{1}', '{1}', null, '{f}')",
                     guarded_voucher(3)),
        "{NULL} 100 3 2 t t");
}

/* A batch with and without tickets returns what one of those with tickets does, and the positions
   are those of its own requests. */
static void
test_place_orders__decides_tickets_by_a_batch_of_their_own(void **state UNUSED)
{
    int64_t guarded = guarded_voucher(9), twin = sandbox_voucher(sandbox, 9, 1);

    place(twin, "1,2", "0,0", "a,b");
    place(guarded, "1,2", "0,0", "a,b");
    sandbox_do(sandbox,
               "create table answers as"
               " select 1 as at, * from place_orders(%" PRId64
               ", '{9,1,8,2,3,4}', '{1,2,3,4,5,6}', '{x,a,y,b,c,d}', '{f,t,f,t,t,f}')"
               " union all select 2, * from place_orders(%" PRId64
               ", '{1,2,3}', '{2,4,5}', '{a,b,c}')",
               guarded, twin);
    assert_string_equal(
        sandbox_text(sandbox, "select verdicts from answers where at = 1"),
        "{9,2,9,2,1,9}");
    assert_string_equal(
        sandbox_text(
            sandbox,
            "select concat_ws(' ', o.user_id, o.fence, o.request_key) from"
            " answers a, voucher_order o where a.at = 1 and o.id = order_ids[5]"),
        "3 5 c");
    /* six numbers of each repeated request; the two vouchers differ by their times */
    assert_string_equal(sandbox_text(sandbox,
                                     "select concat_ws(' ', details[1], details[2],"
                                     " details[6], details[7], details[8], details[12],"
                                     " cardinality(details)) from answers where at = 1"),
                        "2 100 0 4 100 0 12");
    assert_string_equal(
        sandbox_text(sandbox,
                     "select concat_ws(' ', array_positions(order_ids, null), price,"
                     " expiry - decided_at, new_stock, new_version, opens < decided_at,"
                     " closes > decided_at) from answers where at = 1"),
        "{1,3,6} 100 00:15:00 6 4 t t");
    assert_string_equal(
        sandbox_text(sandbox, "select concat_ws(' ', price, expiry - decided_at,"
                              " new_stock, new_version) from answers where at = 2"),
        "100 00:15:00 6 3");
    sandbox_do(sandbox, "drop table answers");
}

/* -- stock -- */

static void test_place_orders__places_all_in_request_order(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);

    assert_string_equal(place(voucher, "3,1,2", "0,0,0", NULL), "1 1 1");
    assert_int_equal(stock_left(voucher), 7);
    assert_string_equal(
        sandbox_text(sandbox,
                     "select string_agg(user_id::text, ' ' order by id) from"
                     " voucher_order where voucher_id = %" PRId64,
                     voucher),
        "3 1 2");
}

static void test_place_orders__returns_the_stored_rows(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);

    /* the stored row against the answer */
    assert_string_equal(
        sandbox_text(sandbox,
                     "with p as (select * from place_orders(%" PRId64 ", '{7}', '{5}',"
                     " '{k}')) select p.verdicts = '{1}' and p.details is null"
                     " and p.price = 100 and p.expiry = p.decided_at + interval '900 s'"
                     " and p.new_stock = 9 and p.new_version = 2 and p.opens < now()"
                     " and p.closes > now() from p",
                     voucher),
        "t");
    assert_string_equal(
        sandbox_text(sandbox,
                     "select user_id = 7 and fence = 5 and request_key = 'k' and slot = 1"
                     " and status = 'unpaid' and price_cents = 100 and paid_at is null"
                     " and expires_at = created_at + interval '900 s'"
                     " and id %% 1048576 = voucher_id %% 1048576"
                     " from voucher_order where voucher_id = %" PRId64,
                     voucher),
        "t");
}

#define MANY 16 /* requests of a large batch */

/* Places a large batch of shoppers `first`, `first` + 1, ... The last shopper is `more`. */
static const char *place_many(int64_t voucher, int64_t first, int64_t more,
                              const char *keys)
{
    return sandbox_text(sandbox,
                        "select array_to_string(verdicts, ' ') from place_orders(%" PRId64
                        ", array(select generate_series(%" PRId64 ", %" PRId64
                        ")) || %" PRId64 "::bigint, array_fill(0::bigint, '{%d}'), %s)",
                        voucher, first, first + MANY - 2, more, MANY, keys);
}

/* How many batches have each number of orders, as "COUNT of ORDERS". */
static const char *batches(int64_t voucher)
{
    return sandbox_text(
        sandbox,
        "select string_agg(format('%%s of %%s', count, size), ' ' order by"
        " size) from (select size, count(*) from (select (select count(*)"
        " from voucher_order o where o.voucher_id = b.voucher_id and o.id"
        " between b.id and b.due_to_id) as size from voucher_order b"
        " where b.voucher_id = %" PRId64 " and b.due_to_id is not null)"
        " each group by size) sizes",
        voucher);
}

static void test_place_orders__new_shoppers_share_a_deadline(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 1000, 2);
    int64_t other = sandbox_voucher(sandbox, 1000, 2);

    place_many(voucher, 1, 100, "null");
    assert_string_equal(batches(voucher), "1 of 16");
    place_many(voucher, 201, 300, "array(select 'k' || n from generate_series(1, 16) n)");
    assert_string_equal(batches(voucher), "2 of 16");
    place_many(voucher, 401, 100, "null"); /* shopper 100 has an order */
    assert_string_equal(batches(voucher), "16 of 1 2 of 16");
    place_many(voucher, 601, 601, "null"); /* 601 twice */
    assert_string_equal(batches(voucher), "32 of 1 2 of 16");
    place_many(other, 801, 900, "null"); /* an order of another voucher does not count */
    place_many(voucher, 801, 900, "null");
    assert_string_equal(batches(voucher), "32 of 1 3 of 16");
    place(voucher, "901,902", "0,0", NULL); /* a small batch */
    assert_string_equal(batches(voucher), "34 of 1 3 of 16");
    assert_string_equal(
        sandbox_text(
            sandbox,
            "select concat_ws(' ', count(*), count(request_key), min(request_key))"
            " from voucher_order where voucher_id = %" PRId64
            " and user_id between 201 and 300 and slot = 1 and fence is null"
            " and status = 'unpaid' and price_cents = 100"
            " and expires_at = created_at + interval '900 s'",
            voucher),
        "16 16 k1");
}

static void test_place_orders__sells_new_shoppers_exactly_the_stock(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 14, 1);

    assert_string_equal(place_many(voucher, 1, 100, "null"),
                        "1 1 1 1 1 1 1 1 1 1 1 1 1 1 4 4");
    assert_int_equal(stock_left(voucher), 0);
    assert_string_equal(batches(voucher), "1 of 14");
}

static void test_place_orders__sells_exactly_the_stock(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 3, 1);

    assert_string_equal(place(voucher, "1,2,3,4,5", "0,0,0,0,0", NULL), "1 1 1 4 4");
    assert_int_equal(stock_left(voucher), 0);
    assert_string_equal(place(voucher, "6", "0", NULL), "4");
}

static void test_place_orders__conflicts_use_up_no_stock(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);

    assert_string_equal(place(voucher, "1,3", "0,0", NULL), "1 1");
    assert_string_equal(place(voucher, "1,2,3,4,1,5,6", "0,0,0,0,0,0,0", NULL),
                        "3 1 3 1 3 1 4");
    assert_int_equal(stock_left(voucher), 0);
}

static void test_place_orders__changes_the_version_once_or_not(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);

    place(voucher, "1,2,3", "0,0,0", NULL);
    assert_int_equal(version(voucher), 2);
    place(voucher, "1,2,3", "0,0,0", NULL);
    assert_int_equal(version(voucher), 2);
}

static void test_place_orders__ids_grow_and_fit_the_voucher(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 100, 1);
    int64_t other = sandbox_voucher(sandbox, 100, 1);

    for (int i = 1; i < 10; i++) {
        char user[12];

        snprintf(user, sizeof(user), "%d", i);
        place(i % 2 ? voucher : other, user, "0", NULL);
    }
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(*) from (select user_id,"
                                    " lag(user_id) over (order by id) as before"
                                    " from voucher_order where voucher_id in"
                                    " (%" PRId64 ", %" PRId64
                                    ")) o where before > user_id",
                                    voucher, other),
                     0);
}

/* Requests with and without a fence get their ids in the order of the requests. */
static void test_place_orders__ids_follow_the_requests(void **state UNUSED)
{
    int64_t voucher;

    sandbox_do(sandbox, "select setval('voucher_id_seq', 3 * 1048576 + 5)");
    voucher = sandbox_voucher(sandbox, 100, 1);
    assert_string_equal(place(voucher, "5,4,3,2", "0,7,0,7", NULL), "1 1 1 1");
    assert_string_equal(
        sandbox_text(sandbox,
                     "select string_agg(user_id::text, ' ' order by id) from"
                     " voucher_order where voucher_id = %" PRId64,
                     voucher),
        "5 4 3 2");
    /* only the lower 20 bits of the voucher's id are in that of an order */
    assert_int_equal(
        sandbox_number(sandbox,
                       "select count(*) from voucher_order where voucher_id ="
                       " %" PRId64 " and id %% 1048576 = 6",
                       voucher),
        4);
}

static void test_place_orders__no_voucher(void **state UNUSED)
{
    assert_string_equal(place(999999999, "1,2", "0,5", "a,NULL"), "8 8");
    assert_string_equal(
        sandbox_text(sandbox,
                     "select concat_ws(' ', order_ids, details, price, new_stock)"
                     " from place_orders(999999999, '{1,2}', '{0,5}', null)"),
        "{NULL,NULL}");
}

/* -- shoppers -- */

static void test_place_orders__same_shopper_in_one_batch(void **state UNUSED)
{
    int64_t one = sandbox_voucher(sandbox, 10, 1);
    int64_t two = sandbox_voucher(sandbox, 10, 2);
    int64_t scarce = sandbox_voucher(sandbox, 2, 3);

    assert_string_equal(place(one, "1,1,2,1", "0,0,0,0", NULL), "1 3 1 3");
    assert_string_equal(place(two, "1,1,2,1", "0,0,0,0", NULL), "1 1 1 3");
    assert_string_equal(place(two, "1,2,2", "0,0,0", NULL), "3 1 3");
    assert_string_equal(place(scarce, "1,1,1,1", "0,0,0,0", NULL), "1 1 4 4");
}

static void test_place_orders__already_ordered_names_a_live_order(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);

    place(voucher, "1", "0", NULL);
    end_order(voucher, 1, 1);
    place(voucher, "1", "0", NULL);
    assert_string_equal(
        sandbox_text(sandbox,
                     "select p.order_ids[1] = o.id from place_orders(%" PRId64
                     ", '{1}', '{0}', null) p, voucher_order o"
                     " where o.voucher_id = %" PRId64 " and o.slot = 1",
                     voucher, voucher),
        "t");
}

static void test_place_orders__fills_the_lowest_free_slot(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 3);

    assert_string_equal(place(voucher, "1,1,1,1", "0,0,0,0", NULL), "1 1 1 3");
    end_order(voucher, 1, 2);
    assert_string_equal(place(voucher, "1,1", "0,0", NULL), "1 3");
    assert_string_equal(
        sandbox_text(sandbox,
                     "select string_agg(slot::text, ' ' order by id) from voucher_order"
                     " where voucher_id = %" PRId64 " and slot is not null",
                     voucher),
        "1 3 2");
}

static void test_place_orders__sold_out_still_knows_its_shoppers(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 2, 2);

    assert_string_equal(place(voucher, "1,1", "0,0", "a,NULL"), "1 1");
    assert_string_equal(place(voucher, "1,1,2,2", "0,0,0,0", "a,b,NULL,c"), "2 3 4 4");
}

/* "VERDICTS / SHOPPERS / POSITIONS": the shoppers of the orders that are named, "-" for none, and
   the positions of the repeated requests. */
static const char *named_orders(int64_t voucher, const char *users, const char *keys)
{
    sandbox_do(sandbox,
               "drop table if exists answer; create table answer as"
               " select verdicts, order_ids, details from place_orders(%" PRId64
               ", '{%s}', array_fill(0::bigint, array[cardinality('{%s}'::int[])]),"
               " '{%s}')",
               voucher, users, users, keys);
    return sandbox_text(
        sandbox,
        "select concat_ws(' / ', array_to_string(verdicts, ' '),"
        " (select string_agg(coalesce(o.user_id::text, '-'), ' ' order by i.at)"
        "  from unnest(order_ids) with ordinality i (id, at)"
        "  left join voucher_order o on o.voucher_id = %" PRId64 " and o.id = i.id),"
        " (select string_agg(d::text, ' ' order by at)"
        "  from unnest(details) with ordinality x (d, at) where at %% 6 = 1))"
        " from answer",
        voucher);
}

/* In each way through a batch: while there is stock, when it has run out, when the sale ended. */
static void test_place_orders__names_the_earlier_orders(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 4, 1);

    assert_string_equal(named_orders(voucher, "1,2,3", "a,b,c"), "1 1 1 / 1 2 3");
    assert_string_equal(named_orders(voucher, "2,4,5,1,3,3", "b,d,e,x,c,y"),
                        "2 1 4 3 2 3 / 2 4 - 1 3 3 / 1 5");
    assert_string_equal(named_orders(voucher, "9,2,1", "z,b,a"), "4 2 2 / - 2 1 / 2 3");
    sandbox_do(sandbox,
               "select patch_voucher(%" PRId64 ", null, null, now() - interval '1 h',"
               " now() - interval '1 us', null)",
               voucher);
    assert_string_equal(named_orders(voucher, "9,2,1", "z,b,q"), "6 2 3 / - 2 1 / 2");
}

/* -- the window -- */

static void test_place_orders__before_and_after_the_sale(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);

    assert_string_equal(place(voucher, "1", "0", "a"), "1");
    sandbox_do(sandbox,
               "select patch_voucher(%" PRId64 ", null, null, now() + interval '30 min',"
               " null, null)",
               voucher);
    assert_string_equal(place(voucher, "1,1,2", "0,0,0", "a,NULL,NULL"), "2 3 5");
    sandbox_do(sandbox,
               "select patch_voucher(%" PRId64 ", null, null, now() - interval '1 h',"
               " now() - interval '1 us', null)",
               voucher);
    assert_string_equal(place(voucher, "1,1,2", "0,0,0", "a,NULL,NULL"), "2 3 6");
    assert_int_equal(stock_left(voucher), 9);
}

/* A batch that waited for the voucher's row until the sale ended is refused. */
static void test_place_orders__checks_the_window_under_the_lock(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);
    PGconn *late = sandbox_connect(sandbox);
    PGresult *result;
    char statement[256];

    sandbox_do(sandbox, "begin");
    sandbox_do(sandbox, "select from voucher where id = %" PRId64 " for update", voucher);
    snprintf(statement, sizeof(statement),
             "select verdicts from place_orders(%" PRId64 ", '{1}', '{0}', null)",
             voucher);
    assert_int_equal(PQsendQuery(late, statement), 1);
    while (sandbox_number(sandbox,
                          "select count(*) from pg_locks where pid = %d and not granted",
                          PQbackendPID(late)) == 0)
        assert_int_equal(PQstatus(late), CONNECTION_OK);
    sandbox_do(sandbox,
               "update voucher set end_at = clock_timestamp() where id = %" PRId64,
               voucher);
    sandbox_do(sandbox, "commit");
    result = PQgetResult(late);
    assert_string_equal(PQgetvalue(result, 0, 0), "{6}");
    PQclear(result);
    PQfinish(late);
}

/* -- keys -- */

static void test_place_orders__key_repeats_in_every_state(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 3, 1);

    assert_string_equal(place(voucher, "1,1,2,1", "0,0,0,0", "a,a,a,b"), "1 2 1 3");
    end_order(voucher, 1, 1);
    assert_string_equal(place(voucher, "1", "0", "a"), "2");
    assert_string_equal(place(voucher, "1,1", "0,0", "a,c"), "2 1");
    assert_string_equal(place(voucher, "3,4,1", "0,0,0", "x,y,a"), "1 4 2");
}

static void test_place_orders__key_returns_the_current_order(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);

    place(voucher, "8,9", "0,0", "x,y");
    sandbox_do(sandbox,
               "select pay_order(voucher_id, id, 'payment:1', 'ref ' || id, price_cents)"
               " from voucher_order where voucher_id = %" PRId64 " and user_id = 9",
               voucher);
    assert_string_equal(
        sandbox_text(sandbox,
                     "select p.verdicts = '{1,2,2}' and p.order_ids[3] = o.id"
                     " and p.order_ids[2] <> o.id and array_length(p.details, 1) = 12"
                     " and p.details[1] = 2 and p.details[7] = 3 and p.details[8] = 100"
                     " and p.details[9] = unix_us(o.created_at)"
                     " and p.details[10] = unix_us(o.expires_at)"
                     " and p.details[11] = unix_us(o.paid_at) and p.details[12] = 1"
                     " from place_orders(%" PRId64 ", '{7,8,9}', '{0,0,0}', '{z,x,y}') p,"
                     " voucher_order o where o.voucher_id = %" PRId64
                     " and o.user_id = 9",
                     voucher, voucher),
        "t");
}

/* Repeated keys, shoppers at their limit and a stock that runs out in one batch. */
static void test_place_orders__everything_mixed(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 6, 2);

    assert_string_equal(place(voucher, "1,1,2", "0,0,0", "a,b,c"), "1 1 1");
    /* stock 3: repeated, at limit, placed in slot 2, placed, same key, placed, none */
    assert_string_equal(
        place(voucher, "1,1,2,3,3,3,4,2,1", "0,0,0,0,0,0,0,0,0", "a,x,d,e,e,f,g,c,y"),
        "2 3 1 1 2 1 4 2 3");
    assert_int_equal(stock_left(voucher), 0);
}

/* -- fences -- */

static void test_place_orders__fence_must_grow(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 4);

    assert_string_equal(place(voucher, "1", "10", NULL), "1");
    assert_string_equal(place(voucher, "1", "10", NULL), "7");
    assert_string_equal(place(voucher, "1", "9", NULL), "7");
    assert_string_equal(place(voucher, "1", "11", NULL), "1");
    assert_string_equal(place(voucher, "1", "0", NULL), "1"); /* placed without a lock */
    assert_string_equal(place(voucher, "1", "11", NULL), "7");
    assert_string_equal(place(voucher, "2", "1", NULL), "1"); /* of another shopper */
    assert_int_equal(stock_left(voucher), 6);
}

static void test_place_orders__fence_of_an_ended_order_counts(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);

    assert_string_equal(place(voucher, "1", "50", NULL), "1");
    end_order(voucher, 1, 1);
    assert_string_equal(place(voucher, "1", "50", NULL), "7");
    assert_string_equal(place(voucher, "1,2", "49,40", NULL), "7 1");
    assert_string_equal(place(voucher, "1", "51", NULL), "1");
}

/* Slot 1 is free. The fence is above the fence of the ended order, but below the fence of the live
   order in slot 2. */
static void test_place_orders__fence_of_a_higher_slot_counts(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 10, 2);

    assert_string_equal(place(voucher, "1", "10", NULL), "1");
    assert_string_equal(place(voucher, "1", "20", NULL), "1");
    end_order(voucher, 1, 1);
    assert_string_equal(place(voucher, "1", "15", NULL), "7");
    assert_string_equal(place(voucher, "1", "21", NULL), "1");
}

static void test_place_orders__other_refusals_come_before_the_fence(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 2, 1);

    assert_string_equal(place(voucher, "1", "10", "a"), "1");
    assert_string_equal(place(voucher, "1,1", "10,5", "a,b"), "2 3");
    end_order(voucher, 1, 1);
    assert_string_equal(place(voucher, "2,3,1", "20,21,5", NULL), "1 1 4");
}

/* -- bad rows -- */

static void test_place_orders__a_bad_row_leaves_nothing(void **state UNUSED)
{
    static const char *const bad[] = {
        "'{1,-2}', '{0,0}', null",
        "'{1,null}', '{0,0}', null",
        "'{1,2}', '{0,-7}', null",
        "'{1,2}', '{0,0}', array['x', '']",
        "'{1,2}', '{0,0}', array['x', repeat('k', 81)]",
    };
    int64_t voucher = sandbox_voucher(sandbox, 10, 1);

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char statement[256];
        PGresult *result;

        snprintf(statement, sizeof(statement),
                 "select verdicts from place_orders(%" PRId64 ", %s)", voucher, bad[i]);
        result = PQexec(sandbox->conn, statement);
        assert_int_equal(PQresultStatus(result), PGRES_FATAL_ERROR);
        PQclear(result);
    }
    assert_int_equal(stock_left(voucher), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AUDITED_CASE(test_place_orders__places_only_with_a_ticket),
        AUDITED_CASE(test_place_orders__returns_the_voucher_to_all_without_a_ticket),
        AUDITED_CASE(test_place_orders__decides_tickets_by_a_batch_of_their_own),
        AUDITED_CASE(test_place_orders__places_all_in_request_order),
        AUDITED_CASE(test_place_orders__returns_the_stored_rows),
        AUDITED_CASE(test_place_orders__new_shoppers_share_a_deadline),
        AUDITED_CASE(test_place_orders__sells_new_shoppers_exactly_the_stock),
        AUDITED_CASE(test_place_orders__sells_exactly_the_stock),
        AUDITED_CASE(test_place_orders__conflicts_use_up_no_stock),
        AUDITED_CASE(test_place_orders__changes_the_version_once_or_not),
        AUDITED_CASE(test_place_orders__ids_grow_and_fit_the_voucher),
        AUDITED_CASE(test_place_orders__ids_follow_the_requests),
        AUDITED_CASE(test_place_orders__no_voucher),
        AUDITED_CASE(test_place_orders__same_shopper_in_one_batch),
        AUDITED_CASE(test_place_orders__already_ordered_names_a_live_order),
        AUDITED_CASE(test_place_orders__fills_the_lowest_free_slot),
        AUDITED_CASE(test_place_orders__sold_out_still_knows_its_shoppers),
        AUDITED_CASE(test_place_orders__names_the_earlier_orders),
        AUDITED_CASE(test_place_orders__before_and_after_the_sale),
        AUDITED_CASE(test_place_orders__checks_the_window_under_the_lock),
        AUDITED_CASE(test_place_orders__key_repeats_in_every_state),
        AUDITED_CASE(test_place_orders__key_returns_the_current_order),
        AUDITED_CASE(test_place_orders__everything_mixed),
        AUDITED_CASE(test_place_orders__fence_must_grow),
        AUDITED_CASE(test_place_orders__fence_of_an_ended_order_counts),
        AUDITED_CASE(test_place_orders__fence_of_a_higher_slot_counts),
        AUDITED_CASE(test_place_orders__other_refusals_come_before_the_fence),
        AUDITED_CASE(test_place_orders__a_bad_row_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
