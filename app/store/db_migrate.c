/*
 * db_migrate.c - applies the migrations and functions that are built into the program.
 *
 * The table schema_file records each applied file with its checksum. A migration is applied once,
 * in a transaction of its own. If its file has changed since then, the program refuses to migrate,
 * because databases of the same version would differ. A function is applied again whenever its file
 * has changed. The functions and the rights are in the transaction of the last migration, so no
 * session sees the new tables with the old functions.
 *
 * The previous program sells during the migration. So long work, such as creating an index, is done
 * before the migrations by preparations, which run without a transaction. While a migration waits
 * for a lock, the sale waits behind it. So a migration waits only for a moment. If other sessions
 * use the tables, the transaction is rolled back, and tried again after a pause.
 *
 * Four queries plan the work. They take all files, and return one row per step.
 */
#include "app/store/db.h"
#include "app/store/db_impl.h"
#include "app/store/store_codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the key of an advisory lock that only migrations take */
#define MIGRATION_LOCK "5265717969"
#define ATTEMPTS_MAX   180 /* attempts to lock the tables, in eight minutes */
/* lock_timeout of the first attempt, during which the sale waits, too */
#define LOCK_MS_MIN 200
#define LOCK_MS_MAX 800 /* below deadlock_timeout, so a deadlock aborts no order */

#define LOCK_NOT_AVAILABLE "55P03" /* SQLSTATEs */
#define DEADLOCK_DETECTED  "40P01"

struct run {
    struct db *db;
    const struct db_migration *options;
    struct store_params files; /* parameters of the plans: paths, contents, is_dry_run */
};

/* -- plans -- */

static bool is_sql(const char *path)
{
    return strncmp(path, "sql/preparations/", strlen("sql/preparations/")) == 0 ||
           strncmp(path, "sql/migrations/", strlen("sql/migrations/")) == 0 ||
           strncmp(path, "sql/functions/", strlen("sql/functions/")) == 0;
}

static enum rlock_status read_files(struct run *run, struct rlock_err *reterr)
{
    const struct embedded *files =
        run->options->files != NULL ? run->options->files : embedded_files;
    struct store_params *params = &run->files;
    size_t count = 0;

    for (const struct embedded *file = files; file->path != NULL; file++) {
        if (is_sql(file->path))
            count++;
    }
    params_array_begin(params, PARAMS_TEXT, count);
    for (const struct embedded *file = files; file->path != NULL; file++) {
        if (is_sql(file->path))
            params_element_text(params, &(struct text){file->path, strlen(file->path)});
    }
    params_array_begin(params, PARAMS_TEXT, count);
    for (const struct embedded *file = files; file->path != NULL; file++) {
        if (is_sql(file->path))
            params_element_text(params, &(struct text){file->bytes, strlen(file->bytes)});
    }
    params_int64(params, run->options->is_dry_run);
    return params->has_failed ? err_set(reterr, RLOCK_NO_MEMORY, "out of memory")
                              : RLOCK_OK;
}

static enum rlock_status execute(struct db *db, const char *sql, const char *doing,
                                 struct rlock_err *reterr)
{
    PGresult *result = PQexec(db->conn, sql);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    enum rlock_status status = db_check(db, result, doing, reterr);

    if (state != NULL &&
        (strcmp(state, LOCK_NOT_AVAILABLE) == 0 || strcmp(state, DEADLOCK_DETECTED) == 0))
        status = RLOCK_BUSY;
    PQclear(result);
    return status;
}

/* A step has three columns: its kind, its text, and the statements to execute, which may be
   NULL. */
static enum rlock_status execute_step(const struct run *run, const PGresult *plan,
                                      int row, struct rlock_err *reterr)
{
    const struct db_migration *options = run->options;
    const char *kind = PQgetvalue(plan, row, 0);
    const char *text = PQgetvalue(plan, row, 1);

    if (strcmp(kind, "refusal") == 0)
        return err_set(reterr, RLOCK_INVALID, "%s", text);
    if (strcmp(kind, "warning") == 0 && options->on_warning != NULL)
        options->on_warning(text, options->arg);
    if (strcmp(kind, "step") == 0 && options->on_step != NULL)
        options->on_step(text, options->arg);
    if (options->is_dry_run || PQgetisnull(plan, row, 2))
        return RLOCK_OK;
    return execute(run->db, PQgetvalue(plan, row, 2), text, reterr);
}

