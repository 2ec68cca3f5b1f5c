/* config.h - the configuration: environment variables SECKILL_*, one table in config.c.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "base/attributes.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* In the order of the choices that config.c lists. */
enum config_alg { CONFIG_HS256, CONFIG_RS256, CONFIG_ES256 };
enum config_redis_down { CONFIG_REJECT, CONFIG_BYPASS };

#define CONFIG_FILES_MAX 8

/** Strings are the environment's, or the config's own (config_clear() frees those).
 *  Optional ones are "" when not given. */
struct config {
    const char *listen; /* host:port, [v6]:port */
    const char *database_url;
    const char *redis_url;
    const char *jwt_secret;      /* for HS256 */
    const char *jwt_public_key;  /* PEM, for RS256 and ES256 */
    const char *jwt_private_key; /* PEM, for `seckill token` with those */
    const char *jwt_keys;        /* several of them by kid, see auth.h */
    const char *jwt_issuer;
    const char *jwt_audience;
    const char *tls_cert; /* PEM; "" for plain HTTP */
    const char *tls_key;
    int64_t jwt_alg;    /* enum config_alg */
    int64_t redis_down; /* enum config_redis_down */
    int64_t log_level;  /* enum log_level */
    int64_t workers;    /* 0: one per core */
    int64_t lock_lease_ms;
    int64_t lock_wait_ms;
    int64_t order_timeout_ms;
    int64_t batch_max;
    int64_t queue_max;
    int64_t rate_per_user; /* requests per second, 0: off */
    int64_t rate_per_ip;
    const char *ticket_secret;
    int64_t ticket_ttl_s;
    const char *trusted_proxies;   /* networks, see address.h */
    int64_t connections_per_ip;    /* 0: off */
    int64_t idle_timeout_s;        /* between two requests of a connection */
    int64_t request_timeout_s;     /* for the client's part in one */
    int64_t dev_login;             /* 0, 1: give anybody a token */
    char *files[CONFIG_FILES_MAX]; /* what was read from files */
    size_t file_count;
};

/**
 * Read the whole table from the environment; files are read here too. The environment
 * must not change meanwhile.
 *
 * @ret_config  set on STATUS_OK; config_clear() it
 *
 * Returns  STATUS_OK; STATUS_INVALID: `reterr` names the variable, its value and what is
 *          allowed
 */
MUST_CHECK enum status config_read(struct config *ret_config, struct err *reterr);

void config_clear(struct config *config);

/** The table as text for --help, or as rows of Markdown. */
void config_print(FILE *out, bool markdown);

#endif
