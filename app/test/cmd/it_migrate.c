/* it_migrate.c - db_migrate(): fresh databases, upgrades, failures, and several migrations at
   once. */
#include "app/core/embed.h"
#include "app/test/sql/it_sql.h"
#include "base/clock.h"

#include <inttypes.h>
#include <pthread.h>

#define BASELINE "sql/migrations/0001_baseline.sql"
#define SEGMENTS "sql/migrations/0002_order_by_segment.sql"
#define PREPARED                                                                         \
    "sql/preparations/0002_index_ended_orders.sql "                                      \
    "sql/preparations/0002_index_slots.sql "
#define NEXT    "sql/migrations/0004_add_gift.sql"
#define LAST    "sql/migrations/0005_add_note.sql"
#define UNIX_US "sql/functions/unix_us.sql"

static struct sandbox *sandbox;
static char schema[20];

static const char *next_schema(void)
{
    static int number;

    snprintf(schema, sizeof(schema), "migrate_%d", ++number);
    return schema;
}

static int open_empty(void **state)
{
    sandbox = sandbox_new(*state, next_schema());
    return 0;
}

static int open_migrated(void **state)
{
    sandbox = sandbox_open(*state, next_schema());
    return 0;
}

static int close_sandbox(void **state UNUSED)
{
    sandbox_close(sandbox);
    return 0;
}

#define EMPTY_CASE(name)    DEFINE_CASE(name, name, open_empty, close_sandbox, NULL)
#define MIGRATED_CASE(name) DEFINE_CASE(name, name, open_migrated, close_sandbox, NULL)

/* -- files -- */

/* The migrations and functions of a program, which can be a later version. */
struct files {
    struct embedded rows[96];
};

static struct files built_in_files(void)
{
    struct files files = {0};
    size_t count = 0;

    for (const struct embedded *file = embedded_files; file->path != NULL; file++) {
        assert_true(count + 8 < COUNT_OF(files.rows));
        if (strncmp(file->path, "sql/migrations/", 15) == 0 ||
            strncmp(file->path, "sql/functions/", 14) == 0)
            files.rows[count++] = *file;
    }
    return files;
}

static unsigned count_files(void)
{
    const struct files files = built_in_files();
    unsigned count = 0;

    while (files.rows[count].path != NULL)
        count++;
    return count;
}

static void set_file(struct files *files, const char *path, const char *text)
{
    struct embedded *row = files->rows;

    while (row->path != NULL && strcmp(row->path, path) != 0)
        row++;
    *row = (struct embedded){.path = path, .bytes = text, .end = text + strlen(text)};
}

static void remove_file(struct files *files, const char *path)
{
    struct embedded *row = files->rows;

    while (strcmp(row->path, path) != 0)
        row++;
    for (; row->path != NULL; row++)
        row[0] = row[1];
}

/* Removes all migrations but the first one, and the functions that need a table of another one. */
static void keep_baseline(struct files *files)
{
    struct embedded *kept = files->rows;

    for (const struct embedded *row = files->rows; row->path != NULL; row++) {
        bool is_migration = strncmp(row->path, "sql/migrations/", 15) == 0;

        if (strcmp(row->path, BASELINE) == 0 ||
            (!is_migration && strstr(row->path, "_webhook.sql") == NULL &&
             strstr(row->path, "/lottery_columns.sql") == NULL))
            *kept++ = *row;
    }
    *kept = (struct embedded){0};
}

/* -- running it -- */

struct steps {
    unsigned count;
    char text[8192];
    char warnings[2048];
};

static void on_step(const char *path, void *arg)
{
    struct steps *steps = arg;
    size_t used = strlen(steps->text);

    steps->count++;
    snprintf(steps->text + used, sizeof(steps->text) - used, "%s ", path);
}

static void on_warning(const char *text, void *arg)
{
    struct steps *steps = arg;
    size_t used = strlen(steps->warnings);

    snprintf(steps->warnings + used, sizeof(steps->warnings) - used, "%s\n", text);
}

static _Thread_local struct steps steps;
static _Thread_local struct rlock_err err;

static enum rlock_status migrate_with(struct db_migration options)
{
    struct db *db;
    enum rlock_status status;