static enum rlock_status read_plan(const struct run *run, const char *path,
                                   PGresult **ret_plan, struct rlock_err *reterr)
{
    static const Oid types[] = {1009 /* text[] */, 1009, 20 /* bigint */};
    const char *values[STORE_PARAMS_MAX];
    int lengths[STORE_PARAMS_MAX];

    params_point(&run->files, values, lengths);
    *ret_plan = PQexecParams(run->db->conn, embedded_find(path)->bytes, run->files.count,
                             types, values, lengths, params_binary, 0);
    return db_check(run->db, *ret_plan, path, reterr);
}

static enum rlock_status execute_plan(const struct run *run, const PGresult *plan,
                                      struct rlock_err *reterr)
{
    enum rlock_status status = RLOCK_OK;

    for (int row = 0; status == RLOCK_OK && row < PQntuples(plan); row++)
        status = execute_step(run, plan, row, reterr);
    return status;
}

static enum rlock_status begin(struct db *db, struct rlock_err *reterr)
{
    const char *prepare = embedded_find("sql/queries/begin_migration.sql")->bytes;
    enum rlock_status status = db_run(db, "begin", "begin", reterr);

    return status == RLOCK_OK ? db_run(db, prepare, "schema_file", reterr) : status;
}

static void roll_back(struct db *db)
{
    PQclear(PQexec(db->conn, "rollback"));
}

/* -- rights and cells -- */

/* Calls a function of one parameter. If ret_text is not NULL, sets it to the result, which may be
   NULL. */
static enum rlock_status call(struct db *db, const char *sql, const char *value,
                              char **ret_text, struct rlock_err *reterr)
{
    PGresult *result = PQexecParams(db->conn, sql, 1, NULL, &value, NULL, NULL, 0);
    enum rlock_status status = db_check(db, result, sql, reterr);

    if (status == RLOCK_OK && ret_text != NULL && !PQgetisnull(result, 0, 0))
        *ret_text = strdup(PQgetvalue(result, 0, 0));
    PQclear(result);
    return status;
}

/* Subscribes to a cell. The caller has committed the migration before, because a transaction that
   has written cannot create the replication slot of a subscription. */
static enum rlock_status join_cell(struct db *db, const char *url,
                                   struct rlock_err *reterr)
{
    char *join = NULL, *subscribe = NULL;
    struct db *cell = NULL;
    enum rlock_status status = db_open(url, &cell, reterr);

    if (status == RLOCK_OK)
        status = call(cell, "select publish_cell($1)", url, &join, reterr);
    if (status == RLOCK_OK && join != NULL)
        status = call(db, "select join_aggregate($1::json)", join, &subscribe, reterr);
    if (status == RLOCK_OK && subscribe != NULL)
        status = db_run(db, subscribe, "subscription", reterr);
    free(join);
    free(subscribe);
    db_close(cell);
    return status;
}

/* -- the whole migration -- */

/* Reads the plan of the preparations in a transaction that is rolled back. Then runs the steps
   without a transaction. */
static enum rlock_status prepare(const struct run *run, struct rlock_err *reterr)
{
    PGresult *plan = NULL;
    enum rlock_status status = begin(run->db, reterr);

    if (status == RLOCK_OK)
        status = read_plan(run, "sql/queries/prepare_migrations.sql", &plan, reterr);
    roll_back(run->db);
    if (status == RLOCK_OK)
        status = execute_plan(run, plan, reterr);
    PQclear(plan);
    return status;
}

static enum rlock_status plan_and_execute(const struct run *run, const char *path,
                                          struct rlock_err *reterr)
{
    PGresult *plan = NULL;
    enum rlock_status status = read_plan(run, path, &plan, reterr);

