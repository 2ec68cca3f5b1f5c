/* it_commands.c - the program as a whole: arguments, exit codes, messages, descriptors. */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_HOLDS  0
#define EXIT_BROKEN 1
#define EXIT_FAILED 2
#define EXIT_USAGE  64

#define RUN(env, ...)                                                                    \
    fixture_run(*state, env, (const char *const[]){"seckill", __VA_ARGS__, NULL})

/* -- main -- */

static void assert_ended(const struct command_result *result, int code, const char *out,
                         const char *err)
{
    assert_int_equal(result->code, code);
    if (strstr(result->out, out ? out : "") == NULL || (out == NULL) != !result->out[0])
        fail_msg("expected on standard output \"%s\", got \"%.2000s\"", out ? out : "",
                 result->out);
    if (strstr(result->err, err ? err : "") == NULL || (err == NULL) != !result->err[0])
        fail_msg("expected on standard error \"%s\", got \"%.2000s\"", err ? err : "",
                 result->err);
}

SERVICE_CASE(test_help__states_the_usage_and_exit_codes)
{
    static const char *const commands[] = {"serve", "migrate", "token",   "audit",
                                           "lock",  "deliver", "webhook", "erase",
                                           "top",   "cells",   "version"};
    char usage[40], row[16];

    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        snprintf(usage, sizeof(usage), "usage: seckill %s", commands[i]);
        assert_ended(RUN(NULL, commands[i], "--help"), 0, usage, NULL);
        ASSERT_CONTAINS(RUN(NULL, commands[i], "--help")->out, "Exit code");
        snprintf(row, sizeof(row), "\n  %s ", commands[i]);
        ASSERT_CONTAINS(RUN(NULL, "--help")->out, row);
    }
    ASSERT_CONTAINS(RUN(NULL, "--help")->out, "See `seckill COMMAND --help`");
    ASSERT_CONTAINS(RUN(NULL, "serve", "--help")->out,
                    "\n  SECKILL_WORKERS (0)  [0..256]");
    ASSERT_CONTAINS(RUN(NULL, "--help")->out, "seckill --version");
    assert_ended(RUN(NULL, "--version"), 0, "seckill " SECKILL_VERSION "\ncommit ", NULL);
    assert_ended(RUN(NULL, "--version", "--help"), 0, "usage: seckill version", NULL);
    assert_ended(RUN(NULL, "--version", "what"), EXIT_USAGE, NULL,
                 "usage: seckill version");
    assert_null(strstr(RUN(NULL, "audit", "--help")->out, "SECKILL_WORKERS (0)"));
    assert_ended(fixture_run(*state, NULL, (const char *[]){"seckill", NULL}), EXIT_USAGE,
                 NULL, "usage: seckill COMMAND");
    assert_ended(RUN(NULL, "sell"), EXIT_USAGE, NULL,
                 "unknown command \"sell\"\n\nusage:");
    assert_ended(RUN(NULL, "serve", "--what"), EXIT_USAGE, NULL, "usage: seckill serve");
}

/* The message must name the setting and its permitted values, and must show no part of a secret
   ("hunter2"). */
SERVICE_CASE(test_setting__invalid_stops_the_start_with_a_message)
{
    static const char *const rows[][2] = {
        {"SECKILL_LISTEN=nonsense", "SECKILL_LISTEN: \"nonsense\" is not an address"},
        {"SECKILL_WORKERS=257", "SECKILL_WORKERS is \"257\"; allowed are 0 to 256"},
        {"SECKILL_WORKER=hunter2", "SECKILL_WORKER is unknown"},
        {"SECKILL_TRUSTED_PROXIES=10.0.0.0/33", "SECKILL_TRUSTED_PROXIES: "},
        {"SECKILL_TLS_PRIORITY=NONSENSE", "SECKILL_TLS_PRIORITY is invalid at position"},
        {"SECKILL_TICKET_SECRET=hunter2", "SECKILL_TICKET_SECRET"},
        {"SECKILL_JWT_ALG=RS256", "SECKILL_JWT_PUBLIC_KEY_FILE is not set"},
        {"SECKILL_REDIS_URL=redis://:hunter2@127.0.0.1:65536", "SECKILL_REDIS_URL: "},
        {"SECKILL_DATABASE_URL=postgresql://u:hunter2%zz@h/d", "SECKILL_DATABASE_URL"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *const env[] = {rows[i][0], "SECKILL_LISTEN=127.0.0.1:0", NULL};
        const struct command_result *result = fixture_run(
            *state, env,
            (const char *[]){"timeout", "120", ((struct fixture *)*state)->program,
                             "serve", NULL});

        assert_ended(result, EXIT_USAGE, NULL, rows[i][1]);
        ASSERT_CONTAINS(result->err, "seckill serve: ");
        assert_null(strstr(result->err, "hunter2"));
    }
}

/* If a standard descriptor were closed, the next file or socket would get its number, and would
   receive the log. */
SERVICE_CASE(test_main__opens_the_standard_descriptors)
{
    struct service *service = fixture_serve_by(*state, NULL, "", "<&- >&- 2>&-");

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)service->pid, fd);
        assert_true(readlink(path, target, sizeof(target) - 1) > 0);
        assert_string_equal(target, "/dev/null");
    }
    assert_int_equal(service_stop(service), 0);
}

