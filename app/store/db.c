/*
 * db.c - a blocking connection, and the migrations.
 *
 * A migration's checksum is recorded with it: what was applied to a database is never
 * edited afterwards, or two databases of the same version would differ unnoticed.
 */
#include "app/store/db.h"

#include "app/core/embed.h"
#include "app/store/db_impl.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIGRATION_LOCK "5265717969" /* any number that nobody else uses */
#define CHECKSUM_SIZE  (2 * 32 + 1) /* SHA-256 in hex, NUL-terminated */

struct migration {
    const struct embedded *file;
    long version;
    char name[128]; /* the file's, without directory and suffix */
    char checksum[CHECKSUM_SIZE];
};

/* -- connection -- */

static void ignore_notice(void *arg UNUSED, const char *message UNUSED)
{
}

enum status db_open(const char *database_url, struct db **ret_db, struct err *reterr)
{
    /* what the URL says comes later, and so wins */
    const char *const keywords[] = {"connect_timeout", "fallback_application_name",
                                    "client_encoding", "dbname", NULL};
    const char *const values[] = {"10", "seckill", "UTF8", database_url, NULL};
    enum status status = err_set(reterr, STATUS_NO_MEMORY, "out of memory");
    struct db *db = calloc(1, sizeof(*db));

    if (db == NULL)
        goto out;
    db->conn = PQconnectdbParams(keywords, values, 1);
    if (db->conn == NULL)
        goto out;
    if (PQstatus(db->conn) != CONNECTION_OK) {
        status = err_set(reterr, STATUS_IO, "%s", PQerrorMessage(db->conn));
        goto out;
    }
    PQsetNoticeProcessor(db->conn, ignore_notice, NULL);
    *ret_db = db;
    return STATUS_OK;
out:
    db_close(db);
    return status;
}

void db_close(struct db *db)
{
    if (db == NULL)
        return;
    PQfinish(db->conn);
    free(db);
}

enum status db_check(const struct db *db, const PGresult *result, const char *doing,
                     struct err *reterr)
{
    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_SINGLE_TUPLE:
        return STATUS_OK;
    default:
        return err_set(reterr,
                       PQstatus(db->conn) == CONNECTION_OK ? STATUS_REFUSED : STATUS_IO,
                       "%s: %s", doing, PQerrorMessage(db->conn));
    }
}

enum status db_run(struct db *db, const char *sql, const char *doing, struct err *reterr)
{
    PGresult *result = PQexec(db->conn, sql);
    enum status status = db_check(db, result, doing, reterr);

    PQclear(result);
    return status;
}

/* -- migrations -- */

static void hex_sha256(const char *bytes, size_t len, char *ret_hex)
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    unsigned digest_len = 0;

    if (EVP_Digest(bytes, len, digest, &digest_len, EVP_sha256(), NULL) != 1)
        digest_len = 0; /* an empty checksum, which matches none */
    ret_hex[0] = '\0';
    for (size_t i = 0; i < digest_len && i < 32; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
}

/* Whether `file` is a migration: "sql/NNN_name.sql". */
static bool parse_migration(const struct embedded *file, struct migration *ret_migration)
{
    const char *name = file->path + strlen("sql/");
    size_t len;

    if (strncmp(file->path, "sql/", strlen("sql/")) != 0)
        return false;
    len = strlen(name) - strlen(".sql");
    ret_migration->file = file;
    ret_migration->version = strtol(name, NULL, 10);
    snprintf(ret_migration->name, sizeof(ret_migration->name), "%.*s", (int)len, name);
    hex_sha256(file->bytes, (size_t)(file->end - file->bytes), ret_migration->checksum);
    return true;
}

static const char *recorded_checksum(const PGresult *recorded, long version)
{
    for (int row = 0; row < PQntuples(recorded); row++) {
        if (strtol(PQgetvalue(recorded, row, 0), NULL, 10) == version)
            return PQgetvalue(recorded, row, 1);
    }
    return NULL;
}

static bool is_built_in(long version)
{
    struct migration migration;

    for (const struct embedded *file = embedded_files; file->path != NULL; file++) {
        if (parse_migration(file, &migration) && migration.version == version)
            return true;
    }
    return false;
}

static enum status record_migration(struct db *db, const struct migration *migration,
                                    struct err *reterr)
{
    char version[24];
    const char *const values[] = {version, migration->name, migration->checksum};
    PGresult *result;
    enum status status;

    snprintf(version, sizeof(version), "%ld", migration->version);
    result = PQexecParams(db->conn,
                          "insert into schema_migration (version, name, checksum)"
                          " values ($1, $2, $3)",
                          3, NULL, values, NULL, NULL, 0);
    status = db_check(db, result, migration->name, reterr);
    PQclear(result);
    return status;
}

