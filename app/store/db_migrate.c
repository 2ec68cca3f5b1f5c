/*
 * db_migrate.c - applies the migrations and functions that are built into the program.
 *
 * The table schema_file records each applied file with its checksum. A migration is
 * applied once, in a transaction of its own. One that has changed since is refused: two
 * databases of one version would differ. A function is applied again whenever its file has
 * changed. The transaction of the last migration includes the functions and the rights, so
 * no session sees the new tables with the old functions.
 *
 * The functions run with the rights of their owner and name what they use without a schema.
 * A function of another role in the schema could be called in place of a built-in one.
 */
#include "app/store/db.h"
#include "app/store/db_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIGRATION_LOCK "5265717969" /* any number that nobody else uses */
#define MIGRATIONS     "sql/migrations/"
#define FUNCTIONS      "sql/functions/"
#define NAME_FORMAT    "%63[a-z0-9_]" /* of a function; Postgres cuts longer names */
#define NAME_SIZE      64

/* $1 is the path of a file and $2 its bytes; each returns one boolean. */
#define CHECKSUM "encode(sha256($2::bytea), 'hex')"
#define OVERLOADS                                                                        \
    "pg_proc where pronamespace = current_schema::regnamespace"                          \
    " and proname = substring($1::text from '/([^/.]+)[.]')"
#define IS_APPLIED "select exists (select from schema_file where path = $1)"
#define IS_CHANGED                                                                       \
    "select exists (select from schema_file where path = $1 and checksum <> " CHECKSUM ")"
#define IS_CURRENT                                                                       \
    "select exists (select from schema_file where path = $1 and checksum = " CHECKSUM    \
    ") and exists (select from " OVERLOADS ")"
#define IS_AMBIGUOUS "select count(*) > 1 from " OVERLOADS
#define RECORD                                                                           \
    "insert into schema_file (path, checksum) values ($1, " CHECKSUM ")"                 \
    " on conflict (path) do update set checksum = excluded.checksum, applied_at = now()" \
    " returning true"

struct run {
    struct db *db;
    const struct db_migration *options;
    const struct embedded *files;
    PGresult *recorded; /* paths */
    PGresult *roles;    /* that have the rights of the service, or shall have them */
};

/* -- files -- */

static bool is_in(const char *path, const char *folder)
{
    return strncmp(path, folder, strlen(folder)) == 0;
}

static const struct embedded *find_file(const struct run *run, const char *path)
{
    for (const struct embedded *file = run->files; file->path != NULL; file++) {
        if (strcmp(file->path, path) == 0)
            return file;
    }
    return NULL;
}

static enum status ask_about(const struct run *run, const struct embedded *file,
                             const char *sql, bool *ret_answer, struct err *reterr)
{
    static const Oid types[] = {25 /* text */, 17 /* bytea */};
    static const int formats[] = {0, 1};
    const char *const values[] = {file->path, file->bytes};
    const int lengths[] = {0, (int)(file->end - file->bytes)};
    PGresult *result =
        PQexecParams(run->db->conn, sql, 2, types, values, lengths, formats, 0);
    enum status status = db_check(run->db, result, file->path, reterr);

    if (status == STATUS_OK)
        *ret_answer = PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    return status;
}

static void report_step(const struct run *run, const char *step)
{
    if (run->options->on_step != NULL)
        run->options->on_step(step, run->options->arg);
}

static enum status apply_file(const struct run *run, const struct embedded *file,
                              struct err *reterr)
{
    bool is_done;
    enum status status;

    report_step(run, file->path);
    if (run->options->is_dry_run)
        return STATUS_OK;
    status = db_run(run->db, file->bytes, file->path, reterr);
    return status == STATUS_OK ? ask_about(run, file, RECORD, &is_done, reterr) : status;
}

/* -- migrations -- */

/* Before anything is applied: every recorded migration is known, and unchanged. */
static enum status check_recorded(struct run *run, struct err *reterr)
{
    bool is_changed = false;
    enum status status = STATUS_OK;