    err = (struct rlock_err){0};
    steps = (struct steps){0};
    status = db_open(sandbox->url, &db, &err);
    if (status != RLOCK_OK)
        return status;
    options.on_step = on_step;
    options.on_warning = on_warning;
    options.arg = &steps;
    status = db_migrate(db, &options, &err);
    db_close(db);
    return status;
}

static enum rlock_status migrate(const struct files *files)
{
    return migrate_with(
        (struct db_migration){.files = files != NULL ? files->rows : NULL});
}

/* Migrates with these files, or with the files of this program if `files` is NULL. Fails unless the
   steps are `expected`. */
static void assert_migrates(const struct files *files, const char *expected)
{
    if (migrate(files) != RLOCK_OK)
        fail_msg("%s", err.text);
    assert_string_equal(steps.text, expected);
}

/* Migrates with these files. Fails unless the migration is refused with this status and reason. */
static void assert_refuses(const struct files *files, enum rlock_status expected,
                           const char *why)
{
    ASSERT_STATUS(migrate(files), expected);
    ASSERT_CONTAINS(err.text, why);
}

static int64_t count_relations(const char *name)
{
    return sandbox_number(sandbox,
                          "select count(*) from pg_class where relnamespace ="
                          " current_schema::regnamespace and relname like '%s'",
                          name);
}

static int64_t count_columns(const char *name)
{
    return sandbox_number(sandbox,
                          "select count(*) from information_schema.columns"
                          " where table_schema = current_schema and column_name = '%s'",
                          name);
}

static int64_t count_functions(const char *name)
{
    return sandbox_number(sandbox,
                          "select count(*) from pg_proc where pronamespace ="
                          " current_schema::regnamespace and proname = '%s'",
                          name);
}

static bool may_call(const char *function)
{
    return sandbox_number(sandbox,
                          "select has_function_privilege('" SERVICE_ROLE "',"
                          " '%s'::regproc, 'execute')::int",
                          function) == 1;
}

/* -- a fresh database -- */

EMPTY_CASE(test_db_migrate__applies_all_once)
{
    char sum[65] = "";
    FILE *pipe = popen("sha256sum " BASELINE, "r");

    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%64s", sum), 1);
    pclose(pipe);
    ASSERT_NUMBER(count_files(), >=, 20);
    ASSERT_STATUS(migrate(NULL), RLOCK_OK);
    assert_int_equal(steps.count, count_files());
    assert_int_equal(sandbox_number(sandbox, "select count(*) from schema_file where"
                                             " checksum ~ '^[0-9a-f]{64}$'"
                                             " and applied_at <= now()"),
                     count_files());
    assert_string_equal(sandbox_text(sandbox,
                                     "select checksum from schema_file where path = '%s'",
                                     BASELINE),
                        sum);
    sandbox_voucher(sandbox, 1, 1);
    assert_migrates(NULL, "");
    assert_int_equal(sandbox_number(sandbox, "select count(*) from voucher"), 1);
}

EMPTY_CASE(test_db_migrate__failure_leaves_nothing)
{
    sandbox_do(sandbox, "create table voucher_order (x integer)");
    assert_refuses(NULL, RLOCK_REFUSED, "voucher_order");
    assert_int_equal(count_relations("%"), 1);
}

EMPTY_CASE(test_db_migrate__applies_and_records_or_neither)
{
    struct files files = built_in_files();

    keep_baseline(&files);
    sandbox_do(sandbox, "create table schema_file (path text primary key"
                        " check (path !~ 'unix_us'), checksum text not null,"
                        " applied_at timestamptz default now())");
    assert_refuses(&files, RLOCK_REFUSED, UNIX_US);
    assert_int_equal(sandbox_number(sandbox, "select count(*) from schema_file"), 0);
    assert_int_equal(count_relations("voucher"), 0);
    assert_int_equal(count_functions("cancel_order"), 0);
}

static void *migrate_in_thread(void *arg UNUSED)
{
    return migrate(NULL) == RLOCK_OK ? (void *)(uintptr_t)steps.count : NULL;
}

EMPTY_CASE(test_db_migrate__several_at_once_take_turns)
{
    pthread_t threads[4];
    uintptr_t count = 0;

    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, migrate_in_thread, NULL), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        void *done;

        pthread_join(threads[i], &done);
        count += (uintptr_t)done;
    }
    assert_int_equal(count, count_files());
}

