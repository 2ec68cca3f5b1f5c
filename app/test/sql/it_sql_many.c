/* it_sql_many.c - place_many(): it decides each batch as place_orders() does. */
#include "app/test/sql/it_sql.h"

#include <inttypes.h>

#define VOUCHERS    6
#define ROUNDS      150
#define REQUESTS    4 /* largest batch */
#define SHOPPERS    9
#define SEED        20250101
#define SOME_STOCKS 40

static struct sandbox *sandbox;

static int setup(void **state)
{
    *state = fixture_open();
    sandbox = sandbox_open(*state, "many");
    return 0;
}

static int teardown(void **state)
{
    sandbox_close(sandbox);
    return fixture_close(*state);
}

static int check_guarantees(void **state UNUSED)
{
    return sandbox_audit(sandbox) == 0 ? 0 : 1;
}

#define MANY_CASE(test) cmocka_unit_test_teardown(test, check_guarantees)

/* Each batch has one request, of the shopper in `users`, with fence 5. Returns "BATCH: VERDICTS" of
   each batch. */
static const char *place_each(const char *vouchers, const char *users, const char *keys)
{
    return sandbox_text(sandbox,
                        "select string_agg(format('%%s: %%s', batch,"
                        " array_to_string(verdicts, ' ')), ', ' order by batch)"
                        " from (select array[%s]::bigint[] v, array[%s]::bigint[] u) a,"
                        " place_many(v, array(select generate_subscripts(v, 1)::bigint),"
                        "  array(select generate_subscripts(v, 1)::bigint), u,"
                        "  array_fill(5::bigint, array[cardinality(v)]), %s)",
                        vouchers, users, keys);
}

static void test_place_many__places_all_and_takes_the_stock(void **state UNUSED)
{
    int64_t first = sandbox_voucher(sandbox, 10, 1);
    int64_t second = sandbox_voucher(sandbox, 10, 1);

    sandbox_do(sandbox,
               "create table placed as select * from place_many("
               "array[%" PRId64 ", %" PRId64 "], '{1,3}', '{2,5}', '{1,2,1,2,3}',"
               " '{11,12,13,0,15}'::bigint[], '{a,null,b,null,null}')",
               first, second);
    assert_string_equal(sandbox_text(sandbox, "select string_agg(verdicts::text, ' '"
                                              " order by batch) from placed"),
                        "{1,1} {1,1,1}");
    assert_string_equal(sandbox_text(sandbox, "select string_agg(format('%%s/%%s',"
                                              " new_stock, new_version), ' ' order by"
                                              " batch) from placed"),
                        "8/2 7/2");
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(*) from placed p, voucher v"
                                    " where v.id = (array[%" PRId64 ", %" PRId64
                                    "])[batch]"
                                    "  and (new_stock, new_version, opens, closes, price)"
                                    "  = (stock_left, version, begin_at, end_at,"
                                    "     price_cents)",
                                    first, second),
                     2);
    /* in the order of the requests */
    assert_string_equal(
        sandbox_text(sandbox,
                     "select string_agg(format('%%s %%s %%s %%s', o.user_id, o.fence,"
                     " o.request_key, (o.created_at, o.expires_at) = (p.decided_at,"
                     " p.expiry)), ', ' order by p.batch, i.pos) from placed p,"
                     " unnest(p.order_ids) with ordinality i (id, pos), voucher_order o"
                     " where o.id = i.id and o.slot = 1 and o.due_to_id = o.id"
                     " and o.voucher_id = (array[%" PRId64 ", %" PRId64 "])[p.batch]",
                     first, second),
        "1 11 a t, 2 12  t, 1 13 b t, 2   t, 3 15  t");
}