/* -- the other commands, with real servers -- */

SERVICE_CASE(test_token__is_accepted_by_the_service)
{
    struct service *service = fixture_serve(*state, NULL);
    char voucher_id[ID_SIZE];
    char *tokens, *rest, *token;
    int64_t user = 41;

    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    rest = tokens = strdup(RUN(NULL, "token", "--user", "41", "--count", "2")->out);
    while ((token = strsep(&rest, "\n")) != NULL && token[0] != '\0')
        assert_int_equal(number_of(reply_text(
                             EXPECT(request(service, token, NULL,
                                            "POST /v1/vouchers/%s/orders", voucher_id),
                                    201, NULL),
                             "user_id")),
                         user++);
    free(tokens);
    assert_int_equal(user, 43);
}

SERVICE_CASE(test_lock__shows_lists_and_releases)
{
    assert_ended(RUN(NULL, "lock", "show", "lock:order:5"), EXIT_BROKEN,
                 "lock:order:5 is free", NULL);
    assert_ended(RUN(NULL, "lock", "list"), EXIT_HOLDS, NULL, NULL);
    redis_do(*state, "SET lock:order:5 0a0b0c0d-1-2-3-4:17 PX 60000");
    assert_ended(RUN(NULL, "lock", "show", "lock:order:5"), EXIT_HOLDS,
                 "lock:order:5 is held by 0a0b0c0d-1-2-3-4:17 for ", NULL);
    assert_ended(RUN(NULL, "lock", "list"), EXIT_HOLDS,
                 "lock:order:5 is held by 0a0b0c0d-1-2-3-4:17 for ", NULL);
    assert_ended(RUN(NULL, "lock", "list", "--mine"), EXIT_HOLDS, NULL, NULL);
    assert_ended(RUN(NULL, "lock", "release", "lock:order:5"), EXIT_HOLDS,
                 "lock:order:5 was released", NULL);
    assert_string_equal(redis_do(*state, "EXISTS lock:order:5"), "0");
}

SERVICE_CASE(test_audit__finds_broken_rows)
{
    struct service *service = fixture_serve(*state, NULL);
    char voucher_id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
    assert_ended(RUN(NULL, "audit"), EXIT_HOLDS, "audit passed", NULL);
    sql_do(*state, "update voucher set stock_left = stock_left - 1 where id = %s",
           voucher_id);
    assert_ended(RUN(NULL, "audit"), EXIT_BROKEN, voucher_id, NULL);
    sql_do(*state, "update voucher set stock_left = stock_left + 1 where id = %s",
           voucher_id);
}

SERVICE_CASE(test_migrate__needs_the_owner)
{
    struct fixture *fixture = *state;
    char url[300];
    const char *const owner[] = {url, NULL};

    snprintf(url, sizeof(url), "SECKILL_DATABASE_URL=%s", fixture->database_url);
    assert_ended(RUN(NULL, "migrate"), EXIT_FAILED, NULL, "seckill migrate: ");
    assert_ended(RUN(owner, "migrate"), EXIT_HOLDS, "0 applied", NULL);
    assert_ended(RUN(owner, "migrate", "--dry-run"), EXIT_HOLDS, "0 to apply", NULL);
    assert_ended(RUN(owner, "migrate", "--service-role", "nobody"), EXIT_FAILED, NULL,
                 "nobody");
}

SERVICE_CASE(test_webhook__changes_the_endpoints)
{
    struct fixture *fixture = *state;
    char url[300], id[ID_SIZE], secret[64], words[200];
    const char *const owner[] = {url, NULL};

    snprintf(url, sizeof(url), "SECKILL_DATABASE_URL=%s", fixture->database_url);
    assert_ended(RUN(owner, "webhook", "list"), EXIT_HOLDS, NULL, NULL);
    assert_int_equal(sscanf(RUN(owner, "webhook", "add", "https://x", "0_0")->out,
                            "id %23s\nsecret whsec_%63s\n", id, secret),
                     2);
    snprintf(words, sizeof(words), "%s https://x enabled at 0_0, ", id);
    assert_ended(RUN(owner, "webhook", "list"), EXIT_HOLDS, words, NULL);
    assert_null(strstr(RUN(owner, "webhook", "list")->out, secret));
    assert_ended(RUN(owner, "webhook", "log", id), EXIT_HOLDS, NULL, NULL);
    sql_do(fixture, "update webhook set deliveries = '{\"(7,2026-01-02Z,8,f)\"}'");
    assert_ended(RUN(owner, "webhook", "log", id), EXIT_HOLDS,
                 "2026-01-02T00:00:00.000Z evt_7 failed in 8 ms: f\n", NULL);
    sql_do(fixture, "update webhook set error = 'broken', failing_since = now()");
    assert_ended(RUN(owner, "webhook", "list"), EXIT_BROKEN, ": broken", NULL);
    assert_ended(RUN(owner, "webhook", "enable", id), EXIT_HOLDS, NULL, NULL);
    assert_ended(RUN(owner, "webhook", "disable", id), EXIT_HOLDS, NULL, NULL);
    assert_ended(RUN(owner, "webhook", "list"), EXIT_BROKEN, ": disabled by an operator",
                 NULL);
    assert_ended(RUN(owner, "webhook", "replay", id, "0_1"), EXIT_HOLDS, NULL, NULL);
    snprintf(words, sizeof(words), "%s https://x enabled at 0_1, ", id);
    assert_ended(RUN(owner, "webhook", "list"), EXIT_HOLDS, words, NULL);
    assert_ended(RUN(owner, "webhook", "replay", id, "1_9999999999999"), EXIT_BROKEN,
                 NULL, "the position is beyond the last change");
    assert_ended(RUN(owner, "webhook", "remove", id), EXIT_HOLDS, NULL, NULL);
    assert_ended(RUN(owner, "webhook", "remove", id), EXIT_BROKEN, NULL,
                 "nothing was changed");
    assert_ended(RUN(owner, "webhook", "enable", id), EXIT_BROKEN, NULL,
                 "nothing was changed");
    assert_ended(RUN(owner, "webhook", "log", id), EXIT_BROKEN, NULL,
                 "there is no such endpoint");
}

