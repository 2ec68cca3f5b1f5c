/* it_config.c - the commands: invalid settings, help, tokens, locks, audit. */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The exit codes that every --help states. */
#define EXIT_HOLDS  0
#define EXIT_BROKEN 1
#define EXIT_FAILED 2
#define EXIT_USAGE  64

static int setup(void **state)
{
    *state = fixture_open();
    return 0;
}

static int teardown(void **state)
{
    return fixture_close(*state);
}

#define RUN(state, env, ...)                                                             \
    fixture_run(*(state), env, (const char *const[]){"seckill", __VA_ARGS__, NULL})

static void assert_contains(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("no \"%s\" in: %.2000s", words, text);
}

/* -- settings -- */

static const struct bad_setting {
    const char *name;
    const char *value;
    const char *allowed; /* a part of the error message */
} bad_settings[] = {
    {"SECKILL_LISTEN", "nonsense", ""},
    {"SECKILL_LISTEN", "no.such.host.invalid:80", ""},
    {"SECKILL_WORKERS", "-1", "256"},
    {"SECKILL_WORKERS", "257", "256"},
    {"SECKILL_JWT_ALG", "none", "HS256"},
    {"SECKILL_JWT_ALG", "hs256", "HS256"},
    {"SECKILL_JWT_SECRET_FILE", "/no/such/file", ""},
    {"SECKILL_LOCK_LEASE_MS", "99", "600000"},
    {"SECKILL_LOCK_LEASE_MS", "600001", "100"},
    {"SECKILL_LOCK_WAIT_MS", "10001", "10000"},
    {"SECKILL_LOCK_WAIT_MS", "-1", "10000"},
    {"SECKILL_REDIS_DOWN", "maybe", "bypass"},
    {"SECKILL_ORDER_TIMEOUT_MS", "99", "60000"},
    {"SECKILL_ORDER_TIMEOUT_MS", "60001", "100"},
    {"SECKILL_BATCH_MAX", "0", "10000"},
    {"SECKILL_BATCH_MAX", "10001", "10000"},
    {"SECKILL_BATCH_VOUCHERS", "0", "1000"},
    {"SECKILL_QUEUE_MAX", "0", "1000000"},
    {"SECKILL_QUEUE_MAX", "1000001", "1000000"},
    {"SECKILL_RATE_PER_USER", "-1", "0"},
    {"SECKILL_RATE_PER_IP", "many", "0"},
    {"SECKILL_REQUIRE_DURABILITY", "none", "local, remote"},
    {"SECKILL_LOG_LEVEL", "loud", "info"},
    {"SECKILL_CONNECTIONS_PER_IP", "-1", "1000000"},
    {"SECKILL_IDLE_TIMEOUT_S", "0", "3600"},
    {"SECKILL_IDLE_TIMEOUT_S", "3601", "3600"},
    {"SECKILL_DRAIN_S", "31", "30"},
    {"SECKILL_REQUEST_TIMEOUT_S", "0", "600"},
    {"SECKILL_REQUEST_TIMEOUT_S", "601", "600"},
    {"SECKILL_TRUSTED_PROXIES", "10.0.0.0/33", "10.0.0.0/8"},
    {"SECKILL_TICKET_TTL_S", "4", "3600"},
    {"SECKILL_TICKET_TTL_S", "3601", "5"},
    {"SECKILL_TLS_PRIORITY", "SECURE128:+NONSENSE", "position 11"},
};

/* The error message does not show these values: a value may contain a password, or the fault is
   that another setting is missing. */
