/* config.h - settings: environment variables SECKILL_*. */
#ifndef CONFIG_H
#define CONFIG_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Each enum lists the choices of its setting in the sequence of CONFIG_SETTINGS. */
enum config_alg { CONFIG_HS256, CONFIG_RS256, CONFIG_ES256 };
enum config_redis_down { CONFIG_REJECT, CONFIG_BYPASS };
enum config_early_release { CONFIG_AUTO, CONFIG_OFF };

#define CONFIG_FILES_MAX 8

/* clang-format off */
/* The settings. Each kind of setting has its own macro. Defaults are written as in the environment.
     TEXT(name, field, default, meaning)
     PATH(name, field, meaning)         the field gets the contents of the file
     SECRET(name, field, meaning)       as PATH; a file that everybody can read causes a warning
     ALSO_SECRET(name, field, meaning)  as SECRET; has the same field as the TEXT before it
     NUMBER(name, field, default, least, greatest, meaning)
     CHOICE(name, field, default, meaning, choices...)  the field gets the index of the choice */
#define CONFIG_SETTINGS(TEXT, PATH, SECRET, ALSO_SECRET, NUMBER, CHOICE) \
    TEXT(      "SECKILL_LISTEN",               listen, "127.0.0.1:8080", "address and port of the HTTP server") \
    NUMBER(    "SECKILL_WORKERS",              workers, "0", 0, 256, "number of event loops that serve HTTP, one thread each; if there are several, another one sells for them; 0: one per core") \
    TEXT(      "SECKILL_DATABASE_URL",         database_url, "postgresql:///seckill", "Postgres: a libpq URI or keyword string; several hosts are tried in turn") \
    TEXT(      "SECKILL_LISTS_DATABASE_URL",   lists_url, "", "Postgres for lists and histories: a standby or an aggregate; empty: SECKILL_DATABASE_URL") \
    TEXT(      "SECKILL_REDIS_URL",            redis_url, "redis://127.0.0.1:6379", "Redis: a redis://, redis-sentinel://, redis-cluster:// or unix: URL") \
    CHOICE(    "SECKILL_JWT_ALG",              jwt_alg, "HS256", "the only signature algorithm accepted in tokens", "HS256", "RS256", "ES256") \
    TEXT(      "SECKILL_JWT_SECRET",           jwt_secret, "", "HS256: the secret, at least 32 bytes") \
    ALSO_SECRET("SECKILL_JWT_SECRET_FILE",     jwt_secret, "HS256: file with the secret; trailing line breaks are ignored") \
    PATH(      "SECKILL_JWT_PUBLIC_KEY_FILE",  jwt_public_key, "RS256, ES256: public key (PEM)") \
    SECRET(    "SECKILL_JWT_PRIVATE_KEY_FILE", jwt_private_key, "RS256, ES256: private key (PEM); only `seckill token` uses it") \
    SECRET(    "SECKILL_JWT_KEYS_FILE",        jwt_keys, "several secrets or public keys, each after a line \"kid: NAME\"") \
    PATH(      "SECKILL_JWT_JWKS_FILE",        jwt_jwks, "RS256, ES256: public keys as a JSON Web Key Set; read again when the file changes") \
    TEXT(      "SECKILL_JWT_USER_CLAIM",       jwt_user_claim, "sub", "claim with the number of the user; a dot leads into an object") \
    TEXT(      "SECKILL_JWT_ROLE_CLAIM",       jwt_role_claim, "role", "claim with the role, or with a list that contains the role; a dot leads into an object") \
    TEXT(      "SECKILL_JWT_ISSUER",           jwt_issuer, "", "required `iss` claim of a token; empty: not checked") \
    TEXT(      "SECKILL_JWT_AUDIENCE",         jwt_audience, "", "required `aud` claim of a token, alone or in a list; empty: not checked") \
    NUMBER(    "SECKILL_LOCK_LEASE_MS",        lock_lease_ms, "30000", 100, 600000, "lease of a shopper's lock; renewed until the order is complete") \
    NUMBER(    "SECKILL_LOCK_WAIT_MS",         lock_wait_ms, "0", 0, 10000, "maximum wait for a shopper's lock; then the answer is order_in_progress") \
    CHOICE(    "SECKILL_REDIS_DOWN",           redis_down, "reject", "without Redis: answer 503, or rely on the constraints in Postgres alone", "reject", "bypass") \
    CHOICE(    "SECKILL_REQUIRE_DURABILITY",   require_durability, "local", "what an acknowledged order must survive: a crash of Postgres, or also its loss (remote)", "local", "remote") \
    CHOICE(    "SECKILL_EARLY_RELEASE",        early_release, "auto", "where a sale is then faster, release a voucher's row before its orders are durable; off: never", "auto", "off") \
    NUMBER(    "SECKILL_ORDER_TIMEOUT_MS",     order_timeout_ms, "5000", 100, 60000, "maximum time from an order request to its answer") \
    NUMBER(    "SECKILL_BATCH_MAX",            batch_max, "1024", 1, 10000, "maximum number of orders of a voucher in one transaction") \
    NUMBER(    "SECKILL_BATCH_VOUCHERS",       batch_vouchers, "128", 1, 1000, "maximum number of vouchers in one transaction, which those with few orders share") \
    NUMBER(    "SECKILL_QUEUE_MAX",            queue_max, "10000", 1, 1000000, "orders in flight per instance; above this the answer is 503 overloaded") \
    NUMBER(    "SECKILL_RATE_PER_USER",        rate_per_user, "10", 0, 1000000, "requests/s of one shopper per worker, burst twice that; 0: unlimited") \
    NUMBER(    "SECKILL_RATE_PER_IP",          rate_per_ip, "0", 0, 1000000, "requests/s of one address per worker, burst twice that; 0: unlimited") \
    TEXT(      "SECKILL_TICKET_SECRET",        ticket_secret, "", "signs purchase tickets: at least 32 bytes, equal on all instances; empty: no tickets") \
    ALSO_SECRET("SECKILL_TICKET_SECRET_FILE",  ticket_secret, "file with that secret; trailing line breaks are ignored") \
    NUMBER(    "SECKILL_TICKET_TTL_S",         ticket_ttl_s, "120", 5, 3600, "lifetime of a ticket, and of the challenge to earn one") \
    TEXT(      "SECKILL_TRUSTED_PROXIES",      trusted_proxies, "", "networks whose X-Forwarded-For is trusted, e.g. 10.0.0.0/8,::1") \
    NUMBER(    "SECKILL_CONNECTIONS_PER_IP",   connections_per_ip, "0", 0, 1000000, "connections of one address per worker, trusted proxies exempt; 0: unlimited") \
    NUMBER(    "SECKILL_LISTENERS_MAX",        listeners_max, "10000", 0, 100000, "listeners to the stock of vouchers per worker; above this they get one event and ask again") \
    NUMBER(    "SECKILL_IDLE_TIMEOUT_S",       idle_timeout_s, "75", 1, 3600, "maximum wait for the next request head; then the connection is closed") \
    NUMBER(    "SECKILL_DRAIN_S",              drain_s, "1", 0, 30, "after SIGTERM, time for a proxy to use its idle connections once more") \
    NUMBER(    "SECKILL_REQUEST_TIMEOUT_S",    request_timeout_s, "30", 1, 600, "maximum time to receive a request body, and again to send the answer") \
    PATH(      "SECKILL_TLS_CERT_FILE",        tls_cert, "certificate chain (PEM); the server then accepts HTTPS only") \
    SECRET(    "SECKILL_TLS_KEY_FILE",         tls_key, "private key (PEM) of the certificate") \
    TEXT(      "SECKILL_TLS_PRIORITY",         tls_priority, "SECURE128:%SERVER_PRECEDENCE:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-AES-128-CBC:-AES-256-CBC:-RSA", "versions and cipher suites of HTTPS: a priority string of GnuTLS") \
    TEXT(      "SECKILL_WEBHOOK_NETWORKS",     webhook_networks, "", "networks that webhooks may reach besides public addresses, also by plain HTTP, e.g. 10.1.0.0/16") \
    TEXT(      "SECKILL_CURRENCY",             currency, "CNY", "ISO 4217 code of the currency in which the pages show amounts") \
    CHOICE(    "SECKILL_DEV_LOGIN",            dev_login, "0", "1: issue tokens to anyone, for development; on a loopback address only", "0", "1") \
    CHOICE(    "SECKILL_LOG_LEVEL",            log_level, "info", "least severe level that is logged", "error", "warn", "info", "debug")