    if (status == RLOCK_OK)
        status = execute_plan(run, plan, reterr);
    PQclear(plan);
    return status;
}

static enum rlock_status migrate(const struct run *run, struct rlock_err *reterr)
{
    static const char *const plans[] = {"sql/queries/schema_rights.sql",
                                        "sql/queries/new_migrations.sql",
                                        "sql/queries/changed_functions.sql"};
    const char *print_grants = embedded_find("sql/queries/grants.sql")->bytes;
    const char *role = run->options->service_role, *cell = run->options->cell;
    bool is_change = !run->options->is_dry_run;
    char *grants = NULL;
    enum rlock_status status = begin(run->db, reterr);

    if (status == RLOCK_OK)
        status = call(run->db, print_grants, role, &grants, reterr);
    for (size_t i = 0; status == RLOCK_OK && i < sizeof(plans) / sizeof(plans[0]); i++)
        status = plan_and_execute(run, plans[i], reterr);
    if (status == RLOCK_OK && is_change && grants != NULL)
        status = db_run(run->db, grants, "rights of the service", reterr);
    if (status == RLOCK_OK && is_change && cell != NULL)
        status = call(run->db, "select set_cell($1)", cell, NULL, reterr);
    if (status == RLOCK_OK && is_change)
        status = db_run(run->db, "commit", "commit", reterr);
    else
        roll_back(run->db);
    free(grants);
    return status;
}

static enum rlock_status migrate_patiently(const struct run *run,
                                           struct rlock_err *reterr)
{
    const struct db_migration *options = run->options;
    enum rlock_status status = RLOCK_BUSY;

    for (int attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
        int wait_ms =
            attempt * LOCK_MS_MIN < LOCK_MS_MAX ? attempt * LOCK_MS_MIN : LOCK_MS_MAX;
        char limit[64];

        snprintf(limit, sizeof(limit), "set lock_timeout = %d", wait_ms);
        status = db_run(run->db, limit, "lock_timeout", reterr);
        if (status == RLOCK_OK)
            status = migrate(run, reterr);
        if (status != RLOCK_BUSY)
            break;
        if (attempt == 1 && options->on_warning != NULL)
            options->on_warning("other sessions use the tables; waiting", options->arg);
        PQclear(PQexec(run->db->conn, "select pg_sleep(1)"));
    }
    return status;
}

/* Tries to take the lock again and again while another migration holds it. If this session waited
   in one statement, `create index concurrently` of the other migration would wait for the end of
   this statement, and each migration would wait for the other. */
static enum rlock_status lock(struct db *db, struct rlock_err *reterr)
{
    bool is_locked = false;
    enum rlock_status status = RLOCK_OK;

    while (status == RLOCK_OK && !is_locked) {
        PGresult *result =
            PQexec(db->conn, "select 1 where pg_try_advisory_lock(" MIGRATION_LOCK ")");

        status = db_check(db, result, "advisory lock", reterr);
        is_locked = PQntuples(result) > 0;
        PQclear(result);
        if (status == RLOCK_OK && !is_locked)
            status = db_run(db, "select pg_sleep(0.1)", "pause", reterr);
    }
    return status;
}

enum rlock_status db_migrate(struct db *db, const struct db_migration *options,
                             struct rlock_err *reterr)
{
    struct run run = {.db = db, .options = options};
    enum rlock_status status = read_files(&run, reterr);

    if (status == RLOCK_OK)
        status = lock(db, reterr);
    if (status == RLOCK_OK)
        status = prepare(&run, reterr);
    if (status == RLOCK_OK)
        status = migrate_patiently(&run, reterr);
    if (status == RLOCK_OK && options->aggregate != NULL && !options->is_dry_run)
        status = join_cell(db, options->aggregate, reterr);
    params_clear(&run.files);
    PQclear(PQexec(db->conn, "select pg_advisory_unlock(" MIGRATION_LOCK ")"));
    return status;
}
