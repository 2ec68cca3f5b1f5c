/* it_config.c - the commands: invalid settings, help, tokens, locks, audit. */
#include "app/test/fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    {"SECKILL_LISTEN", "127.0.0.1:99999", ""},
    {"SECKILL_LISTEN", "127.0.0.1:65536", ""},
    {"SECKILL_LISTEN", "127.0.0.1:-1", ""},
    {"SECKILL_LISTEN", "127.0.0.1", ""},
    {"SECKILL_LISTEN", "no.such.host.invalid:80", ""},
    {"SECKILL_WORKERS", "-1", "256"},
    {"SECKILL_WORKERS", "257", "256"},
    {"SECKILL_WORKERS", "two", "256"},
    {"SECKILL_WORKERS", "1.5", "256"},
    {"SECKILL_WORKERS", "2 ", "256"},
    {"SECKILL_WORKERS", " 2", "256"},
    {"SECKILL_WORKERS", "+2", "256"},
    {"SECKILL_WORKERS", "0x2", "256"},
    {"SECKILL_WORKERS", "99999999999999999999", "256"},
    {"SECKILL_JWT_ALG", "none", "HS256"},
    {"SECKILL_JWT_ALG", "hs256", "HS256"},
    {"SECKILL_JWT_PUBLIC_KEY_FILE", "/no/such/file", ""},
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
    {"SECKILL_TRUSTED_PROXIES", "localhost", "10.0.0.0/8"},
    {"SECKILL_TRUSTED_PROXIES", "10.0.0.0/33", "10.0.0.0/8"},
    {"SECKILL_JWT_KEYS_FILE", "/no/such/file", ""},
    {"SECKILL_TICKET_TTL_S", "4", "3600"},
    {"SECKILL_TICKET_TTL_S", "3601", "5"},
    {"SECKILL_TICKET_SECRET_FILE", "/no/such/file", ""},
    {"SECKILL_TLS_CERT_FILE", "/no/such/file", ""},
    {"SECKILL_TLS_PRIORITY", "SECURE128:+NONSENSE", "position 11"},
    {"SECKILL_TLS_PRIORITY", "NONE", "position 1"},
};

/* The error message does not show these values: a value may contain a password, or the fault is
   that another setting is missing. */
