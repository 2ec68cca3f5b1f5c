/* config.c - the table of settings, and the parser of their values. */
#include "app/core/config.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#define CHOICES_MAX    5
#define FILE_BYTES_MAX 65536
#define NAME_BYTES_MAX 40

enum kind { KIND_TEXT, KIND_FILE, KIND_NUMBER, KIND_CHOICE };

static const struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *fallback; /* as in the environment */
    const char *help;
    int64_t min, max;
    const char *choices[CHOICES_MAX];
} settings[] = {
/* clang-format off */
#define AT(field) offsetof(struct config, field)
#define TEXT(name, field, fallback, help)             {name, KIND_TEXT, AT(field), fallback, help, 0, 0, {0}},
#define PATH(name, field, help)                       {name, KIND_FILE, AT(field), "", help, 0, 0, {0}},
#define NUMBER(name, field, fallback, min, max, help) {name, KIND_NUMBER, AT(field), fallback, help, min, max, {0}},
#define CHOICE(name, field, fallback, help, ...)      {name, KIND_CHOICE, AT(field), fallback, help, 0, 0, {__VA_ARGS__}},
    TEXT(  "SECKILL_LISTEN",                listen, "127.0.0.1:8080", "address and port of the HTTP server")
    NUMBER("SECKILL_WORKERS",               workers, "0", 0, 256, "number of event loops, one thread each; 0: one per core")
    TEXT(  "SECKILL_DATABASE_URL",          database_url, "postgresql:///seckill", "Postgres: a libpq URI or keyword string; several hosts are tried in turn")
    TEXT(  "SECKILL_LISTS_DATABASE_URL",    lists_url, "", "Postgres for lists and histories: a standby or an aggregate; empty: SECKILL_DATABASE_URL")
    TEXT(  "SECKILL_REDIS_URL",             redis_url, "redis://127.0.0.1:6379", "Redis: a redis://, redis-sentinel://, redis-cluster:// or unix: URL")
    CHOICE("SECKILL_JWT_ALG",               jwt_alg, "HS256", "the only signature algorithm accepted in tokens", "HS256", "RS256", "ES256")
    TEXT(  "SECKILL_JWT_SECRET",            jwt_secret, "", "HS256: the secret, at least 32 bytes")
    PATH(  "SECKILL_JWT_SECRET_FILE",       jwt_secret, "HS256: file with the secret; trailing line breaks are ignored")
    PATH(  "SECKILL_JWT_PUBLIC_KEY_FILE",   jwt_public_key, "RS256, ES256: public key (PEM)")
    PATH(  "SECKILL_JWT_PRIVATE_KEY_FILE",  jwt_private_key, "RS256, ES256: private key (PEM); only `seckill token` uses it")
    PATH(  "SECKILL_JWT_KEYS_FILE",         jwt_keys, "several secrets or public keys, each after a line \"kid: NAME\"")
    TEXT(  "SECKILL_JWT_ISSUER",            jwt_issuer, "", "required `iss` claim of a token; empty: not checked")
    TEXT(  "SECKILL_JWT_AUDIENCE",          jwt_audience, "", "required `aud` claim of a token, alone or in a list; empty: not checked")
    NUMBER("SECKILL_LOCK_LEASE_MS",         lock_lease_ms, "30000", 100, 600000, "lease of a shopper's lock; renewed until the order is complete")
    NUMBER("SECKILL_LOCK_WAIT_MS",          lock_wait_ms, "0", 0, 10000, "maximum wait for a shopper's lock; then the answer is order_in_progress")
    CHOICE("SECKILL_REDIS_DOWN",            redis_down, "reject", "without Redis: answer 503, or rely on the constraints in Postgres alone", "reject", "bypass")
    CHOICE("SECKILL_REQUIRE_DURABILITY",    require_durability, "local", "what an acknowledged order must survive: a crash of Postgres, or also its loss (remote)", "local", "remote")
    CHOICE("SECKILL_EARLY_RELEASE",         early_release, "auto", "where commits are slow, release a voucher's row before they are durable; off: never", "auto", "off")
    NUMBER("SECKILL_ORDER_TIMEOUT_MS",      order_timeout_ms, "5000", 100, 60000, "maximum time from an order request to its answer")
    NUMBER("SECKILL_BATCH_MAX",             batch_max, "1024", 1, 10000, "maximum number of orders of a voucher in one transaction")
    NUMBER("SECKILL_BATCH_VOUCHERS",        batch_vouchers, "128", 1, 1000, "maximum number of vouchers in one transaction, which those with few orders share")
    NUMBER("SECKILL_QUEUE_MAX",             queue_max, "10000", 1, 1000000, "orders in flight per worker; above this the answer is 503 overloaded")
    NUMBER("SECKILL_RATE_PER_USER",         rate_per_user, "10", 0, 1000000, "requests/s of one shopper per worker, burst twice that; 0: unlimited")
    NUMBER("SECKILL_RATE_PER_IP",           rate_per_ip, "0", 0, 1000000, "requests/s of one address per worker, burst twice that; 0: unlimited")
    TEXT(  "SECKILL_TICKET_SECRET",         ticket_secret, "", "signs purchase tickets: at least 32 bytes, equal on all instances; empty: no tickets")
    PATH(  "SECKILL_TICKET_SECRET_FILE",    ticket_secret, "file with that secret; trailing line breaks are ignored")
    NUMBER("SECKILL_TICKET_TTL_S",          ticket_ttl_s, "120", 5, 3600, "lifetime of a ticket, and of the challenge to earn one")
    TEXT(  "SECKILL_TRUSTED_PROXIES",       trusted_proxies, "", "networks whose X-Forwarded-For is trusted, e.g. 10.0.0.0/8,::1")
    NUMBER("SECKILL_CONNECTIONS_PER_IP",    connections_per_ip, "0", 0, 1000000, "connections of one address per worker, trusted proxies exempt; 0: unlimited")
    NUMBER("SECKILL_LISTENERS_MAX",         listeners_max, "10000", 0, 100000, "listeners to the stock of vouchers per worker; above this they get one event and ask again")
    NUMBER("SECKILL_IDLE_TIMEOUT_S",        idle_timeout_s, "75", 1, 3600, "maximum wait for the next request head; then the connection is closed")
    NUMBER("SECKILL_DRAIN_S",               drain_s, "1", 0, 30, "after SIGTERM, time for a proxy to use its idle connections once more")
    NUMBER("SECKILL_REQUEST_TIMEOUT_S",     request_timeout_s, "30", 1, 600, "maximum time to receive a request body, and again to send the answer")
    PATH(  "SECKILL_TLS_CERT_FILE",         tls_cert, "certificate chain (PEM); the server then accepts HTTPS only")
    PATH(  "SECKILL_TLS_KEY_FILE",          tls_key, "private key (PEM) of the certificate")
    TEXT(  "SECKILL_TLS_PRIORITY",          tls_priority, "SECURE128:%SERVER_PRECEDENCE:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-AES-128-CBC:-AES-256-CBC:-RSA", "versions and cipher suites of HTTPS: a priority string of GnuTLS")
    CHOICE("SECKILL_DEV_LOGIN",             dev_login, "0", "1: issue tokens to anyone, for development; on a loopback address only", "0", "1")
    CHOICE("SECKILL_LOG_LEVEL",             log_level, "info", "least severe level that is logged", "error", "warn", "info", "debug")
};
/* clang-format on */
#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