static const struct bad_setting bad_hidden_settings[] = {
    {"SECKILL_REDIS_URL", "redis://:hunter2@127.0.0.1:65536", "65535"},
    {"SECKILL_REDIS_URL", "redis://:hunter2%zz@127.0.0.1", "malformed"},
    {"SECKILL_DATABASE_URL", "postgresql://u:hunter2%zz@127.0.0.1/d", "percent-encoded"},
    {"SECKILL_DATABASE_URL", "postgresql://u:hunter2@[::1/d", "matching"},
    {"SECKILL_DATABASE_URL", "postgresql://u:hunter2@h/d?hunter2=1", "query parameter"},
    {"SECKILL_DATABASE_URL", "host=h password=a hunter2", "URI"},
    {"SECKILL_DATABASE_URL", "host=h password=a hunter2=b", "option"},
    {"SECKILL_DATABASE_URL", "postgresql://u:hunter2/3@127.0.0.1/d", "port"},
    {"SECKILL_JWT_ALG", "RS256", "SECKILL_JWT_PUBLIC_KEY_FILE"},
    {"SECKILL_JWT_KEYS_FILE", "/etc/hostname", "kid: NAME"},
    {"SECKILL_TICKET_SECRET", "hunter2", "32"},
    {"SECKILL_JWT_SECRETS", "hunter2", "SECKILL_JWT_SECRET"},
    {"SECKILL_seckill_batch_max_and_many_more_letters_than_any_setting_has", "",
     "unknown"},
    {"SECKILL_TLS_CERT_FILE", "/etc/hostname", "SECKILL_TLS_KEY_FILE"},
};

static bool is_refused(void **state, const struct bad_setting *bad, const char *shown)
{
    const struct fixture *fixture = *state;
    char setting[200];
    const char *const env[] = {setting, "SECKILL_LISTEN=127.0.0.1:0", NULL};
    const struct command_result *outcome;

    snprintf(setting, sizeof(setting), "%s=%s", bad->name, bad->value);
    outcome = fixture_run(*state, env,
                          (const char *const[]){"timeout", "120", fixture->program,
                                                "serve", NULL}); /* must not start */
    if (outcome->code == EXIT_USAGE && strstr(outcome->err, bad->name) != NULL &&
        strstr(outcome->err, shown) != NULL &&
        strstr(outcome->err, bad->allowed) != NULL &&
        strstr(outcome->err, "hunter2") == NULL)
        return true;
    print_error("%s: code %d: %s\n", setting, outcome->code, outcome->err);
    return false;
}

static void test_setting__invalid_stops_the_start_with_a_message(void **state)
{
    size_t wrong = 0;

    for (size_t i = 0; i < COUNT_OF(bad_settings); i++)
        wrong += !is_refused(state, &bad_settings[i], bad_settings[i].value);
    for (size_t i = 0; i < COUNT_OF(bad_hidden_settings); i++)
        wrong += !is_refused(state, &bad_hidden_settings[i], "");
    assert_int_equal(wrong, 0);
}

/* Every command refuses the URL and shows no part of a password. */
static void test_setting__invalid_database_url_is_refused_by_commands(void **state)
{
    static const char *const commands[] = {"audit", "migrate"};
    const char *const env[] = {"SECKILL_DATABASE_URL=postgresql://u:hunter2%zz@h/d",
                               NULL};

    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const struct command_result *outcome = RUN(state, env, commands[i]);

        assert_int_equal(outcome->code, EXIT_USAGE);
        assert_contains(outcome->err, "SECKILL_DATABASE_URL");
        assert_null(strstr(outcome->err, "hunter2"));
    }
}

static void test_setting__names_of_tests_are_ignored(void **state)
{
    const char *const env[] = {"SECKILL_TEST_KEEP=1", NULL};

    assert_int_equal(RUN(state, env, "token", "--user", "1")->code, EXIT_HOLDS);
}

static void write_bytes(const char *path, const char *bytes, size_t len)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

static void test_setting__secret_from_a_file(void **state)
{
    struct fixture *fixture = *state;
    char path[128], setting[200];
    const char *const env[] = {"SECKILL_JWT_SECRET=", setting, NULL};
    struct service *service;

    snprintf(path, sizeof(path), "%s/secret", fixture->dir);
    write_bytes(path, FIXTURE_SECRET "\n", sizeof(FIXTURE_SECRET));
    snprintf(setting, sizeof(setting), "SECKILL_JWT_SECRET_FILE=%s", path);
    service = fixture_serve(fixture, env);
    EXPECT(request(service, shopper(1), NULL, "GET /v1/orders"), 200, NULL);
    assert_int_equal(service_stop(service), 0);
}

