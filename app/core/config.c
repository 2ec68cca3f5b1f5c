/* config.c - the one table of settings, and how a variable becomes a value. */
#include "app/core/config.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CHOICES_MAX    5
#define FILE_BYTES_MAX 65536

enum kind { KIND_TEXT, KIND_FILE, KIND_NUMBER, KIND_CHOICE };

static const struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *fallback; /* as it would stand in the environment */
    int64_t min, max;
    const char *choices[CHOICES_MAX];
    const char *help;
} settings[] = {
#define AT(field) offsetof(struct config, field)
    {"SECKILL_LISTEN",
     KIND_TEXT,
     AT(listen),
     "127.0.0.1:8080",
     0,
     0,
     {0},
     "address and port to answer HTTP on"},
    {"SECKILL_WORKERS",
     KIND_NUMBER,
     AT(workers),
     "0",
     0,
     256,
     {0},
     "event loops, each a thread; 0: one per core"},
    {"SECKILL_DATABASE_URL",
     KIND_TEXT,
     AT(database_url),
     "postgresql:///seckill",
     0,
     0,
     {0},
     "Postgres, as a libpq URI or keyword string"},
    {"SECKILL_REDIS_URL",
     KIND_TEXT,
     AT(redis_url),
     "redis://127.0.0.1:6379",
     0,
     0,
     {0},
     "Redis for the locks: redis://, rediss:// or unix:"},
    {"SECKILL_JWT_ALG",
     KIND_CHOICE,
     AT(jwt_alg),
     "HS256",
     0,
     0,
     {"HS256", "RS256", "ES256"},
     "the one algorithm that tokens may be signed with"},
    {"SECKILL_JWT_SECRET",
     KIND_TEXT,
     AT(jwt_secret),
     "",
     0,
     0,
     {0},
     "the secret of HS256, at least 32 bytes"},
    {"SECKILL_JWT_SECRET_FILE",
     KIND_FILE,
     AT(jwt_secret),
     "",
     0,
     0,
     {0},
     "the same from a file, a line break at its end left out"},
    {"SECKILL_JWT_PUBLIC_KEY_FILE",
     KIND_FILE,
     AT(jwt_public_key),
     "",
     0,
     0,
     {0},
     "public key (PEM) of RS256 or ES256"},
    {"SECKILL_JWT_PRIVATE_KEY_FILE",
     KIND_FILE,
     AT(jwt_private_key),
     "",
     0,
     0,
     {0},
     "private key (PEM), read by `seckill token` only"},
    {"SECKILL_JWT_KEYS_FILE",
     KIND_FILE,
     AT(jwt_keys),
     "",
     0,
     0,
     {0},
     "several secrets or public keys: lines \"kid: NAME\", the key on the lines after "
     "each"},
    {"SECKILL_JWT_ISSUER",
     KIND_TEXT,
     AT(jwt_issuer),
     "",
     0,
     0,
     {0},
     "if given, what the claim iss of a token must be"},
    {"SECKILL_JWT_AUDIENCE",
     KIND_TEXT,
     AT(jwt_audience),
     "",
     0,
     0,
     {0},
     "if given, what the claim aud of a token must be or hold"},
    {"SECKILL_LOCK_LEASE_MS",
     KIND_NUMBER,
     AT(lock_lease_ms),
     "30000",
     100,
     600000,
     {0},
     "lease of a shopper's lock; renewed while the order is under way"},
    {"SECKILL_LOCK_WAIT_MS",
     KIND_NUMBER,
     AT(lock_wait_ms),
     "0",
     0,
     10000,
     {0},
     "how long a request waits for its shopper's lock before order_in_progress"},
    {"SECKILL_REDIS_DOWN",
     KIND_CHOICE,
     AT(redis_down),
     "reject",
     0,
     0,
     {"reject", "bypass"},
     "without Redis: answer 503, or sell under Postgres's constraints alone"},
    {"SECKILL_ORDER_TIMEOUT_MS",
     KIND_NUMBER,
     AT(order_timeout_ms),
     "5000",
     100,
     60000,
     {0},
     "an order is answered within this time"},
    {"SECKILL_BATCH_MAX",
     KIND_NUMBER,
     AT(batch_max),
     "1024",
     1,
     10000,
     {0},
     "orders in one transaction"},
    {"SECKILL_QUEUE_MAX",
     KIND_NUMBER,
     AT(queue_max),
     "10000",
     1,
     1000000,
     {0},
     "orders under way per worker; more are answered 503 overloaded"},
    {"SECKILL_RATE_PER_USER",
     KIND_NUMBER,
     AT(rate_per_user),
     "10",
     0,
     1000000,
     {0},
     "requests per second of one shopper, per worker, burst twice that; 0: no limit"},
    {"SECKILL_RATE_PER_IP",
     KIND_NUMBER,
     AT(rate_per_ip),
     "0",
     0,
     1000000,
     {0},
     "the same of one address"},
    {"SECKILL_TICKET_SECRET",
     KIND_TEXT,
     AT(ticket_secret),
     "",
     0,
     0,
     {0},
     "signs purchase tickets, at least 32 bytes, the same in all instances; without it "
     "there are none"},
    {"SECKILL_TICKET_SECRET_FILE",
     KIND_FILE,
     AT(ticket_secret),
     "",
     0,
     0,
     {0},
     "the same from a file"},
    {"SECKILL_TICKET_TTL_S",
     KIND_NUMBER,
     AT(ticket_ttl_s),
     "120",
     5,
     3600,
     {0},
     "how long a ticket, or a challenge to earn one, is good"},
    {"SECKILL_TRUSTED_PROXIES",
     KIND_TEXT,
     AT(trusted_proxies),
     "",
     0,
     0,
     {0},
     "networks, 10.0.0.0/8,::1, whose X-Forwarded-For is believed"},
    {"SECKILL_CONNECTIONS_PER_IP",
     KIND_NUMBER,
     AT(connections_per_ip),
     "0",
     0,
     1000000,
     {0},
     "open connections of one address, per worker; trusted proxies have no limit; 0: no "
     "limit"},
    {"SECKILL_IDLE_TIMEOUT_S",
     KIND_NUMBER,
     AT(idle_timeout_s),
     "75",
     1,
     3600,
     {0},
     "a connection is closed that has not sent the head of a request for so long"},
    {"SECKILL_REQUEST_TIMEOUT_S",
     KIND_NUMBER,
     AT(request_timeout_s),
     "30",
     1,
     600,
     {0},
     "for a client to send the body of a request, and again to fetch the answer"},
    {"SECKILL_TLS_CERT_FILE",
     KIND_FILE,
     AT(tls_cert),
     "",
     0,
     0,
     {0},
     "certificate chain (PEM): with it the service speaks HTTPS only"},
    {"SECKILL_TLS_KEY_FILE",
     KIND_FILE,
     AT(tls_key),
     "",
     0,
     0,
     {0},
     "key (PEM) of that certificate"},
    {"SECKILL_DEV_LOGIN",
     KIND_CHOICE,
     AT(dev_login),
     "0",
     0,
     0,
     {"0", "1"},
     "1: the pages give themselves tokens, for development; only on a loopback address"},
    {"SECKILL_LOG_LEVEL",
     KIND_CHOICE,
     AT(log_level),
     "info",
     0,
     0,
     {"error", "warn", "info", "debug"},
     "the least important lines that are logged"},
#undef AT
};
#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

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
    char allowed[100] = "";

    for (int i = 0; i < CHOICES_MAX && setting->choices[i] != NULL; i++) {
        if (strcmp(value, setting->choices[i]) == 0) {
            *ret_number = i;
            return STATUS_OK;
        }
        if (i > 0)
            strncat(allowed, ", ", sizeof(allowed) - strlen(allowed) - 1);
        strncat(allowed, setting->choices[i], sizeof(allowed) - strlen(allowed) - 1);
    }
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
        return err_set(reterr, STATUS_INVALID, "%s is \"%s\"; it cannot be read: %m",
                       setting->name, path);
    text = malloc(FILE_BYTES_MAX + 1);
    len = text == NULL ? 0 : fread(text, 1, FILE_BYTES_MAX + 1, file);
    fclose(file);
    if (len == 0 || len > FILE_BYTES_MAX) {
        free(text);
        return err_set(reterr, STATUS_INVALID,
                       "%s is \"%s\"; a file of 1 to %d bytes is allowed", setting->name,
                       path, FILE_BYTES_MAX);
    }
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    text[len] = '\0';
    assert(config->file_count < CONFIG_FILES_MAX);
    config->files[config->file_count++] = text;
    *(const char **)((char *)config + setting->offset) = text;
    return STATUS_OK;
}