EMPTY_CASE(test_db_migrate__dry_run_changes_nothing)
{
    struct files files = built_in_files();
    const struct db_migration options = {.is_dry_run = true, .files = files.rows};
    size_t used;

    ASSERT_STATUS(migrate_with(options), RLOCK_OK);
    assert_int_equal(steps.count, count_files());
    assert_int_equal(count_relations("%"), 0);

    ASSERT_STATUS(migrate(NULL), RLOCK_OK);
    set_file(&files, NEXT, "alter table voucher add gift text");
    set_file(&files, UNIX_US, "not even SQL");
    remove_file(&files, "sql/functions/find_orders.sql");
    ASSERT_STATUS(migrate_with(options), RLOCK_OK);
    assert_string_equal(steps.text,
                        NEXT " " UNIX_US " sql/functions/find_orders.sql (dropped) ");
    assert_migrates(NULL, "");

    used = strlen(sandbox->url);
    snprintf(sandbox->url + used, sizeof(sandbox->url) - used,
             "%%20-cdefault_transaction_read_only%%3Don");
    ASSERT_STATUS(migrate_with((struct db_migration){.is_dry_run = true}), RLOCK_OK);
    assert_int_equal(steps.count, 0);
}

MIGRATED_CASE(test_db_migrate__renews_the_rights_of_the_service)
{
    sandbox_do(sandbox, "revoke all on voucher_order from " SERVICE_ROLE);
    sandbox_do(sandbox, "revoke all on function pay_order from " SERVICE_ROLE);
    assert_false(may_call("pay_order"));
    assert_migrates(NULL, "");
    assert_true(may_call("pay_order"));
    assert_string_equal(sandbox_text(sandbox, "select has_table_privilege('" SERVICE_ROLE
                                              "', 'voucher_order', 'select')"),
                        "t");
}

/* -- upgrades -- */

static void use_database(void)
{
    sandbox_do(sandbox,
               "select place_orders(%" PRId64 ", array(select generate_series(1, 50)),"
               " array(select generate_series(1, 50)), null)",
               sandbox_voucher(sandbox, 100, 2));
    sandbox_do(sandbox, "select pay_order(voucher_id, id, 'payment:1', 'r' || id, 100)"
                        " from voucher_order where user_id <= 3");
    sandbox_do(sandbox, "select redeem_order(voucher_id, id, 'admin:1')"
                        " from voucher_order where user_id = 1");
    sandbox_do(sandbox, "select refund_order(voucher_id, id, 'admin:1')"
                        " from voucher_order where user_id = 2");
    sandbox_do(sandbox, "select cancel_order(voucher_id, id, 'shopper:4')"
                        " from voucher_order where user_id = 4");
}

#define NEW_UNIX_US                                                                      \
    "create or replace function unix_us(p_at timestamptz) returns bigint"                \
    " language sql stable return 7::bigint"

MIGRATED_CASE(test_db_migrate__applies_the_next_migration)
{
    static const char data[] = "select md5(string_agg((to_jsonb(h))::text, ','"
                               " order by id)) from voucher_history h";
    struct files files = built_in_files();
    char before[64];

    use_database();
    snprintf(before, sizeof(before), "%s", sandbox_text(sandbox, data));
    set_file(&files, NEXT,
             "alter table voucher add gift text not null default 'none';"
             "create index voucher_gift on voucher (gift)");
    set_file(&files, UNIX_US, NEW_UNIX_US);
    assert_migrates(&files, NEXT " " UNIX_US " ");
    assert_string_equal(sandbox_text(sandbox, data), before);
    assert_int_equal(sandbox_number(sandbox, "select unix_us(now())"), 7);
    assert_int_equal(count_columns("gift"), 1);
    assert_int_equal(count_relations("voucher_gift"), 1);
    assert_int_equal(sandbox_audit(sandbox), 0);
    sandbox_do(sandbox, "select place_orders(id, '{2000}', '{2000}', '{x}')"
                        " from voucher");
    assert_int_equal(sandbox_audit(sandbox), 0);
    assert_migrates(&files, "");
}

/* A migration locks the tables whose names are in its text, here in a comment. Other tables and
   system tables must not be locked. */