static void test_serve__address_in_use_is_refused(void **state)
{
    struct service *service = fixture_serve(*state, NULL);
    char setting[80];
    const char *const env[] = {setting, NULL};
    const struct command_result *outcome;

    snprintf(setting, sizeof(setting), "SECKILL_LISTEN=%s:%u", service->address.host,
             (unsigned)service->address.port);
    outcome = RUN(state, env, "serve");
    assert_int_equal(outcome->code, EXIT_FAILED);
    assert_contains(outcome->err, setting + strlen("SECKILL_LISTEN="));
    for (int i = 0; i < 20; i++) /* the first service still serves */
        EXPECT(request(service, NULL, NULL, "GET /healthz"), 200, NULL);
}

/* -- help -- */

static void test_help__states_the_exit_codes(void **state)
{
    static const char *const commands[] = {"serve", "migrate", "token",
                                           "audit", "lock",    "version"};
    const struct command_result *outcome;

    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        outcome = RUN(state, NULL, commands[i], "--help");

        assert_int_equal(outcome->code, 0);
        assert_contains(outcome->out, "usage: seckill");
        assert_contains(outcome->out, commands[i]);
        assert_contains(outcome->out, "Exit code");
        assert_string_equal(outcome->err, "");
    }
    outcome = RUN(state, NULL, "--help");
    assert_int_equal(outcome->code, 0);
    assert_contains(outcome->out, "usage: seckill COMMAND");
    assert_contains(outcome->out, "See `seckill COMMAND --help`");
}

static void test_help__serve_lists_the_settings_with_defaults(void **state)
{
    static const char *const settings[][2] = {
        {"SECKILL_LISTEN", "127.0.0.1:8080"},
        {"SECKILL_WORKERS", "0"},
        {"SECKILL_DATABASE_URL", ""},
        {"SECKILL_REDIS_URL", ""},
        {"SECKILL_JWT_ALG", "HS256"},
        {"SECKILL_JWT_SECRET", ""},
        {"SECKILL_JWT_SECRET_FILE", ""},
        {"SECKILL_JWT_PUBLIC_KEY_FILE", ""},
        {"SECKILL_LOCK_LEASE_MS", "30000"},
        {"SECKILL_LOCK_WAIT_MS", "0"},
        {"SECKILL_REDIS_DOWN", "reject"},
        {"SECKILL_ORDER_TIMEOUT_MS", "5000"},
        {"SECKILL_BATCH_MAX", "1024"},
        {"SECKILL_BATCH_VOUCHERS", "128"},
        {"SECKILL_QUEUE_MAX", "10000"},
        {"SECKILL_RATE_PER_USER", "10"},
        {"SECKILL_RATE_PER_IP", "0"},
        {"SECKILL_JWT_KEYS_FILE", ""},
        {"SECKILL_JWT_ISSUER", ""},
        {"SECKILL_JWT_AUDIENCE", ""},
        {"SECKILL_TICKET_SECRET", ""},
        {"SECKILL_TICKET_SECRET_FILE", ""},
        {"SECKILL_TICKET_TTL_S", "120"},
        {"SECKILL_TRUSTED_PROXIES", ""},
        {"SECKILL_CONNECTIONS_PER_IP", "0"},
        {"SECKILL_IDLE_TIMEOUT_S", "75"},
        {"SECKILL_DRAIN_S", "1"},
        {"SECKILL_REQUEST_TIMEOUT_S", "30"},
        {"SECKILL_TLS_CERT_FILE", ""},
        {"SECKILL_TLS_KEY_FILE", ""},
        {"SECKILL_TLS_PRIORITY", "SECURE128:%SERVER_PRECEDENCE:-VERS-ALL:+VERS-TLS1.3"},
        {"SECKILL_LOG_LEVEL", ""},
    };
    const struct command_result *outcome = RUN(state, NULL, "serve", "--help");

    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const char *at = strstr(outcome->out, settings[i][0]);

        assert_contains(outcome->out, settings[i][0]);
        assert_contains(at, settings[i][1]);
    }
}