static void test_place_many__leaves_out_held_and_missing_vouchers(void **state UNUSED)
{
    int64_t vouchers[] = {sandbox_voucher(sandbox, 10, 1),
                          sandbox_voucher(sandbox, 10, 1),
                          sandbox_voucher(sandbox, 10, 1)};
    PGconn *holder = sandbox_connect(sandbox);
    char list[128];

    snprintf(list, sizeof(list), "select from voucher where id = %" PRId64 " for update",
             vouchers[1]);
    PQclear(PQexec(holder, "begin"));
    PQclear(PQexec(holder, list));
    snprintf(list, sizeof(list), "%" PRId64 ", %" PRId64 ", %" PRId64 ", 9000000",
             vouchers[0], vouchers[1], vouchers[2]);
    assert_string_equal(place_each(list, "1, 2, 3, 4", "null"), "1: 1, 3: 1");
    PQclear(PQexec(holder, "rollback"));
    PQfinish(holder);
    assert_string_equal(place_each(list, "1, 2, 3, 4", "null"), "1: 3, 2: 1, 3: 3");
}

static void test_place_many__places_only_with_a_ticket(void **state UNUSED)
{
    int64_t guarded = sandbox_voucher(sandbox, 10, 1);
    int64_t open = sandbox_voucher(sandbox, 10, 1);

    sandbox_do(sandbox,
               "select patch_voucher(%" PRId64 ", null, null, null, null, null, true)",
               guarded);
    assert_string_equal(
        sandbox_text(sandbox,
                     "select string_agg(verdicts::text, ' ' order by batch) from"
                     " place_many(array[%" PRId64 ", %" PRId64 "], '{1,3}', '{2,4}',"
                     " '{1,2,1,2}', '{1,1,1,1}', null, '{f,t,f,f}')",
                     guarded, open),
        "{9,1} {1,1}");
}

static void
test_place_many__a_refused_batch_does_not_change_the_others(void **state UNUSED)
{
    int64_t sold_out = sandbox_voucher(sandbox, 0, 1);
    int64_t ended = sandbox_voucher(sandbox, 5, 1);
    int64_t open = sandbox_voucher(sandbox, 5, 1);
    int64_t keyed = sandbox_voucher(sandbox, 5, 2);
    char list[128];

    sandbox_do(sandbox, "select place_orders(%" PRId64 ", '{7}', '{1}', '{k}')", keyed);
    sandbox_do(sandbox,
               "update voucher set end_at = clock_timestamp() where id = %" PRId64,
               ended);
    snprintf(list, sizeof(list), "%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64,
             sold_out, ended, open, keyed);
    assert_string_equal(place_each(list, "6, 6, 6, 7", "'{null,null,null,k}'"),
                        "1: 4, 2: 6, 3: 1, 4: 2");
}

/* The calls for a voucher wait for each other, those for another one do not. */
static void test_place_many__locks_each_voucher(void **state UNUSED)
{
    int64_t first, second;
    char list[64];

    sandbox_do(sandbox, "select setval('voucher_id_seq', 2147483648 + 5)");
    first = sandbox_voucher(sandbox, 5, 1);
    second = sandbox_voucher(sandbox, 5, 1);

    snprintf(list, sizeof(list), "%" PRId64 ", %" PRId64, second, first);
    sandbox_do(sandbox, "begin");
    place_each(list, "1, 1", "null");
    assert_string_equal(
        sandbox_text(sandbox,
                     "select string_agg(classid || '/' || objid, ' ' order by objid)"
                     " from pg_locks where locktype = 'advisory' and objsubid = 2"
                     " and pid = pg_backend_pid()"),
        "5265717/6 5265717/7"); /* the lower 31 bits */
    sandbox_do(sandbox, "commit");
    /* only the lower 20 bits of the voucher's id are in that of an order */
    assert_string_equal(
        sandbox_text(sandbox,
                     "select string_agg((id %% 1048576)::text, ' ' order by voucher_id)"
                     " from voucher_order where voucher_id in (%s)",
                     list),
        "6 7");
}

/* The batch of 16 shoppers from `first` with that many tickets, and the last one once more if
   `is_twice`. */