    for (int row = 0; row < PQntuples(run->recorded); row++) {
        const char *path = PQgetvalue(run->recorded, row, 0);
        const struct embedded *file = find_file(run, path);

        if (!is_in(path, MIGRATIONS))
            continue;
        if (file == NULL)
            return err_set(reterr, STATUS_INVALID,
                           "%s is recorded but unknown to this program: the database is"
                           " newer",
                           path);
        status = ask_about(run, file, IS_CHANGED, &is_changed, reterr);
        if (status != STATUS_OK)
            return status;
        if (is_changed)
            return err_set(reterr, STATUS_INVALID, "%s has changed since it was applied",
                           path);
    }
    return STATUS_OK;
}

static enum status apply_migrations(struct run *run, struct err *reterr)
{
    enum status status = STATUS_OK;
    unsigned applied = 0;

    for (const struct embedded *file = run->files;
         status == STATUS_OK && file->path != NULL; file++) {
        bool is_applied = true;

        if (is_in(file->path, MIGRATIONS))
            status = ask_about(run, file, IS_APPLIED, &is_applied, reterr);
        if (status != STATUS_OK || is_applied)
            continue;
        if (applied++ > 0 && !run->options->is_dry_run)
            status = db_run(run->db, "commit; begin", file->path, reterr);
        if (status == STATUS_OK)
            status = apply_file(run, file, reterr);
    }
    return status;
}

/* -- functions -- */

/* Postgres resolves the calls in the body of an SQL-language function when it is created,
   so its file begins with "-- after NAME" for each function that it calls. */
static enum status apply_function(const struct run *run, const struct embedded *file,
                                  struct err *reterr)
{
    char name[NAME_SIZE], path[sizeof(FUNCTIONS) + NAME_SIZE + sizeof(".sql")];
    bool is_current = false, is_ambiguous = false;
    enum status status = ask_about(run, file, IS_CURRENT, &is_current, reterr);
    const struct embedded *callee;
    int len = 0;

    if (status != STATUS_OK || is_current)
        return status;
    for (const char *at = file->bytes;
         !run->options->is_dry_run && status == STATUS_OK &&
         sscanf(at, "-- after " NAME_FORMAT "%n", name, &len) == 1;
         at += len + 1) {
        snprintf(path, sizeof(path), FUNCTIONS "%s.sql", name);
        callee = find_file(run, path);
        assert(callee != NULL);
        status = apply_function(run, callee, reterr);
    }
    if (status == STATUS_OK)
        status = apply_file(run, file, reterr);
    if (status == STATUS_OK)
        status = ask_about(run, file, IS_AMBIGUOUS, &is_ambiguous, reterr);
    if (status == STATUS_OK && is_ambiguous)
        status = err_set(reterr, STATUS_REFUSED,
                         "%s: there is another function of this name; drop it in a"
                         " migration",
                         file->path);
    return status;
}

static enum status drop_function(const struct run *run, const char *path,
                                 struct err *reterr)
{
    char name[NAME_SIZE] = "", text[4 * NAME_SIZE];

    snprintf(text, sizeof(text), "%s (dropped)", path);
    report_step(run, text);
    if (run->options->is_dry_run || sscanf(path, FUNCTIONS NAME_FORMAT, name) != 1)
        return STATUS_OK;
    snprintf(text, sizeof(text),
             "drop function if exists %s; delete from schema_file where path = '%s'",
             name, path);
    return db_run(run->db, text, path, reterr);
}

static enum status apply_functions(struct run *run, struct err *reterr)
{
    /* for "set search_path from current": the schema of the tables, and nothing before it */
    enum status status = db_run(run->db,
                                "select set_config('search_path', "
                                "quote_ident(current_schema) || ', pg_temp', true)",
                                "search_path", reterr);

    for (const struct embedded *file = run->files;
         status == STATUS_OK && file->path != NULL; file++) {
        if (is_in(file->path, FUNCTIONS))
            status = apply_function(run, file, reterr);
    }
    for (int row = 0; status == STATUS_OK && row < PQntuples(run->recorded); row++) {
        const char *path = PQgetvalue(run->recorded, row, 0);

        if (is_in(path, FUNCTIONS) && find_file(run, path) == NULL)
            status = drop_function(run, path, reterr);
    }
    return status;
}