static const struct bad_setting bad_hidden_settings[] = {
    {"SECKILL_REDIS_URL", "http://127.0.0.1", "redis://"},
    {"SECKILL_REDIS_URL", "127.0.0.1:6379", "redis://"},
    {"SECKILL_REDIS_URL", "redis://127.0.0.1:port", "port"},
    {"SECKILL_REDIS_URL", "redis://:hunter2@127.0.0.1:65536", "65535"},
    {"SECKILL_REDIS_URL", "redis://:hunter2%zz@127.0.0.1", "malformed"},
    {"SECKILL_REDIS_URL", "redis://127.0.0.1?cacert=/ca", "unknown parameter"},
    {"SECKILL_REDIS_URL", "rediss://127.0.0.1?cert=/cert", "cert and key"},
    {"SECKILL_DATABASE_URL", "mysql://x", "URI"},
    {"SECKILL_DATABASE_URL", "no equals sign", "URI"},
    {"SECKILL_DATABASE_URL", "postgresql://u:hunter2%zz@127.0.0.1/d", "percent-encoded"},
    {"SECKILL_DATABASE_URL", "postgresql://u:hunter2@[::1/d", "matching"},
    {"SECKILL_DATABASE_URL", "postgresql://u:hunter2@h/d?hunter2=1", "query parameter"},
    {"SECKILL_DATABASE_URL", "host=h password=a hunter2", "URI"},
    {"SECKILL_DATABASE_URL", "host=h password=a hunter2=b", "option"},
    {"SECKILL_DATABASE_URL", "postgresql://u:hunter2/3@127.0.0.1/d", "port"},
    {"SECKILL_DATABASE_URL", "postgresql://u:a@hunter2@127.0.0.1/d", "%40"},
    {"SECKILL_DATABASE_URL", "postgresql://127.0.0.1:65536/d", "65535"},
    {"SECKILL_DATABASE_URL", "postgresql://127.0.0.1:0/d", "65535"},
    {"SECKILL_DATABASE_URL", "postgresql://h1:5432,h2:70000/d", "65535"},
    {"SECKILL_DATABASE_URL", "host=127.0.0.1 port=-5", "65535"},
    {"SECKILL_JWT_ALG", "RS256", "SECKILL_JWT_PUBLIC_KEY_FILE"},
    {"SECKILL_JWT_KEYS_FILE", "/etc/hostname", "kid: NAME"},
    {"SECKILL_JWT_SECRET", "                                  ", "blank"},
    {"SECKILL_TICKET_SECRET", "hunter2", "32"},
    {"SECKILL_TICKET_SECRET", " \t                                ", "blank"},
    {"SECKILL_ORDER_TIMEOUT", "5000", "SECKILL_ORDER_TIMEOUT_MS"},
    {"SECKILL_WORKER", "2", "SECKILL_WORKERS"},
    {"SECKILL_DATABASE_URI", "postgresql://u:hunter2@h/d", "SECKILL_DATABASE_URL"},
    {"SECKILL_JWT_SECRETS", "hunter2", "SECKILL_JWT_SECRET"},
    {"SECKILL_", "hunter2", "unknown"},
    {"SECKILL_seckill_batch_max_and_many_more_letters_than_any_setting_has", "",
     "unknown"},
    {"SECKILL_TLS_CERT_FILE", "/etc/hostname", "SECKILL_TLS_KEY_FILE"},
    {"SECKILL_TLS_KEY_FILE", "/etc/hostname", "SECKILL_TLS_CERT_FILE"},
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

static void test_setting__weak_secret_is_refused_and_not_shown(void **state)
{
    static const char *const secrets[] = {"SECKILL_JWT_SECRET=hunter2",
                                          "SECKILL_JWT_SECRET="};

    for (size_t i = 0; i < COUNT_OF(secrets); i++) {
        const char *const env[] = {secrets[i], "SECKILL_LISTEN=127.0.0.1:0", NULL};
        const struct command_result *outcome = RUN(state, env, "serve");

        assert_int_equal(outcome->code, EXIT_USAGE);
        assert_contains(outcome->err, "SECKILL_JWT_SECRET");
        assert_contains(outcome->err, "32");
        assert_null(strstr(outcome->err, "hunter2"));
    }
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

static void test_setting__secret_file_is_refused(void **state)
{
    static const struct {
        const char *secret; /* SECKILL_JWT_SECRET */
        const char *bytes;
        size_t len;
        const char *words;
    } rows[] = {
        {"", "hunter2\0hunter2hunter2hunter2hunter2hunter2", 43, "NUL"},
        {"", "hunter2hunter2hunter2hunter2hunter2\0", 36, "NUL"},
        {"", "                                     \n", 38, "blank"},
        {"", "\n\n", 2, "blank"},
        {FIXTURE_SECRET, FIXTURE_SECRET, sizeof(FIXTURE_SECRET) - 1,
         "without SECKILL_JWT_SECRET"},
    };
    struct fixture *fixture = *state;
    char path[128], setting[200], secret[200];
    const char *const env[] = {secret, setting, NULL};

    snprintf(path, sizeof(path), "%s/bad_secret", fixture->dir);
    snprintf(setting, sizeof(setting), "SECKILL_JWT_SECRET_FILE=%s", path);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct command_result *outcome;

        snprintf(secret, sizeof(secret), "SECKILL_JWT_SECRET=%s", rows[i].secret);
        write_bytes(path, rows[i].bytes, rows[i].len);
        outcome = RUN(state, env, "token", "--user", "1");
        assert_int_equal(outcome->code, EXIT_USAGE);
        assert_contains(outcome->err, "SECKILL_JWT_SECRET_FILE");
        assert_contains(outcome->err, rows[i].words);
        assert_null(strstr(outcome->err, "hunter2"));
    }
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

static void test_setting__file_that_others_can_write_to_is_refused(void **state)
{
    static const char *const names[] = {"SECKILL_JWT_SECRET_FILE",
                                        "SECKILL_TLS_CERT_FILE",
                                        "SECKILL_JWT_PUBLIC_KEY_FILE"};
    static const unsigned modes[] = {0620, 0602, 0666};
    struct fixture *fixture = *state;
    char path[128], setting[200], mode[8];
    const char *const env[] = {"SECKILL_JWT_SECRET=", setting, NULL};

    snprintf(path, sizeof(path), "%s/writable", fixture->dir);
    write_bytes(path, FIXTURE_SECRET "\n", sizeof(FIXTURE_SECRET));
    for (size_t i = 0; i < COUNT_OF(names) * COUNT_OF(modes); i++) {
        const char *name = names[i / COUNT_OF(modes)];
        const struct command_result *outcome;

        assert_int_equal(chmod(path, modes[i % COUNT_OF(modes)]), 0);
        snprintf(mode, sizeof(mode), "%04o", modes[i % COUNT_OF(modes)]);
        snprintf(setting, sizeof(setting), "%s=%s", name, path);
        outcome = RUN(state, env, "token", "--user", "1");
        assert_int_equal(outcome->code, EXIT_USAGE);
        assert_contains(outcome->err, name);
        assert_contains(outcome->err, path);
        assert_contains(outcome->err, mode);
        assert_contains(outcome->err, "chmod go-w");
    }
}

static bool log_has(struct fixture *fixture, const struct service *service,
                    const char *words)
{
    return fixture_run(fixture, NULL,
                       (const char *[]){"grep", words, service->log_path, NULL})
               ->code == 0;
}

static void test_setting__secret_that_everybody_can_read_is_logged(void **state)
{
    static const unsigned modes[] = {0400, 0440, 0644, 0444};
    struct fixture *fixture = *state;
    char path[128], setting[200];
    const char *const env[] = {"SECKILL_JWT_SECRET=", setting, NULL};

    snprintf(path, sizeof(path), "%s/exposed", fixture->dir);
    snprintf(setting, sizeof(setting), "SECKILL_JWT_SECRET_FILE=%s", path);
    write_bytes(path, FIXTURE_SECRET "\n", sizeof(FIXTURE_SECRET));
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct service *service;

        assert_int_equal(chmod(path, modes[i]), 0);
        service = fixture_serve(fixture, env);
        assert_int_equal(service_stop(service), 0);
        assert_int_equal(log_has(fixture, service,
                                 "level=warn event=secret_exposed "
                                 "setting=SECKILL_JWT_SECRET_FILE "),
                         (modes[i] & 0004) != 0);
    }
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

    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const struct command_result *outcome = RUN(state, NULL, commands[i], "--help");

        assert_int_equal(outcome->code, 0);
        assert_contains(outcome->out, "usage: seckill");
        assert_contains(outcome->out, commands[i]);
        assert_contains(outcome->out, "Exit code");
        assert_string_equal(outcome->err, "");
    }
    assert_int_equal(RUN(state, NULL, "--help")->code, 0);
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
    assert_int_equal(RUN(state, NULL, "token")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "token", "--user", "0")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "token", "--user", "x")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "token", "--user", "1", "--role", "king")->code,
                     EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "token", "--user", "1", "--ttl", "-1")->code,
                     EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "token", "--user", "1", "--what")->code,
                     EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "token", "--user", "1", "--jti", "")->code,
                     EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "lock")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "lock", "steal", "x")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "lock", "show")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "lock", "list", "x")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "lock", "list", "--mine", "x")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "serve", "--what")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "migrate", "what")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "audit", "what")->code, EXIT_USAGE);
    assert_int_equal(RUN(state, NULL, "version", "what")->code, EXIT_USAGE);
    assert_int_equal(fixture_run(*state, NULL, (const char *[]){"seckill", NULL})->code,
                     EXIT_USAGE);
}