MIGRATED_CASE(test_db_migrate__locks_the_tables_that_a_migration_names)
{
    struct files files = built_in_files();

    set_file(&files, NEXT,
             "create table locked as select string_agg(relname, ' ' order by relname)"
             " from pg_locks join pg_class c on c.oid = relation"
             " where pid = pg_backend_pid() and mode = 'AccessExclusiveLock'"
             " and relkind = 'r'; -- voucher_order, voucher");
    assert_migrates(&files, NEXT " ");
    assert_string_equal(sandbox_text(sandbox, "table locked"), "voucher voucher_order");
}

MIGRATED_CASE(test_db_migrate__commits_each_migration)
{
    struct files files = built_in_files();

    use_database();
    set_file(&files, NEXT, "alter table voucher add gift text");
    set_file(&files, LAST, "alter table voucher add note text; select 1 / 0");
    set_file(&files, UNIX_US, NEW_UNIX_US);
    assert_refuses(&files, RLOCK_REFUSED, LAST);
    assert_int_equal(count_columns("gift"), 1);
    assert_int_equal(count_columns("note"), 0);
    assert_true(sandbox_number(sandbox, "select unix_us(now())") > 7);

    set_file(&files, LAST, "alter table voucher add note text");
    assert_migrates(&files, LAST " " UNIX_US " ");
    assert_int_equal(count_columns("note"), 1);
    assert_int_equal(sandbox_number(sandbox, "select unix_us(now())"), 7);
}

MIGRATED_CASE(test_db_migrate__the_last_migration_includes_the_functions)
{
    struct files files = built_in_files();

    use_database();
    set_file(&files, NEXT, "alter table voucher add gift text");
    set_file(&files, UNIX_US, "create or replace function unix_us(");
    assert_refuses(&files, RLOCK_REFUSED, UNIX_US);
    assert_int_equal(count_columns("gift"), 0);
    assert_migrates(NULL, "");
}

static void undo_segments(void)
{
    sandbox_do(sandbox, "drop index voucher_order_slot, voucher_order_ended");
    sandbox_do(sandbox, "create unique index voucher_order_slot"
                        " on voucher_order (user_id, voucher_id, slot)");
    sandbox_do(sandbox, "create index voucher_order_ended on voucher_order"
                        " (user_id, voucher_id, fence)"
                        " where slot is null and fence is not null");
    sandbox_do(sandbox, "delete from schema_file where path = '" SEGMENTS "'");
}

MIGRATED_CASE(test_db_migrate__uses_indexes_that_were_created_beforehand)
{
    int64_t slot;

    use_database();
    undo_segments();
    sandbox_do(sandbox, "create unique index concurrently voucher_order_slot_new on"
                        " voucher_order ((voucher_id >> 16), user_id, voucher_id, slot)");
    slot = sandbox_number(sandbox, "select 'voucher_order_slot_new'::regclass::oid");
    PQclear(PQexec(sandbox->conn,
                   "create unique index concurrently voucher_order_ended_new on"
                   " voucher_order (voucher_id)"));
    assert_migrates(
        NULL, "drop of the invalid index voucher_order_ended_new " PREPARED SEGMENTS " ");
    assert_int_equal(
        sandbox_number(sandbox, "select 'voucher_order_slot'::regclass::oid"), slot);
    assert_string_equal(
        sandbox_text(sandbox, "select string_agg(pg_get_indexdef(indexrelid, 1, true) ||"
                              " ' ' || indisunique || ' ' || indisvalid, ', ' order by"
                              " indexrelid::regclass::text) from pg_index"
                              " where indexrelid in ('voucher_order_slot'::regclass,"
                              "  'voucher_order_ended'::regclass)"),
        "voucher_id false true, (voucher_id >> 16) true true");
    assert_int_equal(count_relations("voucher_order_%%_new"), 0);
    sandbox_do(sandbox, "select place_orders(id, '{2000,3}', '{2000,2001}', '{x,y}')"
                        " from voucher");
    assert_int_equal(sandbox_audit(sandbox), 0);
}

MIGRATED_CASE(test_db_migrate__refuses_an_edited_migration_and_a_newer_database)
{
    struct files files = built_in_files(), edited;

    set_file(&files, NEXT, "alter table voucher add gift text");
    edited = files;
    set_file(&edited, BASELINE, "create table voucher ()");
    assert_refuses(&edited, RLOCK_INVALID, BASELINE);
    assert_int_equal(count_columns("gift"), 0);
    assert_migrates(&files, NEXT " ");
    assert_refuses(NULL, RLOCK_INVALID, NEXT);
}

