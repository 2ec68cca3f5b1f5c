/* it_migrate.c - migrations: once each, in turn, and never one that was edited. */
#include "app/core/embed.h"
#include "app/test/sql/it_sql.h"
#include "base/clock.h"

#include <inttypes.h>
#include <pthread.h>

static int setup(void **state)
{
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

static void count_step(const char *name UNUSED, void *arg)
{
    unsigned *steps = arg;

    (*steps)++;
}

static enum status migrate(const struct sandbox *sandbox, unsigned *ret_steps,
                           struct err *ret_err)
{
    struct db *db;
    enum status status = db_open(sandbox->url, &db, ret_err);

    const struct db_migration options = {.on_step = count_step, .arg = ret_steps};

    *ret_steps = 0;
    if (status != STATUS_OK)
        return status;
    status = db_migrate(db, &options, ret_err);
    db_close(db);
    return status;
}

static unsigned built_in(void)
{
    unsigned count = 0;

    for (const struct embedded *file = embedded_files; file->path != NULL; file++)
        count += strncmp(file->path, "sql/", 4) == 0;
    return count;
}

static void test_db_migrate__applies_all_once(void **state)
{
    struct sandbox *sandbox = sandbox_new(*state, "migrate_once");
    struct err err = {0};
    unsigned steps;

    assert_true(built_in() >= 3);
    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_OK);
    assert_int_equal(steps, built_in());
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(*) from schema_migration where"
                                    " checksum ~ '^[0-9a-f]{64}$' and applied_at <= now()"
                                    " and name ~ ('^0*' || version || '_[a-z_]+$')"),
                     built_in());
    sandbox_voucher(sandbox, 1, 1);
    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_OK);
    assert_int_equal(steps, 0);
    assert_int_equal(sandbox_number(sandbox, "select count(*) from voucher"), 1);
    sandbox_close(sandbox);
}

static void test_db_migrate__checksum_is_sha256_of_the_file(void **state)
{
    struct sandbox *sandbox = sandbox_new(*state, "migrate_sum");
    struct err err = {0};
    unsigned steps;
    char command[256], sum[65] = "";
    FILE *pipe;

    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_OK);
    snprintf(
        command, sizeof(command), "sha256sum sql/%s.sql",
        sandbox_text(sandbox, "select name from schema_migration where version = 2"));
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%64s", sum), 1);
    pclose(pipe);
    assert_string_equal(
        sandbox_text(sandbox, "select checksum from schema_migration where version = 2"),
        sum);
    sandbox_close(sandbox);
}

static void test_db_migrate__refuses_an_edited_one(void **state)
{
    struct sandbox *sandbox = sandbox_open(*state, "migrate_edited");
    struct err err = {0};
    unsigned steps;

    sandbox_do(sandbox, "update schema_migration set checksum = repeat('0', 64)"
                        " where version = 2");
    sandbox_do(sandbox, "delete from schema_migration where version = 3");
    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_INVALID);
    assert_int_equal(steps, 0);
    assert_non_null(strstr(err.text, "002_"));
    sandbox_close(sandbox);
}

static void test_db_migrate__refuses_one_it_does_not_know(void **state)
{
    struct sandbox *sandbox = sandbox_open(*state, "migrate_unknown");
    struct err err = {0};
    unsigned steps;

    sandbox_do(sandbox, "insert into schema_migration (version, name, checksum)"
                        " values (999, '999_from_the_future', 'x')");
    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "999_from_the_future"));
    sandbox_close(sandbox);
}

static void test_db_migrate__a_failing_one_leaves_nothing(void **state)
{
    struct sandbox *sandbox = sandbox_new(*state, "migrate_fails");
    struct err err = {0};
    unsigned steps;

    /* in the way of the first migration's last table */
    sandbox_do(sandbox, "create table voucher_order (x integer)");
    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_REFUSED);
    assert_non_null(strstr(err.text, "voucher_order"));
    assert_int_equal(sandbox_number(sandbox, "select count(*) from schema_migration"), 0);
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(*) from pg_class where"
                                    " relnamespace = current_schema::regnamespace"
                                    " and relname = 'voucher'"),
                     0);
    sandbox_do(sandbox, "drop table voucher_order");
    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_OK);
    assert_int_equal(steps, built_in());
    sandbox_close(sandbox);
}