SERVICE_CASE(test_webhook__refuses_invalid_arguments)
{
    static char long_url[2002] = "http://";
    static const char *const invalid[][4] = {
        {NULL},
        {"send", "1"},
        {"add"},
        {"add", "ftp://x"},
        {"add", "http://x", "1"},
        {"add", "http://x", "1_"},
        {"add", "http://x", "_1"},
        {"add", "http://x", "1_2x"},
        {"add", "http://x", "1_2", "3"},
        {"add", "http://x", "5_3"},
        {"add", long_url},
        {"list", "1"},
        {"log"},
        {"log", "x"},
        {"log", "1", "0_0"},
        {"enable"},
        {"enable", "x"},
        {"enable", "1", "0_0"},
        {"disable", "1", "0_0"},
        {"remove", ""},
        {"replay", "1"},
        {"replay", "1", "a_1"},
        {"replay", "1", "1_12345678901234567890"},
        {"replay", "1", "1_9999999999999999999"}, /* more than a bigint */
    };

    memset(long_url + strlen(long_url), 'x', 2001 - strlen(long_url));
    for (size_t i = 0; i < COUNT_OF(invalid); i++)
        assert_ended(RUN(NULL, "webhook", invalid[i][0], invalid[i][1], invalid[i][2],
                         invalid[i][3]),
                     EXIT_USAGE, NULL, "usage: seckill webhook");
}

SERVICE_CASE(test_erase__replaces_one_shopper_or_all_of_ended_sales)
{
    struct fixture *fixture = *state;
    struct service *service = fixture_serve(fixture, NULL);
    char url[300], id[ID_SIZE], words[300];
    const char *const owner[] = {url, NULL};

    snprintf(url, sizeof(url), "SECKILL_DATABASE_URL=%s", fixture->database_url);
    make_voucher(service, &(struct sale){.stock = 10}, id);
    EXPECT(place_order(service, 71, id, "key"), 201, NULL);
    EXPECT(place_order(service, 72, id, NULL), 201, NULL);
    sql_do(fixture,
           "select pay_order(voucher_id, id, 'payment:1', 'ref ' || id, price_cents)"
           " from voucher_order where voucher_id = %s",
           id);
    snprintf(words, sizeof(words), "seckill erase: the sale of voucher %s has not ended",
             id);
    assert_ended(RUN(owner, "erase", "--user", "71"), EXIT_BROKEN, NULL, words);
    assert_ended(RUN(NULL, "erase", "--user", "71"), EXIT_FAILED, NULL, "erase_user");
    sql_do(fixture,
           "update voucher set begin_at = begin_at - interval '9 days',"
           " end_at = end_at - interval '9 days' where id = %s",
           id);
    assert_ended(RUN(owner, "erase", "--user", "71", "--dry-run"), EXIT_HOLDS,
                 "1 orders, 0 events, 1 keys\nnothing was changed", NULL);
    assert_string_equal(RUN(owner, "erase", "--user", "71")->out,
                        "1 orders, 0 events, 1 keys\n");
    assert_int_equal(
        sql_number(fixture, "select count(*) from voucher_order where user_id = 71"), 0);

    sql_do(fixture, "create schema old");
    snprintf(words, sizeof(words), "voucher %s: 2 orders, 0 events, 0 keys\n1 vouchers\n",
             id);
    assert_string_equal(RUN(owner, "erase", "--ended", "8", "--archive", "old")->out,
                        words);
    assert_int_equal(
        sql_number(fixture, "select count(*) from old.voucher_order where user_id > 72"),
        2);
    assert_ended(RUN(NULL, "audit"), EXIT_HOLDS, "audit passed", NULL);
    sql_do(fixture, "drop schema old cascade");
}

int main(void)
{
    return cases_run(fixture_setup, fixture_end_group);
}