static enum status read_setting(const struct setting *setting, struct config *config,
                                struct err *reterr)
{
    void *field = (char *)config + setting->offset;
    const char *value =
        getenv(setting->name); // NOLINT(concurrency-mt-unsafe): nobody changes it

    if (value == NULL || value[0] == '\0')
        value = setting->fallback;
    switch (setting->kind) {
    case KIND_NUMBER:
        return read_number(setting, value, field, reterr);
    case KIND_CHOICE:
        return read_choice(setting, value, field, reterr);
    case KIND_FILE:
        if (value[0] != '\0')
            return read_file(setting, value, config, reterr);
        if (*(const char **)field == NULL)
            *(const char **)field = "";
        return STATUS_OK;
    case KIND_TEXT:
        *(const char **)field = value;
        return STATUS_OK;
    }
    return STATUS_INVALID;
}

enum status config_read(struct config *ret_config, struct err *reterr)
{
    struct config config = {0};
    bool is_cert_missing;

    for (size_t i = 0; i < SETTING_COUNT; i++) {
        enum status status = read_setting(&settings[i], &config, reterr);

        if (status != STATUS_OK) {
            config_clear(&config);
            return status;
        }
    }
    is_cert_missing = config.tls_cert[0] == '\0';
    if (is_cert_missing != (config.tls_key[0] == '\0')) {
        config_clear(&config);
        return err_set(reterr, STATUS_INVALID,
                       "%s is not given; SECKILL_TLS_CERT_FILE and SECKILL_TLS_KEY_FILE "
                       "are allowed only together",
                       is_cert_missing ? "SECKILL_TLS_CERT_FILE"
                                       : "SECKILL_TLS_KEY_FILE");
    }
    *ret_config = config;
    return STATUS_OK;
}

void config_clear(struct config *config)
{
    for (size_t i = 0; i < config->file_count; i++)
        free(config->files[i]);
    *config = (struct config){0};
}

static void format_allowed(const struct setting *setting, char *text, size_t size)
{
    text[0] = '\0';
    if (setting->kind == KIND_NUMBER)
        snprintf(text, size, "%lld..%lld", (long long)setting->min,
                 (long long)setting->max);
    if (setting->kind == KIND_FILE)
        snprintf(text, size, "a file's path");
    for (int i = 0; i < CHOICES_MAX && setting->choices[i] != NULL; i++) {
        size_t used = strlen(text);

        snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "",
                 setting->choices[i]);
    }
}

void config_print(FILE *out, bool markdown)
{
    char allowed[100];

    if (markdown)
        fputs("| variable | default | allowed | what it is |\n|---|---|---|---|\n", out);
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