/* Call a function of one parameter. Its text, or NULL, goes to `ret_text` unless that is NULL. */
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

static enum status grant_rights(struct run *run, struct err *reterr)
{
    enum status status = STATUS_OK;

    for (int row = 0;
         status == STATUS_OK && !run->options->is_dry_run && row < PQntuples(run->roles);
         row++)
        status = call(run->db, "select grant_service($1)", PQgetvalue(run->roles, row, 0),
                      NULL, reterr);
    return status;
}

/* -- cells -- */

static enum status set_cell(struct run *run, struct err *reterr)
{
    const char *cell = run->options->cell;

    return cell == NULL || run->options->is_dry_run
               ? STATUS_OK
               : call(run->db, "select set_cell($1)", cell, NULL, reterr);
}

/* Not in the transaction: one that has written cannot create the slot of a subscription. */
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

static enum status change(const struct run *run, const char *sql, struct err *reterr)
{
    report_step(run, sql);
    return run->options->is_dry_run ? STATUS_OK : db_run(run->db, sql, "revoke", reterr);
}

/* Reserve the schema for the owner of the functions, as far as this role may. */
static enum status protect_schema(struct run *run, struct err *reterr)
{
    const char *const values[] = {run->options->is_dry_run ? "t" : "f"};
    const char *sql = embedded_find("sql/queries/schema_rights.sql")->bytes;
    PGresult *result = PQexecParams(run->db->conn, sql, 1, NULL, values, NULL, NULL, 0);
    enum status status = db_check(run->db, result, "rights on the schema", reterr);

    for (int row = 0; status == STATUS_OK && row < PQntuples(result); row++) {
        const char *words = PQgetvalue(result, row, 0);

        if (PQgetvalue(result, row, 1)[0] == 't')
            status = change(run, words, reterr);
        else if (run->options->on_warning != NULL)
            run->options->on_warning(words, run->options->arg);
    }
    PQclear(result);
    return status;
}

/* -- all of it -- */

static enum status read_database(struct run *run, struct err *reterr)
{
    const char *const values[] = {run->options->service_role};
    const char *begin = embedded_find("sql/queries/begin_migration.sql")->bytes;
    const char *roles = embedded_find("sql/queries/service_roles.sql")->bytes;
    enum status status = db_run(run->db, begin, "schema_file", reterr);

    if (status != STATUS_OK)
        return status;
    run->recorded = PQexec(run->db->conn, "select path from schema_file order by path");
    status = db_check(run->db, run->recorded, "schema_file", reterr);
    if (status != STATUS_OK)
        return status;
    run->roles = PQexecParams(run->db->conn, roles, 1, NULL, values, NULL, NULL, 0);
    return db_check(run->db, run->roles, "rights of the service", reterr);
}

static enum status migrate(struct run *run, struct err *reterr)
{
    static enum status (*const steps[])(struct run *, struct err *) = {
        read_database,   check_recorded, protect_schema, apply_migrations,
        apply_functions, grant_rights,   set_cell};
    enum status status = db_run(run->db, "begin", "begin", reterr);

    for (size_t i = 0; status == STATUS_OK && i < sizeof(steps) / sizeof(steps[0]); i++)
        status = steps[i](run, reterr);
    if (status == STATUS_OK && !run->options->is_dry_run)
        return db_run(run->db, "commit", "commit", reterr);
    PQclear(PQexec(run->db->conn, "rollback"));
    return status;
}

enum status db_migrate(struct db *db, const struct db_migration *options,
                       struct err *reterr)
{
    struct run run = {.db = db, .options = options, .files = options->files};
    enum status status = db_run(db, "select pg_advisory_lock(" MIGRATION_LOCK ")",
                                "advisory lock", reterr);

    if (status != STATUS_OK)
        return status;
    if (run.files == NULL)
        run.files = embedded_files;
    status = migrate(&run, reterr);
    if (status == STATUS_OK && options->aggregate != NULL && !options->is_dry_run)
        status = join_cell(db, options->aggregate, reterr);
    PQclear(run.recorded);
    PQclear(run.roles);
    PQclear(PQexec(db->conn, "select pg_advisory_unlock(" MIGRATION_LOCK ")"));
    return status;
}