static void test_db_migrate__is_applied_and_recorded_or_neither(void **state)
{
    struct sandbox *sandbox = sandbox_new(*state, "migrate_whole");
    struct err err = {0};
    unsigned steps;

    sandbox_do(sandbox, "create table schema_migration (version integer primary key"
                        " check (version <> 2), name text not null,"
                        " checksum text not null, applied_at timestamptz default now())");
    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_REFUSED);
    assert_int_equal(sandbox_number(sandbox, "select count(*) from schema_migration"), 1);
    assert_int_equal(sandbox_number(sandbox,
                                    "select count(*) from pg_proc where"
                                    " pronamespace = current_schema::regnamespace"
                                    " and proname = 'place_orders'"),
                     0);
    sandbox_close(sandbox);
}

struct migrator {
    const struct sandbox *sandbox;
    enum status status;
    unsigned steps;
    struct err err;
};

static void *migrate_in_thread(void *arg)
{
    struct migrator *migrator = arg;

    migrator->status = migrate(migrator->sandbox, &migrator->steps, &migrator->err);
    return NULL;
}

static void test_db_migrate__several_at_once_take_turns(void **state)
{
    struct sandbox *sandbox = sandbox_new(*state, "migrate_race");
    struct migrator migrators[4] = {0};
    pthread_t threads[COUNT_OF(migrators)];
    unsigned steps = 0;

    for (size_t i = 0; i < COUNT_OF(migrators); i++) {
        migrators[i].sandbox = sandbox;
        assert_int_equal(
            pthread_create(&threads[i], NULL, migrate_in_thread, &migrators[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(migrators); i++) {
        pthread_join(threads[i], NULL);
        if (migrators[i].status != STATUS_OK)
            fail_msg("%s", migrators[i].err.text);
        steps += migrators[i].steps;
    }
    assert_int_equal(steps, built_in());
    sandbox_close(sandbox);
}

static void test_db_migrate__dry_run_changes_nothing(void **state)
{
    struct sandbox *sandbox = sandbox_new(*state, "migrate_dry");
    struct db_migration options = {.is_dry_run = true, .on_step = count_step};
    const char *tables = "select count(*) from pg_class where relnamespace ="
                         " current_schema::regnamespace";
    struct err err = {0};
    struct db *db;
    unsigned steps = 0;

    options.arg = &steps;
    assert_int_equal(db_open(sandbox->url, &db, &err), STATUS_OK);
    assert_int_equal(db_migrate(db, &options, &err), STATUS_OK);
    assert_int_equal(steps, built_in());
    assert_int_equal(sandbox_number(sandbox, "%s", tables), 0);
    migrate(sandbox, &steps, &err);
    sandbox_do(sandbox, "delete from schema_migration where version = 2");
    steps = 0;
    assert_int_equal(db_migrate(db, &options, &err), STATUS_OK);
    assert_int_equal(steps, 1);
    sandbox_do(sandbox, "update schema_migration set checksum = 'x' where version = 1");
    assert_int_equal(db_migrate(db, &options, &err), STATUS_INVALID);
    db_close(db);
    sandbox_close(sandbox);
}

static void test_db_migrate__renews_the_rights_of_the_service(void **state)
{
    struct sandbox *sandbox = sandbox_open(*state, "migrate_rights");
    struct err err = {0};
    unsigned steps;

    /* as if this version had just brought them */
    sandbox_do(sandbox, "revoke all on voucher_order from " SERVICE_ROLE);
    sandbox_do(sandbox, "revoke all on function pay_order from " SERVICE_ROLE);
    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_OK);
    assert_string_equal(
        sandbox_text(
            sandbox,
            "select has_table_privilege('" SERVICE_ROLE
            "', 'voucher_order', 'select') and has_function_privilege('" SERVICE_ROLE
            "', 'pay_order'::regproc, 'execute')"),
        "t");
    sandbox_close(sandbox);
}

/* -- upgrades -- */

/* A database as a program left it that knew the first `versions` files only. */
static struct sandbox *old_database(struct fixture *fixture, const char *prefix,
                                    unsigned versions)
{
    char name[32];
    struct sandbox *sandbox;

    snprintf(name, sizeof(name), "%s_%u", prefix, versions);
    sandbox = sandbox_new(fixture, name);
    sandbox_do(sandbox, "create table schema_migration (version integer primary key,"
                        " name text not null, checksum text not null,"
                        " applied_at timestamptz not null default now())");
    for (const struct embedded *file = embedded_files; file->path != NULL; file++) {
        long version = strtol(file->path + 4, NULL, 10);
        const char *const values[] = {file->bytes, file->path + 4};

        if (strncmp(file->path, "sql/", 4) != 0 || version > (long)versions)
            continue;
        sandbox_query(sandbox, file->bytes);
        PQclear(PQexecParams(sandbox->conn,
                             "insert into schema_migration select left($2, 3)::int,"
                             " regexp_replace($2, '[.]sql$', ''),"
                             " encode(sha256(convert_to($1, 'UTF8')), 'hex')",
                             2, NULL, values, NULL, NULL, 0));
    }
    return sandbox;
}

/* Shoppers 1..1000 have an order each; what a later version can know better by its own
   functions is written by hand here. */
static void fill_database(struct sandbox *sandbox, unsigned versions)
{
    sandbox_do(sandbox, "insert into voucher (price_cents, face_value_cents, stock_total,"
                        " stock_left, per_user_limit, begin_at, end_at, pay_within_s,"
                        " title) select 100, 200, 1500, 1500, 2, now() - interval '1 h',"
                        " now() + interval '1 h', 900, 'v' || n"
                        " from generate_series(1, 3) n");
    if (versions == 1)
        sandbox_do(sandbox,
                   "with placed as (insert into voucher_order (voucher_id, id, user_id,"
                   "  fence, price_cents, created_at, expires_at, slot, request_key)"
                   "  select v.id, nextval('voucher_order_id_seq') * 1048576 + v.id, u,"
                   "   u, 100, clock_timestamp(), clock_timestamp() + interval '15 min',"
                   "   1, 'key' || u from voucher v, generate_series(1, 1000) u returning"
                   "  voucher_id) update voucher set stock_left = stock_left - 1000");
    else
        sandbox_do(sandbox, "select place_orders(id, array(select"
                            " generate_series(1::bigint, 1000)), array(select"
                            " generate_series(1::bigint, 1000)), array(select 'key' || u"
                            " from generate_series(1, 1000) u)) from voucher");
    /* states that a hand may have made before there was a history */
    sandbox_do(sandbox,
               "update voucher_order set status = s.status::order_status,"
               " slot = case when s.status in ('paid', 'redeemed') then slot end,"
               " paid_at = case when s.was_paid then clock_timestamp() end,"
               " payment_ref = case when s.was_paid then 'ref' || user_id end"
               " from (values (1, 'paid', true), (2, 'redeemed', true),"
               "  (3, 'refunded', true), (4, 'cancelled', false), (5, 'expired', false))"
               " s (u, status, was_paid) where user_id = s.u");
    sandbox_do(sandbox, "update voucher set stock_left = stock_left + 3,"
                        " ended_fence = 5, version = version + 1");
}

static void test_db_migrate__keeps_the_data_of_every_earlier_version(void **state)
{
    const char *sum = "select md5(string_agg((to_jsonb(o) - 'due_to_id')::text, ','"
                      " order by id)) from voucher_order o";
    char before[64];

    for (unsigned versions = 1; versions < built_in(); versions++) {
        struct sandbox *sandbox = old_database(*state, "upgrade", versions);
        struct err err = {0};
        unsigned steps;

        if (versions <= 3)
            fill_database(sandbox, versions);
        else
            sandbox_do(sandbox, "select place_orders(%" PRId64 ", '{1}', '{1}', null)",
                       sandbox_voucher(sandbox, 5, 1));
        snprintf(before, sizeof(before), "%s", sandbox_text(sandbox, "%s", sum));
        if (migrate(sandbox, &steps, &err) != STATUS_OK)
            fail_msg("from version %u: %s", versions, err.text);
        assert_int_equal(steps, built_in() - versions);
        assert_string_equal(sandbox_text(sandbox, "%s", sum), before);
        assert_int_equal(sandbox_audit(sandbox), 0);
        /* and it goes on from there */
        sandbox_do(sandbox, "select pay_order(voucher_id, id, 'payment:1', 'r', 100)"
                            " from voucher_order where status = 'unpaid' limit 1");
        sandbox_do(sandbox, "select place_orders(id, '{2000}', '{2000}', '{x}')"
                            " from voucher");
        assert_int_equal(sandbox_audit(sandbox), 0);
        sandbox_close(sandbox);
    }
}

static void await_blocked(struct sandbox *sandbox, const char *whose)
{
    int64_t give_up_us = clock_mono_us() + 20000000;

    while (sandbox_number(sandbox,
                          "select count(*) from pg_locks where not granted and %s",
                          whose) == 0)
        assert_true(clock_mono_us() < give_up_us);
}

/* A batch of a program of version 8 holds on until the functions of 9 are there: what it
   places has nothing that leads to it, until 10 has waited for it. */
static void test_db_migrate__finds_what_is_placed_meanwhile(void **state)
{
    struct sandbox *sandbox = old_database(*state, "meanwhile", 8);
    struct migrator migrator = {.sandbox = sandbox};
    int64_t voucher = sandbox_voucher(sandbox, 5, 1);
    PGconn *late = sandbox_connect(sandbox);
    char sql[128], whose[64];
    pthread_t thread;
    PGresult *result;

    sandbox_do(sandbox, "begin");
    sandbox_do(sandbox, "select from voucher for update");
    snprintf(sql, sizeof(sql),
             "select verdicts from place_orders(%" PRId64 ", '{1,2}', '{0,0}', null)",
             voucher);
    assert_int_equal(PQsendQuery(late, sql), 1);
    snprintf(whose, sizeof(whose), "pid = %d", PQbackendPID(late));
    await_blocked(sandbox, whose);
    assert_int_equal(pthread_create(&thread, NULL, migrate_in_thread, &migrator), 0);
    await_blocked(sandbox, "relation = 'voucher'::regclass and mode = 'ExclusiveLock'");
    sandbox_do(sandbox, "commit");
    result = PQgetResult(late);
    assert_string_equal(PQgetvalue(result, 0, 0), "{1,1}");
    PQclear(result);
    PQfinish(late);
    pthread_join(thread, NULL);
    if (migrator.status != STATUS_OK)
        fail_msg("%s", migrator.err.text);
    assert_int_equal(
        sandbox_number(sandbox, "select count(*) from voucher_order first"
                                " join voucher_order last on last.id = first.due_to_id"
                                " where first.user_id = 1 and last.user_id = 2"),
        1);
    assert_int_equal(sandbox_audit(sandbox), 0);
    sandbox_close(sandbox);
}

static void test_db_open__says_why_it_cannot(void **state UNUSED)
{
    struct db *db = NULL;
    struct err err = {0};

    assert_int_equal(db_open("postgresql://127.0.0.1:1/x", &db, &err), STATUS_IO);
    assert_null(db);
    assert_true(err.text[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_db_migrate__applies_all_once),
        cmocka_unit_test(test_db_migrate__checksum_is_sha256_of_the_file),
        cmocka_unit_test(test_db_migrate__refuses_an_edited_one),
        cmocka_unit_test(test_db_migrate__refuses_one_it_does_not_know),
        cmocka_unit_test(test_db_migrate__a_failing_one_leaves_nothing),
        cmocka_unit_test(test_db_migrate__is_applied_and_recorded_or_neither),
        cmocka_unit_test(test_db_migrate__several_at_once_take_turns),
        cmocka_unit_test(test_db_migrate__dry_run_changes_nothing),
        cmocka_unit_test(test_db_migrate__renews_the_rights_of_the_service),
        cmocka_unit_test(test_db_migrate__keeps_the_data_of_every_earlier_version),
        cmocka_unit_test(test_db_migrate__finds_what_is_placed_meanwhile),
        cmocka_unit_test(test_db_open__says_why_it_cannot),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