EMPTY_CASE(test_db_migrate__refuses_tables_of_an_unknown_version)
{
    const struct db_migration dry_run = {.is_dry_run = true};

    sandbox_do(sandbox, "create table voucher (id bigint)");
    assert_refuses(NULL, RLOCK_INVALID, "no recorded migration");
    ASSERT_STATUS(migrate_with(dry_run), RLOCK_INVALID);
}

/* -- functions -- */

MIGRATED_CASE(test_db_migrate__drops_a_function_without_a_file)
{
    struct files files = built_in_files();

    sandbox_do(sandbox, "create function report() returns int language sql return 1");
    remove_file(&files, "sql/functions/find_orders.sql");
    assert_migrates(&files, "sql/functions/find_orders.sql (dropped) ");
    assert_int_equal(count_functions("find_orders"), 0);
    assert_int_equal(count_functions("report"), 1);
    assert_migrates(&files, "");
}

#define NEW_REDEEM_ORDER                                                                 \
    "create or replace function redeem_order(p_all boolean) returns int"                 \
    " language sql security definer set search_path from current return 1;"              \
    "revoke execute on function redeem_order(boolean) from public"

MIGRATED_CASE(test_db_migrate__a_new_signature_drops_the_old_one)
{
    struct files files = built_in_files();

    set_file(&files, "sql/functions/redeem_order.sql", NEW_REDEEM_ORDER);
    assert_refuses(&files, RLOCK_REFUSED, "another function of this name");
    assert_int_equal(count_functions("redeem_order"), 1);

    set_file(
        &files, "sql/functions/redeem_order.sql",
        "drop function if exists redeem_order(bigint, bigint, text);" NEW_REDEEM_ORDER);
    assert_migrates(&files, "sql/functions/redeem_order.sql ");
    assert_int_equal(sandbox_number(sandbox, "select redeem_order(true)"), 1);
    assert_int_equal(count_functions("redeem_order"), 1);
    assert_true(may_call("redeem_order"));
}

/* Upgrades from a release whose functions had no parameter for tickets. */
MIGRATED_CASE(test_db_migrate__replaces_functions_without_tickets)
{
    sandbox_do(sandbox, "create function place_orders(bigint, bigint[], bigint[], text[])"
                        " returns int language sql return 1");
    sandbox_do(sandbox,
               "create function place_many(bigint[], bigint[], bigint[], bigint[],"
               " bigint[], text[]) returns int language sql return 1");
    sandbox_do(sandbox, "delete from schema_file where path like '%%/place_orders.sql'"
                        " or path like '%%/place_many.sql'");
    assert_migrates(NULL, "sql/functions/place_many.sql sql/functions/place_orders.sql ");
    assert_int_equal(count_functions("place_orders"), 1);
    assert_int_equal(count_functions("place_many"), 1);
    assert_true(may_call("place_orders"));
}

MIGRATED_CASE(test_db_migrate__remembers_the_service_if_functions_are_dropped)
{
    struct files files = built_in_files();

    set_file(&files, NEXT, "drop function if exists place_orders");
    assert_migrates(&files, NEXT " sql/functions/place_orders.sql ");
    assert_true(may_call("place_orders"));
}

MIGRATED_CASE(test_db_migrate__functions_use_their_own_schema_only)
{
    char path[60];

    snprintf(path, sizeof(path), "search_path=%s, pg_temp", schema);
    assert_string_equal(
        sandbox_text(
            sandbox,
            "select string_agg(distinct c, '') from pg_proc p, unnest(proconfig) c"
            " where pronamespace = current_schema::regnamespace and prosecdef"
            " and c like 'search_path=%%'"),
        path);
    assert_int_equal(
        sandbox_number(
            sandbox, "select count(*) from pg_proc p"
                     " where pronamespace = current_schema::regnamespace and prosecdef"
                     " and not array_to_string(proconfig, ' ') like '%%search_path=%%'"),
        0);
}

/* place_orders() calls make_interval() with an integer. If this function existed, Postgres would
   prefer it to its own function, whose parameter is a double precision. */
static const char planted_function[] =
    "create function make_interval(secs integer) returns interval language plpgsql as"
    " 'begin raise exception ''called by %'', current_user; end'";