static void test_usage__invalid_arguments_exit_64(void **state)
{
    assert_int_equal(RUN(state, NULL, "sell")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "serve", "--what")->code, EXIT_USAGE);
    assert_int_equal(fixture_run(*state, NULL, (const char *[]){"seckill", NULL})->code,
                     EXIT_USAGE);
}

/* -- token -- */

static void test_token__is_accepted_by_the_service(void **state)
{
    struct service *service = fixture_serve(*state, NULL);
    char voucher_id[ID_SIZE];
    char *rest, *line;
    int64_t user = 41;

    make_voucher(service, &(struct sale){.stock = 10}, voucher_id);
    rest = strdup(RUN(state, NULL, "token", "--user", "41", "--count", "3")->out);
    for (char *at = rest; (line = strsep(&at, "\n")) != NULL && line[0] != '\0'; user++) {
        const struct client_reply *reply = EXPECT(
            request(service, line, NULL, "POST /v1/vouchers/%s/orders", voucher_id), 201,
            NULL);

        assert_int_equal(number_of(reply_text(reply, "user_id")), user);
    }
    free(rest);
    assert_int_equal(user, 44);
    rest = strdup(
        RUN(state, NULL, "token", "--user", "1", "--role", "admin", "--ttl", "60")->out);
    rest[strcspn(rest, "\n")] = '\0';
    EXPECT(
        request(service, rest, "{\"add\":1}", "POST /v1/vouchers/%s/restock", voucher_id),
        200, NULL);
    free(rest);
}

/* -- lock -- */

static void test_lock__shows_and_releases(void **state)
{
    const struct command_result *outcome;

    assert_int_equal(RUN(state, NULL, "lock", "show", "lock:order:5")->code, EXIT_BROKEN);
    assert_int_equal(RUN(state, NULL, "lock", "release", "lock:order:5")->code,
                     EXIT_BROKEN);
    redis_do(*state, "SET lock:order:5 the-owner PX 60000");
    outcome = RUN(state, NULL, "lock", "show", "lock:order:5");
    assert_int_equal(outcome->code, EXIT_HOLDS);
    assert_contains(outcome->out, "the-owner");
    assert_string_equal(redis_do(*state, "GET lock:order:5"), "the-owner");
    assert_int_equal(RUN(state, NULL, "lock", "release", "lock:order:5")->code,
                     EXIT_HOLDS);
    assert_string_equal(redis_do(*state, "EXISTS lock:order:5"), "0");
}

static void test_lock__lists_all_owners(void **state)
{
    const struct command_result *outcome;

    outcome = RUN(state, NULL, "lock", "list");
    assert_int_equal(outcome->code, EXIT_HOLDS);
    assert_string_equal(outcome->out, "");
    redis_do(*state, "SET lock:order:5 0a0b0c0d-1-2-3-4:17 PX 60000");
    redis_do(*state, "SET alien 17");
    redis_do(*state,
             "ZADD permits 9e15 0a0b0c0d-1-2-3-4:0:18 9e15 0a0b0c0d-1-2-3-4:0:19");
    outcome = RUN(state, NULL, "lock", "list");
    assert_int_equal(outcome->code, EXIT_HOLDS);
    assert_contains(outcome->out, "lock:order:5 is held by 0a0b0c0d-1-2-3-4:17 for ");
    assert_contains(outcome->out, "permits is held by 0a0b0c0d-1-2-3-4:0:18 for ");
    assert_contains(outcome->out, "permits is held by 0a0b0c0d-1-2-3-4:0:19 for ");
    assert_null(strstr(outcome->out, "alien"));
    outcome = RUN(state, NULL, "lock", "show", "permits");
    assert_int_equal(outcome->code, EXIT_HOLDS);
    assert_contains(outcome->out, "0:18");
    assert_contains(outcome->out, "0:19");
}