static void place_large(int64_t voucher, int first, int last, bool is_twice, int tickets)
{
    sandbox_do(sandbox,
               "select place_many(array[%" PRId64 "], '{1}', '{16}',"
               " array(select case when %s and i = %d then i - 1 else i end"
               "  from generate_series(%d, %d) i), array_fill(0::bigint, '{16}'), null,"
               " array(select i <= %d from generate_series(1, 16) i))",
               voucher, is_twice ? "true" : "false", last, first, last, tickets);
}

/* Orders that are placed together have an entry each in the index of deadlines. A batch that is
   left to place_orders() has one, if all its shoppers are new. */
static void test_place_many__places_plain_batches_together(void **state UNUSED)
{
    static const struct {
        int stock;
        bool is_guarded;
        int first, tickets;
        const char *begin;
        const char *wanted; /* entries, orders */
    } rows[] = {
        {16, false, 1, 0, "-1 min", "16 16"}, /* the last ones */
        {15, false, 1, 16, "-1 min", "1 15"}, /* too little stock */
        {99, true, 1, 16, "-1 min", "16 16"}, /* all tickets */
        {99, true, 1, 15, "-1 min", "15 15"}, /* one is missing, and 15 are few */
        {99, false, 1, 16, "1 min", " 0"},    /* not yet */
    };
    int64_t other = sandbox_voucher(sandbox, 99, 1);

    sandbox_do(sandbox, "select place_orders(%" PRId64 ", '{1}', '{0}', null)", other);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t voucher = sandbox_voucher(sandbox, rows[i].stock, 1);

        sandbox_do(sandbox,
                   "update voucher set requires_ticket = %s, begin_at = now() + interval"
                   " '%s' where id = %" PRId64,
                   rows[i].is_guarded ? "true" : "false", rows[i].begin, voucher);
        place_large(voucher, 1, 16, false, rows[i].tickets);
        assert_string_equal(
            sandbox_text(sandbox,
                         "select concat(sum((due_to_id is not null)::int), ' ', count(*))"
                         " from voucher_order where voucher_id = %" PRId64,
                         voucher),
            rows[i].wanted);
    }
}

/* A shopper who is in a batch twice, or has ordered before, is decided by place_orders(). */
static void test_place_many__finds_shoppers_that_are_not_new(void **state UNUSED)
{
    int64_t voucher = sandbox_voucher(sandbox, 99, 1);

    place_large(voucher, 1, 16, true, 16);
    place_large(voucher, 14, 29, false, 16);
    assert_string_equal(sandbox_text(sandbox,
                                     "select concat_ws(' ', count(*), count(distinct"
                                     " user_id), min(user_id), max(user_id)) from"
                                     " voucher_order where voucher_id = %" PRId64,
                                     voucher),
                        "29 29 1 29");
}

/* An array of `count` numbers or keys. */
static void append(char *text, size_t size, const char *element, bool is_first)
{
    size_t len = strlen(text);

    snprintf(text + len, size - len, "%s%s", is_first ? "" : ",", element);
}

struct round {
    char vouchers[256], firsts[256], lasts[256], users[512], fences[512], keys[512];
    char expected[1024];
    unsigned requests;
};

static unsigned random_below(unsigned count)
{
    static unsigned state = SEED;

    state = state * 1103515245 + 12345;
    return (state >> 16) % count;
}