static bool can_plant(void)
{
    PGconn *service = PQconnectdb(sandbox->service_url);
    PGresult *result = PQexec(service, planted_function);
    bool is_planted = PQresultStatus(result) == PGRES_COMMAND_OK;

    if (!is_planted)
        assert_string_equal(PQresultErrorField(result, PG_DIAG_SQLSTATE), "42501");
    PQclear(result);
    PQfinish(service);
    return is_planted;
}

static void assert_said(const char *text, const char *pattern)
{
    char wanted[200];

    ASSERT_CONTAINS(text, fill(pattern, schema, wanted, sizeof(wanted)));
}

EMPTY_CASE(test_db_migrate__lets_nobody_plant_a_function)
{
    sandbox_do(sandbox, "grant create, usage on schema %s to public", schema);
    ASSERT_STATUS(migrate_with((struct db_migration){.is_dry_run = true}), RLOCK_OK);
    assert_said(steps.warnings, "role public may create functions in schema {}, ");
    ASSERT_STATUS(migrate(NULL), RLOCK_OK);
    assert_said(steps.text, "revoke create on schema {} from public ");
    assert_string_equal(steps.warnings, "");
    assert_false(can_plant());
    assert_migrates(NULL, "");
}

MIGRATED_CASE(test_db_migrate__warns_of_roles_that_may_plant_a_function)
{
    assert_migrates(NULL, "");
    assert_string_equal(steps.warnings, "");
    sandbox_do(sandbox, "grant create on schema %s to " SERVICE_ROLE, schema);
    assert_true(can_plant());
    assert_migrates(NULL, "");
    assert_said(steps.warnings,
                "role " SERVICE_ROLE " may create functions in schema {}, ");
    assert_said(steps.warnings,
                "function make_interval(integer) belongs to role " SERVICE_ROLE);
}

/* The schema has another owner, so the role that migrates cannot revoke the right. */
MIGRATED_CASE(test_db_migrate__warns_of_public_in_the_schema_of_another_owner)
{
    PGconn *superuser = PQconnectdb(sandbox->superuser_url);
    char sql[200];

    snprintf(sql, sizeof(sql),
             "alter schema %s owner to current_user;"
             " grant create, usage on schema %s to public",
             schema, schema);
    PQclear(PQexec(superuser, sql));
    PQfinish(superuser);
    assert_migrates(NULL, "");
    assert_said(steps.warnings, "role public may create functions in schema {}, ");
}

static void await_blocked(const PGconn *session)
{
    int64_t give_up_us = clock_mono_us() + 60000000;

    while (sandbox_number(sandbox,
                          "select count(*) from pg_locks where not granted and pid = %d",
                          PQbackendPID(session)) == 0)
        assert_true(clock_mono_us() < give_up_us);
}

MIGRATED_CASE(test_db_migrate__replaces_a_function_in_use)
{
    PGconn *session = PQconnectdb(sandbox->service_url);
    struct files files = built_in_files();
    PGresult *result;

    use_database();
    PQclear(PQprepare(session, "cancel",
                      "select c.verdict from voucher_order o,"
                      " cancel_order(o.voucher_id, o.id, 'x') c where o.user_id = 5",
                      0, NULL));
    sandbox_do(sandbox, "begin");
    sandbox_do(sandbox, "select from voucher for update");
    assert_int_equal(PQsendQueryPrepared(session, "cancel", 0, NULL, NULL, NULL, 0), 1);
    await_blocked(session);
    set_file(&files, "sql/functions/cancel_order.sql",
             "create or replace function cancel_order(p_voucher bigint, p_order bigint,"
             " p_actor text, out verdict smallint, out changed voucher_order)"
             " language sql security definer set search_path from current"
             " as 'select 77::smallint, null::voucher_order'");
    assert_migrates(&files, "sql/functions/cancel_order.sql ");
    sandbox_do(sandbox, "commit");
    result = PQgetResult(session);
    assert_string_equal(PQgetvalue(result, 0, 0), "1");
    PQclear(result);
    assert_null(PQgetResult(session));
    result = PQexecPrepared(session, "cancel", 0, NULL, NULL, NULL, 0);
    assert_string_equal(PQgetvalue(result, 0, 0), "77");
    PQclear(result);
    PQfinish(session);
}

int main(void)
{
    return cases_run(fixture_setup, fixture_end_group);
}