static void test_lock__lists_those_of_this_host(void **state)
{
    const struct command_result *outcome;
    char host[65] = "";
    uint32_t hash = 2166136261; /* FNV-1a */

    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    for (const char *at = host; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619;
    redis_do(*state, "SET far %08x-1-2-3-4:17 PX 60000", hash + 1);
    assert_string_equal(RUN(state, NULL, "lock", "list", "--mine")->out, "");
    redis_do(*state, "SET near %08x-1-2-3-4:17 PX 60000", hash);
    outcome = RUN(state, NULL, "lock", "list", "--mine");
    assert_int_equal(outcome->code, EXIT_HOLDS);
    assert_int_equal(strncmp(outcome->out, "near is held by ", 16), 0);
    assert_null(strstr(outcome->out, "far"));
    assert_contains(RUN(state, NULL, "lock", "list")->out, "far");
}

/* -- audit and migrate -- */

static void test_audit__finds_broken_rows(void **state)
{
    struct service *service = fixture_serve(*state, NULL);
    char voucher_id[ID_SIZE];

    make_voucher(service, &(struct sale){.stock = 10, .per_user_limit = 2}, voucher_id);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
    EXPECT(place_order(service, 1, voucher_id, NULL), 201, NULL);
    assert_int_equal(RUN(state, NULL, "audit")->code, EXIT_HOLDS);
    sql_do(*state, "update voucher set stock_left = stock_left - 1 where id = %s",
           voucher_id);
    assert_int_equal(RUN(state, NULL, "audit")->code, EXIT_BROKEN);
    assert_contains(RUN(state, NULL, "audit")->out, voucher_id);
    sql_do(*state,
           "update voucher set stock_left = stock_left + 1, per_user_limit = 1 "
           "where id = %s",
           voucher_id);
    assert_int_equal(RUN(state, NULL, "audit")->code, EXIT_BROKEN);
    sql_do(*state, "update voucher set per_user_limit = 2 where id = %s", voucher_id);
    assert_int_equal(RUN(state, NULL, "audit")->code, EXIT_HOLDS);
}

static void test_migrate__needs_the_owner(void **state)
{
    struct fixture *fixture = *state;
    char url[300];
    const char *const owner[] = {url, NULL};

    snprintf(url, sizeof(url), "SECKILL_DATABASE_URL=%s", fixture->database_url);
    assert_int_equal(RUN(state, NULL, "migrate")->code, EXIT_FAILED);
    assert_int_equal(RUN(state, owner, "migrate")->code, EXIT_HOLDS); /* no harm */
    assert_contains(RUN(state, owner, "migrate")->out, "0 applied");
    assert_contains(RUN(state, owner, "migrate", "--dry-run")->out, "0 to apply");
    assert_int_equal(RUN(state, owner, "migrate", "--service-role")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, owner, "migrate", "--service-role", "nobody")->code,
                     EXIT_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_setting__invalid_stops_the_start_with_a_message),
        CASE(test_setting__invalid_database_url_is_refused_by_commands),
        CASE(test_setting__names_of_tests_are_ignored),
        CASE(test_setting__secret_from_a_file),
        CASE(test_serve__address_in_use_is_refused),
        CASE(test_help__states_the_exit_codes),
        CASE(test_help__serve_lists_the_settings_with_defaults),
        CASE(test_usage__invalid_arguments_exit_64),
        CASE(test_token__is_accepted_by_the_service),
        CASE(test_lock__shows_and_releases),
        CASE(test_lock__lists_all_owners),
        CASE(test_lock__lists_those_of_this_host),
        CASE(test_audit__finds_broken_rows),
        CASE(test_migrate__needs_the_owner),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
