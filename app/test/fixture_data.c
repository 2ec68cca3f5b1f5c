/* fixture_data.c - direct access to Postgres and Redis; see fixture.h. */
#include "app/test/fixture.h"

#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS_MAX 4

static PGconn *postgres;
static PGconn *sessions[SESSIONS_MAX];
static redisContext *redis;

/* -- Postgres -- */

static PGconn *connected(struct fixture *fixture, PGconn *conn)
{
    if (conn != NULL && PQstatus(conn) == CONNECTION_OK)
        return conn;
    PQfinish(conn);
    conn = PQconnectdb(fixture->database_url);
    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("postgres: %s", PQerrorMessage(conn));
    return conn;
}

static PGresult *run_on(PGconn *conn, const char *statement)
{
    PGresult *result = PQexec(conn, statement);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        PQclear(result);
        fail_msg("%s: %s", statement, PQerrorMessage(conn));
    }
    return result;
}

static PGresult *run(struct fixture *fixture, const char *statement)
{
    postgres = connected(fixture, postgres);
    PQclear(PQexec(postgres, "select 1"));
    postgres = connected(fixture, postgres);
    return run_on(postgres, statement);
}

void sql_do(struct fixture *fixture, const char *format, ...)
{
    char statement[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(statement, sizeof(statement), format, args);
    va_end(args);
    PQclear(run(fixture, statement));
}

int64_t sql_administer(struct fixture *fixture, const char *statement)
{
    PGconn *conn = PQconnectdb(fixture->superuser_url);
    PGresult *result = run_on(conn, statement);
    int64_t number =
        PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;

    PQclear(result);
    PQfinish(conn);
    return number;
}

static char *one_value(struct fixture *fixture, const char *statement)
{
    PGresult *result = run(fixture, statement);
    char *text;

    if (PQntuples(result) != 1)
        fail_msg("%s: %d rows", statement, PQntuples(result));
    text = strdup(PQgetvalue(result, 0, 0));
    PQclear(result);
    return text;
}

char *sql_text(struct fixture *fixture, const char *format, ...)
{
    char statement[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(statement, sizeof(statement), format, args);
    va_end(args);
    return one_value(fixture, statement);
}

int64_t sql_number(struct fixture *fixture, const char *format, ...)
{
    char statement[4096];
    char *text;
    int64_t number;
    va_list args;

    va_start(args, format);
    vsnprintf(statement, sizeof(statement), format, args);
    va_end(args);
    text = one_value(fixture, statement);
    number = strtoll(text, NULL, 10);
    free(text);
    return number;
}

void sql_session(struct fixture *fixture, const char *statement)
{
    size_t i = 0;

    if (statement == NULL) {
        for (i = 0; i < SESSIONS_MAX; i++) {
            PQfinish(sessions[i]);
            sessions[i] = NULL;
        }
        return;
    }
    while (sessions[i] != NULL)
        i++;
    assert_true(i < SESSIONS_MAX);
    sessions[i] = connected(fixture, NULL);
    PQclear(run_on(sessions[i], "begin"));
    PQclear(run_on(sessions[i], statement));
}

int64_t sql_broken_guarantees(struct fixture *fixture)
{
    return sql_number(
        fixture,
        "with live as (select voucher_id, user_id, count(*) as n from voucher_order"
        "  where status in ('unpaid', 'paid', 'redeemed') group by 1, 2)"
        " select (select count(*) from voucher v where stock_left < 0 or stock_total <>"
        "  stock_left + (select coalesce(sum(n), 0) from live where voucher_id = v.id))"
        " + (select count(*) from live join voucher v on v.id = voucher_id"
        "  where n > per_user_limit)");
}

int64_t sql_live_orders(struct fixture *fixture, const char *voucher_id)
{
    return sql_number(fixture,
                      "select count(*) from voucher_order where voucher_id = %s and "
                      "status in ('unpaid', 'paid', 'redeemed')",
                      voucher_id);
}

/* -- Redis -- */

static void redis_connect(struct fixture *fixture)
{
    char password[64], host[64];
    struct timeval timeout = {.tv_sec = 10};
    redisReply *reply;
    const char *port;

    if (sscanf(fixture->redis_url, "redis://default:%63[^@]@%63[^:]", password, host) !=
        2)
        fail_msg("not understood: %s", fixture->redis_url);
    port = strrchr(fixture->redis_url, ':') + 1;
    redis = redisConnectWithTimeout(host, (int)strtol(port, NULL, 10), timeout);
    if (redis == NULL || redis->err != 0)
        fail_msg("redis: %s", redis == NULL ? "no memory" : redis->errstr);
    redisSetTimeout(redis, timeout);
    reply = redisCommand(redis, "AUTH %s", password);
    assert_true(reply != NULL && reply->type == REDIS_REPLY_STATUS);
    freeReplyObject(reply);
}

static redisReply *redis_try(struct fixture *fixture, const char *format, va_list args)
{
    redisReply *reply;

    if (redis == NULL)
        redis_connect(fixture);
    reply = redisvCommand(redis, format, args);
    if (reply == NULL) {
        redisFree(redis);
        redis = NULL;
    }
    return reply;
}

const char *redis_do(struct fixture *fixture, const char *format, ...)
{
    static char text[4096];
    redisReply *reply = NULL;
    va_list args;

    for (int tries = 0; reply == NULL && tries < 2; tries++) {
        va_start(args, format);
        reply = redis_try(fixture, format, args);
        va_end(args);
    }
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("redis: %s: %s", format, reply->str);
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(text, sizeof(text), "%lld", reply->integer);
    else if (reply->type == REDIS_REPLY_ARRAY)
        snprintf(text, sizeof(text), "%zu", (size_t)reply->elements);
    else
        snprintf(text, sizeof(text), "%s", reply->str == NULL ? "" : reply->str);
    freeReplyObject(reply);
    return text;
}

int redis_order_locks(struct fixture *fixture)
{
    return (int)number_of(redis_do(fixture, "KEYS lock:order:*"));
}

void fixture_data_close(void)
{
    sql_session(NULL, NULL);
    PQfinish(postgres);
    postgres = NULL;
    if (redis != NULL)
        redisFree(redis);
    redis = NULL;
}
