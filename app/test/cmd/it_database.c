/*
 * it_database.c - databases that cannot be used, or not safely: what migrate and serve say.
 */
#include "app/test/sql/it_sql.h"

static PGconn *superuser;

static int setup(void **state)
{
    struct fixture *fixture = fixture_open();

    *state = fixture;
    superuser = PQconnectdb(fixture->superuser_url);
    return PQstatus(superuser) == CONNECTION_OK ? 0 : -1;
}

static int teardown(void **state)
{
    PQfinish(superuser);
    return fixture_close(*state);
}

static void as_superuser(const char *format, ...) PRINTF_LIKE(1, 2);

static void as_superuser(const char *format, ...)
{
    char statement[1024];
    PGresult *result;

    SANDBOX_FORMAT(statement, format);
    result = PQexec(superuser, statement);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(superuser));
    PQclear(result);
}

/* -- encoding -- */

static void create_database(const char *name, const char *encoding)
{
    as_superuser("create database %s owner seckill encoding '%s' locale 'C'"
                 " template template0",
                 name, encoding);
}

/* The setting that names another database than `url`. */
static const char *setting_of(const char *url, const char *database)
{
    static char settings[4][400];
    static unsigned used;
    char *setting = settings[used++ % COUNT_OF(settings)];

    snprintf(setting, sizeof(settings[0]), "SECKILL_DATABASE_URL=%.*s/%s",
             (int)(strrchr(url, '/') - url), url, database);
    return setting;
}

static const struct command_result *migrate(struct fixture *fixture, const char *database)
{
    const char *const env[] = {setting_of(fixture->database_url, database), NULL};

    return fixture_run(fixture, env,
                       (const char *const[]){"seckill", "migrate", "--service-role",
                                             SERVICE_ROLE, NULL});
}

static void test_migrate__refuses_an_encoding_other_than_utf8(void **state)
{
    static const char *const encodings[] = {"LATIN1", "SQL_ASCII", "EUC_CN"};

    for (size_t i = 0; i < COUNT_OF(encodings); i++) {
        const struct command_result *outcome;

        create_database("other", encodings[i]);
        outcome = migrate(*state, "other");
        assert_int_equal(outcome->code, 1);
        assert_non_null(strstr(outcome->err, encodings[i]));
        assert_non_null(strstr(outcome->err, "UTF8"));
        as_superuser("drop database other");
    }
}

static bool is_reported(void *arg)
{
    const struct client_reply *reply = request(arg, NULL, NULL, "GET /readyz");

    return reply->status == 503 &&
           strstr(reply->body, "\"postgres\":\"not_utf8\"") != NULL;
}

/* The service becomes ready without a restart when the database has been created again. */
static void test_serve__is_not_ready_with_an_encoding_other_than_utf8(void **state)
{
    struct fixture *fixture = *state;
    const char *const env[] = {setting_of(fixture->service_url, "other"), NULL};
    struct service *service;

    service = fixture_spawn(fixture, env); /* there is no such database yet */
    service_await(service, "/readyz", 503);
    create_database("other", "LATIN1");
    assert_true(becomes_true(is_reported, service));
    as_superuser("drop database other with (force)");
    create_database("other", "UTF8");
    assert_int_equal(migrate(fixture, "other")->code, 0);
    service_await(service, "/readyz", 200);
    assert_int_equal(service_stop(service), 0);
    assert_non_null(strstr(fixture_run(fixture, NULL,
                                       (const char *const[]){"grep", "dependency_down",
                                                             service->log_path, NULL})
                               ->out,
                           "LATIN1"));
    as_superuser("drop database other with (force)");
}

/* -- durability -- */

static bool is_reported_not_durable(void *arg)
{
    const struct client_reply *reply = request(arg, NULL, NULL, "GET /readyz");

    return reply->status == 503 &&
           strstr(reply->body, "\"postgres\":\"not_durable\"") != NULL;
}

static bool is_level_none(void *arg)
{
    return strstr(request(arg, NULL, NULL, "GET /metrics")->body,
                  "seckill_durability{level=\"none\"} 1") != NULL;
}

static void test_serve__is_not_ready_if_commits_are_lazy(void **state)
{
    struct fixture *fixture = *state;
    struct service *service;

    as_superuser("alter role " SERVICE_ROLE " set synchronous_commit = off");
    service = fixture_spawn(fixture, NULL);
    assert_true(becomes_true(is_reported_not_durable, service));
    assert_true(becomes_true(is_level_none, service));
    as_superuser("alter role " SERVICE_ROLE " reset synchronous_commit");
    service_await(service, "/readyz", 200);
    assert_int_equal(service_stop(service), 0);
    assert_non_null(strstr(fixture_run(fixture, NULL,
                                       (const char *const[]){"grep", "event=durability",
                                                             service->log_path, NULL})
                               ->out,
                           "level=local before=none"));
}

/* -- clocks -- */

struct awaited {
    struct fixture *fixture;
    struct service *service;
    const char *words;
};

/* The order makes the service read the voucher, which need not exist, and with it the clock of
   Postgres. */
static bool logs(void *arg)
{
    const struct awaited *awaited = arg;

    place_order(awaited->service, 1, "1", NULL);
    return fixture_run(
               awaited->fixture, NULL,
               (const char *[]){"grep", awaited->words, awaited->service->log_path, NULL})
               ->code == 0;
}

/* The role of the service finds this function before pg_catalog.clock_timestamp(). */
static void set_clock(int seconds)
{
    as_superuser("create or replace function wrong.clock_timestamp() returns timestamptz"
                 " language sql volatile as $$select pg_catalog.clock_timestamp()"
                 " + interval '%d s'$$",
                 seconds);
}

static void test_serve__compares_its_clock_with_that_of_postgres(void **state)
{
    struct awaited awaited = {.fixture = *state, .words = "event=clock_differs"};
    const char *line;

    as_superuser("create schema wrong");
    as_superuser("grant usage on schema wrong to " SERVICE_ROLE);
    set_clock(3600);
    as_superuser("alter role " SERVICE_ROLE
                 " set search_path = wrong, public, pg_catalog");
    awaited.service = fixture_serve(*state, NULL);
    AWAIT(logs, &awaited);
    line = strstr(request(awaited.service, NULL, NULL, "GET /metrics")->body,
                  "\nseckill_clock_difference_seconds ");
    assert_non_null(line);
    assert_in_range(strtol(strchr(line, ' '), NULL, 10), 3500, 3700);
    set_clock(0);
    awaited.words = "event=clock_agrees";
    AWAIT(logs, &awaited);
    as_superuser("alter role " SERVICE_ROLE " reset search_path");
    as_superuser("drop schema wrong cascade");
    assert_int_equal(service_stop(awaited.service), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_migrate__refuses_an_encoding_other_than_utf8),
        CASE(test_serve__is_not_ready_with_an_encoding_other_than_utf8),
        CASE(test_serve__is_not_ready_if_commits_are_lazy),
        CASE(test_serve__compares_its_clock_with_that_of_postgres),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
