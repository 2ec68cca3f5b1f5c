/* it_migrate.c - migrations: once each, in turn, and never one that was edited. */
#include "app/embed.h"
#include "app/test/it_sql.h"

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

    *ret_steps = 0;
    if (status != STATUS_OK)
        return status;
    status = db_migrate(db, count_step, ret_steps, ret_err);
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

static void test_db_migrate__goes_on_where_it_stopped(void **state)
{
    struct sandbox *sandbox = sandbox_open(*state, "migrate_on");
    struct err err = {0};
    unsigned steps;

    sandbox_do(sandbox, "delete from schema_migration where version = 3");
    sandbox_do(sandbox, "drop function create_voucher, patch_voucher, restock_voucher");
    assert_int_equal(migrate(sandbox, &steps, &err), STATUS_OK);
    assert_int_equal(steps, 1);
    sandbox_voucher(sandbox, 1, 1);
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
        cmocka_unit_test(test_db_migrate__goes_on_where_it_stopped),
        cmocka_unit_test(test_db_migrate__refuses_an_edited_one),
        cmocka_unit_test(test_db_migrate__refuses_one_it_does_not_know),
        cmocka_unit_test(test_db_migrate__a_failing_one_leaves_nothing),
        cmocka_unit_test(test_db_migrate__is_applied_and_recorded_or_neither),
        cmocka_unit_test(test_db_migrate__several_at_once_take_turns),
        cmocka_unit_test(test_db_open__says_why_it_cannot),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