/* clang-format on */

/** The strings point into the environment or into `files`, which config_clear() frees. If a setting
 *  is not set, its string is the default or "". */
struct config {
#define CONFIG_STRING(name, field, ...)  const char *field;
#define CONFIG_INTEGER(name, field, ...) int64_t field;
#define CONFIG_NOTHING(...)
    CONFIG_SETTINGS(CONFIG_STRING, CONFIG_STRING, CONFIG_STRING, CONFIG_NOTHING,
                    CONFIG_INTEGER, CONFIG_INTEGER)
#undef CONFIG_STRING
#undef CONFIG_INTEGER
#undef CONFIG_NOTHING
    char *files[CONFIG_FILES_MAX];
    size_t file_count;
    const char *exposed[CONFIG_FILES_MAX];
    size_t exposed_count;
};

/**
 * Read all settings from the environment, and the files that they name. A file is refused if users
 * other than its owner can write to it, because they could replace the key. The environment
 * must not change during the call or later, because the config points into the environment.
 *
 * @ret_config  set on RLOCK_OK; to be cleared with config_clear()
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: `reterr` names the variable, its value and the
 *          allowed values, or an unknown SECKILL_* and the most similar setting. `reterr`
 *          shows no secret
 */
MUST_CHECK enum rlock_status config_read(struct config *ret_config,
                                         struct rlock_err *reterr);

void config_clear(struct config *config);

/** Returns true if the text is "" or has only spaces, tabs and line breaks. */
bool config_is_blank(const char *text);

void config_print(FILE *out);

#endif