/* One transaction; a failure inside leaves nothing behind. */
static enum status apply_migration(struct db *db, const struct migration *migration,
                                   struct err *reterr)
{
    enum status status = db_run(db, "begin", migration->name, reterr);

    if (status == STATUS_OK)
        status = db_run(db, migration->file->bytes, migration->name, reterr);
    if (status == STATUS_OK)
        status = record_migration(db, migration, reterr);
    if (status == STATUS_OK)
        return db_run(db, "commit", migration->name, reterr);
    PQclear(PQexec(db->conn, "rollback"));
    return status;
}

static enum status check_all_known(const PGresult *recorded, struct err *reterr)
{
    for (int row = 0; row < PQntuples(recorded); row++) {
        const char *version = PQgetvalue(recorded, row, 0);

        if (!is_built_in(strtol(version, NULL, 10)))
            return err_set(reterr, STATUS_INVALID,
                           "migration %s (%s) is recorded but not known to this program",
                           version, PQgetvalue(recorded, row, 2));
    }
    return STATUS_OK;
}

/* Whether `migration` was applied before, and with this very text. */
static enum status check_recorded(const PGresult *recorded,
                                  const struct migration *migration, bool *ret_is_applied,
                                  struct err *reterr)
{
    const char *checksum = recorded_checksum(recorded, migration->version);

    *ret_is_applied = checksum != NULL;
    if (checksum == NULL || strcmp(checksum, migration->checksum) == 0)
        return STATUS_OK;
    return err_set(reterr, STATUS_INVALID,
                   "migration %s was applied with another text: checksum %s, here %s",
                   migration->name, checksum, migration->checksum);
}

static enum status apply_missing(struct db *db, const PGresult *recorded,
                                 const struct db_migration *options, struct err *reterr)
{
    struct migration migration;
    enum status status = check_all_known(recorded, reterr);

    for (const struct embedded *file = embedded_files;
         status == STATUS_OK && file->path != NULL; file++) {
        bool is_applied;

        if (!parse_migration(file, &migration))
            continue;
        status = check_recorded(recorded, &migration, &is_applied, reterr);
        if (status != STATUS_OK || is_applied)
            continue;
        if (options->on_step != NULL)
            options->on_step(migration.name, options->arg);
        if (!options->is_dry_run)
            status = apply_migration(db, &migration, reterr);
    }
    return status;
}

/* What was applied so far; a database without the table has not met us. */
static enum status read_recorded(struct db *db, bool is_dry_run, PGresult **ret_recorded,
                                 struct err *reterr)
{
    enum status status = STATUS_OK;
    bool is_there = true;

    if (is_dry_run) {
        PGresult *found = PQexec(db->conn, "select to_regclass('schema_migration')");

        status = db_check(db, found, "schema_migration", reterr);
        is_there = status == STATUS_OK && !PQgetisnull(found, 0, 0);
        PQclear(found);
    } else {
        status = db_run(db,
                        "create table if not exists schema_migration ("
                        " version integer primary key, name text not null,"
                        " checksum text not null,"
                        " applied_at timestamptz not null default now())",
                        "schema_migration", reterr);
    }
    if (status != STATUS_OK)
        return status;
    *ret_recorded = PQexec(db->conn, is_there ? "select version, checksum, name"
                                                " from schema_migration"
                                              : "select where false");
    return db_check(db, *ret_recorded, "schema_migration", reterr);
}

/* Whoever had the rights of a service gets those that came with this version too. */
static enum status grant_rights(struct db *db, const char *service_role,
                                struct err *reterr)
{
    const char *const values[] = {service_role};
    PGresult *result = PQexecParams(
        db->conn,
        "select grant_service(role) from (select $1::text where $1 is not null"
        "  union select pg_get_userbyid(a.grantee)::text"
        "  from pg_proc p, aclexplode(p.proacl) a"
        "  where p.pronamespace = current_schema::regnamespace"
        "   and p.proname = 'place_orders' and a.grantee not in (0, p.proowner)"
        " ) roles (role)",
        1, NULL, values, NULL, NULL, 0);
    enum status status = db_check(db, result, "rights of the service's role", reterr);

    PQclear(result);
    return status;
}

enum status db_migrate(struct db *db, const struct db_migration *options,
                       struct err *reterr)
{
    PGresult *recorded = NULL;
    enum status status = db_run(db, "select pg_advisory_lock(" MIGRATION_LOCK ")",
                                "advisory lock", reterr);

    if (status != STATUS_OK)
        return status;
    status = read_recorded(db, options->is_dry_run, &recorded, reterr);
    if (status == STATUS_OK)
        status = apply_missing(db, recorded, options, reterr);
    if (status == STATUS_OK && !options->is_dry_run)
        status = grant_rights(db, options->service_role, reterr);
    PQclear(recorded);
    PQclear(PQexec(db->conn, "select pg_advisory_unlock(" MIGRATION_LOCK ")"));
    return status;
}
