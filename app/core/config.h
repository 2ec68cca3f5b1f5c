/* config.h - settings: environment variables SECKILL_*, listed in config.c. */
#ifndef CONFIG_H
#define CONFIG_H

#include "base/attributes.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* In the order of the choices in config.c. */
enum config_alg { CONFIG_HS256, CONFIG_RS256, CONFIG_ES256 };
enum config_redis_down { CONFIG_REJECT, CONFIG_BYPASS };
enum config_early_release { CONFIG_AUTO, CONFIG_OFF };

#define CONFIG_FILES_MAX 8

/** Strings point into the environment or into `files`, which config_clear() frees. A
 *  string that is not set is "". */
struct config {
    const char *listen; /* host:port, [v6]:port */
    const char *database_url;
    const char *lists_url;
    const char *redis_url;
    const char *jwt_secret;      /* for HS256 */
    const char *jwt_public_key;  /* PEM, for RS256 and ES256 */
    const char *jwt_private_key; /* PEM, for `seckill token` with those */
    const char *jwt_keys;        /* several keys by kid, see auth.h */
    const char *jwt_issuer;
    const char *jwt_audience;
    const char *tls_cert; /* PEM; "" for plain HTTP */
    const char *tls_key;
    const char *tls_priority;   /* see http_tls_check_priority() */
    int64_t jwt_alg;            /* enum config_alg */
    int64_t redis_down;         /* enum config_redis_down */
    int64_t early_release;      /* enum config_early_release */
    int64_t require_durability; /* 0: local, 1: remote */
    int64_t log_level;          /* enum log_level */
    int64_t workers;            /* 0: one per core */
    int64_t lock_lease_ms;
    int64_t lock_wait_ms;
    int64_t order_timeout_ms;
    int64_t batch_max;
    int64_t batch_vouchers;
    int64_t queue_max;
    int64_t rate_per_user; /* requests per second; 0: unlimited */
    int64_t rate_per_ip;
    const char *ticket_secret;
    int64_t ticket_ttl_s;
    const char *trusted_proxies; /* networks, see address.h */
    int64_t connections_per_ip;  /* 0: unlimited */
    int64_t listeners_max;
    int64_t idle_timeout_s;        /* between two requests of a connection */
    int64_t drain_s;               /* for the last request of an idle connection */
    int64_t request_timeout_s;     /* to receive a body, and to send an answer */
    int64_t dev_login;             /* 1: issue a token to anyone */
    char *files[CONFIG_FILES_MAX]; /* contents of the files that were read */
    size_t file_count;
};

/**
 * Read all settings from the environment, and the files that they name. The environment
 * must not change during the call, or later: the config points into it.
 *
 * @ret_config  set on STATUS_OK; to be cleared with config_clear()
 *
 * Returns  STATUS_OK; STATUS_INVALID: `reterr` names the variable, its value and the
 *          allowed values, or the setting that an unknown SECKILL_* is most similar to.
 *          It shows no secret
 */
MUST_CHECK enum status config_read(struct config *ret_config, struct err *reterr);

void config_clear(struct config *config);

/** True: nothing but spaces, tabs and line breaks; also for "". */
bool config_is_blank(const char *text);

/** Print the table of settings as text for --help, or as Markdown. */
void config_print(FILE *out, bool markdown);

#endif
