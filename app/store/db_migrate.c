/*
 * db_migrate.c - applies the migrations and functions that are built into the program.
 *
 * The table schema_file records each applied file with its checksum. A migration is
 * applied once, in a transaction of its own. A migration that has changed since is refused, as
 * databases of the same version would differ. A function is applied again whenever its file has
 * changed. The transaction of the last migration includes the functions and the rights, so
 * no session sees the new tables with the old functions.
 *
 * Three queries plan the work: they take all files and return one row per step.
 */
#include "app/store/db.h"
#include "app/store/db_impl.h"
#include "app/store/store_codec.h"

#include <stdlib.h>
#include <string.h>

#define MIGRATION_LOCK "5265717969" /* any number that nobody else uses */

struct run {
    struct db *db;
    const struct db_migration *options;
    struct store_params files; /* parameters of the plans: paths, contents, is_dry_run */
};

/* -- plans -- */

static bool is_sql(const char *path)
{
    return strncmp(path, "sql/migrations/", strlen("sql/migrations/")) == 0 ||
           strncmp(path, "sql/functions/", strlen("sql/functions/")) == 0;
}

static enum status read_files(struct run *run, struct err *reterr)
{
    const struct embedded *files =
        run->options->files != NULL ? run->options->files : embedded_files;
    struct store_params *params = &run->files;
    size_t count = 0;

    for (const struct embedded *file = files; file->path != NULL; file++)
        count += is_sql(file->path);
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
    return params->has_failed ? err_set(reterr, STATUS_NO_MEMORY, "out of memory")
                              : STATUS_OK;
}

/* The columns of a step: its kind, its text, and the statements to execute or NULL. */
static enum status execute_step(const struct run *run, const PGresult *plan, int row,
                                struct err *reterr)
{
    const struct db_migration *options = run->options;
    const char *kind = PQgetvalue(plan, row, 0);
    const char *text = PQgetvalue(plan, row, 1);

    if (strcmp(kind, "refusal") == 0)
        return err_set(reterr, STATUS_INVALID, "%s", text);
    if (strcmp(kind, "warning") == 0 && options->on_warning != NULL)
        options->on_warning(text, options->arg);
    if (strcmp(kind, "step") == 0 && options->on_step != NULL)
        options->on_step(text, options->arg);
    if (options->is_dry_run || PQgetisnull(plan, row, 2))
        return STATUS_OK;
    return db_run(run->db, PQgetvalue(plan, row, 2), text, reterr);
}

static enum status execute_plan(const struct run *run, const char *path,
                                struct err *reterr)
{
    static const Oid types[] = {1009 /* text[] */, 1009, 20 /* bigint */};
    const char *values[STORE_PARAMS_MAX];
    int lengths[STORE_PARAMS_MAX];
    PGresult *plan;
    enum status status;

    params_point(&run->files, values, lengths);
    plan = PQexecParams(run->db->conn, embedded_find(path)->bytes, run->files.count,
                        types, values, lengths, params_binary, 0);
    status = db_check(run->db, plan, path, reterr);
    for (int row = 0; status == STATUS_OK && row < PQntuples(plan); row++)
        status = execute_step(run, plan, row, reterr);
    PQclear(plan);
    return status;
}

/* -- rights and cells -- */

/* Calls a function of one parameter. `ret_text` (may be NULL) is set unless the result is NULL. */
static enum status call(struct db *db, const char *sql, const char *value,
                        char **ret_text, struct err *reterr)
{
    PGresult *result = PQexecParams(db->conn, sql, 1, NULL, &value, NULL, NULL, 0);
    enum status status = db_check(db, result, sql, reterr);

    if (status == STATUS_OK && ret_text != NULL && !PQgetisnull(result, 0, 0))
        *ret_text = strdup(PQgetvalue(result, 0, 0));
    PQclear(result);
    return status;
}

/* Runs after the commit: a transaction that has written cannot create the replication slot of a
   subscription. */
static enum status join_cell(struct db *db, const char *url, struct err *reterr)
{
    char *join = NULL, *subscribe = NULL;
    struct db *cell = NULL;
    enum status status = db_open(url, &cell, reterr);

    if (status == STATUS_OK)
        status = call(cell, "select publish_cell($1)", url, &join, reterr);
    if (status == STATUS_OK && join != NULL)
        status = call(db, "select join_aggregate($1::json)", join, &subscribe, reterr);
    if (status == STATUS_OK && subscribe != NULL)
        status = db_run(db, subscribe, "subscription", reterr);
    free(join);
    free(subscribe);
    db_close(cell);
    return status;
}

/* -- all of it -- */

static enum status migrate(const struct run *run, struct err *reterr)
{
    static const char *const plans[] = {"sql/queries/schema_rights.sql",
                                        "sql/queries/new_migrations.sql",
                                        "sql/queries/changed_functions.sql"};
    const char *prepare = embedded_find("sql/queries/begin_migration.sql")->bytes;
    const char *print_grants = embedded_find("sql/queries/grants.sql")->bytes;
    const char *role = run->options->service_role, *cell = run->options->cell;
    bool is_change = !run->options->is_dry_run;
    char *grants = NULL;
    enum status status = db_run(run->db, "begin", "begin", reterr);

    if (status == STATUS_OK)
        status = db_run(run->db, prepare, "schema_file", reterr);
    if (status == STATUS_OK)
        status = call(run->db, print_grants, role, &grants, reterr);
    for (size_t i = 0; status == STATUS_OK && i < sizeof(plans) / sizeof(plans[0]); i++)
        status = execute_plan(run, plans[i], reterr);
    if (status == STATUS_OK && is_change && grants != NULL)
        status = db_run(run->db, grants, "rights of the service", reterr);
    if (status == STATUS_OK && is_change && cell != NULL)
        status = call(run->db, "select set_cell($1)", cell, NULL, reterr);
    if (status == STATUS_OK && is_change)
        status = db_run(run->db, "commit", "commit", reterr);
    else
        PQclear(PQexec(run->db->conn, "rollback"));
    free(grants);
    return status;
}

enum status db_migrate(struct db *db, const struct db_migration *options,
                       struct err *reterr)
{
    struct run run = {.db = db, .options = options};
    enum status status = read_files(&run, reterr);

    if (status == STATUS_OK)
        status = db_run(db, "select pg_advisory_lock(" MIGRATION_LOCK ")",
                        "advisory lock", reterr);
    if (status == STATUS_OK)
        status = migrate(&run, reterr);
    if (status == STATUS_OK && options->aggregate != NULL && !options->is_dry_run)
        status = join_cell(db, options->aggregate, reterr);
    params_clear(&run.files);
    PQclear(PQexec(db->conn, "select pg_advisory_unlock(" MIGRATION_LOCK ")"));
    return status;
}