static void test_version__is_printed(void **state)
{
    const struct command_result *outcome = RUN(state, NULL, "version");

    assert_int_equal(outcome->code, 0);
    assert_contains(outcome->out, "seckill " SECKILL_VERSION "\ncommit ");
    assert_contains(outcome->out, "\ncompiler ");
    assert_contains(outcome->out, "\n  libuv 1."); /* from pkg-config */
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

static void test_token__makes_100_000(void **state)
{
    const struct command_result *outcome = fixture_run(
        *state, NULL,
        (const char *[]){"sh", "-c",
                         "\"$0\" token --user 5 --count 100000 | sort -u | wc -l",
                         ((struct fixture *)*state)->program, NULL});

    assert_int_equal(outcome->code, 0);
    assert_int_equal((int)number_of(outcome->out), 100000);
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

static void test_lock__lists_1000_owners_and_says_that_there_are_more(void **state)
{
    const char *text;
    int lines = 0;

    redis_do(*state, "EVAL %s 0",
             "for i = 1, 1001 do redis.call('SET', i, '0a-1-2-3-4:' .. i) end return 1");
    text = RUN(state, NULL, "lock", "list")->out;
    for (const char *at = text; (at = strstr(at, " is held by ")) != NULL; at++)
        lines++;
    assert_int_equal(lines, 1000);
    assert_contains(text, "\nand more\n");
}

static void test_lock__fails_without_redis(void **state)
{
    const char *const env[] = {"SECKILL_REDIS_URL=redis://127.0.0.1:1/0", NULL};

    assert_int_equal(RUN(state, env, "lock", "show", "x")->code, EXIT_FAILED);
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

static void test_database__down_exits_2(void **state)
{
    const char *const env[] = {"SECKILL_DATABASE_URL=postgresql://127.0.0.1:1/x", NULL};

    assert_int_equal(RUN(state, env, "audit")->code, EXIT_FAILED);
    assert_int_equal(RUN(state, env, "migrate")->code, EXIT_FAILED);
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

/* -- TLS -- */

struct tls {
    struct fixture *fixture;
    struct service *service;
};

static bool answers_with_tls(void *arg)
{
    struct tls *tls = arg;
    char script[400];

    snprintf(
        script, sizeof(script),
        "printf 'GET /healthz HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'"
        " | openssl s_client -quiet -connect %s:%u 2>&1",
        tls->service->address.host, (unsigned)tls->service->address.port);
    return strstr(
               fixture_run(tls->fixture, NULL, (const char *[]){"sh", "-c", script, NULL})
                   ->out,
               "HTTP/1.1 200") != NULL;
}

static void test_tls__is_used_when_configured(void **state)
{
    struct tls tls = {.fixture = *state};
    char key[128], cert[128], env_key[200], env_cert[200];
    const char *const env[] = {env_key, env_cert, NULL};
    const char *const argv[] = {
        "openssl",       "req",     "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
        "/CN=localhost", "-keyout", key,     "-out",    cert,       NULL};

    snprintf(key, sizeof(key), "%s/tls.key", tls.fixture->dir);
    snprintf(cert, sizeof(cert), "%s/tls.cert", tls.fixture->dir);
    assert_int_equal(fixture_run(*state, NULL, argv)->code, 0);
    snprintf(env_key, sizeof(env_key), "SECKILL_TLS_KEY_FILE=%s", key);
    snprintf(env_cert, sizeof(env_cert), "SECKILL_TLS_CERT_FILE=%s", cert);
    tls.service = fixture_spawn(*state, env);
    assert_true(becomes_true(answers_with_tls, &tls));
    assert_int_equal(request(tls.service, NULL, NULL, "GET /healthz")->status, 0);
    assert_int_equal(service_stop(tls.service), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_setting__invalid_stops_the_start_with_a_message),
        CASE(test_setting__weak_secret_is_refused_and_not_shown),
        CASE(test_setting__invalid_database_url_is_refused_by_commands),
        CASE(test_setting__names_of_tests_are_ignored),
        CASE(test_setting__secret_file_is_refused),
        CASE(test_setting__secret_from_a_file),
        CASE(test_setting__file_that_others_can_write_to_is_refused),
        CASE(test_setting__secret_that_everybody_can_read_is_logged),
        CASE(test_serve__address_in_use_is_refused),
        CASE(test_help__states_the_exit_codes),
        CASE(test_help__serve_lists_the_settings_with_defaults),
        CASE(test_usage__invalid_arguments_exit_64),
        CASE(test_version__is_printed),
        CASE(test_token__is_accepted_by_the_service),
        CASE(test_token__makes_100_000),
        CASE(test_lock__shows_and_releases),
        CASE(test_lock__lists_all_owners),
        CASE(test_lock__lists_those_of_this_host),
        CASE(test_lock__lists_1000_owners_and_says_that_there_are_more),
        CASE(test_lock__fails_without_redis),
        CASE(test_audit__finds_broken_rows),
        CASE(test_database__down_exits_2),
        CASE(test_migrate__needs_the_owner),
        CASE(test_tls__is_used_when_configured),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