/* -- names -- */

/* How many bytes two names have in common, at their beginnings and at their ends. */
static size_t likeness(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b), begin = 0, end = 0;

    while (a[begin] != '\0' && a[begin] == b[begin])
        begin++;
    while (end < MIN(a_len, b_len) && a[a_len - 1 - end] == b[b_len - 1 - end])
        end++;
    return begin + end;
}

static const char *nearest_name(const char *word)
{
    const struct setting *nearest = &settings[0];

    for (const struct setting *setting = settings; setting < settings + SETTING_COUNT;
         setting++) {
        if (likeness(word, setting->name) > likeness(word, nearest->name))
            nearest = setting;
    }
    return nearest->name;
}

/* `entry` is NAME=VALUE. */
static bool is_known(const char *entry)
{
    size_t len = strcspn(entry, "=");

    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (strncmp(entry, settings[i].name, len) == 0 && settings[i].name[len] == '\0')
            return true;
    }
    return false;
}

/* A misspelt name would leave its setting at the default. The value is not shown: it may
   be a secret. */
static enum status check_names(struct err *reterr)
{
    static const char ours[] = "SECKILL_", of_tests[] = "SECKILL_TEST_";
    char name[2 * NAME_BYTES_MAX];

    for (char **entry = environ; *entry != NULL; entry++) {
        if (strncmp(*entry, ours, strlen(ours)) != 0 || is_known(*entry) ||
            strncmp(*entry, of_tests, strlen(of_tests)) == 0)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
        return err_set(reterr, STATUS_INVALID,
                       "%s is unknown; the most similar setting is %s", name,
                       nearest_name(name));
    }
    return STATUS_OK;
}

/* -- values -- */

bool config_is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

static void format_allowed(const struct setting *setting, char *text, size_t size)
{
    text[0] = '\0';
    if (setting->kind == KIND_NUMBER)
        snprintf(text, size, "%lld..%lld", (long long)setting->min,
                 (long long)setting->max);
    if (setting->kind == KIND_FILE)
        snprintf(text, size, "file path");
    for (int i = 0; i < CHOICES_MAX && setting->choices[i] != NULL; i++) {
        size_t used = strlen(text);

        snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "",
                 setting->choices[i]);
    }
}

static enum status read_number(const struct setting *setting, const char *value,
                               int64_t *ret_number, struct err *reterr)
{
    char *end;
    long long number;

    errno = 0;
    number = strtoll(value, &end, 10);
    if (errno != 0 || strspn(value, "-0123456789") != strlen(value) || *end != '\0' ||
        number < setting->min || number > setting->max)
        return err_set(reterr, STATUS_INVALID, "%s is \"%s\"; allowed are %lld to %lld",
                       setting->name, value, (long long)setting->min,
                       (long long)setting->max);
    *ret_number = number;
    return STATUS_OK;
}