/* Adds a batch for place_many(), and the same batch for place_orders() and another voucher. */
static void add_batch(struct round *round, int64_t voucher, int64_t twin, int number)
{
    char users[64] = "", fences[64] = "", keys[64] = "", text[32];
    unsigned count = 1 + random_below(REQUESTS);

    for (unsigned i = 0; i < count; i++) {
        snprintf(text, sizeof(text), "%u", 1 + random_below(SHOPPERS));
        append(users, sizeof(users), text, i == 0);
        snprintf(text, sizeof(text), "%d",
                 random_below(4) == 0 ? 0 : number * 3 + (int)random_below(9));
        append(fences, sizeof(fences), text, i == 0);
        snprintf(text, sizeof(text), random_below(2) == 0 ? "null" : "k%u",
                 random_below(20));
        append(keys, sizeof(keys), text, i == 0);
    }
    snprintf(text, sizeof(text), "%" PRId64, voucher);
    append(round->vouchers, sizeof(round->vouchers), text, round->requests == 0);
    snprintf(text, sizeof(text), "%u", round->requests + 1);
    append(round->firsts, sizeof(round->firsts), text, round->requests == 0);
    snprintf(text, sizeof(text), "%u", round->requests + count);
    append(round->lasts, sizeof(round->lasts), text, round->requests == 0);
    append(round->users, sizeof(round->users), users, round->requests == 0);
    append(round->fences, sizeof(round->fences), fences, round->requests == 0);
    append(round->keys, sizeof(round->keys), keys, round->requests == 0);
    round->requests += count;
    append(round->expected, sizeof(round->expected),
           sandbox_text(sandbox,
                        "select verdicts || ' ' || new_stock || ' ' || new_version"
                        " from (select verdicts::text, new_stock, new_version"
                        "  from place_orders(%" PRId64 ", '{%s}', '{%s}', '{%s}')) p",
                        twin, users, fences, keys),
           round->requests == count);
}

/* Random batches: new shoppers, repeated keys, old fences, little stock. */
static void test_place_many__decides_as_place_orders_does(void **state UNUSED)
{
    int64_t vouchers[VOUCHERS], twins[VOUCHERS];

    for (int i = 0; i < VOUCHERS; i++) {
        vouchers[i] = sandbox_voucher(sandbox, i * SOME_STOCKS, 1 + i % 3);
        twins[i] = sandbox_voucher(sandbox, i * SOME_STOCKS, 1 + i % 3);
    }
    for (int number = 0; number < ROUNDS; number++) {
        struct round round = {.requests = 0};

        for (int i = 0; i < VOUCHERS; i++) {
            if (random_below(3) > 0)
                add_batch(&round, vouchers[i], twins[i], number);
        }
        if (round.requests == 0)
            continue;
        assert_string_equal(
            sandbox_text(
                sandbox,
                "select string_agg(verdicts || ' ' || new_stock || ' ' ||"
                " new_version, ',' order by batch) from (select batch,"
                " verdicts::text, new_stock, new_version"
                " from place_many('{%s}', '{%s}', '{%s}', '{%s}', '{%s}', '{%s}')) p",
                round.vouchers, round.firsts, round.lasts, round.users, round.fences,
                round.keys),
            round.expected);
    }
    for (int i = 0; i < VOUCHERS; i++)
        assert_int_equal(
            sandbox_number(
                sandbox,
                "select count(*) from (select user_id, slot, fence, request_key,"
                "  row_number() over (order by id) from voucher_order"
                "  where voucher_id = %" PRId64 ") a full join"
                " (select user_id, slot, fence, request_key,"
                "  row_number() over (order by id) from voucher_order"
                "  where voucher_id = %" PRId64 ") b using (row_number)"
                " where (a.user_id, a.slot, a.fence, a.request_key) is"
                "  distinct from (b.user_id, b.slot, b.fence, b.request_key)",
                vouchers[i], twins[i]),
            0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MANY_CASE(test_place_many__places_all_and_takes_the_stock),
        MANY_CASE(test_place_many__places_only_with_a_ticket),
        MANY_CASE(test_place_many__leaves_out_held_and_missing_vouchers),
        MANY_CASE(test_place_many__a_refused_batch_does_not_change_the_others),
        MANY_CASE(test_place_many__locks_each_voucher),
        MANY_CASE(test_place_many__places_plain_batches_together),
        MANY_CASE(test_place_many__finds_shoppers_that_are_not_new),
        MANY_CASE(test_place_many__decides_as_place_orders_does),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
