/*
 * it_migrate_load.c - db_migrate() while the previous program sells.
 *
 * The migration starts from each earlier version of the schema. Other sessions take the locks that
 * orders and look-ups take.
 */
#include "app/core/embed.h"
#include "app/test/sql/it_sql.h"
#include "base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#define SESSIONS   4
#define OLD_ORDERS "50000"
/* number of turns of each session before the migration, and again after it */
#define TURNS        20
#define MIGRATION    "sql/migrations/"
#define VERSIONS_MAX 64

static void read_migrations(size_t version, struct embedded *ret_files)
{
    size_t count = 0;

    for (const struct embedded *file = embedded_files; count < version; file++) {
        if (strncmp(file->path, MIGRATION, strlen(MIGRATION)) == 0)
            ret_files[count++] = *file;
    }
    ret_files[count] = (struct embedded){0};
}

static size_t count_migrations(void)
{
    size_t count = 0;

    for (const struct embedded *file = embedded_files; file->path != NULL; file++)
        count += strncmp(file->path, MIGRATION, strlen(MIGRATION)) == 0 ? 1 : 0;
    return count;
}

static void migrate(const struct sandbox *sandbox, const struct embedded *files)
{
    const struct db_migration options = {.files = files};
    struct rlock_err err = {0};
    struct db *db;

    if (db_open(sandbox->url, &db, &err) != RLOCK_OK ||
        db_migrate(db, &options, &err) != RLOCK_OK)
        fail_msg("expected a migration, got \"%s\"", err.text);
    db_close(db);
}

/* -- sessions -- */

struct seller {
    PGconn *conn;
    int number;
    atomic_uint turns;
    unsigned wanted;
    atomic_bool has_failed;
    char failure[256];
};

static atomic_bool is_over;

static bool execute(struct seller *seller, const char *statement)
{
    PGresult *result = PQexec(seller->conn, statement);
    bool is_ok = PQresultStatus(result) == PGRES_COMMAND_OK ||
                 PQresultStatus(result) == PGRES_TUPLES_OK;

    if (!is_ok) {
        snprintf(seller->failure, sizeof(seller->failure), "%s",
                 PQerrorMessage(seller->conn));
        atomic_store(&seller->has_failed, true);
    }
    PQclear(result);
    return is_ok;
}

/* Sells and changes orders. Both transactions lock the voucher first, as the functions of the
   service do. */
static void *sell(void *arg)
{
    struct seller *seller = arg;
    char order[1024], change[512];

    for (int turn = 1; !atomic_load(&is_over); turn++) {
        int64_t user = (int64_t)turn * SESSIONS + seller->number + 1000000;

        snprintf(
            order, sizeof(order),
            "begin; select from voucher where id = 1 for no key update;"
            "select from voucher_order where voucher_id = 1 and id = 1;"
            "insert into voucher_order (voucher_id, id, user_id, price_cents, created_at,"
            " expires_at, slot) values (1, %" PRId64 "::bigint << 20 | 1, %" PRId64
            ", 1, now(), now(), 1);"
            "update voucher set stock_left = stock_left - 1 where id = 1; commit",
            user, user);
        snprintf(change, sizeof(change),
                 "begin; select from voucher where id = 1 for no key update;"
                 "update voucher_order set paid_at = now() where voucher_id = 1 and"
                 " id = %" PRId64 "::bigint << 20 | 1; commit",
                 user);
        if (!execute(seller, order) || !execute(seller, change))
            break;
        atomic_fetch_add(&seller->turns, 1);
    }
    return NULL;
}

static bool has_sold(void *arg)
{
    struct seller *seller = arg;

    return atomic_load(&seller->turns) >= seller->wanted ||
           atomic_load(&seller->has_failed);
}

static void await_turns(struct seller *sellers, const char *when)
{
    for (size_t i = 0; i < SESSIONS; i++)
        sellers[i].wanted = atomic_load(&sellers[i].turns) + TURNS;
    for (size_t i = 0; i < SESSIONS; i++) {
        AWAIT(has_sold, &sellers[i]);
        if (atomic_load(&sellers[i].has_failed))
            fail_msg("session %zu, %s the migration: expected orders, got \"%s\"", i,
                     when, sellers[i].failure);
    }
}

/* -- cases -- */

static struct sandbox *database_of_version(struct fixture *fixture, size_t version)
{
    struct embedded files[VERSIONS_MAX];
    char name[64];
    struct sandbox *sandbox;

    snprintf(name, sizeof(name), "migrate_from_%zu", version);
    sandbox = sandbox_new(fixture, name);
    read_migrations(version, files);
    migrate(sandbox, files);
    sandbox_do(
        sandbox,
        "insert into voucher (id, title, price_cents, face_value_cents, stock_total,"
        " stock_left, per_user_limit, begin_at, end_at, pay_within_s)"
        " select id, 'tea', 1, 1, 10000000, 10000000, 1, now(), 'infinity', 900"
        " from generate_series(1, 2) id");
    sandbox_do(
        sandbox,
        "insert into voucher_order (voucher_id, id, user_id, price_cents, created_at,"
        " expires_at, slot) select 2, n << 20 | 2, n, 1, now(), now(), 1"
        " from generate_series(1::bigint, " OLD_ORDERS ") n");
    return sandbox;
}

static void test_db_migrate__from_each_version_while_the_sale_goes_on(void **state)
{
    size_t versions = count_migrations();

    assert_true(versions < VERSIONS_MAX);
    for (size_t version = 1; version < versions; version++) {
        struct sandbox *sandbox = database_of_version(*state, version);
        struct seller sellers[SESSIONS] = {0};
        pthread_t threads[SESSIONS];

        atomic_store(&is_over, false);
        for (int i = 0; i < SESSIONS; i++) {
            sellers[i].number = i;
            sellers[i].conn = sandbox_connect(sandbox);
            assert_int_equal(pthread_create(&threads[i], NULL, sell, &sellers[i]), 0);
        }
        await_turns(sellers, "before");
        migrate(sandbox, embedded_files);
        await_turns(sellers, "after");
        atomic_store(&is_over, true);
        for (int i = 0; i < SESSIONS; i++) {
            pthread_join(threads[i], NULL);
            PQfinish(sellers[i].conn);
        }
        sandbox_close(sandbox);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_db_migrate__from_each_version_while_the_sale_goes_on),
    };

    return cases_run_all(tests, sizeof(tests) / sizeof(tests[0]), fixture_setup,
                         fixture_end_group);
}