static enum status read_choice(const struct setting *setting, const char *value,
                               int64_t *ret_number, struct err *reterr)
{
    char allowed[100];

    for (int i = 0; i < CHOICES_MAX && setting->choices[i] != NULL; i++) {
        if (strcmp(value, setting->choices[i]) == 0) {
            *ret_number = i;
            return STATUS_OK;
        }
    }
    format_allowed(setting, allowed, sizeof(allowed));
    return err_set(reterr, STATUS_INVALID, "%s is \"%s\"; allowed are %s", setting->name,
                   value, allowed);
}

static enum status read_file(const struct setting *setting, const char *path,
                             struct config *config, struct err *reterr)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t len;

    if (file == NULL)
        return err_set(reterr, STATUS_INVALID, "%s is \"%s\"; cannot read it: %m",
                       setting->name, path);
    text = malloc(FILE_BYTES_MAX + 1);
    len = text == NULL ? 0 : fread(text, 1, FILE_BYTES_MAX + 1, file);
    fclose(file);
    if (len == 0 || len > FILE_BYTES_MAX) {
        free(text);
        return err_set(reterr, STATUS_INVALID,
                       "%s is \"%s\"; allowed is a file of 1 to %d bytes", setting->name,
                       path, FILE_BYTES_MAX);
    }
    assert(config->file_count < CONFIG_FILES_MAX);
    config->files[config->file_count++] = text;
    if (memchr(text, '\0', len) != NULL)
        return err_set(reterr, STATUS_INVALID, "%s is \"%s\"; the file has a NUL byte",
                       setting->name, path);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    text[len] = '\0';
    if (config_is_blank(text))
        return err_set(reterr, STATUS_INVALID, "%s is \"%s\"; the file is blank",
                       setting->name, path);
    *(const char **)((char *)config + setting->offset) = text;
    return STATUS_OK;
}

/* Both names of a secret have one field, and that of the file comes second. */
static enum status read_path(const struct setting *setting, const char *path,
                             struct config *config, struct err *reterr)
{
    const char **field = (const char **)((char *)config + setting->offset);

    if (*field == NULL)
        *field = "";
    if (path[0] == '\0')
        return STATUS_OK;
    if ((*field)[0] != '\0')
        return err_set(reterr, STATUS_INVALID, "%s is \"%s\"; allowed only without %s",
                       setting->name, path, setting[-1].name);
    return read_file(setting, path, config, reterr);
}

static enum status read_setting(const struct setting *setting, struct config *config,
                                struct err *reterr)
{
    void *field = (char *)config + setting->offset;
    const char *value = getenv(setting->name); // NOLINT(concurrency-mt-unsafe): constant

    if (value == NULL || value[0] == '\0')
        value = setting->fallback;
    switch (setting->kind) {
    case KIND_NUMBER:
        return read_number(setting, value, field, reterr);
    case KIND_CHOICE:
        return read_choice(setting, value, field, reterr);
    case KIND_FILE:
        return read_path(setting, value, config, reterr);
    case KIND_TEXT:
        if (value[0] != '\0' && config_is_blank(value))
            return err_set(reterr, STATUS_INVALID, "%s is blank", setting->name);
        *(const char **)field = value;
        return STATUS_OK;
    }
    return STATUS_INVALID;
}

enum status config_read(struct config *ret_config, struct err *reterr)
{
    struct config config = {0};
    enum status status = check_names(reterr);

    for (size_t i = 0; status == STATUS_OK && i < SETTING_COUNT; i++)
        status = read_setting(&settings[i], &config, reterr);
    if (status == STATUS_OK &&
        (config.tls_cert[0] == '\0') != (config.tls_key[0] == '\0'))
        status = err_set(reterr, STATUS_INVALID,
                         "SECKILL_TLS_%s_FILE is not set; SECKILL_TLS_CERT_FILE and "
                         "SECKILL_TLS_KEY_FILE are allowed only together",
                         config.tls_cert[0] == '\0' ? "CERT" : "KEY");
    if (status == STATUS_OK)
        *ret_config = config;
    else
        config_clear(&config);
    return status;
}

void config_clear(struct config *config)
{
    for (size_t i = 0; i < config->file_count; i++)
        free(config->files[i]);
    *config = (struct config){0};
}

void config_print(FILE *out, bool markdown)
{
    char allowed[100];

    if (markdown)
        fputs("| variable | default | allowed | meaning |\n|---|---|---|---|\n", out);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &settings[i];
        const char *fallback = setting->fallback;

        format_allowed(setting, allowed, sizeof(allowed));
        if (markdown)
            fprintf(out, "| `%s` | %s%s%s | %s | %s |\n", setting->name,
                    fallback[0] ? "`" : "", fallback, fallback[0] ? "`" : "", allowed,
                    setting->help);
        else
            fprintf(out, "  %s%s%s%s%s%s%s\n      %s\n", setting->name,
                    fallback[0] ? " (" : "", fallback, fallback[0] ? ")" : "",
                    allowed[0] ? "  [" : "", allowed, allowed[0] ? "]" : "",
                    setting->help);
    }
}
